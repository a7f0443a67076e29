"""Search for kernel and noise by the evidence of a Gaussian likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skgpx._row_budgets import SPARSE_ROWS
from skgpx._selection._candidates import Candidate
from skgpx._selection._evidence import (
    Inducing,
    SparseEvidence,
    mean_square,
    with_noise,
)
from skgpx._selection._maximise import SearchResult, best_of, maximise
from skgpx._selection._select import Split, select, subset, train
from skgpx._selection._sparse import MAX_INDUCING_SEARCHED
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood


def closed_form(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: np.random.Generator,
    *,
    inducing: Inducing,
    n_inducing: int | None,
    start: SearchResult | None,
    trend: bool,
    n_jobs: int | None,
) -> tuple[SearchResult, float]:
    """Maximise the exact evidence, of some rows or of neighbourhoods.

    All candidates compete, unless an earlier search is continued from its result,
    `start`. A model of few inducing points is then searched on by its own bound.

    Returns
    -------
    result : SearchResult
    noise_variance : float
        Noise of the exact process; NaN without a signal.
    """
    if start is not None:
        result = train([start], split)
    else:
        result = select(families, split, likelihood, n_jobs, trend)
    noise_variance = noise_of_signal(result)
    n = len(split.rows.y)
    if n_inducing is not None and n_inducing < min(n, MAX_INDUCING_SEARCHED):
        result = _refine_by_bound(result, split.rows, inducing, n_inducing, rng)
    return result, noise_variance


def noise_of_signal(result: SearchResult) -> float:
    """Noise of an exact process; NaN without a signal or under another likelihood."""
    if not (result.has_signal and result.likelihood.has_closed_form):
        return np.nan
    return float(result.likelihood.variance(0.0))


def _refine_by_bound(
    exact: SearchResult,
    rows: Rows,
    inducing: Inducing,
    n_inducing: int,
    rng: np.random.Generator,
) -> SearchResult:
    """Search on by the collapsed bound of few points, which leave out more.

    The noise starts at its value of the exact search or at the variance of y, whichever
    has the better bound. A bound that ends in pure noise does not replace the kernel.
    """
    sample = subset(rows, rng.permutation(len(rows.y))[:SPARSE_ROWS])
    noise = with_noise(exact.likelihood, mean_square(sample))
    starts = [exact, exact._replace(likelihood=noise)]
    # first the two starts are compared; inducing points follow the kernel
    for max_iter in (0, 60, 60):
        searches = []
        for start in starts:
            bound = SparseEvidence.selected(
                sample,
                start.kernel,
                start.likelihood,
                inducing,
                n_inducing,
                rng,
            )
            searches.append(maximise(start.candidate, [bound], start.u, max_iter))
        best = best_of(searches)
        starts = [best]
    if not best.has_signal:
        return exact
    return best


def noise_only(result: SearchResult, rows: Rows) -> SearchResult:
    """The default kernel with its smallest amplitude; the variance of y as noise.

    Without a signal the evidence cannot tell short lengthscales from noise: the
    hyperprior alone would divide the variance of y between them.
    """
    candidate = result.candidate
    likelihood = result.likelihood
    if not (likelihood.has_closed_form and len(likelihood.theta)):
        return result
    start = candidate.starts()[0]
    u = np.where(candidate.is_length_scale, start, candidate.bounds[:, 0])
    return result._replace(u=u, likelihood=with_noise(likelihood, mean_square(rows)))
