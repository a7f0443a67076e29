"""Features that do not need a kernel: constants, inputs, waves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, sgemm

from skgpx._numerics import trigonometry

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def contract_blocks(
    X: Array,
    weights: Array,
    fill: Callable[[Array, Array], None],
    out: Array,
    single_precision: bool = False,
) -> None:
    """Add ``F(X) @ weights``, with features that are made block by block in the cache.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    weights : ndarray of shape (m, k), C-contiguous
        Coefficients.
    fill : callable
        ``fill(points, features)`` writes the features (m, b) of points (d, b).
    out : ndarray of shape (n, k), C-contiguous
        Added to.
    single_precision : bool, default=False
        Hold features and weights as float32.
    """
    n, (m, k) = len(X), weights.shape
    if not k:
        return
    # rows whose features stay in the cache, but enough of them for a wide product
    size = 512 if k >= 256 else 128
    dtype, gemm = (np.float32, sgemm) if single_precision else (np.float64, dgemm)
    weights = weights.astype(dtype, copy=False)
    points, features = np.zeros((X.shape[1], size)), np.empty((m, size), dtype)
    for first in range(0, n, size):
        rows, total = X[first : first + size], out[first : first + size]
        if len(rows) < size:
            # a multiple of what vector code and the product take at a time: the rest
            # of a loop may round differently
            size = -(-len(rows) // 64) * 64
            points, features = np.zeros((X.shape[1], size)), np.empty((m, size), dtype)
        points[:, : len(rows)] = rows.T
        fill(points, features)
        if len(rows) == size and not single_precision:
            # in Fortran's order: totalᵀ += weightsᵀ Fᵀ, in place
            gemm(1.0, weights.T, features.T, 1.0, total.T, trans_b=1, overwrite_c=1)
        else:
            total += gemm(1.0, weights.T, features.T, trans_b=1).T[: len(rows)]


@dataclass(frozen=True)
class CosineSums:
    """Functions ``Σ_r a_r cos(2π (ω_r·x - φ_r))``, several for each set of ω.

    Parameters
    ----------
    turns : ndarray of shape (g, d', R)
        Sets of frequencies ω, in turns; inputs are padded to a multiple of four.
    owners : ndarray of shape (f,)
        Which set belongs to each function.
    amplitudes, phases : ndarray of shape (f, R)
        a, and φ in turns.
    """

    turns: Array
    owners: Index
    amplitudes: Array
    phases: Array

    def __call__(self, X: Array, index: Index) -> Array:
        """Values (p,) of function ``index[i]`` at row i of X."""
        values, points = np.zeros(len(X)), np.zeros((len(X), self.turns.shape[1]))
        points[:, : X.shape[1]] = X
        trigonometry.wave_pairs(
            points, self.turns, self.owners, self.amplitudes, self.phases, index, values
        )
        return values

    @staticmethod
    def joined(parts: Sequence[CosineSums]) -> CosineSums:
        """Functions of all parts, which have as many frequencies each."""
        sets = np.cumsum([0] + [len(part.turns) for part in parts[:-1]])
        owners = [part.owners + g for part, g in zip(parts, sets, strict=True)]
        return CosineSums(
            np.concatenate([part.turns for part in parts]),
            np.concatenate(owners),
            np.concatenate([part.amplitudes for part in parts]),
            np.concatenate([part.phases for part in parts]),
        )


@dataclass(frozen=True)
class FourierFeatures:
    """Paired cosines and sines, ``[a cos(Xω), a sin(Xω)]``, shape (n, 2 R).

    Parameters
    ----------
    frequencies : ndarray of shape (R, d)
        Angular frequencies ``ω``, in radians per unit of the inputs.
    amplitudes : ndarray of shape (R,)
        Factors ``a``; with weights N(0, I) the variance of the sum is ``Σ a²``.
    single_precision : bool, default=False
        Hold features and weights in float32: half the memory and up to twice the
        speed for many draws; values err by about 1e-6 of their standard deviation.
    """

    frequencies: Array
    amplitudes: Array
    single_precision: bool = False

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.frequencies.shape[1]

    @cached_property
    def _turns(self) -> Array:
        """Frequencies in turns, shape (R, d)."""
        return np.ascontiguousarray(self.frequencies / (2.0 * np.pi))

    @cached_property
    def _turns_by_input(self) -> Array:
        return np.ascontiguousarray(self._turns.T)

    def _fill(self, points: Array, out: Array) -> None:
        trigonometry.fourier_rows(points, self._turns, self.amplitudes, out)

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        out = np.empty((2 * len(self.amplitudes), len(X)))
        self._fill(np.ascontiguousarray(X.T), out)
        return out.T

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (2 R, k) to out (n, k); O(n R (d + k)) time."""
        if weights.shape[1] != 1:
            contract_blocks(X, weights, self._fill, out, self.single_precision)
            return
        # a cos + b sin = A cos(· - φ) takes half the work
        waves = self.prepare(weights.T)
        trigonometry.cosine_sum(
            X, self._turns, waves.amplitudes[0], waves.phases[0], out[:, 0]
        )

    def prepare(self, weights: Array) -> CosineSums:
        """Functions with the coefficients ``weights`` (f, 2 R) as waves."""
        cosine, sine = np.split(weights, 2, axis=1)
        cosine, sine = cosine * self.amplitudes, sine * self.amplitudes
        R, d = self._turns.shape
        turns = np.zeros((1, -(-d // 4) * 4, R))
        turns[0, :d] = self._turns.T
        phases = np.arctan2(sine, cosine) / (2.0 * np.pi)
        owners = np.zeros(len(weights), np.intp)
        return CosineSums(turns, owners, np.hypot(cosine, sine), phases)

    def pair_values(self, X: Array, waves: CosineSums, index: Index) -> Array:
        """Values (p,) of function ``index[i]`` at row i of X; waves by `prepare`."""
        return waves(X, index)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X.

        The functions have the coefficients ``weights`` (f, 2 R).
        """
        values, gradients = np.zeros(len(X)), np.zeros(X.shape)
        trigonometry.fourier_pairs(
            X, self._turns_by_input, self.amplitudes, weights, index, values, gradients
        )
        return values, gradients


class _Ones:
    """The constant feature."""

    def __call__(self, X: Array) -> Array:
        """Ones of shape (n, 1)."""
        return np.ones((X.shape[0], 1))

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d)."""
        return weights[index, 0], np.zeros(X.shape)


class _WithOnes:
    """The inputs and the constant feature."""

    def __call__(self, X: Array) -> Array:
        """Features of shape (n, d + 1)."""
        return np.column_stack((X, np.ones(X.shape[0])))

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d)."""
        slopes = weights[index, :-1]
        return np.einsum("pd,pd->p", X, slopes) + weights[index, -1], slopes


ones = _Ones()
with_ones = _WithOnes()
