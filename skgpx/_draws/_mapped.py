"""Draws of functions of mapped inputs, ``f(h(x))``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._functions import FunctionDraws

Array = NDArray[np.float64]
Index = NDArray[np.intp]
# Maps derivatives in the mapped rows (n, q) to those in the rows (n, d).
Pullback = Callable[[Array], Array]


def central_differences(function: Callable[[Array], Array], X: Array) -> Array:
    """``(h(x + δ e_k) - h(x - δ e_k)) / 2δ`` with ``δ = ε^(1/3) max(|x_k|, 1)``.

    Parameters
    ----------
    function : callable
        h, row by row: maps (n, d) to (n, q).
    X : ndarray of shape (n, d)

    Returns
    -------
    slopes : ndarray of shape (n, q, d)
        With errors of about 1e-10 for functions that change over distances of one.

    Notes
    -----
    2 d calls.
    """
    slopes = []
    for k in range(X.shape[1]):
        step = np.zeros(X.shape)
        # balances truncation against rounding
        step[:, k] = np.finfo(np.float64).eps ** (1 / 3) * np.maximum(
            np.abs(X[:, k]), 1.0
        )
        rise = function(X + step) - function(X - step)
        slopes.append(rise / (2.0 * step[:, k : k + 1]))
    return np.stack(slopes, axis=-1)


@dataclass(frozen=True)
class InputMap:
    """A map h of rows: a network, or the transformer of a user.

    Parameters
    ----------
    function : callable
        Maps rows (n, d) to (n, q), row by row; picklable. With the method
        ``with_pullback(X)``, which returns the mapped rows and a function from
        derivatives in these (n, q) to derivatives in the rows (n, d), gradients follow
        by the chain rule, otherwise by central differences.
    n_features : int, default=None
        Number d of columns; None for any.
    numeric : bool, default=True
        False for rows of objects (strings, dates, missing values): they reach
        `function` as an object array (n, d), of which it makes what it needs, for
        example the DataFrame that a transformer was fitted on. There are then no
        gradients in the inputs.
    floats_per_row : int, default=0
        Numbers in memory while one row is mapped.
    """

    function: Callable[[Any], Any]
    n_features: int | None = None
    numeric: bool = True
    floats_per_row: int = 0

    def __call__(self, X: Any) -> Array:
        """Mapped rows (n, q).

        Raises
        ------
        ValueError
            If the function does not give a finite matrix with a row for each.
        """
        return self._checked(self.function(X), len(X))

    def _checked(self, mapped: Any, n: int) -> Array:
        found = np.ascontiguousarray(mapped, dtype=np.float64)
        if found.ndim != 2 or len(found) != n:
            raise ValueError(
                f"A map of inputs must give an array of shape ({n}, n_outputs) for "
                f"{n} rows; got shape {found.shape}."
            )
        if not np.isfinite(found).all():
            raise ValueError(
                "A map of inputs must give finite numbers; got NaN or infinity. Impute "
                "missing values in it."
            )
        return found

    def with_pullback(self, X: Any) -> tuple[Array, Pullback]:
        """Mapped rows (n, q), and the function that pulls derivatives back.

        Raises
        ------
        ValueError
            If the rows are not numbers.
        """
        if not self.numeric:
            raise ValueError(
                "The gradient of functions of rows that are not numbers is not known: "
                "they can be evaluated, but not differentiated."
            )
        given = getattr(self.function, "with_pullback", None)
        if given is not None:
            mapped, pullback = given(X)
            return self._checked(mapped, len(X)), pullback
        # draws ask for each row as often as there are draws
        new = np.ones(len(X), bool)
        new[1:] = np.any(X[1:] != X[:-1], axis=1)
        rows, place = X[new], np.cumsum(new) - 1
        slopes = central_differences(self, rows)

        def differences(G: Array) -> Array:
            pulled: Array = np.einsum("nq,nqd->nd", G, slopes[place])
            return pulled

        return self(rows)[place], differences


@dataclass(frozen=True)
class MappedTerm:
    """Draws at mapped inputs.

    Parameters
    ----------
    draws : FunctionDraws
        Functions of ``h(x)``.
    map : InputMap
        h.
    """

    draws: FunctionDraws
    map: InputMap

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return self.map.n_features

    @property
    def numeric(self) -> bool:
        """Whether the rows are numbers."""
        return self.map.numeric

    @property
    def remembers(self) -> bool:
        """Whether values depend on those drawn before."""
        return self.draws.remembers

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        out += self.draws.values(self.map(X))

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        return self.draws._own_values(self.map(X))

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        mapped, pullback = self.map.with_pullback(X)
        values, slopes = self.draws._pairs(mapped, draws)
        # dh/dx' of the slope of each output in h
        pulled = [pullback(slopes[:, o]) for o in range(slopes.shape[1])]
        return values, np.stack(pulled, axis=1)

    def scaled(self, factor: Array | float) -> MappedTerm:
        """Multiply the outputs of the functions by a factor, or one each (c,)."""
        return replace(self, draws=self.draws.affine(0.0, factor))

    def select(self, draws: Index) -> MappedTerm:
        """Keep the draws at these positions."""
        return replace(self, draws=self.draws[draws])


def mapped_draws(draws: FunctionDraws, inputs: InputMap) -> FunctionDraws:
    """``f(h(x))`` for each of these functions f."""
    term = MappedTerm(draws.with_process(None), inputs)
    return FunctionDraws((term,), draws.n_outputs, draws.n_draws)


class MappedProcess(NamedTuple):
    """A process at mapped inputs.

    Attributes
    ----------
    inner : Process
        Of the functions of ``h(x)``.
    map : InputMap
        h.
    """

    inner: Any
    map: InputMap

    @property
    def spread(self) -> Array:
        """Root of the covariance of the whitened variables, (g, q, r)."""
        root: Array = self.inner.spread
        return root

    def scaled(self, factor: Array) -> MappedProcess:
        """Process of the functions times a factor for each output."""
        return self._replace(inner=self.inner.scaled(factor))

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        covariance: Array = self.inner.covariance(self.map(X), output)
        return covariance

    def learn(self, X: Array, *observed: Any) -> tuple[Array, MappedProcess]:
        """What observing values at X adds to whitened variables, and what it leaves."""
        moved, after = self.inner.learn(self.map(X), *observed)
        return moved, self._replace(inner=after)

    def update(self, X: Array, *observed: Any) -> tuple[FunctionDraws, MappedProcess]:
        """What observing values at X adds to draws, and the process it leaves."""
        moved, after = self.inner.update(self.map(X), *observed)
        return mapped_draws(moved, self.map), self._replace(inner=after)
