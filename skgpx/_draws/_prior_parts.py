"""The independent parts of a Gaussian process, each with its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel

from skgpx._draws._features import (
    FeatureMap,
    FourierFeatures,
    LinearFeatures,
    ones,
    section_terms,
)
from skgpx._draws._functions import FunctionDraws
from skgpx.kernels import (
    GREKernel,
    Monomial,
    PeriodicLaw,
    SpectralLaw,
    expand,
    no_sampler,
    spectral_laws,
    warped_sample,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Largest number of tensor features of a product of linear kernels; each is multiplied
# by all waves of a stationary factor.
_LARGEST_TENSOR = 512


@dataclass(frozen=True)
class GREFeatures:
    """``k(·, S) √p``: the features of the finite-rank part of a GREKernel."""

    kernel: GREKernel

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, number of support points)."""
        features: Array = self.kernel.features(X)
        return features

    def draws(self, weights: Array) -> FunctionDraws:
        """Functions with these weights (m, c, s), in compiled loops if possible."""
        masses = np.sqrt(self.kernel.masses)[:, np.newaxis, np.newaxis]
        support = np.asarray(self.kernel.support, dtype=np.float64)
        terms = section_terms(self.kernel.kernel, support, masses * weights)
        return FunctionDraws(terms, *weights.shape[1:])


@dataclass(frozen=True)
class TensorFeatures:
    """All products of one feature of each factor: the features of a product kernel."""

    factors: tuple[FeatureMap, ...]

    @property
    def n_features(self) -> int | None:
        """Number of input columns."""
        return getattr(self.factors[0], "n_features", None)

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, the last factor varying fastest."""
        product = self.factors[0](X)
        for factor in self.factors[1:]:
            product = (product[:, :, np.newaxis] * factor(X)[:, np.newaxis, :]).reshape(
                X.shape[0], -1
            )
        return product

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X."""
        first, others = self.factors[0], self.factors[1:]
        rest = others[0] if len(others) == 1 else TensorFeatures(others)
        f, g = first(X), rest(X)
        # fᵀ W g with the rows of each function together: W is large
        by_first, by_rest = np.empty(f.shape), np.empty(g.shape)
        for i in np.unique(index):
            rows = index == i
            W = weights[i].reshape(f.shape[1], g.shape[1])
            by_first[rows], by_rest[rows] = g[rows] @ W.T, f[rows] @ W
        each = np.arange(len(X))
        values, slopes = first.pairs(X, by_first, each)  # type: ignore[attr-defined]
        _, others_slopes = rest.pairs(X, by_rest, each)  # type: ignore[attr-defined]
        return values, slopes + others_slopes


@dataclass(frozen=True)
class Setting:
    """How frequencies are sampled: number, net or random, enrichment of the tail.

    Also whether their waves are kept in single precision.
    """

    n_frequencies: int
    method: str = "qmc"
    tail_power: float = 1.0
    single_precision: bool = False


@dataclass(frozen=True)
class Part:
    """A term of the expanded kernel: variance, exact feature maps and spectral laws.

    Parameters
    ----------
    variance : float
        Factor of the covariance.
    exact : tuple of FeatureMap
        Those of its non-stationary factors.
    laws : tuple of SpectralLaw
        Laws of its stationary factors.
    d : int
        Number of input columns.
    """

    variance: float
    exact: tuple[FeatureMap, ...]
    laws: tuple[SpectralLaw, ...]
    d: int

    @property
    def is_exact(self) -> bool:
        """Whether its features are deterministic."""
        return not self.laws or (
            len(self.laws) == 1 and isinstance(self.laws[0], PeriodicLaw)
        )

    def size(self, X: Array) -> float:
        """Mean prior variance at the rows of X; stationary factors count as one."""
        total = np.full(X.shape[0], self.variance)
        for feature_map in self.exact:
            total *= np.sum(feature_map(X) ** 2, axis=1)
        return float(np.mean(total))

    def feature_map(self, setting: Setting, rng: np.random.Generator) -> FeatureMap:
        """Features of the part, without the factor √variance."""
        maps = self.exact
        if self.laws:
            n, how, power = (
                setting.n_frequencies,
                setting.method,
                setting.tail_power,
            )
            sample = warped_sample(self.laws, n, self.d, rng, how, power)
            waves = FourierFeatures(
                sample.frequencies, sample.amplitudes, setting.single_precision
            )
            maps = (*maps, waves)
        if not maps:
            return ones
        return maps[0] if len(maps) == 1 else TensorFeatures(maps)


def decompose(kernel: Any, d: int) -> list[Part]:
    """Independent parts of the process with this kernel, observation noise left out.

    Raises
    ------
    ValueError
        If a part has no features; the message names it.
    """
    parts: list[Part] = []
    for term in expand(kernel):
        types = [type(factor) for factor in term.factors]
        if types == [WhiteKernel]:
            continue
        if types == [GREKernel]:
            parts += _gre_parts(term, d)
        else:
            parts.append(_part(term, kernel, d))
    return parts


def _gre_parts(term: Monomial, d: int) -> list[Part]:
    """``k(·, S) √p``, which has the finite-rank covariance, and the background."""
    gre = term.factors[0]
    finite = Part(term.coefficient, (GREFeatures(gre),), (), d)
    if gre.background == 0.0:
        return [finite]
    factor = term.coefficient * gre.background
    background = decompose(gre.background_kernel(), d)
    return [
        finite,
        *(Part(factor * b.variance, b.exact, b.laws, d) for b in background),
    ]


def _part(term: Monomial, whole: Any, d: int) -> Part:
    linear = [k for k in term.factors if type(k) is DotProduct]
    others = tuple(k for k in term.factors if type(k) is not DotProduct)
    for k in others:
        if type(k) in (WhiteKernel, GREKernel):
            raise no_sampler(k, whole, " inside a product")
    if (d + 1) ** len(linear) > _LARGEST_TENSOR:
        raise no_sampler(
            linear[0], whole, f" in a product of {len(linear)} in {d} input columns"
        )
    laws = spectral_laws(Monomial(1.0, others), whole, d)
    variance = term.coefficient
    for k in others:
        variance *= float(k.diag(np.zeros((1, d)))[0])
    return Part(variance, tuple(LinearFeatures(k.sigma_0, d) for k in linear), laws, d)
