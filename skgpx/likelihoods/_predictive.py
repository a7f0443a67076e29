"""Predictive distributions of likelihoods: densities, moments, averages over f.

A fixed rule of nodes resolves a likelihood whose features are about as wide as the
normal laws of the mixture, or wider. Rows for which that is in doubt get two, four, ...
times as many nodes, and in the end a mesh around the peak of the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from skgpx._numerics.mixture import LatentMixture, atoms, normal_nodes
from skgpx._numerics.normal_sums import cdf, link_averages, logistic_noise
from skgpx.exceptions import PredictionWarning, warn

# ---- Integrals of a likelihood over the latent line, on meshes refined to its peak ---


Array = NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
# Even panels over the range, and halvings of it towards each of two peaks.
_PANELS, _HALVINGS = 40, 24
# Standard deviations of each component that are covered.
_COVERED = 10.0
# Least standard deviation of a component, as a part of the largest.
_ATOM = 1e-3
# Points and rounds of the search for a peak: the range shrinks to a part in 10^8.
_POINTS, _ROUNDS = 17, 9
# Difference of two meshes, in nats, that is reported.
_DOUBTFUL = 0.01


def log_integral(
    likelihood: Any, y: Array, mixture: LatentMixture
) -> tuple[Array, NDArray[np.bool_]]:
    """``log ∫ p(y | f) p(f) df`` of each row, and where it is doubtful, (n,) each.

    Gauss-Legendre rules of 8 nodes on even panels and on panels whose length halves
    towards the peak of the likelihood and towards that of the integrand: features down
    to a part in 10^6 of the standard deviation of f are resolved there, and at -f where
    that has the same likelihood. Doubtful are rows for which two meshes differ by 0.01
    nats.

    Parameters
    ----------
    likelihood : Likelihood
        Of one output.
    y : ndarray of shape (n,)
    mixture : LatentMixture
        Some variance of each row must be positive.
    """
    mean, std = mixture.mean[:, 0], np.sqrt(mixture.variance[:, 0])
    low = np.min(mean - _COVERED * std, axis=1)
    high = np.max(mean + _COVERED * std, axis=1)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64).reshape(len(y))
    rough = np.where(np.isfinite(rough), rough, low)
    low, high = np.minimum(low, rough), np.maximum(high, rough)

    def log_likelihood(f: Array) -> Array:
        return -np.asarray(likelihood.row_nll(y, f[:, np.newaxis]))

    def log_integrand(f: Array) -> Array:
        return log_likelihood(f) + _log_density(f, mixture)

    peaks = [_peak(g, low, high) for g in (log_likelihood, log_integrand)]
    if likelihood.symmetric:
        peaks += [-peak for peak in peaks]
    fine = _on_mesh(log_integrand, low, high, peaks, 0.5)
    coarse = _on_mesh(log_integrand, low, high, peaks, 0.4)
    return fine, np.abs(fine - coarse) > _DOUBTFUL


def _log_density(f: Array, mixture: LatentMixture) -> Array:
    """Log density of the latent mixture at f (n, k), shape (n, k)."""
    out = np.full(f.shape, -np.inf)
    variance = np.broadcast_to(mixture.variance[:, 0], mixture.mean[:, 0].shape)
    # atoms get a width that no mesh would miss
    least = _ATOM**2 * np.max(variance, axis=1, keepdims=True)
    variance = np.maximum(variance, least)
    for j, weight in enumerate(mixture.weights):
        v = variance[:, j, np.newaxis]
        square = (f - mixture.mean[:, 0, j, np.newaxis]) ** 2 / v
        out = np.logaddexp(
            out, np.log(weight) - 0.5 * (square + np.log(2.0 * np.pi * v))
        )
    return out


def _peak(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where the function is largest, (n,): a grid around the best point of the last."""
    rows, grid = np.arange(len(low)), np.linspace(0.0, 1.0, _POINTS)
    start, length = low, high - low
    for _ in range(_ROUNDS):
        f = start[:, np.newaxis] + length[:, np.newaxis] * grid
        values = function(f)
        best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        centre, length = f[rows, best], length * (2.0 / (_POINTS - 1))
        start = np.clip(centre - 0.5 * length, low, high - length)
    return centre


