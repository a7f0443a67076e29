"""Search for the prior of Fourier functions: families, waves, number of functions."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import SpectralVGPRegressor
from skgpx._shell.validation import Rows
from skgpx._spectral_vgp import _regressor
from skgpx._spectral_vgp._domain import Region
from skgpx._spectral_vgp._score import objective_for, row_sums
from skgpx.bases import (
    BoostedEigenvalues,
    Box,
    KernelEigenvalues,
    PolynomialEigenvalues,
)
from skgpx.diagnostics import noise_below_residuals


def rows(draw, n, seed=0, d=1, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = draw(rng, X)
    return X, f, f + noise * rng.standard_normal(n)


def smooth(rng, X):
    return np.sin(6.0 * X[:, 0] + rng.uniform())


def rough(rng, X):
    """Brownian motion of variance 4 a unit."""
    order = np.argsort(X[:, 0])
    steps = np.sqrt(4.0 * np.diff(X[order, 0], prepend=0.0))
    f = np.empty(len(X))
    f[order] = np.cumsum(steps * rng.standard_normal(len(X)))
    return f


# ---- Evidence ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, "series", 1.0 * Matern(0.3, nu=1.5)], ids=str)
@pytest.mark.parametrize("d", [1, 2])
def test_gradients_of_the_score_by_differences(kernel, d):
    X, _, y = rows(smooth, 200, d=d)
    model = SpectralVGPRegressor(kernel, n_basis=51)
    unit = np.tile([0.0, 1.0], (d, 1))
    sums = row_sums(Rows(X, y, np.ones(200)), unit, Box(*unit.T), np.full(d, 20), 1)
    region = Region(domain=unit, core=unit, seen=unit)
    objective = objective_for(sums, model.get_params(), region)
    candidates = objective.candidates
    start = objective.build_prior(candidates.boost(candidates.rules[0]), 0.3, 51)

    def score(point):
        rule = start.rule.with_theta(point[1:])
        value, slopes = objective.evidence(start, rule, np.exp(point[0]))
        hyperprior, hyperslopes = candidates.log_hyperprior(point)
        return value + hyperprior, slopes + hyperslopes

    point = np.r_[np.log(0.3), start.rule.theta] + 0.1
    steps = 1e-5 * np.eye(len(point))
    slopes = [(score(point + h)[0] - score(point - h)[0]) / 2e-5 for h in steps]
    assert_allclose(score(point)[1], slopes, rtol=1e-5, atol=1e-4)


# ---- Families ------------------------------------------------------------------------


def test_the_family_follows_the_roughness():
    X, _, y = rows(smooth, 300)
    assert type(SpectralVGPRegressor().fit(X, y).kernel_.k2) is RBF
    X, _, y = rows(rough, 700)
    assert SpectralVGPRegressor().fit(X, y).kernel_.k2.nu <= 1.5


@pytest.mark.parametrize("draw", [smooth, rough])
def test_the_default_is_no_worse_than_any_of_its_families(draw):
    X, _, y = rows(draw, 200)
    best = SpectralVGPRegressor().fit(X, y).log_evidence_
    for nu in (0.5, 2.5, np.inf):
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(0.3, nu=nu)
        # a level that is free, the hyperprior, and the margin of smoother kernels
        assert best > SpectralVGPRegressor(kernel).fit(X, y).log_evidence_ - 12.0


def test_bands_of_rough_functions_hold_them():
    covered = []
    for seed in range(4):
        X, f, y = rows(rough, 250, seed)
        low, high = SpectralVGPRegressor().fit(X, y).credible_band(X).T
        covered.append(np.mean((low <= f) & (f <= high)))
    assert np.mean(covered) > 0.9


def test_bands_of_smooth_functions_hold_them_in_a_gap():
    covered = []
    new = np.linspace(0.4, 0.6, 40)[:, np.newaxis]
    for seed in range(12):
        rng = np.random.default_rng(seed)
        frequencies = 4.0 * rng.standard_normal(200)
        weights, phases = rng.standard_normal(200), rng.uniform(0.0, 6.3, 200)
        f = lambda X: 0.1 * np.cos(X * frequencies + phases) @ weights  # noqa: E731, B023
        X = rng.uniform(size=(400, 1))
        X = X[np.abs(X[:, 0] - 0.5) > 0.1]
        model = SpectralVGPRegressor().fit(X, f(X) + 0.1 * rng.standard_normal(len(X)))
        low, high = model.credible_band(new).T
        covered.append(np.mean((low <= f(new)) & (f(new) <= high)))
    # less 2 standard errors of 0.05
    assert np.mean(covered) > 0.85


def test_few_rows_do_not_make_the_noise_vanish():
    for seed in range(8):
        X, _, y = rows(smooth, 5, seed)
        assert SpectralVGPRegressor().fit(X, y).noise_variance_ > 1e-5 * np.var(y)


def test_a_constant_stays_a_constant_and_its_level_is_uncertain():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(200, 1)), 5.0 + rng.standard_normal(200)
    model = SpectralVGPRegressor().fit(X, y)
    mean, std = model.predict(X, return_std=True, include_noise=False)
    assert_allclose(mean, np.mean(y), atol=0.02)
    assert_allclose(std, np.std(y) / np.sqrt(200), rtol=0.1)


# ---- Waves ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cycles", "n", "d"), [(20, 400, 1), (45, 900, 1), (30, 900, 2)]
)
def test_a_wave_that_stands_out_is_found(cycles, n, d):
    X, f, y = rows(lambda rng, X: np.sin(2.0 * np.pi * cycles * X[:, 0]), n, d=d)
    y = y + 0.3 * np.sin(3.0 * X[:, -1])
    model = SpectralVGPRegressor(random_state=0).fit(X, y)
    assert abs(model.cycles_[0, 0] - cycles) < 0.5
    error = model.predict(X) - f - 0.3 * np.sin(3.0 * X[:, -1])
    assert np.sqrt(np.mean(error**2)) < 0.06


@pytest.mark.parametrize(("d", "n_seeds"), [(1, 5), (2, 2)])
def test_noise_has_no_waves(d, n_seeds):
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(size=(300, d)), rng.standard_normal(300)
        assert not len(SpectralVGPRegressor(random_state=0).fit(X, y).cycles_)


def matern_path(n, length):
    """A Matern 3/2 path of lengthscale 1/2 at n rows, with noise of 0.3."""
    rng = np.random.default_rng(0)
    step = 0.01
    decay = np.exp(-np.sqrt(3.0) / 0.5 * step)
    size = int(length / step) + 1000
    noise = rng.standard_normal(size + 1000)
    path = lfilter([1.0], [1.0, -2.0 * decay, decay**2], noise)[1000:]
    t = rng.uniform(0.0, length, n)
    f = np.interp(t, step * np.arange(size), path / path.std())
    return t, f, f + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("n", [4000, 8000])
def test_a_long_rough_series_has_no_cycles(n):
    t, f, y = matern_path(n, length=0.01 * n)
    model = SpectralVGPRegressor(random_state=0).fit(t[:, np.newaxis], y)
    assert not len(model.cycles_)
    assert model.findings_ == ()
    known = model.effective_dimension_
    ratio = model.noise_variance_ / 0.09
    assert abs(ratio - 1.0) < 3.0 * np.sqrt(2.0 / (n - known))
    mean, std = model.predict(t[:, np.newaxis], return_std=True, include_noise=False)
    # a chi-square variable with about as many degrees of freedom
    squares = np.mean(((f - mean) / std) ** 2)
    assert abs(squares - 1.0) < 3.0 * np.sqrt(2.0 / known)


def test_a_short_wave_of_a_long_series_is_found():
    rng = np.random.default_rng(0)
    t = rng.uniform(0.0, 600.0, 60_000)
    f = np.sin(t) + 0.3 * np.sin(17.0 * t)
    y = f + 0.2 * rng.standard_normal(len(t))
    model = SpectralVGPRegressor(random_state=0).fit(t[:, np.newaxis], y)
    frequencies = 2.0 * np.pi * model.cycles_[:, 0]
    assert np.min(np.abs(frequencies - 17.0)) < 0.01
    assert np.max(np.minimum(abs(frequencies - 17.0), abs(frequencies - 1.0))) < 0.05
    assert abs(model.noise_variance_ / 0.04 - 1.0) < 3.0 * np.sqrt(2.0 / len(t))


def test_of_two_waves_that_are_one_on_a_grid_the_longer_is_found():
    t = np.arange(600.0)
    rng = np.random.default_rng(0)
    y = np.sin(2.0 * np.pi * 0.3 * t) + 0.2 * rng.standard_normal(600)
    model = SpectralVGPRegressor().fit(t[:, np.newaxis], y)
    assert np.all(np.abs(model.cycles_ - 0.3) < 0.01)


# ---- Maps ----------------------------------------------------------------------------


def clusters(seed):
    """A Matern 3/2 process at 100 rows in twelve clusters, and at 60 between them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.0, 10.0, (12, 2))
    near = centres[rng.integers(0, 12, 100)] + rng.normal(0.0, 0.1, (100, 2))
    X = np.vstack((near, rng.uniform(0.0, 10.0, (60, 2))))
    K = Matern(2.0, nu=1.5)(X) + 0.01 * np.eye(160)
    y = np.linalg.cholesky(K) @ rng.standard_normal(160)
    return X[:100], y[:100], X[100:], y[100:]


