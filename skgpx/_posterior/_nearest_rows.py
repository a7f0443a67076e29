"""Nearest rows: regression, or the closest normal distribution to the posterior."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import optimize

from skgpx._hyperparameters import (
    ExactEvidence,
    NoisyValues,
    Regression,
    ResponsesAt,
    Sites,
    fixed_point,
    latent_moments,
)
from skgpx._latent import Mean, NeighborModel
from skgpx._numerics.weights import GaussianWeights
from skgpx._posterior._sampler import Inference, Sampler, inference_of, prior_mean
from skgpx._row_budgets import COMPARED_ROWS
from skgpx._shell.parallel import blas_jobs, n_workers
from skgpx._shell.row_statistics import (
    WhitenedRows,
    neighbor_systems,
    neighbor_whitening,
)
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.diagnostics import rows_not_converged
from skgpx.likelihoods import Gaussian, Likelihood

# Rows, and predecessors of each, by whose density the noise of a target is estimated.
_NOISE_ROWS = 2000
_NOISE_NEIGHBORS = 20


def nearest_rows(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Posterior given all rows, each conditioned on its nearest predecessors.

    Under Gaussian noise it is exact regression. For any other likelihood it is the
    normal distribution q(f) that is closest to the posterior in the divergence
    ``KL(q | posterior)``, that is, the fixed point of regression on working responses
    that are averaged over q [1]_::

        z = m - E g / E c,   D = 1 / E c,   f ~ N(m, diag v)
        m = K (K + D)⁻¹ z,   v = diag(K - K (K + D)⁻¹ K)

    with the gradient g and the second derivative c of the negative log-likelihood, and
    E c where it is positive. Predictions use the posterior itself, not the draws.
    Parameters as in :func:`~skgpx._pls._inference.infer`.

    The functions of several targets or classes are independent under q. Targets whose
    noise is the same have one factorisation, and each target the rows where it is
    known. A location and its scale have a page of their own,
    :func:`~skgpx._posterior._location_and_scale.location_and_scale`.

    Notes
    -----
    O(n N^2 (k N + M) + k n M^2) a round for k different noises. There is one round for
    Gaussian noise; some five suffice for most other likelihoods.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """
    if likelihood.has_closed_form:
        return _regression(basis, rows, likelihood, sampler, rng)
    # 1 nearest predecessors, in a random order
    n_functions = likelihood.n_outputs_
    # the noise of a working response says how often its row counts
    unweighted = rows._replace(weights=np.ones(len(rows.y)))
    order_rng = rng.spawn(1)[0]
    functions = NearestFunctions.of(basis, unweighted, sampler, order_rng, n_functions)
    # 2 working responses around moments given the nearest rows alone
    responses_at = ResponsesAt.of(rows, likelihood, basis.kernel)
    moments, _ = latent_moments(rows, basis.kernel, likelihood)

    def respond(regression: NearestRegression, sites: Sites) -> Sites:
        return responses_at.next_sites(regression.moments, sites)

    def inference_at(
        regression: NearestRegression,
        sites: Sites,
        rng: Generator,
    ) -> Inference:
        evidence = regression.log_density + responses_at.bound_beyond(
            regression.moments,
            regression.values,
            sites.energy,
        )
        if responses_at.of_contrasts:
            evidence -= regression.density_of_zeros / n_functions
        posterior = regression.model(prior_mean(likelihood))
        return inference_of(posterior, likelihood, evidence, sampler, rng)

    def report(regression: NearestRegression, sites: Sites) -> bool:
        if sampler.report is None:
            return False
        # the same draws in every round
        return sampler.report(inference_at(regression, sites, copy.deepcopy(rng)))

    # 3 regression on them, and those around its moments, in turn
    regression, sites, converged = fixed_point(
        responses_at.first_sites(moments), functions.given, respond, report
    )
    inference = inference_at(regression, sites, rng)
    return inference._replace(findings=(rows_not_converged(converged),))


# ---- Gaussian noise ------------------------------------------------------------------


