"""Products of a kernel matrix that is never stored with many vectors."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import RationalQuadratic

from skgpx._draws import ones
from skgpx._draws._features import FeatureMap, factor_features
from skgpx._numerics import kernel_products
from skgpx._numerics.kernel_products import TILE, RadialTerms
from skgpx._shell.parallel import WorkerCache, blas_jobs, on_cluster, parallel_stream
from skgpx._types import Array, Kernel
from skgpx.kernels import (
    Columns,
    Directions,
    Monomial,
    expand,
    kernel_matrix,
    radial_code,
)

Single = NDArray[np.float32]


# A radial kernel at the rows: its code in `RadialTerms`, its shape (α of a rational
# quadratic kernel, 1 of others), and columns of X in lengthscales, (q, n).
RadialFactor = tuple[int, float, Array]


class _Tiles(NamedTuple):
    """Rows, and the terms of a kernel that have no features.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    radial : RadialTerms or None
    not_radial : list of Monomial
    terms : list of Monomial
        Radial terms and terms that are not radial.
    """

    X: Array
    radial: RadialTerms | None
    not_radial: list[Monomial]
    terms: list[Monomial]

    def sum_of_tiles(
        self,
        V: Array,
        padded: Single,
        exact: bool,
        first: int,
        last: int,
    ) -> Array:
        """Product of the tiles from `first` to `last`, and their mirrors, with V.

        Tiles of radial terms take V from `padded`, unless `exact`.
        """
        n = len(self.X)
        out = np.zeros((max(n, len(padded)), V.shape[1]))
        if self.radial is not None and not exact:
            # processes may map arrays that cannot be written: another type to numba
            padded = np.require(padded, requirements="W")
            points = np.require(self.radial.points, requirements="W")
            table = self.radial._replace(points=points)
            kernel_products.add_tiles(table, first, last, padded, out)
            out = out[:n]
        terms = self.terms if exact else self.not_radial
        if not terms:
            return out
        # tiles (i, j) of the lower triangle
        row_tiles, column_tiles = np.tril_indices(-(-n // TILE))
        tiles = zip(row_tiles[first:last], column_tiles[first:last], strict=True)
        for i, j in tiles:
            rows = slice(i * TILE, min(n, (i + 1) * TILE))
            columns = slice(j * TILE, min(n, (j + 1) * TILE))
            # sum of terms between rows X (p, d) and Z (q, d), shape (p, q)
            X = self.X[rows]
            Z = self.X[columns]
            total = np.zeros((len(X), len(Z)))
            for coefficient, factors in terms:
                values = [kernel_matrix(factor, X, Z) for factor in factors]
                total += coefficient * reduce(np.multiply, values)
            K = total
            out[rows] += K @ V[columns]
            if i != j:
                out[columns] += K.T @ V[rows]
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

    def __init__(self, kernel: Kernel, X: Array, n_jobs: int | None = None):
        self.n_jobs = n_jobs
        try:
            monomials = expand(kernel)
        except ValueError:
            monomials = [Monomial(1.0, (kernel,))]
        features: list[Array] = []
        radial: list[tuple[float, list[RadialFactor]]] = []
        not_radial: list[Monomial] = []
        terms: list[Monomial] = []
        for term in monomials:
            feature_map = _feature_map(term, X.shape[1])
            if feature_map is not None:
                features.append(np.sqrt(term.coefficient) * feature_map(X))
                continue
            terms.append(term)
            factors = _radial_factors(term, X)
            if factors is None:
                not_radial.append(term)
            else:
                radial.append((term.coefficient, factors))
        self._features = np.column_stack([np.empty((len(X), 0)), *features])
        table = None
        if radial:
            table = _table(radial, len(X))
        self._tiles = _Tiles(X, table, not_radial, terms)
        self._cache = WorkerCache(self._tiles)

    @property
    def compiled(self) -> bool:
        """Whether every term is computed by compiled loops or from features."""
        return not self._tiles.not_radial

    def __call__(self, V: Array, exact: bool = False) -> Array:
        """Product with V (n, k), in single precision unless `exact`."""
        n, k = V.shape
        # tiles of the lower triangle, in sums of about as many
        n_rows = -(-n // TILE)
        n_tiles = n_rows * (n_rows + 1) // 2
        # sums of tiles, which are added in this order, whatever the number of workers
        n_sums = min(16, n_tiles)
        bounds = np.linspace(0, n_tiles, n_sums + 1).astype(int).tolist()
        # workers of other machines are sent the vectors that their loops read
        vectors = V
        padded = np.empty((0, k), np.float32)
        if not exact and self._tiles.radial is not None:
            padded = np.zeros((n_rows * TILE, k), np.float32)
            padded[:n] = V
            if self.compiled:
                vectors = V[:0]
        n_jobs: int | None = 1
        # tiles up to which a second thread saves no time
        if n_tiles > 36 or (n_tiles > 1 and on_cluster()):
            n_jobs = blas_jobs(self.n_jobs)
        sums = parallel_stream(
            _Tiles.sum_of_tiles,
            pairwise(bounds),
            n_jobs,
            self._cache,
            vectors,
            padded,
            exact,
        )
        product: Array = reduce(np.add, sums)
        # terms with features: Φ Φᵀ V
        return product + self._features @ (self._features.T @ V)


def _feature_map(term: Monomial, d: int) -> FeatureMap | None:
    """Features of a term without its coefficient; None for a term that has none."""
    if not term.factors:
        return ones
    if len(term.factors) > 1:
        return None
    maps = factor_features(term.factors[0], d)
    if len(maps) != 1:
        return None
    return maps[0]


def _radial_factors(term: Monomial, X: Array) -> list[RadialFactor] | None:
    """Factors of a term at the rows of X; None if one of them is not radial."""
    factors = []
    for kernel in term.factors:
        factor = _radial_factor(kernel, X)
        if factor is None:
            return None
        factors.append(factor)
    return factors


def _radial_factor(kernel: Kernel, X: Array) -> RadialFactor | None:
    """A kernel at the rows of X; None if it is not radial."""
    if type(kernel) in (Columns, Directions):
        return _radial_factor(kernel.kernel, kernel.part(X))
    code = radial_code(kernel)
    shape = 1.0
    if type(kernel) is RationalQuadratic:
        code = kernel_products.RATIONAL_QUADRATIC
        shape = float(kernel.alpha)
    if code is None:
        return None
    # differences of coordinates keep the more digits the smaller these are
    scaled = (X - np.median(X, axis=0)) / kernel.length_scale
    # farther out squares would overflow in single precision
    points = np.clip(scaled, -1e15, 1e15).T
    return code, shape, points


def _table(terms: list[tuple[float, list[RadialFactor]]], n: int) -> RadialTerms:
    """Radial terms at n rows as arrays of compiled loops."""
    factors: list[RadialFactor] = []
    term_of_factor = []
    for position, (_, factors_of_term) in enumerate(terms):
        factors.extend(factors_of_term)
        term_of_factor.extend([position] * len(factors_of_term))
    # the last entry ends the last term
    term_of_factor.append(len(terms))
    # points of all factors below one another, and zeros up to a whole number of tiles
    codes, shapes, points_of_factors = zip(*factors, strict=True)
    all_points = np.concatenate(points_of_factors)
    n_tiles = -(-n // TILE)
    points = np.zeros((len(all_points), n_tiles * TILE), np.float32)
    points[:, :n] = all_points
    boundaries = np.cumsum([0, *map(len, points_of_factors)])
    coefficients = [coefficient for coefficient, _ in terms]
    return RadialTerms(
        points=points,
        ends=boundaries.astype(np.int64),
        codes=np.array(codes, np.int64),
        shapes=np.array(shapes, np.float32),
        term=np.array(term_of_factor, np.int64),
        coefficients=np.array(coefficients, np.float32),
    )


# ---- Variances of an exact process from those of a sparse one and a few draws --------


# Smallest variance with a logarithm.
_TINY = 1e-300


class VarianceCorrection(NamedTuple):
    """Maps variances of a sparse process to those of the exact one.

    ::

        log v = log (h + r) + s (1 - (r/k)¹⁶) (β₀ + β₁ log r + β₂ log h)
        s = r / (h + r)

    with the posterior variance h of ``φᵀw``, the variance r that the inducing points
    leave, and the prior variance k. Where r is zero, and far from the data, the sparse
    process has the exact variance.

    Attributes
    ----------
    coefficients : ndarray of shape (3,)
        ``β``.
    spread : float
        Standard deviation of log v around this.
    n_draws : int
    centre : ndarray of shape (2,)
        Origin of the logarithms of r and h.
    limits : ndarray of shape (2, 2)
        Smallest and largest logarithms, beyond which the correction stays constant.
    """

    coefficients: Array
    spread: float
    n_draws: int
    centre: Array
    limits: Array

    @classmethod
    def of(
        cls,
        h: Array,
        r: Array,
        k: Array,
        solutions: Array,
        errors: Array,
        noise: Array,
    ) -> VarianceCorrection:
        """Fit to the variances of the rows, given all others and given all rows.

        Solutions ``α = A⁻¹(f + ε)``, with f from the prior and ε from the noise, have
        the covariance ``A⁻¹``, whose diagonal holds the inverse variances of each
        observation given all others. And ``ε - noise α`` is f around its mean given all
        rows, also the i-th. At row i, with the variance v of f given the others::

            α_i ~ N(0, 1 / (v + noise)),   ε_i - noise α_i ~ N(0, v noise / (v + noise))

        and the two are independent: the first determines v where v exceeds the noise,
        the second where it does not.

        Parameters
        ----------
        h, r, k : ndarray of shape (n,)
            At each row, given the other rows.
        solutions : ndarray of shape (n, s)
            ``α``.
        errors : ndarray of shape (n, s)
            ``ε``, in units of the standard deviations of the noise.
        noise : ndarray of shape (n,)

        Returns
        -------
        correction : VarianceCorrection
        """
        n_draws = solutions.shape[1]
        # residual variances below this fraction of the prior variance count as zero
        has_residual = r > 1e-6 * k
        # rows below which a correction is not estimated
        if np.sum(has_residual) < 50:
            return cls(
                coefficients=np.zeros(3),
                spread=0.0,
                n_draws=n_draws,
                centre=np.zeros(2),
                limits=np.zeros((2, 2)),
            )
        h = h[has_residual]
        r = r[has_residual]
        k = k[has_residual]
        noise = noise[has_residual]
        alpha = solutions[has_residual]
        # ε - noise α
        error = np.sqrt(noise)[:, np.newaxis] * errors[has_residual]
        error -= noise[:, np.newaxis] * alpha
        square = np.mean(alpha**2, axis=1)
        square_error = np.mean(error**2, axis=1)
        logs = np.log(np.stack((r, np.maximum(h, _TINY))))
        correction = cls(
            coefficients=np.zeros(3),
            spread=0.0,
            n_draws=n_draws,
            centre=logs.mean(axis=1),
            limits=np.stack((logs.min(axis=1), logs.max(axis=1)), axis=1),
        )
        base, table = correction._features(h, r, k)

        def moments(beta: Array) -> tuple[Array, Array, Array, Array]:
            v = np.exp(np.clip(base + table @ beta, -60.0, 60.0))
            share = v / (v + noise)
            # mean squares in units of these variances
            ratio = square * (v + noise)
            error_ratio = square_error / (share * noise)
            return v, share, ratio, error_ratio

        # prior standard deviations of the coefficients
        widths = np.array([1.0, 0.5, 0.5])

        def loss(beta: Array) -> tuple[float, Array]:
            """Negative log posterior of β, and its gradient."""
            v, share, ratio, error_ratio = moments(beta)
            nll = ratio - np.log(v + noise) + error_ratio + np.log(share * noise)
            penalty = np.sum((beta / widths) ** 2)
            value = n_draws * np.sum(nll) + penalty
            # ∂ nll / ∂ log v
            slope = share * (ratio - 1.0) - (1.0 - share) * (error_ratio - 1.0)
            gradient = 0.5 * (n_draws * table.T @ slope) + beta / widths**2
            return 0.5 * float(value), gradient

        beta = optimize.minimize(loss, np.zeros(3), jac=True, method="BFGS").x
        # E (ratio - 1)² = 2 / s + share² spread², and likewise for 1 - share
        _, share, ratio, error_ratio = moments(beta)
        shares = np.concatenate((share, 1.0 - share))
        deviation = np.concatenate((ratio, error_ratio)) - 1.0
        excess = np.sum(shares**2 * (deviation**2 - 2.0 / n_draws))
        # posterior mean of spread², a regression of the excess on share²
        precision = 0.125 * n_draws**2
        prior_mean = 0.04
        prior_std = 0.04
        total_precision = precision * np.sum(shares**4) + prior_std**-2
        moment = precision * excess + prior_mean / prior_std**2
        spread = np.sqrt(max(moment / total_precision, 0.0))
        return correction._replace(coefficients=beta, spread=float(spread))

    def _features(self, h: Array, r: Array, k: Array) -> tuple[Array, Array]:
        """``log (h + r)`` (n,), and the factors of the coefficients (n, 3)."""
        h = np.maximum(h, _TINY)
        r = np.maximum(r, 0.0)
        r_positive = np.maximum(r, _TINY)
        total = h + r
        s = r / total
        # the correction fades beyond the largest r of the rows, and towards the prior
        largest_r = np.exp(self.limits[0, 1])
        within_rows = np.minimum(1.0, largest_r / r_positive)
        # power of r/k by which corrections fade
        share_of_prior = (r / k) ** 16
        below_prior = np.maximum(1.0 - share_of_prior, 0.0)
        fading = s * within_rows * below_prior
        # 1, log r and log h within the limits of the rows
        lower, upper = self.limits.T
        logs = np.log(np.stack((r_positive, h), axis=1))
        logs = np.clip(logs, lower, upper)
        logs -= self.centre
        table = np.column_stack((np.ones(len(s)), logs))
        table = fading[:, np.newaxis] * table
        return np.log(total), table

    def __call__(
        self,
        h: Array,
        r: Array,
        k: Array,
        square: Array | None = None,
    ) -> Array:
        """Variances (n,) at rows.

        The corrected variance and the mean square of the draws around the mean are
        averaged on the log scale, weighted by their precisions.

        Parameters
        ----------
        h, r, k : ndarray of shape (n,)
        square : ndarray of shape (n,), optional
            Mean square of draws around the mean.
        """
        base, table = self._features(h, r, k)
        log_v = base + table @ self.coefficients
        if square is not None:
            # variances of the errors of both logarithms
            draw_error = 2.0 / self.n_draws
            correction_error = self.spread**2
            # the logarithm of a chi-square variable is too small by half its variance
            log_square = np.log(np.maximum(square, _TINY)) + 0.5 * draw_error
            gain = correction_error / (correction_error + draw_error)
            log_v = log_v + gain * (log_square - log_v)
        return np.minimum(np.exp(log_v), k)
