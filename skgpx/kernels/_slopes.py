"""Covariances of slopes: kernels, their first derivatives in both rows, and pullbacks.

Row i of X sees the value ``f(x_i)`` or, along its column a, the slope ``∂f/∂x_a``. A
*jet* holds the four matrices from which every such covariance is taken: k, its
derivative in the left row, in the right row, and in both. Rules, by the name "jet",
compute them for a type of kernel; sums and products follow from those of their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
)

from skgpx._numerics.radial import RBF as RBF_CODE
from skgpx._types import Array, Index, Kernel
from skgpx.kernels._additive import Additive, n_subsets
from skgpx.kernels._columns import Columns, Directions
from skgpx.kernels._linear import Linear
from skgpx.kernels._matrices import matrix_and_pullback, radial_code
from skgpx.kernels._registry import free_slopes, is_rule, rule_of

# Column of a row that sees a value.
VALUE = -1


class Jet(NamedTuple):
    """A kernel between n and m rows, and its derivatives along the rows' columns.

    Attributes
    ----------
    value, left, right, both : ndarray of shape (n, m)
        k, ∂k/∂x_a, ∂k/∂z_b and ∂²k/∂x_a∂z_b; zero where a row sees a value.
    """

    value: Array
    left: Array
    right: Array
    both: Array

    def plus(self, other: Jet) -> Jet:
        """Jet of a sum of kernels."""
        return Jet(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, other: Jet) -> Jet:
        """Jet of a product of kernels, by the rule of Leibniz."""
        return Jet(
            value=self.value * other.value,
            left=self.left * other.value + self.value * other.left,
            right=self.right * other.value + self.value * other.right,
            both=self.both * other.value
            + self.left * other.right
            + self.right * other.left
            + self.value * other.both,
        )

    def cotangent(self, G: Jet) -> Jet:
        """Cotangent of the other factor, from the cotangent G of a product."""
        return Jet(
            value=G.value * self.value
            + G.left * self.left
            + G.right * self.right
            + G.both * self.both,
            left=G.left * self.value + G.both * self.right,
            right=G.right * self.value + G.both * self.left,
            both=G.both * self.value,
        )

    def scaled(self, factor: float) -> Jet:
        """Jet of a multiple of the kernel."""
        return Jet(*(factor * part for part in self))

    def inner(self, G: Jet) -> float:
        """``Σ G ∘ J`` over all entries and parts."""
        return float(sum(np.vdot(a, b) for a, b in zip(self, G, strict=True)))


# Maps the cotangent of a jet to its slopes in theta.
JetPullback: TypeAlias = Callable[[Jet], Array]


class Slopes(NamedTuple):
    """Rows on both sides, and the column along which each sees a slope.

    Attributes
    ----------
    X, Z : ndarray of shape (n, d) and (m, d)
    a, b : ndarray of int of shape (n,) and (m,)
        Columns; `VALUE` for a value.
    """

    X: Array
    Z: Array
    a: Index
    b: Index

    def of_columns(self, columns: Index) -> Slopes:
        """The same rows as an inner kernel of some columns sees them."""
        position = np.full(self.X.shape[1] + 1, VALUE)
        position[columns] = np.arange(len(columns))
        return Slopes(
            X=self.X[:, columns],
            Z=self.Z[:, columns],
            a=position[self.a],
            b=position[self.b],
        )

    @property
    def has_slopes(self) -> bool:
        """Whether any row sees a slope."""
        return bool(np.any(self.a != VALUE) or np.any(self.b != VALUE))

    def left_along(self, differences: Array) -> Array:
        """Entries (n, m) of differences (d, n, m) along the left rows' columns."""
        rows = np.arange(len(self.a))
        entries: Array = differences[self.a, rows]
        return entries * (self.a != VALUE)[:, np.newaxis]

    def right_along(self, differences: Array) -> Array:
        """Entries (n, m) of differences (d, n, m) along the right rows' columns."""
        rows = np.arange(len(self.b))
        entries: Array = differences[self.b, :, rows].T
        return entries * (self.b != VALUE)


def jet_and_pullback(kernel: Kernel, rows: Slopes) -> tuple[Jet, JetPullback]:
    """The jet of a kernel, and the map of its cotangent to slopes in theta.

    Raises
    ------
    ValueError
        If a row sees a slope along a column in which the kernel has none.
    """
    rule: Any = rule_of(kernel, "jet")
    if rule is not None:
        return rule(kernel, rows)
    if rows.has_slopes:
        raise ValueError(
            f"Functions with the covariance {kernel!r} have no slope that skgpx knows: "
            "expected an RBF, a Matern kernel of order 3/2 or 5/2, a "
            "RationalQuadratic, or sums and products of these with Linear, Additive "
            "and constant kernels. Choose such a kernel, or give values instead of "
            "slopes along these columns."
        )
    return _flat(kernel, rows)


