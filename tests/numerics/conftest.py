"""What several tests share: targets of rows, differences, scores of draws."""

import numpy as np

from skgpx._numerics import langevin
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.langevin import Target
from skgpx.likelihoods import Bernoulli, Categorical, Poisson

LARGEST_Z = 4.5


def name(likelihood):
    return f"{type(likelihood).__name__}-{getattr(likelihood, 'link', '')}".rstrip("-")


def targets_of(likelihood, rng, n):
    if isinstance(likelihood, Bernoulli):
        return rng.integers(0, 2, n).astype(np.float64)
    if isinstance(likelihood, Poisson):
        return rng.poisson(2.0, n).astype(np.float64) + 1.0
    if isinstance(likelihood, Categorical):
        return np.arange(n) % 3.0
    return rng.standard_normal(n)


def row_target(likelihood, rng, n=25, m=3, optimal=False, weighted=True, y=None):
    """Target in the weights themselves, evaluated by NumPy."""
    y = targets_of(likelihood, rng, n) if y is None else y
    likelihood = likelihood.prepare(y)
    c = likelihood.n_outputs_
    std, nodes = np.zeros((n, c)), (np.zeros((1, c)), np.ones(1))
    if optimal:
        std, nodes = 0.1 + 0.4 * rng.random((n, c)), expectation_nodes(c)
    return Target(
        likelihood,
        langevin.NUMPY,
        np.asarray(likelihood.kernel_parameters()),
        0.5 + 0.5 * rng.standard_normal((n, m)),
        y,
        rng.integers(1, 3, n).astype(np.float64) if weighted else np.ones(n),
        std,
        *nodes,
        np.zeros((1, c * m)),
        np.eye(c * m)[np.newaxis],
        c,
    )


def slopes(function, x, h=1e-5):
    """Central differences of a scalar function of an array."""
    found = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        found[i] = (function(x + step) - function(x - step)) / (2.0 * h)
    return found


def fourth_order(function, x, h=1e-3):
    """Central differences of order four."""
    return (4.0 * slopes(function, x, h) - slopes(function, x, 2.0 * h)) / 3.0


def moment_scores(draws, mean, covariance):
    """z-scores of first and second moments of independent normal draws (p, s)."""
    p, s = draws.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), draws - mean[:, np.newaxis])
    first = np.sqrt(s) * white.mean(axis=1)
    second = (white @ white.T / s - np.eye(p)) / np.sqrt((1.0 + np.eye(p)) / s)
    return np.concatenate((first, second[np.tril_indices(p)]))
