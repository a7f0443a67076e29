"""The noise of slopes: that of values, and of each column, has units of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from skgpx._hyperparameters._candidates import NOISE_PRIOR
from skgpx._hyperparameters._evidence import log_density_and_slopes, mean_square
from skgpx._hyperparameters._maximise import State
from skgpx._row_budgets import SEARCHED_ROWS
from skgpx._shell.validation import Rows
from skgpx._types import Array, Index
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._noise import KnownNoise

# Searches in turn, and the change of the noise, in its logarithm, that ends them.
_MOST_ROUNDS = 4
_SETTLED = 0.1
# Logarithms of noise variances relative to the variances of targets.
_BOUNDS = (np.log(1e-8), np.log(10.0))


def learn_noise_of_slopes(
    rows: Rows,
    kinds: Index,
    likelihood: Likelihood,
    learn: Callable[..., list[State]],
) -> tuple[Rows, list[State]]:
    """Learn the kernel and the noise of one kind of rows, and of the others, in turn.

    Parameters
    ----------
    rows : Rows
        Of one target under Gaussian noise that is free.
    kinds : ndarray of int of shape (n,)
        Kinds of rows, from 0 on, each with a noise: values, and slopes by column.
    likelihood : Likelihood
        Prepared, for rows of kind 0.
    learn : callable
        Maps rows with relative noise and a likelihood to states; on request from a
        `previous` one, or without averaging.

    Returns
    -------
    rows : Rows
        Whose `known` noise is relative to that of the states.
    states : list of State
    """
    first_rows = rows.take(kinds == 0)
    if np.ptp(first_rows.y) > 0.0:
        # rows of other kinds have other units
        scales = likelihood.starting_scales(first_rows.y, first_rows.weights)
        likelihood = likelihood.with_start(**scales)
    variances = np.array(
        [
            mean_square(rows.take(kinds == kind)) or 1.0
            for kind in range(kinds.max() + 1)
        ]
    )

    def learned(log_ratios: Array, **options: Any) -> tuple[Rows, list[State]]:
        # in units of the harmonic mean, as known noise is
        noise = KnownNoise.of(np.exp(log_ratios)[kinds], rows.weights)
        relative = rows._replace(known=noise.relative)
        in_units = likelihood.rescaled(noise_variance=noise.reference)
        return relative, learn(relative, likelihood=in_units, **options)

    # 1 as if the noise had the same share of all
    first = np.log(variances / variances[0])
    relative, states = learned(first)
    # 2 the noise given the kernel, and the kernel given the noise
    log_ratios = first
    state = states[0]
    for _ in range(_MOST_ROUNDS):
        previous = log_ratios
        log_ratios = _log_ratios(relative, kinds, state, variances)
        if np.max(np.abs(log_ratios - previous)) < _SETTLED:
            break
        relative, (state,) = learned(
            log_ratios, previous=state, hyperparameters="maximise"
        )
    # 3 all candidates with that noise
    if np.max(np.abs(log_ratios - first)) > _SETTLED:
        return learned(log_ratios)
    return learned(first)[0], states


def _log_ratios(
    rows: Rows,
    kinds: Index,
    state: State,
    variances: Array,
) -> Array:
    """Log noise variances less that of kind 0, most probable given a kernel.

    All have the prior of a noise, in variances of their targets.
    """
    chosen = np.arange(len(rows.y))
    if len(chosen) > SEARCHED_ROWS:
        chosen = chosen[:: -(-len(chosen) // SEARCHED_ROWS)]
    rows = rows.take(chosen)
    kinds = kinds[chosen]
    K = state.kernel(rows.X)

    def loss(log_shares: Array) -> tuple[float, Array]:
        noise = (np.exp(log_shares) * variances)[kinds] / rows.weights
        log_density, slopes = log_density_and_slopes(K, rows.y, noise)
        log_prior, prior_slopes = NOISE_PRIOR.log_density_and_slope(log_shares)
        by_kind = np.bincount(kinds, slopes * noise, minlength=len(variances))
        return -log_density - np.sum(log_prior), -by_kind - prior_slopes

    # from where the search has ended
    _, first = np.unique(kinds, return_index=True)
    relative = np.asarray(rows.known)[first]
    log_shares = np.log(state.noise_variance * relative / variances)
    optimum = minimize(
        loss,
        np.clip(log_shares, *_BOUNDS),
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * len(variances),
    )
    log_noise = optimum.x + np.log(variances)
    return log_noise - log_noise[0]
