"""Laplace's evidence of softmax classes whose functions share one covariance.

All classes have the covariance K of the rows. With probabilities p of a row of weight
ω the curvatures are ``W = D - ω p pᵀ``, ``D = ω diag(p)``, and the posterior follows
from one matrix of the rows for each class [1]_:

    E_c = (K + D_c⁻¹)⁻¹,  M = Σ_c E_c,  (K + W⁻¹)⁻¹_ab = δ_ab E_a - E_a M⁻¹ E_b.

References
----------
.. [1] Rasmussen and Williams, "Gaussian processes for machine learning", algorithms 3.3
   and 5.1.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from skgpx._numerics._jit import reduction
from skgpx._numerics.exact_evidence import _FOUR, _ONE, _THREE, _TWO, _ZERO
from skgpx._numerics.laplace import EVIDENCE_TOLERANCE, newton
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._types import Array


class ClassRows(NamedTuple):
    """Rows with their classes.

    Attributes
    ----------
    is_class : ndarray of shape (c, n)
        One where a row is of the class, otherwise zero.
    weights : ndarray of shape (n,)
        ω.
    base : ndarray of shape (c,)
        Means of the functions.
    """

    is_class: Array
    weights: Array
    base: Array


class _Precisions(NamedTuple):
    """``(K + W⁻¹)⁻¹`` by its parts, ``E_c = D_c^½ (I + D_c^½ K D_c^½)⁻¹ D_c^½``.

    Attributes
    ----------
    E : ndarray of shape (c, n, n)
    M : ndarray of shape (n, n)
    L : ndarray of shape (n, n)
        Lower root of M.
    log_volume : float
        ``½ log det(I + K W)``.
    """

    E: Array
    M: Array
    L: Array
    log_volume: float

    def times(self, u: Array) -> Array:
        """``(K + W⁻¹)⁻¹ u`` for u of shape (c, n)."""
        # E_c u_c of each class
        E_u = (self.E @ u[:, :, np.newaxis])[:, :, 0]
        half = solve_lower(self.L, E_u.sum(axis=0))
        M_E_u = solve_lower_transpose(self.L, half)
        return E_u - self.E @ M_E_u


def softmax_evidence(
    rows: ClassRows,
    K: Array,
    start: Array | None = None,
) -> tuple[float, Array, Array]:
    """Evidence in nats, its derivative in K, and α of the mode.

    Parameters
    ----------
    rows : ClassRows
    K : ndarray of shape (n, n)
        Covariance of each function.
    start : ndarray of shape (c, n), optional
        α where the search starts, if that is better than zero.

    Raises
    ------
    numpy.linalg.LinAlgError
        If K is not positive semi-definite.

    Returns
    -------
    value : float
    slope : ndarray of shape (n, n)
        Symmetric.
    alpha : ndarray of shape (c, n)

    Notes
    -----
    O(c n³): a step of Newton's method takes ``(c + 1/3) n³`` multiplications and
    additions, the derivative five to six times ``c n³``.
    """
    # 1 the mode
    K = np.ascontiguousarray(K)
    alpha, p, energy, precisions = _find_mode(rows, K, start)
    value = -energy - precisions.log_volume
    # 2 posterior covariances of the functions at each row, (n, c, c):
    #   S_ab = δ_ab (K - K E_a K) + K E_a M⁻¹ E_b K
    c, n = p.shape
    E, M, L, _ = precisions
    E_K = (E.reshape(c * n, n) @ K).reshape(c, n, n)
    # L⁻¹ [E_1, ..., E_c] and L⁻¹ [E_1 K, ..., E_c K]
    columns = np.concatenate((E, E_K)).transpose(1, 0, 2).reshape(n, 2 * c * n)
    solved = solve_lower(L, columns).reshape(n, 2 * c, n)
    L_E = solved[:, :c].reshape(n * c, n)
    L_E_K = solved[:, c:].transpose(2, 1, 0)
    S = L_E_K @ L_E_K.transpose(0, 2, 1)
    variance = np.diagonal(K) - np.einsum("ij,aji->ai", K, E_K)
    S[:, np.arange(c), np.arange(c)] += variance.T
    # 3 the curvatures depend on f: s = -½ ∂ tr(S W) / ∂f, with
    #   tr(S W) = ω (Σ_a p_a S_aa - pᵀ S p)
    S_p = np.einsum("iab,bi->ai", S, p)
    g = np.diagonal(S, axis1=1, axis2=2).T - 2.0 * S_p
    s = -0.5 * rows.weights * p * (g - np.sum(p * g, axis=0))
    # 4 the mode moves with K by (I + K W)⁻¹, v = (I + W K)⁻¹ s
    v = s - precisions.times(s @ K)
    # ½ α αᵀ - ½ (K + W⁻¹)⁻¹ + ½ (v αᵀ + α vᵀ), summed over the classes
    outer = v.T @ alpha
    explained = L_E.T @ L_E
    slope = 0.5 * (alpha.T @ alpha - M + explained + outer + outer.T)
    return value, slope, alpha


def _find_mode(
    rows: ClassRows,
    K: Array,
    start: Array | None,
) -> tuple[Array, Array, float, _Precisions]:
    """Newton's method in the values of the functions, algorithm 3.3.

    The coordinates are α and K α, ``f = base + K α``. Returns α of the mode, the
    probabilities of the classes, the energy and the precisions there.
    """
    evaluate = partial(_energy_and_probabilities, rows)
    x = np.zeros((2, *rows.is_class.shape))
    if start is not None:
        continuation = np.stack((start, start @ K))
        if evaluate(continuation)[0] < evaluate(x)[0]:
            x = continuation

    def propose(x: Array, p: Array, _: bool) -> tuple[Array, float]:
        alpha, K_alpha = x
        gradient = rows.weights * (p - rows.is_class)
        # α' = b - (K + W⁻¹)⁻¹ K b,  b = W (f - base) - ∇
        W_K_alpha = rows.weights * p * (K_alpha - np.sum(p * K_alpha, axis=0))
        b = W_K_alpha - gradient
        direction = b - _precisions(rows, K, p).times(b @ K) - alpha
        K_direction = direction @ K
        decrement = -float(np.sum(K_direction * (gradient + alpha)))
        return np.stack((direction, K_direction)), decrement

    x, energy, _, _ = newton(x, evaluate, propose, EVIDENCE_TOLERANCE)
    _, p = evaluate(x)
    return x[0], p, energy, _precisions(rows, K, p)


def _energy_and_probabilities(rows: ClassRows, x: Array) -> tuple[float, Array]:
    """``-Σ ω log p(y) + ½ Σ_c αᵀ K α`` at α and K α, and probabilities (c, n)."""
    alpha, K_alpha = x
    f = rows.base[:, np.newaxis] + K_alpha
    f -= f.max(axis=0)
    p = np.exp(f)
    total = p.sum(axis=0)
    p /= total
    nll = np.log(total) - np.sum(rows.is_class * f, axis=0)
    return float(rows.weights @ nll) + 0.5 * float(np.sum(alpha * K_alpha)), p


def _precisions(rows: ClassRows, K: Array, p: Array) -> _Precisions:
    """``E_c`` of each class, and their sum."""
    c, n = p.shape
    E = np.empty((c, n, n))
    # det(I + K W) = Π_c det(I + D_c K) det M / Π ω
    log_determinant = -float(np.sum(np.log(rows.weights)))
    for k, root_D in enumerate(np.sqrt(rows.weights * p)):
        log_determinant += precision(K, root_D, E[k])
    if not np.isfinite(log_determinant):
        raise np.linalg.LinAlgError(f"A covariance of {n} rows is not positive.")
    M = E.sum(axis=0)
    L = cholesky(M, jitter=0.0).L
    log_determinant += 2.0 * float(np.sum(np.log(np.diagonal(L))))
    return _Precisions(E, M, L, 0.5 * log_determinant)


@reduction
def precision(  # noqa: C901, PLR0912, PLR0915
    K: Array,
    root_D: Array,
    E: Array,
) -> float:
    """Write ``E = D^½ (I + D^½ K D^½)⁻¹ D^½``; return ``log det(I + D^½ K D^½)``.

    NaN where that is not positive definite. Below a few hundred rows this is faster
    than calls of LAPACK. One function on purpose, see ``langevin_loop``; indices are
    unsigned, see ``exact_evidence``.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Its upper triangle is read.
    root_D : ndarray of shape (n,)
    E : ndarray of shape (n, n)

    Notes
    -----
    n³ / 2 multiplications and additions.
    """
    n = np.uint64(len(K))
    # entry (i, j) is at stride i + j, from j = i on, with three zeros after each row
    stride = _TWO * n + _THREE
    A = np.zeros((n + _FOUR) * (stride + _ONE))
    row = np.empty(_TWO * n + _FOUR)
    factors = np.empty(n + _FOUR)
    # 1 the rows [B, I], B = I + D^½ K D^½, each from its diagonal entry on
    for i in range(n):
        base = i * stride
        z = root_D[i]
        for j in range(i, n):
            A[base + j] = z * K[i, j] * root_D[j]
        A[base + i] += 1.0
        A[base + n + i] = 1.0
    # 2 elimination, B = UᵀU: they become [U, U⁻ᵀ]. Row i loses multiples of the rows
    #   above it, four at a time; factors beyond row i are zero
    log_determinant = 0.0
    for i in range(n):
        base = i * stride
        for p in range(i):
            factors[p] = A[p * stride + i]
        for p in range(i, i + _FOUR):
            factors[p] = 0.0
        for j in range(i, n + i + _FOUR):
            row[j] = A[base + j]
        for p in range(_ZERO, i, _FOUR):
            stop = n + p + _FOUR
            f0 = factors[p]
            f1 = factors[p + _ONE]
            f2 = factors[p + _TWO]
            f3 = factors[p + _THREE]
            b0 = p * stride
            b1 = b0 + stride
            b2 = b1 + stride
            b3 = b2 + stride
            for j in range(i, stop):
                first = f0 * A[b0 + j] + f1 * A[b1 + j]
                second = f2 * A[b2 + j] + f3 * A[b3 + j]
                row[j] -= first + second
        square = row[i]
        if not square > 0.0:
            return np.nan
        scale = 1.0 / np.sqrt(square)
        for j in range(i, n + i + _ONE):
            A[base + j] = scale * row[j]
        log_determinant += np.log(square)
    # 3 row i of B⁻¹ = U⁻¹ U⁻ᵀ, from its diagonal entry on
    for i in range(n):
        for j in range(i, n):
            row[j] = 0.0
        block = i - i % _FOUR
        for p in range(block, n + _FOUR):
            factors[p] = 0.0
        for p in range(i, n):
            factors[p] = A[p * stride + n + i]
        for p in range(block, n, _FOUR):
            f0 = factors[p]
            f1 = factors[p + _ONE]
            f2 = factors[p + _TWO]
            f3 = factors[p + _THREE]
            b0 = p * stride + n
            b1 = b0 + stride
            b2 = b1 + stride
            b3 = b2 + stride
            stop = min(p + _FOUR, n)
            for j in range(i, stop):
                first = f0 * A[b0 + j] + f1 * A[b1 + j]
                second = f2 * A[b2 + j] + f3 * A[b3 + j]
                row[j] += first + second
        z = root_D[i]
        for j in range(i, n):
            entry = z * row[j] * root_D[j]
            E[i, j] = entry
            E[j, i] = entry
    return log_determinant
