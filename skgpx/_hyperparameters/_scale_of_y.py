"""The scale on which y has normal noise: y itself, or a monotone function of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, ndtr, softmax

from skgpx._hyperparameters._candidates import (
    Candidate,
    StudentPrior,
    products_of,
)
from skgpx._hyperparameters._evidence import ExactEvidence
from skgpx._hyperparameters._maximise import State, best_of, descend
from skgpx._hyperparameters._select import (
    Split,
    has_little_noise,
    screen,
    with_trends,
    without_noise,
)
from skgpx._numerics.warping import POWER_BOUNDS, Warp
from skgpx._shell.validation import Rows, standardisation
from skgpx._types import Array
from skgpx.likelihoods import Gaussian, Likelihood

# Rows and values that tell the scale of y from a few large ones, and the largest share
# of the rows that may have the same value, which has no density.
FEWEST_ROWS_OF_SCALE = 30
_LARGEST_SHARE = 0.1
# Differences of values, relative to their size, of which rounding leaves no digits.
_ROUNDING = 1e-12
# Of the power, around the identity.
_POWER = StudentPrior(1.0, 0.5)
# Log probability that the prior has a power within its bounds, two deviations away.
_LOG_MASS = float(np.log(ndtr(2.0) - ndtr(-2.0)))
# Powers from which a search may start: y, its square root and its logarithm.
_POWER_STARTS = (1.0, 0.5, 0.0)
# Nats an observation that two steps must gain each.
_TOLERANCE = 1e-4
# Differences of slopes in the power, the least curvature, that of the prior, and points
# of its posterior.
_DIFFERENCE = 1e-3
_LEAST_CURVATURE = 4.0
_N_POWERS = 401


def tells_scale(rows: Rows, fewest: int = FEWEST_ROWS_OF_SCALE) -> bool:
    """Whether there are enough rows, and values of one target, to learn its scale."""
    y = rows.y
    if y.ndim > 1 or len(y) < fewest or is_constant(y):
        return False
    _, position = np.unique(y, return_inverse=True)
    totals = np.bincount(position, rows.weights)
    # two rows may be equal by chance
    largest = max(_LARGEST_SHARE * np.sum(totals), 2.0 * np.max(rows.weights))
    return bool(np.max(totals) <= largest)


def is_constant(y: Array) -> bool:
    """Whether values are equal, but for rounding."""
    return bool(np.ptp(y) <= _ROUNDING * np.max(np.abs(y)))


class _Regression(NamedTuple):
    """Regression of g(y) at one point, and slopes of g; see `ExactEvidence`."""

    theta: Array
    value: float
    gradient: Array
    dual: Array
    precision: Array
    noise_variance: float
    log_slope: Array
    z_slope: Array
    log_slope_slope: Array


class WarpedPosterior:
    """Negative log posterior of kernel, noise and the power of a function of y.

    ``log N(z; 0, K + σ²I) + Σ log dz/dy`` with the standardised values z of g(y), for
    an objective of :func:`~skgpx._hyperparameters._maximise.descend`.

    Parameters
    ----------
    candidate : Candidate
    rows : Rows
        In the units of y.
    likelihood : Gaussian
        Prepared for standardised targets.
    warp : Warp
    """

    def __init__(
        self,
        candidate: Candidate,
        rows: Rows,
        likelihood: Likelihood,
        warp: Warp,
    ):
        self.candidate = candidate
        self.rows = rows
        self.likelihood = likelihood
        self.warp = warp
        noise = Gaussian(1.0).prepare(rows.y)
        self._exact = ExactEvidence(rows, candidate.kernel, noise)
        self.bounds = np.concatenate(
            (candidate.bounds, likelihood.theta_bounds, [POWER_BOUNDS])
        )

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Value and gradient; a large number without a slope where it fails."""
        candidate = self.candidate
        omega = self.rows.weights
        power = point[-1]
        fit = self._regression(point)
        # 1 log N(z; 0, K + σ²/ω), with rows of weight ω as so many repetitions
        repetitions = (omega - 1.0) * np.log(fit.noise_variance) + np.log(omega)
        log_density = fit.value - 0.5 * float(
            np.sum(omega) * np.log(2.0 * np.pi) + np.sum(repetitions)
        )
        # 2 the Jacobian
        log_density += float(omega @ fit.log_slope)
        # 3 priors
        log_prior, prior_slope = candidate.log_prior(point[:-1], self.likelihood)
        log_prior = log_prior + float(_POWER.log_density(power)) - _LOG_MASS
        log_posterior = log_density + log_prior
        # 4 slopes
        of_kernel = candidate.coordinate_slopes(fit.theta, fit.gradient)
        noise = fit.noise_variance / omega
        of_noise = 0.5 * float((fit.dual**2 - fit.precision) @ noise)
        of_noise -= 0.5 * float(np.sum(omega - 1.0))
        of_power = float(omega @ fit.log_slope_slope - fit.dual @ fit.z_slope)
        n_scales = len(self.likelihood.theta)
        slope = np.concatenate((of_kernel, [of_noise] * n_scales, [0.0]))
        slope[:-1] += prior_slope
        slope[-1] = of_power + float(_POWER.slope(power))
        if not (np.isfinite(log_posterior) and np.all(np.isfinite(slope))):
            return 1e12, np.zeros_like(point)
        return -log_posterior, -slope

    def left_out_density(self, point: Array) -> float:
        """Mean log density of each row of y given all others, in closed form.

        ``z_i`` has the mean ``z_i - α_i / P_ii`` and the variance ``1 / P_ii - σ²/ω +
        σ²``, with ``P = (K + σ²/ω)⁻¹`` and ``α = P z``.
        """
        fit = self._regression(point)
        noise = fit.noise_variance / self.rows.weights
        variance = 1.0 / fit.precision - noise + fit.noise_variance
        error = fit.dual / fit.precision
        log_densities = -0.5 * (error**2 / variance + np.log(2.0 * np.pi * variance))
        densities = log_densities + fit.log_slope
        return float(np.average(densities, weights=self.rows.weights))

    def _regression(self, point: Array) -> _Regression:
        candidate = self.candidate
        u, scales, (power,) = np.split(point, [candidate.n_free, len(point) - 1])
        theta = candidate.log_parameters(u)
        noise_variance = float(self.likelihood.with_theta(scales).variance(0.0))
        z, log_slope, z_slope, log_slope_slope = self._standardised(float(power))
        noise = noise_variance / self.rows.weights
        values, gradients, duals, precisions = self._exact.regressions(
            theta[np.newaxis], z[np.newaxis], noise[np.newaxis]
        )
        return _Regression(
            theta=theta,
            value=float(values[0]),
            gradient=gradients[0],
            dual=duals[0],
            precision=precisions[0],
            noise_variance=noise_variance,
            log_slope=log_slope,
            z_slope=z_slope,
            log_slope_slope=log_slope_slope,
        )

    def _standardised(self, power: float) -> tuple[Array, Array, Array, Array]:
        """Standardised g(y), log slopes of it, and the slopes of both in the power."""
        y = self.rows.y
        shares = self.rows.weights / self.rows.weights.sum()
        warp = self.warp.at(power)
        g = warp.forward(y)
        g_slope, log_slope_slope = warp.power_slopes(y)
        residual = g - shares @ g
        residual_slope = g_slope - shares @ g_slope
        std = float(np.sqrt(shares @ residual**2))
        log_std_slope = float(shares @ (residual * residual_slope)) / std**2
        z = residual / std
        z_slope = residual_slope / std - z * log_std_slope
        log_slope = warp.log_slope(y) - np.log(std)
        return z, log_slope, z_slope, log_slope_slope - log_std_slope


