"""Predictive laws of y at given rows: what every prediction of a regressor reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._numerics.crps import LEVELS, continuous_crps
from skgpx._numerics.mixture import LatentMixture
from skgpx._parallel import blas_jobs, on_cluster, parallel_stream
from skgpx._validation import (
    check_count,
    check_coverage,
    generator,
    row_blocks,
    working_floats,
)
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Floats per row that the predictive functionals of a likelihood need, for any model.
_PER_ROW = 1500


class Predictive(OneBlasThread):
    """Law of the observation at each of some rows, evaluated when it is asked for.

    Subclasses give the moments, `quantile`, `cdf`, `log_density` and `sample`.

    Attributes
    ----------
    n_rows : int
        Also ``len(law)``.
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
        """``Var[y]``, shape (n_rows,); without noise that of ``E[y | f(x)]``."""
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
        levels = checked_levels(q, "q")
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
            At the target of each row, uniform if the law is right and continuous.
        """
        raise NotImplementedError

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
        raise NotImplementedError

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of each row, smaller being better.

        Parameters
        ----------
        y : float or array-like of shape (n_rows,)

        Returns
        -------
        score : ndarray of shape (n_rows,)
            ``∫ (P(Y <= z) - 1{y <= z})² dz``, in the units of y; the absolute error
            where the law is a point.
        """
        return continuous_crps(self.targets(y), self.cdf_columns, self.quantile(LEVELS))

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

    def cdf_columns(self, y: Array) -> Array:
        """``P(Y <= y)`` at several y of each row, (n_rows, k); shape (n_rows, k)."""
        return np.stack([self.cdf(one) for one in y.T], axis=1)

    def _quantiles(self, levels: Array) -> Array:
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


def checked_levels(q: ArrayLike, name: str) -> Array:
    """Levels of quantiles, () or (k,).

    Raises
    ------
    ValueError
        Unless there are some, strictly between 0 and 1.
    """
    try:
        levels = np.asarray(q, dtype=np.float64)
    except (TypeError, ValueError):
        levels = np.empty(0)
    inside = np.all((levels > 0.0) & (levels < 1.0))
    if levels.ndim > 1 or not levels.size or not inside:
        raise ValueError(
            f"{name} must be one or more numbers strictly between 0 and 1; got {q!r}."
        )
    return levels


