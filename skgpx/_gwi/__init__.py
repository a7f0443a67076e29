"""Gaussian-process uncertainty around a mean: Gaussian Wasserstein inference."""

from skgpx._gwi._classifier import GWIClassifier
from skgpx._gwi._regressor import GWIRegressor

__all__ = ["GWIClassifier", "GWIRegressor"]
