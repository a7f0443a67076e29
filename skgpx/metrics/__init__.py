"""Distances between laws of functions."""

from skgpx.metrics._wasserstein import (
    WassersteinGradient,
    gaussian_wasserstein_distance,
    process_wasserstein_distance,
)

__all__ = [
    "WassersteinGradient",
    "gaussian_wasserstein_distance",
    "process_wasserstein_distance",
]
