"""An exact Markov process of one input: kernel, search, fit and its warnings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, Product

from skgpx._latent import Cycles, MarkovModel
from skgpx._numerics.markov_regression import (
    MarkovRows,
    MaternProcess,
    markov_evidence,
    markov_posterior,
)
from skgpx._numerics.series_evidence import noise_bounds
from skgpx._numerics.spread import mean_and_spread
from skgpx._numerics.state_space import STATES
from skgpx._selection import (
    COUNTED_ONCE,
    VANISHED_NOISE,
    SearchRecord,
    copies_count_once,
)
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows, canonical_rows, warn
from skgpx.exceptions import ConvergenceWarning, FitWarning
from skgpx.kernels import split_noise

# ---- Kernels that are Markov processes of one input ----------------------------------


Array = NDArray[np.float64]

# Bounds of the default amplitude, in variances of y, and of the default lengthscale: in
# median distances of neighbours, and in ranges of the data.
_AMPLITUDES = (1e-3, 1e3)
_SHORTEST, _LONGEST = 0.25, 100.0


class MarkovKernel(NamedTuple):
    """A Matern kernel, times a constant or not.

    Attributes
    ----------
    kernel : Matern or Product
    """

    kernel: Any

    @property
    def _parts(self) -> tuple[Any, Any]:
        """The constant, or None, and the Matern."""
        kernel = self.kernel
        if isinstance(kernel, Matern):
            return None, kernel
        one, other = kernel.k1, kernel.k2
        return (other, one) if isinstance(one, Matern) else (one, other)

    @property
    def nu(self) -> float:
        """Order."""
        return float(self._parts[1].nu)

    def process(self, theta: Array) -> MaternProcess:
        """Process with the logarithms (2,) of amplitude and lengthscale."""
        amplitude, length_scale = np.exp(theta)
        return MaternProcess(self.nu, float(amplitude), float(length_scale))

    @property
    def theta(self) -> Array:
        """Logarithms of amplitude and lengthscale, shape (2,)."""
        constant, matern = self._parts
        amplitude = 1.0 if constant is None else constant.constant_value
        return np.log([amplitude, np.ravel(matern.length_scale)[0]])

    def bounds(self, learns: bool) -> Array:
        """Of theta, (2, 2); both ends the value itself where that is fixed."""
        constant, matern = self._parts
        out = np.repeat(self.theta[:, np.newaxis], 2, axis=1)
        both = (constant, "constant_value_bounds"), (matern, "length_scale_bounds")
        for i, (part, name) in enumerate(both):
            given = "fixed" if part is None else getattr(part, name)
            if learns and not isinstance(given, str):
                out[i] = np.log(np.ravel(given)[:2])
        return out

    def with_theta(self, theta: Array) -> Any:
        """The kernel with these logarithms, and its own bounds."""
        constant, matern = self._parts
        amplitude, length_scale = np.exp(theta)
        scale = np.full(np.shape(matern.length_scale), length_scale)[()]
        shape = Matern(scale, matern.length_scale_bounds, nu=matern.nu)
        if constant is None:
            return shape
        level = ConstantKernel(float(amplitude), constant.constant_value_bounds)
        first = isinstance(self.kernel.k1, Matern)
        return Product(shape, level) if first else Product(level, shape)


def as_markov(kernel: Any) -> MarkovKernel | None:
    """A kernel without noise as a Markov process, or None if it is none."""
    parts = [kernel]
    if type(kernel) is Product:
        parts = [kernel.k1, kernel.k2]
    constants = [part for part in parts if type(part) is ConstantKernel]
    materns = [part for part in parts if type(part) is Matern and part.nu in STATES]
    known = len(materns) == 1 and len(constants) == len(parts) - 1
    if not known or np.size(materns[0].length_scale) != 1:
        return None
    return MarkovKernel(kernel)


def default_markov(x: Array, variance: float) -> list[MarkovKernel]:
    """The three orders, for distinct inputs x (n,) and the variance of y."""
    width = float(x[-1] - x[0]) if len(x) > 1 else 1.0
    between = float(np.median(np.diff(x))) if len(x) > 1 else 1.0
    low, high = _SHORTEST * between, _LONGEST * width
    level = ConstantKernel(variance, tuple(variance * np.array(_AMPLITUDES)))
    start = float(np.sqrt(between * width))
    return [MarkovKernel(level * Matern(start, (low, high), nu=nu)) for nu in STATES]


# ---- Hyperparameters of a Markov process by its exact evidence -----------------------


# Ratio of the lengthscales from which searches may start, and variances of the noise,
# in variances of y.
_RATIO = 4.0
_NOISES = (0.01, 0.1, 1.0)
# Least share of the process that is noise where a search goes on with more functions:
# from no noise at all there is no slope.
_LEAST_NOISE = 1e-2
_OPTIONS = {"maxiter": 100, "ftol": 1e-9, "gtol": 1e-3}


class MarkovData(NamedTuple):
    """Values at distinct inputs, repetitions summed.

    Attributes
    ----------
    x : ndarray of shape (n,)
        Increasing.
    weights : ndarray of shape (n,)
        Rows at each.
    y : ndarray of shape (n,)
        Their means; standardised.
    within : float
        Weighted sum of squares of the rows around these.
    alone : ndarray of shape (n,) or False
        Whether all rows of an input have one y, and may be copies of one.
    """

    x: Array
    weights: Array
    y: Array
    within: float
    alone: NDArray[np.bool_] | bool = False

    def rows(self, noise_variance: float, features: Array) -> MarkovRows:
        """What the process is fitted to."""
        return MarkovRows(self.x, self.weights / noise_variance, self.y, features)

    def counted_once(self) -> MarkovData:
        """The same with copies left out; itself if there are none."""
        copies = self.alone & (self.weights > 1.0)
        if not np.any(copies):
            return self
        return self._replace(weights=np.where(copies, 1.0, self.weights))

    def repeats(self, once: MarkovData) -> bool:
        """Whether a search leaves the copies out."""
        return copies_count_once(self.y, self.weights, once.weights)

    def of_repetitions(self, noise_variance: float) -> tuple[float, float]:
        """What the rows around their means add to the log evidence, and its slope.

        Over w rows of one input the density is that of their mean, of variance ``σ² /
        w``, times ``(2π σ²)^(-(w-1)/2) w^(-1/2) exp(-Σ (y - mean)² / 2σ²)``; the slope
        is that in log σ².
        """
        more = float(np.sum(self.weights)) - len(self.x)
        ratio = self.within / noise_variance
        total = more * np.log(2.0 * np.pi * noise_variance) + ratio
        value = -0.5 * (total + float(np.sum(np.log(self.weights))))
        return float(value), 0.5 * (ratio - more)

    @property
    def variance(self) -> float:
        """Variance of y around its mean."""
        weight, mean = np.sum(self.weights), np.average(self.y, weights=self.weights)
        square = self.weights @ (self.y - mean) ** 2 + self.within
        return float(square / weight) or 1.0


class MarkovNoise(NamedTuple):
    """Variance of the noise, and the bounds between which it is searched.

    Attributes
    ----------
    variance : float or None
        As given; None for no start.
    low, high : float
        Equal where it is fixed.
    """

    variance: float | None
    low: float
    high: float


class MarkovFound(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    kernel : MarkovKernel
    theta : ndarray of shape (3,)
        Logarithms of amplitude, lengthscale and noise variance.
    log_evidence : float
    """

    kernel: MarkovKernel
    theta: Array
    log_evidence: float

    @property
    def noise_variance(self) -> float:
        """Variance of the noise."""
        return float(np.exp(self.theta[2]))

    @property
    def fitted_kernel(self) -> Any:
        """The kernel with its hyperparameters."""
        return self.kernel.with_theta(self.theta[:2])


