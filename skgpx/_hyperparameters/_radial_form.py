"""Kernels whose exact evidence is compiled: their form, and the density in its scales.

Sums of products of kernels of a distance, each of its own columns: of numbers, of
categories by whether they differ, and of points of a cycle; additive kernels of them;
and linear functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    ExpSineSquared,
    Product,
    Sum,
)

from skgpx._numerics.exact_evidence import DensityRows, log_densities
from skgpx._numerics.radial import CATEGORY, CYCLE, NUMBER, RBF
from skgpx._shell.validation import Rows
from skgpx._types import Array, Index, Kernel, Mask
from skgpx.kernels import (
    Additive,
    CategoricalKernel,
    Columns,
    Linear,
    n_subsets,
    radial_code,
)

Indices = Index

# Hyperparameters of kernels that are known beside those of the distance.
_PARAMETERS = {
    ConstantKernel: ("constant_value",),
    CategoricalKernel: ("correlation",),
    Linear: ("slope",),
    Additive: ("variances",),
    ExpSineSquared: ("length_scale", "periodicity"),
}
# In how many products a leaf may stand, on the average: products of sums have very many
# terms, of which matrices of each leaf are faster.
_MOST_REPETITIONS = 4


# ---- A kernel as a sum of products ---------------------------------------------------


class Leaf(NamedTuple):
    """A kernel without parts, or an additive one.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    columns : ndarray of int of shape (q,)
        That it sees.
    parameters : tuple of str
        Names of its hyperparameters; empty for a kernel that loops do not know.
    position : int
        Of its first free hyperparameter in the log-parameters.
    inner : tuple of Leaf
        Kernels inside an additive one, whose parameters come before its own.
    """

    kernel: Any
    columns: Indices
    parameters: tuple[str, ...]
    position: int
    inner: tuple[Leaf, ...] = ()

    @classmethod
    def of(cls, kernel: Kernel, columns: Indices, position: int) -> Leaf:
        """The kernel with the names of its hyperparameters."""
        parameters: tuple[str, ...] = _PARAMETERS.get(type(kernel), ())
        inner: list[Leaf] = []
        if radial_code(kernel) is not None:
            parameters = ("length_scale",)
        if type(kernel) is Additive:
            for factor in kernel._factors_of(columns):
                inner.append(cls.of(factor.kernel, factor.columns, position))
                position += inner[-1].n_free
        return cls(kernel, columns, parameters, position, tuple(inner))

    @property
    def n_free(self) -> int:
        """Number of its free log-parameters."""
        return sum(self._n_free_of(name) for name in self.parameters)

    @property
    def is_known(self) -> bool:
        """Whether loops know it, and it has one value or one of each column."""
        q = len(self.columns)
        if self.inner:
            return True
        if "periodicity" in self.parameters and q != 1:
            return False
        sizes = {np.size(getattr(self.kernel, name)) for name in self.parameters}
        return bool(sizes) and sizes <= {1, q}

    @property
    def is_rbf(self) -> bool:
        """Whether it is an RBF of some distance, as a correlation of categories is."""
        return self.kind != NUMBER or radial_code(self.kernel) == RBF

    @property
    def kind(self) -> int:
        """Kind of its inputs, of a kernel of some distance."""
        if "correlation" in self.parameters:
            return CATEGORY
        if "periodicity" in self.parameters:
            return CYCLE
        return NUMBER

    def scales(self, name: str = "") -> tuple[Array, Indices]:
        """Logarithms of values by column, and their positions; -1 if fixed.

        Of the parameter of this name, by default of the first.
        """
        names = self.parameters
        name = name or names[0]
        size = len(self.columns)
        if name == "constant_value":
            size = 1
        elif name == "variances":
            size = self.kernel.order
        value = getattr(self.kernel, name)
        if name == "variances":
            value = self.kernel._by_order
        values = np.broadcast_to(value, (size,))
        position = np.full(size, -1)
        n_free = self._n_free_of(name)
        if n_free:
            earlier = names[: names.index(name)]
            position[:] = self.position + sum(map(self._n_free_of, earlier))
        if n_free > 1:
            position += np.arange(size)
        return np.log(values, dtype=np.float64), position

    def _n_free_of(self, name: str) -> int:
        specification = getattr(self.kernel, f"hyperparameter_{name}")
        return 0 if specification.fixed else int(specification.n_elements)


class Expansion(NamedTuple):
    """Size of a kernel that is written as a sum of products.

    Attributes
    ----------
    n_leaves : int
        Kernels without parts.
    n_products : int
    n_factors : int
        Leaves of all products.
    """

    n_leaves: int
    n_products: int
    n_factors: int

    @classmethod
    def of(cls, kernel: Kernel) -> Expansion:
        """Numbers by the parts, without the products."""
        if type(kernel) is Columns:
            return cls.of(kernel.kernel)
        if type(kernel) is Sum or type(kernel) is Product:
            first = cls.of(kernel.k1)
            second = cls.of(kernel.k2)
            n_leaves = first.n_leaves + second.n_leaves
            if type(kernel) is Sum:
                n_products = first.n_products + second.n_products
                return cls(n_leaves, n_products, first.n_factors + second.n_factors)
            # each product of the first with each of the second
            n_products = first.n_products * second.n_products
            n_factors = first.n_factors * second.n_products
            n_factors += second.n_factors * first.n_products
            return cls(n_leaves, n_products, n_factors)
        return cls(n_leaves=1, n_products=1, n_factors=1)

    @property
    def is_short(self) -> bool:
        """Whether leaves do not stand in too many products."""
        return self.n_factors <= _MOST_REPETITIONS * self.n_leaves


def _products(
    kernel: Kernel,
    columns: Indices,
    position: int,
) -> tuple[list[list[Leaf]], int]:
    """A kernel as a sum of products of leaves.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    columns : ndarray of int
        That it sees.
    position : int
        Of its first log-parameter.

    Returns
    -------
    products : list of lists of Leaf
    position : int
        Behind its last log-parameter.
    """
    if type(kernel) is Columns:
        inner_columns = columns[kernel.indices(len(columns))]
        return _products(kernel.kernel, inner_columns, position)
    if type(kernel) is Sum or type(kernel) is Product:
        first, position = _products(kernel.k1, columns, position)
        second, position = _products(kernel.k2, columns, position)
        if type(kernel) is Sum:
            return first + second, position
        # (Σ a) (Σ b) = Σ a b
        return [a + b for a in first for b in second], position
    leaf = Leaf.of(kernel, columns, position)
    return [[leaf]], leaf.position + leaf.n_free


class Term(NamedTuple):
    """A product of leaves, a constant and kernels of a distance; or an additive kernel.

    Attributes
    ----------
    constants : list of Leaf
    factors : list of lists of Leaf
        Leaves of one kernel each: RBFs, categories and cycles, whose product is an RBF
        of all their inputs, and other kernels.
    is_additive : bool
        Whether each input is a factor, and the constant has a value for each order.
    """

    constants: list[Leaf]
    factors: list[list[Leaf]]
    is_additive: bool = False

    @classmethod
    def of(cls, product: Sequence[Leaf]) -> Term:
        """The leaves by their kind."""
        if len(product) == 1 and product[0].inner:
            additive = product[0]
            factors = [[leaf] for leaf in additive.inner]
            return cls([additive], factors, is_additive=True)
        constants = [leaf for leaf in product if _is_constant(leaf)]
        radial = [leaf for leaf in product if not _is_constant(leaf)]
        rbfs = [leaf for leaf in radial if leaf.is_rbf]
        factors = [[leaf] for leaf in radial if not leaf.is_rbf]
        if rbfs:
            factors.append(rbfs)
        return cls(constants, factors)

    @property
    def is_known(self) -> bool:
        """Whether loops know the product: none of linear functions, or of constants."""
        factors = [leaf for factor in self.factors for leaf in factor]
        is_radial = not any("slope" in leaf.parameters for leaf in factors)
        is_product = not any(leaf.inner for leaf in factors)
        return is_radial and is_product and len(self.constants) <= 1

    @property
    def amplitude(self) -> tuple[Array, Indices]:
        """Logarithm of its constant and its position; one, fixed, without."""
        if not self.constants:
            return np.zeros(1), np.full(1, -1)
        return self.constants[0].scales()

    @property
    def unit(self) -> Array:
        """Of the amplitudes: of an additive kernel one over the number of subsets."""
        if not self.is_additive:
            return np.ones(1)
        return 1.0 / n_subsets(self.constants[0].kernel.order, sum(self.n_inputs))

    @property
    def codes(self) -> list[int]:
        """Of the kernel of each factor."""
        codes = [_code_of(factor) for factor in self.factors]
        if not self.is_additive:
            return codes
        return np.repeat(
            codes, [_n_columns(factor) for factor in self.factors]
        ).tolist()

    @property
    def n_inputs(self) -> list[int]:
        """Of each factor."""
        n_inputs = [_n_columns(factor) for factor in self.factors]
        return [1] * sum(n_inputs) if self.is_additive else n_inputs


# ---- The form, and its scales --------------------------------------------------------


class RadialForm(NamedTuple):
    """``Σ_t a_t Π_f k_f(r_f) + Σ_q s_q² l_q l_qᵀ``, and noise.

    Terms may also be additive kernels, with an amplitude of each order. Each factor k_f
    is a kernel of a distance r_f of some inputs. Correlations ρ of categories are an
    RBF, ``ρ^[x ≠ y] = exp(-½ v [x ≠ y])`` with ``v = -2 log ρ``, and so is a periodic
    kernel, of the chord between two points of a cycle.

    Attributes
    ----------
    codes : ndarray of int of shape (f,)
        Of each factor: one of the constants of ``radial``.
    first_amplitudes, first_factors, is_additive : ndarray of shape (g + 1,) or (g,)
        Of each term, see :class:`DensityRows`.
    units : ndarray of shape (t,)
        Of the amplitudes.
    first_inputs : ndarray of uint64 of shape (f + 1,)
        Position of the first input of each factor, and the number of inputs.
    columns : ndarray of int of shape (p,)
        Column of each input.
    kinds : ndarray of int of shape (p,)
        Of each input: one of the constants of ``radial``.
    line_columns, line_centres : ndarray of shape (l,)
        Columns of the linear functions, and where these are zero.
    log_scales : ndarray of shape (t + p + l + ... + 1,)
        Logarithms of the amplitudes of each term, of a lengthscale or correlation for
        each input, of the slope of each linear function, of the period of each cycle,
        and of the noise variance.
    position : ndarray of int of shape (t + p + l + ... + 1,)
        Position of each in the log-parameters of kernel and likelihood, where a free
        noise is the last; minus one if it is fixed.
    """

    codes: Indices
    first_amplitudes: NDArray[np.uint64]
    first_factors: NDArray[np.uint64]
    is_additive: Mask
    units: Array
    first_inputs: NDArray[np.uint64]
    columns: Indices
    kinds: Indices
    line_columns: Indices
    line_centres: Array
    log_scales: Array
    position: Indices

    @classmethod
    def of(cls, kernel: Kernel, noise_variance: float, d: int) -> RadialForm | None:
        """The form of a kernel of d columns, None of another kernel."""
        if not Expansion.of(kernel).is_short:
            return None
        products, n_free = _products(kernel, np.arange(d), position=0)
        leaves = [leaf for product in products for leaf in product]
        if not all(leaf.is_known for leaf in leaves):
            return None
        # 1 linear functions, and products of other kernels with one constant at most
        lines = [product[0] for product in products if _is_line(product)]
        terms = [Term.of(product) for product in products if not _is_line(product)]
        if not all(term.is_known for term in terms):
            return None
        # 2 factors and inputs of each product, in the order of the loops
        factors = [factor for term in terms for factor in term.factors]
        inputs = [leaf for factor in factors for leaf in factor]
        n_columns = np.array([len(leaf.columns) for leaf in inputs], dtype=np.intp)
        codes = [code for term in terms for code in term.codes]
        n_inputs = [number for term in terms for number in term.n_inputs]
        kinds = np.array([leaf.kind for leaf in inputs], dtype=np.intp)
        # 3 scales; the noise is beyond the log-parameters unless it is free
        scales = [term.amplitude for term in terms]
        scales += [leaf.scales() for leaf in (*inputs, *lines)]
        scales += [leaf.scales("periodicity") for leaf in inputs if leaf.kind == CYCLE]
        scales.append((np.log([noise_variance]), np.array([n_free])))
        # where linear functions are zero, by column
        centres = [np.empty(0)]
        for line in lines:
            centre = np.asarray(line.kernel.centre, dtype=np.float64)
            centres.append(np.broadcast_to(centre, line.columns.shape))
        return cls(
            codes=np.array(codes, dtype=np.intp),
            first_amplitudes=_starts([len(term.unit) for term in terms]),
            first_factors=_starts([len(term.codes) for term in terms]),
            is_additive=np.array([term.is_additive for term in terms], dtype=bool),
            units=np.concatenate([np.empty(0), *(term.unit for term in terms)]),
            first_inputs=_starts(n_inputs),
            columns=_columns_of(inputs),
            kinds=np.repeat(kinds, n_columns),
            line_columns=_columns_of(lines),
            line_centres=np.concatenate(centres),
            log_scales=np.concatenate([log_values for log_values, _ in scales]),
            position=np.concatenate([position for _, position in scales]),
        )

    def log_scales_at(self, thetas: Array) -> Array:
        """Logarithms of all scales at log-parameters (s, p), shape (s, t + p + ...)."""
        is_free = self._is_free(thetas.shape[1])
        log_scales = np.repeat(self.log_scales[np.newaxis], len(thetas), axis=0)
        log_scales[:, is_free] = thetas[:, self.position[is_free]]
        return log_scales

    def gradients(self, slopes: Array, p: int) -> Array:
        """Gradients (s, p) in the log-parameters, from slopes in all scales."""
        is_free = self._is_free(p)
        gradients = np.zeros((p, len(slopes)))
        np.add.at(gradients, self.position[is_free], slopes.T[is_free])
        return gradients.T

    def _is_free(self, p: int) -> Mask:
        return (self.position >= 0) & (self.position < p)


def _is_constant(leaf: Leaf) -> bool:
    """Whether a leaf is an amplitude."""
    return "constant_value" in leaf.parameters


def _is_line(product: Sequence[Leaf]) -> bool:
    """Whether a product is `Linear` alone."""
    return len(product) == 1 and "slope" in product[0].parameters


def _code_of(factor: Sequence[Leaf]) -> int:
    """Code of the kernel of a factor."""
    code = None if factor[0].is_rbf else radial_code(factor[0].kernel)
    return RBF if code is None else code


def _n_columns(factor: Sequence[Leaf]) -> int:
    """Number of inputs of a factor."""
    return sum(len(leaf.columns) for leaf in factor)


def _starts(sizes: Sequence[int]) -> NDArray[np.uint64]:
    """Starts of consecutive parts of these sizes, and the end of the last one."""
    return np.cumsum([0, *sizes], dtype=np.uint64)


def _columns_of(leaves: Sequence[Leaf]) -> Indices:
    """Columns of all leaves, one after the other."""
    none = np.empty(0, dtype=np.intp)
    return np.concatenate([none, *(leaf.columns for leaf in leaves)])


class FormDensity:
    """Density of :class:`ExactEvidence` by compiled loops, at many scales of one form.

    Parameters
    ----------
    form : RadialForm
        Its scales are not read.
    rows : Rows
    members : ndarray of int of shape (v, n)
        Positions of the rows of v sets, whose densities add.
    n_given : int
        Number of the first rows of each set that the others are given.
    """

    def __init__(self, form: RadialForm, rows: Rows, members: Indices, n_given: int):
        v, n = members.shape
        X = rows.X[members]
        inputs = X[:, :, form.columns]
        centres = inputs.mean(axis=1, keepdims=True)
        means = np.where(form.kinds == CATEGORY, 0.0, centres)
        lines = X[:, :, form.line_columns] - form.line_centres
        points = np.concatenate((inputs - means, lines), axis=2)
        targets = rows.y[members].reshape(v, n, -1)
        n_lines = len(form.line_columns)
        n_amplitudes = len(form.units)
        n_before_lines = n_amplitudes + len(form.columns)
        n_before_periods = n_before_lines + n_lines
        is_cycle = form.kinds == CYCLE
        period_slots = np.zeros(len(form.kinds), dtype=np.uint64)
        period_slots[is_cycle] = n_before_periods + np.arange(np.sum(is_cycle))
        omega = rows.precisions[members]
        self._rows = DensityRows(
            codes=form.codes,
            first_amplitudes=form.first_amplitudes,
            first_factors=form.first_factors,
            is_additive=form.is_additive,
            first_inputs=form.first_inputs,
            kinds=form.kinds,
            period_slots=period_slots,
            points=points.transpose(0, 2, 1).copy(),
            n_lines=n_lines,
            targets=targets.transpose(0, 2, 1).copy(),
            noise_factors=1.0 / omega,
            n_given=n_given,
        )
        self._units = form.units
        # amplitudes, 1 / ℓ², s², periods and the noise variance
        self._powers = np.ones(len(form.log_scales))
        self._powers[n_amplitudes:n_before_lines] = -2.0
        self._powers[n_before_lines:n_before_periods] = 2.0
        self._correlations = n_amplitudes + np.flatnonzero(form.kinds == CATEGORY)
        # ½ c Σ [log 2π + (ω - 1) log(2π σ²) + log ω]
        omega = omega[:, n_given:]
        half_targets = 0.5 * targets.shape[2]
        log_terms = np.log(2.0 * np.pi) * omega + np.log(omega)
        self._constant = half_targets * float(np.sum(log_terms))
        self._noise_slope = half_targets * float(np.sum(omega - 1.0))

    def values_and_slopes(self, log_scales: Array) -> tuple[Array, Array]:
        """Evidence (s,) and slopes in logarithms of scales (s, t + p + ...).

        NaN where it fails.
        """
        values, slopes = self._sums(log_scales, with_slopes=True)
        slopes[:, -1] -= self._noise_slope
        return values, slopes

    def values(self, log_scales: Array) -> Array:
        """Evidence (s,), minus infinity where it fails."""
        values, _ = self._sums(log_scales, with_slopes=False)
        return np.where(np.isnan(values), -np.inf, values)

    def _sums(self, log_scales: Array, with_slopes: bool) -> tuple[Array, Array]:
        """Densities of all sets of rows, and their slopes in scales but for ω."""
        n_sets = len(self._rows.points)
        repeated = np.repeat(log_scales, n_sets, axis=0)
        values, slopes, _, _ = self._evaluate(repeated, self._rows, with_slopes)
        values = values.reshape(-1, n_sets).sum(axis=1)
        slopes = slopes.reshape(-1, n_sets, log_scales.shape[1]).sum(axis=1)
        values -= self._constant + self._noise_slope * log_scales[:, -1]
        return values, slopes

    def regressions(
        self,
        log_scales: Array,
        z: Array,
        noise: Array,
    ) -> tuple[Array, Array, Array, Array]:
        """Densities of values z (s, n) of their own, with this noise, at the scales.

        Of one set of rows.

        Returns
        -------
        values : ndarray of shape (s,)
            ``-½ (log det C + zᵀC⁻¹z)``; NaN where it fails.
        slopes : ndarray of shape (s, t + p + ...)
        duals, precisions : ndarray of shape (s, n)
            ``C⁻¹z``, and the diagonal of ``C⁻¹``.
        """
        rows = self._rows._replace(targets=z[:, np.newaxis], noise_factors=noise)
        values, slopes, duals, precisions = self._evaluate(log_scales, rows, True)
        return values, slopes, duals[:, 0], precisions

    def _evaluate(
        self,
        log_scales: Array,
        rows: DensityRows,
        with_slopes: bool,
    ) -> tuple[Array, Array, Array, Array]:
        _, c, n = rows.targets.shape
        values = np.empty(len(log_scales))
        slopes = np.full(log_scales.shape, np.nan)
        duals = np.full((len(log_scales), c, n), np.nan)
        precisions = np.full((len(log_scales), n), np.nan)
        scales = np.exp(self._powers * log_scales)
        scales[:, : len(self._units)] *= self._units
        # v = -2 log ρ
        scales[:, self._correlations] = -2.0 * log_scales[:, self._correlations]
        log_densities(rows, scales, with_slopes, values, slopes, duals, precisions)
        return values, slopes, duals, precisions
