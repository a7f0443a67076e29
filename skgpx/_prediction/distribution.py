"""Predictive distributions of y at given rows: the source of all predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import RegressorMixin

from skgpx._latent import FunctionModel, MixtureModel
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._numerics.crps import LEVELS, continuous_crps, normal_crps
from skgpx._numerics.mixture import LatentMixture
from skgpx._shell.parallel import blas_jobs, on_cluster, parallel_stream
from skgpx._shell.validation import (
    check_count,
    check_coverage,
    check_levels,
    check_points,
    codes_of_grades,
    doubles,
    generator,
    row_blocks,
    working_floats,
)
from skgpx._types import AnyArray, Array, ArrayLike, Index, Mask, RandomState
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._warped import of_target

# Normal quantiles and weights at which functions of a transformed target are averaged.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_IS_INNER = np.abs(_NODES) < 8.0
_NODES = _NODES[_IS_INNER]
_NODE_WEIGHTS = _NODE_WEIGHTS[_IS_INNER] / _NODE_WEIGHTS[_IS_INNER].sum()


class Predictive(OneBlasThread):
    """Distribution of the observation at each of some rows, evaluated on request.

    Subclasses define `mean`, `variance` and `sample`, and for checked arguments
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
        """``Var[y]``, shape (n_rows,); without noise ``Var[E[y | f(x)]]``.

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
        if levels.ndim == 0:
            return values[..., 0]
        return values

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
        column = self.targets(y)[:, np.newaxis]
        return self._cdf(column)[:, 0]

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

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations, jointly over the rows.

        Parameters
        ----------
        n_samples : int, default=1
            Draws per row.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None uses the seed of the estimator.

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
            If they have another shape, or one is not finite.
        """
        shape = (self.n_rows,) if np.ndim(y) else ()
        return np.broadcast_to(check_points("y", doubles(y), shape), (self.n_rows,))

    def _quantiles(self, levels: Array) -> Array:
        raise NotImplementedError

    def _cdf(self, y: Array) -> Array:
        raise NotImplementedError

    def _log_density(self, y: Array) -> Array:
        raise NotImplementedError

    def _crps(self, y: Array) -> Array:
        return continuous_crps(y, self._cdf, self.quantile(LEVELS))


