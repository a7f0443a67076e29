"""Greedy partial Cholesky factorisation."""

import numpy as np
import pytest

from skgpx._numerics.pivoted_cholesky import pivoted_cholesky


def positive(n, rank, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, rank))
    return A @ A.T


def factor(K, n_pivots, **options):
    asked = []

    def column(i):
        asked.append(i)
        return K[:, i]

    return pivoted_cholesky(column, np.diag(K).copy(), n_pivots, **options), asked


def test_full_factorisation_reproduces_the_matrix():
    K = positive(12, 12)
    (pivots, rows, residual), _ = factor(K, 12)
    np.testing.assert_allclose(rows.T @ rows, K, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(residual, 0.0, atol=1e-9)
    assert sorted(pivots) == list(range(12))


def test_rows_are_nystroem_features():
    K = positive(15, 15)
    (pivots, rows, residual), asked = factor(K, 5)
    L = np.linalg.cholesky(K[np.ix_(pivots, pivots)])
    np.testing.assert_allclose(rows, np.linalg.solve(L, K[pivots]), atol=1e-11)
    np.testing.assert_allclose(np.tril(rows[:, pivots], -1), 0.0, atol=1e-11)
    expected = np.diag(K) - np.sum(rows**2, axis=0)
    np.testing.assert_allclose(residual, np.maximum(expected, 0.0), atol=1e-11)
    assert asked == list(pivots)  # one column per pivot, nothing else


def test_takes_the_largest_conditional_variance():
    K = positive(15, 15, seed=1)
    (pivots, _, _), _ = factor(K, 6)
    for k in range(6):
        chosen = pivots[:k]
        cross = K[:, chosen]
        explained = cross @ np.linalg.pinv(K[np.ix_(chosen, chosen)]) @ cross.T
        assert np.argmax(np.diag(K - explained)) == pivots[k]


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_stops_when_nothing_is_left(rank):
    K = positive(20, rank)
    (pivots, rows, residual), asked = factor(K, 20)
    assert len(pivots) == len(rows) == len(asked) == rank
    assert residual.max() <= 1e-10 * max(np.diag(K).max(), 1.0)


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e12])
def test_does_not_depend_on_the_unit(scale):
    K = positive(20, 6)
    (pivots, _, _), _ = factor(K, 20)
    (scaled, _, _), _ = factor(scale * K, 20)
    np.testing.assert_array_equal(scaled, pivots)


def test_tolerance_is_relative():
    K = np.diag([1.0, 1e-3, 1e-6])
    assert list(factor(K, 3, tolerance=1e-4)[0].pivots) == [0, 1]


def test_ties_follow_position_or_priority():
    K = np.eye(5)
    assert list(factor(K, 3)[0].pivots) == [0, 1, 2]
    priority = np.array([3, 1, 4, 0, 2])
    assert list(factor(K, 5, priority=priority)[0].pivots) == [3, 1, 4, 0, 2]


def test_empty():
    pivots, rows, residual = pivoted_cholesky(lambda i: np.empty(0), np.empty(0), 3)
    assert (pivots.shape, rows.shape, residual.shape) == ((0,), (0, 0), (0,))
