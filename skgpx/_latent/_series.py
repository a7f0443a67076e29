"""Series: Markov processes of one column given all rows, by filter and smoother."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skgpx._draws import (
    FunctionDraws,
    Term,
    WithoutCaches,
    markov_draws,
    markov_sections,
)
from skgpx._latent._model import FunctionModel, GivenPoints, Mean
from skgpx._numerics.linalg import NUGGET
from skgpx._numerics.rows import equal_rows
from skgpx._numerics.state_space import Filtered, Series, Smoothed
from skgpx._numerics.weights import GaussianWeights
from skgpx._types import Array, Generator, Kernel
from skgpx.bases import SeriesBasis


@dataclass(frozen=True)
class ObservedSeries(WithoutCaches):
    """Independent Markov processes, and noisy rows of them in the order of time.

    Attributes
    ----------
    basis : SeriesBasis
        Of the kernel.
    rows : ndarray of shape (n, 1)
        Sorted.
    y : ndarray of shape (n, c)
        Values; any number where there is none.
    noise : ndarray of shape (n, c)
        Variances; infinite where there is no value.
    """

    basis: SeriesBasis
    rows: Array
    y: Array
    noise: Array

    @classmethod
    def of(cls, basis: SeriesBasis, X: Array, y: Array, noise: Array) -> ObservedSeries:
        """Rows in any order."""
        times = X[:, 0]
        if np.all(times[1:] >= times[:-1]):
            return cls(basis, X, y, noise)
        order = np.argsort(times, kind="stable")
        return cls(basis, X[order], y[order], noise[order])

    @cached_property
    def _times(self) -> Array:
        return np.ascontiguousarray(self.rows[:, 0])

    @cached_property
    def _features(self) -> Array:
        return self.features(self.rows)

    def features(self, X: Array) -> Array:
        """Functions of the static states at the rows of X, (p, q)."""
        return self.basis.form.features(X[:, 0])

    @cached_property
    def filtered(self) -> list[Filtered]:
        """Rows of each function, filtered."""
        return [
            self.series(output).filtered(np.ascontiguousarray(self.y[:, output]))
            for output in range(self.y.shape[1])
        ]

    @cached_property
    def smoothed(self) -> list[Smoothed]:
        """Rows of each function, filtered and smoothed."""
        return [rows.smoothed() for rows in self.filtered]

    def followed_by(self, X: Array, y: Array, noise: Array) -> ObservedSeries:
        """With further rows; the filter goes on if they are later than all others."""
        if not len(X):
            return self
        is_later = X[:, 0].min() >= self.rows[-1, 0]
        union = ObservedSeries.of(
            self.basis,
            np.concatenate((self.rows, X)),
            np.concatenate((self.y, y)),
            np.concatenate((self.noise, noise)),
        )
        if is_later:
            vars(union)["filtered"] = [
                union.series(output).filtered(
                    np.ascontiguousarray(union.y[:, output]), earlier
                )
                for output, earlier in enumerate(self.filtered)
            ]
        return union

    def equals(self, other: ObservedSeries) -> bool:
        """Whether these are the same rows."""
        return np.array_equal(self.rows, other.rows) and np.array_equal(self.y, other.y)

    def beyond(self, first: ObservedSeries) -> ObservedSeries:
        """The rows that are not those of an earlier series."""
        table = np.column_stack((self.rows, self.y, self.noise))
        table_of_first = np.column_stack((first.rows, first.y, first.noise))
        distinct, position = equal_rows(np.concatenate((table, table_of_first)))
        counts = np.bincount(position[: len(table)], minlength=len(distinct))
        counts -= np.bincount(position[len(table) :], minlength=len(distinct))
        left = np.repeat(distinct, np.maximum(counts, 0), axis=0)
        rows, y, noise = np.split(left, (1, 1 + self.y.shape[1]), axis=1)
        return ObservedSeries(self.basis, rows, y, noise)

    def series(self, output: int) -> Series:
        """Rows of a function, without values."""
        noise = np.ascontiguousarray(self.noise[:, output])
        return Series(self.basis.form.cascades(), self._times, self._features, noise)

    def covariance(self, X: Array, output: int) -> Array:
        """Covariance of a function given the rows, between the rows of X, (p, p)."""
        kernel = self.basis.kernel
        covariance: Array = kernel(X)
        series = self.series(output)
        # columns at a time: sums over the rows take n S numbers a column
        n_states = len(self.rows) * series.n_states
        most_numbers = 2**25
        width = min(max(most_numbers // n_states, 1), 64)
        for start in range(0, len(X), width):
            part = slice(start, start + width)
            # k(X, T) C⁻¹ k(T, x)
            duals = series.solve(kernel(self.rows, X[part]))
            terms = markov_sections(kernel, self.rows, duals[:, np.newaxis])
            explained = np.zeros((len(X), 1, duals.shape[1]))
            for term in terms:
                term.add_to(explained, X)
            covariance[:, part] -= explained[:, 0]
        return 0.5 * (covariance + covariance.T)


@dataclass(frozen=True)
class SeriesModel(FunctionModel):
    """Distribution of ``f = m + scale h`` given all rows, h a Markov process.

    The c functions are independent. Moments and draws take O(log n) a row after one
    pass over the data. Since the model holds the data, it can be conditioned on more.

    Parameters
    ----------
    observed : ObservedSeries
        The rows of the data.
    mean : Mean, default=None
        m; None is zero.
    scale : float or ndarray of shape (c,), default=1.0
        Units of the outputs.

    References
    ----------
    .. [1] Hartikainen and Särkkä, "Kalman filtering and smoothing solutions to temporal
       Gaussian process regression models", MLSP 2010.
    """

    observed: ObservedSeries
    mean: Mean | None = None
    scale: float | Array = 1.0

    @property
    def basis(self) -> SeriesBasis:  # type: ignore[override]
        """Basis without functions."""
        return self.observed.basis

    @property
    def weights(self) -> GaussianWeights:  # type: ignore[override]
        """No weights."""
        return GaussianWeights(
            np.zeros((0, self.observed.y.shape[1])), np.zeros((1, 0, 0))
        )

    @property
    def n_basis(self) -> int:
        """Number of functions: the mean given the rows."""
        return 1

    @property
    def floats_of_features(self) -> int:
        return 8

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of h at the rows of X, (p, c, 1) each."""
        features = self.observed.features(X)
        moments = [rows.moments(X[:, 0], features) for rows in self.observed.smoothed]
        mean, variance = np.stack(moments, axis=-1)
        return mean[:, :, np.newaxis], variance[:, :, np.newaxis]

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """Mean of the first h given the rows, (p, 1), and its variance, (p,).

        The weight of this function is one.
        """
        mean, variance = self._whitened_moments(X)
        return mean[:, 0], variance[:, 0, 0]

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        return self.observed.covariance(X, output)

    def _whitened_draws(
        self,
        size: int,
        rng: Generator,
        weights_rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Draws of h by Matheron's rule: ``f⁰ + k(·, T) C⁻¹ (y - f⁰(T) - ε)``.

        The prior draws f⁰ are paths of the process itself, whatever `prior` asks for.
        """
        del prior
        c = self.n_outputs
        kernel = self.basis.kernel
        observed = self.observed
        rows = observed.rows
        draws = markov_draws(kernel, c, size, rng)
        noise = observed.noise
        std = np.sqrt(np.where(np.isfinite(noise), noise, 0.0))
        errors = weights_rng.standard_normal((len(rows), c, size))
        # y - f⁰(T) - ε, in place
        errors *= -std[:, :, np.newaxis]
        errors += observed.y[:, :, np.newaxis]
        errors -= draws.values(rows)
        for output in range(c):
            errors[:, output] = observed.series(output).solve(errors[:, output])
        return draws.plus(markov_sections(kernel, rows, errors))

    def process(self) -> SeriesProcess:
        """``f - m`` as a process that can be conditioned."""
        return SeriesProcess(
            observed=self.observed,
            scale=np.abs(self._scales),
            points=np.empty((0, 1)),
            noise=np.empty((self.n_outputs, 0)),
        )

    def condition(self, X: Array, y: Array, noise_variance: Array) -> SeriesModel:
        """Distribution of f given noisy values y (p, c) at X (p, 1).

        `noise_variance` (p,) is in the squared units of the outputs.
        """
        values = (y - self.mean_at(X)) / self._scales
        noise = noise_variance[:, np.newaxis] / self._scales**2
        # values without noise may be repeated
        nugget = NUGGET * self.basis.kernel.diag(X)
        noise = np.maximum(noise, nugget[:, np.newaxis])
        return replace(self, observed=self.observed.followed_by(X, values, noise))

    @property
    def n_states(self) -> int:
        """Number of states of the process."""
        return self.observed.series(0).n_states

    @property
    def n_values(self) -> int:
        """Number of values at the rows."""
        return int(np.sum(np.isfinite(self.observed.noise)))

    @property
    def mean_squared_error(self) -> float:
        """Of predictions from all earlier rows, in their own standard deviations."""
        squares = [rows.sums[-1, 0] for rows in self.observed.filtered]
        return float(np.sum(squares)) / self.n_values

    @property
    def log_density_of_rows(self) -> float:
        """Log density of the values at the rows, in the units of f."""
        n_known = np.sum(np.isfinite(self.observed.noise), axis=0)
        densities = [rows.value for rows in self.observed.filtered]
        log_units = 0.5 * np.log(2.0 * np.pi) + np.log(np.abs(self._scales))
        return float(np.sum(densities) - n_known @ log_units)


@dataclass(frozen=True, kw_only=True)
class SeriesProcess(GivenPoints):
    """Process of the draws of a :class:`SeriesModel`, given further values.

    C is the covariance of the process given the rows of the data.

    Attributes
    ----------
    observed : ObservedSeries
    """

    observed: ObservedSeries

    @property
    def _kernel(self) -> Kernel:
        return self.observed.basis.kernel

    def _given_data(self, X: Array, output: int) -> Array:
        """``C`` of one output between the rows of X."""
        return self.observed.covariance(X, output)

    def terms(self, variables: Array) -> tuple[Term, ...]:
        """``C(·, P) α = k(·, P) α - k(·, T) C⁻¹ k(T, P) α``, of α (p, c, s)."""
        observed = self.observed
        kernel = observed.basis.kernel
        order = np.argsort(self.points[:, 0], kind="stable")
        of_points = markov_sections(kernel, self.points[order], variables[order])
        at_rows = FunctionDraws(of_points, *variables.shape[1:]).values(observed.rows)
        duals = np.empty_like(at_rows)
        for output in range(at_rows.shape[1]):
            duals[:, output] = -observed.series(output).solve(at_rows[:, output])
        return of_points + markov_sections(kernel, observed.rows, duals)
