"""Structure that the function misses is told, and nothing else is."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor
from skgpx.likelihoods import Poisson, StudentT


def waves(n, d=6):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3000, d))
    f = np.sin(12.0 * X[:, 0]) + np.sin(5.0 * X[:, 5])
    return X[:n], (f + 0.1 * rng.standard_normal(3000))[:n]


def test_under_heavy_tails_too():
    X, y = waves(300)
    y[::50] += 2.0
    how = {"n_particles": 10, "tol": 3.0, "random_state": 0}
    long = 1.0 * RBF(4.0, "fixed")
    with pytest.warns(UserWarning, match="in column . agree"):
        PLSRegressor(long, likelihood=StudentT(scale=0.3), **how).fit(X, y)
    # who learns nothing has chosen
    how["optimizer"] = None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The mean misses")
        PLSRegressor(long, likelihood=StudentT(scale=0.3), **how).fit(X, y)


@pytest.mark.parametrize("kind", ["noise", "found", "rough", "outliers", "counts"])
def test_what_is_not_missed_is_not_told(kind):
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-1.0, 1.0, (400, 1)), axis=0)
    noise = rng.standard_normal(400)
    y = {
        "noise": noise,
        "found": np.sin(12.0 * X[:, 0]) + 0.1 * noise,
        "rough": np.cumsum(noise),
        "outliers": np.where(np.arange(400) % 50 == 0, 30.0, np.sin(3.0 * X[:, 0])),
        "counts": rng.poisson(np.exp(1.0 + X[:, 0])),
    }[kind]
    likelihood = Poisson() if kind == "counts" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "The mean misses")
        PLSRegressor(likelihood=likelihood, n_particles=10, random_state=0).fit(X, y)
