"""Search for kernel and scales by Laplace's evidence of any likelihood.

Candidates are compared as regressions on rough latent values; Laplace's evidence of a
model with inducing points trains the best one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skgpx._hyperparameters._candidates import Candidate, products_of, with_trend
from skgpx._hyperparameters._evidence import (
    Evidence,
    Inducing,
    SparseEvidence,
    has_both_signs,
    sparse_value,
)
from skgpx._hyperparameters._maximise import (
    MIN_EVIDENCE_GAIN,
    State,
    best_of,
    maximise,
)
from skgpx._hyperparameters._process_evidence import LaplaceEvidence, is_softmax
from skgpx._hyperparameters._select import (
    NEGLIGIBLE_NATS,
    Split,
    screen,
    screen_families,
    select,
    subset,
)
from skgpx._hyperparameters._series_search import search_seasons
from skgpx._hyperparameters._sparse import MAX_INDUCING_SEARCHED, grow
from skgpx._numerics.laplace import LARGEST_COUPLED
from skgpx._row_budgets import (
    COUNTING_ROWS,
    FEWEST_LAPLACE_ROWS,
    SPARSE_ROWS,
)
from skgpx._shell.parallel import side_by_side
from skgpx._shell.validation import Rows, standardisation
from skgpx._types import Array, Generator
from skgpx.bases import select_inducing
from skgpx.kernels import length_scale_entries
from skgpx.likelihoods import Gaussian, Likelihood

# The most inducing points that are counted, for a kernel that ended a search.
_MAX_INDUCING_COUNTED = 1000
# Rounds of a search under a likelihood that does not know the sign of f.
_ROUNDS_OF_SIGNS = 3
# Latent functions up to which each may have a linear trend: ten digits take twice as
# long.
_MOST_TRENDED = 4


def laplace_search(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    inducing: Inducing,
    n_inducing: int | None,
    start: State | None,
    trend: bool,
    n_jobs: int | None,
) -> State:
    """Maximise Laplace's evidence from each start, side by side.

    An earlier search is continued from its result, `start`. For one latent function the
    inducing points are doubled while that gains. Functions may have a `trend`, and one
    of a single column a season.
    """
    rows = split.rows
    n = len(rows.y)
    # 1 candidates, and where they start
    n_without_trend = 1
    if start is not None:
        starts = [start]
    elif likelihood.close_to_gaussian:
        scattered = split.scattered
        starts = [_start_as_observed(families, scattered, likelihood, n_jobs, trend)]
    else:
        starts = starts_by_regression(families, split.screening, likelihood, n_jobs)
        n_without_trend = len(starts)
        is_affordable = likelihood.n_outputs_ <= _MOST_TRENDED
        if trend and is_affordable and not likelihood.symmetric:
            season = _start_with_season(starts[0], families, split)
            starts += [*_start_with_trend(starts[0], split.scattered), *season]
    # 2 rows and inducing points, of which the evidence is coupled between classes
    n_contrasts = max(likelihood.n_outputs_ - 1, 1)
    # an evaluation takes a tenth of a second: 1.5e8 operations n m²
    budget = 1.5e8 / n_contrasts**2
    order = rng.permutation(n)
    largest_coupled = LARGEST_COUPLED // n_contrasts
    n_planned = n if n_inducing is None else n_inducing
    m = min(max(n_planned, 100), 250, largest_coupled, n)
    if budget / m**2 < 1000:
        m = min(m, 100)
    counting_rows = subset(rows, order[:COUNTING_ROWS])

    def count_inducing(candidates: Sequence[State], largest: int) -> int:
        if likelihood.n_outputs_ > 1:
            return m
        streams = rng.spawn(len(candidates))
        tasks = list(zip(candidates, streams, strict=True))
        counts = side_by_side(
            _points_that_suffice,
            tasks,
            n_jobs,
            counting_rows,
            inducing,
            m,
            min(largest, n),
        )
        return max(counts)

    # 3 the evidence of so many points, and of more where the kernel needs them
    size = count_inducing(starts, max(MAX_INDUCING_SEARCHED, m))
    while True:
        n_rows = int(np.clip(budget / size**2, FEWEST_LAPLACE_ROWS, SPARSE_ROWS))
        tasks = list(zip(starts, rng.spawn(len(starts)), strict=True))
        searches = side_by_side(
            _maximise_laplace,
            tasks,
            n_jobs,
            subset(rows, order[:n_rows]),
            inducing,
            size,
        )
        best = _most_probable(searches[:n_without_trend], searches[n_without_trend:])
        # the kernel at the end of a search may need more points than at its start
        n_needed = count_inducing([best], _MAX_INDUCING_COUNTED)
        larger = min(n_needed, MAX_INDUCING_SEARCHED)
        if larger <= size:
            return best._replace(n_inducing=n_needed if n_needed > m else 0)
        starts = searches
        size = larger


def _most_probable(searches: Sequence[State], trended: Sequence[State]) -> State:
    """The most probable result; a trend is paid for, as a season is."""
    best = best_of(searches)
    for result in trended:
        if result.posterior > best.posterior + MIN_EVIDENCE_GAIN:
            best = result
    return best


def _maximise_laplace(
    rows: Rows,
    inducing: Inducing,
    size: int,
    start: State,
    rng: Generator,
) -> State:
    """Maximise Laplace's evidence of some inducing points, selected at the start.

    That of few rows of softmax classes is of all of them, and takes no longer.
    """
    evidence: Evidence
    if is_softmax(start.likelihood) and len(rows.y) <= FEWEST_LAPLACE_ROWS:
        evidence = LaplaceEvidence(rows, start.kernel, start.likelihood)
    else:
        evidence = SparseEvidence.selected(
            rows,
            start.kernel,
            start.likelihood,
            inducing,
            size,
            rng,
        )
        if has_both_signs(start.likelihood):
            # maximise the evidence of the best signs of f
            best = start._replace(posterior=-np.inf)
            point = start.point
            for _ in range(_ROUNDS_OF_SIGNS):
                evidence.signs_are_chosen = False
                u, theta = np.split(point, [start.candidate.n_free])
                likelihood = start.likelihood.with_theta(theta)
                result = maximise(
                    start.candidate, [evidence], u, 40, likelihood=likelihood
                )
                if result.posterior < best.posterior + MIN_EVIDENCE_GAIN:
                    break
                best = result
                point = best.point
            return best
    return maximise(start.candidate, [evidence], start.u, max_iter=40)


def _points_that_suffice(
    rows: Rows,
    inducing: Inducing,
    smallest: int,
    largest: int,
    start: State,
    rng: Generator,
) -> int:
    """Inducing points after which twice as many do not gain."""

    def score(size: int) -> float:
        m = min(size, len(rows.y))
        Z = select_inducing(inducing, rows.X, start.kernel, m, rng, rows.weights)
        return sparse_value(rows, Z, start.kernel, start.likelihood)

    n_inducing, _ = grow(score, smallest, largest, rows.weights.sum())
    return n_inducing


# ---- Where the searches start --------------------------------------------------------


def _start_as_observed(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    n_jobs: int | None,
    trend: bool,
) -> State:
    """The search for normal noise, bounds taken for values that are a little beyond."""
    values = rough_latent(rows, likelihood)[:, 0]
    rows = rows._replace(y=values, known=None)
    normal = Gaussian().prepare(rows.y, rows.weights)
    # these rows stand for all rows
    split = Split.of(rows, np.random.default_rng(0))
    best = select(families, split, normal, n_jobs, trend)
    if not len(likelihood.theta):
        return best._replace(likelihood=likelihood)
    log_scale = 0.5 * best.likelihood.theta
    theta = np.clip(log_scale, *likelihood.theta_bounds.T)
    return best._replace(likelihood=likelihood.with_theta(theta))


def _start_with_trend(start: State, rows: Rows) -> list[State]:
    """Long lengthscales of a default kernel, beside slopes at their prior."""
    if start.candidate.is_given or not length_scale_entries(start.kernel):
        return []
    candidate = with_trend(start.candidate, rows, start.likelihood)
    return [start._replace(candidate=candidate, u=candidate.starts()[0])]


def _start_with_season(
    start: State,
    families: Sequence[Sequence[Candidate]],
    split: Split,
) -> list[State]:
    """One function of one column with a season, if its residuals have a wave.

    The residuals are those of working responses, of rows from all over the data. A
    linear trend stands beside the season, as under normal noise.
    """
    rows = split.scattered
    has_one_function = rows.X.shape[1] == start.likelihood.n_outputs_ == 1
    if start.candidate.is_given or split.smooth or not has_one_function:
        return []
    candidate = with_trend(start.candidate, rows, start.likelihood)
    bases = [
        with_trend(family[-1], rows, start.likelihood)
        for family in products_of(families)
        if family[-1] is not start.candidate
    ]
    u = candidate.coordinates_of(candidate.kernel)
    u[: len(start.u)] = start.u
    return search_seasons(
        start._replace(candidate=candidate, u=u),
        [rows],
        bases=bases,
        is_markov=False,
        screening=split.screening,
        searched=split.training.X,
    )


def starts_by_regression(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    n_jobs: int | None,
) -> list[State]:
    """Optima of regressions on rough latent values, in the best family.

    Candidates of the family that are simpler than its best one are trained as well, and
    those that more rows may prefer.
    """
    values = rough_latent(rows, likelihood)
    screened, rows = search_rough_values(families, rows, values, likelihood, n_jobs)
    second_is_scale = values.shape[1] == 2 and rows.y.shape[1] == 1
    results = screened[0]
    posteriors = [result.posterior for result in results]
    best = int(np.argmax(posteriors))
    if results[best].has_signal:
        smallest = posteriors[best] - NEGLIGIBLE_NATS
        starts = results[:best] + [
            rival for rival in results[best:] if rival.posterior > smallest
        ]
        if second_is_scale:
            starts = starts + _start_of_scale(results[-1], rows)
        return [start._replace(likelihood=likelihood) for start in starts]
    candidate = families[0][0]
    coordinates = candidate.starts()
    if not candidate.is_given and np.any(values):
        coordinates = coordinates[:1]
    return [State(candidate, u, likelihood) for u in coordinates]


def search_rough_values(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    values: Array,
    likelihood: Likelihood,
    n_jobs: int | None,
) -> tuple[list[list[State]], Rows]:
    """Maximise the exact evidence of a regression on rough latent values.

    Normal noise around rough values tells kernels apart at the cost of regression. The
    evidence of few inducing points prefers smooth functions and cannot.

    Returns
    -------
    results : list of lists of State
        Of each candidate of each family.
    rows : Rows
        With rough values (n, k) as targets. A second function that is zero is left out.
    """
    # repetitions of a label are no repeated measurements of a latent value
    rows = rows._replace(weights=np.minimum(rows.weights, 1.0), known=None)
    if values.shape[1] == 2 and not np.any(values[:, 1]):
        values = values[:, :1]
    elif values.shape[1] > 1:
        # at most three contrasts, as independent of each other as the functions
        _, _, contrasts = np.linalg.svd(values, full_matrices=False)
        values = values @ contrasts[:3].T
    units = [
        standardisation(column, rows.weights, robust=likelihood.heavy_tailed)
        for column in values.T
    ]
    shift, scale = np.transpose(units)
    latent_std = np.sqrt(families[0][0].unit)
    rows = rows._replace(y=latent_std * (values - shift) / scale.max())
    normal = Gaussian().prepare(rows.y[:, 0], rows.weights)
    return screen_families(families, rows, normal, n_jobs, tolerance=1e-3), rows


def _start_of_scale(result: State, rows: Rows) -> list[State]:
    """Lengthscales that also suit the logarithms of the residuals, if these vary."""
    noise_variance = result.noise_variance
    C = result.kernel(rows.X)
    diagonal = np.diag_indices_from(C)
    C[diagonal] += noise_variance / rows.weights
    # C⁻¹ y is proportional to the residuals
    residuals = np.linalg.solve(C, rows.y)
    log_sizes = np.log(np.abs(residuals) + 1e-12)
    centred = log_sizes - np.mean(log_sizes)
    rows = rows._replace(y=centred)
    candidate = result.candidate
    (scale,) = screen(rows, result.likelihood, [candidate], tolerance=1e-3)
    if not scale.has_signal:
        return []
    shorter = np.minimum(result.u, scale.u)
    u = np.where(candidate.is_length_scale, shorter, result.u)
    return [result._replace(u=u)]


def rough_latent(rows: Rows, likelihood: Likelihood) -> Array:
    """Rough latent values of the rows around their base, (n, c)."""
    rough = likelihood.rough_latent(rows.y, rows.known)
    rough = np.asarray(rough, dtype=np.float64)
    rough = rough.reshape(len(rows.y), -1)
    return rough - likelihood.base_latent_
