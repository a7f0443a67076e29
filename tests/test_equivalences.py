"""Different computations that must agree."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx import PLSClassifier, PLSRegressor
from skgpx._hyperparameters import with_base_rates
from skgpx._pls._langevin import nystroem_root
from skgpx._shell.validation import Rows
from skgpx.bases import Nystroem
from skgpx.kernels import GREKernel
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Poisson,
    ShiftedMixture,
    StudentT,
)
from tests.numerics.conftest import LARGEST_Z, moment_scores

NOISE = 0.2
KERNEL = ConstantKernel(1.5) * RBF(0.9)
Z = np.linspace(-2.5, 2.5, 6)[:, np.newaxis]
GRID = np.linspace(-3.5, 3.5, 9)[:, np.newaxis]


def latent(X):
    return np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 0]


def data(likelihood=None, n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.5, 2.5, (n, 1))
    if likelihood is None:
        return X, latent(X) + np.sqrt(NOISE) * rng.standard_normal(n)
    return X, likelihood.sample(1.3 * latent(X), rng)


def regressor(likelihood=None, **settings):
    """Everything given: only the distribution of the weights is left to find."""
    settings = {
        "kernel": KERNEL, "optimizer": None, "inducing": Z,
        "normalize_y": False, "random_state": 0, **settings,
    }  # fmt: skip
    likelihood = likelihood or Gaussian(noise_variance=NOISE)
    return PLSRegressor(likelihood=likelihood, **settings)


def values_at_inducing(estimator, particles=None):
    """The particles as values of f at the inducing inputs, (m, c, s)."""
    root = estimator.posterior_.basis.root
    particles = estimator.particles_ if particles is None else particles
    base = estimator.likelihood_.base_latent_[:, np.newaxis]
    return base + np.einsum("ij,jcs->ics", root, particles)


def closed_form(X, y, kernel=KERNEL, noise=NOISE):
    """Mean and covariance of f(Z) given y: Titsias (2009) in the values at Z."""
    Kzz, Kzx = kernel(Z), kernel(Z, X)
    inner = Kzz @ np.linalg.inv(Kzz + Kzx @ Kzx.T / noise)
    return inner @ Kzx @ y / noise, inner @ Kzz


# ---- Gaussian: all methods and the closed form ---------------------------------------


@pytest.mark.parametrize("method", ["exact", "auto", "ou_mala", "mala"])
def test_gaussian_particles_have_the_closed_form_moments(method):
    X, y = data()
    fitted = regressor(method=method, n_particles=3000).fit(X, y)
    scores = moment_scores(values_at_inducing(fitted)[:, 0], *closed_form(X, y))
    assert np.max(np.abs(scores)) < LARGEST_Z


def test_smc_particles_have_the_closed_form_moments():
    X, y = data()
    mean, covariance = closed_form(X, y)
    moments = []
    for seed in range(8):
        fitted = regressor(method="smc", n_particles=200, random_state=seed).fit(X, y)
        f = values_at_inducing(fitted)[:, 0] - mean[:, np.newaxis]
        moments.append(np.concatenate((f.mean(axis=1), np.mean(f**2, axis=1))))
    error = np.std(moments, axis=0, ddof=1) / np.sqrt(8)
    truth = np.concatenate((np.zeros(6), np.diag(covariance)))
    scores = (np.mean(moments, axis=0) - truth) / error
    # eight replicates: Student's distribution with seven degrees of freedom
    assert np.max(np.abs(scores)) < stats.t(7).isf(stats.norm.sf(LARGEST_Z))


def test_smc_weighs_four_modes_as_their_evidences():
    """Two far islands, each either shifted as a whole or not at all."""
    n, shift, p, noise = 25, 2.0, 0.504, 0.25**2
    rng = np.random.default_rng(0)
    places = np.repeat([-3.0, 3.0], n)
    X = (places + rng.uniform(-0.2, 0.2, 2 * n))[:, np.newaxis]
    y = np.where(places < 0.0, 0.9, 1.2) + np.sqrt(noise) * rng.standard_normal(2 * n)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    distribution = stats.multivariate_normal(None, kernel(X) + noise * np.eye(2 * n))
    modes = [(a, b) for a in (0, 1) for b in (0, 1)]
    log_weights = [
        distribution.logpdf(y - shift * np.repeat(mode, n))
        + n * (sum(mode) * np.log(p) + (2 - sum(mode)) * np.log1p(-p))
        for mode in modes
    ]
    likelihood, found = ShiftedMixture(shift, p, noise), []
    for seed in range(8):
        fitted = regressor(
            likelihood, kernel=kernel, inducing="greedy", n_inducing=10,
            method="smc", n_particles=200, random_state=seed,
        ).fit(X, y)  # fmt: skip
        f = fitted.posterior_.basis([[-3.0], [3.0]]) @ fitted.particles_[:, 0]
        shifted = f.T < 0.0
        found.append([np.mean((shifted == mode).all(axis=1)) for mode in modes])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(8)
    scores = (np.mean(found, axis=0) - softmax(log_weights)) / error
    assert np.max(np.abs(scores)) < stats.t(7).isf(stats.norm.sf(LARGEST_Z))


def test_the_exact_distribution_is_the_closed_form():
    X, y = data()
    distribution, root = (
        regressor().fit(X, y).posterior_.weights,
        np.linalg.cholesky(KERNEL(Z)),
    )
    mean, covariance = closed_form(X, y)
    np.testing.assert_allclose(root @ distribution.mean[:, 0], mean, atol=1e-7)
    half = root @ distribution.root[0]
    np.testing.assert_allclose(half @ half.T, covariance, atol=1e-7)


def test_the_unadjusted_scheme_moves_in_the_coordinates_of_the_paper():
    # u_m = (M λ_m)^(-1/2) v_mᵀ f(Z) with k(Z, Z) / M = V Λ Vᵀ, and f(Z) = L w
    basis = Nystroem.from_kernel(KERNEL, Z)
    eigenvalues, V = np.linalg.eigh(KERNEL(Z) / 6)
    root = nystroem_root(basis)
    u = (V.T @ basis.root @ root) / np.sqrt(6 * eigenvalues)[:, np.newaxis]
    np.testing.assert_allclose(np.abs(u), np.eye(6), atol=1e-6)


@pytest.mark.parametrize("relative_step", [None, 1.2])
def test_unadjusted_particles_have_their_own_known_distribution(relative_step):
    X, y = data()
    mean, exact = closed_form(X, y)
    # in the paper's coordinates f(Z) = T u the Hessian is H = Tᵀ cov⁻¹ T
    eigenvalues, V = np.linalg.eigh(KERNEL(Z) / 6)
    T = V * np.sqrt(6 * eigenvalues)
    H = T.T @ np.linalg.solve(exact, T)
    largest = np.linalg.eigvalsh(H)[-1]
    eta = (relative_step or 0.2) / largest
    step = None if relative_step is None else eta
    estimator = regressor(
        method="ula", step_size=step, n_particles=4000, tol=0.0, max_iter=60
    )
    with pytest.warns(ConvergenceWarning, match="split R-hat"):
        estimator.fit(X, y)
    # the chains start in the Laplace posterior (exact) and drift to the biased one:
    # Σ <- (I - ηH) Σ (I - ηH) + 2ηI
    A, covariance = np.eye(6) - eta * H, np.linalg.inv(H)
    for _ in range(estimator.n_iter_):
        covariance = A @ covariance @ A + 2.0 * eta * np.eye(6)
    draws = values_at_inducing(estimator)[:, 0]
    scores = moment_scores(draws, mean, T @ covariance @ T.T)
    assert np.max(np.abs(scores)) < LARGEST_Z
    if relative_step is not None:
        stationary = np.linalg.inv(H) @ np.linalg.inv(np.eye(6) - 0.5 * eta * H)
        top = np.linalg.eigh(H)[1][:, -1]
        assert top @ covariance @ top == pytest.approx(top @ stationary @ top)
        assert np.max(np.abs(moment_scores(draws, mean, exact))) > 20.0


# ---- Gaussian: Titsias and the exact process -----------------------------------------


def test_predictions_are_those_of_titsias():
    X, y = data()
    fitted = regressor().fit(X, y)
    Kzz, Kzx, Kzs = KERNEL(Z), KERNEL(Z, X), KERNEL(Z, GRID)
    S = np.linalg.inv(Kzz + Kzx @ Kzx.T / NOISE)
    mean = Kzs.T @ S @ Kzx @ y / NOISE
    covariance = KERNEL(GRID) - Kzs.T @ (np.linalg.inv(Kzz) - S) @ Kzs
    ours, std = fitted.predict(GRID, return_std=True, include_noise=False)
    np.testing.assert_allclose(ours, mean, atol=1e-7)
    np.testing.assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-6)
    _, ours = fitted.predict(GRID, return_cov=True, include_noise=False)
    np.testing.assert_allclose(ours, covariance, atol=1e-7)


def test_log_evidence_is_the_bound_of_titsias():
    X, y = data()
    kernel = ConstantKernel(1.5) * RBF(0.9)
    fitted = regressor(Gaussian(), kernel=kernel, optimizer="evidence").fit(X, y)
    k, noise = fitted.kernel_, fitted.likelihood_.noise_variance
    Q = k(X, Z) @ np.linalg.solve(k(Z), k(Z, X))
    distribution = stats.multivariate_normal(np.zeros(25), Q + noise * np.eye(25))
    bound = distribution.logpdf(y) - 0.5 * np.sum(k.diag(X) - np.diag(Q)) / noise
    assert fitted.log_evidence_ == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("prior", ["gp", "gre"])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_all_rows_as_inducing_inputs_are_the_exact_process(prior, normalize_y):
    # far enough apart for the jitter, 1e-10 of the diagonal, to be negligible
    X = np.linspace(-3.5, 3.5, 11)[:, np.newaxis]
    y = 10.0 + 4.0 * latent(X)
    kernel = ConstantKernel(1.5) * RBF(0.6)
    kernel = GREKernel(kernel, X) if prior == "gre" else kernel
    ours = PLSRegressor(
        kernel + WhiteKernel(NOISE, "fixed"),
        optimizer=None,
        inducing=X,
        normalize_y=normalize_y,
    ).fit(X, y)
    theirs = GaussianProcessRegressor(
        ours.kernel_ + WhiteKernel(NOISE), optimizer=None, normalize_y=normalize_y
    ).fit(X, y)
    mean, std = ours.predict(GRID, return_std=True)
    expected, expected_std = theirs.predict(GRID, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(std, expected_std, rtol=1e-6)
    _, covariance = ours.predict(GRID, return_cov=True)
    _, expected = theirs.predict(GRID, return_cov=True)
    np.testing.assert_allclose(covariance, expected, rtol=1e-5, atol=1e-5)


def test_integer_weights_are_repetitions():
    X, y = data(Poisson())
    times = np.random.default_rng(1).integers(0, 4, 25)
    settings = {"method": "ou_mala", "n_particles": 50}
    one = regressor(Poisson(), **settings).fit(X, y, sample_weight=times)
    other = regressor(Poisson(), **settings).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    np.testing.assert_array_equal(one.particles_, other.particles_)


# ---- Other likelihoods: a different sampler ------------------------------------------


def elliptical_slice(log_likelihood, m, n_chains, n_steps, rng):
    """Murray, Adams and MacKay (2010) under N(0, I), all chains side by side."""
    w = rng.standard_normal((m, n_chains))
    value = log_likelihood(w)
    for _ in range(n_steps):
        nu = rng.standard_normal(w.shape)
        level = value + np.log(rng.random(n_chains))
        angle = rng.uniform(0.0, 2.0 * np.pi, n_chains)
        low, high = angle - 2.0 * np.pi, angle.copy()
        open_ = np.arange(n_chains)
        new, new_value = w.copy(), value.copy()
        while len(open_):
            t = angle[open_]
            trial = w[:, open_] * np.cos(t) + nu[:, open_] * np.sin(t)
            trial_value = log_likelihood(trial)
            good = trial_value > level[open_]
            new[:, open_[good]] = trial[:, good]
            new_value[open_[good]] = trial_value[good]
            open_, t = open_[~good], t[~good]
            low[open_] = np.where(t < 0.0, t, low[open_])
            high[open_] = np.where(t < 0.0, high[open_], t)
            angle[open_] = rng.uniform(low[open_], high[open_])
        w, value = new, new_value
    return w


def whitened_w2(one, other):
    """2-Wasserstein distance of Gaussian moments in units of the second's spread.

    Divided by √m: posterior standard deviations per coordinate.
    """
    root = np.linalg.cholesky(np.cov(other))
    a, b = np.linalg.solve(root, one), np.linalg.solve(root, other)
    gap = np.sum((a.mean(axis=1) - b.mean(axis=1)) ** 2)
    A, B = np.cov(a), np.cov(b)
    eigenvalues = np.linalg.eigvals(A @ B).real
    trace = np.trace(A + B) - 2.0 * np.sum(np.sqrt(np.maximum(eigenvalues, 0.0)))
    return np.sqrt(max(gap + trace, 0.0) / len(one))


def assert_same_distribution(one, other, rng):
    """W2 of moments against random splits of the pooled draws, KS per coordinate."""
    assert min(
        stats.ks_2samp(a, b).pvalue for a, b in zip(one, other, strict=True)
    ) > 2.0 * stats.norm.sf(LARGEST_Z)
    pooled, s = np.concatenate((one, other), axis=1), one.shape[1]
    splits = [rng.permutation(pooled.shape[1]) for _ in range(60)]
    null = [whitened_w2(pooled[:, i[:s]], pooled[:, i[s:]]) for i in splits]
    distance = whitened_w2(one, other)
    assert distance < np.mean(null) + LARGEST_Z * np.std(null)
    # and in absolute terms: what is not sampling error is below a twentieth of a
    # posterior standard deviation
    assert distance < np.mean(null) + 0.05


LAWS = {
    "logit": Bernoulli(),
    "probit": Bernoulli("probit"),
    "StudentT": StudentT(df=4.0, scale=0.3),
    "softplus": Poisson("softplus"),
    "exp": Poisson("exp"),
}


def fitted_model(likelihood, **settings):
    X, y = data(likelihood)
    if isinstance(likelihood, Bernoulli):
        settings = {**settings, "kernel": KERNEL, "optimizer": None}
        model = PLSClassifier(
            likelihood=likelihood, inducing=Z, random_state=0, **settings
        )
        return model.fit(X, y), X, y
    return regressor(likelihood, **settings).fit(X, y), X, y


@pytest.fixture(scope="module")
def reference():
    """Draws of the weights by elliptical slice sampling."""
    known = {}

    def draws(key, likelihood):
        if key in known:
            return known[key]
        X, y = data(likelihood)
        features, base = Nystroem.from_kernel(KERNEL, Z)(X), 0.0
        if isinstance(likelihood, Bernoulli):  # the others have normalize_y=False
            rows = Rows(X, y, np.ones(len(y)))
            prepared = with_base_rates(rows, likelihood.prepare(y), KERNEL)
            base = prepared.base_latent_[0]

        def log_likelihood(w):
            return -likelihood.nll(y[:, None], base + features @ w).sum(axis=0)

        rng = np.random.default_rng(11)
        known[key] = elliptical_slice(log_likelihood, 6, 1000, 120, rng)
        return known[key]

    return draws


@pytest.mark.parametrize("method", ["ou_mala", "mala"])
@pytest.mark.parametrize("key", LAWS)
def test_posterior_against_a_different_sampler(key, method, reference, rng):
    settings = {"method": method, "n_particles": 1000, "tol": 1.02}
    fitted, *_ = fitted_model(LAWS[key], **settings)
    expected = reference(key, LAWS[key])
    assert_same_distribution(fitted.particles_[:, 0], expected, rng)


def test_the_default_number_of_steps_is_enough(reference, rng):
    """Default tolerance: whitened W2 within 0.1 of what independent draws have."""
    for key in ("logit", "StudentT"):
        fitted, *_ = fitted_model(LAWS[key], n_particles=1000)
        expected = reference(key, LAWS[key])
        pairs = [
            whitened_w2(expected[:, i::3], np.delete(expected, np.s_[i::3], axis=1))
            for i in range(3)
        ]
        distance = whitened_w2(fitted.particles_[:, 0], expected)
        assert distance < np.mean(pairs) + 0.1


# ---- Predictions and draws -----------------------------------------------------------


def replicated_z(estimates, truth):
    """z-scores of the mean of independent replicates, (r, ...)."""
    estimates = np.asarray(estimates)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    return (estimates.mean(axis=0) - truth) / error


PREDICTED = {
    "Gaussian": Gaussian(NOISE),
    "StudentT": StudentT(df=9.0, scale=0.3),
    "softplus": Poisson("softplus"),
    "exp": Poisson("exp"),
}


@pytest.mark.parametrize("key", PREDICTED)
def test_predicted_moments_are_those_of_drawn_observations(key):
    fitted, *_ = fitted_model(PREDICTED[key], n_particles=50)
    mean, std = fitted.predict(GRID, return_std=True)
    firsts, seconds = [], []
    # every call draws its own random Fourier frequencies
    for seed in range(8):
        y = fitted.sample_y(GRID, n_samples=300, random_state=seed)
        assert y.shape == (9, 300)
        firsts.append(y.mean(axis=1))
        seconds.append(np.mean((y - mean[:, np.newaxis]) ** 2, axis=1))
    limit = stats.t(7).isf(stats.norm.sf(LARGEST_Z))
    assert np.max(np.abs(replicated_z(firsts, mean))) < limit
    if key != "exp":  # the variance of a log-normal rate is not estimated by means
        assert np.max(np.abs(replicated_z(seconds, std**2))) < limit


@pytest.mark.parametrize("key", PREDICTED)
def test_predicted_latent_moments_are_those_of_drawn_functions(key):
    fitted, *_ = fitted_model(PREDICTED[key], n_particles=50)
    mixture = fitted.posterior_.marginals(GRID)
    mean, variance = (a[:, 0] for a in mixture.moments())
    firsts, seconds = [], []
    for seed in range(8):
        f = fitted.sample_functions(300, random_state=seed)(GRID)
        assert f.shape == (9, 300)
        firsts.append(f.mean(axis=1))
        seconds.append(np.mean((f - mean[:, np.newaxis]) ** 2, axis=1))
    limit = stats.t(7).isf(stats.norm.sf(LARGEST_Z))
    assert np.max(np.abs(replicated_z(firsts, mean))) < limit
    assert np.max(np.abs(replicated_z(seconds, variance))) < limit
    if fitted.likelihood_.location_scale:
        ours, std = fitted.predict(GRID, return_std=True, include_noise=False)
        np.testing.assert_allclose(ours, mean, rtol=1e-10)
        np.testing.assert_allclose(std**2, variance, rtol=1e-10)


def test_predicted_covariance_is_that_of_drawn_functions():
    # a kernel without random Fourier features: exact draws
    kernel = ConstantKernel(1.5) * RationalQuadratic(0.9, 2.0)
    X, y = data()
    fitted = regressor(kernel=kernel, inducing=Z[::2]).fit(X, y)
    mean, covariance = fitted.predict(GRID, return_cov=True, include_noise=False)
    f = fitted.sample_functions(5000, random_state=0)(GRID)
    scores = moment_scores(f, mean, covariance + 1e-9 * np.eye(9))
    assert np.max(np.abs(scores)) < LARGEST_Z


@pytest.mark.parametrize("likelihood", [Gaussian(NOISE), StudentT(df=9.0, scale=0.3)])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_noise_is_included_on_request(likelihood, normalize_y):
    X, y = data(likelihood)
    fitted = regressor(likelihood, n_particles=50, normalize_y=normalize_y)
    fitted.fit(X, 5.0 * y)
    mean, std = fitted.predict(GRID, return_std=True)
    same, latent_std = fitted.predict(GRID, return_std=True, include_noise=False)
    np.testing.assert_array_equal(mean, same)
    noise = NOISE if isinstance(likelihood, Gaussian) else 0.3**2 * 9.0 / 7.0
    np.testing.assert_allclose(std**2 - latent_std**2, noise, rtol=1e-8)
    _, with_noise = fitted.predict(GRID, return_cov=True)
    _, without = fitted.predict(GRID, return_cov=True, include_noise=False)
    np.testing.assert_allclose(with_noise - without, noise * np.eye(9), atol=1e-9)
    np.testing.assert_allclose(np.diag(without), latent_std**2, rtol=1e-8)


def test_std_without_noise_is_that_of_the_rate():
    fitted, *_ = fitted_model(Poisson("softplus"), n_particles=50)
    mean, std = fitted.predict(GRID, return_std=True, include_noise=False)
    _, total = fitted.predict(GRID, return_std=True)
    # a count has variance E[rate] + Var[rate]
    np.testing.assert_allclose(total**2 - std**2, mean, rtol=1e-6)
    seconds = []
    for seed in range(16):
        f = fitted.sample_functions(300, random_state=seed)(GRID)
        rate = np.logaddexp(0.0, f)
        seconds.append(np.mean((rate - mean[:, np.newaxis]) ** 2, axis=1))
    limit = stats.t(15).isf(stats.norm.sf(LARGEST_Z))
    assert np.max(np.abs(replicated_z(seconds, std**2))) < limit


LEVELS = np.array([0.01, 0.05, 0.5, 0.9, 0.975])


@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("key", PREDICTED)
def test_quantiles_invert_the_distribution_function(key, normalize_y):
    fitted, *_ = fitted_model(PREDICTED[key], n_particles=50, normalize_y=normalize_y)
    quantiles = fitted.predict_quantiles(GRID, LEVELS)
    assert quantiles.shape == (9, 5)
    mixture, likelihood = fitted.posterior_.marginals(GRID), fitted.likelihood_
    for level, at in zip(LEVELS, quantiles.T, strict=True):
        mass = likelihood.predictive_cdf(at, mixture)
        if likelihood.discrete:
            below = likelihood.predictive_cdf(at - 1.0, mixture)
            assert np.all((below < level) & (mass >= level - 1e-9))
        else:
            np.testing.assert_allclose(mass, level, rtol=1e-8)
    if key == "Gaussian":
        mean, std = fitted.predict(GRID, return_std=True)
        expected = stats.norm.ppf(LEVELS, mean[:, None], std[:, None])
        np.testing.assert_allclose(quantiles, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        fitted.predict_interval(GRID, 0.8), fitted.predict_quantiles(GRID, [0.1, 0.9])
    )


def test_log_density_is_that_of_the_predictive_normal():
    X, y = data()
    fitted = regressor(normalize_y=True).fit(X, y)
    mean, std = fitted.predict(X, return_std=True)
    expected = stats.norm.logpdf(y, mean, std)
    np.testing.assert_allclose(fitted.log_predictive_density(X, y), expected)


# ---- Classes -------------------------------------------------------------------------


def test_binary_probabilities_are_frequencies_of_drawn_labels():
    fitted, *_ = fitted_model(Bernoulli(), n_particles=50)
    p = fitted.predict_proba(GRID)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    shares = [
        np.mean(fitted.sample_y(GRID, 400, random_state=seed) == 1.0, axis=1)
        for seed in range(16)
    ]
    limit = stats.t(15).isf(stats.norm.sf(LARGEST_Z))
    assert np.max(np.abs(replicated_z(shares, p[:, 1]))) < limit


@pytest.fixture(scope="module")
def three_classes():
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.5, 2.5, (40, 1))
    y = np.digitize(latent(X) + 0.4 * rng.standard_normal(40), [-0.6, 0.6])
    model = PLSClassifier(KERNEL, optimizer=None, inducing=Z, random_state=0)
    return model.set_params(n_particles=60).fit(X, np.array(["b", "a", "c"])[y])


def test_class_probabilities_at_the_inducing_inputs_average_the_particles(
    three_classes,
):
    # spread out, so that variances are unbiased
    f = values_at_inducing(three_classes, three_classes.posterior_.weights.values)
    expected = softmax(f, axis=1).mean(axis=2)
    # only the jitter is left of the residual there
    np.testing.assert_allclose(three_classes.predict_proba(Z), expected, atol=1e-4)


def test_class_probabilities_against_monte_carlo(three_classes, rng):
    p = three_classes.predict_proba(GRID)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    mixture = three_classes.posterior_.marginals(GRID)
    std = np.sqrt(mixture.variance)[..., np.newaxis]
    n_draws = 100
    noise = rng.standard_normal((*mixture.mean.shape, n_draws))
    values = softmax(mixture.mean[..., np.newaxis] + std * noise, axis=1)
    # given the particles, only the residual is random
    estimate = values.mean(axis=(2, 3))
    error = np.sqrt(values.var(axis=3).mean(axis=2) / (60 * n_draws))
    np.testing.assert_array_less(np.abs(estimate - p), LARGEST_Z * error + 2e-5)
    labels = [
        three_classes.sample_y(GRID, 120, random_state=seed) for seed in range(16)
    ]
    limit = stats.t(15).isf(stats.norm.sf(LARGEST_Z))
    for k, label in enumerate(three_classes.classes_):
        shares = [np.mean(drawn == label, axis=1) for drawn in labels]
        assert np.max(np.abs(replicated_z(shares, p[:, k]))) < limit


def test_multiclass_posterior_against_a_different_sampler(three_classes, rng):
    rows = np.random.default_rng(4)
    X = rows.uniform(-2.5, 2.5, (40, 1))
    y = np.digitize(latent(X) + 0.4 * rows.standard_normal(40), [-0.6, 0.6])
    y = np.array([1.0, 0.0, 2.0])[y]  # classes_ are sorted: a, b, c
    model = PLSClassifier(KERNEL, optimizer=None, inducing=Z, random_state=0)
    model.set_params(n_particles=500, tol=1.02).fit(X, y)
    features = Nystroem.from_kernel(KERNEL, Z)(X)
    data = Rows(X, y, np.ones(40))
    likelihood = with_base_rates(data, Categorical().prepare(y), KERNEL)
    base = likelihood.base_latent_[:, np.newaxis]

    def log_likelihood(w):
        f = base + np.einsum("nm,cms->ncs", features, w.reshape(3, 6, -1))
        return -likelihood.row_nll(y, f).sum(axis=0)

    expected = elliptical_slice(log_likelihood, 18, 500, 100, rng)
    ours = model.particles_.transpose(1, 0, 2).reshape(18, -1)
    pooled = np.concatenate((ours, expected), axis=1)
    splits = [rng.permutation(1000) for _ in range(60)]
    null = [whitened_w2(pooled[:, i[:500]], pooled[:, i[500:]]) for i in splits]
    distance = whitened_w2(ours, expected)
    assert distance < np.mean(null) + LARGEST_Z * np.std(null)
    np.testing.assert_allclose(
        model.predict_proba(GRID), three_classes.predict_proba(GRID)[:, [0, 1, 2]],
        atol=0.1,
    )  # fmt: skip
