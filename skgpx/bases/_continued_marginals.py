"""Mean and variance of a series that is continued outside of a region."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import combination, evaluate
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases._fourier_series import SeriesMarginals

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class ContinuedMarginals:
    """Mean and variance of ``f(x)`` of a continued series as sums of waves.

    Parameters
    ----------
    basis : BoundedSeries
        With a continuation.
    law : GaussianWeights
        Law of the whitened weights of one output.
    """

    basis: Any
    law: GaussianWeights

    @cached_property
    def _inside(self) -> SeriesMarginals:
        inside = replace(self.basis, continuation=None, domain=None)
        return SeriesMarginals(inside, self.law)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance at the rows of X (n, d), each of shape (n, 1, 1)."""
        continuation: Any = self.basis.continuation
        E, rho = continuation.place(X)
        mean, variance = (moment[:, 0, 0] for moment in self._inside(E))
        rows = continuation.outside(X)
        if len(rows):
            mean, variance = mean.copy(), variance.copy()
            self._fade(mean, variance, rows, E[rows], rho[rows])
        shape = (-1, 1, 1)
        return mean.reshape(shape), np.maximum(variance, 0.0).reshape(shape)

    def _fade(
        self, mean: Array, variance: Array, rows: Index, E: Array, r: Array
    ) -> None:
        """Replace the moments at rows outside, r the correlation with the edge E."""
        continuation: Any = self.basis.continuation
        square = r**2
        fresh = continuation.fresh
        level, spread, shared = self._level(E)
        variance[rows] = square * variance[rows] + (1.0 - square) * fresh
        variance[rows] += (1.0 - r) ** 2 * spread + 2.0 * r * (1.0 - r) * shared
        mean[rows] = r * mean[rows] + (1.0 - r) * level

    def _level(self, E: Array) -> tuple[float, float, Any]:
        """Mean and variance of the constant part, and covariances with f at E."""
        basis, law = self.basis, self.law
        if not basis._level_weight > 0.0:
            return 0.0, 0.0, 0.0
        i, weight = basis._constant, basis._level_weight
        column = law.root[0] @ law.root[0, i]
        spread = weight**2 * float(column[i]) + basis._level_residual
        table = combination(basis.index, np.sqrt(basis.eigenvalues) * column)
        shared = weight * evaluate((table,), basis.box.turns(E))[:, 0]
        return weight * float(law.mean[i, 0]), spread, shared
