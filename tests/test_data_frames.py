"""Tables of pandas, polars, Arrow and others, as every estimator takes them."""

import pickle
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

import skgpx
from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
    bases,
)
from skgpx.kernels import CategoricalKernel, Columns

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
    ExactGPRegressor(optimizer=None, n_draws=2, random_state=0),
    GWIRegressor(Ridge(), RBF(), random_state=0),
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


SITES = pd.Categorical(np.array(list("abcd"))[np.arange(60) % 4], list("abcde"))
TABLE = pd.DataFrame({"t": np.linspace(0.0, 6.0, 60), "site": SITES})
EFFECTS = np.array([0.0, 1.0, -1.0, 0.4] * 15)
TARGET = np.sin(TABLE["t"]) + EFFECTS + 0.1 * rng.standard_normal(60)
CODED = TABLE.assign(site=SITES.codes).to_numpy(np.float64)
FACTORS = 1.0 * Columns(RBF(2.0), "t") * Columns(CategoricalKernel(), "site")
NUMBERED = (
    1.0 * Columns(RBF(2.0), [0]) * Columns(CategoricalKernel(n_categories=5), [1])
)
WITH_KERNEL = [
    PLSRegressor(random_state=0),
    GWIRegressor("svgp", random_state=0),
    SpectralVGPRegressor(random_state=0),
]


@pytest.mark.parametrize("model", WITH_KERNEL, ids=lambda one: type(one).__name__)
def test_categories_are_codes_of_a_categorical_kernel(model):
    named = clone(model).set_params(kernel=FACTORS).fit(TABLE, TARGET)
    numbered = clone(model).set_params(kernel=NUMBERED).fit(CODED, TARGET)
    assert list(named.categories_["site"]) == list("abcde")
    expected = numbered.predict(CODED)
    np.testing.assert_array_equal(named.predict(TABLE), expected)
    # values count, and not the type at prediction; codes, where there is no name
    text = TABLE[::-1].astype({"site": str})
    np.testing.assert_array_equal(named.predict(text)[::-1], expected)
    default = clone(model).fit(TABLE, TARGET)
    assert default.score(TABLE, TARGET) > 0.97
    found = default.kernel_.get_params()
    assert any(isinstance(one, CategoricalKernel) for one in found.values())
    again = pickle.loads(pickle.dumps(default))
    np.testing.assert_array_equal(again.predict(TABLE), default.predict(TABLE))
    # without categories a fit forgets them
    numbers = default.set_params(kernel=RBF(), optimizer=None).fit(CODED, TARGET)
    assert not hasattr(numbers, "categories_")


@pytest.fixture(scope="module")
def default():
    """A default fit of the table, for tests that only read it."""
    return PLSRegressor(random_state=0).fit(TABLE, TARGET)


def test_tables_of_categories_of_every_kind(default):
    given = PLSRegressor(FACTORS, random_state=0)
    expected = clone(given).fit(TABLE, TARGET).predict(TABLE)
    site = pl.Series(SITES.tolist())
    for kind in (pl.Enum(list("abcde")), pl.Categorical):
        table = pl.DataFrame({"t": TABLE["t"].to_numpy(), "site": site.cast(kind)})
        found = clone(given).fit(table, TARGET).predict(table)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    scaled = make_column_transformer(
        (StandardScaler(), ["t"]), remainder="passthrough"
    ).set_output(transform="pandas")
    # chosen hyperparameters: rounding decides on some steps of averaged ones
    chosen = PLSRegressor(hyperparameters="maximise", random_state=0)
    directly = clone(chosen).fit(TABLE, TARGET).predict(TABLE)
    pipe = make_pipeline(scaled, chosen).fit(TABLE, TARGET)
    np.testing.assert_allclose(pipe.predict(TABLE), directly, rtol=1e-3, atol=1e-3)
    for inner, means in ((None, default.predict(TABLE)), (given, expected)):
        sampler = DecoupledSampler(inner, random_state=0).fit(TABLE, TARGET)
        np.testing.assert_allclose(sampler.predict(TABLE), means, atol=3e-2)
        distribution = sampler.predict_dist(TABLE)
        np.testing.assert_array_equal(distribution.mean(), sampler.predict(TABLE))
        assert sampler.sample_y(TABLE, 2).shape == (60, 2)


