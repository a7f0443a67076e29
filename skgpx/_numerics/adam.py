"""Adam, and a learning rate that decays as a cosine."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel

Array = NDArray[np.float64]

# β₁, β₂ and ε of the paper, and not defaults of arguments: to see that one is left out
# takes a call of compiled code from Python 50 µs.
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


@kernel
def adam_step(
    parameters: Array,
    gradient: Array,
    first: Array,
    second: Array,
    step: int,
    learning_rate: float,
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

    Notes
    -----
    ``θ ← θ - η m̂ / (√v̂ + ε)`` with ``m̂ = m / (1 - β₁ᵗ)`` and ``v̂ = v / (1 - β₂ᵗ)``,
    where m and v keep a share β₁ = .9 and β₂ = .999 of the past, and ε = 1e-8
    (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015,
    Algorithm 1). The step does not depend on the scale of the gradient.
    """
    theta, g = parameters.reshape(-1), gradient.reshape(-1)
    m, v = first.reshape(-1), second.reshape(-1)
    mean = learning_rate / (1.0 - _BETA_1**step)
    root = 1.0 / math.sqrt(1.0 - _BETA_2**step)
    for i in range(theta.size):
        m[i] = _BETA_1 * m[i] + (1.0 - _BETA_1) * g[i]
        v[i] = _BETA_2 * v[i] + (1.0 - _BETA_2) * g[i] * g[i]
        theta[i] -= mean * m[i] / (root * math.sqrt(v[i]) + _EPSILON)


@kernel
def cosine_decay(step: int, n_steps: int, learning_rate: float) -> float:
    """``η (1 + cos(π t / T)) / 2``: η at step 0, zero at step T.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts",
    ICLR 2017, eq. (5), without restarts.
    """
    return learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / n_steps))
