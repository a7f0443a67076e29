"""The bound of a series prior: one object that is searched and reported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import FourierIndex, Integers
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.series_evidence import (
    ScaleProfile,
    SeriesEvidence,
    Spectrum,
    series_evidence,
)
from skgpx._numerics.series_statistics import NormalEquations
from skgpx._spectral_vgp._series_sums import StandardSums

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesBound:
    """Bound as a function of the rule and the noise variance, all else chosen.

    Attributes
    ----------
    sums : StandardSums
        Of the rows.
    functions : FourierIndex
        All functions considered, those of the basis first.
    size : int
        Number of functions of the basis.
    """

    sums: StandardSums
    functions: FourierIndex
    size: int

    @property
    def weight(self) -> float:
        """``Σ w``."""
        return self.sums.statistics.weight

    @cached_property
    def equations(self) -> NormalEquations:
        """Sums for the functions of the basis; O(m^2)."""
        return self.sums.equations(self.functions.part(slice(self.size)))

    @cached_property
    def _excess(self) -> Array:
        """``Σ w φ_j² / Σ w - 1`` of functions after the basis, up to the last uneven.

        A sine and a cosine of one eigenvalue have squares whose sum is constant.
        """
        rest = self.functions.part(slice(self.size, None))
        waves, place = rest.distinct()
        sign = np.where(rest.sine, -1.0, 1.0)
        uneven = np.bincount(place, rest.ranks * sign, len(waves)) != 0.0
        uneven &= waves.any(axis=1)
        chosen = np.flatnonzero(uneven[place])
        rest = rest.part(slice(chosen[-1] + 1 if len(chosen) else 0))
        # 2 cos² = 1 + cos 2, 2 sin² = 1 - cos 2
        excess = self.sums.statistics.cosines(2 * rest.waves) / self.weight
        return np.where(rest.waves.any(axis=1), sign[: len(rest)] * excess, 0.0)

    def spectrum(self, rule: Any) -> Spectrum:
        """Eigenvalues of the basis; the tail is averaged over the rows."""
        m, excess = self.size, self._excess
        box = self.sums.statistics.box
        s = rule.spectrum(self.functions.part(slice(m + len(excess))), box)
        later = s.eigenvalues[m:] * (1.0 + excess)
        return Spectrum(
            s.eigenvalues[:m],
            s.slopes[:m],
            max(s.tail + float(later.sum()), 0.0),
            s.tail_slopes + later @ s.slopes[m:],
        )

    def at(self, rule: Any, noise_variance: float) -> SeriesEvidence:
        """Value and gradient, in nats and for the standardised y; O(m^3)."""
        return series_evidence(self.equations, self.spectrum(rule), noise_variance)

    def statistics(self, rule: Any) -> WeightStatistics:
        """Sums for the whitened functions of the basis."""
        spectrum = self.spectrum(rule)
        residual = self.weight * spectrum.tail
        return self.equations.whitened(spectrum.eigenvalues, residual)

    def profile(self, rule: Any) -> ScaleProfile:
        """The bound for every noise variance and scale; O(m^3) once."""
        return ScaleProfile.of(self.statistics(rule))

    def of_noise(self, noise_variance: float | None) -> float:
        """Bound of a function that is zero, with the best or a given noise variance."""
        square, weight = self.equations.square, self.weight
        variance = square / weight if noise_variance is None else noise_variance
        if variance <= 0.0:
            # y is constant: there is no best noise
            return -np.inf
        return -0.5 * float(weight * np.log(2.0 * np.pi * variance) + square / variance)


class SeriesPrior(NamedTuple):
    """Point of a search and the bound there.

    Attributes
    ----------
    rule : EigenvalueRule
    noise_variance : float
        For the standardised y.
    log_evidence : float
        In nats, of the standardised y.
    """

    rule: Any
    noise_variance: float
    log_evidence: float


@dataclass(frozen=True)
class SeriesChoice:
    """What a search ends with: the bound it maximised, and where.

    Attributes
    ----------
    bound : SeriesBound
        Of the functions chosen.
    prior : SeriesPrior
    elbow : int
        ``#{j : n λ_j >= σ²}``, no more than one beyond the most that are allowed.
    only_noise : bool
        Whether noise alone has at least this bound.
    raised : ndarray of shape (r, d)
        Waves that stand out of the prior, and come first.
    """

    bound: SeriesBound
    prior: SeriesPrior
    elbow: int
    only_noise: bool
    raised: Integers
