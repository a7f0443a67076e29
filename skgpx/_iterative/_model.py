"""Posterior of an exact Gaussian process, by its solutions at all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skgpx._draws import FunctionDraws, section_terms
from skgpx._iterative._product import VarianceCorrection
from skgpx._iterative._sparse import SparsePosterior
from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, ArrayLike, Generator, Kernel


@dataclass(frozen=True)
class PathwiseModel:
    """Distribution of f given all rows, by draws of functions.

    ::

        E f = k(·, X) α                   α   = (K + D)⁻¹ y
        f_j = E f + (g_j - k(·, X) v_j)   v_j = (K + D)⁻¹ (g_j(X) + ε_j)

    with prior draws g_j and draws ε_j of the noise: Matheron's rule. A factor T of
    kernel and noise, which leaves the mean as it is, multiplies variances by T.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    points : ndarray of shape (n, d)
        X.
    coefficients : ndarray of shape (n, c, 1 + s)
        ``α`` and ``v_j`` of each output.
    prior : FunctionDraws
        The s draws g_j of c outputs.
    sparse : SparsePosterior
        Process of the same rows by inducing points.
    correction : VarianceCorrection
    shift, scale : ndarray of shape (c,)
        Units of the outputs.
    variance_scale : float
        ``T``.
    """

    kernel: Kernel
    points: Array
    coefficients: Array
    prior: FunctionDraws
    sparse: SparsePosterior
    correction: VarianceCorrection
    shift: Array
    scale: Array
    variance_scale: float

    @property
    def n_outputs(self) -> int:
        """Number of outputs c."""
        return self.coefficients.shape[1]

    @property
    def n_draws(self) -> int:
        """Number s of draws."""
        return self.coefficients.shape[2] - 1

    @property
    def floats_per_row(self) -> int:
        """Largest number of floats in memory for the prediction of one row."""
        values = 120 + 4 * (1 + self.n_draws)
        return self.sparse.floats_per_row + self.n_outputs * values

    @cached_property
    def _sections(self) -> FunctionDraws:
        terms = section_terms(self.kernel, self.points, self.coefficients)
        return FunctionDraws(terms, self.n_outputs, 1 + self.n_draws)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def _moments(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean (n, c), variance (n,), and draws around the mean (n, c s), in own units.

        Outputs have the same variance, which all their draws estimate.
        """
        # k(·, X) α, and k(·, X) v_j
        values = self._sections.values(X)
        mean = values[:, :, 0]
        # f_j - E f = g_j - k(·, X) v_j
        errors = self.prior.values(X) - values[:, :, 1:]
        errors = errors.reshape(len(X), -1)
        h, r = self.sparse.spread(X)
        variance = self.correction(
            h,
            r,
            self.kernel.diag(X),
            square=np.mean(errors**2, axis=1),
        )
        return mean, self.variance_scale * variance, errors

    def marginals(self, X: Array) -> LatentMixture:
        """Normal distribution of f at each row of X (n, d)."""
        mean, variance, _ = self._moments(X)
        mean = self.shift + self.scale * mean
        variance = variance[:, np.newaxis] * self.scale**2
        return LatentMixture(
            mean[:, :, np.newaxis],
            variance[:, :, np.newaxis],
            np.ones(1),
        )

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output of f between the rows of X, (n, n).

        The variances of :meth:`marginals`, with the correlations of the sparse process
        where it has those of the exact one, and otherwise with those of the draws.
        """
        _, variance, errors = self._moments(X)
        if self.sparse.has_correlations:
            covariance = self.sparse.covariance(X)
        else:
            covariance = errors @ errors.T
        # correlations of this process, standard deviations of the exact one
        diagonal = np.maximum(np.diag(covariance), 1e-300)
        ratio = np.sqrt(variance / diagonal)
        covariance = ratio[:, np.newaxis] * covariance * ratio
        covariance[np.diag_indices_from(covariance)] = variance
        return covariance * self.scale[output] ** 2

    def draw(self, size: int, rng: Generator) -> FunctionDraws:
        """Choose `size` of the draws of f, at random, as functions.

        Raises
        ------
        ValueError
            If the model has fewer draws.
        """
        if size > self.n_draws:
            raise ValueError(
                f"At most n_draws={self.n_draws} functions can be drawn: they are "
                f"solved for in fit; got {size}. Fit with a larger n_draws."
            )
        chosen = rng.permutation(self.n_draws)[:size]
        # f_j = √T g_j + k(·, X) (α - √T v_j)
        root = np.sqrt(self.variance_scale)
        alpha = self.coefficients[:, :, :1]
        v = self.coefficients[:, :, 1 + chosen]
        terms = section_terms(self.kernel, self.points, alpha - root * v)
        prior = self.prior[chosen].affine(0.0, root)
        return prior.plus(terms).affine(self.shift, self.scale)

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> PathwiseModel:
        """Distribution of ``shift + scale * f``; numbers, or one each output (c,)."""
        factor = np.asarray(scale, dtype=np.float64)
        level = np.asarray(shift, dtype=np.float64) + factor * self.shift
        return replace(self, shift=level, scale=factor * self.scale)
