"""A location, and the logarithm of its scale, each given nearest rows."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import NeighborModel, SeparateFunctions
from skgpx._numerics.expectations import expectation_nodes
from skgpx._parallel import blas_jobs, n_workers
from skgpx._pls._nearest_rows import inference_of
from skgpx._pls._sampler import Inference, Sampler
from skgpx._row_statistics import (
    WhitenedRows,
    neighbor_systems,
    neighbor_whitening,
)
from skgpx._selection import (
    SETTLED,
    LatentMoments,
    NoisyValues,
    counted_errors,
    evidence_of,
    location_noise,
    noise_of_one_scale,
    scale_observations,
)
from skgpx._validation import Rows
from skgpx.bases import NeighborResidual, Nystroem, select_inducing
from skgpx.diagnostics import Finding, rows_not_converged
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Alternations, and steps of the log scale in each.
_MAX_ROUNDS = 12
_MAX_STEPS = 8
# Inducing points of the log scale, at most: a row says too little of its scale for
# more.
_SCALE_POINTS = 300


class Regression(NamedTuple):
    """One of the functions, given noisy values of it at the rows.

    Attributes
    ----------
    residual : NeighborResidual
        With their noise.
    covariance : WhitenedRows
        ``C = K + D``.
    observations : NoisyValues
        A row of weight ω stands for ω of them.
    given_others : LatentMoments
        Moments at each row, given all observations but one of the row itself.
    """

    residual: NeighborResidual
    covariance: WhitenedRows
    observations: NoisyValues
    given_others: LatentMoments

    @property
    def model(self) -> NeighborModel:
        """Posterior of the function everywhere."""
        z = self.observations.y
        return NeighborModel(
            residual=self.residual,
            y=z,
            weights=self.covariance.weights(z),
            versions=np.zeros(1, dtype=np.intp),
        )

    @property
    def log_density(self) -> float:
        """Of the observations, less that of each given the others, in nats."""
        z, noise = self.observations
        mean, variance = self.given_others
        omega = noise / self.residual.noise
        total = variance + noise
        given_others = (z - mean) ** 2 / total + np.log(2.0 * np.pi * total)
        # ω observations of noise D, instead of their mean of noise D / ω
        volumes = np.log(2.0 * np.pi * noise / omega)
        volumes = volumes - omega * np.log(2.0 * np.pi * noise)
        surplus = 0.5 * float(np.sum(omega * given_others + volumes))
        return self.covariance.log_density(z) + surplus


class OneFunction(NamedTuple):
    """One of the functions, before its noise is known.

    Attributes
    ----------
    residual : NeighborResidual
    weights : ndarray of shape (n, 1)
        Of the rows.
    nearest : ndarray of shape (1, n, N)
        Nearest predecessors of the rows.
    n_predecessors : ndarray of shape (1, n)
        How many of them there are.
    systems : list of ndarray or None
        Covariances among them.
    n_jobs : int or None
    """

    residual: NeighborResidual
    weights: Array
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
        weights = rows.weights[:, np.newaxis]
        return cls(residual, weights, nearest, count, systems, n_jobs)

    def given(self, observations: NoisyValues) -> Regression:
        """Condition it on noisy values at the rows."""
        z = observations.y
        noise = observations.averages_of(self.weights[:, 0]).noise
        residual = replace(self.residual, noise=noise)
        W = neighbor_whitening(
            residual,
            self.nearest,
            self.n_predecessors,
            self.n_jobs,
            self.systems,
        )
        covariance, inverse_diagonal = WhitenedRows.with_inverse_diagonal(
            next(iter(W)),
            residual.features,
        )
        # the moments of each row without its own observations, from C⁻¹
        dual = covariance.solve(z)
        diagonal = inverse_diagonal[:, np.newaxis]
        without_row = LatentMoments(
            mean=z - dual / diagonal,
            variance=np.maximum(1.0 / diagonal - noise, 1e-6 * noise),
        )
        # and with all but one of them
        n_left = np.maximum(self.weights - 1.0, 0.0)
        given_others = without_row.given(observations, n_left)
        return Regression(residual, covariance, observations, given_others)


def location_and_scale(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: np.random.Generator,
) -> Inference:
    """Posterior of a location and of the log scale of its noise, given all rows.

    Parallel expectation propagation with two independent functions [1]_. Each row has a
    normal observation of either function. They stand for what the row says of these,
    given their moments without the row itself, see
    :meth:`~skgpx.likelihoods._scale_of_errors.ScaleOfErrors.evidence_of`. The log scale
    has the kernel `scale_kernel_` of the likelihood, or that of the location.

    Parameters as in :func:`~skgpx._pls._inference.infer`.

    The location has the variance that its mean has as a linear estimator, whatever the
    scale is: see :func:`_under_uncertain_scale`.

    Notes
    -----
    Some eight rounds of :func:`~skgpx._pls._nearest_rows.nearest_rows`, and one more
    regression.

    References
    ----------
    .. [1] Tolvanen, Jylänki and Vehtari, "Expectation propagation for nonstationary
       heteroscedastic Gaussian process regression", MLSP 2014, arXiv:1404.5443.
    """
    order_rng, scale_order_rng, points_rng = rng.spawn(3)
    y = likelihood.initial_latent(rows.y)[:, 0]
    location_rows = rows._replace(y=y, known=None)
    of_scale: Any = likelihood.of_scale()
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
    error_rows = location_rows._replace(weights=counted_errors(rows.weights))
    scale_function = OneFunction.of(scale_basis, error_rows, sampler, scale_order_rng)
    # 2 noise of one scale, and the log scale under its prior
    noise = noise_of_one_scale(location_rows, of_scale)
    scale_values = NoisyValues.nothing(len(y), 1)
    given_others = LatentMoments.of_prior(scale_basis.kernel, rows, 1)
    findings: tuple[Finding | None, ...] = (rows_not_converged(converged=False),)
    for _ in range(_MAX_ROUNDS):
        # 3 the location, given the noise of each row
        location_values = NoisyValues(y[:, np.newaxis], noise[:, np.newaxis])
        location = location_function.given(location_values)
        mean, variance = location.given_others
        errors = error_rows._replace(y=y - mean[:, 0], known=variance[:, 0])
        # 4 the log scale, given the errors of the location
        previous = given_others
        scale = _scale_given(
            errors,
            scale_function,
            of_scale,
            given_others,
            scale_values,
        )
        scale_values = scale.observations
        given_others = scale.given_others
        converged = given_others.change_from(previous) < SETTLED
        # 5 the posterior
        all_errors = errors._replace(weights=rows.weights)
        evidence = _log_evidence(location, scale, all_errors, likelihood, of_scale)
        posterior = SeparateFunctions((location.model, scale.model))
        inference = inference_of(
            posterior,
            likelihood,
            evidence,
            sampler,
            copy.deepcopy(rng),
        )
        stop = sampler.report is not None and sampler.report(inference)
        if converged or stop:
            findings = ()
            break
        # 6 the noise of each row
        noise = location_noise(errors, of_scale, given_others)
    # 7 the variance of the location, whose noise is not known
    location = _under_uncertain_scale(
        location,
        scale,
        location_function,
        variance[:, 0],
        likelihood,
        of_scale,
    )
    posterior = SeparateFunctions((location.model, scale.model))
    inference = inference_of(posterior, likelihood, evidence, sampler, rng)
    return inference._replace(findings=findings)


def _scale_given(
    errors: Rows,
    function: OneFunction,
    likelihood: Any,
    given_others: LatentMoments,
    observations: NoisyValues,
) -> Regression:
    """The log scale given errors, by steps from where it was."""
    for _ in range(_MAX_STEPS):
        observations = scale_observations(
            errors,
            likelihood,
            given_others,
            observations,
        )
        regression = function.given(observations)
        previous = given_others
        given_others = regression.given_others
        if given_others.change_from(previous) < SETTLED:
            break
    return regression


def _under_uncertain_scale(
    location: Regression,
    scale: Regression,
    function: OneFunction,
    variance: Array,
    likelihood: Likelihood,
    of_scale: Any,
) -> Regression:
    """The location with its mean, and the variance that this has under any scale.

    The noise D of a row is nearly the harmonic mean of its variances T where the
    location is certain: the sum of many precisions is certain, even if each of them is
    not. The log scale f₂ of neighbouring rows is wrong by the same error, however, and
    a mean ``Σ a_i y_i`` has the variance ``Σ a_i² E T_i`` of noise. So the rows get the
    mean of T given f₂, for v the variance of the location without the row::

        D* = D E[T] E[1 / (v + T)] / E[T / (v + T)]
        T = D exp(2 variation (f₂ - E f₂))

    The information of ε on the location is that of Fisher, which is less than its mean
    precision under heavy tails. Values ``y + (D* - D) C⁻¹ y`` keep the mean.

    Parameters
    ----------
    location, scale : Regression
    function : OneFunction
        The location.
    variance : ndarray of shape (n,)
        ``v``.
    likelihood : Likelihood
    of_scale : ScaleOfErrors
    """
    z, noise = location.observations
    # the log scale given all observations
    all_given = scale.given_others.given(scale.observations, np.ones_like(z))
    nodes, masses = expectation_nodes(1)
    deviation = np.sqrt(all_given.variance) * nodes[:, 0]
    T = noise * np.exp(2.0 * of_scale.variation * deviation)
    total = variance[:, np.newaxis] + T
    # D as in the evidence of a row
    as_known = ((T / total) @ masses) / ((1.0 / total) @ masses)
    factor = (T @ masses) / as_known
    mean_precision = float(np.exp(of_scale.log_weights) @ (1.0 / of_scale.noise))
    fisher, _ = likelihood._fisher_information()
    shared = noise * (factor * mean_precision / fisher)[:, np.newaxis]
    # of a row of weight ω the noise is D / ω
    change = (shared - noise) / function.weights
    values = z + change * location.covariance.solve(z)
    return function.given(NoisyValues(values, shared))


def _log_evidence(
    location: Regression,
    scale: Regression,
    errors: Rows,
    likelihood: Any,
    of_scale: Any,
) -> float:
    """``Σ log N(z | 0, C) + Σ log p(y | others) - Σ log N(z | others)``, in nats.

    Of the observations of both functions, and of y instead of the observations of each
    row.
    """
    evidence = evidence_of(errors, of_scale, scale.given_others)
    # y, of which the location is a part
    of_rows = evidence.log_density - np.log(likelihood.unit_)
    of_y = float(errors.weights @ of_rows)
    return location.log_density + scale.log_density + of_y
