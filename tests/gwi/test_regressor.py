"""Regression around networks and in the basis of the covariance."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.linear_model import Ridge

from skgpx import GWIRegressor, PLSRegressor
from skgpx._gwi._process import fit_process, leave_one_out
from skgpx._hyperparameters import _sparse
from skgpx._shell.validation import Rows
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian

# A fixed prior, and few epochs.
FIXED = {"kernel": RBF([1.0, 1.5]), "optimizer": None, "noise_variance": 0.05}
BRIEF = {**FIXED, "n_estimators": 2, "max_iter": 20, "random_state": 0}


def wavy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = 3.0 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y


@pytest.fixture(scope="module")
def rows():
    return wavy(160)


NEW = np.random.default_rng(9).normal(size=(25, 2))
# networks that are hardly trained
pytestmark = [
    pytest.mark.filterwarnings("ignore:At held-out rows"),
]
MEANS = ("net", "svgp")
means = pytest.mark.parametrize("mean", MEANS)


def fit(rows, **given):
    return GWIRegressor(**({"mean": "net"} | BRIEF | given)).fit(*rows)


# ---- The model -----------------------------------------------------------------------


def test_the_closed_form_is_sparse_regression(rows):
    X, y = rows
    model = fit(rows, mean="svgp", n_inducing=20)
    sparse = PLSRegressor(
        FIXED["kernel"],
        optimizer=None,
        inducing=model.inducing_points_,
        likelihood=Gaussian(FIXED["noise_variance"]),
    ).fit(X, y)
    how = {"return_std": True, "include_noise": False}
    assert_allclose(model.predict(NEW, **how), sparse.predict(NEW, **how), rtol=1e-8)


@means
def test_variances_are_those_of_a_process(rows, mean):
    model = fit(rows, mean=mean, n_inducing=12, max_iter=3)
    points = np.concatenate([model.inducing_points_, rows[0][:20], NEW])
    variance = model.posterior_.marginals(points).moments()[1][:, 0]
    assert np.all(variance >= 0.0)
    covariance = model.predict(points, return_cov=True, include_noise=False)[1]
    assert_allclose(np.diagonal(covariance), variance, rtol=1e-8, atol=1e-10)
    assert np.min(np.linalg.eigvalsh(covariance)) > -1e-8


def test_leave_one_out_moments_are_those_of_fits_without_a_row():
    X, y = wavy(30)
    rows = Rows(X, (y - y.mean()) / y.std(), np.ones(30))
    process = fit_process(
        GWIRegressor(kernel=RBF(1.0), optimizer=None),
        rows,
        Gaussian(0.3).prepare(rows.y, rows.weights),
        np.random.default_rng(0),
        n_inducing=30,
        noise_variance=0.3,
    )
    errors, variance = leave_one_out(process, rows)
    for i in (0, 7, 29):
        others = np.arange(30) != i
        exact = GaussianProcessRegressor(RBF(1.0), alpha=0.3, optimizer=None)
        exact.fit(X[others], rows.y[others])
        mean, std = exact.predict(X[i : i + 1], return_std=True)
        assert_allclose(errors[i], rows.y[i] - mean[0], rtol=1e-6)
        assert_allclose(variance[i], std[0] ** 2, rtol=1e-5)


# ---- Averaged hyperparameters --------------------------------------------------------


@pytest.fixture(scope="module")
def few():
    return wavy(40)


@pytest.fixture(scope="module")
def averaged(few):
    return GWIRegressor("svgp", calibrate=False, random_state=0).fit(*few)


def test_an_averaged_process_is_the_mixture_of_its_states(few, averaged):
    X, y = few
    states = averaged.hyperparameter_states_
    assert len(states) == len(averaged.posterior_.models) > 1
    mean, std = averaged.predict(NEW, return_std=True)
    shift, scale = y.mean(), y.std()
    means, variances = [], []
    for state in states:
        noise = float(state.likelihood.variance(0.0)) / scale**2
        exact = GaussianProcessRegressor(state.kernel, alpha=noise, optimizer=None)
        exact.fit(X, (y - shift) / scale)
        mean_of_state, std_of_state = exact.predict(NEW, return_std=True)
        means.append(shift + scale * mean_of_state)
        variances.append(scale**2 * (std_of_state**2 + noise))
    weights = [state.weight for state in states]
    expected = np.average(means, axis=0, weights=weights)
    total = np.average(variances + (means - expected) ** 2, axis=0, weights=weights)
    assert_allclose(mean, expected, rtol=1e-3, atol=1e-3)
    assert_allclose(std**2, total, rtol=2e-3)
    noises = [float(state.likelihood.variance(0.0)) for state in states]
    assert_allclose(averaged.noise_variance_, np.average(noises, weights=weights))


def test_leave_one_out_moments_of_states_are_those_of_their_mixture(few):
    X, y = few
    rows = Rows(X, (y - y.mean()) / y.std(), np.ones(40))
    process = fit_process(
        GWIRegressor(),
        rows,
        Gaussian().prepare(rows.y, rows.weights),
        np.random.default_rng(0),
        n_inducing=None,
        noise_variance=None,
        hyperparameters="average",
    )
    errors, variance = leave_one_out(process, rows)
    others = np.arange(40) != 7
    means, variances, densities = [], [], []
    for state in process.averaged:
        noise = float(state.likelihood.variance(0.0))
        exact = GaussianProcessRegressor(state.kernel, alpha=noise, optimizer=None)
        exact.fit(X[others], rows.y[others])
        mean, std = exact.predict(X[7:8], return_std=True)
        means.append(mean[0])
        variances.append(std[0] ** 2)
        total = np.sqrt(std[0] ** 2 + noise)
        densities.append(norm.pdf(rows.y[7], mean[0], total))
    # what the other rows say of the states
    weights = process.model.weights / densities
    weights = weights / weights.sum()
    mean = weights @ means
    assert_allclose(errors[7], rows.y[7] - mean, rtol=5e-3)
    expected = weights @ (variances + (means - mean) ** 2)
    assert_allclose(variance[7], expected, rtol=5e-3)


def test_another_mean_has_the_covariances_of_the_states(few, averaged):
    X, y = few
    model = GWIRegressor(Ridge(), random_state=0).fit(X, y)
    parts = model.posterior_.models
    assert len(parts) > 1
    ridge = Ridge().fit(X, y)
    # the mean is that of the mixture, and of each component
    means = model.posterior_.marginals(NEW).mean[:, 0]
    assert means.shape[1] == len(parts)
    for mean in means.T:
        assert_allclose(mean, ridge.predict(NEW), rtol=1e-8)
    assert_allclose(model.predict(NEW), ridge.predict(NEW), rtol=1e-8)
    # a straight line needs more noise than the process, the same in every state
    states = model.hyperparameter_states_
    noises = np.array([float(state.likelihood.variance(0.0)) for state in states])
    assert model.noise_variance_ > averaged.noise_variance_
    assert_allclose(model.posterior_.weights @ noises, model.noise_variance_)
    assert np.all(noises > 0.5 * model.noise_variance_)


def test_a_state_is_chosen_for_other_noise_and_for_several_targets(few):
    X, y = few
    for model, target in (
        (GWIRegressor("svgp", likelihood="student_t"), y),
        (GWIRegressor("svgp", hyperparameters="maximise"), y),
        (GWIRegressor("svgp"), np.column_stack((y, -y))),
    ):
        model.fit(X, target)
        assert model.hyperparameter_states_ == ()
        assert not hasattr(model.posterior_, "models")


# ---- What the default predicts -------------------------------------------------------


def test_a_default_fit_is_near_the_noise():
    X, y = wavy(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GWIRegressor(random_state=0).fit(X, y)
    X_new, y_new = wavy(1000, seed=1)
    mean, std = model.predict(X_new, return_std=True)
    assert np.sqrt(np.mean((y_new - mean) ** 2)) < 0.22
    assert abs(np.mean(np.abs(y_new - mean) < 1.96 * std) - 0.95) < 0.03
    assert list(model.stage_seconds_) == ["process", "mean", "calibration"]
    assert 1 <= model.n_iter_ <= len(model.loss_curve_)
    assert model.findings_ == ()


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    f = np.sin(20.0 * X[:, 0]) + X[:, 1] * np.cos(9.0 * X[:, 2])
    return X, f, f + 0.1 * rng.standard_normal(n)


def test_noise_is_that_of_the_rows_where_points_do_not_follow_them(monkeypatch, rng):
    """The exact evidence of the search knows functions that fewer points leave out."""
    monkeypatch.setattr(_sparse, "MAX_INDUCING", 40)
    X = rng.uniform(size=(300, 2))
    K = Matern([0.3, 0.3], nu=0.5)(X) + 1e-8 * np.eye(300)
    f = np.linalg.cholesky(K) @ rng.standard_normal(300)
    model = GWIRegressor(mean="svgp", random_state=0).fit(X[:200], f[:200])
    assert len(model.inducing_points_) == 40
    squares = (f[:200] - model.predict(X[:200])) ** 2
    # calibration alone has six times as much
    assert 0.5 < model.noise_variance_ / np.mean(squares) < 2.0
    mean, std = model.predict(X[200:], return_std=True)
    scores = (f[200:] - mean) / std
    assert 0.45 < np.sqrt(np.mean(scores**2)) < 1.0


def test_more_rows_make_the_default_better():
    X_new, f_new, _ = mixed(1000, 1)
    errors = []
    for n in (150, 800):
        X, _, y = mixed(n, 0)
        model = GWIRegressor(random_state=0).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(X_new) - f_new) ** 2)))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.filterwarnings("ignore:The residuals have heavy tails")
def test_a_few_rows_without_large_errors_do_not_shrink_heavy_tails():
    rng = np.random.default_rng(3)
    scores = []
    for _ in range(3):
        X = rng.normal(size=(1250, 6))
        y = X[:, 0] + np.sin(X[:, 1]) + 0.15 * rng.standard_t(2.2, 1250)
        model = GWIRegressor("net", max_iter=300, random_state=0).fit(X[:250], y[:250])
        mean, std = model.predict(X[250:], return_std=True)
        z = (y[250:] - mean) / std
        assert np.mean(np.abs(z) < 1.96) > 0.88
        scores.append(np.mean(z**2) / 2.0 + np.mean(np.log(std)))
    assert np.median(scores) < 0.2


def test_noise_has_no_structure():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(300, 3)), rng.standard_normal(300)
    model = GWIRegressor(random_state=0)
    with pytest.warns(FitWarning, match="No dependence"):
        model.fit(X, y)
    assert np.std(model.predict(rng.uniform(size=(300, 3)))) < 0.25


# ---- The fit -------------------------------------------------------------------------


@means
def test_weights_are_repetitions_and_order_and_workers_are_nothing(rows, mean):
    X, y = rows
    weights = np.arange(len(y)) % 3
    order = np.random.default_rng(0).permutation(len(y))
    weighted = GWIRegressor(mean, **BRIEF).fit(X, y, sample_weight=weights)
    again = np.repeat(order, weights[order])
    repeated = GWIRegressor(mean, **BRIEF).fit(X[again], y[again])
    assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-12)
    assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-12)
    one, two = (fit(rows, mean=mean, n_jobs=n) for n in (1, 2))
    how = {"return_std": True}
    assert_array_equal(one.predict(NEW, **how), two.predict(NEW, **how))


def test_units_of_y(rows):
    X, y = rows
    one = fit(rows)
    other = fit((X, 1e3 * y - 5.0), noise_variance=FIXED["noise_variance"] * 1e6)
    mean, std = one.predict(NEW, return_std=True)
    assert_allclose(other.predict(NEW), 1e3 * mean - 5.0, rtol=1e-6)
    assert_allclose(other.predict(NEW, return_std=True)[1], 1e3 * std, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 19, 20, 21])
@pytest.mark.parametrize("mean", [*MEANS, "auto", DummyRegressor()])
def test_few_rows(n, mean):
    model = fit(wavy(n), mean=mean, max_iter=5)
    predicted, std = model.predict(NEW, return_std=True)
    assert np.all(np.isfinite(predicted))
    assert np.all(std > 0.0)


def test_layers(rows):
    for layers in [(), 5, [3], (4, 3, 2), np.array([6, 2])]:
        model = fit(rows, hidden_layer_sizes=layers, max_iter=3)
        expected = tuple(np.atleast_1d(np.asarray(layers, dtype=int)))
        sizes = tuple(model.posterior_.mean.function.network.sizes)
        assert sizes == (2, *expected, 1)


@pytest.mark.parametrize("mean", ["net", Ridge()])
def test_variances_of_a_function_without_noise_are_those_of_the_errors(mean):
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.exp(-X[:, 0]) * np.cos(3.0 * X[:, 1])
    model = GWIRegressor(mean, max_iter=50, random_state=0).fit(X[:150], y[:150])
    errors = y[150:] - model.predict(X[150:])
    std = model.predict(X[150:], return_std=True)[1]
    assert np.median(std) < 3.0 * np.sqrt(np.mean(errors**2))


@pytest.mark.parametrize("mean", ["auto", "net", "svgp", Ridge()])
def test_constant_targets(mean):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = GWIRegressor(mean, max_iter=20, random_state=0).fit(X, np.full(60, 3.0))
    assert_allclose(model.predict(X), 3.0, atol=0.2)
    assert model.findings_ == ()


def test_predictions_without_calibration_are_those_of_the_evidence(rows):
    given = {"mean": "svgp", "noise_variance": None, "optimizer": "evidence"}
    plain = fit(rows, **given, calibrate=False, n_inducing=15)
    assert plain.variance_scale_ == 1.0
    sparse = PLSRegressor(
        plain.kernel_,
        optimizer=None,
        inducing=plain.inducing_points_,
        likelihood=Gaussian(plain.noise_variance_),
    ).fit(*rows)
    ours, theirs = (m.predict(NEW, return_std=True) for m in (plain, sparse))
    assert_allclose(ours, theirs, rtol=1e-6)
    # a line misses the wave
    given["mean"] = Ridge()
    around, calibrated = (
        fit(rows, **given, calibrate=choice, n_inducing=15) for choice in (False, True)
    )
    assert_allclose(around.noise_variance_, plain.noise_variance_, rtol=1e-6)
    assert calibrated.noise_variance_ > 1.2 * around.noise_variance_


@pytest.mark.parametrize("inducing", ["random", "m-dpp"])
@pytest.mark.parametrize("n_inducing", [15, "auto"])
def test_inducing_points_may_be_random_rows(rows, inducing, n_inducing):
    given = {"mean": "svgp", "n_inducing": n_inducing}
    model = fit(rows, **given, inducing=inducing)
    points = model.inducing_points_
    assert {tuple(point) for point in points} <= {tuple(row) for row in rows[0]}
    greedy = fit(rows, **given).inducing_points_
    assert not np.array_equal(points, greedy)
    again = fit(rows, **given, inducing=inducing, n_jobs=2)
    assert_array_equal(points, again.inducing_points_)
