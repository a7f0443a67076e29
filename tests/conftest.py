import os
from pathlib import Path

import numpy as np
import pytest

# numba's disk cache does not survive concurrent writers, so every xdist worker has
# its own, kept between runs. It is named before any test module imports skgpx.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
NUMBA_CACHE = Path(__file__).parents[1] / ".numba_cache" / WORKER
os.environ.setdefault("SKGPX_NUMBA_CACHE", str(NUMBA_CACHE))


@pytest.fixture
def rng():
    """The one seed of the suite."""
    return np.random.default_rng(0)
