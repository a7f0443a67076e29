"""Draws of Markov processes that remember where they were evaluated."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx._draws import FunctionDraws, RememberedTerm, StateMemory
from skgpx._numerics.markov_regression import MaternProcess

TIMES = np.array([0.0, 0.4, 1.0, 1.0 + 1e-9, 2.0])


def draws(nu=1.5, s=3, seed=0):
    process = MaternProcess(nu, 1.0, 0.5)
    rng = np.random.default_rng(seed)
    states = 0.3 * rng.standard_normal((len(TIMES), process.n_states, s))
    states[3] = states[2]
    memory = StateMemory(process, TIMES, states, rng)
    return FunctionDraws((RememberedTerm(memory, np.arange(s)),), 1, s), states


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_knots_have_their_states_and_other_points_stay_what_they_were(nu):
    f, states = draws(nu)
    assert_array_equal(f(TIMES[:, np.newaxis]), states[:, 0])
    X = np.random.default_rng(1).uniform(-1.0, 3.0, (50, 1))
    once = f(X)
    f(np.random.default_rng(2).uniform(-1.0, 3.0, (50, 1)))
    assert_array_equal(f(X[::-1]), once[::-1])
    assert_array_equal(f(X[[7, 7]]), once[[7, 7]])
    assert_array_equal(f[1:](X), once[:, 1:])
    assert_array_equal(f.at(X[:3]), np.diagonal(once[:3]))


@pytest.mark.parametrize("nu", [1.5, 2.5])
def test_gradients_are_those_of_the_function(nu):
    f, _ = draws(nu)
    f = f.affine(2.0, -3.0)
    X = np.array([[-0.5], [0.2], [0.41], [1.7], [2.6]])
    values, slopes = f.value_and_grad(X)
    assert_array_equal(values, f(X))
    rise = (f(X + 1e-7) - f(X - 1e-7)) / 2e-7
    # a function of order 3/2 is not twice differentiable
    assert_allclose(slopes[:, :, 0], rise, atol=2e-2 if nu == 1.5 else 1e-4)


def test_functions_without_derivatives_say_so():
    with pytest.raises(ValueError, match="order 1/2 have no derivative"):
        draws(0.5)[0].value_and_grad(TIMES[:1, np.newaxis])


def test_functions_are_continuous_between_close_points():
    f, _ = draws(2.5)
    x = 0.4 + np.concatenate(([0.0], 10.0 ** np.arange(-15.0, -3.0)))
    assert np.all(np.abs(np.diff(f(x[:, np.newaxis]), axis=0)) < 1e-2)


def test_a_copy_continues_alike():
    f, _ = draws()
    copy = pickle.loads(pickle.dumps(f))
    X = np.linspace(-1.0, 3.0, 9)[:, np.newaxis]
    assert_array_equal(f(X), copy(X))
