"""Structure that few inducing points cannot follow is seen by an exact process."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skgpx import PLSClassifier, PLSRegressor
from skgpx._hyperparameters import _overlooked
from skgpx._hyperparameters._overlooked import overlooked
from skgpx._pls._chains import affordable_inducing
from skgpx._validation import Rows
from skgpx.kernels import default_kernel
from skgpx.likelihoods import Poisson, StudentT


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
        likelihood=Poisson(), warm_start=True, random_state=1, n_particles=10
    )
    points = len(model.fit(t[train], y[train]).inducing_points_)
    assert points > 100
    assert len(model.fit(t[train], y[train]).inducing_points_) > 100
    assert _share_of_error(model, t, rate, rest) < 0.5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_gain_that_asks_again(monkeypatch):
    t, f, train, _, rng = _series(30, n=480)
    y = rng.poisson(np.exp(2.5 + f))
    gains = []
    shorter, at_lengths = _overlooked._shorter, _overlooked._at_lengths

    def told(function, sign):
        def call(*args):
            found = function(*args)
            gains.append(sign * found.evidence)
            return found

        return call

    monkeypatch.setattr(_overlooked, "_shorter", told(shorter, 1.0))
    monkeypatch.setattr(_overlooked, "_at_lengths", told(at_lengths, -1.0))

    def points():
        model = PLSRegressor(likelihood=Poisson(), random_state=0, n_particles=10)
        return len(model.fit(t[train], y[train]).inducing_points_)

    assert points() > 100
    gain = sum(gains)
    assert gain > _overlooked._LEAST_GAIN
    for least, more in ((gain - 1e-6, True), (gain, True), (gain + 1e-6, False)):
        monkeypatch.setattr(_overlooked, "_LEAST_GAIN", least)
        assert (points() > 100) is more


def test_nothing_is_overlooked_where_the_lengthscale_is_right():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(200, 2))
    y = rng.poisson(np.exp(2.0 + np.sin(6.0 * X[:, 0]))).astype(float)
    rows, weights = Rows(X, y, np.ones(200)), np.ones(200)
    likelihood = Poisson().prepare(y, weights)
    kernel = default_kernel(X)
    right = kernel.clone_with_theta(np.log([1.0, 0.25, 100.0]))
    assert overlooked(rows, likelihood, right, 100, rng) is None
    assert overlooked(rows, likelihood, right, 2, rng).too_few
    wrong = kernel.clone_with_theta(np.log([1.0, 100.0, 100.0]))
    missed = overlooked(rows, likelihood, wrong, 100, rng)
    assert missed is not None
    assert 0.1 < np.exp(missed.log_length) < 3.0
    assert missed.n_inducing < 100


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
