"""Langevin dynamics of the weights: one time loop over a block of chains.

The chains move in coordinates z, with weights ``w = centre + root z``. The target is::

    U(z) = β Σ_i ω_i nll(y_i, f_i) + ½‖w‖²,    f = offset + Φw

the potential V∞ of projected Langevin sampling. (Searches for a mode may average the
likelihood over a spread of f, by the quadrature rule of a target; chains never do.)
Every scheme is the same step with different numbers::

    z' = z - drift ∇U(z) + diffusion ξ,   ξ ~ N(0, I)

followed, or not, by a Metropolis test; or it is a trajectory of several leaps, each a
kick by the gradient of ``U - ½‖z‖²`` and an exact rotation of position and momentum,
with one test at its end [1]_: all are accepted where U is ½‖z‖², and elsewhere a
trajectory goes farther than as many single steps, which are a random walk. With a root
of the inverse Hessian one step size suits all directions. With a test, the difference
``∇U(z) - z`` is shortened to at most ``2 √dim``: in the tails of a likelihood it can be
hundreds of times longer, and a chain that starts there would overshoot, be rejected,
and never move. The test accounts for the shortening exactly. Steps that are not
`centred` shorten ∇U itself and do not know where the origin is [2]_.

The time loop is NumPy, and the sum over rows is compiled. Chains, momenta and gradients
have shape (g, p, s), the chains last; results are written into the arguments. Proposals
that overflow are rejected.

References
----------
.. [1] Shahbaba, Lan, Johnson and Neal, "Split Hamiltonian Monte Carlo", Statistics and
   Computing 2014.
.. [2] Roberts and Tweedie, "Exponential convergence of Langevin distributions and their
   discrete approximations", Bernoulli 1996: the truncated algorithm, MALTA.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import pointwise
from skgpx._numerics._jit import kernel
from skgpx._numerics.elementary import add
from skgpx._numerics.pointwise import formula_of

# ---- The parts of one step of Langevin dynamics: proposals, trajectories, the test ---


Array = NDArray[np.float64]


def propose(
    z: Array,
    gradient: Array,
    drift: float,
    diffusion: float,
    n_leaps: int,
    rng: np.random.Generator,
    noise: Array,
    momentum: Array,
    proposal: Array,
    new_gradient: Array,
) -> float:
    """z' = z - drift ∇U + diffusion ξ; ξ is kept for the Metropolis test.

    Or, with leaps, the first half kick and rotation of a trajectory with the momentum
    ξ. Returns its angle, random so that no direction comes back to where it was.
    """
    rng.standard_normal(out=noise)
    if n_leaps == 0:
        np.multiply(noise, diffusion, out=proposal)
        proposal += z
        proposal -= drift * gradient
        return 0.0
    angle = drift * (0.6 + 0.6 * rng.random())
    momentum[:], proposal[:], new_gradient[:] = noise, z, gradient
    kick(0.5 * angle, proposal, new_gradient, momentum)
    turn(angle, proposal, momentum)
    return angle


def kick(angle: float, z: Array, gradient: Array, momentum: Array) -> None:
    """p - angle (∇U - z): the part of U that is not ½|z|²."""
    force = gradient - z
    force *= angle
    momentum -= force


def turn(angle: float, z: Array, momentum: Array) -> None:
    """Rotate (z, p), the exact flow of ``½|z|² + ½|p|²``."""
    cosine, sine = np.cos(angle), np.sin(angle)
    before = sine * z
    z *= cosine
    z += sine * momentum
    momentum *= cosine
    momentum -= before


def shorten(metropolis: bool, centred: bool, z: Array, gradient: Array) -> None:
    """Shorten ``∇U - z`` of each chain to at most twice the root of its dimension.

    Or ∇U itself, where the coordinates have no centre that suits all chains.
    """
    if not metropolis:
        return
    pull = gradient - z if centred else gradient
    square, longest = _squares(pull), 4.0 * (z.size // z.shape[2])
    far = square > longest
    if far.any():
        kept = z[:, :, far] if centred else 0.0
        factor = np.sqrt(longest / square[far])
        gradient[:, :, far] = kept + factor * pull[:, :, far]


def decide(
    z: Array,
    energy: Array,
    gradient: Array,
    new_z: Array,
    new_energy: Array,
    new_gradient: Array,
    noise: Array,
    momentum: Array,
    drift: float,
    diffusion: float,
    metropolis: bool,
    n_leaps: int,
    rng: np.random.Generator,
    accepted: Array,
) -> None:
    """Move each chain to its proposal, with the Metropolis probability on request."""
    moves = np.ones(len(energy), dtype=bool)
    if metropolis:
        if n_leaps > 0:
            # the loss of kinetic energy along a trajectory
            log_ratio = 0.5 * (_squares(noise) - _squares(momentum))
        else:
            # log q(z | z') - log q(z' | z)
            back = z - new_z + drift * new_gradient
            log_ratio = 0.5 * (_squares(noise) - _squares(back) / diffusion**2)
        # comparisons with NaN are false: a proposal of energy NaN is rejected
        moves = np.log(rng.random(len(energy))) <= energy - new_energy + log_ratio
    accepted += moves
    np.copyto(energy, new_energy, where=moves)
    np.copyto(z, new_z, where=moves)
    np.copyto(gradient, new_gradient, where=moves)


def _squares(values: Array) -> Array:
    """Sum of squares of each chain, (s,)."""
    flat = values.reshape(-1, values.shape[2])
    squares: Array = np.einsum("is,is->s", flat, flat)
    return squares


# ---- The data term of a block of chains ----------------------------------------------


# Rows processed at a time: their latent values and gradients stay in the cache, and
# products of 96 x 100 x 100 take OpenBLAS's path for small matrices, which does not
# pack its arguments.
ROWS = 96

_value_and_gradient = pointwise.value_and_gradient


@kernel
def add_data_term(
    formula: Any,
    parameters: Array,
    features: Array,
    y: Array,
    weights: Array,
    n_outputs: int,
    offset: Array,
    w: Array,
    temperature: float,
    with_value: bool,
    energy: Array,
    pull: Array,
) -> None:
    """Add the data term and its gradient in w, block of rows by block of rows."""
    n, s = len(features), w.shape[1] // n_outputs
    each = len(y) // n
    size = min(n, ROWS)
    f, slope = np.empty((size, w.shape[1])), np.empty((size, w.shape[1]))
    value, part = np.empty((size, s)), np.empty(pull.shape)
    for first in range(0, n, ROWS):
        b = min(ROWS, n - first)
        last = first + b
        phi = features[first:last]
        np.dot(phi, w, f[:b])
        for i in range(b):
            row = offset[min(first + i, len(offset) - 1)]
            for c in range(n_outputs):
                for j in range(c * s, (c + 1) * s):
                    f[i, j] += row[min(c, len(row) - 1)]
        _value_and_gradient(
            formula, parameters, y[each * first : each * last], f[:b], with_value,
            value[:b], slope[:b],
        )  # fmt: skip
        for i in range(b):
            omega = temperature * weights[first + i]
            if omega != 1.0:
                for j in range(slope.shape[1]):
                    slope[i, j] *= omega
            if with_value:
                for j in range(s):
                    energy[j] += omega * value[i, j]
        np.dot(phi.T, slope[:b], part)
        add(part, pull)


# ---- Langevin dynamics of the weights: one time loop over a block of chains ----------


# Codes of a target that is quadratic in z, whose features hold its matrix and y its
# linear term, and of one whose likelihood is written in NumPy only.
QUADRATIC = -1
NUMPY = -2


class Target(NamedTuple):
    """Target of the chains; plain arrays, which can be compiled and pickled.

    Attributes
    ----------
    likelihood : Likelihood or None
        Called through ``row_nll`` and ``row_gradient`` where the code is `NUMPY`;
        None for `QUADRATIC`.
    code : int
        Formula of :mod:`skgpx._numerics.pointwise`, `QUADRATIC` or `NUMPY`.
    parameters : ndarray of shape (p,)
        Parameters of the compiled formula.
    features, y, weights : ndarray of shape (n, m), (n,), (n,)
        Basis at the data, targets, row weights.
    std : ndarray of shape (n, c)
        Residual standard deviation of each latent output.
    nodes, node_weights : ndarray of shape (q, c), (q,)
        Quadrature for ξ ~ N(0, I).
    centre, root : ndarray of shape (g, p), (g, p, p)
        Coordinates, in g groups of p weights: g = 1 couples all outputs; g = c, none.
    n_outputs : int
        Latent outputs c; ``g * p = c * m``.
    offset : ndarray of shape (1 or n, 1 or c)
        Known part of the latent values, such as their constant mean.
    """

    likelihood: Any
    code: int
    parameters: Array
    features: Array
    y: Array
    weights: Array
    std: Array
    nodes: Array
    node_weights: Array
    centre: Array
    root: Array
    n_outputs: int
    offset: Array = np.zeros((1, 1))


class Scheme(NamedTuple):
    """Numbers of one step; see the equation in the module's docstring.

    Attributes
    ----------
    drift, diffusion : float
        With leaps, the drift is the angle of one, and the diffusion is not used.
    metropolis : bool
        Whether to accept or reject.
    n_leaps : int
        Leaps of a trajectory; 0 for a single step.
    centred : bool
        Whether ``∇U - z`` is shortened, or ∇U itself: the choice where there are
        several modes, of which the origin of the coordinates can suit but one.
    """

    drift: float
    diffusion: float
    metropolis: bool
    n_leaps: int = 0
    centred: bool = True

    @property
    def cost(self) -> int:
        """Evaluations of the gradient."""
        return max(self.n_leaps, 1)

    @property
    def mobility(self) -> float:
        """How far an accepted step forgets its start, an evaluation: 1 is all of it.

        For U = ½‖z‖², ``1 - ρ`` with ρ the correlation of the two states.
        """
        if self.n_leaps == 0:
            return self.drift
        return float(1.0 - np.cos(self.n_leaps * self.drift)) / self.n_leaps


def ornstein_uhlenbeck(correlation: float) -> Scheme:
    """Step that leaves N(0, I) exactly invariant where ``U = ½‖z‖²``.

    ``z' = ρz - (1 - ρ)(∇U - z) + √(1 - ρ²) ξ``, ρ the correlation of two states.
    """
    return Scheme(1.0 - correlation, float(np.sqrt(1.0 - correlation**2)), True)


def euler_maruyama(step_size: float, metropolis: bool) -> Scheme:
    """``z' = z - η∇U(z) + √(2η) ξ``: MALA with the test, ULA without it."""
    return Scheme(step_size, float(np.sqrt(2.0 * step_size)), metropolis)


