"""As many inducing points as a function needs, where a likelihood is not Gaussian.

Points are doubled while that gains evidence. The evidence of few points prefers smooth
functions, so a lengthscale at which an exact process of some rows explains far more is
one more start. Counts that scatter more than their law allows look like signal, so that
normal noise of its own around rough latent values has to gain as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics import laplace
from skgpx._numerics.regression import weight_statistics
from skgpx._numerics.series_evidence import ScaleProfile
from skgpx._selection._evidence import (
    MOST,
    Hyperparameters,
    Search,
    SparseEvidence,
    climb_evidence,
    record_of,
    row_target,
)
from skgpx._selection._exact_evidence import ExactEvidence
from skgpx._selection._learner import Candidate, Found, with_noise
from skgpx._selection._lengthscales import (
    rough_latent,
    stretched,
    with_long_lengthscales,
)
from skgpx._selection._search_rows import FEW_ROWS, SOME_ROWS, sampled
from skgpx._validation import Rows, standardisation
from skgpx.bases import Nystroem
from skgpx.kernels import length_scale_entries
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# Nats an observation for which points are doubled, and a shorter lengthscale is taken;
# nats in all that either has to gain, and the most points that are counted.
_GAIN, _SHORTER, _LEAST_GAIN, _COUNTED = 0.01, 0.02, 10.0, 1000
# Factors of long lengthscales at which a shorter one may start.
_FACTORS = tuple(0.5**k for k in range(11))
# Noise beside which lengthscales are compared; noise, and variance of the function, at
# which both are searched for. In variances of y.
_NOISE, _NOISES, _AMPLITUDES = 0.3, (0.01, 0.1, 0.5), (0.1, 1.0, 10.0)
# The most points of a search, the largest n m² of an evaluation, and rows that are read
# in any case and at most.
_SEARCHED, _BUDGET, _ROWS, _MOST_ROWS = 400, 1.5e8, 900, 2000
# Iterations from a shorter lengthscale, and from what was found before.
_NEW_ITER, _AGAIN_ITER = 40, 10


def grown(
    rows: Rows, one: Found, inducing: Any, n_inducing: int, rng: np.random.Generator
) -> tuple[int, float]:
    """Number of points after which twice as many gain too little.

    Too little is less than 0.01 nats an observation, or less than 10 nats in all.

    Of counts all of them have to gain as much under normal noise around rough latent
    values too.

    Parameters
    ----------
    rows : Rows
    one : Found
        Of one output: its kernel and likelihood stay as they are.
    inducing : str, array or callable
    n_inducing : int
        The fewest.
    rng : numpy.random.Generator

    Returns
    -------
    n_inducing : int
        At most 1000, and the number of rows.
    evidence : float
        With so many, in nats a row of 1500 rows.
    """
    chosen = np.sort(rng.permutation(len(rows.y))[:SOME_ROWS])
    some = sampled(rows, chosen, not one.likelihood.discrete)
    theta = np.concatenate((one.kernel.theta, one.likelihood.theta))
    total = float(some.weights.sum())

    def model(m: int) -> SparseEvidence:
        search = Search(some, inducing, min(m, len(chosen)))
        return SparseEvidence.of_search(search, one.kernel, one.likelihood, rng)

    def evidence(one: SparseEvidence) -> float:
        return -one.negative(theta)[0] / total

    most = min(_COUNTED, len(rows.y))
    m, few = n_inducing, model(n_inducing)
    many, value = few, evidence(few)
    while m < most:
        more = min(2 * m, MOST if m < MOST else _COUNTED, most)
        larger = model(more)
        gained = evidence(larger)
        if gained - value < max(_GAIN, _LEAST_GAIN / total):
            break
        m, many, value = more, larger, gained
    enough = value > -_energy_of_nothing(some, one.likelihood) / total
    if enough and m > n_inducing and _may_scatter(some, one.likelihood):
        rough = _rough_rows(some, one.likelihood)
        first, last = (_explained(one.kernel, rough, of.Z) for of in (few, many))
        enough = last - first >= _GAIN * total
    return (m if enough else n_inducing), value


def _may_scatter(rows: Rows, likelihood: Likelihood) -> bool:
    """Whether these are counts; two classes never scatter more than their law."""
    return likelihood.discrete and len(np.unique(rows.y)) > 2


def _energy_of_nothing(rows: Rows, likelihood: Likelihood) -> float:
    """Negative log likelihood of latent functions that are zero."""
    flat = row_target(np.zeros((len(rows.y), 1)), rows, likelihood)
    start = np.zeros((1, likelihood.n_outputs_))
    return float(laplace.find_mode(flat, start).energy)


def with_points(
    best: Found,
    start: Found | None,
    separate: Candidate | None,
    rows: Rows,
    search: Search,
    rng: np.random.Generator,
) -> Found:
    """Search on, from the better start, with the points that it needs.

    Parameters
    ----------
    best : Found
        Where a search ended.
    start : Found or None
        At a shorter lengthscale, see :func:`shorter_kernel`.
    separate : Candidate or None
        With one lengthscale a column, searched from where the first search from `start`
        ends.
    rows : Rows
    search : Search
        With the number of points that the model is to have.
    rng : numpy.random.Generator

    Returns
    -------
    end : Found
        With the number of points that it needs, where these are more; `best` where
        there is nothing to gain.
    """
    inducing, planned = search.inducing, search.n_inducing
    needed, value = grown(rows, best, inducing, planned, rng)
    searched = planned
    if start is not None:
        more, other = grown(rows, start, inducing, planned, rng)
        # rough values that are those of y itself need no second judgement
        if other > value or start.likelihood.location_scale:
            # a kernel adapts to few points: with twice as many it need not
            more = min(2 * more, len(rows.y))
            searched, how = more, (rows, inducing, more, rng)
            best = _searched_on([best, start], *how)
            if separate is not None and best.candidate is start.candidate:
                u = best.candidate.ties @ best.u
                many = best._replace(candidate=separate, u=u)
                best = _searched_on([best, many], *how)
            needed, _ = grown(rows, best, inducing, planned, rng)
    free = len(best.kernel.theta) + len(best.likelihood.theta) > 0
    while free and needed > searched < _SEARCHED:
        searched, how = needed, (rows, inducing, needed, rng, _AGAIN_ITER)
        best = _searched_on([best], *how)
        needed, _ = grown(rows, best, inducing, planned, rng)
    return best._replace(n_inducing=needed if needed > planned else 0)


def given_with_points(
    best: Hyperparameters,
    kernel: Any,
    prior: Callable[[Any], Any] | None,
    rows: Rows,
    inducing: Any,
    n_inducing: int,
    rng: np.random.Generator,
) -> Hyperparameters:
    """The same around a kernel of the user's; no `prior` is the kernel itself."""
    likelihood, start = best.likelihood, None
    shorter = shorter_kernel(rows, likelihood, kernel, best.kernel, rng)
    if shorter is not None:
        around = shorter if prior is None else prior(shorter)
        start = as_found(Hyperparameters(around, likelihood, np.nan))
    points = Search(rows, inducing, n_inducing)
    end = with_points(as_found(best), start, None, rows, points, rng)
    found = end.kernel, end.likelihood, end.evidence
    return Hyperparameters(*found, record=end.record, n_inducing=end.n_inducing)


