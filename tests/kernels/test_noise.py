"""White noise taken out of kernels, as scikit-learn computes them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    Exponentiation,
    Matern,
    WhiteKernel,
)

from skgpx.kernels import latent_kernel, noise_variance

X = np.random.default_rng(0).normal(size=(6, 2))
NOISY = {
    "sum": RBF(0.7) + WhiteKernel(0.3),
    "two": WhiteKernel(0.2) + (RBF(0.7) + WhiteKernel(0.3)),
    "constant": 2.0 * (RBF(0.7) + WhiteKernel(0.3)) + DotProduct(),
    "product": (RBF(0.7) + WhiteKernel(0.3)) * (DotProduct(0.5) + WhiteKernel(0.2)),
    "one side": DotProduct(0.5) * (Matern() + WhiteKernel(0.2)),
    "power": (DotProduct(0.5) + WhiteKernel(0.3)) ** 2,
    "noise": WhiteKernel(0.3),
    "scaled noise": RBF(0.7) * WhiteKernel(0.3),
    "power of noise": Exponentiation(WhiteKernel(0.3), 2),
}


@pytest.mark.parametrize("kernel", NOISY.values(), ids=NOISY.keys())
def test_latent_part_and_noise_add_up(kernel):
    latent = latent_kernel(kernel)
    # two arguments are two places, even where they coincide
    assert_allclose(latent(X, X), kernel(X, X), rtol=1e-13, atol=1e-15)
    assert_allclose(latent(X), kernel(X, X), rtol=1e-13, atol=1e-15)
    noise = np.diag(noise_variance(kernel, X))
    assert_allclose(latent(X) + noise, kernel(X), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("kernel", [RBF(), 2.0 * RBF() + DotProduct() ** 2])
def test_without_noise_nothing_changes(kernel):
    assert latent_kernel(kernel) is kernel
    assert_array_equal(noise_variance(kernel, X), 0.0)
