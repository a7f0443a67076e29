"""Every numba option of the project, in one place."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numba
from numba import types
from numba.core import config, event
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

_SOURCES = Path(__file__).parent


def _fingerprint() -> str:
    """Hash of the sources of this folder.

    A cached kernel records the modification time of its own file only, not of the
    files whose kernels it calls; one folder per fingerprint makes a stale build of
    a caller impossible.
    """
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _cache_directory() -> str | None:
    """Where compiled kernels are kept; None when no place is writable.

    The environment variables SKGPX_NUMBA_CACHE and NUMBA_CACHE_DIR come first,
    then the package's own folder, then the user's cache folder.
    """
    named = [os.environ.get(v) for v in ("SKGPX_NUMBA_CACHE", "NUMBA_CACHE_DIR")]
    roots = [Path(root) for root in named if root]
    roots += [_SOURCES / "__pycache__", Path("~/.cache/skgpx").expanduser()]
    stamp = f"kernels-{_fingerprint()}"
    for root in roots:
        if _writable(root / stamp):
            return str(root / stamp)
    return None


_CACHE = _cache_directory()
# Around the change of numba's own setting.
_LOCK = Lock()
_LOGGER = logging.getLogger("skgpx")


class _Announcement(event.Listener):
    """One line when the first kernel of a machine is compiled.

    The logger writes it to stderr where logging is not configured. A file in the folder
    of the kernels keeps all other processes from repeating it.
    """

    def __init__(self) -> None:
        self.made = False

    def on_start(self, event: Any) -> None:
        """Announce why the call that is under way will take longer."""
        # a listener gets the functions of others, those of `exec` included
        function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
        ours = str(getattr(function, "__module__", "")).startswith("skgpx.")
        if self.made or not ours:
            return
        self.made = True
        if _CACHE is not None:
            try:
                (Path(_CACHE) / "announced").touch(exist_ok=False)
            except OSError:
                return
        kept = f"kept in {_CACHE}" if _CACHE else "in every process: no cache"
        _LOGGER.warning(
            "Compiling once, some seconds (%s); skgpx.compile_kernels() does it ahead.",
            kept,
        )

    def on_end(self, event: Any) -> None:
        """A listener must have this method."""


ANNOUNCEMENT = _Announcement()
event.register("numba:compile", ANNOUNCEMENT)


# ``contract`` lets the compiler fuse multiply-add, a relaxation of floating point that
# keeps NaN and infinity as they are; the NumPy error model turns x / 0 into
# infinity instead of an exception, which is what allows loops with divisions to be
# vectorised.
_OPTIONS = {
    "no_cfunc_wrapper": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
}
# ``reassoc`` also allows the terms of a sum to be taken in the order of the lanes of a
# vector, the same whatever the data.
_REDUCTION_OPTIONS = {**_OPTIONS, "fastmath": {"contract", "reassoc"}}

_WRITTEN = types.Array(types.float64, 1, "C")
_READ = types.Array(types.float64, 1, "C", readonly=True)
_FORMULA = types.void(_READ, _READ, _READ, types.boolean, _WRITTEN, _WRITTEN)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` at its first call, without the GIL, cached on disk."""
    return _compiled(function, _OPTIONS)


def reduction(function: Callable[..., Any]) -> Any:
    """Compile as `kernel` does, a function whose inner loops sum.

    Use it only where a sum in a register is worth it: terms that are written to an
    array and added by a product with ones need no relaxation.
    """
    return _compiled(function, _REDUCTION_OPTIONS)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    if _CACHE is None:
        return numba.njit(**options)(function)
    return _in_our_folder(numba.njit(cache=True, **options), function)


def _in_our_folder(make: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``make(*arguments)``, which chooses a folder now and compiles later.

    Another thread that decorates in this moment would choose the same folder, so that
    nothing may be compiled here.
    """
    with _LOCK:
        before, config.CACHE_DIR = config.CACHE_DIR, _CACHE
        try:
            return make(*arguments)
        finally:
            config.CACHE_DIR = before


def _callback(function: Callable[..., Any]) -> Any:
    """``numba.cfunc``, which chooses a folder and compiles in one step, in two."""
    result = CFunc(function, normalize_signature(_FORMULA), {}, dict(_OPTIONS))
    if _CACHE is not None:
        _in_our_folder(result.enable_caching)
    result.compile()
    return result


def inlined(function: Callable[..., Any]) -> Any:
    """Make ``function`` a part of the kernels that call it.

    A kernel is optimised once more inside each kernel that calls it; parts that have
    a single caller are not compiled on their own, which halves the first fit.
    """
    return numba.njit(inline="always", **_OPTIONS)(function)


class Formula:
    """A function on arrays that kernels take as an argument and call by its address.

    A kernel that calls it does not contain it, so that neither is compiled again for
    the other. The arguments are three arrays that are read, a flag, and two arrays that
    are written, all flat. Compiled, or read from the disk, at its first use.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def address(self) -> Any:
        """What stands for the function in the arguments of a kernel."""
        if config.DISABLE_JIT:
            return self._function
        return _callback(self._function)
