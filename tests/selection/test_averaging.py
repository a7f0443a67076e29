import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import halfnorm, lognorm, uniform
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpx import DecoupledSampler, PLSClassifier, PLSRegressor
from skgpx.kernels import Prior
from skgpx.likelihoods import Gaussian, StudentT

# log-normal priors of an amplitude and a lengthscale: medians and standard deviations
AMPLITUDE = (1.0, 1.0)
LENGTH_SCALE = (1.5, 0.8)
NOISE = 0.05


def table(n=30, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, d))
    y = np.sin(X[:, 0]) + np.sqrt(NOISE) * rng.standard_normal(n)
    return X, y


def kernel_with_priors():
    amplitude = Prior(lognorm(AMPLITUDE[1], scale=AMPLITUDE[0]))
    length_scale = Prior(lognorm(LENGTH_SCALE[1], scale=LENGTH_SCALE[0]))
    return ConstantKernel(1.0, amplitude) * RBF(1.0, length_scale)


@pytest.mark.usefixtures("every_state")
def test_states_have_the_moments_of_the_posterior():
    X, y = table(12)
    # by quadrature on a grid of log amplitude and log lengthscale
    log_amplitudes = np.log(AMPLITUDE[0]) + AMPLITUDE[1] * np.linspace(-5.0, 5.0, 41)
    log_scales = np.log(LENGTH_SCALE[0]) + LENGTH_SCALE[1] * np.linspace(-5.0, 5.0, 41)
    log_density = np.empty((41, 41))
    for i, log_amplitude in enumerate(log_amplitudes):
        for j, log_scale in enumerate(log_scales):
            amplitude = np.exp(log_amplitude)
            kernel = ConstantKernel(amplitude) * RBF(np.exp(log_scale))
            K = kernel(X) + NOISE * np.eye(len(y))
            _, log_determinant = np.linalg.slogdet(K)
            log_density[i, j] = -0.5 * (y @ np.linalg.solve(K, y) + log_determinant)
    z = np.linspace(-5.0, 5.0, 41)
    log_density -= 0.5 * (z[:, np.newaxis] ** 2 + z**2)
    density = np.exp(log_density - logsumexp(log_density))
    grids = np.meshgrid(log_amplitudes, log_scales, indexing="ij")
    exact_means = np.array([np.sum(density * grid) for grid in grids])
    # by the states of as many fits as give a standard error
    means = []
    for seed in range(12):
        model = PLSRegressor(
            kernel_with_priors(),
            likelihood=Gaussian(NOISE),
            normalize_y=False,
            random_state=seed,
        ).fit(X, y)
        states = model.hyperparameter_states_
        theta = np.array([state.kernel.theta for state in states])
        means.append([state.weight for state in states] @ theta)
    means = np.array(means)
    standard_error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert np.all(np.abs(means.mean(axis=0) - exact_means) < 4.0 * standard_error)
    assert np.all(standard_error < 0.1)


def test_predictions_average_the_states():
    X, y = table(40, 2)
    X_new, y_new = table(15, 2, seed=1)
    model = PLSRegressor(normalize_y=False, random_state=0).fit(X, y)
    states = model.hyperparameter_states_
    log_densities = []
    for state in states:
        noise = float(state.likelihood.noise_variance)
        process = GaussianProcessRegressor(
            state.kernel + WhiteKernel(noise), optimizer=None
        ).fit(X, y)
        mean, std = process.predict(X_new, return_std=True)
        z = (y_new - mean) / std
        log_density = -0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
        log_densities.append(np.log(state.weight) + log_density)
    expected = logsumexp(log_densities, axis=0)
    density = model.log_predictive_density(X_new, y_new)
    np.testing.assert_allclose(density, expected, rtol=0.0, atol=2e-3)
    # and intervals hold their probability
    distribution = model.predict_dist(X_new)
    low, high = distribution.interval(0.8).T
    coverage = distribution.cdf(high) - distribution.cdf(low)
    np.testing.assert_allclose(coverage, 0.8, atol=1e-9)


