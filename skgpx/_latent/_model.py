"""One basis, a posterior of its weights, one mean: a fitted latent function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from skgpx._draws import (
    FunctionDraws,
    InputMap,
    MixtureProcess,
    Process,
    WithoutCaches,
    central_differences,
    linear_draws,
    side_by_side,
)
from skgpx._numerics.linalg import (
    NUGGET,
    cholesky,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import equal_rows
from skgpx._numerics.weights import GaussianWeights, WeightDistribution, WeightParticles
from skgpx._types import Array, ArrayLike, Generator, Index, Kernel
from skgpx.bases import Basis


@dataclass(frozen=True)
class Mean:
    """``m(x) = shift + scale * function(x)``, for c outputs.

    In a mixture of k models it may have k values for each output, one for each model.

    Parameters
    ----------
    shift : ndarray of shape (c,)
    scale : ndarray of shape (c,)
    function : callable, default=None
        Maps (n, d) to (n,), the same for all outputs, or (n, c); None is zero.
        Should be picklable.
    n_models : int, default=1
        k; with more than one the function maps (n, d) to (n, c, k).
    """

    shift: Array
    scale: Array
    function: Callable[[Array], Any] | None = None
    n_models: int = 1

    @classmethod
    def of(cls, value: float | Callable[[Array], Any], n_outputs: int) -> Mean:
        """Mean that is a number or a callable."""
        zeros = np.zeros(n_outputs)
        ones = np.ones(n_outputs)
        if callable(value):
            return cls(zeros, ones, value)
        return cls(zeros + value, ones)

    @property
    def n_outputs(self) -> int:
        """Number of outputs c."""
        return len(self.shift)

    def __call__(self, X: Array) -> Array:
        """Mean at the rows of X (n, d), shape (n, c) or (n, c, k)."""
        if self.function is None:
            return np.broadcast_to(self.shift, (len(X), self.n_outputs))
        values = np.asarray(self.function(X), dtype=np.float64)
        if self.n_models > 1:
            return self.shift[:, np.newaxis] + self.scale[:, np.newaxis] * values
        if values.ndim == 1:
            values = values[:, np.newaxis]
        if values.shape not in ((len(X), 1), (len(X), self.n_outputs)):
            raise ValueError(
                f"The prior mean must map ({len(X)}, {X.shape[1]}) inputs to an array "
                f"of shape ({len(X)},) or ({len(X)}, {self.n_outputs}); got shape "
                f"{values.shape}."
            )
        return self.shift + self.scale * values

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> Mean:
        """Mean of ``shift + scale * f``; numbers, or one for each output (c,)."""
        factor = np.asarray(scale, dtype=np.float64)
        level = np.asarray(shift, dtype=np.float64) + factor * self.shift
        return replace(self, shift=level, scale=factor * self.scale)

    def added_to(self, draws: FunctionDraws) -> FunctionDraws:
        """Draws plus the mean, each that of its own model."""
        if self.function is None:
            return draws.affine(self.shift, 1.0)
        c = self.n_outputs
        k = self.n_models
        owner = np.zeros(draws.n_draws, dtype=np.intp)
        if k > 1 and draws.owner is not None:
            owner = draws.owner
        # output o of a draw of model j has the weight e_oj
        unit_weights = np.zeros((c, k, c, draws.n_draws))
        outputs = np.arange(c)[:, np.newaxis]
        unit_weights[outputs, owner, outputs, np.arange(draws.n_draws)] = 1.0
        flat_weights = unit_weights.reshape(c * k, c, -1)
        total = draws + linear_draws(_ValuesOfMean(self), flat_weights)
        return total.with_process(draws.process)


@dataclass(frozen=True)
class _ValuesOfMean:
    """Values of a mean as a feature map, (n, c k)."""

    mean: Mean

    def __call__(self, X: Array) -> Array:
        """Values at the rows of X (n, d)."""
        return self.mean(X).reshape(len(X), -1)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of ``m(x)ᵀ weights[index[i]]`` at row i.

        Gradients are central differences: the function is a black box, which sees a row
        of several draws once.
        """
        rows, position = equal_rows(X)
        chosen = weights[index]
        values = np.sum(self(rows)[position] * chosen, axis=1)
        codes = getattr(self.mean.function, "category_columns", ())
        slopes = central_differences(self, rows, codes)[position]
        return values, np.einsum("pcd,pc->pd", slopes, chosen)


