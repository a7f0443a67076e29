"""Spectral densities of kernels: formulas, frequencies, and a check of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, logsumexp
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import RBF

from skgpx.kernels._records import no_sampler, record_of
from skgpx.kernels._spectral_distributions import (
    EllipticalDistribution,
    PeriodicDistribution,
    SampledDistribution,
    SpectralDistribution,
)
from skgpx.kernels._terms import Monomial, expand, latent_kernel

Array = NDArray[np.float64]


# ---- Density of the frequencies of a stationary kernel, and its score ----------------


def check_spectral_score(kernel: Any, omega: Array) -> None:
    """Compare the score of a kernel with central differences of its density.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Of a type with a spectral score; not a sum or product.
    omega : ndarray of shape (R, d)
        Angular frequencies, in the bulk of the density.

    Raises
    ------
    ValueError
        If the score has another shape than omega or is not finite; if it is not odd,
        as that of an even density is; if it is not the slope of a known density.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import check_spectral_score
    >>> check_spectral_score(RBF(2.0), np.array([[0.3], [-1.0]]))
    """
    score, fault = np.asarray(_score(kernel, omega), dtype=np.float64), ""
    if score.shape != omega.shape or not np.isfinite(score).all():
        fault = f"must be finite and of shape {omega.shape}; got shape {score.shape}"
    elif not np.allclose(_score(kernel, -omega), -score, rtol=1e-6, atol=1e-12):
        fault = "is not odd in ω, as it is for a real kernel"
    elif not _is_slope(kernel, omega, score):
        fault = "is not the slope of its log spectral density"
    if fault:
        name = type(kernel).__name__
        raise ValueError(
            f"The spectral score of {name} {fault}. Register ∇ log S(ω), in radians "
            "per unit of the input, with "
            f"skgpx.kernels.register_kernel({name}, spectral_score=...)."
        )


def _is_slope(kernel: Any, omega: Array, score: Array) -> bool:
    """Whether a score agrees with a density, if that is known."""
    record, (R, d) = record_of(kernel), omega.shape
    if not (record.log_spectral_density or record.spectral_density):
        return True
    steps = 1e-4 * np.linalg.norm(omega, axis=1, keepdims=True)
    # every frequency moved along all axes, in one call each
    moves = steps[:, :, np.newaxis] * np.eye(d)
    up, down = (
        _log_density(kernel, (omega[:, np.newaxis] + move).reshape(-1, d))
        for move in (moves, -moves)
    )
    error = np.abs(0.5 * (up - down).reshape(R, d) - score * steps)
    scale = np.max(np.abs(score * steps), axis=1, keepdims=True)
    return bool(np.all(error <= 1e-2 * scale + 1e-9))


def log_spectral_density(kernel: Any, omega: Array) -> Array:
    """Logarithm of the density of the frequencies, which integrates to one.

    ``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω``; constant factors of the kernel do
    not change p, and that of a sum is the mixture of those of its terms, in
    proportion to their variances.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        RBF, Matern, RationalQuadratic, every type with a registered density, products
        of these with constants, products and integer powers of RBFs, and sums.
    omega : ndarray of shape (R, d)
        Angular frequencies, in radians per unit of the input.

    Returns
    -------
    log_density : ndarray of shape (R,)
        In nats. Infinite at ω = 0 where the density is (RationalQuadratic with
        ``alpha <= d / 2``).

    Raises
    ------
    ValueError
        If a part of the kernel has no known density; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import log_spectral_density
    >>> log_spectral_density(3.0 * RBF(0.5), np.zeros((1, 1))).round(3)
    array([-1.612])
    """
    shares, parts = _mixture(kernel, omega.shape[1])
    logs = np.stack([_log_density(part, omega) for part in parts])
    total: Array = logsumexp(logs + np.log(shares)[:, np.newaxis], axis=0)
    return total


def spectral_score(kernel: Any, omega: Array) -> Array:
    """Gradient of :func:`log_spectral_density` in the frequencies.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        As in :func:`log_spectral_density`; your own kernels need
        a registered score, and in sums a spectral density.
    omega : ndarray of shape (R, d)
        Angular frequencies.

    Returns
    -------
    score : ndarray of shape (R, d)
        ``∇ log p(ω)``; for a sum the average of those of its terms, weighted by
        their parts of the density at ω.

    Raises
    ------
    ValueError
        If a part of the kernel has no known score; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import spectral_score
    >>> spectral_score(3.0 * RBF(0.5), np.array([[2.0]]))
    array([[-0.5]])
    """
    shares, parts = _mixture(kernel, omega.shape[1])
    scores = np.stack([_score(part, omega) for part in parts])
    if len(parts) == 1:
        return scores[0]
    logs = np.stack([_log_density(part, omega) for part in parts])
    logs += np.log(shares)[:, np.newaxis]
    # an infinite density has all the weight
    logs = np.minimum(logs, np.finfo(np.float64).max)
    weights = np.exp(logs - logsumexp(logs, axis=0))
    average: Array = np.einsum("kr,krd->rd", weights, scores)
    return average


def _mixture(kernel: Any, d: int) -> tuple[Array, list[Any]]:
    """Parts of the variance, and the kernel, of each term of a sum."""
    variances, parts = [], []
    for term in expand(kernel):
        factors = with_one_rbf(term.factors)
        if len(factors) != 1:
            what = " * ".join(map(repr, factors)) or "a constant"
            raise ValueError(
                f"The spectral density of {what}, a term of {kernel!r}, is not known: "
                "a constant has all of its variance at the frequency zero, and the "
                "density of a product is a convolution. Use products with constants, "
                "products of RBFs, and their sums."
            )
        part = factors[0]
        variances.append(term.coefficient * float(part.diag(np.zeros((1, d)))[0]))
        parts.append(part)
    shares = np.array(variances)
    return shares / shares.sum(), parts


def _log_density(part: Any, omega: Array) -> Array:
    """Logarithm of the normalised density of one kernel, not a sum or product."""
    record = record_of(part)
    if record.log_spectral_density is not None:
        return record.log_spectral_density(part, omega)
    density = _known(part, record.spectral_density, "density")
    d = omega.shape[1]
    # S = (2π)^d k(0) p
    variance = float(part.diag(np.zeros((1, d)))[0])
    logs: Array = np.log(density(part, omega)[0])
    return logs - d * np.log(2.0 * np.pi) - np.log(variance)


def _score(part: Any, omega: Array) -> Array:
    score: Array = _known(part, record_of(part).spectral_score, "score")(part, omega)
    return score


def _known(part: Any, rule: Any, what: str) -> Callable[..., Any]:
    if rule is None:
        name = type(part).__name__
        raise ValueError(
            f"{part!r} has no known spectral {what}. Register it with "
            f"skgpx.kernels.register_kernel({name}, spectral_{what}=...) if the kernel "
            "is stationary and has one."
        )
    known: Callable[..., Any] = rule
    return known


# ---- Samples of the spectral density of a stationary kernel --------------------------


_METHODS = ("qmc", "halton", "orthogonal", "mc")
# Uniform points are kept this far from the faces of the cube.
_EDGE = 2.0**-32


@dataclass(frozen=True)
class SpectralSample:
    """Weighted frequencies of a stationary kernel.

    Attributes
    ----------
    frequencies : ndarray of shape (R, d)
        Angular, in radians per unit of the input.
    amplitudes : ndarray of shape (R,)
        Their squares sum to one:
        ``k(x, y) / k(x, x) ≈ Σ amplitudes² cos(ω·(x - y))``.
    """

    frequencies: Array
    amplitudes: Array


def sample_frequencies(
    kernel: Any,
    n_frequencies: int,
    d: int,
    rng: np.random.Generator,
    method: str = "qmc",
    tail_power: float = 1.0,
) -> SpectralSample:
    """Frequencies from the normalised spectral density of a stationary kernel.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        RBF, Matern, RationalQuadratic, ExpSineSquared (one input column), constants,
        products and integer powers of these, and every type with
        a registered sampler.
    n_frequencies : int
        Number of frequencies ``R``, best a power of two. A periodic kernel alone
        gives its exact cosine series instead, of whatever length.
    d : int
        Number of input columns.
    rng : numpy.random.Generator
        Source of the randomisation.
    method : {"qmc", "halton", "orthogonal", "mc"}, default="qmc"
        A scrambled Sobol net; a scrambled Halton sequence; orthogonal directions with
        independent radii [1]_; independent points.
    tail_power : float, default=1.0
        ``κ >= 1``: how much the high frequencies are enriched, see
        :func:`warped_sample`; without effect on "orthogonal".

    Returns
    -------
    sample : SpectralSample
        Frequencies (R, d) and amplitudes (R,).

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral sampler, the kernel is a sum, or there
        is no such method.

    References
    ----------
    .. [1] Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, "Orthogonal random
       features", NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import Matern
    >>> from skgpx.bases import sample_frequencies
    >>> rng = np.random.default_rng(0)
    >>> sample = sample_frequencies(Matern(0.5, nu=2.5), 256, 2, rng, tail_power=3.0)
    >>> sample.frequencies.shape, float(np.sum(sample.amplitudes**2))
    ((256, 2), 1.0)
    """
    if method not in _METHODS:
        raise ValueError(f"method must be one of {_METHODS}; got {method!r}.")
    monomials = expand(kernel)
    if len(monomials) != 1:
        raise ValueError(
            f"sample_frequencies expects a stationary kernel that is not a sum; got "
            f"{kernel!r}. Sample its {len(monomials)} terms one by one."
        )
    spectra = spectral_distributions(monomials[0], kernel, d)
    return warped_sample(spectra, n_frequencies, d, rng, method, tail_power)


def spectral_distributions(
    monomial: Monomial, whole: Any, d: int
) -> tuple[SpectralDistribution, ...]:
    """Distributions of the factors of a product, whose frequencies are added.

    Raises
    ------
    ValueError
        If a factor has none; the message names it.
    """
    spectra = []
    for factor in with_one_rbf(monomial.factors):
        spectrum = record_of(factor).spectral_distribution
        if spectrum is None:
            raise no_sampler(factor, whole)
        spectra.append(spectrum(factor, d))
    return tuple(spectra)


def with_one_rbf(factors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Factors of a product, with its RBFs merged into one, at the end.

    A product of RBFs is an RBF; squared inverse lengthscales are summed.
    """
    gaussian = [k for k in factors if type(k) is RBF]
    others = tuple(k for k in factors if type(k) is not RBF)
    if not gaussian:
        return others
    inverse = sum(np.asarray(k.length_scale, dtype=float) ** -2.0 for k in gaussian)
    return (*others, RBF(np.asarray(inverse) ** -0.5))


