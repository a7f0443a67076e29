"""Classification by Gaussian Wasserstein inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from skgpx._gwi._base_models import BaseModel, BaseModelMixin, Splits
from skgpx._gwi._class_scores import (
    BasisScores,
    ClassScale,
    ClassScores,
    FadingScores,
    HeldOutScores,
    SharedScores,
    class_loss,
    fading,
    fit_class_scale,
    log_losses,
    share_of_prior,
)
from skgpx._gwi._networks import Report, TrainedNetworks, hold_out, train_networks
from skgpx._gwi._process import (
    FittedMean,
    FittedProcess,
    around_zero,
    fit_process,
    leave_one_out,
)
from skgpx._gwi._regressor import CONSTRAINTS
from skgpx._hyperparameters import rough_start, row_target, search_findings
from skgpx._latent import LatentModel, Mean, MixtureModel
from skgpx._numerics import laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.rows import thinning, weighted_quantiles
from skgpx._prediction.base import LatentClassifier
from skgpx._shell.callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._shell.tables import training_rows
from skgpx._shell.validation import (
    Rows,
    canonical_rows,
    check_kernel,
    check_likelihood_given,
    check_rows,
    fit_context,
    generator,
    kernel_of,
    row_blocks,
)
from skgpx._types import (
    AnyArray,
    Array,
    ArrayLike,
    Attributes,
    Generator,
    Index,
    Kernel,
    RandomState,
    RowValues,
)
from skgpx.bases import Nystroem
from skgpx.diagnostics import Finding, better_class_process, conclude
from skgpx.likelihoods import Bernoulli, Categorical, Likelihood


class GWIClassifier(BaseModelMixin, CallbackSupportMixin, LatentClassifier):
    """Gaussian-process uncertainty around the probabilities of any classifier.

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
        error, and "svgp" otherwise. A classifier with `predict_proba`, which
        CalibratedClassifierCV adds to any, is cloned and fitted, once to all rows and
        once without each fold; a FrozenEstimator is used as it is, and has to be fitted
        to other rows.
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance of each latent function, in squared units of the link. None
        stands for a constant times an RBF, or for two classes also a Matern kernel of
        order 5/2 or 3/2, with one lengthscale, or with one for each column where that
        gains enough.
    likelihood : Bernoulli, Categorical, RobustMax or None, default=None
        None means ``Bernoulli()`` for two classes, ``Categorical()`` for more;
        ``RobustMax()`` is that of the paper, with one output for each class.
    calibrate : bool, default=True
        Whether held-out rows scale the scores and the prior variance, and scores fade
        far from the data. False leaves the variance of the evidence around the scores
        as they are, the published model.
    optimizer : {"evidence"} or None, default="evidence"
        How the kernel is learned: by Laplace's approximation of the evidence of a model
        without a mean, or not at all.
    hyperparameters : {"auto", "average", "maximise"}, default="auto"
        "average" draws up to 64 or, of more than two classes, 12 states of the kernel
        from their posterior, and averages probabilities over them; it is for at most
        300 rows of two classes and ``300 / (n_classes - 1)`` rows of more, and raises a
        ValueError otherwise.
        "maximise" takes the state of the largest posterior. "auto" averages up to 200
        rows of two classes and ``200 / (n_classes - 1)`` rows of more, as in
        :class:`PLSClassifier`, if `mean` is "auto" or "svgp": around other scores it
        gains nothing. Without an optimizer there is one state, that of the kernel.
    n_inducing : int or "auto", default="auto"
        Largest number of inducing points; "auto" is ``3 sqrt(n)``, but at least 50.
    inducing : {"greedy", "k-means++", "m-dpp", "random"}, default="greedy"
        How they are chosen among the rows: by greedy conditional variance, spread over
        the inputs, as a draw from the determinantal process of the kernel matrix (see
        :func:`skgpx.bases.select_inducing`), or at random, as in the paper.
    hidden_layer_sizes : array-like of int or int, default=(32,)
        Units of the hidden layers of each network, with tanh.
    n_estimators : int, default=5
        Networks, which are averaged.
    alpha : float, default=1e-4
        L2 penalty of the weights of a network: ``alpha ‖weights‖² / 2`` is added to
        the mean loss of a row.
    learning_rate_init : float, default=0.01
        First step of Adam; it falls to zero as a cosine.
    max_iter : int or "auto", default="auto"
        Largest number of passes over the rows; "auto" is 600 steps, but at least 20
        passes.
    validation_fraction : float, default=0.1
        Share of the rows that each network holds out, other rows for each, at most
        2000: they stop the training, compare means and calibrate networks. Other
        classifiers are cross-fitted, and the mode of the process holds out each row.
    cv : int, splitter, iterable, "prefit" or None, default=None
        Folds in which a classifier is fitted; None is five, stratified; with `groups` a
        number is that of a StratifiedGroupKFold. "prefit" declares that the classifier
        is fitted already, and to none of these rows. Means of the library itself ignore
        it.
    kernel_features : transformer or None, default=None
        Maps rows to the numeric input of the kernel; a clone of it is fitted. None: the
        rows as they are, with a kernel of categories for columns of that type; or, if
        the mean is a Pipeline and X is not numeric, the output of its steps before the
        classifier. For classifiers only.
    n_jobs : int or None, default=None
        Threads, for folds and blocks of rows; the same bits for every number.
    random_state : int, RandomState or None, default=None
        Seed of networks, of classifiers without one, and of held-out rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        With its hyperparameters; where these are averaged it is that of the state of
        the largest weight, as `likelihood_` and `inducing_points_` are.
    likelihood_ : Likelihood
    hyperparameter_states_ : tuple of State
        Kernel, likelihood and weight of each state that is averaged, from the largest
        weight; empty where one is chosen.
    mean_model_ : {"net", "svgp"} or estimator
        The classifier, fitted to all rows, if `mean` is one.
    calibration_ : ClassScale
        `score_factor` and `variance_factor`, from held-out rows; `edge`, the share of
        the prior variance beyond which the mean fades. `variance_factor` is one where
        the variance of the kernel is given (by `optimizer` None, fixed bounds, or a
        kernel without a ConstantKernel), and so is then the `score_factor` of "svgp".
        All states that are averaged have the same factors, each has an edge of its own.
    inducing_points_ : ndarray of shape (M, q)
        In the input space of the kernel.
    posterior_ : LatentModel or MixtureModel
        Mean, basis and posterior of the weights, from which every prediction is
        computed; a mixture has a model for each state of the hyperparameters.
    loss_curve_, validation_curve_ : ndarray
        Mean loss of the networks in each epoch, and of held-out rows after each round.
    n_iter_ : int
        Largest number of epochs of a network; 1 without networks.
    findings_ : tuple of Finding
        Findings of the diagnostics of the fit.
    stage_seconds_ : dict
        Wall time of the stages of the fit: "process", "mean" and "calibration".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    categories_ : dict of ndarray
        Categories of the columns of X whose type is category, by name; a code is a
        position among them. Only if X has such columns.

    See Also
    --------
    GWIRegressor : The same around regressors.
    PLSClassifier : Gaussian-process classification without a mean.

    Notes
    -----
    The classifier of Section A.6 of [1]_ has the likelihood RobustMax with epsilon =
    0.01, under which no probability exceeds 0.99; the softmax predicts better, see the
    guide. All outputs share the kernel, the inducing inputs and the covariance.

    Averaged hyperparameters give a mixture of processes. Scores of "svgp" are the modes
    of the states; networks and other classifiers have the same scores in each. Factors
    and fading are those that suit held-out rows under the mixture. Networks are trained
    with the mean of the variances of the states.

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
    >>> float(model.mean_model_.predict_proba(far).max()) > 0.99
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
        mean: BaseEstimator | str = "auto",
        kernel: Kernel | None = None,
        *,
        likelihood: Likelihood | None = None,
        calibrate: bool = True,
        optimizer: str | None = "evidence",
        hyperparameters: str = "auto",
        n_inducing: int | str = "auto",
        inducing: str = "greedy",
        hidden_layer_sizes: int | Sequence[int] = (32,),
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
        self.likelihood = likelihood
        self.calibrate = calibrate
        self.optimizer = optimizer
        self.hyperparameters = hyperparameters
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
            is not numeric, for groups without a classifier or fewer groups than folds,
            or for ``hyperparameters="average"`` of more rows than it is for.

        Warns
        -----
        DataWarning
            If weights are not whole numbers and the classifier takes none: it is fitted
            without them.
        FitWarning
            Lists the findings of the diagnostics: a frozen classifier, or networks that
            predict held-out rows clearly worse than the process alone.
        """
        reporter = RoundReporter(self, X, y, sample_weight)
        clock = StageClock()
        search_rng, train_rng, fold_rng, split_rng = generator(self.random_state).spawn(
            4
        )
        _check_mean(self.mean)
        check_likelihood_given(self.likelihood)
        self._check_groups(groups)
        rows, base_model = self._rows(X, y, sample_weight, groups, fold_rng)
        clock.end_of("process" if base_model is None else "mean")
        check_kernel(kernel_of(self), rows.X)

        # 1  The process, by the evidence of a smooth likelihood.
        problem = self._fit_process(rows, search_rng)
        clock.end_of("process")

        # 2  The scores, also of held-out rows.
        if base_model is None:
            parts = hold_out(
                len(rows.y),
                self.validation_fraction,
                self.n_estimators,
                split_rng,
            )
            mean, finding = self._mode_or_networks(problem, parts, train_rng, reporter)
        else:
            held_out = np.flatnonzero(base_model.cross_fit.held_out)
            mean = FittedMean(
                name=base_model.cross_fit.estimator,
                functions=[base_model.function],
                held_out=held_out,
                predictions=base_model.cross_fit.predictions[held_out][
                    :, :, np.newaxis
                ],
                map=base_model.map,
            )
            finding = base_model.finding
        clock.end_of("mean")

        # 3  Factors of scores and variances, by the held-out log loss.
        self.__dict__.update(problem.attributes(mean))
        clock.end_of("calibration")
        self.stage_seconds_ = clock.seconds
        findings = [*search_findings(problem.process.priors, rows), finding]
        conclude(self, findings, sample_weight)
        reporter.finish()
        return self

    def _rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues,
        groups: RowValues,
        rng: Generator,
    ) -> tuple[Rows, BaseModel | None]:
        """Rows of the process, whose y holds codes of classes, and the base model."""
        if isinstance(self.mean, str):
            X, y, weights = check_rows(self, X, y, sample_weight, numeric=False)
            check_classification_targets(y)
            has_weight = weights > 0.0
            codes = self._encoded(y[has_weight])
            return canonical_rows(X[has_weight], codes, weights[has_weight]), None
        training = training_rows(self, X, y, sample_weight, labels=True)
        self._encoded(training.y[training.weights > 0.0])
        n_classes = len(self.classes_)
        likelihood = self._class_likelihood().prepare(np.arange(float(n_classes)))
        base_model = self._base_model(
            training,
            groups,
            predict=ClassScores(
                self.classes_,
                mixed=n_classes / (float(training.weights.sum()) + n_classes),
                n_outputs=likelihood.n_outputs_,
            ),
            stratify=True,
            rng=rng,
        )
        codes = np.searchsorted(self.classes_, base_model.y).astype(np.float64)
        rows = Rows(base_model.inputs, codes, base_model.cross_fit.weights)
        return rows, base_model

    def _fit_process(self, rows: Rows, rng: Generator) -> _Problem:
        """The process of the latent functions, whatever their mean will be."""
        smooth = Bernoulli() if len(self.classes_) == 2 else Categorical()
        # The mean of p (1 - p), the second derivative of the loss of a softmax, is one
        # over its noise variance.
        counts = np.bincount(rows.y.astype(np.intp), weights=rows.weights) + 0.5
        p = counts / counts.sum()
        noise_variance = 1.0 / float(np.mean(p * (1.0 - p)))
        n_inducing = self.n_inducing
        if isinstance(n_inducing, str):
            n_inducing = max(round(3.0 * np.sqrt(len(rows.y))), 50)
        process = fit_process(
            self,
            rows,
            smooth.prepare(rows.y, rows.weights),
            rng,
            n_inducing=n_inducing,
            noise_variance=noise_variance,
            hyperparameters=self._averaging(),
        )
        return _Problem(self, rows, process)

    def _averaging(self) -> str:
        """`hyperparameters`; "auto" averages where the scores are those of states."""
        has_modes = isinstance(self.mean, str) and self.mean != "net"
        if self.hyperparameters == "auto" and not has_modes:
            return "maximise"
        return self.hyperparameters

    def _mode_or_networks(
        self,
        problem: _Problem,
        parts: Index,
        rng: Generator,
        reporter: RoundReporter,
    ) -> tuple[FittedMean, Finding | None]:
        """The mode of the process, or networks if they predict held-out rows better."""
        is_compared = parts.size >= 50
        if self.mean == "svgp" or (self.mean == "auto" and not is_compared):
            return problem.mode(problem.calibration_rows), None

        def mean_of(networks: TrainedNetworks) -> FittedMean:
            return FittedMean(
                name="net",
                functions=[networks.mean],
                held_out=parts.ravel(),
                predictions=networks.held_out_values[:, :, np.newaxis],
                curves=networks.curves,
            )

        def report(current_result: Callable[[], TrainedNetworks]) -> bool:
            return reporter.round(lambda: problem.attributes(mean_of(current_result())))

        networks = mean_of(problem.train_networks(parts, rng, report))
        if not is_compared:
            return networks, None
        # both held out
        n_compared = parts.size
        rows = np.concatenate((parts.ravel(), problem.calibration_rows))
        mode = problem.mode(rows)
        compared = mode.at(slice(n_compared))
        gain = problem.held_out_losses(compared) - problem.held_out_losses(networks)
        if self.mean == "net":
            return networks, better_class_process(gain)
        standard_error = gain.std() / np.sqrt(len(gain))
        if gain.mean() > standard_error:
            return networks, None
        mode = mode.at(slice(n_compared, None))
        return mode._replace(curves=networks.curves), None

    def _encoded(self, y: AnyArray) -> Array:
        """Codes of the classes (n,); sets `classes_`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._check_classes()
        return codes.astype(np.float64)


