"""Paths of Markov processes that are drawn once and evaluated anywhere.

A cascade of p filters of unit rate (see ``state_space``) is drawn at anchors that are
so far apart that it is independent there, and in the middle of intervals between them,
halved again and again, given its states at both ends. The random numbers of a node are
a hash of its place, so that values do not depend on the order of evaluation.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc

from skgpx._numerics._jit import kernel
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.state_space import Cascades
from skgpx._types import Array, Index

# Distance of anchors, in units of 1 / rate.
SPACING = 64.0


class Bridges(NamedTuple):
    """Laws of the state in the middle of intervals of each level, given both ends.

    ``z = to_left z_left + to_right z_right + root ε``

    Attributes
    ----------
    to_left, to_right, roots : ndarray of shape (n_levels, p, p)
    stationary : ndarray of shape (p, p)
        Root of the covariance at an anchor.
    precision : ndarray of shape (p, p)
        Inverse of the covariance of the noise over an interval of the last level.
    """

    to_left: Array
    to_right: Array
    roots: Array
    stationary: Array
    precision: Array


def _transition(order: int, step: float) -> tuple[Array, Array]:
    """A and Q of a cascade over a step."""
    i = np.arange(order)
    factorials = np.array([float(math.factorial(k)) for k in range(2 * order)])
    lag = i[:, np.newaxis] - i
    k = np.maximum(lag, 0)
    A = np.where(lag >= 0, step**k / factorials[k], 0.0) * np.exp(-step)
    # γ(m + 1, 2Δ) / 2^(m+1)
    m = i[:, np.newaxis] + i
    moments = gammainc(m + 1.0, 2.0 * step) * factorials[m] / 2.0 ** (m + 1)
    Q = moments / (factorials[i][:, np.newaxis] * factorials[i])
    return A, Q


def _last_variance(order: int) -> float:
    """Of the last state without observations, (2p - 2)! / (2^(2p - 1) (p - 1)!²)."""
    return math.comb(2 * order - 2, order - 1) / 2.0 ** (2 * order - 1)


@cache
def bridges(order: int) -> Bridges:
    """Laws of a cascade of some order, to where next to nothing is left to draw."""
    to_left: list[Array] = []
    to_right: list[Array] = []
    roots: list[Array] = []
    half = 0.5 * SPACING
    left_out = np.inf
    std = math.sqrt(_last_variance(order))
    # standard deviation of what the last intervals leave out
    while left_out > 3e-3 * std and len(roots) < 36:
        A, Q = _transition(order, half)
        # in units of the diagonal of Q nothing is lost
        scale = np.sqrt(np.diag(Q))
        squares = np.outer(scale, scale)
        total = (A @ Q @ A.T + Q) / squares
        cross = (Q @ A.T) / squares
        L = cholesky(total, jitter=0.0).L
        gain = solve_lower_transpose(L, solve_lower(L, cross.T)).T
        covariance = Q / squares - gain @ cross.T
        to_right.append(scale[:, np.newaxis] * gain / scale)
        to_left.append(A - to_right[-1] @ A @ A)
        root = cholesky(0.5 * (covariance + covariance.T), jitter=0.0).L
        roots.append(scale[:, np.newaxis] * root)
        left_out = float(np.linalg.norm(roots[-1][-1]))
        half *= 0.5
    _, Q = _transition(order, 2.0 * half)
    scale = np.sqrt(np.diag(Q))
    squares = np.outer(scale, scale)
    # a step after which nothing is left of a state
    _, stationary = _transition(order, 1e3)
    return Bridges(
        np.array(to_left),
        np.array(to_right),
        np.array(roots),
        cholesky(stationary, jitter=0.0).L,
        np.linalg.inv(Q / squares) / squares,
    )


@kernel
def _mixed(word: int) -> int:
    """A hash of a word of 32 bits, in products of at most 59."""
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return word ^ (word >> 16)


@kernel
def _normal(word: int) -> float:
    """Standard normal number of a word of 32 bits: the inverse of its distribution.

    Acklam's rational approximation, with a relative error of 1e-9.
    """
    u = (word + 0.5) / 4294967296.0
    tail = min(u, 1.0 - u)
    if tail > 0.02425:
        x = u - 0.5
        r = x * x
        top = (
            (
                ((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687)
                * r
                + 138.3577518672690
            )
            * r
            - 30.66479806614716
        ) * r + 2.506628277459239
        bottom = (
            (
                ((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866)
                * r
                + 66.80131188771972
            )
            * r
            - 13.28068155288572
        ) * r + 1.0
        return x * top / bottom
    x = math.sqrt(-2.0 * math.log(tail))
    top = (
        (
            ((-0.007784894002430293 * x - 0.3223964580411365) * x - 2.400758277161838)
            * x
            - 2.549732539343734
        )
        * x
        + 4.374664141464968
    ) * x + 2.938163982698783
    bottom = (
        ((0.007784695709041462 * x + 0.3224671290700398) * x + 2.445134137142996) * x
        + 3.754408661907416
    ) * x + 1.0
    return top / bottom if u < 0.5 else -top / bottom


@kernel
def _draw_node(
    seeds: Index,
    lane: int,
    first: int,
    stop: int,
    anchor: int,
    level: int,
    position: int,
    root: Array,
    states: Array,
) -> None:
    """Write ``root ε`` of the draws of a node, whose words are a hash of its place.

    Parameters
    ----------
    seeds : ndarray of int of shape (k, 2)
    lane : int
        Number of the cascade.
    first, stop : int
        Draws.
    anchor, level, position : int
        Place of the node.
    root : ndarray of shape (p, p)
    states : ndarray of shape (width, p)
        Written.
    """
    p = len(root)
    place = _mixed((anchor & 0xFFFFFFFF) ^ (lane << 4) ^ 0x1E3779B9)
    place = _mixed(place ^ ((anchor >> 32) & 0xFFFFFFFF) ^ (level << 8))
    place = _mixed(place ^ (position & 0xFFFFFFFF) ^ (position >> 32))
    other = _mixed(place ^ 0x5EBCA6B)
    for c in range(first, stop):
        for i in range(p):
            states[c - first, i] = 0.0
        word = _mixed(place ^ seeds[c, 0])
        for j in range(p):
            normal = _normal(word)
            for i in range(j, p):
                states[c - first, i] += root[i, j] * normal
            word = _mixed(word ^ other ^ seeds[c, 1])


@kernel
def add_paths(  # noqa: C901, PLR0912, PLR0915
    law: Bridges,
    places: Array,
    seeds: Index,
    lane: int,
    first: Index,
    stop: Index,
    values: Array,
    slopes: Array,
    with_slopes: bool,
) -> None:
    """Add the last states at sorted places, and on request their slopes in the place.

    Parameters
    ----------
    law : Bridges
    places : ndarray of shape (n,)
        Sorted, in units of 1 / rate.
    seeds : ndarray of int of shape (k, 2)
    lane : int
        Number of the cascade.
    first, stop : ndarray of int of shape (n,)
        Draws at each place.
    values, slopes : ndarray of shape (n, width)
    with_slopes : bool
    """
    to_left, to_right, roots, stationary, precision = law
    n_levels, p, _ = roots.shape
    width = values.shape[1]
    left = np.zeros((n_levels + 1, width, p))
    right = np.zeros((n_levels + 1, width, p))
    middle = np.zeros((width, p))
    A = np.zeros((3, p, p))
    Q = np.zeros((p, p))
    moments = np.zeros(2 * p)
    gains = np.zeros((2, 2, p))
    last_anchor = np.int64(0)
    last_index = np.int64(0)
    last_first = -1
    last_stop = -1
    n_nodes = 2.0**n_levels
    interval = SPACING / n_nodes
    for i in range(len(places)):
        scaled = places[i] / SPACING
        floor = math.floor(scaled)
        anchor = np.int64(floor)
        index = min(np.int64((scaled - floor) * n_nodes), np.int64(n_nodes) - 1)
        k = stop[i] - first[i]
        # the deepest interval that this place shares with the one before it
        level = 0
        is_new = first[i] != last_first or stop[i] != last_stop or anchor != last_anchor
        if not is_new:
            level = n_levels
            difference = index ^ last_index
            while difference > 0:
                difference >>= 1
                level -= 1
        else:
            _draw_node(
                seeds, lane, first[i], stop[i], anchor, 63, 0, stationary, left[0]
            )
            _draw_node(
                seeds, lane, first[i], stop[i], anchor + 1, 63, 0, stationary, right[0]
            )
        last_anchor = anchor
        last_index = index
        last_first = first[i]
        last_stop = stop[i]
        for l in range(level, n_levels):
            position = index >> (n_levels - l)
            _draw_node(
                seeds, lane, first[i], stop[i], anchor, l, position, roots[l], middle
            )
            goes_right = (index >> (n_levels - 1 - l)) & 1
            for c in range(k):
                for a in range(p):
                    total = middle[c, a]
                    for b in range(p):
                        total += to_left[l, a, b] * left[l, c, b]
                        total += to_right[l, a, b] * right[l, c, b]
                    if goes_right == 1:
                        left[l + 1, c, a] = total
                        right[l + 1, c, a] = right[l, c, a]
                    else:
                        left[l + 1, c, a] = left[l, c, a]
                        right[l + 1, c, a] = total
        # the conditional mean between the ends of the last interval
        before = min(max((scaled - floor) * n_nodes - index, 0.0), 1.0) * interval
        for step_number in range(3):
            step = before
            if step_number == 1:
                step = interval - before
            elif step_number == 2:
                step = interval
            decay = math.exp(-step)
            for a in range(p):
                factor = decay
                for b in range(a, -1, -1):
                    A[step_number, a, b] = factor
                    factor *= step / (a - b + 1)
        # Q(x), by a series: the step is short
        square = math.exp(-2.0 * before)
        for m in range(2 * p - 1):
            term = square * before / (m + 1.0)
            for _ in range(m):
                term *= before
            total = term
            divisor = m + 2.0
            while term > 1e-17 * total:
                term *= 2.0 * before / divisor
                total += term
                divisor += 1.0
            moments[m] = total
        of_a = 1.0
        for a in range(p):
            if a > 1:
                of_a /= a
            of_b = of_a
            for b in range(p):
                if b > 1:
                    of_b /= b
                Q[a, b] = of_b * moments[a + b]
        for state in range(2):
            # the last state, and the one before it
            row = p - 1 - state
            if row < 0:
                continue
            for a in range(p):
                total = 0.0
                for b in range(p):
                    for c in range(p):
                        total += Q[row, b] * A[1, c, b] * precision[c, a]
                gains[state, 1, a] = total
            for a in range(p):
                total = A[0, row, a]
                for b in range(p):
                    total -= gains[state, 1, b] * A[2, b, a]
                gains[state, 0, a] = total
        for c in range(k):
            value = 0.0
            slope = 0.0
            for a in range(p):
                value += gains[0, 0, a] * left[n_levels, c, a]
                value += gains[0, 1, a] * right[n_levels, c, a]
            values[i, c] += value
            if with_slopes:
                if p > 1:
                    slope -= value
                    for a in range(p):
                        slope += gains[1, 0, a] * left[n_levels, c, a]
                        slope += gains[1, 1, a] * right[n_levels, c, a]
                else:
                    slope = (right[n_levels, c, 0] - left[n_levels, c, 0]) / interval
                slopes[i, c] += slope


def path_values(
    cascades: Cascades,
    seeds: Index,
    times: Array,
    first: Index,
    stop: Index,
    with_slopes: bool = False,
) -> tuple[Array, Array]:
    """Sums of paths of all cascades at some times, in any order, and their slopes.

    Parameters
    ----------
    cascades : Cascades
    seeds : ndarray of int of shape (k, 2)
        Of each draw, words of 32 bits.
    times : ndarray of shape (p,)
    first, stop : ndarray of int of shape (p,)
        Draws at each time.
    with_slopes : bool, default=False

    Returns
    -------
    values, slopes : ndarray of shape (p, width)
    """
    order = np.lexsort((times, first))
    t = times[order]
    width = int(np.max(stop - first, initial=0))
    total = np.zeros((len(t), width))
    total_slopes = np.zeros((len(t), width if with_slopes else 0))
    lane = 0
    for p, rate, frequency, amplitude in zip(*cascades, strict=True):
        law = bridges(int(p))
        # z = Re (z_1 + i z_2) e^{iωt}
        for quadrature in range(2 if frequency > 0.0 else 1):
            phase = frequency * t - 0.5 * np.pi * quadrature
            height = amplitude / math.sqrt(_last_variance(int(p)))
            wave = height * np.cos(phase)
            values = np.zeros_like(total)
            slopes = np.zeros_like(total_slopes)
            add_paths(
                law,
                rate * t,
                seeds,
                lane,
                first[order],
                stop[order],
                values,
                slopes,
                with_slopes,
            )
            lane += 1
            total += wave[:, np.newaxis] * values
            if with_slopes:
                turned = -frequency * height * np.sin(phase)
                total_slopes += rate * wave[:, np.newaxis] * slopes
                total_slopes += turned[:, np.newaxis] * values
    place = np.argsort(order)
    return total[place], total_slopes[place]
