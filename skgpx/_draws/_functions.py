"""Functions that are drawn once and evaluated anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol, Self

import numpy as np
from scipy.optimize import OptimizeResult

from skgpx._draws._features import FeatureMap, LinearTerm, Term, merged, ones
from skgpx._draws._mapped import InputMap
from skgpx._draws._optima import checked_box, minimise
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._numerics.rows import LARGEST, row_slices
from skgpx._row_budgets import CHUNK_ROWS
from skgpx._types import AnyArray, Array, ArrayLike, Index, RandomState
from skgpx.kernels import FunctionalRows, checked_functionals


class RowReader(Protocol):
    """Reads rows of tables as the estimator does that draws come from.

    Attributes
    ----------
    columns : list of tuples (name, categories)
        Empty where columns have no names; categories are None for numbers.
    """

    @property
    def columns(self) -> list[tuple[str, list[Any] | None]]: ...

    def __call__(self, X: ArrayLike) -> ArrayLike:
        """Rows of a table as an array, (n, d); other rows are returned."""


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
    process : Process or MixtureProcess, default=None
        Covariance of the distribution of the draws, where it is Gaussian and known, or
        that of each model that they come from; :meth:`condition` needs it.
    owner : ndarray of int of shape (s,), default=None
        Number of the model that each draw comes from, for draws from several models.
    reader : RowReader, default=None
        Reads data frames as the estimator does that the draws come from: it refuses
        other columns, or another order of them, and makes codes of categories. Arrays
        hold the columns in the order of `fit`, with codes for categories.

    Notes
    -----
    A call costs O(n (R + m) (d + s)) time for n rows, R Fourier frequencies and m
    kernel sections, and constant memory apart from the values. Posterior draws follow
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
        process: Process | MixtureProcess | None = None,
        owner: Index | None = None,
        reader: RowReader | None = None,
    ):
        self.terms = tuple(terms)
        self.n_outputs = n_outputs
        self.n_draws = n_draws
        self.process = process
        self.owner = owner
        self.reader = reader
        widths = {term.n_features for term in self.terms} - {None}
        if len(widths) > 1:
            raise ValueError(
                "Terms of FunctionDraws must take equally many input columns; got "
                f"{sorted(map(str, widths))}."
            )
        self.n_features = next(iter(widths), None)
        # rows that a map turns into numbers travel as objects
        self.numeric = all(getattr(term, "numeric", True) for term in self.terms)
        # values that depend on earlier evaluations: a copy would be another function
        stateful = (getattr(term, "is_stateful", False) for term in self.terms)
        self.is_stateful = any(stateful)

    def __call__(self, X: ArrayLike) -> Array:
        """Values of the functions at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs; of a data frame its columns, as for `predict` of the estimator.

        Returns
        -------
        values : ndarray of shape (n, s), or (n, c, s) for several outputs
            Latent values, one column per draw.

        Raises
        ------
        ValueError
            If X is not two-dimensional, not finite or beyond 1e120, or has another
            number of columns than the functions take, or other names of columns.
        """
        values = self.values(self._rows(X))
        if self.n_outputs == 1:
            return values[:, 0, :]
        return values

    def _read(self, X: ArrayLike) -> ArrayLike:
        """Rows of a table as an array; an array costs nothing."""
        if self.reader is None or type(X) is np.ndarray:
            return X
        return self.reader(X)

    def _rows(self, X: ArrayLike) -> Array:
        """Inputs as a finite two-dimensional array of doubles, or one of objects."""
        dtype = np.float64 if self.numeric else np.object_
        X = np.ascontiguousarray(self._read(X), dtype=dtype)
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
        if self.numeric:
            # one pass: comparisons with NaN are false
            largest = np.abs(X).max(initial=0.0)
            if not largest <= LARGEST:
                raise ValueError(
                    f"X must be at most {LARGEST:g} in size, and finite; got "
                    f"{largest:g}."
                )
        return X

    def values(self, X: ArrayLike) -> Array:
        """Values at the rows of X with the output axis kept, shape (n, c, s)."""
        if not isinstance(X, np.ndarray):
            X = self._rows(X)
        values = np.zeros((len(X), self.n_outputs, self.n_draws))
        for rows in row_slices(len(X), CHUNK_ROWS):
            for term in self.terms:
                term.add_to(values[rows], X[rows])
        return values

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
        values = self._values_by_draw(X)
        if self.n_outputs == 1:
            return values[:, 0]
        return values

    def _values_by_draw(self, X: Array) -> Array:
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
        n, d = X.shape
        s = self.n_draws
        c = self.n_outputs
        values = np.empty((n * s, c))
        gradients = np.empty((n * s, c, d))
        all_pairs = np.arange(n * s)
        for block in row_slices(n * s, CHUNK_ROWS):
            # pair i is row i // s and draw i % s
            pairs = all_pairs[block]
            rows = X[pairs // s]
            draws = pairs % s
            values[pairs], gradients[pairs] = self._pairs(rows, draws)
        values = values.reshape(n, s, c)
        gradients = gradients.reshape(n, s, c, d)
        if c == 1:
            return values[:, :, 0], gradients[:, :, 0]
        return values.swapaxes(1, 2), gradients.swapaxes(1, 2)

    def _pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """Draw ``draws[i]`` at row i: values (p, c), gradients (p, c, d)."""
        n_pairs, d = X.shape
        values = np.zeros((n_pairs, self.n_outputs))
        gradients = np.zeros((n_pairs, self.n_outputs, d))
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
        random_state: RandomState = None,
        candidates: ArrayLike | None = None,
    ) -> OptimizeResult:
        """Smallest value of each function in a box, and where it is.

        The functions are evaluated on a scrambled Sobol mesh; the best points of each
        are starts of a batched L-BFGS-B search, and the best results are refined one
        by one.

        Parameters
        ----------
        bounds : array-like of shape (d, 2)
            Lower and upper bound of each input. Equal ones hold it fixed, as a column
            of categories must be. The index of a frame of pandas names the columns.
        n_starts : int, default=32
            Starts for each function.
        n_mesh : int, default=10000
            Mesh points.
        random_state : int, Generator or None, default=None
            Scrambles the mesh.
        candidates : array-like of shape (k, d), default=None
            Points of the box that are added to the mesh, such as those near a good one.

        Returns
        -------
        optima : scipy.optimize.OptimizeResult
            ``x`` (s, d) and ``fun`` (s,).

        Raises
        ------
        ValueError
            If the draws have several outputs, bounds are not finite or not in order, or
            candidates do not have d columns.
        """
        if self.n_outputs != 1:
            raise ValueError(
                f"Only functions with one output have a minimum; got {self.n_outputs} "
                "outputs."
            )
        if hasattr(bounds, "columns") and hasattr(bounds, "T"):
            # the index of a frame of pandas names the columns
            bounds = np.asarray(self._read(bounds.T)).T
        box = checked_box(bounds)
        self._rows(box.T)
        return minimise(
            lambda X: self.values(X)[:, 0],
            self._pairs,
            self.n_draws,
            box,
            n_starts,
            n_mesh,
            random_state,
            None if candidates is None else self._read(candidates),
        )

    def maximize(
        self,
        bounds: ArrayLike,
        n_starts: int = 32,
        n_mesh: int = 10_000,
        random_state: RandomState = None,
        candidates: ArrayLike | None = None,
    ) -> OptimizeResult:
        """Largest value of each function in a box; see :meth:`minimize`."""
        minima = (-self).minimize(bounds, n_starts, n_mesh, random_state, candidates)
        return OptimizeResult(x=minima.x, fun=-minima.fun)

    def condition(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise_variance: ArrayLike = 0.0,
        random_state: RandomState = None,
        *,
        derivative: ArrayLike | None = None,
        widths: ArrayLike | None = None,
        against: ArrayLike | None = None,
    ) -> FunctionDraws:
        """Draws of the process given more observations, from these draws.

        Each function changes to agree with the observations, and keeps its values where
        they carry no information: for fantasies, or new data without a new fit.

        Parameters
        ----------
        X : array-like of shape (p, d)
            Where the process is observed.
        y : array-like of shape (p,), or (p, c) for several outputs
            Observations of the functions: on another scale of y than y itself they are
            ``likelihood_.forward(y)``. With one more axis of length s, a different set
            for each draw.
        noise_variance : float or array-like of shape (p,), default=0.0
            Variance of the noise of the observations.
        random_state : int, Generator or None, default=None
            Draws the noise.
        derivative : int, str or array-like of shape (p,), default=None
            Column along which a row sees the slope of the functions, by number or
            name; -1 for their values.
        widths : array-like of shape (p, d), default=None
            Widths of boxes around X of which rows see the means; 0 for a point.
        against : array-like of shape (p, d), default=None
            Points whose values are subtracted: rows see ``f(X) - f(against)``. NaN in
            all columns of a row: nothing is subtracted.

        Returns
        -------
        draws : FunctionDraws

        Raises
        ------
        ValueError
            If the draws are not Gaussian with a known covariance, if shapes do not
            agree, or if the functions have no slope. If rows see slopes, means or
            differences of draws of nearest rows, of series by state space, or of
            mapped inputs.

        Notes
        -----
        O(p^3 + p q (p + q)) time, with q the number of points, or variables, that the
        process has been conditioned on before.

        Draws of a mixture of processes, as of a model with averaged hyperparameters,
        are conditioned under the process of their own model: each function keeps its
        hyperparameters. The observations do not change how many draws a model has,
        whereas the weights of a posterior would be multiplied by the density of the
        observations under each model.

        A mean over a box is that of its nodes by the rule of Gauss and Legendre, of up
        to 200 along one column and ten along each of two.
        """
        if self.process is None:
            raise ValueError(
                "These draws cannot be conditioned: they do not come from Gaussian "
                "processes with known covariances (particles, sums of draws). Fit "
                "the model to all observations instead."
            )
        X = self._rows(X)
        seen = self._functional_rows(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        if not len(X) or not len(self):
            return self
        shape = (len(X), self.n_outputs, self.n_draws)
        observed, noise = _observations(y, noise_variance, shape)
        process = self.process
        if seen is None:
            values = self.values(X)
        else:
            process, values = process.of_functionals(self, seen)
            X = seen.as_array()
        rng = np.random.default_rng(random_state)
        # Matheron's rule: f + k(·, X) (K + N)⁻¹ (y - f(X) - ε)
        std = np.sqrt(noise)
        error = std[:, np.newaxis, np.newaxis] * rng.standard_normal(shape)
        discrepancy = observed - values - error
        change, process = process.update(X, discrepancy, noise)
        return self.plus(change.terms).with_process(process)

    def _functional_rows(
        self,
        X: Array,
        **functionals: ArrayLike | None,
    ) -> FunctionalRows | None:
        """What rows X see of the functions; None if all see values."""
        columns = [] if self.reader is None else self.reader.columns
        return checked_functionals(
            X,
            names=[name for name, _ in columns],
            categories=[i for i, (_, values) in enumerate(columns) if values],
            read=self._rows,
            **functionals,
        )

    def plus(self, terms: tuple[Term, ...]) -> FunctionDraws:
        """Add terms to the functions; the result has no process."""
        all_terms = merged(self.terms + tuple(terms))
        return self._with(terms=all_terms, process=None)

    def with_process(self, process: Process | MixtureProcess | None) -> FunctionDraws:
        """Return the same functions as draws from this process."""
        return self._with(process=process)

    def with_owner(self, owner: Index | None) -> FunctionDraws:
        """Return the same functions as draws from these models (s,)."""
        return self._with(owner=owner)

    def with_reader(self, reader: RowReader | None) -> FunctionDraws:
        """Return the same functions of rows that this reader reads."""
        return self._with(reader=reader)

    def _with(self, **changes: Any) -> FunctionDraws:
        """Draws with the same arguments, but for these."""
        names = ("terms", "n_outputs", "n_draws", "process", "owner", "reader")
        arguments = {name: getattr(self, name) for name in names}
        return FunctionDraws(**arguments | changes)

    def __len__(self) -> int:
        return self.n_draws

    def __getitem__(self, index: int | slice | list[int] | AnyArray) -> FunctionDraws:
        """Select draws; an integer gives a FunctionDraws of length one."""
        positions: Index = np.arange(self.n_draws)
        positions = np.atleast_1d(positions[index])
        terms = [term.select(positions) for term in self.terms]
        process = self.process
        if process is not None:
            process = process.select(positions)
        owner = self.owner
        if owner is not None:
            owner = owner[positions]
        return self._with(
            terms=tuple(terms),
            n_draws=len(positions),
            process=process,
            owner=owner,
        )

    def __add__(self, other: FunctionDraws) -> FunctionDraws:
        """Draw-by-draw sum of two sets of equal length, functions of equal columns."""
        if not isinstance(other, FunctionDraws):
            return NotImplemented
        if (self.n_outputs, self.n_draws) != (other.n_outputs, other.n_draws):
            raise ValueError(
                "FunctionDraws can be added if they have equal numbers of outputs and "
                f"draws; got {(self.n_outputs, self.n_draws)} and "
                f"{(other.n_outputs, other.n_draws)}."
            )
        reader = _common_reader((self, other))
        total = self.plus(other.terms).with_reader(reader)
        if other.owner is not None:
            # a sum of draws from several models is from none of them
            return total.with_owner(None)
        return total

    def __neg__(self) -> FunctionDraws:
        return self.affine(0.0, -1.0)

    def __sub__(self, other: FunctionDraws) -> FunctionDraws:
        """Draw-by-draw difference of two sets of equal length."""
        return self + (-other)

    def __mul__(self, factor: object) -> FunctionDraws:
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
            One number for all outputs, or one for each.
        """
        c = self.n_outputs
        s = self.n_draws
        scales = np.asarray(scale, dtype=np.float64)
        shifts = np.asarray(shift, dtype=np.float64)
        factor = np.broadcast_to(scales, c)
        level = np.broadcast_to(shifts, c)
        terms = tuple(term.scaled(factor) for term in self.terms)
        if level.any():
            # one more term: the constant feature with weights (1, c, s)
            weights = np.empty((1, c, s))
            weights[:] = level[:, np.newaxis]
            constant = LinearTerm(ones, weights)
            terms = merged((*terms, constant))
        process = self.process
        if process is not None:
            process = process.scaled(factor)
        return self._with(terms=terms, process=process)

    def __repr__(self) -> str:
        return f"FunctionDraws(n_draws={self.n_draws}, n_outputs={self.n_outputs})"


