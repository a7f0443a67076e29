"""Choice of inducing points."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics.linalg import Entries, pivoted_cholesky
from skgpx._numerics.rows import distinct_rows
from skgpx.kernels import kernel_matrix, length_scales

Array = NDArray[np.float64]
Selector = Callable[[Array, Any, int, np.random.Generator], ArrayLike]
# A greedy selection from more distinct rows than this uses a random subset of them.
_MAX_CANDIDATES = 20_000
# Rows whose kernel matrix is decomposed for a determinantal point process, at most.
_MAX_DECOMPOSED = 3000


def select_inducing(
    inducing: str | ArrayLike | Selector,
    X: Array,
    kernel: Any,
    n_inducing: int,
    rng: np.random.Generator,
    weights: Array | None = None,
) -> Array:
    """Inducing points from the rows of X.

    The named strategies take the distinct rows of positive weight in lexicographic
    order, so for a given state of ``rng`` the result does not depend on the order of
    the rows, and a row that occurs twice counts as one of weight two.

    Parameters
    ----------
    inducing : str, array-like or callable
        ``"greedy"`` takes the row with the largest prior variance given the values
        at the rows taken before (the pivots of a Cholesky factorisation), and stops
        early when no more than 1e-10 of the prior variance is left anywhere.
        ``"k-means++"`` seeds spread over the inputs in units of the kernel's
        lengthscales. ``"m-dpp"`` is a draw from the determinantal point process of
        fixed size [1]_: rows Z with probabilities proportional to ``det k(Z, Z)``, so
        that rows that are alike repel one another. ``"random"`` rows have probabilities
        proportional to their weights, without repetition. An array of shape (m, d) is
        taken as it is. A callable gets ``(X, kernel, n_inducing, rng)`` and returns
        such an array.
    X : ndarray of shape (n, d)
        Candidate rows.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance, with its lengthscales fitted.
    n_inducing : int
        Largest number of inducing points, positive; ignored for an array.
    rng : numpy.random.Generator
        Source of randomness.
    weights : ndarray of shape (n,), optional
        Row weights; rows of weight zero are never chosen.

    Returns
    -------
    inducing_points : ndarray of shape (m, d)
        With ``m <= n_inducing`` for the named strategies.

    Raises
    ------
    ValueError
        If the strategy is unknown, or an array or the result of a callable is not a
        finite array of shape (m, d).

    Notes
    -----
    Greedy: O(n m^2) time in matrix products and O(n m) memory for ``m`` points. From
    more than 20 000 distinct rows they are chosen from a uniform sample of 20 000,
    drawn with ``rng``.

    The determinantal process is exact from the eigenvectors of the kernel matrix, O(n^3
    + n m^2) time and O(n^2) memory, for up to 3000 distinct rows; of more, a uniform
    sample of 3000 is drawn first. Fewer points are returned where the rank of the
    matrix is less than `n_inducing`.

    References
    ----------
    .. [1] Kulesza and Taskar, "k-DPPs: Fixed-size determinantal point processes", ICML
       2011.
    """
    if isinstance(inducing, str):
        if inducing not in _STRATEGIES:
            raise ValueError(
                f"inducing must be one of {sorted(_STRATEGIES)}, an array of shape (m, "
                f"{X.shape[1]}) or a callable; got {inducing!r}."
            )
        rows, mass = _distinct_rows(X, weights)
        return rows[_STRATEGIES[inducing](rows, mass, kernel, n_inducing, rng)]
    if callable(inducing):
        inducing = inducing(X, kernel, n_inducing, rng)
    return _checked(inducing, X.shape[1])


def select_until(
    X: Array,
    kernel: Any,
    n_largest: int,
    mean_residual: float,
    rng: np.random.Generator,
    weights: Array | None = None,
    residual_per_point: float = np.inf,
) -> Array | None:
    """Greedy inducing points until little prior variance is left at the rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_largest : int
        Largest number of points.
    mean_residual : float
        Prior variance at the rows, on average, that may be left.
    rng : numpy.random.Generator
        Draws the candidates where there are more than 4000 rows.
    weights : ndarray of shape (n,), optional
    residual_per_point : float, optional
        Prior variance at the rows, on average, that m points may leave, divided by m;
        infinite if not given.

    Returns
    -------
    inducing_points : ndarray of shape (m, d) or None
        None where `n_largest` points leave more.

    Notes
    -----
    At most ``max(4000, 2 * n_largest)`` distinct rows compete: as many as pay off.
    """
    rows, _ = _distinct_rows(X, weights)
    competing = max(4000, 2 * n_largest)
    if len(rows) > competing:
        rows = rows[np.sort(rng.choice(len(rows), competing, replace=False))]
    entries, diagonal = _entries(kernel, rows)
    size = min(n_largest, len(rows))
    trace = mean_residual * len(rows)
    per_point = residual_per_point * len(rows)
    found = pivoted_cholesky(
        entries,
        diagonal,
        size,
        trace=trace,
        trace_per_pivot=per_point,
    )
    # all rows are points, or nothing more than rounding is left
    done = len(found.pivots) == len(rows) or len(found.pivots) < size
    little = found.residual.sum() <= min(trace, size * per_point)
    return rows[found.pivots] if done or little else None


def _checked(points: ArrayLike, d: int) -> Array:
    """Inducing points given by the user, as a float64 copy."""
    points = np.array(points, dtype=np.float64, order="C")
    if points.ndim != 2 or points.shape[1] != d or points.shape[0] == 0:
        raise ValueError(
            f"Inducing points must have shape (m, {d}) with m > 0; got an array of "
            f"shape {points.shape}."
        )
    if not np.all(np.isfinite(points)):
        raise ValueError("Inducing points must be finite; got NaN or infinity.")
    return points


def _distinct_rows(X: Array, weights: Array | None) -> tuple[Array, Array]:
    """Distinct rows of positive weight in lexicographic order, and their weights."""
    mass = np.ones(len(X)) if weights is None else weights
    positions, totals = distinct_rows(X, mass)
    return X[positions] + 0.0, totals  # + 0.0: no negative zeros


def _greedy(
    rows: Array,
    mass: Array,
    kernel: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Pivots of the kernel matrix; ties go to the first row."""
    del mass
    candidates = _sampled(len(rows), _MAX_CANDIDATES, rng)
    entries, diagonal = _entries(kernel, rows[candidates])
    return candidates[pivoted_cholesky(entries, diagonal, n_inducing).pivots]


