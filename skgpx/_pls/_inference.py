"""From basis, rows and likelihood to the posterior of the weights: which method."""

from __future__ import annotations

from skgpx._hyperparameters import suits_a_normal
from skgpx._pls._langevin import projected_langevin
from skgpx._pls._particles import Landscape, explore
from skgpx._pls._tempering import tempering
from skgpx._posterior._closed_form import closed_form, normal_state
from skgpx._posterior._location_and_scale import location_and_scale
from skgpx._posterior._nearest_rows import nearest_rows
from skgpx._posterior._sampler import Inference, Sampler, resolved_method
from skgpx._posterior._series import series
from skgpx._shell.validation import Rows
from skgpx._types import Generator
from skgpx.bases import Nystroem, SeriesBasis
from skgpx.likelihoods import Likelihood

# Most operations n p² of tempering that is tried unasked: some ten seconds for 25 p
# steps of 400 particles, of 4 n p operations each.
_AFFORDABLE = 5e6
# The same where modes are signs of f: at most some forty rows.
_AFFORDABLE_SIGNS = 5e4


def infer(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Compute the posterior of the weights.

    Parameters
    ----------
    basis : Nystroem
    rows : Rows
    likelihood : Likelihood
        Prepared.
    sampler : Sampler
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If ``method="exact"`` and the likelihood is not Gaussian, or if the unadjusted
        scheme diverges.
    """
    method = resolved_method(sampler.method, likelihood)
    is_series = isinstance(basis, SeriesBasis)
    if likelihood.has_varying_scale and (is_series or sampler.n_neighbors > 0):
        return location_and_scale(basis, rows, likelihood, sampler, rng)
    # a series: regression or the closest normal distribution, in passes over the rows
    if isinstance(basis, SeriesBasis):
        return series(basis, rows, likelihood, sampler, rng)
    # nearest rows: the same
    if sampler.n_neighbors > 0:
        return nearest_rows(basis, rows, likelihood, sampler, rng)
    if likelihood.has_varying_scale:
        # one kernel, that of f₁
        likelihood = likelihood._replace(scale_kernel_=None)
    # Gaussian noise: regression
    if method == "exact":
        return closed_form(basis, rows, likelihood, sampler, rng)
    # one of many states of the hyperparameters: the closest normal distribution
    has_bound = sampler.method == "auto" and suits_a_normal(likelihood)
    if sampler.is_state and has_bound:
        return normal_state(basis, rows, likelihood, sampler, rng)
    # particles: they carry several modes with the right weights only if tempered. Signs
    # of f soon are too many modes for that; chains start near those of the survey
    landscape = explore(basis, rows, likelihood, sampler, rng.spawn(1)[0])
    affordable = _AFFORDABLE_SIGNS if likelihood.symmetric else _AFFORDABLE
    competing = landscape.has_rivals and _costs_of_tempering(landscape) <= affordable
    if method == "smc" or (competing and sampler.method == "auto"):
        tempered = tempering(basis, rows, likelihood, sampler, rng, landscape)
        if tempered is not None:
            return tempered
    return projected_langevin(basis, rows, likelihood, sampler, rng, landscape)


def _costs_of_tempering(landscape: Landscape) -> float:
    """Operations n p² of a step, for each node of the quadrature."""
    target = landscape.target
    n_weights = target.root.shape[1]
    return float(len(target.y) * n_weights**2 * len(target.nodes))
