"""Eigenvalues of Fourier priors and of stationary kernels on a box.

A *rule* gives every Fourier function its prior variance λ, in squared units of y. It is
an immutable value with ``theta`` (its free parameters, on the scale on which they are
optimised), ``with_theta``, ``index`` and ``spectrum``.

``Σ_n k(n period) = Σ_k S(ω_k) / Π period``. A lengthscale may be far below or far above
the period: neither sum then serves every kernel. RBF and Matern kernels are mixtures of
Gaussians, each of which has the better of both sums.

A stationary kernel made periodic: the process with eigenvalues ``S(ω_k) / Π period``
has the covariance ``Σ_n k(x - x' + n period)`` (Poisson's formula), which is the kernel
as long as the images of a point are far away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, gammaincc, gammaln, zeta
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skgpx._numerics.fourier import (
    Box,
    FourierIndex,
    boost_waves,
    by_length,
    function_list,
    half_space,
)
from skgpx._numerics.regression import Spectrum
from skgpx._types import Array, Kernel
from skgpx.kernels import free_slopes, rule_of, with_theta

# ---- Eigenvalues of series priors, and how they depend on their parameters -----------


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


class RankedEigenvalues:
    """Eigenvalues ``λ_j`` given to functions by their rank, times a free factor ``τ``.

    A subclass is a frozen dataclass with the attributes `scale`, the factor, and
    `paired`: whether the sine and the cosine of a wave share the mean of their ranks.
    """

    scale: float
    paired: bool

    @property
    def theta(self) -> Array:
        """``log τ``."""
        return np.log([self.scale])

    def with_theta(self, theta: Array) -> Self:
        """Return the rule with another scale."""
        return replace(self, scale=float(np.exp(theta[0])))  # type: ignore[type-var]

    def index(self, box: Box, size: int) -> FourierIndex:
        """List functions by the length of their waves."""
        return self.ranked(by_length(len(box.period), size))

    def ranked(self, index: FourierIndex) -> FourierIndex:
        """Functions in the standard order, with the ranks that this rule gives them."""
        if self.paired:
            return index
        ranks = np.arange(1.0, len(index) + 1.0)
        return replace(index, ranks=ranks)


def _check_positive(name: str, value: object) -> None:
    """Refuse a parameter of eigenvalues under which their sum is infinite."""
    if not (isinstance(value, Real) and 0.0 < float(value) < np.inf):
        raise ValueError(
            f"{name} must be a positive, finite number, with which eigenvalues have a "
            f"finite sum; got {value!r}."
        )


def _proportional_spectrum(eigenvalues: Array, tail: float) -> Spectrum:
    """Spectrum with eigenvalues and tail in proportion to τ."""
    return Spectrum(
        eigenvalues,
        # ∂log λ / ∂log τ = 1
        slopes=np.ones((len(eigenvalues), 1)),
        tail=tail,
        tail_slopes=np.array([tail]),
    )


class _InfiniteSequence(RankedEigenvalues):
    """An infinite sequence with a known sum."""

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        d = len(box.period)
        eigenvalues = self.scale * self._sequence(index.ranks, d)
        total = self.scale * self._total(d)
        tail = max(float(total - eigenvalues.sum()), 0.0)
        return _proportional_spectrum(eigenvalues, tail)

    def _sequence(self, ranks: Array, d: int) -> Array:
        """``λ_j / τ`` at ranks j for d inputs."""
        raise NotImplementedError

    def _total(self, d: int) -> float:
        """Sum of ``λ_j / τ`` over all functions of d inputs."""
        raise NotImplementedError


@dataclass(frozen=True)
class PolynomialEigenvalues(_InfiniteSequence):
    """``λ_j = τ j^(-1 - 2α/d)``: a prior of regularity α.

    Parameters
    ----------
    scale : float, default=1.0
        ``τ``, in squared units of y.
    regularity : float, default=0.5
        ``α``, positive.
    paired : bool, default=True
        The sine and the cosine of a wave have one eigenvalue, with j the mean of their
        positions: the prior is stationary. False is the published prior, in which the
        sine comes before the cosine: j = 2 and 3 for the longest wave.

    Notes
    -----
    The sum of all eigenvalues is a Hurwitz zeta function. Corollaries 10
    and 11 of [1]_ are about this prior.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.bases import Box, PolynomialEigenvalues
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> for rule in (PolynomialEigenvalues(), PolynomialEigenvalues(paired=False)):
    ...     print(rule.spectrum(rule.index(box, 5), box).eigenvalues.round(3))
    [1.    0.16  0.16  0.049 0.049]
    [1.    0.25  0.111 0.062 0.04 ]
    """

    scale: float = 1.0
    regularity: float = 0.5
    paired: bool = True

    def __post_init__(self) -> None:
        _check_positive("regularity", self.regularity)

    def _sequence(self, ranks: Array, d: int) -> Array:
        """``j^(-1 - 2α/d)`` at ranks j."""
        exponent = 1.0 + 2.0 * self.regularity / d
        return ranks**-exponent

    def _total(self, d: int) -> float:
        """Sum over all functions."""
        s = 1.0 + 2.0 * self.regularity / d
        if not self.paired:
            return float(zeta(s))
        # the constant has rank 1, pairs have the ranks 2r + ½
        pairs = 2.0 * 2.0**-s * zeta(s, 1.25)
        return float(1.0 + pairs)


@dataclass(frozen=True)
class ExponentialEigenvalues(_InfiniteSequence):
    """``λ_j = τ exp(-c j^(1/d))``: a prior of analytic functions, made rougher by n.

    Parameters
    ----------
    rate : float
        ``c``, positive. A fit does not change it. For functions of regularity α and n
        rows, (5.2) of [1]_ is ``n**(-1 / (d + 2 * alpha)) * log(n)``.
    scale : float, default=1.0
        ``τ``, in squared units of y.
    paired : bool, default=True
        Whether the sine and the cosine of a wave have one eigenvalue, with j the mean
        of their positions; False is the published prior.

    Notes
    -----
    The prior is (5.1) of [1]_, see Corollaries 12 and 13; the numerical example of
    section 6.1 has ``scale = τ_n`` and ``rate = τ_n / 4`` with ``τ_n`` of (5.2).

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.bases import Box, ExponentialEigenvalues
    >>> n, alpha = 2500, 0.5
    >>> rule = ExponentialEigenvalues(n ** (-1.0 / (1.0 + 2.0 * alpha)) * np.log(n))
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> spectrum = rule.spectrum(rule.index(box, 5), box)
    >>> spectrum.eigenvalues.round(3)
    array([0.855, 0.676, 0.676, 0.495, 0.495])
    >>> round(spectrum.tail, 3)
    2.691
    """

    rate: float
    scale: float = 1.0
    paired: bool = True

    def __post_init__(self) -> None:
        _check_positive("rate", self.rate)

    def _sequence(self, ranks: Array, d: int) -> Array:
        """``exp(-c j^(1/d))`` at ranks j."""
        return np.exp(-self.rate * ranks ** (1.0 / d))

    def _total(self, d: int) -> float:
        """Sum over all functions.

        Terms one by one, and beyond them the formula of Euler and Maclaurin: the
        integral, half of the first term and a twelfth of its slope.
        """
        J = 10_001.0
        ranks = np.arange(1.0, J)
        if self.paired:
            # 1, 2.5, 2.5, 4.5, 4.5, ...
            ranks[1:] = 2.0 * (ranks[1:] // 2.0) + 0.5
        terms = self._sequence(ranks, d)
        # ∫ exp(-c x^(1/d)) dx from J on = d c^-d Γ(d, c J^(1/d))
        c = self.rate
        upper_gamma = gamma(d + 1.0)
        limit = c * J ** (1.0 / d)
        integral = c**-d * upper_gamma * gammaincc(d, limit)
        # the term of rank J and its slope in the rank
        (term,) = self._sequence(np.array([J]), d)
        slope = -c / d * J ** (1.0 / d - 1.0) * term
        remainder = integral + 0.5 * term - slope / 12.0
        return float(terms.sum() + remainder)


@dataclass(frozen=True)
class GivenEigenvalues(RankedEigenvalues):
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

    # sine and cosine of a wave have numbers of their own
    paired: ClassVar[bool] = False  # type: ignore[misc]

    def index(self, box: Box, size: int) -> FourierIndex:
        """List functions by the length of their waves, at most as many as values."""
        return super().index(box, min(size, len(self.values)))

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        del box
        values = self.scale * np.asarray(self.values)
        places = index.ranks.astype(np.int64) - 1
        has_value = places < len(values)
        safe_places = np.where(has_value, places, 0)
        eigenvalues = np.where(has_value, values[safe_places], 0.0)
        unlisted = np.delete(values, places[has_value])
        return _proportional_spectrum(eigenvalues, tail=float(np.sum(unlisted)))


class _Around:
    """A rule that follows from another one."""

    rule: Any

    @property
    def theta(self) -> Array:
        """Free parameters of the rule."""
        return self.rule.theta

    def with_theta(self, theta: Array) -> Self:
        """Return the rule with other parameters."""
        inner = self.rule.with_theta(theta)
        return replace(self, rule=inner)  # type: ignore[type-var]

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        return self.rule.spectrum(index, box)


@dataclass(frozen=True)
class OrderedEigenvalues(_Around):
    """A rule that gives its eigenvalues to functions in an order of their own.

    ``k(x, y) = Σ_j λ_j φ_(j)(x) φ_(j)(y)``: the largest eigenvalue goes to the function
    ``φ_(1)`` that is first in the order, and so on.

    Parameters
    ----------
    rule : PolynomialEigenvalues, ExponentialEigenvalues or GivenEigenvalues
        The eigenvalues ``λ_j``.
    order : tuple of int
        Functions that come first, by their place in the standard order from zero on:
        0 is the constant, 2k - 1 and 2k are the sine and the cosine of the k-th longest
        wave. All others follow in the standard order. The order of a paired rule begins
        with the constant and lists whole pairs.

    Raises
    ------
    ValueError
        In a fit, if places are negative or occur twice, or a paired rule has places
        that are not in pairs.

    Notes
    -----
    Section 6.2 of [1]_ sorts functions by the size of their coefficients in the data:
    ``SpectralVGPRegressor(order="data")``.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.bases import Box, OrderedEigenvalues, PolynomialEigenvalues
    >>> rule = OrderedEigenvalues(PolynomialEigenvalues(), (0, 13, 14))
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> index = rule.index(box, 5)
    >>> index.waves.ravel()
    array([0, 7, 7, 1, 1])
    >>> rule.spectrum(index, box).eigenvalues.round(3)
    array([1.   , 0.16 , 0.16 , 0.049, 0.049])
    """

    rule: Any
    order: tuple[int, ...] = field(repr=False)

    def index(self, box: Box, size: int) -> FourierIndex:
        """List the functions of the order, then the others by the length of waves."""
        leading = self._checked_order()
        n_listed = max(size, int(leading.max(initial=0)) + 1)
        # whole pairs
        n_listed += 1 - n_listed % 2
        following = np.setdiff1d(np.arange(n_listed), leading)
        places = np.concatenate((leading, following))
        standard = self.rule.ranked(by_length(len(box.period), n_listed))
        waves = standard.waves[places]
        # the constant, then sine and cosine of one wave after the other
        starts_with_constant = not waves[0].any()
        in_pairs = starts_with_constant and np.array_equal(waves[1::2], waves[2::2])
        if self.rule.paired and not in_pairs:
            raise ValueError(
                "The order of a rule whose sines and cosines have equal eigenvalues "
                "must begin with 0, the constant, and list the places 2k - 1 and 2k of "
                f"each wave next to one another; got {self.order[:9]}... . Order "
                "pairs, or take a rule with paired=False."
            )
        ordered = FourierIndex(waves, standard.sine[places], standard.ranks)
        n_functions = len(self.rule.index(box, size))
        return ordered.part(slice(n_functions))

    def _checked_order(self) -> NDArray[np.int64]:
        """Places of the functions that come first, as integers."""
        order = np.asarray(self.order, dtype=np.float64)
        if not np.array_equal(order, np.round(order)):
            raise ValueError(
                f"The order must hold whole numbers, the places of functions; got "
                f"{self.order!r}."
            )
        places = order.astype(np.int64)
        n_different = len(np.unique(places))
        if n_different < len(places) or np.any(places < 0):
            raise ValueError(
                "order must list different places from 0 on, each once; got "
                f"{len(places)} places from {places.min()} to {places.max()}, "
                f"{n_different} of them different."
            )
        return places


@dataclass(frozen=True)
class BoostedEigenvalues(_Around):
    """A rule in which some waves have a larger variance.

    Parameters
    ----------
    rule : EigenvalueRule
    waves : tuple of tuple of int
        The boosted waves, one of each ±k; they come first in the prior. Zero is the
        constant function. In a fit they count periods of the domain.
    variance : float
        Variance of each of their functions, unless that of the rule is larger, in
        squared units of y.
    """

    rule: Any
    waves: tuple[tuple[int, ...], ...]
    variance: float

    @property
    def n_boosted(self) -> int:
        """Functions that a basis must have: the constant, and a pair of each wave."""
        n_inner = 1
        if isinstance(self.rule, BoostedEigenvalues):
            n_inner = self.rule.n_boosted
        n_varying = sum(any(wave) for wave in self.waves)
        return n_inner + 2 * n_varying

    def around(self, rule: EigenvalueRule) -> BoostedEigenvalues:
        """Return the same boosted waves around another rule."""
        return replace(self, rule=rule)

    def index(self, box: Box, size: int) -> FourierIndex:
        """List the boosted functions, then the others in the order of the rule."""
        d = len(box.period)
        if any(len(wave) != d for wave in self.waves):
            raise ValueError(
                "Each wave of BoostedEigenvalues must have one integer for each of "
                f"{d} inputs; got waves={self.waves}."
            )
        index = self.rule.index(box, size)
        varying_waves = [wave for wave in self.waves if any(wave)]
        boosted_waves = np.array(varying_waves, np.int64).reshape(-1, d)
        boosted = boost_waves(index, boosted_waves)
        return boosted.part(slice(size))

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        spectrum = super().spectrum(index, box)
        eigenvalues = spectrum.eigenvalues
        is_boosted = np.zeros(len(index), bool)
        for wave in self.waves:
            is_boosted |= np.all(index.waves == wave, axis=1)
        is_boosted &= eigenvalues < self.variance
        # the variance of a boosted wave does not depend on the parameters of the rule
        return spectrum._replace(
            eigenvalues=np.where(is_boosted, self.variance, eigenvalues),
            slopes=np.where(is_boosted[:, np.newaxis], 0.0, spectrum.slopes),
        )


# ---- Eigenvalues of stationary kernels on a box --------------------------------------


def has_spectrum(kernel: Kernel) -> bool:
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
    if not (has_spectrum(kernel.k1) and has_spectrum(kernel.k2)):
        return False
    # the density of a product of two stationary kernels is a convolution
    has_constant = _is_constant(kernel.k1) or _is_constant(kernel.k2)
    return type(kernel) is Sum or has_constant


def eigenvalues_and_variance(
    kernel: Kernel,
    omega: Array,
    box: Box,
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
        values = kernel.constant_value * np.append(~omega.any(axis=1), 1.0)
        return values, free_slopes(
            kernel.hyperparameter_constant_value, values[:, None]
        )
    if not has_spectrum(kernel):
        raise ValueError(
            f"{kernel!r} has no known eigenvalues on a box. Fourier functions support "
            "RBF, Matern, constants, their sums, products with constants, "
            "and those with a density given to skgpx.kernels.register_kernel; use "
            'basis="inducing" or "empirical" for others.'
        )
    if type(kernel) in (Sum, Product):
        a, da = eigenvalues_and_variance(kernel.k1, omega, box)
        b, db = eigenvalues_and_variance(kernel.k2, omega, box)
        if type(kernel) is Sum:
            return a + b, np.hstack((da, db))
        # the value of a constant kernel is its variance
        if _is_constant(kernel.k1):
            a, da = a[-1:], da[-1:]
        else:
            b, db = b[-1:], db[-1:]
        return a * b, np.hstack((da * b[:, np.newaxis], a[:, np.newaxis] * db))
    # λ_k = S(ω_k) / Π period
    density, gradients = rule_of(kernel, "spectral_density")(kernel, omega)
    volume = np.prod(box.period)
    variance, variance_slopes = _periodic_variance(kernel, box)
    values = np.append(density / volume, variance)
    return values, np.vstack((gradients / volume, variance_slopes))


def _is_constant(kernel: Kernel) -> bool:
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

    kernel: Kernel

    @property
    def theta(self) -> Array:
        """``kernel.theta``: logarithms of the free hyperparameters."""
        return self.kernel.theta

    def with_theta(self, theta: Array) -> KernelEigenvalues:
        """Return the rule of the kernel with other hyperparameters."""
        return KernelEigenvalues(with_theta(self.kernel, theta))

    def index(self, box: Box, size: int) -> FourierIndex:
        """List the functions with the largest eigenvalues, in decreasing order."""
        d = len(box.period)
        n_waves = max(1, size // 2)
        # largest wave number along each input
        reach = np.full(d, n_waves)
        if d > 1:
            side = int(0.5 * n_waves ** (1.0 / d))
            reach = np.full(d, side + 1)
        while True:
            waves = half_space(reach)
            # eigenvalues decrease in each wave number: look at the next on each axis
            listed = np.concatenate((waves, np.diag(reach + 1)))
            omega = box.frequencies(listed)
            values, _ = eigenvalues_and_variance(self.kernel, omega, box)
            eigenvalues = values[: len(waves)]
            order = np.argsort(-eigenvalues, kind="stable")[:n_waves]
            suffices = len(waves) >= n_waves
            smallest = -1.0
            if suffices:
                smallest = eigenvalues[order[-1]]
            is_larger = values[len(waves) : -1] > smallest
            if suffices and not np.any(is_larger):
                functions = function_list(waves[order])
                return functions.part(slice(size))
            wider_reach = reach + 1 + reach // 4
            reach = np.where(is_larger, wider_reach, reach)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        omega = box.frequencies(index.waves)
        values, gradients = eigenvalues_and_variance(self.kernel, omega, box)
        # the last entry is the sum over all functions
        eigenvalues = values[:-1]
        total = values[-1]
        slopes = gradients[:-1]
        total_slopes = gradients[-1]
        tail = float(total - np.sum(eigenvalues))
        tail_slopes = total_slopes - slopes.sum(axis=0)
        # a difference below rounding level counts as zero
        if tail <= 1e-14 * total:
            tail = 0.0
            tail_slopes = np.zeros_like(tail_slopes)
        positive = np.maximum(eigenvalues, np.finfo(float).tiny)
        log_slopes = slopes / positive[:, np.newaxis]
        return Spectrum(eigenvalues, log_slopes, tail, tail_slopes)


# ---- Variance of a stationary kernel made periodic: Σ_n k(n period) ------------------


def _periodic_variance(kernel: Kernel, box: Box) -> tuple[float, Array]:
    """``Σ_n k(n period)`` of a kernel with a density, and its gradient in theta.

    Exact to rounding for RBF and Matern. For other kernels it is the sum over images
    where that converges, and otherwise the sum of many eigenvalues.
    """
    if type(kernel) in (RBF, Matern):
        d = len(box.period)
        nu = float(getattr(kernel, "nu", np.inf))
        length_scale = np.asarray(kernel.length_scale, float)
        ratios = np.broadcast_to(length_scale, (d,)) / box.period
        variance, by_input = _mixture_variance(ratios, nu)
        return variance, free_slopes(kernel.hyperparameter_length_scale, by_input)
    images = _sum_of_images(kernel, box)
    if images is None:
        return _sum_of_waves(kernel, box)
    return images


def _mixture_variance(ratios: Array, nu: float) -> tuple[float, Array]:
    """Variance of the periodic Matern process of order nu (inf for the RBF).

    ``k(r) = E exp(-|r/ℓ|² / (2g))`` with g ~ Gamma(ν, ν): a mixture of Gaussians of
    lengthscales ``ℓ √g``. For each, the sum over images is a product over the inputs.

    Parameters
    ----------
    ratios : ndarray of shape (d,)
        Lengthscales over periods.
    nu : float

    Returns
    -------
    variance : float
    slopes : ndarray of shape (d,)
        In each log-lengthscale.
    """
    log_g, log_weights = _gamma_nodes(ratios, nu)
    # Σ_n exp(-n² / 2ρ²) = θ(√(2π) ρ) at ρ = √g ℓ / period
    root_g = np.exp(0.5 * log_g)[:, np.newaxis]
    arguments = np.sqrt(2.0 * np.pi) * root_g * ratios
    log_theta, theta_slopes = _log_theta(arguments)
    log_products = log_theta.sum(axis=1)
    # one for the point itself; its images are added without cancellation
    weights = np.exp(log_weights)
    images = np.expm1(log_products)
    variance = 1.0 + float(weights @ images)
    weighted_products = np.exp(log_weights + log_products)
    return variance, weighted_products @ theta_slopes


def _gamma_nodes(ratios: Array, nu: float) -> tuple[Array, Array]:
    """Logarithms of nodes g and of their weights, for g ~ Gamma(ν, ν)."""
    if np.isinf(nu):
        return np.zeros(1), np.zeros(1)
    d = len(ratios)
    # a sum of waves grows at most as g^(d/2): the largest node is where that times
    # the density vanishes; below the smallest no image counts, exp(-9² / 2), or the
    # density vanishes
    std = 1.0 / np.sqrt(nu)
    high = np.log1p(45.0 * (std + std**2) + 4.0 * d / nu)
    images_from = -2.0 * np.log(9.0 * np.max(ratios))
    mass_from = -13.0 * std - 45.0 / nu
    low = max(images_from, mass_from)
    low = min(low, high)
    # trapezoids, errors below 1e-15
    step = min(0.2, 0.25 * std)
    log_g = np.arange(high, low - 0.2, -step)
    # density of log g: (ν g)^ν exp(-ν g) / Γ(ν)
    g = np.exp(log_g)
    exponents = nu * (np.log(nu) + log_g - g)
    log_density = exponents - gammaln(nu)
    return log_g, log_density + np.log(step)


def _log_theta(x: Array) -> tuple[Array, Array]:
    """``log θ(x)`` and its slope in log x, between zero and one.

    ``θ(x) = Σ_n exp(-π n²/x²) = x Σ_k exp(-π k² x²)``, n and k over all integers. One
    of the two sums has terms of at most exp(-π n²): four on either side are exact.
    """
    is_short = x < 1.0
    # farther out all terms underflow, and their squares overflow
    bounded = np.clip(x, 1e-3, 1e3)
    y = np.where(is_short, 1.0 / bounded, bounded)
    # Σ = 2 Σ_n exp(-π n² y²)
    n = np.arange(1.0, 5.0)
    exponents = np.pi * (n * y[..., np.newaxis]) ** 2
    terms = 2.0 * np.exp(-exponents)
    images = terms.sum(axis=-1)
    # d log(1 + Σ) / d log y
    weighted_exponents = np.sum(exponents * terms, axis=-1)
    growth = -2.0 * weighted_exponents / (1.0 + images)
    # log θ = log(1 + Σ), plus log x in the sum over k
    log_factor = np.log(np.maximum(x, 1.0))
    log_theta = np.log1p(images) + log_factor
    slopes = np.where(is_short, -growth, 1.0 + growth)
    return log_theta, slopes


def _sum_of_images(kernel: Kernel, box: Box) -> tuple[float, Array] | None:
    """Variance and its gradient in theta; None if the last shell of images counts."""
    d = len(box.period)
    n_shells = {1: 27, 2: 9, 3: 3}[d]
    axis = np.arange(-n_shells, n_shells + 1)
    axes = [axis] * d
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    steps = grid.reshape(-1, d)
    # the point itself goes first: its row of the gradient is wanted
    shells = np.abs(steps).max(axis=1)
    order = np.argsort(shells, kind="stable")
    images = steps[order] * box.period
    K, gradient = kernel(images, eval_gradient=True)
    covariances = K[0]
    variance = covariances.sum()
    in_last_shell = shells[order] == n_shells
    if covariances[in_last_shell].sum() > 1e-15 * variance:
        return None
    return float(variance), gradient[0].sum(axis=0)


def _sum_of_waves(kernel: Kernel, box: Box) -> tuple[float, Array]:
    """Sum of the eigenvalues of 1024 waves, or 64 or 16 along each of several axes."""
    d = len(box.period)
    n_waves = {1: 1024, 2: 64, 3: 16}[d]
    reach = np.full(d, n_waves)
    zero = np.zeros((1, d), np.int64)
    waves = np.concatenate((zero, half_space(reach)))
    omega = box.frequencies(waves)
    spectral_density = rule_of(kernel, "spectral_density")
    density, gradients = spectral_density(kernel, omega)
    # a wave and its opposite have one entry; zero is its own opposite
    multiplicity = np.where(waves.any(axis=1), 2.0, 1.0)
    factors = multiplicity / np.prod(box.period)
    return float(factors @ density), factors @ gradients
