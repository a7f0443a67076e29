"""One step of mixture Stein random feature regression, in plain JAX.

As the method is usually written: the log evidence by automatic differentiation, mapped
over components, and a kernel on an array of all differences (M, M, R, R, d).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_factor, cho_solve

jax.config.update("jax_enable_x64", True)


def log_evidence(omega, X, y, length_scale, noise_variance):
    """Log evidence of a process of variance one with frequencies (R, d)."""
    R, n = len(omega), len(y)
    Z = X @ (omega / length_scale).T
    features = jnp.hstack((jnp.cos(Z), jnp.sin(Z))) / jnp.sqrt(R)
    A = features.T @ features + noise_variance * jnp.eye(2 * R)
    factor = cho_factor(A, lower=True)
    moment = features.T @ y
    square = y @ y - moment @ cho_solve(factor, moment)
    volume = jnp.sum(jnp.log(jnp.diag(factor[0])))
    scale = 0.5 * n * jnp.log(2.0 * jnp.pi * noise_variance)
    spared = R * jnp.log(noise_variance)
    return -0.5 * square / noise_variance - volume + spared - scale


def force(omega, slopes, repulsion, squares=None):
    """Stein force on frequencies (M, R, d); bandwidths by medians unless given."""
    difference = omega[:, None, :, None, :] - omega[None, :, None, :, :]
    square = difference**2
    h = jnp.median(square, axis=(0, 1, 2, 3)) if squares is None else squares
    K = jnp.exp(-0.5 * jnp.sum(square / h, axis=-1))[..., None]
    total = K * slopes[None, :, None, :, :] + repulsion * K * difference / h
    return jnp.sum(total, axis=(1, 3)) / len(omega)


@partial(jax.jit, static_argnames=("median",))
def _step(omega, first, second, t, X, y, length_scale, noise_variance, median):
    slope = jax.grad(log_evidence)
    slopes = jax.vmap(lambda w: slope(w, X, y, length_scale, noise_variance))(omega)
    squares = None if median else jnp.ones(omega.shape[-1])
    g = -force(omega, slopes, 1.0, squares)
    first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
    mean, square = first / (1.0 - 0.9**t), second / (1.0 - 0.999**t)
    return omega - 0.1 * mean / (jnp.sqrt(square) + 1e-8), first, second


class JaxStein:
    """State of the descent.

    Parameters
    ----------
    X, y : ndarray of shape (n, d), (n,)
    omega : ndarray of shape (M, R, d)
    length_scale : ndarray of shape (d,)
    noise_variance : float
    median : bool
        Whether bandwidths are medians; ones otherwise.
    """

    def __init__(self, X, y, omega, length_scale, noise_variance, median=True):
        self._data = tuple(map(jnp.asarray, (X, y)))
        self._scales = jnp.asarray(length_scale), noise_variance
        self._median, self._t = median, 0
        zero = jnp.zeros(omega.shape)
        self._state = jnp.asarray(omega), zero, zero

    def step(self):
        """Move the frequencies once."""
        self._t += 1
        how = *self._data, *self._scales, self._median
        self._state = _step(*self._state, float(self._t), *how)
        jax.block_until_ready(self._state)

    @property
    def frequencies(self):
        """Where they are, (M, R, d)."""
        return np.asarray(self._state[0])
