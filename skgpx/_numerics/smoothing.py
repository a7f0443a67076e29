"""Smoothing of likelihoods with kinks, for the search of a mode.

The second derivative of ``|y - f|`` is zero or infinite, so neither Newton's method nor
Laplace's approximation can use it. The mean over ``[f - h, f + h]`` has the continuous
derivative ``(nll(f + h) - nll(f - h)) / 2h``; it turns ``|y - f|`` into Huber's
function. The curvature of Laplace's approximation is the Fisher information, estimated
by the mean square of the gradient. Chains use the likelihood without smoothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from skgpx._numerics.langevin import NUMPY, Target
from skgpx._types import Array, Mask

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
# Latent values where kinks are looked for, in standard deviations of the rough ones.
_PLACES = (-0.7, 0.3, 1.1)


class RowGradient(Protocol):
    """A likelihood with a gradient of each row."""

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Gradient of each row at latent values (n, c, s), (n, c, s)."""
        ...


class SmoothedLikelihood(NamedTuple):
    """Row functions of a likelihood of one output, averaged over [f - h, f + h].

    Attributes
    ----------
    likelihood : Likelihood
    y, f : ndarray of shape (k,)
        Rows at which the Fisher information is estimated.
    tested : slice
        Positions of these rows among all rows.
    """

    likelihood: Any
    y: Array
    f: Array
    tested: slice = slice(None)

    @property
    def information(self) -> float:
        """Fisher information of an observation, ``E nll'²``."""
        likelihood = self.likelihood.at_some(self.tested)
        gradient = _gradient(likelihood, self.y, self.f)
        return float(np.mean(gradient**2))

    @property
    def theta(self) -> Array:
        """Free log-parameters."""
        return self.likelihood.theta

    def with_theta(self, theta: Array) -> SmoothedLikelihood:
        """Copy with other log-parameters."""
        return self._replace(likelihood=self.likelihood.with_theta(theta))

    def row_nll(self, y: Array, f: Array) -> Array:
        """Mean of the negative log-likelihood, (n, s)."""
        n = len(f)
        f_at_nodes = f[..., np.newaxis] + self._half_width * _NODES
        nll = self.likelihood.row_nll(y, f_at_nodes.reshape(n, 1, -1))
        nll = nll.reshape(n, -1, len(_NODES))
        return nll @ (0.5 * _NODE_WEIGHTS)

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Derivative of this mean, (n, 1, s)."""
        h = self._half_width
        above = self.likelihood.row_nll(y, f + h)
        below = self.likelihood.row_nll(y, f - h)
        rise: Array = above - below
        return rise[:, np.newaxis] / (2.0 * h)

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Fisher information, (n, 1, 1, s)."""
        shape = (len(y), 1, 1, f.shape[2])
        return np.full(shape, self.information)

    @property
    def _half_width(self) -> float:
        return 0.5 / float(np.sqrt(self.information))


def smoothed(target: Target) -> Target:
    """Target with a smoothed likelihood if that has kinks; otherwise the target itself.

    A likelihood has kinks if its nll is linear at more than half of the tested values.
    """
    if target.code != NUMPY or target.n_outputs > 1 or is_smoothed(target):
        return target
    stride = max(1, len(target.y) // 200)
    tested = slice(None, None, stride)
    y = target.y[tested]
    likelihood = target.likelihood.at_some(tested)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64)
    rough = rough.ravel()
    centre = rough.mean()
    spread = rough.std() or 1.0
    latent_values = []
    for place in _PLACES:
        level = centre + place * spread
        latent_values.append(np.full(len(y), level))
    # a nll that is linear at most rows has kinks between them
    linear = [_is_linear(likelihood, y, f) for f in latent_values]
    if np.mean(linear) <= 0.5:
        return target
    smooth = SmoothedLikelihood(
        likelihood=target.likelihood,
        y=y,
        f=latent_values[0],
        tested=tested,
    )
    return target._replace(likelihood=smooth)


def is_smoothed(target: Target) -> bool:
    """Whether the likelihood of a target has been smoothed."""
    return isinstance(target.likelihood, SmoothedLikelihood)


def _is_linear(
    likelihood: RowGradient,
    y: Array,
    f: Array,
) -> Mask:
    """Whether the nll is linear in f, with a slope that is not zero."""
    h = 1e-4 * (1.0 + np.abs(f))
    below = _gradient(likelihood, y, f - h)
    above = _gradient(likelihood, y, f + h)
    is_equal = np.abs(above - below) <= 1e-10 * np.abs(above)
    return is_equal & (above != 0.0)


def _gradient(
    likelihood: RowGradient,
    y: Array,
    f: Array,
) -> Array:
    """Gradient of rows of one output at latent values f (n,), (n,)."""
    gradient = likelihood.row_gradient(y, f[:, np.newaxis, np.newaxis])
    return gradient.reshape(len(y))
