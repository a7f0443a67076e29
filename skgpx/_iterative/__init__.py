"""Exact Gaussian processes of many rows, by conjugate gradients."""

from skgpx._iterative._regressor import ExactGPRegressor as ExactGPRegressor
