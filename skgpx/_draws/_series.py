"""Terms of function draws of Markov processes of one column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

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


class Paths(NamedTuple):
    """Paths of independent cascades, drawn once: a column for each seed.

    Attributes
    ----------
    cascades : Cascades
    seeds : ndarray of int of shape (k, 2)
        Numbers from which the random numbers of a column follow.
    """

    cascades: Cascades
    seeds: Index

    def of_columns(self, columns: Index) -> Paths:
        """The paths of some seeds."""
        return self._replace(seeds=self.seeds[columns])

    def values(
        self,
        times: Array,
        first: Index,
        stop: Index,
        with_slopes: bool,
    ) -> tuple[Array, Array]:
        """Values and slopes of columns from first[i] to stop[i] at times[i], (p, k)."""
        return paths.path_values(
            self.cascades,
            self.seeds,
            times,
            first,
            stop,
            with_slopes,
        )


@dataclass(frozen=True)
class SeriesTerm:
    """Functions of one column, c outputs of s draws, from flat columns of values.

    Column ``o s + j`` is output o of draw j.

    Parameters
    ----------
    functions : Paths or Sections
        Drawn paths, or ``k(·, T) w`` of Markov processes.
    n_outputs, n_draws : int
        c and s.
    factor : float or ndarray of shape (c,), default=1.0
    """

    functions: Paths | Sections
    n_outputs: int
    n_draws: int
    factor: float | Array = 1.0

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return 1

    def _columns(self, draws: Index) -> Index:
        """Columns (c, k) of draws at these positions."""
        return np.arange(self.n_outputs)[:, np.newaxis] * self.n_draws + draws

    @property
    def _factors(self) -> Array:
        return np.broadcast_to(self.factor, (self.n_outputs,))

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        n = len(X)
        first = np.zeros(n, dtype=np.int64)
        stop = np.full(n, self.n_outputs * self.n_draws)
        values, _ = self.functions.values(X[:, 0], first, stop, False)
        values = values.reshape(n, self.n_outputs, self.n_draws)
        out += values * self._factors[:, np.newaxis]

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        return self.pairs(X, np.arange(len(X)))[0]

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        columns = self._columns(draws)
        times = np.tile(X[:, 0], self.n_outputs)
        first = columns.ravel()
        values, slopes = self.functions.values(times, first, first + 1, True)
        shape = (self.n_outputs, len(X))
        factors = self._factors[:, np.newaxis]
        value = factors * values.reshape(shape)
        slope = factors * slopes.reshape(shape)
        return value.T, slope.T[:, :, np.newaxis]

    def scaled(self, factor: Array | float) -> SeriesTerm:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        return replace(self, factor=np.asarray(factor) * self.factor)

    def select(self, draws: Index) -> SeriesTerm:
        """Keep the draws at these positions."""
        columns = self._columns(draws).ravel()
        functions = self.functions.of_columns(columns)
        return replace(self, functions=functions, n_draws=len(draws))


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
    term = SeriesTerm(Paths(form.cascades(), seeds), n_outputs, size)
    draws = FunctionDraws((term,), n_outputs, size)
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
    terms: tuple[Term, ...] = (SeriesTerm(sections, c, s),)
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
