"""A weighted mixture of latent models, each with a basis of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from skgpx._draws import FunctionDraws, MixtureProcess, Process, side_by_side
from skgpx._latent._model import LatentModel, Mean
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.weights import WeightParticles
from skgpx._types import Array, ArrayLike, Generator, Index


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
        means = []
        for model in self.models:
            mean, _ = model.marginals(X).moments()
            means.append(mean[:, output])
        if self.mean is not None and self.mean.n_models > 1:
            means = list(self._mean_of_models(X)[:, output].T + np.stack(means))
        centre = self.weights @ np.stack(means)
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
        models = []
        for k, model in enumerate(self.models):
            models.append(model.condition(X, targets[:, :, k], noise[k]))
        log_weights = self.log_weights + self._log_densities(X, targets, noise)
        return MixtureModel(tuple(models), log_weights, self.mean)

    def _noise(self, X: Array, noise_variance: Array) -> Array:
        """Noise variances of the rows of X under each model, (k, p)."""
        return np.broadcast_to(noise_variance, (len(self.models), len(X)))

    def _log_densities(self, X: Array, targets: Array, noise: Array) -> Array:
        """Log density of joint observations ``y - m`` (p, c, k) under each model."""
        log_densities = []
        for k, model in enumerate(self.models):
            log_densities.append(model.log_density(X, targets[:, :, k], noise[k]))
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
