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
from skgpx.kernels._spectral_distributions import (
    SampledDistribution,
    SpectralDistribution,
)

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
        ``rule(kernel, X, Y) -> (K, pullback)``; see :func:`register_kernel`.
    diagonal_pullback : callable
        ``rule(kernel, X) -> (diagonal, pullback)``.
    inducing_pullback : callable
        ``rule(kernel, X, Z) -> (InducingKernels, pullback)``, where the three
        matrices share work.
    input_gradient : callable
        ``rule(kernel, X, Z) -> (K, pullback)``.
    spectral_distribution : callable
        ``rule(kernel, d)``: the :class:`SpectralDistribution` of the frequencies.
    log_spectral_density : callable
        ``(kernel, omega (R, d)) -> (R,)``: logarithm of the density of the
        frequencies, which integrates to one.
    spectral_density : callable
        ``(kernel, omega) -> (S, slopes)``.
    spectral_score : callable
        ``(kernel, omega) -> (R, d)``.
    box_spectrum : callable
        ``(kernel, omega, box) -> KernelSpectrum``, where the eigenvalues on a box
        differ from the spectral density divided by the volume.
    radial_code : callable
        ``(kernel) -> code`` of the compiled loops of :mod:`skgpx._numerics.radial`,
        or None.
    """

    pullback: MatrixRule | None = None
    diagonal_pullback: DiagonalRule | None = None
    inducing_pullback: InducingRule | None = None
    input_gradient: InputRule | None = None
    spectral_distribution: Callable[[Any, int], SpectralDistribution] | None = None
    log_spectral_density: Callable[[Any, Array], Array] | None = None
    spectral_density: Density | None = None
    spectral_score: Score | None = None
    box_spectrum: Callable[[Any, Array, Box], KernelSpectrum] | None = None
    radial_code: Callable[[Any], int | None] | None = None


_RECORDS: dict[type, KernelRecord] = {}
_NOTHING = KernelRecord()


def record_of(kernel: Any) -> KernelRecord:
    """Return the record of the kernel's exact type; an empty one if there is none."""
    return _RECORDS.get(type(kernel), _NOTHING)


def fill_record(kernel_type: type, **fields: Any) -> None:
    """Set fields of the record of a type, and keep the others.

    What belongs to an earlier density does not hold for another one.
    """
    if not (isinstance(kernel_type, type) and issubclass(kernel_type, Kernel)):
        raise ValueError(
            "What is known of a kernel is registered for its class, a subclass of "
            f"sklearn.gaussian_process.kernels.Kernel; got {kernel_type!r}. Pass the "
            "class, as in register_kernel(YourKernel, ...), not an instance."
        )
    if "spectral_density" in fields:
        known = _RECORDS.get(kernel_type, _NOTHING)
        stale = ["log_spectral_density", "box_spectrum"]
        if known.spectral_density is not None:
            stale.append("spectral_score")
        fields = dict.fromkeys(stale) | fields
    _RECORDS[kernel_type] = replace(_RECORDS.get(kernel_type, _NOTHING), **fields)


def register_kernel(
    kernel_type: type,
    *,
    pullback: MatrixRule | None = None,
    diagonal_pullback: DiagonalRule | None = None,
    input_gradient: InputRule | None = None,
    spectral_sampler: Sampler | None = None,
    spectral_density: Density | None = None,
    spectral_score: Score | None = None,
) -> None:
    """Register what is known of a kernel of your own.

    Everything is optional. What is left out is unchanged. Registration is for the
    exact type: subclasses often have other formulas, and inherit nothing.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    pullback : callable, optional
        Faster gradients of kernel matrices in the hyperparameters: ``rule(kernel, X,
        Y) -> (K, pullback)``, where ``pullback(G)`` is ``Σ_ij G_ij dK_ij / dtheta``,
        shape (n_theta,), and leaves G unchanged. ``Y`` is None for ``k(X, X)``; K may
        be any array that broadcasts to (n, m). Without a rule scikit-learn's
        ``eval_gradient`` is used in blocks.
    diagonal_pullback : callable, optional
        The same for diagonals: ``rule(kernel, X) -> (diagonal, pullback)``.
    input_gradient : callable, optional
        For gradients of drawn functions: ``rule(kernel, X, Z) -> (K, pullback)``, where
        ``pullback(G)`` maps (n, m) to ``Σ_j G_ij ∇ₓ k(x_i, z_j)``, shape (n, d).
    spectral_sampler : callable, optional
        For Fourier features: ``sampler(kernel, n_frequencies, d, rng)`` returns angular
        frequencies (n_frequencies, d), in radians per unit of the input, with
        ``k(x, y) / k(x, x) = E[cos(ω·(x - y))]``.
    spectral_density : callable, optional
        For Fourier functions on a box: ``density(kernel, omega)`` returns
        ``S(ω) = ∫ k(r) cos(ω·r) dr`` at angular frequencies omega (R, d), shape (R,),
        and its derivatives in ``kernel.theta``, shape (R, p). S must not increase with
        any ``|ω_i|``.
    spectral_score : callable, optional
        For Stein features: ``score(kernel, omega)`` returns ``∇ log S(ω)``, (R, d).

    Raises
    ------
    ValueError
        If the type is not a class of kernels, or something else is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import sample_frequencies
    >>> from skgpx.kernels import diagonal_and_pullback, register_kernel
    >>> class Wave(RBF):
    ...     "cos(x - y), without hyperparameters."
    ...     def __call__(self, X, Y=None, eval_gradient=False):
    ...         return np.cos(np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0]))
    >>> register_kernel(
    ...     Wave,
    ...     diagonal_pullback=lambda k, X: (np.ones(len(X)), lambda g: np.empty(0)),
    ...     spectral_sampler=lambda k, n, d, rng: np.ones((n, d)),
    ... )
    >>> wave = Wave(1.0, "fixed")
    >>> diagonal_and_pullback(wave, np.zeros((2, 1)))[0]
    array([1., 1.])
    >>> sample_frequencies(wave, 2, 1, np.random.default_rng(0)).amplitudes.round(3)
    array([0.707, 0.707])
    """
    given: dict[str, Any] = {
        "pullback": pullback,
        "diagonal_pullback": diagonal_pullback,
        "input_gradient": input_gradient,
        "spectral_distribution": spectral_sampler,
        "spectral_density": spectral_density,
        "spectral_score": spectral_score,
    }
    fields = {name: rule for name, rule in given.items() if rule is not None}
    for name, rule in fields.items():
        if not callable(rule):
            name = name.replace("distribution", "sampler")
            raise ValueError(f"{name} must be a function; got {rule!r}.")
    if spectral_sampler is not None:
        fields["spectral_distribution"] = lambda k, d: SampledDistribution(
            k, spectral_sampler, d
        )
    fill_record(kernel_type, **fields)


def no_sampler(part: Any, whole: Any, reason: str = "") -> ValueError:
    """Build the error for a part of a kernel that has no spectral features."""
    name = type(part).__name__
    where = "" if part is whole else f", a part of {whole!r}"
    return ValueError(
        f"{part!r}{where} has no spectral sampler{reason}. Give it one with "
        f"skgpx.kernels.register_kernel({name}, spectral_sampler=...) if stationary, "
        'or draw with prior="exact", whose cost grows with the cube of the number of '
        "distinct points at which the draws are evaluated."
    )
