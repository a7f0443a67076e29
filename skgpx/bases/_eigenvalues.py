"""Eigenvalues of series priors, and how they depend on their parameters.

A *rule* gives every Fourier function its prior variance λ, in squared units of y. It is
an immutable value with ``theta`` (its free parameters, on the scale on which they are
optimised), ``with_theta``, ``index`` and ``spectrum``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import Box, FourierIndex, by_length
from skgpx._numerics.progression_sums import exponential_sum, power_sum
from skgpx._numerics.series_evidence import Spectrum

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

    Parameters
    ----------
    scale : float, default=1.0
        ``τ``, in squared units of y.
    regularity : float, default=0.5
        ``α``, positive.
    paired : bool, default=True
        Give the sine and the cosine of a wave the same eigenvalue, with j the mean of
        their positions: the prior is then stationary and the tail constant. Otherwise
        j counts functions, as published.
    free_regularity : bool, default=False
        Whether ``theta`` is ``(log τ, log α)`` or ``(log τ,)``.

    Notes
    -----
    The tail is a Hurwitz zeta function. Corollaries 10 and 11 of [1]_.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.
    """

    scale: float = 1.0
    regularity: float = 0.5
    paired: bool = True
    free_regularity: bool = False

    @property
    def theta(self) -> Array:
        """``log τ``, and ``log α`` if it is free."""
        free = [self.scale, self.regularity][: 1 + self.free_regularity]
        return np.log(free)

    def with_theta(self, theta: Array) -> PolynomialEigenvalues:
        """Return the rule with other parameters."""
        scale, regularity = np.exp(theta[0]), self.regularity
        if self.free_regularity:
            regularity = float(np.exp(theta[1]))
        return replace(self, scale=float(scale), regularity=regularity)

    def index(self, box: Box, size: int) -> FourierIndex:
        """List functions by the length of their waves."""
        return by_length(len(box.period), size, self.paired)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others.

        The functions are the first ones in the order of their ranks.
        """
        d, r = len(box.period), index.ranks
        s = 1.0 + 2.0 * self.regularity / d
        values = self.scale * r**-s
        # ∂/∂log α = -(2α/d) log j
        chain = -2.0 * self.regularity / d
        slopes = np.stack([np.ones(len(r)), chain * np.log(r)], axis=1)
        beyond = _beyond(r, self.paired, lambda x, h: power_sum(s, x, h))
        tails = self.scale * beyond * [1.0, chain]
        free = 1 + self.free_regularity
        return Spectrum(values, slopes[:, :free], float(tails[0]), tails[:free])


@dataclass(frozen=True)
class ExponentialEigenvalues:
    """``λ_j = τ exp(-c j^(1/d))``: equation (5.1) of Nieman, Szabó and van Zanten.

    Parameters
    ----------
    scale : float, default=1.0
        ``τ``, in squared units of y.
    decay : float, default=1.0
        ``c``, positive.
    paired : bool, default=True
        See :class:`PolynomialEigenvalues`.
    free_decay : bool, default=False
        Whether ``theta`` is ``(log τ, log c)`` or ``(log τ,)``.

    Notes
    -----
    The tail is a geometric series for d = 1.
    """

    scale: float = 1.0
    decay: float = 1.0
    paired: bool = True
    free_decay: bool = False

    @property
    def theta(self) -> Array:
        """``log τ``, and ``log c`` if it is free."""
        return np.log([self.scale, self.decay][: 1 + self.free_decay])

    def with_theta(self, theta: Array) -> ExponentialEigenvalues:
        """Return the rule with other parameters."""
        decay = float(np.exp(theta[1])) if self.free_decay else self.decay
        return replace(self, scale=float(np.exp(theta[0])), decay=decay)

    def index(self, box: Box, size: int) -> FourierIndex:
        """List functions by the length of their waves."""
        return by_length(len(box.period), size, self.paired)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        d, c = len(box.period), self.decay
        root = index.ranks ** (1.0 / d)
        values = self.scale * np.exp(-c * root)
        slopes = np.stack([np.ones(len(root)), -c * root], axis=1)
        sums = _beyond(
            index.ranks, self.paired, lambda x, h: exponential_sum(c, d, x, h)
        )
        tails = self.scale * sums * [1.0, -1.0]
        free = 1 + self.free_decay
        return Spectrum(values, slopes[:, :free], float(tails[0]), tails[:free])


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
        return by_length(len(box.period), size, paired=False)

    def spectrum(self, index: FourierIndex, box: Box) -> Spectrum:
        """Eigenvalues of listed functions and the variance of all others."""
        del box
        m, v = len(index), self.scale * np.asarray(self.values)
        tail = float(np.sum(v[m:]))
        return Spectrum(v[:m], np.ones((m, 1)), tail, np.array([tail]))


def _beyond(
    ranks: Array, paired: bool, sums: Callable[[float, float], tuple[float, float]]
) -> Array:
    """Sums over the ranks of all functions after those that are listed, shape (2,).

    ``sums(start, step)`` sums over an arithmetic progression of ranks. Raised functions
    share the rank of the constant, and do not count.
    """
    m = len(ranks) + 1 - int(np.count_nonzero(ranks == 1.0))
    if not paired:
        return np.array(sums(m + 1.0, 1.0))
    # whole pairs have the ranks 2r + ½; an even m splits the last pair
    whole = m + 1 - m % 2
    total = np.array(sums(whole + 1.5, 2.0))
    if m % 2:
        return 2.0 * total
    return total + np.array(sums(m + 0.5, 2.0))
