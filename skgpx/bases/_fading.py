"""Correlations that fade with the distance from where a process is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import KernelSections
from skgpx._numerics.fourier_index import Box, Integers
from skgpx.bases._fourier_series import BoxFourierFeatures
from skgpx.kernels import expand

Array = NDArray[np.float64]


class Fading(Protocol):
    """Correlation of a process at two points, by the step between them."""

    def values(self, steps: Array) -> Array:
        """Correlations at steps (n, d), shape (n,); one at zero."""

    def slopes(self, steps: Array) -> Array:
        """Their gradients in the steps, shape (n, d)."""


def constant_variance(kernel: Any) -> float:
    """Variance of the constant part of a kernel."""
    return float(sum(t.coefficient for t in expand(kernel) if not t.factors))


@dataclass(frozen=True)
class KernelFading:
    """Correlation of a stationary kernel, less a constant part.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    level : float
        Variance of the constant part. If there is nothing else, all correlations are
        zero.
    """

    kernel: Any
    level: float

    def values(self, steps: Array) -> Array:
        """Correlations at steps (n, d), shape (n,); one at zero."""
        total = self._variance(steps.shape[1])
        if not total > 0.0:
            return np.zeros(len(steps))
        sections = self._sections(steps.shape[1])
        found: Array = (sections(steps)[:, 0] - self.level) / total
        return np.clip(found, -1.0, 1.0)

    def slopes(self, steps: Array) -> Array:
        """Gradients of the correlations in the steps, shape (n, d).

        Raises
        ------
        ValueError
            If the kernel has no known derivative in its inputs.
        """
        total = self._variance(steps.shape[1])
        if not total > 0.0:
            return np.zeros(steps.shape)
        sections = self._sections(steps.shape[1])
        index = np.zeros(len(steps), np.intp)
        return sections.pairs(steps, np.ones((1, 1)), index)[1] / total

    def _sections(self, d: int) -> KernelSections:
        return KernelSections(self.kernel, np.zeros((1, d)))

    def _variance(self, d: int) -> float:
        variance = float(self.kernel.diag(np.zeros((1, d)))[0])
        left = variance - self.level
        return left if left > 1e-12 * variance else 0.0


@dataclass(frozen=True)
class SeriesFading:
    """Correlation of a periodic prior up to half a period, and a taper.

    ``c(clip(τ, -½, ½)) (1 - |τ|)₊³ (1 + 3|τ|)`` at τ periods, with c the correlation
    of the periodic process: it is zero from a period on.

    Parameters
    ----------
    period : ndarray of shape (d,)
    waves : ndarray of shape (R, d)
    power : ndarray of shape (R,)
        Variance of each wave.
    """

    period: Array
    waves: Integers
    power: Array

    @cached_property
    def _features(self) -> BoxFourierFeatures:
        d = len(self.period)
        return BoxFourierFeatures(Box(np.zeros(d), np.ones(d)), self.waves)

    @cached_property
    def _weights(self) -> Array:
        """Coefficients of cosines and sines, shape (2 R, 1)."""
        cosines = self.power / np.sum(self.power)
        return np.concatenate((cosines, np.zeros_like(cosines)))[:, np.newaxis]

    def values(self, steps: Array) -> Array:
        """Correlations at steps (n, d), shape (n,); one at zero."""
        turns, length = self._turns(steps)
        out = np.zeros((len(steps), 1))
        near = length < 1.0
        part = np.zeros((int(near.sum()), 1))
        self._features.contract(np.clip(turns[near], -0.5, 0.5), self._weights, part)
        out[near] = part
        return np.clip(out[:, 0], -1.0, 1.0) * _taper(length)

    def slopes(self, steps: Array) -> Array:
        """Gradients of the correlations in the steps, shape (n, d)."""
        turns, length = self._turns(steps)
        inside = np.abs(turns) < 0.5
        value, slope = self._features.pairs(
            np.clip(turns, -0.5, 0.5), self._weights.T, np.zeros(len(steps), np.intp)
        )
        taper, fall = _taper(length), -12.0 * np.maximum(1.0 - length, 0.0) ** 2
        # d taper / dτ = -12 (1 - |τ|)² τ
        total = (slope * inside) * taper[:, np.newaxis]
        total += (value * fall)[:, np.newaxis] * turns
        return total / self.period

    def _turns(self, steps: Array) -> tuple[Array, Array]:
        """Steps in periods, no longer than one, and their lengths."""
        turns = np.clip(steps / self.period, -1.0, 1.0)
        return turns, np.linalg.norm(turns, axis=1)


def _taper(length: Array) -> Array:
    """``(1 - r)₊³ (1 + 3 r)``, with two continuous derivatives."""
    taper: Array = np.maximum(1.0 - length, 0.0) ** 3 * (1.0 + 3.0 * length)
    return taper
