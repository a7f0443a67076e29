"""Fit, predict, draw and pickle with every public estimator, on few rows.

A program for environments without the tests: an installed wheel, the oldest versions.
"""

import pickle
import sys
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import BayesianRidge, LogisticRegression

import skgpx

# Rows that are few, fits that are short, and findings that say so.
warnings.filterwarnings("ignore", category=skgpx.exceptions.SkgpxWarning)

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=30)

WAVES = {"n_components": 1, "n_frequencies": 6, "max_iter": 2, "optimizer": None}
ESTIMATORS = [
    (skgpx.PLSRegressor(optimizer=None, random_state=0), y),
    (skgpx.PLSClassifier(optimizer=None, n_particles=4, random_state=0), y > 0.0),
    (skgpx.SpectralVGPRegressor(), y),
    (skgpx.SteinRFFRegressor(**WAVES, random_state=0), y),
    (skgpx.ExactGPRegressor(optimizer=None, n_draws=2, random_state=0), y),
    (skgpx.GWIRegressor("net", n_estimators=1, max_iter=2, random_state=0), y),
    (skgpx.GWIClassifier(LogisticRegression(), cv=2, random_state=0), y > 0.0),
    (skgpx.DecoupledSampler(random_state=0), y),
    (skgpx.TemperedRegressor(BayesianRidge(), cv=2), y),
    (skgpx.SteinFourierFeatures(n_frequencies=6, n_steps=2), y),
]


def answers(model):
    """Finite numbers of a fitted model, at the rows."""
    if hasattr(model, "transform"):
        return model.transform(X)
    if hasattr(model, "sample_functions"):
        return model.sample_functions(2, random_state=0)(X)
    return model.predict(X)


def main():
    """Go through the estimators; say how many."""
    classes = {v for v in vars(skgpx).values() if isinstance(v, type)}
    public = {one for one in classes if issubclass(one, BaseEstimator)}
    assert public == {type(estimator) for estimator, _ in ESTIMATORS}
    for estimator, targets in ESTIMATORS:
        model = estimator.fit(X, targets)
        values = answers(model)
        assert np.all(np.isfinite(values)), estimator
        assert np.array_equal(answers(pickle.loads(pickle.dumps(model))), values)
        assert repr(model)
        if hasattr(model, "report"):
            assert str(model.report())
    where = skgpx.__file__
    sys.stdout.write(f"{len(ESTIMATORS)} estimators of {where}: fitted and pickled\n")


if __name__ == "__main__":
    main()
