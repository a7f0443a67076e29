"""Integrals of a likelihood over the latent line, on meshes refined to its peak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.mixture import LatentMixture

Array = NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
# Even panels over the range, and halvings of it towards each of two peaks.
_PANELS, _HALVINGS = 40, 24
# Standard deviations of each component that are covered.
_COVERED = 10.0
# Least standard deviation of a component, as a part of the largest.
_ATOM = 1e-3
# Points and rounds of the search for a peak: the range shrinks to a part in 10^8.
_POINTS, _ROUNDS = 17, 9
# Difference of two meshes, in nats, that is reported.
_DOUBTFUL = 0.01


def log_integral(
    likelihood: Any, y: Array, mixture: LatentMixture
) -> tuple[Array, NDArray[np.bool_]]:
    """``log ∫ p(y | f) p(f) df`` of each row, and where it is doubtful, (n,) each.

    Gauss-Legendre rules of 8 nodes on even panels and on panels whose length halves
    towards the peak of the likelihood and towards that of the integrand: features down
    to a part in 10^6 of the standard deviation of f are resolved there, and at -f where
    that has the same likelihood. Doubtful are rows for which two meshes differ by 0.01
    nats.

    Parameters
    ----------
    likelihood : Likelihood
        Of one output.
    y : ndarray of shape (n,)
    mixture : LatentMixture
        Some variance of each row must be positive.
    """
    mean, std = mixture.mean[:, 0], np.sqrt(mixture.variance[:, 0])
    low = np.min(mean - _COVERED * std, axis=1)
    high = np.max(mean + _COVERED * std, axis=1)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64).reshape(len(y))
    rough = np.where(np.isfinite(rough), rough, low)
    low, high = np.minimum(low, rough), np.maximum(high, rough)

    def log_likelihood(f: Array) -> Array:
        return -np.asarray(likelihood.row_nll(y, f[:, np.newaxis]))

    def log_integrand(f: Array) -> Array:
        return log_likelihood(f) + _log_density(f, mixture)

    peaks = [_peak(g, low, high) for g in (log_likelihood, log_integrand)]
    if likelihood.symmetric:
        peaks += [-peak for peak in peaks]
    fine = _on_mesh(log_integrand, low, high, peaks, 0.5)
    coarse = _on_mesh(log_integrand, low, high, peaks, 0.4)
    return fine, np.abs(fine - coarse) > _DOUBTFUL


def _log_density(f: Array, mixture: LatentMixture) -> Array:
    """Log density of the latent mixture at f (n, k), shape (n, k)."""
    out = np.full(f.shape, -np.inf)
    variance = np.broadcast_to(mixture.variance[:, 0], mixture.mean[:, 0].shape)
    # atoms get a width that no mesh would miss
    least = _ATOM**2 * np.max(variance, axis=1, keepdims=True)
    variance = np.maximum(variance, least)
    for j, weight in enumerate(mixture.weights):
        v = variance[:, j, np.newaxis]
        square = (f - mixture.mean[:, 0, j, np.newaxis]) ** 2 / v
        out = np.logaddexp(
            out, np.log(weight) - 0.5 * (square + np.log(2.0 * np.pi * v))
        )
    return out


def _peak(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where the function is largest, (n,): a grid around the best point of the last."""
    rows, grid = np.arange(len(low)), np.linspace(0.0, 1.0, _POINTS)
    start, length = low, high - low
    for _ in range(_ROUNDS):
        f = start[:, np.newaxis] + length[:, np.newaxis] * grid
        values = function(f)
        best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        centre, length = f[rows, best], length * (2.0 / (_POINTS - 1))
        start = np.clip(centre - 0.5 * length, low, high - length)
    return centre


def _on_mesh(
    log_integrand: Callable[[Array], Array],
    low: Array,
    high: Array,
    peaks: list[Array],
    ratio: float,
) -> Array:
    """Log of the integral over [low, high] by panels that shrink by a ratio."""
    length = (high - low)[:, np.newaxis]
    even = low[:, np.newaxis] + length * np.linspace(0.0, 1.0, _PANELS + 1)
    steps = length * ratio ** np.arange(1.0, _HALVINGS + 1.0)
    around = [p[:, np.newaxis] + s * steps for p in peaks for s in (-1.0, 1.0)]
    mesh = np.concatenate([even, *around, *(p[:, np.newaxis] for p in peaks)], axis=1)
    mesh = np.sort(np.clip(mesh, low[:, np.newaxis], high[:, np.newaxis]), axis=1)
    half = 0.5 * np.diff(mesh, axis=1)[:, :, np.newaxis]
    f = 0.5 * (mesh[:, 1:] + mesh[:, :-1])[:, :, np.newaxis] + half * _NODES
    terms = log_integrand(f.reshape(len(low), -1))
    top = np.max(terms, axis=1, keepdims=True)
    weights = (half * _NODE_WEIGHTS).reshape(len(low), -1)
    sums = np.sum(weights * np.exp(terms - top), axis=1)
    result: Array = top[:, 0] + np.log(sums)
    return result
