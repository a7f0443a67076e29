"""A location, and the logarithm of its scale, each given nearest rows."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import NeighborModel, SeparateFunctions
from skgpx._parallel import blas_jobs, n_workers
from skgpx._pls._nearest_rows import FixedPoint, closest_normal, inference_of
from skgpx._pls._sampler import Inference, Sampler
from skgpx._row_statistics import neighbor_systems
from skgpx._selection import (
    LatentMoments,
    bounded_responses,
    errors_given_others,
    latent_moments,
    squared_scales,
)
from skgpx._validation import Rows
from skgpx.bases import NeighborResidual, Nystroem, select_inducing
from skgpx.diagnostics import rows_not_converged
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Alternations, and the mean squared change of the log scale, in units of its variance,
# after which they end.
_MAX_ROUNDS = 8
_SETTLED = 0.01
# Alternations of moments given nearest others, at which they start.
_START_ROUNDS = 3
# Inducing points of the log scale, at most: a row says too little of its scale for
# more.
_SCALE_POINTS = 300


class OneFunction(NamedTuple):
    """One of the functions, before its noise is known.

    Attributes
    ----------
    residual : NeighborResidual
    nearest : ndarray of shape (1, n, N)
        Nearest predecessors of the rows.
    n_predecessors : ndarray of shape (1, n)
        How many of them there are.
    systems : list of ndarray or None
        Covariances among them.
    n_jobs : int or None
    """

    residual: NeighborResidual
    nearest: Index
    n_predecessors: Index
    systems: list[Array] | None
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        basis: Nystroem,
        rows: Rows,
        sampler: Sampler,
        rng: np.random.Generator,
    ) -> OneFunction:
        """Order the rows, and search for their nearest predecessors."""
        residual = NeighborResidual(
            basis=basis,
            rows=rows.X,
            noise=np.ones((len(rows.y), 1)),
            features=basis(rows.X),
            n_neighbors=sampler.n_neighbors,
        )
        n_jobs = sampler.n_jobs
        nearest, count = residual.predecessors(rng, n_workers(blas_jobs(n_jobs)))
        systems = neighbor_systems(residual, nearest, n_jobs)
        return cls(residual, nearest, count, systems, n_jobs)

    def closest_normal(
        self,
        rows: Rows,
        likelihood: Likelihood,
        moments: LatentMoments,
    ) -> FixedPoint:
        """Closest normal distribution to the posterior of this function."""
        responses = bounded_responses(rows, likelihood, moments)
        return closest_normal(
            residual=replace(self.residual, noise=responses.noise),
            nearest=self.nearest,
            count=self.n_predecessors,
            rows=rows,
            likelihood=likelihood,
            responses=responses,
            n_jobs=self.n_jobs,
            systems=self.systems,
        )


def location_and_scale(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: np.random.Generator,
) -> Inference:
    """Posterior of a location and of the log scale of its noise, given all rows.

    The two are independent under q, and each is the closest normal distribution to the
    posterior given the other: the location under noise of the scales
    ``1 / E exp(-2 variation s)``, and the log scale given the errors of the location at
    each row given the others, see
    :func:`~skgpx._selection._location_and_scale.location_and_scale`. The log scale has
    the kernel `scale_kernel_` of the likelihood, or that of the location.

    Parameters as in :func:`~skgpx._pls._inference.infer`.

    Notes
    -----
    Some ten rounds of :func:`~skgpx._pls._nearest_rows.nearest_rows`.
    """
    order_rng, scale_order_rng, points_rng = rng.spawn(3)
    y = likelihood.initial_latent(rows.y)[:, 0]
    location = likelihood.of_location(y, rows.weights)
    scale = likelihood.of_scale(location)
    # 1 the two functions
    location_function = OneFunction.of(basis, rows, sampler, order_rng)
    scale_basis = basis
    if likelihood.scale_kernel_ is not None:
        points = select_inducing(
            "greedy",
            rows.X,
            likelihood.scale_kernel_,
            min(basis.n_basis, _SCALE_POINTS),
            points_rng,
            rows.weights,
        )
        scale_basis = Nystroem.from_kernel(likelihood.scale_kernel_, points)
    scale_function = OneFunction.of(scale_basis, rows, sampler, scale_order_rng)
    # 2 moments given the nearest others of each row
    location_rows = rows._replace(y=y, known=None)
    location_moments = LatentMoments.of_prior(basis.kernel, rows, 1)
    scale_moments = LatentMoments.of_prior(scale_basis.kernel, rows, 1)
    for _ in range(_START_ROUNDS):
        location_moments, given_others = latent_moments(
            location_rows,
            basis.kernel,
            location,
            location_moments,
        )
        errors = errors_given_others(location_rows, given_others)
        scale_moments, _ = latent_moments(
            errors,
            scale_basis.kernel,
            scale,
            scale_moments,
        )
        squared_scale = squared_scales(scale_moments, scale)
        location_rows = location_rows._replace(known=squared_scale)
    # 3 given nearest predecessors, in turn
    for _ in range(_MAX_ROUNDS):
        location_point = location_function.closest_normal(
            location_rows,
            location,
            location_moments,
        )
        location_moments = location_point.moments
        errors = errors_given_others(location_rows, location_point.given_others())
        scale_point = scale_function.closest_normal(errors, scale, scale_moments)
        step = scale_point.moments.mean - scale_moments.mean
        change = float(np.mean(step**2 / scale_point.moments.variance))
        scale_moments = scale_point.moments
        inference = _inference_at(
            (location_point, scale_point),
            rows,
            likelihood,
            scale,
            sampler,
            copy.deepcopy(rng),
            change < _SETTLED,
        )
        stop = sampler.report is not None and sampler.report(inference)
        if change < _SETTLED or stop:
            break
        squared_scale = squared_scales(scale_moments, scale)
        location_rows = location_rows._replace(known=squared_scale)
    return inference


def _inference_at(
    points: tuple[FixedPoint, FixedPoint],
    rows: Rows,
    likelihood: Likelihood,
    scale: Likelihood,
    sampler: Sampler,
    rng: np.random.Generator,
    converged: bool,
) -> Inference:
    """Posterior of the weights of both functions."""
    models = []
    for point in points:
        z = point.responses.y
        models.append(
            NeighborModel(
                residual=point.residual,
                y=z,
                weights=point.covariances[0].weights(z),
                versions=np.zeros(1, dtype=np.intp),
            )
        )
    posterior = SeparateFunctions(tuple(models))
    evidence = _bound(points, rows, likelihood, scale)
    inference = inference_of(posterior, likelihood, evidence, sampler, rng)
    return inference._replace(findings=(rows_not_converged(converged),))


def _bound(
    points: tuple[FixedPoint, FixedPoint],
    rows: Rows,
    likelihood: Any,
    scale: Any,
) -> float:
    """``E log p(y | f, s) - KL(location) - KL(log scale)``, in nats.

    The bound of the location is that of rows in units of their scales κ, of which the
    mean logarithm is ``E variation s``.
    """
    location, log_scale = points
    log_units = scale.variation * log_scale.moments.mean[:, 0]
    log_units = log_units + np.log(likelihood.unit_)
    divergence = -log_scale.responses.energy - log_scale.log_evidence
    bound = location.log_evidence - divergence
    return bound - float(rows.weights @ log_units)