def without_centre(step_size: float) -> Scheme:
    """MALA that shortens ∇U itself, Roberts and Tweedie's truncated algorithm."""
    return euler_maruyama(step_size, metropolis=True)._replace(centred=False)


def trajectory(angle: float, n_leaps: int) -> Scheme:
    """Leaps of about this angle with one test at the end; exact where ``U = ½‖z‖²``."""
    return Scheme(angle, 0.0, True, n_leaps)


def halved(scheme: Scheme) -> Scheme:
    """The same kind of step with half the drift."""
    drift = 0.5 * scheme.drift
    if scheme.n_leaps > 0:
        return scheme._replace(drift=drift)
    # √(2η) for Euler-Maruyama, √(1 - ρ²) = √(η (2 - η)) for Ornstein-Uhlenbeck
    euler = scheme.diffusion**2 > scheme.drift * (2.0 - 0.5 * scheme.drift)
    square = 2.0 * drift if euler else drift * (2.0 - drift)
    return scheme._replace(drift=drift, diffusion=float(np.sqrt(square)))


def single(scheme: Scheme) -> Scheme:
    """One leap of a trajectory; other steps as they are."""
    return scheme._replace(n_leaps=min(scheme.n_leaps, 1))


class Chains(NamedTuple):
    """State of a block of chains.

    Attributes
    ----------
    z : ndarray of shape (g, p, s)
    energy : ndarray of shape (s,)
        ``U(z)``, up to a constant.
    gradient : ndarray of shape (g, p, s)
        ``∇U(z)``, shortened once the chains have taken a step with a test.
    """

    z: Array
    energy: Array
    gradient: Array


