"""A Markov process with cycles as a latent model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._draws import (
    FourierFeatures,
    FunctionDraws,
    KernelProcess,
    RememberedTerm,
    StateMemory,
    linear_draws,
    ones,
)
from skgpx._latent._density import joint_log_density
from skgpx._latent._mean import Mean
from skgpx._numerics.linalg import NUGGET
from skgpx._numerics.markov_regression import (
    MarkovPosterior,
    MarkovRows,
    MaternProcess,
    markov_posterior,
)
from skgpx._numerics.mixture import LatentMixture

# ---- A level and waves of known frequencies: the few functions beside a process ------


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cycles:
    """The constant, and cosine and sine of r waves of one input; m = 1 + 2 r functions.

    Their weights are N(0, 1), the waves together having the prior variance one.

    Parameters
    ----------
    frequencies : ndarray of shape (r,)
        In cycles for each unit of the input.
    """

    frequencies: Array

    @cached_property
    def _waves(self) -> FourierFeatures:
        turns = 2.0 * np.pi * self.frequencies[:, np.newaxis]
        r = len(self.frequencies)
        return FourierFeatures(turns, np.full(r, 1.0 / np.sqrt(max(r, 1))))

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X (n, 1), shape (n, m)."""
        if not len(self.frequencies):
            return ones(X)
        return np.column_stack((ones(X), self._waves(X)))

    def draws(self, weights: Array) -> FunctionDraws:
        """Functions with these weights (m, c, s)."""
        level = linear_draws(ones, weights[:1])
        if not len(self.frequencies):
            return level
        return level + linear_draws(self._waves, weights[1:])


# ---- A Markov process given data, and a few functions: an exact latent function ------


# Floats that a prediction holds for each row, quadrature nodes included.
_PER_ROW = 150


