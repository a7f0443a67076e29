"""Draws of random functions: sums of linear terms that can be called anywhere."""

from skgpx._draws._conditioning import condition, update_weights
from skgpx._draws._fourier_features import FourierFeatures
from skgpx._draws._functions import FunctionDraws, linear_draws
from skgpx._draws._linear_features import ones, with_ones
from skgpx._draws._mapped import InputMap, MappedProcess, MappedTerm
from skgpx._draws._misfit import Conditioning
from skgpx._draws._optima import Optima
from skgpx._draws._prior import draw_prior
from skgpx._draws._processes import FiniteProcess, KernelProcess, Process
from skgpx._draws._remembered import RememberedTerm
from skgpx._draws._remembered_states import StateMemory
from skgpx._draws._sections import KernelSections, check_sections, section_terms
from skgpx._draws._side_by_side import remembers, side_by_side
from skgpx._draws._terms import LinearTerm, Term

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
    "StateMemory",
    "Term",
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
