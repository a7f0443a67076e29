"""The prior of the paper around the rows of a fit: GREKernel without support."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx import GWIRegressor, PLSClassifier, PLSRegressor
from skgpx.kernels import Columns, GREKernel
from skgpx.likelihoods import Gaussian

SETTINGS = {"likelihood": Gaussian(0.05), "n_inducing": 15, "random_state": 0}
FIXED = {**SETTINGS, "optimizer": None}


def curve(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 50.0, (n, 2))
    return X, np.sin(0.2 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def test_behind_a_scaler_the_support_is_that_of_the_scaled_rows():
    X, y = curve()
    scaled = StandardScaler().fit_transform(X)
    pipeline = make_pipeline(
        StandardScaler(), PLSRegressor(GREKernel(RBF(0.5)), **SETTINGS)
    ).fit(X, y)
    given = PLSRegressor(GREKernel(RBF(0.5), scaled), **SETTINGS).fit(scaled, y)
    assert_allclose(pipeline.predict(X), given.predict(scaled), rtol=1e-4)
    assert_allclose(pipeline[-1].log_evidence_, given.log_evidence_, rtol=1e-6)
    assert pipeline[-1].kernel.support is None
    assert clone(pipeline)[-1].kernel.get_params()["support"] is None
    assert len(pipeline[-1].kernel_.support) == len(X)


def test_cross_validation_takes_the_rows_of_each_fold():
    X, y = curve()
    model = make_pipeline(StandardScaler(), PLSRegressor(GREKernel(RBF(0.5)), **FIXED))
    widths = [0.3, 0.6]
    search = GridSearchCV(
        model, {"plsregressor__kernel__kernel__length_scale": widths}, cv=2
    ).fit(X, y)
    train, test = np.arange(30, 60), np.arange(30)
    scaler = StandardScaler().fit(X[train])
    seen = scaler.transform(X[train])
    fold = PLSRegressor(GREKernel(RBF(0.3), seen), **FIXED).fit(seen, y[train])
    score = fold.score(scaler.transform(X[test]), y[test])
    assert_allclose(search.cv_results_["split0_test_score"][0], score, rtol=1e-6)


def test_weights_of_rows_are_masses():
    X, y = curve(20)
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    model = PLSRegressor(GREKernel(RBF(10.0)), normalize_y=False, **FIXED)
    weighted = clone(model).fit(X, y, weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert_allclose(weighted.kernel_.masses.sum(), 1.0)


def test_columns_sums_and_many_rows():
    X, y = curve(2500)
    kernel = Columns(GREKernel(RBF(10.0)), [1]) + GREKernel(RBF(10.0))
    model = PLSClassifier(kernel, optimizer=None, n_inducing=5, random_state=0)
    fitted = model.set_params(max_iter=20, n_particles=5, tol=10.0).fit(X, y > 0.0)
    assert fitted.kernel_.k1.kernel.support.shape == (834, 1)
    assert fitted.kernel_.k2.support.shape == (834, 2)


def test_warm_starts_are_for_the_same_rows():
    X, y = curve(40)
    model = PLSRegressor(GREKernel(RBF(10.0)), warm_start=True, **SETTINGS).fit(X, y)
    again = model.fit(X[:30], y[:30]).kernel_.support
    assert len(again) == 30


def test_where_there_are_no_rows_of_a_fit_the_kernel_is_refused():
    X, y = curve()
    kernel = GREKernel(RBF(10.0))
    assert "rows of fit" in repr(kernel)
    for model in (GaussianProcessRegressor(kernel), GWIRegressor(kernel=kernel)):
        with pytest.raises(ValueError, match="GREKernel without support"):
            model.fit(X, y)
    model = PLSRegressor(GREKernel(RBF(10.0), support_weights=np.ones(3)))
    with pytest.raises(ValueError, match="support_weights with the support"):
        model.fit(X, y)