def _on_mesh(
    log_integrand: Callable[[Array], Array],
    low: Array,
    high: Array,
    peaks: list[Array],
    ratio: float,
) -> Array:
    """Log of the integral over [low, high] by panels that shrink by a ratio."""
    length = (high - low)[:, np.newaxis]
    even = low[:, np.newaxis] + length * np.linspace(0.0, 1.0, _PANELS + 1)
    steps = length * ratio ** np.arange(1.0, _HALVINGS + 1.0)
    around = [p[:, np.newaxis] + s * steps for p in peaks for s in (-1.0, 1.0)]
    mesh = np.concatenate([even, *around, *(p[:, np.newaxis] for p in peaks)], axis=1)
    mesh = np.sort(np.clip(mesh, low[:, np.newaxis], high[:, np.newaxis]), axis=1)
    half = 0.5 * np.diff(mesh, axis=1)[:, :, np.newaxis]
    f = 0.5 * (mesh[:, 1:] + mesh[:, :-1])[:, :, np.newaxis] + half * _NODES
    terms = log_integrand(f.reshape(len(low), -1))
    top = np.max(terms, axis=1, keepdims=True)
    weights = (half * _NODE_WEIGHTS).reshape(len(low), -1)
    sums = np.sum(weights * np.exp(terms - top), axis=1)
    result: Array = top[:, 0] + np.log(sums)
    return result


# ---- Probabilities and quantiles of mixtures of conditional laws ---------------------


Cdf = Callable[[Array], Array]
Condition = Callable[[Array], NDArray[np.bool_]]


def log_mixture(log_values: Array, weights: Array) -> Array:
    """``log sum_a weights[a] exp(log_values[:, a])``, shape (n,)."""
    return np.asarray(logsumexp(log_values, axis=1, b=weights))


def probit_log_probability(
    sign: Array, mean: Array, variance: Array, weights: Array
) -> Array:
    """``log P(sign (f + noise) > 0)``: the closed form of the probit link."""
    z = sign[:, np.newaxis] * mean / np.sqrt(1.0 + variance)
    return log_mixture(log_ndtr(z), weights)


def class_quantile(p: ArrayLike, probabilities: Array) -> Array:
    """Smallest class number with ``P(Y <= y) >= p`` for each p (q,), shape (n, q).

    Up to a tolerance of 1e-13 in p that absorbs the rounding of the probabilities.
    """
    below = np.cumsum(probabilities[:, :-1], axis=1)[:, :, np.newaxis]
    levels = np.atleast_1d(np.asarray(p, dtype=np.float64)) - 1e-13
    return np.sum(below < levels, axis=1).astype(np.float64)


