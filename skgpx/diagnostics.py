"""Diagnostics of a fit: named checks whose findings make one warning.

Each check is a statistic of the field and returns a `Finding`, or None. A fit collects
the findings and ends with `conclude`, which keeps them as `findings_` and emits one
`FitWarning`, and at most one `ConvergenceWarning`, for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import chi2, kruskal, norm, rankdata
from scipy.stats import t as student

from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._validation import Rows
from skgpx.exceptions import ConvergenceWarning, FitWarning, SkgpxWarning, warn
from skgpx.kernels import theta_entries
from skgpx.likelihoods import StudentT

__all__ = [
    "CovarianceOfRows",
    "Finding",
    "at_bounds",
    "better_class_process",
    "better_process",
    "chains_not_converged",
    "check_counts",
    "check_residuals",
    "conclude",
    "excess_zeros",
    "frozen_base_model",
    "heavy_tails",
    "input_outliers",
    "multiplicative_variation",
    "no_signal",
    "only_noise",
    "overdispersion",
    "potential_not_resolved",
    "residual_autocorrelation",
    "rows_not_converged",
    "runs_disagree",
    "several_modes",
    "solver_not_converged",
    "too_few_basis_functions",
    "too_few_inducing_points",
    "varying_noise",
]

Array = NDArray[np.float64]


class Finding(NamedTuple):
    """What a check of a fit has found.

    Attributes
    ----------
    check : str
        Name of the check, such as "residual autocorrelation".
    message : str
        What happened, what it means for predictions, and what to do.
    category : type
        `FitWarning` or `ConvergenceWarning`.
    """

    check: str
    message: str
    category: type[SkgpxWarning] = FitWarning

    def of(self, target: int) -> Finding:
        """The same about one of several targets."""
        check, message = f"{self.check}, target {target}", f"Target {target}: "
        return Finding(check, message + self.message, self.category)


def conclude(estimator: Any, findings: Iterable[Finding | None]) -> None:
    """Keep the findings of a fit as `findings_` and warn once a category."""
    estimator.findings_ = found = tuple(one for one in findings if one is not None)
    for category in (FitWarning, ConvergenceWarning):
        messages = [one.message for one in found if one.category is category]
        if len(messages) == 1:
            warn(messages[0], category)
        elif messages:
            items = "\n".join(f"- {message}" for message in messages)
            warn(f"The diagnostics of this fit found:\n{items}", category)


# ---- Residuals -----------------------------------------------------------------------


def check_residuals(
    rows: Rows,
    residuals: Array,
    variance: Array,
    noise_share: Array,
    likelihood: Any,
    *,
    noise_is_free: bool,
    other_noise: bool,
    prior: CovarianceOfRows | None = None,
) -> list[Finding | None]:
    """Check the residuals of each target for structure that the model leaves out.

    Parameters
    ----------
    rows : Rows
        Of X, y and weights.
    residuals : ndarray of shape (n,) or (n, t)
        ``y - m(x)``.
    variance : ndarray of shape (n,) or (n, t)
        Of the residuals, up to a factor.
    noise_share : ndarray of shape (n,) or (n, t)
        Share of the noise in the predictive variance of each row given the others:
        one less its leverage.
    likelihood : Likelihood
    noise_is_free : bool
        Whether the noise was estimated, and may have absorbed signal: under a noise
        that the user has given a model may underfit on purpose.
    other_noise : bool
        Whether the estimator could have another noise: noise that varies and heavy
        tails are looked for only then.
    prior : CovarianceOfRows, optional
        Covariance of y under the fit, to compare y with its logarithm.

    Returns
    -------
    findings : list of Finding or None
        Logarithms take the place of noise that varies, which they explain, and both
        that of heavy tails.
    """
    findings: list[Finding | None] = []
    if not len(rows.y):
        return findings
    targets = np.atleast_2d(rows.y.T)
    residuals = np.atleast_2d(residuals.T)
    # perhaps those of all targets
    variance = np.broadcast_to(variance.T, targets.shape)
    noise_share = np.broadcast_to(noise_share.T, targets.shape)
    for j, y in enumerate(targets):
        errors = residuals[j]
        centre = np.average(y, weights=rows.weights)
        total = float(np.average((y - centre) ** 2, weights=rows.weights))
        lost = None
        if noise_is_free:
            lost = residual_autocorrelation(rows.X, errors, rows.weights, total)
        growing = None
        if prior is not None and likelihood.has_closed_form:
            growing = multiplicative_variation(rows.X, y, rows.weights, prior.target(j))
        noise = None
        if other_noise and growing is None:
            standardised = errors / np.sqrt(variance[j])
            mean = y - errors
            # the order of a mean without effect is that of the errors themselves
            if np.std(mean) < 0.2 * np.std(errors):
                mean = np.zeros(len(y))
            noise = varying_noise(rows.X, mean, standardised, likelihood)
            if noise is None and lost is None:
                shares = noise_share[j]
                noise = heavy_tails(standardised, shares, rows.weights, likelihood)
        of_target = [lost, growing, noise]
        if rows.y.ndim > 1:
            of_target = [finding and finding.of(j) for finding in of_target]
        findings += of_target
    return findings


# Least share of the variance of y that counts as lost.
_MIN_SHARE = 0.05


def residual_autocorrelation(
    X: Array,
    residuals: Array,
    weights: Array,
    variance: float,
) -> Finding | None:
    """Moran's I of the residuals of neighbouring rows, for noise that is independent.

    Neighbours are adjacent in one column, or nearest by ranks in up to five. Rows may
    come in the order of (X, y): among equal inputs the neighbours are drawn at random,
    since next to one another such rows have like residuals. Equal rows have been merged
    into weights, without which the residuals of rounded y would not have mean zero.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    residuals, weights : ndarray of shape (n,)
    variance : float
        That of y.
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
        # for the last row of the column, the one before
        following[order[-1]] = order[-2]
    if 1 < d <= 5:
        ranks: Array = rankdata(X, axis=0)
        two = cKDTree(ranks).query(ranks, 2)[1]
        nearest = np.where(two[:, 0] == np.arange(n), two[:, 1], two[:, 0])
        neighbours = np.vstack((neighbours, nearest))
    # Moran's I: Σ ω_i ω_j r_i r_j / Σ ω_i ω_j, beside Σ ω r² / Σ ω
    weighted = weights * residuals
    products = weighted * weighted[neighbours]
    best = int(np.argmax(products.sum(axis=1)))
    total = float(products[best].sum())
    shared = total / float(weights @ weights[neighbours[best]])
    correlation = shared / (float(np.average(residuals**2, weights=weights)) or 1.0)
    # z-score of five, and a correlation that matters
    significant = total > 5.0 * np.sqrt(np.sum(products[best] ** 2))
    if not significant or correlation < 0.2 or shared < _MIN_SHARE * variance:
        return None
    where = f"along column {best}" if best < d else "between nearest rows"
    return Finding(
        "residual autocorrelation",
        f"Residuals are autocorrelated {where} ({100.0 * shared / variance:.0f} % of "
        "the variance of y): the model underfits, and its noise estimate absorbs the "
        "signal. Use a kernel whose lengthscales start near the scale of the "
        "variation, or a larger basis.",
    )


