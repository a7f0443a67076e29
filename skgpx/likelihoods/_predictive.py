"""Averages of any likelihood over a latent mixture: moments, densities, probabilities.

The trapezoidal rule of :func:`skgpx._numerics.mixture.atoms` resolves a likelihood
whose features are about as wide as the normal components, or wider. A row has two,
four, ... times as many nodes until those of even and of odd number agree, after which
all of them together are far more accurate than either half.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx._numerics.expectations import (
    chebyshev_coefficients,
    chebyshev_rule,
    line_rule,
    line_sizes,
)
from skgpx._numerics.mixture import LatentMixture, atoms, normal_nodes
from skgpx._numerics.quantiles import Cdf

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

# ---- Moments and densities -----------------------------------------------------------


def _refine(
    evaluate: Callable[[Rows, Array, Array, Array], Mask],
    mixture: LatentMixture,
    finest: int,
) -> Rows:
    """Evaluate all rows, again with twice the nodes where that finds halves apart.

    ``evaluate(rows, values, weights, sides)``; `sides` (2, a) are the weights of the
    nodes of even and of odd number. Returns the rows that the finest rule leaves.
    """
    s, factor, pending = len(mixture.weights), 1, np.arange(len(mixture.mean))
    while len(pending) and factor <= finest:
        # values that stay in the cache
        size = max(1, 200_000 // (normal_nodes(mixture)[0].size * factor))
        left = []
        for i in range(0, len(pending), size):
            rows = pending[i : i + size]
            values, weights = atoms(mixture.rows(rows), refinement=factor)
            k = len(weights) // s
            even = np.tile(np.arange(k) % 2 == 0, s)
            sides = np.where(np.stack((even, ~even)), weights, 0.0)
            sides /= np.maximum(sides.sum(axis=1, keepdims=True), 1e-300)
            apart = evaluate(rows, values, weights, sides)
            # a finer rule for several outputs is another sequence of points
            left.append(rows[apart & (k > 1 and mixture.mean.shape[1] == 1)])
        pending, factor = np.concatenate(left), 2 * factor
    return pending


def moments(
    evaluate: Callable[[Rows, Array], tuple[Array, Array | float]],
    mixture: LatentMixture,
) -> Array:
    """``E h(f)``, ``Var h(f)`` and ``E g(f)`` of each row, shape (3, n).

    ``evaluate(rows, f)`` returns h and g, (k, a), at latent values (k, c, a).
    """
    out = np.zeros((3, len(mixture.mean)))

    def apart(rows: Rows, f: Array, weights: Array, sides: Array) -> Mask:
        h, g = evaluate(rows, f)
        out[0, rows], out[1, rows], unlike = _averages(h, weights, sides)
        out[2, rows] = np.broadcast_to(g, h.shape) @ weights
        return unlike

    _refine(apart, mixture, 64)
    return out


def _averages(h: Array, weights: Array, sides: Array) -> tuple[Array, Array, Mask]:
    """Mean and variance of h (k, a) over the nodes, and whether the halves disagree."""
    average = h @ weights
    square = (h - average[:, np.newaxis]) ** 2 @ weights
    gap = np.abs(h @ (sides[0] - sides[1]))
    return average, square, gap > 3e-4 * np.sqrt(square) + 1e-12 * np.abs(average)


def log_density(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

    Rows of one output that 16 times the nodes do not resolve have the integral along
    the latent line, by a mesh around the peaks.
    """
    out = np.full(len(y), np.nan)

    def apart(rows: Rows, f: Array, weights: Array, sides: Array) -> Mask:
        terms = -likelihood.at_some(rows).row_nll(y[rows], f)
        top = np.max(terms, axis=1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        shares = np.exp(terms - top)
        with np.errstate(all="ignore"):
            total = shares @ weights
            out[rows] = top[:, 0] + np.log(total)
            even, odd = np.log(sides @ shares.T)
            # halves also agree where a peak is in the middle between two nodes
            alone = np.max(shares * weights, axis=1) > 0.4 * total
            return ~(np.abs(even - odd) <= 3e-4) | alone

    left = _refine(apart, mixture, 16)
    size = max(1, 1000 // (4 + len(mixture.weights)))
    for i in range(0, len(left), size):
        rows = left[i : i + size]
        given = likelihood.at_some(rows)
        out[rows] = _line_integral(given, y[rows], mixture.rows(rows))
    return out


def _line_integral(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """``log ∫ p(y | f) p(f) df`` of each row, (n,), for one output.

    Gauss-Legendre rules on even panels and on panels whose length halves towards the
    peaks of the likelihood and of the integrand: features down to a part in 10^6 of the
    standard deviation of f are resolved there, and at -f where the likelihood is
    symmetric.
    """
    mean, variance = mixture.mean[:, 0], mixture.variance[:, 0]
    # atoms get a width that no mesh would miss
    variance = np.maximum(variance, 1e-6 * np.max(variance, axis=1, keepdims=True))
    std = np.sqrt(np.broadcast_to(variance, mean.shape))
    low, high = np.min(mean - 10.0 * std, axis=1), np.max(mean + 10.0 * std, axis=1)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64).reshape(len(y))
    rough = np.where(np.isfinite(rough), rough, low)
    low, high = np.minimum(low, rough), np.maximum(high, rough)

    def log_likelihood(f: Array) -> Array:
        return -np.asarray(likelihood.row_nll(y, f[:, np.newaxis]))

    def log_integrand(f: Array) -> Array:
        prior = np.full(f.shape, -np.inf)
        for m, s, weight in zip(mean.T, std.T, mixture.weights, strict=True):
            z = (f - m[:, np.newaxis]) / s[:, np.newaxis]
            log = np.log(weight) - 0.5 * z**2 - np.log(s[:, np.newaxis])
            prior = np.logaddexp(prior, log)
        return log_likelihood(f) + prior - 0.5 * np.log(2.0 * np.pi)

    peaks = [_peak(g, low, high) for g in (log_likelihood, log_integrand)]
    if likelihood.symmetric:
        peaks += [-peak for peak in peaks]
    length = (high - low)[:, np.newaxis]
    steps = length * 0.5 ** np.arange(1.0, 25.0)
    around = [
        p[:, np.newaxis] + np.hstack((-steps, 0.0 * length, steps)) for p in peaks
    ]
    even = low[:, np.newaxis] + length * np.linspace(0.0, 1.0, 41)
    mesh = np.clip(np.hstack((even, *around)), low[:, np.newaxis], high[:, np.newaxis])
    mesh.sort(axis=1)
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    half = 0.5 * np.diff(mesh, axis=1)[:, :, np.newaxis]
    f = 0.5 * (mesh[:, 1:] + mesh[:, :-1])[:, :, np.newaxis] + half * nodes
    terms = log_integrand(f.reshape(len(y), -1))
    weights = (half * node_weights).reshape(len(y), -1)
    return np.asarray(logsumexp(terms, axis=1, b=weights))


def _peak(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where the function is largest, (n,): a grid around the best point of the last."""
    rows, grid = np.arange(len(low)), np.linspace(0.0, 1.0, 17)
    start, length = low, high - low
    # the range shrinks to a part in 10^8
    for _ in range(9):
        f = start[:, np.newaxis] + length[:, np.newaxis] * grid
        values = function(f)
        best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        centre, length = f[rows, best], length / 8.0
        start = np.clip(centre - 0.5 * length, low, high - length)
    return centre


# ---- Distribution functions ----------------------------------------------------------


def by_cdf(
    likelihood: Any,
    evaluate: Callable[[Cdf, Any], None],
    mixture: LatentMixture,
) -> None:
    """Call ``evaluate(cdf, rows)`` for all rows, in parts, some again with more nodes.

    ``cdf(y, some)`` is the distribution function of some of these rows. Their nodes,
    and what the likelihood derives from them, are computed once. Rows have as many as
    the calls for all of them, by ``slice(None)``, need.

    Nodes are even along the latent line where that takes few of them. Where components
    are narrow they are those of Chebyshev, as long as polynomials resolve the
    likelihood, then again even ones or `atoms`, whichever are fewer.
    """
    rows, several = np.arange(len(mixture.mean)), mixture.mean.shape[1] > 1
    atomic = normal_nodes(mixture)[0]
    if not several and atomic.shape[2] > 1:
        sizes = line_sizes(mixture)
        narrow = np.flatnonzero(sizes > 128)
        left = _refine_cdf(likelihood, evaluate, mixture, narrow, _polynomials, 4)
        rows = np.concatenate((np.flatnonzero(sizes <= 128), left))
        even = sizes[rows] <= atomic.size
        for size in np.unique(sizes[rows[even]]):
            of_size = rows[sizes[rows] == size]
            rule = partial(_line, int(size))
            _refine_cdf(likelihood, evaluate, mixture, of_size, rule, 64)
        rows = rows[~even]
    # a finer rule for several outputs is another sequence of points
    finest = 1 if several else 64
    _refine_cdf(likelihood, evaluate, mixture, rows, _all_components, finest)


class _Rule(NamedTuple):
    """Nodes for the latent values of some rows, and a check of averages over them.

    Attributes
    ----------
    values : ndarray of shape (n, c, a)
    weights : ndarray of shape (n, a), or (a,) for all rows
        They sum to one.
    contrasts : list of ndarray of shape (n, a) or (a,)
        Weights of sums that vanish where the rule resolves a function.
    tolerance : float
        For these sums, in standard deviations of the function.
    n_components : int
        Components that have nodes of their own, which follow one another; otherwise 0.
    """

    values: Array
    weights: Array
    contrasts: list[Array]
    tolerance: float
    n_components: int = 0


def _line(size: int, mixture: LatentMixture, refinement: int) -> _Rule:
    """Even nodes; quarters of them differ by the fourth root of the error of all."""
    values, weights = line_rule(mixture, size * refinement)
    number = np.arange(weights.shape[1]) % 4
    contrasts = [_contrast(weights, number, j, j + 2) for j in (0, 1)]
    return _Rule(values, weights, contrasts, 1e-3)


def _polynomials(mixture: LatentMixture, refinement: int) -> _Rule:
    """Chebyshev nodes; the last coefficients of a function that they resolve vanish."""
    parts = []
    n_rows = max(1, 200_000 // normal_nodes(mixture)[0].size)
    for i in range(0, len(mixture.mean), n_rows):
        values, shares = atoms(mixture.rows(slice(i, i + n_rows)))
        parts.append(chebyshev_rule(values[:, 0], shares, 32 * refinement))
    nodes, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    contrasts = list(chebyshev_coefficients(nodes.shape[1])[-4:])
    return _Rule(nodes[:, np.newaxis], weights, contrasts, 1e-7)


def _all_components(mixture: LatentMixture, refinement: int) -> _Rule:
    """`atoms`; halves differ by the square root of the error of all."""
    values, weights = atoms(mixture, refinement=refinement)
    s = len(mixture.weights)
    number = np.arange(len(weights)) % (len(weights) // s) % 2
    return _Rule(values, weights, [_contrast(weights, number, 0, 1)], 1e-4, s)


def _contrast(weights: Array, part: Rows, first: int, second: int) -> Array:
    """Weights with which two parts of the nodes give averages, one less the other.

    Of nodes (a,), with weights (n, a) or (a,). Zero if a part is empty.
    """
    averages = [np.where(part == j, weights, 0.0) for j in (first, second)]
    totals = [np.sum(average, axis=-1, keepdims=True) for average in averages]
    if not all(np.all(total > 0.0) for total in totals):
        return np.zeros(weights.shape)
    return averages[0] / totals[0] - averages[1] / totals[1]


def _refine_cdf(
    likelihood: Any,
    evaluate: Callable[[Cdf, Any], None],
    mixture: LatentMixture,
    pending: Rows,
    rule: Callable[[LatentMixture, int], _Rule],
    finest: int,
) -> Rows:
    """`by_cdf` of rows by a rule, finer where it does not resolve; those left."""
    refinement = 1
    while len(pending) and refinement <= finest:
        n_nodes = rule(mixture.rows(pending[:1]), refinement).values.shape[2]
        # values that stay in the cache
        n_rows = max(1, 200_000 // n_nodes)
        unresolved = []
        for i in range(0, len(pending), n_rows):
            rows = pending[i : i + n_rows]
            nodes = rule(mixture.rows(rows), refinement)
            cdf = _AveragedCdf(likelihood.at_some(rows)._cdf_at(nodes.values), nodes)
            evaluate(cdf, rows)
            unresolved.append(rows[cdf.unresolved])
        pending = np.concatenate(unresolved)
        refinement *= 2
    return pending


class _AveragedCdf:
    """Distribution function of some rows, averaged over nodes of their latent values.

    Parameters
    ----------
    conditional : callable
        ``conditional(y, rows)``: that given the latent values, (k, a).
    rule : _Rule

    Attributes
    ----------
    unresolved : ndarray of bool of shape (n,)
        Rows that the rule did not resolve when the function was called for all rows.
    """

    def __init__(self, conditional: Callable[[Array, Any], Array], rule: _Rule) -> None:
        self.conditional = conditional
        self.rule = rule
        self.unresolved = np.zeros(len(rule.values), dtype=np.bool_)

    def __call__(self, y: Array, rows: Any) -> Array:
        """``P(Y <= y)`` of some of the rows, (k,)."""
        h = self.conditional(y, rows)
        weights = self.rule.weights
        average = _average(h, weights, rows)
        if isinstance(rows, slice):
            sums = [_average(h, contrast, rows) for contrast in self.rule.contrasts]
            square = _average((h - average[:, np.newaxis]) ** 2, weights, rows)
            std = np.sqrt(np.maximum(square, 0.0))
            allowed = self.rule.tolerance * std + 1e-12 * average
            unresolved = np.linalg.norm(sums, axis=0) > allowed
            if self.rule.n_components:
                # halves of few nodes may differ where all of them resolve the rise of h
                unresolved[unresolved] = self._steepest(h[unresolved]) > 0.15
            self.unresolved |= unresolved
        return average

    def _steepest(self, h: Array) -> Array:
        """Largest step of h (k, a) along a component, as a part of its range, (k,)."""
        s = self.rule.n_components
        steps = np.abs(np.diff(h.reshape(len(h), s, h.shape[1] // s), axis=2))
        largest = np.max(steps, axis=(1, 2), initial=0.0)
        return largest / np.maximum(np.ptp(h, axis=1), 1e-300)


def _average(h: Array, weights: Array, rows: Any) -> Array:
    """Sum of h (k, a) of some rows with weights (n, a), or (a,) for all rows, (k,)."""
    if weights.ndim == 1:
        return np.asarray(h @ weights)
    return np.asarray(np.einsum("ka,ka->k", h, weights[rows]))
