"""Bayesian optimisation of nine functions beside five libraries and a Sobol sequence.

    python -m benchmarks.bench_optimisation [--functions branin ...] [--methods ...]
                                            [--seeds 10] [--batch 1]

Every method has the same initial points, those of ThompsonSampler: 2 (d + 1) of a
scrambled Sobol sequence, and may evaluate a function thirty times (Forrester twenty).
The sums of functions of few of 20 and 40 inputs, which are run where `--functions`
names them, have 100 and 140 evaluations, in batches of two for the stored figures.
The regret is the value without noise at the input that the method recommends, less the
smallest value: with noise the evaluated input of the smallest posterior mean (BoTorch's
process has it for the libraries that recommend an observation), otherwise the best one
(Sobol: the best observation). The table holds the quartiles over the seeds and the
median CPU seconds of all proposals of a run, on one thread.

Runs are lines of `--runs`, a file that is continued; `--report` makes the table of it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc
from threadpoolctl import threadpool_limits

from benchmarks.report import RESULTS, progress, report
from skgpx import DecoupledSampler
from skgpx.thompson import ThompsonSampler

Array = NDArray[np.float64]


# ---- Functions -----------------------------------------------------------------------


class Problem(NamedTuple):
    """A function to minimise in a box."""

    function: Callable[[Array], Array]
    bounds: list[tuple[float, float]]
    minimum: float
    noise: float = 0.0
    step: float = 0.0
    n_evaluations: int = 30


def forrester(X: Array) -> Array:
    """One input, a local minimum beside the global one."""
    x = X[:, 0]
    return (6.0 * x - 2.0) ** 2 * np.sin(12.0 * x - 4.0)


def branin(X: Array) -> Array:
    """Two inputs, three global minima."""
    a, b = X.T
    valley = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


def levy(X: Array) -> Array:
    """Any number of inputs, many local minima."""
    w = 1.0 + (X - 1.0) / 4.0
    first = np.sin(np.pi * w[:, 0]) ** 2
    inner = (w[:, :-1] - 1.0) ** 2
    inner = inner * (1.0 + 10.0 * np.sin(np.pi * w[:, :-1] + 1.0) ** 2)
    last = (w[:, -1] - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * w[:, -1]) ** 2)
    return first + inner.sum(axis=1) + last


def rosenbrock(X: Array) -> Array:
    """A curved valley."""
    steps = 100.0 * (X[:, 1:] - X[:, :-1] ** 2) ** 2
    return np.sum(steps + (1.0 - X[:, :-1]) ** 2, axis=1)


def ackley(X: Array) -> Array:
    """A funnel with many local minima."""
    radius = np.sqrt(np.mean(X**2, axis=1))
    waves = np.mean(np.cos(2.0 * np.pi * X), axis=1)
    return -20.0 * np.exp(-0.2 * radius) - np.exp(waves) + 20.0 + np.e


def styblinski_tang(X: Array) -> Array:
    """A sum over the inputs, with 2^d local minima."""
    return 0.5 * np.sum(X**4 - 16.0 * X**2 + 5.0 * X, axis=1)


DEPTHS = np.array([1.0, 1.2, 3.0, 3.2])
CENTRES_3 = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
CURVATURES_3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
CENTRES_6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
CURVATURES_6 = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)


def branin_pairs(X: Array) -> Array:
    """A sum of Branin's function over pairs of inputs."""
    pairs = [branin(X[:, k : k + 2]) for k in range(0, X.shape[1], 2)]
    return np.sum(pairs, axis=0)


def hartmann(X: Array) -> Array:
    """Three or six inputs, four wells."""
    centres, curvatures = CENTRES_6, CURVATURES_6
    if X.shape[1] == 3:
        centres, curvatures = CENTRES_3, CURVATURES_3
    squares = (X[:, np.newaxis] - centres) ** 2
    return -np.exp(-np.sum(curvatures * squares, axis=2)) @ DEPTHS


