"""Kernels of some columns, of categories, and of linear functions."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gamma, lognorm, uniform
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from skgpx import (
    DecoupledSampler,
    GWIRegressor,
    PLSRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
)
from skgpx.bases import draw_prior
from skgpx.kernels import (
    CategoricalKernel,
    Columns,
    Coregionalization,
    Directions,
    GREKernel,
    Linear,
    Prior,
    diagonal_and_pullback,
    length_scales,
    log_spectral_density,
    longest_length_scales,
    matrix_and_input_pullback,
    matrix_and_pullback,
    spectral_score,
    triangle_and_pullback,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (16, 4))
X[:, 3] = RNG.integers(0, 4, 16)
OFFSETS = np.array([0.0, 1.0, -1.0, 0.3])

ADDITIVE = (
    1.0 * Columns(RBF(1.0), [0])
    + Columns(Linear([0.5, 0.2], centre=[1.0, 0.0]), slice(1, 3))
    + 0.5 * Columns(CategoricalKernel(0.5, n_categories=4), [3])
)
KERNELS = [
    ADDITIVE,
    Columns(RBF([1.0, 2.0]), [2, 0]) * Columns(CategoricalKernel(0.3), [3]),
    Columns(1.0 * RBF() + DotProduct(), [False, True, False, False]),
    Columns(CategoricalKernel([0.3, 0.6]), [3, 3]) + GREKernel(RBF(0.7), X[:5]),
    Columns(Columns(Matern(0.5, nu=1.5), -1), [2, 1]),
    Columns(RBF([1.0, 2.0], Prior([gamma(3.0), lognorm(0.5)])), [0, 2])
    + Linear(0.3, Prior(gamma(3.0))) * CategoricalKernel(0.5, Prior(uniform(0.2, 0.7))),
    Linear([0.3]) + Linear(np.ones(4), "fixed") * CategoricalKernel(0.5, "fixed"),
    Columns(RBF(1.0), [0]) * Columns(Coregionalization(4, 2), [3]),
    Columns(Coregionalization(4, 3, np.linspace(0.3, 2.9, 12)), [3]),
    Directions(0.8 * Matern([0.7, 1.4], nu=2.5), RNG.standard_normal((4, 2)))
    + Directions(1.0 * RBF(1.0) + DotProduct(0.3), OFFSETS[:, np.newaxis]),
]
EACH = pytest.mark.parametrize("kernel", KERNELS, ids=str)


def slopes_of(kernel, value):
    """Central differences of a function of the kernel in its log-parameters."""
    steps = 1e-6 * np.eye(len(kernel.theta))
    up, down = (
        [value(kernel.clone_with_theta(kernel.theta + s * e)) for e in steps]
        for s in (1, -1)
    )
    return (np.array(up) - np.array(down)) / 2e-6


@EACH
def test_derivatives(kernel):
    A, B = X[:7], X[7:]
    G, g = RNG.standard_normal((7, 9)), RNG.standard_normal(7)
    K, pullback = matrix_and_pullback(kernel, A, B)
    assert_allclose(K, kernel(A, B), atol=1e-12)
    near = {"rtol": 1e-5, "atol": 1e-6}
    assert_allclose(
        pullback(G), slopes_of(kernel, lambda k: np.sum(G * k(A, B))), **near
    )
    diagonal, pullback = diagonal_and_pullback(kernel, A)
    assert_allclose(diagonal, np.diagonal(kernel(A)), atol=1e-12)
    assert_allclose(pullback(g), slopes_of(kernel, lambda k: g @ k.diag(A)), **near)
    K, gradient = kernel(A, eval_gradient=True)
    S = G[:, :7] + G[:, :7].T
    expected = np.einsum("ij,ijp->p", S, gradient)
    assert_allclose(expected, slopes_of(kernel, lambda k: np.sum(S * k(A))), **near)
    lower, pullback = triangle_and_pullback(kernel, A)
    assert_allclose(np.tril(lower), np.tril(K), atol=1e-12)
    assert_allclose(pullback(np.tril(S)), expected, rtol=1e-9, atol=1e-9)


@EACH
def test_input_gradients(kernel):
    A, B, G = X[:7], X[7:], RNG.standard_normal((7, 9))
    slopes = matrix_and_input_pullback(kernel, A, B)[1](G)
    for j, step in enumerate(1e-6 * np.eye(4)[:3]):
        difference = np.sum(G * (kernel(A + step, B) - kernel(A - step, B)), axis=1)
        assert_allclose(slopes[:, j], difference / 2e-6, rtol=1e-4, atol=1e-5)
    assert_array_equal(slopes[:, 3][:0], [])


@EACH
def test_copies(kernel):
    assert clone(kernel) == kernel
    assert clone(kernel) is not kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    moved = kernel.clone_with_theta(kernel.theta - 0.1)
    assert moved != kernel or not len(kernel.theta)
    assert_allclose(moved.theta, kernel.theta - 0.1)


def test_length_scales_belong_to_columns():
    kernel = Columns(RBF([1.0, 2.0]), [2, 0]) + Columns(Matern(5.0), [0])
    assert_array_equal(length_scales(kernel, 4), [2.0, 1.0, 1.0, 1.0])
    assert_array_equal(longest_length_scales(kernel, 4), [5.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    "kernel",
    [
        ADDITIVE,
        Columns(Matern(1.0), [0]) * Columns(RBF(0.5), [1]),
        Columns(RBF([1.0, 2.0]), [2, 0])
        * Columns(CategoricalKernel(0.3, n_categories=4), [3]),
        Columns(RBF(1.0), [0])
        * Columns(Coregionalization(4, 2, np.linspace(0.3, 2.9, 8)), [3]),
        Columns(ExpSineSquared(1.0, 2.0), [1]) + Columns(DotProduct(0.5), [0]),
        Directions(
            0.8 * Matern([0.7, 1.4], nu=2.5), OFFSETS[:, np.newaxis] + X[:4, :2]
        ),
    ],
    ids=str,
)
def test_draws_have_the_covariance_of_the_kernel(kernel):
    n, rng = 4000, np.random.default_rng(1)
    draws = draw_prior(kernel, 4, 1, n, rng, n_groups=8, prior="spectral")
    values, K = draws(X[:6]), kernel(X[:6])
    error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / n)
    # frequencies are shared by 500 draws each, which adds to the error
    assert np.max(np.abs(np.cov(values) - K) / error) < 5.0


def problem(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 4))
    X[:, 3] = rng.integers(0, 4, n)
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + OFFSETS[X[:, 3].astype(int)]
    return X, f, f + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize(
    "model",
    [
        PLSRegressor(kernel=ADDITIVE, random_state=0),
        GWIRegressor(kernel=ADDITIVE, random_state=0),
        DecoupledSampler(
            GaussianProcessRegressor(ADDITIVE + WhiteKernel(0.01), optimizer=None)
        ),
    ],
    ids=lambda m: type(m).__name__,
)
def test_additive_models(model):
    X, _, y = problem(200, 0)
    new, f, _ = problem(200, 1)
    mean, std = model.fit(X, y).predict(new, return_std=True)
    assert np.sqrt(np.mean((mean - f) ** 2)) < 0.05
    draws = model.sample_functions(32, random_state=0)
    values = draws(new)
    assert np.mean(np.abs(values.mean(axis=-1) - mean) < 4.0 * std / np.sqrt(32)) > 0.97


def test_draws_of_additive_models_are_minimised():
    kernel = Columns(RBF(0.5), [0]) + Columns(Linear([1.0, 0.5]), [2, 1])
    draws = draw_prior(kernel, 3, 1, 8, np.random.default_rng(0), n_basis=256)
    low = draws.minimize([[-2.0, 2.0]] * 3)
    values = draws(np.random.default_rng(1).uniform(-2.0, 2.0, (500, 3)))
    assert np.all(low.fun <= values.min(axis=0) + 1e-9)
    # a linear function ends in a corner
    assert_allclose(np.abs(low.x[:, 1:]), 2.0)


def test_draws_are_minimised_within_a_category():
    X, _, y = problem(60, 0)
    kernel = Columns(RBF(1.0), [0]) * Columns(
        CategoricalKernel(0.5, n_categories=4), [3]
    )
    model = PLSRegressor(kernel=kernel, random_state=0).fit(X, y)
    draws = model.sample_functions(4, random_state=0)
    for code in (0.0, 3.0):
        bounds = [[-2.0, 2.0], [0.0, 0.0], [0.0, 0.0], [code, code]]
        low = draws.minimize(bounds, n_mesh=256)
        assert_array_equal(low.x[:, 1:], [[0.0, 0.0, code]] * 4)
        grid = np.zeros((200, 4))
        grid[:, 0], grid[:, 3] = np.linspace(-2.0, 2.0, 200), code
        assert np.all(low.fun <= draws(grid).min(axis=0) + 1e-9)


@pytest.mark.filterwarnings("ignore:The noise varies")  # columns that are not seen
def test_a_column_that_a_kernel_does_not_see_does_not_matter():
    X, _, y = problem(60, 0)
    model = PLSRegressor(kernel=Columns(RBF([1.0, 1.0]), [0, 1]), random_state=0)
    model.fit(X, y)
    moved = X + np.array([0.0, 0.0, 7.0, -3.0])
    assert_array_equal(model.predict(moved), model.predict(X))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([4], "X has 4 columns"),
        ([0.5], "integers, a slice"),
    ],
)
def test_columns_that_are_not_there(columns, message):
    model = PLSRegressor(kernel=Columns(RBF(), columns))
    with pytest.raises(ValueError, match=message):
        model.fit(X, X[:, 0])


def test_the_default_kernel_follows_a_trend():
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 10.0, 150)[:, np.newaxis]
    f = 3.0 * t[:, 0] + np.sin(4.0 * t[:, 0])
    model = PLSRegressor(random_state=0).fit(t, f + 0.2 * rng.standard_normal(150))
    assert any(type(part) is Linear for part in model.kernel_.get_params().values())
    far = np.array([[14.0]])
    mean, std = model.predict(far, return_std=True)
    assert abs(mean[0] - 42.0) < 3.0 * std[0] < 9.0


@pytest.mark.filterwarnings("ignore:The noise varies")  # columns that are not seen
def test_names_of_columns():
    pd = pytest.importorskip("pandas")
    X, _, y = problem(80, 0)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    kernels = [
        1.0 * Columns(RBF(1.0), "a") + Columns(Linear(1.0), ["b", "c"]),
        1.0 * Columns(RBF(1.0), [0]) + Columns(Linear(1.0), [1, 2]),
    ]
    for make in (PLSRegressor, GWIRegressor):
        named, numbered = (
            make(kernel=kernel, random_state=0).fit(frame, y) for kernel in kernels
        )
        assert_array_equal(named.predict(frame), numbered.predict(frame))
        assert named.kernel == kernels[0]
    wrong = PLSRegressor(kernel=Columns(RBF(), ["a", "age"]))
    with pytest.raises(ValueError, match=r"columns \['age'\], which are not among"):
        wrong.fit(frame, y)
    with pytest.raises(ValueError, match="no names of columns"):
        wrong.fit(X, y)
    # a callable sees names and types
    selector = make_column_selector(pattern="^[bc]", dtype_include="float")
    chosen = clone(kernels[0]).set_params(k2__columns=selector)
    model = GWIRegressor(kernel=chosen, random_state=0).fit(frame, y)
    assert_array_equal(model.predict(frame), named.predict(frame))
    with pytest.raises(ValueError, match="no names of columns"):
        PLSRegressor(kernel=chosen).fit(X, y)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Columns(RBF(), [-5]), "X has 4 columns"),
        (Columns(RBF(), [True, False]), "X has 4 columns.* a mask of 4 entries"),
        (
            Linear([1.0, 0.0, 1.0, 1.0]),
            "slope above zero|must be positive and finite; got",
        ),
        (
            Columns(Linear(-1.0), [1]),
            "slope above zero|must be positive and finite; got",
        ),
        (Linear([1.0, 2.0]), "one for each of the 4 columns"),
        (Columns(CategoricalKernel(1.5), [3]), "above zero and at most one"),
        (
            Columns(CategoricalKernel(0.5, n_categories=3), [3]),
            "expects codes 0 to 2; got 3",
        ),
    ],
    ids=str,
)
def test_kernels_that_are_none_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(X)
    with pytest.raises(ValueError, match=message) as caught:
        PLSRegressor(kernel=kernel).fit(X, X[:, 0])
    assert "lengthscale" not in str(caught.value)


def test_categories_that_were_not_there_are_refused():
    X, _, y = problem(60, 0)
    model = PLSRegressor(kernel=ADDITIVE, random_state=0).fit(X, y)
    draws, new = (
        model.sample_functions(2, random_state=0),
        X[:1] + np.array([0, 0, 0, 9]),
    )
    for evaluate in (model.predict, draws):
        with pytest.raises(ValueError, match="n_categories=4 expects codes 0 to 3"):
            evaluate(new)


def test_coregionalization():
    kernel = Coregionalization(3, 2, np.array([0.3, 1.0, 1.2, 2.0, 2.8, 0.4]))
    A, B = kernel.loadings(), kernel.correlations()
    assert A.shape == (3, 2)
    assert_allclose(np.diag(B), 1.0)
    assert np.all(np.linalg.eigvalsh(B) > 0.0)
    assert np.linalg.matrix_rank(B - np.diag(1.0 - np.sum(A**2, axis=1))) == 2
    assert B[0, 2] < 0.0
    codes = np.array([[2.0], [0.0], [0.0]])
    assert_allclose(kernel(codes), B[[2, 0, 0]][:, [2, 0, 0]])
    with pytest.raises(ValueError, match=r"codes from 0 to 2; got 1 columns"):
        kernel(codes + 1.0)


def test_a_missing_target_is_predicted_from_a_correlated_one():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 80))
    root = np.linalg.cholesky(RBF(1.0)(x[:, np.newaxis]) + 1e-8 * np.eye(80))
    f = root @ rng.standard_normal((80, 2)) @ np.array([[1.0, -0.9], [0.0, 0.4]])
    Y = f + 0.05 * rng.standard_normal((80, 2))
    Y[20:50, 1] = np.nan
    rows, target = np.nonzero(np.isfinite(Y))
    long, y = np.column_stack((x[rows], target)), Y[rows, target]
    kernel = Columns(1.0 * RBF(1.0), [0]) * Columns(Coregionalization(2), [1])
    model = PLSRegressor(kernel, random_state=0).fit(long, y)
    assert -0.98 < model.kernel_.k2.kernel.correlations()[0, 1] < -0.7
    missing, truth = np.column_stack((x[20:50], np.ones(30))), f[20:50, 1]
    mean, std = model.predict(missing, return_std=True)
    assert np.all(np.abs(mean - truth) < 4.0 * std)
    known = np.isfinite(Y[:, 1])
    alone = PLSRegressor(random_state=0).fit(x[known, np.newaxis], Y[known, 1])
    errors = [mean - truth, alone.predict(x[20:50, np.newaxis]) - truth]
    assert np.std(errors[0]) < 0.6 * np.std(errors[1])
    draws = model.sample_functions(50, random_state=0)(missing)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < std)


def test_frequencies_stay_in_the_columns_of_their_terms():
    inner = Matern([0.5, 2.0], nu=2.5)
    kernel = 2.0 * Columns(inner, [2, 0]) + Columns(RBF(1.0), [1])
    omega = np.array([[0.3, 0.0, -1.0], [0.0, 0.7, 0.0]])
    density, score = log_spectral_density(kernel, omega), spectral_score(kernel, omega)
    own = log_spectral_density(inner, omega[:1, [2, 0]])
    assert_allclose(density[0], np.log(2.0 / 3.0) + own[0])
    assert_allclose(score[0, [2, 0]], spectral_score(inner, omega[:1, [2, 0]])[0])
    assert_allclose(score[1], [0.0, -0.7, 0.0])
    assert log_spectral_density(kernel, np.ones((1, 3)))[0] == -np.inf

    rows = np.random.default_rng(0).uniform(0.0, 1.0, (60, 3))
    features = SteinFourierFeatures(kernel, n_frequencies=200, random_state=0)
    Phi = features.fit_transform(rows)
    assert_allclose(Phi @ Phi.T, kernel(rows), atol=0.05)

    f = np.sin(6.0 * rows[:, 0]) + rows[:, 1] ** 2
    y = f + 0.1 * np.random.default_rng(1).standard_normal(60)
    additive = 1.0 * Columns(RBF(0.5), [0]) + 1.0 * Columns(RBF(0.5), [1])
    how = {"n_frequencies": 10, "max_iter": 20, "random_state": 0}
    model = SteinRFFRegressor(kernel=additive, **how).fit(rows, y)
    found = model.frequencies_.reshape(-1, 3) != 0.0
    assert_array_equal(found.sum(axis=1), 1)
    assert not found[:, 2].any()
    assert np.sqrt(np.mean((model.predict(rows) - f) ** 2)) < 0.08


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Columns(Coregionalization(2, rank=0), [1]), "a rank of at least 1"),
        (Columns(Coregionalization(2, angles=[0.5]), [1]), "angles of shape"),
    ],
    ids=range(2),
)
def test_ranks_and_angles_that_are_refused(kernel, message):
    X = np.column_stack((np.linspace(0.0, 1.0, 6), np.arange(6) % 2))
    with pytest.raises(ValueError, match=message):
        PLSRegressor(kernel, random_state=0).fit(X, X[:, 0])
