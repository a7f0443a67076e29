"""A basis on mapped inputs, ``Φ(h(x))``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from skgpx._draws import FunctionDraws, InputMap, Process, mapped_draws
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx._types import Array, Generator
from skgpx.bases._basis import Basis, Marginals


@dataclass(frozen=True)
class WarpedInputs:
    """Another basis, and its residual, at mapped inputs: ``φ(h(x))ᵀw + g(h(x))``.

    For a kernel k of the basis the process has the kernel ``k(h(x), h(y))``: a deep
    kernel if h is a network, a kernel on rows of any kind if h is a transformer that
    makes numbers of them.

    Parameters
    ----------
    basis : Basis
        Any basis of this library, of the mapped inputs.
    map : InputMap
        h, a fixed map of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import InputMap, Nystroem, WarpedInputs
    >>> inner = Nystroem.from_kernel(RBF(0.5), np.linspace(0.0, 2.0, 5)[:, None])
    >>> basis = WarpedInputs(inner, InputMap(np.log1p, n_features=1))
    >>> X = np.array([[0.3], [1.7]])
    >>> bool(np.all(basis(X) == inner(np.log1p(X))))
    True
    """

    basis: Basis
    map: InputMap

    @property
    def n_basis(self) -> int:
        """Number of basis functions."""
        return self.basis.n_basis

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        return self.basis.floats_per_row + self.map.floats_per_row

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows."""
        return self.basis.white_variance

    def __call__(self, X: Array) -> Array:
        """Features (n, m); their prior weights are N(0, I)."""
        return self.basis(self.map(X))

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the residual, shape (n,), given ``self(X)``."""
        return self.basis.residual_variance(self.map(X), features)

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X, (n, n)."""
        return self.basis.residual_covariance(self.map(X), features)

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        inner = self.basis.marginals(weights)
        return lambda X: inner(self.map(X))

    def draw(
        self,
        weights: Array,
        rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with these weights (m, c, s) and a drawn residual.

        Their gradients follow by the chain rule, see :class:`InputMap`.
        """
        return mapped_draws(self.basis.draw(weights, rng, **prior), self.map)

    def process(self, weights: GaussianWeights) -> Process:
        """Distribution of ``φᵀw + g`` as a process that can be conditioned."""
        inner = self.basis.process(weights)
        return replace(inner, maps=(self.map, *inner.maps))  # type: ignore[type-var]

    def process_at(self, weights: GaussianWeights, X: Array) -> Process:
        """Process in which rows X (p, d) are observed."""
        inner = self.basis.process_at(weights, self.map(X))
        return replace(inner, maps=(self.map, *inner.maps))  # type: ignore[type-var]

    def grown(self, process: Process) -> WarpedInputs:
        """Return the basis of a process after conditioning."""
        return replace(self, basis=self.basis.grown(process))
