"""Laplace's approximation: mode, curvature and evidence.

The negative log posterior of the weights is ``ψ(w) = Σ_i ω_i nll(y_i, f_i) + ½‖w‖²``
with ``f = offset + Φw``. Its normal approximation is ``N(ŵ, H⁻¹)`` with the mode ŵ and
``H = I + Φᵀ diag(ω c) Φ``, where c ≥ 0 are the curvatures of the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from skgpx._numerics.blas_threads import threads_for
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.langevin import Target, latent_values
from skgpx._numerics.linalg import (
    cholesky,
    invert_lower,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.regression import EvidenceGradient
from skgpx._numerics.smoothing import is_smoothed
from skgpx._numerics.weights import row_variances
from skgpx._types import Array

# ---- Mode of the weights, and the normal approximation around it ---------------------


# Largest order of a Hessian that couples the weights of all outputs.
LARGEST_COUPLED = 1500
# Steps of Newton's method, at most.
_MAX_ITER = 200
# Half the squared Newton decrement at which the search for the mode stops, in nats.
_TOLERANCE = 1e-10
# Least curvature of a row of a smoothed likelihood, relative to its Fisher information.
_LEAST_CURVATURE = 0.2


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


def newton(
    x: Array,
    evaluate: Callable[[Array], tuple[float, Array]],
    propose: Callable[[Array, Array, bool], tuple[Array, float]],
    tolerance: float,
) -> tuple[Array, float, int, bool]:
    """Damped Newton steps to the mode of a log posterior, in any coordinates.

    The first of the steps 1, ½, ¼, ... is taken that decreases the energy, the negative
    log posterior, enough (Armijo's condition).

    Parameters
    ----------
    x : ndarray
        Where to start.
    evaluate : callable
        The energy at x, and its gradient or what determines it.
    propose : callable
        ``propose(x, gradient, is_slow)``: the step ``-H⁻¹∇``, with a positive definite
        H, and the squared Newton decrement ``∇ᵀH⁻¹∇``. Slow steps have reduced it
        little.
    tolerance : float
        Half the squared decrement before the last step, in nats.

    Returns
    -------
    x : ndarray
    energy : float
    n_iter : int
    converged : bool
    """
    energy, gradient = evaluate(x)
    decrement = np.inf
    is_slow = False
    for n_iter in range(1, _MAX_ITER + 1):
        last_decrement = decrement
        step, decrement = propose(x, gradient, is_slow)
        for length in 0.5 ** np.arange(30):
            proposed = x + length * step
            next_energy, gradient = evaluate(proposed)
            if next_energy <= energy - 1e-4 * length * decrement:
                break
        else:
            # rounding hides any further decrease, or there is a kink
            return x, energy, n_iter, decrement < 1e-6 * (1.0 + abs(energy))
        x = proposed
        energy = next_energy
        if decrement < 2.0 * tolerance:
            return x, energy, n_iter, True
        is_slow = decrement > 0.2 * last_decrement
    return x, energy, _MAX_ITER, False


def find_mode(
    target: Target,
    weights: Array,
    tolerance: float | None = None,
) -> Mode:
    """Minimise ψ by damped Newton steps.

    Parameters
    ----------
    target : Target
        Its `likelihood` is used through ``row_nll``, ``row_gradient`` and
        ``row_curvature``; its coordinates are ignored.
    weights : ndarray of shape (m, c)
        Where to start.
    tolerance : float, default=None
        Half the squared Newton decrement before the last step, in nats; None is 1e-10.
        The error after the last Newton step is of the order of its square.

    Returns
    -------
    mode : Mode

    Notes
    -----
    O(n m^2 + m^3) for each step with one output. Classes are replaced by contrasts
    between them, which are one output fewer.
    """
    reduced = None
    if weights.size <= LARGEST_COUPLED:
        reduced = between_classes(target)
    if reduced is not None:
        start = weights @ contrasts(target.n_outputs)
        return _mode_of_all_classes(find_mode(reduced, start, tolerance))

    if tolerance is None:
        tolerance = _TOLERANCE
    if is_smoothed(target):
        # a mean over nodes keeps traces of kinks
        tolerance = max(tolerance, 1e-3)

    def propose(w: Array, gradient: Array, is_slow: bool) -> tuple[Array, float]:
        # d = -H⁻¹ ∇ψ, and the squared Newton decrement -dᵀ∇ψ
        direction = -_solve(_newton_roots(target, w, is_slow), gradient)
        return direction, -float(np.sum(direction * gradient))

    w, energy, n_iter, converged = newton(
        weights, partial(_energy_and_gradient, target), propose, tolerance
    )
    roots = _roots(target, row_curvature(target, latent_values(target, w)))
    return Mode(w, _inverse_roots(roots), energy, n_iter, converged)


def refine(target: Target, mode: Mode) -> Mode:
    """Move the Laplace approximation to the normal distribution closest to the target.

    Alternates between the marginal variances ``φᵀ root rootᵀ φ`` of the latent values
    and the mode of the potential averaged over them: a fixed point is the Gaussian
    variational approximation, mean and inverse expected Hessian. If the posterior is
    skewed, the mode and its curvature describe only a small part of it; the averages
    describe its bulk, where the chains will be. The target itself is not changed.

    Notes
    -----
    A few searches for a mode, each from the previous one: O(n m^2 + m^3). Exact for one
    output. Several latent values are taken as independent and relative to their mean,
    on which class probabilities do not depend.
    """
    reduced = None
    if len(mode.root) == 1:
        reduced = between_classes(target)
    if reduced is not None:
        start = mode.weights @ contrasts(target.n_outputs)
        return _mode_of_all_classes(refine(reduced, find_mode(reduced, start)))

    c = mode.weights.shape[1]
    n_refinements = 4 if c == 1 else 2
    nodes, node_weights = expectation_nodes(c)
    for _ in range(n_refinements):
        variance = latent_variance(target.features, mode.root, c)
        averaged = target._replace(
            std=np.sqrt(target.std**2 + variance),
            nodes=nodes,
            node_weights=node_weights,
        )
        mode = find_mode(averaged, mode.weights, tolerance=1e-4)
    return mode


def latent_variance(
    features: Array,
    root: Array,
    c: int,
) -> Array:
    """Variances of ``Φw``, of coupled outputs less their mean, (n, c)."""
    m = features.shape[1]
    blocks = root
    if len(root) == 1:
        blocks = root.reshape(c, m, -1)
        if c > 1:
            blocks = blocks - blocks.mean(axis=0)
    return row_variances(features, blocks)


def left_out(target: Target, mode: Mode) -> Array:
    """Weighted sums ``Φw`` of each row at the mode of the other ones, (n, c).

    ``φᵀŵ + (I - h W)⁻¹ h g`` with the gradient g and the curvature W of the row, and
    the covariance h of its latent values: exact where the other rows have no third
    derivatives [1]_.

    Parameters
    ----------
    target : Target
        Some of the rows of the mode, or all.
    mode : Mode

    References
    ----------
    .. [1] Vehtari, Mononen, Tolvanen, Sivula and Winther, "Bayesian leave-one-out
       cross-validation approximations for Gaussian latent variable models", JMLR 2016.
    """
    m, c = mode.weights.shape
    blocks = mode.root.reshape(c, m, -1)
    half = np.stack([target.features @ block for block in blocks], axis=1)
    h = half @ half.transpose(0, 2, 1)
    omega = target.weights[:, np.newaxis, np.newaxis]
    f = latent_values(target, mode.weights)
    W = omega * row_curvature(target, f)
    if len(mode.root) > 1:
        # independent outputs
        h = h * np.eye(c)
        W = W * np.eye(c)
    g = omega * _row_gradient(target, f)[:, :, np.newaxis]
    steps = np.linalg.solve(np.eye(c) - h @ W, h @ g)
    return target.features @ mode.weights + steps[:, :, 0]


def _inverse_roots(L: Array) -> Array:
    """Roots of the inverse of ``H = L Lᵀ``: ``L⁻ᵀ`` for each group."""
    roots = [invert_lower(root).T for root in L]
    return np.ascontiguousarray(np.stack(roots))


def _at_nodes(target: Target, f: Array) -> Iterator[tuple[float, Array]]:
    """Weight of each node ξ of the residual, and the latent values ``f + std ξ``.

    Values have shape (n, c, 1), from f of shape (n, c).
    """
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        f_at_node = f + target.std * node
        yield mass, f_at_node[:, :, np.newaxis]


def _energy_and_gradient(target: Target, w: Array) -> tuple[float, Array]:
    """``ψ`` and its gradient at weights w (m, c)."""
    likelihood = target.likelihood
    f = latent_values(target, w)
    energy = 0.5 * float(np.sum(w**2))
    slope = np.zeros_like(f)
    for mass, f_at_node in _at_nodes(target, f):
        nll = likelihood.row_nll(target.y, f_at_node)[:, 0]
        energy += mass * float(target.weights @ nll)
        gradient = likelihood.row_gradient(target.y, f_at_node)
        slope += mass * gradient[:, :, 0]
    # ∇ψ = Φᵀ diag(ω) ∇nll + w
    weighted = slope * target.weights[:, np.newaxis]
    data_term = target.features.T @ weighted
    return energy, data_term + w


def tempered_root(
    target: Target,
    weights: Array,
    temperature: float,
) -> Array:
    """Root of the inverse Hessian of a tempered target, (g, p, p).

    Curvatures are averaged over at most 16 of the particles, weights (m, c, s). With
    several modes this gives the shape of one mode, whereas the covariance of the
    particles would span all modes.
    """
    stride = max(1, weights.shape[2] // 16)
    particles = weights[:, :, ::stride].transpose(2, 0, 1)
    curvatures = [row_curvature(target, latent_values(target, w)) for w in particles]
    curvature = np.mean(curvatures, axis=0)
    return _inverse_roots(_roots(target, temperature * curvature))


def _newton_roots(
    target: Target,
    w: Array,
    is_slow: bool,
) -> Array:
    """Lower roots of a positive definite Hessian, (g, p, p).

    With one output it is built from the absolute values of the second derivatives,
    which are differences of gradients: steps then have the right length in tails, where
    the likelihood is concave. If such steps are slow and the true Hessian is positive
    definite, as it is around the mode, the true Hessian is used: Newton's method then
    converges quadratically.
    """
    f = latent_values(target, w)
    if w.shape[1] > 1:
        return _roots(target, row_curvature(target, f))
    # nll''(f) ≈ (nll'(f + h) - nll'(f - h)) / 2h
    second = _slopes(partial(_row_gradient, target), f)
    if is_slow and np.any(second < 0.0):
        try:
            return _roots(target, second)
        except np.linalg.LinAlgError:
            pass
    curvature = np.abs(second)
    if is_smoothed(target):
        floor = _LEAST_CURVATURE * row_curvature(target, f)
        curvature = np.maximum(curvature, floor)
    return _roots(target, curvature)


def _row_gradient(target: Target, f: Array) -> Array:
    """Gradient of each row at latent values (n, c), averaged over the nodes, (n, c)."""
    return _averaged(target, f, target.likelihood.row_gradient)


def row_curvature(target: Target, f: Array) -> Array:
    """Curvature of each row at latent values (n, c), averaged likewise, (n, c, c)."""
    return _averaged(target, f, target.likelihood.row_curvature)


def _averaged(
    target: Target,
    f: Array,
    row_function: Callable[[Array, Array], Array],
) -> Array:
    """Average over the nodes of a function of rows and their latent values (n, c)."""
    average: Any = 0.0
    for mass, f_at_node in _at_nodes(target, f):
        average = average + mass * row_function(target.y, f_at_node)[..., 0]
    return np.asarray(average)


def row_averages(target: Target, f: Array) -> tuple[Array, Array, Array]:
    """Nll of each row, and its slopes and second derivatives, under ``N(f, std²)``.

    The second derivative in one output is averaged without being evaluated, by Stein's
    identity ``E nll''(f + std ξ) = E ξ nll'(f + std ξ) / std`` for ξ ~ N(0, 1). For
    several outputs it is the diagonal of the mean curvature.

    Parameters
    ----------
    target : Target
        With `std`, which is positive or zero, and nodes for ξ.
    f : ndarray of shape (n, c)

    Returns
    -------
    nll : ndarray of shape (n,)
    slope, second : ndarray of shape (n, c)
        The latter may be negative if a likelihood of one output is not log-concave.
    """
    n, c = f.shape
    std = target.std
    by_parts = c == 1 and bool(np.all(std > 0.0))
    nll = np.zeros(n)
    slope = np.zeros((n, c))
    second = np.zeros((n, c))
    nodes = zip(target.nodes, _at_nodes(target, f), strict=True)
    for node, (mass, f_at_node) in nodes:
        nll += mass * target.likelihood.row_nll(target.y, f_at_node)[:, 0]
        gradient = target.likelihood.row_gradient(target.y, f_at_node)[:, :, 0]
        slope += mass * gradient
        if by_parts:
            # integration by parts: E[∂²nll / ∂f²] = E[ξ ∂nll / ∂f] / std
            second += mass * node * gradient / std
        else:
            curvature = target.likelihood.row_curvature(target.y, f_at_node)
            second += mass * np.einsum("naas->na", curvature)
    return nll, slope, second


def line_averages(
    likelihood: Any,
    y: Array,
    f: Array,
    std: Array,
    nodes: Array,
    masses: Array,
) -> tuple[Array, Array, Array]:
    """:func:`row_averages` of one output at several points of each row, all (n, s)."""
    n, s = f.shape
    at_nodes = f[:, :, np.newaxis] + std[:, :, np.newaxis] * nodes
    at_nodes = at_nodes.reshape(n, 1, -1)
    nll = likelihood.row_nll(y, at_nodes).reshape(n, s, -1)
    slope = likelihood.row_gradient(y, at_nodes).reshape(n, s, -1)
    return nll @ masses, slope @ masses, slope @ (masses * nodes) / std


def _roots(target: Target, curvature: Array) -> Array:
    """Lower roots of ``H = I + Φᵀ diag(ω curvature) Φ``, curvature (n, c, c)."""
    phi = target.features
    n, m = phi.shape
    c = curvature.shape[1]
    omega = target.weights[:, np.newaxis, np.newaxis]
    W = curvature * omega
    if c == 1 or c * m > LARGEST_COUPLED:
        # one block for each output
        roots = []
        for a in range(c):
            H = _gram(phi, W[:, a, a])
            H[np.diag_indices(m)] += 1.0
            L = cholesky(H, jitter=0.0).L
            roots.append(L)
        return np.stack(roots)
    H = np.eye(c * m)
    H = H.reshape(c, m, c, m)
    for a in range(c):
        # the blocks (a, 0), ..., (a, a) as one product: the lower triangle is enough
        row_of_blocks = W[:, a, : a + 1, np.newaxis]
        W_phi = row_of_blocks * phi[:, np.newaxis]
        blocks = phi.T @ W_phi.reshape(n, -1)
        H[a, :, : a + 1] += blocks.reshape(m, a + 1, m)
    H = H.reshape(c * m, c * m)
    L = cholesky(H, jitter=0.0).L
    return L[np.newaxis]


def _gram(features: Array, curvature: Array) -> Array:
    """``Φᵀ diag(c) Φ``."""
    with threads_for(features.shape[1]):
        if np.all(curvature >= 0.0):
            # a matrix times its own transpose is half the work of any other product
            half = features * np.sqrt(curvature)[:, np.newaxis]
            return half.T @ half
        weighted = features * curvature[:, np.newaxis]
        return weighted.T @ features


def _solve(L: Array, gradient: Array) -> Array:
    """``H⁻¹ gradient`` from the roots of the groups."""
    groups = gradient.T.reshape(len(L), -1)
    solutions = []
    for root, group in zip(L, groups, strict=True):
        half = solve_lower(root, group)
        solutions.append(solve_lower_transpose(root, half))
    m, c = gradient.shape
    by_output = np.concatenate(solutions).reshape(c, m)
    return by_output.T


def mirror_shift(target: Target) -> Array:
    """The shift u (m, c) of the mirror image ``-w - 2u``, with ``Φu ≈ offset``."""
    shape = (len(target.y), target.n_outputs)
    offset = np.broadcast_to(target.offset, shape)
    return projection_start(target.features, offset, target.weights)


def projection_start(
    features: Array,
    latent: Array,
    weights: Array,
) -> Array:
    """Weights of a function that approximates rough latent values (n, c), (m, c).

    Ridge regression with a noise variance of a tenth of the mean square of the values.
    """
    squares = np.mean(latent**2, axis=1)
    noise = 0.1 * float(np.average(squares, weights=weights))
    # of functions that are zero, up to what can be divided by
    if noise <= 1e-100:
        return np.zeros((features.shape[1], latent.shape[1]))
    # B = I + ΦᵀΦ / σ²,  w = B⁻¹ Φᵀf / σ²
    gram = _gram(features, weights / noise)
    L = cholesky(gram, jitter=0.0, added=1.0).L
    weighted = latent * weights[:, np.newaxis]
    moment = features.T @ weighted / noise
    return solve_lower_transpose(L, solve_lower(L, moment))


# ---- Laplace approximation of the evidence, and its gradient -------------------------


# Half the squared decrement before the last step to the mode, in nats. A slow step
# reduces it to a hundredth, a Newton step to the order of its square.
EVIDENCE_TOLERANCE = 1e-5


def laplace_evidence(
    target: Target,
    residual: Array,
    start: Array,
) -> tuple[float, Mode, Array]:
    """Laplace log evidence, less a penalty for the residual.

    ``-ψ(ŵ) - ½ log det H - ½ Σ ω tr(W) var g``, with W the curvatures of the rows
    (c, c): for a Gaussian likelihood the last term is the trace term in the bound of
    sparse Gaussian regression. Arguments as in :func:`laplace_evidence_gradient`.

    Returns
    -------
    value : float
    mode : Mode
        For classes, the mode of their contrasts.
    curvature : ndarray of shape (n, c, c)
        ``ω W`` at the mode.
    """
    reduced = between_classes(target)
    if reduced is not None:
        Q = contrasts(target.n_outputs)
        return laplace_evidence(reduced, residual, start @ Q)
    mode = find_mode(target, start, EVIDENCE_TOLERANCE)
    f = latent_values(target, mode.weights)
    omega = target.weights[:, np.newaxis, np.newaxis]
    W = omega * row_curvature(target, f)
    # -½ log det H = log |det root|, from triangular roots
    log_volume = 0.0
    for root in mode.root:
        diagonal = np.abs(np.diagonal(root))
        log_volume += float(np.sum(np.log(diagonal)))
    trace = np.einsum("naa->n", W)
    penalty = 0.5 * float(trace @ residual)
    value = -mode.energy + log_volume - penalty
    return value, mode, W


def laplace_evidence_gradient(
    target: Target,
    residual: Array,
    start: Array,
) -> tuple[EvidenceGradient, Array]:
    """:func:`laplace_evidence`, its gradient and the mode.

    Exchangeable classes are one model: with two classes, this is the evidence of one
    latent function of twice the prior variance.

    Parameters
    ----------
    target : Target
        Its `std` is zero.
    residual : ndarray of shape (n,)
        Residual prior variances ``var g``, the same for all outputs.
    start : ndarray of shape (m, c)
        Start of the search for the mode.

    Returns
    -------
    evidence : EvidenceGradient
        Derivatives in the features, the residual and the log-parameters ``theta`` of
        the likelihood, including the derivatives through the mode.
    weights : ndarray of shape (m, c)
        The mode, a start for the next call.

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
    Phi = target.features
    w = mode.weights
    omega = target.weights[:, np.newaxis]
    f = latent_values(target, w)
    g = omega * _row_gradient(target, f)
    S = _covariance(mode.root, Phi.shape[1])
    # variances φᵀSφ + var g of the latent values, and Σ_ab W_ab S_ab φ
    posterior_variance, W_S_phi = _row_covariances(Phi, S, W)
    identity = np.eye(w.shape[1])
    residual_variance = residual[:, np.newaxis, np.newaxis] * identity
    variance = posterior_variance + residual_variance

    # the curvature depends on f: s = -½ ω ∂ tr(W (φᵀSφ + var g)) / ∂f
    third = _slopes(partial(row_curvature, target), f)
    s = -0.5 * omega * np.einsum("nabc,nbc->na", third, variance)

    # the mode moves with the features by u = H⁻¹ Φᵀs; H holds the true second
    # derivatives, for which W may be a substitute
    Phi_s = Phi.T @ s
    u = np.einsum("aibj,jb->ia", S, Phi_s)
    second = _slopes(partial(_row_gradient, target), f)
    true_W = omega[:, :, np.newaxis] * second
    trace = np.einsum("naa->n", W)
    difference = np.max(np.abs(true_W - W))
    if difference > 1e-4 * np.max(np.abs(W)):
        W = true_W
        u = _solve(_roots(target, second), Phi_s)
    Phi_u = Phi @ u
    W_Phi_u = W @ Phi_u[:, :, np.newaxis]
    # ∂/∂Φ = (s - g - W Φu) wᵀ - g uᵀ - W S φ
    through_w = s - g - W_Phi_u[:, :, 0]
    slope = through_w @ w.T - g @ u.T - W_S_phi
    evidence = EvidenceGradient(
        value=value,
        features=slope,
        residual=-0.5 * trace,
        parameters=parameter_slopes(target, f, variance, Phi_u),
    )
    return evidence, w


def _covariance(root: Array, m: int) -> Array:
    """Covariance ``root rootᵀ`` of the weights, (c, m, c, m) from roots (g, p, p)."""
    groups = len(root)
    if groups == 1:
        c = root.shape[1] // m
        covariance = root[0] @ root[0].T
        return covariance.reshape(c, m, c, m)
    S = np.zeros((groups, m, groups, m))
    for a in range(groups):
        S[a, :, a] = root[a] @ root[a].T
    return S


def _row_covariances(
    Phi: Array,
    S: Array,
    W: Array,
) -> tuple[Array, Array]:
    """Covariances of the latent values of each row, and their derivatives.

    Returns
    -------
    covariance : ndarray of shape (n, c, c)
        ``φᵀ S_ab φ``.
    derivative : ndarray of shape (n, m)
        ``Σ_ab W_ab S_ab φ``.
    """
    n, m = Phi.shape
    c = len(S)
    covariance = np.empty((n, c, c))
    derivative = np.zeros((n, m))
    for a in range(c):
        # S_ba φ for all b, since S_ba = S_abᵀ
        products = Phi @ S[a].reshape(m, c * m)
        products = products.reshape(n, c, m)
        covariance[:, a] = np.einsum("nbm,nm->nb", products, Phi)
        derivative += np.einsum("nbm,nb->nm", products, W[:, a])
    return covariance, derivative


def _slopes(function: Callable[[Array], Array], f: Array) -> Array:
    """Central differences in f (n, c) of values (n, ...) at each row, (n, c, ...)."""
    slopes = []
    for a in range(f.shape[1]):
        h = 1e-5 * (1.0 + np.abs(f[:, a]))
        step = np.zeros_like(f)
        step[:, a] = h
        rise = function(f + step) - function(f - step)
        # rows come last in the transpose, as in h
        slope = rise.T / (2.0 * h)
        slopes.append(slope.T)
    return np.stack(slopes, axis=1)


def parameter_slopes(
    target: Target,
    f: Array,
    variance: Array,
    Phi_u: Array,
) -> Array:
    """Derivatives of the evidence in the likelihood's log-parameters, (p,).

    ``-∂nll - ½ ω tr(∂W (φᵀSφ + var g))`` at a fixed mode, ``-ω ∂gᵀφᵀu`` through it.
    """

    def terms(theta: Array) -> float:
        likelihood = target.likelihood.with_theta(theta)
        changed = target._replace(likelihood=likelihood)
        nll = likelihood.row_nll(target.y, f_column)
        trace = np.einsum("nab,nab->n", row_curvature(changed, f), variance)
        through_mode = np.sum(_row_gradient(changed, f) * Phi_u, axis=1)
        rows = -nll[:, 0] - 0.5 * trace - through_mode
        return float(target.weights @ rows)

    f_column = f[:, :, np.newaxis]
    theta = target.likelihood.theta
    h = 1e-5
    slopes = np.empty(len(theta))
    for p in range(len(theta)):
        above = theta.copy()
        above[p] += h
        below = theta.copy()
        below[p] -= h
        slopes[p] = (terms(above) - terms(below)) / (2.0 * h)
    return slopes


# ---- Contrasts between classes -------------------------------------------------------

# Softmax probabilities of c classes do not change if a number is added to all latent
# values. With orthonormal contrasts ``Q`` (c, c - 1), ``Qᵀ1 = 0``, the likelihood is a
# function of ``Qᵀf`` only. Its weights ``WQ`` are independent and standard normal a
# priori, like the weights W (m, c); the mean over the classes keeps its prior.


def contrasts(c: int) -> Array:
    """Orthonormal contrasts between c classes (Helmert's), shape (c, c - 1)."""
    return np.ascontiguousarray(linalg.helmert(c).T)


class ContrastLikelihood(NamedTuple):
    """Row functions of a likelihood of classes, at contrasts (n, c - 1, s).

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
        return self.likelihood.theta

    def with_theta(self, theta: Array) -> ContrastLikelihood:
        """Copy with other log-parameters."""
        return self._replace(likelihood=self.likelihood.with_theta(theta))

    def row_nll(self, y: Array, f: Array) -> Array:
        """Negative log-likelihood, (n, s)."""
        latent = self.Q @ f
        return self.likelihood.row_nll(y, latent)

    def row_gradient(self, y: Array, f: Array) -> Array:
        """``Qᵀ∇``, (n, c - 1, s)."""
        latent = self.Q @ f
        gradient: Array = self.likelihood.row_gradient(y, latent)
        return self.Q.T @ gradient

    def row_curvature(self, y: Array, f: Array) -> Array:
        """``QᵀWQ``, (n, c - 1, c - 1, s)."""
        latent = self.Q @ f
        W = self.likelihood.row_curvature(y, latent)
        # W Q of shape (n, c, s, c - 1)
        W_Q = np.tensordot(W, self.Q, axes=(2, 0))
        # Qᵀ W Q of shape (n, s, c - 1, c - 1)
        Q_W_Q = np.tensordot(W_Q, self.Q, axes=(1, 0))
        return Q_W_Q.transpose(0, 3, 2, 1)


def between_classes(target: Target) -> Target | None:
    """Target of the contrasts; None if the outputs are not exchangeable classes.

    Contrasts suffice if the rows of the curvature sum to zero, and if the residual has
    one variance for all outputs.
    """
    c = target.n_outputs
    if c == 1 or isinstance(target.likelihood, ContrastLikelihood):
        return None
    if not np.all(target.std == target.std[:, :1]):
        return None
    # a curvature with W 1 = 0: the likelihood does not change with a common shift
    y = target.y[:4]
    row = np.linspace(-1.0, 1.0, c)
    f = np.tile(row, (len(y), 1))
    W = target.likelihood.row_curvature(y, f[:, :, np.newaxis])[..., 0]
    row_sums = W.sum(axis=2)
    largest_sum = np.max(np.abs(row_sums))
    if largest_sum > 1e-9 * np.max(np.abs(W)):
        return None
    Q = contrasts(c)
    n = len(target.offset)
    offset = np.broadcast_to(target.offset, (n, c))
    return target._replace(
        likelihood=ContrastLikelihood(target.likelihood, Q),
        std=target.std[:, : c - 1],
        nodes=target.nodes @ Q,
        n_outputs=c - 1,
        offset=offset @ Q,
    )


def _mode_of_all_classes(mode: Mode) -> Mode:
    """Mode of the weights of all classes, from a mode of their contrasts."""
    m = len(mode.weights)
    weights, root = of_all_classes(mode.weights, mode.root, m)
    return mode._replace(weights=weights, root=root)


def of_all_classes(
    weights: Array,
    root: Array,
    m: int,
) -> tuple[Array, Array]:
    """Weights (m, c) and root (1, c m, c m) of all classes, from a mode of contrasts.

    ``W = V Qᵀ``, and the root ``(Q ⊗ I) root`` with ``(1 / √c) ⊗ I`` for the mean.
    """
    c = weights.shape[1] + 1
    Q = contrasts(c)
    width = (c - 1) * m
    full = np.zeros((c, m, c * m))
    # (Q ⊗ I) root
    by_contrast = root[0].reshape(c - 1, m, width)
    full[:, :, :width] = np.tensordot(Q, by_contrast, axes=1)
    # (1 / √c) ⊗ I
    functions = np.arange(m)
    full[:, functions, width + functions] = 1.0 / np.sqrt(c)
    full = full.reshape(1, c * m, c * m)
    return weights @ Q.T, full
