"""The only joblib of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    """The loaded BLAS libraries; looking for them takes milliseconds, so once."""
    return ThreadpoolController()


def parallel_map(
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    *,
    shared_memory: bool = False,
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

    Notes
    -----
    BLAS is held to one thread: the parallelism is over the items, and a fixed number
    of threads keeps every sum in the same order.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        how = {"require": "sharedmem"} if shared_memory else {"prefer": "threads"}
        parallel = Parallel(n_jobs=n_jobs, return_as="generator", **how)
        return list(parallel(delayed(function)(*item) for item in items))
