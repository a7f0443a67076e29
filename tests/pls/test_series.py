"""Series by state space: exact regression of one column, and what continues it."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from skgpx import PLSClassifier, PLSRegressor, sample_functions
from skgpx._hyperparameters import VariationalEvidence, _process_evidence
from skgpx._hyperparameters._evidence import ExactEvidence
from skgpx._latent import LatentModel, SeriesModel
from skgpx._shell.validation import canonical_rows
from skgpx.exceptions import FitWarning
from skgpx.kernels import Columns, Linear
from skgpx.likelihoods import (
    Bernoulli,
    Gamma,
    Gaussian,
    Poisson,
    StudentT,
    Tobit,
)

LARGEST_Z = 4.5
N = 400
RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 20.0, (N, 1))
X[30:40] = X[20:30]
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(N)
WEIGHTS = RNG.integers(1, 4, N)
NEW = np.concatenate((RNG.uniform(-2.0, 22.0, (40, 1)), X[:5]))
NOISE = 0.09

KERNEL = 2.0 * Matern(1.3, nu=1.5)
SUM = (
    1.1 * Matern(3.0, nu=2.5) * ExpSineSquared(0.7, 2.0)
    + 0.3 * Matern(0.5, nu=1.5)
    + Linear(0.4, centre=5.0)
    + ConstantKernel(2.0)
)
KERNELS = {
    "1/2": Matern(1.3, nu=0.5),
    "3/2": KERNEL,
    "5/2": 0.5 * Matern(2.0, nu=2.5),
    "7/2": Matern(2.0, nu=3.5),
    "sum": SUM,
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def fixed(kernel=KERNEL, likelihood=None, **settings):
    return PLSRegressor(
        kernel,
        likelihood=likelihood or Gaussian(NOISE),
        optimizer=None,
        normalize_y=False,
        random_state=0,
        **settings,
    )


def exact(kernel=KERNEL, X=X, y=Y, noise=NOISE):
    return GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)


def moments(model, X=NEW):
    return model.predict(X, return_std=True)


@each_kernel
def test_exact_regression(kernel):
    model = fixed(kernel).fit(X, Y)
    dense = exact(kernel)
    assert isinstance(model.posterior_, SeriesModel)
    assert model.inducing_points_.shape == (0, 1)
    # a season leaves 1e-7 of its variance out
    mean, covariance = dense.predict(NEW, return_cov=True)
    of_y = covariance + NOISE * np.eye(len(NEW))
    assert_allclose(model.predict(NEW, return_cov=True)[1], of_y, atol=1e-6)
    assert_allclose(moments(model), (mean, np.sqrt(np.diag(of_y))), atol=2e-6)
    value = dense.log_marginal_likelihood_value_
    assert_allclose(model.log_evidence_, value, rtol=1e-7)


def pair_scores(draws, mean, covariance):
    """z-scores of means and covariances of normal draws (p, s)."""
    s = draws.shape[1]
    variance = np.diag(covariance)
    first = (draws.mean(axis=1) - mean) / np.sqrt(variance / s)
    spread = np.sqrt((covariance**2 + np.outer(variance, variance)) / s)
    return np.concatenate((first, ((np.cov(draws) - covariance) / spread).ravel()))


@each_kernel
def test_draws(kernel):
    model = fixed(kernel).fit(X, Y)
    n_draws = 200 if kernel is SUM else 2000
    draws = model.sample_functions(n_draws, random_state=1)
    values = draws(NEW)
    mean, covariance = exact(kernel).predict(NEW, return_cov=True)
    assert np.abs(pair_scores(values, mean, covariance)).max() < LARGEST_Z
    assert_array_equal(draws(NEW[::-1])[::-1], values)
    # given three more values
    conditioned = draws.condition(NEW[:3], [1.0, -1.0, 0.5], 1e-2, random_state=0)
    dense = exact(
        kernel,
        np.concatenate((X, NEW[:3])),
        np.append(Y, [1.0, -1.0, 0.5]),
        np.append(np.full(N, NOISE), np.full(3, 1e-2)),
    )
    mean, covariance = dense.predict(NEW, return_cov=True)
    scores = pair_scores(conditioned(NEW), mean, covariance)
    assert np.abs(scores).max() < LARGEST_Z


@pytest.mark.parametrize("name", ["3/2", "5/2", "7/2", "sum"])
def test_slopes_of_draws(name):
    draws = fixed(KERNELS[name]).fit(X, Y).sample_functions(3, random_state=1)
    values, slopes = draws.value_and_grad(NEW[:40])
    assert_allclose(values, draws(NEW[:40]), atol=1e-10)
    h = 1e-6
    differences = (draws(NEW[:40] + h) - draws(NEW[:40] - h)) / (2.0 * h)
    assert_allclose(slopes[..., 0], differences, atol=1e-6)


def test_rows_in_any_order():
    model = fixed().fit(X, Y)
    order = np.random.default_rng(1).permutation(N)
    again = fixed().fit(X[order], Y[order])
    assert_array_equal(moments(again), moments(model))
    for places in (NEW, X):
        order = np.random.default_rng(2).permutation(len(places))
        mean, std = moments(model, places)
        assert_array_equal(moments(model, places[order]), (mean[order], std[order]))


def test_weights_are_repeated_rows():
    weighted = fixed().fit(X, Y, WEIGHTS)
    repeated = fixed().fit(np.repeat(X, WEIGHTS, axis=0), np.repeat(Y, WEIGHTS))
    assert_allclose(moments(weighted), moments(repeated))
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_)


def test_noise_of_each_row():
    variance = np.random.default_rng(3).uniform(0.01, 0.5, N)
    model = PLSRegressor(KERNEL, optimizer=None, normalize_y=False)
    model.fit(X, Y, noise_variance=variance)
    assert isinstance(model.posterior_, SeriesModel)
    dense = exact(noise=variance)
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    dense_mean, dense_std = dense.predict(NEW, return_std=True)
    assert_allclose(mean, dense_mean, atol=1e-5)
    assert_allclose(std, dense_std, rtol=1e-4)
    assert_allclose(
        model.log_evidence_, dense.log_marginal_likelihood_value_, rtol=1e-6
    )


def test_missing_values_of_a_target():
    targets = np.column_stack((Y, np.cos(X[:, 0])))
    is_missing = np.random.default_rng(4).random(N) < 0.2
    targets[is_missing, 0] = np.nan
    model = fixed().fit(X, targets)
    assert isinstance(model.posterior_, SeriesModel)
    mean, std = moments(model)
    assert std.shape == mean.shape == (len(NEW), 2)
    for target, rows in enumerate((~is_missing, np.full(N, True))):
        dense = exact(X=X[rows], y=targets[rows, target], noise=NOISE)
        assert_allclose(mean[:, target], dense.predict(NEW), atol=1e-6)


def test_noise_of_next_to_nothing():
    times = np.linspace(0.0, 20.0, N)[:, np.newaxis]
    y = np.sin(times[:, 0])
    model = fixed(likelihood=Gaussian(1e-10)).fit(times, y)
    assert_allclose(model.predict(times), y, atol=1e-8)
    _, std = model.predict(times, return_std=True, include_noise=False)
    assert std.max() < 1.001e-5
    middle = times[:-1] + 0.02
    dense = exact(X=times, y=y, noise=1e-10)
    assert_allclose(model.predict(middle), dense.predict(middle), atol=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_of_time_do_not_matter(unit):
    model = fixed().fit(X, Y)
    kernel = 2.0 * Matern(1.3 * unit, nu=1.5, length_scale_bounds=(1e-12, 1e12))
    other = fixed(kernel).fit(unit * X, Y)
    assert_allclose(moments(other, unit * NEW), moments(model), rtol=1e-6)
    assert_allclose(other.log_evidence_, model.log_evidence_, rtol=1e-9)


def test_rows_at_one_time():
    ones = np.ones((N, 1))
    model = fixed().fit(ones, Y)
    dense = exact(X=ones)
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    dense_mean, dense_std = dense.predict(NEW, return_std=True)
    assert_allclose(mean, dense_mean, atol=1e-6)
    assert_allclose(std, dense_std, atol=1e-6)


def test_other_kernels_keep_their_points():
    for kernel in (RBF(1.3), RBF(1.3) + Matern(nu=1.5)):
        model = fixed(kernel).fit(X, Y)
        assert not isinstance(model.posterior_, SeriesModel)
        assert len(model.inducing_points_)
    model = fixed(n_inducing=20).fit(X, Y)
    assert len(model.inducing_points_) == 20
    two_columns = fixed().fit(np.column_stack((X, X[::-1])), Y)
    assert not isinstance(two_columns.posterior_, SeriesModel)
    assert not isinstance(fixed().fit(X[:300], Y[:300]).posterior_, SeriesModel)


def test_a_default_search_finds_a_rough_series():
    rng = np.random.default_rng(5)
    times = np.sort(rng.uniform(0.0, 100.0, (2000, 1)), axis=0)
    steps = np.sqrt(np.diff(times[:, 0], prepend=0.0)) * rng.standard_normal(2000)
    model = PLSRegressor(random_state=0).fit(times, np.cumsum(steps))
    assert isinstance(model.posterior_, SeriesModel)
    assert "Matern" in repr(model.kernel_)


def test_the_best_family_of_a_noisy_series_is_trained_on_all_rows():
    rng = np.random.default_rng(5)
    times = np.sort(rng.uniform(0.0, 100.0, (3000, 1)), axis=0)
    steps = np.sqrt(np.diff(times[:, 0], prepend=0.0)) * rng.standard_normal(3000)
    y = np.cumsum(steps) + rng.standard_normal(3000)
    model = PLSRegressor(likelihood=Gaussian(), random_state=0).fit(times, y)
    assert model.report()["search"]["rows_searched"] == 3000
    # rough steps, a standard error of .03 of the noise of 1
    assert "nu=0.5" in repr(model.kernel_)
    assert abs(model.predict_dist(times).std().mean() - 1.0) < 0.2


# ---- Further rows, and what is kept --------------------------------------------------

ORDERS = {"sorted": np.argsort(X[:, 0]), "any": np.arange(N)}
PARTS = [slice(320, 345), slice(345, 350), slice(350, N)]
FIRST = slice(0, 320)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("weights", [np.ones(N), WEIGHTS], ids=["", "weights"])
def test_parts_are_one_fit(order, weights):
    rows, y, weights = X[order], Y[order], weights[order]
    whole = fixed().fit(rows, y, weights)
    first = fixed().fit(rows[FIRST], y[FIRST], weights[FIRST])
    evidence = first.log_evidence_
    parts = copy.deepcopy(first)
    copies = []
    for part in PARTS:
        chunk = (rows[part], y[part], weights[part])
        parts.partial_fit(*chunk)
        copies.append(copy.deepcopy(first).partial_fit(*chunk))
    separate = [
        fixed().fit(rows[part], y[part], weights[part]) for part in (FIRST, FIRST)
    ]
    for model in (
        parts,
        sum(copies),
        sum(copies[::-1]),
        copies[2] + copies[0] + copies[1],
    ):
        assert_allclose(moments(model), moments(whole), rtol=1e-9)
        assert_allclose(model.log_evidence_, whole.log_evidence_, rtol=1e-9)
    assert parts.report()["model"]["rows"] == N
    assert first.log_evidence_ == evidence
    # equal first rows count once
    assert_allclose(moments(sum(separate)), moments(first), rtol=1e-9)


def test_pickles():
    model = fixed(SUM).fit(X, Y)
    before = moments(model)
    draws = model.sample_functions(3, random_state=0)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(moments(again), before)
    assert again.log_evidence_ == model.log_evidence_
    assert_array_equal(again.sample_functions(3, random_state=0)(NEW), draws(NEW))
    assert_array_equal(pickle.loads(pickle.dumps(draws))(NEW), draws(NEW))


def test_report():
    model = fixed().fit(X, Y)
    report = model.report(NEW)
    assert report["basis"] == {"kind": "state space", "states": 2}
    inference = report["inference"]
    # predictions from earlier rows, by definition
    order = np.argsort(X[:, 0], kind="stable")
    K = KERNEL(X[order]) + NOISE * np.eye(N)
    errors = np.linalg.solve(np.linalg.cholesky(K), Y[order])
    assert_allclose(inference["one_step_error_in_stds"], np.sqrt(np.mean(errors**2)))
    density = exact().log_marginal_likelihood_value_ / N
    assert_allclose(inference["one_step_log_density_nats"], density)
    assert "state space" in repr(report)
    scaled = clone(model).set_params(normalize_y=True).fit(X, 10.0 * Y).report()
    assert "one_step_log_density_nats" in scaled["inference"]


# ---- Other likelihoods ---------------------------------------------------------------


def targets_of(likelihood, f, rng):
    if isinstance(likelihood, Poisson):
        return rng.poisson(np.exp(f)).astype(np.float64)
    if isinstance(likelihood, StudentT):
        return f + 0.2 * rng.standard_t(3, len(f))
    return (rng.random(len(f)) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(np.float64)


@pytest.mark.parametrize(
    "likelihood", [Poisson("exp"), StudentT(scale=0.2), Bernoulli()]
)
def test_closest_normal_distribution(likelihood, monkeypatch):
    rng = np.random.default_rng(6)
    times = np.sort(rng.uniform(0.0, 20.0, 500))[:, np.newaxis]
    y = targets_of(likelihood, np.sin(times[:, 0]), rng)
    monkeypatch.setattr("skgpx._pls._base.ABUNDANT_ROWS", 400)
    if isinstance(likelihood, Bernoulli):
        model = PLSClassifier(KERNEL, likelihood=likelihood, optimizer=None)
    else:
        model = fixed(likelihood=likelihood)
    model.fit(times, y)
    posterior = model.posterior_
    assert isinstance(posterior, SeriesModel)
    # the same by matrices
    monkeypatch.setattr(_process_evidence, "regression_evidence", ExactEvidence)
    rows = canonical_rows(times, y, np.ones(500))
    dense = VariationalEvidence(rows, posterior.basis.kernel, model.likelihood_)
    bound, z, noise = dense.working_responses()
    regression = exact(posterior.basis.kernel, rows.X, z, noise)
    mean, std = regression.predict(NEW, return_std=True)
    means, variances = posterior.marginals(NEW).moments()
    prior_mean = 0.0 if posterior.mean is None else posterior.mean(NEW)[:, 0]
    assert_allclose((means[:, 0] - prior_mean) / std, mean / std, atol=1e-3)
    assert_allclose(np.sqrt(variances[:, 0]) / std, 1.0, atol=1e-3)
    assert_allclose(model.log_evidence_, bound, atol=1e-2)


@pytest.mark.parametrize("likelihood", [Poisson("exp"), StudentT(scale=0.2)])
def test_many_counts(likelihood):
    rng = np.random.default_rng(7)
    times = np.sort(rng.uniform(0.0, 60.0, 4600))[:, np.newaxis]
    f = np.sin(times[:, 0])
    y = targets_of(likelihood, f, rng)
    model = fixed(likelihood=likelihood).fit(times, y)
    assert isinstance(model.posterior_, SeriesModel)
    mean, variance = model.posterior_.marginals(times).moments()
    z = (mean[:, 0] - f) / np.sqrt(variance[:, 0])
    assert np.sqrt(np.mean(z**2)) < 1.5
    low, high = model.predict_interval(times, 0.9).T
    assert np.mean((low <= y) & (y <= high)) > 0.87
    assert "one_step_error_in_stds" not in model.report()["inference"]


def test_censored_rows():
    rng = np.random.default_rng(3)
    times = np.sort(rng.uniform(0.0, 60.0, 4600))[:, np.newaxis]
    f = np.sin(times[:, 0])
    y = np.minimum(f + 0.2 * rng.standard_normal(4600), 0.5)
    model = fixed(likelihood=Tobit(scale=0.2)).fit(times, y, censoring=y == 0.5)
    assert isinstance(model.posterior_, SeriesModel)
    mean, variance = model.posterior_.marginals(times).moments()
    z = (mean[:, 0] - f) / np.sqrt(variance[:, 0])
    assert np.sqrt(np.mean(z**2)) < 1.5
    # rows above the bound say that f is larger
    assert np.all(mean[f > 0.9, 0] > 0.6)


@pytest.mark.parametrize(
    "settings",
    [{"inducing": "random"}, {"n_inducing": 40}, {"n_neighbors": 0}],
    ids=lambda settings: next(iter(settings)),
)
def test_points_that_are_asked_for(settings):
    model = fixed(**settings).fit(X, Y)
    assert isinstance(model.posterior_, LatentModel)
    assert len(model.inducing_points_) > 0


def test_noise_of_targets():
    rng = np.random.default_rng(4)
    times = np.linspace(0.0, 1300.0, 13_000)[:, np.newaxis]
    f = np.column_stack((np.sin(times[:, 0]), np.cos(times[:, 0])))
    y = f + 0.3 * rng.standard_normal(f.shape)
    # only the last rows have a value
    y[:12_000, 1] = np.nan
    model = PLSRegressor(KERNEL, random_state=0).fit(times, y)
    assert_allclose(model.noise_variance_, 0.09, rtol=0.1)
    chosen = slice(12_000, 12_500)
    weights = np.full(500, 9.0)
    weighted = clone(model).fit(times[chosen], y[chosen], weights)
    plain = clone(model).fit(times[chosen], y[chosen])
    assert_allclose(weighted.noise_variance_, plain.noise_variance_, rtol=1e-6)


def test_seasons_of_many_harmonics_are_not_cut():
    rng = np.random.default_rng(5)
    times = np.sort(rng.uniform(0.0, 20.0, 400))[:, np.newaxis]
    sharp = ExpSineSquared(0.12, 1.0)
    L = np.linalg.cholesky((Matern(50.0, nu=1.5) * sharp)(times) + 1e-8 * np.eye(400))
    y = L @ rng.standard_normal(400) + 0.05 * rng.standard_normal(400)
    ends = []
    for start in (0.5, 0.15):
        season = ExpSineSquared(start, 1.0, length_scale_bounds=(0.05, 5.0))
        kernel = Matern(50.0, nu=1.5) * season + WhiteKernel(0.01)
        model = PLSRegressor(kernel, hyperparameters="maximise", random_state=0)
        ends.append(model.fit(times, y).log_evidence_)
    assert abs(ends[0] - ends[1]) < 1.0


def periods(model):
    parameters = model.kernel_.get_params().items()
    return [value for name, value in parameters if name.endswith("__periodicity")]


@pytest.mark.parametrize("likelihood", [None, Poisson()], ids=["normal", "counts"])
def test_a_season_of_many_rows_is_found(likelihood):
    rng = np.random.default_rng(6)
    times = np.linspace(0.0, 10.0, 4600)
    f = 0.5 + 0.8 * np.sin(times) + 0.6 * np.sin(2.0 * np.pi * times / 0.2)
    y = rng.poisson(np.exp(f)) if likelihood else f + 0.5 * rng.standard_normal(4600)
    model = PLSRegressor(likelihood=likelihood, random_state=0)
    model.fit(times[:, np.newaxis], y)
    assert isinstance(model.posterior_, SeriesModel)
    assert periods(model) == pytest.approx([0.2], rel=0.01)
    period = model.report()["search"]["period"]
    assert abs(period["mean"] - 0.2) < LARGEST_Z * period["std"] < 0.005


OBSERVATIONS = {
    "counts": (Poisson(), lambda rng, f: rng.poisson(np.exp(f))),
    "amounts": (Gamma(), lambda rng, f: rng.gamma(4.0, 0.25 * np.exp(f))),
    "outliers": (None, lambda rng, f: f + 0.2 * rng.standard_t(2.0, len(f))),
    "classes": (None, lambda rng, f: rng.logistic(size=len(f)) < 3.0 * (f - 1.0)),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_a_season_of_few_rows_is_found_under_every_likelihood(name):
    likelihood, draw = OBSERVATIONS[name]
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0.0, 8.5, 170))
    f = 1.0 + 0.8 * np.sin(2.0 * np.pi * 1.7 * times) + 0.5 * np.sin(times / 2.0)
    estimator = (
        PLSClassifier() if name == "classes" else PLSRegressor(likelihood=likelihood)
    )
    estimator.set_params(random_state=0)
    model = estimator.fit(times[:, np.newaxis], draw(rng, f))
    assert periods(model) == pytest.approx([1.0 / 1.7], rel=0.03)
    if name == "outliers":
        # with the season, too, tails are more probable than normal noise
        assert isinstance(model.likelihood_, StudentT)


def test_the_posterior_of_a_period_is_that_of_the_evidence():
    rng = np.random.default_rng(3)
    times = np.sort(rng.uniform(0.0, 20.0, 400))[:, np.newaxis]
    y = np.sin(2.0 * np.pi * times[:, 0] / 1.1) + 0.5 * rng.standard_normal(400)
    season = ExpSineSquared(1.0, 1.1, length_scale_bounds=(0.5, 5.0))
    kernel = Matern(50.0, nu=1.5) * season + WhiteKernel(0.2)
    settings = {"hyperparameters": "maximise", "normalize_y": False}
    model = PLSRegressor(kernel, random_state=0, **settings).fit(times, y)
    period = model.report()["search"]["period"]
    assert periods(model) == pytest.approx([period["mean"]])
    name = next(n for n in model.kernel_.get_params() if n.endswith("__periodicity"))

    def evidence(deviation):
        value = period["mean"] + deviation * period["std"]
        fixed_kernel = clone(model.kernel_).set_params(**{name: value})
        fit = PLSRegressor(
            fixed_kernel, likelihood=model.likelihood_, optimizer=None, **settings
        )
        return fit.fit(times, y).log_evidence_

    below, mode, above = (evidence(deviation) for deviation in (-0.5, 0.0, 0.5))
    # a normal density, half a standard deviation from its mean
    assert_allclose([mode - below, mode - above], 0.125, rtol=0.15)
    assert abs(below - above) < 0.01


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_one_time_has_no_period():
    kernel = RBF(5.0) * ExpSineSquared(1.0, 1.1) + WhiteKernel(0.2)
    y = np.random.default_rng(0).standard_normal(50)
    model = PLSRegressor(kernel, random_state=0).fit(np.zeros((50, 1)), y)
    assert "period" not in model.report()["search"]


@pytest.mark.usefixtures("every_state")
def test_states_that_are_averaged_have_periods():
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0.0, 20.0, 100))[:, np.newaxis]
    y = np.sin(2.0 * np.pi * times[:, 0] / 1.1) + 0.5 * rng.standard_normal(100)
    model = PLSRegressor(random_state=0).fit(times, y)
    states = [s for s in model.hyperparameter_states_ if len(s.periods)]
    weights = np.array([state.weight for state in states])
    values = np.array([state.periods[0] for state in states])
    period = model.report()["search"]["period"]
    mean = np.average(values, weights=weights)
    assert_allclose(period["mean"], mean)
    std = np.sqrt(np.average((values - mean) ** 2, weights=weights))
    assert_allclose(period["std"], std)
    assert abs(mean - 1.1) < LARGEST_Z * std < 0.2


@pytest.mark.parametrize("n", [300, 4600])
@pytest.mark.parametrize("seed", [0, 7])
def test_no_season_in_counts_without_a_season(seed, n):
    rng = np.random.default_rng(1000 + seed)
    times = np.linspace(0.0, 10.0, n)
    rate = np.exp(0.5 + 0.7 * np.sin(2.0 * times) + 0.3 * np.cos(5.0 * times))
    model = PLSRegressor(likelihood=Poisson(), random_state=0)
    model.fit(times[:, np.newaxis], rng.poisson(rate))
    assert periods(model) == []


@pytest.mark.parametrize("n", [60, 150])
def test_counts_that_vary_more_than_poisson_ones_have_no_season(n):
    rng = np.random.default_rng(1)
    times = np.arange(float(n))[:, np.newaxis]
    y = rng.negative_binomial(2.0, 0.2, n).astype(np.float64)
    with pytest.warns(FitWarning, match="overdispersed"):
        model = PLSRegressor(likelihood=Poisson(), random_state=0).fit(times, y)
    assert periods(model) == []


def test_condition_without_noise():
    model = fixed().fit(X, Y).posterior_
    place = np.array([[3.3]])
    for _ in range(2):
        model = model.condition(place, np.ones((1, 1)), np.zeros(1))
    mean, variance = model.marginals(place).moments()
    assert_allclose(mean, 1.0, atol=1e-6)
    assert np.all(np.isfinite(variance))


def test_a_column_inside_of_a_column_is_drawn_once():
    nested = Columns(Columns(1.0 * Matern(1.3, nu=1.5), [0]), [0])
    draws = sample_functions(fixed(nested).fit(X, Y), 2000, random_state=0)
    # far from the rows
    assert_allclose(np.var(draws(np.array([[500.0]]))), 1.0, rtol=0.15)


def test_selected_draws_are_the_same_functions():
    draws = sample_functions(fixed().fit(X, Y), 5, random_state=0)
    assert_array_equal(draws[[3]](NEW), draws(NEW)[:, [3]])
