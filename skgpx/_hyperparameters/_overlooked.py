"""Structure too short for few inducing points, seen by an exact process.

A sparse evidence prefers functions that its points can follow: where these are too few
it ends at a smooth function, or at none. An exact Gaussian process of the rough latent
values of some rows says whether something shorter was overlooked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters._candidates import Candidate, default_candidates
from skgpx._hyperparameters._climb import Found, Objective, climb, with_noise
from skgpx._hyperparameters._lengthscales import stretched, with_long_lengthscales
from skgpx._hyperparameters._points_needed import (
    MOST,
    count_points,
    explained,
    explains_more,
    leaves_much,
    rough_targets,
)
from skgpx._hyperparameters._search_rows import FEW_ROWS, sampled
from skgpx._validation import Rows
from skgpx.kernels import length_scale_entries, length_scales
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Factors of 2√d standard deviations at which a shorter lengthscale may start.
_FACTORS = tuple(0.5**k for k in range(1, 11))
# Nats that something shorter has to gain before the sparse evidence is asked again.
_LEAST_GAIN = 10.0
_NOISE, _ITER, _TOLERANCE = 0.3, 40, 1e-3


class Overlooked(NamedTuple):
    """What an exact process found.

    Attributes
    ----------
    log_length : float
        Logarithm of the lengthscale, in standard deviations of the columns.
    n_inducing : int
        Number of points that follow a function of this lengthscale, or the most.
    too_few : bool
        Whether the lengthscale was found, but the points planned cannot follow it.
    """

    log_length: float
    n_inducing: int
    too_few: bool = False


def overlooked(
    rows: Rows,
    likelihood: Likelihood,
    found: Any,
    planned: int,
    rng: np.random.Generator,
) -> Overlooked | None:
    """A lengthscale that needs more points than planned or explains far more, or None.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, of one output.
    found : sklearn.gaussian_process.kernels.Kernel
        That the sparse evidence ended at.
    planned : int
        Number of inducing points.
    rng : numpy.random.Generator

    Notes
    -----
    Both are judged by the exact evidence of at most 500 rows under normal noise, each
    with its best amplitude and noise.
    """
    targets = rough_targets(rows, likelihood)
    few = _few(targets, rng)
    ((tied, _),) = default_candidates(targets, (np.inf,))
    now = _at_lengths(tied, length_scales(found, rows.X.shape[1]), few)
    best = _shorter(tied, few)
    short = best.evidence - now.evidence >= _LEAST_GAIN
    lacking = now.gain >= _LEAST_GAIN and leaves_much(rows, now.kernel, planned, rng)
    if not short and not lacking:
        return None
    best = best if short else now
    needed = count_points(rows, best.kernel, best.noise_variance, rng)
    known, more = (now.kernel, planned), (best.kernel, min(needed, MOST))
    if not explains_more(targets, known, more, rng.spawn(1)[0]):
        return None
    length = float(tied.coordinates_of(best.kernel)[-1])
    return Overlooked(length, needed, not short)


def overlooked_by_given(
    rows: Rows,
    likelihood: Likelihood,
    kernel: Any,
    found: Any,
    rng: np.random.Generator,
) -> Any:
    """A kernel of the user's with lengthscales that explain far more, or None.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, of one output.
    kernel : sklearn.gaussian_process.kernels.Kernel
        The user's, at its start.
    found : sklearn.gaussian_process.kernels.Kernel
        The prior that the sparse evidence ended at.
    rng : numpy.random.Generator

    Returns
    -------
    shorter : sklearn.gaussian_process.kernels.Kernel or None
    """
    if not length_scale_entries(kernel):
        return None
    few = _few(rough_targets(rows, likelihood), rng)
    candidate, start = Candidate.of_kernel(kernel), _start(few)
    long = with_long_lengthscales(kernel, rows)
    kernels = [kernel, long]
    kernels += [stretched(long, float(np.log(factor))) for factor in _FACTORS]
    objective = Objective(candidate, start, (few,))
    points = [np.concatenate((one.theta, start.theta)) for one in kernels]
    first = kernels[int(np.argmax([objective.evidence(point) for point in points]))]
    end = climb(candidate, start, (few,), first.theta, _ITER, _TOLERANCE)
    now, best = (explained(one, few.X, few) for one in (found, end.kernel))
    return end.kernel if best.evidence - now.evidence >= _LEAST_GAIN else None


def _few(targets: Rows, rng: np.random.Generator) -> Rows:
    """Rows of an exact process."""
    return sampled(targets, np.sort(rng.permutation(len(targets.y))[:FEW_ROWS]))


def _at_lengths(tied: Candidate, lengths: Array, few: Rows) -> Found:
    """The best amplitude and noise beside these lengthscales, up to a factor."""
    offset = np.append(tied.offset[0], np.log(lengths))
    likelihood = _start(few)
    # those of a GRE kernel reach farther by √2 than the kernel inside
    found = [
        _amplitude(tied, offset + np.append(0.0, np.full(len(lengths), shift)))
        for shift in (0.0, 0.5 * np.log(2.0))
    ]
    ends = [
        climb(one, likelihood, (few,), np.zeros(1), _ITER, _TOLERANCE) for one in found
    ]
    return max(ends, key=lambda one: one.evidence)


def _amplitude(tied: Candidate, offset: Array) -> Candidate:
    """A candidate of which the amplitude alone is free."""
    low, high = tied.kernel.bounds.T
    ties = np.zeros((len(offset), 1))
    ties[0] = 1.0
    bounds = tied.bounds[:1]
    return Candidate(
        tied.kernel, np.clip(offset, low, high), ties, bounds, np.array([np.nan])
    )


def _shorter(tied: Candidate, few: Rows) -> Found:
    """Where a search ends that starts from the best of several shorter lengthscales."""
    likelihood, d = _start(few), few.X.shape[1]
    objective = Objective(tied, likelihood, (few,))
    lengths = np.log(2.0 * np.sqrt(d)) + np.log(_FACTORS)
    lengths = lengths[lengths >= tied.bounds[-1, 0]]
    starts = [np.array([0.0, length]) for length in lengths]
    points = [np.concatenate((start, likelihood.theta)) for start in starts]
    best = int(np.argmax([objective.evidence(point) for point in points]))
    return climb(tied, likelihood, (few,), starts[best], _ITER, _TOLERANCE)


def _start(few: Rows) -> Gaussian:
    """Noise at which searches start, of targets whose variance is about one."""
    return with_noise(Gaussian().prepare(few.y, few.weights), _NOISE)
