"""Distribution of the frequencies of a stationary kernel, and samples of it.

A distribution is a map from the unit cube, so that low-discrepancy points serve as well
as random ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import (
    betaincinv,
    chdtri,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    ive,
    ndtri,
)
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import (
    RBF,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from skgpx._types import Array, Generator, Index, Kernel
from skgpx.kernels._columns import Columns
from skgpx.kernels._registry import no_sampler, rule_of
from skgpx.kernels._spectral_density import stationary_variance, variance_nodes
from skgpx.kernels._terms import Monomial, expand, latent_kernel, merge_rbfs

# ---- Distributions of frequencies, as maps from the unit cube ------------------------


class Spectrum(Protocol):
    """Distribution of the angular frequency of a stationary kernel of variance one.

    ``frequencies(U, rng)`` maps uniform points (R, n_coordinates) to frequencies
    (R, d). The first coordinate, if there is one, orders them: it is the probability
    of a higher frequency, so small values are in the tail of the density. Half the
    range of the second gives one of each pair ±ω.
    """

    @property
    def n_coordinates(self) -> int:
        """Number of uniform coordinates of a frequency."""

    def frequencies(self, uniform: Array, rng: Generator) -> Array:
        """Frequencies at uniform points, shape (R, d)."""


@dataclass(frozen=True)
class EllipticalSpectrum:
    """Frequencies of random radius and uniform direction, over the lengthscales."""

    kernel: Kernel
    d: int
    n_coordinates: int

    def frequencies(self, uniform: Array, rng: Generator) -> Array:
        """``r u / ℓ`` with r from the first coordinate, u from the others."""
        del rng
        directions = _directions(uniform[:, 1:], self.d)
        return self.scale_directions(directions, uniform[:, 0])

    def with_even_radii(self, frequencies: Array) -> Array:
        """Frequencies in the same directions, with radii at their quantiles.

        The radius of rank i, counted from the largest, is exceeded with probability
        ``(i + 1/2) / R``.
        """
        scaled = frequencies * self.kernel.length_scale
        radii = np.linalg.norm(scaled, axis=1)
        R = len(radii)
        order = np.argsort(-radii, kind="stable")
        ranks = np.empty(R)
        ranks[order] = np.arange(R)
        # a point at the origin goes along the first axis
        is_origin = radii == 0.0
        scaled[is_origin, 0] = 1.0
        lengths = np.where(is_origin, 1.0, radii)
        directions = scaled / lengths[:, np.newaxis]
        return self.scale_directions(directions, (ranks + 0.5) / R)

    def scale_directions(self, directions: Array, tail: Array) -> Array:
        """``r u / ℓ``, the radius ``r = |ℓω|`` exceeded with probability ``tail``."""
        r = self._radius(tail)
        # waves shorter than 1e-6 lengthscales cannot be resolved, and their phases
        # would lose digits: from there on radii are on a logarithmic scale; they stay
        # distinct, as equal frequencies would add up to one strong wave
        log_excess = np.log(np.maximum(r / 1e6, 1.0))
        r = np.minimum(r, 1e6) * (1.0 + log_excess)
        return r[:, np.newaxis] * directions / self.kernel.length_scale

    def _radius(self, tail: Array) -> Array:
        """Radius ``|ℓω|`` that is exceeded with probability ``tail``, shape (R,)."""
        if type(self.kernel) is RationalQuadratic:
            # quantile by the table of log odds
            tail_below_one = np.minimum(tail, 1.0 - 1e-16)
            log_odds = np.log1p(-tail_below_one) - np.log(tail)
            table = _radius_table(float(self.kernel.alpha), self.d)
            quantile = PchipInterpolator(*table)
            return np.exp(quantile(log_odds))
        nu = float(getattr(self.kernel, "nu", np.inf))
        if nu == np.inf:
            # |ℓω|² has a chi-square distribution
            return np.sqrt(chdtri(self.d, tail))
        # |ℓω|² = 2ν (1 - B) / B with B ~ Beta(ν, d/2): small values are the tail
        B = betaincinv(nu, 0.5 * self.d, tail)
        B = np.maximum(B, 1e-300)
        odds = (1.0 - B) / B
        return np.sqrt(2.0 * nu) * np.sqrt(odds)


def _directions(uniform: Array, d: int) -> Array:
    """Unit vectors, uniform on the sphere, shape (R, d)."""
    if d == 1:
        return np.where(uniform < 0.5, -1.0, 1.0)
    if d > 3:
        normal = ndtri(uniform)
        lengths = np.linalg.norm(normal, axis=1, keepdims=True)
        return normal / lengths
    angle = 2.0 * np.pi * uniform[:, 0]
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    if d == 2:
        return circle
    # Archimedes: the height of a uniform point on the sphere is uniform
    height = 2.0 * uniform[:, 1:] - 1.0
    radius = np.sqrt(1.0 - height**2)
    return np.hstack((radius * circle, height))


@lru_cache(maxsize=32)
def _radius_table(alpha: float, d: int) -> tuple[Array, Array]:
    half = 0.5 * d
    log_tau, log_weights = variance_nodes(alpha)
    std = np.exp(0.5 * log_tau)
    weights = np.exp(log_weights)
    # given τ, r² / τ has a chi-square distribution: r² / 2τ ~ Gamma(d/2)
    low = np.sqrt(2.0 * gammaincinv(half, 1e-18)) * std[0]
    high = np.sqrt(2.0 * gammainccinv(half, 1e-90)) * std[-1]
    log_radii = np.linspace(np.log(low), np.log(high), 600)
    radii = np.exp(log_radii)[:, np.newaxis]
    half_squares = 0.5 * (radii / std) ** 2
    # average over τ
    below = gammainc(half, half_squares) @ weights
    above = gammaincc(half, half_squares) @ weights
    is_resolved = (below > 1e-16) & (above > 1e-90)
    below = below[is_resolved]
    above = above[is_resolved]
    log_odds = np.log(below) - np.log(above)
    return log_odds, log_radii[is_resolved]


@dataclass(frozen=True)
class SampledSpectrum:
    """Frequencies of a user's sampler, which takes no coordinates."""

    kernel: Kernel
    d: int
    n_coordinates: int = 0

    def frequencies(self, uniform: Array, rng: Generator) -> Array:
        """Call the sampler and check what it returns."""
        n_frequencies = len(uniform)
        expected = (n_frequencies, self.d)
        sampler = rule_of(self.kernel, "spectral_sampler")
        sample = sampler(self.kernel, n_frequencies, self.d, rng)
        sample = np.asarray(sample, dtype=np.float64)
        if sample.shape != expected or not np.all(np.isfinite(sample)):
            fault = ""
            if sample.shape == expected:
                fault = " with infinite or NaN values"
            raise ValueError(
                f"The spectral sampler of {type(self.kernel).__name__} must return "
                f"finite frequencies of shape {expected}; got shape {sample.shape}"
                f"{fault}."
            )
        self._check_law(sample)
        return sample

    def _check_law(self, sample: Array) -> None:
        """Compare ``E[cos(ω·r)]`` of frequencies (n, d) with the correlation at r.

        Raises
        ------
        ValueError
            If they differ by more than six standard errors at one of eight distances,
            from a third to thrice the typical wave over its circle.
        """
        size = float(np.median(np.linalg.norm(sample, axis=1)))
        # fewer frequencies of a user's sampler are not compared with the kernel
        if len(sample) < 100 or size == 0.0:
            return
        directions = np.random.default_rng(0).standard_normal((8, self.d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = np.geomspace(0.3, 3.0, 8) * np.sqrt(self.d) / size
        r = lengths[:, np.newaxis] * directions
        origin = np.zeros((1, self.d))
        correlation = self.kernel(origin, r)[0] / self.kernel.diag(origin)
        waves = np.cos(sample @ r.T)
        mean = waves.mean(axis=0)
        error = waves.std(axis=0) / np.sqrt(len(sample))
        excess = np.abs(mean - correlation) - 6.0 * error - 0.01
        worst = int(np.argmax(excess))
        if excess[worst] > 0.0:
            raise ValueError(
                f"The spectral sampler of {self.kernel!r} does not have the law of the "
                "kernel, k(x, y) / k(x, x) = E[cos(ω·(x - y))]: at a distance of "
                f"{lengths[worst]:.3g} the kernel is {correlation[worst]:.3g}, and "
                f"{len(sample)} frequencies give {mean[worst]:.3g} +- "
                f"{error[worst]:.2g}. Angular frequencies are in radians per unit of "
                "the input."
            )


@dataclass(frozen=True)
class PeriodicSpectrum:
    """Random multiples of ``2π / p``: ``exp(-2 sin²(πΔ/p) / ℓ²)`` in one input."""

    kernel: ExpSineSquared
    n_coordinates: int = 2

    def frequencies(self, uniform: Array, rng: Generator) -> Array:
        """Harmonics, the high ones at small first coordinates, with random signs."""
        del rng
        waves, weights = self.series()
        # P(J >= j), decreasing; J is the last j with a tail above the coordinate
        reversed_weights = weights[::-1]
        tails = np.cumsum(reversed_weights)[::-1]
        n_above = np.searchsorted(-tails, -uniform[:, 0], side="right")
        places = np.maximum(n_above - 1, 0)
        signs = np.where(uniform[:, 1:] < 0.5, -1.0, 1.0)
        return signs * waves[places]

    def series(self) -> tuple[Array, Array]:
        """Frequencies (J, 1) and weights (J,) of the cosine series, which is exact.

        ``exp(-2 sin²(πΔ/p) / ℓ²) = Σ wⱼ cos(2πjΔ/p)``, ``w₀ = e⁻ˢ I₀(s)``,
        ``wⱼ = 2 e⁻ˢ Iⱼ(s)`` and ``s = 1/ℓ²``.
        """
        s = float(self.kernel.length_scale) ** -2.0
        # Iⱼ(s) decays in j like a Gaussian of width √s, then faster
        bounded = min(s, 1e8)
        n_waves = int(30 + 10.0 * np.sqrt(bounded))
        j = np.arange(n_waves)
        if s < 1e6:
            bessel = ive(j, s)
        else:
            # e⁻ˢ Iⱼ(s) is close to a normal density, and SciPy's function fails
            bessel = np.exp(-0.5 * j * j / bounded)
        multiplicity = np.where(j == 0, 1.0, 2.0)
        weights = multiplicity * bessel
        is_visible = weights > 1e-17 * weights.max()
        weights = weights[is_visible]
        waves = 2.0 * np.pi / self.kernel.periodicity * j[is_visible]
        return waves[:, np.newaxis], weights / weights.sum()


@dataclass(frozen=True)
class ColumnsSpectrum:
    """Frequencies of selected columns, and zero for the others."""

    inner: Spectrum
    columns: Index
    d: int

    @property
    def n_coordinates(self) -> int:
        """Number of uniform coordinates of a frequency."""
        return self.inner.n_coordinates

    def frequencies(self, uniform: Array, rng: Generator) -> Array:
        """Frequencies of the columns, among zeros."""
        inner_frequencies = self.inner.frequencies(uniform, rng)
        return self.embed(inner_frequencies)

    def embed(self, inner_frequencies: Array) -> Array:
        """Frequencies (R, d) with zeros in the other columns."""
        frequencies = np.zeros((len(inner_frequencies), self.d))
        frequencies[:, self.columns] = inner_frequencies
        return frequencies


def spectrum_of(kernel: Kernel, d: int) -> Spectrum | None:
    """Distribution of the frequencies of a kernel, not a sum or product, if known."""
    if rule_of(kernel, "spectral_sampler"):
        return SampledSpectrum(kernel, d)
    if type(kernel) is ExpSineSquared:
        if d != 1:
            raise no_sampler(kernel, kernel, f" in {d} input columns (only in one)")
        return PeriodicSpectrum(kernel)
    if type(kernel) is Columns:
        columns = kernel.indices(d)
        inner = spectrum_of(kernel.kernel, len(columns))
        if inner is None:
            return None
        return ColumnsSpectrum(inner, columns, d)
    if type(kernel) in (RBF, Matern, RationalQuadratic):
        # one coordinate for the radius, the others for the direction
        n_angles = max(d - 1, 1)
        n_coordinates = 1 + n_angles if d <= 3 else 1 + d
        return EllipticalSpectrum(kernel, d, n_coordinates)
    return None


def spectra_of(
    factors: Sequence[Kernel],
    kernel: Kernel,
    d: int,
) -> tuple[Spectrum, ...]:
    """Distributions of the factors of a product; their frequencies are added.

    `kernel` is named in the error.

    Raises
    ------
    ValueError
        If a factor has none; the message names it.
    """
    spectra = []
    for factor in merge_rbfs(tuple(factors)):
        spectrum = spectrum_of(factor, d)
        if spectrum is None:
            raise no_sampler(factor, kernel)
        spectra.append(spectrum)
    return tuple(spectra)


# ---- Samples of the spectral density of a stationary kernel --------------------------


def sample_frequencies(
    kernel: Kernel,
    n_frequencies: int,
    d: int,
    rng: Generator,
    method: str = "sobol",
) -> tuple[Array, Array]:
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
    method : {"sobol", "halton", "orthogonal", "mc"}, default="sobol"
        A scrambled Sobol net; a scrambled Halton sequence; orthogonal directions with
        independent radii [1]_; independent points.

    Returns
    -------
    frequencies : ndarray of shape (R, d)
        Angular, in radians per unit of the input.
    amplitudes : ndarray of shape (R,)
        Their squares sum to one:
        ``k(x, y) / k(x, x) ≈ Σ amplitudes² cos(ω·(x - y))``.

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral sampler, the kernel is a sum, or the
        method is unknown.

    References
    ----------
    .. [1] Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, "Orthogonal random
       features", NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import Matern
    >>> from skgpx.kernels import sample_frequencies
    >>> rng = np.random.default_rng(0)
    >>> frequencies, amplitudes = sample_frequencies(Matern(0.5, nu=2.5), 256, 2, rng)
    >>> frequencies.shape, float(np.sum(amplitudes**2))
    ((256, 2), 1.0)
    """
    methods = ("sobol", "halton", "orthogonal", "mc")
    if method not in methods:
        raise ValueError(f"method must be one of {methods}; got {method!r}.")
    terms = expand(kernel)
    if len(terms) != 1:
        raise ValueError(
            f"sample_frequencies expects a stationary kernel that is not a sum; got "
            f"{kernel!r}. Sample its {len(terms)} terms one by one."
        )
    spectra = spectra_of(terms[0].factors, kernel, d)
    return sample_spectra(spectra, n_frequencies, d, rng, method)


def sample_spectra(
    spectra: Sequence[Spectrum],
    n: int,
    d: int,
    rng: Generator,
    method: str = "sobol",
    tail_power: float = 1.0,
) -> tuple[Array, Array]:
    """Sum of independent frequencies, with more of the high ones where κ > 1.

    The first coordinate of each one is the probability ``u`` of a higher frequency.
    Where a plain sample takes ``u = v`` from a uniform ``v``, this one takes
    ``u = v^κ``, with κ = `tail_power`, which sends more points to the tail, and gives
    them the importance weight ``du/dv = κ v^(κ - 1)``, of mean one and at most κ.

    Returns
    -------
    frequencies : ndarray of shape (n, d)
        A single periodic factor has its cosine series, of another length.
    amplitudes : ndarray of shape (n,)
    """
    equal_amplitudes = np.full(n, max(n, 1) ** -0.5)
    if len(spectra) == 1:
        spectrum = spectra[0]
        if isinstance(spectrum, PeriodicSpectrum):
            waves, weights = spectrum.series()
            return waves, np.sqrt(weights)
        if isinstance(spectrum, ColumnsSpectrum):
            inner_frequencies, amplitudes = sample_spectra(
                (spectrum.inner,),
                n,
                len(spectrum.columns),
                rng,
                method,
                tail_power,
            )
            return spectrum.embed(inner_frequencies), amplitudes
        if isinstance(spectrum, SampledSpectrum):
            return spectrum.frequencies(np.empty((n, 0)), rng), equal_amplitudes
    if method == "orthogonal":
        parts = [_orthogonal(spectrum, n, d, rng) for spectrum in spectra]
        return np.sum(parts, axis=0), equal_amplitudes
    # a block of uniform coordinates for each factor
    sizes = [spectrum.n_coordinates for spectrum in spectra]
    uniform = uniform_points(n, sum(sizes), rng, method)
    # ω and -ω are the same wave: half of the directions suffice for one summand
    uniform[:, 1:2] *= 0.5
    block_ends = np.cumsum(sizes)
    blocks = np.split(uniform, block_ends, axis=1)[:-1]
    total = np.zeros((n, d))
    importance = np.ones(n)
    for spectrum, block in zip(spectra, blocks, strict=True):
        if spectrum.n_coordinates and tail_power != 1.0:
            v = block[:, 0]
            importance *= tail_power * v ** (tail_power - 1.0)
            tail = np.maximum(v**tail_power, 1e-80)
            block = np.column_stack((tail, block[:, 1:]))
        frequencies = spectrum.frequencies(block, rng)
        if not spectrum.n_coordinates:
            # a user's sampler may return one of ±ω only; in a sum both are needed
            frequencies = frequencies * rng.choice((-1.0, 1.0), (n, 1))
        total += frequencies
    return total, np.sqrt(importance / importance.sum())


def _orthogonal(spectrum: Spectrum, n: int, d: int, rng: Generator) -> Array:
    """Frequencies in orthogonal directions, d by d; independent if not elliptical."""
    if not isinstance(spectrum, EllipticalSpectrum):
        uniform = uniform_points(n, spectrum.n_coordinates, rng, "mc")
        return spectrum.frequencies(uniform, rng)
    # QR of normal matrices: uniform on the orthogonal ones, but for signs of columns
    n_matrices = math.ceil(n / d)
    normal = rng.standard_normal((n_matrices, d, d))
    rotations, _ = np.linalg.qr(normal)
    signs = rng.choice((-1.0, 1.0), (n_matrices, 1, d))
    directions = (signs * rotations).reshape(-1, d)
    tail = uniform_points(n, 1, rng, "mc")[:, 0]
    return spectrum.scale_directions(directions[:n], tail)


def uniform_points(n: int, d: int, rng: Generator, method: str) -> Array:
    """Points in the open unit cube, shape (n, d)."""
    # older versions of SciPy call the rng `seed`; newer ones accept both
    if method == "mc" or d == 0:
        points = rng.random((n, d))
    elif method == "halton":
        points = qmc.Halton(d, seed=rng).random(n)
    else:
        # the net is balanced at powers of two only: draw such a number, keep n
        log2_size = int(n - 1).bit_length()
        net = qmc.Sobol(d, seed=rng).random_base2(log2_size)
        points = net[:n]
    margin = 2.0**-32
    return np.clip(points, margin, 1.0 - margin)


# ---- A stationary kernel as a sum of variances times correlations --------------------


def stationary_terms(kernel: Kernel, d: int) -> list[Monomial]:
    """Terms of a kernel with known frequencies, without its white noise.

    The coefficient of each is its value at equal inputs; RBFs are merged into one.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Sums, products and powers of kernels with a spectral distribution or score.
    d : int
        Number of input columns.

    Raises
    ------
    ValueError
        If a part has no known frequencies (the message names it), a term has a negative
        variance, or the kernel is noise only.
    """
    terms = []
    for variance, factors in expand(latent_kernel(kernel)):
        factors = merge_rbfs(factors)
        for factor in factors:
            inner = factor
            if type(factor) is Columns:
                inner = factor.kernel
            if spectrum_of(factor, d) is None and not rule_of(inner, "spectral_score"):
                name = type(inner).__name__
                raise ValueError(
                    f"The frequencies of {factor!r}, in {kernel!r}, are not known. If "
                    f"it is stationary, call skgpx.kernels.register_kernel({name}, "
                    "spectral_score=...) with the gradient of the logarithm of its "
                    "spectral density, for Stein frequencies, or with "
                    "spectral_sampler=... for random ones. Categories have none: "
                    "encode them by OneHotEncoder."
                )
            variance *= stationary_variance(factor, d)
        if variance < 0.0:
            raise ValueError(
                f"A term of the kernel has a negative variance, {variance:g}; those of "
                "a covariance are positive. Check its constants."
            )
        if variance > 0.0:
            terms.append(Monomial(variance, factors))
    if not terms:
        raise ValueError(
            f"{kernel!r} has nothing but white noise, which has no features. Add "
            "another kernel, for example RBF()."
        )
    return terms
