"""Prediction from a fitted latent model, written once for all estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from skgpx._draws import FunctionDraws
from skgpx._latent import LatentModel, MarkovModel, MixtureModel
from skgpx._numerics.mixture import LatentMixture
from skgpx._validation import check_is_fitted, check_X, generator, row_blocks
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Floats per row that the predictive functionals of a likelihood need, for any model.
_PER_ROW = 1500


class LatentEstimator(BaseEstimator):
    """Prediction from `posterior_` and `likelihood_`, which fitting sets.

    Both are in the units of y.
    """

    posterior_: LatentModel | MarkovModel | MixtureModel
    likelihood_: Likelihood

    def _blocks(self, n_rows: int) -> list[slice]:
        """Blocks of rows whose predictions fit in scikit-learn's working memory."""
        return list(row_blocks(n_rows, self.posterior_.floats_per_row + _PER_ROW))

    def _warn_about(self, X: Array) -> None:
        """Warn, once for a call, if the model is not made for rows X."""

    def _stream(self, function: Callable[..., Array], X: Array, *rest: Array) -> Array:
        """Concatenate ``function(mixture, *rest)`` over blocks of rows."""
        self._warn_about(X)
        parts = [
            function(self.posterior_.marginals(X[rows]), *(a[rows] for a in rest))
            for rows in self._blocks(len(X))
        ]
        return np.concatenate(parts)

    def sample_functions(
        self, n_samples: int = 1, random_state: Any = None
    ) -> FunctionDraws:
        """Draw latent functions from the posterior.

        Parameters
        ----------
        n_samples : int, default=1
            Number of functions.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None uses that of the estimator.

        Returns
        -------
        draws : FunctionDraws
            ``draws(X)`` has shape (n_rows, n_samples), or (n_rows, n_outputs,
            n_samples) for several latent outputs; latent values, in the units of y
            where the link is the identity. Calling it again, on any rows, evaluates
            the same functions.
        """
        check_is_fitted(self)
        return self.posterior_.draw(n_samples, self._generator(random_state))

    def _generator(self, random_state: Any) -> np.random.Generator:
        """Generator of a call, of the estimator's seed where the call has none."""
        own = getattr(self, "random_state", None)
        return generator(own if random_state is None else random_state)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = None
    ) -> NDArray[Any]:
        """Draw observations, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_samples : int, default=1
            Draws per row.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None uses that of the estimator.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples)
            Observations (counts for a Poisson likelihood, labels for a classifier):
            noise is included. Linear cost in the number of rows.
        """
        X = check_X(self, X)
        self._warn_about(X)
        rng = self._generator(random_state)
        draws = self.sample_functions(n_samples, rng)
        parts = [self._observe(draws.values(X[b]), rng) for b in self._blocks(len(X))]
        return np.concatenate(parts)

    def _observe(self, latent: Array, rng: np.random.Generator) -> NDArray[Any]:
        """One observation for each row and draw of latent values (n, c, s)."""
        flat = latent[:, 0] if self.likelihood_.n_outputs_ == 1 else latent
        return self.likelihood_.sample(flat, rng)

    def log_predictive_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density (or log probability) of each row's target.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            ``log p(y_i | x_i, data)`` in nats and in the units of y; averaged over
            the posterior, noise included. Its negative mean is the NLPD.
        """
        X = check_X(self, X)
        targets = self._encode(y)
        if targets.shape != (len(X),):
            raise ValueError(
                f"y must have shape ({len(X)},), one target for each row of X; got "
                f"{targets.shape}."
            )
        density = self.likelihood_.predictive_log_density
        return self._stream(lambda mixture, t: density(t, mixture), X, targets)

    def _encode(self, y: ArrayLike) -> Array:
        targets = np.asarray(y, dtype=np.float64)
        self.likelihood_.check_support(targets)
        return targets


class LatentRegressor(RegressorMixin, LatentEstimator):
    """Regressor whose predictive law is a likelihood averaged over a latent law."""

    # Pipeline.predict(X, return_std=True) also works with metadata routing on
    __metadata_request__predict: ClassVar = {
        "return_std": True,
        "return_cov": True,
        "include_noise": True,
    }

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = True,
    ) -> Array | tuple[Array, Array]:
        """Predictive mean, and on request its standard deviation or covariance.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of y.
        return_cov : bool, default=False
            Also return the covariance of y between the rows.
        include_noise : bool, default=True
            True for the law of observations, as GaussianProcessRegressor with a
            WhiteKernel; False for that of the noise-free ``E[y | f(x)]``.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
            In the units of y.
        std : ndarray of shape (n_rows,)
            Only if `return_std`; in the units of y.
        covariance : ndarray of shape (n_rows, n_rows)
            Only if `return_cov`; in squared units of y.

        Raises
        ------
        ValueError
            If both `return_std` and `return_cov` are set, or `return_cov` for a
            likelihood whose link is not the identity.

        Notes
        -----
        Nothing is simulated: the moments are sums over the particles, with the residual
        and the noise integrated out. Computed in blocks of rows.
        """
        if return_std and return_cov:
            raise ValueError(
                "At most one of return_std and return_cov can be requested; got both."
            )
        X = check_X(self, X)
        if return_cov:
            return self._mean(X), self._covariance(X, include_noise)
        if not return_std:
            return self._mean(X)
        pairs = self._stream(
            lambda mixture: self._mean_and_variance(mixture, include_noise), X
        )
        return pairs[:, 0].copy(), np.sqrt(pairs[:, 1])

    def _mean(self, X: Array) -> Array:
        return self._stream(self.likelihood_.predictive_mean, X)

    def _mean_and_variance(self, mixture: LatentMixture, noise: bool) -> Array:
        likelihood = self.likelihood_
        variance = (
            likelihood.predictive_variance(mixture)
            if noise
            else likelihood.predictive_mean_variance(mixture)
        )
        return np.column_stack((likelihood.predictive_mean(mixture), variance))

    def _covariance(self, X: Array, include_noise: bool) -> Array:
        likelihood = self.likelihood_
        if not likelihood.location_scale:
            raise ValueError(
                "return_cov needs a likelihood whose mean is the latent function; got "
                f"{likelihood!r}. Use return_std, or the covariance of sample_y."
            )
        covariance = self.posterior_.covariance(X)
        if include_noise:
            noise = likelihood.variance(np.zeros(len(X)))
            covariance[np.diag_indices_from(covariance)] += noise
        return covariance

    def predict_quantiles(
        self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)
    ) -> Array:
        """Quantiles of the predictive law of y.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        quantiles : array-like of shape (q,), default=(0.05, 0.5, 0.95)
            Levels strictly between 0 and 1.

        Returns
        -------
        values : ndarray of shape (n_rows, q)
            In the units of y. Quantiles of the mixture over all particles, not
            multiples of the standard deviation.
        """
        X = check_X(self, X)
        levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if levels.ndim != 1 or not np.all((levels > 0.0) & (levels < 1.0)):
            raise ValueError(
                "quantiles must be numbers strictly between 0 and 1; got "
                f"{np.asarray(quantiles)!r}."
            )
        quantile = self.likelihood_.predictive_quantile
        return self._stream(lambda mixture: quantile(levels, mixture), X)

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Central predictive interval of y.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        coverage : float, default=0.9
            Probability of the interval, in (0, 1).

        Returns
        -------
        bounds : ndarray of shape (n_rows, 2)
            Lower and upper end, in the units of y.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(
                f"coverage must lie strictly between 0 and 1; got {coverage!r}."
            )
        tail = 0.5 * (1.0 - coverage)
        return self.predict_quantiles(X, (tail, 1.0 - tail))


class LatentClassifier(ClassifierMixin, LatentEstimator):
    """Classifier whose probabilities are averaged over a latent law."""

    classes_: NDArray[Any]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most probable class of each row, shape (n_rows,)."""
        best = np.argmax(self.predict_proba(X), axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities averaged over the posterior.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`; rows sum to one.
        """
        X = check_X(self, X)
        return self._stream(self.likelihood_.predict_proba, X)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def latent_mean_and_variance(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the latent function.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        mean, variance : ndarray of shape (n_rows,), or (n_rows, n_classes)
            On the scale of the link (log odds for the logit); one latent function
            for two classes, otherwise one for each class.
        """
        X = check_X(self, X)
        c = self.likelihood_.n_outputs_
        both = self._stream(lambda mixture: np.concatenate(mixture.moments(), 1), X)
        mean, variance = both[:, :c].copy(), both[:, c:].copy()
        return (mean[:, 0], variance[:, 0]) if c == 1 else (mean, variance)

    def _observe(self, latent: Array, rng: np.random.Generator) -> NDArray[Any]:
        codes = super()._observe(latent, rng).astype(np.intp)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def _encode(self, y: ArrayLike) -> Array:
        labels = np.asarray(y)
        codes = np.searchsorted(self.classes_, labels)
        codes = np.minimum(codes, len(self.classes_) - 1)
        unknown = labels[self.classes_[codes] != labels]
        if len(unknown):
            raise ValueError(
                f"y must hold the classes {self.classes_.tolist()} only; got "
                f"{np.unique(unknown)[:5].tolist()}."
            )
        return codes.astype(np.float64)
