"""From a basis and a likelihood to the law of the weights, by each of the methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skgpx._hyperparameters import final_noise, rough_start, row_target
from skgpx._latent import LatentModel, Mean
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.quadrature import expectation_nodes
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
from skgpx._pls._chains import Sample
from skgpx._pls._coordinates import TIERS, choose_scheme, coordinates, start
from skgpx._pls._mirror import with_mirror_images
from skgpx._pls._tempering import run_smc
from skgpx._row_statistics import row_statistics
from skgpx._validation import Rows, caller_stacklevel
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Rows of features computed at a time; fixed, so that sums do not depend on workers.
_ROWS = 4096
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
    """

    posterior: LatentModel
    particles: Array
    sample: Sample
    likelihood: Likelihood
    log_evidence: float = np.nan
    unexplained: float = np.nan


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

    run = _temper if method == "smc" else _run_chains
    target, sample = run(basis, rows, likelihood, settings, method, rng, previous, told)
    _check(sample, method, settings)
    particles = np.ascontiguousarray(langevin.weights_of(target, sample.z))
    if likelihood.symmetric:
        particles = with_mirror_images(target, particles, rng)
    model = _particle_model(basis, particles, likelihood)
    evidence = np.nan
    if isinstance(likelihood, Gaussian):
        statistics = row_statistics(basis, rows, settings.n_jobs)
        evidence = log_evidence(statistics, float(likelihood.variance(0.0)))
    return Inference(model, particles, sample, likelihood, evidence)


def _particle_model(
    basis: Nystroem, particles: Array, likelihood: Likelihood
) -> LatentModel:
    """Latent function around the base of the likelihood, with particles (m, c, s)."""
    base = likelihood.base_latent_
    mean = Mean(base, np.ones(len(base))) if np.any(base) else None
    return LatentModel(basis, WeightParticles(particles), mean)


def _temper(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    settings: InferenceSettings,
    method: str,  # noqa: ARG001
    rng: np.random.Generator,
    previous: Array | None,  # noqa: ARG001
    told: Callable[[Target, Sample], bool],
) -> tuple[Target, Sample]:
    """Sequential Monte Carlo from the prior, in the coordinates of the weights."""
    target = _row_target(basis, rows, likelihood, settings)
    run = run_smc(
        target,
        settings.n_particles,
        rng,
        n_jobs=settings.n_jobs,
        report=partial(told, target),
    )
    return target, run.sample


def _run_chains(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    settings: InferenceSettings,
    method: str,
    rng: np.random.Generator,
    previous: Array | None,
    told: Callable[[Target, Sample], bool],
) -> tuple[Target, Sample]:
    """Langevin chains from the Laplace law, and the target in their coordinates."""
    plain, mode = _target_and_mode(basis, rows, likelihood, settings)
    target = langevin.in_coordinates(plain, *coordinates(method, mode, basis))
    z = start(target, mode, settings.n_particles, previous, rng)
    tuned = method != "ula" and settings.step_size is None
    scheme, score = choose_scheme(target, z, mode, method, settings.step_size, rng)
    gaussian = plain.code == langevin.QUADRATIC
    if tuned and not gaussian and score < 2.0 * _chains.LIVELY:
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
    return target, sample


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
    statistics = row_statistics(basis, rows, settings.n_jobs)
    if settings.noise_is_free:
        judge = rng.spawn(1)[0]
        fitted = final_noise(basis, rows, statistics, likelihood, judge)
        likelihood, evidence = fitted
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
    return Inference(model, particles, sample, likelihood, evidence, left_over)


def _block_features(basis: Nystroem, X: Array) -> tuple[Array, Array]:
    features = basis(X)
    return np.ascontiguousarray(features), basis.residual_variance(X, features)


def _row_target(
    basis: Nystroem, rows: Rows, likelihood: Likelihood, settings: InferenceSettings
) -> Target:
    """Target with the features of all rows, O(n m) memory."""
    X = rows.X
    items = [(basis, X[i : i + _ROWS]) for i in range(0, len(X), _ROWS)]
    jobs = blas_jobs(settings.n_jobs) if len(items) > 1 else 1
    parts = parallel_map(_block_features, items, jobs)
    features = np.concatenate([part[0] for part in parts])
    if settings.potential == "projected":
        return row_target(features, rows, likelihood)
    std = np.sqrt(np.concatenate([part[1] for part in parts]))
    c = likelihood.n_outputs_
    std = np.repeat(std[:, np.newaxis], c, axis=1)
    return row_target(features, rows, likelihood, std, expectation_nodes(c))


def _target_and_mode(
    basis: Nystroem, rows: Rows, likelihood: Likelihood, settings: InferenceSettings
) -> tuple[Target, laplace.Mode]:
    """Target in the coordinates of the weights, and its Laplace approximation."""
    if isinstance(likelihood, Gaussian):
        noise_variance = float(likelihood.variance(0.0))
        statistics = row_statistics(basis, rows, settings.n_jobs)
        law = posterior(statistics, noise_variance)
        gram, moment = statistics.gram, statistics.moment
        target = langevin.quadratic_target(
            gram / noise_variance, moment / noise_variance
        )
        return target, laplace.Mode(law.mean, law.root, np.nan, 0, True)
    target = _row_target(basis, rows, likelihood, settings)
    return target, laplace.find_mode(smoothed(target), rough_start(target))


def _check(sample: Sample, method: str, settings: InferenceSettings) -> None:
    """Raise on divergence; warn once if the chains have not converged."""
    if not np.all(np.isfinite(sample.z)):
        raise ValueError(
            f'method="{method}" diverged with step_size={settings.step_size!r}. Use a '
            "smaller one, or None to take it from the largest eigenvalue of the "
            "Hessian."
        )
    worst = float(np.max(sample.r_hat))
    if method == "smc":
        if sample.acceptance < 0.02:
            warnings.warn(
                f"Only {sample.acceptance:.1%} of the moves were accepted at the end "
                "of the tempering: the particles may not represent the posterior. "
                "Increase n_particles.",
                ConvergenceWarning,
                stacklevel=caller_stacklevel(),
            )
    elif worst > max(settings.tol, 1.0 + 1e-9) and not sample.stopped:
        warnings.warn(
            f"The chains have not converged: split R-hat is {worst:.3g} after "
            f"{sample.n_iter} steps (tol={settings.tol:g}) with an acceptance of "
            f'{sample.acceptance:.2g}. Increase max_iter, or use method="smc" if the '
            "posterior may have several modes.",
            ConvergenceWarning,
            stacklevel=caller_stacklevel(),
        )