class Trace(NamedTuple):
    """Statistics of a stretch of steps.

    Attributes
    ----------
    accepted : ndarray of shape (s,)
        Number of accepted proposals of each chain.
    total, square : ndarray of shape (g, p, s)
        Sums of z and of z² over the steps.
    """

    accepted: Array
    total: Array
    square: Array


def quadratic_target(gram: Array, moment: Array) -> Target:
    """Target of Gaussian regression, ``½wᵀ(gram + I)w - momentᵀw``, in w itself.

    ``gram = ΦᵀΦ/σ²`` (m, m) and ``moment = Φᵀy/σ²`` (m,): a step costs O(m^2),
    whatever the number of rows.
    """
    m = len(moment)
    nothing, none = np.ones(0), np.ones((0, 1))
    return Target(
        None, QUADRATIC, nothing, gram + np.eye(m), moment, nothing, none, none,
        nothing, np.zeros((1, m)), np.eye(m)[np.newaxis], 1,
    )  # fmt: skip


def in_coordinates(target: Target, centre: Array, root: Array) -> Target:
    """The same target with ``w = centre + root z``; `target` must be in w itself."""
    if target.code == QUADRATIC:
        A, b = target.features, target.y
        target = target._replace(
            features=np.ascontiguousarray(root[0].T @ A @ root[0]),
            y=root[0].T @ (b - A @ centre[0]),
        )
    return target._replace(
        centre=np.ascontiguousarray(centre), root=np.ascontiguousarray(root)
    )


