"""Laplace's approximation: mode, curvature and evidence.

The negative log posterior of the weights is ``ψ(w) = Σ_i ω_i nll(y_i, f_i) + ½‖w‖²``
with ``f = offset + Φw``; their distribution is approximated by ``N(ŵ, H⁻¹)`` with ŵ the
mode and ``H = I + Φᵀ diag(ω c) Φ``, c ≥ 0 the curvatures of the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.blas_threads import threads_for
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.langevin import Target, latent_values
from skgpx._numerics.linalg import (
    cholesky,
    invert_lower,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.regression import EvidenceGradient
from skgpx._numerics.smoothing import is_smoothed

# ---- Mode of the weights, and the normal approximation around it ---------------------


Array = NDArray[np.float64]

# Largest order of a Hessian that couples the weights of all outputs.
LARGEST_COUPLED = 1500
_MAX_ITER = 200
# Half the squared Newton decrement at which the search for the mode stops, in nats.
_TOLERANCE = 1e-10
# The same where a likelihood has kinks, of which a mean over nodes keeps traces.
_KINKED = 2e-3
# Least curvature of a row in its search, where it would be zero, of its information.
_FLAT = 0.2
# Ratio of two decrements above which a step counts as slow.
_SLOW = 0.2
# Alternations between the spread of the latent values and the mode averaged over it.
_REFINEMENTS = 4
# Tolerance of these searches, in nats.
_REFINED = 1e-4


class Mode(NamedTuple):
    """Laplace approximation of the distribution of the weights.

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


def find_mode(target: Target, weights: Array, tolerance: float | None = None) -> Mode:
    """Minimise ψ by damped Newton steps.

    Parameters
    ----------
    target : Target
        Its `likelihood` is used through ``row_nll``, ``row_gradient`` and
        ``row_curvature``; its coordinates are ignored.
    weights : ndarray of shape (m, c)
        Where to start.
    tolerance : float, default=None
        Half the squared Newton decrement, before the step that ends the search, in
        nats; None is 1e-10. What is left after a Newton step is of its square.

    Notes
    -----
    O(n m^2 + m^3) for each step with one output. The matrices are positive definite, so
    every direction is a descent direction; steps are halved until ψ decreases enough.
    Classes are searched in contrasts between them, one output less.
    """
    coupled = weights.size <= LARGEST_COUPLED
    reduced = between_classes(target) if coupled else None
    if reduced is not None:
        start = weights @ reduced.likelihood.Q
        mode = find_mode(reduced, start, tolerance)
        w, root = of_all_classes(mode.weights, mode.root, len(weights))
        return mode._replace(weights=w, root=root)
    w, n_iter, decrement, slow = weights, 0, np.inf, False
    enough = 2.0 * (_TOLERANCE if tolerance is None else tolerance)
    if is_smoothed(target):
        enough = max(enough, _KINKED)
    energy, gradient = _energy_and_gradient(target, w)
    while decrement >= enough and n_iter < _MAX_ITER:
        n_iter += 1
        direction = -_solve(_newton_roots(target, w, slow), gradient)
        before, decrement = decrement, -float(np.sum(direction * gradient))
        moved = _line_search(target, w, direction, energy, -decrement)
        if moved is None:
            # rounding hides any further decrease of ψ, or there is a kink
            decrement = 0.0 if decrement < 1e-6 * (1.0 + abs(energy)) else np.inf
            break
        w, energy, gradient = moved
        slow = decrement > _SLOW * before
    root = _inverse_roots(_roots(target, row_curvature(target, w)))
    return Mode(w, root, energy, n_iter, decrement < enough)


