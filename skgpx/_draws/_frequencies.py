"""How many frequencies draws of functions need, and how many of them are high.

Given its features, a conditioned draw has the exact mean, and a covariance that can be
computed: errors of predicting values from others are linear functionals of the process.
Applied to the features they give the variance of draws, applied to the kernel the exact
one. Both are compared at points that are left out and at fresh inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._features import FeatureMap
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx.exceptions import PredictionWarning, warn
from skgpx.kernels import category_columns

Array = NDArray[np.float64]

# Most points of which a factor is computed.
_NEIGHBOURS = 512


@dataclass(frozen=True)
class Conditioning:
    """Points on which drawn functions will be conditioned.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Training inputs, or inducing points.
    noise_variance : float or ndarray of shape (n,), default=0.0
        Variance of the observation noise at the points.
    root : ndarray of shape (n, n), default=None
        Lower Cholesky factor of ``k(X, X)`` plus the noise, if it is known. Without it
        features are chosen for at most 512 points, near one of them.
    negligible : float, default=1e-13
        Variance below which errors do not matter, as a fraction of the prior's.
    """

    points: Array
    noise_variance: float | Array = 0.0
    root: Array | None = None
    negligible: float = 1e-13


class HeldOutErrors:
    """Errors of predicting values from noisy ones at other points.

    With ``C = k(X, X) + N`` and ``A = C⁻¹``, the error at point i, predicted from the
    others, is ``Σ_j A_ij y_j / A_ii`` less the noise at i, and that at a fresh input t
    is ``f(t) - k(t, X) A y``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    given : Conditioning
    rng : numpy.random.Generator
        Picks the points that are left out, and the fresh inputs.
    box : ndarray of shape (d, 2), default=None
        Where fresh inputs must lie; None for anywhere.

    Notes
    -----
    O(n^2) time where the factor of C is known.
    """

    def __init__(
        self,
        kernel: Any,
        given: Conditioning,
        rng: np.random.Generator,
        box: Array | None = None,
    ):
        X, L = given.points, given.root
        noise = np.broadcast_to(np.asarray(given.noise_variance, float), len(X))
        if L is None:
            near = _neighbourhood(kernel, X, rng)
            X, noise = X[near], noise[near]
            L = cholesky(kernel(X) + np.diag(noise)).L
        held_out = rng.permutation(len(X))[:32]
        fresh, each = (
            _fresh_inputs(X, 8, rng, category_columns(kernel, X.shape[1])),
            np.arange(len(held_out)),
        )
        if box is not None:
            fresh = np.clip(fresh, *box.T)
        h = solve_lower(L, kernel(X, fresh))
        unit = np.zeros((len(X), len(each)))
        unit[held_out, each] = 1.0
        half = solve_lower(L, unit)
        A, V = solve_lower_transpose(L, half).T, solve_lower_transpose(L, h)
        diagonal = A[each, held_out]
        A = A / diagonal[:, np.newaxis]
        # errors from the values at the fresh inputs and at the points
        nothing = np.zeros((len(each), len(fresh)))
        self.points = np.concatenate((fresh, X))
        self.functionals = np.block([[nothing, A], [np.eye(len(fresh)), -V.T]])
        on_points = self.functionals[:, len(fresh) :].copy()
        on_points[each, held_out] = 0.0
        self.noise = (on_points * noise) @ on_points.T
        # cov(aᵢᵀy - εᵢ, aⱼᵀy - εⱼ), and gₜ is independent of y
        own = noise[held_out]
        crossed = A[:, held_out] * own
        between = (half.T @ half) / np.outer(diagonal, diagonal) - crossed - crossed.T
        between[each, each] += own
        with_fresh = own[:, np.newaxis] * V[held_out]
        self.exact = np.block(
            [[between, with_fresh], [with_fresh.T, kernel(fresh) - h.T @ h]]
        )
        # rounding errors of aᵀ K a, relative to |a|₁²
        rounding = 1e-15 * np.sum(np.abs(self.functionals), axis=1) ** 2
        self.floor = np.mean(kernel.diag(fresh)) * np.maximum(
            given.negligible,
            rounding,
        )

    def covariance(self, parts: list[tuple[float, FeatureMap]]) -> Array:
        """Covariance of the errors of draws with these features, noise left out.

        `parts` are variances and feature maps of independent summands.
        """
        total = np.zeros(self.exact.shape)
        for variance, feature_map in parts:
            F: Array | float = 0.0
            # a few megabytes of features at a time
            for first in range(0, len(self.points), _NEIGHBOURS):
                rows = slice(first, first + _NEIGHBOURS)
                F = F + self.functionals[:, rows] @ feature_map(self.points[rows])
            total += variance * (F @ np.transpose(F))
        return total

    def misfit(self, covariance: Array) -> tuple[float, float]:
        """Errors of the covariance of draws.

        Returns
        -------
        std : float
            Root mean square of ``log(std of the draws / exact std)``.
        covariance : float
            Root of the mean over points of the squared errors of a row of the
            covariance, in units of the geometric mean of both standard deviations: too
            small ones count as much as too large ones.
        """
        drawn = covariance + self.noise
        found = np.diagonal(drawn) + self.floor
        exact = np.maximum(np.diagonal(self.exact), 0.0) + self.floor
        units = np.sqrt(exact * found)
        squares = np.sum((drawn - self.exact) ** 2 / np.outer(units, units), axis=1)
        logs = 0.5 * np.log(found / exact)
        return float(np.sqrt(np.mean(logs**2))), float(np.sqrt(np.mean(squares)))


def _neighbourhood(kernel: Any, X: Array, rng: np.random.Generator) -> Any:
    """The 512 points most correlated with a random one; all if there are fewer.

    Where posterior variances are hard to get right, near points screen far ones.
    """
    if len(X) <= _NEIGHBOURS:
        return slice(None)
    centre = X[[rng.integers(len(X))]]
    # ‖k(x, ·) - k(c, ·)‖², less what does not depend on x
    distance = kernel.diag(X) - 2.0 * kernel(X, centre)[:, 0]
    return np.argsort(distance, kind="stable")[:_NEIGHBOURS]


def _fresh_inputs(
    X: Array,
    half: int,
    rng: np.random.Generator,
    kept: list[int],
) -> Array:
    """Inputs between points, and just outside their range; `kept` columns hold codes.

    Half lie between two random points; the others extend the line from the mean to a
    point that is extreme in a random direction by a tenth.
    """
    n, d = X.shape
    one, other = X[rng.integers(n, size=(2, half))]
    inside = one + rng.random((half, 1)) * (other - one)
    centre, std = X.mean(axis=0), X.std(axis=0)
    scaled = np.divide(X - centre, std, out=np.zeros_like(X), where=std > 0.0)
    directions = rng.standard_normal((d, half))
    extreme = X[np.argmax(scaled @ directions, axis=0)]
    outside = extreme + 0.1 * (extreme - centre)
    inside[:, kept], outside[:, kept] = one[:, kept], extreme[:, kept]
    return np.concatenate((inside, outside))


def choose_frequencies(
    kernel: Any,
    parts: list[Any],
    n_basis: int | str,
    given: Conditioning | None,
    rng: np.random.Generator,
) -> tuple[int, float, int]:
    """Number and tail power of the frequencies of the parts of a kernel.

    Parts without exact features share the frequencies equally: which of them has the
    variance that the data leave is not known before.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    parts : list of Part
        Its independent parts.
    n_basis : int or "auto"
        Number of Fourier features, twice the number of frequencies.
    given : Conditioning or None
        What the draws will be conditioned on.
    rng : numpy.random.Generator

    Returns
    -------
    n_frequencies : int
        Of each part.
    tail_power : float
        How much high frequencies are enriched; see `sample_spectra`.
    seed : int
        Of the frequencies that were compared.
    """
    random = [(v, features) for v, exact, features in parts if not exact]
    share, seed = 2 * max(len(random), 1), int(rng.integers(2**63))
    n = 2048 // share if isinstance(n_basis, str) else max(n_basis // share, 1)
    if given is None or not random:
        return n, 1.0, seed
    errors = HeldOutErrors(kernel, given, rng)
    fixed = [(v, features(1, 1.0, rng)) for v, exact, features in parts if exact]
    exact = errors.covariance(fixed)

    def misfit(n: int, power: float) -> tuple[float, float]:
        net = np.random.default_rng(seed)
        drawn = [(v, features(n, power, net)) for v, features in random]
        return errors.misfit(exact + errors.covariance(drawn))

    # κ of u = v^κ, 1 for the plain net; the best depends little on the number
    powers = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 10.0)
    by_power = np.array([misfit(min(n, 256), power)[1] for power in powers])
    # the smallest nearly as good as the best: the rest is noise
    power = powers[int(np.argmax(by_power <= 1.03 * by_power.min()))]
    # root mean square of the log ratio of standard deviations: aimed at, or alarming
    limit = 0.02 if n_basis == "auto" else 0.1
    if n_basis == "auto":
        n = max(256 // share, 1)
    error = misfit(n, power)[0]
    while n_basis == "auto" and error > limit and n * share < 8192:
        n *= 2
        error = misfit(n, power)[0]
    if error > limit:
        warn(
            f"With {n * share} Fourier features the standard deviations of conditioned "
            f"draws are expected to be off by {100 * error:.2g} % (root mean square); "
            'their mean is right. Pass a larger n_basis, or n_basis="auto", give the '
            'data more noise, or use prior="exact" where few inputs are of interest.',
            PredictionWarning,
        )
    return n, power, seed
