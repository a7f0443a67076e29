"""What averaging gains over the networks that rows are judged by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Seen(NamedTuple):
    """What networks say of rows that they were trained on, where others were not.

    Attributes
    ----------
    values : ndarray of shape (n, c)
        Mean of those that were trained on the row.
    variance : ndarray of shape (n, c)
        Of this mean: variance between them, over their number.
    share : ndarray of shape (n,)
        Of networks that were not trained on the row.
    """

    values: Array
    variance: Array
    share: Array

    def take(self, rows: NDArray[Any]) -> Seen:
        """Of some rows."""
        return Seen(self.values[rows], self.variance[rows], self.share[rows])


def share_of_error(y: Array, held_out: Array, seen: Seen, weights: Array) -> float:
    """Mean squared error of the average of all networks, over that of those held out.

    Parameters
    ----------
    y, held_out : ndarray of shape (n,)
        Targets, and values h of networks that were not trained on them.
    seen : Seen
        Of the same rows and one output.
    weights : ndarray of shape (n,)

    Returns
    -------
    share : float
        In (0, 1]; 1 where nothing can be told.

    Notes
    -----
    Let h = μ + δ, with variance s between starts and orders of the rows, and let those
    that have seen the row say t = μ + δ' + l (y - μ). With E, D and C the means of
    ``(y - h)²``, ``(t - h)²`` less the variance of δ', and ``(t - h) (y - h)``::

        E = N + s,    D = s + l² N,    C = s + l N    with N the mean of (y - μ)²,

    so that ``s = (D E - C²) / (D + E - 2 C)``. Networks at hand, of which the share q
    are those held out, have the error ``N + q s`` on average.
    """
    h, t = held_out, seen.values[:, 0]

    def mean(values: Array) -> float:
        return float(np.average(values, weights=weights))

    E = mean((y - h) ** 2)
    D, C = mean((t - h) ** 2 - seen.variance[:, 0]), mean((t - h) * (y - h))
    rest = D + E - 2.0 * C
    if not (E > 0.0 and rest > 0.0):
        return 1.0
    s = np.clip((D * E - C**2) / rest, 0.0, E)
    return float(1.0 - (1.0 - mean(seen.share)) * s / E)
