"""A level and waves of known frequencies: the few functions beside a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FourierFeatures, FunctionDraws, linear_draws, ones

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cycles:
    """The constant, and cosine and sine of r waves of one input; m = 1 + 2 r functions.

    Their weights are N(0, 1), the waves together having the prior variance one.

    Parameters
    ----------
    frequencies : ndarray of shape (r,)
        In cycles for each unit of the input.
    """

    frequencies: Array

    @cached_property
    def _waves(self) -> FourierFeatures:
        turns = 2.0 * np.pi * self.frequencies[:, np.newaxis]
        r = len(self.frequencies)
        return FourierFeatures(turns, np.full(r, 1.0 / np.sqrt(max(r, 1))))

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X (n, 1), shape (n, m)."""
        if not len(self.frequencies):
            return ones(X)
        return np.column_stack((ones(X), self._waves(X)))

    def draws(self, weights: Array) -> FunctionDraws:
        """Functions with these weights (m, c, s)."""
        level = linear_draws(ones, weights[:1])
        if not len(self.frequencies):
            return level
        return level + linear_draws(self._waves, weights[1:])
