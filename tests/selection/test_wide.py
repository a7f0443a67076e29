"""Tables of many more columns than rows: a few products with the columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx import (
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SteinRFFRegressor,
)
from skgpx._hyperparameters import _candidates
from skgpx._hyperparameters._evidence import ExactEvidence

rng = np.random.default_rng(0)
WIDE = rng.normal(size=(20, 3000))
SIGNAL = WIDE[:, 0] + 0.5 * WIDE[:, 1]
SMALL = {"n_components": 2, "n_frequencies": 20, "max_iter": 20}


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        PLSRegressor(random_state=0),
        PLSClassifier(random_state=0),
        GWIRegressor(random_state=0),
        GWIClassifier(random_state=0),
        SteinRFFRegressor(random_state=0, **SMALL),
    ],
    ids=lambda one: type(one).__name__,
)
def test_defaults_evaluate_the_evidence_a_few_hundred_times(estimator, monkeypatch):
    counts = {"values": 0, "values_and_gradients": 0}

    def counted(name):
        method = getattr(ExactEvidence, name)

        def call(self, thetas):
            counts[name] += len(thetas)
            return method(self, thetas)

        return call

    for name in counts:
        monkeypatch.setattr(ExactEvidence, name, counted(name))
    labels = "Classifier" in type(estimator).__name__
    y = np.where(SIGNAL > 0.0, "a", "b") if labels else SIGNAL
    model = estimator.fit(WIDE, y)
    assert 0 < counts["values"] < 700
    assert 0 < counts["values_and_gradients"] < 500
    assert len(model.predict(WIDE[:3])) == 3


def test_sparse_ties_are_the_dense_ones(monkeypatch):
    X = rng.uniform(-2.0, 2.0, size=(60, 5))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60)
    dense = PLSRegressor(random_state=0).fit(X, y)
    monkeypatch.setattr(_candidates, "_MOST_DENSE", 2)
    sparse = PLSRegressor(random_state=0).fit(X, y)
    assert_allclose(sparse.kernel_.theta, dense.kernel_.theta, rtol=1e-6)
    assert_allclose(sparse.predict(X), dense.predict(X), rtol=1e-6)


def test_the_short_column_is_found_among_many():
    """Of more than a hundred columns those are tried that the evidence points at."""
    X = rng.normal(size=(150, 130))
    y = np.sin(1.5 * X[:, 77]) + 0.1 * rng.normal(size=150)
    model = PLSRegressor(random_state=0).fit(X, y)
    new = rng.normal(size=(200, 130))
    error = model.predict(new) - np.sin(1.5 * new[:, 77])
    assert np.sqrt(np.mean(error**2)) < 0.15
