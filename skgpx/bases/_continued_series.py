"""Fourier functions on a box, continued by the prior where they only repeat.

With ``e`` the point of a region nearest to ``x``, ``ρ(x)`` a correlation that falls
from one at the edge of the region, and ``q`` an independent draw of the prior::

    f(x) = ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)

``c`` is the constant part of the prior, if it has one, which does not fade; ``q`` is of
the rest. f is continuous at the edge, and far away it is c plus a draw of the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FiniteProcess, KernelFeatures, LinearTerm
from skgpx._numerics.fourier import Box, FourierIndex, Integers
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx.bases._fourier import BoxFourierFeatures, FourierSeries
from skgpx.bases._kernel_basis import Marginals, feature_marginals
from skgpx.kernels import expand

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Continuation:
    """Where a series stands for its process, and how its influence fades outside.

    The correlation ρ at a step from the region is that of the prior without its
    constant part. That of a series is periodic: it is read up to half a period, and
    multiplied by a taper ``(1 - |τ|)₊³ (1 + 3|τ|)`` at τ periods.

    Parameters
    ----------
    region : ndarray of shape (d, 2)
        Lower and upper end of each input.
    covariance : LinearTerm
        Of the prior, as a function of the step; of a series, in periods.
    fresh : float
        Variance of ``q``: that of the prior, without the constant part.
    level : float, default=0.0
        Variance of the constant part ``c`` of the prior. If there is nothing else, all
        correlations are zero.
    period : ndarray of shape (d,), optional
        Of the covariance.
    """

    region: Array
    covariance: LinearTerm
    fresh: float
    level: float = 0.0
    period: Array | None = None

    def outside(self, X: Array) -> Index:
        """Rows of X (n, d) that are not in the region."""
        low, high = self.region.T
        return np.flatnonzero(np.any((low > X) | (high < X), axis=1))

    def place(self, X: Array) -> tuple[Array, Array]:
        """Nearest points E (n, d), and the correlations ρ (n,); one inside."""
        E, rho, rows = np.clip(X, *self.region.T), np.ones(len(X)), self.outside(X)
        rho[rows] = self.correlations(X[rows] - E[rows])
        return E, rho

    def correlations(self, steps: Array) -> Array:
        """ρ at steps (n, d) from the region, shape (n,); one at zero."""
        (at, _, length), values = self._turns(steps), np.zeros((len(steps), 1, 1))
        if self._varies and len(steps):
            self.covariance.add_to(values, at)
            values = (values - self.level) / self.fresh
        found: Array = np.clip(values[:, 0, 0], -1.0, 1.0) * _taper(length)
        return found

    def slopes(self, X: Array) -> Array:
        """Gradients of ρ, shape (n, d).

        Raises
        ------
        ValueError
            If a kernel has no known derivative in its inputs.
        """
        steps = X - np.clip(X, *self.region.T)
        if not self._varies:
            return np.zeros_like(X)
        at, turns, length = self._turns(steps)
        values, slopes = self.covariance.pairs(at, np.zeros(len(X), np.intp))
        # d taper / dτ = -12 (1 - |τ|)² τ
        fall = -12.0 * np.maximum(1.0 - length, 0.0) ** 2
        total = slopes[:, 0] * (np.abs(turns) < 0.5) * _taper(length)[:, np.newaxis]
        total += ((values[:, 0] - self.level) * fall)[:, np.newaxis] * turns
        total /= self.fresh * (1.0 if self.period is None else self.period)
        # e moves with x along the sides of the region
        return np.where(steps == 0.0, 0.0, total)

    @property
    def _varies(self) -> bool:
        return self.fresh > 1e-12 * (self.fresh + self.level)

    def _turns(self, steps: Array) -> tuple[Array, Array, Array]:
        """Where the covariance is read, and steps in periods of the taper; lengths."""
        if self.period is None:
            return steps, np.zeros_like(steps), np.zeros(len(steps))
        turns = np.clip(steps / self.period, -1.0, 1.0)
        return np.clip(turns, -0.5, 0.5), turns, np.linalg.norm(turns, axis=1)


def _taper(length: Array) -> Array:
    """``(1 - r)₊³ (1 + 3 r)``, with two continuous derivatives; one at zero."""
    taper: Array = np.maximum(1.0 - length, 0.0) ** 3 * (1.0 + 3.0 * length)
    return taper


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
class ContinuedSeries(FourierSeries):
    """`FourierSeries` on a region of its box, with the prior outside of it.

    Parameters
    ----------
    box : Box
        Origin and period of each input.
    functions : FourierIndex
        Functions of the basis, then those of the residual.
    spectrum : ndarray of shape (J,)
        Their eigenvalues, as in :class:`FourierSeries`.
    n_basis : int
        Size of the basis.
    remainder : float, default=0.0
        Variance that no function carries (white).
    continuation : Continuation, optional
        Definition of the process outside of a region; see :meth:`of`.

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
        cls,
        series: FourierSeries,
        region: Array,
        kernel: Any = None,
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
        own = cls(*(getattr(series, one.name) for one in fields(FourierSeries)))
        d, level, period = len(region), 0.0, None
        if kernel is None:
            (waves, power), period = own._powers, series.box.period
            fresh = series.variance
            cosines = fresh / np.sum(power) * power
            unit = BoxFourierFeatures(Box(np.zeros(d), np.ones(d)), waves)
            both = np.concatenate((cosines, np.zeros_like(cosines)))
            covariance = LinearTerm(unit, both[:, np.newaxis, np.newaxis])
        else:
            section = KernelFeatures(kernel, np.zeros((1, d)))
            covariance = LinearTerm(section, np.ones((1, 1, 1)))
            # a constant that the basis does not have fades with the rest
            if not own.index.waves.any(axis=1).all():
                level = sum(t.coefficient for t in expand(kernel) if not t.factors)
            # the series may have more, where lengthscales are long for the box
            fresh = max(float(kernel.diag(np.zeros((1, d)))[0]) - level, 0.0)
        return replace(
            own,
            continuation=Continuation(region, covariance, fresh, level, period),
        )

    def __call__(self, X: Array) -> Array:
        """Features ``√λ_j φ_j(X)``, shape (n, m)."""
        E, rho = self.continuation.place(X)
        return self._with_level(rho[:, np.newaxis] * super().__call__(E), rho)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance that the basis leaves over, shape (n,)."""
        E, rho = self.continuation.place(X)
        inside = rho**2 * super().residual_variance(E, features)
        level = (1.0 - rho) ** 2 * self._level[2]
        variance: Array = inside + level + (1.0 - rho**2) * self.continuation.fresh
        return variance

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        outside = feature_marginals(self, weights)
        if not isinstance(weights, GaussianWeights):
            return outside
        inside = self._inside.marginals(weights)

        def moments(X: Array) -> tuple[Array, Array]:
            mean, variance = inside(self.continuation.place(X)[0])
            rows = self.continuation.outside(X)
            if len(rows):
                mean, variance = mean.copy(), variance.copy()
                mean[rows], variance[rows] = outside(X[rows])
            return mean, variance

        return moments

    def process_at(self, weights: GaussianWeights, X: Array) -> FiniteProcess:
        """Process in which rows X (p, d) are observed.

        Raises
        ------
        ValueError
            If a row is outside of the region, where this basis cannot represent it.
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
        level = np.sqrt(self._level[2]) * (1.0 - rho[:, np.newaxis])
        return np.concatenate((inside, outside, level), axis=1)

    def all_terms(self, weights: Array) -> tuple[LinearTerm, ...]:
        """Terms of the functions with whitened weights of all, see `all_features`."""
        J, (place, weight, left) = len(self.spectrum), self._level
        level = np.sqrt(left) * weights[-1:] + weight * weights[place]
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
        place, weight, _ = self._level
        if weight > 0.0:
            features[:, place] += (1.0 - rho) * weight
        return features

    @property
    def _inside(self) -> FourierSeries:
        return FourierSeries(
            *(getattr(self, one.name) for one in fields(FourierSeries))
        )

    @cached_property
    def _level(self) -> tuple[int, float, float]:
        """Which function is the constant, its weight in ``E(c | w)``, ``var(c | w)``.

        The weight is ``var c / √λ``.
        """
        level = self.continuation.level
        if not level:
            return 0, 0.0, 0.0
        place = int(np.argmin(self.index.waves.any(axis=1)))
        weight = level / float(np.sqrt(self.spectrum[place]))
        return place, weight, max(level - weight**2, 0.0)

    @property
    def _powers(self) -> tuple[Integers, Array]:
        """Distinct waves, and the prior variance of sine and cosine of each."""
        waves, place = self.functions.distinct()
        return waves, np.bincount(place, self.spectrum, len(waves)).astype(np.float64)

    @cached_property
    def _independent(self) -> FourierSeries:
        """Stationary prior without its constant part, as a basis of all functions."""
        waves, power = self._powers
        varies = waves.any(axis=1)
        level, fresh = self.continuation.level, self.continuation.fresh
        power[~varies] = np.maximum(power[~varies] - level, 0.0)
        power *= fresh / max(float(power.sum()), np.finfo(float).tiny)
        both = np.concatenate((waves[~varies], waves[varies], waves[varies]))
        half = 0.5 * power[varies]
        spectrum = np.concatenate((power[~varies], half, half))
        index = FourierIndex(
            both,
            np.arange(len(both)) >= len(waves),
            np.ones(len(both)),
        )
        return FourierSeries(self.box, index, spectrum, len(both))
