"""Likelihoods with kinks: what searches for a mode see of them is smooth.

The second derivative of ``|y - f|`` is zero or infinite, so neither Newton's method nor
Laplace's approximation can use it. The mean over ``[f - h, f + h]`` has the derivative
``(nll(f + h) - nll(f - h)) / 2h``, which is continuous: ``|y - f|`` becomes Huber's
function. The curvature of Laplace's approximation is the Fisher information, estimated
by the mean square of the gradient. Chains see the likelihood as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.langevin import NUMPY, Target

Array = NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
# Half-width h, times the root of the Fisher information.
_HALF_WIDTH = 0.5
# Rows and displacements (in standard deviations of rough latent values) that are tried.
_TRIED = 200
_PLACES = (-0.7, 0.3, 1.1)


class SmoothedLikelihood(NamedTuple):
    """The row-wise functions of a likelihood of one output, averaged over f ± h.

    Attributes
    ----------
    likelihood : Likelihood
    y, f : ndarray of shape (k,)
        Rows at which the Fisher information is estimated.
    tried : slice
        Which of all rows these are.
    """

    likelihood: Any
    y: Array
    f: Array
    tried: slice = slice(None)

    @property
    def information(self) -> float:
        """Fisher information of an observation, ``E nll'²``."""
        likelihood = self.likelihood.at_some(self.tried)
        return float(np.mean(_gradient(likelihood, self.y, self.f) ** 2))

    @property
    def theta(self) -> Array:
        """Free log-parameters."""
        theta: Array = self.likelihood.theta
        return theta

    def with_theta(self, theta: Array) -> SmoothedLikelihood:
        """Copy with other log-parameters."""
        return self._replace(likelihood=self.likelihood.with_theta(theta))

    def row_nll(self, y: Array, f: Array) -> Array:
        """Mean of the negative log-likelihood, (n, s)."""
        around = f[..., np.newaxis] + self._half * _NODES
        nll = self.likelihood.row_nll(y, around.reshape(len(f), 1, -1))
        mean: Array = nll.reshape(len(f), -1, len(_NODES)) @ (0.5 * _NODE_WEIGHTS)
        return mean

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Derivative of that mean, (n, 1, s)."""
        h = self._half
        above, below = (self.likelihood.row_nll(y, f + step) for step in (h, -h))
        slope: Array = (above - below)[:, np.newaxis] / (2.0 * h)
        return slope

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Fisher information, (n, 1, 1, s)."""
        return np.full((len(y), 1, 1, f.shape[2]), self.information)

    @property
    def _half(self) -> float:
        return _HALF_WIDTH / float(np.sqrt(self.information))


def smoothed(target: Target) -> Target:
    """The target with its likelihood smoothed if that has kinks; otherwise itself."""
    if target.code != NUMPY or target.n_outputs > 1 or is_smoothed(target):
        return target
    tried = slice(None, None, max(1, len(target.y) // _TRIED))
    y, likelihood = target.y[tried], target.likelihood.at_some(tried)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64).ravel()
    centre, spread = rough.mean(), rough.std() or 1.0
    linear = np.concatenate(
        [_linear(likelihood, y, np.full(len(y), centre + p * spread)) for p in _PLACES]
    )
    if np.mean(linear) <= 0.5:
        return target
    reference = np.full(len(y), centre + _PLACES[0] * spread)
    smooth = SmoothedLikelihood(target.likelihood, y, reference, tried)
    return target._replace(likelihood=smooth)


def is_smoothed(target: Target) -> bool:
    """Whether the likelihood of a target has been smoothed."""
    return isinstance(target.likelihood, SmoothedLikelihood)


def _linear(likelihood: Any, y: Array, f: Array) -> NDArray[np.bool_]:
    """Where the nll is linear in f, with a slope."""
    h = 1e-4 * (1.0 + np.abs(f))
    below, above = (_gradient(likelihood, y, f + s * h) for s in (-1.0, 1.0))
    same = np.abs(above - below) <= 1e-10 * np.abs(above)
    return same & (above != 0.0)


def _gradient(likelihood: Any, y: Array, f: Array) -> Array:
    slope: Array = likelihood.row_gradient(y, f[:, np.newaxis, np.newaxis])
    return slope.reshape(len(y))
