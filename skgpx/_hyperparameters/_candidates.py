"""Kernels that compete when none is given, and the coordinates of their search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx._validation import Rows
from skgpx.kernels import GREKernel, default_kernel, length_scale_entries

Array = NDArray[np.float64]

# Variance of the logarithm of a lengthscale, in standard deviations of its column.
_PRIOR_VARIANCE = 3.0
# Mean and variance of the logarithm of the noise variance, in variances of y: its root
# is a third of the spread of y, with 95 % up to a factor of seven. Few rows may
# otherwise take a function with hardly any noise for certain.
_NOISE_MEAN, _NOISE_PRIOR_VARIANCE = -2.0, 4.0
# Smoothness of the families: RBF, Matern 5/2, Matern 3/2.
_FAMILIES = (np.inf, 2.5, 1.5)


@dataclass(frozen=True)
class Candidate:
    """A kernel whose log-parameters are ``offset + ties @ u``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    offset : ndarray of shape (p,)
    ties : ndarray of shape (p, q)
    bounds : ndarray of shape (q, 2)
        Of u.
    prior_mean : ndarray of shape (q,)
        Mean of u under a normal prior of variance 3; NaN where there is none.
    family : float
        Smoothness of the default kernels; NaN for a kernel of the user's.
    """

    kernel: Any
    offset: Array
    ties: Array
    bounds: Array
    prior_mean: Array
    family: float = np.nan

    @classmethod
    def of_kernel(cls, kernel: Any) -> Candidate:
        """The kernel as it is: its own parameters and bounds, no prior."""
        p = len(kernel.theta)
        bounds = kernel.bounds.reshape(-1, 2)
        return cls(kernel, np.zeros(p), np.eye(p), bounds, np.full(p, np.nan))

    @property
    def n_free(self) -> int:
        """Number of coordinates q."""
        return self.ties.shape[1]

    @property
    def is_tied(self) -> bool:
        """Whether several parameters share a coordinate."""
        return self.n_free < len(self.ties)

    def around(self, kernel: Any) -> Candidate:
        """The same coordinates of a kernel with the same parameters."""
        return replace(self, kernel=kernel)

    def coordinates_of(self, kernel: Any) -> Array:
        """Coordinates of such a kernel, the mean of what they share."""
        shares = self.ties / np.sum(self.ties, axis=0)
        u: Array = shares.T @ (kernel.theta - self.offset)
        return u

    def kernel_at(self, u: Array) -> Any:
        """Kernel at the coordinates u, within its bounds."""
        theta = self.offset + self.ties @ u
        if not len(theta):
            return self.kernel
        return self.kernel.clone_with_theta(np.clip(theta, *self.kernel.bounds.T))

    def log_prior(self, u: Array) -> tuple[float, Array]:
        """Log density of the prior up to a constant, and its gradient."""
        off = np.where(np.isnan(self.prior_mean), 0.0, u - self.prior_mean)
        return -0.5 * float(off @ off) / _PRIOR_VARIANCE, -off / _PRIOR_VARIANCE

    def log_noise_prior(self, theta: Array, unit: float) -> tuple[float, Array]:
        """Log density of the prior of the noise (1,) or (0,), and its gradient.

        `unit` is the variance of y.
        """
        if np.all(np.isnan(self.prior_mean)):
            return 0.0, np.zeros_like(theta)
        off = theta - np.log(unit) - _NOISE_MEAN
        slope = -off / _NOISE_PRIOR_VARIANCE
        return 0.5 * float(off @ slope), slope


def default_candidates(
    rows: Rows, families: tuple[float, ...] = _FAMILIES
) -> list[tuple[Candidate, Candidate]]:
    """Kernels that stand for None: one lengthscale, then one a column, of each family.

    "One lengthscale" is in units of the columns' standard deviations. Lengthscales
    have a log-normal prior of location ``√2 + ½ log d`` and scale √3 in these units
    [1]_, which lets them grow with the dimension.

    References
    ----------
    .. [1] Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great
       in high dimensions", ICML 2024.
    """
    plain = default_kernel(rows.X, rows.weights)
    return [_pair(plain, rows.X.shape[1], nu) for nu in families]


def _pair(plain: Any, d: int, nu: float) -> tuple[Candidate, Candidate]:
    """Isotropic and anisotropic candidate; twice the same for one column."""
    kernel = ConstantKernel(1.0, plain.k1.constant_value_bounds) * _shape(plain.k2, nu)
    start = kernel.theta
    # default lengthscales are 2√d standard deviations
    offset = start - np.append(0.0, np.full(d, np.log(2.0 * np.sqrt(d))))
    inner = kernel.bounds - offset[:, np.newaxis]
    location = np.sqrt(2.0) + 0.5 * np.log(d)
    separate = Candidate(
        kernel,
        offset,
        np.eye(d + 1),
        inner,
        np.append(np.nan, np.full(d, location)),
        nu,
    )
    if d == 1:
        return separate, separate
    ties = np.zeros((d + 1, 2))
    ties[0, 0] = ties[1:, 1] = 1.0
    bounds = np.array([inner[0], [inner[1:, 0].max(), inner[1:, 1].min()]])
    tied = Candidate(kernel, offset, ties, bounds, np.array([np.nan, location]), nu)
    return tied, separate


def _shape(rbf: Any, nu: float) -> Any:
    scale, bounds = rbf.length_scale, rbf.length_scale_bounds
    return RBF(scale, bounds) if nu == np.inf else Matern(scale, bounds, nu=nu)


def untied(u: Array, tied: Candidate, separate: Candidate) -> Array:
    """Coordinates of a tied candidate among those of the separate one."""
    return tied.ties @ u if tied is not separate else u


def candidates(kernel: Any, rows: Rows) -> tuple[Candidate, Candidate]:
    """One lengthscale for all columns and one a column; twice the same for one column.

    "One" is in the units of the kernel's own lengthscales, those of the columns. These
    have the log-normal prior of the default candidates of Gaussian regression.
    """
    d, p = rows.X.shape[1], len(kernel.theta)
    entries = [i for one in length_scale_entries(kernel) for i in range(p)[one]]
    offset, mean = kernel.theta.copy(), np.full(p, np.nan)
    # default lengthscales are 2√d standard deviations; those of the background of a GRE
    # kernel are longer by √2
    start = np.log(2.0 * np.sqrt(d))
    offset[entries] -= start
    offset[[i for i in range(p) if i not in entries]] = 0.0
    widened = 0.5 * np.log(2.0) if isinstance(kernel, GREKernel) else 0.0
    mean[entries] = np.sqrt(2.0) + 0.5 * np.log(d) - widened
    inner = kernel.bounds - offset[:, np.newaxis]
    separate = Candidate(kernel, offset, np.eye(p), inner, mean)
    if len(entries) < 2:
        return separate, separate
    ties = np.delete(np.eye(p), entries[1:], axis=1)
    ties[entries, entries[0]] = 1.0
    kept = np.delete(np.arange(p), entries[1:])
    bounds = inner[kept]
    bounds[entries[0]] = inner[entries, 0].max(), inner[entries, 1].min()
    return Candidate(kernel, offset, ties, bounds, mean[kept]), separate
