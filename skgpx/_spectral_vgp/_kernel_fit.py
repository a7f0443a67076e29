"""Regression on a fixed basis of kernel functions, from sums that add over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    posterior,
)
from skgpx._numerics.series_evidence import ScaleProfile
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    FEWEST_ROWS,
    NOISE_BY_BOUND,
    NOISE_BY_DENSITY,
    PriorSettings,
    SearchRecord,
    fit_prior,
    inducing_by_capacity,
    judged_noise,
    warn_of_budget,
)
from skgpx._spectral_vgp._domain import input_range, joint_range
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows, standardisation
from skgpx.bases import EmpiricalSpectral, Nystroem, select_inducing
from skgpx.kernels import default_kernel, split_noise
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Rows whose kernel matrix is decomposed for empirical spectral features.
MAX_EMPIRICAL_ROWS = 4000


class SparseSettings(NamedTuple):
    """Parameters that decide about the basis; see `SpectralVGPRegressor`."""

    kernel: Any
    basis: str
    n_basis: int | str
    inducing: Any
    noise_variance: float | None
    optimizer: str | None
    n_restarts: int
    normalize_y: bool
    largest: int


@dataclass(frozen=True)
class SparseState:
    """Basis and the sums over all rows seen.

    Attributes
    ----------
    basis : Nystroem or EmpiricalSpectral
    seen : ndarray of shape (d, 2)
        Range of the inputs so far.
    statistics : WeightStatistics
        Of the standardised y.
    first : WeightStatistics
        Of the rows that chose the basis, which copies of a model share.
    noise_variance : float
        Start of its search, or its fixed value; standardised.
    noise_is_free : bool
    noise_bounds : tuple of float
        Between which a free one is searched.
    judged : float
        Share of the bound's noise that rows kept out of the first ones found to be
        noise, where the bound counts what the basis leaves out; otherwise one.
    record : SearchRecord
        Which rows chose kernel and noise.
    shift, scale : float
        Standardisation of y, of the rows that chose the basis.
    n_first : int
        Distinct rows that chose the basis.
    """

    basis: Any
    seen: Array
    statistics: WeightStatistics
    first: WeightStatistics
    noise_variance: float
    noise_is_free: bool
    noise_bounds: tuple[float, float]
    judged: float
    record: SearchRecord
    shift: float
    scale: float
    n_first: int

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SparseState:
        """State after more rows."""
        y = (rows.y - self.shift) / self.scale
        more = row_statistics(self.basis, rows._replace(y=y), n_jobs)
        seen = joint_range(self.seen, input_range(rows.X))
        return replace(self, statistics=self.statistics.add(more), seen=seen)

    def merged(self, other: SparseState) -> SparseState:
        """State of the rows of both; those that chose the basis count once.

        Raises
        ------
        ValueError
            If they do not have the same basis and standardisation.
        """
        if not (isinstance(other, SparseState) and self._began_like(other)):
            raise ValueError(
                "Only models with one basis and one standardisation of y can be "
                "merged. Call partial_fit once on some rows, copy the model, and let "
                "the copies see the other rows."
            )
        total = self.statistics.add(other.statistics).add(self.first, -1.0)
        seen = joint_range(self.seen, other.seen)
        return replace(self, statistics=total, seen=seen)

    def _began_like(self, other: SparseState) -> bool:
        """Whether the same rows chose the same basis, with the same parameters."""
        one, two = self.basis, other.basis
        return (
            type(one) is type(two)
            and one.kernel == two.kernel
            and np.array_equal(one.inducing_points, two.inducing_points)
            and one.n_basis == two.n_basis
            and np.array_equal(self.first.moment, other.first.moment)
            and (self.shift, self.scale) == (other.shift, other.scale)
            and self.noise_is_free == other.noise_is_free
            and self.noise_variance == other.noise_variance
            and self.judged == other.judged
        )

    def solve(self) -> SpectralFit:
        """Noise variance, posterior and bound; O(m^3)."""
        best = noise = self.noise_variance
        # nothing is learned from a few first rows, until there are others
        few = self.n_first < FEWEST_ROWS and self.statistics is self.first
        if self.noise_is_free and not few:
            best = _best_noise(self.statistics, self.noise_bounds)
            noise = float(np.clip(self.judged * best, *self.noise_bounds))
        law = posterior(self.statistics, noise)
        weight = self.statistics.weight
        evidence = log_evidence(self.statistics, best) - weight * np.log(self.scale)
        return SpectralFit(
            posterior=LatentModel(self.basis, law),
            noise_variance=noise * self.scale**2,
            log_evidence=float(evidence),
            shift=self.shift,
            scale=self.scale,
            prior=self.basis.kernel,
            spectrum=self._spectrum() * self.scale**2,
            record=self.record,
        )

    def _spectrum(self) -> Array:
        """Eigenvalues of ``ΦᵀΦ / n``, decreasing: their sum is the mean of |φ(x)|²."""
        values = np.linalg.eigvalsh(self.statistics.gram)[::-1]
        return np.maximum(values, 0.0) / self.statistics.weight


def start_sparse(
    rows: Rows, settings: SparseSettings, rng: np.random.Generator, n_jobs: int | None
) -> SparseState:
    """Choose prior, basis and standardisation on some rows, and sum over them."""
    shift, scale = 0.0, 1.0
    if settings.normalize_y:
        shift, scale = standardisation(rows.y, rows.precisions)
    rows = rows._replace(y=(rows.y - shift) / scale)
    search, select, judge = rng.spawn(3)
    size = _largest_basis(settings, rows)
    how = scale, search, n_jobs
    kernel, likelihood, record = _fit_kernel(rows, settings, size, *how)
    noise = float(likelihood.variance(0.0))
    if settings.basis == "empirical":
        basis = _empirical_basis(kernel, rows, settings, size, noise, select)
    else:
        Z = _inducing_points(kernel, rows, settings, size, noise, select)
        basis = Nystroem.from_kernel(kernel, Z)
    free = _noise_is_free(settings)
    statistics = row_statistics(basis, rows, n_jobs)
    bounds, judged = _noise_bounds(likelihood), 1.0
    if free and len(rows.y) >= FEWEST_ROWS:
        by_rows = basis, rows, statistics, noise, bounds, judge
        noise, judged, record = _judged(record, *by_rows)
    if _by_capacity(settings):
        left_out = statistics.residual / (2.0 * noise * statistics.weight)
        m = len(basis.inducing_points)
        warn_of_budget(m, len(rows.y), left_out, "n_basis", settings.largest)
    seen, sums = input_range(rows.X), (statistics, statistics)
    searched = noise, free, bounds, judged, record
    return SparseState(basis, seen, *sums, *searched, shift, scale, len(rows.y))


def _judged(
    record: SearchRecord,
    basis: Any,
    rows: Rows,
    statistics: WeightStatistics,
    noise: float,
    bounds: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[float, float, SearchRecord]:
    """Noise to start from, its share of what the bound takes for noise, and by what."""
    record = record.with_noise(NOISE_BY_BOUND)
    if not isinstance(basis, Nystroem):
        return noise, 1.0, record
    best = _best_noise(statistics, bounds)
    found = judged_noise(basis, rows, statistics, noise, best, rng)
    if found is None:
        return best, 1.0, record
    share = found.variance / best
    return share * best, share, record.with_noise(NOISE_BY_DENSITY, found.rows)


def _noise_is_free(settings: SparseSettings) -> bool:
    if settings.noise_variance is not None or settings.kernel is None:
        return settings.noise_variance is None
    _, level, bounds = split_noise(settings.kernel)
    kept = settings.optimizer is None or isinstance(bounds, str)
    return level is None or not kept


def _noise_bounds(likelihood: Gaussian) -> tuple[float, float]:
    """Bounds of a free noise variance."""
    if not len(likelihood.theta):
        return 0.0, np.inf
    low, high = np.exp(likelihood.theta_bounds[0])
    return float(low), float(high)


def _best_noise(statistics: WeightStatistics, bounds: tuple[float, float]) -> float:
    """Noise variance of the largest bound, between bounds."""
    best = ScaleProfile.of(statistics).best_noise_variance()
    return float(np.clip(best, *bounds))


def _inducing_points(
    kernel: Any,
    rows: Rows,
    settings: SparseSettings,
    size: int,
    noise_variance: float,
    rng: np.random.Generator,
) -> Array:
    """Inducing points under the fitted kernel: as many as it takes, or `size`."""
    how = settings.inducing
    if _by_capacity(settings):
        largest = settings.largest
        return inducing_by_capacity(rows, kernel, noise_variance, how, rng, largest)
    return select_inducing(how, rows.X, kernel, size, rng, rows.weights)


def _by_capacity(settings: SparseSettings) -> bool:
    """Whether the data decide how many inducing points there are."""
    named = isinstance(settings.inducing, str)
    return settings.basis == "inducing" and settings.n_basis == "auto" and named


def _largest_basis(settings: SparseSettings, rows: Rows) -> int:
    n = len(rows.y)
    if settings.n_basis == "auto":
        wanted = settings.largest
        if settings.basis == "inducing":
            wanted = max(100, int(np.ceil(np.sqrt(n))))
        return min(n, wanted, settings.largest)
    return min(n, int(settings.n_basis))


def _fit_kernel(
    rows: Rows,
    settings: SparseSettings,
    size: int,
    scale: float,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Any, Gaussian, SearchRecord]:
    """Kernel and noise as they were found, and which rows searched."""
    noise = settings.noise_variance
    fixed = None if noise is None else noise / scale**2
    likelihood = Gaussian(fixed).prepare(rows.y, rows.weights)
    kernel = settings.kernel
    if kernel is None and settings.optimizer is None:
        kernel = default_kernel(rows.X, rows.weights)
    optimizer = "evidence" if settings.optimizer == "evidence" else None
    # the search wants points of the data, chosen anew for each kernel
    inducing = settings.inducing if settings.basis == "inducing" else "greedy"
    few = None if _by_capacity(settings) else size
    found = fit_prior(
        rows,
        likelihood,
        PriorSettings(
            kernel=kernel,
            prior="gp",
            optimizer=optimizer,
            n_restarts=settings.n_restarts,
            inducing=inducing,
            n_inducing=few,
            n_jobs=n_jobs,
        ),
        rng,
    )
    return found.kernel, found.likelihood, found.record


def _empirical_basis(
    kernel: Any,
    rows: Rows,
    settings: SparseSettings,
    size: int,
    noise_variance: float,
    rng: np.random.Generator,
) -> EmpiricalSpectral:
    """Leading eigenvectors at the rows, or at as many as can be decomposed."""
    X, weights = rows.X, rows.weights
    if len(X) > MAX_EMPIRICAL_ROWS:
        share = weights / weights.sum()
        chosen = rng.choice(len(X), MAX_EMPIRICAL_ROWS, replace=False, p=share)
        X, weights = X[np.sort(chosen)], np.ones(MAX_EMPIRICAL_ROWS)
    basis = EmpiricalSpectral.from_rows(kernel, X, size, weights)
    if settings.n_basis == "auto":
        # n λ_j >= σ², where e_j estimates n λ_j
        known = basis.eigenvalues * rows.weights.sum() / weights.sum()
        size = max(1, int(np.sum(known >= noise_variance)))
    return basis.leading(size)
