"""Predictive distributions of y at given rows, which all predictions are read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from skgpx._latent import FunctionModel, MixtureModel
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._numerics.crps import LEVELS, continuous_crps, normal_crps
from skgpx._numerics.mixture import LatentMixture
from skgpx._parallel import blas_jobs, on_cluster, parallel_stream
from skgpx._validation import (
    check_count,
    check_coverage,
    check_levels,
    codes_of_grades,
    generator,
    row_blocks,
    working_floats,
)
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Floats per row that the predictive functionals of a likelihood need, for any model.
_PER_ROW = 1500
# Normal quantiles and weights at which functions of a transformed target are averaged.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_KEPT = np.abs(_NODES) < 8.0
_NODES, _NODE_WEIGHTS = _NODES[_KEPT], _NODE_WEIGHTS[_KEPT] / _NODE_WEIGHTS[_KEPT].sum()


class Predictive(OneBlasThread):
    """Distribution of the observation at each of some rows, evaluated on request.

    Subclasses give `mean`, `variance` and `sample`, and of checked arguments
    `_quantiles(levels)`, `_cdf(y)` at several y of each row, (n_rows, k), and
    `_log_density(y)`.

    Attributes
    ----------
    n_rows : int
        Also ``len(distribution)``.
    discrete : bool
        Whether y takes integer values only.
    """

    n_rows: int
    discrete: bool = False

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_rows={self.n_rows})"

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        raise NotImplementedError

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise that of ``E[y | f(x)]``.

        Raises
        ------
        ValueError
            Without noise, if only the distribution of observations is known: of other
            libraries' regressors, transformed targets and calibrated variances.
        """
        raise NotImplementedError

    def std(self, include_noise: bool = True) -> Array:
        """Square root of :meth:`variance`, in the units of y."""
        return np.sqrt(self.variance(include_noise))

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of y.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Levels strictly between 0 and 1.

        Returns
        -------
        values : ndarray of shape (n_rows,), or (n_rows, k) for several levels
        """
        levels = check_levels(q, "q")
        values = self._quantiles(np.atleast_1d(levels))
        return values[..., 0] if levels.ndim == 0 else values

    def interval(self, coverage: float = 0.9) -> Array:
        """Central interval of y.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability of the interval, in (0, 1).

        Returns
        -------
        bounds : ndarray of shape (n_rows, 2)
        """
        tail = 0.5 * (1.0 - check_coverage(coverage))
        return self.quantile((tail, 1.0 - tail))

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row.

        Parameters
        ----------
        y : float or array-like of shape (n_rows,)

        Returns
        -------
        probability : ndarray of shape (n_rows,)
            At the targets, uniform if the distribution is right and continuous.
        """
        return self._cdf(self.targets(y)[:, np.newaxis])[:, 0]

    def log_density(self, y: ArrayLike) -> Array:
        """Log density (log probability of counts) at each row, in nats.

        Parameters
        ----------
        y : float or array-like of shape (n_rows,)

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            In the units of y.
        """
        return self._log_density(self.targets(y))

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of each row, smaller being better.

        Parameters
        ----------
        y : float or array-like of shape (n_rows,)

        Returns
        -------
        score : ndarray of shape (n_rows,)
            ``∫ (P(Y <= z) - 1{y <= z})² dz``, in the units of y; the absolute error
            where the distribution is a point.
        """
        return self._crps(self.targets(y))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations, jointly over the rows.

        Parameters
        ----------
        n_samples : int, default=1
            Draws per row.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None uses that of the estimator.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples)
        """
        raise NotImplementedError

    def targets(self, y: ArrayLike) -> Array:
        """Targets as an array (n_rows,).

        Raises
        ------
        ValueError
            If they have another shape.
        """
        array = np.asarray(y, dtype=np.float64)
        if array.shape not in ((), (self.n_rows,)):
            raise ValueError(
                f"y must have shape ({self.n_rows},), one target for each row of X; "
                f"got {array.shape}."
            )
        return np.broadcast_to(array, (self.n_rows,))

    def _quantiles(self, levels: Array) -> Array:
        raise NotImplementedError

    def _cdf(self, y: Array) -> Array:
        raise NotImplementedError

    def _log_density(self, y: Array) -> Array:
        raise NotImplementedError

    def _crps(self, y: Array) -> Array:
        return continuous_crps(y, self._cdf, self.quantile(LEVELS))


