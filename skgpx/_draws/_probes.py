"""Fresh inputs, at which features are compared with the exact standard deviations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._misfit import Conditioning, Predicted, floors
from skgpx._numerics.linalg import solve_lower, solve_lower_transpose

Array = NDArray[np.float64]

# Fresh inputs of each kind: inside the data, and outside.
_PROBES = 8
# How far beyond the data those outside are, relative to their distance from the mean.
_BEYOND = 0.1


def probe(kernel: Any, given: Conditioning, rng: np.random.Generator) -> Predicted:
    """Predict fresh inputs from all points; ``given.root`` must be known.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, without noise.
    given : Conditioning
        The points.
    rng : numpy.random.Generator
        Picks the inputs.

    Notes
    -----
    O(n^2) time: unlike the points left out, all points are used whatever n.
    """
    X, L = given.points, given.root
    assert L is not None
    fresh = fresh_inputs(X, rng)
    h = solve_lower(L, kernel(X, fresh))
    exact = kernel(fresh, fresh) - h.T @ h
    V = solve_lower_transpose(L, h)
    functionals = np.hstack((np.eye(len(fresh)), -V.T))
    variance = float(np.mean(kernel.diag(fresh)))
    return Predicted(
        points=np.concatenate((fresh, X)),
        functionals=functionals,
        fixed=(V.T * given.noise) @ V,
        exact=exact,
        floor=floors(functionals, variance, given.negligible),
    )


def fresh_inputs(X: Array, rng: np.random.Generator) -> Array:
    """Inputs between points and just outside their range, shape (16, d).

    Those inside lie between two random points. Those outside extend the line from the
    mean to a point that is extreme in a random direction by a tenth.
    """
    n, d = X.shape
    one, other = X[rng.integers(n, size=(2, _PROBES))]
    inside = one + rng.random((_PROBES, 1)) * (other - one)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    directions = rng.standard_normal((_PROBES, d))
    # directions in units of the spread; a constant column has none
    scaled = np.divide(X - centre, spread, out=np.zeros_like(X), where=spread > 0.0)
    extreme = X[np.argmax(scaled @ directions.T, axis=0)]
    return np.concatenate((inside, extreme + _BEYOND * (extreme - centre)))
