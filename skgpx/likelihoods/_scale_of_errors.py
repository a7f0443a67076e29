"""The scale of noise, from errors of predictions with known variances."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import row_slices
from skgpx._numerics.scale_evidence import scale_sums
from skgpx._types import Array, ArrayLike
from skgpx.likelihoods._base import Likelihood, Scales, doubles

# Equally spaced nodes for the log scale, in standard deviations: also where an error
# says much more of it than was known before.
_NODES = np.linspace(-5.0, 5.0, 41)
_MASSES = softmax(-0.5 * _NODES**2)
# Least variance given an error, a part of that before it: half the distance of nodes.
_LEAST_SPREAD = (0.5 * (_NODES[1] - _NODES[0])) ** 2
# Numbers in memory for a block of rows, or for mixtures of their noise.
BLOCK = 2_000_000


class Evidence(NamedTuple):
    """What errors say of the location and of the log scale of their noise.

    Attributes
    ----------
    location_noise : ndarray of shape (n,)
        Variance of normal noise under which y moves the mean of the location as far.
    value, value_noise : ndarray of shape (n,)
        Normal observation of f that moves its mean as far, and its variance as much.
    log_density : ndarray of shape (n,)
        Log density of the errors, in nats.
    """

    location_noise: Array
    value: Array
    value_noise: Array
    log_density: Array


class ScaleOfErrors(Likelihood):
    """``e = δ + scale exp(variation f) ε`` with a normal δ of known variance.

    What an error e of a prediction from other rows says of the scale of the noise,
    where δ is the error of the location. The quantity of a row, `known_`, is the
    variance of δ. The noise ε is a mixture of normal distributions around zero, so that
    the density of e is a sum::

        p(e | f) = Σ_k π_k N(e | 0, v + t_k scale² exp(2 variation f))

    Parameters
    ----------
    variation : float
    noise, log_weights : ndarray of shape (k,)
        ``t`` and ``log π``.
    scale : float, default=None
    """

    log_scale = True
    row_quantity = "noise_variance"
    scale_names: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(
        self,
        variation: float,
        noise: Array,
        log_weights: Array,
        scale: float | None = None,
    ) -> None:
        self.variation = variation
        self.noise = noise
        self.log_weights = log_weights
        self.scale = scale

    def starting_scales(
        self,
        y: Array,  # noqa: ARG002
        weights: Array,  # noqa: ARG002
    ) -> Scales:
        """One, in units of the location: errors are smaller."""
        return {"scale": (1.0, 1e-3, 3.0)}

    def _squared_scale(self, f: Array) -> Array:
        """``scale² exp(2 variation f)``."""
        log_scale = np.log(self._scale("scale")) + self.variation * f
        return np.exp(2.0 * np.clip(log_scale, -100.0, 100.0))

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log Σ_k π_k N(e | 0, v + noise_k)``."""
        noise = self._squared_scale(doubles(f))[..., np.newaxis] * self.noise
        of_location = np.asarray(self.known_)[..., np.newaxis]
        # ``log π_k N(e | 0, v + noise_k)``, (n, s, k)
        total = of_location + noise
        square = doubles(y)[..., np.newaxis] ** 2 / total
        log_terms = self.log_weights - 0.5 * (square + np.log(2.0 * np.pi * total))
        return -np.asarray(logsumexp(log_terms, axis=-1))

    def evidence_of(
        self,
        y: Array,
        variance: Array,
        scale_mean: Array,
        scale_variance: Array,
        weights: Array,
    ) -> Evidence:
        """What each error says, where f ~ N(m, s²) before it [1]_.

        Given e the scale has the density ``p(e | f) N(f | m, s²) / p(e)``. With the
        variances ``T = t scale² exp(2 variation f)`` of the noise the location moves
        by the part ``E v / (v + T)`` of e, as under normal noise of variance::

            D = E[T / (v + T)] / E[1 / (v + T)]

        which is the mean of T where the location is uncertain, and its harmonic mean
        where it is certain. The normal observation of f reproduces the mean and the
        variance of that density.

        Parameters
        ----------
        y, variance : ndarray of shape (n,)
            Errors, and variances v of the location.
        scale_mean, scale_variance : ndarray of shape (n,)
        weights : ndarray of shape (n,)
            Errors that each of them stands for. Many of them have at least the Fisher
            information of normal noise.

        References
        ----------
        .. [1] Minka, "Expectation propagation for approximate Bayesian inference", UAI
           2001.
        """
        size = BLOCK // len(_NODES)
        parts = [
            self._evidence_of_block(
                y[block],
                variance[block],
                scale_mean[block],
                scale_variance[block],
                weights[block],
            )
            for block in row_slices(len(y), size)
        ]
        columns = zip(*parts, strict=True)
        return Evidence(*[np.concatenate(column) for column in columns])

    def _evidence_of_block(
        self,
        y: Array,
        variance: Array,
        scale_mean: Array,
        scale_variance: Array,
        weights: Array,
    ) -> Evidence:
        # the density of e, over nodes of f and components of the noise
        std = np.sqrt(scale_variance)
        f = scale_mean[:, np.newaxis] + std[:, np.newaxis] * _NODES
        sums = scale_sums(
            y,
            variance,
            self._squared_scale(f),
            _MASSES,
            self.noise,
            np.exp(self.log_weights),
        )
        # the location
        location_noise = sums.noise_part / sums.precision
        # moments of (f - m) / s given e, and the observation that has the same
        step = sums.shares @ _NODES
        spread = np.maximum(sums.shares @ _NODES**2 - step**2, _LEAST_SPREAD)
        information = 1.0 / spread - 1.0
        # of many equal errors: without curvature their sum would be a step of any size
        fisher = 2.0 * self.variation**2 * scale_variance * sums.squared_noise_part
        # a part of the Fisher information, and at most of the precision before the row:
        # thousands of rows at one place, which add theirs in every round, have no more
        # than this
        least_information = np.clip(1e-2 * fisher, 1e-12, 1e-3)
        information = np.maximum(information, least_information / weights.clip(1.0))
        # equal errors up to which each has the information that it says
        is_many = np.maximum(1.0 - 10.0 / weights.clip(1.0), 0.0)
        information = np.maximum(information, is_many * fisher)
        value_noise = scale_variance / information
        value = scale_mean + std * step * (1.0 + 1.0 / information)
        return Evidence(location_noise, value, value_noise, sums.log_density)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(e)`` of each row given one normal distribution of f, (n,)."""
        y = doubles(y)
        evidence = self.evidence_of(
            y,
            np.asarray(self.known_)[:, 0],
            mixture.mean[:, 0, 0],
            np.broadcast_to(mixture.variance, mixture.mean.shape)[:, 0, 0],
            np.ones(len(y)),
        )
        return evidence.log_density
