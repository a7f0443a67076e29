"""Functions that few inducing points cannot follow get the points they need."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import scale

from skgpx import PLSClassifier, PLSRegressor
from skgpx._pls._chains import affordable_inducing
from skgpx.likelihoods import Poisson, StudentT

KERNEL = ConstantKernel(0.5, "fixed") * RBF(2.0, "fixed")


def _counts(n_cycles, n, seed=0):
    """Two thirds of a series for training, its rates, and the other rows."""
    rng = np.random.default_rng(seed)
    t = np.arange(float(n))[:, np.newaxis]
    rate = np.exp(2.5 + np.sin(2.0 * np.pi * n_cycles * t[:, 0] / n))
    train = rng.permutation(n)[: 2 * n // 3]
    rest = np.setdiff1d(np.arange(n), train)
    return t[train], rng.poisson(rate[train]), t[rest], rate[rest]


def _fitted(X, y, kernel=KERNEL, **parameters):
    how = {"prior": "gp", "n_particles": 10, "random_state": 0} | parameters
    return PLSRegressor(kernel, likelihood=Poisson("exp"), **how).fit(X, y)


def _error(model, X, rate):
    return float(np.sqrt(np.mean((model.predict(X) - rate) ** 2)) / np.std(rate))


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        (KERNEL, {}),
        (ConstantKernel(0.5) * RBF(2.0), {"optimizer": None}),
        (ConstantKernel(0.5, "fixed") * RBF(2.5, "fixed"), {"prior": "gre"}),
        (ConstantKernel(1.0) * RBF(1.0, (0.1, 1e4)), {"prior": "gre"}),
        (ConstantKernel(1.0) * RBF(100.0, (0.1, 1e4)), {}),
    ],
    ids=["fixed", "no optimizer", "fixed gre", "gre", "smooth start"],
)
def test_kernels_of_the_user_follow_many_cycles(kernel, parameters):
    X, y, X_rest, rate = _counts(80, 960)
    model = _fitted(X, y, kernel, **parameters)
    # errors were .8 to 1.0: with 100 points, or lost in a smooth function
    assert _error(model, X_rest, rate) < 0.5
    assert len(model.inducing_points_) > 100


@pytest.mark.parametrize("kernel", [KERNEL, ConstantKernel(1.0) * RBF(1.0)])
def test_a_number_that_was_given_is_told(kernel):
    X, y, _, _ = _counts(60, 720)
    with pytest.warns(ConvergenceWarning, match="90 inducing points are too few"):
        model = _fitted(X, y, kernel, n_inducing=90)
    assert len(model.inducing_points_) == 90


def test_nothing_is_counted_where_points_serve(recwarn):
    X, y, _, _ = _counts(6, 300)
    kernel = ConstantKernel(0.5, "fixed") * RBF(12.0, "fixed")
    assert len(_fitted(X, y, kernel).inducing_points_) <= 100
    # a kernel that is far too short needs points that explain nothing
    rng = np.random.default_rng(0)
    short = ConstantKernel(0.1, "fixed") * RBF(0.01, "fixed")
    noise = rng.poisson(20.0, 200)
    assert len(_fitted(X, noise, short).inducing_points_) == 100
    assert not [one for one in recwarn if "too few" in str(one.message)]


def _series(n_cycles, n=720, seed=0):
    """Rows of a cycle, two thirds of them for training, and its logarithmic rate."""
    rng = np.random.default_rng(seed)
    t = np.arange(float(n))[:, np.newaxis]
    f = np.sin(2.0 * np.pi * n_cycles * t[:, 0] / n)
    train = rng.permutation(n)[: 2 * n // 3]
    rest = np.setdiff1d(np.arange(n), train)
    return t, f, train, rest, rng


def _share_of_error(model, t, truth, rest):
    """Root mean square error of the mean, in standard deviations of the truth."""
    error = model.predict(t[rest]) - truth[rest]
    return float(np.sqrt(np.mean(error**2)) / np.std(truth))


def test_counts_with_60_cycles_in_640_rows():
    t, f, train, rest, rng = _series(60, n=960)
    rate = np.exp(2.5 + f)
    y = rng.poisson(rate)
    model = PLSRegressor(likelihood=Poisson(), random_state=0).fit(t[train], y[train])
    # a constant has a share of one, and so had 100 inducing points
    assert _share_of_error(model, t, rate, rest) < 0.5
    assert len(model.inducing_points_) > 100


def test_heavy_tails_around_45_cycles():
    t, f, train, rest, rng = _series(45)
    y = f + 0.1 * rng.standard_t(3.0, size=len(f))
    model = PLSRegressor(likelihood=StudentT(df=3.0), random_state=0)
    model.fit(t[train], y[train])
    assert _share_of_error(model, t, f, rest) < 0.5


def test_two_classes_that_alternate():
    t, f, train, rest, _ = _series(30)
    labels = f > 0.0
    model = PLSClassifier(random_state=0).fit(t[train], labels[train])
    assert model.score(t[rest], labels[rest]) > 0.85


def test_a_number_of_points_that_was_given_is_kept():
    t, f, train, _, rng = _series(45)
    y = rng.poisson(np.exp(2.5 + f))
    model = PLSRegressor(likelihood=Poisson(), n_inducing=90, random_state=0)
    with pytest.warns(ConvergenceWarning, match="90 inducing points are too few"):
        model.fit(t[train], y[train])
    assert len(model.inducing_points_) == 90


def test_a_warm_start_keeps_what_was_found():
    t, f, train, rest, rng = _series(30, n=480)
    rate = np.exp(2.5 + f)
    y = rng.poisson(rate)
    model = PLSRegressor(
        likelihood=Poisson(), warm_start=True, random_state=1, n_particles=50
    )
    points = len(model.fit(t[train], y[train]).inducing_points_)
    assert points > 100
    assert len(model.fit(t[train], y[train]).inducing_points_) > 100
    assert _share_of_error(model, t, rate, rest) < 0.5


@pytest.mark.parametrize(
    ("n", "needed", "expected"),
    [
        (50, 400, 50),
        (900, 0, 100),
        (900, 101, 101),
        (40_000, 499, 500),
        (40_000, 501, 500),
        (10**6, 500, 100),
    ],
)
def test_points_that_are_needed_and_that_chains_can_afford(n, needed, expected):
    assert affordable_inducing(n, 1, 100, needed) == expected


def test_a_function_without_short_waves_keeps_its_points():
    """Of 30 columns points always leave much of the prior out, to no avail."""
    X, y = load_breast_cancer(return_X_y=True)
    model = PLSClassifier(random_state=0, n_particles=10).fit(scale(X), y)
    assert len(model.inducing_points_) == 100


def test_two_classes_on_a_checkerboard_need_more_points():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1200, 2))
    y = np.floor(6.0 * X).sum(axis=1) % 2
    model = PLSClassifier(random_state=0, n_particles=20).fit(X[:900], y[:900])
    assert len(model.inducing_points_) > 100
    assert model.score(X[900:], y[900:]) > 0.88
