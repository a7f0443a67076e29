"""Seconds until the first answer: import, compilation by stage, and the first fit.

    python -m benchmarks.bench_latency [--data FOLDER] [--rounds 7]

Imports are timed in fresh processes, the contenders alternating. The first fit is that
of `PLSClassifier` on diabetes.csv (or, without a folder, on scikit-learn's breast
cancer data) and of `PLSRegressor` with Student-t noise on scikit-learn's diabetes data:
in a fresh process with an empty cache of compiled kernels, in a fresh process with a
full one, and again in the same process. Import is not part of a fit. Processor
seconds say what a busy machine hides.

Fit and prediction are timed with the default number of threads of BLAS and with one,
on the machine as it is and beside a process for each core that multiplies matrices.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.data import add_data_argument
from benchmarks.report import progress, report

IMPORTS = ("skgpx", "sklearn.gaussian_process")
IMPORT_PROGRAM = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""
FIT_PROGRAM = """
import time, warnings
warnings.simplefilter("ignore")
from benchmarks.data import load, split
from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import StudentT
model = {model}
data = split(*load("{data}", {folder!r}), 0, standardise_y={standardise})
for _ in range(2):
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(data.X, data.y)
    print(time.perf_counter() - start, time.process_time() - cpu)
"""


THREADS_PROGRAM = """
import time, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.datasets import *
from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import StudentT
X, y = {data}(return_X_y=True)
if {chosen}:
    rows = np.isin(y, {chosen})
    X, y = X[rows], y[rows]
X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)
model = {model}
model.fit(X[::9], y[::9])
start = time.perf_counter()
model.fit(X, y).predict(X)
print(time.perf_counter() - start)
"""
STUDENT = "PLSRegressor(likelihood=StudentT(df=4), random_state=0)"
CLASSIFIER = "PLSClassifier(random_state=0)"
FITS = {
    "StudentT, diabetes": ("load_diabetes", (), STUDENT),
    "classes, iris": ("load_iris", (), CLASSIFIER),
    "classes, breast cancer": ("load_breast_cancer", (), CLASSIFIER),
    "classes, digits 3, 5, 8": ("load_digits", (3, 5, 8), CLASSIFIER),
}
NEIGHBOUR = """
import os
import numpy as np
A, parent = np.ones((500, 500)), {parent}
while os.getppid() == parent:
    A @ A
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
COMPILE_PROGRAM = """
import time
import skgpx
from numba.core import event

spent, kernels, running = [], [], []


class Listener(event.Listener):
    def on_start(self, event):
        running.append(time.process_time())

    def on_end(self, event):
        spent.append(time.process_time() - running.pop())
        if not running:
            kernels.append(spent[-1])


event.register("numba:compile", Listener())
import warnings
import numpy as np
from skgpx._front.compilation import _features, _networks, _particles, _series
warnings.simplefilter("ignore")
X = np.random.default_rng(0).random((40, 2))
y = np.sin(5.0 * X[:, 0])
chains, features, networks = (
    (lambda stage: lambda: stage(X, y))(stage)
    for stage in (_particles, _features, _networks)
)
for stage in (chains, _series, features, networks):
    kernels.clear()
    start = time.process_time()
    stage()
    print(time.process_time() - start, sum(kernels))
"""
STAGES = ("chains and likelihoods", "series", "draws", "networks")


def run(program: str, cache: str | None = None, **more: str) -> list[float]:
    """Numbers printed by a program in a fresh process."""
    environment = {k: v for k, v in os.environ.items() if k not in ONE_THREAD} | more
    environment |= {"SKGPX_NUMBA_CACHE": cache} if cache else {}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(line) for line in done.stdout.split()]


def time_imports(n_rounds: int) -> list[dict[str, object]]:
    """Medians of fresh processes, and the ratio to scikit-learn's."""
    programs = {name: IMPORT_PROGRAM.format(module=name) for name in IMPORTS}
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for name in IMPORTS:
        run(programs[name])  # fills the caches of the file system
    for _ in range(n_rounds):
        for name in IMPORTS:
            seconds[name] += run(programs[name])
    ours, theirs = (np.array(seconds[name]) for name in IMPORTS)
    rows = [{"what": f"import {n}", "s": float(np.median(seconds[n]))} for n in IMPORTS]
    rows[0]["ratio"] = float(np.median(ours / theirs))
    for row in rows:
        progress(row)
    return rows


def time_fits(name: str, program: str) -> list[dict[str, object]]:
    """First fit with an empty cache, with a full one, and the second fit."""
    with tempfile.TemporaryDirectory() as cache:
        empty = run(program, cache)[:2]
        full = run(program, cache)
    times = {"empty cache": empty, "full cache": full[:2], "same process": full[2:]}
    rows = [
        {"what": f"{name}, {when}", "s": wall, "processor s": cpu}
        for when, (wall, cpu) in times.items()
    ]
    for row in rows:
        progress(row)
    return rows


def time_compilation() -> list[dict[str, object]]:
    """What `compile_kernels` takes with an empty cache, by stage."""
    with tempfile.TemporaryDirectory() as cache:
        numbers = np.reshape(run(COMPILE_PROGRAM, cache), (-1, 2))
    rows: list[dict[str, object]] = [
        {"what": f"compile {stage}", "processor s": total, "of which kernels": kernels}
        for stage, (total, kernels) in zip(STAGES, numbers, strict=True)
    ]
    for row in rows:
        progress(row)
    return rows


@contextmanager
def neighbours(n: int) -> Iterator[None]:
    """Processes that keep the cores busy, ended at the end."""
    program = NEIGHBOUR.format(parent=os.getpid())
    command, env = [sys.executable, "-c", program], os.environ | ONE_THREAD
    busy = [subprocess.Popen(command, env=env) for _ in range(n)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def time_threads(n_rounds: int) -> list[dict[str, object]]:
    """Medians of a fit and its predictions by threads of BLAS, alternating."""
    rows: list[dict[str, object]] = []
    for name, (data, chosen, model) in FITS.items():
        program = THREADS_PROGRAM.format(data=data, chosen=chosen, model=model)
        run(program)  # compiles
        for state, n in (("as it is", 0), ("busy", os.cpu_count() or 1)):
            with neighbours(n):
                pairs = [
                    (run(program)[0], run(program, **ONE_THREAD)[0])
                    for _ in range(n_rounds)
                ]
            default, one = np.median(pairs, axis=0)
            row = {"what": f"{name}, {state}", "s": float(default)}
            rows.append(row | {"s, one thread": float(one), "ratio": default / one})
            progress(rows[-1])
    return rows


def main() -> None:
    """Time imports and first fits and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--only-threads", action="store_true", help="fits by threads of BLAS"
    )
    arguments = parser.parse_args()
    rows = time_threads(arguments.rounds)
    if arguments.only_threads:
        report("latency_threads", rows)
        return
    rows += time_imports(arguments.rounds)
    rows += time_compilation()
    folder = arguments.data and str(arguments.data)
    data = "diabetes" if folder else "sklearn_breast_cancer"
    classifier = FIT_PROGRAM.format(
        model="PLSClassifier(random_state=0)",
        data=data,
        folder=folder,
        standardise=False,
    )
    regressor = FIT_PROGRAM.format(
        model="PLSRegressor(likelihood=StudentT(df=4.0), random_state=0)",
        data="sklearn_diabetes",
        folder=folder,
        standardise=True,
    )
    rows += time_fits(f"PLSClassifier on {data}", classifier)
    rows += time_fits("PLSRegressor, Student-t, on sklearn_diabetes", regressor)
    report("latency", rows)


if __name__ == "__main__":
    main()