class Evidence:
    """Log evidence of one kernel as a function of three logarithms.

    Parameters
    ----------
    data : MarkovData
    kernel : MarkovKernel
    features : ndarray of shape (n, m)
        Functions beside the process, whose weights are N(0, I).
    """

    def __init__(self, data: MarkovData, kernel: MarkovKernel, features: Array):
        self.data, self.kernel, self.features = data, kernel, features

    def value(self, theta: Array) -> float:
        """Log evidence in nats, without a gradient."""
        noise = float(np.exp(theta[2]))
        rows = self.data.rows(noise, self.features)
        value = markov_evidence(self.kernel.process(theta[:2]), rows)
        return value + self.data.of_repetitions(noise)[0]

    def negative(self, theta: Array) -> tuple[float, Array]:
        """Negative log evidence and its gradient."""
        noise = float(np.exp(theta[2]))
        rows = self.data.rows(noise, self.features)
        found = markov_posterior(self.kernel.process(theta[:2]), rows)
        more, slope = self.data.of_repetitions(noise)
        gradient = found.score + np.array([0.0, 0.0, slope])
        return -found.log_evidence - more, -gradient


def search(
    data: MarkovData,
    kernel: MarkovKernel,
    noise: MarkovNoise,
    learns: bool,
    features: Array,
) -> MarkovFound:
    """The best of a net of lengthscales and noises, or the given start, and a climb."""
    bounds = _bounds(kernel, noise, learns)
    objective = Evidence(data, kernel, features)
    starts = [np.clip(start, *bounds.T) for start in _starts(data, kernel, noise)]
    distinct = list({tuple(start): start for start in starts}.values())
    values = [objective.value(start) for start in distinct]
    return _climb(objective, bounds, distinct[int(np.argmax(values))])