@pytest.mark.parametrize("kernel", [None, 1.0 * Matern([1.0, 1.0], nu=1.5)])
def test_clustered_maps_do_not_make_the_process_smooth_and_certain(kernel):
    X, y, new, truth = clusters(0)
    model = SpectralVGPRegressor(kernel, random_state=0).fit(X, y)
    assert model.basis_ == "fourier"
    mean, covariance = model.predict(new, return_cov=True)
    # a chi-square variable of 60 degrees of freedom
    distance = (truth - mean) @ np.linalg.solve(covariance, truth - mean)
    assert abs(distance - 60.0) < 3.0 * np.sqrt(120.0)


def test_smooth_maps_take_few_functions():
    X, _, y = rows(lambda rng, X: np.sin(5.0 * X[:, 0]) * X[:, 1], 400, d=2)
    for kernel in (1.0 * RBF(0.5), 1.0 * RBF([0.5, 0.5])):
        model = SpectralVGPRegressor(kernel, random_state=0).fit(X, y)
        assert model.n_basis_ < 100


# ---- Boosted waves of a rule that is given -------------------------------------------


WAVE = BoostedEigenvalues(PolynomialEigenvalues(1e-3), ((300,),), 1.0)


@pytest.mark.parametrize(
    ("rule", "n_basis"),
    [
        (WAVE, 21),
        (WAVE, "auto"),
        (BoostedEigenvalues(WAVE, ((7,),), 1.0), 21),
        (BoostedEigenvalues(KernelEigenvalues(1.0 * RBF(0.1)), ((300,),), 1.0), 21),
    ],
    ids=["few", "auto", "nested", "kernel"],
)
def test_boosted_waves_are_in_the_sums_whatever_their_number(rule, n_basis):
    X, f, y = rows(lambda rng, X: np.cos(600.0 * np.pi * X[:, 0] - 1.0), 2000)
    plain = SpectralVGPRegressor(rule, n_basis=n_basis, domain=(0.0, 1.0))
    parts = [slice(None, None, 2), slice(1, None, 2)]
    one, two = (clone(plain).partial_fit(X[part], y[part]) for part in parts)
    chain = clone(plain).partial_fit(X[parts[0]], y[parts[0]])
    chain.partial_fit(X[parts[1]], y[parts[1]])
    for model in (clone(plain).fit(X, y), one + two, chain):
        assert not isinstance(n_basis, int) or model.n_basis_ == n_basis
        # a standard error of the variance of the noise is 0.03 of it
        assert abs(model.noise_variance_ / 0.01 - 1.0) < 0.15
        assert_allclose(model.predict(X), f, atol=0.05)


