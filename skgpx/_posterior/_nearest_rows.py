"""Nearest rows: regression, or the closest normal distribution to the posterior."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from skgpx._hyperparameters import (
    LatentMoments,
    NeighborhoodDensity,
    NoisyValues,
    ResponsesAt,
    Sites,
    counted_errors,
    evidence_of,
    fixed_point,
    latent_moments,
)
from skgpx._latent import Mean, NeighborModel, SeparateFunctions
from skgpx._numerics.expectations import expectation_nodes
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
from skgpx.bases import NeighborResidual, Nystroem, select_inducing
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
    :func:`~skgpx._posterior._nearest_rows.location_and_scale`.

    Notes
    -----
    O(n N^2 (k N + M) + k n M^2) a round for k different noises. There is one round for
    Gaussian noise; two to eight suffice for other likelihoods.

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
    counted_once = rows._replace(weights=np.ones(len(rows.y)))
    order_rng = rng.spawn(1)[0]
    functions = NearestFunctions.of(
        basis, counted_once, sampler, order_rng, n_functions
    )
    # 2 working responses around moments given the nearest rows alone
    responses_at = ResponsesAt.of(rows, likelihood, basis.kernel)
    moments, _ = latent_moments(rows, basis.kernel, likelihood)

    def respond(regression: Regression, sites: Sites) -> Sites:
        return responses_at.next_sites(regression.moments, sites)

    def inference_at(
        regression: Regression,
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

    def report(regression: Regression, sites: Sites) -> bool:
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
        density = NeighborhoodDensity(
            rows._replace(y=rows.y[:, target]),
            np.column_stack((given, chosen)),
            n_given,
            residual.kernel,
            likelihood,
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


class Regression(NamedTuple):
    """Independent functions, given noisy values of each at the rows.

    Attributes
    ----------
    residual : NeighborResidual
        With their noise.
    covariances : list of c WhitenedRows
        ``C = K + D`` of each function.
    values : NoisyValues
        A row of weight ω stands for ω of them.
    given_others : LatentMoments
        Moments at each row, given all observations but one of the row itself.
    """

    residual: NeighborResidual
    covariances: list[WhitenedRows]
    values: NoisyValues
    given_others: LatentMoments

    @property
    def moments(self) -> LatentMoments:
        """Given all observations."""
        # the row itself counts as often as it occurs, at most once more than the others
        omega = self.values.noise / self.residual.noise
        return self.given_others.given(self.values, np.minimum(omega, 1.0))

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

    @property
    def density_beside_rows(self) -> float:
        """Log density of the values, less those of each row given the others."""
        z, noise = self.values
        mean, variance = self.given_others
        omega = noise / self.residual.noise
        total = variance + noise
        given_others = (z - mean) ** 2 / total + np.log(2.0 * np.pi * total)
        # ω observations of noise D, instead of their mean of noise D / ω
        volumes = np.log(2.0 * np.pi * noise / omega)
        volumes = volumes - omega * np.log(2.0 * np.pi * noise)
        return self.log_density + 0.5 * float(np.sum(omega * given_others + volumes))


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

    def given(self, values: NoisyValues) -> Regression:
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
        # the moments of each row without its own observations, from C⁻¹
        diagonal = np.column_stack(diagonals)
        without_row = LatentMoments(
            mean=z - np.column_stack(duals) / diagonal,
            variance=np.maximum(1.0 / diagonal - noise, 1e-6 * noise),
        )
        # and with all but one of them
        n_left = np.maximum(self.weights - 1.0, 0.0)
        given_others = without_row.given(values, n_left)
        return Regression(residual, covariances, values, given_others)


# ---- A location, and the logarithm of its scale, each given nearest rows -------------


# Inducing points of the log scale, at most: a row says too little of its scale for
# more.
_SCALE_POINTS = 300


def location_and_scale(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
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
    Eight to ten regressions of either function on all rows, mostly.

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
    location_function = NearestFunctions.of(basis, rows, sampler, order_rng)
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
    scale_function = NearestFunctions.of(
        scale_basis,
        error_rows,
        sampler,
        scale_order_rng,
    )

    # 2 regression of each of them on its observations
    def regress(values: NoisyValues) -> Functions:
        z, noise = values
        location = location_function.given(NoisyValues(z[:, :1], noise[:, :1]))
        scale = scale_function.given(NoisyValues(z[:, 1:], noise[:, 1:]))
        return Functions(location, scale)

    # 3 what each row says of both, given their moments without it
    def sites_at(moments: LatentMoments, sites: Sites) -> Sites:
        evidence = evidence_given(moments)
        values = NoisyValues(
            y=np.column_stack((y, evidence.value)),
            noise=np.column_stack((evidence.location_noise, evidence.value_noise)),
        )
        return sites.moved(moments, values)

    def evidence_given(moments: LatentMoments) -> Any:
        errors = error_rows._replace(
            y=y - moments.mean[:, 0],
            known=moments.variance[:, 0],
        )
        scale_moments = LatentMoments(moments.mean[:, 1:], moments.variance[:, 1:])
        return evidence_of(errors, of_scale, scale_moments)

    def respond(functions: Functions, sites: Sites) -> Sites:
        return sites_at(functions.given_others, sites)

    def log_evidence(functions: Functions) -> float:
        # Σ log N(z | 0, C) + Σ log p(y | others) - Σ log N(z | others): the densities
        # of the observations, and that of y in the place of those of each row
        evidence = evidence_given(functions.given_others)
        of_rows = evidence.log_density - np.log(likelihood.unit_)
        return functions.log_density + float(rows.weights @ of_rows)

    def report(functions: Functions, _: Sites) -> bool:
        if sampler.report is None:
            return False
        inference = inference_of(
            functions.model,
            likelihood,
            log_evidence(functions),
            sampler,
            copy.deepcopy(rng),
        )
        return sampler.report(inference)

    # 4 both in turn, from a location under its prior and a scale known to a factor of e
    scale_prior = LatentMoments.of_prior(scale_basis.kernel, rows, 1)
    known_scale = np.minimum(scale_prior.variance, of_scale.variation**-2)
    start = LatentMoments.of_functions(
        LatentMoments.of_prior(basis.kernel, rows, 1),
        scale_prior._replace(variance=known_scale),
    )
    first = sites_at(start, Sites.nothing(start))
    functions, _, converged = fixed_point(first, regress, respond, report)
    # 5 the variance of the location, whose noise is not known
    location = _under_uncertain_scale(
        functions,
        location_function,
        likelihood,
        of_scale,
    )
    inference = inference_of(
        functions._replace(location=location).model,
        likelihood,
        log_evidence(functions),
        sampler,
        rng,
    )
    return inference._replace(findings=(rows_not_converged(converged),))


class Functions(NamedTuple):
    """A location and the logarithm of its scale.

    Attributes
    ----------
    location, scale : Regression
    """

    location: Regression
    scale: Regression

    @property
    def model(self) -> SeparateFunctions:
        """Posterior of both of them everywhere."""
        return SeparateFunctions((self.location.model(), self.scale.model()))

    @property
    def given_others(self) -> LatentMoments:
        """Moments at each row, given all observations but one of the row itself."""
        return LatentMoments.of_functions(
            self.location.given_others,
            self.scale.given_others,
        )

    @property
    def log_density(self) -> float:
        """Of the observations, less those of each row given the others, in nats."""
        return sum(regression.density_beside_rows for regression in self)


def _under_uncertain_scale(
    functions: Functions,
    function: NearestFunctions,
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
    functions : Functions
    function : NearestFunctions
        The location.
    likelihood : Likelihood
    of_scale : ScaleOfErrors
    """
    location, scale = functions
    z, noise = location.values
    nodes, masses = expectation_nodes(1)
    deviation = np.sqrt(scale.moments.variance) * nodes[:, 0]
    T = noise * np.exp(2.0 * of_scale.variation * deviation)
    total = location.given_others.variance + T
    # D as in the evidence of a row
    as_known = ((T / total) @ masses) / ((1.0 / total) @ masses)
    factor = (T @ masses) / as_known
    mean_precision = float(np.exp(of_scale.log_weights) @ (1.0 / of_scale.noise))
    fisher, _ = likelihood._fisher_information()
    shared = noise * (factor * mean_precision / fisher)[:, np.newaxis]
    # of a row of weight ω the noise is D / ω
    change = (shared - noise) / function.weights
    values = z + change * location.covariances[0].solve(z)
    return function.given(NoisyValues(values, shared))
