"""From the model of the standardised y to that of y."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._hyperparameters import Hyperparameters, row_form
from skgpx._pls._inference import Inference
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._rows import NoiseOfRows


class Units(NamedTuple):
    """What y was standardised by, and the noise that a new row has.

    Attributes
    ----------
    shift, scale : float
        The model is that of ``(y - shift) / scale``.
    noise_variance : float or None
        In squared units of y, where that of each row of the data is known.
    """

    shift: float = 0.0
    scale: float = 1.0
    noise_variance: float | None = None

    def of_likelihood(self, likelihood: Likelihood) -> Likelihood:
        """Likelihood of new rows, in the units of y."""
        if self.noise_variance is not None:
            assert isinstance(likelihood, NoiseOfRows)
            return likelihood.with_noise(self.noise_variance)
        return likelihood.scaled(self.scale)


def evidence_of_y(
    found: Hyperparameters, result: Inference, rows: Rows, scale: float
) -> float:
    """Evidence of y from that of ``y / scale``: p(y) = p(y / scale) / scale a row.

    That of all rows where it is known, otherwise what the search reached.
    """
    searched = np.isfinite(found.log_evidence)
    known = searched and np.isfinite(result.log_evidence)
    evidence = result.log_evidence if known else found.log_evidence
    constant = row_form(rows, result.likelihood).constant
    if constant is not None:
        evidence -= float(rows.weights @ constant)
    return float(evidence - rows.weights.sum() * np.log(scale))
