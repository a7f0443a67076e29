"""Nearest rows where all rows do not fit: cells of space, each with a halo of others.

Regression on whitened rows is a sum over rows. Row i is whitened given its nearest
predecessors in a random order, so that a cell whose rows come with those of their
neighbourhood adds its part alone. The order is that of hashes of the rows: it depends
neither on the order in which rows are stored nor on who reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skgpx._draws import FunctionDraws
from skgpx._hyperparameters import (
    LatentMoments,
    NoisyValues,
    ResponsesAt,
    Sites,
    latent_moments,
)
from skgpx._latent import LatentModel, Mean, NeighborModel
from skgpx._latent._neighbors import NeighborProcess
from skgpx._numerics.cells import CellTree
from skgpx._numerics.nearest import predecessors
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    posterior,
    precision_root,
    weight_statistics,
)
from skgpx._numerics.rows import distinct_rows, row_hashes
from skgpx._numerics.warping import Warp
from skgpx._numerics.weights import GaussianWeights
from skgpx._shell.validation import Rows, Units, canonical_rows
from skgpx._types import Array, Generator, Index, Kernel, Mask
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.kernels import neighbor_coordinates
from skgpx.likelihoods import Likelihood

# ---- Rows as tables, in the order of their hashes ------------------------------------


def table_of(rows: Rows) -> Array:
    """One array with X, y, the weights, and what is known of each row if it is."""
    columns = [rows.X, rows.y, rows.weights]
    if rows.known is not None:
        columns.append(rows.known)
    return np.column_stack(columns)


def rows_of(table: Array, n_features: int, targets: tuple[int, ...]) -> Rows:
    """Rows of a table; `targets` is the shape of y of one row."""
    last = n_features + int(np.prod(targets))
    quantity = None
    if table.shape[1] > last + 1:
        quantity = np.ascontiguousarray(table[:, last + 1])
    return Rows(
        X=np.ascontiguousarray(table[:, :n_features]),
        y=np.ascontiguousarray(table[:, n_features:last]).reshape(-1, *targets),
        weights=np.ascontiguousarray(table[:, last]),
        known=quantity,
    )


def shares_before(rows: Rows, salt: int) -> Array:
    """Share of all rows that precede each row in the random order, (n,)."""
    targets = rows.y
    if rows.known is not None:
        targets = np.column_stack((rows.y, rows.known))
    return row_hashes(rows.X, targets, salt) / 2.0**64


def in_random_order(rows: Rows, salt: int) -> Rows:
    """Distinct rows in the order of their hashes."""
    rows = canonical_rows(rows.X, rows.y, rows.weights, rows.known)
    order = np.argsort(shares_before(rows, salt), kind="stable")
    return rows.take(order)


class RowUnits(NamedTuple):
    """Units of y, and of a noise that is known of each row.

    Attributes
    ----------
    targets : tuple of int
        Shape of the y of one row.
    y : Units
    noise : float or None
        Unit of the variance of the noise; None where it is not known.
    least_noise : float
        In this unit, of rows without noise.
    warp : Warp or None
        Function of y that has normal noise; its values have the units `y`.
    """

    targets: tuple[int, ...] = ()
    y: Units = Units()
    noise: float | None = None
    least_noise: float = 0.0
    warp: Warp | None = None

    def standardised(self, rows: Rows) -> Rows:
        """Rows in standardised units."""
        quantity = rows.known
        if quantity is not None and self.noise is not None:
            is_noisy = quantity > 0.0
            quantity = np.where(is_noisy, quantity / self.noise, self.least_noise)
        y = rows.y
        if self.warp is not None:
            if np.any(y <= self.warp.lowest):
                raise ValueError(
                    f"Warped expects positive y in all parts; got {np.min(y):g}. "
                    'Remove these rows, or use transform="yeo-johnson".'
                )
            y = self.warp.forward(y)
        return rows._replace(y=self.y.standardised(y, rows.X), known=quantity)


# ---- Cells ---------------------------------------------------------------------------


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
    units : RowUnits
    """

    tree: CellTree
    length_scales: Array
    salt: int
    units: RowUnits

    def cell_of(self, X: Array) -> Index:
        """Cell of each row of X, (n,)."""
        return self.tree.cell_of(X / self.length_scales)

    def needed(self, rows: Rows) -> Mask:
        """Whether a cell needs a row, in the units of the data, (n_cells, n)."""
        shares = shares_before(rows, self.salt)
        return self.tree.halos(rows.X / self.length_scales, shares)

    def split(self, rows: Rows) -> list[Array]:
        """Table of the rows that each cell needs."""
        table = table_of(rows)
        return [table[chosen] for chosen in self.needed(rows)]

    def join(self, pieces: Sequence[Array], number: int) -> Array:
        """Table of a cell, in the order of the rows; a last column says which are its.

        In the units of the data.
        """
        n_features = len(self.length_scales)
        rows = rows_of(np.concatenate(pieces), n_features, self.units.targets)
        if len(rows.y):
            rows = in_random_order(rows, self.salt)
        is_own = self.cell_of(rows.X) == number
        return np.column_stack((table_of(rows), is_own))

    def rows(self, table: Array) -> tuple[Rows, Mask]:
        """Rows of a table of :meth:`join`, and which of them are those of the cell."""
        n_features = len(self.length_scales)
        rows = rows_of(table[:, :-1], n_features, self.units.targets)
        return rows, table[:, -1] > 0.0