def _common_reader(sets: Sequence[FunctionDraws]) -> RowReader | None:
    """Reader of functions of the same rows; None if no set has one.

    Raises
    ------
    ValueError
        If they are functions of other columns, or of other categories.
    """
    readers = [draws.reader for draws in sets if draws.reader is not None]
    # columns without names may be any
    named = [reader for reader in readers if reader.columns]
    for reader in named:
        if reader.columns != named[0].columns:
            raise ValueError(
                "Draws that are put together must be functions of the same columns "
                "and categories, in the same order; got "
                f"{named[0].columns} and {reader.columns}."
            )
    return next(iter(named + readers), None)


def linear_draws(features: FeatureMap, weights: Array) -> FunctionDraws:
    """FunctionDraws ``features(X) @ weights`` with weights (m, c, s)."""
    _, c, s = weights.shape
    term = LinearTerm(features, weights)
    return FunctionDraws((term,), c, s)


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
        if c == 1:
            shapes = f"({p},), or {(p, s)}"
        else:
            shapes = f"({p}, {c}), or {shape}"
        raise ValueError(
            f"y must have shape {shapes} with values for each draw; got {np.shape(y)}."
        )
    noise = np.asarray(noise_variance, dtype=np.float64)
    is_variance = (noise >= 0) & np.isfinite(noise)
    if noise.shape not in ((), (p,)) or not np.all(is_variance):
        raise ValueError(
            "noise_variance must be a finite number that is not negative, or one for "
            f"each of {p} rows; got {noise_variance!r}."
        )
    if not np.isfinite(values).all():
        raise ValueError("y must be finite; got NaN or infinity.")
    values = np.broadcast_to(values, shape)
    return values, np.broadcast_to(noise, p)