def weights_of(target: Target, z: Array) -> Array:
    """Weights ``centre + root z`` of chains z (g, p, s), shape (m, c, s)."""
    w = target.centre[:, :, np.newaxis] + target.root @ z
    c = target.n_outputs
    return w.reshape(c, -1, z.shape[2]).transpose(1, 0, 2)


def latent_values(target: Target, w: Array) -> Array:
    """Latent values ``offset + Φw`` of all rows at weights w (m, c), shape (n, c)."""
    f: Array = target.features @ w + target.offset
    return f


def start(target: Target, z: Array, temperature: float = 1.0) -> Chains:
    """Chains at the coordinates z (g, p, s)."""
    z = np.ascontiguousarray(z)
    chains = Chains(z, np.empty(z.shape[2]), np.empty_like(z))
    with np.errstate(all="ignore"):
        _evaluation(target, temperature)(z, True, chains.energy, chains.gradient)
    return chains


def advance(
    target: Target,
    chains: Chains,
    scheme: Scheme,
    n_steps: int,
    rng: np.random.Generator,
    temperature: float = 1.0,
) -> tuple[Chains, Trace]:
    """Move a block of chains; the argument is not modified.

    Parameters
    ----------
    target : Target
    chains : Chains
    scheme : Scheme
    n_steps : int
    rng : numpy.random.Generator
    temperature : float, default=1.0
        β, which multiplies the log-likelihood.

    Notes
    -----
    O(n_steps (n m + m^2) c s) time; no array over rows is kept beside the features.
    """
    z, energy, gradient = (a.copy() for a in chains)
    trace = Trace(np.zeros(z.shape[2]), np.zeros_like(z), np.zeros_like(z))
    # a chain that overflows is rejected
    with np.errstate(all="ignore"):
        _loop(target, z, energy, gradient, scheme, n_steps, rng, temperature, trace)
    return Chains(z, energy, gradient), trace


