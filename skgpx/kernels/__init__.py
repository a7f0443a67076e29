"""Kernels: the integrated GRE kernel, and what scikit-learn's kernels lack.

What the library knows of a type of kernel is one record (``_records``), filled in by
``_stationary``, ``_composites`` and ``_gre``; :func:`register_kernel` adds your own.
"""

from skgpx.kernels import _composites as _composites
from skgpx.kernels import _stationary as _stationary
from skgpx.kernels._gre import GREKernel
from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    inducing_and_pullback,
    kernel_matrix,
    matrix_and_input_pullback,
    matrix_and_pullback,
    triangle_and_pullback,
)
from skgpx.kernels._records import (
    InducingKernels,
    KernelRecord,
    KernelSpectrum,
    no_sampler,
    record_of,
    register_kernel,
)
from skgpx.kernels._spectral import (
    SpectralSample,
    StationaryTerm,
    check_spectral_score,
    log_spectral_density,
    sample_frequencies,
    spectral_distributions,
    spectral_score,
    stationary_terms,
    warped_sample,
)
from skgpx.kernels._spectral_distributions import (
    PeriodicDistribution,
    SpectralDistribution,
)
from skgpx.kernels._stein_frequencies import stein_frequencies
from skgpx.kernels._terms import (
    Monomial,
    default_kernel,
    expand,
    latent_kernel,
    length_scale_entries,
    length_scales,
    longest_length_scales,
    noise_variance,
    split_noise,
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
    "register_kernel",
    "sample_frequencies",
    "spectral_score",
    "split_noise",
]
