"""Fourier functions on a box, continued to a bounded domain and fading beyond the data.

With ``e`` the point of a region nearest to ``x``, ``ρ(x)`` a correlation that falls
from one at the edge of the region, and ``q`` an independent draw of the prior::

    f(x) = ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)

``c`` is the constant part of the prior, if it has one, which does not fade; ``q`` is of
the rest. f is continuous at the edge, and far away it is c plus a draw of the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FiniteProcess, FunctionDraws, LinearTerm, Term
from skgpx._numerics.fourier_gram import combination, evaluate
from skgpx._numerics.fourier_index import FourierIndex
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx.bases._fading import Fading, KernelFading, SeriesFading, constant_variance
from skgpx.bases._fourier_series import (
    BoxFourierFeatures,
    FourierSeries,
    SeriesMarginals,
)
from skgpx.bases._kernel_basis import Marginals

# ---- What a series on a box is continued by where its functions only repeat ----------


Array = NDArray[np.float64]
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

    def nearest(self, X: Array) -> Array:
        """Points of the region nearest to the rows of X."""
        return np.clip(X, *self.region.T)

    def place(self, X: Array) -> tuple[Array, Array]:
        """Nearest points E (n, d), and the correlations ρ (n,); one inside."""
        E = self.nearest(X)
        rho, rows = np.ones(len(X)), self.outside(X)
        if len(rows):
            rho[rows] = self.fading.values(X[rows] - E[rows])
        return E, rho

    def slopes(self, X: Array) -> Array:
        """Gradients of ρ, shape (n, d)."""
        steps = X - self.nearest(X)
        # e moves with x along the sides of the region
        slopes: Array = np.where(steps == 0.0, 0.0, self.fading.slopes(steps))
        return slopes


class _OfRegion:
    """Features of the inputs of a region."""

    continuation: Continuation

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.continuation.region)


@dataclass(frozen=True)
class ContinuedFeatures(_OfRegion):
    """``ρ(x) φ(e(x))``: features of the region, fading outside of it."""

    features: BoxFourierFeatures
    continuation: Continuation

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        E, rho = self.continuation.place(X)
        values: Array = rho[:, np.newaxis] * self.features(E)
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        rows = self.continuation.outside(X)
        if not len(rows):
            self.features.contract(X, weights, out)
            return
        kept = np.setdiff1d(np.arange(len(X)), rows, assume_unique=True)
        inside = out[kept]
        self.features.contract(X[kept], weights, inside)
        out[kept] = inside
        E, rho = self.continuation.place(X[rows])
        beyond = np.zeros((len(rows), out.shape[1]))
        self.features.contract(E, weights, beyond)
        out[rows] += rho[:, np.newaxis] * beyond

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        E, rho = self.continuation.place(X)
        values, slopes = self.features.pairs(E, weights, index)
        slopes = np.where(E == X, rho[:, np.newaxis] * slopes, 0.0)
        rows = self.continuation.outside(X)
        if len(rows):
            fall = self.continuation.slopes(X[rows])
            slopes[rows] += values[rows, np.newaxis] * fall
        return rho * values, slopes


@dataclass(frozen=True)
class PriorFeatures(_OfRegion):
    """``√(1 - ρ²) φ(x)``: features of the independent prior, zero inside."""

    features: BoxFourierFeatures
    continuation: Continuation

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        _, rho = self.continuation.place(X)
        values: Array = rest(rho)[:, np.newaxis] * self.features(self._wrapped(X))
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        rows = self.continuation.outside(X)
        if not len(rows):
            return
        _, rho = self.continuation.place(X[rows])
        part = np.zeros((len(rows), out.shape[1]))
        self.features.contract(self._wrapped(X[rows]), weights, part)
        out[rows] += rest(rho)[:, np.newaxis] * part

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        values, slopes = np.zeros(len(X)), np.zeros(X.shape)
        rows = self.continuation.outside(X)
        if not len(rows):
            return values, slopes
        _, rho = self.continuation.place(X[rows])
        f, g = self.features.pairs(self._wrapped(X[rows]), weights, index[rows])
        factor = rest(rho)
        values[rows] = factor * f
        # d√(1 - ρ²) = -ρ dρ / √(1 - ρ²)
        zeros = np.zeros_like(factor)
        bend = np.divide(-rho * f, factor, out=zeros, where=factor > 0.0)
        fall = self.continuation.slopes(X[rows])
        slopes[rows] = factor[:, np.newaxis] * g + bend[:, np.newaxis] * fall
        return values, slopes

    def _wrapped(self, X: Array) -> Array:
        """The same places of the box, within it: phases keep their digits."""
        box = self.features.box
        turns = box.turns(X)
        wrapped: Array = box.origin + (turns - np.floor(turns)) * box.period
        return wrapped


@dataclass(frozen=True)
class LevelFeatures(_OfRegion):
    """``1 - ρ(x)``: the feature of the constant part, zero inside."""

    continuation: Continuation

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 1)."""
        _, rho = self.continuation.place(X)
        return 1.0 - rho[:, np.newaxis]

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        one = weights[index, 0]
        rows, slopes = self.continuation.outside(X), np.zeros(X.shape)
        if len(rows):
            fall = self.continuation.slopes(X[rows])
            slopes[rows] = -fall * one[rows, np.newaxis]
        return self(X)[:, 0] * one, slopes


