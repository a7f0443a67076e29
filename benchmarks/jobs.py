"""Independent measurements in processes of one thread each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import joblib
from threadpoolctl import threadpool_limits


def each(
    function: Callable[..., Any], items: Iterable[tuple[Any, ...]], jobs: int
) -> Iterator[Any]:
    """Results of ``function(*item)``, in order, from so many processes."""
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        run = joblib.Parallel(jobs, return_as="generator")
        yield from run(joblib.delayed(_alone)(function, item) for item in items)


def _alone(function: Callable[..., Any], item: tuple[Any, ...]) -> Any:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*item)