# ---- Processes that draws come from --------------------------------------------------


class Process:
    """Covariance of the Gaussian process that draws come from.

    The base class of processes: a subclass is a frozen dataclass with the attributes,
    :meth:`covariance`, :meth:`learn` and :meth:`terms`.

    Attributes
    ----------
    scale : ndarray of shape (c,)
        Units of the outputs.
    maps : tuple of InputMap
        Maps of the inputs, the first one applied first.
    spread : ndarray of shape (g, q, r)
        Root of the covariance of the whitened variables with a posterior, for each
        output or (g = 1) for all.
    """

    scale: Array
    maps: tuple[InputMap, ...]
    spread: Array

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
        """Condition on values at X.

        Parameters
        ----------
        X : ndarray of shape (p, d)
            Inputs of the observations.
        discrepancy : ndarray of shape (p, c, s)
            Observed values less the values of the draws and of their noise.
        noise_variance : ndarray of shape (p,)
            Variances of the observations, in the squared units of the outputs.
        white : float, default=0.0
            Further variance of noise, in the units of the whitened process.

        Returns
        -------
        change : ndarray of shape (q, c, s)
            Added to the whitened variables of draws, in the units of the outputs.
        process : Process
            The process given the observations.
        """
        raise NotImplementedError

    def terms(self, variables: Array) -> tuple[Term, ...]:
        """Functions of the mapped inputs with these whitened variables (q, c, s)."""
        raise NotImplementedError

    def of_functionals(
        self,
        draws: FunctionDraws,
        rows: FunctionalRows,
    ) -> tuple[Process, Array]:
        """Process of rows that see functionals, and those of its draws (p, c, s).

        Raises
        ------
        ValueError
            If its functionals are not known.
        """
        del draws, rows
        raise ValueError(
            "Draws see values only if they come from nearest rows, from a series by "
            "state space, or from functions of mapped inputs; got derivative, widths "
            "or against. Condition draws of PLSRegressor(n_neighbors=0), of a series "
            "those of PLSRegressor(n_inducing=300)."
        )

    def mapped(self, X: Array) -> Array:
        """Apply the maps to the rows of X."""
        for input_map in self.maps:
            X = input_map(X)
        return X

    def scaled(self, factor: Array) -> Self:
        """Process of the functions times a factor for each output."""
        scale = self.scale * np.abs(factor)
        return replace(self, scale=scale)  # type: ignore[type-var]

    def select(self, draws: Index) -> Self:  # noqa: ARG002
        """Process of the draws at these positions: one of all draws."""
        return self

    def update(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
    ) -> tuple[FunctionDraws, Self]:
        """Condition on values at X, with the change of draws as functions.

        Returns
        -------
        change : FunctionDraws
            Added to draws of this process.
        process : Process
            The process given the observations.
        """
        variables, process = self.learn(X, discrepancy, noise_variance)
        _, c, s = variables.shape
        change = FunctionDraws(process.terms(variables), c, s)
        for input_map in reversed(process.maps):
            change = mapped_draws(change, input_map)
        return change, process


