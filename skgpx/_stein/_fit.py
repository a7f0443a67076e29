"""A fit from rows to waves and their sums, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.regression import posterior
from skgpx._numerics.wave_evidence import WaveRows
from skgpx._selection import SearchRecord
from skgpx._stage_clock import StageClock
from skgpx._stein._learning import Learning, ValidationRows, learn, warn_without_prior
from skgpx._stein._prior import (
    Prior,
    WaveMixture,
    enough_frequencies,
    learn_prior,
    starting_waves,
)
from skgpx._stein._settings import FitSettings
from skgpx._stein._state import SteinState, sums_of
from skgpx._stein._warp import NetworkWarp
from skgpx._validation import Rows, standardisation

Array = NDArray[np.float64]

# Share of the rows that "auto" holds out, the largest number of these, and the fewest
# rows of which it holds any out.
HELD_OUT, MAX_HELD_OUT, MIN_ROWS = 0.15, 2000, 50
# Smallest noise variance of the standardised y with which frequencies learn.
LEAST_NOISE = 2e-4
# Steps and rate with which all rows move frequencies last, in those of before.
REFINED, REFINED_RATE = 0.1, 0.5

Report = Callable[[Callable[[], SteinState], Learning], bool]


class SteinFit(NamedTuple):
    """State of a finished fit.

    Attributes
    ----------
    state : SteinState
    learning : Learning
        Of the search that held rows out, where there was one.
    variance_scale : float
        Factor of prior and noise variance, fitted to held-out rows; otherwise one.
    record : SearchRecord
        Rows used for hyperparameters, frequencies and variance scale.
    """

    state: SteinState
    learning: Learning
    variance_scale: float
    record: SearchRecord


class Parts(NamedTuple):
    """Training and validation rows; y standardised by the former."""

    all: Rows
    train: Rows
    held_out: Rows | None
    shift: float
    scale: float


def fit_stein(
    rows: Rows,
    settings: FitSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
    clock: StageClock,
    report: Report,
) -> SteinFit:
    """Prior, frequencies, variance scale and sums.

    Parameters
    ----------
    rows : Rows
        In canonical order.
    settings : FitSettings
    rng : numpy.random.Generator
    n_jobs : int or None
    clock : StageClock
    report : callable
        Called after each round with a function that returns the current state; learning
        stops if it returns True.
    """
    split, search, sample, start, network = rng.spawn(5)
    parts = split_rows(rows, settings, split)
    prior = _prior(parts, settings, search)
    clock.end_of("search")
    learner = _Learner(parts, prior, settings, (sample, start, network), n_jobs)
    learning = learner.learned(report)
    clock.end_of("frequencies")
    mixture = learning.mixture
    noise, variance_scale = learner.default_noise_and_scale(mixture)
    if parts.held_out is not None:
        noise, variance_scale = learner.noise_and_variance_scale(mixture)
        if settings.refit and learner.all_rows_learn:
            mixture = learner.refined(mixture)
        clock.end_of("temper")
    mixture = mixture._replace(noise_variance=noise).scaled(variance_scale)
    units = parts.shift, parts.scale
    state = SteinState.of(mixture, prior.kernel, parts.all, *units, n_jobs)
    return SteinFit(state, learning, variance_scale, learner.record())


def split_rows(rows: Rows, settings: FitSettings, rng: np.random.Generator) -> Parts:
    """Hold out a share of the distinct rows, drawn at random."""
    n = len(rows.y)
    count = held_out_rows(settings.held_out, n)
    chosen = np.zeros(n, bool)
    chosen[rng.permutation(n)[:count]] = True
    train = rows.take(~chosen)
    shift, scale = 0.0, 1.0
    if settings.normalize_y:
        shift, scale = standardisation(train.y, train.weights)

    def standard(part: Rows) -> Rows:
        return part._replace(y=(part.y - shift) / scale)

    held = standard(rows.take(chosen)) if count else None
    return Parts(standard(rows), standard(train), held, shift, scale)


def held_out_rows(share: float | str, n: int) -> int:
    """How many of n rows are held out; at least one is left."""
    if share == "auto":
        return min(round(HELD_OUT * n), MAX_HELD_OUT) if n >= MIN_ROWS else 0
    return min(int(np.ceil(float(share) * n)), n - 1)


def _prior(parts: Parts, settings: FitSettings, rng: np.random.Generator) -> Prior:
    noise = settings.noise_variance
    standard = None if noise is None else noise / parts.scale**2
    how = settings.kernel, settings.optimizer, standard
    return learn_prior(parts.train, *how, rng)


class _Learner:
    """The rows of a search in the layout of its loops, and its steps."""

    def __init__(
        self,
        parts: Parts,
        prior: Prior,
        settings: FitSettings,
        streams: tuple[np.random.Generator, ...],
        n_jobs: int | None,
    ):
        sample, start, network = streams
        self._parts, self._prior, self._settings = parts, prior, settings
        self._n_jobs = n_jobs
        X, weights = parts.train.X, parts.train.weights
        # a network does this itself
        deep = len(settings.stein.n_hidden) > 0
        self._centre = np.zeros(X.shape[1])
        if not deep:
            self._centre = np.average(X, axis=0, weights=weights)
        n, largest = len(weights), settings.n_learning_rows
        self.all_rows_learn = len(parts.all.y) <= largest
        chosen = np.sort(sample.permutation(n)[:largest])
        self._rows = self._wave_rows(parts.train.take(chosen))
        self._validation = self._validation_rows(parts.held_out)
        R = settings.n_frequencies
        if R == "auto":
            R = enough_frequencies(self._learning_prior(), self._rows, start)
        M, d = settings.stein.n_components, X.shape[1]
        self._start = starting_waves(self._learning_prior(), M, R, d, start)
        if settings.stein.spectral_prior == "auto" and settings.stein.max_iter > 0:
            warn_without_prior(prior.kernel, self._start, len(self._rows.y))
        if deep:
            self._start = self._start._replace(warp=self._network(network))

    def _network(self, rng: np.random.Generator) -> NetworkWarp:
        stein, rows = self._settings.stein, self._parts.train
        hidden = tuple(int(size) for size in stein.n_hidden)
        unit = self._start.length_scale
        return NetworkWarp.start(
            hidden, stein.activation, rows.X, rows.weights, unit, rng
        )

    def _wave_rows(self, rows: Rows) -> WaveRows:
        # phases stay small around the centre; the distribution of waves is the same
        return WaveRows.of(rows.X - self._centre, rows.y, rows.weights)

    def _validation_rows(self, rows: Rows | None) -> ValidationRows | None:
        if rows is None:
            return None
        points, y, weights, _ = self._wave_rows(rows)
        return ValidationRows(points, y, weights)

    def record(self) -> SearchRecord:
        """Which rows chose what."""
        refit = self._settings.refit and self.all_rows_learn
        held, parts = self._parts.held_out, self._parts
        learned = parts.all if held is not None and refit else self._rows
        return self._prior.record._replace(
            distinct_rows=len(parts.all.y),
            rows_that_moved_frequencies=len(learned.y),
            errors_that_tempered=0 if held is None else len(held.y),
        )

    def learned(self, report: Report) -> Learning:
        """Frequencies learned from rows that are not held out."""
        units = self._parts.shift, self._parts.scale

        def stop(learning: Learning) -> bool:
            def state() -> SteinState:
                how = self._prior.kernel, self._parts.train, *units, self._n_jobs
                return SteinState.of(learning.mixture, *how)

            return report(state, learning)

        how = self._prior.kernel, self._settings.stein, self._validation, self._n_jobs
        return learn(self._rows, self._start, *how, stop)

    def refined(self, mixture: WaveMixture) -> WaveMixture:
        """Frequencies after some more steps, by all rows."""
        rows, stein = self._wave_rows(self._parts.all), self._settings.stein
        shorter = stein._replace(
            max_iter=int(np.ceil(REFINED * stein.max_iter)),
            learning_rate=REFINED_RATE * stein.learning_rate,
            early_stopping=False,
        )
        how = self._prior.kernel, shorter, None, self._n_jobs
        return learn(rows, mixture, *how, lambda _: False).mixture

    def _learning_prior(self) -> Prior:
        """Prior with the noise that frequencies learn with.

        Next to no noise is more than a few waves can do: their evidence is then that of
        the rows they miss most, and the steepest of functions.
        """
        if self._settings.noise_variance is not None:
            return self._prior
        noise = max(self._prior.noise_variance, LEAST_NOISE)
        return self._prior._replace(noise_variance=noise)

    def _noises(self, mixture: WaveMixture) -> list[float]:
        """Noise variances to choose from: that of the prior, and that of learning."""
        if self._settings.stein.learned_scales == "all":
            return [mixture.noise_variance]
        return sorted({self._prior.noise_variance, mixture.noise_variance})

    def default_noise_and_scale(self, mixture: WaveMixture) -> tuple[float, float]:
        """Noise variance, and factor of the variances, where no rows were held out."""
        return self._noises(mixture)[0], 1.0

    def noise_and_variance_scale(self, mixture: WaveMixture) -> tuple[float, float]:
        """Noise variance, and factor of the variances, that held-out rows choose."""
        assert self._validation is not None
        validation = self._validation.warped(mixture.warp)
        centred = self._parts.train._replace(X=self._parts.train.X - self._centre)
        sums = sums_of(mixture, centred, self._n_jobs)
        scores = []
        for noise in self._noises(mixture):
            posteriors = [posterior(statistics, noise) for statistics in sums]
            moments = [
                validation.moments(
                    mixture.waves(k), own.mean[:, 0], own.root[0] @ own.root[0].T
                )
                for k, own in enumerate(posteriors)
            ]
            scores.append((validation.score(moments, noise), noise))
        score, noise = max(scores, key=lambda pair: pair[0].density)
        return noise, score.variance_scale
