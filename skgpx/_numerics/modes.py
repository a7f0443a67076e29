"""Modes of a log density."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import laplace
from skgpx._numerics.langevin import QUADRATIC, Target, latent_values
from skgpx._numerics.laplace import Mode

# ---- Is a likelihood log-concave where it matters? Looked up, not declared -----------


Array = NDArray[np.float64]

# Places along a direction, in prior standard deviations from the prior mean.
PLACES = np.linspace(-4.0, 4.0, 81)


def is_log_concave(target: Target) -> bool:
    """Whether nll(y, f) is convex in f, at some rows and within reach of the prior.

    If so, the potential of the weights is strictly convex: it has one mode. The slope
    along a line must not fall; the lines pass through the prior mean of each row, over
    four prior standard deviations to either side. `target` must be in the coordinates
    of the weights.

    Notes
    -----
    Fifty rows, 81 places on each of one line (one output) or six: under a millisecond.
    A likelihood that is not log-concave further away counts as log-concave: no
    function of the prior goes there.
    """
    if target.code == QUADRATIC:
        return True
    rows = np.unique(np.linspace(0, len(target.y) - 1, 50).astype(np.intp))
    c = target.n_outputs
    std = np.linalg.norm(target.features[rows], axis=1)
    std = np.sqrt(std[:, np.newaxis] ** 2 + target.std[rows] ** 2)
    centre = np.broadcast_to(target.offset, (len(target.y), c))[rows]
    lines = np.random.default_rng(0).standard_normal((6, c))
    likelihood = target.likelihood.at_some(rows)
    # no place is exactly at zero
    for line in np.ones((1, 1)) if c == 1 else lines:
        step = (std * line)[:, :, np.newaxis]
        f = centre[:, :, np.newaxis] + step * (PLACES + 1e-3)
        slope = np.sum(likelihood.row_gradient(target.y[rows], f) * step, axis=1)
        largest = np.max(np.abs(slope), axis=1, keepdims=True)
        if np.any(np.diff(slope, axis=1) < -1e-7 * (largest + 1.0)):
            return False
    return True


# ---- Several modes of the weights: a search from many starts -------------------------


# Nats of evidence by which a mode may be below the best one and still be a rival: far
# too many for its own weight, but where there are several modes there are more that
# the search did not find.
RIVAL = 25.0


def log_evidence(mode: Mode) -> float:
    """Laplace's approximation ``-ψ(ŵ) + log |root|``, up to a constant of all modes."""
    _, log_volume = np.linalg.slogdet(mode.root)
    return float(np.sum(log_volume)) - mode.energy


def survey(
    target: Target,
    first: Mode,
    rough: Array,
    symmetric: bool,
    rng: np.random.Generator,
) -> tuple[Mode, Array]:
    """Search for modes from several starts, and compare them with the first.

    Parameters
    ----------
    target : Target
        Smoothed where its likelihood has kinks, in the coordinates of the weights.
    first : Mode
    rough : ndarray of shape (n, c)
        Rough latent values of the rows, less their offset.
    symmetric : bool
        Whether the likelihood does not know the sign of f. Mirror images are then no
        rivals, and functions of other signs in some neighbourhoods are tried.
    rng : numpy.random.Generator

    Returns
    -------
    best : Mode
    gaps : ndarray of shape (k,)
        Nats of Laplace evidence between the best mode and each of the k others.

    Notes
    -----
    Ten searches of a few Newton steps, O(n m^2 + m^3) each.
    """
    found = [first]
    shift = laplace.mirror_shift(target) if symmetric else None

    for start in _starts(target, first, rough, symmetric, rng, found):
        mode = laplace.find_mode(target, start, 1e-2)
        if not any(_same(mode, other, shift) for other in found):
            found.append(mode)
    evidences = np.array([log_evidence(mode) for mode in found])
    best = int(np.argmax(evidences))
    gaps: Array = np.delete(evidences[best] - evidences, best)
    if best == 0:
        return first, gaps
    return laplace.find_mode(target, found[best].weights), gaps


