"""What each optimizer does with the kernel of the prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skgpx._selection._copies import counted_once, lost_noise_to_copies
from skgpx._selection._evidence import (
    Hyperparameters,
    maximise_evidence,
    search_on,
)
from skgpx._selection._few_rows import FEWEST_ROWS, unlearned
from skgpx._selection._growth import as_found, given_with_points, grown
from skgpx._selection._learner import (
    NOISE_PRICE,
    Found,
    all_noise,
    candidates,
    learn_default,
    learn_given,
    warn_of_noise,
)
from skgpx._selection._lengthscales import (
    average_over_neighbourhoods,
    default_gre,
    default_latent_kernel,
    narrowed,
    starting_kernels,
    with_long_lengthscales,
)
from skgpx._selection._search_record import COUNTED_ONCE, SearchRecord
from skgpx._selection._sparse_learner import learn_sparse
from skgpx._validation import Rows, warn
from skgpx.exceptions import ConvergenceWarning
from skgpx.kernels import GREKernel, default_kernel, split_noise, theta_entries
from skgpx.likelihoods import Gaussian, Likelihood

# ---- Warnings about hyperparameters that ended at their bounds -----------------------


Array = NDArray[np.float64]


def warn_at_bounds(found: Hyperparameters) -> bool:
    """Say in one warning which hyperparameters ended at a bound, and what to do.

    True if there is something to say.
    """
    at_bounds = _at_bounds(found.kernel, _trouble)
    if at_bounds:
        warn(
            f"The hyperparameters {'; '.join(at_bounds)} ended at their bounds. Widen "
            "the bounds of these parameters in `kernel`, or fix them on purpose with "
            'bounds="fixed".',
            ConvergenceWarning,
        )
    return bool(at_bounds)


def warn_at_default_bounds(found: Hyperparameters) -> bool:
    """Say in one warning which bounds of the default kernel were met, and what to do.

    The largest standard deviation of a log scale is meant to be met, where classes can
    be separated, and a small amplitude says that there is little to find.
    """

    def trouble(name: str, low: Array, high: Array) -> bool:
        if name.endswith("constant_value"):
            return bool(np.any(high)) and not found.likelihood.log_scale
        return name.endswith("length_scale") and bool(np.any(low))

    at_bounds = _at_bounds(found.kernel, trouble)
    if not at_bounds:
        return False
    name = type(found.likelihood).__name__
    scale = (
        f" If the latent function of {name} is a logarithm, say so by log_scale = True "
        "in its class."
    )
    large = any("constant_value" in one for one in at_bounds)
    known = found.likelihood.location_scale
    warn(
        f"With {name} and the default kernel, {'; '.join(at_bounds)} ended at the "
        "bounds that the data suggest. Give a `kernel` with wider ones, such as "
        f"{_wider(found.kernel)}.{scale if large and not known else ''}",
        ConvergenceWarning,
    )
    return True


def _wider(kernel: Any) -> str:
    """The default kernel, inside of its GRE kernel or not, with wider bounds."""
    inner = kernel.kernel if isinstance(kernel, GREKernel) else kernel
    (low, high), *scales = np.exp(inner.bounds)
    value, shortest = inner.k1.constant_value, np.min(scales)
    longest = float(np.max(scales))
    return (
        f"ConstantKernel({value:.3g}, ({low:.1g}, {100.0 * high:.1g})) * "
        f"RBF({np.ravel(inner.k2.length_scale).round(3).tolist()}, "
        f"({0.01 * shortest:.1g}, {longest:.1g}))"
    )


def _at_bounds(kernel: Any, trouble: Callable[[str, Array, Array], bool]) -> list[str]:
    """Hyperparameters of which `trouble` says that their bounds deserve a word."""
    at_bounds = []
    for name, entries in theta_entries(kernel):
        values, bounds = kernel.theta[entries], kernel.bounds[entries]
        if trouble(name, *(np.abs(values[:, np.newaxis] - bounds) < 1e-3).T):
            at_bounds.append(f"{name} = {np.exp(values).round(6).tolist()}")
    return at_bounds


def _trouble(name: str, low: Array, high: Array) -> bool:
    """Whether values at their lower or upper bounds deserve a warning.

    A column without effect has the longest lengthscale, and no background is wanted
    where the data say enough: neither is a sign of trouble.
    """
    if name == "background":
        return False
    if name.endswith("length_scale"):
        return bool(np.any(low))
    return bool(np.any(low) or np.any(high))


# ---- From the user's kernel to the prior kernel κ with its hyperparameters -----------


# From so many inducing points on the exact evidence is a better guide than their bound.
LARGEST_BOUND = 400
# Points that stand for the law of the inputs in the GRE kernel.
_SUPPORT = 200


class PriorSettings(NamedTuple):
    """Parameters of an estimator that decide about the prior; see `PLSRegressor`.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None
    prior : {"gre", "gp"}
    optimizer : {"evidence", "neighbourhoods"} or None
    n_restarts : int
    inducing : str, array or callable
    n_inducing : int or None
        None means as many as it takes: the exact evidence alone then decides.
    n_jobs : int or None
    few_rows : int or None
        Rows that the first searches of Gaussian regression read; None is 500.
    """

    kernel: Any
    prior: str
    optimizer: str | None
    n_restarts: int
    inducing: Any
    n_inducing: int | None
    n_jobs: int | None = None
    few_rows: int | None = None


def fit_prior(
    rows: Rows,
    likelihood: Likelihood,
    settings: PriorSettings,
    rng: np.random.Generator,
    previous: Hyperparameters | None = None,
) -> Hyperparameters:
    """Prior kernel κ and likelihood, with every free hyperparameter estimated.

    Up to three distinct rows say next to nothing of a scale of y that is not known:
    nothing is estimated, and the variance far away stays that of the prior.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared on the targets of the rows.
    settings : PriorSettings
    rng : numpy.random.Generator
    previous : Hyperparameters, optional
        Of an earlier fit: the only start, for a warm start.

    Returns
    -------
    best : Hyperparameters

    Raises
    ------
    ValueError
        If the kernel has white noise and the likelihood has no place for it.
    """
    kernel, likelihood = _with_noise(settings, rows, likelihood)
    learns = settings.optimizer is not None and likelihood.location_scale
    if len(rows.y) < FEWEST_ROWS and learns:
        prior = _gre(kernel, rows, rng) if settings.prior == "gre" else kernel
        if previous is not None:
            prior = _renewed(previous.kernel, rows, rng)
        return unlearned(prior, likelihood, rows)
    if isinstance(likelihood, Gaussian) and settings.optimizer == "evidence":
        how = kernel, likelihood, rows, settings, rng, previous
        return _with_lengthscale(_fit_gaussian(*how), rows)
    if settings.optimizer != "evidence":
        return _without_search(kernel, likelihood, rows, settings, rng)
    best = _fit_by_mode(kernel, likelihood, rows, settings, rng, previous)
    if lost_noise_to_copies(best.likelihood, rows):
        once = counted_once(rows)
        best = _fit_by_mode(kernel, likelihood, once, settings, rng, previous)
        best = best._replace(record=best.record._replace(copies=COUNTED_ONCE))
    (warn_at_default_bounds if settings.kernel is None else warn_at_bounds)(best)
    return _with_lengthscale(best, rows)


def _with_lengthscale(best: Hyperparameters, rows: Rows) -> Hyperparameters:
    """With a record that says so if all columns share one lengthscale."""
    found = best.candidate
    if found is None or not found.is_tied:
        return best
    tied = found.ties[:, np.argmax(np.sum(found.ties, axis=0))] > 0.0
    # default lengthscales are 2√d standard deviations
    start = default_kernel(rows.X, rows.weights).k2.length_scale
    ratios = np.exp(best.kernel.theta[tied]) / start
    length = 2.0 * np.sqrt(rows.X.shape[1]) * np.median(ratios)
    said = f"one, {length:.3g} standard deviations of each column"
    if np.ptp(found.offset[tied]) == 0.0 < np.ptp(start):
        said = f"one, {np.exp(best.kernel.theta[tied][0]):.3g} in the unit of X"
    return best._replace(record=best.record._replace(lengthscales=said))


def _fit_by_mode(
    kernel: Any,
    likelihood: Likelihood,
    rows: Rows,
    settings: PriorSettings,
    rng: np.random.Generator,
    previous: Hyperparameters | None,
) -> Hyperparameters:
    """Other likelihoods: by Laplace's evidence of the sparse model."""
    n_inducing = len(rows.y) if settings.n_inducing is None else settings.n_inducing
    search = settings.inducing, n_inducing, rng
    if previous is not None:
        start = _renewed(previous.kernel, rows, rng), likelihood
        return search_on(rows, start, previous, *search)
    if settings.kernel is None:
        return _learned_default(kernel, likelihood, rows, settings, rng)
    starts = [
        (k, likelihood)
        for k in starting_kernels(kernel, rows, settings.n_restarts, rng)
    ]
    gre = settings.prior == "gre"
    best = maximise_evidence(rows, starts, *search, polish=not gre)
    if gre:
        # one start from the kernel as it is, one near the process just fitted
        near = _gre(narrowed(best.kernel), rows, rng)
        balanced = clone(near).set_params(kernel=kernel)
        starts = [(balanced, likelihood), (near, best.likelihood)]
        best = maximise_evidence(rows, starts, *search)
    if likelihood.n_outputs_ > 1 or settings.n_inducing is None:
        return best
    wrapped = (lambda k: _gre(narrowed(k), rows, rng)) if gre else None
    return given_with_points(best, kernel, wrapped, rows, *search)


