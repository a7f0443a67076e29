"""Mixtures of Poisson laws: distribution function and quantiles, compiled."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import inlined, reduction
from skgpx._numerics.normal_sums import deviate

Array = NDArray[np.float64]

_exp = elementary.exp
_log = elementary.log
_erfcx = elementary.erfcx
_twice_artanh = elementary.twice_artanh

# Counts up to which the probabilities are added one by one.
LARGEST_SUM = 64.0
# A rate at which none of these counts occurs.
_NO_SUCH_COUNT = 700.0
_MAX_STEPS = 200
# Temme's coefficients c_k(η), k = 0, ..., 4, by powers of η; enough where a >= 65.
_TEMME = (
    (
        -0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
        0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
        3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
        8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
        1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
        -2.5514193994946248e-11, -5.830772132550426e-11, 2.4361948020667415e-11,
    ),
    (
        -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
        -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
        -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
        4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
        1.1951628599778148e-08, -1.7543241719747647e-11,
    ),
    (
        0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
        2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
        -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
        -6.298992138380055e-07, 1.4280614206064242e-07,
    ),
    (
        0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
        0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
        1.1082654115347302e-05, -5.6749528269915965e-06,
    ),
    (
        -0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
        -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
    ),
)  # fmt: skip
_C0, _C1, _C2, _C3, _C4 = (np.array(c) for c in _TEMME)


def cdf(count: Array, rates: Array, weights: Array) -> Array:
    """``P(Y <= count)`` of each row's mixture, shape (n,).

    Parameters
    ----------
    count : ndarray of shape (n,)
        Whole numbers; the probability of a negative one is zero.
    rates : ndarray of shape (n, a)
        Non-negative.
    weights : ndarray of shape (a,)

    Notes
    -----
    ``Q(count + 1, rate)``, the regularised upper incomplete gamma function: the sum of
    the probabilities for counts up to 64, above that Temme's uniform expansion [1]_;
    absolute error about 1e-14.

    References
    ----------
    .. [1] Temme, "The asymptotic expansion of the incomplete gamma functions", SIAM
       Journal on Mathematical Analysis 10, 1979.
    """
    out = np.empty(len(count))
    _cdfs(np.ascontiguousarray(count), np.ascontiguousarray(rates), weights, out)
    return out


def quantile(
    p: float, rates: Array, weights: Array, start: Array, spread: Array
) -> Array:
    """Smallest count with ``P(Y <= count) >= p`` for each row, shape (n,).

    Exact, up to 1e-13 in p that absorb the rounding of the weights. `start` and
    `spread` (n,) are a first guess and a typical deviation: steps go where a normal law
    of that spread would have the quantile, or to the middle of the bracket.
    """
    out = np.maximum(np.floor(start), 0.0)
    _quantiles(
        p - 1e-13, np.ascontiguousarray(rates), weights, np.maximum(spread, 0.5), out
    )
    return out


@reduction
def _cdfs(count: Array, rates: Array, weights: Array, out: Array) -> None:
    work = np.empty(rates.shape[1])
    for i in range(len(count)):
        out[i] = _cdf(count[i], rates[i], weights, work)


@reduction
def _cdf(count: float, rates: Array, weights: Array, work: Array) -> float:
    if count < 0.0:
        return 0.0
    if count <= LARGEST_SUM:
        _sums(count, rates, work)
    else:
        _expansions(count + 1.0, rates, work)
    total = 0.0
    for j in range(len(rates)):
        total += weights[j] * work[j]
    return total


@inlined
def _sums(count: float, rates: Array, out: Array) -> None:
    """``exp(-rate) Σ_{i <= count} rate^i / i!`` by Horner's rule."""
    out[:] = 1.0
    for i in range(int(count), 0, -1):
        inverse = 1.0 / i
        for j in range(len(rates)):
            out[j] = 1.0 + out[j] * min(rates[j], _NO_SUCH_COUNT) * inverse
    for j in range(len(rates)):
        out[j] *= _exp(-min(rates[j], _NO_SUCH_COUNT))


@inlined
def _expansions(a: float, rates: Array, out: Array) -> None:
    """``erfc(η √(a/2)) / 2 + exp(-a η²/2) / √(2πa) Σ_k c_k(η) a^-k``.

    ``η²/2 = μ - log(1 + μ)`` with ``μ = rate / a - 1``, η of the sign of μ.
    """
    factor = 1.0 / math.sqrt(2.0 * math.pi * a)
    b = 1.0 / a
    for j in range(len(rates)):
        mu = max(rates[j] * b, 1e-300) - 1.0
        t = mu / (2.0 + mu)
        if abs(t) < 0.3:
            # log(1 + μ) = 2 artanh t, of which 2 t is taken out
            square = mu * mu / (2.0 + mu) - (_twice_artanh(t) - 2.0 * t)
        else:
            square = mu - _log(1.0 + mu)
        square = max(square, 0.0)
        eta = math.sqrt(2.0 * square)
        eta = eta if mu > 0.0 else -eta
        e = _exp(-a * square)
        tail = 0.5 * _erfcx(math.sqrt(a * square)) * e
        at = min(max(eta, -1.2), 1.2)
        series = _power_series(_C3, at) + b * _power_series(_C4, at)
        series = _power_series(_C1, at) + b * (_power_series(_C2, at) + b * series)
        series = _power_series(_C0, at) + b * series
        out[j] = (tail if mu > 0.0 else 1.0 - tail) + factor * e * series


@inlined
def _power_series(coefficients: Array, x: float) -> float:
    total = 0.0
    for k in range(len(coefficients) - 1, -1, -1):
        total = total * x + coefficients[k]
    return total


@reduction
def _quantiles(p: float, rates: Array, weights: Array, spread: Array, y: Array) -> None:
    work = np.empty(rates.shape[1])
    goal = deviate(p)[0]
    for i in range(len(y)):
        low, high, count = -1.0, np.inf, y[i]
        for step in range(_MAX_STEPS):
            below = _cdf(count, rates[i], weights, work)
            low, high = (low, count) if below >= p else (count, high)
            if high - low <= 1.0:
                break
            at = deviate(min(max(below, 1e-300), 1.0 - 1e-16))[0]
            new = count + math.floor((goal - at) * spread[i] + 0.5)
            if step % 3 == 2 and high < np.inf:
                new = math.floor(0.5 * (low + high))
            new = min(max(new, low + 1.0), high - 1.0)
            if new == count:
                break
            count = new
            # beyond any bracket, in growing steps
            spread[i] *= 1.0 if high < np.inf else 2.0
        y[i] = high if high < np.inf else count
