"""Bases of cosines and sines: of given frequencies, and of the waves of a box."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from skgpx._draws import (
    FiniteProcess,
    FourierFeatures,
    FunctionDraws,
    KernelFeatures,
    LinearTerm,
    Term,
    linear_draws,
)
from skgpx._numerics import trigonometry
from skgpx._numerics.fourier import (
    Box,
    FourierIndex,
    Integers,
    collapse,
    combination,
    evaluate,
)
from skgpx._numerics.rows import equal_rows
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.bases._basis import Marginals, feature_marginals
from skgpx.bases._eigenvalues import EigenvalueRule
from skgpx.kernels import (
    VALUE,
    FunctionalRows,
    expand,
    sample_frequencies,
    stationary_variance,
)


class FiniteBasis:
    """Basis with draws, residual included, that are sums of finitely many functions.

    A subclass has ``all_features``, which evaluates these, and ``all_terms``.
    """

    def all_features(self, X: Array) -> Array:
        """Values of all functions at the rows of X, shape (n, n_functions)."""
        raise NotImplementedError

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with these weights (n_functions, c, s)."""
        raise NotImplementedError

    def process(self, weights: GaussianWeights) -> FiniteProcess:
        """Distribution of draws as a process that can be conditioned."""
        return FiniteProcess.of_weights(self, weights)

    def process_at(self, weights: GaussianWeights, X: Array) -> FiniteProcess:
        """Process in which rows X (p, d) are observed."""
        del X
        return self.process(weights)


@dataclass(frozen=True)
class FunctionalFeatures:
    """Slopes, means over boxes and differences of ``a [cos ω·x, sin ω·x]``.

    A slope along column j multiplies ``exp(iω·x)`` by ``iω_j``, the mean over a box of
    widths h by ``Π_j sinc(ω_j h_j / 2)``.

    Parameters
    ----------
    features : callable
        Maps points (n, d) to cosines and sines, (n, 2 R).
    waves : ndarray of shape (R, d)
        ω, in radians per unit of the points.
    """

    features: Any
    waves: Array

    def __call__(self, X: Array) -> Array:
        """Features (n, 2 R) of points (n, d), or rows (n, 3 d + 2) of functionals."""
        rows = FunctionalRows.of(X, self.waves.shape[1])
        values = self.features(rows.X)
        if np.any(rows.is_difference):
            is_difference = rows.is_difference[:, np.newaxis]
            values = values - is_difference * self.features(rows.against)
        if np.any(rows.derivative != VALUE):
            cosine, sine = np.hsplit(values, 2)
            omega = self.waves.T[rows.derivative]
            slopes = np.hstack((-omega * sine, omega * cosine))
            is_value = rows.derivative[:, np.newaxis] == VALUE
            values = np.where(is_value, values, slopes)
        if np.any(rows.widths):
            # numpy's sinc has the factor π
            widths, place = equal_rows(rows.widths)
            turns = widths[:, np.newaxis] * self.waves / (2.0 * np.pi)
            factors = np.prod(np.sinc(turns), axis=2)[place]
            values = values * np.tile(factors, 2)
        return values


# ---- Cosines and sines of given frequencies ------------------------------------------


