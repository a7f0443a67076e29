"""Sum, Product and Exponentiation: rules in terms of those of the parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Exponentiation,
    Product,
    Sum,
)

from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    matrix_and_input_pullback,
    matrix_and_pullback,
)
from skgpx.kernels._records import Array, Pullback, fill_record


def _sum(kernel: Sum, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    K1, pullback1 = matrix_and_pullback(kernel.k1, X, Y)
    K2, pullback2 = matrix_and_pullback(kernel.k2, X, Y)
    return K1 + K2, lambda G: np.concatenate((pullback1(G), pullback2(G)))


def _sum_diagonal(kernel: Sum, X: Array) -> tuple[Array, Pullback]:
    d1, pullback1 = diagonal_and_pullback(kernel.k1, X)
    d2, pullback2 = diagonal_and_pullback(kernel.k2, X)
    return d1 + d2, lambda g: np.concatenate((pullback1(g), pullback2(g)))


def _sum_inputs(kernel: Sum, X: Array, Z: Array) -> tuple[Array, Pullback]:
    K1, pullback1 = matrix_and_input_pullback(kernel.k1, X, Z)
    K2, pullback2 = matrix_and_input_pullback(kernel.k2, X, Z)
    return K1 + K2, lambda G: pullback1(G) + pullback2(G)


def _product(kernel: Product, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    if type(kernel.k1) is ConstantKernel:
        return _amplitude(kernel.k1, kernel.k2, X, Y)
    K1, pullback1 = matrix_and_pullback(kernel.k1, X, Y)
    K2, pullback2 = matrix_and_pullback(kernel.k2, X, Y)
    return K1 * K2, lambda G: np.concatenate((pullback1(G * K2), pullback2(G * K1)))


def _amplitude(
    constant: ConstantKernel, inner: Any, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """Multiply a kernel by a constant, with few passes over the matrix."""
    value = float(constant.constant_value)
    free = not constant.hyperparameter_constant_value.fixed
    K, pullback = matrix_and_pullback(inner, X, Y)

    def scaled(G: Array) -> Array:
        slopes = value * pullback(G)
        return np.append(value * np.vdot(G, K), slopes) if free else slopes

    return value * K, scaled


def _product_diagonal(kernel: Product, X: Array) -> tuple[Array, Pullback]:
    d1, pullback1 = diagonal_and_pullback(kernel.k1, X)
    d2, pullback2 = diagonal_and_pullback(kernel.k2, X)
    return d1 * d2, lambda g: np.concatenate((pullback1(g * d2), pullback2(g * d1)))


def _product_inputs(kernel: Product, X: Array, Z: Array) -> tuple[Array, Pullback]:
    K1, pullback1 = matrix_and_input_pullback(kernel.k1, X, Z)
    K2, pullback2 = matrix_and_input_pullback(kernel.k2, X, Z)
    return K1 * K2, lambda G: pullback1(G * K2) + pullback2(G * K1)


def _power(kernel: Exponentiation, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    return _powered(kernel.exponent, *matrix_and_pullback(kernel.kernel, X, Y))


def _power_diagonal(kernel: Exponentiation, X: Array) -> tuple[Array, Pullback]:
    return _powered(kernel.exponent, *diagonal_and_pullback(kernel.kernel, X))


def _power_inputs(kernel: Exponentiation, X: Array, Z: Array) -> tuple[Array, Pullback]:
    return _powered(kernel.exponent, *matrix_and_input_pullback(kernel.kernel, X, Z))


def _powered(p: float, K: Array, pullback: Pullback) -> tuple[Array, Pullback]:
    """``Kᵖ``, whose slope is ``p Kᵖ⁻¹``."""
    return K**p, lambda G: pullback(G * (p * K ** (p - 1)))


fill_record(
    Sum,
    pullback=_sum,
    diagonal_pullback=_sum_diagonal,
    input_gradient=_sum_inputs,
)
fill_record(
    Product,
    pullback=_product,
    diagonal_pullback=_product_diagonal,
    input_gradient=_product_inputs,
)
fill_record(
    Exponentiation,
    pullback=_power,
    diagonal_pullback=_power_diagonal,
    input_gradient=_power_inputs,
)
