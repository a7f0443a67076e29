"""Capacity by doubling: as many inducing points as gain, within one budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._validation import Rows
from skgpx.bases import select_inducing, select_until

Array = NDArray[np.float64]

# Gain for which capacity is doubled: nats an observation, and in all.
_GAIN, _LEAST_GAIN = 0.01, 10.0
# What points may leave out of the evidence, in nats an observation; the largest n m² of
# the pass over the rows, and the largest and smallest m where that decides.
_ENOUGH, _BUDGET, _MOST, _LEAST = 1e-3, 2.5e11, 2500, 100


def grow(
    score: Callable[[int], float], size: int, largest: int, n: float
) -> tuple[int, float]:
    """Capacity after which twice as much gains too little, and its score.

    Too little is less than 0.01 nats an observation, or less than 10 nats in all.

    Parameters
    ----------
    score : callable
        Log evidence or density of n observations of a model of this size, in nats.
    size, largest : int
        Where growth starts, and what the budget allows.
    n : float
        Number of observations.
    """
    value = score(size)
    while size < largest:
        larger = min(2 * size, largest)
        gained = score(larger)
        if gained - value < max(_GAIN * n, _LEAST_GAIN):
            break
        size, value = larger, gained
    return size, value


def most_inducing(n: int, largest: int | None = None) -> int:
    """Largest number of inducing points within the budget for n rows.

    The pass over the rows takes 2 n m² operations and the posterior a few m³: at most
    5e11 for the first, ten seconds of one core.
    """
    most = min(_MOST, n) if largest is None else min(_MOST, n, largest)
    return max(min(most, int(np.sqrt(_BUDGET / n))), min(_LEAST, most))


def inducing_by_capacity(
    rows: Rows,
    kernel: Any,
    noise_variance: float,
    inducing: str,
    rng: np.random.Generator,
    largest: int | None = None,
) -> Array:
    """Inducing points until what they leave no longer matters.

    The evidence bound of m points is below the exact evidence by no more than about
    ``Σ var g(x_i) / (2 noise_variance)`` nats: the greedy choice ends when that is a
    thousandth of a nat an observation. Where the budget ends first the spectrum of the
    kernel is flat, and random rows serve as well as greedy ones, which then lie at the
    rim of the data.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    inducing : str
        Strategy; others than "greedy" place as many points.
    rng : numpy.random.Generator
    largest : int, optional
        A smaller limit.

    Notes
    -----
    O(4000 m^2) in matrix products for the greedy choice, m at most 2500.
    """
    X, weights = rows.X, rows.weights
    most = most_inducing(len(rows.y), largest)
    enough = _ENOUGH * 2.0 * noise_variance
    points = select_until(X, kernel, most, enough, rng, weights)
    if inducing == "greedy" and points is not None:
        return points
    how = "random" if inducing == "greedy" else inducing
    size = most if points is None else len(points)
    return select_inducing(how, X, kernel, size, rng, weights)