@dataclass(frozen=True)
class Fourier(FiniteBasis):
    """Paired cosines and sines, ``φ(x) = [a cos(ω̃·x), a sin(ω̃·x)]``, ``ω̃ = ω / ℓ``.

    With ``w ~ N(0, I)`` the function ``φ(x)ᵀw`` is a stationary Gaussian process with
    the covariance ``Σ_r a_r² cos(ω̃_r·(x - y))``. It approximates a kernel if the
    frequencies are a sample of its spectral density.

    Parameters
    ----------
    frequencies : ndarray of shape (R, d)
        Angular frequencies ``ω``, in radians per lengthscale.
    amplitudes : ndarray of shape (R,)
        ``a``; the sum of their squares is the variance of the process.
    length_scale : float or ndarray of shape (d,), default=1.0
        ``ℓ``, in the units of the inputs: one for all inputs or one for each.
    tail_variance : float, default=0.0
        Variance of the residual, which is white: the part of the prior variance that
        the frequencies do not carry. Drawn functions leave it out, as they do noise;
        add it to the noise variance when conditioning on observations.

    Notes
    -----
    The features of n rows take O(n R d) time. For random Fourier features see [1]_.

    References
    ----------
    .. [1] Rahimi and Recht, "Random features for large-scale kernel machines", NIPS
       2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Fourier
    >>> basis = Fourier.from_kernel(2.0 * RBF(0.5), 512, 1, np.random.default_rng(0))
    >>> X = np.array([[0.1], [0.4]])
    >>> (basis(X) @ basis(X).T).round(2)
    array([[2.  , 1.67],
           [1.67, 2.  ]])
    >>> (2.0 * RBF(0.5))(X).round(2)
    array([[2.  , 1.67],
           [1.67, 2.  ]])
    """

    frequencies: Array
    amplitudes: Array
    length_scale: float | Array = 1.0
    tail_variance: float = 0.0

    @classmethod
    def from_kernel(
        cls,
        kernel: Kernel,
        n_frequencies: int,
        d: int,
        rng: Generator,
        method: str = "sobol",
    ) -> Fourier:
        """Frequencies from the spectral density of a stationary kernel.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            See :func:`skgpx.kernels.sample_frequencies`, which lists the kernels.
        n_frequencies : int
            Number of frequencies ``R``, best a power of two. A periodic kernel alone
            has its exact cosine series instead.
        d : int
            Number of input columns.
        rng : numpy.random.Generator
        method : {"sobol", "halton", "orthogonal", "mc"}, default="sobol"
            As in :func:`skgpx.kernels.sample_frequencies`.

        Returns
        -------
        basis : Fourier
            With a lengthscale of one: the frequencies contain the kernel's.

        Raises
        ------
        ValueError
            If a part of the kernel has no spectral sampler, or the kernel is a sum.
        """
        omega, amplitudes = sample_frequencies(kernel, n_frequencies, d, rng, method)
        variance = stationary_variance(kernel, d)
        return cls(omega, np.sqrt(variance) * amplitudes)

    @property
    def n_basis(self) -> int:
        """Number of basis functions, ``2 R``."""
        return 2 * len(self.amplitudes)

    @cached_property
    def waves(self) -> FourierFeatures:
        """The feature map, which draws share."""
        return FourierFeatures(self.frequencies / self.length_scale, self.amplitudes)

    def __call__(self, X: Array) -> Array:
        """Features ``[a cos, a sin]`` (n, 2 R); their prior weights are N(0, I)."""
        return self.waves(X)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the residual, `tail_variance`, shape (n,)."""
        del features
        return np.full(len(X), float(self.tail_variance))

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X: white, (n, n)."""
        return np.diag(self.residual_variance(X, features))

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        return feature_marginals(self, weights)

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        return 4 * self.n_basis

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows: all of it."""
        return float(self.tail_variance)

    def draw(
        self,
        weights: Array,
        rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions ``φᵀw`` with these weights (2 R, c, s), without the residual."""
        del rng, prior
        return linear_draws(self.waves, weights)

    def grown(self, process: FiniteProcess) -> Fourier:
        """Return the basis of a process after conditioning, which is the same."""
        del process
        return self

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of: the basis."""
        return self.waves(X)

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with these weights (2 R, c, s)."""
        return linear_draws(self.waves, weights).terms

    def of_functionals(self) -> FunctionalFourier:
        """Return the basis for rows that see functionals of its functions."""
        return FunctionalFourier(self.frequencies, self.amplitudes, self.length_scale)


class FunctionalFourier(Fourier):
    """`Fourier` at rows of functionals, see `FunctionalRows`."""

    @cached_property
    def waves(self) -> Any:
        """The feature map."""
        omega = self.frequencies / self.length_scale
        return FunctionalFeatures(super().waves, omega)

    def level(self, X: Array) -> Array:
        """What each row sees of a constant function of one, (n,)."""
        return FunctionalRows.of(X, self.frequencies.shape[1]).level


# ---- Waves of a box ------------------------------------------------------------------


