"""Factorisations and triangular solves in place, which other threads need not wait for.

SciPy's own wrappers hold the interpreter's lock for as long as LAPACK computes: blocks
that are dealt out to threads would wait for one another. SciPy exports the same
routines to compiled callers, and a call of these through ctypes releases the lock.

Matrices are row-major: their lower triangle is the upper one in Fortran's order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

from skgpx._numerics.blas_threads import threads_for

Array = NDArray[np.float64]

_signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
# "int *" among the arguments, but for a SciPy that was built with 64-bit integers
_Integer: Any = (
    ctypes.c_int
    if b"int *" in _signature(cython_lapack.__pyx_capi__["dpotrf"])
    else ctypes.c_int64
)
_ZERO, _ONE, _MINUS_ONE = (ctypes.byref(ctypes.c_double(v)) for v in (0.0, 1.0, -1.0))
_STEP = ctypes.byref(_Integer(1))
# Order up to which LAPACK's own loops are faster than products of halves.
_LEAF = 64


def _routine(module: Any, name: str, n_arguments: int) -> Callable[..., None]:
    """A routine without a result, all arguments of which are addresses."""
    capsule = module.__pyx_capi__[name]
    address = _address(capsule, _signature(capsule))
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)
    function: Callable[..., None] = kind(address)
    return function


_potrf = _routine(cython_lapack, "dpotrf", 5)
_potri = _routine(cython_lapack, "dpotri", 5)
_trtri = _routine(cython_lapack, "dtrtri", 6)
_lauum = _routine(cython_lapack, "dlauum", 5)
_syrk = _routine(cython_blas, "dsyrk", 10)
_trmm = _routine(cython_blas, "dtrmm", 11)
_trsm = _routine(cython_blas, "dtrsm", 11)
_trsv = _routine(cython_blas, "dtrsv", 8)


def factorise(A: Array) -> bool:
    """Overwrite the lower triangle by its Cholesky factor, whatever is above it.

    Parameters
    ----------
    A : ndarray of shape (m, m), C-contiguous
        Lower triangle of a symmetric matrix.

    Returns
    -------
    positive : bool
        False, and A is worthless, if the matrix is not positive definite.

    Notes
    -----
    O(m^3 / 3).
    """
    return _on_square(_potrf, A)


def invert_factorised(L: Array) -> bool:
    """Overwrite a lower factor by the lower triangle of ``(L Lᵀ)⁻¹``; O(2 m^3 / 3).

    Returns
    -------
    regular : bool
        False, and L is worthless, if a diagonal entry is zero.
    """
    return _on_square(_potri, L)


def invert_triangle(L: Array) -> bool:
    """Overwrite a lower triangle by its inverse; O(m^3 / 3).

    Returns
    -------
    regular : bool
        False if a diagonal entry is zero.
    """
    return _on_square(_trtri, L, b"N")


def square_triangle(L: Array) -> None:
    """Overwrite a lower triangle by that of ``LᵀL``; O(m^3 / 3)."""
    _on_square(_lauum, L)


def add_gram(rows: Array, gram: Array, fresh: bool) -> None:
    """Add ``A Aᵀ`` to the lower triangle of a matrix, or write it if that is fresh.

    Parameters
    ----------
    rows : ndarray of shape (m, n), C-contiguous
        A.
    gram : ndarray of shape (m, m), C-contiguous
    fresh : bool

    Notes
    -----
    Half the work of a product, n m², without the copy of one triangle to the other.
    """
    m, n = (ctypes.byref(_Integer(size)) for size in rows.shape)
    lead = ctypes.byref(_Integer(max(rows.shape[1], 1)))
    before = _ZERO if fresh else _ONE
    with threads_for(len(rows)):
        _syrk(
            b"U", b"T", m, n, _ONE, rows.ctypes.data, lead, before, gram.ctypes.data, m
        )


def invert_root(A: Array) -> bool:
    """Overwrite a lower triangle by ``L⁻¹``, where ``A = L Lᵀ``; O(2 m^3 / 3).

    By halves, ``L₂₁ = A₂₁ L₁₁⁻ᵀ`` and ``(L⁻¹)₂₁ = -L₂₂⁻¹ L₂₁ L₁₁⁻¹``: products with
    triangles take half the time of solves, and blocks within LAPACK are small.

    Returns
    -------
    positive : bool
        False, and A is worthless, if the matrix is not positive definite.
    """
    with threads_for(len(A)):
        return _invert_root(A.ctypes.data, len(A), max(len(A), 1))


def _invert_root(address: int, m: int, order: int) -> bool:
    size, lead, info = _Integer(m), ctypes.byref(_Integer(order)), _Integer(0)
    if m <= _LEAF:
        matrix = ctypes.byref(size), address, lead, ctypes.byref(info)
        _potrf(b"U", *matrix)
        if info.value == 0:
            _trtri(b"U", b"N", *matrix)
        return info.value == 0
    half = m // 2
    below = address + 8 * half * order
    last = below + 8 * half
    sizes = ctypes.byref(_Integer(half)), ctypes.byref(_Integer(m - half))
    block = b"N", *sizes
    if not _invert_root(address, half, order):
        return False
    _trmm(b"L", b"U", b"T", *block, _ONE, address, lead, below, lead)
    _syrk(b"U", b"T", *sizes[::-1], _MINUS_ONE, below, lead, _ONE, last, lead)
    if not _invert_root(last, m - half, order):
        return False
    _trmm(b"L", b"U", b"N", *block, _MINUS_ONE, address, lead, below, lead)
    _trmm(b"R", b"U", b"N", *block, _ONE, last, lead, below, lead)
    return True


def _on_square(routine: Callable[..., None], A: Array, *more: bytes) -> bool:
    size, info = _Integer(len(A)), _Integer(0)
    order = ctypes.byref(_Integer(max(len(A), 1)))
    matrix = ctypes.byref(size), A.ctypes.data, order, ctypes.byref(info)
    with threads_for(len(A)):
        routine(b"U", *more, *matrix)
    return info.value == 0


def solve_triangle(L: Array, B: Array, transposed: bool) -> None:
    """Overwrite B by ``L⁻¹ B``, or by ``L⁻ᵀ B``.

    Parameters
    ----------
    L : ndarray of shape (m, m), C-contiguous
        Lower triangular, its diagonal without zeros; what is above is not read.
    B : ndarray of shape (m,) or (m, k), contiguous in either order
    transposed : bool

    Notes
    -----
    O(m^2 k).
    """
    order = ctypes.byref(_Integer(len(L)))
    operator = b"N" if transposed else b"T"
    if B.ndim == 1:
        _trsv(b"U", operator, b"N", order, L.ctypes.data, order, B.ctypes.data, _STEP)
        return
    m, k = (ctypes.byref(_Integer(size)) for size in B.shape)
    side, sizes, lead = b"L", (m, k), m
    if not B.flags.f_contiguous:
        # Bᵀ in Fortran's order: X L⁻ᵀ from the right, transposed
        side, sizes, lead = b"R", (k, m), k
        operator = b"T" if transposed else b"N"
    matrices = L.ctypes.data, order, B.ctypes.data, lead
    with threads_for(len(L)):
        _trsm(side, b"U", operator, b"N", *sizes, _ONE, *matrices)