class NormalRows(NamedTuple):
    """Rows of a cell and its halo, with normal values of f, in the random order.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, c)
        Values of c functions, standardised: the targets, or working responses.
    noise : ndarray of shape (n, k)
        Variances of their noise in k versions.
    is_own : ndarray of shape (n,)
        Rows of the cell.
    """

    X: Array
    y: Array
    noise: Array
    is_own: Mask

    @classmethod
    def of(cls, table: Array, n_features: int, n_functions: int) -> NormalRows:
        """Rows of a :meth:`table`."""
        last = n_features + n_functions
        return cls(
            X=np.ascontiguousarray(table[:, :n_features]),
            y=np.ascontiguousarray(table[:, n_features:last]),
            noise=np.ascontiguousarray(table[:, last:-1]),
            is_own=table[:, -1] > 0.0,
        )

    def table(self) -> Array:
        """One array of all columns."""
        return np.column_stack((self.X, self.y, self.noise, self.is_own))

    def take(self, chosen: Index) -> NormalRows:
        """The rows at these positions."""
        return NormalRows(
            X=self.X[chosen],
            y=self.y[chosen],
            noise=self.noise[chosen],
            is_own=self.is_own[chosen],
        )


class CellSums(NamedTuple):
    """Sums over whitened rows of a cell; those of several cells are added.

    Attributes
    ----------
    statistics : tuple of k WeightStatistics
        Of the functions of each version of the noise.
    log_determinant : float
        Log density of the rows less that of the whitened ones, in nats.
    n_rows : int
        Distinct rows.
    """

    statistics: tuple[WeightStatistics, ...]
    log_determinant: float
    n_rows: int

    @property
    def of_zeros(self) -> CellSums:
        """Sums of the same rows with values of zero."""
        return self._replace(
            statistics=tuple(
                version._replace(
                    moment=np.zeros_like(version.moment),
                    square=np.zeros_like(version.square),
                )
                for version in self.statistics
            )
        )

    def add(self, other: CellSums) -> CellSums:
        """Sums over the rows of both."""
        pairs = zip(self.statistics, other.statistics, strict=True)
        return CellSums(
            tuple(version.add(added) for version, added in pairs),
            self.log_determinant + other.log_determinant,
            self.n_rows + other.n_rows,
        )


def whitened_sums(table: Array, model: CellModel) -> CellSums:
    """Sums over the rows of a cell, each whitened given its nearest predecessors.

    Parameters
    ----------
    table : ndarray
        Of :class:`NormalRows`.
    model : CellModel
        With M functions; its weights are not used.

    Notes
    -----
    O(n N (N^2 + N M) + n M^2) for n rows of the cell, and the features of those rows of
    its halo that are neighbours.
    """
    rows = model.normal_rows(table)
    scales = model.division.length_scales
    n_rows = int(np.sum(rows.is_own))
    # 1 nearest predecessors of the rows of the cell
    nearest, count = predecessors(
        rows.X / scales,
        model.n_neighbors,
        chosen=rows.is_own,
    )
    # 2 the rows of the cell, and then their neighbours in the halo
    is_used = np.zeros(len(rows.X), bool)
    is_used[nearest] = True
    neighbors = np.flatnonzero(is_used & ~rows.is_own)
    chosen = np.concatenate((np.flatnonzero(rows.is_own), neighbors))
    place = np.zeros(len(rows.X), np.intp)
    place[chosen] = np.arange(len(chosen))
    local = model.given(rows.take(chosen))
    # 3 sums over W [Φ, y]
    statistics, log_determinant = sums_of_first_rows(local, place[nearest], count)
    return CellSums(statistics, log_determinant, n_rows)


