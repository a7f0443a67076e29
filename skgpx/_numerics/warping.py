"""Monotone functions of y with one parameter: Box-Cox and Yeo-Johnson."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import boxcox, inv_boxcox

from skgpx._types import Array

# A power of one is the identity. Beyond these limits a function has a bounded range, so
# that the distribution of y would have a pole.
POWER_BOUNDS = (0.0, 2.0)
TRANSFORMS = ("yeo-johnson", "box-cox")
# The smallest argument of a power, and values that none of y exceeds.
_LEAST = 1e-150
_LARGEST = 1e100


class Warp(NamedTuple):
    """``g(y) = location + unit ψ((y - location) / unit)``, with the power λ of ψ.

    Both functions are the identity at λ = 1, and have the slope one in the middle of
    the data, so that g(y) is in the units of y [1]_. Nothing is known of a scale far
    beyond the rows: there g is a straight line, so that y has a mean and a variance
    wherever g(y) has. For several targets, the last axis of y, all attributes are
    arrays (t,).

    Attributes
    ----------
    transform : {"yeo-johnson", "box-cox"}
        Yeo and Johnson's ψ, which takes any number, around its zero; or
        ``ψ(t) = 1 + (t^λ - 1) / λ`` of positive numbers around one.
    location, unit : float
        Mean and standard deviation of y; for Box-Cox, zero and the geometric mean.
    power : float or ndarray
        λ, from 0, a logarithm, to 2.
    lower, upper : float or ndarray
        Where the straight lines begin: one range of the rows beyond them.

    References
    ----------
    .. [1] Box and Cox, "An analysis of transformations", JRSS B 1964; Yeo and Johnson,
       "A new family of power transformations", Biometrika 2000.
    """

    transform: Any
    location: Any
    unit: Any
    power: Any = 1.0
    lower: Any = -_LARGEST
    upper: Any = _LARGEST

    @classmethod
    def of(cls, transform: str, y: Array, weights: Array) -> Warp:
        """The identity around the middle of targets (n,) that are not all equal."""
        lower = float(np.min(y) - np.ptp(y))
        upper = float(np.max(y) + np.ptp(y))
        if transform == "box-cox":
            unit = float(np.exp(np.average(np.log(y), weights=weights)))
            return cls(transform, location=0.0, unit=unit, upper=upper)
        mean = float(np.average(y, weights=weights))
        variance = np.average((y - mean) ** 2, weights=weights)
        unit = float(np.sqrt(variance)) or 1.0
        return cls(transform, mean, unit, lower=lower, upper=upper)

    @property
    def lowest(self) -> Any:
        """The end of the support."""
        return np.where(self._is_positive, 0.0, -np.inf)[()]

    def at(self, power: float | Array) -> Self:
        """The function with another power."""
        return self._replace(power=power)

    def forward(self, y: Any) -> Array:
        """``g(y)``."""
        y = np.asarray(y, dtype=np.float64)
        clipped = np.clip(y, self.lower, self.upper)
        size, sign, power = self._arguments(clipped)
        values = sign * boxcox(size, power) + self._is_positive
        beyond = np.exp(self.log_slope(clipped)) * (y - clipped)
        return self.location + self.unit * values + beyond

    def inverse(self, z: Any) -> Array:
        """``y`` with ``g(y) = z``; zero where no positive y has this value."""
        z = np.asarray(z, dtype=np.float64)
        clipped = np.clip(z, self.forward(self.lower), self.forward(self.upper))
        values = (clipped - self.location) / self.unit - self._is_positive
        sign, power = self._sides(values)
        t = inv_boxcox(sign * values, power)
        y = self.location + self.unit * sign * (t - ~self._is_positive)
        beyond = (z - clipped) / np.exp(self.log_slope(y))
        return np.maximum(y + beyond, self.lowest)

    def log_slope(self, y: Any) -> Array:
        """``log g'(y)``."""
        size, _, power = self._arguments(np.clip(y, self.lower, self.upper))
        return (power - 1.0) * np.log(size)

    def power_slopes(self, y: Array) -> tuple[Array, Array]:
        """Derivatives of ``g(y)`` and of ``log g'(y)`` in λ."""
        size, sign, power = self._arguments(y)
        log_size = np.log(size)
        # ∂ (t^λ - 1) / λ = log² t φ(λ log t) with φ(a) = (e^a (a - 1) + 1) / a²
        a = power * log_size
        is_small = np.abs(a) < 0.1
        large = np.where(is_small, 1.0, a)
        phi = (np.exp(large) * (large - 1.0) + 1.0) / large**2
        # Σ a^k / (k! (k + 2))
        series = 1 / 2 + a * (1 / 3 + a * (1 / 8 + a * (1 / 30 + a * (1 / 144))))
        values = self.unit * log_size**2 * np.where(is_small, series, phi)
        # the power of negative arguments falls with λ, and so does their size
        return values, sign * log_size

    def _arguments(self, y: Array) -> tuple[Array, Array, Array]:
        """Positive arguments of a power, their signs, and the powers."""
        t = (y - self.location) / self.unit
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
