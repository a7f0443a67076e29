"""Waves as features: cosines and sines of given frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._blocked_products import Panel, add_product, panel_size
from skgpx._numerics import trigonometry

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class ShiftedCosines:
    """Functions ``Σ_r a_r cos(2π (ω_r·x - φ_r))``, several for each set of ω.

    Parameters
    ----------
    turns : ndarray of shape (g, d', R)
        Sets of frequencies ω, in turns; inputs are padded to a multiple of four.
    owners : ndarray of shape (f,)
        Number of the set of each function.
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
        trigonometry.shifted_cosines_at_pairs(
            points, self.turns, self.owners, self.amplitudes, self.phases, index, values
        )
        return values

    @staticmethod
    def joined(parts: Sequence[ShiftedCosines]) -> ShiftedCosines:
        """Functions of all parts, which have equal numbers of frequencies."""
        sets = np.cumsum([0] + [len(part.turns) for part in parts[:-1]])
        owners = [part.owners + g for part, g in zip(parts, sets, strict=True)]
        return ShiftedCosines(
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
        speed for many draws, with errors of about 1e-6 of the standard deviation.
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

    def _fill(self, points: Array, waves: slice, out: Array) -> None:
        turns, amplitudes = self._turns[waves], self.amplitudes[waves]
        trigonometry.cosines_and_sines(points, turns, amplitudes, out)

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        out = np.empty((2 * len(self.amplitudes), len(X)))
        self._fill(np.ascontiguousarray(X.T), slice(None), out)
        return out.T

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (2 R, k) to out (n, k); O(n R (d + k)) time."""
        if weights.shape[1] != 1:
            panels = self._panels(weights)
            add_product(X, panels, self._fill, out, self.single_precision)
            return
        # a cos + b sin = A cos(· - φ) is half the work
        waves = self.prepare(weights.T)
        trigonometry.shifted_cosines(
            X, self._turns, waves.amplitudes[0], waves.phases[0], out[:, 0]
        )

    def _panels(self, weights: Array) -> list[Panel]:
        """Some waves each, with the weights of their cosines, then of their sines."""
        R, k = len(self.amplitudes), weights.shape[1]
        pairs, size = weights.reshape(2, R, k), panel_size(k) // 2
        parts = [slice(r, r + size) for r in range(0, R, size)]
        return [(p, np.concatenate(pairs[:, p])) for p in parts]

    def prepare(self, weights: Array) -> ShiftedCosines:
        """Functions with the coefficients ``weights`` (f, 2 R) as waves."""
        cosine, sine = np.split(weights, 2, axis=1)
        cosine, sine = cosine * self.amplitudes, sine * self.amplitudes
        R, d = self._turns.shape
        turns = np.zeros((1, -(-d // 4) * 4, R))
        turns[0, :d] = self._turns.T
        phases = np.arctan2(sine, cosine) / (2.0 * np.pi)
        owners = np.zeros(len(weights), np.intp)
        return ShiftedCosines(turns, owners, np.hypot(cosine, sine), phases)

    def pair_values(self, X: Array, waves: ShiftedCosines, index: Index) -> Array:
        """Values (p,) of function ``index[i]`` at row i of X; waves by `prepare`."""
        return waves(X, index)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X.

        The functions have the coefficients ``weights`` (f, 2 R).
        """
        values, gradients = np.zeros(len(X)), np.zeros(X.shape)
        trigonometry.cosines_and_sines_at_pairs(
            X, self._turns_by_input, self.amplitudes, weights, index, values, gradients
        )
        return values, gradients
