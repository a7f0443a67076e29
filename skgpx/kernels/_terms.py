"""Kernels as sums of terms, their lengthscales and noise, and the default kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, reduce
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from skgpx._numerics.rows import InputFrame
from skgpx._types import Array, Index, Kernel
from skgpx.kernels._additive import Additive, n_subsets
from skgpx.kernels._columns import (
    CategoricalKernel,
    Columns,
    Directions,
    inner_kernels,
)
from skgpx.kernels._functionals import Functionals
from skgpx.kernels._linear import Linear
from skgpx.kernels._priors import Prior
from skgpx.kernels._registry import Bounds

# ---- Other hyperparameters -----------------------------------------------------------

# Kernels of which every hyperparameter is a parameter of their own, or of `kernel`.
_SIMPLE = frozenset(
    {
        RBF,
        Additive,
        Columns,
        ConstantKernel,
        Directions,
        DotProduct,
        ExpSineSquared,
        Functionals,
        Linear,
        Matern,
        RationalQuadratic,
        WhiteKernel,
    }
)


def with_theta(kernel: Kernel, theta: Array) -> Kernel:
    """``kernel.clone_with_theta(theta)``, the same values in less time.

    scikit-learn's takes milliseconds for a sum of several terms, since every sum and
    product looks up the hyperparameters of all terms below it again.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    theta : ndarray of shape (p,)
        Free log-parameters.

    Returns
    -------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Fixed parameters are those of the given kernel, and not copies.
    """
    replaced, n_read = _replaced(kernel, theta)
    if n_read != len(theta):
        raise ValueError(f"Expected theta of {n_read} entries; got {len(theta)}.")
    return replaced


def _replaced(kernel: Kernel, theta: Array) -> tuple[Kernel, int]:
    """A kernel with the first entries of theta, and how many these are."""
    if type(kernel) in (Sum, Product):
        left, n_left = _replaced(kernel.k1, theta)
        right, n_right = _replaced(kernel.k2, theta[n_left:])
        return type(kernel)(left, right), n_left + n_right
    if type(kernel) not in _SIMPLE:
        n_free = len(kernel.theta)
        return kernel.clone_with_theta(theta[:n_free]), n_free
    parameters = kernel.get_params(deep=False)
    n_read = 0
    if type(kernel) in (Additive, Columns, Directions, Functionals):
        parameters["kernel"], n_read = _replaced(kernel.kernel, theta)
    kernel_type: Any = type(kernel)
    for attribute in _hyperparameter_attributes(kernel_type):
        entry = getattr(kernel, attribute)
        if entry.fixed:
            continue
        if entry.n_elements > 1:
            parameters[entry.name] = np.exp(theta[n_read : n_read + entry.n_elements])
        else:
            parameters[entry.name] = np.exp(theta[n_read])
        n_read += entry.n_elements
    return type(kernel)(**parameters), n_read


@cache
def _hyperparameter_attributes(kernel_type: type) -> tuple[str, ...]:
    """Names of the specifications of hyperparameters, in the order of theta."""
    return tuple(
        name for name in dir(kernel_type) if name.startswith("hyperparameter_")
    )


# ---- A composite kernel as a sum of products of simple ones --------------------------


class Monomial(NamedTuple):
    """``coefficient`` times the product of ``factors``, none a sum or product."""

    coefficient: float
    factors: tuple[Kernel, ...]

    def as_kernel(self) -> Kernel:
        """Write the product as a kernel, the constant first."""
        return reduce(Product, self.factors, ConstantKernel(self.coefficient))


def expand(kernel: Kernel) -> list[Monomial]:
    """Write a kernel as a sum of products: constants, sums, products and powers.

    Only these exact scikit-learn types, also inside Columns and Directions, are
    expanded, and additive kernels in their columns of categories; any other kernel, and
    a power whose exponent is not a positive integer, is one factor.

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
        # (Σ a) (Σ b) = Σ a b
        terms = [
            Monomial(a.coefficient * b.coefficient, a.factors + b.factors)
            for a, b in product(expand(kernel.k1), expand(kernel.k2))
        ]
    elif type(kernel) in (Columns, Directions):
        terms = []
        for coefficient, inner_factors in expand(kernel.kernel):
            factors = tuple(kernel._around(inner) for inner in inner_factors)
            terms.append(Monomial(coefficient, factors))
    elif type(kernel) is Exponentiation and kernel.exponent in range(1, 65):
        base = kernel.kernel
        power = reduce(Product, [base] * int(kernel.exponent))
        terms = expand(power)
    elif type(kernel) is Additive:
        terms = _subsets_of_categories(kernel)
    else:
        return [Monomial(1.0, (kernel,))]
    n_factors = max(len(term.factors) for term in terms)
    if max(len(terms), n_factors) > 64:
        raise ValueError(
            f"{kernel!r} expands into {len(terms)} terms of up to {n_factors} factors; "
            'at most 64 are supported. Simplify it, or use prior="exact".'
        )
    return terms


