import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg.lapack import dtrtri

from skgpx._numerics.linalg import (
    _in_place,
    add_gram,
    cholesky,
    inner_product,
    inverse_root,
    invert_factorised,
    log_determinant,
    mirrored,
    pivoted_cholesky,
    square_triangle,
)


def positive_definite(rng, m):
    A = rng.standard_normal((m, m))
    return A @ A.T + np.eye(m)


def below(A):
    """Only the lower triangle is known."""
    return np.tril(A) + np.triu(np.full_like(A, np.nan), 1)


def test_factor_of_a_positive_definite_matrix(rng):
    K = positive_definite(rng, 6)
    before = K.copy()
    L, jitter = cholesky(K)
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(6), rtol=1e-13)
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_array_equal(K, before)
    assert L.flags.c_contiguous
    assert jitter == pytest.approx(1e-10 * np.trace(K) / 6)
    assert log_determinant(L) == pytest.approx(np.linalg.slogdet(K)[1])
    assert cholesky(K, jitter=0.0).jitter == 0.0


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 12),
    rank=st.integers(1, 12),
    exponent=st.integers(-150, 150),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_semi_definite_matrix_has_a_factor(m, rank, exponent, seed):
    A = np.random.default_rng(seed).standard_normal((m, rank))
    K = 10.0**exponent * (A @ A.T)
    L, jitter = cholesky(K)
    scale = np.trace(K) / m
    assert 0.0 <= jitter <= 1.01e-4 * scale
    error = L @ L.T - K - jitter * np.eye(m)
    assert np.max(np.abs(error)) <= 1e-13 * m * scale


def test_jitter_grows_until_the_matrix_can_be_factorised():
    K = np.diag([1.0, 1.0, -1e-7])
    L, jitter = cholesky(K)
    assert 1e-7 < jitter < 1e-5
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(3), atol=1e-15)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="order 2 is not positive definite"):
        cholesky(np.diag([1.0, -1.0]))


@pytest.mark.parametrize("m", [1, 31, 32, 33, 63, 64, 65, 128, 129, 150])
def test_inverse_root(rng, m):
    """At sizes around those of blocks; what is above the diagonal is not read."""
    K = positive_definite(rng, m)
    lower, space = below(K), np.full((m, m), np.nan)
    root = inverse_root(lower, space)
    assert root is space
    np.testing.assert_array_equal(root, inverse_root(K))
    np.testing.assert_array_equal(root, np.tril(root))
    np.testing.assert_allclose(root @ cholesky(K, 0.0).L, np.eye(m), atol=1e-10)
    square = square_triangle(root.copy())
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_allclose(square, root.T @ root, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(K @ square, np.eye(m), atol=1e-9)


def test_inverse_root_takes_jitter_or_raises():
    root = inverse_root(np.ones((70, 70)))
    assert np.all(np.isfinite(root))
    with pytest.raises(np.linalg.LinAlgError, match="order 2 is not positive definite"):
        inverse_root(np.diag([1.0, -1.0]))
    for last in (3, 99):
        K = np.eye(100)
        K[last, last] = -1.0
        with pytest.raises(np.linalg.LinAlgError, match="order 100"):
            inverse_root(K)


# ---- In place, of lower triangles ----------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 9, 33])
def test_lower_triangles_stand_for_symmetric_matrices(rng, n):
    A, B = positive_definite(rng, n), positive_definite(rng, n)
    np.testing.assert_array_equal(mirrored(below(A)), A)
    expected = np.sum(A * B)
    assert inner_product(below(A), below(B)) == pytest.approx(expected, abs=1e-10)
    added = inverse_root(below(A), added=2.0)
    np.testing.assert_allclose(added, inverse_root(A + 2.0 * np.eye(n)), atol=1e-15)


@pytest.mark.parametrize("m", [1, 2, 7, 40])
def test_factor_and_inverses_of_what_is_below_the_diagonal(rng, m):
    L = np.linalg.cholesky(positive_definite(rng, m))
    C = below(L @ L.T)
    C = cholesky(C, 0.0, np.empty((m, m))).L
    np.testing.assert_allclose(C, L, rtol=1e-10, atol=1e-12)
    assert invert_factorised(C)
    inverse = np.linalg.inv(L @ L.T)
    np.testing.assert_allclose(np.tril(C), np.tril(inverse), rtol=1e-8, atol=1e-10)
    T = L.copy()
    assert _in_place(dtrtri, T, overwrite_c=1)
    np.testing.assert_allclose(T @ L, np.eye(m), atol=1e-10)


def test_what_cannot_be_factorised_or_inverted_is_said():
    assert not _in_place(dtrtri, np.diag([1.0, 0.0]), overwrite_c=1)
    assert not invert_factorised(np.diag([0.0, 1.0]))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 0), (5, 9), (70, 33)])
def test_gram_of_rows(rng, m, n):
    rows, gram = rng.standard_normal((m, n)), np.full((m, m), np.nan)
    add_gram(rows, gram, fresh=True)
    np.testing.assert_allclose(np.tril(gram), np.tril(rows @ rows.T), atol=1e-12)
    add_gram(rows, gram, fresh=False)
    np.testing.assert_allclose(np.tril(gram), 2.0 * np.tril(rows @ rows.T), atol=1e-12)
    assert np.all(np.isnan(gram[np.triu_indices(m, 1)]))


# ---- Greedy partial factorisation ----------------------------------------------------


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


def test_rows_are_nystroem_features():
    K = positive(15, 15)
    (pivots, rows, residual), asked = factor(K, 5)
    L = np.linalg.cholesky(K[np.ix_(pivots, pivots)])
    np.testing.assert_allclose(rows, np.linalg.solve(L, K[pivots]), atol=1e-11)
    np.testing.assert_allclose(np.tril(rows[:, pivots], -1), 0.0, atol=1e-11)
    expected = np.diag(K) - np.sum(rows**2, axis=0)
    np.testing.assert_allclose(residual, np.maximum(expected, 0.0), atol=1e-11)
    assert asked == list(pivots)  # one column per pivot, nothing else


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_stops_when_nothing_is_left(rank):
    K = positive(20, rank)
    (pivots, rows, residual), asked = factor(K, 20)
    assert len(pivots) == len(rows) == len(asked) == rank
    assert residual.max() <= 1e-10 * max(np.diag(K).max(), 1.0)


def test_ties_follow_position():
    assert list(factor(np.eye(5), 3)[0].pivots) == [0, 1, 2]


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
