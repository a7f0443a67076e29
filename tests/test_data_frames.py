"""Tables of pandas, polars, Arrow and others, as every estimator takes them."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.fixes import parse_version

from skgpx import (
    DecoupledSampler,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 2))
Y = X[:, 0] + 0.1 * rng.standard_normal(30)
DATA = {"a": X[:, 0], "b": X[:, 1]}


class Exchanged:
    """A table that NumPy can read, with or without column names of its own."""

    def __init__(self, table):
        self._table = table
        self.shape = table.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._table, dtype=dtype)

    def __dataframe__(self, **options):
        return self._table.__dataframe__(**options)


NAMED = {
    "pandas": pd.DataFrame(DATA),
    "nullable": pd.DataFrame(DATA).convert_dtypes(dtype_backend="numpy_nullable"),
    "pandas of Arrow": pd.DataFrame(DATA).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame(DATA),
    "Arrow": pa.table(DATA),
}
ESTIMATORS = [
    PLSRegressor(optimizer=None),
    SpectralVGPRegressor(n_basis=9),
    SteinRFFRegressor(max_iter=2, random_state=0),
    SteinFourierFeatures(random_state=0),
    GWIRegressor(Ridge(), random_state=0),
    DecoupledSampler(PLSRegressor(optimizer=None), random_state=0),
    TemperedRegressor(GaussianProcessRegressor(alpha=0.1)),
]


def answer(model, table):
    found = (
        model.predict(table) if hasattr(model, "predict") else model.transform(table)
    )
    return np.asarray(found)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
def test_tables_are_as_arrays_with_names(model):
    expected = answer(clone(model).fit(X, Y), X)
    for kind, table in NAMED.items():
        fitted = clone(model).fit(table, Y)
        assert list(fitted.feature_names_in_) == ["a", "b"], kind
        np.testing.assert_allclose(answer(fitted, table), expected, err_msg=kind)
    table = Exchanged(NAMED["pandas"])
    found = answer(clone(model).fit(table, Y), table)
    np.testing.assert_allclose(found, expected)


def test_merged_models_keep_the_names():
    model = SpectralVGPRegressor("series", domain=[(-4.0, 4.0)] * 2, n_basis=9)
    table, halves = NAMED["pandas"], (slice(15), slice(15, 30))
    parts = [clone(model).partial_fit(table[rows], Y[rows]) for rows in halves]
    assert list(sum(parts).feature_names_in_) == ["a", "b"]


START = datetime(2020, 1, 1)
DAYS = [START + timedelta(days=i) for i in range(30)]
TIMES = {
    "datetimes": DAYS,
    "dates": [one.date() for one in DAYS],
    "durations": [one - START for one in DAYS],
}
MAKERS = {
    "pandas": pd.DataFrame,
    "pandas of Arrow": lambda data: pa.table(data).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": pl.DataFrame,
    "Arrow": pa.table,
}


def test_dates_and_categories_are_refused():
    model = PLSRegressor(optimizer=None)
    for make in MAKERS.values():
        for values in (*TIMES.values(), list("abc") * 10):
            with pytest.raises((ValueError, TypeError)):
                model.fit(make({"a": X[:, 0], "b": values}), Y)
    with pytest.raises(ValueError, match="got dates or durations"):
        model.fit(pl.DataFrame({"a": X[:, 0], "b": DAYS}), Y)


def test_missing_values_are_refused():
    holes = [1.0, None] * 15
    tables = [pd.DataFrame({"a": holes}), pl.DataFrame({"a": holes})]
    for table in (*tables, pa.table({"a": holes}), np.array(holes, float)[:, None]):
        for model in (PLSRegressor(), SteinRFFRegressor(), DecoupledSampler()):
            with pytest.raises(ValueError, match="NaN"):
                model.fit(table, Y)


def test_targets_are_columns_of_any_kind():
    model = PLSRegressor(optimizer=None)
    expected = model.fit(X, Y).predict(X)
    for y in (pl.Series(Y), pa.array(Y), pa.chunked_array([Y[:9], Y[9:]])):
        np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)
    for y in (pl.Series(DAYS), pa.array(DAYS), pl.Series(list("abc") * 10)):
        with pytest.raises((ValueError, TypeError)):
            model.fit(X, y)
    labels = ["x", "y"] * 15
    model = PLSClassifier(optimizer=None, max_iter=5, tol=9.0)
    for y in (
        pl.Series(labels),
        pl.Series(labels).cast(pl.Enum("xy")),
        pa.array(labels),
    ):
        assert list(model.fit(X, y).classes_) == ["x", "y"]


old = parse_version(sklearn.__version__) < parse_version("1.8")
KNOWN = {name: make for name, make in MAKERS.items() if name != "Arrow" or not old}


@pytest.mark.parametrize("make", KNOWN.values(), ids=KNOWN)
def test_a_mean_gets_the_columns_it_was_fitted_with(make):
    table = make({**DATA, "c": list("abc") * 10})
    columns = make_column_transformer(
        (OneHotEncoder(), ["c"]), remainder=StandardScaler()
    )
    mean = make_pipeline(columns, Ridge())
    fitted = GWIRegressor(mean, random_state=0).fit(table, Y)
    np.testing.assert_allclose(
        fitted.predict(table), clone(mean).fit(table, Y).predict(table)
    )
