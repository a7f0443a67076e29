"""The optimal potential of classes against product rules, draws and differences."""

import numpy as np
import pytest
from scipy.special import logsumexp

from skgpx._numerics import langevin, pointwise
from skgpx._numerics.averaged import AveragedSoftmax, hazard_table
from skgpx._numerics.contrasts import contrasts
from skgpx._numerics.quadrature import expectation_nodes, trapezoidal_nodes
from skgpx._selection import row_target
from skgpx._validation import Rows
from skgpx.likelihoods import Categorical

# Just below, at and above where the table changes its rule, and far beyond.
WIDTHS = [0.0, 0.1, 0.5, 0.699, 0.7, 0.701, 1.0, 2.0, 5.0]


def problem(c, std, rng, n_draws=3):
    """A row of each class, its table, the averaged law and latent values."""
    y = np.arange(float(c))
    table = hazard_table(np.full(c, float(std)))
    f = 1.5 * max(std, 1.0) * rng.standard_normal((c, c, n_draws))
    return AveragedSoftmax(Categorical().prepare(y)), np.column_stack((y, table)), f


@pytest.mark.parametrize("std", WIDTHS)
@pytest.mark.parametrize("c", [2, 3])
def test_against_a_product_rule(c, std, rng):
    law, y, f = problem(c, std, rng)
    # log Σ exp(f) = mean of f + that of the contrasts, whose residual is as wide
    x, w = trapezoidal_nodes(401 if c == 2 else 201)
    grid = np.stack(np.meshgrid(*[x[:, 0]] * (c - 1), indexing="ij"))
    mass = w if c == 2 else np.outer(w, w).ravel()
    noise = std * contrasts(c) @ grid.reshape(c - 1, -1)
    own = f[np.arange(c), np.arange(c)]
    expected = logsumexp(f[..., np.newaxis] + noise[:, np.newaxis], axis=1) @ mass - own
    np.testing.assert_allclose(law.row_nll(y, f), expected, rtol=0.0, atol=1e-4)
    p = np.exp(f[..., np.newaxis] + noise[:, np.newaxis])
    p = (p / p.sum(axis=1, keepdims=True)) @ mass
    p[np.arange(c), np.arange(c)] -= 1.0
    np.testing.assert_allclose(law.row_gradient(y, f), p, rtol=0.0, atol=2e-4)


@pytest.mark.parametrize(("c", "std"), [(5, 1.0), (10, 2.0), (30, 0.6), (30, 8.0)])
def test_against_draws(c, std, rng):
    law, y, f = problem(c, std, rng, n_draws=1)
    noise = std * rng.standard_normal((100_000, c))
    nll = law.row_nll(y, f)
    for i in range(0, c, max(1, c // 3)):
        at = f[i, :, 0]
        drawn = [logsumexp(at + s * noise, axis=1) - at[i] for s in (1.0, -1.0)]
        pairs = np.mean(drawn, axis=0)
        error = pairs.std() / np.sqrt(len(pairs))
        assert abs(nll[i, 0] - pairs.mean()) < 4.0 * error + 2e-4


@pytest.mark.parametrize("std", WIDTHS)
@pytest.mark.parametrize("c", [2, 4, 10])
def test_derivatives_are_those_of_the_potential(c, std, rng):
    law, y, f = problem(c, std, rng)
    h, gradient, curvature = 1e-5, law.row_gradient(y, f), law.row_curvature(y, f)
    for k in range(c):
        e = h * np.eye(c)[k][:, np.newaxis]
        slope = (law.row_nll(y, f + e) - law.row_nll(y, f - e)) / (2.0 * h)
        # the grid moves with the largest latent value, the error of its sum too
        np.testing.assert_allclose(gradient[:, k], slope, rtol=0.0, atol=1e-4)
        bend = (law.row_gradient(y, f + e) - law.row_gradient(y, f - e)) / (2.0 * h)
        np.testing.assert_allclose(curvature[:, :, k], bend, rtol=0.0, atol=3e-4)
    np.testing.assert_allclose(curvature.sum(axis=1), 0.0, atol=1e-12)
    assert np.linalg.eigvalsh(curvature.transpose(0, 3, 1, 2)).min() > -1e-12


@pytest.mark.parametrize("c", [2, 3, 10])
def test_the_compiled_formula_is_the_numpy_one(c, rng):
    law, y, f = problem(c, 1.3, rng, n_draws=7)
    f[0] *= 1e5
    value, gradient = np.empty((c, 7)), np.empty((c, c * 7))
    formula = pointwise.formula_of(pointwise.AVERAGED_SOFTMAX)
    arguments = formula, law.parameters, y.ravel(), f.reshape(c, -1)
    pointwise.value_and_gradient(*arguments, True, value, gradient)
    expected = law.row_gradient(y, f)
    np.testing.assert_allclose(gradient.reshape(f.shape), expected, atol=1e-12)
    dropped = law.row_nll(y, f) - value
    assert np.max(np.abs(dropped - dropped[1, 0]) / (1.0 + np.abs(value))) < 1e-12
    value[:] = 7.0
    pointwise.value_and_gradient(*arguments, False, value, gradient)
    np.testing.assert_array_equal(value, 7.0)


@pytest.mark.parametrize("c", [2, 3, 10])
def test_chains_see_the_potential_of_the_rows(c, rng):
    # more rows than a block of the compiled loop, each with a residual of its own
    n, m = 150, 4
    y = np.concatenate([np.arange(c), rng.integers(0, c, n - c)]).astype(float)
    rows = Rows(rng.standard_normal((n, 2)), y, rng.random(n))
    std = np.repeat(3.0 * rng.random((n, 1)), c, axis=1)
    features = rng.standard_normal((n, m))
    likelihood = Categorical().prepare(y)
    target = row_target(features, rows, likelihood, std, expectation_nodes(c))
    assert target.code == pointwise.AVERAGED_SOFTMAX
    z = rng.standard_normal((1, c * m, 5))
    w = z.reshape(c, m, 5).transpose(1, 0, 2)
    value, gradient = langevin.rows_value_and_gradient(target, w)
    chains = langevin.start(target, z)
    pull = gradient.transpose(1, 0, 2).reshape(z.shape)
    np.testing.assert_allclose(chains.gradient, z + pull, rtol=1e-9, atol=1e-9)
    dropped = chains.energy - value - 0.5 * np.sum(z**2, axis=(0, 1))
    assert np.ptp(dropped) < 1e-8 * (1.0 + np.abs(dropped[0]))
