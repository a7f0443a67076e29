"""The process around a mean: prior, inducing points, posterior, calibration."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import posterior_mean_from, precision_root
from skgpx._numerics.variance_scale import fit_relative_scale, fit_scale
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._selection import SearchRecord, inducing_by_capacity, learn_prior
from skgpx._validation import Rows, row_blocks
from skgpx.bases import Nystroem, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import length_scale_entries
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Least part of the variance of a row that is not explained by the row itself.
_LEAST_FREE = 1e-9
# Lengthscales grow by this factor, at most so many times.
_STRETCH, _MAX_STRETCHES = np.log(1.5), 8


class Process(NamedTuple):
    """Sparse Gaussian process ``f = φ(x)ᵀw + g(x)`` of the standardised y.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    basis : Nystroem
        φ and g.
    posterior : GaussianWeights
        Mean: the regression of y in the basis, in closed form. Covariance: ``(I + ΦᵀΦ /
        σ²)⁻¹``, from which the paper starts, whatever the mean of the variational
        process is.
    record : SearchRecord
    """

    kernel: Any
    noise_variance: float
    basis: Nystroem
    posterior: GaussianWeights
    record: SearchRecord


class HeldOut(NamedTuple):
    """Errors of rows that a mean was not fitted to, and their predicted variances.

    Attributes
    ----------
    errors : ndarray of shape (n,)
    variance : ndarray of shape (n,)
        Of the process at these rows, given all others.
    weights : ndarray of shape (n,)
    """

    errors: Array
    variance: Array
    weights: Array

    def take(self, rows: NDArray[np.bool_]) -> HeldOut:
        """Of some of the rows."""
        return HeldOut(*(values[rows] for values in self))

    def squared_error(self) -> float:
        """Weighted mean of the squared errors; infinite without rows."""
        if not len(self.errors):
            return np.inf
        return float(np.average(self.errors**2, weights=self.weights))

    def scale(self, noise_variance: float) -> float:
        """Variance scale that the errors support."""
        if not len(self.errors):
            return 1.0
        v = self.variance + noise_variance
        return fit_scale(self.errors**2, v, self.weights)

    def relative_scale(self, other: HeldOut, noise_variance: float) -> float:
        """That over the one of another mean at the same rows."""
        if not len(self.errors):
            return 1.0
        v = self.variance + noise_variance
        return fit_relative_scale(self.errors**2, other.errors**2, v, self.weights)

    def gain(self, other: HeldOut, variance_scale: float, noise: float) -> Array:
        """Log density of each row beyond that of another mean, variances being equal.

        In nats, shape (n,).
        """
        v = variance_scale * (self.variance + noise)
        gain: Array = (other.errors**2 - self.errors**2) / (2.0 * v)
        return gain


def fit_process(
    rows: Rows,
    kernel: Any,
    optimizer: str | None,
    noise_variance: float | None,
    n_inducing: int | str,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Process, tuple[Finding, ...]]:
    """Prior by the evidence, inducing points, and regression in their basis.

    Parameters
    ----------
    rows : Rows
        With a standardised y.
    kernel, optimizer, noise_variance, n_inducing
        Of `GWIRegressor`, for the standardised y.
    rng : numpy.random.Generator
    n_jobs : int or None
    """
    search, select = rng.spawn(2)
    m = None if isinstance(n_inducing, str) else min(n_inducing, len(rows.y))
    likelihood = Gaussian(noise_variance).prepare(rows.y, rows.weights)
    how = {"kernel": kernel, "learn": optimizer is not None, "n_inducing": m}
    found = learn_prior(rows, likelihood, search, n_jobs=n_jobs, **how)
    noise = float(found.likelihood.variance(0.0))
    if m is None:
        Z = inducing_by_capacity(rows, found.kernel, noise, "greedy", select)
    else:
        Z = select_inducing("greedy", rows.X, found.kernel, m, select, rows.weights)
    process = regression(rows, found.kernel, noise, Z, found.record, n_jobs)
    return process, found.findings


def regression(
    rows: Rows,
    kernel: Any,
    noise: float,
    Z: Array,
    record: SearchRecord,
    n_jobs: int | None,
) -> Process:
    """Regression in the basis of inducing points, in closed form."""
    basis = Nystroem.from_kernel(kernel, Z)
    statistics = row_statistics(basis, rows, n_jobs)
    # I + ΦᵀΦ / σ² = L Lᵀ
    L = precision_root(statistics.gram, noise)
    mean = posterior_mean_from(statistics, noise, L)[:, np.newaxis]
    root = solve_lower_transpose(L, np.eye(len(L)))[np.newaxis]
    return Process(kernel, noise, basis, GaussianWeights(mean, root), record)


def leave_one_out(process: Process, rows: Rows) -> HeldOut:
    """Errors and variances of the process at each row, given the others.

    Notes
    -----
    With the leverage ``h = ω φᵀSφ / σ²``, S the posterior covariance of the weights,
    the error is ``(y - φᵀw) / (1 - h)`` and the variance ``φᵀSφ / (1 - h) + var g``.
    """
    n, (basis, posterior) = len(rows.y), process[2:4]
    errors, variance = np.empty(n), np.empty(n)
    for block in row_blocks(n, 4 * basis.n_basis):
        features = basis(rows.X[block])
        mean, explained = (values[:, 0, 0] for values in posterior.latent(features))
        leverage = rows.weights[block] * explained / process.noise_variance
        free = np.maximum(1.0 - leverage, _LEAST_FREE)
        errors[block] = (rows.y[block] - mean) / free
        residual = basis.residual_variance(rows.X[block], features)
        variance[block] = explained / free + residual
    return HeldOut(errors, variance, rows.weights)


def calibrate(
    process: Process,
    rows: Rows,
    scale: float,
    squared_error: float,
    stretch: bool,
    n_jobs: int | None,
) -> tuple[Process, float]:
    """Process and noise variance whose variance at the rows is scaled.

    Held-out rows determine variances near the data; far from them the variance stays
    that of the prior. A scale above one is the noise of the mean, at most its mean
    squared error at held-out rows: without noise the variances differ by orders of
    magnitude between rows, and one factor of them all is too large for most. A scale
    below one reduces the noise and, if `stretch`, the variance of the process near the
    data: lengthscales grow, the amplitude does not.
    """
    noise = process.noise_variance
    if scale == 1.0:
        return process, noise
    weights = rows.weights
    near = float(np.average(leave_one_out(process, rows).variance, weights=weights))
    if scale > 1.0:
        added = (scale - 1.0) * (near + noise)
        return process, max(noise, min(noise + added, squared_error))
    if stretch:
        target, Z = scale * near, process.basis.inducing_points
        for _ in range(_MAX_STRETCHES):
            longer = _stretched(process.kernel)
            next_one = regression(rows, longer, noise, Z, process.record, n_jobs)
            errors = leave_one_out(next_one, rows)
            now = float(np.average(errors.variance, weights=weights))
            if not target <= now < near:
                break
            process, near = next_one, now
    return process, scale * noise


def _stretched(kernel: Any) -> Any:
    """The same kernel with longer lengthscales, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += _STRETCH
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