class PredictiveDistribution(Predictive):
    """Likelihood averaged over the posterior of a latent model.

    ``model.predict_dist(X)`` returns this object. It keeps the posterior and the rows,
    not their predictions, which are computed on request, in blocks of rows within
    scikit-learn's ``working_memory``. A later `fit` of the model does not change it.

    Parameters
    ----------
    posterior : FunctionModel or MixtureModel
        In the units of y.
    likelihood : Likelihood
    X : ndarray of shape (n_rows, n_features)
        Checked.
    known : ndarray of shape (n_rows,) or None, default=None
        Exposures, or variances of the noise in units of the likelihood's. For several
        targets, outputs of the posterior beyond those of the likelihood, the variances
        (n_rows, n_targets); all results then have an axis of targets after the rows.
    random_state : int, RandomState, Generator or None, default=None
        Seed of :meth:`sample` if that is given none.
    n_jobs : int or None, default=None
        Workers over blocks of rows; the same bits for every number. None is the number
        of ``joblib.parallel_config``, otherwise as many threads as BLAS uses and the
        working memory has room for.
    target : int or None, default=None
        Which of several targets this distribution describes.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SpectralVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 6.0, size=(500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> distribution = SpectralVGPRegressor().fit(X, y).predict_dist([[1.5], [3.0]])
    >>> distribution.mean().shape, distribution.interval(0.9).shape
    ((2,), (2, 2))
    >>> bool(distribution.cdf([0.0, 0.0])[0] < 1e-6)
    True
    >>> distribution.sample(3, random_state=0).shape
    (2, 3)
    """

    def __init__(
        self,
        posterior: FunctionModel | MixtureModel,
        likelihood: Likelihood,
        X: Array,
        known: Array | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        target: int | None = None,
    ):
        self.posterior, self.likelihood, self.target = posterior, likelihood, target
        self.X, self.known = X, known
        self.random_state, self.n_jobs = random_state, n_jobs
        self.n_rows, self.discrete = len(X), likelihood.discrete
        several = posterior.n_outputs // likelihood.n_outputs_
        self.n_targets = several if target is None else 1

    def _of_targets(self) -> list[PredictiveDistribution]:
        """Distribution of each target, where there are several."""
        known: Any = self.known
        model, how = (self.posterior, self.likelihood, self.X), self.random_state
        return [
            PredictiveDistribution(*model, noise, how, self.n_jobs, j)
            for j, noise in enumerate(known.T)
        ]

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self.stream(lambda likelihood, f: likelihood.predictive_mean(f))

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise that of ``E[y | f(x)]``."""
        return self.moments(include_noise)[1]

    def moments(self, include_noise: bool = True) -> tuple[Array, Array]:
        """Mean and variance, in one pass over the rows."""

        def both(likelihood: Any, f: LatentMixture) -> Array:
            if include_noise:
                return np.column_stack(likelihood.predictive_moments(f))
            variance = likelihood.predictive_mean_variance(f)
            return np.column_stack((likelihood.predictive_mean(f), variance))

        pairs = self.stream(both)
        return pairs[..., 0].copy(), pairs[..., 1].copy()

    def covariance(self, include_noise: bool = True) -> Array:
        """Covariance of y between the rows, shape (n_rows, n_rows).

        Raises
        ------
        ValueError
            If the mean of y is not the latent function.
        """
        likelihood = self.likelihood
        if not likelihood.location_scale:
            raise ValueError(
                "return_cov needs a likelihood whose mean is the latent function; got "
                f"{likelihood!r}. Use return_std, or the covariance of sample_y."
            )
        if self.n_targets > 1:
            each = [one.covariance(include_noise) for one in self._of_targets()]
            return np.stack(each, axis=2)
        covariance = self.posterior.covariance(self.X, self.target or 0)
        if include_noise:
            zeros = np.zeros((self.n_rows, 1))
            noise = self._likelihood_of(slice(None)).variance(zeros)[:, 0]
            covariance[np.diag_indices_from(covariance)] += noise
        return covariance

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples); O(n_rows)."""
        n_samples = check_count(n_samples, "n_samples")
        rng = generator(self.random_state if random_state is None else random_state)
        draws = self.posterior.draw(n_samples, rng)
        parts = []
        for rows in self.blocks():
            latent = draws.values(self.X[rows])
            latent = latent if self.target is None else latent[:, [self.target]]
            shape = latent.shape if self.n_targets > 1 else (len(latent), n_samples)
            if self.likelihood.n_outputs_ == 1:
                latent = latent.reshape(-1, n_samples)
            parts.append(self._likelihood_of(rows).sample(latent, rng).reshape(shape))
        return np.concatenate(parts)

    def stream(self, function: Callable[..., Array], *rest: Array) -> Array:
        """Concatenate ``function(likelihood, latent, *rest)`` over blocks of rows."""
        blocks, cost = self.blocks(), self._floats_per_row()
        items = (
            (self._likelihood_of(rows), self.X[rows], *(a[rows] for a in rest))
            for rows in blocks
        )
        model = function, self.posterior, self.target
        if len(blocks) == 1:
            return _of_block(*model, *next(items))
        room = working_floats() // (cost * (blocks[0].stop - blocks[0].start))
        jobs = blas_jobs(self.n_jobs, room)
        # a block takes less time than sending it to a process of this machine
        parts = parallel_stream(
            _of_block,
            items,
            jobs,
            *model,
            in_threads=not on_cluster(),
        )
        return np.concatenate(list(parts))

    def targets(self, y: ArrayLike) -> Array:
        """Targets as an array (n_rows,), categories as their codes."""
        return super().targets(codes_of_grades(self.likelihood, y))

    def blocks(self) -> list[slice]:
        """Blocks of rows whose predictions fit in scikit-learn's working memory."""
        return list(row_blocks(self.n_rows, self._floats_per_row()))

    def _floats_per_row(self) -> int:
        return self.posterior.floats_per_row + _PER_ROW * self.n_targets

    def _likelihood_of(self, rows: slice) -> Any:
        if self.known is None:
            return self.likelihood
        return self.likelihood.at_rows(self.known[rows].ravel())

    def _quantiles(self, levels: Array) -> Array:
        return self.stream(
            lambda likelihood, f: likelihood.predictive_quantile(levels, f)
        )

    def _cdf(self, y: Array) -> Array:
        def columns(likelihood: Any, f: LatentMixture, t: Array) -> Array:
            return np.stack([likelihood.predictive_cdf(one, f) for one in t.T], axis=1)

        return self.stream(columns, y)

    def _log_density(self, y: Array) -> Array:
        self._likelihood_of(slice(None)).check_support(y)
        return self.stream(
            lambda likelihood, f, t: likelihood.predictive_log_density(t, f),
            y,
        )

    def _crps(self, y: Array) -> Array:
        self._likelihood_of(slice(None)).check_support(y)
        return self.stream(lambda likelihood, f, t: likelihood.predictive_crps(t, f), y)


