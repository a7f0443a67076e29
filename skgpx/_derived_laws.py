"""Predictive laws of given moments, rescaled ones, of transformed targets, of folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from skgpx._numerics.crps import normal_crps
from skgpx._predictive_law import Predictive
from skgpx._validation import check_count, generator

Array = NDArray[np.float64]

# Normal quantiles and weights at which functions of a law are averaged.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_KEPT = np.abs(_NODES) < 8.0
_NODES, _NODE_WEIGHTS = _NODES[_KEPT], _NODE_WEIGHTS[_KEPT] / _NODE_WEIGHTS[_KEPT].sum()
# Places at which a transformation is tried for being monotone.
_GRID = 201


class NormalLaw(Predictive):
    """Normal laws of the rows; what derives from it says mean, deviation and draws."""

    @property
    def _moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation (n_rows,)."""
        raise NotImplementedError

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._moments[0]

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        return np.asarray(ndtr(self._standardised(y)))

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        square = self._standardised(y) ** 2
        return -0.5 * square - np.log(self._moments[1]) - 0.5 * np.log(2.0 * np.pi)

    def crps(self, y: ArrayLike) -> Array:
        """CRPS of each row at y, a number or (n_rows,); shape (n_rows,)."""
        return normal_crps(self.targets(y), *self._moments)

    def _standardised(self, y: ArrayLike) -> Array:
        """``(y - mean) / std``.

        Raises
        ------
        ValueError
            If a standard deviation is zero: the law has no density there.
        """
        mean, std = self._moments
        if not np.all(std > 0.0):
            raise ValueError(
                f"The standard deviation is zero at {int(np.sum(std <= 0.0))} rows: a "
                "law without uncertainty has no density. Add a WhiteKernel to the "
                "kernel, so that y has noise."
            )
        return (self.targets(y) - mean) / std

    def _quantiles(self, levels: Array) -> Array:
        mean, std = self._moments
        return mean[:, np.newaxis] + std[:, np.newaxis] * ndtri(levels)


class NormalDistribution(NormalLaw):
    """Normal law with the moments that a regressor predicts.

    Parameters
    ----------
    estimator : estimator
        With ``predict(X, return_std=True)``, and `sample_y` if draws are wanted.
    X : array-like of shape (n_rows, n_features)
    target : int or None, default=None
        Which of several targets; None for one target only.
    """

    def __init__(self, estimator: Any, X: Any, target: int | None = None):
        self.estimator, self.X, self.target = estimator, X, target
        self.n_rows = len(X)

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, as the estimator has it.

        Raises
        ------
        ValueError
            If asked for without noise, which the estimator does not say.
        """
        if not include_noise:
            raise ValueError(
                f"{self.estimator!r} does not tell its noise apart; got "
                "include_noise=False."
            )
        return self._moments[1] ** 2

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples).

        Raises
        ------
        ValueError
            If the estimator has no `sample_y`.
        """
        if not hasattr(self.estimator, "sample_y"):
            raise ValueError(
                f"{self.estimator!r} has no sample_y, hence no law of its rows "
                "together. Draws need a Gaussian process."
            )
        seed = () if random_state is None else (random_state,)
        y: NDArray[Any] = self.estimator.sample_y(self.X, n_samples, *seed)
        return y if self.target is None else y[:, self.target]

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, std = self.estimator.predict(self.X, return_std=True)
        if self.target is not None:
            return np.asarray(mean)[:, self.target], np.asarray(std)[:, self.target]
        if np.ndim(mean) != 1:
            raise ValueError(
                "A predictive distribution is that of one target; got "
                f"{np.shape(mean)[1]} targets. Use predict(X, return_std=True)."
            )
        return mean, std


class NormalMoments(NormalLaw):
    """Independent normal laws with given moments.

    Parameters
    ----------
    mean, variance : ndarray of shape (n_rows,)
        Of y; variances are positive.
    """

    def __init__(self, mean: Array, variance: Array):
        self._mean, self._variance = mean, variance
        self.n_rows = len(mean)

    @property
    def _moments(self) -> tuple[Array, Array]:
        return self._mean, np.sqrt(self._variance)

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,).

        Raises
        ------
        ValueError
            If asked for without noise, of which nothing is known.
        """
        _check_noise(include_noise)
        return self._variance

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations, (n_rows, n_samples), independent between the rows."""
        n_samples = check_count(n_samples, "n_samples")
        noise = generator(random_state).standard_normal((self.n_rows, n_samples))
        mean, std = self._moments
        drawn: Array = mean[:, np.newaxis] + std[:, np.newaxis] * noise
        return drawn


