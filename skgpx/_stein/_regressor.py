"""Mixtures of sparse-spectrum Gaussian processes whose frequencies are learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from skgpx._hyperparameters import (
    NoiseOfKinds,
    State,
    inducing_by_capacity,
    kinds_of_rows,
    learn,
    learn_noise_of_slopes,
    regress_targets,
    search_findings,
    search_record,
)
from skgpx._prediction.base import LatentRegressor
from skgpx._row_budgets import ABUNDANT_ROWS, NOISE_ROWS
from skgpx._shell.callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._shell.functionals import units_of_functionals
from skgpx._shell.row_statistics import AdditiveModel
from skgpx._shell.validation import (
    COUNT,
    COUNT_OR_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
    SEARCHED,
    HasMethods,
    Interval,
    Rows,
    StrOptions,
    Units,
    canonical_rows,
    check_is_fitted,
    check_kernel,
    check_layer_sizes,
    check_points,
    check_rows,
    fit_context,
    generator,
    kernel_of,
    refuse_categories,
    standardisation,
)
from skgpx._stein._descent import SteinDescent, calibrated
from skgpx._stein._frequency_prior import FrequencyPriorLike, checked_score
from skgpx._stein._start import (
    as_pairs,
    leave_one_out,
    starting_waves,
    strong_waves,
    with_waves,
    without_waves,
)
from skgpx._stein._wave_mixture import WIDE, NetworkWarp, SteinState, WaveMixture
from skgpx._types import (
    Array,
    ArrayLike,
    Attributes,
    Generator,
    Kernel,
    RandomState,
    RowValues,
)
from skgpx.bases import Nystroem
from skgpx.diagnostics import Findings, check_residuals, conclude, no_level
from skgpx.kernels import VALUE, Additive
from skgpx.likelihoods import Gaussian

Report = Callable[[Callable[[], Attributes], SteinDescent], bool]


class _Data(NamedTuple):
    """Rows with y standardised by the training rows, ``(y - shift) / scale``.

    Attributes
    ----------
    rows : Rows
        All of them.
    train : Rows
    validation : Rows or None
    shift, scale : float or ndarray of shape (t,)
    """

    rows: Rows
    train: Rows
    validation: Rows | None
    shift: float | Array
    scale: float | Array

    def in_units_of_noise(self, known: Array | None) -> _Data:
        """Rows of slopes, none held out, weighted by relative noise variances (n,)."""
        if known is None:
            return self
        rows = self.rows._replace(weights=self.rows.weights / known)
        return self._replace(rows=rows, train=rows)


class _Start(NamedTuple):
    """Where learning starts.

    Attributes
    ----------
    prior : State
        Kernel, and normal noise.
    noise_variance : float or ndarray of shape (t,)
        In standardised units; each target has its own.
    mixture : WaveMixture
        The waves that move.
    findings : list of Finding or None
        Findings of the search for the kernel, unless waves stand out.
    known : ndarray of shape (n,) or None
        Noise variances of slopes and values relative to that of the prior.
    """

    prior: State
    noise_variance: float | Array
    mixture: WaveMixture
    findings: Findings
    known: Array | None = None


class SteinRFFRegressor(CallbackSupportMixin, AdditiveModel, LatentRegressor):
    """Regression on learned waves: a mixture of sparse-spectrum Gaussian processes.

    Each component is Bayesian linear regression on cosines and sines of `n_frequencies`
    waves. The frequencies begin as a quasi-random sample of the spectral density of a
    kernel and are then moved by the evidence of the data, all components together, by
    Stein variational gradient descent. Cost is linear in the number of rows.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Stationary kernel with the bounds of its hyperparameters, whose spectral density
        gives the first frequencies; a WhiteKernel added to it is the noise. None
        lets RBF and Matern kernels of order 5/2 and 3/2 compete, from 4500 rows and
        three columns on also :class:`~skgpx.kernels.Additive` ones.
    n_components : int, default=6
        Number M of components.
    n_frequencies : int, default=100
        Number R of waves of a component, which has 2 R basis functions. More of them
        follow rougher functions, and functions with next to no noise; a step costs R².
    repulsion : float or None, default=1.0
        Strength of the repulsion between frequencies; 0 only smooths the gradients
        over neighbouring frequencies. None moves each frequency by the gradient of its
        own component: an ensemble of independent fits from different starts.
    frequency_prior : "kernel", Kernel, distribution, callable or None, default="kernel"
        Prior of the frequencies while they move, in radians per unit of X. "kernel":
        the spectral density that they start from, whose slope is at most 5 in units of
        the lengthscales. A kernel of scikit-learn stands for its spectral density:
        ``RBF(l)`` is the normal distribution of standard deviation 1 / l. An object
        with the method ``logpdf``, such as a frozen distribution of scipy.stats, is the
        density of each entry, or of a frequency if it is multivariate; its slopes are
        central differences, so that its support must not be bounded. A function from
        frequencies (n, d) to the gradient of their log density, (n, d). None is a flat
        prior: maximum likelihood.
    frequency_prior_weight : float or "auto", default="auto"
        Factor of the log prior beside the log evidence of each component. "auto" is
        ``R d / (R d + n)``, so that few rows leave the frequencies near the prior.
    max_iter : int, default=300
        Largest number T of steps. 0 leaves the frequencies as they start. Where they
        move in d > 256 columns, it is ``256 T / d``, rounded up: all columns move in a
        step, and phases are sums over them.
    learning_rate : float, default=0.4
        First step size of Adam, in units of the standard deviation of the frequencies
        of each input; it decays to zero as a cosine. Inputs whose standard deviation
        is larger than their lengthscale have steps in units of one over the former.
    hidden_layer_sizes : array-like of int or int, default=()
        Sizes of the hidden layers of a network g that is learned with the frequencies
        and shared by all components: waves of ``x + l g(x)``, l the lengthscales, a
        deep kernel for functions that change faster in some places than in others. It
        begins at zero. (32, 32, 32) is the network of the paper; () is none.
    non_stationary : bool, default=False
        Whether each wave is a pair of frequencies (w, w'), both of which are learned:
        generalised spectral features [3]_, the mean of the features of both, for
        functions that differ from place to place. A pair is a wave of the mean
        frequency times ``cos(v · (x - c))``, with v half the difference and c the mean
        of the rows, so that its variance is largest at c. The differences begin
        small.
    optimizer : "evidence" or None, default="evidence"
        How hyperparameters are found: by the exact evidence of at most 1500 rows,
        from 4500 rows on by the density of rows given nearest ones. None keeps the
        kernel as it is, and learns the noise unless it is given.
    noise_variance : float or None, default=None
        In squared units of y; None finds it together with the kernel. It is not learned
        together with the frequencies, because it would become too small.
    validation_fraction : float or "auto", default="auto"
        Share of the rows held out from the search. They determine a factor of prior and
        noise variance, unless these are given, by maximum likelihood; then all rows
        move the frequencies for `max_iter` / 10 more steps. "auto" is 0.15 and at most
        2000 rows, none of fewer than 50 rows.
    early_stopping : bool, default=True
        Whether learning stops where the log density of held-out rows has gained less
        than 0.01 nats per observation in 40 steps; where there are no such rows, the
        log evidence.
    n_learning_rows : int, default=3000
        Largest number of rows that move the frequencies. The posterior reads all rows.
    normalize_y : bool, default=True
        Centre and scale y before fitting; the kernel refers to the standardised y.
    n_jobs : int or None, default=None
        Threads over components and blocks of rows. The result is the same to the last
        bit for every value.
    random_state : int, RandomState or None, default=None
        Seed of the first frequencies, and of the choice of rows.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_components, n_frequencies, n_features)
        In radians per unit of X; with a network, per unit of ``x + l g(x)``. Pairs have
        the shape (n_components, n_frequencies, 2, n_features).
    amplitudes_ : ndarray of shape (n_frequencies,) or (n_frequencies, n_targets)
        Prior standard deviations of the weights of each wave, in units of y.
    spectrum_ : ndarray of shape (n_components, n_frequencies[, n_targets])
        Posterior mean of the mean square of each wave, in squared units of y: to be
        plotted over `frequencies_`. Of a pair it is that near the mean of the rows.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        Kernel whose spectral density gave the first frequencies, for the standardised
        y.
    noise_variance_ : float or ndarray of shape (n_targets,)
        In squared units of y; that of `noise_variance` or of a WhiteKernel that is
        fixed, if one is given, and otherwise after calibration.
    variance_scale_ : float or ndarray of shape (n_targets,)
        Factor of prior and noise variance, fitted to held-out rows. It multiplies the
        noise variance alone where the variance of the kernel is given (by `optimizer`
        None, fixed bounds, or a kernel without a ConstantKernel); it is 1 where the
        noise is given, and without held-out rows.
    log_evidence_ : float
        Log evidence of the fitted model, in nats and in the units of y, without the
        hyperprior, all targets together: the logarithm of the mean evidence of the
        components.
    loss_curve_ : ndarray of shape (n_steps,)
        Mean negative log evidence of the components in nats per observation of the
        standardised y, before each step, of the search that held rows out.
    validation_curve_ : ndarray of shape (n_rounds,)
        Mean log density of held-out rows in nats, of the standardised y, at the
        beginning of each round of ten steps.
    n_iter_ : int
        Steps of the search that held rows out.
    posterior_ : MixtureModel
        Bases and posteriors of the weights, from which every prediction is computed.
    likelihood_ : Likelihood
        Normal noise.
    stage_seconds_ : dict
        Wall time of the stages of :meth:`fit`: "search" (kernel and noise),
        "frequencies", "calibration" (with the last steps, by all rows) and "solution";
        of :meth:`partial_fit` and :meth:`merge`: "statistics" and "solution".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.

    See Also
    --------
    PLSRegressor : Inducing points; other likelihoods.
    SpectralVGPRegressor : Fixed waves on a box, for up to three inputs.

    Notes
    -----
    With W_m the frequencies of component m and ``phi_m(x) = [a cos(W_m x),
    a sin(W_m x)]`` the weights have a normal posterior, and the predictive distribution
    is the mixture of those of the components with equal weights. The components move by
    equation (26) of [1]_: with the slope ``g_j`` of the log evidence in frequency
    ``w_j`` and a kernel k whose bandwidths are medians ::

        w_i <- w_i + step * 1/M sum_j [k(w_i, w_j) g_j + repulsion * dk(w_i, w_j)/dw_j]

    Several targets share kernel and frequencies, which move by the sum of their log
    evidences, each with a noise of its own; noise and variances are calibrated for each
    on the same held-out rows.

    Models of the paper: ``n_components=1`` and ``max_iter=0`` is SSGP with fixed
    frequencies, with ``repulsion=None`` SSGP with learned ones, otherwise SSGP-SVGD.

    A step costs ``3 n m^2 + t m^3`` operations a component for t targets, m = 2 R, and
    ``(M R)^2 d``; the posterior ``n m^2`` a component, and a prediction ``M m^2`` a
    row. Memory is that of X, of blocks of rows, and M matrices of order m.

    References
    ----------
    .. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
    .. [2] Lazaro-Gredilla et al., "Sparse spectrum Gaussian process regression",
       JMLR 11, 2010.
    .. [3] Ton, Flaxman, Sejdinovic and Bhatt, "Spatial mapping with Gaussian processes
       and nonstationary Fourier features", Spatial Statistics 28, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SteinRFFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, size=(120, 1))
    >>> y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(120)
    >>> model = SteinRFFRegressor(n_components=2, n_frequencies=20, random_state=0)
    >>> mean, std = model.fit(X, y).predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(4.5)) < 0.1), bool(0.05 < std[0] < 0.2)
    (True, True)
    >>> model.frequencies_.shape
    (2, 20, 1)
    """

    _state: SteinState
    _takes_categories = False
    _follows_from_sums: ClassVar[frozenset[str]] = frozenset(
        {"posterior_", "likelihood_", "noise_variance_", "log_evidence_", "spectrum_"}
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        "n_components": [COUNT],
        "n_frequencies": [COUNT],
        "repulsion": [NOT_NEGATIVE, None],
        "frequency_prior": [
            StrOptions({"kernel"}),
            Kernel,
            HasMethods("logpdf"),
            callable,
            None,
        ],
        "frequency_prior_weight": [NOT_NEGATIVE, StrOptions({"auto"})],
        "max_iter": [COUNT_OR_ZERO],
        "learning_rate": [POSITIVE],
        "hidden_layer_sizes": ["array-like", COUNT],
        "non_stationary": ["boolean"],
        "noise_variance": [POSITIVE, None],
        "validation_fraction": [
            Interval(Real, 0.0, 1.0, closed="left"),
            StrOptions({"auto"}),
        ],
        "early_stopping": ["boolean"],
        "n_learning_rows": [COUNT],
        "normalize_y": ["boolean"],
        **SEARCHED,
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        n_components: int = 6,
        n_frequencies: int = 100,
        repulsion: float | None = 1.0,
        frequency_prior: FrequencyPriorLike = "kernel",
        frequency_prior_weight: float | str = "auto",
        max_iter: int = 300,
        learning_rate: float = 0.4,
        hidden_layer_sizes: int | Sequence[int] = (),
        non_stationary: bool = False,
        optimizer: str | None = "evidence",
        noise_variance: float | None = None,
        validation_fraction: float | str = "auto",
        early_stopping: bool = True,
        n_learning_rows: int = 3000,
        normalize_y: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.n_frequencies = n_frequencies
        self.repulsion = repulsion
        self.frequency_prior = frequency_prior
        self.frequency_prior_weight = frequency_prior_weight
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.hidden_layer_sizes = hidden_layer_sizes
        self.non_stationary = non_stationary
        self.optimizer = optimizer
        self.noise_variance = noise_variance
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_learning_rows = n_learning_rows
        self.normalize_y = normalize_y
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
        derivative: RowValues = None,
    ) -> Self:
        """Learn the prior and the frequencies, and fit the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets are independent functions with one prior, each with its own
            noise unless that is given.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        derivative : array-like of shape (n_samples,), int or str, default=None
            Which rows see a slope of f: the number or the name of the column along
            which it is a derivative, in units of y per unit of the column; -1 for a
            value. The noise of slopes along each column is learned apart from that of
            values. No rows are held out from such a fit, and none can be added later.

        Returns
        -------
        self : SteinRFFRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, a kernel without a
            spectral density, or parameters that contradict each other; if the score of
            `frequency_prior` has another shape than the frequencies, or is not finite
            where they move. For slopes of a kernel without any, of several targets,
            through a network and of pairs of frequencies.
        """
        reporter = RoundReporter(self, X, y, sample_weight, derivative=derivative)

        def report(
            attributes: Callable[[], Attributes],
            descent: SteinDescent,
        ) -> bool:
            figures = {"steps": descent.n_iter, "loss": descent.loss_curve[-1]}
            if descent.validation_curve:
                figures["held_out"] = descent.validation_curve[-1]
            return reporter.round(attributes, **figures)

        rows = self._rows(X, y, sample_weight, derivative=derivative)
        self._begin(rows, sample_weight, report)
        reporter.finish()
        return self

    @fit_context
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
    ) -> Self:
        """Add rows to those seen so far, with the frequencies as they are.

        The posterior is computed when it is read.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            As many targets in every call.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights.

        Returns
        -------
        self : SteinRFFRegressor

        Raises
        ------
        ValueError
            As :meth:`fit`.

        Notes
        -----
        The first call is a :meth:`fit`: its rows choose kernel, noise, frequencies and
        the standardisation of y. Sums over the rows are all that is kept of others, so
        that the posterior is that of all rows, in whatever chunks they came.
        """
        if hasattr(self, "_state"):
            return self._add_rows(X, y, sample_weight)
        rows = self._rows(X, y, sample_weight)
        self._begin(rows, sample_weight, lambda *_: False)
        return self

    def learned_kernel(self, differences: ArrayLike) -> Array:
        """Kernel of each component, as a function of the difference of two inputs.

        ``k_m(t) = sum_r a_r² cos(w_mr · t)``: the prior covariance of ``f(x)`` and
        ``f(x + t)`` in component m. Their mean is the prior covariance of the mixture.

        Parameters
        ----------
        differences : array-like of shape (n, n_features)
            t; with a network, differences of ``x + l g(x)``.

        Returns
        -------
        covariance : ndarray of shape (n_components, n) or (n_components, n, n_targets)
            In squared units of y.

        Raises
        ------
        ValueError
            If differences are not finite or of other columns; for pairs of frequencies,
            whose covariance is no function of the difference.
        """
        check_is_fitted(self)
        if self.frequencies_.ndim == 4:
            raise ValueError(
                "learned_kernel needs a stationary model: with non_stationary=True the "
                "covariance of f(x) and f(x + t) depends on x. The mean of "
                "basis(X) @ basis(Y).T over the bases of posterior_.models is the "
                "prior covariance of the standardised y at rows X and Y."
            )
        shape = (None, self.n_features_in_)
        t = check_points("differences", differences, shape)
        squares = self.amplitudes_**2
        return np.stack([np.cos(t @ omega.T) @ squares for omega in self.frequencies_])

    # ---- From parameters to a fit ----------------------------------------------------

    def _rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues,
        reset: bool = True,
        derivative: RowValues = None,
    ) -> Rows:
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=True, reset=reset)
        refuse_categories(self)
        check_kernel(kernel_of(self), X, self.noise_variance)
        prior = self.frequency_prior
        if prior is not None and not isinstance(prior, str):
            checked_score(prior, X.shape[1])
        X = self._rows_seen(X, kernel_of(self), derivative=derivative)
        has_map = self.non_stationary or check_layer_sizes(self.hidden_layer_sizes)
        if self._seen is not None and has_map:
            raise ValueError(
                "derivative is for stationary waves; got non_stationary="
                f"{self.non_stationary} and hidden_layer_sizes="
                f"{self.hidden_layer_sizes!r}. Use False and ()."
            )
        return canonical_rows(X, y, weights)

    def _begin(
        self,
        rows: Rows,
        sample_weight: object,
        report: Callable[..., bool],
    ) -> None:
        if self.non_stationary and self.max_iter == 0:
            raise ValueError(
                "non_stationary=True needs max_iter of at least 1: the frequencies of "
                "a pair begin next to each other, and only learning parts them; got "
                "max_iter=0."
            )
        clock = StageClock()
        attributes, findings = self._fit_rows(rows, clock, report)
        self._solved(attributes, clock)
        if self._seen is not None:
            findings.append(no_level(self._seen.rows(rows.X).derivative != VALUE))
        conclude(self, findings, sample_weight)

    @property
    def _prior_kernel(self) -> Kernel | None:
        """The kernel that was given, of what the rows see."""
        return self._seen or kernel_of(self)

    # ---- From rows to waves and their sums, top to bottom ----------------------------

    def _fit_rows(
        self,
        rows: Rows,
        clock: StageClock,
        report: Report,
    ) -> tuple[Attributes, Findings]:
        """Learn prior, frequencies and variance scale, and solve for the weights.

        Parameters
        ----------
        rows : Rows
            In canonical order.
        clock : StageClock
        report : callable
            Called after each round with a function that returns the fitted attributes
            as if learning ended there, which it does if `report` returns True.

        Returns
        -------
        attributes : dict
            Fitted attributes of the estimator.
        findings : list of Finding or None
        """
        rng = generator(self.random_state)
        split_rng, search_rng, sample_rng = rng.spawn(3)
        data = self._standardise_and_split(rows, split_rng)
        order = sample_rng.permutation(len(data.train.y))
        sample = np.sort(order[: self.n_learning_rows])
        learning_rows = data.train.take(sample)

        # 1  Kernel, noise, and the waves where learning starts.
        start = self._start(data, learning_rows, search_rng, rng)
        prior = start.prior
        findings = start.findings
        data = data.in_units_of_noise(start.known)
        learning_rows = data.train.take(sample)
        clock.end_of("search")

        # 2  Frequencies move by the evidence, and repel one another (Algorithm 1). A
        #    step moves all columns of a frequency, and a phase is the sum over them.
        n_moving_columns = np.count_nonzero(start.mixture.frequencies, axis=-1).max()
        descend = partial(
            SteinDescent,
            repulsion=self.repulsion,
            frequency_prior=self.frequency_prior,
            frequency_prior_weight=self.frequency_prior_weight,
            n_jobs=self.n_jobs,
        )
        descent = descend(
            start.mixture,
            learning_rows,
            max_iter=-(-self.max_iter * WIDE // max(n_moving_columns, WIDE)),
            learning_rate=self.learning_rate,
        )
        descent.run(
            data.validation,
            self.early_stopping,
            lambda state: report(
                lambda: self._attributes(data.train, state.mixture, data, start, state),
                state,
            ),
        )
        mixture = descent.mixture
        record = {"frequency_rows": len(learning_rows.y)}
        clock.end_of("frequencies")

        # 3  One factor of prior and noise variance, by the held-out rows.
        noise_variance = start.noise_variance
        variance_factor: float | Array = np.ones(rows.y.shape[1:])[()]
        if data.validation is not None:
            findings += _check_residuals(mixture, learning_rows, start, data)
            if prior.noise_is_free:
                variance_factor, noise_variance = calibrated(
                    mixture,
                    mixture.statistics(data.train, self.n_jobs),
                    noise_variance,
                    data.validation,
                )
                if not prior.amplitude_is_free:
                    noise_variance = variance_factor * noise_variance
                record["calibration_rows"] = len(data.validation.y)
            if len(rows.y) <= self.n_learning_rows:
                # Some more steps, on all rows.
                last_steps = descend(
                    mixture,
                    data.rows,
                    max_iter=-(-self.max_iter // 10),
                    learning_rate=0.5 * self.learning_rate,
                )
                mixture = last_steps.run().mixture
                record["frequency_rows"] = len(rows.y)
            clock.end_of("calibration")

        # 4  The posterior of the weights, given all rows.
        mixture = mixture._replace(noise_variance=noise_variance)
        attributes = self._attributes(
            data.rows,
            mixture,
            data,
            start,
            descent,
            variance_factor,
        )
        attributes["_record"] = search_record([prior], rows) | record
        # noise of values and of slopes, where that of the fit is relative to both
        noisy = rows._replace(known=start.known)
        noise = NoiseOfKinds.of(noisy, self._prior_kernel, Units())
        attributes |= noise.applied(attributes)
        noise_of_values = attributes["noise_variance_"]
        attributes["likelihood_"] = attributes["likelihood_"].with_noise(
            noise_of_values
        )
        clock.end_of("solution")
        return attributes, findings

    def _attributes(
        self,
        rows: Rows,
        mixture: WaveMixture,
        data: _Data,
        start: _Start,
        descent: SteinDescent,
        variance_factor: float | Array = 1.0,
    ) -> Attributes:
        """Fitted attributes of waves, given these rows."""
        # Prior and noise variance times a factor: the posterior mean is the same.
        root = np.ones_like(variance_factor)
        if start.prior.amplitude_is_free:
            root = np.sqrt(variance_factor)
        sums = mixture.statistics(rows._replace(y=rows.y / root), self.n_jobs)
        state = SteinState(
            mixture=mixture,
            statistics=sums,
            first=sums,
            shift=data.shift,
            scale=data.scale * root,
        )
        return state.solve() | {
            "_state": state,
            "variance_scale_": variance_factor,
            "loss_curve_": np.array(descent.loss_curve),
            "validation_curve_": np.array(descent.validation_curve),
            "n_iter_": descent.n_iter,
        }

    def _standardise_and_split(self, rows: Rows, rng: Generator) -> _Data:
        """Hold out validation rows, and standardise y by the others.

        At least one row is left to train. Targets of one noise have one unit.
        """
        n = len(rows.y)
        fraction = self.validation_fraction
        if self._seen is not None:
            units = units_of_functionals(
                rows,
                self._seen,
                normalize=self.normalize_y,
                robust=False,
            )
            rows = rows._replace(y=units.standardised(rows.y, rows.X))
            return _Data(rows, rows, None, units.shift, units.scale)
        if fraction != "auto":
            n_held_out = min(int(np.ceil(float(fraction) * n)), n - 1)
        elif n >= 50:
            n_held_out = min(round(0.15 * n), 2000)
        else:
            n_held_out = 0
        is_held_out = np.zeros(n, bool)
        is_held_out[rng.permutation(n)[:n_held_out]] = True

        shift: float | Array = 0.0
        scale: float | Array = np.ones(rows.y.shape[1:])[()]
        if self.normalize_y:
            train = rows.take(~is_held_out)
            shift, scale = standardisation(train.y, train.weights)
        if self.noise_variance is not None:
            scale = scale * 0.0 + np.sqrt(np.mean(scale**2))
        rows = rows._replace(y=(rows.y - shift) / scale)
        return _Data(
            rows=rows,
            train=rows.take(~is_held_out),
            validation=rows.take(is_held_out) if n_held_out > 0 else None,
            shift=shift,
            scale=scale,
        )

    def _start(
        self,
        data: _Data,
        learning_rows: Rows,
        search_rng: Generator,
        rng: Generator,
    ) -> _Start:
        """Kernel and noise by the evidence; waves, quasi-random, strong or mapped."""
        wave_rng, network_rng, pair_rng = rng.spawn(3)
        layers = check_layer_sizes(self.hidden_layer_sizes)
        train = data.train

        def learn_kernel(rows: Rows) -> _Start:
            rows, prior = self._learn_prior(rows, data, search_rng)
            noise_variance = self._noise_of_targets(rows, prior, search_rng)
            smallest = noise_variance
            if prior.noise_is_free:
                # A few waves cannot do with next to no noise: the evidence would be
                # that of the rows they miss most.
                smallest = np.maximum(noise_variance, 2e-4)[()]
            mixture = starting_waves(
                rows,
                prior.kernel,
                smallest,
                n_components=self.n_components,
                n_frequencies=self.n_frequencies,
                n_columns=self.n_features_in_,
                rng=wave_rng,
            )
            findings = search_findings([prior], rows)
            return _Start(prior, noise_variance, mixture, [*findings], rows.known)

        start = learn_kernel(train)
        mixture = start.mixture
        if layers:
            # φ(x + ℓ g(x)), a network g in front of the waves
            warp = NetworkWarp(
                layers,
                train.X,
                train.weights,
                unit=mixture.length_scale,
                rng=network_rng,
            )
            start = start._replace(mixture=mixture._replace(warp=warp))
        elif (
            self.max_iter > 0
            and self._seen is None
            # sums have waves of each column
            and type(start.prior.kernel) is not Additive
        ):
            waves = strong_waves(learning_rows, mixture)
            if waves is not None:
                start = learn_kernel(without_waves(train, waves))
                start = start._replace(
                    mixture=with_waves(
                        start.mixture,
                        waves,
                        start.prior.amplitude_is_free,
                    ),
                    findings=[],
                )
        if self.non_stationary:
            start = start._replace(mixture=as_pairs(start.mixture, train, pair_rng))
        return start

    def _learn_prior(
        self,
        rows: Rows,
        data: _Data,
        rng: Generator,
    ) -> tuple[Rows, State]:
        """Kernel and noise variance that maximise the evidence of some rows.

        Rows of slopes and values get their relative noise.
        """
        noise_variance = self.noise_variance
        if noise_variance is not None:
            noise_variance = noise_variance / float(np.mean(data.scale**2))
        kernel = self._prior_kernel
        search = partial(
            learn,
            rng=rng,
            kernel=kernel,
            fixed=self.optimizer is None,
            # frequencies start from the kernel, and the evidence moves them
            rough=False,
            trend=False,
            # of fewer rows the evidence prefers sums that predict no better
            sums=len(rows.y) >= ABUNDANT_ROWS,
            turns=False,
        )
        rows, (prior,) = learn_noise_of_slopes(
            rows,
            kinds_of_rows(rows, kernel),
            Gaussian(noise_variance).prepare(rows.y, rows.weights),
            search,
        )
        return rows, prior

    def _noise_of_targets(
        self,
        rows: Rows,
        prior: State,
        rng: Generator,
    ) -> float | Array:
        """Noise variance; of several targets, by the evidence of each in one basis."""
        if rows.y.ndim == 1:
            return prior.noise_variance
        sample = rows.thinned(NOISE_ROWS)
        inducing_points, _ = inducing_by_capacity(
            sample,
            prior.kernel,
            prior.noise_variance,
            "greedy",
            rng,
            500,
        )
        basis = Nystroem.from_kernel(prior.kernel, inducing_points)
        _, noises = regress_targets(
            basis,
            sample,
            prior.likelihood,
            self.n_jobs,
        )
        return noises

    def _solution(self) -> Attributes:
        return self._state.solve()


def _check_residuals(
    mixture: WaveMixture,
    learning_rows: Rows,
    start: _Start,
    data: _Data,
) -> Findings:
    """What the leave-one-out errors of the learned waves say of kernel and noise."""
    warp = mixture.warp
    mapped = learning_rows.X if warp is None else warp(learning_rows.X)
    mapped_rows = learning_rows._replace(X=mapped)
    moments = [leave_one_out(mapped_rows, waves) for waves in mixture.waves()]
    errors = np.mean([errors for errors, _ in moments], axis=0)
    variance = np.mean([variance for _, variance in moments], axis=0)
    return check_residuals(
        learning_rows._replace(y=learning_rows.y + data.shift / data.scale),
        errors,
        variance,
        start.noise_variance,
        start.prior.likelihood,
        mixture.covariance,
        held_out=True,
        noise_is_free=start.prior.noise_is_free,
        # residuals are also what so few waves cannot follow
        other_noise=False,
    )
