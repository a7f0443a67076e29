"""Prior kernel and scales of the likelihood, before a method begins."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel

from skgpx import diagnostics
from skgpx._hyperparameters._averaging import (
    MOST_COORDINATES,
    average,
    with_least_noise,
    with_mean_noise,
)
from skgpx._hyperparameters._candidates import (
    ADDITIVE_ORDERS,
    ALL_ORDERS,
    MARKOV_ORDERS,
    MOST_ADDITIVE_COLUMNS,
    SMOOTH_ORDERS,
    Candidate,
    default_candidates,
    has_log_odds,
    of_kernel,
    points_of,
)
from skgpx._hyperparameters._evidence import (
    Inducing,
    SparseEvidence,
    has_both_signs,
    mean_square,
    with_noise,
    within_variance,
)
from skgpx._hyperparameters._laplace_search import (
    laplace_search,
    rough_latent,
    starts_by_regression,
)
from skgpx._hyperparameters._maximise import MIN_EVIDENCE_GAIN, State, best_of, maximise
from skgpx._hyperparameters._modes import NO_NOISE
from skgpx._hyperparameters._normal_form import NormalForm
from skgpx._hyperparameters._process_evidence import (
    is_softmax,
    suits_a_normal,
)
from skgpx._hyperparameters._scale_of_y import (
    FEWEST_ROWS_OF_SCALE,
    best_with_trend,
    is_constant,
    scale_of_y,
    search_few_rows,
    tells_scale,
)
from skgpx._hyperparameters._select import (
    Split,
    has_little_noise,
    is_series,
    search,
    select,
    subset,
    train,
    with_periods,
)
from skgpx._hyperparameters._sparse import MAX_INDUCING_SEARCHED
from skgpx._hyperparameters._working_responses import (
    depends_on_contrasts,
    varying_scale_search,
    working_responses,
)
from skgpx._numerics.warping import TRANSFORMS
from skgpx._row_budgets import (
    ABUNDANT_ROWS,
    AVERAGED_CLASS_ROWS,
    AVERAGED_ROWS,
    CLASS_VALUES,
    RESPONSE_ROWS,
    SCREENING_ROWS,
    SEARCHED_ROWS,
    SPARSE_ROWS,
)
from skgpx._shell.kernel_requests import EVERYTHING, DefaultKernel
from skgpx._shell.row_statistics import counted_once
from skgpx._shell.validation import (
    Rows,
    canonical_rows,
    generator,
    in_unit_scale,
    standardisation,
)
from skgpx._types import Generator, Kernel
from skgpx.diagnostics import Finding
from skgpx.kernels import (
    VALUE,
    Functionals,
    GREKernel,
    decays,
    parts_with,
    rescaled,
    split_noise,
    stated_priors,
    theta_entries,
)
from skgpx.likelihoods import Gaussian, Likelihood, Warped
from skgpx.likelihoods._warped import of_targets

# Observations from which on a search without a signal ends with noise around the mean:
# fewer leave the function uncertain.
_MIN_WEIGHT_OF_NOISE = 100.0
# Prior variance of the logarithm of a scale that varies, before its own hyperprior.
_SCALE_UNIT = 0.3
# Its largest value, a standard deviation of 6 nats.
_LARGEST_SCALE_VARIANCE = 36.0
# Order of the Matern kernels whose functions have rough slopes, or none.
_ROUGH_ORDER = 1.5
# The most classes whose kernel comes from all rows: each has working responses.
_MOST_CLASSES = 10


def learn_in_columns(
    rows: Rows,
    likelihood: Likelihood,
    rng: Generator,
    *,
    kernel: Kernel | None = None,
    fixed: bool = False,
    inducing: Inducing = "greedy",
    n_inducing: int | None = None,
    rough: bool = True,
    smooth: bool = False,
    n_jobs: int | None = None,
    previous: State | None = None,
    trend: bool = True,
    sums: bool = False,
    hyperparameters: str = "maximise",
    report: Callable[..., bool] | None = None,
) -> list[State]:
    """Kernel and likelihood: the maximum a posteriori, or states to average.

    Rows with unique inputs get weight at most one: duplicate rows make the
    likelihood of the noise variance unbounded. Larger weights enter the posterior only.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    kernel : sklearn.gaussian_process.kernels.Kernel, optional
        None stands for the default candidates, a DefaultKernel too.
    fixed : bool, default=False
        Whether the kernel stays as it is; scales of a likelihood of one function that
        are not given are learned.
    inducing : str, array or callable
    n_inducing : int, optional
        Of the model; None is as many as it takes, for Gaussian noise.
    rough : bool, default=True
        Whether the model follows rough functions, as those of nearest rows and exact
        ones do: Matern 1/2 is a default candidate, and rows from all over the data
        compare the candidates where they abound.
    smooth : bool, default=False
        Whether default functions have two derivatives, and no seasons.
    n_jobs : int or None
    previous : State, optional
        End of an earlier fit, where the search starts.
    trend : bool, default=True
        Whether the default kernel may be a sum: with a linear trend, with seasons of
        one column, or of functions of one column and of two.
    sums : bool, default=False
        Whether it may be a sum of functions, where no trend is looked for.
    hyperparameters : {"maximise", "average", "auto"}, default="maximise"
        "auto" averages where rows are few and every hyperparameter has a prior.
    report : callable, optional
        Called with figures after each round of a search that has some; True ends them.

    Returns
    -------
    states : list of State
        The first is that of the largest weight in the most probable family.
    """
    # 1 candidate kernels
    request = kernel if isinstance(kernel, DefaultKernel) else EVERYTHING
    families, likelihood = _families_of(
        kernel, rows, likelihood, rough, fixed=fixed, additive=trend or sums
    )
    families = _smooth_families(families, rows.X.shape[1]) if smooth else families
    candidate = families[0][-1]
    counted = rows if likelihood.discrete else counted_once(rows)
    if fixed or len(candidate.kernel.theta) + len(likelihood.theta) == 0:
        return [_with_kernel_as_given(candidate, counted, likelihood)]
    # 2 rows
    split = Split.of(counted, rng, rough, smooth)
    start = None
    if previous is not None and previous.has_signal:
        start = previous._replace(likelihood=likelihood)
    # 3 the search: by the evidence or, of many rows, by densities of neighbourhoods
    if _averages(hyperparameters, families, rows, likelihood, n_inducing):
        states = average(
            families,
            split,
            likelihood,
            rng,
            trend=trend,
            requested=hyperparameters == "average",
            n_jobs=n_jobs,
        )
        if len(states) > 1:
            return states
        state = states[0]
    elif likelihood.has_closed_form:
        state = exact_search(
            families,
            split,
            likelihood,
            rng,
            inducing=inducing,
            n_inducing=n_inducing,
            start=start,
            trend=trend,
            n_jobs=n_jobs,
        )
    elif _is_long_series(families, split, likelihood):
        markov = [family for family in families if is_series(family[-1].kernel, rows)]
        if start is None or not is_series(start.kernel, rows):
            state = select(markov, split, likelihood, n_jobs, trend)
        else:
            state = train([start], split)
        state = with_periods(state, split)
    elif not _has_neighborhoods(families, split, likelihood):
        state = _of_both_signs(
            families,
            rows,
            likelihood,
            rng,
            request,
            rough,
            split=split,
            inducing=inducing,
            n_inducing=n_inducing,
            start=start,
            trend=trend,
            n_jobs=n_jobs,
        )
    else:
        state = _of_neighborhoods(
            families,
            split,
            likelihood,
            rng,
            request=request,
            start=start,
            trend=trend,
            n_jobs=n_jobs,
            report=report,
        )
    # 4 the noise of what was chosen
    is_noise = not (state.has_signal or state.candidate.is_given)
    if is_noise and state.total_weight >= _MIN_WEIGHT_OF_NOISE:
        state = noise_only(state, split.training)
    likelihood = within_variance(_fix_stated_noise(state), rows)
    return [state._replace(likelihood=likelihood)]


def _with_kernel_as_given(
    candidate: Candidate,
    rows: Rows,
    likelihood: Likelihood,
) -> State:
    """The kernel as it is, and scales that are not given by the evidence of rows."""
    # Laplace's evidence of a scale that varies has no maximum
    if len(likelihood.theta) and not likelihood.has_varying_scale:
        is_exact = likelihood.has_closed_form
        rows = rows.thinned(SEARCHED_ROWS if is_exact else SCREENING_ROWS)
        state = search(candidate.as_given(), np.empty(0), rows, likelihood)
        likelihood = within_variance(_fix_stated_noise(state), rows)
    # the kernel itself, not one of its log-parameters
    return State(candidate.without_coordinates(np.empty(0)), np.empty(0), likelihood)


def learn_scale(
    rows: Rows,
    likelihood: Likelihood,
    rng: Generator,
    *,
    kernel: Kernel | None,
    rough: bool,
    positive: bool = True,
    fewest: int = FEWEST_ROWS_OF_SCALE,
) -> Likelihood:
    """The likelihood on the scale of y that the evidence of normal noise prefers.

    Of thirty rows or more, whose noise is not given; of each target by itself.

    Parameters
    ----------
    rows : Rows
        In the units of y.
    likelihood : Likelihood
        A `Warped` one without a power gets one; Gaussian noise stays where y has it.
    rng : numpy.random.Generator
    kernel, rough
        As those of :func:`learn`, for standardised targets.
    positive : bool, default=True
        Whether all targets are positive if those of the rows are.
    fewest : int, default=30
        Rows of which a scale is learned where none is asked for.
    """
    is_warped = isinstance(likelihood, Warped)
    if is_warped:
        likelihood.check_parameters()
        likelihood._check_targets(rows.y)
    if rows.y.ndim > 1:
        learned = []
        for j, y in enumerate(rows.y.T):
            on_its_scale = learn_scale(
                rows._replace(y=y).take(~np.isnan(y)),
                likelihood._of_column(j) if is_warped else likelihood,
                # the same draws for each, so that equal targets are equal
                copy.deepcopy(rng),
                kernel=kernel,
                rough=rough,
                positive=positive,
            )
            learned.append(on_its_scale)
        return of_targets(learned)
    rows = canonical_rows(*rows).thinned(RESPONSE_ROWS)
    rows = counted_once(rows)._replace(known=None)
    transforms = list(TRANSFORMS)
    if not positive or rows.y.min() <= 0.0:
        transforms.remove("box-cox")
    if is_warped:
        transforms = (
            transforms if likelihood.transform is None else [likelihood.transform]
        )
        likelihood.check_support(rows.y)
        if is_constant(rows.y):
            return likelihood._replace(power=1.0)
    elif not tells_scale(rows, fewest) or _has_noise(kernel):
        return likelihood
    mean, std = standardisation(rows.y, rows.weights)
    standard = rows._replace(y=(rows.y - mean) / std)
    normal: Likelihood = Gaussian().prepare(standard.y, standard.weights)
    families, normal = _families_of(kernel, standard, normal, rough, additive=True)
    scale = scale_of_y(
        families,
        Split.of(rows, rng, rough),
        with_least_noise(normal, families[0][0]),
        transforms,
        odds=0.0 if is_warped else 1.0,
    )
    if scale is None:
        return likelihood
    learned = likelihood if is_warped else Warped()
    return learned._replace(
        transform=scale.warp.transform,
        power=scale.warp.power,
        power_std_=scale.power_std,
        probability_=scale.probability,
    )


def on_scale(
    estimator: Any,
    likelihood: Likelihood,
    rows: Rows,
    kernel: Kernel | None,
    rough: bool,
    positive: bool = True,
) -> Likelihood:
    """The likelihood on the scale of y on which its noise is normal, if it is learned.

    Asked for by `Warped`, and by default. See :func:`learn_scale`.
    """
    is_asked = isinstance(likelihood, Warped) and likelihood.power is None
    if not (is_asked or learns_noise(estimator, rows, kernel)):
        return likelihood
    return learn_scale(
        rows,
        likelihood,
        selection_rng(estimator),
        kernel=kernel,
        rough=rough,
        positive=positive,
    )


def learns_noise(estimator: Any, rows: Rows, kernel: Kernel | None) -> bool:
    """Whether the data are to choose the scale of y and the tails of the noise.

    By default, unless the noise of the rows, the unit of y or all hyperparameters of
    the estimator are given.
    """
    is_free = rows.known is None and not _has_noise(kernel)
    is_fitted = estimator.normalize_y and estimator.optimizer is not None
    return estimator.likelihood is None and is_free and is_fitted


def selection_rng(estimator: Any) -> Generator:
    """Of the rows that choose a likelihood before a fit."""
    return generator(copy.deepcopy(estimator.random_state)).spawn(5)[-1]


def most_probable(
    estimator: Any,
    likelihoods: Sequence[Likelihood],
    rows: Rows,
    kernel: Kernel | None,
) -> Likelihood:
    """The likelihood under which some of the rows have the largest evidence.

    By the exact evidence, or its bound, of one family of kernels: so few evaluations
    take a part of the time of a fit. The first one that explains these rows without
    noise is taken: nothing tells the tails of a noise that there is none of.

    Parameters
    ----------
    estimator : estimator
    likelihoods : sequence of Likelihood
        Of one latent function, and of y in its units.
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel, optional
        As that of :func:`learn`.
    """
    rows = counted_once(canonical_rows(*rows))
    split = Split.of(rows, selection_rng(estimator))
    evidences: list[float] = []
    for likelihood in likelihoods:
        evidences.append(_evidence_of(estimator, likelihood, split, kernel))
        if np.isinf(evidences[-1]):
            break
    return likelihoods[int(np.argmax(evidences))]


def _evidence_of(
    estimator: Any,
    likelihood: Likelihood,
    split: Split,
    kernel: Kernel | None,
) -> float:
    """The largest evidence of at most 500 rows, in the units of y.

    Infinite where the function goes through all of them, without normal noise.
    """
    form = NormalForm.of(likelihood, split.scattered)
    _, rows, likelihood, units = in_unit_scale(
        form.rows,
        form.likelihood,
        kernel,
        estimator.normalize_y,
    )
    likelihood = likelihood.prepare(rows.y, rows.weights, rows.known)
    constant = form.constant + rows.weights.sum() * np.log(units.scale)
    fixed = estimator.optimizer is None
    families, likelihood = _families_of(
        kernel, rows, likelihood, rough=False, fixed=fixed
    )
    family = families[len(families) // 2]
    if fixed:
        family = [family[-1].as_given()]
    if likelihood.has_closed_form:
        state = search_few_rows(family, split, likelihood, rows)
        if has_little_noise(state, NO_NOISE):
            return np.inf
    else:
        start = best_of(starts_by_regression([family], rows, likelihood, n_jobs=1))
        state = search(start.candidate, start.u, rows, likelihood, tolerance=1e-3)
        if rows.X.shape[1] == 1:
            # a season may be worth more than the tails
            state = best_with_trend([state], split, rows)
    return state.evidence - constant


def _has_noise(kernel: Kernel | None) -> bool:
    """Whether a WhiteKernel gives the noise of y."""
    if kernel is None or isinstance(kernel, DefaultKernel):
        return False
    return split_noise(kernel)[1] is not None


def search_record(states: Sequence[State], rows: Rows) -> dict[str, Any]:
    """Which rows chose the hyperparameters, and by which criterion, for reports."""
    state = states[0]
    if not state.n_rows:
        return {"criterion": "nothing was free", "distinct_rows": len(rows.y)}
    record = {
        "criterion": "log posterior of the hyperparameters",
        "distinct_rows": len(rows.y),
        "rows_searched": state.n_rows,
        "kernel": state.name,
    }
    if len(states) > 1:
        record["criterion"] = "posterior of the hyperparameters, averaged"
        record["states"] = len(states)
    return record | _period_record(states)


def _period_record(states: Sequence[State]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of each period, over the states that have it.

    Without those that are unknown, by a standard deviation above the mean.
    """
    record = {}
    number = 0
    while with_period := [state for state in states if len(state.period_stds) > number]:
        weights = np.array([state.weight for state in with_period])
        periods = np.array([state.periods[number] for state in with_period])
        stds = np.array([state.period_stds[number] for state in with_period])
        mean = np.average(periods, weights=weights)
        variance = np.average(stds**2 + (periods - mean) ** 2, weights=weights)
        entry = {"mean": float(mean), "std": float(np.sqrt(variance))}
        if weights.sum() < 1.0 - 1e-9:
            entry["weight"] = float(weights.sum())
        number += 1
        # a period that may as well be any other is not known
        if entry["std"] <= mean:
            record["period" if number == 1 else f"period_{number}"] = entry
    return record


