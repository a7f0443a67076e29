"""Variances of an exact process from those of a sparse one and a few draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Array = NDArray[np.float64]

# Rows below which a correction is not estimated, and the fraction of the prior variance
# below which what the inducing points leave is none.
_FEWEST, _NONE = 50, 1e-6
# Prior standard deviation of the coefficients of the correction.
_WIDTH = 5.0


class VarianceCorrection(NamedTuple):
    """Maps variances of a sparse process to those of the exact one.

    ::

        log v = log (h + r) + s (β₀ + β₁ log r + β₂ log h),    s = r / (h + r)

    with the posterior variance h of ``φᵀw`` and the variance r that the inducing points
    leave, both in units of the prior variance. Where r is zero the sparse process is
    the exact one.

    Attributes
    ----------
    coefficients : ndarray of shape (3,)
        ``β``.
    spread : float
        Standard deviation of log v around this.
    n_draws : int
    prior : float
        Unit of the variances.
    """

    coefficients: Array
    spread: float
    n_draws: int
    prior: float

    @classmethod
    def of(
        cls, h: Array, r: Array, solutions: Array, noise: Array, prior: float
    ) -> VarianceCorrection:
        """Fit to the leave-one-out variances of the rows.

        Solutions ``A⁻¹(f + ε)``, with f from the prior and ε from the noise, have the
        covariance ``A⁻¹``, whose diagonal holds the inverse variances of each
        observation given all others. So their mean squares times ``v + noise`` are
        chi-square variables, of which all rows give the coefficients.

        Parameters
        ----------
        h, r : ndarray of shape (n,)
            At each row, given the others.
        solutions : ndarray of shape (n, s)
        noise : ndarray of shape (n,)
        prior : float
            Mean prior variance.
        """
        s, left = solutions.shape[1], r > _NONE * prior
        none = cls(np.zeros(3), 0.0, s, prior)
        if np.sum(left) < _FEWEST:
            return none
        base, table = none._features(h[left], r[left])
        square, noise = np.mean(solutions[left] ** 2, axis=1), noise[left]

        def loss(coefficients: Array) -> tuple[float, Array]:
            v = np.exp(np.clip(base + table @ coefficients, -60.0, 60.0))
            ratio = square * (v + noise)
            penalty = np.sum((coefficients / _WIDTH) ** 2)
            value = 0.5 * s * np.sum(ratio - np.log(v + noise)) + 0.5 * penalty
            slope = 0.5 * s * table.T @ ((ratio - 1.0) * v / (v + noise))
            return float(value), slope + coefficients / _WIDTH**2

        best = optimize.minimize(loss, np.zeros(3), jac=True, method="BFGS").x
        v = np.exp(np.clip(base + table @ best, -60.0, 60.0))
        share, ratio = v / (v + noise), square * (v + noise)
        # E (ratio - 1)² = 2 / s + share² spread²
        excess = np.sum(share**2 * ((ratio - 1.0) ** 2 - 2.0 / s))
        spread = np.sqrt(max(excess / np.sum(share**4), 0.0))
        return cls(best, float(spread), s, prior)

    def _features(self, h: Array, r: Array) -> tuple[Array, Array]:
        """``log (h + r)`` (n,), and what the coefficients multiply (n, 3)."""
        smallest = 1e-12 * self.prior
        h, r = np.maximum(h, smallest), np.maximum(r, 0.0)
        s = r / (h + r)
        logs = np.log(np.maximum(r, smallest) / self.prior), np.log(h / self.prior)
        return np.log(h + r), np.column_stack((s, *(s * one for one in logs)))

    def __call__(self, h: Array, r: Array, square: Array, largest: Array) -> Array:
        """Variances (n,) at rows.

        The corrected variance, and the mean square of the draws around the mean, count
        as their accuracies are.

        Parameters
        ----------
        h, r : ndarray of shape (n,)
        square : ndarray of shape (n,)
            Mean square of draws around the mean.
        largest : ndarray of shape (n,)
            Prior variances.
        """
        base, table = self._features(h, r)
        log_v = np.clip(base + table @ self.coefficients, -600.0, 600.0)
        own = 2.0 / self.n_draws
        # no correction is needed where nothing is left
        doubt = (self.spread * table[:, 0]) ** 2
        observed = np.log(np.maximum(square, 1e-300)) + 0.5 * own
        log_v = log_v + doubt / (doubt + own) * (observed - log_v)
        variance: Array = np.minimum(np.exp(log_v), largest)
        return variance
