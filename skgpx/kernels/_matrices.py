"""Kernel matrices and their pullbacks.

``kernel(X, eval_gradient=True)`` of scikit-learn returns an array of shape
(n, n, n_theta) for one set of points. An objective that depends on a kernel matrix
only needs the contraction ``Σ_ij G_ij dk(x_i, y_j)/dtheta``, which costs a few
matrix products and works between two sets of points; a drawn function, likewise, only
``Σ_j G_ij ∇ₓ k(x_i, z_j)``. Each function here returns values and the *pullback* that
maps their cotangents G to such a sum, by the rule for the kernel's type.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Hyperparameter,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from skgpx._numerics import radial
from skgpx._numerics.linalg import inner_product, mirrored, triangle_slopes
from skgpx._numerics.rows import row_slices
from skgpx._types import Kernel
from skgpx.kernels._registry import (
    Array,
    Pullback,
    Rule,
    ValuesAndPullback,
    free_slopes,
    is_rule,
    rule_of,
)

# ---- Kernel matrices by compiled loops, where a kernel has them ----------------------

_CODES_OF_ORDERS = {
    0.5: radial.MATERN_12,
    1.5: radial.MATERN_32,
    2.5: radial.MATERN_52,
    np.inf: radial.RBF,
}


def radial_code(kernel: Kernel) -> int | None:
    """Code of the compiled loops of :mod:`skgpx._numerics.radial`; None without."""
    if type(kernel) is RBF:
        return radial.RBF
    if type(kernel) is Matern:
        return _CODES_OF_ORDERS.get(kernel.nu)
    return None


def amplitude_and_shape(kernel: Kernel) -> tuple[ConstantKernel | None, Kernel]:
    """The factors of a constant times a kernel; of other kernels None and itself."""
    if type(kernel) is Product and type(kernel.k1) is ConstantKernel:
        return kernel.k1, kernel.k2
    return None, kernel


def kernel_matrix(kernel: Kernel, X: Array, Z: Array) -> Array:
    """``kernel(X, Z)``, C-contiguous; a row does not depend on the others.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    Z : ndarray of shape (m, d)

    Notes
    -----
    2 to 3 ns an entry for a constant times an RBF or a Matern of order 1/2, 3/2 or 5/2;
    other kernels are called.
    """
    constant, shape = amplitude_and_shape(kernel)
    code = radial_code(shape)
    if code is None:
        return np.ascontiguousarray(kernel(X, Z))
    left, right = _scaled_points(X, Z, shape.length_scale)
    K = np.empty((len(X), len(Z)))
    radial.radial_rows(code, np.ascontiguousarray(right.T), left, K)
    if constant is not None:
        K *= float(constant.constant_value)
    return K


def triangle_and_pullback(kernel: Kernel, X: Array) -> ValuesAndPullback:
    """Lower triangle of ``k(X, X)`` and the map of its cotangent to theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)

    Returns
    -------
    K : ndarray of shape (n, n)
        Entries above the diagonal have no meaning.
    pullback : callable
        ``pullback(G)`` with a symmetric G (n, n), of which only the lower triangle is
        read, returns ``Σ_ij G_ij dK_ij / dtheta``, shape (n_theta,).
    """
    if type(kernel) is Sum:
        K1, pullback1 = triangle_and_pullback(kernel.k1, X)
        K2, pullback2 = triangle_and_pullback(kernel.k2, X)

        def sum_pullback(G: Array) -> Array:
            return np.append(pullback1(G), pullback2(G))

        return K1 + K2, sum_pullback

    rule = rule_of(kernel, "triangle")
    if rule is not None:
        return rule(kernel, X)
    constant, shape = amplitude_and_shape(kernel)
    code = radial_code(shape)
    if code is None:
        K, pullback = matrix_and_pullback(kernel, X)
        return K, lambda G: pullback(mirrored(G))

    scaled, _ = _scaled_points(X, None, shape.length_scale)
    amplitude = 1.0
    if constant is not None:
        amplitude = float(constant.constant_value)
    # zeros above the diagonal: sums add whole matrices
    n = len(X)
    K, W = np.zeros((2, n, n))
    radial.radial_triangle(code, amplitude, scaled, K, W)

    def radial_pullback(G: Array) -> Array:
        by_input = triangle_slopes(G, W, scaled)
        slopes = free_slopes(shape.hyperparameter_length_scale, by_input)
        if constant is None or constant.hyperparameter_constant_value.fixed:
            return slopes
        # ∂K / ∂log amplitude = K
        return np.append(inner_product(G, K), slopes)

    return K, radial_pullback


def stacked_triangles(kernel: Kernel, points: Array) -> Array:
    """Lower triangles of ``k(X, X)`` for a stack of small sets of points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    points : ndarray of shape (s, m, d)

    Returns
    -------
    K : ndarray of shape (s, m, m)
        Entries above the diagonals have no meaning.

    Notes
    -----
    About 5 ns an entry for sums and products of constants, linear kernels and the
    compiled kernels of :func:`kernel_matrix`, also inside Columns; other kernels are
    called for each set.
    """
    s, m, d = points.shape
    if type(kernel) in (Sum, Product):
        K1 = stacked_triangles(kernel.k1, points)
        K2 = stacked_triangles(kernel.k2, points)
        if type(kernel) is Sum:
            return K1 + K2
        return K1 * K2
    if type(kernel) is ConstantKernel:
        return np.full((s, m, m), float(kernel.constant_value))
    rule = rule_of(kernel, "stacked")
    if rule is not None:
        return rule(kernel, points)
    code = radial_code(kernel)
    if code is None:
        return np.stack([kernel(X) for X in points])
    rows = points.reshape(-1, d)
    scaled, _ = _scaled_points(rows, None, kernel.length_scale)
    K = np.zeros((s, m, m))
    radial.radial_stack(code, scaled.reshape(points.shape), K)
    return K


# ---- Kernel matrices and their derivatives in reverse mode ---------------------------


def matrix_and_pullback(
    kernel: Kernel,
    X: Array,
    Y: Array | None = None,
) -> ValuesAndPullback:
    """Kernel matrix and the function that maps its cotangent to theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel; those without a registered rule go through scikit-learn's
        ``eval_gradient`` on stacked blocks.
    X : ndarray of shape (n, d)
        Left points.
    Y : ndarray of shape (m, d), optional
        Right points. None means X; a WhiteKernel then contributes to the diagonal,
        as in scikit-learn.

    Returns
    -------
    K : ndarray of shape (n, m)
        The kernel matrix; it may be read-only.
    pullback : callable
        ``pullback(G)`` with ``G`` (n, m) returns ``sum_ij G_ij dK_ij / dtheta``,
        shape (n_theta,), in the order of ``kernel.theta`` (logarithms, free ones).

    Notes
    -----
    Registered kernels cost O(n m d) for ``K`` and again for each pullback, without
    an (n, m, n_theta) array.
    """
    rule = rule_of(kernel, "pullback") or _blockwise
    return rule(kernel, X, Y)


def diagonal_and_pullback(kernel: Kernel, X: Array) -> ValuesAndPullback:
    """Diagonal of the kernel matrix and the map of its cotangent to theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)

    Returns
    -------
    diagonal : ndarray of shape (n,)
        Prior variances ``k(x_i, x_i)``.
    pullback : callable
        ``pullback(g)`` with ``g`` (n,) returns ``sum_i g_i dk(x_i, x_i)/dtheta``.
    """
    rule = rule_of(kernel, "diagonal_pullback") or _diagonal
    return rule(kernel, X)


def matrix_and_input_pullback(
    kernel: Kernel,
    X: Array,
    Z: Array,
) -> ValuesAndPullback:
    """Kernel matrix ``k(X, Z)`` and the map of its cotangent to the inputs X.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Composed of kernels with a registered rule.
    X : ndarray of shape (n, d)
        Where the gradient is taken.
    Z : ndarray of shape (m, d)
        Right points.

    Returns
    -------
    K : ndarray of shape (n, m)
    pullback : callable
        ``pullback(G)`` with ``G`` (n, m) is ``Σ_j G_ij ∇ₓ k(x_i, z_j)``, shape (n, d).

    Raises
    ------
    ValueError
        If a part of the kernel has no registered rule; the message names it.
    """
    rule = rule_of(kernel, "input_gradient")
    if rule is None:
        raise ValueError(
            f"The gradient of {kernel!r} with respect to the inputs is not known. "
            "Register it with skgpx.kernels.register_kernel("
            f"{type(kernel).__name__}, input_gradient=...)."
        )
    return rule(kernel, X, Z)


# ---- Rules for kernels without one of their own --------------------------------------


def stacked_gradient(kernel: Kernel, X: Array, Y: Array) -> Array:
    """``dk(X, Y)/dtheta`` (n, m, n_theta) by scikit-learn's rule for one set."""
    n = len(X)
    points = np.concatenate((X, Y))
    _, gradient = kernel(points, eval_gradient=True)
    return gradient[:n, n:]


