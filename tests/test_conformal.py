"""Conformal intervals of MAPIE around the estimators: they cover, whatever was assumed.

The standard deviations that normalise the scores come from predict(return_std=True).
"""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx import PLSRegressor, SpectralVGPRegressor
from skgpx.likelihoods import Gaussian, StudentT
from skgpx.metrics import interval_coverage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    scores = pytest.importorskip("mapie.conformity_scores")
    regression = pytest.importorskip("mapie.regression")

rng = np.random.default_rng(0)
N, LEVEL = 600, 0.8
X = rng.uniform(-3.0, 3.0, size=(3 * N, 1))
# the noise grows with x; every model assumes a single one that is far too small
Y = np.sin(X[:, 0]) + (0.1 + 0.1 * (X[:, 0] + 3.0)) * rng.normal(size=3 * N)
TRAIN, KEPT, TEST = np.split(np.arange(3 * N), 3)
FEW = {"kernel": RBF(1.0), "optimizer": None, "n_inducing": 12, "random_state": 0}
MODELS = {
    "pls": PLSRegressor(likelihood=Gaussian(0.01), **FEW),
    "student": PLSRegressor(likelihood=StudentT(4.0, 0.05), n_particles=10, **FEW),
    "spectral": SpectralVGPRegressor(
        RBF(1.0), basis="fourier", optimizer=None, noise_variance=0.01
    ),
    "pipeline": make_pipeline(
        StandardScaler(), PLSRegressor(likelihood=Gaussian(0.01), **FEW)
    ),
}
# of the rows that conformalise and of those that are counted
ERROR = np.sqrt(LEVEL * (1.0 - LEVEL) * (1.0 / N + 1.0 / N))


# chains under noise that is far too small mix slowly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_split_conformal_intervals_cover(name):
    model = MODELS[name].fit(X[TRAIN], Y[TRAIN])
    mean, std = model.predict(X[TEST], return_std=True)
    own = np.stack((mean - 1.2816 * std, mean + 1.2816 * std), axis=1)
    assert interval_coverage(Y[TEST], own) < LEVEL - 4.5 * ERROR
    conformal = regression.SplitConformalRegressor(
        model, confidence_level=LEVEL, conformity_score=scores.StdConformityScore()
    )
    conformal.conformalize(X[KEPT], Y[KEPT])
    points, bounds = conformal.predict_interval(X[TEST])
    np.testing.assert_allclose(points, mean, rtol=1e-12)
    assert abs(interval_coverage(Y[TEST], bounds[:, :, 0]) - LEVEL) < 4.5 * ERROR
