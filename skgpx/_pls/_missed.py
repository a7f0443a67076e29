"""What is said where the fitted function misses structure of y."""

from __future__ import annotations

import numpy as np

from skgpx._hyperparameters import LeftOver, warn_of_left_over
from skgpx._latent import LatentModel
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood

# Rows that are looked at, evenly spaced in their canonical order.
_ROWS = 4000
# Share of the prior variance that points may leave out at the rows.
_LEFT_OUT = 0.01
_ADVICE = (
    "Give a kernel whose lengthscales start near the scale of the variation, or take "
    "GWIRegressor(), whose kernel is learned again from rows that are closer."
)


def warn_of_missed_structure(
    rows: Rows, likelihood: Likelihood, model: LatentModel
) -> None:
    """Warn if errors of neighbouring rows agree; of likelihoods that shift with y.

    Where points leave some of the prior out, that is missed, and told elsewhere.
    """
    if not likelihood.location_scale:
        return
    some = rows.take(slice(None, None, -(-len(rows.y) // _ROWS)))
    if _left_out(model, some) > _LEFT_OUT:
        return
    law = likelihood if some.known is None else likelihood.at_rows(some.known)
    mean = law.predictive_moments(model.marginals(some.X))[0]
    centre = np.average(some.y, weights=some.weights)
    spread = float(np.average((some.y - centre) ** 2, weights=some.weights))
    warn_of_left_over(LeftOver.of(some.X, some.y - mean, spread), _ADVICE)


def _left_out(model: LatentModel, rows: Rows) -> float:
    features = model.basis(rows.X)
    left = float(np.sum(model.basis.residual_variance(rows.X, features)))
    return left / max(left + float(np.sum(features**2)), np.finfo(float).tiny)
