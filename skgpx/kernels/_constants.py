"""ConstantKernel and WhiteKernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

from skgpx._numerics.fourier_index import Box
from skgpx.kernels._records import Array, KernelSpectrum, Pullback, fill_record


def summing_pullback(factor: float, free: bool) -> Pullback:
    """Pullback of a parameter whose derivative is the same at every entry."""
    return lambda G: np.array([factor * G.sum()]) if free else np.empty(0)


def _constant(
    kernel: ConstantKernel, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    shape = (X.shape[0], X.shape[0] if Y is None else Y.shape[0])
    return np.broadcast_to(_value(kernel), shape), _constant_pullback(kernel)


def _constant_diagonal(kernel: ConstantKernel, X: Array) -> tuple[Array, Pullback]:
    return kernel.diag(X), _constant_pullback(kernel)


def _constant_pullback(kernel: ConstantKernel) -> Pullback:
    free = not kernel.hyperparameter_constant_value.fixed
    return summing_pullback(_value(kernel), free)


def _value(kernel: ConstantKernel) -> float:
    return float(kernel.constant_value)


def _constant_inputs(
    kernel: ConstantKernel, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    return np.full((len(X), len(Z)), _value(kernel)), _no_slope(X)


def _constant_on_box(kernel: ConstantKernel, omega: Array, box: Box) -> KernelSpectrum:
    """All variance is at the frequency zero."""
    del box
    value = _value(kernel)
    values = np.where(omega.any(axis=1), 0.0, value)
    free = 0 if kernel.hyperparameter_constant_value.fixed else 1
    gradient = np.full(free, value)
    return KernelSpectrum(values, np.tile(values[:, np.newaxis], free), value, gradient)


def _white(kernel: WhiteKernel, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    level = float(kernel.noise_level)
    free = not kernel.hyperparameter_noise_level.fixed
    if Y is not None:
        zeros = np.broadcast_to(0.0, (X.shape[0], Y.shape[0]))
        return zeros, summing_pullback(0.0, free)
    on_diagonal = summing_pullback(level, free)
    return level * np.eye(X.shape[0]), lambda G: on_diagonal(np.diag(G))


def _white_diagonal(kernel: WhiteKernel, X: Array) -> tuple[Array, Pullback]:
    free = not kernel.hyperparameter_noise_level.fixed
    return kernel.diag(X), summing_pullback(float(kernel.noise_level), free)


def _white_inputs(kernel: WhiteKernel, X: Array, Z: Array) -> tuple[Array, Pullback]:
    del kernel
    return np.zeros((len(X), len(Z))), _no_slope(X)


def _no_slope(X: Array) -> Pullback:
    """Pullback to the inputs of a kernel that does not depend on them."""

    def pullback(G: Any) -> Array:
        del G
        return np.zeros(X.shape)

    return pullback


fill_record(
    ConstantKernel,
    pullback=_constant,
    diagonal_pullback=_constant_diagonal,
    input_gradient=_constant_inputs,
    box_spectrum=_constant_on_box,
)
fill_record(
    WhiteKernel,
    pullback=_white,
    diagonal_pullback=_white_diagonal,
    input_gradient=_white_inputs,
)
