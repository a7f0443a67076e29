"""Proposals of Optuna, ProcessOptimizer and HEBO, with their defaults.

Each function returns the next n inputs (n, d) of a minimisation in a box, given trials
X (k, d) and y (k,), as `benchmarks.peers.bayesian_optimisation.propose` does in the
unit box. What is not installed is an ImportError of the call.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray

Array = NDArray[np.float64]


def study_proposals(
    sampler: optuna.samplers.BaseSampler,
    X: Array,
    y: Array,
    n: int,
    box: Array,
) -> Array:
    """Trials that a study with this sampler would ask for."""
    space: dict[str, optuna.distributions.BaseDistribution] = {
        f"x{k:02}": optuna.distributions.FloatDistribution(low, high)
        for k, (low, high) in enumerate(box)
    }
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler)
    for row, value in zip(X, y, strict=True):
        params = dict(zip(space, row.tolist(), strict=True))
        trial = optuna.trial.create_trial(
            params=params, distributions=space, value=float(value)
        )
        study.add_trial(trial)
    trials = [study.ask(space) for _ in range(n)]
    return np.array([[trial.params[name] for name in space] for trial in trials])


def gp_sampler(
    X: Array, y: Array, n: int, box: Array, is_noisy: bool, seed: int
) -> Array:
    """Optuna's Gaussian processes and log expected improvement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=1, deterministic_objective=not is_noisy
        )
        return study_proposals(sampler, X, y, n, box)


def tpe(X: Array, y: Array, n: int, box: Array, is_noisy: bool, seed: int) -> Array:
    """Optuna's default, with parameters together."""
    del is_noisy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=1, multivariate=True
        )
        return study_proposals(sampler, X, y, n, box)


def process_optimizer(
    X: Array, y: Array, n: int, box: Array, is_noisy: bool, seed: int
) -> Array:
    """The successor of scikit-optimize: a process with learned noise, and EI."""
    del is_noisy
    ProcessOptimizer: Any = import_module("ProcessOptimizer")
    dimensions = [(float(low), float(high)) for low, high in box]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = ProcessOptimizer.Optimizer(
            dimensions, n_initial_points=1, random_state=seed
        )
        optimizer.tell(X.tolist(), y.tolist())
        proposals = optimizer.ask() if n == 1 else optimizer.ask(n)
    return np.atleast_2d(np.array(proposals, dtype=np.float64))


def hebo(X: Array, y: Array, n: int, box: Array, is_noisy: bool, seed: int) -> Array:
    """Warped inputs and values, and a front of three acquisitions."""
    del is_noisy
    spaces: Any = import_module("hebo.design_space.design_space")
    optimizers: Any = import_module("hebo.optimizers.hebo")
    pandas: Any = import_module("pandas")
    torch: Any = import_module("torch")
    names = [f"x{k:02}" for k in range(len(box))]
    parameters = [
        {"name": name, "type": "num", "lb": float(low), "ub": float(high)}
        for name, (low, high) in zip(names, box, strict=True)
    ]
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = spaces.DesignSpace().parse(parameters)
        optimizer = optimizers.HEBO(space, rand_sample=2, scramble_seed=seed)
        optimizer.observe(pandas.DataFrame(X, columns=names), y[:, np.newaxis])
        proposals: Array = optimizer.suggest(n)[names].to_numpy(dtype=np.float64)
    return proposals