def rest(rho: Array) -> Array:
    """Factor of the independent part, ``√(1 - ρ²)``."""
    factor: Array = np.sqrt((1.0 - rho) * (1.0 + rho))
    return factor


# ---- Mean and variance of a series that is continued outside of a region -------------


@dataclass(frozen=True)
class ContinuedMarginals:
    """Mean and variance of ``f(x)`` of a continued series as sums of waves.

    Parameters
    ----------
    basis : BoundedSeries
        With a continuation.
    weights : GaussianWeights
        Distribution of the whitened weights of one output.
    """

    basis: Any
    weights: GaussianWeights

    @cached_property
    def _inside(self) -> SeriesMarginals:
        inside = replace(self.basis, continuation=None, domain=None)
        return SeriesMarginals(inside, self.weights)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance at the rows of X (n, d), each of shape (n, 1, 1)."""
        continuation: Any = self.basis.continuation
        E, rho = continuation.place(X)
        mean, variance = (moment[:, 0, 0] for moment in self._inside(E))
        rows = continuation.outside(X)
        if len(rows):
            mean, variance = mean.copy(), variance.copy()
            self._fade(mean, variance, rows, E[rows], rho[rows])
        shape = (-1, 1, 1)
        return mean.reshape(shape), np.maximum(variance, 0.0).reshape(shape)

    def _fade(
        self, mean: Array, variance: Array, rows: Index, E: Array, r: Array
    ) -> None:
        """Replace the moments at rows outside, r the correlation with the edge E."""
        continuation: Any = self.basis.continuation
        square = r**2
        fresh = continuation.fresh
        level, spread, shared = self._level(E)
        variance[rows] = square * variance[rows] + (1.0 - square) * fresh
        variance[rows] += (1.0 - r) ** 2 * spread + 2.0 * r * (1.0 - r) * shared
        mean[rows] = r * mean[rows] + (1.0 - r) * level

    def _level(self, E: Array) -> tuple[float, float, Any]:
        """Mean and variance of the constant part, and covariances with f at E."""
        basis, weights = self.basis, self.weights
        if not basis._level_weight > 0.0:
            return 0.0, 0.0, 0.0
        i, weight = basis._constant, basis._level_weight
        column = weights.root[0] @ weights.root[0, i]
        spread = weight**2 * float(column[i]) + basis._level_residual
        table = combination(basis.index, np.sqrt(basis.eigenvalues) * column)
        shared = weight * evaluate((table,), basis.box.turns(E))[:, 0]
        return weight * float(weights.mean[i, 0]), spread, shared


# ---- Fourier functions on the part of their box where they do not yet repeat ---------


def check_domain(X: Array, domain: Array) -> None:
    """Raise a ValueError if a row of X (n, d) is outside the domain (d, 2)."""
    if not len(X):
        return
    low, high = X.min(axis=0), X.max(axis=0)
    outside = (low < domain[:, 0]) | (high > domain[:, 1])
    if np.any(outside):
        j = int(np.argmax(outside))
        raise ValueError(
            f"Column {j} must lie in the domain [{domain[j, 0]:.8g}, "
            f"{domain[j, 1]:.8g}] of the Fourier functions, which only repeat beyond "
            f"it; got values between {low[j]:.8g} and {high[j]:.8g}. Fit with a wider "
            '`domain`, or with basis="inducing".'
        )


@dataclass(frozen=True)
class BoundedFeatures:
    """Features that are only evaluated within a domain."""

    features: Any
    domain: Array

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.domain)

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, m)."""
        check_domain(X, self.domain)
        values: Array = self.features(X)
        return values

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        check_domain(X, self.domain)
        self.features.contract(X, weights, out)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        check_domain(X, self.domain)
        pairs: tuple[Array, Array] = self.features.pairs(X, weights, index)
        return pairs


