"""Warnings of the library, by class.

Every warning that skgpx gives derives from `SkgpxWarning`, and so from `UserWarning`.

>>> import warnings
>>> from skgpx.exceptions import FitWarning
>>> warnings.filterwarnings("ignore", category=FitWarning)  # or "error"
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from sklearn import exceptions

__all__ = [
    "ConvergenceWarning",
    "DataWarning",
    "FitWarning",
    "PredictionWarning",
    "SkgpxWarning",
]

# Packages between a user and a warning: this one, and those that call it or wrap it.
_BETWEEN = frozenset({"skgpx", "sklearn", "joblib"})


class SkgpxWarning(UserWarning):
    """Every warning that the library gives."""


class DataWarning(SkgpxWarning):
    """Some of what was passed in is not used, or not as it may have been meant.

    Rows that are left out, weights or groups that are ignored, weights that are shares.
    """


class FitWarning(SkgpxWarning):
    """What `fit` found makes predictions or their intervals doubtful.

    No dependence on X, structure that is missed, counts that scatter more than the
    likelihood allows, rows too few to learn from.
    """


class ConvergenceWarning(SkgpxWarning, exceptions.ConvergenceWarning):
    """A search, a sampler or an approximation ended before it was good enough.

    Also scikit-learn's warning of that name, so that filters for either apply.
    """


class PredictionWarning(SkgpxWarning):
    """What is doubtful about some predictions or draws of a model that is fitted.

    Rows outside of the domain, an exposure that is missing, values that are uncertain.
    """


def warn(message: str, category: type[Warning]) -> None:
    """Give a warning about the line of the user that led to it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and _package(frame.f_globals) in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(module: dict[str, Any]) -> str:
    return str(module.get("__name__", "")).partition(".")[0]
