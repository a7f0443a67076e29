"""Distribution of the frequencies of a stationary kernel, and samples of it.

A distribution is a map from the unit cube, so that low-discrepancy points serve as well
as random ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    gammaln,
    ive,
    logsumexp,
    ndtri,
)
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import (
    RBF,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from skgpx._numerics.spectral import (
    NORMAL,
    NORMAL_MIXTURE,
    STUDENT_T,
    RadialDensity,
)
from skgpx._types import Array, Generator, Kernel
from skgpx.kernels._columns import Columns, Directions, MappedKernel
from skgpx.kernels._registry import Rule, free_slopes, is_rule, no_sampler, rule_of
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
class MappedSpectrum:
    """Frequencies of a kernel of q linear combinations of the columns."""

    inner: Spectrum
    kernel: MappedKernel
    q: int
    d: int

    @property
    def n_coordinates(self) -> int:
        """Number of uniform coordinates of a frequency."""
        return self.inner.n_coordinates

    def frequencies(self, uniform: Array, rng: Generator) -> Array:
        """Frequencies of the columns."""
        inner_frequencies = self.inner.frequencies(uniform, rng)
        return self.embed(inner_frequencies)

    def embed(self, inner_frequencies: Array) -> Array:
        """Frequencies (R, d) of the columns, from those of the combinations (R, q)."""
        return self.kernel._pulled_back(inner_frequencies, self.d)


def spectrum_of(kernel: Kernel, d: int) -> Spectrum | None:
    """Distribution of the frequencies of a kernel, not a sum or product, if known."""
    if rule_of(kernel, "spectral_sampler"):
        return SampledSpectrum(kernel, d)
    if type(kernel) is ExpSineSquared:
        if d != 1:
            raise no_sampler(kernel, kernel, f" in {d} input columns (only in one)")
        return PeriodicSpectrum(kernel)
    if type(kernel) in (Columns, Directions):
        q = kernel.part(np.zeros((1, d))).shape[1]
        inner = spectrum_of(kernel.kernel, q)
        if inner is None:
            return None
        return MappedSpectrum(inner, kernel, q, d)
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
        if isinstance(spectrum, MappedSpectrum):
            inner_frequencies, amplitudes = sample_spectra(
                (spectrum.inner,),
                n,
                spectrum.q,
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


# ---- Density of the frequencies of a stationary kernel, and its score ----------------
# ``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω`` with p the density of the angular
# frequencies. RBF, Matern and RationalQuadratic have ``p(ω) = Π ℓ h(|ℓω|²)``: normal,
# Student's t with 2ν degrees of freedom, and normal with a variance
# ``τ ~ Gamma(α) / α``.


@lru_cache(maxsize=32)
def variance_nodes(alpha: float) -> tuple[Array, Array]:
    """Logarithms of nodes τ and of their weights, for ``τ ~ Gamma(α) / α``.

    The trapezoidal rule in log τ errs by about ``exp(-π² / step)``.
    """
    lowest = max(gammaincinv(alpha, 1e-60), 1e-100)
    low = np.log(lowest)
    high = np.log(gammainccinv(alpha, 1e-90))
    n_nodes = int(6.0 * (high - low))
    n_nodes = min(max(n_nodes, 120), 1200)
    log_gamma = np.linspace(low, high, n_nodes)
    log_density = alpha * log_gamma - np.exp(log_gamma)
    log_tau = log_gamma - np.log(alpha)
    log_weights = log_density - logsumexp(log_density)
    return log_tau, log_weights


def radial_density(kernel: Kernel, d: int) -> RadialDensity:
    """The h of ``p(ω) = Π ℓ h(|ℓω|²)``, of frequencies (R, d)."""
    half = 0.5 * d
    log_2pi = np.log(2.0 * np.pi)
    if type(kernel) is RationalQuadratic:
        # h = E (2πτ)^(-d/2) exp(-s / 2τ)
        log_tau, log_weights = variance_nodes(float(kernel.alpha))
        log_factors = log_weights - half * (log_2pi + log_tau)
        rates = 0.5 * np.exp(-log_tau)
        parameters = np.concatenate((log_factors, rates))
        return RadialDensity(NORMAL_MIXTURE, parameters)
    nu = float(getattr(kernel, "nu", np.inf))
    if nu == np.inf:
        # h = (2π)^(-d/2) exp(-s / 2)
        log_factor = -half * log_2pi
        return RadialDensity(NORMAL, np.array([log_factor]))
    # h = c (1 + s / 2ν)^-(ν + d/2), c = Γ(ν + d/2) / (Γ(ν) (2πν)^(d/2))
    exponent = nu + half
    log_volume = half * np.log(2.0 * np.pi * nu)
    log_c = gammaln(exponent) - gammaln(nu) - log_volume
    return RadialDensity(STUDENT_T, np.array([log_c, exponent, 2.0 * nu]))


def _elliptical(kernel: Kernel, omega: Array) -> tuple[Array, Array, Array, Array]:
    """``log h(s)`` and its slope at ``s = |ℓω|²``, (R,), ``ℓω`` (R, d) and ``ℓ``."""
    d = omega.shape[1]
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), d)
    scaled = omega * scales
    squares = np.einsum("rd,rd->r", scaled, scaled)
    log_h, slope = radial_density(kernel, d).log_density(squares)
    return log_h, slope, scaled, scales


@is_rule("log_spectral_density", RBF, Matern, RationalQuadratic)
def _log_elliptical_density(kernel: Kernel, omega: Array) -> Array:
    log_h, _, _, scales = _elliptical(kernel, omega)
    return np.sum(np.log(scales)) + log_h


@is_rule("spectral_density", RBF, Matern)
def _elliptical_density(kernel: Kernel, omega: Array) -> tuple[Array, Array]:
    """``S(ω) = (2π)^d`` times the density, and its slopes in the lengthscales."""
    log_h, slope, scaled, scales = _elliptical(kernel, omega)
    volume = np.prod(2.0 * np.pi * scales)
    density = np.exp(log_h) * volume
    # ∂log S / ∂log ℓ_i = 1 + 2 h'/h (ℓ_i ω_i)²
    log_slopes = 1.0 + 2.0 * slope[:, np.newaxis] * scaled**2
    slopes = density[:, np.newaxis] * log_slopes
    return density, free_slopes(kernel.hyperparameter_length_scale, slopes)


@is_rule("spectral_score", RBF, Matern, RationalQuadratic)
def elliptical_score(kernel: Kernel, omega: Array) -> Array:
    """``∇ log h(|ℓω|²) = 2 h'/h ℓ ℓω``."""
    _, slope, scaled, scales = _elliptical(kernel, omega)
    return 2.0 * slope[:, np.newaxis] * scales * scaled