def _blockwise(kernel: Kernel, X: Array, Y: Array | None) -> ValuesAndPullback:
    """Rule for any kernel, at four times the cost of a direct formula."""
    right = X if Y is None else Y

    def pullback(G: Array) -> Array:
        slopes = np.zeros(kernel.n_dims)
        for rows in row_slices(len(X), 256):
            block_rows = X[rows]
            for columns in row_slices(len(right), 256):
                if Y is None and rows == columns:
                    # white noise counts here
                    _, gradient = kernel(block_rows, eval_gradient=True)
                else:
                    gradient = stacked_gradient(kernel, block_rows, right[columns])
                slopes += np.einsum("ij,ijp->p", G[rows, columns], gradient)
        return slopes

    return kernel(X, Y), pullback


def _diagonal(kernel: Kernel, X: Array) -> ValuesAndPullback:
    """Rule for any kernel; a single row serves where the kernel is stationary."""

    def pullback(g: Array) -> Array:
        if kernel.is_stationary():
            _, gradient = kernel(X[:1], eval_gradient=True)
            row_slopes: Array = gradient[0, 0]
            return g.sum() * row_slopes
        slopes = np.zeros(kernel.n_dims)
        for rows in row_slices(len(X), 64):
            _, gradient = kernel(X[rows], eval_gradient=True)
            slopes += np.einsum("i,iip->p", g[rows], gradient)
        return slopes

    return kernel.diag(X), pullback


