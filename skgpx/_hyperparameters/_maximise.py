"""Maximum a posteriori of one candidate: kernel and likelihood, by their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple, Protocol

import numpy as np
from scipy import optimize

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._evidence import Evidence, null_evidence
from skgpx._shell.validation import Rows
from skgpx._types import Array, Kernel
from skgpx.kernels import inputs_of_entry, rescaled, theta_entries
from skgpx.likelihoods import Likelihood

# Nats of evidence that a latent function must gain over pure noise to be a signal: the
# price of its amplitude and its lengthscale.
MIN_EVIDENCE_GAIN = 2.0
# Cycles over the rows by which a period changes for its curvature.
_PART_OF_CYCLE = 3e-3
# Largest step of a period to its mean, in its standard deviations.
_MOST_STDS = 3.0


class State(NamedTuple):
    """Kernel and likelihood with their hyperparameters, and how probable they are.

    Attributes
    ----------
    candidate : Candidate
    u : ndarray of shape (q,)
        Coordinates of its kernel.
    likelihood : Likelihood
        With its scales.
    weight : float
        Posterior probability; the weights of the states of an average sum to one.
    evidence, posterior : float
        Log evidence of the rows of the search, without and with the log hyperprior.
    gain : float
        Log evidence less the log evidence of a latent function that is zero; of draws
        from the posterior, at its largest mode.
    n_rows : int
        Number of rows of the search.
    total_weight : float
        Sum of their weights.
    exact_noise : float
        Noise variance of an exact process of some rows, or the harmonic mean of the
        noise variances of working responses; NaN where there is none.
    n_inducing : int
        Inducing points after which twice as many do not gain; 0 where not counted.
    period_stds : tuple of float
        Standard deviations of the `periods` around a mode, zeros of a draw; empty where
        not measured.
    """

    candidate: Candidate
    u: Array
    likelihood: Likelihood
    weight: float = 1.0
    evidence: float = np.nan
    posterior: float = np.nan
    gain: float = np.nan
    n_rows: int = 0
    total_weight: float = np.nan
    exact_noise: float = np.nan
    n_inducing: int = 0
    period_stds: tuple[float, ...] = ()

    def __repr__(self) -> str:
        """Kernel, likelihood and weight."""
        return (
            f"State(kernel={self.kernel!r}, likelihood={self.likelihood!r}, "
            f"weight={self.weight:.3g}, name={self.name!r})"
        )

    @property
    def name(self) -> str:
        """Name of the candidate, such as its family."""
        return self.candidate.name

    @property
    def kernel(self) -> Kernel:
        """Kernel with its hyperparameters."""
        return self.candidate.kernel_at(self.u)

    @property
    def periods(self) -> Array:
        """Free periods of seasons, in the units of their columns."""
        kernel = self.kernel
        return np.exp(kernel.theta[[entry for _, entry in _period_entries(kernel)]])

    @property
    def amplitude_is_free(self) -> bool:
        """Whether the variance of the latent function was learned."""
        is_default = not self.candidate.is_given
        is_learned = self.candidate.n_free > 0
        return is_learned and (is_default or rescaled(self.kernel, 1.0) is not None)

    @property
    def noise_is_free(self) -> bool:
        """Whether the scale of the likelihood is a hyperparameter."""
        return len(self.likelihood.theta) > 0

    @property
    def noise_variance(self) -> float:
        """Of normal noise."""
        return float(self.likelihood.variance(0.0))

    @property
    def point(self) -> Array:
        """Coordinates of the kernel, and log-parameters of the likelihood."""
        return np.concatenate((self.u, self.likelihood.theta))

    @property
    def largest_mass(self) -> float:
        """Log posterior times the widths of normal priors: at least Laplace's evidence.

        Coordinates that the rows say nothing of cost their prior density at the mode,
        which candidates without them do not pay.
        """
        std = self.candidate.std[np.isfinite(self.candidate.std)]
        return float(self.posterior + np.sum(np.log(np.sqrt(2.0 * np.pi) * std)))

    @property
    def has_signal(self) -> bool:
        """Whether the latent function gains evidence over pure noise."""
        return self.gain > MIN_EVIDENCE_GAIN

    def with_exact_noise(self) -> State:
        """Note the noise of this exact process, if it has a signal."""
        if not (self.has_signal and self.likelihood.has_closed_form):
            return self
        return self._replace(exact_noise=self.noise_variance)


def best_of(states: Sequence[State]) -> State:
    """The first state of the largest log posterior."""
    return max(states, key=lambda state: state.posterior)


def _period_entries(kernel: Kernel) -> list[tuple[str, int]]:
    """Names of the free periods of a kernel, and their entries of theta."""
    return [
        (name, entries.start)
        for name, entries in theta_entries(kernel)
        if name.endswith("periodicity")
    ]


class Objective:
    """Negative log posterior of the coordinates, kernel and likelihood in one vector.

    Parameters
    ----------
    candidate : Candidate
    evidences : sequence of ExactEvidence or SparseEvidence
        Of independent blocks of rows; they add.
    """

    def __init__(self, candidate: Candidate, evidences: Sequence[Evidence]):
        self.candidate = candidate
        self.evidences = evidences
        self.likelihood = evidences[0].likelihood
        likelihood_bounds = self.likelihood.theta_bounds
        self.bounds = np.concatenate((candidate.bounds, likelihood_bounds))
        self._last_point: Array | None = None
        self._last_result: tuple[float, Array] = (np.nan, np.empty(0))

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Value and gradient; a large number without a slope where it fails."""
        last_point = self._last_point
        if last_point is None or not np.array_equal(point, last_point):
            self._last_point = point.copy()
            self._last_result = self._evaluate(point)
        return self._last_result

    def _evaluate(self, point: Array) -> tuple[float, Array]:
        hopeless = (1e12, np.zeros_like(point))
        candidate = self.candidate
        p = len(candidate.offset)
        u, scales = np.split(point, [candidate.n_free])
        # the log-parameters of kernel and likelihood
        kernel_theta = candidate.log_parameters(u)
        theta = np.concatenate((kernel_theta, scales))
        try:
            terms = [block.value_and_gradient(theta) for block in self.evidences]
        except np.linalg.LinAlgError:
            return hopeless
        log_prior, prior_slope = candidate.log_prior(point, self.likelihood)
        log_posterior = log_prior + sum(value for value, _ in terms)
        slope = np.sum([gradient for _, gradient in terms], axis=0)
        coordinate_slope = candidate.coordinate_slopes(kernel_theta, slope[:p])
        slope = np.concatenate((coordinate_slope, slope[p:]))
        slope = slope + prior_slope
        if not (np.isfinite(log_posterior) and np.all(np.isfinite(slope))):
            return hopeless
        return -float(log_posterior), -slope


