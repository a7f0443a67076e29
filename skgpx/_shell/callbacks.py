"""Progress of a fit: callbacks, lines of the logger `skgpx`, seconds of its stages."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from skgpx._types import ArrayLike, Attributes, RowValues

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
    """scikit-learn's decorator of `fit`, which keeps the type of the method."""
    return _with_callbacks(method)


class RoundReporter:
    """Reports the fit of an estimator, and each round of steps, to its callbacks.

    The logger `skgpx` gets a line of level INFO after each round, and a line at the end
    of a fit that had rounds.

    Parameters
    ----------
    estimator : BaseEstimator
        With or without `set_callbacks`.
    X, y : array-like
        Training data as passed to `fit`: callbacks may call methods of a fitted
        estimator with them.
    sample_weight : array-like or None
    **row_arguments : array-like or None
        Further arguments of `fit` with one value a row.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None,
        sample_weight: RowValues,
        **row_arguments: RowValues,
    ):
        row_arguments = {"sample_weight": sample_weight, **row_arguments}
        metadata = {
            name: values for name, values in row_arguments.items() if values is not None
        }
        self._data: dict[str, Any] = {
            "estimator": estimator,
            "X": X,
            "y": y,
            "metadata": metadata,
        }
        self._name = type(estimator).__name__
        self._rounds = 0
        self._ends_fit = True
        self._start = time.perf_counter()
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            # the number of rounds is not known in advance
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(**self._data)

    def round(self, attributes: Callable[[], Attributes], **figures: float) -> bool:
        """Report a round.

        Parameters
        ----------
        attributes : callable
            Gives the fitted attributes as if the fit ended now. It is called only if a
            callback asks for a fitted estimator.
        **figures : float
            Progress of the fit, for the log.

        Returns
        -------
        stop : bool
            Whether a callback wants the fit to stop.
        """
        self._rounds += 1
        self._log(f"round {self._rounds}", **figures)
        return self._end_task("round", attributes)

    def search_round(self, **figures: float) -> bool:
        """Report a round of a search, after which the estimator cannot predict yet.

        Parameters
        ----------
        **figures : float
            Progress of the search, for the log.

        Returns
        -------
        stop : bool
            Whether a callback wants the search to stop.
        """
        self._log("search", **figures)
        return self._end_task("search", None)

    def _end_task(self, name: str, attributes: Callable[[], Attributes] | None) -> bool:
        """Tell callbacks of a task that has ended; whether one asks to stop."""
        if self._context is None:
            return False
        context = self._context.subcontext(task_name=name)
        context.call_on_fit_task_begin(**self._data)
        stop = context.call_on_fit_task_end(
            **self._data,
            reconstruction_attributes=attributes,
        )
        return bool(stop)

    @contextmanager
    def around(self, inner: BaseEstimator) -> Iterator[None]:
        """Let callbacks that propagate see the fit of an estimator within this fit."""
        if self._context is None or not hasattr(inner, "set_callbacks"):
            yield
            return
        context = self._context.subcontext(task_name="fit-estimator")
        with context.propagate_callback_context(inner):
            context.call_on_fit_task_begin(**self._data)
            yield
            # this estimator cannot predict yet
            context.call_on_fit_task_end(**self._data)

    def part(self) -> RoundReporter:
        """Reporter of one of several models of a fit: it does not report the end."""
        part = copy.copy(self)
        part._ends_fit = False
        return part

    def finish(self) -> None:
        """Report the end of the fit; the estimator has all its attributes then."""
        if not self._ends_fit:
            return
        if self._rounds:
            self._log(f"fitted after round {self._rounds}")
        if self._context is not None:
            self._context.call_on_fit_task_end(
                **self._data,
                reconstruction_attributes={},
            )

    def _log(self, message: str, **figures: float) -> None:
        if not _LOGGER.isEnabledFor(logging.INFO):
            return
        for name, value in figures.items():
            message += f", {name} {value:.4g}"
        seconds = time.perf_counter() - self._start
        _LOGGER.info("%s: %s (%.1f s)", self._name, message, seconds)


class StageClock:
    """Seconds between calls, by the name of the stage that ends.

    Parameters
    ----------
    before : dict, optional
        The `seconds` of another clock, for stages that came earlier.

    Examples
    --------
    >>> from skgpx._shell.callbacks import StageClock
    >>> clock = StageClock()
    >>> clock.end_of("search")
    >>> list(clock.seconds)
    ['search']
    """

    def __init__(self, before: dict[str, float] | None = None) -> None:
        self.seconds = dict(before or {})
        self._last = time.perf_counter()

    def end_of(self, stage: str) -> None:
        """Add the time since the last call; a stage may have several parts."""
        time_now = time.perf_counter()
        previous = self.seconds.get(stage, 0.0)
        self.seconds[stage] = previous + time_now - self._last
        self._last = time_now
