"""Fits of Fourier functions to slopes, means over boxes and differences."""

import pickle
import tracemalloc

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import cross_val_score

from skgpx import PLSRegressor, SpectralVGPRegressor
from skgpx.bases import PolynomialEigenvalues
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian
from tests.numerics.conftest import LARGEST_Z, moment_scores
from tests.pls.test_functionals import (
    KERNEL,
    KINDS,
    NOISE,
    dense,
    drawn,
    functionals,
    moments,
)

N = 100


def fixed(**settings):
    parameters = {
        "kernel": KERNEL,
        "noise_variance": NOISE,
        "optimizer": None,
        "normalize_y": False,
        "n_basis": 601,
    }
    return SpectralVGPRegressor(**(parameters | settings))


def f(X, derivative=-1):
    """A function of one column, and its slope."""
    x = X[:, 0]
    slope = 2.0 * np.cos(2.0 * x) - 0.5 * np.sin(0.5 * x)
    return np.where(derivative < 0, 4.0 + np.sin(2.0 * x) + np.cos(0.5 * x), slope)


# ---- The exact process ---------------------------------------------------------------


@pytest.mark.parametrize("basis", ["fourier", "inducing"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_process(kind, basis, rng):
    rows = functionals(rng, N, kind)
    y = drawn(rng, rows)
    points = rows[0] if basis == "inducing" else "greedy"
    model = fixed(basis=basis, inducing=points).fit(rows[0], y, **rows[1])
    # points of values are less than the functionals of the rows
    atol = 2e-5 if basis == "fourier" or kind == "values" else 0.1
    for new_kind in KINDS:
        new = functionals(rng, 20, new_kind)
        mean, cov, evidence = dense(rows, y, NOISE, new)
        found = model.predict(new[0], return_cov=True, include_noise=False, **new[1])
        assert_allclose(found[0], mean, atol=atol)
        assert_allclose(found[1], cov, atol=atol)
    if atol < 0.1:
        assert_allclose(model.log_evidence_, evidence, atol=0.01)


def test_rough_functions_up_to_what_is_left_out(rng):
    """Matern functions of order 5/2, whose slopes are rough."""
    X = rng.uniform(-2.0, 2.0, (60, 1))
    seen = {"derivative": np.arange(60) % 2 - 1, "widths": np.full((60, 1), 0.1)}
    y = rng.standard_normal(60)
    kernel = ConstantKernel(1.5) * Matern(1.1, nu=2.5)
    exact = PLSRegressor(
        kernel,
        likelihood=Gaussian(NOISE),
        optimizer=None,
        normalize_y=False,
        n_inducing=60,
    )
    exact.fit(X, y, **seen)
    expected = moments(exact, X, seen)
    errors = []
    for n_basis in (101, 401, 1401):
        model = fixed(kernel=kernel, n_basis=n_basis).fit(X, y, **seen)
        errors.append(np.abs(moments(model, X, seen) - expected).max())
        # a bound
        assert model.log_evidence_ < exact.log_evidence_ + 1e-3
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3
    assert_allclose(model.log_evidence_, exact.log_evidence_, atol=0.1)


def test_known_noise_of_each_row(rng):
    rows = functionals(rng, N)
    noise = np.exp(rng.normal(-4.0, 1.0, N))
    y = drawn(rng, rows, noise)
    new = functionals(rng, 20)
    mean, cov, evidence = dense(rows, y, noise, new)
    model = fixed(noise_variance=None)
    model.fit(rows[0], y, noise_variance=noise, **rows[1])
    found = moments(model, new[0], new[1], noise_variance=0.3)
    assert_allclose(found, (mean, np.sqrt(np.diag(cov) + 0.3)), atol=2e-5)
    assert_allclose(model.log_evidence_, evidence, atol=0.01)
    # that of values, in the mean
    of_values = rows[1]["derivative"] < 0
    assert_allclose(model.noise_variance_, np.mean(noise[of_values]))


@pytest.mark.parametrize("estimator", [SpectralVGPRegressor, PLSRegressor])
def test_known_noise_of_values_and_slopes_in_small_units(estimator, rng):
    """New values have the noise of values, whatever the units of slopes."""
    X = rng.uniform(0.0, 10.0, (120, 1))
    derivative = np.where(np.arange(120) < 60, -1, 0)
    noise = np.where(derivative < 0, 0.05**2, 100.0**2)
    y = np.where(derivative < 0, np.sin(X[:, 0]), 1000.0 * np.cos(X[:, 0]))
    y = y + np.sqrt(noise) * rng.standard_normal(120)
    model = estimator(random_state=0)
    model.fit(X / 1000.0, y, derivative=derivative, noise_variance=noise)
    for seen, expected in (({}, 0.05), ({"derivative": 0}, 100.0)):
        new = X[:5] / 1000.0
        _, std = model.predict(new, return_std=True, **seen)
        options = {"return_std": True, "include_noise": False, **seen}
        _, of_function = model.predict(new, **options)
        assert_allclose(np.sqrt(std**2 - of_function**2), expected, rtol=1e-6)


def test_slopes_of_rough_functions_of_two_columns_have_points(rng):
    X = rng.uniform(0.0, 3.0, (80, 2))
    values = np.sin(2.0 * X[:, 0]) + X[:, 0] * X[:, 1]
    slopes = 2.0 * np.cos(2.0 * X[:, 0]) + X[:, 1]
    y = np.concatenate((values, slopes)) + 0.05 * rng.standard_normal(160)
    seen = {"derivative": np.repeat([-1, 0], 80)}
    rough = 1.0 * Matern(nu=1.5)
    model = SpectralVGPRegressor(rough, random_state=0)
    model.fit(np.concatenate((X, X)), y, **seen)
    assert model.basis_ == "inducing"
    assert 0.025 < np.sqrt(model.noise_variance_) < 0.1
    smooth = SpectralVGPRegressor(1.0 * RBF(1.0), random_state=0)
    assert smooth.fit(np.concatenate((X, X)), y, **seen).basis_ == "fourier"
    boxes = SpectralVGPRegressor(rough, random_state=0).fit(X, y[:80], widths=0.1)
    assert boxes.basis_ == "fourier"


def test_draws_and_their_conditions(rng):
    rows = functionals(rng, 20)
    y = drawn(rng, rows)
    model = fixed().fit(rows[0], y, **rows[1])
    new = rng.uniform(-1.5, 1.5, (4, 2))
    twice = np.concatenate((new, new))
    derivative = np.repeat([-1, 0], 4)
    at, values = new[:2] + 0.1, [1.0, -0.5]
    given = model.sample_functions(4000, random_state=0)
    given = given.condition(at, values, NOISE, random_state=0)
    at_new, gradients = given.value_and_grad(new)
    conditioned = np.concatenate((at_new, gradients[..., 0]))
    sampled = model.sample_y(twice, 4000, 0, derivative=derivative)
    together = [
        np.concatenate((rows[0], at)),
        {
            "derivative": np.append(rows[1]["derivative"], [-1, -1]),
            "widths": np.concatenate((rows[1]["widths"], np.zeros((2, 2)))),
            "against": np.concatenate((rows[1]["against"], np.full((2, 2), np.nan))),
        },
    ]
    new_rows = twice, {"derivative": derivative}
    mean, cov, _ = dense(rows, y, NOISE, new_rows)
    mean_given, cov_given, _ = dense(together, np.append(y, values), NOISE, new_rows)
    for draws, expected in (
        (sampled, (mean, cov + NOISE * np.eye(8))),
        (conditioned, (mean_given, cov_given)),
    ):
        assert np.abs(moment_scores(draws, *expected)).max() < LARGEST_Z


@pytest.mark.parametrize("d", [1, 2, 3])
def test_functionals_of_fits_to_values(d, rng):
    """Differences and averages of their predictions."""
    X = rng.uniform(-2.0, 2.0, (200, d))
    y = 5.0 + np.sin(X[:, 0]) * X[:, -1] + 0.1 * rng.standard_normal(200)
    # a default fit may have functions without slopes
    model = SpectralVGPRegressor(1.0 * RBF(np.ones(d)), random_state=0).fit(X, y)
    new = rng.uniform(-1.0, 1.0, (10, d))
    step = 1e-4 * np.eye(d)[-1]
    difference = (model.predict(new + step) - model.predict(new - step)) / 2e-4
    assert_allclose(model.predict(new, derivative=d - 1), difference, atol=1e-5)
    assert_allclose(
        model.predict(new + 0.5, against=new),
        model.predict(new + 0.5) - model.predict(new),
        atol=1e-9,
    )
    nodes, masses = np.polynomial.legendre.leggauss(9)
    grid = new[:, np.newaxis] + 0.25 * nodes[:, np.newaxis] * np.eye(d)[0]
    means = model.predict(grid.reshape(-1, d)).reshape(10, 9) @ masses / 2.0
    widths = np.tile(0.5 * np.eye(d)[0], (10, 1))
    assert_allclose(model.predict(new, widths=widths), means, atol=1e-7)


# ---- Equivalences --------------------------------------------------------------------


def test_rows_that_see_values_are_rows(rng):
    X = rng.uniform(0.0, 6.0, (200, 1))
    y = f(X) + 0.1 * rng.standard_normal(200)
    plain = SpectralVGPRegressor(1.0 * RBF(1.0)).fit(X, y)
    for seen in (
        {"derivative": -1},
        {"widths": 0.0},
        {"against": np.full((200, 1), np.nan)},
    ):
        model = clone(plain).fit(X, y, **seen)
        assert_allclose(model.predict(X), plain.predict(X), atol=0.01)
        assert_allclose(model.kernel_.theta, plain.kernel_.theta, atol=0.1)
        assert_allclose(model.noise_variance_, plain.noise_variance_, rtol=0.02)


def test_the_order_of_rows_and_their_repetition_do_not_matter(rng):
    X, seen = functionals(rng, 25)
    y = drawn(rng, (X, seen))
    weights = rng.integers(0, 3, 25)
    model = SpectralVGPRegressor(KERNEL).fit(X, y, sample_weight=weights, **seen)
    rows = rng.permutation(25)
    rows = np.repeat(rows, weights[rows])
    repeated = {name: values[rows] for name, values in seen.items()}
    other = SpectralVGPRegressor(KERNEL).fit(X[rows], y[rows], **repeated)
    new = functionals(rng, 20)
    assert_allclose(moments(other, *new), moments(model, *new), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_units_of_y_and_of_a_column(kind, rng):
    """A level that slopes do not see, and a slope of y that is one over units of x."""
    X, seen = functionals(rng, 40, kind)
    y = drawn(rng, (X, seen))
    derivative = seen.get("derivative", np.full(40, -1))
    against = seen.get("against", np.full((40, 2), np.nan))
    level = (derivative == -1) & np.isnan(against[:, 0])
    factor = np.where(derivative == 0, 100.0, 1.0)
    column = np.array([0.01, 1.0])
    moved = {
        name: values * column if name != "derivative" else values
        for name, values in seen.items()
    }
    # slopes, boxes and differences alone choose among all families
    kernels = [None, None]
    if kind == "everything":
        kernels = [1.0 * RBF(np.ones(2)), 1.0 * RBF(column)]
    model = SpectralVGPRegressor(kernels[0], random_state=0).fit(X, y, **seen)
    other = SpectralVGPRegressor(kernels[1], random_state=0)
    other.fit(X * column, factor * (5.0 * y + 700.0 * level), **moved)
    expected = factor * (5.0 * moments(model, X, seen) + np.outer([700.0, 0.0], level))
    found = moments(other, X * column, moved)
    scale = 5.0 * factor * y.std()
    assert_allclose(found / scale, expected / scale, atol=0.05)
    mean = model.predict(X, include_noise=False)
    atol = 0.1 * mean.std()
    assert_allclose((other.predict(X * column) - 700.0) / 5.0, mean, atol=atol)


# ---- What they learn -----------------------------------------------------------------


@pytest.mark.parametrize("basis", ["fourier", "inducing"])
def test_slopes_have_a_noise_of_their_own(basis):
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 6.0, (120, 1))
    derivative = np.where(np.arange(120) < 60, -1, 0)
    noise = np.where(derivative < 0, 0.02, 0.5)
    y = f(X, derivative) + noise * rng.standard_normal(120)
    model = SpectralVGPRegressor(basis=basis, random_state=0)
    model.fit(X, y, derivative=derivative)
    new = np.linspace(0.1, 5.9, 50)[:, np.newaxis]
    for along, size in ((-1, 0.02), (0, 0.5)):
        mean, std = moments(model, new, {"derivative": along})
        _, latent = moments(model, new, {"derivative": along}, include_noise=False)
        # the relative error of a standard deviation of 60 rows is 0.09
        z = (np.log(np.sqrt(std**2 - latent**2)) - np.log(size)) / 0.09
        assert np.abs(z).max() < LARGEST_Z
        errors = (mean - f(new, along)) / latent
        assert 0.3 < np.sqrt(np.mean(errors**2)) < 1.7
    # the evidence is that of the rows with the noise of each
    learned = model.noise_variance_ * np.append(model._noise_of_slopes, 1.0)
    other = PLSRegressor(model.kernel_, optimizer=None, n_inducing=120, random_state=0)
    other.fit(X, y, derivative=derivative, noise_variance=learned[derivative])
    assert_allclose(model.log_evidence_, other.log_evidence_, atol=0.2)
    # the slopes tell about values
    alone = SpectralVGPRegressor(basis=basis, random_state=0).fit(X[:60], y[:60])
    errors = [np.std(one.predict(new) - f(new)) for one in (model, alone)]
    assert errors[0] < errors[1]


def test_slopes_alone_know_f_up_to_a_constant(rng):
    X = rng.uniform(0.0, 6.0, (60, 1))
    new, base = np.linspace(0.5, 5.5, 9)[:, np.newaxis], np.full((9, 1), 3.0)
    model = SpectralVGPRegressor(random_state=0)
    with pytest.warns(FitWarning, match="All rows are slopes"):
        model.fit(X, 1e3 * np.cos(X[:, 0]), derivative=0)
    truth = 1e3 * np.sin(new[:, 0]) - 1e3 * np.sin(3.0)
    found = moments(model, new, {"against": base}, include_noise=False)
    assert_allclose(found[0], truth, atol=5.0)
    assert np.all(found[1] < 5.0)
    assert np.all(moments(model, new, {})[1] > 100.0)


def test_bins_are_as_good_as_points(rng):
    edges = np.linspace(0.0, 20.0, 201)
    x = 0.5 * (edges[1:] + edges[:-1])
    noise = 0.1 * rng.standard_normal(200)

    def integral(x):
        return 4.0 * x - 0.5 * np.cos(2.0 * x) + 2.0 * np.sin(0.5 * x)

    means = np.diff(integral(edges)) / 0.1
    X = x[:, np.newaxis]
    new = np.linspace(0.5, 19.5, 500)[:, np.newaxis]
    points = SpectralVGPRegressor(random_state=0).fit(X, f(X) + noise)
    bins = SpectralVGPRegressor(random_state=0).fit(X, means + noise, widths=0.1)
    errors = [np.std(one.predict(new) - f(new)) for one in (bins, points)]
    assert errors[0] < 1.2 * errors[1]
    # wide ones are no values
    wide = np.diff(integral(edges[::10])) / 1.0
    middles = 0.5 * (edges[::10][1:] + edges[::10][:-1])[:, np.newaxis]
    model = SpectralVGPRegressor(random_state=0)
    errors = [
        np.std(one.predict(new) - f(new))
        for one in (
            clone(model).fit(middles, wide, widths=1.0),
            clone(model).fit(middles, wide),
        )
    ]
    assert errors[0] < 0.5 * errors[1]


def test_pixels_of_a_picture(rng):
    side = np.arange(30) * 0.2 + 0.1
    X = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)

    def g(X):
        return np.sin(X[:, 0]) * np.cos(0.5 * X[:, 1])

    offsets = 0.2 * (np.arange(8) + 0.5) / 8 - 0.1
    shifts = np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2)
    y = np.mean([g(X + shift) for shift in shifts], axis=0)
    y += 0.05 * rng.standard_normal(len(y))
    model = SpectralVGPRegressor(random_state=0).fit(X, y, widths=0.2)
    new = rng.uniform(0.2, 5.8, (500, 2))
    mean, std = moments(model, new, {}, include_noise=False)
    errors = mean - g(new)
    assert np.std(errors) < 0.02
    assert 0.6 < np.std(errors / std) < 1.5


