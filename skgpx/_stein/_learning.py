"""Stein descent on the evidence: held-out rows, prior of the frequencies, steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.svgd import bandwidths, component_force, pooled_force
from skgpx._numerics.wave_evidence import (
    WaveGradient,
    WaveRows,
    Waves,
    WaveSpace,
    wave_gradient,
)
from skgpx._parallel import Workers, workers
from skgpx._stein._prior import WaveMixture
from skgpx._stein._settings import BETWEEN_COMPONENTS, KERNEL_CODES, SteinSettings
from skgpx._stein._warp import NetworkWarp
from skgpx._validation import warn
from skgpx.exceptions import FitWarning
from skgpx.kernels import spectral_score
from skgpx.likelihoods import Gaussian

# ---- Validation rows, and the score of a mixture there -------------------------------


Array = NDArray[np.float64]

# Rows whose features are in memory at a time.
_BLOCK = 2048
# Between which logarithms the factor of the variances is searched.
_LOG_SCALES = (-2.0, 9.0)


class ValidationScore(NamedTuple):
    """Score of a mixture at held-out rows.

    Attributes
    ----------
    density : float
        Mean log density in nats per observation, at the best variance scale.
    variance_scale : float
        Factor of prior and noise variance with the highest density.
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
        return ValidationScore(-float(found.fun), float(np.exp(found.x)))


# ---- The spectral density of the kernel as a prior of the frequencies ----------------


def prior_weight(
    value: float | str, kernel: Any, start: WaveMixture, n_rows: float
) -> float:
    """Weight of the log spectral density beside the log evidence.

    "auto" is ``R d / (R d + n)``, the share of the frequencies of a component among
    these and the rows: few rows cannot identify many frequencies. Kernels without a
    known score, such as periodic ones, have no prior then.
    """
    if value != "auto":
        return float(value)
    _, R, d = start.frequencies.shape
    return R * d / (R * d + n_rows) if has_score(kernel, d) else 0.0


def has_score(kernel: Any, d: int) -> bool:
    """Whether the slope of the log spectral density is known."""
    try:
        spectral_score(kernel, np.ones((1, d)))
    except ValueError:
        return False
    return True


def warn_without_prior(kernel: Any, start: WaveMixture, n_rows: int) -> None:
    """Warn if more frequencies than rows are learned without a prior."""
    _, R, d = start.frequencies.shape
    if n_rows >= R * d or has_score(kernel, d):
        return
    warn(
        f"{R} frequencies in {d} dimensions are learned from {n_rows} rows without a "
        f"prior, as the spectral density of {kernel!r} has no known slope: they are "
        "likely to fit noise. Use max_iter=0, or a kernel with a density (see "
        "skgpx.kernels.register_kernel).",
        FitWarning,
    )


def prior_slope(mixture: WaveMixture, kernel: Any) -> Array:
    """Slope of the log spectral density in Ω, (M, R, d)."""
    shape, scale = mixture.frequencies.shape, mixture.length_scale
    omega = (mixture.frequencies / scale).reshape(-1, shape[-1])
    return spectral_score(kernel, omega).reshape(shape) / scale


# ---- One step of learning: forces on frequencies, network and scales, and Adam -------


Pullback = Callable[[Array], Array]

# Rates of the network and of scales, in those of the frequencies.
_NETWORK_RATE, _SCALE_RATE = 0.025, 0.05
# Least pace of the frequencies of an input.
_SLOWEST = 0.5
# Cycles of an annealing schedule.
_CYCLES = 5


