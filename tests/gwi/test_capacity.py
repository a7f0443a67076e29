"""A sparse mean takes the points that its kernel needs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skgpx import GWIRegressor
from skgpx._gwi import _sections
from skgpx._gwi._sparse_mean import SparseFit


@pytest.fixture(scope="module")
def cycles():
    """Fifty cycles at 320 of 480 rows, noise .2."""
    rng = np.random.default_rng(0)
    t = np.arange(480.0)[:, np.newaxis]
    f = np.sin(2.0 * np.pi * t[:, 0] / 9.6)
    train = np.sort(rng.permutation(480)[:320])
    rest = np.setdiff1d(np.arange(480), train)
    return t, f, f + 0.2 * rng.standard_normal(480), train, rest


def _points(model, cycles):
    t, _, y, train, _ = cycles
    return len(model.fit(t[train], y[train]).inducing_points_)


def test_fifty_cycles_are_not_noise(cycles):
    t, f, _, _, rest = cycles
    model = GWIRegressor(mean="svgp", random_state=0)
    # 3 sqrt(320) points left a mean square of .9
    assert _points(model, cycles) > 54
    assert np.mean((model.predict(t[rest]) - f[rest]) ** 2) < 0.1
    assert np.sqrt(model.noise_variance_) < 0.4


def test_a_given_number_is_kept_and_told(cycles):
    model = GWIRegressor(mean="svgp", n_inducing=54, random_state=0)
    with pytest.warns(UserWarning, match="misses structure of y"):
        assert _points(model, cycles) == 54


def test_the_limits_at_which_points_are_added(cycles, monkeypatch):
    fits, of = [], SparseFit.of

    def told(*args):
        fits.append(of(*args))
        return fits[-1]

    monkeypatch.setattr(SparseFit, "of", told)
    assert _points(GWIRegressor(mean="svgp", random_state=0), cycles) > 54
    few, more = fits[:2]
    ratio, tiny = more.error / few.error, 1e-9
    for name, limit, grows in (
        ("_WORTH_GROWING", few.unexplained - tiny, True),
        ("_WORTH_GROWING", few.unexplained, False),
        ("_WORTH_GROWING", few.unexplained + tiny, False),
        ("_GAIN", ratio - tiny, False),
        ("_GAIN", ratio + tiny, True),
    ):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            # that few points miss it
            warnings.simplefilter("ignore", UserWarning)
            patch.setattr(_sections, name, limit)
            found = _points(GWIRegressor(mean="svgp", random_state=0), cycles)
        assert (found > 54) is grows, (name, limit)


def test_the_most_points(cycles, monkeypatch):
    monkeypatch.setattr(_sections, "_MOST_INDUCING", 120)
    monkeypatch.setattr(_sections, "_MANY_INDUCING", 120)
    assert _points(GWIRegressor(mean="svgp", random_state=0), cycles) == 120
