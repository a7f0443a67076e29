"""A fit from rows to waves and their sums, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._callbacks import StageClock
from skgpx._numerics.regression import posterior
from skgpx._numerics.wave_evidence import WaveRows
from skgpx._selection import PriorSettings, SearchRecord, fit_prior
from skgpx._stein._learning import (
    DescentSettings,
    Learning,
    ValidationRows,
    has_score,
    learn,
)
from skgpx._stein._warp import NetworkWarp
from skgpx._stein._waves import (
    SteinState,
    WaveMixture,
    enough_frequencies,
    starting_waves,
    sums_of,
)
from skgpx._validation import Rows, standardisation
from skgpx.diagnostics import Finding
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Share of the rows that "auto" holds out, the largest number of these, and the fewest
# rows of which it holds any out.
HELD_OUT, MAX_HELD_OUT, MIN_ROWS = 0.15, 2000, 50
# Smallest noise variance of the standardised y with which frequencies learn: next to
# no noise is more than a few waves can do, and their evidence is then that of the rows
# they miss most.
LEAST_NOISE = 2e-4
# Steps and rate with which all rows move frequencies last, in those of before.
REFINED, REFINED_RATE = 0.1, 0.5

Report = Callable[[Callable[[], SteinState], Learning], bool]


class SteinSettings(NamedTuple):
    """Parameters of a fit; see `SteinRFFRegressor`."""

    kernel: Any
    n_components: int
    n_frequencies: int | str
    repulsion: float | None
    max_iter: int
    learning_rate: float
    hidden_layer_sizes: tuple[int, ...]
    optimizer: str | None
    noise_variance: float | None
    validation_fraction: float | str
    early_stopping: bool
    n_learning_rows: int
    normalize_y: bool
    n_jobs: int | None

    @classmethod
    def of(cls, estimator: Any) -> SteinSettings:
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))


class SteinFit(NamedTuple):
    """A finished fit.

    Attributes
    ----------
    state : SteinState
    learning : Learning
        Of the search that held rows out, where there was one.
    variance_scale : float
        Factor of prior and noise variance, fitted to validation rows; otherwise one.
    record : SearchRecord
        Rows used for hyperparameters, frequencies and variance scale.
    findings : list of Finding
    """

    state: SteinState
    learning: Learning
    variance_scale: float
    record: SearchRecord
    findings: list[Finding | None]


class Parts(NamedTuple):
    """Training and validation rows; y standardised by the former."""

    all: Rows
    train: Rows
    validation: Rows | None
    shift: float
    scale: float


def fit_stein(
    rows: Rows,
    settings: SteinSettings,
    rng: np.random.Generator,
    clock: StageClock,
    report: Report,
) -> SteinFit:
    """Prior, frequencies, variance scale and sums.

    Parameters
    ----------
    rows : Rows
        In canonical order.
    settings : SteinSettings
    rng : numpy.random.Generator
    clock : StageClock
    report : callable
        Called after each round with a function that returns the current state; learning
        stops if it returns True.
    """
    split, search, sample, start, network = rng.spawn(5)
    parts = split_rows(rows, settings, split)
    kernel, noise, record = learn_prior(parts, settings, search)
    clock.end_of("search")
    learner = _Learner(parts, kernel, noise, settings, (sample, start, network))
    learning = learner.learned(report)
    clock.end_of("frequencies")
    mixture, variance_scale = learning.mixture, 1.0
    if parts.validation is not None:
        noise, variance_scale = learner.noise_and_variance_scale(mixture)
        mixture = learner.refined(mixture)
        clock.end_of("temper")
    mixture = mixture._replace(noise_variance=noise).scaled(variance_scale)
    units = parts.shift, parts.scale
    state = SteinState.of(mixture, kernel, parts.all, *units, settings.n_jobs)
    found = learner.record(record), [learner.few_rows()]
    return SteinFit(state, learning, variance_scale, *found)


def split_rows(rows: Rows, settings: SteinSettings, rng: np.random.Generator) -> Parts:
    """Hold out a share of the distinct rows, drawn at random."""
    n = len(rows.y)
    count = validation_rows(settings.validation_fraction, n)
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


def validation_rows(share: float | str, n: int) -> int:
    """How many of n rows are held out; at least one is left."""
    if share == "auto":
        return min(round(HELD_OUT * n), MAX_HELD_OUT) if n >= MIN_ROWS else 0
    return min(int(np.ceil(float(share) * n)), n - 1)


def learn_prior(
    parts: Parts, settings: SteinSettings, rng: np.random.Generator
) -> tuple[Any, float, SearchRecord]:
    """Kernel and noise of the standardised y, by the evidence of training rows."""
    rows, kernel, noise = parts.train, settings.kernel, settings.noise_variance
    noise = None if noise is None else noise / parts.scale**2
    likelihood = Gaussian(noise).prepare(rows.y, rows.weights)
    if kernel is None and settings.optimizer is None:
        kernel = default_kernel(rows.X, rows.weights)
    how = PriorSettings(kernel, "gp", settings.optimizer, 1, "greedy", None)
    found = fit_prior(rows, likelihood, how, rng)
    return found.kernel, float(found.likelihood.variance(0.0)), found.record


class _Learner:
    """The rows of a search in the layout of its loops, and its steps."""

    def __init__(
        self,
        parts: Parts,
        kernel: Any,
        noise_variance: float,
        settings: SteinSettings,
        streams: tuple[np.random.Generator, ...],
    ):
        sample, start, network = streams
        self._parts, self._kernel, self._settings = parts, kernel, settings
        self._noise = noise_variance
        X, weights = parts.train.X, parts.train.weights
        # a network does this itself
        deep = len(settings.hidden_layer_sizes) > 0
        self._centre = np.zeros(X.shape[1])
        if not deep:
            self._centre = np.average(X, axis=0, weights=weights)
        n, largest = len(weights), settings.n_learning_rows
        self._all_rows_learn = len(parts.all.y) <= largest
        chosen = np.sort(sample.permutation(n)[:largest])
        self._rows = self._wave_rows(parts.train.take(chosen))
        self._validation = None
        if parts.validation is not None:
            points, y, held_weights, _ = self._wave_rows(parts.validation)
            self._validation = ValidationRows(points, y, held_weights)
        learning_noise = noise_variance
        if settings.noise_variance is None:
            learning_noise = max(noise_variance, LEAST_NOISE)
        R = settings.n_frequencies
        if R == "auto":
            R = enough_frequencies(kernel, learning_noise, self._rows, start)
        shape = settings.n_components, int(R), X.shape[1]
        self._start = starting_waves(kernel, learning_noise, shape, start)
        if deep:
            hidden = tuple(int(size) for size in settings.hidden_layer_sizes)
            unit = self._start.length_scale
            warp = NetworkWarp.start(hidden, X, weights, unit, network)
            self._start = self._start._replace(warp=warp)

    def _wave_rows(self, rows: Rows) -> WaveRows:
        # phases stay small around the centre; the distribution of waves is the same
        return WaveRows.of(rows.X - self._centre, rows.y, rows.weights)

    def few_rows(self) -> Finding | None:
        """More frequencies than rows, without a prior."""
        _, R, d = self._start.frequencies.shape
        few = len(self._rows.y) < R * d and self._settings.max_iter > 0
        if not few or has_score(self._kernel, d):
            return None
        return Finding(
            "frequencies without a prior",
            f"{R} frequencies in {d} dimensions are learned from {len(self._rows.y)} "
            f"rows without a prior, as the spectral density of {self._kernel!r} has no "
            "known slope: they are likely to fit noise. Use max_iter=0, or a kernel "
            "with a density (see skgpx.kernels.register_kernel).",
        )

    def record(self, record: SearchRecord) -> SearchRecord:
        """Which rows chose what."""
        held, parts = self._parts.validation, self._parts
        refined = held is not None and self._all_rows_learn
        return record._replace(
            distinct_rows=len(parts.all.y),
            rows_that_moved_frequencies=len((parts.all if refined else self._rows).y),
            errors_that_tempered=0 if held is None else len(held.y),
        )

    def learned(self, report: Report) -> Learning:
        """Frequencies learned from training rows."""
        parts, n_jobs = self._parts, self._settings.n_jobs

        def stop(learning: Learning) -> bool:
            def state() -> SteinState:
                how = self._kernel, parts.train, parts.shift, parts.scale, n_jobs
                return SteinState.of(learning.mixture, *how)

            return report(state, learning)

        how = self._descent(), self._validation, n_jobs, stop
        return learn(self._rows, self._start, self._kernel, *how)

    def refined(self, mixture: WaveMixture) -> WaveMixture:
        """Frequencies after some more steps, by all rows unless they are too many."""
        if not self._all_rows_learn:
            return mixture
        rows, descent = self._wave_rows(self._parts.all), self._descent()
        descent = descent._replace(
            max_iter=int(np.ceil(REFINED * descent.max_iter)),
            learning_rate=REFINED_RATE * descent.learning_rate,
            early_stopping=False,
        )
        how = descent, None, self._settings.n_jobs, lambda _: False
        return learn(rows, mixture, self._kernel, *how).mixture

    def _descent(self) -> DescentSettings:
        names = DescentSettings._fields
        return DescentSettings(*(getattr(self._settings, name) for name in names))

    def noise_and_variance_scale(self, mixture: WaveMixture) -> tuple[float, float]:
        """Noise variance, and factor of the variances, that validation rows choose.

        The noise is that of the prior or that of learning.
        """
        assert self._validation is not None
        validation = self._validation.warped(mixture.warp)
        centred = self._parts.train._replace(X=self._parts.train.X - self._centre)
        sums = sums_of(mixture, centred, self._settings.n_jobs)
        scores = []
        for noise in sorted({self._noise, mixture.noise_variance}):
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
