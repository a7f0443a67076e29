"""From basis, rows and likelihood to the posterior of the weights, by each method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel, Mean, NeighborModel
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
from skgpx._pls._potential import Quadrature, divergence_bound, optimal_target
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
from skgpx.bases import Nystroem
from skgpx.diagnostics import (
    Finding,
    chains_not_converged,
    potential_not_resolved,
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
    divergence_bound : float
        Bound (28) of Theorem 2 on the divergence from the optimal posterior, in nats;
        NaN where the theorem does not hold, or the posterior is the optimal one.
    findings : tuple of Finding
        About the sampler.
    """

    posterior: LatentModel
    particles: Array
    sample: Sample
    likelihood: Likelihood
    log_evidence: float = np.nan
    unexplained: float = np.nan
    divergence_bound: float = np.nan
    findings: tuple[Finding | None, ...] = ()


def resolved_method(method: str, likelihood: Likelihood) -> str:
    """Name of the sampler that "auto" stands for.

    Raises
    ------
    ValueError
        If the closed form is requested where there is none.
    """
    gaussian = likelihood.has_closed_form
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
    n_neighbors: int,
    *,
    method: str = "auto",
    n_particles: int = 100,
    step_size: float | Array | None = None,
    max_iter: int | None = None,
    tol: float = 1.1,
    potential: str = "projected",
    init: str | Array = "laplace",
    n_jobs: int | None = None,
    noise_is_free: bool = False,
    report: Report | None = None,
) -> Inference:
    """Sample the posterior of the weights.

    Parameters
    ----------
    basis : Nystroem
    rows : Rows
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    method, n_particles, step_size, max_iter, tol, potential, init, n_jobs
        See :class:`~skgpx.PLSRegressor`.
    noise_is_free : bool, default=False
        Whether the noise variance of the closed form may still change.
    report : callable, optional
        Called after each round of steps; True stops the chains.

    Raises
    ------
    ValueError
        If ``method="exact"`` and the likelihood is not Gaussian, or if the unadjusted
        scheme diverges.
    """
    name = resolved_method(method, likelihood)
    if n_neighbors:
        how = n_particles, n_jobs, rng
        return _by_neighbors(basis, n_neighbors, rows, likelihood, *how)
    if name == "exact":
        free = noise_is_free
        return _exact(basis, rows, likelihood, n_particles, n_jobs, free, rng)
    # 1 the target in the coordinates of the weights, its modes
    optimal = potential == "optimal"
    plain, best, log_concave, gaps, quadrature = target_and_modes(
        basis=basis,
        rows=rows,
        likelihood=likelihood,
        by_rows=name == "smc",
        optimal=optimal,
        n_jobs=n_jobs,
        rng=rng.spawn(1)[0],
    )

    def reported(target: Target) -> Callable[[Sample], bool]:
        def call(sample: Sample) -> bool:
            w = np.ascontiguousarray(langevin.weights_of(target, sample.z))
            return report is not None and report(sample, _model(basis, w, likelihood))

        return call

    # 2 particles: tempered where there are several modes and some ten seconds suffice
    # (25 m steps of 400 particles, of 4 n m operations), or Langevin chains
    n, p = len(plain.y), plain.root.shape[1]
    affordable = method == "auto" and n * p**2 * len(plain.nodes) <= 5e6
    rivals = bool(np.any(gaps < RIVAL))
    if name == "smc" or (rivals and affordable):
        target = plain
        sample, findings = _tempered(
            plain,
            best,
            likelihood,
            n_particles,
            n_jobs,
            rng,
            reported(plain),
        )
        groups = np.arange(n_particles) * (rivals or likelihood.symmetric)
    else:
        target, sample = _langevin(
            plain,
            best,
            basis,
            rng,
            method=name,
            n_particles=n_particles,
            step_size=step_size,
            max_iter=max_iter,
            tol=tol,
            init=init,
            n_jobs=n_jobs,
            reported=reported,
        )
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
    unresolved = potential_not_resolved(quadrature.error, quadrature.tolerance)
    findings = (*findings, unresolved)
    found = Inference(model, particles, sample, likelihood, findings=findings)
    if likelihood.has_closed_form:
        bound, unexplained = _bound(basis, rows, likelihood, n_jobs)
        return found._replace(log_evidence=bound, unexplained=unexplained)
    residual = _residual_of_rows(basis, rows, plain, likelihood)
    bounded = log_concave and not optimal
    return found._replace(
        # Laplace's approximation from near the mode
        log_evidence=sparse_value(
            rows,
            basis.inducing_points,
            basis.kernel,
            likelihood,
            best.weights,
        ),
        unexplained=_left_out(plain, residual, best) / float(rows.weights.sum()),
        divergence_bound=divergence_bound(plain, residual) if bounded else np.nan,
    )


