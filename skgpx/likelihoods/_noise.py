"""Likelihoods ``y = f + noise``: normal mixtures, and noise with a variance by row."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from skgpx._numerics import expectations
from skgpx._numerics.crps import mixture_crps
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quantiles import Cdf, UseOfCdf
from skgpx._numerics.rows import mean_and_spread, weighted_quantiles
from skgpx._types import Array, ArrayLike, Selection
from skgpx.likelihoods._base import Likelihood, RowForm, Scales, doubles


class NormalNoise(Likelihood):
    """Predictive functionals of normal mixtures, the same at every ratio of spreads.

    A normal mixture plus noise that is a normal mixture is a normal mixture: densities
    and probabilities are sums over its components. Quantiles of a single normal have a
    closed form.
    """

    location_scale = True

    def _noise(self) -> tuple[Array, Array, Array]:
        """Shifts, variances and log weights of the components, (k,) each."""
        raise NotImplementedError(self._missing("_noise()"))

    def mean(self, f: ArrayLike) -> Array:
        """Return the latent value itself."""
        return doubles(f)

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """A tenth of the variance of y, from 1e-8 to ten times that variance."""
        return {"noise_variance": variance_start(y, weights)}

    def initial_latent(self, y: ArrayLike) -> Array:
        """Return the observation less the mean of the noise."""
        return doubles(y) - self.mean(0.0)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Moments of the latent mixture plus the moments of the noise."""
        latent_mean, latent_variance = mixture.moments()
        variance = latent_variance + self.variance(latent_mean)
        return self.mean(latent_mean[:, 0]), variance[:, 0]

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """Variance of the latent mixture, shape (n,)."""
        _, variance = mixture.moments()
        return variance[:, 0]

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,)."""
        return expectations.log_density(y, mixture, *self._row_noise(-np.inf))

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        shift, variance, log_weights = self._row_noise(-32.0)
        noise = np.broadcast_to(variance, (len(mixture.mean), len(log_weights)))
        sizes = expectations.condensed_sizes(mixture, noise, log_weights)
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            latent = mixture.rows(rows)
            latent_weights = None
            if size:
                latent, latent_weights = expectations.condense(latent, size)
            cdf = _mixture_cdf(latent, latent_weights, shift, noise[rows], log_weights)
            evaluate(cdf, rows)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q).

        Every p lies strictly between 0 and 1. ``mean + std Φ⁻¹(p)`` where the
        distribution is normal; otherwise a search.
        """
        shift, variance, log_weights = self._row_noise(-np.inf)
        if len(mixture.weights) * len(log_weights) > 1:
            return super().predictive_quantile(p, mixture)
        mean = mixture.mean[:, 0] + shift
        std = np.sqrt(mixture.variance[:, 0] + variance)
        z = ndtri(np.atleast_1d(p))
        return mean + std * z

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,).

        In closed form for a few components, by quadrature for many.
        """
        shift, variance, log_weights = self._row_noise(-32.0)
        if len(mixture.weights) * len(log_weights) > 32:
            return super().predictive_crps(y, mixture)
        # every component of f with every component of the noise, (n, s, k)
        mean = mixture.mean[:, 0, :, np.newaxis] + shift
        latent_variance = mixture.variance[:, 0, :, np.newaxis]
        total_variance = latent_variance + variance[:, np.newaxis]
        std = np.sqrt(np.broadcast_to(total_variance, mean.shape))
        weights = np.outer(mixture.weights, np.exp(log_weights))
        n_rows = len(mean)
        return mixture_crps(
            np.asarray(y),
            mean.reshape(n_rows, -1),
            std.reshape(n_rows, -1),
            weights.ravel(),
        )

    def _row_noise(self, negligible: float) -> tuple[Array, Array, Array]:
        """`_noise` of the rows, variances (n, k) or (1, k), without small weights."""
        shift, variance, log_weights = self._noise()
        large = log_weights > negligible
        variances = np.atleast_2d(self.known_ * variance[large])
        return shift[large], variances, log_weights[large]


def _mixture_cdf(
    mixture: LatentMixture,
    weights: Array | None,
    shift: Array,
    noise: Array,
    log_weights: Array,
) -> Cdf:
    """Distribution function of a mixture plus noise; see :func:`expectations.cdf`."""

    def cdf(y: Array, rows: Selection) -> Array:
        row_weights = None
        if weights is not None:
            row_weights = weights[rows]
        latent = mixture.rows(rows)
        return expectations.cdf(y, latent, shift, noise[rows], log_weights, row_weights)

    return cdf


class NoiseOfRows(NormalNoise):
    """Likelihood ``y = f + noise`` with noise that may have a variance for each row.

    `known_` is this variance in units of the variance of the likelihood, k: ``y / √k``
    given ``f / √k`` follows the likelihood.
    """

    row_quantity: ClassVar[str | None] = "noise_variance"

    @property
    def noise_parameter(self) -> float | None:
        """Variance of the noise (squared scale), None while it is free."""
        raise NotImplementedError

    def with_noise(self, noise_variance: float) -> Self:
        """Copy with this variance of the noise (squared scale), which is not free."""
        raise NotImplementedError

    def row_form(self, y: Array, weights: Array, known: Array | None) -> RowForm:
        """Rows in units of their own noise."""
        if known is None:
            return super().row_form(y, weights, known)
        std = np.sqrt(known)
        return RowForm(
            likelihood=self,
            y=(y.T / std).T,
            weights=weights,
            factor=1.0 / std,
            constant=np.log(std),
        )


class KnownNoise(NamedTuple):
    """Noise variances of rows, relative to a reference for all rows.

    Attributes
    ----------
    reference : float
        Weighted harmonic mean of the variances: with it the precisions ``weight /
        relative`` have the sum of the weights.
    mean : float
        Weighted arithmetic mean: the noise of a row with an unknown noise variance.
    relative : ndarray of shape (n,)
        Variances in units of the reference.
    constant : float
        Excess of the evidence of rows of precision ``weight / relative`` and the noise
        of the reference, ``½ Σ weight log relative``, in nats.
    """

    reference: float
    mean: float
    relative: Array
    constant: float

    @classmethod
    def of(cls, noise_variance: Array, weights: Array) -> KnownNoise:
        """Variances (n,) of rows with these weights, not all zero."""
        total_weight = weights.sum()
        total_precision = np.sum(weights / noise_variance)
        reference = float(total_weight / total_precision)
        mean = float(weights @ noise_variance / total_weight)
        relative = noise_variance / reference
        constant = 0.5 * float(weights @ np.log(relative))
        return cls(
            reference=reference,
            mean=mean,
            relative=relative,
            constant=constant,
        )


# ---- Starts of the estimation of a scale ---------------------------------------------


def variance_start(y: Array, weights: Array) -> tuple[float, float, float]:
    """A tenth of the variance of y, from 1e-8 to ten times that variance.

    For several targets (n, t) the mean of their variances.
    """
    _, spread = mean_and_spread(y, weights, 1e-12)
    stds = np.ravel(spread).tolist()
    variance = sum(std**2 for std in stds) / len(stds)
    return 0.1 * variance, 1e-8 * variance, 10.0 * variance


def robust_location_and_spread(y: Array, weights: Array) -> tuple[float, float]:
    """Median, and standard deviation of a normal distribution with these quartiles.

    Mean and standard deviation where half of the targets are equal.
    """
    low, median, high = weighted_quartiles(y, weights)
    # the quartiles of N(0, 1) are 1.349 apart
    spread = (high - low) / 1.349
    if spread > 1e-12 * np.max(np.abs(y)):
        return median, spread
    mean, std = mean_and_spread(y, weights, 1e-12)
    return float(mean), float(std)


def weighted_quartiles(y: Array, weights: Array) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of y, each one of its values."""
    quartiles = weighted_quantiles(y, weights, [0.25, 0.5, 0.75])
    low, middle, high = quartiles.tolist()
    return low, middle, high