class _Problem:
    """The process of the latent functions, and the means that it may have.

    Parameters
    ----------
    settings : GWIClassifier
        With its parameters and `classes_`.
    rows : Rows
        y holds the numbers of the classes.
    process : FittedProcess
        By the evidence of a smooth likelihood; averaged hyperparameters have a process
        for each state.

    Attributes
    ----------
    process : FittedProcess
    """

    def __init__(
        self,
        settings: GWIClassifier,
        rows: Rows,
        process: FittedProcess,
    ):
        self.process = process
        self._settings = settings
        self._rows = rows
        self._models = process.models
        self._bases = process.bases
        self._state_weights = process.weights
        # of f at each row, given the others, under each state (n, k)
        variances = [leave_one_out(state, rows)[1] for state in process.states]
        shares = [
            share_of_prior(basis.kernel, rows.X, variance)
            for basis, variance in zip(self._bases, variances, strict=True)
        ]
        self._variance = np.stack(variances, axis=1)
        self._share = np.stack(shares, axis=1)
        likelihood = settings._class_likelihood()
        self._prepared = likelihood.prepare(rows.y, rows.weights)
        self._likelihoods = self._centred(1.0)

    def _centred(self, variance_factor: float) -> list[Likelihood]:
        """Likelihoods whose prior of variance ``b k`` expects the class frequencies."""
        likelihoods = []
        for basis in self._bases:
            prior_variances = basis.kernel.diag(self._rows.X)
            prior_variance = np.average(prior_variances, weights=self._rows.weights)
            likelihood = self._prepared.centred(variance_factor * float(prior_variance))
            likelihoods.append(likelihood)
        return likelihoods

    @property
    def _base(self) -> Array:
        """Prior mean of each state, (c, k)."""
        bases = [likelihood.base_latent_ for likelihood in self._likelihoods]
        return np.stack(bases, axis=1)

    def train_networks(
        self,
        parts: Index,
        rng: Generator,
        report: Report,
    ) -> TrainedNetworks:
        """Networks of the scores, by expected log likelihood and distance.

        Variance and prior mean are means over the states.
        """
        rows = self._rows
        max_iter = self._settings.max_iter
        if isinstance(max_iter, str):
            # 600 steps of 200 rows
            steps_per_epoch = -(-len(rows.y) // 200)
            max_iter = max(20, -(-600 // steps_per_epoch))
        variances = [model.marginals(rows.X).variance for model in self._models]
        likelihood = self._prepared.with_base(self._base @ self._state_weights)
        loss = class_loss(
            likelihood,
            rows.y,
            rows.weights,
            variance=np.stack(variances, axis=-1)[:, 0, 0] @ self._state_weights,
            distance_weight=1.0 / float(rows.weights.sum()),
        )
        return train_networks(
            self._settings,
            rows,
            parts,
            loss=loss,
            n_outputs=likelihood.n_outputs_,
            max_iter=max_iter,
            rng=rng,
            report=report,
        )

    @property
    def calibration_rows(self) -> Index:
        """Rows by which a mode is calibrated, each held out alone; none of few."""
        n = len(self._rows.y)
        if n < 20:
            return np.arange(0)
        return np.arange(n)[thinning(n, 2000)]

    def mode(self, held_out: Index) -> FittedMean:
        """The mode of each state, and its scores of rows, each given all others."""
        functions = []
        held_out_scores = []
        for basis, likelihood in zip(self._bases, self._likelihoods, strict=True):
            function, scores = self._mode_of_state(basis, likelihood, held_out)
            functions.append(function)
            held_out_scores.append(scores)
        return FittedMean(
            name="svgp",
            functions=functions,
            held_out=held_out,
            predictions=np.stack(held_out_scores, axis=2),
        )

    def _mode_of_state(
        self,
        basis: Nystroem,
        likelihood: Likelihood,
        held_out: Index,
    ) -> tuple[BasisScores, Array]:
        """The mode of a process, and scores of rows at the modes without each."""
        rows = self._rows
        base = likelihood.base_latent_
        if not likelihood.smooth:
            likelihood = Categorical().prepare(rows.y, rows.weights)

        def target_of(rows: Rows) -> Target:
            features = np.ascontiguousarray(basis(rows.X))
            return row_target(features, rows, likelihood)

        target = target_of(rows)
        # to a squared Newton decrement of 2e-6 nats
        mode = laplace.find_mode(target, rough_start(target), 1e-6)
        scores = np.empty((len(held_out), len(base)))
        floats_per_row = 3 * len(base) * mode.root.shape[2]
        for block in row_blocks(len(held_out), floats_per_row):
            without = laplace.left_out(target_of(rows.take(held_out[block])), mode)
            scores[block] = base + without
        return BasisScores(basis, mode.weights, base), scores

    def _scale(self, mean: FittedMean) -> ClassScale:
        """Factors of the scores and of the prior variance, unless it is given.

        Without calibration both are one, and scores do not fade.

        The mode of a process whose variance is given has no factor either.
        """
        edges = self._edges(mean)
        if not self._settings.calibrate:
            return ClassScale(edge=edges[0])
        variance_is_free = self.process.prior.amplitude_is_free
        scale = fit_class_scale(
            self._prepared,
            self._held_out(mean),
            scores_are_free=variance_is_free or mean.name != "svgp",
            variance_is_free=variance_is_free,
        )
        return scale._replace(edge=edges[0])

    def _edges(self, mean: FittedMean) -> list[float]:
        """Shares of the prior variance of each state from which on scores fade.

        95 % of the held-out rows have a smaller one.
        """
        if not self._settings.calibrate:
            return [np.inf] * len(self._models)
        if not len(mean.held_out):
            return [0.0] * len(self._models)
        weights = self._rows.weights[mean.held_out]
        return [
            float(weighted_quantiles(share, weights, [0.95])[0])
            for share in self._share[mean.held_out].T
        ]

    def _held_out(self, mean: FittedMean) -> HeldOutScores:
        """Latent distribution of the held-out rows of a mean."""
        held_out = mean.held_out
        fadings = [
            fading(share, edge)
            for share, edge in zip(
                self._share[held_out].T,
                self._edges(mean),
                strict=True,
            )
        ]
        return HeldOutScores(
            codes=self._rows.y[held_out],
            weights=self._rows.weights[held_out],
            scores=mean.predictions,
            base=self._base,
            fading=np.stack(fadings, axis=1),
            variance=self._variance[held_out],
            state_weights=self._state_weights,
        )

    def held_out_losses(self, mean: FittedMean) -> Array:
        """Log losses of the calibrated mean at its held-out rows, in nats."""
        return log_losses(self._scale(mean), self._prepared, self._held_out(mean))

    def attributes(self, mean: FittedMean) -> Attributes:
        """Fitted attributes: the process of each state around the mean, calibrated."""
        scale = self._scale(mean)
        likelihoods = self._centred(scale.variance_factor)
        models = []
        scores_of_states = []
        for process, basis, likelihood, function, edge in zip(
            self._models,
            self._bases,
            likelihoods,
            mean.of_states(len(self._models)),
            self._edges(mean),
            strict=True,
        ):
            scores = FadingScores(
                function=function,
                factor=scale.score_factor,
                base=likelihood.base_latent_,
                edge=edge,
                basis=basis,
                posterior=process.weights,
                map=mean.map,
            )
            scores_of_states.append(scores)
            # ``f = base + h (a s - base) + √b (φᵀw + g)``, the process around the
            # scores
            base = scores.base
            models.append(
                replace(
                    around_zero(process, scores.map, len(base)),
                    mean=Mean(base, np.ones(len(base)), scores),
                    scale=np.sqrt(scale.variance_factor),
                )
            )
        posterior: LatentModel | MixtureModel = models[0]
        if len(models) > 1:
            posterior = MixtureModel(tuple(models), np.log(self._state_weights))
            if len(mean.functions) == 1:
                posterior = _with_shared_scores(posterior, tuple(scores_of_states))
        states = [
            state._replace(likelihood=likelihood)
            for state, likelihood in zip(self.process.priors, likelihoods, strict=True)
        ]
        return {
            "posterior_": posterior,
            "likelihood_": likelihoods[0],
            "hyperparameter_states_": tuple(states) if self.process.averaged else (),
            "calibration_": scale,
            **self.process.attributes(mean, self._rows, len(mean.held_out)),
        }


def _with_shared_scores(
    posterior: MixtureModel,
    states: tuple[FadingScores, ...],
) -> MixtureModel:
    """The same mixture, with the scores as a mean of all models."""
    c = posterior.n_outputs
    mean = Mean(np.zeros(c), np.ones(c), SharedScores(states), n_models=len(states))
    models = tuple(replace(model, mean=None) for model in posterior.models)
    return MixtureModel(models, posterior.log_weights, mean)


def _check_mean(mean: object) -> None:
    if isinstance(mean, str) and mean in ("auto", "net", "svgp"):
        return
    is_estimator = hasattr(mean, "get_params") and not isinstance(mean, type)
    if not (is_estimator and hasattr(mean, "predict_proba")):
        raise ValueError(
            'mean must be "auto", "net", "svgp" or an instance of a classifier with '
            "predict_proba, such as RandomForestClassifier(); got "
            f"{mean!r}. CalibratedClassifierCV(classifier) has it for any other."
        )