# ---- Sums, products and powers, by the rules of their parts --------------------------


def _composed(evaluate: Rule, join: Callable[[Array, Array], Array]) -> Rule:
    """Rule for sums, products and powers, from the rule for their parts.

    `join` combines the slopes of the two parts: it concatenates slopes in
    hyperparameters, and adds slopes in the inputs.
    """

    def power_rule(kernel: Kernel, *points: Array | None) -> ValuesAndPullback:
        p = kernel.exponent
        K, pullback = evaluate(kernel.kernel, *points)

        def power_pullback(G: Array) -> Array:
            # ∂Kᵖ = p Kᵖ⁻¹ ∂K
            slope = p * K ** (p - 1)
            return pullback(G * slope)

        return K**p, power_pullback

    def rule(kernel: Kernel, *points: Array | None) -> ValuesAndPullback:
        if type(kernel) is Exponentiation:
            return power_rule(kernel, *points)
        K1, pullback1 = evaluate(kernel.k1, *points)
        K2, pullback2 = evaluate(kernel.k2, *points)

        def sum_pullback(G: Array) -> Array:
            # ∂(K1 + K2) = ∂K1 + ∂K2
            return join(pullback1(G), pullback2(G))

        def product_pullback(G: Array) -> Array:
            # ∂(K1 K2) = K2 ∂K1 + K1 ∂K2
            return join(pullback1(G * K2), pullback2(G * K1))

        if type(kernel) is Sum:
            return K1 + K2, sum_pullback
        return K1 * K2, product_pullback

    return rule


for _name, _evaluate, _join in (
    ("pullback", matrix_and_pullback, np.append),
    ("diagonal_pullback", diagonal_and_pullback, np.append),
    ("input_gradient", matrix_and_input_pullback, np.add),
):
    is_rule(_name, Sum, Product, Exponentiation)(_composed(_evaluate, _join))