def search_findings(states: Sequence[State], rows: Rows) -> list[Finding]:
    """What the search says of equal rows, of its signal and of bounds."""
    state = states[0]
    if not state.n_rows:
        return []
    is_given = state.candidate.is_given
    likelihood = state.likelihood
    counted = rows if likelihood.discrete else counted_once(rows)
    findings = [
        diagnostics.equal_rows(rows, counted.weights.sum()),
        diagnostics.no_signal(state.gain, MIN_EVIDENCE_GAIN, rows),
    ]
    if is_given or (state.has_signal and not likelihood.has_closed_form):
        at_bounds = diagnostics.at_bounds(
            state.kernel,
            default=not is_given,
            log_scale=likelihood.log_scale,
        )
        findings.append(at_bounds)
    return [finding for finding in findings if finding is not None]


def _of_both_signs(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    rng: Generator,
    request: DefaultKernel,
    rough: bool,
    **settings: Any,
) -> State:
    """Search by Laplace's evidence; of f around its base and, if its sign is not known,
    of f around zero, which crosses it.
    """
    # both searches read the same rows
    same_rng = copy.deepcopy(rng)
    state = laplace_search(families, likelihood=likelihood, rng=rng, **settings)
    if not likelihood.symmetric or has_both_signs(likelihood):
        return state
    centred = likelihood.with_base(0.0)
    if not families[0][0].is_given:
        families = _default_families(request, rows, centred, rough)
    if settings["start"] is not None:
        settings["start"] = settings["start"]._replace(likelihood=centred)
    signed = laplace_search(families, likelihood=centred, rng=same_rng, **settings)
    if signed.posterior <= state.posterior:
        return state
    # over the noise that the other search has
    gain = state.gain + signed.evidence - state.evidence
    return signed._replace(gain=gain)


