"""Bayesian function-space models for scikit-learn that scale."""

from skgpx._compilation import compile_kernels
from skgpx._decoupled import DecoupledSampler
from skgpx._draws import FunctionDraws
from skgpx._pls import PLSClassifier, PLSRegressor
from skgpx._spectral_vgp import SpectralVGPRegressor

__version__ = "0.1.0"

__all__ = [
    "DecoupledSampler",
    "FunctionDraws",
    "PLSClassifier",
    "PLSRegressor",
    "SpectralVGPRegressor",
    "compile_kernels",
]
