"""Predictive laws of y at given rows: what every prediction of a regressor reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from skgpx._latent import LatentModel, MarkovModel, MixtureModel
from skgpx._numerics.mixture import LatentMixture
from skgpx._parallel import blas_jobs, parallel_stream
from skgpx._validation import generator, row_blocks, working_floats
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Floats per row that the predictive functionals of a likelihood need, for any model.
_PER_ROW = 1500
# Normal quantiles and weights at which functions of a law are averaged.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_KEPT = np.abs(_NODES) < 8.0
_NODES, _NODE_WEIGHTS = _NODES[_KEPT], _NODE_WEIGHTS[_KEPT] / _NODE_WEIGHTS[_KEPT].sum()


class Predictive:
    """Law of the observation at each of some rows, evaluated when it is asked for.

    Subclasses give the moments, `quantile`, `cdf`, `log_density` and `sample`.

    Attributes
    ----------
    n_rows : int
        Also ``len(law)``.
    """

    n_rows: int

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
        if not 0.0 < coverage < 1.0:
            raise ValueError(
                f"coverage must lie strictly between 0 and 1; got {coverage!r}."
            )
        tail = 0.5 * (1.0 - coverage)
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
        Unless they are strictly between 0 and 1.
    """
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1 or not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(
            f"{name} must be numbers strictly between 0 and 1; got {np.asarray(q)!r}."
        )
    return levels


class PredictiveDistribution(Predictive):
    """Likelihood averaged over the law of a latent model.

    What ``model.predict_dist(X)`` returns. It keeps the posterior and the rows, not
    their predictions: these are computed when asked for, in blocks of rows within
    scikit-learn's ``working_memory``. A later `fit` of the model does not change it.

    Parameters
    ----------
    posterior : LatentModel, MarkovModel or MixtureModel
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
        posterior: LatentModel | MarkovModel | MixtureModel,
        likelihood: Likelihood,
        X: Array,
        known: Array | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.posterior, self.likelihood = posterior, likelihood
        self.X, self.known = X, known
        self.random_state, self.n_jobs = random_state, n_jobs
        self.n_rows = len(X)

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

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        targets = self.targets(y)
        self.likelihood.check_support(targets)
        return self.stream(
            lambda law, mixture, t: law.predictive_log_density(t, mixture), targets
        )

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples); O(n_rows)."""
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
        return np.concatenate(list(parallel_stream(_of_block, items, jobs, *model)))

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


class NormalDistribution(Predictive):
    """Normal law with the moments of a Gaussian-process regressor.

    Parameters
    ----------
    estimator : estimator
        With ``predict(X, return_std=True)`` and `sample_y`.
    X : array-like of shape (n_rows, n_features)
    """

    def __init__(self, estimator: Any, X: Any):
        self.estimator, self.X = estimator, X
        self.n_rows = len(X)

    def mean(self) -> Array:
        """``E[y]``, shape (n_rows,)."""
        return self._moments()[0]

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
        return self._moments()[1] ** 2

    def cdf(self, y: ArrayLike) -> Array:
        """``P(Y <= y)`` at each row, y a number or (n_rows,); shape (n_rows,)."""
        mean, std = self._moments()
        return np.asarray(ndtr((self.targets(y) - mean) / std))

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        mean, std = self._moments()
        square = ((self.targets(y) - mean) / std) ** 2
        return -0.5 * square - np.log(std) - 0.5 * np.log(2.0 * np.pi)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        seed = () if random_state is None else (random_state,)
        y: NDArray[Any] = self.estimator.sample_y(self.X, n_samples, *seed)
        return y

    def _moments(self) -> tuple[Array, Array]:
        mean, std = self.estimator.predict(self.X, return_std=True)
        if np.ndim(mean) != 1:
            raise ValueError(
                "A predictive distribution is that of one target; got "
                f"{np.shape(mean)[1]} targets. Use predict(X, return_std=True)."
            )
        return mean, std

    def _quantiles(self, levels: Array) -> Array:
        mean, std = self._moments()
        return mean[:, np.newaxis] + std[:, np.newaxis] * ndtri(levels)


class TransformedDistribution(Predictive):
    """Law of ``inverse(z)`` for a predictive law of z and a monotone `inverse`.

    Quantiles, distribution function and samples are transformed; the moments are
    averages over quantiles of z (Gauss-Hermite: exact to many digits where both are
    smooth), the density has a difference quotient of `forward`.

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
        below = self.law.cdf(self.forward(self.targets(y)))
        return below if self._rises() else 1.0 - below

    def log_density(self, y: ArrayLike) -> Array:
        """Log density at each row, y a number or (n_rows,); shape (n_rows,)."""
        targets = self.targets(y)
        step = 1e-6 * np.maximum(np.abs(targets), 1e-6)
        rise = self.forward(targets + step) - self.forward(targets - step)
        slope = np.log(np.abs(rise / (2.0 * step)))
        return self.law.log_density(self.forward(targets)) + slope

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw observations jointly over the rows, (n_rows, n_samples)."""
        z = self.law.sample(n_samples, random_state)
        return self.inverse(z.ravel()).reshape(z.shape)

    def _values(self) -> Array:
        z = self.law.quantile(ndtr(_NODES))
        return self.inverse(z.ravel()).reshape(z.shape)

    def _rises(self) -> bool:
        ends = self.inverse(self.law.quantile((0.25, 0.75))[0])
        return bool(ends[1] >= ends[0])

    def _quantiles(self, levels: Array) -> Array:
        asked = levels if self._rises() else 1.0 - levels
        z = self.law.quantile(asked)
        return self.inverse(z.ravel()).reshape(z.shape)
