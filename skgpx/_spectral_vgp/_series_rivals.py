"""Kernels that compete with a series prior, whose rate of decay is fixed.

A series of regularity 1/2 is as rough as Brownian motion. Around a smooth function its
scale has to be small, and between rows that are far apart it then says that little can
happen, and that what does goes along a straight line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx._hyperparameters import stretched
from skgpx._spectral_vgp._markov_fit import MarkovSettings, noise_of, start_markov
from skgpx._spectral_vgp._markov_kernel import default_markov
from skgpx._spectral_vgp._markov_search import MarkovFound, search_again
from skgpx._spectral_vgp._series_bound import SeriesChoice
from skgpx._spectral_vgp._series_choice import started
from skgpx._spectral_vgp._series_search import SeriesSettings
from skgpx._spectral_vgp._series_size import FIRST_FUNCTIONS
from skgpx._validation import Rows
from skgpx.bases import KernelEigenvalues
from skgpx.kernels import default_kernel

State = TypeVar("State")
Search = Callable[[SeriesSettings], tuple[State, SeriesChoice, bool]]

# The families from smooth to rough, and the lengthscale of each that resembles an RBF
# of lengthscale one.
_FAMILIES = {np.inf: 1.0, 2.5: 1.5, 1.5: 2.0}
# Factor of that of the best kernel at which a search for a process of order 1/2 starts.
_ROUGHER = 2.0
# Nats by which a kernel must be better than the series: it has one parameter more, and
# there are several.
_PRICE = 1.0


def rival_kernels(rows: Rows) -> list[Any]:
    """RBF, Matern 5/2 and 3/2."""
    plain = default_kernel(rows.X, rows.weights)
    return [_of_family(plain, nu) for nu in _FAMILIES]


def best_prior(
    search_with: Search[State],
    rows: Rows,
    settings: SeriesSettings,
    rivals: Sequence[Any],
) -> tuple[State, SeriesChoice]:
    """Search under the prior of the settings and under its rivals: the largest bound.

    Rivals go from smooth to rough, each from where the one before it ended, until one
    is worse than that. They compete with few functions; one that wins with as many as
    it may have is searched for again with all that are allowed.

    Parameters
    ----------
    search_with : callable
        Search on the rows with some settings; the third value is whether to stop.
    rows : Rows
    settings : SeriesSettings
    rivals : sequence of sklearn.gaussian_process.kernels.Kernel
    """
    *series, stopped = search_with(settings)
    best, most, reached = series, series[1].prior.log_evidence + _PRICE, -np.inf
    largest = min(settings.largest, FIRST_FUNCTIONS[rows.X.shape[1]])
    few = settings._replace(largest=largest, start_noise_variance=None)
    for rival in rivals:
        if stopped:
            break
        *found, stopped = search_with(few._replace(rule=_after(few.rule, rival)))
        prior = found[1].prior
        if found[1].only_noise or prior.log_evidence <= reached:
            break
        few, reached = started(few, found[1]), prior.log_evidence
        if reached > most:
            best, most = found, reached
    if best is series or (
        _may_be_rough(best[1], largest) and _is_too_smooth(rows, settings, best[1])
    ):
        best = series
    elif best[1].bound.size >= largest and not stopped:
        best = list(search_with(started(settings, best[1]))[:2])
    else:
        kept = best[0].settings._replace(largest=settings.largest)
        best = [best[0]._replace(settings=kept), best[1]]
    return best[0], best[1]


def _after(earlier: Any, rival: Any) -> KernelEigenvalues:
    """The rival from where a search under the one before it ended."""
    if not isinstance(earlier, KernelEigenvalues):
        return KernelEigenvalues(rival)
    found = rival.clone_with_theta(earlier.theta)
    factor = _FAMILIES[_order(rival)] / _FAMILIES[_order(earlier.kernel)]
    return KernelEigenvalues(stretched(found, np.log(factor)))


def _may_be_rough(choice: SeriesChoice, largest: int) -> bool:
    """Whether the roughest of the rivals won, or one that wants more functions."""
    roughest = _order(choice.prior.rule.kernel) == min(_FAMILIES)
    return roughest or choice.bound.size >= largest


def _is_too_smooth(rows: Rows, settings: SeriesSettings, choice: SeriesChoice) -> bool:
    """Whether a Matern process of order 1/2 is better than the best of the rivals.

    Bounds say less of rough functions than of smooth ones. With one input the evidence
    of a process as rough as the series is known.
    """
    sums, (rule, noise_variance, most) = choice.bound.sums, choice.prior
    given = MarkovSettings(None, settings.noise_variance, True, True, None)
    state = start_markov(rows, given, np.empty(0))
    data = state.data(sums.shift, sums.scale)
    rough, *_ = default_markov(data.x, data.variance)
    # a longer lengthscale, for it is rougher, and the same noise
    start = rule.theta + np.log([1.0, _ROUGHER])
    start = MarkovFound(rough, np.append(start, np.log(noise_variance)), -np.inf)
    noise = noise_of(given, data.variance, sums.scale)
    found = search_again(data, start, noise, True, np.empty((len(data.x), 0)))
    return found.log_evidence + _PRICE > most


def _of_family(plain: Any, nu: float) -> Any:
    """A constant times the shape of this order."""
    constant, rbf = plain.k1, plain.k2
    scale, bounds = rbf.length_scale, rbf.length_scale_bounds
    shape = RBF(scale, bounds) if nu == np.inf else Matern(scale, bounds, nu=nu)
    return ConstantKernel(1.0, constant.constant_value_bounds) * shape


def _order(kernel: Any) -> float:
    return float(getattr(kernel.k2, "nu", np.inf))
