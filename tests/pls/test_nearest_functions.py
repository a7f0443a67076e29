"""Nearest rows for several targets, classes, and noise that varies."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_triangular
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
)

from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    Poisson,
)

KERNEL = Matern([0.8, 1.1], nu=1.5)


def functions(n, c, seed=0, kernel=KERNEL):
    """Rows, and draws from the prior there (n, c)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    root = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(n))
    return X, root @ rng.standard_normal((n, c)), rng


def with_gaps(n=150):
    """Three targets, two of them missing in the same rows."""
    X, F, rng = functions(n, 3)
    Y = F + 0.2 * rng.standard_normal((n, 3))
    is_missing = rng.random((n, 3)) < 0.3
    is_missing[:, 2] = is_missing[:, 1]
    is_missing[:3] = True
    return X, np.where(is_missing, np.nan, Y)


def regressor(n_neighbors, **options):
    settings = {
        "kernel": KERNEL,
        "likelihood": Gaussian(0.04),
        "optimizer": None,
        "normalize_y": False,
        "inducing": functions(20, 1, seed=2)[0],
        "n_neighbors": n_neighbors,
        "random_state": 0,
    }
    return PLSRegressor(**settings | options)


X_NEW = functions(40, 1, seed=1)[0]


# ---- Targets -------------------------------------------------------------------------


@pytest.mark.parametrize("n_neighbors", [0, 150])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_targets_are_fits_on_the_rows_that_have_them(n_neighbors, normalize_y):
    X, Y = with_gaps()
    model = regressor(n_neighbors, normalize_y=normalize_y)
    if normalize_y:
        # one unit of y for all targets, as they have one noise in the units of y
        Y /= np.nanstd(Y, axis=0)
    model.fit(X, Y)
    mean, std = model.predict(X_NEW, return_std=True)
    _, covariance = model.predict(X_NEW, return_cov=True)
    evidence = 0.0
    for j in range(3):
        has = np.isfinite(Y[:, j])
        single = regressor(n_neighbors, normalize_y=normalize_y).fit(X[has], Y[has, j])
        expected = single.predict(X_NEW, return_std=True)
        assert_allclose(mean[:, j], expected[0], atol=1e-8)
        assert_allclose(std[:, j], expected[1], rtol=1e-8)
        expected = single.predict(X_NEW, return_cov=True)[1]
        assert_allclose(covariance[..., j], expected, atol=1e-8)
        evidence += single.log_evidence_
    assert_allclose(model.log_evidence_, evidence, rtol=1e-10)


@pytest.mark.parametrize("n_neighbors", [0, 30])
def test_noise_is_learned_for_each_target(n_neighbors):
    X, F, rng = functions(400, 3)
    scale = np.array([0.15, 0.3, 0.8])
    Y = F + scale * rng.standard_normal((400, 3))
    Y[rng.random((400, 3)) < 0.2] = np.nan
    model = PLSRegressor(n_neighbors=n_neighbors, random_state=0).fit(X, Y)
    assert_allclose(np.sqrt(model.noise_variance_), scale, rtol=0.25)
    mean, std = model.predict(X, return_std=True, include_noise=False)
    z = np.sqrt(np.mean(((mean - F) / std) ** 2, axis=0))
    assert_allclose(z, 1.0, atol=0.35)


def test_targets_of_equal_noise_share_their_factors():
    X, F, _ = functions(150, 5)
    model = regressor(20).fit(X, F).posterior_
    assert model.residual.noise.shape == (150, 1)
    assert model.weights.root.shape[0] == 1


