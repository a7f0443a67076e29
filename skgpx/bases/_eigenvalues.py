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

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, zeta
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skgpx._numerics.fourier import (
    Box,
    FourierIndex,
    Integers,
    by_length,
    function_list,
    half_space,
    raised,
)
from skgpx._numerics.regression import Spectrum
from skgpx.kernels import free_slopes, rule_of

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


class _Scaled:
    """A rule whose only parameter is the factor ``τ`` of all eigenvalues, `scale`."""

    scale: float

    @property
    def theta(self) -> Array:
        """``log τ``."""
        return np.log([self.scale])

    def with_theta(self, theta: Array) -> Self:
        """Return the rule with another scale."""
        return replace(self, scale=float(np.exp(theta[0])))  # type: ignore[type-var]


@dataclass(frozen=True)
class PolynomialEigenvalues(_Scaled):
    """``λ_j = τ j^(-1 - 2α/d)``: a prior of regularity α.

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
    The sum of all eigenvalues is a Hurwitz zeta function. The prior is that of
    Corollaries 10 and 11 of [1]_.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.
    """

    scale: float = 1.0
    regularity: float = 0.5

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
class GivenEigenvalues(_Scaled):
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
    """A rule in which the variance of some waves is raised.

    Parameters
    ----------
    rule : EigenvalueRule
    waves : tuple of tuple of int
        The raised waves, one of each ±k; they come first in the prior. Zero is the
        constant function. In a fit they count periods of the domain.
    variance : float
        Variance of each of their functions, unless that of the rule is larger, in
        squared units of y.
    """

    rule: Any
    waves: tuple[tuple[int, ...], ...]
    variance: float

    @property
    def n_raised(self) -> int:
        """Functions that a basis must have: the constant, and a pair of each wave."""
        inner = self.rule.n_raised if isinstance(self.rule, RaisedEigenvalues) else 1
        return inner + 2 * sum(any(wave) for wave in self.waves)

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
        d = len(box.period)
        if any(len(wave) != d for wave in self.waves):
            raise ValueError(
                f"Each wave of RaisedEigenvalues must have one integer for each of {d} "
                f"inputs; got waves={self.waves}."
            )
        index = self.rule.index(box, size)
        varying = np.array([w for w in self.waves if any(w)], np.int64)
        return raised(index, varying.reshape(-1, d)).part(slice(size))

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
    if type(kernel) is ConstantKernel:
        return True
    if type(kernel) not in (Sum, Product):
        return rule_of(kernel, "spectral_density") is not None
    pair = (kernel.k1, kernel.k2)
    constant = type(kernel) is Sum or any(map(_is_constant, pair))
    return constant and all(map(has_spectrum, pair))


def eigenvalues_and_variance(
    kernel: Any, omega: Array, box: Box
) -> tuple[Array, Array]:
    """Eigenvalues of a kernel made periodic, and last their sum over all functions.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    omega : ndarray of shape (R, d)
        Angular frequencies of waves of the box.
    box : Box

    Returns
    -------
    values : ndarray of shape (R + 1,)
    gradients : ndarray of shape (R + 1, p)
        In ``kernel.theta``.

    Raises
    ------
    ValueError
        If a part has none; the message names it.
    """
    if type(kernel) is ConstantKernel:
        # all variance is at the frequency zero
        value = float(kernel.constant_value)
        values = np.append(np.where(omega.any(axis=1), 0.0, value), value)
        free = 0 if kernel.hyperparameter_constant_value.fixed else 1
        return values, np.tile(values[:, np.newaxis], free)
    if not has_spectrum(kernel):
        raise ValueError(
            f"{kernel!r} has no known eigenvalues on a box. Fourier functions support "
            "RBF, Matern, constants, their sums, products with constants, "
            "and those with a density given to skgpx.kernels.register_kernel; use "
            'basis="inducing" or "empirical" for others.'
        )
    if type(kernel) in (Sum, Product):
        pair = (kernel.k1, kernel.k2)
        (a, da), (b, db) = (eigenvalues_and_variance(k, omega, box) for k in pair)
        if type(kernel) is Sum:
            return a + b, np.hstack((da, db))
        # the value of a constant kernel is its variance
        if _is_constant(kernel.k1):
            return a[-1] * b, np.hstack((np.outer(b, da[-1]), a[-1] * db))
        return b[-1] * a, np.hstack((b[-1] * da, np.outer(a, db[-1])))
    values, gradients = rule_of(kernel, "spectral_density")(kernel, omega)
    volume = np.prod(box.period)
    total, slope = _periodic_variance(kernel, box)
    return np.append(values / volume, total), np.vstack((gradients / volume, slope))


def _is_constant(kernel: Any) -> bool:
    if type(kernel) in (Sum, Product):
        return _is_constant(kernel.k1) and _is_constant(kernel.k2)
    return type(kernel) is ConstantKernel


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
        omega = box.frequencies(index.waves)
        values, gradients = eigenvalues_and_variance(self.kernel, omega, box)
        (values, total), (gradients, slopes) = (
            (part[:-1], part[-1]) for part in (values, gradients)
        )
        tail = float(total - np.sum(values))
        slopes = slopes - gradients.sum(axis=0)
        # what is left by subtraction below rounding level is nothing
        if tail <= 1e-14 * total:
            tail, slopes = 0.0, np.zeros_like(slopes)
        positive = np.maximum(values, np.finfo(float).tiny)
        return Spectrum(values, gradients / positive[:, np.newaxis], tail, slopes)

    def _values(self, waves: Integers, box: Box) -> Array:
        omega = box.frequencies(waves)
        return eigenvalues_and_variance(self.kernel, omega, box)[0][:-1]


