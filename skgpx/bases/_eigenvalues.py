"""Eigenvalues of Fourier priors and of stationary kernels on a box.

A *rule* gives every Fourier function its prior variance λ, in squared units of y. It is
an immutable value with ``theta`` (its free parameters, on the scale on which they are
optimised), ``with_theta``, ``index`` and ``spectrum``.

``Σ_n k(n period) = Σ_k S(ω_k) / Π period``. A lengthscale may be far below or far above
the period: neither sum then serves every kernel. RBF and Matern kernels are mixtures of
Gaussians, each of which has the better of both sums.

A stationary kernel made periodic: the process with eigenvalues ``S(ω_k) / Π period``
has the covariance ``Σ_n k(x - x' + n period)`` (Poisson's formula): that of the kernel,
as long as the images of a point are far away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, zeta
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skgpx._numerics.fourier_index import (
    Box,
    FourierIndex,
    Integers,
    by_length,
    function_list,
    half_space,
    raised,
)
from skgpx._numerics.series_evidence import Spectrum
from skgpx._numerics.special_functions import theta_sum
from skgpx.kernels import KernelSpectrum, record_of

# ---- Eigenvalues of series priors, and how they depend on their parameters -----------


Array = NDArray[np.float64]


class EigenvalueRule(Protocol):
    """Prior variances of Fourier functions."""

    @property
    def theta(self) -> Array:
        """Parameters on the scale of optimisation, shape (p,)."""

    def with_theta(self, theta: Array) -> EigenvalueRule:
        """Return the same rule with other parameters."""

    def index(self, box: Box, size: int) -> FourierIndex:
        """List the ``size`` functions that come first in the prior."""

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""


@dataclass(frozen=True)
class PolynomialEigenvalues:
    """``λ_j = τ j^(-1 - 2α/d)``: the prior of regularity α of [1]_.

    The sine and the cosine of a wave have the same eigenvalue, with j the mean of their
    positions: the prior is stationary.

    Parameters
    ----------
    scale : float, default=1.0
        ``τ``, in squared units of y.
    regularity : float, default=0.5
        ``α``, positive.

    Notes
    -----
    The sum of all eigenvalues is a Hurwitz zeta function. Corollaries 10 and 11 of
    [1]_.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.
    """

    scale: float = 1.0
    regularity: float = 0.5

    @property
    def theta(self) -> Array:
        """``log τ``."""
        return np.log([self.scale])

    def with_theta(self, theta: Array) -> PolynomialEigenvalues:
        """Return the rule with another scale."""
        return replace(self, scale=float(np.exp(theta[0])))

    def index(self, box: Box, size: int) -> FourierIndex:
        """List functions by the length of their waves."""
        return by_length(len(box.period), size)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        s = 1.0 + 2.0 * self.regularity / len(box.period)
        values = self.scale * index.ranks**-s
        # the constant has rank 1, pairs have the ranks 2r + ½
        total = self.scale * (1.0 + 2.0 * 2.0**-s * zeta(s, 1.25))
        tail = max(float(total - values.sum()), 0.0)
        return Spectrum(values, np.ones((len(values), 1)), tail, np.array([tail]))


@dataclass(frozen=True)
class GivenEigenvalues:
    """``λ_j = τ v_j`` for given numbers v, zero beyond them.

    Parameters
    ----------
    values : tuple of float
        ``v_1, v_2, ...`` of the functions in the order of the length of their waves:
        the constant, then sine and cosine of each wave. Not negative.
    scale : float, default=1.0
        ``τ``.
    """

    values: tuple[float, ...]
    scale: float = 1.0

    @property
    def theta(self) -> Array:
        """``log τ``."""
        return np.log([self.scale])

    def with_theta(self, theta: Array) -> GivenEigenvalues:
        """Return the rule with another scale."""
        return replace(self, scale=float(np.exp(theta[0])))

    def index(self, box: Box, size: int) -> FourierIndex:
        """List functions by the length of their waves, at most as many as values."""
        size = min(size, len(self.values))
        return by_length(len(box.period), size)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        del box
        m, v = len(index), self.scale * np.asarray(self.values)
        tail = float(np.sum(v[m:]))
        return Spectrum(v[:m], np.ones((m, 1)), tail, np.array([tail]))


@dataclass(frozen=True)
class RaisedEigenvalues:
    """A rule in which some waves have a larger variance than it gives them.

    Parameters
    ----------
    rule : EigenvalueRule
    waves : tuple of tuple of int
        The raised waves, one of each ±k; they come first in the prior. Zero is the
        constant function.
    variance : float
        Of each of their functions, if the rule gives no more, in squared units of y.
    """

    rule: Any
    waves: tuple[tuple[int, ...], ...]
    variance: float

    @property
    def theta(self) -> Array:
        """Free parameters of the rule."""
        theta: Array = self.rule.theta
        return theta

    def around(self, rule: Any) -> RaisedEigenvalues:
        """Return the same raised waves around another rule."""
        return replace(self, rule=rule)

    def with_theta(self, theta: Array) -> RaisedEigenvalues:
        """Return the rule with other parameters."""
        return replace(self, rule=self.rule.with_theta(theta))

    def index(self, box: Box, size: int) -> FourierIndex:
        """List the raised functions, then the others in the order of the rule."""
        index = self.rule.index(box, size)
        varying = np.array([w for w in self.waves if any(w)], np.int64)
        return raised(index, varying.reshape(-1, len(box.period))).part(slice(size))

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        s: Spectrum = self.rule.spectrum(index, box)
        held = np.zeros(len(index), bool)
        for wave in self.waves:
            held |= np.all(index.waves == wave, axis=1)
        held &= s.eigenvalues < self.variance
        values = np.where(held, self.variance, s.eigenvalues)
        slopes = np.where(held[:, np.newaxis], 0.0, s.slopes)
        return Spectrum(values, slopes, s.tail, s.tail_slopes)


# ---- Variance of a stationary kernel made periodic -----------------------------------


Density = Callable[[Any, Array], tuple[Array, Array]]

# Step in the logarithm of the mixing variable: trapezoids, errors below 1e-15.
_STEP = 0.2
# Lengthscale per period below which no image counts: exp(-9² / 2) = 3e-18.
_NO_IMAGE = 1.0 / 9.0
# Images on each side of kernels that are no known mixture, and waves of the last of
# three sums, by the number of inputs.
_MOST_IMAGES = {1: 27, 2: 9, 3: 3}
_MOST_WAVES = {1: 1024, 2: 64, 3: 16}


def periodic_variance(kernel: Any, box: Box, density: Density) -> tuple[float, Array]:
    """``Σ_n k(n period)`` of a kernel of variance one, and its gradient in theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    box : Box
    density : callable
        Its spectral density, see :func:`skgpx.kernels.register_kernel`.

    Notes
    -----
    Exact to rounding for RBF and Matern. Of other kernels the sum over images is taken
    where it converges, and otherwise the sum of the eigenvalues, extrapolated as a
    geometric series of doubled numbers of waves: 1e-5 for a density with the decay of
    the Matern kernel of order 1/2 in one dimension.
    """
    if type(kernel) not in (RBF, Matern):
        images = _sum_of_images(kernel, box)
        return _sum_of_waves(kernel, box, density) if images is None else images
    d = len(box.period)
    nu = float(kernel.nu) if type(kernel) is Matern else np.inf
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), (d,))
    total, by_input = mixture_variance(scales / box.period, nu)
    if kernel.hyperparameter_length_scale.fixed:
        return total, np.empty(0)
    if np.size(kernel.length_scale) == 1:
        return total, by_input.sum(keepdims=True)
    return total, by_input


def mixture_variance(ratios: Array, nu: float) -> tuple[float, Array]:
    """Variance of the periodic Matern process of order nu (inf for the RBF).

    Parameters
    ----------
    ratios : ndarray of shape (d,)
        Lengthscale over period of each input.
    nu : float

    Returns
    -------
    total : float
    by_input : ndarray of shape (d,)
        Derivative in each log-lengthscale.

    Notes
    -----
    ``k(r) = E exp(-|r/ℓ|² / (2g))`` with g ~ Gamma(ν, ν): a mixture of Gaussians of
    lengthscales ``ℓ √g``, whose sums over images are products over the inputs.
    """
    log_g, log_weights = _gamma_grid(nu, np.max(ratios), len(ratios))
    x = np.sqrt(2.0 * np.pi) * np.exp(0.5 * log_g)[:, np.newaxis] * ratios
    sums = theta_sum(x)
    logs = sums.log_images.sum(axis=1)
    weights = np.exp(log_weights)
    # one for the point itself; its images are added without cancellation
    total = 1.0 + float(weights @ np.expm1(logs))
    by_input = np.exp(log_weights + logs) @ sums.slope
    return total, by_input


def _gamma_grid(nu: float, ratio: float, d: int) -> tuple[Array, Array]:
    """Logarithms of nodes and weights for g ~ Gamma(ν, ν) where images count.

    A sum of waves grows at most as ``g^(d/2)``: nodes end where that times the density
    is nothing.
    """
    if not np.isfinite(nu):
        return np.zeros(1), np.zeros(1)
    spread = 1.0 / np.sqrt(nu)
    high = np.log1p(45.0 * (spread + spread**2) + 4.0 * d / nu)
    # below, no image counts, or there is no mass
    low = max(2.0 * np.log(_NO_IMAGE / ratio), -13.0 * spread - 45.0 / nu)
    nodes = np.arange(high, min(low, high) - _STEP, -min(_STEP, 0.25 * spread))
    log_density = nu * (np.log(nu) + nodes - np.exp(nodes)) - gammaln(nu)
    return nodes, log_density + np.log(min(_STEP, 0.25 * spread))


def _sum_of_images(kernel: Any, box: Box) -> tuple[float, Array] | None:
    """The sum if its last shell is nothing, otherwise None."""
    d = len(box.period)
    for n in range(1, _MOST_IMAGES[d] + 1):
        axes = [np.arange(-n, n + 1)] * d
        steps = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        outer = np.abs(steps).max(axis=1) == n
        row = kernel(np.zeros((1, d)), steps * box.period)[0]
        if row[outer].sum() <= 1e-15 * row.sum():
            # the point itself goes first: its row of the gradient is wanted
            steps = np.concatenate((np.zeros((1, d)), steps[steps.any(axis=1)]))
            K, gradient = kernel(steps * box.period, eval_gradient=True)
            return float(K[0].sum()), gradient[0].sum(axis=0)
    return None


def _sum_of_waves(kernel: Any, box: Box, density: Density) -> tuple[float, Array]:
    """Sum of the eigenvalues; what follows the last as a geometric series."""
    d, volume = len(box.period), np.prod(box.period)
    most = _MOST_WAVES[d]
    waves = np.concatenate((np.zeros((1, d), np.int64), half_space(np.full(d, most))))
    values, gradients = density(kernel, box.frequencies(waves))
    length = np.abs(waves).max(axis=1)
    twice = np.where(length > 0, 2.0, 1.0) / volume
    both = np.column_stack((values, gradients)) * twice[:, np.newaxis]
    quarter, half, whole = (both[length <= most // q].sum(axis=0) for q in (4, 2, 1))
    first, last = half - quarter, whole - half
    apart = first[0] - last[0]
    if last[0] <= 1e-15 * whole[0] or apart <= 0.0:
        return float(whole[0]), whole[1:]
    # last² / (first - last), the sum of a series of ratio last / first
    rest = last[0] ** 2 / apart
    slope = (2.0 * last[0] * last - rest * (first - last)) / apart
    return float(whole[0] + rest), whole[1:] + slope[1:]


# ---- Eigenvalues of stationary kernels on a box --------------------------------------


def has_spectrum(kernel: Any) -> bool:
    """Whether every part of a kernel has known eigenvalues.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel

    Returns
    -------
    has_spectrum : bool
    """
    if type(kernel) is Sum:
        return has_spectrum(kernel.k1) and has_spectrum(kernel.k2)
    if type(kernel) is Product:
        pair = (kernel.k1, kernel.k2)
        return any(_is_constant(k) for k in pair) and all(map(has_spectrum, pair))
    record = record_of(kernel)
    return record.box_spectrum is not None or record.spectral_density is not None


def kernel_spectrum(kernel: Any, omega: Array, box: Box) -> KernelSpectrum:
    """Eigenvalues of a kernel at angular frequencies omega (R, d).

    Raises
    ------
    ValueError
        If a part has none; the message names it.
    """
    if type(kernel) is Sum:
        a, b = (kernel_spectrum(k, omega, box) for k in (kernel.k1, kernel.k2))
        return KernelSpectrum(
            a.values + b.values,
            np.concatenate((a.gradients, b.gradients), axis=1),
            a.total + b.total,
            np.concatenate((a.total_gradient, b.total_gradient)),
        )
    if type(kernel) is Product:
        return _product(kernel, omega, box)
    record = record_of(kernel)
    if record.box_spectrum is not None:
        return record.box_spectrum(kernel, omega, box)
    if record.spectral_density is None:
        raise _no_density(kernel)
    values, gradients = record.spectral_density(kernel, omega)
    volume = np.prod(box.period)
    total, slope = periodic_variance(kernel, box, record.spectral_density)
    return KernelSpectrum(values / volume, gradients / volume, total, slope)


@dataclass(frozen=True)
class KernelEigenvalues:
    """Eigenvalues of a stationary kernel made periodic.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        RBF, Matern, constants, products with constants and sums;
        isotropic or with one lengthscale for each input. Without noise.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Box, KernelEigenvalues
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> rule = KernelEigenvalues(2.0 * RBF(0.1))
    >>> spectrum = rule.spectrum(rule.index(box, 5), box)
    >>> float(np.sum(spectrum.eigenvalues) + spectrum.tail).__round__(3)
    2.0
    """

    kernel: Any

    @property
    def theta(self) -> Array:
        """``kernel.theta``: logarithms of the free hyperparameters."""
        theta: Array = self.kernel.theta
        return theta

    def with_theta(self, theta: Array) -> KernelEigenvalues:
        """Return the rule of the kernel with other hyperparameters."""
        return KernelEigenvalues(self.kernel.clone_with_theta(theta))

    def index(self, box: Box, size: int) -> FourierIndex:
        """List the functions with the largest eigenvalues, in decreasing order."""
        R, d = max(1, size // 2), len(box.period)
        reach = np.full(d, R if d == 1 else int(0.5 * R ** (1.0 / d)) + 1)
        while True:
            waves = half_space(reach)
            values = self._values(waves, box)
            order = np.argsort(-values, kind="stable")[:R]
            # eigenvalues decrease in each wave number: look at the next on each axis
            enough = len(waves) >= R
            least = values[order[-1]] if enough else -1.0
            ahead = self._values(np.diag(reach + 1), box)
            if enough and not np.any(ahead > least):
                return function_list(waves[order]).part(slice(size))
            reach = np.where(ahead > least, reach + 1 + reach // 4, reach)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        s = kernel_spectrum(self.kernel, box.frequencies(index.waves), box)
        tail = s.total - float(np.sum(s.values))
        slopes = s.total_gradient - s.gradients.sum(axis=0)
        # what is left by subtraction below rounding level is nothing
        if tail <= 1e-14 * s.total:
            tail, slopes = 0.0, np.zeros_like(slopes)
        positive = np.maximum(s.values, np.finfo(float).tiny)
        logs = s.gradients / positive[:, np.newaxis]
        return Spectrum(s.values, logs, tail, slopes)

    def _values(self, waves: Integers, box: Box) -> Array:
        return kernel_spectrum(self.kernel, box.frequencies(waves), box).values


def _no_density(kernel: Any) -> ValueError:
    return ValueError(
        f"{kernel!r} has no known eigenvalues on a box. Fourier functions serve RBF, "
        "Matern, constants, their sums, products with constants, "
        "and those with a density given to skgpx.kernels.register_kernel; use "
        'basis="inducing" or "empirical" for others.'
    )


def _is_constant(kernel: Any) -> bool:
    if type(kernel) is Product or type(kernel) is Sum:
        return _is_constant(kernel.k1) and _is_constant(kernel.k2)
    return type(kernel) is ConstantKernel


def _product(kernel: Any, omega: Array, box: Box) -> KernelSpectrum:
    """Product of a constant and another kernel, in the order of its theta."""
    first = _is_constant(kernel.k1)
    if not first and not _is_constant(kernel.k2):
        raise _no_density(kernel)
    constant, other = (kernel.k1, kernel.k2) if first else (kernel.k2, kernel.k1)
    # the value of a constant kernel is its variance
    c = kernel_spectrum(constant, omega, box)
    s = kernel_spectrum(other, omega, box)
    by_constant = s.values[:, np.newaxis] * c.total_gradient
    gradients = [by_constant, c.total * s.gradients]
    totals = [s.total * c.total_gradient, c.total * s.total_gradient]
    if not first:
        gradients.reverse()
        totals.reverse()
    return KernelSpectrum(
        c.total * s.values,
        np.concatenate(gradients, axis=1),
        c.total * s.total,
        np.concatenate(totals),
    )