def test_many_bins_in_little_memory():
    """In blocks: features of all rows would take 100 MB and more."""
    rng = np.random.default_rng(0)
    n = 100_000
    edges = np.sort(rng.uniform(0.0, 20.0, n + 1))
    widths = np.diff(edges)
    x = edges[:-1] + 0.5 * widths
    y = f(x[:, np.newaxis]) + 0.3 * rng.standard_normal(n)
    model = SpectralVGPRegressor(random_state=0)
    tracemalloc.start()
    model.fit(x[:, np.newaxis], y, widths=widths[:, np.newaxis])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    new = np.linspace(0.5, 19.5, 200)[:, np.newaxis]
    mean, std = moments(model, new, {}, include_noise=False)
    assert np.std(mean - f(new)) < 0.01
    assert 0.5 < np.std((mean - f(new)) / std) < 2.0
    # rows are not kept
    assert len(pickle.dumps(model)) < 1e6


def test_few_slopes_beside_many_values_have_their_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (8010, 1))
    derivative = np.append(np.full(8000, -1), np.zeros(10, dtype=int))
    noise = np.where(derivative < 0, 0.1, 1.0)
    y = f(X, derivative) + noise * rng.standard_normal(8010)
    model = SpectralVGPRegressor(random_state=0).fit(X, y, derivative=derivative)
    # of 8000 and of 10 rows
    assert abs(np.log(model.noise_variance_ / 0.01)) < 0.08
    ratio = model._noise_of_slopes[0] * model.noise_variance_
    assert 0.3 < ratio < 3.0


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": 1.0 * RBF(1.0) + WhiteKernel()},
        {"kernel": 1.0 * RBF(1.0) + WhiteKernel(0.01, "fixed")},
        {"noise_variance": 0.01},
        {"optimizer": None, "kernel": 1.0 * RBF(0.7)},
        {"optimizer": None, "kernel": 1.0 * RBF(0.7), "basis": "inducing"},
        {"domain": [[-1.0, 7.0]]},
        {"n_basis": 41},
        {"normalize_y": False},
        {"kernel": 1.0 * RBF(1.0), "normalize_y": False, "basis": "inducing"},
        {"kernel": 1.0 * RBF(1.0), "basis": "inducing", "n_basis": 30},
    ],
)
def test_parameters(settings, rng):
    X = rng.uniform(0.0, 6.0, (50, 1))
    derivative = np.arange(50) % 2 - 1
    y = f(X, derivative) + 0.1 * rng.standard_normal(50)
    model = SpectralVGPRegressor(random_state=0, **settings)
    model.fit(X, y, derivative=derivative, widths=0.01)
    new = np.linspace(0.5, 5.5, 30)[:, np.newaxis]
    assert np.std(model.predict(new) - f(new)) < 0.15
    assert np.std(model.predict(new, derivative=0) - f(new, 0)) < 0.4
    assert model.report()


