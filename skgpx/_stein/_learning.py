"""Stein descent on the evidence: validation rows, prior of the frequencies, steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.svgd import bandwidths, pooled_force
from skgpx._numerics.variance_scale import fit_scale
from skgpx._numerics.wave_evidence import (
    WaveGradient,
    WaveRows,
    Waves,
    WaveSpace,
    wave_gradient,
)
from skgpx._parallel import Workers, workers
from skgpx._stein._waves import NetworkWarp, WaveMixture
from skgpx.kernels import spectral_score
from skgpx.likelihoods import Gaussian

# ---- Validation rows, and the score of a mixture there -------------------------------


Array = NDArray[np.float64]

# Rows whose features are in memory at a time.
_BLOCK = 2048
# Between which logarithms the factor of the variances is searched.
_LOG_SCALES = (-2.0, 9.0)


class ValidationScore(NamedTuple):
    """Score of a mixture at validation rows.

    Attributes
    ----------
    density : float
        Mean log density in nats per observation, at the best variance scale.
    variance_scale : float
        Factor of prior and noise variance with the highest density, shrunk towards
        one by its standard error.
    """

    density: float
    variance_scale: float


class ValidationRows(NamedTuple):
    """Held-out rows.

    Attributes
    ----------
    points : ndarray of shape (d, n)
        Inputs, transposed.
    y, weights : ndarray of shape (n,)
    """

    points: Array
    y: Array
    weights: Array

    def warped(self, warp: NetworkWarp | None) -> ValidationRows:
        """Rows mapped by the network."""
        if warp is None:
            return self
        return self._replace(points=np.ascontiguousarray(warp(self.points.T).T))

    def moments(self, waves: Waves, mean: Array, covariance: Array) -> Array:
        """Mean and variance of f under one set of waves, (2, n).

        `mean` (m,) and `covariance` (m, m) are those of the weights.
        """
        parts = []
        for first in range(0, len(self.y), _BLOCK):
            points = self.points[:, first : first + _BLOCK]
            features = waves.features(np.ascontiguousarray(points))
            variance = np.einsum("mn,mn->n", features, covariance @ features)
            parts.append(np.stack((mean @ features, variance)))
        return np.concatenate(parts, axis=1)

    def score(self, moments: list[Array], noise_variance: float) -> ValidationScore:
        """Density of the mixture at the best scale of its variances."""
        stacked = np.stack(moments, axis=-1)
        shares = np.full(len(moments), 1.0 / len(moments))

        def loss(log_scale: float) -> float:
            factor = float(np.exp(log_scale))
            mixture = LatentMixture(
                stacked[0][:, np.newaxis], factor * stacked[1][:, np.newaxis], shares
            )
            likelihood = Gaussian(factor * noise_variance).prepare([0.0])
            density = likelihood.predictive_log_density(self.y, mixture)
            return -float(np.average(density, weights=self.weights))

        found = optimize.minimize_scalar(
            loss, bounds=_LOG_SCALES, method="bounded", options={"xatol": 0.01}
        )
        factor = float(np.exp(found.x))
        # means of components differ by what no factor changes
        variances = np.mean(stacked[1], axis=1) + noise_variance
        variances += np.var(stacked[0], axis=1) / factor
        squares = (self.y - np.mean(stacked[0], axis=1)) ** 2
        shrunk = fit_scale(squares, variances, self.weights)
        return ValidationScore(-float(found.fun), shrunk)


# ---- The spectral density of the kernel as a prior of the frequencies ----------------


def prior_weight(kernel: Any, start: WaveMixture, n_rows: float) -> float:
    """Weight of the log spectral density beside the log evidence.

    ``R d / (R d + n)`` is the share of the frequencies of a component among these and
    the rows: few rows cannot identify many frequencies. Zero for kernels without a
    known score, such as periodic ones.
    """
    _, R, d = start.frequencies.shape
    return R * d / (R * d + n_rows) if has_score(kernel, d) else 0.0


def has_score(kernel: Any, d: int) -> bool:
    """Whether the slope of the log spectral density is known."""
    try:
        spectral_score(kernel, np.ones((1, d)))
    except ValueError:
        return False
    return True


# Steepest slope of the prior, in lengthscales: a wave that data ask for stays.
_STEEPEST = 5.0


def prior_slope(mixture: WaveMixture, kernel: Any) -> Array:
    """Slope of the log spectral density in Ω, (M, R, d)."""
    shape, scale = mixture.frequencies.shape, mixture.length_scale
    omega = (mixture.frequencies / scale).reshape(-1, shape[-1])
    slope = spectral_score(kernel, omega).reshape(shape) / scale
    return np.clip(slope, -_STEEPEST, _STEEPEST)


# ---- One step of learning: forces on frequencies and network, and Adam ---------------


Pullback = Callable[[Array], Array]


class DescentSettings(NamedTuple):
    """How frequencies move; see `SteinRFFRegressor`."""

    repulsion: float | None
    max_iter: int
    learning_rate: float
    early_stopping: bool


# Rate of the network, in that of the frequencies, and weight of its log prior.
_NETWORK_RATE, _NETWORK_PENALTY = 0.025, 0.3


class Descent:
    """What moves a mixture, with the running means of Adam.

    Parameters
    ----------
    start : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
        Whose spectral density is the prior of frequencies.
    settings : DescentSettings
    rows : WaveRows
        That learn.
    """

    def __init__(
        self, start: WaveMixture, kernel: Any, settings: DescentSettings, rows: WaveRows
    ):
        self._kernel, self._settings = kernel, settings
        self._prior_weight = prior_weight(kernel, start, float(rows.weights.sum()))
        self._paces = paces(start.length_scale, rows)
        self._waves = np.zeros((2, *start.frequencies.shape))
        n_network = 0 if start.warp is None else len(start.warp.parameters)
        self._network = np.zeros((2, n_network))

    def step(
        self,
        mixture: WaveMixture,
        found: list[WaveGradient],
        pullback: Pullback | None,
        step: int,
    ) -> None:
        """Move frequencies and network, in place."""
        slopes = np.stack([g.frequencies for g in found]) / mixture.length_scale
        if self._prior_weight > 0.0:
            slopes += self._prior_weight * prior_slope(mixture, self._kernel)
        repulsion, omega = self._settings.repulsion, mixture.frequencies
        if repulsion is None:
            force = slopes
        else:
            force = pooled_force(omega, slopes, bandwidths(omega), repulsion)
        slow = omega / self._paces
        self._adam(slow, force, self._waves, step)
        np.multiply(slow, self._paces, out=omega)
        if mixture.warp is not None and pullback is not None:
            slope = pullback(np.mean([g.inputs for g in found], axis=0))
            slope += _NETWORK_PENALTY * mixture.warp.prior_slope()
            parameters = mixture.warp.parameters
            self._adam(parameters, slope, self._network, step, _NETWORK_RATE)

    def _adam(
        self, values: Array, force: Array, means: Array, step: int, rate: float = 1.0
    ) -> None:
        """Move some values along a force, in place."""
        settings = self._settings
        rate *= cosine_decay(step, settings.max_iter, settings.learning_rate)
        adam_step(values, -force, means[0], means[1], step + 1, rate)


def paces(length_scale: Array, rows: WaveRows) -> Array:
    """Rates of the frequencies of each input, in the learning rate, (d,).

    Frequencies come in units of ``1 / ℓ``, and the evidence has peaks as narrow as
    ``1 / std``: an input that is wide for its lengthscale gets steps in that unit.
    """
    centred = rows.points - np.average(
        rows.points, axis=1, weights=rows.weights, keepdims=True
    )
    std = np.sqrt(np.average(centred**2, axis=1, weights=rows.weights))
    ratios = np.divide(length_scale, std, out=np.ones_like(std), where=std > 0.0)
    return np.minimum(ratios, 1.0)


# ---- Frequencies moved by Stein variational gradient descent (Algorithm 1) -----------


# Steps of a round; after each, validation rows are scored and callbacks run.
ROUND = 10
# Learning ends where the score of so many rounds is at most this many nats per
# observation above that of all rounds before.
_PATIENCE, _TOLERANCE = 4, 0.01
# Operations of a step of one component, some 70 ms, that are worth sending to another
# process: a round of tasks on a cluster takes as long.
_WORTH_SENDING = 2e9


@dataclass
class Learning:
    """Where learning is.

    Parameters
    ----------
    mixture : WaveMixture
        As it is; its frequencies and its network are moved in place.
    loss_curve : list of float
        Mean negative log evidence of the components, in nats per observation, before
        each step.
    validation_curve : list of ValidationScore
        At the beginning of each round.
    n_iter : int
        Steps that led to the mixture.
    """

    mixture: WaveMixture
    loss_curve: list[float] = field(default_factory=list)
    validation_curve: list[ValidationScore] = field(default_factory=list)
    n_iter: int = 0

    def improves(self) -> bool:
        """Whether the score still improves.

        The score is the density of validation rows, or without such rows the evidence.
        """
        scores = [score.density for score in self.validation_curve]
        scores = scores or [-loss for loss in self.loss_curve[::ROUND]]
        before, recent = scores[:-_PATIENCE], scores[-_PATIENCE:]
        return not before or max(recent) > max(before) + _TOLERANCE


def learn(
    rows: WaveRows,
    start: WaveMixture,
    kernel: Any,
    settings: DescentSettings,
    validation: ValidationRows | None,
    n_jobs: int | None,
    stop: Callable[[Learning], bool],
) -> Learning:
    """Move frequencies and network by the evidence of the rows.

    Parameters
    ----------
    rows : WaveRows
        Without the validation rows.
    start : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
        Whose spectral density is the prior of frequencies.
    settings : DescentSettings
    validation : ValidationRows or None
        Held-out rows.
    n_jobs : int or None
        Workers over components, in threads where a step is short; the same bits for
        every number.
    stop : callable
        Called after each round; learning stops if it returns True.

    Notes
    -----
    A step costs ``3 n m² + m³`` operations a component and ``(M R)² d`` for the force.
    """
    state, total = Learning(start.copied()), float(rows.weights.sum())
    descent = Descent(state.mixture, kernel, settings, rows)
    # what a network makes of the rows would have to be sent in every step
    operations = 3.0 * len(rows.y) * (2 * start.frequencies.shape[1]) ** 2
    short = start.warp is not None or operations < _WORTH_SENDING
    with workers(n_jobs, rows, in_threads=short) as run:
        spaces: list[WaveSpace] = []
        for step in range(settings.max_iter + 1):
            last = step == settings.max_iter
            if last and validation is None:
                break
            scored = validation if last or step % ROUND == 0 else None
            found, pullback = _gradients(rows, state.mixture, spaces, run, scored)
            if scored is not None:
                score = _validation_score(scored, state.mixture, found)
                state.validation_curve.append(score)
            if last:
                break
            loss = -float(np.mean([gradient.value for gradient in found]))
            state.loss_curve.append(loss / total)
            if step > 0 and step % ROUND == 0:
                ends = settings.early_stopping and not state.improves()
                if ends or stop(state):
                    break
            descent.step(state.mixture, found, pullback, step)
            state.n_iter += 1
    return state


def _gradients(
    rows: WaveRows,
    mixture: WaveMixture,
    spaces: list[WaveSpace],
    run: Workers,
    validation: ValidationRows | None,
) -> tuple[list[WaveGradient], Pullback | None]:
    """Gradient of each component, with covariances of the weights for validation rows.

    And what pulls gradients in inputs back to the network, if there is one. `spaces`
    are what threads of this process may use and give back.
    """
    mapped, pullback = None, None
    if mixture.warp is not None:
        inputs, pullback = mixture.warp.with_parameter_pullback(rows.points.T)
        mapped = WaveRows.of(inputs, rows.y, rows.weights)
    waves = map(mixture.waves, range(len(mixture.frequencies)))
    items = ((one, spaces, validation is not None, mapped) for one in waves)
    return run(_gradient, items), pullback


def _gradient(
    rows: WaveRows,
    waves: Waves,
    spaces: list[WaveSpace],
    with_covariance: bool,
    mapped: WaveRows | None,
) -> WaveGradient:
    """Gradient at the rows, or at what a network makes of them."""
    here, inputs = rows if mapped is None else mapped, mapped is not None
    try:
        # the last one that was used is the one in the cache
        space = spaces.pop()
    except IndexError:
        space = waves.workspace(len(here.y))
    found = wave_gradient(here, waves, space, inputs)
    # in the workspace, and the largest part of what another process would send
    covariance = found.covariance.copy() if with_covariance else np.empty((0, 0))
    spaces.append(space)
    return found._replace(covariance=covariance)


def _validation_score(
    validation: ValidationRows, mixture: WaveMixture, found: list[WaveGradient]
) -> ValidationScore:
    validation = validation.warped(mixture.warp)
    moments = [
        validation.moments(mixture.waves(k), gradient.mean, gradient.covariance)
        for k, gradient in enumerate(found)
    ]
    return validation.score(moments, mixture.noise_variance)
