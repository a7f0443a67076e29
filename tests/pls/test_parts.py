"""Rows in parts, by `partial_fit` and sums of models: the fit of all rows."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian, LogNormal

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (120, 2))
Y = 3.0 + np.sin(4.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(120)
WEIGHTS = rng.integers(0, 3, 120).astype(float)
NEW = rng.uniform(-1.0, 1.0, (40, 2))
KERNEL = Matern([0.6, 0.9], nu=1.5)
CHUNKS = (slice(0, 50), slice(50, 90), slice(90, 120))

POINTS = PLSRegressor(
    KERNEL,
    likelihood=Gaussian(0.01),
    inducing=X[::5],
    n_neighbors=0,
    optimizer=None,
    normalize_y=False,
    random_state=0,
)
# every row is a neighbour: the exact process
NEIGHBORS = clone(POINTS).set_params(n_neighbors=120)


def moments(model):
    return model.predict(NEW, return_std=True)


def grown(model, chunks=CHUNKS, weights=None):
    model = clone(model)
    for chunk in chunks:
        part = None if weights is None else weights[chunk]
        model.partial_fit(X[chunk], Y[chunk], part)
    return model


@pytest.mark.parametrize("model", [POINTS, NEIGHBORS], ids=["points", "neighbors"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_parts_are_one_fit(model, weights):
    whole = clone(model).fit(X, Y, weights)
    parts = grown(model, weights=weights)
    assert_allclose(moments(parts), moments(whole), rtol=1e-6)
    assert_allclose(parts.log_evidence_, whole.log_evidence_, rtol=1e-7)
    assert parts._n_rows == whole._n_rows


def test_all_neighbours_are_the_exact_process():
    exact = GaussianProcessRegressor(KERNEL, alpha=0.01, optimizer=None).fit(X, Y)
    parts = grown(NEIGHBORS)
    assert_allclose(parts.predict(NEW), exact.predict(NEW), rtol=1e-5)
    value = exact.log_marginal_likelihood_value_
    assert_allclose(parts.log_evidence_, value, rtol=1e-6)


@pytest.mark.parametrize("model", [POINTS, NEIGHBORS], ids=["points", "neighbors"])
def test_sums_of_models(model):
    whole = clone(model).fit(X, Y)
    # first rows in common count once
    first = clone(model).fit(X[CHUNKS[0]], Y[CHUNKS[0]])
    copies = []
    for chunk in CHUNKS[1:]:
        copies.append(copy.deepcopy(first).partial_fit(X[chunk], Y[chunk]))
    before = moments(copies[1])
    merged = sum(copies)
    assert_allclose(moments(merged), moments(whole), rtol=1e-6)
    assert_allclose(merged.log_evidence_, whole.log_evidence_, rtol=1e-7)
    assert_array_equal(moments(copies[1]), before)
    assert_allclose(moments(first + copies[0]), moments(copies[0]), rtol=1e-6)
    # given hyperparameters need no first rows
    fits = [clone(model).fit(X[chunk], Y[chunk]) for chunk in CHUNKS]
    assert_allclose(moments(sum(fits)), moments(whole), rtol=1e-6)
    # a sum can learn more
    merged = fits[0] + fits[1]
    merged.partial_fit(X[CHUNKS[2]], Y[CHUNKS[2]])
    assert_allclose(moments(merged), moments(whole), rtol=1e-6)


def test_first_rows_choose_the_hyperparameters_and_units():
    model = PLSRegressor(random_state=0, hyperparameters="maximise")
    first = clone(model).fit(X[:80], Y[:80])
    parts = copy.deepcopy(first).partial_fit(X[80:], Y[80:])
    assert parts.kernel_ == first.kernel_
    assert parts.noise_variance_ == first.noise_variance_
    fixed = GaussianProcessRegressor(
        first.kernel_,
        alpha=first.noise_variance_ / np.var(Y[:80]),
        optimizer=None,
    )
    shift, scale = Y[:80].mean(), Y[:80].std()
    exact = shift + scale * fixed.fit(X, (Y - shift) / scale).predict(NEW)
    assert_allclose(parts.predict(NEW), exact, atol=0.02)
    parts.fit(X[:80], Y[:80])
    assert_array_equal(parts.predict(NEW), first.predict(NEW))


def test_many_parts_with_few_neighbours_agree_with_another_order():
    rng = np.random.default_rng(1)
    rows = rng.uniform(size=(1200, 2))
    y = np.sin(8.0 * rows[:, 0]) + 0.1 * rng.standard_normal(1200)
    model = PLSRegressor(
        RBF(0.2),
        likelihood=Gaussian(0.01),
        optimizer=None,
        n_neighbors=20,
        n_inducing=30,
        random_state=0,
    )
    whole = clone(model).fit(rows, y)
    parts = clone(model)
    for first in range(0, 1200, 300):
        parts.partial_fit(rows[first : first + 300], y[first : first + 300])
    at = rng.uniform(size=(200, 2))
    mean, std = whole.predict(at, return_std=True)
    assert np.sqrt(np.mean(((parts.predict(at) - mean) / std) ** 2)) < 0.1


def test_refused():
    first = clone(POINTS).fit(X, Y)
    with pytest.raises(ValueError, match="same kernel, noise"):
        first.merge(clone(POINTS).set_params(kernel=RBF()).fit(X, Y))
    with pytest.raises(ValueError, match="same kernel, noise"):
        first.merge(clone(NEIGHBORS).fit(X, Y))
    with pytest.raises(ValueError, match="another PLSRegressor"):
        first.merge(GaussianProcessRegressor())
    with pytest.raises(ValueError, match="features"):
        first.partial_fit(X[:, :1], Y)
    logs = PLSRegressor(likelihood=LogNormal(), random_state=0, optimizer=None)
    logs.fit(X[:30], np.exp(Y[:30]))
    with pytest.raises(AttributeError, match="partial_fit"):
        logs.partial_fit(X, np.exp(Y))
    with pytest.raises(ValueError, match="Gaussian noise"):
        logs.merge(logs)
    several = clone(POINTS).fit(X, np.column_stack((Y, Y)))
    with pytest.raises(ValueError, match="one target"):
        several.merge(several)


def test_few_first_rows_choose_hyperparameters():
    model = PLSRegressor(random_state=0).partial_fit(X[:40], Y[:40])
    chosen = PLSRegressor(hyperparameters="maximise", random_state=0)
    assert_array_equal(model.predict(X), chosen.fit(X[:40], Y[:40]).predict(X))
    assert model.hyperparameters == "auto"
    assert hasattr(model.partial_fit(X[40:80], Y[40:80]), "partial_fit")
    # averaged states have no sums over rows
    assert not hasattr(PLSRegressor(random_state=0).fit(X[:40], Y[:40]), "partial_fit")
