"""How many inducing points a kernel needs, where a likelihood is not Gaussian.

Judged by normal noise around the rough latent values of some rows: the collapsed bound
of points, at the amplitude and the noise that maximise it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._hyperparameters._latent_scale import rough_latent
from skgpx._hyperparameters._search_rows import SOME_ROWS, sampled
from skgpx._numerics.regression import weight_statistics
from skgpx._numerics.series_evidence import ScaleProfile
from skgpx._validation import Rows, standardisation
from skgpx.bases import Nystroem, select_inducing, select_until
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# The most points that a model takes, and the most that are counted.
MOST, _COUNTED = 500, 1000
# Nats that more points have to gain before a search is made with them.
_LEAST_GAIN = 10.0
# Share of the prior variance that points may leave out at the rows.
_LEFT_OUT = 0.1
# Nats a row that the points of the model may leave out.
_ENOUGH = 0.01
# Noise, and variance of the function, at which a search starts; in variances of y.
_NOISE, _AMPLITUDE = (0.01, 0.1, 0.5), (0.1, 1.0, 10.0)


class Explained(NamedTuple):
    """The best bound of points.

    Attributes
    ----------
    evidence : float
        In nats.
    noise_variance : float
        In units of the kernel's own variance.
    """

    evidence: float
    noise_variance: float


def rough_targets(rows: Rows, likelihood: Likelihood) -> Rows:
    """Rows with standardised rough latent values as their targets."""
    values = rough_latent(rows, likelihood)[:, 0]
    shift, scale = standardisation(values, rows.weights, robust=likelihood.heavy_tailed)
    return Rows(rows.X, (values - shift) / scale, rows.weights)


def explained(kernel: Any, Z: Array, rows: Rows) -> Explained:
    """Bound of the points Z under normal noise; exact evidence if they are the rows.

    O(n m^2 + m^3).
    """
    basis = Nystroem.from_kernel(kernel, Z)
    features = basis(rows.X)
    left = basis.residual_variance(rows.X, features)
    sums = weight_statistics(features, rows.y, rows.precisions, left)
    profile = ScaleProfile.of(sums)
    unit = profile.square / profile.weight or 1.0
    own = float(np.mean(kernel.diag(rows.X)))
    starts = [
        np.log([noise * unit, amplitude * unit / own])
        for noise in _NOISE
        for amplitude in _AMPLITUDE
    ]

    def negative(point: Array) -> tuple[float, Array]:
        value, slope = profile.value_and_gradient(*np.exp(point).tolist())
        return -value, -slope

    best = min(starts, key=lambda start: negative(start)[0])
    limits = [(at - 15.0, at + 15.0) for at in best]
    end = optimize.minimize(negative, best, jac=True, method="L-BFGS-B", bounds=limits)
    return Explained(-float(end.fun), float(np.exp(end.x[0] - end.x[1])))


def leaves_much(rows: Rows, kernel: Any, m: int, rng: np.random.Generator) -> bool:
    """Whether m points leave more than a tenth of the prior variance at the rows."""
    left = _LEFT_OUT * float(np.mean(kernel.diag(rows.X)))
    return select_until(rows.X, kernel, m, left, rng, rows.weights) is None


def count_points(
    rows: Rows, kernel: Any, noise_variance: float, rng: np.random.Generator
) -> int:
    """Points that leave a hundredth of a nat a row; beyond 500 a tenth of the variance.

    Up to a hundred too many, since points are chosen by blocks; a thousand stand for
    more.
    """
    enough = 2.0 * _ENOUGH * noise_variance
    points = select_until(rows.X, kernel, MOST, enough, rng, rows.weights)
    if points is not None:
        return len(points)
    if not leaves_much(rows, kernel, MOST, rng):
        return min(MOST, len(rows.y))
    left = _LEFT_OUT * float(np.mean(kernel.diag(rows.X)))
    points = select_until(rows.X, kernel, _COUNTED, left, rng, rows.weights)
    return _COUNTED if points is None else len(points)


def explains_more(
    targets: Rows,
    before: tuple[Any, int],
    after: tuple[Any, int],
    rng: np.random.Generator,
) -> bool:
    """Whether kernel and number of points `after` gain much over those `before`.

    Of 1500 rows; `targets` as of :func:`rough_targets`.
    """
    chosen = np.sort(rng.permutation(len(targets.y))[:SOME_ROWS])
    some = sampled(targets, chosen)
    first, second = (
        explained(
            kernel,
            select_inducing("greedy", some.X, kernel, min(m, len(some.y)), rng),
            some,
        )
        for kernel, m in (before, after)
    )
    return second.evidence - first.evidence >= _LEAST_GAIN


def points_needed(
    rows: Rows,
    likelihood: Likelihood,
    kernel: Any,
    planned: int,
    rng: np.random.Generator,
) -> int:
    """Points that a kernel needs to follow what there is; 0 if those planned serve.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, of one output.
    kernel : sklearn.gaussian_process.kernels.Kernel
        The prior, as it is.
    planned : int
        Number of inducing points.
    rng : numpy.random.Generator
    """
    most = min(_COUNTED, len(rows.y))
    if planned >= most or not leaves_much(rows, kernel, planned, rng):
        return 0
    targets = rough_targets(rows, likelihood)
    more = min(max(MOST, 2 * planned), most)
    if not explains_more(targets, (kernel, planned), (kernel, more), rng):
        return 0
    Z = select_inducing("greedy", rows.X, kernel, min(MOST, most), rng, rows.weights)
    noise = explained(kernel, Z, targets).noise_variance
    return max(count_points(rows, kernel, noise, rng), planned + 1)
