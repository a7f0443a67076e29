"""Stein variational gradient descent for any density, as a public function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skgpx._numerics.adam import cosine_decay
from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._numerics.svgd import svgd_step
from skgpx._shell.validation import (
    COUNT_OR_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
    check_points,
    validate_params,
)
from skgpx._types import Array, ArrayLike


@validate_params(
    {
        "score": [callable],
        "points": ["array-like"],
        "n_steps": [COUNT_OR_ZERO],
        "learning_rate": ["array-like", POSITIVE],
        "bandwidth": ["array-like", POSITIVE, None],
        "repulsion": [NOT_NEGATIVE],
        "antithetic": ["boolean"],
        "callback": [callable, None],
    },
    prefer_skip_nested_validation=True,
)
def svgd(
    score: Callable[[Array], ArrayLike],
    points: ArrayLike,
    *,
    n_steps: int = 500,
    learning_rate: ArrayLike = 0.1,
    bandwidth: ArrayLike | None = None,
    repulsion: float = 1.0,
    antithetic: bool = False,
    callback: Callable[[int, Array], object] | None = None,
) -> Array:
    """Move points by Stein variational gradient descent until they follow a density.

    Every point is drawn to where the log density rises around it and pushed away from
    the others, so that the points cover the density evenly [1]_. They are a
    deterministic function of where they start: no random numbers are drawn.

    Parameters
    ----------
    score : callable
        ``score(x) -> g``: gradient of the log density at points x of shape (n, d), of
        the same shape. The constant of the density is not needed. It is called once a
        step, with an array that it must not change.
    points : array-like of shape (n, d)
        Where the points start, such as a sample of a rough approximation. Left as they
        are.
    n_steps : int, default=500
        Number T of steps.
    learning_rate : float or array-like of shape (d,), default=0.1
        First step of Adam, in units of each coordinate; it decays to zero as a cosine.
        A tenth of the standard deviation of the density is a good size.
    bandwidth : float, array-like of shape (d,) or None, default=None
        Width of the kernel between points in each coordinate, in units of x. None takes
        ``sqrt(d * median)`` of the squared differences between all pairs, found again
        every five steps.
    repulsion : float, default=1.0
        Factor α of the force between points. At 1 the points follow the density; at 0
        they all climb to its modes.
    antithetic : bool, default=False
        Whether the mirror images ``-x`` of the points count as points too: for
        densities with ``p(x) = p(-x)``, of which n points then do the work of 2 n.
    callback : callable, optional
        ``callback(step, x)`` after each step, from 1 on, with a copy of the points.
        Where it returns True, the steps end.

    Returns
    -------
    moved : ndarray of shape (n, d)

    Raises
    ------
    ValueError
        If points are not finite or not of shape (n, d); if what `score` returns has
        another shape than the points, or values that are not finite; if a width or a
        rate is not positive and finite, one or one for each coordinate; if the square
        of a width or of the force is not a double, or the points leave their range.

    See Also
    --------
    SteinFourierFeatures : The spectral density of a kernel, moved by this force.
    SteinRFFRegressor : Frequencies moved by the evidence of data.

    Notes
    -----
    Each step moves the points along ::

        f_i = 1/n sum_j [k(x_i, x_j) score(x_j) + α * d k(x_i, x_j) / d x_j]
        k(x, z) = exp(-1/2 sum_c (x_c - z_c)² / h_c),   h = bandwidth²

    scaled by Adam. O(n² d) a step, compiled but for the score; memory O(n d). The force
    between points fades with the number of coordinates, and n points understate the
    variances of d coordinates where d is not small against n. A mode that no point
    starts near may stay empty, and shares of modes that are far apart stay those of the
    start.

    References
    ----------
    .. [1] Liu and Wang, "Stein variational gradient descent: a general purpose Bayesian
       inference algorithm", NeurIPS 2016, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import svgd
    >>> start = np.random.default_rng(0).normal(size=(50, 1))
    >>> moved = svgd(lambda x: (3.0 - x) / 4.0, start)  # N(3, 4)
    >>> moved.mean().round(1), moved.std().round(1)
    (np.float64(3.0), np.float64(2.0))
    """
    moved = np.array(check_points("points", points, (None, None)))
    n, d = moved.shape
    pace = _one_per_coordinate("learning_rate", learning_rate, d)
    widths = None
    squares = np.ones(d)
    if bandwidth is not None:
        widths = _one_per_coordinate("bandwidth", bandwidth, d)
        squares = _squared(widths)
    factors = np.full(d, float(d))
    paces = np.tile(pace, (n, 1))
    means = np.zeros((2, n, d))
    for step in range(n_steps):
        slopes = _checked_score(score(moved.copy()), moved)
        # steps after which medians are found again: they change slowly
        refresh = widths is None and step % 5 == 0
        rate = cosine_decay(step, n_steps, 1.0)
        with one_blas_thread():
            svgd_step(
                moved, slopes, squares, factors, refresh, float(repulsion), antithetic,
                paces, means, step, rate,
            )  # fmt: skip
        _check_step(step + 1, moved, means, slopes)
        if callback is not None:
            answer = callback(step + 1, moved.copy())
            if isinstance(answer, bool | np.bool_) and answer:
                break
    return moved


def _one_per_coordinate(name: str, value: ArrayLike, d: int) -> Array:
    """Positive numbers (d,), from one or d of them."""
    values = np.asarray(value, dtype=np.float64)
    has_shape = values.shape in ((), (1,), (d,))
    if not has_shape or not np.all((values > 0.0) & np.isfinite(values)):
        raise ValueError(
            f"{name} must be positive and finite, one number or one for each of the "
            f"{d} coordinates; got {value!r}."
        )
    return np.broadcast_to(values, d).astype(np.float64)


def _squared(widths: Array) -> Array:
    """Squares (d,) of widths, which must be doubles."""
    with np.errstate(over="ignore", under="ignore"):
        squares: Array = widths**2
    if not np.all((squares > 0.0) & np.isfinite(squares)):
        raise ValueError(
            "bandwidth must be between 1e-150 and 1e150, since its square enters; got "
            f"{widths}. Change the units of the points."
        )
    return squares


def _check_step(step: int, moved: Array, means: Array, slopes: Array) -> None:
    """Refuse a step that leaves the range of doubles.

    Squares of the force are among the running means of Adam: where they overflow, the
    points would stay where they are.
    """
    if not (np.isfinite(moved).all() and np.isfinite(means).all()):
        raise ValueError(
            f"Step {step} left the range of doubles. The values of score must be below "
            f"1e150, as their squares enter, and learning_rate, repulsion / bandwidth "
            f"and points of moderate size; got a largest value of score of "
            f"{np.abs(slopes).max():g}. Change the units of the points."
        )


def _checked_score(slopes: ArrayLike, points: Array) -> Array:
    """Slopes (n, d) at the points."""
    slopes = np.array(slopes, dtype=np.float64, order="C")
    if slopes.shape != points.shape:
        raise ValueError(
            "score must return the gradient of the log density at each point, of shape "
            f"{points.shape}; got shape {slopes.shape}."
        )
    wrong = ~np.isfinite(slopes).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"score returned NaN or infinite values at {wrong.sum()} of {len(points)} "
            f"points, such as {points[wrong][0]}. Start nearer to the bulk of the "
            "density, or take a smaller learning_rate."
        )
    return slopes
