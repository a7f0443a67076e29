"""Gaussian process proposals for studies of Optuna."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sklearn.base import BaseEstimator

from skgpx._decisions import Dimension, ThompsonSampler

__all__ = ["Sampler"]

# Where studies keep what a trial's constraints were.
_CONSTRAINTS = "constraints"


class Sampler(BaseSampler):
    """Proposals of :class:`skgpx.thompson.ThompsonSampler` in a study of Optuna.

    Floats and integers, with steps or on a logarithmic scale, and categories; spaces
    that are defined while the objective runs; constraints; several directions; pruned,
    failed and running trials; and studies in any storage, since nothing is kept here.

    Parameters
    ----------
    seed : int or None, default=None
        Seed.
    n_startup_trials : int, default=10
        Trials of a scrambled Sobol design before the first model. The very first trial
        is random, as the space is not known before it.
    constraints_func : callable or None, default=None
        From a trial to a sequence of numbers, at most zero where it is feasible. Not
        needed where the objective calls ``trial.set_constraint`` (Optuna 5).
    sampler : DecoupledSampler, regressor or None, default=None
        Model, as in `ThompsonSampler`.
    acquisition : {"auto", "expected_improvement", "thompson"}, default="auto"
        What is optimised, as in `ThompsonSampler`.
    noisy : bool or "auto", default="auto"
        Whether values are noisy, as in `ThompsonSampler`.
    reference : sequence of float or None, default=None
        Values of several objectives that are just not good enough, as in
        `ThompsonSampler`. Fronts are found sooner where it is given.
    independent_sampler : optuna.samplers.BaseSampler or None, default=None
        For parameters that not all trials have; None is a random sampler.

    See Also
    --------
    skgpx.thompson.ThompsonSampler : The proposals.
    skgpx.thompson.ThompsonSearchCV : Hyperparameters by cross-validation.

    Notes
    -----
    A pruned trial counts with its last intermediate value. A trial that failed, or gave
    NaN or an infinite value, makes such parameters less probable. Running trials count
    as pending, so that workers of one study differ.

    Examples
    --------
    >>> import optuna
    >>> from skgpx.integrations.optuna import Sampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> def objective(trial):
    ...     x = trial.suggest_float("x", -5.0, 5.0)
    ...     return (x - 2.0) ** 2
    >>> study = optuna.create_study(sampler=Sampler(seed=0, n_startup_trials=4))
    >>> study.optimize(objective, n_trials=12)
    >>> bool(abs(study.best_params["x"] - 2.0) < 0.1)
    True
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        n_startup_trials: int = 10,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        sampler: BaseEstimator | None = None,
        acquisition: str = "auto",
        noisy: bool | str = "auto",
        reference: Sequence[float] | None = None,
        independent_sampler: BaseSampler | None = None,
    ):
        self.n_startup_trials = n_startup_trials
        self.constraints_func = constraints_func
        self.sampler = sampler
        self.acquisition = acquisition
        self.noisy = noisy
        self.reference = reference
        self._seed: Any = np.random.SeedSequence(seed).entropy
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._spaces = IntersectionSearchSpace()
        # wrong options are errors here, and not in the middle of a study
        self._optimizer({"x": Dimension(0.0, 1.0)}, maximize=False)

    def reseed_rng(self) -> None:
        """Take another seed, as workers must."""
        self._seed = np.random.SeedSequence().entropy
        self._independent.reseed_rng()

    def infer_relative_search_space(
        self,
        study: Study,
        trial: FrozenTrial,
    ) -> dict[str, BaseDistribution]:
        """Parameters that all finished trials have, without fixed ones."""
        del trial
        distributions = self._spaces.calculate(study)
        return {
            name: distribution
            for name, distribution in distributions.items()
            if not distribution.single()
        }

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Values of these parameters for a trial."""
        if not search_space:
            return {}
        maximize = [
            direction == StudyDirection.MAXIMIZE for direction in study.directions
        ]
        optimizer = self._optimizer(
            {name: _dimension(search_space[name]) for name in search_space},
            maximize=maximize if len(maximize) > 1 else maximize[0],
        )
        # its place in the design, and the stream of its random numbers
        optimizer._n_asked = trial.number
        trials = [
            earlier
            for earlier in study.get_trials(deepcopy=False)
            if search_space.keys() <= earlier.params.keys()
            and earlier.number != trial.number
        ]
        _tell(optimizer, trials, search_space)
        (proposal,) = optimizer.ask()
        return {
            name: float(value)
            if isinstance(search_space[name], FloatDistribution)
            else value
            for name, value in proposal.items()
        }

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Value of a parameter that not all trials have."""
        return self._independent.sample_independent(
            study,
            trial,
            param_name,
            param_distribution,
        )

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Keep the constraints of a trial in the study, where Optuna reads them."""
        if self.constraints_func is not None and state == TrialState.COMPLETE:
            constraints = tuple(float(c) for c in self.constraints_func(trial))
            if np.any(np.isnan(constraints)):
                raise ValueError(
                    f"constraints_func must return numbers; got {constraints}."
                )
            # the attribute that best_trial and other samplers read as well
            study._storage.set_trial_system_attr(
                trial._trial_id,
                _CONSTRAINTS,
                constraints,
            )
        self._independent.after_trial(study, trial, state, values)

    def _optimizer(
        self,
        space: dict[str, Dimension],
        maximize: bool | list[bool],
    ) -> ThompsonSampler:
        seed = np.random.default_rng(self._seed).integers(2**31)
        return ThompsonSampler(
            space,
            self.sampler,
            maximize=maximize,
            n_initial=self.n_startup_trials,
            acquisition=self.acquisition,
            noisy=self.noisy,
            reference=self.reference,
            random_state=int(seed),
        )


def _dimension(distribution: BaseDistribution) -> Dimension:
    """Input of a ThompsonSampler for a distribution of Optuna."""
    if isinstance(distribution, CategoricalDistribution):
        choices = tuple(distribution.choices)
        return Dimension(0.0, len(choices) - 1.0, 1.0, choices=choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return Dimension(
        float(distribution.low),
        float(distribution.high),
        float(distribution.step or 0.0),
        is_log=distribution.log,
    )


def _tell(
    optimizer: ThompsonSampler,
    trials: Sequence[FrozenTrial],
    names: Iterable[str],
) -> None:
    """Evaluations of finished trials, failures, and inputs of running ones."""
    finished = []
    values = []
    constraints = []
    running = []
    n_objectives = int(np.size(optimizer.maximize))
    for trial in trials:
        point = {name: trial.params[name] for name in names}
        if trial.state in (TrialState.RUNNING, TrialState.WAITING):
            running.append(point)
            continue
        value = _value(trial)
        if value is None:
            continue
        finished.append(point)
        values.append(np.broadcast_to(value, n_objectives))
        constraints.append(_constraints(trial))
    if finished:
        y = np.array(values)
        if n_objectives == 1:
            y = y[:, 0]
        # NaN where a trial has not the constraint of another one
        constraint_names = sorted({name for row in constraints for name in row})
        table = [
            [row.get(name, np.nan) for name in constraint_names] for row in constraints
        ]
        optimizer.tell(finished, y, constraints=table if constraint_names else None)
    if running:
        optimizer.tell(running)


def _value(trial: FrozenTrial) -> Any:
    """Values of a trial, NaN where it failed; None where nothing is known of it."""
    if trial.state == TrialState.COMPLETE:
        return trial.values if np.all(np.isfinite(trial.values)) else np.nan
    if trial.state == TrialState.FAIL:
        return np.nan
    steps = {
        step: value
        for step, value in trial.intermediate_values.items()
        if np.isfinite(value)
    }
    if not steps:
        return None
    return steps[max(steps)]


def _constraints(trial: FrozenTrial) -> dict[str, float]:
    """Constraints of a trial: of Optuna 5 by name, before as a sequence."""
    named = getattr(trial, "constraints", None)
    if not named:
        violations = trial.system_attrs.get(_CONSTRAINTS) or ()
        named = {str(k): violation for k, violation in enumerate(violations)}
    return {name: float(np.clip(named[name], -1e100, 1e100)) for name in named}
