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
from scipy.stats import chi2, kruskal, rankdata

from skgpx.exceptions import ConvergenceWarning, FitWarning, SkgpxWarning, warn
from skgpx.kernels import theta_entries
from skgpx.likelihoods import Poisson

__all__ = [
    "Finding",
    "at_bounds",
    "better_class_process",
    "better_process",
    "chains_not_converged",
    "conclude",
    "no_signal",
    "overdispersion",
    "residual_autocorrelation",
    "rows_not_converged",
    "runs_disagree",
    "several_modes",
    "solver_not_converged",
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


# Least share of the variance of y that counts as lost.
_MIN_SHARE = 0.05


def residual_autocorrelation(
    X: Array, residuals: Array, variance: float
) -> Finding | None:
    """Moran's I of the residuals of neighbouring rows, for noise that is independent.

    Neighbours are adjacent in one column, or nearest by ranks in up to five.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    residuals : ndarray of shape (n,)
    variance : float
        That of y.
    """
    n, d = X.shape
    if n < 100 or variance == 0.0:
        return None
    neighbours = np.empty((d, n), np.intp)
    for j, other in enumerate(neighbours):
        order = np.argsort(X[:, j], kind="stable")
        # the next row of the column; for the last, the one before
        other[order[:-1]], other[order[-1]] = order[1:], order[-2]
    if 1 < d <= 5:
        ranks: Array = rankdata(X, axis=0)
        two = cKDTree(ranks).query(ranks, 2)[1]
        nearest = np.where(two[:, 0] == np.arange(n), two[:, 1], two[:, 0])
        neighbours = np.vstack((neighbours, nearest))
    products = [residuals * residuals[other] for other in neighbours]
    best = int(np.argmax([p.sum() for p in products]))
    p = products[best]
    shared = float(np.mean(p))
    correlation = shared / (float(np.mean(residuals**2)) or 1.0)
    # z-score of five, and a correlation that matters
    significant = p.sum() > 5.0 * np.sqrt(np.sum(p**2)) and correlation >= 0.2
    if not significant or shared < _MIN_SHARE * variance:
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
    X: Array, mean: Array, standardised: Array, likelihood: Any
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
    n, absolute, name = len(mean), np.abs(standardised), type(likelihood).__name__
    constant = name in {"Gaussian", "StudentT"} and np.ptp(absolute) > 0.0
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
        "" if name == "StudentT" else ", or StudentT() if these are a few outliers"
    )
    return Finding(
        "varying noise",
        f"The noise varies with {where}: residuals are {size.max() / size.min():.2g} "
        f"times as large in the third of the rows with its {high} values, where "
        f"intervals are too narrow, as in the third with its {low}, where they are too "
        f"wide. A likelihood whose noise varies would gain about {gain:.2g} nats per "
        f"observation: use PLSRegressor(likelihood=Heteroscedastic{name}()){outliers}.",
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


def at_bounds(kernel: Any, default: bool, log_scale: bool) -> Finding | None:
    """Hyperparameters of the kernel that ended at a bound which restricts the fit.

    Longest lengthscales (a column without effect), the background of a GRE kernel and
    loadings near one do not. Of a `default` kernel, nor do the smallest amplitude, and
    the largest of log odds and log rates (`log_scale`), which separable classes reach.
    """
    ended = []
    for name, part in theta_entries(kernel):
        low, high = np.any(
            np.abs(kernel.theta[part, np.newaxis] - kernel.bounds[part]) < 1e-3,
            axis=0,
        )
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
    m: int, needed: float, unexplained: float, automatic: bool
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
    r_hat: float, tol: float, n_iter: int, acceptance: float, log_concave: bool
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
    r_hat: float, evidences: Array, excess: float, n_weights: int, n_particles: int
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


def overdispersion(
    y: Array, weights: Array, mean: Array, variance: Array, likelihood: Any
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
    if not isinstance(likelihood, Poisson):
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