@is_rule("jet", ConstantKernel)
def _flat(kernel: Kernel, rows: Slopes) -> tuple[Jet, JetPullback]:
    """Jet of functions without slopes, or at rows that see none."""
    K, pullback = matrix_and_pullback(kernel, rows.X, rows.Z)
    zero = np.zeros(K.shape)
    return Jet(K, zero, zero, zero), lambda G: pullback(G.value)


@is_rule("jet", Sum)
def _sum(kernel: Sum, rows: Slopes) -> tuple[Jet, JetPullback]:
    first, first_pullback = jet_and_pullback(kernel.k1, rows)
    second, second_pullback = jet_and_pullback(kernel.k2, rows)

    def pullback(G: Jet) -> Array:
        return np.concatenate((first_pullback(G), second_pullback(G)))

    return first.plus(second), pullback


@is_rule("jet", Product)
def _product(kernel: Product, rows: Slopes) -> tuple[Jet, JetPullback]:
    if type(kernel.k1) is ConstantKernel:
        return _multiple(kernel.k1, kernel.k2, rows)
    first, first_pullback = jet_and_pullback(kernel.k1, rows)
    second, second_pullback = jet_and_pullback(kernel.k2, rows)

    def pullback(G: Jet) -> Array:
        of_first = first_pullback(second.cotangent(G))
        return np.concatenate((of_first, second_pullback(first.cotangent(G))))

    return first.times(second), pullback


def _multiple(
    factor: ConstantKernel,
    kernel: Kernel,
    rows: Slopes,
) -> tuple[Jet, JetPullback]:
    """The jet of a constant times a kernel."""
    value = float(factor.constant_value)
    jet, pullback_of_kernel = jet_and_pullback(kernel, rows)

    def pullback(G: Jet) -> Array:
        slope = np.array([value * jet.inner(G)])
        of_factor = free_slopes(factor.hyperparameter_constant_value, slope)
        return np.concatenate((of_factor, pullback_of_kernel(G.scaled(value))))

    return jet.scaled(value), pullback


@is_rule("jet", Columns)
def _columns(kernel: Columns, rows: Slopes) -> tuple[Jet, JetPullback]:
    columns = kernel.indices(rows.X.shape[1])
    return jet_and_pullback(kernel.kernel, rows.of_columns(columns))


@is_rule("jet", Directions)
def _directions(kernel: Directions, rows: Slopes) -> tuple[Jet, JetPullback]:
    """By the chain rule: a slope along column a is ``Σ_p D_ap`` times that along p."""
    D = kernel._matrix(rows.X.shape[1])
    X = kernel.part(rows.X)
    Z = kernel.part(rows.Z)
    # rows of values have the weight of no direction
    left_weights = np.where(rows.a == VALUE, 0.0, D[rows.a].T)
    right_weights = np.where(rows.b == VALUE, 0.0, D[rows.b].T)
    shape = (len(X), len(Z))
    jet = Jet(*(np.zeros(shape) for _ in range(4)))
    parts = []
    for p, r in np.ndindex(D.shape[1], D.shape[1]):
        if (p and not left_weights.any()) or (r and not right_weights.any()):
            continue
        a = np.where(rows.a == VALUE, VALUE, p)
        b = np.where(rows.b == VALUE, VALUE, r)
        inner, pullback_of_inner = jet_and_pullback(kernel.kernel, Slopes(X, Z, a, b))
        # each value once, and slopes of one side once for each of its directions
        weights = Jet(
            value=np.full(shape, float(p == r == 0)),
            left=left_weights[p][:, np.newaxis] * float(r == 0),
            right=right_weights[r] * float(p == 0),
            both=left_weights[p][:, np.newaxis] * right_weights[r],
        )
        jet = jet.plus(Jet(*(w * part for w, part in zip(weights, inner, strict=True))))
        parts.append((weights, pullback_of_inner))

    def pullback(G: Jet) -> Array:
        slopes = [
            pullback_of_inner(Jet(*(w * g for w, g in zip(weights, G, strict=True))))
            for weights, pullback_of_inner in parts
        ]
        return np.sum(slopes, axis=0)

    return jet, pullback