@is_rule("log_spectral_density", Columns)
def _log_density_of_columns(kernel: Columns, omega: Array) -> Array:
    """Density of the inner kernel, where no other column has a frequency."""
    columns = kernel.indices(omega.shape[1])
    inner_omega = omega[:, columns]
    outer_omega = np.delete(omega, columns, axis=1)
    varies_inside = np.all(inner_omega != 0.0, axis=1)
    varies_outside = outer_omega.any(axis=1)
    log_density = log_spectral_density(kernel.kernel, inner_omega)
    return np.where(varies_inside & ~varies_outside, log_density, -np.inf)


@is_rule("spectral_score", Columns)
def _score_of_columns(kernel: Columns, omega: Array) -> Array:
    columns = kernel.indices(omega.shape[1])
    score = np.zeros(omega.shape)
    score[:, columns] = spectral_score(kernel.kernel, omega[:, columns])
    return score


def log_spectral_density(kernel: Kernel, omega: Array) -> Array:
    """Logarithm of the density of the frequencies, which integrates to one.

    ``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω``; constant factors of the kernel do
    not change p, and the density of a sum is the mixture of the densities of its terms,
    in proportion to their variances.

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
        In nats.

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
    log_densities = _log_weighted_densities(shares, parts, omega)
    return logsumexp(log_densities, axis=0)


def _log_weighted_densities(
    shares: Array,
    parts: list[Kernel],
    omega: Array,
) -> Array:
    """``log s_k p_k(ω_r)`` of the terms of a sum, (K, R)."""
    log_densities = np.stack([_log_density(part, omega) for part in parts])
    return log_densities + np.log(shares)[:, np.newaxis]


def spectral_score(kernel: Kernel, omega: Array) -> Array:
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
        ``∇ log p(ω)``; for a sum the average of the scores of its terms, weighted
        by their parts of the density at ω.

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
    scores = np.stack([_required_rule(part, "score")(part, omega) for part in parts])
    if len(parts) == 1:
        return scores[0]
    # ∇ log Σ_k s_k p_k = Σ_k r_k ∇ log p_k,  r_k = s_k p_k / Σ_l s_l p_l
    log_densities = _log_weighted_densities(shares, parts, omega)
    # a density of zero for every term would divide zero by zero
    log_densities = np.maximum(log_densities, -1e300)
    responsibilities = np.exp(log_densities - logsumexp(log_densities, axis=0))
    return np.einsum("kr,krd->rd", responsibilities, scores)


def check_spectral_score(kernel: Kernel, omega: Array) -> None:
    """Compare the score of a kernel with central differences of its density.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel with a spectral score; not a sum or product.
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
    rule = _required_rule(kernel, "score")
    score = np.asarray(rule(kernel, omega), dtype=np.float64)
    fault = _fault_of_score(kernel, omega, score)
    if fault:
        name = type(kernel).__name__
        raise ValueError(
            f"The spectral score of {name} {fault}. Register ∇ log S(ω), in radians "
            "per unit of the input, with "
            f"skgpx.kernels.register_kernel({name}, spectral_score=...)."
        )


