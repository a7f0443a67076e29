"""The only joblib of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from itertools import islice
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

# Most jobs that nobody asked for: each holds a block of rows in memory.
_UNASKED = 8
# Items for each worker that are dealt out at a time where results are added up.
_WINDOW = 2


@cache
def _libraries() -> ThreadpoolController:
    """The loaded BLAS libraries; looking for them takes milliseconds, so once."""
    return ThreadpoolController()


def blas_jobs(n_jobs: int | None) -> int | None:
    """Number of jobs for work that BLAS would otherwise share out among its threads.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib. None, where ``joblib.parallel_config`` names no number either and
        no other parallel loop is around, stands for as many threads as BLAS uses, at
        most 8: ``OMP_NUM_THREADS=1`` and ``threadpool_limits(1)`` mean one.
    """
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None or backend.nesting_level:
        return n_jobs
    return min(_blas_threads(), _UNASKED)


def _blas_threads() -> int:
    """Threads that each call of BLAS may use now."""
    libraries = _libraries().select(user_api="blas").lib_controllers
    return min((library.num_threads for library in libraries), default=1)


def parallel_map(
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    *,
    shared_memory: bool = False,
    blas_threads: int = 1,
) -> list[Any]:
    """``[function(*item) for item in items]``, possibly in parallel.

    Parameters
    ----------
    function : callable
        Top-level and pure, so that any joblib backend can run it.
    items : iterable of tuples
        Arguments of each call. Their number and content do not depend on `n_jobs`,
        so neither do the results.
    n_jobs : int or None
        As in joblib; threads unless ``joblib.parallel_config`` says otherwise.
    shared_memory : bool, default=False
        Threads always: the function changes its arguments.
    blas_threads : int, default=1
        Threads of each call of BLAS; must not depend on `n_jobs`.

    Notes
    -----
    BLAS is held to one thread: the parallelism is over the items, and a fixed number
    of threads keeps every sum in the same order.
    """
    with _libraries().limit(limits=blas_threads, user_api="blas"):
        how = {"require": "sharedmem"} if shared_memory else {"prefer": "threads"}
        parallel = Parallel(n_jobs=n_jobs, return_as="generator", **how)
        return list(parallel(delayed(function)(*item) for item in items))


def side_by_side(
    function: Callable[..., Any], items: list[tuple[Any, ...]], n_jobs: int | None
) -> list[Any]:
    """:func:`parallel_map` of a few long tasks, in :func:`blas_jobs` threads.

    Tasks share the threads of BLAS equally: what each has depends on the number of
    items, not on `n_jobs`, so neither do the results.
    """
    jobs = blas_jobs(n_jobs) if len(items) > 1 else 1
    share = max(1, _blas_threads() // max(1, len(items)))
    return parallel_map(function, items, jobs, blas_threads=share)


@contextmanager
def worker_pool(n_jobs: int | None) -> Iterator[Callable[..., list[Any]]]:
    """Threads that stay for many rounds: gives ``each(function, items)``.

    Within the context ``each`` does what :func:`parallel_map` does, in threads and
    without the cost of starting them in every round of a loop.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib.
    """
    with (
        _libraries().limit(limits=1, user_api="blas"),
        Parallel(n_jobs=n_jobs, require="sharedmem") as parallel,
    ):

        def each(
            function: Callable[..., Any], items: Iterable[tuple[Any, ...]]
        ) -> list[Any]:
            return list(parallel(delayed(function)(*item) for item in items))

        yield each


def parallel_sum(
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    add: Callable[[Any, Any], Any],
    n_jobs: int | None,
) -> Any:
    """Sum of ``function(*item)`` over at least one item, added as results arrive.

    Parameters
    ----------
    function, items, n_jobs
        As of :func:`parallel_map`. `items` may be a generator, which is read when its
        items are needed.
    add : callable
        ``add(total, part)``, in the order of the items: the same bits for every
        `n_jobs`.

    Notes
    -----
    The results in memory are the sum and one more, or those of at most two items for
    each of several workers.
    """
    return reduce(add, _in_windows(function, iter(items), n_jobs))


def _in_windows(
    function: Callable[..., Any], items: Iterator[tuple[Any, ...]], n_jobs: int | None
) -> Iterator[Any]:
    """Results in the order of the items; a window is dealt out when the last is done.

    Otherwise workers would run ahead of the one who adds, without a limit.
    """
    size = _WINDOW * effective_n_jobs(n_jobs)
    with (
        _libraries().limit(limits=1, user_api="blas"),
        Parallel(n_jobs=n_jobs, return_as="generator", prefer="threads") as parallel,
    ):
        while window := list(islice(items, size)):
            yield from parallel(delayed(function)(*item) for item in window)
