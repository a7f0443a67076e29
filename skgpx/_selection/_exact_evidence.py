"""Evidence of an exact Gaussian process on a few rows, with its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import (
    cholesky,
    factorise,
    invert_factorised,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
    subtract_from_square,
)
from skgpx._selection._failing_search import negative_or_hopeless
from skgpx._validation import Rows
from skgpx.kernels import kernel_matrix, triangle_and_pullback
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]


class ExactEvidence:
    """Log marginal likelihood of Gaussian regression in its log-parameters.

    With ``C = k(X, X) + diag(noise_variance / ω)`` and ω the precisions of the rows,
    which are their weights unless more is known of their noise::

        log N(y | 0, C) - ½ Σ [(ω_i - 1) log(2π noise_variance) + log ω_i]

    the second term being what turns a row of noise ``noise_variance / ω`` into ω
    repetitions of it: an integer weight equals that many copies of the row.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without white noise.
    likelihood : Gaussian
        Prepared.
    """

    def __init__(self, rows: Rows, kernel: Any, likelihood: Gaussian):
        self.rows, self.kernel, self.likelihood = rows, kernel, likelihood

    @property
    def theta(self) -> Array:
        """Log-parameters as they are, the kernel's first."""
        return np.concatenate((self.kernel.theta, self.likelihood.theta))

    @property
    def bounds(self) -> Array:
        """Bounds of `theta`, shape (p, 2)."""
        inner = self.kernel.bounds.reshape(-1, 2)
        return np.concatenate((inner, self.likelihood.theta_bounds))

    def at(self, theta: Array) -> tuple[Any, Gaussian]:
        """Kernel and likelihood at log-parameters."""
        p = len(self.kernel.theta)
        likelihood = self.likelihood.with_theta(theta[p:])
        return self.kernel.clone_with_theta(theta[:p]), likelihood

    def value(self, theta: Array) -> float:
        """Evidence in nats; minus infinity where it fails. O(n^3 / 3)."""
        kernel, likelihood = self.at(theta)
        noise_variance = float(likelihood.variance(0.0))
        try:
            K, _ = triangle_and_pullback(kernel, self.rows.X)
            L = _root(K, self.rows, noise_variance)
        except np.linalg.LinAlgError:
            return -np.inf
        half = solve_lower(L, self.rows.y)
        return self._value(L, float(half @ half), noise_variance)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        One factorisation, one inverse and one pullback: O(n^3), memory O(n^2).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the covariance of the rows is not positive definite.
        """
        kernel, likelihood = self.at(theta)
        noise_variance = float(likelihood.variance(0.0))
        y, weights = self.rows.y, self.rows.precisions
        K, pullback = triangle_and_pullback(kernel, self.rows.X)
        L = _root(K, self.rows, noise_variance)
        alpha = solve_lower_transpose(L, solve_lower(L, y))
        value = self._value(L, float(y @ alpha), noise_variance)
        # ∂/∂C = ½ (C⁻¹y yᵀC⁻¹ - C⁻¹), in the memory of L
        slope = L
        invert_factorised(slope)
        subtract_from_square(slope, alpha)
        gradient = pullback(slope)
        if len(likelihood.theta):
            # C_ii holds σ²/ω, and -½ Σ(ω - 1) log σ² stands beside
            noise = noise_variance * float(np.sum(np.diagonal(slope) / weights))
            gradient = np.append(gradient, noise - 0.5 * float(np.sum(weights - 1.0)))
        return value, gradient

    def _value(self, L: Array, misfit: float, noise_variance: float) -> float:
        weights = self.rows.precisions
        log_volume = log_determinant(L) + len(L) * np.log(2.0 * np.pi)
        repeated = np.sum(weights - 1.0) * np.log(2.0 * np.pi * noise_variance)
        return -0.5 * float(log_volume + misfit + repeated + np.log(weights).sum())

    def negative(self, theta: Array) -> tuple[float, Array]:
        """Negative evidence and its gradient; a large number where it fails."""
        return negative_or_hopeless(self.value_and_gradient, theta)


class Held(NamedTuple):
    """Predictive law of a Gaussian process at rows it has not seen.

    Attributes
    ----------
    mean, variance : ndarray of shape (n,)
        Of y, noise included.
    """

    mean: Array
    variance: Array


def held_out(kernel: Any, noise_variance: float, rows: Rows, X: Array) -> Held:
    """Predict other rows from a few, exactly; O(n^3 + n^2 n_other)."""
    L = _root(triangle_and_pullback(kernel, rows.X)[0], rows, noise_variance)
    cross = solve_lower(L, kernel_matrix(kernel, rows.X, X))
    mean = cross.T @ solve_lower(L, rows.y)
    explained = np.einsum("ij,ij->j", cross, cross)
    variance = np.maximum(kernel.diag(X) - explained, 0.0) + noise_variance
    return Held(mean, variance)


def left_out_means(kernel: Any, noise_variance: float, rows: Rows) -> Array:
    """At each row, the mean of a Gaussian process that has seen all others; O(n^3).

    ``y - (C⁻¹y) / diag(C⁻¹)`` with the covariance C of y.
    """
    L = _root(triangle_and_pullback(kernel, rows.X)[0], rows, noise_variance)
    alpha = solve_lower_transpose(L, solve_lower(L, rows.y))
    invert_factorised(L)
    misfit: Array = alpha / np.diagonal(L)
    return rows.y - misfit


def held_out_density(
    kernel: Any, noise_variance: float, rows: Rows, other: Rows
) -> float:
    """Weighted mean log predictive density of other rows, in nats a row."""
    law = held_out(kernel, noise_variance, rows, other.X)
    variance = law.variance
    if other.known is not None:
        variance = variance + noise_variance * (other.known - 1.0)
    square = (other.y - law.mean) ** 2 / variance
    density = -0.5 * (square + np.log(2.0 * np.pi * variance))
    return float(np.average(density, weights=other.weights))


def _root(K: Array, rows: Rows, noise_variance: float) -> Array:
    """Lower root of ``K + diag(σ²/ω)``, given the lower triangle of K."""
    C = np.array(K, order="C")
    C[np.diag_indices_from(C)] += noise_variance / rows.precisions
    if not factorise(C):
        # with as much jitter as it takes
        C = np.array(K, order="C")
        C[np.diag_indices_from(C)] += noise_variance / rows.precisions
        return cholesky(C, jitter=0.0).L
    return C
