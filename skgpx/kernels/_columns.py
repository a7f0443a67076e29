"""Kernels of some columns of X, and of columns that hold categories."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter

from skgpx._types import AnyArray, Array, Index, Kernel, Mask
from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    flat_inputs,
    matrix_and_input_pullback,
    matrix_and_pullback,
    stacked_triangles,
)
from skgpx.kernels._registry import (
    Bounds,
    RuledKernel,
    ValuesAndPullback,
    free_slopes,
    is_rule,
)


class DerivedKernel(Kernel):
    """A kernel built from another one, `kernel`, and from hyperparameters of its own.

    The names of the latter are in `parameter_names`; in theta they follow the
    hyperparameters of `kernel`.
    """

    parameter_names: tuple[str, ...] = ()
    kernel: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this kernel and, if ``deep``, of the inner kernel."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, value in self.kernel.get_params(deep=True).items():
                params[f"kernel__{name}"] = value
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Specifications, first of the inner kernel."""
        specifications = [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]
        for name in self.parameter_names:
            specifications.append(getattr(self, f"hyperparameter_{name}"))
        return specifications

    @property
    def _free_names(self) -> list[str]:
        return [
            name
            for name in self.parameter_names
            if not getattr(self, f"hyperparameter_{name}").fixed
        ]

    def _value(self, name: str) -> Any:
        """Value of a hyperparameter, where None stands for one."""
        return getattr(self, name)

    @property
    def theta(self) -> Array:
        """Logarithms of the free hyperparameters, shape (n_theta,)."""
        values = [np.ravel(self._value(name)) for name in self._free_names]
        return np.concatenate((self.kernel.theta, *map(np.log, values)))

    @theta.setter
    def theta(self, theta: Array) -> None:
        """Set the free hyperparameters from their logarithms."""
        if len(theta) != self.n_dims:
            raise ValueError(
                f"{type(self).__name__} expects theta of length {self.n_dims}; got "
                f"{len(theta)}."
            )
        n_read = self.kernel.n_dims
        self.kernel.theta = theta[:n_read]
        for name in self._free_names:
            shape = np.shape(self._value(name))
            size = int(np.prod(shape))
            values = np.exp(theta[n_read : n_read + size])
            setattr(self, name, values.reshape(shape) if shape else values.item())
            n_read += size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DerivedKernel) or type(self) is not type(other):
            return False
        params = self.get_params(deep=False)
        other_params = other.get_params(deep=False)
        if params.pop("kernel") != other_params.pop("kernel"):
            return False
        return all(
            np.array_equal(value, other_params[name]) for name, value in params.items()
        )

    __hash__ = None  # type: ignore[assignment]


class MappedKernel(DerivedKernel):
    """A kernel of inputs that a linear map makes of the columns."""

    def _around(self, kernel: Kernel) -> Self:
        """The same map for another kernel."""
        mapped = copy.copy(self)
        mapped.kernel = kernel
        return mapped

    def part(self, X: AnyArray) -> AnyArray:
        """Inputs of the inner kernel at the rows of X, shape (n, q)."""
        raise NotImplementedError

    def _pulled_back(self, slopes: Array, n_features: int) -> Array:
        """Slopes in the columns (n, d), from slopes in the inputs (n, q)."""
        raise NotImplementedError

    def is_stationary(self) -> bool:
        """Whether the inner kernel is stationary."""
        return bool(self.kernel.is_stationary())

    def __call__(
        self,
        X: Array,
        Y: Array | None = None,
        eval_gradient: bool = False,
    ) -> Any:
        """Inner kernel of the inputs, and its gradient on request."""
        right = None if Y is None else self.part(Y)
        return self.kernel(self.part(X), right, eval_gradient)

    def diag(self, X: Array) -> Array:
        """Prior variances, shape (n,)."""
        return self.kernel.diag(self.part(X))