def continuous_quantile(cdf: Cdf, p: float, centre: Array, spread: Array) -> Array:
    """Solve ``cdf(y) = p`` for each row of a continuous law.

    The bracket grows from the centre by doubling, then shrinks by the Illinois
    variant of regula falsi, every fourth step by bisection. Each row stops separately,
    so its result does not depend on the other rows.

    Parameters
    ----------
    cdf : callable
        Takes and returns arrays of shape (n,); non-decreasing in each row.
    p : float
        Strictly between 0 and 1.
    centre, spread : ndarray of shape (n,)
        Starting point, and unit of length. A row is done when its bracket is narrower
        than ``1e-12 * (spread + |y|)`` or its cdf differs from p by less than
        ``1e-12 * min(p, 1 - p)``.

    Returns
    -------
    quantile : ndarray of shape (n,)
    """
    low = _expand(lambda y: cdf(y) > p, centre, -spread)
    high = _expand(lambda y: cdf(y) < p, centre, spread)
    low_gap, high_gap = cdf(low) - p, cdf(high) - p
    last = np.zeros(low.shape)
    for step in range(200):
        wide = high - low > 1e-12 * (spread + np.maximum(np.abs(low), np.abs(high)))
        if not wide.any():
            break
        middle = 0.5 * (low + high)
        if step % 4 != 3:
            middle = _secant(low, high, low_gap, high_gap, middle)
        gap = cdf(middle) - p
        done = wide & (np.abs(gap) <= 1e-12 * min(p, 1.0 - p))
        side = np.where(wide, np.where(gap < 0.0, -1.0, 1.0), 0.0)
        # Illinois: halve the value of an end kept twice, so that it moves next time.
        stays = np.where(side == last, 0.5, 1.0)
        low_gap = np.where(side < 0.0, gap, low_gap * stays)
        high_gap = np.where(side > 0.0, gap, high_gap * stays)
        low = np.where((side < 0.0) | done, middle, low)
        high = np.where((side > 0.0) | done, middle, high)
        last = side
    return 0.5 * (low + high)


def _secant(
    low: Array, high: Array, low_gap: Array, high_gap: Array, middle: Array
) -> Array:
    """Zero of the chord, or the midpoint where the chord has none in the bracket."""
    rise = high_gap - low_gap
    safe = np.where(rise > 0.0, rise, 1.0)
    x = low - low_gap * (high - low) / safe
    inside = (rise > 0.0) & (x > low) & (x < high)
    return np.where(inside, x, middle)


def _expand(outside: Condition, start: Array, step: Array) -> Array:
    """First of start + step, start + 3 step, ... that is not outside, per row."""
    end = start + step
    for _ in range(1000):
        moving = outside(end)
        if not moving.any():
            break
        step = np.where(moving, 2.0 * step, step)
        end = np.where(moving, end + step, end)
    return end


def discrete_quantile(cdf: Cdf, p: float, centre: Array, spread: Array) -> Array:
    """Smallest integer y with ``cdf(y) >= p`` for each row of a law on the integers.

    Same arguments as :func:`continuous_quantile`; the result is exact, up to a
    tolerance of 1e-13 in p that absorbs the rounding of the weights.
    """
    p = p - 1e-13
    centre, step = np.floor(centre), np.ceil(spread) + 1.0
    low = _expand(lambda y: cdf(y) >= p, centre, -step)
    high = _expand(lambda y: cdf(y) < p, centre, step)
    while np.any(high - low > 1.0):
        middle = np.floor(0.5 * (low + high))
        enough = cdf(middle) >= p
        wide = high - low > 1.0
        high = np.where(wide & enough, middle, high)
        low = np.where(wide & ~enough, middle, low)
    return high


# ---- Averages of any likelihood of one output over a latent mixture ------------------


Rows = NDArray[np.intp]

# Largest multiple of the nodes for densities and for moments.
_FINEST_DENSITY, _FINEST_MOMENTS = 16, 64
# Least spread of the nodes that matter, in spacings: half a spacing means that there
# are two; from .6 on the error of the rule is below 2 exp(-2π² .6²) = .002.
_RESOLVED = 0.6
# Largest share of an integral at the ends of a rule.
_AT_THE_ENDS = 1e-3
# Difference, in nats, of a rule and the one with half its nodes; for several outputs.
_AGREEING, _POINTS_AGREEING = 1e-3, 0.02
# Largest difference between every other node and the others, in standard deviations:
# the rule of all of them is far better than either half.
_HALVES = 0.03
# Spacing, in standard deviations of the normal laws, times the ratio of these to the
# width of a likelihood, above which the nodes are multiplied; that of 11 nodes is 1.07.
_FINE = 1.1
# How far a likelihood's peak may be, in standard deviations of f, to be looked at.
_IN_SIGHT = 5.0
# Inverse width of logistic and softplus function, for 1e-5, and the standard deviation
# from which these are narrow beside every normal law.
_LOGISTIC, _WIDE = 0.7, 4.0
# Log probability below which it is computed as such.
_TINY = -600.0
# Values in memory at a time.
_CHUNK = 1_000_000


