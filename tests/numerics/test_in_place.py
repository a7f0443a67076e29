import numpy as np
import pytest
from scipy.linalg.lapack import dtrtri

from skgpx._numerics import linalg


def lower_factor(rng, m):
    A = rng.standard_normal((m, m))
    return np.linalg.cholesky(A @ A.T + np.eye(m))


@pytest.mark.parametrize("m", [1, 2, 7, 40])
def test_factor_and_inverses_of_what_is_below_the_diagonal(rng, m):
    L = lower_factor(rng, m)
    C = np.tril(L @ L.T) + np.triu(np.full((m, m), np.nan), 1)
    assert linalg.factorise(C)
    np.testing.assert_allclose(np.tril(C), L, rtol=1e-10, atol=1e-12)
    assert np.all(np.isnan(C[np.triu_indices(m, 1)]))
    assert linalg.invert_factorised(C)
    inverse = np.linalg.inv(L @ L.T)
    np.testing.assert_allclose(np.tril(C), np.tril(inverse), rtol=1e-8, atol=1e-10)
    T = L.copy()
    assert linalg._in_place(dtrtri, T, overwrite_c=1)
    np.testing.assert_allclose(T @ L, np.eye(m), atol=1e-10)


def test_what_cannot_be_factorised_or_inverted_is_said():
    assert not linalg.factorise(np.array([[1.0, 0.0], [2.0, 1.0]]))
    assert not linalg._in_place(dtrtri, np.diag([1.0, 0.0]), overwrite_c=1)
    assert not linalg.invert_factorised(np.diag([0.0, 1.0]))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 0), (5, 9), (70, 33)])
def test_gram_of_rows(rng, m, n):
    rows, gram = rng.standard_normal((m, n)), np.full((m, m), np.nan)
    linalg.add_gram(rows, gram, fresh=True)
    np.testing.assert_allclose(np.tril(gram), np.tril(rows @ rows.T), atol=1e-12)
    linalg.add_gram(rows, gram, fresh=False)
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
        linalg._solve_triangle(junk, solution, transposed)
        np.testing.assert_allclose(A @ solution, B, rtol=1e-10, atol=1e-12)
