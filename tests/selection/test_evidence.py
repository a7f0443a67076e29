from functools import reduce
from operator import mul

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx._hyperparameters import _evidence
from skgpx._hyperparameters._candidates import default_candidates, of_kernel
from skgpx._hyperparameters._evidence import (
    ExactEvidence,
    SparseEvidence,
    null_evidence,
    sparse_value,
)
from skgpx._hyperparameters._maximise import Objective, maximise
from skgpx._hyperparameters._neighborhoods import Neighborhoods
from skgpx._hyperparameters._series_search import false_alarm_level, wave_gains
from skgpx._numerics import laplace
from skgpx._numerics.regression import TargetRegressions, weight_statistics
from skgpx._shell.validation import Rows
from skgpx.bases import Nystroem
from skgpx.kernels import (
    Additive,
    CategoricalKernel,
    Columns,
    GREKernel,
    Linear,
    category_columns,
)
from skgpx.likelihoods import Bernoulli, Categorical, Gaussian, Poisson, StudentT
from tests.numerics.conftest import fourth_order

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
LIKELIHOODS = {
    "Gaussian": Gaussian(),
    "fixed Gaussian": Gaussian(noise_variance=0.2),
    "Bernoulli": Bernoulli(),
    "probit": Bernoulli("probit"),
    "StudentT": StudentT(df=4.0),
    "Poisson": Poisson(),
    "Categorical": Categorical(),
}


def rows_for(likelihood, rng, n=24):
    X = rng.standard_normal((n, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    if isinstance(likelihood, Bernoulli):
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(np.float64)
    elif isinstance(likelihood, Categorical):
        y = np.digitize(f + 0.2 * rng.standard_normal(n), [-0.5, 0.5]).astype(float)
    elif isinstance(likelihood, Poisson):
        y = rng.poisson(np.exp(f)).astype(np.float64)
    else:
        y = f + 0.4 * rng.standard_normal(n)
    return Rows(X, y, rng.integers(1, 3, n).astype(np.float64))


def test_wave_gains_are_those_of_least_squares():
    rng = np.random.default_rng(3)
    x, omega = np.sort(rng.uniform(0.0, 9.0, 30)), np.array([0.7, 2.0, 5.1])
    rows = Rows(x[:, np.newaxis], rng.standard_normal(30), rng.integers(1, 3, 30) * 1.0)
    kernel = ConstantKernel(0.8) * RBF(1.2)
    root = np.linalg.cholesky(kernel(rows.X) + np.diag(0.3 / rows.weights))
    white = np.linalg.solve(root, rows.y)
    expected = []
    for one in omega:
        waves = np.column_stack((np.cos(one * x), np.sin(one * x)))
        left = np.linalg.lstsq(np.linalg.solve(root, waves), white)[1][0]
        expected.append(0.5 * (white @ white - left))
    gains = wave_gains(rows, kernel, 0.3, omega)
    np.testing.assert_allclose(gains[:, 0], expected)
    # of several targets one has more noise than the noise variance of all says
    other = root @ rng.standard_normal(30)
    targets = rows._replace(y=np.column_stack((rows.y, 3.0 * other)))
    gains = wave_gains(targets, kernel, 0.3, omega)
    noises = np.mean(np.linalg.solve(root, targets.y) ** 2, axis=0)
    relative = noises / noises.mean()
    np.testing.assert_allclose(relative[0] * gains[:, 0], expected)
    alone = wave_gains(rows._replace(y=other), kernel, 0.3, omega)[:, 0]
    np.testing.assert_allclose(relative[1] * gains[:, 1], 9.0 * alone)


@pytest.mark.parametrize("probability", [0.01, 1e-3])
def test_the_strongest_wave_of_noise_is_seldom_above_the_level(probability):
    # the largest of 500 independent exponential gains
    below = 1.0 - np.exp(-false_alarm_level(500, probability))
    assert 1.0 - below**500 == pytest.approx(probability, rel=0.01)


# ---- Inducing points -----------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_evidence_gradient_against_finite_differences(
    rng, kernel, likelihood, monkeypatch
):
    monkeypatch.setattr(laplace, "EVIDENCE_TOLERANCE", 1e-10)
    rows = rows_for(likelihood, rng)
    likelihood = likelihood.prepare(rows.y, rows.weights)
    evidence = SparseEvidence(rows, rows.X[:6], kernel, likelihood)
    theta = np.concatenate((kernel.theta, likelihood.theta))
    theta = theta + 0.1 * rng.standard_normal(len(theta))
    evidence.value_and_gradient(theta)  # finds the mode, where later searches start
    gradient = evidence.value_and_gradient(theta)[1]
    assert gradient.shape == (len(kernel.theta) + len(likelihood.theta),)
    numeric = fourth_order(lambda t: evidence.value_and_gradient(t)[0], theta)
    if not isinstance(likelihood, Gaussian):
        p = len(kernel.theta)
        last = kernel.clone_with_theta(theta[:p]), likelihood.with_theta(theta[p:])
        value = sparse_value(rows, rows.X[:6], *last)
        assert value == pytest.approx(evidence.value_and_gradient(theta)[0], abs=1e-6)
    # what the accuracy of the mode leaves, 1e-10 nats
    scale = 1.0 + np.max(np.abs(numeric))
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=2e-5 * scale)