def _regression(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Regression of one or several targets, each on the rows where it is known."""
    n = len(rows.y)
    y = rows.y.reshape(n, -1)
    n_targets = y.shape[1]
    has_value = np.isfinite(y)
    noise_variance = float(likelihood.variance(0.0))
    noises = np.full(n_targets, noise_variance)
    noise_of_rows = noise_variance / rows.precisions
    # 1 nearest predecessors, in a random order, of the rows with a value
    features = basis(rows.X)
    residual = NeighborResidual(
        basis=basis,
        rows=rows.X,
        noise=np.where(has_value, noise_of_rows[:, np.newaxis], np.inf),
        features=features,
        n_neighbors=sampler.n_neighbors,
    )
    order_rng, noise_rng = rng.spawn(2)
    n_jobs = sampler.n_jobs
    nearest, count = residual.predecessors(order_rng, n_workers(blas_jobs(n_jobs)))
    # 2 noise of each target; those with the same noise are one version
    if n_targets > 1:
        if sampler.noise_is_free and len(likelihood.theta):
            noises = _noises_of_targets(
                residual, nearest, count, rows, likelihood, noise_rng
            )
        likelihood = likelihood.with_noise(noises)
    keys = np.column_stack((residual.search_of_version, noises))
    _, first, versions = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    versions = np.ravel(versions)
    noise = residual.noise * (noises / noise_variance)
    residual = replace(residual, noise=noise[:, first])
    # 3 W, which makes the rows independent given w, and regression of W y on W Φ
    values = np.where(has_value, y, 0.0)
    means = np.empty((basis.n_basis, n_targets))
    roots = []
    evidence = 0.0
    for version, W in enumerate(neighbor_whitening(residual, nearest, count, n_jobs)):
        targets = np.flatnonzero(versions == version)
        covariance = WhitenedRows.of(W, features)
        distribution = covariance.weights(values[:, targets])
        means[:, targets] = distribution.mean
        roots.append(distribution.root[0])
        evidence += covariance.log_density(values[:, targets])
    root = np.stack(roots)
    if len(roots) > 1:
        root = root[versions]
    # ω rows of noise σ² stand for a row of weight ω
    log_volumes = np.log(2.0 * np.pi * noise)
    log_volumes -= rows.weights[:, np.newaxis] * np.log(2.0 * np.pi * noises)
    evidence += 0.5 * float(np.sum(log_volumes[has_value]))
    posterior = NeighborModel(
        residual=residual,
        y=values,
        weights=GaussianWeights(means, root),
        versions=versions,
        mean=prior_mean(likelihood),
    )
    return inference_of(posterior, likelihood, evidence, sampler, rng)


def _noises_of_targets(
    residual: NeighborResidual,
    nearest: Index,
    count: Index,
    rows: Rows,
    likelihood: Gaussian,
    rng: Generator,
) -> Array:
    """Noise variance of each target, by the density of rows given predecessors, (t,).

    Of at most 2000 rows, given 20 predecessors each.
    """
    low, high = likelihood.theta_bounds[0]
    noises = np.empty(rows.y.shape[1])
    order = rng.permutation(len(rows.y))
    n_given = min(_NOISE_NEIGHBORS, nearest.shape[2])
    for target in range(len(noises)):
        search = residual.search_of_version[target]
        candidates = order[count[search, order] >= n_given]
        candidates = candidates[np.isfinite(rows.y[candidates, target])]
        chosen = np.sort(candidates[:_NOISE_ROWS])
        given = nearest[search, chosen, :n_given]
        density = ExactEvidence(
            rows._replace(y=rows.y[:, target]),
            residual.kernel,
            likelihood,
            members=np.column_stack((given, chosen)),
            n_given=n_given,
        )
        optimum = optimize.minimize_scalar(
            lambda log_noise, density=density: (
                -density.value(residual.kernel, float(np.exp(log_noise)))
            ),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 0.02},
        )
        noises[target] = np.exp(optimum.x)
    return noises


# ---- Points alone, or nearest rows? --------------------------------------------------


def points_are_closer(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    points: Array,
    fewer_points: Array,
    n_neighbors: int,
    rng: Generator,
) -> bool:
    """Whether many points predict better than fewer ones and nearest rows.

    Under the prior a new value y has the expected log density ``-½ E log 2πe var y``.
    Given the weights of the points its variance is ``σ² + var g``, with the residual g
    that they leave out, or ``σ² + var h`` if noisy values of g are known nearby. Both
    the mean of its logarithm and its mean, the expected squared error, have to be
    smaller: points leave out much at outlying rows.

    Notes
    -----
    O(M^3) for M points, and O(N (M^2 + N^2)) for each of 200 rows.
    """
    chosen = np.sort(rng.permutation(len(rows.y))[:COMPARED_ROWS])
    X = rows.X[chosen]
    basis = Nystroem.from_kernel(kernel, points)
    fewer = Nystroem.from_kernel(kernel, fewer_points)
    residual = basis.residual_variance(X, basis(X))
    # predictions take inducing points to be known: they are no new rows
    smallest = np.minimum(residual, fewer.residual_variance(X, fewer(X)))
    is_new = smallest > 1e-8 * np.max(kernel.diag(X))
    if not np.any(is_new):
        return True
    # 1 many points
    by_points = noise_variance + residual[is_new]
    # 2 fewer ones, and nearest rows
    noise = (noise_variance / rows.precisions)[:, np.newaxis]
    all_rows = NeighborResidual(
        basis=fewer,
        rows=rows.X,
        noise=noise,
        features=np.empty((0, fewer.n_basis)),
        n_neighbors=n_neighbors,
    )
    nearest, count = all_rows.nearest_others(chosen[is_new])
    used, position = np.unique(nearest, return_inverse=True)
    _, variance = all_rows.of_rows(used).features_and_variance(
        X[is_new],
        position.reshape(nearest.shape),
        count,
    )
    by_neighbors = noise_variance + variance[0]
    log_ratio = np.log(by_points / by_neighbors)
    return bool(np.mean(log_ratio) < 0.0 and by_points.mean() < by_neighbors.mean())


# ---- Functions given noisy values at the rows ----------------------------------------


@dataclass(frozen=True)
class NearestRegression(Regression):
    """:class:`Regression` given nearest rows.

    Parameters
    ----------
    residual : NeighborResidual
        With the noise of the rows.
    covariances : list of c WhitenedRows
        ``C = K + D`` of each function.
    """

    residual: NeighborResidual
    covariances: list[WhitenedRows]

    def model(self, mean: Mean | None = None) -> NeighborModel:
        """Posterior of the functions everywhere."""
        z = self.values.y
        distributions = [
            covariance.weights(z[:, [function]])
            for function, covariance in enumerate(self.covariances)
        ]
        means = [weights.mean for weights in distributions]
        roots = [weights.root for weights in distributions]
        return NeighborModel(
            residual=self.residual,
            y=z,
            weights=GaussianWeights(
                mean=np.concatenate(means, axis=1),
                root=np.concatenate(roots),
            ),
            versions=np.arange(z.shape[1]),
            mean=mean,
        )

    @property
    def log_density(self) -> float:
        """Log density of the values, in nats."""
        z = self.values.y
        return sum(
            covariance.log_density(z[:, [function]])
            for function, covariance in enumerate(self.covariances)
        )

    @property
    def density_of_zeros(self) -> float:
        """Log density of values of zero, in nats."""
        zeros = np.zeros((len(self.values.y), 1))
        return sum(covariance.log_density(zeros) for covariance in self.covariances)


class NearestFunctions(NamedTuple):
    """Independent functions, before the noise of their values is known.

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

    @property
    def kernel(self) -> Kernel:
        """Prior covariance of each function."""
        return self.residual.kernel

    @classmethod
    def of(
        cls,
        basis: Nystroem,
        rows: Rows,
        sampler: Sampler,
        rng: Generator,
        n_functions: int = 1,
    ) -> NearestFunctions:
        """Order the rows, and search for their nearest predecessors."""
        residual = NeighborResidual(
            basis=basis,
            rows=rows.X,
            noise=np.ones((len(rows.y), n_functions)),
            features=basis(rows.X),
            n_neighbors=sampler.n_neighbors,
        )
        n_jobs = sampler.n_jobs
        nearest, count = residual.predecessors(rng, n_workers(blas_jobs(n_jobs)))
        systems = neighbor_systems(residual, nearest, n_jobs)
        weights = rows.weights[:, np.newaxis]
        return cls(residual, weights, nearest, count, systems, n_jobs)

    def given(self, values: NoisyValues) -> NearestRegression:
        """Condition them on noisy values at the rows."""
        z = values.y
        # one observation for so many of the same value
        noise = values.noise / self.weights
        residual = replace(self.residual, noise=noise)
        covariances = []
        duals = []
        diagonals = []
        whitening = neighbor_whitening(
            residual,
            self.nearest,
            self.n_predecessors,
            self.n_jobs,
            self.systems,
        )
        for function, W in enumerate(whitening):
            covariance, diagonal = WhitenedRows.with_inverse_diagonal(
                W,
                residual.features,
            )
            covariances.append(covariance)
            duals.append(covariance.solve(z[:, function]))
            diagonals.append(diagonal)
        return NearestRegression(
            values=values,
            noise=noise,
            duals=np.column_stack(duals),
            precisions=np.column_stack(diagonals),
            residual=residual,
            covariances=covariances,
        )
