"""Constraints, several objectives and hyperparameters, in studies of Optuna.

    python -m benchmarks.bench_decisions [--problems gardner ...] [--methods ...]
                                         [--seeds 10]

Every method is a sampler of Optuna, and starts with the same random trials, 2 (d + 1)
of them. The score is the best feasible value, less the best known one; the share of the
largest hypervolume that is missing; or one less the cross-validated accuracy, for
boosting the error in standard deviations of y. The table has the quartiles over the
seeds and the median seconds of all proposals of a run, on one thread.

Two-fidelity functions are optimised by ThompsonSampler with and without the cheap
fidelity, at the same cost.

Runs are lines of `--runs`, a file that is continued; `--report` makes the table of it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.bench_optimisation import (
    CENTRES_6,
    CURVATURES_6,
    DEPTHS,
    branin,
    hartmann,
    read,
)
from benchmarks.report import RESULTS, progress, report
from skgpx.integrations.optuna import Sampler
from skgpx.thompson import ThompsonSampler

Array = NDArray[np.float64]
Space = dict[str, optuna.distributions.BaseDistribution]


class Result(NamedTuple):
    """What a trial shows."""

    values: tuple[float, ...]
    constraints: tuple[float, ...] = ()


class Problem(NamedTuple):
    """A problem to minimise."""

    evaluate: Callable[..., Result]
    space: Space
    n_trials: int
    # best known value, or reference point and largest hypervolume
    best: float = 0.0
    reference: tuple[float, ...] = ()


def box(*bounds: tuple[float, float]) -> Space:
    """Floats x0, x1, ..."""
    return {
        f"x{k}": optuna.distributions.FloatDistribution(*pair)
        for k, pair in enumerate(bounds)
    }


# ---- Constraints ---------------------------------------------------------------------


def gardner(x0: float, x1: float) -> Result:
    """Gardner et al. 2014, the first simulation."""
    value = np.cos(2.0 * x0) * np.cos(x1) + np.sin(x0)
    return Result((value,), (np.cos(x0 + x1) - 0.5,))


def constrained_hartmann(**x: float) -> Result:
    """Six inputs whose sum is at most 2.2; at the optimum it is 2.07."""
    point = np.array([list(x.values())])
    return Result((float(hartmann(point)[0]),), (float(point.sum()) - 2.2,))


def welded_beam(x0: float, x1: float, x2: float, x3: float) -> Result:
    """Thickness and length of a weld, height and width of the beam."""
    h, length, t, b = x0, x1, x2, x3
    load, arm, young, shear = 6000.0, 14.0, 30e6, 12e6
    cost = 1.10471 * h**2 * length + 0.04811 * t * b * (arm + length)
    primary = load / (np.sqrt(2.0) * h * length)
    moment = load * (arm + length / 2.0)
    radius = np.sqrt(length**2 / 4.0 + ((h + t) / 2.0) ** 2)
    polar = 2.0 * np.sqrt(2.0) * h * length
    polar *= length**2 / 12.0 + ((h + t) / 2.0) ** 2
    torsion = moment * radius / polar
    stress = np.sqrt(primary**2 + primary * torsion * length / radius + torsion**2)
    bending = 6.0 * load * arm / (b * t**2)
    deflection = 4.0 * load * arm**3 / (young * t**3 * b)
    buckling = 4.013 * young * np.sqrt(t**2 * b**6 / 36.0) / arm**2
    buckling *= 1.0 - t / (2.0 * arm) * np.sqrt(young / (4.0 * shear))
    return Result(
        (cost,),
        (
            stress - 13_600.0,
            bending - 30_000.0,
            h - b,
            deflection - 0.25,
            load - buckling,
        ),
    )


def speed_reducer(
    x0: float, x1: float, x2: float, x3: float, x4: float, x5: float, x6: float
) -> Result:
    """A gear box; eleven constraints."""
    weight = 0.7854 * x0 * x1**2 * (3.3333 * x2**2 + 14.9334 * x2 - 43.0934)
    weight -= 1.508 * x0 * (x5**2 + x6**2)
    weight += 7.4777 * (x5**3 + x6**3) + 0.7854 * (x3 * x5**2 + x4 * x6**2)
    return Result(
        (weight,),
        (
            27.0 / (x0 * x1**2 * x2) - 1.0,
            397.5 / (x0 * x1**2 * x2**2) - 1.0,
            1.93 * x3**3 / (x1 * x2 * x5**4) - 1.0,
            1.93 * x4**3 / (x1 * x2 * x6**4) - 1.0,
            np.sqrt((745.0 * x3 / (x1 * x2)) ** 2 + 16.9e6) / (110.0 * x5**3) - 1.0,
            np.sqrt((745.0 * x4 / (x1 * x2)) ** 2 + 157.5e6) / (85.0 * x6**3) - 1.0,
            x1 * x2 / 40.0 - 1.0,
            5.0 * x1 / x0 - 1.0,
            x0 / (12.0 * x1) - 1.0,
            (1.5 * x5 + 1.9) / x3 - 1.0,
            (1.1 * x6 + 1.9) / x4 - 1.0,
        ),
    )


# ---- Several objectives --------------------------------------------------------------


def zdt1(**x: float) -> Result:
    """A convex front."""
    first, *others = x.values()
    g = 1.0 + 9.0 * np.mean(others)
    return Result((first, g * (1.0 - np.sqrt(first / g))))


def dtlz2(**x: float) -> Result:
    """A quarter of a circle."""
    first, *others = x.values()
    g = 1.0 + np.sum((np.array(others) - 0.5) ** 2)
    angle = 0.5 * np.pi * first
    return Result((g * np.cos(angle), g * np.sin(angle)))


def vehicle_safety(x0: float, x1: float, x2: float, x3: float, x4: float) -> Result:
    """Mass, acceleration and intrusion in a crash; Tanabe and Ishibuchi 2020."""
    mass = 1640.2823 + 2.3573285 * x0 + 2.3220035 * x1 + 4.5688768 * x2
    mass += 7.7213633 * x3 + 4.4559504 * x4
    acceleration = 6.5856 + 1.15 * x0 - 1.0427 * x1 + 0.9738 * x2 + 0.8364 * x3
    acceleration += -0.3695 * x0 * x3 + 0.0861 * x0 * x4 + 0.3628 * x1 * x3
    acceleration += -0.1106 * x0**2 - 0.3437 * x2**2 + 0.1764 * x3**2
    intrusion = -0.0551 + 0.0181 * x0 + 0.1024 * x1 + 0.0421 * x2 - 0.0073 * x0 * x1
    intrusion += 0.0240 * x1 * x2 - 0.0118 * x1 * x3 - 0.0204 * x2 * x3
    intrusion += -0.008 * x2 * x4 - 0.0241 * x1**2 + 0.0109 * x3**2
    return Result((mass, acceleration, intrusion))


# ---- Hyperparameters -----------------------------------------------------------------


def support_vectors(load: Callable[..., Any]) -> Callable[..., Result]:
    """Error of a support vector machine, ten folds."""
    X, y = load(return_X_y=True)

    def evaluate(C: float, gamma: float, kernel: str) -> Result:
        model = make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma, kernel=kernel))
        return Result((1.0 - float(cross_val_score(model, X, y, cv=10).mean()),))

    return evaluate


def boosting() -> Callable[..., Result]:
    """Error of boosted trees on diabetes, five folds, in standard deviations of y."""
    X, y = load_diabetes(return_X_y=True)

    def evaluate(**options: Any) -> Result:
        model = HistGradientBoostingRegressor(random_state=0, max_iter=60, **options)
        scores = cross_val_score(model, X, y, scoring="neg_mean_squared_error")
        return Result((float(np.sqrt(-scores.mean()) / y.std()),))

    return evaluate


FLOAT = optuna.distributions.FloatDistribution
INTEGER = optuna.distributions.IntDistribution
SVM_SPACE: Space = {
    "C": FLOAT(1e-3, 1e4, log=True),
    "gamma": FLOAT(1e-5, 1e1, log=True),
    "kernel": optuna.distributions.CategoricalDistribution(["rbf", "sigmoid"]),
}
BOOSTING_SPACE: Space = {
    "learning_rate": FLOAT(1e-3, 1.0, log=True),
    "max_leaf_nodes": INTEGER(2, 64, log=True),
    "min_samples_leaf": INTEGER(1, 100, log=True),
    "l2_regularization": FLOAT(1e-3, 1e3, log=True),
    "max_features": FLOAT(0.1, 1.0),
}
UNIT = (0.0, 1.0)
PROBLEMS = {
    "gardner": Problem(gardner, box((0.0, 6.0), (0.0, 6.0)), 25, -2.0),
    "hartmann 6, a constraint": Problem(
        constrained_hartmann, box(*[UNIT] * 6), 40, -3.32237
    ),
    "welded beam": Problem(
        welded_beam, box((0.1, 10.0), (0.1, 10.0), (0.1, 10.0), (0.1, 10.0)), 40, 1.7
    ),
    "speed reducer": Problem(
        speed_reducer,
        box(
            (2.6, 3.6),
            (0.7, 0.8),
            (17.0, 28.0),
            (7.3, 8.3),
            (7.3, 8.3),
            (2.9, 3.9),
            (5.0, 5.5),
        ),
        40,
        2994.4,
    ),
    "ZDT1, four inputs": Problem(
        zdt1, box(*[UNIT] * 4), 30, 4.0 * 4.0 - 1.0 / 3.0 - 0.0, (4.0, 4.0)
    ),
    "DTLZ2, six inputs": Problem(
        dtlz2, box(*[UNIT] * 6), 40, 1.21 - 0.25 * np.pi, (1.1, 1.1)
    ),
    "vehicle safety": Problem(
        vehicle_safety,
        box(*[(1.0, 3.0)] * 5),
        30,
        246.81,
        (1864.72022, 11.81993945, 0.2903999384),
    ),
    "SVM, breast cancer": Problem(support_vectors(load_breast_cancer), SVM_SPACE, 25),
    "SVM, wine": Problem(support_vectors(load_wine), SVM_SPACE, 25),
    "boosting, diabetes": Problem(boosting(), BOOSTING_SPACE, 30),
}


# ---- Methods -------------------------------------------------------------------------


def ours(problem: Problem, seed: int, n_startup: int) -> Any:
    """Sampler of this library."""
    del problem
    return Sampler(seed=seed, n_startup_trials=n_startup)


def ours_told(problem: Problem, seed: int, n_startup: int) -> Any:
    """Sampler of this library, which is told the reference point of the score."""
    reference = problem.reference or None
    return Sampler(seed=seed, n_startup_trials=n_startup, reference=reference)


def tpe(problem: Problem, seed: int, n_startup: int) -> Any:
    """Optuna's default."""
    del problem
    return optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=n_startup, multivariate=True
    )


