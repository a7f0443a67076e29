"""Priors of the frequencies: the score of a kernel's spectrum, or of a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from skgpx._shell.validation import check_kernel
from skgpx._types import Array, ArrayLike, Kernel
from skgpx.kernels import spectral_score


class Density(Protocol):
    """A distribution of SciPy, or anything else with a log density."""

    def logpdf(self, x: Array) -> ArrayLike:
        """Log density of frequencies (n, d): one number each, or one for each entry."""
        ...


# What the parameter `frequency_prior` takes beside the name of a prior.
GivenPrior: TypeAlias = Kernel | Density | Callable[[Array], ArrayLike]
FrequencyPriorLike: TypeAlias = str | GivenPrior | None


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
        cls,
        given: FrequencyPriorLike,
        weight: float | str,
        kernel: Kernel,
        shape: tuple[int, ...],
        total: float,
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
        if isinstance(weight, str):
            # the share of the frequencies of a component among these and the rows: few
            # rows cannot identify many frequencies
            size = math.prod(shape)
            weight = size / (size + total)
        is_pair = len(shape) == 3
        if is_pair:
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
        return cls(
            score=lambda omega: spectral_score(kernel, omega),
            weight=float(weight),
            limit=5.0,
        )


def checked_score(given: GivenPrior, d: int) -> Callable[[Array], Array]:
    """Score of a kernel, a distribution or a function that is one.

    Its values are checked at each call: where a density ends is not known beforehand.

    Raises
    ------
    ValueError
        If it is not known, or not for d columns, or if its values have another shape.
    """
    if isinstance(given, Kernel):
        try:
            check_kernel(given, np.ones((1, d)))
            spectral_score(given, np.ones((1, d)))
        except ValueError as error:
            raise ValueError(f"frequency_prior: {error}") from error
        return partial(_finite_score, partial(spectral_score, given))
    points = np.linspace(0.1, 1.0, 3 * d).reshape(3, d)
    function = given.logpdf if hasattr(given, "logpdf") else given
    try:
        values = np.asarray(function(points.copy()), dtype=np.float64)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"frequency_prior must take frequencies of shape (n, {d}), for the {d} "
            f"columns of X; got {given!r}, which raised {error!r} for the shape "
            f"{points.shape}. Give a distribution of one or of {d} dimensions."
        ) from error
    if not hasattr(given, "logpdf"):
        _check_shape(values, points)
        return partial(_finite_score, given)
    if values.shape not in (points.shape, (len(points),)):
        raise ValueError(
            "The logpdf of frequency_prior must have one value for each frequency, or "
            f"one for each of its {d} entries: shape (n,) or (n, {d}) for arguments of "
            f"shape (n, {d}); got {values.shape} for {points.shape}."
        )
    if values.shape == points.shape:
        return partial(_finite_score, partial(_slopes_of_entries, function))
    return partial(_finite_score, partial(_slopes_of_rows, function))


def _finite_score(score: Callable[[Array], ArrayLike], omega: Array) -> Array:
    """Score at frequencies (n, d), checked."""
    slopes = np.asarray(score(omega.copy()), dtype=np.float64)
    _check_shape(slopes, omega)
    wrong = ~np.isfinite(slopes).all(axis=1)
    if wrong.any():
        raise ValueError(
            "frequency_prior must have a log density with a finite gradient at all "
            "frequencies, of either sign; got NaN or infinite values at "
            f"{wrong.sum()} of {len(omega)} frequencies, such as {omega[wrong][0]} "
            "radians per unit of X. Give a distribution with unbounded support, such "
            "as scipy.stats.norm or scipy.stats.t."
        )
    return slopes


def _check_shape(slopes: Array, omega: Array) -> None:
    """Refuse a score (n, d) of another shape than the frequencies."""
    if slopes.shape != omega.shape:
        raise ValueError(
            "A function given as frequency_prior must return the gradient of the log "
            f"density, of the shape of its argument {omega.shape}; got shape "
            f"{slopes.shape}."
        )


# ---- Central differences -------------------------------------------------------------


def _slopes_of_entries(
    log_density: Callable[[Array], ArrayLike], omega: Array
) -> Array:
    """Central differences of independent entries."""
    steps = _difference_steps(omega)
    # a density ends where both are -inf
    with np.errstate(invalid="ignore"):
        rise = np.subtract(log_density(omega + steps), log_density(omega - steps))
    return rise / (2.0 * steps)


def _slopes_of_rows(log_density: Callable[[Array], ArrayLike], omega: Array) -> Array:
    """Central differences in one column after the other."""
    steps = _difference_steps(omega)
    slopes = np.empty(omega.shape)
    for k, axis in enumerate(np.diag(steps)):
        with np.errstate(invalid="ignore"):
            rise = np.subtract(log_density(omega + axis), log_density(omega - axis))
        slopes[:, k] = rise / (2.0 * steps[k])
    return slopes


def _difference_steps(omega: Array) -> Array:
    """Steps (d,) in the units of each column: these are the inverse of those of X."""
    sizes = np.mean(np.abs(omega), axis=0)
    # columns without frequencies, which do not move
    sizes[sizes == 0.0] = 1.0
    # step of central differences of a log density, by the mean size of the
    # frequencies
    return 1e-5 * sizes
