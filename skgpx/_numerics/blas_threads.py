"""The number of threads of BLAS: one, except for large matrices."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock, local
from typing import Any

from threadpoolctl import ThreadpoolController


class _Contexts(local):
    """Contexts around the work of one thread.

    Attributes
    ----------
    depth : int
        Number of contexts.
    divided : int
        Number of contexts with workers that share the work.
    """

    depth = 0
    divided = 0


_HERE = _Contexts()
_LOCK = Lock()
# Libraries with their number of threads before the first context of the process, and
# the number of Python's threads within contexts.
_PROCESS: dict[str, Any] = {"before": [], "n_threads": 0}
# The loaded libraries, and the number of modules when they were looked for.
_LOADED: dict[str, Any] = {"modules": 0, "libraries": []}


def current_blas_threads() -> int:
    """Threads that the user leaves to BLAS; one within work that workers share."""
    with _LOCK:
        counts = [count for _, count in _PROCESS["before"]]
        if not counts:
            counts = [library.num_threads for library in _libraries()]
    if _HERE.divided:
        return 1
    return min(counts, default=1)


@contextmanager
def one_blas_thread(divided: bool = False) -> Iterator[None]:
    """Have BLAS use one thread, in all threads of the process.

    Contexts may overlap, also in several threads and in any order; the last one to end
    restores the numbers of threads before the first.

    Parameters
    ----------
    divided : bool, default=False
        Whether workers share the work: then BLAS keeps one thread for large matrices
        too, so that results do not depend on the number of workers.
    """
    if not _HERE.depth:
        with _LOCK:
            if not _PROCESS["n_threads"]:
                _PROCESS["before"] = [
                    (library, library.num_threads) for library in _libraries()
                ]
            _PROCESS["n_threads"] += 1
            # with OpenMP below OpenBLAS each thread has a number of its own
            _set_numbers(1)
    _HERE.depth += 1
    _HERE.divided += divided
    try:
        yield
    finally:
        _HERE.depth -= 1
        _HERE.divided -= divided
        if not _HERE.depth:
            with _LOCK:
                _PROCESS["n_threads"] -= 1
                if not _PROCESS["n_threads"]:
                    _set_numbers()
                    _PROCESS["before"] = []


@contextmanager
def threads_for(order: int) -> Iterator[None]:
    """The user's number of threads for work on matrices of a large order.

    One thread stays one for small matrices, for a share of divided work, and while
    another thread of the process computes.
    """
    is_shared = _HERE.divided or _PROCESS["n_threads"] > 1
    # of smaller orders two threads gain at most a half, and lose several times as much
    # where the cores are busy: they wait for one another by spinning
    if order < 2000 or not _HERE.depth or is_shared:
        yield
        return
    with _LOCK:
        _set_numbers()
    try:
        yield
    finally:
        with _LOCK:
            _set_numbers(1)


class OneBlasThread:
    """Mixin for classes with public methods that hold BLAS to one thread.

    It wraps the methods of all subclasses.
    """

    def __init_subclass__(cls, **options: object) -> None:
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            if name.startswith("_") and name != "__call__":
                continue
            if not inspect.isfunction(member) or hasattr(member, "holds_blas"):
                continue
            if member.__module__.startswith("skgpx."):
                setattr(cls, name, with_one_blas_thread(member))
        super().__init_subclass__(**options)


def _reset_after_fork() -> None:
    """Count only the thread that goes on in a forked process, and free the lock.

    Other threads of the parent may have held BLAS to one thread, or the lock.
    """
    global _LOCK
    _LOCK = Lock()
    _PROCESS["n_threads"] = int(_HERE.depth > 0)
    if not _HERE.depth:
        _set_numbers()
        _PROCESS["before"] = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def with_one_blas_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hold BLAS to one thread in a function.

    For methods below other descriptors, which `OneBlasThread` does not look into.
    """

    # a context as a decorator would be a frame between warnings and their callers
    @wraps(function)
    def call(*args: object, **options: object) -> Any:
        with one_blas_thread():
            return function(*args, **options)

    call.holds_blas = True  # type: ignore[attr-defined]
    return call


def _set_numbers(number: int | None = None) -> None:
    """Set the threads of every library; None restores the numbers before the contexts.

    From version 3.8 on, threadpoolctl obeys only the first thread that sets a limit,
    as long as the thread lives or holds the limit. Here any thread may set the number.
    The first thread regains control when it needs it, at the end of its limit.
    """
    for library, before in _PROCESS["before"]:
        count = before if number is None else number
        if library.num_threads != count:
            clear = getattr(library, "clear_controlling_thread", dict)
            clear(force=True)
            library.set_num_threads(count)
            clear(force=True)


def _libraries() -> list[Any]:
    """The loaded BLAS libraries.

    They are looked for, which takes milliseconds, only after an import.
    """
    if _LOADED["modules"] != len(sys.modules):
        controller = ThreadpoolController().select(user_api="blas")
        _LOADED["libraries"] = list(controller.lib_controllers)
        _LOADED["modules"] = len(sys.modules)
    return _LOADED["libraries"]
