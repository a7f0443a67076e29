"""Bin moments: the sums of any waves, for any data."""

import numpy as np
import pytest
from scipy.special import jv

from skgpx._numerics.fourier_index import Box
from skgpx._numerics.fourier_sketch import BINS_PER_WAVE, bin_moments, n_bins

UNIT = Box(np.zeros(1), np.ones(1))
# Products of these places and whole numbers have no rounding error.
GRID = 2.0**-20


def direct(x, weights, reach):
    waves = np.arange(-reach, reach + 1)
    return np.exp(2j * np.pi * (np.outer(waves, x) % 1.0)) @ weights


def places(name, bins, rng):
    if name == "uniform":
        return rng.integers(0, 2**20, 3000) * GRID
    if name == "left ends":
        return rng.integers(0, bins, 3000) / bins
    if name == "right ends":
        return (rng.integers(0, bins, 3000) + 1) / bins - GRID
    return np.full(3000, 123457 * GRID)


@pytest.mark.parametrize("bins", [256, 1024])
@pytest.mark.parametrize("name", ["uniform", "left ends", "right ends", "one place"])
def test_every_wave_for_any_data(bins, name):
    rng = np.random.default_rng(0)
    x = places(name, bins, rng)
    y, w = rng.standard_normal(3000), rng.random(3000)
    reach = bins // BINS_PER_WAVE
    sketch, square = bin_moments(x, y, w, UNIT, 0.0, bins)
    assert sketch.largest_wave == reach
    sums, moments = sketch.tables(reach)
    # truncation and rounding, in units of the sum of the weights
    bound = 4 * jv(12, np.pi / BINS_PER_WAVE) + 2e-14
    assert np.abs(sums.values - direct(x, w, reach)).max() < bound * w.sum()
    expected = direct(x, w * y, reach // 2)
    assert np.abs(moments.values - expected).max() < bound * np.abs(w * y).sum()
    assert square == pytest.approx(w @ y**2, rel=1e-14)


def test_sketches_of_any_bins_add_and_shift():
    rng = np.random.default_rng(1)
    x, y = rng.random(999), rng.standard_normal(999)
    whole, _ = bin_moments(x, y, None, UNIT, 0.0, 256)
    parts = np.array_split(np.arange(999), 100)
    # the finest bins first: they are joined to those of the others
    sketches = [
        bin_moments(x[c], y[c], None, UNIT, 0.0, 256 << (i < 3))[0]
        for i, c in enumerate(parts)
    ]
    total = sketches[0]
    for sketch in sketches[1:]:
        total = total.add(sketch)
    assert np.allclose(total.values, whole.values, rtol=1e-12, atol=1e-13)
    shifted, _ = bin_moments(x, y, None, UNIT, 0.5, 256)
    assert np.allclose(whole.less(0.5).values, shifted.values, rtol=1e-12, atol=1e-13)


def test_rows_at_and_outside_the_sides_are_kept_in_the_first_and_last_bin():
    x = np.array([-0.1, 0.0, 1.0, 1.1])
    sketch, _ = bin_moments(x, np.zeros(4), None, UNIT, 0.0, 256)
    assert sketch.values[:, 0, 0].sum() == 4
    assert sketch.values[1:-1, 0, 0].sum() == 0
    assert [n_bins(k) for k in (1, 204, 205)] == [256, 1024, 2048]


@pytest.mark.parametrize("periods", [0.5, 1.0, 3.3])
def test_waves_of_any_period_follow_from_one_sketch(periods):
    rng = np.random.default_rng(0)
    x, y = rng.random(500), rng.standard_normal(500)
    sketch = bin_moments(x, y, None, UNIT, 0.0, 512)[0].periodic(periods)
    period = sketch.size / 512
    assert periods <= period < periods + 1.0 / 16.0
    for reach in (3, sketch.largest_wave):
        sums, moments = sketch.tables(reach)
        waves = np.arange(-reach, reach + 1)
        expected = np.exp(2j * np.pi * np.outer(waves, x / period)).sum(axis=1)
        assert np.allclose(sums.values, expected, atol=1e-10, rtol=0.0)
        waves = np.arange(-(reach // 2), reach // 2 + 1)
        expected = np.exp(2j * np.pi * np.outer(waves, x / period)) @ y
        assert np.allclose(moments.values, expected, atol=1e-10, rtol=0.0)
