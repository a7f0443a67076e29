"""Choice among candidate kernels; seasons are chosen in `_series_search`.

Every candidate is maximised a posteriori by the exact evidence of a few rows; the one
of the largest log posterior is trained on more. Log evidence and log hyperprior charge
for parameters by themselves. Of abundant rows the family is preferred that predicts
held-out rows best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skgpx._hyperparameters._annealing import LogPosterior
from skgpx._hyperparameters._candidates import (
    Candidate,
    has_log_odds,
    products_of,
    with_trend,
)
from skgpx._hyperparameters._evidence import ExactEvidence, with_noise
from skgpx._hyperparameters._maximise import (
    State,
    best_of,
    maximise,
    with_period_stds,
)
from skgpx._hyperparameters._modes import NO_NOISE, Mode
from skgpx._hyperparameters._neighborhoods import Neighborhoods
from skgpx._hyperparameters._process_evidence import process_evidence
from skgpx._hyperparameters._series_evidence import series_form
from skgpx._hyperparameters._series_search import (
    n_series_rows,
    search_seasons,
    select_of_stretches,
    train_series,
)
from skgpx._row_budgets import (
    ABUNDANT_ROWS,
    COMPARED_NEIGHBORHOODS,
    LEADING_NEIGHBORHOODS,
    SCATTERED_ROWS,
    SCREENING_ROWS,
    SEARCHED_ROWS,
    TRAINED_NEIGHBORHOODS,
    affordable_finalists,
)
from skgpx._shell.parallel import side_by_side
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.kernels import (
    category_columns,
    decaying_part,
    decays,
    length_scale_entries,
)
from skgpx.likelihoods import Likelihood

# Noise, in variances of y, of which more rows may show so much where fewer show less.
SOME_NOISE = 1e-2
# Nats an observation that two more steps of training must gain each.
_TRAINING_TOLERANCE = 3e-4
# Nats below the best candidate at which another one does not count.
NEGLIGIBLE_NATS = 10.0
# Noise variances where searches on neighbourhoods start, as multiples of the last one.
_NOISE_FACTORS = (1.0, 3.0, 10.0, 100.0)
# Which start of a candidate has short lengthscales: the third, of d^(1/2) / 8.
_SHORT_START = 2
# The most columns in each of which a search may start at a short lengthscale.
_MOST_SHORT_COLUMNS = 100


# ---- What the searches read ----------------------------------------------------------


class Split(NamedTuple):
    """Rows in a random order, and the first of them.

    Attributes
    ----------
    screening : Rows
        The first rows, on which searches start.
    scattered : Rows
        The first, more numerous ones: they compare candidates, and of abundant rows
        they are a term of the density that trains them.
    training : Rows
        The first, most numerous rows, on which searches end.
    rows : Rows
        All of them.
    order : ndarray of shape (n,)
        Their positions in the random order.
    rough : bool
        Whether the families, and Matern 1/2 among them, compete by rows from all over
        the data where these abound: for models that follow rough functions, as those of
        nearest rows and exact ones do.
    smooth : bool
        Whether functions have two derivatives, and no seasons.
    """

    screening: Rows
    scattered: Rows
    training: Rows
    rows: Rows
    order: Index
    rough: bool = False
    smooth: bool = False

    @classmethod
    def of(
        cls,
        rows: Rows,
        rng: Generator,
        rough: bool = False,
        smooth: bool = False,
    ) -> Split:
        """Draw the order, in which rows of larger weight tend to come first."""
        # by y: the order of the columns of X does not matter
        by_y = np.arange(len(rows.y))
        if rows.X.shape[1] > 1:
            by_y = np.lexsort(np.atleast_2d(rows.y.T)[::-1])
        keys = rng.exponential(size=len(by_y)) / rows.weights[by_y]
        order = by_y[np.argsort(keys)]
        return cls(
            screening=subset(rows, order[:SCREENING_ROWS]),
            scattered=subset(rows, order[:SCATTERED_ROWS]),
            training=subset(rows, order[:SEARCHED_ROWS]),
            rows=rows,
            order=order,
            rough=rough,
            smooth=smooth,
        )

    @property
    def abundant(self) -> bool:
        """Whether there are too many rows for their joint density."""
        return len(self.order) >= ABUNDANT_ROWS

    @property
    def has_more_rows(self) -> bool:
        """Whether searches end on more rows than those that compare candidates."""
        return len(self.training.y) > len(self.scattered.y)

    @property
    def has_neighbors(self) -> bool:
        """Whether neighbours in several columns lead from few rows to more."""
        return self.rough and self.rows.X.shape[1] > 1 and self.has_more_rows


def subset(rows: Rows, chosen: Index) -> Rows:
    """Rows drawn by their weights, each counted once; all rows are left unchanged."""
    sample = rows.take(np.sort(chosen))
    if len(sample.y) == len(rows.y):
        return sample
    return sample._replace(weights=np.minimum(sample.weights, 1.0))


# ---- The choice ----------------------------------------------------------------------


def select(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    n_jobs: int | None = None,
    trend: bool = True,
    trained: bool = True,
) -> State:
    """The candidate of the largest log posterior, trained on more rows.

    From 4500 rows on its family is trained, on rows from all over the data.

    Parameters
    ----------
    families : sequence of sequences of Candidate
        In each family candidates go from simple to complex: a complex one starts, among
        other places, where the simple one ended.
    split : Split
    likelihood : Likelihood
        Prepared: Gaussian, or of abundant rows of one column.
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._shell.parallel.side_by_side`.
    trend : bool, default=True
        Whether the best candidate also competes with itself plus a linear trend and,
        with one input, plus seasons if its residuals have significant waves.
    trained : bool, default=True
        Whether the best candidate of abundant rows is trained on more of them.
    """
    n_columns = split.rows.X.shape[1]
    fades = decays(families[0][-1].kernel, n_columns)
    if split.abundant and split.rough and len(families) > 1 and n_columns > 1 and fades:
        return _select_of_abundant(families, split, likelihood, trend, trained)
    if not split.abundant:
        return finalists(families, split, likelihood, n_jobs, trend)[0]
    is_markov = any(is_series(family[-1].kernel, split.rows) for family in families)
    # a kernel of the user for normal noise starts from rows all over the data
    competes = len(families) > 1 or not likelihood.has_closed_form
    if is_markov and trained and competes:
        has_seasons = trend and not split.smooth
        best = select_of_stretches(families, split.rows, likelihood, has_seasons)
        screened = [[evaluated(best, split.scattered)]]
    else:
        screened = screen_families(families, split.scattered, likelihood, n_jobs)
    # nearest rows cannot tell a trend from a smooth function
    if trend and (n_columns == 1 or not fades):
        screened = with_trends(screened, split)
    return train(screened[0], split, trained)


def screen_families(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    n_jobs: int | None,
    tolerance: float = 1e-4,
) -> list[list[State]]:
    """Results of each family on some rows, the best family first.

    A family starts where the first one of the same parameters, the smoothest, ended.
    Where smooth sums of functions are far below products, rougher ones are left out.
    """
    products = products_of(families)
    sums = families[len(products) :]
    screened: list[list[State]] = []
    for first, *rougher in filter(None, (products, sums)):
        smooth = screen(rows, likelihood, first, tolerance=tolerance)
        screened = best_families_first([*screened, smooth])
        deficit = best_of(screened[0]).posterior - best_of(smooth).posterior
        if deficit < NEGLIGIBLE_NATS:
            tasks = [(family, smooth, tolerance) for family in rougher]
            screened += side_by_side(screen, tasks, n_jobs, rows, likelihood)
    return best_families_first(screened)


def finalists(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    n_jobs: int | None,
    trend: bool,
) -> list[State]:
    """The most probable candidates, on more and more rows, the best first.

    Few rows prefer one lengthscale for all columns, and smooth functions: where
    searches on few rows ended is judged by more of them, which train the candidates
    that are more probable there, as many as the budget affords. The best one of 500
    rows may have a linear trend and, in one column, seasons. Rows and their neighbours
    lead to short lengthscales, which 500 rows take for noise.
    """
    # 1 every candidate on few rows
    rivals = screen_families(families, split.screening, likelihood, n_jobs)
    for family in rivals:
        family[-1] = best_of([family[-1], *without_noise(family[-1], split.screening)])
    # 2 the better families on more; candidates that are nearly as probable count
    rivals = train_families(
        rivals,
        split.scattered,
        split.screening,
        margin=NEGLIGIBLE_NATS,
        keep_close=split.has_more_rows,
    )
    if trend:
        rivals = with_trends(rivals, split)
    # 3 where neighbours lead, and the best ones on as many rows as the search has
    if split.has_neighbors and likelihood.has_closed_form:
        rivals = [led_by_neighbors(family, split) for family in rivals]
    rivals = train_families(rivals, split.training, split.scattered)
    results = [result for family in rivals for result in family]
    results.sort(key=lambda result: result.posterior, reverse=True)
    # 4 the best one also from shorter lengthscales
    results[0] = best_of([results[0], *from_shorter(results[0], split)])
    # 5 to the end where that costs little
    if is_series(results[0].kernel, split.rows):
        results[0] = train_series(results[0], split.rows)
    elif not split.has_more_rows:
        best = results[0]
        results[0] = search(
            best.candidate,
            best.u,
            split.training,
            best.likelihood,
            max_iter=100,
            tolerance=1e-5,
        )
    return results


def best_families_first(
    families: Sequence[list[State]],
) -> list[list[State]]:
    """Families in the order of the largest log posterior in each."""
    return sorted(
        families,
        key=lambda family: best_of(family).posterior,
        reverse=True,
    )


def train_families(
    families: Sequence[Sequence[State]],
    rows: Rows,
    previous: Rows,
    margin: float = 0.0,
    keep_close: bool = False,
) -> list[list[State]]:
    """Train the better families on more rows than before, the best one first.

    In each the most general candidate, the last one, goes on from where it ended, or a
    simpler one, such as one lengthscale for all columns. Simpler ones are trained if
    they are then less than `margin` below it. Families that the budget does not afford
    are left out, or kept as they are where they are as close.
    """
    if len(rows.y) == len(previous.y):
        return best_families_first([list(family) for family in families])
    # 1 by the log posterior of the rows
    starts = [starts_of_family(family, rows) for family in families]
    starts = best_families_first(starts)
    n_trained = affordable_finalists(len(rows.y))
    # 2 the better ones
    trained = []
    for *simpler, general in starts[:n_trained]:
        best = train_on(general, rows, previous)
        if margin > 0.0 and has_little_noise(best):
            # a rougher function without noise may explain more rows better
            best = best_of([best, *without_noise(best, rows)])
        close = [
            train_on(simple, rows, previous)
            for simple in simpler
            if simple.posterior > best.posterior - margin
        ]
        trained.append([*close, best])
    trained = best_families_first(trained)
    if keep_close:
        smallest = best_of(trained[0]).posterior - margin
        for family in starts[n_trained:]:
            if best_of(family).posterior > smallest:
                trained.append(family)
    return trained


def from_shorter(result: State, split: Split) -> list[State]:
    """A search from shorter lengthscales, on more rows than the first one had.

    On few rows columns that matter little become straight lines, from which a search on
    more rows does not come back. Products of a user stay where they were found.
    """
    candidate = result.candidate
    is_product = candidate.is_given and not candidate.is_additive
    if is_product or len(split.rows.y) <= SCREENING_ROWS:
        return []
    start = result._replace(u=candidate.shortened(result.u))
    return [train_on(start, split.training, split.scattered)]


def led_by_neighbors(family: Sequence[State], split: Split) -> list[State]:
    """A family whose most general candidate goes on by neighbourhoods.

    What a trend leaves may vary so fast that 500 rows take it for noise: beside one, a
    second search starts at short lengthscales.
    """
    *simpler, general = family
    candidate = general.candidate
    if candidate.is_additive:
        # the nearest rows know no more of a sum
        return list(family)
    optima = [general]
    for simple in simpler:
        u = candidate.coordinates_of(simple.kernel)
        optima.append(general._replace(u=u, likelihood=simple.likelihood))
    starts = [optima]
    n_columns = split.rows.X.shape[1]
    if decaying_part(candidate.kernel, n_columns) is not candidate.kernel:
        for u in candidate.starts()[_SHORT_START:][:1]:
            starts.append([general._replace(u=u)])
    # rows that the exact evidence will judge
    training = split._replace(
        scattered=split.screening,
        order=split.order[:SEARCHED_ROWS],
    )
    results = []
    for states in starts:
        neighborhoods = _neighborhoods(
            training, states[0], LEADING_NEIGHBORHOODS, phase=0.5
        )
        result = _search_nearby(states, neighborhoods)
        results.append(evaluated(result, split.training))
    return [*simpler, best_of(results)]


def starts_of_family(
    family: Sequence[State],
    rows: Rows,
) -> list[State]:
    """Where candidates go on: the most general one at its best start."""
    simpler = [evaluated(result, rows) for result in family[:-1]]
    general = family[-1]
    starts = [evaluated(general, rows)]
    for simple in simpler:
        u = general.candidate.coordinates_of(simple.kernel)
        start = general._replace(u=u, likelihood=simple.likelihood)
        starts.append(evaluated(start, rows))
    return [*simpler, best_of(starts)]


def search(
    candidate: Candidate,
    u: Array,
    rows: Rows,
    likelihood: Likelihood,
    max_iter: int = 40,
    tolerance: float = 1e-4,
    units: Array | None = None,
) -> State:
    """Maximise a candidate by the evidence of all of these rows."""
    evidence = process_evidence(rows, candidate.kernel, likelihood)
    return maximise(candidate, [evidence], u, max_iter, tolerance, units=units)


def search_on_more_rows(
    candidate: Candidate,
    u: Array,
    split: Split,
    likelihood: Likelihood,
) -> State:
    """Maximise a candidate on few rows, where neighbours lead, and on all of them."""
    if not (split.has_neighbors and likelihood.has_closed_form):
        return search(candidate, u, split.training, likelihood)
    result = search(candidate, u, split.screening, likelihood)
    result = led_by_neighbors([result], split)[0]
    return train_on(result, split.training, split.screening)


def evaluated(result: State, rows: Rows) -> State:
    """A result with its log posterior on other rows.

    It has some noise if that is more probable: where fewer rows show none, more rows
    may contradict each other.
    """
    likelihoods = [result.likelihood]
    if has_little_noise(result):
        some_noise = SOME_NOISE * result.candidate.unit
        likelihoods.append(with_noise(result.likelihood, some_noise))
    posterior = LogPosterior(result.candidate, rows, result.likelihood)
    points = np.stack(
        [np.append(result.u, likelihood.theta) for likelihood in likelihoods]
    )
    # bounds are inside but for rounding
    points = np.clip(points, *posterior.bounds.T)
    particles = posterior.evaluate(0, points, with_slopes=False)
    log_posteriors = particles.log_densities(1.0)
    best = int(np.argmax(log_posteriors))
    return result._replace(
        likelihood=likelihoods[best],
        posterior=float(log_posteriors[best]),
    )


def train_on(start: State, rows: Rows, previous: Rows) -> State:
    """Maximise the exact evidence of more rows than those of the last search.

    Coordinates are in units of their curvature on the fewest rows that tell it.
    """
    screening = previous.thinned(SCREENING_ROWS)
    posterior = LogPosterior(start.candidate, screening, start.likelihood)
    units = Mode.at(start, posterior, owner=0).units
    return search(
        start.candidate,
        start.u,
        rows,
        start.likelihood,
        max_iter=100,
        tolerance=_TRAINING_TOLERANCE,
        units=units * np.sqrt(len(screening.y) / len(rows.y)),
    )


def with_trends(
    families: Sequence[list[State]],
    split: Split,
) -> list[list[State]]:
    """Families, and the best candidates of some with a linear trend, or with seasons.

    Of the best two products, and of a sum of functions of few columns that is better;
    of the best product, where all columns interact, also with one of each category.
    These are families of their own: they have other parameters. Where there are more
    rows, these judge a trend that gains too little here.
    """
    best = best_of(families[0])
    if best.candidate.is_given or not length_scale_entries(best.kernel):
        return list(families)
    rows = split.scattered
    products = [family for family in families if not family[-1].candidate.is_additive]
    better = families[:1] if best.candidate.is_additive else []
    trended = [*products[:2], *better]
    additions = []
    for family in trended:
        trend = search_trend(best_of(family), rows)
        general = (
            _with_general_trend(family[-1], trend, rows) if split.has_more_rows else []
        )
        additions.append([trend, *general])
    first = best_of(trended[0])
    n_columns = rows.X.shape[1]
    if category_columns(first.kernel, n_columns) and decays(first.kernel, n_columns):
        additions.append([search_trend(first, rows, of_groups=True)])
    threshold = best.posterior
    if split.has_more_rows:
        threshold -= NEGLIGIBLE_NATS
    likelihood = best.likelihood
    has_one_function = n_columns == likelihood.n_outputs_ == 1
    if has_one_function and not (split.abundant or split.smooth):
        seasons = search_seasons(
            additions[0][0],
            [rows],
            bases=[
                with_trend(family[-1].candidate, rows, likelihood)
                for family in products[1:]
            ],
            is_markov=False,
            screening=split.screening,
            searched=split.training.X,
        )
        if not likelihood.has_closed_form:
            # those of working responses
            seasons = [
                search(season.candidate, season.u, rows, likelihood)
                for season in seasons
            ]
        additions += [[season] for season in seasons]
    trends = [family for family in additions if family[0].posterior > threshold]
    return best_families_first([*families, *trends])


def _with_general_trend(general: State, trend: State, rows: Rows) -> list[State]:
    """The most general candidate of a family with a trend, if it is another one.

    More rows may prefer it: it starts where the trend of the best one ended.
    """
    candidate = with_trend(general.candidate, rows, trend.likelihood)
    if candidate.n_free == trend.candidate.n_free:
        return []
    u = candidate.coordinates_of(trend.kernel)
    return [evaluated(trend._replace(candidate=candidate, u=u), rows)]


def screen(
    rows: Rows,
    likelihood: Likelihood,
    family: Sequence[Candidate],
    counterparts: Sequence[State] = (),
    tolerance: float = 1e-4,
) -> list[State]:
    """Maximise each candidate of a family on a few rows.

    A candidate starts where its counterpart of another family ended, if that found a
    signal: without one a rougher function may be seen that the smooth one has missed.
    """
    results: list[State] = []
    for position, candidate in enumerate(family):
        until_signal = False
        if counterparts and counterparts[position].has_signal:
            counterpart = counterparts[position]
            starts = [(counterpart.u, counterpart.likelihood)]
        elif results and candidate.n_free > family[0].n_free:
            # one lengthscale a column: from one for all columns, and from long ones
            simple = best_of(results)
            u = candidate.coordinates_of(simple.kernel)
            starts = [(u, simple.likelihood)]
            starts.append((best_long_start(candidate, rows, likelihood), likelihood))
        else:
            sorted_starts = best_first(candidate, candidate.starts(), rows, likelihood)
            starts = [(u, likelihood) for u in sorted_starts[:2]]
            until_signal = not candidate.is_given
        searches: list[State] = []
        for u, start_likelihood in starts:
            result = search(candidate, u, rows, start_likelihood, tolerance=tolerance)
            searches.append(result)
            if until_signal and result.has_signal:
                break
        results.append(best_of(searches))
    return results


def has_little_noise(result: State, share: float = SOME_NOISE) -> bool:
    """Whether normal noise is less than a share of the variance of y.

    That of `NO_NOISE`: the function goes through all rows.
    """
    if not result.likelihood.has_closed_form:
        return False
    return result.noise_variance < share * result.candidate.unit


def without_noise(result: State, rows: Rows) -> list[State]:
    """A search that goes on with next to no noise, if the noise is free."""
    candidate = result.candidate
    likelihood = result.likelihood
    is_free = likelihood.has_closed_form and len(likelihood.theta) > 0
    if candidate.is_given or not is_free:
        return []
    likelihood = with_noise(likelihood, NO_NOISE * candidate.unit)
    return [search(candidate, result.u, rows, likelihood)]


def best_long_start(
    candidate: Candidate,
    rows: Rows,
    likelihood: Likelihood,
) -> Array:
    """Long lengthscales, or long ones but in the one column where that is best.

    Of many columns it is one of the hundred with the largest gains, by the slope of the
    log posterior at long lengthscales.
    """
    long = candidate.starts()[0]
    columns = np.flatnonzero(candidate.is_length_scale)
    posterior = LogPosterior(candidate, rows, likelihood)
    point = np.clip(np.append(long, likelihood.theta), *posterior.bounds.T)
    slopes = posterior.evaluate(0, point[np.newaxis]).slopes(1.0)[0, columns]
    steepest = np.argsort(slopes, kind="stable")[:_MOST_SHORT_COLUMNS]
    starts = [long, *candidate.short_starts(np.sort(columns[steepest]))]
    return best_first(candidate, starts, rows, likelihood)[0]


def best_first(
    candidate: Candidate,
    starts: Sequence[Array],
    rows: Rows,
    likelihood: Likelihood,
) -> list[Array]:
    """Starts within the bounds, in the order of their log posterior."""
    posterior = LogPosterior(candidate, rows, likelihood)
    points = np.stack([np.append(u, likelihood.theta) for u in starts])
    points = np.clip(points, *posterior.bounds.T)
    particles = posterior.evaluate(0, points, with_slopes=False)
    order = np.argsort(particles.log_densities(1.0), kind="stable")[::-1]
    return [points[i, : candidate.n_free] for i in order]


def is_series(kernel: Kernel, rows: Rows) -> bool:
    """Whether the kernel is a Markov process of the single column."""
    return series_form(kernel, rows.X.shape[1]) is not None


def is_long_series(kernel: Kernel, rows: Rows) -> bool:
    """Whether filter and smoother take the place of nearest rows."""
    return len(rows.y) >= ABUNDANT_ROWS and is_series(kernel, rows)


def with_periods(mode: State, split: Split) -> State:
    """A mode with the posterior of its periods, by rows from all over the data.

    Stretches of a series see the same cycles several times.
    """
    if not len(mode.periods):
        return mode
    rows = split.training
    if is_series(mode.kernel, split.rows):
        rows = subset(split.rows, split.order[: n_series_rows(mode)])
    return with_period_stds(
        mode, process_evidence(rows, mode.candidate.kernel, mode.likelihood)
    )


def train(
    family: Sequence[State],
    split: Split,
    trained: bool = True,
) -> State:
    """Refine the best candidate on more rows; for abundant rows refine every one."""
    best = best_of(family)
    if split.abundant and trained and is_series(best.kernel, split.rows):
        return train_series(best, split.rows)
    if split.abundant and decays(best.kernel, split.rows.X.shape[1]):
        best, _ = _search_shapes(family, split)
        if not trained:
            return best
        return train_nearby(best, split)
    return train_on(best, split.training, previous=split.scattered)


# ---- Trends and seasons --------------------------------------------------------------


def search_trend(best: State, rows: Rows, of_groups: bool = False) -> State:
    """The best candidate plus a linear trend, from its optimum or long lengthscales.

    A trend of groups from both: their lines may take the place of other functions. That
    of log odds from long lengthscales, since steep lines take the place of large
    amplitudes.
    """
    candidate = with_trend(best.candidate, rows, best.likelihood, of_groups)
    trend = candidate.coordinates_of(candidate.kernel)[len(best.u) :]
    long = best.candidate.starts()[0]
    starts = [np.append(u, trend) for u in (best.u, long)]
    if has_log_odds(best.likelihood):
        starts = starts[1:]
    elif not of_groups:
        starts = best_first(candidate, starts, rows, best.likelihood)[:1]
    return best_of([search(candidate, u, rows, best.likelihood) for u in starts])


# ---- Of abundant rows: the density of neighbourhoods given their predecessors --------


def _select_of_abundant(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    trend: bool,
    trained: bool,
) -> State:
    """The candidate of the family that predicts held-out rows best.

    The screening rows are far apart: how a function varies nearby, and how rough it is,
    is seen in rows that are neighbours. Their density given predecessors trains each
    family; it does not choose one, since these are fewer than the rows of the model.

    Parameters
    ----------
    families : sequence of sequences of Candidate
        From smooth to rough; candidates at the same position have the same shape.
    split : Split
    likelihood : Gaussian
        Prepared.
    trend : bool
        Whether a linear trend may be added.
    trained : bool
        Whether the best candidate is trained on more rows. Working responses, on which
        it is not, are compared by the density that trains them.
    """
    # 1 one lengthscale or several, in a family between smooth and rough
    products = products_of(families)
    sums = families[len(products) :]
    middle = len(products) // 2
    screened = screen(split.scattered, likelihood, products[middle])
    best, shape = _search_shapes(screened, split)
    neighborhoods = _neighborhoods(split, best, COMPARED_NEIGHBORHOODS, phase=0.5)
    # 2 y less a linear trend, or y itself
    targets = [Target(split, neighborhoods)]
    trend = trend and bool(length_scale_entries(best.kernel))
    if trend:
        targets.append(targets[0].less_trend(best.candidate))
    searches = [target.search(best) for target in targets]
    chosen = int(np.argmax([search.posterior for search in searches]))
    best = searches[chosen]
    # 3 the other families
    first = best
    smoother = [family[shape] for family in products[:middle][::-1]]
    rougher = [family[shape] for family in products[middle + 1 :]]
    if trained:
        best = _best_predicting(first, [smoother, rougher], targets[chosen])
    else:
        # noise that working responses understate would pass for roughness
        rivals = [first]
        for candidate in (*smoother[::-1], *rougher):
            start = first._replace(candidate=candidate)
            rivals.append(targets[chosen].search(start))
        best = best_of(rivals)
    # 4 another family may need a trend, or none
    if trend and best is not first:
        rival = targets[1 - chosen].search(best)
        if rival.posterior > best.posterior:
            best = rival
            chosen = 1 - chosen
    target = targets[chosen]
    # 5 sums of functions of few columns, and more rows
    if trained:
        best = _sum_of_abundant(sums, target, likelihood, best) or train_nearby(
            best, target.split
        )
    if target.slopes is None:
        return best
    return target.restore_trend(best, neighborhoods)


def _best_predicting(
    first: State,
    others: Sequence[Sequence[Candidate]],
    target: Target,
) -> State:
    """Go to smoother families, or rougher ones, while held-out rows gain density."""
    best = first
    density = target.held_out_density(first)
    for candidates in others:
        for candidate in candidates:
            rival = target.search(best._replace(candidate=candidate))
            density_of_rival = target.held_out_density(rival)
            if density_of_rival <= density:
                break
            best = rival
            density = density_of_rival
        if best is not first:
            break
    return best


def _sum_of_abundant(
    families: Sequence[Sequence[Candidate]],
    target: Target,
    likelihood: Likelihood,
    product: State,
) -> State | None:
    """The best sum of functions of few columns, if it predicts held-out rows better.

    Rows from all over the data train it: the nearest ones know no more of a sum.
    """
    if not families:
        return None
    split = target.split
    screened = screen_families(families, split.scattered, likelihood, n_jobs=1)
    best = best_of(screened[0])
    if target.held_out_density(best) <= target.held_out_density(product):
        return None
    return train_on(best, split.training, previous=split.scattered)


class Target(NamedTuple):
    """y of many rows, or y less a trend, and neighbourhoods that compare kernels.

    Nearest rows alone do not tell a trend from a smooth function. All rows together
    determine it: it is subtracted, and becomes a part of the kernel in the end.

    Attributes
    ----------
    split : Split
    neighborhoods : Neighborhoods
    slopes : ndarray of shape (d, t) or None
        Of the trend of each of t targets that has been subtracted, for the columns that
        are numbers.
    """

    split: Split
    neighborhoods: Neighborhoods
    slopes: Array | None = None

    def less_trend(self, candidate: Candidate) -> Target:
        """Subtract the linear function of least squares."""
        rows = self.split.rows
        n_columns = rows.X.shape[1]
        categories = category_columns(candidate.kernel, n_columns)
        numeric = np.setdiff1d(np.arange(n_columns), categories)
        omega = rows.precisions
        centre = np.average(rows.X[:, numeric], axis=0, weights=omega)
        targets = rows.y.reshape(len(rows.y), -1)
        level = np.average(targets, axis=0, weights=omega)
        root = np.sqrt(omega)[:, np.newaxis]
        slopes = np.linalg.lstsq(
            root * (rows.X[:, numeric] - centre),
            root * (targets - level),
        )[0]

        def subtract(rows: Rows) -> Rows:
            trend = (rows.X[:, numeric] - centre) @ slopes
            return rows._replace(y=rows.y - trend.reshape(rows.y.shape))

        split = self.split._replace(
            rows=subtract(self.split.rows),
            screening=subtract(self.split.screening),
            scattered=subtract(self.split.scattered),
            training=subtract(self.split.training),
        )
        neighborhoods = self.neighborhoods._replace(
            rows=subtract(self.neighborhoods.rows),
            scattered=subtract(self.neighborhoods.scattered),
        )
        return Target(split, neighborhoods, np.asarray(slopes, dtype=np.float64))

    def search(self, start: State) -> State:
        """Search on from a result; a slope costs ``½ log n`` nats (Schwarz, 1978)."""
        result = _search_nearby([start], self.neighborhoods)
        if self.slopes is None:
            return result
        price = 0.5 * self.slopes.size * np.log(len(self.split.rows.y))
        return result._replace(posterior=result.posterior - price)

    def held_out_density(self, result: State) -> float:
        """Mean log density of held-out rows, as the model of a result predicts them."""
        return self.neighborhoods.held_out_density(result.kernel, result.likelihood)

    def restore_trend(
        self,
        result: State,
        neighborhoods: Neighborhoods,
    ) -> State:
        """Add a trend with the root mean square of the slopes to the kernel.

        The gain is that of neighbourhoods with the trend.
        """
        candidate = with_trend(
            result.candidate,
            self.split.scattered,
            result.likelihood,
        )
        slopes = np.asarray(self.slopes)
        units = np.exp(candidate.offset[-len(slopes) :])
        log_slope = 0.5 * np.log(np.mean((slopes.T / units) ** 2))
        u = candidate.clip(np.append(result.u, log_slope))
        trended = maximise(
            candidate,
            neighborhoods.evidences(candidate.kernel, result.likelihood),
            u,
            max_iter=0,
            likelihood=result.likelihood,
        )
        return trended._replace(n_rows=result.n_rows, total_weight=result.total_weight)


def _search_shapes(
    family: Sequence[State],
    split: Split,
) -> tuple[State, int]:
    """The best candidate of a family by the density of neighbourhoods.

    Candidates go from simple to complex. Each starts at its optimum of the screening
    rows or at a simpler candidate's optimum of the neighbourhoods, and a second time at
    other lengthscales.

    Returns
    -------
    best : State
    position : int
        In the family.
    """
    results: list[State] = []
    # lengthscales in which rows are neighbours
    nearest = best_of(family)
    for screened in family:
        candidate = screened.candidate
        neighborhoods = _neighborhoods(
            split,
            nearest,
            COMPARED_NEIGHBORHOODS,
            phase=0.5,
        )
        optima = [screened]
        for simpler in results:
            u = candidate.coordinates_of(simpler.kernel)
            optima.append(simpler._replace(candidate=candidate, u=u))
        defaults = [screened._replace(u=u) for u in candidate.starts()]
        searches = [
            _search_nearby(starts, neighborhoods) for starts in (optima, defaults)
        ]
        nearest = best_of(searches)
        results.append(nearest)
    # the last neighbourhoods compare them all
    log_posteriors = [
        _log_posterior(
            result,
            neighborhoods.evidences(result.kernel, result.likelihood),
        )
        for result in results
    ]
    position = int(np.argmax(log_posteriors))
    return results[position], position


def _search_nearby(
    starts: Sequence[State],
    neighborhoods: Neighborhoods,
    max_iter: int = 25,
    tolerance: float = 1e-4,
) -> State:
    """Maximise a candidate on neighbourhoods from the most probable of some starts.

    Searches do not leave a noise that is much too small, of which the slope is small:
    they may start at a larger one.
    """
    candidate = starts[0].candidate
    evidences = neighborhoods.evidences(candidate.kernel, starts[0].likelihood)
    clipped = [start._replace(u=candidate.clip(start.u)) for start in starts]
    start = max(clipped, key=lambda start: _log_posterior(start, evidences))
    noise_variance = start.noise_variance
    noisier = [with_noise(start.likelihood, f * noise_variance) for f in _NOISE_FACTORS]
    starts = [start._replace(likelihood=likelihood) for likelihood in noisier]
    start = max(starts, key=lambda start: _log_posterior(start, evidences))
    return maximise(
        candidate,
        evidences,
        start.u,
        max_iter=max_iter,
        tolerance=tolerance,
        likelihood=start.likelihood,
    )


def search_on(
    result: State,
    split: Split,
    likelihood: Likelihood,
) -> State:
    """Search on from a result, on other values of y.

    A second search starts with no lengthscale longer than a medium one: at a long one
    the slope is nothing, also in a column that other values of y depend on.
    """
    start = result._replace(likelihood=likelihood)
    candidate = result.candidate
    medium = candidate.starts()[1 % len(candidate.starts())]
    shortened = np.where(
        candidate.is_length_scale,
        np.minimum(start.u, medium),
        start.u,
    )
    starts = [start, start._replace(u=shortened)]
    if is_long_series(result.kernel, split.rows) and split.rows.y.ndim == 1:
        return best_of([train_series(start, split.rows) for start in starts])
    neighborhoods = _neighborhoods(split, result, COMPARED_NEIGHBORHOODS, phase=0.5)
    return best_of([_search_nearby([start], neighborhoods) for start in starts])


def train_nearby(result: State, split: Split) -> State:
    """Train a candidate on more neighbourhoods."""
    neighborhoods = _neighborhoods(split, result, TRAINED_NEIGHBORHOODS, phase=0.25)
    return _search_nearby([result], neighborhoods, max_iter=40, tolerance=3e-5)


def _neighborhoods(
    split: Split,
    result: State,
    number: int,
    phase: float,
) -> Neighborhoods:
    """Neighbourhoods in the lengthscales of a result."""
    return Neighborhoods.of(
        split.rows.take(split.order),
        scattered=split.scattered,
        kernel=result.kernel,
        number=number,
        phase=phase,
    )


def _log_posterior(result: State, evidences: Sequence[ExactEvidence]) -> float:
    """Log posterior of kernel and likelihood by these densities."""
    kernel = result.kernel
    noise_variance = result.noise_variance
    point = np.append(result.u, result.likelihood.theta)
    log_prior = result.candidate.log_prior(point, result.likelihood)[0]
    return log_prior + sum(block.value(kernel, noise_variance) for block in evidences)
