"""Seconds of the stages of a fit."""

from __future__ import annotations

import time


class StageClock:
    """Seconds between calls, by the name of the stage that ends.

    Examples
    --------
    >>> from skgpx._stage_clock import StageClock
    >>> clock = StageClock()
    >>> clock.end_of("search")
    >>> list(clock.seconds)
    ['search']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def end_of(self, stage: str) -> None:
        """Note the time since the last call."""
        now = time.perf_counter()
        self.seconds[stage], self._last = now - self._last, now
