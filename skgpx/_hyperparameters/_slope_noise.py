"""The noise of slopes, which is measured apart from that of values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from skgpx._hyperparameters._candidates import NOISE_PRIOR
from skgpx._hyperparameters._evidence import log_density_and_slopes
from skgpx._hyperparameters._maximise import State
from skgpx._row_budgets import SEARCHED_ROWS
from skgpx._shell.validation import Rows
from skgpx._types import Array, Mask

# Searches in turn, and the change of the noise, in its logarithm, that ends them.
_MOST_ROUNDS = 4
_SETTLED = 0.1
# Logarithms of noise variances relative to the variances of targets.
_BOUNDS = (np.log(1e-8), np.log(10.0))


def learn_noise_of_slopes(
    rows: Rows,
    is_slope: Mask,
    learn: Callable[..., list[State]],
) -> tuple[Rows, list[State]]:
    """Learn kernel and noise of values, and the noise of slopes, in turn.

    Parameters
    ----------
    rows : Rows
        Of one target under Gaussian noise that is free.
    is_slope : ndarray of bool of shape (n,)
    learn : callable
        Maps rows whose `known` noise is relative to that of values, to states; on
        request from a `previous` one, or without averaging.

    Returns
    -------
    rows : Rows
        With the relative noise.
    states : list of State
    """
    variances = np.array(
        [_mean_square(rows, ~is_slope), _mean_square(rows, is_slope)],
    )

    def with_ratio(log_ratio: float) -> Rows:
        return rows._replace(known=np.where(is_slope, np.exp(log_ratio), 1.0))

    # 1 as if the noise had the same share of both
    first = float(np.log(variances[1] / variances[0]))
    states = learn(with_ratio(first))
    # 2 the noise given the kernel, and the kernel given the noise
    log_ratio = first
    state = states[0]
    for _ in range(_MOST_ROUNDS):
        previous = log_ratio
        log_ratio = _log_ratio(with_ratio(log_ratio), is_slope, state, variances)
        if abs(log_ratio - previous) < _SETTLED:
            break
        (state,) = learn(
            with_ratio(log_ratio), previous=state, hyperparameters="maximise"
        )
    # 3 all candidates with that noise
    rows = with_ratio(log_ratio)
    if abs(log_ratio - first) > _SETTLED:
        states = learn(rows)
    return rows, states


def _log_ratio(
    rows: Rows,
    is_slope: Mask,
    state: State,
    variances: Array,
) -> float:
    """Log noise variance of slopes less that of values, most probable given a kernel.

    Both have the prior of a noise, in variances of their targets.
    """
    chosen = np.arange(len(rows.y))
    if len(chosen) > SEARCHED_ROWS:
        chosen = chosen[:: -(-len(chosen) // SEARCHED_ROWS)]
    rows = rows.take(chosen)
    is_slope = is_slope[chosen]
    K = state.kernel(rows.X)
    kind = is_slope.astype(np.intp)

    def loss(log_shares: Array) -> tuple[float, Array]:
        noise = np.exp(log_shares)[kind] * variances[kind] / rows.weights
        log_density, slopes = log_density_and_slopes(K, rows.y, noise)
        log_prior, prior_slopes = NOISE_PRIOR.log_density_and_slope(log_shares)
        by_kind = np.bincount(kind, slopes * noise, minlength=2)
        return -log_density - np.sum(log_prior), -by_kind - prior_slopes

    # from where the search has ended
    relative = np.array([1.0, np.asarray(rows.known)[is_slope][0]])
    start = np.log(state.noise_variance * relative / variances)
    end = minimize(
        loss,
        np.clip(start, *_BOUNDS),
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * 2,
    )
    of_values, of_slopes = end.x + np.log(variances)
    return float(of_slopes - of_values)


def _mean_square(rows: Rows, chosen: Mask) -> float:
    """Mean square of some targets; one if they are all zero."""
    square = float(np.average(rows.y[chosen] ** 2, weights=rows.weights[chosen]))
    return square if square > 0.0 else 1.0
