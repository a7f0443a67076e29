"""The fit of rows of dask: a sample chooses the prior, and cells add up their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from skgpx._cells._cells import (
    CellModel,
    CellResponses,
    CellSums,
    Division,
    RowUnits,
    columns_for_cells,
    first_responses,
    next_responses,
    normal_table,
    whitened_sums,
    with_responses,
)
from skgpx._cells._distributed import (
    Partitions,
    Store,
    Summary,
    add_up,
    check_cluster,
    check_is_lazy,
    compute,
    delayed_call,
    delayed_value,
    frame_of,
    load,
    on_table,
    part_constant,
    part_log_volume,
    save,
    sum_of,
)
from skgpx._hyperparameters import depends_on_contrasts, final_noise, fixed_point
from skgpx._numerics.cells import CellTree
from skgpx._numerics.warping import Warp
from skgpx._pls._inference import infer
from skgpx._posterior._closed_form import from_statistics
from skgpx._posterior._sampler import (
    Inference,
    Sampler,
    form_constant,
    inference_of,
    prior_mean,
)
from skgpx._row_budgets import CELL_ROWS, FIRST_ROWS, NOISE_ROWS
from skgpx._shell.validation import (
    Door,
    RowReader,
    Rows,
    Units,
    check_frame,
    generator,
    keep_input_range,
    row_quantity,
)
from skgpx._types import Array, ArrayLike, Generator, Index
from skgpx.bases import Nystroem, SeriesBasis
from skgpx.diagnostics import rows_not_converged
from skgpx.kernels import neighbor_scales
from skgpx.likelihoods import Likelihood, LogNormal, Ordinal


def check_lazy_fit(
    estimator: Any,
    likelihood: Likelihood,
    y: Any,
    **functionals: ArrayLike | None,
) -> None:
    """Refuse at once what only arrays in memory can be fitted with.

    Parameters
    ----------
    estimator : PLSRegressor or PLSClassifier
    likelihood : Likelihood
    y : dask array, data frame or series
    **functionals : array-like or None
        What rows see of f, where that is no value.

    Raises
    ------
    ValueError
        With the remedy.
    """
    refused = []
    unknown_grades = (
        isinstance(likelihood, Ordinal)
        and likelihood.n_grades is None
        and likelihood.thresholds is None
    )
    is_other = isinstance(likelihood, LogNormal) or unknown_grades
    several_modes = likelihood.symmetric or not likelihood.smooth
    if is_other or several_modes:
        refused.append(f"likelihood={estimator.likelihood!r}")
    if estimator.method not in ("auto", "exact"):
        refused.append(f"method={estimator.method!r}")
    is_regression = likelihood.has_closed_form and np.ndim(y) == 1
    if estimator.n_neighbors == 0 and not is_regression:
        refused.append("n_neighbors=0 beside other noise or several targets")
    if estimator._is_monotone:
        refused.append("monotonic_cst")
    refused += [name for name, given in functionals.items() if given is not None]
    if refused:
        raise ValueError(
            "Dask arrays and data frames are fitted by regression, or by the closest "
            f"normal distribution given nearest rows; got {' and '.join(refused)}. For "
            "LogNormal() fit the logarithm of y, for Ordinal() state n_grades. For "
            "others fit arrays in memory: X.compute(), or a sample of the rows."
        )


class LazyRows(NamedTuple):
    """All rows of a fit, of which the client has a sample.

    Attributes
    ----------
    partitions : Partitions
    summary : Summary
    units : RowUnits
    """

    partitions: Partitions
    summary: Summary
    units: RowUnits = RowUnits()

    @classmethod
    def of(
        cls,
        estimator: Any,
        likelihood: Likelihood,
        columns: dict[str, Any],
    ) -> LazyRows:
        """Check all rows of an estimator's `fit`, and draw the sample.

        Parameters
        ----------
        estimator : PLSRegressor or PLSClassifier
            With `classes_`, if it is a classifier.
        likelihood : Likelihood
        columns : dict
            X, y and quantities of rows, by name.
        """
        salt = int(generator(estimator.random_state).integers(2**62))
        lazy = {}
        numbers = {}
        for name, values in columns.items():
            if values is not None and np.ndim(values):
                check_is_lazy(name, values)
                lazy[name] = values
            elif values is not None:
                numbers[name] = values
        # names of quantities, before rows are read
        quantities = (lazy.keys() | numbers.keys()) - {"X", "y", "sample_weight"}
        row_quantity(likelihood, 1, **dict.fromkeys(quantities, 1.0))
        numeric = not is_classifier(estimator)
        check_frame(estimator, frame_of(lazy["X"]), frame_of(lazy["y"]), numeric)
        check_cluster()
        door = Door(RowReader(estimator).estimator, likelihood, numbers)
        partitions = Partitions.of(estimator, door, salt, lazy)
        summary = partitions.summary()
        estimator._n_rows = summary.n_rows
        keep_input_range(estimator, summary.sample.X, reset=True)
        return cls(partitions, summary)

    @property
    def sample(self) -> Rows:
        """The first rows of the random order."""
        return self.summary.sample

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.summary.n_rows

    @property
    def n_distinct(self) -> int:
        """About how many of them differ, by the sample."""
        size = len(self.summary.sample.y)
        if self.summary.limit < 1.0:
            return max(size + 1, round(size / self.summary.limit))
        return size

    def in_units_of(
        self,
        standard: Rows,
        likelihood: Likelihood,
        units: Units,
        warp: Warp | None,
    ) -> LazyRows:
        """These rows with the units of the sample.

        Parameters
        ----------
        standard : Rows
            The sample in these units.
        likelihood : Likelihood
            In these units.
        units : Units
            Of y.
        warp : Warp or None
            Function of y that has these units.
        """
        noise = None
        least_noise = 0.0
        if standard.known is not None and units.new_row_variance is not None:
            noise = float(likelihood.noise_parameter * np.square(units.scale))
            least_noise = float(standard.known.min())
        targets = standard.y.shape[1:]
        row_units = RowUnits(targets, units, noise, least_noise, warp)
        return self._replace(units=row_units)

    def evidence_of_y(self, inference: Inference) -> float:
        """Evidence of y from that of ``y / scale``: ``p(y) = p(y / scale) / scale``."""
        log_scales = np.log(np.broadcast_to(self.units.y.scale, self.units.targets))
        log_volume = -self.summary.weight * float(np.sum(log_scales))
        if self.units.warp is not None:
            log_volume += self.partitions.total(part_log_volume, self.units.warp)
        return inference.log_evidence + log_volume

    def infer(
        self,
        basis: Nystroem,
        rows: Rows,
        likelihood: Likelihood,
        sampler: Sampler,
        rng: Generator,
    ) -> Inference:
        """Posterior given all rows, of which `rows` are the sample.

        Parameters as in :func:`~skgpx._pls._inference.infer`.
        """
        if sampler.n_neighbors > 0:
            return self._nearest_rows(basis, rows, likelihood, sampler, rng)
        is_series = isinstance(basis, SeriesBasis)
        if is_series or not likelihood.has_closed_form or rows.y.ndim > 1:
            # the sample has all rows
            inference = infer(basis, rows, likelihood, sampler, rng)
            constant = form_constant(rows, inference.likelihood)
        else:
            statistics = self.partitions.statistics(basis, self.units)
            if sampler.noise_is_free:
                likelihood = final_noise(basis, rows, statistics, likelihood)
            inference = from_statistics(
                statistics,
                basis,
                likelihood,
                sampler,
                rng,
            )
            constant = 0.0
            if rows.known is not None:
                constant = self.partitions.total(part_constant, likelihood, self.units)
        return inference._replace(log_evidence=inference.log_evidence - constant)

    def _nearest_rows(
        self,
        basis: Nystroem,
        rows: Rows,
        likelihood: Likelihood,
        sampler: Sampler,
        rng: Generator,
    ) -> Inference:
        """Each row conditioned on its nearest predecessors, cell by cell."""
        # 1 noise of several targets, of a part of the sample
        if rows.y.ndim > 1:
            part = rows.thinned(NOISE_ROWS)
            likelihood = infer(basis, part, likelihood, sampler, rng).likelihood
        # 2 cells, with as many rows each, and their halos
        cells = self._in_cells(basis, sampler.n_neighbors)
        # 3 regression of W y on W Φ, of targets or of working responses
        if likelihood.has_closed_form:
            # Gaussian noise: targets of the same noise have one factorisation
            noises = np.broadcast_to(
                likelihood.variance(0.0), cells.division.units.targets
            )
            noises, versions = np.unique(noises, return_inverse=True)
            versions = np.ravel(versions)
            tables, constant = cells.under_noise(noises, versions)
            prior = CellModel.of_prior(
                basis,
                cells.division,
                sampler.n_neighbors,
                versions,
                prior_mean(likelihood),
            )
            model, log_density = prior.given_sums(cells.sums(prior, tables))
            completed = cells.completed(model, tables)
            evidence = log_density + constant
            converged = True
        else:
            completed, evidence, converged = _closest_normal(
                cells,
                basis,
                rows,
                likelihood,
                sampler.n_neighbors,
            )
        inference = inference_of(completed, likelihood, evidence, sampler, rng)
        return inference._replace(findings=(rows_not_converged(converged),))

    def _in_cells(self, basis: Nystroem, n_neighbors: int) -> CellRows:
        """Send all rows to cells, which have as many each, and to their halos."""
        n_cells = 1
        while n_cells * CELL_ROWS < self.n_rows:
            n_cells *= 2
        sample = self.summary.sample
        scales = neighbor_scales(basis.kernel, sample.X.shape[1])
        tree = CellTree.of(
            sample.X / scales,
            n_neighbors,
            n_cells,
            self.summary.limit,
            FIRST_ROWS,
        )
        division = Division(tree, scales, self.partitions.salt, self.units)
        store = Store()
        tables = self.partitions.in_cells(division, store.path)
        return CellRows(tables, division, store)


# ---- The posterior, cell by cell -----------------------------------------------------


def _closest_normal(
    rows: CellRows,
    basis: Nystroem,
    sample: Rows,
    likelihood: Likelihood,
    n_neighbors: int,
) -> tuple[CellModel, float, bool]:
    """The closest normal distribution, by rounds of regression.

    As in :func:`~skgpx._posterior._nearest_rows.nearest_rows`, but for the moments of
    the rows: they are those that the model predicts there, which a cell computes alone.
    """
    rows = rows.kept()
    prior = CellModel.of_prior(
        basis,
        rows.division,
        n_neighbors,
        np.arange(likelihood.n_outputs_),
        prior_mean(likelihood),
    )
    # 1 working responses around moments given the nearest rows alone
    shared = (rows.division, basis.kernel, likelihood)
    nothing: list[tuple[Any, ...]] = [()] * len(rows.tables)
    first = rows.respond(0, first_responses, nothing, shared)

    # 2 regression on them
    def regress(tables: list[Any]) -> CellRegression:
        sums = rows.sums(prior, tables)
        model, log_density = prior.given_sums(sums)
        return CellRegression(model, log_density, sums, tables)

    # 3 those around its moments
    def respond(regression: CellRegression, responses: Round) -> Round:
        if responses.number > 0:
            rows.store.remove(f"cell-{responses.number - 1}")
        state = list(zip(responses.values, responses.moments, strict=True))
        return rows.respond(
            responses.number + 1,
            next_responses,
            state,
            (regression.model, likelihood),
        )

    regression, following, converged = fixed_point(first, regress, respond)
    rows.store.remove(f"cell-{following.number}")
    rows.store.remove("rows")
    evidence = regression.log_density + following.bound
    if depends_on_contrasts(sample, likelihood):
        _, density_of_zeros = prior.given_sums(regression.sums.of_zeros)
        evidence -= density_of_zeros / likelihood.n_outputs_
    completed = rows.completed(regression.model, regression.tables)
    return completed, evidence, converged


class CellRegression(NamedTuple):
    """Functions given normal values at the rows of all cells.

    Attributes
    ----------
    model : CellModel
    log_density : float
        Of the values, in nats.
    sums : CellSums
    tables : list
        Of :class:`~skgpx._cells._cells.NormalRows`, one for each cell.
    """

    model: CellModel
    log_density: float
    sums: CellSums
    tables: list[Any]


# ---- Rows in cells, and what workers do with them ------------------------------------


class Round(NamedTuple):
    """Working responses of all cells.

    Attributes
    ----------
    number : int
        Of the round, for names of files.
    values : list
        Of :class:`~skgpx._cells._cells.NormalRows`, one for each cell.
    moments : list
        Latent moments of the rows of each cell around which the responses are.
    bound : float
        Of the evidence, less the log density of the responses, in nats.
    change : float
        Mean change of these moments.
    """

    number: int
    values: list[Any]
    moments: list[Any]
    bound: float
    change: float


class CellRows(NamedTuple):
    """Rows in cells, and what is done with them.

    Attributes
    ----------
    tables : list
        Of :meth:`~skgpx._cells._cells.Division.join`, one for each cell.
    division : Division
    store : Store
    """

    tables: list[Any]
    division: Division
    store: Store

    def kept(self) -> CellRows:
        """Read the rows, once."""
        path = self.store.path
        tables = [
            delayed_call(_stored, table, path, f"rows-{k}")
            for k, table in enumerate(self.tables)
        ]
        results = self.store.keep(*tables)
        self.store.remove("part")
        return self._replace(tables=list(results))

    def completed(self, model: CellModel, tables: list[Any]) -> CellModel:
        """A model with its rows."""
        return replace(model, cells=self.store.cells(tables))

    def sums(self, model: CellModel, tables: list[Any]) -> CellSums:
        """Sums over whitened rows, of tables of normal values."""
        shared = delayed_value(model)
        parts = [
            delayed_call(on_table, whitened_sums, table, shared) for table in tables
        ]
        (total,) = compute(sum_of(add_up, parts))
        return total

    def under_noise(self, noises: Array, versions: Index) -> tuple[list[Any], float]:
        """Tables of targets with Gaussian noise, and their constant."""
        division = delayed_value(self.division)
        pairs = [
            delayed_call(
                _normal,
                table,
                self.store.path,
                f"cell-{k}",
                division,
                noises,
                versions,
                nout=2,
            )
            for k, table in enumerate(self.tables)
        ]
        tables, constants = zip(*pairs, strict=True)
        results = self.store.keep(*tables, *constants)
        self.store.remove("part")
        n_cells = len(tables)
        return list(results[:n_cells]), sum(compute(*results[n_cells:]))

    def respond(
        self,
        number: int,
        function: Callable[..., CellResponses],
        arguments: list[tuple[Any, ...]],
        shared: tuple[Any, ...],
    ) -> Round:
        """Working responses of the rows of each cell, which those around it get, too.

        Parameters
        ----------
        number : int
            Of the round, for names of files.
        function : callable
            ``function(table, *arguments[k], *shared)`` of cell k.
        arguments : list of tuple
            Further tables of each cell.
        shared : tuple
            Arguments for all cells.
        """
        n_cells = len(self.tables)
        path = self.store.path
        division = delayed_value(self.division)
        values = [delayed_value(value) for value in shared]
        responses = []
        for k, table in enumerate(self.tables):
            response = delayed_call(
                _respond,
                function,
                division,
                path,
                f"piece-{k}",
                [table, *arguments[k]],
                values,
                nout=n_cells + 2,
            )
            responses.append(response)
        tables = [
            delayed_call(
                _exchange,
                division,
                path,
                f"cell-{number}-{k}",
                table,
                [response[k] for response in responses],
            )
            for k, table in enumerate(self.tables)
        ]
        moments = [response[n_cells] for response in responses]
        figures = [response[n_cells + 1] for response in responses]
        results = self.store.keep(*tables, *moments, *figures)
        self.store.remove("piece")
        bound, change, n_rows = sum(compute(*results[2 * n_cells :]))
        return Round(
            number=number,
            values=list(results[:n_cells]),
            moments=list(results[n_cells : 2 * n_cells]),
            bound=float(bound),
            change=float(change / n_rows),
        )


def _stored(table: Array, path: str | None, name: str) -> Any:
    return save([table], path, name)[0]


def _normal(
    table: Array,
    path: str | None,
    name: str,
    division: Division,
    noises: Array,
    versions: Index,
) -> list[Any]:
    """Normal values of the rows of a cell, and their constant."""
    normal, constant = normal_table(table, division, noises, versions)
    return [save([normal], path, name)[0], constant]


def _respond(
    function: Callable[..., CellResponses],
    division: Division,
    path: str | None,
    name: str,
    tables: list[Any],
    shared: list[Any],
) -> list[Any]:
    """Responses of a cell: for each cell what it needs, then moments and figures."""
    loaded = [load(table) for table in tables]
    responses = function(*loaded, *shared)
    pieces = columns_for_cells(loaded[0], division, responses.columns)
    figures = np.array([responses.bound, responses.change, len(responses.moments)])
    return [*save(pieces, path, name), responses.moments, figures]


def _exchange(
    division: Division,
    path: str | None,
    name: str,
    table: Any,
    pieces: list[Any],
) -> Any:
    columns = [load(piece) for piece in pieces]
    return save([with_responses(load(table), division, columns)], path, name)[0]
