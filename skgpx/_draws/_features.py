"""Terms of function draws: Fourier features, linear functions, kernel sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.linalg.blas import dgemm
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    DotProduct,
    Product,
    Sum,
    WhiteKernel,
)

from skgpx._numerics import radial, trigonometry
from skgpx._numerics.rows import row_slices
from skgpx._types import Array, Index, Kernel
from skgpx.kernels import (
    CategoricalKernel,
    Columns,
    Coregionalization,
    Functionals,
    GREKernel,
    Linear,
    matrix_and_input_pullback,
    radial_code,
)

# Rows and features that are multiplied in the cache: OpenBLAS copies no factor of a
# product of at most 10⁶ multiplications.
_ROWS = 128
_PANEL = 96

# ---- The summands of function draws --------------------------------------------------


# Maps rows (n, d) to features (n, m); draws are linear combinations of the features.
# A map may have more methods. ``contract(X, weights, out)`` adds ``self(X) @ weights``
# without storing the features, ``at(X, weights)`` gives draw i at row i. ``pairs(X,
# weights, index)`` gives values (p,) and gradients (p, d) of function ``x -> self(x) @
# weights[index[i]]`` at row i. A map that has all three need not be callable.
FeatureMap = Callable[[Array], Array]


class Term(Protocol):
    """One summand of a set of draws.

    A term of rows that are not numbers has the attribute ``numeric = False``. A term
    with values that depend on earlier evaluations has ``is_stateful = True``.
    """

    @property
    def n_features(self) -> int | None:
        """Number of input columns; None for any."""

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s), C-contiguous."""

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""

    def scaled(self, factor: Array | float) -> Term:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""

    def select(self, draws: Index) -> Term:
        """Keep the draws at these positions."""


class WithoutCaches:
    """A dataclass whose pickles leave out what can be computed again."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class LinearTerm(WithoutCaches):
    """``features(X) @ weights``.

    Parameters
    ----------
    features : FeatureMap
        Maps (n, d) inputs to (n, m) features, row by row; picklable.
    weights : ndarray of shape (m, c, s)
        Coefficients of ``c`` outputs and ``s`` draws.
    """

    features: FeatureMap
    weights: Array

    @property
    def n_features(self) -> int | None:
        """Number of input columns, if the features have one."""
        return getattr(self.features, "n_features", None)

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s), C-contiguous."""
        flat_weights = self.weights.reshape(len(self.weights), -1)
        flat_out = out.reshape(len(out), -1)
        contract = getattr(self.features, "contract", None)
        if contract is not None:
            contract(X, flat_weights, flat_out)
            return
        for rows in self._blocks(len(X)):
            features = self.features(X[rows])
            flat_out[rows] += features @ flat_weights

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        values_at = getattr(self.features, "at", None)
        if values_at is not None:
            return values_at(X, self.weights)
        _, c, s = self.weights.shape
        values = np.empty((s, c))
        for rows in self._blocks(len(X)):
            features = self.features(X[rows])
            weights = self.weights[:, :, rows]
            values[rows] = np.einsum("pm,mcp->pc", features, weights)
        return values

    def _blocks(self, n: int) -> list[slice]:
        # features of a block take some tens of megabytes
        n_features = max(1, len(self.weights))
        size = max(16, 2**22 // n_features)
        return row_slices(n, size)

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d)."""
        p, d = X.shape
        c = self.weights.shape[1]
        pairs = getattr(self.features, "pairs", None)
        if pairs is None:
            raise ValueError(
                f"The gradient of {type(self.features).__name__} is not known: "
                "draws of this model can be evaluated, but not differentiated."
            )
        # function i is output i % c of draw i // c
        index = (c * draws[:, np.newaxis] + np.arange(c)).ravel()
        rows = X
        if c > 1:
            rows = np.repeat(X, c, axis=0)
        values, slopes = pairs(rows, self._by_draw, index)
        return values.reshape(p, c), slopes.reshape(p, c, d)

    @cached_property
    def _by_draw(self) -> Array:
        """Weights with one function per row, shape (s c, m)."""
        m = len(self.weights)
        draws_first = self.weights.transpose(2, 1, 0)
        return np.ascontiguousarray(draws_first.reshape(-1, m))

    def scaled(self, factor: Array | float) -> LinearTerm:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        factor_of_output = np.reshape(factor, (-1, 1))
        return replace(self, weights=self.weights * factor_of_output)

    def select(self, draws: Index) -> LinearTerm:
        """Keep the draws at these positions."""
        return replace(self, weights=self.weights[:, :, draws])


def merged(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Merge terms with the same features object, so that it is called once."""
    by_features: dict[int, Term] = {}
    for position, term in enumerate(terms):
        if not isinstance(term, LinearTerm):
            # a key of its own: identities of objects are not negative
            by_features[-1 - position] = term
            continue
        key = id(term.features)
        twin = by_features.get(key)
        if isinstance(twin, LinearTerm):
            term = replace(term, weights=twin.weights + term.weights)
        by_features[key] = term
    return tuple(by_features.values())


