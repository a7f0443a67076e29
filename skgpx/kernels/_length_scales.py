"""Lengthscales of composite kernels, and their positions in theta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def scaled_parts(kernel: Any) -> Iterator[Any]:
    """Kernels inside a kernel (itself included) that have a lengthscale, in order.

    Looks into sums, products, powers, compounds and GREKernels.
    """
    if hasattr(kernel, "length_scale"):
        yield kernel
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    for part in (*parts, *getattr(kernel, "kernels", ())):
        if part is not None:
            yield from scaled_parts(part)


def length_scales(kernel: Any, n_features: int) -> NDArray[np.float64]:
    """Lengthscales of the first part that has some, shape (d,); ones if none has.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int
        Number d of inputs.
    """
    part = next(scaled_parts(kernel), None)
    scale = 1.0 if part is None else np.asarray(part.length_scale, dtype=np.float64)
    return np.array(np.broadcast_to(scale, (n_features,)))


def longest_length_scales(kernel: Any, n_features: int) -> NDArray[np.float64]:
    """Largest lengthscale of each input over all parts, (d,); zeros if none has any."""
    longest = np.zeros(n_features)
    for part in scaled_parts(kernel):
        longest = np.maximum(longest, length_scales(part, n_features))
    return longest


def theta_entries(kernel: Any) -> Iterator[tuple[str, slice]]:
    """Names of the free hyperparameters, and their entries of theta."""
    start = 0
    for parameter in kernel.hyperparameters:
        if not parameter.fixed:
            yield parameter.name, slice(start, start + parameter.n_elements)
            start += parameter.n_elements


def length_scale_entries(kernel: Any) -> list[slice]:
    """Entries of theta that are lengthscales, one slice for each part of the kernel."""
    entries = theta_entries(kernel)
    return [part for name, part in entries if name.endswith("length_scale")]