@dataclass(frozen=True)
class BoundedSeries(FourierSeries):
    """`FourierSeries` on the part of its box where it stands for the process.

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
    domain : ndarray of shape (d, 2), default=None
        Lower and upper end of each input; to be given.
    continuation : Continuation or None, default=None
        What the process is outside of a region; see :meth:`continued`. None refuses:
        outside of the domain the features, and the functions drawn, raise a
        ValueError.

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
    >>> from skgpx.bases import BoundedSeries, Box, KernelEigenvalues
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> rule = KernelEigenvalues(RBF(0.1))
    >>> series = BoundedSeries.from_rule(rule, box, 31)
    >>> series = series.continued(np.array([[0.0, 0.6]]), rule.kernel)
    >>> X = np.array([[0.6], [0.7], [9.0]])
    >>> features = series(X)
    >>> np.sum(features**2, axis=1).round(3)
    array([1.   , 0.368, 0.   ])
    >>> variance = np.sum(features**2, axis=1) + series.residual_variance(X, features)
    >>> variance.round(6)
    array([1., 1., 1.])
    """

    domain: Array | None = None
    continuation: Continuation | None = None

    def continued(self, region: Array, kernel: Any = None) -> BoundedSeries:
        """Return the series with the prior outside of a region (d, 2).

        Parameters
        ----------
        region : ndarray of shape (d, 2)
            Within one period of the box.
        kernel : sklearn.gaussian_process.kernels.Kernel, default=None
            Stationary covariance, which says how correlations fade. None takes the
            correlations of the series up to half a period, tapered to zero at one.
        """
        if kernel is None:
            prior = self._stationary(0.0)
            waves, place = prior.functions.distinct()
            power = np.zeros(len(waves))
            np.add.at(power, place, prior.spectrum)
            series = SeriesFading(self.box.period, waves, power)
            return replace(
                self, continuation=Continuation(region, series, self.variance)
            )
        # a constant that the basis does not have fades with the rest
        level = 0.0 if self._constant is None else constant_variance(kernel)
        fading = KernelFading(kernel, level)
        # the series may have more, where lengthscales are long for the box
        fresh = float(kernel.diag(np.zeros((1, len(region))))[0]) - level
        return replace(
            self, continuation=Continuation(region, fading, max(fresh, 0.0), level)
        )

    def check(self, X: Array) -> None:
        """Raise a ValueError if a row of X cannot be answered."""
        if self.domain is not None and self.continuation is None:
            check_domain(X, self.domain)

    def __call__(self, X: Array) -> Array:
        """Features ``√λ_j φ_j(X)``, shape (n, m)."""
        self.check(X)
        if self.continuation is None:
            return super().__call__(X)
        E, rho = self.continuation.place(X)
        features = rho[:, np.newaxis] * super().__call__(E)
        if self.continuation.level > 0.0:
            features[:, self._constant] += (1.0 - rho) * self._level_weight
        return features

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance that the basis leaves over, shape (n,)."""
        if self.continuation is None:
            return super().residual_variance(X, features)
        E, rho = self.continuation.place(X)
        square = rho**2
        inside = square * super().residual_variance(E, features)
        fresh = self.continuation.fresh
        level = (1.0 - rho) ** 2 * self._level_residual
        variance: Array = inside + level + (1.0 - square) * fresh
        return variance

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X, shape (n, n).

        O(n^2 J).
        """
        if self.continuation is None:
            return super().residual_covariance(X, features)
        E, rho = self.continuation.place(X)
        covariance = super().residual_covariance(E, features) * np.outer(rho, rho)
        fresh = LevelFeatures(self.continuation)(X)
        covariance += self._level_residual * (fresh @ fresh.T)
        rows = self.continuation.outside(X)
        if len(rows):
            prior = rest(rho[rows])[:, np.newaxis] * self._independent(X[rows])
            covariance[np.ix_(rows, rows)] += prior @ prior.T
        covariance[np.diag_indices(len(X))] = self.residual_variance(X, features)
        return covariance

    def draw(
        self, weights: Array, rng: np.random.Generator, **prior: Any
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with these weights (m, c, s) and a drawn residual."""
        if self.continuation is None:
            return super().draw(weights, rng, **prior)
        m, c, s = weights.shape
        n_rest = len(self.spectrum) - m + self._n_outside
        rest_of_all = rng.standard_normal((n_rest, c, s))
        terms = self.all_terms(np.concatenate((weights, rest_of_all)))
        return FunctionDraws(terms, c, s)

    @property
    def _n_outside(self) -> int:
        """Functions that are zero inside: those of q, and the rest of the level."""
        return self._independent.n_basis + 1

    def process_at(self, weights: GaussianWeights, X: Array) -> FiniteProcess:
        """Process of the functions inside, in which rows X (p, d) are observed.

        Raises
        ------
        ValueError
            If a row is outside: what is learned there has no place in this basis.
        """
        if self.continuation is not None and len(self.continuation.outside(X)):
            raise ValueError(
                "A model on Fourier functions can only be conditioned on rows of its "
                f"region {self.continuation.region.tolist()}. Fit with a wider "
                "`domain`, or condition its draws, which can be observed anywhere."
            )
        self.check(X)
        inside = replace(self, continuation=None, domain=None)
        return FiniteProcess.of_weights(inside, weights)

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of: (n, J), and those outside."""
        self.check(X)
        if self.continuation is None:
            return super().all_features(X)
        E, rho = self.continuation.place(X)
        inside = rho[:, np.newaxis] * super().all_features(E)
        away = LevelFeatures(self.continuation)(X)
        if self._level_weight > 0.0:
            inside[:, self._constant] += self._level_weight * away[:, 0]
        outside = rest(rho)[:, np.newaxis] * self._independent(X)
        level = np.sqrt(self._level_residual) * away
        return np.concatenate((inside, outside, level), axis=1)

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with whitened weights of all, see `all_features`."""
        if self.continuation is None:
            return super().all_terms(weights)
        J, n = len(self.spectrum), self._independent.n_basis
        terms = list(self.linear(weights[:J]).terms)
        for term in self._independent.linear(weights[J : J + n]).terms:
            if isinstance(term, LinearTerm):
                terms.append(LinearTerm(self._outside_features, term.weights))
        if self._level_residual > 0.0:
            level = np.sqrt(self._level_residual) * weights[J + n :]
            terms.append(LinearTerm(self._level_features, level))
        return tuple(terms)

    def linear(self, weights: Array) -> FunctionDraws:
        """Functions with given whitened weights of the first functions, (q, c, s)."""
        draws = super().linear(weights)
        if self.domain is None and self.continuation is None:
            return draws
        terms = [
            LinearTerm(self._limited(term.features), term.weights)
            for term in draws.terms
            if isinstance(term, LinearTerm)
        ]
        if self.continuation is not None and self.continuation.level > 0.0:
            level = self._level_weight * weights[self._constant][np.newaxis]
            terms.append(LinearTerm(self._level_features, level))
        return FunctionDraws(tuple(terms), draws.n_outputs, draws.n_draws)

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        marginals = super().marginals(weights)
        if self.continuation is None or not isinstance(marginals, SeriesMarginals):
            return marginals
        return ContinuedMarginals(self, marginals.weights)

    def _limited(self, features: Any) -> Any:
        """Features that fade outside, or refuse."""
        if features is self._all_waves[0]:
            return self._all_limited
        return self._wrapper(features)

    def _wrapper(self, features: Any) -> Any:
        if self.continuation is not None:
            return ContinuedFeatures(features, self.continuation)
        return BoundedFeatures(features, np.asarray(self.domain))

    # one object each: terms of the same feature map are evaluated as one

    @cached_property
    def _all_limited(self) -> Any:
        return self._wrapper(self._all_waves[0])

    @cached_property
    def _outside_features(self) -> PriorFeatures:
        waves = self._independent._all_waves[0]
        return PriorFeatures(waves, _checked(self.continuation))

    @cached_property
    def _level_features(self) -> LevelFeatures:
        return LevelFeatures(_checked(self.continuation))

    @cached_property
    def _constant(self) -> int | None:
        """Which function of the basis is the constant."""
        places = np.flatnonzero(~self.index.waves.any(axis=1))
        return int(places[0]) if len(places) else None

    @property
    def _level_weight(self) -> float:
        """Weight of the constant function in ``E(c | w)``: ``var c / √λ``."""
        level = 0.0 if self.continuation is None else self.continuation.level
        if not level > 0.0:
            return 0.0
        return level / float(np.sqrt(self.spectrum[self._constant]))

    @property
    def _level_residual(self) -> float:
        """Variance of ``c`` given the weights."""
        level = 0.0 if self.continuation is None else self.continuation.level
        return max(level - self._level_weight**2, 0.0)

    @cached_property
    def _independent(self) -> FourierSeries:
        """The prior without its constant part, as a basis of all its functions."""
        if self.continuation is None:
            return self._stationary(0.0)
        prior = self._stationary(self.continuation.level)
        scale = self.continuation.fresh / max(prior.variance, np.finfo(float).tiny)
        return replace(prior, spectrum=scale * prior.spectrum)

    def _stationary(self, level: float) -> FourierSeries:
        """Prior with equal variances of sine and cosine, less a constant's."""
        waves, place = self.functions.distinct()
        power = np.zeros(len(waves))
        np.add.at(power, place, self.spectrum)
        varies = waves.any(axis=1)
        power[~varies] = np.maximum(power[~varies] - level, 0.0)
        total = float(power.sum())
        if total > 0.0:
            power *= (self.variance - level) / total
        both = np.concatenate((waves[~varies], waves[varies], waves[varies]))
        sine = np.arange(len(both)) >= len(waves)
        half = 0.5 * power[varies]
        spectrum = np.concatenate((power[~varies], half, half))
        index = FourierIndex(both, sine, np.ones(len(both)))
        return FourierSeries(self.box, index, spectrum, len(both))


def _checked(continuation: Continuation | None) -> Continuation:
    """The continuation of a series that has one."""
    assert continuation is not None
    return continuation
