"""Independent pieces of a benchmark in processes of one thread each."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def add_jobs_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Give a command the options ``--jobs`` and ``--output``."""
    parser.add_argument("--jobs", type=int, default=1, help="processes, a thread each")
    parser.add_argument(
        "--output", default=name, help="name of the file in benchmarks/results"
    )


def each(
    function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], n_jobs: int
) -> list[Result]:
    """``function(*task)`` of every task, in their order, without warnings.

    With several processes the longest tasks should come first. Where they are the first
    to call the library, compile it before: ``skgpx.compile_kernels()``.
    """
    if n_jobs == 1:
        with warnings.catch_warnings():
            return [_alone(function, task) for task in tasks]
    with parallel_config("loky", inner_max_num_threads=1):
        calls = (delayed(_alone)(function, task) for task in tasks)
        found: list[Result] = Parallel(n_jobs, batch_size=1, pre_dispatch="all")(calls)
    return found


def _alone(function: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    """In one thread, also of PyTorch where that is loaded."""
    warnings.simplefilter("ignore")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with threadpool_limits(1):
        return function(*task)
