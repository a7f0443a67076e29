"""SteinRFFRegressor: Bayesian ridge, mixtures, learning, sums over rows, order."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import expon, multivariate_normal, norm, t, uniform
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    WhiteKernel,
)

from skgpx import SteinRFFRegressor
from skgpx._numerics.wave_evidence import Waves, wave_gradient
from skgpx._stein._wave_mixture import NetworkWarp
from skgpx.exceptions import FitWarning
from skgpx.kernels import Additive, Columns
from tests.numerics.conftest import slopes

# Nothing is searched: the kernel as it is, all rows learn.
FIXED = {
    "kernel": 1.5 * RBF([0.7, 1.2]),
    "optimizer": None,
    "noise_variance": 0.04,
    "normalize_y": False,
    "validation_fraction": 0.0,
    "random_state": 0,
}
DEEP = {"hidden_layer_sizes": (8, 6)}
PAIRS = {"non_stationary": True}
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


def test_spectrum_is_the_mean_square_of_each_wave(fitted):
    n, shape = 4000, fitted.frequencies_.shape[:2]
    assert fitted.spectrum_.shape == shape
    rng, scale = np.random.default_rng(0), fitted._state.scale
    for k, part in enumerate(fitted.posterior_.models):
        weights = part.weights.draw(n, rng)[:, 0]
        cosine, sine = np.split(scale * weights, 2)
        squares = (
            0.5 * part.basis.amplitudes[:, np.newaxis] ** 2 * (cosine**2 + sine**2)
        )
        error = squares.std(axis=1) / np.sqrt(n)
        z = (squares.mean(axis=1) - fitted.spectrum_[k]) / error
        assert np.abs(z).max() < 5.0


# ---- Learning ----------------------------------------------------------------------


@pytest.mark.parametrize("repulsion", [None, 0.0, 0.1])
def test_learning_raises_the_evidence(repulsion):
    settings = FIXED | {"n_components": 3, "n_frequencies": 8}
    before = SteinRFFRegressor(**settings, max_iter=0).fit(X, Y)
    after = SteinRFFRegressor(**settings, max_iter=40, repulsion=repulsion).fit(X, Y)
    assert after.log_evidence_ > before.log_evidence_ + 5.0
    # the first loss is that of the start, of one component exactly
    assert len(after.loss_curve_) == 40
    assert after.loss_curve_[-1] < after.loss_curve_[0]
    one = FIXED | {"n_components": 1, "n_frequencies": 33}
    start, step = (SteinRFFRegressor(**one, max_iter=T).fit(X, Y) for T in (0, 1))
    assert_allclose(step.loss_curve_, [-start.log_evidence_ / len(Y)], rtol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(8, 2), (120, 10)])
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


WAVES = {
    "one column of five": (
        (400, 5, -2.0, 0.1, 2, 0.05),
        None,
        lambda X: np.sin(3.0 * np.pi * X[:, 0]),
    ),
    "a lengthscale that is too long": (
        (600, 3, -1.0, 0.1, 0, 0.06),
        RBF([1.0, 2.0, 64.0]),
        lambda X: np.sin(X[:, 0]) + X[:, 1] + 0.5 * np.sin(6.0 * X[:, 2]),
    ),
    "a hundred cycles": (
        (800, 1, 0.0, 0.2, 1, 0.1),
        None,
        lambda X: np.sin(200.0 * np.pi * X[:, 0] + 1.0),
    ),
}


@pytest.mark.parametrize("name", WAVES)
def test_waves_are_found(name):
    """By the error at fresh rows."""
    (n, d, low, noise, seed, bound), kernel, truth = WAVES[name]
    rng = np.random.default_rng(seed)
    rows = rng.uniform(low, -low if low else 1.0, size=(n + 500, d))
    y = truth(rows) + noise * rng.standard_normal(n + 500)
    model = SteinRFFRegressor(
        kernel, n_components=2, n_frequencies=50, random_state=0
    ).set_params(optimizer="evidence" if kernel is None else None)
    error = model.fit(rows[:n], y[:n]).predict(rows[n:]) - truth(rows[n:])
    assert np.sqrt(np.mean(error**2)) < bound


@pytest.mark.parametrize("seed", [1, 3])
def test_a_wave_at_which_a_component_begins_by_chance_is_found(seed):
    """What this component leaves has no wave, but what the next one leaves has it."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(1300, 1))
    truth = np.sin(200.0 * np.pi * x[:, 0] + 1.0)
    y = truth + 0.2 * rng.standard_normal(1300)
    model = SteinRFFRegressor(n_components=3, n_frequencies=100, random_state=seed)
    error = model.fit(x[:800], y[:800]).predict(x[800:]) - truth[800:]
    assert np.sqrt(np.mean(error**2)) < 0.06


