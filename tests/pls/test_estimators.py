"""Parameters, attributes and predictions that are special to these estimators."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import (
    Gaussian,
    Likelihood,
    Poisson,
    StudentT,
    Warped,
    check_likelihood,
)

FAST = {"n_inducing": 12, "n_particles": 40, "random_state": 0}
# No search for hyperparameters, and noise that suits the data.
FIXED = {"kernel": RBF(1.0), "optimizer": None, **FAST}
rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(50, 1))
F = np.sin(2.0 * X[:, 0])
Y = F + 0.2 * rng.normal(size=50)
COUNTS = rng.poisson(np.exp(F)).astype(float)
LABELS = rng.random(50) < 1.0 / (1.0 + np.exp(-2.0 * F))
GRID = np.linspace(-2.5, 2.5, 9)[:, np.newaxis]
ignore_convergence = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)


class Laplace(Likelihood):
    """A user's likelihood: double-exponential noise of known scale."""

    location_scale = True

    def __init__(self, scale=0.2):
        self.scale = scale

    def nll(self, y, f):
        return np.abs(np.subtract(y, f)) / self.scale + np.log(2.0 * self.scale)

    def gradient(self, y, f):
        return -np.sign(np.subtract(y, f)) / self.scale

    def mean(self, f):
        return np.asarray(f, dtype=np.float64)

    def variance(self, f):
        return np.full(np.shape(f), 2.0 * self.scale**2)

    def cdf(self, y, f):
        return stats.laplace.cdf(y, f, self.scale)

    def sample(self, f, rng):
        return rng.laplace(f, self.scale)

    def scaled(self, factor):
        return self._replace(scale=self.scale * factor)


def noise_of(model):
    """The likelihood of y, or that of a function of y."""
    return getattr(model.likelihood_, "base", model.likelihood_)


def test_number_of_inducing_points():
    model = clone(PLSRegressor(**FIXED)).set_params(kernel=Matern(0.1, nu=0.5))
    assert len(model.set_params(n_inducing=5).fit(X, Y).inducing_points_) == 5
    assert len(model.set_params(n_inducing="auto").fit(X, Y).inducing_points_) == 50
    assert len(model.set_params(inducing="random").fit(X, Y).inducing_points_) == 50
    assert len(model.set_params(n_inducing=10**6).fit(X, Y).inducing_points_) == 50


# ---- Parameters --------------------------------------------------------------------


def test_inducing_by_name_array_and_function():
    Z = np.linspace(-2.0, 2.0, 7)[:, np.newaxis]
    for name in ("greedy", "k-means++", "random"):
        model = PLSRegressor(inducing=name, **FIXED).fit(X, Y)
        assert set(model.inducing_points_.ravel()) <= set(X.ravel())
        assert np.abs(model.predict(X) - F).max() < 0.5
    by_array = PLSRegressor(inducing=Z, **FIXED).fit(X, Y)
    assert_array_equal(by_array.inducing_points_, Z)
    asked = []

    def choose(rows, kernel, n_inducing, rng):
        asked.append((len(rows), type(kernel), n_inducing, type(rng)))
        return Z

    by_function = PLSRegressor(inducing=choose, **FIXED).fit(X, Y)
    assert_array_equal(by_function.predict(GRID), by_array.predict(GRID))
    assert asked == [(50, RBF, 12, np.random.Generator)]


