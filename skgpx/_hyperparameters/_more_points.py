"""Kernels of the user's: search on with as many points as the function needs.

For likelihoods that are not Gaussian, with one latent function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skgpx._hyperparameters._evidence import (
    Hyperparameters,
    Search,
    climb_kernel,
    record_of,
    subset,
)
from skgpx._hyperparameters._overlooked import overlooked_by_given
from skgpx._hyperparameters._points_needed import points_needed
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood

# The most points of a search, the largest n m² of an evaluation, and rows that are read
# in any case.
_MORE_INDUCING, _BUDGET, _MORE_ROWS, _ROWS = 400, 1.5e8, 900, 2000
# Iterations from what was overlooked, and from what was found before.
_MORE_ITER, _AGAIN_ITER = 40, 10


class Given(NamedTuple):
    """What a search starts from.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The user's.
    likelihood : Likelihood
        Prepared.
    prior : callable or None
        From a kernel to the prior around it; None is the kernel itself.
    """

    kernel: Any
    likelihood: Likelihood
    prior: Callable[[Any], Any] | None


def with_points(
    best: Hyperparameters,
    given: Given,
    rows: Rows,
    inducing: Any,
    planned: int,
    rng: np.random.Generator,
) -> Hyperparameters:
    """Search on where few points overlooked what there is, with points that do not.

    Parameters
    ----------
    best : Hyperparameters
        Where the search with `planned` points ended.
    given : Given
    rows : Rows
    inducing : str, array or callable
    planned : int
    rng : numpy.random.Generator

    Returns
    -------
    best : Hyperparameters
        With the number of points that it needs, where these are more.
    """
    look, search = rng.spawn(2)
    kernel, likelihood = given.kernel, given.likelihood
    shorter = overlooked_by_given(rows, likelihood, kernel, best.kernel, look)
    starts = [best[:2]]
    if shorter is not None:
        prior = shorter if given.prior is None else given.prior(shorter)
        starts.append((prior, likelihood))
    needed = points_needed(rows, best.likelihood, starts[-1][0], planned, look)
    free = len(best.kernel.theta) + len(best.likelihood.theta) > 0
    if not free or (not needed and shorter is None):
        return best._replace(n_inducing=needed)
    again = _search_with_more(rows, starts, inducing, max(needed, planned), search)
    return again._replace(n_inducing=needed)


def _search_with_more(
    rows: Rows,
    starts: list[tuple[Any, Likelihood]],
    inducing: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> Hyperparameters:
    """The best of searches with more points, hence of fewer rows; all of the same.

    From the last start in full: the others ended a search with fewer points.
    """
    m = min(n_inducing, _MORE_INDUCING)
    n = max(int(_BUDGET / m**2), _MORE_ROWS)
    search = Search(subset(rows, min(n, _ROWS), rng), inducing, m)
    steps = [_AGAIN_ITER] * (len(starts) - 1) + [_MORE_ITER]
    found = [
        climb_kernel(search, *start, most, rng, None)
        for start, most in zip(starts, steps, strict=True)
    ]
    best = max(found, key=lambda one: one.log_evidence)
    return best._replace(record=record_of(search, best.likelihood, rows))