PROBLEMS = {
    "forrester": Problem(forrester, [(0.0, 1.0)], -6.020740, n_evaluations=20),
    "branin": Problem(branin, [(-5.0, 10.0), (0.0, 15.0)], 0.397887),
    "hartmann 6": Problem(hartmann, [(0.0, 1.0)] * 6, -3.322370),
    "levy 4": Problem(levy, [(-10.0, 10.0)] * 4, 0.0),
    "noisy levy 2": Problem(levy, [(-10.0, 10.0)] * 2, 0.0, noise=0.5),
    "integer styblinski 4": Problem(
        styblinski_tang, [(-5.0, 5.0)] * 4, -156.0, step=1.0
    ),
    "ackley 5": Problem(ackley, [(-5.0, 10.0)] * 5, 0.0),
    "rosenbrock 4": Problem(rosenbrock, [(-2.048, 2.048)] * 4, 0.0),
    "noisy hartmann 3": Problem(hartmann, [(0.0, 1.0)] * 3, -3.862780, noise=0.1),
}
# Of many inputs, of which one or two at a time interact.
SUMS = {
    "styblinski 20": Problem(
        styblinski_tang, [(-5.0, 5.0)] * 20, -783.323314, n_evaluations=100
    ),
    "levy 20": Problem(levy, [(-10.0, 10.0)] * 20, 0.0, n_evaluations=100),
    "branin pairs 20": Problem(
        branin_pairs, [(-5.0, 10.0), (0.0, 15.0)] * 10, 3.97887, n_evaluations=100
    ),
    "branin pairs 40": Problem(
        branin_pairs, [(-5.0, 10.0), (0.0, 15.0)] * 20, 7.95775, n_evaluations=140
    ),
}


# ---- Methods: proposals given the trials, and the row that they recommend ------------


class Method:
    """A space-filling sequence, and what the other methods share."""

    def __init__(self, problem: Problem, seed: int):
        self.problem = problem
        self.seed = seed
        self.box = np.array(problem.bounds)
        self.steps = np.full(len(self.box), problem.step)

    def ask(self, X: Array, y: Array, n: int) -> Array:
        """Propose n inputs given trials."""
        del y
        points = qmc.Sobol(len(self.box), seed=self.seed).random(256)
        return self._on_levels(self._to_box(points[len(X) : len(X) + n]))

    def best_row(self, X: Array, y: Array) -> int:
        """Return the recommended row of X."""
        del X
        return int(np.argmin(y))

    def _to_box(self, points: Array) -> Array:
        low, high = self.box.T
        return low + points * (high - low)

    def _to_unit(self, X: Array) -> Array:
        low, high = self.box.T
        return (X - low) / (high - low)

    def _on_levels(self, X: Array) -> Array:
        step = self.problem.step
        if step:
            low = self.box[:, 0]
            X = low + step * np.round((X - low) / step)
        return X


class BoTorch(Method):
    """qLogEI, or with noise qLogNEI, under a SingleTaskGP."""

    def ask(self, X: Array, y: Array, n: int) -> Array:
        """Propose n inputs given trials."""
        from benchmarks.peers import bayesian_optimisation as peer

        levels = {}
        if self.problem.step:
            for column, (low, high) in enumerate(self.box):
                count = round((high - low) / self.problem.step) + 1
                levels[column] = np.linspace(0.0, 1.0, count).tolist()
        points = peer.propose(
            self._to_unit(X),
            y,
            n,
            is_noisy=self.problem.noise > 0.0,
            levels=levels,
            seed=1000 * self.seed + len(X),
        )
        return self._on_levels(self._to_box(points))

    def best_row(self, X: Array, y: Array) -> int:
        """Return the recommended row of X."""
        if not self.problem.noise:
            return super().best_row(X, y)
        from benchmarks.peers import bayesian_optimisation as peer

        return peer.best_row(self._to_unit(X), y)


class Library(BoTorch):
    """The proposals of a function of `benchmarks.peers.optimisers`."""

    def __init__(self, problem: Problem, seed: int, name: str):
        super().__init__(problem, seed)
        self.name = name

    def ask(self, X: Array, y: Array, n: int) -> Array:
        """Propose n inputs given trials."""
        from benchmarks.peers import optimisers

        points = getattr(optimisers, self.name)(
            X,
            y,
            n,
            self.box,
            is_noisy=self.problem.noise > 0.0,
            seed=1000 * self.seed + len(X),
        )
        return self._on_levels(points)


class Ours(Method):
    """ThompsonSampler with these options."""

    def __init__(self, problem: Problem, seed: int, **options: Any):
        super().__init__(problem, seed)
        self.optimizer = ThompsonSampler(
            self.box,
            steps=self.steps,
            noisy=problem.noise > 0.0,
            random_state=seed,
            **options,
        )

    def ask(self, X: Array, y: Array, n: int) -> Array:
        """Propose n inputs given trials."""
        told = len(self.optimizer.y_)
        return self.optimizer.tell(X[told:], y[told:]).ask(n)

    def best_row(self, X: Array, y: Array) -> int:
        """Return the recommended row of X."""
        told = len(self.optimizer.y_)
        best = self.optimizer.tell(X[told:], y[told:]).best_x_
        return int(np.argmin(np.abs(X - best).sum(axis=1)))


