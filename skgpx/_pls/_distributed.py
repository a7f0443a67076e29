"""Rows of dask arrays and data frames: where they are, and what is done there."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    posterior,
    precision_root,
)
from skgpx._pls._cells import (
    CellModel,
    Division,
    in_random_order,
    shares_before,
    whitened_sums,
)
from skgpx._pls._chains import independent_draws
from skgpx._pls._closed_form import from_statistics
from skgpx._pls._sampler import Inference, Sampler, prior_mean
from skgpx._row_budgets import CELL_ROWS, FIRST_ROWS, SAMPLED_ROWS
from skgpx._row_statistics import row_statistics
from skgpx._validation import (
    Rows,
    Units,
    check_block,
    check_frame,
    generator,
)
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Results that one task adds.
_ARITY = 8


def is_lazy(X: object) -> bool:
    """Whether this is a dask array or data frame."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def check_lazy_fit(
    parameter: object,
    likelihood: Likelihood,
    row_quantities: dict[str, Any],
) -> None:
    """Refuse at once what only arrays in memory can be fitted with.

    Raises
    ------
    ValueError
        With the remedy.
    """
    quantities = [name for name, values in row_quantities.items() if values is not None]
    if isinstance(parameter, str) or type(likelihood) is not Gaussian or quantities:
        raise ValueError(
            "Dask arrays and data frames are fitted with likelihood=Gaussian() and "
            f"sample_weight; got likelihood={parameter!r} and {quantities}. For others "
            "fit arrays in memory: X.compute(), or a sample of the rows."
        )


# ---- Where tables are ----------------------------------------------------------------


class FileRows(NamedTuple):
    """Rows of a table in a file.

    Attributes
    ----------
    path : str
    first, last : int
    """

    path: str
    first: int
    last: int


def load(table: Any) -> Array:
    """A table, memory-mapped if it is in a file."""
    if isinstance(table, FileRows):
        mapped: Array = np.load(table.path, mmap_mode="r")
        return mapped[table.first : table.last]
    array: Array = table
    return array


class Folder:
    """A folder for tables, removed with the last object that has it.

    Parameters
    ----------
    parent : str or None
        None is the folder of the system for temporary files.
    """

    def __init__(self, parent: str | None):
        self.path = tempfile.mkdtemp(prefix="skgpx-", dir=parent)
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _save(tables: Sequence[Array], folder: str | None, name: str) -> list[Any]:
    """Write tables to one file; without a folder return them."""
    if folder is None:
        return list(tables)
    path = str(Path(folder) / f"{name}.npy")
    np.save(path, np.concatenate(tables))
    bounds = np.cumsum([0] + [len(table) for table in tables]).tolist()
    return [FileRows(path, first, last) for first, last in pairwise(bounds)]


class Cells:
    """Tables of all cells: in files of this machine, or in the memory of a cluster.

    A pickle, or a copy, has them in memory.

    Parameters
    ----------
    tables : sequence of ndarray, FileRows or Delayed
    folder : Folder, optional
        That of the files.
    """

    def __init__(self, tables: Sequence[Any], folder: Folder | None = None):
        self.tables = list(tables)
        self.folder = folder

    @property
    def are_remote(self) -> bool:
        """Whether a cluster has them."""
        return any(is_delayed(table) for table in self.tables)

    def map(
        self,
        function: Callable[..., Any],
        arguments: dict[int, tuple[Any, ...]],
    ) -> dict[int, Any]:
        """``function(table, *arguments[k])`` of each cell k that has arguments."""
        if not self.are_remote:
            return {
                k: function(load(self.tables[k]), *values)
                for k, values in arguments.items()
            }
        tasks = [
            delayed_call(_on_table, function, self.tables[k], *values)
            for k, values in arguments.items()
        ]
        return dict(zip(arguments, compute(*tasks), strict=True))

    def __getstate__(self) -> dict[str, Any]:
        tables = self.tables
        if self.are_remote:
            tables = list(compute(*tables))
        return {
            "tables": [np.array(load(table)) for table in tables],
            "folder": None,
        }


