"""Doors: a finite answer, or an error that says what to do, and nothing mutated."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.ensemble import AdaBoostClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    TemperedRegressor,
    metrics,
)
from skgpx.exceptions import DataWarning
from skgpx.likelihoods import (
    Gaussian,
    Poisson,
    RobustMax,
    StudentT,
    check_likelihood,
)
from skgpx.simulation import simulate_ode

pytestmark = [
    pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning"),
]

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 2))
F = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
Y = F + 0.1 * rng.normal(size=20)
LABELS = (Y > 0.0).astype(int)
THREE = np.digitize(Y, [-0.4, 0.4])
COUNTS = rng.poisson(np.exp(F)).astype(float)

PLS = {"n_inducing": 6, "n_particles": 6, "tol": 3.0, "random_state": 0}
FIXED = {"kernel": RBF(1.0), "optimizer": None}
NETWORKS = {"n_estimators": 2, "max_iter": 20, "random_state": 0}
AROUND = {"cv": 2, "n_inducing": 6, "random_state": 0}
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression())
WAVES = {"n_components": 2, "n_frequencies": 6, "max_iter": 2, "random_state": 0}
EXACT = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
# "pls", "gwi" and "spectral" search over families of kernels, others do not.
ANY = RBF(1.0, (1e-20, 1e20))
CASES = {
    "pls": (PLSRegressor(**PLS), Y),
    "student": (PLSRegressor(ANY, likelihood=StudentT(), **PLS), Y),
    "counts": (PLSRegressor(ANY, likelihood=Poisson(), **PLS), COUNTS),
    "spectral": (SpectralVGPRegressor(random_state=0), Y),
    "empirical": (SpectralVGPRegressor(ANY, basis="empirical", random_state=0), Y),
    "inducing": (SpectralVGPRegressor(ANY, basis="inducing", random_state=0), Y),
    "stein": (SteinRFFRegressor(**WAVES), Y),
    "deep": (SteinRFFRegressor(**WAVES, hidden_layer_sizes=(8, 6)), Y),
    "gwi": (GWIRegressor(**NETWORKS), Y),
    "gwi around": (GWIRegressor(LinearRegression(), ANY, **AROUND), Y),
    "exact": (ExactGPRegressor(ANY, n_draws=4, random_state=0), Y),
    "decoupled": (DecoupledSampler(EXACT, n_basis=64, random_state=0), Y),
    "tempered": (TemperedRegressor(BayesianRidge(), cv=2), Y),
    "classes": (PLSClassifier(ANY, **PLS), THREE),
    "gwi classes": (GWIClassifier(LOGISTIC, ANY, **AROUND), LABELS),
}
SIZES = [(0,), (4, -1), (2.5,), "ten", ("a",), (2, False)]
LATENT = [name for name in CASES if name not in ("decoupled", "tempered")]
NUMBERS = [name for name in CASES if "classes" not in name]
REAL = [name for name in NUMBERS if name != "counts"]
cases = pytest.mark.parametrize("name", CASES)


@cache
def fitted(name):
    estimator, y = CASES[name]
    return clone(estimator).fit(X, y)


def refused(message, function, *args, **given):
    with pytest.raises((ValueError, TypeError), match=message):
        function(*args, **given)


# ---- Refused by fit ------------------------------------------------------------------


def with_value(array, value):
    changed = np.array(array, dtype=np.float64)
    changed.ravel()[3] = value
    return changed


@cases
def test_rows_and_targets_that_are_refused(name):
    estimator, y = CASES[name]
    fit = clone(estimator).fit
    for given in (None, "rows", (row for row in X)):
        refused(None, fit, given, y)
    # a wrapper passes rows on, and its kernel or what it wraps refuses them
    around = name in ("gwi around", "gwi classes", "tempered")
    impute = "NaN" if around else "X contains NaN. Impute"
    refused(impute, fit, with_value(X, np.nan), y)
    for value in (np.nan, np.inf):
        refused(r"NaN|infinity", fit, with_value(X, value), y)
        refused(r"NaN|infinity", fit, X, with_value(y, value))
    for rows, targets, message in [
        (np.empty((0, 2)), np.empty(0), "0 sample"),
        (np.empty((20, 0)), y, "0 feature"),
        (X[:, 0], y, "2D array"),
        (X, y[:-1], r"inconsistent|equally many"),
        (sparse.csr_array(X), y, r"[Ss]parse"),
    ]:
        refused(message, fit, rows, targets)
    days = pd.date_range("2020", periods=20)
    dated = [
        pd.DataFrame({"when": days, "x": X[:, 0]}),
        days.to_numpy()[:, np.newaxis],
    ]
    # a wrapper leaves columns of other types to what it wraps
    for dates in dated if name not in ("tempered", "gwi classes") else []:
        refused(r"numpy\.timedelta64", fit, dates, y)
    unit = X / np.max(np.abs(X), axis=0)
    for scale in (1e308, 1.01e120, 0.99e-120, 1e-300) if name != "tempered" else ():
        refused("X must be of a size between .* Change its", fit, scale * unit, y)
        if name in REAL:
            large = scale * Y / np.max(np.abs(Y))
            refused("y must be of a size between 1e-120", fit, X, large)
    if name in NUMBERS:
        for targets in (["a"] * 20, np.array([object()] * 20)):
            refused("could not convert|must be a string or a real", fit, X, targets)
        refused("y must be numeric; got dates", fit, X, days.to_numpy())


def table(values):
    """X with a second column of these values, in the first rows."""
    column = pd.Series(X[:, 1].astype(object))
    column[: len(values)] = values
    return pd.DataFrame({"x": X[:, 0], "z": column})


MASKED = np.ma.MaskedArray(X, mask=np.eye(20, 2))
HUGE = X.astype(object)
HUGE[2, 1] = 10**400
TEXT = r"could not convert string to float: 'a'.*OneHotEncoder"
REFUSED_ROWS = [
    (pd.Series(X[:, 0]), "2D array|2-dimensional"),
    (MASKED, "X has .* masked values, which are missing"),
    (HUGE, "size up to 1e|size between|too large|Unknown label|infinity"),
    (pd.DataFrame(X, columns=["x", "x"]), "Names of columns of X must differ"),
]


@cases
def test_integers_beyond_doubles_are_refused(name):
    estimator, y = CASES[name]
    rows = X.astype(object)
    rows[3, 1] = 10**400
    refused("Change its units", clone(estimator).fit, rows, y)
    refused("Change its units", clone(estimator).fit, pd.DataFrame(rows), y)


@cases
def test_tables_and_targets_that_are_no_numbers(name):
    estimator, y = CASES[name]
    fit = clone(estimator).fit
    around = name in ("gwi around", "gwi classes", "tempered")
    takes_categories = estimator.__sklearn_tags__().input_tags.categorical
    text = TEXT + ".*astype.*category" * takes_categories
    rows = [*REFUSED_ROWS, (table(["a"]), text)]
    for given, message in rows[:2] if around else rows:
        refused(message, fit, given, y)
    masked = np.ma.MaskedArray(y, mask=np.arange(20) == 3)
    refused("y has 1 masked values", fit, X, masked)
    weights = np.ma.MaskedArray(np.ones(20), mask=np.arange(20) == 3)
    if name != "decoupled":
        refused("has 1 masked values", fit, X, y, sample_weight=weights)
    if name in NUMBERS:
        missing = [None, *np.asarray(y, dtype=object)[1:]]
        refused(r"y must be finite; got 1 NaN|y contains NaN", fit, X, missing)
        words = np.array(["high", "low"])[LABELS]
        refused("could not convert", fit, X, words)
    model = fitted(name)
    refused("X has .* masked values", model.predict, MASKED)
    if not around:
        refused("2D array|2-dimensional", model.predict, pd.Series(X[:, 0]))
        kinds = pd.Categorical(["u", "v"] * 10)
        gap = pd.DataFrame({"x": X[:, 0], "kind": kinds.set_categories(["u"])})
        refused("Column 'kind' of X has missing values", fit, gap, y)


@cases
def test_parameters_may_be_scalars_of_numpy(name):
    estimator, y = CASES[name]
    given = {
        key: value
        for key, value in estimator.get_params(deep=False).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    scalars = {
        key: np.int64(value) if isinstance(value, int) else np.float64(value)
        for key, value in given.items()
    }
    assert given or name == "spectral"
    other = clone(estimator).set_params(**scalars).fit(X, y)
    assert_array_equal(other.predict(X), fitted(name).predict(X))
    if name != "tempered":
        one, two = (m.sample_functions(2, 0)(X) for m in (other, fitted(name)))
        assert_array_equal(one, two)


@pytest.mark.parametrize("name", [name for name in CASES if name != "decoupled"])
def test_weights_that_are_refused_and_shares(name):
    estimator, y = CASES[name]
    for weights, message in [
        (np.full(20, -1.0), "[Nn]egative"),
        (np.zeros(20), "at least one"),
        (np.full(20, np.nan), "NaN"),
        (np.ones(19), "shape"),
        ("balanced", None),
    ]:
        refused(message, clone(estimator).fit, X, y, sample_weight=weights)
    with pytest.warns(DataWarning, match="sum to 1, and count as so many rows"):
        clone(estimator).fit(X, y, sample_weight=np.full(20, 1.0 / 20))


def test_boosting_passes_shares():
    model = clone(CASES["classes"][0]).set_params(**FIXED)
    boost = AdaBoostClassifier(model, n_estimators=2, random_state=0)
    with pytest.warns(DataWarning, match="AdaBoostClassifier always passes shares"):
        boost.fit(X, LABELS)


def test_parameters_that_are_refused():
    for likelihood, message in [
        (Poisson, r"likelihood of skgpx\.likelihoods.*the class Poisson"),
        ("poisson", r"must be None or a likelihood"),
        (StudentT(df=None), "StudentT expects a positive df"),
        (Gaussian("auto"), "noise_variance to be positive and finite.*'auto'"),
        (StudentT(scale=0.0), "scale to be positive and finite"),
        (Poisson("log"), "expects link in"),
    ]:
        refused(message, PLSRegressor(likelihood=likelihood).fit, X, Y)
    refused("must be None or a likelihood", PLSClassifier(likelihood=1.0).fit, X, Y > 0)
    compound = CompoundKernel([RBF(), RBF()])
    for model in (PLSRegressor(compound), SpectralVGPRegressor(compound)):
        refused("add or multiply them", model.fit, X, Y)
    white, noise = RBF() + WhiteKernel(), {"noise_variance": 250.0}
    for model in (
        PLSRegressor(white, likelihood=Gaussian(250.0)),
        SpectralVGPRegressor(white, **noise),
        GWIRegressor(Ridge(), white, **noise),
    ):
        refused(r"noise_variance=250.*WhiteKernel", model.fit, X, Y)
    for model, message in [
        (DecoupledSampler(PLSRegressor), r"Call the class: PLSRegressor"),
        (DecoupledSampler(GridSearchCV(EXACT, {}, refit=False)), "refit=True"),
        (PLSRegressor(likelihood=StudentT(), method="exact"), "needs a Gaussian"),
        (PLSRegressor(likelihood=StudentT(), step_size=5.0), r"step_size .* \(0, 1\]"),
        (PLSRegressor(likelihood=RobustMax()), "for RobustMax.* Use Categorical"),
        *(
            (SteinRFFRegressor(hidden_layer_sizes=s), "hidden_layer_s")
            for s in [*SIZES, (True,)]
        ),
        *(
            (GWIRegressor("net", **FIXED, hidden_layer_sizes=s), "hidden_layer_s")
            for s in SIZES
        ),
    ]:
        refused(message, model.fit, X, Y)
    refused(r"PLSClassifier.*'class_weight'", PLSClassifier, class_weight="balanced")
    refused("check_likelihood expects an instance", check_likelihood, Gaussian)
    refused("drift must be FunctionDraws", simulate_ode, DecoupledSampler(), [0.0], [0])


# ---- Refused by a fitted model -------------------------------------------------------


@cases
def test_predictions_that_are_refused(name):
    model = fitted(name)
    for rows, message in [
        (with_value(X, np.nan), "NaN"),
        ((row for row in X), None),
        (X[:, :1], "features"),
        (X[:0], "0 sample"),
    ]:
        refused(message, model.predict, rows)
    if name != "tempered":
        far = 1e308 * (X / np.max(np.abs(X)))
        refused(r"X must be at most 1e\+120", model.predict, far)
    if name in LATENT:
        y = CASES[name][1]
        for targets in (y[:5], np.column_stack((y, y))):
            refused("inconsistent|1d array", model.log_predictive_density, X, targets)
    refused("got y alone", model.report, y=CASES[name][1])
    assert model.report()["model"]["rows"] == len(X)


@pytest.mark.parametrize("name", [name for name in CASES if name != "tempered"])
def test_numbers_of_draws(name):
    model = fitted(name)
    for number in (0, 1.5, "3", None):
        for call in (model.sample_functions, lambda n: model.sample_y(X, n)):
            refused("n_samples", call, number)
    assert model.sample_functions(np.int32(3))(X).shape[-1] == 3
    assert model.sample_y(X, np.int32(3)).shape[1] == 3
    draws = model.sample_functions(2)
    far = X / np.max(np.abs(X))
    for call in (draws, draws.at, draws.value_and_grad):
        refused(r"X must be at most 1e\+120", call, 1.01e120 * far)
    assert np.all(np.isfinite(draws(0.98e120 * far)))


def test_numbers_that_are_nan_or_complex_are_refused():
    distribution = fitted("pls").predict_dist(X)
    for method in ("cdf", "crps", "log_density"):
        refused("NaN", getattr(distribution, method), with_value(Y, np.nan))
        refused("complex", getattr(distribution, method), Y + 1.0j)
    refused("infinity", distribution.cdf, np.inf)
    interval = np.column_stack((Y - 1.0, Y + 1.0))
    refused("coverage", metrics.interval_score, Y, interval, coverage=np.nan)
    refused("coverage", fitted("pls").predict_interval, X, np.nan)
    refused("complex", metrics.interval_score, Y + 1.0j, interval)
    refused("complex", metrics.interval_score, Y, interval + 1.0j)
    refused("n_basis", SpectralVGPRegressor(n_basis=100_000).fit, X, Y)


def test_probabilities_that_are_refused():
    intervals = [fitted(name).predict_interval for name in ("pls", "tempered")]
    for coverage in (0, 95, "0.9", [0.5, 0.9]):
        for function in (*intervals, fitted("spectral").credible_band):
            refused("coverage", function, X, coverage=coverage)
        refused("coverage", metrics.interval_score, Y, np.c_[Y, Y], coverage=coverage)
    message, function = (
        "could not convert|quantiles must",
        fitted("pls").predict_quantiles,
    )
    for quantiles in ("median", None, [], [0.5, "a"], [0.1, 2.0]):
        refused(message, function, X, quantiles)


def test_models_that_are_no_models_of_the_same_kind():
    for name in ("spectral", "stein"):
        for other in (fitted("pls"), type(fitted(name))):
            refused("merge expects another .*Regressor", fitted(name).merge, other)
    with pytest.raises(TypeError):
        1 + fitted("spectral")


class Unregistered(RBF):
    """A kernel of which the library knows its matrix only."""


def test_optima_of_draws_name_the_function_that_registers():
    model = PLSRegressor(Unregistered(), optimizer=None, **PLS).fit(X, Y)
    box = [[-1.0, 1.0]] * 2
    message = r"spectral_sampler=.*Extending"
    refused(message, model.sample_functions(2).minimize, box, n_mesh=64)
    refused("n_starts", fitted("decoupled").sample_functions().minimize, box, 0)


# ---- Answered ------------------------------------------------------------------------


def answers(model, X, y):
    """Every prediction at the training rows and far away from them."""
    X = np.asarray(X, dtype=np.float64)
    far = X[:1] + 100.0 * np.max(np.abs(X), initial=1e-300)
    rows = np.vstack([X[:5], far])
    found = [model.sample_y(rows, 2), model.log_predictive_density(X, y)]
    found += [model.sample_functions(2, random_state=0)(rows)]
    if is_classifier(model):
        return [*found, model.predict_proba(rows), *model.latent_mean_and_variance(X)]
    return [*found, *model.predict(rows, return_std=True), model.predict_quantiles(X)]


def assert_finite(name, X, y, **parameters):
    """Fit and predict; return the model."""
    model = clone(CASES[name][0]).set_params(**parameters)
    before = np.array(X), np.array(y)
    model.fit(X, y)
    for answer in answers(model, X, y):
        assert answer.dtype.kind != "f" or np.all(np.isfinite(answer))
    assert_array_equal(np.array(X), before[0])
    assert_array_equal(np.array(y), before[1])
    return model


@pytest.mark.parametrize("name", LATENT)
def test_rows_of_every_shape_and_size_are_answered(name):
    y = CASES[name][1]
    rows = np.unique(y, return_index=True)[1] if "classes" in name else np.arange(2)
    if name != "gwi classes":
        assert_finite(name, X[rows], y[rows])
    for inputs in (
        X[:, :1],
        np.column_stack([X, np.ones(20)]),
        np.full((20, 2), 3.0),
        np.repeat(X[:2], 10, axis=0),
        X + 1e8,
        X * [1e9, 1e-9],
    ):
        assert_finite(name, inputs, y)
    usual = fitted(name).predict(X)
    for scale in (1e-12, 1e12):
        # the same model in other units, up to rounding that a search may amplify
        scaled = assert_finite(name, scale * X, y)
        assert_allclose(scaled.predict(scale * X), usual, atol=0.3)


@pytest.mark.parametrize("name", [name for name in LATENT if name in REAL])
def test_targets_of_every_size_are_answered(name):
    for value in (0.0, 3.0):
        model = assert_finite(name, X, np.full(20, value))
        assert_allclose(model.predict(X).mean(), value, atol=0.7)
    assert_finite(name, X, Y + 1e8)
    usual = fitted(name).predict(X)
    for scale in (1e-100, 1e-12, 1e12, 1e100):
        scaled = assert_finite(name, X, scale * Y)
        assert_allclose(scaled.predict(X) / scale, usual, atol=0.3)
    objects = clone(CASES[name][0]).fit(X, Y.astype(object))
    assert_array_equal(objects.predict(X), usual)


def test_counts_and_outliers():
    for link in ("softplus", "square"):
        given = {"likelihood": Poisson(link)}
        assert_finite("counts", X, 1000.0 * COUNTS, **given)
        assert_finite("counts", X, (np.arange(20) == 4).astype(float), **given)
        for bad in (-1.0, 0.5):
            model = clone(CASES["counts"][0]).set_params(**given)
            refused("Poisson expects y", model.fit, X, with_value(COUNTS, bad))
    y = with_value(Y, 1e6)
    model = assert_finite("student", X, y)
    assert np.abs(np.delete(model.predict(X) - Y, 3)).max() < 1.0


KINDS = {
    "float32": lambda a: a.astype(np.float32),
    "big-endian": lambda a: a.astype(">f8"),
    "int32": lambda a: a.astype("<i4"),
    "F-order": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "list": lambda a: a.tolist(),
    "object": lambda a: a.astype(object),
}


@pytest.mark.parametrize("name", ["pls", "gwi around", "classes"])
def test_kinds_of_arrays(name):
    y = np.round(CASES[name][1])
    rows = np.round(4.0 * X)
    how = {"kernel": RBF(2.0), "optimizer": None}
    model = clone(CASES[name][0]).set_params(**how)
    plain = clone(model).fit(rows, y)
    # models of others see other types and orders
    close = {"rtol": 1e-4, "atol": 1e-4} if "around" in name else {"rtol": 0.0}
    for convert in KINDS.values():
        # scikit-learn refuses classes in arrays of type object
        targets = y if name == "classes" else convert(y)
        other = clone(model).fit(convert(rows), targets)
        for one, two in zip(answers(other, X, y), answers(plain, X, y), strict=True):
            assert one.dtype == two.dtype
            assert_allclose(one, two, **close)
    read_only = rows.copy(), np.array(y)
    for array in read_only:
        array.setflags(write=False)
    assert_finite(name, *read_only, **how)


def test_kinds_of_labels():
    model = clone(CASES["classes"][0]).set_params(**FIXED)
    plain, names = clone(model).fit(X, THREE), np.array(["a", "b", "c"])[THREE]
    categories = pd.Series(names, dtype="category")
    for labels in (names, names.astype(object), categories, THREE - 7):
        other = clone(model).fit(X, labels)
        assert_array_equal(other.predict_proba(X), plain.predict_proba(X))
        assert_allclose(np.exp(other.predict_log_proba(X)), other.predict_proba(X))
        assert_array_equal(other.predict(X), np.unique(labels)[plain.predict(X)])
        assert_array_equal(
            other.log_predictive_density(X, labels),
            plain.log_predictive_density(X, THREE),
        )
        assert set(other.sample_y(X, 2).ravel()) <= set(labels)
    refused("classes", plain.log_predictive_density, X, THREE + 5)


@pytest.mark.parametrize(
    "model",
    [
        PLSClassifier(tol=9.0, random_state=0, **FIXED),
        GWIClassifier("svgp", random_state=0, **FIXED),
        GWIClassifier(LogisticRegression(), random_state=0, **FIXED),
    ],
    ids=["pls", "gwi", "around"],
)
def test_missing_labels_are_refused(model):
    names = np.array(["a", "b"], dtype=object)[np.arange(20) % 2]
    known = clone(model).fit(X, names)
    message = r"1 of 20 are missing \(None or NaN\). Drop their rows"
    for missing in (None, np.nan, pd.NA):
        labels = names.copy()
        labels[3] = missing
        for y in (labels, labels.tolist(), pd.Series(labels, dtype="category")):
            refused(message, clone(model).fit, X, y)
            refused(message, known.score, X, y)
            refused(message, known.log_predictive_density, X, y)
            refused(message, known.report, X, y)
    unknown = np.where(np.arange(20) == 3, np.nan, THREE)
    refused(message, clone(model).fit, X, unknown)


def test_text_among_targets_is_refused():
    text = np.array(["a", "b"])[np.arange(20) % 2]
    for model in (PLSRegressor(), SpectralVGPRegressor(), ExactGPRegressor()):
        for y in (text, text.astype(object)):
            refused("convert string.*for labels use a classifier", model.fit, X, y)


# ---- Seeds, searches, fitted means, several targets ----------------------------------


@pytest.mark.parametrize("name", [name for name in CASES if name != "tempered"])
def test_calls_without_a_seed_use_that_of_the_estimator(name):
    model = fitted(name)
    for seed in (0, 1):
        model.set_params(random_state=seed)
        assert_array_equal(model.sample_y(X), model.sample_y(X, random_state=seed))
        draws = [model.sample_functions(random_state=s)(X) for s in (None, seed)]
        assert_array_equal(*draws)
    model.set_params(random_state=0)


def test_several_targets_have_one_distribution_each():
    pair = np.column_stack((Y, X[:, 1] + 0.1 * rng.standard_normal(20)))
    each = MultiOutputRegressor(BayesianRidge())
    model = make_pipeline(StandardScaler(), each).fit(X, pair)
    found = skgpx.predict_dist(model, X)
    means = np.column_stack([one.mean() for one in found])
    assert_allclose(means, model.predict(X))
    scores = [-np.mean(one.crps(pair[:, j])) for j, one in enumerate(found)]
    scorer = metrics.neg_crps_scorer
    assert_allclose(scorer(model, X, pair), np.mean(scores))
    assert cross_val_score(model, X, pair, scoring=scorer, cv=2).max() < 0.0
    held_out = skgpx.cross_val_predict_dist(model, X, pair, cv=3)
    assert [one.mean().shape for one in held_out] == [(20,), (20,)]


@pytest.mark.parametrize(
    "model",
    [PLSRegressor(), SpectralVGPRegressor(), GWIRegressor(), ExactGPRegressor()],
    ids=lambda one: type(one).__name__,
)
def test_lengthscales_beyond_the_range_of_numbers_are_refused(model):
    x = 1e119 * np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    with pytest.raises(ValueError, match=r"The lengthscales of.*column 0, which spans"):
        clone(model).set_params(kernel=RBF(1e-300)).fit(x, np.arange(20.0))


BAD_KERNELS = {
    "NaN": (RBF(np.nan), "positive and finite"),
    "infinite": (ConstantKernel(np.inf) * RBF(), "positive and finite"),
    "negative": (RBF(-1.0), "positive and finite"),
    "one negative": (RBF([1.0, -1.0]), "positive and finite"),
    "without amplitude": (ConstantKernel(0.0) * RBF(), "positive and finite"),
    "fixed": (ConstantKernel(0.0, "fixed") * RBF(), "positive variance"),
    "NaN inside": (Matern(nu=100.0), "finite between equal inputs"),
    "cycles": (ExpSineSquared() + RBF(), "several columns"),
}
WITH_KERNEL = [name for name, (one, _) in CASES.items() if hasattr(one, "kernel")]


@pytest.mark.parametrize("optimizer", ["evidence", None])
@pytest.mark.parametrize("name", [*WITH_KERNEL, "decoupled"])
def test_kernels_that_are_refused(name, optimizer):
    estimator, y = CASES[name]
    for kernel, message in BAD_KERNELS.values():
        model = clone(estimator)
        if name == "decoupled":
            model.set_params(estimator__kernel=kernel)
        else:
            model.set_params(kernel=kernel, optimizer=optimizer)
        refused(f"{message}|is infinite or NaN between equal", model.fit, X, y)
        assert not hasattr(model, "n_features_in_")


@cases
def test_weights_of_every_size_are_refused_or_answered(name):
    estimator, y = CASES[name]
    if name == "decoupled":
        return
    for size in (1e-300, 1e300):
        weights = with_value(np.ones(20), size)
        refused("are frequencies", clone(estimator).fit, X, y, sample_weight=weights)