def test_structure_that_is_missed_is_a_finding():
    x = np.linspace(0.0, 1.0, 400)[:, np.newaxis]
    y = np.sin(60.0 * x[:, 0] ** 2)
    model = SteinRFFRegressor(RBF(3.0), optimizer=None, max_iter=0, random_state=0)
    with pytest.warns(FitWarning, match="autocorrelated along column 0"):
        model.fit(x, y)


def test_the_evidence_of_a_mixture_is_the_mean_of_its_components():
    """log p(y) = log mean_m N(y | 0, Φ_m Φ_mᵀ + σ² I)."""
    settings = FIXED | {"n_components": 3, "n_frequencies": 12, "max_iter": 0}
    model = SteinRFFRegressor(**settings).fit(X, Y)
    densities = []
    for component in range(3):
        phi = features(model, X, component)
        covariance = phi @ phi.T + FIXED["noise_variance"] * np.eye(len(Y))
        densities.append(multivariate_normal(np.zeros(len(Y)), covariance).logpdf(Y))
    expected = logsumexp(densities) - np.log(3.0)
    assert_allclose(model.log_evidence_, expected, rtol=1e-10)


# ---- Waves behind a learned network ------------------------------------------------


def warp_of():
    rng = np.random.default_rng(3)
    unit = np.array([0.7, 1.2])
    warp = NetworkWarp((8, 6), X, np.ones(len(X)), unit, rng)
    # away from zero, so that no derivative vanishes
    warp.parameters[:] += 0.3 * rng.standard_normal(len(warp.parameters))
    return warp


def test_evidence_in_the_parameters_of_the_network():
    warp, rng = warp_of(), np.random.default_rng(4)
    waves = Waves(rng.normal(size=(7, 2)), rng.uniform(0.2, 0.6, 7), 0.1)
    weights = rng.integers(1, 4, len(Y)).astype(float)

    def value(parameters):
        moved = copy.copy(warp)
        moved.parameters = parameters
        mapped = moved(X)
        return wave_gradient(mapped, Y, weights, waves).value

    mapped, pullback = warp.with_pullbacks(X)
    assert_array_equal(mapped, warp(X))
    found = wave_gradient(mapped, Y, weights, waves, inputs=True)
    expected = slopes(value, warp.parameters)
    got = pullback(found.inputs)[1]
    assert_allclose(got, expected, atol=1e-7 * np.abs(expected).max())

    def log_prior(parameters):
        total = 0.0
        for weights, biases in warp.network.layers(parameters):
            total -= 0.5 * len(weights) * np.sum(weights**2) + 0.5 * np.sum(biases**2)
        return total

    expected = slopes(log_prior, warp.parameters)
    assert_allclose(warp.prior_slope(), expected, rtol=1e-7, atol=1e-8)


def test_learning_begins_at_the_stationary_model():
    deep = SteinRFFRegressor(**SMALL | DEEP | {"max_iter": 0}).fit(X, Y)
    plain = SteinRFFRegressor(**SMALL | {"max_iter": 0}).fit(X, Y)
    for one, other in zip(
        deep.predict(NEW, return_std=True),
        plain.predict(NEW, return_std=True),
        strict=True,
    ):
        assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    assert_array_equal(deep.frequencies_, plain.frequencies_)


