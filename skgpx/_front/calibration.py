"""Standard deviations calibrated on held-out errors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
)

from skgpx._numerics.variance_scale import fit_affine_scale, fit_scale
from skgpx._prediction.distribution import (
    NormalDistribution,
    Predictive,
    PredictiveDistribution,
    RescaledDistribution,
)
from skgpx._reports.report import Reporting
from skgpx._shell.callbacks import StageClock
from skgpx._shell.cross_fitting import cross_fit
from skgpx._shell.tables import as_table, is_numeric, training_rows
from skgpx._shell.validation import (
    StrOptions,
    check_columns,
    check_is_fitted,
    check_range,
    check_size,
    fit_context_of_nested,
    validate_data,
)
from skgpx._shell.wrapped import best_of, is_search, predict_keywords, unwrapped
from skgpx._types import Array, ArrayLike, RowValues


class TemperedRegressor(MetaEstimatorMixin, RegressorMixin, Reporting, BaseEstimator):
    """Any regressor with standard deviations, calibrated on its held-out errors.

    Clones of the regressor are fitted on folds; their held-out errors determine a
    factor of the variance, or two numbers a and b in ``a + b r``, by maximum
    likelihood. The mean is unchanged.

    Parameters
    ----------
    estimator : estimator
        Regressor with `return_std` in its `predict`: of this library, a
        GaussianProcessRegressor, BayesianRidge, a Pipeline that ends in one, a search
        over one. It is cloned. ``FrozenEstimator(model)`` is used as it is.
    method : {"factor", "affine"}, default="factor"
        "factor" multiplies the variance v by T, the mean of ``error^2 / v``, shrunk
        towards one by the standard error of its logarithm; up to four held-out rows
        leave one. "affine" is ``a + b r`` with
        a, b >= 0, by maximum likelihood; r is the variance of the noise-free function
        where `predict` of the regressor takes `include_noise`, as all of this library
        do, and v otherwise.
    cv : int, splitter, iterable, "prefit" or None, default=None
        Folds. A number, 5 for None, stands for so many folds of the distinct rows in
        random order (always the same); splitters, such as TimeSeriesSplit and
        GroupKFold, must have no row in two test sets. "prefit", or a FrozenEstimator,
        declares that the estimator is fitted: the rows given to :meth:`fit` then only
        calibrate the variance, and should not be rows that it was fitted to.
    n_jobs : int or None, default=None
        Folds side by side, in threads unless joblib is configured otherwise. The
        result is the same for every value.

    Attributes
    ----------
    estimator_ : estimator
        Fitted to all rows; the estimator itself if it was fitted before.
    constant_ : float
        a, in squared units of y; zero for "factor".
    slope_ : float
        b, or the factor T.
    stage_seconds_ : dict
        Wall time of the stages "fits" (on folds and on all rows) and "scale".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.

    See Also
    --------
    skgpx.predict_dist : Predictive distributions of any regressor.

    Notes
    -----
    Standard deviations become right on average over rows like the rows of `fit`. One
    factor cannot correct standard deviations that are too small at some rows and too
    large at other rows; a and b can, as far as r distinguishes these rows. Both methods
    follow from the normal likelihood [1]_; the shape of the predictive distribution,
    which is stretched about its mean, is arbitrary. With kurtosis κ of the standardised
    errors the standard error of log T is the root of ``(κ - 1) / (n - 4)``: a few
    errors with heavy tails leave T near one.

    Costs as many fits as there are folds, and one more.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022, A.7.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx import TemperedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 6.0, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(200)
    >>> timid = GaussianProcessRegressor(RBF(1.0), alpha=4.0, optimizer=None)
    >>> model = TemperedRegressor(timid, method="affine").fit(X, y)
    >>> model.predict([[3.0]], return_std=True)[1].round(1)
    array([0.3])
    >>> model.predict_interval([[3.0]], 0.95).shape
    (1, 2)
    """

    # Pipeline.predict(X, return_std=True) also works with metadata routing on
    __metadata_request__predict: ClassVar = {"return_std": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "method": [StrOptions({"factor", "affine"})],
        "cv": ["cv_object", StrOptions({"prefit"})],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: RegressorMixin,
        *,
        method: str = "factor",
        cv: int | str | BaseCrossValidator | Iterable[ArrayLike] | None = None,
        n_jobs: int | None = None,
    ):
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    @fit_context_of_nested
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
        *,
        groups: RowValues = None,
    ) -> Self:
        """Fit clones on folds, calibrate the variance, and fit to all rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Whatever the estimator takes, sparse matrices excepted.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out. An estimator that takes none, or with metadata
            routing does not request them, gets repeated rows, if the weights are whole
            numbers.
        groups : array-like of shape (n_samples,), default=None
            For splitters that use them. With a number of folds, a GroupKFold.

        Returns
        -------
        self : TemperedRegressor

        Raises
        ------
        ValueError
            If the estimator has no standard deviations, y is not finite, or no row is
            held out.

        Warns
        -----
        DataWarning
            If there are weights, and the estimator cannot take them.
        """
        clock = StageClock()
        rows = training_rows(self, X, y, sample_weight)
        if not _takes(self.estimator, "return_std"):
            raise ValueError(_refusal(self.estimator))
        is_affine = self.method == "affine"
        self._parts_noise = is_affine and _takes(self.estimator, "include_noise")
        if is_numeric(rows.X):
            check_range("X", np.asarray(rows.X, dtype=np.float64))
        # moments of held-out rows
        try:
            folds = cross_fit(
                self.estimator,
                rows,
                partial(moments_of, parts_noise=self._parts_noise),
                cv=self.cv,
                groups=groups,
                n_jobs=self.n_jobs,
            )
        except TypeError:
            # estimators take dates if they are pipelines that convert them
            check_columns(rows.X)
            raise
        held_out = folds.held_out
        if not np.any(held_out):
            raise ValueError(
                "TemperedRegressor needs at least two distinct rows, so that a row can "
                f"be held out; got n_samples={len(folds.positions)}."
            )
        clock.end_of("fits")
        moments = folds.predictions[held_out]
        weights = folds.weights[held_out]
        errors = rows.y[folds.positions[held_out]] - moments[:, 0]
        squares = errors**2
        # up to four rows do not determine a variance
        if is_affine and len(squares) > 4:
            self.constant_, self.slope_ = fit_affine_scale(
                squares,
                moments[:, -1],
                weights,
            )
        else:
            self._parts_noise = False
            self.constant_ = 0.0
            self.slope_ = fit_scale(squares, moments[:, 1], weights)
        self.estimator_ = folds.estimator
        # the smallest standard deviation is rounding of the largest target
        largest = float(np.max(np.abs(rows.y))) or 1.0
        self._min_variance = (np.finfo(np.float64).eps * largest) ** 2
        clock.end_of("scale")
        self._record = {"calibration_rows": len(squares)}
        self.stage_seconds_ = clock.seconds
        return self

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Predictive mean, and on request the calibrated standard deviation.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of y.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
            The mean of `estimator_`.
        std : ndarray of shape (n_rows,)
            Only if `return_std`; in the units of y.
        """
        X = self._check(X)
        if not return_std:
            return best_of(self.estimator_).predict(X)
        mean, variance, _ = self._moments(X)
        return mean, np.sqrt(variance)

    def predict_dist(self, X: ArrayLike) -> Predictive:
        """Predictive distribution of y: moments, quantiles, densities and draws.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)

        Returns
        -------
        distribution : Predictive
            The distribution of `estimator_`, stretched about its mean, if the estimator
            has a method `predict_dist`; otherwise normal, and independent between rows.

        Raises
        ------
        ValueError
            For distributions of counts, which cannot be stretched.
        """
        X = self._check(X)
        mean, variance, uncalibrated = self._moments(X)
        model, rows = unwrapped(self.estimator_, X)
        inner = None
        if hasattr(model, "predict_dist"):
            inner = model.predict_dist(rows)
        # a distribution of zero variance cannot be stretched
        if inner is None or not np.all(uncalibrated > 0.0):
            return NormalDistribution(mean, np.sqrt(variance))
        if isinstance(inner, PredictiveDistribution) and not (
            inner.likelihood.location_scale or inner.likelihood.has_scale_of_y
        ):
            raise ValueError(
                "predict_dist stretches the distribution of y about its mean, which is "
                f"not possible for counts; got {inner.likelihood!r}. Use "
                "predict(X, return_std=True) for calibrated standard deviations."
            )
        return RescaledDistribution(inner, mean, np.sqrt(variance / uncalibrated))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Central predictive interval of y.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
        coverage : float, default=0.9
            Probability of the interval, in (0, 1).

        Returns
        -------
        bounds : ndarray of shape (n_rows, 2)
            Lower and upper end, in the units of y.
        """
        return self.predict_dist(X).interval(coverage)

    def get_metadata_routing(self) -> MetadataRouter:
        """Where `sample_weight` and `groups` go with metadata routing enabled.

        Returns
        -------
        routing : sklearn.utils.metadata_routing.MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # `fit` raises the error for an invalid estimator
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator).input_tags
            for name in ("allow_nan", "categorical", "string"):
                setattr(tags.input_tags, name, getattr(inner, name))
        tags.target_tags.multi_output = False
        return tags

    def _check(self, X: ArrayLike) -> Any:
        check_is_fitted(self, "slope_")
        table = as_table(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        if is_numeric(table):
            check_size(np.asarray(table, dtype=np.float64))
        return table

    def _moments(self, X: ArrayLike) -> tuple[Array, Array, Array]:
        """Mean, and variance after and before calibration, (n,) each."""
        moments = moments_of(self.estimator_, X, parts_noise=self._parts_noise)
        # a + b r
        calibrated = self.constant_ + self.slope_ * moments[:, -1]
        variance = np.maximum(calibrated, self._min_variance)
        return moments[:, 0], variance, moments[:, 1]


def moments_of(estimator: RegressorMixin, X: ArrayLike, parts_noise: bool) -> Array:
    """Mean, variance and, on request, variance without noise: (n, 2) or (n, 3).

    Raises
    ------
    ValueError
        If the estimator has no standard deviations.
    """
    estimator = best_of(estimator)
    mean, std = estimator.predict(X, return_std=True)
    if np.ndim(std) != 1:
        raise ValueError(_refusal(estimator))
    columns = [mean, np.square(std)]
    if parts_noise:
        _, latent_std = estimator.predict(X, return_std=True, include_noise=False)
        columns.append(np.square(latent_std))
    return np.column_stack(columns).astype(np.float64)


def _refusal(estimator: object) -> str:
    return (
        "TemperedRegressor expects a regressor of one target whose predict takes "
        f"return_std; got {estimator!r}. GWIRegressor puts standard deviations around "
        "any regressor."
    )


def _takes(estimator: RegressorMixin, keyword: str) -> bool:
    """Whether `predict` takes a keyword, in pipelines, searches and frozen ones."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, FrozenEstimator) or is_search(estimator):
            estimator = estimator.estimator
        else:
            return keyword in predict_keywords(estimator)
