"""Which Fourier functions a basis consists of, and how many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import (
    Box,
    FourierIndex,
    Integers,
    by_power,
    raised,
)
from skgpx._numerics.series_statistics import SeriesStatistics
from skgpx._spectral_vgp._domain import kernel_of

Array = NDArray[np.float64]

# Functions considered after those of the basis.
_RESIDUAL = 4096
# Part of the posterior variance that functions left to the residual may add to it: one
# per cent of the standard deviation. Beyond so many functions the elbow is enough.
_INFLATION = 0.02
MOST_REFINED = 1001
# What the tail may cost the bound, in nats, up to so many functions for the number of
# inputs: hyperparameters found with few functions would be those of a smoother process.
_COST = 0.01
FIRST_FUNCTIONS = {1: 201, 2: 301, 3: 501}
# The same in nats a row, with one input, for as many functions as are allowed and no
# more than one for so many rows: few rows cannot tell a rough function from noise.
_COST_A_ROW, _ROWS_A_FUNCTION = 0.01, 4
# Nats a row from which functions fall short. Smooth functions stop close to what they
# may cost, as the hourly series do whose cycles were found.
_SHORT_COST = 0.02
# Least part of its domain that the data are taken to fill, for each input.
_LEAST_FILLED = 0.1


class FunctionOrder(NamedTuple):
    """Which functions come first.

    Attributes
    ----------
    kind : {"auto", "prior", "power", "coefficients"}
        "auto" is the order of the prior behind the waves that are raised.
    largest : int
        First functions of the prior among which an order by the data chooses.
    raised : ndarray of shape (r, d) or None
        Waves that follow the constant.
    """

    kind: str
    largest: int
    raised: Integers | None = None

    @property
    def by_data(self) -> bool:
        """Whether the data order all functions."""
        return self.kind in ("power", "coefficients")


def considered(
    statistics: SeriesStatistics, rule: Any, order: FunctionOrder, size: int
) -> tuple[FourierIndex, int]:
    """All functions in order, those that can be summed first, and how many can be.

    Parameters
    ----------
    statistics : SeriesStatistics
        Of the centred y.
    rule : EigenvalueRule
    order : FunctionOrder
    size : int
        Functions wanted in the basis.
    """
    functions, inside = _listed(statistics, rule, order, size)
    size = min(size, int(np.count_nonzero(inside)))
    if order.by_data:
        functions = functions.part(np.flatnonzero(inside))
        correlation = statistics.moments(functions)
        return by_power(functions, correlation, order.kind == "power"), size
    if not np.all(inside[:size]):
        # the last rule may put other functions first than those that were summed: these
        # are left to the residual
        places = np.concatenate((np.flatnonzero(inside), np.flatnonzero(~inside)))
        functions = functions.part(places)
    return functions, size


def summable(
    statistics: SeriesStatistics, rule: Any, order: FunctionOrder, size: int
) -> int:
    """How many of the functions wanted can be summed; arguments of `considered`."""
    inside = _listed(statistics, rule, order, size)[1]
    return min(size, int(np.count_nonzero(inside)))


def _listed(
    statistics: SeriesStatistics, rule: Any, order: FunctionOrder, size: int
) -> tuple[FourierIndex, NDArray[np.bool_]]:
    """Functions in the order of the prior, and which of them can be summed."""
    most = max(size, order.largest) if order.by_data else size + _RESIDUAL
    # sine and cosine of the last wave
    functions = rule.index(statistics.box, most + 1 - most % 2)
    if order.raised is not None:
        functions = raised(functions, order.raised)
    return functions, np.all(np.abs(functions.waves) <= statistics.reach(), axis=1)


def rate(n: float, d: int, regularity: float) -> int:
    """``n^(d / (d + 2α))``: enough functions for the rate of contraction."""
    return max(1, int(np.ceil(n ** (d / (d + 2.0 * regularity)) - 1e-9)))


def elbow(eigenvalues: Array, weight: float, noise_variance: float) -> int:
    """``#{j : n λ_j >= σ²}``, in whole pairs of sine and cosine."""
    return _whole_pairs(int(np.sum(weight * eigenvalues >= noise_variance)))


