"""Copies of rows, under which normal noise vanishes."""

from __future__ import annotations

import numpy as np

from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood

# Of the standardised y: noise below is none; a search that loses it ends near 1e-8.
_VANISHED = 1e-6


def lost_noise_to_copies(likelihood: Likelihood, rows: Rows) -> bool:
    """Whether a search ended without noise, some rows being there more than once.

    The density of y contains ``(2πσ²)^(-(w - 1) / 2)`` for each row of weight w: equal
    errors of w observations, which have probability zero under normal noise. The
    evidence therefore has no maximum: it grows without bound as σ falls to zero.
    """
    learned = len(likelihood.theta) > 0
    noise = getattr(likelihood, "noise_parameter", None)
    if not learned or noise is None or noise >= _VANISHED:
        return False
    return bool(np.any(rows.weights > 1.0))


def counted_once(rows: Rows) -> Rows:
    """The rows, copies left out."""
    return rows._replace(weights=np.minimum(rows.weights, 1.0))