class FunctionModel(WithoutCaches):
    """What the models of ``f(x) = m(x) + scale h(x)`` share, h of the weights w.

    Subclasses are immutable dataclasses with the attributes below, and describe h.

    Attributes
    ----------
    basis : Basis
        Φ, and the residual g.
    weights : GaussianWeights or WeightParticles
        Posterior of w; a priori ``w ~ N(0, I)``.
    mean : Mean or None
        m; None is zero.
    scale : float or ndarray of shape (c,)
        Units of the outputs.
    """

    basis: Basis
    weights: WeightDistribution
    mean: Mean | None
    scale: float | Array

    @property
    def n_outputs(self) -> int:
        """Number of latent outputs c."""
        return self.weights.shape[1]

    @property
    def _scales(self) -> Array:
        return np.broadcast_to(self.scale, (self.n_outputs,))

    @property
    def floats_per_row(self) -> int:
        """Largest number of floats in memory for the prediction of one row."""
        return self.floats_of_features + self.floats_of_components

    @property
    def floats_of_components(self) -> int:
        """Numbers in memory for the distribution of f at one row."""
        _, c, s = self.weights.shape
        # floats that a prediction holds for each mixture component of a row,
        # quadrature nodes included
        return 120 * c * s

    # ---- What a model says of h --------------------------------------------------

    @property
    def floats_of_features(self) -> int:
        """Numbers in memory for the features of one row."""
        raise NotImplementedError

    @property
    def n_basis(self) -> int:
        """Number of functions."""
        raise NotImplementedError

    @property
    def n_neighbors(self) -> int:
        """Number of nearest rows that complete the basis; 0 for none."""
        return 0

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """Functions at the rows of X (n, m), and the variance that they leave (n,)."""
        raise NotImplementedError

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean (n, c, s) of h, and a variance that broadcasts to it."""
        raise NotImplementedError

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        """Covariance of one output of h, (n, n)."""
        raise NotImplementedError

    def _whitened_draws(
        self,
        size: int,
        rng: Generator,
        weights_rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Draws of h, with separate random numbers for the weights."""
        raise NotImplementedError

    def process(self) -> Process | None:
        """``f - m`` as a process that can be conditioned; None where there is none."""
        raise NotImplementedError

    # ---- What follows for f ------------------------------------------------------

    def marginals(self, X: Array) -> LatentMixture:
        """Distribution of f at each row of X (n, d): a component for each particle."""
        mean, variance = self._whitened_moments(X)
        factor = np.reshape(self.scale, (-1, 1))
        mean = factor * mean
        variance = factor**2 * variance
        if self.mean is not None:
            mean += self.mean(X)[:, :, np.newaxis]
        s = mean.shape[2]
        return LatentMixture(mean, variance, np.full(s, 1.0 / s))

    def mean_at(self, X: Array) -> Array:
        """``m(x)`` at the rows of X, (n, c)."""
        if self.mean is None:
            return np.zeros((len(X), self.n_outputs))
        return self.mean(X)

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output of f between the rows of X, (n, n)."""
        return self._scales[output] ** 2 * self._whitened_covariance(X, output)

    def draw(self, size: int, rng: Generator, **prior: Any) -> FunctionDraws:
        """Independent draws of f, as functions.

        Parameters
        ----------
        size : int
        rng : numpy.random.Generator
        **prior
            How the residual is drawn, for bases of kernel sections: options of
            :func:`skgpx.bases.draw_prior`.
        """
        prior_rng, weights_rng = rng.spawn(2)
        draws = self._whitened_draws(size, prior_rng, weights_rng, **prior)
        draws = draws.affine(0.0, self.scale).with_process(self.process())
        if self.mean is None:
            return draws
        return self.mean.added_to(draws)

    def log_density(self, X: Array, y: Array, noise_variance: Array) -> float:
        """Log density of joint noisy observations y (p, c) of f at X (p, d).

        For normal weights; O(p^3) for each output. `noise_variance` (p,) is in the
        squared units of the outputs.
        """
        mean, _ = self.marginals(X).moments()
        total = 0.0
        for output in range(self.n_outputs):
            covariance = self.covariance(X, output)
            covariance[np.diag_indices(len(X))] += noise_variance
            # log N(y | mean, L Lᵀ) = -½ |L⁻¹ (y - mean)|² - log det L + constant
            L = cholesky(covariance).L
            white = solve_lower(L, y[:, output] - mean[:, output])
            total -= 0.5 * (float(white @ white) + log_determinant(L))
        return total - 0.5 * y.size * math.log(2.0 * math.pi)

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> Self:
        """Distribution of ``shift + scale * f``; numbers, or one each output (c,)."""
        factor = np.asarray(scale, dtype=np.float64)
        mean = self.mean or Mean.of(0.0, self.n_outputs)
        changes = {"mean": mean.affine(shift, factor), "scale": factor * self.scale}
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class GivenPoints(Process):
    """Process of the draws of a model, given further values at points.

    ::

        cov(f(x), f(y)) = scale² (C(x, y) - C(x, P) (C(P, P) + N)⁻¹ C(P, y))

    where C is the covariance of the draws, which a subclass has.

    Attributes
    ----------
    scale : ndarray of shape (c,)
        Units of the outputs.
    points : ndarray of shape (p, d)
        ``P``.
    noise : ndarray of shape (c, p)
        Diagonal of ``N``, for each output in its own unit.
    maps : tuple of InputMap, default=()
        Maps of the inputs; the points are mapped rows.
    """

    scale: Array
    points: Array
    noise: Array
    maps: tuple[InputMap, ...] = ()

    @property
    def _kernel(self) -> Kernel:
        raise NotImplementedError

    def _given_data(self, X: Array, output: int) -> Array:
        """``C`` of one output between the rows of X."""
        raise NotImplementedError

    def _groups(self) -> list[Index]:
        """Outputs of the same ``C`` and ``N``."""
        return [np.array([output]) for output in range(len(self.scale))]

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        X = self.mapped(X)
        n = len(X)
        C = self._given_data(np.concatenate((X, self.points)), output)
        between = C[n:, :n]
        L = cholesky(C[n:, n:], added=self.noise[output]).L
        explained = solve_lower(L, between)
        variance = self.scale[output] ** 2
        return variance * (C[:n, :n] - explained.T @ explained)

    def learn(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
        white: float = 0.0,
    ) -> tuple[Array, Self]:
        """Condition on values at X; see :meth:`Process.learn`.

        The variables are ``α`` in the change ``C(·, P) α`` of draws, where P has the
        points of earlier observations, with which the draws agree, before those of X.

        Notes
        -----
        O(p^3 + p N (p N + M)) time for p points in total with N neighbours, for each
        group of outputs with the same noise.
        """
        X = self.mapped(X)
        nugget = NUGGET * self._kernel.diag(X)
        noise = noise_variance / self.scale[:, np.newaxis] ** 2 + white + nugget
        process = replace(
            self,
            points=np.concatenate((self.points, X)),
            noise=np.concatenate((self.noise, noise), axis=1),
        )
        _, c, s = discrepancy.shape
        errors = np.zeros((len(process.points), c, s))
        errors[len(self.points) :] = discrepancy
        change = np.empty_like(errors)
        for outputs in process._groups():
            # (C(P, P) + N)⁻¹ (y - f(P) - ε)
            C = process._given_data(process.points, outputs[0])
            L = cholesky(C, added=process.noise[outputs[0]]).L
            flat = errors[:, outputs].reshape(len(errors), -1)
            alpha = solve_lower_transpose(L, solve_lower(L, flat))
            change[:, outputs] = alpha.reshape(len(errors), len(outputs), s)
        return change, process


@dataclass(frozen=True)
class LatentModel(FunctionModel):
    """Distribution of ``f(x) = m(x) + scale (Φ(x)ᵀw + g(x))``.

    Immutable; every operation returns another model.

    Parameters
    ----------
    basis : Nystroem, EmpiricalSpectral, Fourier or FourierSeries
        Φ and the residual g.
    weights : GaussianWeights or WeightParticles
        Distribution of w; a priori ``w ~ N(0, I)``.
    mean : Mean, default=None
        m; None is zero.
    scale : float or ndarray of shape (c,), default=1.0
        Units of the outputs.
    """

    basis: Basis
    weights: WeightDistribution
    mean: Mean | None = None
    scale: float | Array = 1.0

    @property
    def n_basis(self) -> int:
        """Number of basis functions m."""
        return self.basis.n_basis

    @property
    def floats_of_features(self) -> int:
        return self.basis.floats_per_row

    @cached_property
    def _whitened_marginals(self) -> Callable[[Array], tuple[Array, Array]]:
        return self.basis.marginals(self.weights)

    def _whitened_moments(self, X: Array) -> tuple[Array, Array]:
        return self._whitened_marginals(X)

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """``Φ`` at the rows of X (n, m), and the variance of g there (n,)."""
        features = self.basis(X)
        return features, self.basis.residual_variance(X, features)

    def _whitened_covariance(self, X: Array, output: int) -> Array:
        features = self.basis(X)
        residual = self.basis.residual_covariance(X, features)
        return self.weights.covariance(features, output) + residual

    def _whitened_draws(
        self,
        size: int,
        rng: Generator,
        weights_rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        return self.basis.draw(self.weights.draw(size, weights_rng), rng, **prior)

    def process(self) -> Process | None:
        """``f - m`` as a process that can be conditioned; None where there is none."""
        if not isinstance(self.weights, GaussianWeights):
            return None
        return self.basis.process(self.weights).scaled(self._scales)

    def condition(self, X: Array, y: Array, noise_variance: Array) -> LatentModel:
        """Distribution of f given noisy values y (p, c) at X (p, d).

        For normal weights; see :meth:`MixtureModel.of_particles` for particles.
        `noise_variance` (p,) is in the squared units of the outputs.

        Notes
        -----
        O(m^2 p + p^3). A basis of kernel sections grows: the observed values become
        inducing variables. A finite basis has all its functions, also those of its
        residual, in the result.
        """
        if not isinstance(self.weights, GaussianWeights):
            raise ValueError(
                "A model with particles cannot be conditioned: its weights are not "
                "one Gaussian process. Use MixtureModel.of_particles(model)."
            )
        mean, _ = self.marginals(X).moments()
        process = self.basis.process_at(self.weights, X).scaled(self._scales)
        # the white part of the residual acts as noise of the observations
        learned, posterior = process.learn(
            X,
            (y - mean)[:, :, np.newaxis],
            noise_variance,
            self.basis.white_variance,
        )
        # the weights of this basis move from their present mean, new ones from zero
        moved = learned[:, :, 0] / self._scales
        present, _ = self.weights.moments()
        moved[: len(present)] += present
        weights = GaussianWeights(moved, posterior.spread)
        return replace(self, basis=self.basis.grown(posterior), weights=weights)


# ---- A weighted mixture of latent models, each with a basis of its own ---------------


@dataclass(frozen=True)
class MixtureModel:
    """Distribution of f: ``m`` plus ``models[k]`` with probability ``weights[k]``.

    Has the same methods as a :class:`LatentModel`.

    Parameters
    ----------
    models : tuple of LatentModel
        With the same number of outputs.
    log_weights : ndarray of shape (k,)
        Logarithms of the weights, up to a common constant.
    mean : Mean, default=None
        m, the same for all models or with values for each, which are evaluated
        together; None is zero.
    """

    models: tuple[LatentModel, ...]
    log_weights: Array
    mean: Mean | None = None

    @classmethod
    def of_particles(cls, model: LatentModel) -> MixtureModel:
        """Write a model with particles as a mixture of as many Gaussian processes."""
        if not isinstance(model.weights, WeightParticles):
            return cls((model,), np.zeros(1))
        models = tuple(
            replace(model, weights=weights) for weights in model.weights.points()
        )
        return cls(models, np.zeros(len(models)))

    @property
    def weights(self) -> Array:
        """Probabilities of the models, shape (k,)."""
        weights: Array = np.exp(self.log_weights - logsumexp(self.log_weights))
        return weights / weights.sum()

    @property
    def n_outputs(self) -> int:
        """Number of latent outputs c."""
        return self.models[0].n_outputs

    @property
    def floats_per_row(self) -> int:
        """Largest number of floats in memory for the prediction of one row."""
        # the features of one model at a time, and the components of all
        features = max(model.floats_of_features for model in self.models)
        components = sum(model.floats_of_components for model in self.models)
        return features + components

    def marginals(self, X: Array) -> LatentMixture:
        """Distribution of f at each row of X (n, d): the components of all models."""
        parts = [model.marginals(X) for model in self.models]
        mixture = LatentMixture.joined(parts, self.weights)
        if self.mean is None:
            return mixture
        shift = self._mean_of_models(X)[:, :, mixture.owner]
        return mixture._replace(mean=mixture.mean + shift)

    def _mean_of_models(self, X: Array) -> Array:
        """``m`` at the rows of X for each model, (n, c, k)."""
        shape = (len(X), self.n_outputs, len(self.models))
        if self.mean is None:
            return np.broadcast_to(0.0, shape)
        return np.broadcast_to(self.mean(X).reshape(*shape[:2], -1), shape)

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output of f between the rows of X, (n, n).

        ``Σ π (C + μμᵀ) - (Σ π μ)(Σ π μ)ᵀ``, computed around the overall mean.
        """
        moments = [model.marginals(X).moments() for model in self.models]
        means = np.stack([mean[:, output] for mean, _ in moments])
        if self.mean is not None and self.mean.n_models > 1:
            means += self._mean_of_models(X)[:, output].T
        centre = self.weights @ means
        total = np.zeros((len(X), len(X)))
        for weight, model, mean in zip(self.weights, self.models, means, strict=True):
            offset = mean - centre
            square = np.outer(offset, offset)
            total += weight * (model.covariance(X, output) + square)
        return total

    def draw(self, size: int, rng: Generator, **prior: Any) -> FunctionDraws:
        """Independent draws of f, as functions; see :meth:`LatentModel.draw`.

        Each draw is conditioned under the process of its own model.
        """
        choice_rng, draw_rng = rng.spawn(2)
        owner = choice_rng.choice(len(self.models), size, p=self.weights)
        chosen = np.unique(owner) if size > 0 else np.zeros(1, np.intp)
        # every model has a random stream of its own, chosen or not
        streams = draw_rng.spawn(len(self.models))
        sets = []
        for k in chosen:
            n_draws = int(np.sum(owner == k))
            sets.append(self.models[k].draw(n_draws, streams[k], **prior))
        # sets follow one another: back to the order of the choices
        rank = np.argsort(np.argsort(owner, kind="stable"))
        draws = side_by_side(sets, rank).with_owner(owner)
        if len(self.models) > 1:
            draws = draws.with_process(_process_of(sets, chosen, owner))
        if self.mean is None:
            return draws
        return self.mean.added_to(draws)

    def process(self) -> None:
        """Return None: a mixture of Gaussian processes is not one."""

    def log_density(self, X: Array, y: Array, noise_variance: Array) -> float:
        """Log density of joint observations; see :meth:`LatentModel.log_density`.

        `noise_variance` is (p,), or (k, p) for a noise of each model.
        """
        targets = y[:, :, np.newaxis] - self._mean_of_models(X)
        log_densities = self._log_densities(X, targets, self._noise(X, noise_variance))
        return float(logsumexp(log_densities, b=self.weights))

    def condition(self, X: Array, y: Array, noise_variance: Array) -> MixtureModel:
        """Distribution of f given noisy values y (p, c) at X (p, d), again a mixture.

        Each model is conditioned, and its weight is multiplied by the density of the
        observations under it. `noise_variance` is (p,), or (k, p) for a noise of each
        model.
        """
        noise = self._noise(X, noise_variance)
        targets = y[:, :, np.newaxis] - self._mean_of_models(X)
        models = [
            model.condition(X, targets[:, :, k], noise[k])
            for k, model in enumerate(self.models)
        ]
        log_weights = self.log_weights + self._log_densities(X, targets, noise)
        return MixtureModel(tuple(models), log_weights, self.mean)

    def _noise(self, X: Array, noise_variance: Array) -> Array:
        """Noise variances of the rows of X under each model, (k, p)."""
        return np.broadcast_to(noise_variance, (len(self.models), len(X)))

    def _log_densities(self, X: Array, targets: Array, noise: Array) -> Array:
        """Log density of joint observations ``y - m`` (p, c, k) under each model."""
        log_densities = [
            model.log_density(X, targets[:, :, k], noise[k])
            for k, model in enumerate(self.models)
        ]
        return np.array(log_densities)

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> MixtureModel:
        """Distribution of ``shift + scale * f``; numbers, or one each output (c,)."""
        mean = self.mean
        if mean is not None:
            mean = mean.affine(shift, scale)
            shift = 0.0
        models = tuple(model.affine(shift, scale) for model in self.models)
        return MixtureModel(models, self.log_weights, mean)


def _process_of(
    sets: Sequence[FunctionDraws],
    chosen: Index,
    owner: Index,
) -> MixtureProcess | None:
    """Processes of the sets of draws of the chosen models; None if one has none."""
    processes = {}
    for k, draws in zip(chosen.tolist(), sets, strict=True):
        if not isinstance(draws.process, Process):
            return None
        processes[k] = draws.process
    return MixtureProcess(processes, owner)