# Gain in nats per observation from which a noise that varies is reported. Where it was
# larger a second latent function gained held-out density, 0.1 to 0.6 nats in seven fits
# of seven; of twelve other real sets the largest had 0.094.
_MIN_GAIN = 0.1


def varying_noise(
    X: Array,
    mean: Array,
    standardised: Array,
    likelihood: Any,
) -> Finding | None:
    """Kruskal-Wallis test of the sizes of residuals in thirds of each column [1]_.

    And of the predicted mean. The effect is the gain in log density of a scale of its
    own in each third, by mean absolute residuals, which outliers inflate little.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    mean, standardised : ndarray of shape (n,)
        Predictions, and residuals in units of their standard deviation.
    likelihood : Likelihood

    References
    ----------
    .. [1] Koenker, "A note on studentizing a test for heteroscedasticity", Journal of
       Econometrics 1981, of which this is a version by ranks.
    """
    n = len(mean)
    absolute = np.abs(standardised)
    heteroscedastic = likelihood.heteroscedastic_version
    constant = heteroscedastic is not None and np.ptp(absolute) > 0.0
    if not constant or n < 100:
        return None
    found = []
    for j, column in enumerate((*X.T, mean)):
        third = (3.0 * (rankdata(column) - 0.5) / n).astype(np.intp)
        groups = [absolute[third == k] for k in range(3)]
        shares = np.bincount(third, minlength=3) / n
        if shares.min() < 0.2:  # columns of few values
            continue
        size = np.maximum([np.mean(one) for one in groups], 1e-12)
        gain = float(0.5 * np.log(shares @ size**2) - shares @ np.log(size))
        p_value = (X.shape[1] + 1) * kruskal(*groups).pvalue
        # strict, since neighbouring residuals are not independent
        if gain >= _MIN_GAIN and p_value < 1e-6:
            found.append((gain, j, size))
    if not found:
        return None
    gain, j, size = max(found, key=lambda one: one[0])
    names = "smallest", "middle", "largest"
    low, high = names[np.argmin(size)], names[np.argmax(size)]
    where = f"column {j}" if j < X.shape[1] else "the predicted mean"
    outliers = (
        "" if likelihood.heavy_tailed else ", or StudentT() if these are a few outliers"
    )
    return Finding(
        "varying noise",
        f"The noise varies with {where}: residuals are {size.max() / size.min():.2g} "
        f"times as large in the third of the rows with its {high} values, where "
        f"intervals are too narrow, as in the third with its {low}, where they are too "
        f"wide. A likelihood whose noise varies would gain about {gain:.2g} nats per "
        f"observation: use PLSRegressor(likelihood={heteroscedastic}()){outliers}; "
        'or GWIRegressor(noise_model="boosting"), around any mean.',
    )


