"""The GRE kernel as a scikit-learn kernel."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    WhiteKernel,
)

from skgpx.kernels import GREKernel

ARD = [0.6, 1.3, 2.0]


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(11, 3)), rng.normal(size=(6, 3)), rng.normal(size=(8, 3))


def test_matches_its_definition(points):
    X, Y, S = points
    masses = np.arange(8.0)
    base = ConstantKernel(2.0) * RBF(ARD)
    kernel = GREKernel(base, S, masses, background=0.3)
    wide = ConstantKernel(2.0) * RBF(np.sqrt(2) * np.array(ARD))
    expected = base(X, S) @ np.diag(masses / masses.sum()) @ base(S, Y)
    expected += 0.3 * wide(X, Y)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-13)


def test_background_is_the_lebesgue_integral_of_an_rbf():
    s = np.linspace(-30.0, 30.0, 6001)[:, None]
    x = np.linspace(-1.0, 1.0, 7)[:, None]
    k = RBF(0.7)
    integral = k(x, s) @ k(s, x) * (s[1] - s[0])
    kbar = GREKernel(k, s).background_kernel()(x)
    np.testing.assert_allclose(integral / integral[0, 0], kbar, rtol=1e-10)


@pytest.mark.parametrize(
    "kernel_of",
    [
        lambda S: GREKernel(ConstantKernel(1.4) * RBF(ARD), S, background=0.6),
        lambda S: GREKernel(RBF(0.7) + Matern(0.4), S, np.arange(1.0, 9.0)),
        lambda S: GREKernel(
            ConstantKernel(1.4, "fixed") * RBF(ARD), S, background_bounds="fixed"
        ),
        lambda S: GREKernel(RBF(0.7, "fixed"), S, background=2.0),
        lambda S: 0.5 * GREKernel(RBF(ARD), S) + WhiteKernel(0.1),
        lambda S: GREKernel(RBF(ARD), S) * RBF(3.0),
    ],
)
def test_gradient_against_differences(kernel_of, points):
    X, _, S = points
    kernel = kernel_of(S)
    K, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(K, kernel(X), rtol=1e-13)
    assert gradient.shape == (11, 11, kernel.n_dims)
    for p, direction in enumerate(np.eye(kernel.n_dims)):
        up = kernel.clone_with_theta(kernel.theta + 1e-5 * direction)(X)
        down = kernel.clone_with_theta(kernel.theta - 1e-5 * direction)(X)
        np.testing.assert_allclose(
            gradient[:, :, p], (up - down) / 2e-5, rtol=1e-6, atol=1e-9
        )


def test_scikit_learn_protocol(points):
    X, _, S = points
    kernel = GREKernel(ConstantKernel(1.4) * RBF(ARD), S, background=0.6)
    names = [h.name for h in kernel.hyperparameters]
    assert names == [
        "kernel__k1__constant_value",
        "kernel__k2__length_scale",
        "background",
    ]
    np.testing.assert_allclose(kernel.theta, np.log([1.4, *ARD, 0.6]))
    assert kernel.bounds.shape == (5, 2)
    assert kernel.get_params()["kernel__k2__length_scale"] == ARD
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert copy != GREKernel(kernel.kernel, S[:3], background=0.6)
    assert copy != kernel.kernel
    theta = kernel.theta + 0.1
    moved = kernel.clone_with_theta(theta)
    np.testing.assert_allclose(moved.theta, theta)
    np.testing.assert_allclose(kernel.theta, theta - 0.1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moved))(X), moved(X))
    kernel.set_params(kernel__k1__constant_value=3.0, background=0.2)
    np.testing.assert_allclose(kernel.theta[[0, -1]], np.log([3.0, 0.2]))
    assert repr(kernel) == (
        "GREKernel(1.73**2 * RBF(length_scale=[0.6, 1.3, 2]), 8 support points, "
        "background=0.2)"
    )
    assert not kernel.is_stationary()
    with pytest.raises(ValueError, match="length 5; got 2"):
        kernel.theta = np.zeros(2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_inside_gaussian_process_regressor():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, size=(40, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.05 * rng.normal(size=40)
    kernel = GREKernel(ConstantKernel(1.0) * RBF([1.0, 1.0]), X) + WhiteKernel(0.1)
    start = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    model = GaussianProcessRegressor(kernel).fit(X, y)
    gain = model.log_marginal_likelihood_value_ - start.log_marginal_likelihood_value_
    assert gain > 1.0
    assert model.score(X, y) > 0.95
    assert np.array_equal(model.kernel_.k1.support, X)
    assert np.array_equal(kernel.k1.kernel.k2.length_scale, [1.0, 1.0])  # untouched
