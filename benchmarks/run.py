"""Run one benchmark, all, or a short version of most.

    python -m benchmarks.run NAME [options]
    python -m benchmarks.run all
    python -m benchmarks.run quick

``all`` and ``quick`` give each benchmark a process of its own, go on where one fails,
and write `benchmarks/results/index.md` with every table.
"""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
import time

from benchmarks.page import write_page

NAMES = (
    "kernels",
    "step",
    "learning",
    "scale",
    "product",
    "many_rows",
    "many_classes",
    "calibration",
    "likelihoods",
    "varying_noise",
    "noise_around_means",
    "averaging",
    "emulators",
    "scale_of_y",
    "comparison",
    "latency",
    "draws",
    "draws_noise",
    "loops",
    "optimisation",
    "decisions",
    "preferences",
    "series",
    "forecasts",
    "stein_kernel",
    "stein",
    "distributed",
)
# What they are compared with, where that may be missing.
PEERS = {"step": "gpytorch", "draws": "botorch", "stein": "jax"}
PEERS |= {"distributed": "distributed", "likelihoods": "statsmodels"}
PEERS |= {"varying_noise": "statsmodels", "forecasts": "statsmodels"}
PEERS |= {"noise_around_means": "statsmodels", "optimisation": "botorch"}
PEERS |= {"decisions": "optuna", "preferences": "botorch"}
# Options that leave some seconds of each; together a few minutes.
QUICK = {
    "kernels": ("--check",),
    "step": ("--quick", "--rounds", "3"),
    "scale": ("--rows", "1000", "--inducing", "100"),
    "averaging": ("--seeds", "1", "--rows", "40", "--only", "airfoil", "62 columns"),
    "emulators": ("--seeds", "1", "--only", "Branin", "Franke"),
    "scale_of_y": ("--splits", "1", "--rows", "40", "--only", "logarithm", "normal"),
    "product": ("--rows", "8000", "--rounds", "3"),
    "calibration": ("--fits", "5", "--only", "particles"),
    "latency": ("--rounds", "1"),
    "draws": ("--quick", "--rounds", "2"),
    "loops": ("--table", "clouds", "--seeds", "1"),
    "optimisation": ("--seeds", "1", "--functions", "branin", "noisy levy 2"),
    "decisions": ("--seeds", "1", "--problems", "gardner", "ZDT1, four inputs"),
    "series": ("--quick", "--rounds", "2", "--rows", "1000000"),
    "stein_kernel": ("--quick",),
    "distributed": ("--quick", "--cases", "sums", "blocks", "predictions", "round"),
}


def run_each(options: dict[str, tuple[str, ...]]) -> list[str]:
    """Names of the benchmarks that failed, each run in a process of its own."""
    failed = []
    for name, given in options.items():
        if name in PEERS and importlib.util.find_spec(PEERS[name]) is None:
            sys.stderr.write(f"{name}: left out, {PEERS[name]} is not installed\n")
            continue
        start = time.perf_counter()
        command = [sys.executable, "-m", f"benchmarks.bench_{name}", *given]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
        sys.stderr.write(f"{name}: {time.perf_counter() - start:.0f} s\n")
    return failed


def main() -> None:
    """Hand the options to the module of the benchmark, or run many."""
    names = sys.argv[1:2]
    if not names or names[0] not in (*NAMES, "all", "quick"):
        choices = ",".join((*NAMES, "all", "quick"))
        sys.exit(f"usage: python -m benchmarks.run {{{choices}}} [options]")
    if names[0] in NAMES:
        sys.argv = [f"bench_{names[0]}", *sys.argv[2:]]
        runpy.run_module(f"benchmarks.bench_{names[0]}", run_name="__main__")
        return
    given = tuple(sys.argv[2:])
    failed = run_each(QUICK if names[0] == "quick" else dict.fromkeys(NAMES, given))
    sys.stderr.write(f"{write_page()}\n")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
