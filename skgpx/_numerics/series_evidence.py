"""Evidence of a series prior and its gradient in the eigenvalues.

With functions φ, eigenvalues λ and a tail that the functions leave out, the bound is
:func:`skgpx._numerics.regression.log_evidence` of the features ``√λ φ``. It depends on
the data through sums over rows only, those of the functions that are not whitened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.linalg import invert_lower
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    precision_root,
)

Array = NDArray[np.float64]


class Spectrum(NamedTuple):
    """Eigenvalues of listed functions and what is beyond, with derivatives.

    Attributes
    ----------
    eigenvalues : ndarray of shape (m,)
        ``λ_j >= 0`` of the listed functions, in squared units of y.
    slopes : ndarray of shape (m, p)
        ``∂ log λ_j / ∂θ`` in the p parameters θ of the rule.
    tail : float
        Prior variance outside the functions, averaged over the box (over the rows
        where a bound is computed).
    tail_slopes : ndarray of shape (p,)
        ``∂ tail / ∂θ``.
    """

    eigenvalues: Array
    slopes: Array
    tail: float
    tail_slopes: Array


def whitened(
    sums: WeightStatistics, eigenvalues: Array, residual: float
) -> WeightStatistics:
    """Statistics of the features ``√λ_j φ_j``, whose weights are N(0, I).

    Parameters
    ----------
    sums : WeightStatistics
        Of the functions ``φ_j``.
    eigenvalues : ndarray of shape (m,)
        ``λ``, not negative.
    residual : float
        ``Σ w var g``, the prior variance outside the functions.
    """
    root = np.sqrt(eigenvalues)
    return sums._replace(
        gram=sums.gram * (root[:, np.newaxis] * root),
        moment=sums.moment * root,
        residual=residual,
    )


def series_evidence(
    sums: WeightStatistics, spectrum: Spectrum, noise_variance: float
) -> tuple[float, Array]:
    """Bound of the log evidence and its analytic gradient.

    Parameters
    ----------
    sums : WeightStatistics
        Of the functions the spectrum lists, not whitened.
    spectrum : Spectrum
    noise_variance : float
        ``σ²``, positive.

    Returns
    -------
    value : float
        In nats.
    gradient : ndarray of shape (1 + p,)
        In ``log σ²`` and the parameters of the rule.

    Notes
    -----
    O(m^3), free of n. With ``S = (I + G/σ²)⁻¹`` and posterior mean w̄ of the whitened
    weights, by the envelope theorem ``∂/∂log λ_j = ½ (S_jj + w̄_j² - 1)`` and
    ``∂/∂tail = -Σw / (2σ²)``. Equation of section 6.2 of [1]_.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.
    """
    residual = sums.weight * spectrum.tail
    statistics = whitened(sums, spectrum.eigenvalues, residual)
    L = precision_root(statistics.gram, noise_variance)
    inverse = invert_lower(L)
    # diag S = diag(L⁻ᵀ L⁻¹)
    spread = np.einsum("ij,ij->j", inverse, inverse)
    mean = inverse.T @ (inverse @ statistics.moment) / noise_variance
    scales = 0.5 * (spread + mean**2 - 1.0)
    # Σ w (y - Φw̄)² + Σ w var g; tr(GS)/σ² = m - tr S
    scatter = statistics.square - 2.0 * mean @ statistics.moment
    scatter += mean @ statistics.gram @ mean + residual
    fitted = len(spread) - float(np.sum(spread))
    noise = -0.5 * (sums.weight - fitted - scatter / noise_variance)
    beyond = -0.5 * sums.weight / noise_variance
    slopes = scales @ spectrum.slopes + beyond * spectrum.tail_slopes
    value = log_evidence(statistics, noise_variance, L)
    return value, np.append(noise, slopes)


def noise_bounds(square: float, weight: float) -> Array:
    """Search interval of the noise variance, from ``Σ w y²`` and ``Σ w``.

    In units of the variance of y, or of one where y has none, so that logarithms exist.
    """
    return np.multiply((1e-8, 10.0), square / weight or 1.0)


def best_noise_variance(statistics: WeightStatistics, start: float) -> float:
    """Noise variance that maximises the bound, within a factor of 1000 of a start.

    O(m^3) a step, of which there are about a dozen.
    """
    found = optimize.minimize_scalar(
        lambda log_noise: -log_evidence(statistics, float(np.exp(log_noise))),
        bounds=np.log(
            np.clip(
                (1e-3 * start, 1e3 * start),
                *noise_bounds(statistics.square, statistics.weight),
            )
        ),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x))
