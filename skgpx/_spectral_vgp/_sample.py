"""Sample features: eigenvectors of the kernel matrix, or values at inducing points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._numerics.regression import (
    TargetRegressions,
    WeightStatistics,
    best_noise_variance,
    log_evidence,
    posterior,
)
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    NOISE_PRIOR,
    SearchRecord,
    inducing_by_capacity,
    learn_prior,
)
from skgpx._spectral_vgp._candidates import Parameters, fixed_noise_variance
from skgpx._spectral_vgp._credible import effective_dimension
from skgpx._spectral_vgp._domain import input_range
from skgpx._validation import Rows, standardisation
from skgpx.bases import EmpiricalSpectral, Nystroem, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Functions that "auto" may take, at most.
_MOST_FUNCTIONS = 2000


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
    noise_bounds : tuple of float or None
        Between which it is searched; None for a fixed one.
    record : SearchRecord
        Which rows chose kernel and noise.
    shift, scale : float or ndarray of shape (t,)
        Standardisation of y, of the rows that chose the basis.
    """

    basis: Any
    seen: Array
    statistics: WeightStatistics
    first: WeightStatistics
    noise_variance: float
    noise_bounds: tuple[float, float] | None
    record: SearchRecord
    shift: Any
    scale: Any

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SparseState:
        """State after more rows."""
        y = (rows.y - self.shift) / self.scale
        more = row_statistics(self.basis, rows._replace(y=y), n_jobs)
        seen = input_range(np.vstack((self.seen.T, rows.X)))
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
                "merged. Call partial_fit once on some rows, copy the model, and "
                "pass the other rows to the partial_fit of the copies."
            )
        total = self.statistics.add(other.statistics).add(self.first, -1.0)
        seen = input_range(np.hstack((self.seen, other.seen)).T)
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
            and np.array_equal(self.shift, other.shift)
            and np.array_equal(self.scale, other.scale)
            and self.noise_bounds == other.noise_bounds
            and self.noise_variance == other.noise_variance
        )

    def solve(self, report: Any = None) -> tuple[dict[str, Any], tuple[()]]:
        """Noise variance, posterior and bound; O(m^3), and no rounds to report."""
        del report
        scale, sums = self.scale, self.statistics
        noise: Any = self.noise_variance
        if np.ndim(sums.square):
            each, noise = self.regressions()
            weights, evidence = each.posterior(noise), each.log_evidence(noise).sum()
        else:
            # the search saw the first rows, and its noise is of all of them
            if self.noise_bounds is not None and sums is not self.first:
                best = best_noise_variance(sums, noise)
                noise = float(np.clip(best, *self.noise_bounds))
            weights, evidence = posterior(sums, noise), log_evidence(sums, noise)
        units = np.broadcast_to(scale, np.shape(noise))
        # ΦᵀΦ / n: the sum of its eigenvalues is the mean of |φ(x)|²
        values = np.linalg.eigvalsh(sums.gram)[::-1] / sums.weight
        model = LatentModel(self.basis, weights)
        attributes = {
            "posterior_": model.affine(self.shift, scale),
            "noise_variance_": noise * scale**2,
            "log_evidence_": float(evidence - sums.weight * np.log(units).sum()),
            "prior_": self.basis.kernel,
            "kernel_": self.basis.kernel,
            "spectrum_": np.multiply.outer(np.maximum(values, 0.0), units**2),
            "cycles_": np.empty((0, len(self.seen))),
            "n_basis_": self.basis.n_basis,
            "effective_dimension_": effective_dimension(model),
            "_record": self.record,
        }
        return attributes, ()

    def chosen_before(self, n_functions: int) -> SparseState:
        """The state, whose record says that so many Fourier functions are worse."""
        criterion = f"{self.record.criterion}; bound above {n_functions} functions'"
        return replace(self, record=self.record._replace(criterion=criterion))

    def regressions(self) -> tuple[TargetRegressions, Array]:
        """Regressions of several targets, and the noise variance of each."""
        each, t = TargetRegressions(self.statistics), len(self.statistics.square)
        if self.noise_bounds is None:
            return each, np.full(t, self.noise_variance)
        return each, each.best_noise(*np.log(self.noise_bounds), *NOISE_PRIOR)