def _fault_of_score(kernel: Kernel, omega: Array, score: Array) -> str:
    """Property that a score lacks, in words; empty if there is none."""
    if score.shape != omega.shape or not np.isfinite(score).all():
        return f"must be finite and of shape {omega.shape}; got shape {score.shape}"
    opposite = _required_rule(kernel, "score")(kernel, -omega)
    if not np.allclose(opposite, -score, rtol=1e-6, atol=1e-12):
        return "is not odd in ω, as it is for a real kernel"
    if not _is_slope(kernel, omega, score):
        return "is not the slope of its log spectral density"
    return ""


def _is_slope(kernel: Kernel, omega: Array, score: Array) -> bool:
    """Whether a score agrees with central differences of the density, if known."""
    rules = ("log_spectral_density", "spectral_density")
    if not any(rule_of(kernel, rule) for rule in rules):
        return True
    lengths = np.linalg.norm(omega, axis=1, keepdims=True)
    steps = 1e-4 * lengths
    differences = np.empty_like(score)
    for k, axis in enumerate(np.eye(omega.shape[1])):
        step = steps * axis
        above = _log_density(kernel, omega + step)
        below = _log_density(kernel, omega - step)
        differences[:, k] = 0.5 * (above - below)
    expected = score * steps
    errors = np.abs(differences - expected)
    largest = np.max(np.abs(expected), axis=1, keepdims=True)
    tolerance = 1e-2 * largest + 1e-9
    return bool(np.all(errors <= tolerance))


def _mixture(kernel: Kernel, d: int) -> tuple[Array, list[Kernel]]:
    """Terms of a sum: their shares of its variance, and their kernels."""
    variances = []
    parts = []
    for term in expand(kernel):
        factors = merge_rbfs(term.factors)
        if len(factors) != 1:
            product = " * ".join(map(repr, factors)) or "a constant"
            raise ValueError(
                f"The spectral density of {product}, a term of {kernel!r}, is not "
                "known: a constant has all of its variance at the frequency zero, and "
                "the density of a product is a convolution. Use products with "
                "constants, products of RBFs, and their sums."
            )
        variances.append(term.coefficient * stationary_variance(factors[0], d))
        parts.append(factors[0])
    shares = np.array(variances)
    return shares / shares.sum(), parts


def decay_lengths(
    covariance: Callable[[Array], Array],
    distances: Array,
    share: float,
) -> Array:
    """Distance along each axis at which a covariance falls below a share of itself.

    Parameters
    ----------
    covariance : callable
        Covariances (n,) at lags (n, d).
    distances : ndarray of shape (k, d)
        Increasing, along each axis; the last one stands for those beyond it.
    """
    threshold = share * covariance(np.zeros((1, distances.shape[1])))
    lengths = distances[-1].copy()
    for axis, along_axis in enumerate(distances.T):
        lags = np.zeros(distances.shape)
        lags[:, axis] = along_axis
        is_below = covariance(lags) < threshold
        if is_below.any():
            lengths[axis] = along_axis[np.argmax(is_below)]
    return lengths


def stationary_variance(kernel: Kernel, d: int) -> float:
    """Variance ``k(x, x)`` of a stationary kernel of d inputs."""
    origin = np.zeros((1, d))
    (variance,) = kernel.diag(origin)
    return float(variance)


def _log_density(part: Kernel, omega: Array) -> Array:
    """Logarithm of the normalised density of one kernel, not a sum or product."""
    rule = rule_of(part, "log_spectral_density")
    if rule is not None:
        return rule(part, omega)
    # S = (2π)^d k(0) p
    d = omega.shape[1]
    variance = stationary_variance(part, d)
    log_factor = d * np.log(2.0 * np.pi) + np.log(variance)
    density, _ = _required_rule(part, "density")(part, omega)
    return np.log(density) - log_factor


def _required_rule(part: Kernel, name: str) -> Rule:
    rule: Rule | None = rule_of(part, f"spectral_{name}")
    if rule is None:
        type_name = type(part).__name__
        raise ValueError(
            f"{part!r} has no known spectral {name}. Register it with "
            f"skgpx.kernels.register_kernel({type_name}, spectral_{name}=...) if the "
            "kernel is stationary and has one."
        )
    return rule
