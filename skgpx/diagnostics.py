"""Diagnostics of a fit: named checks, one warning for all findings.

Each check is a statistic of the field and returns a `Finding`, or None. A fit collects
the findings and ends with `conclude`, which keeps them as `findings_` and emits one
`FitWarning`, and at most one `ConvergenceWarning`, for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.stats import chi2, kruskal, norm, rankdata
from scipy.stats import t as student
from sklearn.base import BaseEstimator

from skgpx._numerics.conjugate_gradients import Solution
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.laplace import line_averages
from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import thinning
from skgpx._row_budgets import THINNED_ROWS
from skgpx._shell.validation import Rows
from skgpx._types import Array, Index, Kernel, Mask
from skgpx.exceptions import ConvergenceWarning, FitWarning, SkgpxWarning, warn
from skgpx.kernels import theta_entries
from skgpx.likelihoods import Likelihood, StudentT, Warped
from skgpx.likelihoods._warped import normal_noise, of_target


class Finding(NamedTuple):
    """What a check of a fit has found.

    Attributes
    ----------
    check : str
        Name of the check, such as "residual autocorrelation".
    message : str
        The event, its effect on predictions, and the remedy.
    category : type
        `FitWarning` or `ConvergenceWarning`.
    gain : float
        What the remedy would gain, in nats per observation; zero if it is not known.
    """

    check: str
    message: str
    category: type[SkgpxWarning] = FitWarning
    gain: float = 0.0

    def of(self, target: int) -> Finding:
        """The finding, about one of several targets."""
        return self._replace(
            check=f"{self.check}, target {target}",
            message=f"Target {target}: {self.message}",
        )


# What checks have found, in their order; None of a check without a finding.
Findings: TypeAlias = list[Finding | None]


def conclude(
    estimator: BaseEstimator,
    findings: Iterable[Finding | None],
    sample_weight: object = None,
) -> None:
    """Keep the findings of a fit as `findings_` and warn once a category.

    Beside weights of the rows, which are not None, nothing is said of equal rows: they
    are what an integer weight means.
    """
    likelihood = getattr(estimator, "likelihood_", None)
    reported = tuple(
        finding
        for finding in (*findings, *powers_at_bounds(likelihood))
        if finding is not None
        and (sample_weight is None or finding.check != "equal rows")
    )
    estimator.findings_ = reported
    for category in (FitWarning, ConvergenceWarning):
        messages = [
            finding.message for finding in reported if finding.category is category
        ]
        if len(messages) == 1:
            warn(messages[0], category)
        elif messages:
            items = "\n".join(f"- {message}" for message in messages)
            warn(f"The diagnostics of this fit found:\n{items}", category)


def powers_at_bounds(likelihood: Likelihood | None) -> list[Finding]:
    """Findings if powers of scales that were learned would be beyond 0 or 2."""
    findings: list[Finding] = []
    if not isinstance(likelihood, Warped):
        return findings
    for j, power in enumerate(np.atleast_1d(likelihood.power).tolist()):
        scale = of_target(likelihood, j)
        # from the bounds 0, but for logarithms of positive y, and 2
        is_positive = getattr(scale, "transform", None) == "box-cox"
        distance = 2.0 - power if is_positive else 1.0 - abs(power - 1.0)
        # a posterior that is largest at a bound has its mean 1.3 standard deviations
        # from it, and less far if it would be larger beyond
        if distance >= 1.2 * getattr(scale, "power_std_", 0.0):
            continue
        remedy = "Subtract the smallest possible value from y"
        if power > 1.0:
            remedy = "Subtract y from its largest possible value"
        finding = Finding(
            "scale of y at its bound",
            f"The scale of y that was learned, {scale.description}, is at its bound: y "
            "has a longer tail than it allows for, and quantiles there are too close "
            f"to the mean. {remedy}; if a few far rows are outliers, state "
            "Warped(StudentT()).",
        )
        findings.append(finding if scale is likelihood else finding.of(j))
    return findings


# ---- Residuals -----------------------------------------------------------------------


def check_residuals(
    rows: Rows,
    errors: Array,
    variance: Array,
    noise_variance: Any,
    likelihood: Likelihood,
    kernel: Kernel | None = None,
    scale: Any = 1.0,
    *,
    held_out: bool,
    noise_is_free: bool,
    other_noise: bool,
) -> Findings:
    """Check the errors of each target for structure that the model leaves out.

    Parameters
    ----------
    rows : Rows
        X, y and weights; nothing but the structure of the mean is looked for where the
        noise of each row is known.
    errors : ndarray of shape (n,) or (n, t)
        ``y - m(x)``.
    variance : ndarray of shape (n,) or (n, t)
        Predictive variance of y.
    noise_variance : float or ndarray of shape (t,)
        The part of the noise.
    likelihood : Likelihood
        By the name that the user gave it.
    kernel : sklearn.gaussian_process.kernels.Kernel, optional
        Covariance of ``y / scale`` without the noise, to compare y with its logarithm.
    scale : float or ndarray of shape (t,)
    held_out : bool
        Whether predictions are given the other rows, and not the row itself.
    noise_is_free : bool
        Whether the noise was estimated, and may have absorbed signal: under the user's
        own noise a model may underfit on purpose.
    other_noise : bool
        Whether the estimator could have another noise: only then are noise that varies
        and heavy tails looked for.

    Returns
    -------
    findings : list of Finding or None
        At most two a target. Logarithms, noise that varies and heavy tails explain one
        another: the one of the largest gain is reported, logarithms if they have half
        of it.
    """
    findings: Findings = []
    if not len(rows.y):
        return findings
    targets = np.atleast_2d(rows.y.T)
    # one number, or one variance of each row, may stand for all targets
    variance = np.broadcast_to(variance.T, targets.shape)
    noise_variance = np.broadcast_to(noise_variance, len(targets))
    scale = np.broadcast_to(scale, len(targets))
    other_noise = other_noise and rows.known is None
    normal = normal_noise(likelihood)
    for j, y in enumerate(targets):
        # the logarithm of another scale of y says nothing
        has_scale = of_target(likelihood, j).has_scale_of_y
        compares = rows.known is None and not has_scale
        residuals = np.atleast_2d(errors.T)[j]
        noise = noise_variance[j]
        centre = np.average(y, weights=rows.weights)
        total = float(np.average((y - centre) ** 2, weights=rows.weights))
        structure = None
        if noise_is_free:
            structure = residual_autocorrelation(rows.X, residuals, rows.weights, total)
        explanations: Findings = []
        if kernel is not None and compares and normal.has_closed_form:
            growth = multiplicative_variation(
                rows.X,
                y,
                rows.weights,
                kernel,
                noise / scale[j] ** 2,
            )
            explanations.append(growth)
        # smaller errors are those of inducing points and functions
        is_noise = np.average(residuals**2, weights=rows.weights) > 1e-8 * total
        if other_noise and np.isfinite(noise) and is_noise:
            if held_out:
                noise_share = np.minimum(noise / variance[j], 1.0)
                variance_of_residuals = variance[j]
            else:
                # residuals of the rows of a fit have the variance σ² - var f
                noise_share = np.maximum(2.0 - variance[j] / noise, 0.1)
                variance_of_residuals = noise_share * noise
            standardised = residuals / np.sqrt(variance_of_residuals)
            mean = y - residuals
            # a mean without effect orders the rows by the errors themselves
            if np.std(mean) < 0.2 * np.std(residuals):
                mean = np.zeros(len(y))
            # small groups of rows also see what an underfit leaves
            by_groups = noise_is_free and structure is None
            variation = varying_noise(
                rows.X, mean, standardised, normal, by_groups=by_groups
            )
            explanations.append(variation)
            if structure is None:
                tails = heavy_tails(standardised, noise_share, rows.weights, normal)
                explanations.append(tails)
        best = max(
            filter(None, explanations),
            key=_comparable_gain,
            default=None,
        )
        of_this = [structure, best]
        if rows.y.ndim > 1:
            of_this = [finding and finding.of(j) for finding in of_this]
        findings += of_this
    return findings


def _comparable_gain(finding: Finding) -> float:
    """Gain of a remedy, twice that of logarithms.

    These are compared under the kernel of y, and not under one of their own: a series
    whose noise and season were proportional to its level gained 0.14 nats by them, and
    0.17 by noise that varies.
    """
    if finding.check == "multiplicative variation":
        return 2.0 * finding.gain
    return finding.gain


# Least share of the variance of y that counts as lost.
_MIN_SHARE = 0.05


def residual_autocorrelation(
    X: Array,
    residuals: Array,
    weights: Array,
    variance: float,
) -> Finding | None:
    """Moran's I of the residuals of neighbouring rows, for noise that is independent.

    Neighbours are adjacent in one column, or nearest by ranks in up to five columns.
    Among equal inputs the neighbours are drawn at random: rows may come in the order of
    (X, y), in which neighbours with equal inputs have similar residuals. Equal rows
    have been merged into weights; without these the residuals of rounded y would not
    have mean zero.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    residuals, weights : ndarray of shape (n,)
    variance : float
        Variance of y.
    """
    n, d = X.shape
    if n < 100 or variance == 0.0:
        return None
    shuffled = np.random.default_rng(0).permutation(n)
    X = X[shuffled]
    residuals = residuals[shuffled]
    weights = weights[shuffled]
    neighbours = np.empty((d, n), np.intp)
    for j, following in enumerate(neighbours):
        order = np.argsort(X[:, j], kind="stable")
        following[order[:-1]] = order[1:]
        # the last row of the column has the one before as its neighbour
        following[order[-1]] = order[-2]
    if 1 < d <= 5:
        ranks: Array = rankdata(X, axis=0)
        # a row is its own nearest one, unless it has duplicates
        first, second = cKDTree(ranks).query(ranks, 2)[1].T
        nearest = np.where(first == np.arange(n), second, first)
        neighbours = np.vstack((neighbours, nearest))
    # Moran's I: Σ ω_i ω_j r_i r_j / Σ ω_i ω_j, relative to Σ ω r² / Σ ω
    weighted = weights * residuals
    products = weighted * weighted[neighbours]
    strongest = int(np.argmax(products.sum(axis=1)))
    total = float(products[strongest].sum())
    covariance = total / float(weights @ weights[neighbours[strongest]])
    mean_square = float(np.average(residuals**2, weights=weights))
    correlation = covariance / (mean_square or 1.0)
    # z-score of five, and a correlation that matters
    significant = total > 5.0 * np.sqrt(np.sum(products[strongest] ** 2))
    share = covariance / variance
    if not significant or correlation < 0.2 or covariance < _MIN_SHARE * variance:
        return None
    direction = "between nearest rows"
    if strongest < d:
        direction = f"along column {strongest}"
    return Finding(
        "residual autocorrelation",
        f"Residuals are autocorrelated {direction} ({100.0 * share:.0f} % of "
        "the variance of y): the model underfits, and its noise estimate absorbs the "
        "signal. Use a kernel whose lengthscales start near the scale of the "
        "variation, or a larger basis.",
    )


# Least gain, in nats per observation, of a noise that varies. In all seven fits with a
# larger gain a second latent function gained held-out density, 0.1 to 0.6 nats; twelve
# other real data sets had gains of at most 0.094.
_MIN_GAIN = 0.1


def varying_noise(
    X: Array,
    mean: Array,
    standardised: Array,
    likelihood: Likelihood,
    *,
    by_groups: bool = True,
) -> Finding | None:
    """Kruskal-Wallis tests of the sizes of residuals in groups of each column [1]_.

    The groups are thirds, which see a trend, and at most 30 groups of ten rows or more,
    which see levels of a column of categories, and noise that is large in some ranges.
    Groups of the predicted mean are tested as well. The effect is the gain in log
    density if each group has its own scale, by mean absolute residuals, which outliers
    inflate little, less what groups gain by chance.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    mean, standardised : ndarray of shape (n,)
        Predictions, and residuals in units of their standard deviation.
    likelihood : Likelihood
    by_groups : bool, default=True
        Whether there are other groups than thirds.

    References
    ----------
    .. [1] Koenker, "A note on studentizing a test for heteroscedasticity", Journal of
       Econometrics 1981; here in a version by ranks.
    """
    n = len(mean)
    absolute = np.abs(standardised)
    heteroscedastic = likelihood.heteroscedastic_version
    if heteroscedastic is None or n < 50 or np.ptp(absolute) <= 0.0:
        return None
    d = X.shape[1]
    # up to thirty groups, of ten rows at least
    numbers = {3, min(n // 10, 30)} if by_groups else {3}
    variations = []
    for j, column in enumerate((*X.T, mean)):
        # equal values are in one group
        order = (rankdata(column) - 0.5) / n
        for number in numbers:
            group_of_row = (number * order).astype(np.intp)
            gain, sizes, groups = _gain_of_groups(absolute, group_of_row)
            if gain < _MIN_GAIN:
                continue
            # Bonferroni
            p_value = kruskal(*groups).pvalue * (d + 1) * len(numbers)
            if p_value < 1e-6:
                variations.append((gain, j, sizes))
    if not variations:
        return None
    best_gain, best_column, _ = max(variations, key=itemgetter(0))
    # thirds are named where they explain half of it
    sizes_of_column = [
        sizes
        for gain, column, sizes in variations
        if column == best_column and gain >= 0.5 * best_gain
    ]
    sizes = min(sizes_of_column, key=len)
    column_name = "the predicted mean"
    if best_column < d:
        column_name = f"column {best_column}"
    places = ("at some of its values", "at others")
    if len(sizes) == 3:
        names = ("smallest", "middle", "largest")
        thirds = [f"in the third of the rows with its {name} values" for name in names]
        places = (thirds[np.argmax(sizes)], thirds[np.argmin(sizes)])
    outliers = ""
    if not likelihood.heavy_tailed:
        outliers = ", or StudentT() if these are a few outliers"
    return Finding(
        "varying noise",
        f"The noise varies with {column_name}: residuals are "
        f"{sizes.max() / sizes.min():.2g} times as large {places[0]}, where intervals "
        f"are too narrow, as {places[1]}, where they are too wide. A likelihood whose "
        f"noise varies would gain about {best_gain:.2g} nats per "
        f"observation: use PLSRegressor(likelihood={heteroscedastic}()){outliers}; "
        'or GWIRegressor(noise_model="boosting"), around any mean.',
        gain=best_gain,
    )


def _gain_of_groups(
    absolute: Array,
    group_of_row: Index,
) -> tuple[float, Array, list[Array]]:
    """Gain of a scale for each group of rows, mean sizes, and the groups.

    Groups of fewer than five rows are left out; without two others, and if these have
    not most of the rows, there is no gain.
    """
    groups = [absolute[group_of_row == k] for k in np.unique(group_of_row)]
    groups = [group for group in groups if len(group) >= 5]
    counts = np.array([len(group) for group in groups])
    if len(groups) < 2 or counts.sum() < 0.8 * len(absolute):
        return 0.0, np.ones(1), groups
    shares = counts / counts.sum()
    sizes = np.maximum([np.mean(group) for group in groups], 1e-12)
    gain = float(0.5 * np.log(shares @ sizes**2) - shares @ np.log(sizes))
    # by chance: the squared relative standard errors of the sizes
    spreads = np.array([np.var(group, ddof=1) for group in groups])
    gain -= float(shares @ (spreads / (counts * sizes**2)))
    return gain, sizes, groups


# A likelihood ratio of at least e⁵ is reported, which normal noise exceeds with a
# probability of at most e⁻⁵, if it is also worth acting on: so many nats per
# observation, the `least_gain` of each check.
_LEAST_EVIDENCE = 5.0


def heavy_tails(
    standardised: Array,
    noise_share: Array,
    weights: Array,
    likelihood: Likelihood,
) -> Finding | None:
    """Likelihood ratio of Student-t noise to normal noise, each of its best scale [1]_.

    A row counts by the share of noise in its residual. If noise is less than half of
    all residuals, the tails may belong to a function that the kernel does not describe.

    Parameters
    ----------
    standardised : ndarray of shape (n,)
        Residuals in units of their standard deviation, up to a factor.
    noise_share, weights : ndarray of shape (n,)
        Share of the noise in the predictive variance of each row given the others:
        one less its leverage.
    likelihood : Likelihood

    References
    ----------
    .. [1] Vuong, "Likelihood ratio tests for model selection and non-nested
       hypotheses", Econometrica 1989.
    """
    n = len(standardised)
    squares = standardised**2
    noise_rows = float(np.sum(noise_share))
    weights = weights * noise_share
    variance = float(np.average(squares, weights=weights))
    if not likelihood.has_closed_form or variance == 0.0:
        return None
    if noise_rows < max(0.5 * n, 50.0):
        return None
    df = StudentT().df
    # σ² = mean of (ν + 1) r² / (ν + r² / σ²), the maximum of the likelihood
    scale2 = 0.5 * variance
    for _ in range(50):
        terms = (df + 1.0) * squares / (df + squares / scale2)
        scale2 = float(np.average(terms, weights=weights))
    log_ratios = student.logpdf(standardised, df, scale=np.sqrt(scale2))
    log_ratios -= norm.logpdf(standardised, scale=np.sqrt(variance))
    gain = float(np.average(log_ratios, weights=weights))
    # NaN is no finding
    least_gain = 0.02
    if not (gain >= least_gain and gain * noise_rows >= _LEAST_EVIDENCE):
        return None
    outlier_share = float(np.average(squares > 9.0 * variance, weights=weights))
    return Finding(
        "heavy tails",
        f"The residuals have heavy tails: {100.0 * outlier_share:.2g} % of them are "
        "beyond three standard deviations, where normal noise has 0.27 %, and pull the "
        f"mean towards themselves. Student-t noise would gain about {gain:.2g} nats "
        "per observation: use PLSRegressor(likelihood=StudentT()), or "
        'GWIRegressor(likelihood="student_t"), around any mean.',
        gain=gain,
    )


def multiplicative_variation(
    X: Array,
    y: Array,
    weights: Array,
    kernel: Kernel,
    noise_variance: float,
) -> Finding | None:
    """Box-Cox likelihood of log(y) and of y, under the covariance of the fit [1]_.

    With the correlations C of the rows, and shift and scale of each at their maximum
    of likelihood, the logarithm gains ``½ log(s²(y) / s²(log y)) - mean of log y`` nats
    per observation, where ``s²(z) = min_c (z - c)ᵀ C⁻¹ (z - c) / n``.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y, weights : ndarray of shape (n,)
    kernel : sklearn.gaussian_process.kernels.Kernel
        Covariance of y without the noise, up to a factor.
    noise_variance : float
        Under the same factor.

    Notes
    -----
    O(n³) time for n rows, 1000 of them at most.

    References
    ----------
    .. [1] Box and Cox, "An analysis of transformations", JRSS B 1964.
    """
    sample = thinning(len(y), THINNED_ROWS)
    X = X[sample]
    y = y[sample]
    weights = weights[sample]
    if np.min(y) <= 0.0 or len(y) < 50 or np.ptp(y) == 0.0:
        return None
    C = kernel(X) + np.diag(max(noise_variance, 1e-10) / weights)
    # C = L Lᵀ, and L⁻¹ of y, of its logarithm and of a constant
    targets = np.column_stack((y, np.log(y), np.ones(len(y))))
    whitened = solve_lower(cholesky(C).L, targets)
    z = whitened[:, :2]
    constant = whitened[:, 2]
    # s² = |L⁻¹(z - c)|² / n, c by generalised least squares
    centres = (constant @ z) / (constant @ constant)
    scales2 = np.mean((z - np.outer(constant, centres)) ** 2, axis=0)
    gain = float(0.5 * np.log(scales2[0] / scales2[1]) - np.mean(np.log(y)))
    least_gain = 0.05
    if gain < least_gain or gain * len(y) < _LEAST_EVIDENCE:
        return None
    return Finding(
        "multiplicative variation",
        "The variation of y grows with its level: noise and seasons are more nearly "
        "proportional to it than constant, and intervals are too narrow where y is "
        f"large. log(y) has a likelihood of about {gain:.2g} nats per observation more "
        "than y: use PLSRegressor(), ExactGPRegressor() or GWIRegressor(), whose noise "
        "of likelihood=None may be normal on another scale of y, or a "
        "TransformedTargetRegressor of the logarithm.",
        gain=gain,
    )


# Fewest held-out rows that compare a mean with the process around it.
_FEWEST_COMPARED = 20


def better_process(
    errors: Array,
    process_errors: Array,
    variance: float,
) -> Finding | None:
    """Squared errors of a base model against the errors of the process around it.

    Parameters
    ----------
    errors, process_errors : ndarray of shape (n,)
        At held-out rows: of the base model, and of the process without it.
    variance : float
        Variance of y.
    """
    if len(errors) < _FEWEST_COMPARED or variance <= 0.0:
        return None
    base = float(np.mean(errors**2))
    process = float(np.mean(process_errors**2))
    if base <= 2.0 * process or base - process < _MIN_SHARE * variance:
        return None
    return Finding(
        "base model",
        "At held-out rows the squared error of the mean is "
        f"{base / variance:.2g} of the variance of y, that of the Gaussian process "
        f"alone {process / variance:.2g}: predictions are less accurate than the data "
        'allow, and intervals are wide. Use mean="auto", or another model as the mean.',
    )


def frozen_base_model(frozen: bool, cv: object) -> Finding | None:
    """Whether a fitted base model may have seen the rows that calibrate it."""
    if not frozen or cv == "prefit":
        return None
    return Finding(
        "frozen base model",
        "The mean is a FrozenEstimator, and its errors at the rows given to fit "
        "calibrate predictions. If it was fitted to these rows, predictions are "
        "overconfident. Pass rows that it was not fitted to and set "
        'cv="prefit", or pass the estimator without FrozenEstimator to cross-fit it.',
    )


def better_class_process(gain: Array) -> Finding | None:
    """Log losses of networks of classes against the process around them.

    Parameters
    ----------
    gain : ndarray of shape (n,)
        Loss of the process less the loss of the networks, at held-out rows.
    """
    if len(gain) < _FEWEST_COMPARED:
        return None
    lost = -float(np.mean(gain))
    standard_error = float(np.std(gain)) / np.sqrt(len(gain))
    if lost < max(0.05, 2.0 * standard_error):
        return None
    return Finding(
        "base model",
        f"At held-out rows the log loss of the networks is {lost:.2g} nats above that "
        "of the Gaussian process alone: predictions are less accurate than the data "
        'allow. Use mean="auto", or another classifier as the mean.',
    )


def input_outliers(X: Array, kept: Mask, column: int) -> Finding | None:
    """Rows that were left out because one column is far from all others.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kept : ndarray of bool of shape (n,)
    column : int
    """
    n_outliers = int(np.sum(~kept))
    if n_outliers == 0:
        return None
    x = X[:, column]
    bulk = x[kept]
    return Finding(
        "input outliers",
        f"{n_outliers} of {len(X)} rows were left out because their inputs are "
        f"far from all others: column {column} goes from {x.min():.6g} to "
        f"{x.max():.6g}, without them from {bulk.min():.6g} to {bulk.max():.6g}. "
        "Fourier functions on the whole range would be too coarse for the others. To "
        "keep all rows, give a `domain` that covers them, or a kernel and "
        'basis="inducing".',
    )


# ---- Hyperparameters -----------------------------------------------------------------


def equal_rows(rows: Rows, n_counted: float) -> Finding | None:
    """Rows that equal another one in X and y, which the search counts once.

    Fewer than five copies, or than 1 % of the rows, are not reported, nor are those of
    grades and rounded y, which may agree by chance.

    Parameters
    ----------
    rows : Rows
        Of the search.
    n_counted : float
        How many they are without copies.
    """
    n_rows = rows.weights.sum()
    n_copies = n_rows - n_counted
    if n_copies < max(5.0, 0.01 * n_rows):
        return None
    if len(np.unique(rows.y, axis=0)) < 0.5 * n_counted:
        return None
    return Finding(
        "equal rows",
        f"{n_copies:.0f} of the {n_rows:.0f} rows of the search for hyperparameters "
        "repeat another one in X and y. It counts equal rows once, since independent "
        "noise does not agree to the last digit; the posterior counts each, and "
        "intervals near them are narrower. Drop copies that are no observations, or "
        "pass numbers of repetitions as sample_weight, which does the same silently.",
    )


def no_level(is_slope: Mask) -> Finding | None:
    """Rows that are all slopes: what they see is the same at every level of f."""
    if not np.all(is_slope):
        return None
    return Finding(
        "no level",
        "All rows are slopes, which are the same at every level of the function: its "
        "values are predicted around zero, with the standard deviation of the prior. "
        "Add one value at least, or predict slopes and differences (against).",
    )


def no_signal(
    gain: float,
    least: float = 0.0,
    rows: Rows | None = None,
) -> Finding | None:
    """Whether the latent function gains no more evidence on pure noise than `least`.

    Parameters
    ----------
    gain, least : float
        In nats; a search that has preferred noise around a constant has a gain of zero.
    rows : Rows, optional
        A signal is not expected of fewer than 200 observations, or of a constant y.
    """
    if gain > least:
        return None
    if rows is not None:
        varies = np.any(rows.y != rows.y[0])
        if rows.weights.sum() < 200 or not varies:
            return None
    return Finding(
        "no signal",
        "No dependence of y on X was found: the latent function gains "
        f"{max(gain, 0.0):.2g} nats of evidence on noise around a constant, and "
        "predictions stay close to the mean of y. Check the columns of X, or give more "
        "rows or another kernel: None, or one whose lengthscales start near the scale "
        "of the variation.",
    )


def noise_below_residuals(
    residuals: Array,
    weights: Array,
    noise_variance: float,
) -> Finding | None:
    """Residuals of the rows of a fit with more than twice the variance of the noise.

    Those of a model that follows its rows have less than the variance of the noise, and
    of noise that is right a scatter within a chi-square quantile of it.

    Parameters
    ----------
    residuals, weights : ndarray of shape (n,)
    noise_variance : float
        In squared units of the residuals.
    """
    n = len(residuals)
    ratio = float(np.average(residuals**2, weights=weights)) / noise_variance
    if ratio <= max(2.0, chi2.isf(1e-3, n) / n):
        return None
    return Finding(
        "noise below residuals",
        "The residuals of the rows of the fit have "
        f"{ratio:.2g} times the variance of its noise: the functions do not follow the "
        "rows as closely as the prior expects, and intervals may be too narrow. Give a "
        "larger n_basis or a kernel, or use PLSRegressor.",
    )


def at_bounds(kernel: Kernel, default: bool, log_scale: bool) -> Finding | None:
    """Hyperparameters of the kernel at a bound that restricts the fit.

    Some bounds do not restrict it: longest lengthscales and correlations of one
    (columns without effect), correlations of nearly zero (categories without relation),
    the background of a GRE kernel and loadings near one. Of a
    `default` kernel, the smallest amplitude does not either, nor the largest amplitude
    of log odds and log rates (`log_scale`), which separable classes reach.
    """
    restricted = []
    for name, part in theta_entries(kernel):
        bounds = kernel.bounds[part]
        reached = np.abs(kernel.theta[part, np.newaxis] - bounds) < 1e-3
        if name.endswith("correlation"):
            # no bound is wider than a correlation of one, the logarithm zero; one below
            # the default bound of 1e-3 would change no prediction
            reached[:, 0] &= bounds[:, 0] > np.log(1e-3) + 1e-3
            reached[:, 1] &= bounds[:, 1] < -1e-3
        low, high = np.any(reached, axis=0)
        if name == "background" or name.endswith("angles"):
            continue
        if name.endswith("length_scale"):
            restricts = low
        elif default:
            restricts = high and not log_scale
        else:
            restricts = low or high
        if restricts:
            values = np.exp(kernel.theta[part]).round(6).tolist()
            restricted.append(f"{name} = {values}")
    if not restricted:
        return None
    advice = ""
    if default and "constant" in restricted[0]:
        advice = (
            " If the latent function is a logarithm, set log_scale = True in the class "
            "of its likelihood."
        )
    return Finding(
        "hyperparameters at bounds",
        f"The hyperparameters {'; '.join(restricted)} ended at their bounds. Give a "
        'kernel with wider bounds, or fix them on purpose with bounds="fixed".'
        f"{advice}",
        ConvergenceWarning,
    )


def too_few_inducing_points(
    m: int,
    needed: float,
    unexplained: float,
    automatic: bool,
) -> Finding | None:
    """Whether more inducing points would gain evidence.

    Parameters
    ----------
    m : int
    needed : float
        Number of points after which twice as many do not gain.
    unexplained : float
        Evidence that the points leave out, in nats per observation.
    automatic : bool
        Whether m is the largest number within the budget, not a given one.
    """
    if m >= needed and not unexplained > 0.1:
        return None
    if m < needed:
        reason = f"the evidence grows up to about {needed:.0f}"
    else:
        reason = f"they leave up to {unexplained:.2g} nats per observation unexplained"
    if automatic:
        advice = f"n_inducing={2 * m} takes about four times as long."
    else:
        advice = 'n_inducing="auto" takes as many points as the data need.'
    return Finding(
        "too few inducing points",
        f"{m} inducing points are too few for this function: {reason}. Predictions are "
        f"smoother and intervals wider than with more points. {advice}",
        ConvergenceWarning,
    )


def too_few_basis_functions(
    size: int,
    largest: int | None,
    signal: float,
    noise: float,
    left_out: float,
) -> Finding | None:
    """Whether the data support more functions than the most there are.

    They do where they determine the last one of the largest number: ``n λ_m >= σ²``.

    Parameters
    ----------
    size : int
    largest : int or None
        The most that a search takes; None if the number is given.
    signal, noise : float
        ``n λ_m`` of the last function, and ``σ²``.
    left_out : float
        Prior standard deviation of all other functions, in the units of y.
    """
    if largest is None or size < largest or signal < noise:
        return None
    return Finding(
        "too few basis functions",
        f"The data support more than {size} basis functions; the others add a prior "
        f"standard deviation of {left_out:.3g} to every prediction. Give a larger "
        "n_basis or a smoother kernel, or use PLSRegressor, which follows nearest "
        "rows.",
        ConvergenceWarning,
    )


def solver_not_converged(solution: Solution, tol: float) -> Finding | None:
    """Whether conjugate gradients have ended before predictions stopped changing.

    Parameters
    ----------
    solution : Solution
        What :func:`skgpx._numerics.conjugate_gradients.solve` returns.
    tol : float
    """
    if solution.converged:
        return None
    return Finding(
        "solver not converged",
        f"Conjugate gradients have not converged: the last of {solution.n_products} "
        f"products changed predictions by {solution.change:.2g} standard deviations "
        f"of an observation (tol={tol:g}), and residuals are up to "
        f"{np.max(solution.residuals, initial=0.0):.2g} of the right-hand sides. "
        "Predictions are between those of a sparse process and the exact one. Increase "
        "max_iter, or check whether the noise variance is realistic: the smaller it "
        "is, the more products are needed.",
        ConvergenceWarning,
    )


# ---- Samplers ------------------------------------------------------------------------


def chains_not_converged(
    r_hat: float,
    tol: float,
    n_iter: int,
    acceptance: float,
    log_concave: bool,
) -> Finding | None:
    """Split R-hat of Markov chains above its tolerance."""
    if r_hat <= max(tol, 1.0 + 1e-9):
        return None
    advice = ""
    if not log_concave:
        advice = ', or use method="smc": the likelihood is not log-concave'
    return Finding(
        "chains not converged",
        f"The chains have not converged: split R-hat is {r_hat:.3g} after {n_iter} "
        f"steps (tol={tol:g}) with an acceptance of {acceptance:.2g}. Increase "
        f"max_iter{advice}.",
        ConvergenceWarning,
    )


def not_monotone(share: float, largest: float) -> Finding | None:
    """Draws of a function under `monotonic_cst` that go the wrong way somewhere."""
    if share <= largest:
        return None
    return Finding(
        "not monotone",
        f"{share:.0%} of the draws fall between the points at which monotonic_cst "
        "holds, by more than a thousandth of the standard deviation of f. Give a "
        "smoother kernel, such as RBF(), or constrain fewer columns.",
        ConvergenceWarning,
    )


def unadjusted_steps(
    step_size: float,
    largest_stable: float,
    acceptance: float,
) -> Finding | None:
    """Unadjusted steps so long that particles are not those of the posterior.

    Along the stiffest direction of a normal posterior the scheme has ``1 / (1 - η /
    η_max)`` times the variance: at most twice is not reported, unless a Metropolis test
    would accept too few steps.

    Parameters
    ----------
    step_size, largest_stable : float
        η, and η_max, 2 divided by the largest eigenvalue of the Hessian at the mode.
    acceptance : float
        Share of further steps that a Metropolis test would accept.
    """
    is_short = step_size <= 0.5 * largest_stable
    least_acceptance = 0.6
    if is_short and acceptance >= least_acceptance:
        return None
    return Finding(
        "unadjusted steps too long",
        'The particles of method="ula" are too far apart: nothing corrects the error '
        f"of its steps, of which a Metropolis test would accept {acceptance:.2g}. From "
        f"{0.5 * largest_stable:.3g} on they double a variance, and from "
        f"{largest_stable:.3g} on they are unstable; got {step_size:.3g}. Use a "
        'smaller step_size, None, or method="mala".',
        ConvergenceWarning,
    )


def potential_not_resolved(error: float, tolerance: float) -> Finding | None:
    """Quadrature of the optimal potential with an error above its tolerance."""
    if error <= tolerance:
        return None
    return Finding(
        "potential not resolved",
        'potential="optimal" averages the likelihood over the residual of the inducing '
        f"points, with a relative error of up to {100.0 * error:.2g} % of the negative "
        "log-likelihood of a row: the residual is much wider than the likelihood. Use "
        'more inducing points, or potential="projected".',
        ConvergenceWarning,
    )


def rows_not_converged(converged: bool) -> Finding | None:
    """Posterior given nearest rows, or of a series, that did not converge."""
    if converged:
        return None
    return Finding(
        "nearest rows not converged",
        "The normal distribution that is closest to the posterior, given nearest rows "
        "or of a series, has not been found: the likelihood has distant modes at "
        "single rows, or the prior is much wider than the data. Use a kernel of longer "
        "lengthscales or smaller variance, or n_neighbors=0, which samples.",
        ConvergenceWarning,
    )


def several_modes(gap: float) -> Finding | None:
    """A second mode with a Laplace evidence less than five nats below the first."""
    if gap >= 5.0:
        return None
    return Finding(
        "several modes",
        "The posterior has several modes: a second one has a Laplace evidence only "
        f"{gap:.2g} nats below that of the first, in which all chains start. Use "
        'method="smc", which weighs them against each other.',
        ConvergenceWarning,
    )


def largest_excess(n_weights: int) -> float:
    """Potential above that of the best mode, in nats, that hardly any posterior has.

    Half a chi-square variable of `n_weights` degrees of freedom for a normal one.
    """
    return 0.5 * float(chi2.isf(1e-3, n_weights))


def runs_disagree(
    r_hat: float,
    evidences: Array,
    excess: float,
    n_weights: int,
    n_particles: int,
) -> Finding | None:
    """Runs of tempered sequential Monte Carlo that do not sample one posterior.

    Parameters
    ----------
    r_hat : float
        Between the runs.
    evidences : ndarray of shape (b,)
        Log evidence of each run.
    excess : float
        Mean potential of the particles above the best mode's, in nats.
    n_weights, n_particles : int
    """
    symptoms = []
    if r_hat > 1.1:
        symptoms.append(
            f"the {len(evidences)} independent runs disagree (R-hat {r_hat:.3g}, log "
            f"evidences from {evidences.min():.5g} to {evidences.max():.5g})"
        )
    largest = largest_excess(n_weights)
    if excess > largest:
        symptoms.append(
            f"the particles lie {excess:.3g} nats above the best mode on average, "
            f"where at most {largest:.3g} is expected"
        )
    if not symptoms:
        return None
    return Finding(
        "Monte Carlo runs disagree",
        f"Sequential Monte Carlo has not converged: {', and '.join(symptoms)}. The "
        "weights of the modes are uncertain. Increase n_particles above "
        f"{max(400, n_particles)}, use fewer inducing points, or a likelihood that is "
        "log-concave.",
        ConvergenceWarning,
    )


# ---- Counts --------------------------------------------------------------------------


def check_counts(
    y: Array,
    weights: Array,
    latent: LatentMixture,
    likelihood: Likelihood,
    *,
    follows_rows: bool,
) -> Findings:
    """Check the scatter of counts and, if that is as predicted, their zeros.

    Parameters
    ----------
    y, weights : ndarray of shape (n,)
    latent : LatentMixture
        Latent values of the rows.
    likelihood : Likelihood
        Likelihood of the rows, with their exposures.
    follows_rows : bool
        Whether the kernel is learned and the basis large enough. What another fit does
        not follow scatters around its rates, and is no overdispersion.
    """
    # classes are encoded as counts, and outcomes of one trial are calibrated
    if not likelihood.discrete or likelihood.n_outputs_ > 1 or np.max(y) < 2.0:
        return []
    # moments over both signs of f say nothing of its rates
    has_rates = follows_rows and not likelihood.symmetric
    if likelihood.overdispersed_version is not None and has_rates:
        scattered = overdispersion(y, weights, latent, likelihood)
        if scattered is not None:
            return [scattered]
    probability = np.exp(likelihood.predictive_log_density(np.zeros(len(y)), latent))
    f = latent.moments()[0].reshape(-1, 1, 1)
    # derivatives of log p(y | f) in f and in the scales that were learned, (n, q)
    scores = [-likelihood.row_gradient(y, f)[:, 0]]
    for step in 1e-4 * np.eye(len(likelihood.theta)):
        above = likelihood.with_theta(likelihood.theta + step).row_nll(y, f)
        below = likelihood.with_theta(likelihood.theta - step).row_nll(y, f)
        scores.append((below - above) / 2e-4)
    return [excess_zeros(y, weights, probability, np.hstack(scores))]


def _given_other_counts(
    y: Array,
    latent: LatentMixture,
    likelihood: Likelihood,
) -> LatentMixture:
    """Latent value of each row given all counts but one of the row itself.

    With the mean m, the variance v, and averages of slope and curvature of -log p(y |
    f), the closest normal distribution without this count has::

        1 / v' = 1 / v - E c,    m' = m + v' E g
    """
    mean, variance = latent.moments()
    nodes, masses = expectation_nodes(1)
    _, gradient, curvature = line_averages(
        likelihood,
        y,
        mean,
        np.sqrt(variance),
        nodes[:, 0],
        masses,
    )
    # of the posterior precision; linear updates do not know what has less of it
    share = np.clip(1.0 - variance * curvature, 0.2, 1.0)
    variance = variance / share
    mean = mean + variance * gradient
    return LatentMixture(
        mean=mean[..., np.newaxis],
        variance=variance[..., np.newaxis],
        weights=np.ones(1),
    )


def overdispersion(
    y: Array,
    weights: Array,
    latent: LatentMixture,
    likelihood: Likelihood,
) -> Finding | None:
    """Leave-one-out density of counts against that of counts that vary more.

    A flexible function follows the scatter of the counts, so rates of the fit itself
    leave too little of it. Given all other counts, y has a density under the model; and
    as a negative-binomial or beta-binomial count of the mean at ``a + b f``, f the
    latent value without the row, with a, b and the precision at their maximum of
    likelihood. It has to gain on the former, and on a count of such a mean without
    overdispersion.

    Parameters
    ----------
    y, weights : ndarray of shape (n,)
    latent : LatentMixture
        Latent values of the rows in the fit.
    likelihood : Likelihood
        With an `overdispersed_version`, and with the exposures of the rows.

    Notes
    -----
    The shrinkage b leaves less of the signal than a process of such counts, so the
    gain is rather too small, most where lengthscales are so short that the function
    follows each count. Poisson counts of a random walk, which is rougher than the
    kernels that compete, had 0.05 to 0.12 nats: less is not reported.
    """
    given_others = _given_other_counts(y, latent, likelihood)
    as_predicted = likelihood.predictive_log_density(y, given_others) @ weights
    f = given_others.mean
    centre = np.average(f[:, 0, 0], weights=weights)

    def loss(parameters: Array, log_precision: float = 10.0) -> float:
        shift, slope = parameters[:2]
        mean = likelihood.row_mean(centre + shift + slope * (f - centre))[:, 0]
        precision = np.exp(np.clip(log_precision, -10.0, 10.0))
        nll = likelihood.overdispersed_nll(y, mean, precision)
        return float(np.average(nll, weights=weights))

    fitted = minimize(lambda p: loss(p, p[2]), [0.0, 0.5, 1.0], method="BFGS")
    # a, b correct means of a wrong kernel without overdispersion, too
    corrected = minimize(loss, [0.0, 0.5], method="BFGS")
    n_counts = weights.sum()
    gain = float(min(corrected.fun, -as_predicted / n_counts) - fitted.fun)
    if gain < _MIN_GAIN or gain * n_counts < _LEAST_EVIDENCE:
        return None
    return Finding(
        "overdispersion",
        "The counts are overdispersed: they vary more around rates that follow from "
        "the other rows than the likelihood says. Intervals are too narrow, and the "
        "function may follow the noise. If the kernel was given, it may be too smooth: "
        "compare with kernel=None. A distribution that varies more would gain about "
        f"{gain:.2g} nats per observation: after a look for outliers and missing "
        f"columns use {likelihood.overdispersed_version}.",
        gain=gain,
    )


def excess_zeros(
    y: Array,
    weights: Array,
    probability: Array,
    scores: Array,
) -> Finding | None:
    """Score test of the number of zeros against the predicted number [1]_.

    Parameters
    ----------
    y, weights, probability : ndarray of shape (n,)
        The last is ``P(y = 0)`` under the predictive distribution.
    scores : ndarray of shape (n, q)
        Derivatives of the log density in the fitted level and scales, which absorb a
        part of the excess, and of its variance.

    References
    ----------
    .. [1] van den Broek, "A score test for zero inflation in a Poisson distribution",
       Biometrics 1995.
    """
    root = np.sqrt(weights)
    surplus = (y == 0.0) - probability
    excess = float(weights @ surplus)
    total = float(weights.sum())
    # variance of the surplus that the scores do not explain
    weighted_scores = scores * root[:, np.newaxis]
    coefficients = np.linalg.lstsq(weighted_scores, surplus * root, rcond=None)[0]
    std = float(np.linalg.norm(root * (surplus - scores @ coefficients)))
    if excess <= 5.0 * std or excess < 0.03 * total:
        return None
    observed = 100.0 * float(weights @ (y == 0.0)) / total
    expected = observed - 100.0 * excess / total
    return Finding(
        "excess zeros",
        "There are more zeros than the likelihood predicts: "
        f"{observed:.2g} % of the counts, where {expected:.2g} % are expected. "
        "Probabilities of small counts "
        "are wrong, and intervals too wide. Check whether some zeros are of another "
        "kind, such as missing counts, and leave them out or mark them by a column; or "
        "use a zero-inflated likelihood, as on the documentation's page about a "
        "likelihood of your own.",
    )
