"""Kernels of rows that see a linear functional of f: a slope, a mean, a difference.

A row ``L f`` is a weighted sum of values and slopes of f at *nodes*: a slope at one
node, the mean over a box at those of Gauss and Legendre, a difference at two. With W
the weights, the covariance of functionals is ``W k(nodes, nodes) Wᵀ``.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Sum

from skgpx._numerics.radial import RBF as RBF_CODE
from skgpx._numerics.rows import equal_rows, row_slices
from skgpx._types import Array, Index, Kernel
from skgpx.kernels._box_pairs import BoxPairs
from skgpx.kernels._columns import DerivedKernel
from skgpx.kernels._functional_rows import FunctionalRows
from skgpx.kernels._linear import Linear
from skgpx.kernels._matrices import (
    amplitude_and_shape,
    kernel_matrix,
    matrix_and_pullback,
    radial_code,
)
from skgpx.kernels._registry import RuledKernel, ValuesAndPullback, is_rule
from skgpx.kernels._slopes import VALUE, Jet, Slopes, jet_and_pullback

# Nodes of a panel of a box along one column.
_PANEL = 5
# Kernels of lines.
_LINES = (Linear, DotProduct, ConstantKernel)


class Nodes(NamedTuple):
    """Points whose values and slopes, weighted, are the functionals of some rows.

    Attributes
    ----------
    X : ndarray of shape (q, d)
    derivative : ndarray of int of shape (q,)
    weights : sparse array of shape (n, q)
    """

    X: Array
    derivative: Index
    weights: sparse.csr_array

    @classmethod
    def of(cls, rows: FunctionalRows, resolution: Array) -> Nodes:
        """Nodes of rows, that are dense enough for functions of this resolution."""
        n = len(rows.X)
        row_of_node = [np.arange(n)]
        points = [rows.X]
        weights = [np.ones(n)]
        has_box = np.any(rows.widths > 0.0, axis=1)
        if np.any(has_box):
            # boxes of the same columns and numbers of nodes together
            numbers = _numbers_of_nodes(rows.widths, resolution)
            kinds, kind_of_row = equal_rows(numbers)
            row_of_node, points, weights = [], [], []
            for k, sizes in enumerate(kinds):
                chosen = np.flatnonzero(kind_of_row == k)
                offsets, masses = _tensor_rule(sizes)
                steps = offsets * rows.widths[chosen][:, np.newaxis]
                nodes = rows.X[chosen][:, np.newaxis] + steps
                row_of_node.append(np.repeat(chosen, len(masses)))
                points.append(nodes.reshape(-1, rows.X.shape[1]))
                weights.append(np.tile(masses, len(chosen)))
        row = np.concatenate(row_of_node)
        X = np.concatenate(points)
        weight = np.concatenate(weights)
        # the same box around the other point, subtracted
        subtracted = np.flatnonzero(rows.is_difference[row])
        moved = row[subtracted]
        other = X[subtracted] + rows.against[moved] - rows.X[moved]
        row = np.concatenate((row, moved))
        X = np.concatenate((X, other))
        weight = np.concatenate((weight, -weight[subtracted]))
        # in the order of the rows, values and slopes apart
        order = np.lexsort((row, rows.derivative[row] != VALUE))
        row = row[order]
        matrix = sparse.csr_array(
            (weight[order], (row, np.arange(len(row)))), shape=(n, len(row))
        )
        return cls(np.ascontiguousarray(X[order]), rows.derivative[row], matrix)

    @property
    def n_values(self) -> int:
        """Number of nodes at which f has a value, which come first."""
        return int(np.sum(self.derivative == VALUE))


def _numbers_of_nodes(widths: Array, resolution: Array) -> Index:
    """Nodes along each column of each box, (n, d): whole panels; one without width."""
    panels = np.ceil(widths / resolution)
    numbers = _PANEL * np.maximum(panels, 1.0)
    n_wide = np.sum(widths > 0.0, axis=1)
    # along each of one column, of two, of three, and of more
    largest = np.array([1, 200, 10, 5, 3])[np.minimum(n_wide, 4)]
    numbers = np.where(widths > 0.0, np.minimum(numbers, largest[:, np.newaxis]), 1.0)
    return numbers.astype(np.intp)


def _tensor_rule(sizes: Index) -> tuple[Array, Array]:
    """Nodes (q, d) in [-1/2, 1/2]^d and weights (q,) of a mean over the cube."""
    offsets = np.zeros((1, 0))
    masses = np.ones(1)
    for size in sizes:
        column, column_masses = _panels(int(size))
        offsets = np.column_stack(
            (np.repeat(offsets, len(column), axis=0), np.tile(column, len(offsets)))
        )
        masses = np.outer(masses, column_masses).ravel()
    return offsets, masses


def _panels(size: int) -> tuple[Array, Array]:
    """So many nodes in [-1/2, 1/2], by the rule of Gauss and Legendre in each panel."""
    if size == 1:
        return np.zeros(1), np.ones(1)
    n_panels = max(size // _PANEL, 1)
    x, w = np.polynomial.legendre.leggauss(size // n_panels)
    centres = (np.arange(n_panels) + 0.5) / n_panels - 0.5
    nodes = centres[:, np.newaxis] + 0.5 * x / n_panels
    return nodes.ravel(), np.tile(0.5 * w / n_panels, n_panels)


class Functionals(RuledKernel, DerivedKernel):
    """Covariance of linear functionals of a function whose covariance is `kernel`.

    Rows have the d columns of points, for values of f there, or the 3 d + 2 columns of
    `FunctionalRows`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Covariance of f.
    resolution : ndarray of shape (d,)
        Widths, by column, within which f hardly varies: those of the panels of boxes.

    Raises
    ------
    ValueError
        Where it is evaluated at slopes: if the kernel has none.

    Notes
    -----
    O(q r) for q and r nodes, in blocks of rows. Values among values are evaluated as
    the kernel is.

    References
    ----------
    .. [1] Solak, Murray-Smith, Leithead, Leith and Rasmussen, "Derivative observations
       in Gaussian process models of dynamic systems", NeurIPS 2002.
    .. [2] Särkkä, "Linear operators and stochastic partial differential equations in
       Gaussian process regression", ICANN 2011.
    """

    def __init__(self, kernel: Kernel, resolution: Array) -> None:
        self.kernel = kernel
        self.resolution = resolution

    def is_stationary(self) -> bool:
        """Return False: the variance depends on what a row sees."""
        return False

    def __repr__(self) -> str:
        return repr(self.kernel)

    @property
    def n_features(self) -> int:
        """Number of columns d of points."""
        return len(self.resolution)

    def rows(self, X: Array) -> FunctionalRows:
        """Functionals from an array of them, or of points."""
        return FunctionalRows.of(np.atleast_2d(X), self.n_features)

    def as_rows(self, X: Array) -> Array:
        """Points as rows of functionals, (n, 3 d + 2); such rows as they are."""
        if X.shape[1] != self.n_features:
            return X
        return self.rows(X).as_array()

    def nodes(self, X: Array) -> Nodes:
        """Their nodes."""
        return Nodes.of(self.rows(X), self.resolution)

    def level(self, X: Array) -> Array:
        """What each row sees of a constant function of one, (n,)."""
        return self.rows(X).level

    def diag(self, X: Array) -> Array:
        """Prior variances of the functionals, shape (n,)."""
        variances, _ = _diagonal(self, X)
        return variances


@is_rule("input_gradient", Functionals)
def _inputs(kernel: Functionals, X: Array, Z: Array) -> ValuesAndPullback:
    """Of values at points X; rows Z may see any functional."""
    points = kernel.rows(X)
    d = kernel.n_features

    def pullback(G: Array) -> Array:
        slopes = np.zeros(X.shape)
        for column in range(d):
            rows = points._replace(derivative=np.full(len(X), column)).as_array()
            K, _ = _matrix(kernel, rows, kernel.as_rows(Z))
            slopes[:, column] = np.einsum("ij,ij->i", G, K)
        return slopes

    return _matrix(kernel, X, Z)[0], pullback


def kernel_of_values(kernel: Kernel) -> Kernel:
    """Covariance of values of f, whatever rows see of it."""
    return kernel.kernel if isinstance(kernel, Functionals) else kernel


class _Blocks:
    """Covariances between the nodes of two sets of rows, in blocks of left rows.

    Rows that fit into one block keep their jets for the pullback, and values and slopes
    of the same rows (Z is None) are not computed twice.
    """

    def __init__(self, kernel: Functionals, X: Array, Z: Array | None):
        self.kernel = kernel.kernel
        left_rows = kernel.rows(X)
        left = Nodes.of(left_rows, kernel.resolution)
        self.right = left
        if Z is not None:
            self.right = Nodes.of(kernel.rows(Z), kernel.resolution)
        # of boxes a row may have a hundred nodes
        size = left.weights.nnz / max(len(X), 1)
        n_right = max(len(self.right.X), 1)
        n_rows = max(int(2**21 / (max(size, 1.0) * n_right)), 1)
        self.slices = row_slices(len(X), n_rows)
        self._left = [left]
        if len(self.slices) > 1:
            self._left = [
                Nodes.of(left_rows.take(block), kernel.resolution)
                for block in self.slices
            ]
        self.is_symmetric = Z is None and len(self.slices) == 1
        self._kept: dict[str, ValuesAndPullback] = {}

    @cached_property
    def _sides(self) -> tuple[slice, slice]:
        split = self.right.n_values
        return slice(0, split), slice(split, len(self.right.X))

    def matrix(self) -> Array:
        """``W k(nodes, nodes) Wᵀ``."""
        parts = []
        for left in self._left:
            K = np.empty((len(left.X), len(self.right.X)))
            for rows, columns, part in self._parts(left):
                if part == "value":
                    X = left.X[rows]
                    Z = self.right.X[columns]
                    K[rows, columns] = kernel_matrix(self.kernel, X, Z)
                else:
                    K[rows, columns] = self._part(left, rows, columns, part)[0]
                if part == "left" and self.is_symmetric:
                    K[columns, rows] = K[rows, columns].T
            parts.append((left.weights @ K) @ self.right.weights.T)
        return np.concatenate(parts)

    def pullback(self, G: Array) -> Array:
        """Slopes in theta, from the cotangent of the matrix."""
        slopes = np.zeros(self.kernel.n_dims)
        for block, left in zip(self.slices, self._left, strict=True):
            of_nodes = (left.weights.T @ G[block]) @ self.right.weights
            for rows, columns, part in self._parts(left):
                _, pullback = self._part(left, rows, columns, part)
                of_part = of_nodes[rows, columns]
                if part == "left" and self.is_symmetric:
                    of_part = of_part + of_nodes[columns, rows].T
                slopes += pullback(of_part)
        return slopes

    def _parts(self, left: Nodes) -> list[tuple[slice, slice, str]]:
        """Rows and columns of nodes that see values or slopes, and parts of jets."""
        values = slice(0, left.n_values)
        slopes = slice(left.n_values, len(left.X))
        right_values, right_slopes = self._sides
        parts = [
            (values, right_values, "value"),
            (slopes, right_values, "left"),
            (slopes, right_slopes, "both"),
        ]
        if not self.is_symmetric:
            parts.append((values, right_slopes, "right"))
        return [
            (rows, columns, part)
            for rows, columns, part in parts
            if rows.stop > rows.start and columns.stop > columns.start
        ]

    def _part(
        self,
        left: Nodes,
        rows: slice,
        columns: slice,
        part: str,
    ) -> ValuesAndPullback:
        """Covariances of values or slopes, and their pullback to theta."""
        if part in self._kept:
            return self._kept[part]
        X = left.X[rows]
        Z = self.right.X[columns]
        if part == "value":
            return matrix_and_pullback(self.kernel, X, Z)
        jet, pullback_of_jet = jet_and_pullback(
            self.kernel,
            Slopes(X, Z, left.derivative[rows], self.right.derivative[columns]),
        )
        zero = np.zeros(jet.value.shape)
        nothing = Jet(zero, zero, zero, zero)

        def pullback(G: Array) -> Array:
            return pullback_of_jet(nothing._replace(**{part: G}))

        if len(self.slices) == 1:
            self._kept[part] = getattr(jet, part), pullback
        return getattr(jet, part), pullback


@is_rule("pullback", Functionals)
def _matrix(kernel: Functionals, X: Array, Y: Array | None) -> ValuesAndPullback:
    right = X if Y is None else Y
    is_plain = X.shape[1] == right.shape[1] == kernel.n_features
    if is_plain:
        return matrix_and_pullback(kernel.kernel, X, Y)
    left = kernel.rows(X)
    other = kernel.rows(right)
    has_boxes = np.any(left.widths) or np.any(other.widths)
    sees_means = np.all(left.level) and np.all(other.level)
    if has_boxes and sees_means and _is_sum_of_radial(kernel.kernel):
        boxes = None if Y is None else other
        return _means(kernel.kernel, kernel.resolution, left, boxes)
    blocks = _Blocks(kernel, X, Y)
    return blocks.matrix(), blocks.pullback


def _is_sum_of_radial(kernel: Kernel) -> bool:
    """Whether the summands of a kernel are radial or lines, times constants."""
    if type(kernel) is Sum:
        return _is_sum_of_radial(kernel.k1) and _is_sum_of_radial(kernel.k2)
    _, shape = amplitude_and_shape(kernel)
    return type(shape) in _LINES or radial_code(shape) is not None


def _means(
    kernel: Kernel,
    resolution: Array,
    left: FunctionalRows,
    right: FunctionalRows | None,
) -> ValuesAndPullback:
    """Covariances of means over boxes and of values, under a sum of radial kernels."""
    if type(kernel) is Sum:
        first, of_first = _means(kernel.k1, resolution, left, right)
        second, of_second = _means(kernel.k2, resolution, left, right)
        return first + second, lambda G: np.append(of_first(G), of_second(G))
    _, shape = amplitude_and_shape(kernel)
    if type(shape) in _LINES:
        # the mean of a line over a box is its value in the middle
        return matrix_and_pullback(kernel, left.X, None if right is None else right.X)
    pairs = BoxPairs(
        kernel,
        left,
        right,
        widths=np.maximum(resolution / 1.5, shape.length_scale),
        is_smooth=radial_code(shape) == RBF_CODE,
    )
    return pairs.matrix(), pairs.pullback


@is_rule("diagonal_pullback", Functionals)
def _diagonal(kernel: Functionals, X: Array) -> ValuesAndPullback:
    """Rows that differ only by where they are, have one variance if f is stationary."""
    rows = kernel.rows(X)
    if kernel.kernel.is_stationary():
        # codes of categories have no difference, so that differences stay
        X = np.where(rows.is_difference[:, np.newaxis], rows.X, 0.0)
        rows = rows._replace(X=X)
    distinct, position = equal_rows(rows.as_array())
    # the diagonals of small matrices take less time than one row after the other
    n_nodes = max(kernel.nodes(distinct).weights.nnz, 1)
    size = max(128 * len(distinct) // n_nodes, 1)
    slices = row_slices(len(distinct), size)
    matrices = [_matrix(kernel, distinct[block], None) for block in slices]
    variances = np.zeros(len(distinct))
    for block, (matrix, _) in zip(slices, matrices, strict=True):
        variances[block] = np.diagonal(matrix)

    def pullback(g: Array) -> Array:
        sums = np.bincount(position, g, minlength=len(distinct))
        slopes = np.zeros(kernel.n_dims)
        for block, (_, pullback_of_block) in zip(slices, matrices, strict=True):
            slopes += pullback_of_block(np.diag(sums[block]))
        return slopes

    return variances[position], pullback