def sums_of_first_rows(
    model: NeighborModel,
    nearest: Index,
    count: Index,
) -> tuple[tuple[WeightStatistics, ...], float]:
    """Sums over ``W [Φ, y]``, and ``log det W``, of the first rows of a model.

    Parameters
    ----------
    model : NeighborModel
        With values at the same rows in all versions of the noise.
    nearest, count : ndarray of shape (p, N) and (p,)
        Predecessors of the first p rows, among all.

    Returns
    -------
    statistics : tuple of k WeightStatistics
        Of the functions of each version.
    log_determinant : float
        Summed over functions.
    """
    residual = model.residual
    m = residual.basis.n_basis
    outputs = [
        np.flatnonzero(model.versions == version)
        for version in range(residual.noise.shape[1])
    ]
    statistics = [
        WeightStatistics(
            gram=np.zeros((m, m)),
            moment=np.zeros((m, len(functions))),
            square=np.zeros(len(functions)),
            residual=0.0,
            weight=0.0,
        )
        for functions in outputs
    ]
    log_determinant = 0.0
    for first in range(0, len(nearest), residual.block_size):
        block = slice(first, min(first + residual.block_size, len(nearest)))
        # all versions have one search
        all_weights, all_scales = residual.whitening(
            block,
            nearest[np.newaxis],
            count[np.newaxis],
        )
        around = nearest[block]
        for version, functions in enumerate(outputs):
            weights = all_weights[version]
            scale = all_scales[version][:, np.newaxis]
            y = model.y[:, functions]
            white_features = (weights[:, np.newaxis] @ residual.features[around])[:, 0]
            white_features += scale * residual.features[block]
            white_y = np.einsum("pn,pnt->pt", weights, y[around])
            white_y += scale * y[block]
            block_statistics = weight_statistics(
                white_features,
                white_y,
                np.ones(len(scale)),
                np.zeros(len(scale)),
            )
            statistics[version] = statistics[version].add(block_statistics)
            log_determinant += len(functions) * float(np.log(scale).sum())
    return tuple(statistics), log_determinant


# ---- Normal values of the rows -------------------------------------------------------


def normal_table(
    table: Array,
    division: Division,
    noises: Array,
    versions: Index,
) -> tuple[Array, float]:
    """Rows of a cell under Gaussian noise, whose targets are normal values.

    Parameters
    ----------
    table : ndarray
        Of :meth:`Division.join`.
    division : Division
    noises : ndarray of shape (k,)
        Noise variances of the versions.
    versions : ndarray of shape (t,)
        Version of each target.

    Returns
    -------
    table : ndarray
        Of :class:`NormalRows`.
    constant : float
        Log density of the rows less that of the normal values, in nats.
    """
    rows, is_own = division.rows(table)
    rows = division.units.standardised(rows)
    noise = noises / rows.precisions[:, np.newaxis]
    values = rows.y.reshape(len(rows.X), -1)
    normal = NormalRows(rows.X, values, noise, is_own)
    own_noise = noise[is_own][:, versions]
    constant = density_beyond_normal(own_noise, rows.weights[is_own])
    return normal.table(), constant


def density_beyond_normal(noise: Array, weights: Array) -> float:
    """Log density of repeated rows less that of single ones, in nats.

    ω rows of noise variance ``ω σ²`` have the density of one of variance σ², but for a
    constant.

    Parameters
    ----------
    noise : ndarray of shape (n, t)
        σ² of each target.
    weights : ndarray of shape (n,)
        ω.
    """
    omega = weights[:, np.newaxis]
    log_volumes = np.log(2.0 * np.pi * noise)
    log_volumes -= omega * np.log(2.0 * np.pi * noise * omega)
    return 0.5 * float(np.sum(log_volumes))