def test_conditioned_draws_of_targets():
    X, Y = with_gaps()
    # other units of the targets, and with them other noise
    Y = Y * [1.0, 2.0, 0.5]
    noise = 0.04
    model = regressor(170).fit(X[:140], Y[:140])
    y_seen = np.nan_to_num(Y[140:])
    draws = model.sample_functions(600, random_state=0)
    draws = draws.condition(X[140:], y_seen, noise, random_state=1)
    values = draws(X_NEW)
    for j in range(3):
        has = np.isfinite(Y[:, j])
        has[140:] = False
        rows = np.concatenate((X[has], X[140:]))
        values_of_rows = np.concatenate((Y[has, j], y_seen[:, j]))
        exact = GaussianProcessRegressor(KERNEL, alpha=noise, optimizer=None)
        exact.fit(rows, values_of_rows)
        mean, covariance = exact.predict(X_NEW, return_cov=True)
        assert_allclose(draws.process.covariance(X_NEW, j), covariance, atol=1e-6)
        variance = np.diagonal(covariance)
        z = (values[:, j].mean(axis=1) - mean) / np.sqrt(variance / 600)
        assert np.abs(z).max() < 5.0
        products = np.outer(variance, variance) + covariance**2
        error = (np.cov(values[:, j]) - covariance) / np.sqrt(products / 600)
        assert np.abs(error).max() < 5.0
    scaled = model.sample_functions(3, random_state=0).affine(0.0, [1.0, 2.0, 3.0])
    seen = scaled.condition(X[140:], y_seen, 1e-6, random_state=1)
    assert_allclose(seen(X[140:]), y_seen[:, :, np.newaxis] + np.zeros(3), atol=0.02)
    again = seen.condition(X_NEW[:2], np.ones((2, 3)), random_state=2)
    assert_allclose(again(X[140:]), seen(X[140:]), atol=0.02)
    assert_allclose(again(X_NEW[:2]), 1.0, atol=1e-3)


def test_draws_of_targets_have_their_moments():
    X, Y = with_gaps()
    model = regressor(15).fit(X, Y)
    draws = model.sample_functions(600, random_state=0)
    values = draws(X_NEW)
    mean, variance = model.posterior_.marginals(X_NEW).moments()
    z = (values.mean(axis=2) - mean) / np.sqrt(variance / 600)
    assert np.abs(z).max() < 4.5
    for j in range(3):
        covariance = model.posterior_.covariance(X_NEW, j)
        assert_allclose(np.diagonal(covariance), variance[:, j], rtol=1e-8)
        products = np.outer(variance[:, j], variance[:, j]) + covariance**2
        error = (np.cov(values[:, j]) - covariance) / np.sqrt(products / 600)
        assert np.abs(error).max() < 5.0
    # draw i at row i, and slopes
    at = draws.value_and_grad(X_NEW[:2])[0]
    assert_allclose(at, values[:2], rtol=1e-8, atol=1e-8)
    _, slopes = draws.value_and_grad(X_NEW[:2])
    move = 1e-6 * np.eye(2)[0]
    numeric = (draws(X_NEW[:2] + move) - draws(X_NEW[:2] - move)) / 2e-6
    assert_allclose(slopes[..., 0], numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, np.array([1.0, 3.0, 1.0])])
def test_conditioning_equals_more_rows(scale):
    X, Y = with_gaps()
    Y[145:] = np.random.default_rng(0).standard_normal((5, 3))
    model = regressor(150).fit(X[:145], Y[:145]).posterior_.affine(0.0, scale)
    noise = np.full(5, 0.04)
    after = model.condition(X[145:], Y[145:] * scale, noise * np.square(scale).max())
    expected = regressor(150).fit(X, Y).posterior_.affine(0.0, scale)
    moments = after.marginals(X_NEW).moments()
    # where the noise is in the units of the target
    same = np.square(np.broadcast_to(scale, 3)) == np.square(scale).max()
    for one, other in zip(moments, expected.marginals(X_NEW).moments(), strict=True):
        assert_allclose(one[:, same], other[:, same], atol=1e-6)


def test_jobs_batches_and_pickles_give_the_same():
    X, F, rng = functions(600, 3)
    y = np.argmax(F + 0.3 * rng.gumbel(size=F.shape), axis=1)
    settings = {"optimizer": None, "n_inducing": 20, "n_neighbors": 8}
    model = PLSClassifier(KERNEL, random_state=0, **settings).fit(X, y)
    expected = model.predict_proba(X_NEW)
    again = PLSClassifier(KERNEL, random_state=0, n_jobs=2, **settings).fit(X, y)
    assert_array_equal(again.predict_proba(X_NEW), expected)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X_NEW), expected)
    one = np.concatenate([model.predict_proba(row) for row in X_NEW[:, np.newaxis]])
    assert_allclose(one, expected, rtol=1e-9, atol=1e-9)


