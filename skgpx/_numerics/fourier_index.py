"""Fourier functions on a box: which ones, in which order.

On a box with angles ``t = (x - origin) / period`` (in turns) the functions are, for
integer vectors k (*waves*) of one half of space::

    1,    √2 cos(2π k·t),    √2 sin(2π k·t)

They are orthonormal under the uniform distribution on the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Box(NamedTuple):
    """Box whose opposite sides are joined.

    Attributes
    ----------
    origin : ndarray of shape (d,)
        Lower corner.
    period : ndarray of shape (d,)
        Side lengths, positive.
    """

    origin: Array
    period: Array

    def turns(self, X: Array) -> Array:
        """Angles of the rows of X (n, d), in turns: 0 to 1 inside the box."""
        turns: Array = (X - self.origin) / self.period
        return turns

    def frequencies(self, waves: Integers) -> Array:
        """Angular frequencies ``2π k / period`` of waves (m, d)."""
        omega: Array = 2.0 * np.pi * waves / self.period
        return omega


@dataclass(frozen=True)
class FourierIndex:
    """An ordered list of Fourier functions.

    Attributes
    ----------
    waves : ndarray of shape (m, d)
        Integer vectors ``k``, one of ±k each; zero for the constant function.
    sine : ndarray of shape (m,)
        True for ``√2 sin(2π k·t)``, False for the cosine and the constant.
    ranks : ndarray of shape (m,)
        Place of each function in the order of the prior, from one; the mean of both
        places for pairs that are to have equal eigenvalues.
    """

    waves: Integers
    sine: Booleans
    ranks: Array

    def __len__(self) -> int:
        return len(self.sine)

    def part(self, chosen: slice | Integers) -> FourierIndex:
        """Some of the functions, with the ranks they have here."""
        return FourierIndex(self.waves[chosen], self.sine[chosen], self.ranks[chosen])

    def scales(self) -> Array:
        """Factor of ``√2 cos`` or ``√2 sin``: one, and √½ for the constant."""
        constant = ~self.waves.any(axis=1)
        return np.where(constant, np.sqrt(0.5), 1.0)

    def distinct(self) -> tuple[Integers, NDArray[np.intp]]:
        """Distinct waves (R, d), and which of them each function has, (m,)."""
        reach = self.reach()
        # one number for each wave
        steps = np.cumprod(np.append(1, 2 * reach[:-1] + 1))
        _, first, place = np.unique(
            (self.waves + reach) @ steps, return_index=True, return_inverse=True
        )
        return self.waves[first], place

    def reach(self) -> Integers:
        """Largest wave number of each input, shape (d,)."""
        if not len(self.sine):
            return np.zeros(self.waves.shape[1], np.int64)
        largest: Integers = np.abs(self.waves).max(axis=0)
        return largest


def function_list(waves: Integers) -> FourierIndex:
    """Constant, then sine and cosine of each wave in the order given.

    Parameters
    ----------
    waves : ndarray of shape (R, d)
        Without the zero wave, one of each ±k.

    Returns
    -------
    index : FourierIndex
        Of 2 R + 1 functions. The sine and the cosine of a wave share the mean of their
        ranks, 1, 2.5, 2.5, 4.5, 4.5, ...: the prior is stationary.
    """
    R, d = waves.shape
    both = np.concatenate((np.zeros((1, d), np.int64), np.repeat(waves, 2, axis=0)))
    j = np.arange(2 * R + 1)
    ranks = np.where(j == 0, 1.0, 2.0 * ((j + 1) // 2) + 0.5)
    return FourierIndex(both, j % 2 == 1, ranks)


def half_space(reach: Integers) -> Integers:
    """Waves with ``|k_i| <= reach_i``, one of each ±k, without zero; shape (R, d)."""
    axes = [np.arange(-r, r + 1) for r in reach]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(reach))
    # the grid is symmetric about its middle, which is zero
    waves: Integers = grid[len(grid) // 2 + 1 :].astype(np.int64)
    return waves


def by_length(d: int, size: int) -> FourierIndex:
    """Order functions by the length of their waves: the order of series priors.

    Parameters
    ----------
    d : int
        Number of inputs.
    size : int
        Number of functions.

    Returns
    -------
    index : FourierIndex
        Of ``size`` functions; in one dimension 1, sin 1, cos 1, sin 2, ...
    """
    R = max(1, size // 2)
    # a ball of radius r holds at least ... enough waves; grow until it does
    reach = int(np.ceil((2.0 * R) ** (1.0 / d))) // 2 + 1
    while True:
        waves = half_space(np.full(d, reach))
        square = np.sum(waves**2, axis=1)
        inside = square <= reach**2
        if np.count_nonzero(inside) >= R:
            break
        reach += max(1, reach // 8)
    waves, square = waves[inside], square[inside]
    order = np.lexsort((*waves.T[::-1], square))[:R]
    return function_list(waves[order]).part(slice(size))


def raised(index: FourierIndex, waves: Integers) -> FourierIndex:
    """Reorder functions so that the pairs of some waves follow the constant.

    Parameters
    ----------
    index : FourierIndex
        Complete from the constant on.
    waves : ndarray of shape (R, d)
        Distinct and not zero; those that are not in the list are added to it, with a
        rank after all others.
    """
    if not len(waves):
        return index
    first = function_list(waves)
    listed = {tuple(wave): rank for wave, rank in zip(
        index.waves.tolist(), index.ranks.tolist(), strict=True
    )}  # fmt: skip
    last = 2.0 * len(index) + 1.0
    ranks = [listed.get(tuple(wave), last) for wave in first.waves.tolist()]
    chosen = {tuple(wave) for wave in first.waves.tolist()}
    later = np.array([tuple(w) not in chosen for w in index.waves.tolist()], bool)
    return FourierIndex(
        np.concatenate((first.waves, index.waves[later])),
        np.concatenate((first.sine, index.sine[later])),
        np.concatenate((ranks, index.ranks[later])),
    )
