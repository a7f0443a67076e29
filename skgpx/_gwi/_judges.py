"""Rows that judge the size of the variances, and what they say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._settings import LawSettings

Array = NDArray[np.float64]

# Share of the rows that judge, most and fewest of them.
SHARE, MOST, FEWEST = 0.3, 2000, 10
# Rows from which on two numbers are found instead of one.
ENOUGH = 100
# Least noise variance, in units of the mean squared error.
_LEAST = 1e-6


class Temper(NamedTuple):
    """The variance ``r + σ²`` as the judges have changed it: ``factor * r + noise``.

    Attributes
    ----------
    noise : float
    factor : float
    """

    noise: float
    factor: float


def choose_judges(
    trusted: NDArray[np.bool_], settings: LawSettings, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Some of the trusted rows, none of which will be an inducing point.

    The variance of the process vanishes at inducing points, and is not what it is at
    rows to come.
    """
    n, judges = len(trusted), np.zeros(len(trusted), bool)
    candidates = np.flatnonzero(trusted)
    size = min(len(candidates), MOST, int(SHARE * n))
    if settings.tempering is not None and size >= FEWEST:
        judges[rng.permutation(candidates)[:size]] = True
    return judges


def tempered(
    how: str | None, squares: Array, r: Array, weights: Array, noise: float
) -> Temper:
    """Variance by the likelihood of squared errors of rows.

    Parameters
    ----------
    how : {"auto", "factor", "affine"} or None
        "auto" is affine from 100 rows on.
    squares : ndarray of shape (n,)
        Squared errors of the judges; without any, nothing is changed.
    r : ndarray of shape (n,)
        Their variance under the process.
    weights : ndarray of shape (n,)
    noise : float
        That of the prior.
    """
    if not len(squares) or not np.any(squares):
        return Temper(noise, 1.0)
    factor = float(np.average(squares / (r + noise), weights=weights))
    return Temper(factor * noise, factor)
