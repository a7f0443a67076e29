"""Fourier functions within a region: the same inside, the prior outside."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import FunctionDraws
from skgpx._latent import LatentModel
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import (
    Box,
    ContinuedSeries,
    FourierSeries,
    GivenEigenvalues,
    KernelEigenvalues,
    PolynomialEigenvalues,
)
from skgpx.bases._basis import feature_marginals
from tests.latent.conftest import assert_moments

BOX = Box(np.array([-1.0]), np.array([3.0]))

# ---- Continued outside ---------------------------------------------------------------

PLANE = Box(np.array([-1.0, 0.0]), np.array([3.0, 2.0]))
KERNELS = {
    "rbf": RBF(0.4),
    "matern": 1.5 * Matern(0.4, nu=1.5),
    "constant": ConstantKernel(2.0) + 0.5 * Matern(0.3, nu=2.5),
    "only constant": ConstantKernel(2.0),
}
SERIES = {
    "polynomial": PolynomialEigenvalues(),
    "lone sine": GivenEigenvalues((0.0, 1.5)),
    "given": GivenEigenvalues((1.0, 0.5, 0.5, 0.2)),
}
CASES = [(name, d) for name in [*KERNELS, *SERIES] for d in (1, 2)]


def continued(name, d, n_basis=9):
    box = (BOX, PLANE)[d - 1]
    kernel = KERNELS.get(name)
    rule = SERIES.get(name) or KernelEigenvalues(kernel)
    series = FourierSeries.from_rule(rule, box, n_basis, n_residual=60)
    region = np.array([[-1.0, 1.0], [0.0, 1.2]])[:d]
    return ContinuedSeries.of(series, region, kernel)


def inside(basis):
    """The series on its box."""
    parts = basis.box, basis.functions, basis.spectrum, basis.n_basis, basis.remainder
    return FourierSeries(*parts)


def places(d):
    """Inside, on the edge, just outside, outside and far away."""
    X = np.array(
        [[0.0], [1.0], [1.0 + 1e-9], [1.3], [1.4], [-1.5], [-2.4], [60.0], [-1e5]]
    )
    if d == 1:
        return X
    second = [0.5, 1.2, 0.7, 1.5, 0.3, -0.3, 2.9, 0.1, 0.4]
    return np.column_stack((X, second))


def distribution(basis, seed=0):
    rng = np.random.default_rng(seed)
    m = basis.n_basis
    root = np.tril(rng.normal(size=(m, m))) / m
    return GaussianWeights(rng.normal(size=(m, 1)), root[np.newaxis])


@pytest.mark.parametrize(("name", "d"), CASES)
def test_inside_it_is_the_series(name, d):
    basis, X = continued(name, d), places(d)[:2]
    free, weights = inside(basis), distribution(basis)
    assert_array_equal(basis(X), free(X))
    for one, other in zip(
        basis.marginals(weights)(X), free.marginals(weights)(X), strict=True
    ):
        assert_array_equal(one, other)
    w = np.random.default_rng(0).standard_normal((basis.n_functions, 1, 3))
    one, other = (
        FunctionDraws(terms, 1, 3)
        for terms in (basis.all_terms(w), free.all_terms(w[: len(basis.spectrum)]))
    )
    assert_array_equal(one(X), other(X))
    assert_array_equal(one.value_and_grad(X[:1])[1], other.value_and_grad(X[:1])[1])


@pytest.mark.parametrize(("name", "d"), CASES)
def test_prior_variance_goes_from_that_of_the_series_to_that_of_the_prior(name, d):
    basis = continued(name, d)
    X = places(d)
    features = basis(X)
    variance = np.sum(features**2, axis=1) + basis.residual_variance(X, features)
    E, rho = basis.continuation.place(X)
    free = inside(basis)
    at_edge = np.sum(free(E) ** 2, axis=1) + free.residual_variance(E, free(E))
    # where sines and cosines differ, the variance at the edge is that of the edge
    prior = basis.continuation.fresh + basis.continuation.level
    assert_allclose(prior, basis.variance, rtol=5e-3)
    expected = prior + rho**2 * (at_edge - prior)
    assert_allclose(variance, expected, rtol=1e-9)
    assert_allclose(np.abs(rho).max(), 1.0)


@pytest.mark.parametrize(("name", "d"), CASES)
def test_sums_of_waves_are_the_features(name, d):
    basis = continued(name, d)
    model = LatentModel(basis, distribution(basis))
    X = places(d)
    expected, spread = feature_marginals(basis, model.weights)(X)
    mean, variance = basis.marginals(model.weights)(X)
    assert_allclose(mean, expected, atol=1e-11)
    assert_allclose(variance, spread, atol=1e-11)
    diagonal = np.diagonal(model.covariance(X))
    assert_allclose(diagonal, variance[:, 0, 0], atol=1e-10)
    for i in range(len(X)):
        alone = basis.marginals(model.weights)(X[i : i + 1])
        assert_allclose(alone, (mean[i : i + 1], variance[i : i + 1]), rtol=1e-12)


@pytest.mark.parametrize(("name", "d"), CASES)
def test_draws_have_the_covariance(name, d):
    basis = continued(name, d)
    model = LatentModel(basis, distribution(basis))
    # the same place twice, and pairs of places that share their nearest point
    X = np.vstack((places(d), places(d)[4:6]))
    size = 20_000
    draws = model.draw(size, np.random.default_rng(1))
    values = draws(X)
    mean = model.marginals(X).mean[:, 0, 0]
    assert_moments(values, mean, model.covariance(X))
    assert_allclose(values[-2:], values[4:6], atol=1e-12)
    assert_array_equal(pickle.loads(pickle.dumps(draws[:3]))(X), draws[:3](X))
    # a row does not depend on the others, and each draw can be asked alone
    assert_allclose(draws[:4](X[5:6]), values[5:6, :4], rtol=1e-9)
    assert_allclose(draws[: len(X)].at(X), np.diagonal(values), atol=1e-10)


@pytest.mark.parametrize(("name", "d"), CASES)
def test_gradients_of_draws(name, d):
    basis = continued(name, d)
    draws = LatentModel(basis, distribution(basis)).draw(3, np.random.default_rng(0))
    X, h = places(d)[[0, 3, 4, 5, 6]], 1e-5
    gradients = draws.value_and_grad(X)[1]
    for j, step in enumerate(h * np.eye(d)):
        slopes = (draws(X + step) - draws(X - step)) / (2.0 * h)
        assert_allclose(gradients[:, :, j], slopes, rtol=1e-5, atol=1e-5)


def test_the_constant_part_does_not_fade():
    kernel = KERNELS["constant"]
    basis = continued("constant", 1, n_basis=41)
    # the constant function is known to be two, all else to be zero
    m, i = basis.n_basis, basis._level[0]
    mean, root = np.zeros((m, 1)), np.zeros((1, m, m))
    mean[i] = 2.0 / np.sqrt(basis.eigenvalues[i])
    far = LatentModel(basis, GaussianWeights(mean, root)).marginals(np.array([[60.0]]))
    share = 2.0 / basis.eigenvalues[i]
    assert_allclose(far.mean, 2.0 * share, rtol=1e-12)
    expected = kernel.diag(np.zeros((1, 1)))[0] - 2.0 + 2.0 * (1.0 - share)
    assert_allclose(far.variance, expected, rtol=1e-12)
    assert_allclose(basis.variance, kernel.diag(np.zeros((1, 1)))[0], rtol=1e-4)


def test_a_model_is_conditioned_inside_only():
    model = LatentModel(continued("rbf", 1), distribution(continued("rbf", 1)))
    with pytest.raises(ValueError, match="domain"):
        model.condition(places(1)[-1:], np.array([[2.0]]), np.full(1, 1e-8))


def test_a_long_lengthscale_has_the_variance_of_its_kernel_far_away():
    """The sum over the images of a narrow box is more."""
    box, kernel = Box(np.zeros(1), np.ones(1)), RBF(3.0)
    series = FourierSeries.from_rule(KernelEigenvalues(kernel), box, 9)
    assert series.variance > 3.0
    series = ContinuedSeries.of(series, np.array([[0.0, 0.8]]), kernel)
    far = np.array([[100.0]])
    features = series(far)
    total = np.sum(features**2, axis=1) + series.residual_variance(far, features)
    assert_allclose(total, 1.0, rtol=1e-6)
