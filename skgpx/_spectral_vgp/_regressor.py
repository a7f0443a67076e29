"""Sparse variational Gaussian-process regression with spectral features."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._base import LatentRegressor
from skgpx._callbacks import (
    CallbackSupportMixin,
    RoundReporter,
    StageClock,
    with_callbacks,
)
from skgpx._row_statistics import AdditiveModel
from skgpx._spectral_vgp._basis_choice import competing_kernels, say_little
from skgpx._spectral_vgp._credible import (
    ball_radius,
    covers_its_box,
    domain_grid,
    periodic_ball_radius,
    pointwise_factor,
    simultaneous_factor,
)
from skgpx._spectral_vgp._domain import warn_outside, without_wild_rows
from skgpx._spectral_vgp._given_rows import given_rows, without_copies
from skgpx._spectral_vgp._kernel_fit import start_sparse
from skgpx._spectral_vgp._series_fit import (
    SeriesState,
    fit_series,
    log_evidence_of,
    solution_of,
    solve_and_tell,
    start_series,
)
from skgpx._spectral_vgp._series_search import SeriesChoice
from skgpx._spectral_vgp._settings import (
    given_domain,
    resolved_basis,
    series_settings,
    sparse_settings,
)
from skgpx._spectral_vgp._solution import SpectralFit, fitted_attributes
from skgpx._validation import (
    Interval,
    Rows,
    StrOptions,
    canonical_rows,
    check_coverage,
    check_is_fitted,
    check_X,
    copy_to_merge,
    fit_context,
    generator,
)
from skgpx.likelihoods._rows import KnownNoise

Array = NDArray[np.float64]


class SpectralVGPRegressor(CallbackSupportMixin, AdditiveModel, LatentRegressor):
    """Gaussian-process regression on few spectral features, with credible sets.

    For time series, maps and surfaces with up to hundreds of millions of rows: one
    pass over the data leaves sums from which the number of Fourier functions, the
    hyperparameters and the posterior all follow. With more than three inputs, or a
    kernel without a spectral density, a sparse process on inducing points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance, with the bounds of its hyperparameters; a WhiteKernel added
        to it is the noise. None is the series prior of `eigenvalues` and `alpha` (and
        a constant times an RBF where inducing variables are used); with one input,
        `fit` where no parameter of Fourier functions is given also tries an RBF and
        Matern kernels of order 5/2 and 3/2 on them, and keeps the largest bound.
    basis : {"auto", "fourier", "empirical", "inducing"}, default="auto"
        Inducing variables: integrals of f against Fourier functions on a box (the
        population spectral features, for up to three inputs and RBF, Matern and
        RationalQuadratic kernels, constants and sums of these); projections on
        eigenvectors of the kernel matrix; values at inducing points.
        "auto" is Fourier if possible, otherwise inducing points. It also
        takes inducing points for up to three distinct rows, and for up to 2000 that
        stand for more than twice as many rows, each alone at its inputs.
    n_basis : int, "auto" or "rate", default="auto"
        Number m of inducing variables. "auto" takes Fourier functions until those left
        out would add at most 2 % to the posterior variance: the elbow ``#{j : n
        lambda_j >= noise_variance}`` at least, and beyond it no more than 1001
        functions, but with one input until those left out cost the bound .01 nats a
        row (at most a quarter of the rows); inducing points as many as the rows pay
        for. "rate" is ``n^(d / (d + 2
        alpha))``, enough for the best rate of contraction, but without regard to the
        noise.
    max_basis : int, default=2000
        Most functions for "auto" and "rate", and the first functions of the prior
        among which `ordering` chooses. A warning says what standard deviation
        remains when the elbow is beyond them.
    eigenvalues : {"polynomial", "exponential"} or array, default="polynomial"
        Prior variances of the Fourier functions without a kernel: ``tau j^(-1 - 2
        alpha/d)``; ``tau exp(-c j^(1/d))`` with ``c = n^(-1/(d + 2 alpha)) log n``; or
        tau times these numbers, those of sine and cosine of each wave in turn.
    alpha : float or "evidence", default=0.5
        Regularity of the series prior; keep it at or below that of the function, or
        credible sets are too small. "evidence" fits it, which oversmooths: balls of
        95 % were measured to hold the truth in 84 to 92 % of data sets.
    tau : float or None, default=None
        Scale of the series prior, in squared units of the standardised y; None fits
        it.
    ordering : {"auto", "prior", "power", "coefficients"}, default="auto"
        Which functions come first: the long waves ("prior"), the waves of largest
        power in the data (sine and cosine together), or as published the functions
        with the largest coefficients, one by one. "auto" is "prior", but under a series
        prior with a learned scale, waves whose power stands out of what prior and
        noise explain come before all others: one data set of pure noise in a hundred
        has such a wave, or fewer. All but "prior" use y twice.
    domain : array-like of shape (n_features, 2) or None, default=None
        Where the inputs of the data may lie: other rows are an error in `fit` and
        `partial_fit`. Without a kernel it is the period of the prior as well, which
        joins its ends: beyond the data a function goes back from one end to the other,
        and continues no trend. None is the range of the data of `fit` (or the first
        `partial_fit`) and a quarter of it on either side; rows out of all proportion to
        the bulk of the data are then left out, with a warning.
    extrapolation : {"prior", "error"}, default="prior"
        What Fourier functions answer at rows outside of their domain. "prior": the mean
        and the standard deviation of the prior, reached continuously from those at the
        edge, with one warning for each call (which also counts rows beyond the data
        where a series prior joins ends that differ by more than the predicted standard
        deviation); none where a kernel is followed beyond the data (for 4 lengthscales
        in one dimension, 3 in more), or its correlation with the data has died.
        "error": a ValueError.
    inducing : str, array or callable, default="greedy"
        "greedy", "k-means++" or "random"; the points themselves; or
        ``inducing(X, kernel, n_basis, rng)``.
    noise_variance : float or None, default=None
        In squared units of y; None fits it.
    optimizer : "evidence" or None, default="evidence"
        Whether kernel parameters and tau are fitted, by the evidence lower bound.
    n_restarts_optimizer : int, default=1
        Starts of the search besides the kernel as given, for inducing variables other
        than Fourier functions.
    inflation : float, default=1.0
        Factor of the radius of credible balls and the width of bands.
    normalize_y : bool, default=True
        Centre and scale y before fitting; kernel and tau refer to the standardised y.
    n_jobs : int or None, default=None
        Threads (or the workers of ``joblib.parallel_config``) over blocks of rows. The
        result is the same to the last bit for every value. None is one for Fourier
        functions; with inducing points the search and passes over many rows then take
        as many threads as BLAS does.
    random_state : int, RandomState or None, default=None
        Seed of the choice of inducing points, and of the rows on which the search
        begins where there are many (20 000 of one input, 3000 of two, 2000 of three).

    Attributes
    ----------
    log_evidence_ : float
        Lower bound of the log evidence, in nats and in the units of y.
    n_basis_ : int
        Number of inducing variables.
    noise_variance_ : float
        In squared units of y; the mean over the rows if `fit` was given that of each.
    spectrum_ : ndarray
        Prior variances of orthonormal functions, in squared units of y. For Fourier
        functions those considered, the basis first. For inducing points and
        empirical features the m eigenvalues of ``Phi Phi^T / n``, Phi the features
        of all rows seen: their sum is the prior variance that the basis explains, on
        average over the rows.
    prior_ : object
        Eigenvalue rule (with its kernel, if there is one) or kernel, with its
        hyperparameters, for the standardised y.
    kernel_ : sklearn.gaussian_process.kernels.Kernel or None
        Prior covariance with its hyperparameters, for the standardised y; None for the
        series prior.
    basis_ : {"fourier", "empirical", "inducing"}
        Kind of inducing variables used.
    cycles_ : ndarray of shape (n_cycles, n_features)
        Frequencies, in cycles for each unit of X, of the waves that stand out of the
        prior and come first in it, see `ordering`; those of largest power first.
    domain_ : ndarray of shape (n_features, 2)
        Over which credible balls and bands are: `domain`, or the range of the data.
    posterior_ : LatentModel
        Basis and law of the weights: what every prediction reads.
    likelihood_ : Likelihood
        Normal noise.
    stage_seconds_ : dict
        Wall time of the stages of :meth:`fit`: "search" (sums over the rows, box, size
        and hyperparameters, which alternate) and "solution"; of :meth:`partial_fit` and
        :meth:`merge`: "statistics" and "solution", which searches again.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.

    See Also
    --------
    PLSRegressor : Other likelihoods.
    DecoupledSampler : Draws of functions from any Gaussian-process posterior.

    Notes
    -----
    With functions ``phi_j`` of prior variances ``lambda_j``, ``G = Phi^T Phi`` and ``b
    = Phi^T y`` the posterior is (2.11)-(2.12) of [1]_::

        V = (Lambda^-1 + G / noise_variance)^-1
        mean(x) = phi(x)^T V b / noise_variance
        cov(x, z) = phi(x)^T V phi(z) + sum_{j>m} lambda_j phi_j(x) phi_j(z)

    In one dimension G and b come from moments in bins, O(n) for any m; in two and
    three from sums of products of cosines. Hyperparameters cost O(m^3), free of n.
    Predictions cost O(m) a row in one dimension. A kernel is made periodic on a box
    at least four lengthscales wider than the domain, in one dimension eight wider than
    the data.

    Outside of the region where the functions stand for the process, with e the
    nearest point of it, rho the prior correlation of f(x) and f(e) (of the series
    prior up to half a period, and tapered to zero at one), c the constant part of a
    kernel and q an independent draw of the rest of the prior::

        f(x) = rho f(e) + (1 - rho) c + sqrt(1 - rho^2) q(x)

    Means, variances, draws and credible bands all follow from it. Draws themselves do
    not warn.

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
    >>> one = SpectralVGPRegressor(domain=(0, 6)).fit(X[:500], y[:500])
    >>> two = SpectralVGPRegressor(domain=(0, 6)).fit(X[500:], y[500:])
    >>> whole = SpectralVGPRegressor(domain=(0, 6)).fit(X, y)
    >>> bool(np.isclose((one + two).log_evidence_, whole.log_evidence_))
    True
    """

    _follows_from_sums: ClassVar[frozenset[str]] = frozenset(
        {"posterior_", "likelihood_", "noise_variance_", "log_evidence_", "_record"}
        | {"kernel_", "prior_", "spectrum_", "cycles_", "n_basis_", "domain_"}
    )

    # of the rows of `fit`, where it is known
    _noise: KnownNoise | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [Kernel, None],
        "basis": [StrOptions({"auto", "fourier", "empirical", "inducing"})],
        "n_basis": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto", "rate"}),
        ],
        "max_basis": [Interval(Integral, 1, None, closed="left")],
        "eigenvalues": [StrOptions({"polynomial", "exponential"}), "array-like"],
        "alpha": [
            Interval(Real, 0.0, None, closed="neither"),
            StrOptions({"evidence"}),
        ],
        "tau": [Interval(Real, 0.0, None, closed="neither"), None],
        "ordering": [StrOptions({"auto", "prior", "power", "coefficients"})],
        "domain": ["array-like", None],
        "extrapolation": [StrOptions({"prior", "error"})],
        "inducing": [
            StrOptions({"greedy", "k-means++", "random"}),
            "array-like",
            callable,
        ],
        "noise_variance": [Interval(Real, 0.0, None, closed="neither"), None],
        "optimizer": [StrOptions({"evidence"}), None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "inflation": [Interval(Real, 0.0, None, closed="neither")],
        "normalize_y": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        basis: str = "auto",
        n_basis: int | str = "auto",
        max_basis: int = 2000,
        eigenvalues: Any = "polynomial",
        alpha: float | str = 0.5,
        tau: float | None = None,
        ordering: str = "auto",
        domain: ArrayLike | None = None,
        extrapolation: str = "prior",
        inducing: Any = "greedy",
        noise_variance: float | None = None,
        optimizer: str | None = "evidence",
        n_restarts_optimizer: int = 1,
        inflation: float = 1.0,
        normalize_y: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.basis = basis
        self.n_basis = n_basis
        self.max_basis = max_basis
        self.eigenvalues = eigenvalues
        self.alpha = alpha
        self.tau = tau
        self.ordering = ordering
        self.domain = domain
        self.extrapolation = extrapolation
        self.inducing = inducing
        self.noise_variance = noise_variance
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.inflation = inflation
        self.normalize_y = normalize_y
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
        noise_variance: ArrayLike | None = None,
    ) -> Self:
        """Fit prior and posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        noise_variance : array-like of shape (n_samples,) or float, default=None
            Known variance of the noise of each row, in squared units of y; instead of
            the parameter of this name and of a WhiteKernel. It is all the noise of the
            row, as `alpha` of GaussianProcessRegressor, and none is learned. No rows
            can be added later.

        Returns
        -------
        self : SpectralVGPRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, rows outside `domain`
            if it is given, or parameters that do not fit together.
        """
        clock, given = StageClock(), {"noise_variance": noise_variance}
        reporter = RoundReporter(self, X, y, sample_weight, **given)
        rows, self._noise = given_rows(self, X, y, sample_weight, noise_variance)
        self.basis_ = resolved_basis(self, say_little(self, rows))
        state: Any
        if self.basis_ == "fourier":
            state, found = self._fit_series(rows, clock, reporter)
        else:
            state = self._start(rows)
            clock.end_of("search")
            found = state.solve()
        solution = self._attributes(state, found)
        clock.end_of("solution")
        self._solved(solution, clock)
        reporter.finish()
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to those seen so far; what follows is solved when it is asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
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
        The rows are not kept, only sums over them. The first call decides about the
        box (unless `domain` is given), for a kernel about the lengthscales it has room
        for, and for inducing points and empirical features about points, kernel and
        the standardisation of y. All else follows from the sums of all rows, so chunks
        of Fourier features with a given `domain` and no kernel are one fit.
        """
        clock, reset = StageClock(), not hasattr(self, "_state")
        rows, _ = given_rows(self, X, y, sample_weight, reset=reset)
        if reset:
            self._noise = None
            self.basis_ = resolved_basis(self)
            state: Any
            if self.basis_ == "fourier":
                settings = series_settings(self, self._noise)
                state = start_series(*self._series_rows(rows), settings, self.n_jobs)
            else:
                state = self._start(rows)
        else:
            state = self._state.with_rows(rows, self.n_jobs)
        clock.end_of("statistics")
        self._state = state
        self._defer(clock)
        return self

    def merge(self, other: SpectralVGPRegressor) -> Self:
        """Return a new model of the rows of both; ``one + other`` is the same.

        With inducing points and empirical features, fit one model to the first rows,
        copy it, and let the copies see other rows: the first rows count once.

        Parameters
        ----------
        other : SpectralVGPRegressor
            Fitted with the same parameters on other rows.

        Returns
        -------
        merged : SpectralVGPRegressor

        Raises
        ------
        ValueError
            If the sums of the two are not about the same functions, or their kernels
            or other parameters differ, or other is no such model.
        """
        self._check_other(other)
        if self._noise is not None or other._noise is not None:
            raise ValueError(
                "Models that were fitted with the noise_variance of each row cannot be "
                "merged: their sums are in units of different noises. Fit all rows "
                "together."
            )
        clock, merged = StageClock(), copy_to_merge(self)
        merged._state = self._state.merged(other._state)
        clock.end_of("statistics")
        merged._defer(clock)
        return merged

    def credible_ball(
        self, coverage: float = 0.95, X: ArrayLike | None = None
    ) -> float:
        """Radius of the L2 ball around the posterior mean that holds f.

        Parameters
        ----------
        coverage : float, default=0.95
            Posterior probability of the ball, in (0, 1).
        X : array-like of shape (n_rows, n_features), default=None
            Rows over which squared differences are averaged; None averages over
            `domain_`.

        Returns
        -------
        radius : float
            Root mean square distance in the units of y, times `inflation`.

        Notes
        -----
        The squared distance is a sum of weighted chi-squares, whose law is inverted to
        a relative accuracy of 1e-9. The weights are exact where the domain is the box
        of the Fourier functions, and otherwise those of the covariance at 1024 evenly
        spread points (or at X).
        """
        check_is_fitted(self)
        check_coverage(coverage)
        model = self.posterior_
        if X is not None:
            X = check_X(self, X)
            self._warn_about(X)
            radius = ball_radius(model, coverage, X)
        elif covers_its_box(model, self.domain_):
            radius = periodic_ball_radius(model, coverage)
        else:
            radius = ball_radius(model, coverage, domain_grid(self.domain_))
        return self.inflation * radius

    def credible_band(
        self,
        X: ArrayLike,
        coverage: float = 0.95,
        simultaneous: bool = False,
        random_state: Any = 0,
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
        bounds : ndarray of shape (n_rows, 2)
            Lower and upper end in the units of y; its half width is multiplied by
            `inflation`.

        Notes
        -----
        The simultaneous band is ``mean ± q std(x)``, q the quantile of the largest
        standardised deviation among 20 000 joint draws at the points, residual
        included: a standard error of half a percent. Between the points of the grid a
        rough function may still leave it.
        """
        X = check_X(self, X)
        check_coverage(coverage)
        factor = pointwise_factor(coverage)
        if simultaneous:
            points = domain_grid(self.domain_)
            rng = generator(random_state)
            factor = simultaneous_factor(self.posterior_, coverage, points, rng)
        mean, std = self.predict(X, return_std=True, include_noise=False)
        half = self.inflation * factor * std
        return np.stack((mean - half, mean + half), axis=1)

    # ---- From parameters to a fit ------------------------------------------------

    def _series_rows(self, rows: Rows) -> tuple[Rows, Array | None]:
        """Rows that Fourier functions can hold, and the domain if it is given."""
        domain = given_domain(self)
        return (without_wild_rows(rows) if domain is None else rows), domain

    def _fit_series(
        self, rows: Rows, clock: StageClock, reporter: RoundReporter
    ) -> tuple[SeriesState, SpectralFit]:
        """Sums over rows and fit of Fourier functions."""

        def report(state: SeriesState, choice: SeriesChoice) -> bool:
            return reporter.round(
                lambda: self._attributes(state, solution_of(state, choice)),
                rows=state.statistics.weight,
                functions=choice.bound.size,
                log_evidence=log_evidence_of(choice),
            )

        rows, domain = self._series_rows(rows)
        settings = series_settings(self, self._noise)
        once = without_copies(rows, settings.given_noise_variance(1.0) is None)
        rng, rivals = generator(self.random_state), partial(competing_kernels, self)
        how = domain, settings, rng, self.n_jobs, report, rivals
        series = fit_series(rows, once, *how)
        clock.end_of("search")
        return series[0], solve_and_tell(*series)

    def _start(self, rows: Rows) -> Any:
        """Sums over rows where these are not for Fourier functions."""
        rng, settings = generator(self.random_state), sparse_settings(self, self._noise)
        return start_sparse(canonical_rows(*rows), settings, rng, self.n_jobs)

    def _solution(self) -> dict[str, Any]:
        return self._attributes(self._state, self._state.solve())

    def _attributes(self, state: Any, found: SpectralFit) -> dict[str, Any]:
        """Fitted attributes."""
        how = self.basis_ == "fourier", self.extrapolation == "prior"
        return fitted_attributes(state, found, given_domain(self), self._noise, *how)

    # ---- Rows outside of the domain ----------------------------------------------

    def _warn_about(self, X: Array) -> None:
        if self.basis_ == "fourier":
            noise = self.noise_variance_**0.5
            warn_outside(self.posterior_, self.prior_, X, self._state.seen, noise)
