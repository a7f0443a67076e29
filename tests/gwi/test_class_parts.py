"""Losses, scores, folds and factors of classes."""

import numpy as np
import pytest
from scipy import special
from sklearn.dummy import DummyClassifier
from sklearn.svm import SVC, LinearSVC

from skgpx._gwi._class_scores import (
    ClassLoss,
    ClassScores,
    FadingScores,
    HeldOutClasses,
    fading,
    fit_class_scale,
    latent_scores,
    stratified_folds,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._table import Training
from skgpx.bases import Nystroem
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Bernoulli, Categorical, RobustMax

LAWS = [Bernoulli(), Categorical(), RobustMax(), RobustMax(0.2)]


def loss_of(weights, rng, n=9, variance=None):
    codes = np.arange(n) % (2.0 if isinstance(weights, Bernoulli) else 3.0)
    r = 0.1 + rng.random(n) if variance is None else np.full(n, variance)
    return ClassLoss(weights.prepare(codes), codes, 0.5 + rng.random(n), r, 0.3)


@pytest.mark.parametrize("distribution", LAWS, ids=repr)
def test_gradient_of_the_loss_is_that_of_differences(rng, weights):
    loss, rows, h = loss_of(weights, rng), np.array([7, 0, 3, 4]), 1e-5
    outputs = rng.standard_normal((4, loss.likelihood.n_outputs_))
    _, slopes = loss(outputs, rows)
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = h
        rise = loss(outputs + step, rows)[0] - loss(outputs - step, rows)[0]
        assert slopes[place] == pytest.approx(rise / (2.0 * h), abs=1e-7)


def test_expected_log_likelihood_is_that_of_draws(rng):
    """Eqs. (66) to (70): the average of a step."""
    loss = loss_of(RobustMax(), rng)._replace(distance_weight=0.0)
    m = rng.standard_normal((9, 3))
    found = loss(m, np.arange(9))[0]
    noise = rng.standard_normal((9, 3, 50_000))
    f = m[:, :, None] + np.sqrt(loss.variance)[:, None, None] * noise
    draws = loss.likelihood.row_nll(loss.codes, f)
    share = loss.weights / loss.weights.sum()
    error = np.sqrt(share**2 @ draws.var(axis=1) / draws.shape[1])
    assert abs(share @ draws.mean(axis=1) - found) < 4.5 * error


def test_without_variance_the_loss_is_the_log_loss(rng):
    loss = loss_of(Categorical(), rng, variance=0.0)._replace(distance_weight=0.0)
    m = rng.standard_normal((9, 3))
    own = special.log_softmax(m, axis=1)[np.arange(9), loss.codes.astype(int)]
    expected = -np.average(own, weights=loss.weights)
    assert loss(m, np.arange(9))[0] == pytest.approx(expected)


def test_responses_stand_in_the_columns_of_their_classes(rng):
    X = rng.standard_normal((30, 2))
    y = np.array(["a", "b", "c"])[np.arange(30) % 3]
    fitted = DummyClassifier(strategy="prior").fit(X[y != "b"], y[y != "b"])
    said = ClassScores(np.array(["a", "b", "c"]))(fitted, X[:2])
    np.testing.assert_allclose(said, [[0.5, 0.0, 0.5]] * 2)
    with pytest.raises(ValueError, match=r"none of which is in y, which has \[0, 1\]"):
        ClassScores(np.array([0, 1]))(fitted, X)


def test_decision_functions_of_two_and_more_classes(rng):
    X = rng.standard_normal((60, 2))
    two = LinearSVC().fit(X, X[:, 0] > 0)
    said = ClassScores(np.array([False, True]))(two, X)
    np.testing.assert_allclose(said[:, 1] - said[:, 0], two.decision_function(X))
    y = np.digitize(X[:, 0], [-0.6, 0.0, 0.6])
    pairs = SVC(decision_function_shape="ovo").fit(X, y)
    with pytest.raises(ValueError, match="decision_function_shape='ovr'"):
        ClassScores(np.arange(4))(pairs, X)


def test_scores_of_probabilities_are_log_odds():
    p = np.array([[0.25, 0.75], [0.0, 1.0]])
    np.testing.assert_allclose(latent_scores(p[:1], 0.0, 1), np.log(3.0))
    assert latent_scores(p, 0.1, 1)[1, 0] == pytest.approx(np.log(0.95 / 0.05))
    three = latent_scores(np.array([[1.0, 2.0, 6.0]]), None, 3)
    np.testing.assert_allclose(three, [[-2.0, -1.0, 3.0]])


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_every_training_set_has_every_class(rng, n_folds):
    y = rng.permutation(np.repeat([0, 1, 2, 3, 4], [1, 2, 3, 7, 20]))
    X = rng.standard_normal((33, 2))
    given, splits = stratified_folds(Training(X, y, np.ones(33)), n_folds)
    tested = np.concatenate([test for _, test in splits])
    assert sorted(given.y[tested]) == sorted(y[y > 0])
    for train, _ in splits:
        assert set(given.y[train]) == set(range(5))
    assert np.ptp([len(test) for _, test in splits]) <= 1


def held_out_of(rng, weights, a, b, n=1500):
    """Rows whose classes are drawn from scores and variances with known factors."""
    c = 1 if isinstance(weights, Bernoulli) else 3
    weights = weights.prepare(np.arange(float(max(c, 2)))).with_base(0.0)
    scores, r = 2.0 * rng.standard_normal((n, c)), 0.1 + 3.0 * rng.random(n)
    f = a * scores + np.sqrt(b * r)[:, None] * rng.standard_normal((n, c))
    y = weights.sample(f[:, :, None] if c > 1 else f, rng)[:, 0]
    return weights, HeldOutClasses(y, np.ones(n), scores, r, np.zeros(n))


@pytest.mark.parametrize("distribution", LAWS[:3], ids=repr)
def test_factors_are_found_again(rng, weights):
    a = 1.0 if isinstance(weights, RobustMax) else 2.5
    weights, validation = held_out_of(rng, weights, a, 4.0)
    found = fit_class_scale(validation, weights)
    assert found.score_factor == pytest.approx(a, rel=0.25)
    assert found.variance_factor == pytest.approx(4.0, rel=0.5)


@pytest.mark.parametrize("distribution", LAWS[:3], ids=repr)
def test_weights_of_rows_are_repetitions(rng, weights):
    weights, validation = held_out_of(rng, weights, 1.0, 1.0, n=60)
    times = rng.integers(1, 4, 60)
    weighted = validation._replace(weights=times.astype(float))
    repeated = HeldOutClasses(*(np.repeat(part, times, axis=0) for part in validation))
    one, two = fit_class_scale(weighted, weights), fit_class_scale(repeated, weights)
    np.testing.assert_allclose(one, two, rtol=1e-3)


def test_fading():
    left = np.array([0.0, 0.2, 0.6, 1.0])
    np.testing.assert_allclose(fading(left, 0.2), [1.0, 1.0, 0.5, 0.0])
    np.testing.assert_allclose(fading(left, 1.0), [1.0, 1.0, 1.0, 0.0])


def test_scores_fade_into_the_base(rng):
    X = rng.standard_normal((20, 2))
    basis = Nystroem.from_kernel(default_kernel(X, np.ones(20)), X)
    weights = GaussianWeights(np.zeros((20, 1)), 0.01 * np.eye(20)[np.newaxis])
    base = np.array([0.4])
    scores = FadingScores(lambda X: X[:, :1], 2.0, base, 0.1, basis, weights)
    np.testing.assert_allclose(scores(X) + base, 2.0 * X[:, :1], atol=1e-12)
    np.testing.assert_allclose(scores(100.0 + X), 0.0, atol=1e-12)
