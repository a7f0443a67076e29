"""The summands of function draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
# Floats in a block of features.
_FLOATS = 2**22


class FeatureMap(Protocol):
    """Functions of the inputs, of which the draws are linear combinations.

    Terms also use these optional methods: ``contract(X, weights, out)``, which adds
    ``self(X) @ weights`` without storing the features; ``pairs(X, weights, index)``,
    values (p,) and gradients (p, d) of ``x -> self(x) @ weights[i]``, one function for
    each input; ``pair_values``, the same without gradients, for weights in the form
    returned by ``prepare(weights)``, if there is such a method.
    """

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""


class Term(Protocol):
    """One summand of a set of draws.

    A term of rows that are not numbers has the attribute ``numeric = False``.
    """

    @property
    def n_features(self) -> int | None:
        """Number of input columns; None for any."""

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s), C-contiguous."""

    def pairs(self, X: Array, draws: Index, gradient: bool) -> tuple[Array, Any]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d).

        Gradients may be None if they are not wanted.
        """

    def scaled(self, factor: Array | float) -> Term:
        """Multiply the outputs of the functions by a factor, or one each (c,)."""

    def select(self, draws: Index) -> Term:
        """Keep the draws at these positions."""


@dataclass(frozen=True)
class LinearTerm:
    """``features(X) @ weights``.

    Parameters
    ----------
    features : FeatureMap
        Maps (n, d) inputs to (n, m) features, row by row; picklable.
    weights : ndarray of shape (m, c, s)
        Coefficients of ``c`` outputs and ``s`` draws.
    """

    features: Any
    weights: Array

    @property
    def n_features(self) -> int | None:
        """Number of input columns, if the features have one."""
        return getattr(self.features, "n_features", None)

    @property
    def numeric(self) -> bool:
        """Whether the rows are numbers; otherwise the features read objects."""
        return getattr(self.features, "numeric", True)

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s), C-contiguous."""
        flat, total = (a.reshape(len(a), -1) for a in (self.weights, out))
        contract = getattr(self.features, "contract", None)
        if contract is not None:
            contract(X, flat, total)
            return
        size = max(16, _FLOATS // max(1, len(flat)))
        for first in range(0, len(X), size):
            rows = slice(first, first + size)
            total[rows] += self.features(X[rows]) @ flat

    def pairs(self, X: Array, draws: Index, gradient: bool) -> tuple[Array, Any]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d).

        Gradients may be None if they are not wanted.
        """
        if not gradient:
            return self._pair_values(X, draws), None
        p, c = len(X), self.weights.shape[1]
        contract = getattr(self.features, "pairs", None)
        if contract is None:
            raise ValueError(
                f"The gradient of {type(self.features).__name__} is not known: "
                "draws of this model can be evaluated, but not differentiated."
            )
        rows, index = functions_at(X, draws, c)
        values, slopes = contract(rows, self.by_draw, index)
        return values.reshape(p, c), slopes.reshape(p, c, -1)

    def _pair_values(self, X: Array, draws: Index) -> Array:
        """One draw at each row of X, shape (p, c)."""
        p, c = len(X), self.weights.shape[1]
        contract = getattr(self.features, "pair_values", None)
        if contract is None:
            chosen = self.by_draw.reshape(-1, c, len(self.weights))[draws]
            return np.einsum("pm,pcm->pc", self.features(X), chosen)
        rows, index = functions_at(X, draws, c)
        values: Array = contract(rows, self._prepared, index)
        return values.reshape(p, c)

    @cached_property
    def _prepared(self) -> Any:
        """Weights in the form for which ``pair_values`` is fastest."""
        prepare = getattr(self.features, "prepare", None)
        return self.by_draw if prepare is None else prepare(self.by_draw)

    @cached_property
    def by_draw(self) -> Array:
        """Weights with one function per row, shape (s c, m)."""
        m = len(self.weights)
        return np.ascontiguousarray(self.weights.transpose(2, 1, 0).reshape(-1, m))

    def __getstate__(self) -> dict[str, Any]:
        return {"features": self.features, "weights": self.weights}

    def scaled(self, factor: Array | float) -> LinearTerm:
        """Multiply the outputs of the functions by a factor, or one each (c,)."""
        return replace(self, weights=self.weights * np.reshape(factor, (-1, 1)))

    def select(self, draws: Index) -> LinearTerm:
        """Keep the draws at these positions."""
        return replace(self, weights=self.weights[:, :, draws])


def functions_at(X: Array, draws: Index, c: int) -> tuple[Array, Index]:
    """Rows (p c, d) and positions among the functions (s c, m) of c outputs."""
    if c == 1:
        return X, draws
    # function i is output i % c of draw i // c
    index = (c * draws[:, np.newaxis] + np.arange(c)).ravel()
    return np.repeat(X, c, axis=0), index


def merged(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Merge terms with the same features object, so that it is called once."""
    kept: list[Term] = []
    for term in terms:
        for i, earlier in enumerate(kept):
            if (
                isinstance(term, LinearTerm)
                and isinstance(earlier, LinearTerm)
                and term.features is earlier.features
            ):
                kept[i] = replace(earlier, weights=earlier.weights + term.weights)
                break
        else:
            kept.append(term)
    return tuple(kept)
