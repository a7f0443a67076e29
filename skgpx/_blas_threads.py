"""How many threads BLAS uses: one number for all of a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


def current_blas_threads() -> int:
    """Threads that each call of BLAS may use now."""
    return min((library.num_threads for library in _libraries()), default=1)


@contextmanager
def blas_held_to(threads: int) -> Iterator[None]:
    """Have each call of BLAS use so many threads.

    Contexts may overlap in threads, in any order: the lowest number holds, and the last
    context restores what was there before the first one. Each on its own would restore
    what another one had set.
    """
    with _held_here(threads), _PROCESS.held_to(threads):
        yield


@cache
def _libraries() -> list[Any]:
    """The loaded BLAS libraries; looking for them takes milliseconds, so once."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _is_set_by_thread(library: Any) -> bool:
    """Whether each thread has a number of its own: only with OpenMP below OpenBLAS."""
    layer = getattr(library, "threading_layer", None)
    return library.internal_api == "openblas" and layer == "openmp"


@contextmanager
def _held_here(threads: int) -> Iterator[None]:
    """Hold the libraries that have a number for each thread."""
    own = [library for library in _libraries() if _is_set_by_thread(library)]
    before = [library.num_threads for library in own]
    for library in own:
        library.set_num_threads(threads)
    try:
        yield
    finally:
        for library, count in zip(own, before, strict=True):
            library.set_num_threads(count)


class _Process:
    """The libraries that have one number for the process, and who wants which."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wanted: list[int] = []
        self._before: list[tuple[Any, int]] = []

    @contextmanager
    def held_to(self, threads: int) -> Iterator[None]:
        with self._lock:
            if not self._wanted:
                shared = (one for one in _libraries() if not _is_set_by_thread(one))
                self._before = [(library, library.num_threads) for library in shared]
            self._wanted.append(threads)
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._wanted.remove(threads)
                self._set()

    def _set(self) -> None:
        for library, before in self._before:
            count = min(self._wanted, default=before)
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


_PROCESS = _Process()
