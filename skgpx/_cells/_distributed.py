"""Rows of dask arrays and data frames: where they are, and what is done there."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from skgpx._cells._cells import (
    Division,
    RowUnits,
    in_random_order,
    shares_before,
)
from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.rows import row_slices
from skgpx._numerics.warping import Warp
from skgpx._posterior._sampler import form_constant
from skgpx._row_budgets import SAMPLED_ROWS
from skgpx._shell.parallel import check_workers
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import (
    Door,
    Rows,
    check_block,
    check_labels,
    working_floats,
)
from skgpx._types import AnyArray, Array
from skgpx.bases import Nystroem
from skgpx.likelihoods import Likelihood

# Bytes of rows that lazy predictions are sent with, at most: dask warns of more.
_SENT_BYTES = 10**7
# States of results that a cluster has, or computes again.
_PRESENT = ("finished", "pending")
# Of headers of files: Python 3.11 counts the depth of syntax trees of all threads
# together, and may refuse to parse one (cpython issue 106905).
_HEADERS = threading.Lock()


def is_lazy(X: object) -> bool:
    """Whether this is a dask array or data frame."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


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
        with _HEADERS:
            mapped: Array = np.load(table.path, mmap_mode="r")
        return mapped[table.first : table.last]
    return table


def temporary_folder() -> str | None:
    """Folder that dask is told to use for temporary files; None: the system's."""
    config = importlib.import_module("dask").config
    return config.get("temporary-directory", None)


class Store:
    """Where results of a fit stay: in the memory of a cluster, or in files.

    Attributes
    ----------
    path : str or None
        Folder of the files, in the temporary folder; None on a cluster.
    """

    def __init__(self) -> None:
        self.path: str | None = None
        if current_client() is None:
            self.path = tempfile.mkdtemp(prefix="skgpx-", dir=temporary_folder())
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep(self, *promises: Any) -> tuple[Any, ...]:
        """Results of promises, or on a cluster promises that have been kept."""
        if self.path is None:
            return tuple(importlib.import_module("dask").persist(*promises))
        return compute(*promises)

    def remove(self, name: str) -> None:
        """Remove the files whose names begin so."""
        if self.path is not None:
            for file in Path(self.path).glob(f"{name}-*"):
                file.unlink()

    def cells(self, tables: list[Any]) -> Cells:
        """Tables of a fitted model, which need neither this store nor its cluster.

        A cluster has larger ones too, and those alone that fit neither into
        scikit-learn's ``working_memory`` nor have a temporary folder that dask was told
        to use.
        """
        if self.path is not None:
            return Cells(in_one_file(map(load, tables)))
        sizes = compute(*[delayed_call(_n_bytes, table) for table in tables])
        n_bytes = sum(sizes)
        copies = None
        if n_bytes <= 8 * working_floats() or temporary_folder() is not None:
            # a full disk costs the copy, and not the fit
            with suppress(OSError):
                copies = in_one_file(compute(table)[0] for table in tables)
        if copies is not None and n_bytes <= _SENT_BYTES:
            tables = []
        return Cells(copies, tables, n_bytes)


def save(tables: Sequence[Array], folder: str | None, name: str) -> list[Any]:
    """Write tables to one file; without a folder return them."""
    if folder is None:
        return list(tables)
    path = str(Path(folder) / f"{name}.npy")
    np.save(path, np.concatenate(tables))
    bounds = np.cumsum([0] + [len(table) for table in tables]).tolist()
    return [FileRows(path, first, last) for first, last in pairwise(bounds)]


def in_one_file(tables: Iterable[Array]) -> list[Array]:
    """Copies of tables, mapped from a file without a name.

    The system removes it with the last of them, and however the process ends.
    """
    lengths = []
    with tempfile.TemporaryFile(dir=temporary_folder()) as file:
        for table in tables:
            file.write(np.ascontiguousarray(table).data)
            lengths.append(len(table))
            width = table.shape[1]
        mapped = np.memmap(file, np.float64, "r", shape=(sum(lengths), width))
    return np.split(np.asarray(mapped), np.cumsum(lengths)[:-1])


