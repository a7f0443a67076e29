"""Compiled densities of frequencies of elliptical kernels, as functions of a radius.

``p(ω) = Π ℓ h(|ℓω|²)``. Each formula maps squared radii ``s = |ℓω|²`` to ``log h(s)``
and its slope in s; the score of the density is ``∇ log p(ω) = 2 ℓ² ω (log h)'(s)``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skgpx._numerics._jit import CompiledFormula, Formula, kernel
from skgpx._numerics.elementary import exp
from skgpx._types import Array

NORMAL, STUDENT_T, NORMAL_MIXTURE = range(3)


class RadialDensity(NamedTuple):
    """A formula and its parameters.

    Attributes
    ----------
    code : int
        NORMAL, STUDENT_T or NORMAL_MIXTURE.
    parameters : ndarray of shape (p,)
        In the order that the formula of the code states.
    """

    code: int
    parameters: Array

    @property
    def formula(self) -> CompiledFormula:
        """The compiled formula, an argument for kernels."""
        return _FORMULAS[self.code].address

    def log_density(self, squares: Array) -> tuple[Array, Array]:
        """``log h(s)`` at squared radii (R,), and its slope in s."""
        values = np.empty(squares.shape)
        slopes = np.empty(squares.shape)
        _evaluate(self.formula, self.parameters, squares, values, slopes)
        return values, slopes


@kernel
def _evaluate(
    formula: CompiledFormula,
    parameters: Array,
    squares: Array,
    values: Array,
    slopes: Array,
) -> None:
    formula(parameters, parameters, squares, True, values, slopes)


@Formula
def _normal(
    p: Array,
    _y: Array,
    squares: Array,
    with_value: bool,
    values: Array,
    slopes: Array,
) -> None:
    # log h = c - s / 2 with p = (c,)
    for i in range(squares.size):
        slopes[i] = -0.5
        if with_value:
            values[i] = p[0] - 0.5 * squares[i]


@Formula
def _student_t(
    p: Array,
    _y: Array,
    squares: Array,
    with_value: bool,
    values: Array,
    slopes: Array,
) -> None:
    # log h = c - (ν + d/2) log(1 + s / 2ν) with p = (c, ν + d/2, 2ν)
    for i in range(squares.size):
        slopes[i] = -p[1] / (p[2] + squares[i])
        if with_value:
            values[i] = p[0] - p[1] * math.log1p(squares[i] / p[2])


@Formula
def _normal_mixture(
    p: Array,
    _y: Array,
    squares: Array,
    with_value: bool,
    values: Array,
    slopes: Array,
) -> None:
    # h = Σ_k exp(c_k - s t_k) with p = (c_1, ..., c_K, t_1, ..., t_K)
    K = p.size // 2
    logs = np.empty(K)
    for i in range(squares.size):
        largest = -np.inf
        for k in range(K):
            logs[k] = p[k] - squares[i] * p[K + k]
            largest = max(largest, logs[k])
        total = 0.0
        weighted = 0.0
        for k in range(K):
            weight = exp(logs[k] - largest)
            total += weight
            weighted += weight * p[K + k]
        slopes[i] = -weighted / total
        if with_value:
            values[i] = largest + math.log(total)


_FORMULAS = {
    NORMAL: _normal,
    STUDENT_T: _student_t,
    NORMAL_MIXTURE: _normal_mixture,
}
