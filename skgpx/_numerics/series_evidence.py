"""Evidence of a series prior: gradient in its eigenvalues, fast paths for its scale.

With functions φ, eigenvalues λ and a tail that the functions leave out, the bound is
:func:`skgpx._numerics.regression.log_evidence` of the features ``√λ φ``. It depends on
the data through :class:`~skgpx._numerics.series_statistics.NormalEquations` only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import invert_lower
from skgpx._numerics.regression import log_evidence_from, precision_root
from skgpx._numerics.series_statistics import NormalEquations

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
        Prior variance outside the functions, averaged over the box.
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
    tail_factor: float = 1.0,
) -> SeriesEvidence:
    """Bound of the log evidence and its analytic gradient.

    Parameters
    ----------
    equations : NormalEquations
        Of the functions the spectrum lists.
    spectrum : Spectrum
    noise_variance : float
        ``σ²``, positive.
    tail_factor : float, default=1.0
        ``Σ w var g / (Σ w tail)``: one unless sines and cosines of the tail have
        unequal eigenvalues.

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
    residual = equations.weight * tail_factor * spectrum.tail
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
    beyond = -0.5 * equations.weight * tail_factor / noise_variance
    return SeriesEvidence(
        log_evidence_from(statistics, noise_variance, L),
        float(noise),
        scales @ spectrum.slopes + beyond * spectrum.tail_slopes,
    )


class ScaleProfile(NamedTuple):
    """Bound as a function of ``σ²`` and a factor of all eigenvalues.

    One eigendecomposition ``Λ½ G Λ½ = Q diag(g) Qᵀ`` serves every value of both.

    Attributes
    ----------
    gram : ndarray of shape (m,)
        ``g``.
    moment : ndarray of shape (m,)
        ``Qᵀ Λ½ Φᵀ y``.
    square, residual, weight : float
        As in :class:`~skgpx._numerics.regression.WeightStatistics`.
    """

    gram: Array
    moment: Array
    square: float
    residual: float
    weight: float

    @classmethod
    def of(
        cls, equations: NormalEquations, spectrum: Spectrum, tail_factor: float = 1.0
    ) -> ScaleProfile:
        """Decompose once; O(m^3)."""
        residual = equations.weight * tail_factor * spectrum.tail
        s = equations.whitened(spectrum.eigenvalues, residual)
        values, vectors = np.linalg.eigh(s.gram)
        gram = np.maximum(values, 0.0)
        return cls(gram, vectors.T @ s.moment, s.square, s.residual, s.weight)

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
        # a = 1 + scale g/σ²;  yᵀ(..)⁻¹y = |y|²/σ² - Σ scale c²/(σ⁴ a)
        a = 1.0 + scale * self.gram / noise_variance
        gain = scale * self.moment**2 / (noise_variance**2 * a)
        misfit = self.square / noise_variance - float(np.sum(gain))
        penalty = scale * self.residual / noise_variance
        volume = self.weight * np.log(2.0 * np.pi * noise_variance)
        value = -0.5 * (volume + float(np.sum(np.log(a))) + misfit + penalty)
        fitted = (a - 1.0) / a
        in_scale = -0.5 * (float(np.sum(fitted - gain / a)) + penalty)
        in_noise = self.weight - float(np.sum(fitted)) - self.square / noise_variance
        in_noise += float(np.sum(gain * (1.0 + 1.0 / a))) - penalty
        return float(value), np.array([-0.5 * in_noise, in_scale])
