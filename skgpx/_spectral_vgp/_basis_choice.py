"""Fourier functions, inducing points or a process, by bounds on the same rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skgpx._selection import are_few, search_weights
from skgpx._spectral_vgp._kernel_fit import SparseSettings, SparseState, start_sparse
from skgpx._spectral_vgp._markov_fit import (
    MarkovSettings,
    MarkovState,
    is_markov,
    start_markov,
)
from skgpx._spectral_vgp._series_choice import falls_short, search_series
from skgpx._spectral_vgp._series_fit import SeriesState, log_evidence_of, rival_kernels
from skgpx._spectral_vgp._series_search import SeriesChoice
from skgpx._spectral_vgp._settings import (
    markov_settings,
    says_nothing_of_functions,
    sparse_settings,
)
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._stage_clock import StageClock
from skgpx._validation import Rows, canonical_rows, generator, warn
from skgpx.bases import PolynomialEigenvalues
from skgpx.likelihoods._rows import KnownNoise

Array = NDArray[np.float64]

# Rows, as weighted but for copies, up to which inducing points are tried too, with
# several inputs.
_FEW_ROWS = 2000
# Repetitions of a row, in the mean, above which functions take its noise for signal;
# rows among which so many distinct inputs are looked for.
_REPEATED, _SCREENED = 2.0, 4000
# Nats that Fourier functions leave out under a given kernel: points can say no more.
_TIGHT = 0.5
# Rows up to which an exact process is tried, with one input.
_MOST_ROWS = 200_000


def say_little(model: BaseEstimator, rows: Rows) -> bool:
    """Whether rows are too few, or too often the same, for Fourier functions.

    Repetitions of one y at one input say that there is no noise, and functions are
    searched for with the sums of all rows: few distinct rows are interpolated. Where a
    parameter speaks of functions, they are taken as they are.
    """
    if not says_nothing_of_functions(model):
        return False
    if are_few(rows):
        return True
    if len(canonical_rows(*rows.take(slice(_SCREENED))).y) > _FEW_ROWS:
        return False
    distinct = canonical_rows(*rows)
    if len(distinct.y) > _FEW_ROWS:
        return False
    once = float(search_weights(distinct).sum())
    return float(distinct.weights.sum()) > _REPEATED * once


def competing_kernels(model: BaseEstimator, rows: Rows) -> list[Any]:
    """Kernels that compete with the series prior; none where parameters speak of it.

    With several inputs the bounds of rough functions are too far below their evidence,
    and smooth kernels would win where they should not.
    """
    if model.kernel is not None or not says_nothing_of_functions(model):
        return []
    return rival_kernels(rows) if rows.X.shape[1] == 1 else []


def better_than_functions(
    model: BaseEstimator,
    rows: Rows,
    once: Rows,
    noise: KnownNoise | None,
    series: tuple[SeriesState, SeriesChoice],
    clock: StageClock,
) -> tuple[str, Any, SpectralFit] | None:
    """Basis, state and fit of what has the larger bound; None for the functions.

    Only where no parameter of the estimator speaks of Fourier functions. `once` are the
    rows with copies counted once where they are many.
    """
    state, choice = series
    bound = log_evidence_of(choice)
    if not says_nothing_of_functions(model):
        return None
    if points_may_be_better(once, choice):
        # the seed of a fit on points alone
        rng = generator(model.random_state)
        sparse = sparse_settings(model, noise)._replace(basis="inducing")
        points = better_points(rows, sparse, rng, model.n_jobs, bound)
        clock.end_of("points")
        return points and ("inducing", *points)
    settings, most = markov_settings(model, noise), int(model.max_basis)
    if not says_nothing_of_functions(model, "max_basis"):
        return None
    if process_may_be_better(rows, choice, settings, most):
        waves = frequencies_beside(state, choice)
        process = better_process(rows, settings, waves, bound)
        clock.end_of("process")
        return process and ("markov", *process)
    return None


def points_may_be_better(rows: Rows, choice: SeriesChoice) -> bool:
    """Whether a fit on inducing points is worth its time.

    With one input, or many rows, Fourier functions are as good and faster; under a
    given kernel the bound says how far it may be from the exact evidence, under a
    series prior that of another prior may be larger.
    """
    if rows.X.shape[1] < 2 or rows.weights.sum() > _FEW_ROWS:
        return False
    bound, (rule, noise, _) = choice.bound, choice.prior
    if choice.only_noise or isinstance(rule, PolynomialEigenvalues):
        return True
    left_out = 0.5 * bound.weight * bound.spectrum(rule).tail / noise
    return bool(left_out > _TIGHT)


def better_points(
    rows: Rows,
    settings: SparseSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
    log_evidence: float,
) -> tuple[SparseState, SpectralFit] | None:
    """Fit on inducing points if its bound is larger, or None.

    Parameters
    ----------
    rows : Rows
    settings : SparseSettings
    rng : numpy.random.Generator
    n_jobs : int or None
    log_evidence : float
        Bound of the fit on Fourier functions, of the same rows.
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        state = start_sparse(canonical_rows(*rows), settings, rng, n_jobs)
        found = state.solve()
    if not found.log_evidence > log_evidence:
        return None
    for one in said:
        warn(str(one.message), one.category)
    return state, found


def process_may_be_better(
    rows: Rows, choice: SeriesChoice, settings: MarkovSettings, most: int
) -> bool:
    """Whether a fit on a Markov process is worth its time.

    That is so where one input has as many functions as are allowed (`most` at most)
    and those left out cost twice what they may: f is rough at the scale of the rows.
    """
    if rows.X.shape[1] > 1 or len(rows.y) > _MOST_ROWS or not is_markov(settings):
        return False
    bound, (rule, noise, _) = choice.bound, choice.prior
    tail = bound.spectrum(rule).tail
    return falls_short(bound.size, tail, noise, bound.weight, most)


def frequencies_beside(state: SeriesState, choice: SeriesChoice) -> Array:
    """Waves that stand out (r,), in cycles a unit of x, the strongest first.

    What is rough at the scale of the rows hides them where the noise is fixed: the
    prior that has to hold it reaches over all waves. They are then looked for with a
    noise that is free to hold it instead.
    """
    settings = state.settings
    fixed = settings.given_noise_variance(1.0) is not None
    if fixed and not len(choice.raised):
        free = settings._replace(
            noise_variance=None, white_noise_variance=None, start_noise_variance=None
        )
        choice = search_series(state._replace(settings=free))
    return (choice.raised / state.statistics.box.period)[:, 0]


def better_process(
    rows: Rows, settings: MarkovSettings, frequencies: Array, log_evidence: float
) -> tuple[MarkovState, SpectralFit] | None:
    """Fit on a Markov process, and the waves found, if its evidence is larger, or None.

    Parameters
    ----------
    rows : Rows
    settings : MarkovSettings
    frequencies : ndarray of shape (r,)
        Of `frequencies_beside`.
    log_evidence : float
        Bound of the fit on Fourier functions, of the same rows.
    """
    state = start_markov(rows, settings, frequencies)
    found = state.solve()
    return (state, found) if found.log_evidence > log_evidence else None
