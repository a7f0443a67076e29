"""Loops: steps of chains, simulation of a neuron with draws, and Thompson sampling.

    python -m benchmarks.bench_loops [--table steps simulation clouds thompson]
                                     [--seeds 10]

steps
    CPU microseconds of a Metropolis step of 64 chains over 400 rows and 100 functions,
    for each likelihood with a compiled formula: *ours*; *NumPy*, the same steps around
    the likelihood's row functions; *torch*, the paper's unadjusted step in PyTorch with
    its features computed once, where PyTorch is installed; and *floor*, the products
    and normal numbers alone. *cold* and *cached* are CPU seconds of a new process until
    its first step is done, with an empty folder of compiled kernels and a full one,
    beyond those of importing the library.
simulation
    A sparse process (32 points, optimal distribution) has learnt the drift of the
    FitzHugh-Nagumo neuron from 10 000 noisy increments. *ours* draws 1000 drifts and
    simulates with them; *iterative* draws the drift at each step given the path so
    far, compiled, for a few paths: its time is scaled to 1000.
clouds
    2-Wasserstein distances between the clouds of scaled states of two sets of 1000
    paths of this neuron, by an exact assignment, averaged over times. *truth-truth*
    is the floor, two sets from the true system; *ours-iterative*, beside
    *iterative-iterative*, leaves out what the process has learnt wrongly.
thompson
    Minimise functions drawn from a known Matern-5/2 prior on the unit cube, noise
    variance 1e-3, in batches of d proposals. *decoupled*: 256 Fourier features and the
    data. *rff*: the linear model in 256 + n random Fourier features, drawn from its
    exact posterior; the same design and the same search. *random*: uniform points. The
    regret is that of the best input evaluated, noise-free; the minimum is the best
    of all runs and of a far longer search.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from benchmarks import neuron, speed
from benchmarks.peers.iterative import simulate_iteratively, sparse_process
from benchmarks.peers.weight_space import sample_weight_space
from benchmarks.problems import make_problem
from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx import DecoupledSampler, FunctionDraws
from skgpx._numerics import langevin
from skgpx.bases import draw_prior
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)
from skgpx.simulation import simulate_sde
from skgpx.thompson import ThompsonSampler

Array = NDArray[np.float64]
Objective = Callable[[Array], Array]
Ask = Callable[[Array, Array], Array]

LIKELIHOODS: dict[str, Likelihood] = {
    "normal, by sums over rows": Gaussian(0.04),
    "StudentT": StudentT(df=4.0, scale=0.2),
    "Bernoulli": Bernoulli(),
    "probit": Bernoulli("probit"),
    "counts, softplus": Poisson("softplus"),
    "counts, exp": Poisson("exp"),
    "counts, square": Poisson("square"),
    "shifted mixture": ShiftedMixture(shift=2.0, noise_variance=0.04),
    "three classes": Categorical(),
}
# names of those that the PyTorch step has
TORCH_NAMES = {
    "StudentT": "student_t",
    "Bernoulli": "bernoulli",
    "counts, square": "poisson",
    "shifted mixture": "shifted_mixture",
}

N_PATHS = 1000
# steps, and paths of the iterative simulation that are timed
SIMULATIONS = ((100, 100), (400, 20), (1000, 4))
# steps of the clouds that are compared, and shares of the noise of the training data
CLOUD_STEPS, NOISE_SHARES = 200, (1.0, 0.1)

NOISE_VARIANCE = 1e-3
# inputs and evaluations
PROBLEMS = ((2, 64), (4, 192), (8, 512))
N_MESH, N_STARTS = 10_000, 32
N_BASIS = 256


# ---- Steps of chains -----------------------------------------------------------------


def measure_step(name: str, likelihood: Likelihood, n_rounds: int) -> dict[str, Any]:
    """Microseconds a step of ours, of NumPy, of PyTorch and of the floor."""
    target, z = speed.step_problem(likelihood)
    contest = speed.metropolis_step(likelihood)
    contenders = {"ours": contest.work, "floor": contest.reference}
    if target.code != langevin.QUADRATIC:
        plain = target._replace(code=langevin.NUMPY)
        contenders["NumPy"] = speed.chain_steps(plain, z)
    if name in TORCH_NAMES:
        contenders |= torch_steps(TORCH_NAMES[name])
    timing = alternate(contenders, n_rounds, clock=time.process_time)
    row: dict[str, Any] = {"likelihood": name}
    for contender in contenders:
        microseconds = 1e6 * timing.seconds[contender].min() / speed.STEPS
        row[f"{contender} µs"] = float(microseconds)
    row["ours / floor"] = row["ours µs"] / row["floor µs"]
    return row | compilation_seconds(name)


def torch_steps(likelihood: str) -> dict[str, Callable[[], object]]:
    """The authors' step in PyTorch, with features computed once."""
    try:
        from benchmarks.peers.langevin import TorchLangevin
    except ImportError:
        return {}
    sizes = speed.STEP_ROWS, speed.STEP_BASIS, speed.STEP_CHAINS
    peer = TorchLangevin(make_problem(likelihood, *sizes), "precomputed")

    def steps() -> None:
        for _ in range(speed.STEPS):
            peer.step()

    return {"torch": steps}