# ---- ConstantKernel, WhiteKernel and DotProduct --------------------------------------


def _summing(factor: float, parameter: Hyperparameter) -> Pullback:
    """Pullback of one parameter with the same derivative, `factor`, at every entry."""

    def pullback(G: Array) -> Array:
        slope = factor * G.sum()
        return free_slopes(parameter, np.array([slope]))

    return pullback


@is_rule("pullback", ConstantKernel)
def _constant(
    kernel: ConstantKernel,
    X: Array,
    Y: Array | None,
) -> ValuesAndPullback:
    right = X if Y is None else Y
    value = float(kernel.constant_value)
    K = np.broadcast_to(value, (len(X), len(right)))
    return K, _summing(value, kernel.hyperparameter_constant_value)


@is_rule("pullback", DotProduct)
def _dot_product(
    kernel: DotProduct,
    X: Array,
    Y: Array | None,
) -> ValuesAndPullback:
    """``x·y + σ₀²``, and its slope ``2σ₀²`` in log σ₀."""
    right = X if Y is None else Y
    square = float(kernel.sigma_0) ** 2
    K = X @ right.T + square
    return K, _summing(2.0 * square, kernel.hyperparameter_sigma_0)


@is_rule("input_gradient", ConstantKernel, WhiteKernel)
def flat_inputs(kernel: Kernel, X: Array, Z: Array) -> ValuesAndPullback:
    """Rule of functions with no slope in the inputs."""
    return kernel(X, Z), lambda _: np.zeros(X.shape)


@is_rule("input_gradient", DotProduct)
def _dot_product_inputs(
    kernel: DotProduct,
    X: Array,
    Z: Array,
) -> ValuesAndPullback:
    return kernel(X, Z), lambda G: G @ Z


# ---- RBF, Matern and RationalQuadratic: functions of the distance in lengthscales ----
# k = φ(|(x - y) / ℓ|²) has the slopes ∂k/∂log ℓ_i = w (x_i - y_i)² / ℓ_i² and
# ∇ₓk = -w (x - y) / ℓ², with w = -(dk/dr) / r.


def _scaled_points(
    X: Array,
    Y: Array | None,
    length_scale: float | Array,
) -> tuple[Array, Array]:
    """Both sets of points divided by the lengthscales, centred at the mean of Y."""
    if Y is None:
        scaled = (X - X.mean(axis=0)) / length_scale
        return scaled, scaled
    centre = Y.mean(axis=0)
    return (X - centre) / length_scale, (Y - centre) / length_scale


def _profile(kernel: Kernel, left: Array, right: Array) -> tuple[Array, Array]:
    """Values k and ``w = -(dk/dr) / r`` between scaled points."""
    code = radial_code(kernel)
    if code is not None:
        K, W = np.empty((2, len(left), len(right)))
        radial.radial_slopes(code, np.ascontiguousarray(right.T), left, K, W)
        return K, W
    if type(kernel) is RationalQuadratic:
        # k = b^-α, w = k / b, b = 1 + r² / 2α
        alpha = kernel.alpha
        squares = cdist(left, right, "sqeuclidean")
        base = 1.0 + squares / (2.0 * alpha)
        K = base**-alpha
        return K, K / base
    # k = c tᵛ Kᵥ(t), dk/dt = -c tᵛ Kᵥ₋₁(t), t = √(2ν) r
    nu = float(kernel.nu)
    r = cdist(left, right)
    t = np.sqrt(2.0 * nu) * r
    t = np.maximum(t, np.finfo(float).eps)
    c = 2.0 ** (1.0 - nu) / gamma(nu)
    bessel = kv(nu, t)
    lower_bessel = kv(nu - 1.0, t)
    K = c * t**nu * bessel
    W = 2.0 * nu * c * t ** (nu - 1.0) * lower_bessel
    # the value at a kink is irrelevant: it multiplies r² = 0
    W[r <= 1e-8] = 0.0
    return K, W


