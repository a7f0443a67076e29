"""Scores of predictive distributions, scorers, and distances between distributions.

Further axes come last: with y of shape (n,) or (n, t), bounds of intervals have a last
axis of two entries, and draws a last axis of s draws.
"""

from skgpx.metrics._calibration import (
    calibration_error,
    coverage_error,
    pit_values,
)
from skgpx.metrics._scorers import (
    PredictiveScorer,
    log_predictive_density_scorer,
    neg_calibration_error_scorer,
    neg_coverage_error_scorer,
    neg_crps_scorer,
    neg_interval_score_scorer,
)
from skgpx.metrics._scores import (
    crps,
    ensemble_crps,
    gaussian_crps,
    gaussian_neg_log_density,
    interval_coverage,
    interval_score,
    neg_log_predictive_density,
)
from skgpx.metrics._wasserstein import (
    gaussian_wasserstein_distance,
    process_wasserstein_distance,
)

__all__ = [
    "PredictiveScorer",
    "calibration_error",
    "coverage_error",
    "crps",
    "ensemble_crps",
    "gaussian_crps",
    "gaussian_neg_log_density",
    "gaussian_wasserstein_distance",
    "interval_coverage",
    "interval_score",
    "log_predictive_density_scorer",
    "neg_calibration_error_scorer",
    "neg_coverage_error_scorer",
    "neg_crps_scorer",
    "neg_interval_score_scorer",
    "neg_log_predictive_density",
    "pit_values",
    "process_wasserstein_distance",
]
