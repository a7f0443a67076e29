"""Errors given the scale of their noise, summed over nodes of its logarithm."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skgpx._numerics._jit import reduction
from skgpx._numerics.elementary import exp
from skgpx._types import Array


class ScaleSums(NamedTuple):
    """Density of each error, and averages over nodes and components given it.

    With the variances ``T = t s`` of the noise and v of the location:

    Attributes
    ----------
    log_density : ndarray of shape (n,)
        In nats.
    shares : ndarray of shape (n, q)
        Probabilities of the nodes.
    precision : ndarray of shape (n,)
        ``E[1 / (v + T)]``.
    noise_part : ndarray of shape (n,)
        ``E[T / (v + T)]``.
    squared_noise_part : ndarray of shape (n,)
        ``E[(T / (v + T))²]``.
    """

    log_density: Array
    shares: Array
    precision: Array
    noise_part: Array
    squared_noise_part: Array


def scale_sums(
    y: Array,
    variance: Array,
    squared_scale: Array,
    masses: Array,
    noise: Array,
    weights: Array,
) -> ScaleSums:
    """Sum ``Σ_qk p_q π_k N(e | 0, v + t_k s_q)`` and its averages.

    Parameters
    ----------
    y, variance : ndarray of shape (n,)
        Errors e, and variances v.
    squared_scale : ndarray of shape (n, q)
        ``s`` at the nodes of each row.
    masses : ndarray of shape (q,)
        ``p``.
    noise, weights : ndarray of shape (k,)
        ``t`` and ``π``.

    Notes
    -----
    O(n q k) time; O(n q) memory.
    """
    n = len(y)
    sums = ScaleSums(
        log_density=np.empty(n),
        shares=np.empty(squared_scale.shape),
        precision=np.empty(n),
        noise_part=np.empty(n),
        squared_noise_part=np.empty(n),
    )
    _add_terms(
        np.ascontiguousarray(y, dtype=np.float64),
        np.ascontiguousarray(variance, dtype=np.float64),
        np.ascontiguousarray(squared_scale),
        # copies, as arrays that are read only would be compiled for once more
        np.array(masses, dtype=np.float64),
        np.array(noise, dtype=np.float64),
        np.array(weights, dtype=np.float64),
        *sums,
    )
    return sums


@reduction
def _add_terms(
    y: Array,
    variance: Array,
    squared_scale: Array,
    masses: Array,
    noise: Array,
    weights: Array,
    log_density: Array,
    shares: Array,
    precision: Array,
    noise_part: Array,
    squared_noise_part: Array,
) -> None:
    n, n_nodes = squared_scale.shape
    largest_noise = np.max(noise)
    for i in range(n):
        v = variance[i]
        half_square = 0.5 * y[i] * y[i]
        # terms in units of the density under the largest variance
        largest = v + largest_noise * np.max(squared_scale[i])
        reference = half_square / largest
        total = 0.0
        total_precision = 0.0
        total_part = 0.0
        total_squared_part = 0.0
        share = shares[i]
        for q in range(n_nodes):
            share[q] = 0.0
        for k in range(len(noise)):
            for q in range(n_nodes):
                T = noise[k] * squared_scale[i, q]
                inverse = 1.0 / (v + T)
                part = T * inverse
                term = masses[q] * weights[k] * math.sqrt(largest * inverse)
                term *= exp(reference - half_square * inverse)
                share[q] += term
                total += term
                total_precision += term * inverse
                total_part += term * part
                total_squared_part += term * part * part
        for q in range(n_nodes):
            share[q] /= total
        # ½ log 2π
        log_unit = -reference - 0.5 * math.log(largest) - 0.9189385332046728
        log_density[i] = math.log(total) + log_unit
        precision[i] = total_precision / total
        noise_part[i] = total_part / total
        squared_noise_part[i] = total_squared_part / total
