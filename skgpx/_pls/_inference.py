"""From a basis and a likelihood to the law of the weights, by each of the methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters import final_noise
from skgpx._latent import LatentModel, Mean
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.modes import Survey
from skgpx._numerics.regression import (
    log_evidence,
    log_evidence_from,
    posterior_from,
    precision_root,
)
from skgpx._numerics.smoothing import smoothed
from skgpx._numerics.weights import WeightParticles
from skgpx._pls import _chains, _doubts
from skgpx._pls._chains import Sample
from skgpx._pls._coordinates import TIERS, choose_scheme, coordinates, start
from skgpx._pls._landscape import above_best, affordable, look_around
from skgpx._pls._mirror import mirror_images, with_mirror_images
from skgpx._pls._target import target_and_mode
from skgpx._pls._tempering import run_smc
from skgpx._row_statistics import row_statistics
from skgpx._validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Acceptance times mobility of a trial below which the Laplace law is a poor start.
_POOR = 0.35
_MAX_ITER = {"ou_mala": 1000, "mala": 1000, "ula": 20_000}


class InferenceSettings(NamedTuple):
    """Parameters of an estimator that concern the sampler; see `PLSRegressor`.

    Attributes
    ----------
    method, potential : str
    n_particles : int
    step_size : float or None
    max_iter : int or None
    tol : float
    n_jobs : int or None
    noise_is_free : bool
        Whether a free noise variance may still change, see `infer`.
    """

    method: str
    potential: str
    n_particles: int
    step_size: float | None
    max_iter: int | None
    tol: float
    n_jobs: int | None
    noise_is_free: bool


class Inference(NamedTuple):
    """Law of the weights and how it was found.

    Attributes
    ----------
    posterior : LatentModel
    particles : ndarray of shape (m, c, s)
    sample : Sample
        Diagnostics of the chains.
    likelihood : Likelihood
        Its noise variance may have been fitted again.
    log_evidence : float
        Collapsed bound of all rows, in nats; NaN where the law is not closed.
    unexplained : float
        Mean of ``var g(x_i) / (2 noise_variance)``, nats a row by which the bound may
        be too low; NaN where the law is not closed.
    noise : tuple of (str, int)
        What chose the noise variance after the search, and rows kept out for that.
    """

    posterior: LatentModel
    particles: Array
    sample: Sample
    likelihood: Likelihood
    log_evidence: float = np.nan
    unexplained: float = np.nan
    noise: tuple[str, int] = ("", 0)


def infer(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    settings: InferenceSettings,
    rng: np.random.Generator,
    previous: Array | None = None,
    report: Callable[[Sample, LatentModel], bool] | None = None,
) -> Inference:
    """Sample the law of the weights.

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

    def told(target: Target, sample: Sample) -> bool:
        weights = np.ascontiguousarray(langevin.weights_of(target, sample.z))
        model = _particle_model(basis, weights, likelihood)
        return report is not None and report(sample, model)

    plain, mode = target_and_mode(
        basis, rows, likelihood,
        optimal=settings.potential == "optimal", by_rows=method == "smc",
        n_jobs=settings.n_jobs,
    )  # fmt: skip
    modes = look_around(plain, mode, likelihood, rng.spawn(1)[0])
    several = settings.method == "auto" and modes.rivals > 0
    if method == "smc" or (several and affordable(plain)):
        target = plain
        sample = _temper(plain, modes.best, likelihood, settings, rng, told)
        apart = modes.rivals > 0 or likelihood.symmetric
        groups = np.arange(settings.n_particles) * apart
    else:
        target, sample = _run_chains(
            plain, modes, basis, settings, method, rng, previous, told
        )
        groups = np.zeros(settings.n_particles, np.intp)
    result = _inferred(plain, target, sample, groups, basis, likelihood, rng)
    return _with_evidence(result, basis, rows, settings.n_jobs)


def _with_evidence(
    result: Inference, basis: Nystroem, rows: Rows, n_jobs: int | None
) -> Inference:
    """With the collapsed bound under Gaussian noise, whatever the sampler."""
    if not isinstance(result.likelihood, Gaussian):
        return result
    statistics = row_statistics(basis, rows, n_jobs)
    evidence = log_evidence(statistics, float(result.likelihood.variance(0.0)))
    return result._replace(log_evidence=evidence)