def fit_sample(
    rows: Rows,
    kind: str,
    parameters: Parameters,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[SparseState, tuple[Finding, ...]]:
    """Choose prior, basis and standardisation on some rows, and sum over them."""
    shift: Any = 0.0
    scale: Any = 1.0
    given, learns = parameters["noise_variance"], parameters["optimizer"] is not None
    if parameters["normalize_y"]:
        shift, scale = standardisation(rows.y, rows.precisions)
        if given is not None:
            # targets of one noise have one unit
            scale = float(np.sqrt(np.mean(scale**2)))
    rows = rows._replace(y=(rows.y - shift) / scale)
    search, select = rng.spawn(2)
    kernel, size = parameters["kernel"], parameters["n_basis"]
    size = None if isinstance(size, str) else int(size)
    inducing = parameters["inducing"]
    places_are_given = not isinstance(inducing, str) and not callable(inducing)
    if places_are_given:
        size = len(inducing)
    if kernel is None and not learns:
        kernel = default_kernel(rows.X, rows.weights)
    likelihood = Gaussian(None if given is None else given / scale**2)
    found = learn_prior(
        rows,
        likelihood.prepare(rows.y, rows.weights),
        search,
        kernel=kernel,
        learn=learns,
        inducing=inducing,
        n_inducing=size,
        n_jobs=n_jobs,
    )
    likelihood = found.likelihood
    noise = float(likelihood.variance(0.0))
    kernel, bounds = found.kernel, None
    if fixed_noise_variance(parameters, scale) is None:
        theta = (
            likelihood.theta_bounds[0] if len(likelihood.theta) else (-np.inf, np.inf)
        )
        bounds = float(np.exp(theta[0])), float(np.exp(theta[1]))
    seen = input_range(rows.X)

    def summed(least: float) -> SparseState:
        """Basis for the least noise of a target, and sums over the rows."""
        if kind == "empirical":
            basis: Any = _eigenvectors(kernel, rows, size, least, select)
        elif size is None:
            points, _ = inducing_by_capacity(
                rows,
                kernel,
                least,
                inducing,
                select,
                largest=_MOST_FUNCTIONS,
            )
            basis = Nystroem.from_kernel(kernel, points)
        else:
            most = size if places_are_given else min(len(rows.X), size)
            points = select_inducing(
                inducing,
                rows.X,
                kernel,
                most,
                select,
                rows.weights,
            )
            basis = Nystroem.from_kernel(kernel, points)
        sums = row_statistics(basis, rows, n_jobs)
        given = noise, bounds, found.record, shift, scale
        return SparseState(basis, seen, sums, sums, *given)

    state = summed(noise)
    if rows.y.ndim > 1 and size is None:
        state = summed(float(state.regressions()[1].min()))
    return state, found.findings


def _eigenvectors(
    kernel: Any,
    rows: Rows,
    size: int | None,
    noise_variance: float,
    rng: np.random.Generator,
) -> EmpiricalSpectral:
    """Leading eigenvectors at as many rows as can be decomposed."""
    X, weights, most = rows.X, rows.weights, 4000
    wanted = min(len(X), _MOST_FUNCTIONS if size is None else size)
    if len(X) > most:
        share = weights / weights.sum()
        chosen = rng.choice(len(X), most, replace=False, p=share)
        X, weights = X[np.sort(chosen)], np.ones(most)
    basis = EmpiricalSpectral.from_rows(kernel, X, wanted, weights)
    if size is None:
        # n λ_j >= σ², where e_j estimates n λ_j
        known = basis.eigenvalues * rows.weights.sum() / weights.sum()
        basis = basis.leading(max(1, int(np.sum(known >= noise_variance))))
    return basis