def test_states_are_sorted_and_the_largest_is_the_fitted_kernel():
    X, y = table(25, 3)
    model = PLSRegressor(random_state=0).fit(X, y)
    states = model.hyperparameter_states_
    weights = np.array([state.weight for state in states])
    names = np.array([state.name for state in states])
    assert sum(weights) == pytest.approx(1.0)
    largest = states[0]
    masses = [weights[names == name].sum() for name in np.unique(names)]
    assert weights[names == largest.name].sum() == pytest.approx(max(masses))
    assert largest.weight == weights[names == largest.name].max()
    assert model.kernel_ == largest.kernel
    assert model.noise_variance_ == largest.likelihood.noise_variance
    assert len(model.posterior_.models) == len(weights)


@pytest.mark.parametrize("n_jobs", [2])
def test_the_seed_decides(n_jobs):
    X, y = table(25, 2)
    first = PLSRegressor(random_state=3).fit(X, y)
    second = PLSRegressor(random_state=3, n_jobs=n_jobs).fit(X, y)
    assert np.array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize(
    ("n", "parameters"),
    [
        (40, {"hyperparameters": "maximise"}),
        (40, {"optimizer": None}),
        # a kernel of the user, without priors
        (40, {"kernel": ConstantKernel(1.0) * RBF(1.0)}),
        # held-out rows choose
        (4500, {}),
    ],
)
def test_hyperparameters_are_chosen(n, parameters):
    X, y = table(n)
    model = PLSRegressor(random_state=0, **parameters).fit(X, y)
    assert model.hyperparameter_states_ == ()
    assert not hasattr(model.posterior_, "models")


