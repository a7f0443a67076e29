"""Averages of any likelihood over a latent mixture: moments, densities, probabilities.

The trapezoidal rule of :func:`skgpx._numerics.mixture.atoms` resolves a likelihood with
features about as wide as the normal components, or wider. The number of nodes of a row
is doubled until the rules on even and on odd nodes agree; the rule on all of them is
then far more accurate than either half.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from skgpx.likelihoods._base import Likelihood

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Values of a block of rows stay in the cache.
_BLOCK = 200_000

# ---- Moments and densities -----------------------------------------------------------


def _refine(
    evaluate: Callable[[Rows, Array, Array, Array], Mask],
    mixture: LatentMixture,
    finest: int,
) -> Rows:
    """Evaluate all rows, then unresolved rows again with twice the nodes.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(rows, values, weights, halves)`` returns a mask of the rows on which
        the rules on even and on odd nodes disagree; `halves` (2, a) are the weights of
        these rules.
    mixture : LatentMixture
    finest : int
        Largest factor of the number of nodes.

    Returns
    -------
    rows : ndarray of int
        Rows that the finest rule does not resolve.
    """
    n_components = len(mixture.weights)
    n_nodes = normal_nodes(mixture)[0].size
    # a finer rule for several outputs is another sequence of points
    can_refine = mixture.mean.shape[1] == 1
    pending = np.arange(len(mixture.mean))
    factor = 1
    while len(pending) and factor <= finest:
        size = max(1, _BLOCK // (n_nodes * factor))
        unresolved = []
        for i in range(0, len(pending), size):
            rows = pending[i : i + size]
            values, weights = atoms(mixture.rows(rows), refinement=factor)
            n_per_component = len(weights) // n_components
            even = np.tile(np.arange(n_per_component) % 2 == 0, n_components)
            halves = np.where(np.stack((even, ~even)), weights, 0.0)
            halves /= np.maximum(halves.sum(axis=1, keepdims=True), 1e-300)
            disagree = evaluate(rows, values, weights, halves)
            unresolved.append(rows[disagree & (n_per_component > 1 and can_refine)])
        pending = np.concatenate(unresolved)
        factor = 2 * factor
    return pending


def moments(
    evaluate: Callable[[Rows, Array], tuple[Array, Array | float]],
    mixture: LatentMixture,
) -> Array:
    """``E h(f)``, ``Var h(f)`` and ``E g(f)`` of each row, shape (3, n).

    ``evaluate(rows, f)`` returns h and g, (k, a), at latent values (k, c, a).
    """
    result = np.zeros((3, len(mixture.mean)))

    def average(rows: Rows, f: Array, weights: Array, halves: Array) -> Mask:
        h, g = evaluate(rows, f)
        mean = h @ weights
        variance = (h - mean[:, np.newaxis]) ** 2 @ weights
        result[0, rows] = mean
        result[1, rows] = variance
        result[2, rows] = np.broadcast_to(g, h.shape) @ weights
        gap = np.abs(h @ (halves[0] - halves[1]))
        return gap > 3e-4 * np.sqrt(variance) + 1e-12 * np.abs(mean)

    _refine(average, mixture, 64)
    return result


def log_density(likelihood: Likelihood, y: Array, mixture: LatentMixture) -> Array:
    """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

    Rows of one output that 16 times the nodes do not resolve have the integral along
    the latent line, by a mesh around the peaks.
    """
    result = np.full(len(y), np.nan)

    def average(rows: Rows, f: Array, weights: Array, halves: Array) -> Mask:
        log_terms = -likelihood.at_some(rows).row_nll(y[rows], f)
        largest = np.max(log_terms, axis=1, keepdims=True)
        largest = np.where(np.isfinite(largest), largest, 0.0)
        terms = np.exp(log_terms - largest)
        with np.errstate(all="ignore"):
            total = terms @ weights
            result[rows] = largest[:, 0] + np.log(total)
            even, odd = np.log(halves @ terms.T)
            # halves also agree where a peak is in the middle between two nodes
            one_term = np.max(terms * weights, axis=1) > 0.4 * total
            return ~(np.abs(even - odd) <= 3e-4) | one_term

    unresolved = _refine(average, mixture, 16)
    size = max(1, 1000 // (4 + len(mixture.weights)))
    for i in range(0, len(unresolved), size):
        rows = unresolved[i : i + size]
        of_rows = likelihood.at_some(rows)
        result[rows] = _line_integral(of_rows, y[rows], mixture.rows(rows))
    return result


def _line_integral(likelihood: Likelihood, y: Array, mixture: LatentMixture) -> Array:
    """``log ∫ p(y | f) p(f) df`` of each row, (n,), for one output.

    Gauss-Legendre rules on panels of equal length, and on panels that halve in length
    towards the peaks of the likelihood and of the integrand. They resolve features down
    to a part in 10^6 of the standard deviation of f there, and at -f where the
    likelihood is symmetric.
    """
    mean = mixture.mean[:, 0]
    variance = mixture.variance[:, 0]
    # atoms get a width that no mesh would miss
    largest = np.max(variance, axis=1, keepdims=True)
    variance = np.maximum(variance, 1e-6 * largest)
    std = np.sqrt(np.broadcast_to(variance, mean.shape))

    # range of f: ten standard deviations, and the rough value of the likelihood
    low = np.min(mean - 10.0 * std, axis=1)
    high = np.max(mean + 10.0 * std, axis=1)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64)
    rough = rough.reshape(len(y))
    rough = np.where(np.isfinite(rough), rough, low)
    low = np.minimum(low, rough)
    high = np.maximum(high, rough)

    def log_likelihood(f: Array) -> Array:
        return -np.asarray(likelihood.row_nll(y, f[:, np.newaxis]))

    def log_integrand(f: Array) -> Array:
        log_prior = np.full(f.shape, -np.inf)
        for j, weight in enumerate(mixture.weights):
            component_std = std[:, j, np.newaxis]
            z = (f - mean[:, j, np.newaxis]) / component_std
            log_component = np.log(weight) - 0.5 * z**2 - np.log(component_std)
            log_prior = np.logaddexp(log_prior, log_component)
        return log_likelihood(f) + log_prior - 0.5 * np.log(2.0 * np.pi)

    # panels
    peaks = [_peak(log_likelihood, low, high), _peak(log_integrand, low, high)]
    if likelihood.symmetric:
        peaks += [-peak for peak in peaks]
    length = (high - low)[:, np.newaxis]
    halving = length * 0.5 ** np.arange(1.0, 25.0)
    offsets = np.hstack((-halving, 0.0 * length, halving))
    equal = low[:, np.newaxis] + length * np.linspace(0.0, 1.0, 41)
    around_peaks = [peak[:, np.newaxis] + offsets for peak in peaks]
    mesh = np.hstack((equal, *around_peaks))
    mesh = np.clip(mesh, low[:, np.newaxis], high[:, np.newaxis])
    mesh.sort(axis=1)

    # Gauss-Legendre nodes of each
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    half_width = 0.5 * np.diff(mesh, axis=1)[:, :, np.newaxis]
    centre = 0.5 * (mesh[:, 1:] + mesh[:, :-1])
    f = centre[:, :, np.newaxis] + half_width * nodes
    log_terms = log_integrand(f.reshape(len(y), -1))
    weights = (half_width * node_weights).reshape(len(y), -1)
    return np.asarray(logsumexp(log_terms, axis=1, b=weights))


def _peak(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Maximiser of a function on each range, (n,), by ever finer grids."""
    rows = np.arange(len(low))
    grid = np.linspace(0.0, 1.0, 17)
    start = low
    length = high - low
    # the range shrinks to a part in 10^8
    for _ in range(9):
        f = start[:, np.newaxis] + length[:, np.newaxis] * grid
        values = function(f)
        comparable = np.where(np.isnan(values), -np.inf, values)
        best = np.argmax(comparable, axis=1)
        peak = f[rows, best]
        length = length / 8.0
        start = np.clip(peak - 0.5 * length, low, high - length)
    return peak


