"""Draws of random functions: sums of linear terms that can be called anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
# Rows evaluated at a time: bounds the memory of the features of a long X.
_ROWS = 2048


class Term(Protocol):
    """One summand of a set of draws."""

    def values(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, c, s)."""

    def scaled(self, factor: float) -> Term:
        """Multiply the functions by a factor."""

    def select(self, draws: Any) -> Term:
        """Keep the draws at these positions (an array of indices)."""


@dataclass(frozen=True)
class LinearTerm:
    """``features(X) @ weights``.

    Parameters
    ----------
    features : callable
        Maps (n, d) inputs to (n, m) features, row by row; picklable.
    weights : ndarray of shape (m, c, s)
        Coefficients of ``c`` outputs and ``s`` draws.
    """

    features: Callable[[Array], Array]
    weights: Array

    def values(self, X: Array) -> Array:
        """Values at the rows of X, shape (n, c, s)."""
        m, c, s = self.weights.shape
        flat = self.features(X) @ self.weights.reshape(m, c * s)
        return flat.reshape(X.shape[0], c, s)

    def scaled(self, factor: float) -> LinearTerm:
        """Multiply the functions by a factor."""
        return replace(self, weights=factor * self.weights)

    def select(self, draws: Any) -> LinearTerm:
        """Keep the draws at these positions."""
        return replace(self, weights=self.weights[:, :, draws])


