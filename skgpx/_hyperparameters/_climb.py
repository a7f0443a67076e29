"""Maximum a posteriori of a candidate under the exact evidence of a few rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._exact_evidence import ExactEvidence
from skgpx._hyperparameters._search_record import SearchRecord
from skgpx._validation import Rows
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Nats that a latent function must gain on pure noise: the price of its two scales.
NOISE_PRICE = 2.0
# Gain of steps at which a search ends, in nats a row.
TOLERANCE = 3e-5
# Length of the first step of a search, in logarithms.
_FIRST_STEP = 0.3


class Found(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    candidate : Candidate
    u : ndarray of shape (q,)
        Coordinates of the kernel.
    likelihood : Gaussian
    evidence : float
        Exact evidence of the rows of the search in nats, without the prior.
    gain : float
        Of it over the evidence of normal noise around zero.
    score : float
        By which candidates are compared; NaN before they are.
    record : SearchRecord
        Which rows searched, once that is known.
    n_inducing : int
        Number of inducing points that the kernel needs; 0 where none was counted.
    """

    candidate: Candidate
    u: Array
    likelihood: Gaussian
    evidence: float
    gain: float
    score: float = np.nan
    record: SearchRecord = SearchRecord()
    n_inducing: int = 0

    @property
    def kernel(self) -> Any:
        """Kernel with its hyperparameters."""
        return self.candidate.kernel_at(self.u)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise."""
        return float(self.likelihood.variance(0.0))


def until_found(searches: Iterable[Found]) -> Found:
    """The best of searches that are made until one gains more than noise would."""
    best: Found | None = None
    for found in searches:
        if best is None or found.evidence > best.evidence:
            best = found
        if best.gain > NOISE_PRICE:
            break
    assert best is not None
    return best


class Objective:
    """Log evidence of independent blocks of rows, plus the log prior.

    Parameters
    ----------
    candidate : Candidate
    likelihood : Gaussian
    blocks : sequence of Rows
    """

    def __init__(
        self, candidate: Candidate, likelihood: Gaussian, blocks: tuple[Rows, ...]
    ):
        self.candidate, self.likelihood = candidate, likelihood
        self.parts = [ExactEvidence(b, candidate.kernel, likelihood) for b in blocks]
        y, weights = blocks[0].y, blocks[0].weights
        # 1 where y has no variance, so that its logarithm exists
        self._unit = float(np.average(y**2, weights=weights)) or 1.0

    def theta(self, point: Array) -> Array:
        """Log-parameters of kernel and noise at coordinates (u, noise)."""
        q = self.candidate.n_free
        inner = self.candidate.offset + self.candidate.ties @ point[:q]
        return np.concatenate((inner, point[q:]))

    @property
    def bounds(self) -> Array:
        """Bounds of the coordinates."""
        return np.concatenate((self.candidate.bounds, self.likelihood.theta_bounds))

    def value(self, point: Array) -> float:
        """Log posterior, without a gradient."""
        return self.evidence(point) + self._log_prior(point)[0]

    def evidence(self, point: Array) -> float:
        """Log evidence, without the prior."""
        return sum(part.value(self.theta(point)) for part in self.parts)

    def negative(self, point: Array) -> tuple[float, Array]:
        """Negative log posterior and its gradient in the coordinates."""
        q, theta = self.candidate.n_free, self.theta(point)
        terms = [part.negative(theta) for part in self.parts]
        slope = np.sum([term[1] for term in terms], axis=0)
        prior, pull = self._log_prior(point)
        p = len(theta) - (len(point) - q)
        gradient = np.concatenate((self.candidate.ties.T @ slope[:p], slope[p:]))
        return sum(term[0] for term in terms) - prior, gradient - pull

    def _log_prior(self, point: Array) -> tuple[float, Array]:
        q = self.candidate.n_free
        kernel, slope = self.candidate.log_prior(point[:q])
        noise, noise_slope = self.candidate.log_noise_prior(point[q:], self._unit)
        return kernel + noise, np.concatenate((slope, noise_slope))


def climb(
    candidate: Candidate,
    likelihood: Gaussian,
    blocks: tuple[Rows, ...],
    u: Array,
    max_iter: int,
    tolerance: float = TOLERANCE,
) -> Found:
    """L-BFGS-B on the logarithms from u and the noise of the likelihood.

    It ends where two steps gain less than the tolerance each, in nats a row.
    """
    objective = Objective(candidate, likelihood, blocks)
    point = np.concatenate((u, likelihood.theta))
    n = float(sum(rows.weights.sum() for rows in blocks))
    if len(point):
        start = np.clip(point, *objective.bounds.T)
        point = _ascend(objective, start, max_iter, tolerance * n)
    q = candidate.n_free
    final = likelihood.with_theta(point[q:])
    evidence = objective.evidence(point)
    gain = evidence - sum(noise_only(rows, likelihood) for rows in blocks)
    return Found(candidate, point[:q], final, evidence, gain)


def _ascend(
    objective: Objective, start: Array, max_iter: int, tolerance: float
) -> Array:
    """Where L-BFGS-B ends, whose first step has a length of three tenths.

    The method itself would take the slope in nats for it, which leads to the bounds.
    """
    first, slope = objective.negative(start)
    low, high = objective.bounds.T
    free = np.where(slope > 0.0, start > low, start < high)
    unit = _FIRST_STEP / (float(np.linalg.norm(slope[free])) or 1.0)
    known = [(start, first, slope)]

    def scaled(point: Array) -> tuple[float, Array]:
        if known and np.array_equal(point, known[0][0]):
            _, value, along = known.pop()
        else:
            value, along = objective.negative(point)
        return unit * (value - first), unit * along

    def ended(intermediate_result: Any) -> None:
        reached.append(float(intermediate_result.fun))
        if len(reached) > 2 and reached[-3] - reached[-1] < 2.0 * unit * tolerance:
            raise StopIteration

    reached = [0.0]
    result = optimize.minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds,
        callback=ended,
        options={"maxiter": max_iter, "ftol": 1e-14, "gtol": 1e-3 * unit},
    )
    return result.x


def all_noise(rows: Rows, likelihood: Gaussian) -> Gaussian:
    """The likelihood with the variance of y where its own is free, within bounds."""
    return with_noise(likelihood, float(np.average(rows.y**2, weights=rows.precisions)))


def with_noise(likelihood: Gaussian, noise_variance: float) -> Gaussian:
    """The likelihood with this noise variance where it is free, within its bounds."""
    if not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0])
    return likelihood.with_theta(np.log([np.clip(noise_variance, low, high)]))


def noise_only(rows: Rows, likelihood: Gaussian) -> float:
    """Evidence of normal noise around zero with the best variance, in nats."""
    n, square = rows.precisions.sum(), float(rows.precisions @ rows.y**2)
    variance = float(all_noise(rows, likelihood).variance(0.0))
    return -0.5 * float(n * np.log(2.0 * np.pi * variance) + square / variance)
