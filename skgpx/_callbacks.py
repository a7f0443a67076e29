"""Progress of a fit: callbacks, lines of the logger `skgpx`, seconds of its stages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_LOGGER = logging.getLogger("skgpx")
_Method = TypeVar("_Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn < 1.9: fits run without callbacks, and are logged

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in without `set_callbacks`."""

    def _with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


def with_callbacks(method: _Method) -> _Method:
    """scikit-learn's decorator of `fit`, which keeps the type of what it decorates."""
    decorated: _Method = _with_callbacks(method)
    return decorated


Attributes = Callable[[], dict[str, Any]]


class RoundReporter:
    """Reports the fit of an estimator, and each round of steps, to its callbacks.

    The logger `skgpx` gets a line of each round, and one at the end of a fit that had
    any, at level INFO.

    Parameters
    ----------
    estimator : BaseEstimator
        With or without `set_callbacks`.
    X, y : array-like
        Training data as passed to `fit`: callbacks may call methods of a fitted
        estimator with them.
    sample_weight : array-like or None
    **given : array-like or None
        Further arguments of `fit` with one value a row.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        **given: Any,
    ):
        given = {"sample_weight": sample_weight, **given}
        metadata = {name: one for name, one in given.items() if one is not None}
        self._data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._name, self._rounds = type(estimator).__name__, 0
        self._start = time.perf_counter()
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            # the number of rounds is not known in advance
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(**self._data)

    def round(self, attributes: Attributes, **figures: float) -> bool:
        """Report a round; True when a callback wants the fit to stop.

        ``attributes()`` gives the fitted attributes as if the fit ended now; it is
        called only if a callback asks for a fitted estimator. The figures, how far the
        fit is, go into the log.
        """
        self._rounds += 1
        self._log(f"round {self._rounds}", **figures)
        if self._context is None:
            return False
        context = self._context.subcontext(task_name="round")
        context.call_on_fit_task_begin(**self._data)
        return bool(
            context.call_on_fit_task_end(
                **self._data,
                reconstruction_attributes=attributes,
            )
        )

    @contextmanager
    def around(self, inner: Any) -> Iterator[None]:
        """Callbacks that propagate see the fit of an estimator within this one, too."""
        if self._context is None or not hasattr(inner, "set_callbacks"):
            yield
            return
        context = self._context.subcontext(task_name="fit-estimator")
        with context.propagate_callback_context(inner):
            context.call_on_fit_task_begin(**self._data)
            yield
            # this estimator cannot predict yet
            context.call_on_fit_task_end(**self._data)

    def finish(self) -> None:
        """Report the end of the fit; the estimator has all its attributes then."""
        if self._rounds:
            self._log(f"fitted after round {self._rounds}")
        if self._context is not None:
            self._context.call_on_fit_task_end(
                **self._data,
                reconstruction_attributes={},
            )

    def _log(self, what: str, **figures: float) -> None:
        if not _LOGGER.isEnabledFor(logging.INFO):
            return
        words = [what, *(f"{name} {value:.4g}" for name, value in figures.items())]
        seconds = time.perf_counter() - self._start
        _LOGGER.info("%s: %s (%.1f s)", self._name, ", ".join(words), seconds)


class StageClock:
    """Seconds between calls, by the name of the stage that ends.

    Parameters
    ----------
    before : dict, optional
        The `seconds` of another clock, for stages that came earlier.

    Examples
    --------
    >>> from skgpx._callbacks import StageClock
    >>> clock = StageClock()
    >>> clock.end_of("search")
    >>> list(clock.seconds)
    ['search']
    """

    def __init__(self, before: dict[str, float] | None = None) -> None:
        self.seconds = dict(before or {})
        self._last = time.perf_counter()

    def end_of(self, stage: str) -> None:
        """Note the time since the last call; a stage may have several parts."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