def _same(mode: Mode, other: Mode, shift: Array | None) -> bool:
    """Whether two searches ended at one mode, or at its mirror image."""
    places = [mode.weights]
    if shift is not None:
        places.append(-mode.weights - 2.0 * shift)
    groups = len(other.root)
    for place in places:
        apart = (place - other.weights).T.reshape(groups, -1, 1)
        if np.linalg.norm(np.linalg.solve(other.root, apart)) < 1.0:
            return True
    return False


def _starts(
    target: Target,
    first: Mode,
    rough: Array,
    symmetric: bool,
    rng: np.random.Generator,
    found: list[Mode],
) -> Iterator[Array]:
    """Where to search: prior draws, some of the rows, flipped neighbourhoods.

    The last place is opposite to the best of the modes that were `found` by then.
    """
    favoured = _favoured(target) if target.n_outputs == 1 else None
    for _ in range(4):
        yield rng.standard_normal(first.weights.shape)
        yield _of_some_rows(target, rough, favoured, rng)
        if symmetric:
            yield _flipped(target, first.weights, rng)
    if not symmetric:
        yield -max(found, key=log_evidence).weights


def _favoured(target: Target) -> tuple[Array, NDArray[np.bool_]]:
    """Latent values (n, k), and which of them are local minima of a row's nll."""
    std = np.sqrt(np.sum(target.features**2, axis=1) + target.std[:, 0] ** 2)
    f = target.offset + std[:, np.newaxis] * PLACES
    nll = target.likelihood.row_nll(target.y, f[:, np.newaxis])
    low = np.zeros(f.shape, dtype=bool)
    low[:, 1:-1] = (nll[:, 1:-1] < nll[:, :-2]) & (nll[:, 1:-1] <= nll[:, 2:])
    return f - target.offset, low


def _of_some_rows(
    target: Target,
    rough: Array,
    favoured: tuple[Array, NDArray[np.bool_]] | None,
    rng: np.random.Generator,
) -> Array:
    """The function through what a quarter of the rows, or more, favour by themselves.

    Where rows favour several values, neighbours favour the lower or the higher ones
    together; where they favour none, rough latent values are taken.
    """
    n, m = target.features.shape
    values = rough.copy()
    if favoured is not None:
        f, low = favoured
        near = np.isin(np.arange(n), _neighbourhood(target, rng)[: rng.integers(n + 1)])
        level = np.where(near, rng.random(), rng.random())
        count = low.sum(axis=1, keepdims=True)
        rank = np.floor(level[:, np.newaxis] * count) + 1.0
        which = np.argmax((np.cumsum(low, axis=1) == rank) & low, axis=1)
        taken = f[np.arange(n), which][:, np.newaxis]
        values = np.where(count > 0, taken, values)
    size = max(1, min(int(max(n // 4, n * rng.random() ** 2)), 4 * m))
    some = rng.choice(n, size, replace=False)
    phi, omega = target.features[some], target.weights[some]
    return laplace.projection_start(phi, values[some], omega)


def _flipped(target: Target, weights: Array, rng: np.random.Generator) -> Array:
    """The function with its sign changed in the neighbourhood of a row.

    Neighbourhoods end where the function is small, where a change of sign costs least.
    """
    f = latent_values(target, weights)
    order = _neighbourhood(target, rng)
    barrier = np.linalg.norm(f[order], axis=1)
    chance = np.exp(-0.5 * np.minimum(barrier[:-1], barrier[1:]) ** 2) + 1e-6
    end = 1 + rng.choice(len(chance), p=chance / chance.sum()) if len(f) > 1 else 1
    f[order[:end]] *= -1.0
    return laplace.projection_start(target.features, f - target.offset, target.weights)


def _neighbourhood(target: Target, rng: np.random.Generator) -> NDArray[np.intp]:
    """All rows, those first whose prior correlation with one of them is largest."""
    phi = target.features
    likeness = phi @ phi[rng.integers(len(phi))]
    likeness /= np.maximum(np.linalg.norm(phi, axis=1), 1e-300)
    return np.argsort(-likeness, kind="stable")
