"""Bad input: a finite answer or an error that says what to do, and nothing mutated."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx import GWIClassifier, GWIRegressor, PLSClassifier, PLSRegressor
from skgpx.likelihoods import Poisson, RobustMax, ShiftedMixture, StudentT

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FAST = {"n_inducing": 6, "n_particles": 6, "tol": 3.0, "random_state": 0}
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression())
NETWORKS = {"n_restarts": 2, "max_iter": 100, "random_state": 0}
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 2))
F = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
Y = F + 0.1 * rng.normal(size=20)
COUNTS = rng.poisson(np.exp(F)).astype(float)
LABELS = (Y > 0.0).astype(int)
THREE = np.digitize(Y, [-0.4, 0.4])

CASES = {
    "gaussian": (PLSRegressor(**FAST), Y),
    "student": (PLSRegressor(likelihood=StudentT(), **FAST), Y),
    "shifted": (PLSRegressor(likelihood=ShiftedMixture(0.5), **FAST), Y),
    "poisson": (PLSRegressor(likelihood=Poisson(), **FAST), COUNTS),
    "exp": (PLSRegressor(likelihood=Poisson("exp"), **FAST), COUNTS),
    "square": (PLSRegressor(likelihood=Poisson("square"), **FAST), COUNTS),
    "gwi": (GWIRegressor(n_restarts=2, max_iter=300, random_state=0), Y),
    "gwi-svgp": (GWIRegressor("svgp", random_state=0), Y),
    "gwi-around": (GWIRegressor(LinearRegression(), random_state=0), Y),
    "binary": (PLSClassifier(**FAST), LABELS),
    "multiclass": (PLSClassifier(**FAST), THREE),
    "gwi-binary": (GWIClassifier(**NETWORKS), LABELS),
    "gwi-multiclass": (GWIClassifier(likelihood=RobustMax(), **NETWORKS), THREE),
    "gwi-around-classes": (GWIClassifier(LOGISTIC, random_state=0), THREE),
}
CLASSES = [case for case, (estimator, _) in CASES.items() if is_classifier(estimator)]
cases = pytest.mark.parametrize("case", CASES)
regression = pytest.mark.parametrize(
    "case", ["gaussian", "student", "shifted", "gwi", "gwi-svgp", "gwi-around"]
)
counts = pytest.mark.parametrize("case", ["poisson", "exp", "square"])
one_of_each = pytest.mark.parametrize(
    "case",
    [
        "gaussian",
        "poisson",
        "gwi",
        "gwi-around",
        "binary",
        "gwi-binary",
        "gwi-around-classes",
    ],
)
SCALES = [1e-12, 1e12]


def answers(model, X, y):
    """Every prediction at the training rows and far away from them."""
    X = np.asarray(X, dtype=np.float64)
    far = X[:1] + 100.0 * np.max(np.abs(X), initial=1e-300)
    rows = np.vstack([X[:5], far])
    found = [getattr(model, "particles_", X), model.sample_y(rows, 2)]
    found += [model.sample_functions(2, random_state=0)(rows)]
    found += [model.log_predictive_density(X, y)]
    if is_classifier(model):
        return [
            *found,
            model.predict_proba(rows),
            *model.latent_mean_and_variance(rows),
        ]
    found += [*model.predict(rows, return_std=True), model.predict_quantiles(rows)]
    if model.likelihood_.location_scale:
        found.append(model.predict(rows, return_cov=True)[1])
    return found


def assert_finite(case, X, y, **parameters):
    """Fit and predict; return the model."""
    model = clone(CASES[case][0]).set_params(**parameters)
    X_before, y_before = np.array(X), np.array(y)
    model.fit(X, y)
    for answer in answers(model, X, y):
        if answer.dtype.kind == "f":
            assert np.all(np.isfinite(answer))
    assert_array_equal(np.array(X), X_before)
    assert_array_equal(np.array(y), y_before)
    return model


def assert_same(case, one, two):
    """Equal; around models of others, which see other types and orders, nearly."""
    if "around" in case:
        assert_allclose(one, two, rtol=1e-4, atol=1e-4)
    else:
        assert_array_equal(one, two)


@cache
def usual(case):
    """Predictions in usual units."""
    estimator, y = CASES[case]
    return clone(estimator).fit(X, y).predict(X)


# ---- Refused ---------------------------------------------------------------------


@one_of_each
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(case, value):
    estimator, y = CASES[case]
    bad = X.copy()
    bad[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(estimator).fit(bad, y)
    bad_y = np.array(y, dtype=np.float64)
    bad_y[3] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(estimator).fit(X, bad_y)
    model = clone(estimator).set_params(kernel=RBF(), optimizer=None).fit(X, y)
    for method in (model.predict, model.sample_y):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            method(bad)
    with pytest.raises(ValueError, match=r"finite|classes"):
        model.log_predictive_density(X, bad_y)


@one_of_each
def test_shapes_that_do_not_fit(case):
    estimator, y = CASES[case]
    for bad_X, bad_y, match in [
        (np.empty((0, 2)), np.empty(0), "0 sample"),
        (np.empty((20, 0)), y, "0 feature"),
        (X[:, 0], y, "2D array"),
        (X[:, :, np.newaxis], y, "dim|Reshape"),
        (X, y[:-1], r"inconsistent|equally many"),
        (X, np.column_stack([y, y]), "1d array|shape"),
    ]:
        with pytest.raises(ValueError, match=match):
            clone(estimator).fit(bad_X, bad_y)
    model = clone(estimator).set_params(kernel=RBF(), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(X[:0])
    with pytest.raises(ValueError, match=r"shape \(20,\)"):
        model.log_predictive_density(X, y[:5])
    with pytest.raises(ValueError, match=r"shape \(20,\)"):
        model.log_predictive_density(X, np.column_stack([y, y]))


@one_of_each
def test_sparse_rows(case):
    estimator, y = CASES[case]
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        clone(estimator).fit(sparse.csr_array(X), y)


@one_of_each
def test_weights(case):
    estimator, y = CASES[case]
    for weights, match in [
        (np.full(20, -1.0), "non-negative"),
        (np.zeros(20), "at least one"),
        (np.full(20, np.nan), "NaN"),
        (np.ones(19), "shape"),
    ]:
        with pytest.raises(ValueError, match=match):
            clone(estimator).fit(X, y, sample_weight=weights)


@counts
def test_counts(case):
    estimator, y = CASES[case]
    for bad in (-1.0, 0.5):
        wrong = y.copy()
        wrong[2] = bad
        with pytest.raises(ValueError, match="Poisson expects"):
            clone(estimator).fit(X, wrong)
    with pytest.raises(ValueError, match="Poisson expects"):
        clone(estimator).fit(X, Y)


@pytest.mark.parametrize("case", CLASSES)
def test_classes(case):
    model = clone(CASES[case][0])
    with pytest.raises(ValueError, match=r"at least two classes.*one class, 'a'"):
        model.fit(X, ["a"] * 20)
    with pytest.raises(ValueError, match="one class, 1"):
        model.fit(X, LABELS, sample_weight=LABELS)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"expects? a likelihood of classes|softmax"):
        model.set_params(likelihood=Poisson()).fit(X, LABELS)


@regression
def test_text_is_no_target(case):
    with pytest.raises(ValueError, match=r"could not convert string|must be numeric"):
        clone(CASES[case][0]).fit(X, ["a", "b"] * 10)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_inducing": 0}, "n_inducing"),
        ({"n_inducing": "all"}, "n_inducing"),
        ({"inducing": "best"}, "inducing"),
        ({"inducing": np.zeros((3, 5))}, r"shape \(m, 2\)"),
        ({"inducing": np.full((3, 2), np.nan)}, "finite"),
        ({"inducing": lambda X, kernel, m, rng: X[0]}, r"shape \(m, 2\)"),
        ({"prior": "matern"}, "prior"),
        ({"optimizer": "adam"}, "optimizer"),
        ({"method": "nuts"}, "method"),
        ({"potential": "both"}, "potential"),
        ({"n_particles": 0}, "n_particles"),
        ({"step_size": 0.0}, "step_size"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"kernel": "rbf"}, "kernel"),
        ({"likelihood": "poisson"}, "likelihood"),
        ({"likelihood": StudentT(df=-1.0)}, "df"),
        ({"likelihood": StudentT(scale=-1.0)}, "scale"),
        ({"likelihood": StudentT(), "method": "exact"}, "Gaussian likelihood"),
        ({"likelihood": StudentT(), "kernel": RBF() + WhiteKernel()}, "WhiteKernel"),
        ({"kernel": RBF() * WhiteKernel()}, "WhiteKernel"),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, "does not fit X, which has 2 columns"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        PLSRegressor(**{**FAST, **parameters}).fit(X, Y)


@pytest.mark.parametrize("case", ["gaussian", "gwi", "gwi-around"])
def test_arguments_of_predictions(case):
    model = clone(CASES[case][0]).set_params(kernel=RBF(), optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match="At most one of"):
        model.predict(X, return_std=True, return_cov=True)
    for levels in ([], [0.0], [1.0], [np.nan], [[0.5]], [-0.1, 0.5]):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            model.predict_quantiles(X, levels)
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            model.predict_dist(X).quantile(levels)
    for coverage in (0.0, 1.0, np.nan, 95):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            model.predict_interval(X, coverage)


@pytest.mark.parametrize("case", ["binary", "gwi-binary", "gwi-around-classes"])
def test_targets_of_the_density(case):
    model = clone(CASES[case][0]).set_params(kernel=RBF(), optimizer=None)
    model.fit(X, LABELS)
    for unknown in ([5] * 20, ["a"] * 20, np.full(20, np.nan)):
        with pytest.raises(ValueError, match=r"classes \[0, 1\]"):
            model.log_predictive_density(X, unknown)
    named = np.where(LABELS == 1, "yes", "no")
    model.fit(X, named)
    with pytest.raises(ValueError, match=r"classes \['no', 'yes'\]"):
        model.log_predictive_density(X, LABELS)


# ---- Answered --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Too few distinct rows")
@cases
def test_few_rows(case):
    y = CASES[case][1]
    first = np.unique(y, return_index=True)[1]
    rows = first if case in CLASSES else [0]
    assert_finite(case, X[rows], y[rows])
    rows = [*first, 7] if case in CLASSES else [0, 1]
    assert_finite(case, X[rows], y[rows])


@cases
def test_one_column(case):
    assert_finite(case, X[:, :1], CASES[case][1])


@cases
def test_constant_columns(case):
    y = CASES[case][1]
    assert_finite(case, np.column_stack([X, np.ones(20)]), y)
    model = assert_finite(case, np.full((20, 2), 3.0), y)
    assert len(model.inducing_points_) == 1


@pytest.mark.parametrize("case", [case for case in CASES if case not in CLASSES])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_targets(case, value):
    model = assert_finite(case, X, np.full(20, value))
    if case == "gaussian":
        assert_allclose(model.predict(X), value, atol=1e-6)
    elif case != "shifted":
        assert_allclose(model.predict(X).mean(), value, atol=0.7)


@cases
def test_conflicting_duplicates(case):
    y = CASES[case][1]
    model = assert_finite(case, np.repeat(X[:2], 10, axis=0), y)
    assert len(model.inducing_points_) <= 2


@cases
@pytest.mark.parametrize("scale", SCALES)
def test_scales_of_the_inputs(case, scale):
    y = CASES[case][1]
    scaled = assert_finite(case, scale * X, y)
    # the same model in other units, up to rounding that a search may amplify
    assert_allclose(scaled.predict(scale * X), usual(case), atol=0.3)


@regression
@pytest.mark.parametrize("scale", SCALES)
def test_scales_of_the_targets(case, scale):
    given = {}
    if case == "shifted":
        given["likelihood"] = ShiftedMixture(0.5 * scale)
    scaled = assert_finite(case, X, scale * Y, **given)
    assert_allclose(scaled.predict(X) / scale, usual(case), atol=0.3)


@cases
def test_inputs_far_from_the_origin(case):
    assert_finite(case, X + 1e8, CASES[case][1])
    assert_finite(
        case, np.column_stack([1e9 * X[:, 0], 1e-9 * X[:, 1]]), CASES[case][1]
    )


@regression
def test_targets_far_from_the_origin(case):
    assert_finite(case, X, Y + 1e8)


@counts
def test_large_and_rare_counts(case):
    assert_finite(case, X, 1000.0 * COUNTS)
    rare = np.zeros(20)
    rare[4] = 1.0
    assert_finite(case, X, rare)


def test_an_outlier_under_heavy_tails():
    y = Y.copy()
    y[0] = 1e6
    model = assert_finite("student", X, y)
    assert np.abs(model.predict(X)[1:] - Y[1:]).max() < 1.0
    assert model.posterior_.scale < 2.0


@cache
def fit_to_whole_numbers(case):
    """A fit to small whole numbers, which every kind of array can hold."""
    estimator, y = CASES[case]
    model = clone(estimator).set_params(kernel=RBF(2.0), optimizer=None)
    return model.fit(np.round(4.0 * X), np.round(y))


# one for each way in which rows are checked
@pytest.mark.parametrize(
    "case", ["gaussian", "gwi-around", "binary", "gwi-around-classes"]
)
@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.astype(np.float32),
        lambda a: a.astype(">f8"),
        lambda a: a.astype("<i4"),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.tolist(),
        lambda a: a.astype(object),
    ],
    ids=["float32", "big-endian", "int32", "F-order", "strided", "list", "object"],
)
def test_kinds_of_arrays(case, convert):
    y, plain = CASES[case][1], fit_to_whole_numbers(case)
    rows, targets = np.round(4.0 * X), np.round(y)
    if case not in CLASSES:  # scikit-learn refuses classes in arrays of type object
        targets = convert(targets)
    how = {"kernel": RBF(2.0), "optimizer": None}
    other = assert_finite(case, convert(rows), targets, **how)
    for one, two in zip(answers(other, X, y), answers(plain, X, y), strict=True):
        assert one.dtype == two.dtype
        assert_same(case, one, two)
    assert_same(case, other.predict(convert(rows)), plain.predict(rows))


@cases
def test_read_only_arrays(case):
    rows, y = X.copy(), np.array(CASES[case][1])
    rows.setflags(write=False)
    y.setflags(write=False)
    assert_finite(case, rows, y, kernel=RBF(), optimizer=None)


@one_of_each
def test_data_frames(case):
    estimator, y = CASES[case]
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = clone(estimator).set_params(kernel=RBF(), optimizer=None)
    plain = clone(model).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(frame, pd.Series(y))
        assert_same(case, model.predict(frame), plain.predict(X))
        model.log_predictive_density(frame, pd.Series(y))
        # a draw of functions has no names to compare with
        assert_same(
            case,
            model.sample_functions(2, random_state=0)(frame),
            plain.sample_functions(2, random_state=0)(X),
        )
    assert list(model.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])


@pytest.mark.parametrize("case", CLASSES)
def test_kinds_of_labels(case):
    estimator, y = CASES[case]
    model = clone(estimator).set_params(kernel=RBF(), optimizer=None)
    plain = clone(model).fit(X, y)
    names = np.array(["a", "b", "c"])[y]
    kinds = [names, names.astype(object), pd.Series(names, dtype="category"), y - 7]
    if CASES[case][1] is LABELS:
        kinds += [y == 1, np.where(y == 1, 1.0, -1.0)]
    for labels in kinds:
        other = clone(model).fit(X, labels)
        assert_array_equal(other.predict_proba(X), plain.predict_proba(X))
        assert_array_equal(other.predict(X), np.unique(labels)[plain.predict(X)])
        assert_array_equal(
            other.log_predictive_density(X, labels), plain.log_predictive_density(X, y)
        )
        assert set(other.sample_y(X, 2).ravel()) <= set(labels)