def _without_search(
    kernel: Any,
    likelihood: Likelihood,
    rows: Rows,
    settings: PriorSettings,
    rng: np.random.Generator,
) -> Hyperparameters:
    """Hyperparameters as they are given, or by the rule of neighbourhoods."""
    record = SearchRecord(distinct_rows=len(rows.y))
    if settings.optimizer == "neighbourhoods":
        found = average_over_neighbourhoods(rows, kernel, likelihood, rng)
        kernel, likelihood, record = found
    prior = _gre(kernel, rows, rng) if settings.prior == "gre" else kernel
    if settings.kernel is None and settings.prior == "gre":
        (prior,) = default_gre((prior,), rows, likelihood)
    needed, planned = 0, settings.n_inducing
    counted = not isinstance(likelihood, Gaussian) and likelihood.n_outputs_ == 1
    if planned is not None and counted:
        one = as_found(Hyperparameters(prior, likelihood, np.nan))
        needed, _ = grown(rows, one, settings.inducing, planned, rng.spawn(1)[0])
        needed = needed if needed > planned else 0
    record = {"record": record, "n_inducing": needed}
    return Hyperparameters(prior, likelihood, np.nan, **record)


def _learned_default(
    kernel: Any,
    likelihood: Likelihood,
    rows: Rows,
    settings: PriorSettings,
    rng: np.random.Generator,
) -> Hyperparameters:
    """The default kernel, learned by the sparse Laplace evidence."""

    def prior(kernel: Any) -> Any:
        if settings.prior != "gre":
            return kernel
        (around,) = default_gre((_gre(kernel, rows, rng),), rows, likelihood)
        return around

    few = len(rows.y) if settings.n_inducing is None else settings.n_inducing
    how = settings.inducing, few, rng
    found = learn_sparse(rows, likelihood, kernel, prior, *how)
    warn_of_noise(found, rows)
    return _hyperparameters_of(found)


