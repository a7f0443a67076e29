"""Fourier functions on a box: which ones, in which order.

On a box with angles ``t = (x - origin) / period`` (in turns) the functions are, for
integer vectors k (*waves*) of one half of space::

    1,    √2 cos(2π k·t),    √2 sin(2π k·t)

They are orthonormal under the uniform law on the box.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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


def function_list(waves: Integers, paired: bool = True) -> FourierIndex:
    """Constant, then sine and cosine of each wave in the order given.

    Parameters
    ----------
    waves : ndarray of shape (R, d)
        Without the zero wave, one of each ±k.
    paired : bool, default=True
        Whether the sine and the cosine of a wave share the mean of their ranks: the
        prior is then stationary. Otherwise the ranks are 1, 2, 3, ...

    Returns
    -------
    index : FourierIndex
        Of 2 R + 1 functions.
    """
    R, d = waves.shape
    both = np.concatenate((np.zeros((1, d), np.int64), np.repeat(waves, 2, axis=0)))
    sine = np.arange(2 * R + 1) % 2 == 1
    return FourierIndex(both, sine, function_ranks(2 * R + 1, paired))


def function_ranks(size: int, paired: bool) -> Array:
    """Ranks 1, 2, 3, ..., or 1, 2.5, 2.5, 4.5, 4.5, ... for pairs."""
    j = np.arange(size, dtype=np.float64)
    if not paired:
        return j + 1.0
    return np.where(j == 0, 1.0, 2.0 * ((j + 1) // 2) + 0.5)


def half_space(reach: Integers) -> Integers:
    """Waves with ``|k_i| <= reach_i``, one of each ±k, without zero; shape (R, d)."""
    axes = [np.arange(-r, r + 1) for r in reach]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(reach))
    # the grid is symmetric about its middle, which is zero
    waves: Integers = grid[len(grid) // 2 + 1 :].astype(np.int64)
    return waves


def by_length(d: int, size: int, paired: bool = True) -> FourierIndex:
    """Order functions by the length of their waves: the order of series priors.

    Parameters
    ----------
    d : int
        Number of inputs.
    size : int
        Number of functions.
    paired : bool, default=True
        See :func:`function_list`.

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
    return function_list(waves[order], paired).part(slice(size))


def raised(index: FourierIndex, waves: Integers) -> FourierIndex:
    """Reorder paired functions so that those of some waves follow the constant.

    Parameters
    ----------
    index : FourierIndex
        Complete from the constant on, with the ranks of pairs.
    waves : ndarray of shape (R, d)
        Distinct and not zero; those that are not in the list are added to it.

    Returns
    -------
    index : FourierIndex
        Raised functions have the rank of the constant, and all others that which they
        had: long waves are no less likely than before.
    """
    if not len(waves):
        return index
    first = function_list(waves)
    later = np.all(np.any(index.waves[:, np.newaxis] != waves, axis=2), axis=1)
    later[0] = False
    both = np.concatenate((first.waves, index.waves[later]))
    sine = np.concatenate((first.sine, index.sine[later]))
    ranks = np.concatenate((np.ones(len(first)), index.ranks[later]))
    return FourierIndex(both, sine, ranks)


def by_power(index: FourierIndex, moment: Array, paired: bool = True) -> FourierIndex:
    """Reorder functions by their correlation with the data.

    Parameters
    ----------
    index : FourierIndex
        Functions, sine and cosine of a wave next to each other as in
        :func:`function_list`.
    moment : ndarray of shape (m,)
        ``Φᵀy`` of these functions.
    paired : bool, default=True
        Order waves by the power of sine and cosine together, which does not depend
        on the origin; otherwise order functions one by one, as published.

    Returns
    -------
    index : FourierIndex
        The same functions; the constant stays first if ``paired``.
    """
    m = len(moment)
    ranks = function_ranks(m, paired)
    if not paired:
        order = np.argsort(-np.abs(moment), kind="stable")
        return replace(index.part(order), ranks=ranks)
    power = moment**2
    group = (np.arange(m) + 1) // 2
    total = np.bincount(group, power)
    total[0] = np.inf
    order = np.lexsort((np.arange(m), group, -total[group]))
    return replace(index.part(order), ranks=ranks)
