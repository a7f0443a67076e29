"""What a series on a box is continued by where its functions only repeat.

With ``e`` the point of a region nearest to ``x``, ``ρ(x)`` a correlation that falls
from one at the edge of the region, and ``q`` an independent draw of the prior::

    f(x) = ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)

``c`` is the constant part of the prior, if it has one, which does not fade; ``q`` is of
the rest. f is continuous at the edge, and far away it is c plus a draw of the prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skgpx.bases._fading import Fading
from skgpx.bases._fourier_series import BoxFourierFeatures

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Continuation:
    """Where a series stands for its process, and how its influence fades outside.

    Parameters
    ----------
    region : ndarray of shape (d, 2)
        Lower and upper end of each input.
    fading : Fading
        ρ.
    fresh : float
        Variance of ``q``: that of the prior, without the constant part.
    level : float, default=0.0
        Variance of the constant part ``c`` of the prior.
    """

    region: Array
    fading: Fading
    fresh: float
    level: float = 0.0

    def outside(self, X: Array) -> Index:
        """Rows of X (n, d) that are not in the region."""
        low, high = self.region.T
        return np.flatnonzero(np.any((low > X) | (high < X), axis=1))

    def nearest(self, X: Array) -> Array:
        """Points of the region nearest to the rows of X."""
        return np.clip(X, *self.region.T)

    def place(self, X: Array) -> tuple[Array, Array]:
        """Nearest points E (n, d), and the correlations ρ (n,); one inside."""
        E = self.nearest(X)
        rho, rows = np.ones(len(X)), self.outside(X)
        if len(rows):
            rho[rows] = self.fading.values(X[rows] - E[rows])
        return E, rho

    def slopes(self, X: Array) -> Array:
        """Gradients of ρ, shape (n, d)."""
        steps = X - self.nearest(X)
        # e moves with x along the sides of the region
        slopes: Array = np.where(steps == 0.0, 0.0, self.fading.slopes(steps))
        return slopes


class _OfRegion:
    """Features of the inputs of a region."""

    continuation: Continuation

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.continuation.region)


@dataclass(frozen=True)
class ContinuedFeatures(_OfRegion):
    """``ρ(x) φ(e(x))``: features of the region, fading outside of it."""

    features: BoxFourierFeatures
    continuation: Continuation

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        E, rho = self.continuation.place(X)
        values: Array = rho[:, np.newaxis] * self.features(E)
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        rows = self.continuation.outside(X)
        if not len(rows):
            self.features.contract(X, weights, out)
            return
        kept = np.setdiff1d(np.arange(len(X)), rows, assume_unique=True)
        inside = out[kept]
        self.features.contract(X[kept], weights, inside)
        out[kept] = inside
        E, rho = self.continuation.place(X[rows])
        beyond = np.zeros((len(rows), out.shape[1]))
        self.features.contract(E, weights, beyond)
        out[rows] += rho[:, np.newaxis] * beyond

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        E, rho = self.continuation.place(X)
        values, slopes = self.features.pairs(E, weights, index)
        slopes = np.where(E == X, rho[:, np.newaxis] * slopes, 0.0)
        rows = self.continuation.outside(X)
        if len(rows):
            fall = self.continuation.slopes(X[rows])
            slopes[rows] += values[rows, np.newaxis] * fall
        return rho * values, slopes


@dataclass(frozen=True)
class PriorFeatures(_OfRegion):
    """``√(1 - ρ²) φ(x)``: features of the independent prior, zero inside."""

    features: BoxFourierFeatures
    continuation: Continuation

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        _, rho = self.continuation.place(X)
        values: Array = rest(rho)[:, np.newaxis] * self.features(self._wrapped(X))
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        rows = self.continuation.outside(X)
        if not len(rows):
            return
        _, rho = self.continuation.place(X[rows])
        part = np.zeros((len(rows), out.shape[1]))
        self.features.contract(self._wrapped(X[rows]), weights, part)
        out[rows] += rest(rho)[:, np.newaxis] * part

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        values, slopes = np.zeros(len(X)), np.zeros(X.shape)
        rows = self.continuation.outside(X)
        if not len(rows):
            return values, slopes
        _, rho = self.continuation.place(X[rows])
        f, g = self.features.pairs(self._wrapped(X[rows]), weights, index[rows])
        factor = rest(rho)
        values[rows] = factor * f
        # d√(1 - ρ²) = -ρ dρ / √(1 - ρ²)
        zeros = np.zeros_like(factor)
        bend = np.divide(-rho * f, factor, out=zeros, where=factor > 0.0)
        fall = self.continuation.slopes(X[rows])
        slopes[rows] = factor[:, np.newaxis] * g + bend[:, np.newaxis] * fall
        return values, slopes

    def _wrapped(self, X: Array) -> Array:
        """The same places of the box, within it: phases keep their digits."""
        box = self.features.box
        turns = box.turns(X)
        wrapped: Array = box.origin + (turns - np.floor(turns)) * box.period
        return wrapped


@dataclass(frozen=True)
class LevelFeatures(_OfRegion):
    """``1 - ρ(x)``: the feature of the constant part, zero inside."""

    continuation: Continuation

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 1)."""
        _, rho = self.continuation.place(X)
        return 1.0 - rho[:, np.newaxis]

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        one = weights[index, 0]
        rows, slopes = self.continuation.outside(X), np.zeros(X.shape)
        if len(rows):
            fall = self.continuation.slopes(X[rows])
            slopes[rows] = -fall * one[rows, np.newaxis]
        return self(X)[:, 0] * one, slopes


def rest(rho: Array) -> Array:
    """Factor of the independent part, ``√(1 - ρ²)``."""
    factor: Array = np.sqrt((1.0 - rho) * (1.0 + rho))
    return factor