# ---- Classes -------------------------------------------------------------------------

AMPLITUDE = ConstantKernel(4.0)
ALL = {"optimizer": None, "n_inducing": 20, "n_neighbors": 150, "random_state": 0}


def test_two_classes_are_labels_of_twice_the_variance():
    X, F, rng = functions(150, 1)
    y = (rng.random(150) < 1.0 / (1.0 + np.exp(-3.0 * F[:, 0]))).astype(int)
    of_classes = PLSClassifier(AMPLITUDE * KERNEL, likelihood=Categorical(), **ALL)
    of_labels = PLSClassifier(
        ConstantKernel(8.0) * KERNEL,
        likelihood=Bernoulli(),
        **ALL,
    )
    found = of_classes.fit(X, y).predict_proba(X_NEW)
    assert_allclose(found, of_labels.fit(X, y).predict_proba(X_NEW), atol=2e-2)
    assert_allclose(of_classes.log_evidence_, of_labels.log_evidence_, atol=0.35)


@pytest.mark.parametrize("c", [3, 6])
def test_classes_have_the_mean_and_variances_of_their_equations(c):
    X, F, rng = functions(150, c)
    P = softmax(2.0 * F, axis=1)
    y = np.array([rng.choice(c, p=p) for p in P])
    model = PLSClassifier(AMPLITUDE * KERNEL, **ALL).fit(X, y)
    K = model.kernel_(X)
    mixture = model.posterior_.marginals(X)
    mean, variance = mixture.moments()
    # m = -K E g, g = p - [y = c]
    expected_p = model.likelihood_.predict_proba(mixture)
    slope = expected_p - np.eye(c)[y]
    error = mean - model.likelihood_.base_latent_ + K @ slope
    error -= error.mean(axis=1, keepdims=True)
    # 0.175 at the fixed point of six classes, by the rule over their functions
    assert np.abs(error / np.sqrt(variance)).max() < 0.18
    # the precisions of the class
    nodes = rng.standard_normal((2000, c))
    p = softmax(mean[..., np.newaxis] + np.sqrt(variance)[..., np.newaxis] * nodes.T, 1)
    v = np.mean(p * (1.0 - p), axis=2)
    share = v / v.sum(axis=1, keepdims=True)
    precision = v / (1.0 - np.sum(share**2, axis=1, keepdims=True))
    for k in range(c):
        C = K + np.diag(1.0 / precision[:, k])
        expected = np.diagonal(K - K @ np.linalg.solve(C, K))
        assert_allclose(variance[:, k], expected, rtol=0.1)


def test_contrasts_have_the_variances_of_coupled_classes():
    # Rasmussen and Williams, equation (3.24), with curvatures averaged over f
    X, F, rng = functions(120, 3)
    P = softmax(2.0 * F, axis=1)
    y = np.array([rng.choice(3, p=p) for p in P])
    model = PLSClassifier(AMPLITUDE * KERNEL, **ALL).fit(X, y)
    mean, variance = model.posterior_.marginals(X).moments()
    std = np.sqrt(variance)[..., np.newaxis]
    p = softmax(mean[..., np.newaxis] + std * rng.standard_normal((1000, 3)).T, axis=1)
    W = np.einsum("nas,nbs->nab", p, -p) / 1000
    W[:, range(3), range(3)] += p.mean(axis=2)
    blocks = [[np.diag(W[:, a, b]) for b in range(3)] for a in range(3)]
    K = np.kron(np.eye(3), model.kernel_(X))
    covariance = np.linalg.solve(np.eye(360) + K @ np.block(blocks), K)
    covariance = covariance.reshape(3, 120, 3, 120)[:, range(120), :, range(120)]
    a, b = np.argsort(-p.mean(axis=2), axis=1)[:, :2].T
    rows = np.arange(120)
    coupled = covariance[rows, a, a] + covariance[rows, b, b]
    coupled -= 2.0 * covariance[rows, a, b]
    ratio = (variance[rows, a] + variance[rows, b]) / coupled
    assert np.median(ratio) == pytest.approx(1.0, abs=0.1)
    assert np.all((ratio > 0.75) & (ratio < 1.3))


