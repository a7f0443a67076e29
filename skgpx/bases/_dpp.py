"""Determinantal point processes of fixed size, for inducing points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]

# Eigenvalues below this fraction of the largest are rounding errors of the dual.
_RANK_TOLERANCE = 1e-14


def log_elementary_symmetric(log_values: Array, k: int) -> Array:
    """Logarithms of the elementary symmetric polynomials of the first j values.

    ``e_l(γ_1..γ_j) = e_l(γ_1..γ_{j-1}) + γ_j e_{l-1}(γ_1..γ_{j-1})``, which over- and
    underflows for k beyond about thirty unless it is done in logarithms.

    Parameters
    ----------
    log_values : ndarray of shape (r,)
    k : int

    Returns
    -------
    table : ndarray of shape (r + 1, k + 1)
        ``table[j, l] = log e_l(γ_1, ..., γ_j)``; -inf where l > j. O(r k).
    """
    table = np.full((len(log_values) + 1, k + 1), -np.inf)
    table[:, 0] = 0.0
    for j, value in enumerate(log_values):
        table[j + 1, 1:] = np.logaddexp(table[j, 1:], value + table[j, :-1])
    return table


def sample_k_dpp(factor: Array, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Exact draw from the k-DPP with kernel ``L = factor factorᵀ``.

    Sets S of k rows have probabilities proportional to ``det L_S``.

    Parameters
    ----------
    factor : ndarray of shape (n, r)
        Any root of the kernel matrix: scaled eigenfunctions, or a Cholesky factor.
    k : int
        Size of the set; less than or equal to n.
    rng : numpy.random.Generator

    Returns
    -------
    chosen : ndarray of shape (min(k, rank),)
        Sorted positions of rows.

    Notes
    -----
    Uses the dual ``C = factorᵀ factor`` of order r [1]_: O(n r^2 + r^3 + n k^2), and
    no matrix of order n. The eigenvectors that take part are drawn with elementary
    symmetric polynomials, computed in logarithms.

    References
    ----------
    .. [1] Kulesza and Taskar, "Determinantal point processes for machine learning",
       Foundations and Trends in Machine Learning, 2012, algorithms 3, 8 and 1.
    """
    values, vectors = linalg.eigh(factor.T @ factor)
    kept = values > _RANK_TOLERANCE * max(float(values[-1]), 0.0)
    values, vectors = values[kept], vectors[:, kept]
    k = min(k, len(values))
    part = _elementary_k_dpp(np.log(values), k, rng)
    # orthonormal columns V = factor U Γ^(-1/2), orthogonalised again against rounding
    V = factor @ (vectors[:, part] / np.sqrt(values[part]))
    V, _ = linalg.qr(V, mode="economic")
    return np.sort(_projection_dpp(V, rng))


def _elementary_k_dpp(
    log_values: Array, k: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw k of the eigenvectors with probability proportional to their product."""
    table = log_elementary_symmetric(log_values, k)
    uniform = rng.random(len(log_values))
    chosen, left = [], k
    for j in range(len(log_values), 0, -1):
        if left == 0:
            break
        # P(j is taken | `left` are to be taken from the first j)
        log_odds = log_values[j - 1] + table[j - 1, left - 1] - table[j, left]
        if np.log(uniform[j - 1]) < log_odds or left == j:
            chosen.append(j - 1)
            left -= 1
    return np.array(chosen[::-1], dtype=np.intp)


def _projection_dpp(V: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw from the DPP of the projection ``V Vᵀ``, V of orthonormal columns (n, k).

    By the chain rule: the next row is i with probability proportional to the remaining
    diagonal entry, and is then projected out (a Cholesky factorisation with random
    pivots).
    """
    n, k = V.shape
    left = np.einsum("ij,ij->i", V, V)
    rows = np.empty((k, n))
    chosen = np.empty(k, dtype=np.intp)
    for step in range(k):
        mass = np.cumsum(left)
        pivot = int(np.searchsorted(mass, rng.random() * mass[-1], side="right"))
        chosen[step] = pivot
        column = V @ V[pivot] - rows[:step, pivot] @ rows[:step]
        rows[step] = column / np.sqrt(left[pivot])
        left = np.maximum(left - rows[step] ** 2, 0.0)
        left[chosen[: step + 1]] = 0.0
    return chosen
