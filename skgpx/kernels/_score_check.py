"""Whether a registered score is the slope of the density of a kernel's frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx.kernels._records import record_of
from skgpx.kernels._spectral_densities import log_spectral_density, spectral_score
from skgpx.kernels._spectral_laws import SampledLaw

Array = NDArray[np.float64]

# Frequencies at which a score is compared with slopes of the density.
_COMPARED = 16
# Largest difference from a slope, relative to the largest score.
_TOLERANCE = 1e-2
# Draws of a sampler for Stein's identity, and how far from it they may be: in standard
# errors and relative.
_DRAWS, _ERRORS, _SHARE = 4096, 6.0, 0.05


def check_spectral_score(
    kernel: Any, omega: Array, rng: np.random.Generator | None = None
) -> None:
    """Compare the score of a kernel with everything else that is known of it.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Of a type with a spectral score; not a sum or product.
    omega : ndarray of shape (R, d)
        Angular frequencies, in the bulk of the density.
    rng : numpy.random.Generator, default=None
        For a registered sampler.

    Raises
    ------
    ValueError
        If the score has another shape than omega or is not finite; if it is not odd,
        as that of an even density is; if it is not the slope of a registered density
        (central differences); or, where a sampler is registered, if its draws do not
        obey Stein's identity.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import check_spectral_score
    >>> check_spectral_score(RBF(0.5), np.random.default_rng(0).normal(size=(8, 2)))
    """
    few = omega[:_COMPARED]
    score = _scores(kernel, few)
    if not np.allclose(_scores(kernel, -few), -score, rtol=1e-6, atol=1e-12):
        raise _wrong(kernel, "is not odd in ω, as it is for a real kernel")
    record = record_of(kernel)
    if record.log_spectral_density or record.spectral_density:
        _compare_slopes(kernel, few, score)
    law = record.spectral_law and record.spectral_law(kernel, omega.shape[1])
    if isinstance(law, SampledLaw):
        _check_identity(kernel, law, rng or np.random.default_rng(0))


def _scores(kernel: Any, omega: Array) -> Array:
    score = np.asarray(spectral_score(kernel, omega), dtype=np.float64)
    if score.shape != omega.shape or not np.all(np.isfinite(score)):
        raise _wrong(
            kernel,
            f"must be finite and of shape {omega.shape}; got shape {score.shape}"
            f"{'' if score.shape != omega.shape else ' with infinite or NaN values'}",
        )
    return score


def _compare_slopes(kernel: Any, omega: Array, score: Array) -> None:
    """Central differences of the logarithm of the density."""
    R, d = omega.shape
    steps = 1e-4 * np.maximum(np.std(omega, axis=0), np.mean(np.abs(omega), axis=0))
    steps = np.where(steps > 0.0, steps, 1e-4)
    moves = np.diag(steps)
    # all frequencies moved along all axes, in one call each
    up, down = (
        log_spectral_density(
            kernel, (omega[:, np.newaxis] + sign * moves).reshape(-1, d)
        ).reshape(R, d)
        for sign in (1.0, -1.0)
    )
    # in units of the axis
    error = np.abs((up - down) / 2.0 - score * steps)
    if np.any(error > _TOLERANCE * np.max(np.abs(score * steps), axis=0) + 1e-9):
        raise _wrong(kernel, "is not the slope of its log spectral density")


def _check_identity(kernel: Any, law: SampledLaw, rng: np.random.Generator) -> None:
    """``E[w (ω · ∇ log p + d - |ω|²/h)] = 0``, ``w = exp(-|ω|²/(2h))``, over draws.

    Stein's identity for ``ω w``, in units of the columns: bounded, since samplers may
    have heavy tails.
    """
    omega = law.frequencies(np.empty((_DRAWS, 0)), rng)
    units = np.median(np.abs(omega), axis=0)
    units = np.where(units > 0.0, units, 1.0)
    square = np.sum((omega / units) ** 2, axis=1)
    h = float(np.median(square)) or 1.0
    w = np.exp(-0.5 * square / h)
    products = np.einsum("rd,rd->r", omega, _scores(kernel, omega))
    terms = w * (products + law.d - square / h)
    gap, error = abs(float(np.mean(terms))), np.std(terms) / np.sqrt(_DRAWS)
    if gap > max(_ERRORS * error, _SHARE * law.d * float(np.mean(w))):
        raise _wrong(
            kernel,
            "does not belong to its spectral sampler: its draws do not obey Stein's "
            f"identity (off by {gap / error:.0f} standard errors)",
        )


def _wrong(kernel: Any, what: str) -> ValueError:
    name = type(kernel).__name__
    return ValueError(
        f"The spectral score of {name} {what}. Register ∇ log S(ω), in radians per "
        "unit of the input, with "
        f"skgpx.kernels.register_spectral_score({name}, score)."
    )
