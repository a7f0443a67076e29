"""Warnings of the library, by class.

Every warning that skgpx gives derives from `SkgpxWarning`, and so from `UserWarning`.

>>> import warnings
>>> from skgpx.exceptions import FitWarning
>>> warnings.filterwarnings("ignore", category=FitWarning)  # or "error"
"""

from __future__ import annotations

import sys
import warnings

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
    """Some input is ignored, or its meaning is doubtful.

    Rows that are dropped, weights or groups that are ignored, weights that are shares.
    """


class FitWarning(SkgpxWarning):
    """Diagnostics of a fit that make predictions or their intervals doubtful.

    No dependence on X, autocorrelated residuals, overdispersed counts, too few rows.
    """


class ConvergenceWarning(SkgpxWarning, exceptions.ConvergenceWarning):
    """A search, a sampler or an approximation has not converged.

    Also scikit-learn's warning of that name, so that filters for either apply.
    """


class PredictionWarning(SkgpxWarning):
    """Some predictions or draws of a fitted model are doubtful.

    Rows outside of the domain, missing exposures, densities of low accuracy, models
    that another version of the library has pickled.
    """


def warn(message: str, category: type[Warning]) -> None:
    """Give a warning about the line of the user that led to it."""
    level, frame = 2, sys._getframe(1)
    while (
        frame.f_back
        and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _BETWEEN
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
