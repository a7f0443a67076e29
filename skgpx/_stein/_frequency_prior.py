"""Priors of the frequencies: the score of a kernel's spectrum, or of a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx.kernels import spectral_score

Array = NDArray[np.float64]

# Step of central differences of a log density, in units of a frequency.
_STEP = 1e-5


class FrequencyPrior(NamedTuple):
    """Slope of a log density of frequencies, and its weight beside the evidence.

    Attributes
    ----------
    score : callable
        From frequencies (n, d), in radians per unit of the inputs, to ``∇ log p``.
    weight : float
    limit : float
        Largest slope, in units of lengthscales.
    """

    score: Callable[[Array], Array]
    weight: float
    limit: float = np.inf

    @classmethod
    def of(
        cls, given: Any, weight: Any, kernel: Any, shape: tuple[int, ...], total: float
    ) -> FrequencyPrior | None:
        """The prior that parameters of the estimator name; None without one.

        Parameters
        ----------
        given, weight
            The parameters `frequency_prior` and `frequency_prior_weight`.
        kernel : sklearn.gaussian_process.kernels.Kernel
            That of the first frequencies.
        shape : tuple of int
            R and d, for pairs R, 2 and d: the log density of a pair is the mean of
            those of its frequencies, and that of a wave where both are equal.
        total : float
            Number of observations.

        Raises
        ------
        ValueError
            If a score or a density is unknown, or has a wrong shape.
        """
        d = shape[-1]
        if weight == "auto":
            # the share of the frequencies of a component among these and the rows: few
            # rows cannot identify many frequencies
            size = math.prod(shape)
            weight = size / (size + total)
        if len(shape) == 3:
            weight = 0.5 * weight
        if given is None or weight == 0.0:
            return None
        if not isinstance(given, str):
            return cls(checked_score(given, d), float(weight))
        try:
            spectral_score(kernel, np.ones((1, d)))
        except ValueError:
            # a kernel without a known score, such as a periodic one
            return None
        # a wave that the data support stays
        return cls(lambda omega: spectral_score(kernel, omega), float(weight), 5.0)


def checked_score(given: Any, d: int) -> Callable[[Array], Array]:
    """Score of a kernel, a distribution or a function that is one.

    Raises
    ------
    ValueError
        If it is not known, or if its values have another shape.
    """
    points = np.linspace(0.1, 1.0, 3 * d).reshape(3, d)
    if isinstance(given, Kernel):
        spectral_score(given, points)
        return lambda omega: spectral_score(given, omega)
    if not hasattr(given, "logpdf"):
        found = np.asarray(given(points.copy()), dtype=np.float64)
        if found.shape != points.shape or not np.isfinite(found).all():
            raise ValueError(
                "A function given as frequency_prior must return the gradient of the "
                f"log density, finite and of the shape of its argument {points.shape}; "
                f"got shape {found.shape}."
            )
        return lambda omega: np.asarray(given(omega.copy()), dtype=np.float64)
    shape = np.shape(given.logpdf(points))
    if shape not in (points.shape, (len(points),)):
        raise ValueError(
            "The logpdf of frequency_prior must have one value for each frequency, or "
            f"one for each of its {d} entries: shape (n,) or (n, {d}) for arguments of "
            f"shape (n, {d}); got {shape} for {points.shape}."
        )
    if shape == points.shape:
        return lambda omega: _slopes_of_entries(given.logpdf, omega)
    return lambda omega: _slopes_of_rows(given.logpdf, omega)


def _slopes_of_entries(log_density: Callable[[Array], Array], omega: Array) -> Array:
    """Central differences of independent entries."""
    above = log_density(omega + _STEP)
    below = log_density(omega - _STEP)
    slopes: Array = (above - below) / (2.0 * _STEP)
    return slopes


def _slopes_of_rows(log_density: Callable[[Array], Array], omega: Array) -> Array:
    """Central differences in one column after the other."""
    slopes = np.empty(omega.shape)
    for k, axis in enumerate(_STEP * np.eye(omega.shape[1])):
        above = log_density(omega + axis)
        below = log_density(omega - axis)
        slopes[:, k] = (above - below) / (2.0 * _STEP)
    return slopes
