import numpy as np
import pytest

from skgpx._numerics.linalg import (
    inner_product,
    mirrored,
    scale_and_shift,
)


def symmetric(rng, n):
    A = rng.standard_normal((n, n))
    return A + A.T


def below(A):
    """Only the lower triangle is known."""
    return np.tril(A) + np.triu(np.full_like(A, np.nan), 1)


@pytest.mark.parametrize("n", [1, 2, 9, 33])
def test_lower_triangles_stand_for_symmetric_matrices(rng, n):
    A, B = symmetric(rng, n), symmetric(rng, n)
    np.testing.assert_array_equal(mirrored(below(A)), A)
    expected = np.sum(A * B)
    assert inner_product(below(A), below(B)) == pytest.approx(expected, abs=1e-10)
    C = below(A)
    scale_and_shift(C, 0.3, 2.0)
    np.testing.assert_allclose(mirrored(C), 0.3 * A + 2.0 * np.eye(n), atol=1e-15)