def _entries(kernel: Any, X: Array) -> tuple[Entries, Array]:
    """Evaluation of parts of ``k(X, X)``, and its diagonal."""
    return lambda i, j: kernel_matrix(kernel, X[i], X[j]), kernel.diag(X)


def _sampled(n: int, n_largest: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """All of n places, or a sorted uniform sample of them."""
    places = np.arange(n)
    if n > n_largest:
        places = np.sort(rng.choice(places, n_largest, replace=False))
    return places


def _determinantal(
    rows: Array,
    mass: Array,
    kernel: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Draw from the determinantal point process of m rows, by its eigenvectors.

    1. Draw m eigenvectors with probability ∝ the product of their eigenvalues.
    2. Draw rows one by one with probability ∝ the squared length of their coordinates
       in these that the rows before leave unexplained.
    """
    del mass
    candidates = _sampled(len(rows), _MAX_DECOMPOSED, rng)
    if n_inducing >= len(candidates):
        return candidates
    K = kernel_matrix(kernel, rows[candidates], rows[candidates])
    eigenvalues, eigenvectors = np.linalg.eigh(K)
    is_positive = eigenvalues > len(K) * np.finfo(float).eps * eigenvalues[-1]
    eigenvalues = eigenvalues[is_positive]
    size = min(n_inducing, len(eigenvalues))
    members = _determinantal_eigenvectors(eigenvalues, size, rng)
    V = eigenvectors[:, is_positive][:, members]
    # rows of a Cholesky factor of V Vᵀ, whose pivots are drawn
    explained = np.zeros((len(V), size))
    left = np.sum(V**2, axis=1)
    pivots = np.empty(size, np.intp)
    for j in range(size):
        i = rng.choice(len(left), p=left / left.sum())
        pivots[j] = i
        covariance = V @ V[i] - explained[:, :j] @ explained[i, :j]
        explained[:, j] = covariance / np.sqrt(left[i])
        left = np.maximum(left - explained[:, j] ** 2, 0.0)
        left[i] = 0.0
    return candidates[pivots]


def _determinantal_eigenvectors(
    eigenvalues: Array,
    m: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Places of m of N eigenvalues, drawn with probability ∝ their product.

    With ``e_l(λ_1..λ_n)`` the elementary symmetric polynomials, in logarithms::

        e_l(λ_1..λ_n) = e_l(λ_1..λ_n-1) + λ_n e_l-1(λ_1..λ_n-1)

    From the last one on, λ_n is among the l that are left with the probability of the
    second term.
    """
    log_values = np.log(eigenvalues)
    N = len(log_values)
    log_e = np.full((N + 1, m + 1), -np.inf)
    log_e[:, 0] = 0.0
    for n in range(1, N + 1):
        with_last = log_values[n - 1] + log_e[n - 1, :-1]
        log_e[n, 1:] = np.logaddexp(log_e[n - 1, 1:], with_last)
    places = np.empty(m, np.intp)
    n_left = m
    for n in range(N, 0, -1):
        if not n_left:
            break
        log_with_last = log_values[n - 1] + log_e[n - 1, n_left - 1]
        if np.log(rng.random()) < log_with_last - log_e[n, n_left]:
            n_left -= 1
            places[n_left] = n - 1
    return places


def _k_means_plus_plus(
    rows: Array,
    mass: Array,
    kernel: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Seeds of k-means in the metric of the kernel."""
    if n_inducing >= rows.shape[0]:
        return np.arange(rows.shape[0])
    scaled = (rows - rows.mean(axis=0)) / length_scales(kernel, rows.shape[1])
    seed = int(rng.integers(2**31 - 1))
    # imported here: it would add a seventh to the time of importing the package
    clustering = importlib.import_module("sklearn.cluster")
    _, chosen = clustering.kmeans_plusplus(
        scaled,
        n_inducing,
        sample_weight=mass,
        random_state=seed,
    )
    return np.unique(chosen)


def _random(
    rows: Array,
    mass: Array,
    kernel: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Distinct rows with probabilities proportional to their weights."""
    del kernel
    size = min(n_inducing, rows.shape[0])
    return rng.choice(rows.shape[0], size, replace=False, p=mass / mass.sum())


_STRATEGIES = {
    "greedy": _greedy,
    "k-means++": _k_means_plus_plus,
    "m-dpp": _determinantal,
    "random": _random,
}