def refine(target: Target, mode: Mode) -> Mode:
    """Move the Laplace approximation to the normal distribution closest to the target.

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
    reduced = between_classes(target) if len(mode.root) == 1 else None
    if reduced is not None:
        between = find_mode(reduced, mode.weights @ reduced.likelihood.Q)
        between = refine(reduced, between)
        w, root = of_all_classes(between.weights, between.root, len(mode.weights))
        return between._replace(weights=w, root=root)
    c = mode.weights.shape[1]
    nodes, node_weights = expectation_nodes(c)
    for _ in range(_REFINEMENTS if c == 1 else _REFINEMENTS // 2):
        spread = latent_variance(target.features, mode.root, c)
        smooth = target._replace(
            std=np.sqrt(target.std**2 + spread),
            nodes=nodes,
            node_weights=node_weights,
        )
        mode = find_mode(smooth, mode.weights, _REFINED)
    return mode


def latent_variance(features: Array, root: Array, c: int) -> Array:
    """Variances of ``Φw``, of coupled outputs less their mean, (n, c)."""
    m = features.shape[1]
    blocks = root.reshape(c, m, -1) if len(root) == 1 else root
    if c > 1 and len(root) == 1:
        blocks = blocks - blocks.mean(axis=0)
    # var φᵀw = |rootᵀφ|²
    columns = [np.sum((features @ block) ** 2, axis=1) for block in blocks]
    return np.stack(columns, axis=1)


def _inverse_roots(L: Array) -> Array:
    """Roots of the inverse of ``H = L Lᵀ``: ``L⁻ᵀ`` for each group."""
    roots = [invert_lower(a).T for a in L]
    return np.ascontiguousarray(np.stack(roots))


def _energy_and_gradient(target: Target, w: Array) -> tuple[float, Array]:
    """``ψ`` and its gradient at weights w (m, c)."""
    f, likelihood, y = latent_values(target, w), target.likelihood, target.y
    energy, slope = 0.5 * float(np.sum(w**2)), np.zeros_like(f)
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        at = (f + target.std * node)[:, :, np.newaxis]
        energy += mass * float(target.weights @ likelihood.row_nll(y, at)[:, 0])
        slope += mass * likelihood.row_gradient(y, at)[:, :, 0]
    return energy, target.features.T @ (slope * target.weights[:, np.newaxis]) + w


def _line_search(
    target: Target,
    w: Array,
    direction: Array,
    energy: float,
    slope: float,
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
        [row_curvature(target, some[:, :, j]) for j in range(some.shape[2])],
        axis=0,
    )
    return _inverse_roots(_roots(target, temperature * curvature))


def _newton_roots(target: Target, w: Array, slow: bool) -> Array:
    """Lower roots of a positive definite Hessian, (g, p, p).

    With one output, from the absolute values of the second derivatives, differences of
    gradients: steps have the right length in tails, where the likelihood is concave.
    Where such steps are `slow` the true Hessian is taken if it is positive definite, as
    it is around the mode: Newton's method then converges quadratically.
    """
    if w.shape[1] > 1:
        return _roots(target, row_curvature(target, w))
    f = latent_values(target, w)
    h = 1e-5 * (1.0 + np.abs(f))
    rise = _row_gradient(target, f + h) - _row_gradient(target, f - h)
    second = (rise / (2.0 * h))[:, :, np.newaxis]
    if slow and np.any(second < 0.0):
        try:
            return _roots(target, second)
        except np.linalg.LinAlgError:
            pass
    bent = np.abs(second)
    if is_smoothed(target):
        bent = np.maximum(bent, _FLAT * row_curvature(target, w))
    return _roots(target, bent)


def _row_gradient(target: Target, f: Array) -> Array:
    """Gradient of each row at latent values (n, c), averaged over the nodes, (n, c)."""
    total = np.zeros_like(f)
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        at = (f + target.std * node)[:, :, np.newaxis]
        total += mass * target.likelihood.row_gradient(target.y, at)[..., 0]
    return total


def row_averages(target: Target, f: Array) -> tuple[Array, Array, Array]:
    """Nll of each row, its slope and its second derivative under ``N(f, std²)``.

    Of one output. Second derivatives are averaged without being evaluated, by Stein's
    identity ``E nll''(f + std ξ) = E ξ nll'(f + std ξ) / std`` for ξ ~ N(0, 1).

    Parameters
    ----------
    target : Target
        With positive `std`, and nodes for ξ.
    f : ndarray of shape (n,)

    Returns
    -------
    nll, slope, second : ndarray of shape (n,)
        The last may be negative where the likelihood is not log-concave.
    """
    at = f[:, np.newaxis, np.newaxis] + target.std[:, :, np.newaxis] * target.nodes.T
    nll = target.likelihood.row_nll(target.y, at)
    slope = target.likelihood.row_gradient(target.y, at)[:, 0]
    mass, xi = target.node_weights, target.nodes[:, 0]
    return nll @ mass, slope @ mass, slope @ (mass * xi) / target.std[:, 0]


def _roots(target: Target, curvature: Array) -> Array:
    """Lower roots of ``I + Φᵀ diag(ω curvature) Φ``, curvature (n, c, c)."""
    phi, c = target.features, curvature.shape[1]
    m = phi.shape[1]
    curvature = curvature * target.weights[:, np.newaxis, np.newaxis]
    if c * m > LARGEST_COUPLED:
        blocks = [_gram(phi, curvature[:, a, a]) for a in range(c)]
        return np.stack([cholesky(b + np.eye(m), jitter=0.0).L for b in blocks])
    if c == 1:
        H = _gram(phi, curvature[:, 0, 0])
        H[np.diag_indices(m)] += 1.0
        return cholesky(H, jitter=0.0).L[np.newaxis]
    H = np.eye(c * m).reshape(c, m, c, m)
    for a in range(c):
        # the blocks (a, 0), ..., (a, a) as one product: the lower triangle is enough
        weighted = curvature[:, a, : a + 1, np.newaxis] * phi[:, np.newaxis]
        row = (phi.T @ weighted.reshape(len(phi), -1)).reshape(m, a + 1, m)
        H[a, :, : a + 1] += row
    return cholesky(H.reshape(c * m, c * m), jitter=0.0).L[np.newaxis]


def _gram(features: Array, curvature: Array) -> Array:
    """``Φᵀ diag(c) Φ``."""
    with threads_for(features.shape[1]):
        if np.all(curvature >= 0.0):
            # a matrix times its own transpose is half the work of any other product
            half = features * np.sqrt(curvature)[:, np.newaxis]
            return half.T @ half
        gram: Array = (features * curvature[:, np.newaxis]).T @ features
        return gram


def row_curvature(target: Target, w: Array) -> Array:
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


def mirror_shift(target: Target) -> Array:
    """The u (m, c) of the mirror image ``-w - 2u``, with ``Φu`` near the offset."""
    shape = (len(target.y), target.n_outputs)
    offset = np.broadcast_to(target.offset, shape)
    return projection_start(target.features, offset, target.weights)


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


# ---- Laplace approximation of the evidence, and its gradient -------------------------


# Half the squared decrement before the last step to the mode, in nats: the step leaves
# a hundredth of it where it is slow, and of its square where it is a Newton step.
_EVIDENCE_TOLERANCE = 1e-5


def laplace_evidence(
    target: Target,
    residual: Array,
    start: Array,
) -> tuple[float, Mode, Array]:
    """Laplace log evidence, less a penalty for the residual.

    ``-ψ(ŵ) - ½ log det H - ½ Σ ω tr(W) var g``, W the curvatures of the rows (c, c):
    the last term is what the bound of sparse Gaussian regression subtracts when the
    likelihood is Gaussian. Arguments as in :func:`laplace_evidence_gradient`.

    Returns
    -------
    value : float
    mode : Mode
        Of contrasts where the outputs are classes.
    curvature : ndarray of shape (n, c, c)
        ``ω W`` at the mode.
    """
    reduced = between_classes(target)
    if reduced is not None:
        Q = contrasts(target.n_outputs)
        return laplace_evidence(reduced, residual, start @ Q)
    mode = find_mode(target, start, _EVIDENCE_TOLERANCE)
    W = _curvature(target, latent_values(target, mode.weights))
    W = target.weights[:, np.newaxis, np.newaxis] * W
    volume = sum(log_determinant(np.abs(np.diag(np.diagonal(r)))) for r in mode.root)
    value = -mode.energy + 0.5 * volume
    return value - 0.5 * float(np.einsum("naa->n", W) @ residual), mode, W


def laplace_evidence_gradient(
    target: Target,
    residual: Array,
    start: Array,
) -> tuple[EvidenceGradient, Array]:
    """:func:`laplace_evidence`, its gradient and the mode.

    Classes are one model: with two of them this is the evidence of one latent function
    of twice the prior variance.

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
    value, mode, W = laplace_evidence(target, residual, start)
    of_residual = -0.5 * np.einsum("naa->n", W)
    Phi, w, omega = target.features, mode.weights, target.weights
    f = latent_values(target, w)
    g = omega[:, np.newaxis] * _gradient(target, f)
    S = _covariance(mode.root, Phi.shape[1])
    variance, pulled = _seen_by_rows(Phi, S, W)
    spread = variance + residual[:, np.newaxis, np.newaxis] * np.eye(len(w.T))
    # effect of the curvature's dependence on f: s = -½ ω ∂ tr(W (φᵀSφ + var g)) / ∂f
    bent = _slopes(lambda f: _curvature(target, f), f)
    s = -0.5 * omega[:, np.newaxis] * np.einsum("nabc,nbc->na", bent, spread)
    u = np.einsum("aibj,jb->ia", S, Phi.T @ s)
    # the mode moves by the second derivatives, for which W may be a substitute
    second = _slopes(lambda f: _gradient(target, f), f)
    exact = omega[:, np.newaxis, np.newaxis] * second
    if np.max(np.abs(exact - W)) > 1e-4 * np.max(np.abs(W)):
        u, W = _solve(_roots(target, second), Phi.T @ s), exact
    moved = Phi @ u
    through = s - g - (W @ moved[:, :, np.newaxis])[:, :, 0]
    slope = through @ w.T - g @ u.T - pulled
    of_parameters = _parameter_slopes(target, f, spread, moved)
    return EvidenceGradient(value, slope, of_residual, of_parameters), w


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


