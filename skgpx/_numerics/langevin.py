"""Langevin dynamics of the weights: targets, schemes, and steps of a block of chains.

The chains move in coordinates z, with weights ``w = centre + root z``. The target is::

    U(z) = β Σ_i ω_i E_ξ nll(y_i, f_i + std_i ξ) + ½‖w‖²,    f = offset + Φw

With ``std = 0`` this is the potential V∞ of projected Langevin sampling. Every scheme
is the same step with different numbers::

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

The time loop is compiled (:mod:`skgpx._numerics.langevin_loop`) for likelihoods that
have a compiled formula; the others take the same steps around NumPy. Chains, momenta
and gradients have shape (g, p, s), the chains last. Proposals that overflow are
rejected.

References
----------
.. [1] Shahbaba, Lan, Johnson and Neal, "Split Hamiltonian Monte Carlo", Statistics and
   Computing 2014.
.. [2] Roberts and Tweedie, "Exponential convergence of Langevin distributions and their
   discrete approximations", Bernoulli 1996: the truncated algorithm, MALTA.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin_loop
from skgpx._numerics.langevin_loop import ROWS, Density, RandomNumbers, Scheme
from skgpx._numerics.pointwise import GAUSSIAN, formula_of

Array = NDArray[np.float64]

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
        centre=np.ascontiguousarray(centre),
        root=np.ascontiguousarray(root),
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
    # as an unadjusted step of no length; the copy keeps z from being written
    chains = Chains(z.copy(), np.empty(z.shape[2]), np.zeros_like(z))
    with np.errstate(all="ignore"):
        if target.code == NUMPY:
            _potential_and_gradient(
                target,
                temperature,
                z,
                chains.energy,
                chains.gradient,
            )
        else:
            _run_compiled_steps(
                _density(target, temperature),
                euler_maruyama(0.0, metropolis=False),
                RandomNumbers(
                    noise=np.zeros((1, *z.shape)),
                    angles=np.zeros(1),
                    log_uniforms=np.zeros((1, z.shape[2])),
                ),
                chains,
                _no_statistics(z.shape),
                n_steps=0,
                starts=True,
            )
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
    moved = Chains(chains.z.copy(), chains.energy.copy(), chains.gradient.copy())
    trace = _no_statistics(moved.z.shape)
    density = None if target.code == NUMPY else _density(target, temperature)
    # random numbers of as many steps at a time as a megabyte holds
    stretch = max(1, 2**17 // max(1, moved.z.size))
    # a chain that overflows is rejected
    with np.errstate(all="ignore"):
        truncate_drift(scheme, moved.z, moved.gradient)
        for first in range(0, n_steps, stretch):
            count = min(stretch, n_steps - first)
            random = draw_random_numbers(scheme, moved.z.shape, count, rng)
            if density is None:
                _run_numpy_steps(target, temperature, scheme, random, moved, trace)
            else:
                _run_compiled_steps(
                    density,
                    scheme,
                    random,
                    moved,
                    trace,
                    n_steps=count,
                    starts=False,
                )
    return moved, trace


def _no_statistics(shape: tuple[int, ...]) -> Trace:
    return Trace(
        accepted=np.zeros(shape[2]),
        total=np.zeros(shape),
        square=np.zeros(shape),
    )


def draw_random_numbers(
    scheme: Scheme,
    shape: tuple[int, ...],
    n_steps: int,
    rng: np.random.Generator,
) -> RandomNumbers:
    """Noise, angles and uniform numbers of some steps, in the order of the steps."""
    random = RandomNumbers(
        noise=np.empty((n_steps, *shape)),
        angles=np.zeros(n_steps),
        log_uniforms=np.zeros((n_steps, shape[2])),
    )
    for step in range(n_steps):
        rng.standard_normal(out=random.noise[step])
        if scheme.n_leaps > 0:
            random.angles[step] = rng.random()
        if scheme.metropolis:
            rng.random(out=random.log_uniforms[step])
    if scheme.metropolis:
        np.log(random.log_uniforms, out=random.log_uniforms)
    return random


# ---- The compiled loop, and the same steps for a likelihood that is written in NumPy -


def _run_compiled_steps(
    density: Density,
    scheme: Scheme,
    random: RandomNumbers,
    chains: Chains,
    trace: Trace,
    *,
    n_steps: int,
    starts: bool,
) -> None:
    """Move chains in place, as matrices of all groups."""
    s = len(chains.energy)
    langevin_loop.run_steps(
        density,
        scheme,
        random,
        n_steps,
        starts,
        chains.z.reshape(-1, s),
        chains.energy,
        chains.gradient.reshape(-1, s),
        trace.accepted,
        trace.total.reshape(-1, s),
        trace.square.reshape(-1, s),
    )


def _density(target: Target, temperature: float) -> Density:
    """The target as the compiled loop takes it.

    All arrays are marked as read only, as those are that workers map into memory: the
    loop is compiled for one of the two.
    """
    is_quadratic = target.code == QUADRATIC
    n = len(target.features)
    offset = np.broadcast_to(target.offset, (n, target.n_outputs))
    return Density(
        is_quadratic=is_quadratic,
        formula=formula_of(GAUSSIAN if is_quadratic else target.code),
        parameters=_read_only(target.parameters),
        features=_read_only(target.features),
        y=_read_only(target.y.reshape(-1)),
        weights=_read_only(target.weights),
        offset=_read_only(offset),
        std=_read_only(target.std),
        nodes=_read_only(target.nodes),
        node_weights=_read_only(target.node_weights),
        centre=_read_only(target.centre),
        root=_read_only(target.root),
        n_outputs=target.n_outputs,
        temperature=float(temperature),
    )


def _read_only(values: Array) -> Array:
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def _run_numpy_steps(
    target: Target,
    temperature: float,
    scheme: Scheme,
    random: RandomNumbers,
    chains: Chains,
    trace: Trace,
) -> None:
    """:func:`~skgpx._numerics.langevin_loop.run_steps` around a likelihood in NumPy."""
    z, energy, gradient = chains
    new_energy = np.empty_like(energy)
    new_gradient = np.empty_like(gradient)
    for step, noise in enumerate(random.noise):
        momentum = noise.copy()
        angle = scheme.drift * (0.6 + 0.6 * random.angles[step])
        # 1 a proposal, or the first half kick of a trajectory
        if scheme.n_leaps == 0:
            new_z = z - scheme.drift * gradient + scheme.diffusion * noise
        else:
            new_z = z.copy()
            momentum -= 0.5 * angle * (gradient - z)
        for leap in range(1, scheme.cost + 1):
            # 2 the exact flow of ½‖z‖² + ½‖p‖²
            if scheme.n_leaps > 0:
                new_z, momentum = (
                    np.cos(angle) * new_z + np.sin(angle) * momentum,
                    np.cos(angle) * momentum - np.sin(angle) * new_z,
                )
            # 3 and 4 U and ∇U, shortened
            _potential_and_gradient(
                target,
                temperature,
                new_z,
                new_energy,
                new_gradient,
            )
            truncate_drift(scheme, new_z, new_gradient)
            # 5 a kick, half of one at the end
            if scheme.n_leaps > 0:
                kick = 0.5 * angle if leap == scheme.n_leaps else angle
                momentum -= kick * (new_gradient - new_z)
        # 6 the Metropolis test
        moves = np.ones(len(energy), dtype=bool)
        if scheme.metropolis:
            end = momentum
            if scheme.n_leaps == 0:
                end = (z - new_z + scheme.drift * new_gradient) / scheme.diffusion
            gain = 0.5 * (_squares(noise) - _squares(end))
            # comparisons with NaN are false: a proposal of energy NaN is rejected
            moves = random.log_uniforms[step] <= energy - new_energy + gain
        # 7 move the chains that pass
        np.copyto(z, new_z, where=moves)
        np.copyto(energy, new_energy, where=moves)
        np.copyto(gradient, new_gradient, where=moves)
        trace.accepted[:] += moves
        trace.total[:] += z
        trace.square[:] += z * z


def truncate_drift(scheme: Scheme, z: Array, gradient: Array) -> None:
    """Shorten ``∇U - z`` of each chain to at most twice the root of its dimension.

    Or ∇U itself, where the coordinates have no centre that suits all chains. Without a
    Metropolis test, which accounts for it, nothing is shortened.
    """
    if not scheme.metropolis:
        return
    pull = gradient - z if scheme.centred else gradient
    squares = _squares(pull)
    longest = 4.0 * (z.size // z.shape[2])
    far = squares > longest
    if far.any():
        centre = z[:, :, far] if scheme.centred else 0.0
        factor = np.sqrt(longest / squares[far])
        gradient[:, :, far] = centre + factor * pull[:, :, far]


def _squares(values: Array) -> Array:
    """Sum of squares of each chain, (s,)."""
    flat = values.reshape(-1, values.shape[2])
    squares: Array = np.einsum("is,is->s", flat, flat)
    return squares


def _potential_and_gradient(
    target: Target,
    temperature: float,
    z: Array,
    energy: Array,
    gradient: Array,
) -> None:
    """U(z) and ∇U(z) of a block of chains, by the likelihood's functions of rows."""
    c = target.n_outputs
    w = target.centre[:, :, np.newaxis] + target.root @ z
    weights = w.reshape(c, -1, z.shape[2]).transpose(1, 0, 2)
    value, slope = rows_value_and_gradient(target, weights, temperature)
    energy[:] = value + 0.5 * np.einsum("gps,gps->s", w, w)
    pull = w + slope.transpose(1, 0, 2).reshape(w.shape)
    np.matmul(target.root.transpose(0, 2, 1), pull, out=gradient)


def rows_value_and_gradient(
    target: Target,
    w: Array,
    temperature: float = 1.0,
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