class CellResponses(NamedTuple):
    """Working responses of the rows of a cell.

    Attributes
    ----------
    moments : ndarray of shape (n, 2 c)
        Latent means, and variances, around which they are.
    columns : ndarray of shape (n, 2 c)
        Values, and variances of their noise.
    bound : float
        Of the evidence, less the log density of the values, in nats.
    change : float
        Sum over the rows of the change of these moments, see `LatentMoments`; infinite
        where there is nothing to compare with.
    """

    moments: Array
    columns: Array
    bound: float
    change: float

    @classmethod
    def of(cls, sites: Sites, bound: float = 0.0) -> CellResponses:
        """Observations of the rows."""
        moments = np.column_stack(sites.moments)
        columns = np.column_stack(sites.values)
        return cls(moments, columns, bound, len(moments) * sites.change)

    @classmethod
    def of_nothing(cls, n_functions: int) -> CellResponses:
        """Of a cell without rows."""
        nothing = np.empty((0, 2 * n_functions))
        return cls(nothing, nothing, 0.0, 0.0)


def first_responses(
    table: Array,
    division: Division,
    kernel: Kernel,
    likelihood: Likelihood,
) -> CellResponses:
    """Working responses at moments given the nearest rows of the cell and its halo."""
    rows, is_own = division.rows(table)
    rows = division.units.standardised(rows)
    if not np.any(is_own):
        return CellResponses.of_nothing(likelihood.n_outputs_)
    moments, _ = latent_moments(rows, kernel, likelihood)
    responses_at = ResponsesAt.of(rows.take(is_own), likelihood, kernel)
    return CellResponses.of(responses_at.first_sites(moments.take(is_own)))


def next_responses(
    table: Array,
    normal: Array,
    previous: Array,
    model: CellModel,
    likelihood: Likelihood,
) -> CellResponses:
    """Working responses at the moments of a model.

    Parameters
    ----------
    table : ndarray
        Of :meth:`Division.join`.
    normal : ndarray
        The same rows as :class:`NormalRows`.
    previous : ndarray of shape (n, 2 c)
        Latent moments of the rows of the cell around which its present values are.
    model : CellModel
    likelihood : Likelihood
    """
    rows, is_own = model.division.rows(table)
    own_rows = model.division.units.standardised(rows.take(is_own))
    if not len(own_rows.y):
        return CellResponses.of_nothing(likelihood.n_outputs_)
    # 1 the moments
    local = model.near(normal, own_rows.X)
    mean, variance = local._whitened_moments(own_rows.X)
    moments = LatentMoments(mean[:, :, 0], variance[:, :, 0])
    # 2 the responses around them
    own_values = model.normal_rows(normal).take(np.flatnonzero(is_own))
    values = NoisyValues(own_values.y, own_values.noise)
    responses_at = ResponsesAt.of(own_rows, likelihood, model.basis.kernel)
    before = Sites(LatentMoments(*np.hsplit(previous, 2)), values)
    sites = responses_at.next_sites(moments, before)
    # 3 p(y) where likelihoods are in units of the noise of the rows
    bound = responses_at.bound_beyond(moments, values, sites.energy)
    excess = likelihood.row_form(own_rows.y, own_rows.weights, own_rows.known).constant
    if excess is not None:
        bound -= float(own_rows.weights @ excess)
    return CellResponses.of(sites, bound)


def columns_for_cells(
    table: Array,
    division: Division,
    columns: Array,
) -> list[Array]:
    """Columns of the rows of a cell that each cell needs, in the random order."""
    rows, is_own = division.rows(table)
    needed = division.needed(rows.take(is_own))
    return [columns[chosen] for chosen in needed]


def with_responses(
    table: Array,
    division: Division,
    columns: Sequence[Array],
) -> Array:
    """Rows of a cell and its halo with the working responses of their own cells.

    Parameters
    ----------
    table : ndarray
        Of :meth:`Division.join`.
    division : Division
    columns : sequence of ndarray
        From each cell, of :func:`columns_for_cells`.

    Returns
    -------
    table : ndarray
        Of :class:`NormalRows`.
    """
    rows, is_own = division.rows(table)
    home = division.cell_of(rows.X)
    width = columns[0].shape[1]
    values = np.empty((len(home), width))
    for cell, of_cell in enumerate(columns):
        values[home == cell] = of_cell
    c = width // 2
    return NormalRows(rows.X, values[:, :c], values[:, c:], is_own).table()


