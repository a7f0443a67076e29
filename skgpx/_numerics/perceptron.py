"""A small fully connected network, and its derivatives.

Arrays in, arrays out: what is minimised, and by which steps, is the business of the
caller. Parameters are one flat vector, as `adam_step` and optimisers expect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Perceptron(NamedTuple):
    """Sizes and activation of a network; the parameters are a vector beside it.

    Attributes
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, of outputs.
    activation : {"tanh", "relu"}
        Of hidden layers; the last layer is linear.

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
    >>> gradients = pullback(outputs)  # of half the sum of squares of the outputs
    >>> outputs.shape, gradients.parameters.shape, gradients.inputs.shape
    ((5, 2), (98,), (5, 3))
    """

    sizes: tuple[int, ...]
    activation: str = "tanh"

    @property
    def n_parameters(self) -> int:
        """Length of the vector of parameters."""
        pairs = zip(self.sizes[:-1], self.sizes[1:], strict=True)
        return sum((n + 1) * m for n, m in pairs)

    def layers(self, parameters: Array) -> list[tuple[Array, Array]]:
        """Weights (inputs, outputs) and biases (outputs,) of each layer, as views."""
        views, first = [], 0
        for n, m in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            middle, last = first + n * m, first + (n + 1) * m
            weights = parameters[first:middle].reshape(n, m)
            views.append((weights, parameters[middle:last]))
            first = last
        return views

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters: biases zero, weights such that signals keep their size.

        Uniform with variance ``2 / (inputs + outputs)`` for tanh (Glorot and Bengio,
        "Understanding the difficulty of training deep feedforward neural networks",
        AISTATS 2010, eq. 16); normal with variance ``2 / inputs`` for ReLU (He, Zhang,
        Ren and Sun, "Delving deep into rectifiers", ICCV 2015, eq. 10), ``1 / inputs``
        in the linear layer after it.
        """
        parameters = np.zeros(self.n_parameters)
        layers = self.layers(parameters)
        for i, (weights, _) in enumerate(layers):
            n, m = weights.shape
            if self.activation == "relu":
                power = 1.0 if i == len(layers) - 1 else 2.0
                weights[:] = np.sqrt(power / n) * rng.standard_normal((n, m))
            else:
                limit = np.sqrt(6.0 / (n + m))
                weights[:] = rng.uniform(-limit, limit, (n, m))
        return parameters

    def __call__(self, parameters: Array, X: Array) -> Array:
        """Outputs (n, outputs) at the rows of X; O(n × number of parameters)."""
        return self._signals(parameters, X)[-1]

    def with_pullback(
        self, parameters: Array, X: Array
    ) -> tuple[Array, Callable[[Array], PerceptronGradients]]:
        """Outputs, and a function from their gradients to those of all that they use.

        Parameters
        ----------
        parameters : ndarray of shape (n_parameters,)
        X : ndarray of shape (n, inputs)

        Returns
        -------
        outputs : ndarray of shape (n, outputs)
        pullback : callable
            Maps ``dL / d outputs`` (n, outputs) to :class:`PerceptronGradients`, at
            twice the cost of the outputs. It holds the signals of all layers.
        """
        signals = self._signals(parameters, X)
        layers = self.layers(parameters)

        def pullback(gradient: Array) -> PerceptronGradients:
            slopes = np.empty_like(parameters)
            places = self.layers(slopes)
            for i in reversed(range(len(layers))):
                weights, biases = places[i]
                np.matmul(signals[i].T, gradient, out=weights)
                np.sum(gradient, axis=0, out=biases)
                gradient = gradient @ layers[i][0].T
                if i:
                    gradient *= self._slope(signals[i])
            return PerceptronGradients(slopes, gradient)

        return signals[-1], pullback

    def _signals(self, parameters: Array, X: Array) -> list[Array]:
        """Inputs of each layer, and the outputs of the last."""
        signals = [X]
        layers = self.layers(parameters)
        for i, (weights, biases) in enumerate(layers):
            signal = signals[-1] @ weights
            signal += biases
            if i < len(layers) - 1:
                self._activate(signal)
            signals.append(signal)
        return signals

    def _activate(self, signal: Array) -> None:
        """Overwrite sums by what the units say."""
        if self.activation == "relu":
            np.maximum(signal, 0.0, out=signal)
        else:
            np.tanh(signal, out=signal)

    def _slope(self, activated: Array) -> Array:
        """Derivative of the activation, in terms of its value."""
        if self.activation == "relu":
            return (activated > 0.0).astype(np.float64)
        return 1.0 - activated**2


class PerceptronGradients(NamedTuple):
    """Derivatives of a function of the outputs.

    Attributes
    ----------
    parameters : ndarray of shape (n_parameters,)
    inputs : ndarray of shape (n, inputs)
    """

    parameters: Array
    inputs: Array