def _subsets_of_categories(kernel: Additive) -> list[Monomial]:
    """An additive kernel by the columns of categories in a product.

    ``Σ_r a_r e_r = Σ_S Π_S k_c Σ_r a_{|S| + r} e_r`` with subsets S of the categories
    and polynomials of the numbers alone, which have frequencies. One term if the kernel
    sees numbers only, or columns that are not numbered.
    """
    numeric: list[Kernel] = []
    categorical: list[Kernel] = []
    n_numeric = 0
    for part in _factors_of_product(kernel.kernel):
        columns = _numbered(getattr(part, "columns", "all"))
        if type(part) is not Columns or columns.dtype.kind not in "iu":
            return [Monomial(1.0, (kernel,))]
        if type(part.kernel) is CategoricalKernel:
            rho = np.broadcast_to(part.kernel.correlation, columns.shape)
            for column, correlation in zip(columns.ravel(), rho.ravel(), strict=True):
                factor = CategoricalKernel(
                    correlation, n_categories=part.kernel.n_categories
                )
                categorical.append(Columns(factor, [int(column)]))
        else:
            numeric.append(part)
            n_numeric += columns.size
    if not categorical:
        return [Monomial(1.0, (kernel,))]
    n_columns = n_numeric + len(categorical)
    amplitudes = kernel._by_order / n_subsets(kernel.order, n_columns)
    terms = []
    for size in range(min(kernel.order, len(categorical)) + 1):
        order = min(kernel.order - size, n_numeric)
        for subset in combinations(categorical, size):
            if size:
                terms.append(Monomial(float(amplitudes[size - 1]), subset))
            if order:
                of_numbers = Additive(
                    reduce(Product, numeric),
                    order=order,
                    variances=amplitudes[size : size + order]
                    * n_subsets(order, n_numeric),
                )
                terms.append(Monomial(1.0, (*subset, of_numbers)))
    return terms


def _numbered(columns: Any) -> Any:
    """Numbers of columns, where a slice or a mask says them; other choices as given."""
    if isinstance(columns, slice):
        stop = columns.stop
        if stop is None or min(stop, columns.start or 0) < 0:
            return np.asarray("all")
        return np.arange(stop)[columns]
    numbers = np.asarray(columns)
    return np.flatnonzero(numbers) if numbers.dtype.kind == "b" else numbers


def _factors_of_product(kernel: Kernel) -> list[Kernel]:
    """Factors of a product of kernels, however nested."""
    if type(kernel) is not Product:
        return [kernel]
    return _factors_of_product(kernel.k1) + _factors_of_product(kernel.k2)


