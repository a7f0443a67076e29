"""Constants that switch an algorithm: fits just below, at and above each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, LogisticRegression

from skgpx import GWIClassifier, GWIRegressor
from skgpx._gwi import (
    _around,
    _class_fit,
    _classifier,
    _covariance,
    _edges,
    _fit,
    _judges,
    _network,
    _prior,
)
from skgpx._hyperparameters import _learner
from skgpx._numerics.perceptron_steps import COLUMNS
from tests.gwi.conftest import BRIEF, wavy

# networks that are hardly trained miss what a kernel finds
pytestmark = pytest.mark.filterwarnings(
    "ignore:The networks leave",
    # so do five points, and noise has nothing to find
    "ignore:The mean misses structure",
    "ignore:Predictions are worse than",
)

LAW = {"kernel": RBF(0.5), "optimizer": None, "random_state": 0}


def around(constant):
    return [constant - 1, constant, constant + 1]


def regressor(n, mean="net", **parameters):
    return GWIRegressor(mean, **{**BRIEF, **parameters}).fit(*wavy(n))


def classifier(n, mean="net", **parameters):
    how = {**LAW, "n_restarts": 2, "max_iter": 20, **parameters}
    return GWIClassifier(mean, **how).fit(wavy(n)[0], np.arange(n) % 2)


# ---- Networks ------------------------------------------------------------------------


@pytest.mark.parametrize("n", around(_network.FEWEST))
def test_few_rows_hold_none_out(n):
    held_out = 20 if n >= _network.FEWEST else 0
    for fit in (regressor, classifier):
        assert len(fit(n, early_stopping=False).held_out_curve_) == held_out


@pytest.mark.parametrize("max_iter", [1, *around(_network.ROUNDS)])
def test_rounds(max_iter):
    model = regressor(60, max_iter=max_iter, early_stopping=False)
    assert len(model.loss_curve_) == model.n_iter_ == max_iter
    assert len(model.held_out_curve_) == min(max_iter, _network.ROUNDS)


@pytest.mark.parametrize("fewest", [0, 20, 41])
@pytest.mark.parametrize("n", [20, 50, *around(60), *around(100)])
def test_epochs_of_a_regressor(monkeypatch, fewest, n):
    monkeypatch.setattr(_network, "ROW_STEPS", 1200)
    monkeypatch.setattr(_network, "LEAST", fewest)
    monkeypatch.setattr(_network, "MOST", 41)
    model = regressor(n, max_iter="auto", early_stopping=False)
    assert len(model.loss_curve_) == np.clip(1200 // n, fewest, 41)


@pytest.mark.parametrize("n", [1, *around(20), *around(40)])
@pytest.mark.parametrize("fewest", [1, 40])
def test_epochs_of_a_classifier(monkeypatch, fewest, n):
    monkeypatch.setattr(_classifier, "_STEPS", 60)
    monkeypatch.setattr(_classifier, "_LEAST_EPOCHS", fewest)
    how = {"max_iter": "auto", "batch_size": 20, "early_stopping": False}
    model = classifier(max(n, 2), **how)
    n_batches = -(-max(n, 2) // 20)
    assert len(model.loss_curve_) == max(fewest, -(-60 // n_batches))


@pytest.mark.parametrize("patience", [1, 3])
def test_patience(monkeypatch, patience):
    monkeypatch.setattr(_network, "_PATIENCE", patience)
    # noise, that networks learn: held-out rows are predicted best at the beginning
    X, y = wavy(40)[0], np.random.default_rng(3).normal(size=40)
    how = {**BRIEF, "n_restarts": 1, "max_iter": 5000, "learning_rate": 0.05}
    model = GWIRegressor(**how).fit(X, y)
    curve = model.held_out_curve_
    assert len(curve) < _network.ROUNDS
    assert len(curve) - 1 - np.argmin(curve) == patience + 1
    # rounds of a hundred epochs
    assert model.n_iter_ == 100 * (np.argmin(curve) + 1)


@pytest.mark.parametrize("n", [*around(COLUMNS), *around(2 * COLUMNS)])
def test_blocks_of_rows(n):
    steps = {"validation_fraction": 0.0, "tempering": None, "early_stopping": False}
    whole = regressor(n, batch_size=n, **steps)
    assert np.all(np.isfinite(whole.loss_curve_))
    X = wavy(n)[0]
    one = np.concatenate([whole.predict(row[np.newaxis]) for row in X])
    assert_array_equal(whole.predict(X), one)
    # a batch of all rows does not depend on how many are taken at a time
    many = regressor(n, batch_size=n + COLUMNS, **steps)
    assert_array_equal(many.predict(X), whole.predict(X))


# ---- The law -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [*around(277), *around(289)])
@pytest.mark.parametrize("module", [_fit, _class_fit], ids=["numbers", "classes"])
def test_number_of_inducing_points(n, module):
    assert module.LEAST_INDUCING == 50
    fit = regressor if module is _fit else classifier
    plain = {"tempering": None} if module is _fit else {"tempering": False}
    model = fit(n, kernel=RBF(0.3), max_iter=1, **plain)
    assert len(model.inducing_points_) == max(50, round(3.0 * np.sqrt(n)))


@pytest.mark.parametrize("n", around(_covariance.SAMPLED_ROWS))
def test_rows_of_the_estimator(n):
    model = regressor(n, covariance="empirical")
    _, std = model.predict(wavy(5, 1)[0], return_std=True)
    assert np.all(std > 0.0)
    assert np.isfinite(model.wasserstein_distance_)


@pytest.mark.parametrize("n", around(_edges.FEWEST))
def test_few_rows_have_no_edges(monkeypatch, n):
    fitted = []

    class Counted(LinearRegression):
        def fit(self, X, y):
            fitted.append(len(X))
            return super().fit(X, y)

    regressor(n, Counted(), edges=2)
    # folds, all rows, and both ends of two directions
    assert len(fitted) == (10 if n >= _edges.FEWEST else 6)


# ---- Judges --------------------------------------------------------------------------


@pytest.mark.parametrize("n", around(34))
def test_few_judges_of_a_network_change_nothing(n):
    found = regressor(n, validation_fraction=0.5).temper_
    enough = int(_judges.SHARE * n) >= _judges.FEWEST
    assert (found == (1.0, 1.0)) == (not enough)


@pytest.mark.parametrize("n", around(_judges.FEWEST))
def test_few_judges_of_a_regressor_change_nothing(n):
    found = regressor(n, LinearRegression()).temper_
    assert (found == (1.0, 1.0)) == (n < _judges.FEWEST)


@pytest.mark.parametrize("n", around(_class_fit.FEWEST_JUDGES))
def test_few_judges_of_a_classifier_change_nothing(n):
    model = classifier(n, LogisticRegression())
    factors = model.temper_.score_factor, model.temper_.variance_factor
    assert (factors == (1.0, 1.0)) == (n < _class_fit.FEWEST_JUDGES)


@pytest.mark.parametrize("most", [*around(11), *around(18)])
def test_most_judges_of_a_network(monkeypatch, most):
    monkeypatch.setattr(_judges, "MOST", most)
    told = heard(monkeypatch, _fit)
    # eighteen of sixty rows
    regressor(60, validation_fraction=0.5)
    assert [len(r) for r in told] == [min(most, 18)]


@pytest.mark.parametrize("most", [*around(10), *around(60)])
def test_most_judges_of_a_regressor(monkeypatch, most):
    monkeypatch.setattr(_around, "MOST", most)
    told = heard(monkeypatch, _around)
    regressor(60, LinearRegression(), edges=0)
    # as many of each of the five folds
    assert [len(r) for r in told] == [5 * min(-(-most // 5), 12)]


@pytest.mark.parametrize("most", [*around(12), *around(60)])
def test_most_judges_of_a_classifier(monkeypatch, most):
    monkeypatch.setattr(_class_fit, "MOST_JUDGES", most)
    told = []
    judged = _class_fit.temper

    def spy(judges, likelihood, edge):
        told.append(len(judges.codes))
        return judged(judges, likelihood, edge)

    monkeypatch.setattr(_class_fit, "temper", spy)
    classifier(60, LogisticRegression())
    assert told == [min(most, 60)]


@pytest.mark.parametrize("n", around(_class_fit._FOLDS))
def test_classes_of_about_as_many_rows_as_folds(n):
    X = wavy(30 + n)[0]
    y = np.repeat([0, 1], [30, n])
    model = GWIClassifier(LogisticRegression(), **LAW).fit(X, y)
    p = model.predict_proba(np.array([[300.0, 0.0]]))[0]
    # the frequencies, far away
    assert_allclose(p, [30 / (30 + n), n / (30 + n)], atol=0.05)


def heard(monkeypatch, module):
    """Variances of the judges of every fit to come."""
    told, judged = [], module.tempered

    def spy(how, squares, r, weights, noise):
        told.append(r)
        return judged(how, squares, r, weights, noise)

    monkeypatch.setattr(module, "tempered", spy)
    return told


# ---- The search ----------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["net", "svgp", LinearRegression()], ids=str)
@pytest.mark.parametrize("n", [*around(320), *around(500)])
def test_rows_on_which_kernels_are_compared(monkeypatch, mean, n):
    """Two columns: 320 of the 500 rows of the search, unless the mean hangs on them."""
    read, climb = [], _learner.climb

    def spy(candidate, likelihood, blocks, *more):
        read.append(len(blocks[0].y))
        return climb(candidate, likelihood, blocks, *more)

    monkeypatch.setattr(_learner, "climb", spy)
    how = {"kernel": RBF(1.0), "optimizer": "evidence", "noise_variance": None}
    model = regressor(n, mean, edges=0, n_inducing=5, max_iter=1, **how)
    assert 0.3 < model.kernel_.length_scale < 3.0
    few = 500 if mean == "svgp" else 320
    # two starts, and the better one
    assert read == [min(n, few), min(n, few), min(n, 500)]


@pytest.mark.parametrize(("d", "rows"), [(1, 400), (2, 320), (4, 205), (5, 200)])
def test_rows_that_stay_near_each_other(d, rows):
    assert _prior.compared_rows(d) == rows
    assert (500 / rows) ** (1 / d) < 1.26
