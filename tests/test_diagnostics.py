"""Findings: none of noise, whatever the design, and each of what it is there for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx._numerics.mixture import LatentMixture
from skgpx._shell.validation import Rows, canonical_rows
from skgpx.diagnostics import (
    at_bounds,
    check_residuals,
    heavy_tails,
    overdispersion,
    residual_autocorrelation,
    varying_noise,
)
from skgpx.kernels import CategoricalKernel
from skgpx.likelihoods import (
    Beta,
    Binomial,
    Gaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning"),
]
REGRESSORS = [PLSRegressor, ExactGPRegressor, GWIRegressor, SteinRFFRegressor]


def checks(model):
    return [finding.check for finding in model.findings_]


# ---- Equal rows ----------------------------------------------------------------------


def of_one_state(estimator):
    """The estimator with seed 0, which chooses its hyperparameters."""
    model = estimator(random_state=0)
    if "hyperparameters" in model.get_params():
        model.set_params(hyperparameters="maximise")
    if estimator is SteinRFFRegressor:
        model.set_params(n_frequencies=30, max_iter=10)
    return model


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize(
    "estimator",
    [*REGRESSORS, SpectralVGPRegressor, DecoupledSampler],
)
def test_equal_rows_count_once_in_the_search_and_each_in_the_posterior(
    estimator, n_targets
):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    Y = np.sin(2.0 * X + np.arange(n_targets)) + 0.3 * rng.normal(size=(60, n_targets))
    Y = np.squeeze(Y)
    X_twice = np.concatenate((X, X))
    Y_twice = np.concatenate((Y, Y))
    distinct = of_one_state(estimator).fit(X, Y)
    copied = of_one_state(estimator).fit(X_twice, Y_twice)
    assert "equal rows" not in checks(distinct)
    assert "equal rows" in checks(copied)
    # four are few
    few = of_one_state(estimator).fit(X_twice[:64], Y_twice[:64])
    assert "equal rows" not in checks(few)
    if estimator is DecoupledSampler:
        return
    weighted = of_one_state(estimator).fit(X, Y, np.full(60, 2.0))
    assert "equal rows" not in checks(weighted)
    for model in (copied, weighted):
        assert model.kernel_ == distinct.kernel_
        # noises of several targets follow the search, and are those of all rows
        if n_targets == 1:
            assert_allclose(model.noise_variance_, distinct.noise_variance_)
    std = [model.predict(X[:10], return_std=True)[1] for model in (copied, distinct)]
    assert np.all(std[0] < std[1])


# ---- Neighbours ----------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
def test_residuals_of_neighbours(d):
    rng = np.random.default_rng(d)
    X = rng.uniform(size=(400, d))
    noise = rng.standard_normal(400)
    missed = np.sin(20.0 * X[:, 0]) + noise
    ones = np.ones(400)
    assert residual_autocorrelation(X, noise, ones, float(np.var(noise))) is None
    found = residual_autocorrelation(X, missed, ones, float(np.var(missed)))
    assert "along column 0" in found.message


# Columns as they come in tables: levels, grids, lags, rounded numbers, and integers
# beside continuous columns.
REPEATED = {
    "two levels": lambda rng, n: rng.integers(0, 2, (n, 1)),
    "101 levels": lambda rng, n: rng.integers(0, 101, (n, 1)),
    "a grid": lambda rng, n: rng.integers(0, 5, (n, 2)),
    "rounded": lambda rng, n: rng.normal(size=(n, 2)).round(1),
    "one of integers": lambda rng, n: np.column_stack(
        (rng.integers(0, 10, n), rng.normal(size=n))
    ),
    "lags": lambda rng, n: np.lib.stride_tricks.sliding_window_view(
        rng.integers(0, 6, n + 2), 3
    ),
}


@pytest.mark.parametrize("design", REPEATED)
def test_residuals_at_inputs_that_repeat(design):
    """Rows come in the order of (X, y): of noise nothing is found, a step is."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = (150, 1000)[seed % 2]
        X = np.asarray(REPEATED[design](rng, n), dtype=np.float64)
        for noise in (rng.normal(size=n), rng.poisson(2.0, n), rng.standard_t(3, n)):
            rows = canonical_rows(X, noise.astype(np.float64), np.ones(n))
            residuals = rows.y - np.average(rows.y, weights=rows.weights)
            variance = float(np.average(residuals**2, weights=rows.weights))
            how = rows.X, residuals, rows.weights, variance
            assert residual_autocorrelation(*how) is None
        missed = 2.0 * np.sign(X[:, 0] - X[:, 0].mean()) + rng.normal(size=n)
        rows = canonical_rows(X, missed - missed.mean(), np.ones(n))
        how = rows.X, rows.y, rows.weights, float(np.var(missed))
        assert residual_autocorrelation(*how) is not None


