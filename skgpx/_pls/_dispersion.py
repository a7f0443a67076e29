"""What is said where counts scatter more than a Poisson law allows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._latent import LatentModel
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Likelihood, Poisson

# Rows that are looked at, evenly spaced in their canonical order.
_ROWS = 1000
# Ratio of variances, and the standard errors above one, from which it is told.
_TOLD, _CERTAIN = 1.5, 5.0


class Dispersion(NamedTuple):
    """Scatter of counts over what is expected.

    Attributes
    ----------
    ratio : float
        ``Σ ω (y - E y)² / Σ ω Var y``, about one where the law is right.
    z : float
        Its distance from one in standard errors under that law.
    """

    ratio: float
    z: float


def dispersion(rows: Rows, likelihood: Poisson, model: LatentModel) -> Dispersion:
    """Scatter of counts around the predictive law of a fitted model.

    The score test of [1]_ against extra variance, with the uncertainty of the rates in
    the variance: ``Var (y - μ)² = μ + 2 μ²`` for a Poisson law.

    References
    ----------
    .. [1] Dean, "Testing for overdispersion in Poisson and binomial regression models",
       JASA 1992.
    """
    some = rows.take(slice(None, None, -(-len(rows.y) // _ROWS)))
    law = likelihood if some.known is None else likelihood.at_rows(some.known)
    mean, variance = law.predictive_moments(model.marginals(some.X))
    squares, weights = (some.y - mean) ** 2, some.weights
    expected = float(weights @ variance)
    spread = np.sqrt(float(weights @ (variance + 2.0 * variance**2)))
    excess = float(weights @ squares) - expected
    return Dispersion(1.0 + excess / expected, excess / spread)


def warn_of_dispersion(rows: Rows, likelihood: Likelihood, model: LatentModel) -> None:
    """Warn if a Poisson law is clearly too narrow for the counts it was fitted to."""
    if not isinstance(likelihood, Poisson):
        return
    found = dispersion(rows, likelihood, model)
    if found.ratio > _TOLD and found.z > _CERTAIN:
        warn(
            f"The counts scatter {found.ratio:.2g} times as much around the rates "
            "found (in variance) as a Poisson law allows: intervals are too narrow. "
            "If it is not a few outliers or missing columns, use a likelihood with "
            "more spread, such as the negative binomial of the gallery's example of a "
            "likelihood of one's own.",
            FitWarning,
        )
