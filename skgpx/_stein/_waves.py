"""Sets of waves: where they start, and the sums over rows that the posterior reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.regression import WeightStatistics, log_evidence, posterior
from skgpx._numerics.wave_evidence import WaveRows, Waves, wave_evidence
from skgpx._row_statistics import statistics_of_all
from skgpx._stein._warp import NetworkWarp
from skgpx._validation import Rows
from skgpx.bases import Fourier, Warped
from skgpx.kernels import Monomial, expand, spectral_laws, warped_sample

# ---- Sets of waves -------------------------------------------------------------------


Array = NDArray[np.float64]
Rng = np.random.Generator


class WaveMixture(NamedTuple):
    """Sets of waves with common amplitudes: what learning moves.

    Attributes
    ----------
    frequencies : ndarray of shape (M, R, d)
        Ω, in radians per length scale.
    amplitudes : ndarray of shape (R,)
    length_scale : ndarray of shape (d,)
        ℓ, the unit of each input.
    noise_variance : float
    warp : NetworkWarp or None
        What inputs go through before.
    """

    frequencies: Array
    amplitudes: Array
    length_scale: Array
    noise_variance: float
    warp: NetworkWarp | None = None

    def copied(self) -> WaveMixture:
        """Return the same mixture, with frequencies and network of its own."""
        warp = None if self.warp is None else self.warp.copied()
        return self._replace(frequencies=self.frequencies.copy(), warp=warp)

    def equals(self, other: WaveMixture) -> bool:
        """Whether the features of both are the same functions."""
        own, theirs = (
            () if mixture.warp is None else mixture.warp.parameters
            for mixture in (self, other)
        )
        pairs = zip((*self[:-1], own), (*other[:-1], theirs), strict=True)
        return all(np.array_equal(one, two) for one, two in pairs)

    def waves(self, component: int) -> Waves:
        """One set, in radians per unit of the inputs."""
        omega = self.frequencies[component] / self.length_scale
        return Waves(omega, self.amplitudes, self.noise_variance)

    def scaled(self, factor: float) -> WaveMixture:
        """Prior and noise variance times a factor: the posterior mean is the same."""
        return self._replace(
            amplitudes=self.amplitudes * np.sqrt(factor),
            noise_variance=self.noise_variance * factor,
        )


# ---- Where learning starts -----------------------------------------------------------


# Median of |N(0, 1)|.
_HALF_NORMAL = 0.6744897501960817
# Numbers of frequencies that "auto" compares, and the gain in nats per observation
# required of the next.
NUMBERS = (50, 100, 200, 400)
_WORTH = 0.01


def starting_waves(
    kernel: Any, noise_variance: float, shape: tuple[int, int, int], rng: Rng
) -> WaveMixture:
    """Quasi-random frequencies (M, R, d) from the spectral distribution of the kernel.

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral distribution.
    """
    M, R, d = shape
    samples = [_sampled(kernel, R, d, stream) for stream in rng.spawn(M)]
    omega = np.stack([frequencies for frequencies, _ in samples])
    # the length scale of an RBF with frequencies of this size
    size = np.median(np.abs(omega).reshape(-1, d), axis=0)
    scale = _HALF_NORMAL / np.where(size > 0.0, size, _HALF_NORMAL)
    return WaveMixture(omega * scale, samples[0][1], scale, noise_variance)


def _sampled(kernel: Any, n: int, d: int, rng: Rng) -> tuple[Array, Array]:
    """Frequencies (R, d) and amplitudes (R,): a share of n for each summand."""
    terms = expand(kernel)
    variances = np.array([_variance(term, d) for term in terms])
    ends = np.rint(np.cumsum(variances) / variances.sum() * n).astype(int)
    counts = np.maximum(np.diff(ends, prepend=0), 1).tolist()
    parts = [
        warped_sample(spectral_laws(term, kernel, d), count, d, stream)
        for term, count, stream in zip(
            terms, counts, rng.spawn(len(terms)), strict=True
        )
    ]
    sizes = [
        np.sqrt(variance) * part.amplitudes
        for variance, part in zip(variances, parts, strict=True)
    ]
    return np.concatenate([p.frequencies for p in parts]), np.concatenate(sizes)


def _variance(term: Monomial, d: int) -> float:
    origin = np.zeros((1, d))
    factors = [float(factor.diag(origin)[0]) for factor in term.factors]
    return float(term.coefficient * np.prod(factors))


def enough_frequencies(
    kernel: Any, noise_variance: float, rows: WaveRows, rng: Rng
) -> int:
    """As many frequencies as the evidence of the rows pays for, before they move.

    The number doubles, from 50 to 400, while that gains a hundredth of a nat a row and
    leaves fewer functions than rows.
    """
    n, d = len(rows.y), len(rows.points)
    (stream,) = rng.spawn(1)
    seed = int(stream.integers(2**31))
    best, chosen = -np.inf, NUMBERS[0]
    for number in NUMBERS:
        if number > NUMBERS[0] and 2 * number > n:
            break
        shape, again = (1, number, d), np.random.default_rng(seed)
        start = starting_waves(kernel, noise_variance, shape, again)
        evidence = wave_evidence(rows, start.waves(0))
        if evidence < best + _WORTH * float(rows.weights.sum()):
            break
        best, chosen = evidence, number
    return chosen


# ---- Fixed waves, and sums over rows -------------------------------------------------


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
