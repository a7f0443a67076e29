"""The mean function m of a latent model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._draws import FunctionDraws, central_differences, linear_draws

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Mean:
    """``m(x) = shift + scale * function(x)``, for c outputs.

    Parameters
    ----------
    shift : ndarray of shape (c,)
    scale : ndarray of shape (c,)
    function : callable, default=None
        Maps (n, d) to (n,), the same for all outputs, or (n, c); None is zero.
        Should be picklable.
    """

    shift: Array
    scale: Array
    function: Callable[[Array], Any] | None = None

    @classmethod
    def of(cls, value: float | Callable[[Array], Any], n_outputs: int) -> Mean:
        """Mean that is a number or a callable."""
        zero, one = np.zeros(n_outputs), np.ones(n_outputs)
        return cls(zero, one, value) if callable(value) else cls(zero + value, one)

    @property
    def n_outputs(self) -> int:
        """Number of outputs c."""
        return len(self.shift)

    def __call__(self, X: Array) -> Array:
        """Mean at the rows of X (n, d), shape (n, c)."""
        if self.function is None:
            return np.broadcast_to(self.shift, (len(X), self.n_outputs))
        values: Array = self.shift + self.scale * self._checked(X)
        return values

    def _checked(self, X: Array) -> Array:
        """Values of the function, (n, 1) or (n, c)."""
        values = np.asarray(self.function(X), dtype=np.float64)  # type: ignore[misc]
        if values.ndim == 1:
            values = values[:, np.newaxis]
        if values.shape not in ((len(X), 1), (len(X), self.n_outputs)):
            raise ValueError(
                f"The prior mean must map ({len(X)}, {X.shape[1]}) inputs to an array "
                f"of shape ({len(X)},) or ({len(X)}, {self.n_outputs}); got shape "
                f"{values.shape}."
            )
        return values

    def affine(self, shift: ArrayLike, scale: ArrayLike) -> Mean:
        """Mean of ``shift + scale * f``; numbers, or one for each output (c,)."""
        factor = np.asarray(scale, dtype=np.float64)
        return replace(
            self, shift=shift + factor * self.shift, scale=factor * self.scale
        )

    def added_to(self, draws: FunctionDraws) -> FunctionDraws:
        """Draws plus the mean."""
        if self.function is None:
            return draws.affine(self.shift, 1.0)
        c, s = self.n_outputs, draws.n_draws
        each = np.repeat(np.eye(c)[:, :, np.newaxis], s, axis=2)
        total = draws + linear_draws(self, each)
        return total.with_process(draws.process)

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of ``m(x)ᵀ weights[index[i]]`` at row i.

        Gradients are central differences: the function is a black box.
        """
        chosen = weights[index]
        gradients = np.einsum("pcd,pc->pd", central_differences(self, X), chosen)
        return np.sum(self(X) * chosen, axis=1), gradients
