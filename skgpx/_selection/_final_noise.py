"""Noise variance of a sparse model, once its basis is chosen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.series_evidence import ScaleProfile
from skgpx._selection._few_rows import FEWEST_ROWS
from skgpx._selection._learner import noise_only, with_noise
from skgpx._selection._search_record import (
    NOISE_AS_SEARCHED,
    NOISE_BY_BOUND,
    NOISE_BY_DENSITY,
)
from skgpx._selection._search_rows import ABUNDANT_ROWS, SOME_ROWS
from skgpx._selection._sparse_density import KeptOut
from skgpx._validation import Rows
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Largest share of the noise that the basis may leave out for the bound to find it.
_TIGHT = 0.02
# Smallest noise looked for, in units of what the bound takes for noise.
_LEAST = 0.02
# Rows that judge; fewer than the second number are no judges.
_JUDGES, _FEWEST = 1000, 200
# Rows with less prior variance outside the basis, in units of the largest, are among
# its inducing points.
_COINCIDES = 1e-8


class FinalNoise(NamedTuple):
    """Noise variance, and what the rows say of the kernel.

    Attributes
    ----------
    likelihood : Gaussian
    log_evidence : float
        Bound of all rows in nats; at the noise variance that maximises it, if that is
        not the one which rows kept out have chosen.
    by : str
        What chose the noise variance.
    rows : int
        Rows that were kept out for that.
    """

    likelihood: Gaussian
    log_evidence: float
    by: str = NOISE_AS_SEARCHED
    rows: int = 0


class JudgedNoise(NamedTuple):
    """Noise variance under which rows kept out are most probable, and their number."""

    variance: float
    rows: int


def final_noise(
    basis: Any,
    rows: Rows,
    statistics: WeightStatistics,
    likelihood: Gaussian,
    rng: np.random.Generator,
) -> FinalNoise:
    """Fit a free noise variance to all rows, given the basis.

    The learner saw 1500 rows at most; what it found holds for these if the basis leaves
    out little. The bound of more of them finds the noise where
    the basis leaves out no more than a fiftieth of it, ``Σ var g / n``. Where more is
    left out the bound counts it as noise, and predictions count it again as ``var g``;
    the noise of the learner, found where rows are far apart, may be far too small for
    rows that are near one another. Rows kept out then decide, if there are 4500.

    Parameters
    ----------
    basis : Nystroem
    rows : Rows
    statistics : WeightStatistics
        Of the basis at these rows.
    likelihood : Gaussian
        As learned.
    rng : numpy.random.Generator
        Chooses the rows that judge.

    Returns
    -------
    found : FinalNoise

    Notes
    -----
    O(m^3): one tridiagonal form and, where rows judge, about ten factorisations.
    """
    profile = ScaleProfile.of(statistics)
    learned = float(likelihood.variance(0.0))
    as_learned = profile.value_and_gradient(learned, 1.0)[0]
    if not len(likelihood.theta) or len(rows.y) < FEWEST_ROWS:
        return FinalNoise(likelihood, as_learned, by="")
    bounded = with_noise(likelihood, profile.best_noise_variance())
    best = float(bounded.variance(0.0))
    evidence = profile.value_and_gradient(best, 1.0)[0]
    if len(rows.y) <= SOME_ROWS:
        lost = as_learned < noise_only(rows, likelihood)
        loose = statistics.residual > _TIGHT * best * statistics.weight
        if lost or loose:
            return FinalNoise(bounded, evidence, NOISE_BY_BOUND)
        return FinalNoise(likelihood, as_learned)
    judged = judged_noise(basis, rows, statistics, learned, best, rng)
    if judged is None:
        return FinalNoise(bounded, evidence, NOISE_BY_BOUND)
    chosen = with_noise(likelihood, judged.variance)
    return FinalNoise(chosen, evidence, NOISE_BY_DENSITY, judged.rows)


def judged_noise(
    basis: Any,
    rows: Rows,
    statistics: WeightStatistics,
    learned: float,
    best: float,
    rng: np.random.Generator,
) -> JudgedNoise | None:
    """Noise variance under which rows kept out are most probable.

    None where the basis leaves out little of the noise `best` of the bound, or rows are
    scarce.
    """
    tight = statistics.residual <= _TIGHT * best * statistics.weight
    if tight or len(rows.y) < ABUNDANT_ROWS:
        return None
    judges = _judges(basis, rows, rng)
    if len(judges.y) < _FEWEST:
        return None
    kept_out = KeptOut.of(basis, judges)
    seen = statistics.add(kept_out.statistics(), -1.0)
    low, high = min(0.5 * learned, _LEAST * best), 2.0 * max(learned, best)
    return JudgedNoise(kept_out.best_noise(seen, low, high)[0], len(judges.y))


def _judges(basis: Any, rows: Rows, rng: np.random.Generator) -> Rows:
    """Rows that are no inducing points, which predictions do not take to be known."""
    n = len(rows.y)
    order = np.argsort(rng.exponential(size=n) / rows.weights, kind="stable")
    # inducing points among them leave enough
    some = np.sort(order[: _JUDGES + basis.n_basis])
    X = rows.X[some]
    residual = basis.residual_variance(X, basis(X))
    apart = some[residual > _COINCIDES * np.max(basis.kernel.diag(X))]
    chosen = np.sort(rng.permutation(apart)[:_JUDGES])
    return rows.take(chosen)
