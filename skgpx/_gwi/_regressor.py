"""Regression by Gaussian Wasserstein inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from skgpx._gwi._base_models import (
    BaseModel,
    BaseModelMixin,
    Splits,
    TableForm,
    predictions_of,
)
from skgpx._gwi._networks import (
    TrainedNetworks,
    hold_out,
    squared_error,
    stays_behind,
    train_networks,
)
from skgpx._gwi._noise import (
    LearnedNoise,
    NoiseRows,
    learn_noise,
    likelihood_of_errors,
)
from skgpx._gwi._process import (
    FittedMean,
    FittedProcess,
    around_zero,
    fit_process,
    leave_one_out,
)
from skgpx._hyperparameters import NormalForm, learn_scale, search_findings
from skgpx._latent import LatentModel, Mean, MixtureModel
from skgpx._numerics.variance_scale import fit_scale
from skgpx._prediction.base import LatentRegressor
from skgpx._shell.callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._shell.tables import training_rows
from skgpx._shell.validation import (
    COUNT,
    HYPERPARAMETERS,
    INTERACTIONS,
    NOT_NEGATIVE,
    POSITIVE,
    SEARCHED,
    HasMethods,
    Interval,
    Rows,
    StrOptions,
    canonical_rows,
    check_kernel,
    check_likelihood_given,
    check_rows,
    fit_context,
    generator,
    kernel_of,
    standardisation,
)
from skgpx._types import (
    Array,
    ArrayLike,
    Attributes,
    Generator,
    Interactions,
    Kernel,
    RandomState,
    RowValues,
)
from skgpx.diagnostics import (
    Findings,
    better_process,
    check_residuals,
    conclude,
)
from skgpx.kernels import split_noise
from skgpx.likelihoods import Gaussian, Likelihood, StudentT

# Constraints that regressor and classifier share.
CONSTRAINTS: dict[str, Any] = {
    "kernel": [Kernel, None],
    "hyperparameters": HYPERPARAMETERS,
    "calibrate": ["boolean"],
    "n_inducing": [COUNT, StrOptions({"auto"})],
    "inducing": [StrOptions({"greedy", "k-means++", "m-dpp", "random"})],
    "kernel_features": [HasMethods(["fit", "transform"]), None],
    "cv": ["cv_object", StrOptions({"prefit"})],
    "hidden_layer_sizes": ["array-like", COUNT],
    "n_estimators": [COUNT],
    "alpha": [NOT_NEGATIVE],
    "learning_rate_init": [POSITIVE],
    "max_iter": [COUNT, StrOptions({"auto"})],
    "validation_fraction": [Interval(Real, 0.0, 0.5, closed="both")],
    **SEARCHED,
}


class _Problem(NamedTuple):
    """The process of the standardised y, which means are compared with.

    Attributes
    ----------
    rows : Rows
        Their y is ``(y - shift) / scale``.
    shift, scale : float or ndarray of shape (t,)
    process : FittedProcess
    variance : ndarray of shape (n,) or (n, t)
        Variance of f at each row, given the others.
    regression : FittedMean
        The mean of the process, with leave-one-out predictions of all rows.
    """

    rows: Rows
    shift: float | Array
    scale: float | Array
    process: FittedProcess
    variance: Array
    regression: FittedMean


class GWIRegressor(BaseModelMixin, CallbackSupportMixin, LatentRegressor):
    """Gaussian-process uncertainty around a mean function.

    The posterior of the function is a Gaussian process with a mean of any kind,
    networks or another regressor, and a covariance that is small near the data and that
    of the prior far from them. Held-out rows calibrate the variances near the data.

    Parameters
    ----------
    mean : {"auto", "net", "svgp"} or regressor, default="auto"
        "net" is the average of networks, trained on the objective of Gaussian
        Wasserstein inference; "svgp" is the regression in the basis of the covariance,
        in closed form, as in sparse Gaussian processes. "auto" is "net" where networks
        have the higher log density at held-out rows, by more than two standard errors,
        and "svgp" otherwise. A regressor of any kind, also a Pipeline or a search, is
        cloned and fitted to all rows; clones fitted on folds estimate its errors.
        ``FrozenEstimator(model)`` is used as it is.
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance on the columns of X, or on `kernel_features`, with the bounds
        of its hyperparameters, which maximise the evidence. It refers to the
        standardised y; a WhiteKernel added to it is the noise. None lets RBF and Matern
        kernels of order 5/2 and 3/2 compete, of the columns and of
        :class:`~skgpx.kernels.Directions`, unless `interaction_cst` is stated.
    optimizer : "evidence" or None, default="evidence"
        None keeps the hyperparameters of the kernel; the noise is still learned.
    hyperparameters : {"auto", "average", "maximise"}, default="auto"
        "average" draws up to 96 states of kernel and noise from their posterior;
        covariances, and the regression of the process, are mixtures over them.
        "maximise" takes the state of the largest posterior. "auto" averages
        below 4500 rows, as in :class:`PLSRegressor`. With several targets,
        `likelihood` or `noise_model` a state is chosen in any case.
    interaction_cst : {"no_interactions", "pairwise"}, list or tuple, default=None
        Which columns the default kernel lets interact, as in scikit-learn's
        HistGradientBoostingRegressor: the latent function is a sum of functions of one
        column each, of at most two, or of groups of columns such as ``[["time",
        "place"], [3]]``, by name or number; those in no group are one more. With a
        `kernel` of yours it is a ValueError. A `mean` that is given is not limited, and
        "auto" is then "svgp".
    noise_variance : float or None, default=None
        Noise variance of the process, in squared units of y; None learns it together
        with the kernel, and calibrates it on held-out rows afterwards.
    likelihood : {"gaussian", "student_t"}, StudentT or None, default=None
        Noise around the function. None is normal noise and, around means that are not
        given, one of a function of y where that is more probable, as in
        :class:`PLSRegressor`; "gaussian" is noise of y itself. Student's distribution
        has heavy tails; its scale and degrees of freedom maximise the density of the
        errors at held-out rows. ``StudentT(df)`` keeps the degrees of freedom, and its
        scale if that is given. The variance of noise with ``df <= 2`` is infinite, and
        so are `noise_variance_` and standard deviations with noise; intervals,
        quantiles and densities are finite. The process is fitted by normal noise in any
        case; without held-out rows the noise is normal, too.
    noise_model : regressor, "boosting" or None, default=None
        How the scale of the noise varies: a regressor that is fitted to the logarithms
        of the absolute errors at held-out rows. Folds tell how much of it is kept, and
        it stays in the range that it has at these rows. "boosting" is a booster of few
        trees with the deviance of the gamma distribution; see Notes. Noise is the same
        everywhere for None, and with fewer than ten held-out rows. It gets X as a table
        of the kind given to `fit`, with its names and categories.
    calibrate : bool, default=True
        Whether held-out errors scale the noise; False leaves that of the evidence, as
        untempered predictions of the paper have it.
    n_inducing : int or "auto", default="auto"
        Number of inducing points; "auto" is as many as the kernel needs, at most 2500.
    inducing : {"greedy", "k-means++", "m-dpp", "random"}, default="greedy"
        How they are chosen among the rows: by greedy conditional variance, spread over
        the inputs, as a draw from the determinantal process of the kernel matrix (see
        :func:`skgpx.bases.select_inducing`), or at random, as in the paper.
    hidden_layer_sizes : array-like of int or int, default=(10, 10)
        Units of the hidden layers of the networks, with tanh.
    n_estimators : int, default=5
        Number of networks, whose average is the mean.
    alpha : float, default=1e-4
        L2 penalty of the weights of a network: the loss is ``(MSE + alpha
        ‖weights‖²) / 2``, for standardised columns and y.
    learning_rate_init : float, default=0.01
        First step size of Adam; it decays to zero as a cosine.
    max_iter : int or "auto", default="auto"
        Largest number of passes over the rows; "auto" is three million over their
        number, between 30 and 1000. Training stops sooner where the loss of held-out
        rows no longer falls, and with ``mean="auto"`` where networks do not reach the
        process at the pace of the last rounds.
    validation_fraction : float, default=0.1
        Share of the rows that each network holds out, other rows for each, at most
        2000. They stop the training, compare means and calibrate variances; with 0, or
        fewer than 20 rows, none are held out.
    cv : int, splitter, iterable, "prefit" or None, default=None
        Folds on which a regressor is cross-fitted: a number of them, 5 for None, in
        random order, all copies of a row in one; or a splitter such as TimeSeriesSplit
        or GroupKFold; with `groups` a number is that of a GroupKFold. "prefit" declares
        that the regressor is fitted already, and not to the rows given to `fit`: it is
        used as it is. A FrozenEstimator without it raises a warning. Means of the
        library itself ignore it.
    kernel_features : transformer or None, default=None
        Its output is the input of the kernel: scaled columns, encoded categories,
        imputed values. None is X itself, with a kernel of categories for columns of
        that type; or, if the mean is a Pipeline and X is not numeric, the output of its
        steps before the last.
    n_jobs : int or None, default=None
        Threads over folds and blocks of rows. The result is the same to the last bit
        for every value.
    random_state : int, RandomState or None, default=None
        Seed of networks, of held-out rows and of the search for hyperparameters.

    Attributes
    ----------
    mean_model_ : {"net", "svgp"} or estimator
        The regressor, fitted to all rows, if `mean` is one.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        For the standardised y; where hyperparameters are averaged it is that of the
        state of the largest weight, as `inducing_points_` are.
    hyperparameter_states_ : tuple of State
        Kernel, calibrated noise (in the units of y) and weight of each state that is
        averaged, from the largest weight; empty where one is chosen.
    inducing_points_ : ndarray of shape (m, n_features)
    noise_variance_ : float or ndarray of shape (n_targets,)
        In squared units of y; that of `noise_variance` or of a WhiteKernel that is
        fixed, if one is given, and otherwise after calibration; with a noise model the
        mean over the held-out rows, and of averaged hyperparameters over the states.
    variance_scale_ : float or ndarray of shape (n_targets,)
        Factor of predictive variances near the data that held-out errors support, with
        the squared scale of noise whose variance is infinite; one without held-out rows
        or calibration, and where the noise is given.
    loss_curve_ : ndarray of shape (n_epochs,)
        Half the mean squared error of each epoch, of the standardised y and averaged
        over networks; only if networks were trained.
    validation_curve_ : ndarray of shape (n_rounds,)
        The same for held-out rows, at the end of each of up to 50 rounds; empty without
        them.
    n_iter_ : int
        Largest number of epochs of a network; 1 without networks.
    posterior_ : LatentModel or MixtureModel
        Mean, basis and posterior of the weights, from which every prediction is
        computed; a mixture has a model for each state of the hyperparameters.
    likelihood_ : Gaussian, Warped or StudentT
        The noise; with a noise model that of a typical row.
    noise_model_ : estimator or None
        The noise model, fitted to the errors at all held-out rows; None without one.
    findings_ : tuple of Finding
        Findings of the diagnostics of the fit.
    stage_seconds_ : dict
        Wall time of the stages of :meth:`fit`: "process", "mean" and "calibration".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    categories_ : dict of ndarray
        Categories of the columns of X whose type is category, by name; a code is a
        position among them. Only if X has such columns.

    See Also
    --------
    PLSRegressor : Sparse Gaussian processes whose mean is that of the process; better
        from some 4500 rows on, as it adds nearest rows.
    skgpx.metrics.process_wasserstein_distance : Distance between two fitted models.

    Notes
    -----
    The process is ``f = m(x) + φ(x)ᵀw + g(x)``, with the features ``φ(x) =
    L⁻¹ k(Z, x)`` of inducing points Z, ``L Lᵀ = k(Z, Z)``, and the residual process g
    of the prior; the covariance of w is ``(I + ΦᵀΦ / σ²)⁻¹``, from which the authors of
    [1]_ start. With n rows the objective of the mean is ``Σ (y - m)² / (2 σ²) + mean
    (m - m_P)²``: least squares with a slight pull to the prior mean.

    With `noise_model` or heavy tails the errors at held-out rows, where the process has
    the variance r, are ``e = g + s(x) ε`` with ``g ~ N(0, r)``, ``log s(x) = a + b
    h(x)`` and ε normal or Student. The noise model h is regressed on ``log |e|``; a, b
    and the degrees of freedom maximise the density of the errors at its out-of-fold
    predictions. The prior of the degrees of freedom is Gamma(2, 0.1), from 2.5 to 100.
    "boosting" is ``TransformedTargetRegressor(HistGradientBoostingRegressor(
    loss="gamma", max_iter=40, max_leaf_nodes=6), func=np.exp, inverse_func=np.log)``,
    which is fitted to ``|e|``. Means and the process are the same as without. This is
    not in the paper.

    Averaged hyperparameters give a mixture of such processes: around the regression of
    the process each has a mean of its own, around another mean only covariances and
    noises differ. Leave-one-out errors and variances are the moments of the mixture,
    with the weights that the other rows give to the states. Calibration adds the same
    variance to the noise of every state; where it makes the noise smaller it multiplies
    all by the same factor.

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

    Noise with heavy tails, whose scale grows with the input:

    >>> from sklearn.linear_model import Ridge
    >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.exp(X[:, 0]) * rng.standard_t(4, 150)
    >>> model = GWIRegressor(
    ...     "svgp", likelihood="student_t", noise_model=Ridge(), random_state=0
    ... ).fit(X, y)
    >>> low, high = model.predict_interval([[-2.0], [2.0]]).T
    >>> width = high - low
    >>> bool(width[1] > 3.0 * width[0])
    True
    """

    # stated, where functions must be those of y itself
    _noise_of_y: ClassVar[Any] = "gaussian"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "mean": [StrOptions({"auto", "net", "svgp"}), HasMethods(["fit", "predict"])],
        "interaction_cst": INTERACTIONS,
        "noise_variance": [POSITIVE, None],
        "likelihood": [StrOptions({"gaussian", "student_t"}), Likelihood, None],
        "noise_model": [StrOptions({"boosting"}), HasMethods(["fit", "predict"]), None],
    }

    def __init__(
        self,
        mean: BaseEstimator | str = "auto",
        kernel: Kernel | None = None,
        *,
        optimizer: str | None = "evidence",
        hyperparameters: str = "auto",
        interaction_cst: Interactions = None,
        noise_variance: float | None = None,
        likelihood: Gaussian | StudentT | str | None = None,
        noise_model: BaseEstimator | str | None = None,
        calibrate: bool = True,
        n_inducing: int | str = "auto",
        inducing: str = "greedy",
        hidden_layer_sizes: int | Sequence[int] = (10, 10),
        n_estimators: int = 5,
        alpha: float = 1e-4,
        learning_rate_init: float = 0.01,
        max_iter: int | str = "auto",
        validation_fraction: float = 0.1,
        cv: Splits = None,
        kernel_features: BaseEstimator | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.mean = mean
        self.kernel = kernel
        self.optimizer = optimizer
        self.hyperparameters = hyperparameters
        self.interaction_cst = interaction_cst
        self.noise_variance = noise_variance
        self.likelihood = likelihood
        self.noise_model = noise_model
        self.calibrate = calibrate
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_estimators = n_estimators
        self.alpha = alpha
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.kernel_features = kernel_features
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    @fit_context
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
        *,
        groups: RowValues = None,
    ) -> Self:
        """Fit the process, train the mean, and calibrate the variances around it.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers; anything that `mean` takes, if that is a regressor.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets are independent functions with one kernel, each with its own
            noise unless that is given, and its own scale of y; networks have one output
            for each. If `mean` is a regressor y is one target.
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
            kernel that does not fit the columns of X, a mean that is a classifier or
            predicts what is not finite, groups without a regressor or fewer of them
            than folds, a likelihood that is neither normal nor Student's, or heavy
            tails or a noise model with several targets, with `noise_variance`, or with
            a WhiteKernel that is fixed.

        Warns
        -----
        FitWarning
            Lists the findings of the diagnostics: residuals that are autocorrelated, a
            mean that is much worse than the process, a frozen regressor.
        """
        reporter = RoundReporter(self, X, y, sample_weight)
        clock = StageClock()
        self._check_groups(groups)
        self._check_noise()
        streams = generator(self.random_state).spawn(5)
        search_rng, train_rng, fold_rng, noise_rng, scale_rng = streams
        rows, base_model = self._rows(X, y, sample_weight, groups, fold_rng)
        clock.end_of("process" if base_model is None else "mean")
        check_kernel(kernel_of(self), rows.X, self.noise_variance)

        # 1  The process: prior, inducing points, regression in their basis.
        form = NormalForm.of(self._scale_of_y(rows, base_model, scale_rng), rows)
        problem = self._fit_process(form.rows, search_rng)
        learn_noise_of = None
        if not self._has_plain_noise:
            learn_noise_of = partial(
                self._learn_noise,
                problem,
                base_model,
                groups,
                int(noise_rng.integers(2**31)),
            )
        attributes_of = partial(self._attributes, problem, form, learn_noise_of)
        clock.end_of("process")

        # 2  The mean, and its predictions of held-out rows.
        if base_model is None:
            mean = self._regression_or_networks(
                problem,
                train_rng,
                reporter,
                attributes_of,
            )
        else:
            # another estimator as the mean of the standardised y
            fits = base_model.cross_fit
            held_out = np.flatnonzero(fits.held_out)
            shift = problem.shift
            scale = problem.scale
            function = Mean.of(base_model.function, 1).affine(
                -shift / scale, 1.0 / scale
            )
            mean = FittedMean(
                name=fits.estimator,
                functions=[function],
                held_out=held_out,
                predictions=(fits.predictions[held_out, 0] - shift) / scale,
                map=base_model.map,
            )
        clock.end_of("mean")

        # 3  The noise, calibrated on the errors of the mean.
        self.__dict__.update(attributes_of(mean))
        clock.end_of("calibration")

        self.stage_seconds_ = clock.seconds
        # normal noise around a constant, which a base model is not
        is_plain_process = base_model is None and learn_noise_of is None
        findings = [
            *search_findings(problem.process.priors, problem.rows),
            *_residual_findings(problem, mean, self.likelihood_, is_plain_process),
        ]
        if base_model is not None:
            findings.insert(0, base_model.finding)
        conclude(self, findings, sample_weight)
        reporter.finish()
        return self

    @property
    def _has_plain_noise(self) -> bool:
        """Whether the noise is normal and the same everywhere.

        Tags ask this of parameters that are not checked yet.
        """
        noise = likelihood_of_errors(self.likelihood)
        is_normal = isinstance(noise, Likelihood) and noise.has_closed_form
        return self.noise_model is None and is_normal

    def _check_noise(self) -> None:
        """Refuse other noise than normal or Student's, and one that is given twice."""
        likelihood = self.likelihood
        if not isinstance(likelihood, str):
            check_likelihood_given(likelihood)
        noise = likelihood_of_errors(likelihood)
        if not isinstance(noise, Gaussian | StudentT):
            raise ValueError(
                'GWIRegressor expects the likelihood "gaussian", "student_t", or '
                f"StudentT(); got {likelihood!r}. PLSRegressor has others."
            )
        if noise.has_closed_form and noise.noise_parameter is not None:
            raise ValueError(
                f"The variance of normal noise is noise_variance; got {likelihood!r}. "
                f"Pass noise_variance={noise.noise_parameter!r}."
            )
        if self._has_plain_noise:
            return
        learned = f"likelihood={likelihood!r} and noise_model={self.noise_model!r}"
        if self.noise_variance is not None:
            raise ValueError(
                "noise_variance is that of normal noise which is the same everywhere; "
                f"got it with {learned}. Omit it, or these."
            )
        if self.kernel is not None:
            # a WhiteKernel whose level is not learned
            _, level, bounds = split_noise(self.kernel)
            is_fixed = self.optimizer is None or isinstance(bounds, str)
            if level is not None and is_fixed:
                raise ValueError(
                    f"The WhiteKernel in kernel={self.kernel!r} is the variance of "
                    "normal noise which is the same everywhere, and fixed by its "
                    f"bounds or by optimizer=None; got it with {learned}, which are "
                    "learned from held-out errors. Remove the WhiteKernel, or omit "
                    "these."
                )
        if not self.calibrate:
            raise ValueError(
                "calibrate=False keeps the normal noise of the evidence; got it with "
                f"{learned}, which are learned from held-out errors. Omit it, or these."
            )
        if self.noise_model is not None and noise.noise_parameter is not None:
            raise ValueError(
                "noise_model learns the scale of the noise, which the likelihood "
                f"{likelihood!r} has. Omit one of them."
            )

    def _rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues,
        groups: RowValues,
        rng: Generator,
    ) -> tuple[Rows, BaseModel | None]:
        """Rows of the process, and the base model."""
        mean = self.mean
        if isinstance(mean, str):
            X, y, weights = check_rows(self, X, y, sample_weight, numeric=True)
            return canonical_rows(X, y, weights), None
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
        base_model = self._base_model(
            training_rows(self, X, y, sample_weight),
            groups,
            predict=predictions_of,
            stratify=False,
            rng=rng,
        )
        rows = Rows(base_model.inputs, base_model.y, base_model.cross_fit.weights)
        return rows, base_model

    def _scale_of_y(
        self,
        rows: Rows,
        base_model: BaseModel | None,
        rng: Generator,
    ) -> Likelihood:
        """Normal noise, by default on the scale of y that the evidence prefers.

        Means that are given are those of y itself.
        """
        is_default = self.likelihood is None and self.noise_model is None
        learns = self.optimizer is not None and self.noise_variance is None
        if base_model is not None or not (is_default and learns):
            return Gaussian()
        return learn_scale(
            rows,
            Gaussian(),
            rng,
            kernel=kernel_of(self),
            rough=True,
        )

    def _fit_process(self, rows: Rows, rng: Generator) -> _Problem:
        """Standardise y, and fit the process to it."""
        shift, scale = standardisation(rows.y, rows.weights)
        noise_variance = None
        if self.noise_variance is not None:
            # targets of one noise have one unit
            scale = float(np.sqrt(np.mean(scale**2)))
            noise_variance = self.noise_variance / scale**2
        rows = rows._replace(y=(rows.y - shift) / scale)
        n_inducing = self.n_inducing
        hyperparameters = "maximise"
        if self._has_plain_noise:
            hyperparameters = self.hyperparameters
        process = fit_process(
            self,
            rows,
            Gaussian(noise_variance).prepare(rows.y, rows.weights),
            rng,
            n_inducing=None if isinstance(n_inducing, str) else n_inducing,
            noise_variance=noise_variance,
            hyperparameters=hyperparameters,
        )
        errors, variance = leave_one_out(process, rows)
        regression = FittedMean(
            name="svgp",
            functions=[],
            held_out=np.arange(len(errors)),
            predictions=rows.y - errors,
        )
        return _Problem(rows, shift, scale, process, variance, regression)

    def _regression_or_networks(
        self,
        problem: _Problem,
        rng: Generator,
        reporter: RoundReporter,
        attributes_of: Callable[[FittedMean], Attributes],
    ) -> FittedMean:
        """The regression of the process, or networks that predict better.

        Networks minimise ``Σ (y - m)² / (2 σ²) + mean (m - m_P)²``.
        """
        split_rng, train_rng = rng.spawn(2)
        rows = problem.rows
        n = len(rows.y)
        n_targets = rows.y.size // n
        parts = hold_out(n, self.validation_fraction, self.n_estimators, split_rng)
        is_compared = parts.size >= 100 and self.interaction_cst is None
        if self.mean == "svgp" or (self.mean == "auto" and not is_compared):
            return problem.regression

        # (y - m)² + κ m² = (1 + κ) (m - y / (1 + κ))² + constant
        noise_variance = problem.process.noise_variance
        kappa = 2.0 * noise_variance / rows.weights.sum()
        targets = rows.y / (1.0 + kappa)
        max_iter = self.max_iter
        if isinstance(max_iter, str):
            max_iter = int(np.clip(3_000_000 // n, 30, 1000))

        # Gains of networks over the regression at held-out rows, in nats, with the
        # calibrated variance of the process.
        held_out = parts.ravel()
        squared_errors = (rows.y - problem.regression.predictions) ** 2
        variance = problem.variance + noise_variance
        variance = variance * _scales(squared_errors, variance, rows.weights)

        def mean_of(networks: TrainedNetworks) -> FittedMean:
            return FittedMean(
                name="net",
                functions=[networks.mean],
                held_out=held_out,
                predictions=networks.held_out_values.reshape(rows.y[held_out].shape),
                curves=networks.curves,
            )

        def gains_of(mean: FittedMean) -> Array:
            errors = rows.y[held_out] - mean.predictions
            gain = squared_errors[held_out] - errors**2
            gain = gain / (2.0 * variance[held_out])
            return gain.reshape(len(held_out), n_targets).sum(axis=1)

        gains_of_rounds: list[float] = []

        def report(current_result: Callable[[], TrainedNetworks]) -> bool:
            mean = mean_of(current_result())
            if self.mean == "auto":
                gains_of_rounds.append(float(gains_of(mean).mean()))
            if stays_behind(gains_of_rounds):
                return True
            return reporter.round(lambda: attributes_of(mean))

        networks = train_networks(
            self,
            rows,
            parts,
            loss=squared_error(targets.reshape(n, n_targets), rows.weights),
            n_outputs=n_targets,
            max_iter=max_iter,
            rng=train_rng,
            report=report,
        )
        mean = mean_of(networks)
        if self.mean == "net":
            return mean
        gains = gains_of(mean)
        standard_error = gains.std() / np.sqrt(len(gains))
        if gains.mean() > 2.0 * standard_error:
            return mean
        return problem.regression._replace(curves=mean.curves)

    def _attributes(
        self,
        problem: _Problem,
        form: NormalForm,
        learn_noise_of: Callable[[FittedMean], LearnedNoise] | None,
        mean: FittedMean,
    ) -> Attributes:
        """Fitted attributes of a mean, in the units of y.

        Held-out rows determine variances near the data; far from them the variance
        stays that of the prior. What they support beyond the variance of the process is
        the noise: one factor of all variances is too large for most rows where they
        differ by orders of magnitude. A noise that is given stays as it is.
        """
        prior = problem.process.prior
        noise_variance = problem.process.noise_variance
        n_held_out = len(mean.held_out)
        learned_noise = None
        variance_scale: float | Array = np.ones(problem.rows.y.shape[1:])[()]
        n_calibration_rows = 0
        if learn_noise_of is not None and n_held_out > 0:
            learned_noise = learn_noise_of(mean)
            variance_scale = _scale_of_learned_noise(problem, mean, learned_noise)
            noise_variance = float(learned_noise.likelihood.variance(0.0))
            n_calibration_rows = n_held_out
        elif self.calibrate and prior.noise_is_free and n_held_out > 0:
            noise_variance, variance_scale = _calibrate(problem, mean)
            n_calibration_rows = n_held_out

        # f = m(x) + Φ(x)ᵀw + g(x), in the units of y
        shift = problem.shift
        scale = problem.scale
        model = _process_around(mean, problem.process.model)
        likelihoods = tuple(
            form.fitted(normal)
            for normal in _likelihoods_of_models(problem.process, noise_variance, scale)
        )
        states = zip(problem.process.averaged, likelihoods, strict=True)
        noise_of_y = noise_variance * scale**2
        likelihood: Likelihood = Gaussian(1.0).prepare([0.0]).with_noise(noise_of_y)
        noise_scale = None
        noise_model = None
        if learned_noise is not None:
            likelihood = learned_noise.likelihood.scaled(float(scale))
            noise_model = learned_noise.regressor
        if learned_noise is not None and noise_model is not None:
            noise_scale = learned_noise.scale.scaled(float(scale))
        return {
            "posterior_": model.affine(shift, scale),
            "likelihood_": form.fitted(likelihood),
            "_likelihoods": likelihoods,
            "hyperparameter_states_": tuple(
                state._replace(likelihood=of_state) for state, of_state in states
            ),
            "noise_variance_": noise_of_y,
            "noise_model_": noise_model,
            "_noise_scale": noise_scale,
            "variance_scale_": variance_scale,
            **problem.process.attributes(mean, problem.rows, n_calibration_rows),
        }

    def _learn_noise(
        self,
        problem: _Problem,
        base_model: BaseModel | None,
        groups: RowValues,
        seed: int,
        mean: FittedMean,
    ) -> LearnedNoise:
        """Noise from the errors of a mean at held-out rows, for the standardised y."""
        rows = problem.rows
        held_out = mean.held_out
        if base_model is None:
            table_rows = rows.X
            form = TableForm(
                rows.X[:0] if self._no_rows is None else self._no_rows,
                numeric=True,
                categories=getattr(self, "categories_", None),
            )
        else:
            table_rows = base_model.rows
            form = self._form
        held_out_groups = None
        if base_model is not None and groups is not None:
            held_out_groups = np.asarray(groups)[base_model.cross_fit.positions][
                held_out
            ]
        return learn_noise(
            NoiseRows(
                errors=rows.y[held_out] - mean.predictions,
                variance=problem.variance[held_out],
                weights=rows.weights[held_out],
                rows=table_rows[held_out],
                form=form,
                groups=held_out_groups,
            ),
            likelihood_of_errors(self.likelihood).scaled(float(1.0 / problem.scale)),
            self.noise_model,
            np.random.default_rng(seed),
            self.n_jobs,
        )

    def _noise_at(self, X: Array) -> Array | None:
        if self._noise_scale is None:
            return None
        return self._noise_scale(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # other estimators are means of one target, other noise is that of one
        has_own_mean = isinstance(self.mean, str)
        tags.target_tags.multi_output = self._has_plain_noise and has_own_mean
        return tags


def _process_around(
    mean: FittedMean,
    process: LatentModel | MixtureModel,
) -> LatentModel | MixtureModel:
    """The process around the mean; its own regression is that already.

    All models of a mixture have the same mean, which is that of the mixture.
    """
    if not mean.functions:
        return process
    function = Mean.of(mean.functions[0], process.n_outputs)
    if not isinstance(process, MixtureModel):
        return replace(around_zero(process, mean.map, process.n_outputs), mean=function)
    models = tuple(
        around_zero(model, mean.map, model.n_outputs) for model in process.models
    )
    return MixtureModel(models, process.log_weights, function)


def _likelihoods_of_models(
    process: FittedProcess,
    noise_variance: float | Array,
    scale: float | Array,
) -> tuple[Likelihood, ...]:
    """Noise of each model of a mixture, in the units of y; empty for a single model.

    Calibration adds the same variance to the noise of every model, such that its mean
    is `noise_variance`; where this is smaller, it multiplies all by the same factor.
    """
    if not process.averaged:
        return ()
    before = process.noise_variance
    noises = process.noises + np.maximum(noise_variance - before, 0.0)
    noises = noises * np.minimum(noise_variance / before, 1.0)
    normal = Gaussian(1.0).prepare([0.0])
    return tuple(normal.with_noise(noise) for noise in np.ravel(noises * scale**2))


def _scale_of_learned_noise(
    problem: _Problem,
    mean: FittedMean,
    learned_noise: LearnedNoise,
) -> float:
    """Factor of the variance of y at held-out rows that the learned noise makes."""
    process_variance = np.average(
        problem.variance[mean.held_out],
        weights=problem.rows.weights[mean.held_out],
    )
    variance_before = process_variance + problem.process.noise_variance
    noise_variance = float(learned_noise.likelihood.variance(0.0))
    if not np.isfinite(noise_variance):
        # squared scale of Student's distributions without a variance
        squared_scale = learned_noise.likelihood.noise_parameter
        assert squared_scale is not None
        noise_variance = squared_scale
    return float((process_variance + noise_variance) / variance_before)


def _calibrate(
    problem: _Problem,
    mean: FittedMean,
) -> tuple[float | Array, float | Array]:
    """Calibrate on the errors at held-out rows.

    Returns
    -------
    noise_variance : float or ndarray of shape (t,)
        Variance of normal noise that the errors support.
    variance_scale : float or ndarray of shape (t,)
        T, the factor of the variance of y that they support.
    """
    rows = problem.rows
    held_out = mean.held_out
    weights = rows.weights[held_out]
    noise_variance = problem.process.noise_variance
    variance = problem.variance + noise_variance
    squared_errors = (rows.y[held_out] - mean.predictions) ** 2
    regression_squares = (rows.y - problem.regression.predictions) ** 2
    T = _scales(regression_squares, variance, rows.weights)
    if mean.functions:
        T = T * _scales(
            squared_errors,
            variance[held_out],
            weights,
            reference=regression_squares[held_out],
        )
    process_variance = np.average(problem.variance[held_out], axis=0, weights=weights)
    mean_square = np.average(squared_errors, axis=0, weights=weights)
    # T - 1 of the variance of y, at most all of the errors, at least what T < 1 leaves
    added = (T - 1.0) * (process_variance + noise_variance)
    calibrated = np.clip(
        noise_variance + added,
        np.minimum(T, 1.0) * noise_variance,
        np.maximum(noise_variance, mean_square),
    )
    return calibrated, T


def _scales(
    squares: Array,
    variances: Array,
    weights: Array,
    reference: Array | None = None,
) -> float | Array:
    """:func:`fit_scale`, or one for each target, (t,)."""
    if squares.ndim == 1:
        return fit_scale(squares, variances, weights, reference)
    n_targets = squares.shape[1]
    references = [None] * n_targets if reference is None else reference.T
    return np.array(
        [
            fit_scale(squares[:, j], variances[:, j], weights, references[j])
            for j in range(n_targets)
        ]
    )


def _residual_findings(
    problem: _Problem,
    mean: FittedMean,
    likelihood: Likelihood,
    is_plain_process: bool,
) -> Findings:
    """Means that are worse than the process, or that leave structure of y."""
    rows = problem.rows
    held_out = mean.held_out
    noise_variance = problem.process.noise_variance
    residuals = rows.y[held_out] - mean.predictions
    regression_residuals = rows.y[held_out] - problem.regression.predictions[held_out]
    zero = -problem.shift / problem.scale
    prior = problem.process.prior
    structure = check_residuals(
        rows.take(held_out)._replace(y=rows.y[held_out] - zero),
        residuals,
        problem.variance[held_out] + noise_variance,
        noise_variance,
        likelihood,
        prior.kernel if is_plain_process else None,
        held_out=True,
        noise_is_free=prior.noise_is_free,
        # other noise needs a process around a constant
        other_noise=is_plain_process,
    )
    # y is centred
    variance_of_y: Any = np.average(rows.y**2, axis=0, weights=rows.weights)
    findings: Findings = []
    residuals = np.atleast_2d(residuals.T)
    regression_residuals = np.atleast_2d(regression_residuals.T)
    # as many findings or None for each target
    n_checks = len(structure) // len(residuals)
    for j, variance in enumerate(np.ravel(variance_of_y)):
        worse = better_process(residuals[j], regression_residuals[j], variance)
        if worse is None:
            findings += structure[j * n_checks : (j + 1) * n_checks]
        else:
            findings.append(worse if rows.y.ndim == 1 else worse.of(j))
    return findings
