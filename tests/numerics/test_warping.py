"""Box and Cox's and Yeo and Johnson's functions: inverses, slopes, limits."""

import numpy as np
import pytest
from scipy.stats import yeojohnson

from skgpx._numerics.warping import POWER_BOUNDS, TRANSFORMS, Warp

POWERS = (0.0, 1e-9, 1e-3, 0.3, 1.0, 1.7, 2.0)


def targets(transform):
    rng = np.random.default_rng(0)
    if transform == "box-cox":
        return np.exp(1.5 * rng.standard_normal(200))
    return 3.0 + 2.0 * rng.standard_t(3, 200)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("power", POWERS)
def test_inverse_and_slopes(transform, power):
    y = targets(transform)
    identity = Warp.of(transform, y, np.ones(len(y)))
    np.testing.assert_allclose(identity.forward(y), y, rtol=1e-12)
    warp = identity.at(power)
    np.testing.assert_allclose(warp.inverse(warp.forward(y)), y, rtol=1e-9)
    # g' and its logarithm
    h = 1e-6 * (1.0 + np.abs(y - warp.location))
    rise = warp.forward(y + h) - warp.forward(y - h)
    np.testing.assert_allclose(np.log(rise / (2.0 * h)), warp.log_slope(y), atol=1e-4)
    # slope one, and the value y, in the middle of the data
    middle = warp.location + (transform == "box-cox") * warp.unit
    assert warp.forward(middle) == pytest.approx(middle)
    assert warp.log_slope(middle) == pytest.approx(0.0)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("power", POWERS)
def test_slopes_in_the_power(transform, power):
    y = targets(transform)
    warp = Warp.of(transform, y, np.ones(len(y)))
    h = 1e-6
    centre = np.clip(power, h, 2.0 - h)
    slope, slope_of_log_slope = warp.at(power).power_slopes(y)
    for function, expected in (
        ("forward", slope),
        ("log_slope", slope_of_log_slope),
    ):
        above = getattr(warp.at(centre + h), function)(y)
        below = getattr(warp.at(centre - h), function)(y)
        difference = (above - below) / (2.0 * h)
        np.testing.assert_allclose(difference, expected, rtol=1e-4, atol=1e-5)


def test_yeo_johnson_is_that_of_scipy():
    y = targets("yeo-johnson")
    for power in POWERS:
        ours = Warp("yeo-johnson", 0.0, 1.0, power).forward(y)
        np.testing.assert_allclose(ours, yeojohnson(y, power), rtol=1e-10)


def test_values_beyond_the_range():
    """No NaN: below the range of Box and Cox's function y is zero."""
    z = np.array([-1e6, -5.0, 0.0, 5.0, 300.0])
    for transform in TRANSFORMS:
        for power in np.linspace(*POWER_BOUNDS, 9):
            y = Warp(transform, 0.0, 1.0, power).inverse(z)
            assert np.all(np.isfinite(y))
            assert np.all(np.diff(y) >= 0.0)
    assert Warp("box-cox", 0.0, 1.0, 0.5).inverse(-5.0) == 0.0


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("power", POWERS)
def test_straight_lines_beyond_the_rows(transform, power):
    """From one range beyond the rows, with the slope that g has there."""
    y = targets(transform)
    warp = Warp.of(transform, y, np.ones(len(y))).at(power)
    ends = [y.max() + np.ptp(y)]
    if transform == "yeo-johnson":
        ends.append(y.min() - np.ptp(y))
    for end in ends:
        beyond = end + np.sign(end - y.mean()) * np.array([0.0, 1.0, 50.0, 1e6])
        slopes = np.diff(warp.forward(beyond)) / np.diff(beyond)
        np.testing.assert_allclose(slopes, np.exp(warp.log_slope(end)), rtol=1e-6)
        np.testing.assert_allclose(warp.log_slope(beyond), warp.log_slope(end))
        np.testing.assert_allclose(
            warp.inverse(warp.forward(beyond)), beyond, rtol=1e-9
        )
        # no step of the slope
        near = end + 1e-6 * np.ptp(y) * np.array([-1.0, 1.0])
        assert np.ptp(warp.log_slope(near)) < 1e-4