# ---- Variance of a stationary kernel made periodic: Σ_n k(n period) ------------------


def _periodic_variance(kernel: Any, box: Box) -> tuple[float, Array]:
    """``Σ_n k(n period)`` of a kernel with a density, and its gradient in theta.

    Exact to rounding for RBF and Matern. Of other kernels the sum over images is taken
    where it converges, and otherwise that of many eigenvalues.
    """
    if type(kernel) not in (RBF, Matern):
        images = _sum_of_images(kernel, box)
        return _sum_of_waves(kernel, box) if images is None else images
    d = len(box.period)
    nu = float(kernel.nu) if type(kernel) is Matern else np.inf
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), (d,))
    total, by_input = _mixture_variance(scales / box.period, nu)
    return total, free_slopes(kernel.hyperparameter_length_scale, by_input)


def _mixture_variance(ratios: Array, nu: float) -> tuple[float, Array]:
    """Variance of the periodic Matern process of order nu (inf for the RBF).

    ``k(r) = E exp(-|r/ℓ|² / (2g))`` with g ~ Gamma(ν, ν): a mixture of Gaussians of
    lengthscales ``ℓ √g``, whose sums over images are products over the inputs. `ratios`
    (d,) are lengthscales over periods. Also returns the derivatives (d,) in each
    log-lengthscale.
    """
    log_g, log_weights = np.zeros(1), np.zeros(1)
    if np.isfinite(nu):
        # a sum of waves grows at most as g^(d/2): nodes end where that times the
        # density is nothing; below, no image counts, exp(-9² / 2), or there is no mass
        spread = 1.0 / np.sqrt(nu)
        high = np.log1p(45.0 * (spread + spread**2) + 4.0 * len(ratios) / nu)
        low = -2.0 * np.log(9.0 * np.max(ratios))
        low = max(low, -13.0 * spread - 45.0 / nu)
        # trapezoids, errors below 1e-15
        step = min(0.2, 0.25 * spread)
        log_g = np.arange(high, min(low, high) - 0.2, -step)
        log_weights = nu * (np.log(nu) + log_g - np.exp(log_g)) - gammaln(nu)
        log_weights += np.log(step)
    x = np.sqrt(2.0 * np.pi) * np.exp(0.5 * log_g)[:, np.newaxis] * ratios
    logs, slopes = _log_theta(x)
    logs = logs.sum(axis=1)
    # one for the point itself; its images are added without cancellation
    total = 1.0 + float(np.exp(log_weights) @ np.expm1(logs))
    return total, np.exp(log_weights + logs) @ slopes


def _log_theta(x: Array) -> tuple[Array, Array]:
    """``log θ(x)`` and its slope in log x, between zero and one.

    ``θ(x) = Σ_n exp(-π n²/x²) = x Σ_k exp(-π k² x²)``, n and k over all integers: the
    sum whose terms are at most exp(-π n²), so that four on either side are exact.
    """
    short = x < 1.0
    # farther out all terms are zero in double precision, and their squares no numbers
    near = np.clip(x, 1e-3, 1e3)
    y = np.where(short, 1.0 / near, near)[..., np.newaxis]
    half = np.pi * (np.arange(1.0, 5.0) * y) ** 2
    terms = 2.0 * np.exp(-half)
    beyond = terms.sum(axis=-1)
    # d log(1 + Σ) / d log y
    growth = -2.0 * np.sum(half * terms, axis=-1) / (1.0 + beyond)
    logs = np.log1p(beyond) + np.log(np.maximum(x, 1.0))
    return logs, np.where(short, -growth, 1.0 + growth)


def _sum_of_images(kernel: Any, box: Box) -> tuple[float, Array] | None:
    """The sum if its last shell is nothing, otherwise None."""
    d = len(box.period)
    n = {1: 27, 2: 9, 3: 3}[d]
    steps = np.stack(np.meshgrid(*[np.arange(-n, n + 1)] * d), axis=-1).reshape(-1, d)
    # the point itself goes first: its row of the gradient is wanted
    steps = steps[np.argsort(np.abs(steps).max(axis=1), kind="stable")]
    K, gradient = kernel(steps * box.period, eval_gradient=True)
    outer = K[0, np.abs(steps).max(axis=1) == n].sum()
    if outer > 1e-15 * K[0].sum():
        return None
    return float(K[0].sum()), gradient[0].sum(axis=0)


def _sum_of_waves(kernel: Any, box: Box) -> tuple[float, Array]:
    """Sum of the eigenvalues of 1024 waves, or 64 or 16 along each of several axes."""
    d = len(box.period)
    waves = half_space(np.full(d, {1: 1024, 2: 64, 3: 16}[d]))
    waves = np.concatenate((np.zeros((1, d), np.int64), waves))
    density = rule_of(kernel, "spectral_density")
    values, gradients = density(kernel, box.frequencies(waves))
    both = np.where(waves.any(axis=1), 2.0, 1.0) / np.prod(box.period)
    return float(both @ values), both @ gradients