def front(n, seed):
    """Smooth on both sides of a curve, along which it rises steeply."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, (n, 2))
    beyond = 1.0 / (1.0 + np.exp(40.0 * (0.3 * np.sin(3.0 * rows[:, 0]) - rows[:, 1])))
    y = np.sin(2.0 * rows[:, 0]) + 2.0 * beyond + 0.1 * rng.standard_normal(n)
    return rows, y


def test_a_front_is_better_behind_a_network():
    X, y = front(400, 1)
    settings = {"n_components": 2, "n_frequencies": 40, "max_iter": 150}
    models = [
        SteinRFFRegressor(**settings, hidden_layer_sizes=hidden, random_state=0).fit(
            X, y
        )
        for hidden in ((), (16, 16))
    ]
    plain, deep = (model.log_predictive_density(*front(1000, 2)) for model in models)
    gain = deep - plain
    assert gain.mean() / (gain.std() / np.sqrt(len(gain))) > 4.5
    assert gain.mean() > 0.1


def test_draws_have_gradients_and_can_be_conditioned():
    fitted = SteinRFFRegressor(**SMALL | DEEP).fit(X, Y)
    draws = fitted.sample_functions(3, random_state=0)
    assert draws.n_features == 2
    values, gradients = draws.value_and_grad(NEW)
    assert_allclose(values, draws(NEW), rtol=1e-9, atol=1e-9)
    for k, unit in enumerate(np.eye(2)):
        rise = (draws(NEW + 1e-6 * unit) - draws(NEW - 1e-6 * unit)) / 2e-6
        assert_allclose(gradients[..., k], rise, rtol=1e-4, atol=1e-5)
    model = fitted.posterior_.condition(NEW[:3], np.zeros((3, 1)), np.full(3, 1e-9))
    mean, variance = model.marginals(NEW[:3]).moments()
    assert np.abs(mean).max() < 1e-2
    assert variance.max() < 1e-2


def test_one_layer_is_a_number():
    few = SMALL | {"max_iter": 3}
    one, other = (
        SteinRFFRegressor(**few, hidden_layer_sizes=sizes).fit(X, Y).predict(NEW)
        for sizes in (4, [4])
    )
    assert_array_equal(one, other)


# ---- Pairs of frequencies ------------------------------------------------------------


def pair_features(model, X, component, origin):
    """Waves of the mean frequency, times those of half the difference."""
    first, second = np.moveaxis(model.frequencies_[component], 1, 0)
    centred = X - origin
    phases = 0.5 * centred @ (first + second).T
    envelope = model.amplitudes_ * np.cos(0.5 * centred @ (first - second).T)
    return np.hstack((envelope * np.cos(phases), envelope * np.sin(phases)))


def test_pairs_are_bayesian_ridge_on_their_features():
    """With more rows, whose origin is still the mean of the first."""
    one = FIXED | PAIRS | {"n_components": 1, "n_frequencies": 15, "max_iter": 15}
    away = np.array([7.0, -3.0])
    model = SteinRFFRegressor(**one).fit(X[:40] + away, Y[:40])
    model.partial_fit(X[40:] + away, Y[40:])
    assert model.frequencies_.shape == (1, 15, 2, 2)
    assert np.ptp(model.frequencies_, axis=2).min() > 0.0
    origin = X[:40].mean(axis=0)
    F, new = (pair_features(model, rows, 0, origin) for rows in (X, NEW))
    A = F.T @ F / 0.04 + np.eye(30)
    expected = new @ np.linalg.solve(A, F.T @ Y) / 0.04
    covariance = new @ np.linalg.solve(A, new.T)
    mean, got = model.predict(NEW + away, return_cov=True, include_noise=False)
    assert_allclose(mean, expected, atol=1e-9)
    assert_allclose(got, covariance, atol=1e-9)
    K = F @ F.T + 0.04 * np.eye(len(Y))
    evidence = multivariate_normal(np.zeros(len(Y)), K).logpdf(Y)
    assert_allclose(model.log_evidence_, evidence, rtol=1e-9)
    draws = model.sample_functions(2000, random_state=0)(NEW[:4] + away)
    z = (draws.mean(axis=1) - mean[:4]) / np.sqrt(np.diag(covariance)[:4] / 2000)
    assert np.abs(z).max() < 4.5
    # an entry of the covariance of normal draws has this standard error
    C = covariance[:4, :4]
    error = np.sqrt((C**2 + np.outer(np.diag(C), np.diag(C))) / 2000)
    assert np.abs((np.cov(draws) - C) / error).max() < 4.5


@pytest.mark.parametrize("how", [{}, DEEP], ids=str)
def test_draws_of_pairs(how):
    model = SteinRFFRegressor(**SMALL | PAIRS | how).fit(X, Y)
    part = model.posterior_.models[0]
    weights = np.random.default_rng(0).normal(size=(24, 1, 3))
    drawn = part.basis.draw(weights, np.random.default_rng(1))(NEW)
    assert_allclose(drawn, part.basis(NEW) @ weights[:, 0], atol=1e-10)
    draws = model.sample_functions(3, random_state=0)
    gradients = draws.value_and_grad(NEW)[1]
    for k, unit in enumerate(np.eye(2)):
        rise = (draws(NEW + 1e-6 * unit) - draws(NEW - 1e-6 * unit)) / 2e-6
        assert_allclose(gradients[..., k], rise, rtol=1e-4, atol=1e-5)
    observed = model.posterior_.condition(NEW[:3], np.zeros((3, 1)), np.full(3, 1e-9))
    mean, variance = observed.marginals(NEW[:3]).moments()
    assert np.abs(mean).max() < 1e-2
    assert variance.max() < 1e-2


def test_few_pairs_follow_a_bump_better_than_as_many_waves():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(800, 1))
    f = np.sin(8.0 * x[:, 0]) + np.exp(-0.5 * ((x[:, 0] - 0.5) / 0.03) ** 2)
    y = f[:300] + 0.1 * rng.standard_normal(300)
    few = {"n_components": 3, "n_frequencies": 10, "random_state": 1}
    waves, pairs = (
        SteinRFFRegressor(**few | how).fit(x[:300], y) for how in ({}, PAIRS)
    )
    assert pairs.log_evidence_ > waves.log_evidence_ + 5.0
    gain = (waves.predict(x[300:]) - f[300:]) ** 2
    gain -= (pairs.predict(x[300:]) - f[300:]) ** 2
    assert gain.mean() > 0.0


def test_what_pairs_refuse(fitted):
    with pytest.raises(ValueError, match="max_iter of at least 1"):
        SteinRFFRegressor(**SMALL | PAIRS | {"max_iter": 0}).fit(X, Y)
    with pytest.raises(ValueError, match="non_stationary"):
        SteinRFFRegressor(**SMALL | {"non_stationary": "pairs"}).fit(X, Y)
    model = SteinRFFRegressor(**SMALL | PAIRS).fit(X, Y)
    with pytest.raises(ValueError, match="needs a stationary model"):
        model.learned_kernel(NEW)
    with pytest.raises(ValueError, match="the same frequencies"):
        fitted.merge(model)


# ---- Held-out rows -----------------------------------------------------------------


def bounded(length_scale, noise_level):
    """A kernel that has hardly any freedom, but is not fixed."""
    amplitude = ConstantKernel(1.0, (0.9, 1.1))
    noise = WhiteKernel(noise_level, (0.9 * noise_level, 1.1 * noise_level))
    return amplitude * RBF(length_scale, "fixed") + noise


@pytest.mark.filterwarnings("ignore:.*at (its|their) bounds")
def test_variance_scale_finds_noise_that_is_too_small():
    x, y = data(400, noise=0.5)
    settings = SMALL | {"kernel": bounded(1.0, 1e-3), "max_iter": 0}
    calibrated = SteinRFFRegressor(**settings).fit(x, y)
    plain = SteinRFFRegressor(**settings | {"validation_fraction": 0.0}).fit(x, y)
    new, target = data(400, seed=2, noise=0.5)
    assert calibrated.variance_scale_ > 20.0
    # the two have different means of y
    assert_allclose(calibrated.predict(new), plain.predict(new), atol=0.01)
    gain = calibrated.log_predictive_density(new, target).mean()
    assert gain > plain.log_predictive_density(new, target).mean() + 5.0
    inside = (
        np.abs(target - calibrated.predict(new))
        < 1.96 * calibrated.predict(new, return_std=True)[1]
    )
    assert 0.85 < inside.mean() <= 1.0


@pytest.mark.filterwarnings("ignore:.*at (its|their) bounds")
def test_held_out_density_of_data_without_noise():
    """The variances that it is taken with may be far below those of the prior."""
    x, y = data(200, 1, noise=0.0)
    settings = SMALL | {"kernel": bounded(0.5, 1.0 / np.var(y)), "max_iter": 1}
    model = SteinRFFRegressor(**settings).fit(x, y)
    # errors of zero under a seventh of the noise variance would have this density
    most = -0.5 * np.log(2.0 * np.pi * np.exp(-2.0) / np.var(y))
    assert model.validation_curve_[0] > most
    assert model.variance_scale_ < 0.1


@pytest.mark.parametrize("n", [40, 60])
def test_learning_stops_where_it_gains_nothing(n):
    """By held-out rows, or by the evidence where rows are too few for these."""
    x, y = data(n, noise=1.0)
    settings = SMALL | {"max_iter": 150}
    model = SteinRFFRegressor(**settings).fit(x, y)
    assert model.n_iter_ == len(model.loss_curve_) - 1 < 100
    model.set_params(early_stopping=False).fit(x, y)
    assert model.n_iter_ == len(model.loss_curve_) == 150


def test_steps_fall_with_the_columns_that_frequencies_move_in():
    x, y = data(20, 700)
    settings = SMALL | {"optimizer": None, "early_stopping": False}
    wide = SteinRFFRegressor(RBF(10.0), **settings).fit(x, y)
    # 20 * 256 / 700 = 7.3
    assert wide.n_iter_ == 8
    narrow = SteinRFFRegressor(Columns(RBF(1.0), [0, 699]), **settings).fit(x, y)
    assert narrow.n_iter_ == 20


def test_waves_of_sums_stay_in_their_columns(rng):
    X = rng.uniform(-1.0, 1.0, (400, 5))
    f = np.sum(np.sin(4.0 * X + np.arange(5)), axis=1)
    y = f + 0.1 * rng.standard_normal(400)
    kernel = Additive(RBF(0.5 * np.ones(5)), order=2, variances=[3.0, 1.0])
    settings = {"optimizer": None, "n_frequencies": 60, "noise_variance": 0.01}
    model = SteinRFFRegressor(kernel, **settings, random_state=0).fit(X, y)
    n_columns = np.count_nonzero(model.frequencies_, axis=-1)
    assert n_columns.min() == 1
    assert n_columns.max() == 2
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.15


def pairs_of_many_columns(n, d, seed):
    """A sum of functions of one column, and of two of the ``d (d - 1) / 2`` pairs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    f = np.sum(np.sin(4.0 * X + np.arange(d)), axis=1)
    f += 3.0 * X[:, 0] * X[:, 1] - 3.0 * X[:, 4] * X[:, 7]
    return X, f + 0.2 * rng.standard_normal(n), f


