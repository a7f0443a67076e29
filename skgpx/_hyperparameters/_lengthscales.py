"""The same kernel with other lengthscales: where searches start."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from skgpx._validation import Rows
from skgpx.kernels import default_kernel, length_scale_entries


def stretched(kernel: Any, log_factor: float) -> Any:
    """The same kernel with its free lengthscales multiplied, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += log_factor
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def narrowed(kernel: Any) -> Any:
    """Lengthscales divided by √2: the background of its GRE kernel is the original."""
    return stretched(kernel, -0.5 * np.log(2.0))


def with_long_lengthscales(kernel: Any, rows: Rows) -> Any:
    """The same kernel with free lengthscales of 2√d standard deviations."""
    scale = default_kernel(rows.X, rows.weights).get_params()["k2__length_scale"]
    scale = np.atleast_1d(scale)
    theta = kernel.theta.copy()
    for entries in length_scale_entries(kernel):
        several = entries.stop - entries.start > 1
        theta[entries] = np.log(scale if several else scale.mean())
    if not len(theta):
        return kernel
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def starting_kernels(
    kernel: Any, rows: Rows, n_restarts: int, rng: np.random.Generator
) -> list[Any]:
    """A kernel of the user's as it is, one with long lengthscales, and random ones."""
    starts = [kernel, with_long_lengthscales(kernel, rows)]
    for _ in range(n_restarts - 1):
        low, high = kernel.bounds.reshape(-1, 2).T
        starts.append(kernel.clone_with_theta(rng.uniform(low, high)))
    return starts[: n_restarts + 1]


def in_one_unit(kernel: Any) -> Any:
    """The default kernel with one lengthscale, and bounds, for columns of one unit."""
    scales = np.asarray(kernel.k2.length_scale)
    one = float(np.sqrt(np.mean(scales**2)))
    shares = np.asarray(kernel.k2.length_scale_bounds) / scales[:, np.newaxis]
    return clone(kernel).set_params(
        k2__length_scale=np.full_like(scales, one), k2__length_scale_bounds=one * shares
    )
