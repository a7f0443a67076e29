"""Callbacks for the fit of Langevin samplers, in the protocol of scikit-learn 1.9."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

__all__ = ["StopOnRhat"]


class StopOnRhat:
    """Stop the chains as soon as they agree with each other.

    Ends the fit after the first round of steps in which the largest split R-hat over
    the coordinates is at most `threshold`. The estimators themselves do so at their
    `tol`; the callback can use another threshold, records the values in `history_`,
    and can be subclassed to add conditions.

    Parameters
    ----------
    threshold : float, default=1.01
        At least 1.

    Attributes
    ----------
    history_ : list of float
        Largest split R-hat after each round of the latest fit; not finite after the
        first round, when there are no two halves to compare.

    Notes
    -----
    Needs scikit-learn 1.9 or later, for ``estimator.set_callbacks``. In a search whose
    candidates are fitted in other processes each has its own copy.

    Examples
    --------
    >>> from skgpx.callbacks import StopOnRhat
    >>> StopOnRhat(1.05)
    StopOnRhat(threshold=1.05)
    """

    def __init__(self, threshold: float = 1.01):
        if not (isinstance(threshold, Real) and threshold >= 1.0):
            raise ValueError(
                "StopOnRhat expects a threshold of at least 1, the value of perfect "
                f"agreement; got {threshold!r}."
            )
        self.threshold = threshold
        self.history_: list[float] = []

    def __repr__(self) -> str:
        return f"StopOnRhat(threshold={self.threshold!r})"

    def setup(self, estimator: Any, context: Any) -> None:  # noqa: ARG002
        """Begin a new history."""
        self.history_ = []

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing: no resource is held."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: only the end of a round matters."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Whether the chains of this round agree; False for the end of the fit."""
        del estimator
        # rounds are the leaves of the tree of tasks
        if context.max_subtasks != 0 or not hasattr(fitted_estimator, "rhat_"):
            return False
        self.history_.append(float(np.max(fitted_estimator.rhat_)))
        return self.history_[-1] <= self.threshold
