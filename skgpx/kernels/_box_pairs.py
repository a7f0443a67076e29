"""Covariances between means over boxes of functions with a radial kernel.

The difference of two points, each uniform in a box of its own, has a trapezoid as its
density in every column. The covariance of the two means is the mean of the kernel over
that difference: one integral for a pair of boxes, in place of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from skgpx._numerics.rows import row_slices
from skgpx._types import Array, Index, Kernel
from skgpx.kernels._functional_rows import FunctionalRows
from skgpx.kernels._matrices import matrix_and_pullback
from skgpx.kernels._registry import Pullback

_rule = cache(np.polynomial.legendre.leggauss)
# Nodes of Gauss and Legendre between two kinks of the integrand: for a width of w
# lengthscales the first of these above 3 + 1.8 w for an RBF, and above 3 + 2.5 w for a
# Matern kernel, which leaves an error of 1e-8.
_SIZES = np.array([*range(3, 9), *range(10, 33, 2), 38, 45, 54, 64, 91, 128, 200])


@dataclass(frozen=True)
class BoxPairs:
    """Covariances (n, m) of means over boxes, and of values at points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        A function of the distance.
    left, right : FunctionalRows
        Boxes and points; None stands for the same.
    widths : ndarray of shape (d,)
        Lengthscales, by column, or larger ones where rows resolve no less.
    is_smooth : bool
        Whether the kernel has all derivatives where a difference is zero.
    """

    kernel: Kernel
    left: FunctionalRows
    right: FunctionalRows | None
    widths: Array
    is_smooth: bool

    @cached_property
    def _pairs(self) -> tuple[Index, Index]:
        """Rows on both sides of each pair."""
        n = len(self.left.X)
        if self.right is None:
            return np.tril_indices(n)
        return np.divmod(np.arange(n * len(self.right.X)), max(len(self.right.X), 1))

    @cached_property
    def _kept(self) -> list[tuple[Index, Array, Pullback]]:
        """Pairs, weights of their nodes, and pullbacks; empty for many nodes."""
        return []

    def matrix(self) -> Array:
        """Covariances of all pairs."""
        i, j = self._pairs
        right = self.left if self.right is None else self.right
        covariances = np.empty((len(self.left.X), len(right.X)))
        n_nodes = 0
        for pairs, weights, K, pullback in self._evaluated():
            means = np.einsum("pq,pq->p", K, weights)
            rows, columns = i[pairs], j[pairs]
            covariances[rows, columns] = means
            if self.right is None:
                covariances[columns, rows] = means
            n_nodes += K.size
            self._kept.append((pairs, weights, pullback))
            most_in_memory = 2**21
            if n_nodes > most_in_memory:
                self._kept.clear()
        return covariances

    def pullback(self, G: Array) -> Array:
        """Slopes in theta, from the cotangent of the matrix."""
        i, j = self._pairs
        of_pairs = G[i, j]
        if self.right is None:
            of_pairs = of_pairs + np.where(i == j, 0.0, G[j, i])
        parts = self._kept or (
            (pairs, weights, back) for pairs, weights, _, back in self._evaluated()
        )
        slopes = np.zeros(self.kernel.n_dims)
        for pairs, weights, pullback in parts:
            of_nodes = of_pairs[pairs][:, np.newaxis] * weights
            slopes += pullback(of_nodes.reshape(1, -1))
        return slopes

    def _evaluated(self) -> Iterator[tuple[Index, Array, Array, Pullback]]:
        """Pairs, the weights of their nodes, the kernel there (p, q), its pullback."""
        origin = np.zeros((1, len(self.widths)))
        for pairs, points, weights in self._nodes():
            differences = points.reshape(len(self.widths), -1).T
            K, pullback = matrix_and_pullback(self.kernel, origin, differences)
            yield pairs, weights, K.reshape(weights.shape), pullback

    def _nodes(self) -> Iterator[tuple[Index, Array, Array]]:
        """Pairs with equally many nodes, these (d, p, q), and their weights (p, q)."""
        right = self.left if self.right is None else self.right
        for block in row_slices(len(self._pairs[0]), 2**17):
            i, j = (side[block] for side in self._pairs)
            widths = self.left.widths[i]
            right_widths = right.widths[j]
            # the kernel is even in each column
            centres = np.abs(self.left.X[i] - right.X[j])
            outer = 0.5 * (widths + right_widths)
            inner = 0.5 * np.abs(widths - right_widths)
            trapezoids = np.stack((centres, outer, inner))
            for pairs, points, weights in self._nodes_of(trapezoids):
                yield pairs + block.start, points, weights

    def _nodes_of(self, trapezoids: Array) -> Iterator[tuple[Index, Array, Array]]:
        """Nodes of trapezoids: centres, outer and inner half widths, (3, p, d)."""
        centres, outer, inner = trapezoids
        kink = np.full(centres.shape, -np.inf if self.is_smooth else 0.0)
        kink = np.clip(kink, centres - outer, centres + outer)
        # of sections without a kink, (p, d, 5)
        corners = np.stack((-outer, -inner, kink - centres, inner, outer), axis=2)
        edges = np.sort(centres[:, :, np.newaxis] + corners, axis=2)
        # farther apart covariances are nothing
        reach = (8.0 if self.is_smooth else 40.0) * self.widths
        edges = np.clip(edges, -reach[:, np.newaxis], reach[:, np.newaxis])
        lengths = np.diff(edges, axis=2)
        # sections of rounding, and far ones, have no nodes
        has_nodes = lengths > 1e-12 * outer[:, :, np.newaxis]
        rate = 1.8 if self.is_smooth else 2.5
        sizes = 3.0 + rate * np.max(lengths, axis=2) / self.widths
        n_wide = np.sum(outer > 0.0, axis=1)
        # along each of one column, of two, and of more
        largest = np.array([1, 200, 32, 8])[np.minimum(n_wide, 3)]
        sizes = np.minimum(sizes, largest[:, np.newaxis])
        # pairs with the same sections and numbers of nodes together
        codes = np.searchsorted(_SIZES, sizes) * 16 + has_nodes @ [1, 2, 4, 8]
        kind = np.zeros(len(centres), dtype=np.intp)
        for column in codes.T:
            _, kind = np.unique(1024 * kind + column, return_inverse=True)
        for number in range(int(np.max(kind, initial=-1)) + 1):
            chosen = np.flatnonzero(kind == number)
            first = chosen[0]
            counts = has_nodes[first] * _SIZES[codes[first] // 16][:, np.newaxis]
            size = int(np.prod(np.maximum(counts.sum(axis=1), 1)))
            for block in row_slices(len(chosen), max(2**14 // size, 1)):
                pairs = chosen[block]
                rule = _tensor_rule(trapezoids[:, pairs], edges[pairs], counts)
                yield pairs, *rule


def _tensor_rule(
    trapezoids: Array,
    edges: Array,
    counts: Index,
) -> tuple[Array, Array]:
    """Nodes (d, p, q) and weights (p, q) of so many nodes a section, (d, 4)."""
    _, p, d = trapezoids.shape
    points = np.zeros((0, p, 1))
    weights = np.ones((p, 1))
    for column in range(d):
        centre, outer, inner = trapezoids[:, :, [column]]
        x, w = centre, np.ones((p, 1))
        if np.any(counts[column]):
            x, w = _sections(edges[:, column], counts[column])
            # flat between the inner edges
            height = 1.0 / (outer + inner)
            slope = height / np.maximum(outer - inner, 1e-300)
            w *= np.minimum((outer - np.abs(x - centre)) * slope, height)
        q = weights.shape[1]
        r = x.shape[1]
        grid = np.empty((column + 1, p, q, r))
        grid[:column] = points[..., np.newaxis]
        grid[column] = x[:, np.newaxis]
        points = grid.reshape(column + 1, p, q * r)
        weights = (weights[:, :, np.newaxis] * w[:, np.newaxis]).reshape(p, q * r)
    return points, weights


def _sections(edges: Array, counts: Index) -> tuple[Array, Array]:
    """So many nodes in each section between edges (p, 5), and their masses (p, q)."""
    nodes = []
    masses = []
    for section in np.flatnonzero(counts):
        x, w = _rule(int(counts[section]))
        half = 0.5 * (edges[:, [section + 1]] - edges[:, [section]])
        nodes.append(edges[:, [section]] + half * (1.0 + x))
        masses.append(half * w)
    return np.hstack(nodes), np.hstack(masses)