def _loop(
    target: Target,
    z: Array,
    energy: Array,
    gradient: Array,
    scheme: Scheme,
    n_steps: int,
    rng: np.random.Generator,
    temperature: float,
    trace: Trace,
) -> None:
    drift, diffusion, metropolis, n_leaps, centred = scheme
    accepted, total, square = trace
    evaluate = _evaluation(target, temperature)
    noise, momentum = np.empty_like(z), np.empty_like(z)
    new_z, new_energy, new_gradient = (np.empty_like(a) for a in (z, energy, gradient))
    shorten(metropolis, centred, z, gradient)
    for step in range(n_steps):
        angle = propose(
            z, gradient, drift, diffusion, n_leaps, rng, noise, momentum,
            new_z, new_gradient,
        )  # fmt: skip
        for left in range(max(n_leaps, 1) - 1, -1, -1):
            # without a Metropolis test, the energy is needed at the end only
            with_value = not left and (metropolis or step == n_steps - 1)
            evaluate(new_z, with_value, new_energy, new_gradient)
            shorten(metropolis, centred, new_z, new_gradient)
            if n_leaps > 0:
                kick(angle if left else 0.5 * angle, new_z, new_gradient, momentum)
            if left:
                turn(angle, new_z, momentum)
        decide(
            z, energy, gradient, new_z, new_energy, new_gradient, noise, momentum,
            drift, diffusion, metropolis, n_leaps, rng, accepted,
        )  # fmt: skip
        total += z
        square += z * z


def _evaluation(target: Target, temperature: float) -> Callable[..., None]:
    """Function that writes U(z) and ∇U(z) of a block of chains into two arrays."""
    if target.code == QUADRATIC:
        return partial(_quadratic, target)
    if target.code == NUMPY:

        def plain(w: Array, _: bool, energy: Array, pull: Array) -> None:
            weights = w.reshape(len(w), target.n_outputs, -1)
            value, slope = rows_value_and_gradient(target, weights, temperature)
            energy += value
            pull += slope.reshape(pull.shape)

        return partial(_with_rows, target, plain)
    fixed = (
        formula_of(target.code), target.parameters, target.features,
        target.y.reshape(-1), target.weights, target.n_outputs, target.offset,
    )  # fmt: skip

    def compiled(w: Array, with_value: bool, energy: Array, pull: Array) -> None:
        add_data_term(*fixed, w, temperature, with_value, energy, pull)

    return partial(_with_rows, target, compiled)


def _quadratic(
    target: Target, z: Array, with_value: bool, energy: Array, gradient: Array
) -> None:
    """U = ½zᵀAz - bᵀz and its gradient Az - b."""
    b = target.y[:, np.newaxis]
    np.matmul(target.features, z, out=gradient)
    if with_value:
        energy[:] = np.einsum("is,is->s", 0.5 * gradient[0] - b, z[0])
    gradient -= b


def _with_rows(
    target: Target,
    data_term: Callable[..., None],
    z: Array,
    with_value: bool,
    energy: Array,
    gradient: Array,
) -> None:
    """½‖w‖² and the negative log likelihood of the weights w."""
    m, c, s = target.features.shape[1], target.n_outputs, z.shape[2]
    w = target.root @ z
    w += target.centre[:, :, np.newaxis]
    # (c, m, s) to outputs side by side, chains last
    flat = w.reshape(c, m, s).transpose(1, 0, 2).reshape(m, c * s)
    pull = np.zeros((m, c * s))
    energy[:] = 0.5 * np.einsum("gps,gps->s", w, w)
    data_term(flat, with_value, energy, pull)
    w += pull.reshape(m, c, s).transpose(1, 0, 2).reshape(w.shape)
    np.matmul(target.root.transpose(0, 2, 1), w, out=gradient)


