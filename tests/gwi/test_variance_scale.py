"""Rows that judge, and the variances that they choose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad

from skgpx._gwi import _variance_scale
from skgpx._gwi._variance_scale import (
    MAX_HELD_OUT,
    MAX_SHARE,
    MIN_HELD_OUT,
    choose_validation_rows,
    fit_variance_scale,
)

RNG = np.random.default_rng(0)
R = RNG.uniform(0.1, 2.0, 4000)
WEIGHTS = RNG.integers(1, 4, 4000).astype(float)


def errors(noise, factor, n=4000):
    return (noise + factor * R[:n]) * RNG.standard_normal(n) ** 2


@pytest.mark.parametrize(
    "n_trusted", [MIN_HELD_OUT - 1, MIN_HELD_OUT, MIN_HELD_OUT + 1, 900]
)
def test_how_many_judge(n_trusted):
    held_out = np.zeros(1000, bool)
    held_out[RNG.permutation(1000)[:n_trusted]] = True
    validation = choose_validation_rows(held_out, "auto", np.random.default_rng(0))
    expected = 0 if n_trusted < MIN_HELD_OUT else min(n_trusted, int(MAX_SHARE * 1000))
    assert validation.sum() == expected
    assert not np.any(validation & ~held_out)
    assert not np.any(choose_validation_rows(held_out, None, np.random.default_rng(0)))


@pytest.mark.parametrize("n", [6666, 6667, 20_000])
def test_most_judges(n):
    validation = choose_validation_rows(
        np.ones(n, bool), "auto", np.random.default_rng(0)
    )
    assert validation.sum() == min(MAX_HELD_OUT, int(MAX_SHARE * n))


def test_nothing_changes_without_judges_or_errors():
    none = np.empty(0)
    for how in ("auto", "factor", "affine", None):
        assert fit_variance_scale(how, none, none, none, 0.3) == (0.3, 1.0)
        assert fit_variance_scale(how, np.zeros(5), R[:5], np.ones(5), 0.3) == (
            0.3,
            1.0,
        )
    assert fit_variance_scale(None, errors(1.0, 1.0, 5), R[:5], np.ones(5), 0.3) == (
        0.3,
        1.0,
    )


@pytest.mark.parametrize("how", ["affine", "auto"])
def test_two_numbers_are_found(how):
    # standard errors of both are below .06 for 4000 rows
    noise, factor = fit_variance_scale(how, errors(0.4, 0.8), R, WEIGHTS, 0.2)
    assert abs(noise - 0.4) < 0.2
    assert abs(factor - 0.8) < 0.2


def test_the_process_is_not_blown_up():
    how = errors(0.4, 30.0), R, WEIGHTS, 0.2
    assert fit_variance_scale("affine", *how).factor > 20.0
    noise, factor = fit_variance_scale("auto", *how)
    assert factor == 1.0
    assert_allclose(noise + R.mean(), 30.0 * R.mean(), rtol=0.2)


def test_the_prior_keeps_a_part_of_the_process():
    """Errors that do not depend on r leave nothing of it, or what costs little."""
    squares = errors(0.4, 0.0, 100)
    how = squares, R[:100], np.ones(100), 0.2
    kept = fit_variance_scale("auto", *how)
    assert kept.factor > 1e-3
    assert_allclose(kept.noise + kept.factor * R[:100].mean(), 0.4, rtol=0.5)
    alone = fit_variance_scale("affine", *how)
    assert alone.factor >= 1e-6


def test_the_most_probable_numbers(monkeypatch):
    """The gradient of what is minimised, at the minimum and elsewhere."""
    seen = []

    def spy(function, start, **options):
        found = minimise(function, start, **options)
        seen.append((function, found.x))
        return found

    minimise = _variance_scale.minimize
    monkeypatch.setattr(_variance_scale, "minimize", spy)
    fit_variance_scale("auto", errors(0.4, 0.6), R, WEIGHTS, 0.2)
    function, best = seen[0]
    value, slope = (lambda u: function(u)[0]), (lambda u: function(u)[1])
    assert np.max(np.abs(slope(best))) < 1e-2 * WEIGHTS.sum() ** 0.5
    assert check_grad(value, slope, np.array([0.3, -0.7])) < 1e-2