def as_found(given: Hyperparameters) -> Found:
    """With the kernel's own parameters as the coordinates."""
    kernel, likelihood, evidence = given[:3]
    candidate, record = Candidate.of_kernel(kernel), given.record
    found = Found(candidate, kernel.theta, likelihood, evidence, np.nan)
    return found._replace(record=record)


def _searched_on(
    starts: list[Found],
    rows: Rows,
    inducing: Any,
    n_inducing: int,
    rng: np.random.Generator,
    max_iter: int = _NEW_ITER,
) -> Found:
    """The best of searches with so many points, hence of fewer rows; of all rows."""
    m = min(n_inducing, _SEARCHED)
    n = min(max(int(_BUDGET / m**2), _ROWS), _MOST_ROWS)
    chosen = np.sort(rng.permutation(len(rows.y))[:n])
    some = sampled(rows, chosen, not starts[0].likelihood.discrete)
    search = Search(some, inducing, m)
    end = max((climbed(search, one, max_iter, rng) for one in starts), key=priced)
    share = float(rows.weights.sum() / some.weights.sum())
    record = record_of(search, end.likelihood, rows)
    return end._replace(evidence=share * end.evidence, record=record)


def climbed(
    search: Search, start: Found, max_iter: int, rng: np.random.Generator
) -> Found:
    """Where a search from a start ends."""
    how = start.candidate, start.u, start.likelihood, max_iter, rng
    u, likelihood, evidence = climb_evidence(search, *how)
    gain = evidence + _energy_of_nothing(search.rows, likelihood)
    return Found(start.candidate, u, likelihood, evidence, gain)


