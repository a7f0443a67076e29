"""Kernel, noise and the frequencies at which learning starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.wave_evidence import WaveRows, Waves, wave_evidence
from skgpx._selection import PriorSettings, SearchRecord, fit_prior
from skgpx._stein._warp import NetworkWarp
from skgpx._validation import Rows
from skgpx.kernels import (
    Monomial,
    default_kernel,
    expand,
    spectral_laws,
    warped_sample,
)
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Median of |N(0, 1)|.
_HALF_NORMAL = 0.6744897501960817
# Numbers of frequencies that "auto" compares, and the gain in nats per observation
# required of the next.
NUMBERS = (50, 100, 200, 400)
_WORTH = 0.01


class Prior(NamedTuple):
    """Gaussian-process prior of the standardised y, and the noise.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Stationary.
    noise_variance : float
    record : SearchRecord
        Rows they were learned from.
    """

    kernel: Any
    noise_variance: float
    record: SearchRecord = SearchRecord()


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

    def rescaled(self, logs: Array) -> WaveMixture:
        """Lengthscales, prior and noise variance times ``exp(logs)`` (d + 2,)."""
        factors = np.exp(logs)
        return self._replace(
            length_scale=self.length_scale * factors[:-2],
            amplitudes=self.amplitudes * np.sqrt(factors[-2]),
            noise_variance=self.noise_variance * float(factors[-1]),
        )

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


def learn_prior(
    rows: Rows,
    kernel: Any,
    optimizer: str | None,
    noise_variance: float | None,
    rng: np.random.Generator,
) -> Prior:
    """Kernel and noise by the exact evidence of some of the rows.

    Parameters
    ----------
    rows : Rows
        With a standardised y.
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        None lets RBF and Matern kernels compete.
    optimizer : "evidence" or None
    noise_variance : float or None
        Of the standardised y; None learns it.
    rng : numpy.random.Generator
    """
    likelihood = Gaussian(noise_variance).prepare(rows.y, rows.weights)
    if kernel is None and optimizer is None:
        kernel = default_kernel(rows.X, rows.weights)
    settings = PriorSettings(kernel, "gp", optimizer, 1, "greedy", None)
    found = fit_prior(rows, likelihood, settings, rng)
    noise = float(found.likelihood.variance(0.0))
    return Prior(found.kernel, noise, found.record)


def starting_waves(
    prior: Prior, n_components: int, n_frequencies: int, d: int, rng: Any
) -> WaveMixture:
    """Quasi-random frequencies from the spectral distribution of the kernel.

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral distribution.
    """
    samples = [
        _sampled(prior.kernel, n_frequencies, d, stream)
        for stream in rng.spawn(n_components)
    ]
    omega = np.stack([frequencies for frequencies, _ in samples])
    # the length scale of an RBF with frequencies of this size
    size = np.median(np.abs(omega).reshape(-1, d), axis=0)
    scale = _HALF_NORMAL / np.where(size > 0.0, size, _HALF_NORMAL)
    return WaveMixture(omega * scale, samples[0][1], scale, prior.noise_variance)


def _sampled(
    kernel: Any, n: int, d: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Frequencies (R, d) and amplitudes (R,): a share of n for each summand."""
    terms = expand(kernel)
    variances = np.array([_variance(term, d) for term in terms])
    parts = [
        warped_sample(spectral_laws(term, kernel, d), count, d, stream)
        for term, count, stream in zip(
            terms, _shares(variances, n), rng.spawn(len(terms)), strict=True
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


def _shares(variances: Array, n: int) -> list[int]:
    """Numbers in proportion to variances, at least one each."""
    ends = np.rint(np.cumsum(variances) / variances.sum() * n).astype(int)
    return [max(1, int(count)) for count in np.diff(ends, prepend=0)]


def enough_frequencies(prior: Prior, rows: WaveRows, rng: np.random.Generator) -> int:
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
        start = starting_waves(prior, 1, number, d, np.random.default_rng(seed))
        evidence = wave_evidence(rows, start.waves(0))
        if evidence < best + _WORTH * float(rows.weights.sum()):
            break
        best, chosen = evidence, number
    return chosen
