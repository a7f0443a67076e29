"""Evidence of a series prior: gradient in its eigenvalues, fast paths for its scale.

With functions φ, eigenvalues λ and a tail that the functions leave out, the bound is
:func:`skgpx._numerics.regression.log_evidence` of the features ``√λ φ``. It depends on
the data through :class:`~skgpx._numerics.series_statistics.NormalEquations` only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.linalg import invert_lower
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence_from,
    precision_root,
)
from skgpx._numerics.series_statistics import NormalEquations
from skgpx._numerics.tridiagonal import ridge_pivots, tridiagonal_from

Array = NDArray[np.float64]

# Errors of a tridiagonal form, in units of the machine precision of its largest entry.
_ROUNDING = 16.0
# Search interval of the noise variance, in units of the variance of y, and points of a
# grid around the best of which its maximum is looked for.
_NOISE_BOUNDS = (1e-8, 10.0)
_GRID = 41


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


class SeriesEvidence(NamedTuple):
    """Value of the bound and its derivatives.

    Attributes
    ----------
    value : float
        In nats.
    noise : float
        Derivative in ``log σ²``.
    parameters : ndarray of shape (p,)
        Derivative in the parameters of the rule.
    """

    value: float
    noise: float
    parameters: Array


def series_evidence(
    equations: NormalEquations,
    spectrum: Spectrum,
    noise_variance: float,
) -> SeriesEvidence:
    """Bound of the log evidence and its analytic gradient.

    Parameters
    ----------
    equations : NormalEquations
        Of the functions the spectrum lists.
    spectrum : Spectrum
    noise_variance : float
        ``σ²``, positive.

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
    residual = equations.weight * spectrum.tail
    statistics = equations.whitened(spectrum.eigenvalues, residual)
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
    noise = -0.5 * (equations.weight - fitted - scatter / noise_variance)
    beyond = -0.5 * equations.weight / noise_variance
    return SeriesEvidence(
        log_evidence_from(statistics, noise_variance, L),
        float(noise),
        scales @ spectrum.slopes + beyond * spectrum.tail_slopes,
    )


class ScaleProfile(NamedTuple):
    """Bound as a function of ``σ²`` and a factor of all eigenvalues.

    An orthogonal change of the weights makes ``Λ½ G Λ½`` tridiagonal and all but the
    first entry of ``Λ½ Φᵀ y`` zero. One such change serves every value of both.

    Attributes
    ----------
    diagonal, below : ndarray of shape (m,) and (m - 1,)
        The tridiagonal matrix.
    moment : float
        Squared length of ``Λ½ Φᵀ y``.
    square, residual, weight : float
        As in :class:`~skgpx._numerics.regression.WeightStatistics`.
    """

    diagonal: Array
    below: Array
    moment: float
    square: float
    residual: float
    weight: float

    @classmethod
    def of(cls, statistics: WeightStatistics) -> ScaleProfile:
        """Change the weights once; O(m^3), half of an eigendecomposition."""
        s = statistics
        diagonal, below = tridiagonal_from(s.gram, s.moment)
        moment = float(s.moment @ s.moment)
        # rounding errors must not make a matrix indefinite that may be near singular
        largest = float(np.max(diagonal) + 2.0 * np.max(np.abs(below), initial=0.0))
        diagonal = diagonal + _ROUNDING * np.finfo(float).eps * largest
        return cls(
            diagonal=diagonal,
            below=below,
            moment=moment,
            square=s.square,
            residual=s.residual,
            weight=s.weight,
        )

    def value_and_gradient(
        self, noise_variance: float, scale: float
    ) -> tuple[float, Array]:
        """Bound at ``σ²`` and eigenvalues ``scale λ``; O(m).

        Returns
        -------
        value : float
            In nats.
        gradient : ndarray of shape (2,)
            In ``log σ²`` and ``log scale``.
        """
        # B = I + a T;  yᵀ(..)⁻¹y = |y|²/σ² - a |c|²/σ² (B⁻¹)₁₁
        a = scale / noise_variance
        volume, in_volume, corner, in_corner = ridge_pivots(
            self.diagonal, self.below, a
        )
        gain = a * self.moment / noise_variance * corner
        in_gain = a * self.moment / noise_variance * in_corner
        misfit = self.square / noise_variance - gain
        penalty = a * self.residual
        constant = self.weight * np.log(2.0 * np.pi * noise_variance)
        value = -0.5 * (constant + volume + misfit + penalty)
        in_scale = in_volume - gain - in_gain + penalty
        # σ² is in a, and once more in the constant and the misfit
        in_noise = self.weight - misfit - in_scale
        return float(value), -0.5 * np.array([in_noise, in_scale])

    def best_noise_variance(self) -> float:
        """Noise variance that maximises the bound, the scale as it is; O(m)."""

        def negative(log_noise: float) -> float:
            return -self.value_and_gradient(float(np.exp(log_noise)), 1.0)[0]

        low, high = np.log(noise_bounds(self.square, self.weight))
        grid = np.linspace(low, high, _GRID)
        best = int(np.argmin([negative(point) for point in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
        found = optimize.minimize_scalar(
            negative, bounds=around, method="bounded", options={"xatol": 1e-9}
        )
        return float(np.exp(found.x))


def noise_bounds(square: float, weight: float) -> Array:
    """Search interval of the noise variance, from ``Σ w y²`` and ``Σ w``.

    In units of the variance of y, or of one where y has none, so that logarithms exist.
    """
    return np.multiply(_NOISE_BOUNDS, square / weight or 1.0)