@pytest.mark.parametrize("n_targets", [1, 2])
def test_waves_go_to_the_pairs_that_matter(n_targets):
    X, y, f = pairs_of_many_columns(600, 12, seed=0)
    kernel = Additive(RBF(np.ones(12)), variances=[6.0, 4.0])
    y = y if n_targets == 1 else np.column_stack((y, f))
    settings = {"n_frequencies": 60, "max_iter": 0, "noise_variance": 0.04}
    model = SteinRFFRegressor(
        kernel, n_components=2, optimizer=None, normalize_y=False, **settings
    ).fit(X, y)
    is_seen = model.frequencies_ != 0.0
    columns, counts = np.unique(is_seen[0], axis=0, return_counts=True)
    # all components have the same subsets of columns
    assert np.array_equal(is_seen[0], is_seen[1])
    n_seen = columns.sum(axis=1)
    assert set(n_seen) == {1, 2}
    assert np.array_equal(columns[n_seen == 1].sum(axis=0), np.ones(12))
    first, second = np.argsort(-counts * (n_seen == 2))[:2]
    found = {tuple(np.flatnonzero(columns[i])) for i in (first, second)}
    assert found == {(0, 1), (4, 7)}
    # the variance is that of the kernel
    assert_allclose(np.sum(model.amplitudes_**2, axis=0), 10.0)


