"""Choice among candidate kernels: the only place where one is preferred to another.

Every candidate is maximised a posteriori by the exact evidence of a few rows; the one
of the largest log posterior is trained on more. Log evidence and log hyperprior charge
for parameters by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.spatial import KDTree

from skgpx._parallel import side_by_side
from skgpx._selection._candidates import Candidate
from skgpx._selection._evidence import (
    ExactEvidence,
    null_evidence,
    wave_gains,
)
from skgpx._selection._sparse import ABUNDANT_ROWS, SEARCHED_ROWS
from skgpx._validation import Rows
from skgpx.kernels import decays, length_scales
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Nats that a latent function must gain on pure noise: the price of its two scales.
NOISE_PRICE = 2.0
# Probability that noise alone has a wave that stands out; seasons at most.
FALSE_ALARMS, MOST_SEASONS = 0.01, 2
# Columns, of more, in each of which a search may start at a short lengthscale.
_SHORTENED = 100


# ---- Maximum a posteriori of one candidate -------------------------------------------


class Found(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    candidate : Candidate
    u : ndarray of shape (q,)
        Coordinates of its kernel.
    likelihood : Likelihood
        With its scales.
    evidence, posterior : float
        Log evidence of the rows of the search, without and with the log hyperprior.
    gain : float
        Of the evidence over that of a latent function that is zero.
    n_rows : int
        Number of rows of the search.
    weight : float
        Sum of their weights.
    """

    candidate: Candidate
    u: Array
    likelihood: Any
    evidence: float = np.nan
    posterior: float = np.nan
    gain: float = np.nan
    n_rows: int = 0
    weight: float = np.nan

    @property
    def kernel(self) -> Any:
        """Kernel with its hyperparameters."""
        return self.candidate.kernel_at(self.u)