# ---- The model of them ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CellModel(NeighborModel):
    """A model without rows of its own: they lie in cells, perhaps elsewhere.

    The nearest rows of x are those in the cell of x and its halo.

    Parameters
    ----------
    division : Division
    cells : Cells
        With a method ``map(function, arguments)``: ``function(table, *arguments[k])``
        of each cell k that has arguments, by its number.
    n_rows : int
        Distinct rows.
    """

    division: Division
    cells: Any = None
    n_rows: int = 0

    @classmethod
    def of_prior(
        cls,
        basis: Nystroem,
        division: Division,
        n_neighbors: int,
        versions: Index,
        mean: Mean | None,
    ) -> CellModel:
        """A model that knows of no rows yet."""
        m = basis.n_basis
        weights = GaussianWeights(np.zeros((m, len(versions))), np.eye(m)[np.newaxis])
        residual = NeighborResidual(
            basis=basis,
            rows=np.empty((0, len(division.length_scales))),
            noise=np.empty((0, int(np.max(versions)) + 1)),
            features=np.empty((0, m)),
            n_neighbors=n_neighbors,
        )
        values = np.empty((0, len(versions)))
        return cls(residual, values, weights, versions, mean, division=division)

    def given_sums(self, sums: CellSums) -> tuple[CellModel, float]:
        """Regression of W y on W Φ: the model, and the log density of the values."""
        versions = self.versions
        means = np.empty((self.basis.n_basis, len(versions)))
        roots = []
        evidence = sums.log_determinant
        for version, statistics in enumerate(sums.statistics):
            root = precision_root(statistics.gram, 1.0)
            of_version = posterior(statistics, 1.0, root)
            means[:, versions == version] = of_version.mean
            roots.append(of_version.root[0])
            evidence += log_evidence(statistics, 1.0, root)
        root = np.stack(roots)
        if len(roots) > 1:
            root = root[versions]
        weights = GaussianWeights(means, root)
        return replace(self, weights=weights, n_rows=sums.n_rows), evidence

    def without_rows(self) -> CellModel:
        """The model without its cells, to send it to workers that have one of them."""
        return replace(self, cells=None)

    def normal_rows(self, table: Array) -> NormalRows:
        """Rows of a table of a cell."""
        return NormalRows.of(table, len(self.division.length_scales), self.n_outputs)

    def given(self, rows: NormalRows) -> NeighborModel:
        """The model of these rows."""
        residual = replace(
            self.residual,
            rows=rows.X,
            noise=rows.noise,
            features=self.basis(rows.X),
        )
        return NeighborModel(
            residual,
            rows.y,
            self.weights,
            self.versions,
            self.mean,
            self.scale,
        )

    def near(self, table: Array, X: Array) -> NeighborModel:
        """The model of the rows of one cell that are nearest to rows of X."""
        return self.given(self.normal_rows(self.nearest_rows(table, X)))

    def nearest_rows(self, table: Array, X: Array) -> Array:
        """Table of the rows of one cell that are nearest to rows of X."""
        rows = self.normal_rows(table)
        residual = replace(self.residual, rows=rows.X, noise=rows.noise)
        nearest, _ = residual.nearest(X)
        used = np.unique(nearest)
        return np.asarray(table[used])

    def in_memory(self) -> NeighborModel:
        """The model of all rows, in this process.

        Raises
        ------
        ValueError
            If they and their features take more than 4 GiB.
        """
        n_columns = self.basis.n_basis + len(self.division.length_scales)
        n_numbers = self.n_rows * n_columns
        # 4 GiB
        if n_numbers > 2**29:
            raise ValueError(
                f"Functions are drawn given all rows in memory; got {self.n_rows}, "
                f"which take {n_numbers / 2**27:.0f} GiB. Predictions of means, "
                "standard deviations and quantiles are row by row; for functions fit a "
                "sample of the rows."
            )
        nothing: tuple[Any, ...] = ()
        arguments = dict.fromkeys(range(self.division.tree.n_cells), nothing)
        tables = self.cells.map(_own, arguments)
        return self.given(self.normal_rows(np.concatenate(list(tables.values()))))

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """``φ - Φ_Nᵀ b`` and ``bᵀ y_N`` (p, M + 1), and the variance of g (p,)."""
        return self._in_cells(NeighborModel.features_and_residual, X)

    def positions(self, X: Array) -> dict[int, Index]:
        """Positions of the rows of X in each cell that has some."""
        cell = self.division.cell_of(X)
        return {int(k): np.flatnonzero(cell == k) for k in np.unique(cell)}

    def _in_cells(
        self,
        function: Callable[[NeighborModel, Array], tuple[Array, Array]],
        X: Array,
    ) -> tuple[Array, Array]:
        """Two arrays of values at the rows of X, from the cells of the rows."""
        positions = self.positions(X)
        model = self.without_rows()
        arguments = {k: (model, function, X[rows]) for k, rows in positions.items()}
        parts = self.cells.map(_near_cell, arguments)
        order = np.argsort(np.concatenate(list(positions.values())))
        first, second = zip(*(parts[k] for k in positions), strict=True)
        return np.concatenate(first)[order], np.concatenate(second)[order]

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        return self._in_cells(NeighborModel._whitened_moments, X)

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        nearest_rows = self.without_rows().nearest_rows
        arguments = {k: (X[rows],) for k, rows in self.positions(X).items()}
        tables = self.cells.map(nearest_rows, arguments)
        table = np.concatenate(list(tables.values()))
        # a row of the halo of one cell is in another
        distinct, _ = distinct_rows(table[:, :-1], np.ones(len(table)))
        rows = self.normal_rows(table[distinct])
        return self.given(rows)._whitened_covariance(X, output)

    def draw(self, size: int, rng: Generator, **prior: Any) -> FunctionDraws:
        """Independent draws of f, with all rows in memory."""
        return self.in_memory().draw(size, rng, **prior)

    def condition(self, X: Array, y: Array, noise_variance: Array) -> NeighborModel:
        """Distribution of f given more noisy values, with all rows in memory."""
        return self.in_memory().condition(X, y, noise_variance)

    def process(self) -> NeighborProcess:
        """``f - m`` as a process that can be conditioned, with all rows in memory."""
        return self.in_memory().process()