class Columns(MappedKernel):
    """A kernel of some columns of X: the function does not depend on the others.

    A sum of such kernels is an additive model, a product an interaction. Gradients,
    frequencies and draws of the inner kernel carry over to this one.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the chosen columns, in their order.
    columns : int, str, slice, callable, or sequence of int, str or bool
        Which columns, as ColumnTransformer takes them. The estimators of this library
        resolve names, and callables that map a DataFrame (without its rows) to columns,
        such as scikit-learn's make_column_selector: their ``kernel_`` has numbers.
        Elsewhere X is an array, and only numbers, slices and masks are meaningful.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import Columns
    >>> kernel = Columns(RBF(1.0), [0]) + Columns(RBF([0.1, 10.0]), slice(1, 3))
    >>> kernel(np.zeros((1, 3)), np.array([[0.0, 9.0, 0.0]]))
    array([[1.]])
    """

    def __init__(self, kernel: Kernel, columns: Any) -> None:
        self.kernel = kernel
        self.columns = columns

    def part(self, X: AnyArray) -> AnyArray:
        """Columns of X that the inner kernel sees, shape (n, q)."""
        X = np.atleast_2d(X)
        columns = self.columns
        if isinstance(columns, slice):
            return X[:, columns]
        columns = np.atleast_1d(columns)
        if columns.dtype.kind not in "iub" or columns.ndim != 1:
            raise ValueError(
                "Columns of an array are integers, a slice or a mask; got columns="
                f"{self.columns!r}. Names and callables need a DataFrame, and an "
                "estimator of skgpx, which resolves them."
            )
        n_columns = X.shape[1]
        if columns.dtype.kind == "b":
            out_of_range = len(columns) != n_columns
        else:
            # from -n_columns to n_columns - 1
            out_of_range = np.any(abs(columns + 0.5) > n_columns)
        if out_of_range:
            raise ValueError(
                f"columns={self.columns!r} of a kernel are not those of X: X has "
                f"{n_columns} columns. Give numbers from 0 to {n_columns - 1}, or a "
                f"mask of {n_columns} entries."
            )
        return X[:, columns]

    def indices(self, n_features: int) -> AnyArray:
        """Numbers of the columns among n_features, shape (q,)."""
        numbers = np.arange(n_features)[np.newaxis]
        return self.part(numbers)[0]

    def _pulled_back(self, slopes: Array, n_features: int) -> Array:
        """Slopes in all columns: the kernel does not depend on the others."""
        slopes_of_columns = np.zeros((len(slopes), n_features))
        slopes_of_columns[:, self.indices(n_features)] = slopes
        return slopes_of_columns

    def __repr__(self) -> str:
        columns = self.columns
        if isinstance(columns, np.ndarray):
            columns = columns.tolist()
        return f"Columns({self.kernel!r}, {columns!r})"


class Directions(MappedKernel):
    """A kernel of linear combinations of the columns: ``k(Dᵀx, Dᵀz)``.

    For functions that vary along directions that are not columns, such as the sum of
    two angles: with a lengthscale for each direction that is a kernel of a Mahalanobis
    distance. Gradients, frequencies and draws of the inner kernel carry over to this
    one.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the combinations, in their order.
    directions : array-like of shape (d, q)
        D, a combination in each column; it stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import Directions
    >>> kernel = Directions(RBF(1.0), [[1.0], [1.0]])
    >>> kernel(np.zeros((1, 2)), np.array([[0.5, -0.5]]))
    array([[1.]])
    """

    def __init__(self, kernel: Kernel, directions: Any) -> None:
        self.kernel = kernel
        self.directions = directions

    def _matrix(self, n_features: int) -> Array:
        """D, shape (d, q), of so many columns."""
        D = np.asarray(self.directions)
        is_matrix = D.dtype.kind in "iuf" and D.ndim == 2 and len(D) == n_features
        if not is_matrix or not (np.isfinite(D).all() and D.any(axis=0).all()):
            raise ValueError(
                "The directions of a kernel have a row for each column of X, and each "
                "direction is a column of finite numbers that are not all zero: "
                f"expected shape ({n_features}, q); got {self.directions!r}."
            )
        if D.shape[1] == 0:
            raise ValueError(f"A kernel has at least one direction; got {D!r}.")
        return D.astype(np.float64)

    def part(self, X: AnyArray) -> AnyArray:
        """Combinations of the columns, shape (n, q)."""
        X = np.atleast_2d(X)
        return _combined(X, self._matrix(X.shape[1]))

    def _pulled_back(self, slopes: Array, n_features: int) -> Array:
        """Slopes in the columns, by the chain rule."""
        return _combined(slopes, self._matrix(n_features).T)

    def __repr__(self) -> str:
        directions = np.round(self.directions, 3).tolist()
        return f"Directions({self.kernel!r}, {directions})"


