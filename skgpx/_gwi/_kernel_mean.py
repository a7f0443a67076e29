"""Kernel features as a mean: their inducing points, and a refined kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._prior import SEARCH_ROWS, Prior, learn_prior
from skgpx._gwi._sparse_mean import SparseFit
from skgpx._selection import WORTH_LOOKING, LeftOver
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing, select_until

if TYPE_CHECKING:
    from skgpx._gwi._fit import GWIProblem

Array = NDArray[np.float64]

# Inducing points that leave more nats per observation unexplained than the first are
# replaced by as many as leave the second, up to the third, if the error falls below
# this share.
_MIN_UNEXPLAINED, _ENOUGH, _MAX_INDUCING, _GAIN = 0.1, 0.01, 500, 0.8
# The same again, up to so many points, and so many operations n m².
_MANY_INDUCING, _BUDGET = 1500, 2.5e10
# Ratio of the numbers of rows of successive windows.
_CLOSER = 4


class KernelMean(NamedTuple):
    """A mean in kernel features, fitted to the rows.

    Attributes
    ----------
    prior : Prior
    validation : ndarray of bool of shape (n,)
    validated : SparseFit
        None of whose inducing points is a validation row.
    fit : SparseFit
        The mean: the same, unless all rows are inducing points.
    """

    prior: Prior
    validation: NDArray[np.bool_]
    validated: SparseFit
    fit: SparseFit

    def residual_autocorrelation(self, problem: GWIProblem) -> LeftOver | None:
        """Autocorrelation of its leave-one-out residuals."""
        rows = problem.rows
        errors = rows.y - problem.level - self.validated.mean.leave_one_out
        return LeftOver.of(rows.X, errors, problem.variance)


def fit_kernel_mean(problem: GWIProblem, prior: Prior) -> KernelMean:
    """Mean in kernel features, with as many inducing points as n rows allow."""
    validation = problem.validation_rows(np.ones(len(problem.rows.y), bool))
    kappa = problem.mean_weight(prior)
    rows = problem.rows._replace(y=problem.targets(kappa) - problem.level)
    noise = problem.settings.ridge * prior.noise_variance / (1.0 + kappa)

    def fit(basis: Nystroem) -> SparseFit:
        return SparseFit.of(basis, rows, noise, problem.n_jobs)

    best = fit(problem.basis(prior, validation))
    n = len(rows.y)
    allowed = int(np.sum(~validation))
    for most in (_MAX_INDUCING, affordable(n)):
        most = min(most, allowed)
        if _may_grow(problem, best, most) and best.unexplained > _MIN_UNEXPLAINED:
            wider = fit(_grown(problem, prior, ~validation, most))
            best = wider if wider.error < _GAIN * best.error else best
    whole, all_used = best, len(best.basis.inducing_points) == allowed
    grows = all_used and n <= affordable(n) and _may_grow(problem, best, n)
    if grows and best.unexplained > _MIN_UNEXPLAINED:
        # the mean may need inducing points at validation rows
        wider = fit(_grown(problem, prior, np.ones(n, bool), n))
        whole = wider if wider.error < best.error else best
    return KernelMean(prior, validation, best, whole)


def affordable(n: int) -> int:
    """Largest number of inducing points of a mean of n rows."""
    return max(min(_MANY_INDUCING, int(np.sqrt(_BUDGET / n))), _MAX_INDUCING)


def _may_grow(problem: GWIProblem, fit: SparseFit, most: int) -> bool:
    """Whether the number of inducing points is free, and more are allowed."""
    return _is_free(problem) and len(fit.basis.inducing_points) < most


def _is_free(problem: GWIProblem) -> bool:
    """Whether the number of inducing points is free."""
    s = problem.settings
    return s.n_inducing == "auto" and isinstance(s.inducing, str)


def _grown(
    problem: GWIProblem, prior: Prior, allowed: NDArray[np.bool_], most: int
) -> Nystroem:
    """Basis of as many points as follow the prior, within a limit."""
    rows, rng = problem.rows.take(allowed), problem.selection_rng()
    most = min(most, len(rows.y))
    left = 2.0 * _ENOUGH * prior.noise_variance
    how = rows.X, prior.kernel, most
    Z = select_until(*how, left, rng, rows.weights)
    if Z is None:
        Z = select_inducing(problem.settings.inducing, *how, rng, rows.weights)
    return Nystroem.from_kernel(prior.kernel, Z)


def refine_kernel(problem: GWIProblem, found: KernelMean) -> KernelMean:
    """Kernel mean with a kernel learned from a window of the rows, if it is better.

    A subset of 500 of many rows is sparse. Where residuals are autocorrelated, 500 rows
    of a window are denser, and the first window that lowers the error is used.
    """
    left = found.residual_autocorrelation(problem)
    s, n = problem.settings, len(problem.rows.y)
    if s.optimizer is None or n <= SEARCH_ROWS or not _is_free(problem):
        return found
    if left is None or left.share < WORTH_LOOKING:
        return found
    rows = problem.rows._replace(y=problem.rows.y - problem.level)
    variance = float(np.average(rows.y**2, weights=rows.weights))
    for part in _windows(left, rows, problem.refinement_rng()):
        with warnings.catch_warnings():
            # warnings about a window do not concern the fit
            warnings.simplefilter("ignore")
            prior = learn_prior(
                part,
                s.kernel,
                s.optimizer,
                s.noise_variance,
                problem.refinement_rng(),
                problem.n_jobs,
                mean_square=variance,
            )
        closer = fit_kernel_mean(problem, prior)
        if closer.validated.error < _GAIN * found.validated.error:
            return closer
    return found


def _windows(left: LeftOver, rows: Rows, rng: np.random.Generator) -> Iterator[Rows]:
    """At most 500 rows of smaller and smaller parts."""
    size = len(rows.y)
    while size > SEARCH_ROWS:
        size = max(size // _CLOSER, SEARCH_ROWS)
        part = left.window(rows.X, size)
        yield rows.take(np.sort(rng.permutation(part)[:SEARCH_ROWS]))
