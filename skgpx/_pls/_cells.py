"""Nearest rows where all rows do not fit: cells of space, each with a halo of others.

Regression on whitened rows is a sum over rows. Row i is whitened given its nearest
predecessors in a random order, so that a cell whose rows come with those of their
neighbourhood adds its part alone. The order is that of hashes of the rows: it depends
neither on the order in which rows are stored nor on who reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._draws import FunctionDraws
from skgpx._latent import FunctionModel, Mean, NeighborModel
from skgpx._numerics.cells import CellTree
from skgpx._numerics.nearest import predecessors
from skgpx._numerics.regression import WeightStatistics, weight_statistics
from skgpx._numerics.rows import distinct_rows, row_hashes
from skgpx._numerics.weights import GaussianWeights
from skgpx._selection import WorkingResponses
from skgpx._validation import Rows, Units, canonical_rows
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.kernels import decaying_part, length_scales
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Numbers of all rows and their features that are read into one process.
_MAX_NUMBERS = 2**29

# ---- Rows as tables, in the order of their hashes ------------------------------------


def table_of(rows: Rows) -> Array:
    """One array with X, y, the weights, and what is known of each row if it is."""
    columns = [rows.X, rows.y, rows.weights]
    if rows.known is not None:
        columns.append(rows.known)
    return np.column_stack(columns)


def rows_of(table: Array, n_features: int) -> Rows:
    """Rows of a table."""
    quantity = None
    if table.shape[1] > n_features + 2:
        quantity = np.ascontiguousarray(table[:, n_features + 2])
    return Rows(
        X=np.ascontiguousarray(table[:, :n_features]),
        y=np.ascontiguousarray(table[:, n_features]),
        weights=np.ascontiguousarray(table[:, n_features + 1]),
        known=quantity,
    )


def shares_before(rows: Rows, salt: int) -> Array:
    """Share of all rows that precede each row in the random order, (n,)."""
    targets = rows.y
    if rows.known is not None:
        targets = np.column_stack((rows.y, rows.known))
    return row_hashes(rows.X, targets, salt) / 2.0**64


def in_random_order(rows: Rows, salt: int) -> tuple[Rows, Array]:
    """Distinct rows in the order of their hashes, and the shares before them."""
    rows = canonical_rows(rows.X, rows.y, rows.weights, rows.known)
    shares = shares_before(rows, salt)
    order = np.argsort(shares, kind="stable")
    return rows.take(order), shares[order]


# ---- Cells ---------------------------------------------------------------------------


def neighbor_scales(kernel: Kernel, n_features: int) -> Array:
    """Lengthscales in which rows are near: of the terms that fade with the distance."""
    part = decaying_part(kernel, n_features)
    if part is None:
        part = kernel
    return length_scales(part, n_features)


class Division(NamedTuple):
    """How rows are divided into cells.

    Attributes
    ----------
    tree : CellTree
        In units of the lengthscales.
    length_scales : ndarray of shape (d,)
        Of the terms of the kernel that fade with the distance, if there are any.
    salt : int
        Seed of the order.
    units : Units
        Of y.
    """

    tree: CellTree
    length_scales: Array
    salt: int
    units: Units

    @classmethod
    def of(
        cls,
        sample: Rows,
        share: float,
        kernel: Kernel,
        n_neighbors: int,
        n_cells: int,
        n_first: int,
        salt: int,
        units: Units,
    ) -> Division:
        """Divide space such that a sample has as many rows in each cell.

        Parameters
        ----------
        sample : Rows
            The first rows of the order.
        share : float
            Their share in all rows.
        kernel : sklearn.gaussian_process.kernels.Kernel
        n_neighbors, n_cells, n_first : int
            See :class:`CellTree`.
        salt : int
        units : Units
        """
        d = sample.X.shape[1]
        scales = neighbor_scales(kernel, d)
        tree = CellTree.of(
            sample.X / scales,
            n_neighbors,
            n_cells,
            share,
            n_first,
        )
        return cls(tree, scales, salt, units)

    def cell_of(self, X: Array) -> Index:
        """Cell of each row of X, (n,)."""
        return self.tree.cell_of(X / self.length_scales)

    def split(self, rows: Rows) -> list[Array]:
        """Table of the rows that each cell needs."""
        shares = shares_before(rows, self.salt)
        needed = self.tree.halos(rows.X / self.length_scales, shares)
        table = table_of(rows)
        return [table[chosen] for chosen in needed]

    def join(self, pieces: Sequence[Array], number: int) -> Array:
        """Table of a cell, in the order of the rows; a last column says which are its.

        The targets are standardised.
        """
        n_features = len(self.length_scales)
        rows = rows_of(np.concatenate(pieces), n_features)
        if len(rows.y):
            rows, _ = in_random_order(rows, self.salt)
        is_own = self.cell_of(rows.X) == number
        standard = rows._replace(y=self.units.standardised(rows.y))
        return np.column_stack((table_of(standard), is_own))


class Cell(NamedTuple):
    """Rows of a cell and its halo, standardised, in the random order.

    Attributes
    ----------
    rows : Rows
    is_own : ndarray of shape (n,)
    """

    rows: Rows
    is_own: Mask

    @classmethod
    def of(cls, table: Array, n_features: int) -> Cell:
        """Rows of a table of :meth:`Division.join`."""
        return cls(rows_of(table[:, :-1], n_features), table[:, -1] > 0.0)


class CellSums(NamedTuple):
    """Sums over the rows of a cell; those of several cells are added.

    Attributes
    ----------
    statistics : WeightStatistics
        Of whitened rows.
    constant : float
        Log density of the rows less that of the whitened ones, in nats.
    n_rows : int
        Distinct rows.
    """

    statistics: WeightStatistics
    constant: float
    n_rows: int

    def add(self, other: CellSums) -> CellSums:
        """Sums over the rows of both."""
        return CellSums(
            self.statistics.add(other.statistics),
            self.constant + other.constant,
            self.n_rows + other.n_rows,
        )


def whitened_sums(
    table: Array,
    division: Division,
    basis: Nystroem,
    likelihood: Likelihood,
    n_neighbors: int,
) -> CellSums:
    """Sums over the rows of a cell, each whitened given its nearest predecessors.

    Parameters
    ----------
    table : ndarray
        Of :meth:`Division.join`.
    division : Division
    basis : Nystroem
        Of M functions.
    likelihood : Likelihood
        Gaussian noise.
    n_neighbors : int

    Notes
    -----
    O(n N (N^2 + N M) + n M^2) for n rows of the cell, and the features of those rows of
    its halo that are neighbours.
    """
    m = basis.n_basis
    cell = Cell.of(table, len(division.length_scales))
    own_rows = cell.rows.take(cell.is_own)
    n_rows = len(own_rows.y)
    if not n_rows:
        nothing = WeightStatistics(np.zeros((m, m)), np.zeros(m), 0.0, 0.0, 0.0)
        return CellSums(nothing, 0.0, 0)
    # 1 nearest predecessors of the rows of the cell
    nearest, count = predecessors(
        cell.rows.X / division.length_scales,
        n_neighbors,
        chosen=cell.is_own,
    )
    # 2 the rows of the cell, and then their neighbours in the halo
    is_used = np.zeros(len(cell.is_own), bool)
    is_used[nearest] = True
    neighbors = np.flatnonzero(is_used & ~cell.is_own)
    chosen = np.concatenate((np.flatnonzero(cell.is_own), neighbors))
    place = np.zeros(len(cell.is_own), np.intp)
    place[chosen] = np.arange(len(chosen))
    nearest = place[nearest]
    rows = cell.rows.take(chosen)
    residual = NeighborResidual(
        basis=basis,
        rows=rows.X,
        noise=_noise(rows, likelihood)[:, np.newaxis],
        features=basis(rows.X),
        n_neighbors=n_neighbors,
    )
    # 3 sums over W [Φ, y]
    statistics, log_determinant = sums_of_first_rows(residual, rows.y, nearest, count)
    constant = log_determinant + density_beyond_normal(own_rows, likelihood)
    return CellSums(statistics, constant, n_rows)


def sums_of_first_rows(
    residual: NeighborResidual,
    y: Array,
    nearest: Index,
    count: Index,
) -> tuple[WeightStatistics, float]:
    """Sums over ``W [Φ, y]``, and ``log det W``, of the first rows of a residual.

    Parameters
    ----------
    residual : NeighborResidual
    y : ndarray of shape (n,)
        Values at all of its rows.
    nearest, count : ndarray of shape (p, N) and (p,)
        Predecessors of the first p rows, among all.
    """
    m = residual.basis.n_basis
    statistics = WeightStatistics(np.zeros((m, m)), np.zeros(m), 0.0, 0.0, 0.0)
    log_determinant = 0.0
    for first in range(0, len(nearest), residual.block_size):
        block = slice(first, min(first + residual.block_size, len(nearest)))
        # one version of the noise, and one search
        all_weights, all_scales = residual.whitening(
            block,
            nearest[np.newaxis],
            count[np.newaxis],
        )
        weights = all_weights[0]
        scale = all_scales[0]
        around = nearest[block]
        white_features = (weights[:, np.newaxis] @ residual.features[around])[:, 0]
        white_features += scale[:, np.newaxis] * residual.features[block]
        white_y = np.einsum("pn,pn->p", weights, y[around])
        white_y += scale * y[block]
        block_statistics = weight_statistics(
            white_features,
            white_y,
            np.ones(len(scale)),
            np.zeros(len(scale)),
        )
        statistics = statistics.add(block_statistics)
        log_determinant += float(np.log(scale).sum())
    return statistics, log_determinant


def _noise(rows: Rows, likelihood: Likelihood) -> Array:
    """Variances of the noise of rows under a Gaussian likelihood, (n,)."""
    noise: Array = float(likelihood.variance(0.0)) / rows.precisions
    return noise


def density_beyond_normal(rows: Rows, likelihood: Likelihood) -> float:
    """Log density of rows less that of ``N(f, noise / precisions)``, in nats."""
    responses = WorkingResponses.of(rows, likelihood, np.zeros((len(rows.y), 1)))
    excess = responses.constant
    constant = likelihood.row_form(rows.y, rows.weights, rows.known).constant
    if constant is not None:
        excess -= float(rows.weights @ constant)
    return excess


# ---- The model of them ---------------------------------------------------------------


@dataclass(frozen=True)
class CellModel(FunctionModel):
    """A :class:`NeighborModel` with rows that lie in cells, perhaps elsewhere.

    The nearest rows of x are those in the cell of x and its halo.

    Parameters
    ----------
    basis : Nystroem
    weights : GaussianWeights
        Posterior of the weights of the inducing points.
    division : Division
    cells : Cells
        With a method ``map(function, arguments)``: ``function(table, *arguments[k])``
        of each cell k that has arguments, by its number.
    likelihood : Likelihood
        Gaussian noise, in standardised units.
    neighbors : int
        N.
    n_rows : int
        Distinct rows.
    mean : Mean, default=None
    scale : float or ndarray of shape (1,), default=1.0
    """

    basis: Nystroem
    weights: GaussianWeights
    division: Division
    cells: Any
    likelihood: Likelihood
    neighbors: int
    n_rows: int
    mean: Mean | None = None
    scale: float | Array = 1.0

    @property
    def n_neighbors(self) -> int:
        """Number of nearest rows that complete the basis."""
        return self.neighbors

    @property
    def n_basis(self) -> int:
        """Number of functions: M, and ``b(x)ᵀ y_N``."""
        return self.basis.n_basis + 1

    @property
    def floats_of_features(self) -> int:
        return self.basis.floats_per_row + 4 * self.neighbors

    def without_rows(self) -> CellModel:
        """The model without its cells, to send it to workers that have one of them."""
        return replace(self, cells=None)

    def near(self, table: Array, X: Array) -> NeighborModel:
        """The model of the rows of one cell that are nearest to rows of X."""
        return self.of_rows(self.nearest_rows(table, X))

    def nearest_rows(self, table: Array, X: Array) -> Array:
        """Table of the rows of one cell that are nearest to rows of X."""
        rows = Cell.of(table, X.shape[1]).rows
        residual = NeighborResidual(
            basis=self.basis,
            rows=rows.X,
            noise=np.ones((len(rows.y), 1)),
            features=np.empty((0, self.basis.n_basis)),
            n_neighbors=self.neighbors,
        )
        nearest, _ = residual.nearest(X)
        used = np.unique(nearest)
        return np.asarray(table[used])

    def of_rows(self, table: Array) -> NeighborModel:
        """The model of the rows of a table."""
        rows = Cell.of(table, len(self.division.length_scales)).rows
        residual = NeighborResidual(
            basis=self.basis,
            rows=rows.X,
            noise=_noise(rows, self.likelihood)[:, np.newaxis],
            features=self.basis(rows.X),
            n_neighbors=self.neighbors,
        )
        return NeighborModel(
            residual=residual,
            y=rows.y[:, np.newaxis],
            weights=self.weights,
            versions=np.zeros(1, np.intp),
            mean=self.mean,
            scale=self.scale,
        )

    def in_memory(self) -> NeighborModel:
        """The model of all rows, in this process.

        Raises
        ------
        ValueError
            If they and their features take more than 4 GiB.
        """
        n_columns = self.basis.n_basis + len(self.division.length_scales)
        n_numbers = self.n_rows * n_columns
        if n_numbers > _MAX_NUMBERS:
            raise ValueError(
                f"Functions are drawn given all rows in memory; got {self.n_rows}, "
                f"which take {n_numbers / 2**27:.0f} GiB. Predictions of means, "
                "standard deviations and quantiles are row by row; for functions fit a "
                "sample of the rows."
            )
        nothing: tuple[Any, ...] = ()
        arguments = dict.fromkeys(range(self.division.tree.n_cells), nothing)
        tables = self.cells.map(_own, arguments)
        return self.of_rows(np.concatenate(list(tables.values())))

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """``φ - Φ_Nᵀ b`` and ``bᵀ y_N`` (p, M + 1), and the variance of g (p,)."""
        features = np.empty((len(X), self.n_basis))
        variance = np.empty(len(X))
        positions = self.positions(X)
        model = self.without_rows()
        arguments = {k: (model, X[rows]) for k, rows in positions.items()}
        parts = self.cells.map(_features_in_cell, arguments)
        for k, (cell_features, cell_variance) in parts.items():
            features[positions[k]] = cell_features
            variance[positions[k]] = cell_variance
        return features, variance

    def positions(self, X: Array) -> dict[int, Index]:
        """Positions of the rows of X in each cell that has some."""
        cell = self.division.cell_of(X)
        return {int(k): np.flatnonzero(cell == k) for k in np.unique(cell)}

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        features, residual = self.features_and_residual(X)
        mean, variance = self.weights.latent(features[:, :-1])
        mean = mean + features[:, -1, np.newaxis, np.newaxis]
        return mean, variance + residual[:, np.newaxis, np.newaxis]

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        arguments = {
            k: (self.without_rows(), X[rows]) for k, rows in self.positions(X).items()
        }
        tables = self.cells.map(_nearest_in_cell, arguments)
        table = np.concatenate(list(tables.values()))
        # a row of the halo of one cell is in another
        distinct, _ = distinct_rows(table[:, :-1], np.ones(len(table)))
        return self.of_rows(table[distinct])._whitened_covariance(X, output)

    def _whitened_draws(
        self,
        size: int,
        rng: np.random.Generator,
        weights_rng: np.random.Generator,
        **prior: Any,
    ) -> FunctionDraws:
        return self.in_memory()._whitened_draws(size, rng, weights_rng, **prior)

    def condition(self, X: Array, y: Array, noise_variance: Array) -> NeighborModel:
        """Distribution of f given more noisy values, with all rows in memory."""
        return self.in_memory().condition(X, y, noise_variance)

    def process(self) -> None:
        """Return None: the model can be conditioned, but not its draws."""


def _features_in_cell(
    table: Array,
    model: CellModel,
    X: Array,
) -> tuple[Array, Array]:
    return model.near(table, X).features_and_residual(X)


def _nearest_in_cell(table: Array, model: CellModel, X: Array) -> Array:
    return model.nearest_rows(table, X)


def _own(table: Array) -> Array:
    return np.asarray(table[table[:, -1] > 0.0])