# ---- Two functions -------------------------------------------------------------------


def scattered(n, seed=0):
    X, F, rng = functions(n, 2, seed)
    y = F[:, 0] + 0.2 * np.exp(0.5 * F[:, 1]) * rng.standard_normal(n)
    return X, y


def without_row(K, z, noise):
    """Moments of a process at each row, given noisy values at the others."""
    inverse = np.linalg.inv(K + np.diag(noise))
    diagonal = np.diagonal(inverse)
    return z - inverse @ z / diagonal, 1.0 / diagonal - noise


def dense_location_and_scale(y, likelihood, K, K_scale):
    """Means and variances (n, 2), and log evidence, by expectation propagation."""
    n = len(y)
    z = (y - likelihood.centre_) / likelihood.unit_
    typical = likelihood.scale / likelihood.unit_
    # the log scale on a grid
    s = np.linspace(-8.0, 8.0, 1601)
    noise_at = typical**2 * np.exp(2.0 * likelihood.variation * s)
    noise = np.full(n, typical**2)
    m, v = np.zeros(n), np.ones(n)
    value, value_noise = np.zeros(n), np.full(n, 1e6)
    for _ in range(60):
        mean, variance = without_row(K, z, noise)
        total = variance[:, np.newaxis] + noise_at
        joint = norm.pdf(z[:, np.newaxis], mean[:, np.newaxis], np.sqrt(total))
        joint *= norm.pdf(s, m[:, np.newaxis], np.sqrt(v)[:, np.newaxis])
        mass = joint.sum(axis=1)
        joint /= mass[:, np.newaxis]
        # what it says of the log scale
        first = joint @ s
        spread = joint @ s**2 - first**2
        precision = np.maximum(1.0 / spread - 1.0 / v, 0.001 / v)
        new_value = first + (first - m) / (v * precision)
        total_precision = 0.5 / value_noise + 0.5 * precision
        value = 0.5 * (value / value_noise + new_value * precision) / total_precision
        value_noise = 1.0 / total_precision
        m, v = without_row(K_scale, value, value_noise)
        # and of the location
        noise = (joint * noise_at / total).sum(axis=1) / (joint / total).sum(axis=1)
    log_evidence = np.sum(np.log(mass * (s[1] - s[0])) - np.log(likelihood.unit_))
    moments = []
    for prior, values, noises in ((K, z, noise), (K_scale, value, value_noise)):
        C = prior + np.diag(noises)
        mean, variance = without_row(prior, values, noises)
        log_evidence += multivariate_normal.logpdf(values, cov=C)
        log_evidence -= norm.logpdf(values, mean, np.sqrt(variance + noises)).sum()
        weights = np.linalg.solve(C, prior)
        moments.append((weights.T @ values, np.diagonal(prior - prior @ weights)))
    mean, variance = np.stack(moments, axis=2)
    # noise of the mean of T where a mean of rows would be certain, given all of s
    _, without = without_row(K, z, noise)
    deviations = np.sqrt(variance[:, [1]]) * s
    T = noise[:, np.newaxis] * np.exp(2.0 * likelihood.variation * deviations)
    mass = norm.pdf(s) * (s[1] - s[0])
    total = without[:, np.newaxis] + T
    known = ((T / total) @ mass) / ((1.0 / total) @ mass)
    weights = np.linalg.solve(K + np.diag(noise * (T @ mass) / known), K)
    variance[:, 0] = np.diagonal(K - K @ weights)
    return mean, variance, log_evidence


def test_location_and_scale_follow_from_what_each_row_says_of_both():
    X, y = scattered(150)
    likelihood = HeteroscedasticGaussian(0.2, 0.5)
    model = PLSRegressor(KERNEL, likelihood=likelihood, normalize_y=False, **ALL)
    model.fit(X, y)
    mean, variance = model.posterior_.marginals(X).moments()
    expected_mean, expected_variance, log_evidence = dense_location_and_scale(
        y, model.likelihood_, KERNEL(X), KERNEL(X)
    )
    z = (mean - expected_mean) / np.sqrt(expected_variance)
    assert np.abs(z).max() < 0.08
    assert_allclose(variance, expected_variance, rtol=0.05)
    assert model.log_evidence_ == pytest.approx(log_evidence, abs=0.5)