@pytest.mark.parametrize("n_inducing", [6, 24])
def test_two_classes_have_one_evidence(rng, n_inducing):
    # f_1 - f_0 has twice the variance of each of the two
    rows = rows_for(Bernoulli(), rng)
    kernel = ConstantKernel(1.3) * RBF([0.8, 1.4])
    double = ConstantKernel(2.6) * RBF([0.8, 1.4])
    Z = rows.X[:n_inducing]
    two, one = (
        SparseEvidence(rows, Z, k, distribution.prepare(rows.y)).value_and_gradient(
            k.theta
        )
        for k, distribution in ((kernel, Categorical()), (double, Bernoulli()))
    )
    assert two[0] == pytest.approx(one[0], rel=1e-6)
    np.testing.assert_allclose(two[1], one[1], rtol=1e-3, atol=1e-4)


def written_out(rows):
    times = rows.weights.astype(int)
    y = np.repeat(rows.y, times, axis=0)
    return Rows(np.repeat(rows.X, times, axis=0), y, np.ones(len(y)))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Bernoulli(), Categorical()])
def test_weights_are_repetitions(rng, likelihood, exact):
    rows, kernel = rows_for(likelihood, rng), KERNELS["rbf"]
    if exact and not isinstance(likelihood, Gaussian):
        return
    found = []
    for r in (rows, written_out(rows)):
        how = kernel, likelihood.prepare(r.y, r.weights)
        sparse = SparseEvidence(r, rows.X[:5], *how)
        evidence = ExactEvidence(r, *how) if exact else sparse
        found.append(evidence.value_and_gradient(kernel.theta))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)


# ---- The exact process ---------------------------------------------------------------


def theta_of(evidence):
    return np.concatenate((evidence.kernel.theta, evidence.likelihood.theta))


kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@kernels
def test_exact_evidence_is_that_of_scikit_learn(rng, kernel):
    rows = rows_for(Gaussian(), rng)._replace(weights=np.ones(24))
    mine = ExactEvidence(rows, kernel, Gaussian().prepare(rows.y))
    noise = float(mine.likelihood.noise_variance)
    theirs = GaussianProcessRegressor(kernel + WhiteKernel(noise), optimizer=None)
    theirs = theirs.set_params(alpha=0.0).fit(rows.X, rows.y)
    value, slope = theirs.log_marginal_likelihood(theta_of(mine), eval_gradient=True)
    found = mine.value_and_gradient(theta_of(mine))
    assert found[0] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found[1], slope, rtol=1e-7, atol=1e-7)


