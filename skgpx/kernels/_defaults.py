"""The default kernel, and the separation of a kernel from its white noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Product,
    WhiteKernel,
)

from skgpx._numerics.spread import spread_inside
from skgpx.kernels._terms import sum_of, summands

Bounds = tuple[float, float] | NDArray[np.float64] | str
# Standard deviation of a column, in units of its largest entry, that is rounding.
_ROUNDING = 10.0 * np.finfo(np.float64).eps


def default_kernel(
    X: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Product:
    """Amplitude times an RBF with one lengthscale per column.

    The lengthscales start at ``2 sqrt(d)`` standard deviations of their column,
    within bounds of 1e-2 and 1e3 standard deviations: long enough for non-zero
    gradients in every column at the first step of a hyperparameter search. Entries far
    outside of a column's spread do not set its standard deviation. Where rows are
    closer to each other, as on a long time axis, their spacing is the lower bound.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, in any unit.
    weights : ndarray of shape (n,), optional
        Row weights, not all zero.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Product
        ``ConstantKernel * RBF``. Constant columns count as having a standard
        deviation of 1.
    """
    d = X.shape[1]
    std = spread_inside(X, weights, _ROUNDING)
    length_scale = 2.0 * np.sqrt(d) * std
    # an even spread over [0, 1] has a standard deviation of 1 / √12
    least = min(1e-2, np.sqrt(12.0) * len(X) ** (-1.0 / d))
    bounds = np.column_stack((least * std, 1e3 * std))
    if d == 1:
        rbf = RBF(float(length_scale[0]), (bounds[0, 0], bounds[0, 1]))
    else:
        rbf = RBF(length_scale, bounds)
    return ConstantKernel(1.0, (1e-3, 1e3)) * rbf


def split_noise(kernel: Any) -> tuple[Any, float | None, Bounds | None]:
    """Separate the white noise of a kernel from the latent function's kernel.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With at most one WhiteKernel, as a summand of the whole.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without the WhiteKernel.
    noise_level : float or None
        Variance of the noise; None if there is no WhiteKernel.
    noise_bounds : pair of floats, "fixed" or None
        Bounds of the noise level as they were given; None without a WhiteKernel.

    Raises
    ------
    ValueError
        If a WhiteKernel is not a summand of the whole kernel, if there are several, or
        if there is nothing else.
    """
    parts = summands(kernel)
    noises = [part for part in parts if isinstance(part, WhiteKernel)]
    rest = [part for part in parts if not isinstance(part, WhiteKernel)]
    for part in rest:
        if _contains_noise(part):
            raise ValueError(
                "A WhiteKernel stands for the observation noise and must be added "
                f"to the whole kernel; got one inside {part!r}. Write the kernel as "
                "k + WhiteKernel(...)."
            )
    if len(noises) > 1:
        raise ValueError(
            f"Expected at most one WhiteKernel; got {len(noises)} in {kernel!r}. "
            "Add up their noise levels into one."
        )
    if not rest:
        raise ValueError(
            f"Expected a kernel for the latent function; got only noise, {kernel!r}. "
            "Add another kernel, for example RBF()."
        )
    if not noises:
        return kernel, None, None
    noise = noises[0]
    return sum_of(rest), float(noise.noise_level), noise.noise_level_bounds


def _contains_noise(kernel: Any) -> bool:
    parts = kernel.get_params(deep=True).values()
    return any(isinstance(part, WhiteKernel) for part in parts)
