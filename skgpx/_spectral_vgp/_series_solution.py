"""Posterior of regression on Fourier functions, and what is to be said about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters import SearchRecord
from skgpx._latent import LatentModel
from skgpx._numerics.regression import (
    log_evidence_from,
    posterior_from,
    precision_root,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._spectral_vgp._domain import kernel_of
from skgpx._spectral_vgp._series_bound import SeriesChoice
from skgpx._spectral_vgp._series_choice import MOST_SEARCHED
from skgpx._spectral_vgp._series_search import SeriesSettings
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import warn
from skgpx.bases import BoundedSeries, FourierSeries
from skgpx.exceptions import ConvergenceWarning, FitWarning

Array = NDArray[np.float64]


def solve_series(
    settings: SeriesSettings, domain: Array, choice: SeriesChoice
) -> SpectralFit:
    """Posterior and bound of the prior and the functions that were found."""
    bound, (rule, noise, _) = choice.bound, choice.prior
    sums, box = bound.sums, bound.sums.statistics.box
    series = FourierSeries.from_rule(rule, box, bound.size, bound.functions)
    level = choice.only_noise or _scale_is_learned(settings)
    basis = BoundedSeries(
        box=box,
        functions=series.functions,
        spectrum=_with_free_level(series) if level else series.spectrum,
        n_basis=series.n_basis,
        remainder=series.remainder,
        domain=domain,
    )
    residual = bound.weight * bound.spectrum(rule).tail
    statistics = bound.equations.whitened(basis.eigenvalues, residual)
    root = precision_root(statistics.gram, noise)
    law = posterior_from(statistics, noise, root)
    evidence = log_evidence_from(statistics, noise, root)
    evidence -= _level_evidence(law, series.eigenvalues, basis.eigenvalues)
    return SpectralFit(
        posterior=LatentModel(basis, law),
        noise_variance=noise * sums.scale**2,
        log_evidence=float(evidence - bound.weight * np.log(sums.scale)),
        shift=sums.shift if settings.normalize_y else 0.0,
        scale=sums.scale,
        prior=rule,
        spectrum=_prior_variances(rule, basis) * sums.scale**2,
        cycles=choice.raised / box.period,
        record=_record(settings, bound.size),
    )


def _record(settings: SeriesSettings, size: int) -> SearchRecord:
    """Sums over all rows decide, from where the search on some of them ended."""
    noise = settings.given_noise_variance(1.0) is None
    if not (noise or settings.free().any()):
        return SearchRecord()
    criterion = f"bound of {size} Fourier functions"
    if size > MOST_SEARCHED and kernel_of(settings.rule) is not None:
        criterion += f", lengthscales by at most {MOST_SEARCHED}"
    return SearchRecord(criterion, 0, "all", settings.pilot_rows)


def log_evidence_of(choice: SeriesChoice) -> float:
    """Bound of the prior that was found, in the units of y."""
    bound = choice.bound
    return choice.prior.log_evidence - bound.weight * float(np.log(bound.sums.scale))


def _prior_variances(rule: Any, basis: BoundedSeries) -> Array:
    """Eigenvalues of all functions; those of the residual do not carry later ones."""
    variances = rule.spectrum(basis.functions, basis.box).eigenvalues.copy()
    variances[: basis.n_basis] = basis.eigenvalues
    return variances


def _scale_is_learned(settings: SeriesSettings) -> bool:
    """Whether a prior might know the level that was taken away with the mean of y."""
    series = kernel_of(settings.rule) is None
    return settings.normalize_y and series and bool(settings.free()[:1].any())


def _with_free_level(series: FourierSeries) -> Array:
    """Spectrum in which the level of the (standardised) function is free to vary.

    The mean of y was taken away as if it were known. With a scale that is learned, a
    function that is nearly constant would be known exactly; a prior variance of at
    least one for the constant function gives the level its ``σ² / n``.
    """
    spectrum = series.spectrum.copy()
    constant = ~np.any(series.index.waves, axis=1)
    leading = spectrum[: series.n_basis]
    leading[constant] = np.maximum(leading[constant], 1.0)
    return spectrum


def _level_evidence(law: GaussianWeights, given: Array, raised: Array) -> float:
    """What the free level adds to the bound, which is that of the prior searched for.

    With ρ = 1 - λ / λ' of the one eigenvalue that was raised to λ', and its weight's
    posterior N(μ, s): ``½ log(1 - ρ (1 - s)) + ½ ρ μ² / (1 - ρ (1 - s))``, the change
    of the log density of y when ``(λ' - λ) φφᵀ`` is added to its covariance.
    """
    changed = np.flatnonzero(given < raised)
    if not len(changed):
        return 0.0
    i = changed[0]
    rho, mean = 1.0 - given[i] / raised[i], law.mean[i, 0]
    kept = 1.0 - rho * (1.0 - np.sum(law.root[0, i] ** 2))
    return 0.5 * float(np.log(kept) + rho * mean**2 / kept)


def warn_if_only_noise(choice: SeriesChoice) -> None:
    """Say that no hyperparameters are better than noise."""
    if not choice.only_noise:
        return
    warn(
        "Nothing but noise was found: no hyperparameters have a larger bound than "
        "noise around a constant. If there is more in the data, give more rows, a "
        'smoother kernel, a larger n_basis, ordering="power" for cycles, or '
        'basis="inducing".',
        FitWarning,
    )


def warn_if_capped(settings: SeriesSettings, choice: SeriesChoice) -> None:
    """Say what is left to the tail where the elbow is beyond what is allowed."""
    bound, rule = choice.bound, choice.prior.rule
    if settings.n_basis != "auto" or choice.elbow <= settings.largest:
        return
    tail = bound.sums.scale * np.sqrt(bound.spectrum(rule).tail)
    warn(
        f"The data would support more than the {bound.size} basis functions that "
        "are allowed; the others add a prior standard deviation of "
        f"{tail:.3g} to every prediction. Raise `max_basis`, or choose a smoother "
        "prior.",
        ConvergenceWarning,
    )
