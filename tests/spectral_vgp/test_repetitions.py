"""Few rows that are repeated often are not interpolated."""

from __future__ import annotations

import numpy as np
import pytest

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _basis_choice


def _wave(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    return X, np.sin(6.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", [0, 1])
def test_weights_of_ten_leave_the_noise(d, seed):
    X, y = _wave(200, d, seed)
    weights = np.full(200, 10.0)
    model = SpectralVGPRegressor(random_state=0).fit(X, y, sample_weight=weights)
    assert model.basis_ == "inducing"
    # with Fourier functions .1, or nothing
    assert 0.15 < np.sqrt(model.noise_variance_) < 0.25
    repeated = SpectralVGPRegressor(random_state=0)
    repeated.fit(np.tile(X, (10, 1)), np.tile(y, 10))
    np.testing.assert_array_equal(repeated.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("weight", "basis"), [(1.0, "fourier"), (2.0, "fourier"), (2.01, "inducing")]
)
def test_how_many_repetitions(weight, basis):
    X, y = _wave(60, 1)
    model = SpectralVGPRegressor(random_state=0)
    model.fit(X, y, sample_weight=np.full(60, weight))
    assert model.basis_ == basis


@pytest.mark.parametrize(
    ("few", "basis"), [(59, "fourier"), (60, "inducing"), (61, "inducing")]
)
@pytest.mark.parametrize("screened", [10, 10_000])
def test_how_few_rows(monkeypatch, few, basis, screened):
    monkeypatch.setattr(_basis_choice, "_FEW_ROWS", few)
    monkeypatch.setattr(_basis_choice, "_SCREENED", screened)
    X, y = _wave(60, 1)
    model = SpectralVGPRegressor(random_state=0)
    assert model.fit(X, y, sample_weight=np.full(60, 5.0)).basis_ == basis


def test_repetitions_with_other_targets_are_rows():
    X, y = _wave(60, 1)
    two = np.repeat(X, 2, axis=0), np.repeat(y, 2) + np.tile([0.0, 0.1], 60)
    model = SpectralVGPRegressor(random_state=0)
    assert model.fit(*two, sample_weight=np.full(120, 5.0)).basis_ == "fourier"


def test_functions_that_were_named_are_kept():
    X, y = _wave(60, 1)
    model = SpectralVGPRegressor(basis="fourier")
    assert model.fit(X, y, sample_weight=np.full(60, 5.0)).basis_ == "fourier"
