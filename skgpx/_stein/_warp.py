"""Inputs through a network that is learned with the frequencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.perceptron import Perceptron
from skgpx.bases import InputMap

Array = NDArray[np.float64]


class NetworkWarp(NamedTuple):
    """A residual network in front of the waves: ``h(x) = x - c + ℓ g((x - c) / s)``.

    The last layer of g starts at zero: learning begins at the stationary model.

    Attributes
    ----------
    network : Perceptron
        g, with as many outputs as inputs.
    parameters : ndarray
        Of g; learning moves them in place.
    centre, std : ndarray of shape (d,)
        c and s, mean and standard deviation of the inputs.
    unit : ndarray of shape (d,)
        ℓ, the lengthscales of the waves.
    """

    network: Perceptron
    parameters: Array
    centre: Array
    std: Array
    unit: Array

    @classmethod
    def start(
        cls,
        hidden: tuple[int, ...],
        X: Array,
        weights: Array,
        unit: Array,
        rng: np.random.Generator,
    ) -> NetworkWarp:
        """Network of random weights, but for the last layer, for rows X (n, d)."""
        d = X.shape[1]
        network = Perceptron((d, *hidden, d), "tanh")
        parameters = network.start(rng)
        network.layers(parameters)[-1][0][:] = 0.0
        centre = np.average(X, axis=0, weights=weights)
        std = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
        std = np.where(std > 0.0, std, 1.0)
        return cls(network, parameters, centre, std, unit)

    def copied(self) -> NetworkWarp:
        """Return the same map, with parameters of its own."""
        return self._replace(parameters=self.parameters.copy())

    def __call__(self, X: Array) -> Array:
        """Mapped rows (n, d)."""
        shifted = X - self.centre
        residual = self.network(self.parameters, shifted / self.std)
        mapped: Array = shifted + self.unit * residual
        return mapped

    def with_parameter_pullback(
        self, X: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Mapped rows, and a function from derivatives in these to the parameters'."""
        shifted = X - self.centre
        residual, pullback = self.network.with_pullback(
            self.parameters, shifted / self.std
        )
        return (
            shifted + self.unit * residual,
            lambda G: pullback(G * self.unit).parameters,
        )

    def with_pullback(self, X: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Mapped rows, and a function from derivatives in these to the rows'."""
        shifted = X - self.centre
        residual, pullback = self.network.with_pullback(
            self.parameters, shifted / self.std
        )
        return (
            shifted + self.unit * residual,
            lambda G: G + pullback(G * self.unit).inputs / self.std,
        )

    def prior_slope(self) -> Array:
        """Slope of the log prior.

        Weights are ``N(0, 1 / inputs of their layer)``, biases N(0, 1).
        """
        slope = np.empty_like(self.parameters)
        layers = zip(
            self.network.layers(self.parameters),
            self.network.layers(slope),
            strict=True,
        )
        for (weights, biases), (by_weight, by_bias) in layers:
            by_weight[:] = -len(weights) * weights
            by_bias[:] = -biases
        return slope

    def input_map(self) -> InputMap:
        """The map, as a basis takes it."""
        return InputMap(
            self, len(self.centre), floats_per_row=2 * sum(self.network.sizes)
        )