@pytest.mark.parametrize("estimator", [*REGRESSORS, SpectralVGPRegressor])
def test_noise_at_ten_levels(estimator):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, 150)[:, np.newaxis]
    model = estimator(random_state=0).fit(X, rng.normal(size=150))
    assert set(checks(model)) <= {"no signal"}


@pytest.mark.parametrize("make", [Gaussian, StudentT])
def test_sizes_of_residuals_in_thirds(make):
    rng = np.random.default_rng(0)
    X, z = rng.uniform(size=(300, 3)), rng.standard_normal(300)
    mean, tails = X[:, 0], rng.standard_cauchy(300)
    assert varying_noise(X, mean, z, make()) is None
    assert varying_noise(X, mean, tails, make()) is None
    assert varying_noise(X[:40], mean[:40], (z * X[:, 1])[:40], make()) is None
    found = varying_noise(X, mean, z * X[:, 1], make())
    assert "varies with column 1" in found.message
    assert "with its largest values, where intervals are too narrow" in found.message
    assert f"likelihood=Heteroscedastic{make.__name__}()" in found.message
    found = varying_noise(X[:, 1:], mean, z * np.exp(-3.0 * mean), make())
    assert "varies with the predicted mean" in found.message
    assert varying_noise(X, mean, z * X[:, 1], Poisson()) is None


@pytest.mark.parametrize("make", [Gaussian, StudentT])
def test_sizes_of_residuals_at_the_finest_scale(make):
    """Levels of a column of categories, and bursts of noise without a trend."""
    rng = np.random.default_rng(1)
    X = np.column_stack((rng.uniform(size=400), rng.integers(0, 10, 400)))
    z, mean = rng.standard_normal(400), X[:, 0]
    log_size = np.log([0.05, 0.15, 0.25])[X[:, 1].astype(int) % 3]
    bursts = np.where(np.sin(15.0 * X[:, 0]) > 0.0, 0.0, -1.5)
    for j, s in enumerate((bursts, log_size)):
        found = varying_noise(X, mean, z * np.exp(s), make())
        assert f"varies with column {j}" in found.message
        assert "at some of its values" in found.message
        # what a likelihood gains that knows the scale, without what is left in groups
        gain = 0.5 * np.log(np.mean(np.exp(2.0 * s))) - s.mean()
        assert abs(found.gain - gain) < 0.35 * gain


