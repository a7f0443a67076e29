"""How many threads BLAS uses: one, but for what is large."""

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

# Order from which a factorisation is left to the threads of the user. Two threads gain
# at most a half below it, and lose several times that where the cores are busy: they
# wait for one another by spinning.
_LARGE = 2000


class _Contexts(local):
    """Contexts around the work of one thread, and how many of them divide it."""

    depth = divided = 0


_HERE, _LOCK = _Contexts(), Lock()
# Libraries and their threads before the first context of the process, and the threads
# of Python that are within contexts.
_PROCESS: dict[str, Any] = {"before": [], "n_threads": 0}
_FOUND: dict[str, Any] = {"modules": 0, "libraries": []}


def current_blas_threads() -> int:
    """Threads that the user leaves to BLAS; one within work that is divided already."""
    with _LOCK:
        held = [count for _, count in _PROCESS["before"]]
        found = held or [library.num_threads for library in _libraries()]
    return 1 if _HERE.divided else min(found, default=1)


@contextmanager
def one_blas_thread(divided: bool = False) -> Iterator[None]:
    """Have BLAS use one thread, in all threads of the process.

    Contexts may overlap, also in several threads and in any order; the last one to end
    restores what was there before the first.

    Parameters
    ----------
    divided : bool, default=False
        Whether workers share the work: then BLAS keeps one thread for large matrices
        too, so that results do not depend on the number of workers.
    """
    if not _HERE.depth:
        with _LOCK:
            if not _PROCESS["n_threads"]:
                _PROCESS["before"] = [(one, one.num_threads) for one in _libraries()]
            _PROCESS["n_threads"] += 1
            # with OpenMP below OpenBLAS each thread has a number of its own
            _set_numbers(1)
    _HERE.depth, _HERE.divided = _HERE.depth + 1, _HERE.divided + divided
    try:
        yield
    finally:
        _HERE.depth, _HERE.divided = _HERE.depth - 1, _HERE.divided - divided
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
    alone = _HERE.depth and not _HERE.divided and _PROCESS["n_threads"] == 1
    if order < _LARGE or not alone:
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
    """Mixin whose public methods, those of all subclasses, hold BLAS to one thread."""

    def __init_subclass__(cls, **options: Any) -> None:
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            public = name == "__call__" or not name.startswith("_")
            ours = inspect.isfunction(member) and member.__module__.startswith("skgpx.")
            if public and ours and not hasattr(member, "holds_blas"):
                setattr(cls, name, _held(member))
        super().__init_subclass__(**options)


def _reset_after_fork() -> None:
    """Count only the thread that lives on in a forked process, and free the lock.

    Other threads of the parent may have held BLAS to one thread, or held the lock.
    """
    global _LOCK
    _LOCK = Lock()
    _PROCESS["n_threads"] = int(_HERE.depth > 0)
    if not _HERE.depth:
        _set_numbers()
        _PROCESS["before"] = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _held(function: Callable[..., Any]) -> Callable[..., Any]:
    # a context as a decorator would be a frame between warnings and their callers
    @wraps(function)
    def held(*args: Any, **options: Any) -> Any:
        with one_blas_thread():
            return function(*args, **options)

    held.holds_blas = True  # type: ignore[attr-defined]
    return held


def _set_numbers(number: int | None = None) -> None:
    """Threads of every library; None stands for those before the first context.

    From version 3.8 threadpoolctl ignores all threads but the one that came first, for
    as long as that lives or holds a limit. Here the number is kept for all of them.
    That thread has its right again when it needs it, at the end of its limit.
    """
    for library, before in _PROCESS["before"]:
        count = before if number is None else number
        if library.num_threads != count:
            clear = getattr(library, "clear_controlling_thread", dict)
            clear(force=True)
            library.set_num_threads(count)
            clear(force=True)


def _libraries() -> list[Any]:
    """The loaded BLAS libraries; looked for again, which takes milliseconds, only after
    something was imported.
    """
    if _FOUND["modules"] != len(sys.modules):
        found = ThreadpoolController().select(user_api="blas").lib_controllers
        _FOUND.update(modules=len(sys.modules), libraries=list(found))
    libraries: list[Any] = _FOUND["libraries"]
    return libraries