# By target, one of several or None.
_Likelihoods = dict[Any, Likelihood]


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
        targets, more outputs of the posterior than of the likelihood, the variances
        (n_rows, n_targets); all results then have an axis of targets after the rows.
    random_state : int, RandomState, Generator or None, default=None
        Default seed of :meth:`sample`.
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
        random_state: RandomState = None,
        n_jobs: int | None = None,
        target: int | None = None,
    ):
        self.posterior = posterior
        self.likelihood = likelihood
        self.X = X
        self.known = known
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.target = target
        self.n_rows = len(X)
        self.discrete = likelihood.discrete
        self.n_targets = 1
        if target is None:
            self.n_targets = posterior.n_outputs // likelihood.n_outputs_

    def _of_targets(self) -> list[PredictiveDistribution]:
        """Distribution of each target."""
        if self.n_targets == 1:
            return [self]
        noise: Any = self.known
        return [
            PredictiveDistribution(
                self.posterior,
                of_target(self.likelihood, target),
                self.X,
                known=noise[:, target],
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                target=target,
            )
            for target in range(noise.shape[1])
        ]

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self.stream(lambda likelihood, f: likelihood.predictive_mean(f))

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise ``Var[E[y | f(x)]]``."""
        _, variance = self.moments(include_noise)
        return variance

    def moments(self, include_noise: bool = True) -> tuple[Array, Array]:
        """Mean and variance, in one pass over the rows."""

        def mean_and_variance(likelihood: Likelihood, f: LatentMixture) -> Array:
            if include_noise:
                mean, variance = likelihood.predictive_moments(f)
            else:
                variance = likelihood.predictive_mean_variance(f)
                mean = likelihood.predictive_mean(f)
            return np.column_stack((mean, variance))

        moments = self.stream(mean_and_variance)
        return moments[..., 0].copy(), moments[..., 1].copy()

    def covariance(self, include_noise: bool = True) -> Array:
        """Covariance of y between the rows, shape (n_rows, n_rows).

        On another scale of y than its own, as of LogNormal, correlations are those of
        the latent function, to first order.

        Raises
        ------
        ValueError
            If the mean of y is not the latent function, on any scale.
        """
        likelihood = self.likelihood
        has_scale = likelihood.has_scale_of_y
        if not (likelihood.location_scale or has_scale):
            raise ValueError(
                "return_cov needs a likelihood whose mean is the latent function, of y "
                f"or of a function of y; got {likelihood!r}. Use return_std, or the "
                "covariance of sample_y."
            )
        if self.n_targets > 1:
            covariances = [
                distribution.covariance(include_noise)
                for distribution in self._of_targets()
            ]
            return np.stack(covariances, axis=2)
        covariance = self.posterior.covariance(self.X, self.target or 0)
        if has_scale:
            # covariance of y on another scale: variances, with the correlations of f
            _, variance = self.moments(include_noise=False)
            factor = np.sqrt(variance / np.diagonal(covariance))
            covariance = covariance * factor * factor[:, np.newaxis]
            if include_noise:
                _, total = self.moments()
                covariance[np.diag_indices_from(covariance)] = total
            return covariance
        if include_noise:
            # the variance of y where the function is zero in every model
            weights = np.ones(1)
            if isinstance(self.posterior, MixtureModel):
                weights = self.posterior.weights
            zero_function = LatentMixture(
                mean=np.zeros((self.n_rows, 1, len(weights))),
                variance=np.zeros((1, 1, 1)),
                weights=weights,
                owner=np.arange(len(weights)),
            )
            of_rows = self._likelihood_of(slice(None))
            _, noise = of_rows.predictive_moments(zero_function)
            covariance[np.diag_indices_from(covariance)] += noise
        return covariance

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations jointly over the rows, (n_rows, n_samples); O(n_rows)."""
        n_samples = check_count(n_samples, "n_samples")
        if random_state is None:
            random_state = self.random_state
        rng = generator(random_state)
        draws = self.posterior.draw(n_samples, rng)
        sources = [
            (j, distribution, likelihood, columns)
            for j, distribution in enumerate(self._of_targets())
            for likelihood, columns in distribution.likelihood.of_models(draws.owner)
        ]
        noise_rngs = [rng]
        if len(sources) > 1:
            # the noise does not depend on how the rows are split into blocks
            noise_rngs = rng.spawn(len(sources))
        parts = []
        for rows in self.blocks():
            latent = draws.values(self.X[rows])
            y = np.empty((len(latent), self.n_targets, n_samples))
            for source, noise_rng in zip(sources, noise_rngs, strict=True):
                j, distribution, likelihood, columns = source
                f = latent
                if likelihood.n_outputs_ == 1:
                    f = latent[:, distribution.target or 0]
                of_rows = distribution._at_rows(likelihood, rows)
                y[:, j, columns] = of_rows.sample(f[..., columns], noise_rng)
            parts.append(y if self.n_targets > 1 else y[:, 0])
        return np.concatenate(parts)

    def stream(self, function: Callable[..., Array], *row_values: Array) -> Array:
        """Concatenate the values of a function over blocks of rows.

        ``function(likelihood, latent, *row_values)`` gets the rows of a block.
        """
        blocks = self.blocks()
        items: Iterator[tuple[Any, ...]] = (
            (
                self._likelihoods_of(rows),
                self.X[rows],
                *(values[rows] for values in row_values),
            )
            for rows in blocks
        )
        if len(blocks) == 1:
            return _of_block(function, self.posterior, *next(items))
        block_size = blocks[0].stop - blocks[0].start
        n_blocks_in_memory = working_floats() // (self._floats_per_row() * block_size)
        # a block takes less time than sending it to a process of this machine
        parts = parallel_stream(
            _of_block,
            items,
            blas_jobs(self.n_jobs, n_blocks_in_memory),
            function,
            self.posterior,
            in_threads=not on_cluster(),
        )
        return np.concatenate(list(parts))

    def targets(self, y: ArrayLike) -> Array:
        """Targets as an array (n_rows,), categories as their codes."""
        return super().targets(codes_of_grades(self.likelihood, y))

    def blocks(self) -> list[slice]:
        """Blocks of rows with predictions that fit in scikit-learn's working memory."""
        return row_blocks(self.n_rows, self._floats_per_row())

    def _floats_per_row(self) -> int:
        # floats per row that the predictive functionals of a likelihood need, for any
        # model
        return self.posterior.floats_per_row + 1500 * self.n_targets

    def _likelihoods_of(self, rows: slice) -> _Likelihoods:
        return {
            distribution.target: distribution._likelihood_of(rows)
            for distribution in self._of_targets()
        }

    def _likelihood_of(self, rows: slice) -> Likelihood:
        return self._at_rows(self.likelihood, rows)

    def _at_rows(self, likelihood: Likelihood, rows: slice) -> Likelihood:
        """Likelihood with the known quantity of these rows, if there is one."""
        if self.known is None:
            return likelihood
        return likelihood.at_rows(self.known[rows].ravel())

    def _quantiles(self, levels: Array) -> Array:
        return self.stream(
            lambda likelihood, f: likelihood.predictive_quantile(levels, f)
        )

    def _cdf(self, y: Array) -> Array:
        def cdf(likelihood: Likelihood, f: LatentMixture, y: Array) -> Array:
            columns = [likelihood.predictive_cdf(column, f) for column in y.T]
            return np.stack(columns, axis=1)

        return self.stream(cdf, y)

    def _log_density(self, y: Array) -> Array:
        self._likelihood_of(slice(None)).check_support(y)
        return self.stream(
            lambda likelihood, f, y: likelihood.predictive_log_density(y, f), y
        )

    def _crps(self, y: Array) -> Array:
        self._likelihood_of(slice(None)).check_support(y)
        return self.stream(lambda likelihood, f, y: likelihood.predictive_crps(y, f), y)


