"""Langevin dynamics of the weights: targets, schemes, and steps of a block of chains.

The chains move in coordinates z, with weights ``w = centre + root z``. The target is::

    U(z) = β Σ_i ω_i E_ξ nll(y_i, f_i + std_i ξ) + ½‖w‖²,    f = offset + Φw

With ``std = 0`` this is the potential V∞ of projected Langevin sampling. A scheme is
either a step, with or without a Metropolis test::

    z' = z - drift ∇U(z) + diffusion ξ,   ξ ~ N(0, I)

or a trajectory of several leaps with one test at its end [1]_. A leap is a kick by the
gradient of ``U - ½‖z‖²`` and an exact rotation of position and momentum. Every
trajectory is accepted if U is ½‖z‖²; otherwise a trajectory goes farther than the same
number of single steps, which are a random walk. One step size suits all directions if
the root is that of the inverse Hessian.

Schemes with a test truncate ``∇U(z) - z`` to the length ``2 √dim``: in the tails of a
likelihood it can be hundreds of times longer, and a chain that starts there would
overshoot, be rejected, and never move. The test accounts for the truncation exactly.
Schemes that are not `centred` truncate ∇U itself, independently of the origin [2]_.

The time loop is compiled (:mod:`skgpx._numerics.langevin_loop`) for likelihoods with a
compiled formula; the other likelihoods take the same steps in NumPy. Chains, momenta
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

from skgpx._numerics import langevin_loop
from skgpx._numerics.langevin_loop import ROWS, Density, RandomNumbers, Scheme
from skgpx._numerics.pointwise import GAUSSIAN, formula_of
from skgpx._types import Array, Generator

# Code of a target that is quadratic in z, with matrix `features` and linear term `y`.
QUADRATIC = -1
# Code of a target with a likelihood that is written in NumPy only.
NUMPY = -2


class Target(NamedTuple):
    """Target of the chains: plain arrays, which can be compiled and pickled.

    Attributes
    ----------
    likelihood : Likelihood or None
        Its ``row_nll`` and ``row_gradient`` are called if the code is `NUMPY`; None
        for `QUADRATIC`.
    code : int
        Formula of :mod:`skgpx._numerics.pointwise`, `QUADRATIC` or `NUMPY`.
    parameters : ndarray of shape (p,)
        Parameters of the compiled formula.
    features, y, weights : ndarray of shape (n, m), (n,), (n,)
        Basis at the data, targets, row weights ω.
    std : ndarray of shape (n, c)
        Residual standard deviation of each latent output.
    nodes, node_weights : ndarray of shape (q, c), (q,)
        Quadrature for ξ ~ N(0, I).
    centre, root : ndarray of shape (g, p), (g, p, p)
        Coordinates, in g groups of p weights: g = 1 couples all outputs, g = c none.
    n_outputs : int
        Latent outputs c; ``g * p = c * m``.
    offset : ndarray of shape (1 or n, 1 or c)
        Fixed part of the latent values, such as their constant mean.
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

    ``z' = ρz - (1 - ρ)(∇U - z) + √(1 - ρ²) ξ``, ρ the correlation of z and z'.
    """
    return Scheme(
        drift=1.0 - correlation,
        diffusion=float(np.sqrt(1.0 - correlation**2)),
        metropolis=True,
    )


def euler_maruyama(step_size: float, metropolis: bool) -> Scheme:
    """``z' = z - η∇U(z) + √(2η) ξ``: MALA with the test, ULA without it."""
    return Scheme(
        drift=step_size,
        diffusion=float(np.sqrt(2.0 * step_size)),
        metropolis=metropolis,
    )


def without_centre(step_size: float) -> Scheme:
    """MALA with truncation of ∇U itself: MALTA of Roberts and Tweedie."""
    mala = euler_maruyama(step_size, metropolis=True)
    return mala._replace(centred=False)


