"""Wasserstein distances between normal distributions, with their gradients.

The squared distance between N(m, A) and N(n, B) [1]_::

    W² = |m - n|² + tr A + tr B - 2 tr (A^½ B A^½)^½

With roots ``A = F Fᵀ`` and ``B = H Hᵀ`` the last trace is the nuclear norm of ``Fᵀ H``:
no square roots of eigenvalues, which would lose half of the digits.

References
----------
.. [1] Gelbrich, "On a formula for the L2 Wasserstein metric between measures on
   Euclidean and Hilbert spaces", Mathematische Nachrichten 147, 1990.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import cholesky, solve_lower_transpose

Array = NDArray[np.float64]


class Wasserstein(NamedTuple):
    """Squared distance between two normal distributions, and its derivatives.

    Attributes
    ----------
    squared : float
    means : tuple of two ndarrays of shape (n,)
        Derivatives in the mean of either distribution.
    covariances : tuple of two ndarrays of shape (n, n)
        Derivatives in the covariance of either distribution, symmetric: a small
        symmetric change D changes the distance by ``sum(derivative * D)``.
    """

    squared: float
    means: tuple[Array, Array]
    covariances: tuple[Array, Array]


def wasserstein(m: Array, A: Array, n: Array, B: Array) -> Wasserstein:
    """Squared distance between N(m, A) and N(n, B); O(n^3).

    Parameters
    ----------
    m, n : ndarray of shape (n,)
    A, B : ndarray of shape (n, n)
        Symmetric and positive semi-definite up to rounding; a jitter of 1e-10 of the
        mean variance is added where it is needed, see
        :func:`skgpx._numerics.linalg.cholesky`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If one of them is not positive semi-definite.
    """
    gap = m - n
    F, H = cholesky(A).L, cholesky(B).L
    U, sizes, Vt = np.linalg.svd(F.T @ H)
    squared = float(gap @ gap) + _between(F, H, sizes)
    # the map T of N(0, A) to N(0, B): T = F⁻ᵀ U S Uᵀ F⁻¹, and dW²/dA = I - T
    identity = np.eye(len(gap))
    slopes = (
        identity - _map(F, U, sizes),
        identity - _map(H, Vt.T, sizes),
    )
    return Wasserstein(squared, (2.0 * gap, -2.0 * gap), slopes)


def _between(F: Array, H: Array, sizes: Array) -> float:
    """``|F|² + |H|² - 2 Σ s``, not below zero by rounding."""
    return max(float(np.sum(F**2) + np.sum(H**2) - 2.0 * sizes.sum()), 0.0)


def _map(F: Array, U: Array, sizes: Array) -> Array:
    half = solve_lower_transpose(F, U * np.sqrt(sizes))
    transport: Array = half @ half.T
    return transport


class ProjectedBures(NamedTuple):
    """Distance of a distribution of weights from their prior, and its derivative.

    Attributes
    ----------
    squared : float
    root : ndarray of shape (m, r)
        Derivative in the root of the covariance.
    """

    squared: float
    root: Array


def projected_bures(gram: Array, root: Array) -> ProjectedBures:
    """Squared distance between ``Φw`` under N(0, I) and under N(0, R Rᵀ).

    ``tr G + tr(G R Rᵀ) - 2 |G R|_*`` with ``G = ΦᵀΦ / n``: the squared distance between
    the distributions of the function ``φ(x)ᵀw``, in mean square over the rows. With a
    residual process that both distributions share it bounds that between ``Φw + g``,
    since one way to couple them is to give both the same g.

    Parameters
    ----------
    gram : ndarray of shape (m, m)
        G.
    root : ndarray of shape (m, r)
        R.

    Notes
    -----
    One singular value decomposition of order m.
    """
    GR = gram @ root
    U, sizes, Vt = np.linalg.svd(GR, full_matrices=False)
    squared = np.trace(gram) + np.sum(root * GR) - 2.0 * sizes.sum()
    return ProjectedBures(max(float(squared), 0.0), 2.0 * GR - 2.0 * gram @ (U @ Vt))
