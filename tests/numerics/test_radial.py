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
kernels = pytest.mark.parametrize("name", KERNELS)


def problem(d=3, n=29, m=7):
    rng = np.random.default_rng(d)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    return X, Z, rng


@kernels
class TestRadial:
    def test_rows(self, name):
        code, kernel = KERNELS[name]
        X, Z, _ = problem()
        X[0] = Z[0]
        out = np.empty((len(Z), len(X)))
        radial.radial_rows(code, np.ascontiguousarray(X.T), Z, out)
        np.testing.assert_allclose(out, kernel(Z, X), rtol=1e-12)

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
        G = rng.standard_normal((n, n))
        G += G.T
        sums = triangle_slopes(G, W, X)
        both = np.tril(W, -1) + np.tril(W, -1).T
        expected = np.einsum("ij,ij,ijq->q", G, both, (X[:, None] - X) ** 2)
        np.testing.assert_allclose(sums, expected, rtol=1e-10, atol=1e-10)

    def test_sum(self, name):
        code, kernel = KERNELS[name]
        X, Z, rng = problem()
        v, out = rng.normal(size=len(Z)), np.ones(len(X))
        radial.radial_sum(code, X, Z, v, out)
        np.testing.assert_allclose(out, 1.0 + kernel(X, Z) @ v, rtol=1e-12, atol=1e-13)

    @pytest.mark.parametrize("n", [1, 63, 127, 128, 129, 256, 385])
    @pytest.mark.parametrize("m", [1, 7, 8, 9])
    def test_stretches_and_panels_of_every_length(self, name, n, m):
        code, kernel = KERNELS[name]
        X, Z, rng = problem(2, n, m)
        out, v = np.empty((m, n)), rng.normal(size=m)
        radial.radial_rows(code, np.ascontiguousarray(X.T), Z, out)
        np.testing.assert_allclose(out, kernel(Z, X), rtol=1e-12)
        total = np.zeros(n)
        radial.radial_sum(code, X, Z, v, total)
        np.testing.assert_allclose(total, v @ out, rtol=1e-12, atol=1e-13)

    def test_pairs_have_the_gradient_of_their_values(self, name):
        code, kernel = KERNELS[name]
        X, Z, rng = problem()
        weights, index = rng.normal(size=(4, len(Z))), rng.integers(4, size=len(X))
        centres = np.ascontiguousarray(Z.T)

        def evaluate(X):
            value, gradient = np.zeros(len(X)), np.zeros(X.shape)
            radial.radial_pairs(code, X, centres, weights, index, value, gradient)
            return value, gradient

        value, gradient = evaluate(X)
        expected = np.sum(kernel(X, Z) * weights[index], axis=1)
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-13)
        for k in range(X.shape[1]):
            step = 1e-5 * np.eye(X.shape[1])[k]
            slope = (evaluate(X + step)[0] - evaluate(X - step)[0]) / 2e-5
            np.testing.assert_allclose(gradient[:, k], slope, rtol=1e-6, atol=1e-7)

    def test_pair_values_are_those_with_gradients(self, name):
        code, _ = KERNELS[name]
        X, Z, rng = problem()
        weights, index = rng.normal(size=(4, len(Z))), rng.integers(4, size=len(X))
        origin, scale = rng.normal(size=3), rng.uniform(0.5, 2.0, size=3)
        arguments = (np.ascontiguousarray(Z.T), weights, index)
        value, gradient, alone = np.ones(len(X)), np.zeros(X.shape), np.ones(len(X))
        radial.radial_pairs(code, X, *arguments, value, gradient)
        far = origin + scale * X
        radial.radial_pair_values(code, far, origin, scale, *arguments, alone)
        np.testing.assert_allclose(alone, value, rtol=1e-12, atol=1e-13)

    def test_gradient_at_a_centre_is_finite(self, name):
        code, _ = KERNELS[name]
        _, Z, rng = problem()
        value, gradient = np.zeros(1), np.zeros((1, 3))
        radial.radial_pairs(
            code, Z[:1].copy(), np.ascontiguousarray(Z.T),
            rng.normal(size=(1, len(Z))), np.zeros(1, np.intp), value, gradient,
        )  # fmt: skip
        assert np.isfinite(gradient).all()

    def test_at_a_centre_the_value_is_one(self, name):
        code, _ = KERNELS[name]
        out = np.empty((1, 130))
        radial.radial_rows(code, np.zeros((2, 130)), np.zeros((1, 2)), out)
        np.testing.assert_array_equal(out, 1.0)

    def test_far_away_everything_is_nearly_zero(self, name):
        code, _ = KERNELS[name]
        out = np.empty((1, 3))
        points = np.array([[1e4, 1e150, 1e200]])
        # plain Python warns of squares that overflow, compiled code does not
        with np.errstate(over="ignore"):
            radial.radial_rows(code, points, np.zeros((1, 1)), out)
        assert np.isfinite(out).all()
        assert np.all(np.abs(out) < 1e-5)
