"""Sample features: eigenvectors of the kernel matrix, or values at inducing points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skgpx._hyperparameters import (
    NOISE_PRIOR,
    inducing_by_capacity,
    learn,
    search_findings,
    search_record,
)
from skgpx._latent import LatentModel
from skgpx._numerics.regression import (
    TargetRegressions,
    WeightStatistics,
    best_noise_variance,
    log_evidence,
    posterior,
)
from skgpx._row_budgets import ABUNDANT_ROWS
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows, standardisation
from skgpx._spectral_vgp._candidates import Parameters, fixed_noise_variance
from skgpx._spectral_vgp._credible import effective_dimension
from skgpx._spectral_vgp._domain import input_range, joint_range
from skgpx._types import Array, ArrayLike, Generator, Kernel
from skgpx.bases import EmpiricalSpectral, Nystroem, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Gaussian

# Largest number of functions that "auto" takes.
_MAX_FUNCTIONS = 2000
# Largest number of rows with eigenvectors.
_MAX_DECOMPOSED_ROWS = 4000


@dataclass(frozen=True)
class SparseState:
    """Basis and the sums over all rows seen.

    Attributes
    ----------
    basis : Nystroem or EmpiricalSpectral
    seen : ndarray of shape (d, 2)
        Range of the inputs so far.
    statistics : WeightStatistics
        Sums of the standardised y.
    first : WeightStatistics
        Sums of the rows that chose the basis, which copies of a model share.
    noise_variance : float
        Noise of the standardised y: the start of a search, or fixed.
    noise_bounds : tuple of float or None
        Bounds of the search; None for a fixed noise.
    record : dict
        Which rows chose kernel and noise.
    shift, scale : float or ndarray of shape (t,)
        Standardisation of y, from the rows that chose the basis.
    """

    basis: Nystroem | EmpiricalSpectral
    seen: Array
    statistics: WeightStatistics
    first: WeightStatistics
    noise_variance: float
    noise_bounds: tuple[float, float] | None
    record: dict[str, Any]
    shift: Any
    scale: Any

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SparseState:
        """State after more rows."""
        standardised_y = (rows.y - self.shift) / self.scale
        standardised = rows._replace(y=standardised_y)
        sums = row_statistics(self.basis, standardised, n_jobs)
        return replace(
            self,
            statistics=self.statistics.add(sums),
            seen=joint_range(self.seen, input_range(rows.X)),
        )

    def merged(self, other: SparseState) -> SparseState:
        """State of the rows of both; those that chose the basis count once.

        Raises
        ------
        ValueError
            If they do not have the same basis and standardisation.
        """
        if not (isinstance(other, SparseState) and self._has_basis_of(other)):
            raise ValueError(
                "Only models with one basis and one standardisation of y can be "
                "merged. Call partial_fit once on some rows, copy the model, and "
                "pass the other rows to the partial_fit of the copies."
            )
        total = self.statistics.add(other.statistics).add(self.first, -1.0)
        return replace(
            self,
            statistics=total,
            seen=joint_range(self.seen, other.seen),
        )

    def _has_basis_of(self, other: SparseState) -> bool:
        """Whether the same rows chose the same basis, with the same parameters."""
        basis = self.basis
        other_basis = other.basis
        return (
            type(basis) is type(other_basis)
            and basis.kernel == other_basis.kernel
            and np.array_equal(basis.inducing_points, other_basis.inducing_points)
            and basis.n_basis == other_basis.n_basis
            and np.array_equal(self.first.moment, other.first.moment)
            and np.array_equal(self.shift, other.shift)
            and np.array_equal(self.scale, other.scale)
            and self.noise_bounds == other.noise_bounds
            and self.noise_variance == other.noise_variance
        )

    def solve(
        self,
        report: Callable[..., bool] | None = None,
    ) -> tuple[dict[str, Any], tuple[()]]:
        """Noise variance, posterior and bound; O(m^3), and no rounds to report."""
        del report
        sums = self.statistics
        noise_variance: Any = self.noise_variance
        if np.ndim(sums.square):
            targets, noise_variance = self.regressions()
            weights = targets.posterior(noise_variance)
            evidence = targets.log_evidence(noise_variance).sum()
        else:
            # the search saw the first rows, and its noise is of all of them
            if self.noise_bounds is not None and sums is not self.first:
                best = best_noise_variance(sums, noise_variance)
                noise_variance = float(np.clip(best, *self.noise_bounds))
            weights = posterior(sums, noise_variance)
            evidence = log_evidence(sums, noise_variance)
        units = np.broadcast_to(self.scale, np.shape(noise_variance))
        # ΦᵀΦ / n: the sum of its eigenvalues is the mean of |φ(x)|²
        eigenvalues = np.linalg.eigvalsh(sums.gram)[::-1] / sums.weight
        spectrum = np.maximum(eigenvalues, 0.0)
        log_units = np.log(units).sum()
        kernel = self.basis.kernel
        model = LatentModel(self.basis, weights)
        attributes = {
            "posterior_": model.affine(self.shift, self.scale),
            "noise_variance_": noise_variance * self.scale**2,
            "log_evidence_": float(evidence - sums.weight * log_units),
            "prior_": kernel,
            "kernel_": kernel,
            "spectrum_": np.multiply.outer(spectrum, units**2),
            "cycles_": np.empty((0, len(self.seen))),
            "n_basis_": self.basis.n_basis,
            "effective_dimension_": effective_dimension(model),
            "_record": self.record,
        }
        return attributes, ()

    def regressions(self) -> tuple[TargetRegressions, Array]:
        """Regressions of several targets, and the noise variance of each."""
        targets = TargetRegressions(self.statistics)
        if self.noise_bounds is None:
            n_targets = len(self.statistics.square)
            return targets, np.full(n_targets, self.noise_variance)
        low, high = np.log(self.noise_bounds)
        noises = targets.best_noise(low, high, NOISE_PRIOR.log_density)
        return targets, noises


def fit_sample(
    rows: Rows,
    kind: str,
    parameters: Parameters,
    rng: Generator,
    n_jobs: int | None,
) -> tuple[SparseState, tuple[Finding, ...]]:
    """Choose prior, basis and standardisation on the rows, and sum over them.

    Parameters
    ----------
    rows : Rows
    kind : {"inducing", "empirical"}
    parameters : Parameters
    rng : numpy.random.Generator
    n_jobs : int or None

    Returns
    -------
    state : SparseState
    findings : tuple of Finding
    """
    shift: Any = 0.0
    scale: Any = 1.0
    given_noise = parameters["noise_variance"]
    if parameters["normalize_y"]:
        shift, scale = standardisation(rows.y, rows.precisions)
        if given_noise is not None:
            # targets of one noise have one unit
            scale = float(np.sqrt(np.mean(scale**2)))
    rows = rows._replace(y=(rows.y - shift) / scale)

    # kernel and noise
    search_rng, basis_rng = rng.spawn(2)
    is_learned = parameters["optimizer"] is not None
    kernel = parameters["kernel"]
    if kernel is None and not is_learned:
        kernel = default_kernel(rows.X, rows.weights)
    n_basis = parameters["n_basis"]
    if isinstance(n_basis, str):
        n_basis = None
    inducing = parameters["inducing"]
    if _are_points(inducing):
        n_basis = len(inducing)
    unit_noise = None if given_noise is None else given_noise / scale**2
    states = learn(
        rows,
        Gaussian(unit_noise).prepare(rows.y, rows.weights),
        search_rng,
        kernel=kernel,
        fixed=not is_learned,
        inducing=inducing,
        n_inducing=n_basis,
        n_jobs=n_jobs,
        # few points leave out what is rough
        rough=n_basis is None and len(rows.y) < ABUNDANT_ROWS,
    )
    kernel = states[0].kernel
    likelihood = states[0].likelihood
    noise_variance = float(likelihood.variance(0.0))
    noise_bounds = None
    if fixed_noise_variance(parameters, scale) is None:
        noise_bounds = _noise_bounds(likelihood)

    def state_for(least_noise: float) -> SparseState:
        """Basis for the least noise of a target, and sums over the rows."""
        if kind == "empirical":
            basis: Any = _eigenvectors(kernel, rows, n_basis, least_noise, basis_rng)
        else:
            points = _select_points(
                inducing,
                rows,
                kernel,
                n_basis,
                least_noise,
                basis_rng,
            )
            basis = Nystroem.from_kernel(kernel, points, least_noise)
        sums = row_statistics(basis, rows, n_jobs)
        return SparseState(
            basis=basis,
            seen=input_range(rows.X),
            statistics=sums,
            first=sums,
            noise_variance=noise_variance,
            noise_bounds=noise_bounds,
            record=search_record(states, rows),
            shift=shift,
            scale=scale,
        )

    state = state_for(noise_variance)
    if rows.y.ndim > 1 and n_basis is None:
        _, noise_variances = state.regressions()
        state = state_for(float(noise_variances.min()))
    return state, tuple(search_findings(states, rows))


def _noise_bounds(likelihood: Gaussian) -> tuple[float, float]:
    """Bounds of the noise variance in a search."""
    if not len(likelihood.theta):
        return 0.0, np.inf
    low, high = likelihood.theta_bounds[0]
    return float(np.exp(low)), float(np.exp(high))


def _are_points(inducing: object) -> bool:
    """Whether the parameter `inducing` holds points instead of a strategy."""
    return not isinstance(inducing, str) and not callable(inducing)


def _select_points(
    inducing: str | Callable[..., ArrayLike] | ArrayLike,
    rows: Rows,
    kernel: Kernel,
    n_basis: int | None,
    noise_variance: float,
    rng: Generator,
) -> Array:
    """Inducing points (m, d): so many, or as many as the rows support."""
    if n_basis is None:
        points, _ = inducing_by_capacity(
            rows,
            kernel,
            noise_variance,
            inducing,
            rng,
            largest=_MAX_FUNCTIONS,
        )
        return points
    if not _are_points(inducing):
        n_basis = min(len(rows.X), n_basis)
    return select_inducing(inducing, rows.X, kernel, n_basis, rng, rows.weights)


def _eigenvectors(
    kernel: Kernel,
    rows: Rows,
    n_basis: int | None,
    noise_variance: float,
    rng: Generator,
) -> EmpiricalSpectral:
    """Leading eigenvectors at as many rows as can be decomposed."""
    X = rows.X
    weights = rows.weights
    largest = _MAX_FUNCTIONS
    if n_basis is not None:
        largest = n_basis
    size = min(len(X), largest)
    if len(X) > _MAX_DECOMPOSED_ROWS:
        share = weights / weights.sum()
        chosen = rng.choice(len(X), _MAX_DECOMPOSED_ROWS, replace=False, p=share)
        X = X[np.sort(chosen)]
        weights = np.ones(_MAX_DECOMPOSED_ROWS)
    basis = EmpiricalSpectral.from_rows(kernel, X, size, weights)
    if n_basis is None:
        # n λ_j >= σ², where e_j estimates n λ_j
        signal = basis.eigenvalues * rows.weights.sum() / weights.sum()
        n_above_noise = int(np.sum(signal >= noise_variance))
        basis = basis.leading(max(1, n_above_noise))
    return basis
