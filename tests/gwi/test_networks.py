"""Training of the networks: losses, held-out rows, epochs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx._gwi._networks import (
    NetworkSettings,
    SquaredError,
    hold_out,
    train_networks,
)

SETTINGS = NetworkSettings(
    hidden_layer_sizes=(6,),
    n_estimators=3,
    alpha=1e-3,
    learning_rate_init=0.02,
    max_iter=30,
)


def problem(n=120, c=1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    targets = np.sin(X[:, :1] + np.arange(c)) + 0.1 * rng.normal(size=(n, c))
    return X, SquaredError(targets, rng.uniform(0.5, 2.0, n))


def train(X, loss, c=1, n_jobs=1, report=lambda _: False, fraction=0.1, **settings):
    rng, chosen = np.random.default_rng(1), SETTINGS._replace(**settings)
    parts = hold_out(len(X), fraction, chosen.n_estimators, np.random.default_rng(3))
    how = chosen, rng, n_jobs, report
    return train_networks(X, np.ones(len(X)), parts, loss, c, *how), parts


@pytest.mark.parametrize("c", [1, 3])
def test_any_loss_is_trained_as_the_compiled_one(c):
    X, loss = problem(c=c)
    one, _ = train(X, loss, c)
    # a function, so that its batches are Python's
    other, _ = train(X, lambda outputs, rows: loss(outputs, rows), c)
    assert_allclose(one.mean(X), other.mean(X), atol=1e-8)
    assert one.mean(X).shape == (len(X), c)


def test_same_bits_for_every_number_of_workers():
    X, loss = problem()
    (one, _), (two, _) = train(X, loss), train(X, loss, n_jobs=2)
    assert_array_equal(one.mean.parameters, two.mean.parameters)
    assert_array_equal(one.loss_curve, two.loss_curve)


def test_values_at_held_out_rows_come_from_networks_without_them():
    X, loss = problem()
    found, parts = train(X, loss, max_iter=1)
    assert np.sum(parts >= 0) == 36
    assert_array_equal(found.values[parts < 0], found.mean(X)[parts < 0])
    changed, row = loss.targets.copy(), np.flatnonzero(parts == 1)[0]
    changed[row] += 1.0
    after, _ = train(X, loss._replace(targets=changed), max_iter=1)
    assert_array_equal(found.values[row], after.values[row])
    assert found.mean(X)[row] != after.mean(X)[row]


def test_parts_are_disjoint_and_few_rows_have_none():
    for n, fraction, size, count in [
        (19, 0.1, 0, 0),
        (20, 0.1, 2, 5),
        (50, 0.4, 20, 2),
    ]:
        parts = hold_out(n, fraction, 5, np.random.default_rng(0))
        assert len(parts) == n
        assert parts.max() + 1 == count
        assert [np.sum(parts == k) for k in range(count)] == [size] * count
    X, loss = problem(19)
    assert len(train(X, loss)[0].validation_curve) == 0
    # more networks than parts share them
    X, loss = problem(50)
    assert np.all(np.isfinite(train(X, loss, fraction=0.4)[0].values))


@pytest.mark.parametrize("max_iter", [1, 49, 50, 51])
def test_rounds_end_at_the_last_epoch(max_iter):
    X, loss = problem()
    rounds = []
    found, _ = train(X, loss, max_iter=max_iter, report=lambda _: rounds.append(1))
    assert len(found.loss_curve) == max_iter
    assert len(rounds) == min(max_iter, 50) == len(found.validation_curve)


def test_a_report_ends_the_training():
    X, loss = problem()
    found, _ = train(X, loss, report=lambda trained: trained().n_iter >= 3)
    assert found.n_iter == 3


def test_the_best_epoch_of_the_held_out_rows_is_kept():
    X, _ = problem()
    noise = np.random.default_rng(5).normal(size=(len(X), 1))
    loss = SquaredError(noise, np.ones(len(X)))
    wide = {"hidden_layer_sizes": (40,), "max_iter": 200, "n_estimators": 1}
    found, _ = train(X, loss, **wide)
    assert found.n_iter < 200
    best = np.argmin(found.validation_curve)
    assert found.n_iter == np.linspace(0, 200, 51).astype(int)[1:][best]
