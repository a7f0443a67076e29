"""Choice of inducing points."""

import itertools

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from skgpx.bases import Nystroem, _selectors, select_inducing
from skgpx.kernels import GREKernel

STRATEGIES = ["greedy", "k-means++", "m-dpp", "random"]
KERNEL = 2.0 * RBF([0.5, 1.0])


def select(strategy, X, kernel=KERNEL, n_inducing=8, weights=None, seed=0):
    rng = np.random.default_rng(seed)
    return select_inducing(strategy, X, kernel, n_inducing, rng, weights)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 2)).round(1)


@pytest.fixture
def grid():
    axis = np.linspace(-1.0, 1.0, 7)
    return np.array([[a, b] for a in axis for b in axis])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_of_x_without_repetition(strategy, X):
    Z = select(strategy, X)
    assert Z.shape == (8, 2)
    assert len(np.unique(Z, axis=0)) == 8
    assert all(np.any(np.all(z == X, axis=1)) for z in Z)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kernel", [KERNEL, Matern(0.7), DotProduct() + RBF(0.4)])
def test_order_and_duplicates_do_not_matter(strategy, kernel, X, grid):
    rng = np.random.default_rng(1)
    for data in (X, grid):
        expected = select(strategy, data, kernel)
        shuffled = data[rng.permutation(len(data))]
        np.testing.assert_array_equal(select(strategy, shuffled, kernel), expected)
        counts = rng.integers(1, 4, len(data))
        repeated = rng.permutation(np.repeat(data, counts, axis=0))
        weighted = select(strategy, data, kernel, weights=counts.astype(float))
        np.testing.assert_array_equal(select(strategy, repeated, kernel), weighted)
    if strategy == "greedy":
        np.testing.assert_array_equal(weighted, expected)


def test_greedy_with_a_gre_kernel_does_not_depend_on_the_order(X, grid):
    rng = np.random.default_rng(1)
    for data in (X, grid):
        kernel = GREKernel(KERNEL, data, background=0.3)
        expected = select("greedy", data, kernel)
        for _ in range(5):
            shuffled = rng.permutation(np.vstack([data, data]))
            np.testing.assert_array_equal(select("greedy", shuffled, kernel), expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weight_zero_is_removal(strategy, X):
    weights = np.ones(60)
    weights[::3] = 0.0
    np.testing.assert_array_equal(
        select(strategy, X, weights=weights), select(strategy, X[weights > 0])
    )


def test_greedy_follows_the_conditional_variance(X):
    for kernel in (KERNEL, GREKernel(KERNEL, X[:20], background=0.3)):
        Z = select("greedy", X, kernel, 6)
        for m in range(1, 6):
            basis = Nystroem.from_kernel(kernel, Z[:m])
            left = basis.residual_variance(X, basis(X))
            taken = basis.residual_variance(Z[m : m + 1], basis(Z[m : m + 1]))
            assert taken[0] == pytest.approx(left.max(), abs=1e-8)


def test_greedy_stops_when_the_prior_is_exhausted(X):
    assert select("greedy", X, DotProduct(), 20).shape == (3, 2)
    assert len(select("greedy", X[:, :1], RBF(5.0), 50)) < 20
    assert select("greedy", np.zeros((10, 2))).shape == (1, 2)
    assert select("greedy", np.array([[0.0], [-0.0], [1.0]]), RBF(0.1)).shape == (2, 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_asking_for_more_than_there_is(strategy, X):
    distinct = len(np.unique(X, axis=0))
    Z = select(strategy, X, Matern(0.1, nu=0.5), 1000)
    assert Z.shape == (distinct, 2)


def test_k_means_uses_the_lengthscales():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 1.0], 50), 1e3 * rng.normal(size=100)])
    Z = select("k-means++", X, RBF([1e-3, 1e6]), 2)
    assert set(Z[:, 0]) == {0.0, 1.0}


def test_random_depends_on_the_seed_and_weights(X):
    assert not np.array_equal(select("random", X), select("random", X, seed=1))
    weights = np.full(60, 1e-9)
    weights[7] = 1.0
    np.testing.assert_array_equal(
        select("random", X, n_inducing=1, weights=weights), X[7:8]
    )


def test_many_rows_are_thinned(X, monkeypatch):
    monkeypatch.setattr(_selectors, "_MAX_CANDIDATES", 20)
    first = select("greedy", X)
    assert first.shape == (8, 2)
    assert all(np.any(np.all(z == X, axis=1)) for z in first)
    np.testing.assert_array_equal(first, select("greedy", X[::-1]))


@pytest.mark.parametrize(
    ("inducing", "message"),
    [
        ("kmeans", r"one of \['greedy', .*, 'random'\].*got 'kmeans'"),
        (np.zeros((3, 5)), r"shape \(m, 2\).*\(3, 5\)"),
        (np.zeros(4), r"shape \(m, 2\)"),
        (np.zeros((0, 2)), "m > 0"),
        ([[np.nan, 0.0]], "finite"),
        (lambda X, kernel, n_inducing, rng: X[0], r"shape \(m, 2\)"),
    ],
)
def test_errors(inducing, message, X):
    with pytest.raises(ValueError, match=message):
        select(inducing, X)


def test_determinantal_draws_have_the_probabilities_of_determinants():
    X = np.array([[0.0], [0.3], [1.0], [1.2], [2.5]])
    kernel = RBF(0.6)
    pairs = list(itertools.combinations(range(5), 2))
    K = kernel(X)
    determinants = np.array([np.linalg.det(K[np.ix_(pair, pair)]) for pair in pairs])
    expected = determinants / determinants.sum()
    rng = np.random.default_rng(0)
    n_draws = 2000
    counts = dict.fromkeys(pairs, 0)
    for _ in range(n_draws):
        Z = select_inducing("m-dpp", X, kernel, 2, rng)
        counts[tuple(sorted(np.searchsorted(X[:, 0], Z[:, 0])))] += 1
    shares = np.array(list(counts.values())) / n_draws
    z = (shares - expected) / np.sqrt(expected * (1.0 - expected) / n_draws)
    assert np.abs(z).max() < 4.0


def test_determinantal_draws_stop_at_the_rank_of_the_kernel(X):
    assert len(select("m-dpp", X, DotProduct(0.0), 8)) == 2


def test_determinantal_draws_from_a_sample_of_many_rows(X, monkeypatch):
    monkeypatch.setattr(_selectors, "_MAX_DECOMPOSED", 20)
    Z = select("m-dpp", X)
    assert Z.shape == (8, 2)
    assert len(np.unique(Z, axis=0)) == 8