def _hyperparameters_of(found: Found) -> Hyperparameters:
    """What a search found, with its coordinates where these are not the parameters."""
    candidate = found.candidate
    plain = not candidate.is_tied and np.all(np.isnan(candidate.prior_mean))
    return Hyperparameters(
        found.kernel,
        found.likelihood,
        found.evidence,
        found.gain,
        None if plain else candidate,
        found.record,
        n_inducing=found.n_inducing,
    )


def _fit_gaussian(
    kernel: Any,
    likelihood: Gaussian,
    rows: Rows,
    settings: PriorSettings,
    rng: np.random.Generator,
    previous: Hyperparameters | None,
) -> Hyperparameters:
    """Gaussian regression: by the exact evidence, then by the bound of few points."""
    learn, search = rng.spawn(2)
    found = _learned(kernel, likelihood, rows, settings, learn, previous)
    if lost_noise_to_copies(found.likelihood, rows):
        once = counted_once(rows)
        found = _learned(kernel, likelihood, once, settings, learn, previous)
        found = found._replace(record=found.record._replace(copies=COUNTED_ONCE))
    if not len(found.kernel.theta) + len(found.likelihood.theta):
        record = SearchRecord(distinct_rows=len(rows.y))
        return Hyperparameters(found.kernel, found.likelihood, np.nan, record=record)
    best = _hyperparameters_of(found)
    few = settings.n_inducing
    if few is not None and few < min(len(rows.y), LARGEST_BOUND):
        long = with_long_lengthscales(best.kernel, rows), likelihood
        # the learner's noise may be far too small for what few points leave out
        noisy = best.kernel, all_noise(rows, likelihood)
        starts = [best[:2], noisy, long] if previous is None else [best[:2], noisy]
        how = settings.inducing, few, search
        bound = maximise_evidence(rows, starts, *how, candidate=best.candidate)
        # a bound that is lost in pure noise says nothing about the kernel
        if bound.gain > NOISE_PRICE:
            best = bound
    told = settings.kernel is not None and warn_at_bounds(best)
    if not told:
        warn_of_noise(found, rows)
    exact = found.noise_variance if found.gain > NOISE_PRICE else np.nan
    return best._replace(exact_noise=exact)


