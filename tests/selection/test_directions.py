"""Default kernels of directions: functions of linear combinations of columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
)
from skgpx.kernels import Directions, length_scales, neighbor_coordinates

ANGLES = np.array([1.0, 1.0, -1.0, 0.0])


def problem(n=150, seed=0):
    """Rows of four columns, of which the sum of three matters."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 4))
    return X, np.sin(3.0 * X @ ANGLES) + 0.1 * rng.standard_normal(n)


X, Y = problem()
NEW = np.random.default_rng(9).uniform(-1.0, 1.0, (200, 4))
TRUTH = np.sin(3.0 * NEW @ ANGLES)


@pytest.fixture(scope="module")
def fitted():
    return PLSRegressor(random_state=0).fit(X, Y)


def test_the_direction_is_found(fitted):
    assert type(fitted.kernel_) is Directions
    first = np.asarray(fitted.kernel_.directions)[:, 0]
    cosine = first @ ANGLES / np.linalg.norm(first) / np.linalg.norm(ANGLES)
    assert abs(cosine) > 0.999
    # three times as accurate as with a lengthscale for each column, and honest
    of_columns = PLSRegressor(interaction_cst=[[0, 1, 2, 3]], random_state=0).fit(X, Y)
    errors = [
        np.sqrt(np.mean((m.predict(NEW) - TRUTH) ** 2)) for m in (fitted, of_columns)
    ]
    assert errors[0] < errors[1] / 3.0
    assert fitted.log_evidence_ > of_columns.log_evidence_ + 20.0
    mean, std = fitted.predict(NEW, return_std=True, include_noise=False)
    assert 0.4 < np.sqrt(np.mean(((TRUTH - mean) / std) ** 2)) < 1.6


def test_units_order_and_shifts_of_columns_do_not_matter(fitted):
    order, units = [2, 0, 3, 1], np.array([1.0, 1e3, 1e-2, 7.0])
    moved = PLSRegressor(random_state=0).fit(5.0 + (units * X)[:, order], Y)
    expected = fitted.predict(NEW, return_std=True)
    found = moved.predict(5.0 + (units * NEW)[:, order], return_std=True)
    # states are drawn in other coordinates before
    assert np.max(np.abs(found[0] - expected[0])) < 0.4 * np.min(expected[1])
    assert_allclose(found[1], expected[1], rtol=0.1)


@pytest.mark.parametrize(
    "estimator",
    [GWIRegressor(), ExactGPRegressor(), SpectralVGPRegressor(), DecoupledSampler()],
    ids=str,
)
def test_other_estimators_find_it(estimator):
    model = clone(estimator).set_params(random_state=0).fit(X, Y)
    assert np.sqrt(np.mean((model.predict(NEW) - TRUTH) ** 2)) < 0.1
    draws = model.sample_functions(20, random_state=0)
    values, slopes = draws.value_and_grad(NEW[:3])
    assert values.shape[0] == slopes.shape[0] == 3


def test_functions_of_columns_keep_them():
    """Sums of functions, one column, categories, and what the user states."""
    rng = np.random.default_rng(1)
    y = np.sin(4.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))
    assert "Directions" not in repr(PLSRegressor(random_state=0).fit(X, y).kernel_)
    for settings in (
        {"interaction_cst": "pairwise"},
        {"kernel": 1.0 * RBF(np.ones(4))},
    ):
        model = PLSRegressor(random_state=0, **settings).fit(X, Y)
        assert "Directions" not in repr(model.kernel_)
    table = pd.DataFrame(X).assign(group=pd.Categorical(np.arange(len(X)) % 3))
    table.columns = table.columns.astype(str)
    model = PLSRegressor(random_state=0).fit(table, Y)
    assert "Directions" not in repr(model.kernel_)


@pytest.mark.parametrize("n_neighbors", [0, 149])
def test_directions_are_columns_of_other_rows(n_neighbors):
    """A kernel of directions of X is its inner kernel of ``X @ D``."""
    D = np.random.default_rng(2).standard_normal((4, 3))
    inner = ConstantKernel(1.3) * RBF([0.6, 0.9, 2.0])
    model = PLSRegressor(
        Directions(inner, D), inducing=X[:30], n_neighbors=n_neighbors, optimizer=None
    )
    turned = clone(model).set_params(kernel=inner, inducing=X[:30] @ D)
    model.set_params(random_state=0).fit(X, Y)
    turned.set_params(random_state=0).fit(X @ D, Y)
    for kind in ({"return_std": True}, {"return_cov": True}):
        found = model.predict(NEW[:9], **kind)
        expected = turned.predict(NEW[:9] @ D, **kind)
        for part, expected_part in zip(found, expected, strict=True):
            assert_allclose(part, expected_part, rtol=1e-6, atol=1e-8)
    assert model.log_evidence_ == pytest.approx(turned.log_evidence_, rel=1e-8)


