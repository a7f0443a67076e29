from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.softmax import mean_probabilities, wide_probabilities


@pytest.mark.parametrize("std", [0.0, 0.3, 0.69, 0.71, 3.0, 50.0])
def test_two_classes_are_a_logit_of_the_difference(std):
    mean = np.array([0.8, -0.7]) * max(std, 1.0)
    law = LatentMixture(
        mean[np.newaxis, :, np.newaxis], np.full((1, 1, 1), std**2), np.ones(1)
    )
    gap, spread = mean[0] - mean[1], np.sqrt(2.0) * std
    expected = special.expit(gap)
    if std > 0.0:
        kink = -gap / spread
        edges = np.clip(
            [-9.0, kink - 9.0 / spread, kink, kink + 9.0 / spread, 9.0], -9, 9
        )
        expected = sum(
            integrate.quad(
                lambda x: special.expit(gap + spread * x) * stats.norm.pdf(x), a, b
            )[0]
            for a, b in pairwise(edges)
        )
    assert wide_probabilities(law)[0, 0] == pytest.approx(expected, abs=3e-5)


@pytest.mark.parametrize("shape", [(4, 1, 1), (4, 3, 1), (4, 3, 6)])
def test_near_the_points_where_those_do(rng, shape):
    law = LatentMixture(
        rng.standard_normal((4, 3, 6)),
        0.05 + 0.2 * rng.random(shape),
        np.full(6, 1 / 6),
    )
    found = wide_probabilities(law)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found, mean_probabilities(law), atol=3e-3)


def test_equal_classes_are_equally_probable():
    law = LatentMixture(np.zeros((1, 7, 2)), np.full((1, 1, 1), 1e4), np.full(2, 0.5))
    np.testing.assert_allclose(wide_probabilities(law), 1.0 / 7.0, rtol=1e-12)


def test_far_classes_do_not_overflow():
    mean = np.array([[[900.0], [-900.0]], [[-1e5], [-1e5]]])
    law = LatentMixture(mean, np.ones((1, 1, 1)), np.ones(1))
    np.testing.assert_allclose(wide_probabilities(law), [[1, 0], [0.5, 0.5]], atol=1e-9)