def _combined(X: Array, D: Array) -> Array:
    """``X @ D``, one column after the other: no row depends on how many there are."""
    combinations = np.zeros((len(X), D.shape[1]))
    for column, weights in zip(X.T, D, strict=True):
        combinations += column[:, np.newaxis] * weights
    return combinations


@is_rule("pullback", Columns, Directions)
def _matrix(kernel: MappedKernel, X: Array, Y: Array | None) -> ValuesAndPullback:
    right = None if Y is None else kernel.part(Y)
    return matrix_and_pullback(kernel.kernel, kernel.part(X), right)


@is_rule("stacked", Columns, Directions)
def _stacked(kernel: MappedKernel, points: Array) -> Array:
    s, n, d = points.shape
    inner_points = kernel.part(points.reshape(s * n, d)).reshape(s, n, -1)
    return stacked_triangles(kernel.kernel, np.ascontiguousarray(inner_points))


@is_rule("diagonal_pullback", Columns, Directions)
def _diagonal(kernel: MappedKernel, X: Array) -> ValuesAndPullback:
    return diagonal_and_pullback(kernel.kernel, kernel.part(X))


@is_rule("input_gradient", Columns, Directions)
def _inputs(kernel: MappedKernel, X: Array, Z: Array) -> ValuesAndPullback:
    left = kernel.part(X)
    right = kernel.part(Z)
    K, inner_pullback = matrix_and_input_pullback(kernel.kernel, left, right)

    def pullback(G: Array) -> Array:
        return kernel._pulled_back(inner_pullback(G), X.shape[1])

    return K, pullback


def inner_kernels(kernel: Kernel | None) -> list[Kernel]:
    """Kernels from which a kernel is composed."""
    parts = [getattr(kernel, name, None) for name in ("kernel", "k1", "k2")]
    parts += getattr(kernel, "kernels", ())
    return [part for part in parts if isinstance(part, Kernel)]


def with_resolved_columns(
    kernel: Kernel,
    resolve: Callable[[Any], Any],
) -> Kernel:
    """Apply `resolve` to the columns of every Columns inside a kernel, in place.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        A copy of the caller, which is changed and returned.
    resolve : callable
        Maps the columns that the user gave to numbers, where they are names.
    """
    for part in inner_kernels(kernel):
        with_resolved_columns(part, resolve)
    if type(kernel) is Columns:
        kernel.columns = resolve(kernel.columns)
    return kernel


class UnitVarianceKernel(RuledKernel):
    """Kernel of categories, of variance one."""

    def is_stationary(self) -> bool:
        """Return True: the variance is one everywhere."""
        return True

    def diag(self, X: Array) -> Array:
        """Ones, shape (n,)."""
        return np.ones(len(X))


