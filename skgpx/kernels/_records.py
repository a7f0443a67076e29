"""What the library knows of each type of kernel: one record per type.

A record is looked up by the exact type. A subclass often has another formula
(``Matern`` is a subclass of ``RBF``), and therefore inherits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._numerics.fourier_index import Box
from skgpx.kernels._spectral_laws import SpectralLaw

Array = NDArray[np.float64]
Pullback = Callable[[Array], Array]
MatrixRule = Callable[[Any, Array, Array | None], tuple[Array, Pullback]]
DiagonalRule = Callable[[Any, Array], tuple[Array, Pullback]]
InputRule = Callable[[Any, Array, Array], tuple[Array, Pullback]]
Sampler = Callable[[Any, int, int, np.random.Generator], Array]
Density = Callable[[Any, Array], tuple[Array, Array]]
Score = Callable[[Any, Array], Array]


class InducingKernels(NamedTuple):
    """Kernel matrices that an objective with inducing points needs.

    Attributes
    ----------
    cross : ndarray of shape (n, m)
        ``k(X, Z)``.
    inducing : ndarray of shape (m, m)
        ``k(Z, Z)``.
    diagonal : ndarray of shape (n,)
        ``k(x_i, x_i)``.
    """

    cross: Array
    inducing: Array
    diagonal: Array


InducingPullback = Callable[[Array, Array, Array], Array]
InducingRule = Callable[[Any, Array, Array], tuple[InducingKernels, InducingPullback]]


class KernelSpectrum(NamedTuple):
    """Eigenvalues of a kernel made periodic, at a list of waves of a box.

    Attributes
    ----------
    values : ndarray of shape (R,)
        ``λ`` of each wave.
    gradients : ndarray of shape (R, p)
        In ``kernel.theta``.
    total : float
        Variance: the sum of the eigenvalues of all functions.
    total_gradient : ndarray of shape (p,)
    """

    values: Array
    gradients: Array
    total: float
    total_gradient: Array


@dataclass(frozen=True)
class KernelRecord:
    """What is known of one type of kernel; None for what is not.

    Attributes
    ----------
    pullback : callable
        ``rule(kernel, X, Y) -> (K, pullback)``; see :func:`register_pullback`.
    diagonal_pullback : callable
        ``rule(kernel, X) -> (diagonal, pullback)``.
    inducing_pullback : callable
        ``rule(kernel, X, Z) -> (InducingKernels, pullback)``, where the three
        matrices share work.
    input_gradient : callable
        ``rule(kernel, X, Z) -> (K, pullback)``; see :func:`register_input_gradient`.
    spectral_law : callable
        ``law(kernel, d)``: the :class:`SpectralLaw` of the frequencies.
    log_spectral_density : callable
        ``(kernel, omega (R, d)) -> (R,)``: logarithm of the density of the
        frequencies, which integrates to one.
    spectral_density : callable
        ``(kernel, omega) -> (S, slopes)``; see :func:`register_spectral_density`.
    spectral_score : callable
        ``(kernel, omega) -> (R, d)``; see :func:`register_spectral_score`.
    box_spectrum : callable
        ``(kernel, omega, box) -> KernelSpectrum``, where the eigenvalues on a box
        differ from the spectral density divided by the volume.
    radial_code : callable
        ``(kernel) -> (code, parameter)`` of the compiled loops of
        :mod:`skgpx._numerics.radial`, or None.
    """

    pullback: MatrixRule | None = None
    diagonal_pullback: DiagonalRule | None = None
    inducing_pullback: InducingRule | None = None
    input_gradient: InputRule | None = None
    spectral_law: Callable[[Any, int], SpectralLaw] | None = None
    log_spectral_density: Callable[[Any, Array], Array] | None = None
    spectral_density: Density | None = None
    spectral_score: Score | None = None
    box_spectrum: Callable[[Any, Array, Box], KernelSpectrum] | None = None
    radial_code: Callable[[Any], tuple[int, float] | None] | None = None


_RECORDS: dict[type, KernelRecord] = {}
_NOTHING = KernelRecord()


def record_of(kernel: Any) -> KernelRecord:
    """Return the record of the kernel's exact type; an empty one if there is none."""
    return _RECORDS.get(type(kernel), _NOTHING)


def fill_record(kernel_type: type, **fields: Any) -> None:
    """Set fields of the record of a type, and keep the others.

    What belongs to an earlier density does not hold for another one.
    """
    check_kernel_type(kernel_type)
    if "spectral_density" in fields:
        known = _RECORDS.get(kernel_type, _NOTHING)
        stale = ["log_spectral_density", "box_spectrum"]
        if known.spectral_density is not None:
            stale.append("spectral_score")
        fields = dict.fromkeys(stale) | fields
    _RECORDS[kernel_type] = replace(_RECORDS.get(kernel_type, _NOTHING), **fields)


def check_kernel_type(kernel_type: Any) -> None:
    """Refuse everything but classes of kernels."""
    if not (isinstance(kernel_type, type) and issubclass(kernel_type, Kernel)):
        raise ValueError(
            "What is known of a kernel is registered for its class, a subclass of "
            f"sklearn.gaussian_process.kernels.Kernel; got {kernel_type!r}. Pass the "
            "class, as in register_kernel(YourKernel, ...), not an instance."
        )


def no_sampler(part: Any, whole: Any, reason: str = "") -> ValueError:
    """Build the error for a part of a kernel that has no spectral features."""
    name = type(part).__name__
    where = "" if part is whole else f", a part of {whole!r}"
    return ValueError(
        f"{part!r}{where} has no spectral sampler{reason}. Give it one with "
        f"skgpx.bases.register_spectral_sampler({name}, sampler) if it is stationary, "
        'or draw with prior="exact", whose cost grows with the cube of the number of '
        "distinct points at which the draws are evaluated."
    )
