"""Training of the networks: losses, held-out rows, epochs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx._gwi._network import (
    MAX_EPOCHS,
    MIN_EPOCHS,
    MIN_ROWS,
    ROUNDS,
    ROW_STEPS,
    SquaredError,
    held_out_parts,
    number_of_epochs,
    train_networks,
)
from skgpx._gwi._settings import NetworkSettings

SETTINGS = NetworkSettings(
    hidden_layer_sizes=(6,),
    activation="tanh",
    n_restarts=3,
    alpha=1e-3,
    learning_rate=0.02,
    batch_size=32,
    max_iter=30,
    validation_fraction=0.1,
    early_stopping=True,
)


def problem(n=120, c=1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    targets = np.sin(X[:, :1] + np.arange(c)) + 0.1 * rng.normal(size=(n, c))
    return X, SquaredError(targets, rng.uniform(0.5, 2.0, n))


def train(X, loss, c=1, settings=SETTINGS, n_jobs=1, report=lambda _: False):
    rng = np.random.default_rng(1)
    how = settings, rng, n_jobs, report
    return train_networks(X, np.ones(len(X)), loss, c, *how)


@pytest.mark.parametrize("c", [1, 3])
def test_any_loss_is_trained_as_the_compiled_one(c):
    X, loss = problem(c=c)
    one = train(X, loss, c)
    # a function, so that its batches are Python's
    other = train(X, lambda outputs, rows: loss(outputs, rows), c)
    assert_allclose(one.mean.function(X), other.mean.function(X), atol=1e-8)
    assert one.mean.function(X).shape == (len(X), c)


def test_same_bits_for_every_number_of_workers():
    X, loss = problem()
    one, two = train(X, loss), train(X, loss, n_jobs=2)
    assert_array_equal(one.mean.function.parameters, two.mean.function.parameters)
    assert_array_equal(one.loss_curve, two.loss_curve)


def test_values_of_rows_that_were_held_out_come_from_networks_without_them():
    X, loss = problem()
    found = train(X, loss)
    assert found.mean.held_out.sum() == 36
    everyone = found.mean.function(X)
    trained = ~found.mean.held_out
    assert_array_equal(found.mean.residual_values[trained], everyone[trained])
    changed = loss.targets.copy()
    row = np.flatnonzero(found.mean.held_out)[0]
    changed[row] += 1.0
    settings = SETTINGS._replace(early_stopping=False)
    before = train(X, loss, settings=settings)
    after = train(X, loss._replace(targets=changed), settings=settings)
    assert_array_equal(
        before.mean.residual_values[row], after.mean.residual_values[row]
    )
    assert before.mean.function(X)[row] != after.mean.function(X)[row]


@pytest.mark.parametrize("n", [MIN_ROWS - 1, MIN_ROWS, MIN_ROWS + 1])
def test_few_rows_hold_none_out(n):
    parts = held_out_parts(n, SETTINGS, np.random.default_rng(0))
    if n < MIN_ROWS:
        assert [len(part) for part in parts] == [0]
    else:
        assert [len(part) for part in parts] == [2, 2, 2]
    everyone = np.concatenate(parts)
    assert len(np.unique(everyone)) == len(everyone)
    X, loss = problem(n)
    found = train(X, loss)
    assert found.mean.held_out.sum() == len(everyone)
    assert len(found.held_out_curve) == (30 if n >= MIN_ROWS else 0)


def test_more_networks_than_parts_share_them():
    settings = SETTINGS._replace(n_restarts=5, validation_fraction=0.4)
    parts = held_out_parts(50, settings, np.random.default_rng(0))
    assert [len(part) for part in parts] == [20, 20]
    X, loss = problem(50)
    assert train(X, loss, settings=settings).mean.held_out.sum() == 40


@pytest.mark.parametrize("n", [1, 749, 750, 751, 99_999, 100_000, 100_001, 10**6])
def test_number_of_epochs(n):
    epochs = number_of_epochs("auto", n)
    assert MIN_EPOCHS <= epochs <= MAX_EPOCHS
    if MIN_EPOCHS < epochs < MAX_EPOCHS:
        assert epochs == ROW_STEPS // n
    assert number_of_epochs(7, n) == 7


@pytest.mark.parametrize("max_iter", [1, ROUNDS - 1, ROUNDS, ROUNDS + 1])
def test_rounds_end_at_the_last_epoch(max_iter):
    X, loss = problem()
    told = []
    settings = SETTINGS._replace(max_iter=max_iter, early_stopping=False)
    found = train(X, loss, settings=settings, report=lambda _: told.append(1))
    assert len(found.loss_curve) == max_iter == found.n_iter
    assert len(told) == min(max_iter, ROUNDS) == len(found.held_out_curve)


def test_a_report_ends_the_training():
    X, loss = problem()
    found = train(X, loss, report=lambda trained: trained().n_iter >= 3)
    assert found.n_iter == 3


def test_early_stopping_keeps_the_best_of_the_held_out_rows():
    X, _ = problem()
    noise = np.random.default_rng(5).normal(size=(len(X), 1))
    loss = SquaredError(noise, np.ones(len(X)))
    wide = SETTINGS._replace(hidden_layer_sizes=(40,), max_iter=200, n_restarts=1)
    stopped = train(X, loss, settings=wide)
    longer = train(X, loss, settings=wide._replace(early_stopping=False))
    assert stopped.n_iter < longer.n_iter == 200
    assert np.min(stopped.held_out_curve) < longer.held_out_curve[-1]


@pytest.mark.parametrize("n_rows", [31, 32, 33])
def test_sizes_around_a_batch(n_rows):
    X, loss = problem(n_rows)
    settings = SETTINGS._replace(validation_fraction=0.0)
    assert np.all(np.isfinite(train(X, loss, settings=settings).loss_curve))
