"""Exact regression on a Matérn process of one input and a few known functions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import cholesky, invert_lower, log_determinant
from skgpx._numerics.state_space import (
    STATES,
    adjoint_rows,
    bridges,
    filter_rows,
    interpolate,
    joint_covariance,
    prior_path,
    smoothed_states,
)

Array = NDArray[np.float64]

# Floats of the states of draws that are smoothed at a time.
_FLOATS = 2**23


class MaternProcess(NamedTuple):
    """Process g with a Matérn covariance of order 1/2, 3/2 or 5/2.

    Attributes
    ----------
    nu : float
        Order.
    amplitude : float
        Variance of g.
    length_scale : float
    """

    nu: float
    amplitude: float
    length_scale: float

    @property
    def n_states(self) -> int:
        """Dimension p of the state."""
        return STATES[self.nu]

    @property
    def rate(self) -> float:
        """Scaled time in a unit of the input."""
        return math.sqrt(2.0 * self.nu) / self.length_scale


class MarkovRows(NamedTuple):
    """Values at distinct inputs.

    Attributes
    ----------
    knots : ndarray of shape (n,)
        Inputs, increasing.
    precision : ndarray of shape (n,)
        Inverse variance of the noise of each value.
    values : ndarray of shape (n,)
    features : ndarray of shape (n, m)
        Known functions Φ at the knots; their weights are N(0, I) a priori.
    """

    knots: Array
    precision: Array
    values: Array
    features: Array


class MarkovPosterior(NamedTuple):
    """Law of ``Φᵀw + g`` given noisy values: ``w ~ N(weights, root rootᵀ)``.

    With L Lᵀ the covariance of the noisy g, the filter turns values and features into
    ``L⁻¹ (y, Φ)``; the rest is regression of the first column on the others.

    Attributes
    ----------
    process : MaternProcess
    rows : MarkovRows
    gaps : ndarray of shape (n,)
        Scaled time since the knot before.
    mean, covariance : ndarray of shape (n, p, 1 + m) and (n, p, p)
        States of g given the values up to the knot, for the columns ``(y - Φ weights,
        Φ root)`` in place of the values.
    slope, curvature : ndarray of shape (n, p, 1 + m) and (n, p, p)
        What the values from the knot on add; see `adjoint_rows`.
    weights : ndarray of shape (m,)
    root : ndarray of shape (m, m)
    log_evidence : float
        In nats.
    score : ndarray of shape (3,)
        Its derivatives in the logarithms of amplitude, lengthscale and noise variance
        (that of all knots by one factor).
    """

    process: MaternProcess
    rows: MarkovRows
    gaps: Array
    mean: Array
    covariance: Array
    slope: Array
    curvature: Array
    weights: Array
    root: Array
    log_evidence: float
    score: Array

    def at(self, x: Array, features: Array) -> tuple[Array, Array]:
        """Mean and variance (k,) of ``Φᵀw + g`` at the points x (k,)."""
        around = _around(self.rows.knots, x, self.process.rate)
        value, column, direction = self._interpolated(around)
        mean = features @ self.weights + value[:, 0]
        # what of the features g cannot imitate, in units of the law of the weights
        free = features @ self.root - value[:, 1:]
        variance = np.maximum(np.sum(column * direction, axis=1), 0.0)
        return mean, variance + np.sum(free**2, axis=1)

    def joint(self, x: Array, features: Array) -> Array:
        """Covariance of ``Φᵀw + g`` between the points x (k,), (k, k).

        O(n + k^2).
        """
        order = np.argsort(x, kind="stable")
        x, rate = x[order], self.process.rate
        around = _around(self.rows.knots, x, rate)
        value, column, direction = self._interpolated(around)
        total = np.empty((len(x), len(x)))
        steps = np.diff(x, prepend=x[:1]) * rate
        joint_covariance(
            *around, self.gaps, self.rows.precision, self.covariance, column, direction,
            steps, total,
        )  # fmt: skip
        free = features[order] @ self.root - value[:, 1:]
        total += free @ free.T
        out = np.empty_like(total)
        out[np.ix_(order, order)] = total
        return out

    def _interpolated(self, around: tuple[Array, Array, Array]) -> tuple[Array, ...]:
        k, (_, p, q) = len(around[0]), self.mean.shape
        out = np.empty((k, q)), np.empty((k, p)), np.empty((k, p))
        interpolate(
            *around, self.process.amplitude, self.mean, self.covariance, self.slope,
            self.curvature, *out,
        )  # fmt: skip
        return out

    def draw_states(self, weights: Array, rng: np.random.Generator) -> Array:
        """States of g at the knots (n, p, s), given each draw of the weights (m, s).

        A path of the prior, plus the smoothed difference between the values and those
        that it would have had [1]_.

        References
        ----------
        .. [1] Durbin and Koopman, "A simple and efficient simulation smoother for
           state space time series analysis", Biometrika 89, 2002.
        """
        n, p, _ = self.mean.shape
        states = np.empty((n, p, weights.shape[1]))
        width = max(1, _FLOATS // (n * p))
        for first in range(0, weights.shape[1], width):
            some = slice(first, first + width)
            states[:, :, some] = self._drawn(weights[:, some], rng)
        return states

    def _drawn(self, weights: Array, rng: np.random.Generator) -> Array:
        n, p, _ = self.mean.shape
        s, amplitude = weights.shape[1], self.process.amplitude
        path = np.empty((n, p, s))
        prior_path(self.gaps, amplitude, rng.standard_normal((n, p, s)), path)
        precision = self.rows.precision
        noise = rng.standard_normal((n, s)) / np.sqrt(precision)[:, np.newaxis]
        values = self.rows.values[:, np.newaxis] - self.rows.features @ weights
        values -= path[:, 0] + noise
        passes = _filtered(self.gaps, precision, values, amplitude, p)
        back = np.empty((n, p, s)), np.empty((n, p, p))
        adjoint_rows(self.gaps, precision, amplitude, *passes, *back)
        moved = np.empty((n, p, s))
        smoothed_states(self.gaps, *passes[:2], back[0], moved)
        return path + moved


def markov_posterior(process: MaternProcess, rows: MarkovRows) -> MarkovPosterior:
    """Posterior, evidence and score; O(n (p^3 + p m)) + O(m^3)."""
    p, n = process.n_states, len(rows.knots)
    gaps = np.diff(rows.knots, prepend=rows.knots[:1]) * process.rate
    columns = np.column_stack((rows.values, rows.features))
    mean, covariance, innovations, inverse = _filtered(
        gaps, rows.precision, columns, process.amplitude, p
    )
    evidence, combine, weights, root = _regressed(innovations, inverse)
    mean, innovations = mean @ combine, innovations @ combine
    slope, curvature = np.empty_like(mean), np.empty_like(covariance)
    score = adjoint_rows(
        gaps, rows.precision, process.amplitude, mean, covariance, innovations, inverse,
        slope, curvature,
    )  # fmt: skip
    return MarkovPosterior(
        process, rows, gaps, mean, covariance, slope, curvature, weights, root,
        evidence - 0.5 * n * math.log(2.0 * math.pi), np.array(score),
    )  # fmt: skip


def markov_evidence(process: MaternProcess, rows: MarkovRows) -> float:
    """Log evidence alone, in a third of the time."""
    gaps = np.diff(rows.knots, prepend=rows.knots[:1]) * process.rate
    columns = np.column_stack((rows.values, rows.features))
    *_, innovations, inverse = _filtered(
        gaps, rows.precision, columns, process.amplitude, process.n_states
    )
    evidence = _regressed(innovations, inverse)[0]
    return evidence - 0.5 * len(rows.knots) * math.log(2.0 * math.pi)


def _filtered(
    gaps: Array, precision: Array, columns: Array, amplitude: float, p: int
) -> tuple[Array, Array, Array, Array]:
    """What `filter_rows` writes, for columns (n, q)."""
    n, q = columns.shape
    out = np.empty((n, p, q)), np.empty((n, p, p)), np.empty((n, q)), np.empty(n)
    filter_rows(gaps, precision, np.ascontiguousarray(columns), amplitude, *out)
    return out


def _regressed(innovations: Array, inverse: Array) -> tuple[float, Array, Array, Array]:
    """Regression of the first column of innovations on the others.

    Returns
    -------
    evidence : float
        ``½ Σ log 1/F - ½ log det(I + G) - ½ (yᵀy - bᵀ weights)``, G and b the products
        of the whitened columns.
    combine : ndarray of shape (1 + m, 1 + m)
        From the columns ``(y, Φ)`` to ``(y - Φ weights, Φ root)``.
    weights, root : ndarray of shape (m,) and (m, m)
        Mean of the weights, and a root of their covariance ``(I + G)⁻¹``.
    """
    white = innovations * np.sqrt(inverse)[:, np.newaxis]
    gram = white.T @ white
    m = len(gram) - 1
    L = cholesky(np.eye(m) + gram[1:, 1:], 0.0).L
    root = invert_lower(L).T if m else np.empty((0, 0))
    weights = root @ (root.T @ gram[1:, 0])
    combine = np.zeros((m + 1, m + 1))
    combine[0, 0], combine[1:, 0], combine[1:, 1:] = 1.0, -weights, root
    left = gram[0, 0] - gram[1:, 0] @ weights
    evidence = 0.5 * (float(np.sum(np.log(inverse))) - log_determinant(L) - left)
    return float(evidence), combine, weights, root


def _around(knots: Array, x: Array, rate: float) -> tuple[Any, Array, Array]:
    """Last knot at or before each point, and the scaled times to it and to the next."""
    left = np.searchsorted(knots, x, side="right") - 1
    before = (x - knots[np.maximum(left, 0)]) * rate
    after = (knots[np.minimum(left + 1, len(knots) - 1)] - x) * rate
    return left, np.maximum(before, 0.0), np.maximum(after, 0.0)


def draw_between(
    process: MaternProcess,
    times: Array,
    x: Array,
    states_at: tuple[Array, Array],
    rng: np.random.Generator,
) -> Array:
    """States at increasing points x (k,) that are not among times, given those there.

    Parameters
    ----------
    process : MaternProcess
    times : ndarray of shape (n,)
        Where states are known, increasing.
    x : ndarray of shape (k,)
    states_at : tuple of ndarray of shape (k, p, s)
        States at the last of the times before each point and the first after it
        (anything where there is none).
    rng : numpy.random.Generator
    """
    left, right = states_at
    at = np.searchsorted(times, x)
    ends = np.concatenate(([-np.inf], times, [np.inf]))
    before, after = ends[at], ends[at + 1]
    follows = np.zeros(len(x), dtype=bool)
    follows[1:] = at[1:] == at[:-1]
    before[1:] = np.where(follows[1:], x[:-1], before[1:])
    out = np.empty(left.shape)
    bridges(
        (x - before) * process.rate, (after - x) * process.rate, follows,
        process.amplitude, left, right, rng.standard_normal(left.shape), out,
    )  # fmt: skip
    return out
