"""Nearest rows: regression, or the closest normal distribution to the posterior."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import Kernel

from skgpx._latent import FunctionModel, NeighborModel
from skgpx._numerics.weights import GaussianWeights
from skgpx._parallel import blas_jobs, n_workers
from skgpx._pls._chains import independent_draws
from skgpx._pls._sampler import Inference, Sampler, prior_mean
from skgpx._row_budgets import COMPARED_ROWS
from skgpx._row_statistics import (
    WhitenedRows,
    neighbor_systems,
    neighbor_whitening,
)
from skgpx._selection import (
    NeighborhoodDensity,
    WorkingResponses,
    depends_on_contrasts,
    latent_moments,
    rough_start,
    row_target,
)
from skgpx._validation import Rows
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.diagnostics import rows_not_converged
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Half the squared Newton decrement before the last step to the mean, in nats.
_TOLERANCE = 1e-3
# Relative change of the precisions of the rows below which they stay as they are.
_SETTLED = 0.02
# Changes of the precisions, and steps to the mean in between.
_MAX_ROUNDS = 30
_MAX_STEPS = 30
# Shortest part of a Newton step, and of a change of a precision.
_MIN_PART = 1e-3
_MIN_RATE = 0.05
# Rows, and predecessors of each, by whose density the noise of a target is estimated.
_NOISE_ROWS = 2000
_NOISE_NEIGHBORS = 20


def nearest_rows(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: np.random.Generator,
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
    :func:`~skgpx._pls._location_and_scale.location_and_scale`.

    Notes
    -----
    O(n N^2 (k N + M) + k n M^2) a round for k different noises. There is one round for
    Gaussian noise; two or three suffice where the likelihood is log-concave.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """
    if likelihood.has_closed_form:
        return _regression(basis, rows, likelihood, sampler, rng)
    # 1 the precisions of working responses, at a start
    features = basis(rows.X)
    responses = _responses_at_start(basis, features, rows, likelihood)
    # 2 nearest predecessors in a random order
    residual = NeighborResidual(
        basis=basis,
        rows=rows.X,
        noise=responses.noise,
        features=features,
        n_neighbors=sampler.n_neighbors,
    )
    order_rng = rng.spawn(1)[0]
    n_jobs = sampler.n_jobs
    nearest, count = residual.predecessors(order_rng, n_workers(blas_jobs(n_jobs)))

    def report(fixed_point: FixedPoint) -> bool:
        if sampler.report is None:
            return False
        # the same draws in every round
        round_rng = copy.deepcopy(rng)
        return sampler.report(
            _inference_at(fixed_point, likelihood, sampler, round_rng)
        )

    # 3 D, and W, which makes the rows independent given w
    fixed_point = closest_normal(
        residual,
        nearest,
        count,
        rows,
        likelihood,
        responses,
        n_jobs,
        report,
    )
    # 4 regression of W z on W Φ
    return _inference_at(fixed_point, likelihood, sampler, rng)


def _inference_at(
    fixed_point: FixedPoint,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: np.random.Generator,
) -> Inference:
    """Posterior of the weights of every function given its working responses."""
    z = fixed_point.responses.y
    distributions = [
        covariance.weights(z[:, [function]])
        for function, covariance in enumerate(fixed_point.covariances)
    ]
    weights = GaussianWeights(
        mean=np.concatenate([weights_of.mean for weights_of in distributions], axis=1),
        root=np.concatenate([weights_of.root for weights_of in distributions]),
    )
    posterior = NeighborModel(
        residual=fixed_point.residual,
        y=z,
        weights=weights,
        versions=np.arange(z.shape[1]),
        mean=prior_mean(likelihood),
    )
    evidence = fixed_point.log_evidence
    inference = inference_of(posterior, likelihood, evidence, sampler, rng)
    not_converged = rows_not_converged(fixed_point.converged)
    return inference._replace(findings=(not_converged,))


def inference_of(
    posterior: FunctionModel,
    likelihood: Likelihood,
    evidence: float,
    sampler: Sampler,
    rng: np.random.Generator,
) -> Inference:
    """The posterior, with draws of its weights."""
    weights: Any = posterior.weights
    particles, sample = independent_draws(weights, sampler.n_particles, rng)
    return Inference(
        posterior=posterior,
        particles=particles,
        sample=sample,
        likelihood=likelihood,
        log_evidence=evidence,
        unexplained=0.0,
    )


# ---- Gaussian noise ------------------------------------------------------------------