@dataclass(frozen=True)
class FourierSeries(FiniteBasis):
    """Fourier functions on a box, with independent weights of known variances.

    ::

        f(x) = Σ_{j<=m} √λ_j φ_j(x) w_j + Σ_{j>m} √λ_j φ_j(x) w_j,   w ~ N(0, I)
               ------------------------   ------------------------
               basis                      residual

    Parameters
    ----------
    box : Box
        Origin and period of each input. The functions repeat outside of it.
    functions : FourierIndex
        All functions considered: first the basis, then the residual.
    spectrum : ndarray of shape (J,)
        Their eigenvalues ``λ``. Where the process has infinitely many functions, the
        last half of the residual functions carry the variance of all later ones: the
        variance is exact, the covariance exact up to waves too short to matter.
    n_basis : int
        Size ``m`` of the basis.
    remainder : float, default=0.0
        Variance that no function carries (white).

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.bases import Box, FourierSeries, PolynomialEigenvalues
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> basis = FourierSeries.from_rule(PolynomialEigenvalues(), box, 11)
    >>> X = np.array([[0.1], [0.7]])
    >>> features = basis(X)
    >>> variance = np.sum(features**2, axis=1) + basis.residual_variance(X, features)
    >>> variance.round(3)
    array([1.599, 1.599])
    """

    box: Box
    functions: FourierIndex
    spectrum: Array
    n_basis: int
    remainder: float = 0.0

    @classmethod
    def from_rule(
        cls,
        rule: EigenvalueRule,
        box: Box,
        n_basis: int,
        functions: FourierIndex | None = None,
        n_residual: int = 4096,
    ) -> FourierSeries:
        """Build the basis of a rule.

        Parameters
        ----------
        rule : EigenvalueRule
        box : Box
        n_basis : int
            Size ``m`` of the basis.
        functions : FourierIndex, default=None
            All functions considered, in order; by default the order of the rule.
        n_residual : int, default=4096
            Largest number of functions that carry the residual. Fewer are taken if the
            others would add no variance.
        """
        if functions is None:
            functions = rule.index(box, n_basis + n_residual)
        prior = rule.spectrum(functions, box)
        m = min(n_basis, len(functions))
        total = float(np.sum(prior.eigenvalues)) + prior.tail
        # J functions carry all of the variance but for rounding
        variance_after = total - np.cumsum(prior.eigenvalues)
        # fraction of the variance below which the residual is taken as zero
        n_carrying = 1 + int(np.sum(variance_after > 1e-13 * total))
        n_carrying = min(len(functions), n_carrying)
        J = max(m, n_carrying)
        eigenvalues = prior.eigenvalues[:J].copy()
        # the last half of the residual functions carry the variance of all later ones
        remainder = max(total - float(np.sum(eigenvalues)), 0.0)
        n_noncarriers = (J - m) // 2
        carriers = slice(m + n_noncarriers, J)
        carried = float(np.sum(eigenvalues[carriers]))
        if carried > 0.0:
            eigenvalues[carriers] *= 1.0 + remainder / carried
            remainder = 0.0
        return cls(box, functions.part(slice(J)), eigenvalues, m, remainder)

    @cached_property
    def index(self) -> FourierIndex:
        """The functions of the basis."""
        return self.functions.part(slice(self.n_basis))

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of the basis, shape (m,)."""
        return self.spectrum[: self.n_basis]

    @property
    def variance(self) -> float:
        """Prior variance averaged over the box."""
        return float(np.sum(self.spectrum)) + self.remainder

    @property
    def tail(self) -> float:
        """Residual variance averaged over the box."""
        return float(np.sum(self.spectrum[self.n_basis :])) + self.remainder

    def __call__(self, X: Array) -> Array:
        """Features ``√λ_j φ_j(X)``, shape (n, m); their prior weights are N(0, I)."""
        return _features(self.index, self.eigenvalues, self.box.turns(X))

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the residual, ``Σ_{j>m} λ_j φ_j²``, (n,).

        Constant where sines and cosines have equal eigenvalues.
        """
        del features
        waves, excess = self._excess
        phases = 2.0 * np.pi * (self.box.turns(X) @ waves.T)
        return np.maximum(self.tail + np.cos(phases) @ excess, 0.0)

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X, shape (n, n).

        O(n^2 J).
        """
        residual_features = self.all_features(X)[:, self.n_basis :]
        covariance = residual_features @ residual_features.T
        covariance[np.diag_indices(len(X))] = self.residual_variance(X, features)
        return covariance

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights.

        Sums of waves, without the features, for a normal distribution.
        """
        if isinstance(weights, GaussianWeights):
            return SeriesMarginals(self, weights)
        return feature_marginals(self, weights)

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features and the residual variance of one row."""
        _, excess = self._excess
        return 4 * self.n_basis + 2 * len(excess)

    def draw(
        self,
        weights: Array,
        rng: Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with these weights (m, c, s) and a drawn residual.

        Options of the prior are for other bases: here the residual is a finite sum.
        """
        del prior
        _, n_outputs, n_draws = weights.shape
        n_residual = self.n_functions - self.n_basis
        residual_weights = rng.standard_normal((n_residual, n_outputs, n_draws))
        terms = self.all_terms(np.concatenate((weights, residual_weights)))
        return FunctionDraws(terms, n_outputs, n_draws)

    @property
    def n_functions(self) -> int:
        """Functions that draws are combinations of."""
        return len(self.spectrum)

    @cached_property
    def _all_waves(self) -> tuple[Any, Index]:
        """Features of all waves, and the place of each function among them."""
        # one object: terms of the same feature map are evaluated as one
        return _waves_of(self.box, self.functions)

    def grown(self, process: FiniteProcess) -> FourierSeries:
        """Return the basis of a process after conditioning on values."""
        return replace(self, n_basis=process.n_known)

    def of_functionals(self) -> FunctionalSeries:
        """Return the basis for rows that see functionals of its functions."""
        return FunctionalSeries(**_fields_of_series(self))

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows."""
        return self.remainder

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of, residual included, (n, J)."""
        return _features(self.functions, self.spectrum, self.box.turns(X))

    def all_terms(self, weights: Array) -> tuple[LinearTerm, ...]:
        """Terms of the functions with whitened weights (J, c, s)."""
        _, n_outputs, n_draws = weights.shape
        features, place = self._all_waves
        scale = np.sqrt(2.0 * self.spectrum) * self.functions.scales()
        # cosines of all waves, then sines
        n_waves = len(features.waves)
        wave_weights = np.zeros((2 * n_waves, n_outputs, n_draws))
        wave_weights[place] = scale[:, np.newaxis, np.newaxis] * weights
        return (LinearTerm(features, wave_weights),)

    @cached_property
    def _excess(self) -> tuple[Integers, Array]:
        """Doubled waves and cosines of the residual variance that do not cancel."""
        residual = self.functions.part(slice(self.n_basis, None))
        eigenvalues = self.spectrum[self.n_basis :]
        # λ_c 2 cos² + λ_s 2 sin² = (λ_c + λ_s) + (λ_c - λ_s) cos 2
        signs = np.where(residual.sine, -1.0, 1.0)
        waves, place = residual.distinct()
        excess = np.zeros(len(waves))
        np.add.at(excess, place, eigenvalues * signs)
        # the constant function does not vary
        varies = waves.any(axis=1)
        is_large = np.abs(excess) > 1e-15 * self.variance
        counts = varies & is_large
        return 2 * waves[counts], excess[counts]