class PredictiveDistribution(Predictive):
    """Likelihood averaged over the law of a latent model.

    What ``model.predict_dist(X)`` returns. It keeps the posterior and the rows, not
    their predictions: these are computed when asked for, in blocks of rows within
    scikit-learn's ``working_memory``. A later `fit` of the model does not change it.

    Parameters
    ----------
    posterior : LatentModel or MixtureModel
        In the units of y.
    likelihood : Likelihood
    X : ndarray of shape (n_rows, n_features)
        Checked.
    known : ndarray of shape (n_rows,) or None, default=None
        Exposures, or variances of the noise in units of the likelihood's.
    random_state : int, RandomState, Generator or None, default=None
        Seed of :meth:`sample` if that is given none.
    n_jobs : int or None, default=None
        Workers over blocks of rows; the same bits for every number. None is what
        ``joblib.parallel_config`` says, otherwise as many threads as BLAS uses and the
        working memory has room for.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SpectralVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 6.0, size=(500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> law = SpectralVGPRegressor().fit(X, y).predict_dist([[1.5], [3.0]])
    >>> law.mean().shape, law.interval(0.9).shape, law.quantile(0.5).shape
    ((2,), (2, 2), (2,))
    >>> bool(law.cdf([0.0, 0.0])[0] < 1e-6)
    True
    >>> law.sample(3, random_state=0).shape
    (2, 3)
    """

    def __init__(
        self,
        posterior: LatentModel | MixtureModel,
        likelihood: Likelihood,
        X: Array,
        known: Array | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.posterior, self.likelihood = posterior, likelihood
        self.X, self.known = X, known
        self.random_state, self.n_jobs = random_state, n_jobs
        self.n_rows, self.discrete = len(X), likelihood.discrete

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self.stream(lambda law, mixture: law.predictive_mean(mixture))

    def variance(self, include_noise: bool = True) -> Array:
        """``Var[y]``, shape (n_rows,); without noise that of ``E[y | f(x)]``."""
        return self.stream(lambda law, mixture: _variance(law, mixture, include_noise))

    def moments(self, include_noise: bool = True) -> tuple[Array, Array]:
        """Mean and variance, in one pass over the rows."""

        def both(law: Any, mixture: LatentMixture) -> Array:
            if include_noise:
                return np.column_stack(law.predictive_moments(mixture))
            variance = law.predictive_mean_variance(mixture)
            return np.column_stack((law.predictive_mean(mixture), variance))

        pairs = self.stream(both)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

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
        covariance = self.posterior.covariance(self.X)
        if include_noise:
            noise = self._law(slice(None)).variance(np.zeros(self.n_rows))
            covariance[np.diag_indices_from(covariance)] += noise
        return covariance

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        targets = self.targets(y)
        return self.stream(
            lambda law, mixture, t: law.predictive_cdf(t, mixture), targets
        )

    def cdf_columns(self, y: Array) -> Array:
        """``P(Y <= y)`` at several y of each row, (n_rows, k); shape (n_rows, k)."""

        def columns(law: Any, mixture: LatentMixture, t: Array) -> Array:
            return np.stack([law.predictive_cdf(one, mixture) for one in t.T], axis=1)

        return self.stream(columns, y)

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        targets = self.targets(y)
        self.likelihood.check_support(targets)
        return self.stream(
            lambda law, mixture, t: law.predictive_log_density(t, mixture), targets
        )

    def crps(self, y: ArrayLike) -> Array:
        """CRPS of each row at y, a number or (n_rows,); shape (n_rows,)."""
        targets = self.targets(y)
        self.likelihood.check_support(targets)
        return self.stream(
            lambda law, mixture, t: law.predictive_crps(t, mixture), targets
        )

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples); O(n_rows)."""
        n_samples = check_count(n_samples, "n_samples")
        seed = self.random_state if random_state is None else random_state
        rng = generator(seed)
        draws, one = (
            self.posterior.draw(n_samples, rng),
            self.likelihood.n_outputs_ == 1,
        )
        parts = []
        for rows in self.blocks():
            latent = draws.values(self.X[rows])
            law = self._law(rows)
            parts.append(law.sample(latent[:, 0] if one else latent, rng))
        return np.concatenate(parts)

    def stream(self, function: Callable[..., Array], *rest: Array) -> Array:
        """Concatenate ``function(law, mixture, *rest)`` over blocks of rows."""
        blocks, cost = self.blocks(), self._floats_per_row()
        items = (
            (self._law(rows), self.X[rows], *(a[rows] for a in rest)) for rows in blocks
        )
        model = function, self.posterior
        if len(blocks) == 1:
            return _of_block(*model, *next(items))
        room = working_floats() // (cost * (blocks[0].stop - blocks[0].start))
        jobs = blas_jobs(self.n_jobs, room)
        # a block takes less time than sending it to a process of this machine
        parts = parallel_stream(
            _of_block, items, jobs, *model, in_threads=not on_cluster()
        )
        return np.concatenate(list(parts))

    def blocks(self) -> list[slice]:
        """Blocks of rows whose predictions fit in scikit-learn's working memory."""
        return list(row_blocks(self.n_rows, self._floats_per_row()))

    def _floats_per_row(self) -> int:
        return self.posterior.floats_per_row + _PER_ROW

    def _law(self, rows: slice) -> Any:
        """Likelihood of these rows."""
        if self.known is None:
            return self.likelihood
        return self.likelihood.at_rows(self.known[rows])

    def _quantiles(self, levels: Array) -> Array:
        return self.stream(
            lambda law, mixture: law.predictive_quantile(levels, mixture)
        )


def _of_block(
    function: Callable[..., Array], posterior: Any, law: Any, X: Array, *rest: Array
) -> Array:
    return function(law, posterior.marginals(X), *rest)


def _variance(law: Any, mixture: LatentMixture, noise: bool) -> Array:
    functional = law.predictive_variance if noise else law.predictive_mean_variance
    variance: Array = functional(mixture)
    return variance
