"""What samplers of particles share: the target and its modes, and the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skgpx._hyperparameters import (
    rough_latent_values,
    rough_start,
    row_target,
    sparse_value,
)
from skgpx._latent import LatentModel
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.modes import (
    RIVAL,
    evidence_gaps,
    is_log_concave,
    log_evidence,
    survey,
)
from skgpx._numerics.regression import posterior
from skgpx._numerics.smoothing import smoothed
from skgpx._numerics.weights import WeightParticles
from skgpx._pls._potential import Quadrature, divergence_bound, optimal_target
from skgpx._pls._resampling import resample
from skgpx._pls._signs import of_both_signs
from skgpx._posterior._closed_form import collapsed_bound
from skgpx._posterior._sampler import Inference, Sample, Sampler, prior_mean
from skgpx._row_budgets import CHUNK_ROWS
from skgpx._shell.parallel import blas_jobs, parallel_map
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index
from skgpx.bases import Nystroem
from skgpx.diagnostics import Finding, potential_not_resolved
from skgpx.likelihoods import Gaussian, Likelihood


class Landscape(NamedTuple):
    """The potential of the weights, and its modes.

    Attributes
    ----------
    target : Target
        In the coordinates of the weights.
    modes : list of Mode
        Laplace approximations, that of the largest evidence first.
    log_concave : bool
        Whether there can be only one.
    quadrature : Quadrature
        Of the average over the residual, see `optimal_target`.
    """

    target: Target
    modes: list[laplace.Mode]
    log_concave: bool = True
    quadrature: Quadrature = Quadrature(error=0.0, tolerance=0.0)

    @property
    def mode(self) -> laplace.Mode:
        """The best mode."""
        return self.modes[0]

    @property
    def smallest_gap(self) -> float:
        """Nats to the second best mode; infinite if there is none."""
        return float(evidence_gaps(self.modes).min(initial=np.inf))

    @property
    def has_rivals(self) -> bool:
        """Whether other modes have a considerable share of the probability."""
        return self.smallest_gap < RIVAL

    def allot(self, n_particles: int, rng: Generator) -> Index:
        """The mode of each particle (s,), in proportion to the Laplace evidences."""
        if len(self.modes) == 1:
            return np.zeros(n_particles, np.intp)
        evidences = np.array([log_evidence(mode) for mode in self.modes])
        return resample(evidences, n_particles, rng)


def explore(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
) -> Landscape:
    """Set up the potential of the weights, and find its modes.

    Under Gaussian noise the target consists of sums over the rows, unless it is
    tempered, and the optimal potential is the projected one plus a constant (Lemma 4).
    """
    if likelihood.has_closed_form and sampler.method != "smc":
        return _quadratic_landscape(basis, rows, likelihood, sampler.n_jobs)
    # features of all rows, (n, m), chunk by chunk
    chunks = [
        (rows.X[first : first + CHUNK_ROWS],)
        for first in range(0, len(rows.X), CHUNK_ROWS)
    ]
    jobs = blas_jobs(sampler.n_jobs) if len(chunks) > 1 else 1
    # threads: to send features takes as long as to compute them
    parts = parallel_map(basis, chunks, jobs, in_threads=True)
    features = np.ascontiguousarray(np.concatenate(parts))
    target = row_target(features, rows, likelihood)
    log_concave = is_log_concave(target)
    quadrature = Quadrature(error=0.0, tolerance=0.0)
    if sampler.potential == "optimal" and not likelihood.has_closed_form:
        residual = _residual_of_rows(basis, rows, target, likelihood)
        target, quadrature = optimal_target(target, residual)
    smooth = smoothed(target)
    mode = laplace.find_mode(smooth, rough_start(target))
    if log_concave:
        return Landscape(target, [mode], quadrature=quadrature)
    starts = rough_latent_values(target)
    modes = survey(smooth, mode, starts, likelihood.symmetric, rng)
    return Landscape(target, modes, False, quadrature)


def _quadratic_landscape(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    n_jobs: int | None,
) -> Landscape:
    """Potential ``½ wᵀ (I + Φᵀ Φ / σ²) w - wᵀ Φᵀ y / σ²`` of Gaussian noise."""
    noise_variance = float(likelihood.variance(0.0))
    statistics = row_statistics(basis, rows, n_jobs)
    weights = posterior(statistics, noise_variance)
    target = langevin.quadratic_target(
        statistics.gram / noise_variance,
        statistics.moment / noise_variance,
    )
    mode = laplace.Mode(
        weights=weights.mean,
        root=weights.root,
        energy=np.nan,
        n_iter=0,
        converged=True,
    )
    return Landscape(target, [mode])


def _residual_of_rows(
    basis: Nystroem,
    rows: Rows,
    target: Target,
    likelihood: Likelihood,
) -> Array:
    """Residual prior variance of the latent value of each row of a target, (n,)."""
    factor = likelihood.row_form(rows.y, rows.weights, rows.known).factor
    if factor is None:
        return basis.residual_variance(rows.X, target.features)
    # the target is of factor * f, and so are its features
    features = target.features / factor[:, np.newaxis]
    return factor**2 * basis.residual_variance(rows.X, features)


# ---- The posterior -------------------------------------------------------------------


def round_reporter(
    basis: Nystroem,
    likelihood: Likelihood,
    sampler: Sampler,
    target: Target,
) -> Callable[[Sample], bool]:
    """Report of the sampler, for chains in the coordinates of a target."""

    def report(sample: Sample) -> bool:
        if sampler.report is None:
            return False
        particles = np.ascontiguousarray(langevin.weights_of(target, sample.z))
        inference = Inference(
            posterior=_particle_model(basis, particles, likelihood),
            particles=particles,
            sample=sample,
            likelihood=likelihood,
        )
        return sampler.report(inference)

    return report


def particle_posterior(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
    landscape: Landscape,
    *,
    particles: Array,
    modes: Index,
    sample: Sample,
    findings: tuple[Finding | None, ...],
) -> Inference:
    """Posterior of the weights, its evidence and what the basis leaves unexplained.

    Parameters
    ----------
    basis, rows, likelihood, sampler, rng
        As in :func:`~skgpx._pls._inference.infer`.
    landscape : Landscape
    particles : ndarray of shape (m, c, s)
        Of one sign, if the likelihood does not know the sign of f.
    modes : ndarray of shape (s,)
        Number of a group of particles for each: they may be in different modes.
    sample : Sample
    findings : tuple of Finding
    """
    if likelihood.symmetric:
        particles, modes = _with_both_signs(landscape.target, particles, modes, rng)
    quadrature = landscape.quadrature
    unresolved = potential_not_resolved(quadrature.error, quadrature.tolerance)
    n_particles = float(sampler.n_particles)
    # particles (m, c, s) whose covariance, divided by s, is unbiased
    inflated = particles.copy()
    for group in np.unique(modes):
        members = modes == group
        k = int(members.sum())
        if k > 1:
            centre = particles[:, :, members].mean(axis=2, keepdims=True)
            deviation = particles[:, :, members] - centre
            inflated[:, :, members] = centre + np.sqrt(k / (k - 1.0)) * deviation
    inference = Inference(
        posterior=_particle_model(basis, inflated, likelihood),
        particles=particles,
        sample=sample._replace(ess=np.minimum(sample.ess, n_particles)),
        likelihood=likelihood,
        findings=(*findings, unresolved),
    )
    if likelihood.has_closed_form:
        bound, unexplained = collapsed_bound(basis, rows, likelihood, sampler.n_jobs)
        return inference._replace(log_evidence=bound, unexplained=unexplained)
    # Laplace's approximation from near the mode
    mode = landscape.mode
    evidence = sparse_value(
        rows,
        basis.inducing_points,
        basis.kernel,
        likelihood,
        mode.weights,
    )
    residual = _residual_of_rows(basis, rows, landscape.target, likelihood)
    # sum of ``½ c var g`` over the rows, c the curvatures at the mode
    smooth = smoothed(landscape.target)
    f = langevin.latent_values(smooth, mode.weights)[:, :, np.newaxis]
    curvature = smooth.likelihood.row_curvature(smooth.y, f)[..., 0]
    # of all outputs, each of which has a residual
    total_curvature = smooth.weights * np.einsum("icc->i", curvature)
    unexplained = 0.5 * float(total_curvature @ residual)
    bound = np.nan
    if landscape.log_concave and sampler.potential != "optimal":
        bound = divergence_bound(landscape.target, residual)
    return inference._replace(
        log_evidence=evidence,
        unexplained=unexplained / float(rows.weights.sum()),
        divergence_bound=bound,
    )


def _with_both_signs(
    target: Target,
    particles: Array,
    modes: Index,
    rng: Generator,
) -> tuple[Array, Index]:
    """Particles (m, c, s) of both signs of f, and the modes that they are in (s,)."""
    m, c, s = particles.shape
    w = particles.transpose(1, 0, 2).reshape(1, m * c, s)
    w, chosen, mirrored = of_both_signs(target, w, rng)
    particles = np.ascontiguousarray(w.reshape(c, m, s).transpose(1, 0, 2))
    return particles, 2 * modes[chosen] + mirrored


def _particle_model(
    basis: Nystroem,
    particles: Array,
    likelihood: Likelihood,
) -> LatentModel:
    """Latent function around the base of the likelihood, with particles (m, c, s)."""
    return LatentModel(basis, WeightParticles(particles), prior_mean(likelihood))