def test_the_finding_of_the_largest_gain_is_named():
    """Residuals of three levels of noise look like heavy tails, and are not."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 10, 300)
    X = np.column_stack((rng.uniform(0.0, 5.0, 300), group))
    noise = np.array([0.05, 0.15, 0.25])[group % 3] * rng.standard_normal(300)
    y = np.sin(X[:, 0]) + noise
    ones = np.ones(300)
    tails = heavy_tails(noise, ones, ones, Gaussian())
    model = ExactGPRegressor(random_state=0).fit(X, y)
    assert checks(model) == ["varying noise"]
    assert model.findings_[0].gain > tails.gain > 0.0


# ---- Tails ---------------------------------------------------------------------------


def test_tails_of_normal_residuals_are_not_heavy():
    ones = np.ones(5000)
    for n, fits in ((50, 300), (500, 100), (5000, 10)):
        for seed in range(fits):
            z = np.random.default_rng(seed).normal(size=n)
            assert heavy_tails(z, ones[:n], ones[:n], Gaussian()) is None


def test_the_gain_of_heavy_tails():
    """By the densities themselves, and only where residuals are mostly noise."""
    n = 2000
    rng = np.random.default_rng(0)
    z = rng.standard_t(4, n)
    ones = np.ones(n)
    gains = StudentT(scale=1.0).nll(z, 0.0) - Gaussian(2.0).nll(z, 0.0)
    message = heavy_tails(z, ones, ones, Gaussian()).message
    reported = float(message.split("gain about ")[1].split()[0])
    assert abs(reported + gains.mean()) < 3.0 * gains.std() / np.sqrt(n)
    assert heavy_tails(z, 0.3 * ones, ones, Gaussian()) is None
    assert heavy_tails(z, ones, ones, StudentT()) is None
    # repetitions are weights
    twice = heavy_tails(z, ones, 2.0 * ones, Gaussian())
    assert twice.message == message


@pytest.mark.parametrize(
    "estimator",
    [PLSRegressor, ExactGPRegressor, GWIRegressor, SpectralVGPRegressor],
)
def test_outliers_are_named_and_go_with_their_likelihood(estimator):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (200, 1))
    noise = np.where(rng.random(200) < 0.05, 2.0, 0.2) * rng.normal(size=200)
    y = np.sin(2.0 * X[:, 0]) + noise
    model = estimator(random_state=0)
    if estimator is PLSRegressor:
        assert model.fit(X, y).findings_ == ()
        assert isinstance(model.likelihood_, StudentT)
        model.set_params(likelihood=Gaussian())
    assert checks(model.fit(X, y)) == ["heavy tails"]


def test_noise_that_varies_is_not_heavy_tails():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (300, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.exp(X[:, 0]) * rng.normal(size=300)
    assert checks(PLSRegressor(random_state=0).fit(X, y)) == ["varying noise"]


# ---- Logarithms ----------------------------------------------------------------------


def growing(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(120) / 12.0
    season = 1.0 + 0.25 * np.sin(2.0 * np.pi * t) + 0.1 * np.cos(4.0 * np.pi * t)
    y = np.exp(0.12 * t) * season * np.exp(0.03 * rng.normal(size=120))
    return t[:, np.newaxis], y


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_a_season_that_grows_with_the_level(estimator):
    X, y = growing(0)
    model = estimator(random_state=0)
    learns = "likelihood" in model.get_params()
    if learns:
        # the default learns the logarithm
        assert estimator(random_state=0).fit(X, y).findings_ == ()
        normal = "gaussian" if estimator is GWIRegressor else Gaussian()
        model.set_params(likelihood=normal)
    # units do not matter, and the remedy is one
    assert checks(model.fit(X, 1e6 * y)) == ["multiplicative variation"]
    assert of_one_state(estimator).fit(X, np.log(y) + 10.0).findings_ == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_season_that_does_not_grow(seed):
    X, y = growing(seed)
    normal = of_one_state(PLSRegressor).set_params(likelihood=Gaussian())
    assert checks(normal.fit(X, y)) == ["multiplicative variation"]
    rng = np.random.default_rng(seed)
    t = X[:, 0]
    constant = 10.0 + t + np.sin(2.0 * np.pi * t) + 0.2 * rng.normal(size=120)
    assert of_one_state(PLSRegressor).fit(X, constant).findings_ == ()


@pytest.mark.parametrize("held_out", [True, False])
def test_residuals_are_checked_in_any_unit_and_not_where_noise_is_known(held_out):
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 10.0, 120)[:, np.newaxis]
    y = np.exp(np.sin(t[:, 0]) + 0.1 * rng.normal(size=120))
    unit = np.array([1.0, 1e3])
    rows = Rows(t, y[:, np.newaxis] * unit, np.ones(120))
    errors = 0.1 * rng.normal(size=(120, 1)) * unit

    def found(rows):
        return check_residuals(
            rows,
            errors,
            np.full((120, 2), 0.011) * unit**2,
            0.01 * unit**2,
            Gaussian(),
            RBF(1.0),
            unit,
            held_out=held_out,
            noise_is_free=False,
            other_noise=True,
        )

    first, second = filter(None, found(rows))
    assert first.check == "multiplicative variation, target 0"
    assert_allclose(first.gain, second.gain)
    assert not any(found(rows._replace(known=np.ones(120))))


# ---- Zeros ---------------------------------------------------------------------------


def test_zeros_of_another_kind():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (300, 1))
    counts = rng.poisson(8.0 + 3.0 * np.sin(X[:, 0]))
    dispersed = rng.poisson(counts * rng.gamma(1.5, 1.0 / 1.5, 300))
    inflated = counts * (rng.random(300) < 0.5)
    for likelihood, y, found in (
        (Poisson(), counts, []),
        (NegativeBinomial(), dispersed, []),
        (Poisson(), inflated, ["overdispersion"]),
        (NegativeBinomial(), inflated, ["excess zeros"]),
    ):
        model = PLSRegressor(likelihood=likelihood, random_state=0).fit(X, y)
        assert checks(model) == found
    observed = np.mean(inflated == 0)
    expected = np.mean(model.predict_dist(X).cdf(np.zeros(300)))
    message = model.findings_[0].message
    assert f"{100.0 * observed:.2g} % of the counts" in message
    assert f"{100.0 * expected:.2g} % are expected" in message


# ---- Counts, bounds ------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "d"), [(1.0, 2), (3.0, 2)])
def test_counts_that_a_function_could_follow_are_overdispersed(shape, d):
    """Fitted rates follow the noise: those that follow from other rows do not."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (300, d))
    rate = np.exp(1.0 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 1])
    model = PLSRegressor(likelihood=Poisson(), random_state=0)
    dispersed = rng.poisson(rate * rng.gamma(shape, 1.0 / shape, 300))
    assert checks(model.fit(X, dispersed)) == ["overdispersion"]
    assert "likelihood=NegativeBinomial()" in model.findings_[0].message
    assert checks(model.fit(X, rng.poisson(rate))) == []


