"""Kernel sections ``k(·, Z)`` as features, compiled for the common kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    DotProduct,
    Product,
    Sum,
    WhiteKernel,
)

from skgpx._draws._blocked_products import add_product, panel_size
from skgpx._draws._linear_features import ones, with_ones
from skgpx._draws._terms import LinearTerm
from skgpx._numerics import radial
from skgpx.kernels import GREKernel, matrix_and_input_pullback, record_of

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class KernelSections:
    """``k(X, Z)`` of any kernel, shape (n, m).

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    points : ndarray of shape (m, d)
        Right arguments ``Z``.
    """

    kernel: Any
    points: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.points.shape[1]

    def __call__(self, X: Array) -> Array:
        """Kernel matrix, shape (n, m)."""
        K: Array = self.kernel(X, self.points)
        return K

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        K, pullback = matrix_and_input_pullback(self.kernel, X, self.points)
        G = weights[index]
        return np.einsum("pm,pm->p", K, G), pullback(G)


@dataclass(frozen=True)
class RadialSections:
    """Sections of a kernel of the scaled distance, in compiled loops.

    Parameters
    ----------
    code : int
        A constant of :mod:`skgpx._numerics.radial`.
    parameter : float
        Its parameter, if it has one.
    length_scale : ndarray of shape (d,)
    points : ndarray of shape (m, d)
    """

    code: int
    parameter: float
    length_scale: Array
    points: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.points.shape[1]

    @cached_property
    def _origin(self) -> Array:
        # distances between points far from zero then lose no digits
        return self.points.mean(axis=0)

    @cached_property
    def _centres(self) -> Array:
        return self._scaled(self.points)

    @cached_property
    def _centres_by_input(self) -> Array:
        return np.ascontiguousarray(self._centres.T)

    def _scaled(self, X: Array) -> Array:
        return np.ascontiguousarray((X - self._origin) / self.length_scale)

    def _fill(self, points: Array, part: slice, out: Array) -> None:
        radial.radial_rows(self.code, self.parameter, points, self._centres[part], out)

    def __call__(self, X: Array) -> Array:
        """Kernel matrix, shape (n, m)."""
        out = np.empty((len(self.points), len(X)))
        self._fill(np.ascontiguousarray(self._scaled(X).T), slice(None), out)
        return out.T

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (m, k) to out (n, k); O(n m (d + k)) time."""
        scaled = self._scaled(X)
        if weights.shape[1] != 1:
            size = panel_size(weights.shape[1])
            parts = [slice(j, j + size) for j in range(0, len(weights), size)]
            add_product(scaled, [(p, weights[p]) for p in parts], self._fill, out)
            return
        radial.radial_sum(
            self.code, self.parameter, scaled, self._centres,
            np.ascontiguousarray(weights[:, 0]), out[:, 0],
        )  # fmt: skip

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        values, gradients = np.zeros(len(X)), np.zeros(X.shape)
        radial.radial_pairs(
            self.code, self.parameter, self._scaled(X), self._centres_by_input,
            weights, index, values, gradients,
        )  # fmt: skip
        return values, gradients / self.length_scale

    def pair_values(self, X: Array, weights: Array, index: Index) -> Array:
        """Values (p,) of function ``index[i]`` at row i of X."""
        values = np.zeros(len(X))
        radial.radial_pair_values(
            self.code, self.parameter, X, self._origin, self.length_scale,
            self._centres_by_input, weights, index, values,
        )  # fmt: skip
        return values


def check_sections(kernel: Any, X: Array) -> None:
    """Refuse a kernel whose sections ``k(·, x)`` are not finite, at the first row of X.

    Raises
    ------
    ValueError
        If ``kernel(x, x)`` with two arguments is infinite or NaN.
    """
    with np.errstate(all="ignore"):
        value = kernel(X[:1], X[:1])
    if np.all(np.isfinite(value)):
        return
    raise ValueError(
        f"The kernel {kernel!r} is infinite or NaN between equal inputs: neither "
        "predictions nor draws can be computed from it. A Matern of scikit-learn "
        "overflows for nu above 19; use RBF, its limit for large nu, or nu below 10."
    )


def section_terms(kernel: Any, points: Array, weights: Array) -> tuple[LinearTerm, ...]:
    """Terms of the functions ``k(·, Z) weights``.

    Each summand of a kernel becomes a term, constants move into the weights, and linear
    kernels become linear functions. An RBF, a Matern of order 1/2, 3/2 or 5/2 or a
    RationalQuadratic is evaluated by compiled loops.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        A WhiteKernel counts as zero: it is noise at the points.
    points : ndarray of shape (m, d)
    weights : ndarray of shape (m, c, s)

    Returns
    -------
    terms : tuple of LinearTerm
    """
    kind = type(kernel)
    if kind is WhiteKernel:
        return ()
    if kind is Sum:
        first = section_terms(kernel.k1, points, weights)
        return first + section_terms(kernel.k2, points, weights)
    if kind is Product:
        for one, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(one) is ConstantKernel:
                return section_terms(other, points, one.constant_value * weights)
    if kind is ConstantKernel:
        total = kernel.constant_value * weights.sum(axis=0, keepdims=True)
        return (LinearTerm(ones, total),)
    if kind is DotProduct:
        slopes = np.einsum("md,mcs->dcs", points, weights)
        level = kernel.sigma_0**2 * weights.sum(axis=0, keepdims=True)
        return (LinearTerm(with_ones, np.concatenate((slopes, level))),)
    if kind is GREKernel:
        return _gre_terms(kernel, points, weights)
    code_of = record_of(kernel).radial_code
    code = None if code_of is None else code_of(kernel)
    if code is None:
        return (LinearTerm(KernelSections(kernel, points), weights),)
    length_scale = np.full(points.shape[1:], kernel.length_scale, dtype=np.float64)
    features = RadialSections(*code, length_scale, points)
    return (LinearTerm(features, weights),)


def _gre_terms(
    kernel: GREKernel, points: Array, weights: Array
) -> tuple[LinearTerm, ...]:
    """``k(·, S) P k(S, Z) v + b k̄(·, Z) v``."""
    support = np.asarray(kernel.support, dtype=np.float64)
    B = kernel.kernel(support, points) * kernel.masses[:, np.newaxis]
    terms = section_terms(kernel.kernel, support, np.tensordot(B, weights, 1))
    if kernel.background == 0.0:
        return terms
    background = kernel.background_kernel()
    return terms + section_terms(background, points, kernel.background * weights)