def _bound(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    n_jobs: int | None,
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
    basis: Nystroem,
    n_neighbors: int,
    rows: Rows,
    likelihood: Likelihood,
    n_particles: int,
    n_jobs: int | None,
    rng: np.random.Generator,
) -> Inference:
    """The posterior beside nearest rows; predictions use it, not the draws."""
    stream = rng.spawn(1)[0]
    found = condition_on_rows(basis, n_neighbors, rows, likelihood, n_jobs, stream)
    weights = found.weights
    drawn = _drawn(weights, n_particles, rng)
    model = NeighborModel(found.residual, found.y, weights, _mean(likelihood))
    findings = (rows_not_converged(found.converged),)
    return Inference(
        model,
        *drawn,
        likelihood,
        found.log_evidence,
        0.0,
        findings=findings,
    )


def _drawn(
    weights: GaussianWeights,
    n_particles: int,
    rng: np.random.Generator,
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
    optimal: bool,
    n_jobs: int | None,
    rng: np.random.Generator,
) -> tuple[Target, laplace.Mode, bool, Array, float]:
    """Target in the coordinates of the weights, and the Laplace approximation.

    Under Gaussian noise the target consists of sums over the rows, unless `by_rows`,
    and the optimal potential is the projected one plus a constant (Lemma 4).

    Returns
    -------
    target : Target
    mode : Mode
        The best one, where the potential may have several.
    log_concave : bool
        Whether it can have only one.
    gaps : ndarray of shape (k,)
        How many nats of evidence the other modes are below it.
    quadrature : Quadrature
        Of the average over the residual, see `optimal_target`.
    """
    if likelihood.has_closed_form and not by_rows:
        noise_variance = float(likelihood.variance(0.0))
        statistics = row_statistics(basis, rows, n_jobs)
        weights = posterior(statistics, noise_variance)
        sums = statistics.gram / noise_variance, statistics.moment / noise_variance
        mode = laplace.Mode(weights.mean, weights.root, np.nan, 0, True)
        quadratic = langevin.quadratic_target(*sums)
        return quadratic, mode, True, np.empty(0), Quadrature(0.0, 0.0)
    # threads: to send features takes as long as to compute them
    items = [(rows.X[i : i + _ROWS],) for i in range(0, len(rows.y), _ROWS)]
    jobs = blas_jobs(n_jobs) if len(items) > 1 else 1
    features = np.concatenate(parallel_map(basis, items, jobs, in_threads=True))
    target = row_target(np.ascontiguousarray(features), rows, likelihood)
    log_concave = is_log_concave(target)
    quadrature = Quadrature(error=0.0, tolerance=0.0)
    if optimal and not likelihood.has_closed_form:
        residual = _residual_of_rows(basis, rows, target, likelihood)
        target, quadrature = optimal_target(target, residual)
    smooth, rough = smoothed(target), rough_latent_values(target)
    mode = laplace.find_mode(smooth, rough_start(target))
    if log_concave:
        return target, mode, True, np.empty(0), quadrature
    best, gaps = survey(smooth, mode, rough, likelihood.symmetric, rng)
    return target, best, False, gaps, quadrature


def _residual_of_rows(
    basis: Nystroem,
    rows: Rows,
    target: Target,
    likelihood: Likelihood,
) -> Array:
    """Residual prior variance of the latent value of each row of a target, (n,)."""
    factor = likelihood.row_form(rows.y, rows.weights, rows.known).factor
    if factor is None:
        return np.asarray(basis.residual_variance(rows.X, target.features))
    # the likelihood is that of factor f
    features = target.features / factor[:, np.newaxis]
    return np.asarray(factor**2 * basis.residual_variance(rows.X, features))


