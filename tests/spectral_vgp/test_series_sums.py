"""Sums over rows, in chunks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx import SpectralVGPRegressor
from skgpx._numerics.fourier_index import Box, by_length
from skgpx._spectral_vgp import _series_search
from skgpx._spectral_vgp._series_search import StandardSums, row_sums
from skgpx._validation import Rows


def rows_of(n, d=1):
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    return Rows(X, 5.0 + np.sin(6.0 * X[:, 0]), rng.integers(1, 4, n).astype(float))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("n", [1, 49, 50, 51, 99, 100, 101])
def test_chunks_are_one_sum(d, n, monkeypatch):
    rows, domain = rows_of(n, d), np.tile([0.0, 1.0], (d, 1))
    box, reach = Box(np.zeros(d), np.full(d, 1.5)), np.full(d, 12)
    index = by_length(d, 11)
    whole = row_sums(rows, domain, box, 5.0, reach, None).normal_equations(index)
    monkeypatch.setattr(_series_search, "_CHUNK", 50)
    parts = row_sums(rows, domain, box, 5.0, reach, 2).normal_equations(index)
    for one, other in zip(whole, parts, strict=True):
        assert_allclose(one, other, atol=1e-12 * rows.weights.sum())


@pytest.mark.parametrize("n", [(1 << 18) - 1, 1 << 18, (1 << 18) + 1])
def test_numbers_of_rows_around_a_chunk(n):
    rows = rows_of(n)
    model = SpectralVGPRegressor(n_basis=31, n_jobs=2).fit(rows.X, rows.y)
    assert_allclose(model.predict(rows.X[:99]), rows.y[:99], atol=0.01)


def test_standardised_sums():
    rows, domain = rows_of(200), np.array([[0.0, 1.0]])
    box, index = Box(np.zeros(1), np.array([1.5])), by_length(1, 11)
    statistics = row_sums(rows, domain, box, 4.0, np.array([10]), None)
    sums = StandardSums.of(statistics, True)
    mean = np.average(rows.y, weights=rows.weights)
    std = np.sqrt(np.average((rows.y - mean) ** 2, weights=rows.weights))
    assert_allclose([sums.shift, sums.scale], [mean, std])
    scaled = rows._replace(y=(rows.y - mean) / std)
    expected = row_sums(scaled, domain, box, 0.0, np.array([10]), None)
    found = sums.equations(index)
    for one, other in zip(found, expected.normal_equations(index), strict=True):
        assert_allclose(one, other, atol=1e-10)
    plain = StandardSums.of(statistics, False)
    assert (plain.shift, plain.scale) == (0.0, 1.0)
    constant = rows._replace(y=np.full(200, 1e9))
    statistics = row_sums(constant, domain, box, 1e9, np.array([10]), None)
    assert StandardSums.of(statistics, True).scale == 1.0


def test_rows_outside_the_domain():
    rows = rows_of(10)
    with pytest.raises(ValueError, match="domain"):
        row_sums(
            rows, np.array([[0.4, 1.0]]), Box(np.zeros(1), np.ones(1)), 0.0,
            np.array([5]), None,
        )  # fmt: skip
