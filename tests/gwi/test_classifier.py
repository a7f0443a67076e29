"""Classification around networks and classifiers of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from skgpx import GWIClassifier
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Bernoulli, RobustMax, StudentT

# networks that are hardly trained
pytestmark = [
    pytest.mark.filterwarnings("ignore:At held-out rows"),
]
KERNEL = 9.0 * RBF(1.0)
BRIEF = {
    "kernel": KERNEL,
    "optimizer": None,
    "n_inducing": 20,
    "n_estimators": 2,
    "max_iter": 30,
    "random_state": 0,
}
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
F = 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]
TWO = np.where(F + rng.logistic(size=120) > 0.5, "yes", "no")
THREE = np.digitize(F + 0.5 * rng.normal(size=120), [-1.0, 1.0])
FAR = np.array([[200.0, 0.0], [0.0, -300.0]])

MEANS = {
    "net": "net",
    "svgp": "svgp",
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(10, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=10),
    "neighbours": KNeighborsClassifier(3),
    "pipeline": make_pipeline(StandardScaler(), GaussianNB()),
}
means = pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
LIKELIHOODS = [None, RobustMax()]
likelihoods = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)


def entropy(p):
    return -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)


@means
@likelihoods
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_probabilities_far_away_are_the_frequencies(mean, likelihood, y):
    model = GWIClassifier(mean, likelihood=likelihood, **BRIEF).fit(X, y)
    p = model.predict_proba(np.vstack([X, FAR]))
    assert p.shape == (122, len(np.unique(y)))
    assert_allclose(p.sum(axis=1), 1.0)
    assert np.all(p > 0.0)
    assert model.score(X, y) > 0.5
    frequencies = np.unique(y, return_counts=True)[1] / len(y)
    # and epsilon of RobustMax
    assert_allclose(p[-2:], np.tile(frequencies, (2, 1)), atol=0.03)
    assert entropy(p)[:-2].mean() < entropy(p)[-2:].min()


def test_variance_grows_to_that_of_the_prior():
    model = GWIClassifier(**BRIEF).fit(X, THREE)
    _, near = model.latent_mean_and_variance(X)
    mean, far = model.latent_mean_and_variance(FAR)
    factor = model.calibration_.variance_factor
    assert_allclose(far, 9.0 * factor)
    assert np.all(near < 0.9 * 9.0 * factor)
    assert_allclose(mean, [model.likelihood_.base_latent_] * 2, atol=1e-9)


def test_without_calibration_the_scores_are_those_of_the_classifier():
    model = GWIClassifier(LogisticRegression(), calibrate=False, **BRIEF).fit(X, TWO)
    scale = model.calibration_
    assert (scale.score_factor, scale.variance_factor) == (1.0, 1.0)
    calibrated = GWIClassifier(LogisticRegression(), **BRIEF).fit(X, TWO)
    mean, _ = model.latent_mean_and_variance(X)
    scaled, _ = calibrated.latent_mean_and_variance(X)
    # most rows are no farther from the data than the edge
    ratio = scaled / mean
    factor = calibrated.calibration_.score_factor
    assert np.mean(np.isclose(ratio, factor, rtol=1e-6)) > 0.8
    # far away they are not those of the class frequencies
    far, variance = model.latent_mean_and_variance(FAR)
    assert np.all(np.abs(far) > 3.0)
    assert_allclose(variance, model.kernel_.diag(FAR))


class Tripwire(ClassifierMixin, BaseEstimator):
    """Says the same as before, and must not be fitted again."""

    def fit(self, X, y):
        raise AssertionError("fitted")

    def predict_proba(self, X):
        return self.fitted.predict_proba(X)


def test_a_frozen_classifier_is_never_fitted():
    before = Tripwire()
    before.fitted = LogisticRegression().fit(X[:40], TWO[:40])
    before.classes_ = before.fitted.classes_
    frozen = FrozenEstimator(before)
    model = GWIClassifier(frozen, cv="prefit", **BRIEF).fit(X[40:], TWO[40:])
    assert model.mean_model_ is frozen
    assert model.score(X[40:], TWO[40:]) > 0.6
    known = FrozenEstimator(LogisticRegression().fit(X, TWO))
    with pytest.warns(UserWarning, match='set cv="prefit"'):
        GWIClassifier(known, **BRIEF).fit(X, TWO)
    other = FrozenEstimator(LogisticRegression().fit(X, np.where(TWO == "no", 0, 1)))
    with pytest.raises(ValueError, match="none of which is in y, which has"):
        GWIClassifier(other, cv="prefit", **BRIEF).fit(X, TWO)
    # before any fit
    with pytest.raises(ValueError, match="Pass kernel_features"):
        GWIClassifier(Tripwire(), **BRIEF).fit(table(), TWO)


def table():
    """Numbers, some missing, and text."""
    colour = np.array(["red", "green", "blue"])[np.arange(120) % 3]
    holes = np.where(np.arange(120) % 11 == 0, np.nan, X[:, 0])
    return pd.DataFrame({"a": holes, "b": X[:, 1], "colour": colour})


def encoder():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_column_transformer((OneHotEncoder(), ["colour"]), remainder=numbers)


def test_columns_that_the_pipeline_encodes_reach_the_kernel():
    frame = table()
    pipeline = make_pipeline(encoder(), LogisticRegression())
    model = GWIClassifier(pipeline, **BRIEF).fit(frame, THREE)
    assert model.inducing_points_.shape == (20, 5)
    p = model.predict_proba(frame)
    far = frame.assign(b=1e4)
    assert entropy(p).mean() < entropy(model.predict_proba(far)).min()
    # the same features, given to the kernel by name
    explicit = clone(model).set_params(kernel_features=encoder()).fit(frame, THREE)
    assert_allclose(explicit.predict_proba(frame), p, atol=1e-4)
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(copied.predict_proba(frame), p)


def test_groups_are_kept_together():
    groups = np.arange(120) // 10
    model = GWIClassifier(KNeighborsClassifier(3), **BRIEF)
    found = clone(model).fit(X, THREE, groups=groups).predict_proba(X)
    given = clone(model).set_params(cv=StratifiedGroupKFold(5))
    given.fit(X, THREE, groups=groups)
    assert_array_equal(given.predict_proba(X), found)
    # a class of its own in each group cannot be told from the others
    labels = np.arange(120) // 10 % 3
    shifted = X + np.arange(12)[groups][:, np.newaxis] * 10.0
    blind = clone(model).fit(shifted, labels)
    honest = clone(blind).fit(shifted, labels, groups=groups)
    assert entropy(honest.predict_proba(shifted)).mean() > 0.5
    assert entropy(blind.predict_proba(shifted)).mean() < 0.3


@pytest.mark.parametrize("mean", ["net", "svgp", KNeighborsClassifier(3)])
@likelihoods
def test_weights_are_repetitions(mean, likelihood):
    times = np.random.default_rng(1).integers(0, 4, len(X))
    model = GWIClassifier(mean, likelihood=likelihood, **BRIEF).set_params(max_iter=5)
    weighted = clone(model).fit(X, THREE, sample_weight=times)
    order = np.random.default_rng(2).permutation(int(times.sum()))
    rows, labels = np.repeat(X, times, axis=0), np.repeat(THREE, times)
    repeated = clone(model).fit(rows[order], labels[order])
    assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("mean", ["net", "svgp", RandomForestClassifier(5)], ids=repr)
def test_same_bits_for_every_number_of_workers(mean, y):
    model = GWIClassifier(mean, **BRIEF).set_params(optimizer="evidence")
    one, two = (clone(model).set_params(n_jobs=k).fit(X, y) for k in (1, 2))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.calibration_ == two.calibration_


def test_draws_labels_and_densities():
    model = GWIClassifier(LogisticRegression(), **BRIEF).fit(X, THREE)
    draws = model.sample_functions(400, random_state=0)(X[:5])
    mean, variance = model.latent_mean_and_variance(X[:5])
    z = (draws.mean(axis=2) - mean) / np.sqrt(variance / 400)
    assert np.max(np.abs(z)) < 4.5
    assert set(model.sample_y(X, 3, random_state=0).ravel()) <= {0, 1, 2}
    expected = np.log(model.predict_proba(X)[np.arange(120), THREE])
    assert_allclose(model.log_predictive_density(X, THREE), expected, atol=1e-9)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


@pytest.mark.parametrize("mean", ["net", LogisticRegression(), GaussianNB()], ids=repr)
@likelihoods
def test_separable_classes(mean, likelihood):
    y = X[:, 0] > 0.0
    apart = X + 3.0 * np.where(y, 1.0, -1.0)[:, np.newaxis]
    model = GWIClassifier(mean, likelihood=likelihood, **BRIEF).fit(apart, y)
    assert model.score(apart, y) == 1.0
    assert -model.log_predictive_density(apart, y).mean() < 0.1
    assert np.all(np.isfinite(model.predict_log_proba(np.vstack([apart, FAR]))))


# ---- Averaged hyperparameters --------------------------------------------------------

AVERAGE = {"hyperparameters": "average", "random_state": 0}


@pytest.fixture(scope="module", params=[TWO, THREE], ids=["two", "three"])
def averaged(request):
    model = GWIClassifier("svgp", KERNEL, calibrate=False, **AVERAGE)
    return model.fit(X[:40], request.param[:40]), request.param[:40]


def test_probabilities_are_averages_over_the_states(averaged):
    model, y = averaged
    states = model.hyperparameter_states_
    assert len(states) == len(model.posterior_.models) > 1
    expected = 0.0
    for state in states:
        of_state = GWIClassifier(
            "svgp",
            state.kernel,
            optimizer=None,
            calibrate=False,
            random_state=0,
        )
        of_state.fit(X[:40], y)
        assert of_state.hyperparameter_states_ == ()
        expected += state.weight * of_state.predict_proba(X)
    assert_allclose(model.predict_proba(X), expected, atol=1e-3)
    by_row = [model.predict_proba(row[np.newaxis]) for row in X[:5]]
    assert_allclose(np.concatenate(by_row), model.predict_proba(X[:5]), rtol=1e-12)
    assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(X),
        model.predict_proba(X),
    )
    assert model.kernel_ == states[0].kernel
    assert "amplitude" in model.report()["hyperparameters"]


@pytest.mark.parametrize("mean", ["svgp", "net", LogisticRegression()], ids=repr)
@likelihoods
def test_every_mean_and_likelihood_is_averaged(mean, likelihood):
    # bounds are uniform priors: without them some lengthscales reach the far rows
    kernel = 9.0 * RBF(1.0, (0.1, 10.0))
    model = GWIClassifier(mean, kernel, likelihood=likelihood, max_iter=30, **AVERAGE)
    model.fit(X[:60], TWO[:60])
    assert len(model.hyperparameter_states_) > 1
    near, far = model.predict_proba(X[60:]), model.predict_proba(FAR)
    assert entropy(near).mean() < entropy(far).min()
    frequency = np.mean(TWO[:60] == "yes")
    assert_allclose(far[:, 1], frequency, atol=0.03)
    assert model.score(X[60:], TWO[60:]) > 0.6
    draws = model.sample_functions(1000, random_state=0)(X[:5])
    # of two classes one latent function, of RobustMax two
    draws = draws.reshape(5, -1, 1000)
    mean_of_latent, variance = model.latent_mean_and_variance(X[:5])
    z = draws.mean(axis=2) - mean_of_latent.reshape(5, -1)
    z /= np.sqrt(variance.reshape(5, -1) / 1000)
    assert np.max(np.abs(z)) < 4.5


def test_what_is_averaged_by_default():
    for mean, y, n, n_states in (
        ("auto", TWO, 60, 2),
        ("svgp", THREE, 60, 2),
        ("svgp", THREE, 110, 0),
        ("net", TWO, 60, 0),
        (LogisticRegression(), TWO, 60, 0),
    ):
        model = GWIClassifier(mean, max_iter=2, random_state=0).fit(X[:n], y[:n])
        assert len(model.hyperparameter_states_) >= n_states
        assert (len(model.hyperparameter_states_) > 0) == (n_states > 0)
    # bounds of a kernel of one's own are no prior
    model = GWIClassifier(kernel=KERNEL, random_state=0).fit(X[:60], TWO[:60])
    assert model.hyperparameter_states_ == ()
    many = np.tile(X, (3, 1)) + 0.1 * np.random.default_rng(1).normal(size=(360, 2))
    with pytest.raises(ValueError, match="at most 300 rows"):
        GWIClassifier(**AVERAGE).fit(many, np.tile(TWO, 3))


def rare():
    y = THREE.copy()
    y[:2] = 7, 8
    return X, y


def hostile():
    """Constant and repeated columns, repeated rows, an outlier."""
    rows = np.column_stack([X, np.full(120, 3.0), X[:, 0]])
    rows = np.vstack([rows, rows[:30], [[1e6, -1e6, 3.0, 0.0]]])
    return rows, np.concatenate([TWO, TWO[:30][::-1], ["yes"]])


# few rows: around the sizes from which rows judge and are held out
ROWS = [(X[:n], np.arange(n) % 2) for n in (2, 3, 9, 10, 11, 19, 20, 21)]


@pytest.mark.parametrize("mean", ["net", LogisticRegression(), GaussianNB()], ids=repr)
def test_hostile_rows_are_answered(mean):
    model = GWIClassifier(mean, **BRIEF).set_params(max_iter=3)
    for rows, labels in [*ROWS, rare(), hostile()]:
        p = model.fit(rows, labels).predict_log_proba(rows)
        assert p.shape == (len(rows), len(np.unique(labels)))
        assert np.all(np.isfinite(p))


@pytest.mark.parametrize("inducing", ["random", "m-dpp"])
def test_inducing_points_may_be_random_rows(inducing):
    model = GWIClassifier(GaussianNB(), **BRIEF).set_params(n_inducing=10)
    greedy = model.fit(X, TWO).inducing_points_
    points = model.set_params(inducing=inducing).fit(X, TWO).inducing_points_
    assert {tuple(point) for point in points} <= {tuple(row) for row in X}
    assert len(points) == 10
    assert not np.array_equal(points, greedy)


def test_ten_classes_of_digits():
    digits, y = load_digits(return_X_y=True)
    digits, train = digits / 16.0, np.arange(len(y)) < 600
    known = train & (y < 8)
    model = GWIClassifier(
        LogisticRegression(max_iter=300),
        kernel=25.0 * RBF(2.0),
        optimizer=None,
        random_state=0,
    )
    model.fit(digits[known], y[known])
    H = entropy(model.predict_proba(digits[~train][:400]))
    out = y[~train][:400] > 7
    assert model.score(digits[~train & (y < 8)], y[~train & (y < 8)]) > 0.93
    assert np.mean(H[out][:, np.newaxis] > H[~out]) > 0.9


def test_classes_that_alternate():
    """Networks miss them, and the process does not."""
    r = np.random.default_rng(0)
    x = r.uniform(size=(800, 2))
    y = np.floor(6.0 * x[:, 0]).astype(int) % 2
    model = GWIClassifier(random_state=0).fit(x[:400], y[:400])
    assert model.mean_model_ == "svgp"
    assert model.score(x[400:], y[400:]) > 0.9
    with pytest.warns(FitWarning, match="the log loss of the networks is"):
        GWIClassifier("net", max_iter=20, random_state=0).fit(x[:400], y[:400])


def refused(match, y=TWO, **parameters):
    with pytest.raises(ValueError, match=match):
        GWIClassifier(**{**BRIEF, **parameters}).fit(X, y)


def test_hostile_parameters_are_refused():
    refused("at least two classes among the rows", y=np.zeros(120))
    refused("Unknown label type", y=X[:, 0])
    refused("mean must be.*or an instance of a classifier", mean="sparse")
    refused("got <class .*LogisticRegression", mean=LogisticRegression)
    refused("mean must be", mean=np.sin)
    refused("CalibratedClassifierCV", mean=LinearSVC())
    refused(r"\(Categorical, RobustMax, Bernoulli\)", likelihood=StudentT())
    refused(r"\(Categorical, RobustMax\)", y=THREE, likelihood=Bernoulli())
    refused("is not fitted yet", mean=LogisticRegression(), cv="prefit")
    refused("epsilon strictly between", likelihood=RobustMax(2.0))
    refused("does not fit X, which has 2 columns", kernel=RBF([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_mode_does_not_depend_on_the_seed_or_the_order_of_columns(rng, n_classes):
    # rows are held out one by one, and none is drawn
    X = rng.uniform(0.0, 1.0, (45, 2))
    f = np.sin(5.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(45)
    y = np.digitize(f, [0.2, 0.8][: n_classes - 1])
    settings = {"mean": "svgp", "hyperparameters": "maximise"}
    first = GWIClassifier(random_state=0, **settings).fit(X, y).predict_proba(X)
    second = GWIClassifier(random_state=1, **settings).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(first, second)
    exchanged = GWIClassifier(random_state=0, **settings).fit(X[:, ::-1], y)
    np.testing.assert_allclose(exchanged.predict_proba(X[:, ::-1]), first, atol=1e-3)
