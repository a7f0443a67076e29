"""Decoupled sampling: posterior functions, drawn once, evaluated anywhere."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.utils import Tags, get_tags

from skgpx._decoupled._exact import ExactPosterior, regressor_posterior, without_factor
from skgpx._decoupled._regressors import (
    GivenWeights,
    SparseProcess,
    check_drawable,
    check_kernel_of,
    default_estimator,
    sections_posterior,
    sparse_process,
    with_functions_of_y,
)
from skgpx._draws import FunctionDraws, box_of_grid, checked_domain, checked_n_basis
from skgpx._hyperparameters import search_findings, search_record
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.blas_threads import threads_for
from skgpx._numerics.rows import row_slices
from skgpx._numerics.weights import WeightParticles
from skgpx._prediction.distribution import Predictive, normal_distribution
from skgpx._reports.report import Reporting
from skgpx._shell.callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._shell.cross_fitting import seeded
from skgpx._shell.parallel import parallel_stream
from skgpx._shell.validation import (
    HYPERPARAMETERS,
    Interval,
    RowReader,
    StrOptions,
    check_columns,
    check_count,
    check_is_fitted,
    check_range,
    check_X,
    fit_context_of_nested,
    generator,
    kernel_of,
    row_blocks,
    validate_data,
    with_codes,
)
from skgpx._shell.wrapped import best_of
from skgpx._types import AnyArray, Array, ArrayLike, Generator, Kernel, RandomState
from skgpx.diagnostics import Finding, conclude


def moments_of(
    estimator: RegressorMixin,
    options: dict[str, bool],
    rows: ArrayLike,
) -> Any:
    """Mean, and the further moments of the options, at a block of rows."""
    return estimator.predict(rows, **options)


def observed(
    draws: FunctionDraws,
    noise: Any,
    X: Array,
    rng: Generator,
) -> Array:
    """Values with white noise at a block of rows, (n, c, s)."""
    y = draws.values(X)
    variance = noise.noise_variance_at(X)
    if variance.any():
        y += np.sqrt(variance)[:, :, np.newaxis] * rng.standard_normal(y.shape)
    return y


class DecoupledSampler(CallbackSupportMixin, RegressorMixin, Reporting, BaseEstimator):
    """Functions from the posterior of a Gaussian-process regressor, at linear cost.

    Wraps a GaussianProcessRegressor, or the posterior of a sparse model, and
    draws whole functions: a draw of the prior in Fourier features, corrected by kernel
    functions at the data. The correction is exact, so the draws have the mean of the
    exact posterior. N rows cost O(N), where `sample_y` of scikit-learn takes O(N^3).

    Parameters
    ----------
    estimator : GaussianProcessRegressor or None, default=None
        The process; a clone of it is fitted. ``FrozenEstimator(model)`` uses a fitted
        model unchanged. Other regressors need a method `sample_functions`, such as
        PLSRegressor. None learns kernel and noise. See Notes.
    n_basis : int, "auto", or tuple or list of int, default="auto"
        Number of Fourier features of the prior, two for each frequency, best a power
        of two; with ``prior="grid"`` the number of nodes, in total or (a tuple or
        list) along each axis. It affects the accuracy of the *covariance*; the mean is
        exact with any number. "auto" doubles the number until the standard deviations
        of draws agree with the exact ones, at points left out and at fresh inputs
        inside the data and just outside.
    prior : {"auto", "spectral", "exact", "grid"}, default="auto"
        "spectral" draws the prior with features, and refuses kernels that have none.
        "exact" is exact for every kernel, keeps the values of earlier evaluations, and
        costs the cube of the number of points. "grid" takes stationary kernels of one
        to three inputs: it is exact at the nodes of a regular grid and a cubic spline
        between them, and draws raise a ValueError outside of `domain`. "auto" is exact
        only if a part of the kernel has no features. With another regressor than a
        GaussianProcessRegressor, a `prior` or `n_basis` other than "auto" needs a
        posterior on inducing points without nearest rows, such as
        ``PLSRegressor(n_neighbors=0)``.
    domain : array-like of shape (n_features, 2) or None, default=None
        Box in which draws with ``prior="grid"`` are defined; the rows of the fit are
        added to it. None stands for the range of the rows and a fifth of it on either
        side.
    hyperparameters : {"auto", "average", "maximise"}, default="auto"
        For the default process: "average" draws each function under hyperparameters of
        its own, from their posterior; "maximise" draws all under the most probable
        ones. "auto" averages up to 300 rows.
    n_jobs : int or None, default=None
        Threads. The result is the same to the last bit for every value.
    random_state : int, RandomState or None, default=None
        Default seed of :meth:`sample_functions`, and seed of the hyperparameter search
        of the default estimator. An estimator that is given takes its seeds from it
        where its own `random_state` is None.

    Attributes
    ----------
    estimator_ : estimator
        The fitted regressor, or its replacement for many rows (see Notes).
    findings_ : tuple of Finding
        Findings of the diagnostics of the fit.
    posterior_ : ExactPosterior, LatentModel, MixtureModel or None
        Distribution that functions are drawn from; None if `sample_functions` of
        `estimator_` is used, also for the replacement for many rows.
    kernel_ : sklearn.gaussian_process.kernels.Kernel or None
        Kernel of `estimator_`: the prior covariance, for a GaussianProcessRegressor
        with its white noise; None if the estimator has no kernel.
    stage_seconds_ : dict
        Wall time of the stages "search" (kernel of an exact process, if no estimator is
        given), "estimator" and "posterior".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    domain_ : ndarray of shape (n_features, 2) or None
        Box in which draws are defined; None, for everywhere, unless ``prior="grid"``.
    categories_ : dict of ndarray
        Categories of the columns of X of type category, by name; a code is a
        position among them. Only if X has such columns.

    See Also
    --------
    FunctionDraws : What :meth:`sample_functions` returns.
    PLSRegressor : Other likelihoods, and many rows.
    ExactGPRegressor : Many rows, and hyperparameters that are learned from them.
    skgpx.thompson.ThompsonSampler : Optimisation with draws.
    skgpx.simulation : Differential equations with a draw as drift.

    Notes
    -----
    With f a draw of the prior, ε of the noise, and K and Σ their covariances at the
    data (Matheron's rule, [1]_ eq. 12),

        ``f(x) + k(x, X) (K + Σ)^-1 (y - f(X) - ε)``

    is a draw of the posterior. Here f has l Fourier features [2]_; evaluating it at one
    input costs O(l), and the second term O(n). A WhiteKernel and `alpha` are both part
    of Σ; only the former is noise of new observations, as in scikit-learn. Drawing s
    functions costs O(n l s + n^2 s), evaluating them at one row O((l + n) s).

    `estimator` determines the posterior that functions are drawn from:

    * A GaussianProcessRegressor is fitted, and its posterior is exact. If it keeps its
      kernel (``optimizer=None``, or fixed bounds), has more than 8000 rows, and
      `n_basis` and `prior` are "auto", the sampler replaces it without a warning:
      `estimator_` is then another regressor, which solves by conjugate gradients, as
      ExactGPRegressor does. The mean has four digits or more, standard deviations are
      right within a few percent, and the fit solves for 64 draws. More draws take
      another solution, and draws cannot be conditioned further. A frozen regressor is
      never replaced.
    * Of any other regressor the methods `predict`, `sample_y` and `sample_functions`
      are used. If `prior` or `n_basis` is not "auto", functions are drawn from its
      `posterior_` instead.
    * None learns the kernel, among the candidates of PLSRegressor, and the noise. Up to
      300 rows the process is the mixture of a PLSRegressor over states of the
      hyperparameters, from 301 to 1500 rows an exact GaussianProcessRegressor; above,
      and for several targets, it is ``PLSRegressor(n_neighbors=0)``. Draws of all can
      be conditioned, each under its own hyperparameters.

    References
    ----------
    .. [1] Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently
       sampling functions from Gaussian process posteriors", ICML 2020.
    .. [2] Rahimi and Recht, "Random features for large-scale kernel machines",
       NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgpx import DecoupledSampler
    >>> X = np.linspace(0.0, 6.0, 30)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> model = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.01))
    >>> sampler = DecoupledSampler(model).fit(X, y)
    >>> draws = sampler.sample_functions(5, random_state=0)
    >>> draws(np.linspace(0.0, 9.0, 10_000)[:, np.newaxis]).shape
    (10000, 5)
    >>> sampler.sample_y(X, n_samples=3).shape
    (30, 3)
    """

    # Pipeline.predict(X, return_std=True) also works with metadata routing on
    __metadata_request__predict: ClassVar = {"return_std": True, "return_cov": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "n_basis": [
            Interval(Integral, 2, None, closed="left"),
            StrOptions({"auto"}),
            tuple,
            list,
        ],
        "prior": [StrOptions({"auto", "spectral", "exact", "grid"})],
        "domain": ["array-like", None],
        "hyperparameters": HYPERPARAMETERS,
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    estimator_: Any
    posterior_: ExactPosterior | LatentModel | MixtureModel | None

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_basis: int | str | Sequence[int] = "auto",
        prior: str = "auto",
        domain: ArrayLike | None = None,
        hyperparameters: str = "auto",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.estimator = estimator
        self.n_basis = n_basis
        self.prior = prior
        self.domain = domain
        self.hyperparameters = hyperparameters
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    @fit_context_of_nested
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit a clone of the estimator, unless it is frozen.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Not used, and not needed, for a FrozenEstimator.

        Returns
        -------
        self : DecoupledSampler

        Raises
        ------
        ValueError
            If X or y is not finite or has a wrong shape, if functions cannot be drawn
            from the estimator, or if its kernel is not finite between equal rows, as a
            Matern with a large nu. If `n_basis` or `domain` is not for the columns of
            X, or if `prior` or `n_basis` is not "auto" and the estimator has no
            posterior that they can be used for.
        """
        reporter = RoundReporter(self, X, y, None)
        clock = StageClock()
        findings: tuple[Finding, ...] = ()
        self._record = None
        self.posterior_ = None
        if isinstance(self.estimator, FrozenEstimator):
            checked = self._use_frozen(self.estimator.estimator, X)
        else:
            coded = with_codes(self, X, reset=True)
            check_columns(coded, y)
            checked, targets = validate_data(
                self,
                coded,
                y,
                dtype=np.float64,
                multi_output=get_tags(self).target_tags.multi_output,
                y_numeric=True,
            )
            check_range("X", checked)
            check_range("y", np.asarray(targets, dtype=np.float64))
            self._check_grid(checked.shape[1])
            if self.estimator is None:
                estimator, learned, read = default_estimator(
                    checked,
                    targets,
                    self.random_state,
                    self.n_jobs,
                    kernel_of(self),
                    self.hyperparameters,
                )
                if learned is not None and read is not None:
                    findings = tuple(search_findings([learned], read))
                    self._record = search_record([learned], read)
            else:
                check_drawable(self.estimator)
                estimator = with_functions_of_y(self._own_estimator())
            check_kernel_of(self, estimator, checked)
            # unless a parameter sets how the prior is drawn
            if self.n_basis == self.prior == "auto":
                estimator = without_factor(
                    estimator,
                    checked,
                    self.n_jobs,
                    self.random_state,
                )
            clock.end_of("search")
            rows = self._rows_for(estimator, X, checked)
            with reporter.around(estimator), threads_for(len(checked)):
                estimator.fit(rows, targets)
            self.estimator_ = best_of(estimator)
            clock.end_of("estimator")
        conclude(self, findings)
        # findings of the estimator's own fit, which has emitted them
        self.findings_ += getattr(self.estimator_, "findings_", ())
        self._take_posterior(checked)
        clock.end_of("posterior")
        self.stage_seconds_ = clock.seconds
        reporter.finish()
        return self

    def _own_estimator(self) -> BaseEstimator:
        """Clone of the regressor, which is reproducible if the sampler has a seed."""
        if self.random_state is None:
            return clone(self.estimator)
        return seeded(self.estimator, generator(self.random_state))

    def _check_grid(self, d: int) -> None:
        """Refuse numbers of nodes and a domain that do not fit d columns."""
        checked_n_basis(self.n_basis, self.prior, d)
        checked_domain(self.domain, d)

    def _take_posterior(self, X: Array) -> None:
        """Kernel of the regressor, and the distribution that functions come from."""
        model = self.estimator_
        d = X.shape[1]
        self.kernel_ = getattr(model, "kernel_", None)
        if isinstance(model, SparseProcess):
            self.posterior_ = model.model
        elif isinstance(model, GaussianProcessRegressor):
            self.posterior_ = regressor_posterior(model, d)
            self.kernel_ = self.posterior_.full_kernel
        elif self.estimator is None:
            self.posterior_ = model.posterior_
        elif not self.prior == self.n_basis == "auto":
            self.posterior_ = sections_posterior(model, self.prior, self.n_basis)
        self.domain_ = None
        domain = checked_domain(self.domain, d)
        if self.prior == "grid" and self.posterior_ is not None:
            self.domain_ = box_of_grid(domain, X)

    def _rows_for(self, estimator: BaseEstimator, X: ArrayLike, checked: Array) -> Any:
        """Rows as the estimator inside takes them, with the names of the columns."""
        if not hasattr(X, "columns"):
            return checked
        # models of the library make codes of categories themselves
        inner = getattr(estimator, "estimator", estimator)
        if hasattr(inner, "sample_functions"):
            return X
        return with_codes(self, X)

    def _use_frozen(self, frozen: BaseEstimator, X: ArrayLike) -> Array:
        """Take a fitted estimator as it is; rows as an array."""
        check_drawable(frozen)
        check_is_fitted(frozen)
        self.estimator_ = best_of(frozen)
        # categories are those of its own fit
        with_codes(self, None, reset=True)
        if hasattr(self.estimator_, "categories_"):
            self.categories_ = self.estimator_.categories_
        coded = with_codes(self, X)
        check_columns(coded)
        checked: Array = validate_data(self, coded, dtype=np.float64)
        self._check_grid(checked.shape[1])
        n_fitted = getattr(self.estimator_, "n_features_in_", self.n_features_in_)
        if n_fitted != self.n_features_in_:
            raise ValueError(
                f"X has {self.n_features_in_} features, but the frozen "
                f"{type(self.estimator_).__name__} was fitted with {n_fitted}."
            )
        check_kernel_of(self, self.estimator_, checked)
        if self._reader.columns:
            # refuses columns that are not those of its own fit
            self._reader(X)
        return checked

    @property
    def _reader(self) -> RowReader:
        """Reads rows for draws: a frozen estimator has the columns of its own fit."""
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        if is_frozen and hasattr(self.estimator_, "feature_names_in_"):
            return RowReader(self.estimator_)
        return RowReader(self)

    @classmethod
    def from_inducing(
        cls,
        kernel: Kernel,
        Z: ArrayLike,
        *,
        q_mean: ArrayLike | None = None,
        q_cov: ArrayLike | None = None,
        q_root: ArrayLike | None = None,
        u_samples: ArrayLike | None = None,
        whitened: bool = False,
        mean: float | Callable[[Array], ArrayLike] = 0.0,
        noise_variance: ArrayLike = 0.0,
        jitter: float = 1e-10,
        **options: Any,
    ) -> DecoupledSampler:
        """Draw from a sparse model that was trained with any library.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Prior covariance; a WhiteKernel in it is observation noise.
        Z : array-like of shape (m, n_features)
            Inducing points.
        q_mean : array-like of shape (m,) or (m, c), default=None
            Mean of the values u at Z, for c outputs.
        q_cov : array-like of shape (m, m) or (c, m, m), default=None
            Covariance of u, the same for all outputs or one for each.
        q_root : array-like of shape (m, m) or (c, m, m), default=None
            Instead of `q_cov`: R with covariance ``R R^T``.
        u_samples : array-like of shape (m, s) or (m, c, s), default=None
            Instead of all of these: samples of u, of any shape. Each is used equally
            often.
        whitened : bool, default=False
            Whether moments and samples describe ``L^-1 (u - mean(Z))`` with
            ``L L^T = k(Z, Z)``, as in GPflow and GPyTorch.
        mean : float or callable, default=0.0
            Prior mean; a callable maps (n, n_features) to (n,) or (n, c). Should be
            picklable. Unless whitened, u includes it.
        noise_variance : float or array-like of shape (c,), default=0.0
            Variance of the observations given the function, for `sample_y` and
            `predict`; added to the variance of a WhiteKernel.
        jitter : float, default=1e-10
            Added to the diagonal of ``k(Z, Z)``, relative to its mean; the same L is
            used for u and for the draws. For whitened values, use the jitter of
            the other library.
        **options
            Parameters of DecoupledSampler.

        Returns
        -------
        sampler : DecoupledSampler
            Fitted; its `predict` gives the exact moments of the sparse model.

        Raises
        ------
        ValueError
            If shapes do not agree, values are not finite, or a covariance is not
            positive semi-definite.

        Notes
        -----
        ``f(x) + k(x, Z) k(Z, Z)^-1 (u - f(Z))`` with f from the prior and u from the
        posterior. O(m^3) once; then the cost of the exact posterior with m for n.

        Examples
        --------
        Arrays of a whitened variational model: ``variational_mean`` (m,) and
        ``chol_variational_covar`` (m, m) in GPyTorch; ``q_mu`` (m, c) and ``q_sqrt``
        (c, m, m) in GPflow.

        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from skgpx import DecoupledSampler
        >>> Z = np.linspace(0.0, 1.0, 5)[:, np.newaxis]
        >>> sampler = DecoupledSampler.from_inducing(
        ...     2.0 * RBF(0.3), Z, q_mean=np.ones(5), q_root=0.1 * np.eye(5),
        ...     whitened=True, jitter=1e-6,
        ... )
        >>> sampler.sample_functions(3, random_state=0)(Z).shape
        (5, 3)
        """
        process = sparse_process(
            kernel,
            Z,
            GivenWeights(
                q_mean=q_mean,
                q_cov=q_cov,
                q_root=q_root,
                u_samples=u_samples,
                whitened=whitened,
            ),
            mean=mean,
            noise_variance=noise_variance,
            jitter=jitter,
        )
        sampler = cls(FrozenEstimator(process), **options)
        return sampler.fit(np.asarray(Z, np.float64))

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = ...) -> Array: ...

    @overload
    def predict(
        self,
        X: ArrayLike,
        return_std: Literal[True],
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(
        self,
        X: ArrayLike,
        return_std: bool = ...,
        return_cov: bool = ...,
    ) -> Any: ...

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """Exact predictive moments of the estimator, without sampling.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of y.
        return_cov : bool, default=False
            Also return the covariance of y between the rows.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_targets)
        std : ndarray of shape (n_rows,) or (n_rows, n_targets)
            Only if `return_std`. As in GaussianProcessRegressor it includes a
            WhiteKernel, and not `alpha`.
        covariance : ndarray of shape (n_rows, n_rows) or (n_rows, n_rows, n_targets)
            Only if `return_cov`.
        """
        checked = check_X(self, X)
        rows = self._rows_for(self.estimator_, X, checked)
        options: dict[str, bool] = {}
        if return_std:
            options["return_std"] = True
        if return_cov:
            options["return_cov"] = True
        floats_per_row = 0
        if self.posterior_ is not None:
            floats_per_row = self.posterior_.floats_per_row
        in_blocks = floats_per_row > 0 and not hasattr(
            self.estimator_, "sample_functions"
        )
        if return_cov or not in_blocks:
            return self.estimator_.predict(rows, **options)
        blocks = row_blocks(len(checked), floats_per_row)
        items = [(rows[block],) for block in blocks]
        n_jobs = self.n_jobs
        if len(items) <= 1:
            n_jobs = 1
        parts = list(
            parallel_stream(moments_of, items, n_jobs, self.estimator_, options)
        )
        if not return_std:
            return np.concatenate(parts)
        means, stds = zip(*parts, strict=True)
        return np.concatenate(means), np.concatenate(stds)

    def predict_dist(self, X: ArrayLike) -> Predictive:
        """Predictive distribution of y: moments, quantiles, densities and draws.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        distribution : Predictive
            With the methods `mean`, `std`, `quantile`, `interval`, `cdf`, `log_density`
            and `sample`. The distribution of `estimator_` if it has the method;
            otherwise normal with the moments of :meth:`predict`.

        Raises
        ------
        ValueError
            If the posterior is given by samples (`from_inducing`) and is not normal.
        """
        checked = check_X(self, X)
        if hasattr(self.estimator_, "predict_dist"):
            rows = self._rows_for(self.estimator_, X, checked)
            return self.estimator_.predict_dist(rows)
        weights = getattr(self.posterior_, "weights", None)
        if isinstance(weights, WeightParticles):
            raise ValueError(
                "The posterior of this sampler is that of the u_samples it was given, "
                "and not normal. Use sample_y, or give q_mean and q_root."
            )
        # Any: a list for several targets only
        distribution: Any = normal_distribution(copy.copy(self), X)
        return distribution

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
            Seed; None uses the seed of the sampler.

        Returns
        -------
        draws : FunctionDraws
            ``draws(X)`` has shape (n_rows, n_samples), or (n_rows, n_targets,
            n_samples) for several targets; in the units of y and without noise. Calling
            it again, on any rows, evaluates the same functions. Data frames are read as
            by `predict`.

        Warns
        -----
        PredictionWarning
            If the standard deviations of the draws are expected to be off: by more than
            2 % with the largest number of features that ``n_basis="auto"`` takes, or by
            more than 10 % with a number of your own.
        """
        check_is_fitted(self)
        if random_state is None:
            random_state = self.random_state
        n_samples = check_count(n_samples, "n_samples")
        if self.posterior_ is None:
            return self.estimator_.sample_functions(n_samples, random_state)
        draws = self._draw(n_samples, generator(random_state))
        return draws.with_reader(self._reader)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> AnyArray:
        """Draw observations, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_samples : int, default=1
            Draws per row.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None uses the seed of the sampler.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            As from `sample_y` of GaussianProcessRegressor: with the noise of a
            WhiteKernel, independent for each row (even between equal ones), and without
            `alpha`. The same seed gives other numbers than there.

        Notes
        -----
        O(n_rows) time; memory for the result and a block of rows.
        """
        checked = check_X(self, X)
        n_samples = check_count(n_samples, "n_samples")
        if random_state is None:
            random_state = self.random_state
        if self._has_own_noise:
            rows = self._rows_for(self.estimator_, X, checked)
            return self.estimator_.sample_y(rows, n_samples, random_state)
        rng, noise_rng = generator(random_state).spawn(2)
        draws = self._draw(n_samples, rng)
        # rows of `sample_y` at a time: fixed, so that results do not depend on the
        # workers
        blocks = row_slices(len(checked), 1024)
        streams = noise_rng.spawn(len(blocks))
        items = [
            (checked[block], stream)
            for block, stream in zip(blocks, streams, strict=True)
        ]
        n_jobs = self.n_jobs
        if len(items) == 1 or draws.is_stateful:
            # stateful draws are evaluated in the order of the rows
            n_jobs = 1
        parts = parallel_stream(observed, items, n_jobs, draws, self._noise)
        y = np.empty((len(checked), draws.n_outputs, n_samples))
        for block, part in zip(blocks, parts, strict=True):
            y[block] = part
        if y.shape[1] == 1:
            return y[:, 0]
        return y

    @property
    def _noise(self) -> Any:
        """Noise of observations, for an exact process or a sparse one."""
        if isinstance(self.estimator_, SparseProcess):
            return self.estimator_
        posterior = self.posterior_
        if isinstance(posterior, LatentModel):
            noise_variance = self.estimator_.noise_variance_
            return SparseProcess(posterior, self.kernel_, noise_variance)
        # others have noise of their own
        assert isinstance(posterior, ExactPosterior)
        return posterior

    @property
    def _has_own_noise(self) -> bool:
        """Whether `estimator_` draws observations, under a likelihood of its own."""
        exact = isinstance(self.estimator_, GaussianProcessRegressor | SparseProcess)
        if self.posterior_ is None or isinstance(self.posterior_, MixtureModel):
            return True
        return not (exact or self.estimator is None)

    def _draw(self, size: int, rng: Generator) -> FunctionDraws:
        # errors of different sets of frequencies average out; the cosines of a set cost
        # as much as the product with the weights of a few tens of draws; every model of
        # a mixture has a set of its own
        n_models = len(getattr(self.posterior_, "models", (self.posterior_,)))
        n_groups = min(8, max(1, size // (64 * n_models)))
        return self.posterior_.draw(  # type: ignore[union-attr]
            size,
            rng,
            n_basis=self.n_basis,
            prior=self.prior,
            n_groups=n_groups,
            domain=self.domain_,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = self.estimator
        # the default process has a kernel of categories
        categorical = inner is None
        if isinstance(inner, type) or not hasattr(inner, "__sklearn_tags__"):
            inner = GaussianProcessRegressor()
        else:
            categorical = get_tags(inner).input_tags.categorical
        tags.input_tags.categorical = categorical
        tags.target_tags.multi_output = get_tags(inner).target_tags.multi_output
        tags.target_tags.required = not isinstance(self.estimator, FrozenEstimator)
        return tags
