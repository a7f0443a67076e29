"""Prior kernel and scales of the likelihood, before a method begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skgpx import diagnostics
from skgpx._numerics import laplace
from skgpx._numerics.smoothing import is_smoothed, smoothed
from skgpx._parallel import side_by_side
from skgpx._selection._candidates import Candidate, default_candidates, of_kernel
from skgpx._selection._evidence import (
    SparseEvidence,
    WorkingResponses,
    mean_square,
    rough_start,
    row_target,
    sparse_value,
    with_noise,
    within_variance,
)
from skgpx._selection._select import (
    NOISE_PRICE,
    Found,
    SearchBudget,
    Split,
    maximise,
    screen,
    select,
    subset,
    trained,
)
from skgpx._selection._sparse import SEARCHED_ROWS, grow
from skgpx._validation import DefaultKernel, Rows, standardisation
from skgpx.bases import Nystroem, select_inducing
from skgpx.diagnostics import Finding
from skgpx.kernels import GREKernel, decays, rescaled, split_noise, stated_priors
from skgpx.likelihoods import Gaussian, Likelihood, Tobit

Array = NDArray[np.float64]

# The most points of a model whose likelihood is not Gaussian, and of a search.
MOST, _SEARCHED = 500, 400
# Rows whose working responses train the kernel.
_MODE_ROWS = 40_000


class SearchRecord(NamedTuple):
    """Which rows chose the hyperparameters, and by what; what is empty did not happen.

    Attributes
    ----------
    criterion : str
        What the search maximised.
    distinct_rows : int
        Rows of positive weight of the fit, repetitions counted once.
    rows_searched : int or str
        Rows that the last search read; "all" where it read sums over every row.
    kernel : str
        Name of the candidate that was chosen.
    frequency_rows : int
        Rows from which frequencies were learned.
    calibration_rows : int
        Errors at held-out rows, which chose the size of the variances; a row left out
        twice counts twice.

    Examples
    --------
    >>> from skgpx._selection import SearchRecord
    >>> SearchRecord("log evidence", 2000, 1500).section()
    {'criterion': 'log evidence', 'distinct_rows': 2000, 'rows_searched': 1500}
    """

    criterion: str = "nothing was free"
    distinct_rows: int = 0
    rows_searched: int | str = 0
    kernel: str = ""
    frequency_rows: int = 0
    calibration_rows: int = 0

    def section(self) -> dict[str, Any]:
        """What happened, by name."""
        return {name: value for name, value in self._asdict().items() if value}


class Hyperparameters(NamedTuple):
    """Prior and likelihood with their hyperparameters.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior kernel κ with its hyperparameters set.
    likelihood : Likelihood
        With its free scales set.
    record : SearchRecord
        Which rows searched.
    found : Found or None
        Where the search ended, for the next one; None without a signal.
    exact_noise : float
        Noise variance beside an exact process of some rows, or the harmonic mean of
        those of working responses; NaN where there is none.
    n_inducing : int
        Inducing points after which twice as many do not gain; 0 where not counted.
    findings : tuple of Finding
    amplitude_is_free : bool
        Whether nobody has given the variance of the latent function: False for a kernel
        of the user's without a search, with fixed amplitudes, or with none.
    """

    kernel: Any
    likelihood: Any
    record: SearchRecord = SearchRecord()
    found: Found | None = None
    exact_noise: float = np.nan
    n_inducing: int = 0
    findings: tuple[Finding, ...] = ()
    amplitude_is_free: bool = True

    @property
    def noise_is_free(self) -> bool:
        """Whether nobody has given the scale of the likelihood."""
        return len(self.likelihood.theta) > 0


def learn_prior(
    rows: Rows,
    likelihood: Likelihood,
    rng: np.random.Generator,
    *,
    kernel: Any = None,
    learn: bool = True,
    inducing: Any = "greedy",
    n_inducing: int | None = None,
    budget: SearchBudget | None = None,
    n_jobs: int | None = None,
    previous: Hyperparameters | None = None,
    trend: bool = True,
) -> Hyperparameters:
    """Kernel and likelihood by maximum a posteriori, and the choice between kernels.

    Rows that are alone at their inputs count once: duplicate rows make the likelihood
    of the noise variance unbounded. Weights above one enter the posterior only.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    kernel : sklearn.gaussian_process.kernels.Kernel, optional
        None stands for the default candidates, a DefaultKernel too.
    learn : bool, default=True
        False leaves kernel and likelihood as they are.
    inducing : str, array or callable
    n_inducing : int, optional
        Of the model; None is as many as it takes, for Gaussian noise.
    budget : SearchBudget, optional
        Rows that the searches read, for Gaussian noise.
    n_jobs : int or None
    previous : Hyperparameters, optional
        Of an earlier fit, where the search starts.
    trend : bool, default=True
        Whether the default kernel may have a linear trend and seasons besides, for
        Gaussian noise.
    """
    unit = latent_scale(rows, likelihood) ** 2
    if kernel is None or isinstance(kernel, DefaultKernel):
        groups = default_candidates(rows, likelihood, unit, kernel)
        kernel = groups[0][-1].kernel
        amplitude_is_free = True
    else:
        candidate, likelihood = _given(kernel, rows, likelihood, unit, learn)
        kernel, groups = candidate.kernel, [[candidate]]
        amplitude_is_free = learn and rescaled(kernel, 1.0) is not None
    record = SearchRecord(distinct_rows=len(rows.y))
    if not learn or not len(kernel.theta) + len(likelihood.theta):
        return Hyperparameters(
            kernel,
            likelihood,
            record=record,
            amplitude_is_free=amplitude_is_free,
        )
    counted = rows if likelihood.discrete else counted_once(rows)
    split = Split.of(counted, budget or SearchBudget(), rng)
    start = None if previous is None else previous.found
    if start is not None:
        start = start._replace(likelihood=likelihood)
    exact_noise, needed = np.nan, 0
    if likelihood.has_closed_form:
        best = (
            trained([start], split)
            if start
            else select(groups, split, likelihood, n_jobs, trend)
        )
        if best.gain > NOISE_PRICE:
            exact_noise = float(best.likelihood.variance(0.0))
        if n_inducing is not None and n_inducing < min(len(rows.y), _SEARCHED):
            best = _by_bound(best, counted, inducing, n_inducing, rng)
    else:
        screening = split.screening
        starts = (
            [start] if start else _starts(groups, screening, likelihood, n_jobs, trend)
        )
        planned = len(rows.y) if n_inducing is None else n_inducing
        best, needed = _by_laplace(starts, counted, inducing, planned, rng, n_jobs)
        signal = best.gain > NOISE_PRICE and likelihood.n_outputs_ == 1
        if signal and split.abundant and decays(best.kernel, rows.X.shape[1]):
            best, exact_noise = _by_working_responses(best, counted, inducing, rng)
    found_signal = best.gain > NOISE_PRICE
    given = groups[0][0].given
    findings = [diagnostics.no_signal(best.gain, NOISE_PRICE, rows.y, rows.weights)]
    if given or (found_signal and not likelihood.has_closed_form):
        log_scale = likelihood.log_scale
        findings.append(diagnostics.at_bounds(best.kernel, not given, log_scale))
    # few observations leave the function uncertain
    if not (found_signal or given) and best.weight >= 100.0:
        best = _all_noise(best, split.training)
    record = record._replace(
        criterion="log posterior of the hyperparameters",
        rows_searched=best.n_rows,
        kernel=best.candidate.name,
    )
    return Hyperparameters(
        best.kernel,
        within_variance(_with_stated_noise(best), rows),
        record,
        best if found_signal else None,
        exact_noise,
        needed,
        tuple(one for one in findings if one is not None),
        amplitude_is_free,
    )


def _all_noise(found: Found, rows: Rows) -> Found:
    """The default kernel with its smallest amplitude; the variance of y as noise.

    Without a signal the evidence cannot tell short lengthscales from noise: it is the
    hyperprior that divides the variance of y between them.
    """
    candidate, likelihood = found.candidate, found.likelihood
    if not (likelihood.has_closed_form and len(likelihood.theta)):
        return found
    u = np.where(candidate.lengths, candidate.starts()[0], candidate.bounds[:, 0])
    return found._replace(u=u, likelihood=with_noise(likelihood, mean_square(rows)))


def _by_bound(
    found: Found,
    rows: Rows,
    inducing: Any,
    m: int,
    rng: np.random.Generator,
) -> Found:
    """Search on by the collapsed bound of few points, which leave out more.

    The noise starts as it was found or as the variance of y, whichever is better. A
    bound that is lost in pure noise does not replace the kernel.
    """
    some = subset(rows, rng.permutation(len(rows.y))[:2000])
    all_noise = with_noise(found.likelihood, mean_square(some))
    ends = [found, found._replace(likelihood=all_noise)]
    for n_iter in (0, 60, 60):
        searches = []
        for one in ends:
            how = inducing, m, rng
            bound = SparseEvidence.selected(some, one.kernel, one.likelihood, *how)
            searches.append(maximise(one.candidate, [bound], one.u, n_iter))
        ends = [max(searches, key=lambda one: one.posterior)]
    return ends[0] if ends[0].gain > NOISE_PRICE else found


def _starts(
    groups: list[list[Candidate]],
    few: Rows,
    likelihood: Likelihood,
    n_jobs: int | None,
    trend: bool,
) -> list[Found]:
    """Where searches for a likelihood that is not Gaussian begin."""
    if likelihood.close_to_gaussian:
        return [_as_observed(groups, few, likelihood, n_jobs, trend)]
    return _rough_starts(groups[0], few, likelihood)


def _rough_starts(
    group: list[Candidate],
    few: Rows,
    likelihood: Likelihood,
) -> list[Found]:
    """Where an exact process of rough latent values ends, for candidates to train.

    Normal noise around rough values tells kernels apart at the cost of regression, and
    sees what the evidence of few inducing points cannot, which prefers smooth
    functions. Candidates that are simpler than the best one are trained as well.
    """
    values = rough_latent(few, likelihood)
    # repetitions of a label are no repeated measurements of a latent value
    few = few._replace(weights=np.minimum(few.weights, 1.0), known=None)
    of_scale = values.shape[1] == 2 and not np.any(values[:, 1])
    if of_scale:
        values = values[:, :1]
    elif values.shape[1] > 1:
        # at most three contrasts, as independent of each other as the functions
        values = values @ np.linalg.svd(values, full_matrices=False)[2][:3].T
    robust = likelihood.heavy_tailed
    units = [standardisation(one, few.weights, robust=robust) for one in values.T]
    shift, scale = np.transpose(units)
    y = np.sqrt(group[0].unit) * (values - shift) / scale.max()
    noise = Gaussian().prepare(y[:, 0], few.weights)
    ends = screen(few._replace(y=y), noise, group, tolerance=1e-3)
    best = int(np.argmax([one.posterior for one in ends]))
    if ends[best].gain > NOISE_PRICE:
        more = _scale_starts(ends[-1], few._replace(y=y)) if of_scale else []
        starts = [*ends[: best + 1], *more]
        return [one._replace(likelihood=likelihood) for one in starts]
    starts = group[0].starts()
    starts = starts if group[0].given or not np.any(values) else starts[:1]
    return [Found(group[0], u, likelihood) for u in starts]


def _as_observed(
    groups: list[list[Candidate]],
    few: Rows,
    likelihood: Tobit,
    n_jobs: int | None,
    trend: bool,
) -> Found:
    """The search for normal noise, bounds taken for values that are a little beyond."""
    values = rough_latent(few, likelihood)[:, 0]
    few = few._replace(y=values, known=None)
    noise = Gaussian().prepare(few.y, few.weights)
    # the few rows are all
    split = Split(few, few, few, np.arange(len(values)))
    best = select(groups, split, noise, n_jobs, trend)
    if not len(likelihood.theta):
        return best._replace(likelihood=likelihood)
    log_scale = 0.5 * best.likelihood.theta
    start = likelihood.with_theta(np.clip(log_scale, *likelihood.theta_bounds.T))
    return best._replace(likelihood=start)


def _scale_starts(found: Found, rows: Rows) -> list[Found]:
    """Lengthscales that also suit the logarithms of the residuals."""
    C = found.kernel(rows.X)
    C[np.diag_indices_from(C)] += found.likelihood.variance(0.0) / rows.weights
    # C⁻¹ y is proportional to the residuals
    sizes = np.log(np.abs(np.linalg.solve(C, rows.y)) + 1e-12)
    few = rows._replace(y=sizes - np.mean(sizes))
    (scale,) = screen(few, found.likelihood, [found.candidate], tolerance=1e-3)
    u = np.where(found.candidate.lengths, np.minimum(found.u, scale.u), found.u)
    return [found._replace(u=u)] if scale.gain > NOISE_PRICE else []


def _by_laplace(
    starts: list[Found],
    rows: Rows,
    inducing: Any,
    planned: int,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Found, int]:
    """Laplace's evidence from each start, and the points that it gains from.

    For one latent function the points of a start are doubled while that gains. The
    starts are searched side by side.
    """
    likelihood, n = starts[0].likelihood, len(rows.y)
    between = max(likelihood.n_outputs_ - 1, 1)
    most = laplace.LARGEST_COUPLED // between
    # an evaluation takes a tenth of a second: 1.5e8 n m²
    budget, order = 1.5e8 / between**2, rng.permutation(n)
    m = min(max(planned, 100), 250, most, n)
    m = m if budget / m**2 >= 1000 else min(m, 100)
    is_single = likelihood.n_outputs_ == 1
    counting_rows = subset(rows, order[:1500])

    def points_needed(candidates: list[Found], largest: int) -> int:
        if not is_single:
            return m
        streams = rng.spawn(len(candidates))
        items = list(zip(candidates, streams, strict=True))
        shared = counting_rows, inducing, m, min(largest, n)
        return max(side_by_side(_points_that_suffice, items, n_jobs, *shared))

    size = points_needed(starts, max(_SEARCHED, m))
    while True:
        n_rows = int(np.clip(budget / size**2, 300, 2000))
        training_rows = subset(rows, order[:n_rows])
        items = list(zip(starts, rng.spawn(len(starts)), strict=True))
        shared = training_rows, inducing, size
        ends = side_by_side(_maximise_laplace, items, n_jobs, *shared)
        best = max(ends, key=lambda end: end.posterior)
        # the kernel that was found may need more points than where it started
        larger = points_needed([best], 1000)
        if min(larger, _SEARCHED) <= size:
            return best, larger if larger > m else 0
        starts, size = ends, min(larger, _SEARCHED)


def _maximise_laplace(
    rows: Rows,
    inducing: Any,
    size: int,
    start: Found,
    rng: np.random.Generator,
) -> Found:
    """Maximise Laplace's evidence of some inducing points, selected at the start."""
    evidence = SparseEvidence.selected(
        rows,
        start.kernel,
        start.likelihood,
        inducing,
        size,
        rng,
    )
    return maximise(start.candidate, [evidence], start.u, 40)


