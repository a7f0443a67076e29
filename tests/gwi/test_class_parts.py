"""Losses, scores and factors of classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special
from sklearn.dummy import DummyClassifier

from skgpx._gwi._class_scores import (
    FadingScores,
    class_loss,
    class_scores,
    fading,
    fit_class_scale,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import Nystroem
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Bernoulli, Categorical, RobustMax

LIKELIHOODS = [Bernoulli(), Categorical(), RobustMax(), RobustMax(0.2)]
likelihoods = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)


def problem(likelihood, rng, n=9, variance=None):
    codes = np.arange(n) % (2.0 if isinstance(likelihood, Bernoulli) else 3.0)
    r = 0.1 + rng.random(n) if variance is None else np.full(n, variance)
    return likelihood.prepare(codes), codes, 0.5 + rng.random(n), r


@likelihoods
def test_gradient_of_the_loss_is_that_of_differences(rng, likelihood):
    prepared, *rest = problem(likelihood, rng)
    loss, rows, h = class_loss(prepared, *rest, 0.3), np.array([[7, 0], [3, 4]]), 1e-5
    outputs = rng.standard_normal((2, 2, prepared.n_outputs_))
    _, slopes = loss(outputs, rows)
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = h
        rise = loss(outputs + step, rows)[0] - loss(outputs - step, rows)[0]
        assert_allclose(slopes[place], rise[place[0]] / (2.0 * h), atol=1e-7)
        assert rise[1 - place[0]] == 0.0  # each network has its loss


def test_expected_log_likelihood_is_that_of_draws(rng):
    """Eqs. (66) to (70): the average of a step."""
    likelihood, codes, weights, r = problem(RobustMax(), rng)
    m, rows = rng.standard_normal((9, 3)), np.arange(9)[np.newaxis]
    found = class_loss(likelihood, codes, weights, r, 0.0)(m[np.newaxis], rows)[0]
    f = m[:, :, None] + np.sqrt(r)[:, None, None] * rng.standard_normal((9, 3, 50_000))
    draws = likelihood.row_nll(codes, f)
    share = weights / weights.sum()
    error = np.sqrt(share**2 @ draws.var(axis=1) / draws.shape[1])
    assert abs(share @ draws.mean(axis=1) - found[0]) < 4.5 * error


def test_without_variance_the_loss_is_the_log_loss(rng):
    likelihood, codes, weights, r = problem(Categorical(), rng, variance=0.0)
    m, rows = rng.standard_normal((9, 3)), np.arange(9)[np.newaxis]
    found = class_loss(likelihood, codes, weights, r, 0.0)(m[np.newaxis], rows)[0]
    own = special.log_softmax(m, axis=1)[np.arange(9), codes.astype(int)]
    assert_allclose(found, -np.average(own, weights=weights))


def test_scores_are_log_odds_of_all_classes(rng):
    X, classes = rng.standard_normal((30, 2)), np.array(["a", "b", "c"])
    y = classes[np.arange(30) % 3]
    two = DummyClassifier(strategy="prior").fit(X[y != "b"], y[y != "b"])
    found = class_scores(classes, 0.3, 3, two, X[:2])
    p = np.array([0.45, 0.1, 0.45])
    assert_allclose(found, [np.log(p) - np.log(p).mean()] * 2)
    odds = class_scores(np.array(["a", "c"]), 0.0, 1, two, X[:2])
    assert_allclose(odds, 0.0, atol=1e-12)
    with pytest.raises(ValueError, match=r"none of which is in y, which has \[0, 1\]"):
        class_scores(np.array([0, 1]), 0.1, 1, two, X)


def held_out(rng, likelihood, a, b, n=1500):
    """Rows whose classes are drawn from scores and variances with known factors."""
    c = 1 if isinstance(likelihood, Bernoulli) else 3
    likelihood = likelihood.prepare(np.arange(float(max(c, 2)))).with_base(0.0)
    scores, r = 2.0 * rng.standard_normal((n, c)), 0.1 + 3.0 * rng.random(n)
    f = a * scores + np.sqrt(b * r)[:, None] * rng.standard_normal((n, c))
    y = likelihood.sample(f[:, :, None] if c > 1 else f, rng)[:, 0]
    return likelihood, y, np.ones(n), scores, r, np.zeros(n)


@pytest.mark.parametrize("likelihood", LIKELIHOODS[:3], ids=repr)
def test_factors_are_found_again(rng, likelihood):
    a = 1.0 if isinstance(likelihood, RobustMax) else 2.5
    found = fit_class_scale(*held_out(rng, likelihood, a, 4.0))
    assert_allclose(found.score_factor, a, rtol=0.25)
    assert_allclose(found.variance_factor, 4.0, rtol=0.5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS[:3], ids=repr)
def test_weights_of_rows_are_repetitions(rng, likelihood):
    prepared, y, _, *parts = held_out(rng, likelihood, 1.0, 1.0, n=60)
    times = rng.integers(1, 4, 60)
    one = fit_class_scale(prepared, y, times.astype(float), *parts)
    y, *parts = (np.repeat(part, times, axis=0) for part in (y, *parts))
    assert_allclose(one, fit_class_scale(prepared, y, np.ones(len(y)), *parts), 1e-3)


def test_scores_fade_into_the_base(rng):
    left = np.array([0.0, 0.2, 0.6, 1.0])
    assert_allclose(fading(left, 0.2), [1.0, 1.0, 0.5, 0.0])
    assert_allclose(fading(left, 1.0), [1.0, 1.0, 1.0, 0.0])
    X = rng.standard_normal((20, 2))
    basis = Nystroem.from_kernel(default_kernel(X, np.ones(20)), X)
    weights = GaussianWeights(np.zeros((20, 1)), 0.01 * np.eye(20)[np.newaxis])
    base = np.array([0.4])
    scores = FadingScores(lambda X: X[:, :1], 2.0, base, 0.1, basis, weights)
    assert_allclose(scores(X) + base, 2.0 * X[:, :1], atol=1e-12)
    assert_allclose(scores(100.0 + X), 0.0, atol=1e-12)
