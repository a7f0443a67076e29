"""Averages of any likelihood over a latent mixture: moments, densities, probabilities.

The trapezoidal rule of :func:`skgpx._numerics.mixture.atoms` resolves a likelihood with
features about as wide as the normal components, or wider. The number of nodes of a row
is doubled until the rules on even and on odd nodes agree; the rule on all of them is
then far more accurate than either half.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.special import logsumexp

from skgpx._numerics.expectations import (
    chebyshev_coefficients,
    chebyshev_rule,
    line_rule,
    line_sizes,
)
from skgpx._numerics.mixture import LatentMixture, atoms, normal_nodes
from skgpx._numerics.quantiles import Cdf, UseOfCdf
from skgpx._numerics.rows import row_slices
from skgpx._types import Array, Index, Mask, Selection


class _Likelihood(Protocol):
    """What averages need of a likelihood."""

    symmetric: bool

    def at_some(self, rows: Selection) -> Self: ...
    def initial_latent(self, y: Array) -> Array: ...
    def row_nll(self, y: Array, f: Array) -> Array: ...
    def _cdf_at(self, f: Array) -> Cdf: ...


# Values of a block of rows stay in the cache.
BLOCK = 200_000

# ---- Moments and densities -----------------------------------------------------------


def _refine(
    evaluate: Callable[[Index, Array, Array, Array], Mask],
    mixture: LatentMixture,
    finest: int,
) -> Index:
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
        n_rows = max(1, BLOCK // (n_nodes * factor))
        unresolved = []
        for block in row_slices(len(pending), n_rows):
            rows = pending[block]
            values, weights = atoms(mixture.rows(rows), refinement=factor)
            # the rule on all nodes, split into even and odd nodes of each component
            n_per_component = len(weights) // n_components
            is_even = np.arange(n_per_component) % 2 == 0
            is_even = np.tile(is_even, n_components)
            masks = np.stack((is_even, ~is_even))
            halves = np.where(masks, weights, 0.0)
            totals = halves.sum(axis=1, keepdims=True)
            halves /= np.maximum(totals, 1e-300)
            disagree = evaluate(rows, values, weights, halves)
            has_halves = n_per_component > 1 and can_refine
            unresolved.append(rows[disagree & has_halves])
        pending = np.concatenate(unresolved)
        factor = 2 * factor
    return pending


def moments(
    evaluate: Callable[[Index, Array], tuple[Array, Array | float]],
    mixture: LatentMixture,
) -> Array:
    """``E h(f)``, ``Var h(f)`` and ``E g(f)`` of each row, shape (3, n).

    ``evaluate(rows, f)`` returns h and g, (k, a), at latent values (k, c, a).
    """
    result = np.zeros((3, len(mixture.mean)))

    def average(rows: Index, f: Array, weights: Array, halves: Array) -> Mask:
        h, g = evaluate(rows, f)
        mean = h @ weights
        squares = (h - mean[:, np.newaxis]) ** 2
        variance = squares @ weights
        result[0, rows] = mean
        result[1, rows] = variance
        result[2, rows] = np.broadcast_to(g, h.shape) @ weights
        contrast = halves[0] - halves[1]
        gap = np.abs(h @ contrast)
        std = np.sqrt(variance)
        rounding = 1e-12 * np.abs(mean)
        return gap > 3e-4 * std + rounding

    _refine(average, mixture, 64)
    return result


def log_density(likelihood: _Likelihood, y: Array, mixture: LatentMixture) -> Array:
    """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

    Rows of one output that 16 times the nodes do not resolve have the integral along
    the latent line, by a mesh around the peaks.
    """
    result = np.full(len(y), np.nan)

    def average(rows: Index, f: Array, weights: Array, halves: Array) -> Mask:
        log_terms = -likelihood.at_some(rows).row_nll(y[rows], f)
        # log Σ wⱼ exp(tⱼ) = max + log Σ wⱼ exp(tⱼ - max)
        largest = np.max(log_terms, axis=1, keepdims=True)
        largest = np.where(np.isfinite(largest), largest, 0.0)
        terms = np.exp(log_terms - largest)
        with np.errstate(all="ignore"):
            total = terms @ weights
            result[rows] = largest[:, 0] + np.log(total)
            even, odd = np.log(halves @ terms.T)
            agree = np.abs(even - odd) <= 3e-4
            # halves also agree where a peak is in the middle between two nodes
            largest_share = np.max(terms * weights, axis=1)
            has_one_term = largest_share > 0.4 * total
            return ~agree | has_one_term

    unresolved = _refine(average, mixture, 16)
    n_rows = max(1, 1000 // (4 + len(mixture.weights)))
    for block in row_slices(len(unresolved), n_rows):
        rows = unresolved[block]
        of_rows = likelihood.at_some(rows)
        result[rows] = _line_integral(of_rows, y[rows], mixture.rows(rows))
    return result


def _line_integral(likelihood: _Likelihood, y: Array, mixture: LatentMixture) -> Array:
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
        nll = likelihood.row_nll(y, f[:, np.newaxis])
        return -np.asarray(nll)

    def log_integrand(f: Array) -> Array:
        # log p(f) = log Σ wⱼ N(f | mⱼ, sⱼ²), without the factor 1 / √(2π)
        log_prior = np.full(f.shape, -np.inf)
        for j, weight in enumerate(mixture.weights):
            component_mean = mean[:, j, np.newaxis]
            component_std = std[:, j, np.newaxis]
            z = (f - component_mean) / component_std
            log_component = np.log(weight) - 0.5 * z**2 - np.log(component_std)
            log_prior = np.logaddexp(log_prior, log_component)
        return log_likelihood(f) + log_prior - 0.5 * np.log(2.0 * np.pi)

    # peaks of the likelihood and of the integrand, where panels have to be short
    peaks = [
        _peak(log_likelihood, low, high),
        _peak(log_integrand, low, high),
    ]
    if likelihood.symmetric:
        peaks += [-peak for peak in peaks]

    # edges of the panels: equidistant ones, and more and more of them near a peak
    low = low[:, np.newaxis]
    high = high[:, np.newaxis]
    length = high - low
    distances = length * 0.5 ** np.arange(1.0, 25.0)
    offsets = np.hstack((-distances, 0.0 * length, distances))
    equidistant = low + length * np.linspace(0.0, 1.0, 41)
    around_peaks = [peak[:, np.newaxis] + offsets for peak in peaks]
    edges = np.hstack((equidistant, *around_peaks))
    edges = np.clip(edges, low, high)
    edges.sort(axis=1)

    # ∫ p(y | f) p(f) df ≈ Σ weight exp(log integrand), Gauss-Legendre on each panel
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    half_width = 0.5 * np.diff(edges, axis=1)[:, :, np.newaxis]
    centre = 0.5 * (edges[:, 1:] + edges[:, :-1])
    f = centre[:, :, np.newaxis] + half_width * nodes
    weights = half_width * node_weights
    log_terms = log_integrand(f.reshape(len(y), -1))
    log_integral = logsumexp(log_terms, axis=1, b=weights.reshape(len(y), -1))
    return np.asarray(log_integral)


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
        values = np.where(np.isnan(values), -np.inf, values)
        best = np.argmax(values, axis=1)
        peak = f[rows, best]
        length = length / 8.0
        start = peak - 0.5 * length
        start = np.clip(start, low, high - length)
    return peak


# ---- Distribution functions ----------------------------------------------------------


def by_cdf(
    likelihood: _Likelihood,
    evaluate: UseOfCdf,
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
    rows = np.arange(len(mixture.mean))
    if mixture.mean.shape[1] > 1:
        # a finer rule for several outputs is another sequence of points
        refine(rows, _all_components, 1)
        return

    component_nodes = normal_nodes(mixture)[0]
    if component_nodes.shape[2] > 1:
        # narrow components: polynomials, as far as they resolve the likelihood
        line_size = line_sizes(mixture)
        is_narrow = line_size > 128
        unresolved = refine(np.flatnonzero(is_narrow), _polynomials, 4)
        # equidistant nodes along the latent line
        rows = np.concatenate((np.flatnonzero(~is_narrow), unresolved))
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
    n_atoms = normal_nodes(mixture)[0].size
    n_rows = max(1, BLOCK // n_atoms)
    for rows in row_slices(len(mixture.mean), n_rows):
        values, shares = atoms(mixture.rows(rows))
        nodes, weights = chebyshev_rule(values[:, 0], shares, 32 * refinement)
        block_nodes.append(nodes)
        block_weights.append(weights)
    nodes = np.concatenate(block_nodes)
    coefficients = chebyshev_coefficients(nodes.shape[1])
    return _Rule(
        values=nodes[:, np.newaxis],
        weights=np.concatenate(block_weights),
        contrasts=list(coefficients[-4:]),
        tolerance=1e-7,
    )


def _all_components(mixture: LatentMixture, refinement: int) -> _Rule:
    """`atoms`; halves differ by the square root of the error of all."""
    values, weights = atoms(mixture, refinement=refinement)
    n_components = len(mixture.weights)
    n_per_component = len(weights) // n_components
    place = np.arange(len(weights)) % n_per_component
    half = place % 2
    return _Rule(
        values=values,
        weights=weights,
        contrasts=[_contrast(weights, half, 0, 1)],
        tolerance=1e-4,
        n_components=n_components,
    )


def _contrast(weights: Array, part: Index, first: int, second: int) -> Array:
    """Weights of the average over one part of the nodes minus that over another.

    For nodes (a,) with weights (n, a) or (a,). Zero if a part is empty.
    """
    first_weights = np.where(part == first, weights, 0.0)
    second_weights = np.where(part == second, weights, 0.0)
    first_total = np.sum(first_weights, axis=-1, keepdims=True)
    second_total = np.sum(second_weights, axis=-1, keepdims=True)
    smaller_total = np.minimum(first_total, second_total)
    if not np.all(smaller_total > 0.0):
        return np.zeros(weights.shape)
    first_average = first_weights / first_total
    second_average = second_weights / second_total
    return first_average - second_average


def _refine_cdf(
    likelihood: _Likelihood,
    evaluate: UseOfCdf,
    mixture: LatentMixture,
    pending: Index,
    rule: Callable[[LatentMixture, int], _Rule],
    finest: int,
) -> Index:
    """`by_cdf` of rows by a rule, refined where it must be; returns unresolved rows."""
    refinement = 1
    while len(pending) and refinement <= finest:
        first_row = mixture.rows(pending[:1])
        n_nodes = rule(first_row, refinement).values.shape[2]
        n_rows = max(1, BLOCK // n_nodes)
        unresolved = []
        for block in row_slices(len(pending), n_rows):
            rows = pending[block]
            nodes = rule(mixture.rows(rows), refinement)
            conditional = likelihood.at_some(rows)._cdf_at(nodes.values)
            cdf = _AveragedCdf(conditional, nodes)
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

    def __call__(self, y: Array, rows: Selection) -> Array:
        """``P(Y <= y)`` of a selection of the rows, (k,)."""
        h = self.conditional(y, rows)
        average = _average(h, self.rule.weights, rows)
        if isinstance(rows, slice):
            self._check(h, average, rows)
        return average

    def _check(self, h: Array, average: Array, rows: slice) -> None:
        """Note the rows for which the sums by contrasts do not vanish."""
        rule = self.rule
        squares = (h - average[:, np.newaxis]) ** 2
        variance = _average(squares, rule.weights, rows)
        std = np.sqrt(np.maximum(variance, 0.0))
        allowed = rule.tolerance * std + 1e-12 * average
        sums = [_average(h, contrast, rows) for contrast in rule.contrasts]
        unresolved = np.linalg.norm(sums, axis=0) > allowed
        if rule.n_components:
            # halves of few nodes may differ where all of them resolve the rise of h
            largest_step = self._steepest(h[unresolved])
            unresolved[unresolved] = largest_step > 0.15
        self.unresolved |= unresolved

    def _steepest(self, h: Array) -> Array:
        """Largest step of h (k, a) along a component, relative to its range, (k,)."""
        n_components = self.rule.n_components
        n_per_component = h.shape[1] // n_components
        by_component = h.reshape(len(h), n_components, n_per_component)
        steps = np.abs(np.diff(by_component, axis=2))
        largest = np.max(steps, axis=(1, 2), initial=0.0)
        spread = np.ptp(h, axis=1)
        return largest / np.maximum(spread, 1e-300)


def _average(h: Array, weights: Array, rows: Selection) -> Array:
    """Sum of h (k, a) with weights (n, a) of these rows, or (a,) for all rows, (k,)."""
    if weights.ndim == 1:
        return h @ weights
    return np.einsum("ka,ka->k", h, weights[rows])
