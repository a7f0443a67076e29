import numpy as np
import pytest

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.laplace import between_classes, contrasts, of_all_classes
from skgpx.likelihoods import Bernoulli, Categorical


def target_of(rng, n=30, m=3, c=4):
    y = np.arange(n) % float(c)
    return Target(
        Categorical().prepare(y), langevin.NUMPY, np.empty(0),
        rng.standard_normal((n, m)), y, 0.5 + rng.random(n), np.zeros((n, c)),
        np.zeros((1, c)), np.ones(1), np.zeros((1, c * m)), np.eye(c * m)[np.newaxis],
        c,
    )  # fmt: skip


@pytest.mark.parametrize("c", [2, 3, 10])
def test_contrasts_are_orthonormal_and_without_mean(c):
    Q = contrasts(c)
    np.testing.assert_allclose(Q.T @ Q, np.eye(c - 1), atol=1e-14)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-14)


def test_the_likelihood_is_that_of_the_contrasts(rng):
    target = target_of(rng)
    reduced, f = between_classes(target), rng.standard_normal((30, 4, 2))
    distribution, Q = target.likelihood, contrasts(4)
    g = np.einsum("ca,ncs->nas", Q, f)
    y = target.y
    np.testing.assert_allclose(
        reduced.likelihood.row_nll(y, g), distribution.row_nll(y, f)
    )
    np.testing.assert_allclose(
        Q @ reduced.likelihood.row_gradient(y, g),
        distribution.row_gradient(y, f),
        atol=1e-12,
    )
    W = reduced.likelihood.row_curvature(y, g)
    back = np.einsum("ca,nabs,db->ncds", Q, W, Q)
    np.testing.assert_allclose(back, distribution.row_curvature(y, f), atol=1e-12)
    assert between_classes(reduced) is None


def test_the_mode_and_root_are_those_of_all_classes(rng, monkeypatch):
    target = target_of(rng)
    mode = laplace.find_mode(target, np.zeros((3, 4)))
    monkeypatch.setattr(laplace, "between_classes", lambda target: None)
    plain = laplace.find_mode(target, np.zeros((3, 4)))
    np.testing.assert_allclose(mode.weights, plain.weights, atol=1e-6)
    assert mode.energy == pytest.approx(plain.energy)
    np.testing.assert_allclose(
        mode.root[0] @ mode.root[0].T, plain.root[0] @ plain.root[0].T, atol=1e-6
    )


def test_the_mean_keeps_its_prior_distribution(rng):
    m, c = 3, 4
    root = rng.standard_normal((1, m * (c - 1), m * (c - 1)))
    _, full = of_all_classes(np.zeros((m, c - 1)), root, m)
    S = (full[0] @ full[0].T).reshape(c, m, c, m)
    mean = np.einsum("ambn->mn", S) / c
    np.testing.assert_allclose(mean, np.eye(m), atol=1e-12)


def test_one_output_or_unequal_residuals_are_left_as_they_are(rng):
    target = target_of(rng)
    uneven = target._replace(std=rng.random((30, 4)))
    assert between_classes(uneven) is None
    y = (target.y > 1.0).astype(np.float64)
    one = target._replace(
        likelihood=Bernoulli().prepare(y), y=y, n_outputs=1, std=np.zeros((30, 1))
    )
    assert between_classes(one) is None