def test_a_category_without_rows_has_the_prior_of_an_exchangeable_one(default):
    new = pd.DataFrame({"t": [3.0] * 5, "site": list("abcde")})
    mean, std = default.predict(new, return_std=True)
    assert std[4] > 2.0 * std[:4].max()
    assert mean[:4].min() < mean[4] < mean[:4].max()


def test_categories_that_are_not_known_are_refused(default):
    for value in ("z", None):
        row = pd.DataFrame({"t": [1.0], "site": [value]})
        with pytest.raises(
            ValueError, match=r"'site' of X (must hold the cat|has miss)"
        ):
            default.predict(row)
    refused = {
        "has missing values": (
            PLSRegressor(),
            TABLE.assign(site=SITES.remove_categories("a")),
        ),
        "takes for numbers": (PLSRegressor(kernel=RBF()), TABLE),
        "SteinRFFRegressor expects numbers": (SteinRFFRegressor(), TABLE),
        "ExactGPRegressor expects numbers": (ExactGPRegressor(), TABLE),
        "or make them categories": (PLSRegressor(), TABLE.astype({"site": str})),
    }
    for message, (one, table) in refused.items():
        with pytest.raises(ValueError, match=message):
            one.fit(table, TARGET)
    with pytest.raises(ValueError, match="takes for numbers"):
        SpectralVGPRegressor("series").fit(TABLE, TARGET)


def test_classes_by_categories():
    labels = np.where(SITES.codes % 2, "odd", "even")
    model = PLSClassifier(tol=9.0, random_state=0).fit(TABLE[["site"]], labels)
    assert list(model.predict(TABLE[["site"]])) == list(labels)


def test_names_of_columns_that_are_not_unique_are_refused():
    twice = TABLE.assign(site=1.0).set_axis(["t", "t"], axis=1)
    for model in (
        PLSRegressor(random_state=0),
        GWIRegressor(BayesianRidge()),
        TemperedRegressor(BayesianRidge()),
    ):
        with pytest.raises(ValueError, match="must differ; got"):
            model.fit(twice, TARGET)


ESTIMATORS = [
    getattr(skgpx, name)
    for name in skgpx.__all__
    if hasattr(getattr(skgpx, name), "get_params")
]


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_the_tag_of_categories_tells_the_truth(Estimator):
    model = (
        Estimator(BayesianRidge()) if Estimator is TemperedRegressor else Estimator()
    )
    y = np.where(np.median(TARGET) < TARGET, "a", "b")
    y = y if is_classifier(model) else TARGET
    if get_tags(model).input_tags.categorical:
        assert len(model.fit(TABLE, y).predict(TABLE)) == len(y)
    else:
        with pytest.raises(ValueError, match=r"expects numbers|convert string"):
            model.fit(TABLE, y)


# Every public estimator that draws functions, with a kernel that is given.
PLAIN = {"kernel": RBF(1.0), "optimizer": None, "random_state": 0}
DRAWN = {
    "PLSRegressor": PLSRegressor(**PLAIN),
    "PLSClassifier": PLSClassifier(**PLAIN, max_iter=5, tol=9.0),
    "SpectralVGPRegressor": SpectralVGPRegressor(**PLAIN),
    "SteinRFFRegressor": SteinRFFRegressor(max_iter=2, random_state=0),
    "ExactGPRegressor": ExactGPRegressor(**PLAIN, n_draws=8),
    "GWIRegressor": GWIRegressor("svgp", **PLAIN),
    "GWIClassifier": GWIClassifier("svgp", **PLAIN),
    "DecoupledSampler": DecoupledSampler(
        GaussianProcessRegressor(RBF(1.0), alpha=0.01, optimizer=None), random_state=0
    ),
}
AROUND = {
    "GWI around": GWIRegressor(Ridge(), RBF(), random_state=0),
    "sampler around": DecoupledSampler(PLSRegressor(**PLAIN)),
    "search": DecoupledSampler(GridSearchCV(PLSRegressor(**PLAIN), {}, cv=2)),
}


def test_all_estimators_that_draw_functions_are_tested():
    named = {name for name in skgpx.__all__ if not name.islower()}
    have = {name for name in named if hasattr(getattr(skgpx, name), "sample_functions")}
    assert have == set(DRAWN)


def message(function, *arguments):
    with pytest.raises(ValueError, match=r"feature names|'site' of X") as caught:
        function(*arguments)
    return str(caught.value)