@kernels
@pytest.mark.parametrize("noise_variance", [None, 0.2])
def test_exact_gradient_with_weights(rng, kernel, noise_variance):
    rows = rows_for(Gaussian(), rng)
    likelihood = Gaussian(noise_variance).prepare(rows.y, rows.weights)
    evidence = ExactEvidence(rows, kernel, likelihood)
    theta = theta_of(evidence) + 0.1
    _, slope = evidence.value_and_gradient(theta)
    numeric = fourth_order(lambda t: evidence.value_and_gradient(t)[0], theta)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6)


def test_columns_of_targets_are_independent_functions(rng):
    """The sum of their evidences, of weighted rows; and the value without a slope."""
    rows, kernel = rows_for(Gaussian(), rng), KERNELS["rbf"]
    both = rows._replace(y=np.stack((rows.y, np.cos(rows.X[:, 0])), axis=1))
    likelihood, found = Gaussian().prepare(rows.y, rows.weights), []
    for y in (both.y, *both.y.T):
        evidence = ExactEvidence(rows._replace(y=y), kernel, likelihood)
        found.append(evidence.value_and_gradient(theta_of(evidence)))
    assert found[0][0] == pytest.approx(found[1][0] + found[2][0], rel=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1] + found[2][1], rtol=1e-9)
    noise = float(likelihood.noise_variance)
    value = ExactEvidence(both, kernel, likelihood).value(kernel, noise)
    assert value == pytest.approx(found[0][0], rel=1e-12)


@pytest.mark.parametrize("kernel", [*KERNELS, "additive", "line", "season"])
def test_evidence_given_other_rows_is_a_difference(rng, kernel):
    """log p(a | b) = log p(a, b) - log p(b), and its gradient, a sum over sets."""
    kernel = {
        **KERNELS,
        "additive": Additive(RBF([0.8, 1.4])) + ConstantKernel(0.3),
        "line": 1.3 * Matern([0.8, 1.4], nu=2.5) + Linear(0.4),
        "season": 1.3 * RBF(0.8) * Columns(ExpSineSquared(0.9, 1.1), [1]),
    }[kernel]
    rows = rows_for(Gaussian(), rng)
    rows = rows._replace(y=np.stack((rows.y, np.cos(rows.X[:, 0])), axis=1))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    members = np.stack([rng.permutation(len(rows.y))[:19] for _ in range(2)])
    evidence = ExactEvidence(rows, kernel, likelihood, members, n_given=7)
    theta = theta_of(evidence) + 0.1
    value, gradient = evidence.value_and_gradient(theta)
    joint, given = (
        [ExactEvidence(rows.take(chosen), kernel, likelihood) for chosen in sets]
        for sets in (members, members[:, :7])
    )
    terms = [e.value_and_gradient(theta) for e in (*joint, *given)]
    signs = np.array([1.0, 1.0, -1.0, -1.0])
    assert value == pytest.approx(signs @ [term[0] for term in terms], rel=1e-10)
    expected = signs @ np.array([term[1] for term in terms])
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)
    # without a gradient
    kernel, likelihood = evidence.at(theta)
    noise = float(likelihood.variance(0.0))
    assert evidence.value(kernel, noise) == pytest.approx(value, rel=1e-10)


def test_null_evidence_is_the_evidence_without_a_function(rng):
    rows = rows_for(Gaussian(), rng)
    nothing = ConstantKernel(1e-14, "fixed") * RBF(1.0, "fixed")
    best = float(np.average(rows.y**2, weights=rows.weights))
    fixed = Gaussian(best).prepare(rows.y, rows.weights)
    value = ExactEvidence(rows, nothing, fixed).value_and_gradient(np.zeros(0))[0]
    assert null_evidence(rows, fixed) == pytest.approx(value, rel=1e-9)
    free = Gaussian().prepare(rows.y, rows.weights)
    assert null_evidence(rows, free) == pytest.approx(value, rel=1e-9)


