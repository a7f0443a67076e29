"""Modes of a log density."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import laplace
from skgpx._numerics.langevin import QUADRATIC, Target, latent_values
from skgpx._numerics.laplace import Mode

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

# Points of a line through the prior mean, in prior standard deviations.
PLACES = np.linspace(-4.0, 4.0, 81)

# ---- Is a likelihood log-concave within reach of the prior? A test of its gradient ---


def is_log_concave(target: Target) -> bool:
    """Whether nll(y, f) is convex in f, at sampled rows and within reach of the prior.

    If so, the potential of the weights is strictly convex and has one mode. The test
    requires that the slope of the nll does not fall along lines through the prior mean
    of each row, which extend four prior standard deviations to either side. `target`
    must be in the coordinates of the weights.

    Notes
    -----
    Fifty rows, 81 points on each of one line (one output) or six: under a millisecond.
    A likelihood that is not log-concave only beyond these lines counts as log-concave:
    no function of the prior goes there.
    """
    if target.code == QUADRATIC:
        return True
    n = len(target.y)
    c = target.n_outputs
    positions = np.linspace(0, n - 1, 50)
    rows = np.unique(positions.astype(np.intp))
    y = target.y[rows]
    likelihood = target.likelihood.at_some(rows)
    # prior moments of f: the offset, and |φ|² + std²
    offset = np.broadcast_to(target.offset, (n, c))
    mean = offset[rows][:, :, np.newaxis]
    basis_std = np.linalg.norm(target.features[rows], axis=1)
    basis_variance = basis_std[:, np.newaxis] ** 2
    prior_variance = basis_variance + target.std[rows] ** 2
    prior_std = np.sqrt(prior_variance)
    lines = np.ones((1, 1))
    if c > 1:
        rng = np.random.default_rng(0)
        lines = rng.standard_normal((6, c))
    # shifted, so that no point is exactly at zero
    places = PLACES + 1e-3
    for line in lines:
        direction = prior_std * line
        direction = direction[:, :, np.newaxis]
        f = mean + direction * places
        gradient = likelihood.row_gradient(y, f)
        slope = np.sum(gradient * direction, axis=1)
        largest = np.max(np.abs(slope), axis=1, keepdims=True)
        rounding = 1e-7 * (largest + 1.0)
        rise = np.diff(slope, axis=1)
        if np.any(rise < -rounding):
            return False
    return True


# ---- Several modes of the weights: a search from many starts -------------------------


# Largest gap of the Laplace evidence between the best mode and a rival, in nats. A mode
# with this gap has no weight of its own, but it shows that there are further modes,
# which the search did not find.
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
        Whether the likelihood does not depend on the sign of f. Mirror images of a mode
        are then no rivals, and functions that change sign in a neighbourhood of rows
        are starts.
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
    modes = [first]
    shift = None
    if symmetric:
        shift = laplace.mirror_shift(target)
    for start in _starts(target, first, rough, symmetric, rng, modes):
        mode = laplace.find_mode(target, start, tolerance=1e-2)
        if not any(_is_same_mode(mode, other, shift) for other in modes):
            modes.append(mode)
    evidences = np.array([log_evidence(mode) for mode in modes])
    best = int(np.argmax(evidences))
    gaps: Array = np.delete(evidences[best] - evidences, best)
    if best == 0:
        return first, gaps
    return laplace.find_mode(target, modes[best].weights), gaps


def _is_same_mode(
    mode: Mode,
    other: Mode,
    shift: Array | None,
) -> bool:
    """Whether two searches ended at one mode, or at its mirror image."""
    images = [mode.weights]
    if shift is not None:
        images.append(-mode.weights - 2.0 * shift)
    groups = len(other.root)
    for weights in images:
        # the distance in standard deviations, |root⁻¹ (w - w')|
        difference = weights - other.weights
        difference = difference.T.reshape(groups, -1, 1)
        whitened = np.linalg.solve(other.root, difference)
        if np.linalg.norm(whitened) < 1.0:
            return True
    return False


def _starts(
    target: Target,
    first: Mode,
    rough: Array,
    symmetric: bool,
    rng: np.random.Generator,
    modes: list[Mode],
) -> Iterator[Array]:
    """Starts: prior draws, functions through some rows, flipped neighbourhoods.

    The last start is opposite to the best of the `modes` at that time, to which the
    caller adds new modes while it iterates.
    """
    minima = None
    if target.n_outputs == 1:
        minima = _row_minima(target)
    for _ in range(4):
        yield rng.standard_normal(first.weights.shape)
        yield _through_sampled_rows(target, rough, minima, rng)
        if symmetric:
            yield _flip_neighbourhood(target, first.weights, rng)
    if not symmetric:
        yield -max(modes, key=log_evidence).weights


def _row_minima(target: Target) -> tuple[Array, Mask]:
    """Latent values (n, k) less the offset, and whether they minimise a row's nll."""
    basis_variance = np.sum(target.features**2, axis=1)
    prior_variance = basis_variance + target.std[:, 0] ** 2
    prior_std = np.sqrt(prior_variance)
    f = target.offset + prior_std[:, np.newaxis] * PLACES
    nll = target.likelihood.row_nll(target.y, f[:, np.newaxis])
    left = nll[:, :-2]
    inner = nll[:, 1:-1]
    right = nll[:, 2:]
    is_minimum = np.zeros(f.shape, dtype=bool)
    is_minimum[:, 1:-1] = (inner < left) & (inner <= right)
    return f - target.offset, is_minimum


