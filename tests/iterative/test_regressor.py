"""The exact process by conjugate gradients, against the dense one."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, stats
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Kernel,
    Matern,
    WhiteKernel,
)

from skgpx import ExactGPRegressor
from skgpx._hyperparameters import _select
from skgpx._iterative import _regressor
from skgpx.exceptions import ConvergenceWarning, FitWarning
from skgpx.kernels import Columns, Linear

KERNEL = 1.5 * Matern([0.4, 0.7], nu=2.5)
NOISE = 0.04
FIXED = {"optimizer": None, "normalize_y": False, "random_state": 0}


def data(n, d=2, noise=NOISE, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = np.sin(3.0 * X[:, 0]) + (X[:, -1] > 0.0)
    return X, f + np.sqrt(noise) * rng.normal(size=n)


def fixed(kernel=KERNEL, noise=NOISE, **options):
    return ExactGPRegressor(kernel + WhiteKernel(noise), **FIXED | options)


def dense(kernel, X, y, noise, new):
    """Mean and covariance of the function at new rows."""
    K, cross = kernel(X) + np.diag(np.broadcast_to(noise, len(X))), kernel(X, new)
    factor = linalg.cho_factor(K)
    mean = cross.T @ linalg.cho_solve(factor, y)
    return mean, kernel(new) - cross.T @ linalg.cho_solve(factor, cross)


@pytest.fixture(scope="module")
def two_thousand():
    X, y = data(2000)
    new = data(300, seed=1)[0]
    model = fixed(tol=1e-4).fit(X, y)
    return model, X, y, new, *dense(KERNEL, X, y, NOISE, new)


def test_moments_are_those_of_the_dense_process(two_thousand):
    model, _, _, new, mean, covariance = two_thousand
    ours, std = model.predict(new, return_std=True, include_noise=False)
    exact = np.sqrt(np.diag(covariance))
    assert np.sqrt(np.mean((ours - mean) ** 2 / exact**2)) < 1e-3
    assert np.sqrt(np.mean((std / exact - 1.0) ** 2)) < 0.03
    noisy = model.predict(new, return_std=True)[1]
    assert_allclose(noisy**2, std**2 + NOISE)
    _, ours = model.predict(new, return_cov=True)
    error = ours - np.diag(np.full(300, NOISE)) - covariance
    size = np.outer(exact, exact)
    assert np.sqrt(np.mean((error / size) ** 2)) < 0.03
    assert_allclose(np.diag(ours), noisy**2)


def test_draws_have_the_posterior_distribution(two_thousand):
    model, _, _, new, mean, covariance = two_thousand
    draws = model.sample_functions(32)(new)
    # whitened along the leading directions of the exact posterior
    values, vectors = np.linalg.eigh(covariance)
    leading = vectors[:, -60:] / np.sqrt(values[-60:])
    z = leading.T @ (draws - mean[:, np.newaxis])
    n = z.size
    assert abs(z.mean()) * np.sqrt(n) < 4.0
    assert abs(np.mean(z**2) - 1.0) * np.sqrt(n / 2.0) < 4.0
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4


def test_observations_and_densities(two_thousand):
    model, _, _, new, mean, covariance = two_thousand
    y = model.sample_y(new, 32, random_state=3)
    z = (y - mean[:, np.newaxis]) / np.sqrt(np.diag(covariance) + NOISE)[:, np.newaxis]
    # dependent rows: a bound that five hundred independent values would meet
    assert abs(np.mean(z**2) - 1.0) < 4.0 * np.sqrt(2.0 / 500.0)
    std = model.predict(new, return_std=True)[1]
    exact = stats.norm(model.predict(new), std).logpdf(y[:, 0])
    assert_allclose(model.log_predictive_density(new, y[:, 0]), exact)
    low, high = model.predict_interval(new, 0.9).T
    assert_allclose(high - low, 2.0 * stats.norm.ppf(0.95) * std)


def test_functions_can_be_differentiated_and_minimised(two_thousand):
    model, _, _, new, _, _ = two_thousand
    draws = model.sample_functions(3, random_state=1)
    values, slopes = draws.value_and_grad(new[:5])
    assert_allclose(values, draws(new[:5]))
    step = 1e-5 * np.array([1.0, 0.0])
    differences = (draws(new[:5] + step) - draws(new[:5] - step)) / 2e-5
    assert_allclose(slopes[:, :, 0], differences, atol=1e-4)
    found = draws.minimize([(-1.0, 1.0)] * 2, n_mesh=500, random_state=0)
    assert np.all(found.fun <= draws(new[np.all(np.abs(new) < 1.0, axis=1)]).min(0))


def test_at_most_n_draws_functions(two_thousand):
    with pytest.raises(ValueError, match="n_draws=32"):
        two_thousand[0].sample_functions(33)


def test_pickled_models_predict_the_same(two_thousand):
    model, _, _, new, *_ = two_thousand
    copy = pickle.loads(pickle.dumps(model))
    for one, other in zip(
        model.predict(new, return_std=True),
        copy.predict(new, return_std=True),
        strict=True,
    ):
        assert_array_equal(one, other)
    assert_array_equal(copy.sample_functions(2)(new), model.sample_functions(2)(new))


def test_the_report(two_thousand):
    model, X, y, *_ = two_thousand
    text = repr(model.report(X[:100], y[:100]))
    for words in ("products", "largest residual", "solution", "mean log density"):
        assert words in text


def assert_exact(model, kernel, X, y, noise, new, tol=2e-3):
    mean, covariance = dense(kernel, X, y, noise, new)
    ours, std = model.predict(new, return_std=True, include_noise=False)
    size = np.sqrt(np.diag(covariance) + np.mean(noise))
    assert np.max(np.abs(ours - mean) / size) < tol
    exact = np.sqrt(np.diag(covariance))
    assert np.sqrt(np.mean((std / exact - 1.0) ** 2)) < 0.13


CLOSE = {"tol": 1e-4, "max_iter": 300}


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.7) + Linear(0.5),
        ConstantKernel(2.0) * Matern(0.5, nu=1.5) + ConstantKernel(1.0),
        Columns(ExpSineSquared(2.0, 3.0), [0]) * RBF(1.0) + Matern(1.0, nu=0.5),
    ],
)
def test_kernels(kernel):
    X, y = data(600)
    model = fixed(kernel, **CLOSE).fit(X, y)
    assert_exact(model, kernel, X, y, NOISE, data(50, seed=1)[0])


@pytest.mark.parametrize("d", [1, 2, 10, 60])
def test_numbers_of_columns(d):
    X, y = data(500, d)
    kernel = Matern(0.6 * np.sqrt(d), nu=1.5)
    model = fixed(kernel, **CLOSE).fit(X, y)
    assert_exact(model, kernel, X, y, NOISE, data(50, d, seed=1)[0])


def clustered():
    X, y = data(500)
    return 0.02 * X + np.random.default_rng(1).integers(0, 3, (500, 1)), y


def grid():
    one = np.repeat(np.linspace(-1.0, 1.0, 20), 25)
    return np.column_stack((one, np.tile(np.linspace(-1.0, 1.0, 25), 20))), data(500)[1]


def far_away():
    X, y = data(500)
    X[7] = 1e5
    return X, y


def repeated_inputs():
    X, y = data(500)
    X[250:] = X[:250]
    return X, y


@pytest.mark.parametrize("make", [clustered, grid, far_away, repeated_inputs])
def test_arrangements_of_rows(make):
    X, y = make()
    new = np.concatenate((X[:20], data(30, seed=1)[0]))
    assert_exact(fixed(**CLOSE).fit(X, y), KERNEL, X, y, NOISE, new)


def test_order_of_rows_and_repetitions_do_not_matter():
    X, y = data(400)
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 4, 400)
    written = rng.permutation(np.repeat(np.arange(400), weights))
    one = fixed().fit(X, y, sample_weight=weights)
    other = fixed().fit(X[written], y[written])
    for a, b in zip(
        one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        assert_array_equal(a, b)
    assert_array_equal(one.sample_functions(2)(X), other.sample_functions(2)(X))
    kept = weights > 0
    assert_exact(
        fixed(**CLOSE).fit(X, y, sample_weight=weights),
        KERNEL, X[kept], y[kept], NOISE / weights[kept], X[:50],
    )  # fmt: skip


def test_noise_of_rows():
    X, y = data(500)
    noise = np.random.default_rng(1).uniform(0.01, 0.2, 500)
    model = ExactGPRegressor(KERNEL, **FIXED | CLOSE).fit(X, y, noise_variance=noise)
    assert_exact(model, KERNEL, X, y, noise, data(50, seed=1)[0])
    assert_allclose(model.noise_variance_, noise.mean())
    with pytest.raises(ValueError, match="only one of them"):
        fixed().fit(X, y, noise_variance=noise)


@pytest.mark.parametrize("noise", [1e-6, 1e-12])
def test_little_noise(noise):
    X, y = data(400, noise=0.0)
    kernel = Matern(1.0, nu=1.5)
    model = fixed(kernel, noise, tol=0.1, max_iter=500).fit(X, y)
    new = data(50, seed=1)[0]
    mean, covariance = dense(kernel, X, y, noise, new)
    std = np.sqrt(np.diag(covariance))
    assert np.sqrt(np.mean(((model.predict(new) - mean) / std) ** 2)) < 0.05


def test_several_targets():
    X, y = data(500)
    Y = np.column_stack((y, 3.0 + 10.0 * np.cos(X[:, 1])))
    model = fixed(tol=1e-4, n_draws=8).fit(X, Y)
    new = data(40, seed=1)[0]
    mean, std = model.predict(new, return_std=True, include_noise=False)
    assert mean.shape == std.shape == (40, 2)
    for j in range(2):
        exact = dense(KERNEL, X, Y[:, j], NOISE, new)[0]
        assert_allclose(mean[:, j], exact, atol=1e-3)
    draws = model.sample_functions(8)(new)
    assert draws.shape == (40, 2, 8)
    # the targets have functions of their own
    errors = draws - mean[:, :, np.newaxis]
    assert abs(np.corrcoef(errors[:, 0].ravel(), errors[:, 1].ravel())[0, 1]) < 0.4
    assert model.residuals_.shape == (2, 9)
    scaled = ExactGPRegressor(KERNEL, n_draws=8, random_state=0).fit(X, Y)
    assert scaled.noise_variance_.shape == (2,)
    assert scaled.score(X, Y) > 0.9


def test_units_of_y():
    X, y = data(300)
    how = {"random_state": 0, "n_draws": 4, "tol": 1e-4}
    one = ExactGPRegressor(KERNEL, **how).fit(X, y)
    other = ExactGPRegressor(KERNEL, **how).fit(X, 5.0 + 100.0 * y)
    for method in ("predict", "predict_quantiles"):
        a, b = (getattr(model, method)(X) for model in (one, other))
        assert_allclose(5.0 + 100.0 * a, b, rtol=1e-3, atol=1e-2)
    assert_allclose(1e4 * one.noise_variance_, other.noise_variance_, rtol=1e-5)


def test_same_bits_for_every_number_of_jobs():
    X, y = data(1500)
    one, two = (fixed(n_jobs=jobs, n_draws=4).fit(X, y) for jobs in (1, 2))
    new = X[:50]
    for a, b in zip(
        one.predict(new, return_std=True),
        two.predict(new, return_std=True),
        strict=True,
    ):
        assert_array_equal(a, b)
    assert_array_equal(one.sample_functions(2)(new), two.sample_functions(2)(new))


@pytest.fixture
def few_points(monkeypatch):
    """Sixty inducing points for a thousand rows, as large data have."""
    monkeypatch.setattr(_regressor, "_MOST_FEATURES", 6e4)


@pytest.mark.usefixtures("few_points")
def test_not_converged_warns_with_figures_and_still_predicts():
    X, y = data(1200, noise=1e-4)
    kernel = Matern(0.2, nu=0.5)
    with pytest.warns(ConvergenceWarning, match=r"changed predictions by .* \(tol="):
        model = fixed(kernel, 1e-4, max_iter=2, tol=1e-6, n_draws=4).fit(X, y)
    assert [one.check for one in model.findings_] == ["solver not converged"]
    new, f = data(300, noise=0.0, seed=1)
    sparse = model.posterior_.sparse
    error = np.mean((model.predict(new) - f) ** 2)
    assert np.isfinite(model.predict(new, return_std=True)[1]).all()
    h, r = sparse.spread(new)
    assert error < np.mean(h + r) + np.mean(f**2)


@pytest.mark.usefixtures("few_points")
def test_a_warm_start_of_more_rows_takes_fewer_products():
    X, y = data(1500)
    how = {"tol": 1e-3, "n_draws": 4}
    cold = fixed(Matern(0.5, nu=0.5), **how).fit(X, y)
    warm = fixed(Matern(0.5, nu=0.5), warm_start=True, **how).fit(X[:1470], y[:1470])
    before = warm.sample_functions(4)(X[:100])
    warm.fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert_allclose(warm.predict(X), cold.predict(X), atol=2e-3)
    # the same functions, moved by the new rows
    assert np.mean((warm.sample_functions(4)(X[:100]) - before) ** 2) < 0.01
    # fitted again, nothing changes
    again = warm.predict(X)
    assert warm.fit(X, y).n_iter_ <= 4
    assert_allclose(warm.predict(X), again, atol=2e-3)
    # where all rows are inducing points the solution does not start from the last one
    X, y = X[:200], y[:200]
    assert len(cold.fit(X, y).inducing_points_) == 200
    assert warm.fit(X[:180], y[:180]).fit(X, y).n_iter_ <= cold.n_iter_
    # another kernel, or other columns: from the beginning
    warm.set_params(kernel=KERNEL).fit(X, y)
    warm.set_params(kernel=RBF(1.0)).fit(X[:, :1], y)
    assert warm.predict(X[:, :1]).shape == y.shape


@pytest.mark.filterwarnings("ignore:The noise varies")  # errors at the step of f
def test_the_default_kernel_and_a_search():
    X, y = data(600)
    model = ExactGPRegressor(random_state=0, n_draws=8).fit(X, y)
    assert np.isfinite(model.log_evidence_)
    assert 0.02 < model.noise_variance_ < 0.08
    new, f = data(300, noise=0.0, seed=1)
    inside = model.predict_interval(new, 0.9)
    assert model.score(new, f) > 0.85
    assert inside.shape == (300, 2)


@pytest.mark.usefixtures("abundant_early")
def test_a_rough_function_of_many_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1050, 2))
    f = np.sign(X[:, 0] - 0.3) + np.sign(X[:, 1])
    y = f + 0.3 * rng.normal(size=1050)
    model = ExactGPRegressor(random_state=0, n_draws=4).fit(X, y)
    assert model.report()["search"]["kernel"].startswith("Matern 0.5")


def test_a_row_in_error_beside_a_rough_function():
    # noise that 1500 of 1550 rows exclude by less than they count in a coarsened
    # posterior: a new value of one standard deviation off is 19 off, not 110
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1550, 2))
    K = Matern([0.3, 0.3], nu=0.5)(X) + 1e-8 * np.eye(1550)
    f = linalg.cholesky(K, lower=True) @ rng.standard_normal(1550)
    model = ExactGPRegressor(random_state=0, n_draws=2).fit(X, f)
    mean, std = model.predict(X[:50], return_std=True)
    z = (f[:50] + f.std() - mean) / std
    assert z.max() < 30.0
    assert model.score(X[:50], f[:50]) > 0.99


class Unknown(RBF):
    """A kernel of a type of which nothing is known."""


def test_kernels_that_cannot_be_drawn_from_are_refused_at_once():
    X, y = data(30)
    with pytest.raises(ValueError, match="Unknown"):
        ExactGPRegressor(Unknown(1.0)).fit(X, y)
    assert issubclass(Unknown, Kernel)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_few_rows(n):
    X, y = data(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = fixed(tol=1e-6, n_draws=3).fit(X, y)
    mean, _ = dense(KERNEL, X, y, NOISE, X)
    assert_allclose(model.predict(X), mean, atol=1e-5)


def test_standard_deviations_from_few_draws():
    X, y = data(2000, 6)
    kernel, new = RBF(2.0), data(200, 6, seed=1)[0]
    model = fixed(kernel, 0.01).fit(X, y)
    covariance = dense(kernel, X, y, 0.01, new)[1]
    std = model.predict(new, return_std=True, include_noise=False)[1]
    ratio = std / np.sqrt(np.diag(covariance))
    # those of the draws alone would be off by 1 / sqrt(2 · 32) = 12.5 %
    assert np.sqrt(np.mean((ratio - 1.0) ** 2)) < 0.06


@pytest.mark.usefixtures("few_points")
def test_nearest_rows_save_products_and_sharpen_standard_deviations():
    X, y = data(1200)
    kernel, new = Matern([0.3, 0.4], nu=1.5), data(200, seed=1)[0]
    exact = np.sqrt(np.diag(dense(kernel, X, y, 0.04, new)[1]))
    products, errors = [], []
    for n_neighbors in (0, 20):
        model = fixed(kernel, tol=1e-3, n_neighbors=n_neighbors).fit(X, y)
        assert_exact(model, kernel, X, y, 0.04, new)
        std = model.predict(new, return_std=True, include_noise=False)[1]
        products.append(model.n_iter_)
        errors.append(np.sqrt(np.mean((std / exact - 1.0) ** 2)))
    assert products[1] < 0.7 * products[0]
    assert errors[1] < min(errors[0], 0.03)
    sparse = fixed(kernel, n_draws=2).fit(X, y).posterior_.sparse
    assert sparse.neighbors.n_neighbors == 20


ADDITIVE = Columns(Matern(0.3, nu=1.5), [0]) + Columns(Matern(0.3, nu=1.5), [1])
LOCAL = Matern(0.5, nu=1.5)


@pytest.mark.parametrize(
    ("kernel", "options", "n_neighbors"),
    [
        (ADDITIVE, {}, 0),
        (LOCAL, {"n_neighbors": 0}, 0),
        (0.01 * Columns(RBF(3.0), [0]) + LOCAL + Linear(0.5), {}, 20),
    ],
)
@pytest.mark.usefixtures("few_points")
def test_variances_and_covariances_beside_few_points(kernel, options, n_neighbors):
    X, y = data(1200)
    new = np.concatenate((X[:20], data(180, seed=1)[0]))
    model = fixed(kernel, tol=0.01, **options).fit(X, y)
    sparse = model.posterior_.sparse
    assert getattr(sparse.neighbors, "n_neighbors", 0) == n_neighbors
    exact = dense(kernel, X, y, NOISE, new)[1]
    _, ours = model.predict(new, return_cov=True, include_noise=False)
    # at rows, at inducing points, and elsewhere
    std, right = (np.sqrt(np.diag(one)) for one in (ours, exact))
    bound = 0.04 if n_neighbors else 1.0 / np.sqrt(2.0 * 32.0)
    assert np.sqrt(np.mean((std / right - 1.0) ** 2)) < bound
    points = sparse.basis.inducing_points
    at_points = model.predict(points, return_std=True, include_noise=False)[1]
    variance = np.diag(dense(kernel, X, y, NOISE, points)[1])
    assert np.sqrt(np.mean((at_points / np.sqrt(variance) - 1.0) ** 2)) < bound
    # of 32 draws, or of nearest rows
    found, true = ours / np.outer(std, std), exact / np.outer(right, right)
    if n_neighbors:
        assert np.max(np.abs(found - true)) < 0.2
        assert abs(np.sqrt(ours.mean() / exact.mean()) - 1.0) < 0.05
    else:
        upper = np.triu_indices(len(new), 1)
        z = np.sqrt(32.0) * (found - true)[upper] / (1.0 - true[upper] ** 2)
        assert abs(np.sqrt(np.mean(z**2)) - 1.0) < 0.15
        for some in (slice(0, 20), slice(20, 60), slice(60, None)):
            ratio = ours[some, some].mean() / exact[some, some].mean()
            assert abs(ratio - 1.0) < 4.0 * np.sqrt(2.0 / 32.0)
    # a matrix of rows does not depend on the others, and is a covariance
    part = model.predict(new[50:60], return_cov=True, include_noise=False)[1]
    assert_allclose(ours[50:60, 50:60], part, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(ours)[0] > -1e-10 * right.max() ** 2


def sampled(kernel, n, noise, seed=0):
    """Observations of a function from the prior at n rows, and at 500 new ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 500, 2))
    root = np.linalg.cholesky(kernel(X) + 1e-10 * np.eye(len(X)))
    y = root @ rng.normal(size=len(X)) + np.sqrt(noise) * rng.normal(size=len(X))
    return X[:n], y[:n], X[n:], y[n:]


