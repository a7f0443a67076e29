"""Registration of what is known of your own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skgpx.kernels._records import (
    Density,
    DiagonalRule,
    InputRule,
    MatrixRule,
    Sampler,
    Score,
    check_kernel_type,
    fill_record,
)
from skgpx.kernels._spectral_laws import SampledLaw, SpectralLaw


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
    """Register everything that is known of your kernel, in one call.

    Everything is optional. What is left out is unchanged, and subclasses inherit
    nothing, since they often have other formulas.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    pullback : callable, optional
        Faster gradients of kernel matrices in the hyperparameters; see
        :func:`register_pullback`.
    diagonal_pullback : callable, optional
        The same for their diagonals; see :func:`register_diagonal_pullback`.
    input_gradient : callable, optional
        Gradients in the inputs, which gradients of drawn functions need; see
        :func:`register_input_gradient`.
    spectral_sampler : callable, optional
        Fourier features; see :func:`register_spectral_sampler`.
    spectral_density : callable, optional
        Fourier functions on a box; see :func:`register_spectral_density`.
    spectral_score : callable, optional
        Gradient of the logarithm of the density in the frequency; see
        :func:`register_spectral_score`.

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
    given = {
        "pullback": pullback,
        "diagonal_pullback": diagonal_pullback,
        "input_gradient": input_gradient,
        "spectral_density": spectral_density,
        "spectral_score": spectral_score,
    }
    fields: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    for name, value in (*fields.items(), ("spectral_sampler", spectral_sampler)):
        if value is not None:
            _check_callable(name, value)
    if spectral_sampler is not None:
        fields["spectral_law"] = _sampled_law(spectral_sampler)
    fill_record(kernel_type, **fields)


def register_pullback(*kernel_types: type) -> Callable[[MatrixRule], MatrixRule]:
    """Register ``rule(kernel, X, Y) -> (K, pullback)`` for these exact types.

    Without a rule, scikit-learn's ``eval_gradient`` is used in blocks, which is slower.

    Parameters
    ----------
    *kernel_types : type
        Classes of kernels. Exact, because a subclass (as ``Matern`` is one of
        ``RBF``) has another formula.

    Returns
    -------
    decorator : callable
        For the rule. Its ``pullback(G)`` returns ``Σ_ij G_ij dK_ij / dtheta``, shape
        (n_theta,), and must treat G as read-only. ``Y`` is None for ``k(X, X)``. K may
        be any array that broadcasts to (n, m).

    Raises
    ------
    ValueError
        If a type is not a class of kernels, or the rule is not callable.
    """
    return _decorator("pullback", kernel_types)


def register_diagonal_pullback(
    *kernel_types: type,
) -> Callable[[DiagonalRule], DiagonalRule]:
    """Register ``rule(kernel, X) -> (diagonal, pullback)`` for these exact types.

    ``pullback(g)`` returns ``Σ_i g_i dk(x_i, x_i) / dtheta``, shape (n_theta,). Errors
    as in :func:`register_pullback`.

    Parameters
    ----------
    *kernel_types : type
        Exact types, not their subclasses.
    """
    return _decorator("diagonal_pullback", kernel_types)


def register_input_gradient(*kernel_types: type) -> Callable[[InputRule], InputRule]:
    """Register ``rule(kernel, X, Z) -> (K, pullback)`` for these exact types.

    ``K`` is ``kernel(X, Z)`` (n, m), and ``pullback(G)`` maps (n, m) to the (n, d)
    array ``Σ_j G_ij ∇ₓ k(x_i, z_j)``. Errors as in :func:`register_pullback`.

    Parameters
    ----------
    *kernel_types : type
        Exact types, not their subclasses.
    """
    return _decorator("input_gradient", kernel_types)


