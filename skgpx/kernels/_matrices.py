"""Kernel matrices and their pullbacks.

``kernel(X, eval_gradient=True)`` of scikit-learn returns an array of shape
(n, n, n_theta) for one set of points. An objective that depends on a kernel matrix
only needs the contraction ``Σ_ij G_ij dk(x_i, y_j)/dtheta``, which costs a few
matrix products and works between two sets of points; a drawn function, likewise, only
``Σ_j G_ij ∇ₓ k(x_i, z_j)``. Each function here returns values and the *pullback* that
maps their cotangents G to such a sum, by the rule in the kernel's record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Product

from skgpx._numerics import radial
from skgpx._numerics.linalg import inner_product, mirrored, triangle_slopes
from skgpx.kernels._records import (
    Array,
    InducingKernels,
    InducingPullback,
    Pullback,
    record_of,
)
from skgpx.kernels._stationary import scaled_points

# ---- Kernel matrices by compiled loops, where a kernel has them ----------------------


def kernel_matrix(kernel: Any, X: Array, Z: Array) -> Array:
    """``kernel(X, Z)``, C-contiguous; a row does not depend on the others.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    Z : ndarray of shape (m, d)

    Notes
    -----
    2 to 3 ns an entry for a constant times an RBF or a Matern of order 1/2, 3/2 or 5/2;
    other kernels are called.
    """
    constant, shape, code = _radial_part(kernel)
    if code is None:
        return np.ascontiguousarray(kernel(X, Z))
    left, right = scaled_points(X, Z, shape.length_scale)
    K = np.empty((len(X), len(Z)))
    radial.radial_rows(code, np.ascontiguousarray(right.T), left, K)
    if constant is not None:
        K *= float(constant.constant_value)
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
    constant, shape, code = _radial_part(kernel)
    if code is None:
        K, pullback = matrix_and_pullback(kernel, X)
        return K, lambda G: pullback(mirrored(G))
    scaled, _ = scaled_points(X, None, shape.length_scale)
    K, W = np.empty((2, len(X), len(X)))
    amplitude = 1.0 if constant is None else float(constant.constant_value)
    radial.radial_triangle(code, amplitude, scaled, K, W)

    def slopes(G: Array) -> Array:
        free = constant and not constant.hyperparameter_constant_value.fixed
        parts = [inner_product(G, K)] if free else []
        if not shape.hyperparameter_length_scale.fixed:
            by_input = triangle_slopes(G, W, scaled)
            parts.extend(by_input if shape.anisotropic else [by_input.sum()])
        return np.array(parts)

    return K, slopes


def _radial_part(kernel: Any) -> tuple[Any, Any, int | None]:
    """Constant (or None) and kernel of which a kernel is the product; its code."""
    constant, shape = None, kernel
    if type(kernel) is Product and type(kernel.k1) is ConstantKernel:
        constant, shape = kernel.k1, kernel.k2
    code_of = record_of(shape).radial_code
    return constant, shape, None if code_of is None else code_of(shape)


# ---- Kernel matrices and their derivatives in reverse mode ---------------------------


_BLOCK = 256


def matrix_and_pullback(
    kernel: Any, X: Array, Y: Array | None = None
) -> tuple[Array, Pullback]:
    """Kernel matrix and the function that maps its cotangent to theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel; those without a registered rule go through scikit-learn's
        ``eval_gradient`` on stacked blocks.
    X : ndarray of shape (n, d)
        Left points.
    Y : ndarray of shape (m, d), optional
        Right points. None means X; a WhiteKernel then contributes to the diagonal,
        as in scikit-learn.

    Returns
    -------
    K : ndarray of shape (n, m)
        The kernel matrix. Between two sets of points with six or more columns
        distances come from a matrix product: entries agree with
        ``kernel(X, Y)`` to a relative 1e-10.
    pullback : callable
        ``pullback(G)`` with ``G`` (n, m) returns ``sum_ij G_ij dK_ij / dtheta``,
        shape (n_theta,), in the order of ``kernel.theta`` (logarithms, free ones).

    Notes
    -----
    Registered kernels cost O(n m d) for ``K`` and again for each pullback, without
    an (n, m, n_theta) array.
    """
    rule = record_of(kernel).pullback or _blockwise
    K, pullback = rule(kernel, X, Y)
    n, m = X.shape[0], X.shape[0] if Y is None else Y.shape[0]
    if K.shape != (n, m) or 0 in K.strides:
        K = np.array(np.broadcast_to(K, (n, m)))
    return K, pullback


def diagonal_and_pullback(kernel: Any, X: Array) -> tuple[Array, Pullback]:
    """Diagonal of the kernel matrix and the map of its cotangent to theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)

    Returns
    -------
    diagonal : ndarray of shape (n,)
        Prior variances ``k(x_i, x_i)``.
    pullback : callable
        ``pullback(g)`` with ``g`` (n,) returns ``sum_i g_i dk(x_i, x_i)/dtheta``.
    """
    rule = record_of(kernel).diagonal_pullback or _blockwise_diagonal
    return rule(kernel, X)


def inducing_and_pullback(
    kernel: Any, X: Array, Z: Array
) -> tuple[InducingKernels, InducingPullback]:
    """Kernel at inducing points and at the data, with one common pullback.

    The same as two calls of :func:`matrix_and_pullback` and one of
    :func:`diagonal_and_pullback`; a GREKernel evaluates its sections only once.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel, without white noise.
    X : ndarray of shape (n, d)
        Data.
    Z : ndarray of shape (m, d)
        Inducing points.

    Returns
    -------
    kernels : InducingKernels
        ``k(X, Z)``, ``k(Z, Z)`` and the diagonal of ``k(X, X)``.
    pullback : callable
        ``pullback(G_cross, G_inducing, g)`` with the cotangents of the three
        returns their joint gradient in ``kernel.theta``, shape (n_theta,).
    """
    rule = record_of(kernel).inducing_pullback or _inducing_from_parts
    return rule(kernel, X, Z)


def matrix_and_input_pullback(
    kernel: Any, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    """Kernel matrix ``k(X, Z)`` and the map of its cotangent to the inputs X.

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
    pullback : callable
        ``pullback(G)`` with ``G`` (n, m) is ``Σ_j G_ij ∇ₓ k(x_i, z_j)``, shape (n, d).

    Raises
    ------
    ValueError
        If a kernel has no rule.
    """
    rule = record_of(kernel).input_gradient
    if rule is None:
        raise ValueError(
            f"The gradient of {kernel!r} in its inputs is not known. Register it with "
            f"skgpx.kernels.register_kernel({type(kernel).__name__}, "
            "input_gradient=...)."
        )
    return rule(kernel, X, Z)


def cross_gradient(kernel: Any, X: Array, Y: Array) -> Array:
    """Gradient of ``kernel(X, Y)``, shape (n, m, n_theta), by scikit-learn's rules.

    Evaluates ``eval_gradient`` on stacked blocks: about four times the cost of a
    direct formula, for any kernel at all.
    """
    gradient = np.empty((X.shape[0], Y.shape[0], kernel.n_dims))
    for rows in _blocks(X.shape[0]):
        for columns in _blocks(Y.shape[0]):
            gradient[rows, columns] = _stacked(kernel, X[rows], Y[columns])
    return gradient


def _inducing_from_parts(
    kernel: Any, X: Array, Z: Array
) -> tuple[InducingKernels, InducingPullback]:
    """Rule for kernels whose three matrices share no work."""
    cross, pullback_cross = matrix_and_pullback(kernel, X, Z)
    inducing, pullback_inducing = matrix_and_pullback(kernel, Z)
    diagonal, pullback_diagonal = diagonal_and_pullback(kernel, X)

    def pullback(G_cross: Array, G_inducing: Array, g: Array) -> Array:
        total = pullback_cross(G_cross) + pullback_inducing(G_inducing)
        return total + pullback_diagonal(g)

    return InducingKernels(cross, inducing, diagonal), pullback


def _stacked(kernel: Any, X: Array, Y: Array) -> Array:
    n = X.shape[0]
    gradient: Array = kernel(np.concatenate((X, Y)), eval_gradient=True)[1]
    return gradient[:n, n:]


def _blocks(n: int) -> list[slice]:
    return [slice(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]


def _blockwise(kernel: Any, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    """Rule for kernels without one of their own."""
    right = X if Y is None else Y

    def block(rows: slice, columns: slice) -> Array:
        if Y is None and rows == columns:
            gradient: Array = kernel(X[rows], eval_gradient=True)[1]
            return gradient
        return _stacked(kernel, X[rows], right[columns])

    def pullback(G: Array) -> Array:
        total = np.zeros(kernel.n_dims)
        for rows in _blocks(X.shape[0]):
            for columns in _blocks(right.shape[0]):
                gradient = block(rows, columns)
                total += np.einsum("ij,ijp->p", G[rows, columns], gradient)
        return total

    return kernel(X, Y), pullback


def _blockwise_diagonal(kernel: Any, X: Array) -> tuple[Array, Pullback]:
    """Diagonal rule for kernels without one of their own."""

    def pullback(g: Array) -> Array:
        total = np.zeros(kernel.n_dims)
        for rows in _blocks(X.shape[0]):
            gradient = kernel(X[rows], eval_gradient=True)[1]
            total += np.einsum("i,iip->p", g[rows], gradient)
        return total

    return kernel.diag(X), pullback
