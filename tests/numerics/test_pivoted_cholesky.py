"""Greedy partial Cholesky factorisation."""

import numpy as np
import pytest

from skgpx._numerics.linalg import pivoted_cholesky


def positive(n, rank, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, rank))
    return A @ A.T


def factor(K, n_pivots, **options):
    asked = []

    def entries(i, j):
        if isinstance(j, slice):
            asked.extend(i)
            return K[i]
        return K[np.ix_(i, j)]

    return pivoted_cholesky(entries, np.diag(K).copy(), n_pivots, **options), asked


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


def test_ties_follow_position_or_priority():
    K = np.eye(5)
    assert list(factor(K, 3)[0].pivots) == [0, 1, 2]
    priority = np.array([3, 1, 4, 0, 2])
    assert list(factor(K, 5, priority=priority)[0].pivots) == [3, 1, 4, 0, 2]


def one_at_a_time(K, n_pivots):
    residual, rows, pivots = np.diag(K).copy(), np.empty((0, len(K))), []
    for _ in range(n_pivots):
        pivot = int(np.argmax(residual))
        row = (K[pivot] - rows[:, pivot] @ rows) / np.sqrt(residual[pivot])
        rows, residual = np.vstack((rows, row)), residual - row**2
        pivots.append(pivot)
    return pivots


@pytest.mark.parametrize("n", [127, 128, 129, 400])
@pytest.mark.parametrize("width", [0.3, 1.0])
def test_blocks_find_the_pivots_of_the_whole_matrix(n, width):
    X = np.random.default_rng(n).normal(size=(n, 2))
    K = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2) / width**2)
    K *= np.outer(1.0 + X[:, 0] ** 2, 1.0 + X[:, 0] ** 2)
    (pivots, rows, residual), _ = factor(K, 40)
    assert list(pivots) == one_at_a_time(K, 40)
    np.testing.assert_allclose(rows[:, pivots], np.triu(rows[:, pivots]), atol=1e-9)
    np.testing.assert_allclose(residual, np.diag(K) - np.sum(rows**2, 0), atol=1e-9)


def test_stops_at_the_trace():
    K = np.diag(np.repeat([4.0, 1.0], [200, 200]))
    assert len(factor(K, 400)[0].pivots) == 400
    pivots, _, residual = factor(K, 400, trace=200.0)[0]
    assert residual.sum() <= 200.0
    assert len(pivots) <= 200 + 128
    assert 1 <= len(factor(K, 400, trace=1e4)[0].pivots) <= 128
