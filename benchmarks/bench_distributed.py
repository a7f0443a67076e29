"""Threads, and worker processes of a dask.distributed cluster on this machine.

    python -m benchmarks.bench_distributed [--quick] [--rounds 3] [--workers 1 2]
                                           [--fit_rows N ...] [--ways threads processes]
                                           [--cells 16] [--noises Gaussian ...]

chains
    A round of ten steps of four blocks of Langevin chains, and the next: a Poisson
    likelihood on 10 000 rows.
components
    Steps of six mixtures of waves, exchanged after each.
candidates
    The search for a kernel: few long tasks.
sums
    Sums of waves of two inputs, one pass over the rows in chunks, which are sent.
blocks
    The same where the chunks are already: each worker makes its own and adds them to a
    model; the models are merged.
predictions
    Means and standard deviations in blocks of rows.
round
    Two empty tasks: what a round costs.

Each is timed in turn on one thread, on threads and on worker processes of one thread
each; medians of rounds. `s` is wall time. `client_s` and `worker_s` are the CPU time of
this process, all threads together, and of the busiest worker: on a busy machine their
sum says more than wall time, and is a bound of it where they take turns. joblib runs
tasks here where a cluster has one worker. `sent_MB` is what the client sends in a run,
copies for several workers counted, and `largest_task_kB` the largest of the tasks.
`worker_MB` is the largest memory that a worker has had, `client_MB` that of this
process.

``--fit_rows`` fits `PLSRegressor()` to N made-up rows of eight columns instead, each
part made where it is read, by two threads of this process, with cells in files, or by
two worker processes. `search_s` is the client's time for kernel and inducing points,
`inference_s` that for everything that all rows take, `copies` the rows of all cells for
each row, and `GB_of_cells` their size. "rmse" and "coverage" (of 95 % intervals) are
those of `n_new` further rows, in `predict_s`.

``--cells 16 --fit_rows N`` compares fits to N rows in one cell of this process and in
16 cells on two worker processes, under a given kernel: `largest` and `rms` are
distances of the posterior means at 2000 further rows in posterior standard deviations,
and `std_ratio` is the mean ratio of these.
"""

from __future__ import annotations

import argparse
import copy
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import cloudpickle
import dask
import dask.array as array
import distributed
import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Matern

from benchmarks.report import progress, report
from skgpx import (
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    compile_kernels,
)
from skgpx._pls import _lazy_fit
from skgpx._shell.parallel import workers
from skgpx.likelihoods import Gaussian, Poisson, StudentT

Array = NDArray[np.float64]
CHUNK_ROWS = 1 << 18
PART_ROWS = 100_000


def smooth_surface(X: Array) -> Array:
    """A function of two inputs."""
    return np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])


def surface(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Rows of two inputs and a noisy function of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n, 2))
    return X, smooth_surface(X) + 0.2 * rng.normal(size=n)


WAVES = SpectralVGPRegressor(
    "series", domain=[[0.0, 3.0]] * 2, n_basis=300, optimizer=None, noise_variance=0.04
)


def seen(model: Any, n: int, seed: int) -> Any:
    """Model of a chunk that only this worker has."""
    return copy.deepcopy(model).partial_fit(*surface(n, seed))


def merged_blocks(n_chunks: int, rows: int) -> Callable[[Any], object]:
    """Chunks where they are; the client gets one model."""

    def run(client: Any) -> object:
        parts = [dask.delayed(seen)(WAVES, rows, seed) for seed in range(n_chunks)]
        whole = dask.delayed(sum)(parts)
        if client is not None:
            return client.compute(whole).result()
        threads = joblib.effective_n_jobs(None)
        return whole.compute(scheduler="threads", num_workers=threads)

    return run


def nothing() -> None:
    """Task of a round."""