def _near_cell(
    table: Array,
    model: CellModel,
    function: Callable[[NeighborModel, Array], tuple[Array, Array]],
    X: Array,
) -> tuple[Array, Array]:
    return function(model.near(table, X), X)


def _own(table: Array) -> Array:
    return np.asarray(table[table[:, -1] > 0.0])


# ---- Rows that come in parts: sums to which `partial_fit` and ``+`` add --------------


class RowSums(NamedTuple):
    """What the weights know of the rows, in units of their noise.

    Attributes
    ----------
    statistics : WeightStatistics
    constant : float
        Log evidence of y less that of these statistics, in nats.
    """

    statistics: WeightStatistics
    constant: float

    @classmethod
    def of(cls, weights: GaussianWeights, evidence: float) -> RowSums:
        """Sums that lead to a posterior of one output, ``N(Λ⁻¹ moment, Λ⁻¹)``.

        Parameters
        ----------
        weights : GaussianWeights
        evidence : float
            Log evidence of y.
        """
        # Λ = I + gram = (root rootᵀ)⁻¹
        inverse = np.linalg.inv(weights.root[0])
        precision = inverse.T @ inverse
        statistics = WeightStatistics(
            gram=precision - np.eye(len(precision)),
            moment=precision @ weights.mean,
            square=0.0,
            residual=0.0,
            weight=0.0,
        )
        return cls(statistics, evidence - log_evidence(statistics, 1.0))

    def add(self, other: RowSums, sign: float = 1.0) -> RowSums:
        """Sums over both sets of rows; sign -1.0 removes the other set."""
        return RowSums(
            self.statistics.add(other.statistics, sign),
            self.constant + sign * other.constant,
        )

    def solve(self) -> tuple[GaussianWeights, float]:
        """Posterior of the weights, and the log evidence of y; O(M^3)."""
        root = precision_root(self.statistics.gram, 1.0)
        evidence = log_evidence(self.statistics, 1.0, root) + self.constant
        return posterior(self.statistics, 1.0, root), evidence

    def equals(self, other: RowSums) -> bool:
        """Whether these are the same rows."""
        same_moment = np.array_equal(self.statistics.moment, other.statistics.moment)
        same_gram = np.array_equal(self.statistics.gram, other.statistics.gram)
        return same_moment and same_gram


