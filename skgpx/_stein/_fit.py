"""A fit from rows to waves and their sums, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._callbacks import StageClock
from skgpx._selection import Hyperparameters, SearchRecord, learn_prior
from skgpx._stein._descent import SteinDescent, held_out_score
from skgpx._stein._start import (
    peaks,
    residuals,
    starting_waves,
    with_peaks,
    without_peaks,
)
from skgpx._stein._waves import NetworkWarp, SteinState, WaveMixture
from skgpx._validation import Rows, standardisation
from skgpx.diagnostics import Finding, residual_autocorrelation
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]
Report = Callable[[Callable[[], SteinState], SteinDescent], bool]


class SteinFit(NamedTuple):
    """A finished fit.

    Attributes
    ----------
    state : SteinState
    descent : SteinDescent
        The search that held rows out, where any were.
    variance_scale : float
        Factor of prior and noise variance, fitted to validation rows; otherwise one.
    record : SearchRecord
        Rows used for hyperparameters, frequencies and variance scale.
    findings : list of Finding
    """

    state: SteinState
    descent: SteinDescent
    variance_scale: float
    record: SearchRecord
    findings: list[Finding | None]


def fit_stein(
    rows: Rows,
    settings: Any,
    hidden: tuple[int, ...],
    rng: np.random.Generator,
    clock: StageClock,
    report: Report,
) -> SteinFit:
    """Prior, frequencies, variance scale and sums.

    Parameters
    ----------
    rows : Rows
        In canonical order.
    settings : SteinRFFRegressor
        Its parameters.
    hidden : tuple of int
        Sizes of the hidden layers of a network.
    rng : numpy.random.Generator
    clock : StageClock
    report : callable
        Called after each round with a function that returns the current state; learning
        stops if it returns True.
    """
    split, search, sample, start, network = rng.spawn(5)
    n_jobs, largest = settings.n_jobs, settings.n_learning_rows
    rows, train, validation, shift, scale = _split(rows, settings, split)
    chosen = np.sort(sample.permutation(len(train.y))[:largest])
    learning = train.take(chosen)

    prior, mixture, findings = _begin(
        train, learning, settings, scale, hidden, (search, start, network)
    )
    clock.end_of("search")

    def state_of(mixture: WaveMixture, rows: Rows) -> SteinState:
        sums = mixture.statistics(rows, n_jobs)
        return SteinState(mixture, sums, sums, shift, scale)

    how = settings.repulsion, settings.max_iter, settings.learning_rate, n_jobs
    descent = SteinDescent(mixture, learning, *how).run(
        validation,
        settings.early_stopping,
        lambda now: report(lambda: state_of(now.mixture, train), now),
    )
    mixture, variance_scale = descent.mixture, 1.0
    record = prior.record._replace(
        distinct_rows=len(rows.y), frequency_rows=len(learning.y)
    )
    clock.end_of("frequencies")

    noise = float(prior.likelihood.variance(0.0))
    if validation is not None:
        findings.append(_structure(mixture, learning))
        # that of the prior, or the larger one of learning
        sums, scores = mixture.statistics(train, n_jobs), []
        for one in sorted({noise, mixture.noise_variance}):
            score = held_out_score(mixture.posterior(sums, one), one, validation)
            scores.append((*score, one))
        _, variance_scale, noise = max(scores, key=lambda score: score[0])
        record = record._replace(calibration_rows=len(validation.y))
        if len(rows.y) <= largest:
            # some more steps by all rows
            how = (
                settings.repulsion,
                -(-settings.max_iter // 10),
                0.5 * settings.learning_rate,
                n_jobs,
            )
            mixture = SteinDescent(mixture, rows, *how).run().mixture
            record = record._replace(frequency_rows=len(rows.y))
        clock.end_of("calibration")
    mixture = mixture._replace(noise_variance=noise).scaled(variance_scale)
    state = state_of(mixture, rows)
    return SteinFit(state, descent, variance_scale, record, findings)


def _split(
    rows: Rows, settings: Any, rng: np.random.Generator
) -> tuple[Rows, Rows, Rows | None, float, float]:
    """All, training and validation rows; y standardised by the training rows."""
    n = len(rows.y)
    held_out = np.zeros(n, bool)
    held_out[rng.permutation(n)[: validation_rows(settings.validation_fraction, n)]] = (
        True
    )
    train, shift, scale = rows.take(~held_out), 0.0, 1.0
    if settings.normalize_y:
        shift, scale = standardisation(train.y, train.weights)
    rows = rows._replace(y=(rows.y - shift) / scale)
    validation = rows.take(held_out) if held_out.any() else None
    return rows, rows.take(~held_out), validation, shift, scale


def validation_rows(share: float | str, n: int) -> int:
    """How many of n rows are held out; at least one is left."""
    if share == "auto":
        return min(round(0.15 * n), 2000) if n >= 50 else 0
    return min(int(np.ceil(float(share) * n)), n - 1)


def _begin(
    train: Rows,
    learning: Rows,
    settings: Any,
    scale: float,
    hidden: tuple[int, ...],
    streams: tuple[np.random.Generator, ...],
) -> tuple[Hyperparameters, WaveMixture, list[Finding | None]]:
    """Kernel and noise, and the waves that move: quasi-random, and peaks or a network.

    Findings are those of the search for the kernel, unless waves stand out of it.
    """
    search, start, network = streams

    def begun(rows: Rows) -> tuple[Hyperparameters, WaveMixture]:
        noise, free = settings.noise_variance, settings.noise_variance is None
        noise = None if noise is None else noise / scale**2
        likelihood = Gaussian(noise).prepare(rows.y, rows.weights)
        learn, kernel = settings.optimizer is not None, settings.kernel
        prior = learn_prior(rows, likelihood, search, kernel=kernel, learn=learn)
        # next to no noise is more than a few waves can do, and their evidence is then
        # that of the rows they miss most
        variance = float(prior.likelihood.variance(0.0))
        least = max(variance, 2e-4) if free else variance
        shape = settings.n_components, settings.n_frequencies, rows.X.shape[1]
        return prior, starting_waves(prior.kernel, least, shape, start)

    prior, mixture = begun(train)
    if hidden:
        unit = mixture.length_scale
        warp = NetworkWarp.start(hidden, train.X, train.weights, unit, network)
        mixture = mixture._replace(warp=warp)
    elif settings.max_iter > 0:
        found = peaks(learning, mixture)
        if found is not None:
            prior, mixture = begun(without_peaks(train, found))
            return prior, with_peaks(mixture, found), []
    return prior, mixture, list(prior.findings)


def _structure(mixture: WaveMixture, rows: Rows) -> Finding | None:
    """Whether the mean of the components misses structure of rows that learn."""
    mapped = rows if mixture.warp is None else rows._replace(X=mixture.warp(rows.X))
    each = [residuals(mapped, waves) for waves in mixture.waves()]
    errors = np.mean(each, axis=0)
    return residual_autocorrelation(rows.X, errors, float(np.var(rows.y)))