def test_a_location_and_its_scale_are_two_series(monkeypatch):
    monkeypatch.setattr("skgpx._pls._base.ABUNDANT_ROWS", 200)
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 12.0, 250))[:, np.newaxis]
    path = np.linalg.cholesky(Matern(2.0, nu=1.5)(X) + 1e-8 * np.eye(250))
    f, g = (path @ rng.standard_normal((250, 2))).T
    y = f + 0.2 * np.exp(0.5 * g) * rng.standard_normal(250)
    # the order of the rows does not matter
    order = rng.permutation(250)
    kernel = 1.0 * Matern(2.0, nu=1.5)
    likelihood = HeteroscedasticGaussian()
    model = PLSRegressor(kernel, likelihood=likelihood, random_state=0)
    model.fit(X[order], y[order])
    assert model.report()["basis"]["kind"] == "state space"
    likelihood = model.likelihood_
    K, K_scale = (kernel(X) for kernel in (model.kernel_, likelihood.scale_kernel_))
    mean, variance = model.posterior_.marginals(X).moments()
    expected_mean, expected_variance, log_evidence = dense_location_and_scale(
        y, likelihood, K, K_scale
    )
    z = (mean - expected_mean) / np.sqrt(expected_variance)
    assert np.abs(z).max() < 0.08
    assert_allclose(variance, expected_variance, rtol=0.05)
    assert model.log_evidence_ == pytest.approx(log_evidence, abs=0.5)
    # draws, and a copy
    new = np.linspace(-1.0, 13.0, 12)[:, np.newaxis]
    draws = model.sample_functions(1000, random_state=0)(new)
    mean, variance = model.posterior_.marginals(new).moments()
    z = (draws.mean(axis=2) - mean) / np.sqrt(variance / 1000)
    assert np.abs(z).max() < 4.5
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(new), model.predict(new))


def test_thousands_of_rows_at_one_time_say_no_more_than_they_know():
    rng = np.random.default_rng(0)
    t = rng.uniform(0.0, 20.0, 6000)
    t[:2500] = 6.0
    log_scale = -1.2 + 0.6 * np.sin(0.5 * t)
    y = np.sin(1.5 * t) + np.exp(log_scale) * rng.standard_normal(6000)
    model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
    model.fit(t[:, np.newaxis], y)
    assert model.findings_ == ()
    assert model.report()["basis"]["kind"] == "state space"
    _, std = model.predict(t[:, np.newaxis], return_std=True)
    assert_allclose(np.log(std), log_scale, atol=0.25)
    # half a square of 2500 errors, and a few rows nearby
    std_there = std[0] / np.exp(log_scale[0])
    assert abs(np.log(std_there)) < 4.5 / np.sqrt(2.0 * 2500)