def _is_long_series(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
) -> bool:
    """Whether stretches of abundant rows of one column compare Markov processes."""
    kernels = [family[-1].kernel for family in families]
    is_markov = any(is_series(kernel, split.rows) for kernel in kernels)
    return split.abundant and split.rough and is_markov and suits_a_normal(likelihood)


def _has_neighborhoods(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
) -> bool:
    """Whether working responses of many rows can train the kernel."""
    n_columns = split.rows.X.shape[1]
    kernels = [family[-1].kernel for family in families]
    all_decay = all(decays(kernel, n_columns) for kernel in kernels)
    # working responses are those of one mode
    suits = split.abundant and likelihood.n_outputs_ == 1 and not likelihood.symmetric
    if likelihood.n_outputs_ > 1 and split.rough:
        # a log scale has a kernel of its own, for which there are no chains; on few
        # points classes need longer lengthscales than all rows show
        is_of_classes = _has_few_classes(split.rows, likelihood)
        suits = likelihood.has_varying_scale or (split.abundant and is_of_classes)
    return suits and all_decay


def _has_few_classes(rows: Rows, likelihood: Likelihood) -> bool:
    """Whether there are at most ten latent functions, of classes of so many rows."""
    is_few = 1 < likelihood.n_outputs_ <= _MOST_CLASSES
    is_few = is_few and len(rows.y) * likelihood.n_outputs_ <= CLASS_VALUES
    return is_few and depends_on_contrasts(rows, likelihood)


