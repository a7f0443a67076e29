"""What every basis promises: its kernel, its draws, its process, its growth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skgpx import bases
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import (
    Box,
    ContinuedSeries,
    EmpiricalSpectral,
    Fourier,
    FourierSeries,
    InputMap,
    KernelEigenvalues,
    Nystroem,
    WarpedInputs,
)

X = np.linspace(0.05, 1.9, 6)[:, np.newaxis]
Z = np.linspace(0.0, 2.0, 5)[:, np.newaxis]
RBF_KERNEL = 1.5 * RBF(0.4)
# the images of the kernel in other periods are too far away to matter
BOX = Box(np.array([-4.0]), np.array([10.0]))
SERIES = FourierSeries.from_rule(KernelEigenvalues(RBF_KERNEL), BOX, 9, n_residual=100)
FREQUENCIES = np.array([[0.7], [2.0], [4.5]])
AMPLITUDES = np.array([0.9, 0.6, 0.3])


def cosines(X):
    """Kernel of `Fourier`: ``Σ a² cos(ω (x - y))``, and its white residual."""
    waves = np.cos(FREQUENCIES[:, 0] * (X - X.T)[..., np.newaxis])
    return waves @ AMPLITUDES**2 + 0.2 * np.eye(len(X))


def of_squares(X):
    return RBF_KERNEL(X**2)


# An instance of every class, and its kernel.
BASES = {
    Nystroem: (Nystroem.from_kernel(RBF_KERNEL, Z), RBF_KERNEL),
    EmpiricalSpectral: (EmpiricalSpectral.from_rows(RBF_KERNEL, Z, 4), RBF_KERNEL),
    Fourier: (Fourier(FREQUENCIES, AMPLITUDES, tail_variance=0.2), cosines),
    FourierSeries: (SERIES, RBF_KERNEL),
    ContinuedSeries: (
        ContinuedSeries.of(SERIES, np.array([[0.0, 2.0]]), RBF_KERNEL),
        RBF_KERNEL,
    ),
    WarpedInputs: (
        WarpedInputs(Nystroem.from_kernel(RBF_KERNEL, Z), InputMap(np.square, 1)),
        of_squares,
    ),
}
every_basis = pytest.mark.parametrize(
    ("basis", "kernel"), BASES.values(), ids=[cls.__name__ for cls in BASES]
)


def test_every_public_basis_is_tested():
    public = {getattr(bases, name) for name in bases.__all__}
    assert {cls for cls in public if hasattr(cls, "residual_covariance")} <= set(BASES)


def without_white_part(basis, kernel):
    """Covariance of drawn functions at X."""
    return kernel(X) - basis.white_variance * np.eye(len(X))


def some_weights(basis):
    """A normal distribution of the weights, as a posterior has it."""
    rng = np.random.default_rng(4)
    m = basis.n_basis
    root = np.tril(rng.standard_normal((m, m))) / m
    return GaussianWeights(rng.standard_normal((m, 1)), root[np.newaxis])


@every_basis
def test_features_and_residual_make_the_kernel(basis, kernel):
    features = basis(X)
    assert features.shape == (len(X), basis.n_basis)
    residual = basis.residual_covariance(X, features)
    assert_allclose(features @ features.T + residual, kernel(X), atol=1e-8)
    assert np.linalg.eigvalsh(residual)[0] > -1e-10
    variance = basis.residual_variance(X, features)
    assert_allclose(variance, np.diag(residual), atol=1e-12)
    assert basis.floats_per_row >= basis.n_basis


@every_basis
def test_draws_have_the_covariance_of_the_kernel(basis, kernel):
    """With prior weights; draws of one call may share frequencies."""
    n_calls = 30
    rng = np.random.default_rng(5)
    products = []
    for _ in range(n_calls):
        weights = rng.standard_normal((basis.n_basis, 1, 100))
        values = basis.draw(weights, rng)(X)
        products.append(values @ values.T / 100.0)
    error = np.std(products, axis=0, ddof=1) / np.sqrt(n_calls)
    gap = np.mean(products, axis=0) - without_white_part(basis, kernel)
    assert np.max(np.abs(gap) / error) < 4.5


@every_basis
def test_marginals_and_process_agree(basis, kernel):
    weights = some_weights(basis)
    features = basis(X)
    mean, variance = basis.marginals(weights)(X)
    assert_allclose(mean[:, 0, 0], features @ weights.mean[:, 0], atol=1e-10)
    residual = basis.residual_covariance(X, features)
    total = weights.covariance(features) + residual
    variance = np.broadcast_to(variance, mean.shape)[:, 0, 0]
    assert_allclose(variance, np.diag(total), atol=1e-10)
    white = basis.white_variance * np.eye(len(X))
    process = basis.process(weights)
    assert_allclose(process.covariance(X), total - white, atol=1e-8)


@every_basis
def test_a_grown_basis_is_that_of_the_conditioned_process(basis, kernel):
    """Its weights have the distribution that the observations leave."""
    weights = some_weights(basis)
    process = basis.process_at(weights, X[:2])
    discrepancy = np.array([0.3, -0.2]).reshape(2, 1, 1)
    learned, after = process.learn(X[:2], discrepancy, np.full(2, 0.1))
    grown = basis.grown(after)
    assert grown.n_basis == len(learned)
    mean = learned[:, :, 0]
    mean[: basis.n_basis] += weights.mean
    posterior = GaussianWeights(mean, after.spread)

    # the conditional normal distribution, by dense formulas
    K = process.covariance(X)
    gain = np.linalg.solve(K[:2, :2] + 0.1 * np.eye(2), K[:2]).T
    expected = basis(X) @ weights.mean[:, 0] + gain @ discrepancy[:, 0, 0]
    found, _ = grown.marginals(posterior)(X)
    assert_allclose(found[:, 0, 0], expected, atol=1e-6)
    covariance = grown.process(posterior).covariance(X)
    assert_allclose(covariance, K - gain @ K[:2], atol=1e-6)