class Scale(NamedTuple):
    """Functions of y that differ in their power, and how probable they are.

    Attributes
    ----------
    warp : Warp
        With the mean of the posterior of the power.
    log_mass : float
        Log of the integral of the posterior over the power, the others at their mode.
    left_out_density : float
        Mean log density of each row of y given all others.
    power_std : float
        Standard deviation of the posterior of the power; zero for a logarithm, which is
        a candidate of its own.
    probability : float
        Beside y itself.
    """

    warp: Warp
    log_mass: float
    left_out_density: float
    power_std: float = 0.0
    probability: float = 1.0


def scale_of_y(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    transforms: Sequence[str],
    odds: float = 1.0,
) -> Scale | None:
    """A logarithm, or the mean of the posterior of the power, by the evidence.

    Never by the marginal distribution of y, whose skewness may be that of the signal.
    Of functions that predict rows that are left out better than y itself does: where no
    scale is right, the evidence may prefer one that is wrong elsewhere. None where y
    itself is as probable as all functions together. Otherwise the power is the closer
    to that of y, one, the more probable y is.

    Parameters
    ----------
    families : sequence of sequences of Candidate
        From smooth to rough, each from simple to complex.
    split : Split
        With targets in the units of y.
    likelihood : Gaussian
        Prepared for standardised targets.
    transforms : sequence of str
    odds : float, default=1.0
        Prior odds of y itself; zero leaves it out.
    """
    rows = split.screening
    y = rows.y
    weights = rows.weights
    identity = Warp.of("yeo-johnson", y, weights)
    # 1 kernel and noise of y itself; functions without noise show how smooth they are
    products = products_of(families)
    family = products[len(products) // 2]
    first = _search(family, split, likelihood, identity)
    if has_little_noise(first) and len(products) > 1:
        smooth = _search(products[0], split, likelihood, identity)
        if smooth.posterior > first.posterior:
            family = products[0]
            first = smooth
    # 2 functions of y, and for the best one a kernel of its own
    warps = [Warp.of(transform, y, weights) for transform in transforms]
    scales = [_fitted_scale(first, rows, warp) for warp in warps]
    if "box-cox" in transforms:
        logarithm = warps[transforms.index("box-cox")].at(0.0)
        scales.append(_given_scale(first, rows, logarithm))
    best = max(scales, key=_log_mass)
    of_y = _given_scale(first, rows, identity)
    log_odds = np.log(odds * len(scales)) if odds > 0.0 else -np.inf
    if best.log_mass - of_y.log_mass <= log_odds:
        return None
    second = _search(family, split, likelihood, best.warp)
    fit_scale = _fitted_scale if best.power_std else _given_scale
    scales.append(fit_scale(second, rows, best.warp))
    best = max(scales, key=_log_mass)
    # 3 y itself may be a sum that a product does not know, or this function of y
    for family in families[len(products) :][:1]:
        state = _search(family, split, likelihood, identity, trend=False)
        of_y = max(of_y, _given_scale(state, rows, identity), key=_log_mass)
        if of_y.log_mass + log_odds >= best.log_mass:
            state = _search(family, split, likelihood, best.warp, trend=False)
            scales.append(fit_scale(state, rows, best.warp))
    # 4 rows that are left out must agree
    threshold = of_y.left_out_density if odds > 0.0 else -np.inf
    scales = [scale for scale in scales if scale.left_out_density > threshold]
    best = max(scales, key=_log_mass, default=of_y)
    if best.log_mass - of_y.log_mass <= log_odds:
        return None
    probability = float(expit(best.log_mass - of_y.log_mass - log_odds))
    power = 1.0 + probability * (float(best.warp.power) - 1.0)
    return best._replace(
        warp=best.warp.at(round(power, 3)),
        power_std=probability * best.power_std,
        probability=probability,
    )


def _log_mass(scale: Scale) -> float:
    return scale.log_mass


def _search(
    family: Sequence[Candidate],
    split: Split,
    likelihood: Likelihood,
    warp: Warp,
    trend: bool = True,
) -> State:
    """Kernel and noise of a function of y."""
    rows = split.screening
    z = warp.forward(rows.y)
    mean, std = standardisation(z, rows.weights)
    rows = rows._replace(y=(z - mean) / std)
    return search_few_rows(family, split, likelihood, rows, trend)


def search_few_rows(
    family: Sequence[Candidate],
    split: Split,
    likelihood: Likelihood,
    rows: Rows,
    trend: bool = True,
) -> State:
    """Kernel and noise of some rows, with a trend and seasons if these gain."""
    screened = screen(rows, likelihood, family)
    screened[-1] = best_of([screened[-1], *without_noise(screened[-1], rows)])
    if not trend:
        return best_of(screened)
    return best_with_trend(screened, split, rows)


def best_with_trend(family: list[State], split: Split, rows: Rows) -> State:
    """The best of a family of some rows, with a trend and seasons if these gain."""
    on_few_rows = split._replace(screening=rows, scattered=rows, training=rows)
    families = with_trends([family], on_few_rows)
    return best_of([result for family in families for result in family])


def _fitted_scale(start: State, rows: Rows, warp: Warp) -> Scale:
    """The posterior of the power, at the mode of kernel and noise.

    Its logarithm is a parabola around the mode, within the bounds.
    """
    posterior = WarpedPosterior(start.candidate, rows, start.likelihood, warp)
    powers_of_starts = (float(warp.power), *_POWER_STARTS)
    points = [np.append(start.point, power) for power in powers_of_starts]
    mode = _mode(posterior, min(points, key=lambda point: posterior(point)[0]))
    loss, slope = posterior(mode)
    step = np.zeros(len(mode))
    step[-1] = _DIFFERENCE if mode[-1] < 1.0 else -_DIFFERENCE
    _, other_slope = posterior(mode + step)
    curvature = max((other_slope[-1] - slope[-1]) / step[-1], _LEAST_CURVATURE)
    powers = np.linspace(*POWER_BOUNDS, _N_POWERS)
    distance = powers - mode[-1]
    log_density = -loss - slope[-1] * distance - 0.5 * curvature * distance**2
    log_mass = logsumexp(log_density) + np.log(powers[1] - powers[0])
    shares = softmax(log_density)
    mean = float(shares @ powers)
    return Scale(
        warp=warp.at(mean),
        log_mass=float(log_mass),
        left_out_density=posterior.left_out_density(mode),
        power_std=float(np.sqrt(shares @ (powers - mean) ** 2)),
    )


def _given_scale(start: State, rows: Rows, warp: Warp) -> Scale:
    """A function of y with this power, which has no prior."""
    power = float(warp.power)
    posterior = WarpedPosterior(start.candidate, rows, start.likelihood, warp)
    posterior.bounds[-1] = power
    mode = _mode(posterior, np.append(start.point, power))
    loss, _ = posterior(mode)
    log_prior = float(_POWER.log_density(np.array(power))) - _LOG_MASS
    return Scale(
        warp=warp,
        log_mass=-loss - log_prior,
        left_out_density=posterior.left_out_density(mode),
    )


def _mode(posterior: WarpedPosterior, start: Array) -> Array:
    """Where the log posterior is largest, from a start."""
    tolerance = _TOLERANCE * float(posterior.rows.weights.sum())
    return descend(posterior, start, max_iter=40, tolerance=tolerance, units=None)
