"""Is a likelihood log-concave where it matters? Looked up, not declared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.langevin import QUADRATIC, Target

Array = NDArray[np.float64]

# Rows and directions that are tried; places along a direction, up to so many prior
# standard deviations from the prior mean.
_ROWS, _DIRECTIONS, PLACES, REACH = 50, 6, 81, 4.0
# How much a slope may fall, relative to the largest one.
_ROUNDING = 1e-7


def is_log_concave(target: Target) -> bool:
    """Whether nll(y, f) is convex in f, at some rows and within reach of the prior.

    If so, the potential of the weights is strictly convex: it has one mode. The slope
    along a line must not fall; the lines pass through the prior mean of each row, over
    four prior standard deviations to either side. `target` must be in the coordinates
    of the weights.

    Notes
    -----
    Fifty rows, 81 places on each of one line (one output) or six: under a millisecond.
    A likelihood that is not log-concave further away counts as log-concave: no
    function of the prior goes there.
    """
    if target.code == QUADRATIC:
        return True
    rows = np.unique(np.linspace(0, len(target.y) - 1, _ROWS).astype(np.intp))
    c = target.n_outputs
    std = np.linalg.norm(target.features[rows], axis=1)
    std = np.sqrt(std[:, np.newaxis] ** 2 + target.std[rows] ** 2)
    centre = np.broadcast_to(target.offset, (len(target.y), c))[rows]
    lines = np.random.default_rng(0).standard_normal((_DIRECTIONS, c))
    # an even number of intervals would put a place exactly at zero
    places = np.linspace(-REACH, REACH, PLACES) + 1e-3
    for line in np.ones((1, 1)) if c == 1 else lines:
        step = (std * line)[:, :, np.newaxis]
        f = centre[:, :, np.newaxis] + step * places
        slope = np.sum(target.likelihood.row_gradient(target.y[rows], f) * step, axis=1)
        largest = np.max(np.abs(slope), axis=1, keepdims=True)
        if np.any(np.diff(slope, axis=1) < -_ROUNDING * (largest + 1.0)):
            return False
    return True
