"""GWIRegressor around regressors of others."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skgpx import GWIClassifier, GWIRegressor
from skgpx.exceptions import FitWarning

# a mean that is worse than the process is a finding
pytestmark = pytest.mark.filterwarnings("ignore:At held-out", "ignore:Residuals are")
rng = np.random.default_rng(0)
N, NOISE = 120, 0.2
X = rng.uniform(-2.0, 2.0, size=(N, 2))
Y = 10.0 + 3.0 * (np.sin(2.0 * X[:, 0]) + NOISE * rng.standard_normal(N))
NEW = rng.uniform(-2.0, 2.0, size=(30, 2))
FAR = 50.0 * NEW
KERNEL = ConstantKernel(1.0) * RBF(0.7)
TREE = DecisionTreeRegressor(max_depth=4, random_state=0)
# no search, which most tests do not look at
FAST = {"kernel": KERNEL, "optimizer": None, "random_state": 0}


def around(mean, **options):
    return GWIRegressor(mean, **FAST | options)


def outputs(model, rows=NEW):
    weights = model.predict_dist(rows)
    return [
        *model.predict(rows, return_std=True),
        model.predict_interval(rows, 0.95),
        model.sample_y(rows, 2, random_state=0),
        model.sample_functions(2, random_state=0)(rows),
        weights.log_density(weights.mean()),
    ]


def assert_same(one, other, rows=NEW, **tolerance):
    for a, b in zip(outputs(one, rows), outputs(other, rows), strict=True):
        if tolerance:
            assert_allclose(a, b, **tolerance)
        else:
            assert_array_equal(a, b)


def test_the_mean_is_that_of_a_clone_fitted_to_all_rows():
    model = around(TREE).fit(X, Y)
    assert_allclose(model.predict(NEW), clone(TREE).fit(X, Y).predict(NEW), rtol=1e-12)
    assert model.mean_model_ is not TREE
    assert not hasattr(TREE, "tree_")
    # a tree to the last leaf has no error on rows that it has seen
    model = around(DecisionTreeRegressor(random_state=0)).fit(X, Y)
    assert np.allclose(model.predict(X), Y)
    assert model.noise_variance_ > (3.0 * NOISE) ** 2


@pytest.mark.parametrize("mean", ["net", "svgp", BayesianRidge(), TREE])
def test_far_away_the_standard_deviation_is_the_prior_s(mean):
    model = around(mean, max_iter=20, noise_variance=1.0).fit(X, Y)
    std = model.predict(FAR, return_std=True, include_noise=False)[1]
    assert_allclose(std, np.std(Y), rtol=1e-6)
    near = model.predict(NEW, return_std=True, include_noise=False)[1]
    assert np.mean(near) < 0.5 * np.std(Y)


def test_groups_make_errors_honest():
    groups = np.repeat(np.arange(12), 10)
    level = np.random.default_rng(2).standard_normal(12)[groups]
    x = np.column_stack((level, X[:, 0]))
    y = np.random.default_rng(3).standard_normal(12)[groups] + 0.1 * Y
    blind = around(TREE).fit(x, y)
    honest = clone(blind).set_params(cv=GroupKFold(4)).fit(x, y, groups=groups)
    assert honest.noise_variance_ > 2.0 * blind.noise_variance_


def test_a_mean_that_is_much_worse_than_the_process_is_a_finding():
    fresh = np.random.default_rng(0)
    x = fresh.uniform(-2.0, 2.0, size=(300, 1))
    y = np.sin(4.0 * x[:, 0]) + 0.1 * fresh.standard_normal(300)
    with pytest.warns(FitWarning, match="of the Gaussian process alone"):
        model = GWIRegressor(LinearRegression(), random_state=0).fit(x, y)
    assert "base model" in [one.check for one in model.findings_]
    # its error is the noise
    std = model.predict(x, return_std=True)[1]
    assert 0.8 < np.mean(std) / np.std(y - model.predict(x)) < 1.2


def test_draws_are_functions_around_the_mean():
    model = around(make_pipeline(StandardScaler(), BayesianRidge())).fit(X, Y)
    draws = model.sample_functions(400, random_state=0)
    values = draws(NEW)
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    assert np.all(np.abs(values.mean(axis=1) - mean) < 4.5 * std / np.sqrt(400) + 1e-9)
    assert_array_equal(draws(NEW[3:5]), values[3:5])
    value, gradient = draws[:2].value_and_grad(NEW[:4])
    step = 1e-5 * np.array([1.0, 0.0])
    slope = (draws[:2](NEW[:4] + step) - draws[:2](NEW[:4] - step)) / 2e-5
    assert_allclose(gradient[:, :, 0], slope, rtol=1e-4, atol=1e-4)
    assert_allclose(value, values[:4, :2])


def test_intervals_cover_inside_and_wider_than_a_constant_outside():
    fresh = np.random.default_rng(3)
    x = fresh.uniform(-3.0, 3.0, size=(1500, 2))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.2 * fresh.standard_normal(1500)
    mean = HistGradientBoostingRegressor(max_iter=40, random_state=0)
    outer = x[:, 1] > 1.8
    inner = ~outer & (np.arange(1500) % 3 == 0)
    # as rough as boosting
    kernel = ConstantKernel() * Matern(np.ones(2), nu=0.5)
    model = GWIRegressor(mean, kernel, random_state=0).fit(x[inner], y[inner])
    folds = cross_val_predict(mean, x[inner], y[inner], cv=KFold(5, shuffle=True))
    constant = np.sqrt(np.mean((y[inner] - folds) ** 2))
    covered = []
    for rows in (~outer & ~inner, outer):
        middle, std = model.predict(x[rows], return_std=True)
        z = np.abs(y[rows] - middle)[:, None] / np.column_stack(
            (std, np.full(len(std), constant))
        )
        covered.append(np.mean(z < 1.96, axis=0))
    (inside, _), (weights, flat) = covered
    assert abs(inside - 0.95) < 0.04
    assert weights > flat


# ---- Who is fitted -------------------------------------------------------------------


def test_a_frozen_mean_is_never_fitted():
    fitted = clone(TREE).fit(X[:60], Y[:60])
    tree = fitted.tree_
    model = around(FrozenEstimator(fitted), cv="prefit").fit(X[60:], Y[60:])
    assert fitted.tree_ is tree
    assert_allclose(model.predict(NEW), fitted.predict(NEW))
    with pytest.raises(NotFittedError):
        around(FrozenEstimator(clone(TREE)), cv="prefit").fit(X, Y)
    with pytest.warns(UserWarning, match="was not fitted to"):
        around(FrozenEstimator(fitted)).fit(X, Y)


@pytest.mark.parametrize(
    "mean",
    [
        RandomForestRegressor(5),
        MLPRegressor(hidden_layer_sizes=(5,), max_iter=20),
        GridSearchCV(RandomForestRegressor(3), {"max_depth": [1, 3]}, cv=2),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_seed_for_everything(mean):
    one, other = (around(mean).fit(X, Y) for _ in range(2))
    assert_same(one, other)
    another = around(mean, random_state=1).fit(X, Y)
    assert not np.array_equal(one.predict(NEW), another.predict(NEW))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_same_bits_for_every_number_of_workers(backend):
    # a forest adds up its trees in the order in which threads finish
    mean = DecisionTreeRegressor(max_features=1, random_state=0)
    one = around(mean, n_jobs=1).fit(X, Y)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert_same(one, around(mean).fit(X, Y))


@pytest.mark.parametrize("mean", [BayesianRidge(), TREE, KNeighborsRegressor(3)])
def test_weights_are_repetitions_in_any_order(mean):
    draw = np.random.default_rng(1)
    weights = draw.integers(0, 4, size=N)
    repeated = draw.permutation(np.repeat(np.arange(N), weights))
    one = around(mean).fit(X, Y, sample_weight=weights)
    assert_same(one, around(mean).fit(X[repeated], Y[repeated]))


@pytest.mark.parametrize("cv", [None, 4, np.int64(4)])
def test_groups_are_kept_together_without_a_splitter(cv):
    groups = np.repeat(["a", "b", "c", "d", "e", "f"], 20)
    splitter = GroupKFold(5 if cv is None else 4)
    one = around(TREE, cv=cv).fit(X, Y, groups=groups)
    assert_same(one, around(TREE, cv=splitter).fit(X, Y, groups=groups))
    few = around(TREE, cv=cv).fit(X, Y, groups=np.arange(N) % 4)
    assert few.noise_variance_ > 0.0
    with pytest.raises(ValueError, match="number of groups"):
        around(TREE, cv=cv).fit(X, Y, groups=np.zeros(N))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        around(TREE, cv=cv).fit(X, Y, groups=np.arange(7))
    for mean in ("net", "svgp"):
        with pytest.raises(ValueError, match="groups are for means that are estima"):
            around(mean).fit(X, Y, groups=np.arange(N))


# ---- Tables --------------------------------------------------------------------------


def table(seed, n=120):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(draw.choice(["a", "b", "c"], n)),
            "x": draw.uniform(-2.0, 2.0, n),
            "flag": draw.random(n) < 0.5,
            "count": draw.integers(0, 5, n),
        }
    )
    frame.loc[draw.random(n) < 0.1, "x"] = np.nan
    y = frame["kind"].cat.codes + np.sin(frame["x"].fillna(0.0)) + frame["flag"]
    return frame, y.to_numpy(dtype=float) + 0.1 * draw.standard_normal(n)


ENCODE = make_column_transformer(
    (OneHotEncoder(), ["kind"]),
    remainder=make_pipeline(SimpleImputer(), StandardScaler()),
)
BOOSTING = HistGradientBoostingRegressor(
    max_iter=20, min_samples_leaf=5, categorical_features="from_dtype", random_state=0
)


@pytest.mark.parametrize(
    ("mean", "options"),
    [
        (BOOSTING, {"kernel_features": ENCODE}),
        (make_pipeline(ENCODE, TREE), {}),
        (make_pipeline(ENCODE, StandardScaler(), BayesianRidge()), {}),
    ],
)
def test_tables_with_categories_and_missing_values(mean, options):
    frame, y = table(0)
    new, _ = table(1, 30)
    model = around(mean, **options).fit(frame, y)
    assert_allclose(model.predict(new), clone(mean).fit(frame, y).predict(new))
    for values in outputs(model, new):
        assert np.all(np.isfinite(values))
    draws = model.sample_functions(3, random_state=0)
    assert_array_equal(draws(new)[4:6], draws(new[4:6]))
    assert model.inducing_points_.shape[1] == 6
    assert model.score(frame, y) > 0.8
    assert_same(model, pickle.loads(pickle.dumps(model)), new)
    with pytest.raises(ValueError, match="not differentiated"):
        draws.value_and_grad(new)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(new[["x", "kind", "flag", "count"]])


def test_a_category_that_was_not_seen_is_missing():
    """And nobody warns of it: the mean sees what it would be given as missing."""
    frame, y = table(0)
    features = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        remainder=make_pipeline(SimpleImputer(), StandardScaler()),
    )
    model = around(BOOSTING, kernel_features=features).fit(frame, y)
    new, _ = table(1, 30)
    kinds = new["kind"].astype(object)
    kinds[3] = "never seen"
    mean, std = model.predict(new.assign(kind=kinds), return_std=True)
    expected, known_std = model.predict(new, return_std=True)
    others = np.arange(30) != 3
    assert_array_equal(mean[others], expected[others])
    assert_allclose(std[others], known_std[others])
    missing = new.assign(kind=new["kind"].where(others))
    assert mean[3] == model.predict(missing)[3]
    assert std[3] > 0.0


def test_without_numbers_for_the_kernel_it_is_refused():
    frame, y = table(0)
    for mean in (BOOSTING, make_pipeline(BOOSTING)):
        with pytest.raises(ValueError, match="kernel_features"):
            around(mean).fit(frame, y)
    unchanged = make_pipeline("passthrough")
    with pytest.raises(ValueError, match="finite numbers"):
        around(BOOSTING, kernel_features=unchanged).fit(frame[["x"]], y)


def test_categories_are_codes_for_the_kernel_and_themselves_for_the_mean():
    frame, y = table(0)
    frame, y = frame[frame["x"].notna()], y[frame["x"].notna()]
    new = table(1)[0].dropna()
    model = GWIRegressor(BOOSTING, optimizer=None, random_state=0).fit(frame, y)
    mean = clone(BOOSTING).fit(frame, y)
    assert_allclose(model.predict(new), mean.predict(new), rtol=1e-12)
    # the process is that of the same rows and mean, given codes
    kernel = model.kernel_
    assert "Categorical" in str(kernel)
    codes = frame.assign(kind=frame["kind"].cat.codes)
    given = GWIRegressor(ByCodes(BOOSTING), kernel, optimizer=None, random_state=0)
    given.fit(codes, y)
    stds = model.predict(new, return_std=True)[1]
    new_codes = new.assign(kind=new["kind"].cat.codes)
    assert_allclose(given.predict(new_codes, return_std=True)[1], stds, rtol=1e-9)
    restored = pickle.loads(pickle.dumps(model))
    assert_array_equal(restored.predict(new, return_std=True)[1], stds)
    # functions of such tables
    draws = model.sample_functions(2, random_state=0)
    assert_allclose(draws(new)[3:5], draws(new[3:5]), atol=1e-8)
    with pytest.raises(ValueError, match="must hold the categories"):
        model.predict(new.assign(kind=pd.Categorical(["d"] * len(new))))
    with pytest.raises(ValueError, match="missing values"):
        model.predict(new.assign(kind=new["kind"].where(new["x"] > 0.0)))
    with pytest.raises(ValueError, match="for numbers"):
        around(BOOSTING).fit(frame, y)
    classifier = GWIClassifier(
        HistGradientBoostingClassifier(max_iter=5, random_state=0), optimizer=None
    )
    classifier.fit(frame, y > np.median(y))
    assert classifier.predict_proba(new).shape == (len(new), 2)


class ByCodes(RegressorMixin, BaseEstimator):
    """A regressor of a table of categories, which is given their codes."""

    def __init__(self, regressor):
        self.regressor = regressor

    def _decoded(self, codes):
        kinds = pd.Categorical.from_codes(codes["kind"].astype(int), list("abc"))
        return codes.assign(kind=kinds)

    def fit(self, X, y, sample_weight=None):
        self.fitted_ = clone(self.regressor)
        self.fitted_.fit(self._decoded(X), y, sample_weight)
        return self

    def predict(self, X):
        return self.fitted_.predict(self._decoded(X))


def test_what_is_kept_of_a_frame_is_plain():
    """Files without pickles hold types, names and arrays."""
    frame, y = table(0)
    frame["kind"] = frame["kind"].cat.as_ordered()
    frame = frame.assign(code=pd.array([1, None] * 60, dtype="Int64"))
    form = around(BOOSTING, kernel_features=ENCODE).fit(frame, y)._form
    _, columns = form.__getstate__()["empty"]
    for column in columns:
        for part in column:
            assert isinstance(part, str | bool | np.ndarray | None)
    restored = pickle.loads(pickle.dumps(form)).empty
    pd.testing.assert_frame_equal(restored, frame[:0], check_index_type=False)


def test_frames_of_numbers_keep_gradients():
    frame = pd.DataFrame(X, columns=["a", "b"])
    mean = make_pipeline(make_column_transformer((StandardScaler(), ["a"])), TREE)
    model = around(mean).fit(frame, Y)
    draws = model.sample_functions(2, random_state=0)
    assert draws.value_and_grad(NEW)[1].shape == (30, 2, 2)
    assert_allclose(model.predict(frame), mean.fit(frame, Y).predict(frame))


def text(rows):
    return np.asarray(rows).astype(str)


BY_TEXT = make_pipeline(
    FunctionTransformer(text), OneHotEncoder(handle_unknown="ignore"), Ridge(1e-3)
)
CODES = np.random.default_rng(8).integers(0, 6, size=(N, 2))
OF_CODES = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])[CODES].sum(axis=1)


@pytest.mark.parametrize("dtype", [int, np.uint8, bool, np.float32, str, object])
def test_the_mean_gets_columns_of_the_type_it_was_fitted_to(dtype):
    codes, y = CODES, OF_CODES
    if dtype is bool:
        codes, y = CODES > 2, np.where(CODES > 2, 5.0, 1.0).sum(axis=1)
    rows = codes.astype(dtype)
    features = FunctionTransformer(lambda a: np.asarray(a).astype(float))
    model = around(BY_TEXT, kernel_features=features).fit(rows, y)
    assert model.score(rows, y) > 0.99
    assert_allclose(model.predict(rows[:1]), model.predict(rows)[:1])
    if dtype is not object:
        frame = pd.DataFrame(rows, columns=["a", "b"]).assign(c=0.5)
        assert model.fit(frame, y).score(frame, y) > 0.99


@pytest.mark.parametrize("extension", ["Int64", "boolean", "Float64", int, bool])
@pytest.mark.parametrize("holes", [False, True])
def test_columns_of_mixed_tables_keep_their_types(extension, holes):
    seen = []

    def look(frame):
        seen.append(frame.dtypes.astype(str).tolist())
        return np.column_stack([frame["a"].isna(), frame["b"]])

    whole = CODES[:, 0] > 2 if extension in ("boolean", bool) else CODES[:, 0]
    frame = pd.DataFrame({"a": whole, "b": X[:, 1], "c": "text"})
    frame["a"] = frame["a"].astype(extension)
    if holes and isinstance(extension, str):
        frame.loc[::7, "a"] = pd.NA
    mean = make_pipeline(FunctionTransformer(look), BayesianRidge())
    model = around(mean, kernel_features=FunctionTransformer(look)).fit(frame, Y)
    assert np.all(np.isfinite(model.predict(frame, return_std=True)))
    assert all(types == seen[0] for types in seen)
    if extension is int:
        model.predict(frame.assign(a=np.where(frame["a"] > 1, 0.5, np.nan)))
        assert seen[-1][0] == "float64"


# ---- Hostile inputs ------------------------------------------------------------------


def test_variances_without_errors_stay_numbers():
    # trees of a function without noise; its search overflowed
    fresh = np.random.default_rng(0)
    x = fresh.uniform(-2.0, 2.0, size=(250, 2))
    y = np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 0] * x[:, 1]
    mean = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    model = GWIRegressor(mean, hyperparameters="maximise", random_state=0).fit(x, y)
    assert 0.0 < model.noise_variance_ < 0.3 * np.var(y)


def test_what_is_no_regressor_is_refused():
    for mean, message in (
        (StandardScaler(), "mean"),
        ("boosting", "mean"),
        (BayesianRidge, "mean"),
        (LogisticRegression(), "must be a regressor; got the classifier"),
        (make_pipeline(LogisticRegression()), "Use GWIClassifier"),
    ):
        with pytest.raises(ValueError, match=message):
            around(mean).fit(X, Y)


class Partly(RegressorMixin, BaseEstimator):
    """Predicts no number beyond a limit."""

    def __init__(self, limit=1.0, value=np.nan):
        self.limit, self.value = limit, value

    def fit(self, X, y):
        self.level_ = np.mean(y)
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.limit, self.value, self.level_)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_means_that_predict_no_numbers_are_named(value):
    message = r"finite numbers; Partly.* predicts NaN or infinity at"
    with pytest.raises(ValueError, match=message):
        around(Partly(value=value)).fit(X, Y)
    model = around(Partly(10.0, value)).fit(X, Y)
    assert np.all(np.isfinite(model.predict(X, return_std=True)))
    for method in (model.predict, model.predict_dist):
        with pytest.raises(ValueError, match=message):
            np.asarray(method([[11.0, 0.0]]).mean())


class Counting(RegressorMixin, BaseEstimator):
    """A plane that counts the rows which it predicts; also of two classes."""

    rows = 0

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        Counting.rows += len(X)
        return X @ [1.0, 0.5]

    def predict_proba(self, X):
        p = 1.0 / (1.0 + np.exp(-self.predict(X)))
        return np.column_stack((1.0 - p, p))


@pytest.fixture(scope="module", params=[GWIRegressor, GWIClassifier])
def averaged(request):
    y = Y if request.param is GWIRegressor else np.median(Y) < Y
    options = {"hyperparameters": "average", "random_state": 0}
    model = request.param(Counting(), 1.0 * RBF(1.0), **options)
    model.fit(X[:40], np.asarray(y[:40], dtype=np.float64))
    assert len(model.posterior_.models) > 3
    return model


def of_regressor(model):
    yield lambda: model.predict(NEW)
    yield lambda: model.predict(NEW, return_std=True)
    yield lambda: model.predict(NEW, return_cov=True)
    yield lambda: model.predict_interval(NEW)
    yield lambda: model.sample_y(NEW, 20)
    yield lambda: model.predict_dist(NEW).log_density(np.zeros(len(NEW)))
    yield lambda: model.predict_dist(NEW).crps(np.zeros(len(NEW)))


def of_classifier(model):
    yield lambda: model.predict(NEW)
    yield lambda: model.predict_proba(NEW)


def test_averaged_states_evaluate_the_mean_once(averaged):
    draws = averaged.sample_functions(20, random_state=0)
    posterior = averaged.posterior_
    zeros, noise = np.zeros((len(NEW), 1)), np.ones(len(NEW))
    is_regressor = isinstance(averaged, GWIRegressor)
    routes = list((of_regressor if is_regressor else of_classifier)(averaged))
    routes.append(lambda: draws(NEW))
    routes.append(lambda: posterior.condition(NEW, zeros, noise))
    for route in routes:
        Counting.rows = 0
        route()
        assert Counting.rows == len(NEW)
    # a row, and 2 d neighbours of it for differences
    Counting.rows = 0
    draws.value_and_grad(NEW[:3])
    assert Counting.rows == (1 + 2 * 2) * 3


def test_averaged_states_have_the_mean_of_each(averaged):
    posterior = averaged.posterior_
    latent = posterior.marginals(NEW)
    expected = NEW @ [[1.0], [0.5]]
    if isinstance(averaged, GWIClassifier):
        expected = posterior.mean(NEW)
    for k, model in enumerate(posterior.models):
        mean = expected[..., k] if expected.ndim == 3 else expected
        assert_allclose(latent.mean[..., k], mean, rtol=1e-9, atol=1e-9)
        # these models are around zero
        assert_allclose(model.marginals(NEW).mean, 0.0, atol=1e-12)
    draws = posterior.draw(3000, np.random.default_rng(0)).values(NEW)[:, 0]
    mean, variance = latent.moments()
    z = (draws.mean(axis=1) - mean[:, 0]) / np.sqrt(variance[:, 0] / 3000)
    assert np.max(np.abs(z)) < 4.5
    assert_allclose(np.diag(posterior.covariance(NEW)), variance[:, 0], rtol=1e-9)
    given = posterior.condition(NEW[:2], np.ones((2, 1)), np.full(2, 1e-6))
    assert_allclose(given.marginals(NEW[:2]).moments()[0], 1.0, atol=1e-3)
