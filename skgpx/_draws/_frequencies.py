"""How many frequencies draws of functions need, and how many of them are high.

Given its features, a conditioned draw has the exact mean, and a covariance that can be
computed: the error of predicting a value from other values is a linear functional of
the process. Applied to the features, the functionals give the variance of draws;
applied to the kernel, the exact variance. Both are compared at points that are left out
and at fresh inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skgpx._draws._features import FeatureMap
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.rows import row_slices
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.exceptions import PredictionWarning, warn
from skgpx.kernels import category_columns

# Largest number of points for a Cholesky factor.
_NEIGHBOURS = 512


class Part(NamedTuple):
    """An independent summand of a process, with features for draws.

    Parameters
    ----------
    variance : float
        Factor of the covariance of the features.
    exact : bool
        Whether the features are deterministic, with the exact covariance.
    features : callable
        Makes a feature map from a number of frequencies, a tail power and a generator.
    """

    variance: float
    exact: bool
    features: Callable[[int, float, Generator], FeatureMap]


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
        Lower Cholesky factor of ``k(X, X)`` plus the noise. Without it features are
        chosen for at most 512 points, the nearest ones of a random point.
    negligible : float, default=1e-13
        Errors below this fraction of the prior variance do not matter.
    """

    points: Array
    noise_variance: float | Array = 0.0
    root: Array | None = None
    negligible: float = 1e-13


