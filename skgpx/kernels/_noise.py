"""The latent part of a kernel and its white noise, wherever it is in the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Exponentiation,
    Product,
    Sum,
    WhiteKernel,
)

Array = NDArray[np.float64]


def latent_kernel(kernel: Any) -> Any:
    """Covariance of the latent function: the kernel without its white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With any number of WhiteKernels, in sums, products and powers.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Kernel
        ``k(X, Z)`` for every X and Z, even where rows are equal; the constant 0 if
        the kernel is noise only. The same object if there is no noise.
    """
    latent = _without_noise(kernel)
    return ConstantKernel(0.0, "fixed") if latent is None else latent


def noise_variance(kernel: Any, X: Array) -> Array:
    """Variance that the WhiteKernels in a kernel add at the rows of X, shape (n,).

    ``kernel.diag(X) - latent_kernel(kernel).diag(X)``, without cancellation.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    """
    if isinstance(kernel, WhiteKernel):
        return np.full(len(X), float(kernel.noise_level))
    if isinstance(kernel, Sum):
        return noise_variance(kernel.k1, X) + noise_variance(kernel.k2, X)
    if isinstance(kernel, Product):
        first, second = noise_variance(kernel.k1, X), noise_variance(kernel.k2, X)
        if not (first.any() or second.any()):
            return first
        # (l₁ + ε₁)(l₂ + ε₂) - l₁ l₂
        total: Array = first * kernel.k2.diag(X)
        return total + latent_kernel(kernel.k1).diag(X) * second
    if isinstance(kernel, Exponentiation) and noise_variance(kernel.kernel, X).any():
        difference: Array = kernel.diag(X) - latent_kernel(kernel).diag(X)
        return difference
    return np.zeros(len(X))


def _without_noise(kernel: Any) -> Any:
    """Return the kernel without its noise; None for noise alone."""
    if isinstance(kernel, WhiteKernel):
        return None
    if isinstance(kernel, Exponentiation):
        base = _without_noise(kernel.kernel)
        if base is kernel.kernel or base is None:
            return base and kernel
        return Exponentiation(base, kernel.exponent)
    if not isinstance(kernel, Sum | Product):
        return kernel
    first, second = _without_noise(kernel.k1), _without_noise(kernel.k2)
    if first is kernel.k1 and second is kernel.k2:
        return kernel
    if first is None or second is None:
        # a sum keeps its latent terms; a product with pure noise is noise
        return (first or second) if isinstance(kernel, Sum) else None
    return type(kernel)(first, second)