def moments_over_scales(K, K_new, z, scale, variation, n_steps):
    """Location at new rows given z: means and sd by slice sampling of the log scale."""
    rng = np.random.default_rng(0)
    n = len(z)
    root = np.linalg.cholesky(K + 1e-9 * np.eye(n))

    def given(s):
        L = np.linalg.cholesky(K + np.diag(scale**2 * np.exp(2.0 * variation * s)))
        white = solve_triangular(L, np.column_stack((z, K_new.T)), lower=True)
        log_density = -0.5 * white[:, 0] @ white[:, 0] - np.log(np.diag(L)).sum()
        variance = 1.0 - np.sum(white[:, 1:] ** 2, axis=0)
        return log_density, white[:, 1:].T @ white[:, 0], variance

    s = np.zeros(n)
    now = given(s)
    means, variances = [], []
    for step in range(n_steps):
        # elliptical slice sampling, Murray, Adams and MacKay, AISTATS 2010
        other = root @ rng.standard_normal(n)
        least = now[0] + np.log(rng.uniform())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        while True:
            proposal = np.cos(angle) * s + np.sin(angle) * other
            after = given(proposal)
            if after[0] > least:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        s, now = proposal, after
        if step >= n_steps // 10:
            means.append(now[1])
            variances.append(now[2])
    return np.mean(means, axis=0), np.sqrt(
        np.var(means, axis=0) + np.mean(variances, axis=0)
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_location_is_as_uncertain_as_under_all_scales(seed):
    """Errors of the log scale are those of many rows, and do not average out."""
    X, F, rng = functions(60, 2, seed)
    y = F[:, 0] + 0.3 * np.exp(0.9 * F[:, 1]) * rng.standard_normal(60)
    likelihood = HeteroscedasticGaussian(0.3, 0.9)
    model = PLSRegressor(KERNEL, likelihood=likelihood, normalize_y=False, **ALL)
    fitted = model.fit(X, y).likelihood_
    mean, std = moments_over_scales(
        KERNEL(X),
        KERNEL(X_NEW, X),
        (y - fitted.centre_) / fitted.unit_,
        fitted.scale / fitted.unit_,
        fitted.variation,
        n_steps=3000,
    )
    found, variance = model.posterior_.marginals(X_NEW).moments()
    # correlated draws: two halves differ by .06 and 2 %
    z = (found[:, 0] - mean) / std
    assert np.sqrt(np.mean(z**2)) < 0.1
    ratio = np.sqrt(variance[:, 0]) / std
    assert 0.95 < np.median(ratio) < 1.05
    # the same everywhere
    draws = model.sample_functions(1000, random_state=0)(X_NEW)[:, 0]
    of_draws = draws.var(axis=1, ddof=1) / variance[:, 0]
    assert np.abs(of_draws - 1.0).max() < 4.5 * np.sqrt(2.0 / 999)
    covariance = model.posterior_.covariance(X_NEW)
    assert_allclose(np.diagonal(covariance), variance[:, 0], rtol=1e-6)


def test_noise_that_does_not_vary_is_regression():
    X, y = scattered(150)
    likelihood = HeteroscedasticGaussian(0.2, 1e-4)
    settings = {"kernel": KERNEL, "normalize_y": False, **ALL}
    varying = PLSRegressor(likelihood=likelihood, **settings).fit(X, y)
    # in units of the location, of which the prior is
    centre, unit = varying.likelihood_.centre_, varying.likelihood_.unit_
    noise = Gaussian((0.2 / unit) ** 2)
    constant = PLSRegressor(likelihood=noise, **settings).fit(X, (y - centre) / unit)
    expected = constant.posterior_.marginals(X_NEW).moments()
    mean, variance = varying.posterior_.marginals(X_NEW).moments()
    assert_allclose(mean[:, 0], expected[0][:, 0], atol=1e-6)
    assert_allclose(variance[:, 0], expected[1][:, 0], rtol=1e-5)
    log_evidence = constant.log_evidence_ - len(y) * np.log(unit)
    assert varying.log_evidence_ == pytest.approx(log_evidence, abs=0.01)


def test_weights_of_noise_that_varies_are_repetitions():
    X, y = scattered(60)
    likelihood = HeteroscedasticGaussian(0.2, 0.5)
    settings = {"kernel": KERNEL, "normalize_y": False, "likelihood": likelihood, **ALL}
    weights = 1 + np.arange(60) % 3
    weighted = PLSRegressor(**settings).fit(X, y, sample_weight=weights)
    repeated = PLSRegressor(**settings).fit(
        np.repeat(X, weights, axis=0),
        np.repeat(y, weights),
    )
    mean, variance = weighted.posterior_.marginals(X_NEW).moments()
    expected = repeated.posterior_.marginals(X_NEW).moments()
    assert np.abs((mean - expected[0]) / np.sqrt(variance)).max() < 0.05
    assert_allclose(variance, expected[1], rtol=0.05)
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=0.5)


