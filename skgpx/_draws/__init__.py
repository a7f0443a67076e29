"""Draws of random functions: sums of linear terms that can be called anywhere."""

from skgpx._draws._conditioning import KernelProcess, condition, update_weights
from skgpx._draws._features import FourierFeatures, ones, with_ones
from skgpx._draws._functions import FunctionDraws, Process, linear_draws
from skgpx._draws._misfit import Conditioning
from skgpx._draws._optima import Optima
from skgpx._draws._prior import draw_prior
from skgpx._draws._remembered import RememberedTerm
from skgpx._draws._sections import KernelSections, section_terms
from skgpx._draws._side_by_side import side_by_side
from skgpx._draws._terms import LinearTerm, Term

__all__ = [
    "Conditioning",
    "FourierFeatures",
    "FunctionDraws",
    "KernelProcess",
    "KernelSections",
    "LinearTerm",
    "Optima",
    "Process",
    "RememberedTerm",
    "Term",
    "condition",
    "draw_prior",
    "linear_draws",
    "ones",
    "section_terms",
    "side_by_side",
    "update_weights",
    "with_ones",
]
