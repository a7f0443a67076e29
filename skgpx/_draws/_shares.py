"""How the parts of a sum of kernels share the frequencies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._misfit import Predicted
from skgpx._draws._prior_parts import Part, Setting

Array = NDArray[np.float64]

# Smallest number of frequencies of a part.
_FEWEST = 8
# Part of the frequencies that is shared equally where data are given.
_EQUAL = 0.25
# Frequencies that the variance which data leave is estimated with: more high ones than
# the prior has, since the low ones are known.
_PILOT = Setting(256, "qmc", 3.0)


def prior_shares(parts: list[Part], X: Array) -> Array:
    """Shares in proportion to the prior variance at the rows of X; zero if exact."""
    return _normalised(
        np.array([0.0 if part.is_exact else part.size(X) for part in parts])
    )


def remaining_shares(
    parts: list[Part], predicted: list[Predicted], rng: np.random.Generator
) -> Array:
    """Shares that also heed the variance each part has left, given the data.

    The error of a variance ``Σ v_p`` is ``(Σ c v_p² / R_p)^½`` with R_p frequencies for
    part p, and smallest where R_p is in proportion to v_p. Near the data v_p is the
    variance that the data leave; far from them, that of the prior. A quarter of the
    frequencies is shared equally, the rest by the mean of both.

    Parameters
    ----------
    parts : list of Part
    predicted : list of Predicted
        Where the variance that is left is estimated.
    rng : numpy.random.Generator
        Source of the frequencies for it.
    """
    prior = prior_shares(parts, predicted[0].points)
    random = prior > 0.0
    if np.count_nonzero(random) <= 1:
        return prior
    left = np.zeros(len(parts))
    for i in np.flatnonzero(random):
        left[i] = _relative_variance(parts[i], predicted, rng)
    equal = random / np.count_nonzero(random)
    mixed = 0.5 * (prior + _normalised(left))
    shares: Array = _EQUAL * equal + (1.0 - _EQUAL) * mixed
    return shares


def _relative_variance(
    part: Part, predicted: list[Predicted], rng: np.random.Generator
) -> float:
    """Root mean square of the variance left of a part, relative to the whole."""
    feature_map, ratios = part.feature_map(_PILOT, rng), []
    for fold in predicted:
        variance = part.variance * np.sum(fold.of(feature_map) ** 2, axis=1)
        ratios.append(variance / fold.variance)
    return float(np.sqrt(np.mean(np.square(np.concatenate(ratios)))))


def _normalised(sizes: Array) -> Array:
    total = sizes.sum()
    return sizes / total if total > 0.0 else sizes


def divided(shares: Array, n_frequencies: int) -> list[int]:
    """Frequencies of each part, at least a few; all of them for a single part."""
    if np.count_nonzero(shares) <= 1:
        return [n_frequencies] * len(shares)
    counts = np.round(n_frequencies * shares).astype(int)
    return [max(int(count), min(_FEWEST, n_frequencies)) for count in counts]
