"""Maximum a posteriori of a candidate kernel under an evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._selection._candidates import Candidate
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Gain of a step at which a search ends, in nats an observation, and length of the first
# step, in logarithms.
TOLERANCE, _FIRST_STEP = 3e-5, 0.3
# What a search sees where the evidence cannot be computed.
_HOPELESS = 1e12


class Evidence(Protocol):
    """Log evidence of some rows in the log-parameters of kernel and likelihood."""

    likelihood: Any

    @property
    def weight(self) -> float:
        """Number of observations."""

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """In nats, with the gradient; the parameters of the kernel come first."""

    def of_nothing(self) -> float:
        """Evidence of a latent function that is zero, in nats."""


class Found(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    candidate : Candidate
    u : ndarray of shape (q,)
        Coordinates of its kernel.
    likelihood : Likelihood
        With its scales.
    evidence, log_prior : float
        Of the rows of the search, and of the hyperprior, in nats.
    gain : float
        Of the evidence over that of a latent function that is zero.
    n_inducing : int
        Inducing points after which twice as many no longer gain; 0 if not counted.
    """

    candidate: Candidate
    u: Array
    likelihood: Any
    evidence: float = np.nan
    log_prior: float = 0.0
    gain: float = np.nan
    n_inducing: int = 0

    @property
    def kernel(self) -> Any:
        """Kernel with its hyperparameters."""
        return self.candidate.kernel_at(self.u)

    @property
    def noise_variance(self) -> float:
        """Variance of Gaussian noise."""
        return float(self.likelihood.variance(0.0))

    @property
    def posterior(self) -> float:
        """Log evidence and log hyperprior, in nats."""
        return self.evidence + self.log_prior


class Objective:
    """Negative log posterior of the coordinates, kernel and likelihood in one vector.

    Parameters
    ----------
    candidate : Candidate
    evidences : sequence of Evidence
        Of independent blocks of rows; they add.
    """

    def __init__(self, candidate: Candidate, evidences: Sequence[Evidence]):
        self.candidate, self.evidences = candidate, evidences
        self.likelihood: Likelihood = evidences[0].likelihood
        self._last: tuple[Array, tuple[float, Array]] | None = None

    @property
    def bounds(self) -> Array:
        """Bounds of the coordinates."""
        return np.concatenate((self.candidate.bounds, self.likelihood.theta_bounds))

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Value and gradient; a large number without a slope where it fails."""
        if self._last is None or not np.array_equal(point, self._last[0]):
            self._last = point.copy(), self._evaluated(point)
        return self._last[1]

    def _evaluated(self, point: Array) -> tuple[float, Array]:
        q = self.candidate.n_free
        theta = np.concatenate((self.candidate.theta(point[:q]), point[q:]))
        try:
            terms = [one.value_and_gradient(theta) for one in self.evidences]
        except np.linalg.LinAlgError:
            return _HOPELESS, np.zeros_like(point)
        value = sum(term[0] for term in terms)
        slope = np.sum([term[1] for term in terms], axis=0)
        prior, pull = self.log_prior(point)
        p = len(self.candidate.offset)
        gradient = np.concatenate((self.candidate.ties.T @ slope[:p], slope[p:])) + pull
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return _HOPELESS, np.zeros_like(point)
        return -float(value) - prior, -gradient

    def log_prior(self, point: Array) -> tuple[float, Array]:
        """Of kernel and noise, and its gradient."""
        q = self.candidate.n_free
        kernel, slope = self.candidate.log_prior(point[:q])
        noise, of_noise = self.candidate.log_noise_prior(self.likelihood, point[q:])
        return kernel + noise, np.concatenate((slope, of_noise))


def maximise(
    candidate: Candidate,
    evidences: Sequence[Evidence],
    u: Array,
    max_iter: int,
    tolerance: float = TOLERANCE,
) -> Found:
    """L-BFGS-B on the logarithms from u and the scales of the likelihood.

    It ends where two steps gain less than the tolerance each, in nats an observation.
    The first step has a length of 0.3: the method itself would take the slope in nats
    for it, which leads to the bounds.
    """
    objective = Objective(candidate, evidences)
    point = np.concatenate((u, objective.likelihood.theta))
    if len(point):
        point = np.clip(point, *objective.bounds.T)
        total = sum(one.weight for one in evidences)
        point = _descend(objective, point, max_iter, tolerance * total)
    q = candidate.n_free
    likelihood = objective.likelihood.with_theta(point[q:])
    log_prior = objective.log_prior(point)[0]
    evidence = -objective(point)[0] - log_prior
    gain = evidence - sum(one.of_nothing() for one in evidences)
    return Found(candidate, point[:q], likelihood, evidence, log_prior, gain)


def _descend(
    objective: Objective, start: Array, max_iter: int, tolerance: float
) -> Array:
    first, slope = objective(start)
    low, high = objective.bounds.T
    free = np.where(slope > 0.0, start > low, start < high)
    unit = _FIRST_STEP / (float(np.linalg.norm(slope[free])) or 1.0)
    reached = [0.0]

    def scaled(point: Array) -> tuple[float, Array]:
        value, along = objective(point)
        return unit * (value - first), unit * along

    def ended(intermediate_result: Any) -> None:
        reached.append(float(intermediate_result.fun))
        if len(reached) > 2 and reached[-3] - reached[-1] < 2.0 * unit * tolerance:
            raise StopIteration

    result = optimize.minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds,
        callback=ended,
        options={"maxiter": max_iter, "ftol": 1e-14, "gtol": 1e-3 * unit},
    )
    found: Array = result.x
    return found
