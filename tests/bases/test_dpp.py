"""Exact k-DPP draws against inclusion probabilities over all subsets."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skgpx.bases import select_inducing
from skgpx.bases._selectors import log_elementary_symmetric, sample_k_dpp


def test_elementary_symmetric_polynomials(rng):
    values = rng.uniform(0.1, 3.0, 6)
    table = log_elementary_symmetric(np.log(values), 4)
    for j in range(7):
        for k in range(5):
            exact = sum(np.prod(s) for s in combinations(values[:j], k))
            assert_allclose(np.exp(table[j, k]), exact, rtol=1e-12)


def test_elementary_symmetric_polynomials_do_not_overflow():
    values = np.exp(np.linspace(300.0, -300.0, 400))
    table = log_elementary_symmetric(np.log(values), 100)
    assert np.isfinite(table[-1]).all()
    assert_allclose(table[-1, 1], np.log(np.sum(values)), rtol=1e-12)
    # e_r of r values is their product, here 1
    assert abs(log_elementary_symmetric(np.log(values), 400)[-1, 400]) < 1e-8


@pytest.mark.parametrize("rank", [4, 7])
@pytest.mark.parametrize("k", [1, 3])
def test_inclusion_probabilities(rank, k, rng):
    factor = rng.normal(size=(7, rank)) * np.linspace(1.0, 0.2, rank)
    L = factor @ factor.T
    subsets = list(combinations(range(7), k))
    mass = np.array([np.linalg.det(L[np.ix_(s, s)]) for s in subsets])
    mass /= mass.sum()
    n = 4000
    counts = dict.fromkeys(subsets, 0)
    for _ in range(n):
        counts[tuple(sample_k_dpp(factor, k, rng))] += 1
    frequency = np.array([counts[s] for s in subsets]) / n
    possible = mass > 1e-12
    assert np.all(frequency[~possible] == 0.0)
    error = np.sqrt(mass * (1.0 - mass) / n)[possible]
    assert np.max(np.abs(frequency - mass)[possible] / error) < 4.5
    inside = np.array([[i in s for i in range(7)] for s in subsets], dtype=float)
    exact, got = mass @ inside, frequency @ inside
    assert np.max(np.abs(got - exact) / np.sqrt(exact * (1.0 - exact) / n)) < 4.5


def test_never_more_than_the_rank(rng):
    factor = rng.normal(size=(20, 3))
    assert len(sample_k_dpp(factor, 8, rng)) == 3


def test_many_points_of_a_smooth_kernel(rng):
    x = np.linspace(0.0, 1.0, 300)[:, np.newaxis]
    points = select_inducing("dpp", x, RBF(0.01), 60, rng)
    assert points.shape == (60, 1)
    gaps = np.diff(points[:, 0])
    # independent uniform points would have gaps ten times smaller than this
    assert gaps.min() >= 1.0 / 299 - 1e-12
    assert gaps.max() < 0.06


def test_k_means_and_equispaced(rng):
    X = rng.normal(size=(400, 2))
    assert select_inducing("k-means", X, RBF(), 20, rng).shape == (20, 2)
    grid = select_inducing("equispaced", X, RBF(), 25, rng)
    assert grid.shape == (25, 2)
    assert_allclose(grid.min(axis=0), X.min(axis=0))
    assert_allclose(grid.max(axis=0), X.max(axis=0))
    line = select_inducing("equispaced", X[:, :1], RBF(), 7, rng)
    assert_allclose(np.diff(line[:, 0]), np.ptp(X[:, 0]) / 6.0)
    with pytest.raises(ValueError, match="three columns"):
        select_inducing("equispaced", rng.normal(size=(9, 4)), RBF(), 5, rng)
