"""Evidence of a Gaussian process at all rows, for any likelihood: of few rows.

Exact for Gaussian noise; otherwise without inducing points, in the values of the latent
functions: of one function by the normal distribution that is closest to its posterior,
of several by Laplace's approximation.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

import numpy as np

from skgpx._hyperparameters._evidence import (
    Evidence,
    ExactEvidence,
    rough_latent_values,
    rough_start,
    row_target,
)
from skgpx._hyperparameters._fixed_point import MAX_ROUNDS, NoisyValues
from skgpx._hyperparameters._series_evidence import SeriesEvidence, regression_evidence
from skgpx._numerics import pointwise
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.langevin import Target
from skgpx._numerics.laplace import laplace_evidence_gradient, line_averages
from skgpx._numerics.linalg import cholesky, solve_lower_transpose
from skgpx._numerics.modes import is_log_concave
from skgpx._numerics.softmax_evidence import ClassRows, softmax_evidence
from skgpx._shell.validation import Rows
from skgpx._types import Array, Kernel
from skgpx.kernels import matrix_and_pullback
from skgpx.likelihoods import Gaussian, Likelihood

# Gain of the bound below which rounds end, in nats, of many rows in nats a row.
_TOLERANCE = 1e-2
_TOLERANCE_OF_ROW = 1e-5
# Noise around rough latent values, in their mean squares.
_ROUGH_NOISE = 0.1
# Least information of a row under a likelihood that is not log-concave, as a share of
# the mean over all rows.
LEAST_INFORMATION = 1e-2
# Differences in logarithms of scales.
_DIFFERENCE = 1e-5


def process_evidence(
    rows: Rows,
    kernel: Kernel,
    likelihood: Likelihood,
) -> ProcessEvidence:
    """The evidence of kernel and likelihood: exact, a bound, or an approximation."""
    if likelihood.has_closed_form:
        return regression_evidence(rows, kernel, likelihood)
    if suits_a_normal(likelihood):
        return VariationalEvidence(rows, kernel, likelihood)
    return LaplaceEvidence(rows, kernel, likelihood)


def suits_a_normal(likelihood: Likelihood) -> bool:
    """Whether the closest normal distribution stands for the posterior.

    It is of one function, and knows one mode only, not both signs of f.
    """
    return likelihood.n_outputs_ == 1 and not likelihood.symmetric


def is_softmax(likelihood: Likelihood) -> bool:
    """Whether classes have softmax probabilities."""
    return likelihood.kernel_code == pointwise.CATEGORICAL


# ---- One function: the closest normal distribution -----------------------------------


class VariationalEvidence(Evidence):
    """Bound of the evidence of one function by the closest normal distribution.

    ``E_q log p(y | f) - KL(q | prior)`` at its largest value over normal q. With the
    gradient g and the curvature c of the negative log-likelihood, averaged over q, it
    is where q is the posterior of values ``z = m - g / c`` of f with the noise
    ``1 / c`` [1]_. Laplace's approximation, at the mode, takes functions that vary
    fast to be less probable than they are.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
        Prepared, of one function.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """

    def __init__(self, rows: Rows, kernel: Kernel, likelihood: Likelihood):
        super().__init__(rows, kernel, likelihood)
        noise = Gaussian(1.0).prepare(rows.y)
        # whether the rounds of the last points ended
        self.converged = True
        unknown = rows._replace(known=None)
        self._regression = regression_evidence(unknown, kernel, noise)
        nodes, self._masses = expectation_nodes(1)
        self._nodes = nodes[:, 0]
        # the only feature is what f is multiplied by
        self._target = row_target(np.ones((len(rows.y), 1)), rows, likelihood)
        # rows of a log-concave likelihood may know as little as they do
        self._least_information = 0.0
        if not is_log_concave(self._target):
            self._least_information = LEAST_INFORMATION
        self._best_value = -np.inf
        self._best_sites: NoisyValues | None = None

    def values_and_gradients(
        self,
        thetas: Array,
        start: NoisyValues | None = None,
    ) -> tuple[Array, Array]:
        """Evidence (s,) at points (s, p), and gradients (s, p); NaN where it fails.

        Natural gradients of the bound, whole ones unless it falls; the rounds of a
        point end where it gains no more. They start from rough values, in a climb from
        the sites at its best point. At fixed q the bound depends on the kernel by
        the prior only.

        Notes
        -----
        O(n³) a round, of which there are some six.
        """
        if start is None:
            start = self._start(len(thetas))
        values, gradients, moments, self._sites = self._fixed_points(thetas, start)
        p = self._n_kernel_parameters
        # slopes in scales of the likelihood
        for i in range(len(thetas) if len(self.likelihood.theta) else 0):
            gradients[i, p:] = self._scale_slopes(thetas[i, p:], *moments[:, i])
        return values, gradients

    def _of_climb(self, thetas: Array) -> tuple[Array, Array]:
        values, gradients = self.values_and_gradients(thetas, self._best_sites)
        if values[0] > self._best_value:
            self._best_value = values[0]
            self._best_sites = self._sites
        return values, gradients

    def working_responses(self) -> tuple[float, Array, Array]:
        """The bound at the kernel and likelihood themselves, z and its noise, (n,).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the covariance is not positive definite.
        """
        theta = np.append(self.kernel.theta, self.likelihood.theta)
        value, _ = self.value_and_gradient(theta)
        return value, self._sites.y[0], self._sites.noise[0]

    # of a likelihood that is flat in all rows noise has no bound
    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def _fixed_points(
        self,
        thetas: Array,
        start: NoisyValues,
    ) -> tuple[Array, Array, Array, NoisyValues]:
        """Bounds, slopes in the kernel, means and variances (2, s, n), and sites."""
        p = self._n_kernel_parameters
        kernel_thetas = thetas[:, :p]
        targets = self._targets(thetas[:, p:])
        has_scales = thetas.shape[1] > p
        n_points = len(thetas)
        values = np.full(n_points, -np.inf)
        gradients = np.full(thetas.shape, np.nan)
        moments = np.zeros((2, n_points, len(self.rows.y)))
        # 1 rough values, with a noise, or the sites of another point
        active = np.arange(n_points)
        best = start.take(active)
        direction = start.take(active)
        tolerance = max(_TOLERANCE, _TOLERANCE_OF_ROW * len(self.rows.y))
        # 2 sites of the posterior
        part = np.ones(n_points)
        for _ in range(MAX_ROUNDS):
            if not len(active):
                break
            z, noise = best.take(active).moved(
                direction.take(active), part[active, np.newaxis]
            )
            density, slopes, dual, precision = self._regression.regressions(
                kernel_thetas[active], z, noise
            )
            # m = z - D a and v = diag(D - D (K + D)⁻¹ D)
            mean = z - noise * dual
            variance = np.maximum(noise - noise**2 * precision, 1e-6 * noise)
            own_targets = targets
            if has_scales:
                own_targets = [targets[i] for i in active]
            energy, proposed = self._responses(own_targets, mean, variance)
            # -KL = log N(z | 0, K + D) - E log N(z | f, D)
            terms = noise * dual**2 + variance / noise + np.log(noise)
            bound = density + 0.5 * np.sum(terms, axis=1) - energy
            bound[~np.isfinite(bound)] = -np.inf
            gain = bound - values[active]
            rises = gain > 0.0
            risen = active[rises]
            values[risen] = bound[rises]
            gradients[risen, :p] = slopes[rises]
            moments[:, risen] = mean[rises], variance[rises]
            best.y[risen] = z[rises]
            best.noise[risen] = noise[rises]
            direction.y[risen] = proposed.y[rises]
            direction.noise[risen] = proposed.noise[rises]
            # a part of a step may gain little far from the end
            is_whole = part[active] == 1.0
            part[risen] = np.minimum(2.0 * part[risen], 1.0)
            part[active[~rises]] *= 0.25
            gains = (gain > tolerance) | ~is_whole
            goes_on = np.where(rises, gains, gain < -tolerance)
            active = active[goes_on]
        self.converged = not len(active)
        values[~np.isfinite(values)] = np.nan
        return values, gradients, moments, best

    def _start(self, n_points: int) -> NoisyValues:
        """Rough latent values with a tenth of their mean square as noise."""
        target = self._target
        rough = rough_latent_values(target)[:, 0] / target.features[:, 0]
        square = float(np.average(rough**2, weights=target.weights))
        noise = _ROUGH_NOISE * square if square > 0.0 else 1.0
        repeated = (n_points, 1)
        return NoisyValues(
            np.tile(rough, repeated), np.tile(noise / target.weights, repeated)
        )

    def _targets(self, thetas: Array) -> list[Target]:
        """Likelihood of the rows: one for all points, or that of each."""
        if not thetas.shape[1]:
            return [self._target]
        return [self._at(theta) for theta in thetas]

    def _at(self, theta: Array) -> Target:
        """The likelihood with these log-parameters."""
        target = self._target
        return target._replace(likelihood=target.likelihood.with_theta(theta))

    def _averages(
        self,
        target: Target,
        mean: Array,
        variance: Array,
    ) -> tuple[Array, Array, Array]:
        """Negative log-likelihood over ``N(mean, variance)``, slope and curvature."""
        factor = target.features
        nll, slope, curvature = line_averages(
            target.likelihood,
            target.y,
            target.offset + factor * mean.T,
            np.abs(factor) * np.sqrt(variance.T),
            self._nodes,
            self._masses,
        )
        slope = (target.weights[:, np.newaxis] * factor * slope).T
        curvature = (target.weights[:, np.newaxis] * factor**2 * curvature).T
        return target.weights @ nll, slope, curvature

    def _responses(
        self,
        targets: list[Target],
        mean: Array,
        variance: Array,
    ) -> tuple[Array, NoisyValues]:
        """Energies (s,) of the rows over ``N(mean, variance)``, (s, n), and values."""
        if len(targets) == 1:
            energy, slope, curvature = self._averages(targets[0], mean, variance)
        else:
            parts = [
                self._averages(target, mean[[i]], variance[[i]])
                for i, target in enumerate(targets)
            ]
            energy, slope, curvature = map(np.concatenate, zip(*parts, strict=True))
        positive = np.maximum(curvature, 0.0)
        mean_curvature = np.mean(positive, axis=1, keepdims=True)
        smallest = np.maximum(self._least_information, 1e-12) * mean_curvature
        noise = 1.0 / np.maximum(curvature, np.maximum(smallest, 1e-300))
        return energy, NoisyValues(mean - noise * slope, noise)

    def _scale_slopes(self, theta: Array, mean: Array, variance: Array) -> Array:
        """Slopes of the mean log-likelihood in the log-parameters, (p,)."""

        def energy(theta: Array) -> float:
            value, _, _ = self._averages(self._at(theta), mean, variance)
            return float(value[0])

        mean = mean[np.newaxis]
        variance = variance[np.newaxis]

        slopes = np.empty(len(theta))
        for k in range(len(theta)):
            step = _DIFFERENCE * (np.arange(len(theta)) == k)
            fall = energy(theta - step) - energy(theta + step)
            slopes[k] = fall / (2.0 * _DIFFERENCE)
        return slopes


# ---- Several functions: Laplace's approximation --------------------------------------


class LaplaceEvidence(Evidence):
    """Laplace's evidence of a process in its log-parameters.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
        Prepared.
    """

    def __init__(self, rows: Rows, kernel: Kernel, likelihood: Likelihood):
        super().__init__(rows, kernel, likelihood)
        # α of the last mode of classes, where the next search for one starts
        self._start: Array | None = None

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        value, gradient, self._start = self._evaluate(theta, self._start)
        return value, gradient

    def values_and_gradients(self, thetas: Array) -> tuple[Array, Array]:
        """Evidence (s,) at points (s, p), and gradients (s, p); NaN where it fails."""
        values = np.full(len(thetas), np.nan)
        gradients = np.full(thetas.shape, np.nan)
        start = None
        for i, theta in enumerate(thetas):
            with suppress(np.linalg.LinAlgError):
                values[i], gradients[i], start = self._evaluate(theta, start)
        return values, gradients

    def _evaluate(
        self,
        theta: Array,
        start: Array | None,
    ) -> tuple[float, Array, Array | None]:
        """Evidence, its gradient, and the mode of softmax classes."""
        kernel, likelihood = self.at(theta)
        K, pullback = matrix_and_pullback(kernel, self.rows.X)
        if is_softmax(likelihood):
            numbers = np.arange(likelihood.n_outputs_)
            is_class = self.rows.y == numbers[:, np.newaxis]
            rows = ClassRows(
                is_class.astype(np.float64),
                self.rows.weights,
                likelihood.base_latent_,
            )
            value, slope, start = softmax_evidence(rows, K, start)
            scale_slopes = np.zeros(0)
        else:
            value, slope, scale_slopes = self._of_weights(K, likelihood)
        return value, np.append(pullback(slope), scale_slopes), start

    def _of_weights(
        self,
        K: Array,
        likelihood: Likelihood,
    ) -> tuple[float, Array, Array]:
        """Evidence, and derivatives in K and in the scales of the likelihood."""
        # target of w with f = L w
        L = cholesky(K).L
        target = row_target(L, self.rows, likelihood)
        evidence, _ = laplace_evidence_gradient(
            target,
            residual=np.zeros(len(L)),
            start=rough_start(target),
        )
        features = evidence.features
        form = likelihood.row_form(self.rows.y, self.rows.weights, self.rows.known)
        if form.factor is not None:
            features = form.factor[:, np.newaxis] * features
        # L enters through L Lᵀ: with G the derivative in L, K̄ = ½ G L⁻¹
        slope = 0.5 * solve_lower_transpose(L, features.T).T
        return evidence.value, 0.5 * (slope + slope.T), evidence.parameters


ProcessEvidence: TypeAlias = (
    ExactEvidence | SeriesEvidence | VariationalEvidence | LaplaceEvidence
)