class Descent:
    """What moves a mixture, with the running means of Adam.

    Parameters
    ----------
    start : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
        Whose spectral density is the prior of frequencies, if the settings want one.
    settings : SteinSettings
    rows : WaveRows
        That learn.
    """

    def __init__(
        self, start: WaveMixture, kernel: Any, settings: SteinSettings, rows: WaveRows
    ):
        self._start, self._kernel, self._settings = start, kernel, settings
        self._prior_weight = prior_weight(
            settings.spectral_prior, kernel, start, float(rows.weights.sum())
        )
        self._paces = paces(start.length_scale, rows)
        # logarithms of factors of the lengthscales, of prior and of noise variance
        self._scales = np.zeros(len(start.length_scale) + 2)
        moved = [start.frequencies, self._scales]
        if start.warp is not None:
            moved.append(start.warp.parameters)
        self._means = [(np.zeros(a.shape), np.zeros(a.shape)) for a in moved]

    def moved(
        self,
        mixture: WaveMixture,
        found: list[WaveGradient],
        pullback: Pullback | None,
        step: int,
    ) -> WaveMixture:
        """Mixture after a step; frequencies and network are moved in place."""
        slopes = np.stack([g.frequencies for g in found]) / mixture.length_scale
        if self._prior_weight > 0.0:
            slopes += self._prior_weight * prior_slope(mixture, self._kernel)
        force = _force(mixture.frequencies, slopes, self._settings, step)
        slow = mixture.frequencies / self._paces
        self._adam(0, slow, force, step)
        np.multiply(slow, self._paces, out=mixture.frequencies)
        if mixture.warp is not None and pullback is not None:
            slope = pullback(np.mean([g.inputs for g in found], axis=0))
            slope += self._settings.network_penalty * mixture.warp.prior_slope()
            self._adam(2, mixture.warp.parameters, slope, step, _NETWORK_RATE)
        learned = self._settings.learned_scales
        if learned == "none":
            return mixture
        slope = np.mean([_scale_slopes(mixture, k, g) for k, g in enumerate(found)], 0)
        if learned == "length_scales":
            slope[-2:] = 0.0
        self._adam(1, self._scales, slope, step, _SCALE_RATE)
        return self._start.rescaled(self._scales)._replace(
            frequencies=mixture.frequencies, warp=mixture.warp
        )

    def _adam(
        self, which: int, values: Array, force: Array, step: int, rate: float = 1.0
    ) -> None:
        """Move some values along a force, in place."""
        settings = self._settings
        rate *= cosine_decay(step, settings.max_iter, settings.learning_rate)
        adam_step(values, -force, *self._means[which], step + 1, rate)


def paces(length_scale: Array, rows: WaveRows) -> Array:
    """Rates of the frequencies of each input, in the learning rate, (d,).

    Frequencies come in units of ``1 / ℓ``, and the evidence has peaks as narrow as
    ``1 / spread``: an input that is wide for its lengthscale gets shorter steps, down
    to a half.
    """
    centred = rows.points - np.average(
        rows.points, axis=1, weights=rows.weights, keepdims=True
    )
    std = np.sqrt(np.average(centred**2, axis=1, weights=rows.weights))
    ratios = np.divide(length_scale, std, out=np.ones_like(std), where=std > 0.0)
    return np.clip(ratios, _SLOWEST, 1.0)


def _scale_slopes(mixture: WaveMixture, component: int, g: WaveGradient) -> Array:
    """Slopes in the logarithms of lengthscales, prior and noise variance, (d + 2,)."""
    lengths = g.log_length_scales(mixture.waves(component).frequencies)
    return np.array([*lengths, g.log_variance, g.log_noise])


def _force(omega: Array, slopes: Array, settings: SteinSettings, step: int) -> Array:
    """Direction in which the frequencies move, (M, R, d); `slopes` is overwritten."""
    if not settings.coupling:
        return slopes
    slopes *= annealed(step, settings.max_iter, settings.annealing)
    repulsion = settings.repulsion
    squares = bandwidths(omega)
    if settings.repulsion_kernel == BETWEEN_COMPONENTS:
        return component_force(omega, slopes, squares, repulsion)
    code = KERNEL_CODES[settings.repulsion_kernel]
    return pooled_force(omega, slopes, squares, repulsion, code)


