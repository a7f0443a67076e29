"""Significant waves of the spectrum, which get a prior variance of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skgpx._hyperparameters import broad_spectrum, false_alarm_level
from skgpx._numerics.fourier import (
    Integers,
    WaveTable,
    combination,
    convolve,
    function_list,
    half_space,
    reach_of,
    strides_of,
    waves_of,
)
from skgpx._numerics.fourier_sums import SeriesStatistics
from skgpx._numerics.regression import (
    posterior_mean_from,
    precision_root,
    whitened,
)
from skgpx._spectral_vgp._candidates import NOISE_SHARE, FourierPrior, kernel_of
from skgpx._spectral_vgp._domain import widths
from skgpx._spectral_vgp._score import Objective
from skgpx._types import Array, Mask

# Widths of the data on a box that tells waves apart, and on one where its longest wave
# is nearly a parabola over the data: a trend.
_SPECTRUM_WIDTHS = 3.0
_TREND_WIDTHS = 5.0
# Largest wave number of each of several inputs.
_REACH = {2: 110, 3: 24}
# Largest numbers of waves that one test adds, and of tests.
_MAX_WAVES = 64
# Rows up to which a search has functions for all that they show of a rough function.
_ROWS_OF_FUNCTIONS = 2000
_MAX_TESTS = 9


def boost_waves(objective: Objective, prior: FourierPrior) -> FourierPrior:
    """Boost significant waves, and with them a trend, where these pay.

    Under a kernel of one input a trend joins the waves if it gains more than its price.
    """
    periodic = search_waves(objective, prior, _SPECTRUM_WIDTHS, n_trends=0)
    has_kernel = kernel_of(prior.rule) is not None
    has_one_input = len(prior.box.period) == 1
    n_waves = len(periodic.waves)
    if not (n_waves and has_one_input and has_kernel):
        return periodic
    with_trend = search_waves(objective, prior, _TREND_WIDTHS, n_trends=1)
    n_new = len(with_trend.waves) - n_waves
    price = n_new * wave_price(objective.statistics)
    if with_trend.score > periodic.score + price:
        return with_trend
    return periodic


def search_waves(
    objective: Objective,
    prior: FourierPrior,
    n_widths: float,
    n_trends: int,
) -> FourierPrior:
    """Boost waves that are significant under the fit, until no more are, if it pays.

    Parameters
    ----------
    objective : Objective
    prior : FourierPrior
        Without waves.
    n_widths : float
        Width of the box in widths of the data, on which waves are told apart down to
        the shortest that the rows can show.
    n_trends : int
        Number of waves of the period of the box that are boosted in any case.
    """
    d = len(prior.box.period)
    n_functions = int(n_widths / 3.0 * objective.candidates.n_functions)
    spectrum = spectrum_objective(objective, prior, n_widths)
    box = spectrum.statistics.box
    price = wave_price(spectrum.statistics)
    rule = spectrum.candidates.rules[0]
    noise_variance = NOISE_SHARE * spectrum.candidates.variance

    best: FourierPrior | None = None
    waves = prior.waves
    new_waves = np.ones((n_trends, d), np.int64)
    for _ in range(_MAX_TESTS):
        waves = np.concatenate((waves, new_waves))
        start = spectrum.build_prior(
            spectrum.candidates.boost(rule, waves),
            noise_variance,
            n_functions + 2 * len(waves),
            box,
        )
        maximum = spectrum.climb(start)
        if best is not None:
            if maximum.bound <= best.bound + len(new_waves) * price:
                break
            rule = maximum.rule.rule
            noise_variance = maximum.noise_variance
        best = maximum
        new_waves = significant_frequencies(spectrum, best)
        if not len(new_waves):
            break
    # the first test has one
    assert best is not None
    n_cycles = len(best.waves) - n_trends
    pays = best.score > prior.score + n_cycles * price
    if n_cycles and pays:
        return best
    return prior


def spectrum_objective(
    objective: Objective,
    prior: FourierPrior,
    n_widths: float,
) -> Objective:
    """The objective on sums of one wide box, which tell waves apart."""
    region = objective.candidates.region
    box = prior.box
    if kernel_of(prior.rule) is not None:
        width = widths(region.seen)
        # a constant column keeps the box of the kernel
        period = np.where(width > 0.0, n_widths * width, box.period)
        box = box._replace(period=period)
    if objective.rows is None:
        return replace(objective, statistics=objective.statistics.on(box))
    d = len(box.period)
    statistics = objective.sums_for(box, np.full(d, _REACH[d]))
    return replace(objective, statistics=statistics, rows=None)


def wave_price(statistics: SeriesStatistics) -> float:
    """Nats for a wave: one in so many data sets of noise has one."""
    n_integers = 2.0 * statistics.reach() + 1.0
    n_waves = float(np.prod(n_integers)) / 2.0
    return false_alarm_level(n_waves)


# ---- Waves with more power than prior and noise explain ------------------------------


class WaveList(NamedTuple):
    """Waves that are tested, from long to short.

    Attributes
    ----------
    waves : ndarray of shape (r, d)
    length : ndarray of shape (r,)
        Their squared length ``|k|²``.
    eigenvalues : ndarray of shape (r,)
        Their prior variances.
    in_basis : ndarray of bool of shape (r,)
    boosted : ndarray of bool of shape (r,)
    """

    waves: Integers
    length: Array
    eigenvalues: Array
    in_basis: Mask
    boosted: Mask


def significant_frequencies(objective: Objective, prior: FourierPrior) -> Integers:
    """Waves (r, d) with more power than the fit expects, the strongest first.

    Notes
    -----
    With ``R_k = Σ w (y - f(x)) exp(2πi k·t)`` of the residuals and the precision s_k of
    :meth:`Objective.data_precision`, ``P_k = |R_k|² / (n σ² (1 + s_k))`` is nearly a
    standard exponential variable for a wave outside of the basis, and ``|R_k|² (1 +
    s_k) / (n σ²)`` for one inside. Of K waves of t targets the largest is significant
    above ``log(t K / 0.01)``, the :func:`false_alarm_level` of so many waves. With many
    rows it must also exceed as many times the power of waves of its length: the short
    waves of a rough function all exceed a prior that is too smooth, and none of them
    stands out.
    """
    statistics = objective.statistics
    sums, moments = statistics.tables(statistics.reach())
    tested = list_waves(prior, moments[0])
    n_targets = len(moments)
    level = false_alarm_level(n_targets * len(tested.waves))
    eigenvalues = prior.rule.spectrum(prior.functions, prior.box).eigenvalues
    regressions = whitened(prior.sums[0], eigenvalues, 0.0)
    noise_variances = np.ravel(objective.noise_of_targets(prior))

    power = np.zeros(len(tested.waves))
    significant = np.zeros(len(tested.waves), bool)
    for regression, table, scale, noise_variance in zip(
        regressions.targets(),
        moments,
        np.ravel(objective.scale),
        noise_variances,
        strict=True,
    ):
        # posterior mean ``Σ √λ_j w̄_j φ_j`` of one target, as a sum of waves
        root = precision_root(regression.gram, noise_variance)
        mean = posterior_mean_from(regression, noise_variance, root)
        fit = combination(prior.functions, np.sqrt(eigenvalues) * mean)
        fitted = waves_of(convolve(sums, fit, reach_of(table)), tested.waves)
        residual = waves_of(table, tested.waves) / scale - fitted
        precision = objective.data_precision(prior, tested.eigenvalues, noise_variance)
        # P_k of this target
        shrinkage = 1.0 + precision
        factor = np.where(tested.in_basis, shrinkage, 1.0 / shrinkage)
        target_power = np.abs(residual) ** 2 * factor
        target_power = target_power / (objective.weight * noise_variance)
        background: float | Array = 1.0
        if objective.weight > _ROWS_OF_FUNCTIONS:
            # mean power of noise, or of a broad spectrum, around each wave; at least
            # one
            background = np.maximum(broad_spectrum(target_power), 1.0)
        exceeds = (target_power > level * background) & ~tested.boosted
        # waves that the data do not determine under the prior as it is
        counts = np.ones(len(target_power), bool)
        for i in np.flatnonzero(exceeds & (precision >= 1.0)):
            is_longer = tested.length < tested.length[i]
            longer = target_power[is_longer]
            counts[i] = len(longer) >= 8 and float(np.median(longer)) < 0.1
        exceeds = exceeds & counts
        power = np.maximum(power, target_power)
        significant = significant | exceeds

    # the side lobes of a strong wave are no waves
    strongest = power[significant].max(initial=0.0)
    significant &= power > 0.1 * strongest
    places = np.flatnonzero(significant)
    strongest_first = np.argsort(-power[places], kind="stable")
    places = places[strongest_first]
    waves = tested.waves[places]
    return drop_aliases(waves, tested.length[places], power[places], sums)


def list_waves(prior: FourierPrior, table: WaveTable) -> WaveList:
    """All waves of a table, with their prior variances."""
    waves = half_space(reach_of(table))
    length = np.sum(waves**2, axis=1)
    order = np.argsort(length, kind="stable")
    waves = waves[order]
    spectrum = prior.rule.spectrum(function_list(waves), prior.box)
    # one number for each wave
    steps = strides_of(table)
    names = waves @ steps
    return WaveList(
        waves=waves,
        length=length[order],
        # of the cosines: after the constant come a sine and a cosine of each wave
        eigenvalues=spectrum.eigenvalues[2::2],
        in_basis=np.isin(names, prior.functions.waves @ steps),
        boosted=np.isin(names, prior.waves @ steps),
    )


def drop_aliases(
    waves: Integers,
    length: Array,
    power: Array,
    sums: WaveTable,
) -> Integers:
    """Of waves that the rows cannot tell apart, as on a grid, the longer ones.

    Parameters
    ----------
    waves : ndarray of shape (r, d)
        From strong to weak.
    length, power : ndarray of shape (r,)
    sums : WaveTable
        Sums of the weights of the rows.

    Returns
    -------
    waves : ndarray of shape (q, d)
        At most 64.
    """
    total = float(np.abs(sums).max())
    is_chosen = np.zeros(len(waves), bool)
    for i in range(len(waves)):
        # how alike two waves are on the rows: |Σ w exp(2πi (k ± l)·t)| / Σ w
        difference = waves_of(sums, waves - waves[i])
        total_wave = waves_of(sums, waves + waves[i])
        likeness = np.maximum(np.abs(difference), np.abs(total_wave)) / total
        is_longer = (length < length[i]) & (power >= 0.5 * power[i])
        is_alias = likeness > 0.97
        has_longer_alias = np.any(is_alias & is_longer)
        resembles_chosen = np.any(likeness[is_chosen] > 0.7)
        is_chosen[i] = not has_longer_alias and not resembles_chosen
    return waves[is_chosen][:_MAX_WAVES]
