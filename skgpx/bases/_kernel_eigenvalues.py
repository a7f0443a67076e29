"""Eigenvalues of stationary kernels on a box: their spectral densities at its waves.

The periodic process with eigenvalues ``S(ω_k) / Π period`` has the covariance ``Σ_n
k(x - x' + n period)`` (Poisson's formula): that of the kernel, as long as the images of
a point are far away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import ConstantKernel, Product, Sum

from skgpx._numerics.fourier_index import (
    Box,
    FourierIndex,
    Integers,
    function_list,
    half_space,
)
from skgpx._numerics.series_evidence import Spectrum
from skgpx.bases._periodic_variance import periodic_variance
from skgpx.kernels import KernelSpectrum, record_of

Array = NDArray[np.float64]


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
        "Matern, RationalQuadratic, constants, their sums, products with constants, "
        "and kernels given to skgpx.bases.register_spectral_density; use "
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