def _left_out(plain: Target, residual: Array, mode: laplace.Mode) -> float:
    """Sum of ``½ c var g`` over the rows, c the curvatures at the mode."""
    target = smoothed(plain)
    f = langevin.latent_values(target, mode.weights)[:, :, np.newaxis]
    curvature = target.likelihood.row_curvature(target.y, f)[..., 0]
    # of all outputs, each of which has a residual
    bent = target.weights * np.einsum("icc->i", curvature)
    return 0.5 * float(bent @ residual)


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
    *,
    method: str,
    n_particles: int,
    step_size: float | Array | None,
    max_iter: int | None,
    tol: float,
    init: str | Array,
    n_jobs: int | None,
    reported: Callable[[Target], Callable[[Sample], bool]],
) -> tuple[Target, Sample]:
    """Langevin chains from their initial law, and the target in their coordinates."""
    target, z = _started(plain, mode, basis, method, n_particles, init, rng)
    tiers = CORRELATED if method == "ou_mala" else ADJUSTED
    tuned = method != "ula" and step_size is None
    if tuned:
        scheme, score = adapt(target, z, tiers, rng, n_jobs=n_jobs)
        if plain.code != langevin.QUADRATIC and score < 0.35:
            # the Laplace approximation is poor: move to the bulk of the posterior
            mode = laplace.refine(smoothed(plain), mode)
            target, z = _started(plain, mode, basis, method, n_particles, init, rng)
            target, z, scheme = settle(plain, target, z, tiers, rng, n_jobs)
    elif method == "ou_mala":
        scheme = langevin.ornstein_uhlenbeck(1.0 - min(float(step_size or 0.0), 1.0))
    elif method == "mala":
        assert step_size is not None
        scheme = langevin.euler_maruyama(float(step_size), metropolis=True)
    else:
        if step_size is None:
            step_size = _stable_step(mode, target)
        sample = _run_schedule(
            target,
            z,
            np.atleast_1d(np.asarray(step_size, dtype=np.float64)),
            rng,
            max_iter=max_iter or 20_000,
            tol=tol,
            n_jobs=n_jobs,
            report=reported(target),
        )
        return target, sample
    sample = run_chains(
        target,
        z,
        scheme,
        rng,
        max_iter=max_iter or 1000,
        tol=tol,
        n_jobs=n_jobs,
        adaptive=tuned,
        report=reported(target),
    )
    return target, sample


def _stable_step(mode: laplace.Mode, target: Target) -> float:
    """A tenth of the largest stable step of the Euler scheme, ``2 / λ_max``.

    With the largest eigenvalue of the Hessian at the mode, ``H = (root rootᵀ)⁻¹``, in
    the coordinates T of the target: ``λ_max(TᵀHT) = σ_max(root⁻¹ T)²``.
    """
    inner = np.linalg.solve(mode.root, target.root)
    return 0.2 / float(np.linalg.norm(inner, 2, axis=(1, 2)).max()) ** 2


def _run_schedule(
    target: Target,
    z: Array,
    step_sizes: Array,
    rng: np.random.Generator,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
    report: Report,
) -> Sample:
    """Algorithm 1: Euler-Maruyama steps (236) with one step size after the other.

    Each is used for an equal share of the steps; the statistics of the sample are those
    of the last.
    """
    curve, n_iter = np.empty(0), 0
    for i, step_size in enumerate(step_sizes):
        last = i == len(step_sizes) - 1
        sample = run_chains(
            target,
            z,
            langevin.euler_maruyama(float(step_size), metropolis=False),
            rng,
            max_iter=max_iter // len(step_sizes),
            tol=tol if last else 0.0,
            n_jobs=n_jobs,
            report=report,
        )
        z = sample.z
        curve = np.append(curve, sample.energy_curve)
        n_iter += sample.n_iter
        if sample.stopped or not np.all(np.isfinite(z)):
            break
    return sample._replace(energy_curve=curve, n_iter=n_iter)


def _started(
    plain: Target,
    mode: laplace.Mode,
    basis: Nystroem,
    method: str,
    n_particles: int,
    init: str | Array,
    rng: np.random.Generator,
) -> tuple[Target, Array]:
    """Target in the coordinates of the method, and particles of the initial law Q_0.

    The coordinates are those of the Hessian at the mode, or those of the paper for its
    unadjusted scheme.
    """
    groups, width = mode.root.shape[:2]
    centre, root = mode.weights.T.reshape(groups, width), mode.root
    z = rng.standard_normal((groups, width, n_particles))
    of_laplace = isinstance(init, str) and init == "laplace"
    if method != "ula" and of_laplace:
        return langevin.in_coordinates(plain, centre, root), z
    if of_laplace:
        w = centre[:, :, np.newaxis] + root @ z
    elif isinstance(init, str):
        # the prior, N(0, I)
        w = z
    else:
        w = init.transpose(1, 0, 2).reshape(groups, width, -1)
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