def test_candidates_that_rows_of_the_search_do_not_tell_apart_are_averaged():
    """Of more rows than the search reads as of fewer."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(1510, 2))
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + rng.standard_normal(1510)
    model = PLSRegressor(random_state=0).fit(X, y)
    states = model.hyperparameter_states_
    assert len(states) > 1
    assert_allclose(sum(state.weight for state in states), 1.0)
    posteriors = np.array([state.posterior for state in states])
    weights = np.array([state.weight for state in states])
    assert_allclose(np.diff(np.log(weights)), np.diff(posteriors), rtol=1e-9)
    assert {state.n_rows for state in states} == {1500}


def test_kernels_of_the_user_are_averaged_on_request():
    X, y = table(30)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    model = PLSRegressor(kernel, hyperparameters="average", random_state=0).fit(X, y)
    assert len(model.hyperparameter_states_) > 1
    assert all(
        np.all(state.kernel.bounds[:, 0] <= state.kernel.theta)
        for state in model.hyperparameter_states_
    )


@pytest.mark.parametrize(
    ("model", "n_targets", "n"),
    [
        (PLSRegressor(), 2, 20),
        (PLSRegressor(), 1, 1501),
        (PLSRegressor(likelihood=StudentT()), 1, 301),
        (PLSClassifier(), 1, 301),
        (PLSClassifier(init=np.zeros((20, 1, 100))), 1, 20),
    ],
    ids=["targets", "rows", "likelihood", "classes", "init"],
)
def test_averages_that_are_impossible_are_refused(model, n_targets, n):
    X, y = table(n)
    if n_targets == 2:
        y = np.column_stack((y, y**2))
    if isinstance(model, PLSClassifier):
        y = y > 0.0
    model.set_params(hyperparameters="average")
    with pytest.raises(ValueError, match=r'hyperparameters="average" (is for|has)'):
        model.fit(X, y)


def test_a_stated_prior_is_the_prior():
    X, y = table(30)
    # a prior that is sure of a short lengthscale
    length_scale = Prior(lognorm(0.01, scale=0.3))
    noise = Prior(halfnorm(scale=0.3))
    kernel = ConstantKernel(1.0, Prior(lognorm(1.0))) * RBF(1.0, length_scale)
    model = PLSRegressor(kernel + WhiteKernel(0.1, noise), random_state=0).fit(X, y)
    scales = [state.kernel.k2.length_scale for state in model.hyperparameter_states_]
    np.testing.assert_allclose(scales, 0.3, rtol=0.05)


@pytest.mark.usefixtures("every_state")
def test_the_function_is_covered_where_few_of_many_columns_matter():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 25))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = f + 0.3 * rng.standard_normal(300)
    model = PLSRegressor(random_state=0).fit(X[:80], y[:80])
    draws = model.sample_functions(200, random_state=0)(X[80:])
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    coverage = np.mean((low < f[80:]) & (f[80:] < high))
    assert coverage > 0.85


@pytest.mark.usefixtures("every_state")
def test_draws_of_the_decoupled_sampler_have_hyperparameters_of_their_own():
    X, y = table(20)
    sampler = DecoupledSampler(random_state=0).fit(X, y)
    draws = sampler.sample_functions(100, random_state=0)
    assert len(np.unique(draws.owner)) > 5
    # moments of the draws are those of the mixture
    X_new = np.linspace(-4.0, 4.0, 9)[:, np.newaxis]
    draws = sampler.sample_functions(2000, random_state=1)(X_new)
    mean, std = sampler.estimator_.predict(X_new, return_std=True, include_noise=False)
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(2000))
    assert np.max(np.abs(z)) < 4.5


@pytest.mark.usefixtures("every_state")
def test_the_population_finds_what_searches_miss():
    # two columns of eight matter, and only together: from long lengthscales, or from
    # those of the kernel, a search ends ten nats below the largest mode
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 8))
    y = np.sin(2.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])
    y += 0.05 * rng.standard_normal(30)
    amplitude = Prior(lognorm(1.5, scale=np.e))
    length_scale = Prior(lognorm(np.sqrt(3.0), scale=4.0 * np.sqrt(8.0)))
    noise = Prior(lognorm(2.0, scale=np.exp(-2.0)))
    kernel = ConstantKernel(1.0, amplitude) * RBF(np.ones(8), length_scale)
    kernel += WhiteKernel(0.1, noise)
    chosen = PLSRegressor(kernel, hyperparameters="maximise", random_state=0).fit(X, y)
    evidences = [
        PLSRegressor(kernel, random_state=seed).fit(X, y).log_evidence_
        for seed in range(4)
    ]
    assert max(evidences) > chosen.log_evidence_ + 5.0


# ---- Posteriors that are hard to reach -----------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(200, 5), (160, 1), (60, 3)])
def test_a_linear_function_with_hardly_any_noise(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = 3.0 * X.sum(axis=1) + 0.01 * rng.standard_normal(n)
    model = PLSRegressor(random_state=0).fit(X, y)
    X_new = rng.standard_normal((50, d))
    errors = model.predict(X_new) - 3.0 * X_new.sum(axis=1)
    assert np.sqrt(np.mean(errors**2)) < 0.02
    assert "linear trend" in model.hyperparameter_states_[0].name


@pytest.mark.usefixtures("every_state")
@pytest.mark.parametrize("n", [40, 160])
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_a_posterior_that_ends_at_bounds(n):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 12))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    length_scale = Prior(uniform(0.5, 2.0))
    kernel = ConstantKernel(1.0, Prior(lognorm(1.0))) * RBF(np.ones(12), length_scale)
    states = PLSRegressor(kernel, random_state=0).fit(X, y).hyperparameter_states_
    scales = np.array([state.kernel.k2.length_scale for state in states])
    assert len(states) > 20
    assert np.all((scales >= 0.5) & (scales <= 2.5))
    # the first column matters: it is not constant
    weights = [state.weight for state in states]
    assert weights @ scales[:, 0] < np.min(weights @ scales[:, 1:])


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(1.0) * RBF(np.ones(8), (0.5, 2.0)),
        RBF(1e-3, (1e-3, 1.2e-3)),
        ConstantKernel(1.0, (0.9, 1.1)) * RBF(1.0, (0.9, 1.1)) + WhiteKernel(0.1),
        ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed"),
    ],
    ids=["short", "tiny", "narrow", "fixed"],
)
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
def test_narrow_bounds_of_a_kernel_of_the_user(kernel):
    X, y = table(30, 8)
    model = PLSRegressor(kernel, hyperparameters="average", random_state=0).fit(X, y)
    assert model.hyperparameter_states_
    for state in model.hyperparameter_states_:
        low, high = state.kernel.bounds.T.reshape(2, -1)
        assert np.all(low - 1e-9 <= state.kernel.theta)
        assert np.all(state.kernel.theta <= high + 1e-9)


@pytest.mark.parametrize(("n_categories", "n_numbers"), [(10, 0), (8, 4), (30, 0)])
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_many_columns_of_categories(n_categories, n_numbers):
    rng = np.random.default_rng(0)
    columns = {
        f"c{i}": pd.Categorical(rng.choice([*"xyz"], 60)) for i in range(n_categories)
    }
    columns |= {f"x{i}": rng.standard_normal(60) for i in range(n_numbers)}
    frame = pd.DataFrame(columns)
    f = 3.0 * (frame["c0"] == "x").to_numpy()
    y = f + 0.3 * rng.standard_normal(60)
    new_frame = frame.assign(
        **{
            name: frame[name].to_numpy()[rng.permutation(60)]
            for name in columns
            if name != "c0"
        }
    ).astype(frame.dtypes.to_dict())
    averaged = PLSRegressor(random_state=0).fit(frame, y)
    assert len(averaged.hyperparameter_states_) > 1
    chosen = PLSRegressor(hyperparameters="maximise", random_state=0).fit(frame, y)
    for model in (averaged, chosen):
        # columns without an effect are found to have none
        assert model.score(new_frame, f) > 0.9


@pytest.mark.parametrize("n", [60, 160])
def test_processes_of_another_backend_draw_the_same_states(n):
    X, y = table(n, 2)
    first = PLSRegressor(random_state=0).fit(X, y)
    with parallel_config("loky", n_jobs=2):
        second = PLSRegressor(random_state=0).fit(X, y)
    assert np.array_equal(first.predict(X), second.predict(X))


@pytest.mark.usefixtures("every_state")
def test_a_state_of_some_noise_stays_beside_functions_without():
    """Rows in error are rare, and functions without noise leave them no density."""
    length_scales = [4.0, 2.0, 1.0, 0.3]
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4))
    K = 0.5 * Matern(length_scales, nu=1.5)(X) + 1e-10 * np.eye(300)
    y = np.linalg.cholesky(K) @ rng.normal(size=300) + X @ np.full(4, 0.27)
    model = PLSRegressor(random_state=0).fit(X[:200], y[:200])
    *states, noisy = model.hyperparameter_states_
    weights = [state.weight for state in model.hyperparameter_states_]
    assert_allclose(sum(weights), 1.0)
    assert 0.0 < noisy.weight < 0.5
    # of the largest mode, whose figures all draws have
    odds = np.exp(50.0 / 250.0 * (noisy.posterior - states[0].posterior))
    assert_allclose(noisy.weight, odds / (1.0 + odds))
    noise_shares = [float(state.likelihood.variance(0.0)) for state in states]
    assert float(noisy.likelihood.variance(0.0)) > np.median(noise_shares)


@pytest.mark.usefixtures("every_state")
def test_rows_in_error_keep_a_density_where_functions_without_noise_are_certain():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(210, 4))
    K = 0.5 * Matern(3.0, nu=2.5)(X) + 1e-10 * np.eye(210)
    y = np.linalg.cholesky(K) @ rng.normal(size=210)
    model = PLSRegressor(random_state=0).fit(X[:200], y[:200])
    weight = model.hyperparameter_states_[-1].weight
    assert 0.0 < weight < 1e-2
    # at a row that it has seen: no standard deviation, and no mean, that users see
    mean, std = model.predict(X[:200], return_std=True)
    assert_allclose(mean, y[:200], atol=0.01 * y.std())
    assert std.max() < 0.05 * y.std()
    in_error = y[:200] + y.std()
    distribution = model.predict_dist(X[:200])
    assert distribution.log_density(in_error).min() > np.log(weight) - 60.0
