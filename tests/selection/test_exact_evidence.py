import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpx._selection._exact_evidence import (
    ExactEvidence,
    held_out,
    held_out_density,
)
from skgpx._selection._learner import (
    Candidate,
    Objective,
    default_candidates,
    noise_only,
)
from skgpx._selection._sparse_density import sparse_density
from skgpx._validation import Rows
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Gaussian

KERNELS = {
    "rbf": ConstantKernel(1.3) * RBF([0.8, 1.4]),
    "matern": ConstantKernel(0.9) * Matern(1.1, nu=1.5) + ConstantKernel(0.2),
    "gre": GREKernel(
        ConstantKernel(1.2) * RBF([0.9, 1.2]),
        np.random.default_rng(7).standard_normal((9, 2)),
        background=0.6,
    ),
    "fixed amplitude": ConstantKernel(1.3, "fixed") * RBF(0.9),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def some_rows(rng, n=30, weights=True):
    X = rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)
    return Rows(X, y, rng.integers(1, 4, n) * 1.0 if weights else np.ones(n))


def written_out(rows):
    times = rows.weights.astype(int)
    y = np.repeat(rows.y, times)
    return Rows(np.repeat(rows.X, times, axis=0), y, np.ones(len(y)))


def central(function, x, h=1e-5):
    steps = h * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * h) for s in steps])


@kernels
def test_value_and_gradient_are_those_of_scikit_learn(rng, kernel):
    rows = some_rows(rng, weights=False)
    mine = ExactEvidence(rows, kernel, Gaussian().prepare(rows.y))
    noise = float(mine.likelihood.noise_variance)
    theirs = GaussianProcessRegressor(kernel + WhiteKernel(noise), optimizer=None)
    theirs = theirs.set_params(alpha=0.0).fit(rows.X, rows.y)
    value, slope = theirs.log_marginal_likelihood(mine.theta, eval_gradient=True)
    found = mine.value_and_gradient(mine.theta)
    assert found[0] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found[1], slope, rtol=1e-7, atol=1e-7)
    assert mine.value(mine.theta) == pytest.approx(value, rel=1e-9)


@kernels
@pytest.mark.parametrize("noise_variance", [None, 0.2])
def test_gradient_with_weights_against_finite_differences(rng, kernel, noise_variance):
    rows = some_rows(rng)
    likelihood = Gaussian(noise_variance).prepare(rows.y, rows.weights)
    evidence = ExactEvidence(rows, kernel, likelihood)
    theta = evidence.theta + 0.1
    _, slope = evidence.value_and_gradient(theta)
    assert slope.shape == theta.shape == (len(evidence.bounds),)
    numeric = central(evidence.value, theta)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6)


def test_weights_are_repetitions(rng):
    rows, kernel = some_rows(rng), KERNELS["rbf"]
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    one, other = (
        ExactEvidence(r, kernel, likelihood).value_and_gradient(
            np.append(kernel.theta, np.log(0.2))
        )
        for r in (rows, written_out(rows))
    )
    assert one[0] == pytest.approx(other[0], rel=1e-9)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-7)
    whole = written_out(rows)
    assert noise_only(rows, likelihood) == pytest.approx(noise_only(whole, likelihood))


def test_noise_only_is_the_evidence_without_a_function(rng):
    rows = some_rows(rng)
    nothing = ConstantKernel(1e-14, "fixed") * RBF(1.0, "fixed")
    best = float(np.average(rows.y**2, weights=rows.weights))
    fixed = Gaussian(best).prepare(rows.y, rows.weights)
    value = ExactEvidence(rows, nothing, fixed).value(np.zeros(0))
    assert noise_only(rows, fixed) == pytest.approx(value, rel=1e-9)
    free = Gaussian().prepare(rows.y, rows.weights)
    assert noise_only(rows, free) == pytest.approx(value, rel=1e-9)
    assert noise_only(rows, Gaussian(2 * best).prepare(rows.y)) < value


def test_a_failing_kernel_is_hopeless_and_not_an_error(rng):
    rows = some_rows(rng)
    evidence = ExactEvidence(rows, RBF(1.0), Gaussian(0.1).prepare(rows.y))
    with np.errstate(all="ignore"):
        value, slope = evidence.negative(np.array([np.nan]))
    assert value > 1e9
    assert np.all(np.isfinite(slope))


def test_held_out_law_is_that_of_scikit_learn(rng):
    rows, other = some_rows(rng), some_rows(rng, 7)
    kernel, whole = KERNELS["rbf"], written_out(rows)
    model = GaussianProcessRegressor(kernel, alpha=0.2, optimizer=None)
    mean, std = model.fit(whole.X, whole.y).predict(other.X, return_std=True)
    law = held_out(kernel, 0.2, rows, other.X)
    np.testing.assert_allclose(law.mean, mean, atol=1e-9)
    np.testing.assert_allclose(law.variance, std**2 + 0.2, rtol=1e-9)
    density = norm.logpdf(other.y, mean, np.sqrt(std**2 + 0.2))
    expected = np.average(density, weights=other.weights)
    assert held_out_density(kernel, 0.2, rows, other) == pytest.approx(expected)
    # all rows as inducing points: the sparse judge is exact, and counts rows once
    sparse = sparse_density(kernel, (0.2, 0.2), rows, other, 600)
    assert sparse == pytest.approx(density.mean(), rel=1e-6)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("anisotropic", [False, True])
def test_objective_of_candidates_against_finite_differences(rng, position, anisotropic):
    rows, more = some_rows(rng), some_rows(rng, 12)
    candidate = default_candidates(rows)[position][anisotropic]
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    objective = Objective(candidate, likelihood, (rows, more))
    assert candidate.n_free == (3 if anisotropic else 2)
    point = 0.3 * rng.standard_normal(candidate.n_free + 1) - 0.5
    value, slope = objective.negative(point)
    assert value == pytest.approx(-objective.value(point), rel=1e-9)
    numeric = -central(objective.value, point)
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)
    # the log-normal prior of the lengthscales: √2 + ½ log 2, variance 3
    location = np.sqrt(2.0) + 0.5 * np.log(2.0)
    u = point[:-1]
    expected = -0.5 * np.sum((u[1:] - location) ** 2) / 3.0
    assert candidate.log_prior(u)[0] == pytest.approx(expected)


def test_one_lengthscale_is_in_units_of_the_columns(rng):
    rows = some_rows(rng)
    rows = rows._replace(X=rows.X * [1e-3, 1e4])
    tied, _ = default_candidates(rows)[0]
    lengths = tied.kernel_at(np.log([2.0, 0.7])).k2.length_scale
    std = np.sqrt(
        np.cov(rows.X.T, fweights=rows.weights.astype(int), ddof=0).diagonal()
    )
    np.testing.assert_allclose(lengths, 0.7 * std, rtol=1e-9)


def test_a_users_kernel_has_no_prior(rng):
    candidate = Candidate.of_kernel(KERNELS["rbf"])
    u = KERNELS["rbf"].theta
    assert candidate.log_prior(u)[0] == 0.0
    assert candidate.log_noise_prior(np.zeros(1), 1.0)[0] == 0.0
    # to rounding: the exponential of a logarithm
    kernel = candidate.kernel_at(u)
    assert repr(kernel) == repr(KERNELS["rbf"])
    np.testing.assert_allclose(kernel.theta, u, rtol=1e-14)
