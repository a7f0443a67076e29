"""Pullback rules of scikit-learn's kernels, registered on the exact type."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from skgpx.kernels._distances import squared_difference_sums, squared_distances
from skgpx.kernels._gradients import (
    Array,
    Pullback,
    diag_with_pullback,
    register_diagonal_pullback,
    register_pullback,
    trace_kernel,
)


def _scaled(X: Array, Y: Array | None, length_scale: Any) -> tuple[Array, Array]:
    """Both sets of points in lengthscales, around the mean of the right one."""
    length_scale = np.asarray(length_scale, dtype=np.float64)
    right = X if Y is None else Y
    center = right.mean(axis=0)
    left = (X - center) / length_scale
    return left, left if Y is None else (right - center) / length_scale


def _lengthscale_pullback(kernel: Any, W: Array, X: Array, Y: Array) -> Pullback:
    """Pullback for ``dK/dlog l_d = W (x_d - y_d)² / l_d²`` (scaled X and Y)."""
    fixed, isotropic = kernel.hyperparameter_length_scale.fixed, not kernel.anisotropic

    def pullback(G: Array) -> Array:
        if fixed:
            return np.empty(0)
        sums = squared_difference_sums(G * W, X, Y)
        return sums.sum(keepdims=True) if isotropic else sums

    return pullback


@register_pullback(RBF)
def _rbf(kernel: RBF, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    left, right = _scaled(X, Y, kernel.length_scale)
    K = squared_distances(left, right)
    K *= -0.5
    np.exp(K, out=K)
    return K, _lengthscale_pullback(kernel, K, left, right)


@register_pullback(Matern)
def _matern(kernel: Matern, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    if kernel.nu == np.inf:
        return _rbf(kernel, X, Y)
    left, right = _scaled(X, Y, kernel.length_scale)
    # the direct sum: a square root has no patience with cancellation at zero
    K, W = matern_profile(kernel.nu, cdist(left, right))
    return K, _lengthscale_pullback(kernel, W, left, right)


def matern_profile(nu: float, r: Array) -> tuple[Array, Array]:
    """Matérn function of the scaled distance, and ``-(dk/dr) / r``."""
    if nu == 0.5:
        K = np.exp(-r)
        # the kink contributes nothing: W multiplies r², which is zero there
        return K, np.divide(K, r, out=np.zeros_like(r), where=r > 1e-8)
    if nu == 1.5:
        t = np.sqrt(3.0) * r
        decay = np.exp(-t)
        return (1.0 + t) * decay, 3.0 * decay
    if nu == 2.5:
        t = np.sqrt(5.0) * r
        decay = np.exp(-t)
        return (1.0 + t + t * t / 3.0) * decay, 5.0 / 3.0 * (1.0 + t) * decay
    # k = c tᵛ Kᵥ(t), dk/dt = -c tᵛ Kᵥ₋₁(t), t = √(2ν) r
    t = np.maximum(np.sqrt(2.0 * nu) * r, np.finfo(float).eps)
    c = 2.0 ** (1.0 - nu) / gamma(nu)
    W = 2.0 * nu * c * t ** (nu - 1.0) * kv(nu - 1.0, t)
    W[r <= 1e-8] = 0.0
    return c * t**nu * kv(nu, t), W


@register_pullback(RationalQuadratic)
def _rational_quadratic(
    kernel: RationalQuadratic, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    alpha = kernel.alpha
    D = squared_distances(*_scaled(X, Y, kernel.length_scale))
    base = 1.0 + D / (2.0 * alpha)
    K = base**-alpha

    def pullback(G: Array) -> Array:
        P = G * K
        slope = np.vdot(P, D / base)
        parts = []
        if not kernel.hyperparameter_alpha.fixed:
            parts.append(0.5 * slope - alpha * np.vdot(P, np.log(base)))
        if not kernel.hyperparameter_length_scale.fixed:
            parts.append(slope)
        return np.array(parts)

    return K, pullback


@register_pullback(ConstantKernel)
def _constant(
    kernel: ConstantKernel, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    shape = (X.shape[0], X.shape[0] if Y is None else Y.shape[0])
    value = float(kernel.constant_value)
    free = not kernel.hyperparameter_constant_value.fixed
    return np.broadcast_to(value, shape), _summing(value, free)


@register_pullback(WhiteKernel)
def _white(kernel: WhiteKernel, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    level = float(kernel.noise_level)
    free = not kernel.hyperparameter_noise_level.fixed
    if Y is None:
        return level * np.eye(X.shape[0]), lambda G: _summing(level, free)(np.diag(G))
    return np.broadcast_to(0.0, (X.shape[0], Y.shape[0])), _summing(0.0, free)


@register_pullback(DotProduct)
def _dot_product(
    kernel: DotProduct, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    offset = float(kernel.sigma_0) ** 2
    K = X @ (X if Y is None else Y).T + offset
    return K, _summing(2.0 * offset, not kernel.hyperparameter_sigma_0.fixed)


def _summing(factor: float, free: bool) -> Pullback:
    """Pullback of a parameter whose derivative is the same at every entry."""
    return lambda G: np.array([factor * G.sum()]) if free else np.empty(0)


@register_pullback(Sum)
def _sum(kernel: Sum, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    K1, pullback1 = trace_kernel(kernel.k1, X, Y)
    K2, pullback2 = trace_kernel(kernel.k2, X, Y)
    return K1 + K2, lambda G: np.concatenate((pullback1(G), pullback2(G)))


@register_pullback(Product)
def _product(kernel: Product, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    if type(kernel.k1) is ConstantKernel:
        return _amplitude(kernel.k1, kernel.k2, X, Y)
    K1, pullback1 = trace_kernel(kernel.k1, X, Y)
    K2, pullback2 = trace_kernel(kernel.k2, X, Y)
    return K1 * K2, lambda G: np.concatenate((pullback1(G * K2), pullback2(G * K1)))


def _amplitude(
    constant: ConstantKernel, inner: Any, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """Multiply a kernel by a constant, with few passes over the matrix."""
    value = float(constant.constant_value)
    free = not constant.hyperparameter_constant_value.fixed
    K, pullback = trace_kernel(inner, X, Y)

    def scaled(G: Array) -> Array:
        slopes = value * pullback(G)
        return np.append(value * np.vdot(G, K), slopes) if free else slopes

    return value * K, scaled


@register_pullback(Exponentiation)
def _power(kernel: Exponentiation, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    p = kernel.exponent
    K, pullback = trace_kernel(kernel.kernel, X, Y)
    return K**p, lambda G: pullback(G * (p * K ** (p - 1)))


@register_diagonal_pullback(RBF, Matern, RationalQuadratic)
def _unit_diagonal(kernel: Any, X: Array) -> tuple[Array, Pullback]:
    return np.ones(X.shape[0]), lambda _: np.zeros(kernel.n_dims)


@register_diagonal_pullback(ConstantKernel)
def _constant_diagonal(kernel: ConstantKernel, X: Array) -> tuple[Array, Pullback]:
    free = not kernel.hyperparameter_constant_value.fixed
    return kernel.diag(X), _summing(float(kernel.constant_value), free)


@register_diagonal_pullback(WhiteKernel)
def _white_diagonal(kernel: WhiteKernel, X: Array) -> tuple[Array, Pullback]:
    free = not kernel.hyperparameter_noise_level.fixed
    return kernel.diag(X), _summing(float(kernel.noise_level), free)


@register_diagonal_pullback(DotProduct)
def _dot_product_diagonal(kernel: DotProduct, X: Array) -> tuple[Array, Pullback]:
    free = not kernel.hyperparameter_sigma_0.fixed
    return kernel.diag(X), _summing(2.0 * float(kernel.sigma_0) ** 2, free)


@register_diagonal_pullback(Sum)
def _sum_diagonal(kernel: Sum, X: Array) -> tuple[Array, Pullback]:
    d1, pullback1 = diag_with_pullback(kernel.k1, X)
    d2, pullback2 = diag_with_pullback(kernel.k2, X)
    return d1 + d2, lambda g: np.concatenate((pullback1(g), pullback2(g)))


@register_diagonal_pullback(Product)
def _product_diagonal(kernel: Product, X: Array) -> tuple[Array, Pullback]:
    d1, pullback1 = diag_with_pullback(kernel.k1, X)
    d2, pullback2 = diag_with_pullback(kernel.k2, X)
    return d1 * d2, lambda g: np.concatenate((pullback1(g * d2), pullback2(g * d1)))


@register_diagonal_pullback(Exponentiation)
def _power_diagonal(kernel: Exponentiation, X: Array) -> tuple[Array, Pullback]:
    p = kernel.exponent
    d, pullback = diag_with_pullback(kernel.kernel, X)
    return d**p, lambda g: pullback(g * (p * d ** (p - 1)))
