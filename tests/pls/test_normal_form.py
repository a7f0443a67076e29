"""Tobit and LogNormal against Gaussian noise of y or of its logarithm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian, LogNormal, Tobit

rng = np.random.default_rng(0)
X, NEW = rng.uniform(0.0, 5.0, (80, 2)), rng.uniform(0.0, 5.0, (20, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1] / 3.0
Y = np.exp(F + 0.2 * rng.standard_normal(80))
LOG_Y = np.log(Y)
WEIGHTS = rng.integers(0, 3, 80)
FIXED = {"kernel": RBF(2.0), "optimizer": None}


@pytest.mark.parametrize(
    ("likelihood", "normal", "options"),
    [
        (LogNormal(), Gaussian(), {}),
        (Tobit(), Gaussian(), FIXED),
        (LogNormal(0.3), Gaussian(0.09), {**FIXED, "method": "exact"}),
        (LogNormal(0.3), Gaussian(0.09), {**FIXED, "method": "ou_mala"}),
        (LogNormal(), Gaussian(), {"kernel": RBF(2.0) + WhiteKernel(0.1)}),
    ],
)
def test_without_censoring_it_is_the_gaussian(likelihood, normal, options):
    on_log = isinstance(likelihood, LogNormal)
    y = Y if on_log else LOG_Y
    model = PLSRegressor(likelihood=likelihood, random_state=0, **options)
    other = PLSRegressor(likelihood=normal, random_state=0, **options)
    # no flag is raised, and a row of weight zero may have any target
    model.fit(X, np.where(WEIGHTS > 0, y, -1.0), WEIGHTS, censoring=np.zeros(80))
    other.fit(X, LOG_Y, WEIGHTS)
    assert model.kernel_ == other.kernel_
    assert_array_equal(model.inducing_points_, other.inducing_points_)
    assert_array_equal(model.particles_, other.particles_)
    for ours, theirs in zip(
        model.posterior_.marginals(NEW).moments(),
        other.posterior_.marginals(NEW).moments(),
        strict=True,
    ):
        assert_array_equal(ours, theirs)
    assert type(model.likelihood_) is type(likelihood)
    assert_allclose(model.likelihood_.scale**2, other.noise_variance_, rtol=1e-12)
    jacobian = LOG_Y * on_log
    assert_allclose(
        model.log_evidence_, other.log_evidence_ - WEIGHTS @ jacobian, rtol=1e-10
    )
    assert_allclose(
        model.log_predictive_density(X, y),
        other.log_predictive_density(X, LOG_Y) - jacobian,
        atol=1e-10,
    )
    quantiles = other.predict_quantiles(NEW, [0.05, 0.5, 0.95])
    quantiles = np.exp(quantiles) if on_log else quantiles
    assert_allclose(model.predict_quantiles(NEW, [0.05, 0.5, 0.95]), quantiles)
    assert model.report()["prior"]


def test_censored_it_is_tobit_for_the_logarithm():
    flags = (LOG_Y > 1.0) * 1.0
    log_y = np.minimum(LOG_Y, 1.0)
    model = PLSRegressor(RBF(), likelihood=LogNormal(), random_state=0)
    other = PLSRegressor(RBF(), likelihood=Tobit(), random_state=0)
    model.fit(X, np.exp(log_y), censoring=flags)
    other.fit(X, log_y, censoring=flags)
    assert_allclose(model.kernel_.theta, other.kernel_.theta, atol=1e-6)
    assert_allclose(model.likelihood_.scale, other.likelihood_.scale, rtol=1e-6)
    jacobian = np.sum(log_y[flags == 0.0])
    assert_allclose(model.log_evidence_, other.log_evidence_ - jacobian, rtol=1e-6)
    medians = np.exp(other.predict_quantiles(NEW, [0.5]))
    assert_allclose(model.predict_quantiles(NEW, [0.5]), medians, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        (PLSRegressor(likelihood=LogNormal(), method="exact"), 1.0, "got LogNormal"),
        (
            PLSRegressor(RBF() + WhiteKernel(), likelihood=LogNormal(0.3)),
            0.0,
            "noise is given twice",
        ),
        (PLSRegressor(likelihood=LogNormal()), 0.0, "expects positive y; got 1"),
    ],
)
def test_what_cannot_be(model, flags, message):
    y = Y.copy()
    y[0] = -1.0 if "positive" in message else y[0]
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, censoring=flags)