def _of_neighborhoods(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    request: DefaultKernel,
    start: State | None,
    trend: bool,
    n_jobs: int | None,
    report: Callable[..., bool] | None,
) -> State:
    """Search by the nearest rows, under a likelihood that is not Gaussian."""
    if not likelihood.has_varying_scale:
        return working_responses(
            families,
            split,
            likelihood,
            rng,
            start=start,
            trend=trend,
            n_jobs=n_jobs,
            report=report,
        )
    location_families = families
    is_long = split.abundant and split.rows.X.shape[1] == 1
    if not families[0][0].is_given:
        # as in regression
        y = likelihood.initial_latent(split.rows.y)[:, 0]
        normal = Gaussian().prepare(y, split.rows.weights)
        orders = MARKOV_ORDERS if is_long else None
        location_families = _default_families(
            request, split.rows, normal, rough=True, orders=orders
        )
    scale_families = _scale_families(families, split.rows, likelihood, request)
    if is_long:
        # filter and smoother, where kernels may be Markov
        markov = [
            [family for family in families if is_series(family[-1].kernel, split.rows)]
            for families in (location_families, scale_families)
        ]
        if all(markov):
            location_families, scale_families = markov
    return varying_scale_search(
        location_families,
        scale_families,
        split,
        likelihood,
        rng,
        trend=trend,
        n_jobs=n_jobs,
        report=report,
    )


