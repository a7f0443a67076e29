"""From basis, rows and likelihood to the posterior of the weights, by each method."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel, Mean
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Scheme, Target
from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.modes import Survey, is_log_concave, survey
from skgpx._numerics.regression import (
    log_evidence,
    log_evidence_from,
    posterior,
    posterior_from,
    precision_root,
)
from skgpx._numerics.smoothing import smoothed
from skgpx._numerics.weights import WeightParticles
from skgpx._parallel import blas_jobs, parallel_map
from skgpx._pls import _chains
from skgpx._pls._chains import ADJUSTED, CORRELATED, Sample, adapt
from skgpx._pls._tempering import mirror_images, run_smc, with_mirror_images
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    final_noise,
    rough_latent_values,
    rough_start,
    row_target,
)
from skgpx._validation import Rows
from skgpx.bases import Nystroem
from skgpx.diagnostics import (
    Finding,
    chains_not_converged,
    runs_disagree,
    several_modes,
)
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Gaussian, Likelihood

# ---- Target of the chains from a basis, rows and a likelihood, and its mode ----------


Array = NDArray[np.float64]

# Rows of features computed at a time; fixed, so that sums do not depend on workers.
_ROWS = 4096


def target_and_mode(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    by_rows: bool,
    n_jobs: int | None,
) -> tuple[Target, laplace.Mode]:
    """Target in the coordinates of the weights, and its Laplace approximation.

    Parameters
    ----------
    basis : Nystroem
    rows : Rows
    likelihood : Likelihood
        Prepared.
    by_rows : bool
        Whether the target has to consist of rows, also under Gaussian noise, where
        sums over them would do.
    n_jobs : int or None
    """
    if isinstance(likelihood, Gaussian) and not by_rows:
        noise_variance = float(likelihood.variance(0.0))
        statistics = row_statistics(basis, rows, n_jobs)
        weights = posterior(statistics, noise_variance)
        gram, moment = statistics.gram, statistics.moment
        target = langevin.quadratic_target(
            gram / noise_variance, moment / noise_variance
        )
        return target, laplace.Mode(weights.mean, weights.root, np.nan, 0, True)
    # threads: to send features takes as long as to compute them
    items = [(rows.X[i : i + _ROWS],) for i in range(0, len(rows.y), _ROWS)]
    jobs = blas_jobs(n_jobs) if len(items) > 1 else 1
    features = np.concatenate(parallel_map(basis, items, jobs, in_threads=True))
    target = row_target(np.ascontiguousarray(features), rows, likelihood)
    return target, laplace.find_mode(smoothed(target), rough_start(target))


# ---- Where chains start, and the coordinates and steps in which they move ------------


TIERS = {"ou_mala": CORRELATED, "mala": ADJUSTED}
# Step of the unadjusted scheme times the largest eigenvalue of the Hessian (stable: 2).
_ULA_STEP = 0.2
# Eigenvalues of k(Z, Z) below this fraction of the largest are rounding errors.
_SMALLEST_EIGENVALUE = 1e-10


def nystroem_root(basis: Nystroem) -> Array:
    """Root of the paper's coordinates u, in which its scheme (236) is Euler-Maruyama.

    With ``k(Z, Z) / M = V Λ Vᵀ`` for the kernel k inside the GRE kernel,
    ``u_m = <f, e_m> = (M λ_m)^(-1/2) v_mᵀ f(Z)``, and ``f(Z) = L w``: hence
    ``w = L⁻¹ V (M Λ)^(1/2) u``. Shape (m, m).
    """
    kernel, Z = basis.kernel, basis.inducing_points
    k = kernel.kernel if isinstance(kernel, GREKernel) else kernel
    eigenvalues, V = np.linalg.eigh(k(Z))
    eigenvalues = np.maximum(eigenvalues, _SMALLEST_EIGENVALUE * eigenvalues[-1])
    return solve_lower(basis.root, V * np.sqrt(eigenvalues))


def coordinates(
    method: str, mode: laplace.Mode, basis: Nystroem
) -> tuple[Array, Array]:
    """Centre (g, p) and root (g, p, p) of the coordinates in which chains move."""
    groups, width = mode.root.shape[:2]
    if method != "ula":
        return mode.weights.T.reshape(groups, width), mode.root
    c = mode.weights.shape[1]
    one = nystroem_root(basis)
    coupled = groups == 1
    root = np.kron(np.eye(c), one)[np.newaxis] if coupled else np.stack([one] * c)
    return np.zeros((groups, width)), np.asarray(root, dtype=np.float64)


def start(
    target: Target,
    mode: laplace.Mode,
    n_particles: int,
    previous: Array | None,
    rng: np.random.Generator,
) -> Array:
    """Coordinates (g, p, s) of Laplace draws, or of earlier particles."""
    groups, width = target.centre.shape
    noise = rng.standard_normal((groups, width, n_particles))
    if previous is not None:
        w = previous.transpose(1, 0, 2).reshape(groups, width, -1)
    elif target.root is mode.root:
        return noise
    else:
        w = mode.weights.T.reshape(groups, width, 1) + mode.root @ noise
    shifted = w - target.centre[:, :, np.newaxis]
    return np.asarray(np.linalg.solve(target.root, shifted), dtype=np.float64)


def choose_scheme(
    target: Target,
    z: Array,
    mode: laplace.Mode,
    method: str,
    step_size: float | None,
    rng: np.random.Generator,
) -> tuple[Scheme, float]:
    """Step of the method, and the score of its trial.

    The step size is `step_size` if given (score 1), comes from the Hessian for ULA
    (score 1), and from a trial otherwise.
    """
    if step_size is not None:
        if method == "ou_mala":
            return langevin.ornstein_uhlenbeck(1.0 - min(step_size, 1.0)), 1.0
        return langevin.euler_maruyama(step_size, metropolis=method == "mala"), 1.0
    if method != "ula":
        return adapt(target, z, TIERS[method], rng)
    # H = (mode.root mode.rootᵀ)⁻¹: λ_max(rootᵀ H root) = σ_max(mode.root⁻¹ root)²
    largest = np.linalg.norm(np.linalg.solve(mode.root, target.root), 2, axis=(1, 2))
    eta = _ULA_STEP / float(largest.max()) ** 2
    return langevin.euler_maruyama(eta, metropolis=False), 1.0


# ---- The modes of a target, and where particles are among them -----------------------


# Largest n m² at which "auto" tempers where there are several modes: some ten seconds.
_TEMPERED = 5e6


def look_around(
    target: Target, mode: laplace.Mode, likelihood: Likelihood, rng: np.random.Generator
) -> Survey:
    """The best mode, and how many others there are if there can be any."""
    if is_log_concave(target):
        return Survey(mode, True)
    rough = rough_latent_values(target)
    return survey(smoothed(target), mode, rough, likelihood.symmetric, rng)


def affordable(target: Target) -> bool:
    """Whether tempering takes some ten seconds of one core at most.

    It takes about ``25 m`` steps of 400 particles, of ``4 n m`` operations each.
    """
    n, m = target.features.shape
    return bool(n * (m * target.n_outputs) ** 2 <= _TEMPERED)


def above_best(target: Target, w: Array, best: laplace.Mode) -> float:
    """Mean potential of particles (1, p, s) above the best mode, in nats.

    The search goes on from the particle of the lowest potential: it may have found a
    better mode.
    """
    energy = langevin.start(target, w).energy
    c = target.n_outputs
    lowest = w[0, :, int(np.argmin(energy))].reshape(c, -1).T
    found = laplace.find_mode(smoothed(target), lowest)
    ends = np.stack([mode.weights.T.ravel() for mode in (best, found)], axis=1)
    floor = langevin.start(target, ends[np.newaxis]).energy.min()
    return float(energy.mean() - floor)


# ---- From a basis and a likelihood to the posterior of the weights -------------------


# Acceptance times mobility of a trial below which the Laplace start is poor.
_POOR = 0.35
_MAX_ITER = {"ou_mala": 1000, "mala": 1000, "ula": 20_000}


class InferenceSettings(NamedTuple):
    """Parameters of an estimator that concern the sampler; see `PLSRegressor`.

    Attributes
    ----------
    method : str
    n_particles : int
    step_size : float or None
    max_iter : int or None
    tol : float
    n_jobs : int or None
    noise_is_free : bool
        Whether a free noise variance may still change, see `infer`.
    """

    method: str
    n_particles: int
    step_size: float | None
    max_iter: int | None
    tol: float
    n_jobs: int | None
    noise_is_free: bool


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
        Collapsed bound of all rows, in nats; NaN unless in closed form.
    unexplained : float
        Mean of ``var g(x_i) / (2 noise_variance)``, nats per observation by which the
        bound may be too low; NaN unless in closed form.
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


def infer(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    settings: InferenceSettings,
    rng: np.random.Generator,
    previous: Array | None = None,
    report: Callable[[Sample, LatentModel], bool] | None = None,
) -> Inference:
    """Sample the posterior of the weights.

    Parameters
    ----------
    basis : Nystroem
    rows : Rows
    likelihood : Likelihood
        Prepared.
    settings : InferenceSettings
    rng : numpy.random.Generator
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
    method = resolved_method(settings.method, likelihood)
    if method == "exact":
        assert isinstance(likelihood, Gaussian)
        return _exact(basis, rows, likelihood, settings, rng)

    def report_sample(target: Target, sample: Sample) -> bool:
        weights = np.ascontiguousarray(langevin.weights_of(target, sample.z))
        model = _particle_model(basis, weights, likelihood)
        return report is not None and report(sample, model)

    plain, mode = target_and_mode(
        basis, rows, likelihood, method == "smc", settings.n_jobs
    )
    modes = look_around(plain, mode, likelihood, rng.spawn(1)[0])
    several = settings.method == "auto" and modes.rivals > 0
    if method == "smc" or (several and affordable(plain)):
        target = plain
        sample, findings = _temper(
            plain, modes.best, likelihood, settings, rng, report_sample
        )
        apart = modes.rivals > 0 or likelihood.symmetric
        groups = np.arange(settings.n_particles) * apart
    else:
        target, sample, findings = _run_chains(
            plain, modes, basis, settings, method, rng, previous, report_sample
        )
        groups = np.zeros(settings.n_particles, np.intp)
    particles = np.ascontiguousarray(langevin.weights_of(target, sample.z))
    if likelihood.symmetric:
        particles, groups = _of_both_signs(plain, particles, groups, rng)
    model = _particle_model(basis, spread_out(particles, groups), likelihood)
    evidence = np.nan
    if isinstance(likelihood, Gaussian):
        statistics = row_statistics(basis, rows, settings.n_jobs)
        evidence = log_evidence(statistics, float(likelihood.variance(0.0)))
    found = model, particles, sample, likelihood, evidence
    return Inference(*found, findings=findings)


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