def _of_block(
    function: Callable[..., Array],
    posterior: FunctionModel | MixtureModel,
    likelihoods: _Likelihoods,
    X: Array,
    *row_values: Array,
) -> Array:
    """The function of the likelihood and the latent distribution at a block of rows."""
    latent = posterior.marginals(X)
    mean, variance = np.broadcast_arrays(latent.mean, latent.variance)
    results = []
    for target, likelihood in likelihoods.items():
        values = row_values
        if len(likelihoods) > 1:
            values = tuple(values_of_all[:, target] for values_of_all in row_values)
        if target is not None:
            latent = latent._replace(
                mean=mean[:, [target]],
                variance=variance[:, [target]],
            )
        results.append(function(likelihood, latent, *values))
    return results[0] if len(results) == 1 else np.stack(results, axis=1)


class NormalDistribution(Predictive):
    """Normal distributions with given moments.

    Parameters
    ----------
    mean, std : ndarray of shape (n_rows,)
        Moments of y, noise included.
    sampler : callable or None, default=None
        ``sampler(n_samples, random_state)`` draws jointly over the rows; None is for
        independent rows.
    """

    def __init__(
        self,
        mean: Array,
        std: Array,
        sampler: Callable[[int, Any], AnyArray] | None = None,
    ):
        self._mean = mean
        self._std = std
        self._sampler = sampler
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included."""
        _check_noise(include_noise)
        return self._std**2

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations, (n_rows, n_samples)."""
        n_samples = check_count(n_samples, "n_samples")
        if self._sampler is not None:
            return self._sampler(n_samples, random_state)
        rng = generator(random_state)
        return self._from_standard(rng.standard_normal((self.n_rows, n_samples)))

    def _quantiles(self, levels: Array) -> Array:
        return self._from_standard(ndtri(levels))

    def _from_standard(self, z: Array) -> Array:
        """``mean + std z`` of standard normal values, (n_rows, k)."""
        return self._mean[:, np.newaxis] + self._std[:, np.newaxis] * z

    def _cdf(self, y: Array) -> Array:
        self._check_positive()
        return ndtr((y - self._mean[:, np.newaxis]) / self._std[:, np.newaxis])

    def _log_density(self, y: Array) -> Array:
        self._check_positive()
        z = (y - self._mean) / self._std
        return -0.5 * z**2 - np.log(self._std) - 0.5 * np.log(2.0 * np.pi)

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
    estimator: RegressorMixin,
    X: ArrayLike,
) -> NormalDistribution | list[NormalDistribution]:
    """Normal distribution with the predicted moments; a list for several targets."""
    mean, std = estimator.predict(X, return_std=True)
    mean = np.asarray(mean)
    std = np.asarray(std)
    # all of one target
    targets = [...] if mean.ndim == 1 else range(mean.shape[1])
    distributions = [
        NormalDistribution(
            mean[:, target],
            std[:, target],
            partial(_sample_y, estimator, X, target),
        )
        for target in targets
    ]
    return distributions[0] if mean.ndim == 1 else distributions