def moments(likelihood: Any, mixture: LatentMixture, noise: bool) -> Array:
    """``E[y]``, ``Var E[y | f]`` and, with `noise`, ``E Var[y | f]``, shape (3, n).

    Nodes are doubled, at most 64-fold, where those of even and of odd number disagree
    by more than three hundredths of a standard deviation.
    """
    out = np.zeros((3, len(mixture.mean)))

    def evaluate(rows: Rows, refinement: int) -> NDArray[np.bool_]:
        values, weights = atoms(mixture.rows(rows), refinement=refinement)
        law = likelihood.at_some(rows)
        means = law.row_mean(values)
        average = means @ weights
        square = (means - average[:, np.newaxis]) ** 2 @ weights
        out[:2, rows] = average, square
        if noise:
            out[2, rows] = law.row_variance(values) @ weights
        k = len(weights) // len(mixture.weights)
        if k == 1 or values.shape[1] > 1:
            return np.zeros(len(rows), dtype=np.bool_)
        sign = np.tile(np.where(np.arange(k) % 2 == 0, 1.0, -1.0), len(mixture.weights))
        even, odd = np.maximum(sign, 0.0) * weights, np.maximum(-sign, 0.0) * weights
        gap = np.abs(means @ (even / even.sum() - odd / odd.sum()))
        return gap > _HALVES * np.sqrt(square) + 1e-12 * np.abs(average)

    _refine(evaluate, np.ones(len(mixture.mean), np.intp), mixture, _FINEST_MOMENTS)
    return out