def priced(found: Found) -> float:
    """Evidence less d - 1 nats for d lengthscales that have a prior."""
    lengths = float(np.sum(~np.isnan(found.candidate.prior_mean)))
    return found.evidence - max(lengths - 1.0, 0.0)


def shorter_kernel(
    rows: Rows,
    likelihood: Likelihood,
    kernel: Any,
    found: Any,
    rng: np.random.Generator,
) -> Any:
    """A kernel with lengthscales at which an exact process explains far more, or None.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, of one output.
    kernel : sklearn.gaussian_process.kernels.Kernel
        At its start.
    found : sklearn.gaussian_process.kernels.Kernel
        The prior that the sparse evidence ended at.
    rng : numpy.random.Generator

    Notes
    -----
    Both are judged by the evidence of at most 500 rough latent values under normal
    noise, each with its best amplitude and noise.
    """
    if not length_scale_entries(kernel):
        return None
    chosen = np.sort(rng.permutation(len(rows.y))[:FEW_ROWS])
    # targets of the variance of the kernel
    own = float(np.mean(kernel.diag(rows.X)))
    few = sampled(_rough_rows(rows, likelihood, own), chosen)
    noise = with_noise(Gaussian().prepare(few.y, few.weights), _NOISE * own)
    long = with_long_lengthscales(kernel, rows)
    kernels = [stretched(long, float(np.log(one))) for one in _FACTORS]
    if not np.array_equal(kernel.theta, long.theta):
        kernels.append(kernel)
    first = max(
        kernels,
        key=lambda one: ExactEvidence(few, one, noise).value(
            np.concatenate((one.theta, noise.theta))
        ),
    )
    gain = _explained(first, few, few.X) - _explained(found, few, few.X)
    return first if gain >= max(_LEAST_GAIN, _SHORTER * len(few.y)) else None


def _rough_rows(rows: Rows, likelihood: Likelihood, variance: float = 1.0) -> Rows:
    """Rough latent values of the rows, of this variance, for normal noise."""
    values = rough_latent(rows, likelihood)[:, 0]
    shift, scale = standardisation(values, rows.weights, robust=likelihood.heavy_tailed)
    return Rows(rows.X, np.sqrt(variance) * (values - shift) / scale, rows.weights)


def _explained(kernel: Any, few: Rows, Z: Array) -> float:
    """Evidence of points under normal noise, at the best noise and amplitude."""
    features = Nystroem.from_kernel(kernel, Z)(few.X)
    sums = weight_statistics(features, few.y, few.precisions, np.zeros(len(few.y)))
    profile = ScaleProfile.of(sums)
    unit = profile.square / profile.weight or 1.0
    own = float(np.mean(kernel.diag(few.X)))
    starts = [
        np.log([noise * unit, amplitude * unit / own])
        for noise in _NOISES
        for amplitude in _AMPLITUDES
    ]

    def negative(point: Array) -> tuple[float, Array]:
        value, slope = profile.value_and_gradient(*np.exp(point).tolist())
        return -value, -slope

    best = min(starts, key=lambda start: negative(start)[0])
    limits = [(at - 15.0, at + 15.0) for at in best]
    end = optimize.minimize(negative, best, jac=True, method="L-BFGS-B", bounds=limits)
    return -float(end.fun)