def _regression(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    sampler: Sampler,
    rng: np.random.Generator,
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
    rng: np.random.Generator,
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


def _responses_at_start(
    basis: Nystroem,
    features: Array,
    rows: Rows,
    likelihood: Likelihood,
) -> WorkingResponses:
    """Working responses at which the search for the closest distribution starts.

    At moments given nearest rows. Those of classes start at a regression of their rough
    values, and without variances.
    """
    if likelihood.n_outputs_ > 1 and depends_on_contrasts(rows, likelihood):
        target = row_target(features, rows, likelihood)
        latent = features @ rough_start(target)
        return WorkingResponses.of(rows, likelihood, latent)
    moments, _ = latent_moments(rows, basis.kernel, likelihood)
    return WorkingResponses.of(rows, likelihood, moments.mean, moments.variance)


# ---- Points alone, or nearest rows? --------------------------------------------------


def points_are_closer(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    points: Array,
    fewer_points: Array,
    n_neighbors: int,
    rng: np.random.Generator,
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


# ---- The closest normal distribution -------------------------------------------------


class LatentMean(NamedTuple):
    """Mean of the latent values of the rows, ``m = K a``, less their base.

    Attributes
    ----------
    values, dual : ndarray of shape (n, c)
        ``m`` and ``a``.
    """

    values: Array
    dual: Array

    @classmethod
    def at_start(
        cls,
        responses: WorkingResponses,
        covariances: Sequence[WhitenedRows],
    ) -> LatentMean:
        """Given responses around moments: ``a = C⁻¹ z`` and ``m = z - D a``.

        Functions of which the responses are rough start at their bases.
        """
        z = responses.y
        if not np.any(responses.variance):
            return cls(np.zeros_like(z), np.zeros_like(z))
        dual = _solve(covariances, z)
        return cls(z - responses.noise * dual, dual)

    def moved(self, other: LatentMean, part: float) -> LatentMean:
        """The mean a part of the way to another one."""
        values = self.values + part * (other.values - self.values)
        dual = self.dual + part * (other.dual - self.dual)
        return LatentMean(values, dual)

    def with_sum_of(self, other: LatentMean) -> LatentMean:
        """Mean with the sum over the functions of another one."""
        values = other.values - self.values
        dual = other.dual - self.dual
        return LatentMean(
            values=self.values + values.mean(axis=1, keepdims=True),
            dual=self.dual + dual.mean(axis=1, keepdims=True),
        )


class FixedPoint(NamedTuple):
    """Working responses that reproduce their own distribution of f.

    Attributes
    ----------
    residual : NeighborResidual
        With the noise D of the responses.
    responses : WorkingResponses
    covariances : list of c WhitenedRows
        ``K + D`` of each function.
    surplus : float
        Nats by which the divergence of independent functions is above that of their
        contrasts, on which a likelihood of classes depends.
    converged : bool
        Whether the rounds ended by themselves, or by a callback.
    """

    residual: NeighborResidual
    responses: WorkingResponses
    covariances: list[WhitenedRows]
    surplus: float
    converged: bool

    @property
    def log_evidence(self) -> float:
        """Variational bound of the evidence, in nats."""
        z = self.responses.y
        evidence = self.responses.constant + self.surplus
        for function, covariance in enumerate(self.covariances):
            evidence += covariance.log_density(z[:, [function]])
        return evidence


def closest_normal(
    residual: NeighborResidual,
    nearest: Index,
    count: Index,
    rows: Rows,
    likelihood: Likelihood,
    responses: WorkingResponses,
    n_jobs: int | None,
    report: Callable[[FixedPoint], bool] | None = None,
) -> FixedPoint:
    """Fixed point of the equations of :func:`nearest_rows`.

    A round takes D, and hence the covariance of the rows; Newton's method then finds
    the mean at these variances. The rounds end where the equations hold: where neither
    a Newton step nor the precisions ``1 / D`` change, or where `report`, which gets the
    result so far, asks for it.
    """
    features = residual.features
    precision = 1.0 / responses.noise
    mean: LatentMean | None = None
    previous: tuple[Array, Array] | None = None
    systems = neighbor_systems(residual, nearest, n_jobs)
    for _ in range(_MAX_ROUNDS):
        noise = 1.0 / precision
        residual = replace(residual, noise=noise)
        # C = K + D, and the variances K - K C⁻¹ K = D - D C⁻¹ D
        covariances = []
        inverse_diagonals = []
        for W in neighbor_whitening(residual, nearest, count, n_jobs, systems):
            covariance, diagonal = WhitenedRows.with_inverse_diagonal(W, features)
            covariances.append(covariance)
            inverse_diagonals.append(diagonal)
        variance = noise - noise**2 * np.column_stack(inverse_diagonals)
        variance = np.maximum(variance, 1e-6 * noise.min())
        if mean is None:
            mean = LatentMean.at_start(responses, covariances)
        mean, responses, decrement = _find_mean(
            rows,
            likelihood,
            covariances,
            variance,
            mean,
            noise,
        )
        # precisions of the new moments; rows count by their shares of the information
        change = 1.0 / responses.noise - precision
        scale = np.maximum(precision, precision + change)
        mean_square = np.sum(variance * change**2 / scale) / np.sum(variance * scale)
        converged = bool(decrement < _TOLERANCE and mean_square < _SETTLED**2)
        # with the noise to which the covariance belongs
        of_covariance = responses._replace(noise=noise)
        fixed_point = FixedPoint(
            residual=residual,
            responses=of_covariance,
            covariances=covariances,
            surplus=_surplus(rows, likelihood, covariances, of_covariance),
            converged=converged,
        )
        stop = report is not None and report(fixed_point)
        if converged or stop:
            return fixed_point._replace(converged=True)
        step = change
        if previous is not None:
            last_precision, last_change = previous
            rate = _secant_rate(last_precision, last_change, precision, change)
            step = change * rate
        previous = (precision, change)
        precision = precision + step
    return fixed_point


def _surplus(
    rows: Rows,
    likelihood: Likelihood,
    covariances: Sequence[WhitenedRows],
    responses: WorkingResponses,
) -> float:
    """`surplus` of a :class:`FixedPoint`."""
    noise = responses.noise
    if not depends_on_contrasts(rows, likelihood):
        return 0.0
    # c equal functions have c - 1 contrasts, and c different ones at most as much
    # divergence: ½ (log det (I + K D⁻¹) - tr (I + K D⁻¹)⁻¹ K D⁻¹)
    log_volume = sum(covariance.log_determinant for covariance in covariances)
    log_volume -= float(np.sum(np.log(noise)))
    divergence = 0.5 * (log_volume - float(np.sum(responses.variance / noise)))
    return divergence / noise.shape[1]


def _secant_rate(
    previous: Array,
    previous_change: Array,
    precision: Array,
    change: Array,
) -> Array:
    """Part of a change, row by row, after which a secant through two has none left.

    Larger precisions make variances smaller, over which a curved likelihood is averaged
    to smaller precisions: whole steps may overshoot forever. They are taken where the
    change has not become smaller.
    """
    fall = previous_change - change
    rise = precision - previous
    rate = np.divide(rise, fall, out=np.ones_like(rise), where=fall * rise > 0.0)
    return np.clip(rate, _MIN_RATE, 1.0)


def _find_mean(
    rows: Rows,
    likelihood: Likelihood,
    covariances: Sequence[WhitenedRows],
    variance: Array,
    mean: LatentMean,
    noise: Array,
) -> tuple[LatentMean, WorkingResponses, float]:
    """Minimise ``Σ E nll(f_i) + ½ mᵀK⁻¹m`` in m at fixed variances of f.

    Steps are those of Newton's method with the precisions of the responses, shortened
    until they go downhill: O(c n (N + M)) each. A sum over classes, on which their
    probabilities do not depend, stays as it is.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
    covariances : sequence of c WhitenedRows
        ``C = K + D`` of noisy values of each function.
    variance : ndarray of shape (n, c)
    mean : LatentMean
        Where the search starts.
    noise : ndarray of shape (n, c)
        ``D``.

    Returns
    -------
    mean : LatentMean
    responses : WorkingResponses
        Around this mean, with the noise that follows from it.
    decrement : float
        Half the squared Newton decrement before the last step, in nats.
    """
    centred = depends_on_contrasts(rows, likelihood)
    # the covariance of another noise is not quite that of the same K
    dual = _solve(covariances, mean.values + noise * mean.dual)
    mean = LatentMean(mean.values + noise * (mean.dual - dual), dual)
    responses = WorkingResponses.of(rows, likelihood, mean.values, variance)
    energy = _energy(responses, mean)
    for _ in range(_MAX_STEPS):
        responses = responses._replace(noise=noise)
        # a = C⁻¹ z and m = K a = z - D a
        z = responses.y
        dual = _solve(covariances, z)
        newton = LatentMean(z - noise * dual, dual)
        if centred:
            newton = newton.with_sum_of(mean)
        # the gradient is E g + K⁻¹m
        gradient = responses.slope + mean.dual
        decrement = 0.5 * abs(float(np.sum(gradient * (newton.values - mean.values))))
        # halve the step until it goes downhill
        part = 1.0
        while True:
            trial = mean.moved(newton, part)
            responses = WorkingResponses.of(rows, likelihood, trial.values, variance)
            trial_energy = _energy(responses, trial)
            if trial_energy <= energy or part < _MIN_PART:
                break
            part *= 0.5
        mean = trial
        energy = trial_energy
        # a step that had to be shortened asks for the precisions of where it ended
        if decrement < _TOLERANCE or (part < 1.0 and len(covariances) == 1):
            break
    responses = WorkingResponses.of(rows, likelihood, mean.values, variance)
    return mean, responses, decrement


def _solve(covariances: Sequence[WhitenedRows], values: Array) -> Array:
    """``C⁻¹`` of each function times its values, (n, c)."""
    columns = zip(covariances, values.T, strict=True)
    return np.column_stack([covariance.solve(column) for covariance, column in columns])


def _energy(responses: WorkingResponses, mean: LatentMean) -> float:
    """``Σ E nll(f_i) + ½ mᵀK⁻¹m`` around a mean."""
    return responses.energy + 0.5 * float(np.sum(mean.values * mean.dual))
