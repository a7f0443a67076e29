"""Diagnostics of a fit: convergence, overdispersion, autocorrelated residuals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from skgpx._latent import LatentModel
from skgpx._numerics.modes import Survey
from skgpx._pls._chains import Sample
from skgpx._pls._tempering import Tempered
from skgpx._selection import LeftOver, warn_of_left_over
from skgpx._validation import Rows, warn
from skgpx.exceptions import ConvergenceWarning, FitWarning
from skgpx.likelihoods import Likelihood, Poisson

# ---- Whether particles represent the posterior ---------------------------------------


Array = NDArray[np.float64]

# R-hat between runs of the tempering above which they disagree.
_LARGEST_R_HAT = 1.1
# Largest gap in log evidence, in nats, at which an unvisited mode is reported.
_MODE_GAP = 5.0
# Probability that the potential of a normal distribution exceeds the bound.
_TAIL = 1e-3


def check_divergence(sample: Sample, method: str, step_size: float | None) -> None:
    """Raise a ValueError if the unadjusted scheme has diverged."""
    if not np.all(np.isfinite(sample.z)):
        raise ValueError(
            f'method="{method}" diverged with step_size={step_size!r}. Use a '
            "smaller one, or None to take it from the largest eigenvalue of the "
            "Hessian."
        )


def warn_if_not_converged(
    sample: Sample, method: str, tol: float, modes: Survey
) -> None:
    """Warn once of chains that do not agree, or of modes that none of them visits."""
    worst, messages = float(np.max(sample.r_hat)), []
    if worst > max(tol, 1.0 + 1e-9) and not sample.stopped:
        messages.append(
            f"The chains have not converged: split R-hat is {worst:.3g} after "
            f"{sample.n_iter} steps (tol={tol:g}) with an acceptance of "
            f"{sample.acceptance:.2g}. Increase max_iter"
            + ("." if modes.log_concave else ', or use method="smc": the likelihood is')
            + ("" if modes.log_concave else " not log-concave.")
        )
    if modes.gap < _MODE_GAP:
        messages.append(
            "The posterior has several modes: a second one has a Laplace evidence "
            f"only {modes.gap:.2g} nats below that of the first, and all chains of "
            f'method="{method}" start in the first. Use method="smc", which weighs '
            "them against each other."
        )
    _warn(messages)


def warn_if_smc_disagrees(
    tempered: Tempered, excess: float, n_weights: int, n_particles: int
) -> None:
    """Warn once if runs disagree or particles are not where the posterior is.

    Parameters
    ----------
    tempered : Tempered
    excess : float
        Mean potential of the particles above that of the best mode, in nats.
    n_weights, n_particles : int
    """
    messages = []
    worst, evidences = float(np.max(tempered.sample.r_hat)), tempered.run_evidences
    if worst > _LARGEST_R_HAT:
        messages.append(
            f"The {len(evidences)} independent runs of the tempering disagree: R-hat "
            f"between them is {worst:.3g}, their log evidences go from "
            f"{evidences.min():.5g} to {evidences.max():.5g}. The weights of the modes "
            "are uncertain."
        )
    largest = largest_excess(n_weights)
    if excess > largest:
        messages.append(
            f"The particles lie {excess:.3g} nats above the best mode in the mean, "
            f"where about {0.5 * n_weights:.3g}, and not over {largest:.3g}, are "
            "expected: they have not reached the posterior."
        )
    if messages:
        messages.append(
            f"Increase n_particles above {max(400, n_particles)}, use fewer inducing "
            "inputs, or a likelihood that is log-concave."
        )
    _warn(messages)


def largest_excess(n_weights: int) -> float:
    """Potential above the mode, in nats, that few normal states exceed.

    Twice the potential above the mode follows chi-square with p degrees of freedom.
    """
    return 0.5 * float(chi2.isf(_TAIL, n_weights))


def _warn(messages: list[str]) -> None:
    if messages:
        warn(" ".join(messages), ConvergenceWarning)


# ---- Whether counts scatter more than a Poisson distribution allows ------------------


# Largest number of rows used, evenly spaced in their canonical order.
_ROWS = 1000
# Smallest ratio of variances, and z-score, at which a warning is given.
_MIN_RATIO, _MIN_Z = 1.5, 5.0


class Dispersion(NamedTuple):
    """Scatter of counts over what is expected.

    Attributes
    ----------
    ratio : float
        ``Σ ω (y - E y)² / Σ ω Var y``, about one if the likelihood is right.
    z : float
        Its distance from one in standard errors under that likelihood.
    """

    ratio: float
    z: float


def dispersion(rows: Rows, likelihood: Poisson, model: LatentModel) -> Dispersion:
    """Scatter of counts around the predictive distribution of a fitted model.

    The score test of [1]_ against extra variance, with the uncertainty of the rates in
    the variance: ``Var (y - μ)² = μ + 2 μ²`` for a Poisson distribution.

    References
    ----------
    .. [1] Dean, "Testing for overdispersion in Poisson and binomial regression models",
       JASA 1992.
    """
    some = rows.take(slice(None, None, -(-len(rows.y) // _ROWS)))
    noise = likelihood if some.known is None else likelihood.at_rows(some.known)
    mean, variance = noise.predictive_moments(model.marginals(some.X))
    squares, weights = (some.y - mean) ** 2, some.weights
    expected = float(weights @ variance)
    std = np.sqrt(float(weights @ (variance + 2.0 * variance**2)))
    excess = float(weights @ squares) - expected
    return Dispersion(1.0 + excess / expected, excess / std)


def warn_if_overdispersed(
    rows: Rows, likelihood: Likelihood, model: LatentModel
) -> None:
    """Warn if a Poisson distribution is clearly too narrow for the counts."""
    if not isinstance(likelihood, Poisson):
        return
    found = dispersion(rows, likelihood, model)
    if found.ratio > _MIN_RATIO and found.z > _MIN_Z:
        warn(
            "The counts are overdispersed: their variance around the fitted rates is "
            f"{found.ratio:.2g} times that of a Poisson distribution, and intervals "
            "are too narrow. Check for outliers and missing columns, or use a "
            "likelihood of larger variance, such as the negative binomial of the "
            "gallery's example of a custom likelihood.",
            FitWarning,
        )


# ---- Whether residuals are autocorrelated --------------------------------------------


# Largest number of rows used, evenly spaced in their canonical order.
_MISSED_ROWS = 4000
# Largest share of the prior variance outside the basis at the rows.
_MAX_RESIDUAL_SHARE = 0.01
_ADVICE = (
    "Use a kernel whose lengthscales start near the scale of the variation, or "
    "GWIRegressor(), which relearns its kernel from neighbouring rows."
)


def warn_if_residuals_autocorrelated(
    rows: Rows, likelihood: Likelihood, model: LatentModel
) -> None:
    """Warn if residuals are autocorrelated; for location-scale likelihoods.

    Another warning covers bases that omit much of the prior.
    """
    if not likelihood.location_scale:
        return
    some = rows.take(slice(None, None, -(-len(rows.y) // _MISSED_ROWS)))
    if _residual_share(model, some) > _MAX_RESIDUAL_SHARE:
        return
    noise = likelihood if some.known is None else likelihood.at_rows(some.known)
    mean = noise.predictive_moments(model.marginals(some.X))[0]
    centre = np.average(some.y, weights=some.weights)
    variance = float(np.average((some.y - centre) ** 2, weights=some.weights))
    warn_of_left_over(LeftOver.of(some.X, some.y - mean, variance), _ADVICE)


def _residual_share(model: LatentModel, rows: Rows) -> float:
    features = model.basis(rows.X)
    left = float(np.sum(model.basis.residual_variance(rows.X, features)))
    return left / max(left + float(np.sum(features**2)), np.finfo(float).tiny)
