import ctypes

import numpy as np
import pytest

from skgpx._numerics import lapack

# of ctypes: the routine is called while the interpreter's lock is held
HOLDS_THE_LOCK = 4


def lower_factor(rng, m):
    A = rng.standard_normal((m, m))
    return np.linalg.cholesky(A @ A.T + np.eye(m))


@pytest.mark.parametrize("m", [1, 2, 7, 40])
def test_factor_and_inverses_of_what_is_below_the_diagonal(rng, m):
    L = lower_factor(rng, m)
    C = np.tril(L @ L.T) + np.triu(np.full((m, m), np.nan), 1)
    assert lapack.factorise(C)
    np.testing.assert_allclose(np.tril(C), L, rtol=1e-10, atol=1e-12)
    assert np.all(np.isnan(C[np.triu_indices(m, 1)]))
    assert lapack.invert_factorised(C)
    inverse = np.linalg.inv(L @ L.T)
    np.testing.assert_allclose(np.tril(C), np.tril(inverse), rtol=1e-8, atol=1e-10)
    T = L.copy()
    assert lapack.invert_triangle(T)
    np.testing.assert_allclose(T @ L, np.eye(m), atol=1e-10)


def test_what_cannot_be_factorised_or_inverted_is_said():
    assert not lapack.factorise(np.array([[1.0, 0.0], [2.0, 1.0]]))
    assert not lapack.invert_triangle(np.diag([1.0, 0.0]))
    assert not lapack.invert_factorised(np.diag([0.0, 1.0]))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 0), (5, 9), (70, 33)])
def test_gram_of_rows(rng, m, n):
    rows, gram = rng.standard_normal((m, n)), np.full((m, m), np.nan)
    lapack.add_gram(rows, gram, fresh=True)
    np.testing.assert_allclose(np.tril(gram), np.tril(rows @ rows.T), atol=1e-12)
    lapack.add_gram(rows, gram, fresh=False)
    np.testing.assert_allclose(np.tril(gram), 2.0 * np.tril(rows @ rows.T), atol=1e-12)
    assert np.all(np.isnan(gram[np.triu_indices(m, 1)]))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m", [1, 6, 33])
def test_solves_in_both_orders(rng, m, transposed):
    L = lower_factor(rng, m)
    junk = L + np.triu(np.full((m, m), np.nan), 1)
    A = L.T if transposed else L
    for B in (
        rng.standard_normal(m),
        rng.standard_normal((m, 5)),
        np.asfortranarray(rng.standard_normal((m, 5))),
        rng.standard_normal((m, 1)),
    ):
        solution = B.copy(order="K")
        lapack.solve_triangle(junk, solution, transposed)
        np.testing.assert_allclose(A @ solution, B, rtol=1e-10, atol=1e-12)


def test_other_threads_run_meanwhile():
    names = "potrf", "potri", "trtri", "lauum", "syrk", "trmm", "trsm", "trsv"
    for routine in names:
        kind = type(getattr(lapack, f"_{routine}"))
        assert issubclass(kind, ctypes._CFuncPtr)
        assert not kind._flags_ & HOLDS_THE_LOCK