# A ratio of likelihoods of e⁵ is reported where it is also worth acting on: by so many
# nats per observation. Where noise is normal the ratio exceeds e⁵ with a probability
# of at most e⁻⁵.
_LEAST_EVIDENCE = 5.0
_MIN_GAIN_OF_TAILS = 0.02
_MIN_GAIN_OF_LOGARITHMS = 0.05


def heavy_tails(
    standardised: Array,
    noise_share: Array,
    weights: Array,
    likelihood: Any,
) -> Finding | None:
    """Likelihood ratio of Student-t noise to normal noise, each of its best scale [1]_.

    A row counts by the share of noise in its residual. Where that is less than half of
    all, the tails may be those of a function which the kernel does not describe.

    Parameters
    ----------
    standardised, noise_share, weights : ndarray of shape (n,)
        Residuals in units of their standard deviation, up to a factor; the others as of
        `check_residuals`.
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
    gains = student.logpdf(standardised, df, scale=np.sqrt(scale2))
    gains -= norm.logpdf(standardised, scale=np.sqrt(variance))
    gain = float(np.average(gains, weights=weights))
    # NaN is no finding
    if not (gain >= _MIN_GAIN_OF_TAILS and gain * noise_rows >= _LEAST_EVIDENCE):
        return None
    far = float(np.average(squares > 9.0 * variance, weights=weights))
    return Finding(
        "heavy tails",
        f"The residuals have heavy tails: {100.0 * far:.2g} % of them are beyond three "
        "standard deviations, where normal noise has 0.27 %, and pull the mean towards "
        f"themselves. Student-t noise would gain about {gain:.2g} nats per "
        "observation: use PLSRegressor(likelihood=StudentT()), or "
        'GWIRegressor(likelihood="student_t"), around any mean.',
    )


class CovarianceOfRows(NamedTuple):
    """Covariance of standardised y under a fit, ``k(X, X) + diag(σ²)``.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float or ndarray of shape (t,)
    zero : float or ndarray of shape (t,)
        The standardised value of y = 0.
    """

    kernel: Any
    noise_variance: Any
    zero: Any

    def target(self, j: int) -> CovarianceOfRows:
        """That of one of several targets."""
        noise_variance = np.ravel(self.noise_variance)
        zero = np.ravel(self.zero)
        return CovarianceOfRows(
            self.kernel,
            float(noise_variance[j % len(noise_variance)]),
            float(zero[j % len(zero)]),
        )


def multiplicative_variation(
    X: Array,
    y: Array,
    weights: Array,
    prior: CovarianceOfRows,
) -> Finding | None:
    """Box-Cox likelihood of log(y) and of y, under the covariance of the fit [1]_.

    With the correlations C of the rows, and shift and scale of each at their maximum
    of likelihood, the logarithm gains ``½ log(s²(y) / s²(log y)) - mean of log y`` nats
    per observation, where ``s²(z) = min_c (z - c)ᵀ C⁻¹ (z - c) / n``.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y, weights : ndarray of shape (n,)
        Standardised.
    prior : CovarianceOfRows

    Notes
    -----
    O(n³) time for n rows, 1000 of them at most.

    References
    ----------
    .. [1] Box and Cox, "An analysis of transformations", JRSS B 1964.
    """
    thinned = slice(None, None, -(-len(y) // 1000))
    X = X[thinned]
    y = y[thinned] - prior.zero
    weights = weights[thinned]
    if np.min(y) <= 0.0 or len(y) < 50 or np.ptp(y) == 0.0:
        return None
    noise_variance = max(prior.noise_variance, 1e-10)
    C = prior.kernel(X) + np.diag(noise_variance / weights)
    # C = L Lᵀ, and L⁻¹ of y, of its logarithm and of a constant
    targets = np.column_stack((y, np.log(y), np.ones(len(y))))
    whitened = solve_lower(cholesky(C).L, targets)
    z = whitened[:, :2]
    constant = whitened[:, 2]
    # s² = |L⁻¹(z - c)|² / n, c by generalised least squares
    centres = (constant @ z) / (constant @ constant)
    scales2 = np.mean((z - np.outer(constant, centres)) ** 2, axis=0)
    gain = float(0.5 * np.log(scales2[0] / scales2[1]) - np.mean(np.log(y)))
    if gain < _MIN_GAIN_OF_LOGARITHMS or gain * len(y) < _LEAST_EVIDENCE:
        return None
    return Finding(
        "multiplicative variation",
        "The variation of y grows with its level: noise and seasons are more nearly "
        "proportional to it than constant, and intervals are too narrow where y is "
        f"large. log(y) has a likelihood of about {gain:.2g} nats per observation more "
        "than y: use TransformedTargetRegressor(PLSRegressor(), func=np.log, "
        "inverse_func=np.exp), or PLSRegressor(likelihood=LogNormal()).",
    )


# Fewest held-out rows that compare a mean with the process around it.
_FEWEST_COMPARED = 20


def better_process(errors: Array, own: Array, variance: float) -> Finding | None:
    """Squared errors of a base model against those of the process around it.

    Parameters
    ----------
    errors, own : ndarray of shape (n,)
        At held-out rows: of the base model, and of the process alone.
    variance : float
        That of y.
    """
    if len(errors) < _FEWEST_COMPARED or variance <= 0.0:
        return None
    base, process = float(np.mean(errors**2)), float(np.mean(own**2))
    if base <= 2.0 * process or base - process < _MIN_SHARE * variance:
        return None
    return Finding(
        "base model",
        "At held-out rows the squared error of the mean is "
        f"{base / variance:.2g} of the variance of y, that of the Gaussian process "
        f"alone {process / variance:.2g}: predictions are less accurate than the data "
        'allow, and intervals are wide. Use mean="auto", or another model as the mean.',
    )


def frozen_base_model(frozen: bool, cv: Any) -> Finding | None:
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
    """Log losses of networks of classes against those of the process around them.

    Parameters
    ----------
    gain : ndarray of shape (n,)
        Loss of the process less that of the networks, at held-out rows.
    """
    if len(gain) < _FEWEST_COMPARED:
        return None
    lost = -float(np.mean(gain))
    if lost < max(0.05, 2.0 * float(np.std(gain)) / np.sqrt(len(gain))):
        return None
    return Finding(
        "base model",
        f"At held-out rows the log loss of the networks is {lost:.2g} nats above that "
        "of the Gaussian process alone: predictions are less accurate than the data "
        'allow. Use mean="auto", or another classifier as the mean.',
    )


def input_outliers(X: Array, kept: NDArray[np.bool_], column: int) -> Finding | None:
    """Rows that were left out because one column is far from all others.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kept : ndarray of bool of shape (n,)
    column : int
    """
    if kept.all():
        return None
    x = X[:, column]
    bulk = x[kept]
    return Finding(
        "input outliers",
        f"{int(np.sum(~kept))} of {len(X)} rows were left out because their inputs are "
        f"far from all others: column {column} goes from {x.min():.6g} to "
        f"{x.max():.6g}, without them from {bulk.min():.6g} to {bulk.max():.6g}. "
        "Fourier functions on the whole range would be too coarse for the others. To "
        "keep all rows, give a `domain` that covers them, or a kernel and "
        'basis="inducing".',
    )


# ---- Hyperparameters -----------------------------------------------------------------


def no_signal(gain: float, least: float, y: Array, weights: Array) -> Finding | None:
    """Whether the latent function gains no more evidence on pure noise than `least`.

    Parameters
    ----------
    gain, least : float
        In nats.
    y, weights : ndarray of shape (n,)
    """
    # a signal is not expected of few observations
    if gain > least or weights.sum() < 200 or not np.any(y != y[0]):
        return None
    return Finding(
        "no signal",
        "No dependence of y on X was found: the latent function gains "
        f"{max(gain, 0.0):.2g} nats of evidence on pure noise, and predictions stay "
        "close to the mean of y. Check the columns of X, or give a kernel whose "
        "lengthscales start near the scale of the variation.",
    )


def only_noise(chosen: bool) -> Finding | None:
    """Whether a search has `chosen` noise around a constant, of several candidates."""
    if not chosen:
        return None
    return Finding(
        "no signal",
        "No dependence of y on X was found: no hyperparameters have a larger evidence "
        "than noise around a constant, which is what predictions are. If there is more "
        "in the data, give more rows, a smoother kernel, or kernel=None.",
    )


def at_bounds(kernel: Any, default: bool, log_scale: bool) -> Finding | None:
    """Hyperparameters of the kernel that ended at a bound which restricts the fit.

    Longest lengthscales and correlations of one (columns without effect), the
    background of a GRE kernel and loadings near one do not. Of a `default` kernel, nor
    do the smallest amplitude, and the largest of log odds and log rates (`log_scale`),
    which separable classes reach.
    """
    ended = []
    for name, part in theta_entries(kernel):
        bounds = kernel.bounds[part]
        reached = np.abs(kernel.theta[part, np.newaxis] - bounds) < 1e-3
        if name.endswith("correlation"):
            # no bound is wider than a correlation of one, whose logarithm is zero
            reached[:, 1] &= bounds[:, 1] < -1e-3
        low, high = np.any(reached, axis=0)
        if name == "background" or name.endswith("angles"):
            continue
        if name.endswith("length_scale"):
            active = low
        elif default:
            active = high and not log_scale
        else:
            active = low or high
        if active:
            ended.append(f"{name} = {np.exp(kernel.theta[part]).round(6).tolist()}")
    if not ended:
        return None
    scale = " If the latent function is a logarithm, set log_scale = True in the class "
    scale = f"{scale}of its likelihood." if default and "constant" in ended[0] else ""
    return Finding(
        "hyperparameters at bounds",
        f"The hyperparameters {'; '.join(ended)} ended at their bounds. Give a kernel "
        f'with wider bounds, or fix them on purpose with bounds="fixed".{scale}',
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
        Number of points after which twice as many no longer gain.
    unexplained : float
        Evidence that the points leave out, in nats per observation.
    automatic : bool
        Whether m is the largest number within the budget, not a given one.
    """
    if m >= needed and not unexplained > 0.1:
        return None
    why = (
        f"the evidence grows up to about {needed:.0f}"
        if m < needed
        else f"they leave up to {unexplained:.2g} nats per observation unexplained"
    )
    advice = (
        f"n_inducing={2 * m} takes about four times as long."
        if automatic
        else 'n_inducing="auto" takes as many points as the data need.'
    )
    return Finding(
        "too few inducing points",
        f"{m} inducing points are too few for this function: {why}. Predictions are "
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
        "n_basis, or a smoother kernel.",
        ConvergenceWarning,
    )


