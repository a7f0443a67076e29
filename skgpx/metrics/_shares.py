"""Weights of the components of mixtures."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def mixture_shares(weights: ArrayLike | None, mean: Array) -> Array:
    """Weights of the components, of the shape of their means (..., s).

    Raises
    ------
    ValueError
        If they have another shape, are negative, or do not sum to one.
    """
    s = mean.shape[-1]
    share = np.full(s, 1.0 / s) if weights is None else np.asarray(weights, float)
    if share.shape not in ((s,), mean.shape):
        raise ValueError(
            f"weights must have shape ({s},) or {mean.shape}, as mean; got "
            f"{share.shape}."
        )
    if not np.all(share >= 0.0) or not np.allclose(share.sum(axis=-1), 1.0):
        raise ValueError("weights must be non-negative and sum to one for each law.")
    return np.broadcast_to(share, mean.shape)
