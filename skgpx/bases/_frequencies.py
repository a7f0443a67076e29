"""Samples of the spectral density of a stationary kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    Product,
    RationalQuadratic,
)

Array = NDArray[np.float64]
Sampler = Callable[[Any, int, int, np.random.Generator], Array | None]

_SAMPLERS: dict[type, Sampler] = {}


def register_frequencies(*kernel_types: type) -> Callable[[Sampler], Sampler]:
    """Register ``sampler(kernel, n_frequencies, d, rng)`` for these exact types.

    Exact, because a subclass (as ``Matern`` is one of ``RBF``) has another density.
    """

    def enrol(sampler: Sampler) -> Sampler:
        _SAMPLERS.update(dict.fromkeys(kernel_types, sampler))
        return sampler

    return enrol


def sample_frequencies(
    kernel: Any, n_frequencies: int, d: int, rng: np.random.Generator
) -> Array | None:
    """Angular frequencies from the normalised spectral density of a kernel.

    ``k(x, y) / k(x, x) = E[cos(ω·(x - y))]`` for every one of them. Together they
    are a randomised quasi-Monte Carlo sample: each has exactly the spectral
    distribution, and they cover it more evenly than independent ones.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Stationary: RBF, Matern, RationalQuadratic, ConstantKernel, products of
        these, and every type enrolled with :func:`register_frequencies`.
    n_frequencies : int
        Number of frequencies ``R``.
    d : int
        Number of input columns.
    rng : numpy.random.Generator
        Source of the randomisation.

    Returns
    -------
    frequencies : ndarray of shape (R, d), or None
        In radians per unit of the input; None if the kernel has no registered
        spectral density.
    """
    sampler = _SAMPLERS.get(type(kernel))
    return None if sampler is None else sampler(kernel, n_frequencies, d, rng)


def _uniform(n: int, d: int, rng: np.random.Generator) -> Array:
    """Scrambled Sobol points in the open unit cube, shape (n, d)."""
    points = qmc.Sobol(d, rng=rng).random_base2((n - 1).bit_length())
    return np.clip(points[:n], 2.0**-32, 1.0 - 2.0**-32)


@register_frequencies(RBF)
def _rbf(kernel: RBF, n: int, d: int, rng: np.random.Generator) -> Array:
    return ndtri(_uniform(n, d, rng)) / kernel.length_scale


@register_frequencies(Matern)
def _matern(kernel: Matern, n: int, d: int, rng: np.random.Generator) -> Array:
    if kernel.nu == np.inf:
        return ndtri(_uniform(n, d, rng)) / kernel.length_scale
    # multivariate t with 2ν degrees of freedom: z / √(Gamma(ν) / ν)
    return _gamma_mixture(n, d, kernel.nu, -0.5, rng) / kernel.length_scale


@register_frequencies(RationalQuadratic)
def _rational_quadratic(
    kernel: RationalQuadratic, n: int, d: int, rng: np.random.Generator
) -> Array:
    # a scale mixture of RBFs whose precision is Gamma(α) / α
    return _gamma_mixture(n, d, kernel.alpha, 0.5, rng) / kernel.length_scale


def _gamma_mixture(
    n: int, d: int, shape: float, power: float, rng: np.random.Generator
) -> Array:
    """Sample normal vectors times ``(Gamma(shape) / shape) ** power``."""
    uniform = _uniform(n, d + 1, rng)
    precision = gammaincinv(shape, uniform[:, d:]) / shape
    # below the smallest normal number only for shapes near zero
    precision = np.maximum(precision, np.finfo(np.float64).tiny)
    return ndtri(uniform[:, :d]) * precision**power


@register_frequencies(ConstantKernel)
def _constant(
    kernel: ConstantKernel, n: int, d: int, rng: np.random.Generator
) -> Array:
    del kernel, rng
    return np.zeros((n, d))


@register_frequencies(Product)
def _product(kernel: Product, n: int, d: int, rng: np.random.Generator) -> Array | None:
    # the density of a product is the convolution: a sum of independent frequencies
    first = sample_frequencies(kernel.k1, n, d, rng)
    second = sample_frequencies(kernel.k2, n, d, rng)
    return None if first is None or second is None else first + second
