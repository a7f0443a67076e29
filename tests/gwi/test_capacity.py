"""A sparse mean takes the points that its kernel needs."""

from __future__ import annotations

import numpy as np
import pytest

from skgpx import GWIRegressor


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