def test_draws_of_a_location_and_its_scale_have_their_moments():
    X, y = scattered(150)
    likelihood = HeteroscedasticGaussian(0.2, 0.5)
    model = PLSRegressor(KERNEL, likelihood=likelihood, normalize_y=False, **ALL)
    model.fit(X, y)
    mean, variance = model.posterior_.marginals(X_NEW).moments()
    draws = model.sample_functions(400, random_state=0)
    values = draws(X_NEW)
    # two functions of 40 rows, whose draws are correlated
    z = (values.mean(axis=2) - mean) / np.sqrt(variance / 400)
    assert np.abs(z).max() < 4.5
    ratio = values.var(axis=2, ddof=1) / variance
    assert np.abs(ratio - 1.0).max() < 4.5 * np.sqrt(2.0 / 399)
    # the same functions one by one, selected, scaled and with their slopes
    some = draws[[3, 7]]
    assert_allclose((2.0 * some)(X_NEW), 2.0 * values[:, :, [3, 7]], atol=1e-12)
    at_rows = draws[:40].at(X_NEW)
    assert_allclose(at_rows, values[range(40), :, range(40)], atol=1e-10)
    _, slopes = some.value_and_grad(X_NEW[:5])
    step = np.array([1e-6, 0.0])
    rise = some(X_NEW[:5] + step) - some(X_NEW[:5] - step)
    assert_allclose(slopes[..., 0], rise / 2e-6, rtol=2e-3, atol=2e-3)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.sample_functions(2, random_state=0)(X_NEW), draws_of(model))


def draws_of(model):
    return model.sample_functions(2, random_state=0)(X_NEW)


@pytest.mark.parametrize(
    ("likelihood", "optimizer"),
    [
        (HeteroscedasticGaussian(), "evidence"),
        (HeteroscedasticStudentT(variation=0.5), None),
    ],
    ids=["learned", "given"],
)
def test_intervals_of_noise_that_varies_have_their_coverage(likelihood, optimizer):
    X, y = scattered(1000)
    seen = slice(0, 400)
    kernel = ConstantKernel() * KERNEL
    settings = {"n_inducing": 40, "n_neighbors": 20, "random_state": 0}
    model = PLSRegressor(kernel, likelihood=likelihood, optimizer=optimizer, **settings)
    model.fit(X[seen], y[seen])
    low, high = model.predict_interval(X[400:], coverage=0.9).T
    covered = np.mean((low < y[400:]) & (y[400:] < high))
    assert abs(covered - 0.9) < 0.05
    draws = model.sample_functions(5, random_state=0)(X_NEW)
    assert draws.shape == (40, 2, 5)


def test_rows_of_both_labels_settle_in_their_variances():
    """Means stay at zero from the first round on, and variances do not."""
    x = np.linspace(0.0, 1.0, 30)
    kernel = ConstantKernel(30.0) * RBF(0.02)
    model = PLSClassifier(
        kernel, optimizer=None, n_inducing=5, n_neighbors=29, random_state=0
    )
    model.fit(np.repeat(x, 2)[:, np.newaxis], np.tile([0, 1], 30))
    assert model.findings_ == ()
    # the closest normal distribution of the function, each row with both labels
    K = kernel(x[:, np.newaxis])
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    variance = np.diag(K)
    for _ in range(300):
        p = expit(np.sqrt(variance)[:, np.newaxis] * nodes)
        curvature = 2.0 * (p * (1.0 - p)) @ (masses / masses.sum())
        given = np.diag(K - K @ np.linalg.solve(K + np.diag(1.0 / curvature), K))
        variance = 0.5 * (variance + given)
    latent = model.posterior_.marginals(x[:, np.newaxis])
    assert_allclose(latent.variance[:, 0, 0], variance, rtol=0.02)


def test_rows_of_no_prior_variance_are_counts_of_the_base_rate():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    X[:5] = 0.0
    y = rng.poisson(3.0 * np.exp(X[:, 0]))
    kernel = DotProduct(0.0, "fixed") * RBF(2.0)
    settings = {"n_neighbors": 20, "n_inducing": 10, "random_state": 0}
    model = PLSRegressor(kernel, likelihood=Poisson(), optimizer=None, **settings)
    model.fit(X, y)
    assert_allclose(model.predict(X[:1]), np.mean(y), rtol=0.4)
