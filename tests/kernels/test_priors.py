"""Priors of hyperparameters that a user's kernel states."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpx import (
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.kernels import CategoricalKernel, Columns, Linear, Prior
from skgpx.likelihoods import Gaussian, Poisson

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, (60, 2))
Y = 3.0 + 2.0 * np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.standard_normal(60)


def tight(value):
    return Prior(stats.lognorm(1e-3, scale=value))


def learned(model):
    """Hyperparameters of the kernel that a model has learned."""
    return np.exp(model.kernel_.theta)


def test_fits_maximise_evidence_and_prior():
    amplitude, noise = stats.lognorm(0.5, scale=0.5), stats.invgamma(5.0, scale=0.1)
    lengths = [stats.lognorm(0.3, scale=4.0), stats.gamma(4.0)]
    kernel = ConstantKernel(1.0, Prior(amplitude)) * RBF([1.0, 1.0], Prior(lengths))
    kernel += WhiteKernel(0.1, Prior(noise))
    standardised = (Y - Y.mean()) / Y.std()
    exact = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0)
    exact.fit(X, standardised)

    def negative(theta):
        each = zip([amplitude, *lengths, noise], np.exp(theta), strict=True)
        prior = sum(one.logpdf(value) for one, value in each) + theta.sum()
        return -exact.log_marginal_likelihood(theta) - prior

    best = minimize(negative, np.log([0.5, 2.0, 4.0, 0.02]))
    chosen = {"kernel": kernel, "hyperparameters": "maximise"}
    for model in (PLSRegressor(**chosen), GWIRegressor(**chosen)):
        model.set_params(random_state=0).fit(X, Y)
        theta = np.append(model.kernel_.theta, np.log(model.noise_variance_ / Y.var()))
        assert negative(theta) < best.fun + 1e-3
        assert_allclose(theta, best.x, atol=1e-2)


SUM = Columns(ConstantKernel(1.0, tight(0.7)) * RBF(1.0, tight(3.0)), [0])
SUM = SUM + Columns(Matern([1.0], tight(5.0), nu=1.5), [1])


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (PLSRegressor(kernel=SUM), Y),
        (PLSRegressor(kernel=SUM, n_inducing=12, likelihood=Gaussian()), Y),
        (PLSRegressor(kernel=SUM, likelihood=Poisson()), np.round(abs(Y))),
        (PLSClassifier(kernel=SUM), Y > 3.0),
        (GWIClassifier(kernel=SUM), Y > 3.0),
        (GWIRegressor(kernel=SUM), Y),
        (SteinRFFRegressor(kernel=SUM, max_iter=5), Y),
        (ExactGPRegressor(kernel=SUM), Y),
        (SpectralVGPRegressor(kernel=SUM, basis="empirical"), Y),
    ],
    ids=lambda one: type(one).__name__,
)
def test_tight_priors_are_what_is_learned(model, y):
    model.set_params(random_state=0).fit(X, y)
    assert_allclose(learned(model), [0.7, 3.0, 5.0], rtol=1e-2)


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(n_inducing=12),
        SpectralVGPRegressor(),
        SpectralVGPRegressor(basis="empirical"),
    ],
    ids=str,
)
def test_priors_of_the_noise(model):
    kernel = ConstantKernel(1.0, tight(0.7)) * RBF(1.0, tight(2.0))
    model.set_params(kernel=kernel + WhiteKernel(1.0, tight(0.2)), random_state=0)
    model.fit(X[:, :1], Y)
    assert_allclose(learned(model), [0.7, 2.0], rtol=1e-2)
    assert_allclose(model.noise_variance_ / Y.var(), 0.2, rtol=1e-2)
    # where nothing is learned there are only the values
    model.set_params(optimizer=None).fit(X[:, :1], Y)
    assert_allclose(learned(model), [1.0, 1.0])
    # GaussianProcessRegressor takes it for bounds
    assert (
        GaussianProcessRegressor(model.kernel).fit(X[:, :1], Y).predict(X[:, :1]).all()
    )


def test_wide_priors_leave_the_result():
    wide = Prior(stats.lognorm(1e3))
    kernels = [
        ConstantKernel(1.0, one) * RBF([1.0, 1.0], one) + Linear(1.0, one)
        for one in (wide, (1e-5, 1e5))
    ]
    for make in (
        partial(PLSRegressor, hyperparameters="maximise"),
        SpectralVGPRegressor,
    ):
        one, other = (make(kernel=k, random_state=0).fit(X, Y) for k in kernels)
        assert_allclose(one.predict(X), other.predict(X), atol=1e-2)


def test_copies_of_priors():
    kernel = 1.0 * CategoricalKernel(0.5, Prior(stats.beta(2.0, 3.0)))
    assert clone(kernel) == kernel == pickle.loads(pickle.dumps(kernel))
    assert kernel == 1.0 * CategoricalKernel(0.5, Prior(stats.beta(2.0, 3.0)))
    assert kernel != 1.0 * CategoricalKernel(0.5, Prior(stats.beta(3.0, 3.0)))
    other = clone(kernel).set_params(k2__correlation_bounds=tight(0.3))
    assert_allclose(np.exp(other.bounds[1]), tight(0.3).bounds[0])
    # short of the end of the support, where the density is zero
    assert 0.999 < np.exp(kernel.bounds[1, 1]) < 1.0


@pytest.mark.parametrize(
    "distribution",
    [
        2.0,
        stats.lognorm,
        stats.poisson(3.0),
        stats.norm(-1.0, 2.0),
        stats.lognorm([0.5, 1.0]),
        [stats.gamma(2.0), None],
        "lognorm",
        [],
    ],
    ids=range(8),
)
def test_what_is_no_prior_is_refused(distribution):
    with pytest.raises(ValueError, match=r"frozen continuous .* positive median"):
        Prior(distribution)


def test_priors_of_other_sizes_are_refused():
    kernel = RBF(1.0, Prior([stats.gamma(2.0)] * 2))
    with pytest.raises(ValueError, match="length_scale, which has 1 entries, holds 2"):
        PLSRegressor(kernel=kernel).fit(X, Y)


def test_one_prior_for_all_columns_equals_a_list_of_equal_ones():
    shared = Prior(stats.lognorm(0.5, scale=3.0))
    listed = Prior([stats.lognorm(0.5, scale=3.0) for _ in range(2)])
    predictions = []
    for prior in (shared, listed):
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF([1.0, 1.0], prior)
        model = PLSRegressor(kernel, hyperparameters="maximise", random_state=0)
        predictions.append(model.fit(X, Y).predict(X))
    assert_allclose(predictions[0], predictions[1], rtol=1e-10)