def cases(small: bool) -> dict[str, Callable[[Any], object]]:
    """Name → what is run, given the client of a cluster or None."""
    n = 2000 if small else 10_000
    X, y = surface(n)
    counts = np.random.default_rng(1).poisson(np.exp(1.0 + y))
    chains = PLSRegressor(
        RBF(), likelihood=Poisson(), optimizer=None, n_inducing=200,
        n_particles=400, max_iter=30, tol=0.0, method="mala", random_state=0,
    )  # fmt: skip
    waves = SteinRFFRegressor(
        RBF(), optimizer=None, noise_variance=0.04, validation_fraction=0,
        max_iter=5 if small else 10, random_state=0,
    )  # fmt: skip
    candidates = PLSRegressor(n_inducing=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(chains).set_params(max_iter=1).fit(X, counts)
    many = surface(30_000 if small else 100_000)[0]
    n_chunks, rows = (2, 20_000) if small else (4, CHUNK_ROWS)
    big = surface((1 if small else 3) * CHUNK_ROWS + 1)

    def rounds(client: Any) -> None:
        del client
        with workers(None if joblib_is_dask() else 2) as run:
            for _ in range(20):
                run(nothing, [()] * 2)

    return {
        "chains": lambda _: clone(chains).fit(X, counts),
        "components": lambda _: clone(waves).fit(X[:3000], y[:3000]),
        "candidates": lambda _: clone(candidates).fit(X[:4000], y[:4000]),
        "sums": lambda _: clone(WAVES).fit(*big),
        "blocks": merged_blocks(n_chunks, rows),
        "predictions": lambda _: fitted.predict(many, return_std=True),
        "round": rounds,
    }


def joblib_is_dask() -> bool:
    """Whether a cluster is joblib's backend now."""
    backend, _ = joblib.parallel.get_active_backend()
    return hasattr(backend, "client")


class Sent:
    """Bytes of tasks and data that a client sends."""

    def __init__(self, client: Any):
        self.tasks: list[int] = []
        self.data = 0
        self._submit, self._scatter = client.submit, client.scatter
        client.submit, client.scatter = self.submit, self.scatter
        self._client = client

    def submit(self, *args: Any, **given: Any) -> Any:
        """Submit and note the size."""
        self.tasks.append(len(cloudpickle.dumps(given.get("tasks"))))
        return self._submit(*args, **given)

    def scatter(self, data: Any, **given: Any) -> Any:
        """Scatter and note the size."""
        copies = len(self._client.nthreads()) if given.get("broadcast") else 1
        self.data += copies * len(cloudpickle.dumps(data))
        return self._scatter(data, **given)

    def stop(self) -> None:
        """Leave the client as it was."""
        self._client.submit, self._client.scatter = self._submit, self._scatter


@contextmanager
def ways(sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Name → client of a cluster, or None for threads of this process."""
    found: dict[str, Any] = {"thread": None}
    found |= {f"{n} threads": None for n in sizes if n > 1}
    with ExitStack() as stack:
        for n in sizes:
            cluster = distributed.LocalCluster(
                n_workers=n, threads_per_worker=1, dashboard_address=":0"
            )
            stack.enter_context(cluster)
            client = distributed.Client(cluster, set_as_default=False)
            found[f"{n} process{'es' * (n > 1)}"] = stack.enter_context(client)
        yield found


class Took(NamedTuple):
    """Seconds of a run: wall time, CPU of this process and of the busiest worker."""

    s: float
    client_s: float
    worker_s: float


def in_context(name: str, client: Any, run: Callable[[Any], object]) -> Took:
    """Seconds of a run in one of the ways."""
    if client is not None:
        how: dict[str, Any] = {"backend": "dask", "client": client}
    elif name == "thread":
        how = {"n_jobs": 1}
    else:
        how = {"backend": "threading", "n_jobs": int(name.split()[0])}
    default = client.as_current() if client is not None else nullcontext()
    with warnings.catch_warnings(), default, joblib.parallel_config(**how):
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = client.run(time.process_time) if client is not None else {}
        start, busy = time.perf_counter(), time.process_time()
        run(client)
        wall, busy = time.perf_counter() - start, time.process_time() - busy
        after = client.run(time.process_time) if client is not None else {}
    workers_busy = [after[worker] - before[worker] for worker in before]
    return Took(wall, busy, max(workers_busy, default=0.0))


def peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def measure(name: str, run: Callable[[Any], object], found: Any, n: int) -> list[dict]:
    """Rows of a case, one for each way."""
    seconds: dict[str, list[Took]] = {way: [] for way in found}
    sent: dict[str, Sent] = {}
    for way, client in found.items():
        # the first run compiles, and is measured for what it sends
        if client is not None:
            sent[way] = Sent(client)
        in_context(way, client, run)
        if client is not None:
            sent[way].stop()
    for _ in range(n):
        for way, client in found.items():
            seconds[way].append(in_context(way, client, run))
    rows = []
    for way, client in found.items():
        took = np.array(seconds[way])
        row: dict[str, Any] = {"case": name, "way": way}
        row |= dict(zip(Took._fields, np.median(took, axis=0), strict=True))
        row["client_MB"] = peak()
        if client is not None:
            row["sent_MB"] = (sum(sent[way].tasks) + sent[way].data) / 1e6
            row["largest_task_kB"] = max(sent[way].tasks, default=0) / 1e3
            row["worker_MB"] = max(client.run(peak).values())
        progress(row)
        rows.append(row)
    return rows


def lazy_rows(n: int, first_seed: int = 0) -> tuple[Any, Any]:
    """Dask arrays of n rows, of bench_scale's function of eight columns."""
    parts = []
    for i, first in enumerate(range(0, n, PART_ROWS)):
        size = min(PART_ROWS, n - first)
        part = dask.delayed(part_of_rows)(size, first_seed + i)
        parts.append(array.from_delayed(part, (size, 9), np.float64))
    table = array.concatenate(parts)
    return table[:, :8], table[:, 8]


def part_of_rows(n: int, seed: int) -> Array:
    """Rows of one part, (n, 9)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    f = np.sin(X[:, 0] * X[:, 1]) + 0.5 * X[:, 2] ** 2 + X[:, 3] + np.sin(2 * X[:, 4])
    return np.column_stack((X, f + 0.2 * rng.standard_normal(n)))


def lengths(model: Any) -> list[int]:
    """Number of rows of each cell, with its halo; none where points suffice."""
    cells = getattr(model.posterior_, "cells", None)
    if cells is None:
        return []
    return list(cells.map(len, dict.fromkeys(range(len(cells.tables)), ())).values())


def fit_rows(n: int, client: Any) -> dict[str, Any]:
    """One fit to n rows, and predictions at further ones."""
    compile_kernels()
    before = client.run(time.process_time) if client is not None else {}
    start, busy = time.perf_counter(), time.process_time()
    model = PLSRegressor(random_state=0).fit(*lazy_rows(n))
    row: dict[str, Any] = {"case": "rows", "n": n, "way": "threads"}
    row["s"] = time.perf_counter() - start
    row["client_s"] = time.process_time() - busy
    row["client_MB"] = peak()
    if client is not None:
        row["way"] = "processes"
        after = client.run(time.process_time)
        row["worker_s"] = sum(after[worker] - before[worker] for worker in before)
        row["worker_MB"] = max(client.run(peak).values())
    stages = model.stage_seconds_
    row["search_s"] = stages["search"] + stages["selection"]
    row["inference_s"] = stages["inference"]
    sizes = lengths(model)
    row |= {"points": len(model.inducing_points_), "cells": len(sizes)}
    row |= {"copies": sum(sizes) / n, "GB_of_cells": 8e-9 * 11 * sum(sizes)}
    n_new = 20_000
    X_new, y_new = lazy_rows(n_new, first_seed=10**6)
    start = time.perf_counter()
    mean, std = model.predict(X_new, return_std=True)
    mean, std, truth = dask.compute(mean, std, y_new)
    row["predict_s"] = time.perf_counter() - start
    row |= {"n_new": n_new, "rmse": float(np.sqrt(np.mean((mean - truth) ** 2)))}
    row["coverage"] = float(np.mean(np.abs(mean - truth) < 1.96 * std))
    progress(row)
    return row


MADE_UP = {
    "Gaussian": lambda f, rng: f + 0.2 * rng.standard_normal(len(f)),
    "StudentT": lambda f, rng: f + 0.2 * rng.standard_t(4.0, len(f)),
    "Poisson": lambda f, rng: rng.poisson(np.exp(f)).astype(float),
    "Bernoulli": lambda f, rng: np.where(rng.logistic(size=len(f)) < 2.0 * f, "a", "b"),
}
LIKELIHOODS = {
    "Gaussian": Gaussian(0.04),
    "StudentT": StudentT(df=4.0, scale=0.2),
    "Poisson": Poisson(),
    "Bernoulli": None,
}


def same_model(n: int, n_cells: int, name: str, client: Any) -> dict[str, Any]:
    """The same rows in one cell of this process, and in cells of two processes."""
    rng = np.random.default_rng(0)
    X, _ = surface(n)
    y = MADE_UP[name](smooth_surface(X), rng)
    size = n // 8
    rows = array.from_array(X, (size, 2)), array.from_array(y, size)
    kind = PLSClassifier if name == "Bernoulli" else PLSRegressor
    model = kind(
        Matern([0.7, 1.0], nu=1.5), likelihood=LIKELIHOODS[name], optimizer=None,
        n_inducing=100, n_neighbors=40, random_state=0,
    )  # fmt: skip
    if name != "Bernoulli":
        model.set_params(normalize_y=False)
    new = surface(2000, seed=1)[0]
    compile_kernels()
    moments = {}
    row: dict[str, Any] = {"case": "cells", "n": n, "cells": n_cells, "noise": name}
    for way, rows_of_cell in (("one", n), ("several", n // n_cells)):
        _lazy_fit.CELL_ROWS = rows_of_cell
        where = dask.config.set(scheduler="threads", num_workers=1)
        if way == "several":
            where = client.as_current()
        before = client.run(time.process_time)
        busy = time.process_time()
        with where:
            fitted = clone(model).fit(*rows)
            mean, variance = fitted.posterior_.marginals(new).moments()
        moments[way] = mean, np.sqrt(variance)
        row[f"{way}_client_s"] = time.process_time() - busy
        after = client.run(time.process_time)
        row[f"{way}_worker_s"] = sum(after[k] - before[k] for k in before)
    assert len(fitted.posterior_.cells.tables) == n_cells
    distance = np.abs(moments["several"][0] - moments["one"][0]) / moments["one"][1]
    row["largest"] = float(distance.max())
    row["rms"] = float(np.sqrt(np.mean(distance**2)))
    row["std_ratio"] = float(np.mean(moments["several"][1] / moments["one"][1]))
    progress(row)
    return row


def all_fits(sizes: list[int], names: list[str]) -> list[dict[str, Any]]:
    """Fits to numbers of rows, by threads and by two processes."""
    rows = []
    for n in sizes:
        if "threads" in names:
            with dask.config.set(scheduler="threads", num_workers=2):
                rows.append(fit_rows(n, None))
        if "processes" in names:
            with (
                distributed.LocalCluster(
                    n_workers=2, threads_per_worker=1, dashboard_address=":0"
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                rows.append(fit_rows(n, client))
    return rows


def main() -> None:
    """Measure every case in every way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--fit_rows", type=int, nargs="+")
    parser.add_argument("--ways", nargs="+", default=["threads", "processes"])
    parser.add_argument("--cells", type=int)
    parser.add_argument("--noises", nargs="+", default=list(LIKELIHOODS))
    given = parser.parse_args()
    if given.cells:
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            compared = [
                same_model(n, given.cells, name, client)
                for n in given.fit_rows
                for name in given.noises
            ]
        report("distributed_cells", compared)
        return
    if given.fit_rows:
        report("distributed_rows", all_fits(given.fit_rows, given.ways))
        return
    rows: list[dict] = []
    with ways(given.workers) as found:
        for name, run in cases(given.quick).items():
            if given.cases is None or name in given.cases:
                rows += measure(name, run, found, 1 if given.quick else given.rounds)
    report("distributed", rows, {"quick": given.quick, "rounds": given.rounds})


if __name__ == "__main__":
    main()
