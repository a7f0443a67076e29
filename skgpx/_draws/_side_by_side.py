"""Several sets of function draws as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._features import (
    FourierFeatures,
    LinearTerm,
    ShiftedCosines,
    functions_at,
)
from skgpx._draws._functions import FunctionDraws
from skgpx._draws._remembered import RememberedTerm

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class SideBySideTerm:
    """Draws of several sets, one set after the other along the axis of the draws.

    Parameters
    ----------
    sets : tuple of FunctionDraws
        With the same number of outputs.
    """

    sets: tuple[FunctionDraws, ...]

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return self.sets[0].n_features

    @property
    def numeric(self) -> bool:
        """Whether the rows are numbers."""
        return self.sets[0].numeric

    @cached_property
    def _ends(self) -> Index:
        """Number of draws in each set and those before it."""
        return np.cumsum([len(group) for group in self.sets])

    @cached_property
    def _waves(self) -> ShiftedCosines | None:
        """Functions of all sets together, if all are sums of equally many waves."""
        terms = [
            term
            for group in self.sets
            for term in group.terms
            if isinstance(term, LinearTerm)
            and isinstance(term.features, FourierFeatures)
        ]
        n_terms = sum(len(group.terms) for group in self.sets)
        sizes = {len(term.weights) for term in terms}
        if not len(terms) == n_terms == len(self.sets) or len(sizes) > 1:
            return None
        return ShiftedCosines.joined(
            [term.features.prepare(term.by_draw) for term in terms]
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"sets": self.sets}

    @property
    def n_draws(self) -> int:
        """Number of draws of all sets."""
        return sum(len(group) for group in self.sets)

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        first = 0
        for draws in self.sets:
            out[:, :, first : first + len(draws)] += draws.values(X)
            first += len(draws)

    def pairs(self, X: Array, draws: Index, gradient: bool) -> tuple[Array, Any]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        c, (p, d) = self.sets[0].n_outputs, X.shape
        if not gradient and self._waves is not None:
            rows, index = functions_at(X, draws, c)
            return self._waves(rows, index).reshape(p, c), None
        values = np.empty((p, c))
        gradients = np.empty((p, c, d)) if gradient else None
        first = 0
        for group, rows in zip(self.sets, self._owned(draws), strict=True):
            part = group._pairs(X[rows], draws[rows] - first, gradient)
            values[rows] = part[0]
            if gradients is not None:
                gradients[rows] = part[1]
            first += len(group)
        return values, gradients

    def _owned(self, draws: Index) -> list[Any]:
        """Rows whose draw belongs to each set: slices if the draws are in order."""
        if (draws[1:] >= draws[:-1]).all():
            stops = np.searchsorted(draws, self._ends).tolist()
            return [slice(*cut) for cut in zip([0, *stops[:-1]], stops, strict=True)]
        owner = np.searchsorted(self._ends, draws, side="right")
        return [np.flatnonzero(owner == i) for i in range(len(self.sets))]

    def scaled(self, factor: Array | float) -> SideBySideTerm:
        """Multiply the functions by a factor."""
        return SideBySideTerm(tuple(scaled_draws(draws, factor) for draws in self.sets))

    def select(self, draws: Index) -> SideBySideTerm:
        """Keep the draws at these positions."""
        if not len(draws):
            return SideBySideTerm((self.sets[0][draws],))
        owner = np.searchsorted(self._ends, draws, side="right")
        # runs of neighbouring positions that belong to one set stay together
        runs = np.split(np.arange(len(draws)), np.flatnonzero(np.diff(owner)) + 1)
        starts = self._ends - [len(group) for group in self.sets]
        return SideBySideTerm(
            tuple(
                self.sets[owner[run[0]]][draws[run] - starts[owner[run[0]]]]
                for run in runs
            )
        )


def remembers(draws: FunctionDraws) -> bool:
    """Whether values depend on those drawn before: such draws exist only once.

    They cannot be sent to another process, and rows are evaluated in their order.
    """
    return any(_remembers(term) for term in draws.terms)


def _remembers(term: Any) -> bool:
    if isinstance(term, ShuffledTerm):
        term = term.term
    if isinstance(term, SideBySideTerm):
        return any(remembers(one) for one in term.sets)
    return isinstance(term, RememberedTerm)


@dataclass(frozen=True)
class ShuffledTerm:
    """The draws of a term in another order.

    Parameters
    ----------
    term : SideBySideTerm
    order : ndarray of shape (s,)
        Draw i is number ``order[i]`` of the term.
    """

    term: SideBySideTerm
    order: Index

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return self.term.n_features

    @property
    def numeric(self) -> bool:
        """Whether the rows are numbers."""
        return self.term.numeric

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        values = np.zeros((len(X), out.shape[1], self.term.n_draws))
        self.term.add_to(values, X)
        out += values[:, :, self.order]

    def pairs(self, X: Array, draws: Index, gradient: bool) -> tuple[Array, Any]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        return self.term.pairs(X, self.order[draws], gradient)

    def scaled(self, factor: Array | float) -> ShuffledTerm:
        """Multiply the functions by a factor."""
        return ShuffledTerm(self.term.scaled(factor), self.order)

    def select(self, draws: Index) -> ShuffledTerm:
        """Keep the draws at these positions."""
        kept, order = np.unique(self.order[draws], return_inverse=True)
        return ShuffledTerm(self.term.select(kept), order)


def scaled_draws(draws: FunctionDraws, factor: Array | float) -> FunctionDraws:
    """Multiply the functions by a factor."""
    terms = tuple(term.scaled(factor) for term in draws.terms)
    return FunctionDraws(terms, draws.n_outputs, draws.n_draws)


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
    size = sum(len(draws) for draws in sets)
    joined = SideBySideTerm(tuple(sets))
    term = joined if order is None else ShuffledTerm(joined, order)
    return FunctionDraws((term,), outputs.pop(), size)
