"""Conditioning drawn functions on values: Matheron's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._functions import FunctionDraws
from skgpx._draws._sections import section_terms

Array = NDArray[np.float64]


def condition(
    prior: FunctionDraws,
    kernel: Any,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
) -> FunctionDraws:
    """Matheron's update: draws of the process given its values at some points.

    ::

        (f | f(Z) = v)(·)  =  f(·) + k(·, Z) S (v - f(Z))
                              ----   --------------------
                              prior  one more linear term

    Parameters
    ----------
    prior : FunctionDraws
        Draws ``f`` of the unconditioned process.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Its covariance.
    points : ndarray of shape (m, d)
        Where the values are known.
    values : ndarray broadcastable to (m, c, s), or float
        The values (for noisy observations: minus a draw of their noise).
    solve : callable
        ``S``: maps (m, k) to (m, k), the inverse of ``k(Z, Z)`` plus the variance of
        the noise.

    Returns
    -------
    draws : FunctionDraws
        As many draws as in ``prior``.
    """
    weights = update_weights(prior, points, values, solve)
    return prior.plus(section_terms(kernel, points, weights))


def update_weights(
    prior: FunctionDraws,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
) -> Array:
    """Weights ``S (v - f(Z))`` of the update, shape (m, c, s); see `condition`."""
    discrepancy = values - prior.values(points)
    m, c, s = discrepancy.shape
    return solve(discrepancy.reshape(m, c * s)).reshape(m, c, s)
