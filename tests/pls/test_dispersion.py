"""Counts that scatter more than a Poisson law allows are told."""

from __future__ import annotations

import numpy as np
import pytest

from skgpx import PLSRegressor
from skgpx._pls import _diagnostics
from skgpx._validation import Rows
from skgpx.likelihoods import Poisson


def counts(level, ratio, seed=0, n=400, exposure=1.0):
    """Negative binomial counts whose variance is `ratio` times their mean."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    mean = exposure * level * np.exp(np.sin(6.0 * X[:, 0]))
    if ratio == 1.0:
        return X, rng.poisson(mean)
    return X, rng.negative_binomial(mean / (ratio - 1.0), 1.0 / ratio)


def model():
    return PLSRegressor(likelihood=Poisson("exp"), n_particles=50, random_state=0)


def measured(fitted, X, y, **given):
    """Of a fitted model, as `fit` finds it."""
    rows = Rows(X, y.astype(float), np.ones(len(y)), given.get("exposure"))
    return _diagnostics.dispersion(rows, fitted.likelihood_, fitted.posterior_)


@pytest.mark.parametrize("level", [0.3, 3.0, 300.0])
def test_poisson_counts_are_as_expected(level):
    # warnings are errors here
    X, y = counts(level, 1.0)
    found = measured(model().fit(X, y), X, y)
    assert abs(found.z) < 3.0
    assert abs(found.ratio - 1.0) < 0.2


@pytest.mark.parametrize(("level", "ratio"), [(0.3, 3.0), (3.0, 4.0), (300.0, 25.0)])
def test_too_much_scatter_is_told(level, ratio):
    X, y = counts(level, ratio)
    with pytest.warns(UserWarning, match="counts are overdispersed"):
        model().fit(X, y)


def test_exposures_and_weights():
    exposure = np.random.default_rng(1).uniform(1.0, 50.0, 400)
    X, y = counts(1.0, 1.0, exposure=exposure)
    fitted = model().fit(X, y, exposure=exposure)
    assert abs(measured(fitted, X, y, exposure=exposure).z) < 3.0
    X, y = counts(1.0, 5.0, exposure=exposure)
    with pytest.warns(UserWarning, match="counts are overdispersed"):
        model().fit(X, y, exposure=exposure, sample_weight=np.full(400, 2.0))


def test_the_variance_of_squares():
    # Var (y - μ)² = μ + 2 μ² for a Poisson law
    rng = np.random.default_rng(0)
    for mean in (0.5, 4.0, 60.0):
        squares = (rng.poisson(mean, 200_000) - mean) ** 2
        error = np.std((squares - squares.mean()) ** 2) / np.sqrt(len(squares))
        assert abs(squares.var() - (mean + 2.0 * mean**2)) < 4.0 * error


@pytest.mark.parametrize("n", [999, 1000, 1001])
def test_a_part_of_many_rows_is_enough(n):
    X, y = counts(3.0, 4.0, n=n)
    with pytest.warns(UserWarning, match="counts are overdispersed"):
        model().fit(X, y)