def test_white_kernel_bounds():
    kernel = RBF(1.0) + WhiteKernel(0.5, (0.3, 0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = PLSRegressor(kernel, normalize_y=False, **FAST).fit(X, Y)
    assert model.likelihood_.noise_variance == pytest.approx(0.3, rel=1e-3)


def test_noise_variance_is_that_around_f():
    model = PLSRegressor(**FIXED)
    assert not hasattr(model, "noise_variance_")
    model.fit(X, 10.0 * Y)
    assert_allclose(model.noise_variance_, model.likelihood_.variance(0.0))
    _, with_noise = model.predict(GRID, return_std=True)
    _, without = model.predict(GRID, return_std=True, include_noise=False)
    assert_allclose(with_noise**2 - without**2, model.noise_variance_, rtol=1e-8)
    model.set_params(likelihood=Poisson()).fit(X, np.arange(50) % 5)
    assert not hasattr(model, "noise_variance_")


def test_normalize_y_puts_scales_into_the_units_of_y():
    model = PLSRegressor(**FAST).fit(X, 50.0 + 10.0 * Y)
    noise = np.sqrt(model.likelihood_.noise_variance)
    assert 1.0 < noise < 4.0
    mean, std = model.predict(GRID, return_std=True)
    plain = PLSRegressor(**FAST).fit(X, Y)
    plain_mean, plain_std = plain.predict(GRID, return_std=True)
    change = -len(Y) * np.log(10.0)
    assert_allclose(model.log_evidence_ - plain.log_evidence_, change, rtol=1e-4)
    assert_allclose(mean, 50.0 + 10.0 * plain_mean, rtol=1e-4)
    assert_allclose(std, 10.0 * plain_std, rtol=1e-3)
    raw = PLSRegressor(normalize_y=False, **FIXED).fit(X, Y)
    assert raw.predict([[1e3]]) == pytest.approx(0.0)


@ignore_convergence
def test_max_iter_and_step_size():
    settings = {**FIXED, "likelihood": StudentT(4.0, 0.2), "tol": 1.0}
    model = PLSRegressor(max_iter=40, step_size=0.2, **settings).fit(X, Y)
    assert model.n_iter_ == 40
    with pytest.warns(ConvergenceWarning, match="max_iter") as record:
        PLSRegressor(max_iter=20, **settings).fit(X, Y)
    assert len(record) == 1
    settings |= {"method": "ula", "step_size": 1e30, "max_iter": 400}
    with pytest.raises(ValueError, match="diverged with step_size"):
        PLSRegressor(**settings).fit(X, COUNTS**3)


@ignore_convergence
@pytest.mark.parametrize("potential", ["projected", "optimal"])
@pytest.mark.parametrize("cls", [PLSRegressor, PLSClassifier])
def test_unadjusted_steps_beyond_stability_are_found(cls, potential):
    y = LABELS
    settings = {**FIXED, "n_inducing": 4, "method": "ula", "potential": potential}
    settings["max_iter"] = 200
    if cls is PLSRegressor:
        y = Y
        settings["likelihood"] = StudentT(4.0, 0.2)
    exact = cls(**settings | {"method": "mala"}).fit(X, y).particles_.std(axis=2)
    wide = []
    for step_size in (None, [1e-3, 1e-4], 1.0, [1e-4, 1.0]):
        model = cls(step_size=step_size, **settings).fit(X, y)
        found = [finding.check for finding in model.findings_]
        wide.append("unadjusted steps too long" in found)
    assert wide == [False, False, True, True]
    assert np.max(model.particles_.std(axis=2) / exact) > 2.0


@ignore_convergence
@pytest.mark.parametrize("is_given", [True, False])
def test_rates_that_touch_zero_have_functions_that_cross_it(is_given):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, 100)[:, np.newaxis]
    y = rng.poisson(16.0 * np.sin(1.5 * x[:, 0]) ** 2).astype(float)
    settings = {"likelihood": Poisson("square"), "n_particles": 40, "random_state": 0}
    kernel = ConstantKernel(8.0) * RBF(0.7 if is_given else 0.3)
    settings |= {"kernel": kernel, "n_inducing": 30, "max_iter": 50}
    if is_given:
        settings["optimizer"] = None
    model = PLSRegressor(**settings).fit(x, y)
    # zeros at -2.09, 0 and 2.09
    sides = np.array([[-2.6], [-1.0], [1.0], [2.6]])
    signs = np.sign(model.sample_functions(40, random_state=0)(sides))
    assert np.mean(signs[1:] == -signs[:-1]) > 0.9
    assert 0.2 < np.mean(signs[0] > 0.0) < 0.8
    assert model.likelihood_.base_latent_[0] < 1.0


@ignore_convergence
@pytest.mark.parametrize("cls", [PLSRegressor, PLSClassifier])
def test_warm_start(cls):
    y = Y if cls is PLSRegressor else LABELS
    extra = {"likelihood": StudentT(4.0, 0.2)} if cls is PLSRegressor else {}
    extra["kernel"] = RBF(1.0)
    model = cls(warm_start=True, **extra, **FAST).fit(X, y)
    first = model.particles_
    model.fit(X, y)
    cold = cls(**extra, **FAST).fit(X, y)
    assert not np.array_equal(model.particles_, first)
    assert model.log_evidence_ >= cold.log_evidence_ - 0.5
    # other columns, other sizes, another kernel: starts over
    model.fit(np.hstack([X, X**2]), y)
    assert model.n_features_in_ == 2
    model.set_params(n_particles=7).fit(X[:20], y[:20])
    assert model.particles_.shape[2] == 7
    model.set_params(kernel=Matern(1.0, "fixed")).fit(X, y)
    assert model.kernel_ == Matern(1.0, "fixed")


# ---- Classes -----------------------------------------------------------------------


def test_a_likelihood_with_kinks_converges():
    check_likelihood(Laplace())
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 1))
    y = np.sin(2.0 * X[:, 0]) + rng.laplace(0.0, 0.2, 80)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PLSRegressor(likelihood=Laplace(), random_state=0).fit(X, y)
    assert np.max(model.rhat_) <= 1.1
    grid = np.linspace(-1.8, 1.8, 20)[:, np.newaxis]
    error = model.predict(grid) - np.sin(2.0 * grid[:, 0])
    assert np.sqrt(np.mean(error**2)) < 0.15


