"""Cells of space, and the rows of other cells that each of them needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from skgpx._numerics.rows import thinning
from skgpx._types import Array, Index, Mask

# Sample rows with a distance to their nearest rows, at least in each leaf.
_ROWS_OF_A_LEAF = 64
# Part of the sample in which distances are measured again, for their exponent.
_THINNER = 8


class Reach(NamedTuple):
    """How far the N nearest rows are, among the first rows of the order.

    Attributes
    ----------
    rows : ndarray of shape (p,)
        Positions of some rows of the sample.
    distance : ndarray of shape (p,)
        Distance to the N-th nearest other row of the sample.
    exponent : float
        Among a share s of all rows, the distance is that in the sample times
        ``(share of the sample / s)^exponent``: one over the intrinsic dimension.
    """

    rows: Index
    distance: Array
    exponent: float

    @classmethod
    def of(cls, points: Array, n_neighbors: int, size: int) -> Reach:
        """Measure it in a sample (n, d), in the order of its rows, at `size` rows."""
        n = len(points)
        first = n // _THINNER
        rows = np.arange(first, n)
        rows = rows[thinning(len(rows), size)]
        # itself is the nearest one
        k = min(n_neighbors + 1, n)
        distance = KDTree(points).query(points[rows], [k])[0][:, 0]
        exponent = 0.0
        if first >= n_neighbors:
            thinner = KDTree(points[:first])
            farther = thinner.query(points[rows], [n_neighbors])[0][:, 0]
            # copies of a row are no distance away
            is_apart = distance > 0.0
            if np.any(is_apart):
                ratio = np.median(farther[is_apart] / distance[is_apart])
                exponent = float(np.log(ratio) / np.log(_THINNER))
        return cls(rows, distance, float(np.clip(exponent, 0.0, 1.0)))


class CellTree(NamedTuple):
    """A complete k-d tree; its nodes of one level are the cells.

    The children of node i are ``2 i + 1`` (below the threshold) and ``2 i + 2``.

    Attributes
    ----------
    columns, thresholds : ndarray of shape (n_leaves - 1,)
        Where the inner nodes split.
    widths : ndarray of shape (2 n_leaves - 1,)
        Width of the halo of each node in the density of the sample: how far the
        nearest rows of the rows in it are, the largest of its leaves.
    n_cells : int
        A power of two.
    share : float
        Share of the sample in all rows.
    exponent : float
        See :class:`Reach`.
    first : float
        Share of the rows, the first in the order, that every cell has.
    """

    columns: Index
    thresholds: Array
    widths: Array
    n_cells: int
    share: float
    exponent: float
    first: float

    @classmethod
    def of(
        cls,
        points: Array,
        n_neighbors: int,
        n_cells: int,
        share: float,
        n_first: int,
    ) -> CellTree:
        """Split a sample into cells of equal numbers of rows.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            The first rows of the order, in units of the lengthscales.
        n_neighbors : int
        n_cells : int
            A power of two.
        share : float
            Share of the sample in all rows.
        n_first : int
            Number of the first rows that every cell has.
        """
        n = len(points)
        size = max(20_000, _ROWS_OF_A_LEAF * n_cells)
        reach = Reach.of(points, n_neighbors, size)
        n_leaves = n_cells
        while 2 * n_leaves * _ROWS_OF_A_LEAF <= len(reach.rows):
            n_leaves *= 2
        columns = np.zeros(n_leaves - 1, np.intp)
        thresholds = np.zeros(n_leaves - 1)
        # rows of each node, level by level
        members = [np.arange(n)]
        for node in range(n_leaves - 1):
            rows = members[node]
            values = points[rows]
            if len(rows):
                columns[node] = np.argmax(np.std(values, axis=0))
                thresholds[node] = np.median(values[:, columns[node]])
            is_below = values[:, columns[node]] < thresholds[node]
            members.append(rows[is_below])
            members.append(rows[~is_below])
        # how far the nearest rows are in each leaf; a node has the largest of its two
        distance = np.full(n, np.nan)
        distance[reach.rows] = reach.distance
        widths = np.full(2 * n_leaves - 1, reach.distance.max())
        for leaf in range(n_leaves - 1, 2 * n_leaves - 1):
            measured = distance[members[leaf]]
            measured = measured[np.isfinite(measured)]
            if len(measured):
                # only those of a row at the rim can be in other cells, and hardly ever
                # the farthest
                widths[leaf] = np.quantile(measured, 0.75)
        for node in range(n_leaves - 2, -1, -1):
            widths[node] = max(widths[2 * node + 1], widths[2 * node + 2])
        return cls(
            columns=columns,
            thresholds=thresholds,
            widths=widths,
            n_cells=n_cells,
            share=share,
            exponent=reach.exponent,
            first=share * min(n_first, n) / n,
        )

    def cell_of(self, points: Array) -> Index:
        """Cell of each point, (n,)."""
        node = np.zeros(len(points), np.intp)
        for _ in range(self.n_cells.bit_length() - 1):
            values = points[np.arange(len(points)), self.columns[node]]
            node = 2 * node + 1 + (values >= self.thresholds[node])
        return node - (self.n_cells - 1)

    def halos(self, points: Array, shares: Array) -> Mask:
        """Whether a cell needs a row, (n_cells, n): its own rows, and its halo.

        Row j precedes the share ``1 - shares[j]`` of all rows. It is among the nearest
        predecessors of one of these only if it is nearer to it than the N-th nearest of
        the rows before j, which is the width of a halo. Early rows have wide halos.

        Parameters
        ----------
        points : ndarray of shape (n, d)
        shares : ndarray of shape (n,)
            Share of all rows that precede each row.
        """
        needed = np.zeros((self.n_cells, len(points)), bool)
        needed[self.cell_of(points), np.arange(len(points))] = True
        needed[:, shares <= self.first] = True
        later = np.flatnonzero(shares > self.first)
        shrinkage = (shares / self.share) ** self.exponent
        low = np.full(points.shape[1], -np.inf)
        high = np.full(points.shape[1], np.inf)
        # nodes to visit, with their boxes and the rows that may reach them
        visits = [(0, low, high, later)]
        while visits:
            node, low, high, rows = visits.pop()
            if node >= len(self.columns):
                needed[self._cell_above(node), rows] = True
                continue
            column = self.columns[node]
            threshold = self.thresholds[node]
            for child in (2 * node + 1, 2 * node + 2):
                child_low = low.copy()
                child_high = high.copy()
                if child == 2 * node + 1:
                    child_high[column] = threshold
                else:
                    child_low[column] = threshold
                distance = _distance_to_box(points, rows, child_low, child_high)
                is_near = distance * shrinkage[rows] <= self.widths[child]
                if np.any(is_near):
                    visits.append((child, child_low, child_high, rows[is_near]))
        return needed

    def _cell_above(self, leaf: int) -> int:
        """Cell of a leaf."""
        node = leaf
        while node >= 2 * self.n_cells - 1:
            node = (node - 1) // 2
        return node - (self.n_cells - 1)


def _distance_to_box(points: Array, rows: Index, low: Array, high: Array) -> Array:
    """Distance of some points to a box, zero inside."""
    square = np.zeros(len(rows))
    for column in range(len(low)):
        values = points[rows, column]
        if np.isfinite(low[column]):
            square += np.maximum(low[column] - values, 0.0) ** 2
        if np.isfinite(high[column]):
            square += np.maximum(values - high[column], 0.0) ** 2
    return np.sqrt(square)
