"""How the posterior of the weights is computed, and what comes of it: the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skgpx._latent import FunctionModel, Mean, MixtureModel
from skgpx._numerics.weights import GaussianWeights
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator
from skgpx.diagnostics import Finding
from skgpx.likelihoods import Likelihood


class Sample(NamedTuple):
    """Particles and the diagnostics of the chains that produced them.

    Attributes
    ----------
    z : ndarray of shape (g, p, s)
        Particles in the coordinates of the target.
    acceptance : float
        Accepted fraction of the proposals; 1 without a Metropolis test.
    r_hat, ess : ndarray of shape (g * p,)
        Split R-hat of each coordinate, and the effective number of independent states.
    energy_curve : ndarray of shape (n_rounds,)
        Mean potential of the particles after each round, up to a constant.
    n_iter : int
        Evaluations of the gradient by each chain; one for a single step.
    stopped : bool
        Whether a callback ended the chains.
    """

    z: Array
    acceptance: float
    r_hat: Array
    ess: Array
    energy_curve: Array
    n_iter: int
    stopped: bool = False


def independent_draws(
    weights: GaussianWeights,
    n_particles: int,
    rng: Generator,
) -> tuple[Array, Sample]:
    """Independent draws of the weights (m, c, s), and these in the form of chains."""
    particles = weights.draw(n_particles, rng)
    n_weights = weights.mean.size
    sample = Sample(
        z=particles.transpose(1, 0, 2).reshape(1, n_weights, n_particles),
        acceptance=1.0,
        r_hat=np.ones(n_weights),
        ess=np.full(n_weights, n_particles).astype(np.float64),
        energy_curve=np.array([]),
        n_iter=0,
    )
    return particles, sample


class Inference(NamedTuple):
    """Posterior of the weights and how it was computed.

    Attributes
    ----------
    posterior : LatentModel, NeighborModel, CellModel or MixtureModel
    particles : ndarray of shape (m, c, s)
    sample : Sample
        Diagnostics of the chains.
    likelihood : Likelihood
        Its noise variance may have been fitted again.
    log_evidence : float
        In nats: the collapsed bound of all rows, Laplace's approximation, or the
        variational bound given nearest rows; NaN while chains run.
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

    posterior: FunctionModel | MixtureModel
    particles: Array
    sample: Sample
    likelihood: Likelihood
    log_evidence: float = np.nan
    unexplained: float = np.nan
    divergence_bound: float = np.nan
    findings: tuple[Finding | None, ...] = ()

    @classmethod
    def averaged(cls, inferences: Sequence[Inference], weights: Array) -> Inference:
        """Average posteriors over states of the hyperparameters with these weights.

        Particles, evidence and diagnostics of chains are those of the first one.
        Findings are those of states that have half of the weight together: predictions
        rest on all of them. A single one is returned as it is.
        """
        first = inferences[0]
        if len(inferences) == 1:
            return first
        models: Any = tuple(inference.posterior for inference in inferences)
        shares: dict[str, float] = {}
        examples: dict[str, Finding] = {}
        for inference, weight in zip(inferences, weights, strict=True):
            for finding in filter(None, inference.findings):
                shares[finding.check] = shares.get(finding.check, 0.0) + weight
                examples.setdefault(finding.check, finding)
        findings = [examples[check] for check, share in shares.items() if share >= 0.5]
        return first._replace(
            posterior=MixtureModel(models, np.log(weights)),
            findings=tuple(findings),
        )


class Sampler(NamedTuple):
    """How to compute the posterior: parameters of :class:`~skgpx.PLSRegressor`.

    Attributes
    ----------
    method : {"auto", "exact", "ou_mala", "mala", "ula", "smc"}
    n_particles : int
    potential : {"projected", "optimal"}
    step_size : float, ndarray of shape (k,) or None
    max_iter : int or None
    tol : float
    n_jobs : int or None
    noise_is_free : bool
        Whether the noise variance of the closed form may still change.
    is_state : bool
        Whether the hyperparameters are one of many states: the closest normal
        distribution then takes the place of the chains of ``method="auto"``.
    report : callable, optional
        Called with the inference so far after each round of steps; True stops the
        chains.
    n_neighbors : int, default=0
        Nearest rows that complete the inducing points; 0 for none.
    init : {"laplace", "prior"} or ndarray of shape (m, c, s)
    """

    method: str
    n_particles: int
    potential: str
    step_size: float | Array | None
    max_iter: int | None
    tol: float
    n_jobs: int | None
    noise_is_free: bool
    is_state: bool
    report: Callable[[Inference], bool] | None = None
    n_neighbors: int = 0
    init: str | Array = "laplace"


def inference_of(
    posterior: FunctionModel,
    likelihood: Likelihood,
    evidence: float,
    sampler: Sampler,
    rng: Generator,
    unexplained: float = 0.0,
) -> Inference:
    """The posterior, with draws of its weights."""
    weights: Any = posterior.weights
    particles, sample = independent_draws(weights, sampler.n_particles, rng)
    return Inference(
        posterior=posterior,
        particles=particles,
        sample=sample,
        likelihood=likelihood,
        log_evidence=evidence,
        unexplained=unexplained,
    )


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
    if method != "auto":
        return method
    return "exact" if gaussian else "ou_mala"


def form_constant(rows: Rows, likelihood: Likelihood) -> float:
    """Log density of the form in which rows are fitted, less that of y."""
    constant = likelihood.row_form(rows.y, rows.weights, rows.known).constant
    if constant is None:
        return 0.0
    # the rows with a value of each target
    is_known = rows.is_known.reshape(len(rows.y), -1)
    return float(np.sum((rows.weights * constant) @ is_known))


def prior_mean(likelihood: Likelihood) -> Mean | None:
    """Mean of the latent functions: the base of the likelihood, None for zero."""
    base = likelihood.base_latent_
    if not np.any(base):
        return None
    return Mean(base, np.ones(len(base)))
