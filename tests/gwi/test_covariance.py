"""The four covariances, and the objectives that two of them minimise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skgpx._gwi import _covariance
from skgpx._gwi._covariance import Objective, covariance_root
from skgpx._numerics.gaussian_wasserstein import projected_bures
from skgpx._numerics.regression import posterior, weight_statistics
from skgpx._validation import Rows
from skgpx.bases import Nystroem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
ROWS = Rows(X, np.sin(X[:, 0]), np.ones(60))
BASIS = Nystroem.from_kernel(RBF(1.0), X[:6])
FEATURES = BASIS(X)
GRAM = FEATURES.T @ FEATURES / 60


def objective(batch_size=None, weight=1.0, means=0.1):
    return Objective(GRAM, 60.0, 2.0, weight, batch_size, means)


def value(one, root):
    return one.value_and_gradient(root, projected_bures(one.gram, root))[0]


def root_of(how, one):
    return covariance_root(how, one, BASIS, ROWS, np.random.default_rng(1))


@pytest.mark.parametrize("batch_size", [None, 10.0])
@pytest.mark.parametrize("weight", [0.5, 1.0, 30.0])
def test_the_formula_is_the_minimum_that_a_search_finds(batch_size, weight):
    one = objective(batch_size, weight)
    best = root_of("closed_form", one)
    searched = root_of("bures", one)
    start = root_of("svgp", one)
    assert value(one, best) <= value(one, searched) * (1.0 + 1e-12)
    assert_allclose(value(one, searched), value(one, best), rtol=1e-4)
    assert value(one, best) <= value(one, start)
    assert_allclose(
        one.value_and_gradient(best, projected_bures(GRAM, best))[1], 0.0, atol=1e-10
    )


@pytest.mark.parametrize("batch_size", [None, 10.0])
def test_gradients_of_both_objectives(batch_size):
    one, rng = objective(batch_size, 0.7), np.random.default_rng(2)
    root, change = rng.normal(size=(2, 6, 6))
    slope = one.value_and_gradient(root, projected_bures(GRAM, root))[1]
    step = 1e-5 * change
    rise = (value(one, root + step) - value(one, root - step)) / 2e-5
    assert_allclose(np.sum(slope * change), rise, rtol=1e-7)


def test_that_of_sparse_regression():
    sums = weight_statistics(FEATURES, ROWS.y, ROWS.weights, np.zeros(60))
    expected = posterior(sums, 2.0).root[0]
    root = root_of("svgp", objective())
    assert_allclose(root @ root.T, expected @ expected.T, atol=1e-12)


def test_without_a_distance_nothing_is_left():
    one = objective(weight=0.0)
    assert np.all(root_of("closed_form", one) == 0.0)
    assert one.mean_weight() == 0.0
    assert objective(10.0, 0.0).shrinkage == np.inf


def test_the_estimator_of_the_paper_goes_down_from_sparse_regression(monkeypatch):
    monkeypatch.setattr(_covariance, "N_STEPS", 100)
    one = objective()
    start, end = root_of("svgp", one), root_of("empirical", one)
    best = value(one, root_of("closed_form", one))
    assert best < value(one, end) < value(one, start)


def test_weights_of_the_means():
    # κ = λ / a, and λ / (2 D a) for the distance itself
    assert_allclose(objective().mean_weight(), 2.0 * 2.0 / 60.0)
    one = objective(10.0)
    a, D = 60.0 / (2.0 * 2.0 * 10.0), one.distance
    assert_allclose(one.mean_weight(), 1.0 / (2.0 * D * a))
