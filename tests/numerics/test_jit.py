"""What compiling here does to others who compile, and where kernels are kept."""

import errno
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import config, event
from numba.core.caching import IndexDataCacheFile

from skgpx._numerics import _jit

needs_jit = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@needs_jit
@pytest.mark.parametrize("names", [{}, {"__name__": None}, {"__name__": "skgpx"}])
def test_functions_without_a_module_are_compiled_as_before(names):
    exec("def g(x): return x + 1", names)
    assert numba.njit(names["g"])(1.0) == 2.0


def formula(a, b, c, flag, value, slope):
    value[0] = a[0]


def twice(x):
    return 2.0 * x


class Compilations(event.Listener):
    """How often a function was compiled, and not read."""

    def __init__(self):
        self.number = 0

    def on_start(self, event):
        self.number += event.data["dispatcher"].py_func is twice

    def on_end(self, event):
        pass


def compiled_kernels(monkeypatch, read, write):
    """Call a kernel as a new process with these folders does; how often it compiled."""
    monkeypatch.setattr(_jit, "_READ_FOLDERS", [str(folder) for folder in read])
    monkeypatch.setattr(_jit, "_WRITE_FOLDER", None if write is None else str(write))
    monkeypatch.setattr(_jit, "_TROUBLED", set())
    monkeypatch.setattr(_jit.ANNOUNCEMENT, "made", True)
    listener = Compilations()
    event.register("numba:compile", listener)
    try:
        assert _jit.kernel(twice)(1.5) == 3.0
    finally:
        event.unregister("numba:compile", listener)
    return listener.number


# A step of Adam, optimised on its own, and a second time as a part of `move`.
STEP = """
import numpy as np
from skgpx._numerics.svgd import move
rng = np.random.default_rng(0)
points, force = rng.standard_normal((2, 37, 3))
means = np.zeros((2, 37, 3))
for step in range(2):
    move(points, force, np.ones((37, 3)), means, step, 0.1)
print(points.tobytes().hex(), means.tobytes().hex())
"""


@needs_jit
def test_the_process_that_compiles_has_the_bits_of_those_that_read(tmp_path):
    def run():
        environment = {**os.environ, "SKGPX_NUMBA_CACHE": str(tmp_path)}
        command = [sys.executable, "-c", STEP]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        )

    compiled = run()
    assert "Compiling once" in compiled.stderr
    read = run()
    assert not read.stderr
    assert read.stdout == compiled.stdout


@needs_jit
def test_a_kernel_calls_copies_of_its_own():
    inner = _jit.kernel(lambda x: 2.0 * x.sum())
    outer = _jit.kernel(lambda x: inner(x) + inner(x + 1.0))
    assert outer(np.ones(3)) == 18.0
    library = outer.overloads[outer.signatures[0]].library
    linkages = {function.linkage.name for function in library.get_defined_functions()}
    assert linkages <= {"external", "internal", "private"}


@needs_jit
def test_formulas_are_kept_beside_the_kernels_and_others_where_they_were():
    before = config.CACHE_DIR
    made = _jit.Formula(formula).address
    assert isinstance(made.address, int)
    assert made._cache.cache_path == _jit._WRITE_FOLDER
    assert before == config.CACHE_DIR


@needs_jit
def test_kernels_are_read_where_they_cannot_be_written(tmp_path, monkeypatch, caplog):
    image, user = tmp_path / "image", tmp_path / "user"
    image.mkdir()
    user.mkdir()
    assert compiled_kernels(monkeypatch, [image], image) == 1
    # without a folder that can be written, and before one that can
    assert compiled_kernels(monkeypatch, [image], None) == 0
    assert compiled_kernels(monkeypatch, [image, user], user) == 0
    assert not list(user.iterdir())
    # what the image lacks is kept elsewhere
    shutil.rmtree(image)
    assert compiled_kernels(monkeypatch, [image, user], user) == 1
    assert compiled_kernels(monkeypatch, [image, user], user) == 0
    assert not caplog.records


DAMAGES = {
    "truncated": lambda whole: whole[:40],
    "random": lambda whole: b"\x93\x00random" * 10,
    "empty": lambda whole: b"",
}