def _points_that_suffice(
    rows: Rows,
    inducing: Any,
    smallest: int,
    largest: int,
    start: Found,
    rng: np.random.Generator,
) -> int:
    """Inducing points after which twice as many do not gain."""

    def score(size: int) -> float:
        m = min(size, len(rows.y))
        Z = select_inducing(inducing, rows.X, start.kernel, m, rng, rows.weights)
        return sparse_value(rows, Z, start.kernel, start.likelihood)

    return grow(score, smallest, largest, rows.weights.sum())[0]


def _by_working_responses(
    found: Found,
    rows: Rows,
    inducing: Any,
    rng: np.random.Generator,
) -> tuple[Found, float]:
    """Train a kernel on rows from all over the data, and their mean noise variance.

    As in regression, with working responses around the mode of few inducing points, of
    at most 40 000 rows. A scale in units of the latent function is trained too; others
    stay as they are.
    """
    some = subset(rows, rng.permutation(len(rows.y))[:_MODE_ROWS])
    how = some.X, found.kernel, _SEARCHED, rng, some.weights
    basis = Nystroem.from_kernel(found.kernel, select_inducing(inducing, *how))
    features = basis(some.X)
    target = smoothed(row_target(features, some, found.likelihood))
    if is_smoothed(target):
        return found, np.nan
    mode = laplace.find_mode(target, rough_start(target), 1e-2)
    latent = features @ mode.weights[:, 0]
    responses = WorkingResponses.of(some, found.likelihood, latent)
    z, noise = responses.y, responses.noise
    # slopes of a likelihood have its information as their mean square; few of its rows
    # are without curvature, as they are where it is not log-concave
    slopes, information = np.sum(((z - latent) / noise) ** 2), np.sum(1.0 / noise)
    flat = np.mean((z - latent) ** 2 / noise > 1e3)
    if not (slopes < 4.0 * information and flat < 0.02):
        return found, np.nan
    # no row counts more than once
    ones, level = np.ones(len(z)), float(noise.min())
    normal = Rows(some.X, z, ones, noise / level)
    likelihood = found.likelihood
    free = likelihood.location_scale and len(likelihood.theta)
    start = (Gaussian() if free else Gaussian(level)).prepare(z, ones, normal.known)
    start = with_noise(start, level) if free else start
    near = Split.of(normal, SearchBudget(screening_rows=SEARCHED_ROWS), rng)
    best = trained([found._replace(likelihood=start)], near)
    ratio = float(best.likelihood.variance(0.0)) / level
    likelihood = likelihood.scaled(ratio**0.5) if free else likelihood
    mean_noise = ratio * len(z) / float(information)
    return found._replace(u=best.u, likelihood=likelihood), mean_noise


