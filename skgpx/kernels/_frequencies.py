"""Frequencies of a stationary kernel: their density, their distribution, samples.

``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω`` with p the density of the angular
frequencies. RBF, Matern and RationalQuadratic have ``p(ω) = Π ℓ h(|ℓω|²)``: normal,
Student's t with 2ν degrees of freedom, and normal with a variance ``τ ~ Gamma(α) / α``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
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
from skgpx._numerics.svgd import median_squares, transport
from skgpx.kernels._columns import Columns
from skgpx.kernels._registry import free_slopes, is_rule, no_sampler, rule_of
from skgpx.kernels._terms import Monomial, expand, latent_kernel

Array = NDArray[np.float64]

# ---- Densities of frequencies, and their slopes --------------------------------------


@lru_cache(maxsize=32)
def _variances(alpha: float) -> tuple[Array, Array]:
    """Logarithms of nodes and weights for ``τ ~ Gamma(α) / α``.

    The trapezoidal rule in log τ errs by about ``exp(-π² / step)``.
    """
    low = max(gammaincinv(alpha, 1e-60), 1e-100)
    ends = np.log(low), np.log(gammainccinv(alpha, 1e-90))
    log_gamma = np.linspace(*ends, min(max(int(6.0 * (ends[1] - ends[0])), 120), 1200))
    log_density = alpha * log_gamma - np.exp(log_gamma)
    return log_gamma - np.log(alpha), log_density - logsumexp(log_density)


def radial_density(kernel: Any, d: int) -> RadialDensity:
    """The h of ``p(ω) = Π ℓ h(|ℓω|²)``, of frequencies (R, d)."""
    half = 0.5 * d
    nu = float(getattr(kernel, "nu", np.inf))
    if type(kernel) is RationalQuadratic:
        # h = E (2πτ)^(-d/2) exp(-s / 2τ)
        log_tau, log_weights = _variances(float(kernel.alpha))
        logs = log_weights - half * (np.log(2.0 * np.pi) + log_tau)
        rates = 0.5 * np.exp(-log_tau)
        return RadialDensity(NORMAL_MIXTURE, np.concatenate((logs, rates)))
    if nu == np.inf:
        return RadialDensity(NORMAL, np.array([-half * np.log(2.0 * np.pi)]))
    front = gammaln(nu + half) - gammaln(nu) - half * np.log(2.0 * np.pi * nu)
    return RadialDensity(STUDENT_T, np.array([front, nu + half, 2.0 * nu]))


def _elliptical(kernel: Any, omega: Array) -> tuple[Array, Array, Array, Array]:
    """``log h(s)`` at ``s = |ℓω|²`` (R,), its slope in s, ``ℓω`` (R, d) and ℓ (d,)."""
    d = omega.shape[1]
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), d)
    scaled = omega * scales
    squares = np.einsum("rd,rd->r", scaled, scaled)
    logs, slope = radial_density(kernel, d).log_density(squares)
    return logs, slope, scaled, scales


@is_rule("log_spectral_density", RBF, Matern, RationalQuadratic)
def _log_elliptical_density(kernel: Any, omega: Array) -> Array:
    logs, _, _, scales = _elliptical(kernel, omega)
    density: Array = np.sum(np.log(scales)) + logs
    return density


@is_rule("spectral_density", RBF, Matern)
def _elliptical_density(kernel: Any, omega: Array) -> tuple[Array, Array]:
    """``S(ω) = (2π)^d`` times the density, and its slopes in the lengthscales."""
    logs, slope, scaled, scales = _elliptical(kernel, omega)
    values = np.exp(logs) * np.prod(2.0 * np.pi * scales)
    by_input = 1.0 + 2.0 * slope[:, np.newaxis] * scaled**2
    slopes = values[:, np.newaxis] * by_input
    return values, free_slopes(kernel.hyperparameter_length_scale, slopes)


@is_rule("spectral_score", RBF, Matern, RationalQuadratic)
def _elliptical_score(kernel: Any, omega: Array) -> Array:
    _, slope, scaled, scales = _elliptical(kernel, omega)
    score: Array = 2.0 * slope[:, np.newaxis] * scales * scaled
    return score


@is_rule("log_spectral_density", Columns)
def _log_density_of_columns(kernel: Columns, omega: Array) -> Array:
    """That of the inner kernel, where no other column has a frequency."""
    columns = kernel.indices(omega.shape[1])
    others = np.delete(omega, columns, axis=1)
    within = np.all(omega[:, columns] != 0.0, axis=1) & ~others.any(axis=1)
    inner = log_spectral_density(kernel.kernel, omega[:, columns])
    return np.where(within, inner, -np.inf)


@is_rule("spectral_score", Columns)
def _score_of_columns(kernel: Columns, omega: Array) -> Array:
    columns, score = kernel.indices(omega.shape[1]), np.zeros(omega.shape)
    score[:, columns] = spectral_score(kernel.kernel, omega[:, columns])
    return score


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
    scores = np.stack([_known(part, "score")(part, omega) for part in parts])
    if len(parts) == 1:
        return scores[0]
    logs = np.stack([_log_density(part, omega) for part in parts])
    # of frequencies that no term has the density is zero
    logs = np.maximum(logs + np.log(shares)[:, np.newaxis], -1e300)
    weights = np.exp(logs - logsumexp(logs, axis=0))
    average: Array = np.einsum("kr,krd->rd", weights, scores)
    return average


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
    rule = _known(kernel, "score")
    score, fault = np.asarray(rule(kernel, omega), dtype=np.float64), ""
    if score.shape != omega.shape or not np.isfinite(score).all():
        fault = f"must be finite and of shape {omega.shape}; got shape {score.shape}"
    elif not np.allclose(rule(kernel, -omega), -score, rtol=1e-6, atol=1e-12):
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
    rules = rule_of(kernel, "log_spectral_density"), rule_of(kernel, "spectral_density")
    if not any(rules):
        return True
    steps = 1e-4 * np.linalg.norm(omega, axis=1, keepdims=True)
    rises = np.empty_like(score)
    for k, axis in enumerate(np.eye(omega.shape[1])):
        up, down = (_log_density(kernel, omega + s * steps * axis) for s in (1.0, -1.0))
        rises[:, k] = 0.5 * (up - down)
    scale = np.max(np.abs(score * steps), axis=1, keepdims=True)
    return bool(np.all(np.abs(rises - score * steps) <= 1e-2 * scale + 1e-9))


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
        variances.append(term.coefficient * _variance(factors[0], d))
        parts.append(factors[0])
    shares = np.array(variances)
    return shares / shares.sum(), parts


def _variance(kernel: Any, d: int) -> float:
    return float(kernel.diag(np.zeros((1, d)))[0])


def _log_density(part: Any, omega: Array) -> Array:
    """Logarithm of the normalised density of one kernel, not a sum or product."""
    rule = rule_of(part, "log_spectral_density")
    if rule is None:
        # S = (2π)^d k(0) p
        d = omega.shape[1]
        front = d * np.log(2.0 * np.pi) + np.log(_variance(part, d))
        return np.log(_known(part, "density")(part, omega)[0]) - front
    density: Array = rule(part, omega)
    return density


def _known(part: Any, what: str) -> Any:
    rule = rule_of(part, f"spectral_{what}")
    if rule is None:
        name = type(part).__name__
        raise ValueError(
            f"{part!r} has no known spectral {what}. Register it with "
            f"skgpx.kernels.register_kernel({name}, spectral_{what}=...) if the kernel "
            "is stationary and has one."
        )
    return rule


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

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Frequencies at uniform points, shape (R, d)."""


