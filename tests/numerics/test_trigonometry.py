"""Sums of waves against NumPy's functions."""

import numpy as np
import pytest

from skgpx._numerics import trigonometry

ANGLES = np.concatenate((np.linspace(-3.0, 3.0, 2401), [1e-300, -0.0, 12345.678]))


def test_cosine_and_sine_to_the_stated_accuracy():
    out, one = np.empty((2, len(ANGLES))), np.ones(1)
    trigonometry.cosines_and_sines(ANGLES[np.newaxis], one[:, np.newaxis], one, out)
    # np.cos(2π t) itself errs by the rounding of 2π t
    angle = 2.0 * np.pi * (ANGLES - np.rint(ANGLES))
    np.testing.assert_allclose(out[0], np.cos(angle), rtol=0, atol=6e-16)
    np.testing.assert_allclose(out[1], np.sin(angle), rtol=0, atol=3e-15)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
class TestSums:
    def problem(self, d, n=37, R=11):
        rng = np.random.default_rng(d)
        X, W = rng.normal(size=(n, d)), rng.normal(size=(R, d))
        return X, W, rng.normal(size=R), rng

    def test_rows(self, d):
        X, W, a, _ = self.problem(d)
        out = np.empty((2 * len(a), len(X)))
        trigonometry.cosines_and_sines(np.ascontiguousarray(X.T), W, a, out)
        angle = 2.0 * np.pi * W @ X.T
        expected = np.vstack((a[:, None] * np.cos(angle), a[:, None] * np.sin(angle)))
        np.testing.assert_allclose(out, expected, atol=1e-13)

    @pytest.mark.parametrize("n", [1, 255, 256, 257])
    def test_shifted_cosines_of_one_function(self, d, n):
        X, W, a, rng = self.problem(d, n)
        phases, out = rng.uniform(size=len(a)), np.ones(n)
        trigonometry.shifted_cosines(X, W, a, phases, out)
        expected = 1.0 + np.cos(2.0 * np.pi * (X @ W.T - phases)) @ a
        np.testing.assert_allclose(out, expected, atol=1e-12)

    def test_pairs_have_the_gradient_of_their_values(self, d):
        X, W, a, rng = self.problem(d)
        weights = rng.normal(size=(3, 2 * len(a)))
        index = rng.integers(3, size=len(X))
        turns = np.ascontiguousarray(W.T)

        def evaluate(X):
            value, gradient = np.zeros(len(X)), np.zeros(X.shape)
            trigonometry.cosines_and_sines_at_pairs(
                X, turns, a, weights, index, value, gradient
            )
            return value, gradient

        value, gradient = evaluate(X)
        angle = 2.0 * np.pi * X @ W.T
        features = np.hstack((a * np.cos(angle), a * np.sin(angle)))
        expected = np.sum(features * weights[index], axis=1)
        np.testing.assert_allclose(value, expected, atol=1e-12)
        for k in range(d):
            step = 1e-5 * np.eye(d)[k]
            slope = (evaluate(X + step)[0] - evaluate(X - step)[0]) / 2e-5
            np.testing.assert_allclose(gradient[:, k], slope, rtol=1e-6, atol=1e-6)