def is_delayed(table: object) -> bool:
    """Whether this is the promise of a table."""
    return hasattr(table, "__dask_graph__")


def delayed_value(value: object) -> Any:
    """Data of many tasks, which a cluster is sent once."""
    return importlib.import_module("dask").delayed(value, pure=False)


def delayed_call(
    function: Callable[..., Any],
    *arguments: Any,
    nout: int | None = None,
) -> Any:
    """A task with a name of its own, so that its data are not hashed.

    Parameters
    ----------
    function : callable
        Defined at the top level.
    *arguments : object
        Promises among them are kept first.
    nout : int, optional
        Number of results, to be used one by one.
    """
    dask = importlib.import_module("dask")
    return dask.delayed(_task, pure=False, nout=nout)(function, *arguments)


def compute(*promises: Any) -> tuple[Any, ...]:
    """Keep promises, by threads of this process or by a cluster."""
    results: tuple[Any, ...] = importlib.import_module("dask").compute(*promises)
    return results


def _on_table(function: Callable[..., Any], table: Any, *arguments: Any) -> Any:
    return function(load(table), *arguments)


def _task(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker does: the same bits for every number of workers."""
    with one_blas_thread(divided=True):
        return function(*arguments)


def _cluster() -> bool:
    """Whether a cluster will run the tasks, and not threads of this process."""
    base = importlib.import_module("dask.base")
    scheduler = base.get_scheduler()
    return hasattr(getattr(scheduler, "__self__", None), "scheduler_info")


def _tree(add: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Sum of promised results, a few at a time, in their order."""
    while len(parts) > 1:
        groups = [parts[i : i + _ARITY] for i in range(0, len(parts), _ARITY)]
        parts = [delayed_call(add, group) for group in groups]
    return parts[0]


# ---- The door ------------------------------------------------------------------------


class Summary(NamedTuple):
    """What one pass over some rows tells.

    Attributes
    ----------
    n_rows : int
    weight, mean, square : float
        Sum of the weights; weighted mean of y, and sum of squares around it.
    largest : float
        Largest absolute value of y.
    sample : Rows
        The rows before `limit` in the random order, or the first of them.
    limit : float
        Share of the order in which no row is left out.
    """

    n_rows: int
    weight: float
    mean: float
    square: float
    largest: float
    sample: Rows
    limit: float

    def units(self) -> Units:
        """Mean and standard deviation of y; 1 for a constant y."""
        std = float(np.sqrt(self.square / self.weight))
        if std <= 1e-14 * self.largest:
            std = 1.0
        return Units(self.mean, std)


def summarise(rows: Rows, salt: int, size: int) -> Summary:
    """Summary of a partition, with at most `size` rows of the sample."""
    weight = float(rows.weights.sum())
    mean = 0.0
    square = 0.0
    if weight > 0.0:
        mean = float(rows.weights @ rows.y) / weight
        square = float(rows.weights @ (rows.y - mean) ** 2)
    limit = 1.0
    sample = rows
    if len(rows.y) > size:
        shares = shares_before(rows, salt)
        order = np.argpartition(shares, size)
        limit = float(shares[order[size]])
        sample = rows.take(order[:size])
    return Summary(
        n_rows=len(rows.y),
        weight=weight,
        mean=mean,
        square=square,
        largest=float(np.max(np.abs(rows.y), initial=0.0)),
        sample=sample,
        limit=limit,
    )


def add_summaries(parts: list[Summary], salt: int, size: int) -> Summary:
    """Summary of the rows of all parts."""
    weight = sum(part.weight for part in parts)
    mean = 0.0
    if weight > 0.0:
        mean = sum(part.weight * part.mean for part in parts) / weight
    square = sum(part.square + part.weight * (part.mean - mean) ** 2 for part in parts)
    # what all parts have completely, and of it the first rows
    limit = min(part.limit for part in parts)
    sample = reduce(Rows.followed_by, (part.sample for part in parts))
    shares = shares_before(sample, salt)
    complete = shares < limit
    sample = sample.take(complete)
    shares = shares[complete]
    if len(shares) > size:
        order = np.argpartition(shares, size)
        limit = float(shares[order[size]])
        sample = sample.take(order[:size])
    return Summary(
        n_rows=sum(part.n_rows for part in parts),
        weight=weight,
        mean=mean,
        square=square,
        largest=max(part.largest for part in parts),
        sample=sample,
        limit=limit,
    )


class Partitions(NamedTuple):
    """Rows in parts, each a task that reads and checks them.

    Attributes
    ----------
    parts : list of Delayed
        Of :class:`Rows`.
    n_features : int
    salt : int
        Seed of the order of the rows.
    """

    parts: list[Any]
    n_features: int
    salt: int

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        X: Any,
        y: Any,
        salt: int,
        sample_weight: Any = None,
    ) -> Partitions:
        """Check what is known of dask arrays and data frames without reading them.

        Raises
        ------
        ValueError
            If they are not cut into the same parts, or have columns of text or dates,
            or categories that are not known.
        """
        given = {"X": X, "y": y}
        if sample_weight is not None:
            given["sample_weight"] = sample_weight
        columns = parts_of(given)
        check_frame(estimator, _frame_of(X), _frame_of(y))
        door = delayed_value(_door_of(estimator))
        parts = [
            delayed_call(check_block, door, number, part)
            for number, part in enumerate(columns)
        ]
        return cls(parts, int(estimator.n_features_in_), salt)

    def summary(self) -> Summary:
        """Read all rows once: sums, and the sample.

        Raises
        ------
        ValueError
            For NaN, infinity and the like, with the number of the part.
        """
        # parts of an average size have their share of the sample well within this
        size = max(SAMPLED_ROWS // 8, 8 * SAMPLED_ROWS // len(self.parts))
        size = min(size, SAMPLED_ROWS)
        parts = [delayed_call(summarise, part, self.salt, size) for part in self.parts]

        add = partial(add_summaries, salt=self.salt, size=SAMPLED_ROWS)
        total = _tree(add, parts)
        (summary,) = compute(total)
        if not summary.weight > 0.0:
            raise ValueError(
                "The rows of all parts must have a positive weight; got "
                f"{summary.n_rows} rows with a total of {summary.weight:g}."
            )
        return summary._replace(sample=in_random_order(summary.sample, self.salt)[0])

    def statistics(self, basis: Nystroem, units: Units) -> WeightStatistics:
        """Sums over all rows in a basis."""
        shared = delayed_value(basis)
        parts = [
            delayed_call(_part_statistics, part, shared, units) for part in self.parts
        ]
        (total,) = compute(_tree(_add_up, parts))
        return total

    def in_cells(self, division: Division) -> Cells:
        """Send all rows to their cells; they stay there."""
        n_cells = division.tree.n_cells
        dask = importlib.import_module("dask")
        folder = None
        path = None
        if not _cluster():
            folder = Folder(dask.config.get("temporary-directory", None))
            path = folder.path
        shared = delayed_value(division)
        pieces = [
            delayed_call(_split, shared, part, path, number, nout=n_cells)
            for number, part in enumerate(self.parts)
        ]
        tables = [
            delayed_call(_join, shared, [part[k] for part in pieces], path, k)
            for k in range(n_cells)
        ]
        if folder is None:
            return Cells(dask.persist(*tables))
        cells = Cells(compute(*tables), folder)
        for file in Path(folder.path).glob("part-*"):
            file.unlink()
        return cells


def parts_of(given: dict[str, Any]) -> list[Any]:
    """Promises of the parts of dask arrays and data frames, dictionaries by name.

    Raises
    ------
    ValueError
        If they are not cut alike, and cannot be.
    """
    for name, array in given.items():
        if not is_lazy(array):
            raise ValueError(
                f"{name} must be a dask array or data frame, as X is; got "
                f"{type(array).__name__}. Use dask.array.from_array(values, "
                "chunks=X.chunks[0])."
            )
    try:
        if len(given) > 1 and all(
            hasattr(array, "divisions") for array in given.values()
        ):
            return _parts_of_frames(given)
        blocks = {name: _blocks_of(array) for name, array in given.items()}
        _check_lengths(given, blocks)
    except (ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{', '.join(given)} must be cut into the same parts: {error} Take them "
            "from one data frame, as in frame[columns] and frame['y'], or rechunk y to "
            "X.chunks[0]; of other data frames set an index with known divisions."
        ) from error
    return [
        dict(zip(blocks, values, strict=True))
        for values in zip(*blocks.values(), strict=True)
    ]


def _parts_of_frames(given: dict[str, Any]) -> list[Any]:
    """Parts of one data frame with all columns.

    Each alone might be read in parts of other sizes.
    """
    X = given["X"]
    columns = {f"__{name}__": series for name, series in given.items() if name != "X"}
    table = X.assign(**columns)
    features = list(X.columns)
    return [
        delayed_call(_columns_by_name, number, block, features, list(columns))
        for number, block in enumerate(np.ravel(table.to_delayed()))
    ]


def _columns_by_name(
    number: int,
    table: Any,
    features: list[Any],
    columns: list[str],
) -> dict[str, Any]:
    """X and its quantities of one part."""
    n_missing = int(table[columns].isna().to_numpy().sum())
    if n_missing:
        raise ValueError(
            f"In part {number} of the rows: y, or a quantity of rows, is missing in "
            f"{n_missing} of {len(table)} rows. It is NaN there, or its data frame has "
            "another index than X: take both from one frame, as in frame[columns] and "
            "frame['y']."
        )
    parts = {name.strip("_"): table[name] for name in columns}
    return {"X": table[features], **parts}


def _check_lengths(given: dict[str, Any], blocks: dict[str, list[Any]]) -> None:
    """Refuse arrays of other numbers of parts, or rows in a part, if it is known."""
    n_parts = {name: len(promises) for name, promises in blocks.items()}
    lengths = {
        array.chunks[0]
        for array in given.values()
        if hasattr(array, "chunks") and not np.isnan(sum(array.chunks[0]))
    }
    if len(set(n_parts.values())) > 1 or len(lengths) > 1:
        raise ValueError(f"got {n_parts} parts, with other numbers of rows.")


def _frame_of(array: Any) -> Any:
    """An empty array or data frame of the same columns and types."""
    if hasattr(array, "columns") or not hasattr(array, "chunks"):
        return array._meta
    return np.empty((0, *array.shape[1:]), array.dtype)


def _blocks_of(array: Any) -> list[Any]:
    """Promises of the parts of a dask array or data frame."""
    if hasattr(array, "numblocks") and array.ndim > 1 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    return list(np.ravel(array.to_delayed()))


def _door_of(estimator: BaseEstimator) -> BaseEstimator:
    """What checks rows: the columns of an estimator, and nothing that is fitted."""
    door = clone(estimator)
    names = [
        "n_features_in_",
        "feature_names_in_",
        "categories_",
        "_n_categories",
        "_no_rows",
    ]
    for name in names:
        if name in vars(estimator):
            setattr(door, name, getattr(estimator, name))
    door._targets = ()
    return door


def _part_statistics(rows: Rows, basis: Nystroem, units: Units) -> WeightStatistics:
    m = basis.n_basis
    if not len(rows.y):
        return WeightStatistics(np.zeros((m, m)), np.zeros(m), 0.0, 0.0, 0.0)
    return row_statistics(basis, rows._replace(y=units.standardised(rows.y)), 1)


def _add_up(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total.add(part)
    return total


def _split(division: Division, rows: Rows, folder: str | None, number: int) -> list:
    return _save(division.split(rows), folder, f"part-{number}")


def _join(division: Division, pieces: list[Any], folder: str | None, k: int) -> Any:
    table = division.join([load(piece) for piece in pieces], k)
    return _save([table], folder, f"cell-{k}")[0]


# ---- Inference -----------------------------------------------------------------------


class LazyRows(NamedTuple):
    """All rows of a fit, of which the client has a sample.

    Attributes
    ----------
    partitions : Partitions
    summary : Summary
    units : Units
        Of y.
    """

    partitions: Partitions
    summary: Summary
    units: Units

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sample_weight: Any) -> LazyRows:
        """Check all rows of an estimator's `fit`, and draw the sample."""
        salt = int(generator(estimator.random_state).integers(2**62))
        partitions = Partitions.of(estimator, X, y, salt, sample_weight)
        summary = partitions.summary()
        units = Units()
        if estimator.normalize_y:
            units = summary.units()
        estimator._n_rows = summary.n_rows
        return cls(partitions, summary, units)

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
        return round(len(self.summary.sample.y) / self.summary.limit)

    def evidence_of_y(self, inference: Inference) -> float:
        """Evidence of y from that of ``y / scale``: ``p(y) = p(y / scale) / scale``."""
        log_volume = self.summary.weight * float(np.log(self.units.scale))
        return inference.log_evidence - log_volume

    def infer(
        self,
        basis: Nystroem,
        rows: Rows,
        likelihood: Likelihood,
        sampler: Sampler,
        rng: np.random.Generator,
    ) -> Inference:
        """Posterior given all rows, of which `rows` are the sample.

        Parameters as in :func:`~skgpx._pls._inference.infer`.
        """
        if sampler.n_neighbors > 0:
            return self._nearest_rows(basis, likelihood, sampler, rng)
        statistics = self.partitions.statistics(basis, self.units)
        return from_statistics(statistics, basis, rows, likelihood, sampler, rng)

    def _nearest_rows(
        self,
        basis: Nystroem,
        likelihood: Likelihood,
        sampler: Sampler,
        rng: np.random.Generator,
    ) -> Inference:
        """Each row conditioned on its nearest predecessors, cell by cell."""
        # 1 cells, with as many rows each, and their halos
        n_cells = 1
        while n_cells * CELL_ROWS < self.n_rows:
            n_cells *= 2
        division = Division.of(
            self.summary.sample,
            self.summary.limit,
            basis.kernel,
            sampler.n_neighbors,
            n_cells,
            FIRST_ROWS,
            self.partitions.salt,
            self.units,
        )
        cells = self.partitions.in_cells(division)
        # 2 whitened rows, and sums over them
        shared = [delayed_value(value) for value in (division, basis, likelihood)]
        parts = [
            delayed_call(_on_table, whitened_sums, table, *shared, sampler.n_neighbors)
            for table in cells.tables
        ]
        (sums,) = compute(_tree(_add_up, parts))
        # 3 regression of W y on W Φ
        statistics = sums.statistics
        root = precision_root(statistics.gram, 1.0)
        weights = posterior(statistics, 1.0, root)
        particles, chains = independent_draws(weights, sampler.n_particles, rng)
        return Inference(
            posterior=CellModel(
                basis=basis,
                weights=weights,
                division=division,
                cells=cells,
                likelihood=likelihood,
                neighbors=sampler.n_neighbors,
                n_rows=sums.n_rows,
                mean=prior_mean(likelihood),
            ),
            particles=particles,
            sample=chains,
            likelihood=likelihood,
            log_evidence=log_evidence(statistics, 1.0, root) + sums.constant,
            unexplained=0.0,
        )