def _learned(
    kernel: Any,
    likelihood: Gaussian,
    rows: Rows,
    settings: PriorSettings,
    rng: np.random.Generator,
    previous: Hyperparameters | None,
) -> Found:
    """Where the search by the exact evidence ended."""
    side = settings.n_jobs, settings.few_rows
    if previous is not None:
        renewed = _renewed(previous.kernel, rows, rng)
        how = previous.candidate, *side
        return learn_given(rows, likelihood, [renewed], rng, *how)
    gre = settings.prior == "gre"
    if settings.kernel is None:
        # other kernels than the RBF have no background of their own
        how = (np.inf,) if gre else None, *side
        best = learn_default(rows, likelihood, rng, *how)
    else:
        starts = starting_kernels(kernel, rows, settings.n_restarts, rng)
        best = learn_given(rows, likelihood, starts, rng, None, *side)
    if not gre:
        return best
    # one start from the kernel as it is, one near the process just fitted
    near = _gre(narrowed(best.kernel), rows, rng)
    balanced = clone(near).set_params(kernel=kernel)
    candidate = None
    if settings.kernel is None:
        tied, separate = candidates(near, rows)
        candidate = tied if best.candidate.is_tied else separate
    how = candidate, *side
    return learn_given(rows, best.likelihood, [balanced, near], rng, *how)


def _renewed(previous: Any, rows: Rows, rng: np.random.Generator) -> Any:
    """An earlier prior kernel, with the law of these inputs."""
    if not isinstance(previous, GREKernel):
        return previous
    fresh = _gre(previous.kernel, rows, rng)
    return fresh.set_params(
        background=previous.background, background_bounds=previous.background_bounds
    )


def _with_noise(
    settings: PriorSettings, rows: Rows, likelihood: Likelihood
) -> tuple[Any, Likelihood]:
    """The latent function's kernel, and the likelihood with the kernel's noise."""
    if settings.kernel is None:
        return default_latent_kernel(rows, likelihood, settings.prior), likelihood
    kernel, noise, bounds = split_noise(clone(settings.kernel))
    if noise is None:
        return kernel, likelihood
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            "A WhiteKernel is the noise of a Gaussian likelihood; got one together "
            f"with {type(likelihood).__name__}. Remove the WhiteKernel from `kernel`."
        )
    if isinstance(bounds, str):
        return kernel, Gaussian(noise).prepare(rows.y, rows.weights)
    low, high = np.ravel(np.asarray(bounds, dtype=np.float64)).tolist()
    return kernel, likelihood.with_start(noise_variance=(noise, low, high))


def _gre(kernel: Any, rows: Rows, rng: np.random.Generator) -> GREKernel:
    """GRE kernel whose measure is that of the inputs, at most 200 of them."""
    X, mass, n = rows.X, rows.weights, len(rows.y)
    if n > _SUPPORT:
        chosen = np.sort(rng.choice(n, _SUPPORT, replace=False, p=mass / mass.sum()))
        X, mass = X[chosen], np.ones(_SUPPORT)
    return GREKernel(kernel, X, mass)
