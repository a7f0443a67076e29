"""From basis, rows and likelihood to the posterior of the weights, by each method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel, Mean
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.modes import RIVAL, is_log_concave, survey
from skgpx._numerics.regression import (
    log_evidence,
    posterior,
    precision_root,
)
from skgpx._numerics.smoothing import smoothed
from skgpx._numerics.weights import GaussianWeights, WeightParticles
from skgpx._parallel import blas_jobs, parallel_map
from skgpx._pls._chains import ADJUSTED, CORRELATED, Sample, adapt, run_chains, settle
from skgpx._pls._nearest_rows import condition_on_rows
from skgpx._pls._tempering import of_both_signs, run_smc
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    final_noise,
    regress_targets,
    rough_latent_values,
    rough_start,
    row_target,
    sparse_value,
)
from skgpx._validation import Rows
from skgpx.bases import NeighborBasis, Nystroem, known_weights
from skgpx.diagnostics import (
    Finding,
    chains_not_converged,
    rows_not_converged,
    runs_disagree,
    several_modes,
)
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]
Report = Callable[[Sample, LatentModel], bool]

# Rows of features computed at a time; fixed, so that sums do not depend on workers.
_ROWS = 4096


class Inference(NamedTuple):
    """Posterior of the weights and how it was computed.

    Attributes
    ----------
    posterior : LatentModel
    particles : ndarray of shape (m, c, s)
    sample : Sample
        Diagnostics of the chains.
    likelihood : Likelihood
        Its noise variance may have been fitted again.
    log_evidence : float
        Collapsed bound of all rows, or Laplace's approximation, beside nearest rows the
        variational bound, in nats; NaN while chains run.
    unexplained : float
        Mean of ``½ c_i var g(x_i)`` with the curvature c of the likelihood, which is
        ``1 / noise_variance`` for Gaussian noise: nats per observation by which the
        evidence may be too low.
    findings : tuple of Finding
        About the sampler.
    """

    posterior: LatentModel
    particles: Array
    sample: Sample
    likelihood: Likelihood
    log_evidence: float = np.nan
    unexplained: float = np.nan
    findings: tuple[Finding | None, ...] = ()


def resolved_method(method: str, likelihood: Likelihood) -> str:
    """Name of the sampler that "auto" stands for.

    Raises
    ------
    ValueError
        If the closed form is requested where there is none.
    """
    gaussian = isinstance(likelihood, Gaussian)
    if method == "exact" and not gaussian:
        raise ValueError(
            'method="exact" needs a Gaussian likelihood, whose posterior has a closed '
            f'form; got {likelihood!r}. Use method="auto".'
        )
    if method == "auto":
        return "exact" if gaussian else "ou_mala"
    return method


def infer(
    basis: Any,
    rows: Rows,
    likelihood: Any,
    rng: np.random.Generator,
    *,
    method: str = "auto",
    n_particles: int = 100,
    step_size: float | None = None,
    max_iter: int | None = None,
    tol: float = 1.1,
    n_jobs: int | None = None,
    noise_is_free: bool = False,
    previous: Array | None = None,
    report: Report | None = None,
) -> Inference:
    """Sample the posterior of the weights.

    Parameters
    ----------
    basis : Nystroem or NeighborBasis
        The latter in closed form, or by the closest normal distribution.
    rows : Rows
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    method, n_particles, step_size, max_iter, tol, n_jobs
        See :class:`~skgpx.PLSRegressor`.
    noise_is_free : bool, default=False
        Whether the noise variance of the closed form may still change.
    previous : ndarray of shape (m, c, s), optional
        Particles of an earlier fit, where the chains start instead.
    report : callable, optional
        Called after each round of steps; True stops the chains.

    Raises
    ------
    ValueError
        If ``method="exact"`` and the likelihood is not Gaussian, or if the unadjusted
        scheme diverges.
    """
    name = resolved_method(method, likelihood)
    if isinstance(basis, NeighborBasis):
        return _by_neighbors(basis, rows, likelihood, n_particles, n_jobs, rng)
    if name == "exact":
        free = noise_is_free
        return _exact(basis, rows, likelihood, n_particles, n_jobs, free, rng)
    # 1 the target in the coordinates of the weights, its modes
    plain, best, log_concave, gaps = target_and_modes(
        basis, rows, likelihood, name == "smc", n_jobs, rng.spawn(1)[0]
    )

    def reported(target: Target) -> Callable[[Sample], bool]:
        def call(sample: Sample) -> bool:
            w = np.ascontiguousarray(langevin.weights_of(target, sample.z))
            return report is not None and report(sample, _model(basis, w, likelihood))

        return call

    # 2 particles: tempered where there are several modes and some ten seconds suffice
    # (25 m steps of 400 particles, of 4 n m operations), or Langevin chains
    n, p = len(plain.y), plain.root.shape[1]
    affordable = method == "auto" and n * p**2 <= 5e6
    rivals = bool(np.any(gaps < RIVAL))
    if name == "smc" or (rivals and affordable):
        target = plain
        sample, findings = _tempered(
            plain, best, likelihood, n_particles, n_jobs, rng, reported(plain)
        )
        groups = np.arange(n_particles) * (rivals or likelihood.symmetric)
    else:
        how = name, n_particles, step_size, max_iter, tol, n_jobs, previous, reported
        target, sample = _langevin(plain, best, basis, rng, *how)
        if not np.all(np.isfinite(sample.z)):
            raise ValueError(
                f'method="{name}" diverged with step_size={step_size!r}. Use a smaller '
                "one, or None to take it from the largest eigenvalue of the Hessian."
            )
        r_hat = 1.0 if sample.stopped else float(np.max(sample.r_hat))
        steps = sample.n_iter, sample.acceptance, log_concave
        findings = (
            chains_not_converged(r_hat, tol, *steps),
            several_modes(float(gaps.min(initial=np.inf))),
        )
        groups = np.zeros(n_particles, np.intp)
    sample = sample._replace(ess=np.minimum(sample.ess, float(n_particles)))
    # 3 the posterior of the weights
    particles = np.ascontiguousarray(langevin.weights_of(target, sample.z))
    if likelihood.symmetric:
        m, c, s = particles.shape
        w = particles.transpose(1, 0, 2).reshape(1, m * c, s)
        w, chosen, mirrored = of_both_signs(plain, w, rng)
        particles = np.ascontiguousarray(w.reshape(c, m, s).transpose(1, 0, 2))
        groups = 2 * groups[chosen] + mirrored
    model = _model(basis, spread_out(particles, groups), likelihood)
    found = Inference(model, particles, sample, likelihood, findings=findings)
    if isinstance(likelihood, Gaussian):
        bound, unexplained = _bound(basis, rows, likelihood, n_jobs)
        return found._replace(log_evidence=bound, unexplained=unexplained)
    return found._replace(
        # Laplace's approximation from near the mode
        log_evidence=sparse_value(
            rows, basis.inducing_points, basis.kernel, likelihood, best.weights
        ),
        unexplained=_left_out(basis, rows, plain, best),
    )


def _bound(
    basis: Nystroem, rows: Rows, likelihood: Gaussian, n_jobs: int | None
) -> tuple[float, float]:
    """Collapsed bound of the evidence, and what it leaves out."""
    statistics = row_statistics(basis, rows, n_jobs)
    noise = float(likelihood.variance(0.0))
    unexplained = statistics.residual / (2.0 * noise * statistics.weight)
    return log_evidence(statistics, noise), unexplained


def _exact(
    basis: Any,
    rows: Rows,
    likelihood: Gaussian,
    n_particles: int,
    n_jobs: int | None,
    noise_is_free: bool,
    rng: np.random.Generator,
) -> Inference:
    """Independent draws; predictions use the posterior itself, not the draws."""
    statistics = row_statistics(basis, rows, n_jobs)
    if rows.y.ndim > 1:
        each, noises = regress_targets(statistics, likelihood, noise_is_free)
        likelihood, weights = likelihood.with_noise(noises), each.posterior(noises)
        evidence = float(each.log_evidence(noises).sum())
        typical = 1.0 / float(np.mean(1.0 / noises))
    else:
        if noise_is_free:
            how = basis, rows, statistics, likelihood, rng.spawn(1)[0]
            likelihood = final_noise(*how)
        typical = float(likelihood.variance(0.0))
        root = precision_root(statistics.gram, typical)
        weights = posterior(statistics, typical, root)
        evidence = log_evidence(statistics, typical, root)
    unexplained = statistics.residual / (2.0 * typical * statistics.weight)
    drawn, model = _drawn(weights, n_particles, rng), LatentModel(basis, weights)
    return Inference(model, *drawn, likelihood, evidence, unexplained)


def _by_neighbors(
    basis: NeighborBasis,
    rows: Rows,
    likelihood: Likelihood,
    n_particles: int,
    n_jobs: int | None,
    rng: np.random.Generator,
) -> Inference:
    """The posterior beside nearest rows; predictions use it, not the draws."""
    found = condition_on_rows(basis, rows, likelihood, n_jobs, rng.spawn(1)[0])
    weights = found.weights
    drawn = _drawn(weights, n_particles, rng)
    known = known_weights(weights.mean[:, 0], weights.root[0])
    model = LatentModel(found.basis, known, _mean(likelihood))
    findings = (rows_not_converged(found.converged),)
    return Inference(
        model, *drawn, likelihood, found.log_evidence, 0.0, findings=findings
    )


def _drawn(
    weights: GaussianWeights, n_particles: int, rng: np.random.Generator
) -> tuple[Array, Sample]:
    """Independent draws of the weights, in the form of chains."""
    particles, p = weights.draw(n_particles, rng), weights.mean.size
    z, ess = particles.transpose(1, 0, 2).reshape(1, p, -1), np.full(p, n_particles)
    ones, none = np.ones(p), np.array([])
    return particles, Sample(z, 1.0, ones, ess.astype(np.float64), none, 0)


# ---- The target of the chains --------------------------------------------------------


def target_and_modes(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    by_rows: bool,
    n_jobs: int | None,
    rng: np.random.Generator,
) -> tuple[Target, laplace.Mode, bool, Array]:
    """Target in the coordinates of the weights, and the Laplace approximation.

    It is that of the best of several modes where there can be more than one; then come
    whether there can be only one, and how many nats the others are below it. Under
    Gaussian noise the target consists of sums over the rows, unless `by_rows`.
    """
    if isinstance(likelihood, Gaussian) and not by_rows:
        noise_variance = float(likelihood.variance(0.0))
        statistics = row_statistics(basis, rows, n_jobs)
        weights = posterior(statistics, noise_variance)
        sums = statistics.gram / noise_variance, statistics.moment / noise_variance
        mode = laplace.Mode(weights.mean, weights.root, np.nan, 0, True)
        return langevin.quadratic_target(*sums), mode, True, np.empty(0)
    # threads: to send features takes as long as to compute them
    items = [(rows.X[i : i + _ROWS],) for i in range(0, len(rows.y), _ROWS)]
    jobs = blas_jobs(n_jobs) if len(items) > 1 else 1
    features = np.concatenate(parallel_map(basis, items, jobs, in_threads=True))
    target = row_target(np.ascontiguousarray(features), rows, likelihood)
    smooth, rough = smoothed(target), rough_latent_values(target)
    mode = laplace.find_mode(smooth, rough_start(target))
    if is_log_concave(target):
        return target, mode, True, np.empty(0)
    best, gaps = survey(smooth, mode, rough, likelihood.symmetric, rng)
    return target, best, False, gaps


def _left_out(basis: Nystroem, rows: Rows, plain: Target, mode: laplace.Mode) -> float:
    """Mean of ``½ c var g`` of the rows, c the curvatures at the mode."""
    target = smoothed(plain)
    f = langevin.latent_values(target, mode.weights)[:, :, np.newaxis]
    curvature = target.likelihood.row_curvature(target.y, f)[..., 0]
    # of all outputs, each of which has a residual
    bent = target.weights * np.einsum("icc->i", curvature)
    form = plain.likelihood.row_form(rows.y, rows.weights, rows.known)
    features = plain.features
    if form.factor is not None:
        # the likelihood is that of factor f
        bent = form.factor**2 * bent
        features = features / form.factor[:, np.newaxis]
    residual = basis.residual_variance(rows.X, features)
    return 0.5 * float(bent @ residual) / float(rows.weights.sum())


def nystroem_root(basis: Nystroem) -> Array:
    """Root of the paper's coordinates u, in which its scheme (236) is Euler-Maruyama.

    With ``k(Z, Z) / M = V Λ Vᵀ`` for the kernel k inside the GRE kernel,
    ``u_m = <f, e_m> = (M λ_m)^(-1/2) v_mᵀ f(Z)``, and ``f(Z) = L w``: hence
    ``w = L⁻¹ V (M Λ)^(1/2) u``. Shape (m, m).
    """
    kernel, Z = basis.kernel, basis.inducing_points
    k = kernel.kernel if isinstance(kernel, GREKernel) else kernel
    eigenvalues, V = np.linalg.eigh(k(Z))
    # smaller ones are rounding errors
    eigenvalues = np.maximum(eigenvalues, 1e-10 * eigenvalues[-1])
    return solve_lower(basis.root, V * np.sqrt(eigenvalues))


# ---- Samplers ------------------------------------------------------------------------


def _langevin(
    plain: Target,
    mode: laplace.Mode,
    basis: Nystroem,
    rng: np.random.Generator,
    method: str,
    n_particles: int,
    step_size: float | None,
    max_iter: int | None,
    tol: float,
    n_jobs: int | None,
    previous: Array | None,
    reported: Callable[[Target], Callable[[Sample], bool]],
) -> tuple[Target, Sample]:
    """Langevin chains from a Laplace start, and the target in their coordinates."""
    target, z = _started(plain, mode, basis, method, n_particles, previous, rng)
    tiers = CORRELATED if method == "ou_mala" else ADJUSTED
    tuned = method != "ula" and step_size is None
    if tuned:
        scheme, score = adapt(target, z, tiers, rng)
        if plain.code != langevin.QUADRATIC and score < 0.35:
            # the Laplace approximation is poor: move to the bulk of the posterior
            mode = laplace.refine(smoothed(plain), mode)
            target, z = _started(plain, mode, basis, method, n_particles, previous, rng)
            target, z, scheme = settle(plain, target, z, tiers, rng, n_jobs)
    elif method == "ou_mala":
        scheme = langevin.ornstein_uhlenbeck(1.0 - min(step_size or 0.0, 1.0))
    else:
        if step_size is None:
            # a tenth of the largest stable step, 2 / λ_max of the Hessian H, where
            # H = (root rootᵀ)⁻¹ at the mode: λ_max(TᵀHT) = σ_max(root⁻¹ T)²
            inner = np.linalg.solve(mode.root, target.root)
            step_size = 0.2 / float(np.linalg.norm(inner, 2, axis=(1, 2)).max()) ** 2
        scheme = langevin.euler_maruyama(step_size, metropolis=method == "mala")
    how: dict[str, Any] = {
        "tol": tol,
        "n_jobs": n_jobs,
        "adaptive": tuned,
        "report": reported(target),
    }
    most = max_iter or (20_000 if method == "ula" else 1000)
    return target, run_chains(target, z, scheme, rng, max_iter=most, **how)


def _started(
    plain: Target,
    mode: laplace.Mode,
    basis: Nystroem,
    method: str,
    n_particles: int,
    previous: Array | None,
    rng: np.random.Generator,
) -> tuple[Target, Array]:
    """Target in the coordinates of the method; Laplace draws, or earlier particles.

    Those of the Hessian at the mode, or of the paper for its unadjusted scheme.
    """
    groups, width = mode.root.shape[:2]
    centre, root = mode.weights.T.reshape(groups, width), mode.root
    z = rng.standard_normal((groups, width, n_particles))
    if method != "ula" and previous is None:
        return langevin.in_coordinates(plain, centre, root), z
    w = centre[:, :, np.newaxis] + root @ z
    if previous is not None:
        w = previous.transpose(1, 0, 2).reshape(groups, width, -1)
    if method == "ula":
        c, one = plain.n_outputs, nystroem_root(basis)
        many = np.kron(np.eye(c), one)[np.newaxis] if groups == 1 else [one] * c
        root = np.array(many, dtype=np.float64)
        centre = np.zeros_like(centre)
    target = langevin.in_coordinates(plain, centre, root)
    away = w - centre[:, :, np.newaxis]
    return target, np.asarray(np.linalg.solve(root, away), dtype=np.float64)


def _tempered(
    plain: Target,
    best: laplace.Mode,
    likelihood: Likelihood,
    n_particles: int,
    n_jobs: int | None,
    rng: np.random.Generator,
    report: Callable[[Sample], bool],
) -> tuple[Sample, tuple[Finding | None, ...]]:
    """Sequential Monte Carlo from the prior, in the coordinates of the weights."""
    p, c = plain.root.shape[1], plain.n_outputs
    if p > laplace.LARGEST_COUPLED:
        raise ValueError(
            f'method="smc" moves at most {laplace.LARGEST_COUPLED} weights, inducing '
            f"inputs times outputs; got {p}. Use fewer inducing inputs, or "
            'method="auto".'
        )
    how: dict[str, Any] = {
        "n_jobs": n_jobs,
        "symmetric": likelihood.symmetric,
        "report": report,
    }
    sample, evidences = run_smc(plain, n_particles, rng, **how)
    # the mean potential above the best mode, or a better one near the lowest particle
    energy = langevin.start(plain, sample.z).energy
    lowest = sample.z[0, :, int(np.argmin(energy))].reshape(c, -1).T
    found = laplace.find_mode(smoothed(plain), lowest)
    ends = np.stack([one.weights.T.ravel() for one in (best, found)], axis=1)
    floor = langevin.start(plain, ends[np.newaxis]).energy.min()
    excess, r_hat = float(energy.mean() - floor), float(np.max(sample.r_hat))
    return sample, (runs_disagree(r_hat, evidences, excess, p, n_particles),)


def spread_out(particles: Array, groups: Array) -> Array:
    """Particles (m, c, s) whose covariance, divided by s, is unbiased.

    ``w̄ + √(k / (k - 1)) (w - w̄)`` around the mean of each group of k particles: the
    modes, between which nothing may be moved. `groups` (s,) holds a number for each.
    """
    inflated = particles.copy()
    for group in np.unique(groups):
        members = groups == group
        k = int(members.sum())
        if k > 1:
            centre = particles[:, :, members].mean(axis=2, keepdims=True)
            away = particles[:, :, members] - centre
            inflated[:, :, members] = centre + np.sqrt(k / (k - 1.0)) * away
    return inflated


def _model(basis: Nystroem, particles: Array, likelihood: Likelihood) -> LatentModel:
    """Latent function around the base of the likelihood, with particles (m, c, s)."""
    return LatentModel(basis, WeightParticles(particles), _mean(likelihood))


def _mean(likelihood: Likelihood) -> Mean | None:
    """The base of the latent functions."""
    base = likelihood.base_latent_
    return Mean(base, np.ones(len(base))) if np.any(base) else None
