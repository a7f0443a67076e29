"""Sums over subsets of columns, against their definition."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, WhiteKernel

from skgpx.kernels import (
    Additive,
    CategoricalKernel,
    Columns,
    Linear,
    expand,
    matrix_and_input_pullback,
    matrix_and_pullback,
    sample_frequencies,
    triangle_and_pullback,
)

SCALES = [0.5, 1.0, 2.0]
CORRELATION = 0.3


@pytest.fixture
def points(rng):
    """Two numbers, categories, another number, and a column that is not seen."""
    X, Z = rng.standard_normal((12, 5)), rng.standard_normal((7, 5))
    for table in (X, Z):
        table[:, 2] = rng.integers(0, 3, len(table))
    return X, Z


def of_mixed_columns(order, variances, shape=Matern, **parameters):
    numbers = Columns(shape(SCALES, **parameters), [0, 1, 3])
    categories = Columns(CategoricalKernel(CORRELATION), [2])
    return Additive(numbers * categories, order, variances)


def one_column_kernels(X, Z, shape=Matern, **parameters):
    kernels = [
        shape(scale, **parameters)(X[:, [column]], Z[:, [column]])
        for scale, column in zip(SCALES, (0, 1, 3), strict=True)
    ]
    differ = X[:, [2]] != Z[:, 2]
    return [*kernels, np.where(differ, CORRELATION, 1.0)]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_the_mean_of_all_products_of_each_order(order, points, rng):
    X, Z = points
    variances = rng.uniform(0.5, 2.0, order)
    kernels = one_column_kernels(X, Z, nu=2.5)
    expected = np.zeros((12, 7))
    for r, variance in enumerate(variances, start=1):
        products = [np.prod(subset, axis=0) for subset in combinations(kernels, r)]
        expected += variance * np.mean(products, axis=0)
    kernel = of_mixed_columns(order, variances, nu=2.5)
    assert_allclose(kernel(X, Z), expected, rtol=1e-13)
    assert_allclose(kernel.diag(X), np.full(12, variances.sum()), rtol=1e-14)
    assert_allclose(np.diag(kernel(X)), kernel.diag(X), rtol=1e-14)


def test_the_highest_order_alone_is_the_product(points):
    X, Z = points
    kernel = of_mixed_columns(4, [1e-9, 1e-9, 1e-9, 2.0], RBF)
    product = Columns(RBF(SCALES), [0, 1, 3]) * Columns(CategoricalKernel(0.3), [2])
    assert_allclose(kernel(X, Z), 2.0 * product(X, Z), atol=1e-8)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_slopes_with_categories(order, points, rng):
    X, Z = points
    kernel = of_mixed_columns(order, rng.uniform(0.5, 2.0, order), nu=1.5)
    G = rng.standard_normal((12, 12))
    G += G.T
    _, gradient = kernel(X, eval_gradient=True)
    expected = np.einsum("ij,ijp->p", G, gradient)
    assert_allclose(matrix_and_pullback(kernel, X)[1](G), expected, rtol=1e-10)
    assert_allclose(triangle_and_pullback(kernel, X)[1](G), expected, rtol=1e-10)
    for p, step in enumerate(1e-5 * np.eye(len(kernel.theta))):
        above = kernel.clone_with_theta(kernel.theta + step)(X)
        below = kernel.clone_with_theta(kernel.theta - step)(X)
        assert_allclose(gradient[:, :, p], (above - below) / 2e-5, atol=1e-8)
    # categories and the column that is not seen have no slope
    slopes = matrix_and_input_pullback(kernel, X, Z)[1](rng.standard_normal((12, 7)))
    assert np.all(slopes[:, [2, 4]] == 0.0)
    assert np.all(slopes[:, [0, 1, 3]] != 0.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_in_the_regression_of_scikit_learn(rng):
    X, T = rng.uniform(-2.0, 2.0, (80, 6)), rng.uniform(-2.0, 2.0, (500, 6))

    def function(X):
        return np.sum(np.sin(X), axis=1) + np.sum(X[:, 1:] * X[:, :-1], axis=1)

    def error(kernel):
        model = GaussianProcessRegressor(kernel + WhiteKernel(0.01), normalize_y=True)
        predictions = model.fit(X, function(X)).predict(T)
        return np.sqrt(np.mean((predictions - function(T)) ** 2))

    assert error(Additive(RBF(np.ones(6)))) < 0.5 * error(1.0 * RBF(np.ones(6)))


def test_the_order_can_be_searched():
    kernel = Additive(RBF(0.8))
    assert len(kernel.theta) == 3
    kernel.set_params(order=1)
    assert len(kernel.theta) == 2
    assert kernel(np.zeros((1, 3)))[0, 0] == 1.0
    doubled = kernel.clone_with_theta(kernel.theta + np.log(2.0))
    assert doubled.kernel.length_scale == pytest.approx(1.6)
    assert doubled.diag(np.zeros((1, 3)))[0] == pytest.approx(2.0)


@pytest.mark.parametrize("numbers", [slice(1, 3), [False, True, True]])
def test_terms_of_slices_and_masks(numbers, points):
    X, Z = points
    X, Z = X[:, [2, 0, 1]], Z[:, [2, 0, 1]]
    kernel = Additive(
        Columns(RBF(0.7), numbers) * Columns(CategoricalKernel(CORRELATION), [0])
    )
    total = sum(term.as_kernel()(X, Z) for term in expand(kernel))
    assert len(expand(kernel)) == 3
    assert_allclose(total, kernel(X, Z), rtol=1e-12)


def test_frequencies_have_at_most_two_columns_and_the_law_of_the_kernel(rng):
    d = 5
    variances = np.array([1.0, 3.0])
    kernel = Additive(Matern(np.linspace(0.5, 2.0, d), nu=2.5), 2, variances)
    n = 200_000
    frequencies, amplitudes = sample_frequencies(kernel, n, d, rng)
    n_columns = np.sum(frequencies != 0.0, axis=1)
    # a quarter of the variance is that of single columns
    assert set(n_columns.tolist()) == {1, 2}
    assert abs(np.mean(n_columns == 1) - 0.25) < 5.0 * np.sqrt(0.25 * 0.75 / n)
    X = rng.standard_normal((20, d))
    waves = np.cos((X - X[0]) @ frequencies.T)
    standard_errors = waves.std(axis=1) / np.sqrt(n) + 1e-12
    expected = kernel(X, X[:1])[:, 0] / 4.0
    assert np.all(np.abs(waves @ amplitudes**2 - expected) < 5.0 * standard_errors)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_terms_by_their_categories(order, points, rng):
    X, Z = points
    numbers = Columns(RBF(SCALES), [0, 1, 3])
    categories = Columns(CategoricalKernel([CORRELATION, 0.7]), [2, 4])
    kernel = Additive(numbers * categories, order, rng.uniform(0.5, 2.0, order))
    terms = expand(kernel)
    assert len(terms) == {1: 3, 2: 6, 4: 7}[order]
    total = sum(term.as_kernel()(X, Z) for term in terms)
    assert_allclose(total, kernel(X, Z), rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Additive(RBF() + RBF()), "products of them"),
        (Additive(ExpSineSquared()), "products of them"),
        (Additive(Matern(nu=0.8)), "products of them"),
        (Additive(Linear()), "products of them"),
        (Additive(RBF([1.0, 2.0])), "2, one for each|of 3 columns"),
        (Additive(RBF() * RBF()), "sees one of them twice"),
        (Additive(RBF(), order=4), "order 4 expects as many columns; got 3"),
        (Additive(RBF(), order=0), "order from 1 to 10"),
        (Additive(RBF(), order=2.0), "order from 1 to 10"),
        (Additive(RBF(), order=2, variances=[1.0, 2.0, 3.0]), "3 variances"),
        (Additive(RBF(), order=2, variances=[1.0, 0.0]), "positive variances"),
    ],
)
def test_other_kernels_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(np.zeros((2, 3)))
