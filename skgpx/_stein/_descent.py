"""One step of learning: forces on frequencies, network and scales, and Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.svgd import bandwidths, component_force, pooled_force
from skgpx._numerics.wave_evidence import WaveGradient, WaveRows
from skgpx._stein._prior import WaveMixture
from skgpx._stein._settings import BETWEEN_COMPONENTS, KERNEL_CODES, SteinSettings
from skgpx._stein._spectral_prior import prior_slope, prior_weight

Array = NDArray[np.float64]
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
    spread = np.sqrt(np.average(centred**2, axis=1, weights=rows.weights))
    ratios = np.divide(
        length_scale, spread, out=np.ones_like(spread), where=spread > 0.0
    )
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
