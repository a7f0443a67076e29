"""Multilayer perceptrons with tanh: values and gradients.

Arrays in, arrays out: what is minimised, and by which steps, is the business of the
caller. Parameters are a flat vector, as `adam_step` and optimisers expect, or several:
leading axes are networks side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Perceptron(NamedTuple):
    """Sizes of the layers of a network; the parameters are a vector beside it.

    Attributes
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, of outputs. The last layer is
        linear.

    Notes
    -----
    The parameters are those of one layer after the other: its weights (inputs, outputs)
    by rows, then its biases.

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
        pairs = zip(self.sizes[:-1], self.sizes[1:], strict=True)
        return sum((n + 1) * m for n, m in pairs)

    def layers(self, parameters: Array) -> list[tuple[Array, Array]]:
        """Weights (..., inputs, outputs) and biases (..., outputs), as views."""
        views, first = [], 0
        for n, m in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            middle, last = first + n * m, first + (n + 1) * m
            weights = parameters[..., first:middle]
            weights = weights.reshape(*parameters.shape[:-1], n, m)
            views.append((weights, parameters[..., middle:last]))
            first = last
        return views

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters: biases zero, weights such that signals keep their size.

        Uniform with variance ``2 / (inputs + outputs)`` (Glorot and Bengio,
        "Understanding the difficulty of training deep feedforward neural networks",
        AISTATS 2010, eq. 16).
        """
        parameters = np.zeros(self.n_parameters)
        for weights, _ in self.layers(parameters):
            limit = np.sqrt(6.0 / sum(weights.shape))
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
        """Outputs, and a function from their gradients to those of all that they use.

        In the precision of the arguments, single or double.

        Parameters
        ----------
        parameters : ndarray of shape (..., p)
        X : ndarray of shape (..., n, inputs)

        Returns
        -------
        outputs : ndarray of shape (..., n, outputs)
        pullback : callable
            Maps ``dL / d outputs`` to those in the parameters (..., p) and in X (...,
            n, inputs), at twice the cost of the outputs. It holds the signals of all
            layers.
        """
        signals = self._signals(parameters, X)
        layers = self.layers(parameters)

        def pullback(gradient: Array) -> tuple[Array, Array]:
            slopes = np.empty_like(parameters)
            places = self.layers(slopes)
            for i in reversed(range(len(layers))):
                weights, biases = places[i]
                np.matmul(signals[i].swapaxes(-1, -2), gradient, out=weights)
                np.sum(gradient, axis=-2, out=biases)
                gradient = gradient @ layers[i][0].swapaxes(-1, -2)
                if i:
                    gradient *= 1.0 - signals[i] ** 2
            return slopes, gradient

        return signals[-1], pullback

    def _signals(self, parameters: Array, X: Array) -> list[Array]:
        """Inputs of each layer, and the outputs of the last."""
        signals, layers = [X], self.layers(parameters)
        for i, (weights, biases) in enumerate(layers):
            signal = signals[-1] @ weights
            signal += biases[..., np.newaxis, :]
            if i < len(layers) - 1:
                np.tanh(signal, out=signal)
            signals.append(signal)
        return signals
