import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from skgpx import DecoupledSampler, PLSRegressor


def some_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, 5.0 + 3.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def test_few_rows_have_the_kernel_of_the_common_search():
    X, y = some_rows(80)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = DecoupledSampler(random_state=0).fit(X, y)
    assert isinstance(sampler.estimator_, GaussianProcessRegressor)
    other = PLSRegressor(random_state=0).fit(X, y)
    mean, std = sampler.predict(X, return_std=True)
    one, two = other.predict(X, return_std=True)
    np.testing.assert_allclose(mean, one, atol=0.02)
    np.testing.assert_allclose(std, two, rtol=0.02)
    # a column that says nothing raises no warning about the bounds of its lengthscale
    draws = sampler.sample_functions(200, random_state=0)(X)
    spread = draws.std(axis=1) / np.sqrt(std**2 - other.noise_variance_)
    assert np.median(spread) == pytest.approx(1.0, abs=0.1)


def test_many_rows_have_a_sparse_process():
    X, y = some_rows(1501)
    sampler = DecoupledSampler(random_state=0).fit(X, y)
    assert not isinstance(sampler.estimator_, GaussianProcessRegressor)
    other = PLSRegressor(random_state=0).fit(X, y)
    ours, theirs = (
        model.predict(X[:200], return_std=True) for model in (sampler, other)
    )
    np.testing.assert_allclose(ours[0], theirs[0], atol=0.03)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0.03)
    assert sampler.posterior_.basis.kernel == sampler.kernel_.k1.k2
    draws = sampler.sample_functions(4, random_state=0)(X[:200])
    truth = 5.0 + 3.0 * np.sin(2.0 * X[:200, 0])
    assert np.sqrt(np.mean((draws - truth[:, np.newaxis]) ** 2)) < 0.15


def test_several_targets_share_a_kernel():
    X, y = some_rows(40)
    sampler = DecoupledSampler(random_state=0).fit(X, np.column_stack((y, -y)))
    np.testing.assert_allclose(*(sampler.predict(X) * [1.0, -1.0]).T, atol=1e-6)
