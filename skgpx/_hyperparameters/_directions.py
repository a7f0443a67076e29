"""Directions along which a function varies, where these are not the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._maximise import State, best_of
from skgpx._hyperparameters._prior import default_products, learn_in_columns
from skgpx._hyperparameters._select import Split, evaluated, screen
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._shell.kernel_requests import DefaultKernel
from skgpx._shell.row_statistics import counted_once
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Kernel
from skgpx.kernels import Directions, category_columns, matrix_and_input_pullback
from skgpx.likelihoods import Likelihood

# Rounds in which directions follow from a function, and it from them.
_ROUNDS = 2


def learn(
    rows: Rows,
    likelihood: Likelihood,
    rng: Generator,
    *,
    kernel: Kernel | None = None,
    rough: bool = True,
    trend: bool = True,
    previous: State | None = None,
    turns: bool = False,
    **options: Any,
) -> list[State]:
    """States of kernels of the columns or, if more probable, of their combinations.

    The slopes of the function that the columns explain have principal axes [1]_. In
    these coordinates the default products are searched again, where few rows gain more
    than their share of what the angles cost: ``½ log n`` nats each (Schwarz, 1978).

    Parameters
    ----------
    turns : bool, default=False
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
    states = learn_in_columns(
        rows,
        likelihood,
        rng,
        kernel=kernel,
        rough=rough,
        trend=trend,
        previous=previous,
        **options,
    )
    turns = turns and previous is None
    if not (turns and _may_turn(states[0], rows, likelihood, kernel)):
        return states
    split_rng, turned_rng = rng.spawn(2)
    split = Split.of(counted_once(rows), split_rng)
    directions = _directions(states[0], split, likelihood, rough)
    if directions is None:
        return states
    turned = learn_in_columns(
        _turned(rows, directions),
        likelihood,
        turned_rng,
        kernel=kernel,
        rough=rough,
        trend=False,
        **options,
    )
    gain = best_of(turned).posterior - best_of(states).posterior
    if not gain > _price(split.training):
        return states
    return [
        state._replace(candidate=_of_columns(state.candidate, directions))
        for state in turned
    ]


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
    """What the angles of as many directions as columns cost, in nats."""
    d = rows.X.shape[1]
    return 0.25 * d * (d - 1) * np.log(len(rows.y))


def _directions(
    state: State,
    split: Split,
    likelihood: Likelihood,
    rough: bool,
) -> Array | None:
    """Directions (d, d) in which few rows are more probable; None without any."""
    rows = split.screening
    price_of_row = _price(split.training) / len(split.training.y)
    in_columns = evaluated(state, rows)
    # 1 a product of functions of columns, the smoothest one or one in the middle
    families = default_products(rows, likelihood, rough)
    smooth_and_rough = (families[0], families[len(families) // 2])
    products = [best_of(screen(rows, likelihood, f)) for f in smooth_and_rough]
    state = best_of(products)
    is_smooth = products[0].posterior >= products[1].posterior
    position = 0 if is_smooth else len(families) // 2
    # 2 its principal axes, and the function along these
    directions = np.eye(rows.X.shape[1])
    for _ in range(_ROUNDS):
        axes = _principal_axes(state, _turned(split.scattered, directions))
        directions = directions @ axes
        turned = _turned(rows, directions)
        family = default_products(turned, likelihood, rough)[position]
        state = best_of(screen(turned, likelihood, family))
        # the gain of more rows is in proportion
        gain = (state.posterior - in_columns.posterior) / len(rows.y)
        if gain <= price_of_row:
            return None
    return directions


def _principal_axes(state: State, rows: Rows) -> Array:
    """Axes (d, d) of the slopes of E f at rows, columns in standard deviations.

    ``E f = k(·, X) α`` with ``α = C⁻¹ y``; the axes are the eigenvectors of ``Σ w ∇E f
    (∇E f)ᵀ`` over the rows, from the largest eigenvalue on.
    """
    X = rows.X
    std = X.std(axis=0)
    std[std == 0.0] = 1.0
    K, pullback = matrix_and_input_pullback(state.kernel, X, X)
    L = cholesky(K, added=state.noise_variance / rows.precisions).L
    targets = rows.y.reshape(len(X), -1)
    alpha = solve_lower_transpose(L, solve_lower(L, targets))
    moments = np.zeros((X.shape[1], X.shape[1]))
    for weights in alpha.T:
        slopes = std * pullback(np.tile(weights, (len(X), 1)))
        moments += slopes.T @ (rows.weights[:, np.newaxis] * slopes)
    _, axes = np.linalg.eigh(moments)
    axes = axes[:, ::-1]
    # either sign is an axis: the largest entry of each is positive
    largest = np.argmax(np.abs(axes), axis=0)
    signs = np.sign(axes[largest, np.arange(len(axes))])
    return axes * signs / std[:, np.newaxis]


def _turned(rows: Rows, directions: Array) -> Rows:
    """Rows with the combinations as columns."""
    return rows._replace(X=Directions(None, directions).part(rows.X))


def _of_columns(candidate: Candidate, directions: Array) -> Candidate:
    """A candidate of combinations as one of the columns."""
    return replace(candidate, kernel=Directions(candidate.kernel, directions))
