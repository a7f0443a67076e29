"""Whether the process alone would have been a better mean than the networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._mean import FittedMean
from skgpx._gwi._prior import Prior
from skgpx._hyperparameters import LeftOver, left_out_means, warn_of_left_over
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning

Array = NDArray[np.float64]

# Judges at most, the fewest that say anything, and rows of the process, with judges.
_MOST, FEWEST_TOLD, PROCESS_ROWS = 300, 20, 1000
# Squared errors of the networks in units of those of the process, up to which they are
# the mean: the process has fewer rows to learn from, or as many, and judges are few.
AS_GOOD, AS_GOOD_OF_ALL = 1.25, 1.1
# In one column gaps are what uncertainty is about, where networks are a worse mean
# than their errors beside rows say: there they have to be better.
FEW_COLUMNS, BETTER = 1, 0.9
# Rows for each parameter of kernel and noise below which rows left out are not unseen:
# of 100 rows with 8 columns the kernel has errors of half of those at new rows.
_ROWS_A_PARAMETER = 25
# It is told where they are more than so many times those of the process, and by more
# than this share of the variance of y.
_WORSE, _SHARE = 2.0, 0.05
# What to do where structure was missed.
_MISSED = (
    'n_inducing="auto" takes as many points as the rows pay for; or give a kernel '
    "whose lengthscales start near the scale of the variation, or a regressor that "
    "finds it as the mean, such as HistGradientBoostingRegressor()."
)


class MeanErrors(NamedTuple):
    """Mean squared errors at rows that neither mean has seen.

    Attributes
    ----------
    networks, process : float
        In units of the variance of y.
    n_seen, n_judges : int
        Rows that the process has seen, and rows that judge.
    as_good : float
        Errors of the networks in units of those of the process, up to which they serve.
    """

    networks: float
    process: float
    n_seen: int
    n_judges: int
    as_good: float = 1.25

    @classmethod
    def of(
        cls,
        rows: Rows,
        level: Array,
        prior: Prior,
        mean: FittedMean,
        share: float = 1.0,
        learn: Callable[[NDArray[np.bool_]], Prior] | None = None,
    ) -> MeanErrors | None:
        """Of networks and of the process of the prior on at most 1000 rows.

        The process is judged at each row by all others: networks have seen most rows,
        too, where rows are few.

        Parameters
        ----------
        rows : Rows
        level : ndarray of shape (n,)
            Prior mean at the rows.
        prior : Prior
        mean : FittedMean
            Of the networks.
        share : float, default=1.0
            What the average of networks has of the squared errors of single ones.
        learn : callable, optional
            The prior that some of the rows say. Either half of the judges is then
            predicted under a kernel that has not seen it.

        Returns
        -------
        errors : MeanErrors or None
            None if fewer than 20 rows could judge, or y is constant.
        """
        judges = np.flatnonzero(mean.trusted)
        judges = judges[:: -(-len(judges) // _MOST) or 1]
        others = np.setdiff1d(np.arange(len(rows.y)), judges)
        spread = variance_of(rows)
        if len(judges) < FEWEST_TOLD or spread == 0.0:
            return None
        room = PROCESS_ROWS - len(judges)
        seen = np.sort(np.append(judges, others[:: -(-len(others) // room) or 1]))
        around = rows._replace(y=rows.y - level).take(seen)
        process = level[seen] + left_out_means(
            prior.kernel, prior.noise_variance, around
        )
        for half in (judges[::2], judges[1::2]) if learn is not None else ():
            part = np.isin(seen, half)
            own = learn(~np.isin(np.arange(len(rows.y)), half))
            there = left_out_means(own.kernel, own.noise_variance, around)
            process[part] = (level[seen] + there)[part]
        at = np.searchsorted(seen, judges)
        y, weights = rows.y[judges], rows.weights[judges]
        errors = [
            float(np.average((y - values) ** 2, weights=weights)) / spread
            for values in (mean.residual_values[judges, 0], process[at])
        ]
        as_good = AS_GOOD_OF_ALL if len(seen) == len(rows.y) else AS_GOOD
        if rows.X.shape[1] <= FEW_COLUMNS:
            as_good = BETTER
        return cls(share * errors[0], errors[1], len(seen) - 1, len(judges), as_good)


def networks_serve(errors: MeanErrors | None) -> bool:
    """Whether networks are the better mean, or nearly as good.

    Nearly is not enough where they are worse than the mean of y.
    """
    if errors is None:
        return False
    lost = errors.networks > 1.0 and errors.process < errors.networks
    return not lost and errors.networks <= errors.as_good * errors.process


def confirmed(
    errors: MeanErrors | None,
    learn: Callable[[NDArray[np.bool_]], Prior],
    rows: Rows,
    level: Array,
    prior: Prior,
    mean: FittedMean,
    share: float,
) -> MeanErrors | None:
    """Errors of a kernel that has not seen the judges, if it may know them too well.

    The parameters are those of `MeanErrors.of`.
    """
    if errors is None or not may_overfit(prior.kernel, len(rows.y)):
        return errors
    with warnings.catch_warnings():
        # what fewer rows do not show is no matter of the fit
        warnings.simplefilter("ignore")
        return MeanErrors.of(rows, level, prior, mean, share, learn)


def may_overfit(kernel: Any, n: int) -> bool:
    """Whether a kernel of so many free parameters may know its n rows too well."""
    return len(kernel.theta) > 0 and n < _ROWS_A_PARAMETER * (len(kernel.theta) + 1)


def variance_of(rows: Rows) -> float:
    """Variance of y: the mean squared error of its mean."""
    mean = np.average(rows.y, weights=rows.weights)
    return float(np.average((rows.y - mean) ** 2, weights=rows.weights))


def warn_if_constant_is_better(errors: MeanErrors | None) -> None:
    """Say so if no mean is better than that of y."""
    if errors is None or errors.n_judges < FEWEST_TOLD:
        return
    error = min(errors.networks, errors.process)
    if error <= 1.0 + _SHARE:
        return
    warn(
        f"Predictions are worse than the mean of y: at {errors.n_judges} rows that "
        f"were not seen the mean squared error is {error:.2f} times the variance of "
        "y. The rows are too few to show how y depends on X, or it does not. Give more "
        "rows, columns in which y is simpler, or a kernel that is known and "
        "optimizer=None.",
        FitWarning,
    )


def warn_if_process_is_better(errors: MeanErrors | None) -> bool:
    """Say so where networks miss what the process finds, in no more rows.

    A wave of many periods, for example, or two columns that matter among sixty.
    """
    if errors is None or errors.networks <= _WORSE * errors.process:
        return False
    told = errors.networks - errors.process > _SHARE
    if told:
        warn(
            f"The networks leave {100.0 * errors.networks:.0f} % of the variance of y "
            f"at {errors.n_judges} rows they were not trained on, and a process that "
            f"saw {errors.n_seen} rows leaves {100.0 * errors.process:.0f} %: gradient "
            'descent has missed what the kernel finds. Take mean="auto" or "svgp", or '
            "give columns in which y is simpler.",
            FitWarning,
        )
    return told


def warn_of_missed(left: LeftOver | None) -> bool:
    """Say so if the mean misses structure."""
    return warn_of_left_over(left, _MISSED)
