"""Latent models: mean, basis, weights and units, against dense formulas."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from skgpx._latent import LatentModel, Mean
from skgpx._numerics.weights import GaussianWeights, WeightParticles
from skgpx.bases import (
    Box,
    EmpiricalSpectral,
    Fourier,
    FourierSeries,
    Nystroem,
    PolynomialEigenvalues,
)

RNG = np.random.default_rng(0)
Z = RNG.uniform(0.0, 1.0, size=(9, 1))
T = RNG.uniform(0.0, 1.0, size=(7, 1))
BASES = {
    "nystroem": Nystroem.from_kernel(1.5 * RBF(0.2), Z),
    "empirical": EmpiricalSpectral.from_rows(1.5 * RBF(0.2), Z, 5),
    "series": FourierSeries.from_rule(
        PolynomialEigenvalues(), Box(np.zeros(1), np.ones(1)), 7, n_residual=40
    ),
    "fourier": Fourier.from_kernel(1.5 * RBF(0.2), 16, 1, np.random.default_rng(0)),
}
SHIFT, SCALE = np.array([1.0, -2.0]), np.array([3.0, 0.5])
each_basis = pytest.mark.parametrize("basis", BASES.values(), ids=BASES)


def gaussian(m, c=2):
    roots = 0.3 * np.tril(RNG.normal(size=(c, m, m)))
    return GaussianWeights(RNG.normal(size=(m, c)), roots)


def trends(X):
    return np.column_stack((X[:, 0], np.cos(X[:, 0])))


def model_on(basis, weights=None, mean=trends):
    weights = gaussian(basis.n_basis) if weights is None else weights
    model = LatentModel(basis, weights, Mean.of(mean, weights.shape[1]))
    return model.affine(SHIFT[: weights.shape[1]], SCALE[: weights.shape[1]])


@each_basis
def test_marginals_are_the_definition(basis):
    """shift + scale (m + Φμ), scale² (Φ R Rᵀ Φᵀ + residual)."""
    weights = gaussian(basis.n_basis)
    mean, variance = model_on(basis, weights).marginals(T).moments()
    F = basis(T)
    assert_allclose(mean, SHIFT + SCALE * (trends(T) + F @ weights.mean), rtol=1e-10)
    residual = basis.residual_variance(T, F)
    for c in range(2):
        spread = np.sum((F @ weights.root[c]) ** 2, axis=1)
        assert_allclose(variance[:, c], SCALE[c] ** 2 * (spread + residual), rtol=1e-10)


@each_basis
def test_one_output_of_a_series_is_the_same_by_its_own_route(basis):
    """Sums of waves and features give the same numbers."""
    weights = gaussian(basis.n_basis, 1)
    one = model_on(basis, weights, mean=0.5)
    twice = GaussianWeights(np.repeat(weights.mean, 2, axis=1), weights.root)
    two = LatentModel(basis, twice, Mean.of(0.5, 2)).affine(SHIFT[0], SCALE[0])
    for a, b in zip(
        one.marginals(T).moments(), two.marginals(T).moments(), strict=True
    ):
        assert_allclose(a[:, 0], b[:, 1], rtol=1e-9, atol=1e-12)


@each_basis
@pytest.mark.parametrize("output", [0, 1])
def test_covariance_has_the_marginal_variances(basis, output):
    model = model_on(basis)
    covariance = model.covariance(T, output)
    variance = model.marginals(T).moments()[1][:, output]
    assert_allclose(np.diagonal(covariance), variance, rtol=1e-8)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-8


@pytest.mark.parametrize("weights", ["gaussian", "particles"])
def test_draws_have_these_moments(weights):
    """A kernel of finite rank: the features of the prior draws are exact."""
    kernel, size = DotProduct(0.8) + ConstantKernel(0.5), 20_000
    basis = Nystroem.from_kernel(kernel, np.array([[0.2]]))
    weights = gaussian(1)
    if weights == "particles":
        weights = WeightParticles(RNG.normal(size=(1, 2, 40)))
    model = model_on(basis, weights)
    values = model.draw(size, np.random.default_rng(1)).values(T)
    mean, variance = model.marginals(T).moments()
    standard_error = np.sqrt(variance / size)
    assert np.max(np.abs(values.mean(axis=2) - mean) / standard_error) < 4.5
    fourth = np.mean((values - mean[:, :, None]) ** 4, axis=2)
    error = np.sqrt((fourth - variance**2) / size)
    assert np.max(np.abs(values.var(axis=2) - variance) / error) < 4.5


@each_basis
def test_a_pickle_predicts_the_same(basis):
    model = model_on(basis)
    before = model.marginals(T).moments()
    again = pickle.loads(pickle.dumps(model))
    for a, b in zip(before, again.marginals(T).moments(), strict=True):
        assert np.array_equal(a, b)


def test_draws_know_their_process_in_the_units_of_the_outputs():
    model = model_on(BASES["nystroem"])
    process = model.draw(3, np.random.default_rng(0)).process
    for c in range(2):
        assert_allclose(process.covariance(T, c), model.covariance(T, c), atol=1e-9)
    particles = WeightParticles(RNG.normal(size=(9, 1, 4)))
    assert LatentModel(BASES["nystroem"], particles).process() is None


@each_basis
def test_conditioning_is_the_textbook_formula(basis):
    model = model_on(basis)
    X = RNG.uniform(0.0, 1.0, size=(4, 1))
    y, noise = RNG.normal(size=(4, 2)), np.array([0.1, 0.5, 0.02, 0.3])
    after = model.condition(X, y, noise)
    both = np.concatenate((X, T))
    prior_mean = model.marginals(both).moments()[0]
    mean, variance = after.marginals(T).moments()
    for c in range(2):
        K = model.covariance(both, c)
        C = K[:4, :4] + np.diag(noise)
        gain = np.linalg.solve(C, K[:4, 4:]).T
        expected = prior_mean[4:, c] + gain @ (y - prior_mean[:4])[:, c]
        assert_allclose(mean[:, c], expected, rtol=1e-6, atol=1e-7)
        left = K[4:, 4:] - gain @ K[:4, 4:]
        assert_allclose(after.covariance(T, c), left, rtol=1e-5, atol=1e-7)
        assert_allclose(variance[:, c], np.diag(left), rtol=1e-5, atol=1e-7)


@each_basis
def test_observing_in_two_steps_is_observing_at_once(basis):
    model = model_on(basis)
    X, y = RNG.uniform(0.0, 1.0, size=(5, 1)), RNG.normal(size=(5, 2))
    noise = np.full(5, 0.1)
    once = model.condition(X, y, noise)
    first = model.condition(X[:2], y[:2], noise[:2])
    twice = first.condition(X[2:], y[2:], noise[2:])
    for a, b in zip(
        once.marginals(T).moments(), twice.marginals(T).moments(), strict=True
    ):
        assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    # the density of all is that of the first times that of the others given it
    total = first.log_density(X[2:], y[2:], noise[2:])
    total += model.log_density(X[:2], y[:2], noise[:2])
    assert_allclose(model.log_density(X, y, noise), total, rtol=1e-7)


@each_basis
def test_draws_of_a_conditioned_model_have_its_moments(basis):
    model = model_on(basis).condition(
        np.array([[0.3], [0.8]]), np.array([[0.0, 1.0], [2.0, -1.0]]), np.full(2, 0.05)
    )
    size, options = 4000, {} if isinstance(basis, FourierSeries) else {"n_basis": 1024}
    values = model.draw(size, np.random.default_rng(1), **options).values(T)
    mean, variance = model.marginals(T).moments()
    z = (values.mean(axis=2) - mean) / np.sqrt(variance / size)
    assert np.max(np.abs(z)) < 4.5
    ratio = values.var(axis=2) / variance
    # the features of the prior err by about a percent
    assert np.max(np.abs(ratio - 1.0)) < 4.5 * np.sqrt(2.0 / size) + 0.02


def test_density_is_that_of_a_normal_distribution():
    model = model_on(BASES["nystroem"])
    y, noise = RNG.normal(size=(7, 2)), np.full(7, 0.2)
    mean = model.marginals(T).moments()[0]
    expected = sum(
        multivariate_normal(
            mean[:, c], model.covariance(T, c) + 0.2 * np.eye(7)
        ).logpdf(y[:, c])
        for c in range(2)
    )
    assert_allclose(model.log_density(T, y, noise), expected, rtol=1e-8)


def test_a_white_tail_is_noise_in_the_units_of_each_output():
    waves = BASES["fourier"]
    basis = Fourier(waves.frequencies, waves.amplitudes, tail_variance=0.5)
    weights = gaussian(basis.n_basis, 1)
    twice = GaussianWeights(np.repeat(weights.mean, 2, axis=1), weights.root)
    both = LatentModel(basis, twice).affine(0.0, np.array([1.0, 10.0]))
    y, noise = RNG.normal(size=(4, 1)), np.zeros(4)
    after = both.condition(T[:4], y * [1.0, 10.0], noise)
    mean, variance = after.marginals(T).moments()
    assert_allclose(mean[:, 1], 10.0 * mean[:, 0], rtol=1e-9)
    assert_allclose(variance[:, 1], 100.0 * variance[:, 0], rtol=1e-9)
    alone = LatentModel(basis, weights).condition(T[:4], y, noise)
    assert_allclose(mean[:, :1], alone.marginals(T).moments()[0], rtol=1e-9)


def test_particles_are_conditioned_as_a_mixture():
    particles = WeightParticles(RNG.normal(size=(9, 1, 4)))
    model = LatentModel(BASES["nystroem"], particles)
    with pytest.raises(ValueError, match="of_particles"):
        model.condition(T[:1], np.zeros((1, 1)), np.ones(1))


def test_memory_grows_with_basis_outputs_and_particles():
    basis = BASES["nystroem"]
    few = LatentModel(basis, WeightParticles(np.zeros((9, 1, 10))))
    many = LatentModel(basis, WeightParticles(np.zeros((9, 3, 100))))
    assert few.floats_per_row >= 4 * 9 + 10
    assert many.floats_per_row > 20 * few.floats_per_row