@dataclass(frozen=True)
class FunctionalSeries(FourierSeries):
    """`FourierSeries` at rows of functionals, see `FunctionalRows`.

    Parameters
    ----------
    box : Box
    functions : FourierIndex
    spectrum : ndarray of shape (J,)
    n_basis : int
    remainder : float, default=0.0
        As in :class:`FourierSeries`.
    region : ndarray of shape (d, 2), default=None
        Where the series stands for its process; None for its box.
    """

    region: Array | None = None

    def __call__(self, X: Array) -> Array:
        """Features, shape (n, m); their prior weights are N(0, I)."""
        return self._seen(slice(self.n_basis), X)

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of, residual included, (n, J)."""
        return self._seen(slice(None), X)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the functionals of the residual, (n,)."""
        del features
        if self.n_basis == self.n_functions:
            return np.zeros(len(X))
        return np.sum(self._seen(slice(self.n_basis, None), X) ** 2, axis=1)

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        return feature_marginals(self, weights)

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features and the residual of one row."""
        return 8 * self.n_functions

    def level(self, X: Array) -> Array:
        """What each row sees of a constant function of one, (n,)."""
        return FunctionalRows.of(X, len(self.box.period)).level

    @cached_property
    def _all_waves(self) -> tuple[Any, Index]:
        return functional_waves(self.box, self.functions)

    def _seen(self, part: slice, X: Array) -> Array:
        """Functionals of a part of the functions, ``√λ_j Lφ_j``."""
        rows = FunctionalRows.of(X, len(self.box.period))
        if self.region is not None:
            low, high = self.region.T
            corners = rows.corners()
            if np.any((corners < low) | (corners > high)):
                raise ValueError(
                    "Slopes, means over boxes and differences are predicted in the "
                    f"region of the Fourier functions, {self.region.tolist()}, with "
                    "all of a box; got rows beyond it. Fit with a wider `domain`."
                )
        index = self.functions.part(part)
        features, place = functional_waves(self.box, index)
        scale = np.sqrt(2.0 * self.spectrum[part]) * index.scales()
        return features(X)[:, place] * scale


def functional_waves(box: Box, index: FourierIndex) -> tuple[FunctionalFeatures, Index]:
    """Functionals of all waves of some functions, and the column of each function."""
    features, columns = _waves_of(box, index)
    return FunctionalFeatures(features, box.frequencies(features.waves)), columns


def _waves_of(box: Box, index: FourierIndex) -> tuple[BoxFourierFeatures, Index]:
    """Features of all waves of some functions, and the column of each function."""
    waves, place = index.distinct()
    return BoxFourierFeatures(box, waves), place + len(waves) * index.sine


@dataclass(frozen=True)
class BoxFourierFeatures:
    """``[cos, sin]`` of the waves of a box, shape (n, 2 R), without large phases.

    Parameters
    ----------
    box : Box
    waves : ndarray of shape (R, d)
        Integer vectors.
    """

    box: Box
    waves: Integers

    @cached_property
    def _features(self) -> FourierFeatures:
        omega = 2.0 * np.pi * self.waves.astype(np.float64)
        return FourierFeatures(omega, np.ones(len(omega)))

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        return self._features(self.box.turns(X))

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        self._features.contract(self.box.turns(X), weights, out)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        turns = np.ascontiguousarray(self.box.turns(X))
        values, slopes = self._features.pairs(turns, weights, index)
        return values, slopes / self.box.period


class SeriesMarginals:
    """Mean and variance of ``f(x)`` as sums of waves.

    Equal to the moments of a latent model of the basis and the distribution, to
    rounding error. Built once in O(m^2); a row then costs O(m) in one dimension, and
    ``Π (4 reach_i + 2)`` multiplications in more, instead of O(m^2).

    Parameters
    ----------
    basis : FourierSeries
    weights : GaussianWeights
        Distribution of the whitened weights of c outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx._numerics.weights import GaussianWeights
    >>> from skgpx.bases import Box, FourierSeries, PolynomialEigenvalues
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> basis = FourierSeries.from_rule(PolynomialEigenvalues(), box, 11)
    >>> prior = GaussianWeights(np.zeros((11, 1)), np.eye(11)[np.newaxis])
    >>> mean, variance = basis.marginals(prior)(np.array([[0.1], [0.7]]))
    >>> variance.ravel().round(3)
    array([1.599, 1.599])
    """

    def __init__(self, basis: FourierSeries, weights: GaussianWeights):
        self.basis = basis
        self.weights = weights
        index = basis.index
        scale = np.sqrt(basis.eigenvalues)
        mean, roots = weights.moments()
        self._n_outputs = mean.shape[1]
        # the means, then the variances Σ_jk C_jk φ_j φ_k, as sums of waves
        self._tables = [combination(index, scale * column) for column in mean.T]
        scaled_roots = scale[:, np.newaxis] * roots
        self._tables += [collapse(index, root @ root.T) for root in scaled_roots]

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance at the rows of X (n, d), each of shape (n, c, 1)."""
        turns = self.basis.box.turns(X)
        values = evaluate(self._tables, turns)
        mean = values[:, : self._n_outputs, np.newaxis]
        # Φᵀ C Φ + var g; g has the same variance for all outputs
        explained = np.maximum(values[:, self._n_outputs :], 0.0)
        residual = self.basis.residual_variance(X, values)
        variance = explained + residual[:, np.newaxis]
        return mean, np.broadcast_to(variance[:, :, np.newaxis], mean.shape)