def _scale_families(
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    request: DefaultKernel,
) -> Sequence[Sequence[Candidate]]:
    """Families of a log scale that varies by half a nat: a smooth and a rough one.

    Or the kernel of the user, with an amplitude of the log scale if it has none that is
    free. A stated variation is the prior standard deviation of the log scale: default
    kernels then have variance one.
    """
    variation_is_free = "variation" in likelihood.free_
    candidate = families[0][0]
    if candidate.is_given:
        if not variation_is_free or rescaled(candidate.kernel, 1.0) is not None:
            return families
        bounds = (1e-3 * _SCALE_UNIT, _LARGEST_SCALE_VARIANCE)
        amplitude = ConstantKernel(_SCALE_UNIT, bounds)
        product = of_kernel(amplitude * candidate.kernel, rows, 1.0)
        return [[replace(product, stated=[None, *candidate.stated])]]
    scale = likelihood.of_scale()
    orders = SMOOTH_ORDERS[::2]
    if len(rows.y) >= ABUNDANT_ROWS:
        # of a series Markov processes
        orders = MARKOV_ORDERS[1::2] if rows.X.shape[1] == 1 else ALL_ORDERS[::3]
    families = default_candidates(rows, scale, _SCALE_UNIT, request, orders)
    if variation_is_free:
        return families
    return [[_of_variance_one(family[-1], rows)] for family in families]