@is_rule("pullback", RBF, Matern, RationalQuadratic)
def _distance_matrix(
    kernel: Kernel,
    X: Array,
    Y: Array | None,
) -> ValuesAndPullback:
    left, right = _scaled_points(X, Y, kernel.length_scale)
    K, W = _profile(kernel, left, right)

    def pullback(G: Array) -> Array:
        # Σ P (x - y)² = (P 1)ᵀ x² + (Pᵀ 1)ᵀ y² - 2 Σ x ∘ (P y)
        P = G * W
        left_squares = P.sum(axis=1) @ left**2
        right_squares = P.sum(axis=0) @ right**2
        products = np.einsum("ij,ij->j", left, P @ right)
        by_input = left_squares + right_squares - 2.0 * products
        slopes = free_slopes(kernel.hyperparameter_length_scale, by_input)
        if type(kernel) is not RationalQuadratic or kernel.hyperparameter_alpha.fixed:
            return slopes
        # k = b^-α, b = K / W:  ∂k/∂log α = α k ((b - 1) / b - log b)
        base = K / W
        log_slopes = (base - 1.0) / base - np.log(base)
        alpha_slope = kernel.alpha * np.vdot(G * K, log_slopes)
        return np.append(alpha_slope, slopes)

    return K, pullback


def _weighted_differences(P: Array, X: Array, Z: Array) -> Array:
    """``-Σ_j P_ij (x_i - z_j)``, shape (n, d)."""
    row_sums = P.sum(axis=1, keepdims=True)
    return P @ Z - row_sums * X


@is_rule("input_gradient", RBF, Matern, RationalQuadratic)
def _distance_inputs(kernel: Kernel, X: Array, Z: Array) -> ValuesAndPullback:
    # centred, so that inputs far from zero lose no digits
    left, right = _scaled_points(X, Z, kernel.length_scale)
    K, W = _profile(kernel, left, right)

    def pullback(G: Array) -> Array:
        return _weighted_differences(G * W, left, right) / kernel.length_scale

    return K, pullback


@is_rule("pullback", ExpSineSquared)
def _periodic_matrix(
    kernel: ExpSineSquared,
    X: Array,
    Y: Array | None,
) -> ValuesAndPullback:
    # k = exp(-2 sin²(π r / p) / ℓ²)
    right = X if Y is None else Y
    angle = np.pi * cdist(X, right) / kernel.periodicity
    inverse_square = float(kernel.length_scale) ** -2.0
    sine = np.sin(angle)
    K = np.exp(-2.0 * inverse_square * sine**2)
    free = [
        not kernel.hyperparameter_length_scale.fixed,
        not kernel.hyperparameter_periodicity.fixed,
    ]

    def pullback(G: Array) -> Array:
        # ∂k/∂log ℓ = 4 k sin² / ℓ²,  ∂k/∂log p = 4 k sin cos angle / ℓ²
        P = 4.0 * inverse_square * sine * (G * K)
        length_slope = np.vdot(P, sine)
        period_slope = np.vdot(P, angle * np.cos(angle))
        return np.array([length_slope, period_slope])[free]

    return K, pullback


@is_rule("input_gradient", ExpSineSquared)
def _periodic_inputs(
    kernel: ExpSineSquared,
    X: Array,
    Z: Array,
) -> ValuesAndPullback:
    r = cdist(X, Z)
    angle = np.pi * r / kernel.periodicity
    scaled_sine = np.sin(angle) / kernel.length_scale
    K = np.exp(-2.0 * scaled_sine**2)
    # w = -(dk/dr) / r = k (2 π / p l²) sin(2 angle) / r
    factor = 2.0 * np.pi / (kernel.periodicity * kernel.length_scale**2)
    ratio = np.zeros_like(r)
    np.divide(np.sin(2.0 * angle), r, out=ratio, where=r > 0.0)
    W = factor * K * ratio
    # centred, so that inputs far from zero lose no digits
    centre = Z.mean(axis=0)

    def pullback(G: Array) -> Array:
        return _weighted_differences(G * W, X - centre, Z - centre)

    return K, pullback