class FunctionDraws:
    """Functions drawn from a Gaussian process (or a mixture), callable anywhere.

    A draw is a function, not a vector of values: calling it twice, on other rows or
    in another order gives the same function, and values at different rows are
    jointly distributed as the process is. Draws add (``f + g``), can be selected
    (``f[:10]``) and pickled.

    Parameters
    ----------
    terms : sequence of Term
        Summands, all with the same number of outputs and draws.
    n_outputs : int
        Number of latent outputs ``c``.
    n_draws : int
        Number of draws ``s``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.bases import draw_prior
    >>> draws = draw_prior(RBF(0.5), 1, 1, 3, np.random.default_rng(0))
    >>> X = np.linspace(0.0, 1.0, 5)[:, None]
    >>> draws(X).shape
    (5, 3)
    >>> bool(np.allclose(draws(X)[2:3], draws(X[2:3])))
    True
    """

    def __init__(self, terms: tuple[Term, ...], n_outputs: int, n_draws: int):
        self.terms = tuple(terms)
        self.n_outputs = n_outputs
        self.n_draws = n_draws

    def __call__(self, X: ArrayLike) -> Array:
        """Values of the functions at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        values : ndarray of shape (n, s), or (n, c, s) for several outputs
            Latent values, one column per draw.

        Raises
        ------
        ValueError
            If X is not two-dimensional.
        """
        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2:
            raise ValueError(
                f"FunctionDraws expects X of shape (n_samples, n_features); got an "
                f"array of shape {X.shape}. Reshape with X.reshape(-1, n_features)."
            )
        values = self.values(X)
        return values[:, 0, :] if self.n_outputs == 1 else values

    def values(self, X: Array) -> Array:
        """Values at the rows of X with the output axis kept, shape (n, c, s)."""
        out = np.zeros((X.shape[0], self.n_outputs, self.n_draws))
        for start in range(0, X.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            for term in self.terms:
                out[rows] += term.values(X[rows])
        return out

    def __len__(self) -> int:
        return self.n_draws

    def __getitem__(self, index: Any) -> FunctionDraws:
        """Select draws; an integer gives a FunctionDraws of length one."""
        chosen = np.atleast_1d(np.arange(self.n_draws)[index])
        terms = tuple(term.select(chosen) for term in self.terms)
        return FunctionDraws(terms, self.n_outputs, chosen.shape[0])

    def __add__(self, other: FunctionDraws) -> FunctionDraws:
        """Draw-by-draw sum of two sets of equal length."""
        if not isinstance(other, FunctionDraws):
            return NotImplemented
        if (self.n_outputs, self.n_draws) != (other.n_outputs, other.n_draws):
            raise ValueError(
                "FunctionDraws can be added if they have as many outputs and draws; "
                f"got {(self.n_outputs, self.n_draws)} and "
                f"{(other.n_outputs, other.n_draws)}."
            )
        terms = _merged(self.terms + other.terms)
        return FunctionDraws(terms, self.n_outputs, self.n_draws)

    def affine(self, shift: float, scale: float) -> FunctionDraws:
        """Return the functions ``shift + scale * f``."""
        terms = tuple(term.scaled(scale) for term in self.terms)
        constant = np.full((1, self.n_outputs, self.n_draws), shift, dtype=np.float64)
        return FunctionDraws(
            (*terms, LinearTerm(ones, constant)), self.n_outputs, self.n_draws
        )

    def __repr__(self) -> str:
        return f"FunctionDraws(n_draws={self.n_draws}, n_outputs={self.n_outputs})"


def _merged(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Terms with the same features object as one, so that it is called once."""
    merged: list[Term] = []
    for term in terms:
        for i, earlier in enumerate(merged):
            if (
                isinstance(term, LinearTerm)
                and isinstance(earlier, LinearTerm)
                and term.features is earlier.features
            ):
                merged[i] = replace(earlier, weights=earlier.weights + term.weights)
                break
        else:
            merged.append(term)
    return tuple(merged)


def linear_draws(features: Callable[[Array], Array], weights: Array) -> FunctionDraws:
    """FunctionDraws ``features(X) @ weights`` with weights (m, c, s)."""
    _, c, s = weights.shape
    return FunctionDraws((LinearTerm(features, weights),), c, s)


def condition(
    prior: FunctionDraws,
    points: Array,
    values: Array | float,
    features: Callable[[Array], Array],
    solve: Callable[[Array], Array],
) -> FunctionDraws:
    """Matheron's update: draws of the process given its values at some points.

    ``f + φ(·)ᵀ S (values - f(points))``: a draw of the prior, and one more linear
    term that corrects it where the values are known.

    Parameters
    ----------
    prior : FunctionDraws
        Draws ``f`` of the unconditioned process.
    points : ndarray of shape (m, d)
        Where the values are known.
    values : ndarray broadcastable to (m, c, s), or float
        The values (for noisy observations: minus a draw of their noise).
    features : callable
        ``φ``, maps (n, d) to (n, q).
    solve : callable
        ``S``, maps (m, k) to (q, k), such that ``φ(x)ᵀ S = k(x, Z) K(Z, Z)⁻¹``.

    Returns
    -------
    draws : FunctionDraws
        As many draws as in ``prior``.
    """
    discrepancy = values - prior.values(points)
    m, c, s = discrepancy.shape
    weights = solve(discrepancy.reshape(m, c * s)).reshape(-1, c, s)
    return prior + linear_draws(features, weights)


def ones(X: Array) -> Array:
    """Evaluate the constant feature, shape (n, 1)."""
    return np.ones((X.shape[0], 1))


def with_ones(X: Array) -> Array:
    """Append the constant feature to the inputs, shape (n, d + 1)."""
    return np.column_stack((X, np.ones(X.shape[0])))


@dataclass(frozen=True)
class FourierFeatures:
    """Paired cosines and sines, ``[a cos(Xω), a sin(Xω)]``, shape (n, 2 R).

    With standard normal weights the variance of the function is ``Σ a²``.

    Parameters
    ----------
    frequencies : ndarray of shape (R, d)
        Angular frequencies ``ω``.
    amplitudes : ndarray of shape (R,)
        Amplitudes ``a``.
    """

    frequencies: Array
    amplitudes: Array

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (n, 2 R)."""
        phase = X @ self.frequencies.T
        cosines, sines = np.cos(phase), np.sin(phase)
        cosines *= self.amplitudes
        sines *= self.amplitudes
        return np.concatenate((cosines, sines), axis=1)
