"""One table of cases and estimators, the judge of every change.

    python -m benchmarks.panel [--only PATTERN ...] [--quick] [--jobs N] [--data FOLDER]
                               [--output FILE] [--resume] [--against FILE]

A cell is one estimator on one case of `panel_cases`, with a few seeds: root mean square
error (from E[y] where that is known), negative log predictive density (log loss for
classes), coverage of 95 % intervals (accuracy for classes), CPU seconds of fit and
predictions, warnings. Seeds make the data and the estimator's `random_state`, so that
two files are compared seed by seed. PATTERN is part of "case / estimator".

Each cell is measured in a worker process that has compiled everything before; an
exception, a death or more than `--timeout` seconds is what the cell says. The file is
written after each. CPU seconds are those of all threads of the worker, BLAS as the
environment has it: beside busy neighbours threads of BLAS that wait for one another
make seconds of hundredths, and only OMP_NUM_THREADS=1 gives figures to compare.

``--against`` compares with a stored file and prints the cells that are worse by more
than two standard errors of the paired differences, and by more than `LEAST`; then for
each estimator the mean NLPD over its rows, the median ratio of CPU seconds, and how
many scores are worse and better.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import skgpx
from benchmarks.data import add_data_argument
from benchmarks.panel_cases import CASES, PEERS, Problem, estimator
from benchmarks.report import RESULTS, machine, progress, table

CPU = (
    "of all threads of a worker, BLAS as it is: neighbours on the machine inflate them"
)
# Scores, and the differences that are never called worse: relative ones of errors and
# seconds, nats, shares.
LEAST = {"rmse": 0.01, "nlpd": 0.01, "coverage": 0.01, "accuracy": 0.005}
LEAST["cpu_seconds"] = 0.2
FLOORS = {"rmse": 1e-6, "cpu_seconds": 0.1}  # of what differences are relative to
# Seeds of the peers, which do not change, and of a short run where they are not two.
PEER_SEEDS = 2
QUICK_SEEDS = dict.fromkeys(PEERS, 0) | {"DecoupledSampler": 1, "SteinRFFRegressor": 1}
Run = dict[str, Any]
Line = dict[str, Any]
Task = tuple[str, str, int]


# ---- One cell, in a worker -----------------------------------------------------------


def measure(case: str, name: str, seed: int) -> Run:
    """Scores of one estimator on one case; warnings by class and first words."""
    made = CASES[case]
    problem = made.make(np.random.default_rng(seed), *made.arguments)
    model = estimator(name, problem.X, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model.fit(problem.X, problem.y, **problem.given)
        if hasattr(model, "predict_proba"):
            predicted = model.predict_proba(problem.X_test)
        else:
            kwargs = {"return_std": True, **problem.given_test}
            predicted = model.predict(problem.X_test, **kwargs)[0]
        seconds = time.process_time() - start
        if predicted.ndim == 2:
            scores = _of_classes(model.classes_, predicted, problem.y_test)
        else:
            scores = _of_numbers(model, predicted, problem)
    said = [f"{w.category.__name__}: {str(w.message)[:60]}" for w in caught]
    scores = {key: float(f"{value:.5g}") for key, value in scores.items()}
    return scores | {"cpu_seconds": round(seconds, 3) or 1e-3, "warnings": said}


def _of_numbers(model: Any, mean: np.ndarray, problem: Problem) -> dict[str, float]:
    truth = problem.y_test if problem.truth is None else problem.truth
    distribution = skgpx.predict_dist(model, problem.X_test, **problem.given_test)
    low, high = distribution.interval(0.95).T
    return {
        "rmse": np.sqrt(np.mean((mean - truth) ** 2)),
        "nlpd": -np.mean(distribution.log_density(problem.y_test)),
        "coverage": np.mean((low <= problem.y_test) & (problem.y_test <= high)),
    }


def _of_classes(classes: np.ndarray, p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    columns = np.searchsorted(classes, y)
    right = np.maximum(p[np.arange(len(y)), columns], 1e-15)
    found = np.mean(np.argmax(p, axis=1) == columns)
    return {"nlpd": -np.mean(np.log(right)), "accuracy": found}


def _work(channel: Any) -> None:
    """Answer tasks until the other end closes."""
    skgpx.compile_kernels()
    channel.send(None)
    while True:
        try:
            task = channel.recv()
        except EOFError:
            return
        try:
            channel.send(measure(*task))
        except FileNotFoundError as missing:
            channel.send({"skipped": str(missing)})
        except Exception as error:  # noqa: BLE001  a cell that fails is a result
            channel.send({"error": f"{type(error).__name__}: {str(error)[:200]}"})


class Worker:
    """A process that measures cells, replaced where it dies or takes too long."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.channel.recv()

    def measure(self, task: Task, timeout: float) -> Run:
        """What the cell says; without an answer the process ends."""
        self.channel.send(task)
        try:
            if self.channel.poll(timeout):
                return self.channel.recv()
            error = f"more than {timeout:g} s"
        except EOFError:
            error = "the process died"
        self.process.kill()
        self.process.join()
        return {"error": error}


