"""Functions that are drawn once and evaluated anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult

from skgpx._draws._features import LinearTerm, Term, merged, ones
from skgpx._draws._mapped import InputMap
from skgpx._draws._optima import minimise
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._numerics.rows import LARGEST

Array = NDArray[np.float64]
Index = NDArray[np.intp]
# Rows, or pairs of a row and a draw, evaluated at a time: bounds the memory used.
_ROWS = 4096


# ---- Draws of random functions: sums of linear terms that can be called anywhere -----


class FunctionDraws(OneBlasThread):
    """Functions drawn from a Gaussian process (or a mixture), callable anywhere.

    A draw is a function, not a vector of values: it is the same at every call, whatever
    the rows and their order, and its values at different rows have the joint
    distribution of the process. Draws can be added and scaled (``f + g``, ``f - g``,
    ``2 * f``), selected (``f[:10]``), differentiated, optimised, conditioned on
    observations and pickled.

    Parameters
    ----------
    terms : sequence of Term
        Summands, all with the same number of outputs and draws.
    n_outputs : int
        Number of latent outputs ``c``.
    n_draws : int
        Number of draws ``s``.
    process : Process, default=None
        Covariance of the distribution of the draws, where it is Gaussian and known;
        :meth:`condition` needs it.

    Notes
    -----
    A call costs O(n (R + m) (d + s)) time for n rows, R Fourier frequencies and m
    kernel sections, and constant memory beside the values. Posterior draws follow
    Matheron's rule [1]_, equation (13): a draw from the prior plus one more linear
    term that makes it agree with the data.

    References
    ----------
    .. [1] Wilson, Borovitskiy, Terenin, Mostowsky, Deisenroth, "Efficiently sampling
       functions from Gaussian process posteriors", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import draw_prior
    >>> draws = draw_prior(RBF(0.5), 1, 1, 3, np.random.default_rng(0))
    >>> X = np.linspace(0.0, 1.0, 5)[:, None]
    >>> draws(X).shape
    (5, 3)
    >>> bool(np.allclose(draws(X)[2:3], draws(X[2:3])))
    True
    >>> draws.minimize([(0.0, 1.0)], random_state=0).x.shape
    (3, 1)
    """

    def __init__(
        self,
        terms: tuple[Term, ...],
        n_outputs: int,
        n_draws: int,
        process: Process | None = None,
    ):
        self.terms = tuple(terms)
        self.n_outputs = n_outputs
        self.n_draws = n_draws
        self.process = process
        widths = {term.n_features for term in self.terms} - {None}
        if len(widths) > 1:
            raise ValueError(
                "Terms of FunctionDraws must take equally many input columns; got "
                f"{sorted(map(str, widths))}."
            )
        self.n_features = widths.pop() if widths else None
        # rows that a map makes numbers of travel as objects
        self.numeric = all(getattr(term, "numeric", True) for term in self.terms)
        # values depend on those drawn before: such draws exist only once
        self.is_stateful = any(getattr(term, "is_stateful", False) for term in self.terms)

    def __call__(self, X: ArrayLike) -> Array:
        """Values of the functions at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        values : ndarray of shape (n, s), or (n, c, s) for several outputs
            Latent values, one column per draw.

        Raises
        ------
        ValueError
            If X is not two-dimensional, not finite or beyond 1e120, or has another
            number of columns than the functions take.
        """
        values = self.values(self._rows(X))
        return values[:, 0, :] if self.n_outputs == 1 else values

    def _rows(self, X: ArrayLike) -> Array:
        """Inputs as a finite two-dimensional array of doubles, or one of objects."""
        kind = np.float64 if self.numeric else np.object_
        X = np.ascontiguousarray(X, dtype=kind)
        if X.ndim != 2:
            raise ValueError(
                f"FunctionDraws expects X of shape (n_samples, n_features); got an "
                f"array of shape {X.shape}. Reshape with X.reshape(-1, n_features)."
            )
        if self.n_features not in (None, X.shape[1]):
            raise ValueError(
                f"These functions take {self.n_features} input columns; got "
                f"{X.shape[1]}."
            )
        # one pass: NaN is not at most anything
        if self.numeric and not (largest := np.abs(X).max(initial=0.0)) <= LARGEST:
            raise ValueError(
                f"X must be at most {LARGEST:g} in size, and finite; got {largest:g}."
            )
        return X

    def values(self, X: Array) -> Array:
        """Values at the rows of X with the output axis kept, shape (n, c, s)."""
        out = np.zeros((X.shape[0], self.n_outputs, self.n_draws))
        for start in range(0, X.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            for term in self.terms:
                term.add_to(out[rows], X[rows])
        return out

    def at(self, X: ArrayLike) -> Array:
        """Each function at an input of its own.

        Parameters
        ----------
        X : array-like of shape (s, d)
            Row i is the input of draw i.

        Returns
        -------
        values : ndarray of shape (s,), or (s, c) for several outputs

        Raises
        ------
        ValueError
            If X does not have as many rows as there are draws.
        """
        X = self._rows(X)
        if len(X) != self.n_draws:
            raise ValueError(
                f"draws.at expects one input for each of {self.n_draws} draws; got "
                f"{len(X)} rows. Call draws(X) to evaluate all draws at all rows."
            )
        values = self._own_values(X)
        return values[:, 0] if self.n_outputs == 1 else values

    def _own_values(self, X: Array) -> Array:
        """Draw i at row i of X, with the output axis kept, shape (s, c)."""
        values = np.zeros((self.n_draws, self.n_outputs))
        for term in self.terms:
            values += term.at(X)
        return values

    def value_and_grad(self, X: ArrayLike) -> tuple[Array, Array]:
        """Values and gradients of the functions at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        values : ndarray of shape (n, s), or (n, c, s) for several outputs
        gradients : ndarray of shape (n, s, d), or (n, c, s, d)
            Derivatives in the inputs. At the kinks of a Matérn kernel of order 1/2,
            where there is none, the mean of the one-sided derivatives.

        Raises
        ------
        ValueError
            If a kernel has no known derivative in its inputs.
        """
        X = self._rows(X)
        (n, d), s, c = X.shape, self.n_draws, self.n_outputs
        values, gradients = np.empty((n * s, c)), np.empty((n * s, c, d))
        for start in range(0, n * s, _ROWS):
            pair = np.arange(start, min(start + _ROWS, n * s))
            values[pair], gradients[pair] = self._pairs(X[pair // s], pair % s)
        values = values.reshape(n, s, c).swapaxes(1, 2)
        gradients = gradients.reshape(n, s, c, d).swapaxes(1, 2)
        return (values[:, 0], gradients[:, 0]) if c == 1 else (values, gradients)

    def _pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """Draw ``draws[i]`` at row i: values (p, c), gradients (p, c, d)."""
        values = np.zeros((len(X), self.n_outputs))
        gradients = np.zeros((*values.shape, X.shape[1]))
        for term in self.terms:
            value, slope = term.pairs(X, draws)
            values += value
            gradients += slope
        return values, gradients

    def minimize(
        self,
        bounds: ArrayLike,
        n_starts: int = 32,
        n_mesh: int = 10_000,
        random_state: Any = None,
    ) -> OptimizeResult:
        """Smallest value of each function in a box, and where it is.

        The functions are evaluated on a scrambled Sobol mesh; the best points of each
        are starts of a batched L-BFGS-B search, and the best results are refined one
        by one.

        Parameters
        ----------
        bounds : array-like of shape (d, 2)
            Lower and upper bound of each input. Equal ones hold it fixed, as a column
            of categories must be.
        n_starts : int, default=32
            Starts for each function.
        n_mesh : int, default=10000
            Mesh points.
        random_state : int, Generator or None, default=None
            Scrambles the mesh.

        Returns
        -------
        optima : scipy.optimize.OptimizeResult
            ``x`` (s, d) and ``fun`` (s,).

        Raises
        ------
        ValueError
            If the draws have several outputs, or bounds are not finite or not in
            order.
        """
        return minimise(self, bounds, n_starts, n_mesh, random_state)

    def maximize(
        self,
        bounds: ArrayLike,
        n_starts: int = 32,
        n_mesh: int = 10_000,
        random_state: Any = None,
    ) -> OptimizeResult:
        """Largest value of each function in a box; see :meth:`minimize`."""
        found = (-self).minimize(bounds, n_starts, n_mesh, random_state)
        return OptimizeResult(x=found.x, fun=-found.fun)

    def condition(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise_variance: ArrayLike = 0.0,
        random_state: Any = None,
    ) -> FunctionDraws:
        """Draws of the process given more observations, from these draws.

        Each function changes to agree with the observations, and keeps its values where
        they carry no information: for fantasies, or new data without a new fit.

        Parameters
        ----------
        X : array-like of shape (p, d)
            Where the process is observed.
        y : array-like of shape (p,), or (p, c) for several outputs
            Observations; with one more axis of length s, a different set for each
            draw.
        noise_variance : float or array-like of shape (p,), default=0.0
            Variance of the noise of the observations.
        random_state : int, Generator or None, default=None
            Draws the noise.

        Returns
        -------
        draws : FunctionDraws

        Raises
        ------
        ValueError
            If the draws are not Gaussian with a known covariance, or if shapes do not
            agree.

        Notes
        -----
        O(p^3 + p q (p + q)) time, with q the number of points, or variables, that the
        process has been conditioned on before.
        """
        if self.process is None:
            raise ValueError(
                "These draws cannot be conditioned: they do not come from one Gaussian "
                "process with a known covariance (particles, sums of draws, nearest "
                "rows). Fit the model to all observations instead."
            )
        X = self._rows(X)
        if not len(X):
            return self
        shape = (len(X), self.n_outputs, self.n_draws)
        observed, noise = _observations(y, noise_variance, shape)
        rng = np.random.default_rng(random_state)
        error = np.sqrt(noise)[:, np.newaxis, np.newaxis] * rng.standard_normal(shape)
        moved, process = self.process.update(
            X,
            observed - self.values(X) - error,
            noise,
        )
        return self.plus(moved.terms).with_process(process)

    def plus(self, terms: tuple[Term, ...]) -> FunctionDraws:
        """Add terms to the functions; the distribution is then no longer known."""
        everything = merged(self.terms + tuple(terms))
        return FunctionDraws(everything, self.n_outputs, self.n_draws)

    def with_process(self, process: Process | None) -> FunctionDraws:
        """Return the same functions as draws from this process."""
        return FunctionDraws(self.terms, self.n_outputs, self.n_draws, process)

    def __len__(self) -> int:
        return self.n_draws

    def __getitem__(self, index: Any) -> FunctionDraws:
        """Select draws; an integer gives a FunctionDraws of length one."""
        chosen = np.atleast_1d(np.arange(self.n_draws)[index])
        terms = tuple(term.select(chosen) for term in self.terms)
        return FunctionDraws(terms, self.n_outputs, chosen.shape[0], self.process)

    def __add__(self, other: FunctionDraws) -> FunctionDraws:
        """Draw-by-draw sum of two sets of equal length."""
        if not isinstance(other, FunctionDraws):
            return NotImplemented
        if (self.n_outputs, self.n_draws) != (other.n_outputs, other.n_draws):
            raise ValueError(
                "FunctionDraws can be added if they have equal numbers of outputs and "
                f"draws; got {(self.n_outputs, self.n_draws)} and "
                f"{(other.n_outputs, other.n_draws)}."
            )
        return self.plus(other.terms)

    def __neg__(self) -> FunctionDraws:
        return self.affine(0.0, -1.0)

    def __sub__(self, other: FunctionDraws) -> FunctionDraws:
        """Draw-by-draw difference of two sets of equal length."""
        return self + (-other)

    def __mul__(self, factor: Any) -> FunctionDraws:
        """Multiply by a number."""
        if not isinstance(factor, Real):
            return NotImplemented
        return self.affine(0.0, float(factor))

    __rmul__ = __mul__

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> FunctionDraws:
        """Return the functions ``shift + scale * f``.

        Parameters
        ----------
        shift, scale : float or array-like of shape (c,)
            For all outputs, or for each.
        """
        c = (self.n_outputs,)
        factor = np.broadcast_to(np.asarray(scale, dtype=np.float64), c)
        level = np.broadcast_to(np.asarray(shift, dtype=np.float64), c)
        terms = tuple(term.scaled(factor) for term in self.terms)
        if level.any():
            constant = np.repeat(level[np.newaxis, :, np.newaxis], self.n_draws, axis=2)
            terms = merged((*terms, LinearTerm(ones, constant)))
        process = None if self.process is None else self.process.scaled(factor)
        return FunctionDraws(terms, self.n_outputs, self.n_draws, process)

    def __repr__(self) -> str:
        return f"FunctionDraws(n_draws={self.n_draws}, n_outputs={self.n_outputs})"


def linear_draws(features: Any, weights: Array) -> FunctionDraws:
    """FunctionDraws ``features(X) @ weights`` with weights (m, c, s)."""
    _, c, s = weights.shape
    return FunctionDraws((LinearTerm(features, weights),), c, s)


def _observations(
    y: ArrayLike,
    noise_variance: ArrayLike,
    shape: tuple[int, int, int],
) -> tuple[Array, Array]:
    """Observations (p, c, s) and the variances of their noise (p,).

    Raises
    ------
    ValueError
        If shapes do not agree, a value is not finite, or a variance is negative.
    """
    p, c, s = shape
    values = np.asarray(y, dtype=np.float64)
    if c == 1 and values.shape in ((p,), (p, s)):
        values = values.reshape(p, 1, -1)
    elif values.shape == (p, c):
        values = values[:, :, np.newaxis]
    if values.shape not in (shape, (p, c, 1)):
        one = f"({p},)" if c == 1 else f"({p}, {c})"
        raise ValueError(
            f"y must have shape {one}, or {shape if c > 1 else (p, s)} with values "
            f"for each draw; got {np.shape(y)}."
        )
    noise = np.asarray(noise_variance, dtype=np.float64)
    if noise.shape not in ((), (p,)) or not np.all((noise >= 0) & np.isfinite(noise)):
        raise ValueError(
            "noise_variance must be a finite number that is not negative, or one for "
            f"each of {p} rows; got {noise_variance!r}."
        )
    if not np.isfinite(values).all():
        raise ValueError("y must be finite; got NaN or infinity.")
    return np.broadcast_to(values, shape), np.broadcast_to(noise, p)


# ---- Processes that draws come from --------------------------------------------------


class Process:
    """Covariance of the Gaussian process that draws come from.

    Attributes
    ----------
    scale : ndarray of shape (c,)
        Units of the outputs.
    maps : tuple of InputMap
        Of the inputs, the first one applied first.
    """

    scale: Array
    maps: tuple[InputMap, ...]

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        raise NotImplementedError

    def learn(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
        white: float = 0.0,
    ) -> tuple[Array, Self]:
        """What observing values at X adds to whitened variables, and what it leaves.

        Parameters
        ----------
        X : ndarray of shape (p, d)
            Where something is observed.
        discrepancy : ndarray of shape (p, c, s)
            Observed values less those of the draws and of their noise.
        noise_variance : ndarray of shape (p,)
            Of the observations, in the squared units of the outputs.
        white : float, default=0.0
            Further variance of noise, in the units of the whitened process.

        Returns
        -------
        moved : ndarray of shape (q, c, s)
            In the units of the outputs.
        process : Process
        """
        raise NotImplementedError

    def terms(self, moved: Array) -> tuple[Term, ...]:
        """Functions of the mapped inputs with these whitened variables (q, c, s)."""
        raise NotImplementedError

    def mapped(self, X: Array) -> Array:
        """Rows that the maps make of those of X."""
        for one in self.maps:
            X = one(X)
        return X

    def scaled(self, factor: Array) -> Self:
        """Process of the functions times a factor for each output."""
        scale = self.scale * np.abs(factor)
        return replace(self, scale=scale)  # type: ignore[type-var]

    def update(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
    ) -> tuple[FunctionDraws, Self]:
        """What observing values at X adds to draws, and the process it leaves."""
        moved, after = self.learn(X, discrepancy, noise_variance)
        draws = FunctionDraws(after.terms(moved), *moved.shape[1:])
        for one in reversed(after.maps):
            draws = mapped_draws(draws, one)
        return draws, after


# ---- Draws as terms of others --------------------------------------------------------


@dataclass(frozen=True)
class NestedTerm:
    """Draws as a term of others: of mapped inputs, or some of several sets.

    Parameters
    ----------
    draws : FunctionDraws
    places : ndarray of shape (k,)
        Draw j of these is draw ``places[j]`` of all, the others are zero; distinct.
    n_draws : int
        Number of all draws.
    map : InputMap, default=None
        h, if the functions are those of ``h(x)``.
    """

    draws: FunctionDraws
    places: Index
    n_draws: int
    map: InputMap | None = None

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return (self.map or self.draws).n_features

    @property
    def numeric(self) -> bool:
        """Whether the rows are numbers."""
        return (self.map or self.draws).numeric

    @property
    def is_stateful(self) -> bool:
        """Whether values depend on those drawn before."""
        return self.draws.is_stateful

    def _positions(self, draws: Index) -> tuple[Index, Index]:
        """Which of these draws are in the set, and where."""
        place = np.full(self.n_draws, -1)
        place[self.places] = np.arange(len(self.places))
        inside = np.flatnonzero(place[draws] >= 0)
        return inside, place[draws][inside]

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        if not (k := len(self.places)):
            return
        first, last = self.places[0], self.places[-1]
        # neighbours, in this order where draws come from groups of frequencies
        neighbours = last - first == k - 1
        places = slice(first, last + 1) if neighbours else self.places
        out[:, :, places] += self.draws.values(self.map(X) if self.map else X)

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        own = X[self.places]
        found = self.draws._own_values(self.map(own) if self.map else own)
        if len(self.places) == self.n_draws:
            return found
        values = np.zeros((self.n_draws, self.draws.n_outputs))
        values[self.places] = found
        return values

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        c = self.draws.n_outputs
        values, gradients = np.zeros((len(X), c)), np.zeros((len(X), c, X.shape[1]))
        rows, own = self._positions(draws)
        if not len(rows):
            return values, gradients
        if self.map is None:
            values[rows], gradients[rows] = self.draws._pairs(X[rows], own)
            return values, gradients
        mapped, pullback = self.map.with_pullback(X[rows])
        values[rows], slopes = self.draws._pairs(mapped, own)
        for o in range(c):
            # dh/dx' of the slope of each output in h
            gradients[rows, o] = pullback(slopes[:, o])
        return values, gradients

    def scaled(self, factor: Array | float) -> NestedTerm:
        """Multiply the outputs of the functions by a factor, or one each (c,)."""
        return replace(self, draws=self.draws.affine(0.0, factor))

    def select(self, draws: Index) -> NestedTerm:
        """Keep the draws at these positions."""
        places, own = self._positions(draws)
        return NestedTerm(self.draws[own], places, len(draws), self.map)


def mapped_draws(draws: FunctionDraws, inputs: InputMap) -> FunctionDraws:
    """``f(h(x))`` for each of these functions f."""
    c, s = draws.n_outputs, draws.n_draws
    term = NestedTerm(draws.with_process(None), np.arange(s), s, inputs)
    return FunctionDraws((term,), c, s)


def side_by_side(
    sets: Sequence[FunctionDraws],
    order: Index | None = None,
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
    together = sets[0]
    if len(sets) > 1:
        ends = np.cumsum([0, *map(len, sets)])
        total = int(ends[-1])
        terms = tuple(
            NestedTerm(draws.with_process(None), np.arange(first, last), total)
            for draws, first, last in zip(sets, ends[:-1], ends[1:], strict=True)
        )
        together = FunctionDraws(terms, outputs.pop(), total)
    return together if order is None else together[order]
