"""Covariances of slopes, means over boxes and differences, from those of values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import erf
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import (
    Additive,
    CategoricalKernel,
    Columns,
    FunctionalRows,
    Functionals,
    GREKernel,
    Linear,
    diagonal_and_pullback,
    matrix_and_input_pullback,
    matrix_and_pullback,
    triangle_and_pullback,
)
from tests.numerics.conftest import fourth_order, slopes

ARD = [0.8, 1.3, 2.0]
KERNELS = {
    "rbf": RBF(0.9),
    "rbf-ard": RBF(ARD),
    "rbf-fixed": ConstantKernel(1.4) * RBF(ARD, "fixed"),
    "matern-1.5": Matern(ARD, nu=1.5),
    "matern-2.5": ConstantKernel(1.7) * Matern(ARD, nu=2.5),
    "matern-inf": Matern(0.9, nu=np.inf),
    "rational": RationalQuadratic(0.9, 1.4),
    "rational-fixed-alpha": RationalQuadratic(0.9, 1.4, alpha_bounds="fixed"),
    "rational-fixed-scale": RationalQuadratic(0.9, 1.4, "fixed"),
    "dot": DotProduct(0.7),
    "linear": Linear([0.5, 1.0, 2.0], centre=0.3) + ConstantKernel(0.2),
    "product": ConstantKernel(2.0) * RBF(ARD) * Matern(0.9, nu=2.5),
    "sum": 0.5 * RBF(ARD) + Matern(1.1, nu=1.5) * DotProduct(0.4),
    "columns": Columns(Matern([0.7, 1.2], nu=2.5), [2, 0]) * Columns(RBF(0.8), [1]),
    "of two columns": Columns(RBF(0.7), [0]) + Columns(Matern(2.0, nu=1.5), [2]),
    "additive": Additive(RBF(ARD)),
    "additive-3": Additive(Matern(ARD, "fixed", nu=2.5), 3, [0.4, 1.5, 0.7]),
    "additive-columns": Additive(
        Columns(RBF(0.6), [2]) * Columns(Matern([0.9, 1.1], nu=2.5), [0, 1]), 2
    ),
}
ALL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
RADIAL = {
    "rbf-fixed": KERNELS["rbf-fixed"],
    "matern-0.5": Matern(ARD, nu=0.5),
    "matern-1.5": KERNELS["matern-1.5"],
    "lines": KERNELS["matern-2.5"] + KERNELS["linear"] + RBF(1.1),
}
# of panels: a tenth of a lengthscale
FINE = np.full(3, 0.05)


def functionals(rng, n, d=3):
    """Rows of every kind: values, slopes and means over boxes, some less another."""
    kinds = np.arange(n)
    return FunctionalRows(
        X=rng.normal(size=(n, d)),
        widths=np.where(kinds % 3 == 1, 0.4, 0.0)[:, np.newaxis] * rng.random((n, d)),
        against=rng.normal(size=(n, d)),
        derivative=np.where(kinds % 2 == 0, kinds % (d + 1) - 1, -1),
        is_difference=kinds % 5 >= 3,
    )


def boxes(rng, n, d=3):
    """Means over boxes, of which some have no width along some columns."""
    rows = FunctionalRows.of(rng.normal(size=(n, d)), d)
    return rows._replace(widths=rng.choice([0.0, 0.2, 0.5], (n, d)))


def points_of(rows):
    """Points and weights (n, q) whose sums are the functionals.

    Slopes by differences of order four, boxes by eight nodes a column.
    """
    n, d = rows.X.shape
    steps = 0.01 * np.array([-2.0, -1.0, 1.0, 2.0])
    of_steps = np.array([1.0, -8.0, 8.0, -1.0]) / 0.12
    nodes, masses = np.polynomial.legendre.leggauss(8)
    points, weights = [], []
    for i in range(n):
        X, w = rows.X[[i]], np.ones(1)
        if rows.is_difference[i]:
            X, w = np.stack((rows.X[i], rows.against[i])), np.array([1.0, -1.0])
        for column in np.flatnonzero(rows.widths[i]):
            shifts = np.outer(0.5 * nodes * rows.widths[i, column], np.eye(d)[column])
            X = (X[:, np.newaxis] + shifts).reshape(-1, d)
            w = np.outer(w, 0.5 * masses).ravel()
        if rows.derivative[i] >= 0:
            shifts = np.outer(steps, np.eye(d)[rows.derivative[i]])
            X = (X[:, np.newaxis] + shifts).reshape(-1, d)
            w = np.outer(w, of_steps).ravel()
        points.append(X)
        weights.append(w)
    matrix = np.zeros((n, sum(map(len, weights))))
    start = 0
    for i, w in enumerate(weights):
        matrix[i, start : start + len(w)] = w
        start += len(w)
    return np.concatenate(points), matrix


@ALL
def test_covariances_are_sums_of_those_of_values(kernel, rng):
    left, right = functionals(rng, 10), functionals(rng, 7)
    X, W = points_of(left)
    Z, V = points_of(right)
    expected = W @ kernel(X, Z) @ V.T
    of_rows = Functionals(kernel, FINE)
    K = of_rows(left.as_array(), right.as_array())
    assert_allclose(K, expected, atol=1e-6)
    # points are rows of values
    values = FunctionalRows.of(right.X, 3)
    for rows in (right.X, values.as_array()):
        assert_allclose(
            of_rows(left.as_array(), rows), W @ kernel(X, right.X), atol=1e-6
        )
    assert_allclose(of_rows(left.X, right.X), kernel(left.X, right.X), rtol=1e-12)
    # rows do not see one another
    some = left.as_array()[[7, 2]]
    assert_allclose(of_rows(some, right.as_array()), K[[7, 2]], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kernel", RADIAL.values(), ids=RADIAL)
def test_means_are_sums_of_values(kernel, rng):
    """Boxes far from one another: a Matern kernel has no kink within them."""
    left, right = boxes(rng, 12), boxes(rng, 6)
    right = right._replace(X=right.X + 4.0)
    (X, W), (Z, V) = points_of(left), points_of(right)
    of_rows = Functionals(kernel, FINE)
    K = of_rows(left.as_array(), right.as_array())
    assert_allclose(K, W @ kernel(X, Z) @ V.T, atol=1e-8)
    assert_allclose(
        of_rows(left.as_array())[:, 3:5],
        of_rows(left.as_array(), left.take([3, 4]).as_array()),
        rtol=1e-12,
    )
    plain = of_rows(left.X, right.as_array())
    assert_allclose(plain, kernel(left.X, Z) @ V.T, atol=1e-8)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_means_of_rough_functions_in_closed_form(nu, rng):
    """Wide boxes of one column that overlap, around the kink of the kernel."""
    X, widths = rng.uniform(0.0, 9.0, (20, 1)), rng.uniform(0.5, 6.0, (20, 1))
    rows = FunctionalRows.of(X, 1)._replace(widths=widths).as_array()
    a, b = 0.5 * (widths + widths.T), 0.5 * (widths - widths.T)

    def second_integral(u):
        t = np.sqrt(2.0 * nu) * np.abs(u)
        line, steps = {0.5: (1.0, [1.0]), 1.5: (2.0, [3.0, 1.0])}.get(
            nu, (8.0 / 3.0, [5.0, 7.0 / 3.0, 1.0 / 3.0])
        )
        return (line * t + np.polyval(steps[::-1], t) * np.exp(-t)) / (2.0 * nu)

    u = X - X.T
    expected = second_integral(u + a) + second_integral(u - a)
    expected -= second_integral(u + b) + second_integral(u - b)
    K = Functionals(Matern(nu=nu), np.ones(1))(rows)
    assert_allclose(K, expected / (widths * widths.T), atol=1e-7)


@pytest.mark.parametrize(
    ("kernel", "rows_of"),
    [(kernel, functionals) for kernel in KERNELS.values()]
    + [(kernel, boxes) for kernel in RADIAL.values()],
    ids=[*KERNELS, *(f"boxes-{name}" for name in RADIAL)],
)
def test_gradients_in_theta(kernel, rows_of, rng):
    rows = rows_of(rng, 10).as_array()
    others = rows_of(rng, 5).as_array()
    of_rows = Functionals(kernel, FINE)
    G = rng.normal(size=(10, 5))
    H = rng.normal(size=(10, 10))
    H += H.T
    g = H[0]

    def difference(function):
        return slopes(
            lambda theta: function(of_rows.clone_with_theta(theta)), of_rows.theta
        )

    _, pullback = matrix_and_pullback(of_rows, rows, others)
    expected = difference(lambda k: np.sum(G * k(rows, others)))
    assert_allclose(pullback(G), expected, rtol=1e-6, atol=1e-7)
    K, pullback = matrix_and_pullback(of_rows, rows)
    expected = difference(lambda k: np.sum(H * k(rows)))
    assert_allclose(pullback(H), expected, rtol=1e-6, atol=1e-7)
    triangle, pullback = triangle_and_pullback(of_rows, rows)
    assert_allclose(np.tril(triangle), np.tril(K), rtol=1e-9, atol=1e-12)
    assert_allclose(pullback(np.tril(H)), expected, rtol=1e-6, atol=1e-7)
    diagonal, pullback = diagonal_and_pullback(of_rows, rows)
    assert_allclose(diagonal, np.diag(K), rtol=1e-9, atol=1e-12)
    assert_allclose(of_rows.diag(rows), diagonal)
    expected = difference(lambda k: g @ k.diag(rows))
    assert_allclose(pullback(g), expected, rtol=1e-6, atol=1e-7)
    # and no direction has a negative variance
    assert np.linalg.eigvalsh(K).min() > -1e-9 * np.trace(K)


@pytest.mark.parametrize("name", ["matern-2.5", "sum", "additive"])
def test_gradients_in_points(name, rng):
    rows = functionals(rng, 7).as_array()
    of_rows = Functionals(KERNELS[name], FINE)
    X = rng.normal(size=(5, 3))
    G = rng.normal(size=(5, 7))
    K, pullback = matrix_and_input_pullback(of_rows, X, rows)
    assert_allclose(K, of_rows(X, rows))
    expected = fourth_order(lambda X: np.sum(G * of_rows(X, rows)), X)
    assert_allclose(pullback(G), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("kernel", "variance"),
    [
        (RBF(0.5), 4.0),
        (Matern(0.5, nu=1.5), 12.0),
        (Matern(0.5, nu=2.5), 20.0 / 3.0),
        (RationalQuadratic(0.5, 0.8), 4.0),
        (3.0 * RBF(0.5) + Linear(2.0), 16.0),
    ],
)
def test_slopes_at_one_place_have_their_variance(kernel, variance):
    """Where differences of the kernel are least accurate: ``-k''(0)``."""
    row = FunctionalRows.of(np.full((1, 1), 0.3), 1)._replace(
        derivative=np.zeros(1, int)
    )
    of_rows = Functionals(kernel, np.ones(1))
    rows = row.as_array()
    assert_allclose(of_rows(rows), [[variance]])
    # both sides of a pair that nearly coincides
    beside = row._replace(X=row.X + 1e-9).as_array()
    assert_allclose(of_rows(rows, beside), [[variance]], rtol=1e-7)
    # a slope is independent of the value there, of a stationary f
    if kernel.is_stationary():
        assert_array_equal(of_rows(rows, row.X), [[0.0]])


@pytest.mark.parametrize("width", [0.3, 2.0, 20.0, 2000.0])
def test_means_over_boxes_are_integrals(width):
    """``∫∫ exp(-(x - z)²/2)`` in closed form, whatever the lengthscale of the box."""
    rows = FunctionalRows.of(np.array([[0.0], [0.7], [5.0]]), 1)
    boxes = rows._replace(widths=np.full((3, 1), width)).as_array()
    u = rows.X - rows.X.T

    def second_integral(u):
        return np.sqrt(np.pi / 2.0) * u * erf(u / np.sqrt(2.0)) + np.exp(-0.5 * u**2)

    expected = second_integral(u + width) + second_integral(u - width)
    expected = (expected - 2.0 * second_integral(u)) / width**2
    of_rows = Functionals(RBF(1.0), np.array([1e-9]))
    assert_allclose(of_rows(boxes), expected, atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(nu=0.5),
        Matern(nu=0.8),
        ExpSineSquared(),
        GREKernel(RBF(), np.zeros((2, 1))),
        RBF() * ExpSineSquared(),
        RBF() + 0.1 * Matern(nu=0.5),
        RBF() ** 2.0,
        WhiteKernel(),
    ],
    ids=str,
)
def test_kernels_without_slopes_are_refused_by_name(kernel):
    rows = FunctionalRows.of(np.zeros((2, 1)), 1)
    boxes = rows._replace(widths=np.ones((2, 1))).as_array()
    slopes_of_f = rows._replace(derivative=np.array([0, -1])).as_array()
    of_rows = Functionals(kernel, np.ones(1))
    refused = "Matern|ExpSine|GREKernel|RBF.*\\*\\* 2|WhiteKernel"
    with pytest.raises(ValueError, match=f"({refused}).*have no slope"):
        of_rows(slopes_of_f)
    assert np.all(np.isfinite(of_rows(boxes)))


def test_columns_of_categories_have_values():
    """Slopes along the others, at rows of a category."""
    kernel = Columns(RBF(0.5), [0]) * Columns(CategoricalKernel([0.6]), [1])
    X = np.array([[0.0, 0.0], [0.2, 1.0], [0.4, 1.0]])
    rows = FunctionalRows.of(X, 2)._replace(derivative=np.array([0, 0, -1]))
    K = Functionals(kernel, np.ones(2))(rows.as_array())
    h = 1e-4
    moved = X + np.outer([1.0, 1.0, 0.0], [h, 0.0])
    back = X - np.outer([1.0, 1.0, 0.0], [h, 0.0])
    step = np.array([2.0 * h, 2.0 * h, 1.0])
    W = np.vstack((np.diag(1.0 / step), np.diag([-1.0, -1.0, 0.0] / step)))
    both = np.concatenate((moved, back))
    assert_allclose(K, W.T @ kernel(both) @ W, atol=1e-5)
