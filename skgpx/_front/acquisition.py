"""Expected improvement: how much better than the incumbent an evaluation would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.special import erfcx, log_ndtr

from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, Index

_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
# Standard deviations below the mean from which the asymptotic series of the tail has
# eleven digits.
_FAR_TAIL = -50.0

# Step of central differences in the unit box: balances truncation against rounding.
_STEP = float(np.finfo(np.float64).eps ** (1 / 3))


def log_improvement(z: Array) -> Array:
    """``log h(z)``, ``h(z) = φ(z) + z Φ(z)``, without underflow [1]_, equation (9).

    h is the expected improvement of a standard normal variable over -z.

    References
    ----------
    .. [1] Ament, Daulton, Eriksson, Balandat and Bakshy, "Unexpected improvements to
       expected improvement for Bayesian optimization", NeurIPS 2023.
    """
    z = np.asarray(z, dtype=np.float64)
    log_h = np.empty(z.shape)
    log_density = -0.5 * z**2 - _LOG_ROOT_TWO_PI

    body = z > -1.0
    zb = z[body]
    log_h[body] = np.log(np.exp(log_density[body]) + zb * np.exp(log_ndtr(zb)))

    # h = φ (1 - |z| Φ(z) / φ(z)),  Φ / φ = √(π/2) erfcx(|z| / √2)
    tail = (z <= -1.0) & (z > _FAR_TAIL)
    t = -z[tail]
    ratio = np.sqrt(0.5 * np.pi) * erfcx(t / np.sqrt(2.0))
    log_h[tail] = log_density[tail] + np.log1p(-t * ratio)

    # h = φ / z² (1 - 3 / z² + 15 / z⁴ - 105 / z⁶ + ...)
    far = z <= _FAR_TAIL
    inverse_square = z[far] ** -2.0
    series = inverse_square * (-3.0 + inverse_square * (15.0 - 105.0 * inverse_square))
    log_h[far] = log_density[far] + np.log(inverse_square) + np.log1p(series)
    return log_h


class Posterior(Protocol):
    """Distribution of a function, as the estimators keep it."""

    def marginals(self, X: Array) -> LatentMixture:
        """Distribution of the function at each row of X."""

    def condition(self, X: Array, y: Array, noise_variance: Array) -> Self:
        """Distribution given also noisy values y (p, c) at X (p, d)."""


@dataclass(frozen=True)
class LogExpectedImprovement:
    """Feature map ``x -> -log E[max(b - f(x), 0)]``, to be minimised.

    A mixture has the mean of the improvements of its components, each below an
    incumbent b of its own.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the function f, with one output and s components.
    incumbents : ndarray of shape (s,)
        b, for each component.
    sign : float
        -1 for improvements above the incumbents, of -f.
    smallest_std : float
        Standard deviations are at least this, so that logarithms are finite.
    """

    posterior: Posterior
    incumbents: Array
    sign: float
    smallest_std: float

    @classmethod
    def below_means(
        cls,
        posterior: Posterior,
        rows: Array,
        sign: float,
        unit: float,
    ) -> LogExpectedImprovement:
        """Improvement over the smallest posterior mean at rows (k, d)."""
        means = sign * posterior.marginals(rows).mean[:, 0]
        return cls(posterior, means.min(axis=0), sign, 1e-9 * unit)

    def __call__(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, 1)."""
        mixture = self.posterior.marginals(X)
        mean = self.sign * mixture.mean[:, 0]
        variance = np.broadcast_to(mixture.variance, mixture.mean.shape)[:, 0]
        std = np.maximum(np.sqrt(variance), self.smallest_std)
        # EI = σ h((b - μ) / σ)
        z = (self.incumbents - mean) / std
        logs = np.log(std) + log_improvement(z)
        largest = logs.max(axis=1, keepdims=True)
        mean_of_components = np.exp(logs - largest) @ mixture.weights
        return -(largest + np.log(mean_of_components)[:, np.newaxis])

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d), times ``weights[index]`` (p, 1)."""
        p, d = X.shape
        # rows, and the rows at both ends of the difference of each input, in one call
        steps = _STEP * np.eye(d)
        shifts = np.concatenate((np.zeros((1, d)), steps, -steps))
        rows = (X + shifts[:, np.newaxis]).reshape(-1, d)
        values = self(rows).reshape(2 * d + 1, p)
        slopes = (values[1 : d + 1] - values[d + 1 :]) / (2.0 * _STEP)
        factor = weights[index]
        return values[0] * factor[:, 0], slopes.T * factor