# ---- Draws as terms of others --------------------------------------------------------


@dataclass(frozen=True)
class NestedTerm:
    """Draws as a term of others: of mapped inputs, one of several sets, one output.

    Parameters
    ----------
    draws : FunctionDraws
    places : ndarray of shape (k,)
        Draw j of the set is draw ``places[j]`` of all; draws at other places are zero.
        The places are distinct.
    n_draws : int
        Number of all draws.
    n_outputs : int
        Number of all outputs.
    outputs : slice
        Which of them the functions are; the others are zero.
    map : InputMap, default=None
        h, if the functions are ``f(h(x))``.
    """

    draws: FunctionDraws
    places: Index
    n_draws: int
    n_outputs: int
    outputs: slice
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
        """Whether values depend on earlier evaluations."""
        return self.draws.is_stateful

    def _mapped(self, X: Array) -> Array:
        """Rows as the draws take them."""
        if self.map is None:
            return X
        return self.map(X)

    def _positions(self, draws: Index) -> tuple[Index, Index]:
        """Which of these draws are in the set, and their positions there."""
        position_in_set = np.full(self.n_draws, -1)
        position_in_set[self.places] = np.arange(len(self.places))
        positions = position_in_set[draws]
        in_set = np.flatnonzero(positions >= 0)
        return in_set, positions[in_set]

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        k = len(self.places)
        if not k:
            return
        first = self.places[0]
        last = self.places[-1]
        places: Index | slice = self.places
        if last - first == k - 1:
            # draws of groups of frequencies are contiguous, in this order
            places = slice(first, last + 1)
        out[:, self.outputs, places] += self.draws.values(self._mapped(X))

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        mapped = self._mapped(X[self.places])
        values = np.zeros((self.n_draws, self.n_outputs))
        values[self.places, self.outputs] = self.draws._values_by_draw(mapped)
        return values

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        n_pairs, d = X.shape
        values = np.zeros((n_pairs, self.n_outputs))
        gradients = np.zeros((n_pairs, self.n_outputs, d))
        rows, positions = self._positions(draws)
        if not len(rows):
            return values, gradients
        X_in_set = X[rows]
        if self.map is None:
            in_set, slopes = self.draws._pairs(X_in_set, positions)
            values[rows, self.outputs] = in_set
            gradients[rows, self.outputs] = slopes
            return values, gradients
        mapped, pullback = self.map.with_pullback(X_in_set)
        values[rows], slopes = self.draws._pairs(mapped, positions)
        for o in range(self.n_outputs):
            # chain rule: (dh/dx)ᵀ times the slope of each output in h
            gradients[rows, o] = pullback(slopes[:, o])
        return values, gradients

    def scaled(self, factor: Array | float) -> NestedTerm:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        factors = np.broadcast_to(factor, (self.n_outputs,))
        draws = self.draws.affine(0.0, factors[self.outputs])
        return replace(self, draws=draws)

    def select(self, draws: Index) -> NestedTerm:
        """Keep the draws at these positions."""
        places, positions = self._positions(draws)
        return replace(
            self,
            draws=self.draws[positions],
            places=places,
            n_draws=len(draws),
        )