def test_the_gain_of_negative_binomial_counts():
    """Of a known rate, by the densities themselves; exposures are known."""
    rng = np.random.default_rng(0)
    n = 2000
    exposure = rng.uniform(0.5, 4.0, n)
    f = rng.normal(1.0, 0.5, n)
    y = rng.poisson(exposure * np.exp(f) * rng.gamma(2.0, 0.5, n)).astype(float)
    poisson = Poisson("exp").prepare(y).at_rows(exposure)
    known = LatentMixture(f[:, None, None], np.full((n, 1, 1), 1e-8), np.ones(1))
    gains = poisson.row_nll(y, known.mean)[:, 0]
    gains -= NegativeBinomial(2.0).nll(y, f + np.log(exposure))
    found = overdispersion(y, np.ones(n), known, poisson)
    assert abs(found.gain - gains.mean()) < 3.0 * gains.std() / np.sqrt(n)
    y = rng.poisson(exposure * np.exp(f)).astype(float)
    assert overdispersion(y, np.ones(n), known, poisson) is None


TRIALS = np.random.default_rng(0).integers(5, 40, 200)


def successes(seed, correlation):
    """Numbers of TRIALS, whose outcomes in a row have this correlation."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (200, 1 + seed % 3))
    probability = expit(np.sin(2.0 * X[:, 0]) - 0.3)
    if correlation > 0.0:
        precision = 1.0 / correlation - 1.0
        probability = rng.beta(precision * probability, precision * (1.0 - probability))
    return X, rng.binomial(TRIALS, probability)


def test_successes_that_vary_more_than_binomially():
    model = PLSRegressor(likelihood=Binomial(), random_state=0)
    for seed in range(9):
        X, y = successes(seed, 0.0)
        assert checks(model.fit(X, y, exposure=TRIALS)) == []
    for seed in range(3):
        X, y = successes(seed, 0.1)
        assert checks(model.fit(X, y, exposure=TRIALS)) == ["overdispersion"]
    assert "likelihood=Beta() of the shares" in model.findings_[0].message
    # the remedies
    shares = (y + 0.5) / (TRIALS + 1.0)
    assert checks(PLSRegressor(likelihood=Beta(), random_state=0).fit(X, shares)) == []
    of_each_row = ConstantKernel(0.1) * Matern(0.001, "fixed")
    model.set_params(kernel=ConstantKernel() * RBF() + of_each_row)
    assert checks(model.fit(X, y, exposure=TRIALS)) == []


@pytest.mark.parametrize("likelihood", [Poisson("softplus"), Poisson(), Binomial()])
def test_counts_that_vary_more_have_the_same_mean(likelihood):
    """Densities sum to one, and are those of the likelihood at a large precision."""
    y = np.arange(400.0)
    likelihood = likelihood.at_rows(np.full(400, 399.0))
    f = np.full((400, 1, 1), 0.02)
    mean = likelihood.row_mean(f)[:, 0]
    for precision in (1.0, 30.0):
        density = np.exp(-likelihood.overdispersed_nll(y, mean / 10.0, precision))
        assert abs(density.sum() - 1.0) < 1e-3
    nll = likelihood.overdispersed_nll(y, mean, 1e9)
    assert_allclose(nll, likelihood.row_nll(y, f)[:, 0], rtol=1e-3)


@pytest.mark.parametrize("bounds", ["fixed", (1.0, 10.0)])
def test_a_kernel_that_is_given_may_be_too_smooth_for_counts(bounds):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 5.0, (60, 1)), axis=0)
    rough = np.linalg.cholesky(Matern(0.3)(X)) @ rng.normal(size=60)
    y = rng.poisson(np.exp(1.5 + rough))
    model = PLSRegressor(likelihood=Poisson(), random_state=0).fit(X, y)
    assert checks(model) == []
    model.set_params(kernel=ConstantKernel() * RBF(2.0, bounds)).fit(X, y)
    assert (
        "it may be too smooth: compare with kernel=None" in model.findings_[-1].message
    )


def test_correlations_of_zero_and_one_cannot_be_given_wider_bounds():
    """Categories without effect, or without relation, are no restriction of the fit."""
    kernel = CategoricalKernel(np.array([0.3, 1.0, 0.001]))
    assert at_bounds(kernel, True, False) is None
    assert at_bounds(kernel, False, False) is None
    narrow = CategoricalKernel(np.array([0.3, 0.9]), correlation_bounds=(0.1, 0.9))
    assert "correlation = [0.3, 0.9]" in at_bounds(narrow, False, False).message
    narrow = CategoricalKernel(0.1, correlation_bounds=(0.1, 1.0))
    assert "correlation = [0.1]" in at_bounds(narrow, False, False).message
