"""Mixtures of latent models with bases of their own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from skgpx._latent import LatentModel, Mean, MixtureModel
from skgpx._numerics.weights import GaussianWeights, WeightParticles
from skgpx.bases import Nystroem

RNG = np.random.default_rng(0)
T = RNG.uniform(-1.0, 1.0, size=(6, 1))
LINEAR = DotProduct(0.8) + ConstantKernel(0.5)
WEIGHTS = np.array([0.2, 0.5, 0.3])


def part(k, kernel=LINEAR, c=1):
    Z = np.array([[0.3 * k - 0.5]])
    basis = Nystroem.from_kernel(kernel, Z)
    weights = GaussianWeights(RNG.normal(size=(1, c)), np.full((1, 1, 1), 0.4))
    return LatentModel(basis, weights, Mean.of(float(2 * k), c))


@pytest.fixture
def mixture():
    # weights are up to a constant
    return MixtureModel(tuple(part(k) for k in range(3)), np.log(WEIGHTS) + 7.0)


def test_weights_are_normalised(mixture):
    assert_allclose(mixture.weights, WEIGHTS)
    extreme = MixtureModel(mixture.models, np.array([-5000.0, -4999.0, -9000.0]))
    assert_allclose(extreme.weights.sum(), 1.0)


def test_moments_are_those_of_the_parts(mixture):
    mean, variance = mixture.marginals(T).moments()
    parts = [m.marginals(T).moments() for m in mixture.models]
    expected = sum(w * m for w, (m, _) in zip(WEIGHTS, parts, strict=True))
    second = sum(w * (v + m**2) for w, (m, v) in zip(WEIGHTS, parts, strict=True))
    assert_allclose(mean, expected)
    assert_allclose(variance, second - expected**2)
    assert_allclose(np.diagonal(mixture.covariance(T)), variance[:, 0])


def test_units_stay_inside_the_family(mixture):
    moved = mixture.affine(3.0, -2.0)
    mean, variance = mixture.marginals(T).moments()
    assert_allclose(moved.marginals(T).moments()[0], 3.0 - 2.0 * mean)
    assert_allclose(moved.marginals(T).moments()[1], 4.0 * variance)
    assert_allclose(moved.covariance(T), 4.0 * mixture.covariance(T))


def test_draws_come_from_all_parts_in_no_order(mixture):
    size = 20_000
    draws = mixture.draw(size, np.random.default_rng(1))
    values = draws.values(T)[:, 0]
    mean, variance = (a[:, 0] for a in mixture.marginals(T).moments())
    z = (values.mean(axis=1) - mean) / np.sqrt(variance / size)
    assert np.max(np.abs(z)) < 4.5
    # any part of the draws has the distribution of the mixture
    first = values[:, :4000]
    z = (first.mean(axis=1) - mean) / np.sqrt(variance / 4000)
    assert np.max(np.abs(z)) < 4.5
    joint, error = np.cov(values), 4.5 * np.outer(variance, variance) ** 0.5
    assert np.all(np.abs(joint - mixture.covariance(T)) < error * np.sqrt(3 / size))


def test_draws_are_functions(mixture):
    draws = mixture.draw(40, np.random.default_rng(2))
    X = np.linspace(-1.0, 1.0, 40)[:, np.newaxis]
    values = draws(X)
    assert_array_equal(draws(X), values)
    assert_allclose(draws.at(X), np.diagonal(values), rtol=1e-12)
    picked = [7, 3, 3, 39]
    assert_allclose(draws[picked](X), values[:, picked], rtol=1e-12)
    assert_allclose((2.0 * values + 1.0), draws.affine(1.0, 2.0)(X), rtol=1e-12)
    slope = (draws(X + 1e-6) - draws(X - 1e-6)) / 2e-6
    assert_allclose(draws.value_and_grad(X)[1][:, :, 0], slope, atol=1e-6)


class TestDrawsGivenMore:
    X = np.array([[-0.4], [0.6]])
    y = np.array([1.0, 2.5])
    noise = np.array([0.3, 0.1])

    def test_each_is_conditioned_under_its_own_model(self, mixture):
        draws = mixture.draw(12, np.random.default_rng(1))
        after = draws.condition(self.X, self.y)
        for k, model in enumerate(mixture.models):
            of_model = draws.owner == k
            alone = draws[of_model].with_process(model.process())
            alone = alone.condition(self.X, self.y)
            assert_allclose(after(T)[:, of_model], alone(T), atol=1e-10)
            assert_array_equal(after.owner, draws.owner)

    def test_they_have_the_moments_of_their_model(self, mixture):
        draws = mixture.draw(6000, np.random.default_rng(2))
        after = draws.condition(self.X[:1], self.y[:1], self.noise[:1], random_state=3)
        after = after.condition(self.X[1:], self.y[1:], self.noise[1:], random_state=4)
        values = after(T)
        for k, model in enumerate(mixture.models):
            given = model.condition(self.X, self.y[:, np.newaxis], self.noise)
            mean, variance = given.marginals(T).moments()
            of_model = values[:, after.owner == k]
            size = of_model.shape[1]
            z = (of_model.mean(axis=1) - mean[:, 0]) / np.sqrt(variance[:, 0] / size)
            assert np.max(np.abs(z)) < 4.5
            ratio = of_model.var(axis=1) / variance[:, 0]
            assert np.max(np.abs(ratio - 1.0)) < 4.5 * np.sqrt(2.0 / size)

    def test_selected_scaled_or_none_of_them(self, mixture):
        draws = mixture.draw(9, np.random.default_rng(5))
        after = draws.condition(self.X, self.y)
        picked = [7, 3, 3]
        selected = draws[picked].condition(self.X, self.y)
        assert_allclose(selected(T), after(T)[:, picked], atol=1e-10)
        scaled = draws.affine(1.0, -2.0).condition(self.X, 1.0 - 2.0 * self.y)
        assert_allclose(scaled(T), 1.0 - 2.0 * after(T), atol=1e-9)
        assert len(draws[:0].condition(self.X, self.y)) == 0

    def test_values_of_each_draw_as_along_a_path(self, mixture):
        draws = mixture.draw(8, np.random.default_rng(7))
        values = np.random.default_rng(8).normal(size=(2, 8))
        after = draws
        for i in range(2):
            after = after.condition(self.X[[i]], values[[i]])
        assert_allclose(after(self.X), values, atol=1e-4)
        assert_allclose(after.at(np.repeat(T[:1], 8, axis=0)), after(T[:1])[0])

    def test_particles_are_refused(self, mixture):
        basis = mixture.models[0].basis
        particles = WeightParticles(RNG.normal(size=(1, 1, 5)))
        models = (mixture.models[0], LatentModel(basis, particles))
        draws = MixtureModel(models, np.zeros(2)).draw(9, np.random.default_rng(6))
        with pytest.raises(ValueError, match="cannot be conditioned"):
            draws.condition(self.X, self.y)


def test_conditioning_weighs_models_by_their_evidence(mixture):
    X, y, noise = T[:2], np.array([[1.0], [2.5]]), np.full(2, 0.3)
    after = mixture.condition(X, y, noise)
    densities = [m.log_density(X, y, noise) for m in mixture.models]
    expected = WEIGHTS * np.exp(densities)
    assert_allclose(after.weights, expected / expected.sum())
    assert_allclose(mixture.log_density(X, y, noise), np.log(expected.sum()))
    for model, before in zip(after.models, mixture.models, strict=True):
        alone = before.condition(X, y, noise)
        assert_allclose(
            model.marginals(T).moments()[0], alone.marginals(T).moments()[0]
        )


def test_conditioned_particles_agree_with_importance_sampling():
    """Without a residual, conditioning particles only changes their weights."""
    basis = Nystroem.from_kernel(LINEAR, np.array([[-1.0], [1.0]]))
    particles = WeightParticles(RNG.normal(size=(2, 1, 50)))
    model = LatentModel(basis, particles)
    X, y, noise = T[:3], RNG.normal(size=(3, 1)), np.full(3, 0.4)
    after = MixtureModel.of_particles(model).condition(X, y, noise)
    f = basis(X) @ particles.values[:, 0]
    weights = np.exp(-0.5 * np.sum((y - f) ** 2, axis=0) / 0.4)
    assert_allclose(after.weights, weights / weights.sum(), rtol=1e-5)
    mean = basis(T) @ particles.values[:, 0] @ after.weights
    assert_allclose(after.marginals(T).moments()[0][:, 0], mean, atol=1e-5)


def test_draws_know_their_model(mixture):
    size = 3000
    draws = mixture.draw(size, np.random.default_rng(3))
    counts = np.bincount(draws.owner, minlength=3)
    z = (counts - size * WEIGHTS) / np.sqrt(size * WEIGHTS * (1.0 - WEIGHTS))
    assert np.max(np.abs(z)) < 4.5
    # the models are two apart, with a standard deviation of less than one
    values = draws(np.zeros((1, 1)))[0]
    for k, model in enumerate(mixture.models):
        mean, variance = model.marginals(np.zeros((1, 1))).moments()
        error = np.sqrt(variance[0, 0] / counts[k])
        assert abs(values[draws.owner == k].mean() - mean[0, 0]) < 4.5 * error
    assert_array_equal(draws.affine(1.0, 2.0).owner, draws.owner)
    assert_array_equal((-draws)[[5, 1]].owner, draws.owner[[5, 1]])
    assert_array_equal(draws.with_process(None).owner, draws.owner)
    assert (draws + draws).owner is None
    assert mixture.models[0].draw(2, np.random.default_rng(0)).owner is None


def test_components_know_their_model(mixture):
    marginals = mixture.marginals(T)
    assert_array_equal(marginals.owner, [0, 1, 2])
    assert_array_equal(marginals.rows(slice(2)).owner, [0, 1, 2])
    for k, weight, latent in marginals.of_models():
        expected = mixture.models[k].marginals(T)
        assert_allclose(weight, WEIGHTS[k])
        assert_allclose(latent.weights.sum(), 1.0)
        assert_array_equal(latent.mean, expected.mean)
        assert_allclose(latent.moments()[1], expected.moments()[1])


def test_conditioning_with_a_noise_of_each_model(mixture):
    X, y = T[:2], np.array([[1.0], [2.5]])
    noise = np.array([[0.3, 0.1], [1.0, 0.2], [0.05, 3.0]])
    after = mixture.condition(X, y, noise)
    densities = []
    for k, before in enumerate(mixture.models):
        densities.append(before.log_density(X, y, noise[k]))
        alone = before.condition(X, y, noise[k]).marginals(T).moments()
        assert_allclose(after.models[k].marginals(T).moments(), alone)
    expected = WEIGHTS * np.exp(densities)
    assert_allclose(after.weights, expected / expected.sum())
    assert_allclose(mixture.log_density(X, y, noise), np.log(expected.sum()))
