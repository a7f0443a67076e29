"""Parts of the fits: losses, factors of classes, training of the networks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx import GWIRegressor
from skgpx._gwi._class_scores import (
    HeldOutScores,
    class_loss,
    fit_class_scale,
)
from skgpx._gwi._networks import hold_out, squared_error, train_networks
from skgpx._shell.validation import Rows
from skgpx.likelihoods import Bernoulli, Categorical, RobustMax

LIKELIHOODS = [Bernoulli(), Categorical(), RobustMax(), RobustMax(0.2)]
STREAM = np.random.default_rng(0)
X = STREAM.normal(size=(120, 2))
T = np.sin(X[:, :1]) + 0.1 * STREAM.normal(size=(120, 1))
W = STREAM.uniform(0.5, 2.0, 120)


def problem(likelihood, rng, n=9, variance=None):
    codes = np.arange(n) % (2.0 if isinstance(likelihood, Bernoulli) else 3.0)
    r = 0.1 + rng.random(n) if variance is None else np.full(n, variance)
    return likelihood.prepare(codes), codes, 0.5 + rng.random(n), r


@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, None], ids=repr)
def test_gradient_of_the_loss_is_that_of_differences(rng, likelihood):
    """Of classes, and the squared error."""
    c, loss, rows, h = 1, squared_error(T, W), np.array([[7, 0], [3, 4]]), 1e-5
    if likelihood is not None:
        prepared, *rest = problem(likelihood, rng)
        c, loss = prepared.n_outputs_, class_loss(prepared, *rest, 0.3)
    outputs = rng.standard_normal((2, 2, c))
    values, slopes = loss(outputs, rows)
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = h
        rise = loss(outputs + step, rows)[0] - loss(outputs - step, rows)[0]
        assert_allclose(slopes[place], rise[place[0]] / (2.0 * h), atol=1e-7)
        assert rise[1 - place[0]] == 0.0  # each network has its loss
    if likelihood is None:
        squares = (outputs[1] - T[rows[1]])[:, 0] ** 2
        assert_allclose(values[1], 0.5 * np.average(squares, weights=W[rows[1]]))


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


def held_out(rng, likelihood, a, b, n_states, n=1500):
    """Rows whose classes are drawn from scores and variances with known factors.

    Each state has these scores and variances.
    """
    c = 1 if isinstance(likelihood, Bernoulli) else 3
    likelihood = likelihood.prepare(np.arange(float(max(c, 2)))).with_base(0.0)
    scores, r = 2.0 * rng.standard_normal((n, c)), 0.1 + 3.0 * rng.random(n)
    f = a * scores + np.sqrt(b * r)[:, None] * rng.standard_normal((n, c))
    y = likelihood.sample(f[:, :, None] if c > 1 else f, rng)[:, 0]
    rows = HeldOutScores(
        codes=y,
        weights=np.ones(n),
        scores=scores[:, :, np.newaxis],
        base=np.zeros((c, n_states)),
        fading=np.ones((n, n_states)),
        variance=np.tile(r[:, np.newaxis], n_states),
        state_weights=np.full(n_states, 1.0 / n_states),
    )
    return likelihood, rows


@pytest.mark.parametrize(
    ("likelihood", "n_states"),
    [*((one, 1) for one in LIKELIHOODS[:3]), (LIKELIHOODS[0], 3)],
    ids=repr,
)
def test_factors_are_found_again(rng, likelihood, n_states):
    a = 1.0 if isinstance(likelihood, RobustMax) else 2.5
    found = fit_class_scale(*held_out(rng, likelihood, a, 4.0, n_states))
    assert_allclose(found.score_factor, a, rtol=0.25)
    assert_allclose(found.variance_factor, 4.0, rtol=0.5)


# ---- Networks ------------------------------------------------------------------------


def train(
    targets=T,
    weights=W,
    max_iter=30,
    fraction=0.1,
    report=lambda _: False,
    n_networks=3,
    hidden_layer_sizes=(6,),
    alpha=1e-3,
    learning_rate=0.02,
):
    n = len(targets)
    parts = hold_out(n, fraction, n_networks, np.random.default_rng(3))
    networks = train_networks(
        GWIRegressor(
            n_estimators=n_networks,
            hidden_layer_sizes=hidden_layer_sizes,
            alpha=alpha,
            learning_rate_init=learning_rate,
        ),
        Rows(X[:n], targets, np.ones(n)),
        parts,
        loss=squared_error(targets, weights),
        n_outputs=targets.shape[1],
        max_iter=max_iter,
        rng=np.random.default_rng(1),
        report=report,
    )
    return networks, parts


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


def test_the_best_epoch_of_the_held_out_rows_is_kept():
    noise = np.random.default_rng(5).normal(size=(120, 1))
    wide = {"hidden_layer_sizes": (40,), "n_networks": 1, "max_iter": 200}
    curves = train(noise, np.ones(120), **wide)[0][2]
    assert curves["n_iter_"] < 200
    best = np.argmin(curves["validation_curve_"])
    assert curves["n_iter_"] == np.linspace(0, 200, 51).astype(int)[1:][best]
    # so many rounds without a lower loss end the training
    assert len(curves["validation_curve_"]) == min(best + 12, 50)
