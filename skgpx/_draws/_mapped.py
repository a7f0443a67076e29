"""Maps of inputs, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skgpx._types import AnyArray, Array, ArrayLike

# Maps derivatives in the mapped rows (n, q) to derivatives in the rows (n, d).
Pullback = Callable[[Array], Array]


def central_differences(
    function: Callable[[Array], Array],
    X: Array,
    codes: Sequence[int] = (),
) -> Array:
    """``(h(x + δ e_k) - h(x - δ e_k)) / 2δ`` with ``δ = ε^(1/3) max(|x_k|, 1)``.

    Parameters
    ----------
    function : callable
        h, row by row: maps (n, d) to (n, q).
    X : ndarray of shape (n, d)
    codes : sequence of int, default=()
        Columns of codes of categories, in which derivatives are zero.

    Returns
    -------
    slopes : ndarray of shape (n, q, d)
        Derivatives, with errors of about 1e-10 for functions that change over distances
        of one.

    Notes
    -----
    2 d calls of the function.
    """
    # balances truncation against rounding
    eps = np.finfo(np.float64).eps
    magnitudes = np.maximum(np.abs(X), 1.0)
    sizes = eps ** (1 / 3) * magnitudes
    slopes = []
    for k in range(X.shape[1]):
        delta = sizes[:, k]
        step = np.zeros(X.shape)
        if k not in codes:
            step[:, k] = delta
        rise = function(X + step) - function(X - step)
        slope = rise / (2.0 * delta[:, np.newaxis])
        slopes.append(slope)
    return np.stack(slopes, axis=-1)


@dataclass(frozen=True)
class InputMap:
    """A map h of rows: a network, or the transformer of a user.

    Parameters
    ----------
    function : callable
        Maps rows (n, d) to (n, q), row by row; picklable. With the method
        ``with_pullback(X)``, which returns the mapped rows and a function from
        derivatives in the mapped rows (n, q) to derivatives in the rows (n, d),
        gradients follow by the chain rule, otherwise by central differences.
    n_features : int, default=None
        Number d of columns; None for any.
    numeric : bool, default=True
        False for rows of objects (strings, dates, missing values): they reach
        `function` as an object array (n, d), which it converts, for
        example to the DataFrame that a transformer was fitted on. There are then no
        gradients in the inputs.
    floats_per_row : int, default=0
        Numbers in memory while one row is mapped.
    """

    function: Callable[[Any], Any]
    n_features: int | None = None
    numeric: bool = True
    floats_per_row: int = 0

    def __call__(self, X: AnyArray) -> Array:
        """Mapped rows (n, q).

        Raises
        ------
        ValueError
            If the function does not give a finite matrix with as many rows.
        """
        return self._checked(self.function(X), len(X))

    def _checked(self, mapped: ArrayLike, n: int) -> Array:
        rows = np.ascontiguousarray(mapped, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != n:
            raise ValueError(
                f"A map of inputs must give an array of shape ({n}, n_outputs) for "
                f"{n} rows; got shape {rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise ValueError(
                "A map of inputs must give finite numbers; got NaN or infinity. Impute "
                "missing values in it."
            )
        return rows

    def with_pullback(self, X: AnyArray) -> tuple[Array, Pullback]:
        """Map rows, and differentiate the map.

        Returns
        -------
        mapped : ndarray of shape (n, q)
            The mapped rows.
        pullback : callable
            Maps derivatives in the mapped rows (n, q) to derivatives in the rows (n,
            d).

        Raises
        ------
        ValueError
            If the rows are not numbers.
        """
        if not self.numeric:
            raise ValueError(
                "The gradient of functions of rows that are not numbers is not known: "
                "they can be evaluated, but not differentiated."
            )
        with_pullback = getattr(self.function, "with_pullback", None)
        if with_pullback is not None:
            mapped, pullback = with_pullback(X)
            return self._checked(mapped, len(X)), pullback
        # draws ask for each row as often as there are draws
        is_new = np.ones(len(X), bool)
        is_new[1:] = np.any(X[1:] != X[:-1], axis=1)
        rows = X[is_new]
        position = np.cumsum(is_new) - 1
        slopes = central_differences(self, rows)

        def differences(gradient: Array) -> Array:
            # dx_d = Σ_q (∂h_q / ∂x_d) dh_q
            return np.einsum("nq,nqd->nd", gradient, slopes[position])

        return self(rows)[position], differences
