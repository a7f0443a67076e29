"""Inducing points, and their residual given the values at the nearest rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    LinearTerm,
    draw_prior,
    section_terms,
)
from skgpx._latent._model import FunctionModel, LatentModel, Mean
from skgpx._numerics.linalg import solve_lower, solve_lower_transpose
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import NeighborCoefficients, NeighborResidual, Nystroem

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NeighborModel(FunctionModel):
    """Distribution of f given the data: ``f = m + scale h`` and, with N nearest rows::

        h(x) = [φ(x) - Φ_Nᵀ b(x)]ᵀ w + b(x)ᵀ y_N + g(x)

    where b and the distribution of g, which is independent of the data, are those of a
    :class:`~skgpx.bases.NeighborResidual`. It has one output and, since it holds the
    data, it can be conditioned on more of them; its draws cannot.

    Parameters
    ----------
    residual : NeighborResidual
        The rows of the data, and their noise.
    y : ndarray of shape (n,)
        Noisy values of h at these rows.
    weights : GaussianWeights
        Posterior of the M weights w of the inducing points.
    mean : Mean, default=None
        m; None is zero.
    scale : float or ndarray of shape (1,), default=1.0
        Units of the output.
    """

    residual: NeighborResidual
    y: Array
    weights: GaussianWeights
    mean: Mean | None = None
    scale: float | Array = 1.0

    @property
    def basis(self) -> Nystroem:  # type: ignore[override]
        """Basis of the inducing points."""
        return self.residual.basis

    @property
    def n_neighbors(self) -> int:
        """Number of nearest rows that complete the basis."""
        return self.residual.n_neighbors

    @property
    def n_basis(self) -> int:
        """Number of functions: M, and ``b(x)ᵀ y_N``."""
        return self.basis.n_basis + 1

    @property
    def floats_of_features(self) -> int:
        return self.residual.floats_per_row

    @cached_property
    def _all_weights(self) -> GaussianWeights:
        """The weights w, and one: the weight of ``b(x)ᵀ y_N``."""
        mean = np.append(self.weights.mean, 1.0)
        root = self.weights.root[0]
        certain = np.zeros((1, root.shape[1]))
        return GaussianWeights(
            mean[:, np.newaxis],
            np.vstack((root, certain))[np.newaxis],
        )

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of h at the rows of X, (p, 1, 1) each."""
        features, residual = self.features_and_residual(X)
        mean, variance = self._all_weights.latent(features)
        return mean, variance + residual[:, np.newaxis, np.newaxis]

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """``φ - Φ_Nᵀ b`` and ``bᵀ y_N`` (p, M + 1), and the variance of g (p,)."""
        features = np.empty((len(X), self.n_basis))
        variance = np.empty(len(X))
        for local in self.residual.neighborhoods(X):
            values = self.y[local.nearest]
            given_rows = np.einsum("pn,pn->p", local.coefficients, values)
            features[local.block, :-1] = self.residual.conditional_features(local)
            features[local.block, -1] = given_rows
            variance[local.block] = local.variance
        return features, variance

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        features, _ = self.features_and_residual(X)
        residual = self.residual.covariance(X)
        return self._all_weights.covariance(features, output) + residual

    def term(self, kernel: Kernel) -> LatentModel:
        """Refuse to split f into summands: the rows hold values of their sum."""
        del kernel
        raise ValueError(
            "The nearest rows hold values of the sum of all terms of f: fit with "
            "n_neighbors=0."
        )

    def _whitened_draws(
        self,
        size: int,
        rng: np.random.Generator,
        weights_rng: np.random.Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Draws of h.

        A prior draw ``f⁰``, and the terms that make it agree with drawn weights and
        with the data near x: with ``δ = w - L⁻¹ f⁰(Z)``::

            h = f⁰ + φᵀδ + b(·)ᵀ (y - Φδ - f⁰(X) - ε)_N
        """
        weights = self._all_weights.draw(size, weights_rng)[:-1]
        m, c, s = weights.shape
        residual = self.residual
        basis = self.basis
        Z = basis.inducing_points
        given = Conditioning(residual.rows, residual.noise)
        draws = draw_prior(basis.kernel, Z.shape[1], c, s, rng, given=given, **prior)
        # y - f⁰(X) - ε
        std = np.sqrt(residual.noise)[:, np.newaxis, np.newaxis]
        error = self.y[:, np.newaxis, np.newaxis] - draws.values(residual.rows)
        error -= std * rng.standard_normal((len(self.y), c, s))
        # δ
        at_points = draws.values(Z).reshape(len(Z), -1)
        at_points += np.sqrt(basis.jitter) * rng.standard_normal(at_points.shape)
        root = np.asarray(basis.root)
        delta = weights.reshape(m, -1) - solve_lower(root, at_points)
        error -= (residual.features @ delta).reshape(error.shape)
        # φᵀδ = k(·, Z) L⁻ᵀ δ
        sections = solve_lower_transpose(root, delta).reshape(len(Z), c, s)
        terms = section_terms(basis.kernel, Z, sections)
        local = LinearTerm(NeighborCoefficients(residual), error)
        return draws.plus((*terms, local))

    def process(self) -> None:
        """Return None: the model can be conditioned, but not its draws."""

    def condition(self, X: Array, y: Array, noise_variance: Array) -> NeighborModel:
        """Distribution of f given noisy values y (p, 1) at X (p, d).

        `noise_variance` (p,) is in the squared units of the output.

        Notes
        -----
        O(p (N^3 + M^2)): a step of Kalman's filter for each row, given its nearest
        predecessors.
        """
        mean = 0.0 if self.mean is None else self.mean(X)[:, 0]
        scale = self._scales[0]
        values = np.append(self.y, (y[:, 0] - mean) / scale)
        noise = noise_variance / scale**2
        residual, nearest, count = self.residual.with_rows(X, noise)
        n = len(self.y)
        features = residual.features[n:]
        b, variance = residual.given_nearest(X, features, nearest, count)
        explained = (b[:, np.newaxis] @ residual.features[nearest])[:, 0]
        features = features - explained
        level = values[n:] - np.einsum("pn,pn->p", b, values[nearest])
        variance = variance + noise
        w = self.weights.mean[:, 0]
        root = self.weights.root[0]
        for i in range(len(X)):
            # a row tells φᵀw with the error `variance`
            half = features[i] @ root
            total = float(variance[i] + half @ half)
            gain = root @ half / total
            w = w + gain * (level[i] - features[i] @ w)
            shrinkage = 1.0 / (1.0 + np.sqrt(variance[i] / total))
            root = root - shrinkage * np.outer(gain, half)
        weights = GaussianWeights(w[:, np.newaxis], root[np.newaxis])
        return replace(self, residual=residual, y=values, weights=weights)
