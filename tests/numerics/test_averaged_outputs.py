"""Optimal potentials of several outputs against closed forms and draws."""

import warnings

import numpy as np
import pytest
from numba.core import config
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSClassifier
from skgpx._numerics import langevin
from skgpx._numerics.averaged import averaged
from skgpx._numerics.langevin import Target
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quadrature import expectation_nodes
from skgpx.exceptions import ConvergenceWarning, PredictionWarning
from skgpx.likelihoods import Categorical, Likelihood


class Softmax(Categorical):
    """A softmax as a user would declare it: without a formula of its own."""

    kernel_code = None
    predictive_log_density = Likelihood.predictive_log_density


class Spread(Likelihood):
    """``y ~ N(f_0, exp(2 f_1))``, two latent functions."""

    n_outputs = 2

    def row_nll(self, y, f):
        z = (y[:, np.newaxis] - f[:, 0]) * np.exp(-f[:, 1])
        return 0.5 * z**2 + f[:, 1] + 0.5 * np.log(2.0 * np.pi)

    def initial_latent(self, y):
        return np.column_stack((y, np.zeros(len(y))))


def target_of(likelihood, y, std):
    """Potentials of single rows, with the rule that is taken for them."""
    prepared, n = likelihood.prepare(y), len(y)
    c, code = prepared.n_outputs_, prepared.kernel_code
    return averaged(
        Target(
            prepared, langevin.NUMPY if code is None else code,
            prepared.kernel_parameters(), np.eye(n), y, np.ones(n),
            np.full((n, c), std), *expectation_nodes(c), np.zeros((1, n * c)),
            np.eye(n * c)[np.newaxis], c, np.zeros((1, c)),
        )
    )  # fmt: skip


def potential(target, f):
    """Averaged nll of each row and draw at latent values (n, c, s)."""
    total = np.zeros((len(f), f.shape[2]))
    for node, mass in zip(target.nodes, target.node_weights, strict=True):
        at = f + (target.std * node)[:, :, np.newaxis]
        total += mass * target.likelihood.row_nll(target.y, at)
    return total


@pytest.mark.parametrize("std", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("c", [2, 3, 10])
def test_a_users_softmax_is_that_of_the_library(c, std, rng):
    y = np.arange(40.0) % c
    with warnings.catch_warnings():
        # at the edge of what is told
        warnings.filterwarnings("ignore", message="The optimal potential")
        own = target_of(Softmax(), y, std)
    library = target_of(Categorical(), y, std)
    f = max(1.0, std) * rng.standard_normal((len(y), c, 5))
    exact = library.likelihood.row_nll(library.y, f)
    error = np.abs(potential(own, f) - exact) / (1.0 + exact)
    assert error.max() < 0.02
    coarse = own._replace(
        nodes=expectation_nodes(c)[0], node_weights=expectation_nodes(c)[1]
    )
    error = np.abs(potential(coarse, f) - exact) / (1.0 + exact)
    # two nodes for each output: the most that can be kept without a word
    assert error.max() < 0.015 or len(own.nodes) > 2 * c


@pytest.mark.parametrize("std", [0.1, 0.5, 1.0, 2.0])
def test_a_spread_that_is_a_function(std, rng):
    y = rng.standard_normal(30)
    f = np.stack((y + rng.standard_normal(30), 0.5 * rng.standard_normal(30)), axis=1)
    mean, spread = f.T
    square = ((y - mean) ** 2 + std**2) * np.exp(2.0 * std**2 - 2.0 * spread)
    exact = 0.5 * square + spread + 0.5 * np.log(2.0 * np.pi)
    found = potential(target_of(Spread(), y, std), f[:, :, np.newaxis])[:, 0]
    assert np.max(np.abs(found - exact) / (1.0 + np.abs(exact))) < 0.01


@pytest.mark.parametrize("std", [0.7, 3.0])
def test_against_draws(std, rng):
    y = np.arange(5.0)
    target = target_of(Softmax(), y, std)
    f = std * rng.standard_normal((5, 5, 1))
    drawn = target.likelihood.row_nll(y, f + std * rng.standard_normal((5, 5, 40_000)))
    error = drawn.std(axis=1) / np.sqrt(drawn.shape[1])
    gap = np.abs(potential(target, f)[:, 0] - drawn.mean(axis=1))
    assert np.all(gap < 4.0 * error + 0.015 * (1.0 + drawn.mean(axis=1)))


def test_too_wide_a_residual_is_told_once():
    # E exp(-2 f) is in the far tail of the law of f
    with pytest.warns(ConvergenceWarning, match="Increase n_inducing") as told:
        target_of(Spread(), np.linspace(-1.0, 1.0, 5), 3.0)
    assert len(told) == 1


def test_without_a_residual_there_is_nothing_to_average():
    y = np.arange(6.0) % 3
    assert len(target_of(Softmax(), y, 0.0).nodes) == 6


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="fits of half a minute")
def test_fits_of_a_users_classes_are_those_of_the_library(rng):
    X = rng.random((45, 1))
    y = np.digitize(X[:, 0] + 0.1 * rng.standard_normal(45), [0.35, 0.65])
    probabilities = []
    for likelihood in (Categorical(), Softmax()):
        model = PLSClassifier(
            4.0 * RBF(0.2), likelihood=likelihood, optimizer=None, prior="gp",
            potential="optimal", n_inducing=3, n_particles=20, random_state=0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The chains")
            model.fit(X, y)
        probabilities.append(model.predict_proba(np.linspace(0.0, 1.0, 20)[:, None]))
    np.testing.assert_allclose(*probabilities, atol=0.02)


@pytest.mark.parametrize("std", [0.5, 1.0, 5.0])
def test_log_densities_of_several_outputs(std, rng):
    y = np.arange(60.0) % 3
    mean = std * rng.standard_normal((60, 3, 20))
    law = LatentMixture(mean, np.full(mean.shape, std**2), np.full(20, 0.05))
    own = Softmax().prepare(y).predictive_log_density(y, law)
    library = Categorical().prepare(y).predictive_log_density(y, law)
    np.testing.assert_allclose(own, library, atol=0.04)
    # one row is what it is among others
    alone = Softmax().prepare(y).predictive_log_density(y[7:8], law.rows(slice(7, 8)))
    assert alone[0] == pytest.approx(own[7], abs=1e-12)


def test_log_densities_that_points_do_not_settle_are_told(rng):
    y = np.arange(40.0) % 10
    mean = 10.0 * rng.standard_normal((40, 10, 1))
    law = LatentMixture(mean, np.full(mean.shape, 25.0), np.ones(1))
    with pytest.warns(PredictionWarning, match="uncertain by more than 0.02 nats in"):
        Softmax().prepare(y).predictive_log_density(y, law)
