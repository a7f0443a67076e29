"""Expected improvement as BoTorch documents it: default priors, logs, restarts.

`propose` minimises in the unit box; `StudySampler` minimises in studies of Optuna, with
constraints and several objectives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import optuna
import torch
from botorch.acquisition.logei import (
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.multi_objective.logei import (
    qLogNoisyExpectedHypervolumeImprovement,
)
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.objective import GenericMCObjective
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_mixed_alternating
from gpytorch.mlls import ExactMarginalLogLikelihood
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[..., Any]

N_RESTARTS = 10
N_RAW_SAMPLES = 512


def fit(X: Array, y: Array) -> SingleTaskGP:
    """Process of the negative values with BoTorch's default priors (Hvarfner 2024)."""
    inputs = torch.as_tensor(X)
    targets = -torch.as_tensor(y)[:, None]
    model = SingleTaskGP(inputs, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def propose(
    X: Array,
    y: Array,
    n: int,
    is_noisy: bool,
    levels: dict[int, list[float]],
    seed: int,
) -> Array:
    """The next n inputs of a minimisation in the unit box.

    Parameters
    ----------
    X : ndarray of shape (k, d)
        In the unit box.
    y : ndarray of shape (k,)
    n : int
    is_noisy : bool
        qLogNEI, which integrates over the values at X; otherwise qLogEI.
    levels : dict of list of float
        Levels of the inputs that have them, in the unit box.
    seed : int
    """
    torch.manual_seed(seed)
    model = fit(X, y)
    inputs = torch.as_tensor(X)
    if is_noisy:
        acquisition = qLogNoisyExpectedImprovement(model, inputs)
    else:
        acquisition = qLogExpectedImprovement(model, best_f=float(-y.min()))
    d = X.shape[1]
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if levels:
            candidates, _ = optimize_acqf_mixed_alternating(
                acquisition,
                bounds,
                discrete_dims=levels,
                q=n,
                raw_samples=N_RAW_SAMPLES,
                num_restarts=N_RESTARTS,
            )
        else:
            candidates, _ = optimize_acqf(
                acquisition,
                bounds,
                q=n,
                num_restarts=N_RESTARTS,
                raw_samples=N_RAW_SAMPLES,
            )
    proposals: Array = candidates.detach().numpy()
    return proposals


def best_row(X: Array, y: Array) -> int:
    """Row of the smallest posterior mean."""
    model = fit(X, y)
    with torch.no_grad():
        mean = model.posterior(torch.as_tensor(X)).mean
    return int(torch.argmax(mean))


# ---- Constraints and several objectives, as a sampler of Optuna ----------------------


def output(k: int, samples: Any, X: Any = None) -> Any:
    """Samples of the k-th function."""
    del X
    return samples[..., k]


def acquisition_of(
    model: ModelListGP,
    inputs: Any,
    n_values: int,
    reference: tuple[float, ...],
) -> Any:
    """QLogNEI, or given a reference point qLogNEHVI; constraints follow values."""
    constraints: list[Function] | None = [
        partial(output, k) for k in range(n_values, model.num_outputs)
    ]
    constraints = constraints or None
    if not reference:
        return qLogNoisyExpectedImprovement(
            model,
            inputs,
            objective=GenericMCObjective(partial(output, 0)),
            constraints=constraints,
            prune_baseline=True,
        )
    return qLogNoisyExpectedHypervolumeImprovement(
        model,
        [-bound for bound in reference],
        inputs,
        objective=IdentityMCMultiOutputObjective(outcomes=list(range(n_values))),
        constraints=constraints,
        prune_baseline=True,
    )


def propose_feasible(
    X: Array,
    values: Array,
    violations: Array,
    reference: tuple[float, ...],
    seed: int,
) -> Array:
    """The next input of a minimisation in the unit box under constraints.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        In the unit box.
    values : ndarray of shape (n, k)
    violations : ndarray of shape (n, c)
        At most zero where a row is feasible. Their models see
        ``sign(v) log(1 + |v|)``, as BoTorch's tutorial on constraints has it.
    reference : tuple of float
        Values that are just not good enough; empty with one objective.
    seed : int
    """
    torch.manual_seed(seed)
    logs = np.sign(violations) * np.log1p(np.abs(violations))
    models = [fit(X, column) for column in values.T]
    models += [fit(X, -column) for column in logs.T]
    acquisition = acquisition_of(
        ModelListGP(*models), torch.as_tensor(X), values.shape[1], reference
    )
    d = X.shape[1]
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        candidates, _ = optimize_acqf(
            acquisition,
            bounds,
            q=1,
            num_restarts=N_RESTARTS,
            raw_samples=N_RAW_SAMPLES,
        )
    proposal: Array = candidates.detach().numpy()[0]
    return proposal


class StudySampler(optuna.samplers.BaseSampler):
    """BoTorch's proposals in studies whose parameters are floats in a box.

    Parameters
    ----------
    reference : tuple of float
        Values that are just not good enough; empty with one objective.
    seed : int
    """

    def __init__(self, reference: tuple[float, ...], seed: int):
        self.reference = reference
        self.seed = seed
        self._spaces = optuna.search_space.IntersectionSearchSpace()

    def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
        """Parameters of all trials."""
        del trial
        return self._spaces.calculate(study)

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
        """One proposal."""
        trials = study.get_trials(
            deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)
        )
        names = list(search_space)
        low = np.array([search_space[name].low for name in names])
        high = np.array([search_space[name].high for name in names])
        X = np.array([[t.params[name] for name in names] for t in trials])
        values = np.array([t.values for t in trials])
        violations = np.array([list(t.constraints.values()) for t in trials])
        seed = 1000 * self.seed + trial.number
        point = propose_feasible(
            (X - low) / (high - low), values, violations, self.reference, seed
        )
        proposal = low + np.clip(point, 0.0, 1.0) * (high - low)
        return dict(zip(names, proposal.tolist(), strict=True))

    def sample_independent(self, study: Any, trial: Any, name: str, given: Any) -> Any:
        """There are no parameters beside those of all trials."""
        del study, trial, given
        raise ValueError(f"{name} is not a parameter of all trials")
