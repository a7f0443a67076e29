"""Default kernels, and the parts of a kernel the estimators ask about."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Product,
    Sum,
    WhiteKernel,
)

Bounds = tuple[float, float] | NDArray[np.float64] | str


def default_kernel(
    X: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Product:
    """Amplitude times an RBF with one lengthscale per column.

    The lengthscales start at ``2 sqrt(d)`` standard deviations of their column,
    within bounds of 1e-2 and 1e3 standard deviations: long enough that the first
    step of a hyperparameter search sees structure in every column.

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
    std = _column_std(X, weights)
    length_scale = 2.0 * np.sqrt(d) * std
    bounds = np.column_stack((1e-2 * std, 1e3 * std))
    if d == 1:
        rbf = RBF(float(length_scale[0]), (bounds[0, 0], bounds[0, 1]))
    else:
        rbf = RBF(length_scale, bounds)
    return ConstantKernel(1.0, (1e-3, 1e3)) * rbf


def _column_std(
    X: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Column-wise standard deviation; 1 where it is nothing but rounding."""
    # in units of the largest entry, so that squares neither over- nor underflow
    size = np.max(np.abs(X), axis=0, initial=0.0)
    scaled = X / np.where(size > 0.0, size, 1.0)
    mean = np.average(scaled, axis=0, weights=weights)
    std = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
    rounding = 10.0 * np.finfo(np.float64).eps
    return np.where(std > rounding, std * size, 1.0)


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
        If a WhiteKernel is anywhere but at the top level of a sum, if there are
        several, or if there is nothing else.
    """
    summands = _summands(kernel)
    noises = [part for part in summands if isinstance(part, WhiteKernel)]
    rest = [part for part in summands if not isinstance(part, WhiteKernel)]
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
    return _sum_of(rest), float(noise.noise_level), noise.noise_level_bounds


def length_scales(kernel: Any, n_features: int) -> NDArray[np.float64]:
    """Lengthscales of the first kernel inside that has some, shape (d,); else ones."""
    for name, value in kernel.get_params(deep=True).items():
        if name.rsplit("__", 1)[-1] == "length_scale":
            scale = np.asarray(value, dtype=np.float64)
            return np.array(np.broadcast_to(scale, (n_features,)))
    return np.ones(n_features)


def _summands(kernel: Any) -> list[Any]:
    if isinstance(kernel, Sum):
        return _summands(kernel.k1) + _summands(kernel.k2)
    return [kernel]


def _sum_of(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = Sum(total, part)
    return total


def _contains_noise(kernel: Any) -> bool:
    parts = kernel.get_params(deep=True).values()
    return any(isinstance(part, WhiteKernel) for part in parts)