def test_rows_given_all_others_are_those_of_scikit_learn(rng):
    rows = rows_for(Gaussian(), rng)
    y = np.stack((rows.y, np.cos(rows.X[:, 0])), axis=1)
    kernel = KERNELS["rbf"]
    # all rows as inducing points: the sparse model is exact
    basis = Nystroem.from_kernel(kernel, rows.X)
    features = basis(rows.X)
    sums = weight_statistics(features, y, rows.weights, np.zeros(24))
    moments = TargetRegressions(sums).left_out(features, y, rows.weights)
    noises = np.array([0.2, 0.05])
    errors, variances = moments(noises)
    for row in range(5):
        others = np.arange(24) != row
        for target, noise in enumerate(noises):
            alpha = noise / rows.weights[others]
            model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)
            model.fit(rows.X[others], y[others, target])
            mean, std = model.predict(rows.X[[row]], return_std=True)
            assert errors[row, target] == pytest.approx(y[row, target] - mean[0])
            assert variances[row, target] == pytest.approx(std[0] ** 2)


def test_left_out_rows_given_scattered_and_nearest_ones(rng):
    """With all others among the nearest it is exact regression, also of two targets."""
    rows, kernel = rows_for(Gaussian(), rng), KERNELS["rbf"]
    rows = rows._replace(y=np.stack((rows.y, np.cos(rows.X[:, 0])), axis=1))
    noise = np.stack((np.ones(24), rng.uniform(0.5, 2.0, 24)), axis=1)
    likelihood = Gaussian(0.2).prepare(rows.y[:, 0], rows.weights)
    for known in (None, noise):
        rows = rows._replace(known=known)
        neighborhoods = Neighborhoods(rows, rows, np.empty((0, 50)))
        densities = []
        for target, y in enumerate(rows.y.T):
            alpha = 0.2 if known is None else 0.2 * known[:, target]
            alpha = np.broadcast_to(alpha, 24)
            model = GaussianProcessRegressor(
                kernel, alpha=(alpha / rows.weights)[:16], optimizer=None
            )
            mean, std = model.fit(rows.X[:16], y[:16]).predict(rows.X, return_std=True)
            densities.append(norm.logpdf(y, mean, np.sqrt(std**2 + alpha)))
        if known is None:
            density, weights = np.sum(densities, axis=0)[16:], rows.weights[16:]
        else:
            # every other row is one of the second function
            density = np.append(densities[0][16::2], densities[1][17::2])
            weights = np.append(rows.weights[16::2], rows.weights[17::2])
        expected = np.average(density, weights=weights)
        found = neighborhoods.held_out_density(kernel, likelihood)
        assert found == pytest.approx(expected, rel=1e-6)


# ---- The log posterior of candidates -------------------------------------------------


@pytest.mark.parametrize("family", [0, 1, 2])
@pytest.mark.parametrize("position", [0, 1])
def test_objective_against_finite_differences(rng, family, position):
    rows, more = rows_for(Gaussian(), rng), rows_for(Gaussian(), rng, 12)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    candidate = default_candidates(rows, likelihood, 1.0)[family][position]
    kernel = candidate.kernel
    blocks = [ExactEvidence(r, kernel, likelihood) for r in (rows, more)]
    objective = Objective(candidate, blocks)
    assert candidate.n_free == 2 + position
    point = 0.3 * rng.standard_normal(candidate.n_free + 1) - 0.5
    slope = objective(point)[1]
    numeric = fourth_order(lambda p: objective(p)[0], point)
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)
    # priors of logarithms: of the amplitude, and of lengthscales in standard deviations
    location = np.sqrt(2.0) + 0.5 * np.log(2.0)
    u = point[:-1]
    expected = student_t.logpdf(u[0], 4.0, 1.0, 1.5)
    expected += np.sum(norm.logpdf(u[1:], location, np.sqrt(3.0)))
    assert candidate.log_prior(u)[0] == pytest.approx(expected)
    noise = candidate.log_prior(point, likelihood)[0] - candidate.log_prior(u)[0]
    # one table in ten has no noise
    density = 0.9 * norm.pdf(point[-1], -2.0, 2.0)
    density += 0.1 * norm.pdf(point[-1], -10.0, 4.0)
    assert noise == pytest.approx(np.log(density))