LEARNED = {"normalize_y": False, "tol": 1e-3, "random_state": 0}


def standardised(model, new, y):
    mean, std = model.predict(new, return_std=True)
    return (y - mean) / std


def test_variances_of_a_prior_that_is_right():
    X, y, new, values = sampled(2.0 * Matern(0.7, nu=2.5), 1500, 0.04)
    kernel = 1.0 * Matern(1.0, nu=2.5) + WhiteKernel(0.1)
    model = ExactGPRegressor(kernel, **LEARNED).fit(X, y)
    # the factor is a mean of so many squares
    assert abs(np.log(model.posterior_.variance_scale)) < 3.0 * np.sqrt(2.0 / 1500)
    z = standardised(model, new, values)
    assert abs(np.mean(z**2) - 1.0) < 3.0 * np.sqrt(2.0 / 500 + 2.0 / 1500)
    assert not model.findings_


def test_a_prior_of_few_rows_that_is_wrong_has_its_variances_corrected(monkeypatch):
    # few rows do not see how the function oscillates where they are far apart
    monkeypatch.setattr(_select, "SEARCHED_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.sin(X[:, 0] ** 3) + X[:, 1] + 0.03 * rng.normal(size=2000)
    X, y, new, values = X[:1500], y[:1500], X[1500:], y[1500:]
    kernel = 1.0 * RBF(1.0) + WhiteKernel(0.1)
    with pytest.warns(FitWarning, match="varies with column 0"):
        model = ExactGPRegressor(kernel, **LEARNED).fit(X, y)
    factor, z = model.posterior_.variance_scale, standardised(model, new, values)
    before, after = (
        np.mean(np.abs(z) < 1.96 * s) for s in (1.0 / np.sqrt(factor), 1.0)
    )
    assert abs(after - 0.95) < 0.02 < abs(before - 0.95)
    # what is reported is the process that predicts
    assert_exact(model, model.kernel_, X, y, model.noise_variance_, new)
    draws = model.sample_functions(32)(new)
    mean, std = model.predict(new, return_std=True, include_noise=False)
    errors = (draws - mean[:, np.newaxis]) / std[:, np.newaxis]
    assert abs(np.mean(errors**2) - 1.0) < 0.1
    # a warm start does not multiply twice
    before = model.kernel_.theta
    with pytest.warns(FitWarning):
        model.set_params(warm_start=True).fit(X, y)
    assert_allclose(model.kernel_.theta, before, atol=1e-3)
    # an amplitude or a noise that is given stays
    for given, options in (
        (ConstantKernel(1.0, "fixed") * RBF(1.0) + WhiteKernel(0.1), {}),
        (1.0 * RBF(1.0) + WhiteKernel(0.1, "fixed"), {}),
        (1.0 * RBF(1.0), {"noise_variance": 0.1}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            other = ExactGPRegressor(given, **LEARNED).fit(X, y, **options)
        assert other.posterior_.variance_scale == 1.0


def test_residuals_that_are_no_noise_are_found():
    X, y = data(600)
    Y = np.column_stack((y, np.random.default_rng(1).normal(size=600)))
    smooth = 1.0 * RBF(30.0, "fixed") + WhiteKernel(0.1)
    with pytest.warns(FitWarning, match="Target 0: Residuals are autocorrelated"):
        model = ExactGPRegressor(smooth, n_draws=4, random_state=0).fit(X, Y)
    assert [one.check for one in model.findings_] == [
        "residual autocorrelation, target 0"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fixed(RBF(30.0), n_draws=4).fit(X, y)
