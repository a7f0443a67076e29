"""Fourier functions on a box, continued by the prior where they only repeat.

With ``e`` the point of a region nearest to ``x``, ``ρ(x)`` a correlation that falls
from one at the edge of the region, and ``q`` an independent draw of the prior::

    f(x) = ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)

``c`` is the constant part of the prior, if it has one, which does not fade; ``q`` is of
the rest. f is continuous at the edge, and far away it is c plus a draw of the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FiniteProcess, KernelSections, LinearTerm
from skgpx._numerics.fourier import Box, FourierIndex, Integers
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx.bases._fourier_series import BoxFourierFeatures, FourierSeries
from skgpx.bases._kernel_basis import FeatureMarginals, Marginals
from skgpx.kernels import expand

Array = NDArray[np.float64]


class Fading(Protocol):
    """Correlation of a process at two points, by the step between them."""

    def values(self, steps: Array) -> Array:
        """Correlations at steps (n, d), shape (n,); one at zero."""

    def slopes(self, steps: Array) -> Array:
        """Their gradients in the steps, shape (n, d)."""


def constant_variance(kernel: Any) -> float:
    """Variance of the constant part of a kernel."""
    return float(sum(t.coefficient for t in expand(kernel) if not t.factors))


@dataclass(frozen=True)
class KernelFading:
    """Correlation of a stationary kernel, less a constant part.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    level : float
        Variance of the constant part. If there is nothing else, all correlations are
        zero.
    """

    kernel: Any
    level: float

    def values(self, steps: Array) -> Array:
        """Correlations at steps (n, d), shape (n,); one at zero."""
        total = self._variance(steps.shape[1])
        if not total > 0.0:
            return np.zeros(len(steps))
        sections = self._sections(steps.shape[1])
        found: Array = (sections(steps)[:, 0] - self.level) / total
        return np.clip(found, -1.0, 1.0)

    def slopes(self, steps: Array) -> Array:
        """Gradients of the correlations in the steps, shape (n, d).

        Raises
        ------
        ValueError
            If the kernel has no known derivative in its inputs.
        """
        total = self._variance(steps.shape[1])
        if not total > 0.0:
            return np.zeros(steps.shape)
        sections = self._sections(steps.shape[1])
        index = np.zeros(len(steps), np.intp)
        return sections.pairs(steps, np.ones((1, 1)), index)[1] / total

    def _sections(self, d: int) -> KernelSections:
        return KernelSections(self.kernel, np.zeros((1, d)))

    def _variance(self, d: int) -> float:
        variance = float(self.kernel.diag(np.zeros((1, d)))[0])
        left = variance - self.level
        return left if left > 1e-12 * variance else 0.0


@dataclass(frozen=True)
class SeriesFading:
    """Correlation of a periodic prior up to half a period, and a taper.

    ``c(clip(τ, -½, ½)) (1 - |τ|)₊³ (1 + 3|τ|)`` at τ periods, with c the correlation
    of the periodic process: it is zero from a period on.

    Parameters
    ----------
    period : ndarray of shape (d,)
    waves : ndarray of shape (R, d)
    power : ndarray of shape (R,)
        Variance of each wave.
    """

    period: Array
    waves: Integers
    power: Array

    @cached_property
    def _features(self) -> BoxFourierFeatures:
        d = len(self.period)
        return BoxFourierFeatures(Box(np.zeros(d), np.ones(d)), self.waves)

    @cached_property
    def _weights(self) -> Array:
        """Coefficients of cosines and sines, shape (2 R, 1)."""
        cosines = self.power / np.sum(self.power)
        return np.concatenate((cosines, np.zeros_like(cosines)))[:, np.newaxis]

    def values(self, steps: Array) -> Array:
        """Correlations at steps (n, d), shape (n,); one at zero."""
        turns, length = self._turns(steps)
        out = np.zeros((len(steps), 1))
        near = length < 1.0
        part = np.zeros((int(near.sum()), 1))
        self._features.contract(np.clip(turns[near], -0.5, 0.5), self._weights, part)
        out[near] = part
        return np.clip(out[:, 0], -1.0, 1.0) * _taper(length)

    def slopes(self, steps: Array) -> Array:
        """Gradients of the correlations in the steps, shape (n, d)."""
        turns, length = self._turns(steps)
        inside = np.abs(turns) < 0.5
        value, slope = self._features.pairs(
            np.clip(turns, -0.5, 0.5), self._weights.T, np.zeros(len(steps), np.intp)
        )
        taper, fall = _taper(length), -12.0 * np.maximum(1.0 - length, 0.0) ** 2
        # d taper / dτ = -12 (1 - |τ|)² τ
        total = (slope * inside) * taper[:, np.newaxis]
        total += (value * fall)[:, np.newaxis] * turns
        return total / self.period

    def _turns(self, steps: Array) -> tuple[Array, Array]:
        """Steps in periods, no longer than one, and their lengths."""
        turns = np.clip(steps / self.period, -1.0, 1.0)
        return turns, np.linalg.norm(turns, axis=1)


def _taper(length: Array) -> Array:
    """``(1 - r)₊³ (1 + 3 r)``, with two continuous derivatives."""
    taper: Array = np.maximum(1.0 - length, 0.0) ** 3 * (1.0 + 3.0 * length)
    return taper


Index = NDArray[np.intp]


@dataclass(frozen=True)
class Continuation:
    """Where a series stands for its process, and how its influence fades outside.

    Parameters
    ----------
    region : ndarray of shape (d, 2)
        Lower and upper end of each input.
    fading : Fading
        ρ.
    fresh : float
        Variance of ``q``: that of the prior, without the constant part.
    level : float, default=0.0
        Variance of the constant part ``c`` of the prior.
    """

    region: Array
    fading: Fading
    fresh: float
    level: float = 0.0

    def outside(self, X: Array) -> Index:
        """Rows of X (n, d) that are not in the region."""
        low, high = self.region.T
        return np.flatnonzero(np.any((low > X) | (high < X), axis=1))

    def place(self, X: Array) -> tuple[Array, Array]:
        """Nearest points E (n, d), and the correlations ρ (n,); one inside."""
        E, rho, rows = np.clip(X, *self.region.T), np.ones(len(X)), self.outside(X)
        if len(rows):
            rho[rows] = self.fading.values(X[rows] - E[rows])
        return E, rho

    def slopes(self, X: Array) -> Array:
        """Gradients of ρ, shape (n, d)."""
        steps = X - np.clip(X, *self.region.T)
        # e moves with x along the sides of the region
        slopes: Array = np.where(steps == 0.0, 0.0, self.fading.slopes(steps))
        return slopes


def rest(rho: Array) -> Array:
    """Factor of the independent part, ``√(1 - ρ²)``."""
    factor: Array = np.sqrt((1.0 - rho) * (1.0 + rho))
    return factor


@dataclass(frozen=True)
class FadingFeatures:
    """Waves times a factor of ρ: one of the three parts of a continued series.

    Parameters
    ----------
    features : BoxFourierFeatures
    continuation : Continuation
    part : {"edge", "level", "prior"}
        ``ρ φ(e(x))``, ``(1 - ρ) φ(x)`` of the constant wave, or ``√(1 - ρ²) φ(x)``.
    """

    features: BoxFourierFeatures
    continuation: Continuation
    part: str

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.continuation.region)

    def _place(self, X: Array) -> tuple[Array, Array, Array]:
        """Where the waves are taken (n, d), their factors and the correlations."""
        E, rho = self.continuation.place(X)
        if self.part == "edge":
            return E, rho, rho
        return X, rest(rho) if self.part == "prior" else 1.0 - rho, rho

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        E, factor, _ = self._place(X)
        values: Array = factor[:, np.newaxis] * self.features(E)
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        E, factor, _ = self._place(X)
        rows = np.flatnonzero(factor)
        if len(rows):
            values = np.zeros((len(rows), out.shape[1]))
            self.features.contract(E[rows], weights, values)
            out[rows] += factor[rows, np.newaxis] * values

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        E, factor, rho = self._place(X)
        values, slopes = self.features.pairs(E, weights, index)
        if self.part == "edge":
            bend, slopes = np.ones_like(rho), np.where(E == X, slopes, 0.0)
        elif self.part == "level":
            bend = -np.ones_like(rho)
        else:
            # d√(1 - ρ²) = -ρ dρ / √(1 - ρ²)
            zeros = np.zeros_like(rho)
            bend = np.divide(-rho, factor, out=zeros, where=factor > 0.0)
        slopes = factor[:, np.newaxis] * slopes
        rows = self.continuation.outside(X)
        if len(rows):
            fall = self.continuation.slopes(X[rows])
            slopes[rows] += (bend * values)[rows, np.newaxis] * fall
        return factor * values, slopes


@dataclass(frozen=True)
class ContinuedMarginals:
    """Mean and variance of ``f(x)``: sums of waves inside, the features outside.

    Parameters
    ----------
    inside : Marginals
        Of the series on its box.
    outside : FeatureMarginals
        Of the continued series.
    """

    inside: Marginals
    outside: FeatureMarginals

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance at the rows of X (n, d), each of shape (n, 1, 1)."""
        continuation: Continuation = self.outside.basis.continuation
        mean, variance = self.inside(continuation.place(X)[0])
        rows = continuation.outside(X)
        if len(rows):
            mean, variance = mean.copy(), variance.copy()
            mean[rows], variance[rows] = self.outside(X[rows])
        return mean, variance