def log_density(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

    A row is resolved if the nodes that matter spread over more than half a spacing and
    do not lie at the ends of the rule. Twice the nodes otherwise, until two rules agree
    to 0.001 nats, at most 16-fold; then the integral over f along a mesh that is
    refined towards the peak.
    """
    out = np.full(len(y), np.nan)
    if mixture.mean.shape[1] > 1:
        return _of_outputs(likelihood, y, mixture)

    def evaluate(rows: Rows, refinement: int) -> NDArray[np.bool_]:
        part = mixture.rows(rows)
        values, weights = atoms(part, refinement=refinement)
        terms = -likelihood.at_some(rows).row_nll(y[rows], values)
        before = out[rows]
        out[rows], shares = _log_sum(terms, weights)
        changed = np.abs(out[rows] - before) > _AGREEING
        return _unresolved(shares, part, refinement) | changed

    start = refinements(mixture, _width_at_peak(likelihood, y, mixture))
    rows = _refine(evaluate, start, mixture, _FINEST_DENSITY)
    for some in _chunks(rows, 4000 * (1 + len(mixture.weights) // 8)):
        part = mixture.rows(some)
        law = likelihood.at_some(some)
        out[some], doubtful = log_integral(law, y[some], part)
        if np.any(doubtful):
            _warn_of_doubt(likelihood, int(np.sum(doubtful)))
    return out


def _of_outputs(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """The same for several latent values: twice the points until two sets agree."""
    out = np.full(len(y), np.nan)

    def evaluate(rows: Rows, refinement: int) -> NDArray[np.bool_]:
        values, weights = atoms(mixture.rows(rows), refinement=refinement)
        terms = -likelihood.at_some(rows).row_nll(y[rows], values)
        before = out[rows]
        out[rows] = _log_sum(terms, weights)[0]
        if values.shape[2] == len(mixture.weights):
            return np.zeros(len(rows), dtype=np.bool_)
        settled = np.abs(out[rows] - before) <= _POINTS_AGREEING
        return ~(settled | np.isneginf(out[rows]))

    first = np.ones(len(y), np.intp)
    rows = _refine(evaluate, first, mixture, _FINEST_DENSITY)
    if len(rows):
        _warn_of_doubt(likelihood, len(rows), several=True)
    return out


def _warn_of_doubt(likelihood: Any, n_rows: int, several: bool = False) -> None:
    reason = (
        "the likelihood is far narrower than the law of its latent values. Define "
        "predictive_log_density(y, mixture) where there is a formula."
        if several
        else "the likelihood is narrow in the latent function, and not only around "
        "initial_latent(y) or where nll is smallest."
    )
    warn(
        f"Log densities of {type(likelihood).__name__} are uncertain by more than "
        f"{_POINTS_AGREEING if several else 0.01} nats in {n_rows} rows: {reason}",
        PredictionWarning,
    )


def softplus_moments(mixture: LatentMixture) -> Array:
    """Mean and variance of ``softplus(f)``, shape (n, 2)."""
    out = np.empty((len(mixture.mean), 2))
    for rows, factor in _same(refinements(mixture, np.array(_LOGISTIC))):
        out[rows] = link_averages(mixture.rows(rows), factor)[:, 1:]
    return out


def logistic_log_probability(
    likelihood: Any, y: Array, sign: Array, mixture: LatentMixture
) -> Array:
    """``log E expit(sign f)`` of each row, shape (n,).

    By nodes for f; where all normal laws are wide, ``P(f > L)`` by nodes for a logistic
    variable L; where it is tiny, as an integral along the latent line.
    """
    signed = mixture._replace(mean=sign[:, np.newaxis, np.newaxis] * mixture.mean)
    p = np.empty(len(y))
    narrow = np.min(mixture.variance, axis=(1, 2)) < _WIDE**2
    narrow = np.broadcast_to(narrow, len(y))
    fine = refinements(mixture, np.array(_LOGISTIC))
    for rows, factor in _same(np.where(narrow, fine, 0)):
        part = signed.rows(rows)
        if factor == 0:
            mean, variance = -part.mean[:, 0], part.variance[:, 0]
            zero = np.zeros(len(rows))
            p[rows] = cdf(zero, mean, variance, part.weights, logistic_noise())
        else:
            p[rows] = link_averages(part, factor)[:, 0]
    with np.errstate(divide="ignore"):
        out = np.log(p)
    tiny = np.flatnonzero(out < _TINY)
    if len(tiny):
        law = likelihood.at_some(tiny)
        out[tiny] = log_density(law, y[tiny], mixture.rows(tiny))
    return out


def cdf_refinements(likelihood: Any, mixture: LatentMixture) -> Rows:
    """Multiples of the nodes, (n,), for distribution functions of one output.

    From the curvature of the likelihood at the mean of y, around the mean of f.
    """
    if mixture.mean.shape[1] > 1:
        return np.ones(len(mixture.mean), np.intp)
    mean, variance = mixture.moments()
    f = mean + np.sqrt(variance) * np.array([-1.0, 0.0, 1.0])
    with np.errstate(all="ignore"):
        curvature = likelihood.curvature(likelihood.mean(f), f)
    return refinements(mixture, _inverse_width(np.max(curvature, axis=1)))


def refinements(mixture: LatentMixture, inverse_width: Array) -> Rows:
    """Powers of two by which nodes are multiplied for features this narrow, (n,)."""
    std = np.sqrt(np.max(mixture.variance, axis=(1, 2)))
    nodes, _ = normal_nodes(mixture)
    if nodes.shape[2] == 1:
        return np.ones(len(mixture.mean), np.intp)
    spacing = float(nodes[0, 0, 1] - nodes[0, 0, 0])
    excess = np.maximum(std * inverse_width * spacing / _FINE, 1.0)
    powers = np.ceil(np.log2(np.minimum(excess, _FINEST_MOMENTS)) - 1e-9)
    result: Rows = np.broadcast_to(2 ** powers.astype(np.intp), len(mixture.mean))
    return result.copy()


def _same(refinement: Rows) -> Iterator[tuple[Rows, int]]:
    """Rows with the same multiple of nodes."""
    for factor in np.unique(refinement):
        yield np.flatnonzero(refinement == factor), int(factor)


def by_refinement(mixture: LatentMixture, refinement: Rows) -> Iterator[Any]:
    """Rows, their atoms and weights, in chunks with the same number of nodes."""
    for rows, factor in _same(refinement):
        for some in _chunks(rows, _n_atoms(mixture, factor)):
            part = mixture.rows(some)
            yield some, part, *atoms(part, refinement=factor)


def _refine(
    evaluate: Callable[[Rows, int], NDArray[np.bool_]],
    refinement: Rows,
    mixture: LatentMixture,
    finest: int,
) -> Rows:
    """Evaluate all rows, again with twice the nodes where that says so.

    Returns the rows that the finest rule would not do for.
    """
    factor, refinement = 1, np.minimum(refinement, 2 * finest)
    while factor <= finest:
        rows = np.flatnonzero(refinement == factor)
        for some in _chunks(rows, _n_atoms(mixture, factor)):
            coarse = evaluate(some, factor)
            refinement[some[coarse]] = 2 * factor
        factor *= 2
    return np.flatnonzero(refinement > finest)


def _n_atoms(mixture: LatentMixture, factor: int) -> int:
    nodes, _ = normal_nodes(mixture)
    return int(nodes.size) * factor


def _chunks(rows: Rows, floats: int) -> Iterator[Rows]:
    size = max(1, _CHUNK // floats)
    for i in range(0, len(rows), size):
        yield rows[i : i + size]


def _log_sum(terms: Array, weights: Array) -> tuple[Array, Array]:
    """``log Σ_a weights_a exp(terms_a)``, and the terms of the sum over the largest."""
    top = np.max(terms, axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    shares = np.exp(terms - top)
    shares *= weights
    with np.errstate(divide="ignore"):
        return top[:, 0] + np.log(np.sum(shares, axis=1)), shares


def _unresolved(
    shares: Array, mixture: LatentMixture, refinement: int
) -> NDArray[np.bool_]:
    """Rows whose integrand is narrower than its nodes, or beyond them."""
    nodes, _ = normal_nodes(mixture, refinement=refinement)
    xi = nodes[0]
    if xi.shape[1] == 1:
        return np.zeros(len(shares), dtype=np.bool_)
    shares = shares.reshape(len(shares), *xi.shape)
    mass = np.sum(shares, axis=2)
    first = np.einsum("nsk,sk->ns", shares, xi)
    second = np.einsum("nsk,sk->ns", shares, xi**2)
    total = np.sum(mass, axis=1)
    within = second - first**2 / np.where(mass > 0.0, mass, 1.0)
    spread = np.sqrt(np.maximum(np.sum(within, axis=1), 0.0) / total)
    ends = np.sum(shares[:, :, 0] + shares[:, :, -1], axis=1) / total
    return (spread < _RESOLVED * (xi[0, 1] - xi[0, 0])) | (ends > _AT_THE_ENDS)


def _width_at_peak(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """Inverse width of the likelihood at the rough latent value of y, (n,).

    Zero where that is out of sight of the mixture.
    """
    mean, variance = mixture.moments()
    with np.errstate(all="ignore"):
        rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64)
        rough = rough.reshape(len(y), -1)[:, 0]
        at = rough[:, np.newaxis, np.newaxis]
        width = _inverse_width(likelihood.row_curvature(y, at)[:, 0, 0, 0])
    far = np.abs(rough - mean[:, 0]) > _IN_SIGHT * np.sqrt(variance[:, 0])
    return np.where(far, 0.0, width)


def _inverse_width(curvature: Array) -> Array:
    """``√curvature``, zero where that is not a number."""
    usable = np.isfinite(curvature) & (curvature > 0.0)
    return np.sqrt(np.where(usable, curvature, 0.0))
