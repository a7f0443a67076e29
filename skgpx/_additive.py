"""Models of sums over rows: they add, and are solved when they are asked."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._stage_clock import StageClock
from skgpx._validation import check_is_fitted


class AdditiveModel:
    """An estimator of sums over rows: ``one + two`` has the rows of both.

    Fitted attributes that follow from the sums are found when one of them is read.
    `partial_fit` and `merge` change the sums, which is cheap, and forget the solution,
    which is not: a chain of them solves once, in the end. A subclass names these
    attributes and computes them; that this is done later changes no number, as long as
    parameters stay as they are: those of the first use count.
    """

    _follows_from_sums: ClassVar[frozenset[str]]

    def merge(self, other: Any) -> Self:
        """New model of the rows of both."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Self:
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.merge(other)

    def __radd__(self, other: Any) -> Self:
        """``sum(models)`` begins with zero, which stands for a part without rows."""
        return self + other if isinstance(other, int) else NotImplemented

    def _check_other(self, other: Any) -> None:
        """Refuse to merge what is not fitted, or has other sums."""
        check_is_fitted(self)
        if not isinstance(other, type(self)):
            raise ValueError(
                f"{type(self).__name__}.merge expects another {type(self).__name__}; "
                f"got {other!r}."
            )
        check_is_fitted(other)

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
            try:
                # an attribute is no public method, which would hold BLAS
                with one_blas_thread():
                    solution = self._solution()
            except AttributeError as error:
                # which would read as: there is no such attribute
                raise RuntimeError(f"The solution failed: {error}") from error
            clock.end_of("solution")
            self._solved(solution, clock)
        # another thread may have solved in the meantime
        if name in known:
            return known[name]
        kind = type(self).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")
