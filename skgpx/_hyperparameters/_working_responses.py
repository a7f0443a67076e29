"""Any likelihood as normal noise around working responses, and a search with these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._evidence import row_target, with_noise
from skgpx._hyperparameters._fixed_point import (
    SETTLED_IN_SEARCH,
    LatentMoments,
    NoisyValues,
    Sites,
    fixed_point,
)
from skgpx._hyperparameters._maximise import State
from skgpx._hyperparameters._neighborhoods import NearestOthers
from skgpx._hyperparameters._process_evidence import LEAST_INFORMATION
from skgpx._hyperparameters._regression import SeriesFunction
from skgpx._hyperparameters._select import (
    Split,
    is_long_series,
    search_on,
    select,
    subset,
    train_nearby,
)
from skgpx._hyperparameters._series_search import stretch_positions
from skgpx._hyperparameters._sparse import MIN_GAIN
from skgpx._numerics import laplace
from skgpx._numerics.expectations import (
    expectation_nodes,
    product_nodes,
    rotated_nodes,
)
from skgpx._numerics.langevin import Target
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.smoothing import smoothed
from skgpx._row_budgets import (
    PREDECESSOR_ROWS,
    RESPONSE_ROWS,
    SCALE_ROWS,
    SCORED_ROWS,
    STRETCHES,
)
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.kernels import rescaled
from skgpx.likelihoods import Gaussian, Likelihood

# Rounds of a search, at most: of kernel and responses, or of a location and its scale.
_MAX_ROUNDS = 8
# Largest step of a latent mean, in prior standard deviations.
_LARGEST_STEP = 2.0
# Nodes for each of two functions, over whose distribution a likelihood is averaged.
_PAIR_NODES = 5
# Rotations of the nodes for more functions.
_ROTATIONS = 8


def working_responses_at(
    moments: LatentMoments,
    rows: Rows,
    likelihood: Likelihood,
    bounded: bool = False,
) -> tuple[NoisyValues, float]:
    """Normal observations to which a likelihood is equal, to second order around f.

    ::

        Σ ω log p(y | f) = constant + Σ log N(z | f, noise) + O((f - f̂)³)
        z = f̂ - g / c,   noise = 1 / (ω c)

    with the gradient g and the curvature c of the negative log-likelihood. The mean of
    f given z is the next step of Newton's method.

    With ``g`` and ``c`` averaged over ``N(f̂, variance)``, where f̂ and `variance` are
    the moments of the process given z itself, that process is the normal distribution
    that is closest to the posterior, in Kullback-Leibler divergence from it [1]_.

    Several functions have independent noise, whose precision is the diagonal of the
    averaged curvature. Softmax probabilities depend on contrasts between classes only:
    with the shares ``s = v / Σ v`` of the variances ``v = E p (1 - p)`` of the classes
    the precision is ``ω v / (1 - Σ s²)``, under which contrasts between independent
    functions have the variances of the coupled ones; for two classes, or equal
    variances, without an error.

    Parameters
    ----------
    moments : LatentMoments
        ``f̂``, less the base of each latent function, and its variances.
    rows : Rows
    likelihood : Likelihood
    bounded : bool, default=False
        Whether outliers have positive precisions as well. Beside an outlier the second
        derivative of a heavy-tailed likelihood is negative. The parabola of the same
        slope with its minimum at y bounds the likelihood of a scale mixture of normals
        [2]_: it has the precision ``E g / (m - y)``.

    Returns
    -------
    values : NoisyValues
        z, less the bases of the latent functions, and the variances around it.
    energy : float
        ``-Σ ω log p(y | f̂)``, averaged over ``N(f̂, variance)``.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    .. [2] Palmer, Wipf, Kreutz-Delgado and Rao, "Variational EM algorithms for
       non-Gaussian latent variable models", NeurIPS 2005.
    """
    latent, variance = moments
    target = smoothed(row_target(np.ones((len(latent), 1)), rows, likelihood))
    factor = target.features
    omega = target.weights[:, np.newaxis]
    # negative log-likelihood of each row, its gradient and its curvature
    target = target._replace(std=factor * np.sqrt(variance))
    nll, slope, curvature = _averages(target, target.offset + factor * latent)
    if depends_on_contrasts(rows, likelihood):
        shares = curvature / np.sum(curvature, axis=1, keepdims=True)
        curvature = curvature / (1.0 - np.sum(shares**2, axis=1, keepdims=True))
    curvature = factor**2 * curvature
    # a row without curvature has little information, but some: it may have
    # curvature at the place to which its mean goes
    positive = np.maximum(curvature, 0.0)
    information = np.average(positive, axis=0, weights=target.weights)
    curvature = np.maximum(curvature, LEAST_INFORMATION * information)
    slope = omega * factor * slope
    noise = 1.0 / (omega * curvature)
    if bounded and likelihood.location_scale and likelihood.has_residuals:
        precision = 1.0 / noise
        distance = latent - (rows.y[:, np.newaxis] - likelihood.base_latent_)
        secant = np.divide(
            slope,
            distance,
            out=np.zeros_like(distance),
            where=distance != 0.0,
        )
        noise = 1.0 / np.clip(secant, precision, precision.max())
    return NoisyValues(latent - noise * slope, noise), float(target.weights @ nll)


def _averages(target: Target, f: Array) -> tuple[Array, Array, Array]:
    """Row averages over ``N(f, std²)``, see :func:`laplace.row_averages`.

    One function has Gauss's rule, and so does each of two. For more, every k-th row has
    another rotation of a spherical rule: in sums over rows their errors nearly cancel.
    """
    n, c = f.shape
    if c == 1:
        nodes, masses = expectation_nodes(1)
        rotations = nodes[np.newaxis]
    elif c == 2:
        # two classes of `Categorical` or `RobustMax`, or a likelihood of the user's own
        nodes, masses = product_nodes(2, _PAIR_NODES)
        rotations = nodes[np.newaxis]
    else:
        rotations, masses = rotated_nodes(c, _ROTATIONS)
    if len(rotations) == 1:
        ruled = target._replace(nodes=rotations[0], node_weights=masses)
        return laplace.row_averages(ruled, f)
    nll = np.empty(n)
    slope = np.empty((n, c))
    second = np.empty((n, c))
    for first, nodes in enumerate(rotations):
        part = slice(first, None, len(rotations))
        ruled = target._replace(
            likelihood=target.likelihood.at_some(part),
            y=target.y[part],
            weights=target.weights[part],
            std=target.std[part],
            nodes=nodes,
            node_weights=masses,
        )
        nll[part], slope[part], second[part] = laplace.row_averages(ruled, f[part])
    return nll, slope, second


def depends_on_contrasts(rows: Rows, likelihood: Likelihood) -> bool:
    """Whether a number may be added to all functions, as to those of classes."""
    few_rows = rows.take(slice(4))
    feature = np.ones((len(few_rows.y), 1))
    target = row_target(feature, few_rows, likelihood)
    return laplace.between_classes(target) is not None


# ---- The search ----------------------------------------------------------------------


def working_responses(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    start: State | None,
    trend: bool,
    n_jobs: int | None,
    report: Callable[..., bool] | None,
) -> State:
    """Kernel and scales of one function or of classes, of many rows, as in regression.

    Rounds of expectation and maximisation [1]_. Given the kernel, each row has the
    latent moments of its nearest rows and, around them, a working response. Given
    these, the kernel maximises the density of neighbourhoods; the gradient of their
    density is that of the variational bound of the evidence. Scales of the likelihood
    maximise the density of each row given its nearest others [2]_. At most 40 000 rows
    are read, and of c > 2 classes 80 000 / c.

    The first responses are those under the prior. All families compete for them with
    the noise of a location as a free parameter, so that what a smooth function leaves
    does not pass for outliers.

    Classes have one kernel, of which each shows a part of the neighbourhoods. Their
    responses add up to zero, as those of one function less: times ``√(c / (c - 1))``
    they have the variance of c independent functions. For the first ones the noise of
    a row is the same for all classes.

    The rounds end early where `report`, which gets the mean log density of each, asks
    for it.

    The exact noise of the result is the harmonic mean of the noise variances of the
    working responses, of the function with the smallest.

    References
    ----------
    .. [1] Adam, Chang, Khan and Solin, "Dual parameterization of sparse variational
       Gaussian processes", NeurIPS 2021.
    .. [2] Sundararajan and Keerthi, "Predictive approaches for choosing hyperparameters
       in Gaussian processes", Neural Computation 2001.
    """
    n_functions = likelihood.n_outputs_
    n_rows = RESPONSE_ROWS * 2 // max(n_functions, 2)
    rows = subset(split.rows, split.order[:n_rows])
    order = rng.permutation(len(rows.y))
    scored = np.sort(order[:SCORED_ROWS])
    # 1 kernel and scale of the first responses, under the prior
    result = start
    if result is None:
        middle = families[len(families) // 2][-1]
        kernel = middle.kernel_at(middle.starts()[0])
        prior_moments = LatentMoments.of_prior(kernel, rows, n_functions)
        values, _ = working_responses_at(prior_moments, rows, likelihood, bounded=True)
        if n_functions > 1:
            # with the mean precision of the functions, for each of them
            noise = 1.0 / np.mean(1.0 / values.noise, axis=1, keepdims=True)
            slope = values.y / values.noise
            values = NoisyValues(noise * slope, np.tile(noise, n_functions))
        scale_is_free = likelihood.location_scale and len(likelihood.theta) > 0
        first_split, normal = normal_regression(rows, values, split, rng, scale_is_free)
        result = select(
            families,
            first_split,
            normal,
            n_jobs,
            trend,
            trained=False,
        )
        if scale_is_free:
            ratio = result.likelihood.variance(0.0) / normal.variance(0.0)
            scaled = likelihood.scaled(float(ratio) ** 0.5)
            theta = np.clip(scaled.theta, *likelihood.theta_bounds.T)
            likelihood = likelihood.with_theta(theta)
    # 2 rounds, while they gain
    previous_density = -np.inf
    moments, given_others = latent_moments(rows, result.kernel, likelihood)
    for _ in range(_MAX_ROUNDS):
        likelihood, density = scales_given_others(
            rows, likelihood, given_others, scored
        )
        stop = report is not None and report(density=density)
        if stop or density - previous_density < MIN_GAIN:
            break
        previous_density = density
        values, _ = working_responses_at(moments, rows, likelihood, bounded=True)
        round_split, normal = normal_regression(rows, values, split, rng)
        result = search_on(result, round_split, normal)
        moments, given_others = latent_moments(rows, result.kernel, likelihood, moments)
    # 3 more neighbourhoods
    values, _ = working_responses_at(moments, rows, likelihood, bounded=True)
    last_split, normal = normal_regression(rows, values, split, rng)
    result = train_nearby(result._replace(likelihood=normal), last_split)
    moments, given_others = latent_moments(rows, result.kernel, likelihood, moments)
    likelihood, _ = scales_given_others(rows, likelihood, given_others, scored)
    values, _ = working_responses_at(moments, rows, likelihood, bounded=True)
    mean_precisions = np.mean(1.0 / values.noise, axis=0)
    exact_noise = 1.0 / float(np.max(mean_precisions))
    return result._replace(likelihood=likelihood, exact_noise=exact_noise)


def latent_moments(
    rows: Rows,
    kernel: Kernel,
    likelihood: Likelihood,
    start: LatentMoments | None = None,
) -> tuple[LatentMoments, LatentMoments]:
    """Moments that reproduce themselves by the working responses around them.

    The sum of all functions of classes, on which nothing depends, stays at zero.

    Returns
    -------
    moments, given_others : LatentMoments
        Given the nearest rows with the row itself, and without it.
    """
    nearest = NearestOthers.of(rows.X, kernel, PREDECESSOR_ROWS)
    responses_at = ResponsesAt.of(rows, likelihood, kernel, bounded=True)

    def regress(values: NoisyValues) -> LatentMoments:
        return LatentMoments(*nearest.predict(kernel, *values))

    def respond(given_others: LatentMoments, sites: Sites) -> Sites:
        return responses_at.next_sites(given_others.given(sites.values), sites)

    given_others, sites, _ = fixed_point(
        responses_at.first_sites(start or responses_at.prior),
        regress,
        respond,
        settled=SETTLED_IN_SEARCH,
    )
    if responses_at.of_contrasts:
        given_others = given_others.contrasts()
    return sites.moments, given_others


class ResponsesAt(NamedTuple):
    """Working responses of rows, as observations that follow from moments.

    Attributes
    ----------
    rows : Rows
    likelihood : Likelihood
    prior : LatentMoments
    bounded : bool
        See :func:`working_responses_at`.
    """

    rows: Rows
    likelihood: Likelihood
    prior: LatentMoments
    bounded: bool

    @classmethod
    def of(
        cls,
        rows: Rows,
        likelihood: Likelihood,
        kernel: Kernel,
        bounded: bool = False,
    ) -> ResponsesAt:
        """Of independent functions with a kernel."""
        prior = LatentMoments.of_prior(kernel, rows, likelihood.n_outputs_)
        return cls(rows, likelihood, prior, bounded)

    @property
    def of_contrasts(self) -> bool:
        """Whether the functions are those of classes."""
        return depends_on_contrasts(self.rows, self.likelihood)

    def bound_beyond(
        self,
        moments: LatentMoments,
        values: NoisyValues,
        energy: float,
    ) -> float:
        """Lower bound of the evidence less the log density of z, in nats.

        The functions, given noisy values z of noise D and with moments m and v, diverge
        from their prior by::

            KL = ½ (zᵀC⁻¹z - Σ (z - m)² / D + log det C - Σ log D - Σ v / D),  C = K + D

        Of c independent functions of classes there are c - 1 contrasts, of which the
        logarithms and v have the share ``1 - 1 / c``; those of C are not counted here.
        First-order errors of m have no effect on the bound.

        Parameters
        ----------
        moments, values
        energy : float
            ``-E log p(y | f)`` under these moments.
        """
        mean, variance = moments
        z, noise = values
        share = 1.0
        if self.of_contrasts:
            share = 1.0 - 1.0 / noise.shape[1]
        volume = share * (np.log(2.0 * np.pi * noise) + variance / noise)
        return 0.5 * float(np.sum((z - mean) ** 2 / noise + volume)) - energy

    def first_sites(self, moments: LatentMoments) -> Sites:
        """Observations around moments."""
        return self.next_sites(moments, Sites.nothing(moments))

    def next_sites(self, moments: LatentMoments, sites: Sites) -> Sites:
        """Observations a part of the way from those before to those around moments.

        Means move by two prior standard deviations at most: Newton's method goes too
        far for a count that is much above its rate.
        """
        if self.of_contrasts:
            moments = moments.contrasts()
        largest_step = _LARGEST_STEP * np.sqrt(self.prior.variance)
        step = moments.mean - sites.moments.mean
        step = np.clip(step, -largest_step, largest_step)
        moments = moments._replace(mean=sites.moments.mean + step)
        values, energy = working_responses_at(
            moments, self.rows, self.likelihood, self.bounded
        )
        return sites.moved(moments, values, energy)


def normal_regression(
    rows: Rows,
    values: NoisyValues,
    split: Split,
    rng: Generator,
    noise_is_free: bool = False,
    weights: Array | None = None,
) -> tuple[Split, Gaussian]:
    """Regression on working responses.

    Without weights a row is one observation, whose noise says how much it counts.
    """
    z = values.y
    n, c = z.shape
    if weights is None:
        weights = np.ones(n)
    if c > 1:
        z = z * np.sqrt(c / (c - 1.0))
    level = float(values.noise.min())
    noise = values.noise / level
    if np.all(noise == noise[:, :1]):
        noise = noise[:, 0]
    if c == 1:
        z = z[:, 0]
    normal_rows = Rows(rows.X, z, weights, noise)
    normal = Gaussian(level)
    if noise_is_free:
        normal = Gaussian()
    # the noise of each row, over its functions
    normal = normal.prepare(z, normal_rows.weights, noise.reshape(n, -1)[:, 0])
    if noise_is_free:
        normal = with_noise(normal, level)
    return Split.of(normal_rows, rng, rough=split.rough), normal


def scales_given_others(
    rows: Rows,
    likelihood: Likelihood,
    given_others: LatentMoments,
    scored: Index,
) -> tuple[Likelihood, float]:
    """Scales under which rows are most probable given their nearest others.

    ``Σ ω log ∫ p(y_i | f) N(f | moments given others) df`` over some rows.

    Returns
    -------
    likelihood : Likelihood
    log_density : float
        The mean, in nats an observation.
    """
    sample = rows.take(scored)
    mean = given_others.mean[scored] + likelihood.base_latent_
    mixture = LatentMixture(
        mean=mean[:, :, np.newaxis],
        variance=given_others.variance[scored][:, :, np.newaxis],
        weights=np.ones(1),
    )

    def loss(theta: Array) -> float:
        of_rows = likelihood.with_theta(theta)
        if sample.known is not None:
            of_rows = of_rows.at_rows(sample.known)
        log_density = of_rows.predictive_log_density(sample.y, mixture)
        return -float(np.average(log_density, weights=sample.weights))

    theta = likelihood.theta
    if not len(theta):
        return likelihood, -loss(theta)
    optimum = optimize.minimize(
        loss,
        theta,
        method="L-BFGS-B",
        bounds=likelihood.theta_bounds,
        options={"maxiter": 15, "ftol": 1e-5},
    )
    return likelihood.with_theta(optimum.x), -float(optimum.fun)


# ---- A location and a scale that varies around it: two searches that alternate -------


Families = Sequence[Sequence[Candidate]]

# Searches for the scale in each round.
_SCALE_ROUNDS = 2
# Equal errors that count for the scale, at most.
_MOST_EQUAL_ERRORS = 1000.0
# Least squared scale of a row: rows that agree exactly have no noise that can be seen.
_LEAST_SQUARED_SCALE = 1e-6


class ScaleSearch(NamedTuple):
    """Where the search for the kernel of the log scale ended.

    Attributes
    ----------
    result : State
    likelihood : ScaleOfErrors
        With its typical scale.
    log_density : float
        Of rows given their nearest others, in nats an observation.
    """

    result: State
    likelihood: Any
    log_density: float


def varying_scale_search(
    location_families: Families,
    scale_families: Families,
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    trend: bool,
    n_jobs: int | None,
    report: Callable[..., bool] | None = None,
) -> State:
    """Kernels of a location and of the logarithm of its scale.

    Two regressions alternate [1]_. Given what is known of the scale of every row, the
    location has normal noise, and given its value and variance v at the nearest *other*
    rows the error e of a row says what its scale is::

        p(e | s) = ∫ p(e - δ | s) N(δ | 0, v) dδ

    Errors of the location at the row itself would be too small: a location that passes
    through y leaves no noise. At most 40 000 rows are read, and of their errors 10 000.
    In a series all other rows say what the value of a row is, by filter and smoother.

    Parameters
    ----------
    location_families, scale_families : sequence of sequences of Candidate
    split : Split
    likelihood : Likelihood
        Prepared, with a scale that varies.
    rng : numpy.random.Generator
    trend : bool
        Whether the location of several columns may have a linear trend. In one column
        seasons would compete as well, whose nearest rows are not near.
    n_jobs : int or None
    report : callable, optional
        Called with the density after each round; True ends them.

    Returns
    -------
    state : State
        Kernel of the location; its likelihood has the scales, and the kernel of the log
        scale. The exact noise is the harmonic mean of the variances of the noise, in
        units of the location.

    References
    ----------
    .. [1] Kersting, Plagemann, Pfaff and Burgard, "Most likely heteroscedastic Gaussian
       process regression", ICML 2007.
    """
    trained = is_long_series(location_families[0][-1].kernel, split.rows)
    positions = split.order[:RESPONSE_ROWS]
    if trained and len(positions) < len(split.order):
        # what is rough is seen in rows that follow one another
        size = RESPONSE_ROWS // STRETCHES
        positions = np.unique(stretch_positions(split.rows, size))
    rows = subset(split.rows, positions)
    n = len(rows.y)
    chosen = np.sort(rng.permutation(n)[:SCALE_ROWS])
    scored = np.sort(rng.permutation(len(chosen))[:SCORED_ROWS])
    y = likelihood.initial_latent(rows.y)[:, 0]
    location_rows = rows._replace(y=y, known=None)
    # 1 the location, under noise of one scale, in which outliers have more
    scale: Any = likelihood.of_scale(amplitude_is_free=True)
    noise = noise_of_one_scale(location_rows, scale)
    values = NoisyValues(y[:, np.newaxis], noise[:, np.newaxis])
    scale_is_free = "scale" in likelihood.free_
    first_split, normal = normal_regression(
        location_rows,
        values,
        split,
        rng,
        scale_is_free,
        rows.weights,
    )
    select_location = partial(
        select,
        n_jobs=n_jobs,
        trend=trend and rows.X.shape[1] > 1,
        trained=trained,
    )
    # a scale that varies looks rough until it is known: a family between smooth and
    # rough comes first
    compares_later = trained and len(location_families) > 1
    middle = location_families[len(location_families) // 2]
    first_families = [middle] if compares_later else location_families
    location_result = select_location(first_families, first_split, normal)
    ratio = float(location_result.likelihood.variance(0.0) / normal.variance(0.0))
    theta = scale.theta + 0.5 * np.log(ratio)
    scale = scale.with_theta(np.clip(theta, *scale.theta_bounds.T))
    errors = _errors(location_rows, location_result.kernel, ratio * noise)
    # 2 the scale, and both of them in turn while that gains
    part = errors.take(chosen)
    search = _best_scale(scale_families, part, scale, scored, split, rng)
    compares = False
    for _ in range(_MAX_ROUNDS):
        # the location, with the noise that follows
        given_others, _ = scale_given_others(
            errors,
            search.result.kernel,
            search.likelihood,
        )
        noise = location_noise(errors, search.likelihood, given_others)
        values = NoisyValues(y[:, np.newaxis], noise[:, np.newaxis])
        round_split, normal = normal_regression(
            location_rows,
            values,
            split,
            rng,
            weights=rows.weights,
        )
        if compares:
            next_result = select_location(location_families, round_split, normal)
        else:
            next_result = search_on(location_result, round_split, normal)
        errors = _errors(location_rows, next_result.kernel, noise)
        # the scale
        next_search = _search_scale(
            search.result,
            errors.take(chosen),
            search.likelihood,
            scored,
            split,
            rng,
        )
        least_gain = 0.0 if compares else MIN_GAIN
        gains = next_search.log_density - search.log_density >= least_gain
        if gains:
            location_result = next_result
            search = next_search
            if report is not None and report(density=search.log_density):
                break
        if compares or not (gains or compares_later):
            break
        # families of the location, once its scale has settled
        compares = not gains
    # 3 the kernel of the log scale
    typical_noise = 1.0 / float(np.mean(1.0 / noise))
    return location_result._replace(
        likelihood=_with_scale_of(likelihood, search, rows),
        exact_noise=typical_noise,
    )


def _with_scale_of(likelihood: Any, search: ScaleSearch, rows: Rows) -> Any:
    """The likelihood with a kernel of the log scale, in units of the variation."""
    kernel = search.result.kernel
    amplitude = 1.0
    if "variation" in likelihood.free_:
        variance = float(np.mean(kernel.diag(rows.X)))
        unit_kernel = rescaled(kernel, 1.0 / variance)
        if unit_kernel is not None:
            kernel = unit_kernel
            amplitude = float(np.sqrt(variance))
    return likelihood.with_scale_of(search.likelihood, kernel, amplitude)


def _errors(rows: Rows, kernel: Kernel, noise: Array) -> Rows:
    """Errors of the location of each row given the nearest others, and its variance."""
    regress = _given_others(rows, kernel)
    mean, variance = regress(NoisyValues(rows.y[:, np.newaxis], noise[:, np.newaxis]))
    return rows._replace(
        y=rows.y - mean[:, 0],
        weights=counted_errors(rows.weights),
        known=variance[:, 0],
    )


def counted_errors(weights: Array) -> Array:
    """Errors that a row stands for, for the scale, (n,): repetitions, but not all.

    Thousands of equal errors would make the log scale of the row certain, and with it,
    under a smooth kernel, that of rows nearby, whatever their errors are.
    """
    return np.minimum(weights, _MOST_EQUAL_ERRORS)


def _given_others(
    rows: Rows,
    kernel: Kernel,
) -> Callable[[NoisyValues], LatentMoments]:
    """A function at each row given all observations but one of the row itself.

    Of a series given all other rows, and the nearest ones else.
    """
    if is_long_series(kernel, rows):
        function = SeriesFunction(kernel, rows)
        return lambda values: function.given(values).given_others
    nearest = NearestOthers.of(rows.X, kernel, PREDECESSOR_ROWS)
    weights = rows.weights[:, np.newaxis]

    def given_others(values: NoisyValues) -> LatentMoments:
        without_row = LatentMoments(
            *nearest.predict(kernel, values.y, values.noise / weights)
        )
        return without_row.given(values, np.maximum(weights - 1.0, 0.0))

    return given_others


def noise_of_one_scale(rows: Rows, scale: Any) -> Array:
    """Variance of the noise of each row, for the location, of one scale, (n,).

    That of the scale; larger for outliers beyond a location of variance one.
    """
    n = len(rows.y)
    at_base = LatentMoments(np.zeros((n, 1)), np.zeros((n, 1)))
    return location_noise(rows._replace(known=np.ones(n)), scale, at_base)


def location_noise(errors: Rows, scale: Any, given_others: LatentMoments) -> Array:
    """Variance of the noise of each row, for the location, (n,)."""
    return evidence_of(errors, scale, given_others).location_noise


def evidence_of(errors: Rows, scale: Any, given_others: LatentMoments) -> Any:
    """What each error says of the location and of the log scale."""
    evidence = scale.evidence_of(
        errors.y,
        errors.known,
        given_others.mean[:, 0],
        given_others.variance[:, 0],
        errors.weights,
    )
    least_noise = np.maximum(evidence.location_noise, _LEAST_SQUARED_SCALE)
    return evidence._replace(location_noise=least_noise)


def scale_given_others(
    errors: Rows,
    kernel: Kernel,
    scale: Any,
) -> tuple[LatentMoments, NoisyValues]:
    """Log scale of each row given the errors of the nearest others.

    Parallel expectation propagation, with every row predicted from its nearest others.

    Returns
    -------
    given_others : LatentMoments
    observations : NoisyValues
        Normal observations that stand for the errors.
    """

    def respond(given_others: LatentMoments, sites: Sites) -> Sites:
        evidence = evidence_of(errors, scale, given_others)
        values = NoisyValues(
            evidence.value[:, np.newaxis],
            evidence.value_noise[:, np.newaxis],
        )
        return sites.moved(given_others, values)

    prior = LatentMoments.of_prior(kernel, errors, 1)
    first = respond(prior, Sites.nothing(prior))
    given_others, sites, _ = fixed_point(
        first, _given_others(errors, kernel), respond, settled=SETTLED_IN_SEARCH
    )
    return given_others, sites.values


def _best_scale(
    families: Families,
    errors: Rows,
    likelihood: Any,
    scored: Index,
    split: Split,
    rng: Generator,
) -> ScaleSearch:
    """The family under which rows are most probable given their nearest others.

    Of one lengthscale a column. Errors say little of each scale: a smooth log scale
    that is taken for a rough one, or the other way round, is seen in this density.
    """
    searches = []
    for family in families:
        candidate = family[-1]
        kernel = candidate.kernel_at(candidate.starts()[0])
        # the typical scale, and observations, under the prior
        of_family = likelihood
        given_others = LatentMoments.of_prior(kernel, errors, 1)
        for _ in range(_SCALE_ROUNDS):
            of_family, _ = scales_given_others(errors, of_family, given_others, scored)
            given_others, observations = scale_given_others(errors, kernel, of_family)
        first_split, normal = normal_regression(
            errors,
            observations,
            split,
            rng,
            weights=errors.weights,
        )
        result = select(
            [[candidate]],
            first_split,
            normal,
            trend=False,
            trained=is_long_series(kernel, errors),
        )
        searches.append(_search_scale(result, errors, of_family, scored, split, rng))
    return max(searches, key=lambda search: search.log_density)


def _search_scale(
    start: State,
    errors: Rows,
    likelihood: Any,
    scored: Index,
    split: Split,
    rng: Generator,
) -> ScaleSearch:
    """Kernel of the log scale and the typical scale, given errors."""
    result = start
    for _ in range(_SCALE_ROUNDS):
        given_others, observations = scale_given_others(
            errors,
            result.kernel,
            likelihood,
        )
        likelihood, _ = scales_given_others(errors, likelihood, given_others, scored)
        round_split, normal = normal_regression(
            errors,
            observations,
            split,
            rng,
            weights=errors.weights,
        )
        result = search_on(result, round_split, normal)
    given_others, _ = scale_given_others(errors, result.kernel, likelihood)
    likelihood, density = scales_given_others(errors, likelihood, given_others, scored)
    return ScaleSearch(result, likelihood, density)
