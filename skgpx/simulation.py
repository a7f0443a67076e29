"""Differential equations with a draw as drift: each path moves with its own function.

A draw of a Gaussian process is a function. A path of ``dx/dt = f(x)`` for an unknown f
is the solution for one draw of f, the same at every step. Many draws give the
distribution of the solution, in which the uncertainty about f accumulates along the
path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from skgpx._draws import FunctionDraws
from skgpx._shell.validation import check_count, check_points, generator
from skgpx._types import Array, ArrayLike, RandomState

__all__ = ["simulate_ode", "simulate_sde"]

Controls = Callable[[float], ArrayLike]


def simulate_ode(
    drift: FunctionDraws | Sequence[FunctionDraws],
    x0: ArrayLike,
    t: ArrayLike,
    *,
    controls: Controls | None = None,
    n_substeps: int = 1,
) -> Array:
    """Solve ``dx/dt = f_i(x)`` for each draw f_i of the drift.

    Parameters
    ----------
    drift : FunctionDraws, or a sequence of them
        s draws with one output for each of the d_state states; or d_state sets of s
        draws with one output each. Their inputs are the states, followed by the
        controls if there are any.
    x0 : array-like of shape (d_state,) or (s, d_state)
        Start of all paths, or of each.
    t : array-like of shape (n_times,)
        Times, increasing or decreasing; `x0` is the state at the first one.
    controls : callable or None, default=None
        Maps a time to controls of shape (k,), or (s, k) for each path.
    n_substeps : int, default=1
        Steps between two consecutive times.

    Returns
    -------
    paths : ndarray of shape (n_times, s, d_state)

    Raises
    ------
    ValueError
        If the shapes do not agree or a value is not finite.
    FloatingPointError
        If a path becomes infinite or NaN: the steps are too long.

    See Also
    --------
    simulate_sde : The same with process noise.

    Notes
    -----
    The classical Runge-Kutta method of fourth order with fixed steps: an error of
    O(step^4). Each step evaluates every draw at four points, at a cost of O(l + n) for
    l features and n data points.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import DecoupledSampler
    >>> from skgpx.simulation import simulate_ode
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, size=(40, 1))
    >>> dxdt = -X[:, 0] + 0.1 * rng.standard_normal(40)
    >>> draws = DecoupledSampler(random_state=0).fit(X, dxdt).sample_functions(20)
    >>> paths = simulate_ode(draws, [1.5], np.linspace(0.0, 2.0, 21))
    >>> paths.shape
    (21, 20, 1)
    >>> bool(abs(paths[-1].mean() - 1.5 * np.exp(-2.0)) < 0.1)
    True
    """
    field, shape = _field(drift, controls)

    def runge_kutta(x: Array, time: float, step: float) -> Array:
        k1 = field(x, time)
        k2 = field(x + 0.5 * step * k1, time + 0.5 * step)
        k3 = field(x + 0.5 * step * k2, time + 0.5 * step)
        k4 = field(x + step * k3, time + step)
        return x + step / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)

    return _paths(runge_kutta, x0, t, shape, n_substeps)


def simulate_sde(
    drift: FunctionDraws | Sequence[FunctionDraws],
    x0: ArrayLike,
    t: ArrayLike,
    diffusion: ArrayLike | Callable[[Array], ArrayLike],
    *,
    controls: Controls | None = None,
    n_substeps: int = 1,
    random_state: RandomState = None,
) -> Array:
    """Solve ``dx = f_i(x) dt + G dB`` for each draw f_i of the drift.

    Parameters
    ----------
    drift : FunctionDraws, or a sequence of them
        As in :func:`simulate_ode`.
    x0 : array-like of shape (d_state,) or (s, d_state)
        Start of all paths, or of each.
    t : array-like of shape (n_times,)
        Increasing times; `x0` is the state at the first one.
    diffusion : float, array-like of shape (d_state,) or (d_state, d_state), or callable
        G, in units of the state per square root of time: the same for all states,
        its diagonal, or the matrix. A callable maps the states (s, d_state) to
        diagonals of the same shape.
    controls : callable or None, default=None
        Maps a time to controls of shape (k,), or (s, k) for each path.
    n_substeps : int, default=1
        Steps between two consecutive times.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the Brownian motion, which is independent for each path.

    Returns
    -------
    paths : ndarray of shape (n_times, s, d_state)

    Raises
    ------
    ValueError
        If the shapes do not agree or a value is not finite.
    FloatingPointError
        If a path becomes infinite or NaN: the steps are too long.

    Notes
    -----
    The Euler-Maruyama method, in the sense of Itô: errors of O(step) in the
    distribution of the paths. Each step evaluates every draw once.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import DecoupledSampler
    >>> from skgpx.simulation import simulate_sde
    >>> X = np.linspace(-2.0, 2.0, 30)[:, np.newaxis]
    >>> dxdt = -X[:, 0] + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> draws = DecoupledSampler(random_state=0).fit(X, dxdt).sample_functions(50)
    >>> t = np.linspace(0.0, 1.0, 11)
    >>> simulate_sde(draws, [1.5], t, 0.2, n_substeps=5, random_state=0).shape
    (11, 50, 1)
    """
    field, shape = _field(drift, controls)
    times = check_points("t", t, (None,))
    if times[-1] < times[0]:
        raise ValueError("The times t of an SDE must increase; got decreasing ones.")
    scaled_noise = _diffusion(diffusion, shape)
    rng = generator(random_state)

    def euler_maruyama(x: Array, time: float, step: float) -> Array:
        # x + f(x) dt + G dB,  dB ~ N(0, dt)
        kick = np.sqrt(step) * scaled_noise(x, rng.standard_normal(x.shape))
        return x + step * field(x, time) + kick

    return _paths(euler_maruyama, x0, times, shape, n_substeps)


def _field(
    drift: FunctionDraws | Sequence[FunctionDraws],
    controls: Controls | None,
) -> tuple[Callable[[Array, float], Array], tuple[int, int]]:
    """Drift of s paths as one function.

    Returns
    -------
    field : callable
        Maps states (s, d_state) and a time to velocities (s, d_state).
    shape : tuple of int
        ``(s, d_state)``.

    Raises
    ------
    ValueError
        If the drift is neither one set of draws nor several sets of equal length.
    """
    sets = tuple(drift) if isinstance(drift, Sequence) else (drift,)
    if not sets or not all(isinstance(draws, FunctionDraws) for draws in sets):
        raise ValueError(
            "drift must be FunctionDraws or a sequence of them, such as "
            f"sample_functions returns; got {drift!r}."
        )
    lengths = [len(draws) for draws in sets]
    if len(set(lengths)) > 1:
        raise ValueError(f"All sets of draws must have the same length; got {lengths}.")
    n_paths = lengths[0]

    def field(x: Array, time: float) -> Array:
        if controls is not None:
            u = np.asarray(controls(time), dtype=np.float64)
            if u.ndim == 0:
                u = u[np.newaxis]
            x = np.column_stack((x, np.broadcast_to(u, (n_paths, u.shape[-1]))))
        return np.column_stack([draws.at(x).reshape(n_paths, -1) for draws in sets])

    return field, (n_paths, sum(draws.n_outputs for draws in sets))


def _diffusion(
    diffusion: ArrayLike | Callable[[Array], ArrayLike],
    shape: tuple[int, int],
) -> Callable[[Array, Array], Array]:
    """Map states and noise ξ of this shape to ``G(x) ξ``.

    Raises
    ------
    ValueError
        If the diffusion does not fit the states.
    """
    if callable(diffusion):

        def by_state(x: Array, noise: Array) -> Array:
            G = np.asarray(diffusion(x), dtype=np.float64)
            if G.shape != x.shape:
                raise ValueError(
                    f"diffusion must map states {x.shape} to an array of the same "
                    f"shape; got shape {G.shape}."
                )
            return G * noise

        return by_state
    d = shape[1]
    G = np.asarray(diffusion, dtype=np.float64)
    if G.shape not in ((), (d,), (d, d)) or not np.all(np.isfinite(G)):
        raise ValueError(
            f"diffusion must be a finite number, an array of shape ({d},) or "
            f"({d}, {d}), or a callable; got {diffusion!r}."
        )

    def constant(x: Array, noise: Array) -> Array:
        del x
        if G.ndim == 2:
            return noise @ G.T
        return G * noise

    return constant


def _paths(
    advance: Callable[[Array, float, float], Array],
    x0: ArrayLike,
    t: ArrayLike,
    shape: tuple[int, int],
    n_substeps: int,
) -> Array:
    """States at all times: ``advance(x, time, step)`` from one time to the next."""
    times = check_points("t", t, (None,))
    gaps = np.diff(times)
    if not (np.all(gaps > 0.0) or np.all(gaps < 0.0)):
        raise ValueError("The times t must increase or decrease strictly.")
    start = np.asarray(x0, dtype=np.float64)
    if start.shape not in (shape, shape[1:]):
        raise ValueError(
            f"x0 must have shape {shape[1:]} or {shape}, as the drift has {shape[0]} "
            f"draws of {shape[1]} outputs; got {start.shape}."
        )
    x = check_points("x0", np.broadcast_to(start, shape), shape)
    n_substeps = check_count(n_substeps, "n_substeps")
    paths = np.empty((len(times), *shape))
    paths[0] = x
    for i, step in enumerate(gaps / n_substeps):
        for k in range(n_substeps):
            x = advance(x, times[i] + k * step, step)
        if not np.all(np.isfinite(x)):
            raise FloatingPointError(
                f"A path became infinite or NaN before t = {times[i + 1]:g}: take "
                "shorter steps (larger n_substeps), or fit the drift with data where "
                "the paths go."
            )
        paths[i + 1] = x
    return paths
