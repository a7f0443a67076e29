"""Roots of covariances of variables, and what observations make of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose

Array = NDArray[np.float64]


class WeightRoot(NamedTuple):
    """Root ``[S 0; 0 I] (I - B₁ᵀY₁) (I - B₂ᵀY₂) ...`` of a covariance of variables.

    Attributes
    ----------
    spread : ndarray of shape (m, r)
        ``S``, of the first m variables; nothing is known of the others.
    learned : tuple of (ndarray, ndarray) of shape (p, ·)
        B and Y of each set of observations. What is wider than they are is not
        changed by them.
    """

    spread: Array
    learned: tuple[tuple[Array, Array], ...] = ()

    def times(self, features: Array) -> Array:
        """``features R``: (n, q) to (n, q - m + r)."""
        m = len(self.spread)
        product = np.concatenate((features[:, :m] @ self.spread, features[:, m:]), 1)
        for B, Y in self.learned:
            seen = product[:, : B.shape[1]]
            seen -= (seen @ B.T) @ Y
        return product

    def apply(self, shift: Array) -> Array:
        """``R shift``: (q - m + r, k) to (q, k)."""
        for B, Y in reversed(self.learned):
            seen = shift[: B.shape[1]]
            shift = np.concatenate((seen - B.T @ (Y @ seen), shift[len(seen) :]))
        r = self.spread.shape[1]
        return np.concatenate((self.spread @ shift[:r], shift[r:]))

    @property
    def n_known(self) -> int:
        """Number of variables that something is known of."""
        m, r = self.spread.shape
        return self.learned[-1][0].shape[1] + m - r if self.learned else m

    def dense(self) -> Array:
        """``R`` of the variables that something is known of."""
        return self.times(np.eye(self.n_known)) if self.learned else self.spread

    def after(self, A: Array, noise: Array) -> tuple[WeightRoot, Array, Array]:
        """Root after ``A ξ + ε`` was observed, ξ ~ N(0, I) and ε of variances `noise`.

        With ``B = N^(-1/2) A`` and ``L Lᵀ = I + B Bᵀ``, whose eigenvalues are at least
        one, ``I - Bᵀ Y``, ``Y = L⁻ᵀ (L + I)⁻¹ B``, is a root of the covariance ``(I +
        Bᵀ B)⁻¹`` of what is left of ξ [1]_. Returns B and L, too.

        References
        ----------
        .. [1] Andrews, "A square root formulation of the Kalman covariance equations",
           AIAA Journal, 1968.
        """
        B, unit = A / np.sqrt(noise)[:, np.newaxis], np.eye(len(A))
        L = cholesky(unit + B @ B.T, jitter=0.0).L
        Y = solve_lower_transpose(L, solve_lower(L + unit, B))
        return self._replace(learned=(*self.learned, (B, Y))), B, L


def observe(
    roots: tuple[WeightRoot, ...],
    seen: Array,
    scale: Array,
    discrepancy: Array,
    noise_variance: Array,
    nugget: Array,
) -> tuple[Array, tuple[WeightRoot, ...]]:
    """Observe ``seen v + ε`` of variables v with covariances ``R Rᵀ``.

    Parameters
    ----------
    roots : tuple of WeightRoot
        ``R``, one for each output or one for all.
    seen : ndarray of shape (p, q)
    scale : ndarray of shape (c,)
        Units of the outputs.
    discrepancy : ndarray of shape (p, c, s)
        In the units of the outputs.
    noise_variance, nugget : ndarray of shape (p,)
        In the squared units of the outputs, and of v; their sum is positive.

    Returns
    -------
    moved : ndarray of shape (q, c, s)
        What is added to draws of v, in the units of the outputs.
    roots : tuple of WeightRoot
        Of the covariances that are left.
    """
    p, _, s = discrepancy.shape
    shared = len(roots) == 1 and bool(np.all(scale == scale[0]))
    moves, left = [], []
    for o in range(1 if shared else len(scale)):
        root, noise = roots[o % len(roots)], noise_variance / scale[o] ** 2 + nugget
        outputs = discrepancy if shared else discrepancy[:, o : o + 1]
        after, B, L = root.after(root.times(seen), noise)
        # R Aᵀ (A Aᵀ + N)⁻¹ (y - f)
        scaled = outputs.reshape(p, -1) / np.sqrt(noise)[:, np.newaxis]
        solved = solve_lower_transpose(L, solve_lower(L, scaled))
        moves.append(root.apply(B.T @ solved).reshape(seen.shape[1], -1, s))
        left.append(after)
    return np.concatenate(moves, axis=1), tuple(left)