@needs_jit
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_kernels_are_compiled_again_and_replaced(
    tmp_path, monkeypatch, caplog, suffix
):
    compiled_kernels(monkeypatch, [tmp_path], tmp_path)
    [path] = tmp_path.glob(f"*{suffix}")
    for change in DAMAGES.values():
        path.write_bytes(change(path.read_bytes()))
        caplog.clear()
        assert compiled_kernels(monkeypatch, [tmp_path], tmp_path) == 1
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert str(tmp_path) in record.getMessage()
        assert compiled_kernels(monkeypatch, [tmp_path], tmp_path) == 0


@needs_jit
def test_a_full_disk_costs_time_and_no_fit(tmp_path, monkeypatch, caplog):
    def full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(IndexDataCacheFile, "_open_for_write", full)
        assert compiled_kernels(monkeypatch, [tmp_path], tmp_path) == 1
    [record] = caplog.records
    assert f"{tmp_path} cannot be read or written" in record.getMessage()
    assert compiled_kernels(monkeypatch, [tmp_path], tmp_path) == 1
    assert compiled_kernels(monkeypatch, [tmp_path], tmp_path) == 0


def test_folders_where_there_is_no_home_or_nothing_is_writable(tmp_path, monkeypatch):
    def unknown(_):
        raise KeyError("getpwuid(): uid not found")

    pwd = pytest.importorskip("pwd")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("SKGPX_NUMBA_CACHE", str(tmp_path))
    read, write = _jit._cache_folders()
    assert read == [write]
    assert Path(write).parent == tmp_path
    monkeypatch.setattr(_jit, "_writable", lambda folder: False)
    read, write = _jit._cache_folders()
    assert write is None
    assert read[0] == str(next(tmp_path.iterdir()))
    assert not any("~" in folder for folder in read)
    assert os.path.expanduser("~") == "~"


def folders_under(monkeypatch, root):
    """Where a new process with this variable reads and writes, and what it warns of."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("SKGPX_NUMBA_CACHE", str(root))
    monkeypatch.setattr(_jit, "_TROUBLED", set())
    read, write = _jit._cache_folders()
    assert write == read[-1]
    return [Path(folder) for folder in read]


needs_owners = pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")


@needs_owners
@pytest.mark.parametrize("kept", ["folder", "file", "above", "linked"])
def test_kernels_that_others_may_write_are_not_run(tmp_path, monkeypatch, caplog, kept):
    root = tmp_path / "above" / "root"
    [folder] = folders_under(monkeypatch, root)
    assert folder.parent == root
    file = folder / "kernel.nbi"
    file.touch()
    assert folders_under(monkeypatch, root) == [folder]
    assert not caplog.records
    opened = {"folder": folder, "file": file}.get(kept, root.parent)
    opened.chmod(0o777)
    if kept == "linked":
        (tmp_path / "link").symlink_to(root)
        root = tmp_path / "link"
    others = folders_under(monkeypatch, root)
    assert folder not in others
    [record] = caplog.records
    assert f"{opened} belongs to another user" in record.getMessage()
    # in a sticky folder, as in /tmp, others cannot replace what is there
    opened.chmod(0o1777)
    is_safe = kept in ("above", "linked")
    assert folders_under(monkeypatch, root) == ([folder] if is_safe else others)


@needs_owners
@pytest.mark.parametrize("changed", ["folder", "file", "above"])
def test_owners_and_groups_whose_kernels_are_run(tmp_path, monkeypatch, changed):
    before = os.umask(0)
    try:
        [folder] = folders_under(monkeypatch, tmp_path / "root")
    finally:
        os.umask(before)
    file = folder / "kernel.nbi"
    file.touch(mode=0o644)
    paths = {"folder": folder, "file": file, "above": folder.parent}
    stat = Path.stat

    def is_trusted(owner, group, mode):
        def of_others(path, **options):
            status = list(stat(path, **options))
            if path == paths[changed]:
                status[0] |= mode
                status[4:6] = owner, group
            return os.stat_result(status)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", of_others)
            return _jit._path_of_others(folder) is None

    user, stranger = os.geteuid(), 54321
    assert is_trusted(user, stranger, 0o000)
    assert is_trusted(0, stranger, 0o000)
    assert not is_trusted(stranger, 0, 0o000)
    # the group of root, and a private one
    assert is_trusted(user, 0, 0o020)
    assert is_trusted(user, user, 0o020)
    assert not is_trusted(user, stranger, 0o020)
