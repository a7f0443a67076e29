"""Kernels that are Markov processes of one input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, Product

from skgpx._numerics.markov_regression import MaternProcess
from skgpx._numerics.state_space import STATES

Array = NDArray[np.float64]

# Bounds of the default amplitude, in variances of y, and of the default lengthscale: in
# median distances of neighbours, and in ranges of the data.
_AMPLITUDES = (1e-3, 1e3)
_SHORTEST, _LONGEST = 0.25, 100.0


class MarkovKernel(NamedTuple):
    """A Matern kernel, times a constant or not.

    Attributes
    ----------
    kernel : Matern or Product
    """

    kernel: Any

    @property
    def _parts(self) -> tuple[Any, Any]:
        """The constant, or None, and the Matern."""
        kernel = self.kernel
        if isinstance(kernel, Matern):
            return None, kernel
        one, other = kernel.k1, kernel.k2
        return (other, one) if isinstance(one, Matern) else (one, other)

    @property
    def nu(self) -> float:
        """Order."""
        return float(self._parts[1].nu)

    def process(self, theta: Array) -> MaternProcess:
        """Process with the logarithms (2,) of amplitude and lengthscale."""
        amplitude, length_scale = np.exp(theta)
        return MaternProcess(self.nu, float(amplitude), float(length_scale))

    @property
    def theta(self) -> Array:
        """Logarithms of amplitude and lengthscale, shape (2,)."""
        constant, matern = self._parts
        amplitude = 1.0 if constant is None else constant.constant_value
        return np.log([amplitude, np.ravel(matern.length_scale)[0]])

    def bounds(self, learns: bool) -> Array:
        """Of theta, (2, 2); both ends the value itself where that is fixed."""
        constant, matern = self._parts
        out = np.repeat(self.theta[:, np.newaxis], 2, axis=1)
        both = (constant, "constant_value_bounds"), (matern, "length_scale_bounds")
        for i, (part, name) in enumerate(both):
            given = "fixed" if part is None else getattr(part, name)
            if learns and not isinstance(given, str):
                out[i] = np.log(np.ravel(given)[:2])
        return out

    def with_theta(self, theta: Array) -> Any:
        """The kernel with these logarithms, and its own bounds."""
        constant, matern = self._parts
        amplitude, length_scale = np.exp(theta)
        scale = np.full(np.shape(matern.length_scale), length_scale)[()]
        shape = Matern(scale, matern.length_scale_bounds, nu=matern.nu)
        if constant is None:
            return shape
        level = ConstantKernel(float(amplitude), constant.constant_value_bounds)
        first = isinstance(self.kernel.k1, Matern)
        return Product(shape, level) if first else Product(level, shape)


def as_markov(kernel: Any) -> MarkovKernel | None:
    """A kernel without noise as a Markov process, or None if it is none."""
    parts = [kernel]
    if type(kernel) is Product:
        parts = [kernel.k1, kernel.k2]
    constants = [part for part in parts if type(part) is ConstantKernel]
    materns = [part for part in parts if type(part) is Matern and part.nu in STATES]
    known = len(materns) == 1 and len(constants) == len(parts) - 1
    if not known or np.size(materns[0].length_scale) != 1:
        return None
    return MarkovKernel(kernel)


def default_markov(x: Array, variance: float) -> list[MarkovKernel]:
    """The three orders, for distinct inputs x (n,) and the variance of y."""
    width = float(x[-1] - x[0]) if len(x) > 1 else 1.0
    between = float(np.median(np.diff(x))) if len(x) > 1 else 1.0
    low, high = _SHORTEST * between, _LONGEST * width
    level = ConstantKernel(variance, tuple(variance * np.array(_AMPLITUDES)))
    start = float(np.sqrt(between * width))
    return [MarkovKernel(level * Matern(start, (low, high), nu=nu)) for nu in STATES]