def search_again(
    data: MarkovData,
    found: MarkovFound,
    noise: MarkovNoise,
    learns: bool,
    features: Array,
) -> MarkovFound:
    """Climb from where another search ended, with other functions."""
    bounds = _bounds(found.kernel, noise, learns)
    theta = found.theta.copy()
    theta[2] = max(theta[2], theta[0] + np.log(_LEAST_NOISE))
    objective = Evidence(data, found.kernel, features)
    return _climb(objective, bounds, np.clip(theta, *bounds.T))


def _bounds(kernel: MarkovKernel, noise: MarkovNoise, learns: bool) -> Array:
    of_noise = np.log([[noise.low, noise.high]])
    return np.concatenate((kernel.bounds(learns), of_noise))


def _starts(data: MarkovData, kernel: MarkovKernel, noise: MarkovNoise) -> list[Array]:
    """What is given, and a net between the closest rows and the farthest."""
    unit = data.variance
    given = noise.variance or 0.1 * unit
    starts = [np.append(kernel.theta, np.log(given))]
    gaps = np.diff(data.x)
    if not len(gaps):
        return starts
    near, far = float(np.median(gaps)), float(data.x[-1] - data.x[0])
    steps = int(np.ceil(np.log(max(far / near, 1.0)) / np.log(_RATIO)))
    for scale in near * _RATIO ** np.arange(steps + 1.0):
        for part in _NOISES:
            starts.append(np.log([unit, scale, part * unit]))
    return starts


def _climb(objective: Evidence, bounds: Array, start: Array) -> MarkovFound:
    """L-BFGS-B on the logarithms that are free."""
    free = bounds[:, 0] < bounds[:, 1]
    theta = start.copy()

    def negative(point: Array) -> tuple[float, Array]:
        theta[free] = point
        value, gradient = objective.negative(theta)
        return value, gradient[free]

    if free.any():
        result = optimize.minimize(
            negative, start[free], jac=True, method="L-BFGS-B", bounds=bounds[free],
            options=_OPTIONS,
        )  # fmt: skip
        theta[free] = result.x
    return MarkovFound(objective.kernel, theta, objective.value(theta))


# ---- Exact regression on a Markov process of one input -------------------------------


# Numbers in the columns of values and functions at the rows, at most: waves beyond are
# left out, the weakest first.
_MOST_NUMBERS = 4_000_000


class MarkovSettings(NamedTuple):
    """Parameters that decide about the process; see `SpectralVGPRegressor`.

    `given` are all parameters that models must share to be merged.
    """

    kernel: Any
    noise_variance: float | None
    learns: bool
    normalize_y: bool
    given: Any