def register_spectral_sampler(kernel_type: type, sampler: Sampler) -> None:
    """Register a sampler of the spectral density of your own stationary kernel.

    Registration is by exact type: a subclass has another density (``Matern`` is a
    subclass of ``RBF``), and does not inherit the sampler.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    sampler : callable
        ``sampler(kernel, n_frequencies, d, rng)`` returns angular frequencies of
        shape (n_frequencies, d), in radians per unit of the input, such that
        ``k(x, y) / k(x, x) = E[cos(ω·(x - y))]``; ``rng`` is a
        `numpy.random.Generator`.

    Raises
    ------
    ValueError
        If the type is not a class of kernels, or the sampler is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import register_spectral_sampler, sample_frequencies
    >>> class Wave(RBF):
    ...     "A kernel of one wavelength."
    ...     def __call__(self, X, Y=None, eval_gradient=False):
    ...         return np.cos(np.subtract.outer(X[:, 0], (X if Y is None else Y)[:, 0]))
    >>> register_spectral_sampler(Wave, lambda kernel, n, d, rng: np.ones((n, d)))
    >>> sample_frequencies(Wave(), 2, 1, np.random.default_rng(0)).frequencies
    array([[1.],
           [1.]])
    """
    _check_callable("spectral_sampler", sampler)
    fill_record(kernel_type, spectral_law=_sampled_law(sampler))


def register_spectral_density(kernel_type: type, density: Density) -> None:
    """Register the spectral density of your own stationary kernel.

    The kernel can then be used with Fourier functions on a box. Registration is by
    exact type, as in :func:`register_spectral_sampler`.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    density : callable
        ``density(kernel, omega)`` returns ``S(ω) = ∫ k(r) cos(ω·r) dr`` at angular
        frequencies omega (R, d), shape (R,), and its derivatives in ``kernel.theta``,
        shape (R, p). S must not increase with any ``|ω_i|``.

    Raises
    ------
    ValueError
        If the type is not a class of kernels, or the density is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Box, KernelEigenvalues, register_spectral_density
    >>> class Bell(RBF):
    ...     "A kernel of one lengthscale, which is fixed."
    >>> def density(kernel, omega):
    ...     S = np.sqrt(2 * np.pi) * np.exp(-0.5 * omega[:, 0] ** 2)
    ...     return S, np.empty((len(S), 0))
    >>> register_spectral_density(Bell, density)
    >>> box = Box(np.zeros(1), np.full(1, 9.0))
    >>> rule = KernelEigenvalues(Bell(1.0, "fixed"))
    >>> rule.spectrum(rule.index(box, 3), box).eigenvalues.round(3)
    array([0.279, 0.218, 0.218])
    """
    register_kernel(kernel_type, spectral_density=density)


def register_spectral_score(kernel_type: type, score: Score) -> None:
    """Register the gradient of the logarithm of your kernel's spectral density.

    Registration is by exact type, as in :func:`register_spectral_sampler`.

    Parameters
    ----------
    kernel_type : type
        Class of the kernel.
    score : callable
        ``score(kernel, omega)`` returns ``∇ log S(ω)`` at angular frequencies omega
        (R, d), shape (R, d).

    Raises
    ------
    ValueError
        If the type is not a class of kernels, or the score is not callable.
    """
    register_kernel(kernel_type, spectral_score=score)


def _sampled_law(sampler: Sampler) -> Callable[[Any, int], SpectralLaw]:
    return lambda kernel, d: SampledLaw(kernel, sampler, d)


def _decorator(field: str, kernel_types: tuple[type, ...]) -> Callable[[Any], Any]:
    """Decorator that puts a rule into the records of some types."""
    if not kernel_types:
        raise ValueError(
            f"register_{field} expects at least one class of kernels; got none. Use "
            f"it as @register_{field}(YourKernel)."
        )
    for kernel_type in kernel_types:
        check_kernel_type(kernel_type)

    def enrol(rule: Any) -> Any:
        _check_callable(field, rule)
        for kernel_type in kernel_types:
            fill_record(kernel_type, **{field: rule})
        return rule

    return enrol


def _check_callable(name: str, value: Any) -> None:
    if not callable(value):
        raise ValueError(f"{name} must be a function; got {value!r}.")