def warped_sample(
    spectra: Sequence[SpectralDistribution],
    n: int,
    d: int,
    rng: np.random.Generator,
    method: str = "qmc",
    tail_power: float = 1.0,
) -> SpectralSample:
    """Sum of independent frequencies, with more of the high ones where κ > 1.

    The first coordinate of each one is the probability ``u`` of a higher frequency.
    Where a plain sample takes ``u = v`` from a uniform ``v``, this one takes
    ``u = v^κ``, which sends more points to the tail, and gives them the importance
    weight ``du/dv = κ v^(κ - 1)``, of mean one and at most κ.
    """
    if len(spectra) == 1 and isinstance(spectra[0], PeriodicDistribution):
        waves, series = spectra[0].series()
        return SpectralSample(waves, np.sqrt(series))
    if len(spectra) == 1 and isinstance(spectra[0], SampledDistribution):
        waves = spectra[0].frequencies(np.empty((n, 0)), rng)
        return SpectralSample(waves, np.full(n, n**-0.5))
    if method == "orthogonal":
        waves = np.sum(
            [_orthogonal(spectrum, n, d, rng) for spectrum in spectra],
            axis=0,
        )
        return SpectralSample(waves, np.full(n, n**-0.5))
    uniform = uniform_points(
        n,
        sum(spectrum.n_coordinates for spectrum in spectra),
        rng,
        method,
    )
    if uniform.shape[1]:
        # ω and -ω are the same wave: half of the directions suffice for one summand
        uniform[:, 1] *= 0.5
    total, weights, start = np.zeros((n, d)), np.ones(n), 0
    for spectrum in spectra:
        block = uniform[:, start : start + spectrum.n_coordinates]
        start += spectrum.n_coordinates
        if spectrum.n_coordinates and tail_power != 1.0:
            v = block[:, 0]
            weights *= tail_power * v ** (tail_power - 1.0)
            block = np.column_stack((np.maximum(v**tail_power, 1e-80), block[:, 1:]))
        frequencies = spectrum.frequencies(block, rng)
        if not spectrum.n_coordinates:
            # a user's sampler may return one of ±ω only; in a sum both are needed
            frequencies = frequencies * rng.choice((-1.0, 1.0), (n, 1))
        total += frequencies
    return SpectralSample(total, np.sqrt(weights / weights.sum()))


