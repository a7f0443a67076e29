"""Sample features: eigenvectors of the kernel matrix, or values at inducing points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._numerics.regression import WeightStatistics, log_evidence, posterior
from skgpx._numerics.series_evidence import best_noise_variance
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    Hyperparameters,
    SearchRecord,
    inducing_by_capacity,
    learn_prior,
)
from skgpx._spectral_vgp._domain import input_range, joint_range
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows, standardisation
from skgpx.bases import EmpiricalSpectral, Nystroem, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import default_kernel, split_noise
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Rows whose kernel matrix is decomposed for eigenvectors, functions at most, and rows
# from which the noise is learned again.
_MOST_ROWS, _MOST_FUNCTIONS, _FEWEST_ROWS = 4000, 2000, 4


class SparseSettings(NamedTuple):
    """Parameters that decide about the basis; see `SpectralVGPRegressor`."""

    kernel: Any
    basis: str
    n_basis: int | str
    noise_variance: float | None
    optimizer: str | None
    normalize_y: bool


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
    record : SearchRecord
        Which rows chose kernel and noise.
    shift, scale : float
        Standardisation of y, of the rows that chose the basis.
    """

    basis: Any
    seen: Array
    statistics: WeightStatistics
    first: WeightStatistics
    noise_variance: float
    noise_is_free: bool
    noise_bounds: tuple[float, float]
    record: SearchRecord
    shift: float
    scale: float

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
        )

    def solve(self, report: Any = None) -> SpectralFit:
        """Noise variance, posterior and bound; O(m^3), and no rounds to report."""
        del report
        noise = self.noise_variance
        # the search saw the first rows, and the noise that it found is of all of them
        if self.noise_is_free and self.statistics is not self.first:
            best = best_noise_variance(self.statistics, noise)
            noise = float(np.clip(best, *self.noise_bounds))
        weight = self.statistics.weight
        evidence = log_evidence(self.statistics, noise) - weight * np.log(self.scale)
        return SpectralFit(
            posterior=LatentModel(self.basis, posterior(self.statistics, noise)),
            noise_variance=noise * self.scale**2,
            log_evidence=float(evidence),
            shift=self.shift,
            scale=self.scale,
            prior=self.basis.kernel,
            kernel=self.basis.kernel,
            spectrum=self._spectrum() * self.scale**2,
            cycles=np.empty((0, len(self.seen))),
            record=self.record,
        )

    def _spectrum(self) -> Array:
        """Eigenvalues of ``ΦᵀΦ / n``, decreasing: their sum is the mean of |φ(x)|²."""
        values = np.linalg.eigvalsh(self.statistics.gram)[::-1]
        return np.maximum(values, 0.0) / self.statistics.weight


def fit_sample(
    rows: Rows, settings: SparseSettings, rng: np.random.Generator, n_jobs: int | None
) -> tuple[SparseState, tuple[Finding, ...]]:
    """Choose prior, basis and standardisation on some rows, and sum over them."""
    shift, scale = 0.0, 1.0
    if settings.normalize_y:
        shift, scale = standardisation(rows.y, rows.precisions)
    rows = rows._replace(y=(rows.y - shift) / scale)
    search, select = rng.spawn(2)
    found = _fit_kernel(rows, settings, scale, search, n_jobs)
    kernel, likelihood = found.kernel, found.likelihood
    noise = float(likelihood.variance(0.0))
    basis = _basis(kernel, rows, settings, noise, select)
    sums = row_statistics(basis, rows, n_jobs)
    noises = noise, _noise_is_free(settings), _noise_bounds(likelihood)
    seen = input_range(rows.X)
    state = SparseState(basis, seen, sums, sums, *noises, found.record, shift, scale)
    return state, found.findings


def _basis(
    kernel: Any,
    rows: Rows,
    settings: SparseSettings,
    noise_variance: float,
    rng: np.random.Generator,
) -> Any:
    """Inducing points, or leading eigenvectors at as many rows as can be decomposed."""
    n_basis, X, weights = settings.n_basis, rows.X, rows.weights
    if settings.basis == "inducing" and isinstance(n_basis, str):
        Z = inducing_by_capacity(
            rows, kernel, noise_variance, "greedy", rng, _MOST_FUNCTIONS
        )
        return Nystroem.from_kernel(kernel, Z)
    size = min(len(X), _MOST_FUNCTIONS if isinstance(n_basis, str) else int(n_basis))
    if settings.basis == "inducing":
        Z = select_inducing("greedy", X, kernel, size, rng, weights)
        return Nystroem.from_kernel(kernel, Z)
    if len(X) > _MOST_ROWS:
        share = weights / weights.sum()
        chosen = rng.choice(len(X), _MOST_ROWS, replace=False, p=share)
        X, weights = X[np.sort(chosen)], np.ones(_MOST_ROWS)
    basis = EmpiricalSpectral.from_rows(kernel, X, size, weights)
    if isinstance(n_basis, str):
        # n λ_j >= σ², where e_j estimates n λ_j
        known = basis.eigenvalues * rows.weights.sum() / weights.sum()
        return basis.leading(max(1, int(np.sum(known >= noise_variance))))
    return basis


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


def _fit_kernel(
    rows: Rows,
    settings: SparseSettings,
    scale: float,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Hyperparameters:
    """Kernel and noise, and what was found on the way."""
    noise = settings.noise_variance
    fixed = None if noise is None else noise / scale**2
    likelihood = Gaussian(fixed).prepare(rows.y, rows.weights)
    kernel = settings.kernel
    if kernel is None and settings.optimizer is None:
        kernel = default_kernel(rows.X, rows.weights)
    return learn_prior(
        rows,
        likelihood,
        rng,
        kernel=kernel,
        learn=settings.optimizer == "evidence",
        n_inducing=None if settings.n_basis == "auto" else int(settings.n_basis),
        n_jobs=n_jobs,
    )
