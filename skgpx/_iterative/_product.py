"""Products of a kernel matrix that is never stored with many vectors."""

from __future__ import annotations

from functools import reduce
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RationalQuadratic

from skgpx._draws import ones
from skgpx._draws._features import factor_features
from skgpx._numerics import kernel_products
from skgpx._numerics.kernel_products import TILE, RadialTerms
from skgpx._parallel import WorkerCache, blas_jobs, on_cluster, parallel_stream
from skgpx.kernels import Columns, Monomial, expand, kernel_matrix, radial_code

Array = NDArray[np.float64]

# Parts of a product that are summed in this order, whatever the number of workers.
_PARTS = 16
# Tiles up to which other threads gain nothing.
_FEW = 36
# Coordinates in lengthscales beyond which squares would overflow in single precision.
_FARTHEST = 1e15


class _Tiles(NamedTuple):
    """Rows and terms of a kernel, without those that have features.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    radial : RadialTerms or None
    others, every : list of Monomial
        Terms that are not radial, and all.
    """

    X: Array
    radial: RadialTerms | None
    others: list[Monomial]
    every: list[Monomial]

    def part(self, V: Array, padded: Any, exact: bool, first: int, last: int) -> Array:
        """What some tiles contribute to the product with V."""
        n = len(self.X)
        out = np.zeros((max(n, len(padded)), V.shape[1]))
        if self.radial is not None and not exact:
            # processes may map arrays that cannot be written: another type to numba
            padded = np.require(padded, requirements="W")
            points = np.require(self.radial.points, requirements="W")
            table = self.radial._replace(points=points)
            kernel_products.add_tiles(table, first, last, padded, out)
            out = out[:n]
        terms = self.every if exact else self.others
        if not terms:
            return out
        rows, columns = np.tril_indices(-(-n // TILE))
        for i, j in zip(rows[first:last], columns[first:last], strict=True):
            one, other = (slice(b * TILE, min(n, (b + 1) * TILE)) for b in (i, j))
            K = _tile(terms, self.X[one], self.X[other])
            out[one] += K @ V[other]
            if i != j:
                out[other] += K.T @ V[one]
        return out


class KernelProduct:
    """``k(X, X) V`` for many V, without an array of n x n.

    Sums of products of RBF, Matern (1/2, 3/2, 5/2) and RationalQuadratic kernels, of
    all columns or some, are computed in compiled tiles; constants, linear kernels and
    categories from their features; all other terms from tiles of
    :func:`skgpx.kernels.kernel_matrix`, several times slower.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without white noise.
    X : ndarray of shape (n, d)
    n_jobs : int or None
        Workers; the same bits for every number.

    Notes
    -----
    O(n^2 (d + k)) operations; memory for O(n (d + k)) numbers for each worker. The
    workers of a cluster keep X, and are sent n k numbers for a product.
    """

    def __init__(self, kernel: Any, X: Array, n_jobs: int | None = None):
        self.n_jobs, d = n_jobs, X.shape[1]
        try:
            terms = expand(kernel)
        except ValueError:
            terms = [Monomial(1.0, (kernel,))]
        radial: list[tuple[float, list[Any]]] = []
        features: list[Array] = []
        others: list[Monomial] = []
        every: list[Monomial] = []
        for term in terms:
            found = [_radial_factor(factor, X) for factor in term.factors]
            maps: list[Any] = [ones] if not term.factors else []
            if len(term.factors) == 1:
                maps = factor_features(term.factors[0], d)
            if len(maps) == 1:
                features.append(np.sqrt(term.coefficient) * maps[0](X))
                continue
            every.append(term)
            if all(one is not None for one in found):
                radial.append((term.coefficient, found))
            else:
                others.append(term)
        self._features = np.column_stack([np.empty((len(X), 0)), *features])
        table = _table(radial, len(X)) if radial else None
        self._tiles = _Tiles(X, table, others, every)
        self._kept = WorkerCache(self._tiles)

    @property
    def compiled(self) -> bool:
        """Whether every term is computed by compiled loops or from features."""
        return not self._tiles.others

    def __call__(self, V: Array, exact: bool = False) -> Array:
        """Product with V (n, k), in single precision unless `exact`."""
        n = len(V)
        rows = -(-n // TILE)
        tiles = rows * (rows + 1) // 2
        ends = np.linspace(0, tiles, min(_PARTS, tiles) + 1).astype(int).tolist()
        items = pairwise(ends)
        # what is not needed is not sent to workers of other machines
        padded, sent = np.empty((0, V.shape[1]), np.float32), V
        if not exact and self._tiles.radial is not None:
            padded = np.zeros((rows * TILE, V.shape[1]), np.float32)
            padded[:n] = V
            sent = V if self._tiles.others else V[:0]
        few = tiles == 1 or (tiles <= _FEW and not on_cluster())
        jobs = 1 if few else blas_jobs(self.n_jobs)
        given = self._kept, sent, padded, exact
        parts = parallel_stream(_Tiles.part, items, jobs, *given)
        total: Array = reduce(np.add, parts)
        return total + self._features @ (self._features.T @ V)


def _tile(terms: list[Monomial], X: Array, Z: Array) -> Array:
    total = np.zeros((len(X), len(Z)))
    for coefficient, factors in terms:
        values = [kernel_matrix(factor, X, Z) for factor in factors]
        total += coefficient * reduce(np.multiply, values)
    return total


def _radial_factor(factor: Any, X: Array) -> Any:
    """Code, shape and scaled points (q, n) of a radial factor; None of another."""
    if type(factor) is Columns:
        return _radial_factor(factor.kernel, X[:, factor.indices(X.shape[1])])
    code, shape = radial_code(factor), 1.0
    if type(factor) is RationalQuadratic:
        code, shape = kernel_products.RATIONAL_QUADRATIC, float(factor.alpha)
    if code is None:
        return None
    # differences of coordinates keep the more digits the smaller these are
    scaled = (X - np.median(X, axis=0)) / factor.length_scale
    return code, shape, np.clip(scaled, -_FARTHEST, _FARTHEST).T


def _table(terms: list[tuple[float, list[Any]]], n: int) -> RadialTerms:
    factors = [factor for _, found in terms for factor in found]
    widths = [len(points) for _, _, points in factors]
    points = np.zeros((sum(widths), -(-n // TILE) * TILE), np.float32)
    points[:, :n] = np.concatenate([points for _, _, points in factors])
    numbers = [[i] * len(found) for i, (_, found) in enumerate(terms)]
    return RadialTerms(
        points,
        np.cumsum([0, *widths]).astype(np.int64),
        np.array([code for code, _, _ in factors], np.int64),
        np.array([shape for _, shape, _ in factors], np.float32),
        np.array([*chain(*numbers), len(terms)], np.int64),
        np.array([coefficient for coefficient, _ in terms], np.float32),
    )
