"""Tasks in parallel; no other module uses joblib."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any
from weakref import WeakSet

from joblib import Parallel, delayed
from joblib.parallel import ParallelBackendBase, get_active_backend

from skgpx._numerics.blas_threads import current_blas_threads, one_blas_thread
from skgpx._version import __version__

# Largest number of jobs by default: each holds a block of rows in memory.
_MAX_JOBS = 8

# ``run(function, items)`` is the list of ``function(*constants, *item)``.
Workers = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], list[Any]]

# Clients of clusters whose workers have this version.
_CHECKED: WeakSet[Any] = WeakSet()


def blas_jobs(n_jobs: int | None, max_jobs: int = _MAX_JOBS) -> int | None:
    """Number of jobs for work that BLAS would otherwise divide among its threads.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib. None, where ``joblib.parallel_config`` names no number either and
        no parallel loop encloses this one, stands for as many threads as BLAS uses, at
        most 8: ``OMP_NUM_THREADS=1`` and ``threadpool_limits(1)`` mean one.
    max_jobs : int, default=8
        Number of default jobs that fit into memory; at least one.
    """
    backend, configured = get_active_backend()
    chosen = n_jobs is not None or configured is not None or backend.nesting_level
    if chosen or on_cluster(backend):
        return n_jobs
    return min(current_blas_threads(), _MAX_JOBS, max(1, max_jobs))


def on_cluster(backend: ParallelBackendBase | None = None) -> bool:
    """Whether a backend (None: the active one) has workers of its own."""
    if backend is None:
        backend, _ = get_active_backend()
    return bool(backend.default_n_jobs != 1)


def n_workers(n_jobs: int | None) -> int:
    """Number of workers that `n_jobs` stands for, threads unless configured."""
    backend, configured = get_active_backend(prefer="threads")
    if n_jobs is None:
        n_jobs = configured
    if n_jobs is None:
        return 1
    return int(backend.effective_n_jobs(n_jobs))


def check_workers(client: Any) -> None:
    """Ask the workers of a `dask.distributed` cluster once for their version.

    A worker that cannot read a task dies, and the client would wait for another one.

    Raises
    ------
    RuntimeError
        With the workers that have another version, or none.
    """
    if client in _CHECKED:
        return
    versions = client.run(pkgutil.resolve_name, "skgpx.__version__", on_error="return")
    wrong = {
        worker: version
        for worker, version in versions.items()
        if version != __version__
    }
    if wrong:
        listed = [f"{worker}: {version}" for worker, version in wrong.items()]
        raise RuntimeError(
            f"The workers of the cluster must have skgpx {__version__}, as this "
            f"process has; {len(wrong)} of {len(versions)} do not: "
            f"{'; '.join(listed[:5])}. Install it there, and start them again."
        )
    if versions:
        _CHECKED.add(client)


class WorkerCache:
    """First arguments of tasks.

    A cluster is sent them once in the life of this object.
    """

    def __init__(self, *values: object):
        self.values = values
        # by the client of the cluster
        self.sent: dict[Any, Any] = {}

    def on(self, backend: ParallelBackendBase) -> Any:
        """The values, or a reference to them in the memory of a cluster."""
        client = getattr(backend, "client", None)
        if client is None:
            return self.values
        if client not in self.sent:
            check_workers(client)
            self.sent[client] = client.scatter(self, broadcast=True, hash=False)
        return self.sent[client]

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "sent": {}}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


def _task(function: Callable[..., Any], n_caches: int, *arguments: Any) -> Any:
    """Call of a worker: another process, or a thread with a BLAS number of its own."""
    caches = arguments[:n_caches]
    item = arguments[n_caches:]
    with one_blas_thread(divided=True):
        return function(*chain(*caches), *item)


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
        First arguments of every call. Objects of `WorkerCache` come first; they may
        outlive the workers. A `dask.distributed` cluster is sent the constants once;
        processes of one machine map arrays of more than 1 MB into memory; threads share
        them.
    in_threads : bool, default=False
        Always threads of this process: for tasks that change their arguments, or are
        too short to be sent.

    Yields
    ------
    run : callable
        ``run(function, items)`` is the list of ``function(*constants, *item)``.

    Notes
    -----
    BLAS is held to one thread: the parallelism is over the items, and a fixed number
    of threads keeps every sum in the same order.
    """
    options = {"prefer": "threads"}
    if in_threads:
        options = {"require": "sharedmem"}
    backend, configured = get_active_backend(**options)
    if n_jobs is None:
        n_jobs = configured
    caches = [value for value in constants if isinstance(value, WorkerCache)]
    plain_constants = constants[len(caches) :]
    if plain_constants:
        caches.append(WorkerCache(*plain_constants))
    with one_blas_thread(divided=True):
        if n_jobs == 1 or (n_jobs is None and not on_cluster(backend)):
            yield partial(_run_here, caches)
            return
        with Parallel(n_jobs=n_jobs, **options) as parallel:
            yield partial(_run_on_workers, parallel, backend, caches)


def _run_here(
    caches: list[WorkerCache],
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
) -> list[Any]:
    """Run a round of tasks in this thread."""
    return [function(*chain(*caches), *item) for item in items]


def _run_on_workers(
    parallel: Parallel,
    backend: ParallelBackendBase,
    caches: list[WorkerCache],
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
) -> list[Any]:
    """Run a round of tasks on workers, once more where a cluster has lost a worker.

    Tasks are pure functions of their arguments, so that a repetition has the same
    results.
    """
    items = list(items)
    try:
        return _send(parallel, backend, caches, function, items)
    except Exception as error:
        if not _is_loss_of_a_worker(error):
            raise
    for cache in caches:
        # workers may have lost the values
        cache.sent.clear()
    try:
        return _send(parallel, backend, caches, function, items)
    except Exception as error:
        if _is_loss_of_a_worker(error):
            error.add_note(
                "The cluster has lost workers twice in one round of tasks. Those that "
                "run out of memory are killed: start fewer on each machine, or give "
                "them more, and fit again."
            )
        raise


def _send(
    parallel: Parallel,
    backend: ParallelBackendBase,
    caches: list[WorkerCache],
    function: Callable[..., Any],
    items: list[tuple[Any, ...]],
) -> list[Any]:
    """Run a round of tasks on workers."""
    # with a single worker joblib runs tasks in this process, which cannot read data
    # that the worker was sent
    if on_cluster(backend) and backend.effective_n_jobs(parallel.n_jobs) == 1:
        return _run_here(caches, function, items)
    task = delayed(_task)
    constants = [cache.on(backend) for cache in caches]
    calls = [task(function, len(constants), *constants, *item) for item in items]
    return list(parallel(calls))


def _is_loss_of_a_worker(error: Exception) -> bool:
    """Whether a cluster has lost tasks or data, and no task has failed by itself."""
    package = type(error).__module__.partition(".")[0]
    return package == "distributed" or isinstance(error, CancelledError)


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
        Pure, and defined at the top level, so that any joblib backend can run it.
    items : iterable of tuples
        Arguments of each call. Their number and content do not depend on `n_jobs`,
        so neither do the results.
    n_jobs, *constants, in_threads
        See :func:`workers`.
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
    two items for each worker is distributed when the window before it is done;
    otherwise workers would run ahead of the reader, without a limit. One result, or the
    results of a window, are in memory.
    """
    stream = iter(items)
    with workers(n_jobs, *constants, in_threads=in_threads) as run:
        size = n_workers(n_jobs)
        if size > 1:
            size *= 2
        while window := list(islice(stream, size)):
            yield from run(function, window)
