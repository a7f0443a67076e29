"""Minima of drawn functions, by batched searches from many starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as scipy_minimize
from scipy.stats import qmc

from skgpx._types import Array, ArrayLike, Index, RandomState

# Values (p, 1) and gradients (p, 1, d) of one draw at each of p points.
Pairs = Callable[[Array, Index], tuple[Array, Array]]


def minimise(
    values: Callable[[Array], Array],
    pairs: Pairs,
    n_draws: int,
    box: Array,
    n_starts: int,
    n_mesh: int,
    random_state: RandomState,
    candidates: ArrayLike | None = None,
) -> OptimizeResult:
    """Minimum of each draw in a box (d, 2): x (s, d), and its value fun (s,).

    `values` gives all draws at rows, (n, s).

    Raises
    ------
    ValueError
        If the draws have no gradient, or if numbers or candidates are invalid.
    """
    if n_starts < 1 or n_mesh < n_starts:
        raise ValueError(
            "n_starts must be at least 1 and n_mesh at least n_starts; got "
            f"n_starts={n_starts}, n_mesh={n_mesh}."
        )
    # draws without gradients raise here, before they are evaluated on the mesh
    centre = box.mean(axis=1)[np.newaxis]
    pairs(centre, np.zeros(1, np.intp))

    # scrambled Sobol mesh of the unit cube
    d = len(box)
    n_bits = int(max(n_mesh - 1, 1)).bit_length()
    rng = np.random.default_rng(random_state)
    mesh = qmc.Sobol(d, seed=rng).random_base2(n_bits)[:n_mesh]
    if candidates is not None:
        # points in the unit cube, (k, d), from points of the box
        points = np.asarray(candidates, dtype=np.float64)
        if (
            points.ndim != 2
            or points.shape[1] != len(box)
            or not np.isfinite(points).all()
        ):
            raise ValueError(
                f"candidates must be finite and of shape (any, {len(box)}); got shape "
                f"{points.shape}."
            )
        low, high = box.T
        width = np.where(low < high, high - low, 1.0)
        mesh = np.concatenate((mesh, np.clip((points - low) / width, 0.0, 1.0)))

    # the best mesh points of each draw start a search
    order = np.argpartition(values(_to_box(mesh, box)), n_starts - 1, axis=0)
    best = order[:n_starts]
    x = np.empty((n_draws, d))
    fun = np.empty(n_draws)
    for i in range(n_draws):
        starts = mesh[best[:, i]]
        u, fun[i] = _search(pairs, i, starts, box)
        x[i] = _to_box(u, box)
    return OptimizeResult(x=x, fun=fun)


def checked_box(bounds: ArrayLike) -> Array:
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


def _to_box(unit: Array, box: Array) -> Array:
    """Points of the unit cube mapped to the box, clipped against rounding."""
    low, high = box.T
    points = low + unit * (high - low)
    return np.clip(points, low, high)


def _search(
    pairs: Pairs,
    draw: int,
    starts: Array,
    box: Array,
) -> tuple[Array, float]:
    """Smallest value of one draw from several starts (k, d) in the unit cube.

    Returns
    -------
    u : ndarray of shape (d,)
        The minimum, in the unit cube.
    fun : float
        Its value.
    """
    width = box[:, 1] - box[:, 0]

    def values_and_slopes(points: Array) -> tuple[Array, Array]:
        X = _to_box(points, box)
        value, slope = pairs(X, np.full(len(points), draw))
        return value[:, 0], slope[:, 0] * width

    def sum_and_slopes(flat: Array) -> tuple[float, Array]:
        value, slope = values_and_slopes(flat.reshape(-1, len(box)))
        return float(value.sum()), slope.ravel()

    def descend(
        start: Array,
        max_iter: int,
        ftol: float,
        gtol: float,
    ) -> OptimizeResult:
        return scipy_minimize(
            sum_and_slopes,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * start.size,
            options={"maxiter": max_iter, "ftol": ftol, "gtol": gtol},
        )

    # all starts as one problem: the sum is minimal where each term is
    joint = descend(starts, 30, ftol=1e-9, gtol=1e-7)
    results = joint.x.reshape(starts.shape)
    candidates = np.concatenate((results, starts))
    values, _ = values_and_slopes(candidates)
    u = candidates[np.argmin(values)]
    fun = float(values.min())
    # refine the best candidate
    refined = descend(u, 200, ftol=1e-14, gtol=1e-9)
    if refined.fun < fun:
        return refined.x, float(refined.fun)
    return u, fun