@dataclass(frozen=True)
class EllipticalSpectrum:
    """Frequencies of random radius and uniform direction, over the lengthscales."""

    kernel: Any
    d: int
    n_coordinates: int

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """``r u / ℓ`` with r from the first coordinate, u from the others."""
        del rng
        return self.at(uniform[:, 0], _directions(uniform[:, 1:], self.d))

    def with_even_radii(self, frequencies: Array) -> Array:
        """Frequencies in the same directions, with radii at their quantiles.

        The radius of rank i, counted from the largest, is exceeded with probability
        ``(i + 1/2) / R``.
        """
        scaled = frequencies * self.kernel.length_scale
        r = np.linalg.norm(scaled, axis=1)
        ranks = np.empty(len(r))
        ranks[np.argsort(-r, kind="stable")] = np.arange(len(r))
        # a point at the origin goes along the first axis
        scaled[r == 0.0, 0] = 1.0
        directions = scaled / np.where(r > 0.0, r, 1.0)[:, np.newaxis]
        return self.at((ranks + 0.5) / len(r), directions)

    def at(self, tail: Array, directions: Array) -> Array:
        """``r u / ℓ``, the radius ``r = |ℓω|`` exceeded with probability ``tail``."""
        nu = float(getattr(self.kernel, "nu", np.inf))
        if type(self.kernel) is RationalQuadratic:
            odds = np.log1p(-np.minimum(tail, 1.0 - 1e-16)) - np.log(tail)
            table = _radius_table(float(self.kernel.alpha), self.d)
            r = np.exp(PchipInterpolator(*table)(odds))
        elif nu == np.inf:
            r = np.sqrt(chdtri(self.d, tail))
        else:
            # |ω|² = 2ν (1 - B) / B with B ~ Beta(ν, d/2): small values are the tail
            B = np.maximum(betaincinv(nu, 0.5 * self.d, tail), 1e-300)
            r = np.sqrt(2.0 * nu) * np.sqrt((1.0 - B) / B)
        # waves shorter than 1e-6 lengthscales cannot be resolved, and their phases
        # would lose digits: from there on radii are on a logarithmic scale; they stay
        # distinct, as equal frequencies would add up to one strong wave
        r = np.minimum(r, 1e6) * (1.0 + np.log(np.maximum(r / 1e6, 1.0)))
        return r[:, np.newaxis] * directions / self.kernel.length_scale