class MarkovState(NamedTuple):
    """Distinct inputs of all rows seen, and sums over the rows of each.

    Attributes
    ----------
    settings : MarkovSettings
    x : ndarray of shape (n,)
        Increasing.
    weights, means : ndarray of shape (n,)
        Sum of the weights, and weighted mean of y.
    within : float
        Weighted sum of squares around these means.
    alone : ndarray of shape (n,)
        Whether all rows of an input have the same y: copies of one row.
    frequencies : ndarray of shape (r,)
        Of waves beside the process, in cycles a unit of x.
    """

    settings: MarkovSettings
    x: Array
    weights: Array
    means: Array
    within: float
    alone: NDArray[np.bool_]
    frequencies: Array

    @property
    def seen(self) -> Array:
        """Range of the inputs, (1, 2)."""
        return np.array([[self.x[0], self.x[-1]]])

    def with_rows(self, rows: Rows, _: int | None) -> MarkovState:
        """State after more rows."""
        return _joined(self, start_markov(rows, self.settings, self.frequencies))

    def merged(self, other: Any) -> MarkovState:
        """State of the rows of both.

        Raises
        ------
        ValueError
            If their parameters or their waves differ.
        """
        same = (
            isinstance(other, MarkovState)
            and self.settings.given == other.settings.given
            and np.array_equal(self.frequencies, other.frequencies)
        )
        if not same:
            raise ValueError(
                "Only models of one process can be merged: with the same parameters "
                "and, where a fit added cycles to it, the same cycles_. Use "
                'basis="markov" for both, or partial_fit on one of them.'
            )
        return _joined(self, other)

    def solve(self) -> SpectralFit:
        """Hyperparameters, posterior and evidence; O(n) a step of the search."""
        shift, scale = self.units()
        data = self.data(shift, scale)
        found, functions, copies = _found(data, self, scale)
        evidence = found.log_evidence - float(np.sum(self.weights)) * np.log(scale)
        model = MarkovModel(
            prior=found.kernel.process(found.theta[:2]),
            knots=self.x,
            precision=self.weights / found.noise_variance,
            values=data.y,
            functions=functions,
        )
        variances, cycles = np.exp(found.theta[:1]), np.empty((0, 1))
        if functions is not None:
            cycles, r = functions.frequencies[:, np.newaxis], len(functions.frequencies)
            variances = np.concatenate((variances, [1.0], np.full(r, 1.0 / max(r, 1))))
        return SpectralFit(
            posterior=model,
            noise_variance=found.noise_variance * scale**2,
            log_evidence=float(evidence),
            shift=shift,
            scale=scale,
            prior=found.fitted_kernel,
            spectrum=variances * scale**2,
            cycles=cycles,
            record=self._record(copies),
        )

    def _record(self, copies: str) -> SearchRecord:
        if not self.settings.learns:
            return SearchRecord()
        return SearchRecord("exact evidence of the process", 0, "all", copies=copies)

    def data(self, shift: float, scale: float) -> MarkovData:
        """Distinct inputs, with y in units of a standardised one."""
        means, within = (self.means - shift) / scale, self.within / scale**2
        return MarkovData(self.x, self.weights, means, within, self.alone)

    def units(self) -> tuple[float, float]:
        """Mean and standard deviation of y; 1 for a constant y."""
        if not self.settings.normalize_y:
            return 0.0, 1.0
        mean, between = mean_and_spread(self.means, self.weights, 0.0)
        square = self.within / float(np.sum(self.weights))
        if np.ptp(self.means) > 0.0:
            square += float(between) ** 2
        largest, std = float(np.max(np.abs(self.means))), float(np.sqrt(square))
        return float(mean), std if std > 1e-14 * largest else 1.0


