"""Kernel and noise of the prior process, before the mean is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import ExpSineSquared

from skgpx._selection import PriorSettings, SearchRecord, fit_prior
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning
from skgpx.kernels import default_kernel, expand
from skgpx.likelihoods import Gaussian

# Largest number of rows of the search, and lower bound of the noise variance: with few
# rows and many columns the noise is often not identified, and vanishes.
SEARCH_ROWS, NOISE_FLOOR = 500, 1e-3
# Rows on which kernels are compared, where the mean does not depend on them, before the
# best is refitted to all: at least so many, with at most so many times their distance.
COMPARED_ROWS, THINNED = 200, 1.25


class Prior(NamedTuple):
    """Gaussian-process prior of the standardised y, and the noise.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    record : SearchRecord
        Rows they were learned from.
    """

    kernel: Any
    noise_variance: float
    record: SearchRecord = SearchRecord()


def learn_prior(
    rows: Rows,
    kernel: Any,
    optimizer: str | None,
    noise_variance: float | None,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    thinned: bool = False,
    mean_square: float | None = None,
) -> Prior:
    """Kernel and noise by the exact evidence of at most 500 rows.

    Parameters
    ----------
    rows : Rows
        With a standardised y less the prior mean.
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        None lets RBF and Matern kernels compete.
    optimizer : "evidence" or None
    noise_variance : float or None
        Of the standardised y; None learns it, and takes no less than a thousandth of
        the variance of y.
    rng : numpy.random.Generator
    n_jobs : int or None
    thinned : bool, default=False
        Whether kernels are compared on fewer rows: half of the time.
    mean_square : float, optional
        Mean square of y, of which the noise has at least a thousandth; None is that of
        the rows.
    """
    (draw, search), n = rng.spawn(2), len(rows.y)
    if n > SEARCH_ROWS:
        rows = rows.take(np.sort(draw.permutation(n)[:SEARCH_ROWS]))
    likelihood = Gaussian(noise_variance).prepare(rows.y, rows.weights)
    if kernel is None and optimizer is None:
        kernel = default_kernel(rows.X, rows.weights)
    few = compared_rows(rows.X.shape[1]) if thinned else None
    settings = PriorSettings(kernel, "gp", optimizer, 1, "greedy", None, n_jobs, few)
    found = fit_prior(rows, likelihood, settings, search)
    noise = float(found.likelihood.variance(0.0))
    if noise_variance is None:
        if mean_square is None:
            mean_square = float(np.average(rows.y**2, weights=rows.weights))
        noise = max(noise, NOISE_FLOOR * mean_square)
    return Prior(found.kernel, noise, found.record._replace(distinct_rows=n))


def compared_rows(d: int) -> int:
    """Rows of d columns on which kernels are compared."""
    return max(COMPARED_ROWS, round(SEARCH_ROWS / THINNED**d))


def warn_if_periodic(kernel: Any) -> None:
    """Warn if no term of a kernel decays: the variance is then periodic.

    Far from the data, a whole number of periods away, the variance of the process is
    that at the data; a mean that has not learned the period is wrong there.
    """
    terms = [term.factors for term in expand(kernel) if term.factors]
    periodic = [all(type(f) is ExpSineSquared for f in factors) for factors in terms]
    if terms and all(periodic):
        warn(
            f"The kernel {kernel!r} is periodic and the mean is not: far from the data "
            "standard deviations are too small, because they are as small as at the "
            'data. Multiply the kernel by an RBF, or use mean="svgp", whose mean has '
            "the period of the kernel.",
            FitWarning,
        )
