"""Draws conditioned on observations, and the distribution they leave."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from skgpx._draws import KernelProcess
from skgpx._draws._processes import WeightRoot, observe
from skgpx.bases import draw_prior


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(15, 2))


class TestConditioning:
    kernel = ConstantKernel(1.5) * DotProduct(0.6) + ConstantKernel(0.5)

    def prior(self, n_draws=4, n_outputs=1, seed=0):
        rng = np.random.default_rng(seed)
        draws = draw_prior(self.kernel, 2, n_outputs, n_draws, rng)
        return draws.with_process(KernelProcess.prior(self.kernel, 2, n_outputs))

    def test_in_two_parts_as_in_one(self, X):
        y, noise = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.1, 0.2, 0.3, 0.4])
        once = self.prior().process.update(X[:4], np.zeros((4, 1, 1)), noise)[1]
        part = self.prior().condition(X[:2], y[:2], noise[:2])
        twice = part.condition(X[2:4], y[2:], noise[2:]).process
        for at in (X[:4], X[4:]):
            expected = once.covariance(at)
            np.testing.assert_allclose(twice.covariance(at), expected, atol=1e-7)

    def test_distribution(self, X):
        size, noise = 6000, 0.3
        y, T = np.array([1.0, -2.0, 0.5]), X[3:8]
        first = self.prior(size).condition(X[:1], y[:1], noise, random_state=1)
        sample = first.condition(X[1:3], y[1:], noise, random_state=2)(T)
        K = self.kernel(X[:3]) + noise * np.eye(3)
        gain = np.linalg.solve(K, self.kernel(X[:3], T)).T
        mean, covariance = gain @ y, self.kernel(T) - gain @ self.kernel(X[:3], T)
        error = np.sqrt(np.diag(covariance) / size)
        assert np.all(np.abs(sample.mean(axis=1) - mean) < 4.5 * error)
        centred, variances = sample - mean[:, None], np.diag(covariance)
        scale = np.sqrt((np.outer(variances, variances) + covariance**2) / size)
        assert np.all(np.abs(centred @ centred.T / size - covariance) < 4.5 * scale)

    def test_outputs_with_their_own_units(self, X):
        scale, y = np.array([2.0, 0.5]), np.array([[1.0, -2.0], [0.3, 0.7]])
        draws = self.prior(n_outputs=2).affine([1.0, -1.0], scale)
        moved = draws.condition(X[:2], y, 1e-8, random_state=0)
        np.testing.assert_allclose(moved(X[:2]).mean(axis=2), y, atol=1e-3)
        for o in range(2):
            K = self.kernel(X[:2]) + 1e-3 / scale[o] ** 2 * np.eye(2)
            gain = np.linalg.solve(K, self.kernel(X[:2], X)).T
            expected = scale[o] ** 2 * (self.kernel(X) - gain @ self.kernel(X[:2], X))
            weights = draws.condition(X[:2], y, 1e-3, random_state=0).process
            np.testing.assert_allclose(weights.covariance(X, o), expected, atol=1e-6)

    def test_unknown_distributions_are_refused(self, X):
        with pytest.raises(ValueError, match="one Gaussian process"):
            (self.prior() + self.prior(seed=1)).condition(X[:1], [0.0])
        with pytest.raises(ValueError, match="shape"):
            self.prior().condition(X[:2], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="negative"):
            self.prior().condition(X[:2], [1.0, 2.0], -1.0)
        with pytest.raises(ValueError, match="finite"):
            self.prior().condition(X[:2], [1.0, np.nan])


@pytest.mark.parametrize("noise", [1e-10, 1e-4, 1.0])
@pytest.mark.parametrize("p", [1, 5, 9])
def test_roots_of_what_observations_leave(p, noise):
    """Against the information form, fewer, as many and more rows than variables."""
    rng = np.random.default_rng(0)
    S, seen = rng.normal(size=(6, 5)), rng.normal(size=(p, 8))
    discrepancy = rng.normal(size=(p, 2, 3))
    scale, variances = np.array([1.0, 2.0]), noise * np.linspace(1.0, 2.0, p)
    nugget = np.full(p, 1e-12)
    moved, left = observe((WeightRoot(S),), seen, scale, discrepancy, variances, nugget)
    assert len(left) == 2
    prior = block_diag(S @ S.T, np.eye(2))
    for o, root in enumerate(left):
        N = np.diag(variances / scale[o] ** 2 + nugget)
        gain = np.linalg.solve(seen @ prior @ seen.T + N, seen @ prior).T
        # digits are lost to the ratio of variances, here and there
        half = root.dense()
        assert half.shape == (8, 7)
        np.testing.assert_allclose(
            half @ half.T, prior - gain @ seen @ prior, atol=1e-6
        )
        if noise > 1e-6 or p <= 5:
            expected = gain @ discrepancy[:, o]
            np.testing.assert_allclose(moved[:, o], expected, rtol=1e-4, atol=1e-4)