def _directions(uniform: Array, d: int) -> Array:
    """Unit vectors, uniform on the sphere, shape (R, d)."""
    if d == 1:
        return np.where(uniform < 0.5, -1.0, 1.0)
    if d <= 3:
        angle = 2.0 * np.pi * uniform[:, 0]
        circle = np.column_stack((np.cos(angle), np.sin(angle)))
        if d == 2:
            return circle
        # Archimedes: the height of a uniform point on the sphere is uniform
        height = 2.0 * uniform[:, 1:] - 1.0
        return np.hstack((np.sqrt(1.0 - height**2) * circle, height))
    normal = ndtri(uniform)
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


@lru_cache(maxsize=32)
def _radius_table(alpha: float, d: int) -> tuple[Array, Array]:
    """Log odds ``log P(r' < r) / P(r' > r)`` of a RationalQuadratic, and ``log r``."""
    log_tau, log_weights = _variances(alpha)
    scale, weights = np.exp(0.5 * log_tau), np.exp(log_weights)
    low = np.sqrt(2.0 * gammaincinv(0.5 * d, 1e-18)) * scale[0]
    high = np.sqrt(2.0 * gammainccinv(0.5 * d, 1e-90)) * scale[-1]
    log_radii = np.linspace(np.log(low), np.log(high), 600)
    chi = 0.5 * (np.exp(log_radii)[:, np.newaxis] / scale) ** 2
    below, above = gammainc(0.5 * d, chi) @ weights, gammaincc(0.5 * d, chi) @ weights
    kept = (below > 1e-16) & (above > 1e-90)
    return np.log(below[kept]) - np.log(above[kept]), log_radii[kept]