def _of_variance_one(candidate: Candidate, rows: Rows) -> Candidate:
    """A default candidate whose variance is fixed at one."""
    kernel: Any = candidate.kernel
    kernel = rescaled(kernel, 1.0 / float(kernel.diag(rows.X[:1])[0]))
    for name, _ in theta_entries(kernel):
        if name.endswith(("constant_value", "variances")):
            kernel.set_params(**{f"{name}_bounds": "fixed"})
    return of_kernel(kernel, rows, 1.0, name=candidate.name, is_given=False)


def _averages(
    hyperparameters: str,
    families: Sequence[Sequence[Candidate]],
    rows: Rows,
    likelihood: Likelihood,
    n_inducing: int | None,
) -> bool:
    """Whether hyperparameters are averaged.

    "auto": of few rows of a location under noise, which few rows may choose to be next
    to nothing, with intervals that are as narrow, and of classes, of which few rows do
    not tell the columns that matter; if there are not too many hyperparameters and all
    of them have a prior, by default or stated by the user, and targets differ.

    Raises
    ------
    ValueError
        If they should be averaged and cannot be.
    """
    # contrasts between classes multiply the number of latent values
    n_contrasts = max(likelihood.n_outputs_ - 1, 1)
    largest = SEARCHED_ROWS
    if not likelihood.has_closed_form:
        largest = AVERAGED_ROWS // n_contrasts
    n_targets = rows.y.size // len(rows.y)
    possible = rows.y.ndim == 1 and len(rows.y) <= largest
    if hyperparameters == "average" and not possible:
        raise ValueError(
            'hyperparameters="average" is for one target and at most '
            f"{largest} rows under {likelihood!r}; got {n_targets} targets and "
            f'{len(rows.y)} rows. Use hyperparameters="auto", which averages where it '
            "can."
        )
    varies = bool(np.any(rows.y != rows.y[0]))
    if hyperparameters == "average" and not varies:
        raise ValueError(
            'hyperparameters="average" needs targets that differ; got '
            f'{rows.weights.sum():g} equal ones. Use hyperparameters="auto", which '
            "then chooses."
        )
    if hyperparameters != "auto":
        return hyperparameters == "average"
    gains = likelihood.location_scale or has_log_odds(likelihood)
    if likelihood.n_outputs_ > 1:
        gains = is_softmax(likelihood)
    if rows.y.ndim > 1 or not (varies and gains):
        return False
    candidate = families[0][-1]
    # the noise has a default prior
    stated = candidate.stated[: candidate.n_free]
    is_proper = not (candidate.is_given and None in stated)
    largest = AVERAGED_ROWS
    if likelihood.has_closed_form and n_inducing is None:
        # states of the rows of the search; a series is trained on all of them
        largest = SEARCHED_ROWS if rows.X.shape[1] == 1 else ABUNDANT_ROWS - 1
    if has_log_odds(likelihood):
        largest = AVERAGED_CLASS_ROWS // n_contrasts
    are_few = candidate.n_free <= MOST_COORDINATES and len(rows.y) <= largest
    return is_proper and are_few


