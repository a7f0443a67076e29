"""Weighted mean and standard deviation of columns, and how large numbers may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Squares and cubes of numbers up to this are numbers, and of those from its inverse not
# zero.
LARGEST = 1e120


def mean_and_spread(
    values: Array, weights: Array | None, rounding: float
) -> tuple[Array, Array]:
    """Mean and standard deviation over the rows, one where nothing varies.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, d)
    weights : ndarray of shape (n,) or None
        Not all zero.
    rounding : float
        Part of the largest absolute value up to which a standard deviation counts as
        rounding: the column is constant.

    Returns
    -------
    mean, std : ndarray of shape () or (d,)
    """
    # in units of the largest entry, so that squares neither overflow nor underflow
    largest = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(largest > 0.0, largest, 1.0)
    scaled = values / size
    mean = np.average(scaled, axis=0, weights=weights)
    std = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
    return mean * size, np.where(std > rounding, std * size, 1.0)
