"""Kernels of one column whose processes are Markov, as cascades and functions.

Sums of products of a Matern kernel of order 1/2 to 7/2, a periodic one and constants;
of the latter two alone, and of linear functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ive
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    ExpSineSquared,
    Matern,
    Product,
    Sum,
)

from skgpx._numerics.state_space import Cascades
from skgpx._types import Array, Index, Kernel
from skgpx.kernels._columns import Columns
from skgpx.kernels._linear import Linear


class _Summand(NamedTuple):
    """A product of constants and at most one Matern, periodic and linear kernel each.

    Attributes
    ----------
    constants : tuple of int
        Positions of the logarithms of the constants among all scales.
    order : int
        Filters of the Matern kernel, 0 without one.
    length : int
        Position of its lengthscale.
    season : int or None
        Position of the lengthscale of the periodic kernel; its period is the next one.
    slope : int or None
        Position of the slope of the linear function.
    centre : float
        Where that is zero.
    """

    constants: tuple[int, ...] = ()
    order: int = 0
    length: int = -1
    season: int | None = None
    slope: int | None = None
    centre: float = 0.0

    def times(self, other: _Summand) -> _Summand | None:
        """The product; None if it is not Markov, or not known to be."""
        constants = self.constants + other.constants
        for first, second in ((self, other), (other, self)):
            is_constant = second.order == 0 and second.season is None
            if is_constant and second.slope is None:
                return first._replace(constants=constants)
            is_season = second.order == 0 and second.slope is None
            if is_season and first.order > 0 and first.season is None:
                return first._replace(constants=constants, season=second.season)
        return None


class StateSpace(NamedTuple):
    """A kernel of one column as a sum of summands with these scales.

    Attributes
    ----------
    summands : tuple of _Summand
    log_scales : ndarray of shape (q,)
        Logarithms of constants, lengthscales, periods and slopes.
    position : ndarray of int of shape (q,)
        Of each among the free log-parameters of the kernel; minus one if it is fixed.
    """

    summands: tuple[_Summand, ...]
    log_scales: Array
    position: Index

    @classmethod
    def of(cls, kernel: Kernel, n_columns: int) -> StateSpace | None:
        """The form of a kernel; None of one that is not Markov, or has many states."""
        if n_columns != 1:
            return None
        scales = _Scales()
        summands = _summands(kernel, scales)
        if not summands or not any(summand.order for summand in summands):
            return None
        form = cls(
            tuple(summands), np.array(scales.logs), np.array(scales.position, int)
        )
        return form if form.is_exact else None

    @property
    def is_exact(self) -> bool:
        """Whether so many states stand for the kernel at these scales."""
        is_complete = all(np.sum(masses) > 0.5 for masses in self._harmonics())
        return is_complete and self.cascades().n_states <= 120

    def at(self, theta: Array) -> StateSpace:
        """At other log-parameters of the kernel."""
        is_free = self.position >= 0
        log_scales = self.log_scales.copy()
        log_scales[is_free] = theta[self.position[is_free]]
        return self._replace(log_scales=log_scales)

    def cascades(self) -> Cascades:
        """Markov processes of the summands with a Matern kernel, wave by wave."""
        orders = []
        rates = []
        frequencies = []
        amplitudes = []
        for summand, masses in zip(self.summands, self._harmonics(), strict=True):
            if not summand.order:
                continue
            length = np.exp(self.log_scales[summand.length])
            variance = self._variance(summand)
            for harmonic, mass in enumerate(masses):
                orders.append(summand.order)
                rates.append(np.sqrt(2.0 * summand.order - 1.0) / length)
                frequencies.append(harmonic * self._frequency(summand))
                amplitudes.append(np.sqrt(variance * mass))
        return Cascades(
            np.array(orders, dtype=np.int64),
            np.array(rates),
            np.array(frequencies),
            np.array(amplitudes),
        )

    def features(self, times: Array) -> Array:
        """Functions of the other summands at some times, (n, q)."""
        columns = [np.empty((len(times), 0))]
        for summand, masses in zip(self.summands, self._harmonics(), strict=True):
            if summand.order:
                continue
            std = np.sqrt(self._variance(summand))
            if summand.slope is not None:
                slope = np.exp(self.log_scales[summand.slope])
                columns.append(std * slope * (times - summand.centre)[:, np.newaxis])
                continue
            for harmonic, mass in enumerate(masses):
                phases = harmonic * self._frequency(summand) * times
                columns.append(std * np.sqrt(mass) * np.cos(phases)[:, np.newaxis])
                if harmonic:
                    columns.append(std * np.sqrt(mass) * np.sin(phases)[:, np.newaxis])
        return np.concatenate(columns, axis=1)

    def gradient(
        self,
        n_free: int,
        times: Array,
        slopes: Array,
        features: Array,
        feature_slopes: Array,
    ) -> Array:
        """Gradient in the log-parameters of the kernel, (n_free,).

        Parameters
        ----------
        n_free : int
        times : ndarray of shape (n,)
        slopes : ndarray of shape (3, B)
            In rates, frequencies and logarithms of amplitudes of the cascades.
        features, feature_slopes : ndarray of shape (n, q)
            Functions, and slopes in them.
        """
        in_scales = np.zeros(len(self.log_scales))
        cascades = self.cascades()
        wave = 0
        column = 0
        for summand, masses in zip(self.summands, self._harmonics(), strict=True):
            mass_slopes = self._mass_slopes(summand, len(masses))
            of_amplitudes = 0.0
            for harmonic in range(len(masses)):
                if summand.order:
                    in_amplitude = slopes[2, wave]
                    in_scales[summand.length] -= cascades.rates[wave] * slopes[0, wave]
                    in_frequency = cascades.frequencies[wave] * slopes[1, wave]
                    wave += 1
                else:
                    pair = slice(column, column + (2 if harmonic else 1))
                    phi = features[:, pair]
                    in_phi = feature_slopes[:, pair]
                    in_amplitude = float(np.sum(phi * in_phi))
                    # cos' = -ωt sin and sin' = ωt cos
                    turned = phi[:, ::-1] * np.array([-1.0, 1.0][: phi.shape[1]])
                    phase = harmonic * self._frequency(summand) * times
                    in_frequency = float(np.sum(phase[:, np.newaxis] * turned * in_phi))
                    column = pair.stop
                of_amplitudes += in_amplitude
                if summand.season is not None:
                    in_mass = 0.5 * in_amplitude * mass_slopes[harmonic]
                    in_scales[summand.season] += in_mass
                    in_scales[summand.season + 1] -= in_frequency
            if summand.slope is not None:
                in_scales[summand.slope] += of_amplitudes
            for constant in summand.constants:
                in_scales[constant] += 0.5 * of_amplitudes
        gradient = np.zeros(n_free)
        is_free = self.position >= 0
        np.add.at(gradient, self.position[is_free], in_scales[is_free])
        return gradient

    def _variance(self, summand: _Summand) -> float:
        """Product of the constants."""
        logs = self.log_scales[list(summand.constants)]
        return float(np.exp(np.sum(logs)))

    def _frequency(self, summand: _Summand) -> float:
        """Of the first harmonic, zero without a season."""
        if summand.season is None:
            return 0.0
        return float(2.0 * np.pi / np.exp(self.log_scales[summand.season + 1]))

    def _harmonics(self) -> list[Array]:
        """Variances of the waves of each summand, of one in all [1]_.

        ``exp(-2 sin²(θ/2) / ℓ²) = e^{-z} (I_0(z) + 2 Σ_j I_j(z) cos jθ)``, z = 1 / ℓ².

        References
        ----------
        .. [1] Solin and Särkkä, "Explicit link between periodic covariance functions
           and state space models", AISTATS 2014.
        """
        most_harmonics = 24
        harmonics = []
        for summand in self.summands:
            masses = np.ones(1)
            if summand.season is not None:
                z = np.exp(-2.0 * self.log_scales[summand.season])
                masses = ive(np.arange(most_harmonics + 2), z)
                masses[1:] *= 2.0
                has_all = 1.0 - np.cumsum(masses) < 1e-7
                masses = masses[: 1 + int(np.argmax(has_all))]
                if not has_all[most_harmonics]:
                    # more of them would be needed
                    masses = np.zeros(1)
            harmonics.append(masses)
        return harmonics

    def _mass_slopes(self, summand: _Summand, number: int) -> Array:
        """Derivatives of the logarithms of the variances in that of the lengthscale."""
        if summand.season is None:
            return np.zeros(number)
        z = np.exp(-2.0 * self.log_scales[summand.season])
        j = np.arange(number)
        # I_j' = ½ (I_{j-1} + I_{j+1}), and dz / d log ℓ = -2 z
        change = 0.5 * (ive(np.abs(j - 1), z) + ive(j + 1, z)) / ive(j, z) - 1.0
        return -2.0 * z * change


class _Scales:
    """Logarithms of scales, and their positions among the log-parameters."""

    def __init__(self) -> None:
        self.logs: list[float] = []
        self.position: list[int] = []
        self.n_free = 0

    def read(self, kernel: Any, *names: str) -> int:
        """Read hyperparameters of one entry each; the position of the first."""
        first = len(self.logs)
        # theta has them in the order of their names
        for name in sorted(names):
            is_free = not getattr(kernel, f"hyperparameter_{name}").fixed
            self.position.append(self.n_free if is_free else -1)
            self.n_free += is_free
            self.logs.append(float(np.log(np.ravel(getattr(kernel, name))[0])))
        return first


def _summands(kernel: Any, scales: _Scales) -> list[_Summand]:
    """Summands of a kernel; none of one that is not Markov."""
    kind = type(kernel)
    if kind is Columns and len(kernel.indices(1)) == 1:
        return _summands(kernel.kernel, scales)
    if kind is Sum or kind is Product:
        first = _summands(kernel.k1, scales)
        second = _summands(kernel.k2, scales)
        if not first or not second:
            return []
        if kind is Sum:
            return first + second
        products = [a.times(b) for a in first for b in second]
        return [] if None in products else [part for part in products if part]
    if kind is ConstantKernel and kernel.constant_value > 0.0:
        return [_Summand(constants=(scales.read(kernel, "constant_value"),))]
    if kind is Matern and np.size(kernel.length_scale) == 1:
        order = kernel.nu + 0.5
        if order in range(1, 5):
            length = scales.read(kernel, "length_scale")
            return [_Summand(order=int(order), length=length)]
    if kind is ExpSineSquared:
        return [_Summand(season=scales.read(kernel, "length_scale", "periodicity"))]
    if kind is Linear and np.size(kernel.slope) == 1:
        centre = float(np.ravel(kernel.centre)[0])
        return [_Summand(slope=scales.read(kernel, "slope"), centre=centre)]
    return []