def _families_of(
    kernel: Kernel | None,
    rows: Rows,
    likelihood: Likelihood,
    rough: bool,
    fixed: bool = False,
    additive: bool = False,
) -> tuple[list[list[Candidate]], Likelihood]:
    """Candidates, one if the user states it, and the likelihood with its noise."""
    if kernel is None:
        kernel = EVERYTHING
    if isinstance(kernel, DefaultKernel):
        families = _default_families(kernel, rows, likelihood, rough, additive)
        return families, likelihood
    if isinstance(kernel, Functionals):
        # functions of the roughest family have no slopes
        has_slopes = np.any(kernel.rows(rows.X).derivative != VALUE)
        families, likelihood = _families_of(
            kernel.kernel,
            points_of(rows, kernel),
            likelihood,
            rough=rough and not has_slopes,
            fixed=fixed,
            additive=additive,
        )
        of_functionals = [
            [candidate.of_functionals(kernel) for candidate in family]
            for family in families
        ]
        return of_functionals, likelihood
    candidate, likelihood = _user_candidate(kernel, rows, likelihood, fixed)
    return [[candidate]], likelihood


def default_products(
    rows: Rows,
    likelihood: Likelihood,
    rough: bool,
) -> list[list[Candidate]]:
    """Default families of functions in which all columns of numbers interact."""
    return _default_families(EVERYTHING, rows, likelihood, rough)


def _default_families(
    request: DefaultKernel,
    rows: Rows,
    likelihood: Likelihood,
    rough: bool,
    additive: bool = False,
    orders: Sequence[float] | None = None,
) -> list[list[Candidate]]:
    """Families of the default kernel, rough ones as well if the model follows them.

    Few rows take noise for roughness, and under other likelihoods than the Gaussian all
    but abundant ones, of which nearest rows do not know additive families.
    """
    suits = likelihood.n_outputs_ == 1 or _has_few_classes(rows, likelihood)
    fewest = ABUNDANT_ROWS
    if likelihood.has_closed_form:
        fewest = SCREENING_ROWS
    if orders is None and rough and suits and len(rows.y) >= fewest:
        orders = ALL_ORDERS
    unit = latent_scale(rows, likelihood) ** 2
    families = default_candidates(rows, likelihood, unit, request, orders)
    # sums of functions of one column and of two, of three or more that interact
    d = rows.X.shape[1]
    suits = likelihood.has_closed_form or len(rows.y) < ABUNDANT_ROWS
    additive = additive and suits and 2 < d <= MOST_ADDITIVE_COLUMNS
    suits = likelihood.n_outputs_ == 1 or is_softmax(likelihood)
    if additive and suits and request.interacting(d)[1] == d:
        pairwise = DefaultKernel(request.kernel, request.columns, "pairwise")
        sums = default_candidates(rows, likelihood, unit, pairwise, ADDITIVE_ORDERS)
        families += [family[-1:] for family in sums]
    return families


def _smooth_families(
    families: list[list[Candidate]],
    n_columns: int,
) -> list[list[Candidate]]:
    """Default families of functions with two derivatives; that of the user as it is."""
    columns = np.arange(n_columns)

    def order(kernel: Kernel) -> float:
        orders = [part.nu for part, _ in parts_with("nu", kernel, columns)]
        return min(orders, default=np.inf)

    smooth = [family for family in families if order(family[-1].kernel) > _ROUGH_ORDER]
    return smooth or families


def _user_candidate(
    kernel: Kernel,
    rows: Rows,
    likelihood: Likelihood,
    fixed: bool,
) -> tuple[Candidate, Likelihood]:
    """Candidate of the latent function's kernel; likelihood with the kernel's noise.

    Without a search that noise is fixed.
    """
    stated = stated_priors(kernel)
    kernel, noise, bounds = split_noise(clone(kernel))
    unit = latent_scale(rows, likelihood) ** 2
    candidate = replace(of_kernel(kernel, rows, unit), stated=stated)
    if noise is None:
        return candidate, likelihood
    if not likelihood.has_closed_form:
        raise ValueError(
            "A WhiteKernel is the noise of a Gaussian likelihood; got one together "
            f"with {type(likelihood).__name__}. Remove the WhiteKernel from `kernel`."
        )
    if isinstance(bounds, str) or fixed:
        return candidate, Gaussian(noise).prepare(rows.y, rows.weights)
    low, high = np.ravel(np.asarray(bounds, dtype=np.float64)).tolist()
    return candidate, likelihood.with_start(noise_variance=(noise, low, high))