def test_boosted_waves_of_two_inputs():
    f = lambda rng, X: np.cos(2.0 * np.pi * (40.0 * X[:, 0] + 3.0 * X[:, 1]))  # noqa: E731
    X, f, y = rows(f, 600, d=2)
    rule = BoostedEigenvalues(PolynomialEigenvalues(1e-3), ((40, 3),), 1.0)
    model = SpectralVGPRegressor(rule, n_basis=11, domain=[(0.0, 1.0)] * 2).fit(X, y)
    assert_allclose(model.predict(X), f, atol=0.1)


def test_boosted_waves_that_a_basis_cannot_hold_are_refused():
    X, _, y = rows(smooth, 50)
    rule = BoostedEigenvalues(PolynomialEigenvalues(), ((3,), (9,)), 1.0)
    with pytest.raises(ValueError, match="5 functions; got n_basis=3"):
        SpectralVGPRegressor(rule, n_basis=3).fit(X, y)
    with pytest.raises(ValueError, match="one integer for each of 2 inputs"):
        SpectralVGPRegressor(rule).fit(np.hstack((X, X)), y)


# ---- Number of functions -------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, "series", 1.0 * Matern(0.3, nu=1.5)], ids=str)
def test_more_functions_would_change_little(kernel):
    X, _, y = rows(smooth, 300)
    model = SpectralVGPRegressor(kernel).fit(X, y)
    assert list(model.stage_seconds_) == ["search", "solution"]
    rule = model.prior_ if model.kernel_ is None else model.kernel_
    fixed = {"optimizer": None, "noise_variance": model.noise_variance_}
    more = SpectralVGPRegressor(rule, n_basis=1001, domain=model.domain_, **fixed)
    same = SpectralVGPRegressor(rule, domain=model.domain_, **fixed)
    std = [m.fit(X, y).predict(X, return_std=True)[1] for m in (same, more)]
    assert_allclose(*std, rtol=0.02)