def plane():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    return X, 1e3 * (np.sin(X[:, 0]) + 0.1 * rng.standard_normal(90))


@pytest.mark.parametrize("n_inducing", [30, 90])
def test_gaussian_chains_report_the_bound_of_all_rows(n_inducing):
    X, y = plane()
    how = {"n_inducing": n_inducing, "random_state": 0}
    exact, chains = (
        PLSRegressor(
            RBF(1.0), likelihood=Gaussian(0.01 * y.var()), method=method, **how
        ).fit(X, y)
        for method in ("exact", "mala")
    )
    assert chains.log_evidence_ == pytest.approx(exact.log_evidence_, rel=1e-9)


def test_inducing_points_of_ones_own_count():
    X, y = plane()
    auto, counted = (
        PLSRegressor(inducing=X[:8], n_inducing=n, random_state=0).fit(X, y)
        for n in ("auto", 8)
    )
    assert auto.log_evidence_ == pytest.approx(counted.log_evidence_, rel=1e-9)


def test_repeated_rows_of_grades_are_not_known_exactly():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    y = np.round(5.0 + 0.5 * X[:, 0] + 0.7 * rng.standard_normal(150))
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    model = PLSRegressor(random_state=0).fit(X, y)
    least = min(1.0 / 12.0, 0.1 * y.var())
    assert model.noise_variance_ > 0.999 * least
    _, std = model.predict(X, return_std=True)
    assert np.all(std**2 > 0.999 * least)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
def test_tempering_that_fails_gives_way_to_chains_near_the_modes():
    """Particles from the prior do not arrive where rows have hardly any noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (240, 2))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2
    y = f[:40].copy()
    y[rng.choice(40, 3, replace=False)] += 4.0
    model = PLSRegressor(
        ConstantKernel(4.0) * RBF(1.0),
        likelihood=StudentT(4.0, 0.01),
        optimizer=None,
        n_particles=24,
        random_state=0,
    )
    errors = {}
    for method in ("smc", "auto"):
        model.set_params(method=method).fit(X[:40], y)
        errors[method] = np.sqrt(np.mean((model.predict(X[40:]) - f[40:]) ** 2))
        checks = {finding.check for finding in model.findings_}
        assert ("Monte Carlo runs disagree" in checks) == (method == "smc")
    assert errors["auto"] < 0.5 * errors["smc"]


# ---- Tails chosen by the data --------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Gaussian(), StudentT()])
def test_tails_are_those_of_the_data(likelihood):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (100, 1))
    noise = rng.standard_normal(100)
    if likelihood.heavy_tailed:
        noise[:10] *= 15.0
    y = np.sin(2.0 * X[:, 0]) + 0.1 * noise
    model = PLSRegressor(**FAST).fit(X, y)
    assert type(model.likelihood_) is type(likelihood)
    # the fit is that of the likelihood, to the last bit
    given = PLSRegressor(likelihood=likelihood, **FAST).fit(X, y)
    assert_array_equal(model.predict(GRID), given.predict(GRID))
    assert model.findings_ == given.findings_
    assert model.log_evidence_ == given.log_evidence_


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_chosen_tails_have_the_larger_evidence():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (70, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_t(3.0, 70)
    # an average has the evidence of few chains, with an error of a nat
    chosen_once = {"hyperparameters": "maximise", **FAST}
    scale = PLSRegressor(method="exact", **chosen_once).fit(X, y).likelihood_
    candidates = [Gaussian(), StudentT(), scale]
    if isinstance(scale, Warped):
        candidates = [
            Gaussian(),
            StudentT(),
            Warped(None, scale.transform, scale.power),
            Warped(StudentT(), scale.transform, scale.power),
        ]
    chosen, *given = (
        PLSRegressor(likelihood=likelihood, **chosen_once).fit(X, y).log_evidence_
        for likelihood in (None, *candidates)
    )
    # compared in one family of kernels, without inducing points
    assert chosen in given
    assert chosen > max(given) - 1.0


@pytest.mark.parametrize("likelihood", [Gaussian(), StudentT()])
@pytest.mark.parametrize(
    "settings",
    [
        {"hyperparameters": "maximise"},
        {"kernel": RBF()},
    ],
)
def test_only_the_chosen_tails_are_fitted(likelihood, settings, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    noise = rng.standard_normal(60)
    if likelihood.heavy_tailed:
        noise[:6] *= 15.0
    y = np.sin(2.0 * X[:, 0]) + 0.2 * noise
    fitted = []
    fit_rows = PLSRegressor._fit_rows

    def counted(self, rows, likelihood, *args):
        fitted.append(likelihood)
        return fit_rows(self, rows, likelihood, *args)

    monkeypatch.setattr(PLSRegressor, "_fit_rows", counted)
    model = PLSRegressor(**FAST).set_params(**settings).fit(X, y)
    assert [type(one) for one in fitted] == [type(likelihood)]
    assert type(noise_of(model)) is type(likelihood)


def test_targets_without_noise_to_compare_keep_normal_noise():
    """Equal ones, and those whose noise is known."""
    X = np.linspace(-2.0, 2.0, 40)[:, np.newaxis]
    model = PLSRegressor(**FAST)
    assert type(model.fit(X, np.ones(40)).likelihood_) is Gaussian
    y = np.sin(2.0 * X[:, 0])
    y[[2, 7, 18, 22, 37]] += [1.0, -1.0, 1.0, -1.0, 1.0]
    assert type(model.fit(X, y).likelihood_) is StudentT
    model.fit(X, y, noise_variance=np.full(40, 0.01))
    assert type(model.likelihood_) is Gaussian


def test_functions_without_noise_keep_normal_noise():
    """No residual tells its tails."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (45, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    model = PLSRegressor(random_state=0).fit(X, y)
    assert type(noise_of(model)) is Gaussian
    assert model.noise_variance_ < 1e-4
    # but outliers tell them where other rows have no noise
    y[:4] += [5.0, -5.0, 5.0, -5.0]
    model = PLSRegressor(random_state=0).fit(X, y)
    assert type(noise_of(model)) is StudentT


