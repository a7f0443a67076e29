"""Draws from the prior law of a Gaussian process, given its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    DotProduct,
    Product,
    Sum,
)

from skgpx._draws import (
    FourierFeatures,
    FunctionDraws,
    linear_draws,
    ones,
    section_terms,
    with_ones,
)
from skgpx.bases._exact_draws import PriorMemory, RememberedTerm
from skgpx.bases._frequencies import sample_frequencies
from skgpx.kernels import GREKernel


def draw_prior(
    kernel: Any,
    n_features: int,
    n_outputs: int,
    size: int,
    rng: np.random.Generator,
    n_frequencies: int = 1024,
) -> FunctionDraws:
    """Functions from the Gaussian process with mean zero and this kernel.

    Sums of kernels are sums of independent draws; the finite-rank parts of a
    GREKernel, a ConstantKernel and a DotProduct are exact; stationary kernels with
    a registered spectral density use random Fourier features (the covariance is
    right on average over the frequencies, which all draws of one call share); any
    other kernel gets exact draws that remember where they were evaluated, at a cost
    cubic in the number of distinct points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The prior covariance, without observation noise.
    n_features : int
        Number of input columns.
    n_outputs : int
        Number of independent latent outputs ``c``.
    size : int
        Number of independent draws ``s``.
    rng : numpy.random.Generator
        Source of the draws.
    n_frequencies : int, default=1024
        Fourier frequencies of each stationary part; twice as many features.

    Returns
    -------
    draws : FunctionDraws
        ``size`` draws of ``n_outputs`` outputs.
    """
    arguments = (n_features, n_outputs, size, rng, n_frequencies)
    if type(kernel) is Sum:
        return draw_prior(kernel.k1, *arguments) + draw_prior(kernel.k2, *arguments)
    if type(kernel) is GREKernel:
        return _draw_gre(kernel, *arguments)
    if type(kernel) is Product and type(kernel.k1) is ConstantKernel:
        return _scaled(draw_prior(kernel.k2, *arguments), kernel.k1.constant_value)
    if type(kernel) is Product and type(kernel.k2) is ConstantKernel:
        return _scaled(draw_prior(kernel.k1, *arguments), kernel.k2.constant_value)
    if type(kernel) is ConstantKernel:
        weights = rng.standard_normal((1, n_outputs, size))
        return _scaled(linear_draws(ones, weights), kernel.constant_value)
    if type(kernel) is DotProduct:
        weights = rng.standard_normal((n_features + 1, n_outputs, size))
        weights[n_features] *= kernel.sigma_0
        return linear_draws(with_ones, weights)
    frequencies = sample_frequencies(kernel, n_frequencies, n_features, rng)
    if frequencies is None:
        return _draw_exact(kernel, n_features, n_outputs, size, rng)
    weights = rng.standard_normal((2 * n_frequencies, n_outputs, size))
    variance = kernel.diag(np.zeros((1, n_features)))[0]
    amplitudes = np.full(n_frequencies, np.sqrt(variance / n_frequencies))
    return linear_draws(FourierFeatures(frequencies, amplitudes), weights)


def _draw_gre(
    kernel: GREKernel,
    n_features: int,
    n_outputs: int,
    size: int,
    rng: np.random.Generator,
    n_frequencies: int,
) -> FunctionDraws:
    """``k(·, S) √p ξ``, which has the finite-rank covariance, plus the background."""
    weights = rng.standard_normal((len(kernel.support), n_outputs, size))
    weights *= np.sqrt(kernel.masses)[:, np.newaxis, np.newaxis]
    support = np.asarray(kernel.support, dtype=np.float64)
    terms = section_terms(kernel.kernel, support, weights)
    draws = FunctionDraws(terms, n_outputs, size)
    if kernel.background == 0.0:
        return draws
    background = draw_prior(
        kernel.background_kernel(), n_features, n_outputs, size, rng, n_frequencies
    )
    return draws + _scaled(background, kernel.background)


def _draw_exact(
    kernel: Any, n_features: int, n_outputs: int, size: int, rng: np.random.Generator
) -> FunctionDraws:
    memory = PriorMemory(kernel, n_features, n_outputs, size, rng.spawn(1)[0])
    term = RememberedTerm(memory, np.arange(size))
    return FunctionDraws((term,), n_outputs, size)


def _scaled(draws: FunctionDraws, variance: float) -> FunctionDraws:
    """Multiply the functions by the square root of a variance."""
    factor = float(np.sqrt(variance))
    terms = tuple(term.scaled(factor) for term in draws.terms)
    return FunctionDraws(terms, draws.n_outputs, draws.n_draws)
