"""The spectral density of the kernel as a prior of the frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._stein._prior import WaveMixture
from skgpx._validation import warn
from skgpx.exceptions import FitWarning
from skgpx.kernels import spectral_score

Array = NDArray[np.float64]


def prior_weight(
    asked: float | str, kernel: Any, start: WaveMixture, n_rows: float
) -> float:
    """Weight of the log spectral density beside the log evidence.

    "auto" is ``R d / (R d + n)``, the share of the frequencies of a component among
    these and the rows: few rows cannot say much about many frequencies. Kernels without
    a known score, such as periodic ones, have no prior then.
    """
    if asked != "auto":
        return float(asked)
    _, R, d = start.frequencies.shape
    return R * d / (R * d + n_rows) if has_score(kernel, d) else 0.0


def has_score(kernel: Any, d: int) -> bool:
    """Whether the slope of the log spectral density is known."""
    try:
        spectral_score(kernel, np.ones((1, d)))
    except ValueError:
        return False
    return True


def warn_without_prior(kernel: Any, start: WaveMixture, n_rows: int) -> None:
    """Say that more frequencies than rows are about to move without a prior."""
    _, R, d = start.frequencies.shape
    if n_rows >= R * d or has_score(kernel, d):
        return
    warn(
        f"{R} frequencies in {d} dimensions are learned from {n_rows} rows without a "
        f"prior, as the spectral density of {kernel!r} has no known slope: they are "
        "likely to fit noise. Take max_iter=0, or a kernel with a density (see "
        "skgpx.kernels.register_spectral_score).",
        FitWarning,
    )


def prior_slope(mixture: WaveMixture, kernel: Any) -> Array:
    """Slope of the log spectral density in Ω, (M, R, d)."""
    shape, scale = mixture.frequencies.shape, mixture.length_scale
    omega = (mixture.frequencies / scale).reshape(-1, shape[-1])
    return spectral_score(kernel, omega).reshape(shape) / scale
