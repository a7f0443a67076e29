"""Likelihoods with kinks: what searches see of them is averaged over a small normal.

The second derivative of ``|y - f|`` is zero or infinite, so neither Newton's method nor
Laplace's approximation can use it. Averaged over normal displacements of f of the width
that one observation tells it to, the law has a curvature that means something:
``E nll''(f + width ξ) = E[ξ nll'(f + width ξ)] / width``, which needs gradients only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.langevin import NUMPY, Target
from skgpx._numerics.quadrature import expectation_nodes

Array = NDArray[np.float64]

_NODES, _NODE_WEIGHTS = expectation_nodes(1, 24)
# Rows and displacements (in standard deviations of rough latent values) that are tried.
_TRIED = 200
_PLACES = (-0.7, 0.3, 1.1)


class SmoothedLikelihood(NamedTuple):
    """The row-wise functions of a likelihood of one output, averaged around f.

    Attributes
    ----------
    likelihood : Likelihood
    y, f : ndarray of shape (k,)
        Rows at which the width is found: one over the root mean square gradient, an
        estimate of the Fisher information.
    """

    likelihood: Any
    y: Array
    f: Array

    @property
    def width(self) -> float:
        """Standard deviation of the displacements."""
        slope = _gradient(self.likelihood, self.y, self.f)
        return 1.0 / float(np.sqrt(np.mean(slope**2)))

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
        nll = self.likelihood.row_nll(y, self._around(f))
        return nll.reshape(len(y), -1, len(_NODES)) @ _NODE_WEIGHTS

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Mean of the gradient, (n, 1, s)."""
        return self._slopes(y, f) @ _NODE_WEIGHTS

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Curvature of the mean, not negative, (n, 1, 1, s)."""
        mean = self._slopes(y, f) @ (_NODE_WEIGHTS * _NODES[:, 0])
        return np.maximum(mean / self.width, 0.0)[:, np.newaxis]

    def _slopes(self, y: Array, f: Array) -> Array:
        slopes: Array = self.likelihood.row_gradient(y, self._around(f))
        return slopes.reshape(*f.shape, len(_NODES))

    def _around(self, f: Array) -> Array:
        """Latent values (n, 1, s k) of the nodes, nodes fast."""
        displaced = f[..., np.newaxis] + self.width * _NODES[:, 0]
        return displaced.reshape(len(f), 1, -1)


def smoothed(target: Target) -> Target:
    """The target with its likelihood smoothed if that has kinks; otherwise itself."""
    likelihood = target.likelihood
    if target.code != NUMPY or target.n_outputs > 1 or is_smoothed(target):
        return target
    y = target.y[:: max(1, len(target.y) // _TRIED)]
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64).ravel()
    centre, spread = rough.mean(), rough.std() or 1.0
    linear = np.concatenate(
        [_linear(likelihood, y, np.full(len(y), centre + p * spread)) for p in _PLACES]
    )
    if np.mean(linear) <= 0.5:
        return target
    reference = np.full(len(y), centre + _PLACES[0] * spread)
    return target._replace(likelihood=SmoothedLikelihood(likelihood, y, reference))


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
