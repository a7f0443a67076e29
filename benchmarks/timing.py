"""Alternating timings: on a shared machine only ratios within one process count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Step = Callable[[], object]
Clock = Callable[[], float]


class Timing(NamedTuple):
    """Seconds per call: every contender in every round."""

    seconds: dict[str, NDArray[np.float64]]  # name -> (n_rounds,)

    def median(self, name: str) -> float:
        """Median seconds per call of one contender."""
        return float(np.median(self.seconds[name]))

    def ratio(self, slow: str, fast: str) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of slow / fast over rounds."""
        quotient = self.seconds[slow] / self.seconds[fast]
        low, middle, high = np.quantile(quotient, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)


def alternate(
    contenders: Mapping[str, Step],
    n_rounds: int = 15,
    block_seconds: float = 0.05,
    clock: Clock = time.perf_counter,
) -> Timing:
    """Time blocks of calls, one contender after the other, ``n_rounds`` times.

    The first calls of each, with any compilation, are left out. A block lasts about
    ``block_seconds``, and at least one call. For contenders on one thread
    ``time.process_time`` leaves out the time that other programs are given.
    """
    sizes = {
        name: _block_size(step, block_seconds, clock)
        for name, step in contenders.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(n_rounds):
        for name, step in contenders.items():
            seconds[name].append(_seconds_per_call(step, sizes[name], clock))
    return Timing({name: np.array(values) for name, values in seconds.items()})


def _block_size(step: Step, block_seconds: float, clock: Clock) -> int:
    first = _seconds_per_call(step, 1, clock)
    n_calls = 1 if first > block_seconds else 3
    return max(1, int(block_seconds / _seconds_per_call(step, n_calls, clock)))


def _seconds_per_call(step: Step, n_calls: int, clock: Clock) -> float:
    start = clock()
    for _ in range(n_calls):
        step()
    return (clock() - start) / n_calls