class CategoricalKernel(UnitVarianceKernel):
    """Exchangeable categories: one correlation between any two different ones.

    ``k(x, y) = Π_i ρ_i^[x_i ≠ y_i]``: ρ is the correlation of the function at two
    different categories. With ρ near one categories do not matter; near zero each has a
    function of its own. Multiply it by a kernel of the other columns for functions that
    differ by category, or add it for a random intercept.

    Parameters
    ----------
    correlation : float or ndarray of shape (q,), default=0.5
        ρ, above zero and at most one; one for all columns, or one each.
    correlation_bounds : pair of floats, array or "fixed", default=(1e-3, 1.0)
        Bounds of ρ; an array has shape (q, 2).
    n_categories : int, default=None
        If given, codes are the integers from 0 to ``n_categories - 1``, and posterior
        functions have features; without, draws are made point by point.

    Notes
    -----
    Columns hold codes, for example from an OrdinalEncoder. Codes are compared for
    equality only.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import CategoricalKernel, Columns
    >>> kernel = Columns(RBF(2.0), [0]) * Columns(CategoricalKernel(0.25), [1])
    >>> kernel(np.array([[0.0, 1.0], [0.0, 2.0]]))
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    def __init__(
        self,
        correlation: float | Array = 0.5,
        correlation_bounds: Bounds = (1e-3, 1.0),
        n_categories: int | None = None,
    ) -> None:
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.n_categories = n_categories

    hyperparameter_correlation = RuledKernel._specified("correlation")

    def _differing(self, X: Array, Y: Array | None) -> Mask:
        """Whether entries differ, by column, (n, m, q)."""
        right = X if Y is None else Y
        if self.n_categories is not None:
            codes = np.concatenate((X, right))
            unknown = codes[~np.isin(codes, np.arange(self.n_categories))]
            if len(unknown):
                raise ValueError(
                    f"CategoricalKernel with n_categories={self.n_categories} expects "
                    f"codes 0 to {self.n_categories - 1}; got {unknown[0]:g}."
                )
        return X[:, np.newaxis] != right

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        K = self(X)
        differing = self._differing(X, None)
        # ∂k / ∂log ρ_i = k [x_i ≠ y_i]
        slopes = K[:, :, np.newaxis] * differing
        return K, free_slopes(self.hyperparameter_correlation, slopes)

    def __repr__(self) -> str:
        return f"CategoricalKernel(correlation={np.round(self.correlation, 3)})"


@is_rule("pullback", CategoricalKernel)
def _categories(
    kernel: CategoricalKernel,
    X: Array,
    Y: Array | None,
) -> ValuesAndPullback:
    differing = kernel._differing(X, Y)
    correlations = kernel._by_column("correlation", differing.shape[2], highest=1.0)
    # log k = Σ_i [x_i ≠ y_i] log ρ_i
    K = np.exp(differing @ np.log(correlations))

    def pullback(G: Array) -> Array:
        slopes = np.einsum("ij,ijq->q", G * K, differing)
        return free_slopes(kernel.hyperparameter_correlation, slopes)

    return K, pullback


# ---- Categories with correlations of their own ---------------------------------------


class Coregionalization(UnitVarianceKernel):
    """Categories with correlations of low rank: the intrinsic model of targets.

    ``k(x, y) = B[x, y]`` with ``B = A A^T + diag(v)`` and ones on the diagonal of B; A
    has shape (K, rank) and entries of either sign. Multiplied by a kernel of the
    other columns it is the intrinsic model of coregionalization [1]_ of K standardised
    targets. A column of X holds the number of the target: each row holds one target,
    and targets may be missing.

    Parameters
    ----------
    n_categories : int
        K; codes are the integers from 0 to K - 1.
    rank : int, default=1
        Columns of A.
    angles : ndarray of shape (K * rank,), default=None
        Row i of A is ``(cos a_1, sin a_1 cos a_2, ...)`` in its angles. None is
        where a search begins, with correlations of about a half.
    angles_bounds : pair of floats, array or "fixed", default=(0.05, 3.09)
        Bounds of the angles, between 0 and pi: 0.05 is a loading of 0.999.

    References
    ----------
    .. [1] Alvarez, Rosasco and Lawrence, "Kernels for vector-valued functions: a
       review", Foundations and Trends in Machine Learning 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import Columns, Coregionalization
    >>> kernel = Columns(RBF(2.0), [0]) * Columns(Coregionalization(3), [1])
    >>> kernel(np.array([[0.0, 0.0], [0.0, 2.0]])).round(2)
    array([[1.  , 0.48],
           [0.48, 1.  ]])
    """

    def __init__(
        self,
        n_categories: int,
        rank: int = 1,
        angles: Array | None = None,
        angles_bounds: Bounds = (0.05, 3.09),
    ) -> None:
        self.n_categories = n_categories
        self.rank = rank
        # equal rows of A would never part
        start = np.linspace(0.7, 0.9, n_categories * rank)
        self.angles = start if angles is None else angles
        self.angles_bounds = angles_bounds

    hyperparameter_angles = RuledKernel._specified("angles")

    def loadings(self) -> Array:
        """A, shape (K, rank)."""
        size = self.n_categories * self.rank
        if self.rank < 1 or np.shape(self.angles) != (size,):
            raise ValueError(
                "Coregionalization expects a rank of at least 1 and angles of shape "
                f"(n_categories * rank,); got rank {self.rank} and angles of shape "
                f"{np.shape(self.angles)} for {self.n_categories} categories."
            )
        angles = np.reshape(self.angles, (self.n_categories, self.rank))
        # A_ij = cos a_ij Π_{l<j} sin a_il
        loadings: Array = np.cos(angles)
        sine_products = np.cumprod(np.sin(angles), axis=1)
        loadings[:, 1:] *= sine_products[:, :-1]
        return loadings

    def correlations(self) -> Array:
        """B, shape (K, K)."""
        A = self.loadings()
        B: Array = A @ A.T
        np.fill_diagonal(B, 1.0)
        return B

    def _codes(self, X: Array) -> Index:
        n_columns = X.shape[1]
        is_code = np.isin(X, np.arange(self.n_categories))
        if n_columns != 1 or not np.all(is_code):
            raise ValueError(
                f"Coregionalization expects one column of codes from 0 to "
                f"{self.n_categories - 1}; got {n_columns} columns with values from "
                f"{X.min():g} to {X.max():g}. Wrap it: Columns(kernel, [column])."
            )
        return X[:, 0].astype(np.intp)

    def _slopes(self, G: Array) -> Array:
        """``Σ G dB / d log angle``, (p,), from derivatives G in B (K, K)."""
        A = self.loadings()
        angles = np.reshape(self.angles, (len(G), self.rank))
        # the diagonal of B is one, whatever the angles
        symmetric = G + G.T
        np.fill_diagonal(symmetric, 0.0)
        # A_ij ∂/∂A_ij
        log_slopes = A * (symmetric @ A)
        # an angle enters the cosine of its column, and the sines of all later columns
        reversed_sums = np.cumsum(log_slopes[:, ::-1], axis=1)
        later_columns = reversed_sums[:, ::-1] - log_slopes
        tangents = np.tan(angles)
        by_angle = later_columns / tangents - log_slopes * tangents
        return free_slopes(self.hyperparameter_angles, (angles * by_angle).ravel())

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        codes = self._codes(X)
        K = self.n_categories
        # derivatives of every entry of B, (K, K, p)
        units = np.eye(K * K).reshape(K * K, K, K)
        entry_slopes = [self._slopes(unit) for unit in units]
        slopes = np.reshape(entry_slopes, (K, K, -1))
        return self(X), slopes[codes[:, np.newaxis], codes]

    def __repr__(self) -> str:
        return f"Coregionalization({self.correlations().round(2).tolist()})"


@is_rule("pullback", Coregionalization)
def _targets(
    kernel: Coregionalization,
    X: Array,
    Y: Array | None,
) -> ValuesAndPullback:
    left_codes = kernel._codes(X)
    right_codes = left_codes if Y is None else kernel._codes(Y)

    def pullback(G: Array) -> Array:
        # derivatives in B: sums of G over the rows and columns of each pair of codes
        one_hot = np.eye(kernel.n_categories)
        return kernel._slopes(one_hot[left_codes].T @ G @ one_hot[right_codes])

    return kernel.correlations()[left_codes[:, np.newaxis], right_codes], pullback


is_rule("input_gradient", CategoricalKernel, Coregionalization)(flat_inputs)
