"""Draws at rows that see functionals of f: the functionals of the drawn functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from skgpx._draws._features import KernelFeatures, LinearTerm, Term, section_terms
from skgpx._draws._functions import FunctionDraws
from skgpx._types import Array, Index
from skgpx.kernels import FunctionalRows, Functionals


@dataclass(frozen=True)
class FunctionalTerm:
    """Draws at points, as before, or at rows of functionals, as the functionals.

    Parameters
    ----------
    draws : FunctionDraws
        Of f.
    kernel : Functionals
        It knows what rows see of f.
    """

    draws: FunctionDraws
    kernel: Functionals

    @property
    def n_features(self) -> int:
        """Number of columns of points."""
        return self.kernel.n_features

    @property
    def is_stateful(self) -> bool:
        """Whether values depend on earlier evaluations."""
        return self.draws.is_stateful

    def add_to(self, out: Array, X: Array) -> None:
        """Add the values at the rows of X to out (n, c, s)."""
        if X.shape[1] == self.n_features:
            out += self.draws.values(X)
            return
        nodes = self.kernel.nodes(X)
        values = np.zeros((len(nodes.X), *out.shape[1:]))
        split = nodes.n_values
        values[:split] = self.draws.values(nodes.X[:split])
        if split < len(nodes.X):
            c, s = out.shape[1:]
            _, gradients = self.draws.value_and_grad(nodes.X[split:])
            gradients = gradients.reshape(-1, c, s, self.n_features)
            columns = nodes.derivative[split:]
            values[split:] = gradients[np.arange(len(columns)), :, :, columns]
        out += (nodes.weights @ values.reshape(len(values), -1)).reshape(out.shape)

    def at(self, X: Array) -> Array:
        """Draw i at row i of X (s, d), shape (s, c)."""
        rows = np.arange(len(X))
        values = np.zeros((len(X), self.draws.n_outputs, self.draws.n_draws))
        self.add_to(values, X)
        return values[rows, :, rows]

    def pairs(self, X: Array, draws: Index) -> tuple[Array, Array]:
        """One draw at each row of X (p, d): values (p, c), gradients (p, c, d).

        Raises
        ------
        ValueError
            If a row sees anything but a value.
        """
        if X.shape[1] != self.n_features:
            raise ValueError(
                "Gradients of draws are those of their values at points; got rows that "
                "see slopes, means over boxes or differences. Evaluate the draws there."
            )
        return self.draws._pairs(X, draws)

    def scaled(self, factor: Array | float) -> FunctionalTerm:
        """Multiply the outputs of the functions by one factor, or by factors (c,)."""
        return replace(self, draws=self.draws.affine(0.0, factor))

    def select(self, draws: Index) -> FunctionalTerm:
        """Keep the draws at these positions."""
        return replace(self, draws=self.draws[draws])


def functionals_of(
    draws: FunctionDraws, kernel: Functionals, rows: FunctionalRows
) -> Array:
    """Functionals of draws at some rows, (n, c, s)."""
    values = np.zeros((len(rows.X), draws.n_outputs, draws.n_draws))
    FunctionalTerm(draws, kernel).add_to(values, rows.as_array())
    return values


def functional_sections(
    kernel: Functionals, rows: Array, weights: Array
) -> tuple[Term, ...]:
    """Terms of the functions ``k(·, rows) weights``: sections at nodes of the rows."""
    nodes = kernel.nodes(rows)
    flat = nodes.weights.T @ weights.reshape(len(weights), -1)
    of_nodes = flat.reshape(-1, *weights.shape[1:])
    split = nodes.n_values
    terms: tuple[Term, ...] = section_terms(
        kernel.kernel, nodes.X[:split], of_nodes[:split]
    )
    if split < len(nodes.X):
        slopes = FunctionalRows.of(nodes.X[split:], kernel.n_features)
        slopes = slopes._replace(derivative=nodes.derivative[split:])
        features = KernelFeatures(kernel, slopes.as_array())
        terms += (LinearTerm(features, of_nodes[split:]),)
    draws = FunctionDraws(terms, *weights.shape[1:])
    return (FunctionalTerm(draws, kernel),)


class FiniteFunctions(Protocol):
    """Finitely many functions ``φ``, q of them."""

    def all_features(self, X: Array) -> Array:
        """Values of the functions at the rows of X, shape (n, q)."""

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions ``φᵀw`` with weights (q, c, s)."""


@dataclass(frozen=True)
class SeenFunctions:
    """Finitely many functions at points, or at rows that see functionals of them.

    Parameters
    ----------
    basis : FiniteFunctions
    kernel : Functionals
        It knows what rows see.
    """

    basis: FiniteFunctions
    kernel: Functionals

    def all_features(self, X: Array) -> Array:
        """Functionals of all functions, (n, q)."""
        d = self.kernel.n_features
        if X.shape[1] == d:
            return self.basis.all_features(X)
        q = self.basis.all_features(X[:1, :d]).shape[1]
        functions = FunctionDraws(self.all_terms(np.eye(q)[:, np.newaxis]), 1, q)
        return functionals_of(functions, self.kernel, self.kernel.rows(X))[:, 0]

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with these weights (q, c, s)."""
        return self.basis.all_terms(weights)
