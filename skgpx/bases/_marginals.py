"""Mean and variance of f at single rows, from features and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.weights import WeightLaw

Array = NDArray[np.float64]
# Maps rows (n, d) to the mean (n, c, s) of f there, and a variance of that shape.
Marginals = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class FeatureMarginals:
    """Moments of ``Φ(x)ᵀw + g(x)`` at the rows of X, for any basis and distribution.

    O(m (m + s)) time for a row.

    Parameters
    ----------
    basis : object
        With ``basis(X)`` and ``basis.residual_variance(X, features)``.
    law : GaussianWeights or WeightParticles
        Distribution of the whitened weights.
    """

    basis: Any
    law: WeightLaw

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Mean (n, c, s), and variance, which broadcasts to it."""
        features = self.basis(X)
        mean, variance = self.law.latent(features)
        residual = self.basis.residual_variance(X, features)
        return mean, variance + residual[:, np.newaxis, np.newaxis]