def rows_value_and_gradient(
    target: Target, w: Array, temperature: float = 1.0
) -> tuple[Array, Array]:
    """Data term at weights w (m, c, s) in NumPy: its value (s,) and gradient in w."""
    m, c, s = w.shape
    flat = np.ascontiguousarray(w).reshape(m, c * s)
    value, gradient = np.zeros(s), np.zeros((m, c * s))
    offset = np.broadcast_to(target.offset, (len(target.y), c))[:, :, np.newaxis]
    for first in range(0, len(target.y), ROWS):
        rows = slice(first, first + ROWS)
        phi, y = target.features[rows], target.y[rows]
        omega, std = target.weights[rows], target.std[rows]
        f = (phi @ flat).reshape(-1, c, s) + offset[rows]
        likelihood = target.likelihood.at_some(rows)
        slope = np.zeros_like(f)
        for node, mass in zip(target.nodes, target.node_weights, strict=True):
            at = f + (std * node)[:, :, np.newaxis]
            value += mass * (omega @ likelihood.row_nll(y, at))
            slope += mass * likelihood.row_gradient(y, at)
        slope *= omega[:, np.newaxis, np.newaxis]
        gradient += phi.T @ slope.reshape(-1, c * s)
    return temperature * value, temperature * gradient.reshape(m, c, s)


# ---- Convergence of chains -----------------------------------------------------------


def split_r_hat(totals: Array, squares: Array, length: int) -> Array:
    """Potential scale reduction, every chain split in two.

    Parameters
    ----------
    totals, squares : ndarray of shape (2, p, s)
        Sums of the states and of their squares over the first and the second half
        of s chains.
    length : int
        Number of steps of each half, at least 2.

    Returns
    -------
    r_hat : ndarray of shape (p,)
        ``sqrt(((n-1)/n W + B/n) / W)`` of [1]_, with W the mean variance within the
        2 s half chains and B / n the variance of their means; infinity where no chain
        moves.

    References
    ----------
    .. [1] Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian Data
       Analysis", 3rd edition, section 11.4.
    """
    n = length
    means = totals / n
    # diverging chains overflow here, and get an infinite R-hat
    with np.errstate(all="ignore"):
        within = np.maximum(squares / n - means**2, 0.0) * n / (n - 1)
        W = within.mean(axis=(0, 2))
        half_chains = np.concatenate(list(means), axis=1)
        between = half_chains.var(axis=1, ddof=1)
        r_hat = np.sqrt((n - 1) / n + between / W)
    # the variance within stuck chains is rounding, relative to the size of the states
    stuck = 1e-12 * np.mean(squares, axis=(0, 2)) / n >= W
    return np.where(stuck | np.isnan(r_hat), np.inf, r_hat)


def between_runs(values: Array) -> tuple[Array, Array]:
    """R-hat and effective sample size of independent runs of the same sampler.

    Parameters
    ----------
    values : ndarray of shape (p, b, s)
        Equally likely particles of b runs, which may depend on each other within one.

    Returns
    -------
    r_hat, size : ndarray of shape (p,)
        ``sqrt(((s-1)/s W + V) / W)`` with W the mean variance within a run and V the
        variance of the means; and the number of independent particles whose mean would
        be as good as that of all runs together, ``b W / V``. With b runs V has a
        relative standard error of ``sqrt(2 / (b - 1))``.
    """
    _, b, s = values.shape
    means = values.mean(axis=2)
    within, spread = values.var(axis=2).mean(axis=1), means.var(axis=1, ddof=1)
    with np.errstate(all="ignore"):
        r_hat = np.sqrt((s - 1) / s + spread / within)
        size = b * within / spread
    return np.nan_to_num(r_hat, nan=np.inf), np.nan_to_num(size, nan=1.0)


def effective_sample_size(totals: Array, squares: Array, length: int) -> Array:
    """Effective number of independent states among all the states of all chains.

    The variance of a state divided by the variance of a chain's mean, times the number
    of chains: the chains are independent, so no autocorrelation has to be estimated.
    Arguments as in :func:`split_r_hat`; shape (p,); 1 for a single chain, of which
    there is nothing to compare.
    """
    s = totals.shape[2]
    if s < 2:
        return np.ones(totals.shape[1])
    count = 2 * length
    means = totals.sum(axis=0) / count
    mean = means.mean(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        variance = squares.sum(axis=0) / count - means**2 + (means - mean) ** 2
        spread = means.var(axis=1, ddof=1)
        size = s * variance.mean(axis=1) / spread
    return np.minimum(np.nan_to_num(size, nan=float(s), posinf=np.inf), s * count)
