"""What every fit of a spectral model ends with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._selection import SearchRecord
from skgpx.diagnostics import Finding

Array = NDArray[np.float64]


class SpectralFit(NamedTuple):
    """Solved model in the units of y.

    Attributes
    ----------
    posterior : LatentModel
        Of the standardised function.
    noise_variance : float
        In squared units of y.
    log_evidence : float
        The bound, in nats and in the units of y.
    shift, scale : float
        ``f in units of y = shift + scale * f``.
    prior : Any
        Kernel or eigenvalue rule, for the standardised y.
    kernel : Kernel or None
        For the standardised y; None for a series prior.
    spectrum : ndarray of shape (J,)
        Prior variances of orthonormal functions that span the basis, in squared units
        of y; their sum is the mean prior variance that these functions explain.
    cycles : ndarray of shape (r, d)
        Frequencies that stand out of the prior, in cycles a unit of X.
    record : SearchRecord
        Which rows chose the hyperparameters.
    findings : tuple of Finding or None
    """

    posterior: LatentModel
    noise_variance: float
    log_evidence: float
    shift: float
    scale: float
    prior: Any
    kernel: Any
    spectrum: Array
    cycles: Array
    record: SearchRecord = SearchRecord()
    findings: tuple[Finding | None, ...] = ()