def _orthogonal(
    spectrum: SpectralDistribution, n: int, d: int, rng: np.random.Generator
) -> Array:
    """Frequencies in orthogonal directions, d by d; independent if not elliptical."""
    if not isinstance(spectrum, EllipticalDistribution):
        return spectrum.frequencies(
            uniform_points(n, spectrum.n_coordinates, rng, "mc"), rng
        )
    # QR of normal matrices: uniform on the orthogonal ones, but for signs of columns
    rotations = np.linalg.qr(rng.standard_normal((-(-n // d), d, d)))[0]
    signs = rng.choice((-1.0, 1.0), (len(rotations), 1, d))
    radii = np.sqrt(chdtri(d, uniform_points(n, 1, rng, "mc")))
    return spectrum.from_normal(radii * (signs * rotations).reshape(-1, d)[:n])


def uniform_points(n: int, d: int, rng: np.random.Generator, method: str) -> Array:
    """Points in the open unit cube, shape (n, d), by a method of this module."""
    if method == "mc" or d == 0:
        return np.clip(rng.random((n, d)), _EDGE, 1.0 - _EDGE)
    # older versions of SciPy call the rng `seed`; newer ones accept both
    if method == "halton":
        points = qmc.Halton(d, seed=rng).random(n)
    else:
        # the net is balanced at powers of two only: draw such a number, keep n
        points = qmc.Sobol(d, seed=rng).random_base2((n - 1).bit_length())
    return np.clip(points[:n], _EDGE, 1.0 - _EDGE)


# ---- A stationary kernel as a sum of variances times correlations --------------------


class StationaryTerm(NamedTuple):
    """A summand of a stationary kernel.

    Attributes
    ----------
    variance : float
        Its value at equal inputs.
    factors : tuple of Kernel
        Kernels whose product it is in proportion to, RBFs merged into one; none for a
        constant.
    """

    variance: float
    factors: tuple[Any, ...]


def stationary_terms(kernel: Any, d: int) -> list[StationaryTerm]:
    """Terms of a kernel whose frequencies are known, without its white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Sums, products and powers of kernels with a spectral distribution or score.
    d : int
        Number of input columns.

    Raises
    ------
    ValueError
        If nothing is known of the frequencies of a part, which is named; if a term has
        a negative variance; if there is nothing but noise.
    """
    terms = []
    for monomial in expand(latent_kernel(kernel)):
        variance, factors = monomial.coefficient, with_one_rbf(monomial.factors)
        for factor in factors:
            record = record_of(factor)
            if record.spectral_distribution is None and record.spectral_score is None:
                name = type(factor).__name__
                raise ValueError(
                    f"The frequencies of {factor!r}, in {kernel!r}, are not known. If "
                    f"it is stationary, call skgpx.kernels.register_kernel({name}, "
                    "spectral_score=...) with the gradient of the logarithm of its "
                    "spectral density, for Stein frequencies, or with "
                    "spectral_sampler=... for random ones."
                )
            variance *= float(factor.diag(np.zeros((1, d)))[0])
        if variance < 0.0:
            raise ValueError(
                f"A term of the kernel has a negative variance, {variance:g}; those of "
                "a covariance are positive. Check its constants."
            )
        if variance > 0.0:
            terms.append(StationaryTerm(variance, factors))
    if not terms:
        raise ValueError(
            f"{kernel!r} has nothing but white noise, which has no features. Add "
            "another kernel, for example RBF()."
        )
    return terms