@pytest.mark.parametrize("likelihood", [StudentT(), Poisson("exp"), Categorical()])
def test_objective_of_laplace_against_finite_differences(rng, likelihood, monkeypatch):
    monkeypatch.setattr(laplace, "EVIDENCE_TOLERANCE", 1e-10)
    rows = rows_for(likelihood, rng)
    likelihood = likelihood.prepare(rows.y, rows.weights)
    candidate = default_candidates(rows, likelihood, 1.0)[0][0]
    evidence = SparseEvidence(rows, rows.X[:6], candidate.kernel, likelihood)
    start = candidate.coordinates_of(candidate.kernel) - 0.2
    point = np.concatenate((start, likelihood.theta))
    objective = Objective(candidate, [evidence])
    objective(point + 1e-3)  # finds the mode, where later searches start
    numeric = fourth_order(lambda p: objective(p)[0], point)
    scale = 1.0 + np.max(np.abs(numeric))
    np.testing.assert_allclose(objective(point)[1], numeric, atol=2e-5 * scale)


def test_units_of_a_search_do_not_change_where_it_ends(rng):
    X = rng.uniform(-2.0, 2.0, (120, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(120)
    rows = Rows(X, y, np.ones(120))
    likelihood = Gaussian().prepare(y, rows.weights)
    candidate = default_candidates(rows, likelihood, unit=float(np.var(y)))[0][-1]
    evidence = ExactEvidence(rows, candidate.kernel, likelihood)
    start = candidate.starts()[1]
    results = [
        maximise(candidate, [evidence], start, 200, tolerance=1e-8, units=units)
        for units in (None, np.full(5, 0.1), rng.uniform(0.05, 2.0, 5))
    ]
    for result in results[1:]:
        assert result.posterior == pytest.approx(results[0].posterior, abs=1e-3)


def test_a_failing_kernel_is_hopeless_and_not_an_error(rng):
    rows = rows_for(Gaussian(), rng)
    likelihood = Gaussian(0.1).prepare(rows.y)
    candidate = of_kernel(RBF(1.0), rows, 1.0)
    for evidence in (
        ExactEvidence(rows, RBF(1.0), likelihood),
        SparseEvidence(rows, rows.X[:4], RBF(1.0), likelihood),
    ):
        with np.errstate(all="ignore"):
            value, slope = Objective(candidate, [evidence])(np.array([np.nan]))
        assert value > 1e9
        assert np.all(np.isfinite(slope))


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_one_lengthscale_is_in_units_of_the_columns(rng, unit):
    rows = rows_for(Gaussian(), rng)
    rows = rows._replace(X=rows.X * [1.0, unit])
    tied, separate = default_candidates(rows, Gaussian().prepare(rows.y), 1.0)[0]
    u = rng.standard_normal(2)
    kernel = tied.kernel_at(u)
    np.testing.assert_allclose(
        kernel.theta, separate.kernel_at(tied.ties @ u).theta, rtol=1e-12
    )
    np.testing.assert_allclose(tied.coordinates_of(kernel), u)
    lengths = kernel.k2.length_scale
    assert lengths[1] / lengths[0] == pytest.approx(unit, rel=0.5)


# ---- The compiled density of few rows ------------------------------------------------

COMPILED_KERNELS = {
    "rbf": ConstantKernel(1.3) * RBF([0.8, 1.4]),
    "one lengthscale": ConstantKernel(0.7) * Matern(1.1, nu=0.5),
    "no amplitude": Matern([0.9, 1.7], nu=1.5),
    "fixed": ConstantKernel(1.3, "fixed") * Matern([0.9, 1.7], "fixed", nu=2.5),
    "trend": ConstantKernel(1.3) * RBF(0.9) + Linear(0.4, centre=0.3),
    "slopes": Matern([0.9, 1.7], nu=2.5) + Linear([0.4, 0.2], centre=[0.1, -1.0]),
    "fixed slopes": RBF(0.9) + Linear([0.4, 0.2], slope_bounds="fixed"),
    "constant last": RBF(1.0) * ConstantKernel(2.0),
    "intercept": ConstantKernel(1.3) * RBF(0.9) + ConstantKernel(0.4),
    "additive": ConstantKernel(1.3) * Columns(RBF(0.9), [1])
    + ConstantKernel(0.4) * Columns(Matern(0.5, nu=1.5), [0])
    + Columns(Linear(0.3), [-1]),
    "interactions": ConstantKernel(1.3, "fixed")
    * Columns(RBF(0.9), [1])
    * Columns(Matern(0.5, nu=1.5) * Matern(1.5, "fixed", nu=2.5), [0])
    + Columns(ConstantKernel(0.3) * Matern([0.4, 0.9], nu=0.5), [1, 0]),
    "factors of sums": (RBF(2.0) + Matern(0.7, nu=1.5))
    * (ConstantKernel(1.3) * Matern(3.0, nu=2.5) + CategoricalKernel(0.3)),
    "categories": ConstantKernel(1.3)
    * Columns(Matern([0.9, 1.7], nu=2.5), [0, 1])
    * Columns(CategoricalKernel(np.array([0.4, 0.7])), [2, 3]),
    "categories alone": ConstantKernel(1.3) * CategoricalKernel(0.4),
    "categories, trend": ConstantKernel(1.3)
    * Columns(RBF([0.9, 1.7]), [0, 1])
    * Columns(CategoricalKernel(np.array([0.4, 0.7]), n_categories=3), [3, 2])
    + Columns(Linear([0.4, 0.2], centre=[0.1, -1.0]), [0, 1]),
    "season": ConstantKernel(1.3) * Columns(Matern(2.0, nu=1.5), [0])
    + Columns(Linear(0.4), [0])
    + ConstantKernel(0.8) * Columns(RBF(3.0) * ExpSineSquared(1.2, 0.9), [0]),
    "seasons, fixed": ConstantKernel(1.3)
    * Columns(ExpSineSquared(1.2, 0.9, length_scale_bounds="fixed"), [0])
    * Columns(Matern(0.7, nu=2.5) * ExpSineSquared(0.8, 2.1), [1])
    + Columns(ExpSineSquared(0.5, 1.7, periodicity_bounds="fixed"), [1]),
    "categories, fixed": Columns(CategoricalKernel(0.4, "fixed"), [2])
    + ConstantKernel(0.3) * Columns(CategoricalKernel(1.0), [3]),
}


def evidence_problem(kernel, likelihood, rng, n_targets=1, n=39):
    rows = rows_for(likelihood, rng, n)
    if category_columns(kernel, 4):
        codes = rng.integers(0, 3, (n, 2))
        rows = rows._replace(X=np.concatenate((rows.X, codes), axis=1))
    targets = [rows.y * rows.X[:, 0] ** power for power in range(n_targets)]
    y = rows.y if n_targets == 1 else np.stack(targets, axis=1)
    rows = rows._replace(y=y, known=rng.uniform(0.5, 2.0, n))
    likelihood = likelihood.prepare(y, rows.weights)
    evidence = ExactEvidence(rows, kernel, likelihood)
    theta = np.concatenate((kernel.theta, likelihood.theta))
    thetas = theta + 0.1 * rng.standard_normal((3, len(theta)))
    # a correlation is at most one
    p = len(kernel.theta)
    if p:
        thetas[:, :p] = np.minimum(thetas[:, :p], kernel.bounds[:, 1])
    return evidence, thetas


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("noise", [None, 0.2])
@pytest.mark.parametrize("kernel", COMPILED_KERNELS.values(), ids=COMPILED_KERNELS)
def test_compiled_evidence_is_that_of_lapack(rng, kernel, noise, n_targets):
    evidence, thetas = evidence_problem(kernel, Gaussian(noise), rng, n_targets)
    assert evidence._form is not None
    expected = [evidence._by_factorisation(theta) for theta in thetas]
    values, gradients = evidence.values_and_gradients(thetas)
    np.testing.assert_allclose(values, [value for value, _ in expected], rtol=1e-11)
    np.testing.assert_allclose(evidence.values(thetas), values, rtol=1e-13)
    if thetas.size:
        slopes = [slope for _, slope in expected]
        np.testing.assert_allclose(gradients, slopes, rtol=1e-9, atol=1e-10)
    for theta, value in zip(thetas, values, strict=True):
        single, gradient = evidence.value_and_gradient(theta)
        assert single == value
        assert len(gradient) == len(theta)
        p = len(kernel.theta)
        noise_variance = evidence.likelihood.with_theta(theta[p:]).variance(0.0)
        there = evidence.value(kernel.clone_with_theta(theta[:p]), noise_variance)
        np.testing.assert_allclose(there, value, rtol=1e-12)


def test_compiled_evidence_of_matrices_that_are_nearly_singular(rng):
    kernel = ConstantKernel(1.0) * RBF([30.0, 50.0])
    evidence, _ = evidence_problem(kernel, Gaussian(), rng)
    for noise in (1e-7, 1e-9):
        theta = np.append(kernel.theta, np.log(noise))
        value, gradient = evidence.value_and_gradient(theta)
        expected, slope = evidence._by_factorisation(theta)
        # condition number times the rounding of a double
        accuracy = 1e2 * 40.0 / noise * 2.2e-16
        assert value == pytest.approx(expected, rel=accuracy)
        scale = np.max(np.abs(slope))
        np.testing.assert_allclose(gradient, slope, atol=accuracy * scale)
    # two rows with equal inputs, and no noise
    X = np.zeros((2, 2))
    rows = Rows(X, np.array([0.0, 1.0]), np.ones(2))
    singular = ExactEvidence(rows, kernel, Gaussian(1e-240).prepare(rows.y))
    assert singular.values(kernel.theta[np.newaxis])[0] == -np.inf
    with pytest.raises(np.linalg.LinAlgError):
        singular.value_and_gradient(kernel.theta)


def test_other_kernels_and_many_rows_have_no_compiled_evidence(rng, monkeypatch):
    likelihood = Gaussian()
    others = (
        KERNELS["gre"],
        ConstantKernel(1.0) * RationalQuadratic(0.7, 1.2),
        RBF(1.0) * Linear(0.4),
        ConstantKernel(1.0) * (ConstantKernel(2.0) * RBF(1.0)),
        Matern(1.0, nu=2.0),
        RBF(1.0) + ConstantKernel(1e-3) * ExpSineSquared(1.0, 1.0),
        # sixteen products of four leaves each
        reduce(mul, [RBF(1.0) + Matern(0.5 + power, nu=1.5) for power in range(4)]),
    )
    for kernel in others:
        evidence, thetas = evidence_problem(kernel, likelihood, rng)
        assert evidence._form is None
        values, gradients = evidence.values_and_gradients(thetas)
        np.testing.assert_allclose(evidence.values(thetas), values, rtol=1e-12)
        value, gradient = evidence.value_and_gradient(thetas[0])
        assert value == values[0]
        np.testing.assert_array_equal(gradient, gradients[0])
    monkeypatch.setattr(_evidence, "_COMPILED_ROWS", 38)
    evidence, _ = evidence_problem(RBF(1.0), likelihood, rng)
    assert evidence._form is None
