"""The modes of a target, and where particles are among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters import rough_latent_values
from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.modes import Survey, is_log_concave, survey
from skgpx._numerics.smoothing import smoothed
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Largest n m² at which "auto" tempers where there are several modes: some ten seconds.
_TEMPERED = 5e6


def look_around(
    target: Target, mode: laplace.Mode, likelihood: Likelihood, rng: np.random.Generator
) -> Survey:
    """The best mode, and how many others there are if there can be any."""
    if is_log_concave(target):
        return Survey(mode, True)
    rough = rough_latent_values(target)
    return survey(smoothed(target), mode, rough, likelihood.symmetric, rng)


def affordable(target: Target) -> bool:
    """Whether tempering takes some ten seconds of one core at most.

    It takes about ``25 m`` steps of 400 particles, of ``4 n m`` operations each.
    """
    n, m = target.features.shape
    nodes = len(target.nodes)
    return bool(n * (m * target.n_outputs) ** 2 * nodes <= _TEMPERED)


def above_best(target: Target, w: Array, best: laplace.Mode) -> float:
    """Mean potential of particles (1, p, s) above the best mode, in nats.

    The search goes on from the particle of the lowest potential: it may have found a
    better mode.
    """
    energy = langevin.start(target, w).energy
    c = target.n_outputs
    lowest = w[0, :, int(np.argmin(energy))].reshape(c, -1).T
    found = laplace.find_mode(smoothed(target), lowest)
    ends = np.stack([mode.weights.T.ravel() for mode in (best, found)], axis=1)
    floor = langevin.start(target, ends[np.newaxis]).energy.min()
    return float(energy.mean() - floor)
