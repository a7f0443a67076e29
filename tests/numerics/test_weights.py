import numpy as np
import pytest

from skgpx._numerics.weights import GaussianWeights, WeightParticles
from tests.numerics.conftest import LARGEST_Z, moment_scores


def gaussian(rng, m, c, groups):
    root = np.tril(rng.standard_normal((groups, m, m))) + 2.0 * np.eye(m)
    return GaussianWeights(rng.standard_normal((m, c)), root)


@pytest.mark.parametrize(("c", "groups"), [(1, 1), (3, 1), (3, 3)])
def test_gaussian_latent_moments_against_dense_formulas(rng, c, groups):
    distribution, features = gaussian(rng, 4, c, groups), rng.standard_normal((6, 4))
    mean, variance = distribution.latent(features)
    assert mean.shape == variance.shape == (6, c, 1)
    for output in range(c):
        root = distribution.root[output % groups]
        dense = features @ root @ root.T @ features.T
        np.testing.assert_allclose(
            mean[:, output, 0], features @ distribution.mean[:, output]
        )
        np.testing.assert_allclose(variance[:, output, 0], np.diag(dense))
    first = features @ distribution.root[0] @ distribution.root[0].T @ features.T
    np.testing.assert_allclose(distribution.covariance(features), first, atol=1e-12)


@pytest.mark.parametrize(("c", "groups"), [(1, 1), (2, 1), (2, 2)])
def test_gaussian_draws_have_the_moments_of_the_distribution(rng, c, groups):
    distribution, size = gaussian(rng, 3, c, groups), 4000
    draws = distribution.draw(size, rng)
    assert draws.shape == (3, c, size)
    white = np.concatenate(
        [
            np.linalg.solve(
                distribution.root[a % groups],
                draws[:, a] - distribution.mean[:, a, None],
            )
            for a in range(c)
        ]
    )
    # independent standard normals, between outputs too
    scores = moment_scores(white, np.zeros(3 * c), np.eye(3 * c))
    assert np.max(np.abs(scores)) < LARGEST_Z


def test_particles_latent_moments(rng):
    distribution = WeightParticles(rng.standard_normal((4, 2, 7)))
    features = rng.standard_normal((5, 4))
    mean, variance = distribution.latent(features)
    np.testing.assert_allclose(
        mean, np.einsum("nm,mcs->ncs", features, distribution.values)
    )
    assert variance.shape == (5, 1, 1)
    assert not variance.any()
    expected = np.cov(features @ distribution.values[:, 0], bias=True)
    np.testing.assert_allclose(distribution.covariance(features), expected, atol=1e-13)


@pytest.mark.parametrize("size", [0, 3, 5, 13, 20])
def test_every_particle_is_drawn_equally_often(rng, size):
    distribution = WeightParticles(np.arange(5.0).reshape(1, 1, 5))
    draws = distribution.draw(size, rng)
    assert draws.shape == (1, 1, size)
    counts = np.bincount(draws.ravel().astype(np.intp), minlength=5)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("kind", ["gaussian", "particles"])
def test_moments_are_those_of_the_latent_values(rng, kind):
    features = rng.standard_normal((6, 4))
    if kind == "gaussian":
        distribution = gaussian(rng, 4, 2, 2)
    else:
        distribution = WeightParticles(rng.standard_normal((4, 2, 7)))
    mean, roots = distribution.moments()
    values, variance = distribution.latent(features)
    np.testing.assert_allclose(features @ mean, values.mean(axis=2))
    spread = variance.mean(axis=2) + values.var(axis=2)
    explained = [np.sum((features @ root) ** 2, axis=1) for root in roots]
    np.testing.assert_allclose(np.transpose(explained), spread)
