"""Gaussian regression: candidate kernels, search and choice.

The exact evidence of at most 1500 rows guides the search: that of a few inducing points
prefers smooth functions and, lost, none at all. Candidates compete by the density of
rows that none of them saw, or by their evidence less a price for parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx._parallel import side_by_side
from skgpx._selection._exact_evidence import ExactEvidence, held_out_density
from skgpx._selection._search_record import SearchRecord
from skgpx._selection._search_rows import Sample, compared, sampled
from skgpx._selection._sparse_density import sparse_density
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning
from skgpx.kernels import GREKernel, default_kernel, length_scale_entries, length_scales
from skgpx.likelihoods import Gaussian

# ---- Maximum a posteriori of a candidate under the exact evidence of a few rows ------


Array = NDArray[np.float64]

# Nats that a latent function must gain on pure noise: the price of its two scales.
NOISE_PRICE = 2.0
# Gain of steps at which a search ends, in nats a row.
TOLERANCE = 3e-5
# Length of the first step of a search, in logarithms.
_FIRST_STEP = 0.3


class Found(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    candidate : Candidate
    u : ndarray of shape (q,)
        Coordinates of the kernel.
    likelihood : Gaussian
    evidence : float
        Exact evidence of the rows of the search in nats, without the prior.
    gain : float
        Of it over the evidence of normal noise around zero.
    score : float
        By which candidates are compared; NaN before they are.
    record : SearchRecord
        Which rows searched, once that is known.
    n_inducing : int
        Number of inducing points that the kernel needs; 0 where none was counted.
    """

    candidate: Candidate
    u: Array
    likelihood: Gaussian
    evidence: float
    gain: float
    score: float = np.nan
    record: SearchRecord = SearchRecord()
    n_inducing: int = 0

    @property
    def kernel(self) -> Any:
        """Kernel with its hyperparameters."""
        return self.candidate.kernel_at(self.u)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise."""
        return float(self.likelihood.variance(0.0))


def until_found(searches: Iterable[Found]) -> Found:
    """The best of searches that are made until one gains more than noise would."""
    best: Found | None = None
    for found in searches:
        if best is None or found.evidence > best.evidence:
            best = found
        if best.gain > NOISE_PRICE:
            break
    assert best is not None
    return best


class Objective:
    """Log evidence of independent blocks of rows, plus the log prior.

    Parameters
    ----------
    candidate : Candidate
    likelihood : Gaussian
    blocks : sequence of Rows
    """

    def __init__(
        self, candidate: Candidate, likelihood: Gaussian, blocks: tuple[Rows, ...]
    ):
        self.candidate, self.likelihood = candidate, likelihood
        self.parts = [ExactEvidence(b, candidate.kernel, likelihood) for b in blocks]
        y, weights = blocks[0].y, blocks[0].weights
        # 1 where y has no variance, so that its logarithm exists
        self._unit = float(np.average(y**2, weights=weights)) or 1.0

    def theta(self, point: Array) -> Array:
        """Log-parameters of kernel and noise at coordinates (u, noise)."""
        q = self.candidate.n_free
        inner = self.candidate.offset + self.candidate.ties @ point[:q]
        return np.concatenate((inner, point[q:]))

    @property
    def bounds(self) -> Array:
        """Bounds of the coordinates."""
        return np.concatenate((self.candidate.bounds, self.likelihood.theta_bounds))

    def value(self, point: Array) -> float:
        """Log posterior, without a gradient."""
        return self.evidence(point) + self._log_prior(point)[0]

    def evidence(self, point: Array) -> float:
        """Log evidence, without the prior."""
        return sum(part.value(self.theta(point)) for part in self.parts)

    def negative(self, point: Array) -> tuple[float, Array]:
        """Negative log posterior and its gradient in the coordinates."""
        q, theta = self.candidate.n_free, self.theta(point)
        terms = [part.negative(theta) for part in self.parts]
        slope = np.sum([term[1] for term in terms], axis=0)
        prior, pull = self._log_prior(point)
        p = len(theta) - (len(point) - q)
        gradient = np.concatenate((self.candidate.ties.T @ slope[:p], slope[p:]))
        return sum(term[0] for term in terms) - prior, gradient - pull

    def _log_prior(self, point: Array) -> tuple[float, Array]:
        q = self.candidate.n_free
        kernel, slope = self.candidate.log_prior(point[:q])
        noise, noise_slope = self.candidate.log_noise_prior(point[q:], self._unit)
        return kernel + noise, np.concatenate((slope, noise_slope))


def climb(
    candidate: Candidate,
    likelihood: Gaussian,
    blocks: tuple[Rows, ...],
    u: Array,
    max_iter: int,
    tolerance: float = TOLERANCE,
) -> Found:
    """L-BFGS-B on the logarithms from u and the noise of the likelihood.

    It ends where two steps gain less than the tolerance each, in nats a row.
    """
    objective = Objective(candidate, likelihood, blocks)
    point = np.concatenate((u, likelihood.theta))
    n = float(sum(rows.weights.sum() for rows in blocks))
    if len(point):
        start = np.clip(point, *objective.bounds.T)
        point = _ascend(objective, start, max_iter, tolerance * n)
    q = candidate.n_free
    final = likelihood.with_theta(point[q:])
    evidence = objective.evidence(point)
    gain = evidence - sum(noise_only(rows, likelihood) for rows in blocks)
    return Found(candidate, point[:q], final, evidence, gain)


def _ascend(
    objective: Objective, start: Array, max_iter: int, tolerance: float
) -> Array:
    """Where L-BFGS-B ends, whose first step has a length of three tenths.

    The method itself would take the slope in nats for it, which leads to the bounds.
    """
    first, slope = objective.negative(start)
    low, high = objective.bounds.T
    free = np.where(slope > 0.0, start > low, start < high)
    unit = _FIRST_STEP / (float(np.linalg.norm(slope[free])) or 1.0)
    known = [(start, first, slope)]

    def scaled(point: Array) -> tuple[float, Array]:
        if known and np.array_equal(point, known[0][0]):
            _, value, along = known.pop()
        else:
            value, along = objective.negative(point)
        return unit * (value - first), unit * along

    def ended(intermediate_result: Any) -> None:
        reached.append(float(intermediate_result.fun))
        if len(reached) > 2 and reached[-3] - reached[-1] < 2.0 * unit * tolerance:
            raise StopIteration

    reached = [0.0]
    result = optimize.minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds,
        callback=ended,
        options={"maxiter": max_iter, "ftol": 1e-14, "gtol": 1e-3 * unit},
    )
    return result.x


def all_noise(rows: Rows, likelihood: Gaussian) -> Gaussian:
    """The likelihood with the variance of y where its own is free, within bounds."""
    return with_noise(likelihood, float(np.average(rows.y**2, weights=rows.precisions)))


def with_noise(likelihood: Gaussian, noise_variance: float) -> Gaussian:
    """The likelihood with this noise variance where it is free, within its bounds."""
    if not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0])
    return likelihood.with_theta(np.log([np.clip(noise_variance, low, high)]))


def noise_only(rows: Rows, likelihood: Gaussian) -> float:
    """Evidence of normal noise around zero with the best variance, in nats."""
    n, square = rows.precisions.sum(), float(rows.precisions @ rows.y**2)
    variance = float(all_noise(rows, likelihood).variance(0.0))
    return -0.5 * float(n * np.log(2.0 * np.pi * variance) + square / variance)


# ---- Kernels that compete when none is given, and the coordinates of their search ----


# Variance of the logarithm of a lengthscale, in standard deviations of its column.
_PRIOR_VARIANCE = 3.0
# Mean and variance of the logarithm of the noise variance, in variances of y: its root
# is a third of the spread of y, with 95 % up to a factor of seven. Few rows may
# otherwise take a function with hardly any noise for certain.
_NOISE_MEAN, _NOISE_PRIOR_VARIANCE = -2.0, 4.0
# Smoothness of the families: RBF, Matern 5/2, Matern 3/2.
_FAMILIES = (np.inf, 2.5, 1.5)


@dataclass(frozen=True)
class Candidate:
    """A kernel whose log-parameters are ``offset + ties @ u``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    offset : ndarray of shape (p,)
    ties : ndarray of shape (p, q)
    bounds : ndarray of shape (q, 2)
        Of u.
    prior_mean : ndarray of shape (q,)
        Mean of u under a normal prior of variance 3; NaN where there is none.
    family : float
        Smoothness of the default kernels; NaN for a kernel of the user's.
    """

    kernel: Any
    offset: Array
    ties: Array
    bounds: Array
    prior_mean: Array
    family: float = np.nan

    @classmethod
    def of_kernel(cls, kernel: Any) -> Candidate:
        """The kernel as it is: its own parameters and bounds, no prior."""
        p = len(kernel.theta)
        bounds = kernel.bounds.reshape(-1, 2)
        return cls(kernel, np.zeros(p), np.eye(p), bounds, np.full(p, np.nan))

    @property
    def n_free(self) -> int:
        """Number of coordinates q."""
        return self.ties.shape[1]

    @property
    def is_tied(self) -> bool:
        """Whether several parameters share a coordinate."""
        return self.n_free < len(self.ties)

    def around(self, kernel: Any) -> Candidate:
        """The same coordinates of a kernel with the same parameters."""
        return replace(self, kernel=kernel)

    def coordinates_of(self, kernel: Any) -> Array:
        """Coordinates of such a kernel, the mean of what they share."""
        shares = self.ties / np.sum(self.ties, axis=0)
        u: Array = shares.T @ (kernel.theta - self.offset)
        return u

    def kernel_at(self, u: Array) -> Any:
        """Kernel at the coordinates u, within its bounds."""
        theta = self.offset + self.ties @ u
        if not len(theta):
            return self.kernel
        return self.kernel.clone_with_theta(np.clip(theta, *self.kernel.bounds.T))

    def log_prior(self, u: Array) -> tuple[float, Array]:
        """Log density of the prior up to a constant, and its gradient."""
        off = np.where(np.isnan(self.prior_mean), 0.0, u - self.prior_mean)
        return -0.5 * float(off @ off) / _PRIOR_VARIANCE, -off / _PRIOR_VARIANCE

    def log_noise_prior(self, theta: Array, unit: float) -> tuple[float, Array]:
        """Log density of the prior of the noise (1,) or (0,), and its gradient.

        `unit` is the variance of y.
        """
        if np.all(np.isnan(self.prior_mean)):
            return 0.0, np.zeros_like(theta)
        off = theta - np.log(unit) - _NOISE_MEAN
        slope = -off / _NOISE_PRIOR_VARIANCE
        return 0.5 * float(off @ slope), slope


def default_candidates(
    rows: Rows, families: tuple[float, ...] = _FAMILIES
) -> list[tuple[Candidate, Candidate]]:
    """Kernels that stand for None: one lengthscale, then one a column, of each family.

    "One lengthscale" is in units of the columns' standard deviations. Lengthscales
    have a log-normal prior of location ``√2 + ½ log d`` and scale √3 in these units
    [1]_, which lets them grow with the dimension.

    References
    ----------
    .. [1] Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great
       in high dimensions", ICML 2024.
    """
    plain = default_kernel(rows.X, rows.weights)
    return [_pair(plain, rows.X.shape[1], nu) for nu in families]


def _pair(plain: Any, d: int, nu: float) -> tuple[Candidate, Candidate]:
    """Isotropic and anisotropic candidate; twice the same for one column."""
    kernel = ConstantKernel(1.0, plain.k1.constant_value_bounds) * _shape(plain.k2, nu)
    start = kernel.theta
    # default lengthscales are 2√d standard deviations
    offset = start - np.append(0.0, np.full(d, np.log(2.0 * np.sqrt(d))))
    inner = kernel.bounds - offset[:, np.newaxis]
    location = np.sqrt(2.0) + 0.5 * np.log(d)
    separate = Candidate(
        kernel,
        offset,
        np.eye(d + 1),
        inner,
        np.append(np.nan, np.full(d, location)),
        nu,
    )
    if d == 1:
        return separate, separate
    ties = np.zeros((d + 1, 2))
    ties[0, 0] = ties[1:, 1] = 1.0
    bounds = np.array([inner[0], [inner[1:, 0].max(), inner[1:, 1].min()]])
    tied = Candidate(kernel, offset, ties, bounds, np.array([np.nan, location]), nu)
    return tied, separate


def _shape(rbf: Any, nu: float) -> Any:
    scale, bounds = rbf.length_scale, rbf.length_scale_bounds
    return RBF(scale, bounds) if nu == np.inf else Matern(scale, bounds, nu=nu)


def untied(u: Array, tied: Candidate, separate: Candidate) -> Array:
    """Coordinates of a tied candidate among those of the separate one."""
    return tied.ties @ u if tied is not separate else u


def candidates(kernel: Any, rows: Rows) -> tuple[Candidate, Candidate]:
    """One lengthscale for all columns and one a column; twice the same for one column.

    "One" is in the units of the kernel's own lengthscales, those of the columns. These
    have the log-normal prior of the default candidates of Gaussian regression.
    """
    d, p = rows.X.shape[1], len(kernel.theta)
    entries = [i for one in length_scale_entries(kernel) for i in range(p)[one]]
    offset, mean = kernel.theta.copy(), np.full(p, np.nan)
    # default lengthscales are 2√d standard deviations; those of the background of a GRE
    # kernel are longer by √2
    start = np.log(2.0 * np.sqrt(d))
    offset[entries] -= start
    offset[[i for i in range(p) if i not in entries]] = 0.0
    widened = 0.5 * np.log(2.0) if isinstance(kernel, GREKernel) else 0.0
    mean[entries] = np.sqrt(2.0) + 0.5 * np.log(d) - widened
    inner = kernel.bounds - offset[:, np.newaxis]
    separate = Candidate(kernel, offset, np.eye(p), inner, mean)
    if len(entries) < 2:
        return separate, separate
    ties = np.delete(np.eye(p), entries[1:], axis=1)
    ties[entries, entries[0]] = 1.0
    kept = np.delete(np.arange(p), entries[1:])
    bounds = inner[kept]
    bounds[entries[0]] = inner[entries, 0].max(), inner[entries, 1].min()
    return Candidate(kernel, offset, ties, bounds, mean[kept]), separate


# ---- Search on in neighbourhoods, where many rows show how a function varies nearby --


_NEAR_ITER = 20
# Neighbourhoods, and the rows of each, that show how the function varies nearby.
_BLOCKS, _BLOCK_ROWS = 5, 300
# Rows so many times closer to each other than those of the search may show finer
# structure, which takes more points: the numbers of points of the model that decides.
_DENSER, _POINTS = 2.0, (600, 1500)


def finer_structure(found: Found, sample: Sample, n_jobs: int | None = None) -> Found:
    """Search on with neighbourhoods besides, where many rows are there to judge.

    1500 of many rows are far apart: how the function varies nearby is seen in rows
    that are neighbours. The finer structure found may be more than a sparse model can
    follow, so a sparse model of other rows decides, with the noise that serves it best.
    Where the rows are much denser than 1500 of them, as on a long time axis, a search
    starts from lengthscales that are as much shorter, too.
    """
    if sample.others is None or sample.judges is None or not found.candidate.n_free:
        return found
    blocks = (sample.some, *_neighbourhoods(found.kernel, sample.others))
    shape = found.candidate, found.likelihood, blocks
    searches = [(*shape, found.u, _NEAR_ITER)]
    denser = sample.density_ratio()
    if denser >= _DENSER:
        quiet = with_noise(found.likelihood, 0.1 * found.noise_variance)
        shorter = _shorter(found, denser)
        searches.append((found.candidate, quiet, blocks, shorter, _NEAR_ITER))
    all_found = [found, *side_by_side(climb, searches, n_jobs)]
    n_points, noise = _POINTS[denser >= _DENSER], _noise_range(all_found)
    judged = [(one, noise, n_points) for one in all_found]
    scores = side_by_side(_score, judged, n_jobs, sample)
    best = int(np.argmax(scores))
    return all_found[best]._replace(
        record=_record(found, sample, blocks[1:] * (best > 0))
    )


def _record(found: Found, sample: Sample, near: tuple[Rows, ...]) -> SearchRecord:
    """That of what was found, judged by rows kept out, and the neighbourhoods read."""
    record = compared(found.record, sample.judges)
    if not near:
        return record
    return record._replace(neighbourhoods=f"{len(near)} of {len(near[0].y)} rows")


def _score(
    sample: Sample, found: Found, noise: tuple[float, float], n_points: int
) -> float:
    """Held-out density of its sparse model of other rows, of as many points."""
    assert sample.others is not None
    assert sample.judges is not None
    parts = sample.others, sample.judges
    try:
        return sparse_density(found.kernel, noise, *parts, n_points)
    except np.linalg.LinAlgError:
        return -np.inf


def _shorter(found: Found, factor: float) -> Array:
    """Coordinates with all lengthscales divided by a factor, within their bounds."""
    candidate = found.candidate
    lengths = np.zeros(len(candidate.ties))
    for entries in length_scale_entries(candidate.kernel):
        lengths[entries] = 1.0
    moved = candidate.ties.T @ lengths > 0.0
    return np.clip(found.u - np.log(factor) * moved, *candidate.bounds.T)


def _noise_range(found: list[Found]) -> tuple[float, float]:
    """Where the noise of a sparse model may lie; its own where it is fixed."""
    noise = [one.noise_variance for one in found]
    if not len(found[0].likelihood.theta):
        return noise[0], noise[0]
    return min(noise), 10.0 * max(noise)


def _neighbourhoods(kernel: Any, rows: Rows) -> list[Rows]:
    """Rows nearest to a few evenly chosen ones, in units of the lengthscales."""
    scaled = rows.X / length_scales(kernel, rows.X.shape[1])
    n = len(scaled)
    size = min(_BLOCK_ROWS, n)
    blocks = []
    for centre in np.linspace(0, n - 1, _BLOCKS + 2)[1:-1].astype(np.intp):
        distance = np.sum((scaled - scaled[centre]) ** 2, axis=1)
        nearest = np.argpartition(distance, size - 1)[:size]
        blocks.append(sampled(rows, nearest))
    return blocks


# ---- Kernel and noise of Gaussian regression, learned before the method begins -------


_SCREENING_ITER, _SCREENING_TOLERANCE, _POLISH_ITER = 40, 1e-4, 30
_LAST_ITER, _LAST_TOLERANCE = 150, 3e-6
# Factors of the lengthscales at which a search may start.
_START_FACTORS = (1.0, 0.25, 1.0 / 16.0, 1.0 / 64.0)
# A candidate farther behind is not polished: nats a held-out row.
_BEHIND = 0.02
# Fewer rows are not expected to show it.
_FEWEST = 200


def learn_default(
    rows: Rows,
    likelihood: Gaussian,
    rng: np.random.Generator,
    families: tuple[float, ...] | None = None,
    n_jobs: int | None = None,
    few_rows: int | None = None,
) -> Found:
    """Kernel and noise when no kernel is given.

    RBF, Matern 5/2 and 3/2, each with one lengthscale and with one a column, are
    compared on a few rows. Where others judge, the best of either kind and those within
    .02 nats a row of it are polished on 1500; otherwise both kinds of the best family.

    Parameters
    ----------
    rows : Rows
    likelihood : Gaussian
        Prepared.
    rng : numpy.random.Generator
    families : tuple of float, optional
        Smoothness of the families that compete; None is all three.
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._parallel.side_by_side`.
    few_rows : int, optional
        Rows that the first searches read; None is 500.

    Returns
    -------
    best : Found
    """
    sample = Sample.of(rows, rng, few_rows)
    pairs = default_candidates(rows, *(() if families is None else (families,)))
    searches, small = [(pair, likelihood) for pair in pairs], sample.without_others()
    screened = side_by_side(_screen, searches, n_jobs, small)
    finalists = [(one,) for one in _finalists(screened, sample)]
    polished = side_by_side(_polish, finalists, n_jobs, small)
    best = max(polished, key=lambda one: one.score)
    best = best._replace(record=sample.record(rows, True))
    return finer_structure(best, sample, n_jobs)


def _finalists(screened: list[tuple[Found, ...]], sample: Sample) -> list[Found]:
    """Candidates that more rows may put first: near the best, or its own family.

    What 500 rows tell of many lengthscales may be far from what more tell, so the best
    of either kind is among them.
    """
    top = max(one.score for pair in screened for one in pair)
    if sample.judges is None:
        return next(
            list(pair) for pair in screened if max(one.score for one in pair) == top
        )
    kinds = zip(*screened, strict=True)
    best = [max(one.score for one in kind) for kind in kinds]
    return [
        one
        for pair in screened
        for one, most in zip(pair, best, strict=True)
        if one.score >= min(top - _BEHIND, most)
    ]


def learn_given(
    rows: Rows,
    likelihood: Gaussian,
    starts: list[Any],
    rng: np.random.Generator,
    candidate: Candidate | None = None,
    n_jobs: int | None = None,
    few_rows: int | None = None,
) -> Found:
    """Free parameters of a kernel, from several starts.

    Parameters
    ----------
    rows : Rows
    likelihood : Gaussian
        Prepared.
    starts : list of sklearn.gaussian_process.kernels.Kernel
        The same kernel with several values of its free parameters.
    rng : numpy.random.Generator
    candidate : Candidate, optional
        Coordinates of the kernels, with their prior; without it all parameters are free
        and have none.
    n_jobs : int or None
        Searches side by side; see :func:`skgpx._parallel.side_by_side`.
    few_rows : int, optional
        As of :func:`learn_default`.

    Returns
    -------
    best : Found
        Its parameters within their bounds, the fixed ones as they are.
    """
    sample = Sample.of(rows, rng, few_rows)
    plain = candidate is None
    chosen = Candidate.of_kernel(starts[0]) if plain else candidate.around(starts[0])
    blocks = (sample.few,)
    points = [chosen.coordinates_of(start) for start in starts]
    how = _SCREENING_ITER, _SCREENING_TOLERANCE
    searches = [(chosen, likelihood, blocks, u, *how) for u in points]
    found = side_by_side(climb, searches, n_jobs)
    best = max(found, key=lambda one: one.evidence)
    best = _polish(sample, best)._replace(record=sample.record(rows, False))
    return finer_structure(best, sample, n_jobs)


def warn_of_noise(found: Found, rows: Rows) -> None:
    """Say so if the kernel explains no more than noise would.

    Nothing is said of a constant y, nor of rows too few to show a dependence.
    """
    free = len(found.kernel.theta) > 0
    lost = free and found.gain <= NOISE_PRICE
    if not lost or rows.weights.sum() < _FEWEST or not np.any(rows.y != rows.y[0]):
        return
    warn(
        "No dependence of y on X was found: the latent function gains "
        f"{max(found.gain, 0.0):.2g} nats of evidence on pure noise, so predictions "
        "stay close to the mean of y. Check that the columns of X can say something "
        "about y; if they do, give a kernel whose lengthscales start near the scale of "
        "the variation.",
        FitWarning,
    )


def _screen(
    sample: Sample, pair: tuple[Candidate, Candidate], likelihood: Gaussian
) -> tuple[Found, ...]:
    """One lengthscale from the best of several starts; one a column from there.

    And from long lengthscales, which the other search may have left behind.
    """
    tied, separate = pair
    one = _isotropic(tied, likelihood, sample.few)
    if tied is separate:
        return (_judged(one, sample),)
    long = np.append(0.0, np.full(separate.n_free - 1, _long(sample.few)))
    starts = (untied(one.u, tied, separate), one.likelihood), (long, likelihood)
    many = [
        climb(separate, scale, (sample.few,), u, _SCREENING_ITER, _SCREENING_TOLERANCE)
        for u, scale in starts
    ]
    best = max(many, key=lambda found: found.evidence)
    return _judged(one, sample), _judged(best, sample)


def _long(rows: Rows) -> float:
    """Logarithm of a lengthscale of 2√d standard deviations."""
    return float(np.log(2.0 * np.sqrt(rows.X.shape[1])))


def _isotropic(candidate: Candidate, likelihood: Gaussian, few: Rows) -> Found:
    """Climb from the best of several lengthscales, and on while no better than noise.

    Starting values: amplitude one, noise a tenth of the variance of y.
    """
    objective = Objective(candidate, likelihood, (few,))
    lengths = _long(few) + np.log(_START_FACTORS)
    starts = [np.append(0.0, np.full(candidate.n_free - 1, one)) for one in lengths]
    points = [np.concatenate((start, likelihood.theta)) for start in starts]
    order = np.argsort([-objective.value(point) for point in points], kind="stable")
    how = _SCREENING_ITER, _SCREENING_TOLERANCE
    return until_found(
        climb(candidate, likelihood, (few,), starts[position], *how)
        for position in order
    )


def _judged(found: Found, sample: Sample) -> Found:
    """With its score: held-out density in nats a row; or evidence less a price.

    The evidence is that of the rows of the last search, the price d - 1 nats for d
    lengthscales.
    """
    if sample.judges is not None:
        noise = found.noise_variance
        score = held_out_density(found.kernel, noise, sample.some, sample.judges)
    else:
        # amplitude and one lengthscale are free in every candidate
        score = found.evidence - (found.candidate.n_free - 2)
    return found._replace(score=score)


def _polish(sample: Sample, found: Found) -> Found:
    """Search on with all rows of the sample: to the end where there are no others."""
    blocks, start = (sample.some,), (found.candidate, found.likelihood)
    how = (_POLISH_ITER, TOLERANCE)
    if sample.judges is None:
        how = (_LAST_ITER, _LAST_TOLERANCE)
    return _judged(climb(*start, blocks, found.u, *how), sample)