def test_rows_are_near_along_the_directions():
    D = np.random.default_rng(3).standard_normal((4, 4))
    kernel = Directions(RBF([0.5, 1.0, 2.0, 4.0]), D)
    distances = cdist(*[neighbor_coordinates(kernel, part) for part in (X, NEW)])
    assert_allclose(np.exp(-0.5 * distances**2), kernel(X, NEW), atol=1e-12)
    # along a column, in the lengthscale of the column
    step = length_scales(kernel, 4)[1] * np.eye(4)[1:2]
    assert kernel(X[:1], X[:1] + step)[0, 0] == pytest.approx(np.exp(-0.5))


def test_fits_continue_and_have_the_same_bits(fitted):
    again = PLSRegressor(random_state=0, n_jobs=2).fit(X, Y)
    assert_array_equal(again.predict(NEW), fitted.predict(NEW))
    model = PLSRegressor(
        random_state=0, hyperparameters="maximise", warm_start=True
    ).fit(X, Y)
    directions = model.kernel_.directions
    model.fit(X, Y)
    assert_array_equal(model.kernel_.directions, directions)
    more_X, more_y = problem(40, seed=5)
    model.partial_fit(more_X, more_y)
    assert np.sqrt(np.mean((model.predict(NEW) - TRUTH) ** 2)) < 0.1


def test_bad_directions_are_refused():
    with pytest.raises(ValueError, match="a row for each column"):
        PLSRegressor(Directions(RBF(), np.eye(3))).fit(X, Y)


@pytest.mark.parametrize(
    "directions", [np.zeros((4, 1)), np.empty((4, 0)), np.full((4, 2), np.nan), "x0"]
)
def test_directions_are_finite_and_not_zero(directions):
    with pytest.raises(ValueError, match="direction"):
        PLSRegressor(Directions(RBF(), directions)).fit(X, Y)


def test_slopes_along_columns(fitted):
    """Slopes of a default fit, by the chain rule, are differences of predictions."""
    step = 1e-4 * np.eye(4)[1]
    up, down = (
        fitted.predict(NEW[:9] + sign * step, include_noise=False) for sign in (1, -1)
    )
    slopes, std = fitted.predict(
        NEW[:9], derivative=np.full(9, 1), return_std=True, include_noise=False
    )
    assert_allclose(slopes, (up - down) / 2e-4, rtol=1e-4, atol=1e-4)
    draws = fitted.sample_functions(400, random_state=0)
    spread = (draws(NEW[:9] + step) - draws(NEW[:9] - step)).std(axis=1) / 2e-4
    # twenty standard errors of the standard deviation of draws are not reached
    assert_allclose(std, spread, rtol=0.3)


def test_a_constant_column_stays_out():
    """A new value of a column that was constant changes no prediction."""
    constant = np.full((len(X), 1), 0.1)
    model = PLSRegressor(random_state=0).fit(np.hstack((X, constant)), Y)
    assert type(model.kernel_) is Directions
    found, moved = (
        model.predict(np.hstack((NEW, np.full((len(NEW), 1), value))))
        for value in (0.1, 0.1001)
    )
    assert_allclose(moved, found, atol=1e-3)
    assert np.sqrt(np.mean((found - TRUTH) ** 2)) < 0.1


def test_a_stationary_function_of_many_rows_keeps_its_columns():
    """The two searches are compared by the same rows."""
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1.0, 1.0, (1520, 2))
    bump = np.exp(-3.0 * np.sum((rows - 0.3) ** 2, axis=1))
    y = bump + 0.4 * np.sin(4.0 * rows[:, 0]) + 0.3 * rng.standard_normal(1520)
    for seed in (0, 2):
        model = PLSRegressor(random_state=seed, hyperparameters="maximise")
        assert "Directions" not in repr(model.fit(rows, y).kernel_)


def test_stated_points_and_warm_averages():
    """Points of the user are in columns of X; a warm start stays in its directions."""
    model = PLSRegressor(inducing=X[:60], random_state=0).fit(X, Y)
    assert "Directions" not in repr(model.kernel_)
    model = PLSRegressor(hyperparameters="average", warm_start=True, random_state=0)
    directions = model.fit(X, Y).kernel_.directions
    assert_array_equal(model.fit(X, Y).kernel_.directions, directions)
