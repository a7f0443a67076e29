"""Projected Langevin sampling: any likelihood, posteriors of any shape."""

from skgpx._pls._classifier import PLSClassifier
from skgpx._pls._regressor import PLSRegressor

__all__ = ["PLSClassifier", "PLSRegressor"]
