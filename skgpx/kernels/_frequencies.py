"""Samples of the spectral density of a stationary kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import RBF

from skgpx.kernels._expansion import Monomial, expand
from skgpx.kernels._periodic import PeriodicLaw
from skgpx.kernels._records import no_sampler, record_of
from skgpx.kernels._spectral_laws import EllipticalLaw, SampledLaw, SpectralLaw

Array = NDArray[np.float64]


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
        products and integer powers of these, and every type given to
        :func:`register_spectral_sampler`.
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
    laws = spectral_laws(monomials[0], kernel, d)
    return warped_sample(laws, n_frequencies, d, rng, method, tail_power)


def spectral_laws(monomial: Monomial, whole: Any, d: int) -> tuple[SpectralLaw, ...]:
    """Laws of the factors of a product, whose frequencies are added.

    Raises
    ------
    ValueError
        If a factor has none; the message names it.
    """
    laws = []
    for factor in with_one_rbf(monomial.factors):
        law = record_of(factor).spectral_law
        if law is None:
            raise no_sampler(factor, whole)
        laws.append(law(factor, d))
    return tuple(laws)


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
    laws: Sequence[SpectralLaw],
    n: int,
    d: int,
    rng: np.random.Generator,
    method: str = "qmc",
    tail_power: float = 1.0,
) -> SpectralSample:
    """Sum of independent frequencies, with more of the high ones where κ > 1.

    The first coordinate of each law is the probability ``u`` of a higher frequency.
    Where a plain sample takes ``u = v`` from a uniform ``v``, this one takes
    ``u = v^κ``, which sends more points to the tail, and gives them the importance
    weight ``du/dv = κ v^(κ - 1)``, of mean one and at most κ.
    """
    if len(laws) == 1 and isinstance(laws[0], PeriodicLaw):
        waves, series = laws[0].series()
        return SpectralSample(waves, np.sqrt(series))
    if len(laws) == 1 and isinstance(laws[0], SampledLaw):
        waves = laws[0].frequencies(np.empty((n, 0)), rng)
        return SpectralSample(waves, np.full(n, n**-0.5))
    if method == "orthogonal":
        waves = np.sum([_orthogonal(law, n, d, rng) for law in laws], axis=0)
        return SpectralSample(waves, np.full(n, n**-0.5))
    uniform = uniform_points(n, sum(law.n_coordinates for law in laws), rng, method)
    if uniform.shape[1]:
        # ω and -ω are the same wave: half of the directions suffice for one summand
        uniform[:, 1] *= 0.5
    total, weights, start = np.zeros((n, d)), np.ones(n), 0
    for law in laws:
        block = uniform[:, start : start + law.n_coordinates]
        start += law.n_coordinates
        if law.n_coordinates and tail_power != 1.0:
            v = block[:, 0]
            weights *= tail_power * v ** (tail_power - 1.0)
            block = np.column_stack((np.maximum(v**tail_power, 1e-80), block[:, 1:]))
        frequencies = law.frequencies(block, rng)
        if not law.n_coordinates:
            # a user's sampler may return one of ±ω only; in a sum both are needed
            frequencies = frequencies * rng.choice((-1.0, 1.0), (n, 1))
        total += frequencies
    return SpectralSample(total, np.sqrt(weights / weights.sum()))


def _orthogonal(law: SpectralLaw, n: int, d: int, rng: np.random.Generator) -> Array:
    """Frequencies in orthogonal directions, d by d; independent ones for other laws."""
    if not isinstance(law, EllipticalLaw):
        return law.frequencies(uniform_points(n, law.n_coordinates, rng, "mc"), rng)
    # QR of normal matrices: uniform on the orthogonal ones, but for signs of columns
    rotations = np.linalg.qr(rng.standard_normal((-(-n // d), d, d)))[0]
    signs = rng.choice((-1.0, 1.0), (len(rotations), 1, d))
    radii = np.sqrt(chdtri(d, uniform_points(n, 1, rng, "mc")))
    return law.from_normal(radii * (signs * rotations).reshape(-1, d)[:n])


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
