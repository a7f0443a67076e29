"""What networks of classes minimise: expected log likelihood and distance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.quadrature import expectation_nodes
from skgpx._numerics.robust_max import probability_and_slopes
from skgpx.likelihoods import Likelihood, RobustMax

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class ClassLoss(NamedTuple):
    """``Σ w (E[-log p(y | f)] + κ |m - m_P|²) / Σ w`` over the rows of a batch.

    The expectation is over ``f ~ N(m, r)`` at each row: eqs. (69) and (70) of the paper
    for RobustMax, otherwise by a rule of a dozen nodes, or two for each output.

    Attributes
    ----------
    likelihood : Likelihood
        Prepared.
    codes : ndarray of shape (n,)
        Numbers of the classes.
    weights : ndarray of shape (n,)
    variance : ndarray of shape (n,)
        r, the same for all outputs.
    distance_weight : float
        κ: one over the number of rows, times the weight of the distances.
    """

    likelihood: Likelihood
    codes: Array
    weights: Array
    variance: Array
    distance_weight: float

    def __call__(self, outputs: Array, rows: Index) -> tuple[float, Array]:
        """Value, and its derivative in the outputs (len(rows), c) of these rows."""
        expected = robust_max if isinstance(self.likelihood, RobustMax) else by_nodes
        y, r = self.codes[rows], self.variance[rows]
        nll, slope = expected(self.likelihood, y, outputs, r)
        gap = outputs - self.likelihood.base_latent_
        nll = nll + self.distance_weight * np.sum(gap**2, axis=1)
        slope = slope + 2.0 * self.distance_weight * gap
        share = self.weights[rows] / self.weights[rows].sum()
        return float(share @ nll), share[:, np.newaxis] * slope


def robust_max(
    likelihood: RobustMax, y: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Expected nll (n,), and its derivative in the means (n, c)."""
    right = np.log1p(-likelihood.epsilon)
    wrong = np.log(likelihood.epsilon / (mean.shape[1] - 1.0))
    S, slope, _ = probability_and_slopes(y, mean, variance[:, np.newaxis])
    return -right * S - wrong * (1.0 - S), (wrong - right) * slope


def by_nodes(
    likelihood: Likelihood, y: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """The same for a smooth likelihood: derivatives of the rule."""
    nodes, weights = expectation_nodes(mean.shape[1])
    std = np.sqrt(variance)[:, np.newaxis, np.newaxis]
    f = mean[:, :, np.newaxis] + std * nodes.T
    return likelihood.row_nll(y, f) @ weights, likelihood.row_gradient(y, f) @ weights
