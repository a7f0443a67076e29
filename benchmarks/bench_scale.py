"""Time and memory of a fit against the number of rows.

    python -m benchmarks.bench_scale [--rows 10000 30000 100000] [--full]
    python -m benchmarks.bench_scale --rows 100 300 1000 5000 20000 --inducing auto

Eight inputs, 300 inducing points, 100 particles, Gaussian, Bernoulli and Student-t
likelihoods. ``--inducing auto`` has all defaults. Each fit runs in a process of its
own, whose largest resident memory is read at the end; ``memory`` has that of the
imports and the data taken off as well. ``--full`` goes to a million rows. Seconds of
the stages are those of `stage_seconds_`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

from benchmarks.large_tables import make_data
from benchmarks.report import progress, report
from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import StudentT

ROWS = (10_000, 30_000, 100_000)
FULL = (300_000, 1_000_000)
LIKELIHOODS = ("gaussian", "bernoulli", "student_t")
PREDICTED_ROWS = 10_000


def make_model(likelihood: str, n_inducing: str, n_jobs: int) -> Any:
    """Build the estimator of one likelihood."""
    options: dict[str, Any] = {"random_state": 0}
    if n_inducing != "auto":
        options |= {"n_inducing": int(n_inducing), "n_jobs": n_jobs}
    match likelihood:
        case "gaussian":
            return PLSRegressor(**options)
        case "student_t":
            return PLSRegressor(likelihood=StudentT(df=4.0), **options)
    return PLSClassifier(**options)


def peak_memory() -> float:
    """Largest resident memory of this process so far, in GiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2.0**30 if sys.platform == "darwin" else 2.0**20)


def measure(likelihood: str, n: int, n_inducing: str, n_jobs: int) -> dict[str, Any]:
    """Fit once in this process, kernels compiled before, and measure."""
    small = make_data(likelihood, 300)
    make_model(likelihood, "10", n_jobs).fit(*small)
    make_model(likelihood, n_inducing, n_jobs).fit(*make_data(likelihood, 60))
    X, y = make_data(likelihood, n)
    before, start = peak_memory(), time.perf_counter()
    model = make_model(likelihood, n_inducing, n_jobs).fit(X, y)
    fitted, peak = time.perf_counter(), peak_memory()
    predict = model.predict if likelihood != "bernoulli" else model.predict_proba
    predict(X[:PREDICTED_ROWS])
    predicted = time.perf_counter()
    row = {"likelihood": likelihood, "n": n, "m": n_inducing, "fit s": fitted - start}
    row |= {f"{name} s": s for name, s in model.stage_seconds_.items()}
    row |= {"predict 10 000 s": predicted - fitted, "peak GiB": peak}
    return row | {"fit GiB": peak - before, "steps": model.n_iter_}


def in_child(likelihood: str, n: int, n_inducing: str, n_jobs: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    call = f"{likelihood!r}, {n}, {n_inducing!r}, {n_jobs}"
    program = (
        "import json, warnings; warnings.simplefilter('ignore');"
        "from benchmarks.bench_scale import measure;"
        f"print(json.dumps(measure({call})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return {"likelihood": likelihood, "n": n, "m": n_inducing, "error": last}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure every likelihood at every number of rows and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--full", action="store_true", help="up to a million rows")
    parser.add_argument("--likelihoods", nargs="+", default=LIKELIHOODS)
    parser.add_argument("--inducing", default="300", help="a number, or auto")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    sizes = (*arguments.rows, *FULL) if arguments.full else arguments.rows
    warnings.simplefilter("ignore")
    rows = []
    for likelihood in arguments.likelihoods:
        for n in sizes:
            rows.append(in_child(likelihood, n, arguments.inducing, arguments.jobs))
            progress(rows[-1])
    report("scale", rows, {"inputs": 8, "jobs": arguments.jobs, "particles": 100})


if __name__ == "__main__":
    main()
