"""What every fit of a spectral model ends with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._selection import SearchRecord
from skgpx._spectral_vgp._domain import continued, kernel_of
from skgpx.likelihoods import Gaussian
from skgpx.likelihoods._rows import KnownNoise

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
    spectrum : ndarray of shape (J,)
        Prior variances of orthonormal functions that span the basis, in squared units
        of y; their sum is the mean prior variance that these functions explain.
    cycles : ndarray of shape (r, d) or None
        Frequencies that stand out of a series prior, in cycles a unit of X.
    record : SearchRecord
        Which rows chose the hyperparameters.
    """

    posterior: LatentModel
    noise_variance: float
    log_evidence: float
    shift: float
    scale: float
    prior: Any
    spectrum: Array
    cycles: Array | None = None
    record: SearchRecord = SearchRecord()


def fitted_attributes(
    state: Any,
    found: SpectralFit,
    domain: Array | None,
    noise: KnownNoise | None,
    fourier: bool,
    follows_prior: bool,
) -> dict[str, Any]:
    """Attributes of a fitted `SpectralVGPRegressor`.

    Parameters
    ----------
    state : object
        Sums over the rows seen.
    found : SpectralFit
        Their solution.
    domain : ndarray of shape (d, 2) or None
        If it was given.
    noise : KnownNoise or None
        Of each row of `fit`.
    fourier : bool
        Whether the basis is of Fourier functions on a box.
    follows_prior : bool
        Whether they answer as the prior does outside of it.
    """
    posterior: Any = found.posterior
    if fourier and follows_prior:
        posterior = continued(posterior, found.prior, state.domain, state.seen)
    variance, evidence = found.noise_variance, found.log_evidence
    if noise is not None:
        variance, evidence = noise.mean, evidence - noise.constant
    none = np.empty((0, len(state.seen)))
    return {
        "_state": state,
        "_record": found.record,
        "kernel_": kernel_of(found.prior) if fourier else found.prior,
        "posterior_": posterior.affine(found.shift, found.scale),
        "noise_variance_": variance,
        "likelihood_": Gaussian(variance).prepare([0.0]),
        "log_evidence_": evidence,
        "prior_": found.prior,
        "spectrum_": found.spectrum,
        "cycles_": none if found.cycles is None else found.cycles,
        "n_basis_": found.posterior.n_basis,
        "domain_": state.seen if domain is None else domain,
    }
