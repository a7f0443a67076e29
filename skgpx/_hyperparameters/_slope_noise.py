"""The noise of slopes: that of values, and of each column, has units of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skgpx._hyperparameters._candidates import NOISE_PRIOR
from skgpx._hyperparameters._evidence import log_density_and_slopes, mean_square
from skgpx._row_budgets import SEARCHED_ROWS
from skgpx._shell.validation import Rows, Units
from skgpx._types import Array, Index, Kernel
from skgpx.kernels import VALUE, Functionals
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._noise import KnownNoise

# Searches in turn, and the change of the noise, in its logarithm, that ends them.
_MOST_ROUNDS = 4
_SETTLED = 0.1
# Logarithms of noise variances relative to the variances of targets.
_BOUNDS = (np.log(1e-8), np.log(10.0))


class NoiseOfKinds(NamedTuple):
    """Noise variances of values and of slopes, beside one another.

    Attributes
    ----------
    first : float
        Of values, or if all rows are slopes of those along the first column, in units
        of the noise of a search, or of the mean of known noise.
    of_slopes : ndarray of shape (d,) or None
        Of slopes along each column, in units of the noise of the fitted likelihood;
        zero for columns along which no row has a slope. None without functionals.
    constant : float
        Excess of the evidence of rows of noise that is relative to the learned one.
    """

    first: float = 1.0
    of_slopes: Array | None = None
    constant: float = 0.0

    @classmethod
    def of(cls, rows: Rows, kernel: Kernel, units: Units) -> NoiseOfKinds:
        """Noise of rows, which is learned or known."""
        if not isinstance(kernel, Functionals):
            return cls()
        derivative = kernel.rows(rows.X).derivative
        noise = np.ones(len(rows.y)) if rows.known is None else rows.known
        first = float(noise[np.argmin(derivative)])
        constant = 0.5 * float(rows.weights @ np.log(noise))
        if units.new_row_variance is not None:
            # in units of the mean of known noise
            noise = noise / np.average(noise, weights=rows.weights)
            of_first = derivative == np.min(derivative)
            first = float(np.average(noise[of_first], weights=rows.weights[of_first]))
            constant = 0.0
        of_slopes = np.zeros(kernel.n_features)
        for column in np.unique(derivative[derivative != VALUE]):
            of_slopes[column] = np.median(noise[derivative == column]) / first
        return cls(first, of_slopes, constant)

    def applied(self, solution: dict[str, Any]) -> dict[str, Any]:
        """Fitted attributes in the noise of values, from those of a search."""
        return {
            "_noise_of_slopes": self.of_slopes,
            "noise_variance_": solution["noise_variance_"] * self.first,
            "log_evidence_": solution["log_evidence_"] - self.constant,
        }


def kinds_of_rows(rows: Rows, kernel: Kernel) -> Index:
    """Kinds (n,) of rows from 0 on: values, and slopes by column; zeros of values."""
    if not isinstance(kernel, Functionals):
        return np.zeros(len(rows.y), dtype=np.intp)
    derivative = kernel.rows(rows.X).derivative
    return np.unique(derivative, return_inverse=True)[1]


def learn_noise_of_slopes(
    rows: Rows,
    kinds: Index,
    likelihood: Likelihood,
    learn: Callable[..., list[Any]],
) -> tuple[Rows, list[Any]]:
    """Learn the kernel and the noise of one kind of rows, and of the others, in turn.

    Parameters
    ----------
    rows : Rows
        Of one target under Gaussian noise.
    kinds : ndarray of int of shape (n,)
        Kinds of rows, from 0 on, each with a noise: values, and slopes by column. Of
        one kind it is that of the search.
    likelihood : Likelihood
        Prepared, for rows of kind 0.
    learn : callable
        Maps rows with relative noise and a likelihood to states; on request from a
        `previous` one, or without averaging. Their `kernel` and `noise_variance` are
        read.

    Returns
    -------
    rows : Rows
        Whose `known` noise is relative to that of the states.
    states : list of State
        As `learn` returns them.
    """
    if not (np.any(kinds) and len(likelihood.theta)):
        return rows, learn(rows, likelihood=likelihood)
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

    def learned(log_ratios: Array, **options: Any) -> tuple[Rows, list[Any]]:
        # in units of the harmonic mean, as known noise is
        noise = KnownNoise.of(np.exp(log_ratios)[kinds], rows.weights)
        relative = rows._replace(known=noise.relative)
        in_units = likelihood.rescaled(noise_variance=noise.reference)
        return relative, learn(relative, likelihood=in_units, **options)

    # 1 as if the noise had the same share of all
    first = np.log(variances / variances[0])
    relative, states = learned(first)
    if not states[0].noise_is_free:
        # that of a WhiteKernel, which all rows have
        return rows, learn(rows, likelihood=likelihood)
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
    state: Any,
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
