"""Bayesian function-space models for scikit-learn that scale."""

from importlib import import_module
from typing import Any

from skgpx._decoupled import DecoupledSampler
from skgpx._draws import FunctionDraws
from skgpx._front.calibration import TemperedRegressor
from skgpx._front.compilation import compile_kernels
from skgpx._front.predict_dist import (
    cross_val_predict_dist,
    predict_dist,
    sample_functions,
)
from skgpx._gwi import GWIClassifier, GWIRegressor
from skgpx._iterative import ExactGPRegressor
from skgpx._pls import PLSClassifier, PLSRegressor
from skgpx._prediction.distribution import PredictiveDistribution
from skgpx._spectral_vgp import SpectralVGPRegressor
from skgpx._stein import SteinFourierFeatures, SteinRFFRegressor, svgd
from skgpx._version import __version__ as __version__

# Loaded on first use.
_MODULES = (
    "bases",
    "exceptions",
    "inspection",
    "kernels",
    "likelihoods",
    "metrics",
    "simulation",
    "thompson",
)

__all__ = [
    "DecoupledSampler",
    "ExactGPRegressor",
    "FunctionDraws",
    "GWIClassifier",
    "GWIRegressor",
    "PLSClassifier",
    "PLSRegressor",
    "PredictiveDistribution",
    "SpectralVGPRegressor",
    "SteinFourierFeatures",
    "SteinRFFRegressor",
    "TemperedRegressor",
    "compile_kernels",
    "cross_val_predict_dist",
    "predict_dist",
    "sample_functions",
    "svgd",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'skgpx' has no attribute {name!r}")
    return import_module(f"skgpx.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
