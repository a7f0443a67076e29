"""Bases of cosines and sines: of given frequencies, and of the waves of a box."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skgpx._draws import (
    FiniteProcess,
    FourierFeatures,
    FunctionDraws,
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
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.bases._basis import Marginals, feature_marginals
from skgpx.bases._eigenvalues import EigenvalueRule
from skgpx.kernels import sample_frequencies

# Functions that carry the residual, in addition to the basis.
_MOST_RESIDUAL = 4096


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
        origin = np.zeros((1, d))
        variance = float(kernel.diag(origin)[0])
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
        n_residual: int = _MOST_RESIDUAL,
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
    def _all_waves(self) -> tuple[BoxFourierFeatures, Index]:
        """Features of all waves, and the place of each function among them."""
        # one object: terms of the same feature map are evaluated as one
        waves, place = self.functions.distinct()
        features = BoxFourierFeatures(self.box, waves)
        return features, place + len(waves) * self.functions.sine

    def grown(self, process: FiniteProcess) -> FourierSeries:
        """Return the basis of a process after conditioning on values."""
        return replace(self, n_basis=process.n_known)

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
    >>> from skgpx.bases import SeriesMarginals
    >>> box = Box(np.zeros(1), np.ones(1))
    >>> basis = FourierSeries.from_rule(PolynomialEigenvalues(), box, 11)
    >>> prior = GaussianWeights(np.zeros((11, 1)), np.eye(11)[np.newaxis])
    >>> mean, variance = SeriesMarginals(basis, prior)(np.array([[0.1], [0.7]]))
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
        for root in scale[:, np.newaxis] * roots:
            self._tables.append(collapse(index, root @ root.T))

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
