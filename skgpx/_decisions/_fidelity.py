"""Cheap approximations of an experiment: f_s(x) = c(s) g(x) + s δ(x).

The autoregressive model of Kennedy and O'Hagan, "Predicting the output from a complex
computer code when fast approximations are available", Biometrika 2000, with a
fidelity s from 0 (cheapest) to 1 (the experiment), c(0) = 1 and c(1) = ρ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Hyperparameter,
    Kernel,
    Matern,
    WhiteKernel,
)

from skgpx._decisions._acquisition import Outcome
from skgpx._decoupled import DecoupledSampler
from skgpx._types import Array
from skgpx.kernels import Columns


class Coefficient(Kernel):
    """Covariance ``c(s) c(s')`` of a factor that is linear in a column s.

    Parameters
    ----------
    column : int
        Number of the column of s.
    first : float
        c(0).
    last : float
        c(1).
    last_bounds : tuple or "fixed"
        Range of c(1).
    """

    def __init__(
        self,
        column: int,
        first: float,
        last: float,
        last_bounds: Any = "fixed",
    ):
        self.column = column
        self.first = first
        self.last = last
        self.last_bounds = last_bounds

    @property
    def hyperparameter_last(self) -> Hyperparameter:
        """Specification of c(1)."""
        return Hyperparameter("last", "numeric", self.last_bounds)

    def _factor(self, X: Array) -> Array:
        s = np.asarray(X)[:, self.column]
        return self.first + (self.last - self.first) * s

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Matrix, and its derivative in log c(1)."""
        factor = self._factor(X)
        if Y is not None:
            return np.outer(factor, self._factor(Y))
        matrix = np.outer(factor, factor)
        if not eval_gradient:
            return matrix
        if self.hyperparameter_last.fixed:
            return matrix, np.empty((*matrix.shape, 0))
        # dc / dlog c(1) = c(1) s
        slope = self.last * np.asarray(X)[:, self.column]
        gradient = np.outer(slope, factor)
        return matrix, (gradient + gradient.T)[:, :, np.newaxis]

    def diag(self, X: Array) -> Array:
        """Diagonal of the matrix."""
        return self._factor(X) ** 2

    def is_stationary(self) -> bool:
        """It is not."""
        return False


def fidelity_model(n_columns: int, fidelity: int) -> DecoupledSampler:
    """Process of ``c(s) g(x) + s δ(x)`` of so many columns, with s in one of them."""
    columns = [column for column in range(n_columns) if column != fidelity]

    # ranges of hyperparameters are those on the unit box, of standardised values
    def process(amplitude: float) -> Kernel:
        matern = Matern(np.full(len(columns), 0.5), (0.05, 20.0), nu=2.5)
        return ConstantKernel(amplitude, (1e-3, 1e3)) * Columns(matern, columns)

    kernel = (
        Coefficient(fidelity, 1.0, 1.0, (0.05, 20.0)) * process(1.0)
        + Coefficient(fidelity, 0.0, 1.0) * process(0.1)
        + WhiteKernel(1e-4, (1e-8, 1.0))
    )
    # a second start of the search
    return DecoupledSampler(
        GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1)
    )


def best_fidelity(
    objective: Outcome,
    points: Array,
    log_costs: Array,
) -> int:
    """Row of points (k, D), one input at all fidelities, that tells most for its cost.

    That is the share of the variance at the last row that an evaluation takes away,
    the squared correlation of the posterior, for its cost: the factors of Huang, Allen,
    Notz and Miller, "Sequential kriging optimization using multiple-fidelity
    evaluations", Structural and Multidisciplinary Optimization 2006.
    """
    target = points[-1:]
    _, before, _ = objective.moments(target)
    scores: list[float] = []
    for point, log_cost in zip(points, log_costs, strict=True):
        _, after, _ = objective.with_means(point[np.newaxis]).moments(target)
        share = 1.0 - float(np.mean(after**2) / np.mean(before**2))
        scores.append(float(np.log(max(share, 1e-12)) - log_cost))
    return int(np.argmax(scores))