def _features(index: FourierIndex, eigenvalues: Array, turns: Array) -> Array:
    """``√λ_j φ_j`` at turns (n, d), shape (n, m)."""
    waves, place = index.distinct()
    n_waves = len(waves)
    # cosines of all waves, then sines
    values = np.empty((2 * n_waves, len(turns)))
    trigonometry.cosines_and_sines(
        np.ascontiguousarray(turns.T),
        waves.astype(np.float64),
        np.ones(n_waves),
        values,
    )
    features = values[place + n_waves * index.sine]
    features *= (np.sqrt(2.0 * eigenvalues) * index.scales())[:, np.newaxis]
    return features.T


# ---- Fourier functions on a box, continued by the prior where they only repeat -------
# With ``e`` the point of a region nearest to ``x``, ``ρ(x)`` a correlation that falls
# from one at the edge of the region, and ``q`` an independent draw of the prior::
#
#     f(x) = ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)
#
# ``c`` is the constant part of the prior, if it has one, which does not fade; ``q`` has
# the covariance of the prior without it. f is continuous at the edge, and far away it
# is c plus a draw of the prior.


@dataclass(frozen=True)
class Continuation:
    """Where a series stands for its process, and how its influence fades outside.

    The correlation ρ at a step from the region is the correlation of the prior without
    its constant part. A series has a periodic correlation: it is read up to half a
    period, and multiplied by a taper ``(1 - |τ|)₊³ (1 + 3|τ|)`` at τ periods.

    Parameters
    ----------
    region : ndarray of shape (d, 2)
        Lower and upper end of each input.
    covariance : LinearTerm
        Covariance of the prior, as a function of the step; of a series, in periods.
    fresh : float
        Variance of ``q``, the prior without the constant part.
    level : float, default=0.0
        Variance of the constant part ``c`` of the prior. If the prior has no other
        part, all correlations are zero.
    period : ndarray of shape (d,), optional
        Period of the covariance.
    """

    region: Array
    covariance: LinearTerm
    fresh: float
    level: float = 0.0
    period: Array | None = None

    def outside(self, X: Array) -> Index:
        """Rows of X (n, d) that are not in the region."""
        low, high = self.region.T
        is_outside = (low > X) | (high < X)
        return np.flatnonzero(np.any(is_outside, axis=1))

    def place(self, X: Array) -> tuple[Array, Array]:
        """Nearest points E (n, d), and the correlations ρ (n,); one inside."""
        low, high = self.region.T
        E = np.clip(X, low, high)
        rho = np.ones(len(X))
        rows = self.outside(X)
        rho[rows] = self.correlations(X[rows] - E[rows])
        return E, rho

    def correlations(self, steps: Array) -> Array:
        """ρ at steps (n, d) from the region, shape (n,); one at zero."""
        arguments, _, length = self._turns(steps)
        values = np.zeros((len(steps), 1, 1))
        if self._varies and len(steps):
            self.covariance.add_to(values, arguments)
            values = (values - self.level) / self.fresh
        return np.clip(values[:, 0, 0], -1.0, 1.0) * _taper(length)

    def slopes(self, X: Array) -> Array:
        """Gradients of ρ, shape (n, d).

        Raises
        ------
        ValueError
            If a kernel has no known derivative in its inputs.
        """
        low, high = self.region.T
        steps = X - np.clip(X, low, high)
        if not self._varies:
            return np.zeros_like(X)
        arguments, turns, length = self._turns(steps)
        first_function = np.zeros(len(X), np.intp)
        values, slopes = self.covariance.pairs(arguments, first_function)
        # product rule; beyond half a period the covariance is constant
        is_read = np.abs(turns) < 0.5
        taper = _taper(length)[:, np.newaxis]
        gradient = slopes[:, 0] * is_read * taper
        # d taper / dτ = -12 (1 - |τ|)² τ
        complement = np.maximum(1.0 - length, 0.0)
        taper_factor = -12.0 * complement**2
        covariance = values[:, 0] - self.level
        weighted_covariance = covariance * taper_factor
        gradient += weighted_covariance[:, np.newaxis] * turns
        # ρ is the covariance over its value at zero; per unit of the inputs
        gradient_scale: float | Array = self.fresh
        if self.period is not None:
            gradient_scale = self.fresh * self.period
        gradient /= gradient_scale
        # e moves with x along the sides of the region
        return np.where(steps == 0.0, 0.0, gradient)

    @property
    def _varies(self) -> bool:
        return self.fresh > 1e-12 * (self.fresh + self.level)

    def _turns(self, steps: Array) -> tuple[Array, Array, Array]:
        """Arguments of the covariance and of the taper at steps (n, d).

        Returns
        -------
        arguments : ndarray of shape (n, d)
            Arguments of the covariance: for a series in periods, at most a half.
        turns : ndarray of shape (n, d)
            Steps in periods, at most one; zero for a kernel, which has no taper.
        length : ndarray of shape (n,)
            Length of the turns.
        """
        if self.period is None:
            return steps, np.zeros_like(steps), np.zeros(len(steps))
        turns = np.clip(steps / self.period, -1.0, 1.0)
        arguments = np.clip(turns, -0.5, 0.5)
        length = np.linalg.norm(turns, axis=1)
        return arguments, turns, length


