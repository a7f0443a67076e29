"""Monotone functions of y: inverses, slopes, limits."""

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
    for skewness in skewnesses(transform):
        warp = identity.at(power, skewness)
        np.testing.assert_allclose(warp.inverse(warp.forward(y)), y, rtol=1e-9)
        # g' and its logarithm
        h = 1e-6 * (1.0 + np.abs(y - warp.location))
        rise = warp.forward(y + h) - warp.forward(y - h)
        log_slope = np.log(rise / (2.0 * h))
        np.testing.assert_allclose(log_slope, warp.log_slope(y), atol=1e-4)
        # slope one, and the value y, in the middle of the data
        middle = warp.location + (transform == "box-cox") * warp.unit
        assert warp.forward(middle) == pytest.approx(middle)
        assert warp.log_slope(middle) == pytest.approx(0.0)


def skewnesses(transform):
    return (-0.6, 0.0, 0.9) if transform == "sinh-arcsinh" else (0.0,)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("power", POWERS)
def test_slopes_in_the_shape(transform, power):
    y = targets(transform)
    warp = Warp.of(transform, y, np.ones(len(y)))
    h = 1e-6
    centre = np.clip(power, h, 2.0 - h)
    for skewness in skewnesses(transform):
        slopes, slopes_of_log_slope = warp.at(power, skewness).shape_slopes(y)
        steps = [((0.0, h), 1)]
        if transform == "sinh-arcsinh":
            steps.append(((h, 0.0), 0))
        for (in_skewness, in_power), parameter in steps:
            above = warp.at(centre + in_power, skewness + in_skewness)
            below = warp.at(centre - in_power, skewness - in_skewness)
            for function, expected in (
                ("forward", slopes[parameter]),
                ("log_slope", slopes_of_log_slope[parameter]),
            ):
                rise = getattr(above, function)(y) - getattr(below, function)(y)
                difference = rise / (2.0 * h)
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