def solver_not_converged(solution: Any, tol: float) -> Finding | None:
    """Whether conjugate gradients have ended before predictions stopped to change.

    Parameters
    ----------
    solution : Solution
        Of :func:`skgpx._numerics.conjugate_gradients.solve`.
    tol : float
    """
    if solution.converged:
        return None
    return Finding(
        "solver not converged",
        f"Conjugate gradients have not converged: the last of {solution.n_products} "
        f"products changed predictions by {solution.change:.2g} standard deviations "
        f"of an observation (tol={tol:g}), and residuals are up to "
        f"{np.max(solution.residuals, initial=0.0):.2g} of the right sides. "
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
    other = "" if log_concave else ', or use method="smc": the likelihood is not '
    return Finding(
        "chains not converged",
        f"The chains have not converged: split R-hat is {r_hat:.3g} after {n_iter} "
        f"steps (tol={tol:g}) with an acceptance of {acceptance:.2g}. Increase "
        f"max_iter{other}{'' if log_concave else 'log-concave'}.",
        ConvergenceWarning,
    )


def potential_not_resolved(error: float, tolerance: float) -> Finding | None:
    """Quadrature of the optimal potential whose error is above its tolerance."""
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
    """Posterior beside nearest rows that did not settle."""
    if converged:
        return None
    return Finding(
        "nearest rows not converged",
        "The posterior beside nearest rows has not converged: the likelihood has "
        "distant modes at single rows, or the prior is much wider than the data. Use "
        "a kernel of longer lengthscales or smaller variance, or n_neighbors=0, which "
        "samples.",
        ConvergenceWarning,
    )


def several_modes(gap: float) -> Finding | None:
    """A second mode whose Laplace evidence is few nats below that of the first."""
    if gap >= 5.0:
        return None
    return Finding(
        "several modes",
        "The posterior has several modes: a second one has a Laplace evidence only "
        f"{gap:.2g} nats below that of the first, in which all chains start. Use "
        'method="smc", which weighs them against each other.',
        ConvergenceWarning,
    )


def runs_disagree(
    r_hat: float,
    evidences: Array,
    excess: float,
    n_weights: int,
    n_particles: int,
) -> Finding | None:
    """Independent runs of tempered sequential Monte Carlo that are not one posterior.

    Parameters
    ----------
    r_hat : float
        Between the runs.
    evidences : ndarray of shape (b,)
        Log evidence of each run.
    excess : float
        Mean potential of the particles above that of the best mode, in nats: half a
        chi-square variable of `n_weights` degrees of freedom for a normal posterior.
    n_weights, n_particles : int
    """
    found = []
    if r_hat > 1.1:
        found.append(
            f"the {len(evidences)} independent runs disagree (R-hat {r_hat:.3g}, log "
            f"evidences from {evidences.min():.5g} to {evidences.max():.5g})"
        )
    largest = 0.5 * float(chi2.isf(1e-3, n_weights))
    if excess > largest:
        found.append(
            f"the particles lie {excess:.3g} nats above the best mode on average, "
            f"where at most {largest:.3g} is expected"
        )
    if not found:
        return None
    return Finding(
        "Monte Carlo runs disagree",
        f"Sequential Monte Carlo has not converged: {', and '.join(found)}. The "
        "weights of the modes are uncertain. Increase n_particles above "
        f"{max(400, n_particles)}, use fewer inducing points, or a likelihood that is "
        "log-concave.",
        ConvergenceWarning,
    )


# ---- Counts --------------------------------------------------------------------------


def check_counts(
    y: Array,
    weights: Array,
    latent: Any,
    likelihood: Any,
) -> list[Finding | None]:
    """Check the scatter of counts, and their zeros where the scatter is as predicted.

    Parameters
    ----------
    y, weights : ndarray of shape (n,)
    latent : LatentMixture
        Latent values of the rows.
    likelihood : Likelihood
        Of the rows, with what is known of them.
    """
    # classes are encoded as counts, and outcomes of one trial are calibrated
    if not likelihood.discrete or likelihood.n_outputs_ > 1 or np.max(y) < 2.0:
        return []
    mean, variance = likelihood.predictive_moments(latent)
    scattered = overdispersion(y, weights, mean, variance, likelihood)
    if scattered is not None:
        return [scattered]
    probability = np.exp(likelihood.predictive_log_density(np.zeros(len(y)), latent))
    f = latent.moments()[0].reshape(-1, 1, 1)
    return [excess_zeros(y, weights, probability, _scores(y, f, likelihood))]


def _scores(y: Array, f: Array, likelihood: Any) -> Array:
    """Derivatives of log p(y | f) in f and in the scales that were learned, (n, q)."""
    scores = [-likelihood.row_gradient(y, f)[:, 0]]
    for step in 1e-4 * np.eye(len(likelihood.theta)):
        above = likelihood.with_theta(likelihood.theta + step).row_nll(y, f)
        below = likelihood.with_theta(likelihood.theta - step).row_nll(y, f)
        scores.append((below - above) / 2e-4)
    return np.hstack(scores)


def overdispersion(
    y: Array,
    weights: Array,
    mean: Array,
    variance: Array,
    likelihood: Any,
) -> Finding | None:
    """Score test of Poisson counts against extra variance [1]_.

    Parameters
    ----------
    y, weights : ndarray of shape (n,)
    mean, variance : ndarray of shape (n,)
        Of y under the predictive distribution: the variance of the rates enters that of
        ``(y - μ)²``, which is ``v + 2 v²``.
    likelihood : Likelihood

    References
    ----------
    .. [1] Dean, "Testing for overdispersion in Poisson and binomial regression models",
       JASA 1992.
    """
    if not likelihood.has_dispersion_test:
        return None
    expected = float(weights @ variance)
    excess = float(weights @ (y - mean) ** 2) - expected
    ratio = 1.0 + excess / expected
    std = np.sqrt(float(weights @ (variance + 2.0 * variance**2)))
    if ratio <= 1.5 or excess <= 5.0 * std:
        return None
    return Finding(
        "overdispersion",
        f"The counts are overdispersed: their variance around the fitted rates is "
        f"{ratio:.2g} times that of a Poisson distribution, and intervals are too "
        "narrow. Check for outliers and missing columns, or use a likelihood of larger "
        "variance, such as NegativeBinomial.",
    )


def excess_zeros(
    y: Array,
    weights: Array,
    probability: Array,
    scores: Array,
) -> Finding | None:
    """Score test of the number of zeros against what the likelihood predicts [1]_.

    Parameters
    ----------
    y, weights, probability : ndarray of shape (n,)
        The last is ``P(y = 0)`` under the predictive distribution.
    scores : ndarray of shape (n, q)
        Derivatives of the log density in what was fitted: level and scales have made
        part of the excess vanish, and its variance is what they leave.

    References
    ----------
    .. [1] van den Broek, "A score test for zero inflation in a Poisson distribution",
       Biometrics 1995.
    """
    root = np.sqrt(weights)
    surplus = (y == 0.0) - probability
    excess = float(weights @ surplus)
    total = float(weights.sum())
    # variance of the surplus, less what the scores explain of it
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
