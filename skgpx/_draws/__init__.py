"""Draws of random functions: sums of linear terms that can be called anywhere."""

from skgpx._draws._conditioning import condition, update_weights
from skgpx._draws._features import (
    FourierFeatures,
    KernelSections,
    LinearTerm,
    Term,
    check_sections,
    ones,
    section_terms,
    with_ones,
)
from skgpx._draws._frequencies import Conditioning
from skgpx._draws._functions import FunctionDraws, linear_draws
from skgpx._draws._mapped import (
    InputMap,
    MappedProcess,
    MappedTerm,
    central_differences,
)
from skgpx._draws._optima import Optima
from skgpx._draws._prior import draw_prior
from skgpx._draws._processes import FiniteProcess, KernelProcess, Process
from skgpx._draws._remembered import RememberedTerm
from skgpx._draws._side_by_side import remembers, side_by_side

__all__ = [
    "Conditioning",
    "FiniteProcess",
    "FourierFeatures",
    "FunctionDraws",
    "InputMap",
    "KernelProcess",
    "KernelSections",
    "LinearTerm",
    "MappedProcess",
    "MappedTerm",
    "Optima",
    "Process",
    "RememberedTerm",
    "Term",
    "central_differences",
    "check_sections",
    "condition",
    "draw_prior",
    "linear_draws",
    "ones",
    "remembers",
    "section_terms",
    "side_by_side",
    "update_weights",
    "with_ones",
]
