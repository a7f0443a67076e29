"""Regression around networks and sparse means."""

import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    WhiteKernel,
)
from sklearn.utils.fixes import parse_version

from skgpx import GWIRegressor, PLSRegressor
from skgpx._gwi._fit import LEAST_INDUCING, PER_ROOT
from skgpx._gwi._prior import NOISE_FLOOR, SEARCH_ROWS, learn_prior
from skgpx._gwi._sparse_mean import sparse_mean
from skgpx._row_statistics import row_statistics
from skgpx._validation import Rows
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian
from tests.gwi.conftest import BRIEF, FIXED, wavy

# networks that are hardly trained miss what a kernel finds
pytestmark = pytest.mark.filterwarnings("ignore:The networks leave")

NEW = np.random.default_rng(9).normal(size=(25, 2))
MEANS = ("net", "svgp")
COVARIANCES = ("closed_form", "svgp", "bures", "empirical")


def fit(rows, **given):
    return GWIRegressor(**({"mean": "net"} | BRIEF | given)).fit(*rows)


# ---- The model ---------------------------------------------------------------


def test_without_the_distance_it_is_sparse_regression(rows):
    X, y = rows
    Z = X[:20]
    model = fit(
        rows,
        mean="svgp",
        covariance="svgp",
        distance_weight=0.0,
        tempering=None,
        inducing=Z,
    )
    noise = FIXED["noise_variance"]
    sparse = PLSRegressor(
        FIXED["kernel"], optimizer=None, inducing=Z, likelihood=Gaussian(noise)
    ).fit(X, y)
    for one, other in zip(
        model.predict(NEW, return_std=True),
        sparse.predict(NEW, return_std=True),
        strict=True,
    ):
        assert_allclose(one, other, rtol=1e-8)
    assert_allclose(
        model.predict(NEW, return_cov=True)[1],
        sparse.predict(NEW, return_cov=True)[1],
        rtol=1e-8,
        atol=1e-10,
    )


@pytest.mark.parametrize("mean", MEANS)
def test_far_from_the_data_the_std_is_the_prior_s(rows, mean):
    model = fit(rows, mean=mean, tempering=None)
    scale = np.std(rows[1])
    far = np.array([[15.0, 0.0], [-12.0, 40.0]])
    _, std = model.predict(far, return_std=True, include_noise=False)
    assert_allclose(std, scale, rtol=1e-6)
    # and grows on the way there
    line = np.column_stack([np.linspace(0.0, 12.0, 20), np.zeros(20)])
    std = model.predict(line, return_std=True, include_noise=False)[1]
    assert std[0] < 0.3 * std[-1]


@pytest.mark.parametrize("tempering", ["auto", "factor", "affine", None])
def test_tempering_changes_both_variances(rows, tempering):
    how = {"validation_fraction": 0.15, "max_iter": 60}
    model = fit(rows, tempering=tempering, **how)
    plain = fit(rows, tempering=None, inducing=model.inducing_points_, **how)
    noise, factor = model.temper_
    assert_array_equal(model.predict(NEW), plain.predict(NEW))
    process = plain.predict(NEW, return_std=True, include_noise=False)[1] ** 2
    expected = factor * process + noise * plain.noise_variance_
    assert_allclose(model.predict(NEW, return_std=True)[1] ** 2, expected, rtol=1e-9)
    assert (noise, factor) == (1.0, 1.0) or tempering is not None
    if tempering == "factor":
        assert_allclose(noise, factor)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_variances_are_those_of_a_process(rows, covariance, mean):
    model = fit(rows, covariance=covariance, mean=mean, n_inducing=12, max_iter=3)
    points = np.concatenate([model.inducing_points_, rows[0][:20], NEW])
    mixture = model.posterior_.marginals(points)
    variance = mixture.moments()[1][:, 0]
    assert np.all(variance >= 0.0)
    covariance = model.predict(points, return_cov=True, include_noise=False)[1]
    assert_allclose(np.diagonal(covariance), variance, rtol=1e-8, atol=1e-10)
    assert np.min(np.linalg.eigvalsh(covariance)) > -1e-8


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_mean_does_not_depend_on_the_covariance(rows, covariance):
    one = fit(rows, covariance="closed_form")
    other = fit(rows, covariance=covariance, n_inducing=12)
    assert_array_equal(one.predict(NEW), other.predict(NEW))


@pytest.mark.parametrize("objective", ["paper", "root"])
def test_a_heavy_distance_is_the_prior(rows, objective):
    model = fit(
        rows,
        mean="svgp",
        objective=objective,
        covariance="closed_form",
        distance_weight=1e9,
        prior_mean=7.0,
        tempering=None,
    )
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    assert_allclose(mean, 7.0, atol=1e-3)
    assert_allclose(std, np.std(rows[1]), rtol=1e-3)
    assert model.wasserstein_distance_ < 1e-2


