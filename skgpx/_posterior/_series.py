"""Series: exact regression by filter and smoother, or the closest normal posterior."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from skgpx._hyperparameters import VariationalEvidence
from skgpx._latent import ObservedSeries, SeriesModel
from skgpx._numerics.state_space import Filtered
from skgpx._posterior._sampler import Inference, Sampler, inference_of, prior_mean
from skgpx._row_budgets import NOISE_ROWS, STRETCHES
from skgpx._shell.row_statistics import counted_once
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Mask
from skgpx.bases import SeriesBasis
from skgpx.diagnostics import rows_not_converged
from skgpx.likelihoods import Gaussian, Likelihood


def series(
    basis: SeriesBasis,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Posterior of Markov processes of one column given all rows, in O(n).

    Exact under Gaussian noise; for any other likelihood it is the normal distribution
    that is closest to the posterior: regression on the values and the noise of
    :class:`~skgpx._hyperparameters.VariationalEvidence`, for one function.

    Parameters as in :func:`~skgpx._pls._inference.infer`.
    """
    if likelihood.has_closed_form:
        return _regression(basis, rows, likelihood, sampler, rng)
    evidence = VariationalEvidence(rows, basis.kernel, likelihood)
    bound, z, noise = evidence.working_responses()
    observed = ObservedSeries.of(basis, rows.X, z[:, np.newaxis], noise[:, np.newaxis])
    posterior = SeriesModel(observed, prior_mean(likelihood))
    inference = inference_of(posterior, likelihood, bound, sampler, rng)
    if sampler.report is not None:
        sampler.report(inference)
    return inference._replace(findings=(rows_not_converged(evidence.converged),))


def _regression(
    basis: SeriesBasis,
    rows: Rows,
    likelihood: Gaussian,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Regression of one or several targets, each on the rows where it is known."""
    n = len(rows.y)
    y = rows.y.reshape(n, -1)
    n_targets = y.shape[1]
    has_value = np.isfinite(y)
    values = np.where(has_value, y, 0.0)
    noise_variance = float(likelihood.variance(0.0))
    unit_noise = np.where(has_value, 1.0 / rows.precisions[:, np.newaxis], np.inf)
    noises = np.full(n_targets, noise_variance)
    if n_targets > 1:
        if sampler.noise_is_free and len(likelihood.theta):
            noises = _noises_of_targets(basis, rows, values, has_value, likelihood)
        likelihood = likelihood.with_noise(noises)
    noise = noises * unit_noise
    observed = ObservedSeries.of(basis, rows.X, values, noise)
    model = SeriesModel(observed, prior_mean(likelihood))
    # ω rows of noise σ² stand for a row of weight ω
    evidence = model.log_density_of_rows
    log_volumes = np.log(2.0 * np.pi * noise)
    log_volumes -= rows.weights[:, np.newaxis] * np.log(2.0 * np.pi * noises)
    evidence += 0.5 * float(np.sum(log_volumes[has_value]))
    return inference_of(model, likelihood, evidence, sampler, rng)


def _noises_of_targets(
    basis: SeriesBasis,
    rows: Rows,
    values: Array,
    has_value: Mask,
    likelihood: Gaussian,
) -> Array:
    """Noise variance of each target, by the density of stretches of its rows, (t,).

    As in the search rows count once, unless others have the same time.
    """
    low, high = likelihood.theta_bounds[0]
    omega = counted_once(rows).weights
    noises = np.empty(values.shape[1])
    for target in range(len(noises)):
        positions = np.flatnonzero(has_value[:, target])
        positions = positions[np.argsort(rows.X[positions, 0], kind="stable")]
        n_stretches = STRETCHES if len(positions) > NOISE_ROWS else 1
        size = min(len(positions), NOISE_ROWS // n_stretches)
        starts = np.linspace(0, len(positions) - size, n_stretches).astype(int)
        stretches = []
        for start in starts:
            chosen = positions[start : start + size]
            observed = ObservedSeries.of(
                basis,
                rows.X[chosen],
                values[chosen, target : target + 1],
                1.0 / omega[chosen, np.newaxis],
            )
            stretches.append(observed.filtered[0])
        # a row of weight ω stands for ω of them
        repetitions = 0.5 * sum(
            float(np.sum(1.0 / stretch.series.noise - 1.0)) for stretch in stretches
        )

        def loss(
            log_noise: float,
            stretches: list[Filtered] = stretches,
            repetitions: float = repetitions,
        ) -> float:
            density = sum(
                stretch.series._replace(noise=np.exp(log_noise) * stretch.series.noise)
                .filtered(stretch.y)
                .value
                for stretch in stretches
            )
            return repetitions * log_noise - density

        optimum = optimize.minimize_scalar(
            loss, bounds=(low, high), method="bounded", options={"xatol": 0.02}
        )
        noises[target] = np.exp(optimum.x)
    return noises
