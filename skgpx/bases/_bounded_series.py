"""Fourier functions that refuse to be evaluated where they only repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FunctionDraws, LinearTerm
from skgpx.bases._fourier_series import FourierSeries

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def check_domain(X: Array, domain: Array) -> None:
    """Raise a ValueError if a row of X (n, d) is outside the domain (d, 2)."""
    if not len(X):
        return
    low, high = X.min(axis=0), X.max(axis=0)
    outside = (low < domain[:, 0]) | (high > domain[:, 1])
    if np.any(outside):
        j = int(np.argmax(outside))
        raise ValueError(
            f"Column {j} must lie in the domain [{domain[j, 0]:.8g}, "
            f"{domain[j, 1]:.8g}] of the Fourier functions, which only repeat beyond "
            f"it; got values between {low[j]:.8g} and {high[j]:.8g}. Fit with a wider "
            '`domain`, or with basis="inducing".'
        )


@dataclass(frozen=True)
class BoundedFeatures:
    """Features that are only evaluated within a domain."""

    features: Any
    domain: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.domain)

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        check_domain(X, self.domain)
        values: Array = self.features(X)
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        check_domain(X, self.domain)
        self.features.contract(X, weights, out)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        check_domain(X, self.domain)
        pairs: tuple[Array, Array] = self.features.pairs(X, weights, index)
        return pairs


@dataclass(frozen=True)
class BoundedSeries(FourierSeries):
    """`FourierSeries` on the part of its box where it stands for the process.

    Parameters
    ----------
    domain : ndarray of shape (d, 2)
        Lower and upper end of each input. Elsewhere the features, and the functions
        drawn, raise a ValueError.
    """

    domain: Array | None = None

    def __call__(self, X: Array) -> Array:
        """Features ``√λ_j φ_j(X)``, shape (n, m)."""
        self.check(X)
        return super().__call__(X)

    def check(self, X: Array) -> None:
        """Raise a ValueError if a row of X is outside the domain."""
        if self.domain is not None:
            check_domain(X, self.domain)

    def linear(self, weights: Array) -> FunctionDraws:
        """Functions with given whitened weights of the first functions, (q, c, s)."""
        draws = super().linear(weights)
        if self.domain is None:
            return draws
        terms = tuple(
            LinearTerm(BoundedFeatures(term.features, self.domain), term.weights)
            for term in draws.terms
            if isinstance(term, LinearTerm)
        )
        return FunctionDraws(terms, draws.n_outputs, draws.n_draws, draws.process)
