"""Kernels of Gaussian random elements (GRE), integrals over an empirical measure."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Exponentiation, Product, Sum

from skgpx._types import Kernel
from skgpx.kernels._columns import DerivedKernel, MappedKernel, inner_kernels
from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    matrix_and_input_pullback,
    matrix_and_pullback,
    stacked_gradient,
)
from skgpx.kernels._registry import (
    Array,
    Bounds,
    RuledKernel,
    ValuesAndPullback,
    free_slopes,
    is_rule,
)


class GREKernel(RuledKernel, DerivedKernel):
    """Covariance of a Gaussian random element, with a stationary background.

    ``r(x, x') = sum_i p_i k(x, s_i) k(s_i, x') + background * kbar(x, x')``: the
    integral of ``k(x, s) k(s, x')`` over the empirical measure of the support, plus
    its integral over the whole space, which keeps the variance far from the data.
    For an RBF the second integral is, up to a constant, an RBF with ``sqrt(2)``
    times the lengthscale, so ``kbar`` is ``kernel`` with every RBF inside it
    widened by ``sqrt(2)``. Other kernels have no such closed form: they enter
    ``kbar`` unchanged, which is a background but not that integral.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The base kernel ``k``, without a WhiteKernel.
    support : ndarray of shape (n_support, d), default=None
        Points ``s_i`` of the empirical measure. None stands for the rows of `fit`, as
        in the paper: PLSRegressor and PLSClassifier put them into ``kernel_``, every
        k-th of the rows in lexicographic order if there are more than 1000. Behind
        scalers and in a cross-validation they are the rows of the fold. Other
        estimators refuse a kernel without support.
    support_weights : ndarray of shape (n_support,), default=None
        Non-negative masses of the support points, scaled to sum to one. None
        gives every point the same mass, and rows of `fit` their sample weights.
    background : float, default=1.0
        Factor of ``kbar``, dimensionless, not negative. With 0 (and fixed bounds)
        the prior is the plain integral over the support, and its variance vanishes
        away from it.
    background_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        Bounds of ``background``.

    Notes
    -----
    The hyperparameters of ``kernel`` come first, then ``background``; the support is
    not one. ``r(X, Y)`` costs O((n + m) n_support) kernel evaluations
    and a matrix product of O(n m n_support).

    Equation (10) of [1]_ with the measure described above.

    References
    ----------
    .. [1] Wild, Wu, Sejdinovic, Knoblauch, "Near-optimal approximations for
       Bayesian inference in function space".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import GREKernel
    >>> support = np.linspace(0.0, 1.0, 20)[:, None]
    >>> kernel = GREKernel(RBF(0.2), support, background=0.5)
    >>> kernel(np.array([[0.5], [100.0]])).round(3)
    array([[0.837, 0.   ],
           [0.   , 0.5  ]])

    The rows of the fit, behind a scaler:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skgpx import PLSRegressor
    >>> model = PLSRegressor(GREKernel(RBF(0.5)), n_inducing=10, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), model)
    >>> y = np.sin(10.0 * support[:, 0])
    >>> pipeline.fit(support, y)[-1].kernel_.support.shape
    (20, 1)
    """

    parameter_names = ("background",)

    def __init__(
        self,
        kernel: Kernel,
        support: Array | None = None,
        support_weights: Array | None = None,
        background: float = 1.0,
        background_bounds: Bounds = (1e-5, 1e5),
    ) -> None:
        self.kernel = kernel
        self.support = support
        self.support_weights = support_weights
        self.background = background
        self.background_bounds = background_bounds

    hyperparameter_background = RuledKernel._specified("background")

    def __repr__(self) -> str:
        points = "rows of fit as" if self.support is None else len(self.support)
        return (
            f"GREKernel({self.kernel!r}, {points} support points, "
            f"background={self.background:.3g})"
        )

    def is_stationary(self) -> bool:
        """Return False: the variance depends on the place."""
        return False

    @property
    def _points(self) -> Array:
        """Support points, shape (n_support, d).

        Raises
        ------
        ValueError
            If they are to be the rows of a fit that has not been made.
        """
        if self.support is None:
            raise ValueError(
                "GREKernel without support takes the rows that PLSRegressor or "
                "PLSClassifier is fitted to; got no support in another place. Give "
                "GREKernel(kernel, support=X)."
            )
        return np.asarray(self.support, dtype=np.float64)

    @property
    def masses(self) -> Array:
        """Normalised masses ``p`` of the support points, shape (n_support,)."""
        n = len(self._points)
        if self.support_weights is None:
            return np.full(n, 1.0 / n)
        weights = np.asarray(self.support_weights, dtype=np.float64)
        return weights / weights.sum()

    def features(self, X: Array) -> Array:
        """``k(X, S) sqrt(p)``, shape (n, n_support): the finite-rank part is A Aᵀ."""
        A = self.kernel(X, self._points)
        A *= np.sqrt(self.masses)
        return A

    def background_kernel(self) -> Kernel:
        """``kbar``: the base kernel with every RBF widened by ``sqrt(2)``."""
        return _widened(self.kernel)

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        # r = A Aᵀ + b k̄
        A = self.features(X)
        K, gradient = self.background_kernel()(X, eval_gradient=True)
        background = self.background * K
        gradient = gradient * self.background
        root_masses = np.sqrt(self.masses)
        tangents = stacked_gradient(self.kernel, X, self._points)
        for p in range(tangents.shape[2]):
            # ∂(A Aᵀ) = Ȧ Aᵀ + A Ȧᵀ
            tangent = tangents[:, :, p] * root_masses
            half = tangent @ A.T
            gradient[:, :, p] += half + half.T
        # ∂r / ∂log b = b k̄
        if not self.hyperparameter_background.fixed:
            gradient = np.dstack((gradient, background))
        return A @ A.T + background, gradient

    def diag(self, X: Array) -> Array:
        """Prior variances ``r(x_i, x_i)``, shape (n,)."""
        X = np.atleast_2d(X)
        A = self.features(X)
        variances = np.einsum("ij,ij->i", A, A)
        if self.background != 0.0:
            variances += self.background * self.background_kernel().diag(X)
        return variances


def with_support(
    kernel: Kernel | None,
    X: Array,
    weights: Array,
) -> Kernel | None:
    """Take rows X as the support of every GREKernel without one, in place.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        A copy of the caller, which is changed and returned.
    X : ndarray of shape (n, d)
        Distinct rows of a fit.
    weights : ndarray of shape (n,)
        Their masses.

    Raises
    ------
    ValueError
        If a kernel has masses without points.
    """
    if isinstance(kernel, MappedKernel):
        X = kernel.part(X)
    for part in inner_kernels(kernel):
        with_support(part, X, weights)
    if isinstance(kernel, GREKernel) and kernel.support is None:
        if kernel.support_weights is not None:
            raise ValueError(
                "GREKernel expects support_weights with the support to which they "
                "belong; got support=None. Give both, or sample_weight to fit."
            )
        # a thousand rows at most
        thinned = slice(None, None, -(-len(X) // 1000))
        kernel.support = X[thinned].copy()
        kernel.support_weights = weights[thinned].copy()
    return kernel


def _widened(kernel: Kernel) -> Kernel:
    """Copy of a kernel in which every RBF has ``sqrt(2)`` times the lengthscale."""
    if type(kernel) is RBF:
        length_scale = np.sqrt(2.0) * np.asarray(kernel.length_scale)
        return RBF(length_scale[()], kernel.length_scale_bounds)
    if type(kernel) in (Sum, Product):
        return type(kernel)(_widened(kernel.k1), _widened(kernel.k2))
    if type(kernel) is Exponentiation:
        return Exponentiation(_widened(kernel.kernel), kernel.exponent)
    return kernel


# ---- Derivatives of the GRE kernel ---------------------------------------------------


def _sections(kernel: GREKernel, X: Array) -> ValuesAndPullback:
    """Evaluate the base kernel ``k(X, S)``, with its pullback."""
    return matrix_and_pullback(kernel.kernel, X, kernel._points)


def _join(kernel: GREKernel, inner_slopes: Array, background_slope: float) -> Array:
    """Gradient in the order of theta."""
    parameter = kernel.hyperparameter_background
    return np.append(inner_slopes, free_slopes(parameter, np.array([background_slope])))


@is_rule("pullback", GREKernel)
def _matrix(kernel: GREKernel, X: Array, Y: Array | None) -> ValuesAndPullback:
    b = kernel.background
    p = kernel.masses
    A, left_pullback = _sections(kernel, X)
    if Y is None:
        B = A
        right_pullback = left_pullback
    else:
        B, right_pullback = _sections(kernel, Y)
    Bp = B * p
    wide = kernel.background_kernel()
    Kbar, background_pullback = matrix_and_pullback(wide, X, Y)

    def pullback(G: Array) -> Array:
        # r = A P Bᵀ + b k̄:  Ā = G B P,  B̄ = Gᵀ A P
        slopes = left_pullback(G @ Bp) + right_pullback((G.T @ A) * p)
        slopes += b * background_pullback(G)
        return _join(kernel, slopes, b * float(np.vdot(G, Kbar)))

    return A @ Bp.T + b * Kbar, pullback


@is_rule("diagonal_pullback", GREKernel)
def _diagonal(kernel: GREKernel, X: Array) -> ValuesAndPullback:
    b = kernel.background
    p = kernel.masses
    A, sections_pullback = _sections(kernel, X)
    wide = kernel.background_kernel()
    variances, background_pullback = diagonal_and_pullback(wide, X)

    def pullback(g: Array) -> Array:
        # r(x, x) = Σ_i p_i A_i² + b k̄(x, x)
        slopes = sections_pullback(2.0 * g[:, np.newaxis] * A * p)
        slopes = slopes + b * background_pullback(g)
        return _join(kernel, slopes, b * float(g @ variances))

    return (A * A) @ p + b * variances, pullback


@is_rule("input_gradient", GREKernel)
def _inputs(kernel: GREKernel, X: Array, Z: Array) -> ValuesAndPullback:
    b = kernel.background
    support = kernel._points
    A, sections_pullback = matrix_and_input_pullback(kernel.kernel, X, support)
    Bp = kernel.kernel(Z, support) * kernel.masses
    wide = kernel.background_kernel()
    Kbar, background_pullback = matrix_and_input_pullback(wide, X, Z)

    def pullback(G: Array) -> Array:
        return sections_pullback(G @ Bp) + b * background_pullback(G)

    return A @ Bp.T + b * Kbar, pullback
