"""Minima of drawn functions, by batched searches from many starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as scipy_minimize
from scipy.stats import qmc

Array = NDArray[np.float64]


def minimise(
    draws: Any,
    bounds: ArrayLike,
    n_starts: int,
    n_mesh: int,
    seed: Any,
) -> OptimizeResult:
    """Minimum of each draw in a box: x (s, d), and its value fun (s,).

    Raises
    ------
    ValueError
        If the draws have several outputs or no gradient, or if bounds or numbers are
        invalid.
    """
    if draws.n_outputs != 1:
        raise ValueError(
            f"Only functions with one output have a minimum; got {draws.n_outputs} "
            "outputs."
        )
    box = _box(bounds)
    draws._rows(box.T)
    if n_starts < 1 or n_mesh < n_starts:
        raise ValueError(
            "n_starts must be at least 1 and n_mesh at least n_starts; got "
            f"n_starts={n_starts}, n_mesh={n_mesh}."
        )
    # draws without gradients raise here, before they are evaluated on the mesh
    draws._pairs(box.mean(axis=1)[np.newaxis], np.zeros(1, np.intp))
    d, s = len(box), draws.n_draws
    n_powers = int(max(n_mesh - 1, 1)).bit_length()
    rng = np.random.default_rng(seed)
    unit = qmc.Sobol(d, seed=rng).random_base2(n_powers)[:n_mesh]
    values = draws.values(_placed(unit, box))[:, 0, :]
    best = np.argpartition(values, n_starts - 1, axis=0)[:n_starts]
    x, fun = np.empty((s, d)), np.empty(s)
    for i in range(s):
        u, fun[i] = _search(draws, box, unit[best[:, i]], i)
        x[i] = _placed(u, box)
    return OptimizeResult(x=x, fun=fun)


def _box(bounds: ArrayLike) -> Array:
    """Bounds as an array of shape (d, 2)."""
    box = np.asarray(bounds, dtype=np.float64)
    if box.ndim != 2 or box.shape[1] != 2:
        raise ValueError(
            f"bounds must have shape (n_features, 2); got {box.shape}. Pass a pair "
            "(lower, upper) for each input."
        )
    if not np.isfinite(box).all() or np.any(box[:, 0] > box[:, 1]):
        raise ValueError(
            "Every lower bound must be finite and at most its upper one, which holds "
            f"an input fixed; got {box}."
        )
    return box


def _placed(unit: Array, box: Array) -> Array:
    """Points of the unit cube mapped to the box, clipped against rounding."""
    low, high = box.T
    return np.clip(low + unit * (high - low), low, high)


def _search(draws: Any, box: Array, starts: Array, i: int) -> tuple[Array, float]:
    """Smallest value of one draw from several starts (k, d) in the unit cube."""
    width = box[:, 1] - box[:, 0]

    def evaluate(flat: Array) -> tuple[Array, Array]:
        U = flat.reshape(-1, len(box))
        value, slope = draws._pairs(_placed(U, box), np.full(len(U), i))
        return value[:, 0], slope[:, 0] * width

    def total(flat: Array) -> tuple[float, Array]:
        value, slope = evaluate(flat)
        return float(value.sum()), slope.ravel()

    def descend(start: Array, max_iter: int, ftol: float, gtol: float) -> Any:
        return scipy_minimize(
            total, start.ravel(), jac=True, method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * start.size,
            options={"maxiter": max_iter, "ftol": ftol, "gtol": gtol},
        )  # fmt: skip

    # all starts as one problem: the sum is minimal where each term is
    joint = descend(starts, 30, ftol=1e-9, gtol=1e-7)
    candidates = np.concatenate((joint.x.reshape(starts.shape), starts))
    values = evaluate(candidates.ravel())[0]
    u, fun = candidates[np.argmin(values)], float(values.min())
    found = descend(u, 200, ftol=1e-14, gtol=1e-9)
    return (found.x, float(found.fun)) if found.fun < fun else (u, fun)
