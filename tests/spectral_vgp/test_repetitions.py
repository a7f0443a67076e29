"""Rows that are repeated often are not interpolated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx import SpectralVGPRegressor


def _wave(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    return X, np.sin(6.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)


# ---- Copies that count once in a search ----------------------------------------------


def _rough(n, seed=0):
    """Brownian motion and noise of variance .01 at random inputs."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    f = np.cumsum(rng.standard_normal(n) * np.sqrt(4.0 * np.diff(x, prepend=0.0)))
    return x[:, np.newaxis], f + 0.1 * rng.standard_normal(n)


def _bootstrapped(X, y, seed=0):
    drawn = np.random.default_rng(seed).integers(0, len(y), len(y))
    return (X[drawn], y[drawn]), np.unique(drawn)


@pytest.mark.parametrize("basis", ["fourier"])
@pytest.mark.parametrize("draw", [_rough, lambda n: _wave(n, 1)])
def test_a_bootstrap_has_the_noise_of_its_distinct_rows(basis, draw):
    X, y = draw(500)
    copies, distinct = _bootstrapped(X, y)
    model = SpectralVGPRegressor(basis=basis).fit(*copies)
    once = SpectralVGPRegressor(basis=basis).fit(X[distinct], y[distinct])
    assert_allclose(model.noise_variance_, once.noise_variance_, rtol=0.03)


@pytest.mark.parametrize("weight", [2.0, 5.0])
@pytest.mark.parametrize("basis", ["fourier"])
def test_copies_learn_what_distinct_rows_do(basis, weight):
    X, y = _rough(300)
    once = SpectralVGPRegressor(basis=basis).fit(X, y)
    weights = np.full(300, weight)
    model = SpectralVGPRegressor(basis=basis).fit(X, y, sample_weight=weights)
    assert_allclose(model.noise_variance_, once.noise_variance_, rtol=1e-6)
    assert model.n_basis_ == once.n_basis_
    assert_allclose(model.prior_.theta, once.prior_.theta, atol=1e-6)
    # the posterior and the evidence are those of all rows
    std = [m.predict(X, return_std=True, include_noise=False)[1] for m in (model, once)]
    assert np.all(std[0] < std[1])
    tiled = SpectralVGPRegressor(basis=basis)
    tiled.fit(np.tile(X, (int(weight), 1)), np.tile(y, int(weight)))
    assert_allclose(tiled.predict(X), model.predict(X), rtol=1e-9, atol=1e-9)
    assert_allclose(tiled.log_evidence_, model.log_evidence_)


def test_rows_added_to_functions_of_copies():
    X, y = _wave(300, 1)
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


@pytest.mark.parametrize("weight", [1.01, 1.49, 1.5, 1.51])
@pytest.mark.parametrize("basis", ["fourier"])
def test_copies_of_a_continuous_target_count_once(weight, basis):
    X, y = _wave(200, 1)
    once = SpectralVGPRegressor(basis=basis).fit(X, y)
    model = SpectralVGPRegressor(basis=basis).fit(X, y, np.full(200, weight))
    assert_allclose(model.noise_variance_, once.noise_variance_, rtol=1e-6)