def _slopes(function: Callable[[Array], Array], f: Array) -> Array:
    """Central differences in f (n, c) of values (n, ...) at each row, (n, c, ...)."""
    slopes = []
    for a in range(f.shape[1]):
        step = np.zeros_like(f)
        step[:, a] = h = 1e-5 * (1.0 + np.abs(f[:, a]))
        slopes.append(((function(f + step) - function(f - step)).T / (2.0 * h)).T)
    return np.stack(slopes, axis=1)


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


# ---- Contrasts between classes -------------------------------------------------------

# Softmax probabilities of c classes do not change when a number is added to all latent
# values. With orthonormal contrasts ``Q`` (c, c - 1), ``Qᵀ1 = 0``, the likelihood is a
# function of ``Qᵀf`` only, whose weights ``WQ`` are as independent and standard normal
# a priori as the weights W (m, c) are; the mean over the classes keeps its prior.


def contrasts(c: int) -> Array:
    """Orthonormal contrasts between c classes (Helmert's), shape (c, c - 1)."""
    Q = np.zeros((c, c - 1))
    for k in range(1, c):
        Q[:k, k - 1], Q[k, k - 1] = 1.0, -float(k)
        Q[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return Q


class ContrastLikelihood(NamedTuple):
    """The row-wise functions of a likelihood of classes, of contrasts (n, c - 1, s).

    Attributes
    ----------
    likelihood : Likelihood
    Q : ndarray of shape (c, c - 1)
    """

    likelihood: Any
    Q: Array

    @property
    def theta(self) -> Array:
        """Free log-parameters."""
        theta: Array = self.likelihood.theta
        return theta

    def with_theta(self, theta: Array) -> ContrastLikelihood:
        """Copy with other log-parameters."""
        return self._replace(likelihood=self.likelihood.with_theta(theta))

    def row_nll(self, y: Array, f: Array) -> Array:
        """Negative log-likelihood, (n, s)."""
        nll: Array = self.likelihood.row_nll(y, self.Q @ f)
        return nll

    def row_gradient(self, y: Array, f: Array) -> Array:
        """``Qᵀ∇``, (n, c - 1, s)."""
        gradient: Array = self.Q.T @ self.likelihood.row_gradient(y, self.Q @ f)
        return gradient

    def row_curvature(self, y: Array, f: Array) -> Array:
        """``QᵀWQ``, (n, c - 1, c - 1, s)."""
        W = self.likelihood.row_curvature(y, self.Q @ f)
        half = np.tensordot(W, self.Q, (2, 0))  # (n, c, s, c - 1)
        both: Array = np.tensordot(half, self.Q, (1, 0)).transpose(0, 3, 2, 1)
        return both


def between_classes(target: Target) -> Target | None:
    """The same target of contrasts; None where the outputs are not exchangeable.

    Contrasts suffice if the rows of the curvature sum to zero. The residual must have
    one variance for all outputs.
    """
    c = target.n_outputs
    alike = bool(np.all(target.std == target.std[:, :1]))
    if c == 1 or not alike or isinstance(target.likelihood, ContrastLikelihood):
        return None
    first = slice(0, min(4, len(target.y)))
    f = np.linspace(-1.0, 1.0, c)[np.newaxis, :, np.newaxis]
    y = target.y[first]
    W = target.likelihood.row_curvature(y, np.repeat(f, len(y), axis=0))
    if np.max(np.abs(W.sum(axis=2))) > 1e-9 * np.max(np.abs(W)):
        return None
    Q = contrasts(c)
    # std is that of the residual, the same for all classes
    return target._replace(
        likelihood=ContrastLikelihood(target.likelihood, Q),
        std=target.std[:, : c - 1],
        nodes=target.nodes @ Q,
        n_outputs=c - 1,
        offset=np.broadcast_to(target.offset, (len(target.offset), c)) @ Q,
    )


def of_all_classes(weights: Array, root: Array, m: int) -> tuple[Array, Array]:
    """Weights (m, c) and root (1, c m, c m) from those of the contrasts.

    ``W = V Qᵀ``, and the root ``(Q ⊗ I) root`` with ``(1 / √c) ⊗ I`` for the mean.
    """
    Q = contrasts(weights.shape[1] + 1)
    c = len(Q)
    width = (c - 1) * m
    full = np.zeros((c, m, c * m))
    between = np.tensordot(Q, root[0].reshape(c - 1, m, width), 1)
    full[:, :, :width] = between
    full[:, np.arange(m), width + np.arange(m)] = 1.0 / np.sqrt(c)
    return weights @ Q.T, full.reshape(1, c * m, c * m)
