"""How many frequencies draws of functions need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._features import FeatureMap
from skgpx._draws._prior_parts import Part, Setting
from skgpx._draws._remembered import NoiseFree
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx.exceptions import PredictionWarning, warn

# ---- Errors --------------------------------------------------------------------------


Array = NDArray[np.float64]

# Up to this number all points are used; above, neighbourhoods of a few of them.
_MOST_POINTS = 512
_NEIGHBOURHOODS = 4
_LEFT_OUT = 64
# Rounding errors of a quadratic form ``aᵀ K a``, relative to ``‖a‖₁²``.
_ROUNDING = 1e-15
# Features in memory at a time.
_FLOATS = 2**22


@dataclass(frozen=True)
class Conditioning:
    """What drawn functions will be conditioned on.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Training inputs, or inducing points.
    noise_variance : float or ndarray of shape (n,), default=0.0
        Variance of the observation noise at the points.
    root : ndarray of shape (n, n), default=None
        Lower Cholesky factor of ``k(X, X)`` plus the noise, if it is known. The
        features are then also judged at fresh inputs, inside the data and just outside.
    negligible : float, default=1e-13
        Variance below which errors do not matter, as a fraction of the prior's.
    """

    points: Array
    noise_variance: float | Array = 0.0
    root: Array | None = None
    negligible: float = 1e-13

    @property
    def noise(self) -> Array:
        """Variance of the noise at each point, shape (n,)."""
        noise = np.asarray(self.noise_variance, dtype=np.float64)
        return np.broadcast_to(noise, (len(self.points),))


class Misfit(NamedTuple):
    """Errors of the law of conditioned draws, given their features.

    Attributes
    ----------
    std : float
        Root mean square of ``log(std of the draws / exact std)``.
    covariance : float
        Root of the mean over points of the squared errors of a row of the
        covariance, in units of the geometric mean of the standard deviations of the
        draws and the exact ones: too small ones count as much as too large ones.
    """

    std: float
    covariance: float


@dataclass(frozen=True)
class Predicted:
    """Values at some points, each predicted from observations at others.

    With ``C = K + N`` and ``A = C⁻¹``, the error of predicting the value at point i
    from the observations at the others is the linear functional ``Σⱼ Aᵢⱼ yⱼ / Aᵢᵢ``;
    that at a fresh input t is ``y(t) - k(t, X) A y``. Applied to the features it gives
    the variance of conditioned draws there; applied to the kernel, the exact one.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        All of them.
    functionals : ndarray of shape (q, n)
        The q errors as combinations of the values at the points.
    fixed : ndarray of shape (q, q)
        Part of the covariance that does not depend on frequencies: that of the noise,
        and of the parts given to :meth:`with_exact`.
    exact : ndarray of shape (q, q)
        Covariance of the errors, without the noise at the point itself.
    floor : ndarray of shape (q,)
        Variances below which errors are ignored.
    """

    points: Array
    functionals: Array
    fixed: Array
    exact: Array
    floor: Array

    @property
    def variance(self) -> Array:
        """Exact variances, not below the floor, shape (q,)."""
        # rounding may leave them negative
        variance: Array = np.maximum(np.diagonal(self.exact), 0.0) + self.floor
        return variance

    def of(self, feature_map: FeatureMap) -> Array:
        """Errors of predicting the features, shape (q, number of features)."""
        width = feature_map(self.points[:1]).shape[1]
        total, size = np.zeros((len(self.functionals), width)), _FLOATS // width + 1
        for first in range(0, len(self.points), size):
            rows = slice(first, first + size)
            total += self.functionals[:, rows] @ feature_map(self.points[rows])
        return total

    def covariance(self, parts: list[tuple[float, FeatureMap]]) -> Array:
        """Covariance of draws with these features at the points predicted, (q, q).

        ``parts`` are variances and feature maps of independent summands.
        """
        total = self.fixed.copy()
        for variance, feature_map in parts:
            F = self.of(feature_map)
            total += variance * (F @ F.T)
        return total

    def with_exact(self, parts: list[tuple[float, FeatureMap]]) -> Predicted:
        """Add parts with exact features to the fixed part of the covariance."""
        return replace(self, fixed=self.covariance(parts))


def leave_one_out(
    kernel: Any, given: Conditioning, rng: np.random.Generator
) -> list[Predicted]:
    """Predict up to 64 points from all others, or from the others in a neighbourhood.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance.
    given : Conditioning
        The points.
    rng : numpy.random.Generator
        Picks the points that are left out.

    Notes
    -----
    No new points are needed, and those left out are distributed as the inputs are.
    Up to 512 points, O(n^3). Above, four neighbourhoods of 128 points: where posterior
    variances are hard to get right, near points screen the influence of far ones, and
    elsewhere plain features are accurate.
    """
    X, noise, small = given.points, given.noise, given.negligible
    n = X.shape[0]
    if n <= _MOST_POINTS:
        left_out = rng.permutation(n)[:_LEFT_OUT]
        return [_predict_left_out(kernel, X, noise, left_out, small)]
    found = []
    left_out = np.arange(_LEFT_OUT // _NEIGHBOURHOODS)
    for centre in rng.permutation(n)[:_NEIGHBOURHOODS]:
        # ‖k(x, ·) - k(c, ·)‖², less what does not depend on x
        distance = kernel.diag(X) - 2.0 * kernel(X, X[[centre]])[:, 0]
        near = np.argsort(distance, kind="stable")[: _MOST_POINTS // _NEIGHBOURHOODS]
        fold = _predict_left_out(kernel, X[near], noise[near], left_out, small)
        found.append(fold)
    return found


def _predict_left_out(
    kernel: Any, X: Array, noise: Array, left_out: NDArray[np.intp], negligible: float
) -> Predicted:
    K = kernel(X)
    L = cholesky(K + np.diag(noise)).L
    unit = np.zeros((X.shape[0], left_out.shape[0]))
    rows = np.arange(left_out.shape[0])
    unit[left_out, rows] = 1.0
    A = solve_lower_transpose(L, solve_lower(L, unit)).T
    functionals = A / A[rows, left_out][:, np.newaxis]
    others = functionals.copy()
    others[rows, left_out] = 0.0
    from_noise = (others * noise) @ others.T
    exact = functionals @ K @ functionals.T + from_noise
    floor = floors(functionals, float(np.mean(np.diagonal(K))), negligible)
    return Predicted(X, functionals, from_noise, exact, floor)


def floors(functionals: Array, variance: float, negligible: float) -> Array:
    """Variances below which the errors do not matter, or are rounding errors, (q,)."""
    rounding = _ROUNDING * np.sum(np.abs(functionals), axis=1) ** 2
    floor: Array = variance * np.maximum(negligible, rounding)
    return floor


def misfit(predicted: list[Predicted], parts: list[tuple[float, FeatureMap]]) -> Misfit:
    """Errors of the draws with these features, over all points predicted.

    Parameters
    ----------
    predicted : list of Predicted
        Where to compare.
    parts : list of (float, FeatureMap)
        Variances and feature maps of the independent parts of the prior.
    """
    logs, squares, n = 0.0, 0.0, 0
    for fold in predicted:
        drawn = fold.covariance(parts)
        variance = fold.variance
        found = np.diagonal(drawn) + fold.floor
        logs += np.sum((0.5 * np.log(found / variance)) ** 2)
        units = np.sqrt(variance * found)
        squares += np.sum((drawn - fold.exact) ** 2 / np.outer(units, units))
        n += len(variance)
    return Misfit(float(np.sqrt(logs / n)), float(np.sqrt(squares / n)))


# ---- Fresh inputs --------------------------------------------------------------------


# Fresh inputs of each kind: inside the data, and outside.
_PROBES = 8
# How far beyond the data those outside are, relative to their distance from the mean.
_BEYOND = 0.1


def probe(kernel: Any, given: Conditioning, rng: np.random.Generator) -> Predicted:
    """Predict fresh inputs from all points; ``given.root`` must be known.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    given : Conditioning
        The points.
    rng : numpy.random.Generator
        Picks the inputs.

    Notes
    -----
    O(n^2) time: unlike the points left out, all points are used whatever n.
    """
    X, L = given.points, given.root
    assert L is not None
    fresh = fresh_inputs(X, rng)
    h = solve_lower(L, kernel(X, fresh))
    exact = kernel(fresh, fresh) - h.T @ h
    V = solve_lower_transpose(L, h)
    functionals = np.hstack((np.eye(len(fresh)), -V.T))
    variance = float(np.mean(kernel.diag(fresh)))
    return Predicted(
        points=np.concatenate((fresh, X)),
        functionals=functionals,
        fixed=(V.T * given.noise) @ V,
        exact=exact,
        floor=floors(functionals, variance, given.negligible),
    )


def fresh_inputs(X: Array, rng: np.random.Generator) -> Array:
    """Inputs between points and just outside their range, shape (16, d).

    Those inside lie between two random points. Those outside extend the line from the
    mean to a point that is extreme in a random direction by a tenth.
    """
    n, d = X.shape
    one, other = X[rng.integers(n, size=(2, _PROBES))]
    inside = one + rng.random((_PROBES, 1)) * (other - one)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    directions = rng.standard_normal((_PROBES, d))
    # directions in units of the spread; a constant column has none
    scaled = np.divide(X - centre, spread, out=np.zeros_like(X), where=spread > 0.0)
    extreme = X[np.argmax(scaled @ directions.T, axis=0)]
    return np.concatenate((inside, extreme + _BEYOND * (extreme - centre)))


# ---- How the parts of a sum of kernels share the frequencies -------------------------


# Smallest number of frequencies of a part.
_FEWEST = 8
# Part of the frequencies that is shared equally where data are given.
_EQUAL = 0.25
# Frequencies that the variance which data leave is estimated with: more high ones than
# the prior has, since the low ones are known.
_PILOT = Setting(256, "qmc", 3.0)


def prior_shares(parts: list[Part], X: Array) -> Array:
    """Shares in proportion to the prior variance at the rows of X; zero if exact."""
    return _normalised(
        np.array([0.0 if part.is_exact else part.size(X) for part in parts])
    )


def remaining_shares(
    parts: list[Part], predicted: list[Predicted], rng: np.random.Generator
) -> Array:
    """Shares that also heed the variance each part has left, given the data.

    The error of a variance ``Σ v_p`` is ``(Σ c v_p² / R_p)^½`` with R_p frequencies for
    part p, and smallest where R_p is in proportion to v_p. Near the data v_p is the
    variance that the data leave; far from them, that of the prior. A quarter of the
    frequencies is shared equally, the rest by the mean of both.

    Parameters
    ----------
    parts : list of Part
    predicted : list of Predicted
        Where the variance that is left is estimated.
    rng : numpy.random.Generator
        Source of the frequencies for it.
    """
    prior = prior_shares(parts, predicted[0].points)
    random = prior > 0.0
    if np.count_nonzero(random) <= 1:
        return prior
    left = np.zeros(len(parts))
    for i in np.flatnonzero(random):
        left[i] = _relative_variance(parts[i], predicted, rng)
    equal = random / np.count_nonzero(random)
    mixed = 0.5 * (prior + _normalised(left))
    shares: Array = _EQUAL * equal + (1.0 - _EQUAL) * mixed
    return shares


def _relative_variance(
    part: Part, predicted: list[Predicted], rng: np.random.Generator
) -> float:
    """Root mean square of the variance left of a part, relative to the whole."""
    feature_map, ratios = part.feature_map(_PILOT, rng), []
    for fold in predicted:
        variance = part.variance * np.sum(fold.of(feature_map) ** 2, axis=1)
        ratios.append(variance / fold.variance)
    return float(np.sqrt(np.mean(np.square(np.concatenate(ratios)))))


def _normalised(sizes: Array) -> Array:
    total = sizes.sum()
    return sizes / total if total > 0.0 else sizes


def divided(shares: Array, n_frequencies: int) -> list[int]:
    """Frequencies of each part, at least a few; all of them for a single part."""
    if np.count_nonzero(shares) <= 1:
        return [n_frequencies] * len(shares)
    counts = np.round(n_frequencies * shares).astype(int)
    return [max(int(count), min(_FEWEST, n_frequencies)) for count in counts]


# ---- How many Fourier features to use, and how much of them for high frequencies -----


# κ of u = v^κ; 1 is the plain net, so the choice is never worse on the points left out.
TAIL_POWERS: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 10.0)
# Number of frequencies used to compare powers: the best one depends little on it.
_COMPARED = 512
# The smallest power within this factor of the best error is taken: the rest is noise.
_AS_GOOD = 1.03
_FEWEST_FEATURES, _MOST_FEATURES = 256, 8192
# Error at the fresh inputs, relative to the accuracy asked for: half of them lie
# outside the data, where errors are largest.
_AT_PROBES = 2.0
# Error from which a number of features that was given is warned of.
_ALARM = 0.1


@dataclass(frozen=True)
class Plan:
    """How the frequencies of all parts are chosen, whatever their number."""

    shares: Array
    method: str
    tail_power: float = 1.0

    def settings(self, n_frequencies: int) -> list[Setting]:
        """Setting of each part."""
        counts = divided(self.shares, n_frequencies)
        return [Setting(count, self.method, self.tail_power) for count in counts]


class Choice(NamedTuple):
    """Settings of the parts, and the seed of the first set of frequencies.

    With it, the features of the first group are those that were judged.
    """

    settings: list[Setting]
    seed: int


def choose_settings(
    kernel: Any,
    parts: list[Part],
    n_basis: int | str,
    frequencies: str,
    given: Conditioning | None,
    accuracy: float,
    rng: np.random.Generator,
) -> Choice:
    """Turn the options of :func:`draw_prior` into numbers, for each part.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance.
    parts : list of Part
        Its independent parts.
    n_basis : int or "auto"
        Number of Fourier features, twice the number of frequencies.
    frequencies : {"auto", "qmc", "mc", "tail"}
        See :func:`draw_prior`.
    given : Conditioning or None
        What the draws will be conditioned on.
    accuracy : float
        Largest error of ``log std`` for ``n_basis="auto"``.
    rng : numpy.random.Generator
        Source of the trial frequencies, and of the seed.
    """
    automatic, plain = n_basis == "auto", frequencies in ("qmc", "mc")
    n = 1024 if isinstance(n_basis, str) else max(n_basis // 2, 1)
    method, d = "mc" if frequencies == "mc" else "qmc", parts[0].d
    random = [part for part in parts if not part.is_exact]
    seed = int(rng.integers(2**63))
    if given is None or not random or (plain and not automatic and len(random) == 1):
        # the best on average in the study of docs/draws.md, for dense data
        power = 1.0 + 6.0 / d if frequencies == "tail" else 1.0
        points = np.ones((1, d)) if given is None else given.points
        plan = Plan(prior_shares(parts, points), method, power)
        return Choice(plan.settings(n), seed)
    left_out, fresh = _judges(kernel, parts, given, rng)
    plan = Plan(remaining_shares(parts, left_out, rng), method)
    if not plain:
        powers = TAIL_POWERS if frequencies == "auto" else TAIL_POWERS[1:]
        trial = min(n, _COMPARED)
        plan = _best_plan(parts, plan, trial, powers, left_out, rng)
    if automatic:
        return _enough(parts, plan, left_out, fresh, accuracy, seed)
    choice = Choice(plan.settings(n), seed)
    if not plain:
        _warn_if_far_off(parts, choice, left_out + fresh, 2 * n)
    return choice


def _judges(
    kernel: Any, parts: list[Part], given: Conditioning, rng: np.random.Generator
) -> tuple[list[Predicted], list[Predicted]]:
    """Points left out and, if the root is known, fresh inputs; exact parts included."""
    latent = NoiseFree(kernel)
    one = Setting(1)
    exact = [(p.variance, p.feature_map(one, rng)) for p in parts if p.is_exact]
    fresh = [] if given.root is None else [probe(latent, given, rng)]
    left_out = leave_one_out(latent, given, rng)
    return (
        [fold.with_exact(exact) for fold in left_out],
        [fold.with_exact(exact) for fold in fresh],
    )


def _best_plan(
    parts: list[Part],
    plan: Plan,
    n_frequencies: int,
    powers: tuple[float, ...],
    left_out: list[Predicted],
    rng: np.random.Generator,
) -> Plan:
    """Smallest power with nearly the least error of the covariance, on one net."""
    errors, seed = [], int(rng.integers(2**63))
    for power in powers:
        settings = replace(plan, tail_power=power).settings(n_frequencies)
        features = random_features(parts, Choice(settings, seed))
        errors.append(misfit(left_out, features).covariance)
    best = powers[int(np.argmax(np.array(errors) <= _AS_GOOD * min(errors)))]
    return replace(plan, tail_power=best)


def _enough(
    parts: list[Part],
    plan: Plan,
    left_out: list[Predicted],
    fresh: list[Predicted],
    accuracy: float,
    seed: int,
) -> Choice:
    """Double the features until the predicted error of log std is small enough."""
    size = _FEWEST_FEATURES
    while True:
        choice = Choice(plan.settings(size // 2), seed)
        features = random_features(parts, choice)
        error = misfit(left_out, features).std
        if error <= accuracy and fresh:
            error = max(error, misfit(fresh, features).std / _AT_PROBES)
        if error <= accuracy:
            return choice
        if size == _MOST_FEATURES:
            break
        size *= 2
    warn(
        f"With {size} Fourier features the standard deviations of conditioned draws "
        f"are expected to be off by {100 * error:.2g} % (root mean square), not "
        f"{100 * accuracy:.2g} %; their mean is right. Pass a larger n_basis, give the "
        'data more noise, or use prior="exact" where few inputs are of interest.',
        PredictionWarning,
    )
    return choice


def _warn_if_far_off(
    parts: list[Part], choice: Choice, predicted: list[Predicted], size: int
) -> None:
    """Say so if the number of features that was asked for is much too small."""
    error = misfit(predicted, random_features(parts, choice)).std
    if error > _ALARM:
        warn(
            f"{size} Fourier features are too few for these data: the standard "
            "deviations of conditioned draws are expected to be off by "
            f"{100 * error:.2g} % (root mean square); their mean is right. Pass a "
            'larger n_basis, or n_basis="auto".',
            PredictionWarning,
        )


def random_features(
    parts: list[Part], choice: Choice
) -> list[tuple[float, FeatureMap]]:
    """Variances and feature maps of the parts whose features are random."""
    net = np.random.default_rng(choice.seed)
    return [
        (part.variance, part.feature_map(setting, net))
        for part, setting in zip(parts, choice.settings, strict=True)
        if not part.is_exact
    ]
