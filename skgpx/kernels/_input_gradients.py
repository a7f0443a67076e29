"""Derivatives of kernels in their inputs, in reverse mode.

A kernel section ``k(·, z)`` is differentiated where a function drawn from the process
is. As for the hyperparameters, only the contraction ``Σ_j G_ij ∇ₓ k(x_i, z_j)`` is
ever formed, by a rule that is registered on the exact type of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from skgpx.kernels._gradients import Array
from skgpx.kernels._gre import GREKernel
from skgpx.kernels._rules import matern_profile

Pull = Callable[[Array], Array]
InputRule = Callable[[Any, Array, Array], tuple[Array, Pull]]

_RULES: dict[type, InputRule] = {}


def register_input_gradient(*kernel_types: type) -> Callable[[InputRule], InputRule]:
    """Register ``rule(kernel, X, Z) -> (K, pull)`` for these exact types.

    ``K`` is ``kernel(X, Z)`` (n, m), and ``pull(G)`` maps (n, m) to the (n, d) array
    ``Σ_j G_ij ∇ₓ k(x_i, z_j)``.
    """

    def enrol(rule: InputRule) -> InputRule:
        _RULES.update(dict.fromkeys(kernel_types, rule))
        return rule

    return enrol


def trace_inputs(kernel: Any, X: Array, Z: Array) -> tuple[Array, Pull]:
    """Kernel matrix ``k(X, Z)`` and the function that contracts its gradient in X.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Composed of kernels with a registered rule.
    X : ndarray of shape (n, d)
        Where the gradient is taken.
    Z : ndarray of shape (m, d)
        Right points.

    Returns
    -------
    K : ndarray of shape (n, m)
    pull : callable
        ``pull(G)`` with ``G`` (n, m) is ``Σ_j G_ij ∇ₓ k(x_i, z_j)``, shape (n, d).

    Raises
    ------
    ValueError
        If a kernel has no rule.
    """
    rule = _RULES.get(type(kernel))
    if rule is None:
        raise ValueError(
            f"The gradient of {kernel!r} in its inputs is not known. Register it with "
            f"skgpx.kernels.register_input_gradient({type(kernel).__name__})."
        )
    return rule(kernel, X, Z)


def _towards(W: Array, X: Array, Z: Array, length_scale: Any) -> Pull:
    """Pull of ``∇ₓk = -W (x - z) / l²``, for kernels of the scaled distance."""
    # around a common centre, inputs far from zero keep their digits
    centre = Z.mean(axis=0)
    X, Z = X - centre, Z - centre

    def pull(G: Array) -> Array:
        P = G * W
        pulled: Array = P @ Z - P.sum(axis=1, keepdims=True) * X
        return pulled / np.square(length_scale)

    return pull


@register_input_gradient(RBF, Matern)
def _matern(kernel: Any, X: Array, Z: Array) -> tuple[Array, Pull]:
    length_scale = kernel.length_scale
    r = cdist(X / length_scale, Z / length_scale)
    if type(kernel) is RBF or kernel.nu == np.inf:
        K = np.exp(-0.5 * r * r)
        return K, _towards(K, X, Z, length_scale)
    K, W = matern_profile(kernel.nu, r)
    return K, _towards(W, X, Z, length_scale)


@register_input_gradient(RationalQuadratic)
def _rational_quadratic(
    kernel: RationalQuadratic, X: Array, Z: Array
) -> tuple[Array, Pull]:
    scaled = cdist(X, Z, "sqeuclidean") / kernel.length_scale**2
    base = 1.0 + scaled / (2.0 * kernel.alpha)
    K = base**-kernel.alpha
    return K, _towards(K / base, X, Z, kernel.length_scale)


@register_input_gradient(ExpSineSquared)
def _periodic(kernel: ExpSineSquared, X: Array, Z: Array) -> tuple[Array, Pull]:
    r = cdist(X, Z)
    angle = np.pi * r / kernel.periodicity
    K = np.exp(-2.0 * (np.sin(angle) / kernel.length_scale) ** 2)
    # dk/dr = -k (2 π / p l²) sin(2 angle); divided by -r
    slope = 2.0 * np.pi / (kernel.periodicity * kernel.length_scale**2)
    far = r > 0.0
    ratio = np.divide(np.sin(2.0 * angle), r, out=np.zeros_like(r), where=far)
    return K, _towards(slope * K * ratio, X, Z, 1.0)


@register_input_gradient(DotProduct)
def _dot_product(kernel: DotProduct, X: Array, Z: Array) -> tuple[Array, Pull]:
    return X @ Z.T + kernel.sigma_0**2, lambda G: G @ Z


@register_input_gradient(ConstantKernel, WhiteKernel)
def _flat(kernel: Any, X: Array, Z: Array) -> tuple[Array, Pull]:
    constant = type(kernel) is ConstantKernel
    level = float(kernel.constant_value) if constant else 0.0
    return np.full((len(X), len(Z)), level), lambda _: np.zeros(X.shape)


@register_input_gradient(Sum)
def _sum(kernel: Sum, X: Array, Z: Array) -> tuple[Array, Pull]:
    K1, pull1 = trace_inputs(kernel.k1, X, Z)
    K2, pull2 = trace_inputs(kernel.k2, X, Z)
    return K1 + K2, lambda G: pull1(G) + pull2(G)


@register_input_gradient(Product)
def _product(kernel: Product, X: Array, Z: Array) -> tuple[Array, Pull]:
    K1, pull1 = trace_inputs(kernel.k1, X, Z)
    K2, pull2 = trace_inputs(kernel.k2, X, Z)
    return K1 * K2, lambda G: pull1(G * K2) + pull2(G * K1)


@register_input_gradient(Exponentiation)
def _power(kernel: Exponentiation, X: Array, Z: Array) -> tuple[Array, Pull]:
    p = kernel.exponent
    K, pull = trace_inputs(kernel.kernel, X, Z)
    return K**p, lambda G: pull(G * (p * K ** (p - 1)))


@register_input_gradient(GREKernel)
def _gre(kernel: GREKernel, X: Array, Z: Array) -> tuple[Array, Pull]:
    b, support = kernel.background, np.asarray(kernel.support, dtype=np.float64)
    A, pull = trace_inputs(kernel.kernel, X, support)
    B = kernel.kernel(Z, support) * kernel.masses
    Kbar, pull_background = trace_inputs(kernel.background_kernel(), X, Z)
    return A @ B.T + b * Kbar, lambda G: pull(G @ B) + b * pull_background(G)