# ---- Distribution functions ----------------------------------------------------------


def by_cdf(
    likelihood: Likelihood,
    evaluate: Callable[[Cdf, Rows | slice], None],
    mixture: LatentMixture,
) -> None:
    """Call ``evaluate(cdf, rows)`` for all rows, in parts, again with more nodes.

    ``cdf(y, index)`` is the distribution function of ``rows[index]``. The nodes of the
    rows, and the values that the likelihood derives from them, are computed once. Nodes
    are refined until the calls for all rows of a part (``slice(None)``) are accurate.

    Nodes are equidistant along the latent line where few of them suffice. Where
    components are narrow they are Chebyshev nodes, as long as polynomials resolve the
    likelihood, then again equidistant ones or `atoms`, whichever are fewer.
    """
    refine = partial(_refine_cdf, likelihood, evaluate, mixture)
    if mixture.mean.shape[1] > 1:
        # a finer rule for several outputs is another sequence of points
        refine(np.arange(len(mixture.mean)), _all_components, 1)
        return

    rows = np.arange(len(mixture.mean))
    component_nodes = normal_nodes(mixture)[0]
    if component_nodes.shape[2] > 1:
        line_size = line_sizes(mixture)
        unresolved = refine(np.flatnonzero(line_size > 128), _polynomials, 4)
        rows = np.concatenate((np.flatnonzero(line_size <= 128), unresolved))
        on_line = line_size[rows] <= component_nodes.size
        for size in np.unique(line_size[rows[on_line]]):
            rows_of_size = rows[line_size[rows] == size]
            refine(rows_of_size, partial(_line, int(size)), 64)
        rows = rows[~on_line]
    refine(rows, _all_components, 64)


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
        Number of components with nodes of their own, one after the other; otherwise 0.
    """

    values: Array
    weights: Array
    contrasts: list[Array]
    tolerance: float
    n_components: int = 0


def _line(size: int, mixture: LatentMixture, refinement: int) -> _Rule:
    """Equidistant nodes; quarters differ by the fourth root of the error of all."""
    values, weights = line_rule(mixture, size * refinement)
    quarter = np.arange(weights.shape[1]) % 4
    contrasts = [
        _contrast(weights, quarter, 0, 2),
        _contrast(weights, quarter, 1, 3),
    ]
    return _Rule(values, weights, contrasts, tolerance=1e-3)


def _polynomials(mixture: LatentMixture, refinement: int) -> _Rule:
    """Chebyshev nodes; the last coefficients of a function that they resolve vanish."""
    block_nodes = []
    block_weights = []
    n_rows = max(1, _BLOCK // normal_nodes(mixture)[0].size)
    for i in range(0, len(mixture.mean), n_rows):
        values, shares = atoms(mixture.rows(slice(i, i + n_rows)))
        nodes, weights = chebyshev_rule(values[:, 0], shares, 32 * refinement)
        block_nodes.append(nodes)
        block_weights.append(weights)
    nodes = np.concatenate(block_nodes)
    weights = np.concatenate(block_weights)
    contrasts = list(chebyshev_coefficients(nodes.shape[1])[-4:])
    return _Rule(nodes[:, np.newaxis], weights, contrasts, tolerance=1e-7)


def _all_components(mixture: LatentMixture, refinement: int) -> _Rule:
    """`atoms`; halves differ by the square root of the error of all."""
    values, weights = atoms(mixture, refinement=refinement)
    n_components = len(mixture.weights)
    n_per_component = len(weights) // n_components
    half = np.arange(len(weights)) % n_per_component % 2
    contrast = _contrast(weights, half, 0, 1)
    return _Rule(
        values,
        weights,
        [contrast],
        tolerance=1e-4,
        n_components=n_components,
    )


def _contrast(weights: Array, part: Rows, first: int, second: int) -> Array:
    """Weights of the average over one part of the nodes less that over another.

    For nodes (a,) with weights (n, a) or (a,). Zero if a part is empty.
    """
    first_weights = np.where(part == first, weights, 0.0)
    second_weights = np.where(part == second, weights, 0.0)
    first_total = np.sum(first_weights, axis=-1, keepdims=True)
    second_total = np.sum(second_weights, axis=-1, keepdims=True)
    totals = np.minimum(first_total, second_total)
    if not np.all(totals > 0.0):
        return np.zeros(weights.shape)
    return first_weights / first_total - second_weights / second_total


def _refine_cdf(
    likelihood: Likelihood,
    evaluate: Callable[[Cdf, Rows | slice], None],
    mixture: LatentMixture,
    pending: Rows,
    rule: Callable[[LatentMixture, int], _Rule],
    finest: int,
) -> Rows:
    """`by_cdf` of rows by a rule, refined where it must be; returns unresolved rows."""
    refinement = 1
    while len(pending) and refinement <= finest:
        first_row = mixture.rows(pending[:1])
        n_nodes = rule(first_row, refinement).values.shape[2]
        n_rows = max(1, _BLOCK // n_nodes)
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
    """Distribution function of rows, averaged over nodes of their latent values.

    Parameters
    ----------
    conditional : callable
        ``conditional(y, rows)``: distribution function given the latent values, (k, a).
    rule : _Rule

    Attributes
    ----------
    unresolved : ndarray of bool of shape (n,)
        Rows that the rule did not resolve when the function was called for all rows.
    """

    def __init__(self, conditional: Cdf, rule: _Rule) -> None:
        self.conditional = conditional
        self.rule = rule
        self.unresolved = np.zeros(len(rule.values), dtype=np.bool_)

    def __call__(self, y: Array, rows: Rows | slice) -> Array:
        """``P(Y <= y)`` of a selection of the rows, (k,)."""
        h = self.conditional(y, rows)
        average = _average(h, self.rule.weights, rows)
        if isinstance(rows, slice):
            self._check(h, average, rows)
        return average

    def _check(self, h: Array, average: Array, rows: slice) -> None:
        """Note the rows for which the sums by contrasts do not vanish."""
        rule = self.rule
        sums = [_average(h, contrast, rows) for contrast in rule.contrasts]
        squares = (h - average[:, np.newaxis]) ** 2
        variance = _average(squares, rule.weights, rows)
        std = np.sqrt(np.maximum(variance, 0.0))
        allowed = rule.tolerance * std + 1e-12 * average
        unresolved = np.linalg.norm(sums, axis=0) > allowed
        if rule.n_components:
            # halves of few nodes may differ where all of them resolve the rise of h
            unresolved[unresolved] = self._steepest(h[unresolved]) > 0.15
        self.unresolved |= unresolved

    def _steepest(self, h: Array) -> Array:
        """Largest step of h (k, a) along a component, relative to its range, (k,)."""
        n_components = self.rule.n_components
        n_per_component = h.shape[1] // n_components
        by_component = h.reshape(len(h), n_components, n_per_component)
        steps = np.abs(np.diff(by_component, axis=2))
        largest = np.max(steps, axis=(1, 2), initial=0.0)
        return largest / np.maximum(np.ptp(h, axis=1), 1e-300)


def _average(h: Array, weights: Array, rows: Rows | slice) -> Array:
    """Sum of h (k, a) with weights (n, a) of these rows, or (a,) for all rows, (k,)."""
    if weights.ndim == 1:
        return np.asarray(h @ weights)
    return np.asarray(np.einsum("ka,ka->k", h, weights[rows]))
