"""Sums over rows of the features of a basis, and models that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._numerics.linalg import (
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.regression import (
    WeightStatistics,
    precision_root,
    weight_statistics,
)
from skgpx._numerics.rows import row_slices
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_budgets import CHUNK_ROWS
from skgpx._shell.callbacks import StageClock
from skgpx._shell.functionals import functional_rows, resolution_of
from skgpx._shell.kernel_requests import EVERYTHING
from skgpx._shell.parallel import blas_jobs, parallel_map, parallel_stream
from skgpx._shell.validation import Rows, check_is_fitted, copy_to_merge
from skgpx._types import Array, ArrayLike, Attributes, Index, Kernel, RowValues
from skgpx.bases import Basis, NeighborResidual
from skgpx.kernels import VALUE, FunctionalRows, Functionals, split_noise
from skgpx.likelihoods import Gaussian, Likelihood


def counted_once(rows: Rows) -> Rows:
    """Limit weights to one where no other row has the same inputs."""
    X = rows.X
    limited = np.minimum(rows.weights, 1.0)
    if np.all(X[1:, 0] > X[:-1, 0]):
        return rows._replace(weights=limited)
    order = np.lexsort(X.T[::-1])
    equals_next = np.all(X[order[1:]] == X[order[:-1]], axis=1)
    is_unique = np.ones(len(X), dtype=bool)
    is_unique[order[1:]] &= ~equals_next
    is_unique[order[:-1]] &= ~equals_next
    return rows._replace(weights=np.where(is_unique, limited, rows.weights))


def row_statistics(basis: Basis, rows: Rows, n_jobs: int | None) -> WeightStatistics:
    """:func:`statistics_of_all` for one basis."""
    return statistics_of_all((basis,), rows, n_jobs)[0]


def statistics_of_all(
    bases: Sequence[Basis],
    rows: Rows,
    n_jobs: int | None,
) -> tuple[WeightStatistics, ...]:
    """Sums over rows for each basis, the same bits for every number of workers.

    Parameters
    ----------
    bases : sequence of Nystroem, EmpiricalSpectral or Fourier
        With m functions each.
    rows : Rows
        n rows.
    n_jobs : int or None
        See :func:`skgpx._shell.parallel.blas_jobs`.

    Notes
    -----
    O(n m^2) time for each basis; O(m^2) memory, and 4096 rows of features for each
    worker. Every row is read, and sent to a worker, once.
    """
    n_rows = len(rows.y)
    precisions = rows.precisions

    chunks = (
        (rows.X[chunk], rows.y[chunk], precisions[chunk])
        for chunk in row_slices(n_rows, CHUNK_ROWS)
    )
    n_workers = blas_jobs(n_jobs) if n_rows > CHUNK_ROWS else 1
    sums = parallel_stream(_chunk_statistics, chunks, n_workers, tuple(bases))
    return reduce(add_statistics, sums)


def _chunk_statistics(
    bases: tuple[Basis, ...],
    X: Array,
    y: Array,
    weights: Array,
) -> tuple[WeightStatistics, ...]:
    sums = []
    for basis in bases:
        features = basis(X)
        residual = basis.residual_variance(X, features)
        sums.append(weight_statistics(features, y, weights, residual))
    return tuple(sums)


def add_statistics(
    first: tuple[WeightStatistics, ...],
    second: tuple[WeightStatistics, ...],
    sign: float = 1.0,
) -> tuple[WeightStatistics, ...]:
    """Sums of both for each basis; sign -1.0 takes the second away."""
    return tuple(a.add(b, sign) for a, b in zip(first, second, strict=True))


def neighbor_whitening(
    residual: NeighborResidual,
    nearest: Index,
    count: Index,
    n_jobs: int | None,
    systems: Sequence[Array] | None = None,
) -> list[csr_array]:
    """Matrices that make noisy values at the rows of the data independent, (n, n).

    ``W = D^(-1/2) B``. Row i of B is row i of the identity less the weights of the
    nearest predecessors of the row in a random order. ``W (y - Φw)`` is white noise, so
    ``(WᵀW)⁻¹`` is the covariance of residual and noise, in Vecchia's approximation. A
    row without a value is zero.

    Parameters
    ----------
    residual : NeighborResidual
        Residual of M functions, with N neighbours and k versions of the noise.
    nearest, count : ndarray of shape (g, n, N) and (g, n)
        Predecessors of each row, of which the first `count` are valid:
        :meth:`NeighborResidual.predecessors`.
    n_jobs : int or None
        Threads.
    systems : sequence of ndarray, optional
        Result of :func:`neighbor_systems`.

    Returns
    -------
    whitening : list of k csr_array

    Notes
    -----
    O(n N^2 (k N + M)) time, if all versions have values at the same rows, or
    O(k n N^3) where the systems are known; O(k n N) memory, and a block of rows for
    each thread.
    """
    n = len(residual.rows)
    jobs = blas_jobs(n_jobs)
    slices = row_slices(n, residual.block_size)
    blocks: list[tuple[Any, ...]] = [(block, nearest, count) for block in slices]
    if systems is not None:
        blocks = [
            (*block, packed) for block, packed in zip(blocks, systems, strict=True)
        ]
    parts = parallel_map(residual.whitening, blocks, jobs, in_threads=True)
    # versions with values at the same rows share the positions of their entries
    starts = np.arange(n + 1) * (nearest.shape[2] + 1)
    columns = [np.column_stack((rows, np.arange(n))).ravel() for rows in nearest]
    matrices = []
    for version, search in enumerate(residual.search_of_version):
        rows = [
            np.column_stack((off_diagonal[version], diagonal[version]))
            for off_diagonal, diagonal in parts
        ]
        values = np.concatenate(rows).ravel()
        matrix = csr_array((values, columns[search], starts), shape=(n, n))
        matrices.append(matrix)
    return matrices


def neighbor_systems(
    residual: NeighborResidual,
    nearest: Index,
    n_jobs: int | None,
) -> list[Array] | None:
    """Covariances of each row and its predecessors, for whitening by several noises.

    Returns
    -------
    systems : list of ndarray, or None
        Systems of each block of rows; None if they take more than a gigabyte.
    """
    n_points = nearest.shape[2] + 1
    n_numbers = nearest.shape[0] * nearest.shape[1] * n_points * (n_points + 1) // 2
    # numbers in memory between passes over the rows: a gigabyte
    if n_numbers > 2**27:
        return None
    slices = row_slices(len(residual.rows), residual.block_size)
    blocks = [(block, nearest) for block in slices]
    jobs = blas_jobs(n_jobs)
    return parallel_map(residual.packed_systems, blocks, jobs, in_threads=True)


class WhitenedRows(NamedTuple):
    """Covariance of noisy values at the rows, ``C = ΦΦᵀ + (WᵀW)⁻¹``, and its inverse.

    By Woodbury's identity ``C⁻¹ = WᵀW - WᵀWΦ B⁻¹ ΦᵀWᵀW`` with ``B = I + ΦᵀWᵀWΦ``.

    Attributes
    ----------
    whitening : csr_array of shape (n, n)
        ``W``, see :func:`neighbor_whitening`.
    features : ndarray of shape (n, M)
        ``Φ``.
    root : ndarray of shape (M, M)
        Lower root of B.
    """

    whitening: csr_array
    features: Array
    root: Array

    @classmethod
    def of(cls, whitening: csr_array, features: Array) -> WhitenedRows:
        """Factorise B; O(n M^2)."""
        chunks = row_slices(len(features), CHUNK_ROWS)
        gram = _gram(whitening[rows] @ features for rows in chunks)
        return cls(whitening, features, precision_root(gram, 1.0))

    @classmethod
    def with_inverse_diagonal(
        cls,
        whitening: csr_array,
        features: Array,
    ) -> tuple[WhitenedRows, Array]:
        """Factorise B, and the diagonal of ``C⁻¹``, (n,), from the same ``WΦ``.

        O(n M (N + M)), memory O(n M).
        """
        white = whitening @ features
        gram = _gram(white[rows] for rows in row_slices(len(white), CHUNK_ROWS))
        covariance = cls(whitening, features, precision_root(gram, 1.0))
        # diagonal of ``C⁻¹``, (n,), from ``WΦ``
        columns = covariance.whitening.T.tocsr()
        diagonal = np.empty(len(white))
        for chunk in row_slices(len(white), CHUNK_ROWS):
            W = columns[chunk]
            # |W e_i|² - |L⁻¹ ΦᵀWᵀW e_i|²
            explained = solve_lower(covariance.root, (W @ white).T)
            diagonal[chunk] = W.multiply(W).sum(axis=1) - np.sum(explained**2, axis=0)
        return covariance, diagonal

    def _mean_weights(self, white: Array) -> Array:
        """``B⁻¹ ΦᵀWᵀ white``: the mean of the weights given whitened values."""
        L = self.root
        moment = self.features.T @ (self.whitening.T @ white)
        return solve_lower_transpose(L, solve_lower(L, moment))

    def weights(self, values: Array) -> GaussianWeights:
        """Distribution of the weights given noisy values (n, t)."""
        # B = L Lᵀ, so L⁻ᵀ is a root of B⁻¹
        root = solve_lower_transpose(self.root, np.eye(len(self.root)))
        mean = self._mean_weights(self.whitening @ values)
        return GaussianWeights(mean, root[np.newaxis])

    @property
    def log_determinant(self) -> float:
        """``log det C`` of the rows that have a value."""
        scales = self.whitening.diagonal()
        log_volume = float(np.sum(np.log(scales[scales > 0.0])))
        return log_determinant(self.root) - 2.0 * log_volume

    def log_density(self, values: Array) -> float:
        """``log N(values | 0, C)`` of values (n, t), zero where a row has none."""
        n_values = np.count_nonzero(self.whitening.diagonal())
        n_targets = values.shape[1]
        misfit = float(np.sum(values * self.solve(values)))
        log_volume = self.log_determinant + n_values * np.log(2.0 * np.pi)
        return -0.5 * (misfit + n_targets * log_volume)

    def solve(self, values: Array) -> Array:
        """``C⁻¹ values`` of values (n,) or (n, t); O(n (N + M)) each."""
        W = self.whitening
        # WᵀW (values - Φw), w the mean of the weights given these values
        w = self._mean_weights(W @ values)
        return W.T @ (W @ (values - self.features @ w))


def _gram(blocks: Iterable[Array]) -> Array:
    """``ΦᵀWᵀWΦ`` from blocks of rows of ``WΦ``."""
    return reduce(np.add, (white.T @ white for white in blocks))


class Mergeable:
    """An estimator that adds the rows of another one: ``one + two`` merges them."""

    def merge(self, other: Self) -> Self:
        """New model of the rows of both."""
        raise NotImplementedError

    def __add__(self, other: Self | int) -> Self:
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.merge(other)

    def __radd__(self, other: int) -> Self:
        """``sum(models)`` begins with zero, which stands for a part without rows."""
        if not isinstance(other, int):
            return NotImplemented
        return self + other

    def _check_same_class(self, other: object) -> None:
        """Refuse to merge with another class, or with a model that is not fitted."""
        check_is_fitted(self)
        if not isinstance(other, type(self)):
            raise ValueError(
                f"{type(self).__name__}.merge expects another {type(self).__name__}; "
                f"got {other!r}."
            )
        check_is_fitted(other)


class AdditiveModel(Mergeable):
    """An estimator of sums over rows: ``one + two`` has the rows of both.

    Fitted attributes that follow from the sums are computed when one of them is read.
    `partial_fit` and `merge` change the sums, which is cheap, and forget the solution,
    which is expensive: a chain of them solves once, in the end. A subclass names these
    attributes and computes them. The delay changes no number as long as parameters stay
    as they are: their values at the first use count.
    """

    _follows_from_sums: ClassVar[frozenset[str]]
    # (t,) for y (n, t); () for y (n,)
    _targets: tuple[int, ...]
    # rows given so far; a sum of models has none, as rows may be in both
    _n_rows: int
    n_jobs: int | None
    # checks X, y and weights of `fit`, or of further rows: reset=False
    _rows: Callable[..., Rows]
    _state: Any
    # which reads the rows of `fit` where these see functionals of f
    _seen: Functionals | None = None
    _takes_several_targets = True

    def _check_sees_values(self) -> None:
        """Refuse to add rows to slopes and the like, or these to rows."""
        if self._seen is not None:
            raise ValueError(
                "A model of slopes, means over boxes or differences can neither take "
                "more rows nor be merged. Fit all rows together."
            )

    def _rows_seen(
        self,
        X: Array,
        kernel: Kernel | None,
        **functionals: RowValues,
    ) -> Array:
        """Rows of `fit`: points (n, d), or what is seen of f there."""
        seen = functional_rows(self, X, **functionals)
        self._seen = None
        if seen is None:
            return X
        parent: Any = super()
        parent._check_functionals(seen, Gaussian())
        _check_slopes(seen, kernel)
        self._seen = Functionals(kernel or EVERYTHING, resolution_of(seen))
        return seen.as_array()

    def _check_functionals(self, seen: FunctionalRows, likelihood: Likelihood) -> None:
        """Refuse what cannot be predicted: slopes of functions that have none."""
        parent: Any = super()
        parent._check_functionals(seen, likelihood)
        kernel = getattr(self, "kernel_", None)
        _check_slopes(seen, kernel)
        if kernel is None and np.any(seen.derivative != VALUE):
            raise ValueError(
                "The slopes of a series prior may not exist, and are not predicted. "
                "Use a kernel, or None."
            )

    def merge(self, other: Self) -> Self:
        """Return a new model of the rows of both; ``one + other`` is the same.

        Where rows choose the functions, as inducing points, empirical features and
        learned frequencies, fit one model to the first rows, copy it, and let the
        copies see other rows by `partial_fit`: the first rows count once.

        Parameters
        ----------
        other : estimator
            Of the same class, with the same parameters and functions.

        Returns
        -------
        merged : estimator

        Raises
        ------
        ValueError
            If the functions, the kernels or other parameters of the two differ, or
            other is of another class.
        """
        self._check_other(other)
        clock = StageClock()
        merged = copy_to_merge(self, other)
        merged._state = self._state.merged(other._state)
        merged._defer(clock)
        return merged

    def _add_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues,
    ) -> Self:
        """Check further rows, and take them into the sums."""
        clock = StageClock()
        self._check_sees_values()
        rows = self._rows(X, y, sample_weight, reset=False)
        # rows may be refused here: until then nothing has changed
        self._state = self._state.with_rows(rows, self.n_jobs)
        # a sum of models does not know how many rows it has
        if "_n_rows" in vars(self):
            self._n_rows += np.shape(X)[0]
        self._defer(clock)
        return self

    def _check_other(self, other: Self) -> None:
        """Refuse to merge with another class, or with a model that is not fitted."""
        self._check_same_class(other)
        self._check_sees_values()
        other._check_sees_values()
        if self._targets != other._targets:
            raise ValueError(
                "Only models of as many targets can be merged; got "
                f"{sum(self._targets) or 1} and {sum(other._targets) or 1}."
            )

    def _solution(self) -> Attributes:
        """Attributes that follow from the sums."""
        raise NotImplementedError

    def _defer(self, clock: StageClock) -> None:
        """Forget the solution of other sums than these, which end a stage."""
        clock.end_of("statistics")
        for name in (*self._follows_from_sums, "stage_seconds_"):
            vars(self).pop(name, None)
        self._unsolved = clock.seconds

    def _solved(self, solution: Attributes, clock: StageClock) -> None:
        """Keep a solution and what it has cost."""
        vars(self).update(solution, stage_seconds_=clock.seconds)
        vars(self).pop("_unsolved", None)

    def __getattr__(self, name: str) -> Any:
        attributes = vars(self)
        seconds = attributes.get("_unsolved")
        is_deferred = name in self._follows_from_sums or name == "stage_seconds_"
        if is_deferred and seconds is not None:
            clock = StageClock(seconds)
            try:
                # an attribute is no public method, which would hold BLAS
                with one_blas_thread():
                    solution = self._solution()
            except AttributeError as error:
                # which would read as: there is no such attribute
                raise RuntimeError(f"The solution failed: {error}") from error
            clock.end_of("solution")
            self._solved(solution, clock)
        # another thread may have solved in the meantime
        if name in attributes:
            return attributes[name]
        kind = type(self).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")


def _check_slopes(seen: FunctionalRows, kernel: Kernel | None) -> None:
    """Refuse slopes of functions that have none."""
    slopes = seen.take(np.flatnonzero(seen.derivative != VALUE)[:1])
    if kernel is not None and len(slopes.X):
        covariance = split_noise(kernel)[0]
        Functionals(covariance, np.ones(seen.X.shape[1])).diag(slopes.as_array())
