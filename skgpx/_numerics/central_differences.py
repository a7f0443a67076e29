"""Derivatives of functions of which nothing but values is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Relative step, which balances truncation against rounding.
_STEP = np.finfo(np.float64).eps ** (1.0 / 3.0)


def central_differences(function: Callable[[Array], Array], X: Array) -> Array:
    """``(h(x + δ e_k) - h(x - δ e_k)) / 2δ`` with ``δ = ε^(1/3) max(|x_k|, 1)``.

    Parameters
    ----------
    function : callable
        h, row by row: maps (n, d) to (n, q).
    X : ndarray of shape (n, d)

    Returns
    -------
    slopes : ndarray of shape (n, q, d)
        With errors of about 1e-10 for functions that change over distances of one.

    Notes
    -----
    2 d calls.
    """
    slopes = []
    for k in range(X.shape[1]):
        step = np.zeros(X.shape)
        step[:, k] = _STEP * np.maximum(np.abs(X[:, k]), 1.0)
        rise = function(X + step) - function(X - step)
        slopes.append(rise / (2.0 * step[:, k : k + 1]))
    return np.stack(slopes, axis=-1)
