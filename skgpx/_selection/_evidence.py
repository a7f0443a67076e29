"""Kernel, noise and likelihood scales from the data, by maximising an evidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics import langevin, laplace
from skgpx._numerics.laplace import laplace_evidence_gradient
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.regression import EvidenceGradient, log_evidence_gradient
from skgpx._numerics.smoothing import SmoothedLikelihood, smoothed
from skgpx._selection._copies import how_counted, search_weights
from skgpx._selection._failing_search import negative_or_hopeless
from skgpx._selection._learner import Candidate, noise_only
from skgpx._selection._search_record import SearchRecord
from skgpx._validation import Rows
from skgpx.bases import select_inducing
from skgpx.kernels import inducing_and_pullback
from skgpx.likelihoods import Gaussian, Likelihood
from skgpx.likelihoods._base import RowForm

Array = NDArray[np.float64]

# The most points of a model whose likelihood is not Gaussian.
MOST = 500
# Rows, inducing inputs and iterations that compare the starts; rows and iterations
# that polish the best of them.
_SCREENING_ROWS, _SCREENING_INDUCING, _SCREENING_ITER = 300, 50, 20
_ROWS, _MAX_ITER = 2000, 80
# Searches after the first that start where it ended, with inducing inputs chosen anew.
_RESELECTIONS, _RESELECTION_ITER = 1, 20
# Relative gain of evidence at which a search ends.
_EVIDENCE_TOLERANCE = 1e-6


class Hyperparameters(NamedTuple):
    """Result of a search.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior kernel κ with its hyperparameters set.
    likelihood : Likelihood
        With its free scales set.
    log_evidence : float
        Evidence at these values, in nats; NaN when nothing was free.
    gain : float
        Of it over the evidence of normal noise around zero, for the same rows; NaN if
        the likelihood is not Gaussian.
    candidate : Candidate or None
        Coordinates of the search, for the next one.
    record : SearchRecord
        Which rows searched.
    exact_noise : float
        Noise variance that an exact process of some rows found first; NaN where none
        was searched, or it found nothing else.
    n_inducing : int
        Number of inducing points that the kernel needs; 0 where none was counted.
    """

    kernel: Any
    likelihood: Likelihood
    log_evidence: float
    gain: float = np.nan
    candidate: Candidate | None = None
    record: SearchRecord = SearchRecord()
    exact_noise: float = np.nan
    n_inducing: int = 0


class Search(NamedTuple):
    """What stays the same during a search.

    Attributes
    ----------
    rows : Rows
        A subset, its weights scaled up to those of all rows.
    inducing : str, array or callable
    n_inducing : int
    """

    rows: Rows
    inducing: Any
    n_inducing: int


def maximise_evidence(
    rows: Rows,
    starts: list[tuple[Any, Likelihood]],
    inducing: Any,
    n_inducing: int,
    rng: np.random.Generator,
    polish: bool = True,
    candidate: Candidate | None = None,
) -> Hyperparameters:
    """Maximise the evidence of the sparse model over kernel and likelihood scales.

    For a Gaussian likelihood the evidence is the collapsed bound of the prior that is
    used; for others the sparse Laplace evidence, of all classes in one model. Both are
    strongly multimodal: every start is tried on 300 rows with 50 inducing inputs, the
    best is polished on 2000 with all of them, chosen anew under the lengthscales found.
    Rows of a subset weigh as much as all rows do; many repetitions of one y count once.

    Parameters
    ----------
    rows : Rows
    starts : list of (kernel, likelihood)
        Prior kernels κ with the same free hyperparameters, and prepared likelihoods.
    inducing, n_inducing
        See :func:`skgpx.bases.select_inducing`.
    rng : numpy.random.Generator
    polish : bool, default=True
        False stops at the best of the tried.
    candidate : Candidate, optional
        Coordinates of the kernels, with their prior; without it all parameters are free
        and have none.

    Returns
    -------
    best : Hyperparameters
    """
    if len(starts[0][0].theta) + len(starts[0][1].theta) == 0:
        return Hyperparameters(*starts[0], np.nan)
    best_start, everything = starts[0], rows
    if not starts[0][1].discrete:
        rows = rows._replace(weights=search_weights(rows))
    if len(starts) > 1 or not polish:
        few = min(n_inducing, _SCREENING_INDUCING)
        small = Search(subset(rows, _SCREENING_ROWS, rng), inducing, few)
        found = [
            climb_kernel(small, *start, _SCREENING_ITER, rng, candidate)
            for start in starts
        ]
        best = max(found, key=lambda one: one.log_evidence)
        if not polish:
            return best._replace(record=record_of(small, best.likelihood, everything))
        best_start = best.kernel, best.likelihood
    large = Search(subset(rows, _ROWS, rng), inducing, n_inducing)
    best = climb_kernel(large, *best_start, _MAX_ITER, rng, candidate)
    for _ in range(_RESELECTIONS):
        again = climb_kernel(large, *best[:2], _RESELECTION_ITER, rng, candidate)
        if again.log_evidence > best.log_evidence:
            best = again
    return best._replace(record=record_of(large, best.likelihood, everything))


def search_on(
    rows: Rows,
    start: tuple[Any, Likelihood],
    previous: Hyperparameters,
    inducing: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> Hyperparameters:
    """From an earlier fit, with as many points as its kernel needed."""
    needed = previous.n_inducing
    how = inducing, max(n_inducing, min(needed, MOST, len(rows.y))), rng
    best = maximise_evidence(rows, [start], *how, candidate=previous.candidate)
    return best._replace(n_inducing=needed)


def record_of(search: Search, likelihood: Likelihood, rows: Rows) -> SearchRecord:
    """What a search by the evidence of a sparse model read, of all rows."""
    kind = "bound" if isinstance(likelihood, Gaussian) else "Laplace evidence"
    m = min(search.n_inducing, len(search.rows.y))
    criterion = f"{kind} of {m} inducing points"
    copies = how_counted(search.rows, rows)
    return SearchRecord(criterion, len(rows.y), len(search.rows.y), copies=copies)


def subset(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    """At most `size` rows, weighted as all of them."""
    n = len(rows.y)
    if n <= size:
        return rows
    chosen = np.sort(rng.choice(n, size, replace=False))
    part = rows.take(chosen)
    weights = part.weights * (rows.weights.sum() / part.weights.sum())
    return part._replace(weights=weights)


def climb_kernel(
    search: Search,
    kernel: Any,
    likelihood: Likelihood,
    max_iter: int,
    rng: np.random.Generator,
    candidate: Candidate | None,
) -> Hyperparameters:
    """L-BFGS-B from the parameters of a kernel and a likelihood."""
    plain = candidate is None
    chosen = Candidate.of_kernel(kernel) if plain else candidate.around(kernel)
    start = chosen, chosen.coordinates_of(kernel), likelihood
    u, likelihood, value = climb_evidence(search, *start, max_iter, rng)
    gain = np.nan
    if isinstance(likelihood, Gaussian):
        gain = value - noise_only(search.rows, likelihood)
    return Hyperparameters(chosen.kernel_at(u), likelihood, value, gain, candidate)


def climb_evidence(
    search: Search,
    candidate: Candidate,
    u: Array,
    likelihood: Likelihood,
    max_iter: int,
    rng: np.random.Generator,
) -> tuple[Array, Likelihood, float]:
    """L-BFGS-B on the logarithms, inducing inputs selected under the first kernel.

    Returns
    -------
    u : ndarray of shape (q,)
        Coordinates of the candidate where evidence and its prior are largest.
    likelihood : Likelihood
    evidence : float
        Without the prior, in nats.
    """
    u = np.clip(u, *candidate.bounds.T)
    evidence = SparseEvidence.of_search(search, candidate.kernel_at(u), likelihood, rng)
    bounds = np.concatenate((candidate.bounds, likelihood.theta_bounds))
    q = candidate.n_free

    def negative(point: Array) -> tuple[float, Array]:
        inner = candidate.offset + candidate.ties @ point[:q]
        value, slope = evidence.negative(np.concatenate((inner, point[q:])))
        prior, pull = candidate.log_prior(point[:q])
        along = candidate.ties.T @ slope[: len(inner)] - pull
        return value - prior, np.concatenate((along, slope[len(inner) :]))

    result = optimize.minimize(
        negative,
        np.clip(np.concatenate((u, likelihood.theta)), *bounds.T),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "ftol": _EVIDENCE_TOLERANCE, "gtol": 1e-3},
    )
    u = result.x[:q]
    value = candidate.log_prior(u)[0] - float(result.fun)
    return u, likelihood.with_theta(result.x[q:]), value


class SparseEvidence:
    """Evidence of an inducing-point model as a function of its log-parameters.

    Parameters
    ----------
    rows : Rows
    Z : ndarray of shape (m, d)
        Inducing inputs.
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
        Prepared.
    """

    def __init__(self, rows: Rows, Z: Array, kernel: Any, likelihood: Likelihood):
        self.rows, self.Z = rows, Z
        self.kernel, self.likelihood = kernel, likelihood
        self._mode: Array | None = None

    @classmethod
    def of_search(
        cls,
        search: Search,
        kernel: Any,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> SparseEvidence:
        """Evidence with inducing inputs selected under the kernel."""
        rows = search.rows
        Z = select_inducing(
            search.inducing, rows.X, kernel, search.n_inducing, rng, rows.weights
        )
        return cls(rows, Z, kernel, likelihood)

    def at(self, theta: Array) -> tuple[Any, Likelihood]:
        """Kernel and likelihood at log-parameters (kernel's first)."""
        p = len(self.kernel.theta)
        likelihood = self.likelihood.with_theta(theta[p:])
        return self.kernel.clone_with_theta(theta[:p]), likelihood

    def negative(self, theta: Array) -> tuple[float, Array]:
        """Negative evidence and its gradient; a large number where it fails."""
        return negative_or_hopeless(self.value_and_gradient, theta)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Evidence in nats, and its gradient in the log-parameters.

        O(n m^2 + m^3) with a few kernel matrices; no array of size n m p.
        """
        kernel, likelihood = self.at(theta)
        kernels, pullback = inducing_and_pullback(kernel, self.rows.X, self.Z)
        L = cholesky(kernels.inducing).L
        features = np.ascontiguousarray(solve_lower(L, kernels.cross.T).T)
        left_over = kernels.diagonal - np.einsum("ij,ij->i", features, features)
        residual = np.maximum(left_over, 0.0)
        evidence = self._evidence(features, residual, likelihood)
        # var g = k(x, x) - |φ|² also moves with the features
        slope_residual = np.where(left_over > 0.0, evidence.residual, 0.0)
        slope = evidence.features - 2.0 * slope_residual[:, np.newaxis] * features
        # Φ = K_xz L⁻ᵀ enters through ΦΦᵀ only: with G the derivative in Φ,
        # K̄_xz = G L⁻¹ and K̄_zz = -½ L⁻ᵀ (ΦᵀG) L⁻¹
        cross = solve_lower_transpose(L, slope.T).T
        inner = solve_lower_transpose(L, solve_lower_transpose(L, features.T @ slope).T)
        gradient = pullback(cross, -0.25 * (inner + inner.T), slope_residual)
        return evidence.value, np.concatenate((gradient, evidence.parameters))

    def _evidence(
        self, features: Array, residual: Array, likelihood: Likelihood
    ) -> EvidenceGradient:
        if isinstance(likelihood, Gaussian):
            noise_variance = float(likelihood.variance(0.0))
            sums = self.rows.y, self.rows.precisions, residual, noise_variance
            evidence = log_evidence_gradient(features, *sums)
            free = evidence.parameters[: len(likelihood.theta)]
            return evidence._replace(parameters=free)
        target = smoothed(row_target(features, self.rows, likelihood))
        start = rough_start(target) if self._mode is None else self._mode
        factor = row_form(self.rows, likelihood).factor
        if factor is not None:
            residual = factor**2 * residual
        evidence, mode = laplace_evidence_gradient(target, residual, start)
        if factor is not None:
            # it is that of factor Φ and factor² var g
            evidence = evidence._replace(
                features=factor[:, np.newaxis] * evidence.features,
                residual=factor**2 * evidence.residual,
            )
        if np.all(np.isfinite(mode)):
            self._mode = mode
        return evidence


def row_target(
    features: Array,
    rows: Rows,
    likelihood: Likelihood,
    std: Array | None = None,
    nodes: tuple[Array, Array] | None = None,
) -> langevin.Target:
    """Target in the coordinates of the weights themselves (centre 0, root I).

    `std` (n, c) and `nodes` give the optimal potential; without them the projected one.
    The latent functions have the mean `base_latent_` of the likelihood. Rows of which
    more is known are written in terms of the likelihood itself, see `RowForm`.
    """
    c, m = likelihood.n_outputs_, features.shape[1]
    code, form = likelihood.kernel_code, row_form(rows, likelihood)
    if std is None or nodes is None:
        std, nodes = np.zeros((len(rows.y), c)), (np.zeros((1, c)), np.ones(1))
    offset = likelihood.base_latent_[np.newaxis]
    if form.factor is not None:
        factor = form.factor[:, np.newaxis]
        features, std, offset = factor * features, factor * std, factor * offset
    return langevin.Target(
        likelihood,
        langevin.NUMPY if code is None else code,
        np.asarray(likelihood.kernel_parameters(), dtype=np.float64),
        np.ascontiguousarray(features),
        np.ascontiguousarray(form.y),
        np.ascontiguousarray(form.weights),
        std,
        *nodes,
        np.zeros((1, m * c)),
        np.eye(m * c)[np.newaxis],
        c,
        offset,
    )


def row_form(rows: Rows, likelihood: Likelihood) -> RowForm:
    """The rows as those of the likelihood itself."""
    return likelihood.row_form(rows.y, rows.weights, rows.known)


def rough_start(target: langevin.Target) -> Array:
    """Weights (m, c) whose functions are near the rough latent values of the rows."""
    rough = rough_latent_values(target)
    return laplace.projection_start(target.features, rough, target.weights)


def rough_latent_values(target: langevin.Target) -> Array:
    """Rough latent values of the rows, less their offset, (n, c)."""
    likelihood = target.likelihood
    if isinstance(likelihood, SmoothedLikelihood):
        likelihood = likelihood.likelihood
    rough = np.asarray(likelihood.initial_latent(target.y), dtype=np.float64)
    less: Array = rough.reshape(len(target.y), -1) - target.offset
    return less