def start_markov(
    rows: Rows, settings: MarkovSettings, frequencies: Array
) -> MarkovState:
    """Sums over the rows of each input, whatever their order."""
    rows = canonical_rows(*rows)
    y, weights = rows.y, rows.precisions
    x, first = np.unique(rows.X[:, 0], return_index=True)
    total = np.add.reduceat(weights, first)
    # around the first of each, so that an offset of y costs no digits
    base = y[first]
    at = np.repeat(np.arange(len(x)), np.diff(first, append=len(y)))
    means = base + np.add.reduceat(weights * (y - base[at]), first) / total
    within = float(weights @ (y - means[at]) ** 2)
    # equal rows were merged
    alone = np.bincount(at) == 1
    return MarkovState(settings, x, total, means, within, alone, frequencies)


def _joined(one: MarkovState, other: MarkovState) -> MarkovState:
    """Sums of both: squares of the distance between means move within."""
    x, at = np.unique(np.concatenate((one.x, other.x)), return_inverse=True)
    weights = np.concatenate((one.weights, other.weights))
    means = np.concatenate((one.means, other.means))
    total = np.bincount(at, weights).astype(np.float64, copy=False)
    base = np.empty(len(x))
    base[at] = means
    joint = base + np.bincount(at, weights * (means - base[at])) / total
    within = one.within + other.within + float(weights @ (means - joint[at]) ** 2)
    # of an input in both, the rows are copies if the two have one y
    rest = ~np.concatenate((one.alone, other.alone)) | (means != base[at])
    alone = np.bincount(at, rest) == 0.0
    return one._replace(x=x, weights=total, means=joint, within=within, alone=alone)


def check_markov(settings: MarkovSettings, n_features: int) -> None:
    """Refuse what is no Markov process of one input.

    Raises
    ------
    ValueError
        That says what is possible.
    """
    if n_features != 1:
        raise ValueError(
            f'basis="markov" is for one column of inputs; got {n_features}. Use '
            'basis="auto" or "inducing".'
        )
    kernel = settings.kernel
    if kernel is not None and as_markov(split_noise(kernel)[0]) is None:
        raise ValueError(
            'basis="markov" takes a Matern kernel of order nu = 0.5, 1.5 or 2.5, times '
            f"a ConstantKernel, plus a WhiteKernel; got {kernel!r}. Give one of these, "
            'None, which chooses among the three orders, or basis="auto".'
        )


def is_markov(settings: MarkovSettings) -> bool:
    """Whether the kernel, if there is one, is a Markov process."""
    kernel = settings.kernel
    return kernel is None or as_markov(split_noise(kernel)[0]) is not None


def _found(
    data: MarkovData, state: MarkovState, scale: float
) -> tuple[MarkovFound, Cycles | None, str]:
    """Largest evidence, waves or none, and how copies of rows were counted.

    Copies that say that there is no noise count once in the search, but not in the
    evidence that is reported.
    """
    noise = noise_of(state.settings, data.variance, scale)
    once = data.counted_once()
    free = noise.low < noise.high and once is not data
    searched = once if free and data.repeats(once) else data
    found, functions = _best(searched, state, scale)
    if free and searched is data and found.noise_variance < VANISHED_NOISE:
        searched = once
        found, functions = _best(searched, state, scale)
    if searched is data:
        return found, functions, ""
    value = Evidence(data, found.kernel, _features(functions, data)).value(found.theta)
    return found._replace(log_evidence=value), functions, COUNTED_ONCE


