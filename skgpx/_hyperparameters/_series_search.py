"""Seasons of one column and their periods; of abundant rows, search by stretches.

Rows that are drawn at random are far apart: how rough a series is, is seen in rows that
follow one another; how slowly it changes, in rows that are far apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import median_filter

from skgpx._hyperparameters._candidates import (
    Candidate,
    with_autoregression,
    with_season,
)
from skgpx._hyperparameters._evidence import whiten
from skgpx._hyperparameters._maximise import (
    MIN_EVIDENCE_GAIN,
    Objective,
    State,
    best_of,
    maximise,
)
from skgpx._hyperparameters._process_evidence import (
    VariationalEvidence,
    process_evidence,
)
from skgpx._numerics.linalg import solve_lower
from skgpx._row_budgets import (
    FEWEST_SERIES_ROWS,
    SERIES_ROWS,
    STRETCH_ROWS,
    STRETCHES,
)
from skgpx._shell.validation import Rows
from skgpx._types import Array, Index, Kernel
from skgpx.kernels import StateSpace, triangle_and_pullback
from skgpx.likelihoods import Gaussian, Likelihood

# Under other likelihoods than normal noise a pass over the states takes some rounds.
MOST_SEASONS = 3


def stretch_positions(rows: Rows, size: int) -> list[Index]:
    """Positions of stretches of rows in the order of time, of every k-th row each.

    The steps k grow from one to where a stretch covers all rows.
    """
    n = len(rows.y)
    order = np.argsort(rows.X[:, 0], kind="stable")
    widest = max(n // size, 1)
    steps = np.round(np.geomspace(1.0, widest, STRETCHES)).astype(int)
    positions = []
    for i, step in enumerate(steps):
        # starts all over the rows, without a draw
        free = n - size * step
        start = int((0.618 * (i + 1) % 1.0) * max(free, 0))
        chosen = order[start : start + size * step : step][:size]
        positions.append(np.sort(chosen))
    return positions


def stretches(rows: Rows, size: int) -> list[Rows]:
    """The rows of :func:`stretch_positions`."""
    return [rows.take(chosen) for chosen in stretch_positions(rows, size)]


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
    parts = stretches(rows, STRETCH_ROWS)
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
    if trend and not best.candidate.is_given:
        seasons = search_seasons(best, parts, bases=markov, is_markov=True)
        if seasons:
            return seasons[-1]
    if best.candidate is not markov[0] or not other:
        return best
    thinned = [part.thinned(STRETCH_ROWS // 2) for part in parts]
    return best_of(
        [
            search_stretches(candidate, [(best.u, best.likelihood)], thinned)
            for candidate in (best.candidate, *other)
        ]
    )


def search_seasons(
    start: State,
    parts: Sequence[Rows],
    bases: Sequence[Candidate],
    is_markov: bool,
    screening: Rows | None = None,
    searched: Array | None = None,
) -> list[State]:
    """Add one season after another while the residuals of a part have a wave.

    One under other likelihoods than normal noise, up to three under it.

    Waves that wide steps between rows would take for slow ones are then known, if the
    parts are stretches from the shortest on.

    Parameters
    ----------
    start : State
        Without a season.
    parts : sequence of Rows
        Stretches of abundant rows, or the rows of a shorter series.
    bases : sequence of Candidate
        Functions that may stand beside the first season: without a season the best one
        has to follow it.
    is_markov : bool
        Whether these are Markov processes and seasons as well. Otherwise an
        autoregression stands beside the seasons: a series without its season is seldom
        as smooth as its trend.
    screening : Rows, optional
        Fewer rows, which tell a period from its multiples; by default those of a part.
    searched : ndarray of shape (n, 1), optional
        Inputs whose spacing is that of the shortest period; by default those of a part.

    Returns
    -------
    seasons : list of State
        With one season, with two and so on, on the part where the last one was found.
    """
    # many states, or few rows
    max_iter = 10 if is_markov else 20
    most_seasons = MOST_SEASONS if start.likelihood.has_closed_form else 1
    seasons: list[State] = []
    best = start
    for part in parts:
        while len(seasons) < most_seasons:
            rows, without = _as_regression(part, best)
            has_own_roughness = is_markov or bool(seasons)
            periods = significant_periods(
                rows,
                without,
                searched=part.X if searched is None else searched,
                looks_twice=not has_own_roughness,
            )
            if not periods:
                break
            few_rows = _as_regression(screening, best)[0] if screening else rows
            # 1 the period, and the process beside the first season
            season = without._replace(posterior=-np.inf)
            processes = [best.candidate]
            if not seasons:
                processes += [base for base in bases if base is not best.candidate]
            for base in processes:
                results = []
                for period in periods:
                    candidate = with_season(
                        _beside_season(base, part, period, has_own_roughness),
                        part,
                        period,
                        is_markov,
                    )
                    u = candidate.coordinates_of(candidate.kernel)
                    u[: len(season.u)] = season.u
                    starts = [
                        (np.append(first, u[len(first) :]), season.likelihood)
                        for first in (season.u, *base.starts())
                    ]
                    results.append(
                        search_stretches(
                            candidate,
                            starts,
                            [few_rows],
                            max_iter=max_iter,
                        )
                    )
                chosen = int(np.argmax([result.posterior for result in results]))
                periods = periods[chosen : chosen + 1]
                season = best_of([season, results[chosen]])
            # 2 whether all parts gain by the season alone: one of them may have a wave
            # by chance, and counts that vary more than they should an autoregression
            rivals = _without_season(without, part, periods[0], has_own_roughness)
            regressions = [_as_regression(stretch, best)[0] for stretch in parts]
            season, *rivals = (
                search_stretches(
                    state.candidate,
                    [(state.u, state.likelihood)],
                    regressions,
                    max_iter=max_iter // 2,
                )
                for state in (season, *rivals)
            )
            if season.posterior - best_of(rivals).posterior < MIN_EVIDENCE_GAIN:
                break
            best = season
            if not start.likelihood.has_closed_form:
                best = season._replace(likelihood=start.likelihood)
            seasons.append(best)
    return seasons


def _beside_season(
    base: Candidate,
    rows: Rows,
    period: float,
    has_own_roughness: bool,
) -> Candidate:
    """What stands beside a season: a Markov process, or an autoregression as well."""
    if has_own_roughness:
        return base
    return with_autoregression(base, rows, period)


def _without_season(
    state: State,
    rows: Rows,
    period: float,
    has_own_roughness: bool,
) -> list[State]:
    """What a season has to beat: the process, and that with what stands beside it."""
    candidate = _beside_season(state.candidate, rows, period, has_own_roughness)
    if candidate is state.candidate:
        return [state]
    u = candidate.coordinates_of(candidate.kernel)
    u[: len(state.u)] = state.u
    return [state, state._replace(candidate=candidate, u=u)]


def _as_regression(rows: Rows, state: State) -> tuple[Rows, State]:
    """Rows and a state with normal noise: working responses under other likelihoods."""
    if state.likelihood.has_closed_form:
        return rows, state
    evidence = VariationalEvidence(rows, state.kernel, state.likelihood)
    _, z, noise = evidence.working_responses()
    weights = np.ones(len(z))
    normal = Gaussian(1.0).prepare(z, weights, noise)
    return Rows(rows.X, z, weights, noise), state._replace(likelihood=normal)


def n_series_rows(state: State) -> int:
    """How many rows the budget has to train a Markov process."""
    form = StateSpace.of(state.kernel, 1)
    n_states = form.cascades().n_states if form is not None else 1
    # O(S^2) a row
    return max(SERIES_ROWS * 4 // n_states**2, FEWEST_SERIES_ROWS)


def train_series(state: State, rows: Rows) -> State:
    """Train a Markov process on as many rows as the budget has."""
    n_trained = n_series_rows(state)
    parts = [rows]
    if len(rows.y) > n_trained:
        parts = stretches(rows, n_trained // STRETCHES)
    return search_stretches(
        state.candidate,
        [(state.u, state.likelihood)],
        parts,
        max_iter=20,
        tolerance=3e-5,
    )


# ---- Significant waves: how strong a wave is in noise, and the period of residuals ---
# Every search for waves compares the strongest of them with `false_alarm_level`: here
# under a kernel, for Fourier functions on sums over rows, for learned frequencies on
# the errors of a start.


# Probability that noise without a wave has a significant one.
FALSE_ALARMS = 0.01
# Lowest frequency of a season, in half cycles over the rows.
_FEWEST_HALF_CYCLES = 6
# Frequencies below which there is no season to find.
_FEWEST_FREQUENCIES = 8
# Waves of about the length of another with which it is compared.
_NEIGHBORS = 129
# A season has its strongest wave among its first four harmonics.
_MAX_HARMONIC = 4


def false_alarm_level(n_waves: float, probability: float = FALSE_ALARMS) -> float:
    """Nats that the strongest of K waves gains by chance with this probability.

    In noise the gain of a wave, or its power in units of the noise, is a standard
    exponential variable. Bonferroni's bound on the largest of them: ``K exp(-level) =
    probability``.
    """
    return float(np.log(n_waves / probability))


def broad_spectrum(power: Array) -> Array:
    """Mean power around each wave (r, ...), by the median of the nearest ones."""
    size = (min(len(power), _NEIGHBORS), *(1,) * (power.ndim - 1))
    medians = median_filter(power, size, mode="nearest")
    # a target may have no power at all
    return np.maximum(medians / np.log(2.0), np.finfo(np.float64).tiny)


def significant_periods(
    rows: Rows,
    state: State,
    searched: Array,
    looks_twice: bool,
) -> list[float]:
    """Periods that the strongest wave in the residuals of a process may stand for.

    Its own, and those of which it is a harmonic, from short to long; none if it is not
    significant. Short lengthscales follow a wave: it may also stand out of the spectrum
    that a process of long ones leaves.

    Parameters
    ----------
    rows : Rows
        Of one column.
    state : State
        Process and noise of the rows.
    searched : ndarray of shape (n, 1)
        Inputs of the rows on which the search ends, whose spacing is that of the
        shortest period.
    looks_twice : bool
        Whether long lengthscales are tried.
    """
    n_frequencies = len(np.unique(searched)) - 1
    if n_frequencies < _FEWEST_FREQUENCIES:
        return []
    # to the shortest wave of the rows, twice as dense as peaks
    step = np.pi / float(np.ptp(searched))
    omega = step * np.arange(1.0, n_frequencies)
    # of three cycles and more
    tested = slice(_FEWEST_HALF_CYCLES - 1, None)
    gains = wave_gains(rows, state.kernel, state.noise_variance, omega)
    # noise that is larger than it should be raises all waves
    gains = (gains / np.maximum(broad_spectrum(gains), 1.0))[tested]
    level = false_alarm_level(gains.size)
    if np.max(gains) <= level and looks_twice:
        candidate = state.candidate
        long = candidate.kernel_at(candidate.starts()[0])
        power = wave_gains(rows, long, state.noise_variance, omega)
        # the median power of waves up to twice as long as each: a steep spectrum's
        longer = [np.median(power[k // 2 : k], axis=0) for k in range(1, len(power))]
        steep = np.stack([power[0], *longer])
        gains = (power / np.maximum(broad_spectrum(power), steep))[tested]
    if np.max(gains) <= level:
        return []
    # the season whose harmonic the strongest is may be longer
    longest = step * _FEWEST_HALF_CYCLES
    multiples = np.arange(1, _MAX_HARMONIC + 1)
    frequencies = omega[tested][np.argmax(np.max(gains, axis=1))] / multiples
    return (2.0 * np.pi / frequencies[frequencies >= 0.999 * longest]).tolist()


def wave_gains(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    omega: Array,
) -> Array:
    """Log evidence, in nats, that waves add to the process, (n_frequencies, n_targets).

    The two amplitudes of each are estimated by least squares under the covariance of
    the process: a periodogram of the residuals from the kernel, in its single column.
    Where there is no wave the gains are standard exponential variables. Several targets
    have one noise variance in a search: a target's own, relative to it, is that of its
    residuals.
    """
    K, _ = triangle_and_pullback(kernel, rows.X)
    L, white, _ = whiten(K, rows, noise_variance)
    centred = rows.X - rows.X.mean()
    phases = centred * omega
    c = solve_lower(L, np.cos(phases))
    s = solve_lower(L, np.sin(phases))
    # F = [cos, sin], b = Fᵀ C⁻¹ y, G = Fᵀ C⁻¹ F
    yc = c.T @ white
    ys = s.T @ white
    cc = np.sum(c * c, axis=0)[:, np.newaxis]
    ss = np.sum(s * s, axis=0)[:, np.newaxis]
    cs = np.sum(c * s, axis=0)[:, np.newaxis]
    # ½ bᵀ G⁻¹ b, G⁻¹ by its determinant
    squares = yc**2 * ss - 2.0 * yc * ys * cs + ys**2 * cc
    gains: Array = 0.5 * squares
    determinant = cc * ss - cs**2
    # on a grid the sines of the shortest wave are zero
    gains /= np.maximum(determinant, 1e-10 * cc * ss)
    variances = np.mean(white**2, axis=0)
    # a constant target has neither noise nor waves
    floor = max(1e-10 * float(np.mean(variances)), np.finfo(np.float64).tiny)
    gains *= np.mean(variances) / np.maximum(variances, floor)
    return gains
