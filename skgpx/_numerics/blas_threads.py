"""How many threads BLAS uses: one, but for what is large."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from threading import Lock, local
from typing import Any

from threadpoolctl import ThreadpoolController

# Order from which a factorisation is left to the threads of the user. Two threads gain
# at most a half below it, and lose several times that where the cores are busy: they
# wait for one another by spinning.
_LARGE = 2000
Numbers = list[tuple[Any, int]]


def current_blas_threads() -> int:
    """Threads that the user leaves to BLAS; one within work that is divided already."""
    here = _state()
    if here.divided:
        return 1
    with _PROCESS.lock:
        held = [count for _, count in (*_PROCESS.before, *here.before)]
        return min(held or [one.num_threads for one in _libraries()], default=1)


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
    here = _state()
    _PROCESS.enter(here, divided)
    try:
        yield
    finally:
        _PROCESS.leave(here, divided)


def threads_for(order: int) -> AbstractContextManager[None]:
    """The user's number of threads for work on matrices of a large order.

    One thread stays one for small matrices, for a share of divided work, and while
    another thread of the process computes.
    """
    return nullcontext() if order < _LARGE else _released()


class OneBlasThread:
    """Mixin whose public methods, those of all subclasses, hold BLAS to one thread."""

    def __init_subclass__(cls, **options: Any) -> None:
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            public = name == "__call__" or not name.startswith("_")
            if public and inspect.isfunction(member) and _is_to_be_held(member):
                setattr(cls, name, _held(member))
        super().__init_subclass__(**options)


def _is_to_be_held(function: Callable[..., Any]) -> bool:
    """Whether a method is of this package and not held yet."""
    ours = function.__module__.startswith("skgpx.")
    return ours and not hasattr(function, "holds_blas")


def _held(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def held(*args: Any, **options: Any) -> Any:
        if _state().depth:
            return function(*args, **options)
        with one_blas_thread():
            return function(*args, **options)

    held.holds_blas = True  # type: ignore[attr-defined]
    return held


@contextmanager
def _released() -> Iterator[None]:
    here = _state()
    with _PROCESS.lock:
        alone = here.depth and not here.divided and _PROCESS.n_threads == 1
        if alone:
            _set_numbers(_PROCESS.before + here.before)
    try:
        yield
    finally:
        if alone:
            with _PROCESS.lock:
                _set_numbers([(one, 1) for one, _ in _PROCESS.before + here.before])


class _State:
    """Contexts of one thread, and what was there before them in libraries of its own.

    Libraries have a number for each thread only with OpenMP below OpenBLAS.
    """

    def __init__(self) -> None:
        self.depth, self.divided = 0, 0
        self.before: Numbers = []


class _Process:
    """Threads that are within contexts, and what was there before the first of them."""

    def __init__(self) -> None:
        self.lock, self.n_threads = Lock(), 0
        self.before: Numbers = []

    def enter(self, here: _State, divided: bool) -> None:
        with self.lock:
            here.depth, here.divided = here.depth + 1, here.divided + divided
            if here.depth > 1:
                return
            found = [(one, one.num_threads) for one in _libraries()]
            here.before = [pair for pair in found if _is_set_by_thread(pair[0])]
            if not self.n_threads:
                self.before = [p for p in found if not _is_set_by_thread(p[0])]
            self.n_threads += 1
            _set_numbers([(one, 1) for one, _ in self.before + here.before])

    def leave(self, here: _State, divided: bool) -> None:
        with self.lock:
            here.depth, here.divided = here.depth - 1, here.divided - divided
            if here.depth:
                return
            self.n_threads -= 1
            _set_numbers(here.before)
            here.before = []
            if not self.n_threads:
                _set_numbers(self.before)
                self.before = []


def _set_numbers(numbers: Numbers) -> None:
    for library, count in numbers:
        if library.num_threads != count:
            _set_from_any_thread(library, count)


def _set_from_any_thread(library: Any, count: int) -> None:
    """Set the number of the process.

    From version 3.8 threadpoolctl ignores all threads but the one that came first, for
    as long as that lives or holds a limit. Here the number is kept for all of them.
    That thread has its right again when it needs it, at the end of its limit.
    """
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(count)
    if clear is not None:
        clear(force=True)


def _is_set_by_thread(library: Any) -> bool:
    """Whether each thread has a number of its own: only with OpenMP below OpenBLAS."""
    layer = getattr(library, "threading_layer", None)
    return library.internal_api == "openblas" and layer == "openmp"


def _libraries() -> list[Any]:
    """The loaded BLAS libraries; looked for again only after something was imported.

    To look takes milliseconds.
    """
    if _FOUND["modules"] != len(sys.modules):
        found = ThreadpoolController().select(user_api="blas").lib_controllers
        _FOUND.update(modules=len(sys.modules), libraries=list(found))
    return _FOUND["libraries"]


_FOUND: dict[str, Any] = {"modules": 0, "libraries": []}
_PROCESS, _LOCAL = _Process(), local()


def _state() -> _State:
    here: _State | None = getattr(_LOCAL, "state", None)
    if here is None:
        here = _LOCAL.state = _State()
    return here
