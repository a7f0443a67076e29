"""Where lengthscales and latent scales start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skgpx._selection._learner import Candidate, climb
from skgpx._selection._search_record import SearchRecord
from skgpx._validation import Rows
from skgpx.kernels import GREKernel, default_kernel, length_scale_entries
from skgpx.likelihoods import Gaussian, Likelihood

# ---- The same kernel with other lengthscales: where searches start -------------------


def stretched(kernel: Any, log_factor: float) -> Any:
    """The same kernel with its free lengthscales multiplied, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += log_factor
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def narrowed(kernel: Any) -> Any:
    """Lengthscales divided by √2: the background of its GRE kernel is the original."""
    return stretched(kernel, -0.5 * np.log(2.0))


def with_long_lengthscales(kernel: Any, rows: Rows) -> Any:
    """The same kernel with free lengthscales of 2√d standard deviations."""
    scale = default_kernel(rows.X, rows.weights).get_params()["k2__length_scale"]
    scale = np.atleast_1d(scale)
    theta = kernel.theta.copy()
    for entries in length_scale_entries(kernel):
        several = entries.stop - entries.start > 1
        theta[entries] = np.log(scale if several else scale.mean())
    if not len(theta):
        return kernel
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def starting_kernels(
    kernel: Any, rows: Rows, n_restarts: int, rng: np.random.Generator
) -> list[Any]:
    """A kernel of the user's as it is, one with long lengthscales, and random ones."""
    starts = [kernel, with_long_lengthscales(kernel, rows)]
    for _ in range(n_restarts - 1):
        low, high = kernel.bounds.reshape(-1, 2).T
        starts.append(kernel.clone_with_theta(rng.uniform(low, high)))
    return starts[: n_restarts + 1]


def in_one_unit(kernel: Any) -> Any:
    """The default kernel with one lengthscale, and bounds, for columns of one unit."""
    scales = np.asarray(kernel.k2.length_scale)
    one = float(np.sqrt(np.mean(scales**2)))
    shares = np.asarray(kernel.k2.length_scale_bounds) / scales[:, np.newaxis]
    return clone(kernel).set_params(
        k2__length_scale=np.full_like(scales, one), k2__length_scale_bounds=one * shares
    )


# ---- The default kernel --------------------------------------------------------------


Array = NDArray[np.float64]

# Largest prior standard deviation of log odds or log rates under the default kernel:
# on separable classes the evidence would grow with it for ever.
LARGEST_STD = 6.0
# Bounds of the default kernel's amplitude and background, in units of the latent.
_AMPLITUDE, _BACKGROUND = (1e-3, 1e3), (1e-5, 1e5)


def rough_latent(rows: Rows, likelihood: Likelihood) -> Array:
    """Rough latent values of the rows around their base, (n, c)."""
    rough = np.asarray(likelihood.rough_latent(rows.y, rows.known), dtype=np.float64)
    return rough.reshape(len(rows.y), -1) - likelihood.base_latent_


def latent_scale(rows: Rows, likelihood: Likelihood) -> float:
    """Root mean square of the rough latent values: the unit of the default kernel.

    One for latent functions of known scale: those of standardised targets, log odds and
    log rates.
    """
    if likelihood.location_scale or likelihood.log_scale:
        return 1.0
    square = np.mean(rough_latent(rows, likelihood) ** 2, axis=1)
    scale = float(np.sqrt(np.average(square, weights=rows.weights)))
    return scale if np.isfinite(scale) and scale > 0.0 else 1.0


def with_base_rates(rows: Rows, likelihood: Likelihood, kernel: Any) -> Likelihood:
    """Likelihood whose prior expects, far from the data, what it did at its base.

    The variance there is that of a stationary kernel, or of the background of a GRE
    kernel; of others the mean over the rows.
    """
    if isinstance(kernel, GREKernel):
        variance = kernel.background * kernel.background_kernel().diag(rows.X)
    else:
        variance = kernel.diag(rows.X)
    return likelihood.centred(float(np.average(variance, weights=rows.weights)))


