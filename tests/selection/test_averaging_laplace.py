"""Averages of classes, counts and heavy tails of few rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import lognorm, multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, RationalQuadratic
from sklearn.metrics import roc_auc_score

from skgpx import DecoupledSampler, GWIRegressor, PLSClassifier, PLSRegressor
from skgpx._hyperparameters._evidence import ExactEvidence, SparseEvidence
from skgpx._hyperparameters._process_evidence import (
    LaplaceEvidence,
    VariationalEvidence,
)
from skgpx._shell.validation import canonical_rows
from skgpx.kernels import Prior
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
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


KERNEL = ConstantKernel(2.0) * RBF([1.0, 3.0])


def rows_and_likelihood(likelihood, n=40):
    X, f, rng = table(n)
    weights = rng.integers(1, 3, n).astype(float)
    rows = canonical_rows(X, targets(likelihood, f, rng), weights)
    return rows, likelihood.prepare(rows.y, rows.weights)


def test_the_evidence_of_classes_is_that_of_inducing_points_at_all_rows():
    rows, likelihood = rows_and_likelihood(Categorical())
    theta = KERNEL.theta
    exact = LaplaceEvidence(rows, KERNEL, likelihood)
    sparse = SparseEvidence(rows, rows.X, KERNEL, likelihood)
    value, gradient = exact.value_and_gradient(theta)
    expected, expected_gradient = sparse.value_and_gradient(theta)
    assert value == pytest.approx(expected, abs=1e-5)
    assert_allclose(gradient, expected_gradient, atol=1e-2)
    values, gradients = exact.values_and_gradients(theta[np.newaxis])
    assert values[0] == pytest.approx(value, abs=1e-5)
    assert_allclose(gradients[0], gradient, atol=1e-4)


@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + RationalQuadratic()], ids=repr)
def test_the_bound_is_the_evidence_of_normal_noise(kernel):
    X, f, rng = table()
    y = f + 0.3 * rng.standard_normal(len(f))
    rows = canonical_rows(X, y, rng.integers(1, 3, len(y)).astype(float))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    theta = np.append(kernel.theta, likelihood.theta)
    bound = VariationalEvidence(rows, kernel, likelihood).value_and_gradient(theta)
    exact = ExactEvidence(rows, kernel, likelihood).value_and_gradient(theta)
    assert bound[0] == pytest.approx(exact[0], abs=1e-6)
    assert_allclose(bound[1], exact[1], atol=1e-4)


@pytest.mark.parametrize(
    "likelihood",
    [Bernoulli(), Bernoulli("probit"), StudentT(), Poisson(), NegativeBinomial()],
    ids=repr,
)
def test_the_bound_is_a_little_below_the_evidence(likelihood, rng):
    rows, likelihood = rows_and_likelihood(likelihood, n=15)
    evidence = VariationalEvidence(rows, KERNEL, likelihood)
    bound, z, noise = evidence.working_responses()
    # E_q p(y | f) p(f) / q(f) with the posterior q of the values z
    K = KERNEL(rows.X)
    gain = np.linalg.solve(K + np.diag(noise), K).T
    q = multivariate_normal(gain @ z, K - gain @ K, allow_singular=True)
    f = q.rvs(4000, random_state=rng)
    base = float(likelihood.base_latent_[0])
    nll = likelihood.nll(rows.y, f + base) @ rows.weights
    log_sites = -0.5 * ((z - f) ** 2 / noise + np.log(2.0 * np.pi * noise))
    log_site_density = multivariate_normal(cov=K + np.diag(noise)).logpdf(z)
    log_weights = -nll - log_sites.sum(axis=1) + log_site_density
    weights = np.exp(log_weights - log_weights.max())
    value = np.log(weights.mean()) + log_weights.max()
    standard_error = weights.std() / weights.mean() / np.sqrt(len(weights))
    assert bound < value + 4.0 * standard_error + 1e-2
    assert bound > value - 0.5
    # and its slopes are those of its values
    theta = np.append(KERNEL.theta, likelihood.theta)
    _, gradient = evidence.value_and_gradient(theta)
    steps = 0.02 * np.eye(len(theta))
    values, _ = evidence.values_and_gradients(
        np.concatenate((theta + steps, theta - steps))
    )
    differences = (values[: len(theta)] - values[len(theta) :]) / 0.04
    # rounds end where they gain a hundredth of a nat
    assert_allclose(gradient, differences, atol=0.1, rtol=0.05)


def test_exposures_multiply_the_rates():
    X, f, rng = table(25)
    exposure = rng.uniform(0.5, 2.0, len(f))
    y = rng.poisson(exposure * np.exp(f)).astype(float)
    rows = canonical_rows(X, y, np.ones(len(y)))._replace(known=exposure)
    likelihood = Poisson().prepare(rows.y, rows.weights, rows.known)
    kernel = ConstantKernel(2.0) * RBF(1.0)
    exact = VariationalEvidence(rows, kernel, likelihood)
    value, gradient = exact.value_and_gradient(kernel.theta)
    h = 1e-2
    for i in range(len(gradient)):
        step = h * (np.arange(len(gradient)) == i)
        above, _ = exact.value_and_gradient(kernel.theta + step)
        below, _ = exact.value_and_gradient(kernel.theta - step)
        assert gradient[i] == pytest.approx((above - below) / (2.0 * h), abs=0.1)
    assert np.isfinite(value)


# ---- The states ----------------------------------------------------------------------


@pytest.mark.usefixtures("every_state")
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
    evidence = VariationalEvidence(rows, kernel, likelihood)
    log_density, _ = evidence.values_and_gradients(points)
    squares = z[:, np.newaxis] ** 2 + z**2
    log_density = log_density - 0.5 * squares.ravel()
    density = np.exp(log_density - logsumexp(log_density))
    exact_means = density @ points
    exact_std = np.sqrt(density @ (points - exact_means) ** 2)
    # by the states, of which a dozen are taken to be independent
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
    # the closest normal distribution, or eight particles for each state
    largest = 0.05 if n_classes == 2 else 0.09
    assert_allclose(probabilities, np.sum(alone, axis=0), atol=largest)


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


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (PLSRegressor(), np.ones(12)),
        (PLSRegressor(likelihood=StudentT()), np.ones(12)),
        (PLSRegressor(likelihood=Bernoulli()), np.ones(12)),
        (PLSRegressor(likelihood=Poisson()), np.zeros(12)),
        (GWIRegressor(), np.ones(12)),
        (DecoupledSampler(), np.ones(12)),
    ],
    ids=repr,
)
def test_averages_of_equal_targets_are_refused(estimator, y):
    X, _, _ = table(12)
    with pytest.raises(ValueError, match="needs targets that differ; got 12 equal"):
        estimator.set_params(**AVERAGE).fit(X, y)