# ---- Products of features and weights ------------------------------------------------


def add_product(
    X: Array,
    panels: list[tuple[slice, Array]],
    fill: Callable[[Array, slice, Array], None],
    out: Array,
) -> None:
    """Add ``F(X) @ weights``, with features computed block by block in the cache.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    panels : list of (slice, ndarray of shape (m, k))
        Parts of the features, and their coefficients, C-contiguous.
    fill : callable
        ``fill(points, part, features)`` writes a part of the features (m, b) of
        points (d, b).
    out : ndarray of shape (n, k)
        Added to.
    """
    n, k = out.shape
    if not k:
        return
    # full vectors only: the remainder of a loop may round differently
    width = min(_ROWS, -(-n // 64) * 64)
    points = np.zeros((X.shape[1], width))
    total = np.empty((width, k))
    for block in row_slices(n, _ROWS):
        rows = X[block]
        points[:, : len(rows)] = rows.T
        total[:] = 0.0
        for part, weights in panels:
            features = np.empty((len(weights), width))
            fill(points, part, features)
            # totalᵀ += weightsᵀ F, in place: arrays of Fortran's order
            dgemm(
                1.0,
                weights.T,
                features.T,
                1.0,
                total.T,
                trans_b=1,
                overwrite_c=1,
            )
        out[block] += total[: len(rows)]


# ---- Waves as features: cosines and sines of given frequencies -----------------------


@dataclass(frozen=True)
class FourierFeatures:
    """Paired cosines and sines, ``[a cos(Xω), a sin(Xω)]``, shape (n, 2 R).

    Parameters
    ----------
    frequencies : ndarray of shape (R, d)
        Angular frequencies ``ω``, in radians per unit of the inputs.
    amplitudes : ndarray of shape (R,)
        Factors ``a``; with weights N(0, I) the variance of the sum is ``Σ a²``.
    """

    frequencies: Array
    amplitudes: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.frequencies.shape[1]

    @cached_property
    def _turns(self) -> Array:
        """Frequencies in turns, shape (R, d)."""
        return np.ascontiguousarray(self.frequencies / (2.0 * np.pi))

    @cached_property
    def _turns_by_input(self) -> Array:
        return np.ascontiguousarray(self._turns.T)

    def _fill(self, points: Array, waves: slice, out: Array) -> None:
        trigonometry.cosines_and_sines(
            points,
            self._turns[waves],
            self.amplitudes[waves],
            out,
        )

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        R = len(self.amplitudes)
        points = np.ascontiguousarray(X.T)
        features = np.empty((2 * R, len(X)))
        self._fill(points, slice(None), features)
        return features.T

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (2 R, k) to out (n, k); O(n R (d + k)) time."""
        R = len(self.amplitudes)
        k = out.shape[1]
        cosine, sine = weights.reshape(2, R, k)
        if k == 1:
            # a cos + b sin = A cos(· - φ) is half the work
            A = np.hypot(cosine, sine)[:, 0]
            phi = np.arctan2(sine, cosine)[:, 0]
            trigonometry.shifted_cosines(
                X,
                self._turns,
                self.amplitudes * A,
                phi / (2.0 * np.pi),
                out[:, 0],
            )
            return
        half = _PANEL // 2
        panels = []
        for waves in row_slices(R, half):
            coefficients = np.concatenate((cosine[waves], sine[waves]))
            panels.append((waves, coefficients))
        add_product(X, panels, self._fill, out)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X.

        The functions have the coefficients ``weights`` (f, 2 R).
        """
        values = np.zeros(len(X))
        gradients = np.zeros(X.shape)
        trigonometry.cosines_and_sines_at_pairs(
            X,
            self._turns_by_input,
            self.amplitudes,
            weights,
            index,
            values,
            gradients,
        )
        return values, gradients


# ---- Features of linear functions: constants and inputs ------------------------------


class _Ones:
    """The constant feature."""

    def __call__(self, X: Array) -> Array:
        """Ones of shape (n, 1)."""
        return np.ones((X.shape[0], 1))

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        values = weights[index, 0]
        return values, np.zeros(X.shape)


@dataclass(frozen=True)
class LinearFeatures:
    """``[s (x - c), level]``, (n, d + 1): the features of a linear kernel.

    Parameters
    ----------
    level : float, default=1.0
        The constant feature: ``σ₀`` of a DotProduct, zero for a Linear kernel.
    n_features : int, default=None
        Number of input columns; None for any.
    slope, centre : float or ndarray of shape (d,), default=1.0, 0.0
        The factors s, and the inputs c at which the function is `level`.
    """

    level: float = 1.0
    n_features: int | None = None
    slope: float | Array = 1.0
    centre: float | Array = 0.0

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X."""
        linear = (X - self.centre) * self.slope
        constant = np.full(X.shape[0], self.level)
        return np.column_stack((linear, constant))

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        weights_at_rows = weights[index]
        slopes = weights_at_rows[:, :-1] * self.slope
        level = self.level * weights_at_rows[:, -1]
        linear = np.einsum("pd,pd->p", X - self.centre, slopes)
        return linear + level, slopes


@dataclass(frozen=True)
class CategoryFeatures:
    """Features of a column of categories: rows of a root of their covariance.

    Parameters
    ----------
    column : int
        The column of codes x, integers from 0 to K - 1.
    root : ndarray of shape (K, q)
        Any A with ``A Aᵀ`` the covariance of the K categories.
    """

    column: int
    root: Array

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X."""
        codes = X[:, self.column, np.newaxis]
        one_hot = codes == np.arange(len(self.root))
        return one_hot @ self.root

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) of function ``index[i]`` at row i of X; slopes are zero."""
        features = self(X)
        values = np.einsum("pk,pk->p", features, weights[index])
        return values, np.zeros(X.shape)


ones = _Ones()


# ---- Kernel sections ``k(·, Z)`` as features, compiled for the common kernels --------


@dataclass(frozen=True)
class KernelFeatures:
    """Kernel sections ``k(·, z)`` at points z, each times a factor, shape (n, m).

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    points : ndarray of shape (m, d)
        Right arguments ``Z`` of the kernel.
    factors : float or ndarray of shape (m,), default=1.0
        Factors of the columns.
    """

    kernel: Kernel
    points: Array
    factors: float | Array = 1.0

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        if isinstance(self.kernel, Functionals):
            return self.kernel.n_features
        return self.points.shape[1]

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        return self.kernel(X, self.points) * self.factors

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        K, pullback = matrix_and_input_pullback(self.kernel, X, self.points)
        # Σ_j k(x, z_j) a_j v_j, and its derivative in x
        scaled_weights = weights[index] * self.factors
        values = np.einsum("pm,pm->p", K, scaled_weights)
        gradients = pullback(scaled_weights)
        return values, gradients


@dataclass(frozen=True)
class RadialKernelFeatures:
    """Sections of a kernel of the scaled distance, in compiled loops.

    Parameters
    ----------
    code : int
        A constant of :mod:`skgpx._numerics.radial`.
    length_scale : ndarray of shape (d,)
    points : ndarray of shape (m, d)
    """

    code: int
    length_scale: Array
    points: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.points.shape[1]

    @cached_property
    def _origin(self) -> Array:
        # distances between points far from zero lose fewer digits
        return self.points.mean(axis=0)

    @cached_property
    def _centres(self) -> Array:
        return self._scaled(self.points)

    def _scaled(self, X: Array) -> Array:
        return np.ascontiguousarray((X - self._origin) / self.length_scale)

    def _fill(self, points: Array, part: slice, out: Array) -> None:
        centres = self._centres[part]
        radial.radial_rows(self.code, points, centres, out)

    def __call__(self, X: Array) -> Array:
        """Kernel matrix, shape (n, m)."""
        scaled = self._scaled(X)
        points = np.ascontiguousarray(scaled.T)
        features = np.empty((len(self.points), len(X)))
        self._fill(points, slice(None), features)
        return features.T

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (m, k) to out (n, k); O(n m (d + k)) time."""
        scaled = self._scaled(X)
        if weights.shape[1] == 1:
            heights = np.ascontiguousarray(weights[:, 0])
            radial.radial_sum(
                self.code,
                scaled,
                self._centres,
                heights,
                out[:, 0],
            )
            return
        panels = [(part, weights[part]) for part in row_slices(len(weights), _PANEL)]
        add_product(scaled, panels, self._fill, out)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        values = np.zeros(len(X))
        gradients = np.zeros(X.shape)
        radial.radial_pairs(
            self.code,
            self._scaled(X),
            np.ascontiguousarray(self._centres.T),
            weights,
            index,
            values,
            gradients,
        )
        return values, gradients / self.length_scale


def factor_features(kernel: Kernel, d: int) -> list[FeatureMap]:
    """Exact features of a linear or categorical kernel, or of Columns with one.

    A CategoricalKernel of several columns gives one feature map for each column. The
    list is empty for all other kernels.
    """
    columns = np.arange(d)
    inner = kernel
    if type(kernel) is Columns:
        columns = kernel.indices(d)
        inner = kernel.kernel
    if type(inner) is DotProduct or type(inner) is Linear:
        slope = np.zeros(d)
        centre = np.zeros(d)
        slope[columns] = getattr(inner, "slope", 1.0)
        centre[columns] = getattr(inner, "centre", 0.0)
        linear = LinearFeatures(
            level=getattr(inner, "sigma_0", 0.0),
            n_features=d,
            slope=slope,
            centre=centre,
        )
        return [linear]
    if type(inner) is CategoricalKernel and inner.n_categories is not None:
        K = inner.n_categories
        correlations = inner._by_column("correlation", len(columns), 1.0)
        maps: list[FeatureMap] = []
        for column, rho in zip(columns.tolist(), correlations, strict=True):
            # root of ρ 1 1ᵀ + (1 - ρ) I: [√ρ, √(1 - ρ) e_x]
            shared = np.full(K, rho)
            independent = (1.0 - rho) * np.eye(K)
            squares = np.column_stack((shared, independent))
            maps.append(CategoryFeatures(column, np.sqrt(squares)))
        return maps
    if type(inner) is Coregionalization:
        # root of A Aᵀ + diag(1 - Σ a²)
        A = inner.loadings()
        shared_variance = np.sum(A**2, axis=1)
        independent_std = np.sqrt(1.0 - shared_variance)
        root = np.hstack((A, np.diag(independent_std)))
        column = int(columns[0])
        return [CategoryFeatures(column, root)]
    return []


def check_sections(kernel: Kernel, X: Array) -> None:
    """Refuse a kernel with infinite sections ``k(·, x)``, at the first row of X.

    Raises
    ------
    ValueError
        If ``kernel(x, x)`` with two arguments is infinite or NaN.
    """
    with np.errstate(all="ignore"):
        value = kernel(X[:1], X[:1])
    if np.all(np.isfinite(value)):
        return
    raise ValueError(
        f"The kernel {kernel!r} is infinite or NaN between equal inputs: neither "
        "predictions nor draws can be computed from it. A Matern of scikit-learn "
        "overflows for nu above 19; use RBF, its limit for large nu, or nu below 10."
    )


def section_terms(
    kernel: Kernel,
    points: Array,
    weights: Array,
) -> tuple[LinearTerm, ...]:
    """Terms of the functions ``k(·, Z) weights``.

    Each summand of a kernel becomes a term, constants move into the weights, and linear
    kernels become linear functions. An RBF or a Matern of order 1/2, 3/2 or 5/2 is
    evaluated by compiled loops.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        A WhiteKernel counts as zero: it is noise at the points.
    points : ndarray of shape (m, d)
    weights : ndarray of shape (m, c, s)

    Returns
    -------
    terms : tuple of LinearTerm
    """
    kind = type(kernel)
    if kind is WhiteKernel:
        return ()
    if kind is Sum:
        first = section_terms(kernel.k1, points, weights)
        second = section_terms(kernel.k2, points, weights)
        return first + second
    if kind is Product and type(kernel.k1) is ConstantKernel:
        scaled_weights = kernel.k1.constant_value * weights
        return section_terms(kernel.k2, points, scaled_weights)
    if kind is Product and type(kernel.k2) is ConstantKernel:
        scaled_weights = kernel.k2.constant_value * weights
        return section_terms(kernel.k1, points, scaled_weights)
    if kind is ConstantKernel:
        total = kernel.constant_value * weights.sum(axis=0, keepdims=True)
        return (LinearTerm(ones, total),)
    if kind in (DotProduct, Linear):
        # φ(·)ᵀ φ(Z)ᵀ v
        (features,) = factor_features(kernel, points.shape[1])
        slopes = np.tensordot(features(points).T, weights, 1)
        return (LinearTerm(features, slopes),)
    if kind is GREKernel:
        # ``k(·, S) P k(S, Z) v + b k̄(·, Z) v`` with masses P on the diagonal
        support = np.asarray(kernel.support, dtype=np.float64)
        P_K = kernel.kernel(support, points) * kernel.masses[:, np.newaxis]
        support_weights = np.tensordot(P_K, weights, 1)
        finite_rank = section_terms(kernel.kernel, support, support_weights)
        if kernel.background == 0.0:
            return finite_rank
        background = section_terms(
            kernel.background_kernel(),
            points,
            kernel.background * weights,
        )
        return finite_rank + background
    code = radial_code(kernel)
    if code is None:
        sections = KernelFeatures(kernel, points)
        return (LinearTerm(sections, weights),)
    d = points.shape[1]
    length_scale = np.full(d, kernel.length_scale, dtype=np.float64)
    features = RadialKernelFeatures(code, length_scale, points)
    return (LinearTerm(features, weights),)
