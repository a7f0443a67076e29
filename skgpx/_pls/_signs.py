"""The second mode of a likelihood that does not know the sign of f."""

from __future__ import annotations

import numpy as np

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._pls._resampling import resample
from skgpx._types import Array, Generator, Index, Mask


def mirror_images(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images ``-w - 2u`` whose f is about the negative.

    With ``f = offset + Φw`` and ``Φu ≈ offset``; the map preserves volume and is its
    own inverse.
    """
    shift = laplace.mirror_shift(target).T.reshape(1, -1, 1)
    return -w - 2.0 * shift


def of_both_signs(
    target: Target,
    w: Array,
    rng: Generator,
) -> tuple[Array, Index, Mask]:
    """Particles of both modes, from particles of one or both.

    ``nll(y, f) = nll(y, -f)``, but chains stay in the mode in which they start. If w
    follows the posterior within one mode, or within both in any proportion, then w
    with weight 1 and its image w' with weight ``exp(U(w) - U(w'))`` together follow
    the whole posterior, for whatever u. With offset 0 both have the same weight, and
    one of the two is taken at random.

    Parameters
    ----------
    target : Target
        In the coordinates of the weights.
    w : ndarray of shape (1, p, s)
    rng : numpy.random.Generator

    Returns
    -------
    particles : ndarray of shape (1, p, s)
    chosen : ndarray of shape (s,)
        Positions among w of the particles, or of the originals of the images.
    is_image : ndarray of shape (s,)
    """
    images = mirror_images(target, w)
    energy = langevin.start(target, w).energy
    energy_of_image = langevin.start(target, images).energy
    # each particle next to its image, so that a stratum holds both
    log_ratio = energy - energy_of_image
    log_weights = np.stack((np.zeros_like(energy), log_ratio), axis=1).ravel()
    position = resample(log_weights, len(energy), rng, stratified=True)
    chosen = position // 2
    is_image = position % 2 == 1
    particles = np.where(is_image, images[:, :, chosen], w[:, :, chosen])
    return particles, chosen, is_image


def upright(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images, with f positive where it is largest.

    Particles of either sign have a mean of zero, whatever the signs of f in one
    neighbourhood relative to another; these do not.
    """
    m = target.features.shape[1]
    f = target.features @ w[0, :m] + target.offset[:, :1]
    row = int(np.argmax(np.mean(np.abs(f), axis=1)))
    return np.where(f[row] < 0.0, mirror_images(target, w), w)
