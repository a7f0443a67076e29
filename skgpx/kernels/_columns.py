"""Kernels of some columns of X, and of columns that hold categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    matrix_and_input_pullback,
    matrix_and_pullback,
    stacked_triangles,
)
from skgpx.kernels._registry import Array, Pullback, RuledKernel, free_slopes, is_rule


class DerivedKernel(Kernel):
    """A kernel made of another one, `kernel`, and of hyperparameters of its own.

    They follow those of `kernel`; `own` holds their names.
    """

    own: tuple[str, ...] = ()
    kernel: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this kernel and, if ``deep``, of the inner kernel."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            inner = self.kernel.get_params(deep=True)
            params.update((f"kernel__{name}", value) for name, value in inner.items())
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Specifications: those of the inner kernel, then its own."""
        inner = [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]
        return [*inner, *(getattr(self, f"hyperparameter_{name}") for name in self.own)]

    @property
    def _free(self) -> list[str]:
        named = self.own
        return [n for n in named if not getattr(self, f"hyperparameter_{n}").fixed]

    @property
    def theta(self) -> Array:
        """Logarithms of the free hyperparameters, shape (n_theta,)."""
        own = np.log([getattr(self, name) for name in self._free])
        return np.append(self.kernel.theta, own)

    @theta.setter
    def theta(self, theta: Array) -> None:
        """Set the free hyperparameters from their logarithms."""
        n_inner, free = self.kernel.n_dims, self._free
        if len(theta) != n_inner + len(free):
            raise ValueError(
                f"{type(self).__name__} expects theta of length "
                f"{n_inner + len(free)}; got {len(theta)}."
            )
        self.kernel.theta = theta[:n_inner]
        for name, value in zip(free, theta[n_inner:], strict=True):
            setattr(self, name, float(np.exp(value)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DerivedKernel) or type(self) is not type(other):
            return False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return mine.pop("kernel") == theirs.pop("kernel") and all(
            np.array_equal(value, theirs[name]) for name, value in mine.items()
        )

    __hash__ = None  # type: ignore[assignment]


class Columns(DerivedKernel):
    """A kernel of some columns of X: the function does not depend on the others.

    A sum of such kernels is an additive model, a product an interaction. Gradients,
    frequencies and draws of the inner kernel carry over to this one.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Of the columns that are chosen, in their order.
    columns : int, str, slice, callable, or sequence of int, str or bool
        Which columns, as ColumnTransformer takes them. Names, and a callable that
        maps a DataFrame (without its rows) to columns, such as those of scikit-learn's
        make_column_selector, are resolved by the estimators of this library,
        whose ``kernel_`` has numbers; elsewhere X is an array, and only numbers,
        slices and masks are meaningful.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import Columns
    >>> kernel = Columns(RBF(1.0), [0]) + Columns(RBF([0.1, 10.0]), slice(1, 3))
    >>> kernel(np.zeros((1, 3)), np.array([[0.0, 9.0, 0.0]]))
    array([[1.]])
    """

    def __init__(self, kernel: Any, columns: Any) -> None:
        self.kernel = kernel
        self.columns = columns

    def part(self, X: Any) -> Any:
        """The columns of X that the inner kernel sees, shape (n, q)."""
        columns = self.columns
        if isinstance(columns, slice):
            return np.atleast_2d(X)[:, columns]
        columns = np.atleast_1d(columns)
        if columns.dtype.kind not in "iub" or columns.ndim != 1:
            raise ValueError(
                "Columns of an array are integers, a slice or a mask; got columns="
                f"{self.columns!r}. Names and callables need a DataFrame, and an "
                "estimator of skgpx, which resolves them."
            )
        X = np.atleast_2d(X)
        n, is_mask = X.shape[1], columns.dtype.kind == "b"
        if len(columns) != n if is_mask else np.any(abs(columns + 0.5) > n):
            raise ValueError(
                f"columns={self.columns!r} of a kernel are not those of X: X has {n} "
                f"columns. Give numbers from 0 to {n - 1}, or a mask of {n} entries."
            )
        return X[:, columns]

    def indices(self, n_features: int) -> Any:
        """Numbers of the columns among n_features, shape (q,)."""
        return self.part(np.arange(n_features)[np.newaxis])[0]

    def is_stationary(self) -> bool:
        """Whether the inner kernel is stationary."""
        return bool(self.kernel.is_stationary())

    def __call__(
        self,
        X: Array,
        Y: Array | None = None,
        eval_gradient: bool = False,
    ) -> Any:
        """Inner kernel of the columns, and its gradient on request."""
        right = None if Y is None else self.part(Y)
        return self.kernel(self.part(X), right, eval_gradient)

    def diag(self, X: Array) -> Array:
        """Prior variances, shape (n,)."""
        variances: Array = self.kernel.diag(self.part(X))
        return variances

    def __repr__(self) -> str:
        columns = self.columns
        columns = columns.tolist() if isinstance(columns, np.ndarray) else columns
        return f"Columns({self.kernel!r}, {columns!r})"


@is_rule("pullback", Columns)
def _matrix(kernel: Columns, X: Array, Y: Array | None) -> tuple[Array, Pullback]:
    right = None if Y is None else kernel.part(Y)
    return matrix_and_pullback(kernel.kernel, kernel.part(X), right)


@is_rule("stacked", Columns)
def _stacked(kernel: Columns, points: Array) -> Array:
    seen = np.ascontiguousarray(points[:, :, kernel.indices(points.shape[2])])
    return stacked_triangles(kernel.kernel, seen)


@is_rule("diagonal_pullback", Columns)
def _diagonal(kernel: Columns, X: Array) -> tuple[Array, Pullback]:
    return diagonal_and_pullback(kernel.kernel, kernel.part(X))


@is_rule("input_gradient", Columns)
def _inputs(kernel: Columns, X: Array, Z: Array) -> tuple[Array, Pullback]:
    K, inner = matrix_and_input_pullback(kernel.kernel, kernel.part(X), kernel.part(Z))

    def pullback(G: Array) -> Array:
        slopes = np.zeros(X.shape)
        slopes[:, kernel.indices(X.shape[1])] = inner(G)
        return slopes

    return K, pullback


def with_resolved_columns(kernel: Any, resolve: Callable[[Any], Any]) -> Any:
    """Apply `resolve` to the columns of every Columns inside a kernel, on a copy.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        A copy that is changed.
    resolve : callable
        Maps what was given as columns to integers.
    """
    for name in ("kernel", "k1", "k2"):
        part = getattr(kernel, name, None)
        if isinstance(part, Kernel):
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
    Columns hold codes, such as those of an OrdinalEncoder: numbers that are
    compared for equality only.

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
        correlation_bounds: Any = (1e-3, 1.0),
        n_categories: int | None = None,
    ) -> None:
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.n_categories = n_categories

    hyperparameter_correlation = RuledKernel._specified("correlation")

    def _differing(self, X: Array, Y: Array | None) -> Array:
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
        K, differing = self(X), self._differing(X, None)
        slopes = K[:, :, np.newaxis] * differing
        return K, free_slopes(self.hyperparameter_correlation, slopes)

    def __repr__(self) -> str:
        return f"CategoricalKernel(correlation={np.round(self.correlation, 3)})"


