"""Sums over rows: one pass, in blocks that leave no trace."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from skgpx._numerics.regression import weight_statistics
from skgpx._shell import row_statistics as module
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows
from skgpx.bases import Nystroem


def problem(n, m=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    rows = Rows(X, rng.normal(size=n), rng.integers(1, 4, n).astype(float))
    return Nystroem.from_kernel(RBF(1.0), rng.normal(size=(m, 2))), rows


@pytest.mark.parametrize("n", [99, 100, 101, 250])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_blocks_are_one_sum(n, n_jobs, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ROWS", 100)
    basis, rows = problem(n)
    found = row_statistics(basis, rows, n_jobs)
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    expected = weight_statistics(features, rows.y, rows.weights, residual)
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    # Φᵀ diag(ω) Φ and Φᵀ diag(ω) y, written out
    weighted = features.T * rows.weights
    assert_allclose(found.gram, weighted @ features, rtol=1e-11, atol=1e-12)
    assert_allclose(found.moment, weighted @ rows.y, rtol=1e-10, atol=1e-12)
    one = row_statistics(basis, rows, 1)
    assert_array_equal(found.gram, one.gram)
    assert_array_equal(found.moment, one.moment)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_memory_does_not_grow_with_the_number_of_blocks(n_jobs, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ROWS", 50)
    peaks = []
    for n_blocks in (16, 160):
        basis, rows = problem(50 * n_blocks, m=200)
        row_statistics(basis, rows, n_jobs)
        tracemalloc.start()
        row_statistics(basis, rows, n_jobs)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # the sums of a block are 200 x 200 numbers: those of all would be 51 MB
    assert peaks[1] < peaks[0] + 16 * 8 * 200**2