def genetic(problem: Problem, seed: int, n_startup: int) -> Any:
    """NSGA-II."""
    del problem
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=n_startup)


def random(problem: Problem, seed: int, n_startup: int) -> Any:
    """Independent trials."""
    del problem, n_startup
    return optuna.samplers.RandomSampler(seed=seed)


def processes(problem: Problem, seed: int, n_startup: int) -> Any:
    """Optuna's Gaussian processes, which know that values have no noise."""
    del problem
    return optuna.samplers.GPSampler(
        seed=seed, n_startup_trials=n_startup, deterministic_objective=True
    )


def botorch(problem: Problem, seed: int, n_startup: int) -> Any:
    """QLogNEI and qLogNEHVI, which is told the reference point of the score."""
    from benchmarks.peers.bayesian_optimisation import StudySampler

    del n_startup
    return StudySampler(problem.reference, seed)


METHODS = {
    "skgpx": ours,
    "skgpx, reference": ours_told,
    "TPE": tpe,
    "NSGA-II": genetic,
    "random": random,
    "GPSampler": processes,
    "BoTorch": botorch,
}
# Those of Optuna itself; the others need PyTorch or are variants.
DEFAULT_METHODS = ["skgpx", "TPE", "NSGA-II", "random"]


def run(problem: Problem, method: Callable[..., Any], seed: int) -> tuple[float, float]:
    """Score and seconds of one run."""
    n_startup = 2 * (len(problem.space) + 1)
    sampler = method(problem, seed, n_startup)
    design = optuna.samplers.RandomSampler(seed=seed)
    directions = ["minimize"] * max(1, len(problem.reference))
    study = optuna.create_study(directions=directions, sampler=design)
    seconds = 0.0
    for number in range(problem.n_trials):
        if number == n_startup:
            study.sampler = sampler
        start = time.process_time()
        trial = study.ask(problem.space)
        seconds += time.process_time() - start
        result = problem.evaluate(**trial.params)
        for k, violation in enumerate(result.constraints):
            trial.set_constraint(f"c{k:02}", float(violation))
        study.tell(trial, [float(value) for value in result.values])
    return score(problem, study), seconds


