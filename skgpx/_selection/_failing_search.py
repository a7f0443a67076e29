"""What a search sees where an evidence cannot be computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HOPELESS = 1e12


def negative_or_hopeless(
    value_and_gradient: Callable[[Array], tuple[float, Array]], theta: Array
) -> tuple[float, Array]:
    """Negative value and gradient; a large number and no slope where they fail."""
    try:
        value, gradient = value_and_gradient(theta)
    except np.linalg.LinAlgError:
        return _HOPELESS, np.zeros_like(theta)
    if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
        return _HOPELESS, np.zeros_like(theta)
    return -value, -gradient