@dataclass(frozen=True)
class ContinuedSeries(FourierSeries):
    """`FourierSeries` on a region of its box, with the prior outside of it.

    Parameters
    ----------
    box : Box
        Origin and period of each input.
    functions : FourierIndex
        Those of the basis and then those of the residual.
    spectrum : ndarray of shape (J,)
        Their eigenvalues, as in :class:`FourierSeries`.
    n_basis : int
        Size of the basis.
    remainder : float, default=0.0
        Variance that no function carries (white).
    continuation : Continuation, optional
        What the process is outside of a region; see :meth:`of`.

    Notes
    -----
    With ``e`` the point of the region nearest to x, ``ρ`` the correlation of f(x) and
    f(e), ``c`` the constant part of the prior and q an independent draw of the rest
    of it, the process outside is ``ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)``: that of the
    series at the edge, and the prior far away. As ``E(c | w)`` is a multiple of the
    constant function of the basis, this is again a basis and a residual.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Box, ContinuedSeries, FourierSeries, KernelEigenvalues
    >>> rule = KernelEigenvalues(RBF(0.1))
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> series = FourierSeries.from_rule(rule, box, 31)
    >>> series = ContinuedSeries.of(series, np.array([[0.0, 0.6]]), rule.kernel)
    >>> X = np.array([[0.6], [0.7], [9.0]])
    >>> features = series(X)
    >>> np.sum(features**2, axis=1).round(3)
    array([1.   , 0.368, 0.   ])
    >>> variance = np.sum(features**2, axis=1) + series.residual_variance(X, features)
    >>> variance.round(6)
    array([1., 1., 1.])
    """

    continuation: Any = None

    @classmethod
    def of(
        cls, series: FourierSeries, region: Array, kernel: Any = None
    ) -> ContinuedSeries:
        """Return the series with the prior outside of a region (d, 2).

        Parameters
        ----------
        series : FourierSeries
        region : ndarray of shape (d, 2)
            Within one period of the box.
        kernel : sklearn.gaussian_process.kernels.Kernel, default=None
            Stationary covariance, by which correlations fade. None takes the
            correlations of the series up to half a period, tapered to zero at one.
        """
        own = cls(
            series.box,
            series.functions,
            series.spectrum,
            series.n_basis,
            series.remainder,
        )
        if kernel is None:
            waves, power = own._powers()
            fading: Fading = SeriesFading(series.box.period, waves, power)
            fresh, level = series.variance, 0.0
        else:
            # a constant that the basis does not have fades with the rest
            level = 0.0 if own._constant is None else constant_variance(kernel)
            fading = KernelFading(kernel, level)
            # the series may have more, where lengthscales are long for the box
            fresh = float(kernel.diag(np.zeros((1, len(region))))[0]) - level
        return replace(
            own, continuation=Continuation(region, fading, max(fresh, 0.0), level)
        )

    def __call__(self, X: Array) -> Array:
        """Features ``√λ_j φ_j(X)``, shape (n, m)."""
        E, rho = self.continuation.place(X)
        return self._with_level(rho[:, np.newaxis] * super().__call__(E), rho)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance that the basis leaves over, shape (n,)."""
        E, rho = self.continuation.place(X)
        inside = rho**2 * super().residual_variance(E, features)
        level = (1.0 - rho) ** 2 * self._level_residual
        variance: Array = inside + level + (1.0 - rho**2) * self.continuation.fresh
        return variance

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        outside = FeatureMarginals(self, weights)
        if not isinstance(weights, GaussianWeights) or weights.shape[1] > 1:
            return outside
        return ContinuedMarginals(self._inside.marginals(weights), outside)

    def process_at(self, weights: GaussianWeights, X: Array) -> FiniteProcess:
        """Process in which rows X (p, d) are observed.

        Raises
        ------
        ValueError
            If a row is outside: what is learned there has no place in this basis.
        """
        if len(self.continuation.outside(X)):
            raise ValueError(
                "A model on Fourier functions can only be conditioned on rows of its "
                f"region {self.continuation.region.tolist()}. Fit with a wider "
                "`domain`, or condition its draws, which can be observed anywhere."
            )
        return FiniteProcess.of_weights(self._inside, weights)

    @property
    def n_functions(self) -> int:
        """Functions of a draw: of the series, of q, and the rest of the constant."""
        return len(self.spectrum) + self._independent.n_basis + 1

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of, (n, `n_functions`)."""
        E, rho = self.continuation.place(X)
        inside = self._with_level(rho[:, np.newaxis] * super().all_features(E), rho)
        outside = rest(rho)[:, np.newaxis] * self._independent(X)
        level = np.sqrt(self._level_residual) * (1.0 - rho[:, np.newaxis])
        return np.concatenate((inside, outside, level), axis=1)

    def all_terms(self, weights: Array) -> tuple[LinearTerm, ...]:
        """Terms of the functions with whitened weights of all, see `all_features`."""
        J, level = len(self.spectrum), np.sqrt(self._level_residual) * weights[-1:]
        if self._level_weight > 0.0:
            level = level + self._level_weight * weights[self._constant]
        (edge,) = super().all_terms(weights[:J])
        (prior,) = self._independent.all_terms(weights[J:-1])
        parts = edge.weights, prior.weights, np.concatenate((level, 0.0 * level))
        return tuple(map(LinearTerm, self._parts, parts))

    @cached_property
    def _parts(self) -> tuple[FadingFeatures, ...]:
        # one object each: terms of the same feature map are evaluated as one
        zero = BoxFourierFeatures(self.box, np.zeros((1, len(self.box.period)), int))
        waves = self._all_waves[0], self._independent._all_waves[0], zero
        names = "edge", "prior", "level"
        return tuple(
            FadingFeatures(one, self.continuation, name)
            for one, name in zip(waves, names, strict=True)
        )

    def _with_level(self, features: Array, rho: Array) -> Array:
        """Add ``(1 - ρ) E(c | w)`` to features that have the constant function."""
        if self._level_weight > 0.0:
            features[:, self._constant] += (1.0 - rho) * self._level_weight
        return features

    @property
    def _inside(self) -> FourierSeries:
        parts = self.box, self.functions, self.spectrum, self.n_basis, self.remainder
        return FourierSeries(*parts)

    @cached_property
    def _constant(self) -> int | None:
        """Which function of the basis is the constant."""
        places = np.flatnonzero(~self.index.waves.any(axis=1))
        return int(places[0]) if len(places) else None

    @property
    def _level_weight(self) -> float:
        """Weight of the constant function in ``E(c | w)``: ``var c / √λ``."""
        level = self.continuation.level
        return level / float(np.sqrt(self.spectrum[self._constant])) if level else 0.0

    @property
    def _level_residual(self) -> float:
        """Variance of ``c`` given the weights."""
        return max(self.continuation.level - self._level_weight**2, 0.0)

    def _powers(self) -> tuple[Integers, Array]:
        """Distinct waves, and the prior variance of sine and cosine of each."""
        waves, place = self.functions.distinct()
        power = np.bincount(place, self.spectrum, len(waves)).astype(np.float64)
        return waves, power

    @cached_property
    def _independent(self) -> FourierSeries:
        """Stationary prior without its constant part, as a basis of all functions."""
        waves, power = self._powers()
        varies = waves.any(axis=1)
        level, fresh = self.continuation.level, self.continuation.fresh
        power[~varies] = np.maximum(power[~varies] - level, 0.0)
        power *= fresh / max(float(power.sum()), np.finfo(float).tiny)
        both = np.concatenate((waves[~varies], waves[varies], waves[varies]))
        half = 0.5 * power[varies]
        spectrum = np.concatenate((power[~varies], half, half))
        index = FourierIndex(
            both, np.arange(len(both)) >= len(waves), np.ones(len(both))
        )
        return FourierSeries(self.box, index, spectrum, len(both))
