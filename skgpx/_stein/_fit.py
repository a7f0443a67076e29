"""A fit from rows to waves and their sums, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._callbacks import StageClock
from skgpx._numerics.regression import posterior
from skgpx._numerics.wave_evidence import WaveRows
from skgpx._selection import Hyperparameters, SearchRecord, learn_prior
from skgpx._stein._learning import (
    DescentSettings,
    Learning,
    ValidationRows,
    has_score,
    learn,
)
from skgpx._stein._start import (
    enough_frequencies,
    peaks,
    residuals,
    starting_waves,
    with_peaks,
    without_peaks,
)
from skgpx._stein._waves import NetworkWarp, SteinState, WaveMixture, sums_of
from skgpx._validation import Rows, standardisation
from skgpx.diagnostics import Finding, residual_autocorrelation
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
    split, *streams = rng.spawn(5)
    parts = split_rows(rows, settings, split)
    learner = _Learner(parts, settings, streams, clock)
    learning = learner.learned(report)
    clock.end_of("frequencies")
    mixture, noise, variance_scale = learning.mixture, learner.noise_variance, 1.0
    findings = [*learner.findings, learner.few_rows()]
    if parts.validation is not None:
        findings.append(learner.structure(mixture))
        noise, variance_scale = learner.noise_and_variance_scale(mixture)
        mixture = learner.refined(mixture)
        clock.end_of("calibration")
    mixture = mixture._replace(noise_variance=noise).scaled(variance_scale)
    units = parts.shift, parts.scale
    state = SteinState.of(mixture, learner.kernel, parts.all, *units, settings.n_jobs)
    return SteinFit(state, learning, variance_scale, learner.record(), findings)


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


class _Learner:
    """The rows of a search in the layout of its loops, and its steps.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
        Of the prior, for the standardised y.
    findings : list of Finding
        Of the search for the prior, unless waves stand out of what it found.
    """

    def __init__(
        self,
        parts: Parts,
        settings: SteinSettings,
        streams: list[np.random.Generator],
        clock: StageClock,
    ):
        search, sample, start, network = streams
        self._parts, self._settings = parts, settings
        train, weights = parts.train, parts.train.weights
        # a network does this itself
        deep = len(settings.hidden_layer_sizes) > 0
        self._centre = np.zeros(train.X.shape[1])
        if not deep:
            self._centre = np.average(train.X, axis=0, weights=weights)
        n, largest = len(weights), settings.n_learning_rows
        self._all_rows_learn = len(parts.all.y) <= largest
        chosen = np.sort(sample.permutation(n)[:largest])
        self._rows = self._wave_rows(train.take(chosen))
        self._validation = None
        if parts.validation is not None:
            points, y, held_weights, _ = self._wave_rows(parts.validation)
            self._validation = ValidationRows(points, y, held_weights)
        self._found = self._prior(train, search)
        self.findings = list(self._found.findings)
        self._start = self._starting(start)
        if not deep and settings.max_iter > 0:
            found = peaks(self._rows, self._start.waves(0))
            if len(found.amplitudes):
                self.findings = []
                rest = train._replace(y=without_peaks(self._wave_rows(train), found))
                self._found = self._prior(rest, search)
                self._start = with_peaks(self._starting(start), found)
        clock.end_of("search")
        if deep:
            hidden = tuple(int(size) for size in settings.hidden_layer_sizes)
            unit = self._start.length_scale
            warp = NetworkWarp.start(hidden, train.X, weights, unit, network)
            self._start = self._start._replace(warp=warp)

    @property
    def kernel(self) -> Any:
        return self._found.kernel

    @property
    def noise_variance(self) -> float:
        return float(self._found.likelihood.variance(0.0))

    def _starting(self, rng: np.random.Generator) -> WaveMixture:
        """Quasi-random waves of the kernel."""
        settings, noise = self._settings, self.noise_variance
        if settings.noise_variance is None:
            noise = max(noise, LEAST_NOISE)
        R = settings.n_frequencies
        if R == "auto":
            R = enough_frequencies(self.kernel, noise, self._rows, rng)
        shape = settings.n_components, int(R), len(self._centre)
        return starting_waves(self.kernel, noise, shape, rng)

    def _prior(self, rows: Rows, rng: np.random.Generator) -> Hyperparameters:
        """Kernel and noise of the standardised y."""
        settings, noise = self._settings, self._settings.noise_variance
        noise = None if noise is None else noise / self._parts.scale**2
        likelihood = Gaussian(noise).prepare(rows.y, rows.weights)
        learn = settings.optimizer is not None
        return learn_prior(rows, likelihood, rng, kernel=settings.kernel, learn=learn)

    def _wave_rows(self, rows: Rows) -> WaveRows:
        # phases stay small around the centre; the distribution of waves is the same
        return WaveRows.of(rows.X - self._centre, rows.y, rows.weights)

    def few_rows(self) -> Finding | None:
        """More frequencies than rows, without a prior."""
        _, R, d = self._start.frequencies.shape
        few = len(self._rows.y) < R * d and self._settings.max_iter > 0
        if not few or has_score(self.kernel, d):
            return None
        return Finding(
            "frequencies without a prior",
            f"{R} frequencies in {d} dimensions are learned from {len(self._rows.y)} "
            f"rows without a prior, as the spectral density of {self.kernel!r} has no "
            "known slope: they are likely to fit noise. Use max_iter=0, or a kernel "
            "with a density (see skgpx.kernels.register_kernel).",
        )

    def structure(self, mixture: WaveMixture) -> Finding | None:
        """Whether the mean of the components misses structure of rows that learn."""
        points, y = self._rows.points, self._rows.y
        if mixture.warp is not None:
            points = np.ascontiguousarray(mixture.warp(points.T).T)
        rows = WaveRows.of(points.T, y, self._rows.weights)
        each = map(mixture.waves, range(len(mixture.frequencies)))
        errors = np.mean([residuals(rows, waves) for waves in each], axis=0)
        return residual_autocorrelation(self._rows.points.T, errors, float(np.var(y)))

    def record(self) -> SearchRecord:
        """Which rows chose what."""
        held, parts = self._parts.validation, self._parts
        refined = held is not None and self._all_rows_learn
        return self._found.record._replace(
            distinct_rows=len(parts.all.y),
            frequency_rows=len((parts.all if refined else self._rows).y),
            calibration_rows=0 if held is None else len(held.y),
        )

    def learned(self, report: Report) -> Learning:
        """Frequencies learned from training rows."""
        parts, n_jobs = self._parts, self._settings.n_jobs

        def stop(learning: Learning) -> bool:
            def state() -> SteinState:
                how = self.kernel, parts.train, parts.shift, parts.scale, n_jobs
                return SteinState.of(learning.mixture, *how)

            return report(state, learning)

        how = self._descent(), self._validation, n_jobs, stop
        return learn(self._rows, self._start, self.kernel, *how)

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
        return learn(rows, mixture, self.kernel, *how).mixture

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
        for noise in sorted({self.noise_variance, mixture.noise_variance}):
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