def maximise(
    candidate: Candidate,
    evidences: Sequence[Evidence],
    u: Array,
    max_iter: int,
    tolerance: float = 3e-5,
    likelihood: Likelihood | None = None,
    units: Array | None = None,
) -> State:
    """L-BFGS-B on the logarithms from u and the scales of a likelihood.

    None stands for the likelihood of the evidences. The search ends where two steps
    gain less than the tolerance each, in nats an observation. `units` of the
    logarithms, in which the log posterior is about as curved everywhere, make it take
    half as many evaluations.
    """
    objective = Objective(candidate, evidences)
    if likelihood is None:
        likelihood = objective.likelihood
    weight = sum(float(block.rows.weights.sum()) for block in evidences)
    point = np.concatenate((u, likelihood.theta))
    if len(point):
        point = np.clip(point, *objective.bounds.T)
        point = descend(objective, point, max_iter, tolerance * weight, units)
    u, scales = np.split(point, [candidate.n_free])
    likelihood = objective.likelihood.with_theta(scales)
    log_prior, _ = candidate.log_prior(point, likelihood)
    loss, _ = objective(point)
    evidence = -loss - log_prior
    rows = reduce(Rows.followed_by, [block.rows for block in evidences])
    return State(
        candidate=candidate,
        u=u,
        likelihood=likelihood,
        evidence=evidence,
        posterior=evidence + log_prior,
        gain=evidence - null_evidence(rows, objective.likelihood),
        n_rows=sum(len(block.rows.y) for block in evidences),
        total_weight=weight,
    )


def with_period_stds(mode: State, evidence: Evidence) -> State:
    """A mode with the mean and the standard deviation of each period, by Laplace.

    Given the other hyperparameters: neither the size of a season nor its shape says
    what its period is. One step of Newton's method, by two gradients, where it gains.
    """
    objective = Objective(mode.candidate, [evidence])
    point = np.clip(mode.point, *objective.bounds.T)
    X = evidence.rows.X
    stds = []
    for (name, entry), period in zip(
        _period_entries(mode.kernel), mode.periods.tolist(), strict=True
    ):
        span = float(np.ptp(inputs_of_entry(mode.kernel, name, X), axis=0).max())
        if span == 0.0:
            stds.append(np.inf)
            continue
        # log p = offset + rate u
        rates = mode.candidate.ties.T @ np.eye(len(mode.candidate.offset))[entry]
        coordinate = int(np.argmax(rates))
        step = _PART_OF_CYCLE * period / (span * rates[coordinate])
        change = step * np.eye(len(point))[coordinate]
        slopes = [objective(point + sign * change)[1][coordinate] for sign in (-1, 1)]
        curvature = (slopes[1] - slopes[0]) / (2.0 * step)
        if curvature <= 0.0:
            stds.append(np.inf)
            continue
        std = 1.0 / np.sqrt(curvature)
        newton = -0.5 * (slopes[0] + slopes[1]) / curvature
        moved = point.copy()
        moved[coordinate] += np.clip(newton, -_MOST_STDS * std, _MOST_STDS * std)
        moved = np.clip(moved, *objective.bounds.T)
        if objective(moved)[0] < objective(point)[0]:
            point = moved
        stds.append(float(period * rates[coordinate] * std))
    u = mode.candidate.clip(point[: len(mode.u)])
    return mode._replace(u=u, period_stds=tuple(stds))


class Loss(Protocol):
    """A function to minimise, such as :class:`Objective`."""

    bounds: Array

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Value and gradient."""


def descend(
    objective: Loss,
    start: Array,
    max_iter: int,
    tolerance: float,
    units: Array | None,
) -> Array:
    """L-BFGS-B in these units.

    Without units its first step, the slope itself, has length 0.3: in nats that step
    would lead to the bounds.
    """
    first_value, slope = objective(start)
    low, high = objective.bounds.T
    scale = 1.0
    if units is None:
        is_free = np.where(slope > 0.0, start > low, start < high)
        scale = 0.3 / (float(np.linalg.norm(slope[is_free])) or 1.0)
        units = np.ones(len(start))
    values = [0.0]

    def scaled_objective(z: Array) -> tuple[float, Array]:
        value, gradient = objective(np.clip(units * z, low, high))
        return scale * (value - first_value), scale * units * gradient

    def stop_when_flat(intermediate_result: optimize.OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        if len(values) > 2 and values[-3] - values[-1] < 2.0 * scale * tolerance:
            raise StopIteration

    result = optimize.minimize(
        scaled_objective,
        start / units,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds / units[:, np.newaxis],
        callback=stop_when_flat,
        options={"maxiter": max_iter, "ftol": 1e-14, "gtol": 1e-3 * scale},
    )
    return np.clip(units * result.x, low, high)
