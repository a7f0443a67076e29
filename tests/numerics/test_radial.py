"""Compiled kernels of the distance against scikit-learn's."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._numerics import radial
from skgpx._numerics.linalg import triangle_slopes

KERNELS = {
    "rbf": (radial.RBF, RBF()),
    "matern-1/2": (radial.MATERN_12, Matern(nu=0.5)),
    "matern-3/2": (radial.MATERN_32, Matern(nu=1.5)),
    "matern-5/2": (radial.MATERN_52, Matern(nu=2.5)),
}


def problem(d=3, n=29, m=7):
    rng = np.random.default_rng(d)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    X[0] = Z[0]
    return X, Z, rng


@pytest.mark.parametrize("name", KERNELS)
class TestRadial:
    @pytest.mark.parametrize("n", [1, 255, 256, 257])
    def test_rows_and_sums(self, name, n):
        code, kernel = KERNELS[name]
        X, Z, rng = problem(n=n)
        out, total, v = np.empty((len(Z), n)), np.ones(n), rng.normal(size=len(Z))
        radial.radial_rows(code, np.ascontiguousarray(X.T), Z, out)
        np.testing.assert_allclose(out, kernel(Z, X), rtol=1e-12)
        assert out[0, 0] == 1.0
        radial.radial_sum(code, X, Z, v, total)
        np.testing.assert_allclose(total, 1.0 + v @ out, rtol=1e-12, atol=1e-13)

    @pytest.mark.parametrize("d", [1, 2, 5])
    def test_triangle_is_that_of_the_whole_and_its_slopes(self, name, d):
        code, kernel = KERNELS[name]
        X, _, rng = problem(d)
        n, whole = len(X), 1.7 * kernel(X)
        K, W = np.full((2, n, n), np.nan)
        radial.radial_triangle(code, 1.7, X, K, W)
        np.testing.assert_allclose(np.tril(K), np.tril(whole), rtol=1e-12)
        # w = -(dk/dr) / r by differences along each pair
        square = np.sum((X[:, None] - X) ** 2, axis=2)
        h = 1e-6
        ends = [1.7 * kernel(np.zeros((1, 1)), np.sqrt(square.reshape(-1, 1)) + e)
                for e in (h, -h)]  # fmt: skip
        slope = ((ends[0] - ends[1]) / (2.0 * h)).reshape(n, n)
        below = np.tril_indices(n, -1)
        expected = -slope[below] / np.sqrt(square[below])
        np.testing.assert_allclose(W[below], expected, rtol=1e-6, atol=1e-8)
        full, slopes = np.empty((2, n, n))
        radial.radial_slopes(code, np.ascontiguousarray(X.T), X, full, slopes)
        np.testing.assert_allclose(np.tril(1.7 * slopes), np.tril(W), rtol=1e-12)
        G = rng.standard_normal((n, n))
        G += G.T
        sums = triangle_slopes(G, W, X)
        both = np.tril(W, -1) + np.tril(W, -1).T
        expected = np.einsum("ij,ij,ijq->q", G, both, (X[:, None] - X) ** 2)
        np.testing.assert_allclose(sums, expected, rtol=1e-10, atol=1e-10)

    def test_pairs_have_the_gradient_of_their_values(self, name):
        code, kernel = KERNELS[name]
        X, Z, rng = problem()
        weights, index = rng.normal(size=(4, len(Z))), rng.integers(4, size=len(X))
        arguments = np.ascontiguousarray(Z.T), weights, index

        def evaluate(X):
            value, gradient = np.zeros(len(X)), np.zeros(X.shape)
            radial.radial_pairs(code, X, *arguments, value, gradient)
            return value, gradient

        value, gradient = evaluate(X)
        assert np.isfinite(gradient).all()
        expected = np.sum(kernel(X, Z) * weights[index], axis=1)
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-13)
        # the first row is a centre, where the roughest kernel has a kink
        for k in range(X.shape[1]):
            step = 1e-5 * np.eye(X.shape[1])[k]
            slope = (evaluate(X + step)[0] - evaluate(X - step)[0]) / 2e-5
            np.testing.assert_allclose(gradient[1:, k], slope[1:], rtol=1e-6, atol=1e-7)

    def test_far_away_everything_is_nearly_zero(self, name):
        code, _ = KERNELS[name]
        out = np.empty((1, 3))
        points = np.array([[1e4, 1e150, 1e200]])
        # plain Python warns of squares that overflow, compiled code does not
        with np.errstate(over="ignore"):
            radial.radial_rows(code, points, np.zeros((1, 1)), out)
        assert np.isfinite(out).all()
        assert np.all(np.abs(out) < 1e-5)