def _of_both_signs(
    plain: Target, particles: Array, groups: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Particles (m, c, s) of both modes of a symmetric likelihood, and their groups."""
    m, c, s = particles.shape
    w = particles.transpose(1, 0, 2).reshape(1, m * c, s)
    chosen, mirrored = with_mirror_images(plain, w, rng)
    w = np.where(mirrored, mirror_images(plain, w[:, :, chosen]), w[:, :, chosen])
    back = w.reshape(c, m, s).transpose(1, 0, 2)
    return np.ascontiguousarray(back), 2 * groups[chosen] + mirrored


def _particle_model(
    basis: Nystroem, particles: Array, likelihood: Likelihood
) -> LatentModel:
    """Latent function around the base of the likelihood, with particles (m, c, s)."""
    base = likelihood.base_latent_
    mean = Mean(base, np.ones(len(base))) if np.any(base) else None
    return LatentModel(basis, WeightParticles(particles), mean)


def _temper(
    plain: Target,
    best: laplace.Mode,
    likelihood: Likelihood,
    settings: InferenceSettings,
    rng: np.random.Generator,
    report_sample: Callable[[Target, Sample], bool],
) -> tuple[Sample, tuple[Finding | None, ...]]:
    """Sequential Monte Carlo from the prior, in the coordinates of the weights."""
    n_particles, p = settings.n_particles, plain.centre.size
    if p > laplace.LARGEST_COUPLED:
        raise ValueError(
            f'method="smc" moves at most {laplace.LARGEST_COUPLED} weights, inducing '
            f"inputs times outputs; got {p}. Use fewer inducing inputs, or "
            'method="auto".'
        )
    tempered = run_smc(
        plain,
        n_particles,
        rng,
        n_jobs=settings.n_jobs,
        symmetric=likelihood.symmetric,
        report=partial(report_sample, plain),
    )
    sample, evidences = tempered.sample, tempered.run_evidences
    how = above_best(plain, sample.z, best), p, n_particles
    return sample, (runs_disagree(float(np.max(sample.r_hat)), evidences, *how),)


def _run_chains(
    plain: Target,
    modes: Survey,
    basis: Nystroem,
    settings: InferenceSettings,
    method: str,
    rng: np.random.Generator,
    previous: Array | None,
    report_sample: Callable[[Target, Sample], bool],
) -> tuple[Target, Sample, tuple[Finding | None, ...]]:
    """Langevin chains from a Laplace start, and the target in their coordinates."""
    mode = modes.best
    target = langevin.in_coordinates(plain, *coordinates(method, mode, basis))
    z = start(target, mode, settings.n_particles, previous, rng)
    tuned = method != "ula" and settings.step_size is None
    scheme, score = choose_scheme(target, z, mode, method, settings.step_size, rng)
    gaussian = plain.code == langevin.QUADRATIC
    if tuned and not gaussian and score < _POOR:
        # the Laplace approximation is poor: move to the bulk of the posterior
        mode = laplace.refine(smoothed(plain), mode)
        target = langevin.in_coordinates(plain, *coordinates(method, mode, basis))
        z = start(target, mode, settings.n_particles, previous, rng)
        target, z, scheme = _chains.settle(
            plain, target, z, TIERS[method], rng, settings.n_jobs
        )
    sample = _chains.run_chains(
        target,
        z,
        scheme,
        rng,
        max_iter=settings.max_iter or _MAX_ITER[method],
        tol=settings.tol,
        n_jobs=settings.n_jobs,
        adaptive=tuned,
        report=partial(report_sample, target),
    )
    if not np.all(np.isfinite(sample.z)):
        raise ValueError(
            f'method="{method}" diverged with step_size={settings.step_size!r}. Use a '
            "smaller one, or None to take it from the largest eigenvalue of the "
            "Hessian."
        )
    r_hat = 1.0 if sample.stopped else float(np.max(sample.r_hat))
    steps = sample.n_iter, sample.acceptance, modes.log_concave
    findings = (
        chains_not_converged(r_hat, settings.tol, *steps),
        several_modes(modes.gap),
    )
    kept = np.minimum(sample.ess, float(settings.n_particles))
    return target, sample._replace(ess=kept), findings


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


def _exact(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    settings: InferenceSettings,
    rng: np.random.Generator,
) -> Inference:
    """Independent draws; predictions use the posterior itself, not the draws."""
    statistics = row_statistics(basis, rows, settings.n_jobs)
    if settings.noise_is_free:
        likelihood = final_noise(basis, rows, statistics, likelihood, rng.spawn(1)[0])
    noise_variance = float(likelihood.variance(0.0))
    root = precision_root(statistics.gram, noise_variance)
    weights = posterior_from(statistics, noise_variance, root)
    evidence = log_evidence_from(statistics, noise_variance, root)
    left_over = statistics.residual / (2.0 * noise_variance * statistics.weight)
    particles = weights.draw(settings.n_particles, rng)
    p = weights.mean.size
    sample = Sample(
        particles.transpose(1, 0, 2).reshape(1, p, -1),
        1.0,
        np.ones(p),
        np.full(p, float(settings.n_particles)),
        np.array([]),
        0,
    )
    model = LatentModel(basis, weights)
    return Inference(model, particles, sample, likelihood, evidence, left_over)
