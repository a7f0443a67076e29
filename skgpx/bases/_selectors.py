"""Choice of inducing points."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from skgpx._numerics.linalg import Entries, pivoted_cholesky
from skgpx._numerics.rows import distinct_rows
from skgpx._types import Array, ArrayLike, Generator, Index, Kernel, Selection
from skgpx.kernels import Functionals, kernel_matrix, scaled_inputs

Selector = Callable[[Array, Kernel, int, np.random.Generator], ArrayLike]
# A greedy selection from more distinct rows than this uses a random subset of them.
_MAX_CANDIDATES = 20_000
# Largest kernel matrix that a determinantal point process decomposes.
_MAX_DECOMPOSED = 3000


def select_inducing(
    inducing: str | ArrayLike | Selector,
    X: Array,
    kernel: Kernel,
    n_inducing: int,
    rng: Generator,
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
        rows, totals = _distinct_rows(X, weights)
        select = _STRATEGIES[inducing]
        return rows[select(rows, totals, kernel, n_inducing, rng)]
    if callable(inducing):
        inducing = inducing(X, kernel, n_inducing, rng)
    if isinstance(kernel, Functionals):
        # points, where f has values
        inducing = kernel.as_rows(np.atleast_2d(inducing))
    # inducing points of the user, as a float64 copy
    n_columns = X.shape[1]
    points = np.array(inducing, dtype=np.float64, order="C")
    if points.ndim != 2 or points.shape[1] != n_columns or len(points) == 0:
        raise ValueError(
            f"Inducing points must have shape (m, {n_columns}) with m > 0; got an "
            f"array of shape {points.shape}."
        )
    if not np.all(np.isfinite(points)):
        raise ValueError("Inducing points must be finite; got NaN or infinity.")
    return points


def select_until(
    X: Array,
    kernel: Kernel,
    n_largest: int,
    mean_residual: float,
    rng: Generator,
    weights: Array | None = None,
    residual_per_point: float = np.inf,
) -> Array | None:
    """Greedy inducing points until the prior variance left at the rows is small.

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
    At most ``max(4000, 2 * n_largest)`` distinct rows compete.
    """
    rows, _ = _distinct_rows(X, weights)
    rows = rows[_sampled(len(rows), max(4000, 2 * n_largest), rng)]
    entries, diagonal = _entries(kernel, rows)
    size = min(n_largest, len(rows))
    trace = mean_residual * len(rows)
    trace_per_pivot = residual_per_point * len(rows)
    # rounding limits what a tiny noise asks for
    tolerance = 1e-10
    prior_variance = float(np.max(diagonal, initial=0.0))
    if mean_residual < tolerance * prior_variance:
        tolerance = max(mean_residual / prior_variance, 1e-13)
    selection = pivoted_cholesky(
        entries,
        diagonal,
        size,
        tolerance=tolerance,
        trace=trace,
        trace_per_pivot=trace_per_pivot,
    )
    points = rows[selection.pivots]
    # all rows are points, or the residual is rounding error
    is_exhausted = len(points) == len(rows) or len(points) < size
    limit = min(trace, size * trace_per_pivot)
    if is_exhausted or selection.residual.sum() <= limit:
        return points
    return None


def _distinct_rows(X: Array, weights: Array | None) -> tuple[Array, Array]:
    """Distinct rows of positive weight in lexicographic order, and their weights."""
    if weights is None:
        weights = np.ones(len(X))
    positions, totals = distinct_rows(X, weights)
    # adding zero removes negative zeros
    return X[positions] + 0.0, totals


def _greedy(
    rows: Array,
    weights: Array,
    kernel: Kernel,
    n_inducing: int,
    rng: Generator,
) -> Index:
    """Pivots of the kernel matrix; ties go to the first row."""
    del weights
    candidates = _sampled(len(rows), _MAX_CANDIDATES, rng)
    entries, diagonal = _entries(kernel, rows[candidates])
    selection = pivoted_cholesky(entries, diagonal, n_inducing)
    return candidates[selection.pivots]


def _entries(kernel: Kernel, X: Array) -> tuple[Entries, Array]:
    """Evaluation of parts of ``k(X, X)``, and its diagonal."""

    def entries(rows: Selection, columns: Selection) -> Array:
        return kernel_matrix(kernel, X[rows], X[columns])

    return entries, kernel.diag(X)


def _sampled(n: int, n_largest: int, rng: Generator) -> Index:
    """All of n places, or a sorted uniform sample of them."""
    places = np.arange(n)
    if n > n_largest:
        places = np.sort(rng.choice(places, n_largest, replace=False))
    return places


def _determinantal(
    rows: Array,
    weights: Array,
    kernel: Kernel,
    n_inducing: int,
    rng: Generator,
) -> Index:
    """Draw from the determinantal point process of m rows, by its eigenvectors.

    1. Draw m eigenvectors with probability ∝ the product of their eigenvalues.
    2. Draw rows one by one with probability ∝ the squared length of their coordinates
       in these that the rows before leave unexplained.
    """
    del weights
    candidates = _sampled(len(rows), _MAX_DECOMPOSED, rng)
    if n_inducing >= len(candidates):
        return candidates
    candidate_rows = rows[candidates]
    K = kernel_matrix(kernel, candidate_rows, candidate_rows)
    eigenvalues, eigenvectors = np.linalg.eigh(K)
    rounding = len(K) * np.finfo(float).eps * eigenvalues[-1]
    is_positive = eigenvalues > rounding
    eigenvalues = eigenvalues[is_positive]
    size = min(n_inducing, len(eigenvalues))
    # 1. eigenvectors
    members = _determinantal_eigenvectors(eigenvalues, size, rng)
    V = eigenvectors[:, is_positive][:, members]
    # 2. rows of a Cholesky factor L of V Vᵀ, with random pivots
    L = np.zeros((len(V), size))
    residual = np.sum(V**2, axis=1)
    pivots = np.empty(size, np.intp)
    for j in range(size):
        probabilities = residual / residual.sum()
        i = rng.choice(len(residual), p=probabilities)
        pivots[j] = i
        covariance = V @ V[i] - L[:, :j] @ L[i, :j]
        column = covariance / np.sqrt(residual[i])
        L[:, j] = column
        residual = np.maximum(residual - column**2, 0.0)
        residual[i] = 0.0
    return candidates[pivots]


def _determinantal_eigenvectors(
    eigenvalues: Array,
    m: int,
    rng: Generator,
) -> Index:
    """Places of m of N eigenvalues, drawn with probability ∝ their product.

    With ``e_l(λ_1..λ_n)`` the elementary symmetric polynomials, in logarithms::

        e_l(λ_1..λ_n) = e_l(λ_1..λ_n-1) + λ_n e_l-1(λ_1..λ_n-1)

    From the last one on, λ_n is among the l members still to be drawn with the
    probability of the second term.
    """
    log_values = np.log(eigenvalues)
    N = len(log_values)
    log_e = np.full((N + 1, m + 1), -np.inf)
    log_e[:, 0] = 0.0
    for n in range(1, N + 1):
        with_last = log_values[n - 1] + log_e[n - 1, :-1]
        log_e[n, 1:] = np.logaddexp(log_e[n - 1, 1:], with_last)
    places = np.empty(m, np.intp)
    n_open = m
    for n in range(N, 0, -1):
        if n_open == 0:
            break
        log_with_last = log_values[n - 1] + log_e[n - 1, n_open - 1]
        log_probability = log_with_last - log_e[n, n_open]
        if np.log(rng.random()) < log_probability:
            n_open -= 1
            places[n_open] = n - 1
    return places


def _k_means_plus_plus(
    rows: Array,
    weights: Array,
    kernel: Kernel,
    n_inducing: int,
    rng: Generator,
) -> Index:
    """Seeds of k-means in the metric of the kernel."""
    n = len(rows)
    if n_inducing >= n:
        return np.arange(n)
    scaled = scaled_inputs(kernel, rows - rows.mean(axis=0))
    seed = int(rng.integers(2**31 - 1))
    # imported here: it would add a seventh to the time of importing the package
    clustering = importlib.import_module("sklearn.cluster")
    _, places = clustering.kmeans_plusplus(
        scaled,
        n_inducing,
        sample_weight=weights,
        random_state=seed,
    )
    return np.unique(places)


def _random(
    rows: Array,
    weights: Array,
    kernel: Kernel,
    n_inducing: int,
    rng: Generator,
) -> Index:
    """Distinct rows with probabilities proportional to their weights."""
    del kernel
    n = len(rows)
    size = min(n_inducing, n)
    return rng.choice(n, size, replace=False, p=weights / weights.sum())


_STRATEGIES = {
    "greedy": _greedy,
    "k-means++": _k_means_plus_plus,
    "m-dpp": _determinantal,
    "random": _random,
}
