"""Search for kernel and noise by the evidence of a Gaussian likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._evidence import (
    Inducing,
    SparseEvidence,
    mean_square,
    with_noise,
)
from skgpx._hyperparameters._maximise import State, best_of, maximise
from skgpx._hyperparameters._select import Split, select, subset, train
from skgpx._hyperparameters._sparse import MAX_INDUCING_SEARCHED
from skgpx._row_budgets import SPARSE_ROWS
from skgpx._shell.validation import Rows
from skgpx._types import Generator
from skgpx.likelihoods import Likelihood


def exact_search(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    inducing: Inducing,
    n_inducing: int | None,
    start: State | None,
    trend: bool,
    n_jobs: int | None,
) -> State:
    """Maximise the exact evidence, of some rows or of neighbourhoods.

    All candidates compete, unless an earlier search is continued from its end, `start`.
    A model of few inducing points is then searched on by its own bound.
    """
    if start is not None:
        best = train([start], split)
    else:
        best = select(families, split, likelihood, n_jobs, trend)
    best = best.with_exact_noise()
    n = len(split.rows.y)
    if n_inducing is None or n_inducing >= min(n, MAX_INDUCING_SEARCHED):
        return best
    refined = _refine_by_bound(best, split.rows, inducing, n_inducing, rng)
    return refined._replace(exact_noise=best.exact_noise)


def _refine_by_bound(
    exact: State,
    rows: Rows,
    inducing: Inducing,
    n_inducing: int,
    rng: Generator,
) -> State:
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


def noise_only(result: State, rows: Rows) -> State:
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
