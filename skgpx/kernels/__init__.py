"""Kernels: the integrated GRE kernel, and what scikit-learn's kernels lack."""

from skgpx.kernels import _gre_rules as _gre_rules
from skgpx.kernels import _rules as _rules
from skgpx.kernels._defaults import default_kernel, length_scales, split_noise
from skgpx.kernels._expansion import Monomial, expand
from skgpx.kernels._frequencies import (
    SpectralSample,
    no_sampler,
    register_spectral_sampler,
    sample_frequencies,
    spectral_laws,
    warped_sample,
)
from skgpx.kernels._gradients import (
    InducingKernels,
    diag_with_pullback,
    inducing_with_pullback,
    kernel_with_pullback,
    register_diagonal_pullback,
    register_pullback,
    vjp,
    vjp_diag,
)
from skgpx.kernels._gre import GREKernel
from skgpx.kernels._input_gradients import register_input_gradient, trace_inputs
from skgpx.kernels._noise import latent_kernel, noise_variance
from skgpx.kernels._rational_quadratic_on_box import rational_quadratic
from skgpx.kernels._spectral_laws import PeriodicLaw, SpectralLaw

__all__ = [
    "GREKernel",
    "InducingKernels",
    "Monomial",
    "PeriodicLaw",
    "SpectralLaw",
    "SpectralSample",
    "default_kernel",
    "diag_with_pullback",
    "expand",
    "inducing_with_pullback",
    "kernel_with_pullback",
    "latent_kernel",
    "length_scales",
    "no_sampler",
    "noise_variance",
    "rational_quadratic",
    "register_diagonal_pullback",
    "register_input_gradient",
    "register_pullback",
    "register_spectral_sampler",
    "sample_frequencies",
    "spectral_laws",
    "split_noise",
    "trace_inputs",
    "vjp",
    "vjp_diag",
    "warped_sample",
]