def _sample_y(
    estimator: RegressorMixin,
    X: ArrayLike,
    target: Any,
    n_samples: int,
    random_state: RandomState,
) -> AnyArray:
    if not hasattr(estimator, "sample_y"):
        raise ValueError(
            f"{estimator!r} has no sample_y, hence no joint distribution of its rows. "
            "Draws need a Gaussian process."
        )
    y: AnyArray
    if random_state is None:
        # the default seed of the estimator
        y = estimator.sample_y(X, n_samples)
    else:
        y = estimator.sample_y(X, n_samples, random_state)
    return y[:, target]


class RescaledDistribution(Predictive):
    """Distribution of ``m + s (Y - m)``: a distribution, stretched about its mean.

    Parameters
    ----------
    inner : Predictive
        Distribution of Y, continuous.
    mean : ndarray of shape (n_rows,)
        The mean m.
    factor : ndarray of shape (n_rows,)
        The factor s, positive.
    """

    def __init__(self, inner: Predictive, mean: Array, factor: Array):
        self.inner = inner
        self._mean = mean
        self._factor = factor
        self.n_rows = len(mean)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._mean

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included."""
        _check_noise(include_noise)
        return self._factor**2 * self.inner.variance()

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        return self._stretched(self.inner.sample(n_samples, random_state))

    def _quantiles(self, levels: Array) -> Array:
        return self._stretched(self.inner._quantiles(levels))

    def _cdf(self, y: Array) -> Array:
        return self.inner._cdf(self._stretched(y, -1))

    def _log_density(self, y: Array) -> Array:
        # log p(y) = log p_Y(m + (y - m) / s) - log s
        unstretched = self._stretched(y[:, np.newaxis], -1)[:, 0]
        return self.inner._log_density(unstretched) - np.log(self._factor)

    def _stretched(self, values: Array, power: int = 1) -> Array:
        mean = self._mean[:, np.newaxis]
        factor = self._factor[:, np.newaxis] ** power
        return mean + factor * (values - mean)


class TransformedDistribution(Predictive):
    """Distribution of ``inverse(z)`` for a predictive distribution of z.

    Quantiles, distribution function and samples are transformed; the moments are
    averages over quantiles of z (Gauss-Hermite: exact to many digits if both are
    smooth), the density has a difference quotient of `inverse`. Quantiles, distribution
    function and density raise a ValueError if `inverse` turns within four standard
    deviations of the distributions of z.

    Parameters
    ----------
    inner : Predictive
        Distribution of z.
    forward, inverse : callable
        From y to z and from z to y, elementwise on arrays of shape (n,); monotone.
    """

    def __init__(
        self,
        inner: Predictive,
        forward: Callable[[Array], Array],
        inverse: Callable[[Array], Array],
    ):
        self.inner = inner
        self.forward = forward
        self.inverse = inverse
        self.n_rows = len(inner)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._at_nodes() @ _NODE_WEIGHTS

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,), noise included."""
        _check_noise(include_noise)
        values = self._at_nodes()
        mean = values @ _NODE_WEIGHTS
        centred = values - mean[:, np.newaxis]
        return centred**2 @ _NODE_WEIGHTS

    def _at_nodes(self) -> Array:
        """Quantiles of y at the nodes of the quadrature, (n_rows, number of nodes)."""
        levels = ndtr(_NODES)
        return self._back(self.inner.quantile(levels))

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        return self._back(self.inner.sample(n_samples, random_state))

    def _quantiles(self, levels: Array) -> Array:
        if not self._increasing:
            levels = 1.0 - levels
        return self._back(self.inner._quantiles(levels))

    def _cdf(self, y: Array) -> Array:
        z, in_range = self._forward(y)
        probability = self.inner._cdf(z)
        if not self._increasing:
            probability = 1.0 - probability
        # zero or one beyond the range of Y
        median = self._back(self._centre)
        return np.where(in_range, probability, y > median)

    def _log_density(self, y: Array) -> Array:
        _ = self._increasing  # raises if the inverse turns
        z_column, in_range = self._forward(y[:, np.newaxis])
        z = z_column[:, 0]
        # d y / d z, with steps in proportion to the standard deviation of z
        shortest = 1e-10 * np.abs(z)
        step = np.maximum(1e-5 * self.inner.std(), shortest)
        rise = self.inverse(z + step) - self.inverse(z - step)
        with np.errstate(divide="ignore"):
            slope = rise / (2.0 * step)
            log_slope = np.log(np.abs(slope))
        # log p(y) = log p(z) - log |d y / d z|
        log_density = self.inner._log_density(z) - log_slope
        return np.where(in_range[:, 0], log_density, -np.inf)

    def _forward(self, y: Array) -> tuple[Array, Mask]:
        """Transform y to z.

        Returns
        -------
        z : ndarray of the shape of y
            ``forward(y)``, or the median of z beyond the range of y.
        in_range : ndarray of bool, of the shape of y
        """
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            flat = self.forward(y.ravel())
        z = np.asarray(flat, dtype=np.float64)
        z = z.reshape(y.shape)
        in_range = np.isfinite(z)
        z = np.where(in_range, z, self._centre)
        return z, in_range

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
        mean = self.inner.mean()
        std = self.inner.std()
        low = np.min(mean - 4.0 * std)
        high = np.max(mean + 4.0 * std)
        grid = np.linspace(low, high, 201)
        rises = np.diff(self.inverse(grid))
        is_decreasing = bool(np.any(rises < 0.0))
        if is_decreasing and np.any(rises > 0.0):
            raise ValueError(
                "The distribution of a transformed target needs a monotone inverse; "
                f"got one that turns between {grid[0]:.3g} and {grid[-1]:.3g}. Use a "
                "monotone transformation, or `sample`."
            )
        return not is_decreasing