def of(model, y):
    """Targets, or labels for a classifier."""
    return np.where(np.median(y) < y, "a", "b") if is_classifier(model) else y


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
@pytest.mark.parametrize("name", DRAWN | AROUND)
def test_draws_take_the_columns_of_predict(name):
    table = NAMED["pandas"]
    model = clone((DRAWN | AROUND)[name])
    model.fit(table, of(model, Y))
    f = model.sample_functions(3, random_state=0)
    expected = f(X)
    for kind, same in NAMED.items():
        np.testing.assert_array_equal(f(same), expected, err_msg=kind)
    draws = [f, f[1:], 2.0 * f - f, f.affine(1.0, 3.0), pickle.loads(pickle.dumps(f))]
    draws.append(bases.side_by_side([f, f[:1]]))
    if f.process is not None:
        draws.append(f.condition(table[:2], Y[:2]))
        np.testing.assert_array_equal(draws[-1](table), f.condition(X[:2], Y[:2])(X))
    wrong = [table[["b", "a"]], table[["a"]], table.rename(columns={"a": "c"})]
    box = [(-1.0, 1.0)] * 2
    for other in (*wrong, pl.from_pandas(wrong[0])):
        refusal = message(model.predict, other)
        for g in draws:
            assert message(g, other) == refusal
            assert message(g.values, other) == refusal
        assert message(f.at, other[:3]) == refusal
        assert message(f.value_and_grad, other) == refusal
        if f.process is not None:
            assert message(f.condition, other, Y) == refusal
        if f.n_outputs == 1:
            assert message(f.minimize, box, 2, 16, 0, other) == refusal
    # as of predict, where the columns of fit have no names
    g = clone(model).fit(X, of(model, Y)).sample_functions(3, random_state=0)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        np.testing.assert_allclose(g(table), expected, rtol=1e-9)


def test_bounds_of_draws_are_named_by_their_index():
    f = DRAWN["PLSRegressor"].fit(NAMED["pandas"], Y).sample_functions(2, 0)
    bounds = pd.DataFrame({"low": [-1.0, 0.5], "high": [1.0, 0.7]}, ["a", "b"])
    options = {"n_starts": 2, "n_mesh": 16, "random_state": 0}
    expected = f.minimize(bounds.to_numpy(), **options).x
    np.testing.assert_array_equal(f.minimize(bounds, **options).x, expected)
    with pytest.raises(ValueError, match="in the same order"):
        f.minimize(bounds[::-1], **options)


def test_draws_of_other_columns_are_not_put_together():
    table = NAMED["pandas"]
    model = clone(DRAWN["PLSRegressor"])
    f = model.fit(table, Y).sample_functions(2, 0)
    nameless = bases.draw_prior(RBF(1.0), 2, 1, 2, np.random.default_rng(0))
    for total in (f + nameless, nameless + f, bases.side_by_side([nameless, f])):
        with pytest.raises(ValueError, match="in the same order"):
            total(table[["b", "a"]])
    g = model.fit(table[["b", "a"]], Y).sample_functions(2, 0)
    for combine in (lambda: f + g, lambda: bases.side_by_side([f, g])):
        with pytest.raises(ValueError, match="functions of the same columns"):
            combine()
    # rows without names hold the columns in the order of fit
    np.testing.assert_array_equal(f(X.tolist()), f(X))
    with pytest.raises(ValueError, match="masked values"):
        f(np.ma.masked_equal(X, X[0, 0]))


