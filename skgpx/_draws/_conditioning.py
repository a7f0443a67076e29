"""Conditioning drawn functions on values: Matheron's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from skgpx._draws._functions import FunctionDraws
from skgpx._draws._sections import section_terms
from skgpx._draws._terms import LinearTerm
from skgpx._numerics.linalg import cholesky

Array = NDArray[np.float64]

# Least noise variance of an observation, relative to the prior variance: below the
# root of the machine precision, what is left of a known variance is rounding error.
_NUGGET = 1e-8


def condition(
    prior: FunctionDraws,
    kernel: Any,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
) -> FunctionDraws:
    """Matheron's update: draws of the process given its values at some points.

    ::

        (f | f(Z) = v)(·)  =  f(·) + k(·, Z) S (v - f(Z))
                              ----   --------------------
                              prior  one more linear term

    Parameters
    ----------
    prior : FunctionDraws
        Draws ``f`` of the unconditioned process.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Its covariance.
    points : ndarray of shape (m, d)
        Where the values are known.
    values : ndarray broadcastable to (m, c, s), or float
        The values (for noisy observations: minus a draw of their noise).
    solve : callable
        ``S``: maps (m, k) to (m, k), the inverse of ``k(Z, Z)`` plus the variance of
        the noise.

    Returns
    -------
    draws : FunctionDraws
        As many draws as in ``prior``.
    """
    discrepancy = values - prior.values(points)
    m, c, s = discrepancy.shape
    weights = solve(discrepancy.reshape(m, c * s)).reshape(m, c, s)
    return prior.plus(section_terms(kernel, points, weights))


class Process(NamedTuple):
    """Covariance of the process that draws come from, whatever is known of it.

    ``cov(f(x), f(y)) = scale² (k(x, y) - k(x, P) A k(P, y))``: the form of a prior
    (no points), of a Gaussian process given data or inducing variables, and of what
    it becomes when more is observed.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    points : ndarray of shape (q, d)
        ``P``.
    reduction : ndarray of shape (g, q, q)
        ``A``, for each output or (g = 1) for all.
    scale : ndarray of shape (c,)
        Units of the outputs.
    """

    kernel: Any
    points: Array
    reduction: Array
    scale: Array

    @classmethod
    def prior(cls, kernel: Any, n_features: int, n_outputs: int) -> Process:
        """Process about which nothing has been observed."""
        nothing = np.empty((0, n_features))
        return cls(kernel, nothing, np.empty((1, 0, 0)), np.ones(n_outputs))

    def scaled(self, factor: Array) -> Process:
        """Covariance of the functions times a factor for each output."""
        return self._replace(scale=self.scale * np.abs(factor))

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[LinearTerm, ...], Process]:
        """What observing values at X adds to draws, and the process it leaves.

        Parameters
        ----------
        X : ndarray of shape (p, d)
            Where something is observed.
        discrepancy : ndarray of shape (p, c, s)
            Observed values less those of the draws and of their noise.
        noise_variance : ndarray of shape (p,)
            Of the observations, in the squared units of the outputs.

        Notes
        -----
        O(p^3 + p q (p + q)) time for each distinct scale of the outputs.
        """
        c = len(self.scale)
        shared = len(self.reduction) == 1 and np.all(self.scale == self.scale[0])
        weights, reductions = [], []
        for o in range(1 if shared else c):
            outputs = slice(None) if shared else slice(o, o + 1)
            A = self.reduction[o % len(self.reduction)]
            known = noise_variance / self.scale[o] ** 2
            w, A = self._update_output(X, A, discrepancy[:, outputs], known)
            weights.append(w)
            reductions.append(A)
        points = np.concatenate((self.points, X))
        terms = section_terms(self.kernel, points, np.concatenate(weights, axis=1))
        return terms, self._replace(points=points, reduction=np.stack(reductions))

    def _update_output(
        self, X: Array, A: Array, discrepancy: Array, noise: Array
    ) -> tuple[Array, Array]:
        p, c, s = discrepancy.shape
        B = self.kernel(self.points, X) if len(self.points) else np.empty((0, p))
        AB = A @ B
        C = self.kernel(X, X) - B.T @ AB
        # points that are known already have no variance left to divide by
        C[np.diag_indices(p)] += noise + _NUGGET * self.kernel.diag(X)
        L = cholesky(C).L
        v = cho_solve((L, True), discrepancy.reshape(p, c * s))
        inverse = cho_solve((L, True), np.eye(p))
        ABC = AB @ inverse
        weights = np.concatenate((-AB @ v, v)).reshape(-1, c, s)
        return weights, np.block([[A + ABC @ AB.T, -ABC], [-ABC.T, inverse]])