class HeldOutErrors:
    """Errors of predicting values from noisy ones at other points.

    With ``C = k(X, X) + N`` and ``A = C⁻¹``, the error at point i, predicted from the
    other points, is ``Σ_j A_ij y_j / A_ii`` less the noise at i, and the error at a
    fresh input t is ``f(t) - k(t, X) A y``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    given : Conditioning
    rng : numpy.random.Generator
        Picks the points that are left out, and the fresh inputs.
    box : ndarray of shape (d, 2), default=None
        Box of the fresh inputs; None for anywhere.

    Notes
    -----
    O(n^2) time with the factor of C, O(n^3) for 512 points at most without it.
    """

    def __init__(
        self,
        kernel: Kernel,
        given: Conditioning,
        rng: Generator,
        box: Array | None = None,
    ):
        X = given.points
        L = given.root
        noise = np.asarray(given.noise_variance, dtype=np.float64)
        noise = np.broadcast_to(noise, len(X))
        if L is None:
            rows = _neighbourhood(kernel, X, rng)
            X = X[rows]
            noise = noise[rows]
            C = kernel(X) + np.diag(noise)
            L = cholesky(C).L
        held_out = rng.permutation(len(X))[:32]
        n_held_out = len(held_out)
        errors = np.arange(n_held_out)
        fresh = _fresh_inputs(
            X,
            rng=rng,
            code_columns=category_columns(kernel, X.shape[1]),
        )
        if box is not None:
            low, high = box.T
            fresh = np.clip(fresh, low, high)
        n_fresh = len(fresh)

        # rows of A = C⁻¹ of the points left out, and V = A k(X, t)
        unit = np.zeros((len(X), n_held_out))
        unit[held_out, errors] = 1.0
        h = solve_lower(L, kernel(X, fresh))
        half = solve_lower(L, unit)
        A = solve_lower_transpose(L, half).T
        V = solve_lower_transpose(L, h)
        diagonal = A[errors, held_out]
        A = A / diagonal[:, np.newaxis]

        # errors as linear functionals of the values at the fresh inputs and at the
        # points
        zeros = np.zeros((n_held_out, n_fresh))
        identity = np.eye(n_fresh)
        self.points = np.concatenate((fresh, X))
        self.functionals = np.block(
            [
                [zeros, A],
                [identity, -V.T],
            ]
        )
        # the noise enters through all points but the one left out
        on_points = self.functionals[:, n_fresh:].copy()
        on_points[errors, held_out] = 0.0
        self.noise = (on_points * noise) @ on_points.T

        # exact covariance of errors aᵢᵀy - εᵢ and gₜ; gₜ is independent of y
        held_out_noise = noise[held_out]
        crossed = A[:, held_out] * held_out_noise
        between = (half.T @ half) / np.outer(diagonal, diagonal)
        between = between - crossed - crossed.T
        between[errors, errors] += held_out_noise
        with_fresh = held_out_noise[:, np.newaxis] * V[held_out]
        of_fresh = kernel(fresh) - h.T @ h
        self.exact = np.block(
            [
                [between, with_fresh],
                [with_fresh.T, of_fresh],
            ]
        )

        # rounding errors of aᵀ K a, relative to |a|₁²
        one_norms = np.sum(np.abs(self.functionals), axis=1)
        rounding = 1e-15 * one_norms**2
        prior_variance = np.mean(kernel.diag(fresh))
        self.floor = prior_variance * np.maximum(given.negligible, rounding)

    def covariance(self, parts: list[tuple[float, FeatureMap]]) -> Array:
        """Covariance of the errors of draws with these features, noise left out.

        `parts` are variances and feature maps of independent summands.
        """
        total = np.zeros(self.exact.shape)
        for variance, feature_map in parts:
            F: Array | float = 0.0
            # a few megabytes of features at a time
            for rows in row_slices(len(self.points), _NEIGHBOURS):
                features = feature_map(self.points[rows])
                F = F + self.functionals[:, rows] @ features
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
            covariance, in units of the geometric mean of both standard deviations:
            standard deviations that are too small count as much as those that are too
            large.
        """
        approximate = covariance + self.noise
        variance = np.diagonal(approximate) + self.floor
        exact_variance = np.maximum(np.diagonal(self.exact), 0.0)
        exact_variance = exact_variance + self.floor

        log_ratios = 0.5 * np.log(variance / exact_variance)
        std_error = np.sqrt(np.mean(log_ratios**2))

        units = np.sqrt(exact_variance * variance)
        squares = (approximate - self.exact) ** 2
        squares = squares / np.outer(units, units)
        row_sums = np.sum(squares, axis=1)
        covariance_error = np.sqrt(np.mean(row_sums))
        return float(std_error), float(covariance_error)


def _neighbourhood(kernel: Kernel, X: Array, rng: Generator) -> Index | slice:
    """The 512 points most correlated with a random one; all if there are fewer.

    Where posterior variances are hard to get right, near points screen far ones.
    """
    if len(X) <= _NEIGHBOURS:
        return slice(None)
    position = rng.integers(len(X))
    centre = X[[position]]
    # ‖k(x, ·) - k(c, ·)‖², without its term that does not depend on x
    covariance = kernel(X, centre)[:, 0]
    distance = kernel.diag(X) - 2.0 * covariance
    order = np.argsort(distance, kind="stable")
    return order[:_NEIGHBOURS]


def _fresh_inputs(
    X: Array,
    rng: Generator,
    code_columns: list[int],
) -> Array:
    """Inputs between points, and just outside their range (16, d).

    One half lies between two random points. The other half extends the line from the
    mean to a point that is extreme in a random direction by a tenth. The columns of
    codes are taken from a point.
    """
    n, d = X.shape
    half = 8
    ends_of_lines = rng.integers(n, size=(2, half))
    start, stop = X[ends_of_lines]
    fraction = rng.random((half, 1))
    between = start + fraction * (stop - start)

    centre = X.mean(axis=0)
    std = X.std(axis=0)
    scaled = np.zeros_like(X)
    np.divide(X - centre, std, out=scaled, where=std > 0.0)
    directions = rng.standard_normal((d, half))
    position = np.argmax(scaled @ directions, axis=0)
    extreme = X[position]
    outside = extreme + 0.1 * (extreme - centre)

    between[:, code_columns] = start[:, code_columns]
    outside[:, code_columns] = extreme[:, code_columns]
    return np.concatenate((between, outside))


def choose_frequencies(
    kernel: Kernel,
    parts: Sequence[Part],
    n_basis: int | str,
    given: Conditioning | None,
    rng: Generator,
) -> tuple[int, float, int]:
    """Number and tail power of the frequencies of the parts of a kernel.

    Parts without exact features share the frequencies equally, because it is not clear
    in advance which part has the variance that the data leave.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    parts : sequence of Part
        Its independent parts.
    n_basis : int or "auto"
        Number of Fourier features, twice the number of frequencies.
    given : Conditioning or None
        Points on which the draws will be conditioned.
    rng : numpy.random.Generator

    Returns
    -------
    n_frequencies : int
        Frequencies of each part.
    tail_power : float
        How much high frequencies are enriched; see `sample_spectra`.
    seed : int
        Seed of the frequencies that were compared.
    """
    random_parts = [part for part in parts if not part.exact]
    # features per frequency of each part
    share = 2 * max(len(random_parts), 1)
    seed = int(rng.integers(2**63))
    if isinstance(n_basis, str):
        n = 2048 // share
    else:
        n = max(n_basis // share, 1)
    if given is None or not random_parts:
        return n, 1.0, seed

    errors = HeldOutErrors(kernel, given, rng)
    exact = errors.covariance(
        [(part.variance, part.features(1, 1.0, rng)) for part in parts if part.exact]
    )

    def misfit(n: int, power: float) -> tuple[float, float]:
        net = np.random.default_rng(seed)
        waves = [(part.variance, part.features(n, power, net)) for part in random_parts]
        covariance = exact + errors.covariance(waves)
        return errors.misfit(covariance)

    # κ of u = v^κ, 1 for the plain net; the best depends little on the number
    powers = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 10.0)
    error_by_power = np.array([misfit(min(n, 256), power)[1] for power in powers])
    # the smallest nearly as good as the best: further differences are noise
    nearly_best = error_by_power <= 1.03 * error_by_power.min()
    power = powers[int(np.argmax(nearly_best))]

    # root mean square of the log ratio of standard deviations: a target, or an alarm
    if n_basis == "auto":
        limit = 0.02
        n = max(256 // share, 1)
    else:
        limit = 0.1
    error = misfit(n, power)[0]
    while n_basis == "auto" and error > limit and n * share < 8192:
        n *= 2
        error = misfit(n, power)[0]
    if error > limit:
        warn(
            f"With {n * share} Fourier features the standard deviations of conditioned "
            f"draws are expected to be off by {100 * error:.2g} % (root mean square); "
            'their mean is right. Pass a larger n_basis, or n_basis="auto", a larger '
            'noise variance, or use prior="exact" where few inputs are of interest.',
            PredictionWarning,
        )
    return n, power, seed