def mapped_draws(draws: FunctionDraws, inputs: InputMap) -> FunctionDraws:
    """``f(h(x))`` for each of these functions f."""
    s = draws.n_draws
    term = NestedTerm(
        draws=draws._with(process=None, reader=None),
        places=np.arange(s),
        n_draws=s,
        n_outputs=draws.n_outputs,
        outputs=slice(None),
        map=inputs,
    )
    mapped = FunctionDraws((term,), draws.n_outputs, s)
    return mapped.with_owner(draws.owner)


def side_by_side(
    sets: Sequence[FunctionDraws],
    order: Index | None = None,
) -> FunctionDraws:
    """One set of draws that holds the draws of several sets.

    Parameters
    ----------
    sets : sequence of FunctionDraws
        With the same number of outputs.
    order : ndarray of shape (s,), default=None
        Draw i is number ``order[i]`` of the concatenated sets; None keeps their order.

    Returns
    -------
    draws : FunctionDraws
        As many draws as the sets have in total.

    Raises
    ------
    ValueError
        If there is no set, or the numbers of outputs or the columns differ.
    """
    outputs = {draws.n_outputs for draws in sets}
    if len(outputs) != 1:
        raise ValueError(
            "side_by_side expects at least one set of draws, all with equally many "
            f"outputs; got {len(sets)} sets with {sorted(outputs)} outputs."
        )
    union = sets[0]
    if len(sets) > 1:
        total = sum(len(draws) for draws in sets)
        reader = _common_reader(sets)
        terms = []
        first = 0
        for draws in sets:
            last = first + len(draws)
            places = np.arange(first, last)
            functions = draws._with(process=None, reader=None)
            term = NestedTerm(
                draws=functions,
                places=places,
                n_draws=total,
                n_outputs=union.n_outputs,
                outputs=slice(None),
            )
            terms.append(term)
            first = last
        union = FunctionDraws(tuple(terms), union.n_outputs, total, reader=reader)
    if order is None:
        return union
    return union[order]


