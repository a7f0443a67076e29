import numpy as np
import pytest

from skgpx._numerics.tridiagonal import ridge_pivots, tridiagonal_from


def problem(m, rank=None):
    rng = np.random.default_rng(m)
    F = rng.standard_normal((rank or 2 * m, m)) / np.arange(1, m + 1)
    return F.T @ F, rng.standard_normal(m)


@pytest.mark.parametrize("m", [1, 2, 30])
def test_eigenvalues_and_moments_are_kept(m):
    A, b = problem(m)
    diagonal, below = tridiagonal_from(A, b)
    T = np.diag(diagonal) + np.diag(below, 1) + np.diag(below, -1)
    assert np.allclose(np.linalg.eigvalsh(T), np.linalg.eigvalsh(A), rtol=1e-12)
    # bᵀ A^k b = |b|² (T^k)₁₁
    power, tower = b, np.eye(m)[0]
    for _ in range(4):
        power, tower = A @ power, T @ tower
        assert b @ power == pytest.approx((b @ b) * tower[0], rel=1e-12)


def test_no_moment_at_all():
    A, b = problem(5)
    diagonal, _ = tridiagonal_from(A, 0.0 * b)
    assert np.sum(diagonal) == pytest.approx(np.trace(A))


@pytest.mark.parametrize("m", [1, 2, 30])
@pytest.mark.parametrize("a", [1e-3, 1.0, 1e6])
def test_ridges(m, a):
    A, b = problem(m)
    T = tridiagonal_from(A, b)
    volume, in_volume, corner, in_corner = ridge_pivots(*T, a)
    B = np.eye(m) + a * A
    assert volume == pytest.approx(np.linalg.slogdet(B)[1], rel=1e-10)
    direction = b / np.linalg.norm(b)
    solved = np.linalg.solve(B, direction)
    assert corner == pytest.approx(direction @ solved, rel=1e-8)
    inverse = np.linalg.inv(B)
    assert in_volume == pytest.approx(m - np.trace(inverse), rel=1e-8)
    # ∂B⁻¹/∂log a = B⁻² - B⁻¹
    assert in_corner == pytest.approx(solved @ solved - direction @ solved, rel=1e-7)


def test_rounding_does_not_make_pivots_negative():
    A, b = problem(40, rank=3)
    volume, in_volume, corner, _ = ridge_pivots(*tridiagonal_from(A, b), 1e18)
    assert np.isfinite([volume, in_volume]).all()
    assert 0.0 < corner <= 1.0