def trajectory(angle: float, n_leaps: int) -> Scheme:
    """Leaps of about this angle with one test at the end; exact where ``U = ½‖z‖²``."""
    return Scheme(
        drift=angle,
        diffusion=0.0,
        metropolis=True,
        n_leaps=n_leaps,
    )


def halve_step(scheme: Scheme) -> Scheme:
    """Scheme of the same kind with half the drift."""
    drift = 0.5 * scheme.drift
    if scheme.n_leaps > 0:
        return scheme._replace(drift=drift)
    # diffusion² is 2η for Euler-Maruyama, 1 - ρ² = η (2 - η) for Ornstein-Uhlenbeck:
    # a threshold half way tells them apart
    is_euler = scheme.diffusion**2 > scheme.drift * (2.0 - 0.5 * scheme.drift)
    if is_euler:
        square = 2.0 * drift
    else:
        square = drift * (2.0 - drift)
    diffusion = float(np.sqrt(square))
    return scheme._replace(drift=drift, diffusion=diffusion)


class Chains(NamedTuple):
    """State of a block of chains.

    Attributes
    ----------
    z : ndarray of shape (g, p, s)
    energy : ndarray of shape (s,)
        ``U(z)``, up to a constant.
    gradient : ndarray of shape (g, p, s)
        ``∇U(z)``, truncated once the chains have taken a step with a test.
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

    ``gram = ΦᵀΦ/σ²`` (m, m) and ``moment = Φᵀy/σ²`` (m,): a step costs O(m^2) for any
    number of rows.
    """
    m = len(moment)
    no_values = np.ones(0)
    no_rows = np.ones((0, 1))
    return Target(
        likelihood=None,
        code=QUADRATIC,
        parameters=no_values,
        features=gram + np.eye(m),
        y=moment,
        weights=no_values,
        std=no_rows,
        nodes=no_rows,
        node_weights=no_values,
        centre=np.zeros((1, m)),
        root=np.eye(m)[np.newaxis],
        n_outputs=1,
    )


def in_coordinates(
    target: Target,
    centre: Array,
    root: Array,
) -> Target:
    """Target in the coordinates ``w = centre + root z``, from a target in w itself."""
    if target.code == QUADRATIC:
        # ½wᵀAw - bᵀw has the matrix RᵀAR and the linear term Rᵀ(b - A centre) in z
        A = target.features
        b = target.y
        R = root[0]
        target = target._replace(
            features=np.ascontiguousarray(R.T @ A @ R),
            y=R.T @ (b - A @ centre[0]),
        )
    return target._replace(
        centre=np.ascontiguousarray(centre),
        root=np.ascontiguousarray(root),
    )


def weights_of(target: Target, z: Array) -> Array:
    """Weights ``centre + root z`` of chains z (g, p, s), shape (m, c, s)."""
    w = target.centre[:, :, np.newaxis] + target.root @ z
    return _by_output(target, w)


def _by_output(target: Target, w: Array) -> Array:
    """Weights in groups (g, p, s) as weights (m, c, s)."""
    by_output = w.reshape(target.n_outputs, -1, w.shape[2])
    return by_output.transpose(1, 0, 2)


def latent_values(target: Target, w: Array) -> Array:
    """Latent values ``offset + Φw`` of all rows at weights w (m, c), shape (n, c)."""
    return target.features @ w + target.offset


def start(
    target: Target,
    z: Array,
    temperature: float = 1.0,
) -> Chains:
    """Chains at the coordinates z (g, p, s)."""
    z = np.ascontiguousarray(z)
    chains = Chains(
        z=z.copy(),
        energy=np.empty(z.shape[2]),
        gradient=np.zeros_like(z),
    )
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
            # a proposal that stays at z
            no_numbers = RandomNumbers(
                noise=np.zeros((1, *z.shape)),
                angles=np.zeros(1),
                log_uniforms=np.zeros((1, z.shape[2])),
            )
            _run_compiled_steps(
                _density(target, temperature),
                euler_maruyama(0.0, metropolis=False),
                no_numbers,
                chains,
                _empty_trace(z.shape),
                n_steps=0,
                starts=True,
            )
    return chains


