"""The basis spanned by kernel sections at inducing points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import cholesky
from skgpx.bases._kernel_basis import KernelBasis
from skgpx.kernels import triangle_and_pullback

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Nystroem(KernelBasis):
    """Whitened Nyström basis: projection of f on its values at inducing points.

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
    root : ndarray of shape (m, m), default=None
        Lower Cholesky factor ``L`` of ``k(Z, Z)`` plus a small jitter.
    jitter : float, default=0.0
        That jitter. ``L w`` is f(Z) plus noise of this variance. Draws of f take it
        into account, since it matters where ``L⁻¹`` is large.
    combinations : ndarray of shape (n, m), default=None
        None: the inducing variables are the values at the points.

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
            root, jitter = cholesky(triangle_and_pullback(kernel, inducing_points)[0])
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"The kernel matrix of {kernel!r} at {len(inducing_points)} inducing "
                f"points is not positive definite ({error}): use fewer inducing "
                "points, or a kernel with finite positive parameters."
            ) from error
        return cls(kernel, inducing_points, root, jitter)
