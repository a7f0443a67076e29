"""Linear systems of a kernel matrix plus noise, by block conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose

Array = NDArray[np.float64]

# Products after which the residual is computed again, in double precision.
_CHECKED = 50
# Most of the recomputed residual that may have been rounding of the recursion.
_DRIFT = 0.3
# Part of a direction that the others leave, below which it is rounding and is left out:
# it would not be conjugate to those before.
_DEPENDENT = 1e-5


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
        Of the values ``K X`` by the last product: root mean square over the rows, in
        the unit of the solver, the largest of all columns.
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
        Products with K, those in double precision included.
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

    Block conjugate gradients [1]_: each column is the best of the space that the
    residuals of all columns have spanned, and all share one product a step. Directions
    are orthonormal, without those that depend on others. The residual follows from a
    recursion; now and then it is computed again in double precision, and products stay
    in single precision for as long as that does not matter.

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
        Of the solution; None is zero.
    tol : float
        Steps end when the predictions ``K X`` have changed by less than this twice in
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
    size = np.sqrt(np.sum(B**2, axis=0))
    changes: list[float] = []
    converged = stopped = False
    for step in range(1, max_iter + 1):
        change = state.step()
        changes.append(float(change / unit))
        converged = max(changes[-2:]) < tol and len(changes) > 1
        if callback is not None:
            progress = Progress(state.X, state.n_products, changes[-1])
            stopped = callback(progress)
        ended = converged or stopped or step == max_iter
        if ended or step % _CHECKED == 0:
            trusted = state.check()
            # rounding, not the solution, has come to an end
            if converged and not trusted and step < max_iter:
                converged = False
                changes.clear()
                ended = stopped
        if ended:
            break
    residuals = np.sqrt(np.sum(state.true**2, axis=0)) / np.where(size > 0.0, size, 1.0)
    last = changes[-1] if changes else np.inf
    return Solution(state.X, residuals, last, state.n_products, converged)


class _State:
    """Solution, residual and directions of block conjugate gradients."""

    def __init__(
        self,
        product: Product,
        noise: Array,
        precondition: Callable[[Array], Array],
        B: Array,
        start: Array | None,
    ):
        self._product, self._noise = product, noise[:, np.newaxis]
        self._precondition, self._B = precondition, B
        self.X = np.zeros(B.shape) if start is None else start.copy()
        self.n_products, self._exact = 0, False
        self.R = B.copy()
        if start is not None:
            self.R = self._residual()
        self.true, self._checked = self.R, float(np.sum(self.R**2))
        self._P = self._fresh()

    def _fresh(self) -> Array:
        """Directions that remember none before."""
        Z = self._precondition(self.R)
        size = np.sqrt(np.sum(Z**2, axis=0))
        self._weights = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)
        return self._orthonormal(Z)

    def _orthonormal(self, directions: Array) -> Array:
        """Orthonormal basis of directions, relative to those of the beginning."""
        weighted = directions * self._weights
        Q, R, _ = qr(weighted, mode="economic", pivoting=True, check_finite=False)
        left = np.abs(np.diagonal(R))
        kept = left > _DEPENDENT * left.max(initial=0.0)
        independent: Array = np.ascontiguousarray(Q[:, kept])
        return independent

    def _residual(self) -> Array:
        self.n_products += 1
        values = self._product(self.X, exact=True)
        return self._B - values - self._noise * self.X

    def step(self) -> float:
        """Minimise along the directions; how much ``K X`` has changed."""
        P, R = self._P, self.R
        if not P.shape[1]:
            return 0.0
        values = self._product(P, exact=self._exact)
        self.n_products += 1
        Q = values + self._noise * P
        gram = P.T @ Q
        try:
            L = cholesky(0.5 * (gram + gram.T), jitter=0.0).L
        except np.linalg.LinAlgError:
            # rounding of single precision exceeds the smallest eigenvalues
            self._exact = True
            self.R, self._P = self._residual(), self._fresh()
            return np.inf
        steps = _solved(L, P.T @ R)
        self.X += P @ steps
        R -= Q @ steps
        Z = self._precondition(R)
        self._P = self._orthonormal(Z - P @ _solved(L, Q.T @ Z))
        change = values @ steps
        return float(np.sqrt(np.mean(change**2, axis=0).max()))

    def check(self) -> bool:
        """Compute the residual again; whether nothing more is to be gained.

        The recursion was right, and goes on as it is: with another residual directions
        would lose their conjugacy; or double precision is at its end. Otherwise they
        begin anew, and products are exact from now on unless the residual
        still falls.
        """
        true = self._residual()
        drift = np.sqrt(np.sum((true - self.R) ** 2, axis=0))
        left = np.sqrt(np.sum(true**2, axis=0))
        rounding = 1e-14 * np.sqrt(np.sum(self._B**2, axis=0))
        trusted = bool(np.all(drift <= np.maximum(_DRIFT * left, rounding)))
        self.true, total = true, float(np.sum(true**2))
        was_exact, stalled = self._exact, total > 1e-2 * self._checked
        self._checked = total
        if trusted:
            return True
        self._exact = was_exact or stalled
        self.R = true
        self._P = self._fresh()
        return was_exact and stalled


def _solved(L: Array, B: Array) -> Array:
    """``(L Lᵀ)⁻¹ B``."""
    return solve_lower_transpose(L, solve_lower(L, B))
