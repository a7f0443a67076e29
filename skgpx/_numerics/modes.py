"""Modes of a log density."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skgpx._numerics import laplace
from skgpx._numerics.langevin import QUADRATIC, Target, latent_values
from skgpx._numerics.laplace import Mode
from skgpx._numerics.smoothing import is_smoothed
from skgpx._types import Array, Generator, Index, Mask

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
# Rows that choose signs of f, rounds in which they do, and changes tried in a round.
_SIGNED_ROWS = 2000
_ROUNDS = 4
_CHANGES = 16
# Nats of evidence that a change of signs must gain.
_LEAST_GAIN = 0.1


def log_evidence(mode: Mode) -> float:
    """Laplace's approximation ``-ψ(ŵ) + log |root|``, up to a constant of all modes."""
    _, log_volume = np.linalg.slogdet(mode.root)
    return float(np.sum(log_volume)) - mode.energy


def survey(
    target: Target,
    first: Mode,
    rough: Array,
    symmetric: bool,
    rng: Generator,
) -> list[Mode]:
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
        are then no rivals, and f may have either sign in each domain of rows.
    rng : numpy.random.Generator

    Returns
    -------
    modes : list of Mode
        In the order of their Laplace evidence, the largest first.

    Notes
    -----
    Nine searches of a few Newton steps, O(n m^2 + m^3) each; some thirty on at most
    2000 rows where the sign of f is not known, and O(n^2 m) for their nearest rows.
    """
    if symmetric:
        modes = _signed_modes(target, first, rough, rng)
    else:
        modes = [first]
        for start in _starts(target, first, rough, rng, modes):
            _add_mode(modes, laplace.find_mode(target, start, tolerance=1e-2), None)
    modes.sort(key=log_evidence, reverse=True)
    if modes[0] is not first:
        modes[0] = laplace.find_mode(target, modes[0].weights)
    return modes


def evidence_gaps(modes: list[Mode]) -> Array:
    """Nats of Laplace evidence between the first of these modes and each other one."""
    evidences = np.array([log_evidence(mode) for mode in modes])
    return evidences[0] - evidences[1:]


def _add_mode(modes: list[Mode], mode: Mode, shift: Array | None) -> None:
    """Add a mode unless it, or its mirror image, is one of them."""
    if not any(_is_same_mode(mode, other, shift) for other in modes):
        modes.append(mode)


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
        if np.linalg.norm(difference) >= 1.0:
            # no less in standard deviations, which are at most one, those of the prior
            continue
        difference = difference.T.reshape(groups, -1, 1)
        whitened = np.linalg.solve(other.root, difference)
        if np.linalg.norm(whitened) < 1.0:
            return True
    return False


def _starts(
    target: Target,
    first: Mode,
    rough: Array,
    rng: Generator,
    modes: list[Mode],
) -> Iterator[Array]:
    """Starts: prior draws, and functions through likely values of some rows.

    The last start is opposite to the best of the `modes` at that time, to which the
    caller adds new modes while it iterates.
    """
    minima = None
    if target.n_outputs == 1:
        minima = _row_minima(target)
    for _ in range(4):
        yield rng.standard_normal(first.weights.shape)
        yield _through_sampled_rows(target, rough, minima, rng)
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
    rng: Generator,
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
        order = _neighbourhood(target, int(rng.integers(n)))
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


def _neighbourhood(target: Target, row: int) -> Index:
    """All rows, sorted by falling prior correlation with one of them."""
    phi = target.features
    centre = phi[row]
    correlation = phi @ centre
    length = np.linalg.norm(phi, axis=1)
    correlation /= np.maximum(length, 1e-300)
    return np.argsort(-correlation, kind="stable")


# ---- Modes of a likelihood that does not know the sign of f --------------------------

# A mode has a sign for each *domain*, a neighbourhood of rows that ends where |f| is
# smallest: f touches zero there, or goes through it. With values ``v = |f|`` and signs
# s the regression on ``s v`` of curvatures W leaves the energy ``½ tᵀ M t``, where t
# holds the signs of the domains and -1 for the offset: a binary quadratic problem.


class Domains(NamedTuple):
    """Domains of rows, and the regression on values with a sign for each of them.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Number of the domain of each row.
    weights : ndarray of shape (m, k + 1)
        Of the regressions on the values of each of k domains, and on the offset.
    energy : ndarray of shape (k + 1, k + 1)
        The matrix M.
    moves : ndarray of shape (2 k - 1, k)
        Domains whose signs may change together: each of them, and those on one side
        of each edge of the tree of strongest couplings.
    """

    labels: Index
    weights: Array
    energy: Array
    moves: Mask

    @classmethod
    def of(cls, target: Target, neighbours: Index, magnitude: Array) -> Domains:
        """Domains of rows with these neighbours (n, j) and values |f| (n,)."""
        phi = target.features
        n, m = phi.shape
        labels = _peaks(neighbours, magnitude)
        k = int(labels.max()) + 1
        values = np.zeros((n, k + 1))
        values[np.arange(n), labels] = magnitude
        values[:, k] = target.offset[:, 0]
        f = magnitude[:, np.newaxis, np.newaxis]
        W = target.likelihood.row_curvature(target.y, f)[:, 0, 0, 0] * target.weights
        # B = I + ΦᵀWΦ,  M = vᵀWv - vᵀWΦ B⁻¹ ΦᵀWv
        weighted = W[:, np.newaxis] * values
        moment = phi.T @ weighted
        B = np.eye(m) + phi.T @ (W[:, np.newaxis] * phi)
        weights = np.linalg.solve(B, moment)
        energy = values.T @ weighted - moment.T @ weights
        size = np.sqrt(np.maximum(np.diagonal(energy)[:k], 1e-100))
        sides = _sides(np.abs(energy[:k, :k]) / np.outer(size, size))
        moves = np.concatenate((np.eye(k, dtype=bool), sides))
        return cls(labels, weights, energy, moves)

    def start(self, signs: Array) -> Array:
        """Weights (m, 1) of the function with these signs (k,)."""
        return self.weights @ np.append(signs, -1.0)[:, np.newaxis]

    def changes(self, signs: Array) -> Array:
        """Change of the energy by each of the moves, (2 k - 1,)."""
        t = np.append(signs, -1.0)
        moved = np.pad(self.moves, ((0, 0), (0, 1))) * t
        coupled = moved @ self.energy
        # ½ (t - 2 p)ᵀ M (t - 2 p) - ½ tᵀ M t = 2 pᵀ M p - 2 pᵀ M t
        return 2.0 * np.sum(coupled * moved, axis=1) - 2.0 * coupled @ t


def _signed_modes(
    target: Target,
    first: Mode,
    rough: Array,
    rng: Generator,
) -> list[Mode]:
    """Modes of a likelihood that does not know the sign of f; arguments of `survey`.

    Starts are prior draws and functions through likely values of some rows. Then the
    best mode changes its signs, domain by domain, where that gains evidence.
    """
    n = len(target.y)
    part = target
    modes = [first]
    if n > _SIGNED_ROWS and not is_smoothed(target):
        rows = np.sort(rng.choice(n, _SIGNED_ROWS, replace=False))
        part = _at_rows(target, rows)
        rough = rough[rows]
        modes = [laplace.find_mode(part, first.weights, tolerance=1e-2)]
    shift = laplace.mirror_shift(part)
    # 1 starts
    for start in list(_starts(part, modes[0], rough, rng, modes)):
        _add_mode(modes, laplace.find_mode(part, start, tolerance=1e-2), shift)
    # 2 other signs of the best mode
    if part.n_outputs == 1 and len(part.y) <= _SIGNED_ROWS:
        neighbours = _neighbours(part.features)
        for _ in range(_ROUNDS):
            best = max(modes, key=log_evidence)
            if _change_signs(part, best, neighbours, modes, shift, rng) is best:
                break
    if part is target:
        return modes
    # 3 rivals in all rows
    largest = max(log_evidence(mode) for mode in modes)
    of_all_rows = [first]
    for mode in modes:
        if largest - log_evidence(mode) < RIVAL:
            mode = laplace.find_mode(target, mode.weights, tolerance=1e-2)
            _add_mode(of_all_rows, mode, shift)
    return of_all_rows


def _change_signs(
    target: Target,
    best: Mode,
    neighbours: Index,
    modes: list[Mode],
    shift: Array | None,
    rng: Generator,
) -> Mode:
    """Change signs of the best of the modes, to which new ones are added.

    Changes are kept if they gain evidence: those of domains, of least energy, and of
    some rows where f is small, at one end of a domain.
    """
    f = latent_values(target, best.weights)[:, 0]
    domains = Domains.of(target, neighbours, np.abs(f))
    totals = np.bincount(domains.labels, weights=f)
    signs = np.where(totals < 0.0, -1.0, 1.0)
    for move in np.argsort(domains.changes(signs), kind="stable")[:_CHANGES]:
        changed = np.where(domains.moves[move], -signs, signs)
        mode = laplace.find_mode(target, domains.start(changed), tolerance=1e-2)
        _add_mode(modes, mode, shift)
        if log_evidence(mode) > log_evidence(best) + _LEAST_GAIN:
            best = mode
            signs = changed
    for _ in range(2 * _CHANGES):
        f = latent_values(target, best.weights)
        chance = np.exp(-0.5 * f[:, 0] ** 2) + 1e-6
        row = int(rng.choice(len(f), p=chance / chance.sum()))
        size = rng.integers(1, neighbours.shape[1] + 1)
        f[_neighbourhood(target, row)[: 2 * size]] *= -1.0
        values = f - target.offset
        start = laplace.projection_start(target.features, values, target.weights)
        mode = laplace.find_mode(target, start, tolerance=1e-2)
        _add_mode(modes, mode, shift)
        if log_evidence(mode) > log_evidence(best) + _LEAST_GAIN:
            best = mode
    return best


def _at_rows(target: Target, rows: Index) -> Target:
    """Target of some rows."""
    offset = np.broadcast_to(target.offset, (len(target.y), target.n_outputs))
    return target._replace(
        likelihood=target.likelihood.at_some(rows),
        features=target.features[rows],
        y=target.y[rows],
        weights=target.weights[rows],
        std=target.std[rows],
        offset=offset[rows],
    )


def _neighbours(features: Array) -> Index:
    """The ½ √n rows next to each row by the prior, (n, j)."""
    square = np.sum(features**2, axis=1)
    distance = square - 2.0 * features @ features.T
    size = int(np.ceil(0.5 * np.sqrt(len(features))))
    return np.argpartition(distance, size - 1, axis=1)[:, :size]


def _peaks(neighbours: Index, magnitude: Array) -> Index:
    """Domains of rows (n,): from each, steps to larger neighbours lead to one peak."""
    # ranks, so that no two are equal
    rank = np.empty(len(neighbours), dtype=np.intp)
    rank[np.argsort(magnitude, kind="stable")] = np.arange(len(neighbours))
    higher = neighbours[np.arange(len(neighbours)), np.argmax(rank[neighbours], axis=1)]
    while not np.array_equal(higher, higher[higher]):
        higher = higher[higher]
    return np.unique(higher, return_inverse=True)[1].ravel()


def _sides(coupling: Array) -> Mask:
    """Domains on one side of each edge of the spanning tree of couplings (k, k).

    Prim's algorithm, by the largest couplings; shape (k - 1, k).
    """
    k = len(coupling)
    strength = coupling[0].copy()
    strength[0] = -np.inf
    parent = np.zeros(k, dtype=np.intp)
    order = []
    for _ in range(k - 1):
        child = int(np.argmax(strength))
        order.append(child)
        strength[child] = -np.inf
        is_closer = (coupling[child] > strength) & (strength > -np.inf)
        strength[is_closer] = coupling[child, is_closer]
        parent[is_closer] = child
    sides = np.eye(k, dtype=bool)
    for child in reversed(order):
        sides[parent[child]] |= sides[child]
    return sides[order]