# ---- The interface -------------------------------------------------------------------


def test_data_frames_metadata_and_pickles(rng):
    X, seen = functionals(rng, 30)
    y = drawn(rng, (X, seen))
    frame = pd.DataFrame(X, columns=["a", "b"])
    names = np.array(["a", "b", -1], dtype=object)[seen["derivative"]]
    against = pd.DataFrame(seen["against"], columns=["a", "b"])
    named = seen | {"derivative": names, "against": against}
    model = fixed().fit(frame, y, **named)
    plain = fixed().fit(X, y, **seen)
    assert_array_equal(moments(model, frame, named), moments(plain, X, seen))
    loaded = pickle.loads(pickle.dumps(plain))
    assert_array_equal(moments(loaded, X, seen), moments(plain, X, seen))
    distribution = plain.predict_dist(X, **seen)
    assert_allclose(distribution.mean(), plain.predict(X, **seen))
    bounds = plain.predict_interval(X, coverage=0.9, **seen)
    assert_allclose(bounds, distribution.interval(0.9))
    request = dict.fromkeys(seen, True)
    folds = [(np.arange(15), np.arange(15, 30)), (np.arange(15, 30), np.arange(15))]
    expected = []
    for fold, held_out in folds:
        part = fixed().fit(X[fold], y[fold], **{k: v[fold] for k, v in seen.items()})
        others = {name: values[held_out] for name, values in seen.items()}
        expected.append(part.score(X[held_out], y[held_out], **others))
    with sklearn.config_context(enable_metadata_routing=True):
        routed = fixed().set_fit_request(**request).set_score_request(**request)
        scores = cross_val_score(routed, X, y, cv=folds, params=seen)
    assert_allclose(scores, expected, atol=1e-9)
    # a fit forgets what the one before it saw
    plain.fit(X, y)
    assert_array_equal(moments(plain, X, {}), moments(fixed().fit(X, y), X, {}))
    plain.partial_fit(X[:3], y[:3])


