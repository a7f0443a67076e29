"""Noise variance beside a sparse model, and the density of rows it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.regression import (
    WeightStatistics,
    precision_root,
    weight_statistics,
)
from skgpx._numerics.series_evidence import best_noise_variance
from skgpx._selection._evidence import normal_density, with_noise
from skgpx._validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Rows that a search by the exact evidence reads, and from which on some are held out.
SEARCHED_ROWS, ABUNDANT_ROWS = 1500, 4500
# Rows of a small model, and steps of the search for its noise.
_ROWS, _MAX_STEPS = 12_000, 12
# Largest share of the noise outside a basis at which the bound finds it; held-out rows,
# the fewest of them.
_TIGHT, _HELD_OUT, _FEWEST = 0.02, 1000, 200
# Rows with less prior variance outside the basis, in units of the largest, are among
# its inducing points.
_COINCIDES = 1e-8


def best_noise(
    basis: Any, seen: WeightStatistics, rows: Rows, low: float, high: float
) -> tuple[float, float]:
    """Noise variance under which held-out rows are most probable, and log density.

    ``N(φᵀw̄, |Rᵀφ|² + var g + σ²)`` with ``w ~ N(w̄, RRᵀ)``; O(m^3 + n m^2) a step.
    """
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    known = 1.0 if rows.known is None else rows.known

    def density(noise: float) -> float:
        L = precision_root(seen.gram, noise)
        half = solve_lower(L, features.T)
        mean = half.T @ solve_lower(L, seen.moment) / noise
        variance = np.einsum("ij,ij->j", half, half) + residual + noise * known
        return float(np.mean(normal_density(rows.y, mean, variance)))

    if low == high:
        return low, density(low)
    found = optimize.minimize_scalar(
        lambda log_noise: -density(float(np.exp(log_noise))),
        bounds=(np.log(low), np.log(high)),
        method="bounded",
        options={"xatol": 0.1, "maxiter": _MAX_STEPS},
    )
    return float(np.exp(found.x)), -float(found.fun)


def sparse_density(
    rows: Rows, other: Rows, kernel: Any, noise: tuple[float, float], n_points: int
) -> float:
    """Mean log predictive density of other rows under a sparse model, in nats.

    The model has `n_points` of at most 12 000 rows as its inducing points, both evenly
    spread over the order of the rows, and the best noise variance between the two
    given; O(12 000 * n_points^2).
    """

    def spread(n: int, size: int) -> Any:
        return np.unique(np.linspace(0, n - 1, min(n, size)).astype(np.intp))

    some = rows.take(spread(len(rows.y), _ROWS))
    try:
        basis = Nystroem.from_kernel(kernel, some.X[spread(len(some.y), n_points)])
        seen = _statistics(basis, some)
        return best_noise(basis, seen, other, *noise)[1]
    except np.linalg.LinAlgError:
        return -np.inf


def final_noise(
    basis: Any,
    rows: Rows,
    statistics: WeightStatistics,
    likelihood: Gaussian,
    rng: np.random.Generator,
) -> Gaussian:
    """Fit a free noise variance to all rows, given the basis.

    The bound of the evidence finds it where the basis leaves out no more than a
    fiftieth of it, ``Σ var g / n``. Where more is left out the bound counts that as
    noise, and predictions count it again as ``var g``: the density of held-out rows
    decides, if there are 4500 rows.

    Notes
    -----
    O(m^3): about a dozen factorisations, and ten more with held-out rows.
    """
    if not len(likelihood.theta):
        return likelihood
    learned = float(likelihood.variance(0.0))
    bounded = with_noise(likelihood, best_noise_variance(statistics, learned))
    best = float(bounded.variance(0.0))
    tight = statistics.residual <= _TIGHT * best * statistics.weight
    if tight and len(rows.y) <= SEARCHED_ROWS:
        return likelihood
    found = None if tight else judged_noise(basis, rows, statistics, learned, best, rng)
    return bounded if found is None else with_noise(likelihood, found)


def judged_noise(
    basis: Any,
    rows: Rows,
    statistics: WeightStatistics,
    learned: float,
    best: float,
    rng: np.random.Generator,
) -> float | None:
    """Noise variance under which held-out rows are most probable; None if few.

    Inducing points are no held-out rows: predictions take them to be known.
    """
    n = len(rows.y)
    if n < ABUNDANT_ROWS:
        return None
    order = np.argsort(rng.exponential(size=n) / rows.weights, kind="stable")
    some = rows.take(np.sort(order[: _HELD_OUT + basis.n_basis]))
    residual = basis.residual_variance(some.X, basis(some.X))
    apart = np.flatnonzero(residual > _COINCIDES * np.max(basis.kernel.diag(some.X)))
    held = some.take(np.sort(rng.permutation(apart)[:_HELD_OUT]))
    if len(held.y) < _FEWEST:
        return None
    seen = statistics.add(_statistics(basis, held), -1.0)
    low, high = min(0.5 * learned, _TIGHT * best), 2.0 * max(learned, best)
    return best_noise(basis, seen, held, low, high)[0]


def _statistics(basis: Any, rows: Rows) -> WeightStatistics:
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    return weight_statistics(features, rows.y, rows.precisions, residual)
