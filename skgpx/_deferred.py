"""A solution that is found when it is asked for, and not after every chunk of rows."""

from __future__ import annotations

from typing import Any, ClassVar

from skgpx._stage_clock import StageClock


class DeferredSolution:
    """Fitted attributes that follow from sums over rows, once one of them is read.

    `partial_fit` and `merge` change the sums, which is cheap, and forget the solution,
    which is not: a chain of them solves once, in the end. A subclass names these
    attributes and computes them; that this is done later changes no number.
    """

    _follows_from_sums: ClassVar[frozenset[str]]

    def _solution(self) -> dict[str, Any]:
        """Attributes that follow from the sums."""
        raise NotImplementedError

    def _defer(self, clock: StageClock) -> None:
        """Forget the solution of other sums; the clock has the stages before it."""
        for name in (*self._follows_from_sums, *clock.attributes()):
            vars(self).pop(name, None)
        self._unsolved = clock.attributes()

    def _solved(self, solution: dict[str, Any], clock: StageClock) -> None:
        """Keep a solution and what it has cost."""
        vars(self).update(solution, **clock.attributes())
        vars(self).pop("_unsolved", None)

    def __getattr__(self, name: str) -> Any:
        known, before = vars(self), vars(self).get("_unsolved")
        if before is not None and (name in self._follows_from_sums or name in before):
            clock = StageClock(before)
            solution = self._solution()
            clock.end_of("solution")
            self._solved(solution, clock)
        # another thread may have solved in the meantime
        if name in known:
            return known[name]
        kind = type(self).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")
