"""Cosines and sines of all multiples of some angles, and sums over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel
from skgpx._numerics.trigonometry import cos_turns

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@kernel
def multiple_angles(turns: Array, out: Array) -> None:
    """Write cos and sin of 0, 1, ..., R times the angles, one multiple per row.

    Parameters
    ----------
    turns : ndarray of shape (n,)
        Angles.
    out : ndarray of shape (2, R + 1, n), C-contiguous
        Out: cosines and sines. Errors grow like the multiple times 4e-16.
    """
    n, R = turns.size, out.shape[1] - 1
    for i in range(n):
        out[0, 0, i] = 1.0
        out[1, 0, i] = 0.0
    if R:
        for i in range(n):
            out[0, 1, i] = cos_turns(turns[i])
            # more accurate than the sine, which every multiple inherits
            out[1, 1, i] = cos_turns(turns[i] - 0.25)
    for k in range(2, R + 1):
        # exp(ik) = exp(ia) exp(ib) with a + b = k, a and b about half
        a, b = k // 2, k - k // 2
        ca, sa, cb, sb = out[0, a], out[1, a], out[0, b], out[1, b]
        c, s = out[0, k], out[1, k]
        for i in range(n):
            c[i] = ca[i] * cb[i] - sa[i] * sb[i]
            s[i] = sa[i] * cb[i] + ca[i] * sb[i]


def angle_tables(
    turns: Array, reach: Sequence[int]
) -> Iterator[tuple[slice, list[Array]]]:
    """Tables of multiple angles of each input, for blocks of rows.

    Parameters
    ----------
    turns : ndarray of shape (n, d)
    reach : sequence of d int
        Largest multiple of each input.

    Yields
    ------
    rows : slice
    tables : list of d ndarrays of shape (2, reach_j + 1, b)
        Overwritten by the next block. Always whole blocks, so that no row depends on
        the others; in the last one only the first columns belong to rows.
    """
    # whole vectors, and few enough that the tables stay in the second-level cache
    rows = (1 << 15) // sum(r + 1 for r in reach)
    rows = max(32, min(256, rows // 32 * 32))
    tables = [np.zeros((2, r + 1, rows)) for r in reach]
    angles = np.zeros((len(reach), rows))
    for start in range(0, len(turns), rows):
        block = turns[start : start + rows]
        angles[:, : len(block)] = block.T
        for angle, table in zip(angles, tables, strict=True):
            multiple_angles(angle, table)
        yield slice(start, start + len(block)), tables


def row_products(tables: Sequence[Array]) -> Array:
    """All products of one row of each table, shape (product of heights, b)."""
    product = tables[0]
    for table in tables[1:]:
        product = (product[:, np.newaxis] * table).reshape(-1, table.shape[-1])
    return product


def from_real(values: Array, reach: Sequence[int]) -> Complex:
    """Sums of complex waves from sums of products of cosines and sines.

    Parameters
    ----------
    values : ndarray of Π 2 (reach_j + 1) numbers
        One axis ``(cos or sin, multiple)`` for each input.
    reach : sequence of d int

    Returns
    -------
    sums : ndarray of shape (2 reach_1 + 1, ..., 2 reach_d + 1)
    """
    shape = [size for r in reach for size in (2, r + 1)]
    sums: Complex = np.asarray(values, np.complex128).reshape(shape)
    for j in range(len(reach)):
        # axis j holds cos and sin, axis j + 1 the multiples
        parts = np.moveaxis(sums, j, 0)
        positive, negative = parts[0] + 1j * parts[1], parts[0] - 1j * parts[1]
        upper = np.moveaxis(positive, j, 0)
        lower = np.moveaxis(negative, j, 0)[:0:-1]
        sums = np.moveaxis(np.concatenate((lower, upper)), 0, j)
    return sums


def to_real(values: Complex) -> Array:
    """Coefficients of products of cosines and sines of ``Re Σ_q v_q exp(iq·)``.

    The adjoint of :func:`from_real`: ``(2, R_1 + 1, ..., 2, R_d + 1)`` numbers.
    """
    d = values.ndim
    for j in range(d):
        axis = 2 * j
        moved = np.moveaxis(values, axis, 0)
        R = len(moved) // 2
        upper, lower = moved[R:], moved[R::-1]
        # v exp(iq) + v' exp(-iq) = (v + v') cos q + i (v - v') sin q
        cosine, sine = upper + lower, 1j * (upper - lower)
        cosine[0] *= 0.5
        both = np.stack((cosine, sine))
        values = np.moveaxis(both, (0, 1), (axis, axis + 1))
    real: Array = np.ascontiguousarray(values.real)
    return real
