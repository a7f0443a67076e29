"""Adam, and a learning rate that decays as a cosine."""

from __future__ import annotations

import math

from skgpx._numerics._jit import kernel
from skgpx._types import Array

# β₁ and β₂ of the paper, whose ε is 1e-8. They are not defaults of arguments: a call of
# compiled code from Python takes 50 µs more where an argument is left out.
_BETA_1 = 0.9
_BETA_2 = 0.999


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
        Of the function that is minimised.
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
    theta = parameters.reshape(-1)
    g = gradient.reshape(-1)
    m = first.reshape(-1)
    v = second.reshape(-1)
    # η / (1 - β₁ᵗ) and 1 / √(1 - β₂ᵗ)
    rate = learning_rate / (1.0 - _BETA_1**step)
    scale = 1.0 / math.sqrt(1.0 - _BETA_2**step)
    for i in range(theta.size):
        m[i] = _BETA_1 * m[i] + (1.0 - _BETA_1) * g[i]
        v[i] = _BETA_2 * v[i] + (1.0 - _BETA_2) * g[i] * g[i]
        root = math.sqrt(v[i])
        theta[i] -= rate * m[i] / (scale * root + 1e-8)


@kernel
def cosine_decay(step: int, n_steps: int, learning_rate: float) -> float:
    """``η (1 + cos(π t / T)) / 2``: η at step 0, zero at step T.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts",
    ICLR 2017, eq. (5), without restarts.
    """
    angle = math.pi * step / n_steps
    return learning_rate * 0.5 * (1.0 + math.cos(angle))
