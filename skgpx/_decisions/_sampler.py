"""Bayesian optimisation: by expected improvement, or by the optima of draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor

from skgpx._decisions._acquisition import LogExpectedImprovement, Outcome
from skgpx._decisions._fidelity import best_fidelity, fidelity_model
from skgpx._decisions._pareto import (
    dominated_volume,
    improving_boxes,
    is_efficient,
    worst_corner,
)
from skgpx._decisions._space import Inactive, Space, as_space
from skgpx._decoupled import DecoupledSampler, check_drawable
from skgpx._draws import FunctionDraws, InputMap, linear_draws, mapped_draws
from skgpx._hyperparameters import learn_scale
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.blas_threads import OneBlasThread
from skgpx._reports.report import Report
from skgpx._row_budgets import AVERAGED_ROWS
from skgpx._shell.validation import (
    Rows,
    all_or_nothing,
    check_count,
    check_points,
    check_same_names,
    check_unmasked,
    generator,
)
from skgpx._types import Array, Index, Mask, RandomState
from skgpx.exceptions import FitWarning, PredictionWarning
from skgpx.likelihoods import Gaussian, Likelihood, Warped

# Evaluations of which the scale of y is learned: those of computations have no noise.
_FEWEST_OF_SCALE = 12
# Largest number of rows of a space of levels that are all looked at.
N_ROWS = 10_000
ACQUISITIONS = ("auto", "thompson", "expected_improvement")


class ThompsonSampler(OneBlasThread):
    """Propose where to evaluate an expensive function next: Bayesian optimisation.

    A model of the function is fitted to the evaluations so far. A proposal is the input
    of the largest expected improvement under it, or the optimum of a function drawn
    from it (Thompson sampling). Batches of any size can be evaluated in parallel; their
    results may be reported late, in any order or never. Evaluations may fail, may have
    constraints, several objectives and costs.

    Parameters
    ----------
    bounds : array-like of shape (n_features, 2) or dict
        Lower and upper bound of each input, equal where it is fixed. The index of a
        frame of pandas names the inputs. Internally inputs are scaled to [0, 1]; fixed
        ones become 0, and other values keep their distance.

        A dictionary has a range for each name: ``(lower, upper)``, one of
        ``scipy.stats`` ``uniform``, ``loguniform`` and ``randint``, or a list of
        choices. Three and more numbers in ascending order are levels, other choices
        have no order. Proposals then are dictionaries.
    sampler : DecoupledSampler, regressor or None, default=None
        Model of the function on the unit box; clones of it are fitted, one for each
        objective, constraint and the logarithm of the cost. A regressor or a search
        (GridSearchCV) stands for a DecoupledSampler around it. With ``prior="grid"``
        its draws are defined on the unit box. None stands for
        ``DecoupledSampler(hyperparameters="maximise")``, which learns kernel and noise
        and, from twelve evaluations of one objective on, has its scale of y learned
        (see `likelihood_`), for proposals, and for the best input under noise, of up to
        300 evaluations, for ``DecoupledSampler()``, which averages over
        hyperparameters; warnings of their fits to few rows are not shown. Proposals of
        the latter take some twenty times as long.
    maximize : bool or array-like of bool, default=False
        Look for the largest value instead of the smallest; of several objectives, one
        for all or one for each.
    steps : array-like of shape (n_features,) or None, default=None
        Distance between the levels of each input, counted from its lower bound: 1 for
        integers, 0 for a continuous input. Proposals lie on the levels, and the model
        is evaluated there. Unless values are noisy, no level is proposed again before
        all levels have been: a repetition carries no information. None stands for
        zeros.
    n_initial : int or "auto", default="auto"
        Number of proposals from a scrambled Sobol design before the first fit;
        evaluations made earlier count towards it. "auto" is ``2 (n_features + 1)``.
    refit_every : int, "auto" or None, default="auto"
        Hyperparameters of a GaussianProcessRegressor are fitted again after this many
        calls of :meth:`tell`, and kept in between; None never fits them. "auto" is
        always, and from 200 evaluations on a hundredth of their number.
    acquisition : {"auto", "expected_improvement", "thompson"}, default="auto"
        What is optimised. "expected_improvement" needs a model with a posterior that
        can be conditioned on proposals. "thompson" draws a function for each proposal.
        "auto" is the former where the model allows it, and otherwise the latter.
    noisy : bool or "auto", default="auto"
        Whether values are noisy. Then the best input is chosen by its posterior mean,
        and levels are repeated. "auto": whether equal inputs had different values.
    allowed : callable or None, default=None
        From a proposal, a row of numbers or a dictionary, to whether it may be made.
        It is called for thousands of candidates.
    inactive : callable or None, default=None
        From a proposal, a dictionary, to the names of the inputs that have no effect
        there, such as the width of a kernel that is not chosen. Proposals leave them
        out, and the model sees one point for all their values.
    fidelity : str, int or None, default=None
        Name or number of an input whose largest value is the experiment, and whose
        smaller ones are approximations of it that cost less: coarse grids, few epochs.
        The best input is one of the largest value. With costs told, cheap evaluations
        are proposed where they say much about the experiment. Without `sampler` the
        model then is the autoregressive one of [8]_.
    reference : array-like of shape (n_objectives,) or None, default=None
        Values of several objectives that are just not good enough: what counts is the
        volume between them and the front. None: a tenth of the range of the front
        behind its worst values, as they are at each proposal.
    n_mesh : int, default=10000
        Number of points at which the acquisition is evaluated first; a quarter as many
        are added around the best evaluations.
    n_starts : int, default=32
        Number of the best of these points from which it is optimised further.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    X_ : ndarray of shape (n_evaluations, n_features)
        Inputs of the evaluations so far; a choice as its number.
    y_ : ndarray of shape (n_evaluations,) or (n_evaluations, n_objectives)
        Values of the evaluations, NaN where one failed.
    constraints_ : ndarray of shape (n_evaluations, n_constraints)
        Values of the constraints.
    costs_ : ndarray of shape (n_evaluations,)
        Costs of the evaluations, NaN where none was told.
    best_x_ : ndarray of shape (n_features,) or dict
        Input of the best evaluation that meets the constraints; under noise the
        evaluated input of the best posterior mean. For one objective.
    best_y_ : float
        Value of the best evaluation; under noise its posterior mean on the scale of
        `likelihood_`, taken back to y.
    pareto_front_ : ndarray of shape (n_efficient, n_objectives)
        Values of the evaluations that no other one dominates; under noise posterior
        means. They meet the constraints.
    pareto_set_ : ndarray of shape (n_efficient, n_features) or list of dict
        Their inputs.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the inputs, where bounds or evaluations were given with names.
    likelihood_ : Likelihood
        `Gaussian`, or `Warped` where the default model is of a function of y, which
        ``likelihood_.inverse`` takes back to y.
    sampler_ : DecoupledSampler or None
        Model of the (first) objective that made the last proposals, on the unit box and
        on the scale of `likelihood_`; None before the first.

    See Also
    --------
    DecoupledSampler : The model.
    ThompsonSearchCV : Hyperparameters of an estimator.

    Notes
    -----
    *Expected improvement* is ``E[max(b - f(x), 0)]``, with the noise-free f and, as
    incumbent b, the smallest posterior mean at the evaluated inputs, which noise does
    not make too optimistic [1]_. It is maximised by the gradient of its logarithm,
    which does not vanish where an improvement is improbable [2]_, equation (9). Under a
    mixture of models it is the mean of the improvements of the components, each with
    an incumbent of its own. Proposals without a result count as evaluations that had
    their posterior means as values: so a batch is spread, and two calls of :meth:`ask`
    differ. A batch of n costs n searches, and conditioning on p proposals O((m + p)^3)
    for a model of m rows.

    *Constraints* have a model each, and multiply the improvement by the probability
    that all are met [5]_. Labels and success are constraints of the values 1 and -1:
    where runs fail for certain, the probabilities of a classifier were less sharp, and
    took five times as long. As long as no evaluation
    meets them, this probability alone is maximised. *Several objectives* have a model
    each, and the improvement is what the volume gains that the front dominates [6]_, in
    closed form; with more than three, or hundreds of points on the front, this takes
    long. *Costs* divide the improvement: the exponential of the mean of a model of
    their logarithms [7]_. With a *fidelity* the improvement is that of the experiment,
    and the input found is evaluated where the variance of the experiment falls most
    for the cost [9]_.

    *Thompson sampling* proposes a point with the probability that it is the optimum
    [3]_. A draw with Fourier features is optimised by its gradient and not on a grid,
    which matters from about four inputs on [4]_. With constraints and several
    objectives a function is drawn for each of them, and their improvement is maximised.

    Pickle the object to resume in another process: its state is the data so far, the
    last model and a few counters.

    References
    ----------
    .. [1] Vazquez, Villemonteix, Sidorkiewicz and Walter, "Global optimization based on
       noisy evaluations: an empirical study of two statistical approaches", Journal of
       Physics 2008.
    .. [2] Ament, Daulton, Eriksson, Balandat and Bakshy, "Unexpected improvements to
       expected improvement for Bayesian optimization", NeurIPS 2023.
    .. [3] Thompson, "On the likelihood that one unknown probability exceeds another",
       Biometrika 1933.
    .. [4] Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently
       sampling functions from Gaussian process posteriors", ICML 2020.
    .. [5] Gardner, Kusner, Xu, Weinberger and Cunningham, "Bayesian optimization with
       inequality constraints", ICML 2014.
    .. [6] Emmerich, Giannakoglou and Naujoks, "Single- and multiobjective evolutionary
       optimization assisted by Gaussian random field metamodels", IEEE Transactions on
       Evolutionary Computation 2006.
    .. [7] Snoek, Larochelle and Adams, "Practical Bayesian optimization of machine
       learning algorithms", NeurIPS 2012.
    .. [8] Kennedy and O'Hagan, "Predicting the output from a complex computer code when
       fast approximations are available", Biometrika 2000.
    .. [9] Huang, Allen, Notz and Miller, "Sequential kriging optimization using
       multiple-fidelity evaluations", Structural and Multidisciplinary Optimization
       2006.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.thompson import ThompsonSampler
    >>> optimizer = ThompsonSampler([[-2.0, 2.0]], n_mesh=200, random_state=0)
    >>> for _ in range(6):
    ...     X = optimizer.ask(2)
    ...     optimizer = optimizer.tell(X, (X[:, 0] - 0.7) ** 2)
    >>> bool(abs(optimizer.best_x_[0] - 0.7) < 0.05)
    True
    """

    def __init__(
        self,
        bounds: ArrayLike | Mapping[str, Any],
        sampler: BaseEstimator | None = None,
        *,
        maximize: bool | Sequence[bool] = False,
        steps: ArrayLike | None = None,
        n_initial: int | str = "auto",
        refit_every: int | str | None = "auto",
        acquisition: str = "auto",
        noisy: bool | str = "auto",
        allowed: Callable[[Any], bool] | None = None,
        inactive: Inactive | None = None,
        fidelity: str | int | None = None,
        reference: ArrayLike | None = None,
        n_mesh: int = 10_000,
        n_starts: int = 32,
        random_state: RandomState = None,
    ):
        self._space = as_space(bounds, steps, allowed, inactive, fidelity)
        d = len(self._space)
        if sampler is not None and not isinstance(sampler, DecoupledSampler):
            check_drawable(sampler)
            sampler = DecoupledSampler(sampler)
        if sampler is not None and isinstance(sampler.estimator, FrozenEstimator):
            raise ValueError(
                "ThompsonSampler fits its model to the data it receives, and a frozen "
                f"estimator does not learn; got {sampler!r}. Pass the regressor "
                "itself, with optimizer=None to keep its hyperparameters."
            )
        if self._space.names is None:
            # the index of a frame of pandas
            check_same_names(self, getattr(bounds, "T", None))
        else:
            self.feature_names_in_ = np.array(self._space.names, dtype=object)
        self.sampler = sampler
        self.maximize = _checked_maximize(maximize)
        if n_initial == "auto":
            n_initial = 2 * (d + 1)
        elif n_initial:
            n_initial = check_count(n_initial, "n_initial")
        self.n_initial = int(n_initial or 0)
        if refit_every not in (None, "auto"):
            refit_every = check_count(refit_every, "refit_every")
        self.refit_every = refit_every
        _check_choice("acquisition", acquisition, ACQUISITIONS)
        if acquisition == "thompson" and self._space.fidelity is not None:
            raise ValueError(
                "A fidelity is chosen by expected improvement; got "
                'acquisition="thompson".'
            )
        self.acquisition = acquisition
        _check_choice("noisy", noisy, (True, False, "auto"))
        self.noisy = noisy
        self.reference = None
        if reference is not None:
            self.reference = check_points("reference", reference, (None,))
        self.n_mesh = check_count(n_mesh, "n_mesh")
        self.n_starts = check_count(n_starts, "n_starts")
        self.X_ = np.empty((0, d))
        self.y_ = np.empty(0)
        self.constraints_ = np.empty((0, 0))
        self.costs_ = np.empty(0)
        self._proposed = np.empty((0, d))
        # a model for each column of _measured, and the scale of y of the first
        self._samplers: list[DecoupledSampler] = []
        self.likelihood_: Likelihood = Gaussian()
        # a number, not a generator: the n-th proposal has a stream of its own
        self._seed = int(generator(random_state).integers(2**62))
        self._n_asked = 0
        self._n_tells = 0
        # posterior means at the evaluations, under noise
        self._means = np.empty((0, 0))
        self._n_tells_at_means = 0
        self._n_tells_at_fit = 0
        self._n_tells_at_refit = 0

    # ---- Ask and tell ----------------------------------------------------------------

    @all_or_nothing
    def ask(self, n: int = 1) -> Any:
        """Propose inputs to evaluate.

        Parameters
        ----------
        n : int, default=1
            Number of proposals; may differ from call to call.

        Returns
        -------
        X : ndarray of shape (n, n_features) or list of dict
            Within the bounds; dictionaries if the inputs were given with names.
        """
        n = check_count(n, "n")
        first = self._n_asked
        self._n_asked += n
        rng = np.random.default_rng([self._seed, 1, first])
        # the initial design; evaluations made earlier count towards it
        n_done = max(first, len(self.y_))
        design = np.empty((0, len(self._space)))
        if n_done < self.n_initial:
            design = self._space.net(self.n_initial, np.random.default_rng(self._seed))
            design = design[n_done : n_done + n]
        n_free = n - len(design)
        if n_free and not np.any(self._is_measured()):
            # no evaluations yet
            longer = self._space.net(n_done + n, np.random.default_rng(self._seed))
            design = longer[n_done : n_done + n]
            n_free = 0
        X = self._untried(design, None, rng)
        if n_free:
            X = np.concatenate((X, self._searched(n_free, X, rng)))
        self._proposed = np.concatenate((self._proposed, X))
        return self._space.shown(X)

    @all_or_nothing
    def tell(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        constraints: ArrayLike | None = None,
        cost: ArrayLike | None = None,
    ) -> Self:
        """Add evaluations, of proposals or of any other inputs.

        Parameters
        ----------
        X : array-like of shape (n, n_features), dict or list of dict
            The columns of a data frame are those of the first one, in its order.
        y : array-like of shape (n,) or (n, n_objectives), default=None
            Values of the function, which may be noisy; inputs may be repeated. NaN is a
            run that failed: proposals avoid such inputs. None: these inputs are being
            evaluated somewhere, and their results follow.
        constraints : array-like of shape (n,) or (n, n_constraints), default=None
            Values that must be at most zero, or labels, True where a constraint is
            violated. If evaluations have them, all have; NaN is one that was not
            measured: the evaluation then is not known to be feasible.
        cost : array-like of shape (n,), default=None
            What the evaluations cost, such as their seconds: positive. Proposals then
            have a large improvement for their cost.

        Returns
        -------
        self : ThompsonSampler

        Raises
        ------
        ValueError
            If shapes do not agree with one another or with earlier evaluations, if a
            value is infinite, or a cost is NaN for a run that did not fail. If a data
            frame has other columns than the first one.
        """
        if self._space.names is None:
            check_same_names(self, X)
        X = self._space.read(X)
        n = len(X)
        if y is None:
            if constraints is not None or cost is not None:
                raise ValueError("constraints and cost go with values y; got y=None.")
            self._proposed = np.concatenate((self._proposed, X))
            return self
        y = self._checked_y(y, n)
        has_failed = np.any(np.isnan(y.reshape(n, -1)), axis=1)
        violations = self._checked_constraints(constraints, n)
        costs = np.full(n, np.nan)
        if cost is not None:
            costs = _checked_values("cost", cost, (n,), has_failed)
            if np.any(costs <= 0.0):
                raise ValueError(f"cost must be positive; got {np.nanmin(costs)}.")
        if not np.any(self._is_measured()):
            # runs that failed say nothing of the numbers of columns
            n_earlier = len(self.X_)
            self.y_ = np.full((n_earlier, *y.shape[1:]), np.nan)
            self.constraints_ = np.full((n_earlier, violations.shape[1]), np.nan)
        self.X_ = np.concatenate((self.X_, X))
        self.y_ = np.concatenate((self.y_, y))
        self.constraints_ = np.concatenate((self.constraints_, violations))
        is_unknown = np.all(np.isnan(self.constraints_), axis=0)
        if np.any(self._is_measured()) and np.any(is_unknown):
            raise ValueError(
                "Each constraint needs a value by the first run that succeeds; got NaN "
                f"only in column {np.flatnonzero(is_unknown)[0]} of constraints."
            )
        self.costs_ = np.concatenate((self.costs_, costs))
        if np.any(y <= self.likelihood_.support[0]):
            # the scale of positive values is learned again, and its model with it
            self.likelihood_ = Gaussian()
            self._samplers = []
        self._n_tells += 1
        return self

    def _checked_y(self, y: ArrayLike, n: int) -> Array:
        """Values (n,) or (n, t), with NaN in all columns of a run that failed."""
        shape: tuple[int | None, ...] = (n,)
        if np.ndim(y) == 2:
            shape = (n, None)
        n_objectives = np.size(self.maximize)
        if n_objectives > 1:
            shape = (n, n_objectives)
        if np.any(self._is_measured()):
            shape = (n, *self.y_.shape[1:])
        values = _checked_values("y", y, shape, np.ones(n, dtype=bool))
        if values.ndim == 2 and values.shape[1] < 2:
            raise ValueError("y of one objective must have one dimension; got two.")
        if self.reference is not None and values.shape[1:] != self.reference.shape:
            raise ValueError(
                f"y must have {len(self.reference)} columns, as reference has; got "
                f"shape {values.shape}."
            )
        if values.ndim == 2:
            # one that is NaN makes the sum NaN
            values = values + 0.0 * values.sum(axis=1, keepdims=True)
        return values

    def _checked_constraints(self, values: ArrayLike | None, n: int) -> Array:
        """Constraints (n, k), k as in earlier evaluations; NaN if not measured."""
        n_constraints = self.constraints_.shape[1]
        is_first = not np.any(self._is_measured())
        if values is None and (is_first or n_constraints == 0):
            return np.full((n, n_constraints), np.nan)
        if values is None or not (is_first or n_constraints):
            raise ValueError(
                "Either all evaluations have constraints or none; got "
                f"constraints={'None' if values is None else 'an array'} after "
                f"{len(self.X_)} evaluations with {n_constraints} constraints. Tell "
                "them to a new ThompsonSampler, from the first one on."
            )
        if np.ndim(values) == 1:
            values = np.reshape(np.asarray(values), (-1, 1))
        shape = (n, None) if is_first else (n, n_constraints)
        return _checked_values("constraints", values, shape, np.ones(n, dtype=bool))

    def are_new(self, X: Any) -> Mask:
        """Whether inputs, as `tell` takes them, have not been evaluated: (n,)."""
        return ~_is_among(self._space.read(X), self.X_)

    # ---- The best so far -------------------------------------------------------------

    @property
    def sampler_(self) -> DecoupledSampler | None:
        """Model of the first objective; see Attributes."""
        return self._samplers[0] if self._samplers else None

    @property
    def best_x_(self) -> Any:
        """Input of the best evaluation; see Attributes."""
        return self._space.shown(self.X_[[self._best_row()]])[0]

    @property
    def best_y_(self) -> float:
        """Value of the best evaluation; under noise its mean on the scale of y."""
        row = self._best_row()
        return float(self._values()[row, 0])

    @property
    def pareto_front_(self) -> Array:
        """Values that no other evaluation dominates; see Attributes."""
        return self._values()[self._efficient_rows()]

    @property
    def pareto_set_(self) -> Any:
        """Inputs of the front; see Attributes."""
        return self._space.shown(self.X_[self._efficient_rows()])

    def hypervolume(self, reference: ArrayLike | None = None) -> float:
        """Volume between a reference point and the front.

        Parameters
        ----------
        reference : array-like of shape (n_objectives,), default=None
            In the units of y; None stands for that of the constructor.

        Returns
        -------
        volume : float
            In the product of the units of the objectives.

        Raises
        ------
        ValueError
            If there is no reference point.
        """
        if reference is None:
            reference = self.reference
        if reference is None:
            raise ValueError("hypervolume needs a reference point; got None.")
        signs = self._signs()
        corner = signs * check_points("reference", reference, (len(signs),))
        return dominated_volume(signs * self.pareto_front_, corner)

    def report(self) -> Report:
        """What was evaluated, what was best, and how probably it is feasible.

        Returns
        -------
        report : Report
            A dictionary of sections, which prints as text: "evaluations" (how many were
            told, failed, and met the constraints), "best" (input, value, or size of the
            front), and "feasibility", for each constraint the probability at the best
            input, or the smallest one over the front, that it is met there, under its
            model.
        """
        is_feasible = self._is_feasible()
        report = Report(
            evaluations={
                "told": len(self.X_),
                "failed": int(np.sum(~self._is_measured())),
                "feasible": int(np.sum(is_feasible)),
            }
        )
        if not np.any(is_feasible):
            return report
        if len(self._signs()) == 1:
            rows = np.array([self._best_row()])
            report["best"] = {"x": self.best_x_, "y": self.best_y_}
        else:
            rows = self._efficient_rows()
            report["best"] = {"points of the front": len(rows)}
        points = self._space.to_unit(self.X_[rows])
        feasibility = {
            name: float(
                np.exp(outcome.moments(points).log_probability_below_zero()).min()
            )
            for name, outcome in self._constraints().items()
        }
        if feasibility:
            report["feasibility"] = feasibility
        return report

    def __repr__(self) -> str:
        goal = f"maximize={self.maximize}"
        if isinstance(self.maximize, bool):
            goal = "maximize" if self.maximize else "minimize"
        return f"ThompsonSampler({goal}, n_told={len(self.y_)})"

    def _best_row(self) -> int:
        """Row of the best evaluation.

        Raises
        ------
        NotFittedError
            If there is none yet.
        ValueError
            If there are several objectives.
        """
        signs = self._signs()
        if len(signs) > 1:
            raise ValueError(
                f"{len(signs)} objectives have no single best evaluation: see "
                "pareto_front_ and pareto_set_."
            )
        rows = self._eligible_rows()
        return int(rows[np.argmin(signs[0] * self._values()[rows, 0])])

    def _efficient_rows(self) -> Index:
        """Rows of the front."""
        rows = self._eligible_rows()
        return rows[is_efficient(self._signs() * self._values()[rows])]

    def _eligible_rows(self) -> Index:
        """Rows of evaluations that did not fail and meet the constraints."""
        if not np.any(self._is_measured()):
            raise NotFittedError("No evaluations yet: call tell(X, y) first.")
        is_experiment = self._space.is_experiment(self.X_)
        rows = np.flatnonzero(self._is_feasible() & is_experiment)
        if not len(rows):
            raise NotFittedError(
                f"None of {len(self.X_)} evaluations meets the constraints yet, at the "
                "largest fidelity if there is one: go on with ask and tell."
            )
        return rows

    # ---- What was measured -----------------------------------------------------------

    def _objectives_so_far(self) -> Array:
        """Values of the objectives, (n, t)."""
        if self.y_.ndim == 1:
            return self.y_[:, np.newaxis]
        return self.y_

    def _is_measured(self) -> Mask:
        """Whether each evaluation succeeded."""
        return np.all(np.isfinite(self._objectives_so_far()), axis=1)

    def _signs(self) -> Array:
        """-1 for objectives that are maximised, (t,)."""
        n_objectives = self._objectives_so_far().shape[1]
        return np.where(np.broadcast_to(self.maximize, n_objectives), -1.0, 1.0)

    def _measured(self) -> Array:
        """What has a model each: objectives, constraints, log costs; NaN elsewhere."""
        objectives = self._objectives_so_far()
        if isinstance(self.likelihood_, Warped):
            objectives = self.likelihood_.forward(objectives)
        parts = [objectives, _compressed(self.constraints_)]
        is_measured = self._is_measured()
        if len(np.unique(is_measured)) == 2:
            # that a run succeeds is one more constraint
            parts.append(np.where(is_measured, -1.0, 1.0)[:, np.newaxis])
        if self._has_costs():
            parts.append(np.log(self.costs_)[:, np.newaxis])
        return np.concatenate(parts, axis=1)

    def _has_costs(self) -> bool:
        """Whether a cost was told."""
        return not np.all(np.isnan(self.costs_))

    def _values(self) -> Array:
        """Values of the objectives at the evaluations: y, or under noise its mean."""
        if not self._is_noisy() or not np.any(self._is_measured()):
            return self._objectives_so_far()
        return self._posterior_means()[:, : len(self._signs())]

    def _is_feasible(self) -> Mask:
        """Whether each evaluation succeeded and meets the constraints.

        Under noise, by the posterior means of the constraints.
        """
        violations = self.constraints_
        if self._is_noisy() and violations.size and np.any(self._is_measured()):
            first = len(self._signs())
            violations = self._posterior_means()[:, first : first + violations.shape[1]]
        # NaN where a run failed
        return self._is_measured() & np.asarray(np.all(violations <= 0.0, axis=1))

    def _posterior_means(self) -> Array:
        """Posterior mean of each quantity at all evaluations."""
        if self._n_tells_at_means < self._n_tells:
            is_default = self.sampler is None and self._space.fidelity is None
            if is_default and len(self.y_) <= AVERAGED_ROWS:
                # one lengthscale that is chosen wrongly explains wells as noise
                samplers = [
                    self._fitted(DecoupledSampler(), values)
                    for values in self._measured().T
                ]
            else:
                samplers = self._fit_samplers()
            points = self._space.to_unit(self.X_)
            means = [sampler.predict(points) for sampler in samplers]
            self._means = np.column_stack(means)
            if isinstance(self.likelihood_, Warped):
                self._means[:, 0] = self.likelihood_.inverse(self._means[:, 0])
            self._n_tells_at_means = self._n_tells
        return self._means

    def _is_noisy(self) -> bool:
        """Whether values are noisy; "auto": equal inputs had different values."""
        if self.noisy != "auto":
            return bool(self.noisy)
        is_measured = self._is_measured()
        X = self.X_[is_measured]
        trials = np.column_stack((X, self._objectives_so_far()[is_measured]))
        return len(np.unique(trials, axis=0)) > len(np.unique(X, axis=0))

    # ---- Proposals -------------------------------------------------------------------

    def _searched(self, n: int, earlier: Array, rng: np.random.Generator) -> Array:
        """Inputs (n, d) of the best acquisition, beside earlier rows of the batch."""
        self._fit_samplers()
        expects = self._expects_improvements()
        is_plain = len(self._samplers) == 1 and self._space.allowed is None
        if is_plain and not expects:
            # the optima of draws
            functions = float(self._signs()[0]) * self._draws(n, rng)[0]
            return self._minima(functions, earlier, rng)
        outcomes = self._outcomes()
        if expects:
            return self._improvements(outcomes, n, earlier, rng)
        draws = self._draws(n, rng)
        X = np.empty((0, len(self._space)))
        for k in range(n):
            drawn = [
                outcome.drawn(functions[k])
                for outcome, functions in zip(outcomes, draws, strict=True)
            ]
            batch = np.concatenate((earlier, X))
            X = np.concatenate((X, self._improvements(drawn, 1, batch, rng)))
        return X

    def _draws(self, n: int, rng: np.random.Generator) -> list[FunctionDraws]:
        """So many functions from the posterior of each quantity."""
        # an error of some percent of a standard deviation moves no proposal
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PredictionWarning)
            return [sampler.sample_functions(n, rng) for sampler in self._samplers]

    def _expects_improvements(self) -> bool:
        """Whether improvements are expected values, instead of those of draws."""
        if self.acquisition == "thompson":
            return False
        if None not in map(_conditionable, self._samplers):
            return True
        is_asked = self.acquisition == "expected_improvement"
        if is_asked or self._space.fidelity is not None:
            raise ValueError(
                "Expected improvement needs a model that can be conditioned on "
                f"proposals; {self._samplers[0].estimator_!r} cannot. Use "
                'acquisition="thompson", without a fidelity.'
            )
        return False

    def _outcomes(self) -> list[Outcome]:
        """What is known of each quantity, in the order of `_measured`."""
        signs = self._signs()
        outcomes = []
        for k, values in enumerate(self._measured().T):
            posterior = _conditionable(self._samplers[k])
            unit = float(np.nanstd(values)) or 1.0
            sign = float(signs[k]) if k < len(signs) else 1.0
            outcomes.append(Outcome(posterior, unit, sign))
        return outcomes

    def _constraints(self) -> dict[str, Outcome]:
        """What is known of each constraint, and of success if a run failed."""
        self._fit_samplers()
        outcomes = self._outcomes()[len(self._signs()) :]
        n_constraints = self.constraints_.shape[1]
        names = [f"constraint {k}" for k in range(n_constraints)]
        if len(outcomes) > n_constraints + self._has_costs():
            names.append("success")
        return {
            name: outcome
            for name, outcome in zip(names, outcomes, strict=False)
            if outcome.posterior is not None
        }

    def _improvements(
        self,
        outcomes: Sequence[Outcome],
        n: int,
        earlier: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Inputs of the n largest expected improvements, one after the other.

        Proposals without a result, those of this batch included, are taken to have
        their means as values: it leaves means as they are and reduces variances.

        Parameters
        ----------
        outcomes : sequence of Outcome
            Objectives, constraints that are numbers, and the log cost.
        n : int
        earlier : ndarray of shape (k, d)
            Proposals of the same batch, of the design.
        rng : numpy.random.Generator
        """
        is_told = _is_among(self._proposed, self.X_)
        pending = np.concatenate((self._proposed[~is_told], earlier))
        is_feasible = self._is_feasible()
        rows = self._space.to_unit(self._space.as_experiments(self.X_[is_feasible]))
        n_objectives = len(self._signs())
        n_costs = int(self._has_costs())
        X = np.empty((0, len(self._space)))
        for _ in range(n):
            new = self._space.to_unit(pending)
            outcomes = [outcome.with_means(new) for outcome in outcomes]
            objectives = tuple(outcomes[:n_objectives])
            constraints = tuple(outcomes[n_objectives : len(outcomes) - n_costs])
            log_costs = outcomes[len(outcomes) - n_costs :]
            new = self._space.to_unit(self._space.as_experiments(pending))
            for constraint in constraints:
                new = new[constraint.means(new) <= 0.0]
            rows = np.concatenate((rows, new))
            lower, upper = self._boxes(objectives, rows)
            improvement = LogExpectedImprovement(
                objectives if len(upper) else (),
                lower,
                upper,
                constraints=constraints,
                log_cost=log_costs[0] if log_costs else None,
                allowed=None if self._space.allowed is None else self._is_allowed,
            )
            batch = np.concatenate((earlier, X))
            function = linear_draws(improvement, np.ones((1, 1, 1)))
            pending = self._minima(function, batch, rng)
            if log_costs and self._space.fidelity is not None:
                pending = self._at_best_fidelity(pending, objectives[0], log_costs[0])
            X = np.concatenate((X, pending))
        return X

    def _at_best_fidelity(
        self,
        X: Array,
        objective: Outcome,
        log_cost: Outcome,
    ) -> Array:
        """An input (1, d) at the fidelity that tells most of it for its cost."""
        levels = self._space.at_fidelities(X[0])
        points = self._space.to_unit(levels)
        best = best_fidelity(objective, points, log_cost.means(points))
        return levels[[best]]

    def _is_allowed(self, points: Array) -> Mask:
        """Whether points of the unit box may be proposed."""
        return self._space.is_allowed(self._space.from_unit(points))

    def _boxes(
        self,
        objectives: Sequence[Outcome],
        rows: Array,
    ) -> tuple[Array, Array]:
        """Corners (k, t, s) of the boxes that the feasible rows (p, D) do not dominate.

        Of one objective, below the smallest mean of each component. Without feasible
        rows there is none.
        """
        if not len(rows):
            empty = np.empty((0, len(objectives), 1))
            return empty, empty
        if len(objectives) == 1:
            mean, _, _ = objectives[0].moments(rows)
            upper = mean.min(axis=0)[np.newaxis, np.newaxis]
            return np.full((1, 1, 1), -np.inf), upper
        values = np.column_stack([objective.means(rows) for objective in objectives])
        reference = worst_corner(values)
        if self.reference is not None:
            reference = self._signs() * self.reference
        front = values[is_efficient(values)]
        lower, upper = improving_boxes(front, reference)
        return lower[:, :, np.newaxis], upper[:, :, np.newaxis]

    def _minima(
        self,
        functions: FunctionDraws,
        X: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Inputs at which functions of the unit box are smallest, one for each.

        Tried levels, and those of the rows X, are replaced by the best untried ones.
        """
        n_starts = min(self.n_starts, self.n_mesh)
        if self._space.has_levels:
            functions = mapped_draws(functions, InputMap(_Levels(self._space)))
        candidates = self._near_best(rng)
        points = functions.minimize(
            self._space.box,
            n_starts,
            self.n_mesh,
            rng,
            candidates,
        ).x
        return self._untried(self._space.from_unit(points), functions, rng, X)

    def _near_best(self, rng: np.random.Generator) -> Array:
        """Points of the unit box around the best rows."""
        n_points = max(1, self.n_mesh // 4)
        order = self._best_first()
        n_best = max(1, len(self.y_) // 10)
        best = self._space.to_unit(self.X_[order[:n_best]])
        centres = best[rng.integers(len(best), size=n_points)]
        # distances from 1e-4 to 0.2, in a half of the inputs
        scales = 10.0 ** rng.uniform(-4.0, -0.7, (n_points, 1))
        steps = scales * rng.standard_normal(centres.shape)
        is_moved = rng.random(centres.shape) < 0.5
        points = np.clip(centres + is_moved * steps, 0.0, 1.0)
        if np.any(self._space.is_choice):
            # choices are drawn again: no small step changes them
            is_drawn = self._space.is_choice & (rng.random(centres.shape) < 0.2)
            points = np.where(is_drawn, rng.random(centres.shape), points)
        return points

    def _best_first(self) -> Index:
        """Rows that succeeded: the best, those of the front, or the most feasible."""
        is_measured = self._is_measured()
        values = self._signs() * self._objectives_so_far()
        is_feasible = self._is_feasible() & is_measured
        # the largest violation, in units of its constraint
        violations = np.zeros(len(values))
        if self.constraints_.shape[1]:
            units = np.nanstd(self.constraints_, axis=0)
            scaled = self.constraints_ / np.where(units > 0.0, units, 1.0)
            violations = np.maximum(scaled.max(axis=1), 0.0)
        violations = np.where(is_feasible, 0.0, violations)
        if values.shape[1] == 1:
            score = values[:, 0]
        else:
            score = np.ones(len(values))
            rows = np.flatnonzero(is_feasible if np.any(is_feasible) else is_measured)
            score[rows[is_efficient(values[rows])]] = 0.0
        order = np.lexsort((score, violations))
        return order[is_measured[order]]

    def _untried(
        self,
        X: Array,
        functions: FunctionDraws | None,
        rng: np.random.Generator,
        earlier: Array | None = None,
    ) -> Array:
        """Inputs of which tried ones are replaced by the best untried ones of a mesh.

        So are those that are not allowed. Noisy functions may be tried again.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        functions : FunctionDraws or None
            That are smallest at these inputs; None for those of the design.
        rng : numpy.random.Generator
        earlier : ndarray of shape (k, d), default=None
            Proposals of the same batch.
        """
        space = self._space
        if earlier is None:
            earlier = X[:0]
        X = X.copy()
        mesh = None
        if space.has_levels and not self._is_noisy():
            mesh = self._mesh(rng)
        for i, proposal in enumerate(X):
            tried = np.vstack((self.X_, self._proposed, earlier, X[:i]))
            is_repeated = _is_among(X[[i]], tried)[0] and not self._is_noisy()
            if space.is_allowed(proposal[np.newaxis])[0] and not is_repeated:
                continue
            if mesh is None:
                mesh = self._mesh(rng)
            untried = mesh[~_is_among(mesh, tried)]
            if not len(untried):  # all levels have been tried
                continue
            best = 0
            if functions is not None:
                values = functions[i](space.to_unit(untried))[:, 0]
                best = int(np.argmin(values))
            X[i] = untried[best]
        return X

    def _mesh(self, rng: np.random.Generator) -> Array:
        """Allowed rows (k, d), all of them if they are few, in a random order."""
        space = self._space
        mesh = space.all_rows(max(self.n_mesh, N_ROWS))
        if mesh is None:
            mesh = space.from_design(rng.random((self.n_mesh, len(space))))
        mesh = space.as_experiments(mesh)
        mesh = rng.permutation(np.unique(mesh, axis=0))
        mesh = mesh[space.is_allowed(mesh)]
        if not len(mesh):
            return space.net(1, rng)
        return mesh

    # ---- Models ----------------------------------------------------------------------

    def _fit_samplers(self) -> list[DecoupledSampler]:
        """Models of all that was measured, with hyperparameters fitted again if due."""
        if self._samplers and self._n_tells_at_fit == self._n_tells:
            return self._samplers
        n_models = self._measured().shape[1]
        previous: list[Any] = [*self._samplers, *[None] * n_models]
        refit_every = self.refit_every
        if isinstance(refit_every, str):
            refit_every = max(1, len(self.y_) // 100)
        n_tells_since = self._n_tells - self._n_tells_at_refit
        is_due = refit_every is not None and (
            len(self._samplers) < n_models or n_tells_since >= refit_every
        )
        if is_due:
            self._n_tells_at_refit = self._n_tells
            self.likelihood_ = self._on_scale()
        measured = self._measured().T
        samplers = []
        for values, model in zip(measured, previous, strict=False):
            sampler: DecoupledSampler = clone(self.sampler or self._default_sampler())
            if sampler.prior == "grid" and sampler.domain is None:
                unit_box = np.tile([0.0, 1.0], (len(self._space.box), 1))
                sampler.set_params(domain=unit_box)
            if not is_due:
                _keep_hyperparameters(sampler, model)
            samplers.append(self._fitted(sampler, values))
        self._n_tells_at_fit = self._n_tells
        self._samplers = samplers
        return samplers

    def _on_scale(self) -> Likelihood:
        """Normal noise of y, or of the function of y under which it is more probable.

        Of one objective under the default model.
        """
        rows = np.flatnonzero(self._is_measured())
        is_default = self.sampler is None and self._space.fidelity is None
        if not is_default or self.y_.ndim > 1 or not len(rows):
            return Gaussian()
        y = self.y_[rows]
        points = self._space.to_unit(self.X_[rows])
        weights = np.ones(len(rows))
        learned = learn_scale(
            Rows(points, y, weights),
            Gaussian(),
            np.random.default_rng(self._seed),
            kernel=None,
            rough=True,
            fewest=_FEWEST_OF_SCALE,
        )
        return learned.prepare(y, weights)

    def _default_sampler(self) -> DecoupledSampler:
        """Model where the user gave none."""
        if self._space.fidelity is None:
            return DecoupledSampler(hyperparameters="maximise")
        coordinate = self._space.fidelity_coordinate
        return fidelity_model(len(self._space.box), coordinate)

    def _fitted(self, sampler: DecoupledSampler, values: Array) -> DecoupledSampler:
        """The model, fitted to the values (n,) that are not NaN on the unit box."""
        if sampler.random_state is None:
            # a search draws random numbers
            sampler.set_params(random_state=self._seed % 2**31)
        rows = ~np.isnan(values)
        with warnings.catch_warnings():
            # with few rows a hyperparameter often ends at a bound
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self.sampler is None:
                warnings.simplefilter("ignore", FitWarning)
            return sampler.fit(self._space.to_unit(self.X_[rows]), values[rows])


class _Levels:
    """Points of the unit box, moved to the levels of the inputs.

    Derivatives in inputs with levels are zero: a search does not move them.
    """

    def __init__(self, space: Space):
        self.space = space

    def __call__(self, points: Array) -> Array:
        return self.space.to_unit(self.space.from_unit(points))

    def with_pullback(self, points: Array) -> tuple[Array, Callable[[Array], Array]]:
        is_continuous = self.space.is_continuous
        return self(points), lambda gradient: gradient * is_continuous


def _conditionable(sampler: DecoupledSampler) -> Any:
    """Posterior of a model, as one that can be conditioned; None if it cannot."""
    posterior: Any = sampler.posterior_
    if posterior is None:
        posterior = getattr(sampler.estimator_, "posterior_", None)
    if isinstance(posterior, LatentModel):
        # particles can be conditioned one by one
        posterior = MixtureModel.of_particles(posterior)
    if hasattr(posterior, "condition"):
        return posterior
    return None


def _compressed(violations: Array) -> Array:
    """Constraints (n, k) on a scale that is logarithmic far from zero, SCBO's bilog.

    Only their sign matters, and large violations would make the model blind to it.
    Labels, of 0 and 1, become -1 and 1.
    """
    columns = []
    for values in violations.T:
        measured = values[np.isfinite(values)]
        if np.all((measured == 0.0) | (measured == 1.0)):
            columns.append(2.0 * values - 1.0)
            continue
        scaled = values / (np.median(np.abs(measured)) or 1.0)
        columns.append(np.sign(scaled) * np.log1p(np.abs(scaled)))
    return np.reshape(columns, (len(columns), len(violations))).T


def _checked_maximize(maximize: Any) -> bool | tuple[bool, ...]:
    """One truth value, or one for each objective."""
    values = np.asarray(maximize)
    if values.ndim == 0 and values.dtype == bool:
        return bool(maximize)
    if values.ndim != 1 or values.dtype != bool or not len(values):
        raise ValueError(
            f"maximize must be a bool, or one for each objective; got {maximize!r}."
        )
    return tuple(values.tolist())


def _checked_values(
    name: str,
    values: ArrayLike,
    shape: tuple[int | None, ...],
    may_be_missing: Mask,
) -> Array:
    """Finite numbers, NaN where a row may have none."""
    check_unmasked(**{name: values})
    array = np.asarray(values, dtype=np.float64)
    is_missing = np.isnan(array)
    check_points(name, np.where(is_missing, 0.0, array), shape)
    is_wrong = is_missing.reshape(len(array), -1).any(axis=1) & ~may_be_missing
    if np.any(is_wrong):
        raise ValueError(
            f"{name} must be finite where y is; got NaN in row "
            f"{np.flatnonzero(is_wrong)[0]}."
        )
    return array


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {value!r}.")


def _is_among(X: Array, tried: Array) -> Mask:
    """Whether each row of X (n, d) is among the rows tried (k, d)."""
    keys = {row.tobytes() for row in tried + 0.0}
    return np.array([row.tobytes() in keys for row in X + 0.0], dtype=bool)


def _keep_hyperparameters(
    sampler: DecoupledSampler,
    previous: DecoupledSampler | None,
) -> None:
    """Fix hyperparameters at the values of the previous fit, or of the given kernel."""
    regressor = sampler.estimator
    if previous is not None:
        regressor = previous.estimator_
    # within a search, or within the replacement for many rows
    regressor = getattr(regressor, "estimator", regressor)
    if not isinstance(regressor, GaussianProcessRegressor):
        return
    kernel = regressor.kernel
    if previous is not None:
        kernel = previous.kernel_
    fixed = clone(regressor).set_params(kernel=kernel, optimizer=None)
    sampler.set_params(estimator=fixed)