def compilation_seconds(name: str) -> dict[str, float]:
    """CPU seconds of a process until its first step, without those of the import."""
    script = (
        "import time; from benchmarks import bench_loops, speed\n"
        f"problem = speed.step_problem(bench_loops.LIKELIHOODS[{name!r}])\n"
        "start = time.process_time()\n"
        "speed.chain_steps(*problem)()\n"
        "print(time.process_time() - start)\n"
    )
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SKGPX_NUMBA_CACHE": folder}
        for state in ("cold", "cached"):
            output = subprocess.run(
                [sys.executable, "-c", script],
                env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            seconds[f"{state} s"] = float(output.stdout)
    return seconds


# ---- Draws ---------------------------------------------------------------------------


def samplers(models: Sequence[neuron.SparseDrift]) -> list[DecoupledSampler]:
    """Return one sampler for each output, with default features."""
    return [
        DecoupledSampler.from_inducing(
            m.kernel, m.points, q_mean=m.q_mean, q_cov=m.q_cov, jitter=neuron.JITTER
        )
        for m in models
    ]


def draw_drifts(
    outputs: Sequence[DecoupledSampler], n_paths: int, rng: np.random.Generator
) -> list[FunctionDraws]:
    """Draw both components of the drift, as many times as there are paths."""
    return [sampler.sample_functions(n_paths, rng) for sampler in outputs]


def simulate(
    drifts: list[FunctionDraws], n_steps: int, rng: np.random.Generator
) -> Array:
    """Paths of the drawn drifts, (n_steps + 1, s, 2)."""
    t = neuron.STEP * np.arange(n_steps + 1)
    return simulate_sde(
        drifts, neuron.START, t, neuron.DIFFUSION,
        controls=neuron.current, random_state=rng,
    )  # fmt: skip


def iterative(process: Any, n_steps: int, n_paths: int, rng: Any) -> Array:
    """Paths of drifts that are drawn along the way."""
    times = neuron.STEP * np.arange(n_steps)
    controls = np.array([[neuron.current(t)] for t in times])
    return simulate_iteratively(
        process, neuron.START, controls, neuron.STEP, neuron.DIFFUSION, n_paths, rng
    )


def measure_simulation(
    models: Sequence[neuron.SparseDrift], n_rounds: int
) -> list[dict[str, Any]]:
    """Seconds for a thousand paths, for each number of steps."""
    rng, rows = np.random.default_rng(0), []
    process, outputs = sparse_process(models), samplers(models)
    drifts = draw_drifts(outputs, N_PATHS, rng)
    for n_steps, n_few in SIMULATIONS:
        contenders = {
            "draw": lambda: draw_drifts(outputs, N_PATHS, rng),
            "ours": lambda n=n_steps: simulate(drifts, n, rng),
            "iterative": lambda n=n_steps, few=n_few: iterative(process, n, few, rng),
        }
        timing = alternate(contenders, n_rounds)
        timing.seconds["iterative"] *= N_PATHS / n_few
        timing.seconds["total"] = timing.seconds["draw"] + timing.seconds["ours"]
        names = {"draw": "draw s", "ours": "simulate s", "iterative": "iterative s"}
        row: dict[str, Any] = {"steps": n_steps}
        row |= {title: timing.median(name) for name, title in names.items()}
        row["iterative/simulate"] = timing.ratio("iterative", "ours")[1]
        row["iterative/both"] = timing.ratio("iterative", "total")[1]
        rows.append(row | {"iterative paths": n_few})
        progress(rows[-1])
    return rows


def cloud_distance(one: Array, other: Array, stride: int = 20) -> float:
    """2-Wasserstein distance of states (t, s, 2), averaged over times but the first."""
    distances = []
    for a, b in zip(one[stride::stride], other[stride::stride], strict=True):
        cost = cdist(a, b, "sqeuclidean")
        distances.append(np.sqrt(cost[linear_sum_assignment(cost)].mean()))
    return float(np.mean(distances))


def measure_clouds(n_seeds: int, noise_share: float) -> list[dict[str, Any]]:
    """Distances of the clouds; a drift is learnt for each seed."""
    rows = []
    for seed in range(n_seeds):
        models, rng = neuron.learn(seed, noise_share), np.random.default_rng(seed)
        process, outputs = sparse_process(models), samplers(models)
        truth, again = (
            neuron.simulate_truth(CLOUD_STEPS, N_PATHS, rng) for _ in range(2)
        )
        ours = simulate(draw_drifts(outputs, N_PATHS, rng), CLOUD_STEPS, rng)
        one, two = (iterative(process, CLOUD_STEPS, N_PATHS, rng) for _ in range(2))
        row: dict[str, Any] = {"noise kept": noise_share, "seed": seed}
        row["truth-truth"] = cloud_distance(truth, again)
        row["ours-truth"] = cloud_distance(ours, truth)
        row["iterative-truth"] = cloud_distance(one, truth)
        row["ours-iterative"] = cloud_distance(ours, one)
        row["iterative-iterative"] = cloud_distance(one, two)
        rows.append(row)
        progress(row)
    names = list(rows[0])[2:]
    means = {name: float(np.mean([row[name] for row in rows])) for name in names}
    mean = {"noise kept": noise_share, "seed": "mean", **means}
    mean["ours/floor"] = means["ours-truth"] / means["truth-truth"]
    mean["iterative/floor"] = means["iterative-truth"] / means["truth-truth"]
    return [*rows, mean]


def length_scale(d: int) -> float:
    """That of the paper: the same number of neighbours in every dimension."""
    return float(np.sqrt(d / 100.0))


def draw_objective(d: int, seed: int) -> FunctionDraws:
    """One function of the prior, with far more features than the contenders."""
    rng = np.random.default_rng([seed, d])
    kernel = Matern(length_scale(d), nu=2.5)
    return draw_prior(kernel, d, 1, 1, rng, n_basis=2**14)


def optimise(ask: Ask, f: FunctionDraws, X: Array, n_total: int, seed: int) -> Array:
    """Evaluate a design and then batches; the best noise-free value after each."""
    rng, d = np.random.default_rng([seed, 1]), X.shape[1]
    truth, best = f(X)[:, 0], []
    y = truth + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(len(X))
    while True:
        best.append(truth.min())
        if len(X) >= n_total:
            return np.array(best)
        new = ask(X, y)[: min(d, n_total - len(X))]
        values = f(new)[:, 0]
        noise = np.sqrt(NOISE_VARIANCE) * rng.standard_normal(len(new))
        X, truth = np.concatenate((X, new)), np.concatenate((truth, values))
        y = np.concatenate((y, values + noise))


def contenders(d: int, seed: int) -> tuple[Array, dict[str, Ask]]:
    """Return the design, and what each contender proposes given X and y."""
    model = GaussianProcessRegressor(
        Matern(length_scale(d), nu=2.5), alpha=NOISE_VARIANCE, optimizer=None
    )
    ours = ThompsonSampler(
        np.repeat([[0.0, 1.0]], d, axis=0),
        DecoupledSampler(model, n_basis=N_BASIS),
        acquisition="thompson", refit_every=None,
        n_mesh=N_MESH, n_starts=N_STARTS, random_state=seed,
    )  # fmt: skip
    rng = np.random.default_rng([seed, 2])
    box = np.repeat([[0.0, 1.0]], d, axis=0)

    def decoupled(X: Array, y: Array) -> Array:
        told = len(ours.y_)
        return ours.tell(X[told:], y[told:]).ask(d)

    def rff(X: Array, y: Array) -> Array:
        size = N_BASIS + len(y)
        draws = sample_weight_space(X, y, size, d, length_scale(d), NOISE_VARIANCE, rng)
        return draws.minimize(box, N_STARTS, N_MESH, random_state=rng).x

    def random(X: Array, y: Array) -> Array:
        del y
        return rng.random((d, X.shape[1]))

    design = ours.ask(2 * (d + 1))
    return design, {"decoupled": decoupled, "rff": rff, "random": random}


def measure_seed(d: int, n_total: int, seed: int) -> dict[str, Any]:
    """Regret of each contender on one function, and the seconds it took."""
    f = draw_objective(d, seed)
    design, asks = contenders(d, seed)
    row: dict[str, Any] = {"d": d, "evaluations": n_total, "seed": seed}
    lowest, seconds = {}, {}
    for name, ask in asks.items():
        start = time.perf_counter()
        lowest[name] = optimise(ask, f, design, n_total, seed)[-1]
        seconds[name] = time.perf_counter() - start
    box = np.repeat([[0.0, 1.0]], d, axis=0)
    searched = f.minimize(box, 256, 2**16, random_state=seed).fun[0]
    minimum = min(searched, *lowest.values())
    row |= {name: float(value - minimum) for name, value in lowest.items()}
    row |= {f"{name} s": value for name, value in seconds.items() if name != "random"}
    return row


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and median regret over the seeds of each problem."""
    table = []
    for d, n_total in dict.fromkeys((r["d"], r["evaluations"]) for r in rows):
        chosen = [r for r in rows if r["d"] == d]
        line: dict[str, Any] = {"d": d, "evaluations": n_total, "seeds": len(chosen)}
        for name in ("decoupled", "rff", "random"):
            regret = np.array([r[name] for r in chosen])
            line[f"{name}, mean"] = float(regret.mean())
            line[f"{name}, median"] = float(np.median(regret))
        line["decoupled/rff"] = line["decoupled, mean"] / line["rff, mean"]
        table.append(line)
    return table


def main() -> None:
    """Measure simulation and Thompson sampling, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = ("steps", "simulation", "clouds", "thompson")
    parser.add_argument("--table", nargs="+", choices=tables, default=list(tables))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 4, 8])
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if "steps" in arguments.table:
            rows = []
            for name, likelihood in LIKELIHOODS.items():
                rows.append(measure_step(name, likelihood, arguments.rounds))
                progress(rows[-1])
            settings = {"rows": speed.STEP_ROWS, "chains": speed.STEP_CHAINS}
            report("loops_steps", rows, {**settings, "threads": 1})
        if "simulation" in arguments.table:
            models = neuron.learn()
            settings = {"paths": N_PATHS, "rounds": arguments.rounds, "threads": 1}
            rows = measure_simulation(models, arguments.rounds)
            report("loops_simulation", rows, settings)
        if "clouds" in arguments.table:
            rows = []
            for share in NOISE_SHARES:
                rows += measure_clouds(arguments.seeds, share)
            report("loops_clouds", rows, {"paths": N_PATHS, "steps": CLOUD_STEPS})
        if "thompson" in arguments.table:
            rows = []
            for d, n_total in (p for p in PROBLEMS if p[0] in arguments.dimensions):
                for seed in range(arguments.first_seed, arguments.seeds):
                    rows.append(measure_seed(d, n_total, seed))
                    progress(rows[-1])
                name = "loops_thompson"
                report(f"{name}_seeds", rows, {"mesh": N_MESH, "threads": 1})
                report(name, summary(rows), {"n_basis": N_BASIS})


if __name__ == "__main__":
    main()
