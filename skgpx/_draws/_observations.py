"""Checks of observations of drawn functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def observations(
    y: ArrayLike, noise_variance: ArrayLike, shape: tuple[int, int, int]
) -> tuple[Array, Array]:
    """Observations (p, c, s) and the variances of their noise (p,).

    Raises
    ------
    ValueError
        If shapes do not agree, a value is not finite, or a variance is negative.
    """
    p = shape[0]
    observed = _observed(y, shape)
    noise = np.asarray(noise_variance, dtype=np.float64)
    if noise.shape not in ((), (p,)):
        raise ValueError(
            f"noise_variance must be a number or one for each of {p} rows; "
            f"got shape {noise.shape}."
        )
    if not np.all((noise >= 0.0) & np.isfinite(noise)):
        raise ValueError(
            f"noise_variance must be finite and not negative; got {noise_variance!r}."
        )
    return observed, np.broadcast_to(noise, p)


def _observed(y: ArrayLike, shape: tuple[int, int, int]) -> Array:
    """Observations broadcast to (p, c, s)."""
    p, c, s = shape
    y = np.asarray(y, dtype=np.float64)
    if c == 1 and y.ndim <= 2 and y.shape in ((p,), (p, s)):
        y = y.reshape(p, 1, -1)
    elif y.shape == (p, c):
        y = y[:, :, np.newaxis]
    if y.shape not in ((p, c, s), (p, c, 1)):
        one = f"({p},)" if c == 1 else f"({p}, {c})"
        raise ValueError(
            f"y must have shape {one}, or {(p, c, s) if c > 1 else (p, s)} with values "
            f"for each draw; got {y.shape}."
        )
    if not np.isfinite(y).all():
        raise ValueError("y must be finite; got NaN or infinity.")
    return np.broadcast_to(y, shape)