SERIES = PolynomialEigenvalues(regularity=1.0)
REFUSED = {
    "Matern 1/2": ({"kernel": Matern(nu=0.5)}, "nu=0.5.*no slope"),
    "sum": ({"kernel": RBF() + Matern(nu=0.5)}, "nu=0.5.*no slope"),
    "series": ({"kernel": "series"}, "for kernels.*'series'"),
    "rule": ({"kernel": SERIES}, "for kernels.*PolynomialEigenvalues"),
    "eigenvectors": ({"basis": "empirical"}, "for kernels.*'empirical'"),
    "domain": ({"domain": [[0.0, 2.0]]}, "within the domain"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_fits_that_are_refused(name):
    settings, message = REFUSED[name]
    model = SpectralVGPRegressor(**settings)
    X = np.linspace(0.0, 3.0, 12)[:, np.newaxis]
    state = joblib.hash(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.sin(X[:, 0]), derivative=0, widths=0.1)
    assert joblib.hash(vars(model)) == state


def test_predictions_and_rows_that_are_refused(rng):
    X = rng.uniform(0.0, 3.0, (60, 1))
    y = np.sin(X[:, 0])
    with pytest.raises(ValueError, match="for each target"):
        SpectralVGPRegressor().fit(X, np.column_stack((y, y)), derivative=0)
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(["x", "y"] * 30)})
    with pytest.raises(ValueError, match="categories"):
        SpectralVGPRegressor().fit(frame, y, widths=np.ones((60, 2)))
    for kernel, message in (
        (1.0 * Matern(nu=0.5), "no slope"),
        ("series", "series prior"),
    ):
        model = SpectralVGPRegressor(kernel).fit(X, y)
        with pytest.raises(ValueError, match=message):
            model.predict(X, derivative=0)
        # means over boxes and differences exist
        assert np.all(np.isfinite(model.predict(X, widths=0.1, against=X[::-1])))
    targets = SpectralVGPRegressor(RBF()).fit(X, np.column_stack((y, y)))
    with pytest.raises(ValueError, match="for each target"):
        targets.predict(X, derivative=0)
    model = SpectralVGPRegressor(RBF(), noise_variance=0.01, optimizer=None)
    model.fit(X, y, derivative=np.arange(60) % 2 - 1)
    for far, box in ((50.0, 0.0), (1.5, 200.0)):
        with pytest.raises(ValueError, match="wider `domain`"):
            model.predict([[far]], widths=box)
    for add in (
        lambda: model.partial_fit(X, y),
        lambda: model + clone(model).fit(X, y),
        lambda: clone(model).fit(X, y) + model,
    ):
        with pytest.raises(ValueError, match="Fit all rows together"):
            add()
