"""Every numba option of the project, in one place."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba import types
from numba.core import config, event
from numba.core.base import BaseContext
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.sigutils import normalize_signature

from skgpx._types import Array

_SOURCES = Path(__file__).parent

# A `Formula` as the kernels take it among their arguments.
CompiledFormula = Callable[
    [
        Array,
        Array,
        Array,
        bool,
        Array,
        Array,
    ],
    None,
]


def _fingerprint() -> str:
    """Hash of the sources of this folder.

    A cached kernel records the modification time of its own file, but not of the files
    of the kernels that it calls; one folder per fingerprint makes a stale build of a
    caller impossible.
    """
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _writable(folder: Path) -> bool:
    try:
        for path in (folder.parent, folder):
            # whatever the umask, nobody else may write there
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _path_of_others(folder: Path) -> Path | None:
    """What others may change of a folder, whose files numba runs; None if nothing.

    The folder, its files and the folders above it have to belong to the user, to root
    or to the owner of this code. Nobody else may write there, except in a folder above
    that is sticky, as /tmp is, where files of others cannot be replaced. A group may
    write that is root's, the user's first one, or private, with the number of the
    owner: new files may have such groups, with rights. Folders that hold this code are
    not looked at, and nothing is on Windows.
    """
    if sys.platform == "win32":
        return None
    code = _SOURCES.resolve()
    # in a container without the number of root, its files belong to the owner of /
    owners = {0, os.geteuid(), Path("/").stat().st_uid, code.stat().st_uid}
    above = [path for path in folder.parents if path not in (code, *code.parents)]
    for path in (folder, *folder.iterdir(), *above):
        # another process renames a file when it is complete
        with suppress(FileNotFoundError):
            status = path.stat()
            rights = stat.S_IWOTH
            if status.st_gid not in (0, os.getegid(), status.st_uid):
                rights |= stat.S_IWGRP
            if path in above and status.st_mode & stat.S_ISVTX:
                rights = 0
            if status.st_uid not in owners or status.st_mode & rights:
                return path
    return None


def _cache_folders() -> tuple[list[str], str | None]:
    """Folders of compiled kernels.

    The environment variables SKGPX_NUMBA_CACHE and NUMBA_CACHE_DIR come first, then the
    package's own folder, then the user's cache folder. New kernels are written to the
    first folder that is writable. Folders before it are read where they exist, such as
    the kernels that an image of a container brings. Folders that others may change are
    skipped.

    Returns
    -------
    read_folders : list of str
        Folders that kernels are read from, in this order.
    write_folder : str or None
        Folder that kernels are written to.
    """
    variables = ("SKGPX_NUMBA_CACHE", "NUMBA_CACHE_DIR")
    named = [Path(os.environ[name]) for name in variables if os.environ.get(name)]
    roots = [*named, _SOURCES / "__pycache__"]
    user_cache = os.path.expanduser("~/.cache/skgpx")
    # a user without an entry in the password database may have no home
    if not user_cache.startswith("~"):
        roots.append(Path(user_cache))
    read_folders: list[str] = []
    for root_folder in roots:
        folder = root_folder / f"kernels-{_FINGERPRINT}"
        is_writable = _writable(folder)
        # links could be changed later
        folder = folder.resolve()
        if not os.access(folder, os.R_OK | os.X_OK):
            continue
        path = _path_of_others(folder)
        if path is None:
            read_folders.append(str(folder))
            if is_writable:
                return read_folders, str(folder)
        elif root_folder in named:
            problem = f"{path} belongs to another user, or others may write there"
            _report_trouble(str(folder), PermissionError(problem))
    return read_folders, None


def _report_trouble(folder: str, error: Exception) -> None:
    """Log one line for each folder with kernels that cannot be read or written."""
    if folder in _TROUBLED:
        return
    _TROUBLED.add(folder)
    _LOGGER.warning(
        "Compiled kernels in %s cannot be read or written (%s: %s) and are compiled "
        "again. Make room there, delete the folder, or name another one by "
        "SKGPX_NUMBA_CACHE, which only you or root may change.",
        folder,
        type(error).__name__,
        error,
    )


# Folders that could not be read or written, each with one line in the log.
_TROUBLED: set[str] = set()
_LOGGER = logging.getLogger("skgpx")
_FINGERPRINT = _fingerprint()
_READ_FOLDERS, _WRITE_FOLDER = _cache_folders()


class _Announcement(event.Listener):
    """One line in the log when the first kernel of a machine is compiled.

    The logger writes it to stderr where logging is not configured. A file in the folder
    of the kernels keeps all other processes from repeating it.
    """

    def __init__(self) -> None:
        self.made = False

    def on_start(self, event: event.Event) -> None:
        """Announce why the current call takes longer."""
        # a listener also sees the functions of others, even of `exec`
        data = event.data or {}
        function = getattr(data.get("dispatcher"), "py_func", None)
        module = str(getattr(function, "__module__", ""))
        if self.made or not module.startswith("skgpx."):
            return
        self.made = True
        storage = "in every process: no folder is writable"
        if _WRITE_FOLDER is not None:
            storage = f"kept in {_WRITE_FOLDER}"
            try:
                (Path(_WRITE_FOLDER) / "announced").touch(exist_ok=False)
            except OSError:
                return
        _LOGGER.warning(
            "Compiling once, some seconds (%s); skgpx.compile_kernels() does it ahead.",
            storage,
        )

    def on_end(self, event: event.Event) -> None:
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
# ``reassoc`` also allows a sum to be taken in the order of the lanes of a vector, an
# order that does not depend on the data.
_REDUCTION_OPTIONS = {**_OPTIONS, "fastmath": {"contract", "reassoc"}}

_WRITTEN = types.Array(types.float64, 1, "C")
_READ = types.Array(types.float64, 1, "C", readonly=True)
_FORMULA = types.void(_READ, _READ, _READ, types.boolean, _WRITTEN, _WRITTEN)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` at its first call, without the GIL, cached on disk."""
    return _compiled(function, _OPTIONS)


