"""Independent functions, each with a kernel and a model of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skgpx._draws import FunctionDraws, with_outputs_of
from skgpx._latent._model import FunctionModel
from skgpx._latent._neighbors import NeighborModel
from skgpx._latent._series import SeriesModel
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.weights import GaussianWeights
from skgpx._types import Array, ArrayLike, Generator


@dataclass(frozen=True)
class SeparateFunctions(FunctionModel):
    """Distribution of independent functions: a location, and the scale around it.

    What belongs to one function only (basis, mean and scale) is that of the first one.

    Parameters
    ----------
    models : tuple of c NeighborModel or SeriesModel
        One model for each output.
    """

    models: tuple[NeighborModel | SeriesModel, ...]

    @property
    def basis(self) -> Any:  # type: ignore[override]
        """Basis of the first function."""
        return self.models[0].basis

    @property
    def weights(self) -> GaussianWeights:  # type: ignore[override]
        """Posterior of the weights of all functions; zeros where one has fewer."""
        weights = [model.weights for model in self.models]
        size = max(of_model.shape[0] for of_model in weights)
        mean = np.zeros((size, self.n_outputs))
        root = np.zeros((self.n_outputs, size, size))
        for output, of_model in enumerate(weights):
            m, rank = of_model.root.shape[1:]
            mean[:m, output] = of_model.mean[:, 0]
            root[output, :m, :rank] = of_model.root[0]
        return GaussianWeights(mean, root)

    @property
    def scale(self) -> Array:  # type: ignore[override]
        """Units of the outputs."""
        return np.concatenate([model._scales for model in self.models])

    @property
    def n_outputs(self) -> int:
        """Number of functions."""
        return len(self.models)

    @property
    def n_neighbors(self) -> int:
        """Number of nearest rows that complete the basis of each function."""
        return self.models[0].n_neighbors

    @property
    def n_basis(self) -> int:
        """Number of functions that the first one is made of."""
        return self.models[0].n_basis

    @property
    def floats_of_features(self) -> int:
        return max(model.floats_of_features for model in self.models)

    @property
    def floats_of_components(self) -> int:
        """Numbers in memory for the distribution of f at one row."""
        return sum(model.floats_of_components for model in self.models)

    def marginals(self, X: Array) -> LatentMixture:
        """Distribution of f at each row of X (n, d)."""
        parts = [model.marginals(X) for model in self.models]
        return LatentMixture(
            mean=np.concatenate([part.mean for part in parts], axis=1),
            variance=np.concatenate([part.variance for part in parts], axis=1),
            weights=parts[0].weights,
        )

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output of f between the rows of X, (n, n)."""
        return self.models[output].covariance(X)

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """Of the first function."""
        return self.models[0].features_and_residual(X)

    def draw(self, size: int, rng: Generator, **prior: Any) -> FunctionDraws:
        """Independent draws of f, as functions; see :meth:`FunctionModel.draw`."""
        streams = rng.spawn(len(self.models))
        return with_outputs_of(
            [
                model.draw(size, stream, **prior)
                for model, stream in zip(self.models, streams, strict=True)
            ]
        )

    def process(self) -> None:
        """Return None: functions of different kernels are not one process."""

    def condition(self, X: Array, y: Array, noise_variance: Array) -> SeparateFunctions:
        """Distribution of f given noisy values y (p, c) at X (p, d)."""
        models = [
            model.condition(X, y[:, [output]], noise_variance)
            for output, model in enumerate(self.models)
        ]
        return replace(self, models=tuple(models))

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> SeparateFunctions:
        """Distribution of ``shift + scale * f``; numbers, or one each output (c,)."""
        shifts = np.broadcast_to(shift, (self.n_outputs,))
        scales = np.broadcast_to(scale, (self.n_outputs,))
        models = [
            model.affine(shifts[output], scales[output])
            for output, model in enumerate(self.models)
        ]
        return replace(self, models=tuple(models))
