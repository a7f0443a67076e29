"""`log_evidence_` is one thing: log p(y) of the fitted model, in the units of y."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpx import (
    ExactGPRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx._hyperparameters import row_target
from skgpx._numerics import laplace
from skgpx._shell.validation import Rows
from skgpx.likelihoods import Poisson, StudentT
from tests.pls.test_neighbors import variational_bound

N = 60
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, size=(N, 1))
Y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=N)
WEIGHTS = rng.integers(1, 4, size=N)
NOISE = 0.09
FIXED = ConstantKernel(1.3, "fixed") * RBF(0.8, "fixed")
GIVEN = {"optimizer": None, "normalize_y": False}
NORMAL = StudentT(df=1e7, scale=np.sqrt(NOISE))


def white(kernel):
    return kernel + WhiteKernel(NOISE, "fixed")


def of_gpr(kernel, X, y):
    exact = GaussianProcessRegressor(kernel, alpha=1e-10, optimizer=None).fit(X, y)
    return exact.log_marginal_likelihood_value_


ALL = {"inducing": X, "n_neighbors": 0, "random_state": 0}
NEAR = {"n_inducing": 10, "n_neighbors": N - 1, "random_state": 0}
SHORT = {"n_particles": 20, "tol": 3.0}
MODELS = {
    "pls": PLSRegressor(white(FIXED), **GIVEN, **ALL),
    "pls, neighbours": PLSRegressor(white(FIXED), **GIVEN, **NEAR),
    "pls, chains": PLSRegressor(white(FIXED), method="mala", **SHORT, **GIVEN, **ALL),
    "pls, Laplace": PLSRegressor(FIXED, likelihood=NORMAL, **SHORT, **GIVEN, **ALL),
    "pls, Laplace, neighbours": PLSRegressor(FIXED, likelihood=NORMAL, **GIVEN, **NEAR),
    "spectral": SpectralVGPRegressor(white(FIXED), n_basis=101, **GIVEN),
    "spectral, inducing": SpectralVGPRegressor(
        white(FIXED), basis="inducing", n_basis=N, random_state=0, **GIVEN
    ),
    "exact": ExactGPRegressor(white(FIXED), random_state=0, **GIVEN),
    "exact, neighbours": ExactGPRegressor(
        white(FIXED), n_neighbors=N - 1, random_state=0, **GIVEN
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_log_marginal_likelihood_in_units_of_y(name):
    model = MODELS[name]
    value = of_gpr(white(FIXED), X, Y)
    assert_allclose(clone(model).fit(X, Y).log_evidence_, value, atol=2e-2)
    # no search that finds nothing to do leaves it unknown
    searched = clone(model).set_params(optimizer="evidence")
    assert_allclose(searched.fit(X, Y).log_evidence_, value, atol=2e-2)
    # a weight is so many observations
    repeated = np.repeat(np.arange(N), WEIGHTS)
    weighted = clone(model).fit(X, Y, sample_weight=WEIGHTS)
    value = of_gpr(white(FIXED), X[repeated], Y[repeated])
    assert_allclose(weighted.log_evidence_, value, atol=3e-2)


@pytest.mark.parametrize("name", [*MODELS, "stein"])
def test_units_of_y_enter_by_the_volume_alone(name):
    stein = SteinRFFRegressor(
        n_components=2, n_frequencies=10, max_iter=5, random_state=0
    )
    model = clone({**MODELS, "stein": stein}[name])
    if name != "stein":
        model.set_params(normalize_y=True)
    if "Laplace" in name:
        model.set_params(likelihood=StudentT(df=5.0))
    one = clone(model).fit(X, Y).log_evidence_
    other = clone(model).fit(X, 1000.0 * Y + 77.0).log_evidence_
    assert_allclose(other, one - N * np.log(1000.0), atol=2e-2)


def test_several_targets_and_known_noise():
    known = rng.uniform(0.05, 0.2, size=N)
    exact = GaussianProcessRegressor(FIXED, alpha=known, optimizer=None).fit(X, Y)
    value = exact.log_marginal_likelihood_value_
    both = np.column_stack((Y, np.cos(X[:, 0])))
    total = sum(of_gpr(white(FIXED), X, y) for y in both.T)
    for name in ("pls", "exact", "spectral, inducing"):
        model = MODELS[name]
        bare = clone(model).set_params(kernel=FIXED)
        fitted = bare.fit(X, Y, noise_variance=known)
        assert_allclose(fitted.log_evidence_, value, atol=2e-2)
        assert_allclose(clone(model).fit(X, both).log_evidence_, total, atol=3e-2)


def test_a_learned_model_has_the_evidence_of_what_was_learned():
    kernel = 1.0 * RBF(1.0) + WhiteKernel(0.1)
    model = ExactGPRegressor(kernel, random_state=0).fit(X, Y)
    given = model.kernel_ + WhiteKernel(model.noise_variance_ / np.var(Y))
    expected = of_gpr(given, X, (Y - Y.mean()) / Y.std()) - N * np.log(Y.std())
    assert_allclose(model.log_evidence_, expected, atol=2e-2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("optimizer", [None, "evidence"])
def test_laplace_at_the_fitted_model(optimizer):
    counts = rng.poisson(np.exp(Y)).astype(float)
    how = {"optimizer": optimizer, "n_particles": 10, **ALL}
    model = PLSRegressor(FIXED, likelihood=Poisson(), **how).fit(X, counts)
    rows = Rows(X, counts, np.ones(N))
    # the base has moved: it is that of the model, with all rows as features
    root = np.linalg.cholesky(FIXED(X) + 1e-9 * np.eye(N))
    target = row_target(root, rows, model.likelihood_)
    value = laplace.laplace_evidence(target, np.zeros(N), np.zeros((N, 1)))[0]
    assert_allclose(model.log_evidence_, value, atol=1e-2)
    near = clone(model).set_params(inducing="greedy", n_inducing=10, n_neighbors=N - 1)
    near.fit(X, counts)
    assert_allclose(near.log_evidence_, variational_bound(near, X, counts), atol=2e-2)
    assert_allclose(near.log_evidence_, value, atol=0.1)
    labels = PLSClassifier(FIXED, **how).fit(X, Y > 0.0)
    assert np.isfinite(labels.log_evidence_)
