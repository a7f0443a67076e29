"""Searches over the parameters of an estimator, and what they found."""

from __future__ import annotations

from typing import Any

from skgpx._validation import check_is_fitted


def is_search(estimator: Any) -> bool:
    """Whether this is a search over the parameters of another estimator."""
    return hasattr(estimator, "estimator") and hasattr(estimator, "refit")


def best_of(fitted: Any) -> Any:
    """What a search has found, refitted; any other estimator itself.

    Raises
    ------
    ValueError
        If the search did not refit what it found.
    """
    if not is_search(fitted):
        return fitted
    check_is_fitted(fitted)
    if not hasattr(fitted, "best_estimator_"):
        raise ValueError(
            f"Predictions and draws are those of best_estimator_, which {fitted!r} "
            "does not have. Search with refit=True."
        )
    return fitted.best_estimator_
