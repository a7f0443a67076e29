from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.normal_sums import cdf, link_averages, logistic_noise


@pytest.mark.parametrize("shared", [False, True])
def test_the_loop_is_the_sum_over_atoms(rng, shared):
    variance = rng.random((4, 1, 1 if shared else 5))
    mixture = LatentMixture(3.0 * rng.standard_normal((4, 1, 5)), variance, np.ones(5))
    mixture = mixture._replace(weights=np.full(5, 0.2))
    values, weights = atoms(mixture, refinement=2)
    rate = np.logaddexp(0.0, values[:, 0])
    mean = rate @ weights
    expected = [
        special.expit(values[:, 0]) @ weights,
        mean,
        (rate - mean[:, np.newaxis]) ** 2 @ weights,
    ]
    np.testing.assert_allclose(link_averages(mixture, 2).T, expected, rtol=1e-10)


@pytest.mark.parametrize("mean", [-30.0, 0.4, 5.0])
@pytest.mark.parametrize("std", [4.0, 100.0])
def test_wide_laws_by_the_logistic_atoms(mean, std):
    def integrand(x):
        return special.expit(mean + std * x) * stats.norm.pdf(x)

    kink = -mean / std
    edges = [-12.0, kink - 10.0 / std, kink, kink + 10.0 / std, 12.0]
    exact = sum(
        integrate.quad(integrand, a, b, epsabs=0.0, epsrel=1e-12)[0]
        for a, b in pairwise(edges)
    )
    law = np.array([[-mean]]), np.array([[std**2]]), np.ones(1)
    assert cdf(np.zeros(1), *law, logistic_noise())[0] == pytest.approx(exact, rel=1e-7)
