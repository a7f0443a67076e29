"""Monotone functions of y: Box-Cox, Yeo-Johnson and sinh-arcsinh."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import boxcox, inv_boxcox

from skgpx._types import Array

# A power of one is the identity. Beyond these limits a function has a bounded range, so
# that the distribution of y would have a pole.
POWER_BOUNDS = (0.0, 2.0)
SKEWNESS_BOUNDS = (-1.0, 1.0)
TRANSFORMS = ("yeo-johnson", "box-cox", "sinh-arcsinh")
# Arguments below which the slope in the power is a series.
_SMALL = 0.1
# The smallest and the largest argument of a power.
_LEAST = 1e-150
_LARGEST = 1e100
_LARGEST_ANGLE = np.log(_LARGEST)


class Warp(NamedTuple):
    """``g(y) = location + unit ψ((y - location) / unit)``, with the power λ of ψ.

    All are the identity at λ = 1 without skewness, and have the slope one in the middle
    of the data, so that g(y) is in the units of y [1]_. For several targets, the last
    axis of y, all attributes are arrays (t,).

    Attributes
    ----------
    transform : {"yeo-johnson", "box-cox", "sinh-arcsinh"}
        Yeo and Johnson's ψ, which takes any number, around its zero;
        ``ψ(t) = 1 + (t^λ - 1) / λ`` of positive numbers around one; or Jones and
        Pewsey's ``(sinh(δ arcsinh t - ε) + sinh ε) / (δ cosh ε)`` with ``log δ = λ -
        1``, whose tails are those of ``|t|^δ``.
    location, unit : float
        Mean and standard deviation of y; for Box-Cox, zero and the geometric mean.
    power : float or ndarray
        λ, from 0, a logarithm but for sinh-arcsinh, to 2.
    skewness : float or ndarray
        ε, from -1 to 1, which only sinh-arcsinh has; positive of a long upper tail.

    References
    ----------
    .. [1] Box and Cox, "An analysis of transformations", JRSS B 1964; Yeo and Johnson,
       "A new family of power transformations", Biometrika 2000; Jones and Pewsey,
       "Sinh-arcsinh distributions", Biometrika 2009.
    """

    transform: Any
    location: Any
    unit: Any
    power: Any = 1.0
    skewness: Any = 0.0

    @classmethod
    def of(cls, transform: str, y: Array, weights: Array) -> Warp:
        """The identity around the middle of targets (n,) that are not all equal."""
        if transform == "box-cox":
            log_mean = float(np.average(np.log(y), weights=weights))
            return cls(transform, 0.0, float(np.exp(log_mean)))
        mean = float(np.average(y, weights=weights))
        variance = float(np.average((y - mean) ** 2, weights=weights))
        return cls(transform, mean, float(np.sqrt(variance)) or 1.0)

    @property
    def lowest(self) -> Any:
        """The end of the support."""
        return np.where(self._is_positive, 0.0, -np.inf)[()]

    @property
    def shape_bounds(self) -> Array:
        """Of skewness and power, which are free between them."""
        has_skewness = self.transform == "sinh-arcsinh"
        return np.array([SKEWNESS_BOUNDS if has_skewness else (0.0, 0.0), POWER_BOUNDS])

    def at(self, power: float | Array, skewness: float | Array = 0.0) -> Self:
        """The function with another shape."""
        return self._replace(power=power, skewness=skewness)

    def forward(self, y: Any) -> Array:
        """``g(y)``."""
        size, sign, power = self._arguments(y)
        values = sign * boxcox(size, power) + self._is_positive
        of_sinh = np.sinh(self._angle(y)) + np.sinh(self.skewness)
        of_sinh = of_sinh / (self._tail * np.cosh(self.skewness))
        return self.location + self.unit * np.where(self._is_sinh, of_sinh, values)

    def inverse(self, z: Any) -> Array:
        """``y`` with ``g(y) = z``, at most 1e100 units and 1e150, which have a square.

        Zero where no positive y has this value.
        """
        is_positive = self._is_positive
        values = (np.asarray(z, dtype=np.float64) - self.location) / self.unit
        argument = self._tail * np.cosh(self.skewness) * values - np.sinh(self.skewness)
        angle = (np.arcsinh(argument) + self.skewness) / self._tail
        of_sinh = np.sinh(np.clip(angle, -_LARGEST_ANGLE, _LARGEST_ANGLE))
        values = values - is_positive
        smallest = -1.0 / np.maximum(self.power, _LEAST)
        size = np.where(is_positive, np.maximum(values, smallest), np.abs(values))
        sign, power = self._sides(values)
        t = np.minimum(inv_boxcox(size, power), _LARGEST)
        t = np.where(is_positive, t, sign * (t - 1.0))
        t = np.where(self._is_sinh, of_sinh, t)
        largest = _LARGEST**1.5
        return self.location + np.clip(self.unit * t, -largest, largest)

    def log_slope(self, y: Any) -> Array:
        """``log g'(y)``."""
        size, _, power = self._arguments(y)
        # the derivative of arcsinh(t) is 1 / √(1 + t²)
        of_sinh = np.cosh(self._angle(y)) / np.hypot(1.0, self._standardised(y))
        of_sinh = np.log(of_sinh / np.cosh(self.skewness))
        return np.where(self._is_sinh, of_sinh, (power - 1.0) * np.log(size))

    def shape_slopes(self, y: Array) -> tuple[Array, Array]:
        """Derivatives of ``g(y)`` and of ``log g'(y)``, (2, n), in skewness and λ."""
        if self._is_sinh:
            return self._shape_slopes_of_sinh(y)
        size, sign, power = self._arguments(y)
        log_size = np.log(size)
        # ∂ (t^λ - 1) / λ = log² t φ(λ log t) with φ(a) = (e^a (a - 1) + 1) / a²
        a = power * log_size
        is_small = np.abs(a) < _SMALL
        large = np.where(is_small, 1.0, a)
        phi = (np.exp(large) * (large - 1.0) + 1.0) / large**2
        # Σ a^k / (k! (k + 2))
        series = 1 / 2 + a * (1 / 3 + a * (1 / 8 + a * (1 / 30 + a * (1 / 144))))
        phi = np.where(is_small, series, phi)
        # the power of negative arguments falls with λ, and so does their size
        of_values = self.unit * log_size**2 * phi
        zeros = np.zeros_like(y)
        return np.stack((zeros, of_values)), np.stack((zeros, sign * log_size))

    def _shape_slopes_of_sinh(self, y: Array) -> tuple[Array, Array]:
        angle = self._angle(y)
        psi = (self.forward(y) - self.location) / self.unit
        s = np.arcsinh(self._standardised(y))
        ratio = np.cosh(angle) / np.cosh(self.skewness)
        of_skewness = (1.0 - ratio) / self._tail - psi * np.tanh(self.skewness)
        of_power = ratio * s - psi
        tanh = np.tanh(angle)
        of_log_slope = (-tanh - np.tanh(self.skewness), tanh * self._tail * s)
        return self.unit * np.stack((of_skewness, of_power)), np.stack(of_log_slope)

    def _standardised(self, y: Any) -> Array:
        return (np.asarray(y, dtype=np.float64) - self.location) / self.unit

    @property
    def _tail(self) -> Any:
        """δ."""
        return np.exp(np.subtract(self.power, 1.0))

    def _angle(self, y: Any) -> Array:
        """``δ arcsinh(t) - ε``, whose hyperbolic sine has a square."""
        angle = self._tail * np.arcsinh(self._standardised(y)) - self.skewness
        return np.clip(angle, -1.5 * _LARGEST_ANGLE, 1.5 * _LARGEST_ANGLE)

    def _arguments(self, y: Any) -> tuple[Array, Array, Array]:
        """Positive arguments of a power, their signs, and the powers."""
        t = self._standardised(y)
        size = np.where(self._is_positive, np.maximum(t, _LEAST), 1.0 + np.abs(t))
        return size, *self._sides(t)

    def _sides(self, values: Array) -> tuple[Array, Array]:
        """Signs of values, and their powers: Yeo and Johnson's below zero is 2 - λ."""
        is_negative = ~self._is_positive & (values < 0.0)
        sign = np.where(is_negative, -1.0, 1.0)
        return sign, np.where(is_negative, 2.0 - self.power, self.power)

    @property
    def _is_positive(self) -> Any:
        """Whether the function is of positive numbers."""
        return np.asarray(self.transform) == "box-cox"

    @property
    def _is_sinh(self) -> Any:
        return np.asarray(self.transform) == "sinh-arcsinh"
