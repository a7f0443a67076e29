"""Functions given noisy values at the rows: what rows say given all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skgpx._hyperparameters._fixed_point import LatentMoments, NoisyValues
from skgpx._latent import Mean, NeighborModel, ObservedSeries, SeriesModel
from skgpx._shell.validation import Rows
from skgpx._types import Array, Kernel
from skgpx.bases import SeriesBasis


@dataclass(frozen=True)
class Regression:
    """Independent functions, given noisy values of each at the rows.

    Subclasses have a `model`, the posterior of the functions everywhere, and the
    `log_density` of the values, in nats.

    Parameters
    ----------
    values : NoisyValues
        A row of weight ω stands for ω of them.
    noise : ndarray of shape (n, c)
        Variances of the noise of the rows.
    duals, precisions : ndarray of shape (n, c)
        ``C⁻¹ y``, and the diagonal of ``C⁻¹``.
    """

    values: NoisyValues
    noise: Array
    duals: Array
    precisions: Array

    def model(self, mean: Mean | None = None) -> NeighborModel | SeriesModel:
        """Posterior of the functions everywhere."""
        raise NotImplementedError

    @property
    def log_density(self) -> float:
        """Log density of the values, in nats."""
        raise NotImplementedError

    @cached_property
    def given_others(self) -> LatentMoments:
        """Moments at each row, given all observations but one of the row itself."""
        # without all of its observations, from C⁻¹
        without_row = LatentMoments(
            mean=self.values.y - self.duals / self.precisions,
            variance=np.maximum(1.0 / self.precisions - self.noise, 1e-6 * self.noise),
        )
        n_left = np.maximum(self.values.noise / self.noise - 1.0, 0.0)
        return without_row.given(self.values, n_left)

    @property
    def moments(self) -> LatentMoments:
        """Given all observations."""
        # the row itself counts as often as it occurs, at most once more than the others
        omega = self.values.noise / self.noise
        return self.given_others.given(self.values, np.minimum(omega, 1.0))

    @property
    def density_beside_rows(self) -> float:
        """Log density of the values, less those of each row given the others."""
        z, noise = self.values
        mean, variance = self.given_others
        omega = noise / self.noise
        total = variance + noise
        given_others = (z - mean) ** 2 / total + np.log(2.0 * np.pi * total)
        # ω observations of noise D, instead of their mean of noise D / ω
        volumes = np.log(2.0 * np.pi * noise / omega)
        volumes = volumes - omega * np.log(2.0 * np.pi * noise)
        return self.log_density + 0.5 * float(np.sum(omega * given_others + volumes))


@dataclass(frozen=True)
class SeriesRegression(Regression):
    """:class:`Regression` of one function by filter and smoother."""

    observed: ObservedSeries

    def model(self, mean: Mean | None = None) -> SeriesModel:
        """Posterior of the function everywhere."""
        return SeriesModel(self.observed, mean)

    @property
    def log_density(self) -> float:
        """Log density of the values, in nats."""
        return self.model().log_density_of_rows


class SeriesFunction(NamedTuple):
    """A Markov process, before the noise of its values is known.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    rows : Rows
        In the order of time.
    """

    kernel: Kernel
    rows: Rows

    @property
    def weights(self) -> Array:
        """Of the rows, (n, 1)."""
        return self.rows.weights[:, np.newaxis]

    def given(self, values: NoisyValues) -> SeriesRegression:
        """Condition it on noisy values at the rows."""
        # one observation for so many of the same value
        noise = values.noise / self.weights
        basis = SeriesBasis.of(self.kernel)
        observed = ObservedSeries(basis, self.rows.X, values.y, noise)
        (smoothed,) = observed.smoothed
        return SeriesRegression(
            values=values,
            noise=noise,
            duals=smoothed.duals[:, np.newaxis],
            precisions=smoothed.precisions[:, np.newaxis],
            observed=observed,
        )