def _taper(length: Array) -> Array:
    """``(1 - r)₊³ (1 + 3 r)``, with two continuous derivatives; one at zero."""
    complement = np.maximum(1.0 - length, 0.0)
    return complement**3 * (1.0 + 3.0 * length)


def independent_factor(rho: Array) -> Array:
    """Factor of the independent part, ``√(1 - ρ²)``."""
    return np.sqrt((1.0 - rho) * (1.0 + rho))


def _fields_of_series(series: FourierSeries) -> dict[str, Any]:
    """Fields of FourierSeries, without the fields of a subclass."""
    return {field.name: getattr(series, field.name) for field in fields(FourierSeries)}


@dataclass(frozen=True)
class FadingFeatures:
    """Waves times a factor of ρ: one of the three parts of a continued series.

    Parameters
    ----------
    features : BoxFourierFeatures
    continuation : Continuation
    part : {"edge", "level", "prior"}
        ``ρ φ(e(x))``, ``(1 - ρ) φ(x)`` of the constant wave, or ``√(1 - ρ²) φ(x)``.
    """

    features: BoxFourierFeatures
    continuation: Continuation
    part: str

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.continuation.region)

    def _place(self, X: Array) -> tuple[Array, Array, Array]:
        """Inputs of the waves (n, d), the factors (n,) and the correlations (n,)."""
        E, rho = self.continuation.place(X)
        if self.part == "edge":
            return E, rho, rho
        if self.part == "level":
            return X, 1.0 - rho, rho
        return X, independent_factor(rho), rho

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        inputs, factor, _ = self._place(X)
        return factor[:, np.newaxis] * self.features(inputs)

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` to out."""
        inputs, factor, _ = self._place(X)
        rows = np.flatnonzero(factor)
        if not len(rows):
            return
        values = np.zeros((len(rows), out.shape[1]))
        self.features.contract(inputs[rows], weights, values)
        out[rows] += factor[rows, np.newaxis] * values

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        inputs, factor, rho = self._place(X)
        values, slopes = self.features.pairs(inputs, weights, index)
        # derivative of the factor in ρ
        if self.part == "edge":
            factor_slope = np.ones_like(rho)
            # e does not move with x across the sides of the region
            slopes = np.where(inputs == X, slopes, 0.0)
        elif self.part == "level":
            factor_slope = -np.ones_like(rho)
        else:
            # d√(1 - ρ²) = -ρ dρ / √(1 - ρ²)
            zeros = np.zeros_like(rho)
            factor_slope = np.divide(-rho, factor, out=zeros, where=factor > 0.0)
        slopes = factor[:, np.newaxis] * slopes
        rows = self.continuation.outside(X)
        if len(rows):
            rho_slopes = self.continuation.slopes(X[rows])
            value_slopes = factor_slope * values
            slopes[rows] += value_slopes[rows, np.newaxis] * rho_slopes
        return factor * values, slopes


@dataclass(frozen=True)
class ContinuedSeries(FourierSeries):
    """`FourierSeries` on a region of its box, with the prior outside of it.

    Parameters
    ----------
    box : Box
        Origin and period of each input.
    functions : FourierIndex
        Functions of the basis, then of the residual.
    spectrum : ndarray of shape (J,)
        Their eigenvalues, as in :class:`FourierSeries`.
    n_basis : int
        Size of the basis.
    remainder : float, default=0.0
        Variance that no function carries (white).
    continuation : Continuation, optional
        Definition of the process outside of a region; see :meth:`of`.

    Notes
    -----
    With ``e`` the point of the region nearest to x, ``ρ`` the correlation of f(x) and
    f(e), ``c`` the constant part of the prior and q an independent draw of the prior
    without c, the process outside is ``ρ f(e) + (1 - ρ) c + √(1 - ρ²) q(x)``: the
    series at the edge, and the prior far away. As ``E(c | w)`` is a multiple of the
    constant function of the basis, this is again a basis and a residual.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import Box, ContinuedSeries, FourierSeries, KernelEigenvalues
    >>> rule = KernelEigenvalues(RBF(0.1))
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> series = FourierSeries.from_rule(rule, box, 31)
    >>> series = ContinuedSeries.of(series, np.array([[0.0, 0.6]]), rule.kernel)
    >>> X = np.array([[0.6], [0.7], [9.0]])
    >>> features = series(X)
    >>> np.sum(features**2, axis=1).round(3)
    array([1.   , 0.368, 0.   ])
    >>> variance = np.sum(features**2, axis=1) + series.residual_variance(X, features)
    >>> variance.round(6)
    array([1., 1., 1.])
    """

    # always set by `of`; the last field of a series has a default, so this needs one
    continuation: Continuation = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls,
        series: FourierSeries,
        region: Array,
        kernel: Kernel | None = None,
    ) -> ContinuedSeries:
        """Return the series with the prior outside of a region (d, 2).

        Parameters
        ----------
        series : FourierSeries
        region : ndarray of shape (d, 2)
            Within one period of the box.
        kernel : sklearn.gaussian_process.kernels.Kernel, default=None
            Stationary covariance, by which correlations fade. None takes the
            correlations of the series up to half a period, tapered to zero at one.
        """
        continued = cls(**_fields_of_series(series))
        if kernel is None:
            # continuation by the covariance of the series, ``Σ λ cos``, in periods
            d = len(region)
            waves, power = continued._powers
            cosines = continued.variance / np.sum(power) * power
            sines = np.zeros_like(cosines)
            amplitudes = np.concatenate((cosines, sines))
            unit_box = Box(np.zeros(d), np.ones(d))
            features = BoxFourierFeatures(unit_box, waves)
            continuation = Continuation(
                region,
                covariance=LinearTerm(features, amplitudes[:, np.newaxis, np.newaxis]),
                fresh=continued.variance,
                period=continued.box.period,
            )
        else:
            # continuation by the covariance of a kernel
            origin = np.zeros((1, len(region)))
            section = KernelFeatures(kernel, origin)
            # a constant that the basis does not have fades with the rest
            level = 0.0
            has_constant = not continued.index.waves.any(axis=1).all()
            if has_constant:
                constants = [
                    term.coefficient for term in expand(kernel) if not term.factors
                ]
                level = sum(constants)
            # the series may have more, where lengthscales are long for the box
            variance = float(kernel.diag(origin)[0])
            continuation = Continuation(
                region,
                covariance=LinearTerm(section, np.ones((1, 1, 1))),
                fresh=max(variance - level, 0.0),
                level=level,
            )
        return replace(continued, continuation=continuation)

    def __call__(self, X: Array) -> Array:
        """Features ``√λ_j φ_j(X)``, shape (n, m)."""
        E, rho = self.continuation.place(X)
        faded = rho[:, np.newaxis] * super().__call__(E)
        return self._with_level(faded, rho)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance that the basis leaves over, shape (n,)."""
        E, rho = self.continuation.place(X)
        edge_variance = super().residual_variance(E, features)
        # ρ² var g(e) + (1 - ρ)² var(c | w) + (1 - ρ²) var q
        edge = rho**2 * edge_variance
        _, _, level_variance = self._level
        level = (1.0 - rho) ** 2 * level_variance
        prior = (1.0 - rho**2) * self.continuation.fresh
        return edge + level + prior

    def marginals(self, weights: WeightDistribution) -> Marginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        outer_moments = feature_marginals(self, weights)
        if not isinstance(weights, GaussianWeights):
            return outer_moments
        inner_moments = self._inside.marginals(weights)

        def moments(X: Array) -> tuple[Array, Array]:
            E, _ = self.continuation.place(X)
            mean, variance = inner_moments(E)
            rows = self.continuation.outside(X)
            if len(rows):
                mean = mean.copy()
                variance = variance.copy()
                mean[rows], variance[rows] = outer_moments(X[rows])
            return mean, variance

        return moments

    def process_at(self, weights: GaussianWeights, X: Array) -> FiniteProcess:
        """Process in which rows X (p, d) are observed.

        Raises
        ------
        ValueError
            If a row is outside of the region, where this basis cannot represent it.
        """
        if len(self.continuation.outside(X)):
            raise ValueError(
                "A model on Fourier functions can only be conditioned on rows of its "
                f"region {self.continuation.region.tolist()}. Fit with a wider "
                "`domain`, or condition its draws, which can be observed anywhere."
            )
        return FiniteProcess.of_weights(self._inside, weights)

    def of_functionals(self) -> FunctionalSeries:
        """Return the basis for rows of functionals within its region."""
        return replace(super().of_functionals(), region=self.continuation.region)

    @property
    def n_functions(self) -> int:
        """Functions of a draw: of the series, of q, and of the constant given w."""
        return len(self.spectrum) + self._independent.n_basis + 1

    def all_features(self, X: Array) -> Array:
        """Functions that draws are combinations of, (n, `n_functions`)."""
        E, rho = self.continuation.place(X)
        # ρ f(e) + (1 - ρ) E(c | w)
        edge_factor = rho[:, np.newaxis]
        faded = edge_factor * super().all_features(E)
        edge = self._with_level(faded, rho)
        # √(1 - ρ²) q
        prior_factor = independent_factor(rho)[:, np.newaxis]
        prior = prior_factor * self._independent(X)
        # the deviation of c from E(c | w), times 1 - ρ
        _, _, level_variance = self._level
        level = np.sqrt(level_variance) * (1.0 - edge_factor)
        return np.concatenate((edge, prior, level), axis=1)

    def all_terms(self, weights: Array) -> tuple[LinearTerm, ...]:
        """Terms of the functions with whitened weights of all, see `all_features`."""
        J = len(self.spectrum)
        (edge_term,) = super().all_terms(weights[:J])
        (prior_term,) = self._independent.all_terms(weights[J:-1])
        # c = E(c | w) + √var(c | w) times the last weight
        place, weight, variance = self._level
        deviation = np.sqrt(variance) * weights[-1:]
        level = deviation + weight * weights[place]
        level_weights = np.concatenate((level, 0.0 * level))
        edge, prior, level_features = self._parts
        return (
            LinearTerm(edge, edge_term.weights),
            LinearTerm(prior, prior_term.weights),
            LinearTerm(level_features, level_weights),
        )

    @cached_property
    def _parts(self) -> tuple[FadingFeatures, FadingFeatures, FadingFeatures]:
        # one object each: terms of the same feature map are evaluated as one
        series_waves, _ = self._all_waves
        prior_waves, _ = self._independent._all_waves
        d = len(self.box.period)
        constant_wave = BoxFourierFeatures(self.box, np.zeros((1, d), int))
        return (
            FadingFeatures(series_waves, self.continuation, "edge"),
            FadingFeatures(prior_waves, self.continuation, "prior"),
            FadingFeatures(constant_wave, self.continuation, "level"),
        )

    def _with_level(self, features: Array, rho: Array) -> Array:
        """Add ``(1 - ρ) E(c | w)`` to features that have the constant function."""
        place, weight, _ = self._level
        if weight > 0.0:
            features[:, place] += (1.0 - rho) * weight
        return features

    @property
    def _inside(self) -> FourierSeries:
        return FourierSeries(**_fields_of_series(self))

    @cached_property
    def _level(self) -> tuple[int, float, float]:
        """Of the constant c: its place, its weight in E(c | w), and var(c | w)."""
        level = self.continuation.level
        if not level:
            return 0, 0.0, 0.0
        place = int(np.argmin(self.index.waves.any(axis=1)))
        weight = level / float(np.sqrt(self.spectrum[place]))
        variance = max(level - weight**2, 0.0)
        return place, weight, variance

    @property
    def _powers(self) -> tuple[Integers, Array]:
        """Distinct waves, and the prior variance of sine and cosine of each."""
        waves, place = self.functions.distinct()
        power = np.bincount(place, self.spectrum, len(waves))
        return waves, power.astype(np.float64)

    @cached_property
    def _independent(self) -> FourierSeries:
        """Stationary prior without its constant part, as a basis of all functions."""
        waves, power = self._powers
        continuation = self.continuation
        varies = waves.any(axis=1)
        is_constant = ~varies
        constant_power = power[is_constant] - continuation.level
        power[is_constant] = np.maximum(constant_power, 0.0)
        total = max(float(power.sum()), np.finfo(float).tiny)
        power *= continuation.fresh / total
        # the constant, then cosines, then sines, with half of the power each
        constant = waves[is_constant]
        varying = waves[varies]
        half_power = 0.5 * power[varies]
        all_waves = np.concatenate((constant, varying, varying))
        spectrum = np.concatenate((power[is_constant], half_power, half_power))
        n_functions = len(all_waves)
        is_sine = np.arange(n_functions) >= len(waves)
        index = FourierIndex(all_waves, is_sine, np.ones(n_functions))
        return FourierSeries(self.box, index, spectrum, n_functions)
