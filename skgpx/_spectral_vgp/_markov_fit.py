"""Exact regression on a Markov process of one input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters import COUNTED_ONCE, VANISHED_NOISE, SearchRecord
from skgpx._latent import Cycles, MarkovModel
from skgpx._numerics.series_evidence import noise_bounds
from skgpx._numerics.spread import mean_and_spread
from skgpx._spectral_vgp._markov_kernel import MarkovKernel, as_markov, default_markov
from skgpx._spectral_vgp._markov_search import (
    Evidence,
    MarkovData,
    MarkovFound,
    MarkovNoise,
    search,
    search_again,
)
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows, canonical_rows
from skgpx.kernels import split_noise

Array = NDArray[np.float64]

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
