import numpy as np
import pytest

from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.softmax import mean_probabilities
from skgpx.likelihoods import Categorical


@pytest.mark.parametrize("shape", [(6, 1, 1), (6, 3, 1), (6, 3, 5), (1, 1, 1)])
@pytest.mark.parametrize("scale", [0.0, 2.0])
def test_the_loop_is_the_sum_over_atoms(rng, shape, scale):
    mean = 4.0 * rng.standard_normal((6, 3, 5))
    weights = rng.random(5)
    mixture = LatentMixture(mean, scale * rng.random(shape), weights / weights.sum())
    values, masses = atoms(mixture)
    expected = Categorical().probabilities(values) @ masses
    np.testing.assert_allclose(mean_probabilities(mixture), expected, rtol=1e-12)


@pytest.mark.parametrize("std", [0.3, 3.0])
def test_probabilities_are_near_those_of_many_draws(rng, std):
    mean = 2.0 * rng.standard_normal((4, 5, 100))
    mixture = LatentMixture(mean, np.full((1, 1, 1), std**2), np.full(100, 0.01))
    f = mean[..., np.newaxis] + std * rng.standard_normal((4, 5, 100, 400))
    expected = Categorical().probabilities(f.reshape(4, 5, -1)).mean(axis=2)
    error = mean_probabilities(mixture) - expected
    assert np.sqrt(np.mean(error**2)) < 0.006


def test_large_latent_values_do_not_overflow():
    mean = np.array([[[900.0], [-900.0]], [[-1e5], [-1e5]]])
    mixture = LatentMixture(mean, np.zeros((1, 1, 1)), np.ones(1))
    np.testing.assert_allclose(
        mean_probabilities(mixture), [[1, 0], [0.5, 0.5]], atol=1e-300
    )
