"""Whether the process alone would have been a better mean than the networks."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._mean import FittedMean
from skgpx._gwi._prior import SEARCH_ROWS, Prior
from skgpx._hyperparameters import held_out
from skgpx._validation import Rows, caller_stacklevel

Array = NDArray[np.float64]

# Judges at most, and the fewest that say anything.
_MOST, FEWEST_TOLD = 300, 20
# Squared errors of the networks in units of those of the process, up to which they are
# the mean: the process has fewer rows to learn from, and judges are few.
_AS_GOOD = 1.25
# It is told where they are more than so many times those of the process, and by more
# than this share of the variance of y.
_WORSE, _SHARE = 2.0, 0.05


class MeanErrors(NamedTuple):
    """Mean squared errors at rows that neither mean has seen.

    Attributes
    ----------
    networks, process : float
        In units of the variance of y.
    n_seen, n_judges : int
        Rows that the process has seen, and rows that judge.
    """

    networks: float
    process: float
    n_seen: int
    n_judges: int

    @classmethod
    def of(
        cls,
        rows: Rows,
        level: Array,
        prior: Prior,
        mean: FittedMean,
        share: float = 1.0,
    ) -> MeanErrors | None:
        """Of networks and of the process of the prior on at most 500 rows.

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

        Returns
        -------
        errors : MeanErrors or None
            None if fewer than 20 rows could judge, or y is constant.
        """
        judges = np.flatnonzero(mean.trusted)
        judges = judges[:: -(-len(judges) // _MOST) or 1]
        others = np.setdiff1d(np.arange(len(rows.y)), judges)
        spread = float(np.average(rows.y**2, weights=rows.weights))
        if len(judges) < FEWEST_TOLD or len(others) == 0 or spread == 0.0:
            return None
        few = others[:: -(-len(others) // SEARCH_ROWS)]
        seen = rows._replace(y=rows.y - level).take(few)
        law = held_out(prior.kernel, prior.noise_variance, seen, rows.X[judges])
        y, weights = rows.y[judges], rows.weights[judges]
        errors = [
            float(np.average((y - values) ** 2, weights=weights)) / spread
            for values in (mean.residual_values[judges, 0], level[judges] + law.mean)
        ]
        return cls(share * errors[0], errors[1], len(few), len(judges))


def networks_serve(errors: MeanErrors | None) -> bool:
    """Whether networks are the better mean, or nearly as good."""
    return errors is not None and errors.networks <= _AS_GOOD * errors.process


def warn_if_process_is_better(errors: MeanErrors | None) -> None:
    """Say so where networks miss what the process finds, in no more rows.

    A wave of many periods, for example, or two columns that matter among sixty.
    """
    if errors is None or errors.networks <= _WORSE * errors.process:
        return
    if errors.networks - errors.process > _SHARE:
        warnings.warn(
            f"The networks leave {100.0 * errors.networks:.0f} % of the variance of y "
            f"at {errors.n_judges} rows they were not trained on, and a process that "
            f"saw {errors.n_seen} rows leaves {100.0 * errors.process:.0f} %: gradient "
            'descent has missed what the kernel finds. Take mean="auto" or "svgp", or '
            "give columns in which y is simpler.",
            UserWarning,
            stacklevel=caller_stacklevel(),
        )
