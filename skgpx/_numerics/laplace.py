"""Mode of the weights, curvature there, and the Laplace approximation of the evidence.

The negative log posterior of the weights is ``ψ(w) = Σ_i ω_i nll(y_i, f_i) + ½‖w‖²``
with ``f = offset + Φw``; their law is approximated by ``N(ŵ, H⁻¹)`` with ŵ the mode and
``H = I + Φᵀ diag(ω c) Φ``, c ≥ 0 the curvatures of the likelihood.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.langevin import Target, latent_values, rows_value_and_gradient
from skgpx._numerics.linalg import (
    cholesky,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.quadrature import expectation_nodes
from skgpx._numerics.regression import EvidenceGradient

Array = NDArray[np.float64]

# Largest order of a Hessian that couples the weights of all outputs.
LARGEST_COUPLED = 1500
_MAX_ITER = 200
# Half the squared Newton decrement at which the search for the mode stops, in nats.
_TOLERANCE = 1e-10
# Alternations between the spread of the latent values and the mode averaged over it.
_REFINEMENTS = 4


class Mode(NamedTuple):
    """Laplace approximation of the law of the weights.

    Attributes
    ----------
    weights : ndarray of shape (m, c)
        The mode ŵ.
    root : ndarray of shape (g, p, p)
        ``root @ root.T`` is the inverse Hessian, in g groups of p = m c / g weights
        (outputs slow): one group, or one for each output if there are many weights.
    energy : float
        ``ψ(ŵ)`` in nats.
    n_iter : int
    converged : bool
    """

    weights: Array
    root: Array
    energy: float
    n_iter: int
    converged: bool


def find_mode(target: Target, weights: Array) -> Mode:
    """Minimise ψ by damped Newton steps.

    Parameters
    ----------
    target : Target
        Its `likelihood` is used through ``row_nll``, ``row_gradient`` and
        ``row_curvature``; its coordinates are ignored.
    weights : ndarray of shape (m, c)
        Where to start.

    Notes
    -----
    O(n m^2 + m^3) for each step with one output. The matrices are positive definite, so
    every direction is a descent direction; steps are halved until ψ decreases enough.
    """
    w, n_iter, converged = weights, 0, False
    energy, gradient = _energy_and_gradient(target, w)
    while not converged and n_iter < _MAX_ITER:
        n_iter += 1
        direction = -_solve(_newton_roots(target, w), gradient)
        slope = float(np.sum(direction * gradient))
        moved = _line_search(target, w, direction, energy, slope)
        if moved is None:
            converged = -slope < 1e-6 * (1.0 + abs(energy))
            break
        w, energy, gradient = moved
        converged = -slope < 2.0 * _TOLERANCE
    root = _inverse_roots(_roots(target, _row_curvature(target, w)))
    return Mode(w, root, energy, n_iter, converged)


def refine(target: Target, mode: Mode) -> Mode:
    """Move the Laplace law to the normal law closest to the target.

    Alternates between the marginal variances ``φᵀ root rootᵀ φ`` of the latent values
    and the mode of the potential averaged over them: a fixed point is the Gaussian
    variational approximation, mean and inverse expected Hessian. Where the posterior
    is skewed, the mode and its curvature describe only a small part of it; the averages
    describe its bulk, where the chains will be. The target itself is not changed.

    Notes
    -----
    A few searches for a mode, each started at the last: O(n m^2 + m^3). Exact for one
    output. Several latent values are taken as independent, and less their mean, on
    which class probabilities do not depend.
    """
    c = mode.weights.shape[1]
    nodes, node_weights = expectation_nodes(c)
    for _ in range(_REFINEMENTS):
        spread = _latent_variance(target.features, mode.root, c)
        smooth = target._replace(
            std=np.sqrt(target.std**2 + spread), nodes=nodes, node_weights=node_weights
        )
        mode = find_mode(smooth, mode.weights)
    return mode


def _latent_variance(features: Array, root: Array, c: int) -> Array:
    """Variances of ``Φw``, of several outputs less their mean, (n, c)."""
    m = features.shape[1]
    blocks = root.reshape(c, m, -1) if len(root) == 1 else root
    if c > 1 and len(root) == 1:
        blocks = blocks - blocks.mean(axis=0)
    # var φᵀw = |rootᵀφ|²
    columns = [np.sum((features @ block) ** 2, axis=1) for block in blocks]
    return np.stack(columns, axis=1)


def _inverse_roots(L: Array) -> Array:
    """Roots of the inverse of ``H = L Lᵀ``: ``L⁻ᵀ`` for each group."""
    roots = [solve_lower_transpose(a, np.eye(len(a))) for a in L]
    return np.ascontiguousarray(np.stack(roots))


def _energy_and_gradient(target: Target, w: Array) -> tuple[float, Array]:
    value, gradient = rows_value_and_gradient(target, w[:, :, np.newaxis])
    return float(value[0] + 0.5 * np.sum(w**2)), gradient[:, :, 0] + w


def _line_search(
    target: Target, w: Array, direction: Array, energy: float, slope: float
) -> tuple[Array, float, Array] | None:
    """First of the steps 1, ½, ¼, ... that decreases ψ enough; None if none does."""
    step = 1.0
    for _ in range(30):
        new = w + step * direction
        new_energy, gradient = _energy_and_gradient(target, new)
        if new_energy <= energy + 1e-4 * step * slope:
            return new, new_energy, gradient
        step *= 0.5
    return None


def tempered_root(target: Target, weights: Array, temperature: float) -> Array:
    """Root of the inverse Hessian of a tempered target, (g, p, p).

    Curvatures are averaged over at most 16 of the particles, weights (m, c, s). With
    several modes this gives the shape of one mode, whereas the covariance of the
    particles would be that of all modes together.
    """
    some = weights[:, :, :: max(1, weights.shape[2] // 16)]
    curvature = np.mean(
        [_row_curvature(target, some[:, :, j]) for j in range(some.shape[2])], axis=0
    )
    return _inverse_roots(_roots(target, temperature * curvature))


def _newton_roots(target: Target, w: Array) -> Array:
    """Lower roots of a positive definite Hessian, (g, p, p).

    With one output, of the true Hessian where that is positive definite, as it is
    around the mode: Newton's method then converges quadratically even for likelihoods
    whose curvature is a majorant. Second derivatives are differences of gradients.
    """
    if w.shape[1] == 1:
        f = latent_values(target, w)
        h = 1e-5 * (1.0 + np.abs(f))
        rise = _row_gradient(target, f + h) - _row_gradient(target, f - h)
        try:
            return _roots(target, (rise / (2.0 * h))[:, :, np.newaxis])
        except np.linalg.LinAlgError:
            pass
    return _roots(target, _row_curvature(target, w))


def _row_gradient(target: Target, f: Array) -> Array:
    """Gradient of each row at latent values (n, c), averaged over the nodes, (n, c)."""
    total = np.zeros_like(f)
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        at = (f + target.std * node)[:, :, np.newaxis]
        total += mass * target.likelihood.row_gradient(target.y, at)[..., 0]
    return total


def _roots(target: Target, curvature: Array) -> Array:
    """Lower roots of ``I + Φᵀ diag(ω curvature) Φ``, curvature (n, c, c)."""
    phi, c = target.features, curvature.shape[1]
    m = phi.shape[1]
    curvature = curvature * target.weights[:, np.newaxis, np.newaxis]
    if c * m > LARGEST_COUPLED:
        blocks = [_gram(phi, curvature[:, a, a]) for a in range(c)]
        return np.stack([cholesky(b + np.eye(m), jitter=0.0).L for b in blocks])
    H = np.eye(c * m).reshape(c, m, c, m)
    for a in range(c):
        for b in range(a + 1):
            H[a, :, b] += _gram(phi, curvature[:, a, b])
            if b < a:
                H[b, :, a] = H[a, :, b].T
    return cholesky(H.reshape(c * m, c * m), jitter=0.0).L[np.newaxis]


def _gram(features: Array, curvature: Array) -> Array:
    gram: Array = (features * curvature[:, np.newaxis]).T @ features
    return gram


def _row_curvature(target: Target, w: Array) -> Array:
    """Curvature of each row, averaged over the nodes of the residual, (n, c, c)."""
    f = latent_values(target, w)
    total = np.zeros((*f.shape, f.shape[1]))
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        at = (f + target.std * node)[:, :, np.newaxis]
        total += mass * target.likelihood.row_curvature(target.y, at)[..., 0]
    return total


def _solve(L: Array, gradient: Array) -> Array:
    """``H⁻¹ gradient`` from the roots of the groups."""
    grouped = gradient.T.reshape(len(L), -1)
    solved = [
        solve_lower_transpose(root, solve_lower(root, g))
        for root, g in zip(L, grouped, strict=True)
    ]
    return np.concatenate(solved).reshape(gradient.shape[::-1]).T


def projection_start(features: Array, latent: Array, weights: Array) -> Array:
    """Weights whose function is near rough latent values (n, c), shape (m, c).

    Ridge regression with a noise variance of a tenth of the values' mean square.
    """
    noise = 0.1 * float(np.average(np.mean(latent**2, axis=1), weights=weights))
    if noise <= 0.0:
        return np.zeros((features.shape[1], latent.shape[1]))
    B = _gram(features, weights / noise)
    B[np.diag_indices_from(B)] += 1.0
    L = cholesky(B, jitter=0.0).L
    moment = features.T @ (latent * weights[:, np.newaxis]) / noise
    return solve_lower_transpose(L, solve_lower(L, moment))


def laplace_evidence_gradient(
    target: Target, residual: Array, start: Array
) -> tuple[EvidenceGradient, Array]:
    """Laplace log evidence of one output, less a penalty for the residual.

    ``-ψ(ŵ) - ½ log det H - ½ Σ ω c var g``, the last term being what the bound of
    sparse Gaussian regression subtracts when the likelihood is Gaussian.

    Parameters
    ----------
    target : Target
        With ``c = 1`` and its residual ignored.
    residual : ndarray of shape (n,)
        Residual prior variances ``var g``.
    start : ndarray of shape (m, 1)
        Where the search for the mode starts.

    Returns
    -------
    evidence : EvidenceGradient
        Derivatives in the features, the residual and the log-parameters ``theta`` of
        the likelihood, including those through the mode.
    weights : ndarray of shape (m, 1)
        The mode, for the next call.

    Notes
    -----
    O(n m^2 + m^3). Third derivatives of the likelihood, and its derivatives in its
    scale parameters, are central differences of its curvature, gradient and value.
    """
    mode = find_mode(target, start)
    Phi, omega, w = target.features, target.weights, mode.weights[:, 0]
    f, root = latent_values(target, mode.weights)[:, 0], mode.root[0]
    c = _elementwise(target.likelihood.row_curvature, target.y, f)
    g = omega * _elementwise(target.likelihood.row_gradient, target.y, f)
    S = root @ root.T
    PhiS = Phi @ S
    spread = np.einsum("ij,ij->i", PhiS, Phi) + residual
    # effect of the curvature's dependence on f: s = -½ ω ∂c/∂f (φᵀSφ + var g)
    s = -0.5 * omega * _curvature_slope(target, f) * spread
    u = S @ (Phi.T @ s)
    slope = np.outer(s - g - omega * c * (Phi @ u), w) - np.outer(g, u)
    slope -= (omega * c)[:, np.newaxis] * PhiS
    penalty = 0.5 * float((omega * c) @ residual)
    value = -mode.energy + 0.5 * log_determinant_of_root(root) - penalty
    parameters = _parameter_slopes(target, f, spread, Phi @ u)
    evidence = EvidenceGradient(value, slope, -0.5 * omega * c, parameters)
    return evidence, mode.weights


def log_determinant_of_root(root: Array) -> float:
    """``log det(root rootᵀ)`` of a triangular root."""
    return log_determinant(np.abs(np.diag(np.diagonal(root))))


def _elementwise(function: Any, y: Array, f: Array) -> Array:
    """A row-wise function of one output at one draw, (n,)."""
    values: Array = function(y, f[:, np.newaxis, np.newaxis]).reshape(len(y))
    return values


def _curvature_slope(target: Target, f: Array) -> Array:
    h = 1e-5 * (1.0 + np.abs(f))
    curvature = target.likelihood.row_curvature
    rise = _elementwise(curvature, target.y, f + h)
    return (rise - _elementwise(curvature, target.y, f - h)) / (2.0 * h)


def _parameter_slopes(target: Target, f: Array, spread: Array, moved: Array) -> Array:
    """Derivatives of the evidence in the likelihood's log-parameters, (p,).

    ``-∂nll - ½ ω ∂c (φᵀSφ + var g)`` at a fixed mode, and ``-ω ∂g φᵀu`` through it.
    """
    theta, omega, h = target.likelihood.theta, target.weights, 1e-5
    slopes = np.empty(len(theta))
    for p in range(len(theta)):
        ends = []
        for sign in (1.0, -1.0):
            step = theta.copy()
            step[p] += sign * h
            at = target.likelihood.with_theta(step)
            nll = at.row_nll(target.y, f[:, np.newaxis, np.newaxis])[:, 0]
            curvature = _elementwise(at.row_curvature, target.y, f)
            gradient = _elementwise(at.row_gradient, target.y, f)
            terms = -nll - 0.5 * curvature * spread - gradient * moved
            ends.append(float(omega @ terms))
        slopes[p] = (ends[0] - ends[1]) / (2.0 * h)
    return slopes
