"""Classification by Gaussian Wasserstein inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from skgpx._base import LatentClassifier
from skgpx._callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._gwi._around import (
    CONSTRAINTS,
    AroundOthersMixin,
    CrossFittedMean,
    check_folds,
)
from skgpx._gwi._checks import warn_if_neighbours_are_better
from skgpx._gwi._class_fit import ClassFit, ClassProblem, ClassSettings
from skgpx._gwi._class_scores import cross_fit_classifier, warn_at_bound
from skgpx._gwi._settings import NetworkSettings
from skgpx._table import training_rows
from skgpx._validation import (
    Rows,
    canonical_rows,
    check_kernel,
    check_likelihood_given,
    check_rows,
    fit_context,
    generator,
)
from skgpx.likelihoods import Bernoulli, Categorical, Likelihood, RobustMax

# Steps of the training of a network, and the least number of passes.
_STEPS, _LEAST_EPOCHS = 1000, 20


class GWIClassifier(AroundOthersMixin, CallbackSupportMixin, LatentClassifier):
    """Gaussian-process uncertainty around the scores of any classifier.

    The latent functions are ``f = m + sqrt(b) (Φᵀw + g)``: m are the scores of networks
    or of a classifier of scikit-learn, the rest is a Gaussian process that is certain
    near the data and as wide as its prior away from them. Probabilities are averages
    over it: near the data those of the classifier, recalibrated; far away the
    frequencies of the classes.

    Parameters
    ----------
    mean : "net" or classifier, default="net"
        "net" trains networks of one output for two classes, otherwise of one for each
        class, by expected log likelihood and distance from the prior. A classifier with
        `predict_proba` or `decision_function` is cloned and fitted, once to all rows
        and once without each fold; a FrozenEstimator is used as it is, and has to be
        fitted to other rows.
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance of each latent function, in squared units of the link. None
        stands for a constant times an RBF with one lengthscale, or with one for each
        column where that gains enough.
    likelihood : Bernoulli, Categorical, RobustMax or None, default=None
        None means ``Bernoulli()`` for two classes, ``Categorical()`` for more;
        ``RobustMax()`` is that of the paper, with one output for each class.
    covariance : {"svgp", "closed_form", "bures", "empirical"}, default="svgp"
        That of the process, shared by the outputs: the one of sparse regression with
        the curvature of the likelihood for one over the noise variance, or those that
        minimise the objective; see :class:`GWIRegressor`.
    distance_weight : float, default=1.0
        Of the Wasserstein distances from the prior in the objective.
    tempering : bool, default=True
        Multiply scores and variance by the factors that predict held-out rows best;
        under RobustMax the variance only.
    fading : bool, default=True
        Let the mean return to the prior mean where rows are farther from the data than
        95 % of held-out rows are, in proportion to the share of the prior variance that
        the data explain there. Without it a classifier may be most certain where there
        are no data.
    n_inducing : int or "auto", default="auto"
        Largest number of inducing inputs; "auto" is ``3 sqrt(n)``, but at least 50.
    inducing : {"greedy", "k-means++", "random"}, array or callable, default="greedy"
        How they are chosen; an array holds the points themselves.
    optimizer : {"evidence"} or None, default="evidence"
        How the kernel is learned: by Laplace's approximation of the evidence of a model
        without a mean, or not at all.
    kernel_features : transformer or None, default=None
        Maps rows to the numeric input of the kernel; a clone of it is fitted. None: the
        rows as they are, if they are finite numbers, otherwise the output of the steps
        of a Pipeline before its classifier. For classifiers only.
    cv : int, splitter, iterable, "prefit" or None, default=None
        Folds in which a classifier is fitted; None is five, stratified; with `groups` a
        number is that of a StratifiedGroupKFold. "prefit" declares that the classifier
        is fitted already, and to none of these rows. Networks ignore it.
    hidden_layer_sizes : sequence of int, default=(32,)
        Of each network.
    activation : {"tanh", "relu"}, default="tanh"
    n_restarts : int, default=5
        Networks, which are averaged.
    alpha : float, default=1e-4
        Half the weight of the squared weights of a network.
    learning_rate : float, default=0.01
        First step of Adam; it falls to zero as a cosine.
    batch_size : int, default=100
    max_iter : int or "auto", default="auto"
        Largest number of passes over the rows; "auto" is a thousand steps, but at least
        20 passes.
    validation_fraction : float, default=0.1
        Share of the rows that each network holds out, other rows as long as there are
        enough.
    early_stopping : bool, default=True
        Whether held-out rows choose where the training of a network ends.
    n_jobs : int or None, default=None
        Threads, for folds and networks; the same bits for every number.
    random_state : int, RandomState or None, default=None
        Seed of networks, of classifiers without one, and of subsets of rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        With its hyperparameters.
    likelihood_ : Likelihood
    mean_ : estimator or None
        The classifier, fitted to all rows; None for networks.
    temper_ : ClassScale
        `score_factor` and `variance_factor`; `edge`, the share of the prior variance
        beyond which the mean fades; `mixed`, the share of the uniform distribution that
        was mixed into the probabilities of the classifier.
    inducing_points_ : ndarray of shape (M, q)
        In the input space of the kernel.
    posterior_ : LatentModel
        Mean, basis and posterior of the weights, from which every prediction is
        computed.
    loss_curve_, held_out_curve_ : ndarray
        Of networks: mean loss of each epoch, and of held-out rows after each round.
    n_iter_ : int
        Of networks: most epochs behind one of them; otherwise 1.
    stage_seconds_ : dict
        Wall time of the stages of the fit.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.

    See Also
    --------
    GWIRegressor : The same around regressors.
    PLSClassifier : Gaussian-process classification without a mean.

    Notes
    -----
    Section A.6 of [1]_. Its likelihood is RobustMax with epsilon = 0.01,
    whose largest probability is 0.99; the softmax predicts better, see the
    documentation. All outputs share the kernel, the inducing inputs and the covariance.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgpx import GWIClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=100) > 0.0, "right", "left")
    >>> model = GWIClassifier(LogisticRegression(), random_state=0).fit(X, y)
    >>> model.predict([[-1.0, 0.0], [1.0, 0.0]])
    array(['left', 'right'], dtype='<U5')
    >>> far = [[1e3, 0.0]]
    >>> float(model.mean_.predict_proba(far).max()) > 0.99
    True
    >>> float(model.predict_proba(far).max()) < 0.62  # the larger class has 61 rows
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        # checked in `fit`, with a clearer message
        "mean": "no_validation",
        "likelihood": "no_validation",
        "tempering": ["boolean"],
        "fading": ["boolean"],
        "hidden_layer_sizes": ["array-like"],
    }

    def __init__(
        self,
        mean: Any = "net",
        kernel: Any = None,
        *,
        likelihood: Likelihood | None = None,
        covariance: str = "svgp",
        distance_weight: float = 1.0,
        tempering: bool = True,
        fading: bool = True,
        n_inducing: int | str = "auto",
        inducing: Any = "greedy",
        optimizer: str | None = "evidence",
        kernel_features: Any = None,
        cv: Any = None,
        hidden_layer_sizes: Any = (32,),
        activation: str = "tanh",
        n_restarts: int = 5,
        alpha: float = 1e-4,
        learning_rate: float = 0.01,
        batch_size: int = 100,
        max_iter: int | str = "auto",
        validation_fraction: float = 0.1,
        early_stopping: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.mean = mean
        self.kernel = kernel
        self.likelihood = likelihood
        self.covariance = covariance
        self.distance_weight = distance_weight
        self.tempering = tempering
        self.fading = fading
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.optimizer = optimizer
        self.kernel_features = kernel_features
        self.cv = cv
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.n_restarts = n_restarts
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
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
        """Fit the mean and the process around it.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers; anything that `mean` takes, if that is a classifier.
        y : array-like of shape (n_samples,)
            Labels of any type, at least two different ones.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        groups : array-like of shape (n_samples,), default=None
            Rows of a group are held out together, for means that are classifiers: by
            the splitter `cv`, or by a StratifiedGroupKFold if that is None or a number.

        Returns
        -------
        self : GWIClassifier

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, for fewer than two classes
            among the rows of positive weight, for a likelihood that is not for classes,
            for a mean that is not a classifier with scores, if the input of the kernel
            is not numeric, or for groups without a classifier or fewer groups than
            folds.

        Warns
        -----
        DataWarning
            If weights are no whole numbers and the classifier takes none: it is fitted
            without them.
        FitWarning
            If the mean is frozen, and `cv` is not "prefit"; if the variance of the
            kernel is some thousand times too small; or if networks predict held-out
            rows clearly worse than the classes of neighbouring rows do.
        """
        reporter = RoundReporter(self, X, y, sample_weight)
        clock, rng = StageClock(), generator(self.random_state)
        cross_fitted = None
        self._check_parts(groups)
        if isinstance(self.mean, str):
            rows = self._numeric_rows(X, y, sample_weight)
        else:
            cross_fitted = self._cross_fitted(X, y, sample_weight, groups, rng)
            rows = cross_fitted.rows
            clock.end_of("mean")
        check_kernel(self.kernel, rows.X)

        def report(fit: Callable[[], ClassFit]) -> bool:
            return reporter.round(lambda: _attributes(fit(), None))

        problem = ClassProblem(
            rows,
            self.classes_,
            self._class_likelihood().prepare(rows.y, rows.weights),
            ClassSettings.of(self),
            self._network_settings(len(rows.y)),
            rng,
            clock,
            report,
        )
        self._keep(problem.fit(cross_fitted), cross_fitted)
        vars(self).update(clock.attributes())
        reporter.finish()
        return self

    def _keep(self, found: ClassFit, cross_fitted: CrossFittedMean | None) -> None:
        """Set the attributes of a finished fit, and warn where needed."""
        vars(self).update(_attributes(found, cross_fitted))
        warn_at_bound(found.scale)
        warn_if_neighbours_are_better(found.compared)

    def _check_parts(self, groups: Any) -> None:
        """Check the mean, the likelihood and the folds."""
        _check_mean(self.mean)
        check_likelihood_given(self.likelihood)
        check_folds(self.mean, self.cv, groups)

    def _numeric_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Rows of numbers, for networks."""
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=False)
        check_classification_targets(y)
        kept = weights > 0.0
        codes = self._encoded(y[kept])
        return canonical_rows(X[kept], codes, weights[kept])

    def _cross_fitted(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, rng: np.random.Generator
    ) -> CrossFittedMean:
        """Cross-fit a classifier, whose input need not be numeric."""
        given = training_rows(self, X, y, sample_weight, labels=True)
        self._encoded(given.y[given.weights > 0.0])
        self._class_likelihood()
        how = self.kernel_features, self.cv, groups, rng.spawn(1)[0], self.n_jobs
        return cross_fit_classifier(self.mean, given, self.classes_, *how)

    def _encoded(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Codes of the classes (n,); sets `classes_`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "GWIClassifier needs at least two classes among the rows of positive "
                f"weight; got one class, {self.classes_.tolist()[0]!r}. Add rows of "
                "another class."
            )
        return codes.astype(np.float64)

    def _network_settings(self, n: int) -> NetworkSettings:
        settings = NetworkSettings.of(self)
        if self.max_iter != "auto":
            return settings
        n_batches = -(-n // self.batch_size)
        return settings._replace(max_iter=max(_LEAST_EPOCHS, -(-_STEPS // n_batches)))

    def _class_likelihood(self) -> Likelihood:
        two = len(self.classes_) == 2
        if self.likelihood is None:
            return Bernoulli() if two else Categorical()
        if isinstance(self.likelihood, Categorical | RobustMax) or (
            two and isinstance(self.likelihood, Bernoulli)
        ):
            return self.likelihood
        raise ValueError(
            f"GWIClassifier with {len(self.classes_)} classes expects a likelihood of "
            f"classes (Categorical, RobustMax{', Bernoulli' if two else ''}); got "
            f"{self.likelihood!r}."
        )


def _check_mean(mean: Any) -> None:
    if isinstance(mean, str) and mean == "net":
        return
    is_instance = hasattr(mean, "get_params") and not isinstance(mean, type)
    if is_instance and (
        hasattr(mean, "predict_proba") or hasattr(mean, "decision_function")
    ):
        return
    raise ValueError(
        'mean must be "net" or an instance of a classifier with predict_proba or '
        f"decision_function, such as RandomForestClassifier(); got {mean!r}."
    )


def _attributes(
    found: ClassFit, cross_fitted: CrossFittedMean | None
) -> dict[str, Any]:
    attributes = {
        "posterior_": found.model,
        "likelihood_": found.likelihood,
        "kernel_": found.kernel,
        "_record": found.record,
        "temper_": found.scale,
        "mean_": None if cross_fitted is None else cross_fitted.cross_fit.estimator,
        "inducing_points_": found.inducing_points,
        "n_iter_": 1,
    }
    if cross_fitted is not None:
        attributes["_form"] = cross_fitted.form
    if found.networks is not None:
        attributes |= found.networks.attributes()
    return attributes
