"""Training of the networks: held-out rows, rounds, epochs."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx._gwi._networks import hold_out, squared_error, train_networks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
T = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(120, 1))
W = RNG.uniform(0.5, 2.0, 120)
SETTINGS = {"hidden_layer_sizes": (6,), "n_estimators": 3, "alpha": 1e-3}


def train(
    targets=T, weights=W, max_iter=30, fraction=0.1, report=lambda _: False, **given
):
    given = SimpleNamespace(**SETTINGS | {"learning_rate_init": 0.02} | given)
    n, c = targets.shape
    parts = hold_out(n, fraction, given.n_estimators, np.random.default_rng(3))
    how = squared_error(targets, weights), c, given, max_iter, np.random.default_rng(1)
    return train_networks(X[:n], np.ones(n), parts, *how, report), parts


def test_the_loss_has_the_slopes_of_its_differences():
    rows, outputs = np.array([[3, 1, 7], [0, 2, 9]]), RNG.normal(size=(2, 3, 1))
    loss = squared_error(T, W)
    step = np.zeros_like(outputs)
    step[1, 2] = 1e-6
    rise = (loss(outputs + step, rows)[0] - loss(outputs - step, rows)[0]) / 2e-6
    assert_allclose(rise, [0.0, loss(outputs, rows)[1][1, 2, 0]], rtol=1e-6)
    expected = np.average((outputs[1] - T[rows[1]])[:, 0] ** 2, weights=W[rows[1]])
    assert_allclose(loss(outputs, rows)[0][1], 0.5 * expected)


def test_held_out_rows_are_predicted_by_networks_without_them():
    (mean, values, _), parts = train(max_iter=1)
    assert parts.shape == (3, 12)
    place = 12 + 5  # of a row that the second network holds out
    changed = T.copy()
    changed[parts.ravel()[place]] += 1.0
    (after, again, _), _ = train(changed, max_iter=1)
    assert_array_equal(values[place], again[place])
    assert not np.array_equal(values[:12], again[:12])
    assert not np.array_equal(mean.parameters[0], after.parameters[0])
    assert_array_equal(mean.parameters[1], after.parameters[1])
    # of several outputs
    (mean, values, _), _ = train(np.column_stack((T, -T)), max_iter=1)
    assert mean(X).shape == (120, 2)
    assert values.shape == (36, 2)


@pytest.mark.parametrize(
    ("n", "fraction", "shape"),
    [(19, 0.1, (0, 0)), (20, 0.1, (5, 2)), (50, 0.4, (2, 20)), (50, 0.0, (0, 0))],
)
def test_parts_are_disjoint_and_few_rows_have_none(n, fraction, shape):
    parts = hold_out(n, fraction, 5, np.random.default_rng(0))
    assert parts.shape == shape
    assert len(np.unique(parts)) == parts.size
    found = train(T[:n], W[:n], 5, fraction, n_estimators=5)[0]
    assert np.all(np.isfinite(found[1]))
    assert len(found[2]["validation_curve_"]) == (5 if parts.size else 0)


@pytest.mark.parametrize("max_iter", [1, 49, 50, 51])
def test_rounds_end_at_the_last_epoch(max_iter):
    rounds = []
    found, _ = train(max_iter=max_iter, report=lambda _: rounds.append(1))
    assert len(found[2]["loss_curve_"]) == max_iter
    assert len(rounds) == min(max_iter, 50) == len(found[2]["validation_curve_"])


def test_a_report_ends_the_training():
    found, _ = train(report=lambda trained: trained()[2]["n_iter_"] >= 3)
    assert found[2]["n_iter_"] == 3


def test_the_best_epoch_of_the_held_out_rows_is_kept():
    noise = np.random.default_rng(5).normal(size=(120, 1))
    wide = {"hidden_layer_sizes": (40,), "n_estimators": 1, "max_iter": 200}
    curves = train(noise, np.ones(120), **wide)[0][2]
    assert curves["n_iter_"] < 200
    best = np.argmin(curves["validation_curve_"])
    assert curves["n_iter_"] == np.linspace(0, 200, 51).astype(int)[1:][best]
    # so many rounds without a lower loss end the training
    assert len(curves["validation_curve_"]) == min(best + 12, 50)