class Objective:
    """Negative log posterior of the coordinates, kernel and likelihood in one vector.

    Parameters
    ----------
    candidate : Candidate
    evidences : sequence of ExactEvidence or SparseEvidence
        Of independent blocks of rows; they add.
    """

    def __init__(self, candidate: Candidate, evidences: Sequence[Any]):
        self.candidate, self.evidences = candidate, evidences
        self.likelihood: Any = evidences[0].likelihood
        self.bounds = np.concatenate((candidate.bounds, self.likelihood.theta_bounds))
        self._last: tuple[Array, tuple[float, Array]] | None = None

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Value and gradient; a large number without a slope where it fails."""
        if self._last is not None and np.array_equal(point, self._last[0]):
            return self._last[1]
        hopeless = 1e12, np.zeros_like(point)
        self._last = point.copy(), hopeless
        candidate, p = self.candidate, len(self.candidate.offset)
        u, scales = np.split(point, [candidate.n_free])
        theta = np.concatenate((candidate.offset + candidate.ties @ u, scales))
        try:
            terms = [one.value_and_gradient(theta) for one in self.evidences]
        except np.linalg.LinAlgError:
            return hopeless
        prior, pull = candidate.log_prior(point, self.likelihood)
        value = prior + sum(term[0] for term in terms)
        slope = np.sum([term[1] for term in terms], axis=0)
        slope = np.concatenate((candidate.ties.T @ slope[:p], slope[p:])) + pull
        if np.isfinite(value) and np.all(np.isfinite(slope)):
            self._last = self._last[0], (-float(value), -slope)
        return self._last[1]


def maximise(
    candidate: Candidate,
    evidences: Sequence[Any],
    u: Array,
    max_iter: int,
    tolerance: float = 3e-5,
    likelihood: Any = None,
) -> Found:
    """L-BFGS-B on the logarithms from u and the scales of a likelihood.

    None stands for the likelihood of the evidences. The search ends where two steps
    gain less than the tolerance each, in nats an observation.
    """
    objective = Objective(candidate, evidences)
    start = objective.likelihood if likelihood is None else likelihood
    point = np.concatenate((u, start.theta))
    total = sum(float(one.rows.weights.sum()) for one in evidences)
    if len(point):
        point = np.clip(point, *objective.bounds.T)
        point = _descend(objective, point, max_iter, tolerance * total)
    q = candidate.n_free
    likelihood = objective.likelihood.with_theta(point[q:])
    log_prior = candidate.log_prior(point, likelihood)[0]
    evidence = -objective(point)[0] - log_prior
    together = reduce(Rows.followed_by, [one.rows for one in evidences])
    gain = evidence - null_evidence(together, objective.likelihood)
    values = evidence, evidence + log_prior, gain
    n_rows = sum(len(one.rows.y) for one in evidences)
    return Found(candidate, point[:q], likelihood, *values, n_rows, total)


def _descend(
    objective: Objective,
    start: Array,
    max_iter: int,
    tolerance: float,
) -> Array:
    """L-BFGS-B in units in which its first step, the slope itself, has length 0.3.

    In nats that step would lead to the bounds.
    """
    first, slope = objective(start)
    low, high = objective.bounds.T
    free = np.where(slope > 0.0, start > low, start < high)
    unit = 0.3 / (float(np.linalg.norm(slope[free])) or 1.0)
    reached = [0.0]

    def scaled(point: Array) -> tuple[float, Array]:
        value, along = objective(point)
        return unit * (value - first), unit * along

    def ended(intermediate_result: Any) -> None:
        reached.append(float(intermediate_result.fun))
        if len(reached) > 2 and reached[-3] - reached[-1] < 2.0 * unit * tolerance:
            raise StopIteration

    result = optimize.minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds,
        callback=ended,
        options={"maxiter": max_iter, "ftol": 1e-14, "gtol": 1e-3 * unit},
    )
    found: Array = result.x
    return found


# ---- Among candidates ----------------------------------------------------------------


class SearchBudget(NamedTuple):
    """How many rows a search reads, for Gaussian noise, and where it starts.

    Attributes
    ----------
    screening_rows : int
        Rows that compare the candidates.
    training_rows : int or None
        Rows that train the best one, where they are not abundant; None is as many as
        every search reads.
    carried_over : bool
        Whether a family starts where its smoother counterpart ended, on a part of the
        rows as well, and not from starts of its own: a rougher family may then miss
        what the smoother one has missed.
    """

    screening_rows: int = 500
    training_rows: int | None = None
    carried_over: bool = False


class Split(NamedTuple):
    """Rows in a random order, and the first of them.

    Attributes
    ----------
    screening, training : Rows
        The first few, which compare candidates (and, of many rows, count beside their
        neighbourhoods), and more, which searches end with.
    rows : Rows
        All of them.
    order : ndarray of shape (n,)
        Their positions in the random order.
    carried_over : bool
        As in `SearchBudget`.
    """

    screening: Rows
    training: Rows
    rows: Rows
    order: NDArray[np.intp]
    carried_over: bool = False

    @classmethod
    def of(cls, rows: Rows, budget: SearchBudget, rng: np.random.Generator) -> Split:
        """Draw the order, in which rows of larger weight tend to come first."""
        # by y: the order of the columns of X does not matter
        by_y = np.lexsort(np.atleast_2d(rows.y.T)[::-1])
        keys = rng.exponential(size=len(by_y)) / rows.weights[by_y]
        order = by_y[np.argsort(keys, kind="stable")]
        screening = subset(rows, order[: budget.screening_rows])
        training = subset(rows, order[: budget.training_rows or SEARCHED_ROWS])
        return cls(screening, training, rows, order, budget.carried_over)

    @property
    def abundant(self) -> bool:
        """Whether there are too many rows for their joint density."""
        return len(self.order) >= ABUNDANT_ROWS


def subset(rows: Rows, chosen: NDArray[np.intp]) -> Rows:
    """Rows drawn by their weights, each counted once; all rows as they are."""
    part = rows.take(np.sort(chosen))
    if len(part.y) == len(rows.y):
        return part
    return part._replace(weights=np.minimum(part.weights, 1.0))


def select(
    groups: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Gaussian,
    n_jobs: int | None = None,
    trend: bool = True,
) -> Found:
    """The candidate of the largest log posterior, trained on more rows.

    From 4500 rows on its family is trained, on rows from all over the data.

    Parameters
    ----------
    groups : sequence of sequences of Candidate
        Families, in each of which candidates go from simple to complex: a complex one
        starts, among other places, where the simple one ended.
    split : Split
    likelihood : Gaussian
        Prepared.
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._parallel.side_by_side`.
    trend : bool, default=True
        Whether the best one also competes with a linear trend beside it, and with one
        input with seasons where waves stand out of the spectrum.
    """
    few, rows = split.screening, split.training
    first = screen(few, likelihood, groups[0])
    # on a part of the rows a rougher family may see what a smoother one has missed
    near = first if split.carried_over or len(few.y) == len(rows.y) else []
    rest = [(group, near) for group in groups[1:]]
    screened = [first, *side_by_side(screen, rest, n_jobs, few, likelihood)]
    family = max(screened, key=lambda group: max(one.posterior for one in group))
    best = max(family, key=lambda one: one.posterior)
    one_input = rows.X.shape[1] == 1
    # nearest rows cannot tell a trend from a smooth function
    trend = trend and (one_input or not split.abundant)
    if trend and np.any(best.candidate.lengths) and not best.candidate.given:
        linear = _with_trend(best, few)
        family = [*family, *([linear] if linear.posterior > best.posterior else [])]
        if one_input:
            top = max(family, key=lambda one: one.posterior)
            family = [*family, *_with_seasons(top, linear, split)]
    return trained(family, split)


def _with_trend(best: Found, rows: Rows) -> Found:
    """A candidate with a linear trend beside it, from where it ended or long scales."""
    candidate = best.candidate.with_trend(rows)
    slope = candidate.mean[-1]
    long = best.candidate.starts()[0]
    starts = [np.append(u, slope) for u in (best.u, long)]
    evidence = ExactEvidence(rows, candidate.kernel, best.likelihood)
    u = _best_first(candidate, starts, [evidence])[0]
    return maximise(candidate, [evidence], u, 40, 1e-4)


def _with_seasons(best: Found, linear: Found, split: Split) -> list[Found]:
    """Candidates with one season and with two, while a wave stands out of the best.

    They begin with a trend and an autoregression: what is left of a series without its
    season is seldom as smooth as its trend.
    """
    rows, found, long = split.screening, [linear], linear.candidate.starts()[0]
    for _ in range(MOST_SEASONS):
        period = _standing_out(best, split)
        if period is None:
            break
        plain = found[-1]
        candidate = plain.candidate
        if plain is linear:
            candidate = candidate.with_walk(rows, period)
        candidate = candidate.with_season(rows, period)
        new = candidate.coordinates_of(candidate.kernel)[len(plain.u) :]
        starts = [np.concatenate((u, plain.u[len(u) :], new)) for u in (plain.u, long)]
        evidence = ExactEvidence(rows, candidate.kernel, best.likelihood)
        u = _best_first(candidate, starts, [evidence])[0]
        season = maximise(candidate, [evidence], u, 100, 1e-4)
        if season.posterior <= best.posterior:
            break
        best = season
        found.append(season)
    return found[1:]


def _standing_out(best: Found, split: Split) -> float | None:
    """Period of the wave that stands out of what a kernel expects, if one does.

    The longest one of which the strongest wave is a harmonic, and which stands out too.
    """
    X = split.training.X
    most = len(np.unique(X)) - 1
    if most < 8:
        return None
    # from three cycles to the shortest wave of the rows, twice as dense as peaks
    step = np.pi / float(np.ptp(X))
    omega = step * np.arange(6, most)
    noise = float(best.likelihood.variance(0.0))
    gains = wave_gains(split.screening, best.kernel, noise, omega)
    high = gains > np.log(len(omega) / FALSE_ALARMS)
    if not np.any(high):
        return None
    top = omega[np.argmax(gains)]
    times = np.round(top / omega)
    harmonic = (np.abs(times * omega - top) < 0.6 * times * step) & (times < 5)
    return float(2.0 * np.pi / omega[np.argmax(high & harmonic)])


def trained(family: Sequence[Found], split: Split) -> Found:
    """Search on with more rows; where they abound, with the whole family."""
    best = max(family, key=lambda one: one.posterior)
    if split.abundant and decays(best.kernel, split.rows.X.shape[1]):
        return _by_nearest(family, split)
    evidence = ExactEvidence(split.training, best.kernel, best.likelihood)
    return maximise(best.candidate, [evidence], best.u, 100, 1e-5)


def screen(
    rows: Rows,
    likelihood: Gaussian,
    group: Sequence[Candidate],
    near: Sequence[Found] = (),
    tolerance: float = 1e-4,
) -> list[Found]:
    """Where each candidate of a group ends, on a few rows.

    One starts where its counterpart of another group ended, if that found a signal.
    """
    found: list[Found] = []
    for position, candidate in enumerate(group):
        until_signal = False
        if near and near[position].gain > NOISE_PRICE:
            starts = [(near[position].u, near[position].likelihood)]
        elif found and candidate.n_free > group[0].n_free:
            simple = max(found, key=lambda one: one.posterior)
            # long lengthscales, or long ones but in the one column where that is best
            some = rows.take(slice(None, None, -(-len(rows.y) // 300)))
            evidence = ExactEvidence(some, candidate.kernel, likelihood)
            columns = _columns_to_shorten(candidate, evidence)
            separate = [candidate.starts()[0], *candidate.short_starts(columns)]
            start = _best_first(candidate, separate, [evidence])[0]
            same = candidate.coordinates_of(simple.kernel)
            starts = [(same, simple.likelihood), (start, likelihood)]
        else:
            evidence = ExactEvidence(rows, candidate.kernel, likelihood)
            best = _best_first(candidate, candidate.starts(), [evidence])
            starts = [(u, likelihood) for u in best[: 1 if near else 2]]
            until_signal = not candidate.given
        ends: list[Found] = []
        for u, scale in starts:
            evidence = ExactEvidence(rows, candidate.kernel_at(u), scale)
            ends.append(maximise(candidate, [evidence], u, 40, tolerance))
            if until_signal and ends[-1].gain > NOISE_PRICE:
                break
        found.append(max(ends, key=lambda one: one.posterior))
    return found


def _columns_to_shorten(
    candidate: Candidate,
    evidence: ExactEvidence,
) -> NDArray[np.intp]:
    """Coordinates that are lengthscales; of many those that gain most when shorter.

    By the slope of the log posterior at long lengthscales.
    """
    columns = np.flatnonzero(candidate.lengths)
    if len(columns) <= _SHORTENED:
        return columns
    point = np.append(candidate.starts()[0], evidence.likelihood.theta)
    objective = Objective(candidate, [evidence])
    slopes = objective(np.clip(point, *objective.bounds.T))[1][columns]
    return np.sort(columns[np.argsort(-slopes, kind="stable")[:_SHORTENED]])


def _best_first(
    candidate: Candidate,
    starts: Sequence[Array],
    evidences: Sequence[ExactEvidence],
) -> list[Array]:
    """Starts within the bounds, in the order of their log posterior."""
    starts = [np.clip(u, *candidate.bounds.T) for u in starts]
    likelihood = evidences[0].likelihood
    found = [Found(candidate, u, likelihood) for u in starts]
    values = (
        [0.0] if len(starts) == 1 else [_log_posterior(one, evidences) for one in found]
    )
    order = np.argsort(values, kind="stable")[::-1]
    return [starts[i] for i in order]


# ---- Of many rows: the density of some given their nearest predecessors --------------

# Neighbourhoods whose densities are added to compare candidates, and to train the best;
# the rows of each, and those that are given.
_COMPARED, _TRAINED, _TOGETHER, _GIVEN = 400, 4000, 10, 40


def _by_nearest(family: Sequence[Found], split: Split) -> Found:
    """The best candidate of a family, trained on rows from all over the data.

    A few rows are far apart: how a function varies nearby is seen in rows that are
    neighbours. Candidates go from simple to complex, and each starts where it ended on
    few rows or where a simpler one ended now, and once more at other lengthscales.
    """
    ends: list[Found] = []
    near = max(family, key=lambda one: one.posterior)
    for one in family:
        candidate = one.candidate
        evidences, searches = _neighborhoods(split, near, _COMPARED, 0.5), []
        found, bounds = [one], candidate.bounds.T
        for end in ends:
            u = candidate.coordinates_of(end.kernel)
            found.append(end._replace(candidate=candidate, u=u))
        fresh = [one._replace(u=u) for u in candidate.starts()]
        for starts in (found, fresh):
            starts = [each._replace(u=np.clip(each.u, *bounds)) for each in starts]
            start = max(starts, key=lambda each: _log_posterior(each, evidences))
            how = start.u, 25, 1e-4, start.likelihood
            searches.append(maximise(candidate, evidences, *how))
        near = max(searches, key=lambda each: each.posterior)
        ends.append(near)
    # the last neighbourhoods compare them all
    best = max(ends, key=lambda end: _log_posterior(end, evidences))
    evidences = _neighborhoods(split, best, _TRAINED, 0.25)
    return maximise(best.candidate, evidences, best.u, 40)


def _neighborhoods(
    split: Split,
    found: Found,
    number: int,
    phase: float,
) -> list[ExactEvidence]:
    """Densities of neighbouring rows given the nearest of those before them.

    They are factors of the joint density of all rows, in Vecchia's approximation of it
    by blocks, and a sample of them estimates it. Nearest in units of the lengthscales.
    The density of some scattered rows comes first: where rows say little, those nearby
    cannot tell a smooth function from none.
    """
    rows, kernel, n = split.rows, found.kernel, len(split.order)
    ordered, number = rows.take(split.order), min(number, n // _TOGETHER)
    points = ordered.X / length_scales(kernel, rows.X.shape[1])
    tree = KDTree(points)
    evidences = [ExactEvidence(split.screening, kernel, found.likelihood)]
    for place in range(number):
        position = int((place + phase) * n / number)
        # of the nearest rows, about this share comes before
        share = max(position / n, 0.05)
        found_at = tree.query(points[position], min(n, int(2.0 * _GIVEN / share)))[1]
        together, near = np.split(found_at, [_TOGETHER])
        if position < 0.05 * n:
            distance = np.sum((points[:position] - points[position]) ** 2, axis=1)
            near = np.setdiff1d(np.argsort(distance), together, assume_unique=True)
        given = near[near < position][:_GIVEN]
        parts = ordered.take(together), ordered.take(given)
        evidences.append(ExactEvidence(parts[0], kernel, found.likelihood, parts[1]))
    return evidences


def _log_posterior(found: Found, evidences: Sequence[Any]) -> float:
    """Log posterior of where a search ended, by these densities."""
    at = found.kernel, float(found.likelihood.variance(0.0))
    point = np.append(found.u, found.likelihood.theta)
    prior = found.candidate.log_prior(point, found.likelihood)[0]
    return prior + sum(one.value(*at) for one in evidences)
