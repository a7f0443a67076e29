"""What likelihoods of class numbers share: one latent output for each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import _predictive
from skgpx.likelihoods._base import Likelihood

Array = NDArray[np.float64]


class ClassNumbers(Likelihood):
    """K classes, encoded 0, ..., K - 1: f has shape (n, K, s), y has shape (n,).

    A subclass writes `nll`, `gradient`, `curvature`, `sample`, `probabilities` and
    `predict_proba`; none is elementwise, and functions of y and f return (n, s).
    """

    discrete = True

    def probabilities(self, f: Array) -> Array:
        """``P(y = k | f)`` of latent values (n, K, s), of the same shape."""
        raise NotImplementedError(self._missing("probabilities(f)"))

    def predict_proba(self, mixture: LatentMixture) -> Array:
        """Probabilities of the classes, averaged over the mixture, shape (n, K)."""
        raise NotImplementedError(self._missing("predict_proba(mixture)"))

    def mean(self, f: ArrayLike) -> Array:
        """Mean of the class number, shape (n, s)."""
        p = self.probabilities(np.asarray(f, dtype=np.float64))
        return np.einsum("nks,k->ns", p, np.arange(float(p.shape[1])))

    def variance(self, f: ArrayLike) -> Array:
        """Variance of the class number, shape (n, s)."""
        p = self.probabilities(np.asarray(f, dtype=np.float64))
        number = np.arange(float(p.shape[1]))[np.newaxis, :, np.newaxis]
        mean = np.sum(p * number, axis=1, keepdims=True)
        return np.sum(p * (number - mean) ** 2, axis=1)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Probability of the classes up to y, shape (n, s)."""
        y, f = as_arrays(y, f)
        counted = np.arange(f.shape[1]) <= y[:, np.newaxis]
        p = self.probabilities(f)
        return np.einsum("nks,nk->ns", p, counted.astype(np.float64))

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless y holds 0, 1, ..., with at least two classes."""
        super().check_support(y)
        name = type(self).__name__
        bad = y[(y < 0.0) | (y != np.floor(y))]
        if bad.size:
            raise ValueError(
                f"{name} expects y = 0, 1, ..., K - 1; got {bad.size} negative or"
                f" fractional values, for example {bad[0]:g}. Encode the classes as"
                " integers."
            )
        if not y.size or np.max(y) < 1.0:
            raise ValueError(
                f"{name} expects at least two classes; got one class only."
            )

    def _count_outputs(self, y: Array) -> int:
        return int(np.max(y)) + 1

    def row_nll(self, y: Array, f: Array) -> Array:
        """Call `nll`, which works on rows already."""
        return self.nll(y, f)

    def row_gradient(self, y: Array, f: Array) -> Array:
        """Call `gradient`, which works on rows already."""
        return self.gradient(y, f)

    def row_curvature(self, y: Array, f: Array) -> Array:
        """Call `curvature`, which works on rows already."""
        return self.curvature(y, f)

    def row_mean(self, f: Array) -> Array:
        """Call `mean`, which works on rows already."""
        return self.mean(f)

    def row_variance(self, f: Array) -> Array:
        """Call `variance`, which works on rows already."""
        return self.variance(f)

    def row_cdf(self, y: Array, f: Array) -> Array:
        """Call `cdf`, which works on rows already."""
        return self.cdf(y, f)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """Smallest class number with ``P(Y <= y) >= p`` for each p (q,), (n, q)."""
        return _predictive.class_quantile(p, self.predict_proba(mixture))


def as_arrays(y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
    """Targets and latent values as arrays of doubles."""
    return np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)


def of_observed(values: Array, y: Array) -> Array:
    """Values (n, K, ...) of the observed class, shape (n, ...)."""
    return values[np.arange(values.shape[0]), y.astype(np.intp)]


def one_hot(y: Array, n_outputs: int) -> Array:
    """One in the column of the class of each row, (n, n_outputs)."""
    return (y[:, np.newaxis] == np.arange(n_outputs)).astype(np.float64)