def test_a_cap_is_reported():
    X, _, y = rows(rough, 3000, noise=1e-3)
    model = SpectralVGPRegressor(1.0 * Matern(0.3, nu=0.5), noise_variance=1e-6)
    with pytest.warns(UserWarning, match="basis functions"):
        model.fit(X, y)
    assert model.n_basis_ == 1501
    assert model.findings_[0].check == "too few basis functions"


@pytest.mark.parametrize("n", [3, 1000])
def test_noise_below_the_residuals_is_reported(n):
    # the variance of the noise is at a quantile of a chi-square variable, and beyond
    residuals = np.sqrt(max(2.0, chi2.isf(1e-3, n) / n)) * np.ones(n)
    assert noise_below_residuals(0.99 * residuals, np.ones(n), 1.0) is None
    finding = noise_below_residuals(1.01 * residuals, np.ones(n), 1.0)
    assert finding.check == "noise below residuals"


def test_noise_is_that_of_the_rows_where_points_do_not_follow_them(monkeypatch):
    """The exact evidence of the search knows functions that fewer points leave out."""
    monkeypatch.setattr(_regressor, "_MAX_FUNCTIONS", 60)
    X, _, y = rows(rough, 300, noise=1e-3)
    model = SpectralVGPRegressor(basis="inducing", random_state=0)
    model.fit(X[:200], y[:200])
    assert model.n_basis_ == 60
    fitted, fitted_std = model.predict(X[:200], return_std=True)
    assert np.mean(fitted_std**2) > np.mean((y[:200] - fitted) ** 2)
    mean, std = model.predict(X[200:], return_std=True)
    scores = (y[200:] - mean) / std
    # what points leave out is in the variance of f as well
    assert 0.3 < np.sqrt(np.mean(scores**2)) < 1.0


