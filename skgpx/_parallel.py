"""The only joblib of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from skgpx._numerics.blas_threads import current_blas_threads, one_blas_thread

# Most jobs by default: each holds a block of rows in memory.
_UNASKED = 8
# Items for each worker that are dealt out at a time where results are added up.
_WINDOW = 2


def blas_jobs(n_jobs: int | None, most: int = _UNASKED) -> int | None:
    """Number of jobs for work that BLAS would otherwise share out among its threads.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib. None, where ``joblib.parallel_config`` names no number either and
        no other parallel loop is around, stands for as many threads as BLAS uses, at
        most 8: ``OMP_NUM_THREADS=1`` and ``threadpool_limits(1)`` mean one.
    most : int, default=8
        Default jobs that memory has room for; at least one.
    """
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None or backend.nesting_level:
        return n_jobs
    if _is_cluster(backend):
        return n_jobs
    return min(current_blas_threads(), _UNASKED, max(1, most))


# ---- Workers -------------------------------------------------------------------------


class _Constants:
    """Arguments that all tasks share, as one object: a cluster is sent it once."""

    def __init__(self, values: tuple[Any, ...]):
        self.values = values


class Workers(NamedTuple):
    """Threads, processes or a cluster, while a context of :func:`workers` lasts.

    Attributes
    ----------
    parallel : Parallel or None
        None is a loop in this thread.
    constants : _Constants
        First arguments of every call.
    """

    parallel: Any
    constants: _Constants

    def stream(
        self, function: Callable[..., Any], items: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """Give ``function(*constants, *item)`` in the order of the items."""
        if self.parallel is None:
            return (function(*self.constants.values, *item) for item in items)
        calls = (delayed(_task)(function, self.constants, *item) for item in items)
        results: Iterator[Any] = self.parallel(calls)
        return results

    def each(
        self, function: Callable[..., Any], items: Iterable[tuple[Any, ...]]
    ) -> list[Any]:
        """List of what :meth:`stream` gives."""
        return list(self.stream(function, items))


@contextmanager
def workers(
    n_jobs: int | None,
    *constants: Any,
    in_threads: bool = False,
) -> Iterator[Workers]:
    """Workers that stay for many rounds of tasks.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib; threads unless ``joblib.parallel_config`` says otherwise. 1 is
        this thread, whatever the backend.
    *constants : object
        First arguments of every call. Each worker of a `dask.distributed` cluster is
        sent them once; processes of one machine map arrays of more than 1 MB into
        memory; threads share them.
    in_threads : bool, default=False
        Threads of this process always: tasks change their arguments, or are too short
        to be sent.

    Notes
    -----
    BLAS is held to one thread: the parallelism is over the items, and a fixed number
    of threads keeps every sum in the same order.
    """
    held = _Constants(constants)
    with one_blas_thread(divided=True):
        how = {"require": "sharedmem"} if in_threads else {"prefer": "threads"}
        backend, configured = get_active_backend(**how)
        # joblib before 1.4 forgets the number of parallel_config
        jobs = configured if n_jobs is None else n_jobs
        if _is_this_thread(backend, jobs):
            yield Workers(None, held)
            return
        # joblib before 1.4 has no generators of dask
        streams = getattr(backend, "supports_return_generator", False)
        order = "generator" if streams else "list"
        with (
            _sent_once(backend, held),
            Parallel(n_jobs=jobs, return_as=order, **how) as parallel,
        ):
            yield Workers(parallel, held)


def _shares_memory(backend: Any) -> bool:
    return bool(getattr(backend, "supports_sharedmem", False))


def _is_cluster(backend: Any) -> bool:
    """Whether a backend of joblib has a number of workers of its own."""
    return bool(backend.default_n_jobs != 1)


def on_cluster() -> bool:
    """Whether ``joblib.parallel_config`` names a cluster, to which tasks are sent."""
    return _is_cluster(get_active_backend()[0])


def _is_this_thread(backend: Any, n_jobs: int | None) -> bool:
    """Whether there is but one worker: no joblib is needed for that."""
    if n_jobs is None:
        return not _is_cluster(backend)
    if n_jobs == 1:
        return True
    return _shares_memory(backend) and backend.effective_n_jobs(n_jobs) == 1


@contextmanager
def _sent_once(backend: Any, constants: _Constants) -> Iterator[None]:
    """Constants on every worker of a dask cluster, by the key under which joblib looks.

    That is what ``parallel_config(backend="dask", scatter=[...])`` does with objects
    that a user has. `hash` would fail within a task of the cluster.
    """
    futures = getattr(backend, "data_futures", None)
    if futures is None or not constants.values:
        yield
        return
    sent = backend.client.scatter([constants], broadcast=True, hash=False)
    futures[id(constants)] = sent[0]
    try:
        yield
    finally:
        del futures[id(constants)]


def _task(function: Callable[..., Any], constants: _Constants, *item: Any) -> Any:
    """Call of a worker: another process, or a thread with a number of its own."""
    with one_blas_thread(divided=True):
        return function(*constants.values, *item)


# ---- Maps and sums -------------------------------------------------------------------


def parallel_map(
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    *constants: Any,
    in_threads: bool = False,
) -> list[Any]:
    """``[function(*constants, *item) for item in items]``, possibly in parallel.

    Parameters
    ----------
    function : callable
        Top-level and pure, so that any joblib backend can run it.
    items : iterable of tuples
        Arguments of each call. Their number and content do not depend on `n_jobs`,
        so neither do the results.
    n_jobs, *constants, in_threads
        As of :func:`workers`.
    """
    with workers(n_jobs, *constants, in_threads=in_threads) as some:
        return some.each(function, items)


def side_by_side(
    function: Callable[..., Any],
    items: list[tuple[Any, ...]],
    n_jobs: int | None,
    *constants: Any,
) -> list[Any]:
    """:func:`parallel_map` of a few long tasks, in :func:`blas_jobs` threads.

    A single task leaves large matrices to all threads of BLAS.
    """
    if len(items) == 1:
        return [function(*constants, *items[0])]
    return parallel_map(function, items, blas_jobs(n_jobs), *constants)


def parallel_stream(
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    *constants: Any,
    in_threads: bool = False,
) -> Iterator[Any]:
    """:func:`parallel_map`, one result after the other, in the order of the items.

    Notes
    -----
    `items` may be a generator, which is read when its items are needed. A window of
    two items for each worker is dealt out when the last is done; otherwise workers
    would run ahead of the one who reads, without a limit. Results in memory are one, or
    those of a window.
    """
    left = iter(items)
    with workers(n_jobs, *constants, in_threads=in_threads) as some:
        size = 1 if some.parallel is None else _WINDOW * effective_n_jobs(n_jobs)
        while window := list(islice(left, size)):
            yield from some.stream(function, window)


def parallel_sum(
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    add: Callable[[Any, Any], Any],
    n_jobs: int | None,
    *constants: Any,
) -> Any:
    """Sum of ``function(*constants, *item)`` over at least one item.

    Parameters
    ----------
    function, items, n_jobs, *constants
        As of :func:`parallel_stream`.
    add : callable
        ``add(total, part)``, in the order of the items: the same bits for every
        `n_jobs`.
    """
    return reduce(add, parallel_stream(function, items, n_jobs, *constants))