def annealed(step: int, n_steps: int, power: float | None) -> float:
    """Factor of the slopes: ``(t mod T/5 / (T/5))^p``; one without a power."""
    if power is None:
        return 1.0
    cycle = n_steps / _CYCLES
    return float(((step % cycle) / cycle) ** power)


# ---- Frequencies moved by Stein variational gradient descent (Algorithm 1) -----------


# Steps of a round; after each, held-out rows are scored and callbacks run.
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
    held_out_curve : list of ValidationScore
        At the beginning of each round.
    n_iter : int
        Steps that led to the mixture.
    """

    mixture: WaveMixture
    loss_curve: list[float] = field(default_factory=list)
    held_out_curve: list[ValidationScore] = field(default_factory=list)
    n_iter: int = 0

    def improves(self) -> bool:
        """Whether the score still improves.

        The score is the density of held-out rows, or without such rows the evidence.
        """
        scores = [score.density for score in self.held_out_curve]
        scores = scores or [-loss for loss in self.loss_curve[::ROUND]]
        before, recent = scores[:-_PATIENCE], scores[-_PATIENCE:]
        return not before or max(recent) > max(before) + _TOLERANCE


def learn(
    rows: WaveRows,
    start: WaveMixture,
    kernel: Any,
    settings: SteinSettings,
    validation: ValidationRows | None,
    n_jobs: int | None,
    stop: Callable[[Learning], bool],
) -> Learning:
    """Move frequencies, and what else is learned, by the evidence of the rows.

    Parameters
    ----------
    rows : WaveRows
        Without the validation rows.
    start : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
        Whose spectral density is the prior of frequencies, if the settings want one.
    settings : SteinSettings
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
    short = start.warp is not None or _operations(rows, start) < _WORTH_SENDING
    with workers(n_jobs, rows, in_threads=short) as some:
        spaces: list[WaveSpace] = []
        for step in range(settings.max_iter):
            with_covariance = validation is not None and step % ROUND == 0
            found, pullback = _gradients(
                rows, state.mixture, spaces, some, with_covariance
            )
            loss = -float(np.mean([gradient.value for gradient in found]))
            state.loss_curve.append(loss / total)
            if validation is not None and with_covariance:
                state.held_out_curve.append(
                    _validation_score(validation, state.mixture, found)
                )
            if step > 0 and step % ROUND == 0:
                ends = settings.early_stopping and not state.improves()
                if ends or stop(state):
                    return state
            state.mixture = descent.moved(state.mixture, found, pullback, step)
            state.n_iter += 1
        if validation is not None:
            found, _ = _gradients(rows, state.mixture, spaces, some, True)
            state.held_out_curve.append(
                _validation_score(validation, state.mixture, found)
            )
    return state


def _operations(rows: WaveRows, mixture: WaveMixture) -> float:
    """Operations of a step of one component, ``3 n m²``."""
    m = 2 * mixture.frequencies.shape[1]
    return 3.0 * len(rows.y) * m**2


def _gradients(
    rows: WaveRows,
    mixture: WaveMixture,
    spaces: list[WaveSpace],
    some: Workers,
    with_covariance: bool,
) -> tuple[list[WaveGradient], Pullback | None]:
    """Gradient of each component, with the covariance of the weights if requested.

    And what pulls gradients in inputs back to the network, if there is one. `spaces`
    are what threads of this process may use and give back.
    """
    seen, pullback = None, None
    if mixture.warp is not None:
        mapped, pullback = mixture.warp.with_parameter_pullback(rows.points.T)
        seen = WaveRows.of(mapped, rows.y, rows.weights)
    waves = map(mixture.waves, range(len(mixture.frequencies)))
    items = ((one, spaces, with_covariance, seen) for one in waves)
    return some.each(_gradient, items), pullback


def _gradient(
    rows: WaveRows,
    waves: Waves,
    spaces: list[WaveSpace],
    with_covariance: bool,
    seen: WaveRows | None,
) -> WaveGradient:
    """Gradient at the rows, or at what a network makes of them."""
    here, inputs = rows if seen is None else seen, seen is not None
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