def reduction(function: Callable[..., Any]) -> Any:
    """Compile as `kernel` does; inner loops may reorder their sums.

    Use it only where a sum in a register is worth it: terms that are written to an
    array and added by a product with ones need no relaxation.
    """
    return _compiled(function, _REDUCTION_OPTIONS)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    dispatcher = numba.njit(pipeline_class=_KernelCompiler, **options)(function)
    if not config.DISABLE_JIT:
        dispatcher._cache = _KernelCache(function)
    return dispatcher


def _callback(function: Callable[..., Any]) -> Any:
    """``numba.cfunc``, which would use the user's cache, with the cache of kernels."""
    result: Any = CFunc(
        function,
        normalize_signature(_FORMULA),
        locals={},
        options=dict(_OPTIONS),
        pipeline_class=_KernelCompiler,
    )
    result._cache = _KernelCache(function)
    result.compile()
    return result


class _KernelLibrary(JITCodeLibrary):
    """Machine code of a kernel, which calls its own copies of other kernels.

    numba copies the kernels that a kernel calls into its machine code as weak symbols.
    The linker replaces a weak symbol by the first definition that the process has
    loaded, which was optimised in another kernel and may round differently: results
    would depend on which kernels were compiled or loaded before. The copies therefore
    become local symbols once the kernel is optimised.
    """

    def _finalize_final_module(self) -> None:
        self._copies = []
        for function in self._final_module.functions:
            is_copy = function.linkage.name == "linkonce_odr"
            if is_copy and not function.is_declaration:
                function.linkage = "internal"
                self._copies.append(function.name)
        super()._finalize_final_module()

    def _get_module_for_linking(self) -> Any:
        """The module for kernels that call this one, which hold each copy once."""
        if self._shared_module is None:
            module = super()._get_module_for_linking()
            for name in self._copies:
                module.get_function(name).linkage = "linkonce_odr"
        return self._shared_module


class _KernelCompiler(Compiler):
    """numba's compiler, which writes machine code to a `_KernelLibrary`."""

    def define_pipelines(self) -> list[Any]:
        """The stages of the compiler, which ask for the library."""
        codegen = self.state.targetctx.codegen()
        library = _KernelLibrary(codegen, self.state.func_id.func_qualname)
        library.enable_object_caching()
        self.state.library = library
        return super().define_pipelines()


class _KernelLocator(_CacheLocator):
    """Tells numba where kernels are, without a test whether the folder is writable."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _KernelLocator:
        """Every kernel is in the same folders, whatever file its source is in."""
        del py_file
        return cls(py_func)

    def ensure_cache_path(self) -> None:
        """Whether a folder can be written shows when it is written."""

    def get_cache_path(self) -> str:
        """The folder that is written, for numba's statistics."""
        return _WRITE_FOLDER or ""

    def get_source_stamp(self) -> str:
        """The folder is named after the sources; times of files do not matter."""
        return _FINGERPRINT

    def get_disambiguator(self) -> str:
        """The line of the function distinguishes functions of one name in a file."""
        return str(self._line)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes: ClassVar = [_KernelLocator]


class _KernelCache(FunctionCache):
    """Kernels on disk, which never make a fit fail.

    A file that cannot be read counts as absent and is overwritten; a kernel that cannot
    be written is compiled again in the next process.
    """

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        self._folders = {
            folder: IndexDataCacheFile(folder, base, _FINGERPRINT)
            for folder in _READ_FOLDERS
        }

    def load_overload(
        self,
        sig: tuple[types.Type, ...],
        target_context: BaseContext,
    ) -> CompileResult | None:
        """The kernel of a signature, from the first folder that has it."""
        for folder, file in self._folders.items():
            self._cache_file = file
            try:
                kernel = super().load_overload(sig, target_context)
            except Exception as error:  # noqa: BLE001, a damaged file raises anything
                _report_trouble(folder, error)
                self._forget(folder)
                continue
            if kernel is not None:
                return kernel
        return None

    def save_overload(
        self,
        sig: tuple[types.Type, ...],
        data: CompileResult,
    ) -> None:
        """Write the kernel of a signature, if there is a folder for it."""
        if _WRITE_FOLDER is None:
            return
        self._cache_file = self._folders[_WRITE_FOLDER]
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _report_trouble(_WRITE_FOLDER, error)

    def _forget(self, folder: str) -> None:
        """Replace a damaged index by an empty one, which takes new kernels."""
        if folder == _WRITE_FOLDER:
            with suppress(OSError):
                self._folders[folder].flush()


def inlined(function: Callable[..., Any]) -> Any:
    """Make ``function`` a part of the kernels that call it.

    A kernel is optimised once more inside each kernel that calls it; a function with a
    single caller is not compiled on its own, which halves the first fit.
    """
    return numba.njit(inline="always", **_OPTIONS)(function)


class Formula:
    """A function on arrays that kernels take as an argument and call by its address.

    A kernel does not contain the formula that it calls, so that neither is compiled
    again for the other. The arguments are three arrays that are read, a flag, and two
    arrays that are written, all flat. The formula is compiled, or read from the disk,
    at its first use.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def address(self) -> Any:
        """The argument of a kernel that stands for the function."""
        if config.DISABLE_JIT:
            return self._function
        return _callback(self._function)
