"""Eigenvalues of stationary kernels on a box: their spectral densities at its waves.

The periodic process with eigenvalues ``S(ω_k) / Π period`` has the covariance ``Σ_n
k(x - x' + n period)`` (Poisson's formula): that of the kernel, as long as the images of
a point are far away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
)

from skgpx._numerics.fourier_index import (
    Box,
    FourierIndex,
    Integers,
    function_list,
    half_space,
)
from skgpx._numerics.series_evidence import Spectrum
from skgpx.bases._periodic_variance import periodic_variance
from skgpx.kernels import rational_quadratic

Array = NDArray[np.float64]


class KernelSpectrum(NamedTuple):
    """Eigenvalues of a periodic kernel at a list of waves.

    Attributes
    ----------
    values : ndarray of shape (R,)
        ``λ`` of each wave.
    gradients : ndarray of shape (R, p)
        In ``kernel.theta``.
    total : float
        Variance: the sum of the eigenvalues of all functions.
    total_gradient : ndarray of shape (p,)
    """

    values: Array
    gradients: Array
    total: float
    total_gradient: Array


Density = Callable[[Any, Array], tuple[Array, Array]]
_EIGENVALUES: dict[type, Callable[[Any, Array, Box], KernelSpectrum]] = {}


def register_spectral_density(kernel_type: type, density: Density) -> None:
    """Say what the spectral density of your own stationary kernel is.

    Fourier functions on a box then serve it. Registration is by exact type, as in
    :func:`register_spectral_sampler`.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    density : callable
        ``density(kernel, omega)`` returns ``S(ω) = ∫ k(r) cos(ω·r) dr`` at angular
        frequencies omega (R, d), shape (R,), and its derivatives in ``kernel.theta``,
        shape (R, p). S must not increase with any ``|ω_i|``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Box, KernelEigenvalues, register_spectral_density
    >>> class Bell(RBF):
    ...     "A kernel of one lengthscale, which is fixed."
    >>> def density(kernel, omega):
    ...     S = np.sqrt(2 * np.pi) * np.exp(-0.5 * omega[:, 0] ** 2)
    ...     return S, np.empty((len(S), 0))
    >>> register_spectral_density(Bell, density)
    >>> box = Box(np.zeros(1), np.full(1, 9.0))
    >>> rule = KernelEigenvalues(Bell(1.0, "fixed"))
    >>> rule.spectrum(rule.index(box, 3), box).eigenvalues.round(3)
    array([0.279, 0.218, 0.218])
    """

    def eigenvalues(kernel: Any, omega: Array, box: Box) -> KernelSpectrum:
        values, gradients = density(kernel, omega)
        volume = np.prod(box.period)
        total, slope = periodic_variance(kernel, box, density)
        return KernelSpectrum(values / volume, gradients / volume, total, slope)

    _EIGENVALUES[kernel_type] = eigenvalues


def has_spectrum(kernel: Any) -> bool:
    """Whether every part of a kernel has known eigenvalues."""
    if type(kernel) is Sum:
        return has_spectrum(kernel.k1) and has_spectrum(kernel.k2)
    if type(kernel) is Product:
        pair = (kernel.k1, kernel.k2)
        return any(_is_constant(k) for k in pair) and all(map(has_spectrum, pair))
    return type(kernel) in _EIGENVALUES


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
    if type(kernel) not in _EIGENVALUES:
        raise _no_density(kernel)
    return _EIGENVALUES[type(kernel)](kernel, omega, box)


@dataclass(frozen=True)
class KernelEigenvalues:
    """Eigenvalues of a stationary kernel made periodic.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        RBF, Matern, RationalQuadratic, constants, products with constants and sums;
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
        reach = np.ones(d, np.int64) if d > 1 else np.array([R])
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
        "Matern, RationalQuadratic, constants, their sums, and products with "
        'constants; use basis="inducing" or "empirical" for other kernels.'
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


def _constant(kernel: ConstantKernel, omega: Array, box: Box) -> KernelSpectrum:
    del box
    value = float(kernel.constant_value)
    values = np.where(omega.any(axis=1), 0.0, value)
    free = 0 if kernel.hyperparameter_constant_value.fixed else 1
    gradient = np.full(free, value)
    return KernelSpectrum(values, np.tile(values[:, np.newaxis], free), value, gradient)


def _ard_gradient(kernel: Any, by_input: Array) -> Array:
    """Columns of free log-lengthscales from those of each input (R, d)."""
    if kernel.hyperparameter_length_scale.fixed:
        return np.empty((len(by_input), 0))
    if np.ndim(kernel.length_scale) == 0 or np.size(kernel.length_scale) == 1:
        return by_input.sum(axis=1, keepdims=True)
    return by_input


def _rbf(kernel: Any, omega: Array) -> tuple[Array, Array]:
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), omega.shape[1])
    square = (omega * scales) ** 2
    # (2π)^(d/2) Π ℓ exp(-|ℓω|²/2)
    front = np.prod(np.sqrt(2.0 * np.pi) * scales)
    values = front * np.exp(-0.5 * square.sum(axis=1))
    return values, _ard_gradient(kernel, values[:, np.newaxis] * (1.0 - square))


def _matern(kernel: Any, omega: Array) -> tuple[Array, Array]:
    if kernel.nu == np.inf:
        return _rbf(kernel, omega)
    d, nu = omega.shape[1], float(kernel.nu)
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), (d,))
    square = (omega * scales) ** 2
    # 2^d π^(d/2) Γ(ν + d/2)/Γ(ν) (2ν)^ν Π ℓ (2ν + |ℓω|²)^-(ν + d/2)
    front = d * np.log(2.0 * np.sqrt(np.pi)) + gammaln(nu + d / 2) - gammaln(nu)
    base = 2.0 * nu + square.sum(axis=1)
    power = nu * np.log(2.0 * nu) - (nu + d / 2) * np.log(base)
    values = np.exp(front + power) * np.prod(scales)
    ratio = (2.0 * nu + d) * square / base[:, np.newaxis]
    return values, _ard_gradient(kernel, values[:, np.newaxis] * (1.0 - ratio))


def _rational_quadratic(kernel: Any, omega: Array, box: Box) -> KernelSpectrum:
    return KernelSpectrum(*rational_quadratic(kernel, omega, box))


_EIGENVALUES.update({ConstantKernel: _constant, RationalQuadratic: _rational_quadratic})
register_spectral_density(RBF, _rbf)
register_spectral_density(Matern, _matern)
