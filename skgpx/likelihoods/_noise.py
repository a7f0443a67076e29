"""Likelihoods ``y = f + noise``: normal mixtures, and what is known of each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from skgpx._numerics import expectations
from skgpx._numerics.crps import mixture_crps
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quantiles import Cdf
from skgpx._numerics.rows import mean_and_spread, weighted_quantiles
from skgpx.likelihoods._base import Likelihood, RowForm

Array = NDArray[np.float64]


class NormalNoise(Likelihood):
    """Predictive functionals of normal mixtures, the same at every ratio of spreads.

    A normal mixture plus noise that is a normal mixture is a normal mixture: densities
    and probabilities are sums over its components. Where a single normal is left,
    quantiles have a closed form.
    """

    location_scale = True

    def _noise(self) -> tuple[Array, Array, Array]:
        """Shifts, variances and log weights of the components, (k,) each."""
        raise NotImplementedError(self._missing("_noise()"))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Return the observation less the mean of the noise."""
        return np.asarray(y, dtype=np.float64) - self.mean(0.0)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Moments of the latent mixture plus those of the noise."""
        mean, variance = mixture.moments()
        return self.mean(mean[:, 0]), (variance + self.variance(mean))[:, 0]

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """Variance of the latent mixture, shape (n,)."""
        return mixture.moments()[1][:, 0]

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,)."""
        return expectations.log_density(y, mixture, *self._row_noise(-np.inf))

    def _by_cdf(
        self,
        evaluate: Callable[[Cdf, Any], None],
        mixture: LatentMixture,
    ) -> None:
        shift, variance, shares = self._row_noise(-32.0)
        noise = np.broadcast_to(variance, (len(mixture.mean), len(shares)))
        sizes = expectations.condensed_sizes(mixture, noise, shares)
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            part, weights = mixture.rows(rows), None
            if size:
                part, weights = expectations.condense(part, size)
            evaluate(_mixture_cdf(part, weights, shift, noise[rows], shares), rows)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q).

        Every p lies strictly between 0 and 1. ``mean + std Φ⁻¹(p)`` where the
        distribution is normal; otherwise a search.
        """
        shift, variance, shares = self._row_noise(-np.inf)
        if len(mixture.weights) * len(shares) > 1:
            return super().predictive_quantile(p, mixture)
        std = np.sqrt(mixture.variance[:, 0] + variance)
        return mixture.mean[:, 0] + shift + std * ndtri(np.atleast_1d(p))

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,).

        In closed form for a few components, by quadrature for many.
        """
        shift, variance, shares = self._row_noise(-32.0)
        if len(mixture.weights) * len(shares) > 32:
            return super().predictive_crps(y, mixture)
        mean = mixture.mean[:, 0, :, np.newaxis] + shift
        total = mixture.variance[:, 0, :, np.newaxis] + variance[:, np.newaxis]
        std = np.sqrt(np.broadcast_to(total, mean.shape)).reshape(len(mean), -1)
        weights = np.outer(mixture.weights, np.exp(shares)).ravel()
        return mixture_crps(np.asarray(y), mean.reshape(len(mean), -1), std, weights)

    def _row_noise(self, negligible: float) -> tuple[Array, Array, Array]:
        """`_noise` of the rows, variances (n, k) or (1, k), without small weights."""
        shift, variance, shares = self._noise()
        kept = shares > negligible
        return shift[kept], np.atleast_2d(self.known_ * variance[kept]), shares[kept]


def _mixture_cdf(
    mixture: LatentMixture,
    weights: Array | None,
    shift: Array,
    noise: Array,
    shares: Array,
) -> Cdf:
    """Distribution function of a mixture plus noise; see :func:`expectations.cdf`."""

    def cdf(y: Array, rows: Any) -> Array:
        own = None if weights is None else weights[rows]
        latent = mixture.rows(rows)
        return expectations.cdf(y, latent, shift, noise[rows], shares, own)

    return cdf


class NoiseOfRows(NormalNoise):
    """Likelihood ``y = f + noise`` whose noise may have a variance for each row.

    `known_` is the variance in units of the likelihood's own, k: ``y / √k`` given ``f /
    √k`` follows the likelihood.
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
        root = np.sqrt(known)
        return RowForm(self, (y.T / root).T, weights, 1.0 / root, np.log(root))


class KnownNoise(NamedTuple):
    """Noise variances of rows, relative to one that stands for all.

    Attributes
    ----------
    reference : float
        Weighted harmonic mean of the variances: with it the precisions ``weight /
        relative`` have the sum of the weights.
    mean : float
        Weighted arithmetic mean: the noise of a row of which nothing is known.
    relative : ndarray of shape (n,)
        Variances in units of the reference.
    constant : float
        By which the evidence of rows of precision ``weight / relative`` and the noise
        of the reference exceeds theirs, ``½ Σ weight log relative``, in nats.
    """

    reference: float
    mean: float
    relative: Array
    constant: float

    @classmethod
    def of(cls, noise_variance: Array, weights: Array) -> KnownNoise:
        """Variances (n,) of rows with these weights, not all zero."""
        total = weights.sum()
        reference = float(total / np.sum(weights / noise_variance))
        relative = noise_variance / reference
        constant = 0.5 * float(weights @ np.log(relative))
        mean = float(weights @ noise_variance / total)
        return cls(reference, mean, relative, constant)


# ---- Where the estimation of a scale starts ------------------------------------------


def variance_start(y: Array, weights: Array) -> tuple[float, float, float]:
    """A tenth of the variance of y, from 1e-8 to ten times that variance.

    Of several targets (n, t) their mean variance.
    """
    std = np.ravel(mean_and_spread(y, weights, 1e-12)[1]).tolist()
    total = sum(one**2 for one in std) / len(std)
    return 0.1 * total, 1e-8 * total, 10.0 * total


def weighted_quartiles(y: Array, weights: Array) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of y, each one of its values."""
    low, middle, high = weighted_quantiles(y, weights, [0.25, 0.5, 0.75]).tolist()
    return low, middle, high
