"""Inducing points, and their residual given the values at the nearest rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    LinearTerm,
    Term,
    draw_prior,
    section_terms,
    with_features,
)
from skgpx._latent._model import FunctionModel, GivenPoints, Mean
from skgpx._numerics.linalg import (
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.rows import equal_rows
from skgpx._numerics.weights import GaussianWeights
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.bases import NeighborCoefficients, NeighborResidual, Nystroem


@dataclass(frozen=True)
class NeighborModel(FunctionModel):
    """Distribution of f given the data: ``f = m + scale h`` and, with N nearest rows::

        h(x) = [φ(x) - Φ_Nᵀ b(x)]ᵀ w + b(x)ᵀ y_N + g(x)

    where b and the distribution of g, which is independent of the data, are those of a
    :class:`~skgpx.bases.NeighborResidual`. The c functions are independent; those whose
    values have the same noise share b and the distributions of g and of ``w - E w``.
    Since the model holds the data, it can be conditioned on more of them.

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
            for version in np.unique(self.versions):
                outputs = np.flatnonzero(self.versions == version)
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

    def _whitened_draws(
        self,
        size: int,
        rng: Generator,
        weights_rng: Generator,
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
        prior = with_features(prior, basis.kernel)
        draws = draw_prior(basis.kernel, Z.shape[1], c, s, rng, given=given, **prior)
        # y - ε; rows without a value are no neighbours
        noise = residual.noise[:, self.versions]
        noise = np.where(np.isfinite(noise), noise, 0.0)
        std = np.sqrt(noise)
        errors = rng.standard_normal((len(self.y), c, s))
        errors *= std[:, :, np.newaxis]
        values = self.y[:, :, np.newaxis] - errors
        # δ = w - L⁻¹ f⁰(Z)
        at_points = draws.values(Z)
        at_points = at_points.reshape(len(Z), -1)
        jitter = rng.standard_normal(at_points.shape)
        at_points += np.sqrt(basis.jitter) * jitter
        root = np.asarray(basis.root)
        whitened = solve_lower(root, at_points)
        delta = weights.reshape(m, -1) - whitened
        return _given_rows(
            draws,
            delta.reshape(m, c, s),
            values,
            self._coefficients,
        )

    @cached_property
    def _coefficients(self) -> NeighborCoefficients:
        """``b``, the same object in all draws and their process."""
        return NeighborCoefficients(self.residual, self.versions)

    def process(self) -> NeighborProcess:
        """``f - m`` as a process that can be conditioned."""
        return NeighborProcess(
            coefficients=self._coefficients,
            weight_root=self.weights.root,
            scale=np.abs(self._scales),
            points=np.empty((0, self.residual.rows.shape[1])),
            noise=np.empty((self.n_outputs, 0)),
        )

    def condition(self, X: Array, y: Array, noise_variance: Array) -> NeighborModel:
        """Distribution of f given noisy values y (p, c) at X (p, d).

        `noise_variance` (p,) is in the squared units of the outputs.

        Notes
        -----
        O(p (N^3 + M^2)): a step of Kalman's filter for each row, given its nearest
        predecessors; functions of the same noise and units are one.
        """
        new_values = (y - self.mean_at(X)) / self._scales
        values = np.concatenate((self.y, new_values))
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


def _given_rows(
    prior: FunctionDraws,
    delta: Array,
    values: Array,
    coefficients: NeighborCoefficients,
) -> FunctionDraws:
    """``f⁰ + φᵀδ + b(·)ᵀ (v - Φδ - f⁰(X))_N``.

    Parameters
    ----------
    prior : FunctionDraws
        ``f⁰``.
    delta : ndarray of shape (M, c, s)
        ``δ``.
    values : ndarray of shape (n, c, s)
        ``v``, at the rows X of the data.
    coefficients : NeighborCoefficients
        ``b``.
    """
    residual = coefficients.residual
    basis = residual.basis
    flat_delta = delta.reshape(len(delta), -1)
    # φᵀδ = k(·, Z) L⁻ᵀ δ
    sections = solve_lower_transpose(np.asarray(basis.root), flat_delta)
    terms = section_terms(
        basis.kernel,
        basis.inducing_points,
        sections.reshape(delta.shape),
    )
    explained = (residual.features @ flat_delta).reshape(values.shape)
    discrepancy = values - explained - prior.values(residual.rows)
    features: Any = coefficients
    return prior.plus((*terms, LinearTerm(features, discrepancy)))


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
        Variance of this error.
    """
    for i in range(len(features)):
        half = features[i] @ root
        total = float(variance[i] + half @ half)
        gain = root @ half / total
        w = w + np.outer(gain, level[i] - features[i] @ w)
        shrinkage = 1.0 / (1.0 + np.sqrt(variance[i] / total))
        root = root - shrinkage * np.outer(gain, half)
    return w, root


# ---- The process of draws ------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NeighborProcess(GivenPoints):
    """Process of the draws of a :class:`NeighborModel`, given further values.

    ::

        C(x, y) = c(x)ᵀ S Sᵀ c(y) + cov(h(x), h(y)),    c(x) = φ(x) - Φ_Nᵀ b(x)

    where h is what remains of the residual given the nearest rows of the data. The
    values at P are no rows that may be nearest: C is the covariance of all draws.

    Attributes
    ----------
    coefficients : NeighborCoefficients
        ``b``.
    weight_root : ndarray of shape (g, M, r)
        ``S``, a root of the covariance of the weights, for each of c outputs or (g = 1)
        for all.
    """

    coefficients: NeighborCoefficients
    weight_root: Array

    @property
    def _kernel(self) -> Kernel:
        return self.coefficients.residual.kernel

    def _given_data(self, X: Array, output: int) -> Array:
        """``C`` of one output between the rows of X."""
        residual = self.coefficients.residual
        version = int(self.coefficients.versions[output])
        features, _ = residual.features_and_variance(X)
        S = self.weight_root[output % len(self.weight_root)]
        half = features[version] @ S
        return half @ half.T + residual.covariance(X, version)

    def _groups(self) -> list[Index]:
        """Outputs whose values, at the rows and at the points, have the same noise."""
        keys = np.column_stack((self.coefficients.versions, self.noise))
        groups, group_of_output = equal_rows(keys)
        return [np.flatnonzero(group_of_output == k) for k in range(len(groups))]

    def terms(self, variables: Array) -> tuple[Term, ...]:
        """``C(·, P) α`` with these variables (p, c, s).

        A draw ``f⁰ + φᵀδ + b(·)ᵀ (y - ε - Φδ - f⁰(X))_N`` is linear in the independent
        ``g = f⁰ - φᵀL⁻¹f⁰(Z)``, w and ε. With the draws ``c(P)ᵀw + A (g + ε)`` at P::

            f⁰ ← k(·, P') Aᵀα,    δ ← (S Sᵀ - I) c(P) α,    ε ← Σ Aᵀα

        where P' are the points and their nearest rows.
        """
        _, c, s = variables.shape
        residual = self.coefficients.residual
        basis = residual.basis
        versions, of_output = np.unique(
            self.coefficients.versions,
            return_inverse=True,
        )
        errors = residual.errors(self.points, versions)
        sections = np.empty((len(errors.points), c, s))
        delta = np.empty((basis.n_basis, c, s))
        values = np.zeros((len(residual.rows), c, s))
        for output, version in enumerate(np.ravel(of_output)):
            A = errors.combinations[version]
            alpha = variables[:, output]
            combined = A.T @ alpha
            sections[:, output] = combined
            moment = errors.features.T @ combined
            S = self.weight_root[output % len(self.weight_root)]
            delta[:, output] = S @ (S.T @ moment) - moment
            noise = errors.noise[:, [version]]
            values[errors.used, output] = -noise * combined[len(alpha) :]
        prior = FunctionDraws(
            terms=section_terms(basis.kernel, errors.points, sections),
            n_outputs=c,
            n_draws=s,
        )
        return _given_rows(prior, delta, values, self.coefficients).terms