@dataclass(frozen=True)
class SampledSpectrum:
    """A user's sampler: frequencies without coordinates."""

    kernel: Any
    d: int
    n_coordinates: int = 0

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Call the sampler and check what it returns."""
        expected = (uniform.shape[0], self.d)
        sampler = rule_of(self.kernel, "spectral_sampler")
        drawn = np.asarray(sampler(self.kernel, *expected, rng), dtype=np.float64)
        if drawn.shape != expected or not np.all(np.isfinite(drawn)):
            raise ValueError(
                f"The spectral sampler of {type(self.kernel).__name__} must return "
                f"finite frequencies of shape {expected}; got shape {drawn.shape}"
                f"{'' if drawn.shape != expected else ' with infinite or NaN values'}."
            )
        return drawn


@dataclass(frozen=True)
class PeriodicSpectrum:
    """Random multiples of ``2π / p``: ``exp(-2 sin²(πΔ/p) / ℓ²)`` in one input."""

    kernel: ExpSineSquared
    n_coordinates: int = 2

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Harmonics, the high ones at small first coordinates, with random signs."""
        del rng
        waves, weights = self.series()
        # P(J >= j), decreasing; J = the last j whose tail exceeds the coordinate
        tails = np.cumsum(weights[::-1])[::-1]
        j = np.searchsorted(-tails, -uniform[:, 0], side="right") - 1
        sign = np.where(uniform[:, 1:] < 0.5, -1.0, 1.0)
        return sign * waves[np.maximum(j, 0)]

    def series(self) -> tuple[Array, Array]:
        """Frequencies (J, 1) and weights (J,) of the cosine series, which is exact.

        ``exp(-2 sin²(πΔ/p) / ℓ²) = Σ wⱼ cos(2πjΔ/p)``, ``w₀ = e⁻ˢ I₀(s)``,
        ``wⱼ = 2 e⁻ˢ Iⱼ(s)`` and ``s = 1/ℓ²``.
        """
        s = float(self.kernel.length_scale) ** -2.0
        # Iⱼ(s) decays in j like a Gaussian of width √s, then faster
        j = np.arange(int(30 + 10.0 * np.sqrt(min(s, 1e8))))
        # for large s, e⁻ˢ Iⱼ(s) is a normal density, and SciPy's function fails
        bessel = ive(j, s) if s < 1e6 else np.exp(-0.5 * j * j / min(s, 1e8))
        weights = np.where(j == 0, 1.0, 2.0) * bessel
        kept = weights > 1e-17 * weights.max()
        weights = weights[kept] / weights[kept].sum()
        return (2.0 * np.pi / self.kernel.periodicity * j[kept])[:, np.newaxis], weights


