"""Monotone functions: posterior draws, projected on those with slopes of one sign.

Slopes have the sign at virtual points [1]_. Conditioning on it there would repel slopes
from zero, and flat functions from the truth; the projection of a draw is the nearest
monotone function [2]_, and a draw that is monotone stays as it is.

References
----------
.. [1] Riihimäki and Vehtari, "Gaussian processes with monotonicity information",
   AISTATS 2010.
.. [2] Lin and Dunson, "Bayesian monotone regression using Gaussian process projection",
   Biometrika 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from skgpx._hyperparameters import State, regression_evidence, with_noise
from skgpx._latent import LatentModel
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.weights import WeightParticles
from skgpx._posterior._closed_form import closed_form, normal_state, normal_weights
from skgpx._posterior._sampler import Inference, Sampler
from skgpx._row_budgets import SEARCHED_ROWS
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.bases import Nystroem, select_inducing
from skgpx.diagnostics import not_monotone
from skgpx.kernels import (
    FunctionalRows,
    Functionals,
    kernel_of_values,
    length_scales,
)
from skgpx.likelihoods import Likelihood

# Rows at which slopes have a sign, points of a line along a column, lines through the
# rows, and points of a line where draws are checked.
_MOST_ROWS = 40
_GRID = 15
_GRID_OF_ONE_COLUMN = 60
_LINES = 3
_CHECKED = 200
# Standard deviations of f by which draws may fall from one point of a line to the next,
# share of draws that may fall more, rounds of further points, and how many.
_MAY_FALL = 1e-3
_MAY_DECREASE = 0.01
_ROUNDS = 3
_MORE_POINTS = 20
# How far lines go beyond the rows, in ranges of the column.
_BEYOND = 0.2
# Least slope, in standard deviations of f over the range of the column.
_MARGIN = 1e-2
# Violation of a constraint that is rounding, in units of the largest one.
_FEASIBLE = 1e-5
# Weight of a step in the metric of the posterior, beside that of the function.
_SHARE_OF_POSTERIOR = 1e-3
# Largest number of inducing variables.
_MOST_VARIABLES = 300
# States that are drawn by their weights.
_MOST_STATES = 24
# Noise variances of a single state, in that without constraints.
_NOISE_FACTORS = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 10.0)


class Directions(NamedTuple):
    """Signs of slopes along some columns.

    Attributes
    ----------
    columns : ndarray of int of shape (k,)
    signs : ndarray of shape (k,)
        1 for functions that increase, -1 for those that decrease.
    """

    columns: Index
    signs: Array


class _VirtualPoints(NamedTuple):
    """Points at which slopes have a sign.

    Attributes
    ----------
    points : ndarray of shape (v, d)
    which : ndarray of int of shape (v,)
        The direction of each.
    """

    points: Array
    which: Index

    def joined(self, other: _VirtualPoints) -> _VirtualPoints:
        """These points and other ones."""
        return _VirtualPoints(
            np.concatenate((self.points, other.points)),
            np.concatenate((self.which, other.which)),
        )

    def take(self, chosen: Index) -> _VirtualPoints:
        """Some of the points."""
        return _VirtualPoints(self.points[chosen], self.which[chosen])

    def slopes(self, directions: Directions) -> Array:
        """Rows that see the slopes, as an array."""
        # rows that see slopes at points X, along these columns each, as an array
        n, d = self.points.shape
        zeros = np.zeros((n, d))
        no_difference = np.zeros(n, dtype=bool)
        rows = FunctionalRows(
            self.points, zeros, zeros, directions.columns[self.which], no_difference
        )
        return rows.as_array()

    def constraints(self, directions: Directions, basis: Nystroem) -> Array:
        """C with ``C w >= 0`` where all slopes have their sign, (v, m)."""
        signs = directions.signs[self.which]
        return signs[:, np.newaxis] * basis(self.slopes(directions))


def states_of_monotone(
    states: Sequence[State],
    rows: Rows,
    directions: Directions,
    rng: Generator,
) -> list[State]:
    """States, weighted by how near monotone functions are to their posterior.

    The factor ``exp(-½ |u|²)`` is the posterior density at the nearest monotone
    function, in that at the mean: what a rough state with little noise takes for a
    signal, monotone functions take for noise. A single state may have more noise.
    """
    choice_rng = rng.spawn(1)[0]
    log_weights = np.log([state.weight for state in states])
    if len(states) == 1:
        states, log_weights = _with_more_noise(states[0], rows)
    penalties = []
    for state in states:
        kernel = _of_functionals(state.kernel, rows)
        virtual = _virtual_points(rows, kernel, directions, choice_rng)
        basis = _basis_of(kernel, rows.X, virtual.slopes(directions), choice_rng)
        weights = normal_weights(basis, rows, state.likelihood)
        constraints = virtual.constraints(directions, basis)
        step = shortest_step(
            constraints @ weights.root[0], constraints @ weights.mean[:, 0]
        )
        penalties.append(0.5 * float(step @ step))
    log_weights = log_weights - penalties
    best = int(np.argmax(log_weights))
    if states[0].weight == 1.0:
        # other noise of the only state
        return [states[best]]
    # as many as have draws, by their weights
    shares = np.exp(log_weights - log_weights[best])
    levels = (np.arange(_MOST_STATES) + choice_rng.random()) / _MOST_STATES
    drawn = np.searchsorted(np.cumsum(shares) / shares.sum(), levels)
    numbers = np.bincount(np.minimum(drawn, len(states) - 1), minlength=len(states))
    order = np.argsort(-numbers, kind="stable")[: np.count_nonzero(numbers)]
    return [states[i]._replace(weight=float(numbers[i] / _MOST_STATES)) for i in order]


def _with_more_noise(state: State, rows: Rows) -> tuple[list[State], Array]:
    """The state with other noise variances, and log evidences of few rows."""
    likelihood = state.likelihood
    is_free = likelihood.has_closed_form and len(likelihood.theta) > 0
    if not is_free or len(rows.y) > SEARCHED_ROWS:
        return [state], np.zeros(1)
    noises = state.noise_variance * np.array(_NOISE_FACTORS)
    evidence = regression_evidence(rows, state.kernel, likelihood)
    values = [evidence.value(state.kernel, float(noise)) for noise in noises]
    noisier = [
        state._replace(likelihood=with_noise(likelihood, float(noise)))
        for noise in noises
    ]
    return noisier, np.array(values)


def _of_functionals(kernel: Kernel, rows: Rows) -> Functionals:
    """The kernel, for rows that may see slopes."""
    if isinstance(kernel, Functionals):
        return kernel
    return Functionals(kernel, np.ones(rows.X.shape[1]))


def _basis_of(
    kernel: Functionals,
    Z: Array,
    slopes: Array,
    rng: Generator,
) -> Nystroem:
    """Basis of what points Z and virtual slopes see of f, as far as it differs."""
    candidates = np.concatenate((kernel.as_rows(Z), slopes))
    variables = select_inducing("greedy", candidates, kernel, _MOST_VARIABLES, rng)
    return Nystroem.from_kernel(kernel, variables)


def monotone(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
    directions: Directions,
) -> Inference:
    """Posterior of a monotone function, as particles.

    Parameters
    ----------
    basis : Nystroem
        At the inducing points of the data.
    rows : Rows
    likelihood : Likelihood
        Prepared, of one function.
    sampler : Sampler
    rng : numpy.random.Generator
    directions : Directions

    Returns
    -------
    inference : Inference
        Its evidence is that of the data alone.
    """
    check_rng, choice_rng, rng = rng.spawn(3)
    sampler = sampler._replace(noise_is_free=False)
    kernel = _of_functionals(basis.kernel, rows)
    X = rows.X[:, : kernel.n_features]
    virtual = _virtual_points(rows, kernel, directions, choice_rng)
    checked = _lines(X, directions, _CHECKED, check_rng)
    ranges = np.ptp(X, axis=0)[directions.columns]
    ranges[ranges == 0.0] = 1.0
    for n_round in range(_ROUNDS + 1):
        # 1 values at the points of the data, and slopes at the virtual ones, span f
        slopes = virtual.slopes(directions)
        basis = _basis_of(kernel, basis.inducing_points, slopes, choice_rng)
        # 2 the posterior without constraints, N(mean, root rootᵀ), closest to the data
        infer = closed_form if likelihood.has_closed_form else normal_state
        inference = infer(basis, rows, likelihood, sampler, rng.spawn(1)[0])
        # 3 draws of it, and the nearest functions with slopes of the right sign
        values = basis(np.concatenate((X, virtual.points)))
        inference = _projected(
            inference,
            basis,
            constraints=virtual.constraints(directions, basis),
            per_unit=1.0 / ranges[virtual.which],
            values=values,
            n_particles=sampler.n_particles,
            rng=rng,
        )
        # 4 more points where draws have slopes of the wrong sign
        w = inference.particles[:, 0]
        signs = directions.signs[checked.which][:, np.newaxis]
        on_lines = (signs * (basis(checked.points) @ w)).reshape(
            -1, _CHECKED, w.shape[1]
        )
        falls = -np.diff(on_lines, axis=1, append=np.inf).reshape(-1, w.shape[1])
        falls /= np.std(values @ w)
        share = float(np.mean(np.any(falls > _MAY_FALL, axis=0)))
        if share <= _MAY_DECREASE or n_round == _ROUNDS:
            break
        # positions of the largest falls (q,), no two next to each other
        chosen: list[int] = []
        for position in np.argsort(-np.max(falls, axis=1)).tolist():
            if len(chosen) == _MORE_POINTS:
                break
            if all(abs(position - other) > 2 for other in chosen):
                chosen.append(position)
        worst = np.array(chosen)
        virtual = virtual.joined(checked.take(worst))
    return inference._replace(findings=(not_monotone(share, _MAY_DECREASE),))


def _projected(
    inference: Inference,
    basis: Nystroem,
    constraints: Array,
    per_unit: Array,
    values: Array,
    n_particles: int,
    rng: Generator,
) -> Inference:
    """Particles with ``constraints w >= 0`` nearest to draws ``w = mean + root z``.

    In the mean square of f, whose values are ``values w``, in their standard
    deviations, plus a little of that of the posterior, ``|z|²``. Draws come in pairs z
    and -z, so that their mean is exact where no constraint binds.
    """
    weights: Any = inference.posterior.weights
    mean, roots = weights.moments()
    root = roots[0]
    half = rng.standard_normal((root.shape[1], -(-n_particles // 2)))
    z = np.concatenate((half, -half), axis=1)[:, :n_particles]
    # |u|² in the metric M = L Lᵀ is |v|² with u = L⁻ᵀ v
    moved = values @ root
    variances = np.sum(moved**2, axis=1)
    moved /= np.sqrt(variances)[:, np.newaxis]
    M = moved.T @ moved / len(moved)
    L = cholesky(M, jitter=0.0, added=np.full(len(M), _SHARE_OF_POSTERIOR)).L
    A = solve_lower(L, (constraints @ root).T).T
    # a little more than zero, for what is between the points
    spread = np.sqrt(np.mean(variances) + np.var(values @ mean))
    prior_std = np.linalg.norm(constraints, axis=1)
    margin = _MARGIN * np.minimum(spread * per_unit, prior_std)
    slopes = constraints @ (mean + root @ z) - margin[:, np.newaxis]
    steps = np.column_stack([shortest_step(A, slope) for slope in slopes.T])
    z += solve_lower_transpose(L, steps)
    particles = (mean + root @ z)[:, np.newaxis]
    posterior = LatentModel(basis, WeightParticles(particles), inference.posterior.mean)
    return inference._replace(posterior=posterior, particles=particles)


def shortest_step(A: Array, b: Array) -> Array:
    """The shortest u with ``A u + b >= 0``, (p,), by least squares with signs.

    Lawson and Hanson, "Solving least squares problems", chapter 23: from the residual r
    of ``min_{v >= 0} |[Gᵀ; hᵀ] v - e|`` for ``G u >= h``.

    Raises
    ------
    ValueError
        If there is none.
    """
    if np.all(b >= 0.0):
        return np.zeros(A.shape[1])
    lengths = np.linalg.norm(A, axis=1)
    lengths[lengths == 0.0] = 1.0
    G = A / lengths[:, np.newaxis]
    h = -b / lengths
    E = np.vstack((G.T, h))
    unit = np.zeros(len(E))
    unit[-1] = 1.0
    v, _ = nnls(E, unit, maxiter=30 * len(b))
    residual = E @ v - unit
    u: Array = -residual[:-1] / (residual[-1] or np.inf)
    if np.min(G @ u - h) < -_FEASIBLE * max(1.0, float(np.max(h))):
        raise ValueError(
            "No function with this kernel has slopes of the signs of monotonic_cst: "
            "expected columns along which its slopes can have these. Use another "
            "kernel."
        )
    return u


# ---- Where slopes have a sign --------------------------------------------------------


def _virtual_points(
    rows: Rows,
    kernel: Functionals,
    directions: Directions,
    rng: Generator,
) -> _VirtualPoints:
    """Rows, thinned by space, and lines along each column through some of them."""
    X = rows.X[:, : kernel.n_features]
    f = kernel_of_values(kernel)
    thinned = select_inducing("greedy", X, f, min(_MOST_ROWS, len(X)), rng)
    k = len(directions.columns)
    at_rows = _VirtualPoints(
        np.tile(thinned, (k, 1)), np.repeat(np.arange(k), len(thinned))
    )
    size = _GRID
    if X.shape[1] == 1:
        # three points a lengthscale
        scale = float(length_scales(f, 1)[0])
        n_points = 3.0 * (1.0 + 2.0 * _BEYOND) * float(np.ptp(X)) / scale
        size = int(np.clip(n_points, _GRID_OF_ONE_COLUMN, _CHECKED))
    return at_rows.joined(_lines(X, directions, size, rng))


def _lines(
    X: Array,
    directions: Directions,
    size: int,
    rng: Generator,
) -> _VirtualPoints:
    """Points of lines along each column, through random rows; one in one column."""
    n_lines = min(_LINES if X.shape[1] > 1 else 1, len(X))
    points = []
    for column in directions.columns.tolist():
        through = rng.choice(len(X), size=n_lines, replace=False)
        line = np.repeat(X[through], size, axis=0)
        low = X[:, column].min()
        high = X[:, column].max()
        beyond = _BEYOND * (high - low)
        grid = np.linspace(low - beyond, high + beyond, size)
        line[:, column] = np.tile(grid, n_lines)
        points.append(line)
    which = np.repeat(np.arange(len(points)), n_lines * size)
    return _VirtualPoints(np.concatenate(points), which)
