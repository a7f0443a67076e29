"""What workers do with blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FunctionDraws

Array = NDArray[np.float64]


def moments_of(estimator: Any, options: dict[str, bool], rows: Any) -> Any:
    """Mean, and what the options ask for besides."""
    return estimator.predict(rows, **options)


def observed(
    draws: FunctionDraws,
    noise_variance: Callable[[Array], Array],
    X: Array,
    rng: np.random.Generator,
) -> Array:
    """Values with white noise, (n, c, s)."""
    y = draws(X).reshape(len(X), draws.n_outputs, draws.n_draws)
    variance = noise_variance(X)
    if variance.any():
        y += np.sqrt(variance)[:, :, np.newaxis] * rng.standard_normal(y.shape)
    return y
