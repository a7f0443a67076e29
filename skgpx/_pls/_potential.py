"""The optimal potential V* of Theorem 1, and Theorem 2: how far the projected one is.

Equation (26), for a likelihood that factorises over the rows::

    V*(w) = Σ_i ω_i E nll(y_i, φ_iᵀw + std_i ξ) + ½ ‖w‖²,   ξ ~ N(0, I)

with ``std_i² = Σ_ii``, the residual prior variance of row i. The projected potential
has ξ = 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.langevin import Target
from skgpx._numerics.laplace import between_classes, contrasts

Array = NDArray[np.float64]

# Gauss-Hermite rules of one variable that are tried, and the reference for them.
_SIZES = (12, 24, 48, 96)
_REFERENCE = 192
# Largest relative error of a rule, at some rows and places.
TOLERANCE = 3e-3
_ROWS = 50
# Places of the latent values, in prior standard deviations from the prior mean.
_PLACES = np.linspace(-2.0, 2.0, 41)
# Nodes of each of two variables.
_PER_VARIABLE = 4
# Latent values between which the slope of a convex nll still grows, or never does.
_FAR = (50.0, 1e4)


def optimal_target(target: Target, residual_variance: Array) -> tuple[Target, float]:
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
    error : float
        Of the average over ξ, relative to one nat and the nll above its minimum; zero
        for several variables, where nothing is compared.
    """
    std = np.sqrt(residual_variance)[:, np.newaxis]
    spread = target._replace(
        std=np.repeat(std, target.n_outputs, axis=1),
    )
    # a likelihood of classes does not change with the mean over the classes
    exchangeable = between_classes(spread) is not None
    c = target.n_outputs
    directions = contrasts(c) if exchangeable else np.eye(c)
    if directions.shape[1] > 1:
        nodes, node_weights = _rule_of_several(directions.shape[1])
        nodes = nodes @ directions.T
        return spread._replace(nodes=nodes, node_weights=node_weights), 0.0
    reference = None
    for size in (_REFERENCE, *_SIZES):
        nodes, node_weights = expectation_nodes(1, size)
        rule = spread._replace(nodes=nodes @ directions.T, node_weights=node_weights)
        average = _averages_along_a_line(rule, directions[:, 0])
        if reference is None:
            reference = average
            excess = average - average.min(axis=1, keepdims=True)
            continue
        error = float(np.max(np.abs(average - reference) / (1.0 + excess)))
        if error <= TOLERANCE:
            break
    return rule, error


def _rule_of_several(n_variables: int) -> tuple[Array, Array]:
    """Nodes (q, v) and weights (q,) for ξ ~ N(0, I) of several variables.

    Of two variables a product of Gauss-Hermite rules of four nodes, which is exact for
    polynomials of degree seven; of more the spherical rule of degree three, 2 v nodes.
    """
    if n_variables > 2:
        return expectation_nodes(n_variables)
    points, weights = expectation_nodes(1, _PER_VARIABLE)
    first, second = np.meshgrid(points[:, 0], points[:, 0], indexing="ij")
    nodes = np.stack((first.ravel(), second.ravel()), axis=1)
    return nodes, np.outer(weights, weights).ravel()


def _averages_along_a_line(target: Target, direction: Array) -> Array:
    """Average nll of some rows at places along a line through the prior mean."""
    rows = np.unique(np.linspace(0, len(target.y) - 1, _ROWS).astype(np.intp))
    likelihood = target.likelihood.at_some(rows)
    std = target.std[rows][:, :, np.newaxis]
    prior_std = np.sqrt(
        np.sum(target.features[rows] ** 2, axis=1) + target.std[rows, 0] ** 2
    )
    shape = (len(target.y), target.n_outputs)
    centre = np.broadcast_to(target.offset, shape)[rows][:, :, np.newaxis]
    step = prior_std[:, np.newaxis, np.newaxis] * direction[:, np.newaxis]
    f = centre + step * _PLACES
    average = np.zeros((len(rows), len(_PLACES)))
    for node, weight in zip(target.nodes, target.node_weights, strict=True):
        at = f + std * node[:, np.newaxis]
        average += weight * likelihood.row_nll(target.y[rows], at)
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
    near, far = (np.max(list(_slopes_at(target, f)), axis=0) for f in _FAR)
    if not np.all(far <= 1.01 * near):
        return float(np.nan)
    square = float(target.weights @ far**2)
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
