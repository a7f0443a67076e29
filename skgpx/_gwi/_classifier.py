"""Classification by Gaussian Wasserstein inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils.multiclass import check_classification_targets

from skgpx._base import LatentClassifier
from skgpx._callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._draws import InputMap
from skgpx._gwi._base_models import BaseModel, BaseModelMixin, cross_fit_mean
from skgpx._gwi._class_scores import (
    BasisMean,
    ClassifierMean,
    ClassLoss,
    ClassScale,
    ClassScores,
    FadingScores,
    HeldOutClasses,
    fit_class_scale,
    has_probabilities,
    latent_scores,
    log_losses,
    share_of_prior,
    stratified_folds,
)
from skgpx._gwi._networks import (
    Networks,
    NetworkSettings,
    hold_out,
    train_networks,
)
from skgpx._gwi._process import Process, leave_one_out, regression
from skgpx._gwi._regressor import CONSTRAINTS
from skgpx._latent import LatentModel, Mean
from skgpx._numerics import laplace
from skgpx._selection import learn_prior, rough_start, row_target
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
from skgpx.bases import Warped, select_inducing
from skgpx.diagnostics import Finding, better_class_process, conclude
from skgpx.likelihoods import Bernoulli, Categorical, Likelihood, RobustMax

Array = NDArray[np.float64]

# Inducing points in units of the root of the number of rows, and the least of them.
_PER_ROOT, _LEAST_INDUCING = 3.0, 50
# max_iter="auto": steps of a network, and least number of passes.
_STEPS, _LEAST_EPOCHS = 600, 20
# Half the squared Newton decrement at which the search for a mode ends, in nats.
_TOLERANCE = 1e-6
# Fewest held-out rows that calibrate, and that compare networks and process;
# standard errors by which networks have to be better.
_FEWEST, _FEWEST_COMPARED, _CLEARLY = 10, 50, 1.0


class GWIClassifier(BaseModelMixin, CallbackSupportMixin, LatentClassifier):
    """Gaussian-process uncertainty around the scores of any classifier.

    The latent functions are ``f = m + sqrt(b) (Φᵀw + g)``: m are the scores of networks
    or of another classifier, the rest is a Gaussian process that is certain near the
    data and as wide as its prior away from them. Probabilities are averages over it:
    near the data those of the classifier, recalibrated; far away the frequencies of the
    classes.

    Parameters
    ----------
    mean : {"auto", "net", "svgp"} or classifier, default="auto"
        "net" trains networks of one output for two classes, otherwise of one for each
        class, by expected log likelihood and distance from the prior; "svgp" is the
        mode of the process in the basis of its covariance. "auto" is "net" where
        networks have the lower log loss at the held-out rows, by more than a standard
        error, and "svgp" otherwise. A classifier with `predict_proba` or
        `decision_function` is cloned and fitted, once to all rows and once without each
        fold; a FrozenEstimator is used as it is, and has to be fitted to other rows.
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance of each latent function, in squared units of the link. None
        stands for a constant times an RBF with one lengthscale, or with one for each
        column where that gains enough.
    likelihood : Bernoulli, Categorical, RobustMax or None, default=None
        None means ``Bernoulli()`` for two classes, ``Categorical()`` for more;
        ``RobustMax()`` is that of the paper, with one output for each class.
    optimizer : {"evidence"} or None, default="evidence"
        How the kernel is learned: by Laplace's approximation of the evidence of a model
        without a mean, or not at all.
    n_inducing : int or "auto", default="auto"
        Largest number of inducing points; "auto" is ``3 sqrt(n)``, but at least 50.
    hidden_layer_sizes : array-like of int or int, default=(32,)
        Of each network, with tanh.
    n_estimators : int, default=5
        Networks, which are averaged.
    alpha : float, default=1e-4
        L2 penalty: half the weight of the squared weights of a network.
    learning_rate_init : float, default=0.01
        First step of Adam; it falls to zero as a cosine.
    max_iter : int or "auto", default="auto"
        Largest number of passes over the rows; "auto" is 600 steps, but at least 20
        passes.
    validation_fraction : float, default=0.1
        Share of the rows that each network holds out, other rows for each, at most
        2000: they stop the training, compare means and calibrate. Other classifiers are
        cross-fitted.
    cv : int, splitter, iterable, "prefit" or None, default=None
        Folds in which a classifier is fitted; None is five, stratified; with `groups` a
        number is that of a StratifiedGroupKFold. "prefit" declares that the classifier
        is fitted already, and to none of these rows. Means of the library itself ignore
        it.
    kernel_features : transformer or None, default=None
        Maps rows to the numeric input of the kernel; a clone of it is fitted. None: the
        rows as they are, if they are finite numbers, otherwise the output of the steps
        of a Pipeline before its classifier. For classifiers only.
    n_jobs : int or None, default=None
        Threads, for folds and networks; the same bits for every number.
    random_state : int, RandomState or None, default=None
        Seed of networks, of classifiers without one, and of held-out rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        With its hyperparameters.
    likelihood_ : Likelihood
    mean_ : {"net", "svgp"} or estimator
        The classifier, fitted to all rows, if `mean` is one.
    scale_ : ClassScale
        `score_factor` and `variance_factor`, from held-out rows; `edge`, the share of
        the prior variance beyond which the mean fades.
    inducing_points_ : ndarray of shape (M, q)
        In the input space of the kernel.
    posterior_ : LatentModel
        Mean, basis and posterior of the weights, from which every prediction is
        computed.
    loss_curve_, validation_curve_ : ndarray
        Of networks: mean loss of each epoch, and of held-out rows after each round.
    n_iter_ : int
        Of networks: most epochs behind one of them; otherwise 1.
    findings_ : tuple of Finding
        What the diagnostics of the fit have found.
    stage_seconds_ : dict
        Wall time of the stages of the fit: "process", "mean" and "calibration".
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
    Section A.6 of [1]_, whose likelihood is RobustMax with epsilon = 0.01,
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
    }

    def __init__(
        self,
        mean: Any = "auto",
        kernel: Any = None,
        *,
        likelihood: Likelihood | None = None,
        optimizer: str | None = "evidence",
        n_inducing: int | str = "auto",
        hidden_layer_sizes: Any = (32,),
        n_estimators: int = 5,
        alpha: float = 1e-4,
        learning_rate_init: float = 0.01,
        max_iter: int | str = "auto",
        validation_fraction: float = 0.1,
        cv: Any = None,
        kernel_features: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.mean = mean
        self.kernel = kernel
        self.likelihood = likelihood
        self.optimizer = optimizer
        self.n_inducing = n_inducing
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
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the process, train the mean, and calibrate both.

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
            With all that the diagnostics found: a frozen classifier, or networks that
            predict held-out rows clearly worse than the process alone.
        """
        reporter, clock = RoundReporter(self, X, y, sample_weight), StageClock()
        search, train, folds, split = generator(self.random_state).spawn(4)
        _check_mean(self.mean)
        check_likelihood_given(self.likelihood)
        self._check_groups(groups)
        base = None
        if isinstance(self.mean, str):
            rows = self._numeric_rows(X, y, sample_weight)
        else:
            base = self._cross_fit(X, y, sample_weight, groups, folds)
            rows = base.rows
            clock.end_of("mean")
        check_kernel(self.kernel, rows.X)
        problem = _Problem(self, rows, search)
        clock.end_of("process")

        findings: list[Finding | None] = [*problem.findings]
        if base is not None:
            mean = problem.base_mean(base, self.classes_)
            self._form, findings = base.form, [*base.findings, *findings]
        else:
            how = self.validation_fraction, self.n_estimators, split
            parts = hold_out(len(rows.y), *how)

            def report(trained: Callable[[], Networks]) -> bool:
                return reporter.round(
                    lambda: problem.attributes(problem.network_mean(trained(), parts))
                )

            mean, finding = self._own_or_networks(problem, parts, train, report)
            findings.append(finding)
        clock.end_of("mean")
        vars(self).update(problem.attributes(mean))
        clock.end_of("calibration")
        vars(self).update(clock.attributes())
        conclude(self, findings)
        reporter.finish()
        return self

    def _own_or_networks(
        self,
        problem: _Problem,
        parts: NDArray[np.intp],
        rng: np.random.Generator,
        report: Callable[[Callable[[], Networks]], bool],
    ) -> tuple[_Mean, Finding | None]:
        """The mode of the process, or networks if they predict held-out rows better."""
        compared = int(np.sum(parts >= 0)) >= _FEWEST_COMPARED
        if self.mean == "svgp" or (self.mean == "auto" and not compared):
            return problem.own_mean(parts), None
        networks = problem.trained(parts, rng, report)
        mean = problem.network_mean(networks, parts)
        if not compared:
            return mean, None
        own = problem.own_mean(parts)
        gain = problem.held_out_losses(own) - problem.held_out_losses(mean)
        if self.mean == "net":
            return mean, better_class_process(gain)
        better = gain.mean() > _CLEARLY * gain.std() / np.sqrt(len(gain))
        return (mean if better else own._replace(networks=networks)), None

    def _numeric_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Rows of numbers, for means of the library itself."""
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=False)
        check_classification_targets(y)
        kept = weights > 0.0
        codes = self._encoded(y[kept])
        return canonical_rows(X[kept], codes, weights[kept])

    def _cross_fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, rng: np.random.Generator
    ) -> BaseModel:
        """Cross-fit a classifier, whose input need not be numeric."""
        given = training_rows(self, X, y, sample_weight, labels=True)
        self._encoded(given.y[given.weights > 0.0])
        self._class_likelihood()

        def codes(labels: NDArray[Any]) -> Array:
            return np.searchsorted(self.classes_, labels).astype(np.float64)

        how = codes, stratified_folds, StratifiedGroupKFold, rng
        return cross_fit_mean(self, given, groups, ClassScores(self.classes_), *how)

    def _encoded(self, y: NDArray[Any]) -> Array:
        """Codes of the classes (n,); sets `classes_`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "GWIClassifier needs at least two classes among the rows of positive "
                f"weight; got one class, {self.classes_.tolist()[0]!r}. Add rows of "
                "another class."
            )
        return codes.astype(np.float64)

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


class _Mean(NamedTuple):
    """A mean, and its scores at rows that it was not fitted to.

    Attributes
    ----------
    name : str or estimator
    function : callable
        Maps rows to scores (n, c).
    scores : ndarray of shape (p, c)
        At the held-out rows.
    held_out : ndarray of bool of shape (n,)
    networks : Networks or None
    map : InputMap or None
        From rows to the input of the kernel.
    """

    name: Any
    function: Callable[[NDArray[Any]], Array]
    scores: Array
    held_out: NDArray[np.bool_]
    networks: Networks | None = None
    map: InputMap | None = None


class _Problem:
    """The process of the latent functions, and the means that it may have.

    Parameters
    ----------
    estimator : GWIClassifier
        With its parameters and `classes_`.
    rows : Rows
        y holds the numbers of the classes.
    rng : numpy.random.Generator
    """

    def __init__(self, estimator: GWIClassifier, rows: Rows, rng: np.random.Generator):
        self._estimator, self._rows = estimator, rows
        search, select = rng.spawn(2)
        n, m = len(rows.y), estimator.n_inducing
        if isinstance(m, str):
            m = max(round(_PER_ROOT * np.sqrt(n)), _LEAST_INDUCING)
        m = min(m, n)
        given = estimator._class_likelihood()
        self._prepared = given.prepare(rows.y, rows.weights)
        # the evidence is that of a smooth likelihood
        smooth = Bernoulli() if len(estimator.classes_) == 2 else Categorical()
        smooth = smooth.prepare(rows.y, rows.weights)
        how = {"kernel": estimator.kernel, "learn": estimator.optimizer is not None}
        jobs = {"n_inducing": m, "n_jobs": estimator.n_jobs}
        found = learn_prior(rows, smooth, search, **how, **jobs)
        self.findings = found.findings
        Z = select_inducing("greedy", rows.X, found.kernel, m, select, rows.weights)
        # the mean p (1 - p), second derivative of the loss of a softmax, stands for one
        # over the noise variance of regression
        counts = np.bincount(rows.y.astype(np.intp), weights=rows.weights) + 0.5
        share = counts / counts.sum()
        noise = 1.0 / float(np.mean(share * (1.0 - share)))
        centred = rows._replace(y=np.zeros(n))
        parts = found.kernel, noise, Z, found.record, estimator.n_jobs
        self._process: Process = regression(centred, *parts)
        self._variance = leave_one_out(self._process, centred).variance
        self._likelihood = self._centred(1.0)

    def _centred(self, variance_factor: float) -> Likelihood:
        """Likelihood whose prior of variance ``b k`` expects the class frequencies."""
        prior = self._process.kernel.diag(self._rows.X)
        average = float(np.average(prior, weights=self._rows.weights))
        return self._prepared.centred(variance_factor * average)

    # ---- Means -----------------------------------------------------------------------

    def trained(
        self,
        parts: NDArray[np.intp],
        rng: np.random.Generator,
        report: Callable[[Callable[[], Networks]], bool],
    ) -> Networks:
        """Networks of the scores, by expected log likelihood and distance."""
        given, rows = self._estimator, self._rows
        epochs = given.max_iter
        if isinstance(epochs, str):
            epochs = max(_LEAST_EPOCHS, -(-_STEPS // -(-len(rows.y) // 100)))
        basis, posterior = self._process.basis, self._process.posterior
        r = basis.marginals(posterior)(rows.X)[1][:, 0, 0]
        kappa = 1.0 / float(rows.weights.sum())
        loss = ClassLoss(self._likelihood, rows.y, rows.weights, r, kappa)
        how = NetworkSettings.of(given, epochs), rng, given.n_jobs, report
        c = self._likelihood.n_outputs_
        return train_networks(rows.X, rows.weights, parts, loss, c, *how)

    def network_mean(self, networks: Networks, parts: NDArray[np.intp]) -> _Mean:
        """Networks as the mean."""
        held_out = parts >= 0
        scores = networks.values[held_out]
        return _Mean("net", networks.mean, scores, held_out, networks)

    def own_mean(self, parts: NDArray[np.intp]) -> _Mean:
        """The mode of the process, and at each part that of the other rows."""
        scores = np.empty((len(parts), self._likelihood.n_outputs_))
        held_out, mode = parts >= 0, self._mode(np.ones(len(parts), bool))
        for k in range(parts.max() + 1):
            without = self._mode(parts != k, mode.weights)
            scores[parts == k] = without(self._rows.X[parts == k])
        return _Mean("svgp", mode, scores[held_out], held_out)

    def _mode(self, chosen: NDArray[np.bool_], start: Array | None = None) -> BasisMean:
        """Mode given some of the rows, in the basis of the process."""
        likelihood, rows = self._likelihood, self._rows.take(chosen)
        if not likelihood.smooth:
            likelihood = Categorical().prepare(self._rows.y, self._rows.weights)
        features = np.ascontiguousarray(self._process.basis(rows.X))
        target = row_target(features, rows, likelihood)
        start = rough_start(target) if start is None else start
        mode = laplace.find_mode(target, start, _TOLERANCE)
        return BasisMean(self._process.basis, mode.weights, likelihood.base_latent_)

    def base_mean(self, base: BaseModel, classes: NDArray[Any]) -> _Mean:
        """A cross-fitted classifier; probabilities of zero would be infinite scores."""
        found, c = base.cross_fit, self._likelihood.n_outputs_
        mixed = None
        if has_probabilities(found.estimator):
            mixed = len(classes) / (float(self._rows.weights.sum()) + len(classes))
        predict = ClassScores(classes)
        function = ClassifierMean(found.estimator, base.form, predict, mixed, c)
        scores = latent_scores(found.predictions[found.held_out], mixed, c)
        held_out = found.held_out
        return _Mean(found.estimator, function, scores, held_out, None, base.map)

    # ---- Calibration -----------------------------------------------------------------

    def _held_out(self, mean: _Mean) -> HeldOutClasses:
        part, variance = self._rows.take(mean.held_out), self._variance[mean.held_out]
        share = share_of_prior(self._process.kernel, part.X, variance)
        return HeldOutClasses(part.y, part.weights, mean.scores, variance, share)

    def _scale(self, mean: _Mean) -> ClassScale:
        held_out = self._held_out(mean)
        if len(held_out.codes) < _FEWEST:
            return ClassScale(edge=held_out.edge())
        return fit_class_scale(held_out, self._likelihood)

    def held_out_losses(self, mean: _Mean) -> Array:
        """Log losses of the calibrated mean at its held-out rows, in nats."""
        held_out = self._held_out(mean)
        return log_losses(held_out, self._likelihood, self._scale(mean))

    def attributes(self, mean: _Mean) -> dict[str, Any]:
        """Fitted attributes: the process around the mean, calibrated."""
        found, process = self._scale(mean), self._process
        likelihood = self._centred(found.variance_factor)
        base = likelihood.base_latent_
        parts = found.score_factor, base, found.edge, process.basis, process.posterior
        scores = FadingScores(mean.function, *parts, mean.map)
        function = Mean(base, np.ones(len(base)), scores)
        basis = process.basis
        whole = basis if mean.map is None else Warped(basis, mean.map)
        c = self._likelihood.n_outputs_
        posterior = process.posterior._replace(mean=np.zeros((basis.n_basis, c)))
        scale = np.sqrt(found.variance_factor)
        attributes = {
            "posterior_": LatentModel(whole, posterior, function, scale),
            "likelihood_": likelihood,
            "kernel_": process.kernel,
            "_record": process.record._replace(
                calibration_rows=int(mean.held_out.sum())
            ),
            "scale_": found,
            "mean_": mean.name,
            "inducing_points_": basis.inducing_points,
            "n_iter_": 1,
        }
        if mean.networks is not None:
            attributes |= mean.networks.attributes()
        return attributes


def _check_mean(mean: Any) -> None:
    if isinstance(mean, str) and mean in ("auto", "net", "svgp"):
        return
    is_instance = hasattr(mean, "get_params") and not isinstance(mean, type)
    if is_instance and (
        hasattr(mean, "predict_proba") or hasattr(mean, "decision_function")
    ):
        return
    raise ValueError(
        'mean must be "auto", "net", "svgp" or an instance of a classifier with '
        "predict_proba or decision_function, such as RandomForestClassifier(); got "
        f"{mean!r}."
    )
