"""The residual by nearest rows: equal to the exact process with all predecessors."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_array_less
from scipy import optimize
from scipy.special import expit
from sklearn.gaussian_process import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
)
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from skgpx import PLSClassifier, PLSRegressor
from skgpx.exceptions import ConvergenceWarning, FitWarning
from skgpx.kernels import CategoricalKernel, Columns
from skgpx.likelihoods import (
    Bernoulli,
    Beta,
    Gamma,
    Gaussian,
    Likelihood,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Tobit,
)


def table(n, d=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, d))
    y = np.sin(3.0 * X[:, 0]) + X[:, -1] ** 2 + noise * rng.standard_normal(n)
    return X, y


def fixed(kernel, noise_variance, n_neighbors, **options):
    return PLSRegressor(
        kernel,
        likelihood=Gaussian(noise_variance),
        optimizer=None,
        normalize_y=False,
        n_neighbors=n_neighbors,
        **{"n_inducing": 30, "random_state": 0} | options,
    )


def assert_moments(values, mean, covariance):
    """Draws (p, s) agree with a normal distribution, within five standard errors."""
    s = values.shape[1]
    variance = np.diagonal(covariance)
    z = (values.mean(axis=1) - mean) / np.sqrt(variance / s)
    assert np.abs(z).max() < 5.0
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / s)
    assert np.abs((np.cov(values) - covariance) / error).max() < 5.0


KERNELS = {
    "matern": Matern([0.6, 0.9], nu=1.5),
    "sum": 0.7 * RBF(0.8) + 0.3 * Matern(0.5, nu=0.5),
    "columns": Columns(RBF(0.7), [0]) * Columns(Matern(0.9, nu=2.5), [1]),
    "general order": Matern(0.8, nu=2.2),
    "with a trend": Matern(0.6, nu=1.5) + 0.1 * DotProduct(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_all_predecessors_give_the_exact_process(name):
    (X, y), kernel = table(100), KERNELS[name]
    model = fixed(kernel, 0.01, 100).fit(X, y)
    exact = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, y)
    X_new = table(50, seed=1)[0]
    mean, covariance = exact.predict(X_new, return_cov=True)
    ours, std = model.predict(X_new, return_std=True)
    assert_allclose(ours, mean, atol=1e-6)
    noisy = np.sqrt(np.diagonal(covariance) + 0.01)
    assert_allclose(model.predict_dist(X_new).std(), noisy, rtol=1e-6)
    assert_allclose(
        model.predict(X_new, return_cov=True)[1],
        covariance + (std[0] ** 2 - covariance[0, 0]) * np.eye(50),
        atol=1e-6,
    )


def test_some_predecessors_nearly_do():
    X, y = table(2000)
    kernel = Matern([0.6, 0.9], nu=1.5)
    model = fixed(kernel, 0.01, 60, n_inducing=200).fit(X, y)
    exact = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, y)
    X_new = table(100, seed=1)[0]
    mean, std = exact.predict(X_new, return_std=True)
    error = model.predict(X_new) - mean
    assert_array_less(np.abs(error), 0.05 * np.hypot(std, 0.1))


def test_draws_have_the_moments_of_the_model():
    X, y = table(400)
    model = fixed(KERNELS["matern"], 0.05, 20, n_inducing=15).fit(X, y)
    X_new = table(30, seed=1)[0]
    mean, covariance = (
        model.posterior_.marginals(X_new),
        model.posterior_.covariance(X_new),
    )
    draws = model.sample_functions(800, random_state=0)
    values = draws(X_new)
    assert_array_equal(values, draws(X_new))
    centre, variance = (one[:, 0] for one in mean.moments())
    assert_allclose(np.diagonal(covariance), variance, rtol=1e-8)
    assert_moments(values, centre, covariance)


@pytest.mark.parametrize("kernel", [RBF(0.9), Matern(2.0, nu=0.5)])
@pytest.mark.parametrize("noise", [1e-3, 1.0])
def test_joint_covariances_are_those_of_the_exact_process(kernel, noise):
    X, y = table(600, d=3)
    model = fixed(kernel, noise, 40, n_inducing="auto").fit(X, y)
    exact = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    new = table(15, d=3, seed=1)[0]
    # new rows, close and equal ones, rows of the data, and far rows
    rows = np.concatenate((new, new + 0.01, new[:5], X[:10], 2.0 * new))
    covariance = model.posterior_.covariance(rows)
    _, expected = exact.predict(rows, return_cov=True)
    variance, exact_variance = np.diagonal(covariance), np.diagonal(expected)
    assert_allclose(variance, exact_variance, rtol=0.05)
    correlation = covariance / np.sqrt(np.outer(variance, variance))
    exact_correlation = expected / np.sqrt(np.outer(exact_variance, exact_variance))
    assert_allclose(correlation, exact_correlation, atol=0.05)
    # of the same rows in another batch
    few = model.posterior_.covariance(rows[[3, 18, 40]])
    assert_allclose(few, covariance[np.ix_([3, 18, 40], [3, 18, 40])], atol=1e-9)


def test_gradients_of_draws():
    X, y = table(200)
    model = fixed(KERNELS["matern"], 0.05, 15, n_inducing=10).fit(X, y)
    draws = model.sample_functions(3, random_state=0)
    at, step = np.array([[0.3, 0.4], [-1.1, 0.9]]), 1e-6
    _, slopes = draws.value_and_grad(at)
    for q in range(2):
        move = step * np.eye(2)[q]
        numeric = (draws(at + move) - draws(at - move)) / (2.0 * step)
        assert_allclose(slopes[..., q], numeric, rtol=1e-4, atol=1e-4)


def test_conditioning_equals_more_rows():
    X, y = table(150)
    kernel = KERNELS["matern"]
    model = fixed(kernel, 0.05, 150).fit(X[:145], y[:145])
    both = fixed(kernel, 0.05, 150).fit(X, y)
    after = model.posterior_.condition(X[145:], y[145:, np.newaxis], np.full(5, 0.05))
    # a step at a time
    steps = model.posterior_
    for i in range(145, 150):
        steps = steps.condition(X[[i]], y[[i], np.newaxis], np.array([0.05]))
    X_new = table(40, seed=1)[0]
    expected = both.posterior_.marginals(X_new).moments()
    for one in (after, steps):
        for a, b in zip(one.marginals(X_new).moments(), expected, strict=True):
            assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", ["matern", "with a trend"])
def test_conditioned_draws_are_those_given_all_rows(name):
    X, y = table(160)
    noise = np.linspace(0.02, 0.2, 160)
    kernel = KERNELS[name]
    exact = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    model = fixed(kernel, None, 200, n_inducing=20)
    model.fit(X[:150], y[:150], noise_variance=noise[:150])
    draws = model.sample_functions(800, random_state=0)
    # a batch, and one more that has values of its own for each draw
    draws = draws.condition(X[150:156], y[150:156], noise[150:156], random_state=1)
    of_draws = np.repeat(y[156:, np.newaxis], 800, axis=1)
    draws = draws.condition(X[156:], of_draws, noise[156:], random_state=2)
    # the new rows are observed again: they are among the rows of interest
    X_new = np.concatenate((table(20, seed=1)[0], X[148:153], [[5.0, 5.0]]))
    mean, covariance = exact.predict(X_new, return_cov=True)
    assert_allclose(draws.process.covariance(X_new), covariance, atol=1e-6)
    assert_moments(draws(X_new), mean, covariance)


def test_conditioned_draws_given_few_neighbours():
    X, y = table(400)
    model = fixed(KERNELS["matern"], 0.05, 12, n_inducing=15).fit(X, y)
    draws = 2.0 * model.sample_functions(900, random_state=0)
    X_seen, X_new = table(6, seed=2)[0], table(25, seed=1)[0]
    X_new[:4] = X_seen[:4] + 1e-3
    X_new[4:6] = X[:2]
    noise = np.array([0.0, 1e-4, 0.01, 0.1, 1.0, 10.0])
    observed = draws.condition(X_seen, np.arange(6.0), noise, random_state=1)
    # regression under the covariance of the draws
    both = np.concatenate((X_new, X_seen))
    mean = 2.0 * model.posterior_.marginals(both).moments()[0][:, 0]
    prior = 4.0 * model.posterior_.covariance(both)
    system = prior[25:, 25:] + np.diag(noise)
    gain = np.linalg.solve(system, prior[25:, :25]).T
    expected = mean[:25] + gain @ (np.arange(6.0) - mean[25:])
    covariance = prior[:25, :25] - gain @ prior[25:, :25]
    assert_allclose(observed.process.covariance(X_new), covariance, atol=1e-7)
    assert_moments(observed(X_new), expected, covariance)
    assert_allclose(observed[:5](X_seen)[0], 0.0, atol=1e-3)
    # slopes, and each draw at a row of its own
    few = observed[:3]
    at, step = X_new[:2], 1e-6
    values, slopes = few.value_and_grad(at)
    assert_allclose(values, few(at), rtol=1e-6, atol=1e-6)
    for q in range(2):
        move = step * np.eye(2)[q]
        numeric = (few(at + move) - few(at - move)) / (2.0 * step)
        assert_allclose(slopes[..., q], numeric, rtol=1e-3, atol=1e-3)
    assert_allclose(few.at(X_new[:3]), np.diagonal(few(X_new[:3])), atol=1e-8)
    copy = pickle.loads(pickle.dumps(few))
    assert_array_equal(copy(X_new), few(X_new))
    more = copy.condition(X_new[:1], [0.0], random_state=0)
    assert_allclose(more(X_new[:1]), 0.0, atol=1e-3)


def test_weights_are_repetitions_and_known_noise_is_that_of_rows():
    X, y = table(150)
    weights = np.random.default_rng(0).integers(1, 4, 150)
    model = fixed(KERNELS["matern"], 0.05, 150).fit(X, y, sample_weight=weights)
    repeated = np.repeat(np.arange(150), weights)
    exact = GaussianProcessRegressor(KERNELS["matern"], alpha=0.05, optimizer=None)
    exact.fit(X[repeated], y[repeated])
    X_new = table(20, seed=1)[0]
    assert_allclose(model.predict(X_new), exact.predict(X_new), atol=1e-5)
    model = fixed(ConstantKernel() * KERNELS["matern"], 0.05, 150)
    model.set_params(optimizer="evidence").fit(X, y, sample_weight=weights)
    exact.set_params(kernel=model.kernel_).fit(X[repeated], y[repeated])
    value = exact.log_marginal_likelihood_value_
    assert_allclose(model.log_evidence_, value, rtol=1e-5)
    exact.set_params(kernel=KERNELS["matern"])
    noise = np.where(X[:, 0] > 0.0, 0.5, 0.01)
    model = fixed(KERNELS["matern"], None, 150).fit(X, y, noise_variance=noise)
    exact.set_params(alpha=noise).fit(X, y)
    assert_allclose(model.predict(X_new), exact.predict(X_new), atol=1e-6)


DIFFICULT = {
    "copies": lambda X: np.repeat(X[:40], 10, axis=0),
    "a grid": lambda X: np.stack(np.meshgrid(*[np.arange(20.0)] * 2), -1).reshape(
        -1, 2
    ),
    "clusters": lambda X: np.round(X) + 1e-6 * X,
    "one row far away": lambda X: np.where(np.arange(400)[:, None] == 7, 1e6, X),
    "a constant column": lambda X: X * [1.0, 0.0],
}


@pytest.mark.parametrize("noise_variance", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_rows(name, noise_variance):
    X = DIFFICULT[name](table(400)[0])
    y = np.sin(X[:, 0]) + 0.01 * np.random.default_rng(0).standard_normal(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fixed(RBF(0.7), noise_variance, 12, n_inducing=20).fit(X, y)
        mean, std = model.predict(X, return_std=True)
    assert np.max(np.abs(mean)) < 10.0
    assert np.all(std >= 0.0)


@pytest.mark.parametrize("d", [1, 3, 30, 60])
@pytest.mark.parametrize("n", [1, 2, 30, 1023, 1024, 1025])
def test_any_shape(n, d):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    model = fixed(RBF(2.0), 0.1, 5, n_inducing=8).fit(X, y)
    exact = fixed(RBF(2.0), 0.1, 0, n_inducing=n).fit(X, y) if n <= 30 else None
    mean = model.predict(X)
    assert mean.shape == (n,)
    assert np.all(np.isfinite(mean))
    if n <= 2:
        assert_allclose(mean, exact.predict(X), atol=1e-6)


def test_rows_in_any_order_jobs_and_pickles_give_the_same():
    X, y = table(3000, d=3)
    how = {"n_inducing": 40, "random_state": 0}
    model = fixed(Matern(0.4, nu=0.5), 0.01, 10, **how).fit(X, y)
    X_new = table(50, d=3, seed=1)[0]
    expected = model.predict(X_new)
    order = np.random.default_rng(0).permutation(3000)
    again = fixed(Matern(0.4, nu=0.5), 0.01, 10, n_jobs=2, **how).fit(
        X[order], y[order]
    )
    assert_array_equal(again.predict(X_new), expected)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_new), expected)
    # a prediction does not depend on the other rows
    one = np.concatenate([model.predict(row) for row in X_new[:, np.newaxis]])
    assert_allclose(one, expected, rtol=1e-9, atol=1e-9)


def test_rough_functions_of_many_rows_take_neighbours():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (2000, 2))
    noise = 0.1 * rng.standard_normal(2000)
    y = np.sign(np.sin(25.0 * X[:, 0])) + noise
    seen, new = slice(0, 1550), slice(1550, None)
    how = {"normalize_y": False, "random_state": 0}
    kernel = ConstantKernel() * Matern([1.0, 1.0], nu=0.5)
    model = PLSRegressor(kernel, likelihood=Gaussian(), **how).fit(X[seen], y[seen])
    assert "nearest rows" in str(model.report())
    # the same kernel and noise
    given = {"likelihood": model.likelihood_, "optimizer": None, "n_neighbors": 0}
    sparse = PLSRegressor(model.kernel_, **given, **how).fit(X[seen], y[seen])
    gain = model.log_predictive_density(X[new], y[new])
    gain = gain - sparse.log_predictive_density(X[new], y[new])
    assert gain.mean() > -2.0 * gain.std() / np.sqrt(450)
    # where a few points suffice there are none
    smooth = PLSRegressor(
        RBF(), likelihood=Gaussian(0.01), optimizer=None, random_state=0
    )
    smooth.fit(X[seen], np.sin(X[seen].sum(axis=1)) + noise[seen])
    assert "nearest rows" not in str(smooth.report())


def test_kernels_of_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.uniform(-2.0, 2.0, 200), rng.integers(0, 3, 200)))
    y = np.sin(X[:, 0]) + X[:, 1]
    kernel = (
        ConstantKernel(2.0)
        * Columns(RBF(0.5), [0])
        * Columns(CategoricalKernel(n_categories=3), [1])
    )
    model = fixed(kernel, 0.01, 200, n_inducing=10).fit(X, y)
    exact = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, y)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)


def test_what_neighbours_cannot_do_is_refused():
    X, y = table(60)
    with pytest.raises(ValueError, match='method="ou_mala"'):
        PLSRegressor(n_neighbors=5, method="ou_mala").fit(X, y)
    with pytest.raises(ValueError, match="n_neighbors"):
        PLSRegressor(n_neighbors=-1).fit(X, y)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_no_observations_change_nothing():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
    model = fixed(RBF(1.0), 0.1, 5, n_inducing=8).fit(X, X[:, 0]).posterior_
    after = model.condition(X[:0], np.empty((0, 1)), np.empty(0))
    for moment, expected in zip(
        after.marginals(X).moments(), model.marginals(X).moments(), strict=True
    ):
        assert_allclose(moment, expected, rtol=1e-12)


def test_observations_one_by_one_or_together():
    X, y = table(150)
    model = fixed(KERNELS["matern"], 0.05, 12).fit(X[:140], y[:140]).posterior_
    noise, X_new = np.full(10, 0.05), table(40, seed=1)[0]
    together = model.condition(X[140:], y[140:, np.newaxis], noise)
    for i in range(140, 150):
        model = model.condition(X[[i]], y[[i], np.newaxis], noise[:1])
    for a, b in zip(
        together.marginals(X_new).moments(),
        model.marginals(X_new).moments(),
        strict=True,
    ):
        assert_allclose(a, b, atol=1e-8)


# ---- Other likelihoods: the closest normal distribution ------------------------------


NODES, MASSES = np.polynomial.hermite_e.hermegauss(30)
MASSES = MASSES / MASSES.sum()


def averages(likelihood, y, mean, variance):
    """Nll, slope and second derivative of each row, averaged over N(mean, variance)."""
    std = np.sqrt(variance)[:, np.newaxis]
    f, y = mean[:, np.newaxis] + std * NODES, y[:, np.newaxis]
    h = 1e-4
    rise = likelihood.gradient(y, f + h) - likelihood.gradient(y, f - h)
    second = rise @ MASSES / (2.0 * h)
    return likelihood.nll(y, f) @ MASSES, likelihood.gradient(y, f) @ MASSES, second


def variational_bound(model, X, y):
    """``E log p(y | f) - KL``, of a model whose rows are all neighbours."""
    likelihood, K = model.likelihood_, model.kernel_(X)
    mean, variance = (one[:, 0] for one in model.posterior_.marginals(X).moments())
    nll, slope, second = averages(likelihood, y, mean, variance)
    # KL(N(m, (K⁻¹ + C)⁻¹) | N(0, K)), C the second derivatives, m = -K E nll'
    volume = np.linalg.slogdet(np.eye(len(y)) + K * second)[1]
    energy = -(mean - likelihood.base_latent_[0]) @ slope
    return -nll.sum() - 0.5 * (volume - second @ variance + energy)


def counts(f, rng):
    return rng.poisson(np.exp(f - 1.0)).astype(float)


def grades(f, rng):
    return np.digitize(f + rng.standard_normal(len(f)), [-1.0, 0.0, 1.0]).astype(float)


OTHERS = {
    "counts": (Poisson("exp"), counts),
    "softplus": (
        Poisson("softplus"),
        lambda f, rng: 1.0 * rng.poisson(np.logaddexp(0.0, f)),
    ),
    "overdispersed": (NegativeBinomial(2.0), counts),
    "labels": (Bernoulli(), lambda f, rng: (rng.random(len(f)) < expit(f)) * 1.0),
    "grades": (Ordinal(), grades),
    "amounts": (Gamma(0.7), lambda f, rng: rng.gamma(0.7, np.exp(f) / 0.7)),
    "shares": (Beta(3.0), lambda f, rng: rng.beta(3.0 * expit(f), 3.0 * expit(-f))),
    "outliers": (
        StudentT(4.0, scale=0.2),
        lambda f, rng: f + 0.2 * rng.standard_t(4.0, len(f)),
    ),
    "limits": (
        Tobit(0.2),
        lambda f, rng: np.minimum(f + 0.2 * rng.standard_normal(len(f)), 0.3),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_all_predecessors_give_the_variational_distribution(name):
    # of Opper and Archambeau: m = -K E nll', v = diag (K⁻¹ + diag E nll'')⁻¹
    n, (likelihood, draw) = 100, OTHERS[name]
    X, f = table(n, noise=0.0)
    y = draw(0.7 * f, np.random.default_rng(0))
    known = {"censoring": (y == 0.3).astype(float)} if name == "limits" else {}
    kernel = ConstantKernel(1.0) * Matern(0.6, nu=1.5)
    model = PLSRegressor(
        kernel,
        likelihood=likelihood,
        optimizer=None,
        normalize_y=False,
        n_inducing=20,
        n_neighbors=n,
        random_state=0,
    ).fit(X, y, **known)
    likelihood = model.likelihood_
    if known:
        likelihood = likelihood.at_rows(known["censoring"])
    K = kernel(X)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(n))
    mean, variance = (one[:, 0] for one in model.posterior_.marginals(X).moments())

    def energy(w):
        nll, slope, _ = averages(likelihood, y, root @ w, variance)
        return nll.sum() + 0.5 * w @ w, root.T @ slope + w

    best = root @ optimize.minimize(energy, np.zeros(n), jac=True).x
    # in posterior standard deviations
    assert np.max(np.abs(mean - best) / np.sqrt(variance)) < 0.03
    precision = np.maximum(averages(likelihood, y, mean, variance)[2], 1e-6)
    covariance = K - K @ np.linalg.solve(K + np.diag(1.0 / precision), K)
    assert_allclose(variance, np.diagonal(covariance), rtol=0.05)


def test_the_evidence_of_labels_is_the_variational_bound():
    X, f = table(200, noise=0.0)
    labels = f + np.random.default_rng(0).logistic(size=200) > 0.0
    # as many of each class: the prior mean is zero
    kept = np.concatenate([np.flatnonzero(labels == one)[:40] for one in (0, 1)])
    X, y = X[kept], labels[kept].astype(int)
    kernel = ConstantKernel(4.0) * RBF(0.7, "fixed")
    model = PLSClassifier(kernel, n_inducing=20, n_neighbors=80, random_state=0)
    kernel = model.fit(X, y).kernel_
    bound = variational_bound(model, X, y)
    assert_allclose(model.log_evidence_, bound, atol=2e-2)
    exact = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    assert abs(bound - exact.log_marginal_likelihood()) < 2.0


def test_totals_of_counts_and_labels_are_those_of_the_data():
    rng = np.random.default_rng(0)
    X, kernel = rng.uniform(0.0, 4.0, (400, 2)), Matern(0.5, nu=1.5)
    f = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(400)) @ rng.standard_normal(400)
    how = {"optimizer": None, "n_inducing": 30, "n_neighbors": 40, "random_state": 0}
    y = rng.poisson(np.exp(f - 2.0)).astype(float)
    model = PLSRegressor(kernel, likelihood=Poisson("exp"), **how).fit(X, y)
    assert model.predict(X).sum() == pytest.approx(y.sum(), rel=0.01)
    y = (rng.random(400) < expit(f - 2.0)).astype(int)
    share = PLSClassifier(kernel, **how).fit(X, y).predict_proba(X)[:, 1]
    assert share.sum() == pytest.approx(y.sum(), rel=0.02)


def test_a_likelihood_with_kinks_has_nearest_rows():
    class Absolute(Likelihood):
        location_scale = True

        def nll(self, y, f):
            return 5.0 * np.abs(np.subtract(y, f)) - np.log(2.5)

        def mean(self, f):
            return np.asarray(f)

        def variance(self, f):
            return np.full(np.shape(f), 0.08)

        def sample(self, f, rng):
            return rng.laplace(f, 0.2)

        def initial_latent(self, y):
            return np.asarray(y)

    X, f = table(300, noise=0.0)
    y = f + np.random.default_rng(0).laplace(0.0, 0.2, 300)
    how = {"optimizer": None, "normalize_y": False, "random_state": 0}
    kernel, likelihood = Matern(0.6, nu=1.5), Absolute()
    near = PLSRegressor(kernel, likelihood=likelihood, n_neighbors=30, **how)
    z = near.set_params(n_inducing=20).fit(X, y).predict(X) - f
    z /= np.sqrt(near.posterior_.marginals(X).moments()[1][:, 0])
    assert np.sqrt(np.mean(z**2)) == pytest.approx(1.0, abs=0.25)


def rough(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(9.0 * X[:, 0]) + np.cos(11.0 * X[:, 1] + 3.0 * X[:, 0]), rng


@pytest.mark.usefixtures("abundant_early")
def test_counts_of_many_rows_take_neighbours_and_gain():
    X, f, rng = rough(2600)
    exposure = rng.uniform(1.0, 4.0, 2600)
    y = rng.poisson(exposure * np.exp(f)).astype(float)
    seen, new = slice(0, 1600), slice(1600, None)
    test = X[new], y[new]
    model = PLSRegressor(likelihood=Poisson(), random_state=0)
    model.fit(X[seen], y[seen], exposure=exposure[seen])
    assert "nearest rows" in str(model.report())
    density = model.log_predictive_density(*test, exposure=exposure[new])
    # points alone, and the same kernel
    sparse = PLSRegressor(
        model.kernel_,
        likelihood=Poisson(),
        optimizer=None,
        n_inducing=200,
        n_neighbors=0,
        random_state=0,
    )
    with warnings.catch_warnings():
        # too few points, without neighbours
        warnings.simplefilter("ignore", ConvergenceWarning)
        sparse.fit(X[seen], y[seen], exposure=exposure[seen])
    assert "nearest rows" not in str(sparse.report())
    gain = density - sparse.log_predictive_density(*test, exposure=exposure[new])
    assert gain.mean() > 2.0 * gain.std() / np.sqrt(1000)


@pytest.mark.usefixtures("abundant_early")
def test_heavy_tails_of_many_rows_are_calibrated():
    X, f, rng = rough(3600)
    y = f + 0.2 * rng.standard_t(3, 3600)
    seen, new = slice(0, 1600), slice(1600, None)
    kernel = ConstantKernel() * Matern(nu=2.5)
    model = PLSRegressor(kernel, likelihood=StudentT(3.0), random_state=0)
    model.fit(X[seen], y[seen])
    assert "nearest rows" in str(model.report())
    low, high = model.predict_interval(X[new], coverage=0.9).T
    covered = np.mean((low < y[new]) & (y[new] < high))
    assert abs(covered - 0.9) < 4.0 * np.sqrt(0.09 / 2000) + 0.01


@pytest.mark.usefixtures("few_neighborhoods")
def test_classes_of_many_rows_are_calibrated():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (6600, 2))
    p = expit(3.0 * np.sin(5.0 * X[:, 0]) + 2.0 * np.cos(4.0 * X[:, 1]))
    y = (rng.random(6600) < p).astype(int)
    seen, new = slice(0, 4600), slice(4600, None)
    model = PLSClassifier(ConstantKernel() * RBF(), random_state=0)
    model.fit(X[seen], y[seen])
    found = model.predict_proba(X[new])[:, 1]
    # Spiegelhalter's statistic, standard normal where probabilities are right
    weight = 1.0 - 2.0 * found
    z = np.sum((y[new] - found) * weight)
    z /= np.sqrt(np.sum(found * (1.0 - found) * weight**2))
    assert abs(z) < 4.0
    assert np.sqrt(np.mean((found - p[new]) ** 2)) < 0.06


def test_weights_of_a_likelihood_are_repetitions():
    X, f = table(150)
    rng = np.random.default_rng(0)
    y, weights = rng.poisson(np.exp(f)).astype(float), rng.integers(1, 4, 150)
    kernel = ConstantKernel(2.0) * KERNELS["matern"]
    how = {"optimizer": None, "n_inducing": 20, "random_state": 0}
    likelihood = Poisson(link="exp")
    model = PLSRegressor(kernel, likelihood=likelihood, n_neighbors=150, **how)
    one = model.fit(X, y, sample_weight=weights).predict(X, return_std=True)
    repeated = np.repeat(np.arange(150), weights)
    model.set_params(n_neighbors=len(repeated)).fit(X[repeated], y[repeated])
    for a, b in zip(one, model.predict(X, return_std=True), strict=True):
        assert_allclose(a, b, rtol=2e-2)


def test_one_outlying_count_does_not_move_the_others():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 2))
    y = rng.poisson(np.exp(np.sin(6.0 * X[:, 0]))).astype(float)
    y[17] = 1000.0
    likelihood, kernel = Poisson(link="exp"), 4.0 * RBF(0.02)
    how = {"optimizer": None, "n_neighbors": 40, "n_inducing": 50, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        mean = PLSRegressor(kernel, likelihood=likelihood, **how).fit(X, y).predict(X)
    assert 500.0 < mean[17] < 1100.0
    assert np.median(mean) < 3.0


# ---- Hyperparameters from all rows ---------------------------------------------------


@pytest.mark.usefixtures("abundant_early")
def test_weak_signals_of_many_rows_are_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1600, 3))
    f = np.sin(6.0 * X[:, 0]) * np.cos(5.0 * X[:, 1])
    y = np.sqrt(0.1) * f / f.std() + np.sqrt(0.9) * rng.standard_normal(1600)
    mean = PLSRegressor(random_state=0).fit(X, y).predict(X[:1000])
    assert np.corrcoef(mean, f[:1000])[0, 1] > 0.9
    y = (rng.random(1600) < expit(0.7 * f / f.std())).astype(int)
    model = PLSClassifier(random_state=0).fit(X, y)
    probability = model.predict_proba(X[:1000])[:, 1]
    assert np.corrcoef(probability, f[:1000])[0, 1] > 0.9


@pytest.mark.usefixtures("abundant_early")
def test_the_scale_of_bounds_is_found_where_most_rows_are_bounds():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1600, 2))
    f = 1.5 * np.sin(20.0 * X[:, 0]) * np.cos(20.0 * X[:, 1])
    y = np.minimum(f + 0.2 * rng.standard_normal(1600), -0.6)
    kernel = ConstantKernel() * RBF()
    model = PLSRegressor(kernel, likelihood=Tobit(), random_state=0)
    model.fit(X, y, censoring=(y == -0.6).astype(float))
    assert 0.15 < model.likelihood_.scale < 0.3
    assert model.predict(X).max() < 3.0