def _of_block(
    function: Callable[..., Array],
    posterior: Any,
    target: int | None,
    likelihood: Any,
    X: Array,
    *rest: Array,
) -> Array:
    latent = posterior.marginals(X)
    n, c, s = latent.mean.shape
    if c == likelihood.n_outputs_:
        return function(likelihood, latent, *rest)
    mean, variance = np.broadcast_arrays(latent.mean, latent.variance)
    if target is not None:
        one = mean[:, [target]], variance[:, [target]], latent.weights
        return function(likelihood, LatentMixture(*one), *rest)
    # each target of a row is a row of its own, with its noise
    mean, variance = mean.reshape(n * c, 1, s), variance.reshape(n * c, 1, s)
    rest = tuple(a.reshape(n * c, *a.shape[2:]) for a in rest)
    values = function(likelihood, LatentMixture(mean, variance, latent.weights), *rest)
    return values.reshape(n, c, *values.shape[1:])


class NormalDistribution(Predictive):
    """Normal distributions with given moments.

    Parameters
    ----------
    mean, std : ndarray of shape (n_rows,)
        Of y, noise included.
    sampler : callable or None, default=None
        ``sampler(n_samples, random_state)`` draws jointly over the rows; None is for
        rows that are independent.
    """

    def __init__(
        self,
        mean: Array,
        std: Array,
        sampler: Callable[[int, Any], NDArray[Any]] | None = None,
    ):
        self._mean, self._std, self._sampler = mean, std, sampler
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included."""
        _check_noise(include_noise)
        return self._std**2

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations, (n_rows, n_samples)."""
        n_samples = check_count(n_samples, "n_samples")
        if self._sampler is not None:
            return self._sampler(n_samples, random_state)
        noise = generator(random_state).standard_normal((self.n_rows, n_samples))
        drawn: Array = self._mean[:, np.newaxis] + self._std[:, np.newaxis] * noise
        return drawn

    def _quantiles(self, levels: Array) -> Array:
        values: Array = self._mean[:, np.newaxis]
        return values + self._std[:, np.newaxis] * ndtri(levels)

    def _cdf(self, y: Array) -> Array:
        self._check_positive()
        scaled = (y - self._mean[:, np.newaxis]) / self._std[:, np.newaxis]
        return np.asarray(ndtr(scaled))

    def _log_density(self, y: Array) -> Array:
        self._check_positive()
        square = ((y - self._mean) / self._std) ** 2
        return -0.5 * square - np.log(self._std) - 0.5 * np.log(2.0 * np.pi)

    def _crps(self, y: Array) -> Array:
        return normal_crps(y, self._mean, self._std)

    def _check_positive(self) -> None:
        if not np.all(self._std > 0.0):
            raise ValueError(
                f"The standard deviation is zero at {int(np.sum(self._std <= 0.0))} "
                "rows, where there is no density. Add a WhiteKernel to the kernel, so "
                "that y has noise."
            )


