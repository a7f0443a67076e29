"""Compiled sums of kernels of the distance and of waves, against plain formulas."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._numerics import radial, trigonometry
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

    def test_triangles_and_slopes(self, name):
        """Slopes in the logarithm of each lengthscale, as scikit-learn has them."""
        code, kernel = KERNELS[name]
        X, Z, rng = problem()
        K, W = np.full((2, len(X), len(X)), np.nan)
        radial.radial_triangle(code, 2.0, X, K, W)
        ard = clone(kernel).set_params(length_scale=np.ones(3))
        expected, gradient = ard(X, eval_gradient=True)
        np.testing.assert_allclose(np.tril(K), 2.0 * np.tril(expected), rtol=1e-12)
        G = rng.normal(size=K.shape)
        G += G.T
        slopes = 2.0 * np.einsum("ij,ijq->q", G, gradient)
        np.testing.assert_allclose(triangle_slopes(G, W, X), slopes, rtol=1e-10)
        rows, W = np.empty((2, len(Z), len(X)))
        radial.radial_slopes(code, np.ascontiguousarray(X.T), Z, rows, W)
        np.testing.assert_allclose(rows, kernel(Z, X), rtol=1e-12)
        far, near = (
            kernel.clone_with_theta(np.array([h]))(Z, X) for h in (1e-5, -1e-5)
        )
        squares = np.sum((Z[:, np.newaxis] - X) ** 2, axis=2)
        found = np.where(squares > 0.0, W * squares, 0.0)
        np.testing.assert_allclose(found, (far - near) / 2e-5, atol=1e-8)


# ---- Waves ---------------------------------------------------------------------------

ANGLES = np.concatenate((np.linspace(-3.0, 3.0, 2401), [1e-300, -0.0, 12345.678]))


def test_cosine_and_sine_to_the_stated_accuracy():
    out, one = np.empty((2, len(ANGLES))), np.ones(1)
    trigonometry.cosines_and_sines(ANGLES[np.newaxis], one[:, np.newaxis], one, out)
    # np.cos(2π t) itself errs by the rounding of 2π t
    angle = 2.0 * np.pi * (ANGLES - np.rint(ANGLES))
    np.testing.assert_allclose(out[0], np.cos(angle), rtol=0, atol=6e-16)
    np.testing.assert_allclose(out[1], np.sin(angle), rtol=0, atol=3e-15)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 255, 256, 257])
def test_cosines_and_sines_and_shifted_cosines(d, n):
    rng = np.random.default_rng(d)
    X, W, a = rng.normal(size=(n, d)), rng.normal(size=(11, d)), rng.normal(size=11)
    out = np.empty((22, n))
    trigonometry.cosines_and_sines(np.ascontiguousarray(X.T), W, a, out)
    angle = 2.0 * np.pi * W @ X.T
    expected = np.vstack((a[:, None] * np.cos(angle), a[:, None] * np.sin(angle)))
    np.testing.assert_allclose(out, expected, atol=1e-13)
    phases, out = rng.uniform(size=11), np.ones(n)
    trigonometry.shifted_cosines(X, W, a, phases, out)
    expected = 1.0 + np.cos(angle.T - 2.0 * np.pi * phases) @ a
    np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 31, 32, 33])
def test_pairs_of_a_point_and_a_function(n):
    rng = np.random.default_rng(n)
    X, W, a = rng.normal(size=(n, 2)), rng.normal(size=(11, 2)), rng.normal(size=11)
    weights, index = rng.normal(size=(4, 22)), rng.integers(4, size=n)
    value, gradient = np.ones(n), np.ones((n, 2))
    frequencies = np.ascontiguousarray(W.T)
    trigonometry.cosines_and_sines_at_pairs(
        X, frequencies, a, weights, index, value, gradient
    )
    angle, (b, c) = 2.0 * np.pi * X @ W.T, np.split(weights[index], 2, axis=1)
    cosine, sine = a * np.cos(angle), a * np.sin(angle)
    expected = 1.0 + np.sum(b * cosine + c * sine, axis=1)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    expected = 1.0 + 2.0 * np.pi * (c * cosine - b * sine) @ W
    np.testing.assert_allclose(gradient, expected, atol=1e-11)
