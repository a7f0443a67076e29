"""The only joblib of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from skgpx._numerics.blas_threads import current_blas_threads, one_blas_thread

# Most jobs by default: each holds a block of rows in memory.
_MOST = 8

# ``run(function, items)`` is the list of ``function(*constants, *item)``.
Workers = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], list[Any]]


def blas_jobs(n_jobs: int | None, most: int = _MOST) -> int | None:
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
    chosen = n_jobs is not None or configured is not None or backend.nesting_level
    if chosen or on_cluster(backend):
        return n_jobs
    return min(current_blas_threads(), _MOST, max(1, most))


def on_cluster(backend: Any = None) -> bool:
    """Whether a backend (None: the active one) has workers of its own."""
    return bool((backend or get_active_backend()[0]).default_n_jobs != 1)


def n_workers(n_jobs: int | None) -> int:
    """Number of workers that `n_jobs` stands for, threads unless others are named."""
    backend, configured = get_active_backend(prefer="threads")
    jobs = configured if n_jobs is None else n_jobs
    return 1 if jobs is None else int(backend.effective_n_jobs(jobs))


class Kept:
    """First arguments of tasks, which a cluster is sent once, while this lives."""

    def __init__(self, *values: Any):
        self.values = values
        self._sent: dict[Any, Any] = {}

    def on(self, backend: Any) -> Any:
        """The values, or what stands for them in tasks of a cluster."""
        client = getattr(backend, "client", None)
        if client is None:
            return self.values
        if client not in self._sent:
            how = {"broadcast": True, "hash": False}
            self._sent[client] = client.scatter(self, **how)
        return self._sent[client]

    def forget_sent(self) -> None:
        """Send the values again when they are needed, as workers may have lost them."""
        self._sent.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "_sent": {}}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


def _task(function: Callable[..., Any], n_kept: int, *arguments: Any) -> Any:
    """Call of a worker: another process, or a thread with a number of its own."""
    kept, item = arguments[:n_kept], arguments[n_kept:]
    with one_blas_thread(divided=True):
        return function(*chain(*kept), *item)


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
        As in joblib; threads unless ``joblib.parallel_config`` names others. 1 is
        this thread, whatever the backend.
    *constants : object
        First arguments of every call; those of a `Kept`, which come first, may outlive
        this. A `dask.distributed` cluster is sent them once; processes of one machine
        map arrays of more than 1 MB into memory; threads share them.
    in_threads : bool, default=False
        Threads of this process always: tasks change their arguments, or are too short
        to be sent.

    Yields
    ------
    run : callable
        ``run(function, items)`` is the list of ``function(*constants, *item)``.

    Notes
    -----
    BLAS is held to one thread: the parallelism is over the items, and a fixed number
    of threads keeps every sum in the same order.
    """
    how = {"require": "sharedmem"} if in_threads else {"prefer": "threads"}
    backend, configured = get_active_backend(**how)
    jobs = configured if n_jobs is None else n_jobs
    kept = [one for one in constants if isinstance(one, Kept)]
    kept += [Kept(*rest)] if (rest := constants[len(kept) :]) else []
    with one_blas_thread(divided=True):
        if jobs == 1 or (jobs is None and not on_cluster(backend)):
            yield lambda function, items: _here(function, kept, items)
            return
        with Parallel(n_jobs=jobs, **how) as parallel:
            yield lambda function, items: _there(
                parallel,
                backend,
                function,
                kept,
                list(items),
            )


def _here(
    function: Callable[..., Any],
    kept: list[Kept],
    items: Iterable[tuple[Any, ...]],
) -> list[Any]:
    """A round of tasks in this thread."""
    return [function(*chain(*kept), *item) for item in items]


def _there(
    parallel: Parallel,
    backend: Any,
    function: Callable[..., Any],
    kept: list[Kept],
    items: list[tuple[Any, ...]],
) -> list[Any]:
    """A round of tasks by workers, once more where a cluster has lost one of them.

    Tasks are pure functions of what they are sent, so that a repetition has the same
    results.
    """
    try:
        return _sent(parallel, backend, function, kept, items)
    except Exception as error:
        if not _is_loss_of_a_worker(error):
            raise
    for values in kept:
        values.forget_sent()
    try:
        return _sent(parallel, backend, function, kept, items)
    except Exception as error:
        if _is_loss_of_a_worker(error):
            error.add_note(
                "The cluster has lost workers twice in one round of tasks. Those that "
                "run out of memory are killed: start fewer on each machine, or give "
                "them more, and fit again."
            )
        raise


def _sent(
    parallel: Parallel,
    backend: Any,
    function: Callable[..., Any],
    kept: list[Kept],
    items: list[tuple[Any, ...]],
) -> list[Any]:
    """A round of tasks by workers."""
    # with a single one joblib runs tasks in this process, which cannot read what was
    # sent to that worker
    if on_cluster(backend) and backend.effective_n_jobs(parallel.n_jobs) == 1:
        return _here(function, kept, items)
    there = [values.on(backend) for values in kept]
    tasks = [delayed(_task)(function, len(there), *there, *item) for item in items]
    return list(parallel(tasks))


def _is_loss_of_a_worker(error: Exception) -> bool:
    """Whether a cluster has lost tasks or data, and no task has failed by itself."""
    of_dask = type(error).__module__.partition(".")[0] == "distributed"
    return of_dask or isinstance(error, CancelledError)


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
    with workers(n_jobs, *constants, in_threads=in_threads) as run:
        return run(function, items)


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
    with workers(n_jobs, *constants, in_threads=in_threads) as run:
        jobs = n_workers(n_jobs)
        while window := list(islice(left, 1 if jobs == 1 else 2 * jobs)):
            yield from run(function, window)