class Cells:
    """Tables of all cells: in this process, in the memory of a cluster, or in both.

    A pickle, or a copy, has them in memory.

    Parameters
    ----------
    copies : list of ndarray or None
        Of this process.
    promises : list of Delayed
        Which a cluster has kept.
    n_bytes : int
        Size of all tables.
    """

    def __init__(
        self,
        copies: list[Array] | None,
        promises: Sequence[Any] = (),
        n_bytes: int = 0,
    ):
        self.copies = copies
        self.promises = list(promises)
        self.n_bytes = n_bytes

    @property
    def are_remote(self) -> bool:
        """Whether the cluster of the current client has them."""
        client = current_client()
        if client is None or not self.promises:
            return False
        states = [client.futures.get(promise.key) for promise in self.promises]
        return all(state and state.status in _PRESENT for state in states)

    @property
    def tables(self) -> list[Any]:
        """Promises while the cluster has them, otherwise the copies."""
        return self.promises if self.are_remote else self.kept_copies()

    def kept_copies(self) -> list[Array]:
        """Tables of this process.

        Raises
        ------
        RuntimeError
            If only the cluster had them.
        """
        if self.copies is None:
            n_mib = self.n_bytes / 2**20
            raise RuntimeError(
                f"The rows of this model, {n_mib:.1f} MiB, were on a dask cluster that "
                "does not have them any more: its client was closed or restarted or is "
                "not the current one, or they were cancelled. Fit again, and pickle "
                "the model before; or have `fit` keep a copy in this process, by "
                f"sklearn.set_config(working_memory={np.ceil(n_mib):.0f}), or in files "
                'of dask.config.set({"temporary-directory": folder}).'
            )
        return self.copies

    def map(
        self,
        function: Callable[..., Any],
        arguments: dict[int, tuple[Any, ...]],
    ) -> dict[int, Any]:
        """``function(table, *arguments[k])`` of each cell k that has arguments."""
        if self.are_remote:
            tasks = [
                delayed_call(function, self.promises[k], *values)
                for k, values in arguments.items()
            ]
            # cancelled: they are lost, of which the client had not heard
            with suppress(CancelledError):
                return dict(zip(arguments, compute(*tasks), strict=True))
        tables = self.kept_copies()
        return {k: function(tables[k], *values) for k, values in arguments.items()}

    def __getstate__(self) -> dict[str, Any]:
        tables: Iterable[Any] | None = self.copies
        if tables is None and self.are_remote:
            with suppress(CancelledError):
                tables = compute(*self.promises)
        if tables is None:
            tables = self.kept_copies()
        return {
            "copies": [np.array(table) for table in tables],
            "promises": [],
            "n_bytes": self.n_bytes,
        }


def _n_bytes(table: Array) -> int:
    return table.nbytes


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
    return importlib.import_module("dask").compute(*promises)


def on_table(function: Callable[..., Any], table: Any, *arguments: Any) -> Any:
    return function(load(table), *arguments)


