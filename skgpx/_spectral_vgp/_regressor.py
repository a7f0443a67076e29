"""Sparse variational Gaussian-process regression with spectral features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri
from sklearn.gaussian_process.kernels import RBF

from skgpx._draws import checked_domain
from skgpx._hyperparameters import (
    NoiseOfKinds,
    distinct_sums,
    final_noise,
    inducing_by_capacity,
    kinds_of_rows,
    learn,
    learn_noise_of_slopes,
    noise_of_targets,
    search_findings,
    search_record,
)
from skgpx._latent import LatentModel, with_level
from skgpx._numerics.regression import (
    TargetRegressions,
    WeightStatistics,
    log_evidence,
    posterior,
)
from skgpx._prediction.base import LatentRegressor
from skgpx._row_budgets import ABUNDANT_ROWS, HELD_OUT_ROWS, THINNED_ROWS
from skgpx._shell.callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._shell.functionals import units_of_functionals
from skgpx._shell.row_statistics import (
    AdditiveModel,
    row_statistics,
)
from skgpx._shell.validation import (
    POSITIVE,
    SEARCHED,
    HasMethods,
    Interval,
    Rows,
    StrOptions,
    Units,
    canonical_rows,
    check_coverage,
    check_is_fitted,
    check_kernel,
    check_rows,
    check_X,
    fit_context,
    generator,
    kernel_of,
    known_noise,
    row_quantity,
    standardisation,
)
from skgpx._spectral_vgp._candidates import (
    FourierPrior,
    Parameters,
)
from skgpx._spectral_vgp._credible import (
    ball_radius,
    domain_grid,
    effective_dimension,
    simultaneous_factor,
)
from skgpx._spectral_vgp._domain import (
    input_range,
    joint_range,
    warn_outside,
    without_input_outliers,
)
from skgpx._spectral_vgp._population import (
    FourierState,
    fit_functionals,
    fit_population,
)
from skgpx._types import (
    Array,
    ArrayLike,
    Attributes,
    Generator,
    Kernel,
    RandomState,
    RowValues,
)
from skgpx.bases import (
    ContinuedSeries,
    EmpiricalSpectral,
    Nystroem,
    RankedEigenvalues,
    has_spectrum,
    select_inducing,
)
from skgpx.bases._eigenvalues import EigenvalueRule
from skgpx.diagnostics import (
    Finding,
    Findings,
    check_residuals,
    conclude,
    equal_rows,
    no_level,
    noise_below_residuals,
)
from skgpx.kernels import (
    VALUE,
    Functionals,
    parts_with,
    split_noise,
    stationary_terms,
)
from skgpx.likelihoods import Gaussian
from skgpx.likelihoods._noise import KnownNoise

# Inputs up to which Fourier functions are used.
_MAX_FOURIER_INPUTS = 3
# Parameters that the search reads, and that models must share to be merged.
_SEARCH_PARAMETERS = (
    "kernel",
    "n_basis",
    "inducing",
    "order",
    "noise_variance",
    "optimizer",
    "normalize_y",
)


class SpectralVGPRegressor(CallbackSupportMixin, AdditiveModel, LatentRegressor):
    """Gaussian-process regression on few spectral features, with credible sets.

    For time series, maps and surfaces with up to hundreds of millions of rows: one
    pass over the data leaves sums from which the number of Fourier functions, the
    hyperparameters and the posterior all follow. With more than three inputs, or a
    kernel without a spectral density, the features are inducing points.

    Parameters
    ----------
    kernel : kernel, "series", eigenvalue rule or None, default=None
        Prior covariance of scikit-learn's kind, with the bounds of its hyperparameters;
        a WhiteKernel added to it is the noise. None chooses among a constant times an
        RBF and Matern kernels of order 5/2, 3/2 and 1/2 by the bound of the evidence,
        with a free level and the waves that stand out of the spectrum; on inducing
        points and eigenvectors among the candidates of :class:`PLSRegressor`. "series"
        is the paper's prior on the coefficients of Fourier functions, of regularity
        1/2, with a learned scale; its period is the domain. A rule of
        :mod:`skgpx.bases`, such as ``PolynomialEigenvalues(regularity=1.0)`` or
        ``ExponentialEigenvalues(rate)``, is a series prior of your own.
    basis : {"auto", "fourier", "empirical", "inducing"}, default="auto"
        Inducing variables: integrals of f against Fourier functions on a box (the
        population spectral features, for up to three inputs and stationary kernels);
        projections on eigenvectors of the kernel matrix (the sample features); values
        at inducing points. "auto" is Fourier where possible, otherwise inducing points;
        also for slopes along one of several columns, unless the kernel is made of RBFs,
        and by default where waves stand out of fewer than 4500 rows of one column:
        trends, and seasons that change, have no spectrum. Such a trend may be too rough
        to have a slope.
    n_basis : int or "auto", default="auto"
        Number m of inducing variables, at most 20 000, as m² numbers are in memory;
        Fourier functions come in whole pairs. "auto"
        doubles the Fourier functions of the search while the bound gains 0.01 nats an
        observation, and then takes at most 1501, until those left out add at most 2 %
        to the posterior variance; inducing points as many as the rows support.
    inducing : str, array of shape (m, n_features) or callable, default="greedy"
        Inducing points, for ``basis="inducing"``: "greedy" selection of rows by
        conditional variance (random ones where `n_basis` is "auto" and ends at its
        largest number); "k-means++" seeds; "random" rows; "m-dpp", a draw from the
        determinantal point process of m rows with the kernel as its matrix, exact up to
        3000 distinct rows; the points themselves, whatever `n_basis`; or ``inducing(X,
        kernel, n_basis, rng)`` that returns such an array.
    order : {"frequency", "data"}, default="frequency"
        Which Fourier functions a series prior of one input gives its largest
        eigenvalues: those of the longest waves, or those with the largest coefficients
        in the data, ``|phi_j^T y| / n``, among the first n (section 6.2 of [1]_; at
        most 6553 waves). The sine and the cosine of a wave are sorted together by their
        power, which does not depend on the origin of X, and the constant stays first;
        functions are sorted one by one, as published, if the rule has
        ``paired=False``. With "data" `prior_` is an ``OrderedEigenvalues``, and no
        waves are tested. The order uses y twice. `partial_fit` sorts by all rows seen.
    domain : array-like of shape (n_features, 2) or None, default=None
        Where the inputs of the data may lie: other rows are an error in `fit` and
        `partial_fit`. None is the range of the data of `fit` (or the first
        `partial_fit`) and a quarter of it on either side; rows far from the bulk of the
        data are then left out, with a warning.
    noise_variance : float or None, default=None
        In squared units of y; None fits it.
    optimizer : "evidence" or None, default="evidence"
        Whether hyperparameters are fitted, by the evidence lower bound. None keeps
        those of the kernel, and learns the noise variance unless it is given.
    normalize_y : bool, default=True
        Centre and scale y before fitting; the kernel refers to the standardised y.
    n_jobs : int or None, default=None
        Threads (or the workers of ``joblib.parallel_config``) over blocks of rows. The
        result is the same to the last bit for every value.
    random_state : int, RandomState or None, default=None
        Seed of the choice of inducing points, and of the rows that choose the prior of
        several inputs where there are many (3000 of two, 2000 of three).

    Attributes
    ----------
    log_evidence_ : float
        Log evidence of the fitted model, in nats and in the units of y, without the
        hyperprior, all targets together: its collapsed lower bound.
    n_basis_ : int
        Number of inducing variables.
    noise_variance_ : float or ndarray of shape (n_targets,)
        In squared units of y; the mean over the rows if `fit` was given that of each.
    spectrum_ : ndarray of shape (n_functions,) or (n_functions, n_targets)
        Prior variances of orthonormal functions, in squared units of y. For Fourier
        functions, those of all functions considered, the basis first. For inducing
        points and eigenvectors the m eigenvalues of ``Phi Phi^T / n``, Phi the features
        of all rows seen: their sum is the prior variance that the basis explains, on
        average over the rows.
    prior_ : object
        Eigenvalue rule (with its kernel, if there is one) or kernel, with its
        hyperparameters, for the standardised y.
    kernel_ : sklearn.gaussian_process.kernels.Kernel or None
        Prior covariance with its hyperparameters, for the standardised y; None for a
        series prior.
    effective_dimension_ : float or ndarray of shape (n_targets,)
        Number of functions that the data know, of at most `n_basis_`: the trace of ``I
        - C``, C the posterior covariance of the weights whose prior is N(0, I). Where
        functions are orthogonal on the rows it is the sum of ``nu_j = n lambda_j /
        (noise_variance + n lambda_j)``, (3.1) of [1]_.
    basis_ : {"fourier", "empirical", "inducing"}
        Kind of inducing variables used.
    cycles_ : ndarray of shape (n_cycles, n_features)
        Frequencies, in cycles for each unit of X, of the waves that stand out of the
        spectrum of y, or of one of its targets: each has the prior variance of y. The
        strongest first. On inducing points those of the seasons of the kernel.
    domain_ : ndarray of shape (n_features, 2)
        Region of credible balls and bands: `domain`, or the range of the data.
    findings_ : tuple of Finding
        Findings of the diagnostics of `fit`.
    posterior_ : LatentModel
        Basis and posterior of the weights, from which every prediction is computed.
    likelihood_ : Likelihood
        Normal noise.
    stage_seconds_ : dict
        Wall time of the stages of :meth:`fit`, "search" and "solution"; of
        :meth:`partial_fit` and :meth:`merge`: "statistics" and "solution", which
        searches again.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    categories_ : dict of ndarray
        Categories of the columns of X whose type is category, by name; a code is a
        position among them. Only if X has such columns.

    See Also
    --------
    PLSRegressor : Other likelihoods; better with many rows of more than three columns,
        as it adds nearest rows.
    DecoupledSampler : Draws of functions from any Gaussian-process posterior.

    Notes
    -----
    With functions ``phi_j`` of prior variances ``lambda_j``, ``G = Phi^T Phi`` and ``b
    = Phi^T y`` the posterior is (2.11)-(2.12) of [1]_::

        V = (Lambda^-1 + G / noise_variance)^-1
        mean(x) = phi(x)^T V b / noise_variance
        cov(x, z) = phi(x)^T V phi(z) + sum_{j>m} lambda_j phi_j(x) phi_j(z)

    In one dimension G and b come from moments in bins, O(n) for any m and any box; in
    two and three from sums of products of cosines. Hyperparameters cost O(m^3), free of
    n, and maximise the collapsed bound of [2]_, for ``kernel=None`` with a weak prior
    on their logarithms. Predictions cost O(m) a row in one dimension. A kernel is made
    periodic on a box at least four lengthscales wider than the domain, in one dimension
    eight wider than the data.

    Rows may see slopes, means over boxes and differences of f, which Fourier functions
    have exactly: a slope multiplies ``exp(i omega x)`` by ``i omega``, the mean over a
    box by ``sinc(omega h / 2)``. Sums over such rows take O(n m^2), and at most 5000
    rows of one input (3000 of two, 2000 of three) choose the prior.

    Several targets share all of it but b: the search maximises the sum of their bounds
    with one noise, in units of the standard deviation of each, and then each target has
    a noise of its own.

    Outside of the region where the functions stand for the process, with e the
    nearest point of it, rho the prior correlation of f(x) and f(e) (of the series
    prior up to half a period, and tapered to zero at one), c the constant part of a
    kernel and q an independent draw of the rest of the prior::

        f(x) = rho f(e) + (1 - rho) c + sqrt(1 - rho^2) q(x)

    Means, variances, draws and credible bands all follow from it, with one warning for
    each call where it matters. Draws themselves do not warn.

    References
    ----------
    .. [1] Nieman, Szabo and van Zanten, "Uncertainty quantification for sparse
       spectral variational approximations in Gaussian process regression".
    .. [2] Titsias, "Variational learning of inducing variables in sparse Gaussian
       processes", AISTATS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SpectralVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 6.0, size=(2000, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(2000)
    >>> model = SpectralVGPRegressor().fit(X, y)
    >>> mean, std = model.predict([[1.5]], return_std=True, include_noise=False)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 3.0 * std[0])
    True
    >>> bool(0.095 < np.sqrt(model.noise_variance_) < 0.105)
    True
    >>> one = SpectralVGPRegressor(domain=(0, 6)).partial_fit(X[:500], y[:500])
    >>> two = SpectralVGPRegressor(domain=(0, 6)).partial_fit(X[500:], y[500:])
    >>> whole = SpectralVGPRegressor(domain=(0, 6)).partial_fit(X, y)
    >>> bool(np.isclose((one + two).log_evidence_, whole.log_evidence_))
    True
    """

    _follows_from_sums: ClassVar[frozenset[str]] = frozenset(
        {"posterior_", "likelihood_", "noise_variance_", "log_evidence_", "_record"}
        | {"kernel_", "prior_", "spectrum_", "cycles_", "n_basis_", "domain_"}
        | {"effective_dimension_"}
    )

    # of the rows of `fit`, where it is known
    _noise: KnownNoise | None
    _noise_of_kinds = NoiseOfKinds()
    _state: Any
    posterior_: LatentModel

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, StrOptions({"series"}), HasMethods("spectrum"), None],
        "basis": [StrOptions({"auto", "fourier", "empirical", "inducing"})],
        "n_basis": [
            Interval(Integral, 1, 20_000, closed="both"),
            StrOptions({"auto"}),
        ],
        "inducing": [
            StrOptions({"greedy", "k-means++", "random", "m-dpp"}),
            "array-like",
            callable,
        ],
        "order": [StrOptions({"frequency", "data"})],
        "domain": ["array-like", None],
        "noise_variance": [POSITIVE, None],
        "normalize_y": ["boolean"],
        **SEARCHED,
    }

    def __init__(
        self,
        kernel: Kernel | EigenvalueRule | str | None = None,
        *,
        basis: str = "auto",
        n_basis: int | str = "auto",
        inducing: str | ArrayLike | Callable[..., ArrayLike] = "greedy",
        order: str = "frequency",
        domain: ArrayLike | None = None,
        noise_variance: float | None = None,
        optimizer: str | None = "evidence",
        normalize_y: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.kernel = kernel
        self.basis = basis
        self.n_basis = n_basis
        self.inducing = inducing
        self.order = order
        self.domain = domain
        self.noise_variance = noise_variance
        self.optimizer = optimizer
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
        noise_variance: RowValues = None,
        derivative: RowValues = None,
        widths: RowValues = None,
        against: RowValues = None,
    ) -> Self:
        """Fit prior and posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets are independent functions with one prior, each with its own
            noise unless that is given.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        noise_variance : array-like of shape (n_samples,) or float, default=None
            Known variance of the noise of each row, in squared units of y; instead of
            the parameter of this name and of a WhiteKernel. It is all the noise of the
            row, as `alpha` of GaussianProcessRegressor, and none is learned. No rows
            can be added later.
        derivative : array-like of shape (n_samples,), int or str, default=None
            Which rows see a slope of f: the number or the name of the column along
            which it is a derivative, in units of y per unit of the column; -1 for a
            value. The noise of slopes along each column is learned apart from that of
            values. No rows can be added later, here and below.
        widths : array-like of shape (n_samples, n_features), default=None
            Widths of a box around each row of X over which y is the mean of f: bins of
            a histogram, daily means, pixels; 0 for a point.
        against : array-like of shape (n_samples, n_features), default=None
            Points at which f is subtracted: y is about ``f(X) - f(against)``. A row of
            NaN stands for ``f(X)`` itself.

        Returns
        -------
        self : SpectralVGPRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, rows outside `domain`
            if it is given, or parameters that do not fit together. For slopes of a
            kernel without any, such as Matern's of order 1/2, or along columns of
            categories; for slopes, boxes and differences of several targets, of a
            series prior and of ``basis="empirical"``.
        """
        functionals: dict[str, Any] = {
            "derivative": derivative,
            "widths": widths,
            "against": against,
        }
        clock = StageClock()
        reporter = RoundReporter(
            self,
            X,
            y,
            sample_weight,
            noise_variance=noise_variance,
            **functionals,
        )
        rows = self._rows(
            X,
            y,
            sample_weight,
            noise_variance,
            **functionals,
        )
        self.basis_ = self._resolved_basis(rows)
        self._state, input_findings = self._sums(rows, adds=False)

        def report(
            prior: FourierPrior,
            evidence: float,
            attributes: Callable[[], Attributes],
        ) -> bool:
            return reporter.round(
                lambda: self._attributes(attributes()),
                rows=self._state.statistics.weight,
                functions=len(prior.functions),
                log_evidence=evidence,
            )

        solution, search_findings = self._state.solve(report)
        all_rows = input_findings[0] is None
        if all_rows and self._continues_seasons(rows, solution["cycles_"]):
            # trends, and seasons whose shape changes, have no spectral density
            self.basis_ = "inducing"
            self._state, input_findings = self._sums(rows, adds=False)
            solution, search_findings = self._state.solve()
        clock.end_of("search")
        attributes = self._attributes(solution)
        clock.end_of("solution")
        self._solved(attributes, clock)
        residual_findings = self._check_fit(rows)
        if self._seen is not None and self.basis_ == "fourier":
            # no rows are added to functionals
            self._state = replace(self._state, statistics=None, searched=None)
        findings = (*input_findings, *search_findings, *residual_findings)
        conclude(self, findings, sample_weight)
        reporter.finish()
        return self

    @fit_context
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
    ) -> Self:
        """Add rows to those seen so far; what follows is solved when it is read.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            As many targets in every call.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights.

        Returns
        -------
        self : SpectralVGPRegressor

        Raises
        ------
        ValueError
            As :meth:`fit`; or after a fit with the noise of each row.

        Notes
        -----
        The rows are not kept, only sums over them. The first call determines the domain
        (unless it is given), with several inputs the box, and for inducing points and
        eigenvectors the points, the kernel, the standardisation of y and up to 1000
        rows beside the points, which are kept and choose the noise. All else follows
        from the sums of all rows, so chunks of one input with a given `domain` are one
        fit.
        """
        if hasattr(self, "_state"):
            return self._add_rows(X, y, sample_weight)
        clock = StageClock()
        rows = self._rows(X, y, sample_weight)
        self.basis_ = self._resolved_basis(rows)
        self._state, findings = self._sums(rows, adds=True)
        conclude(self, findings, sample_weight)
        self._defer(clock)
        return self

    def credible_ball(
        self,
        coverage: float = 0.95,
        X: ArrayLike | None = None,
        *,
        inflation: float = 1.0,
    ) -> float | Array:
        """Radius of the L2 ball around the posterior mean that holds f.

        Parameters
        ----------
        coverage : float, default=0.95
            Posterior probability of the ball, in (0, 1).
        X : array-like of shape (n_rows, n_features), default=None
            Rows over which squared differences are averaged; None averages over
            `domain_`.
        inflation : float, default=1.0
            Factor of the radius, positive: ``M_n`` of Corollaries 11 and 13 of the
            paper, which guarantee coverage of functions that are as smooth as the prior
            for factors that grow with n, however slowly.

        Returns
        -------
        radius : float or ndarray of shape (n_targets,)
            Root mean square distance in the units of y.

        Raises
        ------
        ValueError
            If `coverage` is not in (0, 1) or `inflation` is not positive and finite.

        Notes
        -----
        The squared distance is a sum of weighted chi-squares, whose distribution is
        inverted to a relative accuracy of 1e-9. The weights are exact where the domain
        is the box of the Fourier functions, and otherwise those of the covariance at
        1024 evenly spread points (or at X).
        """
        check_is_fitted(self)
        check_coverage(coverage)
        given: object = inflation
        if not (isinstance(given, Real) and 0.0 < float(given) < np.inf):
            raise ValueError(
                f"inflation must be positive and finite; got {inflation!r}. Use 1.0 "
                "for the radius of the posterior itself."
            )
        if X is not None:
            X = check_X(self, X)
            self._warn_about(X)
        radii = []
        for j in range(self.posterior_.n_outputs):
            radius = ball_radius(self.posterior_, coverage, self.domain_, X, j)
            radii.append(inflation * radius)
        return np.reshape(radii, self._targets)[()]

    def credible_band(
        self,
        X: ArrayLike,
        coverage: float = 0.95,
        simultaneous: bool = False,
        random_state: RandomState = 0,
    ) -> Array:
        """Band around the posterior mean of the function f (noise-free).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        coverage : float, default=0.95
            Posterior probability: of each point, or of the whole function.
        simultaneous : bool, default=False
            Whether the band holds f everywhere at once, on 1024 points spread over
            `domain_`.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws that a simultaneous band needs.

        Returns
        -------
        bounds : ndarray of shape (n_rows, 2) or (n_rows, n_targets, 2)
            Lower and upper end in the units of y. The probability is that of each
            target.

        Notes
        -----
        The simultaneous band is ``mean ± q std(x)``, q the quantile of the largest
        standardised deviation among 20 000 joint draws at the points, residual
        included: a standard error of half a percent. Between the points of the grid a
        rough function may still leave it.
        """
        X = check_X(self, X)
        check_coverage(coverage)
        factor: Any = float(ndtri(0.5 + 0.5 * coverage))
        if simultaneous:
            grid = domain_grid(self.domain_)
            rng = generator(random_state)
            factors = []
            for j in range(self.posterior_.n_outputs):
                quantile = simultaneous_factor(
                    self.posterior_,
                    coverage,
                    grid,
                    rng,
                    output=j,
                )
                factors.append(quantile)
            factor = np.reshape(factors, self._targets)
        mean, std = self.predict(X, return_std=True, include_noise=False)
        half_width = factor * std
        return np.stack((mean - half_width, mean + half_width), axis=-1)

    # ---- From parameters to a fit ------------------------------------------------

    def _rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues,
        noise_variance: RowValues = None,
        reset: bool = True,
        **functionals: Any,
    ) -> Rows:
        """Checked rows of positive weight; keeps their noise if it was given."""
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=True, reset=reset)
        kernel = None
        if isinstance(self.kernel, Kernel):
            kernel = kernel_of(self)
        check_kernel(kernel, X, self.noise_variance)
        variances = row_quantity(Gaussian(), len(y), noise_variance=noise_variance)
        noise = known_noise(variances, y, weights, self.noise_variance, kernel)
        self._noise = noise
        relative_noise = None if noise is None else noise.relative
        X = self._rows_seen(X, kernel, **functionals)
        rows = Rows(X, y, weights, relative_noise)
        positive = weights > 0.0
        if not positive.all():
            rows = rows.take(positive)
        return rows

    def _sums(
        self,
        rows: Rows,
        adds: bool,
    ) -> tuple[FourierState | SparseState, tuple[Finding | None, ...]]:
        """Sums over the rows for the basis.

        Parameters
        ----------
        rows : Rows
        adds : bool
            Whether more rows may come.

        Returns
        -------
        state : FourierState or SparseState
        findings : tuple of Finding or None
        """
        self._noise_of_kinds = NoiseOfKinds()
        rng = generator(self.random_state)
        parameters = {name: getattr(self, name) for name in _SEARCH_PARAMETERS}
        parameters["kernel"] = kernel_of(self)
        # refuse inducing points and an order that the functions do not have
        inducing = parameters["inducing"]
        is_default = isinstance(inducing, str) and inducing == "greedy"
        if self.basis_ != "inducing" and not is_default:
            raise ValueError(
                'inducing is read with basis="inducing" only; got '
                f"inducing={inducing!r} with basis={self.basis!r}, which has "
                f"{self.basis_!r} features here."
            )
        kernel = parameters["kernel"]
        is_ranked = isinstance(kernel, str | RankedEigenvalues)
        if self.order == "data" and (not is_ranked or self.n_features_in_ > 1):
            raise ValueError(
                'order="data" is for a series prior on one column: kernel="series", '
                "PolynomialEigenvalues, ExponentialEigenvalues or GivenEigenvalues of "
                f"skgpx.bases; got kernel={kernel!r} and {self.n_features_in_} "
                'column(s). Give one of these, or order="frequency".'
            )
        if self._noise is not None:
            parameters["noise_variance"] = self._noise.reference
        parameters["seen"] = self._seen
        if self.basis_ != "fourier":
            distinct = canonical_rows(*rows)
            sparse, findings, rows = fit_sample(
                distinct,
                self.basis_,
                parameters,
                rng,
                self.n_jobs,
            )
            return sparse, (*findings, self._noise_of_slopes_in(rows))
        domain = checked_domain(self.domain, self.n_features_in_)
        if self._seen is not None:
            distinct = canonical_rows(*rows)
            functionals = fit_functionals(
                distinct,
                domain,
                parameters,
                rng,
                self.n_jobs,
            )
            rows = functionals.statistics.rows
            return functionals, (self._noise_of_slopes_in(rows),)
        finding = None
        if domain is None:
            rows, finding = without_input_outliers(rows)
        state = fit_population(rows, domain, parameters, rng, self.n_jobs, adds)
        return state, (finding, equal_rows(rows, state.searched.weight))

    def _noise_of_slopes_in(self, rows: Rows) -> Finding | None:
        """Keep the noise of slopes and values; whether any row sees the level of f.

        The noise of rows of functionals is in units of that of the search.
        """
        if self._seen is None:
            return None
        mean = None if self._noise is None else self._noise.mean
        units = Units(new_row_variance=mean)
        self._noise_of_kinds = NoiseOfKinds.of(rows, self._seen, units)
        return no_level(self._seen.rows(rows.X).derivative != VALUE)

    def _check_fit(self, rows: Rows) -> Findings:
        """Residuals of at most 1000 of the rows that the functions describe."""
        if self._seen is not None:
            # those of values
            seen = self._seen.rows(rows.X)
            rows = rows._replace(X=seen.X).take(np.flatnonzero(seen.is_value))
        # hyperparameters that the user fixes may underfit on purpose
        if self.optimizer is None or not len(rows.y):
            return []
        checked = rows.thinned(THINNED_ROWS)
        if self.basis_ == "fourier":
            low, high = self._state.seen.T
            within = np.all((low <= checked.X) & (high >= checked.X), axis=1)
            checked = checked.take(within)
        checked = canonical_rows(*checked)
        noise_variance = self.noise_variance_
        mean, variance = self.posterior_.marginals(checked.X).moments()
        residuals = checked.y - mean.reshape(checked.y.shape)
        findings = check_residuals(
            checked,
            residuals,
            variance.reshape(checked.y.shape) + noise_variance,
            noise_variance,
            self.likelihood_,
            self.kernel_,
            self.posterior_.scale,
            held_out=False,
            noise_is_free=self._noise_is_free(),
            other_noise=True,
        )
        is_automatic = self.n_basis == "auto" and self._noise_is_free()
        if is_automatic and checked.known is None and len(checked.y):
            noises = np.broadcast_to(noise_variance, residuals.shape[1:])
            targets = np.atleast_2d(residuals.T)
            for j, noise in enumerate(np.ravel(noises)):
                small = noise_below_residuals(targets[j], checked.weights, noise)
                if small is not None and residuals.ndim > 1:
                    small = small.of(j)
                findings.append(small)
        return findings

    def _noise_is_free(self) -> bool:
        """Whether a search has chosen the noise variance."""
        kernel = kernel_of(self)
        if self.noise_variance is not None or not isinstance(kernel, Kernel):
            return self.noise_variance is None
        return not isinstance(split_noise(kernel)[2], str)

    def _check_sees_values(self) -> None:
        """Refuse to add rows also where their noise is known."""
        super()._check_sees_values()
        if self._noise is not None:
            raise ValueError(
                "A model that was fitted with the noise_variance of each row can "
                "neither take more rows nor be merged: its sums are in units of these "
                "noises. Fit all rows together."
            )

    def _resolved_basis(self, rows: Rows) -> str:
        """Kind of inducing variables for what the rows see of the columns.

        Raises
        ------
        ValueError
            If kernel, basis and columns do not fit together.
        """
        kernel = kernel_of(self)
        possible = self.n_features_in_ <= _MAX_FOURIER_INPUTS
        if isinstance(kernel, Kernel):
            possible = possible and has_spectrum(split_noise(kernel)[0])
        is_series = kernel is not None and not isinstance(kernel, Kernel)
        if self._seen is not None and (is_series or self.basis == "empirical"):
            raise ValueError(
                "derivative, widths and against are for kernels, on Fourier functions "
                f"or inducing points; got kernel={kernel!r} and basis={self.basis!r}. "
                'Use kernel=None and basis="auto".'
            )
        if not is_series and self.basis in ("empirical", "inducing"):
            return self.basis
        if self.basis == "auto" and not is_series:
            possible = possible and not self._sees_rough_slopes(rows)
            if not possible:
                return "inducing"
        if not possible or self.basis not in ("auto", "fourier"):
            raise ValueError(
                "Fourier functions, and a series prior on them, are for kernels with a "
                f"known spectral density and up to {_MAX_FOURIER_INPUTS} columns; got "
                f"{self.n_features_in_} with kernel={kernel!r} and basis="
                f'{self.basis!r}. Give a kernel or None, and basis="inducing".'
            )
        return "fourier"

    def _continues_seasons(self, rows: Rows, cycles: Array) -> bool:
        """Whether a short series has seasons, which inducing points continue.

        By default, where the exact evidence of rows chooses among kernels.
        """
        is_free = self.basis == self.n_basis == "auto" and self.kernel is None
        is_free = is_free and self.domain is None and self._seen is None
        is_short = self.n_features_in_ == 1 and len(rows.y) < ABUNDANT_ROWS
        return is_free and is_short and len(cycles) > 0

    def _sees_rough_slopes(self, rows: Rows) -> bool:
        """Whether a row sees a slope that too few functions have.

        Along one of several columns, of any kernel but sums and products of RBFs.
        """
        d = self.n_features_in_
        if self._seen is None or d == 1:
            return False
        if np.all(self._seen.rows(rows.X).derivative == VALUE):
            return False
        kernel = kernel_of(self)
        if not isinstance(kernel, Kernel):
            return True
        terms = stationary_terms(split_noise(kernel)[0], d)
        return any(type(factor) is not RBF for term in terms for factor in term.factors)

    def _solution(self) -> Attributes:
        return self._attributes(self._state.solve()[0])

    def _attributes(self, solution: Attributes) -> Attributes:
        """Fitted attributes, with the noise and the domain that were given."""
        solution |= self._noise_of_kinds.applied(solution)
        noise_variance = solution["noise_variance_"]
        if self._noise is not None:
            noise_variance = self._noise.mean * self._noise_of_kinds.first
            n_targets = solution["posterior_"].n_outputs
            solution["log_evidence_"] -= n_targets * self._noise.constant
        if not np.ndim(noise_variance):
            noise_variance = float(noise_variance)
        solution["noise_variance_"] = noise_variance
        likelihood = Gaussian(1.0).prepare([0.0])
        solution["likelihood_"] = likelihood.with_noise(noise_variance)
        domain = checked_domain(self.domain, self.n_features_in_)
        solution["domain_"] = self._state.seen if domain is None else domain
        dimension = np.reshape(solution["effective_dimension_"], self._targets)
        solution["effective_dimension_"] = (
            dimension if dimension.ndim else float(dimension)
        )
        return solution

    def _warn_about(self, X: Array) -> None:
        super()._warn_about(X)
        basis = self.posterior_.basis
        if isinstance(basis, ContinuedSeries):
            warn_outside(basis, self.kernel_, X, self._state.seen)


# ---- Sample features: eigenvectors of the kernel matrix, or values at inducing points


# Largest number of functions that "auto" takes.
_MAX_FUNCTIONS = 2000
# Largest number of rows with eigenvectors.
_MAX_DECOMPOSED_ROWS = 4000


@dataclass(frozen=True)
class SparseState:
    """Basis and the sums over all rows seen.

    Attributes
    ----------
    basis : Nystroem or EmpiricalSpectral
    seen : ndarray of shape (d, 2)
        Range of the inputs so far.
    statistics : WeightStatistics
        Sums of the standardised y.
    first : WeightStatistics
        Sums of the rows that chose the basis, which copies of a model share.
    distinct : WeightStatistics
        Sums of the same rows for the noise: of rows that are copies it would be zero.
    samples : Rows
        Some of the rows that chose the basis, which choose the noise of many.
    likelihood : Gaussian
        Noise of the standardised y: that of the search, which is free, or fixed.
    record : dict
        Which rows chose kernel and noise.
    shift, scale : float or ndarray of shape (t,)
        Standardisation of y, from the rows that chose the basis.
    """

    basis: Nystroem | EmpiricalSpectral
    seen: Array
    statistics: WeightStatistics
    first: WeightStatistics
    distinct: WeightStatistics
    samples: Rows
    likelihood: Gaussian
    record: dict[str, Any]
    shift: Any
    scale: Any

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SparseState:
        """State after more rows."""
        standardised_y = (rows.y - self.shift) / self.scale
        standardised = rows._replace(y=standardised_y)
        sums = row_statistics(self.basis, standardised, n_jobs)
        return replace(
            self,
            statistics=self.statistics.add(sums),
            seen=joint_range(self.seen, input_range(rows.X)),
        )

    def merged(self, other: SparseState) -> SparseState:
        """State of the rows of both; those that chose the basis count once.

        Raises
        ------
        ValueError
            If they do not have the same basis and standardisation.
        """
        if not (isinstance(other, SparseState) and self._has_basis_of(other)):
            raise ValueError(
                "Only models with one basis and one standardisation of y can be "
                "merged. Call partial_fit once on some rows, copy the model, and "
                "pass the other rows to the partial_fit of the copies."
            )
        total = self.statistics.add(other.statistics).add(self.first, -1.0)
        return replace(
            self,
            statistics=total,
            seen=joint_range(self.seen, other.seen),
        )

    def _has_basis_of(self, other: SparseState) -> bool:
        """Whether the same rows chose the same basis, with the same parameters."""
        basis = self.basis
        other_basis = other.basis
        return (
            type(basis) is type(other_basis)
            and basis.kernel == other_basis.kernel
            and np.array_equal(basis.inducing_points, other_basis.inducing_points)
            and basis.n_basis == other_basis.n_basis
            and np.array_equal(self.first.moment, other.first.moment)
            and np.array_equal(self.shift, other.shift)
            and np.array_equal(self.scale, other.scale)
            and self.likelihood.variance(0.0) == other.likelihood.variance(0.0)
        )

    def solve(
        self,
        report: Callable[..., bool] | None = None,
    ) -> tuple[Attributes, tuple[()]]:
        """Noise variance, posterior and bound; O(m^3), and no rounds to report."""
        del report
        sums = self.statistics
        noise_variance: Any
        if np.ndim(sums.square):
            targets, noise_variance = self.regressions()
            weights = targets.posterior(noise_variance)
            evidence = targets.log_evidence(noise_variance).sum()
        else:
            likelihood = final_noise(
                self.basis,
                self.samples,
                self._sums_of_noise(),
                self.likelihood,
            )
            noise_variance = float(likelihood.variance(0.0))
            weights = posterior(sums, noise_variance)
            evidence = log_evidence(sums, noise_variance)
        units = np.broadcast_to(self.scale, np.shape(noise_variance))
        # ΦᵀΦ / n: the sum of its eigenvalues is the mean of |φ(x)|²
        eigenvalues = np.linalg.eigvalsh(sums.gram)[::-1] / sums.weight
        spectrum = np.maximum(eigenvalues, 0.0)
        log_units = np.log(units).sum()
        kernel = self.basis.kernel
        model = LatentModel(self.basis, weights)
        posterior_of_y: Any = model.affine(self.shift, self.scale)
        if isinstance(kernel, Functionals):
            posterior_of_y = with_level(model.affine(0.0, self.scale), self.shift)
            kernel = kernel.kernel
        attributes = {
            "posterior_": posterior_of_y,
            "noise_variance_": noise_variance * self.scale**2,
            "log_evidence_": float(evidence - sums.weight * log_units),
            "prior_": kernel,
            "kernel_": kernel,
            "spectrum_": np.multiply.outer(spectrum, units**2),
            "cycles_": _cycles(kernel, len(self.seen)),
            "n_basis_": self.basis.n_basis,
            "effective_dimension_": effective_dimension(model),
            "_record": self.record,
        }
        return attributes, ()

    def regressions(self) -> tuple[TargetRegressions, Array]:
        """Regressions of several targets, and the noise variance of each."""
        targets = TargetRegressions(self.statistics)
        sums = targets
        if self.distinct is not self.first:
            sums = TargetRegressions(self._sums_of_noise())
        noises = noise_of_targets(self.basis, self.samples, sums, self.likelihood)
        return targets, noises

    def _sums_of_noise(self) -> WeightStatistics:
        """Sums of all rows seen, in which copies among the first ones count once."""
        if self.distinct is self.first:
            return self.statistics
        return self.statistics.add(self.first, -1.0).add(self.distinct)


def fit_sample(
    rows: Rows,
    kind: str,
    parameters: Parameters,
    rng: Generator,
    n_jobs: int | None,
) -> tuple[SparseState, tuple[Finding, ...], Rows]:
    """Choose prior, basis and standardisation on the rows, and sum over them.

    Parameters
    ----------
    rows : Rows
    kind : {"inducing", "empirical"}
    parameters : Parameters
    rng : numpy.random.Generator
    n_jobs : int or None

    Returns
    -------
    state : SparseState
    findings : tuple of Finding
    rows : Rows
        Standardised; of functionals with their relative noise.
    """
    given_noise = parameters["noise_variance"]
    seen = parameters["seen"]
    units = _units_of(rows, parameters)
    shift: Any = units.shift
    scale: Any = units.scale
    rows = rows._replace(y=units.standardised(rows.y, rows.X))
    corners = rows.X if seen is None else seen.rows(rows.X).corners()

    # kernel and noise
    search_rng, basis_rng = rng.spawn(2)
    kernel = seen or parameters["kernel"]
    n_basis = parameters["n_basis"]
    if isinstance(n_basis, str):
        n_basis = None
    inducing = parameters["inducing"]
    if _are_points(inducing):
        n_basis = len(inducing)
    unit_noise = None if given_noise is None else given_noise / scale**2
    likelihood = Gaussian(unit_noise).prepare(rows.y, rows.weights)
    search = partial(
        learn,
        likelihood=likelihood,
        rng=search_rng,
        kernel=kernel,
        fixed=parameters["optimizer"] is None,
        inducing=inducing,
        n_inducing=n_basis,
        n_jobs=n_jobs,
        # few points leave out what is rough
        rough=n_basis is None and len(rows.y) < ABUNDANT_ROWS,
    )
    rows, states = learn_noise_of_slopes(
        rows, kinds_of_rows(rows, kernel), likelihood, search
    )
    kernel = states[0].kernel
    likelihood = states[0].likelihood
    noise_variance = float(likelihood.variance(0.0))

    def state_for(least_noise: float) -> SparseState:
        """Basis for the least noise of a target, and sums over the rows."""
        if kind == "empirical":
            basis: Any = _eigenvectors(kernel, rows, n_basis, least_noise, basis_rng)
        else:
            points = _select_points(
                inducing,
                rows,
                kernel,
                n_basis,
                least_noise,
                basis_rng,
            )
            basis = Nystroem.from_kernel(kernel, points, least_noise)
        sums = row_statistics(basis, rows, n_jobs)
        distinct, sums_of_noise = distinct_sums(basis, rows, sums, n_jobs)
        return SparseState(
            basis=basis,
            seen=input_range(corners),
            statistics=sums,
            first=sums,
            distinct=sums_of_noise,
            samples=distinct.thinned(HELD_OUT_ROWS + basis.n_basis),
            likelihood=likelihood,
            record=search_record(states, rows),
            shift=shift,
            scale=scale,
        )

    state = state_for(noise_variance)
    if rows.y.ndim > 1 and n_basis is None:
        _, noise_variances = state.regressions()
        state = state_for(float(noise_variances.min()))
    return state, tuple(search_findings(states, rows)), rows


def _cycles(kernel: Kernel, n_columns: int) -> Array:
    """Frequencies of the seasons of a kernel, (r, d)."""
    seasons = parts_with("periodicity", kernel, np.arange(n_columns))
    columns = np.eye(n_columns)
    frequencies = [
        columns[numbers].sum(axis=0) / part.periodicity for part, numbers in seasons
    ]
    return np.reshape(frequencies, (-1, n_columns))


def _units_of(rows: Rows, parameters: Parameters) -> Units:
    """Units of y; of targets of one noise one unit."""
    seen = parameters["seen"]
    normalize = parameters["normalize_y"]
    if seen is not None:
        return units_of_functionals(rows, seen, normalize=normalize, robust=False)
    if not normalize:
        return Units()
    shift, scale = standardisation(rows.y, rows.precisions)
    if parameters["noise_variance"] is not None:
        scale = float(np.sqrt(np.mean(scale**2)))
    return Units(shift, scale)


def _are_points(inducing: object) -> bool:
    """Whether the parameter `inducing` holds points instead of a strategy."""
    return not isinstance(inducing, str) and not callable(inducing)


def _select_points(
    inducing: str | Callable[..., ArrayLike] | ArrayLike,
    rows: Rows,
    kernel: Kernel,
    n_basis: int | None,
    noise_variance: float,
    rng: Generator,
) -> Array:
    """Inducing points (m, d): so many, or as many as the rows support."""
    if n_basis is None:
        points, _ = inducing_by_capacity(
            rows,
            kernel,
            noise_variance,
            inducing,
            rng,
            largest=_MAX_FUNCTIONS,
        )
        return points
    if not _are_points(inducing):
        n_basis = min(len(rows.X), n_basis)
    return select_inducing(inducing, rows.X, kernel, n_basis, rng, rows.weights)


def _eigenvectors(
    kernel: Kernel,
    rows: Rows,
    n_basis: int | None,
    noise_variance: float,
    rng: Generator,
) -> EmpiricalSpectral:
    """Leading eigenvectors at as many rows as can be decomposed."""
    X = rows.X
    weights = rows.weights
    largest = _MAX_FUNCTIONS
    if n_basis is not None:
        largest = n_basis
    size = min(len(X), largest)
    if len(X) > _MAX_DECOMPOSED_ROWS:
        share = weights / weights.sum()
        chosen = rng.choice(len(X), _MAX_DECOMPOSED_ROWS, replace=False, p=share)
        X = X[np.sort(chosen)]
        weights = np.ones(_MAX_DECOMPOSED_ROWS)
    basis = EmpiricalSpectral.from_rows(kernel, X, size, weights)
    if n_basis is None:
        # n λ_j >= σ², where e_j estimates n λ_j
        signal = basis.eigenvalues * rows.weights.sum() / weights.sum()
        n_above_noise = int(np.sum(signal >= noise_variance))
        basis = basis.leading(max(1, n_above_noise))
    return basis
