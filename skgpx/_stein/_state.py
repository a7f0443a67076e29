"""Fixed frequencies and the sums over rows: all that the posterior reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.regression import WeightStatistics, log_evidence, posterior
from skgpx._row_statistics import statistics_of_all
from skgpx._stein._prior import WaveMixture
from skgpx._validation import Rows
from skgpx.bases import Fourier, Warped

Array = NDArray[np.float64]


class Solution(NamedTuple):
    """Posterior in the units of y.

    Attributes
    ----------
    model : MixtureModel
    noise_variance : float
    log_evidence : float
        Of the mixture: the logarithm of the mean evidence of its components.
    powers : ndarray of shape (M, R)
        Of the waves, see :func:`wave_powers`.
    """

    model: MixtureModel
    noise_variance: float
    log_evidence: float
    powers: Array


@dataclass(frozen=True)
class SteinState:
    """Waves, and the sums of their features over all rows seen.

    Attributes
    ----------
    mixture : WaveMixture
    kernel : sklearn.gaussian_process.kernels.Kernel
    statistics : tuple of WeightStatistics
        Of the standardised y, one for each component.
    first : tuple of WeightStatistics
        Of the rows that chose the frequencies, which copies of a model share.
    shift, scale : float
        Standardisation of y, of these rows.
    """

    mixture: WaveMixture
    kernel: Any
    statistics: tuple[WeightStatistics, ...]
    first: tuple[WeightStatistics, ...]
    shift: float
    scale: float

    @classmethod
    def of(
        cls,
        mixture: WaveMixture,
        kernel: Any,
        rows: Rows,
        shift: float,
        scale: float,
        n_jobs: int | None,
    ) -> SteinState:
        """Sums over rows of the standardised y."""
        sums = sums_of(mixture, rows, n_jobs)
        return cls(mixture, kernel, sums, sums, shift, scale)

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SteinState:
        """State after more rows."""
        standard = rows._replace(y=(rows.y - self.shift) / self.scale)
        more = sums_of(self.mixture, standard, n_jobs)
        return replace(self, statistics=_added(self.statistics, more))

    def merged(self, other: SteinState) -> SteinState:
        """State of the rows of both; those that chose the frequencies count once.

        Raises
        ------
        ValueError
            If they do not have the same frequencies and standardisation.
        """
        if not self._began_like(other):
            raise ValueError(
                "Only models with the same frequencies and one standardisation of y "
                "can be merged. Fit one model to some rows, copy it, and let the "
                "copies see the other rows by partial_fit."
            )
        total = _added(self.statistics, other.statistics)
        return replace(self, statistics=_added(total, self.first, -1.0))

    def _began_like(self, other: SteinState) -> bool:
        moments = zip(self.first, other.first, strict=False)
        return (
            self.mixture.equals(other.mixture)
            and (self.shift, self.scale) == (other.shift, other.scale)
            and all(np.array_equal(one.moment, two.moment) for one, two in moments)
        )

    def solve(self) -> Solution:
        """Posterior and evidence; O(M m³)."""
        noise = self.mixture.noise_variance
        models = tuple(
            LatentModel(basis, posterior(statistics, noise))
            for basis, statistics in zip(
                bases(self.mixture), self.statistics, strict=True
            )
        )
        evidence = [log_evidence(one, noise) for one in self.statistics]
        weight = self.statistics[0].weight
        k = len(models)
        return Solution(
            MixtureModel(models, np.zeros(k)).affine(self.shift, self.scale),
            noise * self.scale**2,
            float(logsumexp(evidence) - np.log(k) - weight * np.log(self.scale)),
            self.scale**2
            * np.stack([wave_powers(m, self.mixture.amplitudes) for m in models]),
        )


def wave_powers(model: LatentModel, amplitudes: Array) -> Array:
    """Posterior mean of ``a² (w² + w'²) / 2``, the mean square of each wave, (R,)."""
    mean, root = model.law.moments()
    squares = mean[:, 0] ** 2 + np.sum(root[0] ** 2, axis=1)
    cosine, sine = np.split(squares, 2)
    power: Array = 0.5 * amplitudes**2 * (cosine + sine)
    return power


def bases(mixture: WaveMixture) -> list[Fourier | Warped]:
    """The basis of each component."""
    rest = mixture.amplitudes, mixture.length_scale
    waves = [Fourier(omega, *rest) for omega in mixture.frequencies]
    if mixture.warp is None:
        return list(waves)
    seen = mixture.warp.input_map()
    return [Warped(wave, seen) for wave in waves]


def sums_of(
    mixture: WaveMixture, rows: Rows, n_jobs: int | None
) -> tuple[WeightStatistics, ...]:
    """Sums over rows for each component, in blocks of rows."""
    return statistics_of_all(bases(mixture), rows, n_jobs)


def _added(
    one: tuple[WeightStatistics, ...],
    other: tuple[WeightStatistics, ...],
    sign: float = 1.0,
) -> tuple[WeightStatistics, ...]:
    return tuple(a.add(b, sign) for a, b in zip(one, other, strict=True))