def merge_rbfs(factors: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Factors of a product, with its RBFs merged into one, at the end.

    A product of RBFs is an RBF; squared inverse lengthscales are summed.
    """
    remaining = []
    inverse_squares = []
    for factor in factors:
        if type(factor) is RBF:
            length_scale = np.asarray(factor.length_scale, float)
            inverse_squares.append(length_scale**-2.0)
        else:
            remaining.append(factor)
    if not inverse_squares:
        return factors
    merged = np.asarray(sum(inverse_squares)) ** -0.5
    return (*remaining, RBF(merged))


# Hyperparameters that are amplitudes, and the power of the kernel's variance they have.
_AMPLITUDES = {
    Additive: ("variances", 1.0),
    ConstantKernel: ("constant_value", 1.0),
    Linear: ("slope", 0.5),
}


def rescaled(kernel: Kernel, factor: float) -> Kernel | None:
    """``factor * kernel``, as other values of its free amplitudes.

    None unless every term has a ConstantKernel or a Linear kernel that is not fixed.
    """
    kernel_type = type(kernel)
    if kernel_type in _AMPLITUDES:
        name, power = _AMPLITUDES[kernel_type]
        if getattr(kernel, f"hyperparameter_{name}").fixed:
            return None
        # a user may have given a list
        value = getattr(kernel, name)
        if value is None:
            value = kernel._by_order
        value = np.multiply(factor**power, value)[()]
        return clone(kernel).set_params(**{name: value})
    if kernel_type not in (Sum, Product, Columns, Directions, Functionals):
        return None
    n_parts = 0
    new_parts: dict[str, Kernel] = {}
    for name, part in kernel.get_params(deep=False).items():
        if not isinstance(part, Kernel):
            continue
        n_parts += 1
        new_part = rescaled(part, factor)
        # one factor of a product suffices, a sum needs all terms
        if new_part is not None and not (kernel_type is Product and new_parts):
            new_parts[name] = new_part
    if not new_parts or (kernel_type is Sum and len(new_parts) < n_parts):
        return None
    return clone(kernel).set_params(**new_parts)


def additive_terms(
    kernel: Kernel,
    n_features: int,
) -> dict[tuple[int, ...], Kernel]:
    """Parts of a kernel by the columns that they see; constants are left out."""
    terms: dict[tuple[int, ...], Kernel] = {}
    for monomial in expand(kernel):
        seen: set[int] = set()
        for factor in monomial.factors:
            columns, _ = _columns_and_inner(factor, n_features)
            seen.update(columns.tolist())
        key = tuple(sorted(seen))
        term = monomial.as_kernel()
        if key in terms:
            terms[key] = terms[key] + term
        elif key:
            terms[key] = term
    return terms


def decays(kernel: Kernel, n_features: int) -> bool:
    """Whether correlations fade with the distance in every column, but for a trend.

    Then the nearest rows carry the information of distant ones; with cycles and
    additive models they do not. A linear trend is a combination of few functions, which
    inducing points span.
    """
    other_terms = [
        term.factors
        for term in expand(kernel)
        if not _is_linear(term.factors, n_features)
    ]
    fading = [_fades(factors, n_features) for factors in other_terms]
    return bool(fading) and all(fading)


def decaying_part(kernel: Kernel, n_features: int) -> Kernel | None:
    """Sum of the terms that fade with the distance in every column.

    The kernel itself if all terms do, None if none does.
    """
    terms = expand(kernel)
    decaying = [term for term in terms if _fades(term.factors, n_features)]
    if len(decaying) == len(terms):
        return kernel
    if not decaying:
        return None
    return reduce(Sum, [term.as_kernel() for term in decaying])


def neighbor_scales(kernel: Kernel, n_features: int) -> Array:
    """Lengthscales in which rows are near: of the terms that fade with the distance."""
    part = decaying_part(kernel, n_features) or kernel
    return length_scales(part, n_features)


def neighbor_coordinates(kernel: Kernel, X: Array) -> Array:
    """Rows (n, d) in these lengthscales, along the directions of the kernel."""
    if type(kernel) is Directions:
        return neighbor_coordinates(kernel.kernel, kernel.part(X))
    return X / neighbor_scales(kernel, X.shape[1])


def scaled_inputs(kernel: Kernel, X: Array) -> Array:
    """Rows (n, d) in the lengthscales of a kernel, along its directions."""
    if type(kernel) is Directions:
        return scaled_inputs(kernel.kernel, kernel.part(X))
    return X / length_scales(kernel, X.shape[1])


def _columns_and_inner(
    factor: Kernel,
    n_features: int,
) -> tuple[Index, Kernel]:
    """Columns that a factor sees, and the kernel of them."""
    if type(factor) is Columns:
        return factor.indices(n_features), factor.kernel
    if type(factor) is Directions:
        return np.arange(n_features), factor.kernel
    return np.arange(n_features), factor


def _fades(factors: tuple[Kernel, ...], n_features: int) -> bool:
    """Whether a product of kernels fades with the distance in every column."""
    seen: set[int] = set()
    for factor in factors:
        columns, inner = _columns_and_inner(factor, n_features)
        if type(inner) not in (RBF, Matern, RationalQuadratic, CategoricalKernel):
            return False
        seen.update(columns.tolist())
    return len(seen) == n_features


def _is_linear(factors: tuple[Kernel, ...], n_features: int) -> bool:
    """Whether a product of kernels is that of a linear function."""
    if len(factors) != 1:
        return False
    _, inner = _columns_and_inner(factors[0], n_features)
    return type(inner) is Linear


def summands(kernel: Kernel) -> list[Kernel]:
    """Terms of a sum of kernels, however nested; the kernel itself if not a sum."""
    if type(kernel) is not Sum:
        return [kernel]
    return summands(kernel.k1) + summands(kernel.k2)


# ---- Lengthscales of composite kernels, and their positions in theta -----------------


def parts_with(
    name: str,
    kernel: Kernel,
    columns: Index,
) -> Iterator[tuple[Kernel, Index]]:
    """Kernels inside a kernel (itself included) with this attribute, and their columns.

    Looks into sums, products, powers, compounds, GREKernels and Columns; what is inside
    Directions has no columns.
    """
    if hasattr(kernel, name):
        yield kernel, columns
    if type(kernel) is Directions:
        return
    if type(kernel) is Columns:
        columns = columns[kernel.indices(len(columns))]
    if type(kernel) is Functionals:
        columns = columns[: kernel.n_features]
    for part in inner_kernels(kernel):
        yield from parts_with(name, part, columns)


def length_scales(kernel: Kernel, n_features: int) -> Array:
    """Lengthscale of each column in the first part that has one for it, shape (d,).

    Ones for columns without any.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int
        Number d of inputs.
    """
    scales = np.full(n_features, np.nan)
    everything = np.arange(n_features)
    parts = [*parts_with("length_scale", kernel, everything)]
    parts += parts_with("directions", kernel, everything)
    for part, columns in parts:
        part_scales = np.full(n_features, np.nan)
        if type(part) is Directions:
            # along a column the distance is |Dᵀe_j / ℓ|
            D = part._matrix(len(columns))
            rates = D / length_scales(part.kernel, D.shape[1])
            squares = np.sum(rates**2, axis=1)
            part_scales[columns] = np.maximum(squares, 1e-300) ** -0.5
        else:
            part_scales[columns] = np.asarray(part.length_scale, dtype=np.float64)
        is_missing = np.isnan(scales[columns])
        missing = columns[is_missing]
        scales[missing] = part_scales[missing]
    return np.where(np.isnan(scales), 1.0, scales)


def longest_length_scales(kernel: Kernel, n_features: int) -> Array:
    """Largest lengthscale of each input over all parts, (d,); zeros if none has any."""
    longest = np.zeros(n_features)
    for part, columns in parts_with("length_scale", kernel, np.arange(n_features)):
        longest[columns] = np.maximum(longest[columns], part.length_scale)
    return longest


def category_columns(kernel: Kernel, n_features: int) -> list[int]:
    """Columns that kernels of categories see."""
    parts = parts_with("n_categories", kernel, np.arange(n_features))
    return sorted({int(column) for _, columns in parts for column in columns})


def _owners(kernel: Kernel, name: str) -> Iterator[Kernel]:
    """Kernels one inside the other that hold the hyperparameter of this name."""
    for part_name in name.split("__"):
        yield kernel
        if part_name.isdigit():
            # a compound numbers its parts
            kernel = kernel.kernels[int(part_name)]
        else:
            kernel = getattr(kernel, part_name)


def columns_of_entry(kernel: Kernel, name: str, n_features: int) -> Index:
    """Columns, or directions, that a hyperparameter of this name belongs to."""
    columns = np.arange(n_features)
    for owner in _owners(kernel, name):
        if type(owner) is Columns:
            columns = columns[owner.indices(len(columns))]
        if type(owner) is Directions:
            columns = np.arange(np.shape(owner.directions)[1])
        if type(owner) is Functionals:
            columns = columns[: owner.n_features]
    return columns


def inputs_of_entry(kernel: Kernel, name: str, X: Array) -> Array:
    """Inputs (n, q) that a hyperparameter of this name belongs to, at rows (n, d)."""
    for owner in _owners(kernel, name):
        if type(owner) in (Columns, Directions):
            X = owner.part(X)
        if type(owner) is Functionals:
            X = X[:, : owner.n_features]
    return X


def stds_of_entry(kernel: Kernel, name: str, column_std: Array) -> Array:
    """Standard deviations of these, for columns that are not correlated."""
    std = column_std
    for owner in _owners(kernel, name):
        if type(owner) is Columns:
            std = std[owner.indices(len(std))]
        if type(owner) is Directions:
            std = np.sqrt(std**2 @ owner._matrix(len(std)) ** 2)
        if type(owner) is Functionals:
            std = std[: owner.n_features]
    return std


def theta_entries(kernel: Kernel) -> Iterator[tuple[str, slice]]:
    """Names of the free hyperparameters, and their entries of theta."""
    start = 0
    for parameter in kernel.hyperparameters:
        if not parameter.fixed:
            stop = start + parameter.n_elements
            yield parameter.name, slice(start, stop)
            start = stop


def length_scale_entries(kernel: Kernel) -> list[slice]:
    """Entries of theta that are lengthscales, one slice for each part of the kernel."""
    return [
        entries
        for name, entries in theta_entries(kernel)
        if name.endswith("length_scale")
    ]


# ---- The latent part of a kernel and its white noise, at any depth -------------------


def latent_kernel(kernel: Kernel) -> Kernel:
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
    return _without_noise(kernel) or ConstantKernel(0.0, "fixed")


def noise_variance(kernel: Kernel, X: Array) -> Array:
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
    return kernel.diag(X) - latent.diag(X)


def _without_noise(kernel: Kernel) -> Kernel | None:
    """Return the kernel without its noise; None for noise alone."""
    if isinstance(kernel, WhiteKernel):
        return None
    if isinstance(kernel, Exponentiation):
        base = _without_noise(kernel.kernel)
        if base is None:
            return None
        if base is kernel.kernel:
            return kernel
        return Exponentiation(base, kernel.exponent)
    if not isinstance(kernel, Sum | Product):
        return kernel
    first = _without_noise(kernel.k1)
    second = _without_noise(kernel.k2)
    if first is kernel.k1 and second is kernel.k2:
        return kernel
    if first is not None and second is not None:
        return type(kernel)(first, second)
    # a product with pure noise is noise; a sum keeps its latent terms
    if isinstance(kernel, Product):
        return None
    return first or second


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
    n, d = X.shape
    # in units of its largest entry, a standard deviation up to this is rounding
    rounding = 10.0 * np.finfo(np.float64).eps
    std = InputFrame.of(X, weights, rounding).scale
    length_scale = 2.0 * np.sqrt(d) * std
    # rows on a grid: an even spread over [0, 1] has a standard deviation of 1 / √12
    spacing = np.sqrt(12.0) * n ** (-1.0 / d)
    lower = min(1e-2, spacing)
    bounds = np.column_stack((lower * std, 1e3 * std))
    if d == 1:
        rbf = RBF(length_scale.item(), tuple(bounds[0].tolist()))
    else:
        rbf = RBF(length_scale, bounds)
    return ConstantKernel(1.0, (1e-3, 1e3)) * rbf


def split_noise(kernel: Kernel) -> tuple[Kernel, float | None, Bounds | None]:
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
        if the kernel is noise only.
    """
    noises = []
    latent_terms = []
    for term in summands(kernel):
        if isinstance(term, WhiteKernel):
            noises.append(term)
        else:
            latent_terms.append(term)
    for term in latent_terms:
        if any(isinstance(value, WhiteKernel) for value in term.get_params().values()):
            raise ValueError(
                "A WhiteKernel stands for the observation noise and must be added "
                f"to the whole kernel; got one inside {term!r}. Write the kernel as "
                "k + WhiteKernel(...)."
            )
    if len(noises) > 1:
        raise ValueError(
            f"Expected at most one WhiteKernel; got {len(noises)} in {kernel!r}. "
            "Add up their noise levels into one."
        )
    if not latent_terms:
        raise ValueError(
            f"Expected a kernel for the latent function; got only noise, {kernel!r}. "
            "Add another kernel, for example RBF()."
        )
    if not noises:
        return kernel, None, None
    noise = noises[0]
    return reduce(Sum, latent_terms), float(noise.noise_level), noise.noise_level_bounds


def stated_priors(kernel: Kernel) -> list[Any]:
    """Prior distributions of theta, then of the noise, (p + 1,); None without one.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Theta refers to the latent function's kernel, without the white noise.

    Raises
    ------
    ValueError
        If a prior has another number of distributions than the hyperparameter entries.
    """
    latent, _, noise_bounds = split_noise(kernel)
    parameters = latent.get_params()
    parameters["noise_level_bounds"] = noise_bounds
    noise_entry = ("noise_level", slice(0, 1))
    stated: list[Any] = []
    for name, entries in (*theta_entries(latent), noise_entry):
        size = entries.stop - entries.start
        bounds = parameters.get(f"{name}_bounds")
        if not isinstance(bounds, Prior):
            stated += [None] * size
            continue
        n_distributions = len(bounds.distributions)
        if n_distributions not in (1, size):
            raise ValueError(
                f"The prior of {name}, which has {size} entries, holds "
                f"{n_distributions} distributions. Give one for all entries, or a "
                "list of one for each."
            )
        stated += bounds.distributions * (size // n_distributions)
    return stated