def default_latent_kernel(rows: Rows, likelihood: Likelihood, prior: str) -> Any:
    """Default kernel of a latent function whose standard deviation is `latent_scale`.

    `prior` is what it is made into, "gre" or "gp": the variance of the GRE kernel is
    up to the square of k's.
    """
    kernel, square = default_kernel(rows.X, rows.weights), 1.0
    low, high = _AMPLITUDE
    if likelihood.log_scale:
        high = LARGEST_STD if prior == "gre" else LARGEST_STD**2
    elif not likelihood.location_scale:
        square = latent_scale(rows, likelihood) ** 2
    return kernel.set_params(
        k1__constant_value=square,
        k1__constant_value_bounds=(low * square, high * square),
    )


def default_gre(
    priors: tuple[GREKernel, ...], rows: Rows, likelihood: Likelihood
) -> list[GREKernel]:
    """GRE kernels around default kernels, with the same variance as these.

    With k of variance ``a ≈ s²``, s the scale of the latent function, the integral of
    ``(k / s)²`` has about the variance ``(a / s)² ≈ s²``, and ``s k / s`` that of k.
    """
    s = latent_scale(rows, likelihood)
    low, high = (bound * s for bound in _BACKGROUND)
    if likelihood.log_scale:
        high = LARGEST_STD
    scaled = []
    for prior in priors:
        k = prior.kernel.k1
        bounds = np.ravel(k.constant_value_bounds) / s
        inside = {
            "kernel__k1__constant_value": k.constant_value / s,
            "kernel__k1__constant_value_bounds": (float(bounds[0]), float(bounds[1])),
        }
        outside = {"background": s, "background_bounds": (low, high)}
        scaled.append(clone(prior).set_params(**inside, **outside))
    return scaled


# ---- The paper's rule for hyperparameters --------------------------------------------


_MAX_ITER = 100
# (rows of a neighbourhood, neighbourhoods) for regression and for classes.
_REGRESSION, _CLASSES = (2000, 10), (1000, 5)


def average_over_neighbourhoods(
    rows: Rows, kernel: Any, likelihood: Likelihood, rng: np.random.Generator
) -> tuple[Any, Likelihood, SearchRecord]:
    """Hyperparameters of the exact Gaussian process with kernel k.

    Maximises the exact marginal likelihood of Gaussian regression on the rows nearest
    to a random centroid, several times, and averages the logarithms of what it finds;
    on all rows, once, when there are few. For other likelihoods the targets are the
    rough latent values of the rows around their base, and the likelihood's own scales
    keep their starting values.

    Parameters
    ----------
    rows : Rows
        Weights decide which rows count as centroids only.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without white noise.
    likelihood : Likelihood
    rng : numpy.random.Generator

    Returns
    -------
    kernel, likelihood
        With the averaged hyperparameters.
    record : SearchRecord

    Notes
    -----
    O(2000^3) for each evaluation of each neighbourhood. Appendix N.1 of
    [1]_. The lengthscales it finds suit an exact process and are too short for few
    inducing points.

    References
    ----------
    .. [1] Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for
       Bayesian inference in function space".
    """
    size, repeats = _REGRESSION if likelihood.location_scale else _CLASSES
    n = len(rows.y)
    targets = rough_latent(rows, likelihood)
    noise = likelihood
    if not isinstance(noise, Gaussian):
        noise = Gaussian().prepare(targets.ravel())
    candidate = Candidate.of_kernel(kernel)
    thetas = []
    for _ in range(repeats if n > size else 1):
        chosen = _neighbourhood(rows, size, rng)
        for y in targets[chosen].T:
            block = rows.take(chosen)._replace(y=y, weights=np.ones(len(chosen)))
            if noise is not likelihood:
                block = block._replace(known=None)
            found = climb(candidate, noise, (block,), kernel.theta, _MAX_ITER)
            thetas.append(np.concatenate((found.u, found.likelihood.theta)))
    mean, p = np.mean(thetas, axis=0), candidate.n_free
    if isinstance(likelihood, Gaussian):
        likelihood = likelihood.with_theta(mean[p:])
    record = SearchRecord("exact evidence, averaged", n, min(n, size))
    if n > size:
        near = f"{repeats} of {size} rows"
        record = record._replace(rows_searched=0, neighbourhoods=near)
    return candidate.kernel_at(mean[:p]), likelihood, record


def _neighbourhood(rows: Rows, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The `size` rows nearest to a row drawn at random."""
    n = len(rows.y)
    if n <= size:
        return np.arange(n)
    centroid = rows.X[rng.choice(n, p=rows.weights / rows.weights.sum())]
    distance = np.sum((rows.X - centroid) ** 2, axis=1)
    return np.sort(np.argpartition(distance, size)[:size])
