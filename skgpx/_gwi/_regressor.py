"""Regression by Gaussian Wasserstein inference."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from skgpx._base import LatentRegressor
from skgpx._callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._gwi._around import (
    CONSTRAINTS,
    AroundOthersMixin,
    MeanSettings,
    check_folds,
    cross_fit_regressor,
    fit_around,
)
from skgpx._gwi._fit import GWIFit, GWIProblem
from skgpx._gwi._settings import NetworkSettings, ProcessSettings, Units
from skgpx._table import training_rows
from skgpx._validation import (
    HasMethods,
    Interval,
    StrOptions,
    canonical_rows,
    check_kernel,
    check_rows,
    fit_context,
    generator,
)
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]


class GWIRegressor(AroundOthersMixin, CallbackSupportMixin, LatentRegressor):
    """Gaussian-process uncertainty around a mean function.

    The posterior of the function is a Gaussian process with a mean of any kind,
    networks or kernel features by default, and a covariance that is small near inducing
    points and that of the prior far from them. Gaussian Wasserstein inference trains it
    by the expected log likelihood and the Wasserstein distance from the prior process;
    held-out rows then calibrate its variances.

    Parameters
    ----------
    mean : {"auto", "net", "svgp"} or regressor, default="auto"
        "net" is the average of networks with different starts; "svgp" is a weighted sum
        of the kernel features ``k(z, x)`` of the inducing points, by regularised least
        squares. "auto" trains networks, and takes "svgp" if their squared errors at
        held-out rows are more than 1.25 times those of an exact process of at most 1000
        rows (1.1 times if these are all rows, 0.9 times for one column), if residuals
        are autocorrelated and kernel features of all rows lower the error, or if there
        are too few held-out rows to compare. A regressor of any kind, also a Pipeline
        or a search, is cloned and fitted to all rows; clones fitted to other rows
        estimate its errors. ``FrozenEstimator(model)`` is used as it is.
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance of what the kernel sees, see `kernel_features`, with the bounds
        of its hyperparameters, which are found by the exact evidence of at most 500
        rows; a WhiteKernel added to it is the noise. None lets RBF and Matern kernels
        of order 5/2 and 3/2 compete.
    covariance : {"svgp", "closed_form", "bures", "empirical"}, default="svgp"
        "svgp" is the covariance of sparse regression. "closed_form" minimises the
        objective with the distance between the projections on the inducing points, by a
        formula: the posterior then ignores the noise there, and intervals in gaps are
        far too narrow; "bures" does the same by a search, for comparison. "empirical"
        starts from "svgp" and takes a thousand steps of Adam on the estimator of the
        paper.
    objective : {"paper", "root"}, default="paper"
        The squared distance, equation (61) of [1]_, or, "root", the objective of the
        authors' code: the distance itself, and a likelihood divided by `batch_size`.
    distance_weight : float, default=1.0
        Weight of the distance beside the expected log likelihood. With 0, ``mean=
        "svgp"`` and ``covariance="svgp"`` the model is that of sparse Gaussian
        regression.
    prior_mean : float, callable or None, default=None
        Mean of the prior process, in units of y: a number, or a function that maps (n,
        d) to (n,). None is the mean of y (zero without `normalize_y`).
    tempering : {"auto", "affine", "factor"} or None, default="auto"
        How held-out rows scale the variance ``r(x) + s`` of the process and the noise:
        "factor" multiplies both by one number, "affine" each by its own, in either case
        by maximum likelihood; "auto" is "affine" with a log-normal prior on both
        factors, of median one and standard deviation 1.5 on the log scale. It keeps the
        factor of the process at most one, because held-out rows near the data cannot
        identify a larger one.
    n_inducing : int or "auto", default="auto"
        Number of inducing points; "auto" is three times the root of the number of
        distinct rows, and at least 50; for ``mean="svgp"`` up to 500 where these leave
        more than 0.1 nats per observation unexplained and more of them reduce the
        leave-one-out squared error by at least a fifth.
    inducing : {"greedy", "k-means++", "random"}, array-like or callable, \
            default="greedy"
        See :func:`skgpx.bases.select_inducing`. Rows that calibrate variances are never
        inducing points, unless the points are given.
    optimizer : "evidence" or None, default="evidence"
        None keeps the parameters of the kernel.
    noise_variance : float or None, default=None
        Of the prior, in squared units of y. None learns it together with the kernel,
        with a thousandth of the variance of y as its lower bound. Its scale is
        calibrated, too.
    ridge : float, default=1.0
        Of ``mean="svgp"``: factor of the squared norm of its weights, which the
        distance alone hardly penalises. 1 is the posterior mean of sparse regression.
    hidden_layer_sizes : array-like of int or int, default=(10, 10)
        Units of the hidden layers of the networks.
    activation : {"tanh", "relu"}, default="tanh"
    n_restarts : int, default=5
        Number of networks, whose average is the mean.
    alpha : float, default=1e-4
        Weight of half the sum of squared weights of a network beside its mean squared
        error, for standardised columns and y.
    learning_rate : float, default=0.01
        First step size of Adam; it decays to zero as a cosine.
    batch_size : int, default=100
        Rows of a step.
    max_iter : int or "auto", default="auto"
        Passes over the rows; "auto" is three million over their number, between 30 and
        4000.
    validation_fraction : float, default=0.1
        Share of the rows that each network holds out, other rows for each, up to the
        fifth of them. They stop the training and calibrate variances; with 0, or fewer
        than 20 rows, neither is done.
    early_stopping : bool, default=True
        Whether a network is left as it was when its held-out rows were predicted best.
    normalize_y : bool, default=True
        Centre and scale y before fitting; the kernel refers to the standardised y.
    cv : int, splitter, iterable, "prefit" or None, default=None
        Folds on which a regressor is cross-fitted: a number of them, 5 for None, in
        random order, all copies of a row in one; or a splitter such as TimeSeriesSplit
        or GroupKFold; with `groups` a number is that of a GroupKFold. "prefit" declares
        that the regressor is fitted already, and not to the rows given to `fit`: it is
        used as it is. A FrozenEstimator without it raises a warning. Means of the
        library itself ignore it.
    edges : int, default=3
        The tenth of the rows at either end of so many principal directions of the
        inputs is held out in turn, too: two more fits a direction, of 50 or more rows.
        Their errors show how fast the uncertainty has to grow away from the data. With
        0, a splitter, or `groups`, only `cv` holds rows out.
    kernel_features : transformer or None, default=None
        Its output is the input of the kernel: scaled columns, encoded categories,
        imputed values. None is X itself, or, if that has text or missing values and the
        mean is a Pipeline, the output of its steps before the last.
    kernel_from : {"y", "residuals"}, default="y"
        Targets that the kernel is learned from if the mean is a regressor: "y", so that
        the process may vary as y does away from the data; or the errors at held-out
        rows, which are often noise alone.
    n_jobs : int or None, default=None
        Threads over networks, folds and blocks of rows. The result is the same to the
        last bit for every value.
    random_state : int, RandomState or None, default=None
        Seed of networks, of held-out rows and of the rows that hyperparameters are
        learned from.

    Attributes
    ----------
    mean_ : {"net", "svgp"} or estimator
        The regressor, fitted to all rows, if `mean` is one.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        For the standardised y.
    inducing_points_ : ndarray of shape (m, n_features)
    noise_variance_ : float
        In squared units of y, after calibration.
    temper_ : tuple of two floats
        Factors of the noise variance and of the variance of the process, fitted to
        held-out rows; ones without them.
    wasserstein_distance_ : float
        Distance of the process from its prior, before calibration: the root of a mean
        square over the rows, in units of y. An upper bound, within a tenth.
    loss_curve_ : ndarray of shape (n_epochs,)
        Half the mean squared error of each epoch, of the standardised y and averaged
        over networks; only for networks.
    held_out_curve_ : ndarray of shape (n_rounds,)
        The same of held-out rows, at the end of each of up to 50 rounds; empty without
        them.
    n_iter_ : int
        Largest number of epochs behind the networks; 1 for ``mean="svgp"``.
    posterior_ : LatentModel
        Mean, basis and posterior of the weights, from which every prediction is
        computed.
    likelihood_ : Likelihood
        Normal noise.
    stage_seconds_ : dict
        Wall time of the stages of :meth:`fit`: "search" (kernel and noise), "mean"
        (networks) and "law" (inducing points, covariance, variance scale).
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.

    See Also
    --------
    PLSRegressor : Sparse Gaussian processes whose mean is that of the process.
    skgpx.metrics.process_wasserstein_distance : Distance between two fitted models.

    Notes
    -----
    The process is ``f = m(x) + φ(x)ᵀw + g(x)``, with the features ``φ(x) =
    L⁻¹ k(Z, x)`` of inducing points Z, ``L Lᵀ = k(Z, Z)``, and the residual process g
    of the prior. A priori ``w ~ N(0, I)``; with n rows, noise s and distance weight λ
    the objective is smallest at ``w ~ N(0, I / c²)``, ``c = 1 + n / (2 s λ)``, whatever
    the data: the distance does not shape the uncertainty, which comes from g and from
    the variance scale. That is ``covariance="closed_form"``; the default keeps the
    noise of the data in w.

    A pass over the rows costs ``n p`` for networks of p parameters, the covariance ``n
    m²`` and a prediction ``m²`` a row.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import GWIRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, size=(150, 1))
    >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    >>> model = GWIRegressor(random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.0], [60.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.0)) < 0.1), bool(std[0] < 0.2), bool(std[1] > 0.4)
    (True, True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "mean": [StrOptions({"auto", "net", "svgp"}), HasMethods(["fit", "predict"])],
        "objective": [StrOptions({"paper", "root"})],
        "prior_mean": [Real, callable, None],
        "tempering": [StrOptions({"auto", "factor", "affine"}), None],
        "noise_variance": [Interval(Real, 0.0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0.0, None, closed="neither")],
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "normalize_y": ["boolean"],
        "edges": [Interval(Integral, 0, None, closed="left")],
        "kernel_from": [StrOptions({"y", "residuals"})],
    }

    def __init__(
        self,
        mean: Any = "auto",
        kernel: Any = None,
        *,
        covariance: str = "svgp",
        objective: str = "paper",
        distance_weight: float = 1.0,
        prior_mean: Any = None,
        tempering: str | None = "auto",
        n_inducing: int | str = "auto",
        inducing: Any = "greedy",
        optimizer: str | None = "evidence",
        noise_variance: float | None = None,
        ridge: float = 1.0,
        hidden_layer_sizes: Any = (10, 10),
        activation: str = "tanh",
        n_restarts: int = 5,
        alpha: float = 1e-4,
        learning_rate: float = 0.01,
        batch_size: int = 100,
        max_iter: int | str = "auto",
        validation_fraction: float = 0.1,
        early_stopping: bool = True,
        normalize_y: bool = True,
        cv: Any = None,
        edges: int = 3,
        kernel_features: Any = None,
        kernel_from: str = "y",
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.mean = mean
        self.kernel = kernel
        self.covariance = covariance
        self.objective = objective
        self.distance_weight = distance_weight
        self.prior_mean = prior_mean
        self.tempering = tempering
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.optimizer = optimizer
        self.noise_variance = noise_variance
        self.ridge = ridge
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.n_restarts = n_restarts
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.normalize_y = normalize_y
        self.cv = cv
        self.edges = edges
        self.kernel_features = kernel_features
        self.kernel_from = kernel_from
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn the prior, train the mean, and fit the process around it.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers; anything that `mean` takes, if that is a regressor.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out. A regressor that takes none gets repeated rows, if
            the weights are whole numbers.
        groups : array-like of shape (n_samples,), default=None
            Rows of a group are held out together, for means that are regressors: by the
            splitter `cv`, or by a GroupKFold if that is None or a number.

        Returns
        -------
        self : GWIRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, layers without units, a
            kernel that does not fit the columns of X, a prior mean that is not a
            finite number for each row, a mean that is a classifier or predicts what is
            not finite, or groups without a regressor or fewer of them than folds.

        Warns
        -----
        FitWarning
            If the kernel is periodic and the mean is not, no dependence of y on X was
            found, ``mean="net"`` is clearly worse than a Gaussian process, residuals
            are autocorrelated, or predictions are worse than the mean of y.
        """
        reporter = RoundReporter(self, X, y, sample_weight)
        check_folds(self.mean, self.cv, groups)
        if not isinstance(self.mean, str):
            self._fit_around(X, y, sample_weight, groups)
            reporter.finish()
            return self
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=True)
        check_kernel(self.kernel, X, self.noise_variance)
        units = Units.of(canonical_rows(X, y, weights), self.normalize_y)

        def report(fit: Callable[[], GWIFit]) -> bool:
            return reporter.round(lambda: self._attributes(fit(), units))

        clock = StageClock()
        problem = self._problem(units, generator(self.random_state))
        found = problem.fit(self.mean, clock, report)
        vars(self).update(self._attributes(found, units))
        vars(self).update(clock.attributes())
        reporter.finish()
        return self

    def _problem(self, units: Units, rng: np.random.Generator) -> GWIProblem:
        return GWIProblem(
            units.rows,
            units.prior_mean(self.prior_mean),
            ProcessSettings.of(self, units.scale),
            NetworkSettings.of(self),
            rng,
            self.n_jobs,
        )

    def _fit_around(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        """Fit around a regressor, whose input need not be numeric."""
        _check_mean(self.mean)
        clock, rng = StageClock(), generator(self.random_state)
        given = training_rows(self, X, y, sample_weight)
        settings = MeanSettings.of(self)
        cross_fitted = cross_fit_regressor(settings, given, groups, rng, self.n_jobs)
        clock.end_of("mean")
        check_kernel(self.kernel, cross_fitted.out_of_fold.rows.X, self.noise_variance)
        units = Units.of(cross_fitted.out_of_fold.rows, self.normalize_y)
        problem = self._problem(units, rng)
        how = self.kernel_from, units.shift, units.scale
        vars(self).update(
            self._attributes(fit_around(problem, cross_fitted, *how), units),
            mean_=cross_fitted.out_of_fold.cross_fit.estimator,
            _form=cross_fitted.out_of_fold.form,
        )
        clock.end_of("law")
        vars(self).update(clock.attributes())

    def _attributes(self, found: GWIFit, units: Units) -> dict[str, Any]:
        """Fitted attributes, in the units of y."""
        noise, factor = found.variance_scale
        noise_variance, networks = noise * units.scale**2, found.networks
        attributes = {
            "posterior_": found.model.affine(units.shift, units.scale),
            "likelihood_": Gaussian(noise_variance).prepare([0.0]),
            "noise_variance_": noise_variance,
            "kernel_": found.prior.kernel,
            "_record": found.record,
            "temper_": (noise / found.prior.noise_variance, factor),
            "inducing_points_": found.inducing_points,
            "wasserstein_distance_": found.distance * units.scale,
            "n_iter_": 1,
            "mean_": found.mean or "net",
        }
        return attributes if networks is None else attributes | networks.attributes()


def _check_mean(mean: Any) -> None:
    """Raise a ValueError for a classifier, or a class instead of an instance."""
    if isinstance(mean, type):
        raise ValueError(
            f"mean must be an estimator; got the class {mean.__name__}. Call it: "
            f"{mean.__name__}()."
        )
    if hasattr(mean, "__sklearn_tags__") and is_classifier(mean):
        raise ValueError(
            f"mean must be a regressor; got the classifier {mean!r}. Use "
            "GWIClassifier, or a regressor."
        )
