"""Additive kernels: functions that are sums of functions of a few columns each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import comb
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Hyperparameter, Product

from skgpx._numerics.additive import additive_row, additive_rows, additive_slopes
from skgpx._numerics.linalg import mirrored
from skgpx._numerics.radial import CATEGORY, NUMBER, RBF
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.kernels._columns import CategoricalKernel, Columns, DerivedKernel
from skgpx.kernels._matrices import radial_code
from skgpx.kernels._registry import (
    Bounds,
    RuledKernel,
    ValuesAndPullback,
    free_slopes,
    is_rule,
    no_sampler,
)


class Factor(NamedTuple):
    """A kernel inside an additive one: a product of kernels of one column each.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        An RBF, a Matern kernel, or a `CategoricalKernel`.
    columns : ndarray of int of shape (q,)
        That it sees.
    """

    kernel: Kernel
    columns: Index

    @property
    def is_of_categories(self) -> bool:
        """Whether its columns are categories."""
        return type(self.kernel) is CategoricalKernel

    @property
    def name(self) -> str:
        """Of its hyperparameter."""
        return "correlation" if self.is_of_categories else "length_scale"

    @property
    def code(self) -> int:
        """Of the kernel of each column: a constant of ``radial``, -1 of another one."""
        # ρ^[x ≠ y] = exp(-½ v [x ≠ y]) with v = -2 log ρ
        code = RBF if self.is_of_categories else radial_code(self.kernel)
        return -1 if code is None else code

    @property
    def inverse_squares(self) -> Array:
        """Of the lengthscales of its columns, or ``-2 log ρ``, shape (q,)."""
        values = np.asarray(getattr(self.kernel, self.name), dtype=np.float64)
        scales = -2.0 * np.log(values) if self.is_of_categories else values**-2.0
        return np.broadcast_to(scales, self.columns.shape)

    def of(self, position: int) -> Kernel:
        """The kernel of one of its columns, with a free hyperparameter."""
        values = np.broadcast_to(getattr(self.kernel, self.name), self.columns.shape)
        bounds = {f"{self.name}_bounds": (1e-9, 1e9)}
        return clone(self.kernel).set_params(
            **{self.name: float(values[position])}, **bounds
        )


class Additive(RuledKernel, DerivedKernel):
    """Sums of functions of one column, of pairs of columns, and so on up to an order.

    ``k(x, y) = Σ_r v_r e_r(k_1, ..., k_d) / C(d, r)``, where e_r is the sum of all
    products of r of the d kernels k_q of one column each, and C(d, r) their number: v_r
    is the variance of all functions of r columns together. Where a function has such a
    form, some hundred rows of ten columns tell it as well as they tell one of two
    columns; a product of all kernels, such as an RBF, takes many thousands.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The product of the k_q: an RBF, a Matern kernel of order 1/2, 3/2 or 5/2 or a
        `CategoricalKernel`, or a product of these inside `Columns`. Of a Matern kernel
        of several columns it is the product of one in each, not the kernel of their
        common distance. A hyperparameter of one value is shared by its columns.
    order : int, default=2
        Most columns R of a term, at most 10; with as many as there are it includes the
        product.
    variances : float or ndarray of shape (R,), default=None
        v_1, ..., v_R, in squares of the unit of f. A single number is that of each
        order; None stands for R of sum one.
    variances_bounds : pair of floats, array or "fixed", default=(1e-5, 1e5)
        Bounds of the variances; an array has shape (R, 2).

    Raises
    ------
    ValueError
        Where it is evaluated: if the kernel has other parts, or sees a column twice.

    Notes
    -----
    By the recursion of [1]_ in O(d R) for an entry of the matrix. Hyperparameters of
    ``kernel`` come first, then the variances.

    References
    ----------
    .. [1] Duvenaud, Nickisch and Rasmussen, "Additive Gaussian processes", NeurIPS
       2011, equation (11).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import Additive
    >>> kernel = Additive(RBF([1.0, 2.0, 3.0]), order=2, variances=[3.0, 6.0])
    >>> kernel(np.zeros((1, 3)), np.array([[0.0, 0.0, 100.0]]))
    array([[4.]])
    """

    parameter_names = ("variances",)

    def __init__(
        self,
        kernel: Kernel,
        order: int = 2,
        variances: float | Array | None = None,
        variances_bounds: Bounds = (1e-5, 1e5),
    ) -> None:
        self.kernel = kernel
        self.order = order
        self.variances = variances
        self.variances_bounds = variances_bounds

    @property
    def hyperparameter_variances(self) -> Hyperparameter:
        """Specification of ``variances``."""
        size = np.size(self._value("variances"))
        return Hyperparameter("variances", "numeric", self.variances_bounds, size)

    def _value(self, name: str) -> Any:
        if name == "variances" and self.variances is None:
            self._check_order()
            return np.full(self.order, 1.0 / self.order)
        return getattr(self, name)

    def _check_order(self) -> None:
        is_number = isinstance(self.order, int | np.integer)
        # slopes of higher orders would lose digits: a polynomial without one column is
        # a difference
        if not is_number or not 1 <= self.order <= 10:
            raise ValueError(
                "Additive expects an order from 1 to 10, the most columns of a term; "
                f"got {self.order!r}. Of all columns together take `kernel`."
            )

    def __repr__(self) -> str:
        described = f"{self.kernel!r}, order={self.order!r}"
        if self.variances is not None:
            described += f", variances={np.round(self.variances, 3).tolist()}"
        return f"Additive({described})"

    def is_stationary(self) -> bool:
        """Return True: the variance is the same everywhere."""
        return True

    def diag(self, X: Array) -> Array:
        """Prior variances ``Σ_r v_r``, shape (n,)."""
        total = float(np.sum(self._by_order))
        return np.full(len(X), total)

    @property
    def _by_order(self) -> Array:
        """Variance of each order, shape (R,).

        Raises
        ------
        ValueError
            If there is neither one nor one of each, or one is not positive.
        """
        self._check_order()
        variances = np.asarray(self._value("variances"), dtype=np.float64)
        if variances.size not in (1, self.order):
            raise ValueError(
                "Additive expects one variance, or one for each order; got order="
                f"{self.order!r} and {variances.size} variances."
            )
        if not np.all(variances > 0.0):
            raise ValueError(f"Additive expects positive variances; got {variances}.")
        return np.broadcast_to(variances, (self.order,))

    def _factors_of(self, columns: Index) -> list[Factor]:
        """Parts of the inner kernel, in the order of their hyperparameters.

        Of an additive kernel of these columns.

        Raises
        ------
        ValueError
            If there are others than kernels of one column each.
        """
        factors = _factors(self.kernel, columns)
        for factor in factors:
            size = np.size(getattr(factor.kernel, factor.name, np.empty(0)))
            if factor.code < 0 or size not in (1, len(factor.columns)):
                raise ValueError(
                    "Additive expects RBFs, Matern kernels of order 0.5, 1.5 or 2.5 "
                    "and CategoricalKernels of one value, or one for each of their "
                    f"columns, and products of them; got {factor.kernel!r} of "
                    f"{len(factor.columns)} columns."
                )
        seen = np.concatenate([factor.columns for factor in factors])
        if len(np.unique(seen)) < len(seen):
            raise ValueError(
                "Additive expects a product of kernels of different columns; got "
                f"{self.kernel!r}, which sees one of them twice. Wrap each part in "
                "Columns."
            )
        if self.order > len(seen):
            raise ValueError(
                f"Additive of order {self.order} expects as many columns; got "
                f"{len(seen)}."
            )
        return factors

    def _free_slopes(
        self,
        factors: list[Factor],
        of_orders: Array,
        of_columns: Array,
    ) -> Array:
        """Slopes (..., p) in theta, from those of orders (..., R) and columns (..., d).

        The second ones are in the logarithm of the hyperparameter of each column.
        """
        stops = np.cumsum([len(factor.columns) for factor in factors])
        slopes = [
            free_slopes(getattr(factor.kernel, f"hyperparameter_{factor.name}"), part)
            for factor, part in zip(
                factors, np.split(of_columns, stops[:-1], axis=-1), strict=True
            )
        ]
        slopes.append(free_slopes(self.hyperparameter_variances, of_orders))
        return np.concatenate(slopes, axis=-1)

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        additive_sum = _Sum.of(self, X.shape[1])
        return additive_sum.gradient(self, X)


def n_subsets(order: int, n_columns: int) -> Array:
    """How many subsets of 1, ..., R columns there are, shape (R,)."""
    return comb(n_columns, np.arange(1, order + 1))


def _factors(kernel: Kernel, columns: Index) -> list[Factor]:
    """Parts of a product of kernels of these columns."""
    if type(kernel) is Product:
        return _factors(kernel.k1, columns) + _factors(kernel.k2, columns)
    if type(kernel) is Columns:
        return _factors(kernel.kernel, columns[kernel.indices(len(columns))])
    return [Factor(kernel, columns)]


class _Sum(NamedTuple):
    """Arguments of the compiled sums over subsets of columns.

    Attributes
    ----------
    factors : list of Factor
    columns, codes, kinds : ndarray of int of shape (d,)
    inverse_squares : ndarray of shape (d,)
    amplitudes : ndarray of shape (R,)
    """

    factors: list[Factor]
    columns: Index
    codes: Index
    kinds: Index
    inverse_squares: Array
    amplitudes: Array

    @classmethod
    def of(cls, kernel: Additive, n_features: int) -> _Sum:
        """Those of a kernel of so many columns."""
        factors = kernel._factors_of(np.arange(n_features))
        sizes = [len(factor.columns) for factor in factors]
        kinds = [CATEGORY if factor.is_of_categories else NUMBER for factor in factors]
        codes = [factor.code for factor in factors]
        return cls(
            factors=factors,
            columns=np.concatenate([factor.columns for factor in factors]),
            codes=np.repeat(codes, sizes).astype(np.intp),
            kinds=np.repeat(kinds, sizes).astype(np.intp),
            inverse_squares=np.concatenate(
                [factor.inverse_squares for factor in factors]
            ),
            amplitudes=kernel._by_order / n_subsets(kernel.order, sum(sizes)),
        )

    def points(self, X: Array) -> Array:
        """Columns that the kernel sees, shape (n, d)."""
        return np.ascontiguousarray(X[:, self.columns], dtype=np.float64)

    def rows(self, X: Array, Y: Array, is_triangle: bool) -> Array:
        """The matrix between X and Y, of a triangle its lower one."""
        K = np.zeros((len(X), len(Y)))
        additive_rows(
            self.codes,
            self.kinds,
            self.inverse_squares,
            self.amplitudes,
            np.ascontiguousarray(self.points(Y).T),
            self.points(X),
            is_triangle,
            K,
        )
        return K

    def slopes(
        self,
        X: Array,
        Y: Array,
        is_triangle: bool,
        G: Array,
    ) -> tuple[Array, Array, Array]:
        """Sums of `additive_slopes`: of orders (R,), columns (d,) and inputs (n, d)."""
        points = self.points(X)
        of_orders = np.zeros(len(self.amplitudes))
        of_columns = np.zeros(len(self.columns))
        of_inputs = np.empty(points.shape)
        additive_slopes(
            self.codes,
            self.kinds,
            self.inverse_squares,
            self.amplitudes,
            np.ascontiguousarray(self.points(Y).T),
            points,
            is_triangle,
            np.ascontiguousarray(G),
            of_orders,
            of_columns,
            of_inputs,
        )
        return of_orders, of_columns, of_inputs

    def gradient(self, kernel: Additive, X: Array) -> tuple[Array, Array]:
        """Matrix (n, n) of the rows of X, and all its slopes (n, n, p)."""
        n = len(X)
        d = len(self.columns)
        points = np.ascontiguousarray(self.points(X).T)
        is_category = self.kinds == CATEGORY
        K = np.empty((n, n))
        gradient = np.empty((n, n, kernel.n_dims))
        orders = np.empty((len(self.amplitudes), n))
        values, slopes = np.empty((2, d, n))
        for i in range(n):
            place = points[:, i].copy()
            additive_row(
                self.codes,
                self.kinds,
                self.inverse_squares,
                self.amplitudes,
                points,
                place,
                0,
                n,
                orders,
                values,
                slopes,
            )
            squares = (points - place[:, np.newaxis]) ** 2
            squares[is_category] = squares[is_category] > 0.0
            K[i] = orders.sum(axis=0)
            gradient[i] = self.in_theta(kernel, orders.T, (slopes * squares).T)
        return K, gradient

    def in_theta(
        self,
        kernel: Additive,
        of_orders: Array,
        of_columns: Array,
    ) -> Array:
        """Slopes (..., p) in the log-parameters, of sums (..., R) and (..., d)."""
        # ∂ exp(-½ v) / ∂ log ρ = exp(-½ v) where categories differ, and
        # ∂k / ∂ log ℓ = w r² / ℓ²
        rates = np.where(self.kinds == CATEGORY, 1.0, self.inverse_squares)
        return kernel._free_slopes(self.factors, of_orders, rates * of_columns)


@is_rule("pullback", Additive)
def _matrix(kernel: Additive, X: Array, Y: Array | None) -> ValuesAndPullback:
    additive_sum = _Sum.of(kernel, X.shape[1])
    right = X if Y is None else Y

    def pullback(G: Array) -> Array:
        of_orders, of_columns, _ = additive_sum.slopes(X, right, False, G)
        return additive_sum.in_theta(kernel, of_orders, of_columns)

    if Y is None:
        return mirrored(additive_sum.rows(X, X, is_triangle=True)), pullback
    return additive_sum.rows(X, Y, is_triangle=False), pullback


@is_rule("triangle", Additive)
def _triangle(kernel: Additive, X: Array) -> ValuesAndPullback:
    additive_sum = _Sum.of(kernel, X.shape[1])

    def pullback(G: Array) -> Array:
        of_orders, of_columns, _ = additive_sum.slopes(X, X, True, G)
        return additive_sum.in_theta(kernel, of_orders, of_columns)

    return additive_sum.rows(X, X, is_triangle=True), pullback


@is_rule("diagonal_pullback", Additive)
def _diagonal(kernel: Additive, X: Array) -> ValuesAndPullback:
    additive_sum = _Sum.of(kernel, X.shape[1])

    def pullback(g: Array) -> Array:
        of_orders = g.sum() * kernel._by_order
        return additive_sum.in_theta(
            kernel, of_orders, np.zeros(len(additive_sum.columns))
        )

    return kernel.diag(X), pullback


@is_rule("input_gradient", Additive)
def _inputs(kernel: Additive, X: Array, Z: Array) -> ValuesAndPullback:
    additive_sum = _Sum.of(kernel, X.shape[1])

    def pullback(G: Array) -> Array:
        _, _, of_inputs = additive_sum.slopes(X, Z, False, G)
        # ∇ₓ k = s (z - x) / ℓ², zero of categories and of other columns
        slopes = np.zeros(X.shape)
        slopes[:, additive_sum.columns] = of_inputs * additive_sum.inverse_squares
        return slopes

    return additive_sum.rows(X, Z, is_triangle=False), pullback


@is_rule("spectral_sampler", Additive)
def _frequencies(
    kernel: Additive,
    n_frequencies: int,
    d: int,
    rng: Generator,
) -> Array:
    """Frequencies of some columns each, and zeros: of a subset of random order."""
    factors = kernel._factors_of(np.arange(d))
    if any(factor.is_of_categories for factor in factors):
        raise no_sampler(kernel, kernel, ", which a column of categories has not")
    columns = np.concatenate([factor.columns for factor in factors])
    # 1 frequencies of every column, ω = z √(2ν / χ²_2ν) / ℓ, z / ℓ of an RBF
    of_columns = []
    for factor in factors:
        q = len(factor.columns)
        waves = rng.standard_normal((n_frequencies, q))
        nu = float(getattr(factor.kernel, "nu", np.inf))
        if np.isfinite(nu):
            waves *= np.sqrt(2.0 * nu / rng.chisquare(2.0 * nu, (n_frequencies, q)))
        of_columns.append(waves * np.sqrt(factor.inverse_squares))
    # 2 the order by its share of the variance, and a random subset of so many columns
    shares = kernel._by_order / np.sum(kernel._by_order)
    orders = 1 + rng.choice(kernel.order, size=n_frequencies, p=shares)
    ranks = rng.random((n_frequencies, len(columns))).argsort(axis=1).argsort(axis=1)
    is_chosen = ranks < orders[:, np.newaxis]
    frequencies = np.zeros((n_frequencies, d))
    frequencies[:, columns] = np.hstack(of_columns) * is_chosen
    return frequencies
