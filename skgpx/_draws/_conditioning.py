"""Conditioning drawn functions on values: Matheron's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._features import section_terms
from skgpx._draws._functions import FunctionDraws

Array = NDArray[np.float64]


def condition(
    prior: FunctionDraws,
    kernel: Any,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
    combinations: Array | None = None,
) -> FunctionDraws:
    """Matheron's update: draws of the process given linear functionals of it.

    ::

        (f | Aᵀf(Z) = v)(·)  =  f(·) + k(·, Z) A S (v - Aᵀf(Z))
                                ----   ------------------------
                                prior  one more linear term

    Parameters
    ----------
    prior : FunctionDraws
        Draws ``f`` of the unconditioned process.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Its covariance.
    points : ndarray of shape (n, d)
        Where the values are known.
    values : ndarray broadcastable to (m, c, s), or float
        The values (for noisy observations: minus a draw of their noise).
    solve : callable
        ``S``: maps (m, k) to (m, k), the inverse of ``Aᵀ k(Z, Z) A`` plus the variance
        of the noise.
    combinations : ndarray of shape (n, m), default=None
        ``A``; None for the values themselves.

    Returns
    -------
    draws : FunctionDraws
        As many draws as in ``prior``.
    """
    weights = update_weights(prior, points, values, solve, combinations)
    return prior.plus(section_terms(kernel, points, weights))


def update_weights(
    prior: FunctionDraws,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
    combinations: Array | None = None,
) -> Array:
    """Weights ``A S (v - Aᵀf(Z))`` of the update, shape (n, c, s); see `condition`."""
    at_points = prior.values(points)
    n, c, s = at_points.shape
    if combinations is None:
        discrepancy = (values - at_points).reshape(n, c * s)
        return solve(discrepancy).reshape(n, c, s)
    discrepancy = values - np.tensordot(combinations.T, at_points, 1)
    weights: Array = combinations @ solve(discrepancy.reshape(-1, c * s))
    return weights.reshape(n, c, s)
