"""Reverse-mode derivatives of kernel matrices in the kernel's hyperparameters.

``kernel(X, eval_gradient=True)`` of scikit-learn returns an array of shape
(n, n, n_theta) for one set of points. An objective that depends on a kernel matrix
only needs the contraction ``sum_ij G_ij dk(x_i, y_j)/dtheta``, which costs a few
matrix products and works between two sets of points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pullback = Callable[[Array], Array]
Rule = Callable[[Any, Array, Array | None], tuple[Array, Pullback]]
DiagonalRule = Callable[[Any, Array], tuple[Array, Pullback]]


class InducingKernels(NamedTuple):
    """What an objective with inducing points needs of a kernel.

    Attributes
    ----------
    cross : ndarray of shape (n, m)
        ``k(X, Z)``.
    inducing : ndarray of shape (m, m)
        ``k(Z, Z)``.
    diagonal : ndarray of shape (n,)
        ``k(x_i, x_i)``.
    """

    cross: Array
    inducing: Array
    diagonal: Array


InducingPullback = Callable[[Array, Array, Array], Array]
InducingRule = Callable[[Any, Array, Array], tuple[InducingKernels, InducingPullback]]

_RULES: dict[type, Rule] = {}
_INDUCING_RULES: dict[type, InducingRule] = {}
_DIAGONAL_RULES: dict[type, DiagonalRule] = {}
_BLOCK = 256


def register_pullback(*kernel_types: type) -> Callable[[Rule], Rule]:
    """Register ``rule(kernel, X, Y) -> (K, pullback)`` for these exact types.

    Exact, because a subclass (as ``Matern`` is one of ``RBF``) has another formula.
    The rule must treat the array handed to ``pullback`` as read-only, and may
    return ``K`` as any array that broadcasts to (n, m).
    """

    def enrol(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kernel_types, rule))
        return rule

    return enrol


def register_diagonal_pullback(
    *kernel_types: type,
) -> Callable[[DiagonalRule], DiagonalRule]:
    """Register ``rule(kernel, X) -> (diagonal, pullback)`` for these exact types."""

    def enrol(rule: DiagonalRule) -> DiagonalRule:
        _DIAGONAL_RULES.update(dict.fromkeys(kernel_types, rule))
        return rule

    return enrol


def kernel_with_pullback(
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
        Right points. None means X, and then a WhiteKernel is on the diagonal, as
        in scikit-learn.

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
    K, pullback = trace_kernel(kernel, X, Y)
    n, m = X.shape[0], X.shape[0] if Y is None else Y.shape[0]
    if K.shape != (n, m) or 0 in K.strides:
        K = np.array(np.broadcast_to(K, (n, m)))
    return K, pullback


def diag_with_pullback(kernel: Any, X: Array) -> tuple[Array, Pullback]:
    """Diagonal of the kernel matrix and the map of its cotangent to theta.

    Returns
    -------
    diagonal : ndarray of shape (n,)
        Prior variances ``k(x_i, x_i)``.
    pullback : callable
        ``pullback(g)`` with ``g`` (n,) returns ``sum_i g_i dk(x_i, x_i)/dtheta``.
    """
    rule = _DIAGONAL_RULES.get(type(kernel), _blockwise_diagonal)
    return rule(kernel, X)


def register_inducing_pullback(
    *kernel_types: type,
) -> Callable[[InducingRule], InducingRule]:
    """Register a rule for :func:`inducing_with_pullback`, where parts share work."""

    def enrol(rule: InducingRule) -> InducingRule:
        _INDUCING_RULES.update(dict.fromkeys(kernel_types, rule))
        return rule

    return enrol


def inducing_with_pullback(
    kernel: Any, X: Array, Z: Array
) -> tuple[InducingKernels, InducingPullback]:
    """Kernel at inducing points and at the data, with one common pullback.

    The same as two calls of :func:`kernel_with_pullback` and one of
    :func:`diag_with_pullback`; a GREKernel evaluates its sections only once.

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
    rule = _INDUCING_RULES.get(type(kernel), _inducing_from_parts)
    return rule(kernel, X, Z)


def _inducing_from_parts(
    kernel: Any, X: Array, Z: Array
) -> tuple[InducingKernels, InducingPullback]:
    cross, pullback_cross = kernel_with_pullback(kernel, X, Z)
    inducing, pullback_inducing = kernel_with_pullback(kernel, Z)
    diagonal, pullback_diagonal = diag_with_pullback(kernel, X)

    def pullback(G_cross: Array, G_inducing: Array, g: Array) -> Array:
        total = pullback_cross(G_cross) + pullback_inducing(G_inducing)
        return total + pullback_diagonal(g)

    return InducingKernels(cross, inducing, diagonal), pullback


def vjp(kernel: Any, X: Array, Y: Array | None, G: Array) -> Array:
    """Sum over pairs of ``G_ij dk(x_i, y_j)/dtheta``, shape (n_theta,).

    Theta are scikit-learn's log-parameters, free ones only, in its order; ``Y``
    None means ``K(X)`` with its white noise. See :func:`kernel_with_pullback`,
    which shares the work with the kernel matrix.
    """
    return trace_kernel(kernel, X, Y)[1](G)


def vjp_diag(kernel: Any, X: Array, g: Array) -> Array:
    """Sum over rows of ``g_i dk(x_i, x_i)/dtheta``, shape (n_theta,)."""
    return diag_with_pullback(kernel, X)[1](g)


def trace_kernel(kernel: Any, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    """Apply the kernel's rule; K may be any array that broadcasts to (n, m)."""
    return _RULES.get(type(kernel), _blockwise)(kernel, X, Y)


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


def _stacked(kernel: Any, X: Array, Y: Array) -> Array:
    n = X.shape[0]
    return kernel(np.concatenate((X, Y)), eval_gradient=True)[1][:n, n:]


def _blocks(n: int) -> list[slice]:
    return [slice(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]


def _blockwise(kernel: Any, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    """Rule for kernels without one of their own."""
    right = X if Y is None else Y

    def block(rows: slice, columns: slice) -> Array:
        if Y is None and rows == columns:
            return kernel(X[rows], eval_gradient=True)[1]
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
