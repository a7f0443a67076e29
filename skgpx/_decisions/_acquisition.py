"""Expected improvement: how much better than the incumbents an evaluation would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.special import erfcx, log_ndtr, logsumexp

from skgpx._draws import FunctionDraws
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import row_slices
from skgpx._types import Array, Index, Mask

_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
# Standard deviations below the mean from which the asymptotic series of the tail has
# eleven digits.
_FAR_TAIL = -50.0

# Step of central differences in the unit box: balances truncation against rounding.
_STEP = float(np.finfo(np.float64).eps ** (1 / 3))

# Standard deviations, of the values so far, that a drawn function is blurred by: its
# improvement has a slope where there is none.
_BLUR = 1e-3
# Largest value of a point that may be proposed, and the value of one that may not.
_LARGEST = 1e11
_BARRIER = 1e12
# Numbers in memory for the boxes of a block of rows.
_BLOCK_FLOATS = 2_000_000


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


class Moments(NamedTuple):
    """Means and standard deviations (n, s) of components of f, and weights (s,)."""

    mean: Array
    std: Array
    weights: Array

    def means(self) -> Array:
        """Means of the mixture, (n,)."""
        return self.mean @ self.weights

    def log_improvements(self, thresholds: Array) -> Array:
        """``log E (b - f)₊`` for b (k, s) or (k, 1): (n, k)."""
        std = self.std[:, np.newaxis]
        z = (thresholds - self.mean[:, np.newaxis]) / std
        # E (b - f)₊ = σ h((b - μ) / σ)
        logs = np.log(std) + log_improvement(z)
        return np.asarray(logsumexp(logs, axis=2, b=self.weights))

    def log_probability_below_zero(self) -> Array:
        """``log P(f <= 0)``, (n,)."""
        return np.asarray(
            logsumexp(log_ndtr(-self.mean / self.std), axis=1, b=self.weights)
        )


@dataclass(frozen=True)
class DrawnFunction:
    """A function drawn from a posterior, as if it were known but for a little noise.

    Parameters
    ----------
    draw : FunctionDraws
        One function.
    std : float
        Standard deviation of its values.
    """

    draw: FunctionDraws
    std: float

    def marginals(self, X: Array) -> LatentMixture:
        """Distribution of the function at each row of X."""
        mean = self.draw(X)[:, np.newaxis, :]
        return LatentMixture(mean, np.full(mean.shape, self.std**2), np.ones(1))

    def condition(self, X: Array, y: Array, noise_variance: Array) -> DrawnFunction:
        """Distribution given its own values: the same."""
        del X, y, noise_variance
        return self


@dataclass(frozen=True)
class Outcome:
    """A quantity that an evaluation shows, and what is known of it.

    Parameters
    ----------
    posterior : Posterior
        With one output and s components.
    unit : float
        Standard deviation of the values so far.
    sign : float, default=1
        -1 for a quantity that is maximised: it is taken with the opposite sign.
    """

    posterior: Posterior
    unit: float
    sign: float = 1.0

    def moments(self, X: Array, steps: Array | None = None) -> Moments:
        """Moments of the components at rows (n, d).

        Or at rows moved by each of some small steps (k, d): of k n rows. They are
        linear in the steps if their slopes are known.
        """
        if steps is None:
            mixture = self.posterior.marginals(X)
            variance = np.broadcast_to(mixture.variance, mixture.mean.shape)
            return self._moments(mixture.mean[:, 0], variance[:, 0], mixture.weights)
        rows = (X + steps[:, np.newaxis]).reshape(-1, X.shape[1])
        slopes = getattr(self.posterior, "marginals_and_slopes", None)
        if slopes is None:
            return self.moments(rows)
        try:
            mixture, mean_slopes, variance_slopes = slopes(X)
        except ValueError:  # the gradient of a kernel is not known
            return self.moments(rows)
        # (k, n, s), then a row for each
        mean = mixture.mean[:, 0] + np.einsum("kd,nsd->kns", steps, mean_slopes)
        variance = mixture.variance[:, 0]
        variance = variance + np.einsum("kd,nsd->kns", steps, variance_slopes)
        shape = (len(rows), -1)
        return self._moments(
            mean.reshape(shape), variance.reshape(shape), mixture.weights
        )

    def _moments(self, mean: Array, variance: Array, weights: Array) -> Moments:
        # logarithms of the improvement are finite
        std = np.sqrt(np.maximum(variance, (1e-9 * self.unit) ** 2))
        return Moments(self.sign * mean, std, weights)

    def means(self, X: Array) -> Array:
        """Means of the mixture, (n,)."""
        return self.moments(X).means()

    def with_means(self, X: Array) -> Outcome:
        """What is known given its means at the rows of X, as if they were observed."""
        if not len(X):
            return self
        mean, _ = self.posterior.marginals(X).moments()
        noise = np.full(len(X), 1e-8 * self.unit**2)
        return replace(self, posterior=self.posterior.condition(X, mean, noise))

    def drawn(self, draw: FunctionDraws) -> Outcome:
        """A function drawn from the posterior in its place."""
        return replace(self, posterior=DrawnFunction(draw, _BLUR * self.unit))


@dataclass(frozen=True)
class LogExpectedImprovement:
    """Feature map ``x -> -log(E[improvement] P(feasible) / cost)``, to be minimised.

    With one objective the improvement is ``max(b - f(x), 0)``; a mixture has the mean
    of the improvements of its components, each below an incumbent b of its own. With
    several it is what the volume that the front dominates gains, a sum over boxes::

        E[gain] = Σ_k Π_j (E[(upper_kj - f_j)₊] - E[(lower_kj - f_j)₊])

    which is exact for independent objectives. One objective has one box, from -∞ to b.

    Parameters
    ----------
    objectives : tuple of Outcome
        The functions f; without any, the improvement is one.
    lower : ndarray of shape (k, t, s) or (k, t, 1)
        Lower corners of the boxes that no evaluation dominates; may be infinite.
    upper : ndarray of the same shape
        Upper corners.
    constraints : tuple of Outcome, default=()
        Functions that are at most zero where x is feasible.
    log_cost : Outcome or None, default=None
        Logarithm of what an evaluation costs.
    allowed : callable or None, default=None
        From rows (n, d) to whether they may be proposed.
    """

    objectives: tuple[Outcome, ...]
    lower: Array
    upper: Array
    constraints: tuple[Outcome, ...] = ()
    log_cost: Outcome | None = None
    allowed: Callable[[Array], Mask] | None = None

    def __call__(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, 1)."""
        values = self._values(X)[0]
        if self.allowed is not None:
            values[~self.allowed(X)] = _BARRIER
        return values[:, np.newaxis]

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d), times ``weights[index]`` (p, 1)."""
        d = X.shape[1]
        # rows, and the rows at both ends of the difference of each input
        steps = _STEP * np.vstack((np.zeros(d), np.eye(d), -np.eye(d)))
        values = self._values(X, steps)
        slopes = (values[1 : d + 1] - values[d + 1 :]) / (2.0 * _STEP)
        value = values[0]
        if self.allowed is not None:
            is_barred = ~self.allowed(X)
            value = np.where(is_barred, _BARRIER, value)
            slopes[:, is_barred] = 0.0
        factor = weights[index]
        return value * factor[:, 0], slopes.T * factor

    def _values(self, X: Array, steps: Array | None = None) -> Array:
        """Values at n rows, (1, n), or at rows moved by k steps, (k, n)."""
        n_steps = 1 if steps is None else len(steps)
        logs = np.empty((n_steps, len(X)))
        size = _BLOCK_FLOATS // max(1, self.upper.size * n_steps)
        for rows in row_slices(len(X), max(1, size)):
            logs[:, rows] = self._logs(X[rows], steps, n_steps)
        return np.minimum(-logs, _LARGEST)

    def _logs(self, X: Array, steps: Array | None, n_steps: int) -> Array:
        """Logarithms of the acquisition for a block of rows, (k, n)."""
        boxes = np.zeros((n_steps * len(X), max(1, len(self.upper))))
        for j, objective in enumerate(self.objectives):
            moments = objective.moments(X, steps)
            upper = moments.log_improvements(self.upper[:, j])
            boxes += upper
            is_bounded = np.isfinite(self.lower[:, j, 0])
            if np.any(is_bounded):
                lower = moments.log_improvements(self.lower[is_bounded, j])
                # log(h(u) - h(l)), a box that is too thin has nothing
                ratio = np.minimum(lower - upper[:, is_bounded], 0.0)
                boxes[:, is_bounded] += np.log(np.maximum(-np.expm1(ratio), 1e-300))
        logs = np.asarray(logsumexp(boxes, axis=1))
        for constraint in self.constraints:
            moments = constraint.moments(X, steps)
            logs = logs + moments.log_probability_below_zero()
        if self.log_cost is not None:
            logs = logs - self.log_cost.moments(X, steps).means()
        return logs.reshape(n_steps, -1)
