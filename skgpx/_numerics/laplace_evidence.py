"""Laplace approximation of the evidence, and its gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.contrasts import between_classes, contrasts
from skgpx._numerics.langevin import Target, latent_values
from skgpx._numerics.laplace import find_mode
from skgpx._numerics.linalg import log_determinant
from skgpx._numerics.regression import EvidenceGradient

Array = NDArray[np.float64]

# Half the squared decrement before the last step to the mode, in nats: the step leaves
# a hundredth of it where it is slow, and of its square where it is a Newton step.
_TOLERANCE = 1e-5


def laplace_evidence_gradient(
    target: Target, residual: Array, start: Array
) -> tuple[EvidenceGradient, Array]:
    """Laplace log evidence, less a penalty for the residual.

    ``-ψ(ŵ) - ½ log det H - ½ Σ ω tr(W) var g``, W the curvatures of the rows (c, c):
    the last term is what the bound of sparse Gaussian regression subtracts when the
    likelihood is Gaussian. Classes are one model: with two of them this is the evidence
    of one latent function of twice the prior variance.

    Parameters
    ----------
    target : Target
        Its residual is ignored.
    residual : ndarray of shape (n,)
        Residual prior variances ``var g``, the same for all outputs.
    start : ndarray of shape (m, c)
        Where the search for the mode starts.

    Returns
    -------
    evidence : EvidenceGradient
        Derivatives in the features, the residual and the log-parameters ``theta`` of
        the likelihood, including those through the mode.
    weights : ndarray of shape (m, c)
        The mode, for the next call.

    Notes
    -----
    O(n m^2 + m^3) for one output, O(n m^2 c^2 + m^3 c^3) for several. Third derivatives
    of the likelihood, and its derivatives in its scale parameters, are central
    differences of its curvature, gradient and value.
    """
    reduced = between_classes(target)
    if reduced is not None:
        Q = contrasts(target.n_outputs)
        evidence, weights = laplace_evidence_gradient(reduced, residual, start @ Q)
        return evidence, weights @ Q.T
    mode = find_mode(target, start, _TOLERANCE)
    Phi, w, omega = target.features, mode.weights, target.weights
    f = latent_values(target, w)
    W = omega[:, np.newaxis, np.newaxis] * _curvature(target, f)
    g = omega[:, np.newaxis] * _gradient(target, f)
    S = _covariance(mode.root, Phi.shape[1])
    variance, pulled = _seen_by_rows(Phi, S, W)
    spread = variance + residual[:, np.newaxis, np.newaxis] * np.eye(len(w.T))
    # effect of the curvature's dependence on f: s = -½ ω ∂ tr(W (φᵀSφ + var g)) / ∂f
    s = -0.5 * omega[:, np.newaxis] * _curvature_slope(target, f, spread)
    u = np.einsum("aibj,jb->ia", S, Phi.T @ s)
    moved = Phi @ u
    through = s - g - (W @ moved[:, :, np.newaxis])[:, :, 0]
    slope = through @ w.T - g @ u.T - pulled
    trace = np.einsum("naa->n", W)
    value = -mode.energy + 0.5 * log_determinant_of_root(mode.root)
    evidence = EvidenceGradient(
        value - 0.5 * float(trace @ residual),
        slope,
        -0.5 * trace,
        _parameter_slopes(target, f, spread, moved),
    )
    return evidence, w


def log_determinant_of_root(root: Array) -> float:
    """``log det(root rootᵀ)`` of triangular roots (g, p, p)."""
    return sum(log_determinant(np.abs(np.diag(np.diagonal(one)))) for one in root)


def _covariance(root: Array, m: int) -> Array:
    """Covariance ``root rootᵀ`` of the weights, (c, m, c, m) from roots (g, p, p)."""
    groups = len(root)
    if groups == 1:
        c = root.shape[1] // m
        return (root[0] @ root[0].T).reshape(c, m, c, m)
    S = np.zeros((groups, m, groups, m))
    for a in range(groups):
        S[a, :, a] = root[a] @ root[a].T
    return S


def _seen_by_rows(Phi: Array, S: Array, W: Array) -> tuple[Array, Array]:
    """``φᵀ S_ab φ`` (n, c, c) and ``Σ_ab W_ab S_ab φ`` (n, m) at each row."""
    (n, m), c = Phi.shape, len(S)
    variance, pulled = np.empty((n, c, c)), np.zeros((n, m))
    for a in range(c):
        # S_ba φ for all b, since S_ba = S_abᵀ
        products = (Phi @ S[a].reshape(m, c * m)).reshape(n, c, m)
        variance[:, a] = np.einsum("nbm,nm->nb", products, Phi)
        pulled += np.einsum("nbm,nb->nm", products, W[:, a])
    return variance, pulled


def _curvature(target: Target, f: Array) -> Array:
    """Curvature of each row at latent values f (n, c), (n, c, c)."""
    values: Array = target.likelihood.row_curvature(target.y, f[:, :, np.newaxis])
    return values[..., 0]


def _gradient(target: Target, f: Array) -> Array:
    """Gradient of each row at latent values f (n, c), (n, c)."""
    values: Array = target.likelihood.row_gradient(target.y, f[:, :, np.newaxis])
    return values[..., 0]


def _curvature_slope(target: Target, f: Array, spread: Array) -> Array:
    """Derivatives in f of ``tr(W spread)`` at each row, (n, c)."""
    slopes = np.empty_like(f)
    for a in range(f.shape[1]):
        step = np.zeros_like(f)
        step[:, a] = h = 1e-5 * (1.0 + np.abs(f[:, a]))
        rise = _curvature(target, f + step) - _curvature(target, f - step)
        slopes[:, a] = np.einsum("nab,nab->n", rise, spread) / (2.0 * h)
    return slopes


def _parameter_slopes(target: Target, f: Array, spread: Array, moved: Array) -> Array:
    """Derivatives of the evidence in the likelihood's log-parameters, (p,).

    ``-∂nll - ½ ω tr(∂W (φᵀSφ + var g))`` at a fixed mode, ``-ω ∂gᵀφᵀu`` through it.
    """
    theta, omega, h = target.likelihood.theta, target.weights, 1e-5
    slopes = np.empty(len(theta))
    for p in range(len(theta)):
        ends = []
        for sign in (1.0, -1.0):
            step = theta.copy()
            step[p] += sign * h
            at = target._replace(likelihood=target.likelihood.with_theta(step))
            nll = at.likelihood.row_nll(target.y, f[:, :, np.newaxis])[:, 0]
            bent = 0.5 * np.einsum("nab,nab->n", _curvature(at, f), spread)
            terms = -nll - bent - np.sum(_gradient(at, f) * moved, axis=1)
            ends.append(float(omega @ terms))
        slopes[p] = (ends[0] - ends[1]) / (2.0 * h)
    return slopes