@is_rule("jet", Linear)
def _linear(kernel: Linear, rows: Slopes) -> tuple[Jet, JetPullback]:
    """``k = Σ_j x_j z_j`` of features ``x = s (x - c)``, whose slopes are s."""
    d = rows.X.shape[1]
    slope = kernel._by_column("slope", d)
    left = kernel.scaled(rows.X)
    right = kernel.scaled(rows.Z)
    left_slopes = np.eye(d + 1, d)[rows.a] * slope
    right_slopes = np.eye(d + 1, d)[rows.b] * slope
    jet = Jet(
        value=left @ right.T,
        left=left_slopes @ right.T,
        right=left @ right_slopes.T,
        both=left_slopes @ right_slopes.T,
    )

    def pullback(G: Jet) -> Array:
        # every part has the factor s_j² in column j
        by_column = np.einsum("nj,nj->j", left, G.value @ right)
        by_column += np.einsum("nj,nj->j", left_slopes, G.left @ right)
        by_column += np.einsum("nj,nj->j", left, G.right @ right_slopes)
        by_column += np.einsum("nj,nj->j", left_slopes, G.both @ right_slopes)
        return free_slopes(kernel.hyperparameter_slope, 2.0 * by_column)

    return jet, pullback


@is_rule("jet", DotProduct)
def _dot_product(kernel: DotProduct, rows: Slopes) -> tuple[Jet, JetPullback]:
    values, pullback = _flat(kernel, rows)
    slopes, _ = _linear(Linear(1.0, "fixed"), rows)
    return slopes._replace(value=values.value), pullback


# ---- Functions φ(s) of the squared distance in lengthscales --------------------------


def _profile(kernel: Kernel, s: Array) -> tuple[list[Array], list[Array]]:
    """``φ, φ', φ'', φ'''`` of s, and slopes in log α of those that have an α.

    Infinite limits at s = 0 are zeros: they multiply distances that vanish faster.
    """
    if type(kernel) is RationalQuadratic:
        # φ⁽ᵐ⁾ = (-½)ᵐ Π_{i<m} (α + i)/α b^(-α - m), b = 1 + s / 2α
        alpha = float(kernel.alpha)
        base = 1.0 + s / (2.0 * alpha)
        derivatives = []
        shape_slopes = []
        factor = 1.0
        rate = np.zeros(s.shape)
        for m in range(4):
            derivative = factor * base ** (-alpha - m)
            # ∂ log b / ∂ log α = -(b - 1) / b
            log_slope = rate - alpha * np.log(base) + (alpha + m) * (1.0 - 1.0 / base)
            derivatives.append(derivative)
            shape_slopes.append(derivative * log_slope)
            factor *= -0.5 * (alpha + m) / alpha
            rate = rate + alpha / (alpha + m) - 1.0
        return derivatives, shape_slopes
    code = radial_code(kernel)
    if code == RBF_CODE:
        value = np.exp(-0.5 * s)
        return [value, -0.5 * value, 0.25 * value, -0.125 * value], []
    nu = float(kernel.nu)
    if nu not in (1.5, 2.5):
        raise ValueError(
            f"Functions with the covariance {kernel!r} have no slope that skgpx knows: "
            "expected a Matern kernel of order nu=1.5 or 2.5, or an RBF. Choose such a "
            'kernel, or basis="fourier" of a SpectralVGPRegressor with seasons.'
        )
    t = np.sqrt(2.0 * nu * s)
    decay = np.exp(-t)
    inverse = np.divide(1.0, t, out=np.zeros(t.shape), where=t > 0.0)
    if nu == 1.5:
        return [
            (1.0 + t) * decay,
            -1.5 * decay,
            2.25 * inverse * decay,
            -3.375 * (inverse**2 + inverse**3) * decay,
        ], []
    return [
        (1.0 + t + t**2 / 3.0) * decay,
        -5.0 / 6.0 * (1.0 + t) * decay,
        25.0 / 12.0 * decay,
        -125.0 / 24.0 * inverse * decay,
    ], []


