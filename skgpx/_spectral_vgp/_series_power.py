"""Waves whose power stands out of what a series prior and its noise explain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import WaveTable, combination, convolved
from skgpx._numerics.fourier_index import Integers, half_space
from skgpx._numerics.regression import posterior_mean_from, precision_root
from skgpx._spectral_vgp._series_bound import SeriesChoice

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Probability that noise alone has a wave that stands out, and the price in nats of a
# choice among so many is its logarithm.
_FALSE_ALARMS = 0.01
# Share of the largest power below which waves wait for the next look: side lobes of
# others go with these. Most waves of one look.
_SHARE, _MOST_AT_ONCE = 0.1, 64
# Longer waves that a wave known from the data must have, and the power of most of them.
_FEWEST_LONGER, _QUIET = 8, 0.1
# Two waves are one on the rows (an alias) if their functions correlate by more.
_SAME = 0.7


def standing_out(choice: SeriesChoice, filled: Array) -> Integers:
    """Waves (r, d) with more power than the fit expects, the strongest first.

    Parameters
    ----------
    choice : SeriesChoice
    filled : ndarray of shape (d,)
        Sides of the part of the box in which there are data.

    Notes
    -----
    With ``R_k = Σ w (y - f(x)) exp(2πi k·t)`` of the residuals and ``s_k = n λ_k V /
    (U σ²)`` what the rows say of the wave, ``P_k = |R_k|² / (n σ² (1 + s_k))`` is
    nearly a standard exponential variable for a wave outside of the basis, and ``|R_k|²
    (1 + s_k) / (n σ²)`` for one inside. Waves with ``s_k >= 1`` are known from the data
    anyway, and stay where they are unless nearly all longer waves have far less power
    than the prior gave them for the sake of this one. Of K waves the largest stands out
    above ``log(K / 0.01)``: noise has one in a hundred data sets, or fewer.

    Where the rows cannot tell two waves apart, as on a grid, the longer is taken.
    """
    statistics = choice.bound.sums.statistics
    sums, moments = statistics.wave_tables()
    reach = moments.reach
    waves = half_space(reach)
    power, known = _power(choice, filled, waves, (sums, moments))
    length = np.sum(waves**2, axis=1)
    found = np.flatnonzero(power > np.log(len(waves) / _FALSE_ALARMS))
    may = [known[i] < 1.0 or _is_alone(power[length < length[i]]) for i in found]
    found = found[np.array(may, bool)]
    found = found[power[found] > _SHARE * float(power[found].max(initial=0.0))]
    found = found[np.argsort(-power[found], kind="stable")][:_MOST_AT_ONCE]
    return waves[_without_aliases(found, waves, power, sums)]


def price(choice: SeriesChoice, waves: Integers) -> float:
    """Nats that a choice of waves among all must be worth."""
    reach = choice.bound.sums.statistics.reach()
    others = np.prod(2.0 * reach + 1.0) / 2.0
    return len(waves) * float(np.log(others / _FALSE_ALARMS))


def _power(
    choice: SeriesChoice,
    filled: Array,
    waves: Integers,
    tables: tuple[WaveTable, WaveTable],
) -> tuple[Array, Array]:
    """``P_k`` and ``s_k`` of waves (K, d)."""
    bound, (rule, noise, _) = choice.bound, choice.prior
    statistics, scale = bound.sums.statistics, bound.sums.scale
    box, sums, moments = statistics.box, *tables
    whitened = bound.statistics(rule)
    root = precision_root(whitened.gram, noise)
    mean = posterior_mean_from(whitened, noise, root)
    coefficients = np.sqrt(bound.spectrum(rule).eigenvalues) * mean
    index = bound.functions.part(slice(bound.size))
    fitted = convolved(sums, combination(index, coefficients), moments.reach)
    residual = moments.at(waves) / scale - fitted.at(waves)
    eigenvalues, inside = _eigenvalues(choice, waves, moments)
    gain = bound.weight * float(np.prod(box.period / filled)) / noise
    known = gain * eigenvalues
    factor = np.where(inside, 1.0 + known, 1.0 / (1.0 + known))
    power = np.abs(residual) ** 2 * factor / (bound.weight * noise)
    return power, known


def _eigenvalues(
    choice: SeriesChoice, waves: Integers, table: WaveTable
) -> tuple[Array, NDArray[np.bool_]]:
    """Prior variance of each wave's functions, and if the basis has both."""
    bound = choice.bound
    spectrum = choice.prior.rule.spectrum(bound.functions, bound.sums.statistics.box)
    listed = bound.functions.waves
    held = np.all(np.abs(listed) <= table.reach, axis=1)
    held &= ~bound.functions.sine
    place = table.reach @ table.strides()
    values, inside = (np.zeros(table.values.size) for _ in range(2))
    at = place + listed[held] @ table.strides()
    values[at] = spectrum.eigenvalues[: len(listed)][held]
    # the cosine comes after its sine
    inside[at] = np.flatnonzero(held) < bound.size
    wanted = place + waves @ table.strides()
    return values[wanted], inside[wanted] > 0.0


def _is_alone(longer: Array) -> bool:
    """Whether there are longer waves and most have nearly no power (in `P_k`)."""
    return len(longer) >= _FEWEST_LONGER and float(np.median(longer)) < _QUIET


def _without_aliases(
    found: Index, waves: Integers, power: Array, sums: WaveTable
) -> Index:
    """Those that are not one with a longer wave of no less than half their power."""
    kept = []
    total = float(np.abs(sums.values).max())
    length = np.sum(waves[found] ** 2, axis=1)
    for i, this in enumerate(found):
        longer = found[(length < length[i]) & (power[found] >= 0.5 * power[this])]
        apart = np.abs(sums.at(waves[longer] - waves[this]))
        total_wave = np.abs(sums.at(waves[longer] + waves[this]))
        if np.all(np.maximum(apart, total_wave) <= _SAME * total):
            kept.append(this)
    return np.array(kept, np.intp)
