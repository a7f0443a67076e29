"""Any likelihood as normal noise around working responses, and a search with these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import laplace
from skgpx._numerics.expectations import (
    expectation_nodes,
    product_nodes,
    rotated_nodes,
)
from skgpx._numerics.langevin import Target
from skgpx._numerics.smoothing import is_smoothed, smoothed
from skgpx._row_budgets import MODE_ROWS, SEARCHED_ROWS
from skgpx._selection._evidence import Inducing, rough_start, row_target, with_noise
from skgpx._selection._maximise import SearchResult
from skgpx._selection._select import SearchBudget, Split, subset, train
from skgpx._selection._sparse import MAX_INDUCING_SEARCHED
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Least information of a row under a likelihood that is not log-concave, as a share of
# the mean over all rows.
_LEAST_INFORMATION = 1e-2
# Nodes for each of two functions, over whose distribution a likelihood is averaged.
_SCALE_NODES = 5
# Rotations of the nodes for more functions.
_ROTATIONS = 8


class WorkingResponses(NamedTuple):
    """Normal observations to which a likelihood is equal, to second order around f.

    ::

        Σ ω log p(y | f) = constant + Σ log N(z | f, noise) + O((f - f̂)³)
        z = f̂ - g / c,   noise = 1 / (ω c)

    with the gradient g and the curvature c of the negative log-likelihood. The mean of
    f given z is the next step of Newton's method, and at its fixed point the process
    given z is Laplace's approximation.

    With ``g`` and ``c`` averaged over ``N(f̂, variance)``, where f̂ and `variance` are
    the moments of the process given z itself, that process is the normal distribution
    that is closest to the posterior, in Kullback-Leibler divergence from it [1]_.

    Several functions have independent noise, whose precision is the diagonal of the
    averaged curvature. Softmax probabilities depend on contrasts between classes only:
    with the shares ``s = v / Σ v`` of the variances ``v = E p (1 - p)`` of the classes
    the precision is ``ω v / (1 - Σ s²)``, under which contrasts between independent
    functions have the variances of the coupled ones; for two classes, or equal
    variances, without an error.

    Attributes
    ----------
    latent, variance : ndarray of shape (n, c)
        ``f̂``, less the base of each latent function, and its variances; the latter are
        zero in Laplace's approximation.
    slope : ndarray of shape (n, c)
        ``ω g``.
    noise : ndarray of shape (n, c)
        Variances around z.
    energy : float
        ``-Σ ω log p(y | f̂)``, averaged over ``N(f̂, variance)``.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """

    latent: Array
    variance: Array
    slope: Array
    noise: Array
    energy: float

    @property
    def y(self) -> Array:
        """``z``, less the bases of the latent functions, (n, c)."""
        return self.latent - self.noise * self.slope

    @property
    def constant(self) -> float:
        """Log evidence less the log density of z, in nats.

        With variances, the lower bound ``E log p(y | f) - KL`` less that density: at
        the fixed point the divergence from the prior equals the divergence of the mode
        with the same noise, less ``½ Σ variance / noise``.
        """
        terms = self.noise * self.slope**2 + np.log(2.0 * np.pi * self.noise)
        terms += self.variance / self.noise
        return 0.5 * float(np.sum(terms)) - self.energy

    @classmethod
    def of(
        cls,
        rows: Rows,
        likelihood: Likelihood,
        latent: Array,
        variance: Array | None = None,
    ) -> WorkingResponses:
        """Of rows at latent values (n, c), less the bases of their functions."""
        n = len(latent)
        feature = np.ones((n, 1))
        target = smoothed(row_target(feature, rows, likelihood))
        factor = target.features
        omega = target.weights[:, np.newaxis]
        # negative log-likelihood of each row, its gradient and its curvature
        f = target.offset + factor * latent
        if variance is None:
            variance = np.zeros_like(latent)
            nll, slope, curvature = laplace.row_averages(target, f)
        else:
            target = target._replace(std=factor * np.sqrt(variance))
            nll, slope, curvature = _averages(target, f)
        if depends_on_contrasts(rows, likelihood):
            shares = curvature / np.sum(curvature, axis=1, keepdims=True)
            curvature = curvature / (1.0 - np.sum(shares**2, axis=1, keepdims=True))
        curvature = factor**2 * curvature
        # a row without curvature has little information, but some: it may have
        # curvature at the place to which its mean goes
        positive = np.maximum(curvature, 0.0)
        information = np.average(positive, axis=0, weights=target.weights)
        curvature = np.maximum(curvature, _LEAST_INFORMATION * information)
        return cls(
            latent=latent,
            variance=variance,
            slope=omega * factor * slope,
            noise=1.0 / (omega * curvature),
            energy=float(target.weights @ nll),
        )


def _averages(target: Target, f: Array) -> tuple[Array, Array, Array]:
    """Row averages over ``N(f, std²)``, see :func:`laplace.row_averages`.

    One function has Gauss's rule. So do each of two, as a scale is averaged together
    with the location. For more, every k-th row has another rotation of a spherical
    rule: in sums over rows their errors nearly cancel.
    """
    n, c = f.shape
    if c == 1:
        nodes, masses = expectation_nodes(1)
        rotations = nodes[np.newaxis]
    elif c == 2:
        nodes, masses = product_nodes(2, _SCALE_NODES)
        rotations = nodes[np.newaxis]
    else:
        rotations, masses = rotated_nodes(c, _ROTATIONS)
    if len(rotations) == 1:
        ruled = target._replace(nodes=rotations[0], node_weights=masses)
        return laplace.row_averages(ruled, f)
    nll = np.empty(n)
    slope = np.empty((n, c))
    second = np.empty((n, c))
    for first, nodes in enumerate(rotations):
        part = slice(first, None, len(rotations))
        ruled = target._replace(
            likelihood=target.likelihood.at_some(part),
            y=target.y[part],
            weights=target.weights[part],
            std=target.std[part],
            nodes=nodes,
            node_weights=masses,
        )
        nll[part], slope[part], second[part] = laplace.row_averages(ruled, f[part])
    return nll, slope, second


def depends_on_contrasts(rows: Rows, likelihood: Likelihood) -> bool:
    """Whether a number may be added to all functions, as to those of classes."""
    few_rows = rows.take(slice(4))
    feature = np.ones((len(few_rows.y), 1))
    target = row_target(feature, few_rows, likelihood)
    return laplace.between_classes(target) is not None


def working_responses(
    start: SearchResult,
    rows: Rows,
    inducing: Inducing,
    rng: np.random.Generator,
) -> tuple[SearchResult, float]:
    """Train a kernel on many rows of a likelihood that is not Gaussian.

    As in regression, on rows from all over the data, with working responses around the
    mode of few inducing points, of at most 40 000 rows. A scale in units of the latent
    function is trained too; others stay as they are.

    Returns
    -------
    result : SearchResult
        `start` itself where working responses do not describe the likelihood.
    noise_variance : float
        Harmonic mean of the noise variances of the working responses; NaN for `start`.
    """
    # 1 the mode of the latent function, by few inducing points
    order = rng.permutation(len(rows.y))
    sample = subset(rows, order[:MODE_ROWS])
    Z = select_inducing(
        inducing,
        sample.X,
        start.kernel,
        MAX_INDUCING_SEARCHED,
        rng,
        sample.weights,
    )
    basis = Nystroem.from_kernel(start.kernel, Z)
    features = basis(sample.X)
    target = smoothed(row_target(features, sample, start.likelihood))
    if is_smoothed(target):
        return start, np.nan
    rough = rough_start(target)
    mode = laplace.find_mode(target, rough, 1e-2)
    latent = features @ mode.weights
    responses = WorkingResponses.of(sample, start.likelihood, latent)
    z = responses.y[:, 0]
    noise = responses.noise[:, 0]
    # 2 do they describe the likelihood? The mean square of its slopes is its
    # information; few rows are without curvature, as they are where it is not
    # log-concave
    difference = z - latent[:, 0]
    slopes = np.sum((difference / noise) ** 2)
    information = np.sum(1.0 / noise)
    flat_share = np.mean(difference**2 / noise > 1e3)
    if not (slopes < 4.0 * information and flat_share < 0.02):
        return start, np.nan
    # 3 regression on the working responses, in which no row counts more than once; its
    # noise is free where the likelihood has a scale in units of the latent function
    level = float(noise.min())
    normal_rows = Rows(sample.X, z, np.ones(len(z)), noise / level)
    likelihood = start.likelihood
    scale_is_free = likelihood.location_scale and len(likelihood.theta)
    normal = Gaussian(level)
    if scale_is_free:
        normal = Gaussian()
    normal = normal.prepare(z, normal_rows.weights, normal_rows.known)
    if scale_is_free:
        normal = with_noise(normal, level)
    budget = SearchBudget(screening_rows=SEARCHED_ROWS)
    split = Split.of(normal_rows, budget, rng)
    normal_start = start._replace(likelihood=normal)
    result = train([normal_start], split)
    trained_noise = float(result.likelihood.variance(0.0))
    ratio = trained_noise / level
    if scale_is_free:
        likelihood = likelihood.scaled(ratio**0.5)
    mean_noise = ratio * len(z) / float(information)
    return start._replace(u=result.u, likelihood=likelihood), mean_noise
