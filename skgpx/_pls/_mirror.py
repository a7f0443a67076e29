"""The second mode of a likelihood that does not know the sign of f."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.smc import stratified

Array = NDArray[np.float64]


def mirror_images(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images ``-w - 2u`` whose f is about the negative.

    With ``f = offset + Φw`` and ``Φu ≈ offset``; the map preserves volume and is its
    own inverse.
    """
    shift = laplace.mirror_shift(target).T.reshape(1, -1, 1)
    images: Array = -w - 2.0 * shift
    return images


def with_mirror_images(
    target: Target, w: Array, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Which particles follow both modes, themselves or replaced by their images.

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
    chosen : ndarray of shape (s,)
    mirrored : ndarray of shape (s,)
        Indices of particles, by stratified resampling, and whether each is replaced.
    """
    s = w.shape[2]
    energy = langevin.start(target, w).energy
    other = langevin.start(target, mirror_images(target, w)).energy
    # each particle beside its image, so that a stratum holds both
    log_weights = np.stack((np.zeros(s), energy - other), axis=1).ravel()
    chosen = stratified(log_weights, s, rng)
    return chosen // 2, chosen % 2 == 1


def upright(target: Target, w: Array) -> Array:
    """Particles (1, p, s), or their images, with f positive where it is largest.

    Particles of either sign have a mean of zero, whatever the signs of f in one
    neighbourhood relative to another; these do not.
    """
    m = target.features.shape[1]
    f = target.features @ w[0, :m] + target.offset[:, :1]
    largest = f[int(np.argmax(np.mean(np.abs(f), axis=1)))]
    return np.where(largest < 0.0, mirror_images(target, w), w)


def flip(
    target: Target, w: Array, temperature: float, rng: np.random.Generator
) -> Array:
    """One Metropolis step of particles (1, p, s) to their images or not.

    The proposal is made with probability ½, which mixes signs at once with offset 0.
    """
    images = mirror_images(target, w)
    energy, other = (langevin.start(target, x, temperature).energy for x in (w, images))
    accepted = 2.0 * rng.random(w.shape[2]) < np.exp(np.minimum(energy - other, 0.0))
    return np.where(accepted, images, w)