def test_a_sum_is_found_by_default():
    X, y, _ = pairs_of_many_columns(5400, 12, seed=1)
    new, _, f = pairs_of_many_columns(500, 12, seed=2)
    model = SteinRFFRegressor(n_components=2, random_state=0).fit(X, y)
    assert isinstance(model.kernel_, Additive)
    assert np.count_nonzero(model.frequencies_, axis=-1).max() == 2
    assert np.std(model.predict(new) - f) < 0.05 * np.std(f)


def test_waves_of_many_subsets_have_random_columns():
    X, y, _ = pairs_of_many_columns(100, 64, seed=0)
    settings = {"n_frequencies": 30, "max_iter": 0, "optimizer": None}
    model = SteinRFFRegressor(Additive(RBF(1.0)), **settings, random_state=0).fit(X, y)
    n_columns = np.count_nonzero(model.frequencies_, axis=-1)
    assert set(n_columns.ravel()) == {1, 2}
    # columns of a component are drawn for themselves
    first, second = model.frequencies_[:2] != 0.0
    assert not np.array_equal(first, second)


def test_more_columns_than_a_sobol_net_has():
    x, y = data(10, 21_300)
    settings = {"n_components": 1, "n_frequencies": 4, "optimizer": None}
    model = SteinRFFRegressor(RBF(50.0), **settings, random_state=0).fit(x, y)
    assert np.all(np.isfinite(model.predict(x)))


