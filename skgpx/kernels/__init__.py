"""Kernels: trends, categories, columns, GRE, and formulas for scikit-learn's kernels.

The library looks up the formulas of a type of kernel among the rules of ``_registry``.
``_matrices``, ``_spectral_density`` and the kernels of the library register theirs
there, and :func:`register_kernel` adds your own.
"""

from skgpx.kernels._additive import Additive, n_subsets
from skgpx.kernels._columns import (
    CategoricalKernel,
    Columns,
    Coregionalization,
    Directions,
    with_resolved_columns,
)
from skgpx.kernels._functional_rows import FunctionalRows, checked_functionals
from skgpx.kernels._functionals import Functionals, kernel_of_values
from skgpx.kernels._gre import GREKernel, with_support
from skgpx.kernels._linear import Linear
from skgpx.kernels._matrices import (
    diagonal_and_pullback,
    kernel_matrix,
    matrix_and_input_pullback,
    matrix_and_pullback,
    radial_code,
    stacked_triangles,
    triangle_and_pullback,
)
from skgpx.kernels._priors import Prior, stated_log_density
from skgpx.kernels._registry import free_slopes, no_sampler, register_kernel, rule_of
from skgpx.kernels._slopes import VALUE
from skgpx.kernels._spectrum import (
    MappedSpectrum,
    PeriodicSpectrum,
    Spectrum,
    check_spectral_score,
    decay_lengths,
    log_spectral_density,
    sample_frequencies,
    sample_spectra,
    spectra_of,
    spectral_score,
    spectrum_of,
    stationary_terms,
    stationary_variance,
)
from skgpx.kernels._state_space import StateSpace
from skgpx.kernels._stein_frequencies import stein_frequencies
from skgpx.kernels._terms import (
    Monomial,
    additive_terms,
    category_columns,
    columns_of_entry,
    decaying_part,
    decays,
    default_kernel,
    expand,
    inputs_of_entry,
    latent_kernel,
    length_scale_entries,
    length_scales,
    longest_length_scales,
    neighbor_coordinates,
    neighbor_scales,
    noise_variance,
    parts_with,
    rescaled,
    scaled_inputs,
    split_noise,
    stated_priors,
    stds_of_entry,
    summands,
    theta_entries,
    with_theta,
)

# The other names imported above serve the library itself.
__all__ = [
    "Additive",
    "CategoricalKernel",
    "Columns",
    "Coregionalization",
    "Directions",
    "GREKernel",
    "Linear",
    "Prior",
    "check_spectral_score",
    "default_kernel",
    "log_spectral_density",
    "noise_variance",
    "register_kernel",
    "sample_frequencies",
    "spectral_score",
]
