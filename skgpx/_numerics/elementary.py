"""Elementary functions, vectorised.

Calls into the C library keep a loop scalar; these functions are arithmetic on doubles
and their bits without branches, so that a loop over an array uses full vector
registers. They are accurate to a few units in the last place on the stated ranges,
propagate NaN, and never overflow. They also run as plain Python on NumPy scalars.

Arrays are copied by a loop: ``out[:] = source`` would also compile the code that writes
numba's error message, four seconds of a first fit.
"""

from __future__ import annotations

import numpy as np

from skgpx._numerics._jit import inlined, kernel
from skgpx._types import Array

# ---- Copies and sums of arrays, in kernels -------------------------------------------


@kernel
def copy_matrix(source: Array, target: Array) -> None:
    """Copy a matrix."""
    for i in range(len(source)):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@inlined
def add(part: Array, total: Array) -> None:
    """Add an array to one of the same shape, both C-contiguous."""
    x = part.reshape(-1)
    y = total.reshape(-1)
    for i in range(y.size):
        y[i] += x[i]


# ---- Branch-free exponentials and logarithms that a compiler can vectorise -----------


# Adding and subtracting 1.5 * 2^52 rounds a small double to the nearest integer and
# leaves that integer in the low bits of the sum.
_ROUND = 6755399441055744.0
# The bits of 2^52: or-ing a small integer into them gives the double 2^52 + integer.
_TWO_52 = 0x4330000000000000
_MANTISSA = 0x000FFFFFFFFFFFFF
_ONE = 0x3FF0000000000000


@kernel
def exp(x: float) -> float:
    """``exp(x)`` with x clipped to [-708, 709]: positive and finite for every x."""
    x = -708.0 if x < -708.0 else x
    x = 709.0 if x > 709.0 else x
    # x = n log 2 + r with |r| <= log(2) / 2; log 2 is split so that n times its
    # leading part is exact.
    t = np.float64(x * 1.4426950408889634 + _ROUND)
    n = t - _ROUND
    r = x - n * 6.93145751953125e-1
    r = r - n * 1.42860682030941723212e-6
    # Taylor polynomial of order 12, error below 2e-16 relative; grouped by powers
    # (Estrin) because the processor can work on the groups at the same time.
    r2 = r * r
    r4 = r2 * r2
    p0 = 1.0 + r
    p2 = 0.5 + r * (1.0 / 6.0)
    p4 = 1.0 / 24.0 + r * (1.0 / 120.0)
    p6 = 1.0 / 720.0 + r * (1.0 / 5040.0)
    p8 = 1.0 / 40320.0 + r * (1.0 / 362880.0)
    p10 = 1.0 / 3628800.0 + r * (1.0 / 39916800.0)
    low = p0 + p2 * r2
    middle = p4 + p6 * r2
    high = p8 + p10 * r2
    high = high + r4 * (1.0 / 479001600.0)
    p = low + (middle + high * r4) * r4
    # Times 2^n, written into the exponent bits.
    bits = np.int64((t.view(np.int64) + 1023) << 52)
    return p * bits.view(np.float64)


@kernel
def twice_artanh(t: float) -> float:
    """``2 artanh(t) = log((1 + t) / (1 - t))`` for ``|t| <= 1/3``, to 5e-16 relative.

    An odd Chebyshev series of degree 19.
    """
    q = t * t
    q2 = q * q
    q4 = q2 * q2
    p0 = 2.0 + q * 0.6666666666668293
    p2 = 0.3999999999520132 + q * 0.285714291196586
    p4 = 0.22222190489856594 + q * 0.18182869484380634
    p6 = 0.1536352801798685 + q * 0.13592627469820315
    p8 = 0.0987443270601985 + q * 0.17793495664288614
    low = p0 + p2 * q2
    high = p4 + p6 * q2
    high = high + p8 * q4
    return t * (low + high * q4)


@kernel
def log1p(e: float) -> float:
    """``log(1 + e)`` for 0 <= e <= 1, to 5e-16 relative: all digits of a small e."""
    return twice_artanh(e / (2.0 + e))


@kernel
def log(x: float) -> float:
    """``log(x)`` of a positive normal double; finite but meaningless at 0 and inf.

    Propagates NaN.
    """
    bits = np.float64(x).view(np.int64)
    exponent = np.int64(((bits >> 52) & 2047) | _TWO_52).view(np.float64)
    exponent = exponent - (4503599627370496.0 + 1023.0)
    # x = 2^exponent m with m between sqrt(1/2) and sqrt(2).
    m = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)
    is_large = m > 1.4142135623730951
    m = 0.5 * m if is_large else m
    exponent = exponent + 1.0 if is_large else exponent
    # log m = 2 artanh((m - 1) / (m + 1))
    log_m = twice_artanh((m - 1.0) / (m + 1.0))
    result = exponent * 0.6931471805599453 + log_m
    return result if x == x else x


@kernel
def erfcx(z: float) -> float:
    """``exp(z^2) erfc(z)`` for z >= 0, to 1e-15 relative.

    ``(1 + 2 z) erfcx(z)`` is smooth in ``t = (z - k) / (z + k)``, which maps the half
    line to [-1, 1] [1]_; here by its Chebyshev series of degree 22 with k = 3.75.

    References
    ----------
    .. [1] Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2)
       erfc(x) in 0 <= x < infinity", Mathematics of Computation 36, 1981.
    """
    t = (z - 3.75) / (z + 3.75)
    t2 = t * t
    t4 = t2 * t2
    t8 = t4 * t4
    p0 = 1.2375126308378275 - t * 0.14024059858554525
    p2 = 0.0035854154854790257 + t * 0.08227673848999506
    p4 = -0.10880393014244462 + t * 0.09230432116428125
    p6 = -0.05869339857664934 + t * 0.02836227737211114
    p8 = -0.009746579683265262 + t * 0.0017556261651970652
    p10 = 0.000293714378044958 - t * 0.00029015535246077655
    p12 = 5.164652974177416e-05 + t * 2.2387565714911816e-05
    p14 = -1.1438048033346894e-05 - t * 9.792625707303523e-07
    p16 = 1.7419821586224816e-06 - t * 5.084465378687302e-08
    p18 = -2.4857126248016745e-07 + t * 1.879082322370048e-08
    p20 = 3.197926671666804e-08 - t * 1.9551358868985616e-09
    low = (p0 + p2 * t2) + (p4 + p6 * t2) * t4
    middle = (p8 + p10 * t2) + (p12 + p14 * t2) * t4
    high = (p16 + p18 * t2) + (p20 + -2.623107347133476e-09 * t2) * t4
    series = low + (middle + high * t8) * t8
    return series / (1.0 + 2.0 * z)