def test_the_distance_is_that_of_the_processes(rows):
    """Between the joint laws at the rows, which the reported one bounds from above."""
    X, y = rows
    model = fit(rows, tempering=None, n_inducing=25)
    K, mean = np.var(y) * FIXED["kernel"](X), np.full(len(y), y.mean())
    law = model.predict(X, return_cov=True, include_noise=False)
    from_formula = wasserstein_of(*law, mean, K) / np.sqrt(len(y))
    assert from_formula <= model.wasserstein_distance_ <= 1.1 * from_formula


def wasserstein_of(m, A, n, B):
    gaps = np.linalg.eigvals(A @ B).real
    return np.sqrt(
        np.sum((m - n) ** 2)
        + np.trace(A + B)
        - 2.0 * np.sum(np.sqrt(np.maximum(gaps, 0.0)))
    )


def test_values_without_a_row_are_those_of_a_fit_without_it():
    X, y = wavy(30)
    rows = Rows(X, y - y.mean(), np.arange(1.0, 31.0) % 3 + 1.0)
    basis = Nystroem.from_kernel(RBF(1.0), X[:5])
    found = sparse_mean(basis, rows, row_statistics(basis, rows, 1), 0.3)
    others = rows.take(np.arange(30) != 4)
    without = sparse_mean(basis, others, row_statistics(basis, others, 1), 0.3)
    assert_allclose(found.leave_one_out[4], (basis(X[4:5]) @ without.weights)[0])
    assert_allclose(found.values, basis(X) @ found.weights)


def test_the_prior_mean_is_where_a_sparse_mean_goes(rows):
    def level(X):
        return 10.0 + X[:, 0]

    far = np.array([[30.0, 0.0], [-20.0, 3.0]])
    model = fit(rows, mean="svgp", prior_mean=level)
    assert_allclose(model.predict(far), level(far), rtol=1e-9)
    assert_allclose(fit(rows, mean="svgp").predict(far), np.mean(rows[1]), rtol=1e-9)


def test_draws_have_the_moments_of_predict(rows):
    model = fit(rows, max_iter=100)
    draws = model.sample_functions(2000, random_state=1)(NEW)
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(2000))
    assert np.max(np.abs(z)) < 4.5
    ratio = draws.std(axis=1) / std
    assert np.max(np.abs(ratio - 1.0)) < 4.5 / np.sqrt(2 * 2000)


# ---- The fit -----------------------------------------------------------------


def test_a_fit_of_everything_is_near_the_noise():
    X, y = wavy(400)
    model = GWIRegressor(n_restarts=3, random_state=0).fit(X, y)
    X_new, y_new = wavy(1000, seed=1)
    error = y_new - model.predict(X_new)
    assert np.sqrt(np.mean(error**2)) < 0.25
    std = model.predict(X_new, return_std=True)[1]
    covered = np.mean(np.abs(error) < 1.96 * std)
    assert abs(covered - 0.95) < 0.04
    assert list(model.stage_seconds_) == ["search", "mean", "law"]
    assert 1 <= model.n_iter_ <= len(model.loss_curve_)


@pytest.mark.parametrize("mean", MEANS)
def test_same_bits_for_every_number_of_workers(rows, mean):
    one, two = (fit(rows, mean=mean, n_jobs=n) for n in (1, 2))
    for a, b in zip(
        one.predict(NEW, return_std=True),
        two.predict(NEW, return_std=True),
        strict=True,
    ):
        assert_array_equal(a, b)


@pytest.mark.parametrize("mean", MEANS)
def test_weights_are_repetitions_and_order_is_nothing(rows, mean):
    X, y = rows
    weights = np.arange(len(y)) % 3
    order = np.random.default_rng(0).permutation(len(y))
    weighted = GWIRegressor(mean, **BRIEF).fit(X, y, sample_weight=weights)
    again = np.repeat(order, weights[order])
    repeated = GWIRegressor(mean, **BRIEF).fit(X[again], y[again])
    assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-12)
    assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-12)


def test_units_of_y(rows):
    X, y = rows
    noise = FIXED["noise_variance"]
    one = fit(rows)
    other = fit((X, 1e3 * y - 5.0), noise_variance=noise * 1e6)
    mean, std = one.predict(NEW, return_std=True)
    assert_allclose(other.predict(NEW), 1e3 * mean - 5.0, rtol=1e-6)
    assert_allclose(other.predict(NEW, return_std=True)[1], 1e3 * std, rtol=1e-6)
    ratio = other.wasserstein_distance_ / one.wasserstein_distance_
    assert_allclose(ratio, 1e3, rtol=1e-6)


def test_judges_are_no_inducing_points(rows):
    every = {"n_inducing": 160, "inducing": "random"}
    model = fit(rows, validation_fraction=0.1, **every)
    # two networks hold out sixteen rows each
    assert len(model.inducing_points_) == 160 - 32
    assert len(fit(rows, tempering=None, **every).inducing_points_) == 160


@pytest.mark.parametrize("n", [277, 278, 300, 320])
def test_number_of_inducing_points(n):
    expected = max(LEAST_INDUCING, round(PER_ROOT * np.sqrt(n)))
    model = fit(wavy(n), kernel=RBF(0.3), max_iter=1, tempering=None)
    assert len(model.inducing_points_) == expected