# ---- What the search reads -----------------------------------------------------------


def counted_once(rows: Rows) -> Rows:
    """Rows whose weights are at most one where no other row has the same inputs."""
    X = rows.X
    order = np.lexsort(X.T[::-1])
    same = np.all(X[order[1:]] == X[order[:-1]], axis=1)
    alone = np.ones(len(X), dtype=bool)
    alone[order[1:]] &= ~same
    alone[order[:-1]] &= ~same
    once = np.where(alone, np.minimum(rows.weights, 1.0), rows.weights)
    return rows._replace(weights=once)


def rough_latent(rows: Rows, likelihood: Likelihood) -> Array:
    """Rough latent values of the rows around their base, (n, c)."""
    rough = np.asarray(likelihood.rough_latent(rows.y, rows.known), dtype=np.float64)
    return rough.reshape(len(rows.y), -1) - likelihood.base_latent_


def latent_scale(rows: Rows, likelihood: Likelihood) -> float:
    """Root mean square of the rough latent values: the unit of the default kernel.

    One for latent functions of known scale: those of standardised targets, log odds and
    log rates.
    """
    if likelihood.location_scale or likelihood.log_scale:
        return 1.0
    square = np.mean(rough_latent(rows, likelihood) ** 2, axis=1)
    scale = float(np.sqrt(np.average(square, weights=rows.weights)))
    return scale if np.isfinite(scale) and scale > 0.0 else 1.0


