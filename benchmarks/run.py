"""Run one benchmark, or all: ``python -m benchmarks.run NAME [options]``."""

from __future__ import annotations

import runpy
import sys

NAMES = (
    "step",
    "accuracy",
    "quality",
    "scale",
    "learning",
    "classes",
    "calibration",
    "latency",
    "draws",
    "draws_accuracy",
    "loops",
    "series",
    "series_elbow",
    "series_cycles",
    "spectral_vgp",
    "stein_kernel",
    "stein",
    "stein_quality",
    "gwi_step",
    "gwi_quality",
)


def main() -> None:
    """Hand the options to the module of the benchmark."""
    names = sys.argv[1:2]
    if not names or names[0] not in (*NAMES, "all"):
        sys.exit(f"usage: python -m benchmarks.run {{{','.join(NAMES)},all}} [options]")
    for name in NAMES if names[0] == "all" else names:
        sys.argv = [f"bench_{name}", *sys.argv[2:]]
        runpy.run_module(f"benchmarks.bench_{name}", run_name="__main__")


if __name__ == "__main__":
    main()
