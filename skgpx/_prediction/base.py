"""Prediction from a fitted latent model, written once for all estimators."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from skgpx._draws import FunctionDraws
from skgpx._latent import FunctionModel, MixtureModel, model_of_functionals
from skgpx._numerics.rows import far_outside
from skgpx._prediction.distribution import PredictiveDistribution
from skgpx._reports.report import Reporting
from skgpx._shell.functionals import functional_rows
from skgpx._shell.validation import (
    RowReader,
    check_count,
    check_is_fitted,
    check_labels,
    check_levels,
    check_targets,
    check_X,
    codes_of_grades,
    generator,
    relative,
    row_quantity,
    warn,
)
from skgpx._types import AnyArray, Array, ArrayLike, RandomState, RowValues
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import VALUE, FunctionalRows
from skgpx.likelihoods import Bernoulli, Categorical, Likelihood, Warped
from skgpx.likelihoods._averaged import averaged
from skgpx.likelihoods._warped import normal_noise, warp_of


class LatentEstimator(Reporting, BaseEstimator):
    """Prediction from `posterior_` and `likelihood_`, which fitting sets.

    Both are in the units of y.
    """

    posterior_: FunctionModel | MixtureModel
    likelihood_: Likelihood
    # smallest and largest values of the columns of X in the fit, (2, d), if these are
    # numbers
    _input_range: Array | None = None
    # noise variances of slopes by column (d,), in that of values; None for zeros
    _noise_of_slopes: Array | None = None
    # of each model of a mixture, if they have scales of their own
    _likelihoods: tuple[Likelihood, ...] = ()
    # whether columns of X may be categories, and y several targets (n, t)
    _takes_categories = True
    _takes_several_targets = False

    def _distribution(
        self,
        X: ArrayLike,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
        **quantities: RowValues,
    ) -> PredictiveDistribution:
        """Predictive distribution at rows, with their exposures, noise or censoring.

        Of functionals of f where these are stated.
        """
        X = self._rows_to_predict(X)
        points = X
        posterior = self.posterior_
        seen = functional_rows(
            self,
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        if seen is not None:
            self._check_functionals(seen, self.likelihood_)
            posterior = model_of_functionals(posterior)
            X = seen.as_array()
        likelihood = self.likelihood_
        normal = normal_noise(likelihood)
        quantity = row_quantity(normal, len(X), **quantities)
        if quantity is None and seen is not None:
            quantity = self._noise_of_functionals(seen)
        if quantity is None:
            quantity = self._noise_at(X)
        has_noise_of_rows = (
            quantity is not None and normal.row_quantity == "noise_variance"
        )
        warp = warp_of(likelihood)
        n_targets = self.posterior_.n_outputs // likelihood.n_outputs_
        learned_noise = None
        if n_targets > 1:
            # several targets: the noise of each at each row
            shape = (len(X), n_targets)
            learned_noise = np.broadcast_to(normal.variance(0.0), shape)
            noise = learned_noise if quantity is None else quantity[:, np.newaxis]
            quantity = np.broadcast_to(noise, shape)
            normal = normal.with_noise(1.0)
            likelihood = normal
            if warp is not None:
                likelihood = self.likelihood_._replace(likelihood=normal)
        if has_noise_of_rows and warp is not None:
            middle = PredictiveDistribution(posterior, likelihood, X, learned_noise)
            quantity = quantity * np.exp(2.0 * warp.log_slope(middle.mean()))
        if n_targets == 1 and self._likelihoods and not has_noise_of_rows:
            likelihood = averaged(self._likelihoods)
        distribution = PredictiveDistribution(
            posterior,
            likelihood,
            X,
            relative(normal, quantity),
            getattr(self, "random_state", None),
            getattr(self, "n_jobs", None),
        )
        self._warn_about(points)
        return distribution

    def _rows_to_predict(self, X: ArrayLike) -> Array:
        """Rows (n, d), checked."""
        return check_X(self, X)

    def _check_functionals(self, seen: FunctionalRows, likelihood: Likelihood) -> None:
        """Refuse functionals that mean nothing under the likelihood."""

    def _noise_of_functionals(self, seen: FunctionalRows) -> Array | None:
        """Noise parameters (n,) of slopes beside values; None if all rows have one."""
        normal = normal_noise(self.likelihood_)
        is_slope = seen.derivative != VALUE
        if normal.row_quantity != "noise_variance" or not np.any(is_slope):
            return None
        by_column = np.zeros(self.n_features_in_)
        if self._noise_of_slopes is not None:
            by_column = self._noise_of_slopes
        relative_noise = np.where(is_slope, by_column[seen.derivative], 1.0)
        return relative_noise * np.ravel(normal.noise_parameter)[0]

    def _noise_at(self, X: Array) -> Array | None:
        """Noise parameters (n,) of rows without a given one; None for one of all."""

    def _warn_about(self, X: Array) -> None:
        """Warn, once for a call, where the rows of the fit say little of rows X."""
        # the range of fewer rows says little; a sum of models does not know its number
        n_rows = getattr(self, "_n_rows", np.inf)
        fewest_rows = 10
        if self._input_range is None or n_rows < fewest_rows:
            return
        is_far, column = far_outside(X, self._input_range)
        n_far = np.count_nonzero(is_far)
        # single rows of a large table may be outliers
        share_of_outliers = 0.05
        if n_far <= share_of_outliers * len(X):
            return
        low, high = self._input_range[:, column]
        values = X[is_far, column]
        warn(
            f"{n_far} of {len(X)} rows are far outside of the rows of the fit: in at "
            "least half of the columns by more than their range there (column "
            f"{column} goes from {values.min():.6g} to {values.max():.6g}, in the fit "
            f"from {low:.6g} to {high:.6g}). Predictions may be far from the truth. "
            "Check the units and the preparation of these rows.",
            PredictionWarning,
        )

    def sample_functions(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> FunctionDraws:
        """Draw latent functions from the posterior.

        Parameters
        ----------
        n_samples : int, default=1
            Number of functions.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None stands for the estimator's.

        Returns
        -------
        draws : FunctionDraws
            ``draws(X)`` has shape (n_rows, n_samples), or (n_rows, n_outputs,
            n_samples) for several latent outputs; latent values, in the units of y
            where the link is the identity. Where `likelihood_` is Warped, its
            `inverse` of them are medians of y; of several targets, which it expects on
            the last axis, of ``np.moveaxis(draws(X), 1, -1)``. Calling it again, on any
            rows, evaluates the same functions. Data frames are read as by `predict`.
        """
        check_is_fitted(self)
        n_samples = check_count(n_samples, "n_samples")
        if random_state is None:
            random_state = getattr(self, "random_state", None)
        draws = self.posterior_.draw(n_samples, generator(random_state))
        return draws.with_reader(RowReader(self))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self._takes_categories
        tags.target_tags.multi_output = self._takes_several_targets
        return tags


class LatentRegressor(RegressorMixin, LatentEstimator):
    """Regressor: predictions average the likelihood over the posterior."""

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
        exposure: RowValues = None,
        noise_variance: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Any:
        """Predictive mean, and on request its standard deviation or covariance.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of y.
        return_cov : bool, default=False
            Also return the covariance of y between the rows; where y has a scale of
            its own that of the scale times its slopes.
        include_noise : bool, default=True
            True for observations, as GaussianProcessRegressor with a WhiteKernel; False
            for the noise-free ``E[y | f(x)]``.
        exposure : array-like of shape (n_rows,) or float, default=None
            Exposure of the counts to predict. None stands for one: the mean of a count
            over one unit of the exposures of `fit` is the rate.
        noise_variance : array-like of shape (n_rows,) or float, default=None
            Variance of the noise of the observations to predict, in squared units of y
            (squared scale for StudentT); on a scale of y that was learned, times the
            square of its slope at the mean, to first order. None stands for the
            variance of `likelihood_`: the learned or given one, the variance of a
            `noise_model` at these rows, or the mean over the rows of `fit` if each had
            its own.
        derivative, widths, against : array-like, default=None
            As in `fit` of PLSRegressor: slopes along columns, means over boxes around
            the rows, and differences are predicted in the place of values, by models
            with inducing points or Fourier functions. Slopes have the noise that `fit`
            learned for slopes, if it saw any.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_targets)
            In the units of y.
        std : ndarray of shape (n_rows,) or (n_rows, n_targets)
            Only if `return_std`; in the units of y.
        covariance : ndarray of shape (n_rows, n_rows) or (n_rows, n_rows, n_targets)
            Only if `return_cov`; in squared units of y.

        Raises
        ------
        ValueError
            If both `return_std` and `return_cov` are set, or `return_cov` for a
            likelihood with another link than the identity.

        Notes
        -----
        Nothing is simulated: the moments of f, over the particles where there are some,
        have the residual and the noise integrated out. Computed in blocks of rows. A
        row takes O(m (m + s)) for m basis functions and s particles, O(N^2 (N + m))
        more given N nearest rows, and O(log n) in a series, times the number of models
        that are averaged.
        """
        if return_std and return_cov:
            raise ValueError(
                "At most one of return_std and return_cov can be requested; got both."
            )
        distribution = self._distribution(
            X,
            exposure=exposure,
            noise_variance=noise_variance,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        if return_cov:
            return distribution.mean(), distribution.covariance(include_noise)
        if not return_std:
            return distribution.mean()
        mean, variance = distribution.moments(include_noise)
        return mean, np.sqrt(variance)

    def predict_dist(
        self,
        X: ArrayLike,
        *,
        exposure: RowValues = None,
        noise_variance: RowValues = None,
        censoring: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> PredictiveDistribution:
        """Predictive distribution of y, an object that computes on request.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        exposure : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        noise_variance : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        censoring : array-like of shape (n_rows,) or float, default=None
            As in `fit`: where y is a bound, its log density is the log probability of
            the values that it allows. Nothing else depends on it.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        distribution : PredictiveDistribution
            With the methods `mean`, `std`, `quantile`, `interval`, `cdf`,
            `log_density` and `sample`; for several targets a list, one per target.
            :func:`skgpx.predict_dist` gives it for pipelines and searches.
        """
        # Any: callers with one target, almost all, get a distribution and no list
        distribution: Any = self._distribution(
            X,
            exposure=exposure,
            noise_variance=noise_variance,
            censoring=censoring,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        if distribution.n_targets > 1:
            return distribution._of_targets()
        return distribution

    def predict_quantiles(
        self,
        X: ArrayLike,
        quantiles: ArrayLike = (0.05, 0.5, 0.95),
        *,
        exposure: RowValues = None,
        noise_variance: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Quantiles of the predictive distribution of y.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        quantiles : array-like of shape (q,), default=(0.05, 0.5, 0.95)
            Levels strictly between 0 and 1.
        exposure : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        noise_variance : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        values : ndarray of shape (n_rows, q) or (n_rows, n_targets, q)
            In the units of y. Quantiles of the mixture over all particles, not
            multiples of the standard deviation.
        """
        distribution = self._distribution(
            X,
            exposure=exposure,
            noise_variance=noise_variance,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        levels = check_levels(quantiles, "quantiles")
        return distribution.quantile(np.atleast_1d(levels))

    def predict_interval(
        self,
        X: ArrayLike,
        coverage: float = 0.9,
        *,
        exposure: RowValues = None,
        noise_variance: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Central predictive interval of y.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        coverage : float, default=0.9
            Probability of the interval, in (0, 1).
        exposure : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        noise_variance : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        bounds : ndarray of shape (n_rows, 2) or (n_rows, n_targets, 2)
            Lower and upper end, in the units of y.
        """
        distribution = self._distribution(
            X,
            exposure=exposure,
            noise_variance=noise_variance,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        return distribution.interval(coverage)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: RandomState = None,
        *,
        exposure: RowValues = None,
        noise_variance: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Draw observations, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_samples : int, default=1
            Draws per row.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None stands for the estimator's.
        exposure : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        noise_variance : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Observations (counts for a Poisson likelihood): noise is included. Linear
            cost in the number of rows.
        """
        distribution = self._distribution(
            X,
            exposure=exposure,
            noise_variance=noise_variance,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        return distribution.sample(n_samples, random_state)

    def log_predictive_density(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        exposure: RowValues = None,
        noise_variance: RowValues = None,
        censoring: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Log density (or log probability) of each row's target.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
        exposure : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        noise_variance : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`.
        censoring : array-like of shape (n_rows,) or float, default=None
            As in `fit`: where y is a bound, its log density is the log probability of
            the values that it allows. Nothing else depends on it.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            ``log p(y_i | x_i, data)`` in nats and in the units of y; averaged over
            the posterior, noise included, and summed over targets. Its negative mean
            is the NLPD.
        """
        distribution = self._distribution(
            X,
            exposure=exposure,
            noise_variance=noise_variance,
            censoring=censoring,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        self._warn_of_missing(exposure)
        y = codes_of_grades(self.likelihood_, y)
        targets = check_targets(y, distribution, distribution.n_targets)
        density = distribution._log_density(targets)
        if targets.ndim > 1:
            return density.sum(axis=1)
        return density

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
        *,
        exposure: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> float:
        """Coefficient of determination R² of the predictive mean.

        Every y is treated as a value. R² has no meaning for censored rows, with bounds
        as y: use `log_predictive_density` with their `censoring`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
        sample_weight : array-like of shape (n_rows,), default=None
        exposure : array-like of shape (n_rows,) or float, default=None
            As in :meth:`predict`: y are counts over these.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict`.

        Returns
        -------
        score : float

        Warns
        -----
        PredictionWarning
            If `fit` was given exposures and `score` was not.
        """
        mean = self.predict(
            X,
            exposure=exposure,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        self._warn_of_missing(exposure)
        y = codes_of_grades(self.likelihood_, y)
        return float(r2_score(y, mean, sample_weight=sample_weight))

    def _check_functionals(self, seen: FunctionalRows, likelihood: Likelihood) -> None:
        """Refuse functionals of f that are none of y: on another scale, or of a link.

        A mean over a box is an approximation where f has a link, close for small boxes.
        """
        targets = getattr(self, "_targets", ())
        if targets:
            raise ValueError(
                "derivative, widths and against are for one target; got targets of "
                f"shape {('n_samples', *targets)}. Use an estimator for each target."
            )
        # E y is another function of f, or moved
        has_link = not likelihood.location_scale or likelihood.mean(0.0) != 0.0
        if not isinstance(likelihood, Warped) and not has_link:
            return
        if has_link and np.all(seen.level == 1.0):
            return
        raise ValueError(
            "derivative and against are slopes and differences of f in the units of "
            f"y; got {likelihood!r}, where y is on another scale than f. Use "
            "Gaussian() or StudentT(), or for slopes of f itself "
            "sample_functions(...).value_and_grad(X)."
        )

    def _warn_of_missing(self, exposure: RowValues) -> None:
        """Warn where counts are scored as if each were over one unit of exposure."""
        if exposure is not None or not getattr(self, "_exposed", False):
            return
        warn(
            "The model was fitted with exposures, and y is compared with counts over "
            "an exposure of one. Pass the exposure of these rows; in searches and "
            "cross-validation enable metadata routing and "
            "set_score_request(exposure=True).",
            PredictionWarning,
        )


class LatentClassifier(ClassifierMixin, LatentEstimator):
    """Classifier: probabilities are averaged over the posterior."""

    classes_: AnyArray

    def _check_classes(self) -> None:
        """Refuse rows of fewer than two classes."""
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes among the rows of "
                f"positive weight; got one class, {self.classes_.tolist()}. Add rows "
                "of another class."
            )

    def _class_likelihood(self) -> Likelihood:
        """The likelihood given, or the one of so many classes."""
        n_classes = len(self.classes_)
        if self.likelihood is None:
            return Bernoulli() if n_classes == 2 else Categorical()
        if self.likelihood.takes_classes(n_classes):
            return self.likelihood
        bernoulli = ", Bernoulli" if n_classes == 2 else ""
        raise ValueError(
            f"{type(self).__name__} with {n_classes} classes expects a likelihood of "
            f"classes (Categorical, RobustMax{bernoulli}); got {self.likelihood!r}."
        )

    def predict(
        self,
        X: ArrayLike,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Any:
        """Most probable class of each row; lazily, where probabilities are.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        derivative, widths, against : array-like, default=None
            As in :meth:`predict_proba`.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        probabilities: Any = self.predict_proba(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        if isinstance(probabilities, np.ndarray):
            return _most_probable(probabilities, self.classes_)
        return probabilities.map_blocks(
            _most_probable,
            self.classes_,
            dtype=self.classes_.dtype,
            drop_axis=1,
        )

    def predict_proba(
        self,
        X: ArrayLike,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Class probabilities averaged over the posterior.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        derivative, widths, against : array-like, default=None
            As in `fit` of PLSClassifier: slopes along columns, means over boxes around
            the rows, and differences are predicted in the place of values.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`; rows sum to one.
        """
        return self._distribution(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        ).stream(lambda likelihood, f: likelihood.predict_proba(f))

    def predict_log_proba(
        self,
        X: ArrayLike,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        derivative, widths, against : array-like, default=None
            As in :meth:`predict_proba`.

        Returns
        -------
        log_probabilities : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.log(
                self.predict_proba(
                    X,
                    derivative=derivative,
                    widths=widths,
                    against=against,
                )
            )

    def decision_function(self, X: ArrayLike) -> Array:
        """Log odds of the second of two classes, or log probabilities of more.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes)
            Of probabilities that are averaged over the posterior.
        """
        smallest = np.finfo(np.float64).tiny
        log_probabilities: Array = np.log(np.maximum(self.predict_proba(X), smallest))
        if len(self.classes_) > 2:
            return log_probabilities
        return log_probabilities[:, 1] - log_probabilities[:, 0]

    def latent_mean_and_variance(
        self,
        X: ArrayLike,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> tuple[Array, Array]:
        """Mean and variance of the latent function.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        derivative, widths, against : array-like, default=None
            As in :meth:`predict_proba`.

        Returns
        -------
        mean, variance : ndarray of shape (n_rows,), or (n_rows, n_classes)
            On the scale of the link (log odds for the logit); one latent function
            for two classes, otherwise one for each class.
        """
        distribution = self._distribution(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        c = distribution.likelihood.n_outputs_
        moments = distribution.stream(lambda _, f: np.concatenate(f.moments(), 1))
        mean = moments[:, :c].copy()
        variance = moments[:, c:].copy()
        if c == 1:
            return mean[:, 0], variance[:, 0]
        return mean, variance

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: RandomState = None,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> AnyArray:
        """Draw labels, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_samples : int, default=1
            Draws per row.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None stands for the estimator's.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict_proba`.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples)
            Linear cost in the number of rows.
        """
        codes = self._distribution(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        ).sample(n_samples, random_state)
        return self.classes_[codes.astype(np.intp)]

    def log_predictive_density(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Array:
        """Log probability of each row's label.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        derivative, widths, against : array-like, default=None
            As in :meth:`predict_proba`.

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            ``log p(y_i | x_i, data)`` in nats; averaged over the posterior. Its
            negative mean is the log loss.
        """
        check_labels(y)
        distribution = self._distribution(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        labels = check_targets(y, distribution)
        codes = np.searchsorted(self.classes_, labels)
        codes = np.minimum(codes, len(self.classes_) - 1)
        unknown = labels[self.classes_[codes] != labels]
        if len(unknown):
            raise ValueError(
                f"y must hold the classes {self.classes_.tolist()} only; got "
                f"{np.unique(unknown)[:5].tolist()}."
            )
        return distribution.log_density(codes.astype(np.float64))

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
        *,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> float:
        """Accuracy: share of the rows with their label as the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.
        derivative, widths, against : array-like, default=None
            As in :meth:`predict_proba`.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            For missing labels.
        """
        check_labels(y)
        labels = self.predict(
            X,
            derivative=derivative,
            widths=widths,
            against=against,
        )
        return float(accuracy_score(y, labels, sample_weight=sample_weight))


def _most_probable(probabilities: Array, classes: AnyArray) -> AnyArray:
    """Class of the largest probability in each row."""
    return classes[np.argmax(probabilities, axis=1)]
