"""scikit-learn's callbacks, which are new in its version 1.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn < 1.9: fits run without callbacks

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

    Parameters
    ----------
    estimator : BaseEstimator
        With or without `set_callbacks`.
    X, y : array-like
        Training data as passed to `fit`: callbacks may call methods of a fitted
        estimator with them.
    sample_weight : array-like or None
    **given : array-like or None
        What else `fit` was given of the rows.
    """

    def __init__(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any, **given: Any
    ):
        given = {"sample_weight": sample_weight, **given}
        metadata = {name: one for name, one in given.items() if one is not None}
        self._data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            # the number of rounds is not known in advance
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(**self._data)

    def round(self, attributes: Attributes) -> bool:
        """Report a round; True when a callback wants the fit to stop.

        ``attributes()`` gives the fitted attributes as if the fit ended now; it is
        called only if a callback asks for a fitted estimator.
        """
        if self._context is None:
            return False
        context = self._context.subcontext(task_name="round")
        context.call_on_fit_task_begin(**self._data)
        return bool(
            context.call_on_fit_task_end(
                **self._data, reconstruction_attributes=attributes
            )
        )

    def finish(self) -> None:
        """Report the end of the fit; the estimator has all its attributes then."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                **self._data, reconstruction_attributes={}
            )
