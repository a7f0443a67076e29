"""Linear systems of a kernel matrix plus noise, by block conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import qr

from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._types import Array

# Products after which the residual is computed again, in double precision.
_CHECKED = 50


class Product(Protocol):
    """Product ``K V`` of a symmetric matrix (n, n) with vectors (n, k)."""

    def __call__(self, V: Array, exact: bool = False) -> Array:
        """Return it in double precision if `exact`; single precision suffices else."""


class Progress(NamedTuple):
    """How far a solution is after a product.

    Attributes
    ----------
    solution : ndarray of shape (n, k)
    n_products : int
    change : float
        Change of the values ``K X`` by the last product: root mean square over the
        rows, in the unit of the solver, the largest of all columns.
    """

    solution: Array
    n_products: int
    change: float


class Solution(NamedTuple):
    """Approximate solution of ``(K + D) X = B``.

    Attributes
    ----------
    values : ndarray of shape (n, k)
        ``X``.
    residuals : ndarray of shape (k,)
        ``|B - (K + D) X| / |B|`` of each column, in double precision.
    change : float
        See `Progress`.
    n_products : int
        Products with K, including products in double precision.
    converged : bool
    """

    values: Array
    residuals: Array
    change: float
    n_products: int
    converged: bool


def solve(
    product: Product,
    noise: Array,
    precondition: Callable[[Array], Array],
    B: Array,
    start: Array | None = None,
    *,
    tol: float,
    unit: float,
    max_iter: int,
    callback: Callable[[Progress], bool] | None = None,
) -> Solution:
    """Solve ``(K + diag(noise)) X = B`` for all columns of B together.

    Block conjugate gradients [1]_: each column is optimal in the space that the
    residuals of all columns have spanned, and all columns share one product a step.
    Directions are orthonormal; dependent directions are left out. The residual follows
    from a recursion; now and then it is computed again in double precision, and
    products stay in single precision for as long as that does not matter.

    Parameters
    ----------
    product : Product
        Products with K, positive semi-definite.
    noise : ndarray of shape (n,)
        Positive.
    precondition : callable
        Maps (n, k) to the product with a symmetric positive definite matrix that is
        close to the inverse of ``K + diag(noise)``.
    B : ndarray of shape (n, k)
    start : ndarray of shape (n, k), default=None
        First approximation of the solution; None is zero.
    tol : float
        Steps end when the predictions ``K X`` have changed by less than `tol` twice in
        succession: root mean square over the rows, in units of `unit`, all columns.
    unit : float
        Unit of the changes, such as the standard deviation of the noise.
    max_iter : int
        Most steps; at least one.
    callback : callable, default=None
        Called with a `Progress` after each step; True ends the solver.

    Returns
    -------
    solution : Solution

    Notes
    -----
    A step takes one product, one call of `precondition` and O(n k^2) operations.

    References
    ----------
    .. [1] O'Leary, "The block conjugate gradient algorithm and related methods",
       Linear Algebra and its Applications 29, 1980.
    """
    state = _State(product, noise, precondition, B, start)
    changes: list[float] = []
    converged = False
    stopped = False
    for step in range(1, max_iter + 1):
        change = state.step()
        changes.append(float(change / unit))
        converged = len(changes) > 1 and max(changes[-2:]) < tol
        if callback is not None:
            progress = Progress(state.X, state.n_products, changes[-1])
            stopped = callback(progress)
        finished = converged or stopped or step == max_iter
        # the residual in double precision
        if finished or step % _CHECKED == 0:
            trusted = state.check()
            # the steps were small by rounding, not at the solution
            if converged and not trusted and step < max_iter:
                converged = False
                changes.clear()
                finished = stopped
        if finished:
            break
    norms = _column_norms(B)
    residuals = _column_norms(state.residual) / np.where(norms > 0.0, norms, 1.0)
    return Solution(
        values=state.X,
        residuals=residuals,
        change=changes[-1] if changes else np.inf,
        n_products=state.n_products,
        converged=converged,
    )


class _State:
    """Solution, residual and directions of block conjugate gradients.

    Attributes
    ----------
    X, R : ndarray of shape (n, k)
        Solution, and its residual by the recursion.
    residual : ndarray of shape (n, k)
        The residual that was last computed in double precision.
    n_products : int
    """

    def __init__(
        self,
        product: Product,
        noise: Array,
        precondition: Callable[[Array], Array],
        B: Array,
        start: Array | None,
    ):
        self._product = product
        self._noise = noise[:, np.newaxis]
        self._precondition = precondition
        self._B = B
        self._exact = False
        self.n_products = 0
        if start is None:
            self.X = np.zeros(B.shape)
            self.R = B.copy()
        else:
            self.X = start.copy()
            self.R = self._exact_residual()
        self.residual = self.R
        self._checked_square = float(np.sum(self.R**2))
        self._P = self._restart()

    def _restart(self) -> Array:
        """Directions that follow from the residual alone, P = M⁻¹ R."""
        Z = self._precondition(self.R)
        norms = _column_norms(Z)
        self._weights = np.zeros_like(norms)
        np.divide(1.0, norms, out=self._weights, where=norms > 0.0)
        return self._orthonormal(Z)

    def _orthonormal(self, directions: Array) -> Array:
        """Orthonormal basis of directions, in units of their norms at the restart."""
        weighted = directions * self._weights
        Q, R, _ = qr(weighted, mode="economic", pivoting=True, check_finite=False)
        pivots = np.abs(np.diagonal(R))
        # below this fraction a direction is rounding: it would not be conjugate to
        # earlier ones
        is_independent = pivots > 1e-5 * pivots.max(initial=0.0)
        return np.ascontiguousarray(Q[:, is_independent])

    def _exact_residual(self) -> Array:
        """``B - (K + D) X`` in double precision."""
        self.n_products += 1
        values = self._product(self.X, exact=True)
        return self._B - values - self._noise * self.X

    def step(self) -> float:
        """Minimise along the directions.

        Returns
        -------
        change : float
            Root mean square of the change of ``K X`` over the rows, the largest of all
            columns; infinite where directions began anew instead.
        """
        P = self._P
        R = self.R
        if not P.shape[1]:
            return 0.0
        # Q = (K + D) P
        values = self._product(P, exact=self._exact)
        self.n_products += 1
        Q = values + self._noise * P
        gram = P.T @ Q
        try:
            L = cholesky(0.5 * (gram + gram.T), jitter=0.0).L
        except np.linalg.LinAlgError:
            # rounding of single precision exceeds the smallest eigenvalues
            self._exact = True
            self.R = self._exact_residual()
            self._P = self._restart()
            return np.inf
        # α = (PᵀQ)⁻¹ PᵀR,  X ← X + P α,  R ← R - Q α
        alpha = _solve_factored(L, P.T @ R)
        self.X += P @ alpha
        R -= Q @ alpha
        # P ← orthonormal basis of Z - P (PᵀQ)⁻¹ QᵀZ with Z = M⁻¹ R
        Z = self._precondition(R)
        beta = _solve_factored(L, Q.T @ Z)
        self._P = self._orthonormal(Z - P @ beta)
        change = values @ alpha
        mean_squares = np.mean(change**2, axis=0)
        return float(np.sqrt(mean_squares.max()))

    def check(self) -> bool:
        """Compute the residual in double precision, and restart where it has drifted.

        A recursion that was right goes on as it is: with another residual directions
        would lose their conjugacy. Otherwise directions begin anew, and products are
        exact from now on unless the residual still falls.

        Returns
        -------
        trusted : bool
            Whether further steps gain nothing: the recursion was right, or double
            precision is at its end.
        """
        residual = self._exact_residual()
        drift = _column_norms(residual - self.R)
        rounding = 1e-14 * _column_norms(self._B)
        # what rounding of the recursion may cause
        tolerance = np.maximum(0.3 * _column_norms(residual), rounding)
        square = float(np.sum(residual**2))
        stalled = square > 1e-2 * self._checked_square
        self.residual = residual
        self._checked_square = square
        if np.all(drift <= tolerance):
            return True
        was_exact = self._exact
        self._exact = was_exact or stalled
        self.R = residual
        self._P = self._restart()
        return was_exact and stalled


def _column_norms(A: Array) -> Array:
    return np.sqrt(np.sum(A**2, axis=0))


def _solve_factored(L: Array, B: Array) -> Array:
    """``(L Lᵀ)⁻¹ B``."""
    return solve_lower_transpose(L, solve_lower(L, B))
