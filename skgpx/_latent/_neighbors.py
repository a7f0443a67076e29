"""Inducing points, and their residual given the values at the nearest rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
Index = NDArray[np.intp]


@dataclass(frozen=True)
class NeighborModel(FunctionModel):
    """Distribution of f given the data: ``f = m + scale h`` and, with N nearest rows::

        h(x) = [φ(x) - Φ_Nᵀ b(x)]ᵀ w + b(x)ᵀ y_N + g(x)

    where b and the distribution of g, which is independent of the data, are those of a
    :class:`~skgpx.bases.NeighborResidual`. The c functions are independent; those whose
    values have the same noise share b and the distributions of g and of ``w - E w``.
    Since the model holds the data, it can be conditioned on more of them; its draws
    cannot.

    Parameters
    ----------
    residual : NeighborResidual
        The rows of the data, and their noise in k versions.
    y : ndarray of shape (n, c)
        Noisy values of h at these rows; any number where there is no value.
    weights : GaussianWeights
        Posterior of the M weights w of the inducing points.
    versions : ndarray of shape (c,)
        Version of the noise of each function.
    mean : Mean, default=None
        m; None is zero.
    scale : float or ndarray of shape (c,), default=1.0
        Units of the outputs.
    """

    residual: NeighborResidual
    y: Array
    weights: GaussianWeights
    versions: Index
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

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of h at the rows of X, (p, c, 1) each."""
        mean = np.empty((len(X), self.n_outputs, 1))
        variance = np.empty_like(mean)
        for local in self.residual.neighborhoods(X):
            features = self.residual.conditional_features(local)
            for version, outputs in self._outputs_of_versions():
                values = self.y[local.nearest[version][..., np.newaxis], outputs]
                b = local.coefficients[version]
                given_rows = np.einsum("pn,pno->po", b, values)
                weights = self.weights.of_outputs(outputs)
                level, spread = weights.latent(features[version])
                residual = local.variance[version]
                mean[local.block, outputs, 0] = level[:, :, 0] + given_rows
                variance[local.block, outputs, 0] = (
                    spread[:, :, 0] + residual[:, np.newaxis]
                )
        return mean, variance

    def _outputs_of_versions(self) -> Iterator[tuple[int, Index]]:
        """Versions of the noise, and the functions that have them."""
        for version in np.unique(self.versions):
            yield int(version), np.flatnonzero(self.versions == version)

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """Of the first function: ``φ - Φ_Nᵀ b`` and ``bᵀ y_N`` (p, M + 1), var g (p,).

        The weight of the last one is one.
        """
        version = self.versions[0]
        features = np.empty((len(X), self.n_basis))
        variance = np.empty(len(X))
        for local in self.residual.neighborhoods(X):
            values = self.y[local.nearest[version], 0]
            given_rows = np.einsum("pn,pn->p", local.coefficients[version], values)
            conditional = self.residual.conditional_features(local)
            features[local.block, :-1] = conditional[version]
            features[local.block, -1] = given_rows
            variance[local.block] = local.variance[version]
        return features, variance

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        version = self.versions[output]
        features, _ = self.residual.features_and_variance(X)
        residual = self.residual.covariance(X, version)
        return self.weights.covariance(features[version], output) + residual

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
        weights = self.weights.draw(size, weights_rng)
        m, c, s = weights.shape
        residual = self.residual
        basis = self.basis
        Z = basis.inducing_points
        given = Conditioning(residual.rows, np.min(residual.noise, axis=1))
        draws = draw_prior(basis.kernel, Z.shape[1], c, s, rng, given=given, **prior)
        # y - f⁰(X) - ε
        noise = residual.noise[:, self.versions]
        # rows without a value are no neighbours
        std = np.sqrt(np.where(np.isfinite(noise), noise, 0.0))
        error = self.y[:, :, np.newaxis] - draws.values(residual.rows)
        error -= std[:, :, np.newaxis] * rng.standard_normal((len(self.y), c, s))
        # δ
        at_points = draws.values(Z).reshape(len(Z), -1)
        at_points += np.sqrt(basis.jitter) * rng.standard_normal(at_points.shape)
        root = np.asarray(basis.root)
        delta = weights.reshape(m, -1) - solve_lower(root, at_points)
        error -= (residual.features @ delta).reshape(error.shape)
        # φᵀδ = k(·, Z) L⁻ᵀ δ
        sections = solve_lower_transpose(root, delta).reshape(len(Z), c, s)
        terms = section_terms(basis.kernel, Z, sections)
        coefficients: Any = NeighborCoefficients(residual, self.versions)
        return draws.plus((*terms, LinearTerm(coefficients, error)))

    def process(self) -> None:
        """Return None: the model can be conditioned, but not its draws."""

    def condition(self, X: Array, y: Array, noise_variance: Array) -> NeighborModel:
        """Distribution of f given noisy values y (p, c) at X (p, d).

        `noise_variance` (p,) is in the squared units of the outputs.

        Notes
        -----
        O(p (N^3 + M^2)): a step of Kalman's filter for each row, given its nearest
        predecessors; functions of the same noise and units are one.
        """
        mean: Array | float = 0.0
        if self.mean is not None:
            mean = self.mean(X)
        values = np.concatenate((self.y, (y - mean) / self._scales))
        # functions of other units have another noise
        keys = np.column_stack((self.versions, self._scales))
        _, first, versions = np.unique(
            keys,
            axis=0,
            return_index=True,
            return_inverse=True,
        )
        versions = np.ravel(versions)
        old_noise = self.residual.noise[:, self.versions[first]]
        old = replace(self.residual, noise=old_noise)
        noise = noise_variance[:, np.newaxis] / self._scales[first] ** 2
        residual, nearest, count = old.with_rows(X, noise)
        n = len(self.y)
        n_versions = len(first)
        w = self.weights.mean.copy()
        roots = []
        neighborhoods = list(residual.neighborhoods(X, nearest, count))
        for version in range(n_versions):
            outputs = np.flatnonzero(versions == version)
            root = self.weights.root[outputs[0] % len(self.weights.root)]
            w_of_version = w[:, outputs]
            for local in neighborhoods:
                b = local.coefficients[version]
                of_neighbors = values[local.nearest[version][..., np.newaxis], outputs]
                level = values[n:][local.block][:, outputs]
                level = level - np.einsum("pn,pno->po", b, of_neighbors)
                conditional = residual.conditional_features(local)[version]
                variance = local.variance[version] + noise[local.block, version]
                w_of_version, root = _filtered(
                    w_of_version,
                    root,
                    conditional,
                    level,
                    variance,
                )
            w[:, outputs] = w_of_version
            roots.append(root)
        root = np.stack(roots)
        if n_versions > 1:
            root = root[versions]
        return replace(
            self,
            residual=residual,
            y=values,
            weights=GaussianWeights(w, root),
            versions=versions,
        )


def _filtered(
    w: Array,
    root: Array,
    features: Array,
    level: Array,
    variance: Array,
) -> tuple[Array, Array]:
    """Kalman's filter: mean (M, t) and root (M, r) of weights, given rows one by one.

    Parameters
    ----------
    w : ndarray of shape (M, t)
    root : ndarray of shape (M, r)
    features : ndarray of shape (p, M)
        ``φ`` of each row.
    level : ndarray of shape (p, t)
        ``φᵀw`` with an error.
    variance : ndarray of shape (p,)
        Of this error.
    """
    for i in range(len(features)):
        half = features[i] @ root
        total = float(variance[i] + half @ half)
        gain = root @ half / total
        w = w + np.outer(gain, level[i] - features[i] @ w)
        shrinkage = 1.0 / (1.0 + np.sqrt(variance[i] / total))
        root = root - shrinkage * np.outer(gain, half)
    return w, root
