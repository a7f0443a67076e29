"""Empirical spectral features: principal components of the prior at the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from skgpx.bases._kernel_basis import KernelBasis

Array = NDArray[np.float64]

# Eigenvalues below this fraction of the largest are rounding errors.
_RANK_TOLERANCE = 1e-12


@dataclass(frozen=True)
class EmpiricalSpectral(KernelBasis):
    """Whitened basis of the leading eigenvectors of the prior covariance of the data.

    The inducing variables are ``u_j = v_jᵀ f(X)``, where ``k(X, X) = Σ e_j v_j v_jᵀ``::

        φ_j(x) = e_j^(-1/2) k(x, X) v_j

    Of all sets of m linear functionals of the values at the data, these explain most of
    their variance: the posterior is that of kernel principal component regression, with
    the variance of the other components kept.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``.
    inducing_points : ndarray of shape (n, d)
        The inputs X.
    root : ndarray of shape (m, m), default=None
        None: the functions are whitened already.
    jitter : float or ndarray of shape (m,), default=0.0
        Noise variance of the inducing variables.
    combinations : ndarray of shape (n, m), default=None
        ``A = V diag(e)^(-1/2)``, so that ``φ = Aᵀ k(X, ·)``.
    eigenvalues : ndarray of shape (n,), optional
        ``e``, all of them, decreasing; ``e / n`` estimates those of the covariance
        operator.

    References
    ----------
    .. [1] Burt, Rasmussen and van der Wilk, "Rates of convergence for sparse
       variational Gaussian process regression", ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import EmpiricalSpectral
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> basis = EmpiricalSpectral.from_rows(RBF(0.5), X, 4)
    >>> basis(X).shape
    (20, 4)
    >>> float(basis.residual_variance(X, basis(X)).max()) < 0.01
    True
    """

    eigenvalues: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_rows(
        cls, kernel: Any, X: Array, n_basis: int, weights: Array | None = None
    ) -> EmpiricalSpectral:
        """Build the basis on distinct rows; O(n^3) time, O(n^2) memory.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
        X : ndarray of shape (n, d)
        n_basis : int
            Number of features m; fewer if the matrix has no more positive eigenvalues.
        weights : ndarray of shape (n,), optional
            Row weights: a weight of two is the same as repeating the row.
        """
        half = np.ones(len(X)) if weights is None else np.sqrt(weights)
        # repeated rows: the eigenvectors of W^½ k(X, X) W^½
        values, vectors = linalg.eigh(half[:, np.newaxis] * kernel(X) * half)
        values, vectors = values[::-1], vectors[:, ::-1]
        m = min(n_basis, int(np.sum(values > _RANK_TOLERANCE * values[0])))
        whitening = half[:, np.newaxis] * vectors[:, :m] / np.sqrt(values[:m])
        return cls(
            kernel, X, combinations=whitening, eigenvalues=np.maximum(values, 0.0)
        )

    def leading(self, n_basis: int) -> EmpiricalSpectral:
        """Return the basis of the first few of its functions."""
        A = np.asarray(self.combinations)
        return replace(self, combinations=np.ascontiguousarray(A[:, :n_basis]))