class JoinedDistribution(Predictive):
    """Distribution of rows that come in parts, such as the folds of a split.

    Parameters
    ----------
    parts : sequence of Predictive
    positions : sequence of ndarray of int
        Positions of the rows of each part among all rows; each row once.
    """

    def __init__(
        self,
        parts: Sequence[Predictive],
        positions: Sequence[Index],
    ):
        self.parts = tuple(parts)
        self.positions = tuple(positions)
        self.n_rows = sum(len(part) for part in self.parts)
        self.discrete = any(part.discrete for part in self.parts)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._joined(lambda part: part.mean())

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise ``Var[E[y | f(x)]]``."""
        return self._joined(lambda part: part.variance(include_noise))

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations, (n_rows, n_samples), jointly within each part.

        Without a seed, each part takes the seed of its estimator.
        """
        if random_state is None:
            return self._joined(lambda part: part.sample(n_samples))
        rng = generator(random_state)
        return self._joined(
            lambda part: part.sample(n_samples, int(rng.spawn(1)[0].integers(2**31)))
        )

    def _joined(
        self,
        function: Callable[..., AnyArray],
        *row_values: Array,
    ) -> AnyArray:
        """``function(part, *row_values)`` of all parts, in the order of all rows."""
        results = []
        for part, rows in zip(self.parts, self.positions, strict=True):
            values_of_part = (values[rows] for values in row_values)
            results.append(function(part, *values_of_part))
        order = np.argsort(np.concatenate(self.positions))
        return np.concatenate(results)[order]

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
