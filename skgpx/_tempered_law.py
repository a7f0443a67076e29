"""Predictive laws whose variance was corrected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from skgpx._predictive_law import Predictive
from skgpx._validation import generator

Array = NDArray[np.float64]


class NormalMoments(Predictive):
    """Independent normal laws with given moments.

    Parameters
    ----------
    mean, variance : ndarray of shape (n_rows,)
        Of y; variances are positive.
    """

    def __init__(self, mean: Array, variance: Array):
        self._mean, self._variance = mean, variance
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,).

        Raises
        ------
        ValueError
            If asked for without noise, of which nothing is known.
        """
        _check_noise(include_noise)
        return self._variance

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        return np.asarray(ndtr(self._standard(y)))

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        return -0.5 * (self._standard(y) ** 2 + np.log(2.0 * np.pi * self._variance))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations, (n_rows, n_samples), independent between the rows."""
        noise = generator(random_state).standard_normal((self.n_rows, n_samples))
        drawn: Array = self._mean[:, np.newaxis] + self._std()[:, np.newaxis] * noise
        return drawn

    def _std(self) -> Array:
        return np.sqrt(self._variance)

    def _standard(self, y: ArrayLike) -> Array:
        standard: Array = (self.targets(y) - self._mean) / self._std()
        return standard

    def _quantiles(self, levels: Array) -> Array:
        return self._mean[:, np.newaxis] + self._std()[:, np.newaxis] * ndtri(levels)


class RescaledDistribution(Predictive):
    """Law of ``m + s (Y - m)``: another, stretched about its mean m.

    Parameters
    ----------
    law : Predictive
        Of Y, continuous.
    mean : ndarray of shape (n_rows,)
        m.
    factor : ndarray of shape (n_rows,)
        s, positive.
    """

    def __init__(self, law: Predictive, mean: Array, factor: Array):
        self.law, self._mean, self._factor = law, mean, factor
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included.

        Raises
        ------
        ValueError
            If asked for without noise.
        """
        _check_noise(include_noise)
        return self._factor**2 * self.law.variance()

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        return self.law.cdf(self._before(y))

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        return self.law.log_density(self._before(y)) - np.log(self._factor)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        return self._after(self.law.sample(n_samples, random_state))

    def _before(self, y: ArrayLike) -> Array:
        before: Array = self._mean + (self.targets(y) - self._mean) / self._factor
        return before

    def _after(self, values: Array) -> Array:
        centre, factor = self._mean[:, np.newaxis], self._factor[:, np.newaxis]
        after: Array = centre + factor * (values - centre)
        return after

    def _quantiles(self, levels: Array) -> Array:
        return self._after(self.law.quantile(levels))


def _check_noise(include_noise: bool) -> None:
    if not include_noise:
        raise ValueError(
            "The variance of a tempered law is that of observations: it was chosen by "
            "errors, which have the noise in them; got include_noise=False."
        )
