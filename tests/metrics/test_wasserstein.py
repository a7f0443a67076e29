"""The distance between fitted models, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import sqrtm
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSRegressor
from skgpx.metrics import gaussian_wasserstein_distance, process_wasserstein_distance

X = np.linspace(0.0, 4.0, 30)[:, np.newaxis]
Y = np.sin(2.0 * X[:, 0])
# Distance of a distribution to itself: the root of a rounding error, 3e-9.
NOTHING = 1e-8 if np.lib.NumpyVersion(np.__version__) < "2.0.0" else 0.0
PLS = PLSRegressor(RBF(0.5), optimizer=None, normalize_y=False, random_state=0)


def normal(rng, rank=9):
    half = rng.normal(size=(6, rank))
    return rng.normal(size=6), half @ half.T


def dense(m, A, n, B):
    half = np.real(sqrtm(A))
    cross = np.trace(np.real(sqrtm(half @ B @ half)))
    return np.sqrt(np.sum((m - n) ** 2) + np.trace(A) + np.trace(B) - 2.0 * cross)


def test_the_dense_formula():
    rng = np.random.default_rng(0)
    given = *normal(rng), *normal(rng)
    assert_allclose(gaussian_wasserstein_distance(*given), dense(*given), rtol=1e-8)
    symmetric = gaussian_wasserstein_distance(*given[2:], *given[:2])
    assert_allclose(symmetric, dense(*given), rtol=1e-8)
    singular = *normal(rng, 2), *normal(rng, 3)
    found = gaussian_wasserstein_distance(*singular)
    assert_allclose(found, dense(*singular), rtol=1e-3)


@pytest.mark.parametrize("place", range(4))
def test_gradients_are_finite_differences(place):
    rng = np.random.default_rng(2)
    given = [*normal(rng), *normal(rng)]
    slope = gaussian_wasserstein_distance(*given, return_gradient=True)[1]
    names = "first_mean", "first_covariance", "second_mean", "second_covariance"
    change = rng.normal(size=given[place].shape)
    change = 1e-5 * (change + change.T)

    def squared(sign):
        moved = list(given)
        moved[place] = moved[place] + sign * change
        return gaussian_wasserstein_distance(*moved) ** 2

    difference = (squared(1.0) - squared(-1.0)) / 2.0
    assert_allclose(np.sum(getattr(slope, names[place]) * change), difference, 1e-6)


def test_vectors_that_are_known():
    zero, none = np.zeros(5), np.zeros((5, 5))
    B = np.diag([1.0, 2.0, 3.0, 4.0, 0.0])
    distance, gradient = gaussian_wasserstein_distance(
        zero, none, zero + 1.0, B, return_gradient=True
    )
    # the mean squared distance to a point: |m - n|² + tr B
    assert_allclose(distance, np.sqrt(5.0 + 10.0), rtol=1e-8)
    assert_allclose(gaussian_wasserstein_distance(zero + 1.0, B, zero, none), distance)
    assert_allclose(np.diag(gradient.second_covariance)[:4], 1.0, atol=1e-4)
    assert np.all(np.isfinite(gradient.first_covariance))
    points = zero, none, zero + 1.0, none
    distance, gradient = gaussian_wasserstein_distance(*points, return_gradient=True)
    assert_allclose(distance, np.sqrt(5.0))
    assert_allclose(gradient.first_mean, -2.0)
    assert_allclose(gradient.first_covariance, none, atol=1e-9)


def test_models_that_agree_are_near():
    noise = 1e-3
    model = PLS.set_params(likelihood=skgpx.likelihoods.Gaussian(noise)).fit(X, Y)
    exact = GaussianProcessRegressor(RBF(0.5), alpha=noise, optimizer=None).fit(X, Y)
    assert process_wasserstein_distance(model, exact, X) < 1e-3
    assert process_wasserstein_distance(model, model, X) <= NOTHING
    noisy = process_wasserstein_distance(model, exact, X, include_noise=True)
    assert 0.5 * np.sqrt(noise) < noisy < 1.5 * np.sqrt(noise)


def test_through_pipelines_searches_and_frozen_estimators():
    gp = GaussianProcessRegressor(RBF(0.5), alpha=0.1, optimizer=None)
    scaled = make_pipeline(StandardScaler(), gp).fit(X, Y)
    frozen = FrozenEstimator(scaled)
    grid = {"gaussianprocessregressor__alpha": [0.1]}
    search = GridSearchCV(scaled, grid, cv=2).fit(X, Y)
    assert process_wasserstein_distance(scaled, frozen, X) <= NOTHING
    assert process_wasserstein_distance(search, frozen, X) <= max(NOTHING, 1e-12)


def test_what_is_refused():
    forest = RandomForestRegressor(n_estimators=2).fit(X, Y)
    gp = GaussianProcessRegressor(optimizer=None).fit(X, Y)
    several = GaussianProcessRegressor(optimizer=None)
    several.fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="return_cov"):
        process_wasserstein_distance(forest, gp, X)
    with pytest.raises(ValueError, match="one target"):
        process_wasserstein_distance(gp, several, X)
    zero, one = np.zeros(2), np.eye(2)
    for given, message in (
        ((zero, one, np.zeros(3), np.eye(3)), "of one length"),
        ((zero, [[1.0, 0.5], [0.0, 1.0]], zero, one), "symmetric"),
        ((zero, [[1.0, 2.0], [2.0, 1.0]], zero, one), "positive semi-definite"),
        (([np.nan, 0.0], one, zero, one), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            gaussian_wasserstein_distance(*given)
