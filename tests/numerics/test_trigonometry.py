"""Sums of waves against NumPy's functions."""

import numpy as np
import pytest

from skgpx._numerics import trigonometry

ANGLES = np.concatenate((np.linspace(-3.0, 3.0, 2401), [1e-300, -0.0, 12345.678]))


def cosine_and_sine(turns):
    out, one = np.empty((2, len(turns))), np.ones(1)
    trigonometry.cosines_and_sines(np.atleast_2d(turns), one[:, np.newaxis], one, out)
    return out


def test_cosine_and_sine_to_the_stated_accuracy():
    # np.cos(2π t) itself errs by the rounding of 2π t
    angle = 2.0 * np.pi * (ANGLES - np.rint(ANGLES))
    cosine, sine = cosine_and_sine(ANGLES)
    np.testing.assert_allclose(cosine, np.cos(angle), rtol=0, atol=6e-16)
    np.testing.assert_allclose(sine, np.sin(angle), rtol=0, atol=3e-15)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 9])
class TestSums:
    def problem(self, d, n=37, R=11):
        rng = np.random.default_rng(d)
        X, W = rng.normal(size=(n, d)), rng.normal(size=(R, d))
        return X, W, rng.uniform(0.5, 2.0, R), rng

    def test_rows(self, d):
        X, W, a, _ = self.problem(d)
        out = np.empty((2 * len(a), len(X)))
        trigonometry.cosines_and_sines(np.ascontiguousarray(X.T), W, a, out)
        angle = 2.0 * np.pi * W @ X.T
        expected = np.vstack((a[:, None] * np.cos(angle), a[:, None] * np.sin(angle)))
        np.testing.assert_allclose(out, expected, atol=1e-13)

    def test_shifted_cosines_of_one_function(self, d):
        X, W, a, rng = self.problem(d)
        phases, out = rng.uniform(size=len(a)), np.ones(len(X))
        trigonometry.shifted_cosines(X, W, a, phases, out)
        expected = 1.0 + np.cos(2.0 * np.pi * (X @ W.T - phases)) @ a
        np.testing.assert_allclose(out, expected, atol=1e-12)

    @pytest.mark.parametrize("R", [1, 3, 4, 5])
    @pytest.mark.parametrize("n", [1, 255, 256, 257])
    def test_any_number_of_waves_and_rows(self, d, R, n):
        X, W, a, rng = self.problem(d, n, R)
        phases, out = rng.uniform(size=R), np.zeros(n)
        trigonometry.shifted_cosines(X, W, a, phases, out)
        expected = np.cos(2.0 * np.pi * (X @ W.T - phases)) @ a
        np.testing.assert_allclose(out, expected, atol=1e-12)

    @pytest.mark.parametrize("R", [1, 8, 37])
    def test_shifted_cosines_of_one_function_at_each_point(self, d, R):
        X, W, _, rng = self.problem(d, R=R)
        amplitudes, phases = rng.normal(size=(2, 3, R))
        index, out = rng.integers(3, size=len(X)), np.ones(len(X))
        more = (0, -d % 4)
        points = np.pad(X, ((0, 0), more))
        frequencies = np.pad(np.stack((W.T, 2.0 * W.T)), ((0, 0), more, (0, 0)))
        owners = np.array([1, 0, 1])
        trigonometry.shifted_cosines_at_pairs(
            points, frequencies, owners, amplitudes, phases, index, out
        )
        turns = X @ W.T * (1.0 + owners[index])[:, None]
        waves = np.cos(2.0 * np.pi * (turns - phases[index]))
        expected = 1.0 + np.sum(amplitudes[index] * waves, axis=1)
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
