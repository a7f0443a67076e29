"""Choice among candidate kernels: the only place where one is preferred to another.

Every candidate is maximised a posteriori on a few rows, the best group of them on more.
Where rows abound the score is the log predictive density of held-out rows, and the
simplest candidate within one standard error of the best is taken; otherwise it is the
log evidence and log hyperprior, which charges for parameters by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import laplace
from skgpx._parallel import side_by_side
from skgpx._selection._candidates import Candidate
from skgpx._selection._evidence import (
    ExactEvidence,
    SparseEvidence,
    exact_value,
    held_out,
    laplace_density,
    normal_density,
    with_noise,
)
from skgpx._selection._noise import ABUNDANT_ROWS, SEARCHED_ROWS, sparse_density
from skgpx._selection._optimise import TOLERANCE, Found, Objective, maximise
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing
from skgpx.kernels import length_scales
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Nats that a latent function must gain on pure noise: the price of its two scales.
NOISE_PRICE = 2.0
# Rows that compare short lengthscales in single columns.
_SHORT_ROWS = 300


class Split(NamedTuple):
    """Parts of the rows, disjoint but for `screening`, which is a part of `training`.

    Attributes
    ----------
    screening, training : Rows
        That compare starts, and that searches end with.
    validation, remaining : Rows or None
        None where rows are scarce.
    """

    screening: Rows
    training: Rows
    validation: Rows | None = None
    remaining: Rows | None = None

    @classmethod
    def of(
        cls, rows: Rows, sizes: tuple[int, int, int, int], rng: np.random.Generator
    ) -> Split:
        """Draw the parts, first rows with probabilities proportional to weights.

        `sizes` are those of the first three, and the number of rows from which on there
        are all of them.
        """
        few, some, validation, abundant = sizes
        # by y: the order of the columns of X does not matter
        by_y = np.argsort(rows.y, kind="stable")
        keys = rng.exponential(size=len(by_y)) / rows.weights[by_y]
        order = by_y[np.argsort(keys, kind="stable")]
        first = subset(rows, order[:few]), subset(rows, order[:some])
        if len(order) < abundant:
            return cls(*first)
        held = rows.take(np.sort(order[some : some + validation]))
        held = held._replace(weights=np.ones(len(held.y)))
        return cls(*first, held, rows.take(np.sort(order[some + validation :])))


def subset(rows: Rows, chosen: Index) -> Rows:
    """Rows drawn by their weights, each counted once; all rows as they are."""
    part = rows.take(np.sort(chosen))
    if len(part.y) == len(rows.y):
        return part
    return part._replace(weights=np.minimum(part.weights, 1.0))


class Model(Protocol):
    """How candidates are maximised and scored."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Rows of a split."""

    @property
    def screening_iter(self) -> tuple[int, float]:
        """Iterations and tolerance on few rows."""

    @property
    def training_iter(self) -> tuple[int, float]:
        """The same on more."""

    def evidence(
        self, rows: Rows, kernel: Any, likelihood: Any, screening: bool
    ) -> Any:
        """Evidence of rows around a kernel."""

    def value(
        self, rows: Rows, candidate: Candidate, u: Array, likelihood: Any
    ) -> float:
        """Evidence of few rows at a start."""

    def densities(self, found: Found, split: Split) -> Array:
        """Score of each row, or the one number that there is."""


class ExactModel(NamedTuple):
    """Gaussian noise: the exact process of at most 1500 rows."""

    sizes: tuple[int, int, int, int] = (500, SEARCHED_ROWS, 1500, ABUNDANT_ROWS)
    screening_iter: tuple[int, float] = (40, 1e-4)
    training_iter: tuple[int, float] = (100, 1e-5)

    def evidence(
        self, rows: Rows, kernel: Any, likelihood: Any, screening: bool
    ) -> ExactEvidence:
        """Evidence of the rows themselves."""
        del screening
        return ExactEvidence(rows, kernel, likelihood)

    def value(
        self, rows: Rows, candidate: Candidate, u: Array, likelihood: Any
    ) -> float:
        """Evidence of few rows at a start, without its gradient."""
        kernel, noise = candidate.kernel_at(u), float(likelihood.variance(0.0))
        return exact_value(rows, kernel, noise) + candidate.log_prior(u)[0]

    def densities(self, found: Found, split: Split) -> Array:
        """Held-out log densities, or the log posterior."""
        other = split.validation
        if other is None:
            return np.array([found.posterior])
        noise = found.noise_variance
        mean, variance = held_out(found.kernel, noise, split.training, other.X)
        if other.known is not None:
            variance = variance + noise * (other.known - 1.0)
        return normal_density(other.y, mean, variance)


