"""Kernel matrices by compiled loops, where a kernel has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Product

from skgpx._numerics import radial
from skgpx._numerics.triangles import inner_product, mirrored, triangle_slopes
from skgpx.kernels._distances import scaled_points
from skgpx.kernels._pullbacks import matrix_and_pullback
from skgpx.kernels._records import Array, Pullback, record_of


class _Radial(NamedTuple):
    """A constant times a kernel that has compiled loops."""

    amplitude: float
    amplitude_is_free: bool
    shape: Any
    code: int
    parameter: float


def kernel_matrix(kernel: Any, X: Array, Z: Array) -> Array:
    """``kernel(X, Z)``, C-contiguous; a row does not depend on the others.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    Z : ndarray of shape (m, d)

    Notes
    -----
    2 to 3 ns an entry for a constant times an RBF, a Matern or a rational quadratic
    kernel; others are called.
    """
    known = _radial_part(kernel)
    if known is None:
        return np.ascontiguousarray(kernel(X, Z))
    left, right = scaled_points(X, Z, known.shape.length_scale)
    K = np.empty((len(X), len(Z)))
    points = np.ascontiguousarray(right.T)
    radial.radial_rows(known.code, known.parameter, points, left, K)
    if known.amplitude != 1.0:
        K *= known.amplitude
    return K


def triangle_and_pullback(kernel: Any, X: Array) -> tuple[Array, Pullback]:
    """Lower triangle of ``k(X, X)`` and the map of its cotangent to theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)

    Returns
    -------
    K : ndarray of shape (n, n)
        What is above the diagonal is not set.
    pullback : callable
        ``pullback(G)`` with a symmetric G (n, n), of which only the lower triangle is
        read, returns ``Σ_ij G_ij dK_ij / dtheta``, shape (n_theta,).
    """
    known = _radial_part(kernel)
    if known is None or known.code == radial.RATIONAL_QUADRATIC:
        # the derivative in its exponent has no compiled loop
        K, pullback = matrix_and_pullback(kernel, X)
        return K, lambda G: pullback(mirrored(G))
    scaled, _ = scaled_points(X, None, known.shape.length_scale)
    K, W = np.empty((2, len(X), len(X)))
    radial.radial_triangle(known.code, known.parameter, known.amplitude, scaled, K, W)

    def slopes(G: Array) -> Array:
        parts = [inner_product(G, K)] if known.amplitude_is_free else []
        shape = known.shape
        if not shape.hyperparameter_length_scale.fixed:
            by_input = triangle_slopes(G, W, scaled)
            parts.extend(by_input if shape.anisotropic else [by_input.sum()])
        return np.array(parts)

    return K, slopes


def _radial_part(kernel: Any) -> _Radial | None:
    """Constant and radial kernel of which a kernel is the product."""
    amplitude, free, shape = 1.0, False, kernel
    if type(kernel) is Product and type(kernel.k1) is ConstantKernel:
        constant, shape = kernel.k1, kernel.k2
        amplitude = float(constant.constant_value)
        free = not constant.hyperparameter_constant_value.fixed
    code_of = record_of(shape).radial_code
    known = None if code_of is None else code_of(shape)
    return None if known is None else _Radial(amplitude, free, shape, *known)
