"""Rows that come in parts: sums to which `partial_fit` and ``+`` add."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skgpx._cells._cells import (
    density_beyond_normal,
    in_random_order,
    neighbor_scales,
    sums_of_first_rows,
)
from skgpx._latent import LatentModel, NeighborModel
from skgpx._numerics.nearest import predecessors
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    posterior,
    precision_root,
    weight_statistics,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._shell.validation import Rows
from skgpx._types import Array
from skgpx.likelihoods import Likelihood


class RowSums(NamedTuple):
    """What the weights know of the rows, in units of their noise.

    Attributes
    ----------
    statistics : WeightStatistics
    constant : float
        Log evidence of y less that of these statistics, in nats.
    """

    statistics: WeightStatistics
    constant: float

    @classmethod
    def of(cls, weights: GaussianWeights, evidence: float) -> RowSums:
        """Sums that lead to a posterior of one output, ``N(Λ⁻¹ moment, Λ⁻¹)``.

        Parameters
        ----------
        weights : GaussianWeights
        evidence : float
            Log evidence of y.
        """
        # Λ = I + gram = (root rootᵀ)⁻¹
        inverse = np.linalg.inv(weights.root[0])
        precision = inverse.T @ inverse
        statistics = WeightStatistics(
            gram=precision - np.eye(len(precision)),
            moment=precision @ weights.mean,
            square=0.0,
            residual=0.0,
            weight=0.0,
        )
        return cls(statistics, evidence - log_evidence(statistics, 1.0))

    def add(self, other: RowSums, sign: float = 1.0) -> RowSums:
        """Sums over both sets of rows; sign -1.0 removes the other set."""
        return RowSums(
            self.statistics.add(other.statistics, sign),
            self.constant + sign * other.constant,
        )

    def solve(self) -> tuple[GaussianWeights, float]:
        """Posterior of the weights, and the log evidence of y; O(M^3)."""
        root = precision_root(self.statistics.gram, 1.0)
        evidence = log_evidence(self.statistics, 1.0, root) + self.constant
        return posterior(self.statistics, 1.0, root), evidence

    def equals(self, other: RowSums) -> bool:
        """Whether these are the same rows."""
        same_moment = np.array_equal(self.statistics.moment, other.statistics.moment)
        same_gram = np.array_equal(self.statistics.gram, other.statistics.gram)
        return same_moment and same_gram


def add_rows(
    model: LatentModel | NeighborModel,
    rows: Rows,
    likelihood: Likelihood,
    salt: int,
) -> tuple[LatentModel | NeighborModel, RowSums]:
    """A model with more rows, whose weights do not know of them yet, and their sums.

    Parameters
    ----------
    model : LatentModel or NeighborModel
        Of one output, under Gaussian noise.
    rows : Rows
        With y in units of the model.
    likelihood : Likelihood
        In these units.
    salt : int
        Seed of the order of the new rows. With nearest rows those of the model precede
        all of them.
    """
    scale = float(np.ravel(model.scale)[0])
    # rows with values of the whitened function h, ``f = m + scale h``
    mean: float | Array = 0.0
    if model.mean is not None:
        mean = model.mean(rows.X)[:, 0]
    standard = rows._replace(y=(rows.y - mean) / np.ravel(model.scale)[0])
    noise_likelihood = likelihood.scaled(1.0 / scale)
    noise = float(noise_likelihood.variance(0.0)) / standard.precisions
    log_volume = float(rows.weights.sum() * np.log(scale))
    if isinstance(model, NeighborModel):
        standard, _ = in_random_order(standard, salt)
        noise = float(noise_likelihood.variance(0.0)) / standard.precisions
        model, statistics, log_det = _with_predecessors(model, standard, noise)
        constant = log_det
        constant += density_beyond_normal(noise[:, np.newaxis], standard.weights)
    else:
        features = model.basis(standard.X)
        residual = model.basis.residual_variance(standard.X, features)
        y = standard.y[:, np.newaxis]
        statistics = weight_statistics(features, y, 1.0 / noise, residual)
        # the volume of rows in units of the noise
        constant = -0.5 * float(standard.weights @ np.log(noise * standard.weights))
        statistics = statistics._replace(weight=float(standard.weights.sum()))
    return model, RowSums(statistics, constant - log_volume)


def _with_predecessors(
    model: NeighborModel,
    rows: Rows,
    noise: Array,
) -> tuple[NeighborModel, WeightStatistics, float]:
    """The model with more rows, the sums over these, and the ``log det`` of their W."""
    old = model.residual
    n_old = len(old.rows)
    n_new = len(rows.y)
    # 1 predecessors among the old rows, and the new ones before
    is_new = np.arange(n_old + n_new) >= n_old
    scales = neighbor_scales(old.kernel, old.rows.shape[1])
    nearest, count = predecessors(
        np.concatenate((old.rows, rows.X)) / scales,
        old.n_neighbors,
        chosen=is_new,
    )
    # 2 the new rows become the first ones
    nearest = np.where(nearest < n_old, nearest + n_new, nearest - n_old)
    residual = replace(
        old,
        rows=np.concatenate((rows.X, old.rows)),
        noise=np.concatenate((noise[:, np.newaxis], old.noise)),
        features=np.concatenate((old.basis(rows.X), old.features)),
    )
    y = np.concatenate((rows.y, model.y[:, 0]))
    model = replace(model, residual=residual, y=y[:, np.newaxis])
    (statistics,), log_det = sums_of_first_rows(model, nearest, count)
    return model, statistics, log_det


def rows_of_model(model: NeighborModel, n_rows: int, likelihood: Likelihood) -> Rows:
    """The first rows of a model, with y in its units."""
    X = model.residual.rows[:n_rows]
    scale = float(np.ravel(model.scale)[0])
    y = scale * model.y[:n_rows, 0]
    if model.mean is not None:
        y = y + model.mean(X)[:, 0]
    noise = scale**2 * model.residual.noise[:n_rows, 0]
    return Rows(X, y, float(likelihood.variance(0.0)) / noise)


def same_functions(
    first: LatentModel | NeighborModel,
    second: LatentModel | NeighborModel,
) -> bool:
    """Whether sums over the features of two models may be added."""
    has_neighbors = isinstance(first, NeighborModel)
    if isinstance(second, NeighborModel) != has_neighbors:
        return False
    points = first.basis.inducing_points  # type: ignore[union-attr]
    other_points = second.basis.inducing_points  # type: ignore[union-attr]
    zero = np.zeros((1, points.shape[1]))
    same_mean = np.array_equal(_mean_at(first, zero), _mean_at(second, zero))
    return (
        np.array_equal(points, other_points)
        and first.basis.kernel == second.basis.kernel  # type: ignore[union-attr]
        and first.n_neighbors == second.n_neighbors
        and np.array_equal(first.scale, second.scale)
        and same_mean
    )


def _mean_at(model: LatentModel | NeighborModel, X: Array) -> Array:
    if model.mean is None:
        return np.zeros((len(X), 1))
    return model.mean(X)