GIVEN = {"kernel": FACTORS, "optimizer": None}
WITH_CATEGORIES = {
    "PLSRegressor": PLSRegressor(**GIVEN, random_state=0),
    "PLSClassifier": PLSClassifier(**GIVEN, random_state=0),
    "SpectralVGPRegressor": SpectralVGPRegressor(**GIVEN, random_state=0),
    "GWIRegressor": GWIRegressor("svgp", **GIVEN, random_state=0),
    "GWIClassifier": GWIClassifier("svgp", **GIVEN, random_state=0),
    "DecoupledSampler": DecoupledSampler(hyperparameters="maximise", random_state=0),
}
FROZEN = FrozenEstimator(PLSRegressor(**GIVEN).fit(TABLE, TARGET))
THROUGH = {
    "sampler around": DecoupledSampler(PLSRegressor(**GIVEN), random_state=0),
    "frozen": DecoupledSampler(FROZEN, random_state=0),
}


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
@pytest.mark.parametrize("name", WITH_CATEGORIES | THROUGH)
def test_draws_of_tables_with_categories(name):
    model = clone((WITH_CATEGORIES | THROUGH)[name]).fit(
        TABLE, of((WITH_CATEGORIES | THROUGH)[name], TARGET)
    )
    n_draws = 400
    f = model.sample_functions(n_draws, random_state=1)
    values = f(TABLE)
    np.testing.assert_array_equal(values, f(CODED))
    # the mean of the draws, in standard errors
    expected = (
        model.latent_mean_and_variance(TABLE)[0]
        if is_classifier(model)
        else model.predict(TABLE)
    )
    errors = values.std(axis=1) / np.sqrt(n_draws)
    assert np.abs((values.mean(axis=1) - expected) / errors).max() < 4.0
    few = pickle.loads(pickle.dumps(f[:2]))
    table = TABLE.astype({"site": str})
    np.testing.assert_allclose(few(pl.from_pandas(table)), values[:, :2], atol=1e-8)
    wrong = [TABLE[["site", "t"]], table.replace("a", "z"), table.replace("a", None)]
    for other in wrong:
        assert message(few, other) == message(model.predict, other)
    if f.process is not None:
        given = few.condition(TABLE[:3], TARGET[:3], 0.01, random_state=0)
        same = few.condition(CODED[:3], TARGET[:3], 0.01, random_state=0)
        np.testing.assert_array_equal(given(TABLE), same(CODED))
    found, slopes = few.value_and_grad(TABLE)
    np.testing.assert_allclose(found, values[:, :2], atol=1e-8)
    assert not np.any(slopes[..., 1])
    bounds = pd.DataFrame([[0.0, 6.0], ["b", "b"]], ["t", "site"])
    options = {"n_starts": 2, "n_mesh": 16, "random_state": 0}
    x = few.minimize(bounds, candidates=TABLE[1::4], **options).x
    coded = few.minimize([(0.0, 6.0), (1.0, 1.0)], candidates=CODED[1::4], **options).x
    np.testing.assert_array_equal(x, coded)


def test_categories_with_draws_are_all_tested():
    have = {
        name
        for name in DRAWN
        if get_tags(
            getattr(skgpx, name)(
                **({} if name == "DecoupledSampler" else {"kernel": RBF()})
            )
        ).input_tags.categorical
    }
    # these have the tag of the base class, and refuse categories in fit
    assert have - set(WITH_CATEGORIES) <= {"SteinRFFRegressor", "ExactGPRegressor"}


def test_draws_of_rows_that_are_not_numbers():
    table = pd.DataFrame({**DATA, "c": list("abc") * 10})
    columns = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    mean = make_pipeline(columns, Ridge())
    model = GWIRegressor(mean, RBF(), random_state=0).fit(table, Y)
    f = model.sample_functions(2, random_state=0)
    np.testing.assert_array_equal(f(table), f(table.to_numpy(object)))
    refusal = message(model.predict, table[["c", "b", "a"]])
    assert message(f, table[["c", "b", "a"]]) == refusal


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
def test_draws_through_wrappers_take_the_columns_of_predict():
    table = NAMED["pandas"]
    exact = GaussianProcessRegressor(RBF(1.0), alpha=0.01, optimizer=None)
    scaler = StandardScaler().set_output(transform="pandas")
    for model in (
        exact,
        make_pipeline(scaler, DRAWN["PLSRegressor"]),
        TransformedTargetRegressor(DRAWN["PLSRegressor"], transformer=StandardScaler()),
        GridSearchCV(DRAWN["PLSRegressor"], {}, cv=2),
    ):
        model = clone(model).fit(table, Y)
        f = skgpx.sample_functions(model, 400, random_state=0)
        values = f(table)
        errors = values.std(axis=1) / 20.0
        assert np.abs((values.mean(axis=1) - model.predict(table)) / errors).max() < 4.0
        refusal = message(model.predict, table[["b", "a"]])
        assert message(f, table[["b", "a"]]) == refusal
    frozen = DecoupledSampler(FrozenEstimator(clone(exact).fit(table, Y)))
    assert message(frozen.fit, table[["b", "a"]]) == refusal


def test_rows_of_dask_are_read_with_their_names():
    frames = pytest.importorskip("dask.dataframe")
    model = DRAWN["PLSRegressor"].fit(NAMED["pandas"], Y)
    f = model.sample_functions(2, random_state=0)
    table = frames.from_pandas(NAMED["pandas"], npartitions=2)
    np.testing.assert_array_equal(f(table), f(X))
    with pytest.raises(ValueError, match="in the same order"):
        f(table[["b", "a"]])