def test_rare_tails_of_many_rows_are_found():
    """Residuals of all rows show them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2000, 1))
    noise = rng.standard_normal(2000)
    noise[:20] *= 15.0
    y = np.sin(2.0 * X[:, 0]) + 0.3 * noise
    settings = {**FAST, "hyperparameters": "maximise"}
    model = PLSRegressor(**settings).fit(X, y)
    assert type(noise_of(model)) is StudentT


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.parametrize(
    "given",
    [
        {"likelihood": Gaussian()},
        {"method": "exact"},
        {"hyperparameters": "average"},
        {"kernel": RBF() + WhiteKernel()},
        {"kernel": RBF(), "optimizer": None},
        {"normalize_y": False},
    ],
    ids=lambda given: next(iter(given)),
)
def test_noise_that_is_given_has_no_tails(given):
    y = Y.copy()
    y[:6] += [8.0, -8.0, 8.0, -8.0, 8.0, -8.0]
    model = PLSRegressor(**given, **FAST).fit(X, y)
    assert type(noise_of(model)) is Gaussian


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_rows_can_be_added_to_the_default_that_begins_with_some():
    y = Y.copy()
    y[:6] += [8.0, -8.0, 8.0, -8.0, 8.0, -8.0]
    given = PLSRegressor(method="exact", hyperparameters="maximise", **FAST)
    given.fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    for settings in ({}, {"hyperparameters": "maximise"}):
        model = PLSRegressor(**settings, **FAST)
        model.partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
        assert_array_equal(model.predict(GRID), given.predict(GRID))
        assert model.get_params() == PLSRegressor(**settings, **FAST).get_params()
    with pytest.raises(AttributeError, match="partial_fit"):
        PLSRegressor(**FAST).fit(X, y).partial_fit(X, y)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_noise_variances_are_those_of_the_tails():
    y = Y.copy()
    y[:6] += [8.0, -8.0, 8.0, -8.0, 8.0, -8.0]
    model = PLSRegressor(**FAST).fit(X, y)
    assert type(model.likelihood_) is StudentT
    assert type(PLSRegressor(**FAST).fit(X[:20], y[:20]).likelihood_) is Gaussian
    # a t distribution with four degrees of freedom
    variance = 2.0 * model.likelihood_.scale**2
    assert model.noise_variance_ == pytest.approx(variance)
    assert "closest normal distribution" in str(model.report())