def score(problem: Problem, study: optuna.Study) -> float:
    """Regret of the best feasible trial, or the share of the volume that is missing."""
    values = np.array(
        [
            trial.values
            for trial in study.trials
            if all(violation <= 0.0 for violation in trial.constraints.values())
        ]
    )
    if not len(values):
        return np.inf
    if not problem.reference:
        return float(values.min() - problem.best)
    front = ThompsonSampler([[0.0, 1.0]], noisy=False)
    front.tell(np.zeros((len(values), 1)), values)
    return 1.0 - front.hypervolume(problem.reference) / problem.best


# ---- Two fidelities ------------------------------------------------------------------


def low_branin(X: Array) -> Array:
    """Shifted and tilted, as Perdikaris et al. 2017 have it."""
    a, b = X.T
    valley = 10.0 * np.sqrt(np.maximum(branin(X - 2.0), 0.0))
    return (valley + 2.0 * (a - 0.5) - 3.0 * (3.0 * b - 1.0) - 1.0) / 10.0


def low_hartmann(X: Array) -> Array:
    """With depths that are a tenth too small."""
    squares = (X[:, np.newaxis] - CENTRES_6) ** 2
    return -np.exp(-np.sum(CURVATURES_6 * squares, axis=2)) @ (DEPTHS - 0.1)