def measured(
    tasks: list[Task], n_jobs: int, timeout: float
) -> Iterator[tuple[Task, Run]]:
    """Cells as they are done, by ``n_jobs`` workers."""
    skgpx.compile_kernels()  # once, before the workers do
    idle: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(n_jobs):
        idle.put(Worker())

    def one(task: Task) -> tuple[Task, Run]:
        worker = idle.get()
        found = worker.measure(task, timeout)
        idle.put(worker if worker.process.is_alive() else Worker())
        return task, found

    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            for done in as_completed([pool.submit(one, task) for task in tasks]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


# ---- The file ------------------------------------------------------------------------


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Cells asked for: all cases with their first seed, then with the second ..."""
    found = []
    for name, case in CASES.items():
        for one in case.estimators:
            n_seeds = min(
                case.n_seeds, options.seeds, PEER_SEEDS if one in PEERS else 99
            )
            if options.quick:
                n_seeds = min(n_seeds, QUICK_SEEDS.get(one, 2)) if case.quick else 0
            if any(p.lower() in f"{name} / {one}".lower() for p in options.only):
                found += [(name, one, seed) for seed in range(n_seeds)]
    return sorted(found, key=lambda task: task[2])


def store(path: Path, content: dict[str, Any]) -> None:
    """Write the file whole, a line a run, so that a cut run keeps what it has."""
    head = {key: value for key, value in content.items() if key != "runs"}
    lines = ",\n".join(json.dumps(run) for run in content["runs"])
    part = path.with_suffix(".part")
    part.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "runs": [\n{lines}\n]}}\n')
    part.replace(path)


Cells = dict[tuple[str, str], dict[int, Run]]


def cells_of(content: dict[str, Any]) -> Cells:
    """Runs by case and estimator, then by seed."""
    cells: Cells = {}
    for run in content["runs"]:
        cells.setdefault((run["case"], run["estimator"]), {})[run["seed"]] = run
    return cells


def lines_of(cells: Cells) -> list[Line]:
    """The printed table: means over seeds."""
    lines = []
    for (case, name), runs in cells.items():
        line: Line = {"case": case, "estimator": name, "seeds": len(runs)}
        for key in LEAST:
            values = [run[key] for run in runs.values() if key in run]
            line[key] = float(np.mean(values)) if values else ""
        said = [text for run in runs.values() for text in run.get("warnings", ())]
        errors = [run["error"] for run in runs.values() if "error" in run]
        line["warnings"] = len(said)
        line["first"] = (errors or said or [""])[0][:70]
        lines.append(line)
    return lines


# ---- Against another file ------------------------------------------------------------


def compare(new: Cells, old: Cells) -> tuple[list[Line], list[Line]]:
    """Cells that are worse, and the sum over rows of each estimator."""
    common, sums = [key for key in new if key in old], []
    worse = [found for key in common for found in changes(key, new[key], old[key])]
    better = [found for key in common for found in changes(key, old[key], new[key])]
    for first in dict.fromkeys(name.split()[0] for _, name in common):
        cells = [(new[key], old[key]) for key in common if key[1].split()[0] == first]
        nlpd = [p.mean(axis=1) for cell in cells if (p := _pairs(*cell, "nlpd")).size]
        cpu = [
            p.sum(axis=1) for cell in cells if (p := _pairs(*cell, "cpu_seconds")).size
        ]
        after, before = np.mean(nlpd, axis=0) if nlpd else (np.nan, np.nan)
        line = {"estimator": first, "rows": len(cells), "NLPD before": before}
        line |= {"NLPD": after, "median CPU ratio": np.median([a / b for a, b in cpu])}
        for label, found in (("worse", worse), ("better", better)):
            line[label] = sum(one["estimator"].split()[0] == first for one in found)
        sums.append(line)
    return worse, sums


def changes(
    cell: tuple[str, str], new: dict[int, Run], old: dict[int, Run]
) -> Iterator[Line]:
    """Scores of one cell that are worse, with what they were."""
    line: Line = {"case": cell[0], "estimator": cell[1]}
    both = [seed for seed in new if seed in old]
    failed = [new[s]["error"][:60] for s in both if "error" in new[s]]
    if failed and not any("error" in old[s] for s in both):
        yield line | {"score": "error", "after": failed[0]}
    said, unsaid = (
        sum(bool(run[s].get("warnings")) for s in both) for run in (new, old)
    )
    if said > unsaid:
        yield line | {"score": "warnings", "before": unsaid, "after": said}
    for key, least in LEAST.items():
        after, before = pairs = _pairs(new, old, key)
        loss = after - before
        if key == "coverage":
            loss = np.abs(after - 0.95) - np.abs(before - 0.95)
        elif key == "accuracy":
            loss = before - after
        elif key != "nlpd":
            loss = loss / max(before.sum() / max(len(before), 1), FLOORS[key])
        error = loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else 0.0
        if pairs.size and not loss.mean() <= max(2.0 * error, least):
            found = {"score": key, "before": before.mean(), "after": after.mean()}
            ratio = loss.mean() / error if error else ""
            yield line | found | {"standard errors": ratio, "seeds": len(loss)}


def _pairs(new: dict[int, Run], old: dict[int, Run], key: str) -> np.ndarray:
    """Scores after and before, of the seeds that both have, (2, seeds)."""
    seeds = [s for s in new if key in new[s] and key in old.get(s, ())]
    pairs = np.array([[run[s][key] for s in seeds] for run in (new, old)], float)
    return np.nan_to_num(pairs, nan=1e9, posinf=1e9)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write, print; compare where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--only", nargs="+", default=[""], metavar="PATTERN")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and cases")
    parser.add_argument("--seeds", type=int, default=99, help="at most so many")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a cell")
    parser.add_argument("--output", type=Path, default=RESULTS / "panel.json")
    parser.add_argument(
        "--resume", action="store_true", help="keep cells of the output"
    )
    parser.add_argument("--against", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.data is not None:
        os.environ["SKGPX_BENCH_DATA"] = str(options.data)  # of the workers, too
    content = run(options)
    write(table(lines_of(cells_of(content))))
    if options.against is not None:
        old = json.loads(options.against.read_text())
        worse, sums = compare(cells_of(content), cells_of(old))
        if old["settings"]["threads"] != content["settings"]["threads"]:
            write("\nCPU seconds: measured there with other numbers of BLAS threads.")
        write(f"\nWorse: {len(worse)}", table(worse))
        write("\nCells that both files have, by estimator", table(sums))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure what was asked for, and keep it as it comes."""
    runs, skipped = [], {}
    if options.resume and options.output.exists():
        runs = json.loads(options.output.read_text())["runs"]
    known = {(one["case"], one["estimator"], one["seed"]) for one in runs}
    tasks = [task for task in tasks_of(options) if task not in known]
    threads = [library["num_threads"] for library in threadpool_info()]
    settings = {"quick": options.quick, "jobs": options.jobs, "threads": threads}
    content: dict[str, Any] = {"settings": settings | {"CPU seconds": CPU}}
    content |= {"machine": machine(), "runs": runs}
    options.output.parent.mkdir(exist_ok=True)
    for task, found in measured(tasks, options.jobs, options.timeout):
        if "skipped" in found:
            skipped[task[0]] = found["skipped"]
            continue
        runs.append(dict(zip(("case", "estimator", "seed"), task, strict=True)) | found)
        progress(runs[-1] | {"warnings": len(found.get("warnings", ()))})
        store(options.output, content)
    write(*(f"{case}: skipped. {reason}" for case, reason in skipped.items()))
    return content


def write(*texts: str) -> None:
    """Lines on the standard output."""
    sys.stdout.write("".join(f"{text}\n" for text in texts))


if __name__ == "__main__":
    main()
