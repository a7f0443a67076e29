"""The optimal potential V* of Theorem 1, and Theorem 2: how far the projected one is.

Equation (26), for a likelihood that factorises over the rows::

    V*(w) = Σ_i ω_i E nll(y_i, φ_iᵀw + std_i ξ) + ½ ‖w‖²,   ξ ~ N(0, I)

with ``std_i² = Σ_ii``, the residual prior variance of row i. The projected potential
has ξ = 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.langevin import Target
from skgpx._numerics.laplace import between_classes, contrasts
from skgpx._types import Array

# Nodes of the Gauss-Hermite rules that are tried, of one variable and of each of two;
# the reference for them is the last of them doubled. Nodes of the quasi-random
# reference for the spherical rule of more variables.
_SIZES = {1: (12, 24, 48, 96), 2: (4, 8, 16)}
_REFERENCE = 1024
# Largest relative error of a rule, at some rows and places; of several variables, where
# nodes are dear and the reference of the spherical rule is itself not exact, another.
_TOLERANCE = 3e-3
_TOLERANCE_OF_SEVERAL = 3e-2
_ROWS = 50
# Places of the latent values, in prior standard deviations from the prior mean; and
# of several latent functions, along the first few of them.
_PLACES = np.linspace(-2.0, 2.0, 41)
_FEW_PLACES = np.linspace(-2.0, 2.0, 9)
_FEW_DIRECTIONS = 3
# Latent values between which the slope of a convex nll still grows, or never does.
_FAR = 50.0
_VERY_FAR = 1e4


class Quadrature(NamedTuple):
    """How the likelihood is averaged over the residual.

    Attributes
    ----------
    error : float
        Of the average nll, relative to one nat and the nll above its minimum.
    tolerance : float
        The error that a rule may have.
    """

    error: float
    tolerance: float


def optimal_target(
    target: Target,
    residual_variance: Array,
) -> tuple[Target, Quadrature]:
    """Target of the optimal potential V*, equation (26), instead of the projected one.

    Parameters
    ----------
    target : Target
        Of the projected potential.
    residual_variance : ndarray of shape (n,)
        Residual prior variance of each latent output of a row.

    Returns
    -------
    target : Target
        With the smallest rule whose error is within the tolerance, or the largest.
    quadrature : Quadrature
    """
    c = target.n_outputs
    std = np.sqrt(residual_variance)[:, np.newaxis]
    averaged = target._replace(std=np.repeat(std, c, axis=1))
    # a likelihood of classes does not change with the mean over the classes
    exchangeable = between_classes(averaged) is not None
    directions = contrasts(c) if exchangeable else np.eye(c)
    n_variables = directions.shape[1]
    reference, *candidates = (
        averaged._replace(nodes=nodes @ directions.T, node_weights=node_weights)
        for nodes, node_weights in _rules(n_variables)
    )
    exact = _averages_along_lines(reference, directions)
    excess = exact - exact.min(axis=-1, keepdims=True)
    tolerance = _TOLERANCE if n_variables == 1 else _TOLERANCE_OF_SEVERAL
    for candidate in candidates:
        average = _averages_along_lines(candidate, directions)
        error = float(np.max(np.abs(average - exact) / (1.0 + excess)))
        if error <= tolerance:
            break
    return candidate, Quadrature(error, tolerance)


def _rules(n_variables: int) -> Iterator[tuple[Array, Array]]:
    """Nodes (q, v) and weights (q,) for ξ ~ N(0, I): a reference, then few to many.

    Of one or two variables products of Gauss-Hermite rules; of more the spherical rule
    of degree three, of 2 v nodes, and as its reference quasi-random numbers.
    """
    if n_variables > 2:
        points = qmc.Sobol(n_variables, seed=0).random(_REFERENCE)
        yield ndtri(points), np.full(_REFERENCE, 1.0 / _REFERENCE)
        yield expectation_nodes(n_variables)
        return
    sizes = _SIZES[n_variables]
    for size in (2 * sizes[-1], *sizes):
        points, masses = expectation_nodes(1, size)
        axes = np.meshgrid(*[points[:, 0]] * n_variables, indexing="ij")
        factors = np.meshgrid(*[masses] * n_variables, indexing="ij")
        nodes = np.stack([axis.ravel() for axis in axes], axis=1)
        yield nodes, np.prod(factors, axis=0).ravel()


def _averages_along_lines(target: Target, directions: Array) -> Array:
    """Average nll of some rows at places along lines through the prior mean.

    Shape (lines, rows, places); one line for each of the first few directions (c, v).
    """
    places = _FEW_PLACES
    if directions.shape[1] == 1:
        places = _PLACES
    # some rows, and the prior standard deviation of their latent values
    rows = np.unique(np.linspace(0, len(target.y) - 1, _ROWS).astype(np.intp))
    likelihood = target.likelihood.at_some(rows)
    y = target.y[rows]
    std = target.std[rows][:, :, np.newaxis]
    features_square = np.sum(target.features[rows] ** 2, axis=1)
    prior_std = np.sqrt(features_square + target.std[rows, 0] ** 2)
    shape = (len(target.y), target.n_outputs)
    centres = np.broadcast_to(target.offset, shape)
    centre = centres[rows][:, :, np.newaxis]
    lines = directions.T[:_FEW_DIRECTIONS]
    average = np.zeros((len(lines), len(rows), len(places)))
    for line, direction in enumerate(lines):
        # one prior standard deviation along the line, (rows, c, 1)
        direction_column = direction[:, np.newaxis]
        step = prior_std[:, np.newaxis, np.newaxis] * direction_column
        f = centre + step * places
        # E nll(y, f + std ξ)
        for node, weight in zip(target.nodes, target.node_weights, strict=True):
            shifted = f + std * node[:, np.newaxis]
            nll = likelihood.row_nll(y, shifted)
            average[line] += weight * nll
    return average


def divergence_bound(target: Target, residual_variance: Array) -> float:
    """Bound (28) on the divergence of the projected posterior from the optimal one.

    ``KL(Π_∞, Π*_M) <= ½ κ² tr Σ`` in nats, for a convex and Lipschitz-continuous nll.
    The Lipschitz constant of a sum over rows in all their latent values together is
    ``κ² = Σ ω_i κ_i²``. That of a convex row, κ_i, is its slope at infinity.

    Parameters
    ----------
    target : Target
        Whose nll is convex.
    residual_variance : ndarray of shape (n,)

    Returns
    -------
    bound : float
        NaN if the nll is not Lipschitz-continuous.
    """
    slope = np.max(list(_slopes_at(target, _FAR)), axis=0)
    lipschitz = np.max(list(_slopes_at(target, _VERY_FAR)), axis=0)
    if not np.all(lipschitz <= 1.01 * slope):
        return float(np.nan)
    # ½ κ² tr Σ
    square = float(target.weights @ lipschitz**2)
    trace = target.n_outputs * float(target.weights @ residual_variance)
    return 0.5 * square * trace


def _slopes_at(target: Target, distance: float) -> Iterator[Array]:
    """Size of the gradient of each row, at this distance along each axis, (n,)."""
    c = target.n_outputs
    for direction in np.concatenate((np.eye(c), -np.eye(c))):
        f = np.tile(distance * direction[:, np.newaxis], (len(target.y), 1, 1))
        with np.errstate(all="ignore"):
            gradient = target.likelihood.row_gradient(target.y, f)[..., 0]
        yield np.linalg.norm(gradient, axis=1)
