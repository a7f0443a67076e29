"""The basis spanned by kernel sections at inducing points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    KernelProcess,
    condition,
    draw_prior,
)
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.weights import GaussianWeights

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelBasis:
    """Whitened basis ``φ(x) = Aᵀ k(Z, x)`` of kernel sections, ``Aᵀ k(Z, Z) A = I``.

    Its residual is the Gaussian process with covariance ``k(x, x') - φ(x)ᵀφ(x')``.
    """

    kernel: Any
    inducing_points: Array

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance that the basis leaves over, ``var g(x)``, shape (n,).

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        features : ndarray of shape (n, m)
            ``self(X)``.
        """
        # k(x, x) - |φ(x)|², not negative
        explained = np.einsum("ij,ij->i", features, features)
        return np.maximum(self.kernel.diag(X) - explained, 0.0)

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X, shape (n, n).

        Jitter in the whitening only ever adds to it, so it is positive semi-definite
        up to rounding. Parameters as in :meth:`residual_variance`; O(n^2 m).
        """
        # k(X, X) - Φ Φᵀ
        covariance = self.kernel(X) - features @ features.T
        covariance[np.diag_indices(X.shape[0])] = self.residual_variance(X, features)
        return covariance


@dataclass(frozen=True)
class Nystroem(KernelBasis):
    """Whitened Nyström basis: what the values at inducing points tell about f.

    With ``f ~ GP(0, k)`` and ``f(Z) = L w``, ``w ~ N(0, I)``, the process splits
    into two independent parts::

        f(x) = φ(x)ᵀ w + g(x),    φ(x) = L⁻¹ k(Z, x)
               -------   ----
               basis     residual, cov(g) = k(x, x') - φ(x)ᵀ φ(x'), zero at Z

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    inducing_points : ndarray of shape (m, d)
        Points ``Z``, best without near-duplicates.
    root : ndarray of shape (m, m)
        Lower Cholesky factor ``L`` of ``k(Z, Z)`` plus a small jitter.
    jitter : float, default=0.0
        That jitter. ``L w`` is f(Z) plus noise of this variance, which draws of f need
        to know: where ``L⁻¹`` is large it matters.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Nystroem
    >>> Z = np.linspace(0.0, 1.0, 4)[:, None]
    >>> basis = Nystroem.from_kernel(RBF(0.5), Z)
    >>> features = basis(np.array([[0.1], [9.0]]))
    >>> basis.residual_variance(np.array([[0.1], [9.0]]), features).round(3)
    array([0.001, 1.   ])
    """

    root: Array
    jitter: float = 0.0

    @classmethod
    def from_kernel(cls, kernel: Any, inducing_points: Array) -> Nystroem:
        """Build the basis; O(m^3).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the kernel matrix is not positive definite after adding jitter; the
            message names the kernel.
        """
        try:
            root, jitter = cholesky(kernel(inducing_points))
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"The kernel matrix of {kernel!r} at {len(inducing_points)} inducing "
                f"points is not positive definite ({error}): use fewer inducing "
                "points, or a kernel with finite positive parameters."
            ) from error
        return cls(kernel, inducing_points, root, jitter)

    @property
    def n_basis(self) -> int:
        """Number of basis functions ``m``."""
        return self.root.shape[0]

    def process(self, law: GaussianWeights) -> KernelProcess:
        """Law of ``φᵀw + g`` as a process that can be conditioned."""
        mean, spread = law.moments()
        ones = np.ones(mean.shape[1])
        return KernelProcess(self.kernel, self.inducing_points, self.root, spread, ones)

    def __call__(self, X: Array) -> Array:
        """Features ``φ(X)``, shape (n, m); their prior weights are N(0, I)."""
        # φ(X)ᵀ = L⁻¹ k(Z, X)
        return solve_lower(self.root, self.kernel(X, self.inducing_points).T).T

    def draw(
        self, weights: Array, rng: np.random.Generator, **prior: Any
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with these weights and a drawn residual.

        Parameters
        ----------
        weights : ndarray of shape (m, c, s)
            Weights ``w`` of c outputs and s draws.
        rng : numpy.random.Generator
            Source of the residual.
        **prior
            Options of :func:`skgpx.bases.draw_prior`.

        Returns
        -------
        draws : FunctionDraws
            Prior draws (see :func:`skgpx.bases.draw_prior`), conditioned to have the
            values ``L w`` at Z.
        """
        (_, c, s), d = weights.shape, self.inducing_points.shape[1]
        given = Conditioning(self.inducing_points, self.jitter)
        draws = draw_prior(self.kernel, d, c, s, rng, given=given, **prior)
        values = np.tensordot(self.root, weights, 1)
        values -= np.sqrt(self.jitter) * rng.standard_normal(values.shape)
        return condition(draws, self.kernel, self.inducing_points, values, self._solve)

    def _solve(self, values: Array) -> Array:
        """Apply the inverse of ``L Lᵀ`` to (m, k)."""
        return solve_lower_transpose(self.root, solve_lower(self.root, values))