METHODS: dict[str, Callable[[Problem, int], Method]] = {
    "Sobol": Method,
    "BoTorch": BoTorch,
    "GPSampler": partial(Library, name="gp_sampler"),
    "TPE": partial(Library, name="tpe"),
    "ProcessOptimizer": partial(Library, name="process_optimizer"),
    "HEBO": partial(Library, name="hebo"),
    "skgpx": Ours,
    "skgpx, Thompson": partial(Ours, acquisition="thompson"),
    "skgpx, averaged": partial(Ours, sampler=DecoupledSampler()),
    "skgpx, Thompson, averaged": partial(
        Ours, sampler=DecoupledSampler(), acquisition="thompson"
    ),
}

# Proposals that average over hyperparameters take five to ten times as long.
DEFAULT_METHODS = ["Sobol", "BoTorch", "skgpx", "skgpx, Thompson"]


# ---- Runs ----------------------------------------------------------------------------


def run(problem: Problem, method: Method, seed: int, batch: int) -> tuple[float, float]:
    """Regret and seconds of one run."""
    d = len(problem.bounds)
    steps = np.full(d, problem.step)
    design = ThompsonSampler(problem.bounds, steps=steps, random_state=seed)
    X = design.ask(2 * (d + 1))
    rng = np.random.default_rng([seed, 7])
    noise = problem.noise * rng.standard_normal(problem.n_evaluations)
    y = problem.function(X) + noise[: len(X)]
    seconds = 0.0
    while len(X) < problem.n_evaluations:
        n = min(batch, problem.n_evaluations - len(X))
        start = time.process_time()
        new = method.ask(X, y, n)
        seconds += time.process_time() - start
        values = problem.function(new) + noise[len(X) : len(X) + n]
        X = np.concatenate((X, new))
        y = np.concatenate((y, values))
    best = method.best_row(X, y)
    regret = problem.function(X[[best]])[0] - problem.minimum
    return float(regret), seconds


def read(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a file, which need not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Quartiles of the regret of each method, and its seconds."""
    table = []
    for function, batch in dict.fromkeys((r["function"], r["batch"]) for r in runs):
        for method in dict.fromkeys(r["method"] for r in runs):
            chosen = [
                r
                for r in runs
                if (r["function"], r["batch"], r["method"]) == (function, batch, method)
            ]
            if not chosen:
                continue
            regrets = [r["regret"] for r in chosen]
            lower, median, upper = np.quantile(regrets, (0.25, 0.5, 0.75))
            table.append(
                {
                    "function": function,
                    "batch": batch,
                    "method": method,
                    "seeds": len(chosen),
                    "lower quartile": float(lower),
                    "median regret": float(median),
                    "upper quartile": float(upper),
                    "seconds": float(np.median([r["seconds"] for r in chosen])),
                }
            )
    return table


def main() -> None:
    """Run what the file of runs does not hold, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", default=DEFAULT_METHODS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=RESULTS / "optimisation_runs.txt")
    parser.add_argument("--report", action="store_true", help="only the table")
    options = parser.parse_args()
    known = {
        (r["function"], r["batch"], r["method"], r["seed"]) for r in read(options.runs)
    }
    seeds = range(options.first_seed, options.seeds)
    if options.report:
        seeds = range(0)
    options.runs.parent.mkdir(exist_ok=True)
    with threadpool_limits(1):
        for seed in seeds:
            for name in options.functions:
                for title in options.methods:
                    if (name, options.batch, title, seed) in known:
                        continue
                    problem = (PROBLEMS | SUMS)[name]
                    method = METHODS[title](problem, seed)
                    regret, seconds = run(problem, method, seed, options.batch)
                    row = {
                        "function": name,
                        "batch": options.batch,
                        "method": title,
                        "seed": seed,
                        "regret": regret,
                        "seconds": seconds,
                    }
                    progress(row)
                    with options.runs.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    settings = {"threads": 1, "evaluations": 30, "of forrester": 20}
    report("optimisation", summary(read(options.runs)), settings)


if __name__ == "__main__":
    main()
