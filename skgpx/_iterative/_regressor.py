"""Exact Gaussian-process regression for many rows, by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from skgpx import diagnostics
from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    WithoutCaches,
    draw_prior,
    section_terms,
)
from skgpx._hyperparameters import (
    MAX_INDUCING_NON_GAUSSIAN,
    NormalForm,
    State,
    inducing_by_capacity,
    learn,
    on_scale,
    search_findings,
    search_record,
)
from skgpx._iterative._product import KernelProduct, VarianceCorrection
from skgpx._iterative._sparse import SparsePosterior, SparseRows
from skgpx._numerics.conjugate_gradients import Progress, Solution, solve
from skgpx._numerics.linalg import NUGGET
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import thinning
from skgpx._numerics.variance_scale import fit_scale
from skgpx._prediction.base import LatentRegressor
from skgpx._row_budgets import CHECKED_ROWS, THINNED_ROWS
from skgpx._shell.callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._shell.validation import (
    COUNT,
    COUNT_OR_ZERO,
    INTERACTIONS,
    POSITIVE,
    SEARCHED,
    Interval,
    Rows,
    StrOptions,
    Units,
    canonical_rows,
    check_kernel,
    check_rows,
    fit_context,
    generator,
    in_unit_scale,
    kernel_of,
    refuse_categories,
    row_quantity,
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
from skgpx.bases import Nystroem
from skgpx.diagnostics import Findings, conclude
from skgpx.kernels import decaying_part, rescaled
from skgpx.likelihoods import Gaussian, Likelihood, Warped
from skgpx.likelihoods._warped import normal_noise

# Largest number of floats of the features of the preconditioner: half a gigabyte.
_MOST_FEATURES = 6e7


class _Solved(NamedTuple):
    """Prior, prior draws and solution of a fit, for a warm start.

    Attributes
    ----------
    hyperparameters : State
        Hyperparameters for the standardised y.
    form : NormalForm
        The scale of y, and y on it.
    units : Units
        Units of y, on its scale.
    rows : Rows
        Standardised.
    prior : FunctionDraws
    errors : ndarray of shape (n, c, s)
        Draws of the noise, in units of its standard deviation.
    coefficients : ndarray of shape (n, c, 1 + s)
    """

    hyperparameters: State
    form: NormalForm
    units: Units
    rows: Rows
    prior: FunctionDraws
    errors: Array
    coefficients: Array


class ExactGPRegressor(CallbackSupportMixin, LatentRegressor):
    """Exact Gaussian-process regression for ten to a hundred thousand rows.

    The linear systems of the exact process are solved by conjugate gradients, from
    products with a kernel matrix that is never stored: for y, which gives the mean, and
    for draws from the prior, which become draws from the posterior. Nothing is
    approximated by inducing points; they precondition the solver.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance of the function, with the bounds of its hyperparameters; a
        WhiteKernel added to it is the noise. None stands for the default kernels of
        :class:`PLSRegressor`. RBF, Matern (1/2, 3/2, 5/2) and RationalQuadratic
        kernels, linear ones, and their sums and products are fast; any other takes
        several times as long.
    n_draws : int, default=32
        Number of functions that are drawn from the posterior in `fit`, at least 2:
        `sample_functions` and `sample_y` return some of these, and standard deviations
        use all. Time grows by about 2 % with each.
    n_neighbors : int or "auto", default="auto"
        Nearest rows that the sparse process, preconditioner of the solver and start of
        the standard deviations, adds to inducing points; 0 for none. "auto" takes 20
        where inducing points do not suffice and the correlations of at least one term
        of the kernel fade with the distance.
    tol : float, default=0.1
        The solver ends when two products in succession have changed the predictions at
        the rows by less than this part of the standard deviation of a new observation,
        root mean square: that of the mean, and of every draw.
    max_iter : int, default=100
        Most steps of the solver.
    likelihood : Gaussian, Warped or None, default=None
        Noise of y: ``Gaussian()`` or, of a function of y, ``Warped()``. None takes the
        one of the larger evidence, for each of several targets, as
        :class:`PLSRegressor` does.
    optimizer : {"evidence"} or None, default="evidence"
        How hyperparameters are found: "evidence" maximises the evidence of an exact
        process of at most 1500 rows times a hyperprior, from 4500 rows on the density
        of up to 40 000 given their nearest predecessors; None keeps the kernel as it
        is, and learns the noise unless it is given. From 1500 to 4500 rows a function
        of next to no noise has the mean noise of a coarsened posterior: few of the rows
        that are read may be in error.
    interaction_cst : {"no_interactions", "pairwise"}, list or tuple, default=None
        Which columns the default kernel lets interact, as in scikit-learn's
        HistGradientBoostingRegressor: the latent function is a sum of functions of one
        column each, of at most two, or of groups of columns such as ``[["time",
        "place"], [3]]``, by name or number; those in no group are one more. With a
        `kernel` of yours it is a ValueError.
    normalize_y : bool, default=True
        Centre and scale y before fitting. Kernel hyperparameters, white noise and
        bounds then refer to the standardised y.
    warm_start : bool, default=False
        The next fit with the same `kernel` keeps the hyperparameters, the units of y
        and the prior draws, and starts from the solution at the rows that it shares
        with the last: for rows that are added.
    n_jobs : int or None, default=None
        Threads (or the workers of ``joblib.parallel_config``). The result is the same
        to the last bit for every value. None is as many threads as BLAS uses.
    random_state : int, RandomState or None, default=None
        Seed of the draws and of subsets of rows.

    Attributes
    ----------
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        Prior covariance with its hyperparameters, for the standardised y.
    likelihood_ : Gaussian or Warped
        The noise, in the units of y.
    noise_variance_ : float or ndarray of shape (n_targets,)
        Variance of the noise in squared units of y.
    log_evidence_ : float
        Log evidence of the fitted model, in nats and in the units of y, without the
        hyperprior, all targets together: that of the sparse process, which is the exact
        one where inducing points suffice. Beside nearest rows it is Vecchia's
        approximation; elsewhere what the points leave counts as independent, by which
        it may be too low by a tenth of a nat a row and more.
    inducing_points_ : ndarray of shape (M, n_features)
        Points of the sparse process that preconditions the solver.
    posterior_ : PathwiseModel
        From which every prediction is computed.
    n_iter_ : int
        Products with the kernel matrix.
    residuals_ : ndarray of shape (n_targets, 1 + n_draws)
        Norms of the residuals of the linear systems, relative to those of the right
        sides: of y, and of each draw.
    change_ : float
        Change of predictions by the last product, in units as of `tol`.
    stage_seconds_ : dict
        Wall time of the stages "search" (hyperparameters), "selection" (of inducing
        points, with the preconditioner) and "solution".
    findings_ : tuple of Finding
        What the diagnostics of the fit found, see :mod:`skgpx.diagnostics`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    categories_ : dict of ndarray
        Categories of the columns of X whose type is category, by name.

    See Also
    --------
    PLSRegressor : Inducing points: any number of rows, any likelihood.
    sklearn.gaussian_process.GaussianProcessRegressor : For few rows.

    Notes
    -----
    With the kernel matrix K of the rows and the noise variances D the mean is ``k(x, X)
    (K + D)⁻¹ y``, and a draw is the mean plus ``g(x) - k(x, X) (K + D)⁻¹ (g(X) + ε)``
    with g from the prior and ε from the noise: Matheron's rule [1]_, [2]_. All systems
    share each product with K.

    Standard deviations are those of a sparse process in closed form, corrected by the
    draws: the solutions contain the variance of every row given the others, and given
    all rows. With 100 inducing points for 1500 simulated rows of two columns and the
    default of 32 draws they were 1 to 2 % off (root mean square) beside nearest rows
    for Matern kernels, alone or with trend and season, 6 % for an RBF kernel, and 6 to
    12 % without nearest rows: for additive kernels, and for ``n_neighbors=0``. Those of
    32 draws alone would be 12.5 %.

    Covariances between rows have the correlations of the sparse process where inducing
    points suffice or nearest rows know what they leave: the largest error of a
    correlation was .06 to .3 in these cases. Otherwise they have those of the draws:
    right on average, with the error of `n_draws` draws, .18 for 32.

    A common factor of kernel and noise scales all variances and leaves the mean as it
    is. Where a search has found both, the leave-one-out errors at some rows give that
    factor, shrunk towards one: fewer rows than there are may have found a kernel that
    is too smooth for all. At 36 000 rows of one data set it is 1.8, and 95 % intervals
    hold 94.5 % of new observations instead of 90.0 %. It is one where a term of the
    kernel has no ConstantKernel or Linear kernel that is free.

    Time O(n^2 (d + n_draws)) for each product, of which there are ten to sixty, and
    O(n M^2) once; memory O(n (M + n_draws)). Predictions take O(n (d + n_draws)) time a
    row. ``sample_weight`` and ``noise_variance`` divide and give the variance of the
    noise of each row.

    References
    ----------
    .. [1] Wilson, Borovitskiy, Terenin, Mostowsky, Deisenroth, "Pathwise conditioning
       of Gaussian processes", JMLR 2021.
    .. [2] Wang, Pleiss, Gardner, Tyree, Weinberger, Wilson, "Exact Gaussian processes
       on a million data points", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import ExactGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 6.0, size=(300, 1))
    >>> y = np.sin(X[:, 0]) + 0.05 * rng.standard_normal(300)
    >>> model = ExactGPRegressor(random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.5], [60.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.1), bool(std[0] < 0.1), bool(std[1] > 0.5)
    (True, True, True)
    >>> model.sample_functions(3)(X).shape
    (300, 3)
    """

    # stated, where functions must be those of y itself
    _noise_of_y: ClassVar[Any] = Gaussian()
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        "likelihood": [Gaussian, Warped, None],
        "n_draws": [Interval(Integral, 2, None, closed="left")],
        "n_neighbors": [COUNT_OR_ZERO, StrOptions({"auto"})],
        "tol": [POSITIVE],
        "max_iter": [COUNT],
        "interaction_cst": INTERACTIONS,
        "normalize_y": ["boolean"],
        "warm_start": ["boolean"],
        **SEARCHED,
    }

    posterior_: Any
    _takes_categories = False
    _takes_several_targets = True

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        n_draws: int = 32,
        n_neighbors: int | str = "auto",
        tol: float = 0.1,
        max_iter: int = 100,
        likelihood: Gaussian | Warped | None = None,
        optimizer: str | None = "evidence",
        interaction_cst: Interactions = None,
        normalize_y: bool = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.kernel = kernel
        self.n_draws = n_draws
        self.n_neighbors = n_neighbors
        self.tol = tol
        self.max_iter = max_iter
        self.likelihood = likelihood
        self.optimizer = optimizer
        self.interaction_cst = interaction_cst
        self.normalize_y = normalize_y
        self.warm_start = warm_start
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
        noise_variance: RowValues = None,
    ) -> Self:
        """Learn the prior, and solve the linear systems of the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets are independent functions with one kernel and, in
            standardised units, one noise, each on its own scale of y.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        noise_variance : array-like of shape (n_samples,) or float, default=None
            Known variance of the noise of each row, in squared units of y. It is all
            the noise of the row, and none is learned.

        Returns
        -------
        self : ExactGPRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, a noise that is given
            twice, or a kernel that no functions can be drawn from.

        Warns
        -----
        ConvergenceWarning
            If the solver has not converged within `max_iter` steps.
        """
        reporter = RoundReporter(
            self,
            X,
            y,
            sample_weight,
            noise_variance=noise_variance,
        )
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=True)
        refuse_categories(self)
        likelihood = Gaussian() if self.likelihood is None else self.likelihood
        quantity = row_quantity(likelihood, len(y), noise_variance=noise_variance)
        kernel = kernel_of(self)
        # refuse at once a kernel that does not fit X or cannot be drawn from
        check_kernel(
            kernel, X, getattr(normal_noise(likelihood), "noise_variance", None)
        )
        if isinstance(self.kernel, Kernel):
            check_features(kernel, X.shape[1])
        previous = self._previous()
        rows = Rows(X, y, weights, quantity)
        form = self._on_scale(likelihood, rows, previous)
        _, standard, likelihood, units = in_unit_scale(
            form.rows,
            form.likelihood,
            self.kernel,
            self.normalize_y,
            units=None if previous is None else previous.units,
        )
        findings = self._fit_rows(
            standard,
            likelihood,
            kernel,
            form,
            units,
            previous,
            reporter,
        )
        conclude(self, findings, sample_weight)
        return self

    def _on_scale(
        self,
        likelihood: Likelihood,
        rows: Rows,
        previous: _Solved | None,
    ) -> NormalForm:
        """Rows with targets of normal noise, on the scale of the last fit or a new one.

        Raises
        ------
        ValueError
            For another noise than a normal one.
        """
        if isinstance(likelihood, Warped) and type(likelihood.base) is not Gaussian:
            raise ValueError(
                "ExactGPRegressor expects normal noise, Gaussian() or Warped(); got "
                f"{likelihood!r}. PLSRegressor has others."
            )
        if previous is None:
            likelihood = on_scale(self, likelihood, rows, kernel_of(self), rough=True)
        elif isinstance(previous.form.stated, Warped):
            return NormalForm.of_prepared(previous.form.stated, canonical_rows(*rows))
        return NormalForm.of(likelihood, rows)

    def _fit_rows(
        self,
        rows: Rows,
        likelihood: Gaussian,
        kernel: Kernel | None,
        form: NormalForm,
        units: Units,
        previous: _Solved | None,
        reporter: RoundReporter,
    ) -> Findings:
        """Fit to standardised rows; return the findings of the diagnostics."""
        clock = StageClock()
        search_rng, sparse_rng, draw_rng = generator(self.random_state).spawn(3)
        # 1 kernel and noise
        if previous is None:
            (hyperparameters,) = learn(
                rows,
                likelihood.prepare(rows.y, rows.weights, rows.known),
                search_rng,
                kernel=kernel,
                fixed=self.optimizer is None,
                n_jobs=self.n_jobs,
            )
        else:
            hyperparameters = previous.hyperparameters
        kernel = hyperparameters.kernel
        noise_level = hyperparameters.noise_variance
        # D, never zero: at least a nugget of the prior variance
        nugget = NUGGET * float(np.mean(kernel.diag(rows.X)))
        noise = np.maximum(noise_level / rows.precisions, nugget)
        clock.end_of("search")
        # 2 a sparse process: the preconditioner
        sparse = self._sparse(rows, kernel, noise_level, noise, sparse_rng)
        clock.end_of("selection")
        # 3 the systems of y and of draws from the prior: (K + D) [α, v_j] = B
        # right sides of the linear systems: y, and prior draws with noise
        n, d = rows.X.shape
        s = self.n_draws
        y = rows.y.reshape(n, -1)
        c = y.shape[1]
        prior_rng, noise_rng = draw_rng.spawn(2)
        errors = noise_rng.standard_normal((n, c, s))
        if previous is None:
            prior = draw_prior(
                kernel,
                d,
                c,
                s,
                prior_rng,
                prior="spectral",
                n_basis="auto",
                given=Conditioning(rows.X, noise),
            )
        else:
            prior = previous.prior
            positions, previous_positions = _shared_rows(rows, previous.rows)
            n_shared = len(positions)
            errors[positions] = previous.errors[previous_positions]
        std = np.sqrt(noise)[:, np.newaxis, np.newaxis]
        values = prior.values(rows.X) + std * errors
        B = np.concatenate((y[:, :, np.newaxis], values), axis=2)
        columns = B.reshape(len(B), -1)
        start = sparse.start(rows.X, columns)
        # with all rows as points the sparse process is the exact one
        if previous is not None and len(sparse.inducing_points) < n <= 2 * n_shared:
            # the previous solution at shared rows, and zero at new rows
            coefficients = np.zeros(B.shape)
            coefficients[positions] = previous.coefficients[previous_positions]
            start = coefficients.reshape(n, -1)

        def finish(solution: Solution) -> tuple[Attributes, Array, Array]:
            coefficients = solution.values.reshape(B.shape)
            solved = _Solved(
                hyperparameters,
                form,
                units,
                rows,
                prior,
                errors,
                coefficients,
            )
            return self._fitted_attributes(solved, solution, sparse, noise)

        def report(progress: Progress) -> bool:
            def attributes() -> Attributes:
                solution = Solution(
                    values=progress.solution,
                    residuals=np.full(columns.shape[1], np.nan),
                    change=progress.change,
                    n_products=progress.n_products,
                    converged=False,
                )
                return finish(solution)[0]

            return reporter.round(
                attributes,
                products=progress.n_products,
                change=progress.change,
            )

        # the standard deviation of a new observation
        sample = thinning(len(rows.X), THINNED_ROWS)
        variance = np.sum(sparse.spread_without(sample), axis=0) + noise[sample]
        solution = solve(
            KernelProduct(kernel, rows.X, self.n_jobs),
            noise,
            sparse.precondition,
            columns,
            start,
            tol=self.tol,
            unit=float(np.sqrt(np.median(variance))),
            max_iter=self.max_iter,
            callback=report,
        )
        clock.end_of("solution")
        attributes, errors_without, variance_without = finish(solution)
        self.__dict__.update(attributes, stage_seconds_=clock.seconds)
        reporter.finish()
        residual_findings = self._check_fit(
            rows,
            hyperparameters,
            units,
            errors_without,
            variance_without,
        )
        return [
            *search_findings([hyperparameters], rows),
            diagnostics.solver_not_converged(solution, self.tol),
            *residual_findings,
        ]

    def _check_fit(
        self,
        rows: Rows,
        hyperparameters: State,
        units: Units,
        errors: Array,
        variance: Array,
    ) -> Findings:
        """Check the leave-one-out errors of some rows."""
        # a kernel that the user fixes may underfit on purpose
        if self.optimizer is None:
            return []
        checked = rows.take(_left_out(rows))
        # the remedy, likelihoods with particles, has one target and fewer points
        has_remedy = (
            len(self.inducing_points_) <= MAX_INDUCING_NON_GAUSSIAN and rows.y.ndim == 1
        )
        return diagnostics.check_residuals(
            checked._replace(y=checked.y + units.shift / units.scale),
            errors.reshape(checked.y.shape),
            variance,
            hyperparameters.noise_variance,
            self.likelihood_,
            hyperparameters.kernel,
            held_out=True,
            noise_is_free=hyperparameters.noise_is_free,
            other_noise=has_remedy,
        )

    def _sparse(
        self,
        rows: Rows,
        kernel: Kernel,
        noise_level: float,
        noise: Array,
        rng: Generator,
    ) -> SparseRows:
        """Process of the rows by inducing points, and by nearest rows if these help."""
        points_rng, order_rng = rng.spawn(2)
        Z, suffice = inducing_by_capacity(
            rows,
            kernel,
            noise_level,
            "greedy",
            points_rng,
            largest=int(_MOST_FEATURES / len(rows.X)),
        )
        decays = decaying_part(kernel, rows.X.shape[1]) is not None
        if self.n_neighbors != "auto":
            n_neighbors = int(self.n_neighbors)
        elif decays and not suffice:
            # the points leave a residual with short correlations
            # nearest rows of the preconditioner, by default
            n_neighbors = 20
        else:
            n_neighbors = 0
        sparse = SparseRows.of(
            Nystroem.from_kernel(kernel, Z),
            rows.X,
            noise,
            self.n_jobs,
            n_neighbors,
            order_rng,
        )
        has_correlations = suffice or (decays and n_neighbors > 0)
        posterior = replace(sparse.posterior, has_correlations=has_correlations)
        return replace(sparse, posterior=posterior)

    def _previous(self) -> _Solved | None:
        """The last fit, if this one is a warm start from it."""
        last = vars(self).get("_solved")
        request = (kernel_of(self), repr(self.likelihood))
        if not self.warm_start or last is None or self._request != request:
            return None
        has_shapes = (
            last.rows.X.shape[1] == self.n_features_in_
            and last.rows.y.shape[1:] == self._targets
            and last.coefficients.shape[2] == 1 + self.n_draws
        )
        return last if has_shapes else None

    def _fitted_attributes(
        self,
        solved: _Solved,
        solution: Solution,
        sparse: SparseRows,
        noise: Array,
    ) -> tuple[Attributes, Array, Array]:
        """Attributes of the fit, and leave-one-out errors of some rows."""
        shift = solved.units.shift
        scale = solved.units.scale
        mean_noise = solved.units.new_row_variance
        hyperparameters = solved.hyperparameters
        likelihood = hyperparameters.likelihood
        kernel = hyperparameters.kernel
        X = solved.rows.X
        coefficients = solved.coefficients
        c = coefficients.shape[1]
        # variances given all other rows
        left_out = _left_out(solved.rows)
        h, r = sparse.spread_without(left_out)
        k = kernel.diag(X[left_out])
        solutions = coefficients[left_out]
        correction = VarianceCorrection.of(
            h,
            r,
            k,
            solutions[:, :, 1:].reshape(len(solutions), -1),
            solved.errors[left_out].reshape(len(solutions), -1),
            noise[left_out],
        )
        latent_variance = correction(h, r, k)
        variance = latent_variance + noise[left_out]
        # y_i - E[y_i | all other rows] = α_i (v_i + noise_i)
        errors = variance[:, np.newaxis, np.newaxis] * solutions
        # a search that may move the amplitude and the noise
        T = 1.0
        scales_are_free = (
            self.optimizer is not None
            and rescaled(kernel, 1.0) is not None
            and len(likelihood.theta) > 0
        )
        if mean_noise is None and scales_are_free:
            T = _common_factor(errors, variance, solved.rows.weights[left_out])
            kernel = rescaled(kernel, T)
        model = PathwiseModel(
            kernel=hyperparameters.kernel,
            points=X,
            coefficients=coefficients,
            prior=solved.prior,
            sparse=sparse.posterior,
            correction=correction,
            shift=np.zeros(c),
            scale=np.ones(c),
            variance_scale=T,
        )
        noise_of_y: Any = mean_noise
        if mean_noise is None:
            noise_of_y = T * likelihood.variance(0.0) * np.square(scale)
        attributes = {
            "kernel_": kernel,
            "_record": search_record([hyperparameters], solved.rows),
            "_solved": solved,
            "_request": (kernel_of(self), repr(self.likelihood)),
            "likelihood_": solved.form.fitted(likelihood.with_noise(noise_of_y)),
            "log_evidence_": _log_evidence(sparse, solved.rows, T, scale)
            - solved.form.constant,
            "inducing_points_": model.sparse.basis.inducing_points,
            "posterior_": model.affine(shift, scale),
            "n_iter_": solution.n_products,
            "residuals_": solution.residuals.reshape(c, -1),
            "change_": solution.change,
        }
        # a row of weight ω stands for ω observations: the variance of one of them
        precisions = solved.rows.take(left_out).precisions
        single = latent_variance + noise[left_out] * precisions
        return attributes, errors[:, :, 0], single

    @property
    def noise_variance_(self) -> float | Array:
        """Variance of the noise in squared units of y, in the middle of the data."""
        return normal_noise(self.likelihood_).variance(0.0)[()]


def check_features(kernel: Kernel, n_columns: int) -> None:
    """Raise a ValueError for a kernel that no functions can be drawn from."""
    rng = np.random.default_rng(0)
    draw_prior(kernel, n_columns, 1, 1, rng, prior="spectral", n_basis=2)


def _left_out(rows: Rows) -> slice:
    """Select the rows with leave-one-out errors."""
    return thinning(len(rows.X), CHECKED_ROWS)


def _log_evidence(
    sparse: SparseRows,
    rows: Rows,
    factor: float,
    scale: float | Array,
) -> float:
    """Log density of y in its own units, under a common factor of kernel and noise.

    A row of weight ω and noise ``σ² / ω`` stands for ω observations that agree: the log
    density of their mean, plus the log density of their deviations from it, which are
    zero: ``-½ [(ω - 1) log(2π σ²) + log ω]``.
    """
    omega = rows.weights
    y = rows.y.reshape(len(rows.y), -1)
    # a factor is another unit: p(y) = p(y / √T) / √T for each observation
    single = 2.0 * np.pi * omega * sparse.noise
    repeated = np.sum((omega - 1.0) * np.log(single) + np.log(omega))
    density = sparse.log_density(y / np.sqrt(factor)) - 0.5 * repeated
    unit = np.log(np.broadcast_to(scale, y.shape[1:])) + 0.5 * np.log(factor)
    return float(np.sum(density - omega.sum() * unit))


def _common_factor(errors: Array, variances: Array, weights: Array) -> float:
    """Factor of kernel and noise, by leave-one-out errors of y and of prior draws.

    A row of weight ω stands for ω observations that agree. Under a factor T their
    density given all other rows is::

        log p = log N(e | 0, T v) - ½ (ω - 1) log T + constant,   v = var f + noise / ω

    the second term being that of the deviations from their mean, which are zero. So T
    is ``Σ e² / v`` over ``Σ ω``, not over the number of rows. Deviations of prior draws
    have the mean square ``ω - 1``.

    Parameters
    ----------
    errors : ndarray of shape (r, c, 1 + s)
        Errors of y, and of the s draws.
    variances, weights : ndarray of shape (r,)
        ``v`` and ``ω``.
    """
    c = errors.shape[1]
    v = np.repeat(variances, c)
    omega = np.repeat(weights, c)
    squares = (errors[:, :, 0] ** 2).ravel()
    squares_of_draws = np.mean(errors[:, :, 1:] ** 2, axis=2).ravel()
    squares_of_draws = squares_of_draws + (omega - 1.0) * v
    return fit_scale(
        squares / omega,
        v,
        omega,
        reference=squares_of_draws / omega,
    )


def _shared_rows(rows: Rows, previous: Rows) -> tuple[list[int], list[int]]:
    """Positions of the rows (X, y) that two sets share, in each set."""
    place = {key: i for i, key in enumerate(_row_keys(previous))}
    positions = []
    previous_positions = []
    for i, key in enumerate(_row_keys(rows)):
        if key in place:
            positions.append(i)
            previous_positions.append(place[key])
    return positions, previous_positions


def _row_keys(rows: Rows) -> list[bytes]:
    """A key for X and y of each row; zeros of both signs have the same."""
    return [row.tobytes() for row in np.column_stack((rows.X, rows.y)) + 0.0]


# ---- Posterior of an exact Gaussian process, by its solutions at all rows ------------


@dataclass(frozen=True)
class PathwiseModel(WithoutCaches):
    """Distribution of f given all rows, by draws of functions.

    ::

        E f = k(·, X) α                   α   = (K + D)⁻¹ y
        f_j = E f + (g_j - k(·, X) v_j)   v_j = (K + D)⁻¹ (g_j(X) + ε_j)

    with prior draws g_j and draws ε_j of the noise: Matheron's rule. A factor T of
    kernel and noise, which leaves the mean as it is, multiplies variances by T.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    points : ndarray of shape (n, d)
        X.
    coefficients : ndarray of shape (n, c, 1 + s)
        ``α`` and ``v_j`` of each output.
    prior : FunctionDraws
        The s draws g_j of c outputs.
    sparse : SparsePosterior
        Process of the same rows by inducing points.
    correction : VarianceCorrection
    shift, scale : ndarray of shape (c,)
        Units of the outputs.
    variance_scale : float
        ``T``.
    """

    kernel: Kernel
    points: Array
    coefficients: Array
    prior: FunctionDraws
    sparse: SparsePosterior
    correction: VarianceCorrection
    shift: Array
    scale: Array
    variance_scale: float

    @property
    def n_outputs(self) -> int:
        """Number of outputs c."""
        return self.coefficients.shape[1]

    @property
    def n_draws(self) -> int:
        """Number s of draws."""
        return self.coefficients.shape[2] - 1

    @property
    def floats_per_row(self) -> int:
        """Largest number of floats in memory for the prediction of one row."""
        values = 120 + 4 * (1 + self.n_draws)
        return self.sparse.floats_per_row + self.n_outputs * values

    @cached_property
    def _sections(self) -> FunctionDraws:
        terms = section_terms(self.kernel, self.points, self.coefficients)
        return FunctionDraws(terms, self.n_outputs, 1 + self.n_draws)

    def _moments(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean (n, c), variance (n,), and draws around the mean (n, c s), in own units.

        Outputs have the same variance, which all their draws estimate.
        """
        # k(·, X) α, and k(·, X) v_j
        values = self._sections.values(X)
        mean = values[:, :, 0]
        # f_j - E f = g_j - k(·, X) v_j
        errors = self.prior.values(X) - values[:, :, 1:]
        errors = errors.reshape(len(X), -1)
        h, r = self.sparse.spread(X)
        variance = self.correction(
            h,
            r,
            self.kernel.diag(X),
            square=np.mean(errors**2, axis=1),
        )
        return mean, self.variance_scale * variance, errors

    def marginals(self, X: Array) -> LatentMixture:
        """Normal distribution of f at each row of X (n, d)."""
        mean, variance, _ = self._moments(X)
        mean = self.shift + self.scale * mean
        variance = variance[:, np.newaxis] * self.scale**2
        return LatentMixture(
            mean[:, :, np.newaxis],
            variance[:, :, np.newaxis],
            np.ones(1),
        )

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output of f between the rows of X, (n, n).

        The variances of :meth:`marginals`, with the correlations of the sparse process
        where it has those of the exact one, and otherwise with those of the draws.
        """
        _, variance, errors = self._moments(X)
        if self.sparse.has_correlations:
            covariance = self.sparse.covariance(X)
        else:
            covariance = errors @ errors.T
        # correlations of this process, standard deviations of the exact one
        diagonal = np.maximum(np.diag(covariance), 1e-300)
        ratio = np.sqrt(variance / diagonal)
        covariance = ratio[:, np.newaxis] * covariance * ratio
        covariance[np.diag_indices_from(covariance)] = variance
        return covariance * self.scale[output] ** 2

    def draw(self, size: int, rng: Generator) -> FunctionDraws:
        """Choose `size` of the draws of f, at random, as functions.

        Raises
        ------
        ValueError
            If the model has fewer draws.
        """
        if size > self.n_draws:
            raise ValueError(
                f"At most n_draws={self.n_draws} functions can be drawn: they are "
                f"solved for in fit; got {size}. Fit with a larger n_draws."
            )
        chosen = rng.permutation(self.n_draws)[:size]
        # f_j = √T g_j + k(·, X) (α - √T v_j)
        root = np.sqrt(self.variance_scale)
        alpha = self.coefficients[:, :, :1]
        v = self.coefficients[:, :, 1 + chosen]
        terms = section_terms(self.kernel, self.points, alpha - root * v)
        prior = self.prior[chosen].affine(0.0, root)
        return prior.plus(terms).affine(self.shift, self.scale)

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> PathwiseModel:
        """Distribution of ``shift + scale * f``; numbers, or one each output (c,)."""
        factor = np.asarray(scale, dtype=np.float64)
        level = np.asarray(shift, dtype=np.float64) + factor * self.shift
        return replace(self, shift=level, scale=factor * self.scale)
