"""Default kernel of likelihoods that are not Gaussian: one lengthscale or several.

The evidence is the sparse Laplace one. It always gains by more parameters, so one
lengthscale a column has to gain more than a price, or predict rows better that neither
has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import laplace
from skgpx._numerics.langevin import latent_values
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.smoothing import smoothed
from skgpx._selection._evidence import (
    Search,
    SparseEvidence,
    record_of,
    rough_start,
    row_target,
)
from skgpx._selection._growth import (
    climbed,
    priced,
    shorter_kernel,
    with_points,
)
from skgpx._selection._learner import (
    NOISE_PRICE,
    Candidate,
    Found,
    candidates,
    until_found,
)
from skgpx._selection._lengthscales import in_one_unit, narrowed
from skgpx._selection._search_rows import compared, drawn, sampled
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Rows, inducing points and iterations that screen; rows and iterations that polish;
# rows that judge.
_FEW_ROWS, _FEW_INDUCING, _FEW_ITER = 300, 50, 25
_ROWS, _MAX_ITER, _LAST_ITER = 2000, 40, 10
# Numbers of inducing points that polish: the larger within the budget, or the smaller.
_INDUCING = (250, 100)
_JUDGES = 1500
# Largest n m² of an evaluation of the evidence, times the square of the contrasts
# between classes: a tenth of a second.
_BUDGET = 1.5e8
# So many times the rows of the search make held-out density the judge.
_ABUNDANT = 3
# Factors of the lengthscales at which a search may start.
_START_FACTORS = (1.0, 0.25, 1.0 / 16.0)


class _Sample(NamedTuple):
    """Rows that screen, a part of those that polish, and rows that judge, if any."""

    few: Rows
    some: Rows
    judges: Rows | None

    @classmethod
    def of(
        cls,
        rows: Rows,
        most_rows: int,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> _Sample:
        """Draw the parts: first rows with probabilities proportional to weights."""
        n = len(rows.y)
        order = np.argsort(rng.exponential(size=n) / rows.weights, kind="stable")
        noisy = not likelihood.discrete
        few, some = (sampled(rows, order[:k], noisy) for k in (_FEW_ROWS, most_rows))
        if n < _ABUNDANT * _ROWS:
            return cls(few, some, None)
        return cls(few, some, drawn(rows, order[_ROWS : _ROWS + _JUDGES]))


def learn_sparse(
    rows: Rows,
    likelihood: Likelihood,
    kernel: Any,
    prior: Callable[[Any], Any],
    inducing: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> Found:
    """Default prior kernel and likelihood by the sparse Laplace evidence.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, not Gaussian.
    kernel : sklearn.gaussian_process.kernels.Kernel
        The default: amplitude times a shape with one lengthscale a column, at its
        start and with its bounds.
    prior : callable
        From this kernel to the prior kernel κ.
    inducing : str, array or callable
    n_inducing : int
        Number of points of the model that is to be fitted.
    rng : numpy.random.Generator

    Returns
    -------
    best : Found
        Evidence in nats, for all rows in proportion; the gain is that of the rows of
        the search.

    Notes
    -----
    Screened on 300 rows with 50 inducing points, polished on 2000 with up to 250. Where
    300 rows show nothing, those that polish screen as well. Points are then doubled
    while that gains, see `with_points`, and `n_inducing` of what is found their number.
    One lengthscale is so many standard deviations of each column; of several classes
    also, if the evidence prefers it, one in the unit of the columns, such as pixels.
    """
    planned = n_inducing
    most_rows, n_inducing = _affordable(likelihood, n_inducing)
    sample = _Sample.of(rows, most_rows, likelihood, rng)
    search = _Search(sample, likelihood, inducing, n_inducing, rng)
    tied, separate = candidates(prior(kernel), rows)
    shared = [tied]
    if tied is not separate and likelihood.n_outputs_ > 1:
        shared.append(candidates(prior(in_one_unit(kernel)), rows)[0])
    one = search.lengths(shared)
    finalists = [one]
    if tied is not separate:
        u = separate.coordinates_of(one.kernel)
        many = search.screen(separate, u, one.likelihood)
        finalists = search.not_beaten(one, many)
    polished = [search.polish(found, _MAX_ITER) for found in finalists]
    best = max(polished, key=search.score)
    again = search.polish(best, _LAST_ITER)
    best = again if again.evidence > best.evidence else best
    share = float(rows.weights.sum() / search.some.rows.weights.sum())
    record = record_of(search.some, likelihood, rows)
    if len(finalists) > 1:
        record = compared(record, sample.judges)
    best = best._replace(evidence=share * best.evidence, record=record)
    if likelihood.n_outputs_ > 1:
        return best
    shorter = shorter_kernel(rows, likelihood, kernel, best.kernel, rng)
    start = None
    if shorter is not None:
        around = prior(shorter)
        around = narrowed(around) if isinstance(around, GREKernel) else around
        u = tied.coordinates_of(around)
        start = Found(tied, u, likelihood, np.nan, np.nan)
    many = None if tied is separate else separate
    return with_points(best, start, many, rows, Search(rows, inducing, planned), rng)


def _start_of(candidate: Candidate) -> Array:
    """Coordinates of the kernel as it starts."""
    u: Array = (candidate.kernel.theta - candidate.offset)[: candidate.n_free]
    return u.copy()


def _affordable(likelihood: Likelihood, n_inducing: int) -> tuple[int, int]:
    """Numbers of rows and inducing points that polish.

    More than 100 points only for a model of more; with fewer the search may be lost.
    """
    square = max(likelihood.n_outputs_ - 1, 1) ** 2
    for most in _INDUCING:
        m = min(most, max(n_inducing, _INDUCING[1]))
        n = int(_BUDGET / (m**2 * square))
        if n >= _ROWS // 2:
            return min(n, _ROWS), m
    return max(n, _FEW_ROWS), m


class _Search:
    """Searches that share rows, inducing points and a random stream."""

    def __init__(
        self,
        sample: _Sample,
        likelihood: Likelihood,
        inducing: Any,
        n_inducing: int,
        rng: np.random.Generator,
    ):
        self.sample, self.likelihood, self.rng = sample, likelihood, rng
        between = max(likelihood.n_outputs_ - 1, 1)
        most = laplace.LARGEST_COUPLED // between
        few, some = (max(1, min(k, most)) for k in (_FEW_INDUCING, n_inducing))
        self.few = Search(sample.few, inducing, few)
        self.some = Search(sample.some, inducing, some)

    def lengths(self, shared: list[Candidate]) -> Found:
        """Screen from several lengthscales; with more rows where few show nothing."""
        found = self._lengths(shared)
        if found.gain > NOISE_PRICE or len(self.sample.some.y) == len(self.few.rows.y):
            return found
        self.few = self.some
        return self._lengths(shared)

    def _lengths(self, shared: list[Candidate]) -> Found:
        """Screen from the best of several lengthscales, and on while lost in noise."""
        d = self.sample.few.X.shape[1]
        starts = []
        for candidate in shared:
            u, free = _start_of(candidate), ~np.isnan(candidate.prior_mean)
            for factor in _START_FACTORS:
                start = np.where(free, np.log(2.0 * np.sqrt(d) * factor), u)
                starts.append((candidate, np.clip(start, *candidate.bounds.T)))
        values = [self._value(*start) for start in starts]
        return until_found(
            self.screen(*starts[position], self.likelihood)
            for position in np.argsort(values, kind="stable")[::-1]
        )

    def screen(self, candidate: Candidate, u: Array, likelihood: Likelihood) -> Found:
        """Search with few rows."""
        start = Found(candidate, u, likelihood, np.nan, np.nan)
        return climbed(self.few, start, _FEW_ITER, self.rng)

    def polish(self, found: Found, max_iter: int) -> Found:
        """Search on with more rows, inducing points selected anew."""
        return climbed(self.some, found, max_iter, self.rng)

    def not_beaten(self, one: Found, many: Found) -> list[Found]:
        """Which of the two can still win, once its evidence is that of more rows."""
        gap, price = many.evidence - one.evidence, many.evidence - priced(many)
        share = self.some.rows.weights.sum() / self.few.rows.weights.sum()
        if gap * share <= price:
            return [one]
        return [many] if gap > 2.0 * price else [one, many]

    def score(self, found: Found) -> float:
        """Held-out density in nats a row, or the evidence less the price."""
        if self.sample.judges is None:
            return priced(found)
        return held_out_density(found, self.some, self.sample.judges, self.rng)

    def _value(self, candidate: Candidate, u: Array) -> float:
        kernel = candidate.kernel_at(u)
        evidence = SparseEvidence.of_search(self.few, kernel, self.likelihood, self.rng)
        theta = np.concatenate((kernel.theta, self.likelihood.theta))
        return -evidence.negative(theta)[0]


def held_out_density(
    found: Found, search: Search, judges: Rows, rng: np.random.Generator
) -> float:
    """Mean log predictive density of rows under the Laplace law of others, in nats."""
    X, law = search.rows.X, found.likelihood
    Z = select_inducing(
        search.inducing, X, found.kernel, search.n_inducing, rng, search.rows.weights
    )
    basis = Nystroem.from_kernel(found.kernel, Z)
    target = smoothed(row_target(basis(X), search.rows, law))
    mode = laplace.find_mode(target, rough_start(target))
    features = basis(judges.X)
    variance = laplace.latent_variance(features, mode.root, law.n_outputs_)
    variance += basis.residual_variance(judges.X, features)[:, np.newaxis]
    mean = latent_values(target._replace(features=features), mode.weights)
    mixture = LatentMixture(
        mean[:, :, np.newaxis], variance[:, :, np.newaxis], np.ones(1)
    )
    judged = law if judges.known is None else law.at_rows(judges.known)
    density = judged.predictive_log_density(judges.y, mixture)
    return float(np.average(density, weights=judges.weights))
