"""Bases: finite-dimensional parts of a Gaussian process, and their residuals."""

from skgpx._draws import Conditioning, InputMap, draw_prior, side_by_side
from skgpx._numerics.fourier import Box
from skgpx.bases._basis import Basis as Basis
from skgpx.bases._eigenvalues import (
    BoostedEigenvalues,
    ExponentialEigenvalues,
    GivenEigenvalues,
    KernelEigenvalues,
    OrderedEigenvalues,
    PolynomialEigenvalues,
    RankedEigenvalues,
    has_spectrum,
)
from skgpx.bases._fourier import (
    ContinuedSeries,
    Fourier,
    FourierSeries,
    FunctionalSeries,
    SeriesMarginals,
)
from skgpx.bases._kernel_basis import EmpiricalSpectral, KernelBasis, Nystroem
from skgpx.bases._neighbors import NeighborCoefficients, NeighborResidual
from skgpx.bases._selectors import select_inducing, select_until
from skgpx.bases._series import SeriesBasis
from skgpx.bases._warped import WarpedInputs

# The other names imported above serve the library itself.
__all__ = [
    "BoostedEigenvalues",
    "Box",
    "Conditioning",
    "EmpiricalSpectral",
    "ExponentialEigenvalues",
    "Fourier",
    "FourierSeries",
    "GivenEigenvalues",
    "InputMap",
    "KernelEigenvalues",
    "Nystroem",
    "OrderedEigenvalues",
    "PolynomialEigenvalues",
    "WarpedInputs",
    "draw_prior",
    "select_inducing",
    "side_by_side",
]
