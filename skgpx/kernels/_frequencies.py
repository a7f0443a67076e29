"""Samples of the spectral density of a stationary kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import (
    RBF,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from skgpx.kernels._expansion import Monomial, expand
from skgpx.kernels._spectral_laws import (
    EllipticalLaw,
    GammaMixtureRadius,
    GaussianRadius,
    PeriodicLaw,
    SampledLaw,
    SpectralLaw,
    StudentRadius,
)

Array = NDArray[np.float64]
Sampler = Callable[[Any, int, int, np.random.Generator], Array]

_LAWS: dict[type, Callable[[Any, int], SpectralLaw]] = {}


def register_spectral_sampler(kernel_type: type, sampler: Sampler) -> None:
    """Say how to sample the spectral density of your own stationary kernel.

    Registration is by exact type: a subclass has another density (``Matern`` is a
    subclass of ``RBF``), and does not inherit the sampler.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    sampler : callable
        ``sampler(kernel, n_frequencies, d, rng)`` returns angular frequencies of
        shape (n_frequencies, d), in radians per unit of the input, such that
        ``k(x, y) / k(x, x) = E[cos(ω·(x - y))]``; ``rng`` is a
        `numpy.random.Generator`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import register_spectral_sampler, sample_frequencies
    >>> class Wave(RBF):
    ...     "A kernel of one wavelength."
    ...     def __call__(self, X, Y=None, eval_gradient=False):
    ...         return np.cos(np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0]))
    >>> register_spectral_sampler(Wave, lambda kernel, n, d, rng: np.ones((n, d)))
    >>> sample_frequencies(Wave(), 2, 1, np.random.default_rng(0)).frequencies
    array([[1.],
           [1.]])
    """
    _LAWS[kernel_type] = lambda kernel, d: SampledLaw(kernel, sampler, d)


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
        has its exact cosine series instead.
    d : int
        Number of input columns.
    rng : numpy.random.Generator
        Source of the randomisation.
    method : {"qmc", "mc"}, default="qmc"
        A scrambled Sobol net, or independent points.
    tail_power : float, default=1.0
        ``κ >= 1``: how much the high frequencies are enriched, see
        :func:`warped_sample`.

    Returns
    -------
    sample : SpectralSample
        Frequencies (R, d) and amplitudes (R,).

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral sampler, or the kernel is a sum.

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
    monomials = expand(kernel)
    if len(monomials) != 1:
        raise ValueError(
            f"sample_frequencies expects a stationary kernel that is not a sum; got "
            f"{kernel!r}. Sample its {len(monomials)} terms one by one."
        )
    laws = spectral_laws(monomials[0], kernel, d)
    return warped_sample(laws, n_frequencies, d, rng, method, tail_power)


def spectral_laws(monomial: Monomial, whole: Any, d: int) -> tuple[SpectralLaw, ...]:
    """Laws of the factors of a product; their frequencies add.

    Raises
    ------
    ValueError
        If a factor has none; the message names it.
    """
    for factor in monomial.factors:
        if type(factor) not in _LAWS:
            raise no_sampler(factor, whole)
    gaussian = [k for k in monomial.factors if type(k) is RBF]
    laws = [_LAWS[type(k)](k, d) for k in monomial.factors if type(k) is not RBF]
    if gaussian:
        # a product of RBFs is one, whose squared inverse lengthscales are summed
        inverse = sum(np.asarray(k.length_scale, dtype=float) ** -2.0 for k in gaussian)
        laws.append(EllipticalLaw(GaussianRadius(), np.asarray(inverse) ** -0.5, d))
    return tuple(laws)


def no_sampler(part: Any, whole: Any, reason: str = "") -> ValueError:
    """Build the error for a part of a kernel that has no spectral features."""
    name = type(part).__name__
    where = "" if part is whole else f", a part of {whole!r}"
    return ValueError(
        f"{part!r}{where} has no spectral sampler{reason}. Give it one with "
        f"skgpx.bases.register_spectral_sampler({name}, sampler) if it is stationary, "
        'or ask for prior="exact", whose cost grows with the cube of the number of '
        "distinct points at which the draws are evaluated."
    )


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
    weight ``du/dv = κ v^(κ - 1)``: of mean one, and never above κ.
    """
    if len(laws) == 1 and isinstance(laws[0], PeriodicLaw):
        waves, series = laws[0].series()
        return SpectralSample(waves, np.sqrt(series))
    if len(laws) == 1 and isinstance(laws[0], SampledLaw):
        waves = laws[0].frequencies(np.empty((n, 0)), rng)
        return SpectralSample(waves, np.full(n, n**-0.5))
    uniform = _uniform(n, sum(law.n_coordinates for law in laws), rng, method)
    if uniform.shape[1]:
        # ω and -ω are the same wave: the first summand needs half of its directions
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


def _uniform(n: int, d: int, rng: np.random.Generator, method: str) -> Array:
    """Points in the open unit cube, shape (n, d): a scrambled Sobol net, or random."""
    if method == "mc" or d == 0:
        return np.clip(rng.random((n, d)), 2.0**-32, 1.0 - 2.0**-32)
    # the net is balanced at powers of two only: draw such a number, keep the first n
    # `seed` is what older SciPy calls its rng; newer ones take both
    points = qmc.Sobol(d, seed=rng).random_base2((n - 1).bit_length())
    return np.clip(points[:n], 2.0**-32, 1.0 - 2.0**-32)


def _rbf(kernel: RBF, d: int) -> SpectralLaw:
    return EllipticalLaw(GaussianRadius(), np.asarray(kernel.length_scale), d)


def _matern(kernel: Matern, d: int) -> SpectralLaw:
    infinite = kernel.nu == np.inf
    radius = GaussianRadius() if infinite else StudentRadius(float(kernel.nu))
    return EllipticalLaw(radius, np.asarray(kernel.length_scale), d)


def _rational_quadratic(kernel: RationalQuadratic, d: int) -> SpectralLaw:
    radius = GammaMixtureRadius(float(kernel.alpha))
    return EllipticalLaw(radius, np.asarray(kernel.length_scale), d)


def _periodic(kernel: ExpSineSquared, d: int) -> SpectralLaw:
    if d != 1:
        raise no_sampler(kernel, kernel, f" in {d} input columns (only in one)")
    return PeriodicLaw(kernel.length_scale, kernel.periodicity)


_LAWS.update(
    {
        RBF: _rbf,
        Matern: _matern,
        RationalQuadratic: _rational_quadratic,
        ExpSineSquared: _periodic,
    }
)
