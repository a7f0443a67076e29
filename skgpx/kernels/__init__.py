"""Kernels: the integrated GRE kernel, and what scikit-learn's kernels lack.

What the library knows of a type of kernel is one record (``_records``), filled in by
one file for each kernel; :func:`register_kernel` adds your own.
"""

from skgpx.kernels import _composites as _composites
from skgpx.kernels import _constants as _constants
from skgpx.kernels import _gre as _gre_record
from skgpx.kernels import _linear as _linear
from skgpx.kernels import _matern as _matern
from skgpx.kernels import _rational_quadratic as _rational_quadratic
from skgpx.kernels import _rbf as _rbf
from skgpx.kernels._defaults import default_kernel, split_noise
from skgpx.kernels._gre import GREKernel
from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    inducing_and_pullback,
    kernel_matrix,
    matrix_and_input_pullback,
    matrix_and_pullback,
    triangle_and_pullback,
)
from skgpx.kernels._periodic import PeriodicLaw
from skgpx.kernels._records import (
    InducingKernels,
    KernelRecord,
    KernelSpectrum,
    no_sampler,
    record_of,
)
from skgpx.kernels._registration import (
    register_diagonal_pullback,
    register_input_gradient,
    register_kernel,
    register_pullback,
    register_spectral_density,
    register_spectral_sampler,
    register_spectral_score,
)
from skgpx.kernels._spectral import (
    SpectralSample,
    check_spectral_score,
    log_spectral_density,
    sample_frequencies,
    spectral_laws,
    spectral_score,
    warped_sample,
)
from skgpx.kernels._spectral_laws import SpectralLaw
from skgpx.kernels._stationary_terms import StationaryTerm, stationary_terms
from skgpx.kernels._stein_frequencies import SteinSettings, stein_frequencies
from skgpx.kernels._terms import (
    Monomial,
    expand,
    latent_kernel,
    length_scale_entries,
    length_scales,
    longest_length_scales,
    noise_variance,
    sum_of,
    summands,
    theta_entries,
)

# The other names imported above serve the library itself.
__all__ = [
    "GREKernel",
    "InducingKernels",
    "SpectralSample",
    "check_spectral_score",
    "default_kernel",
    "diagonal_and_pullback",
    "inducing_and_pullback",
    "latent_kernel",
    "length_scales",
    "log_spectral_density",
    "matrix_and_input_pullback",
    "matrix_and_pullback",
    "noise_variance",
    "register_diagonal_pullback",
    "register_input_gradient",
    "register_kernel",
    "register_pullback",
    "register_spectral_density",
    "register_spectral_sampler",
    "register_spectral_score",
    "sample_frequencies",
    "spectral_score",
    "split_noise",
]