@dataclass(frozen=True)
class MarkovModel:
    """Law of ``f(x) = m(x) + scale (Φ(x)ᵀw + g(x))`` given noisy values at knots.

    g is a Matérn process of one input, and all of it is kept: the law is exact. Has the
    same methods as a :class:`LatentModel`, and one output.

    Parameters
    ----------
    prior : MaternProcess
        Of g.
    knots, precision, values : ndarray of shape (n,)
        Increasing inputs, inverse variances of the noise, and values; whitened.
    functions : Cycles or None
        Φ; None for no functions.
    mean : Mean, default=None
        m; None is zero.
    scale : float, default=1.0
        Unit of the output.
    """

    prior: MaternProcess
    knots: Array
    precision: Array
    values: Array
    functions: Cycles | None
    mean: Mean | None = None
    scale: float = 1.0

    @property
    def n_outputs(self) -> int:
        """Number of latent outputs: one."""
        return 1

    @property
    def n_basis(self) -> int:
        """Number of variables: the states at the knots, and the weights."""
        return len(self.knots) * self.prior.n_states + self._posterior.weights.size

    @property
    def floats_per_row(self) -> int:
        """Largest number of floats in memory for the prediction of one row."""
        return _PER_ROW + 4 * (1 + self._posterior.weights.size)

    @cached_property
    def _posterior(self) -> MarkovPosterior:
        features = self._features(self.knots[:, np.newaxis])
        rows = MarkovRows(self.knots, self.precision, self.values, features)
        return markov_posterior(self.prior, rows)

    def __getstate__(self) -> dict[str, Any]:
        # without the passes over the knots, which can be made again
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def _features(self, X: Array) -> Array:
        return np.empty((len(X), 0)) if self.functions is None else self.functions(X)

    def marginals(self, X: Array) -> LatentMixture:
        """Law of f at each row of X (n, 1): one normal component."""
        mean, variance = self._posterior.at(X[:, 0], self._features(X))
        mean, variance = self.scale * mean, self.scale**2 * variance
        if self.mean is not None:
            mean = mean + self.mean(X)[:, 0]
        shape = (len(X), 1, 1)
        return LatentMixture(mean.reshape(shape), variance.reshape(shape), np.ones(1))

    def covariance(self, X: Array, _: int = 0) -> Array:
        """Covariance of f, the one output, between the rows of X, (n, n)."""
        return self.scale**2 * self._posterior.joint(X[:, 0], self._features(X))

    def draw(self, size: int, rng: np.random.Generator, **_: Any) -> FunctionDraws:
        """Independent draws of f, as functions that remember where they were called.

        Parameters
        ----------
        size : int
        rng : numpy.random.Generator
        **_
            How a residual is drawn in other models; here draws are exact.

        Notes
        -----
        O(n p s) memory for n knots, p derivatives and s draws.
        """
        weights_rng, states_rng, later = rng.spawn(3)
        law = self._posterior
        noise = weights_rng.standard_normal((len(law.weights), size))
        weights = law.weights[:, np.newaxis] + law.root @ noise
        states = law.draw_states(weights, states_rng)
        memory = StateMemory(self.prior, self.knots, states, later)
        draws = FunctionDraws((RememberedTerm(memory, np.arange(size)),), 1, size)
        if self.functions is not None:
            draws = draws + self.functions.draws(weights[:, np.newaxis])
        draws = draws.affine(0.0, self.scale)
        if self.mean is not None:
            draws = self.mean.added_to(draws)
        return draws.with_process(self.process())

    def process(self) -> KernelProcess:
        """Law of ``f - m`` given the data, as a process that can be conditioned."""
        kernel = PosteriorCovariance(replace(self, mean=None, scale=1.0))
        process = KernelProcess.prior(kernel, 1, 1)
        return process.scaled(np.array([self.scale]))

    def log_density(self, X: Array, y: Array, noise_variance: Array) -> float:
        """Log density of joint noisy observations y (p, 1) of f at X (p, 1).

        O(p^3); `noise_variance` (p,) is in the squared unit of the output.
        """
        return joint_log_density(self, X, y, noise_variance)

    def condition(self, X: Array, y: Array, noise_variance: Array) -> MarkovModel:
        """Law of f given noisy values y (p, 1) at X (p, 1) as well.

        `noise_variance` (p,) is in the squared unit of the output, and at least the
        nugget of the prior variance. The values become knots: O(n + p).
        """
        level = 0.0 if self.mean is None else self.mean(X)[:, 0]
        values = (y[:, 0] - level) / self.scale
        noise = np.asarray(noise_variance) / self.scale**2
        precision = 1.0 / np.maximum(noise, NUGGET * self.prior.amplitude)
        knots = np.concatenate((self.knots, X[:, 0]))
        precision = np.concatenate((self.precision, precision))
        values = np.concatenate((self.values, values))
        # equal inputs are one knot
        knots, at = np.unique(knots, return_inverse=True)
        total = np.bincount(at, precision).astype(np.float64, copy=False)
        values = np.bincount(at, precision * values) / total
        return replace(self, knots=knots, precision=total, values=values)

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> MarkovModel:
        """Law of ``shift + scale * f``, for numbers or arrays (1,)."""
        factor = float(np.reshape(scale, ()))
        mean = Mean.of(0.0, 1) if self.mean is None else self.mean
        moved = replace(
            self, mean=mean.affine(shift, factor), scale=factor * self.scale
        )
        # the passes over the knots do not depend on units
        if "_posterior" in self.__dict__:
            moved.__dict__["_posterior"] = self._posterior
        return moved


@dataclass(frozen=True)
class PosteriorCovariance:
    """Covariance of a model as a kernel: what can be conditioned once more.

    Parameters
    ----------
    model : MarkovModel
    """

    model: MarkovModel

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """Covariance between the rows of X and of Y (of X if None)."""
        if Y is None:
            return self.model.covariance(X)
        joint = self.model.covariance(np.concatenate((X, Y)))
        return joint[: len(X), len(X) :].copy()

    def diag(self, X: Array) -> Array:
        """Variance at the rows of X."""
        return self.model.marginals(X).moments()[1][:, 0]