@is_rule("jet", RBF, Matern, RationalQuadratic)
def _radial(kernel: Kernel, rows: Slopes) -> tuple[Jet, JetPullback]:
    """``k = φ(s)``, ``s = Σ_j (x_j - z_j)² / ℓ_j²``."""
    if not rows.has_slopes:
        return _flat(kernel, rows)
    d = rows.X.shape[1]
    inverse_squares = np.broadcast_to(np.asarray(kernel.length_scale), (d,)) ** -2.0
    differences = rows.X.T[:, :, np.newaxis] - rows.Z.T[:, np.newaxis, :]
    # q_j = (x_j - z_j)² / ℓ_j², u_j = (x_j - z_j) / ℓ_j²
    q = differences**2 * inverse_squares[:, np.newaxis, np.newaxis]
    u = differences * inverse_squares[:, np.newaxis, np.newaxis]
    (phi, phi1, phi2, phi3), shape_slopes = _profile(kernel, q.sum(axis=0))
    u_a = rows.left_along(u)
    u_b = rows.right_along(u)
    # δ_ab / ℓ_a²
    is_same = (rows.a[:, np.newaxis] == rows.b) & (rows.b != VALUE)
    squares = is_same * inverse_squares[rows.a][:, np.newaxis]

    def jet_of(phi: Array, phi1: Array, phi2: Array) -> Jet:
        return Jet(
            value=phi,
            left=2.0 * phi1 * u_a,
            right=-2.0 * phi1 * u_b,
            both=-4.0 * phi2 * u_a * u_b - 2.0 * phi1 * squares,
        )

    def pullback(G: Jet) -> Array:
        # ∂s/∂log ℓ_j = -2 q_j for each column, in all parts
        by_distance = G.value * phi1
        by_distance += 2.0 * G.left * phi2 * u_a - 2.0 * G.right * phi2 * u_b
        by_distance -= G.both * (4.0 * phi3 * u_a * u_b + 2.0 * phi2 * squares)
        by_column = -2.0 * np.einsum("jnm,nm->j", q, by_distance)
        # u_a, u_b and δ_ab / ℓ_a² have the slopes -2 in log ℓ_a, log ℓ_b and log ℓ_a
        of_product = 8.0 * G.both * phi2 * u_a * u_b
        of_left = (
            -4.0 * G.left * phi1 * u_a + of_product + 4.0 * G.both * phi1 * squares
        )
        of_right = 4.0 * G.right * phi1 * u_b + of_product
        by_column += _by_column(rows.a, of_left.sum(axis=1), d)
        by_column += _by_column(rows.b, of_right.sum(axis=0), d)
        slopes = free_slopes(kernel.hyperparameter_length_scale, by_column)
        if not shape_slopes or kernel.hyperparameter_alpha.fixed:
            return slopes
        of_shape = jet_of(*shape_slopes[:3])
        return np.append(of_shape.inner(G), slopes)

    return jet_of(phi, phi1, phi2), pullback


def _by_column(columns: Index, sums: Array, d: int) -> Array:
    """Sums (n,) of rows that see slopes, added up by their columns, (d,)."""
    sees_slope = columns != VALUE
    totals = np.bincount(columns[sees_slope], sums[sees_slope], minlength=d)
    return np.asarray(totals, dtype=np.float64)


# ---- Sums over subsets of columns ----------------------------------------------------


@is_rule("jet", Additive)
def _additive(kernel: Additive, rows: Slopes) -> tuple[Jet, JetPullback]:
    """Elementary symmetric polynomials of the columns' jets, by their recursion."""
    d = rows.X.shape[1]
    factors = kernel._factors_of(np.arange(d))
    jets: list[Jet] = []
    pullbacks: list[JetPullback] = []
    for factor in factors:
        for position, column in enumerate(factor.columns):
            seen = rows.of_columns(np.array([column]))
            jet, pullback_of_column = jet_and_pullback(factor.of(position), seen)
            jets.append(jet)
            pullbacks.append(pullback_of_column)
    zero = np.zeros(jets[0].value.shape)
    unit = Jet(zero + 1.0, zero, zero, zero)
    nothing = Jet(zero, zero, zero, zero)
    # e_r of the first q columns: e_r ← e_r + k_q e_{r-1}
    orders = [unit] + [nothing] * kernel.order
    before = []
    for jet in jets:
        before.append(orders)
        steps = [jet.times(lower) for lower in orders[:-1]]
        higher = [e.plus(step) for e, step in zip(orders[1:], steps, strict=True)]
        orders = [unit, *higher]
    amplitudes = kernel._by_order / n_subsets(kernel.order, len(jets))
    total = nothing
    for amplitude, order in zip(amplitudes, orders[1:], strict=True):
        total = total.plus(order.scaled(amplitude))

    def pullback(G: Jet) -> Array:
        of_orders = np.array(
            [a * e.inner(G) for a, e in zip(amplitudes, orders[1:], strict=True)]
        )
        # back through the recursion, from the last column to the first
        cotangents = [nothing] + [G.scaled(amplitude) for amplitude in amplitudes]
        of_columns = np.zeros(len(jets))
        for i in range(len(jets) - 1, -1, -1):
            of_jet = nothing
            for r in range(1, kernel.order + 1):
                of_jet = of_jet.plus(before[i][r - 1].cotangent(cotangents[r]))
            of_columns[i] = pullbacks[i](of_jet)[0]
            for r in range(1, kernel.order + 1):
                lower = jets[i].cotangent(cotangents[r])
                cotangents[r - 1] = cotangents[r - 1].plus(lower)
        return kernel._free_slopes(factors, of_orders, of_columns)

    return total, pullback