# ---- Copies that count once in a search ----------------------------------------------


@pytest.mark.parametrize("draw", [rough, smooth])
def test_a_bootstrap_has_the_noise_of_its_distinct_rows(draw):
    X, _, y = rows(draw, 300)
    drawn = np.random.default_rng(0).integers(0, 300, 300)
    distinct = np.unique(drawn)
    model = SpectralVGPRegressor().fit(X[drawn], y[drawn])
    once = SpectralVGPRegressor().fit(X[distinct], y[distinct])
    assert_allclose(model.noise_variance_, once.noise_variance_, rtol=0.03)


@pytest.fixture(scope="module")
def once():
    X, _, y = rows(rough, 150)
    return SpectralVGPRegressor().fit(X, y)


@pytest.mark.parametrize("weight", [1.01, 1.49, 1.5, 1.51, 2.0, 5.0])
def test_copies_learn_what_distinct_rows_do(weight, once):
    X, _, y = rows(rough, 150)
    model = SpectralVGPRegressor().fit(X, y, np.full(150, weight))
    assert_allclose(model.noise_variance_, once.noise_variance_, rtol=1e-6)
    assert model.n_basis_ == once.n_basis_
    assert_allclose(model.prior_.theta, once.prior_.theta, atol=1e-6)
    # the posterior and the evidence are those of all rows
    std = [m.predict(X, return_std=True, include_noise=False)[1] for m in (model, once)]
    assert np.all(std[0] < std[1])
    if weight == int(weight):
        times = int(weight)
        tiled = SpectralVGPRegressor().fit(np.tile(X, (times, 1)), np.tile(y, times))
        assert_allclose(tiled.predict(X), model.predict(X), rtol=1e-9, atol=1e-9)
        assert_allclose(tiled.log_evidence_, model.log_evidence_)


def test_rows_added_to_functions_of_copies():
    X, _, y = rows(smooth, 300, noise=0.2)
    how = {"basis": "fourier", "domain": (0.0, 1.0)}
    first = SpectralVGPRegressor(**how).fit(X[:200], y[:200], np.full(200, 3.0))
    other = SpectralVGPRegressor(**how).fit(X[200:], y[200:], np.full(100, 3.0))
    whole = SpectralVGPRegressor(**how).fit(X, y, np.full(300, 3.0))
    merged, again = first + other, other + first
    assert_allclose(merged.predict(X), whole.predict(X), atol=1e-4)
    assert_allclose(again.predict(X), whole.predict(X), atol=1e-4)
    plain = SpectralVGPRegressor(**how).fit(X[200:], y[200:])
    added = SpectralVGPRegressor(**how).fit(X[:200], y[:200], np.full(200, 3.0))
    added.partial_fit(X[200:], y[200:])
    assert_allclose((first + plain).predict(X), added.predict(X), atol=1e-4)
    assert_allclose((plain + first).predict(X), added.predict(X), atol=1e-4)


SERIES = Path(__file__).parents[2] / "examples/gallery/structure/air_quality.txt.gz"


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning")
def test_what_the_largest_basis_cannot_follow_is_noise():
    """Hours of a year: sections choose a process that needs more functions."""
    y = np.loadtxt(SERIES)
    t = np.arange(len(y))[:, np.newaxis] / 24.0
    is_held_out = np.arange(len(y)) % 10 == 0
    train = np.isfinite(y) & ~is_held_out
    test = np.isfinite(y) & is_held_out
    model = SpectralVGPRegressor(random_state=0).fit(t[train], y[train])
    mean, std = model.predict(t[test], return_std=True)
    scores = (y[test] - mean) / std
    assert abs(np.sqrt(np.mean(scores**2)) - 1.0) < 0.15
    assert "noise below residuals" not in [f.check for f in model.findings_]
