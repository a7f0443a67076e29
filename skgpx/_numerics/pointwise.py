"""Compiled value and gradient of every built-in likelihood, on blocks of rows.

The transcendental functions run in flat passes over one or two contiguous arrays, which
compilers vectorise; the passes with one target per row use rational arithmetic only.
The gradient array also serves as scratch space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skgpx._numerics._jit import Formula, inlined
from skgpx._numerics.elementary import erfcx, exp, log, log1p
from skgpx._types import Array

GAUSSIAN = 0
STUDENT_T = 1
BERNOULLI_LOGIT = 2
BERNOULLI_PROBIT = 3
POISSON_SOFTPLUS = 4
POISSON_EXP = 5
POISSON_SQUARE = 6
SHIFTED_MIXTURE = 7
CATEGORICAL = 8

# Where the exp link of counts continues as its tangent; offset of the square link.
EXPONENT_CAP = 300.0
SQUARE_FLOOR = 1e-8


@inlined
def value_and_gradient(
    formula: Callable[..., None],
    parameters: Array,
    y: Array,
    f: Array,
    with_value: bool,
    value: Array,
    gradient: Array,
) -> None:
    """Write the negative log-likelihood and its gradient in f into two arrays.

    Parameters
    ----------
    formula : function
        The result of `formula_of` for the likelihood's code.
    parameters : ndarray of shape (p,)
        The result of the likelihood's ``kernel_parameters()``.
    y : ndarray of shape (b,)
        Targets; classes are encoded 0, 1, ...
    f : ndarray of shape (b, c * s), C-contiguous
        Latent values of c outputs (1 except for classes) and s chains; column
        ``output * s + chain``.
    with_value : bool
        False skips the value, and does not write `value`.
    value : ndarray of shape (b, s), C-contiguous
        Out: negative log-likelihood, up to terms that are constant in f.
    gradient : ndarray of shape (b, c * s), C-contiguous
        Out: its derivative in f. Must not overlap f.

    Notes
    -----
    No overflow for ``|f| <= 1e6``; a NaN in f affects only its own elements of the
    gradient. A few nanoseconds per element. Meant for blocks that fit in the cache.
    """
    formula(
        parameters,
        y,
        f.reshape(-1),
        with_value,
        value.reshape(-1),
        gradient.reshape(-1),
    )


@inlined
def _repeat(y: Array, g: Array) -> None:
    """Write the target of each element into the gradient.

    Every formula is then one flat loop over three arrays.
    """
    s = g.size // y.size
    for i in range(y.size):
        row = g[i * s : (i + 1) * s]
        target = y[i]
        for j in range(s):
            row[j] = target


@Formula
def _gaussian(
    p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = (f - y)² / (2 σ²)
    _repeat(targets, g)
    precision = 1.0 / p[0]
    for k in range(f.size):
        r = f[k] - g[k]
        g[k] = r * precision
        if with_value:
            value[k] = 0.5 * precision * r * r


@Formula
def _student_t(
    p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = ½ (ν + 1) log(1 + r² / (ν s²)), r = f - y
    _repeat(targets, g)
    df = p[0]
    scale = p[1]
    width = df * scale * scale
    inverse = 1.0 / width
    for k in range(f.size):
        r = f[k] - g[k]
        g[k] = (df + 1.0) * r / (width + r * r)
        if with_value:
            value[k] = 0.5 * (df + 1.0) * log(1.0 + r * r * inverse)


@Formula
def _bernoulli_logit(
    _p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = log(1 + eˣ) - y x
    _repeat(targets, g)
    for k in range(f.size):
        x = f[k]
        y = g[k]
        e = exp(-abs(x))
        g[k] = (1.0 if x > 0.0 else e) / (1.0 + e) - y
        if with_value:
            value[k] = (x if x > 0.0 else 0.0) - y * x + log1p(e)


@Formula
def _bernoulli_probit(
    _p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = -log Φ(t), t = (2 y - 1) f; with E = erfcx(|t| / √2) and e = exp(-t² / 2),
    # Φ(t) = E e / 2 on the left, 1 - E e / 2 on the right; gradient ∓φ / Φ
    _repeat(targets, g)
    for k in range(f.size):
        sign = 2.0 * g[k] - 1.0
        t = sign * f[k]
        z = abs(t) * 0.7071067811865476
        e = exp(-z * z)
        tail = 0.5 * erfcx(z)
        right = t > 0.0
        below = 1.0 - tail * e if right else tail
        g[k] = -0.3989422804014327 * sign * (e if right else 1.0) / below
        if with_value:
            value[k] = (0.0 if right else z * z) - log(below)


@Formula
def _poisson_softplus(
    _p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = rate - y log rate, rate = log(1 + eˣ)
    _repeat(targets, g)
    for k in range(f.size):
        x = f[k]
        y = g[k]
        e = exp(-abs(x))
        rate = (x if x > 0.0 else 0.0) + log1p(e)
        slope = (1.0 if x > 0.0 else e) / (1.0 + e)
        g[k] = slope - y * slope / rate
        if with_value:
            value[k] = rate - y * (x if x < -37.0 else log(rate))


@Formula
def _poisson_exp(
    _p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = eˣ - y x, and eˣ continues as its tangent above the cap
    _repeat(targets, g)
    for k in range(f.size):
        x = f[k]
        y = g[k]
        over = x - EXPONENT_CAP
        over = over if over > 0.0 else 0.0
        rate = exp(x - over)
        g[k] = rate - y
        if with_value:
            value[k] = rate * (1.0 + over) - y * x


@Formula
def _poisson_square(
    _p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = rate - y log rate, rate = x² + floor
    _repeat(targets, g)
    for k in range(f.size):
        x = f[k]
        y = g[k]
        rate = x * x + SQUARE_FLOOR
        g[k] = 2.0 * x - 2.0 * x * y / rate
        if with_value:
            value[k] = rate - y * log(rate)


@Formula
def _shifted_mixture(
    p: Array,
    targets: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = r² / (2 v) - log(1 + eᵃ), r = y - f, with the log odds of a shift
    # a = log_odds + shift (r - shift / 2) / v; gradient (shift expit(a) - r) / v
    _repeat(targets, g)
    shift = p[0]
    log_odds = p[1]
    precision = 1.0 / p[2]
    slope = shift * precision
    offset = log_odds - 0.5 * shift * slope
    for k in range(f.size):
        r = g[k] - f[k]
        a = offset + slope * r
        e = exp(-abs(a))
        expit = (1.0 if a > 0.0 else e) / (1.0 + e)
        g[k] = (shift * expit - r) * precision
        if with_value:
            softplus = (a if a > 0.0 else 0.0) + log1p(e)
            value[k] = 0.5 * precision * r * r - softplus


@Formula
def _categorical(
    _p: Array,
    y: Array,
    f: Array,
    with_value: bool,
    value: Array,
    g: Array,
) -> None:
    # nll = log Σ_k exp(f_k - largest) - (f_y - largest), for each row and chain
    n_outputs = f.size // value.size
    total = np.empty(value.size)
    _subtract_largest(f, y.size, n_outputs, total, g)
    if with_value:
        s = total.size // y.size
        for i in range(y.size):
            observed = (i * n_outputs + int(y[i])) * s
            v = value[i * s : (i + 1) * s]
            d = g[observed : observed + s]
            for j in range(s):
                v[j] = -d[j]
    for k in range(g.size):
        g[k] = exp(g[k])
    _normalise(y, n_outputs, total, g)
    if with_value:
        for k in range(total.size):
            value[k] += log(total[k])


@inlined
def _subtract_largest(
    f: Array,
    n_rows: int,
    n_outputs: int,
    top: Array,
    g: Array,
) -> None:
    """Write ``f - top``, with top the largest latent value of each row and chain."""
    s = top.size // n_rows
    for i in range(n_rows):
        t = top[i * s : (i + 1) * s]
        for k in range(n_outputs):
            first = (i * n_outputs + k) * s
            x = f[first : first + s]
            for j in range(s):
                t[j] = x[j] if k == 0 or x[j] > t[j] else t[j]
        for k in range(n_outputs):
            first = (i * n_outputs + k) * s
            x = f[first : first + s]
            d = g[first : first + s]
            for j in range(s):
                d[j] = x[j] - t[j]


@inlined
def _normalise(
    y: Array,
    n_outputs: int,
    total: Array,
    g: Array,
) -> None:
    """Divide by the sum over the outputs, then subtract one at the observed class."""
    s = total.size // y.size
    for i in range(y.size):
        t = total[i * s : (i + 1) * s]
        for k in range(n_outputs):
            first = (i * n_outputs + k) * s
            e = g[first : first + s]
            for j in range(s):
                t[j] = e[j] if k == 0 else t[j] + e[j]
        for k in range(n_outputs):
            first = (i * n_outputs + k) * s
            e = g[first : first + s]
            hit = 1.0 if y[i] == k else 0.0
            for j in range(s):
                e[j] = e[j] / t[j] - hit


_FORMULAS: dict[int, Formula] = {
    GAUSSIAN: _gaussian,
    STUDENT_T: _student_t,
    BERNOULLI_LOGIT: _bernoulli_logit,
    BERNOULLI_PROBIT: _bernoulli_probit,
    POISSON_SOFTPLUS: _poisson_softplus,
    POISSON_EXP: _poisson_exp,
    POISSON_SQUARE: _poisson_square,
    SHIFTED_MIXTURE: _shifted_mixture,
    CATEGORICAL: _categorical,
}


def formula_of(code: int) -> Any:
    """The compiled formula of a code, an argument of other kernels."""
    return _FORMULAS[code].address
