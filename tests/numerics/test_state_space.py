"""The filter of Markov processes, products with their covariance, and their paths."""

from functools import partial

import numpy as np
import pytest
from numba.core import config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, Matern

from skgpx._numerics.paths import SPACING, path_values
from skgpx._numerics.sections import Sections
from skgpx._numerics.state_space import Cascades, Series
from skgpx.kernels import Linear, StateSpace
from tests.numerics.conftest import LARGEST_Z, moment_scores, slopes

SEASON = ExpSineSquared(0.7, 2.0)
FIXED_PERIOD = ExpSineSquared(1.0, 3.0, periodicity_bounds="fixed")
KERNELS = [
    Matern(1.3, nu=0.5),
    2.0 * Matern(1.3, nu=1.5),
    Matern(2.0, nu=3.5),
    Matern(1.2, nu=2.5) * ConstantKernel(0.5) + 1.5 * ExpSineSquared(0.9, 2.1),
    1.1 * Matern(3.0, nu=1.5) * SEASON
    + 0.3 * Matern(0.5, nu=0.5)
    + Linear(0.4, centre=5.0)
    + ConstantKernel(2.0),
    (Matern(1.0, nu=3.5) + Matern(0.3, nu=0.5)) * ConstantKernel(2.0) * FIXED_PERIOD,
]
ORDERS = [1, 2, 3, 4]


def matern(order, length_scale=1.0):
    return Matern(length_scale, nu=order - 0.5)


def cascade(order, length_scale=1.0):
    return StateSpace.of(matern(order, length_scale), 1).cascades()


def series_of(form, times, noise):
    return Series(form.cascades(), times, form.features(times), noise)


def log_density(K, y, noise):
    K = K + np.diag(noise)
    _, log_determinant = np.linalg.slogdet(K)
    return -0.5 * (y @ np.linalg.solve(K, y) + log_determinant)


