"""Warnings about hyperparameters that ended at their bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters._evidence import Hyperparameters
from skgpx._validation import warn
from skgpx.exceptions import ConvergenceWarning
from skgpx.kernels import GREKernel, theta_entries

Array = NDArray[np.float64]


def warn_at_bounds(found: Hyperparameters) -> bool:
    """Say in one warning which hyperparameters ended at a bound, and what to do.

    True if there is something to say.
    """
    at_bounds = _at_bounds(found.kernel, _trouble)
    if at_bounds:
        warn(
            f"The hyperparameters {'; '.join(at_bounds)} ended at their bounds. Widen "
            "the bounds of these parameters in `kernel`, or fix them on purpose with "
            'bounds="fixed".',
            ConvergenceWarning,
        )
    return bool(at_bounds)


def warn_at_default_bounds(found: Hyperparameters) -> bool:
    """Say in one warning which bounds of the default kernel were met, and what to do.

    The largest standard deviation of a log scale is meant to be met, where classes can
    be separated, and a small amplitude says that there is little to find.
    """

    def trouble(name: str, low: Array, high: Array) -> bool:
        if name.endswith("constant_value"):
            return bool(np.any(high)) and not found.likelihood.log_scale
        return name.endswith("length_scale") and bool(np.any(low))

    at_bounds = _at_bounds(found.kernel, trouble)
    if not at_bounds:
        return False
    name = type(found.likelihood).__name__
    scale = (
        f" If the latent function of {name} is a logarithm, say so by log_scale = True "
        "in its class."
    )
    large = any("constant_value" in one for one in at_bounds)
    known = found.likelihood.location_scale
    warn(
        f"With {name} and the default kernel, {'; '.join(at_bounds)} ended at the "
        "bounds that the data suggest. Give a `kernel` with wider ones, such as "
        f"{_wider(found.kernel)}.{scale if large and not known else ''}",
        ConvergenceWarning,
    )
    return True


def _wider(kernel: Any) -> str:
    """The default kernel, inside of its GRE kernel or not, with wider bounds."""
    inner = kernel.kernel if isinstance(kernel, GREKernel) else kernel
    (low, high), *scales = np.exp(inner.bounds)
    value, shortest = inner.k1.constant_value, np.min(scales)
    longest = float(np.max(scales))
    return (
        f"ConstantKernel({value:.3g}, ({low:.1g}, {100.0 * high:.1g})) * "
        f"RBF({np.ravel(inner.k2.length_scale).round(3).tolist()}, "
        f"({0.01 * shortest:.1g}, {longest:.1g}))"
    )


def _at_bounds(kernel: Any, trouble: Callable[[str, Array, Array], bool]) -> list[str]:
    """Hyperparameters of which `trouble` says that their bounds deserve a word."""
    at_bounds = []
    for name, entries in theta_entries(kernel):
        values, bounds = kernel.theta[entries], kernel.bounds[entries]
        if trouble(name, *(np.abs(values[:, np.newaxis] - bounds) < 1e-3).T):
            at_bounds.append(f"{name} = {np.exp(values).round(6).tolist()}")
    return at_bounds


def _trouble(name: str, low: Array, high: Array) -> bool:
    """Whether values at their lower or upper bounds deserve a warning.

    A column without effect has the longest lengthscale, and no background is wanted
    where the data say enough: neither is a sign of trouble.
    """
    if name == "background":
        return False
    if name.endswith("length_scale"):
        return bool(np.any(low))
    return bool(np.any(low) or np.any(high))