class RescaledDistribution(Predictive):
    """Law of ``m + s (Y - m)``: another, stretched about its mean m.

    Parameters
    ----------
    law : Predictive
        Of Y, continuous.
    mean : ndarray of shape (n_rows,)
        m.
    factor : ndarray of shape (n_rows,)
        s, positive.
    """

    def __init__(self, law: Predictive, mean: Array, factor: Array):
        self.law, self._mean, self._factor = law, mean, factor
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included.

        Raises
        ------
        ValueError
            If asked for without noise.
        """
        _check_noise(include_noise)
        return self._factor**2 * self.law.variance()

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        return self.law.cdf(self._before(y))

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        return self.law.log_density(self._before(y)) - np.log(self._factor)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        return self._after(self.law.sample(n_samples, random_state))

    def _before(self, y: ArrayLike) -> Array:
        before: Array = self._mean + (self.targets(y) - self._mean) / self._factor
        return before

    def _after(self, values: Array) -> Array:
        centre, factor = self._mean[:, np.newaxis], self._factor[:, np.newaxis]
        after: Array = centre + factor * (values - centre)
        return after

    def _quantiles(self, levels: Array) -> Array:
        return self._after(self.law.quantile(levels))


class TransformedDistribution(Predictive):
    """Law of ``inverse(z)`` for a predictive law of z and a monotone `inverse`.

    Quantiles, distribution function and samples are transformed; the moments are
    averages over quantiles of z (Gauss-Hermite: exact to many digits where both are
    smooth), the density has a difference quotient of `forward`. Quantiles, distribution
    function and density raise a ValueError where `inverse` turns within four standard
    deviations of the laws of z.

    Parameters
    ----------
    law : Predictive
        Of z.
    forward, inverse : callable
        From y to z and from z to y, elementwise.
    """

    def __init__(
        self,
        law: Predictive,
        forward: Callable[[Array], Array],
        inverse: Callable[[Array], Array],
    ):
        self.law, self.forward, self.inverse = law, forward, inverse
        self.n_rows = len(law)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._values() @ _NODE_WEIGHTS

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, noise included.

        Raises
        ------
        ValueError
            If asked for without noise.
        """
        if not include_noise:
            raise ValueError(
                "The law of a transformed target has its noise transformed with it; "
                "got include_noise=False."
            )
        values = self._values()
        centred = values - (values @ _NODE_WEIGHTS)[:, np.newaxis]
        return centred**2 @ _NODE_WEIGHTS

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        targets = self.targets(y)
        z, inside = self._before(targets, self._centre)
        return self._turned(self.law.cdf(z), targets, inside, self._centre)

    def cdf_columns(self, y: Array) -> Array:
        """``P(Y <= y)`` at several y of each row, (n_rows, k); shape (n_rows, k)."""
        centre = np.repeat(self._centre, y.shape[1])
        z, inside = self._before(y.ravel(), centre)
        below = self.law.cdf_columns(z.reshape(y.shape))
        return self._turned(below.ravel(), y.ravel(), inside, centre).reshape(y.shape)

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,).

        -inf at what `inverse` maps nothing to.
        """
        _ = self._rises
        z, inside = self._before(self.targets(y), self._centre)
        # d y / d z, with steps of the size of the law of z
        step = np.maximum(1e-5 * self.law.std(), 1e-10 * np.abs(z))
        rise = self.inverse(z + step) - self.inverse(z - step)
        with np.errstate(divide="ignore"):
            slope = np.log(np.abs(rise / (2.0 * step)))
        return np.where(inside, self.law.log_density(z) - slope, -np.inf)

    @cached_property
    def _centre(self) -> Array:
        """Median of z (n_rows,)."""
        return self.law.quantile(0.5)

    def _before(self, y: Array, centre: Array) -> tuple[Array, NDArray[np.bool_]]:
        """``forward(y)``, the centre where there is no such z, and where there is."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            z = np.asarray(self.forward(y), dtype=np.float64)
        inside = np.isfinite(z)
        return np.where(inside, z, centre), inside

    def _turned(
        self, below: Array, y: Array, inside: NDArray[np.bool_], centre: Array
    ) -> Array:
        """Probability of what is below y; all or nothing beyond the range of Y."""
        rising = below if self._rises else 1.0 - below
        return np.where(inside, rising, y > self.inverse(centre))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        z = self.law.sample(n_samples, random_state)
        return self.inverse(z.ravel()).reshape(z.shape)

    def _values(self) -> Array:
        z = self.law.quantile(ndtr(_NODES))
        return self.inverse(z.ravel()).reshape(z.shape)

    @cached_property
    def _rises(self) -> bool:
        """Whether `inverse` increases.

        Raises
        ------
        ValueError
            If it does neither that nor decrease, which takes a grid of its own.
        """
        mean, std = self.law.mean(), self.law.std()
        grid = np.linspace(np.min(mean - 4.0 * std), np.max(mean + 4.0 * std), _GRID)
        steps = np.diff(self.inverse(grid))
        if (down := bool(np.any(steps < 0.0))) and np.any(steps > 0.0):
            raise ValueError(
                "The law of a transformed target needs an inverse that only increases "
                f"or only decreases; got one that turns between {grid[0]:.3g} and "
                f"{grid[-1]:.3g}. Use a monotone transformation, or `sample`."
            )
        return not down

    def _quantiles(self, levels: Array) -> Array:
        asked = levels if self._rises else 1.0 - levels
        z = self.law.quantile(asked)
        return self.inverse(z.ravel()).reshape(z.shape)


