"""scikit-learn's callbacks, which are new in its version 1.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9: fits run without callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in without `set_callbacks`."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


class RoundReporter:
    """Tells the callbacks of an estimator about each round of steps.

    Parameters
    ----------
    estimator : BaseEstimator
        With or without `set_callbacks`.
    X, y : ndarray
        Training data, handed on to the callbacks.
    attributes : callable
        ``attributes(sample, model)`` gives the fitted attributes as if the fit ended
        now; only called when a callback asks for a fitted estimator.
    """

    def __init__(
        self, estimator: Any, X: Any, y: Any, attributes: Callable[..., dict[str, Any]]
    ):
        self._data = {"estimator": estimator, "X": X, "y": y}
        self._attributes, self._context = attributes, None
        if hasattr(estimator, "_init_callback_context"):
            # the number of rounds is not known in advance
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(**self._data)

    def __call__(self, sample: Any, model: Any) -> bool:
        """Report a round; True when a callback wants the fit to stop."""
        if self._context is None:
            return False
        context = self._context.subcontext(task_name="round")
        context.call_on_fit_task_begin(**self._data)
        return self._end(context, sample, model)

    def finish(self, sample: Any, model: Any) -> None:
        """Report the end of the fit."""
        if self._context is not None:
            self._end(self._context, sample, model)

    def _end(self, context: Any, sample: Any, model: Any) -> bool:
        return bool(
            context.call_on_fit_task_end(
                **self._data,
                reconstruction_attributes=lambda: self._attributes(sample, model),
            )
        )
