"""Adam, and a learning rate that decays as a cosine."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel

Array = NDArray[np.float64]


@kernel
def adam_step(
    parameters: Array,
    gradient: Array,
    first: Array,
    second: Array,
    step: int,
    learning_rate: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> None:
    """Move the parameters one step down a gradient, in place.

    Parameters
    ----------
    parameters : ndarray, C-contiguous
        Of any shape; changed.
    gradient : ndarray, C-contiguous, of the same shape
        Of what is minimised.
    first, second : ndarray, C-contiguous, of the same shape
        Running means of the gradient and of its square, zero before the first step;
        changed.
    step : int
        Number of this step, from 1 on.
    learning_rate : float
        Largest change of a parameter whose gradients have one sign.
    beta1, beta2 : float, default=0.9, 0.999
        Shares of the past in the running means.
    epsilon : float, default=1e-8
        Added to the root of the mean square.

    Notes
    -----
    ``θ ← θ - η m̂ / (√v̂ + ε)`` with ``m̂ = m / (1 - β₁ᵗ)`` and ``v̂ = v / (1 - β₂ᵗ)``
    (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015,
    Algorithm 1). The step does not depend on the scale of the gradient.
    """
    theta, g = parameters.reshape(-1), gradient.reshape(-1)
    m, v = first.reshape(-1), second.reshape(-1)
    mean = learning_rate / (1.0 - beta1**step)
    root = 1.0 / math.sqrt(1.0 - beta2**step)
    for i in range(theta.size):
        m[i] = beta1 * m[i] + (1.0 - beta1) * g[i]
        v[i] = beta2 * v[i] + (1.0 - beta2) * g[i] * g[i]
        theta[i] -= mean * m[i] / (root * math.sqrt(v[i]) + epsilon)


@kernel
def cosine_decay(
    step: int, n_steps: int, learning_rate: float, floor: float = 0.0
) -> float:
    """``floor + (η - floor) (1 + cos(π t / T)) / 2``: η at step 0, floor at step T.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts",
    ICLR 2017, eq. (5), without restarts.
    """
    share = 0.5 * (1.0 + math.cos(math.pi * step / n_steps))
    return floor + (learning_rate - floor) * share
