"""Prior kernel and scales of the likelihood, before a method begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skgpx import diagnostics
from skgpx._selection._candidates import (
    Candidate,
    default_candidates,
    of_kernel,
)
from skgpx._selection._evidence import (
    ExactEvidence,
    SparseEvidence,
    with_noise,
)
from skgpx._selection._grow import grow
from skgpx._selection._noise import ABUNDANT_ROWS, SEARCHED_ROWS
from skgpx._selection._optimise import Found, Objective, maximise
from skgpx._selection._record import SearchRecord
from skgpx._selection._select import (
    NOISE_PRICE,
    ExactModel,
    SparseModel,
    Split,
    refine,
    select,
    subset,
    train,
)
from skgpx._validation import Rows, standardisation
from skgpx.diagnostics import Finding
from skgpx.kernels import GREKernel, split_noise, theta_entries
from skgpx.likelihoods import Gaussian, Likelihood

Array = NDArray[np.float64]

# From so many inducing points on the exact evidence is a better guide than their bound.
_LARGEST_BOUND, _BOUND_ROWS, _BOUND_ITER = 400, 2000, 60
# The most points of a model whose likelihood is not Gaussian, of one that is only
# evaluated, and of a search.
MOST, _COUNTED, _SEARCHED = 500, 1000, 400
# Observations from which on no signal is noise; fewer leave the function uncertain.
_FEWEST_NOISY = 100


class Hyperparameters(NamedTuple):
    """Prior and likelihood with their hyperparameters.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior kernel κ with its hyperparameters set.
    likelihood : Likelihood
        With its free scales set.
    log_evidence : float
        Evidence at these values, in nats; NaN without a search.
    record : SearchRecord
        Which rows searched.
    found : Found or None
        Where the search ended, for the next one; None without a signal.
    exact_noise : float
        Noise variance beside an exact process of some rows; NaN where there is none.
    n_inducing : int
        Inducing points after which twice as many do not gain; 0 where not counted.
    findings : tuple of Finding
    """

    kernel: Any
    likelihood: Any
    log_evidence: float = np.nan
    record: SearchRecord = SearchRecord()
    found: Found | None = None
    exact_noise: float = np.nan
    n_inducing: int = 0
    findings: tuple[Finding, ...] = ()


def learn_prior(
    rows: Rows,
    likelihood: Likelihood,
    rng: np.random.Generator,
    *,
    kernel: Any = None,
    learn: bool = True,
    inducing: Any = "greedy",
    n_inducing: int | None = None,
    screening_rows: int = 500,
    n_jobs: int | None = None,
    previous: Hyperparameters | None = None,
) -> Hyperparameters:
    """Kernel and likelihood by maximum a posteriori, and the choice between kernels.

    Rows that are alone at their inputs count once: duplicate rows make the likelihood
    of the noise variance unbounded. Weights above one enter the posterior only.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    kernel : sklearn.gaussian_process.kernels.Kernel, optional
        None stands for the default candidates.
    learn : bool, default=True
        False leaves kernel and likelihood as they are.
    inducing : str, array or callable
    n_inducing : int, optional
        Of the model; None is as many as it takes, for Gaussian noise.
    screening_rows : int, default=500
        Rows that the first searches read, for Gaussian noise.
    n_jobs : int or None
    previous : Hyperparameters, optional
        Of an earlier fit, where the search starts.
    """
    unit = latent_scale(rows, likelihood) ** 2
    if kernel is None:
        groups = default_candidates(rows, likelihood, unit)
        kernel = groups[0][-1].kernel
    else:
        kernel, likelihood = _with_noise(kernel, rows, likelihood)
        groups = [[of_kernel(kernel, rows, unit)]]
    record = SearchRecord(distinct_rows=len(rows.y))
    if not learn or not len(kernel.theta) + len(likelihood.theta):
        return Hyperparameters(kernel, likelihood, record=record)
    counted = rows if likelihood.discrete else counted_once(rows)
    if isinstance(likelihood, Gaussian):
        sizes = screening_rows, SEARCHED_ROWS, SEARCHED_ROWS, ABUNDANT_ROWS
        model: Any = ExactModel(sizes)
    else:
        planned = len(rows.y) if n_inducing is None else n_inducing
        model = SparseModel.of(likelihood, inducing, planned, rng)
    split = Split.of(counted, model.sizes, rng)
    if previous is None or previous.found is None:
        best = select(groups, split, likelihood, model, n_jobs)
    else:
        best = train(
            split.training, model, previous.found._replace(likelihood=likelihood)
        )
    exact_noise = np.nan
    if isinstance(likelihood, Gaussian):
        best = refine(best, split, n_jobs)
        exact_noise = best.noise_variance if best.gain > NOISE_PRICE else np.nan
        if n_inducing is not None and n_inducing < min(len(rows.y), _LARGEST_BOUND):
            best = _by_bound(best, counted, inducing, n_inducing, rng)
    elif likelihood.n_outputs_ == 1 and n_inducing is not None:
        best = _with_capacity(best, groups[0], counted, model, n_inducing, rng)
    share = float(rows.weights.sum() / split.training.weights.sum())
    default, found_signal = not groups[0][0].given, best.gain > NOISE_PRICE
    found = best if found_signal else None
    findings = [diagnostics.no_signal(best.gain, NOISE_PRICE, rows.y, rows.weights)]
    if (found_signal and not isinstance(likelihood, Gaussian)) or not default:
        how = best.kernel, default, likelihood.log_scale
        findings.append(diagnostics.at_bounds(*how))
    if not found_signal and split.training.weights.sum() >= _FEWEST_NOISY:
        best = _all_noise(best, split.training)
    record = record._replace(
        criterion="log posterior of the hyperparameters",
        rows_searched=len(split.training.y),
        kernel=best.candidate.name,
        rows_held_out=0 if split.validation is None else len(split.validation.y),
    )
    return Hyperparameters(
        best.kernel,
        best.likelihood,
        share * best.evidence,
        record,
        found,
        exact_noise,
        best.n_inducing,
        tuple(one for one in findings if one is not None),
    )


def _all_noise(found: Found, rows: Rows) -> Found:
    """The smallest amplitude with the variance of y as noise, unless that is worse.

    Without a signal the evidence cannot tell short lengthscales from noise: it is the
    hyperprior that divides the variance of y between them.
    """
    candidate = found.candidate
    gaussian = isinstance(found.likelihood, Gaussian)
    if not (gaussian and len(found.likelihood.theta) and candidate.n_free):
        return found
    theta = found.kernel.theta
    for entry, part in theta_entries(found.kernel):
        if entry.endswith("constant_value"):
            theta[part] = found.kernel.bounds[part, 0]
    u = candidate.coordinates_of(found.kernel.clone_with_theta(theta))
    u = np.where(candidate.lengths, candidate.starts()[0], u)
    square = float(np.average(rows.y**2, weights=rows.precisions))
    noise = with_noise(found.likelihood, square)
    quiet = candidate.kernel_at(u)
    how = np.concatenate((quiet.theta, noise.theta))
    value = ExactEvidence(rows, quiet, noise).value_and_gradient(how)[0]
    if value < found.evidence - NOISE_PRICE:
        return found
    return found._replace(u=u, likelihood=noise, evidence=value)


def _by_bound(
    found: Found, rows: Rows, inducing: Any, m: int, rng: np.random.Generator
) -> Found:
    """Search on by the collapsed bound of few points, which leave out more.

    The noise starts as it was found or as the variance of y, whichever is better. A
    bound that is lost in pure noise does not replace the kernel.
    """
    some = subset(rows, rng.permutation(len(rows.y))[:_BOUND_ROWS])
    square = float(np.average(some.y**2, weights=some.precisions))
    scales = [found.likelihood, with_noise(found.likelihood, square)]
    starts = [
        SparseEvidence.selected(some, found.kernel, scale, inducing, m, rng)
        for scale in scales
    ]
    values = [
        Objective(found.candidate, [one])(np.append(found.u, one.likelihood.theta))[0]
        for one in starts
    ]
    start = starts[int(np.argmin(values))]
    end = maximise(found.candidate, [start], found.u, _BOUND_ITER)
    again = SparseEvidence.selected(some, end.kernel, end.likelihood, inducing, m, rng)
    end = maximise(found.candidate, [again], end.u, _BOUND_ITER)
    return end if end.gain > NOISE_PRICE else found


def _with_capacity(
    found: Found,
    group: list[Candidate],
    rows: Rows,
    model: SparseModel,
    planned: int,
    rng: np.random.Generator,
) -> Found:
    """Search on with as many inducing points as gain, for one latent function.

    The evidence of few points prefers smooth functions: the kernel of an exact process
    of rough latent values competes, each with the points that it gains from.
    """
    chosen = rng.permutation(len(rows.y))
    some = subset(rows, chosen[:SEARCHED_ROWS])

    def grown(one: Found) -> tuple[int, float]:
        theta = np.concatenate((one.kernel.theta, one.likelihood.theta))

        def score(m: int) -> float:
            how = some, one.kernel, one.likelihood, model.inducing, m, rng
            return SparseEvidence.selected(*how).value_and_gradient(theta)[0]

        return grow(score, planned, min(_COUNTED, len(rows.y)), some.weights.sum())

    (m, value), searched = grown(found), planned
    starts = []
    for start in _of_rough_values(group, rows, found.likelihood, rng):
        larger, other = grown(start)
        if other > value:
            m, value, starts = larger, other, [start]
    while (m > searched or starts) and searched < _SEARCHED:
        searched = min(max(m, 2 * planned if starts else m), _SEARCHED)
        n = min(max(int(1.5e8 / searched**2), 900), len(chosen))
        part = subset(rows, chosen[:n])
        ends = []
        for start in [found, *starts]:
            how = model.inducing, searched, rng
            evidence = SparseEvidence.selected(
                part, start.kernel, start.likelihood, *how
            )
            ends.append(maximise(start.candidate, [evidence], start.u, 40))
        found, starts = max(ends, key=lambda one: one.posterior), []
        m, value = grown(found)
    return found._replace(n_inducing=m if m > planned else 0)


def _of_rough_values(
    group: list[Candidate],
    rows: Rows,
    likelihood: Likelihood,
    rng: np.random.Generator,
) -> list[Found]:
    """Kernels of an exact process of 500 rough latent values under normal noise."""
    values = rough_latent(rows, likelihood)[:, 0]
    shift, scale = standardisation(values, rows.weights, robust=likelihood.heavy_tailed)
    rough = Rows(
        rows.X, np.sqrt(group[0].unit) * (values - shift) / scale, rows.weights
    )
    few = subset(rough, rng.permutation(len(rows.y))[:500])
    noise = Gaussian().prepare(few.y, few.weights)
    best = select([group], Split(few, few), noise, ExactModel())
    if best.gain <= NOISE_PRICE:
        return []
    u = np.where(best.candidate.lengths, best.u, best.candidate.starts()[0])
    return [Found(best.candidate, u, likelihood)]


# ---- What the search reads -----------------------------------------------------------


def counted_once(rows: Rows) -> Rows:
    """Rows whose weights are at most one where no other row has the same inputs."""
    X = rows.X
    order = np.lexsort(X.T[::-1])
    same = np.all(X[order[1:]] == X[order[:-1]], axis=1)
    alone = np.ones(len(X), dtype=bool)
    alone[order[1:]] &= ~same
    alone[order[:-1]] &= ~same
    once = np.where(alone, np.minimum(rows.weights, 1.0), rows.weights)
    return rows._replace(weights=once)


def rough_latent(rows: Rows, likelihood: Likelihood) -> Array:
    """Rough latent values of the rows around their base, (n, c)."""
    rough = np.asarray(likelihood.rough_latent(rows.y, rows.known), dtype=np.float64)
    return rough.reshape(len(rows.y), -1) - likelihood.base_latent_


def latent_scale(rows: Rows, likelihood: Likelihood) -> float:
    """Root mean square of the rough latent values: the unit of the default kernel.

    One for latent functions of known scale: those of standardised targets, log odds and
    log rates.
    """
    if likelihood.location_scale or likelihood.log_scale:
        return 1.0
    square = np.mean(rough_latent(rows, likelihood) ** 2, axis=1)
    scale = float(np.sqrt(np.average(square, weights=rows.weights)))
    return scale if np.isfinite(scale) and scale > 0.0 else 1.0


def with_base_rates(rows: Rows, likelihood: Likelihood, kernel: Any) -> Likelihood:
    """Likelihood whose prior expects, far from the data, what it did at its base.

    The variance there is that of a stationary kernel, or of the background of a GRE
    kernel; of others the mean over the rows.
    """
    if isinstance(kernel, GREKernel):
        variance = kernel.background * kernel.background_kernel().diag(rows.X)
    else:
        variance = kernel.diag(rows.X)
    return likelihood.centred(float(np.average(variance, weights=rows.weights)))


def _with_noise(
    kernel: Any, rows: Rows, likelihood: Likelihood
) -> tuple[Any, Likelihood]:
    """The latent function's kernel, and the likelihood with the kernel's noise."""
    kernel, noise, bounds = split_noise(clone(kernel))
    if noise is None:
        return kernel, likelihood
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            "A WhiteKernel is the noise of a Gaussian likelihood; got one together "
            f"with {type(likelihood).__name__}. Remove the WhiteKernel from `kernel`."
        )
    if isinstance(bounds, str):
        return kernel, Gaussian(noise).prepare(rows.y, rows.weights)
    low, high = np.ravel(np.asarray(bounds, dtype=np.float64)).tolist()
    return kernel, likelihood.with_start(noise_variance=(noise, low, high))
