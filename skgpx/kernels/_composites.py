"""Sums, products and powers of kernels, and the kernels without a distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Product,
    Sum,
    WhiteKernel,
)

from skgpx._numerics.fourier_index import Box
from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    matrix_and_input_pullback,
    matrix_and_pullback,
)
from skgpx.kernels._records import KernelSpectrum, Pullback, fill_record

Array = NDArray[np.float64]
# Values of a kernel at some points, and their pullback.
Rule = Callable[..., tuple[Array, Pullback]]
Join = Callable[[Array, Array], Array]


# ---- Rules in terms of those of the parts --------------------------------------------


def _sum(rule: Rule, join: Join) -> Rule:
    def summed(kernel: Sum, *points: Any) -> tuple[Array, Pullback]:
        K1, pullback1 = rule(kernel.k1, *points)
        K2, pullback2 = rule(kernel.k2, *points)
        return K1 + K2, lambda G: join(pullback1(G), pullback2(G))

    return summed


def _product(rule: Rule, join: Join) -> Rule:
    def multiplied(kernel: Product, *points: Any) -> tuple[Array, Pullback]:
        K1, pullback1 = rule(kernel.k1, *points)
        K2, pullback2 = rule(kernel.k2, *points)
        return K1 * K2, lambda G: join(pullback1(G * K2), pullback2(G * K1))

    return multiplied


def _power(rule: Rule, join: Join) -> Rule:
    del join

    def powered(kernel: Exponentiation, *points: Any) -> tuple[Array, Pullback]:
        p, (K, pullback) = kernel.exponent, rule(kernel.kernel, *points)
        # the slope of Kᵖ is p Kᵖ⁻¹
        return K**p, lambda G: pullback(G * (p * K ** (p - 1)))

    return powered


def _joined(first: Array, second: Array) -> Array:
    return np.concatenate((first, second))


for _type, _compose in ((Sum, _sum), (Product, _product), (Exponentiation, _power)):
    fill_record(
        _type,
        pullback=_compose(matrix_and_pullback, _joined),
        diagonal_pullback=_compose(diagonal_and_pullback, _joined),
        input_gradient=_compose(matrix_and_input_pullback, np.add),
    )

_multiplied: Rule = _product(matrix_and_pullback, _joined)


def _product_matrix(
    kernel: Product, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """A constant times a kernel with few passes over the matrix; other products."""
    if type(kernel.k1) is not ConstantKernel:
        return _multiplied(kernel, X, Y)
    value = float(kernel.k1.constant_value)
    free = not kernel.k1.hyperparameter_constant_value.fixed
    K, pullback = matrix_and_pullback(kernel.k2, X, Y)

    def scaled(G: Array) -> Array:
        slopes = value * pullback(G)
        return np.append(value * np.vdot(G, K), slopes) if free else slopes

    return value * K, scaled


fill_record(Product, pullback=_product_matrix)


# ---- ConstantKernel, WhiteKernel and DotProduct --------------------------------------


def _summing(factor: float, parameter: Any) -> Pullback:
    """Pullback of one parameter whose derivative is the same at every entry."""
    return lambda G: np.empty(0) if parameter.fixed else np.array([factor * G.sum()])


def _constant(kernel: ConstantKernel, *points: Any) -> tuple[Array, Pullback]:
    value, shape = float(kernel.constant_value), [len(X) for X in points]
    pullback = _summing(value, kernel.hyperparameter_constant_value)
    return np.broadcast_to(value, shape), pullback


def _constant_matrix(
    kernel: ConstantKernel, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    return _constant(kernel, X, X if Y is None else Y)


def _constant_inputs(
    kernel: ConstantKernel, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    return _constant(kernel, X, Z)[0], lambda _: np.zeros(X.shape)


def _constant_on_box(kernel: ConstantKernel, omega: Array, box: Box) -> KernelSpectrum:
    """All variance is at the frequency zero."""
    del box
    value = float(kernel.constant_value)
    values = np.where(omega.any(axis=1), 0.0, value)
    free = 0 if kernel.hyperparameter_constant_value.fixed else 1
    gradient = np.full(free, value)
    return KernelSpectrum(values, np.tile(values[:, np.newaxis], free), value, gradient)


def _white(kernel: WhiteKernel, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    level, parameter = float(kernel.noise_level), kernel.hyperparameter_noise_level
    if Y is not None:
        return np.zeros((len(X), len(Y))), _summing(0.0, parameter)
    on_diagonal = _summing(level, parameter)
    return level * np.eye(len(X)), lambda G: on_diagonal(np.diag(G))


def _white_diagonal(kernel: WhiteKernel, X: Array) -> tuple[Array, Pullback]:
    level, parameter = float(kernel.noise_level), kernel.hyperparameter_noise_level
    return kernel.diag(X), _summing(level, parameter)


def _white_inputs(kernel: WhiteKernel, X: Array, Z: Array) -> tuple[Array, Pullback]:
    return _white(kernel, X, Z)[0], lambda _: np.zeros(X.shape)


def _dot_product(
    kernel: DotProduct, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """``x·y + σ₀²``, and its slope ``2σ₀²`` in log σ₀."""
    K = X @ (X if Y is None else Y).T + kernel.sigma_0**2
    return K, _summing(2.0 * float(kernel.sigma_0) ** 2, kernel.hyperparameter_sigma_0)


def _dot_product_diagonal(kernel: DotProduct, X: Array) -> tuple[Array, Pullback]:
    return kernel.diag(X), _dot_product(kernel, X[:0], None)[1]


def _dot_product_inputs(
    kernel: DotProduct, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    return X @ Z.T + kernel.sigma_0**2, lambda G: G @ Z


fill_record(
    ConstantKernel,
    pullback=_constant_matrix,
    diagonal_pullback=_constant,
    input_gradient=_constant_inputs,
    box_spectrum=_constant_on_box,
)
fill_record(
    WhiteKernel,
    pullback=_white,
    diagonal_pullback=_white_diagonal,
    input_gradient=_white_inputs,
)
fill_record(
    DotProduct,
    pullback=_dot_product,
    diagonal_pullback=_dot_product_diagonal,
    input_gradient=_dot_product_inputs,
)
