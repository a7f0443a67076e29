"""Frequencies of a stationary kernel, moved by Stein variational gradient descent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri
from sklearn.gaussian_process.kernels import RBF

from skgpx._numerics.spectral import RadialDensity
from skgpx._numerics.svgd import median_squares, transport
from skgpx._types import Array, Generator, Kernel
from skgpx.kernels._columns import Columns
from skgpx.kernels._registry import rule_of
from skgpx.kernels._spectrum import (
    EllipticalSpectrum,
    check_spectral_score,
    decay_lengths,
    elliptical_score,
    radial_density,
    sample_spectra,
    spectrum_of,
    stationary_variance,
    uniform_points,
)


def stein_frequencies(
    kernel: Kernel,
    n: int,
    rng: Generator,
    input_variances: Array,
    n_steps: int = 300,
) -> Array:
    """Frequencies (n, d) of a stationary kernel, moved until they are evenly spread.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With a registered score; not a sum or product.
    n : int
    rng : numpy.random.Generator
        Source of the scrambled Halton sequence that is moved.
    input_variances : ndarray of shape (d,)
        Variances of the rows at which the waves will be evaluated: squared bandwidths
        resolve the waves over their spread.
    n_steps : int, default=300

    Raises
    ------
    ValueError
        If the score of the kernel is not registered, or contradicts its density.

    Notes
    -----
    O(n² d) for each step. Distributions with heavy tails: the points contract, and
    their radii are replaced by quantiles of the distribution of the radius, in the same
    order. The frequencies where they start, or orthogonal ones, are returned if they
    approximate the kernel better at 500 differences of normal rows of these variances.
    """
    d = len(input_variances)
    if type(kernel) is Columns:
        columns = kernel.indices(d)
        frequencies = np.zeros((n, d))
        frequencies[:, columns] = stein_frequencies(
            kernel.kernel,
            n,
            rng,
            input_variances[columns],
            n_steps,
        )
        return frequencies
    spectrum = spectrum_of(kernel, d)
    rule = rule_of(kernel, "spectral_score")
    if rule is None:
        name = type(kernel).__name__
        raise ValueError(
            f"{kernel!r} has no known spectral score, by which Stein frequencies move. "
            f"Call skgpx.kernels.register_kernel({name}, spectral_score=...), or "
            'choose another method than "stein".'
        )
    # start: a scrambled Halton sequence
    if spectrum is None:
        normal = ndtri(uniform_points(n, d, rng, "halton"))
        distances = np.geomspace(np.full(d, 1e-8), np.full(d, 1e8), 600)
        origin = np.zeros((1, d))
        start = normal / decay_lengths(
            lambda lags: kernel(lags, origin)[:, 0], distances, np.exp(-0.5)
        )
    else:
        start, _ = sample_spectra([spectrum], n, d, rng, "halton")
    check_spectral_score(kernel, start)
    # units: median squared differences are as for standard normal points
    unit = np.sqrt(_medians(start) / 0.9099)
    # of a single point, its distance from the origin
    unit = np.where(unit > 0.0, unit, np.max(np.abs(start), axis=0))
    unit = np.where(unit > 0.0, unit, 1.0)

    def score(u: Array) -> Array:
        return rule(kernel, u * unit) * unit

    density: RadialDensity | Callable[[Array], Array] = score
    scales = None
    if rule is elliptical_score:
        density = radial_density(kernel, d)
        scales = kernel.length_scale * unit
    factors = _bandwidth_factors(start / unit, input_variances * unit**2)
    # descent; the first step is 0.1, where frequencies have spread one
    moved = unit * transport(start / unit, density, n_steps, 0.1, factors, scales)
    if isinstance(spectrum, EllipticalSpectrum) and type(kernel) is not RBF:
        moved = spectrum.with_even_radii(moved)
    # SVGD gains nothing where there are too few points for the columns
    candidates = [moved, start]
    if spectrum is not None:
        orthogonal, _ = sample_spectra([spectrum], n, d, rng, "orthogonal")
        candidates.append(orthogonal)
    # 500 differences of two normal rows
    normal = rng.standard_normal((500, d))
    differences = normal * np.sqrt(2.0 * input_variances)
    errors = [_correlation_error(kernel, omega, differences) for omega in candidates]
    return candidates[int(np.argmin(errors))]


def _correlation_error(kernel: Kernel, frequencies: Array, differences: Array) -> float:
    """Mean square of ``mean_r cos(ω_r·δ) - k(δ) / k(0)`` over differences δ (n, d)."""
    d = differences.shape[1]
    origin = np.zeros((1, d))
    covariances = kernel(differences, origin)[:, 0]
    correlations = covariances / stationary_variance(kernel, d)
    phases = differences @ frequencies.T
    approximations = np.cos(phases).mean(axis=1)
    errors = approximations - correlations
    return float(np.mean(errors**2))


def _bandwidth_factors(points: Array, variances: Array) -> Array:
    """Squared bandwidths over medians, for inputs of these variances (times units²).

    Their product with the mean squared difference of the inputs is the best on average
    over inputs narrower and wider than the kernel, 1 to 32 columns. Below the lower
    bound points do not see one another and contract, the more the more columns there
    are; above the upper one all are one.
    """
    d = points.shape[1]
    numerator = 1.4 * (d / 4.0) ** 0.2
    denominator = 2.0 * variances * _medians(points)
    factors = numerator / np.maximum(denominator, 1e-300)
    lower = max(0.15 * d**1.2, 0.04 * d**1.9)
    return np.clip(factors, lower, 8.0 * d)


def _medians(points: Array) -> Array:
    """Median squared differences of ±points along each axis, (d,)."""
    return median_squares(np.concatenate((points, -points)))