def _inferred(
    plain: Target,
    target: Target,
    sample: Sample,
    groups: NDArray[np.intp],
    basis: Nystroem,
    likelihood: Likelihood,
    rng: np.random.Generator,
) -> Inference:
    """Result of a sampler in the coordinates of a target.

    `groups` (s,) holds a number for each mode, or one for each particle where they are
    not told apart.
    """
    particles = np.ascontiguousarray(langevin.weights_of(target, sample.z))
    if likelihood.symmetric:
        particles, groups = _of_both_signs(plain, particles, groups, rng)
    model = _particle_model(basis, spread_out(particles, groups), likelihood)
    return Inference(model, particles, sample, likelihood)


def spread_out(particles: Array, groups: Array) -> Array:
    """Particles (m, c, s) whose covariance, divided by s, is unbiased.

    ``w̄ + √(k / (k - 1)) (w - w̄)`` around the mean of each group of k particles: the
    modes, between which nothing may be moved. `groups` (s,) holds a number for each.
    """
    spread = particles.copy()
    for group in np.unique(groups):
        members = groups == group
        k = int(members.sum())
        if k > 1:
            centre = particles[:, :, members].mean(axis=2, keepdims=True)
            away = particles[:, :, members] - centre
            spread[:, :, members] = centre + np.sqrt(k / (k - 1.0)) * away
    return spread


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
    told: Callable[[Target, Sample], bool],
) -> Sample:
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
        report=partial(told, plain),
    )
    excess = above_best(plain, tempered.sample.z, best)
    _doubts.warn_of_tempering(tempered, excess, p, n_particles)
    return tempered.sample


def _run_chains(
    plain: Target,
    modes: Survey,
    basis: Nystroem,
    settings: InferenceSettings,
    method: str,
    rng: np.random.Generator,
    previous: Array | None,
    told: Callable[[Target, Sample], bool],
) -> tuple[Target, Sample]:
    """Langevin chains from the Laplace law, and the target in their coordinates."""
    mode = modes.best
    target = langevin.in_coordinates(plain, *coordinates(method, mode, basis))
    z = start(target, mode, settings.n_particles, previous, rng)
    tuned = method != "ula" and settings.step_size is None
    scheme, score = choose_scheme(target, z, mode, method, settings.step_size, rng)
    gaussian = plain.code == langevin.QUADRATIC
    if tuned and not gaussian and score < _POOR:
        # the Laplace law is a poor approximation: move to the bulk of the posterior
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
        report=partial(told, target),
    )
    _doubts.refuse_divergence(sample, method, settings.step_size)
    _doubts.warn_of_chains(sample, method, settings.tol, modes)
    kept = np.minimum(sample.ess, float(settings.n_particles))
    return target, sample._replace(ess=kept)


def resolved_method(method: str, likelihood: Likelihood) -> str:
    """Name of the sampler that "auto" stands for.

    Raises
    ------
    ValueError
        If the closed form is asked for where there is none.
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
    """Independent draws; predictions read the law itself, not the draws."""
    statistics, noise = row_statistics(basis, rows, settings.n_jobs), ("", 0)
    if settings.noise_is_free:
        judge = rng.spawn(1)[0]
        fitted = final_noise(basis, rows, statistics, likelihood, judge)
        likelihood, evidence, *noise = fitted
    noise_variance = float(likelihood.variance(0.0))
    root = precision_root(statistics.gram, noise_variance)
    law = posterior_from(statistics, noise_variance, root)
    if not settings.noise_is_free:
        evidence = log_evidence_from(statistics, noise_variance, root)
    left_over = statistics.residual / (2.0 * noise_variance * statistics.weight)
    particles = law.draw(settings.n_particles, rng)
    p = law.mean.size
    sample = Sample(
        particles.transpose(1, 0, 2).reshape(1, p, -1),
        1.0,
        np.ones(p),
        np.full(p, float(settings.n_particles)),
        np.array([]),
        0,
    )
    model = LatentModel(basis, law)
    found = model, particles, sample, likelihood, evidence, left_over
    return Inference(*found, tuple(noise))
