import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skgpx._numerics.linalg import (
    cholesky,
    inverse_root,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
    square_triangle,
)


def positive_definite(rng, m):
    A = rng.standard_normal((m, m))
    return A @ A.T + np.eye(m)


def test_factor_of_a_positive_definite_matrix(rng):
    K = positive_definite(rng, 6)
    before = K.copy()
    L, jitter = cholesky(K)
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(6), rtol=1e-13)
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_array_equal(K, before)
    assert L.flags.c_contiguous
    assert jitter == pytest.approx(1e-10 * np.trace(K) / 6)


def test_no_jitter_on_request(rng):
    K = positive_definite(rng, 5)
    L, jitter = cholesky(K, jitter=0.0)
    assert jitter == 0.0
    np.testing.assert_allclose(L, np.linalg.cholesky(K), rtol=1e-12)


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


def test_triangular_solves(rng):
    L = cholesky(positive_definite(rng, 5)).L
    B = rng.standard_normal((5, 3))
    np.testing.assert_allclose(L @ solve_lower(L, B), B, atol=1e-13)
    np.testing.assert_allclose(L.T @ solve_lower_transpose(L, B), B, atol=1e-13)
    np.testing.assert_allclose(L @ solve_lower(L, B[:, 0]), B[:, 0], atol=1e-13)


@pytest.mark.parametrize("m", [1, 31, 32, 33, 63, 64, 65, 128, 129, 150])
def test_inverse_root(rng, m):
    """At sizes around those of blocks; what is above the diagonal is not read."""
    K = positive_definite(rng, m)
    lower, space = np.where(np.tri(m) > 0.0, K, np.nan), np.full((m, m), np.nan)
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


def test_log_determinant(rng):
    K = positive_definite(rng, 7)
    expected = np.linalg.slogdet(K)[1]
    assert log_determinant(cholesky(K, jitter=0.0).L) == pytest.approx(expected)