class JoinedDistribution(Predictive):
    """Law of rows of which every part has a law of its own, such as those of a fold.

    Parameters
    ----------
    laws : sequence of Predictive
    positions : sequence of ndarray of int
        Where the rows of each law are among all rows; each row once.
    """

    def __init__(
        self, laws: Sequence[Predictive], positions: Sequence[NDArray[np.intp]]
    ):
        self.laws, self.positions = tuple(laws), tuple(positions)
        self.n_rows = sum(len(law) for law in self.laws)
        self.discrete = any(law.discrete for law in self.laws)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._joined([law.mean() for law in self.laws])

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise that of ``E[y | f(x)]``."""
        return self._joined([law.variance(include_noise) for law in self.laws])

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        return self._joined([law.cdf(t) for law, t in self._each(y)])

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        return self._joined([law.log_density(t) for law, t in self._each(y)])

    def crps(self, y: ArrayLike) -> Array:
        """CRPS of each row at y, a number or (n_rows,); shape (n_rows,)."""
        return self._joined([law.crps(t) for law, t in self._each(y)])

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations, (n_rows, n_samples), jointly within each part.

        Without a seed, each part takes that of its estimator.
        """
        if random_state is None:
            return self._joined([law.sample(n_samples) for law in self.laws])
        streams = generator(random_state).spawn(len(self.laws))
        seeds = [int(stream.integers(2**31)) for stream in streams]
        parts = zip(self.laws, seeds, strict=True)
        return self._joined([law.sample(n_samples, seed) for law, seed in parts])

    def _each(self, y: ArrayLike) -> list[tuple[Predictive, Array]]:
        targets = self.targets(y)
        pairs = zip(self.laws, self.positions, strict=True)
        return [(law, targets[rows]) for law, rows in pairs]

    def _joined(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Values of all rows, in their order."""
        order = np.argsort(np.concatenate(self.positions))
        values: NDArray[Any] = np.concatenate(parts)[order]
        return values

    def _quantiles(self, levels: Array) -> Array:
        return self._joined([law._quantiles(levels) for law in self.laws])


def _check_noise(include_noise: bool) -> None:
    if not include_noise:
        raise ValueError(
            "The variance of a tempered law is that of observations: it was chosen by "
            "errors, which have the noise in them; got include_noise=False."
        )
