"""Sparse variational regression on spectral features, with credible sets."""

from skgpx._spectral_vgp._regressor import SpectralVGPRegressor

__all__ = ["SpectralVGPRegressor"]
