"""Bases: finite-dimensional parts of a Gaussian process, and their residuals."""

from skgpx.bases._frequencies import register_frequencies, sample_frequencies
from skgpx.bases._nystroem import Nystroem
from skgpx.bases._priors import draw_prior
from skgpx.bases._selectors import select_inducing

__all__ = [
    "Nystroem",
    "draw_prior",
    "register_frequencies",
    "sample_frequencies",
    "select_inducing",
]