# ---- Sums over rows ----------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, DEEP, PAIRS], ids=str)
def test_chunks_are_one_fit(how):
    fitted, (more, y) = SteinRFFRegressor(**SMALL | how).fit(X, Y), data(90, seed=3)
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


def test_other_frequencies_cannot_be_merged(fitted):
    for how in ({"random_state": 1}, {"n_frequencies": 5}):
        other = SteinRFFRegressor(**SMALL | how).fit(X, Y)
        with pytest.raises(ValueError, match="the same frequencies"):
            fitted.merge(other)
    with pytest.raises(TypeError):
        fitted + 1


# ---- Order, threads, weights, units ------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"repulsion": None}, DEEP, PAIRS], ids=str)
def test_order_of_rows_threads_and_repetitions_change_no_bit(how):
    order = np.random.default_rng(0).permutation(len(Y))
    model = SteinRFFRegressor(**SMALL | how).fit(X, Y)
    others = [
        clone(model).fit(X[order], Y[order]),
        clone(model).set_params(n_jobs=2).fit(X, Y),
        pickle.loads(pickle.dumps(model)),
    ]
    with joblib.parallel_config("threading", n_jobs=3):
        others.append(clone(model).fit(X, Y))
    for other in others:
        assert_array_equal(other.frequencies_, model.frequencies_)
        assert_array_equal(other.predict(NEW), model.predict(NEW))
    times = np.random.default_rng(0).integers(0, 3, len(Y))
    weighted = clone(model).fit(X, Y, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    assert_array_equal(weighted.predict(NEW), repeated.predict(NEW))


def test_units_of_y():
    small = SteinRFFRegressor(**SMALL).fit(X, Y)
    large = SteinRFFRegressor(**SMALL).fit(X, 1000.0 * Y + 7.0)
    assert_allclose(large.predict(NEW), 1000.0 * small.predict(NEW) + 7.0, rtol=1e-6)
    assert_allclose(large.noise_variance_, 1e6 * small.noise_variance_, rtol=1e-6)
    shift = len(Y) * np.log(1000.0)
    assert_allclose(large.log_evidence_, small.log_evidence_ - shift, rtol=1e-6)


# ---- Learned kernels -----------------------------------------------------------------


def test_the_learned_kernel_is_the_prior_covariance(fitted):
    learned = fitted.learned_kernel(NEW - NEW[0])
    for m, model in enumerate(fitted.posterior_.models):
        phi = features(fitted, NEW, m)
        assert_allclose(learned[m], phi @ phi[0], rtol=1e-10, atol=1e-10)
        assert model.basis.n_basis == phi.shape[1]
    with pytest.raises(ValueError, match="differences"):
        fitted.learned_kernel(np.zeros((2, 5)))
    both = clone(fitted).fit(X, np.column_stack((Y, 3.0 * Y)))
    kernels = both.learned_kernel(np.zeros((1, 2)))
    assert kernels.shape == (3, 1, 2)
    assert_allclose(kernels[..., 1], 9.0 * kernels[..., 0], rtol=0.5)


# ---- Priors of the frequencies -------------------------------------------------------


def test_one_prior_in_every_form():
    plain = SteinRFFRegressor(**FIXED | SMALL)

    def learned(prior, weight=1.0):
        given = {"frequency_prior": prior, "frequency_prior_weight": weight}
        return clone(plain).set_params(**given).fit(X, Y).frequencies_

    by_kernel = learned(RBF(0.5))
    normal = multivariate_normal(np.zeros(2), 4.0 * np.eye(2))
    for prior in (norm(0.0, 2.0), normal, lambda omega: -omega / 4.0):
        assert_allclose(learned(prior), by_kernel, rtol=1e-4, atol=1e-4)
    assert_array_equal(learned(RBF(0.5), weight=0.0), learned(None))
    # the kernel that they start from, with the weight of the paper's notation
    R, d, n = SMALL["n_frequencies"], 2, len(Y)
    own = learned(FIXED["kernel"], R * d / (R * d + n))
    assert_allclose(own, plain.fit(X, Y).frequencies_, rtol=1e-8)
    # a strong prior holds the frequencies where it is narrow
    assert np.std(learned(norm(0.0, 0.1), weight=100.0)) < 0.5 * np.std(by_kernel)


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_slopes_of_a_distribution_in_any_units_of_the_inputs(unit):
    model = SteinRFFRegressor(**FIXED | SMALL)
    model.set_params(kernel=RBF([0.7 * unit, 1.2 * unit]), frequency_prior_weight=1.0)
    scale = 1.0 / unit

    def score(omega):
        return -4.0 * omega / (3.0 * scale**2 + omega**2)

    def learned(prior):
        fit = clone(model).set_params(frequency_prior=prior).fit(unit * X, Y)
        return unit * fit.frequencies_

    assert_allclose(learned(t(3, scale=scale)), learned(score), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("prior", "named"),
    [
        (3.0, "frequency_prior"),
        (DotProduct(), "spectral"),
        (RBF([0.5, 1.0, 1.0]), "frequency_prior.* 2 columns.*one for each column"),
        (multivariate_normal(np.zeros(3)), "frequency_prior .* shape \\(n, 2\\)"),
        (lambda omega: omega / np.ones(3), "frequency_prior .* shape \\(n, 2\\)"),
        (lambda omega: omega[:, 0], "gradient of the log density"),
        (lambda omega: np.sqrt(-(omega**2)), "frequency_prior .* finite gradient"),
        (uniform(-1.0, 2.0), "frequency_prior .* unbounded support"),
        (expon(), "frequency_prior .* unbounded support"),
    ],
)
def test_priors_that_cannot_be(prior, named):
    model = SteinRFFRegressor(frequency_prior=prior, **FIXED | SMALL)
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=named):
        model.fit(X, Y)
