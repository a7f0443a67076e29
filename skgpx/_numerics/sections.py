"""Functions ``k(·, T) w`` of Markov processes, from sums over rows.

Of n rows and k columns of weights, one pass over the rows keeps sums at every few of
them; from these a value takes O(log n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._numerics._jit import kernel
from skgpx._numerics.elementary import copy_matrix
from skgpx._numerics.state_space import (
    Cascades,
    heights,
    move,
    stationary,
)
from skgpx._types import Array, Index

# Rows of a segment, at whose first one the sums are kept.
_SEGMENT = 4


@kernel
def section_states(  # noqa: C901
    sections: Sections,
) -> None:
    """Write the sums over rows of the sections, at the first row of segments.

    ``Σ A P h w`` of earlier rows, ``Σ Aᵀ h w`` of later ones and the row itself.
    """
    cascades, times, weights, before, behind = sections
    n, k = weights.shape
    S = before.shape[2]
    B = len(cascades.orders)
    h, reads = heights(cascades, 0)
    P = np.zeros((S + 1, S))
    stationary(cascades, P)
    M = np.zeros((k, S))
    for i in range(n):
        if i > 0 and times[i] > times[i - 1]:
            step = times[i] - times[i - 1]
            move(cascades, step, M, k, False)
        if i % _SEGMENT == 0:
            copy_matrix(M, before[i // _SEGMENT])
        for c in range(k):
            for b in range(B):
                for j in range(S):
                    M[c, j] += h[b] * P[reads[b], j] * weights[i, c]
    M[:] = 0.0
    for i in range(n - 1, -1, -1):
        for c in range(k):
            for b in range(B):
                M[c, reads[b]] += h[b] * weights[i, c]
        if i % _SEGMENT == 0:
            copy_matrix(M, behind[i // _SEGMENT])
        if i > 0 and times[i] > times[i - 1]:
            step = times[i] - times[i - 1]
            move(cascades, step, M, k, True)


@kernel
def section_values(  # noqa: C901, PLR0912, PLR0915
    sections: Sections,
    points: Array,
    first: Index,
    stop: Index,
    values: Array,
    slopes: Array,
    with_slopes: bool,
) -> None:
    """Add ``k(x, T) w`` at points, and on request its derivatives.

    Parameters
    ----------
    sections : Sections
    points : ndarray of shape (p,)
    first, stop : ndarray of int of shape (p,)
        Columns of the weights at each point.
    values, slopes : ndarray of shape (p, width)
    with_slopes : bool
    """
    cascades, times, weights, before, behind = sections
    n = len(times)
    S = before.shape[2]
    B = len(cascades.orders)
    h, reads = heights(cascades, 0)
    P = np.zeros((S + 1, S))
    stationary(cascades, P)
    width = values.shape[1]
    L = np.empty((width, S))
    R = np.empty((width, S))
    for point in range(len(points)):
        x = points[point]
        k = stop[point] - first[point]
        i = np.searchsorted(times, x, side="right") - 1
        segment = max(i, 0) // _SEGMENT
        low = segment * _SEGMENT
        # rows up to the point
        for c in range(k):
            for j in range(S):
                L[c, j] = before[segment, first[point] + c, j]
                R[c, j] = 0.0
        for row in range(low, i + 1):
            for c in range(k):
                w = weights[row, first[point] + c]
                for b in range(B):
                    for j in range(S):
                        L[c, j] += h[b] * P[reads[b], j] * w
            next_time = x if row == i else times[row + 1]
            if next_time > times[row]:
                step = next_time - times[row]
                move(cascades, step, L, k, False)
        if i < 0:
            L[:] = 0.0
        # rows behind it
        last = min((segment + 1) * _SEGMENT, n) if i >= 0 else 0
        if last < n:
            for c in range(k):
                for j in range(S):
                    R[c, j] = behind[last // _SEGMENT, first[point] + c, j]
        for row in range(last - 1, i, -1):
            if row + 1 < n and times[row + 1] > times[row]:
                step = times[row + 1] - times[row]
                move(cascades, step, R, k, True)
            for c in range(k):
                w = weights[row, first[point] + c]
                for b in range(B):
                    R[c, reads[b]] += h[b] * w
        if i + 1 < n and times[i + 1] > x:
            step = times[i + 1] - x
            move(cascades, step, R, k, True)
        for c in range(k):
            total = 0.0
            for b in range(B):
                total += h[b] * L[c, reads[b]]
                for j in range(S):
                    total += h[b] * P[reads[b], j] * R[c, j]
            values[point, c] += total
        if with_slopes:
            start = 0
            for b in range(B):
                p = cascades.orders[b]
                turns = cascades.frequencies[b] > 0.0
                # hᵀ K L - (K P h)ᵀ R with the generator K of the block
                j = reads[b]
                for c in range(k):
                    slope = -L[c, j]
                    if p > 1:
                        slope += L[c, j - 1]
                    slope *= cascades.rates[b]
                    if turns:
                        slope -= cascades.frequencies[b] * L[c, j + p]
                    for copy in range(2 if turns else 1):
                        for a in range(p):
                            l = start + copy * p + a
                            change = -P[j, l]
                            if a > 0:
                                change += P[j, l - 1]
                            slope -= cascades.rates[b] * change * R[c, l]
                    if turns:
                        for a in range(p):
                            l = start + a
                            slope -= cascades.frequencies[b] * P[j, l] * R[c, l + p]
                    slopes[point, c] += h[b] * slope
                start += 2 * p if turns else p


class Sections(NamedTuple):
    """Functions ``k(·, T) w`` of the cascades, for k columns of weights.

    Attributes
    ----------
    cascades : Cascades
    times : ndarray of shape (n,)
        T, sorted.
    weights : ndarray of shape (n, k)
    before, behind : ndarray of shape (n_segments, k, S)
        Sums over earlier rows, and over later ones.
    """

    cascades: Cascades
    times: Array
    weights: Array
    before: Array
    behind: Array

    @classmethod
    def of(cls, cascades: Cascades, times: Array, weights: Array) -> Sections:
        """Sum over the rows once; O(n k S)."""
        n_segments = -(-len(times) // _SEGMENT)
        shape = (n_segments, weights.shape[1], cascades.n_states)
        before = np.zeros(shape)
        behind = np.zeros(shape)
        sections = cls(cascades, times, weights, before, behind)
        section_states(sections)
        return sections

    def of_columns(self, columns: Index) -> Sections:
        """The functions of some columns of weights."""
        return self._replace(
            weights=np.ascontiguousarray(self.weights[:, columns]),
            before=np.ascontiguousarray(self.before[:, columns]),
            behind=np.ascontiguousarray(self.behind[:, columns]),
        )

    def values(
        self,
        times: Array,
        first: Index,
        stop: Index,
        with_slopes: bool = False,
    ) -> tuple[Array, Array]:
        """Values and slopes of columns from first[i] to stop[i] at times[i], (p, k)."""
        width = int(np.max(stop - first, initial=0))
        values = np.zeros((len(times), width))
        slopes = np.zeros((len(times), width if with_slopes else 0))
        section_values(
            self,
            times,
            first,
            stop,
            values,
            slopes,
            with_slopes,
        )
        return values, slopes
