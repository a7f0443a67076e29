"""Several sets of function draws as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._features import (
    FourierFeatures,
    ShiftedCosines,
    functions_at,
)
from skgpx._draws._functions import FunctionDraws
from skgpx._draws._remembered import RememberedTerm

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class SideBySideTerm:
    """Draws of several sets as those of one.

    Parameters
    ----------
    sets : tuple of FunctionDraws
        With the same number of outputs.
    owner, place : ndarray of shape (s,)
        Draw i is number ``place[i]`` of set ``owner[i]``.
    """

    sets: tuple[FunctionDraws, ...]
    owner: Index
    place: Index

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return self.sets[0].n_features

    @property
    def numeric(self) -> bool:
        """Whether the rows are numbers."""
        return self.sets[0].numeric

    @cached_property
    def _waves(self) -> ShiftedCosines | None:
        """Functions of all sets together, if all are sums of equally many waves."""
        terms = [term for group in self.sets for term in group.terms]
        features = [getattr(term, "features", None) for term in terms]
        waves = all(isinstance(one, FourierFeatures) for one in features)
        if not waves or len(terms) > len(self.sets):
            return None
        if len({len(term.weights) for term in terms}) > 1:  # type: ignore[attr-defined]
            return None
        return ShiftedCosines.joined(
            [term.features.prepare(term.by_draw) for term in terms]  # type: ignore[attr-defined]
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        for g, group in enumerate(self.sets):
            draws = np.flatnonzero(self.owner == g)
            out[:, :, _span(draws)] += group.values(X)[:, :, _span(self.place[draws])]

    def pairs(self, X: Array, draws: Index, gradient: bool) -> tuple[Array, Any]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        c, (p, d) = self.sets[0].n_outputs, X.shape
        owner, place = self.owner[draws], self.place[draws]
        if not gradient and self._waves is not None:
            before = np.cumsum([0, *(len(group) for group in self.sets)])
            rows, index = functions_at(X, before[owner] + place, c)
            return self._waves(rows, index).reshape(p, c), None
        values = np.empty((p, c))
        gradients = np.empty((p, c, d)) if gradient else None
        for g, group in enumerate(self.sets):
            rows = _span(np.flatnonzero(owner == g))
            part = group._pairs(X[rows], place[rows], gradient)
            values[rows] = part[0]
            if gradients is not None:
                gradients[rows] = part[1]
        return values, gradients

    def scaled(self, factor: Array | float) -> SideBySideTerm:
        """Multiply the functions by a factor."""
        sets = tuple(group.affine(0.0, factor) for group in self.sets)
        return replace(self, sets=sets)

    def select(self, draws: Index) -> SideBySideTerm:
        """Keep the draws at these positions."""
        owner, place, sets = self.owner[draws], self.place[draws], []
        for g, group in enumerate(self.sets):
            kept, place[owner == g] = np.unique(place[owner == g], return_inverse=True)
            sets.append(group[kept])
        return SideBySideTerm(tuple(sets), owner, place)


def _span(positions: Index) -> Any:
    """Positions as a slice, if they are increasing neighbours."""
    if len(positions) and np.all(np.diff(positions) == 1):
        return slice(positions[0], positions[-1] + 1)
    return positions


def remembers(draws: FunctionDraws) -> bool:
    """Whether values depend on those drawn before: such draws exist only once.

    They cannot be sent to another process, and rows are evaluated in their order.
    """
    return any(
        any(map(remembers, term.sets))
        if isinstance(term, SideBySideTerm)
        else isinstance(term, RememberedTerm)
        for term in draws.terms
    )


def side_by_side(
    sets: Sequence[FunctionDraws], order: Index | None = None
) -> FunctionDraws:
    """One set of draws that holds those of several sets.

    Parameters
    ----------
    sets : sequence of FunctionDraws
        With the same number of outputs.
    order : ndarray of shape (s,), default=None
        Draw i is number ``order[i]`` of the concatenated sets; None keeps their order.

    Returns
    -------
    draws : FunctionDraws
        As many draws as the sets have together.

    Raises
    ------
    ValueError
        If there is no set, or the numbers of outputs differ.
    """
    outputs = {draws.n_outputs for draws in sets}
    if len(outputs) != 1:
        raise ValueError(
            "side_by_side expects at least one set of draws, all with equally many "
            f"outputs; got {len(sets)} sets with {sorted(outputs)} outputs."
        )
    if len(sets) == 1:
        return sets[0]
    owner = np.repeat(np.arange(len(sets)), [len(draws) for draws in sets])
    place = np.concatenate([np.arange(len(draws)) for draws in sets])
    if order is not None:
        owner, place = owner[order], place[order]
    term = SideBySideTerm(tuple(sets), owner, place)
    return FunctionDraws((term,), outputs.pop(), len(owner))
