"""The default kernel in the units of a latent function, between bounds that suit it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skgpx._validation import Rows
from skgpx.kernels import GREKernel, default_kernel
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Largest prior standard deviation of log odds or log rates under the default kernel:
# on separable classes the evidence would grow with it for ever.
LARGEST_STD = 6.0
# Bounds of the default kernel's amplitude and background, in units of the latent.
_AMPLITUDE, _BACKGROUND = (1e-3, 1e3), (1e-5, 1e5)


def rough_latent(rows: Rows, likelihood: Likelihood) -> Array:
    """Rough latent values of the rows around their base, (n, c)."""
    rough = np.asarray(likelihood.rough_latent(rows.y, rows.known), dtype=np.float64)
    return rough.reshape(len(rows.y), -1) - likelihood.base_latent_


def latent_scale(rows: Rows, likelihood: Likelihood) -> float:
    """Root mean square of the rough latent values: the unit of the default kernel.

    One for latent functions of known scale: those of standardised targets, log odds and
    log rates.
    """
    if likelihood.location_scale or likelihood.log_scale:
        return 1.0
    square = np.mean(rough_latent(rows, likelihood) ** 2, axis=1)
    scale = float(np.sqrt(np.average(square, weights=rows.weights)))
    return scale if np.isfinite(scale) and scale > 0.0 else 1.0


def with_base_rates(rows: Rows, likelihood: Likelihood, kernel: Any) -> Likelihood:
    """Likelihood whose prior expects, far from the data, what it did at its base.

    The variance there is that of a stationary kernel, or of the background of a GRE
    kernel; of others the mean over the rows.
    """
    if isinstance(kernel, GREKernel):
        variance = kernel.background * kernel.background_kernel().diag(rows.X)
    else:
        variance = kernel.diag(rows.X)
    return likelihood.centred(float(np.average(variance, weights=rows.weights)))


def default_latent_kernel(rows: Rows, likelihood: Likelihood, prior: str) -> Any:
    """Default kernel of a latent function whose standard deviation is `latent_scale`.

    `prior` is what it is made into, "gre" or "gp": the variance of the GRE kernel is
    up to the square of k's.
    """
    kernel, square = default_kernel(rows.X, rows.weights), 1.0
    low, high = _AMPLITUDE
    if likelihood.log_scale:
        high = LARGEST_STD if prior == "gre" else LARGEST_STD**2
    elif not likelihood.location_scale:
        square = latent_scale(rows, likelihood) ** 2
    return kernel.set_params(
        k1__constant_value=square,
        k1__constant_value_bounds=(low * square, high * square),
    )


def default_gre(
    priors: tuple[GREKernel, ...], rows: Rows, likelihood: Likelihood
) -> list[GREKernel]:
    """GRE kernels around default kernels, with the same variance as these.

    With k of variance ``a ≈ s²``, s the scale of the latent function, the integral of
    ``(k / s)²`` has about the variance ``(a / s)² ≈ s²``, and ``s k / s`` that of k.
    """
    s = latent_scale(rows, likelihood)
    low, high = (bound * s for bound in _BACKGROUND)
    if likelihood.log_scale:
        high = LARGEST_STD
    scaled = []
    for prior in priors:
        k = prior.kernel.k1
        bounds = np.ravel(k.constant_value_bounds) / s
        inside = {
            "kernel__k1__constant_value": k.constant_value / s,
            "kernel__k1__constant_value_bounds": (float(bounds[0]), float(bounds[1])),
        }
        outside = {"background": s, "background_bounds": (low, high)}
        scaled.append(clone(prior).set_params(**inside, **outside))
    return scaled
