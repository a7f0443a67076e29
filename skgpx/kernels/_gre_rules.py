"""Pullback rules of the GRE kernel."""

from __future__ import annotations

import numpy as np

from skgpx.kernels._gradients import (
    Array,
    InducingKernels,
    InducingPullback,
    Pullback,
    diag_with_pullback,
    inducing_with_pullback,
    register_diagonal_pullback,
    register_inducing_pullback,
    register_pullback,
    trace_kernel,
)
from skgpx.kernels._gre import GREKernel


def _sections(kernel: GREKernel, X: Array) -> tuple[Array, Pullback]:
    """Evaluate the base kernel ``k(X, S)``, with its pullback."""
    support = np.ascontiguousarray(kernel.support, dtype=np.float64)
    return trace_kernel(kernel.kernel, X, support)


def _join(kernel: GREKernel, inner: Array, background: float) -> Array:
    """Gradient in the order of theta."""
    if kernel.hyperparameter_background.fixed:
        return inner
    return np.append(inner, background)


@register_pullback(GREKernel)
def _gre(kernel: GREKernel, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    b, p = kernel.background, kernel.masses
    A, pullback_left = _sections(kernel, X)
    B, pullback_right = (A, pullback_left) if Y is None else _sections(kernel, Y)
    Bp = B * p
    Kbar, pullback_background = trace_kernel(kernel.background_kernel(), X, Y)

    def pullback(G: Array) -> Array:
        # r = A P Bᵀ + b k̄:  Ā = G B P,  B̄ = Gᵀ A P
        inner = pullback_left(G @ Bp) + pullback_right((G.T @ A) * p)
        inner += b * pullback_background(G)
        return _join(kernel, inner, b * float(np.sum(G * Kbar)))

    return A @ Bp.T + b * Kbar, pullback


@register_diagonal_pullback(GREKernel)
def _gre_diagonal(kernel: GREKernel, X: Array) -> tuple[Array, Pullback]:
    b, p = kernel.background, kernel.masses
    A, pullback_sections = _sections(kernel, X)
    dbar, pullback_background = diag_with_pullback(kernel.background_kernel(), X)

    def pullback(g: Array) -> Array:
        # d_i = Σ p a_i² + b d̄_i:  Ā = 2 g A P
        inner = pullback_sections(_scaled_rows(A, 2.0 * g, p))
        return _join(kernel, inner + b * pullback_background(g), b * float(g @ dbar))

    return (A * A) @ p + b * dbar, pullback


@register_inducing_pullback(GREKernel)
def _gre_inducing(
    kernel: GREKernel, X: Array, Z: Array
) -> tuple[InducingKernels, InducingPullback]:
    b, p = kernel.background, kernel.masses
    A, pullback_rows = _sections(kernel, X)
    B, pullback_points = _sections(kernel, Z)
    Bp = B * p
    bar, pullback_background = inducing_with_pullback(kernel.background_kernel(), X, Z)
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
