"""Search of abundant rows of one column, by stretches of them of several lengths.

Rows that are drawn at random are far apart: how rough a series is, is seen in rows that
follow one another; how slowly it changes, in rows that are far apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skgpx._hyperparameters._candidates import Candidate, with_season
from skgpx._hyperparameters._maximise import (
    Objective,
    State,
    best_of,
    maximise,
)
from skgpx._hyperparameters._process_evidence import process_evidence
from skgpx._hyperparameters._waves import significant_periods
from skgpx._row_budgets import FEWEST_SERIES_ROWS, SERIES_ROWS, STRETCH_ROWS, STRETCHES
from skgpx._shell.validation import Rows
from skgpx._types import Array
from skgpx.kernels import StateSpace
from skgpx.likelihoods import Likelihood

MOST_SEASONS = 3


def stretches(rows: Rows, size: int, number: int, spread: float = 0.618) -> list[Rows]:
    """Stretches of `size` rows in the order of time, of every k-th row each.

    The steps k grow from one to where a stretch covers all rows.
    """
    n = len(rows.y)
    order = np.argsort(rows.X[:, 0], kind="stable")
    widest = max(n // size, 1)
    steps = np.round(np.geomspace(1.0, widest, number)).astype(int)
    parts = []
    for i, step in enumerate(steps):
        # starts all over the rows, without a draw
        free = n - size * step
        start = int((spread * (i + 1) % 1.0) * max(free, 0))
        chosen = order[start : start + size * step : step][:size]
        parts.append(rows.take(np.sort(chosen)))
    return parts


def search_stretches(
    candidate: Candidate,
    starts: Sequence[tuple[Array, Likelihood]],
    parts: Sequence[Rows],
    max_iter: int = 40,
    tolerance: float = 1e-4,
) -> State:
    """Maximise a candidate on independent stretches from the best of some starts."""
    likelihood = starts[0][1]
    evidences = [process_evidence(part, candidate.kernel, likelihood) for part in parts]
    objective = Objective(candidate, evidences)
    points = [np.append(candidate.clip(u), start.theta) for u, start in starts]
    losses = [objective(np.clip(point, *objective.bounds.T))[0] for point in points]
    u, start_likelihood = starts[int(np.argmin(losses))]
    return maximise(
        candidate,
        evidences,
        candidate.clip(u),
        max_iter,
        tolerance,
        likelihood=start_likelihood,
    )


def select_of_stretches(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    trend: bool = False,
) -> State:
    """The best family, from the smoothest Markov process to rougher ones.

    On request with seasons. A kernel that is not Markov competes where there are none,
    and the smoothest process is the best.
    """
    parts = stretches(rows, STRETCH_ROWS, STRETCHES)
    markov: list[Candidate] = []
    other: list[Candidate] = []
    for family in families:
        candidate = family[-1]
        is_markov = StateSpace.of(candidate.kernel, 1) is not None
        (markov if is_markov else other).append(candidate)
    best: State | None = None
    for candidate in markov:
        starts = [(u, likelihood) for u in candidate.starts()]
        if best is not None:
            starts = [(best.u, best.likelihood)]
        result = search_stretches(candidate, starts, parts)
        if best is not None and result.posterior < best.posterior:
            break
        best = result
    assert best is not None
    with_seasons = add_seasons(best, markov, parts) if trend else best
    is_smoothest = best.candidate is markov[0]
    if with_seasons is not best or not is_smoothest or not other:
        return with_seasons
    thinned = [part.thinned(STRETCH_ROWS // 2) for part in parts]
    return best_of(
        [
            search_stretches(candidate, [(best.u, best.likelihood)], thinned)
            for candidate in (best.candidate, *other)
        ]
    )


def add_seasons(
    best: State,
    bases: Sequence[Candidate],
    parts: Sequence[Rows],
) -> State:
    """Add seasons while stretches have a wave, from the shortest stretch on.

    Waves that wide steps between rows would take for slow ones are then known. The
    process beside the first season may be one of other `bases`: without the season the
    best one has to follow it.
    """
    n_seasons = 0
    for part in parts:
        if n_seasons == MOST_SEASONS:
            break
        periods = significant_periods(
            part,
            best.kernel,
            noise_variance=float(best.likelihood.variance(0.0)),
            searched=part.X,
        )
        if not periods:
            continue
        without = search_stretches(
            best.candidate, [(best.u, best.likelihood)], [part], max_iter=10
        )
        results = [without]
        for period in periods:
            candidate = with_season(best.candidate, part, period, is_markov=True)
            new_part = candidate.coordinates_of(candidate.kernel)[len(best.u) :]
            start = (np.append(best.u, new_part), best.likelihood)
            results.append(search_stretches(candidate, [start], [part], max_iter=10))
        chosen = int(np.argmax([result.posterior for result in results]))
        season = results[chosen]
        if season is without:
            continue
        if not n_seasons:
            period = periods[chosen - 1]
            new_part = season.u[len(best.u) :]
            for base in bases:
                candidate = with_season(base, part, period, is_markov=True)
                starts = [
                    (np.append(u, new_part), season.likelihood) for u in base.starts()
                ]
                rival = search_stretches(candidate, starts, [part], max_iter=10)
                season = best_of([season, rival])
        n_seasons += 1
        best = season
    return best


def train_series(state: State, rows: Rows) -> State:
    """Train a Markov process on as many rows as the budget has."""
    n = len(rows.y)
    form = StateSpace.of(state.kernel, 1)
    n_states = form.cascades().n_states if form is not None else 1
    # O(S^2) a row
    n_trained = max(SERIES_ROWS * 4 // n_states**2, FEWEST_SERIES_ROWS)
    parts = [rows]
    if n > n_trained:
        parts = stretches(rows, n_trained // STRETCHES, STRETCHES)
    return search_stretches(
        state.candidate,
        [(state.u, state.likelihood)],
        parts,
        max_iter=20,
        tolerance=3e-5,
    )
