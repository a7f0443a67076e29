"""Time from a posterior to 100 accurate particles of it, by three ways.

    python -m benchmarks.bench_accuracy [--data FOLDER] [--problems diabetes boston]

The posterior is that of an estimator with √N inducing points, hyperparameters fitted
once and fixed. Accuracy is the 2-Wasserstein distance between the Gaussian moments of
100 particles and those of the truth, in coordinates where the truth has mean 0 and
covariance I, divided by √M; the *excess* is what exceeds that of 100 independent draws.
The truth is a long run of many adjusted chains, checked by its two halves.

schedule
    the paper's scheme from u ~ N(0, I), run for a simulated time of 0.5 with the steps
    1e-3, 8.4e-5, ... 5e-8 until the energy changes by less than 1 %.
oracle
    the paper's scheme with the step, of a grid, that is accurate first. The oracle
    knows the truth; nobody else does.
ours
    mode, Hessian and adjusted chains: as few rounds as are accurate ("shortest"), and
    the default with its check of convergence.

Steps of the first two are counted with the compiled sampler, which moves particles by
the same distribution, and multiplied by the measured time of a step, energy included,
of the PyTorch peer at the same sizes. Where the schedule is too long to run, the
remaining steps are counted only, which the table says.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from threadpoolctl import threadpool_limits

from benchmarks.data import add_data_argument, load, split
from benchmarks.peers.langevin import ARRANGEMENTS, TorchLangevin
from benchmarks.problems import make_problem
from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx import PLSClassifier, PLSRegressor
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._pls._inference import InferenceSettings, infer, nystroem_root
from skgpx._selection import rough_start, row_target
from skgpx._validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import Likelihood, StudentT

Array = NDArray[np.float64]

PARTICLES = 100
ENOUGH = 0.1
PROBLEMS = {"diabetes": "bernoulli", "boston": "student_t"}
GRID = np.geomspace(1e-3, 5e-8, 5)
SIMULATED_TIME = 0.5
# Steps of one entry of the schedule above which it is counted, not run.
LONGEST_RUN = 10_000
# The oracle's grid, in units of the inverse of the largest eigenvalue of the Hessian.
ORACLE_GRID = (1.9, 1.6, 1.2, 0.8, 0.5, 0.3, 0.2, 0.1, 0.05)
ORACLE_STEPS = 30_000
SHORTEST_STEPS = (20, 40, 80, 160, 320)


class Posterior(NamedTuple):
    """What is to be sampled; `target` is in the weights w of the basis."""

    basis: Nystroem
    rows: Rows
    likelihood: Likelihood
    target: Target
    mode: laplace.Mode


class Truth(NamedTuple):
    """Moments of the posterior; `floor` is the distance of 100 independent draws."""

    mean: Array
    whitening: Array
    floor: float
    half_split: float


def make_posterior(name: str, folder: str | None) -> Posterior:
    """Fit the hyperparameters once."""
    classes = PROBLEMS[name] == "bernoulli"
    X, y = split(*load(name, folder), 0, standardise_y=not classes)[:2]
    m = round(np.sqrt(len(y)))
    if classes:
        model = PLSClassifier(n_inducing=m, random_state=0)
    else:
        likelihood = StudentT(df=4.0)
        model = PLSRegressor(
            likelihood=likelihood, n_inducing=m, normalize_y=False, random_state=0
        )
    model.fit(X, y)
    basis, likelihood = model.posterior_.basis, model.likelihood_
    rows = Rows(X, y, np.ones(len(y)))
    target = row_target(np.ascontiguousarray(basis(X)), rows, likelihood)
    mode = laplace.find_mode(target, rough_start(target))
    return Posterior(basis, rows, likelihood, target, mode)


def distance(w: Array, mean: Array, whitening: Array) -> float:
    """W2 of the Gaussian moments of particles w (m, s) from N(0, I), over √M."""
    v = whitening @ (w - mean[:, np.newaxis])
    S = np.cov(v)
    m = len(v)
    squared = (
        np.sum(v.mean(axis=1) ** 2) + np.trace(S) + m - 2.0 * np.trace(sqrtm(S).real)
    )
    return float(np.sqrt(max(squared, 0.0) / m))


def find_truth(posterior: Posterior, n_chains: int = 1000, n_kept: int = 40) -> Truth:
    """Moments of adjusted chains, every 15th state after 300 steps."""
    mode, rng = posterior.mode, np.random.default_rng(12)
    target = langevin.in_coordinates(posterior.target, mode.weights.T, mode.root)
    z = rng.standard_normal((1, len(mode.weights), n_chains))
    scheme = langevin.ornstein_uhlenbeck(0.8)
    chains = langevin.start(target, z)
    chains, _ = langevin.advance(target, chains, scheme, 300, rng)
    kept = []
    for _ in range(n_kept):
        chains, _ = langevin.advance(target, chains, scheme, 15, rng)
        kept.append(langevin.weights_of(target, chains.z)[:, 0])
    w = np.concatenate(kept, axis=1)
    mean, whitening = w.mean(axis=1), np.linalg.inv(np.linalg.cholesky(np.cov(w)))
    # halves of the chains, not of the time: chains are independent
    first = np.concatenate([k[:, : n_chains // 2] for k in kept], axis=1)
    half_split = distance(first, mean, whitening)
    draws = [rng.choice(w.shape[1], PARTICLES, replace=False) for _ in range(50)]
    floor = np.mean([distance(w[:, d], mean, whitening) for d in draws])
    return Truth(mean, whitening, float(floor), half_split)


def excess(w: Array, truth: Truth) -> float:
    """Distance above that of independent draws; infinite after a divergence."""
    if not np.all(np.isfinite(w)) or np.abs(w).max() > 1e8:
        return np.inf
    return distance(w, truth.mean, truth.whitening) - truth.floor


def paper_scheme(
    posterior: Posterior, step_size: float, marks: Iterator[int]
) -> Iterator[tuple[int, Array, float]]:
    """Run the paper's scheme in its coordinates; weights and energy at the marks."""
    root = nystroem_root(posterior.basis)[np.newaxis]
    target = langevin.in_coordinates(
        posterior.target, np.zeros((1, len(root[0]))), root
    )
    rng = np.random.default_rng(3)
    chains = langevin.start(target, rng.standard_normal((1, len(root[0]), PARTICLES)))
    scheme, done = langevin.euler_maruyama(step_size, metropolis=False), 0
    for mark in marks:
        chains, _ = langevin.advance(target, chains, scheme, mark - done, rng)
        done = mark
        w = langevin.weights_of(target, chains.z)[:, 0]
        yield mark, w, float(chains.energy.mean())


