"""SteinRFFRegressor: Bayesian ridge, mixtures, recipes, sums over rows, order."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)
from sklearn.utils.fixes import parse_version

from skgpx import SteinRFFRegressor
from skgpx._stein import _fit
from skgpx._stein._fit import held_out_rows
from skgpx._stein._learning import annealed, prior_weight

# Nothing is searched: the kernel as it is, all rows learn.
FIXED = {
    "kernel": 1.5 * RBF([0.7, 1.2]),
    "optimizer": None,
    "noise_variance": 0.04,
    "normalize_y": False,
    "held_out": 0.0,
    "random_state": 0,
}
SMALL = {"n_components": 3, "n_frequencies": 12, "max_iter": 20, "random_state": 0}


def data(n=60, d=2, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, np.sin(4.0 * X[:, 0]) + X[:, -1] ** 2 + noise * rng.normal(size=n)


X, Y = data()
NEW = data(25, seed=1)[0]


@pytest.fixture(scope="module")
def fitted():
    return SteinRFFRegressor(**SMALL).fit(X, Y)


def features(model, X, component):
    """Scaled cosines and sines of the fitted frequencies."""
    phases = X @ model.frequencies_[component].T
    return np.hstack((np.cos(phases), np.sin(phases))) * np.tile(model.amplitudes_, 2)


# ---- Formulas ----------------------------------------------------------------------


@pytest.mark.parametrize("max_iter", [0, 15])
def test_one_component_is_bayesian_ridge_on_its_features(max_iter):
    model = SteinRFFRegressor(
        **FIXED, n_components=1, n_frequencies=15, max_iter=max_iter
    ).fit(X, Y)
    F, new = features(model, X, 0), features(model, NEW, 0)
    A = F.T @ F / 0.04 + np.eye(30)
    expected = new @ np.linalg.solve(A, F.T @ Y) / 0.04
    variance = np.einsum("nm,mn->n", new, np.linalg.solve(A, new.T))
    mean, std = model.predict(NEW, return_std=True)
    assert_allclose(mean, expected, atol=1e-10)
    assert_allclose(std**2, variance + 0.04, rtol=1e-9)
    K = F @ F.T + 0.04 * np.eye(len(Y))
    evidence = multivariate_normal(np.zeros(len(Y)), K).logpdf(Y)
    assert_allclose(model.log_evidence_, evidence, rtol=1e-10)


@pytest.mark.parametrize("R", [31, 32, 33, 64, 65])
def test_first_loss_is_that_of_the_start(R):
    """At sizes around those whose factors are taken by halves."""
    settings = FIXED | {"n_components": 1, "n_frequencies": R}
    start = SteinRFFRegressor(**settings, max_iter=0).fit(X, Y)
    learned = SteinRFFRegressor(**settings, max_iter=1).fit(X, Y)
    loss = -start.log_evidence_ / len(Y)
    assert_allclose(learned.loss_curve_, [loss], rtol=1e-10)


def test_without_steps_the_features_have_the_kernel():
    settings = FIXED | {"n_components": 1, "max_iter": 0}
    model = SteinRFFRegressor(**settings, n_frequencies=512).fit(X, Y)
    F = features(model, X, 0)
    assert_allclose(F @ F.T, FIXED["kernel"](X), atol=0.05)


def test_predictions_are_those_of_a_mixture(fitted):
    means, variances = [], []
    for part in fitted.posterior_.models:
        mixture = part.marginals(NEW)
        means.append(mixture.mean[:, 0, 0])
        variances.append(mixture.variance[:, 0, 0] + fitted.noise_variance_)
    mean, std = fitted.predict(NEW, return_std=True)
    assert_allclose(mean, np.mean(means, axis=0), rtol=1e-12)
    total = np.mean(variances, axis=0) + np.var(means, axis=0)
    assert_allclose(std**2, total, rtol=1e-10)
    y = mean + 0.1
    density = np.mean(norm(np.array(means), np.sqrt(variances)).pdf(y), axis=0)
    assert_allclose(fitted.log_predictive_density(NEW, y), np.log(density), rtol=1e-9)
    levels = (0.05, 0.5, 0.9)
    quantiles = fitted.predict_quantiles(NEW, levels)
    for level, value in zip(levels, quantiles.T, strict=True):
        probability = np.mean(norm(np.array(means), np.sqrt(variances)).cdf(value), 0)
        assert_allclose(probability, level, atol=1e-6)


def test_samples_have_the_moments_of_the_mixture(fitted):
    n = 4000
    draws = fitted.sample_y(NEW, n, random_state=1)
    mean, std = fitted.predict(NEW, return_std=True)
    assert np.abs((draws.mean(1) - mean) / (std / np.sqrt(n))).max() < 5.0
    spread = (draws - mean[:, np.newaxis]) ** 2
    error = spread.std(axis=1) / np.sqrt(n)
    assert np.abs((spread.mean(axis=1) - std**2) / error).max() < 5.0


def test_drawn_functions_have_gradients(fitted):
    draws = fitted.sample_functions(4, random_state=0)
    points, step = NEW[:4], np.array([1e-6, 0.0])
    value, slopes = draws.value_and_grad(points)
    assert_allclose(value, draws(points), rtol=1e-10)
    rise = (draws(points + step) - draws(points - step)) / 2e-6
    assert_allclose(slopes[..., 0], rise, rtol=1e-5, atol=1e-7)
    assert_array_equal(draws(points), draws(points))


def test_spectrum_is_the_mean_square_of_each_wave(fitted):
    n, shape = 4000, fitted.frequencies_.shape[:2]
    assert fitted.spectrum_.shape == shape
    rng, scale = np.random.default_rng(0), fitted._state.scale
    for k, part in enumerate(fitted.posterior_.models):
        weights = part.law.draw(n, rng)[:, 0]
        cosine, sine = np.split(scale * weights, 2)
        squares = (
            0.5 * part.basis.amplitudes[:, np.newaxis] ** 2 * (cosine**2 + sine**2)
        )
        error = squares.std(axis=1) / np.sqrt(n)
        z = (squares.mean(axis=1) - fitted.spectrum_[k]) / error
        assert np.abs(z).max() < 5.0


def test_a_line_stands_out_of_the_spectrum():
    x = np.linspace(-5.0, 5.0, 200)[:, np.newaxis]
    model = SteinRFFRegressor(
        RBF(0.4), optimizer=None, noise_variance=0.01, **SMALL | {"max_iter": 100}
    ).fit(x, np.sin(3.0 * x[:, 0]))
    strongest = np.argmax(model.spectrum_, axis=1)
    found = np.abs(model.frequencies_[np.arange(3), strongest, 0])
    assert_allclose(found, 3.0, atol=0.4)


def test_covariance_is_that_of_the_mixture(fitted):
    mean, covariance = fitted.predict(NEW, return_cov=True)
    _, std = fitted.predict(NEW, return_std=True)
    assert_allclose(np.diagonal(covariance), std**2, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > 0.0
    assert_array_equal(mean, fitted.predict(NEW))


# ---- Learning ----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52", "mmd"])
def test_learning_raises_the_evidence(kernel):
    settings = FIXED | {"n_components": 3, "n_frequencies": 8}
    before = SteinRFFRegressor(**settings, max_iter=0).fit(X, Y)
    after = SteinRFFRegressor(
        **settings, max_iter=40, repulsion=0.1, repulsion_kernel=kernel
    ).fit(X, Y)
    assert after.log_evidence_ > before.log_evidence_ + 5.0
    assert len(after.loss_curve_) == 40
    assert after.loss_curve_[-1] < after.loss_curve_[0]


def test_uncoupled_components_do_not_know_each_other():
    settings = FIXED | {"n_frequencies": 8, "max_iter": 10}
    one = SteinRFFRegressor(**settings, n_components=1).fit(X, Y)
    alone = SteinRFFRegressor(**settings, n_components=1, coupling=False).fit(X, Y)
    assert alone.log_evidence_ > one.log_evidence_
    assert alone.loss_curve_[0] == one.loss_curve_[0]
    # Adam's first step has the length of its rate in every coordinate
    start = SteinRFFRegressor(**settings | {"max_iter": 0}, n_components=2).fit(X, Y)
    step = SteinRFFRegressor(
        **settings | {"max_iter": 1}, n_components=2, coupling=False
    ).fit(X, Y)
    unit = step._state.mixture.length_scale
    moved = (step.frequencies_ - start.frequencies_) * unit
    assert_allclose(np.abs(moved), step.learning_rate, rtol=1e-5)


@pytest.mark.parametrize("noise", [0.5, 0.999, 1.0, 1.001, 2.0])
def test_frequencies_learn_with_a_least_noise(noise):
    least = _fit.LEAST_NOISE
    settings = SMALL | {"optimizer": None, "max_iter": 3, "normalize_y": False}
    kernel = 1.5 * RBF([0.7, 1.2])

    def fitted(variance, **more):
        noisy = kernel + WhiteKernel(variance)
        return SteinRFFRegressor(noisy, **settings | more).fit(X, Y)

    model, bare = fitted(noise * least), fitted(noise * least, held_out=0.0)
    learned = fitted(max(noise, 1.0) * least)
    assert_array_equal(model.loss_curve_, learned.loss_curve_)
    assert_array_equal(model.frequencies_, learned.frequencies_)
    chosen = model.noise_variance_ / model.temper_
    assert np.isclose(chosen, [noise * least, max(noise, 1.0) * least]).any()
    # without rows that judge, the noise is that of the prior
    assert_allclose(bare.noise_variance_, noise * least, rtol=1e-12)
    # and one that is given is taken as it is
    given = SteinRFFRegressor(kernel, **settings, noise_variance=noise * least).fit(
        X, Y
    )
    assert_allclose(given.noise_variance_ / given.temper_, noise * least)
    assert (given.loss_curve_[0] == learned.loss_curve_[0]) == (noise >= 1.0)


def test_repulsion_spreads_the_frequencies():
    def spread(repulsion):
        model = SteinRFFRegressor(
            **FIXED, n_components=3, n_frequencies=8, max_iter=60, repulsion=repulsion
        ).fit(X, Y)
        return np.std(model.frequencies_ / (1.0 / np.array([0.7, 1.2])))

    assert spread(20.0) > 1.2 * spread(0.0)


def test_a_strong_prior_keeps_the_spectral_law():
    settings = FIXED | {"n_components": 2, "n_frequencies": 30, "max_iter": 80}
    settings |= {"early_stopping": False}
    model = SteinRFFRegressor(**settings, spectral_prior=1e6, repulsion=1e6).fit(X, Y)
    # Stein descent to the density of the kernel: N(0, 1 / ℓ²)
    spread = np.std(model.frequencies_, axis=(0, 1))
    assert_allclose(spread, 1.0 / np.array([0.7, 1.2]), rtol=0.35)


@pytest.mark.parametrize("n", [1, 40, 1000])
def test_the_prior_gives_way_to_rows(n):
    start = SteinRFFRegressor(**FIXED, n_components=3, n_frequencies=5, max_iter=0)
    mixture = start.fit(X, Y)._state.mixture
    # 5 waves in 2 dimensions: 10 frequencies a component
    assert prior_weight("auto", 2.0 * RBF(), mixture, n) == 10 / (10 + n)
    assert prior_weight(0.25, RBF(), mixture, n) == 0.25
    # a convolution, whose density is not known
    assert prior_weight("auto", RBF() * Matern(), mixture, n) == 0.0


@pytest.mark.parametrize(("n", "d"), [(8, 2), (120, 10), (200, 60)])
def test_few_rows_are_not_overfitted(n, d):
    X, y = data(n + 500, d, seed=2)
    X_test, y_test = X[n:], y[n:]

    def error(**settings):
        model = SteinRFFRegressor(
            n_components=2, n_frequencies=50, random_state=0, **settings
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[:n], y[:n])
        return np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))

    assert error(max_iter=150) < 1.1 * error(max_iter=0)


@pytest.mark.parametrize("n", [23, 24, 25])
def test_many_frequencies_without_a_prior_warn(n):
    # 12 waves in 2 dimensions: 24 frequencies a component
    kernel = RBF() * Matern(nu=1.5)
    settings = FIXED | SMALL | {"kernel": kernel, "max_iter": 1}
    said = [
        _warnings_of(SteinRFFRegressor(**settings | more), X[:n], Y[:n])
        for more in ({}, {"max_iter": 0}, {"spectral_prior": 0.0}, {"kernel": RBF()})
    ]
    assert [len(each) for each in said] == [int(n < 24), 0, 0, 0]
    assert n >= 24 or "max_iter=0" in said[0][0]


def _warnings_of(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("unit", [0.49, 0.5, 0.51, 0.99, 1.0, 1.01])
def test_wide_inputs_get_shorter_steps(unit):
    # standard deviation one, and a constant column
    wide = np.column_stack((np.tile([-1.0, 1.0], 30), np.zeros(60)))
    settings = FIXED | {"coupling": False, "n_components": 1, "n_frequencies": 6}

    def fitted(length_scale, max_iter):
        kernel = RBF([length_scale, 1.0])
        return SteinRFFRegressor(
            **settings | {"kernel": kernel, "max_iter": max_iter}
        ).fit(wide, Y)

    # the unit of a few frequencies is about their lengthscale
    length_scale = unit / fitted(1.0, 0)._state.mixture.length_scale[0]
    start, step = fitted(length_scale, 0), fitted(length_scale, 1)
    assert_allclose(step._state.mixture.length_scale[0], unit)
    moved = (step.frequencies_ - start.frequencies_)[0, :, 0] * unit
    expected = step.learning_rate * min(max(unit, 0.5), 1.0)
    assert_allclose(np.abs(moved), expected, rtol=1e-4)


def test_waves_much_shorter_than_the_range_are_found():
    rng = np.random.default_rng(1005)
    X = rng.uniform(size=(700, 1))
    y = np.sin(200.0 * X[:, 0]) + 0.1 * rng.standard_normal(700)
    model = SteinRFFRegressor(n_components=3, n_frequencies=50, random_state=5)
    error = model.fit(X[:200], y[:200]).predict(X[200:]) - y[200:]
    assert np.sqrt(np.mean(error**2)) < 0.2


@pytest.mark.parametrize("power", [None, 0.5, 1.0])
def test_annealing_begins_five_times_at_zero(power):
    curve = np.array([annealed(t, 100, power) for t in range(100)])
    if power is None:
        assert_array_equal(curve, 1.0)
        return
    assert_array_equal(np.flatnonzero(curve == 0.0), np.arange(5) * 20)
    assert_allclose(curve[19], 0.95**power)


def test_annealed_fits_differ():
    settings = FIXED | {"n_components": 2, "n_frequencies": 8, "max_iter": 10}
    plain = SteinRFFRegressor(**settings).fit(X, Y)
    schedule = SteinRFFRegressor(**settings, annealing=1.0).fit(X, Y)
    assert not np.allclose(plain.frequencies_, schedule.frequencies_, rtol=1e-6)


# ---- Held-out rows -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "n", "count"),
    [
        ("auto", 49, 0),
        ("auto", 50, 8),
        ("auto", 51, 8),
        ("auto", 13_330, 2000),
        ("auto", 13_340, 2000),
        (0.0, 60, 0),
        (0.2, 10, 2),
        (0.01, 10, 1),
        (0.9, 1, 0),
        (0.99, 3, 2),
    ],
)
def test_how_many_rows_are_held_out(share, n, count):
    assert held_out_rows(share, n) == count


@pytest.mark.parametrize("n", [49, 50, 51])
def test_few_rows_have_no_temper(n):
    model = SteinRFFRegressor(**SMALL).fit(X[:n], Y[:n])
    assert (model.temper_ == 1.0) == (n < _fit.MIN_ROWS)
    assert len(model.held_out_curve_) == (0 if n < _fit.MIN_ROWS else 3)


def test_temper_finds_noise_that_is_too_small():
    x, y = data(400, noise=0.5)
    settings = SMALL | {"noise_variance": 1e-3, "max_iter": 0}
    settings |= {"kernel": RBF(1.0), "optimizer": None}
    tempered = SteinRFFRegressor(**settings).fit(x, y)
    plain = SteinRFFRegressor(**settings | {"held_out": 0.0}).fit(x, y)
    new, target = data(400, seed=2, noise=0.5)
    assert tempered.temper_ > 20.0
    # the two have different means of y
    assert_allclose(tempered.predict(new), plain.predict(new), atol=0.01)
    gain = tempered.log_predictive_density(new, target).mean()
    assert gain > plain.log_predictive_density(new, target).mean() + 5.0
    inside = (
        np.abs(target - tempered.predict(new))
        < 1.96 * tempered.predict(new, return_std=True)[1]
    )
    assert 0.85 < inside.mean() <= 1.0


def test_held_out_rows_learn_nothing():
    """Without `refit` a change of held-out targets changes no frequency."""
    settings = SMALL | {"refit": False, "held_out": 0.2}
    model = SteinRFFRegressor(**settings).fit(X, Y)
    order = np.lexsort(np.column_stack((X, Y)).T[::-1])
    (stream, *_) = np.random.default_rng(0).spawn(4)
    held = order[stream.permutation(len(Y))[: held_out_rows(0.2, len(Y))]]
    other = Y.copy()
    other[held] += 0.3
    changed = SteinRFFRegressor(**settings).fit(X, other)
    assert_array_equal(model.frequencies_, changed.frequencies_)
    assert model.temper_ != changed.temper_
    again = SteinRFFRegressor(**settings | {"refit": True}).fit(X, Y)
    assert not np.array_equal(model.frequencies_, again.frequencies_)


@pytest.mark.parametrize("n", [40, 60])
def test_learning_stops_where_it_gains_nothing(n):
    """By held-out rows, or by the evidence where rows are too few for these."""
    x, y = data(n, noise=1.0)
    settings = SMALL | {"max_iter": 150}
    model = SteinRFFRegressor(**settings).fit(x, y)
    assert model.n_iter_ == len(model.loss_curve_) - 1 < 100
    model.set_params(early_stopping=False).fit(x, y)
    assert model.n_iter_ == len(model.loss_curve_) == 150


# ---- Numbers of rows and frequencies -----------------------------------------------


@pytest.mark.parametrize("n", [39, 40, 41])
def test_some_rows_learn_and_all_count(n):
    x, y = data(n)
    settings = FIXED | {"n_components": 2, "n_frequencies": 5, "max_iter": 5}
    model = SteinRFFRegressor(**settings, n_learning_rows=40).fit(x, y)
    whole = SteinRFFRegressor(**settings).fit(x, y)
    assert np.array_equal(model.frequencies_, whole.frequencies_) == (n <= 40)
    assert model._state.statistics[0].weight == n


@pytest.mark.parametrize(("n", "largest"), [(199, 50), (200, 100), (201, 100)])
def test_auto_keeps_fewer_functions_than_rows(n, largest):
    # white noise of a short lengthscale: more waves always help
    x = np.random.default_rng(0).uniform(-20.0, 20.0, (n, 2))
    y = np.sin(3.0 * x[:, 0]) * np.cos(3.0 * x[:, 1])
    kernel = RBF(0.5)
    settings = {"kernel": kernel, "optimizer": None, "noise_variance": 0.01}
    model = SteinRFFRegressor(
        n_frequencies="auto", n_components=1, max_iter=0, held_out=0.0,
        random_state=0, **settings,
    ).fit(x, y)  # fmt: skip
    assert model.frequencies_.shape[1] <= largest


def test_auto_stops_where_more_waves_gain_nothing():
    settings = FIXED | {"noise_variance": 1.0, "n_components": 1, "max_iter": 0}
    model = SteinRFFRegressor(**settings, n_frequencies="auto").fit(*data(800))
    assert model.frequencies_.shape[1] == 50


# ---- Kernels -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(0.5, nu=1.5) + 0.5 * RBF(2.0),
        2.0 * RBF(0.5) * Matern(1.0, nu=0.5),
        RBF(0.5) + WhiteKernel(0.1),
        RBF(1.0) ** 2,
    ],
)
def test_sums_and_products(kernel):
    settings = {"optimizer": None, "held_out": 0.0, "random_state": 0}
    settings |= {"n_components": 1, "max_iter": 0, "normalize_y": False}
    model = SteinRFFRegressor(kernel, n_frequencies=512, **settings).fit(X, Y)
    F = features(model, X, 0)
    noiseless = (
        kernel.k1 if isinstance(getattr(kernel, "k2", None), WhiteKernel) else kernel
    )
    assert_allclose(F @ F.T, noiseless(X), atol=0.2)


def test_a_sum_shares_the_frequencies():
    kernel = ConstantKernel(3.0) * RBF(1.0) + ConstantKernel(1.0) * RBF(0.1)
    settings = FIXED | {"kernel": kernel, "n_components": 1, "max_iter": 0}
    model = SteinRFFRegressor(**settings, n_frequencies=40).fit(X, Y)
    assert model.frequencies_.shape == (1, 40, 2)
    assert_allclose(np.sum(model.amplitudes_**2), 4.0)


def test_kernel_without_a_spectral_law():
    with pytest.raises(ValueError, match=r"DotProduct.*register"):
        SteinRFFRegressor(DotProduct(), **SMALL).fit(X, Y)


def test_periodic_kernel_has_its_series():
    model = SteinRFFRegressor(
        ExpSineSquared(), optimizer=None, noise_variance=0.01, **SMALL | {"max_iter": 0}
    )
    x = np.linspace(0.0, 3.0, 60)[:, np.newaxis]
    model.fit(x, np.sin(2.0 * np.pi * x[:, 0]))
    assert model.score(x, np.sin(2.0 * np.pi * x[:, 0])) > 0.95


# ---- Sums over rows ----------------------------------------------------------------


def test_chunks_are_one_fit(fitted):
    more, y = data(90, seed=3)
    at_once = copy.copy(fitted).partial_fit(more, y)
    chunks = copy.copy(fitted)
    for first in range(0, 90, 30):
        chunks.partial_fit(more[first : first + 30], y[first : first + 30])
    assert_allclose(chunks.predict(NEW), at_once.predict(NEW), atol=1e-10)
    assert_allclose(chunks.log_evidence_, at_once.log_evidence_, rtol=1e-10)
    one = copy.copy(fitted).partial_fit(more[:40], y[:40])
    two = copy.copy(fitted).partial_fit(more[40:], y[40:])
    merged = one + two
    assert_allclose(merged.predict(NEW), at_once.predict(NEW), atol=1e-10)
    assert_array_equal(merged.frequencies_, fitted.frequencies_)
    assert set(merged.stage_seconds_) == {"statistics", "solution"}
    assert sum([one]) is one


def test_partial_fit_continues_the_posterior(fitted):
    """As if the frequencies had been given for all rows."""
    more, y = data(90, seed=3)
    model = copy.copy(fitted).partial_fit(more, y)
    noise = model.noise_variance_
    x, targets = np.vstack((X, more)), np.append(Y, y)
    means = []
    shift = fitted._state.shift
    for k in range(3):
        F, new = features(model, x, k), features(model, NEW, k)
        A = F.T @ F / noise + np.eye(F.shape[1])
        means.append(shift + new @ np.linalg.solve(A, F.T @ (targets - shift)) / noise)
    assert_allclose(model.predict(NEW), np.mean(means, axis=0), atol=1e-8)


def test_first_chunk_is_a_fit(fitted):
    model = SteinRFFRegressor(**SMALL).partial_fit(X, Y)
    assert_array_equal(model.predict(NEW), fitted.predict(NEW))
    assert set(model.stage_seconds_) == {"search", "frequencies", "temper", "solution"}


def test_other_frequencies_cannot_be_merged(fitted):
    other = SteinRFFRegressor(**SMALL | {"random_state": 1}).fit(X, Y)
    with pytest.raises(ValueError, match="the same frequencies"):
        fitted.merge(other)
    with pytest.raises(TypeError):
        fitted + 1


# ---- Order, threads, weights, units ------------------------------------------------


@pytest.mark.parametrize("refit", [False, True])
def test_the_order_of_rows_does_not_matter(refit):
    order = np.random.default_rng(0).permutation(len(Y))
    model = SteinRFFRegressor(**SMALL, refit=refit)
    one, other = clone(model).fit(X, Y), clone(model).fit(X[order], Y[order])
    assert_array_equal(one.predict(NEW), other.predict(NEW))


@pytest.mark.parametrize("coupling", [False, True])
def test_threads_change_no_bit(coupling):
    models = [
        SteinRFFRegressor(**SMALL, coupling=coupling, n_jobs=n_jobs).fit(X, Y)
        for n_jobs in (None, 1, 2)
    ]
    with joblib.parallel_config("threading", n_jobs=3):
        models.append(SteinRFFRegressor(**SMALL, coupling=coupling).fit(X, Y))
    for model in models[1:]:
        assert_array_equal(model.frequencies_, models[0].frequencies_)
        assert_array_equal(model.predict(NEW), models[0].predict(NEW))


def test_a_row_does_not_depend_on_the_others(fitted):
    whole = fitted.predict(NEW)
    assert_allclose(np.append(fitted.predict(NEW[:1]), fitted.predict(NEW[1:])), whole)


def test_weights_are_repetitions():
    times = np.random.default_rng(0).integers(0, 3, len(Y))
    weighted = SteinRFFRegressor(**SMALL).fit(X, Y, sample_weight=times)
    repeated = SteinRFFRegressor(**SMALL).fit(
        np.repeat(X, times, axis=0), np.repeat(Y, times)
    )
    assert_array_equal(weighted.predict(NEW), repeated.predict(NEW))


def test_units_of_y():
    small = SteinRFFRegressor(**SMALL).fit(X, Y)
    large = SteinRFFRegressor(**SMALL).fit(X, 1000.0 * Y + 7.0)
    assert_allclose(large.predict(NEW), 1000.0 * small.predict(NEW) + 7.0, rtol=1e-6)
    assert_allclose(large.noise_variance_, 1e6 * small.noise_variance_, rtol=1e-6)
    shift = len(Y) * np.log(1000.0)
    assert_allclose(large.log_evidence_, small.log_evidence_ - shift, rtol=1e-6)


def test_pickle(fitted):
    other = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(other.predict(NEW), fitted.predict(NEW))


# ---- Edges -------------------------------------------------------------------------

EDGES = {
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "fewer rows than functions": (X[:15], Y[:15]),
    "one column": data(60, 1),
    "fifty columns": data(60, 50),
    "constant column": (np.column_stack((X, np.ones(60))), Y),
    "one-hot": (np.eye(4)[np.arange(60) % 4], np.arange(60.0) % 4),
    "duplicates": (np.repeat(X[:20], 3, axis=0), np.repeat(Y[:20], 3)),
    "ties": (np.round(2.0 * X), Y),
    "constant y": (X, np.ones(60)),
    "noiseless": data(60, noise=0.0),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.filterwarnings("ignore")
def test_edges_are_answered(name):
    x, y = EDGES[name]
    model = SteinRFFRegressor(**SMALL | {"max_iter": 10}).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)
    assert np.all(np.isfinite(model.log_predictive_density(x, y)))
    assert np.all(np.isfinite(model.sample_y(x, 2)))


@pytest.mark.parametrize("noise", [1e-12, 1e-8])
def test_tiny_noise(noise):
    settings = FIXED | {"noise_variance": noise, "max_iter": 20}
    model = SteinRFFRegressor(**settings, n_components=2, n_frequencies=40).fit(X, Y)
    assert np.all(np.isfinite(model.predict(NEW, return_std=True)))


# ---- Callbacks ---------------------------------------------------------------------


class StopAfter:
    """Stop after some rounds."""

    def __init__(self, rounds):
        self.rounds, self.seen = rounds, []

    def setup(self, estimator, context):
        self.seen = []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.max_subtasks != 0:
            return False
        self.seen.append(fitted_estimator.log_evidence_)
        assert np.all(np.isfinite(fitted_estimator.predict(NEW)))
        return len(self.seen) == self.rounds


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="scikit-learn has callbacks since 1.9",
)
def test_a_callback_stops_the_search():
    stop = StopAfter(2)
    model = SteinRFFRegressor(**SMALL | {"max_iter": 100, "refit": False})
    model.set_callbacks(stop).fit(X, Y)
    assert len(stop.seen) == 2
    assert model.n_iter_ == 20
    assert clone(model).set_params(max_iter=20).fit(X, Y).n_iter_ == 20


@pytest.mark.parametrize("component", [2, 99, -1, True, 1.0, "a"])
def test_components_that_are_not_there(component):
    model = SteinRFFRegressor(
        RBF(), optimizer=None, noise_variance=0.1, n_components=2, n_frequencies=5,
        max_iter=2, random_state=0,
    ).fit(np.arange(9.0)[:, np.newaxis], np.arange(9.0))  # fmt: skip
    with pytest.raises(ValueError, match=rf"one of 0, ..., 1; got {component!r}"):
        model.export_features(component)
    assert model.export_features(np.int64(1)).transform([[0.0]]).shape == (1, 10)


@pytest.mark.parametrize("n_hidden", [(True,), (np.True_,), (2, False)])
def test_sizes_of_layers_are_counts(n_hidden):
    with pytest.raises(ValueError, match="n_hidden must hold the sizes"):
        SteinRFFRegressor(n_hidden=n_hidden).fit([[0.0], [1.0]], [0.0, 1.0])