def with_base_rates(rows: Rows, likelihood: Likelihood, kernel: Any) -> Likelihood:
    """Likelihood whose prior expects, far from the data, what it did at its base.

    The variance there is that of a stationary kernel, or of the background of a GRE
    kernel; of others the mean over the rows.
    """
    if isinstance(kernel, GREKernel):
        variance = kernel.background * kernel.background_kernel().diag(rows.X)
    else:
        variance = kernel.diag(rows.X)
    return likelihood.centred(float(np.average(variance, weights=rows.weights)))


def _with_stated_noise(found: Found) -> Likelihood:
    """Noise that has a prior is fixed: that of a sparse model does not replace it."""
    if not any(found.candidate.stated[-1:]):
        return found.likelihood
    noise = float(found.likelihood.variance(0.0))
    return found.likelihood.with_start(noise_variance=(noise, noise, noise))


def _given(
    kernel: Any,
    rows: Rows,
    likelihood: Likelihood,
    unit: float,
    learn: bool,
) -> tuple[Candidate, Likelihood]:
    """Candidate of the latent function's kernel; likelihood with the kernel's noise.

    Without a search that noise is fixed.
    """
    stated = stated_priors(kernel)
    kernel, noise, bounds = split_noise(clone(kernel))
    candidate = replace(of_kernel(kernel, rows, unit), stated=stated)
    if noise is None:
        return candidate, likelihood
    if not likelihood.has_closed_form:
        raise ValueError(
            "A WhiteKernel is the noise of a Gaussian likelihood; got one together "
            f"with {type(likelihood).__name__}. Remove the WhiteKernel from `kernel`."
        )
    if isinstance(bounds, str) or not learn:
        return candidate, Gaussian(noise).prepare(rows.y, rows.weights)
    low, high = np.ravel(np.asarray(bounds, dtype=np.float64)).tolist()
    return candidate, likelihood.with_start(noise_variance=(noise, low, high))
