"""Projected Langevin sampling for numbers and counts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from skgpx import diagnostics
from skgpx._cells._cells import (
    CellModel,
    RowSums,
    add_rows,
    rows_of_model,
    same_functions,
)
from skgpx._cells._distributed import is_lazy
from skgpx._hyperparameters import (
    MAX_INDUCING_NON_GAUSSIAN,
    NO_NOISE,
    NormalForm,
    learns_noise,
    most_probable,
    on_scale,
    tells_scale,
)
from skgpx._latent import LatentModel, NeighborModel, SeriesModel
from skgpx._numerics.blas_threads import with_one_blas_thread
from skgpx._pls._base import ProjectedLangevin, largest_model
from skgpx._pls._lazy_fit import LazyRows, check_lazy_fit
from skgpx._posterior._sampler import independent_draws, resolved_method
from skgpx._prediction.base import LatentRegressor
from skgpx._row_budgets import AVERAGED_ROWS, CHECKED_ROWS
from skgpx._shell.callbacks import RoundReporter, with_callbacks
from skgpx._shell.functionals import units_of_functionals
from skgpx._shell.row_statistics import Mergeable
from skgpx._shell.validation import (
    Rows,
    Units,
    canonical_rows,
    check_kernel,
    check_likelihood_given,
    check_rows,
    codes_of_grades,
    copy_to_merge,
    filled_gaps,
    fit_context,
    generator,
    in_unit_scale,
    row_quantity,
    with_categories_of,
    with_gaps,
)
from skgpx._types import ArrayLike, Interactions, Kernel, RandomState
from skgpx.diagnostics import Finding, conclude
from skgpx.kernels import VALUE, Functionals
from skgpx.likelihoods import Gaussian, Likelihood, StudentT, Warped
from skgpx.likelihoods._warped import normal_noise, warp_of

# Largest share of the prior variance of the checked rows that the basis leaves out.
_MAX_LEFT_OUT = 0.01
# Findings about residuals under normal noise for which Student-t noise is tried.
_NOT_NORMAL = {"heavy tails", "varying noise"}


def _adds_rows(estimator: PLSRegressor) -> bool:
    """Whether rows can be added to a model, or there is none yet."""
    if hasattr(estimator, "posterior_"):
        estimator._check_adds_rows()
    return True


class PLSRegressor(Mergeable, LatentRegressor, ProjectedLangevin):
    """Gaussian-process regression with any likelihood, by projected Langevin sampling.

    A latent function with a Gaussian-process prior is represented at a few inducing
    inputs. Its posterior under any likelihood is approximated by particles, which
    Langevin dynamics samples; for Gaussian noise it is available in closed form. Of
    more than 300 rows of one column (4500, if the likelihood is not Gaussian) it is
    that of all values, by a filter and a smoother, if the kernel is a Markov process:
    sums of Matern kernels of order 1/2 to 7/2, also times a periodic one, with seasons
    and linear trends [5]_.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance k of the latent function, with the bounds of its hyperparameters; a
        WhiteKernel added to it is the noise of a Gaussian likelihood. None stands for
        a constant times an RBF with one lengthscale for all columns or one for each,
        the one of the larger log posterior; for one latent function the RBF competes
        with Matern kernels of order 5/2 and 3/2 (for normal noise, from 250 rows on
        also 1/2), and the best with a linear trend beside it and, with one input, with
        seasons whose period is found. Under normal noise products compete along the
        principal axes of the slopes, too: :class:`~skgpx.kernels.Directions`, unless
        `interaction_cst` is stated. The covariance of the paper is
        :class:`~skgpx.kernels.GREKernel` around such a kernel.
    likelihood : Likelihood or None, default=None
        Distribution of y given the latent value, from :mod:`skgpx.likelihoods` or your
        own. Scale parameters that are None are estimated. None learns the noise, by the
        evidence: normal, ``Gaussian()``, or with the tails of ``StudentT()``; of y, or
        of another scale of y whose power it learns, one for each of several targets,
        :class:`~skgpx.likelihoods.Warped`. It is normal noise of y where noise or unit
        of y are given (`noise_variance`, a WhiteKernel, ``normalize_y=False``,
        ``optimizer=None``); fewer than 30 rows, or a value that a tenth of the rows
        share, tell neither scale nor tails. Tails are normal for several targets, where
        `method` or `init` are stated (``method="exact"``), for averages that are asked
        for, rows of dask and those that see functionals. Of more than 300 rows normal
        noise is fitted first, and Student's as well only if the diagnostics find
        residuals with heavy tails or that vary in size. See Notes.
    n_inducing : int or "auto", default="auto"
        Largest number M of inducing inputs. Accuracy and cost grow with it. For
        Gaussian noise "auto" adds points until the bound is within 0.001 nats per row
        of the exact evidence, up to ``min(2500, sqrt(2.5e11 / n))`` or 100, whichever
        is larger; for other likelihoods it starts at ``3 sqrt(n)``, at least 100. See
        Notes.
    inducing : str, array or callable, default="greedy"
        "greedy" selection by conditional variance, which depends neither on duplicates
        nor on the order of rows (for Gaussian noise, random rows instead where
        ``n_inducing="auto"`` ends at its largest number); "k-means++" seeds;
        "random" rows; "m-dpp", a draw from the determinantal process of the kernel
        matrix; the points themselves, of shape (M, n_features); or ``inducing(X,
        kernel, n_inducing, rng)`` that returns such an array.
    n_neighbors : int or "auto", default="auto"
        Number N of the nearest rows on which the residual of
        the inducing inputs is conditioned, in fits (those before the row in a random
        order, Vecchia's approximation [3]_) and in predictions. Under Gaussian noise
        the posterior is in closed form; under any other likelihood it is the closest
        normal distribution, or that of expectation propagation under noise that varies
        (Notes), and there are no chains. 0 leaves the residual at its prior.
        "auto" is 40 above 1500 rows (4500, if the likelihood is not Gaussian) where
        inducing inputs do not suffice, otherwise 0; for a scale that varies, which then
        has a kernel of its own, 40 wherever hyperparameters, points and `method` are
        left to the estimator and correlations fade. See Notes.
    optimizer : {"evidence"} or None, default="evidence"
        How hyperparameters are found: "evidence" maximises the evidence times a
        hyperprior, that of an exact process of at most 1500 rows for Gaussian noise
        (then Titsias' bound, for fewer than 400 inducing inputs), and Laplace's
        approximation of that of the sparse model otherwise. From 4500 rows on the
        kernel of each latent function then maximises the density of up to 40 000 rows
        given their nearest predecessors: of y, or of the responses to which the
        likelihood is equal, to second order, as Gaussian noise. None keeps the kernel
        as it is, and learns scales of the likelihood that are not given (but those of
        noise that varies, which stay where a search starts).
    hyperparameters : {"auto", "average", "maximise"}, default="auto"
        "average" draws up to 96 states of kernel and likelihood from their posterior,
        over all families of kernels, and averages predictions over them: few rows
        cannot tell one lengthscale, noise or family from another. It is for one target,
        of at most 1500 rows under Gaussian noise and 300 rows under other likelihoods,
        whose evidence is that of the closest normal distribution and which have up to
        64 states (12 under ``Poisson("square")``). It raises a ValueError otherwise, as
        for targets that are all equal.
        "maximise" chooses the state of the largest posterior; of more than 1500 rows
        one of next to no noise has the mean noise of a coarsened posterior. A
        :class:`~skgpx.kernels.Prior` of the kernel is the prior of its hyperparameter;
        other hyperparameters of your own kernel are uniform in the logarithm, within
        their bounds. "auto" averages below 4500 rows under Gaussian noise (up to 1500
        of one column; of more than some 600 the modes of candidates that are nearly as
        probable) and up to 300 under other noise around one location, if there are at
        most 100 hyperparameters and each has a prior, unless `method`, `init` or
        `warm_start` is stated for its chains. See Notes.
    interaction_cst : {"no_interactions", "pairwise"}, list or tuple, default=None
        Which columns the default kernel lets interact, as in scikit-learn's
        HistGradientBoostingRegressor: the latent function is a sum of functions of one
        column each, of at most two, or of groups of columns such as ``[["time",
        "place"], [3]]``, by name or number; those in no group are one more. With a
        `kernel` of yours it is a ValueError.
    monotonic_cst : array-like of int of shape (n_features,) or dict, default=None
        Columns along which f increases (1), decreases (-1) or is free (0), as in
        scikit-learn's HistGradientBoostingRegressor; a dict has them by name.
        States of the hyperparameters that fit the data count more, the nearer monotone
        functions are to their posterior; its draws, those of the closest normal
        distribution under other than Gaussian noise, are projected on the nearest
        functions whose slopes have the stated sign at some hundred points [6]_, over
        the range of the rows and a fifth of it on either side, whatever `method` is.
        For one latent function.
    method : {"auto", "exact", "ou_mala", "mala", "ula", "smc"}, default="auto"
        "exact" draws from the closed form (Gaussian likelihood, and Tobit and LogNormal
        without censored rows). "ou_mala" and "mala" are Metropolis-adjusted Langevin
        chains preconditioned by the Hessian at the mode; "ula" is the paper's
        unadjusted scheme, with a bias that vanishes with its step; "smc" is sequential
        Monte Carlo from the prior to the posterior, for several modes. "auto" is
        "exact" if possible, "smc" if a search finds several modes of a likelihood that
        is not log-concave, some ten seconds suffice (``n M^2 <= 5e6``) and its
        particles arrive there, otherwise "ou_mala". There are no chains beside nearest
        rows or in a series, as by default under noise that varies, nor by "auto" where
        one function has averaged states: `potential`, `init`, `step_size`, `max_iter`
        and `tol` then have no effect.
    potential : {"projected", "optimal"}, default="projected"
        Potential V of the density ``exp(-V(w))`` that particles follow. "projected" is
        that of the paper's algorithm, which leaves the residual of the inducing inputs
        out of the likelihood. "optimal" averages the negative log-likelihood over it
        (Theorem 1 of the paper): of all distributions of the weights, particles then
        follow the one closest to the posterior in Kullback-Leibler divergence. A step
        takes as many times longer as the average has nodes, 12 to 96 with one latent
        function. The two differ where inducing inputs are few, and have the same
        posterior under Gaussian noise. It has no effect with nearest rows, which
        have the closest normal distribution.
    n_particles : int, default=100
        Number of particles, which are independent chains.
    init : {"laplace", "prior"} or array of shape (M, n_outputs, n_particles), \
            default="laplace"
        Initial distribution Q_0 of the chains: Laplace's approximation of the
        posterior, the prior, or weights in the form of `particles_`. Not used by
        "exact" and "smc".
    step_size : float, array-like of shape (n_sizes,) or None, default=None
        Step of the dynamics; None adapts it, or takes it from the largest eigenvalue
        of the Hessian for "ula". For "ou_mala" the 1 - rho of its proposal, in (0, 1].
        "smc" always adapts it. For "ula" also a schedule: several sizes, each of which
        is used for an equal share of `max_iter` steps, rounded up to tens and to at
        least twenty, one after the other.
    max_iter : int or None, default=None
        Largest number of steps of each chain, at least 20 being taken; None means
        1000, and 20 000 for "ula". Not used by "exact" and "smc".
    tol : float, default=1.1
        Chains stop when split R-hat is at most this in every coordinate. Not used by
        "exact" and "smc".
    normalize_y : bool, default=True
        Centre and scale y before fitting, for likelihoods under which this only shifts
        and scales the latent function (Gaussian, ShiftedMixture; StudentT by the
        quartiles of y, which are robust to outliers; LogNormal after the logarithm of
        y). Kernel hyperparameters, white noise and bounds then refer to the
        standardised y; the scales of the likelihood are always in the units of y. For
        other likelihoods the latent function gets a constant prior mean instead, the
        link of the mean of y (`base_latent` of the likelihood), to which predictions
        return far from the data; kernel hyperparameters refer to the latent function
        itself. False sets the prior mean to zero and scales nothing.
    warm_start : bool, default=False
        Start the next fit with the same `kernel` and `prior` from the
        hyperparameters, and from the particles if their shape is the same.
    n_jobs : int or None, default=None
        Threads (or the workers of ``joblib.parallel_config``). The result is the same
        to the last bit for every value: a task is a block of 50 particles, or a start
        of the search for the kernel. None is one for chains; the search and passes over
        many rows then take as many threads as BLAS does, of which
        ``OMP_NUM_THREADS=1`` makes one.
    random_state : int, RandomState or None, default=None
        Seed of the chains and of subsets of rows.

    Attributes
    ----------
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        Prior covariance with its hyperparameters, for the standardised y; where these
        are averaged, the state of the largest weight in the most probable family, as
        are `likelihood_`, `noise_variance_`, `log_evidence_`, `inducing_points_` and
        `particles_`.
    likelihood_ : Likelihood
        Likelihood with its scales, in the units of y.
    hyperparameter_states_ : tuple of State
        States that predictions average, those of the most probable family first and by
        their weights, each with its
        `kernel` (for the standardised y), its `likelihood` (in the units of y), its
        `weight` and the `name` of its family. Empty where they are chosen.
    noise_variance_ : float or ndarray of shape (n_targets,)
        Variance of the noise in squared units of y, for normal and Student's noise.
    log_evidence_ : float
        Log evidence of the fitted model, in nats and in the units of y, without the
        hyperprior, all targets together. For a Gaussian likelihood its collapsed bound,
        for others Laplace's approximation, both less what inducing points leave out;
        with nearest rows Vecchia's approximation of the evidence or, for other
        likelihoods, of a variational lower bound of it (under noise that varies, of the
        evidence by expectation propagation); of a series the evidence or this bound.
    unexplained_ : float
        Evidence that the inducing inputs leave out: the mean over rows of ``var g(x_i)
        / (2 noise_variance)``, in nats by which the evidence of a row may be too low.
        For other likelihoods the curvature at the mode stands for ``1 /
        noise_variance``.
    stage_seconds_ : dict
        Wall time of the stages "search" (hyperparameters), "selection" (of inducing
        inputs) and "inference".
    inducing_points_ : ndarray of shape (M, n_features)
        None, M = 0, in a series by filter and smoother.
    particles_ : ndarray of shape (M, n_outputs, n_particles)
        Whitened weights w of the basis: standard normal a priori. `posterior_` holds
        them spread out by ``sqrt(J / (J - 1))`` around the mean of J particles of a
        mode, so that variances are unbiased. States that are averaged share the
        particles of chains by their weights, eight at least.
    posterior_ : LatentModel, NeighborModel, SeriesModel, SeparateFunctions, \
            CellModel or MixtureModel
        Basis and posterior of the weights, from which every prediction is computed; a
        series holds its rows, and has no weights; two separate functions under noise
        that varies, beside nearest rows or as two series; a mixture, with
        a model for each state, where hyperparameters are averaged.
    acceptance_ : float
        Accepted fraction of the proposals; 1 without a Metropolis test.
    rhat_, ess_ : ndarray of shape (n_outputs * M,)
        Split R-hat of each coordinate of the chains ("smc": R-hat between its four
        independent runs), and the number of independent draws that the particles are
        worth, at most `n_particles`: a posterior mean is off by about ``std /
        sqrt(ess_)``. One particle counts as one. Where hyperparameters are averaged,
        these are those of the state of the largest weight, and findings on chains those
        of states with half of the weight.
    energy_curve_ : ndarray of shape (n_rounds,)
        Mean potential of the particles over the rounds of steps, up to a constant.
    findings_ : tuple of Finding
        Findings of the diagnostics, see :mod:`skgpx.diagnostics`.
    n_iter_ : int
        Evaluations of the gradient by each chain; 1 for exact draws.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    categories_ : dict of ndarray
        Categories of the columns of X whose type is category, by name; a code is a
        position among them. Only if X has such columns.

    See Also
    --------
    PLSClassifier : The same for classes.
    skgpx.likelihoods : Likelihoods, and how to check one of your own.
    sklearn.gaussian_process.GaussianProcessRegressor : Exact, for few rows and
        Gaussian noise.

    Notes
    -----
    With inducing inputs Z and ``L L^T = kappa(Z, Z)`` the latent function is
    ``f(x) = m + phi(x)^T w + g(x)``, where ``phi(x) = L^-1 kappa(Z, x)``, ``w ~ N(0,
    I)`` and g is the part of the prior that vanishes at Z. Particles follow the density
    ``exp(-sum_i nll(y_i, m + phi(x_i)^T w) - |w|^2 / 2)``; g keeps its prior
    distribution, so that predictions far from the data return to the prior, whose mean
    m is chosen such that they return to the mean of y. Means, standard deviations and
    quantiles are exact sums over the particles, with g and the noise integrated out.

    With ``n_inducing="auto"`` and Gaussian noise, points are added until the evidence
    bound and the variance of g are close enough to those of the exact process: at most
    a thousandth of a nat per row is unexplained (`unexplained_`), and the mean variance
    of g is small compared with the posterior variance of f. For other likelihoods there
    are ``3 sqrt(n)`` points, and with one latent function up to 500 while twice as many
    gain evidence; at most as many as keep a step of all chains, ``4 n M n_particles``
    operations, below 8e9. Neither this limit nor the one for Gaussian noise is ever
    below 100.

    Averaged hyperparameters [4]_ come from a population that goes from the priors of
    all families to their posterior through powers of the evidence: particles are
    resampled, and take Metropolis-adjusted Langevin steps in coordinates whitened by
    the covariance of the population. That takes thousands of evaluations of the exact
    evidence, O(n^3) each, up to 150 rows, and some hundreds of more rows or of
    Laplace's approximation, whose particles come from near the modes; a prediction
    costs as many times more as there are states.

    Whether noise has tails costs a tenth of a fit of up to 300 rows, and nothing beyond
    where residuals are normal. Where tails are chosen a fit takes up to three times as
    long as under normal noise, and ten where a function jumps without noise. Beyond 300
    rows normal noise stays where it is less than half of the residuals, since the
    diagnostics cannot tell.

    With ``n_neighbors="auto"`` nearest rows are taken if at most 1000 inducing inputs,
    or as many as chains can afford, do not suffice, if `n_inducing` and `method` are
    "auto", and if correlations fade with the distance in every column, but for those of
    a linear trend. For Gaussian noise up to 2500 inputs, and a third of the rows, are
    taken instead where they leave new values the smaller variances.

    Time O(n M^2) for the basis and a few tens of steps of O(n M n_particles) each;
    memory O(n M), or O(M^2) for exact draws; neighbours add O(n N^2 (N + M)) time and
    O(n (M + N)) memory, also of the fitted model, and O(N^2 (N + M)) to the prediction
    of a row. Predictions: O(M (M + n_particles)) a row, in blocks within
    scikit-learn's ``working_memory``.

    References
    ----------
    .. [1] Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for
       Bayesian inference in function space".
    .. [2] Titsias, "Variational learning of inducing variables in sparse Gaussian
       processes", AISTATS 2009.
    .. [3] Gyger, Furrer and Sigrist, "Vecchia-inducing-points full-scale
       approximations for Gaussian processes", 2025.
    .. [4] Lalchand and Rasmussen, "Approximate inference for fully Bayesian Gaussian
       process regression", AABI 2019.
    .. [5] Hartikainen and Särkkä, "Kalman filtering and smoothing solutions to temporal
       Gaussian process regression models", MLSP 2010.
    .. [6] Lin and Dunson, "Bayesian monotone regression using Gaussian process
       projection", Biometrika 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import PLSRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.05 * rng.standard_normal(60)
    >>> model = PLSRegressor(n_inducing=20, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.5], [60.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.1), bool(std[0] < 0.1), bool(std[1] > 0.5)
    (True, True, True)
    >>> draws = model.sample_functions(3, random_state=0)
    >>> draws(X).shape
    (60, 3)
    """

    posterior_: Any
    # sums over all rows and over those of `fit`, and the number of the latter, once
    # rows have been added
    _sums: RowSums
    _first_sums: RowSums
    _n_first: int

    # stated, where functions must be those of y itself
    _noise_of_y: ClassVar[Any] = Gaussian()
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ProjectedLangevin._parameter_constraints,
        "normalize_y": ["boolean"],
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: Likelihood | None = None,
        n_inducing: int | str = "auto",
        inducing: str | ArrayLike | Callable[..., ArrayLike] = "greedy",
        n_neighbors: int | str = "auto",
        optimizer: str | None = "evidence",
        hyperparameters: str = "auto",
        interaction_cst: Interactions = None,
        monotonic_cst: ArrayLike | dict[str, int] | None = None,
        method: str = "auto",
        potential: str = "projected",
        n_particles: int = 100,
        init: str | ArrayLike = "laplace",
        step_size: float | ArrayLike | None = None,
        max_iter: int | None = None,
        tol: float = 1.1,
        normalize_y: bool = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.n_neighbors = n_neighbors
        self.optimizer = optimizer
        self.hyperparameters = hyperparameters
        self.interaction_cst = interaction_cst
        self.monotonic_cst = monotonic_cst
        self.method = method
        self.potential = potential
        self.n_particles = n_particles
        self.init = init
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
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
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
        censoring: ArrayLike | None = None,
        derivative: ArrayLike | None = None,
        widths: ArrayLike | None = None,
        against: ArrayLike | None = None,
    ) -> Self:
        """Fit the posterior.

        Parameters
        ----------
        X : array-like or dask array or data frame of shape (n_samples, n_features)
            Rows of dask stay where they are: a sample chooses kernel, scales of the
            likelihood and inducing inputs, and cells of space add up their rows. `y`
            and quantities of rows are then dask arrays or series of the same parts.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets, under normal noise in closed form, are independent
            functions with one kernel and its inducing points, each with its own noise
            and its own scale of y unless these are given. NaN stands for a value of one
            of several targets that is missing: the target is fitted to the rows where
            it is known, and the kernel is learned from rows and targets without gaps.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        exposure : array-like of shape (n_samples,) or float, default=None
            Time, area or population over which each count or amount was taken, in any
            unit; for Binomial counts the number of trials. The latent function then
            gives the rate at exposure one, ``E[y] = exposure * rate(f)`` for every
            link; for the exp link this is the offset ``log(exposure)`` of generalised
            linear models. None stands for ones.
        noise_variance : array-like of shape (n_samples,) or float, default=None
            Known variance of the noise of each row, in squared units of y; the squared
            scale for StudentT. It is all the noise of the row, as `alpha` of
            GaussianProcessRegressor without a WhiteKernel: the likelihood must not have
            one (None), and none is learned. Zero stands for the least that would be
            learned, 1e-8 of the variance of y.
        censoring : array-like of shape (n_samples,) or float, default=None
            For targets under Tobit and LogNormal: 1 where y is a lower bound of the
            true value (right-censored), -1 where it is an upper bound, 0 where it is
            the value. None stands for zeros.
        derivative : array-like of shape (n_samples,), int or str, default=None
            Which rows see a slope of f: the number or the name of the column along
            which it is a derivative, in units of y per unit of the column; -1 for a
            value. The noise of slopes along each column is learned apart from that of
            values under Gaussian noise; other likelihoods need the `noise_variance` of
            such rows.
        widths : array-like of shape (n_samples, n_features), default=None
            Widths of a box around each row of X over which y is the mean of f: bins of
            a histogram, daily means, pixels; 0 for a point.
        against : array-like of shape (n_samples, n_features), default=None
            Points at which f is subtracted: y is about ``f(X) - f(against)``. A row of
            NaN stands for ``f(X)`` itself.

        Returns
        -------
        self : PLSRegressor

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, targets outside the
            support of the likelihood, or parameters that contradict each other. For
            slopes of a kernel without any, such as Matern's of order 1/2, or along
            columns of categories.
        RuntimeError
            If workers of a dask cluster have another version of skgpx, or none.
        """
        row_quantities = {
            "exposure": exposure,
            "noise_variance": noise_variance,
            "censoring": censoring,
        }
        functionals = {
            "derivative": derivative,
            "widths": widths,
            "against": against,
        }
        reporter = RoundReporter(
            self, X, y, sample_weight, **row_quantities, **functionals
        )
        check_likelihood_given(self.likelihood)
        # normal noise, where the default begins
        likelihood = Gaussian() if self.likelihood is None else self.likelihood
        for name in ("_sums", "_first_sums", "_n_first", "_first_series"):
            self.__dict__.pop(name, None)
        self._resolution = None
        if is_lazy(X):
            check_lazy_fit(self, likelihood, y, **functionals)
            columns = {"X": X, "y": y, "sample_weight": sample_weight}
            lazy = LazyRows.of(self, likelihood, columns | row_quantities)
            self._exposed = exposure is not None
            rows = lazy.sample
            # other rows than those of the sample may not be positive
            likelihood = self._on_scale(likelihood, rows, len(rows.y) == lazy.n_rows)
            findings = self._fit_likelihood(likelihood, rows, reporter, lazy)
            conclude(self, findings, sample_weight)
            return self
        likelihood = with_categories_of(likelihood, y)
        codes = codes_of_grades(likelihood, y)
        is_missing = None
        if self.__sklearn_tags__().target_tags.multi_output:
            codes, is_missing = filled_gaps(codes)
        X, y, weights = check_rows(self, X, codes, sample_weight, numeric=True)
        if is_missing is not None:
            y, weights = with_gaps(y, weights, is_missing)
        quantity = row_quantity(likelihood, len(y), **row_quantities)
        self._exposed = exposure is not None
        X = self._rows_seen(X, likelihood, **functionals)
        rows = canonical_rows(X, y, weights, quantity)
        self._check_noise_of_slopes(rows, likelihood)
        if self._resolution is None:
            likelihood = self._on_scale(likelihood, rows)
        if self._learns_tails(rows):
            findings = self._fit_either(likelihood, rows, reporter)
        else:
            findings = self._fit_likelihood(likelihood, rows, reporter)
        conclude(self, [*findings, self._check_level(rows)], sample_weight)
        return self

    # ---- Rows that come in parts -------------------------------------------------

    @available_if(_adds_rows)
    @with_one_blas_thread
    @fit_context
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows to those of `fit`, or of earlier calls; the first call is a fit.

        For one target with Gaussian noise in closed form: other fitted models do not
        have this method. The first call chooses hyperparameters, unless they are to be
        averaged explicitly; a `fit` of fewer than 4500 rows may have averaged them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights.

        Returns
        -------
        self : PLSRegressor

        Raises
        ------
        ValueError
            As :meth:`fit`, and for dask arrays.
        AttributeError
            For other likelihoods, several targets, averaged hyperparameters, and models
            of dask arrays.

        Notes
        -----
        The first rows choose kernel, noise, inducing inputs and the units of y, which
        stay. Without nearest rows only sums over the rows are kept, and the result is
        that of one fit to all rows. With nearest rows the model holds all of them; the
        new rows are conditioned on earlier ones, so that the order of the calls
        matters a little, as the random order of a fit does. O(p N^2 (N + M) + p M^2 +
        M^3) for p rows, and a search tree of all rows. A series by filter and smoother
        goes on with its filter where the rows are later than all others, and is
        filtered again otherwise; the result is that of one fit to all rows.
        """
        if not hasattr(self, "posterior_"):
            # chosen hyperparameters, since averaged ones have no sums over rows, and
            # normal noise
            settings = {}
            if self.hyperparameters == "auto":
                settings["hyperparameters"] = "maximise"
            if self.likelihood is None and self.method == "auto":
                settings["method"] = "exact"
            first = clone(self).set_params(**settings)
            first.fit(X, y, sample_weight)
            self.__dict__.update(vars(first) | self.get_params(deep=False))
            return self
        if is_lazy(X):
            raise ValueError(
                "partial_fit adds arrays in memory; got dask arrays. Call it for each "
                "part, or fit all of them."
            )
        # a sum of models does not know how many rows it has
        n_rows = vars(self).get("_n_rows")
        X, y, weights = check_rows(
            self,
            X,
            y,
            sample_weight,
            numeric=True,
            reset=False,
        )
        rows = canonical_rows(X, y, weights)
        form = NormalForm.of_prepared(self.likelihood_, rows)
        if n_rows is not None:
            self._n_rows = n_rows + len(X)
        if isinstance(self.posterior_, SeriesModel):
            return self._continue_series(form)
        self._start_sums()
        salt = int(generator(self.random_state).integers(2**62))
        model, sums = add_rows(self.posterior_, form.rows, form.likelihood, salt)
        sums = sums._replace(constant=sums.constant - form.constant)
        self._solve_sums(model, self._sums.add(sums))
        return self

    def merge(self, other: PLSRegressor) -> Self:
        """Return a new model of the rows of both; ``one + other`` is the same.

        Fit one model to the first rows, copy it, and add other rows to the copies by
        :meth:`partial_fit`: the first rows count once. Models with given kernel, noise
        and inducing inputs, without `optimizer` and `normalize_y`, need no first rows.

        Parameters
        ----------
        other : PLSRegressor
            With the same kernel, noise and inducing inputs.

        Returns
        -------
        merged : PLSRegressor

        Raises
        ------
        ValueError
            If kernel, noise, inducing inputs or units of the two differ, or as in
            :meth:`partial_fit`.

        Notes
        -----
        Without nearest rows sums are added. With them the rows of the first model
        precede those of the other one, which are conditioned again.
        """
        self._check_same_class(other)
        self._check_adds_rows()
        other._check_adds_rows()
        same_noise = self.noise_variance_ == other.noise_variance_
        same_scale = warp_of(self.likelihood_) == warp_of(other.likelihood_)
        same_noise = same_noise and same_scale
        if not (same_noise and same_functions(self.posterior_, other.posterior_)):
            raise ValueError(
                "Only models of the same kernel, noise, inducing inputs and units can "
                "be merged. Fit one of them to the first rows, and add other rows to "
                "copies of it by partial_fit."
            )
        merged = copy_to_merge(self, other)
        if isinstance(merged.posterior_, SeriesModel):
            return merged._merge_series(other)
        merged._start_sums()
        # sums are kept by name, and do not change the other model
        second = copy.copy(other)
        second._start_sums()
        model = self.posterior_
        sums = merged._sums
        shares_rows = merged._first_sums.equals(second._first_sums)
        if isinstance(model, NeighborModel):
            n_rows = len(second.posterior_.residual.rows)
            if shares_rows:
                n_rows -= second._n_first
            normal = normal_noise(self.likelihood_)
            rows = rows_of_model(second.posterior_, n_rows, normal)
            salt = int(generator(self.random_state).integers(2**62))
            if n_rows:
                model, added = add_rows(model, rows, normal, salt)
                sums = sums.add(added)
        else:
            sums = sums.add(second._sums)
            if shares_rows:
                sums = sums.add(second._first_sums, -1.0)
        merged._solve_sums(model, sums)
        return merged

    def _start_series(self) -> tuple[float, tuple[Any, float]]:
        """Keep the first rows of a series, and their evidence beyond their density."""
        model = self.posterior_
        constant = self.log_evidence_ - model.log_density_of_rows
        if not hasattr(self, "_first_series"):
            self._first_series = (model.observed, constant)
        return constant, self._first_series

    def _continue_series(self, form: NormalForm) -> Self:
        """Add rows to a series, whose filter goes on where they are later."""
        constant, _ = self._start_series()
        rows = form.rows
        variance = float(form.likelihood.variance(0.0))
        noise = variance / rows.precisions
        model = self.posterior_.condition(rows.X, rows.y[:, np.newaxis], noise)
        # ω rows of noise σ² stand for a row of weight ω
        log_volumes = np.log(2.0 * np.pi * noise)
        log_volumes -= rows.weights * np.log(2.0 * np.pi * variance)
        constant += 0.5 * float(np.sum(log_volumes)) - form.constant
        self.posterior_ = model
        self.log_evidence_ = model.log_density_of_rows + constant
        return self

    def _merge_series(self, other: PLSRegressor) -> Self:
        """Add the rows of another series; the first ones of both count once."""
        constant, (first, first_constant) = self._start_series()
        # this is a copy, and the other model stays as it is
        other_constant, (other_first, _) = copy.copy(other)._start_series()
        added = other.posterior_.observed
        constant += other_constant
        if first.equals(other_first):
            added = added.beyond(first)
            constant -= first_constant
        model = self.posterior_
        observed = model.observed.followed_by(added.rows, added.y, added.noise)
        model = replace(model, observed=observed)
        self.posterior_ = model
        self.log_evidence_ = model.log_density_of_rows + constant
        return self

    def _check_adds_rows(self) -> None:
        """Refuse to add rows where their sums are not those of one regression."""
        model = self.posterior_
        adds = isinstance(model, LatentModel | NeighborModel | SeriesModel)
        adds = adds and not (self._is_monotone or isinstance(model, CellModel))
        is_normal = type(normal_noise(self.likelihood_)) is Gaussian
        if not adds or not is_normal or model.n_outputs > 1:
            raise ValueError(
                "Rows are added to a model of one target with Gaussian noise, of "
                f"arrays in memory; got {type(model).__name__} with "
                f"{self.likelihood_!r}. Begin with partial_fit, or set "
                'hyperparameters="maximise", which averages no states, and '
                'method="exact", which has normal noise.'
            )

    def _start_sums(self) -> None:
        """Keep the sums over the rows of `fit`, which follow from the posterior."""
        if "_sums" in vars(self):
            return
        model = self.posterior_
        self._sums = RowSums.of(model.weights, self.log_evidence_)
        self._first_sums = self._sums
        if isinstance(model, NeighborModel):
            self._n_first = len(model.residual.rows)

    def _solve_sums(self, model: Any, sums: RowSums) -> None:
        """Set the posterior that follows from the sums."""
        weights, evidence = sums.solve()
        rng = generator(self.random_state)
        self._sums = sums
        self.posterior_ = replace(model, weights=weights)
        self.particles_, _ = independent_draws(weights, self.n_particles, rng)
        self.log_evidence_ = evidence

    # ---- The fit of one likelihood -----------------------------------------------

    def _learns_tails(self, rows: Rows) -> bool:
        """Whether Student's noise competes with normal noise."""
        is_general = self.method == "auto" and self.hyperparameters != "average"
        # chains that start elsewhere are those of a likelihood that is stated
        starts_at_mode = isinstance(self.init, str) and self.init == "laplace"
        # of functionals neither scale nor tails are learned
        sees_values = self._resolution is None
        if not (is_general and starts_at_mode and sees_values):
            return False
        return learns_noise(self, rows, self._kernel_for(rows)) and tells_scale(rows)

    def _fit_either(
        self,
        normal: Likelihood,
        rows: Rows,
        reporter: RoundReporter,
    ) -> list[Finding | None]:
        """Fit normal noise or Student's, whichever has the larger evidence.

        Of more than a few rows normal noise, unless its residuals rule it out.
        """
        # Student's noise of y, and on the scale on which normal noise was fitted
        heavy: list[Likelihood] = [StudentT()]
        if isinstance(normal, Warped):
            heavy.append(normal._replace(likelihood=StudentT()))
        kernel = self._kernel_for(rows)
        # residuals of few rows contradict nothing
        are_few = len(rows.y) <= AVERAGED_ROWS
        likelihood = normal
        if are_few:
            likelihood = most_probable(self, [normal, *heavy], rows, kernel)
        findings = self._fit_likelihood(likelihood, rows, reporter.part())
        checks = {finding.check for finding in findings if finding is not None}
        if checks & _NOT_NORMAL and not are_few:
            student = copy.copy(self)
            tails = most_probable(self, heavy, rows, kernel)
            of_student = student._fit_likelihood(tails, rows, reporter.part())
            if student.log_evidence_ > self.log_evidence_:
                self.__dict__.update(vars(student))
                findings = of_student
        reporter.finish()
        return findings

    def _fit_likelihood(
        self,
        likelihood: Likelihood,
        rows: Rows,
        reporter: RoundReporter,
        lazy: LazyRows | None = None,
    ) -> list[Finding | None]:
        """Fit the posterior under a likelihood, to rows in the units of y.

        They may be a sample of lazy ones.
        """
        form = NormalForm(likelihood, likelihood, rows)
        if lazy is None or rows.known is None:
            # rows that are not in a sample may be censored
            form = NormalForm.of(likelihood, rows)
        self._check_form(form)
        units = None
        kernel = self._kernel_for(rows)
        if isinstance(kernel, Functionals):
            units = units_of_functionals(
                rows,
                kernel,
                normalize=self.normalize_y and likelihood.location_scale,
                robust=likelihood.heavy_tailed,
            )
        rows_of_form, standard, standard_likelihood, units = in_unit_scale(
            form.rows,
            form.likelihood,
            self.kernel,
            self.normalize_y,
            units,
        )
        if lazy is not None:
            warp = warp_of(form.stated)
            lazy = lazy.in_units_of(standard, standard_likelihood, units, warp)
        findings = self._fit_rows(
            standard,
            standard_likelihood,
            reporter,
            units,
            self.normalize_y and self._all_see_level(rows_of_form),
            form,
            lazy,
        )
        fitted = form.reduced(self.likelihood_)
        return [*findings, *self._check_fit(rows_of_form, fitted, units)]

    def _on_scale(
        self,
        likelihood: Likelihood,
        rows: Rows,
        positive: bool = True,
    ) -> Likelihood:
        """The likelihood on the scale of y that is learned, if one is."""
        kernel = self._kernel_for(rows)
        rough = self._is_automatic()
        return on_scale(self, likelihood, rows, kernel, rough, positive)

    def _check_level(self, rows: Rows) -> Finding | None:
        """Whether any row sees the level of f."""
        kernel = self._kernel_for(rows)
        if not isinstance(kernel, Functionals):
            return None
        return diagnostics.no_level(kernel.rows(rows.X).derivative != VALUE)

    def _check_noise_of_slopes(self, rows: Rows, likelihood: Likelihood) -> None:
        """Refuse rows of several units of noise where these are not learned."""
        kernel = self._kernel_for(rows)
        if not isinstance(kernel, Functionals) or rows.known is not None:
            return
        derivative = kernel.rows(rows.X).derivative
        if np.ptp(derivative) > 0 and not likelihood.has_closed_form:
            raise ValueError(
                "The noise of slopes is learned beside that of values under Gaussian() "
                f"only; got {likelihood!r} for both. Give the noise_variance of each "
                "row, or use Gaussian()."
            )

    def _check_form(self, form: NormalForm) -> None:
        """Refuse at once a method that is not for it, and a noise given twice."""
        if form.likelihood.has_closed_form:
            kernel = self._kernel_for(form.rows)
            check_kernel(kernel, form.rows.X, form.likelihood.noise_parameter)
        else:
            # by the name that the likelihood was given
            resolved_method(self.method, form.stated)

    def _check_fit(
        self,
        rows: Rows,
        fitted: Likelihood,
        units: Units,
    ) -> list[Finding | None]:
        """Check counts, or residuals, of at most 4000 rows in the units of y."""
        kernel = self._states[0].kernel
        sees_functionals = isinstance(kernel, Functionals)
        if sees_functionals:
            # of the first kind: slopes beside values have another noise
            derivative = kernel.rows(rows.X).derivative
            rows = rows.take(np.flatnonzero(derivative == np.min(derivative)))
        checked = rows.take(
            np.flatnonzero(rows.is_known.reshape(len(rows.y), -1).all(1))
        )
        if not len(checked.y):
            return []
        checked = checked.thinned(CHECKED_ROWS)
        likelihood = fitted
        if checked.known is not None:
            likelihood = fitted.at_rows(checked.known)
        # of the hyperparameters of the largest weight, where they are averaged
        model = largest_model(self.posterior_)
        latent = model.marginals(checked.X)
        features, residual_variance = model.features_and_residual(checked.X)
        left_out = float(np.sum(residual_variance))
        prior_variance = left_out + float(np.sum(features**2))
        # bases that omit much of the prior have a check of their own; a kernel that the
        # user fixes may underfit on purpose; bounds of y have no residuals
        follows_rows = (
            self.optimizer is not None
            and left_out / max(prior_variance, 1e-300) <= _MAX_LEFT_OUT
        )
        has_residuals = likelihood.has_residuals and fitted.location_scale
        if not (follows_rows and has_residuals):
            return diagnostics.check_counts(
                checked.y,
                checked.weights,
                latent,
                likelihood,
                follows_rows=follows_rows,
            )
        noise_variance = fitted.variance(0.0)
        if checked.y.ndim > 1:
            mean, variance = latent.moments()
            variance = variance + noise_variance
        else:
            mean, variance = likelihood.predictive_moments(latent)
        # likelihoods with particles, the remedy, have few points
        other_noise = model.n_basis <= MAX_INDUCING_NON_GAUSSIAN
        # with normal noise, the function that points leave out must not pass for noise
        precision = np.mean(units.scale**2 / noise_variance)
        # residuals of functions without noise are those of rounding
        if precision * NO_NOISE > 1.0:
            other_noise = False
        if likelihood.has_closed_form and precision * left_out / len(checked.y) > 0.1:
            other_noise = False
        # the remedies, a scale that varies and logarithms, see values only
        return diagnostics.check_residuals(
            checked,
            checked.y - mean,
            variance,
            noise_variance,
            self.likelihood_,
            None if sees_functionals else kernel,
            units.scale,
            held_out=False,
            noise_is_free=self._states[0].noise_is_free,
            other_noise=other_noise and not sees_functionals,
        )

    @property
    def noise_variance_(self) -> Any:
        """Variance of the noise in squared units of y, normal or with heavy tails.

        On another scale of y it is that of the scale, which has the slope one in the
        middle of the data.
        """
        noise = normal_noise(self.likelihood_)
        if not (noise.has_closed_form or type(noise) is StudentT):
            raise AttributeError(
                "noise_variance_ is the variance of noise around f, which is the same "
                f"everywhere; got {self.likelihood_!r}. See likelihood_ and its "
                "variance."
            )
        return noise.variance(0.0)[()]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # None stands for Gaussian(); the parameter is not checked yet
        likelihood: object = self.likelihood
        if likelihood is None:
            likelihood = self._noise_of_y
        gaussian = False
        if isinstance(likelihood, Likelihood):
            gaussian = normal_noise(likelihood).has_closed_form
        tags.target_tags.multi_output = gaussian and self.method in ("auto", "exact")
        return tags
