"""Laplace approximation of the evidence, and its gradient."""

from __future__ import annotations

from typing import NamedTuple

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
    covariance = _covariance(Phi, mode.root)
    spread = covariance.latent + residual[:, np.newaxis, np.newaxis] * np.eye(len(w.T))
    # effect of the curvature's dependence on f: s = -½ ω ∂ tr(W (φᵀSφ + var g)) / ∂f
    s = -0.5 * omega[:, np.newaxis] * _curvature_slope(target, f, spread)
    u = covariance.times(Phi.T @ s)
    moved = Phi @ u
    through = s - g - (W @ moved[:, :, np.newaxis])[:, :, 0]
    slope = through @ w.T - g @ u.T - covariance.pulled(W)
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


class _Covariance(NamedTuple):
    """The covariance S of the weights, seen through the rows.

    Attributes
    ----------
    blocks : ndarray of shape (c, c, m, m)
    products : dict
        ``Φ S_ab`` (n, m) for the outputs (a, b); those that are missing are zero.
    latent : ndarray of shape (n, c, c)
        ``φᵀ S_ab φ``.
    """

    blocks: Array
    products: dict[tuple[int, int], Array]
    latent: Array

    def times(self, v: Array) -> Array:
        """``S v`` for v (m, c)."""
        product: Array = np.einsum("abij,jb->ia", self.blocks, v)
        return product

    def pulled(self, W: Array) -> Array:
        """``Σ_ab W_ab Φ S_ab``, (n, m)."""
        return np.sum(
            [W[:, a, b, np.newaxis] * p for (a, b), p in self.products.items()], axis=0
        )


def _covariance(Phi: Array, root: Array) -> _Covariance:
    groups, m = len(root), Phi.shape[1]
    c = groups * root.shape[1] // m
    blocks = np.zeros((c, c, m, m))
    if groups == 1:
        S = root[0] @ root[0].T
        blocks[:] = S.reshape(c, m, c, m).transpose(0, 2, 1, 3)
        pairs = [(a, b) for a in range(c) for b in range(c)]
    else:
        blocks[np.arange(c), np.arange(c)] = root @ root.transpose(0, 2, 1)
        pairs = [(a, a) for a in range(c)]
    products = {(a, b): Phi @ blocks[a, b] for a, b in pairs}
    latent = np.zeros((len(Phi), c, c))
    for (a, b), product in products.items():
        latent[:, a, b] = np.einsum("ij,ij->i", product, Phi)
    return _Covariance(blocks, products, latent)


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
