"""Kernels of the user's get the points they need under counts, or it is told."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSRegressor
from skgpx._hyperparameters import _evidence, _overlooked, _points_needed
from skgpx._hyperparameters import _sparse_learner as learner
from skgpx._pls import _base
from skgpx.bases import Nystroem, select_inducing
from skgpx.likelihoods import Poisson

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


@pytest.fixture
def small():
    X, y, _, _ = _counts(45, 450)
    return X, y


def test_the_gain_for_which_more_are_taken(small, monkeypatch):
    found = []
    explained = _points_needed.explained

    def spied(*args):
        found.append(explained(*args))
        return found[-1]

    monkeypatch.setattr(_points_needed, "explained", spied)
    assert len(_fitted(*small).inducing_points_) > 100
    gain = found[1].evidence - found[0].evidence
    assert gain > _points_needed._LEAST_GAIN
    for least, more in ((gain - 1e-6, True), (gain, True), (gain + 1e-6, False)):
        monkeypatch.setattr(_points_needed, "_LEAST_GAIN", least)
        assert (len(_fitted(*small).inducing_points_) > 100) is more


def _share_left(X, m, kernel=KERNEL):
    """Share of the prior variance that greedy points leave at the rows."""
    Z = select_inducing("greedy", X, kernel, m, np.random.default_rng(0))
    basis = Nystroem.from_kernel(kernel, Z)
    left = np.mean(basis.residual_variance(X, basis(X)))
    return float(left / np.mean(kernel.diag(X)))


def test_the_share_that_may_be_left_out(small, monkeypatch):
    left = _share_left(small[0], 100)
    assert left > _points_needed._LEFT_OUT
    for share, more in ((left - 1e-6, True), (left, None), (left + 1e-6, False)):
        monkeypatch.setattr(_points_needed, "_LEFT_OUT", share)
        points = len(_fitted(*small).inducing_points_)
        # at the share itself rounding decides
        assert more is None or (points > 100) is more


def test_what_a_row_may_leave_open(small, monkeypatch):
    found = []
    explained = _points_needed.explained

    def spied(*args):
        found.append(explained(*args))
        return found[-1]

    monkeypatch.setattr(_points_needed, "explained", spied)
    m = len(_fitted(*small).inducing_points_)
    # in units of the prior variance
    noise = 2.0 * found[-1].noise_variance / 0.5
    assert _share_left(small[0], m) <= _points_needed._ENOUGH * noise
    monkeypatch.setattr(_points_needed, "_ENOUGH", 0.1)
    fewer = len(_fitted(*small).inducing_points_)
    assert fewer < m
    at = _share_left(small[0], fewer) / noise
    for enough, more in ((at - 1e-7, True), (at, None), (at + 1e-7, False)):
        monkeypatch.setattr(_points_needed, "_ENOUGH", enough)
        points = len(_fitted(*small).inducing_points_)
        # at the number itself rounding decides
        assert more is None or (points > fewer) is more


def _most(monkeypatch, value):
    for module in (_points_needed, _overlooked, _evidence, _base):
        monkeypatch.setattr(module, "MOST", value)


def test_the_most_points(small, monkeypatch):
    needed = len(_fitted(*small).inducing_points_)
    for most in (needed - 1, needed, needed + 1):
        _most(monkeypatch, most)
        assert len(_fitted(*small).inducing_points_) == min(most, needed)


def test_when_the_most_points_are_told(small, monkeypatch, recwarn):
    shares = [_share_left(small[0], m) for m in range(101, 180)]
    enough = 101 + int(np.argmax(np.array(shares) <= _points_needed._LEFT_OUT))
    for most in (enough - 1, enough, enough + 1):
        _most(monkeypatch, most)
        recwarn.clear()
        _fitted(*small)
        told = [str(one.message) for one in recwarn if "too few" in str(one.message)]
        assert bool(told) is (most < enough)
        if told:
            assert f"{most} inducing points are too few" in told[0]
            assert 'these are the most of n_inducing="auto"' in told[0]


def test_more_than_are_counted(small, monkeypatch, recwarn):
    _most(monkeypatch, 101)
    for counted in (140, 150):
        monkeypatch.setattr(_points_needed, "_COUNTED", counted)
        recwarn.clear()
        _fitted(*small)
        told = [str(one.message) for one in recwarn if "too few" in str(one.message)]
        assert f"n_inducing={counted} takes longer" in told[0]


def test_many_columns_are_not_searched_twice(monkeypatch):
    """No number of points follows 40 columns: a second search could not gain."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 40))
    y = rng.poisson(np.exp(1.0 + np.sin(X).sum(1) / 5.0))
    search_on, calls = learner._search_on, []

    def spied(*args):
        calls.append(args)
        return search_on(*args)

    monkeypatch.setattr(learner, "_search_on", spied)
    model = PLSRegressor(likelihood=Poisson("exp"), n_particles=10, random_state=0)
    assert len(model.fit(X, y).inducing_points_) == 100
    assert not calls