FIDELITIES = {
    "Branin, two fidelities": (branin, low_branin, [(-5.0, 10.0), (0.0, 15.0)], 20.0),
    "Hartmann 6, two fidelities": (hartmann, low_hartmann, [UNIT] * 6, 40.0),
}
MINIMA = {"Branin, two fidelities": 0.397887, "Hartmann 6, two fidelities": -3.32237}


def run_fidelities(name: str, method: str, seed: int) -> tuple[float, float]:
    """Regret and seconds at a cost; an approximation costs a tenth."""
    high, low, bounds, budget = FIDELITIES[name]
    d = len(bounds)
    if method == "skgpx":
        optimizer = ThompsonSampler(
            [*bounds, UNIT],
            steps=[*[0.0] * d, 1.0],
            fidelity=d,
            n_initial=4 * d,
            random_state=seed,
        )
    else:
        optimizer = ThompsonSampler(bounds, random_state=seed)
    spent = 0.0
    seconds = 0.0
    while spent < budget:
        start = time.process_time()
        X = optimizer.ask()
        seconds += time.process_time() - start
        is_low = X.shape[1] > d and X[0, -1] == 0.0
        cost = 0.1 if is_low else 1.0
        y = low(X[:, :d]) if is_low else high(X[:, :d])
        optimizer.tell(X, y, cost=[cost] if method == "skgpx" else None)
        spent += cost
    return float(optimizer.best_y_ - MINIMA[name]), seconds


# ---- Runs ----------------------------------------------------------------------------


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Quartiles of the scores of each method, and its seconds."""
    table = []
    for problem in dict.fromkeys(row["problem"] for row in runs):
        for method in dict.fromkeys(row["method"] for row in runs):
            chosen = [
                row
                for row in runs
                if row["problem"] == problem and row["method"] == method
            ]
            if not chosen:
                continue
            scores = [row["score"] for row in chosen]
            lower, median, upper = np.quantile(
                scores, (0.25, 0.5, 0.75), method="lower"
            )
            table.append(
                {
                    "problem": problem,
                    "method": method,
                    "seeds": len(chosen),
                    "lower quartile": float(lower),
                    "median": float(median),
                    "upper quartile": float(upper),
                    "seconds": float(np.median([row["seconds"] for row in chosen])),
                }
            )
    return table


def main() -> None:
    """Run what the file of runs does not hold, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", default=[*PROBLEMS, *FIDELITIES], metavar="NAME"
    )
    parser.add_argument("--methods", nargs="+", default=DEFAULT_METHODS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=RESULTS / "decision_runs.txt")
    parser.add_argument("--report", action="store_true", help="only the table")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    known = {(r["problem"], r["method"], r["seed"]) for r in read(options.runs)}
    options.runs.parent.mkdir(exist_ok=True)
    with threadpool_limits(1):
        for seed in range(0 if options.report else options.seeds):
            for name in options.problems:
                methods = options.methods
                if name in FIDELITIES:
                    methods = ["skgpx", "skgpx, one fidelity"]
                for method in methods:
                    if (name, method, seed) in known:
                        continue
                    if name in FIDELITIES:
                        found, seconds = run_fidelities(name, method, seed)
                    else:
                        found, seconds = run(PROBLEMS[name], METHODS[method], seed)
                    row = {
                        "problem": name,
                        "method": method,
                        "seed": seed,
                        "score": found,
                        "seconds": seconds,
                    }
                    progress(row)
                    with options.runs.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    report("decisions", summary(read(options.runs)), {"threads": 1})


if __name__ == "__main__":
    main()
