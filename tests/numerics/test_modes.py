import numpy as np
import pytest

from skgpx._numerics import laplace, modes
from skgpx._selection import rough_latent_values, rough_start, row_target
from skgpx._validation import Rows
from skgpx.likelihoods import Poisson, ShiftedMixture, StudentT


def surveyed(likelihood, features, y, seed=0, base=None):
    y = np.asarray(y, dtype=np.float64)
    likelihood = likelihood.prepare(y)
    likelihood = likelihood if base is None else likelihood.with_base(base)
    target = row_target(features, Rows(features, y, np.ones(len(y))), likelihood)
    first = laplace.find_mode(target, rough_start(target))
    rough, rng = rough_latent_values(target), np.random.default_rng(seed)
    return first, modes.survey(target, first, rough, likelihood.symmetric, rng)


@pytest.mark.parametrize("seed", range(5))
def test_two_equal_modes_of_two_groups_of_rows(seed):
    y = np.tile([1.0, -1.0], 7)
    first, found = surveyed(StudentT(scale=0.03), np.ones((14, 1)), y, seed)
    # the rough start is the saddle between them
    assert abs(first.weights[0, 0]) < 1e-9
    assert abs(abs(found.best.weights[0, 0]) - 1.0) < 0.02
    assert found.best.energy < first.energy - 20.0
    assert found.rivals >= 1
    assert found.gap < 0.01


def test_one_mode_has_no_rivals(rng):
    features = rng.standard_normal((40, 3))
    y = features @ rng.standard_normal(3) + 0.1 * rng.standard_t(4, 40)
    first, found = surveyed(StudentT(scale=0.1), features, y)
    assert found.rivals == 0
    assert found.gap == np.inf
    assert found.best is first


@pytest.mark.parametrize("base", [0.0, 0.5])
def test_mirror_images_are_no_rivals(base):
    counts = [20.0, 25.0, 18.0]
    _, found = surveyed(Poisson("square"), np.full((3, 1), 5.0), counts, base=base)
    assert found.rivals == 0


def test_signs_of_two_neighbourhoods_are_rivals():
    # two neighbourhoods that know nothing of each other
    features = np.repeat(np.eye(2), 3, axis=0) * 4.0
    _, found = surveyed(Poisson("square"), features, np.full(6, 9.0), base=0.0)
    assert found.rivals >= 1
    assert found.gap < 0.01


@pytest.mark.parametrize("seed", range(3))
def test_bands_of_a_shifted_mixture(seed):
    likelihood = ShiftedMixture(3.0, noise_variance=0.05)
    rng = np.random.default_rng(seed)
    y = 0.1 * rng.standard_normal(8)
    _, found = surveyed(likelihood, 3.0 * np.ones((8, 1)), y, seed)
    assert found.rivals >= 1


def test_laplace_evidence_of_a_quadratic_potential(rng):
    A = rng.standard_normal((4, 4))
    root = A[np.newaxis]
    mode = laplace.Mode(np.zeros((4, 1)), root, 3.0, 1, True)
    # ∫ exp(-3 - ½ xᵀ(A Aᵀ)⁻¹x) dx, without (2π)²
    expected = np.log(abs(np.linalg.det(A))) - 3.0
    assert modes.log_evidence(mode) == pytest.approx(expected)
