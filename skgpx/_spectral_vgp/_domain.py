"""Where the inputs may lie, and the box on which Fourier functions live."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx.bases import Box, KernelEigenvalues
from skgpx.kernels import longest_length_scales

Array = NDArray[np.float64]

# Part of the range added on either side of the data where no domain is given.
_MARGIN = 0.25
# Lengthscales between the ends of the domain across the joint of the box.
_PADDING = 4.0
# The same in widths of the domain, at most.
_MOST_PADDING = {1: 50.0, 2: 1.0, 3: 0.5}


def input_range(X: Array) -> Array:
    """Smallest and largest value of each column, shape (d, 2)."""
    return np.stack((X.min(axis=0), X.max(axis=0)), axis=1)


def joint_range(one: Array, other: Array) -> Array:
    """Range that covers both, shape (d, 2)."""
    low = np.minimum(one[:, 0], other[:, 0])
    return np.stack((low, np.maximum(one[:, 1], other[:, 1])), axis=1)


def data_domain(X: Array) -> Array:
    """Range of the data and a quarter of it on either side, (d, 2)."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = high - low
    # a constant column needs some room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    width = np.where(width > rounding, width, np.maximum(1.0, 1e3 * rounding))
    return np.stack((low - _MARGIN * width, high + _MARGIN * width), axis=1)


def box_of(domain: Array, rule: Any, learns: bool) -> Box:
    """Box whose joint does not connect the ends of the domain under a kernel.

    A series prior is periodic on purpose: its box is the domain. If the kernel is
    learned, for the periodic process, its box is not much wider than the domain in
    several dimensions, where width is expensive.
    """
    width = domain[:, 1] - domain[:, 0]
    kernel = kernel_of(rule)
    if kernel is None:
        return Box(domain[:, 0].copy(), width)
    padding = _PADDING * longest_length_scales(kernel, len(width))
    most = _MOST_PADDING[len(width)] if learns else _MOST_PADDING[1]
    return Box(domain[:, 0].copy(), width + np.minimum(padding, most * width))


def kernel_of(rule: Any) -> Any:
    return rule.kernel if isinstance(rule, KernelEigenvalues) else None