def with_outputs_of(sets: Sequence[FunctionDraws]) -> FunctionDraws:
    """Draws whose outputs are the single outputs of several sets of as many draws."""
    n_outputs = len(sets)
    s = sets[0].n_draws
    terms = []
    for output, draws in enumerate(sets):
        functions = draws.with_process(None)
        term = NestedTerm(
            draws=functions,
            places=np.arange(s),
            n_draws=s,
            n_outputs=n_outputs,
            outputs=slice(output, output + 1),
        )
        terms.append(term)
    return FunctionDraws(tuple(terms), n_outputs, s)


# ---- Processes of draws from several models ------------------------------------------


@dataclass(frozen=True)
class MixtureProcess:
    """Processes of draws that come from several models; see :class:`Process`.

    Each draw is conditioned under the process of its own model.

    Attributes
    ----------
    processes : dict of Process
        By the number of their model.
    owner : ndarray of int of shape (s,)
        Number of the model of each draw.
    """

    processes: dict[int, Process]
    owner: Index

    def scaled(self, factor: Array) -> MixtureProcess:
        """Processes of the functions times a factor for each output."""
        processes = {k: process.scaled(factor) for k, process in self.processes.items()}
        return replace(self, processes=processes)

    def select(self, draws: Index) -> MixtureProcess:
        """Processes of the draws at these positions."""
        owner = self.owner[draws]
        processes = {k: self.processes[k] for k in np.unique(owner).tolist()}
        return MixtureProcess(processes, owner)

    def of_functionals(
        self,
        draws: FunctionDraws,
        rows: FunctionalRows,
    ) -> tuple[MixtureProcess, Array]:
        """Processes of rows of functionals; see :meth:`Process.of_functionals`."""
        values = np.empty((len(rows.X), draws.n_outputs, draws.n_draws))
        processes = {}
        for k, process in self.processes.items():
            of_model = np.flatnonzero(self.owner == k)
            processes[k], values[:, :, of_model] = process.of_functionals(
                draws[of_model], rows
            )
        return replace(self, processes=processes), values

    def update(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
    ) -> tuple[FunctionDraws, MixtureProcess]:
        """Condition every draw on values at X; see :meth:`Process.update`."""
        changes = []
        processes = {}
        for k, process in self.processes.items():
            of_model = discrepancy[:, :, self.owner == k]
            change, learned = process.update(X, of_model, noise_variance)
            changes.append(change)
            processes[k] = learned
        # changes follow one another: back to the order of the draws
        rank = np.argsort(np.argsort(self.owner, kind="stable"))
        return side_by_side(changes, rank), replace(self, processes=processes)
