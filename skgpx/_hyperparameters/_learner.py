"""Kernel and noise of Gaussian regression, learned before the method begins.

The exact evidence of at most 1500 rows guides the search: that of a few inducing points
prefers smooth functions and, lost, none at all. Candidates compete by the density of
rows that none of them saw, or by their evidence less a price for parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters._candidates import (
    Candidate,
    default_candidates,
    untied,
)
from skgpx._hyperparameters._climb import (
    NOISE_PRICE,
    TOLERANCE,
    Found,
    Objective,
    climb,
    until_found,
)
from skgpx._hyperparameters._exact_evidence import held_out_density
from skgpx._hyperparameters._finer_structure import finer_structure
from skgpx._hyperparameters._search_rows import Sample
from skgpx._parallel import side_by_side
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

_SCREENING_ITER, _SCREENING_TOLERANCE, _POLISH_ITER = 40, 1e-4, 30
_LAST_ITER, _LAST_TOLERANCE = 150, 3e-6
# Factors of the lengthscales at which a search may start.
_START_FACTORS = (1.0, 0.25, 1.0 / 16.0, 1.0 / 64.0)
# A candidate farther behind is not polished: nats a held-out row.
_BEHIND = 0.02
# Fewer rows are not expected to show it.
_FEWEST = 200


def learn_default(
    rows: Rows,
    likelihood: Gaussian,
    rng: np.random.Generator,
    families: tuple[float, ...] | None = None,
    n_jobs: int | None = None,
    few_rows: int | None = None,
) -> Found:
    """Kernel and noise when no kernel is given.

    RBF, Matern 5/2 and 3/2, each with one lengthscale and with one a column, are
    compared on a few rows. Where others judge, the best of either kind and those within
    .02 nats a row of it are polished on 1500; otherwise both kinds of the best family.

    Parameters
    ----------
    rows : Rows
    likelihood : Gaussian
        Prepared.
    rng : numpy.random.Generator
    families : tuple of float, optional
        Smoothness of the families that compete; None is all three.
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._parallel.side_by_side`.
    few_rows : int, optional
        Rows that the first searches read; None is 500.

    Returns
    -------
    best : Found
    """
    sample = Sample.of(rows, rng, few_rows)
    pairs = default_candidates(rows, *(() if families is None else (families,)))
    searches, small = [(pair, likelihood) for pair in pairs], sample.without_others()
    screened = side_by_side(_screen, searches, n_jobs, small)
    finalists = [(one,) for one in _finalists(screened, sample)]
    polished = side_by_side(_polish, finalists, n_jobs, small)
    best = max(polished, key=lambda one: one.score)
    best = best._replace(record=sample.record(rows, True))
    return finer_structure(best, sample, n_jobs)


def _finalists(screened: list[tuple[Found, ...]], sample: Sample) -> list[Found]:
    """Candidates that more rows may put first: near the best, or its own family.

    What 500 rows tell of many lengthscales may be far from what more tell, so the best
    of either kind is among them.
    """
    top = max(one.score for pair in screened for one in pair)
    if sample.judges is None:
        return next(
            list(pair) for pair in screened if max(one.score for one in pair) == top
        )
    kinds = zip(*screened, strict=True)
    best = [max(one.score for one in kind) for kind in kinds]
    return [
        one
        for pair in screened
        for one, most in zip(pair, best, strict=True)
        if one.score >= min(top - _BEHIND, most)
    ]


def learn_given(
    rows: Rows,
    likelihood: Gaussian,
    starts: list[Any],
    rng: np.random.Generator,
    candidate: Candidate | None = None,
    n_jobs: int | None = None,
    few_rows: int | None = None,
) -> Found:
    """Free parameters of a kernel, from several starts.

    Parameters
    ----------
    rows : Rows
    likelihood : Gaussian
        Prepared.
    starts : list of sklearn.gaussian_process.kernels.Kernel
        The same kernel with several values of its free parameters.
    rng : numpy.random.Generator
    candidate : Candidate, optional
        Coordinates of the kernels, with their prior; without it all parameters are free
        and have none.
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._parallel.side_by_side`.
    few_rows : int, optional
        As of :func:`learn_default`.

    Returns
    -------
    best : Found
        Its parameters within their bounds, the fixed ones as they are.
    """
    sample = Sample.of(rows, rng, few_rows)
    plain = candidate is None
    chosen = Candidate.of_kernel(starts[0]) if plain else candidate.around(starts[0])
    blocks = (sample.few,)
    points = [chosen.coordinates_of(start) for start in starts]
    how = _SCREENING_ITER, _SCREENING_TOLERANCE
    searches = [(chosen, likelihood, blocks, u, *how) for u in points]
    found = side_by_side(climb, searches, n_jobs)
    best = max(found, key=lambda one: one.evidence)
    best = _polish(sample, best)._replace(record=sample.record(rows, False))
    return finer_structure(best, sample, n_jobs)


def warn_of_noise(found: Found, rows: Rows) -> None:
    """Say so if the kernel explains no more than noise would.

    Nothing is said of a constant y, nor of rows too few to show a dependence.
    """
    free = len(found.kernel.theta) > 0
    lost = free and found.gain <= NOISE_PRICE
    if not lost or rows.weights.sum() < _FEWEST or not np.any(rows.y != rows.y[0]):
        return
    warn(
        "No dependence of y on X was found: the latent function gains "
        f"{max(found.gain, 0.0):.2g} nats of evidence on pure noise, so predictions "
        "stay close to the mean of y. Check that the columns of X can say something "
        "about y; if they do, give a kernel whose lengthscales start near the scale of "
        "the variation.",
        FitWarning,
    )


def _screen(
    sample: Sample, pair: tuple[Candidate, Candidate], likelihood: Gaussian
) -> tuple[Found, ...]:
    """One lengthscale from the best of several starts; one a column from there.

    And from long lengthscales, which the other search may have left behind.
    """
    tied, separate = pair
    one = _isotropic(tied, likelihood, sample.few)
    if tied is separate:
        return (_judged(one, sample),)
    long = np.append(0.0, np.full(separate.n_free - 1, _long(sample.few)))
    starts = (untied(one.u, tied, separate), one.likelihood), (long, likelihood)
    many = [
        climb(separate, scale, (sample.few,), u, _SCREENING_ITER, _SCREENING_TOLERANCE)
        for u, scale in starts
    ]
    best = max(many, key=lambda found: found.evidence)
    return _judged(one, sample), _judged(best, sample)


def _long(rows: Rows) -> float:
    """Logarithm of a lengthscale of 2√d standard deviations."""
    return float(np.log(2.0 * np.sqrt(rows.X.shape[1])))


def _isotropic(candidate: Candidate, likelihood: Gaussian, few: Rows) -> Found:
    """Climb from the best of several lengthscales, and on while no better than noise.

    Starting values: amplitude one, noise a tenth of the variance of y.
    """
    objective = Objective(candidate, likelihood, (few,))
    lengths = _long(few) + np.log(_START_FACTORS)
    starts = [np.append(0.0, np.full(candidate.n_free - 1, one)) for one in lengths]
    points = [np.concatenate((start, likelihood.theta)) for start in starts]
    order = np.argsort([-objective.value(point) for point in points], kind="stable")
    how = _SCREENING_ITER, _SCREENING_TOLERANCE
    return until_found(
        climb(candidate, likelihood, (few,), starts[position], *how)
        for position in order
    )


def _judged(found: Found, sample: Sample) -> Found:
    """With its score: held-out density in nats a row; or evidence less a price.

    The evidence is that of the rows of the last search, the price d - 1 nats for d
    lengthscales.
    """
    if sample.judges is not None:
        noise = found.noise_variance
        score = held_out_density(found.kernel, noise, sample.some, sample.judges)
    else:
        # amplitude and one lengthscale are free in every candidate
        score = found.evidence - (found.candidate.n_free - 2)
    return found._replace(score=score)


def _polish(sample: Sample, found: Found) -> Found:
    """Search on with all rows of the sample: to the end where there are no others."""
    blocks, start = (sample.some,), (found.candidate, found.likelihood)
    how = (_POLISH_ITER, TOLERANCE)
    if sample.judges is None:
        how = (_LAST_ITER, _LAST_TOLERANCE)
    return _judged(climb(*start, blocks, found.u, *how), sample)
