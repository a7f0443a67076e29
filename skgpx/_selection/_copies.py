"""Copies of rows: of one y at one input they say that there is no noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._selection._search_record import COUNTED_ONCE
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._scales import rounding_variance

Array = NDArray[np.float64]

# Of the standardised y: noise below is none; a search that loses it ends near 1e-8.
VANISHED_NOISE = 1e-6
# Rows of a y of few values, as weighted, for each that counts once, above which
# repetitions do not count.
_REPEATED = 1.5


def lost_noise_to_copies(likelihood: Likelihood, rows: Rows) -> bool:
    """Whether a search ended without noise, some rows being there more than once.

    The density of y contains ``(2πσ²)^(-(w - 1) / 2)`` for each row of weight w: equal
    errors of w observations, which have probability zero under normal noise. The
    evidence therefore has no maximum: it grows without bound as σ falls to zero.
    """
    learned = len(likelihood.theta) > 0
    noise = getattr(likelihood, "noise_parameter", None)
    if not learned or noise is None or noise >= VANISHED_NOISE:
        return False
    return bool(np.any(rows.weights > 1.0))


def counted_once(rows: Rows) -> Rows:
    """The rows, copies left out."""
    return rows._replace(weights=np.minimum(rows.weights, 1.0))


def how_counted(read: Rows, rows: Rows) -> str:
    """For the record: that a search which read all rows left their copies out."""
    less = read.weights.sum() < (1.0 - 1e-12) * rows.weights.sum()
    return COUNTED_ONCE if len(read.y) == len(rows.y) and less else ""


def search_weights(rows: Rows) -> Array:
    """Weights of distinct rows (n,), at most one where no other has the same inputs.

    Two observations of a continuous y are never equal: equal ones at one input are
    copies. Where y has few values they may be equal by chance; weights then stay as
    they are where rows count for half as many again, or fewer.
    """
    once = np.where(_alone(rows.X), np.minimum(rows.weights, 1.0), rows.weights)
    return once if copies_count_once(rows.y, rows.weights, once) else rows.weights


def copies_count_once(y: Array, weights: Array, once: Array) -> bool:
    """Whether a search leaves out repetitions; `once` are the weights without them."""
    if np.array_equal(weights, once):
        return False
    by_chance = rounding_variance(y, np.minimum(weights, 1.0)) > 0.0
    return not by_chance or bool(weights.sum() > _REPEATED * once.sum())


def _alone(X: Array) -> NDArray[np.bool_]:
    """Rows whose inputs no other row has (n,)."""
    order = np.lexsort(X.T[::-1])
    same = np.all(X[order[1:]] == X[order[:-1]], axis=1)
    alone = np.ones(len(X), dtype=bool)
    alone[order[1:]] &= ~same
    alone[order[:-1]] &= ~same
    return alone
