"""Directions along which a function varies, where these are not the columns."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._maximise import State, best_of
from skgpx._hyperparameters._prior import default_products, learn_in_columns
from skgpx._hyperparameters._select import (
    NEGLIGIBLE_NATS,
    Split,
    evaluated,
    search,
)
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._shell.kernel_requests import DefaultKernel
from skgpx._shell.row_statistics import counted_once
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Kernel
from skgpx.kernels import Directions, category_columns, matrix_and_input_pullback
from skgpx.likelihoods import Likelihood

# Rounds in which directions follow from a function, and it from them.
_ROUNDS = 2
# Price in nats a row above which rows are too few to be looked at: directions gain up
# to .8 on the arm of a robot.
_LARGEST_GAIN = 1.0


def learn(
    rows: Rows,
    likelihood: Likelihood,
    rng: Generator,
    *,
    kernel: Kernel | None = None,
    rough: bool = True,
    trend: bool = True,
    previous: State | None = None,
    turns: bool = True,
    **options: Any,
) -> list[State]:
    """States of kernels of the columns or, if more probable, of their combinations.

    The slopes of the function that the columns explain have principal axes [1]_. In
    these coordinates the default products are searched again, where few rows gain more
    than their share of what the angles cost: ``½ log n`` nats each (Schwarz, 1978).

    Parameters
    ----------
    turns : bool, default=True
        Whether a default kernel may be one of :class:`~skgpx.kernels.Directions`.
    rows, likelihood, rng, kernel, rough, trend, previous, **options
        As in :func:`~skgpx._hyperparameters._prior.learn_in_columns`.

    Returns
    -------
    states : list of State

    References
    ----------
    .. [1] Constantine, Dow and Wang, "Active subspace methods in theory and practice:
       applications to kriging surfaces", SIAM Journal on Scientific Computing 2014.
    """
    in_columns = partial(
        learn_in_columns,
        likelihood=likelihood,
        kernel=kernel,
        rough=rough,
        **options,
    )
    if previous is not None and type(previous.kernel) is Directions:
        # an earlier fit has turned
        directions = np.asarray(previous.kernel.directions)
        inner = replace(previous.candidate, kernel=previous.candidate.kernel.kernel)
        start = previous._replace(candidate=inner)
        turned_rows = _turned(rows, directions)
        states = in_columns(rows=turned_rows, rng=rng, trend=False, previous=start)
        return [_of_columns(state, directions) for state in states]
    # both searches, and the comparison of their ends, read the same rows
    turned_rng = copy.deepcopy(rng)
    states = in_columns(rows=rows, rng=rng, trend=trend, previous=previous)
    turns = turns and previous is None and isinstance(options.get("inducing", ""), str)
    if not (turns and _may_turn(states[0], rows, likelihood, kernel)):
        return states
    split = Split.of(counted_once(rows), copy.deepcopy(turned_rng))
    best = best_of(states)
    axes = _directions(best, split, likelihood, rough)
    if axes is None:
        return states
    turned = in_columns(rows=_turned(rows, axes), rng=turned_rng, trend=False)
    compared = split.training
    best_turned = evaluated(best_of(turned), _turned(compared, axes))
    gain = best_turned.posterior - evaluated(best, compared).posterior
    if not gain > _price(compared):
        return states
    return [_of_columns(state, axes) for state in turned]


def _may_turn(
    state: State,
    rows: Rows,
    likelihood: Likelihood,
    kernel: Kernel | None,
) -> bool:
    """Whether a default kernel of several numbers explains normal targets."""
    d = rows.X.shape[1]
    is_default = kernel is None
    if isinstance(kernel, DefaultKernel):
        is_default = not kernel.interactions and not category_columns(kernel, d)
    is_regression = likelihood.has_closed_form and not state.candidate.is_given
    return is_default and is_regression and d > 1 and state.has_signal


def _price(rows: Rows) -> float:
    """What the angles of as many directions as columns cost, and doubt, in nats."""
    d = rows.X.shape[1]
    return NEGLIGIBLE_NATS + 0.25 * d * (d - 1) * np.log(len(rows.y))


def _directions(
    state: State,
    split: Split,
    likelihood: Likelihood,
    rough: bool,
) -> Array | None:
    """Directions (d, d) in which few rows are more probable; None without any."""
    rows = split.screening
    price_of_row = _price(split.training) / len(split.training.y)
    if price_of_row > _LARGEST_GAIN:
        return None
    smallest = evaluated(state, rows).posterior
    # 1 a product of functions of columns: the family of the state, or the smoothest
    families = default_products(rows, likelihood, rough)
    is_like = [state.name.startswith(family[0].name) for family in families]
    position = int(np.argmax(is_like))
    general = families[position][-1]
    state = _best_search(general, rows, likelihood)
    smallest = max(smallest, state.posterior)
    # 2 its principal axes, and the function along these
    directions = np.eye(rows.X.shape[1])
    for _ in range(_ROUNDS):
        axes = _principal_axes(state, _turned(split.scattered, directions))
        directions = directions @ axes
        turned = _turned(rows, directions)
        general = default_products(turned, likelihood, rough)[position][-1]
        state = _best_search(general, turned, likelihood)
        # the gain of more rows is in proportion
        gain = (state.posterior - smallest) / len(rows.y)
        if gain <= price_of_row:
            return None
    # 3 the axes once more, by more rows
    more_rows = _turned(split.scattered, directions)
    state = search(state.candidate, state.u, more_rows, state.likelihood)
    return directions @ _principal_axes(state, _turned(split.training, directions))


def _best_search(candidate: Candidate, rows: Rows, likelihood: Likelihood) -> State:
    """The better search of those from long and from medium lengthscales."""
    starts = candidate.starts()[:2]
    return best_of([search(candidate, u, rows, likelihood) for u in starts])


def _principal_axes(state: State, rows: Rows) -> Array:
    """Axes (d, d) of the slopes of E f at rows, columns in standard deviations.

    ``E f = k(·, X) α`` with ``α = C⁻¹ y``; the axes are the eigenvectors of ``Σ w ∇E f
    (∇E f)ᵀ`` over the rows, from the largest eigenvalue on.
    """
    X = rows.X
    K, pullback = matrix_and_input_pullback(state.kernel, X, X)
    L = cholesky(K, added=state.noise_variance / rows.precisions).L
    targets = rows.y.reshape(len(X), -1)
    alpha = solve_lower_transpose(L, solve_lower(L, targets))
    # a constant column, which has rounding errors, stays an axis
    std = X.std(axis=0)
    varying = std > 1e-10 * np.abs(X).max(axis=0)
    moments = np.zeros((np.sum(varying), np.sum(varying)))
    for weights in alpha.T:
        slopes = pullback(np.tile(weights, (len(X), 1)))[:, varying] * std[varying]
        moments += slopes.T @ (rows.weights[:, np.newaxis] * slopes)
    _, vectors = np.linalg.eigh(moments)
    vectors = vectors[:, ::-1]
    # either sign is an axis: the largest entry of each is positive
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(vectors))])
    axes = np.eye(len(std))
    axes[np.ix_(varying, varying)] = vectors / std[varying, np.newaxis]
    return axes


def _turned(rows: Rows, directions: Array) -> Rows:
    """Rows with the combinations as columns."""
    return rows._replace(X=Directions(None, directions).part(rows.X))


def _of_columns(state: State, directions: Array) -> State:
    """A state of combinations as one of the columns."""
    kernel = Directions(state.candidate.kernel, directions)
    return state._replace(candidate=replace(state.candidate, kernel=kernel))
