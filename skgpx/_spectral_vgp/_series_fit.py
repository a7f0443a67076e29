"""Regression on Fourier functions: box, number of functions, hyperparameters."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._numerics.fourier_index import FourierIndex, by_power
from skgpx._numerics.regression import (
    log_evidence_from,
    posterior_from,
    precision_root,
)
from skgpx._numerics.series_statistics import (
    SeriesStatistics,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._spectral_vgp._domain import (
    box_of,
    data_domain,
    input_range,
    joint_range,
    kernel_of,
)
from skgpx._spectral_vgp._series_search import SeriesSettings, maximise_series_evidence
from skgpx._spectral_vgp._series_sums import StandardSums, row_sums
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows
from skgpx.bases import (
    BoundedSeries,
    Box,
    ExponentialEigenvalues,
)

Array = NDArray[np.float64]

# Functions at which hyperparameters are first searched for, by the number of inputs,
# and rows that decide about box, reach and lengthscales when there are more. With many
# rows and few functions the bound would rather explain nothing than leave a tail.
_PILOT_FUNCTIONS = {1: 201, 2: 301, 3: 501}
_PILOT_ROWS = {1: 20_000, 2: 3000, 3: 2000}
# Functions up to which lengthscales are searched for again on all rows.
_MOST_SEARCHED = 501
_ROUNDS = 5


class SeriesState(NamedTuple):
    """Box, rule and the sums over all rows seen.

    Attributes
    ----------
    domain : ndarray of shape (d, 2)
        Where the inputs may lie.
    seen : ndarray of shape (d, 2)
        Range of the inputs so far.
    settings : SeriesSettings
    statistics : SeriesStatistics
    """

    domain: Array
    seen: Array
    settings: SeriesSettings
    statistics: SeriesStatistics

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SeriesState:
        """State after more rows."""
        like = self.statistics
        reach = 2 * like.reach() if len(like.box.period) == 1 else like.reach()
        more = row_sums(rows, self.domain, like.box, like.shift, reach, n_jobs)
        return self._replace(
            statistics=like + more, seen=joint_range(self.seen, input_range(rows.X))
        )

    def merged(self, other: Any) -> SeriesState:
        """State of the rows of both.

        Raises
        ------
        ValueError
            If their boxes or the waves they hold differ.
        """
        same = (
            isinstance(other, SeriesState)
            and np.array_equal(self.domain, other.domain)
            and np.array_equal(self.statistics.box, other.statistics.box)
            and np.array_equal(self.statistics.reach(), other.statistics.reach())
            and self.settings.given == other.settings.given
        )
        if not same:
            raise ValueError(
                "Only models on one box, with one number of waves, can be merged. Give "
                "all of them the same parameters and a `domain`, and with a "
                "kernel call partial_fit instead of fit."
            )
        return self._replace(
            statistics=self.statistics + other.statistics,
            seen=joint_range(self.seen, other.seen),
        )

    def solve(self) -> SpectralFit:
        """Number of functions, hyperparameters, posterior and bound; free of n."""
        return _solve(self, *_standardised(self))


def fit_series(
    rows: Rows, domain: Array | None, settings: SeriesSettings, n_jobs: int | None
) -> tuple[SeriesState, SpectralFit]:
    """Choose the box for the kernel that the data want, and solve on it.

    A pass over at most 20 000 rows decides about the box; then one over all.
    """
    n, few = len(rows.y), _PILOT_ROWS[rows.X.shape[1]]
    learns = kernel_of(settings.rule) is not None and settings.learns()
    adaptive = settings.n_basis == "auto" or learns
    if adaptive and n > 1.5 * few:
        some = Rows(*(values[:: n // few] for values in rows))
        whole = data_domain(rows.X) if domain is None else domain
        _, found = fit_series(some, whole, settings._replace(quiet=True), n_jobs)
        settings = settings._replace(
            rule=found.prior, start_noise=found.noise_variance / found.scale**2
        )
    state = start_series(rows, domain, settings, n_jobs)
    fit = state.solve()
    for _ in range(3):
        box = box_of(state.domain, fit.prior, learns, domain is None)
        ratio = box.period / state.statistics.box.period
        # too little room spoils what the kernel says beyond the data
        moved = np.any((ratio >= 1.1) | (ratio <= 0.75))
        if not learns or not (moved or _is_clipped(state, fit)):
            break
        settings = settings._replace(
            rule=fit.prior, start_noise=fit.noise_variance / fit.scale**2
        )
        state = start_series(rows, domain, settings, n_jobs)
        fit = state.solve()
    return state, fit


def _is_clipped(state: SeriesState, fit: SpectralFit) -> bool:
    """Whether the function after the last of the basis was not summed."""
    if state.settings.ordering != "prior":
        return False
    size = fit.posterior.basis.n_basis + 1
    reach = fit.prior.index(state.statistics.box, size).reach()
    return bool(np.any(reach > state.statistics.reach()))


def start_series(
    rows: Rows, domain: Array | None, settings: SeriesSettings, n_jobs: int | None
) -> SeriesState:
    """Box for the rule as it is, and the sums over some rows."""
    has_margin = domain is None
    if domain is None:
        domain = data_domain(rows.X)
    box = box_of(domain, settings.rule, settings.learns(), has_margin)
    by_rows = isinstance(settings.n_basis, str)
    size = settings.largest if by_rows else int(settings.n_basis)
    if settings.ordering != "prior":
        size = max(size, settings.largest)
    functions = settings.rule.index(box, size)
    reach = functions.reach()
    if len(reach) > 1:
        # another kernel may want other waves
        reach = np.minimum(reach + reach // 4 + 1, size)
    else:
        reach = 2 * (reach + 1)
    # an offset of y costs no digits if it is taken away before squaring
    shift = float(rows.weights @ rows.y / rows.weights.sum())
    statistics = row_sums(rows, domain, box, shift, reach, n_jobs)
    return SeriesState(domain, input_range(rows.X), settings, statistics)


def _standardised(state: SeriesState) -> tuple[StandardSums, float]:
    """Sums of the standardised y, and what was subtracted."""
    s = state.statistics
    if not state.settings.normalize_y:
        return StandardSums(s.moved(0.0), 1.0), 0.0
    centred = s.moved(s.shift + s.total / s.weight)
    std = float(np.sqrt(max(centred.square, 0.0) / centred.weight))
    scale = std if std > 1e-14 * abs(centred.shift) and std > 0.0 else 1.0
    return StandardSums(centred, scale), centred.shift


def _solve(state: SeriesState, sums: StandardSums, shift: float) -> SpectralFit:
    rule, noise, size = _search(state, sums)
    box, weight = state.statistics.box, state.statistics.weight
    functions = _functions(state, sums, rule, size)
    # the last rule may put other functions first than those that were summed
    size = min(size, _summable(state, functions))
    series = BoundedSeries.from_rule(rule, box, size, functions)
    series = replace(series, domain=state.domain)
    learned = state.settings.normalize_y and _scale_is_learned(state.settings)
    spectrum = _free_level(series) if learned else series.spectrum
    basis = replace(series, spectrum=spectrum)
    equations = sums.equations(basis.index)
    residual = basis.residual_total(sums.statistics)
    statistics = equations.whitened(basis.eigenvalues, residual)
    root = precision_root(statistics.gram, noise)
    law = posterior_from(statistics, noise, root)
    evidence = log_evidence_from(statistics, noise, root)
    evidence -= _level_evidence(law, series.eigenvalues, basis.eigenvalues)
    return SpectralFit(
        LatentModel(basis, law),
        noise * sums.scale**2,
        float(evidence - weight * np.log(sums.scale)),
        shift,
        sums.scale,
        rule,
        basis.spectrum * sums.scale**2,
    )


def _scale_is_learned(settings: SeriesSettings) -> bool:
    return kernel_of(settings.rule) is None and bool(settings.free()[:1].any())


def _free_level(basis: BoundedSeries) -> Array:
    """Spectrum in which the level of the (standardised) function is free to vary.

    The mean of y was taken away as if it were known. With a scale that is learned, a
    function that is nearly constant would be known exactly; a prior variance of at
    least one for the constant function gives the level its ``σ² / n``.
    """
    spectrum = basis.spectrum.copy()
    constant = ~np.any(basis.index.waves, axis=1)
    leading = spectrum[: basis.n_basis]
    leading[constant] = np.maximum(leading[constant], 1.0)
    return spectrum


def _level_evidence(law: GaussianWeights, given: Array, raised: Array) -> float:
    """What the free level adds to the bound, which is that of the prior searched for.

    With ρ = 1 - λ / λ' of the one eigenvalue that was raised to λ', and its weight's
    posterior N(μ, s): ``½ log(1 - ρ (1 - s)) + ½ ρ μ² / (1 - ρ (1 - s))``, the change
    of the log density of y when ``(λ' - λ) φφᵀ`` is added to its covariance.
    """
    changed = np.flatnonzero(given < raised)
    if not len(changed):
        return 0.0
    i = changed[0]
    rho, mean = 1.0 - given[i] / raised[i], law.mean[i, 0]
    kept = 1.0 - rho * (1.0 - np.sum(law.root[0, i] ** 2))
    return 0.5 * float(np.log(kept) + rho * mean**2 / kept)


def _search(state: SeriesState, sums: StandardSums) -> tuple[Any, float, int]:
    """Rule, noise variance and number of functions, in turns until they agree."""
    settings, box = state.settings, state.statistics.box
    weight, auto = state.statistics.weight, settings.n_basis == "auto"
    fixed = settings.white_noise_variance
    if settings.noise_variance is not None:
        fixed = settings.noise_variance / sums.scale**2
    rule = _at_sample_size(settings, weight, len(box.period))
    noise = settings.start_noise
    size = wanted = _pilot_size(settings, weight, len(box.period))
    if auto and noise is not None:
        wanted = elbow(rule, box, weight, noise, settings.largest)
        size = min(settings.largest, max(size, wanted))
    if not auto and fixed is not None and not settings.learns():
        return rule, fixed, size
    for _ in range(_ROUNDS):
        functions = _functions(state, sums, rule, size)
        size = min(size, _summable(state, functions))
        chosen = functions.part(slice(size))
        if noise is not None and size > _MOST_SEARCHED and kernel_of(rule) is not None:
            # the lengthscales found so far stay; only the noise is searched for
            settings = settings._replace(optimizer=None)
        earlier, equations = rule, sums.equations(chosen)
        rule, noise = maximise_series_evidence(
            equations, chosen, box, rule, noise, settings, fixed
        )
        if auto:
            wanted = elbow(rule, box, weight, noise, settings.largest + 1)
        moved = rule is not earlier and _index_changed(rule, earlier, box, size)
        if not moved and (wanted <= size or size == settings.largest):
            break
        if wanted > size:
            size = min(settings.largest, 2 * wanted)
    if not auto:
        return rule, noise, size
    _warn_if_capped(settings, rule, box, wanted, size, sums.scale)
    return rule, noise, max(min(wanted, size), 1)


def _at_sample_size(settings: SeriesSettings, weight: float, d: int) -> Any:
    """Rule with the decay that depends on n: ``c = n^(-1 / (d + 2α)) log n``, (5.2)."""
    rule = settings.rule
    if not isinstance(rule, ExponentialEigenvalues):
        return rule
    n = max(weight, 2.0)
    decay = n ** (-1.0 / (d + 2.0 * settings.regularity)) * np.log(n)
    return replace(rule, decay=float(decay))


def _functions(
    state: SeriesState, sums: StandardSums, rule: Any, size: int
) -> FourierIndex:
    """All functions considered, the basis first, as far as the sums reach."""
    box, settings = state.statistics.box, state.settings
    reach = state.statistics.reach()
    if settings.ordering == "prior":
        functions = rule.index(box, size + 4096)
        first = functions.part(slice(size))
        if np.all(first.reach() <= reach):
            return functions
        inside = np.all(np.abs(functions.waves) <= reach, axis=1)
        # those that cannot be summed are left to the residual
        order = np.concatenate((np.flatnonzero(inside), np.flatnonzero(~inside)))
        return functions.part(order)
    functions = rule.index(box, max(size, settings.largest))
    functions = functions.part(np.all(np.abs(functions.waves) <= reach, axis=1))
    correlation = sums.statistics.moments(functions)
    return by_power(functions, correlation, settings.ordering == "power")


def _summable(state: SeriesState, functions: FourierIndex) -> int:
    """Number of functions up to the first that the sums do not reach."""
    reach = state.statistics.reach()
    beyond = np.any(np.abs(functions.waves) > reach, axis=1)
    return int(np.argmax(beyond)) if beyond.any() else len(functions)


def _pilot_size(settings: SeriesSettings, weight: float, d: int) -> int:
    if settings.n_basis == "auto":
        return min(settings.largest, _PILOT_FUNCTIONS[d])
    if settings.n_basis == "rate":
        return min(settings.largest, rate(weight, d, settings.regularity))
    return int(settings.n_basis)


def rate(n: float, d: int, regularity: float) -> int:
    """``n^(d / (d + 2α))``: enough functions for the rate of contraction."""
    return max(1, int(np.ceil(n ** (d / (d + 2.0 * regularity)) - 1e-9)))


def elbow(rule: Any, box: Box, weight: float, noise: float, most: int) -> int:
    """``#{j : n λ_j >= σ²}``: functions about which the data say something."""
    values = rule.spectrum(rule.index(box, most), box).eigenvalues
    count = int(np.sum(weight * values >= noise))
    # whole pairs of sine and cosine
    return max(1, count + 1 - count % 2)


def _index_changed(rule: Any, earlier: Any, box: Box, size: int) -> bool:
    """Whether a kernel now puts other functions first."""
    if kernel_of(rule) is None:
        return False
    one, two = (r.index(box, size).waves for r in (rule, earlier))
    return not np.array_equal(np.unique(one, axis=0), np.unique(two, axis=0))


def _warn_if_capped(
    settings: SeriesSettings,
    rule: Any,
    box: Box,
    wanted: int,
    size: int,
    scale: float,
) -> None:
    if wanted <= size or settings.quiet:
        return
    tail = rule.spectrum(rule.index(box, size), box).tail
    warnings.warn(
        f"The data would support more than the {size} basis functions that are "
        "allowed; the others add a prior standard deviation of "
        f"{scale * np.sqrt(tail):.3g} to every prediction. Raise `max_basis`, or "
        "choose a smoother prior.",
        UserWarning,
        stacklevel=5,
    )
