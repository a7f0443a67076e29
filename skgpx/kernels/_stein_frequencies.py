"""Frequencies of a stationary kernel, moved by SVGD until they are evenly spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skgpx._numerics.svgd import median_squares, transported
from skgpx.kernels._records import record_of
from skgpx.kernels._spectral import (
    check_spectral_score,
    spectral_score,
    uniform_points,
    warped_sample,
)
from skgpx.kernels._spectral_distributions import EllipticalDistribution, GaussianRadius

Array = NDArray[np.float64]

# Median squared difference of standard normal points.
_NORMAL_MEDIAN = 0.9099
# Squared bandwidth times the mean squared difference of inputs (in lengthscales), as
# c (d / 4)^q: a kernel of this width sees the waves that the inputs can resolve. The
# best on average over inputs narrower and wider than the kernel, 1 to 32 columns.
_RESOLVED, _RESOLVED_POWER = 1.4, 0.2
# Bounds of the factor of the median: below c dᵖ the points do not see one another and
# contract, above c d all of them are one point.
_LEAST, _LEAST_POWER, _MOST = 0.15, 1.2, 8.0
# Logarithms of distances between which a correlation is searched to fall to exp(-1/2).
_SEARCHED = np.linspace(np.log(1e-8), np.log(1e8), 600)
# First step, in units in which frequencies have spread one.
_LEARNING_RATE = 0.1


def stein_frequencies(
    factors: tuple[Any, ...],
    n: int,
    rng: np.random.Generator,
    input_variances: Array,
    n_steps: int = 300,
) -> Array:
    """Frequencies (n, d) of a product of stationary kernels of variance one.

    Parameters
    ----------
    factors : tuple of Kernel
        One kernel with a registered score, or several with elliptical spectra.
    n : int
    rng : numpy.random.Generator
        Source of the scrambled Halton sequence that is moved.
    input_variances : ndarray of shape (d,)
        Of the rows at which the waves will be evaluated: squared bandwidths resolve
        the waves over their spread.
    n_steps : int, default=300

    Raises
    ------
    ValueError
        If the score of the kernel is not registered, or contradicts what is; if a
        factor of a product is not elliptical.

    Notes
    -----
    O(n² d) for each step. Distributions with heavy tails: the points contract, and
    their radii are replaced by quantiles of the spectrum of the radius, in the same
    order. Products have no known density: their factors' frequencies, which are added,
    are functions of normal points that are moved together.
    """
    if len(factors) == 1:
        return _by_score(factors[0], n, rng, input_variances, n_steps)
    return _by_normal_points(factors, n, rng, input_variances, n_steps)


def _by_score(
    kernel: Any, n: int, rng: np.random.Generator, input_variances: Array, n_steps: int
) -> Array:
    """SVGD on the spectral density, in units in which its points have spread one."""
    d, record = len(input_variances), record_of(kernel)
    if record.spectral_score is None:
        name = type(kernel).__name__
        raise ValueError(
            f"{kernel!r} has no known spectral score, by which Stein frequencies move. "
            f"Call skgpx.kernels.register_kernel({name}, spectral_score=...), or "
            'choose another method than "stein".'
        )
    spectrum = (
        None
        if record.spectral_distribution is None
        else record.spectral_distribution(kernel, d)
    )
    if spectrum is None:
        normal = ndtri(uniform_points(n, d, rng, "halton"))
        start = normal / _correlation_lengths(kernel, d)
    else:
        start = warped_sample([spectrum], n, d, rng, "halton").frequencies
    check_spectral_score(kernel, start)
    unit = _units(start)

    def score(u: Array) -> Array:
        return spectral_score(kernel, u * unit) * unit

    moved = unit * _moved(start / unit, score, input_variances * unit**2, n_steps)
    return _with_right_radii(spectrum, moved)


def _by_normal_points(
    factors: tuple[Any, ...],
    n: int,
    rng: np.random.Generator,
    input_variances: Array,
    n_steps: int,
) -> Array:
    """Sum of the frequencies of all factors, at normal points (n, d) of each."""
    d = len(input_variances)
    known = [record_of(kernel).spectral_distribution for kernel in factors]
    spectra = [
        spectrum and spectrum(k, d) for spectrum, k in zip(known, factors, strict=True)
    ]
    if not all(isinstance(spectrum, EllipticalDistribution) for spectrum in spectra):
        raise ValueError(
            f"Stein frequencies of the product {' * '.join(map(repr, factors))} are "
            "not known: its factors must be RBF, Matern or RationalQuadratic kernels. "
            'Choose another method, for example "sobol".'
        )
    start = ndtri(uniform_points(n, d * len(spectra), rng, "halton"))
    scales = [np.broadcast_to(spectrum.length_scale, d) for spectrum in spectra]  # type: ignore[union-attr]
    variances = np.tile(input_variances, len(spectra)) / np.concatenate(scales) ** 2
    moved = _moved(start, lambda z: -z, variances, n_steps)
    blocks = np.split(moved, len(spectra), axis=1)
    parts = [
        _with_right_radii(spectrum, spectrum.from_normal(block))  # type: ignore[union-attr]
        for spectrum, block in zip(spectra, blocks, strict=True)
    ]
    return np.sum(parts, axis=0)


def _moved(
    start: Array, score: Callable[[Array], Array], variances: Array, n_steps: int
) -> Array:
    """Points moved by SVGD; `variances` are those of the inputs, over the units."""
    d = start.shape[1]
    resolved = _RESOLVED * (d / 4.0) ** _RESOLVED_POWER
    factors = resolved / np.maximum(2.0 * variances * _medians(start), 1e-300)
    factors = np.clip(factors, _LEAST * d**_LEAST_POWER, _MOST * d)
    return transported(start, score, n_steps, _LEARNING_RATE, factors)


def _medians(points: Array) -> Array:
    medians: Array = median_squares(np.concatenate((points, -points)))
    return medians


def _units(start: Array) -> Array:
    """Scale of each column, one for standard normal points."""
    units = np.sqrt(_medians(start) / _NORMAL_MEDIAN)
    # of a single point, its distance from the origin
    units = np.where(units > 0.0, units, np.max(np.abs(start), axis=0))
    return np.where(units > 0.0, units, 1.0)


def _with_right_radii(spectrum: Any, frequencies: Array) -> Array:
    """Radii at their quantiles, unless normal: contraction is small there."""
    if isinstance(spectrum, EllipticalDistribution) and not isinstance(
        spectrum.radius, GaussianRadius
    ):
        return spectrum.with_even_radii(frequencies)
    return frequencies


def _correlation_lengths(kernel: Any, d: int) -> Array:
    """Distance along each axis at which the correlation falls to ``exp(-1/2)``."""
    lengths = np.empty(d)
    origin, variance = np.zeros((1, d)), float(kernel.diag(np.zeros((1, d)))[0])
    for k in range(d):
        points = np.zeros((len(_SEARCHED), d))
        points[:, k] = np.exp(_SEARCHED)
        correlation = kernel(points, origin)[:, 0] / variance
        below = correlation < np.exp(-0.5)
        lengths[k] = points[np.argmax(below) if below.any() else -1, k]
    return lengths
