"""Paired waves as a basis: features, weights, derivatives, draws."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern

from skgpx._latent import LatentModel
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import Fourier

SCALES = {
    "one": 1.0,
    "shared": 0.7,
    "array": np.array([0.7]),
    "ard": np.array([0.7, 2]),
}
scales = pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())


def make(scale=1.0, R=6, d=2, tail=0.0):
    rng = np.random.default_rng(4)
    return Fourier(rng.normal(size=(R, d)), rng.uniform(0.2, 1.0, R), scale, tail)


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(15, 2))


@scales
def test_features_are_cosines_and_sines(scale, X):
    basis = make(scale)
    phases = X @ (basis.frequencies / scale).T
    expected = np.hstack((np.cos(phases), np.sin(phases))) * np.tile(
        basis.amplitudes, 2
    )
    assert basis.n_basis == 12
    assert_allclose(basis(X), expected, atol=1e-13)
    assert_allclose(np.vstack([basis(x[None]) for x in X]), basis(X), atol=1e-14)


@pytest.mark.parametrize("tail", [0.0, 0.3])
def test_features_and_residual_make_the_covariance(tail, X):
    basis = make(tail=tail)
    features = basis(X)
    total = features @ features.T + basis.residual_covariance(X, features)
    lags = X[:, np.newaxis] - X
    expected = np.cos(lags @ basis.frequencies.T) @ basis.amplitudes**2
    assert_allclose(total, expected + tail * np.eye(15), atol=1e-13)
    variance = basis.residual_variance(X, features)
    assert_array_equal(variance, np.full(15, tail))


@pytest.mark.parametrize(
    "kernel",
    [2.0 * RBF([0.7, 1.6]), Matern(0.9, nu=1.5), ConstantKernel(0.5) * RBF(2.0) ** 2],
    ids=str,
)
def test_kernels_are_right_on_average(kernel, X):
    rng = np.random.default_rng(0)
    bases = [Fourier.from_kernel(kernel, 64, 2, rng) for _ in range(60)]
    runs = np.array([basis(X) @ basis(X).T for basis in bases])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    difference = np.abs(runs.mean(axis=0) - kernel(X))
    assert np.all(difference < 4.5 * error + 1e-12)
    assert_allclose(runs[:, 0, 0], kernel(X[:1])[0, 0], rtol=1e-12)


def test_a_periodic_kernel_is_exact():
    kernel = 3.0 * ExpSineSquared(0.8, 1.3)
    x = np.linspace(-2.0, 2.0, 30)[:, np.newaxis]
    basis = Fourier.from_kernel(kernel, 4, 1, np.random.default_rng(0))
    assert_allclose(basis(x) @ basis(x).T, kernel(x), atol=1e-11)


def test_draws_have_the_covariance(X):
    basis, X, size = make(0.7), X[:5], 20_000
    rng = np.random.default_rng(0)
    draws = basis.draw(rng.standard_normal((12, 1, size)), rng)
    K = basis(X) @ basis(X).T
    scale = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / size)
    assert np.all(np.abs(draws(X) @ draws(X).T / size - K) < 4.5 * scale)
    weights = rng.standard_normal((12, 2, 3))
    values = np.tensordot(basis(X), weights, 1)
    assert_allclose(basis.draw(weights, rng)(X), values, atol=1e-13)


class TestConditioning:
    """Of weights that do not have their prior, against dense formulas."""

    def model(self, n_outputs=1):
        rng = np.random.default_rng(7)
        root = 0.4 * np.tril(rng.normal(size=(n_outputs, 12, 12)))
        weights = GaussianWeights(rng.normal(size=(12, n_outputs)), root)
        return LatentModel(make(0.7), weights)

    def dense(self, model, X, T, y, noise, o=0):
        """Mean and covariance at T given y at X."""
        S, at, seen = model.weights.root[o], model.basis(T), model.basis(X)
        prior = S @ S.T
        K = seen @ prior @ seen.T + np.diag(noise)
        gain = np.linalg.solve(K, seen @ prior @ at.T).T
        mean = model.weights.mean[:, o]
        covariance = at @ prior @ at.T - gain @ seen @ prior @ at.T
        return at @ mean + gain @ (y - seen @ mean), covariance

    def test_distribution(self, X):
        model, size, noise = self.model(), 6000, np.array([0.3, 0.1, 0.05])
        y, T = np.array([1.0, -2.0, 0.5]), X[5:10]
        draws = model.draw(size, np.random.default_rng(0))
        moved = draws.condition(X[:3], y, noise, random_state=1)
        assert len(moved.terms) == 1
        mean, covariance = self.dense(model, X[:3], T, y, noise)
        assert_allclose(moved.process.covariance(T), covariance, atol=1e-8)
        error = np.sqrt(np.diag(covariance) / size)
        assert np.all(np.abs(moved(T).mean(axis=1) - mean) < 4.5 * error)
        centred, variances = moved(T) - mean[:, None], np.diag(covariance)
        scale = np.sqrt((np.outer(variances, variances) + covariance**2) / size)
        assert np.all(np.abs(centred @ centred.T / size - covariance) < 4.5 * scale)

    @pytest.mark.parametrize("n", [3, 12, 15])
    def test_fewer_as_many_and_more_observations_than_weights(self, n, X):
        model, noise = self.model(), np.full(n, 0.1)
        draws = model.draw(2, np.random.default_rng(0))
        found = draws.condition(X[:n], np.zeros(n), noise).process.covariance(X)
        expected = self.dense(model, X[:n], X, np.zeros(n), noise)[1]
        assert_allclose(found, expected, atol=1e-9)

    def test_in_two_parts_as_in_one(self, X):
        model, y = self.model(), np.array([1.0, -2.0, 0.5, 3.0])
        noise = np.array([0.1, 0.2, 0.3, 0.4])
        draws = model.draw(3, np.random.default_rng(0))
        first = draws.condition(X[:2], y[:2], noise[:2])
        found = first.condition(X[2:4], y[2:], noise[2:]).process.covariance(X)
        assert_allclose(found, self.dense(model, X[:4], X, y, noise)[1], atol=1e-9)

    def test_interpolates_without_noise(self, X):
        draws = self.model().draw(4, np.random.default_rng(0))
        moved = draws.condition(X[:2], [1.0, -2.0])
        assert_allclose(moved(X[:2]), [[1.0] * 4, [-2.0] * 4], atol=1e-6)
        again = moved.condition(X[:2], [1.0, -2.0])
        assert_allclose(again(X[:2]), [[1.0] * 4, [-2.0] * 4], atol=1e-6)

    def test_outputs_with_their_own_distributions_and_units(self, X):
        model, noise = self.model(2), np.full(2, 0.1)
        draws = model.draw(3, np.random.default_rng(0)).affine(1.0, [2.0, 0.5])
        y = np.array([[1.0, -2.0], [0.3, 0.7]])
        process = draws.condition(X[:2], y, noise).process
        for o, scale in enumerate((2.0, 0.5)):
            expected = self.dense(model, X[:2], X, y[:, o], noise / scale**2, o)[1]
            assert_allclose(process.covariance(X, o), scale**2 * expected, atol=1e-9)

    def test_gradients_follow(self, X):
        draws = self.model().draw(3, np.random.default_rng(0))
        moved, h = draws.condition(X[:2], [1.0, -2.0], 0.1, random_state=0), 1e-5
        _, gradients = moved.value_and_grad(X)
        for k, unit in enumerate(h * np.eye(2)):
            expected = (moved(X + unit) - moved(X - unit)) / (2.0 * h)
            assert_allclose(gradients[..., k], expected, rtol=1e-6, atol=1e-7)


def test_pickles(X):
    basis = make(0.7, tail=0.1)
    again = pickle.loads(pickle.dumps(basis))
    assert_array_equal(again(X), basis(X))
    assert again.tail_variance == 0.1
