"""Draws of random functions: sums of linear terms that can be called anywhere."""

from skgpx._draws._features import (
    FourierFeatures,
    KernelFeatures,
    LinearFeatures,
    LinearTerm,
    Term,
    check_sections,
    ones,
    section_terms,
)
from skgpx._draws._frequencies import Conditioning
from skgpx._draws._functions import (
    FunctionDraws,
    MixtureProcess,
    Process,
    linear_draws,
    mapped_draws,
    side_by_side,
    with_outputs_of,
)
from skgpx._draws._mapped import InputMap, central_differences
from skgpx._draws._prior import (
    box_of_grid,
    checked_domain,
    checked_n_basis,
    draw_prior,
    with_features,
)
from skgpx._draws._processes import FiniteProcess, KernelProcess
from skgpx._draws._series import markov_draws, markov_sections

__all__ = [
    "Conditioning",
    "FiniteProcess",
    "FourierFeatures",
    "FunctionDraws",
    "InputMap",
    "KernelFeatures",
    "KernelProcess",
    "LinearFeatures",
    "LinearTerm",
    "MixtureProcess",
    "Process",
    "Term",
    "box_of_grid",
    "central_differences",
    "check_sections",
    "checked_domain",
    "checked_n_basis",
    "draw_prior",
    "linear_draws",
    "mapped_draws",
    "markov_draws",
    "markov_sections",
    "ones",
    "section_terms",
    "side_by_side",
    "with_features",
    "with_outputs_of",
]
