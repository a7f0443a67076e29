"""Averages of few rows do not depend on the random numbers that make them."""

import numpy as np
import pytest

from skgpx import GWIClassifier, PLSClassifier, PLSRegressor
from skgpx.likelihoods import StudentT

pytestmark = pytest.mark.usefixtures("every_state")


def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (45, 2))
    f = np.sin(5.0 * X[:, 0]) + 0.3 * X[:, 1]
    return X, f + 0.2 * rng.standard_normal(45), rng.uniform(0.0, 1.0, (12, 2))


def predictions(estimator, order, y):
    """Probabilities, or means in standard deviations."""
    X, _, X_new = table()
    model = estimator.fit(X[:, order], y)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X_new[:, order])[:, 1]
    return model.predict(X_new[:, order])


@pytest.mark.parametrize(
    ("estimator", "rms", "largest"),
    [(PLSClassifier(), 0.01, 0.04), (GWIClassifier(), 0.01, 0.04)],
    ids=["PLSClassifier", "GWIClassifier"],
)
def test_probabilities_depend_little_on_seeds_and_columns(estimator, rms, largest):
    _, y, _ = table()
    labels = y > 0.6
    seeds = [
        predictions(estimator.set_params(random_state=seed), [0, 1], labels)
        for seed in range(3)
    ]
    exchanged = predictions(estimator.set_params(random_state=0), [1, 0], labels)
    assert np.sqrt(np.mean(np.var(seeds, axis=0, ddof=1))) < rms
    assert np.max(np.abs(exchanged - seeds[0])) < largest


def test_heavy_tails_depend_little_on_seeds_and_columns():
    _, y, _ = table()
    estimator = PLSRegressor(likelihood=StudentT())
    seeds = [
        predictions(estimator.set_params(random_state=seed), [0, 1], y)
        for seed in range(3)
    ]
    exchanged = predictions(estimator.set_params(random_state=0), [1, 0], y)
    # standard deviations of the function are .06 to .12
    assert np.sqrt(np.mean(np.var(seeds, axis=0, ddof=1))) < 0.005
    assert np.max(np.abs(exchanged - seeds[0])) < 0.02
