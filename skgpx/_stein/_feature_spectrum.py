"""Waves of a stationary kernel: frequencies by any method, and their amplitudes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import ExpSineSquared

from skgpx._draws import FourierFeatures
from skgpx.kernels import (
    Monomial,
    SpectralSample,
    StationaryTerm,
    SteinSettings,
    record_of,
    spectral_laws,
    stationary_terms,
    stein_frequencies,
    warped_sample,
)

Array = NDArray[np.float64]

_SAMPLED = {"halton": "halton", "sobol": "qmc", "orthogonal": "orthogonal", "mc": "mc"}


def kernel_waves(
    kernel: Any,
    n_frequencies: int,
    method: str,
    settings: SteinSettings,
    rng: np.random.Generator,
) -> FourierFeatures:
    """Waves whose products sum to about the kernel: ``Σ a² cos(ω·(x - y))``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Stationary; white noise is left out.
    n_frequencies : int
        Shared among the terms of a sum in proportion to their variances, which makes
        the mean squared error of independent frequencies smallest.
    method : {"stein", "matrix-stein", "halton", "sobol", "orthogonal", "mc"}
    settings : SteinSettings
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If a part of the kernel has no known frequencies, or there are more terms than
        frequencies.
    """
    terms = stationary_terms(kernel, len(settings.input_variances))
    if len(terms) > n_frequencies:
        raise ValueError(
            f"n_frequencies must be at least {len(terms)}, one for each term of "
            f"{kernel!r}; got {n_frequencies}."
        )
    counts = _shared(terms, n_frequencies)
    samples = [
        _sample(term, kernel, n, method, settings, rng)
        for term, n in zip(terms, counts, strict=True)
    ]
    amplitudes = [
        np.sqrt(term.variance) * sample.amplitudes
        for term, sample in zip(terms, samples, strict=True)
    ]
    return FourierFeatures(
        np.concatenate([sample.frequencies for sample in samples]),
        np.concatenate(amplitudes),
    )


def _shared(terms: list[StationaryTerm], n: int) -> list[int]:
    """Frequencies of each term: at least one, and in proportion to its variance.

    None more than a term has: constants have one, periodic kernels a series.
    """
    counts = np.ones(len(terms), dtype=int)
    most = np.array([_largest_number(term) for term in terms])
    variances = np.array([term.variance for term in terms])
    for _ in range(n - len(terms)):
        # the next one to the term with the most variance for each that it has
        gain = np.where(counts < most, variances / (counts + 0.5), 0.0)
        counts[np.argmax(gain)] += gain.any()
    return counts.tolist()


def _largest_number(term: StationaryTerm) -> float:
    if not term.factors:
        return 1.0
    series = _series(term)
    return np.inf if series is None else float(len(series.amplitudes))


def _series(term: StationaryTerm) -> SpectralSample | None:
    """The cosine series of a periodic kernel alone; None for all other terms."""
    if [type(factor) for factor in term.factors] != [ExpSineSquared]:
        return None
    laws = spectral_laws(Monomial(1.0, term.factors), term.factors[0], 1)
    return warped_sample(laws, 0, 1, np.random.default_rng(0))


def _sample(
    term: StationaryTerm,
    whole: Any,
    n: int,
    method: str,
    settings: SteinSettings,
    rng: np.random.Generator,
) -> SpectralSample:
    """Frequencies of one term, squares of amplitudes adding up to one."""
    d = len(settings.input_variances)
    if not term.factors:
        # a constant is a wave of frequency zero
        return SpectralSample(np.zeros((1, d)), np.ones(1))
    unknown = [k for k in term.factors if record_of(k).spectral_law is None]
    laws = spectral_laws(Monomial(1.0, () if unknown else term.factors), whole, d)
    series = _series(term)
    if series is not None:
        return _strongest(series, n)
    if method not in _SAMPLED:
        waves = stein_frequencies(term.factors, n, rng, settings)
        return SpectralSample(waves, np.full(n, n**-0.5))
    if unknown:
        raise _no_sampler(unknown[0], method)
    return warped_sample(laws, n, d, rng, _SAMPLED[method])


def _no_sampler(part: Any, method: str) -> ValueError:
    name = type(part).__name__
    return ValueError(
        f"{part!r} has no spectral sampler, which method={method!r} needs. Call "
        f"skgpx.kernels.register_spectral_sampler({name}, sampler), or choose "
        'method="stein", which needs the score only.'
    )


def _strongest(series: SpectralSample, n: int) -> SpectralSample:
    """The n strongest waves of a series, with the variance of all."""
    order = np.argsort(-series.amplitudes, kind="stable")[:n]
    kept = series.amplitudes[order]
    return SpectralSample(series.frequencies[order], kept / np.linalg.norm(kept))
