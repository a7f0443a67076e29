"""Terms of function draws of Markov processes of one column."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Self

import numpy as np
from sklearn.gaussian_process.kernels import Matern, Sum

from skgpx._draws._features import Term, section_terms
from skgpx._draws._functions import FunctionDraws
from skgpx._draws._prior import draw_prior
from skgpx._numerics import paths
from skgpx._numerics.sections import Sections
from skgpx._numerics.state_space import Cascades
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.kernels import Columns, StateSpace, expand


@dataclass(frozen=True)
class _SeriesTerm:
    """Values of c outputs and s draws at times, from those of flat columns.

    Column ``o s + j`` is output o of draw j.

    Parameters
    ----------
    n_outputs : int
    factor : float or ndarray of shape (c,), default=1.0
    """

    n_outputs: int
    factor: float | Array = field(default=1.0, kw_only=True)

    @property
    def n_features(self) -> int:
        """Functions of a sum over features: one."""
        return 1

    @property
    def n_columns(self) -> int:
        """Number c s of columns."""
        raise NotImplementedError

    def _values(
        self, times: Array, first: Index, stop: Index, with_slopes: bool
    ) -> tuple[Array, Array]:
        raise NotImplementedError

    def _columns(self, draws: Index) -> Index:
        """Columns (c, k) of draws at these positions."""
        size = self.n_columns // self.n_outputs
        return np.arange(self.n_outputs)[:, np.newaxis] * size + draws

    @property
    def _factors(self) -> Array:
        return np.broadcast_to(self.factor, (self.n_outputs,))

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        n = len(X)
        first = np.zeros(n, dtype=np.int64)
        stop = np.full(n, self.n_columns)
        values, _ = self._values(X[:, 0], first, stop, False)
        values = values.reshape(n, self.n_outputs, self.n_columns // self.n_outputs)
        out += values * self._factors[:, np.newaxis]

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        return self.pairs(X, np.arange(len(X)))[0]

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        columns = self._columns(draws)
        times = np.tile(X[:, 0], self.n_outputs)
        first = columns.ravel()
        values, slopes = self._values(times, first, first + 1, True)
        shape = (self.n_outputs, len(X))
        factors = self._factors[:, np.newaxis]
        value = factors * values.reshape(shape)
        slope = factors * slopes.reshape(shape)
        return value.T, slope.T[:, :, np.newaxis]

    def scaled(self, factor: Array | float) -> Self:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        return replace(self, factor=np.asarray(factor) * self.factor)

    def select(self, draws: Index) -> Self:
        """Keep the draws at these positions."""
        return self._of_columns(self._columns(draws).ravel())

    def _of_columns(self, columns: Index) -> Self:
        raise NotImplementedError


@dataclass(frozen=True)
class PathTerm(_SeriesTerm):
    """Paths of independent cascades, drawn once.

    Parameters
    ----------
    cascades : Cascades
    seeds : ndarray of int of shape (c s, 2)
        Words of 32 bits.
    n_outputs, factor
        See `_SeriesTerm`.
    """

    cascades: Cascades
    seeds: Index

    @property
    def n_columns(self) -> int:
        """One for each seed."""
        return len(self.seeds)

    def _of_columns(self, columns: Index) -> PathTerm:
        return replace(self, seeds=self.seeds[columns])

    def _values(
        self, times: Array, first: Index, stop: Index, with_slopes: bool
    ) -> tuple[Array, Array]:
        return paths.path_values(
            self.cascades, self.seeds, times, first, stop, with_slopes
        )


@dataclass(frozen=True)
class SectionTerm(_SeriesTerm):
    """``k(·, T) w`` of Markov processes.

    Parameters
    ----------
    sections : Sections
        With c s columns of weights.
    n_outputs, factor
        See `_SeriesTerm`.
    """

    sections: Sections

    @property
    def n_columns(self) -> int:
        """One for each column of weights."""
        return self.sections.weights.shape[1]

    def _of_columns(self, columns: Index) -> SectionTerm:
        return replace(self, sections=self.sections.of_columns(columns))

    def _values(
        self, times: Array, first: Index, stop: Index, with_slopes: bool
    ) -> tuple[Array, Array]:
        return self.sections.values(times, first, stop, with_slopes)


def markov_draws(
    kernel: Kernel,
    n_outputs: int,
    size: int,
    rng: Generator,
) -> FunctionDraws:
    """Functions from the process of a Markov kernel of one column.

    Other than Fourier features they have the law of the process at any distance: they
    are drawn in intervals that are halved until next to nothing is left to draw.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With a `StateSpace`.
    n_outputs, size : int
    rng : numpy.random.Generator
    """
    form, static = _parts(kernel)
    seeds = rng.integers(0, 2**32, (n_outputs * size, 2))
    path = PathTerm(
        n_outputs=n_outputs,
        cascades=form.cascades(),
        seeds=seeds,
    )
    draws = FunctionDraws((path,), n_outputs, size)
    if static is None:
        return draws
    return draws + draw_prior(static, 1, n_outputs, size, rng)


def markov_sections(kernel: Kernel, rows: Array, weights: Array) -> tuple[Term, ...]:
    """Terms of ``k(·, T) w`` of such a kernel, for sorted rows and weights (n, c, s).

    O(log n) an evaluation.
    """
    form, static = _parts(kernel)
    n, c, s = weights.shape
    sections = Sections.of(
        form.cascades(),
        np.ascontiguousarray(rows[:, 0]),
        np.ascontiguousarray(weights.reshape(n, c * s)),
    )
    section = SectionTerm(n_outputs=c, sections=sections)
    terms: tuple[Term, ...] = (section,)
    if static is not None:
        terms += section_terms(static, rows, weights)
    return terms


def _parts(kernel: Kernel) -> tuple[StateSpace, Kernel | None]:
    """State space of a kernel, and the part that has no cascades, if there is one."""
    form = StateSpace.of(kernel, 1)
    assert form is not None
    static = [
        monomial.as_kernel()
        for monomial in expand(kernel)
        if not any(type(_inside_columns(part)) is Matern for part in monomial.factors)
    ]
    return form, reduce(Sum, static) if static else None


def _inside_columns(kernel: Kernel) -> Kernel:
    """The kernel that sees a column."""
    while type(kernel) is Columns:
        kernel = kernel.kernel
    return kernel
