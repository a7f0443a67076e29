"""The optimal potential of one row against adaptive integrals, at every ratio."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from skgpx._numerics import elementary, langevin, pointwise
from skgpx._numerics.averaged import AveragedLog, averaged
from skgpx._numerics.langevin import Target
from skgpx._numerics.quadrature import expectation_nodes
from skgpx.exceptions import ConvergenceWarning
from skgpx.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT

RATIOS = 10.0 ** np.arange(-4.0, 5.0)


def row_target(likelihood, y, std):
    """Potentials of single rows: the weights are the latent values."""
    n, code = len(y), likelihood.kernel_code
    return averaged(
        Target(
            likelihood.prepare(y), langevin.NUMPY if code is None else code,
            likelihood.kernel_parameters(), np.eye(n), y, np.ones(n),
            np.full((n, 1), std), *expectation_nodes(1), np.zeros((1, n)),
            np.eye(n)[np.newaxis], 1,
        )
    )  # fmt: skip


def rows_of(target, f):
    """nll, gradient and curvature of each row at latent values f (n,)."""
    law, at = target.likelihood, f[:, np.newaxis, np.newaxis]
    parts = [0.0, 0.0, 0.0]
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        moved = at + (target.std * node)[:, :, np.newaxis]
        values = (law.row_nll, law.row_gradient, law.row_curvature)
        for k, function in enumerate(values):
            parts[k] = parts[k] + mass * function(target.y, moved).reshape(len(f))
    return parts


def exact(function, f, std, kink):
    """``E function(f + std ξ)`` by adaptive integration around the kink."""
    scale = 10.0 ** np.arange(-6.0, 5.0)
    around = np.concatenate([kink - scale, [kink], kink + scale])
    xi = np.concatenate([(around - f) / std, np.linspace(-9.0, 9.0, 13)])
    edges = np.unique(np.clip(xi, -9.0, 9.0))
    pieces = [
        integrate.quad(
            lambda x: stats.norm.pdf(x) * function(f + std * x), a, b,
            epsabs=1e-12, epsrel=1e-12, limit=100,
        )[0]
        for a, b in pairwise(edges)
    ]  # fmt: skip
    return sum(pieces)


@pytest.mark.parametrize("ratio", RATIOS[::2])
@pytest.mark.parametrize("df", [1.0, 4.0, 30.0])
def test_student_potential_at_every_ratio(ratio, df):
    likelihood = StudentT(df=df, scale=0.5)
    std = 0.5 * ratio
    y = np.array([0.3, 0.3, 0.3])
    f = y + np.array([0.0, 0.7, -3.0]) * np.hypot(0.5, std)
    nll, gradient, _ = rows_of(row_target(likelihood, y, std), f)
    for i in range(3):
        value = exact(lambda x, i=i: likelihood.nll(y[i], x), f[i], std, y[i])
        assert nll[i] == pytest.approx(value, abs=1e-6 * (df + 1.0))
        slope = exact(lambda x, i=i: likelihood.gradient(y[i], x), f[i], std, y[i])
        size = (df + 1.0) / np.hypot(0.5, std)
        assert gradient[i] == pytest.approx(slope, abs=1e-5 * size)


@pytest.mark.parametrize("std", [1e-4, 0.1, 3.0, 1e3])
def test_square_link_potential_at_every_ratio(std):
    likelihood = Poisson("square")
    y = np.array([0.0, 2.0, 7.0])
    f = np.array([0.3, -1.0, 2.5]) * max(std, 1.0)
    nll, _, _ = rows_of(row_target(likelihood, y, std), f)
    for i in range(3):
        value = exact(lambda x, i=i: likelihood.nll(y[i], x), f[i], std, 0.0)
        assert nll[i] == pytest.approx(value, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("likelihood", [StudentT(4.0, 0.5), Poisson("square")])
@pytest.mark.parametrize("std", [1e-3, 0.5, 40.0])
def test_derivatives_are_those_of_the_potential(likelihood, std):
    y = np.array([0.0, 1.0, 4.0])
    target = row_target(likelihood, y, std)
    f = np.array([0.4, 2.0, -1.7]) * np.hypot(1.0, std)
    h = 1e-5 * np.hypot(1.0, std)
    (up, high, _), (down, low, _) = rows_of(target, f + h), rows_of(target, f - h)
    _, gradient, curvature = rows_of(target, f)
    np.testing.assert_allclose(gradient, (up - down) / (2.0 * h), rtol=1e-6, atol=1e-9)
    assert np.all(curvature > 0.0)
    if likelihood.symmetric:
        second = (high - low) / (2.0 * h)
        positive = second > 0.0
        np.testing.assert_allclose(curvature[positive], second[positive], rtol=1e-5)


@pytest.mark.parametrize("ratio", [30.0, 1e3])
def test_one_optimum_only(ratio):
    # nodes that resolve the peak would each give an optimum of their own
    target = row_target(StudentT(4.0, 1.0), np.zeros(401), ratio)
    f = ratio * np.linspace(-4.0, 4.0, 401)
    nll, gradient, _ = rows_of(target, f)
    assert np.sum(np.diff(np.sign(gradient)) != 0) <= 2
    assert np.argmin(nll) == 200


@pytest.mark.parametrize("likelihood", [StudentT(4.0, 0.5), Poisson("square")])
def test_the_compiled_formula_is_the_numpy_one(likelihood, rng):
    y = np.array([0.0, 1.0, 4.0])
    target = row_target(likelihood, y, 1.3)
    assert isinstance(target.likelihood, AveragedLog)
    f = np.concatenate([rng.standard_normal((3, 5)), np.full((3, 2), 1e6)], axis=1)
    value, gradient = np.empty((3, 7)), np.empty((3, 7))
    formula = pointwise.formula_of(target.code)
    arguments = formula, target.parameters, target.y.ravel(), f
    pointwise.value_and_gradient(*arguments, True, value, gradient)
    at = f[:, np.newaxis]
    expected = target.likelihood.row_gradient(target.y, at)[:, 0]
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)
    dropped = target.likelihood.row_nll(target.y, at) - value
    gap = np.abs(dropped - dropped[:, :1])
    assert np.max(gap / (1.0 + np.abs(value))) < 1e-10
    value[:] = 7.0
    pointwise.value_and_gradient(*arguments, False, value, gradient)
    np.testing.assert_array_equal(value, 7.0)


def test_arctangent():
    x = np.array([-1e9, -3.0, -1.0, -0.5, -0.0, 1e-9, 0.2, 0.999, 1.0, 1.001, 1e300])
    found = [elementary.arctan_ratio(v, 0.7) for v in x]
    np.testing.assert_allclose(found, np.arctan(x / 0.7), rtol=3e-14)


@pytest.mark.parametrize(("std", "n_nodes"), [(0.3, 12), (4.0, 12), (20.0, 49)])
def test_nodes_are_doubled_until_rules_agree(std, n_nodes):
    y = np.array([0.0, 1.0])
    target = row_target(Bernoulli(), y, std)
    assert len(target.nodes) == n_nodes
    nll, _, _ = rows_of(target, np.array([0.5, -0.3]) * std)
    for i, f in enumerate(np.array([0.5, -0.3]) * std):
        value = exact(lambda x, i=i: Bernoulli().nll(y[i], x), f, std, 0.0)
        assert nll[i] == pytest.approx(value, rel=3e-3)


def test_a_users_narrow_likelihood_warns_with_the_error():
    class Peaked(Likelihood):
        def nll(self, y, f):
            return 2.5 * np.log1p((np.subtract(y, f) / 1e-3) ** 2)

        def gradient(self, y, f):
            r = np.subtract(f, y)
            return 5.0 * r / (1e-6 + r**2)

        def initial_latent(self, y):
            return np.array(y, dtype=float)

    with pytest.warns(ConvergenceWarning, match="potential of Peaked is uncertain"):
        row_target(Peaked(), np.array([0.0, 1.0]), 5.0)


def test_without_a_residual_nothing_changes():
    target = row_target(StudentT(4.0, 1.0), np.zeros(2), 0.0)
    assert target.code == pointwise.STUDENT_T
    gaussian = row_target(Gaussian(0.5), np.zeros(2), 1e4)
    assert len(gaussian.nodes) == 12


@pytest.mark.parametrize("likelihood", [StudentT(4.0, 0.5), Poisson("square")])
def test_chains_see_the_potential_of_the_rows(likelihood, rng):
    # more rows than a block of the compiled loop
    y = np.abs(np.round(3.0 * rng.standard_normal(200)))
    target = row_target(likelihood, y, 1.3)._replace(
        features=rng.standard_normal((200, 4)), weights=rng.random(200),
        centre=np.zeros((1, 4)), root=np.eye(4)[np.newaxis],
    )  # fmt: skip
    z = rng.standard_normal((1, 4, 7))
    chains = langevin.start(target, z)
    value, gradient = langevin.rows_value_and_gradient(target, z[0][:, np.newaxis])
    np.testing.assert_allclose(chains.gradient[0], z[0] + gradient[:, 0], rtol=1e-9)
    dropped = chains.energy - value - 0.5 * np.sum(z**2, axis=(0, 1))
    assert np.ptp(dropped) < 1e-8 * (1.0 + np.abs(dropped[0]))
