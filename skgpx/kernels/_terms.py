"""Kernels as sums of terms, their lengthscales and noise, and the default kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from skgpx._numerics.rows import InputFrame
from skgpx.kernels._columns import CategoricalKernel, Columns
from skgpx.kernels._linear import Linear

Array = NDArray[np.float64]
Bounds = tuple[float, float] | Array | str

# ---- A composite kernel as a sum of products of simple ones --------------------------


class Monomial(NamedTuple):
    """``coefficient`` times the product of ``factors``, none a sum or product."""

    coefficient: float
    factors: tuple[Any, ...]


def expand(kernel: Any) -> list[Monomial]:
    """Write a kernel as a sum of products: constants, sums, products and powers.

    Only these exact scikit-learn types, also inside of Columns, are expanded; any other
    kernel, and a power whose exponent is not a positive integer, is one factor.

    Raises
    ------
    ValueError
        If there are more than 64 terms or factors of one term.
    """
    if type(kernel) is ConstantKernel:
        return [Monomial(float(kernel.constant_value), ())]
    if type(kernel) is Sum:
        terms = expand(kernel.k1) + expand(kernel.k2)
    elif type(kernel) is Product:
        terms = [
            Monomial(a.coefficient * b.coefficient, a.factors + b.factors)
            for a, b in product(expand(kernel.k1), expand(kernel.k2))
        ]
    elif type(kernel) is Columns:
        terms = [
            Monomial(a, tuple(Columns(factor, kernel.columns) for factor in factors))
            for a, factors in expand(kernel.kernel)
        ]
    elif type(kernel) is Exponentiation and kernel.exponent in range(1, 65):
        power = [kernel.kernel] * int(kernel.exponent)
        terms = expand(power[0] if len(power) == 1 else reduce(Product, power))
    else:
        return [Monomial(1.0, (kernel,))]
    longest = max(len(term.factors) for term in terms)
    if max(len(terms), longest) > 64:
        raise ValueError(
            f"{kernel!r} expands into {len(terms)} terms of up to {longest} factors; "
            'at most 64 are supported. Simplify it, or use prior="exact".'
        )
    return terms


# Hyperparameters that are amplitudes, and the power of the kernel's variance they have.
_AMPLITUDES = {ConstantKernel: ("constant_value", 1.0), Linear: ("slope", 0.5)}


def rescaled(kernel: Any, factor: float) -> Any:
    """``factor * kernel``, as other values of its free amplitudes.

    None unless every term has a ConstantKernel or a Linear kernel that is not fixed.
    """
    kind = type(kernel)
    if kind in _AMPLITUDES:
        name, power = _AMPLITUDES[kind]
        if getattr(kernel, f"hyperparameter_{name}").fixed:
            return None
        # a user may have given a list
        value = np.multiply(factor**power, getattr(kernel, name))[()]
        return clone(kernel).set_params(**{name: value})
    if kind not in (Sum, Product, Columns):
        return None
    inner = kernel.get_params(deep=False).items()
    parts = {k: rescaled(v, factor) for k, v in inner if isinstance(v, Kernel)}
    free = [(name, part) for name, part in parts.items() if part is not None]
    if not free or (kind is Sum and len(free) < len(parts)):
        return None
    return clone(kernel).set_params(**dict(free[:1] if kind is Product else free))


def additive_terms(kernel: Any, n_features: int) -> dict[tuple[int, ...], Any]:
    """Parts of a kernel by the columns that they see; constants are left out."""
    terms: dict[tuple[int, ...], Any] = {}
    for coefficient, factors in expand(kernel):
        every = np.arange(n_features)
        seen = [k.indices(n_features) if type(k) is Columns else every for k in factors]
        columns = tuple(np.unique(np.concatenate([every[:0], *seen])).tolist())
        term = reduce(Product, factors, ConstantKernel(coefficient))
        terms[columns] = terms[columns] + term if columns in terms else term
    return {columns: term for columns, term in terms.items() if columns}


def decays(kernel: Any, n_features: int) -> bool:
    """Whether correlations fade with the distance in every column, for every term.

    Nearest rows then know what far ones do: not of trends, cycles or additive models.
    """
    return decaying_part(kernel, n_features) is kernel


def decaying_part(kernel: Any, n_features: int) -> Any:
    """Sum of the terms whose correlations fade with the distance in every column.

    The kernel itself if all do, None if none does.
    """
    terms = expand(kernel)
    decaying = [one for one in terms if _fades(one.factors, n_features)]
    if len(decaying) == len(terms):
        return kernel
    parts = [
        reduce(Product, one.factors, ConstantKernel(one.coefficient))
        for one in decaying
    ]
    return reduce(Sum, parts) if parts else None


def _fades(factors: tuple[Any, ...], n_features: int) -> bool:
    """Whether a product of kernels fades with the distance in every column."""
    far: set[int] = set()
    for k in factors:
        columns, inner = np.arange(n_features), k
        if type(k) is Columns:
            columns, inner = k.indices(n_features), k.kernel
        if type(inner) not in (RBF, Matern, RationalQuadratic, CategoricalKernel):
            return False
        far.update(columns.tolist())
    return len(far) == n_features


def _summands(kernel: Any) -> list[Any]:
    """Terms of a sum of kernels, however nested; the kernel itself if not a sum."""
    if type(kernel) is not Sum:
        return [kernel]
    return _summands(kernel.k1) + _summands(kernel.k2)


# ---- Lengthscales of composite kernels, and their positions in theta -----------------


def parts_with(name: str, kernel: Any, columns: Any) -> Iterator[tuple[Any, Any]]:
    """Kernels inside a kernel (itself included) with this attribute, and their columns.

    Looks into sums, products, powers, compounds, GREKernels and Columns.
    """
    if hasattr(kernel, name):
        yield kernel, columns
    if type(kernel) is Columns:
        columns = columns[kernel.indices(len(columns))]
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    for part in (*parts, *getattr(kernel, "kernels", ())):
        if part is not None:
            yield from parts_with(name, part, columns)


def length_scales(kernel: Any, n_features: int) -> Array:
    """Lengthscale of each column in the first part that has one for it, shape (d,).

    Ones for columns without any.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int
        Number d of inputs.
    """
    scales = np.full(n_features, np.nan)
    for part, columns in parts_with("length_scale", kernel, np.arange(n_features)):
        new = columns[np.isnan(scales[columns])]
        scale = np.asarray(part.length_scale, dtype=np.float64)
        of_part = np.full(n_features, np.nan)
        of_part[columns] = scale
        scales[new] = of_part[new]
    return np.where(np.isnan(scales), 1.0, scales)


def longest_length_scales(kernel: Any, n_features: int) -> Array:
    """Largest lengthscale of each input over all parts, (d,); zeros if none has any."""
    longest = np.zeros(n_features)
    for part, columns in parts_with("length_scale", kernel, np.arange(n_features)):
        longest[columns] = np.maximum(longest[columns], part.length_scale)
    return longest


def category_columns(kernel: Any, n_features: int) -> list[int]:
    """Columns that kernels of categories see."""
    parts = parts_with("n_categories", kernel, np.arange(n_features))
    return sorted({int(column) for _, columns in parts for column in columns})


def columns_of_entry(kernel: Any, name: str, n_features: int) -> NDArray[np.intp]:
    """Columns that a hyperparameter of this name belongs to."""
    columns = np.arange(n_features)
    for step in name.split("__"):
        if type(kernel) is Columns:
            columns = columns[kernel.indices(len(columns))]
        # a compound numbers its parts
        kernel = kernel.kernels[int(step)] if step.isdigit() else getattr(kernel, step)
    return columns


def theta_entries(kernel: Any) -> Iterator[tuple[str, slice]]:
    """Names of the free hyperparameters, and their entries of theta."""
    start = 0
    for parameter in kernel.hyperparameters:
        if not parameter.fixed:
            yield parameter.name, slice(start, start + parameter.n_elements)
            start += parameter.n_elements


def length_scale_entries(kernel: Any) -> list[slice]:
    """Entries of theta that are lengthscales, one slice for each part of the kernel."""
    entries = theta_entries(kernel)
    return [part for name, part in entries if name.endswith("length_scale")]


# ---- The latent part of a kernel and its white noise, wherever it is in the kernel ---


def latent_kernel(kernel: Any) -> Any:
    """Covariance of the latent function: the kernel without its white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With any number of WhiteKernels, in sums, products and powers.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Kernel
        ``k(X, Z)`` for every X and Z, even where rows are equal; the constant 0 if
        the kernel is noise only. The same object if there is no noise.
    """
    latent = _without_noise(kernel)
    return ConstantKernel(0.0, "fixed") if latent is None else latent


def noise_variance(kernel: Any, X: Array) -> Array:
    """Variance that the WhiteKernels in a kernel add at the rows of X, shape (n,).

    ``kernel.diag(X) - latent_kernel(kernel).diag(X)``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    """
    if isinstance(kernel, WhiteKernel):
        return np.full(len(X), float(kernel.noise_level))
    if isinstance(kernel, Sum):
        return noise_variance(kernel.k1, X) + noise_variance(kernel.k2, X)
    latent = latent_kernel(kernel)
    if latent is kernel:
        return np.zeros(len(X))
    difference: Array = kernel.diag(X) - latent.diag(X)
    return difference


def _without_noise(kernel: Any) -> Any:
    """Return the kernel without its noise; None for noise alone."""
    if isinstance(kernel, WhiteKernel):
        return None
    if isinstance(kernel, Exponentiation):
        base = _without_noise(kernel.kernel)
        if base is kernel.kernel or base is None:
            return base and kernel
        return Exponentiation(base, kernel.exponent)
    if not isinstance(kernel, Sum | Product):
        return kernel
    first, second = _without_noise(kernel.k1), _without_noise(kernel.k2)
    if first is kernel.k1 and second is kernel.k2:
        return kernel
    if first is None or second is None:
        # a sum keeps its latent terms; a product with pure noise is noise
        return (first or second) if isinstance(kernel, Sum) else None
    return type(kernel)(first, second)


# ---- The default kernel, and the separation of a kernel from its noise ---------------


def default_kernel(X: Array, weights: Array | None = None) -> Product:
    """Amplitude times an RBF with one lengthscale per column.

    The lengthscales start at ``2 sqrt(d)`` standard deviations of their column,
    within bounds of 1e-2 and 1e3 standard deviations: long enough for non-zero
    gradients in every column at the first step of a hyperparameter search. Entries far
    outside of a column's spread do not set its standard deviation. Where rows are
    closer to each other, as on a long time axis, their spacing is the lower bound.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, in any unit.
    weights : ndarray of shape (n,), optional
        Row weights, not all zero.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Product
        ``ConstantKernel * RBF``. Constant columns count as having a standard
        deviation of 1.
    """
    d = X.shape[1]
    # in units of its largest entry, a standard deviation up to this is rounding
    std = InputFrame.of(X, weights, 10.0 * np.finfo(np.float64).eps).scale
    length_scale = 2.0 * np.sqrt(d) * std
    # an even spread over [0, 1] has a standard deviation of 1 / √12
    least = min(1e-2, np.sqrt(12.0) * len(X) ** (-1.0 / d))
    bounds = np.column_stack((least * std, 1e3 * std))
    if d == 1:
        rbf = RBF(length_scale.item(), tuple(bounds[0].tolist()))
    else:
        rbf = RBF(length_scale, bounds)
    return ConstantKernel(1.0, (1e-3, 1e3)) * rbf


def split_noise(kernel: Any) -> tuple[Any, float | None, Bounds | None]:
    """Separate the white noise of a kernel from the latent function's kernel.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With at most one WhiteKernel, as a summand of the whole.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Without the WhiteKernel.
    noise_level : float or None
        Variance of the noise; None if there is no WhiteKernel.
    noise_bounds : pair of floats, "fixed" or None
        Bounds of the noise level as they were given; None without a WhiteKernel.

    Raises
    ------
    ValueError
        If a WhiteKernel is not a summand of the whole kernel, if there are several, or
        if there is nothing else.
    """
    parts = _summands(kernel)
    noises = [part for part in parts if isinstance(part, WhiteKernel)]
    rest = [part for part in parts if not isinstance(part, WhiteKernel)]
    for part in rest:
        if any(isinstance(p, WhiteKernel) for p in part.get_params().values()):
            raise ValueError(
                "A WhiteKernel stands for the observation noise and must be added "
                f"to the whole kernel; got one inside {part!r}. Write the kernel as "
                "k + WhiteKernel(...)."
            )
    if len(noises) > 1:
        raise ValueError(
            f"Expected at most one WhiteKernel; got {len(noises)} in {kernel!r}. "
            "Add up their noise levels into one."
        )
    if not rest:
        raise ValueError(
            f"Expected a kernel for the latent function; got only noise, {kernel!r}. "
            "Add another kernel, for example RBF()."
        )
    if not noises:
        return kernel, None, None
    noise = noises[0]
    return reduce(Sum, rest), float(noise.noise_level), noise.noise_level_bounds
