"""Variances of an exact process from those of a sparse one and a few draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize

from skgpx._types import Array

# Prior standard deviations of the coefficients of the correction.
_WIDTHS = np.array([1.0, 0.5, 0.5])
# Prior mean and standard deviation of the squared spread around it.
_SPREAD_MEAN = 0.04
_SPREAD_STD = 0.04
# Smallest variance with a logarithm.
_TINY = 1e-300


class VarianceCorrection(NamedTuple):
    """Maps variances of a sparse process to those of the exact one.

    ::

        log v = log (h + r) + s (1 - (r/k)¹⁶) (β₀ + β₁ log r + β₂ log h)
        s = r / (h + r)

    with the posterior variance h of ``φᵀw``, the variance r that the inducing points
    leave, and the prior variance k. Where r is zero, and far from the data, the sparse
    process has the exact variance.

    Attributes
    ----------
    coefficients : ndarray of shape (3,)
        ``β``.
    spread : float
        Standard deviation of log v around this.
    n_draws : int
    centre : ndarray of shape (2,)
        Origin of the logarithms of r and h.
    limits : ndarray of shape (2, 2)
        Smallest and largest logarithms, beyond which the correction stays constant.
    """

    coefficients: Array
    spread: float
    n_draws: int
    centre: Array
    limits: Array

    @classmethod
    def of(
        cls,
        h: Array,
        r: Array,
        k: Array,
        solutions: Array,
        errors: Array,
        noise: Array,
    ) -> VarianceCorrection:
        """Fit to the variances of the rows, given all others and given all rows.

        Solutions ``α = A⁻¹(f + ε)``, with f from the prior and ε from the noise, have
        the covariance ``A⁻¹``, whose diagonal holds the inverse variances of each
        observation given all others. And ``ε - noise α`` is f around its mean given all
        rows, also the i-th. At row i, with the variance v of f given the others::

            α_i ~ N(0, 1 / (v + noise)),   ε_i - noise α_i ~ N(0, v noise / (v + noise))

        and the two are independent: the first determines v where v exceeds the noise,
        the second where it does not.

        Parameters
        ----------
        h, r, k : ndarray of shape (n,)
            At each row, given the other rows.
        solutions : ndarray of shape (n, s)
            ``α``.
        errors : ndarray of shape (n, s)
            ``ε``, in units of the standard deviations of the noise.
        noise : ndarray of shape (n,)

        Returns
        -------
        correction : VarianceCorrection
        """
        n_draws = solutions.shape[1]
        # residual variances below this fraction of the prior variance count as zero
        has_residual = r > 1e-6 * k
        # rows below which a correction is not estimated
        if np.sum(has_residual) < 50:
            return cls(
                coefficients=np.zeros(3),
                spread=0.0,
                n_draws=n_draws,
                centre=np.zeros(2),
                limits=np.zeros((2, 2)),
            )
        h = h[has_residual]
        r = r[has_residual]
        k = k[has_residual]
        noise = noise[has_residual]
        alpha = solutions[has_residual]
        # ε - noise α
        error = np.sqrt(noise)[:, np.newaxis] * errors[has_residual]
        error -= noise[:, np.newaxis] * alpha
        square = np.mean(alpha**2, axis=1)
        square_error = np.mean(error**2, axis=1)
        logs = np.log(np.stack((r, np.maximum(h, _TINY))))
        correction = cls(
            coefficients=np.zeros(3),
            spread=0.0,
            n_draws=n_draws,
            centre=logs.mean(axis=1),
            limits=np.stack((logs.min(axis=1), logs.max(axis=1)), axis=1),
        )
        base, table = correction._features(h, r, k)

        def moments(beta: Array) -> tuple[Array, Array, Array, Array]:
            v = np.exp(np.clip(base + table @ beta, -60.0, 60.0))
            share = v / (v + noise)
            # mean squares in units of these variances
            ratio = square * (v + noise)
            error_ratio = square_error / (share * noise)
            return v, share, ratio, error_ratio

        def loss(beta: Array) -> tuple[float, Array]:
            """Negative log posterior of β, and its gradient."""
            v, share, ratio, error_ratio = moments(beta)
            nll = ratio - np.log(v + noise) + error_ratio + np.log(share * noise)
            penalty = np.sum((beta / _WIDTHS) ** 2)
            value = n_draws * np.sum(nll) + penalty
            # ∂ nll / ∂ log v
            slope = share * (ratio - 1.0) - (1.0 - share) * (error_ratio - 1.0)
            gradient = 0.5 * (n_draws * table.T @ slope) + beta / _WIDTHS**2
            return 0.5 * float(value), gradient

        beta = optimize.minimize(loss, np.zeros(3), jac=True, method="BFGS").x
        # E (ratio - 1)² = 2 / s + share² spread², and likewise for 1 - share
        _, share, ratio, error_ratio = moments(beta)
        shares = np.concatenate((share, 1.0 - share))
        deviation = np.concatenate((ratio, error_ratio)) - 1.0
        excess = np.sum(shares**2 * (deviation**2 - 2.0 / n_draws))
        # posterior mean of spread², a regression of the excess on share²
        precision = 0.125 * n_draws**2
        total_precision = precision * np.sum(shares**4) + _SPREAD_STD**-2
        moment = precision * excess + _SPREAD_MEAN / _SPREAD_STD**2
        spread = np.sqrt(max(moment / total_precision, 0.0))
        return correction._replace(coefficients=beta, spread=float(spread))

    def _features(self, h: Array, r: Array, k: Array) -> tuple[Array, Array]:
        """``log (h + r)`` (n,), and the factors of the coefficients (n, 3)."""
        h = np.maximum(h, _TINY)
        r = np.maximum(r, 0.0)
        r_positive = np.maximum(r, _TINY)
        total = h + r
        s = r / total
        # the correction fades beyond the largest r of the rows, and towards the prior
        largest_r = np.exp(self.limits[0, 1])
        within_rows = np.minimum(1.0, largest_r / r_positive)
        # power of r/k by which corrections fade
        share_of_prior = (r / k) ** 16
        below_prior = np.maximum(1.0 - share_of_prior, 0.0)
        fading = s * within_rows * below_prior
        # 1, log r and log h within the limits of the rows
        lower, upper = self.limits.T
        logs = np.log(np.stack((r_positive, h), axis=1))
        logs = np.clip(logs, lower, upper)
        logs -= self.centre
        table = np.column_stack((np.ones(len(s)), logs))
        table = fading[:, np.newaxis] * table
        return np.log(total), table

    def __call__(
        self,
        h: Array,
        r: Array,
        k: Array,
        square: Array | None = None,
    ) -> Array:
        """Variances (n,) at rows.

        The corrected variance and the mean square of the draws around the mean are
        averaged on the log scale, weighted by their precisions.

        Parameters
        ----------
        h, r, k : ndarray of shape (n,)
        square : ndarray of shape (n,), optional
            Mean square of draws around the mean.
        """
        base, table = self._features(h, r, k)
        log_v = base + table @ self.coefficients
        if square is not None:
            # variances of the errors of both logarithms
            draw_error = 2.0 / self.n_draws
            correction_error = self.spread**2
            # the logarithm of a chi-square variable is too small by half its variance
            log_square = np.log(np.maximum(square, _TINY)) + 0.5 * draw_error
            gain = correction_error / (correction_error + draw_error)
            log_v = log_v + gain * (log_square - log_v)
        return np.minimum(np.exp(log_v), k)
