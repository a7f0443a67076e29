"""Scale parameters of likelihoods, fixed or estimated."""

from __future__ import annotations

import copy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skgpx._numerics.spread import mean_and_spread, weighted_quantiles

Array = NDArray[np.float64]


class ScaleParameters(BaseEstimator):
    """Positive constructor parameters; those left None are free.

    Instances are never modified; copies share everything that they do not replace.
    """

    scale_names: ClassVar[tuple[str, ...]] = ()

    free_: tuple[str, ...]
    _log_bounds: Array

    @property
    def theta(self) -> Array:
        """Logarithms of the free scale parameters, shape (p,); p may be 0."""
        return np.log([getattr(self, name) for name in self.free_], dtype=np.float64)

    @property
    def theta_bounds(self) -> Array:
        """Bounds of `theta`, shape (p, 2)."""
        return self._log_bounds

    def with_theta(self, theta: ArrayLike) -> Self:
        """Copy with the free scale parameters replaced by ``exp(theta)``."""
        values = np.exp(np.asarray(theta, dtype=np.float64)).tolist()
        return self._replace(**dict(zip(self.free_, values, strict=True)))

    def with_start(self, **starts: tuple[float, float, float]) -> Self:
        """Copy with (start, lower bound, upper bound) of free parameters replaced."""
        bounds = np.array(self._log_bounds)
        for name, (_, low, high) in starts.items():
            bounds[self.free_.index(name)] = np.log([low, high])
        values = {name: start for name, (start, _, _) in starts.items()}
        return self._replace(**values, _log_bounds=bounds)

    def _replace(self, **changes: Any) -> Self:
        """Shallow copy with attributes replaced."""
        other = copy.copy(self)
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def rescaled(self, **factors: float) -> Self:
        """Copy with parameters multiplied by factors, bounds included; None stays.

        What `scaled` of a likelihood of location and scale returns: for a standard
        deviation ``self.rescaled(scale=factor)``, for a variance ``factor**2``.
        """
        changes = {
            name: getattr(self, name) * factor
            for name, factor in factors.items()
            if getattr(self, name) is not None
        }
        if hasattr(self, "free_"):
            log_factors = np.log([factors[name] for name in self.free_]).reshape(-1, 1)
            changes["_log_bounds"] = self._log_bounds + log_factors
        return self._replace(**changes)

    def check_parameters(self) -> None:
        """Raise a ValueError if a scale parameter is neither None nor positive."""
        for name in self.scale_names:
            if getattr(self, name) is not None:
                self._scale(name)

    def starting_scales(
        self,
        y: Array,  # noqa: ARG002
        weights: Array,  # noqa: ARG002
    ) -> dict[str, tuple[float, float, float]]:
        """(start, lower bound, upper bound) for each name in `scale_names`.

        From targets (n,) and their weights (n,); called if one of them is None. All
        are positive, in the units of the parameter. The default is 1 between 1e-4 and
        1e4 for each.
        """
        return dict.fromkeys(self.scale_names, (1.0, 1e-4, 1e4))

    def _checked_starts(
        self, free: tuple[str, ...], y: Array, weights: Array
    ) -> dict[str, tuple[float, float, float]]:
        """`starting_scales`, or a ValueError that says what is wrong with them."""
        scales = self.starting_scales(y, weights) if free else {}
        for name in free:
            start = np.asarray(scales.get(name), dtype=np.float64)
            ordered = start.shape == (3,) and 0.0 < start[1] <= start[0] <= start[2]
            if not (ordered and np.all(np.isfinite(start))):
                raise ValueError(
                    f"starting_scales of {type(self).__name__} must map {name!r}, which"
                    " is None and therefore learned, to positive numbers (start, lower "
                    f"bound, upper bound); got {scales.get(name)!r}."
                )
        return scales

    def _scale(self, name: str) -> float:
        """Value of a scale parameter; a ValueError unless it is a positive number."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(
                f"{type(self).__name__}({name}=None) is not set yet: call prepare(y),"
                f" or pass a number as {name}."
            )
        if not (is_number(value) and value > 0.0):
            raise ValueError(
                f"{type(self).__name__} expects {name} to be positive and finite, "
                f"or None to estimate it; got {value!r}."
            )
        return float(value)


def is_number(value: Any) -> bool:
    """Whether a parameter is a finite real number (True and False are not)."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    return number and bool(np.isfinite(float(value)))


def weighted_spread(y: Array, weights: Array) -> float:
    """Weighted standard deviation of y; 1 for a constant y."""
    return float(mean_and_spread(y, weights, 1e-12)[1])


def weighted_quartiles(y: Array, weights: Array) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of y, each one of its values."""
    low, middle, high = weighted_quantiles(y, weights, [0.25, 0.5, 0.75]).tolist()
    return low, middle, high


def rounding_variance(y: Array, weights: Array) -> float:
    """Variance ``δ²/12`` of rounding to values δ apart, zero where y is not rounded.

    y counts as rounded if each of its values occurs ten times, on average. Repeated
    rows would otherwise say that there is no noise at all.
    """
    seen = y[weights > 0.0]
    values = np.unique(seen)
    if len(values) < 2 or weights.sum() < 10 * len(values):
        return 0.0
    return float(np.min(np.diff(values)) ** 2 / 12.0)