class SparseModel(NamedTuple):
    """Other likelihoods: Laplace's approximation on inducing points.

    Attributes
    ----------
    sizes, screening_iter, training_iter
        Rows of a split; iterations and tolerance.
    inducing : str, array or callable
    n_inducing : int
    rng : numpy.random.Generator
    """

    sizes: tuple[int, int, int, int]
    inducing: Any
    n_inducing: int
    rng: np.random.Generator
    screening_iter: tuple[int, float] = (25, 1e-4)
    training_iter: tuple[int, float] = (40, 1e-5)

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        inducing: Any,
        n_inducing: int,
        rng: np.random.Generator,
    ) -> SparseModel:
        """Rows and points whose evidence takes a tenth of a second: 1.5e8 n m²."""
        square = max(likelihood.n_outputs_ - 1, 1) ** 2
        m = min(max(n_inducing, 100), 250)
        if 1.5e8 / (m**2 * square) < 1000:
            m = 100
        n = min(max(int(1.5e8 / (m**2 * square)), 300), 2000)
        return cls((300, n, 1500, 6000), inducing, m, rng)

    def evidence(
        self, rows: Rows, kernel: Any, likelihood: Any, screening: bool
    ) -> SparseEvidence:
        """Evidence with inducing points selected under the kernel."""
        most = laplace.LARGEST_COUPLED // max(likelihood.n_outputs_ - 1, 1)
        m = max(1, min(50 if screening else self.n_inducing, most))
        how = self.inducing, m, self.rng
        return SparseEvidence.selected(rows, kernel, likelihood, *how)

    def value(
        self, rows: Rows, candidate: Candidate, u: Array, likelihood: Any
    ) -> float:
        """Evidence of few rows at a start."""
        evidence = self.evidence(rows, candidate.kernel_at(u), likelihood, True)
        point = np.concatenate((u, likelihood.theta))
        return -Objective(candidate, [evidence])(point)[0]

    def densities(self, found: Found, split: Split) -> Array:
        """Held-out log densities, or the log posterior."""
        if split.validation is None:
            return np.array([found.posterior])
        rows, kernel = split.training, found.kernel
        how = rows.X, kernel, self.n_inducing, self.rng, rows.weights
        basis = Nystroem.from_kernel(kernel, select_inducing(self.inducing, *how))
        return laplace_density(basis, rows, split.validation, found.likelihood)


def select(
    groups: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Any,
    model: Model,
    n_jobs: int | None = None,
) -> Found:
    """The simplest candidate within one standard error of the best score.

    Parameters
    ----------
    groups : sequence of sequences of Candidate
        Candidates of a group from simple to complex: one that follows another starts,
        among other places, where that ended.
    split : Split
    likelihood : Likelihood
        Prepared.
    model : Model
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._parallel.side_by_side`.
    """
    how = split.screening, likelihood, model
    first = _screen(*how, groups[0])
    same_rows = len(split.training.y) == len(split.screening.y)
    # on a part of the rows a rougher family may see what a smoother one has missed
    near = first if same_rows else []
    rest = [(group, near) for group in groups[1:]]
    screened = [first, *side_by_side(_screen, rest, n_jobs, *how)]
    best = max(screened, key=lambda group: max(one.posterior for one in group))
    if split.validation is None and same_rows:
        # on the same rows searches end in the same order
        best = [max(best, key=lambda one: one.posterior)]
    finalists = [(found,) for found in best]
    trained = side_by_side(train, finalists, n_jobs, split.training, model)
    if len(trained) == 1:
        return trained[0]
    return simplest(trained, [model.densities(found, split) for found in trained])


def simplest(found: Sequence[Found], densities: Sequence[Array]) -> Found:
    """Fewest free parameters within one standard error of the best mean density."""
    score = np.array([np.mean(one) for one in densities])
    best = int(np.argmax(score))
    order = sorted(
        range(len(found)), key=lambda i: (found[i].candidate.n_free, -score[i])
    )
    for i in order:
        gap = densities[best] - densities[i]
        if np.mean(gap) <= np.std(gap) / np.sqrt(len(gap)):
            return found[i]
    return found[best]


def train(rows: Rows, model: Model, found: Found) -> Found:
    """Search on with more rows, and for sparse models with points selected anew."""
    evidence = model.evidence(rows, found.kernel, found.likelihood, False)
    return maximise(found.candidate, [evidence], found.u, *model.training_iter)


