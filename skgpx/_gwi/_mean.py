"""What a mean hands over to the rest of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._averaging import Seen

Array = NDArray[np.float64]


class FittedMean(NamedTuple):
    """A mean function, and what it says at the rows that trained it.

    Attributes
    ----------
    function : callable
        Maps (n, d) to (n, c), in units of the standardised y; latent scores of classes.
        Picklable.
    residual_values : ndarray of shape (n, c)
        Values at the training rows from which noise, kernel and tempering are learned:
        wherever the mean was trained on a row, values of one that was not (out of
        fold, or of the rows held out for early stopping), if there is one.
    trusted : ndarray of bool of shape (n,)
        Rows whose `residual_values` were not trained on.
    seen : Seen or None
        What networks say of all rows that were trained on them; None where there are
        none for one of the trusted rows.
    """

    function: Callable[[Array], Any]
    residual_values: Array
    trusted: NDArray[np.bool_]
    seen: Seen | None = None
