"""Dask dataframes, without collecting."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skgpx import SpectralVGPRegressor, SteinRFFRegressor

dask = pytest.importorskip("dask")
pd = pytest.importorskip("pandas")
# it needs pyarrow
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

rng = np.random.default_rng(0)
TIMES = rng.uniform(0.0, 3.0, 800)
FRAME = pd.DataFrame(
    {"t": TIMES, "y": np.sin(4.0 * TIMES) + 0.1 * rng.standard_normal(800)}
)
NEW = pd.DataFrame({"t": np.linspace(0.0, 3.0, 30)})
SPECTRAL = SpectralVGPRegressor(
    "series", domain=[[0.0, 3.0]], optimizer=None, noise_variance=0.01, n_basis=31
)
STEIN = SteinRFFRegressor(
    RBF(),
    n_components=2,
    n_frequencies=10,
    max_iter=5,
    validation_fraction=0,
    random_state=0,
)
both = pytest.mark.parametrize("model", [SPECTRAL, STEIN], ids=["spectral", "stein"])


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def seen(model, part):
    fitted = copy.deepcopy(model)
    return fitted.partial_fit(part[["t"]], part["y"]) if len(part) else 0


def agree(found, whole):
    assert list(found.feature_names_in_) == ["t"]
    expected = whole.predict(NEW, return_std=True)
    assert_allclose(found.predict(NEW, return_std=True), expected, rtol=1e-9)


@both
def test_partitions_are_added_where_they_are(model):
    parts = dd.from_pandas(FRAME, npartitions=4)
    blocks, first, whole = parts.to_delayed(), model, clone(model)
    for part in parts.partitions:
        rows = part.compute()
        whole.partial_fit(rows[["t"]], rows["y"])
    if model is STEIN:
        # its rows choose the frequencies, and count once
        first, blocks = seen(clone(model), blocks[0].compute()), blocks[1:]
    models = [dask.delayed(seen)(first, block) for block in blocks]
    agree(dask.delayed(sum)(models).compute(), whole)


@pytest.mark.filterwarnings("ignore:.*beyond the data")
def test_parts_without_rows_add_nothing():
    parts = dd.from_pandas(FRAME.sort_values("t", ignore_index=True), npartitions=4)
    early = parts[parts["t"] < 1.0]
    assert [len(part) for part in early.partitions][2:] == [0, 0]
    models = [dask.delayed(seen)(SPECTRAL, block) for block in early.to_delayed()]
    found = dask.delayed(sum)(models).compute()
    kept = FRAME[FRAME["t"] < 1.0]
    agree(found, clone(SPECTRAL).partial_fit(kept[["t"]], kept["y"]))
    assert found + 0 is found
    assert 0 + found is found
    for wrong in (1, "0"):
        with pytest.raises(TypeError, match="unsupported operand"):
            found + wrong