@dataclass(frozen=True)
class ColumnsSpectrum:
    """Frequencies of some columns; those of the others are zero."""

    inner: Spectrum
    columns: NDArray[np.intp]
    d: int

    @property
    def n_coordinates(self) -> int:
        """Number of uniform coordinates of a frequency."""
        return self.inner.n_coordinates

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Frequencies of the columns, among zeros."""
        omega = np.zeros((len(uniform), self.d))
        omega[:, self.columns] = self.inner.frequencies(uniform, rng)
        return omega


def spectrum_of(kernel: Any, d: int) -> Spectrum | None:
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
        return None if inner is None else ColumnsSpectrum(inner, columns, d)
    if type(kernel) not in (RBF, Matern, RationalQuadratic):
        return None
    # one coordinate for the radius, the others for the direction
    return EllipticalSpectrum(kernel, d, 1 + (max(d - 1, 1) if d <= 3 else d))


def spectra_of(factors: Sequence[Any], whole: Any, d: int) -> tuple[Spectrum, ...]:
    """Distributions of the factors of a product, whose frequencies are added.

    Raises
    ------
    ValueError
        If a factor has none; the message names it.
    """
    spectra = []
    for factor in with_one_rbf(tuple(factors)):
        spectrum = spectrum_of(factor, d)
        if spectrum is None:
            raise no_sampler(factor, whole)
        spectra.append(spectrum)
    return tuple(spectra)


# ---- Samples of the spectral density of a stationary kernel --------------------------


def sample_frequencies(
    kernel: Any,
    n_frequencies: int,
    d: int,
    rng: np.random.Generator,
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
    rng: np.random.Generator,
    method: str = "sobol",
    tail_power: float = 1.0,
) -> tuple[Array, Array]:
    """Sum of independent frequencies, with more of the high ones where κ > 1.

    The first coordinate of each one is the probability ``u`` of a higher frequency.
    Where a plain sample takes ``u = v`` from a uniform ``v``, this one takes
    ``u = v^κ``, which sends more points to the tail, and gives them the importance
    weight ``du/dv = κ v^(κ - 1)``, of mean one and at most κ.
    """
    equal = np.full(n, max(n, 1) ** -0.5)
    if len(spectra) == 1 and isinstance(spectra[0], PeriodicSpectrum):
        waves, series = spectra[0].series()
        return waves, np.sqrt(series)
    if len(spectra) == 1 and isinstance(spectra[0], ColumnsSpectrum):
        one = spectra[0]
        how = n, len(one.columns), rng, method, tail_power
        inner, amplitudes = sample_spectra((one.inner,), *how)
        omega = np.zeros((len(inner), d))
        omega[:, one.columns] = inner
        return omega, amplitudes
    if len(spectra) == 1 and isinstance(spectra[0], SampledSpectrum):
        return spectra[0].frequencies(np.empty((n, 0)), rng), equal
    if method == "orthogonal":
        parts = [_orthogonal(spectrum, n, d, rng) for spectrum in spectra]
        return np.sum(parts, axis=0), equal
    coordinates = [spectrum.n_coordinates for spectrum in spectra]
    uniform = _uniform_points(n, sum(coordinates), rng, method)
    # ω and -ω are the same wave: half of the directions suffice for one summand
    uniform[:, 1:2] *= 0.5
    total, weights = np.zeros((n, d)), np.ones(n)
    blocks = np.split(uniform, np.cumsum(coordinates), axis=1)[:-1]
    for spectrum, block in zip(spectra, blocks, strict=True):
        if spectrum.n_coordinates and tail_power != 1.0:
            v = block[:, 0]
            weights *= tail_power * v ** (tail_power - 1.0)
            block = np.column_stack((np.maximum(v**tail_power, 1e-80), block[:, 1:]))
        frequencies = spectrum.frequencies(block, rng)
        if not spectrum.n_coordinates:
            # a user's sampler may return one of ±ω only; in a sum both are needed
            frequencies = frequencies * rng.choice((-1.0, 1.0), (n, 1))
        total += frequencies
    return total, np.sqrt(weights / weights.sum())


def _orthogonal(spectrum: Spectrum, n: int, d: int, rng: np.random.Generator) -> Array:
    """Frequencies in orthogonal directions, d by d; independent if not elliptical."""
    if not isinstance(spectrum, EllipticalSpectrum):
        uniform = _uniform_points(n, spectrum.n_coordinates, rng, "mc")
        return spectrum.frequencies(uniform, rng)
    # QR of normal matrices: uniform on the orthogonal ones, but for signs of columns
    rotations = np.linalg.qr(rng.standard_normal((-(-n // d), d, d)))[0]
    signs = rng.choice((-1.0, 1.0), (len(rotations), 1, d))
    directions = (signs * rotations).reshape(-1, d)[:n]
    return spectrum.at(_uniform_points(n, 1, rng, "mc")[:, 0], directions)


def _uniform_points(n: int, d: int, rng: np.random.Generator, method: str) -> Array:
    """Points in the open unit cube, shape (n, d)."""
    if method == "mc" or d == 0:
        points = rng.random((n, d))
    # older versions of SciPy call the rng `seed`; newer ones accept both
    elif method == "halton":
        points = qmc.Halton(d, seed=rng).random(n)
    else:
        # the net is balanced at powers of two only: draw such a number, keep n
        points = qmc.Sobol(d, seed=rng).random_base2(int(n - 1).bit_length())[:n]
    return np.clip(points, 2.0**-32, 1.0 - 2.0**-32)


# ---- A stationary kernel as a sum of variances times correlations --------------------


def stationary_terms(kernel: Any, d: int) -> list[Monomial]:
    """Terms of a kernel whose frequencies are known, without its white noise.

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
        If nothing is known of the frequencies of a part, which is named; if a term has
        a negative variance; if there is nothing but noise.
    """
    terms = []
    for variance, factors in expand(latent_kernel(kernel)):
        factors = with_one_rbf(factors)
        for factor in factors:
            inner = factor.kernel if type(factor) is Columns else factor
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
            variance *= _variance(factor, d)
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


# ---- Frequencies moved by Stein variational gradient descent -------------------------


def stein_frequencies(
    kernel: Any,
    n: int,
    rng: np.random.Generator,
    input_variances: Array,
    n_steps: int = 300,
) -> Array:
    """Frequencies (n, d) of a stationary kernel, moved until they are evenly spread.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With a registered score; not a sum or product.
    n : int
    rng : numpy.random.Generator
        Source of the scrambled Halton sequence that is moved.
    input_variances : ndarray of shape (d,)
        Of the rows at which the waves will be evaluated: squared bandwidths resolve
        the waves over their spread.
    n_steps : int, default=300

    Raises
    ------
    ValueError
        If the score of the kernel is not registered, or contradicts what is.

    Notes
    -----
    O(n² d) for each step. Distributions with heavy tails: the points contract, and
    their radii are replaced by quantiles of the distribution of the radius, in the same
    order. The frequencies where they start, or orthogonal ones, are returned if they
    approximate the kernel better at 500 differences of normal rows of these variances.
    """
    if type(kernel) is Columns:
        columns = kernel.indices(len(input_variances))
        moved = np.zeros((n, len(input_variances)))
        how = n, rng, input_variances[columns], n_steps
        moved[:, columns] = stein_frequencies(kernel.kernel, *how)
        return moved
    d, spectrum = len(input_variances), spectrum_of(kernel, len(input_variances))
    rule = rule_of(kernel, "spectral_score")
    if rule is None:
        name = type(kernel).__name__
        raise ValueError(
            f"{kernel!r} has no known spectral score, by which Stein frequencies move. "
            f"Call skgpx.kernels.register_kernel({name}, spectral_score=...), or "
            'choose another method than "stein".'
        )
    if spectrum is None:
        normal = ndtri(_uniform_points(n, d, rng, "halton"))
        start = normal / _correlation_lengths(kernel, d)
    else:
        start = sample_spectra([spectrum], n, d, rng, "halton")[0]
    check_spectral_score(kernel, start)
    # in units in which the median squared difference is that of standard normal points
    unit = np.sqrt(_medians(start) / 0.9099)
    # of a single point, its distance from the origin
    unit = np.where(unit > 0.0, unit, np.max(np.abs(start), axis=0))
    unit = np.where(unit > 0.0, unit, 1.0)

    def score(u: Array) -> Array:
        slope: Array = rule(kernel, u * unit) * unit
        return slope

    density: Any = score
    scales = None
    if rule is _elliptical_score:
        density = radial_density(kernel, d)
        scales = kernel.length_scale * unit
    factors = _bandwidth_factors(start / unit, input_variances * unit**2)
    # the first step is 0.1, where frequencies have spread one
    moved = unit * transport(start / unit, density, n_steps, 0.1, factors, scales)
    if isinstance(spectrum, EllipticalSpectrum) and type(kernel) is not RBF:
        moved = spectrum.with_even_radii(moved)
    # SVGD gains nothing where there are too few points for the columns
    candidates = [moved, start]
    if spectrum is not None:
        candidates.append(sample_spectra([spectrum], n, d, rng, "orthogonal")[0])
    # 500 differences of two normal rows
    normal = rng.standard_normal((500, d))
    differences = normal * np.sqrt(2.0 * input_variances)
    errors = [_correlation_error(kernel, omega, differences) for omega in candidates]
    return candidates[int(np.argmin(errors))]


def _correlation_error(kernel: Any, frequencies: Array, differences: Array) -> float:
    """Mean square of ``mean_r cos(ω_r·δ) - k(δ) / k(0)`` over differences δ (n, d)."""
    d = differences.shape[1]
    correlations = kernel(differences, np.zeros((1, d)))[:, 0] / _variance(kernel, d)
    waves = np.cos(differences @ frequencies.T).mean(axis=1)
    return float(np.mean((waves - correlations) ** 2))


def _bandwidth_factors(points: Array, variances: Array) -> Array:
    """Squared bandwidths over medians, given the variances of the inputs times units².

    Their product with the mean squared difference of the inputs is the best on average
    over inputs narrower and wider than the kernel, 1 to 32 columns. Below the lower
    bound points do not see one another and contract, the more the more columns there
    are; above the upper one all are one.
    """
    d = points.shape[1]
    resolved = 1.4 * (d / 4.0) ** 0.2
    factors = resolved / np.maximum(2.0 * variances * _medians(points), 1e-300)
    return np.clip(factors, max(0.15 * d**1.2, 0.04 * d**1.9), 8.0 * d)


def _medians(points: Array) -> Array:
    medians: Array = median_squares(np.concatenate((points, -points)))
    return medians


def _correlation_lengths(kernel: Any, d: int) -> Array:
    """Distance along each axis at which the correlation falls to ``exp(-1/2)``."""
    distances, origin = np.geomspace(1e-8, 1e8, 600)[:, np.newaxis], np.zeros((1, d))
    lengths = np.empty(d)
    for k, axis in enumerate(np.eye(d)):
        below = kernel(distances * axis, origin)[:, 0] < np.exp(-0.5) * _variance(
            kernel,
            d,
        )
        lengths[k] = distances[np.argmax(below) if below.any() else -1, 0]
    return lengths
