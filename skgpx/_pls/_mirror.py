"""The second mode of a likelihood that does not know the sign of f."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.smc import stratified

Array = NDArray[np.float64]


def with_mirror_images(
    target: Target, particles: Array, rng: np.random.Generator
) -> Array:
    """Particles of both modes of a symmetric likelihood, rightly weighted.

    ``nll(y, f) = nll(y, -f)``, but chains stay in the mode in which they start. With
    ``f = offset + Φw``, the map ``w' = -w - 2 u`` with ``Φu ≈ offset`` takes f to about
    -f; it preserves volume and is its own inverse. If w follows the posterior within
    one mode, or within both in any proportion, then w with weight 1 and w' with weight
    ``exp(U(w) - U(w'))`` together follow the whole posterior, for whatever u. With
    offset 0 both have the same weight, and one of the two is taken at random.

    Parameters
    ----------
    target : Target
    particles : ndarray of shape (m, c, s)
    rng : numpy.random.Generator

    Returns
    -------
    particles : ndarray of shape (m, c, s)
        Chosen among the particles and their images, by stratified resampling.
    """
    m, c, s = particles.shape
    offset = np.broadcast_to(target.offset, (len(target.y), c))
    shift = laplace.projection_start(target.features, offset, target.weights)
    images = -particles - 2.0 * shift[:, :, np.newaxis]
    # each particle beside its image, so that a stratum holds both
    both = np.stack((particles, images), axis=3).reshape(m, c, 2 * s)
    plain = langevin.in_coordinates(
        target, np.zeros((1, m * c)), np.eye(m * c)[np.newaxis]
    )
    z = both.transpose(1, 0, 2).reshape(1, m * c, 2 * s)
    energy = langevin.start(plain, z).energy.reshape(s, 2)
    log_weights = np.zeros((s, 2))
    log_weights[:, 1] = energy[:, 0] - energy[:, 1]
    chosen = stratified(log_weights.ravel(), s, rng)
    return np.ascontiguousarray(both[:, :, chosen])