def advance(
    target: Target,
    chains: Chains,
    scheme: Scheme,
    n_steps: int,
    rng: Generator,
    temperature: float = 1.0,
) -> tuple[Chains, Trace]:
    """Move a copy of a block of chains.

    Parameters
    ----------
    target : Target
    chains : Chains
    scheme : Scheme
    n_steps : int
    rng : numpy.random.Generator
    temperature : float, default=1.0
        β, the factor of the log-likelihood.

    Returns
    -------
    chains : Chains
        State after the last step.
    trace : Trace
        Statistics of all steps.

    Notes
    -----
    O(n_steps (n m + m^2) c s) time; memory for the random numbers of a megabyte, and
    for one block of rows.
    """
    chains = Chains(
        z=chains.z.copy(),
        energy=chains.energy.copy(),
        gradient=chains.gradient.copy(),
    )
    shape = chains.z.shape
    trace = _empty_trace(shape)
    density = None
    if target.code != NUMPY:
        density = _density(target, temperature)
    # draw the random numbers of a megabyte of steps at a time
    stretch = max(1, 2**17 // max(1, chains.z.size))
    # overflowing proposals are rejected
    with np.errstate(all="ignore"):
        truncate_drift(scheme, chains.z, chains.gradient)
        for first in range(0, n_steps, stretch):
            count = min(stretch, n_steps - first)
            random = draw_random_numbers(scheme, shape, count, rng)
            if density is None:
                _run_numpy_steps(target, temperature, scheme, random, chains, trace)
            else:
                _run_compiled_steps(
                    density,
                    scheme,
                    random,
                    chains,
                    trace,
                    n_steps=count,
                    starts=False,
                )
    return chains, trace


def _empty_trace(shape: tuple[int, ...]) -> Trace:
    return Trace(
        accepted=np.zeros(shape[2]),
        total=np.zeros(shape),
        square=np.zeros(shape),
    )


def draw_random_numbers(
    scheme: Scheme,
    shape: tuple[int, ...],
    n_steps: int,
    rng: Generator,
) -> RandomNumbers:
    """Draw noise, angles and uniform numbers, one step after the other."""
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
    """Move chains in place; the loop takes matrices (g p, s)."""
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
    """Target in the form of the compiled loop.

    All arrays are marked read-only, like arrays that workers map into memory, so that
    the loop is compiled for one type only.
    """
    is_quadratic = target.code == QUADRATIC
    code = target.code
    if is_quadratic:
        # the loop needs an address, which it then does not call
        code = GAUSSIAN
    n = len(target.features)
    offset = np.broadcast_to(target.offset, (n, target.n_outputs))
    return Density(
        is_quadratic=is_quadratic,
        formula=formula_of(code),
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
    leaps = scheme.n_leaps > 0
    new_energy = np.empty_like(energy)
    new_gradient = np.empty_like(gradient)
    for step, noise in enumerate(random.noise):
        # a random angle, so that no direction returns to its start
        angle = scheme.drift * (0.6 + 0.6 * random.angles[step])
        momentum = noise.copy()

        # 1 the proposal z' = z - drift ∇U + diffusion ξ;
        #   or the momentum p = ξ with half a kick, p' = p - ½ angle (∇U - z)
        if leaps:
            new_z = z.copy()
            momentum -= 0.5 * angle * (gradient - z)
        else:
            new_z = z - scheme.drift * gradient + scheme.diffusion * noise
        for leap in range(1, scheme.cost + 1):
            # 2 rotate (z', p): the exact flow of ½‖z‖² + ½‖p‖²
            if leaps:
                before = new_z
                new_z = np.cos(angle) * before + np.sin(angle) * momentum
                momentum = np.cos(angle) * momentum - np.sin(angle) * before

            # 3 and 4 U and ∇U at z', and its truncation
            _potential_and_gradient(
                target,
                temperature,
                new_z,
                new_energy,
                new_gradient,
            )
            truncate_drift(scheme, new_z, new_gradient)

            # 5 a kick p' = p - angle (∇U - z), half of it after the last leap
            if leaps:
                kick = angle
                if leap == scheme.n_leaps:
                    kick = 0.5 * angle
                momentum -= kick * (new_gradient - new_z)

        # 6 the Metropolis test, U(z) - U(z') + log q(z | z') - log q(z' | z);
        #   for a trajectory the last terms are the loss of kinetic energy
        accepts = np.ones(len(energy), dtype=bool)
        if scheme.metropolis:
            reverse = momentum
            if not leaps:
                # ξ of the step from z' back to z
                reverse = (z - new_z + scheme.drift * new_gradient) / scheme.diffusion
            log_q_ratio = 0.5 * (_squares(noise) - _squares(reverse))
            log_ratio = energy - new_energy + log_q_ratio
            # comparisons with NaN are false: a proposal of energy NaN is rejected
            accepts = random.log_uniforms[step] <= log_ratio

        # 7 move the accepted chains, and add the states to the sums
        np.copyto(z, new_z, where=accepts)
        np.copyto(energy, new_energy, where=accepts)
        np.copyto(gradient, new_gradient, where=accepts)
        trace.accepted[:] += accepts
        trace.total[:] += z
        trace.square[:] += z * z


def truncate_drift(
    scheme: Scheme,
    z: Array,
    gradient: Array,
) -> None:
    """Truncate ``∇U - z`` of each chain to the length ``2 √dim``, in place.

    Schemes that are not `centred` truncate ∇U itself. Schemes without a Metropolis
    test, which accounts for the truncation, truncate nothing.
    """
    if not scheme.metropolis:
        return
    origin = z if scheme.centred else np.zeros_like(z)
    remainder = gradient - origin
    squares = _squares(remainder)
    longest = 4.0 * (z.size // z.shape[2])
    is_long = squares > longest
    factor = np.sqrt(longest / squares[is_long])
    gradient[:, :, is_long] = origin[:, :, is_long] + factor * remainder[:, :, is_long]


def _squares(values: Array) -> Array:
    """Sum of squares of each chain, (s,)."""
    flat = values.reshape(-1, values.shape[2])
    return np.einsum("is,is->s", flat, flat)


def _potential_and_gradient(
    target: Target,
    temperature: float,
    z: Array,
    energy: Array,
    gradient: Array,
) -> None:
    """Write U(z) and ∇U(z) of a block of chains, by the likelihood's row functions."""
    w = target.centre[:, :, np.newaxis] + target.root @ z
    value, slope = rows_value_and_gradient(target, _by_output(target, w), temperature)
    energy[:] = value + 0.5 * np.einsum("gps,gps->s", w, w)
    # ∇U = rootᵀ (w + the gradient of the data term)
    by_group = slope.transpose(1, 0, 2).reshape(w.shape)
    pull = w + by_group
    np.matmul(target.root.transpose(0, 2, 1), pull, out=gradient)


def rows_value_and_gradient(
    target: Target,
    w: Array,
    temperature: float = 1.0,
) -> tuple[Array, Array]:
    """Data term ``β Σ_i ω_i E_ξ nll`` at weights w (m, c, s), in NumPy.

    Returns
    -------
    value : ndarray of shape (s,)
    gradient : ndarray of shape (m, c, s)
        Derivative in w.
    """
    m, c, s = w.shape
    n = len(target.y)
    flat_w = np.ascontiguousarray(w).reshape(m, c * s)
    value = np.zeros(s)
    gradient = np.zeros((m, c * s))
    offset = np.broadcast_to(target.offset, (n, c))
    offset = offset[:, :, np.newaxis]
    for first in range(0, n, ROWS):
        rows = slice(first, first + ROWS)
        phi = target.features[rows]
        y = target.y[rows]
        omega = target.weights[rows]
        std = target.std[rows]
        likelihood = target.likelihood.at_some(rows)
        # f = Φ w + offset
        phi_w = phi @ flat_w
        f = phi_w.reshape(-1, c, s) + offset[rows]
        slope = np.zeros_like(f)
        for node, mass in zip(target.nodes, target.node_weights, strict=True):
            shift = std * node
            f_at_node = f + shift[:, :, np.newaxis]
            nll = likelihood.row_nll(y, f_at_node)
            value += mass * (omega @ nll)
            slope += mass * likelihood.row_gradient(y, f_at_node)
        # Φᵀ diag(ω) ∇nll
        slope *= omega[:, np.newaxis, np.newaxis]
        gradient += phi.T @ slope.reshape(-1, c * s)
    gradient = gradient.reshape(m, c, s)
    return temperature * value, temperature * gradient


# ---- Convergence of chains -----------------------------------------------------------


def split_r_hat(
    totals: Array,
    squares: Array,
    length: int,
) -> Array:
    """Potential scale reduction of chains that are split in two.

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
        2 s half chains and B / n the variance of their means; infinity if no chain
        moves.

    References
    ----------
    .. [1] Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian Data
       Analysis", 3rd edition, section 11.4.
    """
    n = length
    means = totals / n
    # diverging chains overflow and get an infinite R-hat
    with np.errstate(all="ignore"):
        variances = np.maximum(squares / n - means**2, 0.0)
        within = variances * n / (n - 1)
        W = within.mean(axis=(0, 2))
        half_chains = np.concatenate(list(means), axis=1)
        between = half_chains.var(axis=1, ddof=1)
        variance_ratio = (n - 1) / n + between / W
        r_hat = np.sqrt(variance_ratio)
    # the variance within stuck chains is rounding error, relative to the mean square
    rounding = 1e-12 * np.mean(squares, axis=(0, 2)) / n
    is_stuck = rounding >= W
    return np.where(is_stuck | np.isnan(r_hat), np.inf, r_hat)


def between_runs(values: Array) -> tuple[Array, Array]:
    """R-hat and effective sample size of independent runs of the same sampler.

    Parameters
    ----------
    values : ndarray of shape (p, b, s)
        Equally likely particles of b runs; particles of one run may be dependent.

    Returns
    -------
    r_hat : ndarray of shape (p,)
        ``sqrt(((s-1)/s W + V) / W)``, with W the mean variance within a run and V the
        variance of the means of the runs.
    size : ndarray of shape (p,)
        Effective sample size ``b W / V``: the mean over this number of independent
        particles has the variance of the mean over all runs. With b runs V has a
        relative standard error of ``sqrt(2 / (b - 1))``.
    """
    _, b, s = values.shape
    # variances within and between the runs
    W = values.var(axis=2).mean(axis=1)
    means = values.mean(axis=2)
    V = means.var(axis=1, ddof=1)
    with np.errstate(all="ignore"):
        variance_ratio = (s - 1) / s + V / W
        r_hat = np.sqrt(variance_ratio)
        size = b * W / V
    r_hat = np.nan_to_num(r_hat, nan=np.inf)
    size = np.nan_to_num(size, nan=1.0)
    return r_hat, size


def effective_sample_size(
    totals: Array,
    squares: Array,
    length: int,
) -> Array:
    """Effective number of independent states among all states of all chains, (p,).

    It is the variance of a state, divided by the variance of the means of the chains,
    times the number of chains. The chains are independent, so no autocorrelation has to
    be estimated. Arguments as in :func:`split_r_hat`; 1 for a single chain, which
    cannot be compared with another.
    """
    s = totals.shape[2]
    if s < 2:
        return np.ones(totals.shape[1])
    count = 2 * length
    means = totals.sum(axis=0) / count
    mean = means.mean(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        mean_squares = squares.sum(axis=0) / count
        within = mean_squares - means**2
        variance = within + (means - mean) ** 2
        variance_of_means = means.var(axis=1, ddof=1)
        size = s * variance.mean(axis=1) / variance_of_means
    size = np.nan_to_num(size, nan=float(s), posinf=np.inf)
    return np.minimum(size, s * count)
