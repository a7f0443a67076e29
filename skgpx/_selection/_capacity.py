"""As many inducing points as the rows pay for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._validation import Rows, warn
from skgpx.bases import select_inducing, select_until
from skgpx.exceptions import ConvergenceWarning

Array = NDArray[np.float64]

# What the points may leave out of the evidence, in nats a row.
_ENOUGH = 1e-3
# Largest n m² of the pass over the rows, and largest and smallest m for large n.
_BUDGET, _MOST, _LEAST = 2.5e11, 2500, 100
# Nats a row that the most points may leave unexplained without a word.
_WORTH_SAYING = 0.1
# Noise of few points that is signal: a share of what an exact process explains, and as
# many standard errors of its own noise; rows that can tell.
_SHARE, _ERRORS, _ROWS = 0.2, 3.0, 50


def most_inducing(n: int, largest: int | None = None) -> int:
    """Largest number of inducing points that n rows pay for.

    The pass over the rows takes 2 n m² operations and the posterior a few m³: at most
    5e11 for the first, ten seconds of one core.
    """
    within = int(np.sqrt(_BUDGET / n))
    most = min(_MOST, n) if largest is None else min(_MOST, n, largest)
    return max(min(most, within), min(_LEAST, most))


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
    thousandth of a nat a row. Where the budget ends first the spectrum of the kernel
    is flat, and random rows serve as well as greedy ones, which then lie at the rim
    of the data.

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

    Returns
    -------
    inducing_points : ndarray of shape (m, d)

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


def warn_of_budget(
    m: int, n: int, unexplained: float, parameter: str, largest: int | None = None
) -> None:
    """Say so if the budget ended before the points explained what they could.

    Parameters
    ----------
    m, n : int
        Numbers of points and rows.
    unexplained : float
        Nats a row.
    parameter : str
        Name of the number of points.
    largest : int, optional
        A smaller limit than that of the budget.
    """
    if m < most_inducing(n, largest) or m == n or unexplained < _WORTH_SAYING:
        return
    warn(
        f'{parameter}="auto" ended at {m} inducing points, the most that {n} rows pay '
        f"for, which leave up to {unexplained:.2g} nats a row of the evidence "
        "unexplained: predictions are valid and may be less sharp than more points "
        f"would make them. {parameter}={2 * m} takes about four times as long for the "
        f"final pass; {parameter}={m} accepts the number.",
        ConvergenceWarning,
    )


def warn_of_lost_signal(
    m: int, rows: Rows, exact_noise: float, noise_variance: float
) -> None:
    """Say so if a given number of points leaves signal that noise has taken.

    Parameters
    ----------
    m : int
        Number of points.
    rows : Rows
    exact_noise, noise_variance : float
        Variance of the noise beside an exact process, and beside the points.
    """
    y, weights = rows.y, rows.weights
    n, mean = float(weights.sum()), np.average(y, weights=weights)
    variance = float(weights @ (y - mean) ** 2) / n
    taken, explained = noise_variance - exact_noise, variance - exact_noise
    # std of an estimated variance: σ² √(2 / n)
    beyond = taken > _ERRORS * exact_noise * np.sqrt(2.0 / n)
    few = beyond and explained > 0.0 and taken > _SHARE * explained
    if m >= len(y) or n < _ROWS or not few:
        return
    share = 100.0 * min(taken / explained, 1.0)
    was, now = np.sqrt(exact_noise / variance), np.sqrt(noise_variance / variance)
    warn(
        f"{m} inducing points are too few for this function: the noise has taken "
        f"{share:.0f} % of the variance that an exact process of some rows explains. "
        f"Its standard deviation is {now:.2g} of that of y, beside the process "
        f"{was:.2g}: predictions are shrunk towards the mean, and their intervals too "
        'wide. n_inducing="auto" takes as many points as the data need.',
        ConvergenceWarning,
    )


def warn_of_few_points(m: int, needed: int, automatic: bool) -> None:
    """Say so if the points cannot follow what the search has found.

    `automatic` says that they are the most that were affordable, not a given number.
    """
    advice = (
        f"n_inducing={needed} takes longer: these are the most of"
        if automatic
        else "As many points as the data need are taken by"
    )
    warn(
        f"{m} inducing points are too few for this function: the evidence grows up to "
        f"about {needed}. Predictions miss its shorter waves, and the intervals do not "
        f'know it. {advice} n_inducing="auto".',
        ConvergenceWarning,
    )
