"""Linear functions, as a trend in a sum with a stationary kernel."""

from __future__ import annotations

import numpy as np

from skgpx.kernels._registry import (
    Array,
    Bounds,
    RuledKernel,
    ValuesAndPullback,
    free_slopes,
    is_rule,
)


class Linear(RuledKernel):
    """Covariance of linear functions that are zero at a centre.

    ``k(x, y) = Σ_i s_i² (x_i - c_i) (y_i - c_i)``: the function ``Σ_i s_i w_i (x_i -
    c_i)`` with standard normal w. Unlike in scikit-learn's DotProduct every column may
    have a slope of its own, and none depends on the origin of X. Add a ConstantKernel
    for an intercept, and a stationary kernel for deviations from the line.

    Parameters
    ----------
    slope : float or ndarray of shape (d,), default=1.0
        Prior standard deviation of the slopes, in units of f per unit of the column;
        one for all columns, or one each.
    slope_bounds : pair of floats, array or "fixed", default=(1e-5, 1e5)
        Bounds of ``slope``; an array has shape (d, 2).
    centre : float or ndarray of shape (d,), default=0.0
        Inputs c at which the function is zero. Not a hyperparameter.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import Linear
    >>> kernel = RBF(0.5) + Linear([2.0, 0.1], centre=[1.0, 0.0])
    >>> kernel.k2(np.array([[2.0, 0.0], [1.0, 10.0]]))
    array([[4., 0.],
           [0., 1.]])
    """

    def __init__(
        self,
        slope: float | Array = 1.0,
        slope_bounds: Bounds = (1e-5, 1e5),
        centre: float | Array = 0.0,
    ) -> None:
        self.slope = slope
        self.slope_bounds = slope_bounds
        self.centre = centre

    hyperparameter_slope = RuledKernel._specified("slope")

    def scaled(self, X: Array) -> Array:
        """``s (x - c)``, shape (n, d): the features of the kernel."""
        X = np.atleast_2d(X)
        centre = np.asarray(self.centre, dtype=np.float64)
        slopes = self._by_column("slope", X.shape[1])
        return (X - centre) * slopes

    def is_stationary(self) -> bool:
        """Return False: the variance grows with the distance from the centre."""
        return False

    def diag(self, X: Array) -> Array:
        """Prior variances ``k(x_i, x_i)``, shape (n,)."""
        features = self.scaled(X)
        return np.sum(features**2, axis=1)

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        left = self.scaled(X)
        slopes = 2.0 * left[:, np.newaxis] * left
        return left @ left.T, free_slopes(self.hyperparameter_slope, slopes)

    def __repr__(self) -> str:
        return f"Linear(slope={np.round(self.slope, 3)})"


@is_rule("pullback", Linear)
def _matrix(kernel: Linear, X: Array, Y: Array | None) -> ValuesAndPullback:
    left = kernel.scaled(X)
    right = left if Y is None else kernel.scaled(Y)

    def pullback(G: Array) -> Array:
        slopes = 2.0 * np.einsum("ij,ij->j", left, G @ right)
        return free_slopes(kernel.hyperparameter_slope, slopes)

    return left @ right.T, pullback


@is_rule("stacked", Linear)
def _stacked(kernel: Linear, points: Array) -> Array:
    rows = points.reshape(-1, points.shape[2])
    features = kernel.scaled(rows).reshape(points.shape)
    return features @ features.transpose(0, 2, 1)


@is_rule("diagonal_pullback", Linear)
def _diagonal(kernel: Linear, X: Array) -> ValuesAndPullback:
    squares = kernel.scaled(X) ** 2

    def pullback(g: Array) -> Array:
        return free_slopes(kernel.hyperparameter_slope, 2.0 * g @ squares)

    return squares.sum(axis=1), pullback


@is_rule("input_gradient", Linear)
def _inputs(kernel: Linear, X: Array, Z: Array) -> ValuesAndPullback:
    left = kernel.scaled(X)
    right = kernel.scaled(Z)
    slope = np.asarray(kernel.slope, dtype=np.float64)

    def pullback(G: Array) -> Array:
        # ∇ₓ k = s ∘ s (z - c)
        return G @ right * slope

    return left @ right.T, pullback
