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

from benchmarks.ours import ROUND, ours_step
from benchmarks.peers.langevin import ARRANGEMENTS, TorchLangevin
from benchmarks.peers.svgp import SVGP
from benchmarks.problems import Problem, make_problem
from benchmarks.report import progress, report
from benchmarks.timing import Timing, alternate

SIZES = ((100, 10, 100), (1000, 32, 100), (10_000, 100, 100), (10_000, 100, 1000))
LIKELIHOODS = ("gaussian", "bernoulli", "student_t", "poisson", "shifted_mixture")
# Contender -> scheme; the first is the peers' own scheme.
OURS = {"ours": "ula", "ours adjusted": "ou_mala"}
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
        steps |= {name: ours_step(problem, scheme) for name, scheme in OURS.items()}
    return steps


def measure(problem: Problem, n_rounds: int, peers_only: bool) -> dict[str, object]:
    """Milliseconds a step of each contender, and their ratios to ours."""
    steps = contenders(problem, peers_only)
    seconds = alternate(steps, n_rounds).seconds
    # one call of ours is a round of steps
    timing = Timing({k: s / (ROUND if k in OURS else 1) for k, s in seconds.items()})
    m, n_particles = problem.start.shape
    row: dict[str, object] = {"likelihood": problem.likelihood, "n": len(problem.y)}
    row |= {"m": m, "particles": n_particles}
    row |= {f"{name} ms": 1e3 * timing.median(name) for name in steps}
    for ours in OURS if "ours" in steps else ():
        for peer in (name for name in steps if name not in OURS):
            low, middle, high = timing.ratio(peer, ours)
            row[f"{peer}/{ours}"] = middle
            if ours == "ours":
                row[f"{peer}/{ours} quartiles"] = f"{low:.3g}-{high:.3g}"
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
                progress(rows[-1])
    settings = {"rounds": arguments.rounds, "threads": 1, "steps a round": ROUND}
    shown = [key for key in rows[0] if "quartiles" not in key]
    report("step", rows, settings, shown)


if __name__ == "__main__":
    main()
