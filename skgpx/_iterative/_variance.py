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
# Power of the share of the prior variance that is left, by which corrections fade.
_FADE = 16
# Prior standard deviations of the coefficients of the correction; prior mean and
# standard deviation of the squared spread around it.
_WIDTHS, _SPREAD = np.array([1.0, 0.5, 0.5]), (0.04, 0.04)


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
        From which the logarithms of r and h are measured.
    limits : ndarray of shape (2, 2)
        Smallest and largest logarithms, beyond which nothing is extrapolated.
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

        and the two are independent: the one tells v where it exceeds the noise, the
        other where it does not.

        Parameters
        ----------
        h, r, k : ndarray of shape (n,)
            At each row, given the others.
        solutions : ndarray of shape (n, s)
            ``α``.
        errors : ndarray of shape (n, s)
            ``ε``, in units of the standard deviations of the noise.
        noise : ndarray of shape (n,)
        """
        n_draws, left = solutions.shape[1], r > _NONE * k
        nothing = np.zeros(2), np.zeros((2, 2))
        if np.sum(left) < _FEWEST:
            return cls(np.zeros(3), 0.0, n_draws, *nothing)
        h, r, k, noise = h[left], r[left], k[left], noise[left]
        around = np.sqrt(noise)[:, np.newaxis] * errors[left]
        around -= noise[:, np.newaxis] * solutions[left]
        square, square_around = (
            np.mean(values**2, axis=1) for values in (solutions[left], around)
        )
        logs = np.log(np.stack((r, np.maximum(h, 1e-300))))
        limits = np.stack((logs.min(axis=1), logs.max(axis=1)), axis=1)
        empty = cls(np.zeros(3), 0.0, n_draws, logs.mean(axis=1), limits)
        base, table = empty._features(h, r, k)

        def ratios(coefficients: Array) -> tuple[Array, Array, Array, Array]:
            """v and its share of ``v + noise``; mean squares in units of variances."""
            v = np.exp(np.clip(base + table @ coefficients, -60.0, 60.0))
            share = v / (v + noise)
            return v, share, square * (v + noise), square_around / (share * noise)

        def loss(coefficients: Array) -> tuple[float, Array]:
            v, share, ratio, ratio_around = ratios(coefficients)
            nll = ratio - np.log(v + noise) + ratio_around + np.log(share * noise)
            penalty = np.sum((coefficients / _WIDTHS) ** 2)
            value = n_draws * np.sum(nll) + penalty
            slope = share * (ratio - 1.0) - (1.0 - share) * (ratio_around - 1.0)
            slope = n_draws * table.T @ slope
            return 0.5 * float(value), 0.5 * slope + coefficients / _WIDTHS**2

        best = optimize.minimize(loss, np.zeros(3), jac=True, method="BFGS").x
        _, share, ratio, ratio_around = ratios(best)
        # E (ratio - 1)² = 2 / s + share² spread², and likewise for 1 - share
        shares = np.concatenate((share, 1.0 - share))
        deviation = np.concatenate((ratio, ratio_around)) - 1.0
        excess = np.sum(shares**2 * (deviation**2 - 2.0 / n_draws))
        precision, (mean, std) = 0.125 * n_draws**2, _SPREAD
        total = precision * np.sum(shares**4) + std**-2
        spread = (precision * excess + mean / std**2) / total
        return empty._replace(
            coefficients=best,
            spread=float(np.sqrt(max(spread, 0.0))),
        )

    def _features(self, h: Array, r: Array, k: Array) -> tuple[Array, Array]:
        """``log (h + r)`` (n,), and what the coefficients multiply (n, 3)."""
        h, r = np.maximum(h, 1e-300), np.maximum(r, 0.0)
        s = r / (h + r)
        # as far as the rows go, and towards the prior
        seen = np.minimum(1.0, np.exp(self.limits[0, 1]) / np.maximum(r, 1e-300))
        faded = s * seen * np.maximum(1.0 - (r / k) ** _FADE, 0.0)
        logs = np.log(np.stack((np.maximum(r, 1e-300), h), axis=1))
        logs = np.clip(logs, *self.limits.T) - self.centre
        table = faded[:, np.newaxis] * np.column_stack((np.ones(len(s)), logs))
        return np.log(h + r), table

    def __call__(
        self,
        h: Array,
        r: Array,
        k: Array,
        square: Array | None = None,
    ) -> Array:
        """Variances (n,) at rows.

        The corrected variance, and the mean square of the draws around the mean, count
        as their accuracies are.

        Parameters
        ----------
        h, r, k : ndarray of shape (n,)
        square : ndarray of shape (n,), optional
            Mean square of draws around the mean.
        """
        base, table = self._features(h, r, k)
        log_v = base + table @ self.coefficients
        if square is not None:
            of_draws = 2.0 / self.n_draws
            of_correction = self.spread**2
            # the logarithm of a chi-square variable is too small by half its variance
            observed = np.log(np.maximum(square, 1e-300)) + 0.5 * of_draws
            log_v = log_v + of_correction / (of_correction + of_draws) * (
                observed - log_v
            )
        variance: Array = np.minimum(np.exp(log_v), k)
        return variance