def add_rows(
    model: LatentModel | NeighborModel,
    rows: Rows,
    likelihood: Likelihood,
    salt: int,
) -> tuple[LatentModel | NeighborModel, RowSums]:
    """A model with more rows, whose weights do not know of them yet, and their sums.

    Parameters
    ----------
    model : LatentModel or NeighborModel
        Of one output, under Gaussian noise.
    rows : Rows
        With y in units of the model.
    likelihood : Likelihood
        In these units.
    salt : int
        Seed of the order of the new rows. With nearest rows those of the model precede
        all of them.
    """
    scale = float(np.ravel(model.scale)[0])
    # rows with values of the whitened function h, ``f = m + scale h``
    standard = rows._replace(y=(rows.y - model.mean_at(rows.X)[:, 0]) / scale)
    noise_likelihood = likelihood.scaled(1.0 / scale)
    noise = float(noise_likelihood.variance(0.0)) / standard.precisions
    log_volume = float(rows.weights.sum() * np.log(scale))
    if isinstance(model, NeighborModel):
        standard = in_random_order(standard, salt)
        noise = float(noise_likelihood.variance(0.0)) / standard.precisions
        model, statistics, log_det = _with_predecessors(model, standard, noise)
        constant = log_det
        constant += density_beyond_normal(noise[:, np.newaxis], standard.weights)
    else:
        features = model.basis(standard.X)
        residual = model.basis.residual_variance(standard.X, features)
        y = standard.y[:, np.newaxis]
        statistics = weight_statistics(features, y, 1.0 / noise, residual)
        # the volume of rows in units of the noise
        constant = -0.5 * float(standard.weights @ np.log(noise * standard.weights))
        statistics = statistics._replace(weight=float(standard.weights.sum()))
    return model, RowSums(statistics, constant - log_volume)


def _with_predecessors(
    model: NeighborModel,
    rows: Rows,
    noise: Array,
) -> tuple[NeighborModel, WeightStatistics, float]:
    """The model with more rows, the sums over these, and the ``log det`` of their W."""
    old = model.residual
    n_old = len(old.rows)
    n_new = len(rows.y)
    # 1 predecessors among the old rows, and the new ones before
    is_new = np.arange(n_old + n_new) >= n_old
    nearest, count = predecessors(
        neighbor_coordinates(old.kernel, np.concatenate((old.rows, rows.X))),
        old.n_neighbors,
        chosen=is_new,
    )
    # 2 the new rows become the first ones
    nearest = np.where(nearest < n_old, nearest + n_new, nearest - n_old)
    residual = replace(
        old,
        rows=np.concatenate((rows.X, old.rows)),
        noise=np.concatenate((noise[:, np.newaxis], old.noise)),
        features=np.concatenate((old.basis(rows.X), old.features)),
    )
    y = np.concatenate((rows.y, model.y[:, 0]))
    model = replace(model, residual=residual, y=y[:, np.newaxis])
    (statistics,), log_det = sums_of_first_rows(model, nearest, count)
    return model, statistics, log_det


def rows_of_model(model: NeighborModel, n_rows: int, likelihood: Likelihood) -> Rows:
    """The first rows of a model, with y in its units."""
    X = model.residual.rows[:n_rows]
    scale = float(np.ravel(model.scale)[0])
    y = scale * model.y[:n_rows, 0] + model.mean_at(X)[:, 0]
    noise = scale**2 * model.residual.noise[:n_rows, 0]
    return Rows(X, y, float(likelihood.variance(0.0)) / noise)


def same_functions(
    first: LatentModel | NeighborModel,
    second: LatentModel | NeighborModel,
) -> bool:
    """Whether sums over the features of two models may be added."""
    has_neighbors = isinstance(first, NeighborModel)
    if isinstance(second, NeighborModel) != has_neighbors:
        return False
    points = first.basis.inducing_points  # type: ignore[union-attr]
    other_points = second.basis.inducing_points  # type: ignore[union-attr]
    zero = np.zeros((1, points.shape[1]))
    same_mean = np.array_equal(first.mean_at(zero), second.mean_at(zero))
    return (
        np.array_equal(points, other_points)
        and first.basis.kernel == second.basis.kernel  # type: ignore[union-attr]
        and first.n_neighbors == second.n_neighbors
        and np.array_equal(first.scale, second.scale)
        and same_mean
    )