def _fix_stated_noise(state: State) -> Likelihood:
    """Fix a noise that has a stated prior: later estimates do not replace it."""
    if not any(state.candidate.stated[-1:]):
        return state.likelihood
    noise = state.noise_variance
    return state.likelihood.with_start(noise_variance=(noise, noise, noise))


# ---- Units and weights of the rows ---------------------------------------------------


def latent_scale(rows: Rows, likelihood: Likelihood) -> float:
    """Root mean square of the rough latent values: the unit of the default kernel.

    One for latent functions of known scale: standardised targets, log odds and log
    rates.
    """
    if likelihood.location_scale or likelihood.log_scale:
        return 1.0
    square = np.mean(rough_latent(rows, likelihood) ** 2, axis=1)
    scale = float(np.sqrt(np.average(square, weights=rows.weights)))
    if not np.isfinite(scale) or scale <= 0.0:
        return 1.0
    return scale


def with_base_rates(rows: Rows, likelihood: Likelihood, kernel: Kernel) -> Likelihood:
    """Likelihood that expects its base value far from the data.

    The variance there is the prior variance of a stationary kernel, or of the
    background of a GRE kernel; of other kernels the mean over the rows.
    """
    if isinstance(kernel, GREKernel):
        variance = kernel.background * kernel.background_kernel().diag(rows.X)
    else:
        variance = kernel.diag(rows.X)
    return likelihood.centred(float(np.average(variance, weights=rows.weights)))


# ---- Search for kernel and noise by the evidence of a Gaussian likelihood ------------


def exact_search(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    inducing: Inducing,
    n_inducing: int | None,
    start: State | None,
    trend: bool,
    n_jobs: int | None,
) -> State:
    """Maximise the exact evidence, of some rows or of neighbourhoods.

    All candidates compete, unless an earlier search is continued from its end, `start`.
    A model of few inducing points is then searched on by its own bound.
    """
    if start is not None:
        best = train([start], split)
    else:
        best = select(families, split, likelihood, n_jobs, trend)
    best = with_mean_noise(best, families, split, likelihood)
    best = with_periods(best, split).with_exact_noise()
    n = len(split.rows.y)
    if n_inducing is None or n_inducing >= min(n, MAX_INDUCING_SEARCHED):
        return best
    refined = _refine_by_bound(best, split.rows, inducing, n_inducing, rng)
    return refined._replace(exact_noise=best.exact_noise)


def _refine_by_bound(
    exact: State,
    rows: Rows,
    inducing: Inducing,
    n_inducing: int,
    rng: Generator,
) -> State:
    """Search on by the collapsed bound of few points, which leave out more.

    The noise starts at its value of the exact search or at the variance of y, whichever
    has the better bound. A bound that ends in pure noise does not replace the kernel.
    """
    sample = subset(rows, rng.permutation(len(rows.y))[:SPARSE_ROWS])
    noise = with_noise(exact.likelihood, mean_square(sample))
    starts = [exact, exact._replace(likelihood=noise)]
    # first the two starts are compared; inducing points follow the kernel
    for max_iter in (0, 60, 60):
        searches = []
        for start in starts:
            bound = SparseEvidence.selected(
                sample,
                start.kernel,
                start.likelihood,
                inducing,
                n_inducing,
                rng,
            )
            searches.append(maximise(start.candidate, [bound], start.u, max_iter))
        best = best_of(searches)
        starts = [best]
    if not best.has_signal:
        return exact
    return best


def noise_only(result: State, rows: Rows) -> State:
    """The default kernel with its smallest amplitude; the variance of y as noise.

    Without a signal the evidence cannot tell short lengthscales from noise: the
    hyperprior alone would divide the variance of y between them.
    """
    candidate = result.candidate
    likelihood = result.likelihood
    if not (likelihood.has_closed_form and len(likelihood.theta)):
        return result
    start = candidate.starts()[0]
    u = np.where(candidate.is_length_scale, start, candidate.bounds[:, 0])
    return result._replace(u=u, likelihood=with_noise(likelihood, mean_square(rows)))
