"""Multilayer perceptrons with tanh: values and gradients.

The caller chooses the loss and the steps. Parameters are a flat vector, as `adam_step`
and optimisers expect, or several vectors: leading axes are networks side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skgpx._types import Array, Generator


class Perceptron(NamedTuple):
    """Sizes of the layers of a network; the parameters are a vector of their own.

    Attributes
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, of outputs. The last layer is
        linear.

    Notes
    -----
    The parameters come layer by layer: weights (inputs, outputs) by rows, then biases.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx._numerics.perceptron import Perceptron
    >>> network = Perceptron((3, 16, 2))
    >>> theta = network.start(np.random.default_rng(0))
    >>> X = np.random.default_rng(1).normal(size=(5, 3))
    >>> outputs, pullback = network.with_pullback(theta, X)
    >>> slopes, inputs = pullback(outputs)  # of half the sum of squares of the outputs
    >>> outputs.shape, slopes.shape, inputs.shape
    ((5, 2), (98,), (5, 3))
    """

    sizes: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """Length p of the vector of parameters."""
        return sum((n + 1) * m for n, m in pairwise(self.sizes))

    def layers(self, parameters: Array) -> list[tuple[Array, Array]]:
        """Weights (..., inputs, outputs) and biases (..., outputs), as views."""
        networks = parameters.shape[:-1]
        layers = []
        start = 0
        for n, m in pairwise(self.sizes):
            middle = start + n * m
            stop = middle + m
            weights = parameters[..., start:middle]
            biases = parameters[..., middle:stop]
            layers.append((weights.reshape(*networks, n, m), biases))
            start = stop
        return layers

    def start(self, rng: Generator) -> Array:
        """Draw parameters: biases zero, weights such that signals keep their size.

        Uniform with variance ``2 / (inputs + outputs)`` (Glorot and Bengio,
        "Understanding the difficulty of training deep feedforward neural networks",
        AISTATS 2010, eq. 16).
        """
        parameters = np.zeros(self.n_parameters)
        for weights, _ in self.layers(parameters):
            n_inputs, n_outputs = weights.shape
            limit = np.sqrt(6.0 / (n_inputs + n_outputs))
            weights[:] = rng.uniform(-limit, limit, weights.shape)
        return parameters

    def __call__(self, parameters: Array, X: Array) -> Array:
        """Outputs (..., n, outputs) at rows X (..., n, inputs)."""
        return self._signals(parameters, X)[-1]

    def with_pullback(
        self,
        parameters: Array,
        X: Array,
    ) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Outputs, and a function that propagates gradients back.

        In the precision of the arguments, single or double.

        Parameters
        ----------
        parameters : ndarray of shape (..., p)
        X : ndarray of shape (..., n, inputs)

        Returns
        -------
        outputs : ndarray of shape (..., n, outputs)
        pullback : callable
            Maps ``dL / d outputs`` to the gradients of L in the parameters (..., p) and
            in X (..., n, inputs), at twice the cost of the outputs. It holds the
            signals of all layers.
        """
        signals = self._signals(parameters, X)
        layers = self.layers(parameters)

        def pullback(gradient: Array) -> tuple[Array, Array]:
            slopes = np.empty_like(parameters)
            layer_slopes = self.layers(slopes)
            for i in reversed(range(len(layers))):
                weights, _ = layers[i]
                weight_slopes, bias_slopes = layer_slopes[i]
                inputs = signals[i]
                np.matmul(inputs.swapaxes(-1, -2), gradient, out=weight_slopes)
                np.sum(gradient, axis=-2, out=bias_slopes)
                gradient = gradient @ weights.swapaxes(-1, -2)
                # tanh' = 1 - tanh²
                if i:
                    gradient *= 1.0 - inputs**2
            return slopes, gradient

        return signals[-1], pullback

    def _signals(self, parameters: Array, X: Array) -> list[Array]:
        """Inputs of each layer, and the outputs of the last."""
        layers = self.layers(parameters)
        last_layer = len(layers) - 1
        signals = [X]
        for i, (weights, biases) in enumerate(layers):
            signal = signals[-1] @ weights
            signal += biases[..., np.newaxis, :]
            if i < last_layer:
                np.tanh(signal, out=signal)
            signals.append(signal)
        return signals
