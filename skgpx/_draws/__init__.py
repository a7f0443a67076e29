"""Draws of random functions: sums of linear terms that can be called anywhere."""

from skgpx._draws._conditioning import Process, condition, update_weights
from skgpx._draws._features import FourierFeatures, ones, with_ones
from skgpx._draws._functions import FunctionDraws, linear_draws
from skgpx._draws._optima import Optima
from skgpx._draws._sections import KernelSections, section_terms
from skgpx._draws._terms import LinearTerm, Term

__all__ = [
    "FourierFeatures",
    "FunctionDraws",
    "KernelSections",
    "LinearTerm",
    "Optima",
    "Process",
    "Term",
    "condition",
    "linear_draws",
    "ones",
    "section_terms",
    "update_weights",
    "with_ones",
]