def follow_schedule(posterior: Posterior, truth: Truth) -> dict[str, object]:
    """Count the steps of the paper's schedule; the excess is that of its last run."""
    total, before, last, counted = 0, np.inf, np.inf, 0
    for step_size in GRID:
        n_steps = int(SIMULATED_TIME / step_size)
        total += n_steps
        if n_steps > LONGEST_RUN:
            counted = n_steps
            break
        _, w, energy = next(paper_scheme(posterior, step_size, iter([n_steps])))
        last = excess(w, truth)
        if abs(energy - before) < 0.01 * abs(before):
            break
        before = energy
    return {"schedule steps": total, "of these not run": counted, "excess": last}


def ask_oracle(posterior: Posterior, truth: Truth) -> dict[str, object]:
    """Fewest steps after which the paper's scheme is and stays accurate."""
    root = nystroem_root(posterior.basis)
    largest = np.linalg.norm(np.linalg.solve(posterior.mode.root[0], root), 2) ** 2
    best = (np.inf, np.nan)
    for factor in ORACLE_GRID:
        n_steps = first_accurate(posterior, truth, factor / largest, best[0])
        best = min(best, (n_steps, factor))
    return {"oracle steps": best[0], "oracle step times eigenvalue": best[1]}


def first_accurate(
    posterior: Posterior, truth: Truth, step_size: float, patience: float
) -> float:
    """First of the marks that is accurate and followed by another; else infinity."""
    marks = np.unique(np.geomspace(5, ORACLE_STEPS, 60).astype(int))
    candidate = np.inf
    for mark, w, _ in paper_scheme(posterior, step_size, iter(marks)):
        found = excess(w, truth)
        if found <= ENOUGH and candidate < np.inf:
            return float(candidate)
        candidate = mark if found <= ENOUGH else np.inf
        if mark > patience or found == np.inf:
            break
    return np.inf


def ours(posterior: Posterior, max_iter: int | None, tol: float, seed: int) -> Array:
    """Particles (m, s) by the estimators' own inference."""
    settings = InferenceSettings(
        "auto", "projected", PARTICLES, None, max_iter, tol, None
    )
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = infer(
            posterior.basis, posterior.rows, posterior.likelihood, settings, rng
        )
    return found.particles[:, 0]


def shortest(posterior: Posterior, truth: Truth) -> tuple[int, float]:
    """Smallest accurate number of steps of ours, and its excess, over four seeds."""
    for max_iter in SHORTEST_STEPS:
        runs = [ours(posterior, max_iter, 0.0, seed) for seed in range(4)]
        found = float(np.mean([excess(w, truth) for w in runs]))
        if found <= ENOUGH:
            break
    return max_iter, found


def measure(name: str, folder: str | None, n_rounds: int) -> list[dict[str, object]]:
    """One row for each arrangement of the PyTorch peer."""
    posterior = make_posterior(name, folder)
    truth = find_truth(posterior)
    row: dict[str, object] = {"problem": name, "n": len(posterior.rows.y)}
    row |= {"m": len(truth.mean), "truth half-split": truth.half_split}
    row |= {"floor": truth.floor} | follow_schedule(posterior, truth)
    row |= ask_oracle(posterior, truth)
    max_iter, short = shortest(posterior, truth)
    default = np.mean([excess(ours(posterior, None, 1.05, s), truth) for s in range(4)])
    row |= {"our steps": max_iter, "our excess": short, "default excess": default}
    problem = make_problem(PROBLEMS[name], row["n"], row["m"], PARTICLES)
    contenders = {a: TorchLangevin(problem, a).step for a in ARRANGEMENTS}
    contenders["shortest"] = lambda: ours(posterior, max_iter, 0.0, 0)
    contenders["default"] = lambda: ours(posterior, None, 1.05, 0)
    timing = alternate(contenders, n_rounds)
    row |= {f"{c} ms": 1e3 * timing.median(c) for c in ("shortest", "default")}
    progress(row)
    return [row | ratios(row, timing, peer) for peer in ARRANGEMENTS]


def ratios(row: dict[str, object], timing, peer: str) -> dict[str, object]:
    """Seconds of the peer's step, and how much longer its two ways take than ours."""
    result = {"peer": peer, "peer step ms": 1e3 * timing.median(peer)}
    for way in ("schedule", "oracle"):
        for mine in ("shortest", "default"):
            quotient = timing.ratio(peer, mine)[1]
            result[f"{way}/{mine}"] = row[f"{way} steps"] * quotient
    return result


def main() -> None:
    """Measure the problems asked for and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with threadpool_limits(1):
        for name in arguments.problems:
            rows += measure(name, arguments.data, arguments.rounds)
    settings = {"particles": PARTICLES, "accurate": ENOUGH, "threads": 1}
    report("accuracy", rows, settings)


if __name__ == "__main__":
    main()