def _best(
    data: MarkovData, state: MarkovState, scale: float
) -> tuple[MarkovFound, Cycles | None]:
    """Largest evidence of the orders, with the waves or without them."""
    settings = state.settings
    if len(data.x) == 1 and not data.within:
        # one row says nothing of a scale of y that is not known
        settings = settings._replace(learns=False)
    noise = noise_of(settings, data.variance, scale)
    # the mean of y was taken away, but is not known
    level = settings.kernel is None and settings.normalize_y
    plain = Cycles(state.frequencies[:0]) if level else None
    found = [
        search(data, kernel, noise, settings.learns, _features(plain, data))
        for kernel in _kernels(settings, data)
    ]
    best = max(found, key=lambda one: one.log_evidence)
    most = max(0, (_MOST_NUMBERS // len(data.x) - 2) // 2)
    waves = Cycles(state.frequencies[:most])
    if not len(waves.frequencies):
        return best, plain
    features = _features(waves, data)
    again = [search_again(data, one, noise, settings.learns, features) for one in found]
    other = max(again, key=lambda one: one.log_evidence)
    return (other, waves) if other.log_evidence > best.log_evidence else (best, plain)


def _kernels(settings: MarkovSettings, data: MarkovData) -> list[MarkovKernel]:
    """The kernel given, or those that compete; of order 3/2 where none is learned."""
    if settings.kernel is not None:
        given = as_markov(split_noise(settings.kernel)[0])
        return [] if given is None else [given]
    kernels = default_markov(data.x, data.variance)
    return kernels if settings.learns else kernels[1:2]


def _features(functions: Cycles | None, data: MarkovData) -> Array:
    if functions is None:
        return np.empty((len(data.x), 0))
    return functions(data.x[:, np.newaxis])


def noise_of(settings: MarkovSettings, variance: float, scale: float) -> MarkovNoise:
    """Noise variance of the standardised y, of this variance, and its bounds."""
    if settings.noise_variance is not None:
        fixed = settings.noise_variance / scale**2
        return MarkovNoise(fixed, fixed, fixed)
    level, bounds = None, None
    if settings.kernel is not None:
        _, level, bounds = split_noise(settings.kernel)
    if level is not None and (isinstance(bounds, str) or not settings.learns):
        return MarkovNoise(level, level, level)
    if bounds is None or isinstance(bounds, str):
        bounds = noise_bounds(variance, 1.0)
    low, high = (float(bound) for bound in np.ravel(bounds)[:2])
    return MarkovNoise(level, low, high)


# ---- Warnings about a process of one input -------------------------------------------


# Noise is none if it is this share of the variance of the process between neighbouring
# rows, or less; fewest rows that say so.
_NONE, _FEWEST = 1e-3, 20


def warn_of_markov(found: SpectralFit, state: Any) -> None:
    """One warning at most, of a Markov process: that all is noise, or that none is."""
    if not isinstance(state, MarkovState):
        return
    if _explains_nothing(found, state):
        warn(
            "Nothing but noise was found: no Matern process has a larger evidence than "
            "noise around a constant. If there is more in the data, give more rows, or "
            'a kernel with basis="inducing".',
            FitWarning,
        )
    elif _explains_everything(found, state):
        warn(
            "The noise variance ended at nothing: beside a Matern process of order "
            "1/2, which is nearly as rough as noise, the evidence sees none, and the "
            "function passes through every y. Predictions elsewhere hold, and so do "
            "their intervals; the standard deviations at the rows themselves are zero. "
            "If y is noisy, give the variance of its noise as `noise_variance`, other "
            "measurements at some of the same inputs, or a smoother kernel with "
            'basis="markov", such as Matern(nu=1.5).',
            ConvergenceWarning,
        )


def _explains_nothing(found: SpectralFit, state: MarkovState) -> bool:
    """Whether noise around a constant has a larger evidence."""
    square = state.within + state.weights @ (state.means - found.shift) ** 2
    weight = float(np.sum(state.weights))
    variance = float(square) / weight
    if variance <= 0.0:
        return False
    alone = -0.5 * weight * (np.log(2.0 * np.pi * variance) + 1.0)
    return bool(found.log_evidence <= alone)


def _explains_everything(found: SpectralFit, state: MarkovState) -> bool:
    """Whether noise that was free became nothing beside the roughest of processes.

    Smooth processes do not look like noise: without noise they are right.
    """
    kernel = as_markov(found.prior)
    if len(state.x) < _FEWEST or kernel is None or kernel.nu > 0.5:
        return False
    noise = noise_of(state.settings, 1.0, found.scale)
    amplitude, length_scale = np.exp(kernel.theta)
    gap = float(np.median(np.diff(state.x)))
    # variance of f(x + gap) given f(x): a (1 - exp(-2 gap / l))
    between = -amplitude * np.expm1(-2.0 * gap / length_scale)
    variance = found.noise_variance / found.scale**2
    return bool(noise.low < noise.high and variance <= _NONE * between)
