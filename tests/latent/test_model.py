"""Latent models: mean, basis, weights and units, against dense formulas."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from skgpx._latent import LatentModel, Mean
from skgpx._numerics.weights import GaussianWeights, WeightParticles
from skgpx.bases import (
    Box,
    ContinuedSeries,
    EmpiricalSpectral,
    Fourier,
    FourierSeries,
    InputMap,
    KernelEigenvalues,
    Nystroem,
    PolynomialEigenvalues,
    WarpedInputs,
)
from tests.latent.conftest import assert_moments

RNG = np.random.default_rng(0)
Z = RNG.uniform(0.0, 1.0, size=(9, 1))
T = RNG.uniform(0.0, 1.0, size=(7, 1))
MATERN = 1.5 * Matern(0.2, nu=1.5)
SERIES = FourierSeries.from_rule(
    KernelEigenvalues(MATERN), Box(np.array([-0.5]), np.array([2.0])), 7, n_residual=60
)
BASES = {
    "nystroem": Nystroem.from_kernel(1.5 * RBF(0.2), Z),
    "empirical": EmpiricalSpectral.from_rows(1.5 * RBF(0.2), Z, 5),
    "series": FourierSeries.from_rule(
        PolynomialEigenvalues(), Box(np.zeros(1), np.ones(1)), 7, n_residual=40
    ),
    # about half of the places are outside of its region
    "continued": ContinuedSeries.of(SERIES, np.array([[0.0, 0.5]]), MATERN),
    "fourier": Fourier.from_kernel(1.5 * RBF(0.2), 16, 1, np.random.default_rng(0)),
    "warped": WarpedInputs(Nystroem.from_kernel(1.5 * RBF(0.2), Z), InputMap(np.sin)),
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


def test_draws_of_particles_have_the_moments_of_the_model():
    """A kernel of finite rank: the features of the prior draws are exact."""
    kernel, size = DotProduct(0.8) + ConstantKernel(0.5), 20_000
    basis = Nystroem.from_kernel(kernel, np.array([[0.2]]))
    model = model_on(basis, WeightParticles(RNG.normal(size=(1, 2, 40))))
    values = model.draw(size, np.random.default_rng(1)).values(T)
    mean, variance = model.marginals(T).moments()
    standard_error = np.sqrt(variance / size)
    assert np.max(np.abs(values.mean(axis=2) - mean) / standard_error) < 4.5
    fourth = np.mean((values - mean[:, :, None]) ** 4, axis=2)
    error = np.sqrt((fourth - variance**2) / size)
    assert np.max(np.abs(values.var(axis=2) - variance) / error) < 4.5


def draws_of(model, size, seed=1):
    kernel_basis = not isinstance(model.basis, FourierSeries | Fourier)
    options = {"n_basis": 1024} if kernel_basis else {}
    return model.draw(size, np.random.default_rng(seed), **options)


@each_basis
@pytest.mark.parametrize("conditioned", [False, True])
def test_draws_of_a_model_have_its_moments(basis, conditioned):
    model = model_on(basis)
    if conditioned:
        y = np.array([[0.0, 1.0], [2.0, -1.0]])
        model = model.condition(np.array([[0.1], [0.4]]), y, np.full(2, 0.05))
    values, mean = draws_of(model, 4000).values(T), model.marginals(T).moments()[0]
    for c in range(2):
        assert_moments(values[:, c], mean[:, c], model.covariance(T, c), 0.02)


@each_basis
def test_draws_are_functions(basis):
    model, h = model_on(basis, gaussian(basis.n_basis, 1), mean=0.5), 1e-6
    before, after = (model.draw(7, np.random.default_rng(0)) for _ in range(2))
    after = after.condition(T[:2], [1.0, -2.0], 0.1, random_state=0)
    again = pickle.loads(pickle.dumps(model))
    for a, b in zip(model.marginals(T)[:2], again.marginals(T)[:2], strict=True):
        assert_array_equal(a, b)
    for draws in (before, after):
        values, gradients = draws.value_and_grad(T)
        assert_allclose(values, draws(T), rtol=1e-9, atol=1e-9)
        assert_allclose(draws(T[3:4]), values[3:4], rtol=1e-9, atol=1e-9)
        assert_allclose(draws.at(T), np.diagonal(values), rtol=1e-9, atol=1e-9)
        assert_allclose(draws[[4, 0]](T), values[:, [4, 0]], rtol=1e-9, atol=1e-9)
        rise = draws(T + h) - draws(T - h)
        assert_allclose(gradients[:, :, 0], rise / (2 * h), rtol=1e-4, atol=1e-4)
        assert_array_equal(pickle.loads(pickle.dumps(draws))(T), draws(T))


@each_basis
@pytest.mark.parametrize("n", [3, 20])
def test_conditioned_draws_have_the_textbook_moments(basis, n):
    """For fewer observations than functions, and for more; then once more."""
    model = model_on(basis, gaussian(basis.n_basis, 1), mean=0.5)
    X, y = RNG.uniform(0.0, 1.0, size=(n, 1)), RNG.normal(size=n)
    noise = RNG.uniform(0.05, 0.3, n)
    draws = draws_of(model, 4000)
    assert_allclose(draws.process.covariance(T), model.covariance(T), atol=1e-8)
    both = np.concatenate((X, T))
    mean, K = model.marginals(both).moments()[0][:, 0], model.covariance(both)
    gain = np.linalg.solve(K[:n, :n] + np.diag(noise), K[:n, n:]).T
    left = K[n:, n:] - gain @ K[:n, n:]
    moved = draws.condition(X, y, noise, random_state=0)
    assert_allclose(moved.process.covariance(T), left, atol=1e-7)
    assert_moments(moved(T), mean[n:] + gain @ (y - mean[:n]), left, 0.02)
    again = moved.condition(T[:1], [0.0], 0.1, random_state=0).process
    rank = left[:, :1] / (left[0, 0] + 0.1)
    assert_allclose(again.covariance(T), left - rank @ left[:1], atol=1e-7)


def test_draws_know_their_process_in_the_units_of_the_outputs():
    model = model_on(BASES["nystroem"])
    draws = model.draw(3, np.random.default_rng(0))
    given = draws.condition(T[:2], RNG.normal(size=(2, 2)), np.full(2, 0.1)).process
    after = model.condition(T[:2], np.zeros((2, 2)), np.full(2, 0.1))
    for process, expected in ((draws.process, model), (given, after)):
        for c in range(2):
            covariance = expected.covariance(T, c)
            assert_allclose(process.covariance(T, c), covariance, atol=1e-8)
    particles = WeightParticles(RNG.normal(size=(9, 1, 4)))
    assert LatentModel(BASES["nystroem"], particles).process() is None


@each_basis
def test_conditioning_is_the_textbook_formula(basis):
    model = model_on(basis)
    X = RNG.uniform(0.0, 0.5, size=(4, 1))
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
    X, y = RNG.uniform(0.0, 0.5, size=(5, 1)), RNG.normal(size=(5, 2))
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
