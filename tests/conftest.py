import contextlib
import gc
import os
import shutil
from pathlib import Path

import pytest

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

# Threads of BLAS and of boosted trees would wait for other workers by spinning. Their
# libraries read the variable when they are loaded, also in processes of a test.
if WORKER != "main":
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The collector of cyclic garbage goes through what imports and the collection of tests
# leave behind again and again, which took a tenth of the time of the tests.
gc.set_threshold(20_000, 20, 20)

import numpy as np  # noqa: E402

from skgpx._hyperparameters._averaging import Effort  # noqa: E402


def pytest_collection_finish():
    """Exempt all that is there before the first test from collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup():
    """The same draws in every run where a test gives no `random_state`."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def few_neighborhoods(monkeypatch):
    """A fraction of the neighbourhoods that choose the kernel of many rows."""
    select = "skgpx._hyperparameters._select"
    monkeypatch.setattr(f"{select}.COMPARED_NEIGHBORHOODS", 60)
    monkeypatch.setattr(f"{select}.TRAINED_NEIGHBORHOODS", 120)


@pytest.fixture
def abundant_early(monkeypatch, few_neighborhoods):
    """The search of many rows, from 1000 on."""
    for module in ("_prior", "_select"):
        monkeypatch.setattr(f"skgpx._hyperparameters.{module}.ABUNDANT_ROWS", 1000)


EFFORT = Effort.of


def few(*arguments):
    """A fraction of the states of averaged hyperparameters, and of their chains."""
    effort = EFFORT(*arguments)
    return effort._replace(
        n_chains=min(effort.n_chains, 6),
        n_steps=min(effort.n_steps, 4),
        n_draws=min(effort.n_draws, 12),
        n_states=min(effort.n_states, 4),
    )


@pytest.fixture(autouse=True, scope="module")
def few_states():
    """What holds for every average is tested with few states, also of shared fits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Effort, "of", few)
        yield


@pytest.fixture
def every_state(monkeypatch):
    """For tests of what takes as many states as users have."""
    monkeypatch.setattr(Effort, "of", EFFORT)


@pytest.fixture
def rng():
    """The one seed of the suite."""
    return np.random.default_rng(0)