def _task(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker does: the same bits for every number of workers."""
    with one_blas_thread(divided=True):
        return function(*arguments)


def current_client() -> Any:
    """Client of the cluster that will run the tasks; None for this machine."""
    base = importlib.import_module("dask.base")
    client = getattr(base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def check_cluster() -> None:
    """Refuse workers of a cluster that have another version of the library."""
    client = current_client()
    if client is not None:
        check_workers(client)


def sum_of(add: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Sum of promised results, a few at a time, in their order."""
    results_of_task = 8
    while len(parts) > 1:
        blocks = row_slices(len(parts), results_of_task)
        groups = [parts[block] for block in blocks]
        parts = [delayed_call(add, group) for group in groups]
    return parts[0]


# ---- The door ------------------------------------------------------------------------


class Summary(NamedTuple):
    """What one pass over some rows tells.

    Attributes
    ----------
    n_rows : int
    weight : float
        Sum of the weights.
    sample : Rows
        The rows before `limit` in the random order, or the first of them.
    limit : float
        Share of the order in which no row is left out.
    """

    n_rows: int
    weight: float
    sample: Rows
    limit: float


def summarise(rows: Rows, salt: int, size: int) -> Summary:
    """Summary of a partition, with at most `size` rows of the sample."""
    weight = float(rows.weights.sum())
    return add_summaries([Summary(len(rows.y), weight, rows, 1.0)], salt, size)


def add_summaries(parts: list[Summary], salt: int, size: int) -> Summary:
    """Summary of the rows of all parts, with at most `size` rows of the sample."""
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
        weight=sum(part.weight for part in parts),
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
        door: Door,
        salt: int,
        columns: dict[str, Any],
    ) -> Partitions:
        """Check what is known of dask arrays and data frames without reading them.

        Parameters
        ----------
        estimator : BaseEstimator
        door : Door
            What each part is checked for.
        salt : int
        columns : dict
            X, y and quantities of rows, by name.

        Raises
        ------
        ValueError
            If they are not cut into the same parts, or have columns of text or dates,
            or categories that are not known.
        """
        checked = delayed_value(door)
        parts = [
            delayed_call(check_block, checked, number, part)
            for number, part in enumerate(parts_of(columns))
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
        total = sum_of(add, parts)
        (summary,) = compute(total)
        if not summary.weight > 0.0:
            raise ValueError(
                "The rows of all parts must have a positive weight; got none that has."
            )
        return summary._replace(sample=in_random_order(summary.sample, self.salt))

    def statistics(self, basis: Nystroem, units: RowUnits) -> WeightStatistics:
        """Sums over all rows in a basis."""
        shared = delayed_value(basis)
        parts = [
            delayed_call(_part_statistics, part, shared, units) for part in self.parts
        ]
        (total,) = compute(sum_of(add_up, parts))
        return total

    def total(self, function: Callable[..., float], *arguments: Any) -> float:
        """``function(rows, *arguments)`` of each part, the sum over all."""
        parts = [delayed_call(function, part, *arguments) for part in self.parts]
        return float(sum(compute(*parts)))

    def in_cells(self, division: Division, path: str | None) -> list[Any]:
        """Promises of the tables of all cells, sent by files in a folder if any."""
        n_cells = division.tree.n_cells
        shared = delayed_value(division)
        pieces = [
            delayed_call(_split, shared, part, path, number, nout=n_cells)
            for number, part in enumerate(self.parts)
        ]
        return [
            delayed_call(_join, shared, [part[k] for part in pieces], k)
            for k in range(n_cells)
        ]


def check_is_lazy(name: str, array: Any) -> None:
    if not is_lazy(array):
        raise ValueError(
            f"{name} must be a dask array or data frame, as X is; got "
            f"{type(array).__name__}. Use dask.array.from_array(values, "
            "chunks=X.chunks[0])."
        )


def lazy_classes(y: Any, sample_weight: Any) -> AnyArray:
    """Labels of all parts of dask rows of positive weight, sorted.

    Raises
    ------
    ValueError
        For labels that are missing, or of other types than those of classes, and
        without rows of positive weight.
    """
    check_cluster()
    columns = {"y": y}
    if sample_weight is not None:
        columns["sample_weight"] = sample_weight
    parts = [delayed_call(_labels, part) for part in parts_of(columns)]
    labels = [part for part in compute(*parts) if len(part)]
    if not labels:
        raise ValueError(
            "The rows of all parts must have a positive weight; got none that has."
        )
    return np.unique(np.concatenate(labels))


def _labels(columns: dict[str, Any]) -> AnyArray:
    y = columns["y"]
    if not len(y):
        return np.empty(0)
    check_labels(y)
    check_classification_targets(y)
    labels = np.asarray(y)
    if "sample_weight" in columns:
        labels = labels[np.asarray(columns["sample_weight"]) > 0.0]
    return np.unique(labels)


def parts_of(given: dict[str, Any]) -> list[Any]:
    """Promises of the parts of dask arrays and data frames, dictionaries by name.

    Raises
    ------
    ValueError
        If they are not cut alike, and cannot be.
    """
    for name, array in given.items():
        check_is_lazy(name, array)
    try:
        if len(given) > 1 and all(
            hasattr(array, "divisions") for array in given.values()
        ):
            return _parts_of_frames(given)
        blocks = {name: _blocks_of(array) for name, array in given.items()}
        # refuse arrays of other numbers of parts, or rows in a part, if it is known
        n_parts = {name: len(promises) for name, promises in blocks.items()}
        lengths = {
            array.chunks[0]
            for array in given.values()
            if hasattr(array, "chunks") and not np.isnan(sum(array.chunks[0]))
        }
        if len(set(n_parts.values())) > 1 or len(lengths) > 1:
            raise ValueError(f"got {n_parts} parts, with other numbers of rows.")
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
    columns = {}
    names: dict[str, Any] = {}
    for name, values in given.items():
        if name == "X":
            names[name] = list(values.columns)
        elif values.ndim > 1:
            names[name] = [f"__{name}_{column}__" for column in values.columns]
            for column, label in zip(values.columns, names[name], strict=True):
                columns[label] = values[column]
        else:
            names[name] = f"__{name}__"
            columns[names[name]] = values
    if "X" in given:
        table = given["X"].assign(**columns)
    else:
        first = next(iter(columns))
        table = columns[first].to_frame(first).assign(**columns)
    # dask would look for promises in a dictionary
    read = partial(_columns_by_name, names=names, columns=list(columns))
    return [
        delayed_call(read, number, block)
        for number, block in enumerate(np.ravel(table.to_delayed()))
    ]


def _columns_by_name(
    number: int,
    table: Any,
    names: dict[str, Any],
    columns: list[str],
) -> dict[str, Any]:
    """X and its quantities of one part."""
    n_missing = int(table[columns].isna().to_numpy().any(axis=1).sum())
    if n_missing:
        raise ValueError(
            f"In part {number} of the rows: y, or a quantity of rows, is missing in "
            f"{n_missing} of {len(table)} rows. It is NaN there, or its data frame has "
            "another index than X: take both from one frame, as in frame[columns] and "
            "frame['y']."
        )
    return {name: table[label] for name, label in names.items()}


def frame_of(array: Any) -> Any:
    """An empty array or data frame of the same columns and types."""
    if hasattr(array, "columns") or not hasattr(array, "chunks"):
        return array._meta
    return np.empty((0, *array.shape[1:]), array.dtype)


def _blocks_of(array: Any) -> list[Any]:
    """Promises of the parts of a dask array or data frame."""
    if hasattr(array, "numblocks") and array.ndim > 1 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    return list(np.ravel(array.to_delayed()))


def part_constant(rows: Rows, likelihood: Likelihood, units: RowUnits) -> float:
    """:func:`form_constant` of a part."""
    if not len(rows.y):
        return 0.0
    return form_constant(units.standardised(rows), likelihood)


def part_log_volume(rows: Rows, warp: Warp) -> float:
    """Log slopes of a function of y, the sum over a part."""
    return float(np.sum(rows.weights @ warp.log_slope(rows.y)))


def _part_statistics(rows: Rows, basis: Nystroem, units: RowUnits) -> WeightStatistics:
    if len(rows.y):
        return row_statistics(basis, units.standardised(rows), 1)
    m = basis.n_basis
    return WeightStatistics(
        gram=np.zeros((m, m)),
        moment=np.zeros((m, *units.targets)),
        square=np.zeros(units.targets),
        residual=0.0,
        weight=0.0,
    )


def add_up(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total.add(part)
    return total


def _split(division: Division, rows: Rows, folder: str | None, number: int) -> list:
    return save(division.split(rows), folder, f"part-{number}")


def _join(division: Division, pieces: list[Any], k: int) -> Array:
    return division.join([load(piece) for piece in pieces], k)
