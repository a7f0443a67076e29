"""Variance scales against the optimum of the likelihood, found by other means."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skgpx._numerics.variance_scale import (
    fit_affine_scale,
    fit_scale,
)


def deviance(variances, squares, weights):
    """Twice the negative log likelihood, up to a constant."""
    return weights @ (np.log(variances) + squares / variances)


def problem(seed, n=300, a=0.5, b=2.0):
    rng = np.random.default_rng(seed)
    r = rng.gamma(0.5, size=n)
    squares = (a + b * r) * rng.chisquare(1, size=n)
    return squares, r, rng.integers(0, 4, size=n).astype(float)


def test_the_factor_of_many_rows_is_the_optimum_of_the_likelihood():
    squares, r, weights = problem(0, n=400_000)
    found = fit_scale(squares, 0.1 + r, weights)
    assert_allclose(found, np.average(squares / (0.1 + r), weights=weights), rtol=1e-4)


def test_the_factor_is_shrunk_by_its_standard_error():
    z = np.random.default_rng(0).chisquare(1, size=50)
    z *= 2.0 / z.mean()
    squared_error = (max(3.0, np.mean(z**2) / 4.0) - 1.0) / 46.0
    expected = np.log(2.0) - squared_error / np.log(2.0)
    assert_allclose(np.log(fit_scale(z, np.ones(50))), expected)


def test_a_factor_within_its_standard_error_is_one():
    z = np.random.default_rng(1).chisquare(1, size=200)
    assert fit_scale(1.02 * z / z.mean(), np.ones(200)) == 1.0


def test_the_factor_of_heavy_tails_predicts_better_than_its_plain_estimate():
    # what rows of few large errors say of new rows, over many small samples
    rng = np.random.default_rng(0)
    gain = []
    for _ in range(400):
        squares = rng.standard_t(3.0, 70) ** 2 / 3.0
        T, plain = fit_scale(squares, np.ones(70)), squares.mean()
        gain.append(np.log(plain) + 1.0 / plain - np.log(T) - 1.0 / T)
    assert np.mean(gain) > 3.0 * np.std(gain) / 20.0


def test_a_relative_factor_is_determined_by_pairs():
    # heavy tails that two predictors share
    rng, ones = np.random.default_rng(2), np.ones(60)
    logs, pairs = [], []
    for _ in range(200):
        noise = rng.standard_t(2.5, 60)
        squares = 0.7 * (noise + 0.1 * rng.normal(size=60)) ** 2
        pairs.append(np.log(fit_scale(squares, ones, reference=noise**2)))
        logs.append(np.log(fit_scale(squares, ones)))
    assert np.std(pairs) < 0.3 * np.std(logs)
    assert abs(np.mean(pairs) - np.log(0.7)) < 0.1
    assert fit_scale(np.zeros(60), ones, reference=squares) == 1.0


def generic(squares, r, weights):
    """Least deviance of many local searches in log a and log b."""
    size = np.average(r, weights=weights)

    def function(u):
        return deviance(np.exp(u[0]) + np.exp(u[1]) * r, squares, weights)

    starts = [(x, y - np.log(size)) for x in (-6, -2, 1) for y in (-6, -2, 1)]
    bounds = [(-30.0, 10.0), (-30.0, 10.0)]
    runs = [minimize(function, s, bounds=bounds, method="L-BFGS-B") for s in starts]
    return min(run.fun for run in runs)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("a", "b"), [(0.5, 2.0), (1.0, 0.0), (0.0, 3.0), (1e-6, 1.0), (1.0, 1e-3)]
)
def test_affine_is_the_optimum_of_the_likelihood(seed, a, b):
    squares, r, weights = problem(seed, a=a, b=b)
    found = fit_affine_scale(squares, r, weights)
    assert min(found) >= 0.0
    used = weights > 0
    at = deviance((found[0] + found[1] * r)[used], squares[used], weights[used])
    assert at <= generic(squares, r, weights) + 1e-6


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e100])
def test_units_do_not_matter(scale):
    squares, r, weights = problem(1)
    plain = fit_affine_scale(squares, r, weights)
    other = fit_affine_scale(squares * scale, r * scale, weights)
    assert_allclose(other[0], plain[0] * scale, rtol=1e-6)
    assert_allclose(other[1], plain[1], rtol=1e-6)


FIVE, ZEROS, ONES = np.arange(5.0), np.zeros(5), np.ones(5)


@pytest.mark.parametrize(
    ("squares", "r", "expected"),
    [
        (FIVE, ZEROS, (2.0, 0.0)),
        (FIVE, ONES, (2.0, 0.0)),
        (FIVE, 1e-300 * ONES, (2.0, 0.0)),
        (ZEROS, FIVE, (0.0, 0.0)),
        (4.0 * ONES[:1], ONES[:1], (4.0, 0.0)),
    ],
)
def test_variances_that_do_not_vary(squares, r, expected):
    assert fit_affine_scale(squares, r, np.ones(len(r))) == expected
    if expected[0] != 2.0:
        # no errors, or one row
        assert fit_scale(squares, 2.0 * r, np.ones(len(r))) == 1.0


@pytest.mark.parametrize(
    ("squares", "r"),
    # r = 0 exactly where the error is zero: a = 0 would be infinitely probable
    [([1.0, 1.0, 4.0], [0.0, 1.0, 4.0]), ([0.0, 0.0, 2.0], [0.0, 0.0, 2.0])],
)
def test_zeros_among_the_variances_stay_finite(squares, r):
    squares, r = np.array(squares), np.array(r)
    a, b = fit_affine_scale(squares, r, np.ones(3))
    assert np.all(np.isfinite([a, b]))
    assert min(a, b) >= 0.0
    assert np.all((a + b * r > 0.0) | (squares == 0.0))
    assert np.isfinite(fit_scale(squares, r, np.ones(3)))
