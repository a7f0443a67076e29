"""Names that rooms in change still import; goes with the last of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._selection._evidence import left_out
from skgpx._selection._grow import most_inducing
from skgpx._selection._noise import judged_noise as noise_by_density
from skgpx._selection._prior import Hyperparameters, counted_once, learn_prior
from skgpx._validation import Rows, warn
from skgpx.diagnostics import too_few_inducing_points
from skgpx.kernels import length_scale_entries
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

FEWEST_ROWS, UNLEARNED_NOISE = 4, 0.1
NOISE_BY_BOUND, NOISE_BY_DENSITY = "bound of all rows", "density of held-out rows"


class PriorSettings(NamedTuple):
    """Arguments of :func:`learn_prior`."""

    kernel: Any
    prior: str = "gp"
    optimizer: str | None = "evidence"
    n_restarts: int = 1
    inducing: Any = "greedy"
    n_inducing: int | None = None
    n_jobs: int | None = None
    few_rows: int | None = None


class JudgedNoise(NamedTuple):
    """Noise variance under which held-out rows are most probable, and their number."""

    variance: float
    rows: int


def fit_prior(
    rows: Rows, likelihood: Likelihood, settings: PriorSettings, rng: Any
) -> Hyperparameters:
    """:func:`learn_prior`, whose findings are warnings at once."""
    found = learn_prior(
        rows,
        likelihood,
        rng,
        kernel=settings.kernel,
        learn=settings.optimizer is not None,
        inducing=settings.inducing,
        n_inducing=settings.n_inducing,
        screening_rows=settings.few_rows or 500,
        n_jobs=settings.n_jobs,
    )
    for one in found.findings:
        warn(one.message, one.category)
    return found


def judged_noise(
    basis: Any, rows: Rows, statistics: Any, learned: float, best: float, rng: Any
) -> JudgedNoise | None:
    """Noise variance by held-out rows, unless the basis leaves out little of it."""
    if statistics.residual <= 0.02 * best * statistics.weight:
        return None
    found = noise_by_density(basis, rows, statistics, learned, best, rng)
    return None if found is None else JudgedNoise(found, 1000)


def left_out_means(kernel: Any, noise_variance: float, rows: Rows) -> Array:
    """Means of :func:`left_out`."""
    return left_out(kernel, noise_variance, rows)[0]


def are_few(rows: Rows) -> bool:
    """Whether fewer than four rows are distinct."""
    if len(rows.y) > 100:
        return False
    table = np.column_stack((rows.X, rows.y))[rows.weights > 0.0]
    return len(np.unique(table, axis=0)) < FEWEST_ROWS


def search_weights(rows: Rows) -> Array:
    """Weights of rows that count once."""
    return counted_once(rows).weights


def stretched(kernel: Any, log_factor: float) -> Any:
    """The same kernel with its free lengthscales multiplied, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += log_factor
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def warn_of_budget(
    m: int, n: int, unexplained: float, parameter: str, largest: int | None = None
) -> None:
    """Warn where the budget ended before the points explained what they could."""
    del parameter
    if m < most_inducing(n, largest) or m == n:
        return
    found = too_few_inducing_points(m, 0, unexplained, True)
    if found is not None:
        warn(found.message, found.category)