def _screen(
    rows: Rows,
    likelihood: Any,
    model: Model,
    group: Sequence[Candidate],
    first: Sequence[Found] = (),
) -> list[Found]:
    """Where each candidate of a group ends, on a few rows.

    One starts where its counterpart in the `first` group ended, if that found a signal.
    """

    def climb(candidate: Candidate, u: Array, start: Any) -> Found:
        evidence = model.evidence(rows, candidate.kernel_at(u), start, True)
        return maximise(candidate, [evidence], u, *model.screening_iter)

    found: list[Found] = []
    for position, candidate in enumerate(group):
        if first and first[position].gain > NOISE_PRICE:
            other = first[position]
            u = np.clip(other.u, *candidate.bounds.T)
            found.append(climb(candidate, u, other.likelihood))
            continue
        if not found or candidate.n_free == group[0].n_free:
            most = 1 if first else None
            found.append(_until_found(candidate, rows, likelihood, model, climb, most))
            continue
        simple = max(found, key=lambda one: one.posterior)
        ends = [
            climb(candidate, candidate.coordinates_of(simple.kernel), simple.likelihood)
        ]
        if isinstance(likelihood, Gaussian):
            start = _separate_start(candidate, rows, likelihood)
            ends.append(climb(candidate, start, likelihood))
        found.append(max(ends, key=lambda one: one.posterior))
    return found


def _until_found(
    candidate: Candidate,
    rows: Rows,
    likelihood: Any,
    model: Model,
    climb: Any,
    most: int | None,
) -> Found:
    """From the best of several lengthscales, and on while no better than noise."""
    starts = [np.clip(u, *candidate.bounds.T) for u in candidate.starts()]
    values = [
        model.value(rows, candidate, u, likelihood) if len(starts) > 1 else 0.0
        for u in starts
    ]
    ends: list[Found] = []
    for position in np.argsort(values, kind="stable")[::-1][:most]:
        ends.append(climb(candidate, starts[position], likelihood))
        if ends[-1].gain > NOISE_PRICE and not candidate.given:
            break
    return max(ends, key=lambda one: one.posterior)


def _separate_start(candidate: Candidate, rows: Rows, likelihood: Gaussian) -> Array:
    """Long lengthscales, or long ones but in the one column where that is best."""
    starts = [candidate.starts()[0], *candidate.short_starts()]
    some = rows.take(slice(None, None, -(-len(rows.y) // _SHORT_ROWS)))
    noise = float(likelihood.variance(0.0))
    clipped = [np.clip(u, *candidate.bounds.T) for u in starts]
    values = [exact_value(some, candidate.kernel_at(u), noise) for u in clipped]
    return clipped[int(np.argmax(values))]


# ---- Searches in neighbourhoods, where there are many rows ---------------------------

# Neighbourhoods and their rows; iterations.
_BLOCKS, _BLOCK_ROWS, _NEAR_ITER = 5, 300, 20
# Rows so many times closer to each other than those of the search may vary within its
# spacing, which takes more points: the numbers of points of the model that is scored.
_DENSER, _POINTS = 2.0, (600, 1500)


def refine(found: Found, split: Split, n_jobs: int | None = None) -> Found:
    """Search on with neighbourhoods besides, if a sparse model then predicts better.

    1500 of many rows are far apart: how the function varies nearby is seen in rows
    that are neighbours. The candidates are the kernel found, that of a search with
    neighbourhoods from there, and, where rows are much denser than those of the search,
    that of one from lengthscales that are as much shorter. What they find may be more
    than inducing points can follow, so their score is the held-out density of a sparse
    model, with the noise that serves it best.
    """
    validation, remaining = split.validation, split.remaining
    if validation is None or remaining is None or not found.candidate.n_free:
        return found
    n, d = split.training.X.shape
    denser = (1.0 + len(remaining.y) / n) ** (1.0 / d)
    starts = [(found.u, found.likelihood)]
    if denser >= _DENSER:
        quiet = with_noise(found.likelihood, 0.1 * found.noise_variance)
        starts.append((found.candidate.shortened(found.u, denser), quiet))
    blocks = [split.training, *_neighbourhoods(found.kernel, remaining)]
    searches = [
        (found.candidate, [ExactEvidence(b, found.kernel, scale) for b in blocks], u)
        for u, scale in starts
    ]
    how = _NEAR_ITER, TOLERANCE
    ends = [found, *side_by_side(maximise, [(*s, *how) for s in searches], n_jobs)]
    noise = [one.noise_variance for one in ends]
    free = len(found.likelihood.theta) > 0
    within = (min(noise), 10.0 * max(noise)) if free else (noise[0], noise[0])
    scored = [(one.kernel, within, _POINTS[denser >= _DENSER]) for one in ends]
    scores = side_by_side(sparse_density, scored, n_jobs, remaining, validation)
    return ends[int(np.argmax(scores))]


def _neighbourhoods(kernel: Any, rows: Rows) -> list[Rows]:
    """Rows nearest to a few evenly chosen ones, in units of the lengthscales."""
    scaled = rows.X / length_scales(kernel, rows.X.shape[1])
    n = len(scaled)
    size = min(_BLOCK_ROWS, n)
    blocks = []
    for centre in np.linspace(0, n - 1, _BLOCKS + 2)[1:-1].astype(np.intp):
        distance = np.sum((scaled - scaled[centre]) ** 2, axis=1)
        blocks.append(subset(rows, np.argpartition(distance, size - 1)[:size]))
    return blocks
