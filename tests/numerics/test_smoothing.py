import numpy as np
import pytest

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Target
from skgpx._numerics.smoothing import SmoothedLikelihood, is_smoothed, smoothed
from skgpx.likelihoods import Likelihood


class Laplace(Likelihood):
    def __init__(self, scale=0.4):
        self.scale = scale

    def nll(self, y, f):
        return np.abs(np.subtract(y, f)) / self.scale + np.log(2.0 * self.scale)

    def gradient(self, y, f):
        return np.sign(np.subtract(f, y)) / self.scale


class Square(Likelihood):
    def nll(self, y, f):
        return 0.5 * np.subtract(y, f) ** 2

    def gradient(self, y, f):
        return np.subtract(f, y)


def target_of(likelihood, rng, n=60, m=5):
    y = rng.standard_normal(n)
    return Target(
        likelihood.prepare(y), langevin.NUMPY, np.empty(0), rng.standard_normal((n, m)),
        y, np.ones(n), np.zeros((n, 1)), np.zeros((1, 1)), np.ones(1),
        np.zeros((1, m)), np.eye(m)[np.newaxis], 1,
    )  # fmt: skip


def test_only_kinks_are_smoothed(rng):
    assert is_smoothed(smoothed(target_of(Laplace(), rng)))
    smooth = target_of(Square(), rng)
    assert smoothed(smooth) is smooth
    once = smoothed(target_of(Laplace(), rng))
    assert smoothed(once) is once


def test_smoothed_laplace_is_hubers_function(rng):
    distribution = Laplace(0.4)
    one = SmoothedLikelihood(distribution, np.zeros(4), np.ones(4))
    assert one.information == pytest.approx(1.0 / 0.4**2)
    h = 0.2
    f = np.linspace(-1.0, 1.0, 41)
    y, at = np.zeros(41), f[:, np.newaxis, np.newaxis]
    huber = np.where(np.abs(f) < h, 0.5 * (f**2 / h + h), np.abs(f)) / 0.4
    nll = one.row_nll(y, at)[:, 0] - np.log(0.8)
    # what 16 nodes leave of a kink
    np.testing.assert_allclose(nll, huber, atol=5e-3)
    slope = np.clip(f / h, -1.0, 1.0) / 0.4
    np.testing.assert_allclose(one.row_gradient(y, at).ravel(), slope, atol=1e-12)
    np.testing.assert_allclose(one.row_curvature(y, at), 1.0 / 0.4**2)


def test_the_mode_is_near_that_of_the_likelihood_itself(rng):
    target = target_of(Laplace(), rng)
    mode = laplace.find_mode(smoothed(target), np.zeros((5, 1)))
    assert mode.converged
    assert mode.n_iter < 60

    def energy(w):
        value = langevin.rows_value_and_gradient(target, w[:, np.newaxis, np.newaxis])
        return value[0][0] + 0.5 * np.sum(w**2)

    best = energy(mode.weights[:, 0])
    for step in (0.1, 0.3):
        around = step * rng.standard_normal((50, 5))
        assert min(energy(mode.weights[:, 0] + a) for a in around) > best - 0.5
