"""The covariance of the variational process: that of its weights.

In whitened coordinates, ``f = m + φ(x)ᵀw + g(x)``, the prior of w is N(0, I), and every
covariance is that of w: ``Σ = L⁻ᵀ cov(w) L⁻¹`` in the notation of the paper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.gaussian_wasserstein import (
    ProjectedBures,
    best_shrinkage,
    projected_bures,
    root_distance,
    sampled_bures,
)
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import precision_root
from skgpx._numerics.weights import GaussianWeights
from skgpx._validation import Rows

Array = NDArray[np.float64]

# Rows of the estimator of the paper, and its steps of Adam.
SAMPLED_ROWS, N_STEPS, _RATE = 100, 1000, 1e-2
# Largest number of steps of the search over a root.
_MAX_ITER = 500


class Objective(NamedTuple):
    """``a tr(G S) + λ (D² + e)``, or with ``√(D² + e)``, in the covariance S of w.

    Attributes
    ----------
    gram : ndarray of shape (m, m)
        G, mean of φφᵀ over the rows.
    n : float
        Number of rows.
    noise_variance : float
    distance_weight : float
        λ.
    batch_size : float or None
        None is the objective of the paper; otherwise that of the authors' code, whose
        likelihood term is divided by the size of the batch, and whose distance is not
        squared.
    means : float
        e, mean squared difference between m and the mean of the prior.
    """

    gram: Array
    n: float
    noise_variance: float
    distance_weight: float
    batch_size: float | None
    means: float

    @property
    def likelihood_weight(self) -> float:
        """a."""
        whole = self.n / (2.0 * self.noise_variance)
        return whole if self.batch_size is None else whole / self.batch_size

    @property
    def distance(self) -> float:
        """D at the minimum, for the objective with the root."""
        weight = self.likelihood_weight / self.distance_weight
        return root_distance(weight, self.means, float(np.trace(self.gram)))

    @property
    def shrinkage(self) -> float:
        """Factor c of the best covariance ``I / c²``."""
        if self.batch_size is None or self.distance_weight == 0.0:
            return best_shrinkage(self.n, self.noise_variance, self.distance_weight)
        weight = self.likelihood_weight / self.distance_weight
        return 1.0 + 2.0 * weight * self.distance

    def mean_weight(self) -> float:
        """Weight κ of ``(m - m_P)²`` beside that of ``(y - m)²``."""
        if self.distance_weight == 0.0:
            return 0.0
        weight = self.distance_weight / self.likelihood_weight
        if self.batch_size is not None:
            weight /= 2.0 * self.distance
        return weight

    def value_and_gradient(
        self, root: Array, bures: ProjectedBures
    ) -> tuple[float, Array]:
        """Objective and its derivative in the root of S, from those of D²."""
        a, weight = self.likelihood_weight, self.distance_weight
        GR = self.gram @ root
        value, slope = a * float(np.sum(root * GR)), 2.0 * a * GR
        if self.batch_size is None:
            return value + weight * bures.squared, slope + weight * bures.root
        D = np.sqrt(max(bures.squared + self.means, 1e-300))
        return value + weight * D, slope + weight / (2.0 * D) * bures.root


def covariance_root(
    how: str, objective: Objective, basis: Any, rows: Rows, rng: np.random.Generator
) -> Array:
    """Root (m, m) of the covariance of the weights.

    Parameters
    ----------
    how : {"closed_form", "svgp", "bures", "empirical"}
        The best one, by formula; the one of sparse regression; a search by the distance
        of the projections; steps of Adam on the estimator of the paper.
    objective : Objective
    basis : Nystroem
    rows : Rows
    rng : numpy.random.Generator
        Draws the rows of the estimator.
    """
    gram = objective.gram
    if how == "closed_form":
        return np.eye(len(gram)) / objective.shrinkage
    # (I + ΦᵀΦ/σ²)⁻¹ = L⁻ᵀ L⁻¹
    L = precision_root(gram * objective.n, objective.noise_variance)
    start = solve_lower_transpose(L, np.eye(len(L)))
    if how == "bures":
        return _searched(objective, start)
    return _stepped(objective, start, basis, rows, rng) if how == "empirical" else start


def _searched(objective: Objective, start: Array) -> Array:
    """Root at which the objective with projected distances is smallest."""

    def value(flat: Array) -> tuple[float, Array]:
        root = flat.reshape(start.shape)
        found = projected_bures(objective.gram, root)
        f, slope = objective.value_and_gradient(root, found)
        return f, slope.ravel()

    options = {"maxiter": _MAX_ITER, "maxcor": 20}
    found = minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    root: Array = found.x.reshape(start.shape)
    return root


def _stepped(
    objective: Objective,
    start: Array,
    basis: Any,
    rows: Rows,
    rng: np.random.Generator,
) -> Array:
    """Root after the steps of the paper, each with a sample of the rows."""
    root, n = start.copy(), len(rows.y)
    first, second = np.zeros_like(root), np.zeros_like(root)
    chances, size = rows.weights / rows.weights.sum(), min(SAMPLED_ROWS, n)
    for step in range(N_STEPS):
        chosen = rows.X[np.sort(rng.choice(n, size, replace=False, p=chances))]
        features = basis(chosen)
        residual = basis.residual_covariance(chosen, features)
        prior = residual + features @ features.T
        found = sampled_bures(prior, residual, features, root)
        _, slope = objective.value_and_gradient(root, found)
        rate = cosine_decay(step, N_STEPS, _RATE)
        adam_step(root, np.ascontiguousarray(slope), first, second, step + 1, rate)
    return root


def distance_of(objective: Objective, posterior: GaussianWeights) -> float:
    """Distance of the process from its prior; see `GWIFit`."""
    squared = projected_bures(objective.gram, posterior.root[0]).squared
    return float(np.sqrt(objective.means + squared))