def _through_sampled_rows(
    target: Target,
    rough: Array,
    minima: tuple[Array, Mask] | None,
    rng: np.random.Generator,
) -> Array:
    """Weights of a function through likely values of a quarter of the rows, or more.

    The value of a row is a minimum of its nll. If rows have several minima, the rows of
    a neighbourhood share the rank of theirs. Rows without a minimum have their rough
    latent value.
    """
    n, m = target.features.shape
    values = rough.copy()
    if minima is not None:
        f, is_minimum = minima
        order = _neighbourhood(target, rng)
        n_neighbours = rng.integers(n + 1)
        is_neighbour = np.zeros(n, dtype=bool)
        is_neighbour[order[:n_neighbours]] = True
        level_of_neighbours = rng.random()
        level_of_others = rng.random()
        level = np.where(is_neighbour, level_of_neighbours, level_of_others)
        # the minimum at this level among the minima of the row
        count = is_minimum.sum(axis=1, keepdims=True)
        rank = np.floor(level[:, np.newaxis] * count) + 1.0
        ranks = np.cumsum(is_minimum, axis=1)
        has_rank = (ranks == rank) & is_minimum
        column = np.argmax(has_rank, axis=1)
        minimum = f[np.arange(n), column]
        values = np.where(count > 0, minimum[:, np.newaxis], values)
    fraction = rng.random() ** 2
    size = int(max(n // 4, n * fraction))
    size = max(1, min(size, 4 * m))
    sample = rng.choice(n, size, replace=False)
    return laplace.projection_start(
        target.features[sample],
        values[sample],
        target.weights[sample],
    )


def _flip_neighbourhood(
    target: Target,
    weights: Array,
    rng: np.random.Generator,
) -> Array:
    """Weights of a function with its sign changed in the neighbourhood of a row.

    The neighbourhood tends to end where the function is small: there a change of sign
    costs least.
    """
    f = latent_values(target, weights)
    n = len(f)
    order = _neighbourhood(target, rng)
    size = 1
    if n > 1:
        height = np.linalg.norm(f[order], axis=1)
        barrier = np.minimum(height[:-1], height[1:])
        chance = np.exp(-0.5 * barrier**2) + 1e-6
        chance /= chance.sum()
        size = 1 + rng.choice(n - 1, p=chance)
    f[order[:size]] *= -1.0
    return laplace.projection_start(target.features, f - target.offset, target.weights)


def _neighbourhood(target: Target, rng: np.random.Generator) -> Index:
    """All rows, sorted by falling prior correlation with a random row."""
    phi = target.features
    centre = phi[rng.integers(len(phi))]
    correlation = phi @ centre
    length = np.linalg.norm(phi, axis=1)
    correlation /= np.maximum(length, 1e-300)
    return np.argsort(-correlation, kind="stable")
