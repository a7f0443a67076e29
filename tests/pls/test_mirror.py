"""Both modes of a likelihood that does not know the sign of f."""

import numpy as np
import pytest

from skgpx._numerics import langevin
from skgpx._pls._tempering import of_both_signs, upright
from skgpx._selection import row_target
from skgpx._validation import Rows
from skgpx.likelihoods import Poisson

AXIS = np.linspace(-8.0, 8.0, 40_001)


def problem(base):
    """Counts of a constant function around a base, and its posterior on a grid."""
    y = np.array([1.0, 2.0, 1.0])
    likelihood = Poisson("square").prepare(y).with_base(base)
    features = np.array([[1.0], [0.9], [1.1]])
    rows = Rows(np.zeros((3, 1)), y, np.ones(3))
    target = row_target(features, rows, likelihood)
    energy = langevin.start(target, AXIS[np.newaxis, np.newaxis]).energy
    mass = np.exp(energy.min() - energy)
    return target, mass / mass.sum()


def draws(mass, size, rng):
    """Independent particles (1, 1, size) with this distribution on the grid."""
    return rng.choice(AXIS, size, p=mass / mass.sum())[np.newaxis, np.newaxis]


@pytest.mark.parametrize("base", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("start", ["right", "left", "both"])
def test_shares_and_moments_of_the_modes_against_quadrature(rng, base, start):
    target, mass = problem(base)
    right = -base < AXIS
    share = mass[right].sum()
    assert 0.4 < share < 1.0
    within = {"right": right, "left": ~right, "both": right | ~right}[start]
    w = draws(np.where(within, mass, 0.0), 20_000, rng)
    moved = of_both_signs(target, w, rng)[0][0, 0]
    # weights of images differ: fewer independent particles than there are
    error = np.sqrt(share * (1.0 - share) / 5000)
    assert abs(np.mean(moved > -base) - share) < 4.5 * error
    mean = mass @ AXIS
    spread = np.sqrt(mass @ (AXIS - mean) ** 2)
    assert abs(moved.mean() - mean) < 4.5 * spread / np.sqrt(5000)
    assert moved.std() == pytest.approx(spread, rel=0.06)


def test_without_a_base_signs_are_random(rng):
    target, mass = problem(0.0)
    w = draws(np.where(AXIS > 0.0, mass, 0.0), 1000, rng)
    moved = of_both_signs(target, w, rng)[0]
    # every particle is kept once, with either sign
    np.testing.assert_array_equal(np.abs(moved), np.abs(w))
    assert abs(np.mean(moved < 0.0) - 0.5) < 4.5 * 0.5 / np.sqrt(1000)


def test_a_mode_far_below_the_other_stays_empty(rng):
    y = np.full(3, 100.0)
    likelihood = Poisson("square").prepare(y)
    rows = Rows(np.zeros((3, 1)), y, np.ones(3))
    target = row_target(np.ones((3, 1)), rows, likelihood)
    w = 0.1 * rng.standard_normal((1, 1, 50))
    np.testing.assert_array_equal(of_both_signs(target, w, rng)[0], w)


def test_upright_particles_differ_by_relative_signs_only(rng):
    y = np.array([9.0, 9.0, 4.0])
    likelihood = Poisson("square").prepare(y).with_base(0.0)
    target = row_target(np.eye(3), Rows(np.eye(3), y, np.ones(3)), likelihood)
    signs = rng.choice([-1.0, 1.0], (3, 50))
    w = (signs * np.array([[3.0], [3.1], [2.0]]))[np.newaxis]
    found = upright(target, w)[0]
    assert np.all(found[1] > 0.0)
    np.testing.assert_array_equal(found[0] * found[2], w[0, 0] * w[0, 2])
    np.testing.assert_array_equal(upright(target, -w)[0], found)