@pytest.mark.parametrize("n", [SEARCH_ROWS - 1, SEARCH_ROWS, SEARCH_ROWS + 1])
def test_rows_of_the_search(n):
    X, y = wavy(n)
    kernel = RBF(1.0) + WhiteKernel(0.1)
    model = fit((X, y), kernel=kernel, optimizer="evidence", noise_variance=None)
    assert 0.3 < model.kernel_.length_scale < 3.0


def test_the_noise_has_a_floor():
    X = np.linspace(-1.0, 1.0, 60)[:, np.newaxis]
    y = np.sin(3.0 * X[:, 0])
    rows = Rows(X, y, np.ones(60))
    kernel = RBF(0.5) + WhiteKernel(1e-6, (1e-9, 1.0))
    how = "evidence", None, np.random.default_rng(0)
    found = learn_prior(rows, kernel, *how)
    assert_allclose(found.noise_variance, NOISE_FLOOR * np.mean(y**2))
    given = learn_prior(rows, RBF(0.5), None, 1e-7, np.random.default_rng(0))
    assert given.noise_variance == 1e-7


@pytest.mark.parametrize("n", [1, 2, 3, 9, 19, 20, 21, 33, 34])
@pytest.mark.parametrize("mean", MEANS)
def test_few_rows(n, mean):
    X, y = wavy(n)
    model = fit((X, y), mean=mean, max_iter=5)
    predicted, std = model.predict(NEW, return_std=True)
    assert np.all(np.isfinite(predicted))
    assert np.all(std > 0.0)


def test_a_constant_y():
    X = wavy(50)[0]
    model = fit((X, np.full(50, 4.0)), max_iter=50)
    assert_allclose(model.predict(X), 4.0, atol=0.3)


@pytest.mark.parametrize("layers", [(), 5, [3], (4, 3, 2), np.array([6, 2])])
def test_layers(rows, layers):
    model = fit(rows, hidden_layer_sizes=layers, max_iter=3)
    expected = tuple(np.atleast_1d(np.asarray(layers, dtype=int)))
    assert model.posterior_.mean.function.network.sizes == (2, *expected, 1)


def test_rectified_units(rows):
    assert fit(rows, activation="relu", max_iter=100).score(*rows) > 0.5


# ---- What is refused, and what is said ---------------------------------------


@pytest.mark.parametrize("layers", [(0,), (2.5,), (3, -1), "ten"])
def test_layers_without_units(rows, layers):
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        fit(rows, hidden_layer_sizes=layers)


@pytest.mark.parametrize(
    "level", [np.nan, np.inf, lambda X: np.log(X[:, 0] * 0.0 - 1.0)]
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_prior_mean_that_is_not_finite(rows, level):
    with pytest.raises(ValueError, match="prior_mean must be finite"):
        fit(rows, prior_mean=level)


PERIODIC = ExpSineSquared(1.0, 2.0)


@pytest.mark.parametrize("kernel", [PERIODIC, 2.0 * PERIODIC * PERIODIC])
def test_a_periodic_kernel_around_a_network_is_told(kernel):
    X, y = wavy(40)
    rows = X[:, :1], y
    with pytest.warns(UserWarning, match="is periodic and the mean is not"):
        model = fit(rows, kernel=kernel, max_iter=3, tempering=None)
    # ten periods away the std is that at the data
    near, far = rows[0][:1], rows[0][:1] + 20.0
    stds = [model.predict(x, return_std=True)[1][0] for x in (near, far)]
    assert_allclose(stds[1], stds[0], rtol=1e-6)
    quiet = (kernel * RBF(3.0), "net"), (kernel, "svgp"), (ConstantKernel(1.0), "net")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, mean in quiet:
            fit(rows, kernel=one, mean=mean, max_iter=3)


class StopAfter:
    """Stop after some rounds."""

    def __init__(self, rounds):
        self.rounds, self.seen = rounds, []

    def setup(self, estimator, context):
        self.seen = []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.max_subtasks != 0:
            return False
        self.seen.append(fitted_estimator.n_iter_)
        assert np.all(np.isfinite(fitted_estimator.predict(NEW)))
        return len(self.seen) == self.rounds


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="scikit-learn has callbacks since 1.9",
)
def test_a_callback_stops_the_training(rows):
    stop, settings = StopAfter(3), BRIEF | {"max_iter": 100, "mean": "net"}
    settings["early_stopping"] = False
    model = GWIRegressor(**settings).set_callbacks(stop).fit(*rows)
    assert stop.seen == [2, 4, 6]
    assert model.n_iter_ == len(model.loss_curve_) == 6
    # what a callback looks at does not change what comes after it
    watched = GWIRegressor(**settings).set_callbacks(StopAfter(1000)).fit(*rows)
    plain = GWIRegressor(**settings).fit(*rows)
    assert_array_equal(watched.predict(NEW), plain.predict(NEW))
