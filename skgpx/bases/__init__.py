"""Bases: finite-dimensional parts of a Gaussian process, and their residuals."""

from skgpx.bases._calibration import Conditioning
from skgpx.bases._empirical import EmpiricalSpectral
from skgpx.bases._frequencies import (
    SpectralSample,
    register_spectral_sampler,
    sample_frequencies,
)
from skgpx.bases._groups import side_by_side
from skgpx.bases._nystroem import Nystroem
from skgpx.bases._priors import draw_prior
from skgpx.bases._selectors import select_inducing

__all__ = [
    "Conditioning",
    "EmpiricalSpectral",
    "Nystroem",
    "SpectralSample",
    "draw_prior",
    "register_spectral_sampler",
    "sample_frequencies",
    "select_inducing",
    "side_by_side",
]
