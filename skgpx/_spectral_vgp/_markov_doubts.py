"""What is said of a process of one input that explains nothing, or everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from skgpx._spectral_vgp._markov_fit import MarkovState, noise_of
from skgpx._spectral_vgp._markov_kernel import as_markov
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import warn
from skgpx.exceptions import ConvergenceWarning, FitWarning

# Noise is none if it is this share of the variance of the process between neighbouring
# rows, or less; fewest rows that say so.
_NONE, _FEWEST = 1e-3, 20


def warn_of_markov(found: SpectralFit, state: Any) -> None:
    """One warning at most, of a Markov process: that all is noise, or that none is."""
    if not isinstance(state, MarkovState):
        return
    if _explains_nothing(found, state):
        warn(
            "Nothing but noise was found: no Matern process has a larger evidence than "
            "noise around a constant. If there is more in the data, give more rows, or "
            'a kernel with basis="inducing".',
            FitWarning,
        )
    elif _explains_everything(found, state):
        warn(
            "The noise variance ended at nothing: beside a Matern process of order "
            "1/2, which is nearly as rough as noise, the evidence sees none, and the "
            "function passes through every y. Predictions elsewhere hold, and so do "
            "their intervals; the standard deviations at the rows themselves are zero. "
            "If y is noisy, give the variance of its noise as `noise_variance`, other "
            "measurements at some of the same inputs, or a smoother kernel with "
            'basis="markov", such as Matern(nu=1.5).',
            ConvergenceWarning,
        )


def _explains_nothing(found: SpectralFit, state: MarkovState) -> bool:
    """Whether noise around a constant has a larger evidence."""
    square = state.within + state.weights @ (state.means - found.shift) ** 2
    weight = float(np.sum(state.weights))
    variance = float(square) / weight
    if variance <= 0.0:
        return False
    alone = -0.5 * weight * (np.log(2.0 * np.pi * variance) + 1.0)
    return bool(found.log_evidence <= alone)


def _explains_everything(found: SpectralFit, state: MarkovState) -> bool:
    """Whether noise that was free became nothing beside the roughest of processes.

    Smooth processes do not look like noise: without noise they are right.
    """
    kernel = as_markov(found.prior)
    if len(state.x) < _FEWEST or kernel is None or kernel.nu > 0.5:
        return False
    noise = noise_of(state.settings, 1.0, found.scale)
    amplitude, length_scale = np.exp(kernel.theta)
    gap = float(np.median(np.diff(state.x)))
    # variance of f(x + gap) given f(x): a (1 - exp(-2 gap / l))
    between = -amplitude * np.expm1(-2.0 * gap / length_scale)
    variance = found.noise_variance / found.scale**2
    return bool(noise.low < noise.high and variance <= _NONE * between)
