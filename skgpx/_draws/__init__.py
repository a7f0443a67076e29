"""Draws of random functions: sums of linear terms that can be called anywhere."""

from skgpx._draws._features import (
    FourierFeatures,
    KernelFeatures,
    LinearTerm,
    Term,
    WithoutCaches,
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