def enough(
    rule: Any, box: Box, filled: Array, weight: float, noise: float, most: int
) -> int:
    """Functions without which the posterior is that of all, but for a per cent.

    Parameters
    ----------
    rule : EigenvalueRule
    box : Box
    filled : ndarray of shape (d,)
        Sides of the part of the box in which there are data.
    weight : float
        Number of rows n.
    noise : float
        ``σ²``.
    most : int

    Notes
    -----
    Data of density n / U on a part U of a box of volume V know a function with the
    eigenvalue λ as well as nV/U rows all over the box would: its variance becomes ``λ /
    (1 + s)``, ``s = n λ V / (U σ²)``, instead of λ. The first m functions are enough
    where ``Σ_{j>m} λ_j s_j / (1 + s_j)`` is at most 2 % of ``Σ λ_j / (1 + s_j)``, or a
    thousand if they go beyond the elbow ``n λ_j >= σ²``, which is always in. With one
    input they go on until the tail costs the bound no more than .01 nats a row,
    ``Σ_{j>m} λ_j / (2 σ²)``, up to a quarter of the number of rows.
    """
    spectrum = rule.spectrum(rule.index(box, most), box)
    values, tail = spectrum.eigenvalues, spectrum.tail
    gain = weight * float(np.prod(box.period / filled)) / noise
    known = values / (1.0 + gain * values)
    inflation = values - known
    # the functions beyond the list are known no better than its last
    last = inflation[-1] / max(values[-1], np.finfo(float).tiny)
    beyond = _later(inflation, tail * last)
    fine = _first(beyond <= _INFLATION * (known.sum() + tail))
    cost = 0.5 * weight / noise * _later(values, tail)
    tight = _first(cost <= _COST)
    refined = max(min(fine, MOST_REFINED), min(tight, FIRST_FUNCTIONS[len(filled)]))
    if len(filled) == 1:
        needed = _first(cost <= _COST_A_ROW * weight)
        refined = max(refined, min(needed, int(weight / _ROWS_A_FUNCTION)))
    return min(max(_whole_pairs(refined), elbow(values, weight, noise)), most)


def falls_short(size: int, tail: float, noise: float, weight: float, most: int) -> bool:
    """Whether one input has as many functions as allowed, and far from `enough`.

    Parameters
    ----------
    size : int
        Functions of the basis.
    tail : float
        Mean prior variance of all others.
    noise : float
        ``σ²``.
    weight : float
        Number of rows.
    most : int

    Notes
    -----
    Where a quarter of the rows are fewer than the functions that rows need not pay for,
    the rows are too few to say.
    """
    allowed = int(weight / _ROWS_A_FUNCTION)
    if allowed < FIRST_FUNCTIONS[1] or size < min(allowed, most):
        return False
    return 0.5 * tail / noise > _SHORT_COST


def filled_part(seen: Array, domain: Array) -> Array:
    """Sides of the data's range (d, 2), at least a tenth of the domain's."""
    least = _LEAST_FILLED * (domain[:, 1] - domain[:, 0])
    return np.maximum(seen[:, 1] - seen[:, 0], least)


def order_changed(rule: Any, earlier: Any, box: Box, size: int) -> bool:
    """Whether a kernel now puts other functions first."""
    if kernel_of(rule) is None or rule is earlier:
        return False
    one, two = (r.index(box, size).waves for r in (rule, earlier))
    return not np.array_equal(np.unique(one, axis=0), np.unique(two, axis=0))


def _later(values: Array, beyond: float) -> Array:
    """``Σ_{j>m}`` for m = 0..J, with what is beyond the list."""
    sums = np.cumsum(np.append(beyond, values[::-1]))
    return sums[::-1]


def _first(holds: NDArray[np.bool_]) -> int:
    """Least m for which something holds, or the last."""
    return int(np.argmax(holds)) if holds.any() else len(holds) - 1


def _whole_pairs(count: int) -> int:
    return max(1, count + 1 - count % 2)
