"""Time one Langevin step against the paper's, in PyTorch, and a GPyTorch SVGP epoch.

    python -m benchmarks.bench_step [--quick] [--peers-only]

One thread each, contenders alternating in one process, medians of per-round ratios.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import torch
from threadpoolctl import threadpool_limits

from benchmarks.ours import ours_step
from benchmarks.peers.langevin import ARRANGEMENTS, TorchLangevin
from benchmarks.peers.svgp import SVGP
from benchmarks.problems import Problem, make_problem
from benchmarks.report import report
from benchmarks.timing import alternate

SIZES = ((100, 10, 100), (1000, 32, 100), (10_000, 100, 100), (10_000, 100, 1000))
LIKELIHOODS = ("gaussian", "bernoulli", "student_t", "poisson", "shifted_mixture")
SVGP_LIKELIHOODS = ("gaussian", "bernoulli", "student_t")
# The published mixture derivative holds an (n, n, s) tensor of doubles.
MIXTURE_MAX_ROWS = 100


def contenders(problem: Problem, peers_only: bool) -> dict[str, Callable[[], object]]:
    """Every step that is comparable on this problem, by name."""
    steps: dict[str, Callable[[], object]] = {}
    mixture = problem.likelihood == "shifted_mixture"
    for arrangement in ARRANGEMENTS:
        small = len(problem.y) <= MIXTURE_MAX_ROWS
        if not mixture or small or arrangement == "precomputed":
            steps[arrangement] = TorchLangevin(problem, arrangement).step
    if problem.likelihood in SVGP_LIKELIHOODS:
        steps["svgp"] = SVGP(problem).epoch
    if not peers_only:
        steps["ours"] = ours_step(problem)
    return steps


def measure(problem: Problem, n_rounds: int, peers_only: bool) -> dict[str, object]:
    """Milliseconds of each contender and, against ours, the ratios' quartiles."""
    steps = contenders(problem, peers_only)
    timing = alternate(steps, n_rounds)
    m, n_particles = problem.start.shape
    row: dict[str, object] = {"likelihood": problem.likelihood, "n": len(problem.y)}
    row |= {"m": m, "particles": n_particles}
    row |= {f"{name} ms": 1e3 * timing.median(name) for name in steps}
    for name in steps if "ours" in steps else ():
        if name != "ours":
            low, middle, high = timing.ratio(name, "ours")
            row[f"{name}/ours"] = middle
            row[f"{name}/ours quartiles"] = f"{low:.3g}-{high:.3g}"
    return row


def main() -> None:
    """Measure every likelihood at every size and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the two smaller sizes")
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--likelihoods", nargs="+", default=LIKELIHOODS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DeprecationWarning)
    sizes = SIZES[:2] if arguments.quick else SIZES
    rows = []
    with threadpool_limits(1):
        for likelihood in arguments.likelihoods:
            for n, m, n_particles in sizes:
                problem = make_problem(likelihood, n, m, n_particles)
                rows.append(measure(problem, arguments.rounds, arguments.peers_only))
    report("step", rows, {"rounds": arguments.rounds, "threads": 1})


if __name__ == "__main__":
    main()
