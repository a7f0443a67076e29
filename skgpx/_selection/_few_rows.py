"""Rows that are too few to learn hyperparameters from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._selection._evidence import Hyperparameters
from skgpx._selection._learner import with_noise
from skgpx._selection._search_record import SearchRecord
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Distinct rows from which on anything is learned, and the noise variance before that.
FEWEST_ROWS, UNLEARNED_NOISE = 4, 0.1
# Rows looked at at a time.
_BLOCK = 1000


def are_few(rows: Rows) -> bool:
    """Whether fewer rows differ than are learned from; rows need not be merged."""
    found: list[Array] = []
    for first in range(0, len(rows.y), _BLOCK):
        part = rows.take(slice(first, first + _BLOCK))
        left = np.column_stack((part.X, part.y))[part.weights > 0.0]
        for one in found:
            left = left[np.any(left != one, axis=1)]
        while len(left):
            found.append(left[0])
            if len(found) == FEWEST_ROWS:
                return False
            left = left[np.any(left != left[0], axis=1)]
    return True


def unlearned(prior: Any, likelihood: Likelihood, rows: Rows) -> Hyperparameters:
    """The parameters as they start: the evidence of so few rows would be certain.

    The most probable process of a single row is a constant without noise.
    """
    if isinstance(likelihood, Gaussian):
        likelihood = with_noise(likelihood, UNLEARNED_NOISE)
    if len(prior.theta) + len(likelihood.theta):
        warn(
            f"Too few distinct rows to learn from, {len(rows.y)}: the kernel stays "
            f"{prior!r}, in units of the standardised y, and the noise as it starts. "
            f"Standard deviations are guesses. Fit {FEWEST_ROWS} or more rows, or give "
            "a kernel and a noise that are fixed.",
            FitWarning,
        )
    record = SearchRecord(distinct_rows=len(rows.y))
    return Hyperparameters(prior, likelihood, np.nan, record=record)
