"""Averages by Laplace's evidence: classes, counts and heavy tails of few rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import lognorm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import roc_auc_score

from skgpx import PLSClassifier, PLSRegressor
from skgpx._selection._evidence import SparseEvidence
from skgpx._selection._process_evidence import LaplaceEvidence
from skgpx._validation import canonical_rows
from skgpx.kernels import Prior
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    NegativeBinomial,
    Poisson,
    StudentT,
)

AVERAGE = {"hyperparameters": "average", "random_state": 0}


def table(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, d))
    f = 2.0 * np.sin(2.0 * X[:, 0])
    return X, f, rng


def targets(likelihood, f, rng):
    n = len(f)
    if isinstance(likelihood, StudentT):
        return f + 0.2 * rng.standard_t(3.0, n)
    if isinstance(likelihood, Bernoulli):
        return (f + rng.logistic(size=n) > 0.0).astype(float)
    if isinstance(likelihood, Categorical):
        return np.digitize(f + 0.3 * rng.standard_normal(n), [-1.0, 1.0]).astype(float)
    return rng.poisson(np.exp(f)).astype(float)


# ---- The evidence --------------------------------------------------------------------


@pytest.mark.parametrize(
    "likelihood",
    [
        Bernoulli(),
        Bernoulli("probit"),
        Categorical(),
        StudentT(),
        Poisson(),
        NegativeBinomial(),
    ],
    ids=repr,
)
def test_the_evidence_is_that_of_inducing_points_at_all_rows(likelihood):
    X, f, rng = table()
    y = targets(likelihood, f, rng)
    weights = rng.integers(1, 3, len(y)).astype(float)
    rows = canonical_rows(X, y, weights)
    likelihood = likelihood.prepare(rows.y, rows.weights)
    kernel = ConstantKernel(2.0) * RBF([1.0, 3.0])
    theta = np.append(kernel.theta, likelihood.theta)
    exact = LaplaceEvidence(rows, kernel, likelihood)
    sparse = SparseEvidence(rows, rows.X, kernel, likelihood)
    value, gradient = exact.value_and_gradient(theta)
    expected, expected_gradient = sparse.value_and_gradient(theta)
    # of Student's t-distribution the mode is found to a part of a nat
    assert value == pytest.approx(expected, abs=1e-5)
    assert_allclose(gradient, expected_gradient, atol=1e-2)
    values, gradients = exact.values_and_gradients(theta[np.newaxis])
    assert values[0] == pytest.approx(value, abs=1e-5)
    assert_allclose(gradients[0], gradient, atol=1e-4)


def test_exposures_multiply_the_rates():
    X, f, rng = table(25)
    exposure = rng.uniform(0.5, 2.0, len(f))
    y = rng.poisson(exposure * np.exp(f)).astype(float)
    rows = canonical_rows(X, y, np.ones(len(y)))._replace(known=exposure)
    likelihood = Poisson().prepare(rows.y, rows.weights, rows.known)
    kernel = ConstantKernel(2.0) * RBF(1.0)
    exact = LaplaceEvidence(rows, kernel, likelihood)
    value, gradient = exact.value_and_gradient(kernel.theta)
    h = 1e-4
    for i in range(len(gradient)):
        step = h * (np.arange(len(gradient)) == i)
        above, _ = exact.value_and_gradient(kernel.theta + step)
        below, _ = exact.value_and_gradient(kernel.theta - step)
        assert gradient[i] == pytest.approx((above - below) / (2.0 * h), abs=1e-3)
    assert np.isfinite(value)


# ---- The states ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
def test_states_have_the_moments_of_the_posterior_by_the_evidence():
    X, f, rng = table(15, 1)
    y = rng.poisson(np.exp(0.5 * f)).astype(float)
    amplitude = Prior(lognorm(0.7, scale=1.0))
    length_scale = Prior(lognorm(0.7, scale=1.5))
    kernel = ConstantKernel(1.0, amplitude) * RBF(1.0, length_scale)
    # by quadrature on a grid of log amplitude and log lengthscale
    z = np.linspace(-4.5, 4.5, 25)
    grids = np.meshgrid(0.7 * z, np.log(1.5) + 0.7 * z, indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    rows = canonical_rows(X, y, np.ones(len(y)))
    likelihood = Poisson().prepare(rows.y, rows.weights)
    evidence = LaplaceEvidence(rows, kernel, likelihood)
    log_density, _ = evidence.values_and_gradients(points)
    squares = z[:, np.newaxis] ** 2 + z**2
    log_density = log_density - 0.5 * squares.ravel()
    density = np.exp(log_density - logsumexp(log_density))
    exact_means = density @ points
    exact_std = np.sqrt(density @ (points - exact_means) ** 2)
    # by 24 states, of which half are taken to be independent
    model = PLSRegressor(
        kernel,
        likelihood=Poisson(),
        n_particles=2,
        max_iter=20,
        **AVERAGE,
    ).fit(X, y)
    states = model.hyperparameter_states_
    theta = np.array([state.kernel.theta for state in states])
    mean = np.array([state.weight for state in states]) @ theta
    z = (mean - exact_means) / (exact_std / np.sqrt(12))
    assert np.all(np.abs(z) < 4.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_average_the_states(n_classes):
    X, f, rng = table(18, 1)
    y = targets(Bernoulli() if n_classes == 2 else Categorical(), f, rng)
    X_new, _, _ = table(10, 1, seed=1)
    model = PLSClassifier(**AVERAGE).fit(X, y)
    states = model.hyperparameter_states_
    probabilities = model.predict_proba(X_new)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    alone = []
    for state in states:
        given = PLSClassifier(state.kernel, optimizer=None, random_state=1).fit(X, y)
        alone.append(state.weight * given.predict_proba(X_new))
    # eight particles for each state: standard errors of 0.03 at log odds of 3.5
    assert_allclose(probabilities, np.sum(alone, axis=0), atol=0.09)


@pytest.mark.parametrize("likelihood", [StudentT(), NegativeBinomial()])
def test_scales_are_averaged(likelihood):
    X, f, rng = table(15, 1)
    y = targets(likelihood, f, rng)
    model = PLSRegressor(likelihood=likelihood, n_particles=10, **AVERAGE).fit(X, y)
    (name,) = likelihood.scale_names
    scales = [getattr(state.likelihood, name) for state in model.hyperparameter_states_]
    assert len(np.unique(scales)) > 5
    # quantiles have their probability, or more where y is discrete
    distribution = model.predict_dist(X[:5])
    high = distribution.quantile(0.9)
    surplus = distribution.cdf(high) - 0.9
    assert np.all(surplus > -1e-6)
    assert likelihood.discrete or np.all(surplus < 1e-6)


def test_the_seed_decides_whatever_the_number_of_jobs():
    X, f, rng = table(15, 1)
    y = targets(Bernoulli(), f, rng)
    first = PLSClassifier(n_particles=8, **AVERAGE).fit(X, y)
    second = PLSClassifier(n_particles=8, n_jobs=2, **AVERAGE).fit(X, y)
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))


# ---- By default ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("n_classes", "n", "averages"),
    [(2, 30, True), (2, 201, False), (3, 30, True), (3, 101, False)],
)
def test_few_rows_of_classes_are_averaged_by_default(n_classes, n, averages):
    X, f, rng = table(n, 1)
    y = targets(Bernoulli() if n_classes == 2 else Categorical(), f, rng)
    model = PLSClassifier(n_particles=2, max_iter=10, tol=0.0, random_state=0)
    model.fit(X, y)
    assert bool(model.hyperparameter_states_) == averages


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
def test_chains_that_are_given_have_one_state():
    X, f, rng = table(20, 1)
    y = targets(Bernoulli(), f, rng)
    model = PLSClassifier(method="mala", max_iter=10, tol=0.0, random_state=0)
    assert not model.fit(X, y).hyperparameter_states_


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
def test_two_columns_of_thirty_are_found():
    # the state of the largest posterior has one lengthscale for all columns
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 30))
    f = 3.0 * X[:, 0] + 3.0 * np.sin(2.0 * X[:, 1])
    y = (f + rng.logistic(size=len(f)) > 0.0).astype(float)
    averaged = PLSClassifier(random_state=0).fit(X[:100], y[:100])
    chosen = PLSClassifier(hyperparameters="maximise", random_state=0)
    chosen.fit(X[:100], y[:100])
    area = roc_auc_score(y[100:], averaged.predict_proba(X[100:])[:, 1])
    chosen_area = roc_auc_score(y[100:], chosen.predict_proba(X[100:])[:, 1])
    assert area > chosen_area + 0.05