@is_rule("pullback", CategoricalKernel)
def _categories(
    kernel: CategoricalKernel,
    X: Array,
    Y: Array | None,
) -> tuple[Array, Pullback]:
    differing = kernel._differing(X, Y)
    correlations = kernel._by_column("correlation", differing.shape[2], 1.0)
    K = np.exp(differing @ np.log(correlations))

    def pullback(G: Array) -> Array:
        slopes = np.einsum("ij,ijq->q", G * K, differing)
        return free_slopes(kernel.hyperparameter_correlation, slopes)

    return K, pullback


# ---- Categories with correlations of their own ---------------------------------------


class Coregionalization(UnitVarianceKernel):
    """Categories whose correlations have a low rank: the intrinsic model of targets.

    ``k(x, y) = B[x, y]`` with ``B = A A^T + diag(v)`` and ones on the diagonal of B, A
    of shape (K, rank), whose entries have either sign. Multiplied by a kernel of the
    other columns it is the intrinsic model of coregionalization [1]_ of K standardised
    targets, whose numbers are in a column of X: each row holds one target, and targets
    may be missing.

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
        angles_bounds: Any = (0.05, 3.09),
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
        phi = np.reshape(self.angles, (self.n_categories, self.rank))
        loadings: Array = np.cos(phi)
        loadings[:, 1:] *= np.cumprod(np.sin(phi), axis=1)[:, :-1]
        return loadings

    def correlations(self) -> Array:
        """B, shape (K, K)."""
        A = self.loadings()
        B: Array = A @ A.T
        np.fill_diagonal(B, 1.0)
        return B

    def _codes(self, X: Array) -> Any:
        if X.shape[1] != 1 or not np.all(np.isin(X, np.arange(self.n_categories))):
            raise ValueError(
                f"Coregionalization expects one column of codes from 0 to "
                f"{self.n_categories - 1}; got {X.shape[1]} columns with values from "
                f"{X.min():g} to {X.max():g}. Wrap it: Columns(kernel, [column])."
            )
        return X[:, 0].astype(np.intp)

    def _slopes(self, G: Array) -> Array:
        """``Σ G dB / d log angle``, (p,), from derivatives G in B (K, K)."""
        A, phi = self.loadings(), np.reshape(self.angles, (len(G), self.rank))
        both = G + G.T
        np.fill_diagonal(both, 0.0)
        along = A * (both @ A)
        # of an angle: its own cosine, and the sine that it gives to all columns after
        after = np.cumsum(along[:, ::-1], axis=1)[:, ::-1] - along
        by_angle = after / np.tan(phi) - along * np.tan(phi)
        return free_slopes(self.hyperparameter_angles, (phi * by_angle).ravel())

    def _gradient(self, X: Array) -> tuple[Array, Array]:
        codes, K = self._codes(X), self.n_categories
        units = np.eye(K * K).reshape(K, K, K, K)
        slopes = np.array([[self._slopes(one) for one in row] for row in units])
        return self(X), slopes[codes[:, np.newaxis], codes]

    def __repr__(self) -> str:
        return f"Coregionalization({self.correlations().round(2).tolist()})"


@is_rule("pullback", Coregionalization)
def _targets(
    kernel: Coregionalization,
    X: Array,
    Y: Array | None,
) -> tuple[Array, Pullback]:
    rows = kernel._codes(X)
    columns = rows if Y is None else kernel._codes(Y)

    def pullback(G: Array) -> Array:
        left, right = (np.eye(kernel.n_categories)[one] for one in (rows, columns))
        return kernel._slopes(left.T @ G @ right)

    return kernel.correlations()[rows[:, np.newaxis], columns], pullback


@is_rule("input_gradient", CategoricalKernel, Coregionalization)
def _category_inputs(kernel: Any, X: Array, Z: Array) -> tuple[Array, Pullback]:
    return kernel(X, Z), lambda _: np.zeros(X.shape)
