"""No fit learns a noise variance above the variance of y."""

import warnings

import numpy as np
import pytest

from skgpx import (
    ExactGPRegressor,
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 5.0, (120, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(120)
ROWS = np.repeat(np.arange(30), 4)
FEW = np.where(np.arange(120) < 5, 200.0, 1.0)
WILD = np.where(np.arange(120) < 3, [1e3, -1e3, 1e6] + 117 * [0.0], Y)
CASES = {
    "weights": (X, Y, np.full(120, 10.0)),
    "uneven weights": (X, Y, FEW),
    "repeated rows": (X[ROWS], Y[ROWS], np.ones(120)),
    "rounded": (X, np.round(Y), np.ones(120)),
    "wild outliers": (X, WILD, np.ones(120)),
    "one event": (X, (np.arange(120) == 3) * 1.0, np.ones(120)),
}
MODELS = {
    "points": PLSRegressor(random_state=0),
    "few points": PLSRegressor(n_inducing=8, random_state=0),
    "functions": SpectralVGPRegressor(n_basis=50),
    "sums": SpectralVGPRegressor(basis="inducing", n_basis=8),
    "waves": SteinRFFRegressor(max_iter=5, n_frequencies=10, random_state=0),
    "exact": ExactGPRegressor(random_state=0),
    "around a mean": GWIRegressor(mean="svgp", random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_noise_is_at_most_the_variance_of_y(name):
    shares = {}
    for case, (inputs, y, weights) in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = MODELS[name].fit(inputs, y, sample_weight=weights)
        centred = y - np.average(y, weights=weights)
        shares[case] = model.noise_variance_ / np.average(centred**2, weights=weights)
    # rounding, and a few functions beside it
    assert all(0.0 < share < 1.01 for share in shares.values()), shares
