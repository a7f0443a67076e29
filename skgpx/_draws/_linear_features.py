"""Features of linear functions: constants and inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class _Ones:
    """The constant feature."""

    def __call__(self, X: Array) -> Array:
        """Ones of shape (n, 1)."""
        return np.ones((X.shape[0], 1))

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d)."""
        return weights[index, 0], np.zeros(X.shape)


@dataclass(frozen=True)
class LinearFeatures:
    """``[x, level]``, shape (n, d + 1): the features of a DotProduct kernel.

    Parameters
    ----------
    level : float, default=1.0
        The constant feature, ``σ₀`` of the kernel.
    n_features : int, default=None
        Number of input columns; None for any.
    """

    level: float = 1.0
    n_features: int | None = None

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X."""
        return np.column_stack((X, np.full(X.shape[0], self.level)))

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        slopes = weights[index, :-1]
        level = self.level * weights[index, -1]
        return np.einsum("pd,pd->p", X, slopes) + level, slopes


ones = _Ones()
with_ones = LinearFeatures()