def normal_distribution(
    estimator: Any,
    X: Any,
) -> NormalDistribution | list[NormalDistribution]:
    """Normal distribution with the moments that a regressor predicts, one a target."""
    mean, std = (np.asarray(a) for a in estimator.predict(X, return_std=True))
    if mean.ndim == 1:
        return NormalDistribution(mean, std, partial(_sample_y, estimator, X, None))
    return [
        NormalDistribution(mean[:, j], std[:, j], partial(_sample_y, estimator, X, j))
        for j in range(mean.shape[1])
    ]


def _sample_y(
    estimator: Any,
    X: Any,
    target: int | None,
    n_samples: int,
    random_state: Any,
) -> NDArray[Any]:
    if not hasattr(estimator, "sample_y"):
        raise ValueError(
            f"{estimator!r} has no sample_y, hence no joint distribution of its rows. "
            "Draws need a Gaussian process."
        )
    seed = () if random_state is None else (random_state,)
    y: NDArray[Any] = estimator.sample_y(X, n_samples, *seed)
    return y if target is None else y[:, target]


class RescaledDistribution(Predictive):
    """Distribution of ``m + s (Y - m)``: another, stretched about its mean m.

    Parameters
    ----------
    inner : Predictive
        Of Y, continuous.
    mean : ndarray of shape (n_rows,)
        m.
    factor : ndarray of shape (n_rows,)
        s, positive.
    """

    def __init__(self, inner: Predictive, mean: Array, factor: Array):
        self.inner, self._mean, self._factor = inner, mean, factor
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included."""
        _check_noise(include_noise)
        return self._factor**2 * self.inner.variance()

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        return self._stretched(self.inner.sample(n_samples, random_state))

    def _quantiles(self, levels: Array) -> Array:
        return self._stretched(self.inner._quantiles(levels))

    def _cdf(self, y: Array) -> Array:
        return self.inner._cdf(self._stretched(y, -1))

    def _log_density(self, y: Array) -> Array:
        before = self._stretched(y[:, np.newaxis], -1)[:, 0]
        return self.inner._log_density(before) - np.log(self._factor)

    def _stretched(self, values: Array, power: int = 1) -> Array:
        centre, factor = self._mean[:, np.newaxis], self._factor[:, np.newaxis]
        stretched: Array = centre + factor**power * (values - centre)
        return stretched


class TransformedDistribution(Predictive):
    """Distribution of ``inverse(z)`` for a predictive distribution of z.

    Quantiles, distribution function and samples are transformed; the moments are
    averages over quantiles of z (Gauss-Hermite: exact to many digits where both are
    smooth), the density has a difference quotient of `inverse`. Quantiles, distribution
    function and density raise a ValueError where `inverse` turns within four standard
    deviations of the distributions of z.

    Parameters
    ----------
    inner : Predictive
        Of z.
    forward, inverse : callable
        From y to z and from z to y, elementwise on arrays of shape (n,); monotone.
    """

    def __init__(
        self,
        inner: Predictive,
        forward: Callable[[Array], Array],
        inverse: Callable[[Array], Array],
    ):
        self.inner, self.forward, self.inverse = inner, forward, inverse
        self.n_rows = len(inner)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._back(self.inner.quantile(ndtr(_NODES))) @ _NODE_WEIGHTS

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included."""
        _check_noise(include_noise)
        values = self._back(self.inner.quantile(ndtr(_NODES)))
        centred = values - (values @ _NODE_WEIGHTS)[:, np.newaxis]
        return centred**2 @ _NODE_WEIGHTS

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        return self._back(self.inner.sample(n_samples, random_state))

    def _quantiles(self, levels: Array) -> Array:
        return self._back(
            self.inner._quantiles(levels if self._increasing else 1.0 - levels)
        )

    def _cdf(self, y: Array) -> Array:
        z, inside = self._before(y)
        below = self.inner._cdf(z)
        rising = below if self._increasing else 1.0 - below
        # all or nothing beyond the range of Y
        return np.where(inside, rising, y > self._back(self._centre))

    def _log_density(self, y: Array) -> Array:
        _ = self._increasing
        z, inside = (a[:, 0] for a in self._before(y[:, np.newaxis]))
        # d y / d z, with steps in proportion to the standard deviation of z
        step = np.maximum(1e-5 * self.inner.std(), 1e-10 * np.abs(z))
        rise = self.inverse(z + step) - self.inverse(z - step)
        with np.errstate(divide="ignore"):
            slope = np.log(np.abs(rise / (2.0 * step)))
        return np.where(inside, self.inner._log_density(z) - slope, -np.inf)

    def _before(self, y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """``forward(y)``, or the median of z where there is none; where there is."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            z = np.asarray(self.forward(y.ravel()), dtype=np.float64).reshape(y.shape)
        inside = np.isfinite(z)
        return np.where(inside, z, self._centre), inside

    def _back(self, z: Array) -> Array:
        return self.inverse(z.ravel()).reshape(z.shape)

    @cached_property
    def _centre(self) -> Array:
        return self.inner.quantile(0.5)[:, np.newaxis]

    @cached_property
    def _increasing(self) -> bool:
        """Whether `inverse` increases, tried on a grid.

        Raises
        ------
        ValueError
            If it neither increases nor decreases.
        """
        mean, std = self.inner.mean(), self.inner.std()
        grid = np.linspace(np.min(mean - 4.0 * std), np.max(mean + 4.0 * std), 201)
        steps = np.diff(self.inverse(grid))
        if (down := bool(np.any(steps < 0.0))) and np.any(steps > 0.0):
            raise ValueError(
                "The distribution of a transformed target needs a monotone inverse; "
                f"got one that turns between {grid[0]:.3g} and {grid[-1]:.3g}. Use a "
                "monotone transformation, or `sample`."
            )
        return not down


class JoinedDistribution(Predictive):
    """Distribution of rows that come in parts, such as those of the folds of a split.

    Parameters
    ----------
    parts : sequence of Predictive
    positions : sequence of ndarray of int
        Where the rows of each part are among all rows; each row once.
    """

    def __init__(
        self,
        parts: Sequence[Predictive],
        positions: Sequence[NDArray[np.intp]],
    ):
        self.parts, self.positions = tuple(parts), tuple(positions)
        self.n_rows = sum(len(part) for part in self.parts)
        self.discrete = any(part.discrete for part in self.parts)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._joined(lambda part: part.mean())

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise that of ``E[y | f(x)]``."""
        return self._joined(lambda part: part.variance(include_noise))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations, (n_rows, n_samples), jointly within each part.

        Without a seed, each part takes that of its estimator.
        """
        if random_state is None:
            return self._joined(lambda part: part.sample(n_samples))
        rng = generator(random_state)
        return self._joined(
            lambda part: part.sample(n_samples, int(rng.spawn(1)[0].integers(2**31)))
        )

    def _joined(self, function: Callable[..., Any], *of_rows: Array) -> NDArray[Any]:
        """``function(part, *of_rows)`` of all parts, in the order of all rows."""
        order = np.argsort(np.concatenate(self.positions))
        values = [
            function(part, *(values[rows] for values in of_rows))
            for part, rows in zip(self.parts, self.positions, strict=True)
        ]
        joined: NDArray[Any] = np.concatenate(values)[order]
        return joined

    def _quantiles(self, levels: Array) -> Array:
        return self._joined(lambda part: part._quantiles(levels))

    def _cdf(self, y: Array) -> Array:
        return self._joined(lambda part, t: part._cdf(t), y)

    def _log_density(self, y: Array) -> Array:
        return self._joined(lambda part, t: part._log_density(t), y)

    def _crps(self, y: Array) -> Array:
        return self._joined(lambda part, t: part._crps(t), y)


def _check_noise(include_noise: bool) -> None:
    if not include_noise:
        raise ValueError(
            "Only the distribution of observations is known here, in which the noise "
            "cannot be separated from the function; got include_noise=False."
        )
