"""The record of the GRE kernel: its derivatives."""

from __future__ import annotations

import numpy as np

from skgpx.kernels._gre import GREKernel
from skgpx.kernels._pullbacks import (
    diagonal_and_pullback,
    inducing_and_pullback,
    matrix_and_input_pullback,
    matrix_and_pullback,
)
from skgpx.kernels._records import (
    Array,
    InducingKernels,
    InducingPullback,
    Pullback,
    fill_record,
)


def _sections(kernel: GREKernel, X: Array) -> tuple[Array, Pullback]:
    """Evaluate the base kernel ``k(X, S)``, with its pullback."""
    support = np.ascontiguousarray(kernel.support, dtype=np.float64)
    return matrix_and_pullback(kernel.kernel, X, support)


def _join(kernel: GREKernel, inner: Array, background: float) -> Array:
    """Gradient in the order of theta."""
    if kernel.hyperparameter_background.fixed:
        return inner
    return np.append(inner, background)


def _matrix(kernel: GREKernel, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    b, p = kernel.background, kernel.masses
    A, pullback_left = _sections(kernel, X)
    B, pullback_right = (A, pullback_left) if Y is None else _sections(kernel, Y)
    Bp = B * p
    Kbar, pullback_background = matrix_and_pullback(kernel.background_kernel(), X, Y)

    def pullback(G: Array) -> Array:
        # r = A P Bᵀ + b k̄:  Ā = G B P,  B̄ = Gᵀ A P
        inner = pullback_left(G @ Bp) + pullback_right((G.T @ A) * p)
        inner += b * pullback_background(G)
        return _join(kernel, inner, b * float(np.sum(G * Kbar)))

    return A @ Bp.T + b * Kbar, pullback


def _diagonal(kernel: GREKernel, X: Array) -> tuple[Array, Pullback]:
    b, p = kernel.background, kernel.masses
    A, pullback_sections = _sections(kernel, X)
    dbar, pullback_background = diagonal_and_pullback(kernel.background_kernel(), X)

    def pullback(g: Array) -> Array:
        # d_i = Σ p a_i² + b d̄_i:  Ā = 2 g A P
        inner = pullback_sections(_scaled_rows(A, 2.0 * g, p))
        return _join(kernel, inner + b * pullback_background(g), b * float(g @ dbar))

    return (A * A) @ p + b * dbar, pullback


def _inducing(
    kernel: GREKernel, X: Array, Z: Array
) -> tuple[InducingKernels, InducingPullback]:
    b, p = kernel.background, kernel.masses
    A, pullback_rows = _sections(kernel, X)
    B, pullback_points = _sections(kernel, Z)
    Bp = B * p
    bar, pullback_background = inducing_and_pullback(kernel.background_kernel(), X, Z)
    kernels = InducingKernels(
        A @ Bp.T + b * bar.cross,
        B @ Bp.T + b * bar.inducing,
        (A * A) @ p + b * bar.diagonal,
    )

    def pullback(G_cross: Array, G_inducing: Array, g: Array) -> Array:
        # Ā = G B P + 2 g A P,  B̄ = (Gᵀ A + (H + Hᵀ) B) P
        A_bar = _scaled_rows(A, 2.0 * g, p)
        A_bar += G_cross @ Bp
        B_bar = (G_cross.T @ A + (G_inducing + G_inducing.T) @ B) * p
        inner = pullback_rows(A_bar) + pullback_points(B_bar)
        inner += b * pullback_background(G_cross, G_inducing, g)
        slope = np.sum(G_cross * bar.cross) + np.sum(G_inducing * bar.inducing)
        return _join(kernel, inner, b * float(slope + g @ bar.diagonal))

    return kernels, pullback


def _scaled_rows(A: Array, g: Array, p: Array) -> Array:
    """``diag(g) A diag(p)``."""
    scaled = A * g[:, None]
    scaled *= p
    return scaled


def _inputs(kernel: GREKernel, X: Array, Z: Array) -> tuple[Array, Pullback]:
    b, support = kernel.background, np.asarray(kernel.support, dtype=np.float64)
    A, pullback = matrix_and_input_pullback(kernel.kernel, X, support)
    B = kernel.kernel(Z, support) * kernel.masses
    wide = kernel.background_kernel()
    Kbar, pullback_background = matrix_and_input_pullback(wide, X, Z)
    return A @ B.T + b * Kbar, lambda G: pullback(G @ B) + b * pullback_background(G)


fill_record(
    GREKernel,
    pullback=_matrix,
    diagonal_pullback=_diagonal,
    inducing_pullback=_inducing,
    input_gradient=_inputs,
)
