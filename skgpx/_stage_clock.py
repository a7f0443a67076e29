"""Seconds and memory of the stages of a fit."""

from __future__ import annotations

import sys
import time

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Bytes in a unit of ru_maxrss, in MiB.
_UNIT = (1.0 if sys.platform == "darwin" else 1024.0) / 2**20


class StageClock:
    """Seconds between calls, by the name of the stage that ends, and memory.

    Memory is the growth of the peak of the resident memory of this process since it
    began, which the operating system keeps. It is what a stage needed beyond all that
    was needed before: zero where the stage did with that. Other threads and what is
    loaded or compiled meanwhile count; worker processes do not. Not known on Windows.

    Parameters
    ----------
    before : dict, optional
        What `attributes` of another clock gave, for stages that came earlier.

    Attributes
    ----------
    seconds : dict
    megabytes : dict
        Growth in MiB; empty where it is not known.

    Examples
    --------
    >>> from skgpx._stage_clock import StageClock
    >>> clock = StageClock()
    >>> clock.end_of("search")
    >>> list(clock.seconds)
    ['search']
    """

    def __init__(self, before: dict[str, dict[str, float]] | None = None) -> None:
        earlier = {} if before is None else before
        self.seconds = dict(earlier.get("stage_seconds_", {}))
        self.megabytes = dict(earlier.get("stage_megabytes_", {}))
        self._last, self._peak = time.perf_counter(), _peak_megabytes()

    def end_of(self, stage: str) -> None:
        """Note time and growth since the last call; a stage may have several parts."""
        now, peak = time.perf_counter(), _peak_megabytes()
        _add(self.seconds, stage, now - self._last)
        self._last = now
        if peak is not None and self._peak is not None:
            _add(self.megabytes, stage, peak - self._peak)
            self._peak = peak

    def attributes(self) -> dict[str, dict[str, float]]:
        """Fitted attributes that say what the stages cost."""
        return {
            "stage_seconds_": self.seconds,
            "stage_megabytes_": self.megabytes,
        }


def _add(total: dict[str, float], stage: str, value: float) -> None:
    total[stage] = total.get(stage, 0.0) + value


def _peak_megabytes() -> float | None:
    """Largest resident memory of this process so far; None where it is not kept."""
    if resource is None:
        return None
    return _UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
