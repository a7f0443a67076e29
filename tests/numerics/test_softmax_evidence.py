"""Laplace's evidence of softmax classes at all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx._numerics.softmax_evidence import ClassRows, precision, softmax_evidence

CASES = [(1, 2), (3, 2), (17, 3), (40, 5)]


def rows_and_covariance(n, c, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    squares = np.sum((X[:, np.newaxis] - X) ** 2, axis=2)
    K = 4.0 * np.exp(-0.5 * squares)
    is_class = np.eye(c)[rng.permutation(np.arange(n) % c)].T
    base = rng.normal(size=c)
    weights = rng.integers(1, 4, n).astype(float)
    return ClassRows(is_class, weights, base - base.mean()), K


@pytest.mark.parametrize("n", [1, 3, 4, 5, 30, 61])
def test_precision_is_that_of_a_dense_inverse(n):
    _, K = rows_and_covariance(n, 2)
    root_D = np.random.default_rng(1).uniform(0.0, 1.0, n)
    B = np.eye(n) + root_D[:, np.newaxis] * K * root_D
    E = np.empty((n, n))
    assert_allclose(precision(K, root_D, E), np.linalg.slogdet(B)[1], rtol=1e-12)
    expected = np.linalg.inv(B) * np.outer(root_D, root_D)
    assert_allclose(E, expected, atol=1e-13)


@pytest.mark.parametrize(("n", "c"), CASES)
def test_the_mode_and_the_evidence_are_those_of_dense_matrices(n, c):
    rows, K = rows_and_covariance(n, c)
    value, _, alpha = softmax_evidence(rows, K)
    f = rows.base[:, np.newaxis] + alpha @ K
    p = np.exp(f - np.logaddexp.reduce(f, axis=0))
    # α = -∇ nll at the mode
    assert_allclose(alpha, rows.weights * (rows.is_class - p), atol=1e-5)
    W = np.zeros((c, n, c, n))
    for i in range(n):
        W[:, i, :, i] = rows.weights[i] * (
            np.diag(p[:, i]) - np.outer(p[:, i], p[:, i])
        )
    B = np.eye(c * n) + np.kron(np.eye(c), K) @ W.reshape(c * n, c * n)
    nll = -rows.weights @ np.log(np.sum(rows.is_class * p, axis=0))
    energy = nll + 0.5 * np.sum(alpha * (alpha @ K))
    assert_allclose(value, -energy - 0.5 * np.linalg.slogdet(B)[1], rtol=1e-8)


@pytest.mark.parametrize(("n", "c"), CASES)
def test_slopes_are_those_of_differences(n, c):
    rows, K = rows_and_covariance(n, c)
    _, slope, alpha = softmax_evidence(rows, K)
    # any other start ends at the same mode
    value, again, _ = softmax_evidence(rows, K, start=-0.5 * alpha)
    assert_allclose(again, slope, atol=1e-6)
    rng = np.random.default_rng(2)
    for _ in range(3):
        change = rng.normal(size=(n, n))
        change = 1e-5 * change @ change.T
        above, below = (softmax_evidence(rows, K + s * change)[0] for s in (1, -1))
        rise = 0.5 * (above - below)
        assert_allclose(rise, np.sum(slope * change), rtol=1e-4, atol=1e-8)
    assert np.isfinite(value)


def test_repeated_rows_and_classes_that_are_apart_have_an_evidence():
    rows, K = rows_and_covariance(20, 3)
    K = np.ones((20, 20)) + 1e4 * np.kron(np.eye(2), np.ones((10, 10)))
    value, slope, _ = softmax_evidence(rows, K)
    assert np.isfinite(value)
    assert np.all(np.isfinite(slope))


def test_a_covariance_that_is_not_positive_is_refused():
    rows, K = rows_and_covariance(6, 3)
    with pytest.raises(np.linalg.LinAlgError):
        softmax_evidence(rows, -5.0 * K)