@pytest.mark.parametrize("kernel", KERNELS)
def test_density_and_its_slopes(kernel, rng):
    n = 120
    times = np.sort(rng.uniform(0.0, 10.0, n))
    times[40:45] = times[40]
    y = np.sin(times) + 0.3 * rng.standard_normal(n)
    noise = rng.uniform(0.05, 0.2, n)
    form = StateSpace.of(kernel, 1)
    features = form.features(times)
    smoothed = series_of(form, times, noise).filtered(y).smoothed(with_slopes=True)

    def dense(theta):
        K = kernel.clone_with_theta(theta)(times[:, np.newaxis])
        return log_density(K, y, noise)

    # a season leaves 1e-7 of its variance out, and more of its slopes
    assert_allclose(smoothed.filtered.value, dense(kernel.theta), atol=1e-4)
    gradient = form.gradient(
        len(kernel.theta), times, smoothed.slopes, features, smoothed.feature_slopes
    )
    assert_allclose(gradient, slopes(dense, kernel.theta), rtol=5e-5, atol=2e-5)
    inverse = np.linalg.inv(kernel(times[:, np.newaxis]) + np.diag(noise))
    assert_allclose(smoothed.duals, inverse @ y, atol=1e-4)
    assert_allclose(smoothed.precisions, np.diag(inverse), rtol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_steps_of_any_size(order, rng):
    steps = np.geomspace(1e-9, 1e9, 150)
    times = np.cumsum(np.concatenate((steps, steps[::-1])))
    y = rng.standard_normal(len(times))
    noise = np.full(len(times), 0.09)
    distances = np.abs(times[:, np.newaxis] - times)
    for length_scale in (1e-6, 1.0, 1e6):
        kernel = matern(order, length_scale)
        series = series_of(StateSpace.of(kernel, 1), times, noise)
        # scikit-learn scales times before it subtracts them
        K = kernel(distances.reshape(-1, 1), np.zeros((1, 1))).reshape(distances.shape)
        assert_allclose(series.filtered(y).value, log_density(K, y, noise), rtol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_small_noise_loses_nothing(order, rng):
    times = np.sort(rng.uniform(0.0, 40.0, 200))
    y = np.sin(times)
    series = series_of(StateSpace.of(matern(order), 1), times, np.full(200, 1e-10))
    smoothed = series.filtered(y).smoothed()
    mean, variance = smoothed.moments(times, series.features)
    assert_allclose(mean, y, atol=1e-6)
    assert np.all(variance <= 1.0001e-10)
    assert np.all(variance > 0.0)
    mean, _ = smoothed.moments(times + 1e-4, series.features)
    assert_allclose(mean, np.sin(times + 1e-4), atol=1e-3)


def test_rows_without_a_value(rng):
    times = np.sort(rng.uniform(0.0, 10.0, 150))
    y = rng.standard_normal(150)
    has_value = rng.random(150) < 0.7
    form = StateSpace.of(KERNELS[4], 1)
    noise = np.full(150, 0.1)
    of_rows = series_of(form, times[has_value], noise[has_value])
    of_all = series_of(form, times, np.where(has_value, noise, np.inf))
    smaller = of_rows.filtered(y[has_value])
    larger = of_all.filtered(np.where(has_value, y, 1e6))
    assert_allclose(larger.value, smaller.value)
    places = rng.uniform(-1.0, 11.0, 30)
    features = form.features(places)
    assert_allclose(
        larger.smoothed().moments(places, features),
        smaller.smoothed().moments(places, features),
    )
    duals = of_all.solve(y[:, np.newaxis])
    assert_allclose(duals[has_value], of_rows.solve(y[has_value, np.newaxis]))
    assert not duals[~has_value].any()


def test_rows_that_follow_filtered_ones(rng):
    times = np.sort(rng.uniform(0.0, 10.0, 300))
    y = rng.standard_normal(300)
    form = StateSpace.of(KERNELS[3], 1)
    series = series_of(form, times, np.full(300, 0.1))
    whole = series.filtered(y)
    for n in (1, 63, 64, 65, 200, 299):
        earlier = series_of(form, times[:n], np.full(n, 0.1)).filtered(y[:n])
        assert series.filtered(y, earlier).value == whole.value


@pytest.mark.parametrize("kernel", [*KERNELS[:4], SEASON * Matern(2.0, nu=1.5)])
def test_products_with_the_covariance(kernel, rng):
    times = np.sort(rng.uniform(0.0, 10.0, 90))
    times[20:24] = times[20]
    weights = rng.standard_normal((90, 3))
    form = StateSpace.of(kernel, 1)
    noise = rng.uniform(0.05, 0.2, 90)
    C = kernel(times[:, np.newaxis]) + np.diag(noise)
    duals = series_of(form, times, noise).solve(weights)
    assert_allclose(C @ duals, weights, atol=1e-5)
    # the cascades alone
    places = np.concatenate((rng.uniform(-2.0, 12.0, 40), times[18:26]))
    sections = Sections.of(form.cascades(), times, weights)
    first = np.zeros(len(places), dtype=np.int64)
    values, _ = sections.values(places, first, first + 3)
    difference = values - kernel(places[:, np.newaxis], times[:, np.newaxis]) @ weights
    if form.features(times).shape[1]:
        seasons = form.features(places) @ (form.features(times).T @ weights)
        difference += seasons
    assert_allclose(difference, 0.0, atol=1e-5)
    value, slope = sections.values(places, first + 1, first + 2, with_slopes=True)
    assert_array_equal(value, values[:, 1:2])
    if form.cascades().orders.min() > 1:
        h = 1e-5
        above, below = (
            sections.values(places + step, first + 1, first + 2)[0] for step in (h, -h)
        )
        # away from rows, where the second derivative jumps
        assert_allclose(slope, (above - below) / (2.0 * h), atol=1e-3)


# ---- Paths ---------------------------------------------------------------------------

# in plain Python a draw takes a hundred times as long
S = 400 if config.DISABLE_JIT else 4000


def drawn(cascades, times, n_draws=S, seed=0):
    seeds = np.random.default_rng(seed).integers(0, 2**32, (n_draws, 2))
    first = np.zeros(len(times), dtype=np.int64)
    return path_values(cascades, seeds, times, first, first + n_draws)[0]


@pytest.mark.parametrize("order", ORDERS)
def test_paths_have_the_law_of_the_process(order):
    rate = np.sqrt(2.0 * order - 1.0)
    # next to one another, on both sides of an anchor, and far from these
    anchor = SPACING / rate
    places = np.array(
        [-30.1, 0.3, 0.5, 1.7, 5.0, anchor - 0.4, anchor, anchor + 0.4, 1e8]
    )
    values = drawn(cascade(order), places)
    covariance = matern(order)(places[:, np.newaxis])
    # what the last intervals leave out
    covariance += 1e-5 * np.eye(len(places))
    scores = moment_scores(values, np.zeros(len(places)), covariance)
    assert np.abs(scores).max() < LARGEST_Z


def test_paths_of_a_season():
    kernel = 1.5 * Matern(3.0, nu=1.5) * SEASON
    cascades = StateSpace.of(kernel, 1).cascades()
    places = np.array([0.0, 0.4, 1.1, 2.0, 3.0, 12.0])
    values = drawn(cascades, places)
    covariance = kernel(places[:, np.newaxis]) + 1e-4 * np.eye(len(places))
    scores = moment_scores(values, np.zeros(len(places)), covariance)
    assert np.abs(scores).max() < LARGEST_Z


@pytest.mark.parametrize("order", ORDERS)
def test_anchors_are_independent(order):
    at_anchors = SPACING / np.sqrt(2.0 * order - 1.0) * np.arange(-4.0, 5.0)
    values = drawn(cascade(order), at_anchors)
    scores = moment_scores(values, np.zeros(9), np.eye(9))
    assert np.abs(scores).max() < LARGEST_Z


@pytest.mark.parametrize("order", ORDERS)
def test_paths_do_not_depend_on_the_order_of_evaluation(order, rng):
    evaluate = partial(drawn, cascade(order, 0.01), n_draws=5)
    times = rng.uniform(-3.0, 3.0, 200)
    values = evaluate(times)
    assert_array_equal(evaluate(times[::-1])[::-1], values)
    assert_array_equal(evaluate(times[7:8]), values[7:8])
    seeds = np.random.default_rng(0).integers(0, 2**32, (5, 2))
    one = rng.integers(0, 5, len(times))
    chosen, _ = path_values(cascade(order, 0.01), seeds, times, one, one + 1)
    assert_array_equal(chosen[:, 0], values[np.arange(200), one])


@pytest.mark.parametrize("order", ORDERS[1:])
def test_slopes_of_paths(order, rng):
    cascades = Cascades(*cascade(order)._replace(frequencies=np.array([1.3])))
    times = rng.uniform(-3.0, 3.0, 50)
    seeds = rng.integers(0, 2**32, (2, 2))
    first = np.zeros(50, dtype=np.int64)
    _, slope = path_values(cascades, seeds, times, first, first + 2, with_slopes=True)
    h = 1e-6
    above, below = (
        path_values(cascades, seeds, times + step, first, first + 2)[0]
        for step in (h, -h)
    )
    assert_allclose(slope, (above - below) / (2.0 * h), atol=1e-5)
