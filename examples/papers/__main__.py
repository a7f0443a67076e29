"""All tables and figures of the papers, or those of some of them.

    python -m examples.papers [000 001 002 003 004] [--full] [--results FOLDER]

The folder gets ``table.md``, ``results.csv``, ``results.json`` and the figures. The
exit status is 1 if a script failed; the others run all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable

from examples.papers import (
    decoupled_draws,
    decoupled_neuron,
    decoupled_thompson,
    gwi_net,
    pls_schedule,
    pls_tables,
    spectral_balls,
    stein_kernels,
    stein_mixture,
)
from examples.papers.results import FOLDER, PAPERS, Results, share, summary

Run = Callable[[Results, bool], None]
SCRIPTS: dict[str, dict[str, Run]] = {
    "000": {"pls_tables": pls_tables.run, "pls_schedule": pls_schedule.run},
    "001": {"stein_kernels": stein_kernels.run, "stein_mixture": stein_mixture.run},
    "002": {"gwi_net": gwi_net.run},
    "003": {"spectral_balls": spectral_balls.run},
    "004": {
        "decoupled_draws": decoupled_draws.run,
        "decoupled_thompson": decoupled_thompson.run,
        "decoupled_neuron": decoupled_neuron.run,
    },
}


def run_scripts(
    results: Results, papers: list[str], full: bool, scripts: dict[str, dict[str, Run]]
) -> list[str]:
    """Run the scripts of some papers; the names of those that failed."""
    failed = []
    for paper in papers:
        for name, run in scripts[paper].items():
            begin = time.process_time()
            print(f"{paper} {PAPERS[paper]}: {name}", flush=True)
            try:
                with results.of(paper, name):
                    run(results, full)
            except Exception:  # noqa: BLE001, a failure must not hide the others
                traceback.print_exc()
                failed.append(name)
            seconds = time.process_time() - begin
            print(f"{paper} {name}: {seconds:.0f} CPU seconds", flush=True)
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run what is named, print a summary, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.papers")
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=", ".join(PAPERS))
    parser.add_argument("--full", action="store_true", help="published sizes: hours")
    parser.add_argument("--results", default="results", metavar="FOLDER")
    options = parser.parse_args(arguments)
    unknown = set(options.papers) - set(PAPERS)
    if unknown:
        parser.error(f"unknown papers: {', '.join(sorted(unknown))}")
    if FOLDER not in os.environ:
        print(f"{FOLDER} names no folder: sets that scikit-learn lacks are left out")
    results = Results(options.results)
    papers = options.papers or list(PAPERS)
    begin = time.process_time()
    failed = run_scripts(results, papers, options.full, SCRIPTS)
    for paper in papers:
        rows = [row for row in results.rows if row.paper == paper]
        print(f"{paper} {PAPERS[paper]}: {summary(rows)}")
    good, explained, total = share(results.rows)
    print(f"all rows in {results.folder}: {good} + {explained} of {total}")
    print(f"{time.process_time() - begin:.0f} CPU seconds")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
