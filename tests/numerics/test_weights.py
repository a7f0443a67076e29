import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.weights import GaussianWeights, WeightParticles
from tests.numerics.conftest import LARGEST_Z, moment_scores


def gaussian(rng, m, c, groups):
    root = np.tril(rng.standard_normal((groups, m, m))) + 2.0 * np.eye(m)
    return GaussianWeights(rng.standard_normal((m, c)), root)


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


@pytest.mark.parametrize("size", [0, 3, 5, 13, 20])
def test_every_particle_is_drawn_equally_often(rng, size):
    distribution = WeightParticles(np.arange(5.0).reshape(1, 1, 5))
    draws = distribution.draw(size, rng)
    assert draws.shape == (1, 1, size)
    counts = np.bincount(draws.ravel().astype(np.intp), minlength=5)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("kind", ["gaussian", "shared", "particles"])
def test_moments_are_those_of_the_latent_values(rng, kind):
    features = rng.standard_normal((6, 4))
    if kind != "particles":
        distribution = gaussian(rng, 4, 2, 1 + (kind == "gaussian"))
    else:
        distribution = WeightParticles(rng.standard_normal((4, 2, 7)))
    mean, roots = distribution.moments()
    values, variance = distribution.latent(features)
    np.testing.assert_allclose(features @ mean, values.mean(axis=2))
    spread = variance.mean(axis=2) + values.var(axis=2)
    first = np.diagonal(distribution.covariance(features))
    np.testing.assert_allclose(first, spread[:, 0])
    explained = [np.sum((features @ root) ** 2, axis=1) for root in roots]
    found = np.broadcast_to(np.transpose(explained), spread.shape)
    np.testing.assert_allclose(found, spread)


# ---- Mixtures of normal latent values, and their atoms -------------------------------


def mixture(rng, n=4, c=1, s=5, shared=False):
    weights = rng.random(s) + 0.1
    return LatentMixture(
        rng.standard_normal((n, c, s)),
        rng.random((n, c, 1 if shared else s)) + 0.1,
        weights / weights.sum(),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_a_mixture_of_mixtures_has_the_moments_of_all_components(rng, shared):
    one, two = mixture(rng, s=5, shared=shared), mixture(rng, s=3)
    whole = LatentMixture.joined([one, two], np.array([0.3, 0.7]))
    np.testing.assert_allclose(whole.weights.sum(), 1.0)
    mean, variance = whole.moments()
    (m1, v1), (m2, v2) = one.moments(), two.moments()
    np.testing.assert_allclose(mean, 0.3 * m1 + 0.7 * m2)
    spread = 0.21 * (m1 - m2) ** 2
    np.testing.assert_allclose(variance, 0.3 * v1 + 0.7 * v2 + spread)


@pytest.mark.parametrize("s", [1, 3, 100])
@pytest.mark.parametrize("shared", [False, True])
def test_atoms_have_the_first_two_moments(rng, s, shared):
    distribution = mixture(rng, s=s, shared=shared)
    values, weights = atoms(distribution)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    mean, variance = distribution.moments()
    np.testing.assert_allclose(values @ weights, mean, atol=1e-13)
    centred = values - mean[:, :, np.newaxis]
    np.testing.assert_allclose(centred**2 @ weights, variance, rtol=1e-12)


@pytest.mark.parametrize("s", [1, 7, 100])
def test_atoms_integrate_smooth_functions(rng, s):
    distribution = mixture(rng, s=s)
    values, weights = atoms(distribution)
    exact = (
        np.exp(distribution.mean + 0.5 * distribution.variance) @ distribution.weights
    )
    np.testing.assert_allclose(np.exp(values) @ weights, exact, rtol=1e-6)


def test_atoms_of_coinciding_components_interleave():
    # The mixture is N(0, 1) written 100 times: the atoms must resolve narrow functions.
    distribution = LatentMixture(
        np.zeros((1, 1, 100)), np.ones((1, 1, 1)), np.full(100, 0.01)
    )
    values, weights = atoms(distribution)
    for centre in (0.0, 0.7, -2.0):
        density = stats.norm.pdf(values, loc=centre, scale=0.03) @ weights
        exact = stats.norm.pdf(centre, scale=np.hypot(1.0, 0.03))
        assert density[0, 0] == pytest.approx(exact, rel=0.02)


def test_no_variance_leaves_one_atom_per_component(rng):
    distribution = mixture(rng)._replace(variance=np.zeros((4, 1, 1)))
    values, weights = atoms(distribution)
    np.testing.assert_array_equal(values, distribution.mean)
    np.testing.assert_array_equal(weights, distribution.weights)


@pytest.mark.parametrize("c", [2, 3, 12])
@pytest.mark.parametrize("s", [1, 100])
def test_atoms_of_several_outputs(rng, c, s):
    distribution = mixture(rng, c=c, s=s)
    values, weights = atoms(distribution)
    assert values.shape == (4, c, weights.size)
    mean, variance = distribution.moments()
    np.testing.assert_allclose(values @ weights, mean, atol=1e-12)
    centred = values - mean[:, :, np.newaxis]
    np.testing.assert_allclose(centred**2 @ weights, variance, rtol=0.1)
    # Independent outputs: the covariance of the first two is that of the means.
    deviation = distribution.mean - mean[:, :, np.newaxis]
    expected = (deviation[:, 0] * deviation[:, 1]) @ distribution.weights
    covariance = (centred[:, 0] * centred[:, 1]) @ weights
    np.testing.assert_allclose(covariance, expected, atol=0.08)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("part", [np.tril, np.triu, np.asarray])
@pytest.mark.parametrize("m", [0, 1, 6])
def test_pickles_hold_half_of_a_triangle(rng, m, part, order):
    root = np.array(part(rng.standard_normal((1, m, m))), order=order)
    weights = GaussianWeights(rng.standard_normal((m, 2)), root)
    loaded = pickle.loads(pickle.dumps(weights))
    assert_array_equal(loaded.mean, weights.mean)
    assert_array_equal(loaded.root, weights.root)
    assert loaded.root.flags.c_contiguous == root.flags.c_contiguous
    assert loaded.scales is None
