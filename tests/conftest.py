import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import sklearn  # noqa: F401  (loads the OpenMP library that is limited below)
import threadpoolctl

# numba's disk cache does not survive concurrent writers, so every xdist worker has
# its own, kept between runs. It is named before any test module imports skgpx.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
NUMBA_CACHES = Path(__file__).parents[1] / ".numba_cache"
NUMBA_CACHE = NUMBA_CACHES / WORKER
os.environ.setdefault("SKGPX_NUMBA_CACHE", str(NUMBA_CACHE))
# What was compiled ahead of the tests, or by a run without workers, is copied to each.
for kernels in (NUMBA_CACHES / "main").glob("kernels-*"):
    if WORKER != "main" and not (NUMBA_CACHE / kernels.name).exists():
        # under another name until it is whole: other runs may copy at the same time
        part = NUMBA_CACHE / f"{kernels.name}.{os.getpid()}"
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(kernels, part)
            part.rename(NUMBA_CACHE / kernels.name)

# Boosted trees of several workers would wait for each other's OpenMP threads.
if WORKER != "main":
    threadpoolctl.threadpool_limits(limits=1, user_api="openmp")


@pytest.fixture
def few_neighborhoods(monkeypatch):
    """A fraction of the neighbourhoods that choose the kernel of many rows."""
    select = "skgpx._selection._select"
    monkeypatch.setattr(f"{select}.COMPARED_NEIGHBORHOODS", 100)
    monkeypatch.setattr(f"{select}.TRAINED_NEIGHBORHOODS", 200)


@pytest.fixture
def abundant_early(monkeypatch, few_neighborhoods):
    """The search of many rows, from 1500 on."""
    for module in ("_prior", "_select", "_sparse"):
        monkeypatch.setattr(f"skgpx._selection.{module}.ABUNDANT_ROWS", 1500)


@pytest.fixture
def rng():
    """The one seed of the suite."""
    return np.random.default_rng(0)
