"""Projected Langevin sampling for classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from skgpx._cells._distributed import is_lazy, lazy_classes
from skgpx._pls._base import ProjectedLangevin
from skgpx._pls._lazy_fit import LazyRows, check_lazy_fit
from skgpx._prediction.base import LatentClassifier
from skgpx._shell.callbacks import RoundReporter, with_callbacks
from skgpx._shell.validation import (
    canonical_rows,
    check_likelihood_given,
    check_rows,
    fit_context,
)
from skgpx._types import Array, ArrayLike, Interactions, Kernel, RandomState
from skgpx.diagnostics import conclude
from skgpx.kernels import Functionals
from skgpx.likelihoods import Bernoulli, Likelihood


class PLSClassifier(LatentClassifier, ProjectedLangevin):
    """Gaussian-process classification by projected Langevin sampling.

    Probabilities are averaged over the posterior of the latent functions, one for two
    classes and one per class for more; the posterior is not approximated by a Gaussian,
    unless up to ten classes have many rows or `n_neighbors` is a number above zero.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Covariance of the latent function (of each of them, for several classes). None
        stands for a constant times an RBF, or for two classes also a Matern kernel of
        order 5/2 or 3/2 (from 4500 rows on for up to ten classes, 1/2 among them), with
        one lengthscale (in standard deviations of the columns; for several classes also
        in the unit of X), or with one for each column where that gains enough.
    likelihood : Bernoulli, Categorical or None, default=None
        None means ``Bernoulli()`` for two classes, ``Categorical()`` for more.
    n_inducing : int or "auto", default="auto"
        Largest number M of inducing inputs; "auto" is ``3 sqrt(n)`` within a budget of
        operations and of ``M n_classes``, but no fewer than 100; with two classes up
        to 500 while twice as many gain evidence.
    inducing : str, array or callable, default="greedy"
        How they are chosen: "greedy", "k-means++", "random" or "m-dpp", see
        :func:`~skgpx.bases.select_inducing`; an array holds the points themselves.
    n_neighbors : int or "auto", default="auto"
        Number of the nearest rows that complete the inducing inputs, under the closest
        normal distribution instead of chains; 0 for none. "auto" is 40 for up to ten
        classes from 4500 rows on where the points that chains can afford do not
        suffice, otherwise 0. It is 40 for rows of dask beyond their sample.
    optimizer : {"evidence"} or None, default="evidence"
        How hyperparameters are found: by Laplace's approximation of the evidence (or,
        of many rows, by densities given nearest rows, see `n_neighbors`), or not at
        all.
    hyperparameters : {"auto", "average", "maximise"}, default="auto"
        "maximise" chooses the state of kernel and likelihood of the largest posterior.
        "average" draws up to 64 states from their posterior by the evidence of the
        closest normal distribution or, of more than two classes, 12 by Laplace's, and
        averages probabilities over them; it is for at most 300 rows of two classes, and
        ``300 / (n_classes - 1)`` rows of more, and raises a ValueError otherwise.
        "auto" averages up to 200 rows of two classes and ``200 / (n_classes - 1)`` rows
        of more, if every hyperparameter has a prior and `method`, `init` and
        `warm_start` have their defaults, and maximises otherwise. See
        :class:`PLSRegressor`.
    interaction_cst : {"no_interactions", "pairwise"}, list or tuple, default=None
        Which columns the default kernel lets interact, as in scikit-learn's
        HistGradientBoostingRegressor: the latent function is a sum of functions of one
        column each, of at most two, or of groups of columns such as ``[["time",
        "place"], [3]]``, by name or number; those in no group are one more. With a
        `kernel` of yours it is a ValueError.
    monotonic_cst : array-like of int of shape (n_features,) or dict, default=None
        Columns along which the log odds of two classes increase (1), decrease (-1) or
        are free (0), as in scikit-learn's HistGradientBoostingClassifier; a dict has
        them by name. See :class:`PLSRegressor`.
    method : {"auto", "ou_mala", "mala", "ula", "smc"}, default="auto"
        "auto" is "ou_mala", Metropolis-adjusted and preconditioned chains, or, where
        hyperparameters of two classes are averaged, the closest normal distribution.
    potential : {"projected", "optimal"}, default="projected"
        Potential of the density that particles follow: "optimal" averages the
        likelihood over the residual of the inducing inputs, which matters where they
        are few. A step takes as many times longer as the average has nodes: 12 to 96
        for two classes, 16 for three and ``2 n_classes - 2`` for more, a rule of degree
        three.
    n_particles : int, default=100
        Number of particles, which are independent chains.
    init : {"laplace", "prior"} or array of shape (M, n_outputs, n_particles), \
            default="laplace"
        Initial distribution of the chains: Laplace's approximation of the posterior,
        the prior, or weights in the form of `particles_`. Not used by "smc".
    step_size : float, array-like of shape (n_sizes,) or None, default=None
        Step of the dynamics; None adapts it. For "ula" also a schedule of several.
    max_iter : int or None, default=None
        Largest number of steps of each chain, at least 20 being taken; None means
        1000, and 20 000 for "ula". Not used by "smc".
    tol : float, default=1.1
        Chains stop when split R-hat is at most this in every coordinate. Not used by
        "smc".
    warm_start : bool, default=False
        Start the next fit with the same `kernel` and `prior` where this one ended.
    n_jobs : int or None, default=None
        Threads; the result is the same to the last bit for every value. None is one
        for chains, and as many as BLAS takes for passes over many rows.
    random_state : int, RandomState or None, default=None
        Seed of the chains and of subsets of rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        Prior covariance with its hyperparameters, in squared units of the link.
    likelihood_ : Likelihood
    log_evidence_ : float
        Log evidence of the fitted model, in nats, without the hyperprior: Laplace's
        approximation less what inducing points leave out; beside nearest rows Vecchia's
        approximation of a variational lower bound.
    unexplained_ : float
        Evidence that the inducing inputs leave out: the mean over rows of half the
        curvatures of the likelihood times ``var g(x_i)``, in nats by which the evidence
        of a row may be too low; 0 beside nearest rows.
    stage_seconds_ : dict
        Wall time of the stages "search" (hyperparameters), "selection" (of inducing
        inputs) and "inference".
    inducing_points_ : ndarray of shape (M, n_features)
    particles_ : ndarray of shape (M, n_outputs, n_particles)
        Whitened weights of the basis; one output for two classes, otherwise n_classes.
        States that are averaged share the particles by their weights, eight at least.
    posterior_ : LatentModel, NeighborModel, SeriesModel or MixtureModel
        Basis and posterior of the weights, from which every prediction is computed.
    hyperparameter_states_ : tuple
        States that predictions average, each with its `kernel`, `likelihood`, `weight`
        and the `name` of its family. Empty where they are chosen.
    acceptance_ : float
        Accepted fraction of the proposals.
    rhat_, ess_ : ndarray of shape (n_outputs * M,)
        Split R-hat of each coordinate, and the number of independent draws that the
        particles are worth, at most `n_particles`.
    energy_curve_ : ndarray of shape (n_rounds,)
        Mean potential of the particles, up to a constant.
    findings_ : tuple of Finding
        Findings of the diagnostics, see :mod:`skgpx.diagnostics`.
    n_iter_ : int
        Evaluations of the gradient by each chain.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if they are all strings.
    categories_ : dict of ndarray
        Categories of the columns of X whose type is category, by name; a code is a
        position among them. Only if X has such columns.

    See Also
    --------
    PLSRegressor : Numbers and counts; explains the parameters in more detail.
    sklearn.gaussian_process.GaussianProcessClassifier : Laplace's approximation on
        all rows.

    Notes
    -----
    Model and cost are those of :class:`PLSRegressor`; a step costs as many times more
    as there are latent outputs: one for two classes, otherwise n_classes, independent
    a priori. Their prior means are such that probabilities return to the (weighted)
    frequencies of the classes far from the data. The method is that of [1]_.

    References
    ----------
    .. [1] Wild, Wu, Sejdinovic and Knoblauch, "Near-optimal approximations for
       Bayesian inference in function space".

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import PLSClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-3.0, 3.0, 80)[:, np.newaxis]
    >>> inside = np.abs(X[:, 0]) + 0.5 * rng.standard_normal(80) < 1.0
    >>> y = np.where(inside, "inside", "outside")
    >>> model = PLSClassifier(n_inducing=10, random_state=0).fit(X, y)
    >>> model.predict([[0.0], [2.5]])
    array(['inside', 'outside'], dtype='<U7')
    >>> model.predict_proba([[0.0], [2.5]]).shape
    (2, 2)
    """

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
        derivative: ArrayLike | None = None,
        widths: ArrayLike | None = None,
        against: ArrayLike | None = None,
    ) -> Self:
        """Fit the posterior.

        Parameters
        ----------
        X : array-like or dask array or data frame of shape (n_samples, n_features)
            Rows of dask stay where they are, with `y` and `sample_weight` as dask
            arrays or series of the same parts: a sample chooses the kernel, and the
            posterior is the closest normal distribution given nearest rows.
        y : array-like of shape (n_samples,)
            Labels of any type, at least two different ones.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: an integer weight equals that many repetitions of the
            row, zero leaves it out.
        derivative : array-like of shape (n_samples,), int or str, default=None
            Rows whose label is about a slope of f: the number or the name of the column
            along which it is a derivative; -1 for a value.
        widths : array-like of shape (n_samples, n_features), default=None
            Widths of a box around each row of X, if the label is about the mean of f
            over it; 0 for a point.
        against : array-like of shape (n_samples, n_features), default=None
            Points with which each row of X was compared: the label is about ``f(X) -
            f(against)``, as ``True`` for "X is preferred", and f is the utility. A row
            of NaN stands for ``f(X)`` itself.

        Returns
        -------
        self : PLSClassifier

        Raises
        ------
        ValueError
            For input that is not finite and two-dimensional, for fewer than two
            classes among the rows of positive weight, or for a likelihood that is not
            for classes.
        RuntimeError
            If workers of a dask cluster have another version of skgpx, or none.
        """
        functionals = {
            "derivative": derivative,
            "widths": widths,
            "against": against,
        }
        reporter = RoundReporter(self, X, y, sample_weight, **functionals)
        self._resolution = None
        if is_lazy(X):
            check_lazy_fit(self, Bernoulli(), y, **functionals)
            return self._fit_lazy(X, y, sample_weight, reporter)
        X, y, weights = check_rows(self, X, y, sample_weight, numeric=False)
        check_classification_targets(y)
        check_likelihood_given(self.likelihood)
        has_weight = weights > 0.0
        self.classes_, codes = np.unique(y[has_weight], return_inverse=True)
        self._check_classes()
        likelihood = self._class_likelihood()
        seen = self._rows_seen(X, likelihood, **functionals)
        rows = canonical_rows(
            seen[has_weight],
            codes.astype(np.float64),
            weights[has_weight],
        )
        kernel = self._kernel_for(rows)
        self._is_utility = isinstance(kernel, Functionals) and not np.any(
            kernel.level(rows.X)
        )
        findings = self._fit_rows(
            rows,
            likelihood,
            reporter,
            units=self._units_of_latent(rows),
            with_mean=self._all_see_level(rows),
        )
        conclude(self, findings, sample_weight)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Log odds of the second of two classes, or log probabilities of more.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes)
            Of probabilities that are averaged over the posterior. Where all labels were
            about differences the mean of the utility f, up to a constant.
        """
        if getattr(self, "_is_utility", False):
            return self.latent_mean_and_variance(X)[0]
        return super().decision_function(X)

    def _fit_lazy(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        reporter: RoundReporter,
    ) -> Self:
        """Fit rows of dask: first their labels are read, then a sample chooses."""
        check_likelihood_given(self.likelihood)
        self.classes_ = lazy_classes(y, sample_weight)
        self._is_utility = False
        self._check_classes()
        likelihood = self._class_likelihood()
        check_lazy_fit(self, likelihood, y)
        columns = {"X": X, "y": y, "sample_weight": sample_weight}
        lazy = LazyRows.of(self, likelihood, columns)
        rows = canonical_rows(*lazy.sample)
        n_classes = len(self.classes_)
        if n_classes > 2 and np.max(rows.y) + 1 < n_classes:
            raise ValueError(
                f"Each class must have rows in the sample of {len(rows.y)} that "
                "chooses hyperparameters; got none of class "
                f"{self.classes_[-1]!r}. Leave rare classes out, or join them."
            )
        findings = self._fit_rows(rows, likelihood, reporter, lazy=lazy)
        conclude(self, findings, sample_weight)
        return self

    def _class_likelihood(self) -> Likelihood:
        likelihood = super()._class_likelihood()
        if self.likelihood is not None:
            self._check_method(likelihood)
        return likelihood
