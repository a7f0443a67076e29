"""Time the hot loops against plain NumPy, and compare the ratios with those on record.

    python -m benchmarks.bench_kernels [--check | --record]

One thread, CPU seconds, contenders alternating in one process. Ratios depend little on
the machine and its load: ``--check`` fails where one fell below `TOLERANCE` of what
`benchmarks/kernels.json` holds, ``--record`` writes that file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from benchmarks.bench_series import LINE, RULE, numpy_statistics
from benchmarks.ours import ROUND, ours_step
from benchmarks.problems import make_problem
from benchmarks.report import progress, report
from benchmarks.timing import alternate
from skgpx._numerics import svgd
from skgpx._numerics.fourier_sums import n_bins, sketched_statistics
from skgpx.bases import Fourier
from skgpx.kernels import kernel_matrix

RECORDED = Path(__file__).with_name("kernels.json")
# A ratio below this share of the recorded one is a regression.
TOLERANCE = 0.6
Pair = tuple[Callable[[], object], Callable[[], object], int]


def wave_sums() -> Pair:
    """Sums of 101 Fourier functions over 10⁵ rows of one input."""
    rng = np.random.default_rng(0)
    X, y = rng.random((100_000, 1)), rng.standard_normal(100_000)
    index = RULE.index(LINE, 101)
    bins = n_bins(2 * int(index.reach()[0]))

    def ours() -> object:
        sums = sketched_statistics(X, y, None, LINE, 0.0, bins)
        return sums.normal_equations(index)

    return lambda: numpy_statistics(X[:, 0], y, 101), ours, 1


def matern_matrix() -> Pair:
    """Matern 5/2 between 2000 and 500 rows of eight inputs."""
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((2000, 8)), rng.standard_normal((500, 8))
    kernel = Matern(np.full(8, 2.0), nu=2.5)
    return lambda: kernel(X, Z), lambda: kernel_matrix(kernel, X, Z), 1


def langevin_steps() -> Pair:
    """A round of steps of 100 particles: Bernoulli, 1000 rows, 32 functions."""
    problem = make_problem("bernoulli", 1000, 32, 100)
    vectors, values = problem.nystroem()
    features = problem.kernel(problem.X, problem.Z) @ vectors
    rng, step = np.random.default_rng(0), problem.step_size

    def reference() -> object:
        u = problem.start.copy()
        for _ in range(ROUND):
            slope = features.T @ (expit(features @ u) - problem.y[:, np.newaxis])
            slope += u / values[:, np.newaxis]
            u += np.sqrt(2.0 * step) * rng.standard_normal(u.shape) - step * slope
        return u

    return reference, ours_step(problem, "ula"), ROUND


def stein_force() -> Pair:
    """Pooled force between 600 frequencies of eight inputs, bandwidths included."""
    rng = np.random.default_rng(0)
    omega, slopes = rng.standard_normal((2, 6, 100, 8))

    def reference() -> object:
        w, g = omega.reshape(-1, 8), slopes.reshape(-1, 8)
        differences = w[:, np.newaxis] - w
        squares = np.median(differences**2, axis=(0, 1))
        k = np.exp(-0.5 * np.sum(differences**2 / squares, axis=2))
        return k @ g + np.einsum("ij,ijk->ik", k, differences / squares)

    def ours() -> object:
        pool = omega.reshape(-1, 8)
        squares = svgd.median_squares(pool)
        return svgd.stein_force(pool, pool, slopes.reshape(-1, 8), squares, 1.0)

    return reference, ours, 1


def waves() -> Pair:
    """512 waves of eight inputs at 2000 rows."""
    rng = np.random.default_rng(0)
    X, omega = rng.standard_normal((2000, 8)), rng.standard_normal((512, 8))
    basis = Fourier(omega, np.full(512, 512**-0.5))

    def reference() -> object:
        phase = X @ omega.T
        return 512**-0.5 * np.hstack((np.cos(phase), np.sin(phase)))

    return reference, lambda: basis(X), 1


CASES = {
    "wave sums": wave_sums,
    "Matern 5/2 matrix": matern_matrix,
    "Langevin steps": langevin_steps,
    "Stein force": stein_force,
    "waves": waves,
}


def measure(name: str, rounds: int) -> dict[str, object]:
    """Milliseconds of both, and how often ours fits into the reference."""
    reference, ours, calls = CASES[name]()
    contenders = {"NumPy": reference, "ours": ours}
    timing = alternate(contenders, rounds, clock=time.process_time)
    low, middle, high = timing.ratio("NumPy", "ours")
    row: dict[str, object] = {"kernel": name}
    row |= {f"{k} ms": 1e3 * timing.median(k) / calls for k in contenders}
    return row | {"ratio": middle, "quartiles": f"{low:.3g}-{high:.3g}"}


def main() -> None:
    """Measure all kernels; check the ratios or record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        for name in CASES:
            rows.append(measure(name, arguments.rounds))
            progress(rows[-1])
    report("kernels", rows, {"threads": 1})
    ratios = {str(row["kernel"]): float(str(row["ratio"])) for row in rows}
    if arguments.record:
        RECORDED.write_text(json.dumps(ratios, indent=1) + "\n")
    if arguments.check:
        recorded = json.loads(RECORDED.read_text())
        slow = [k for k, r in ratios.items() if r < TOLERANCE * recorded[k]]
        sys.exit(f"slower than on record: {', '.join(slow)}" if slow else 0)


if __name__ == "__main__":
    main()
