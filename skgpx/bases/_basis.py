"""The contract of a basis, in types, and the moments that every basis can compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from skgpx._draws import FunctionDraws, Process
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx._types import Array, Generator

# Maps rows (n, d) to the mean (n, c, s) of f there, and a variance of that shape.
Marginals = Callable[[Array], tuple[Array, Array]]


class Basis(Protocol):
    """A Gaussian process as ``f(x) = φ(x)ᵀw + g(x)``, with ``w ~ N(0, I)``.

    ``φ`` holds m functions and g is the residual, which is independent of w.
    """

    @property
    def n_basis(self) -> int:
        """Number of basis functions m."""

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows.

        Draws leave it out.
        """

    def __call__(self, X: Array) -> Array:
        """Features ``φ(X)``, shape (n, m)."""

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of g at the rows of X, (n,); `features` is ``self(X)``."""

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of g at the rows of X, (n, n)."""

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""

    def draw(
        self,
        weights: Array,
        rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with weights (m, c, s) and a drawn residual."""

    def process(self, weights: GaussianWeights) -> Process:
        """Distribution of ``φᵀw + g`` as a process that can be conditioned."""

    def process_at(self, weights: GaussianWeights, X: Array) -> Process:
        """Process in which the rows X (p, d) are observed."""

    def grown(self, process: Any) -> Basis:
        """Basis of a process of this basis after conditioning."""


def feature_marginals(basis: Basis, weights: WeightDistribution) -> Marginals:
    """Moments of ``φ(x)ᵀw + g(x)`` at rows, for any basis and distribution.

    O(m (m + s)) time for a row.

    Parameters
    ----------
    basis : Basis
    weights : GaussianWeights or WeightParticles
        Distribution of the whitened weights.

    Returns
    -------
    moments : callable
        Maps rows (n, d) to the mean (n, c, s), and a variance that broadcasts to it.
    """

    def moments(X: Array) -> tuple[Array, Array]:
        features = basis(X)
        mean, variance = weights.latent(features)
        residual = basis.residual_variance(X, features)
        return mean, variance + residual[:, np.newaxis, np.newaxis]

    return moments
