"""svgd: points follow any density, and what it refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skgpx import svgd


def normal_score(mean, covariance):
    precision = np.linalg.inv(covariance)
    return lambda x: (mean - x) @ precision


def mixture_score(x):
    """Of half N(-2, 1/4) and half N(2, 1/4)."""
    parts = np.exp(-2.0 * (x - 2.0) ** 2), np.exp(-2.0 * (x + 2.0) ** 2)
    slope = -4.0 * ((x - 2.0) * parts[0] + (x + 2.0) * parts[1])
    return slope / (parts[0] + parts[1])


def start(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_points_have_the_moments_of_a_normal_density():
    mean = np.array([3.0, -1.0])
    covariance = np.array([[2.0, 0.9], [0.9, 0.8]])
    moved = svgd(normal_score(mean, covariance), start(60, 2))
    assert_allclose(moved.mean(axis=0), mean, atol=0.01)
    assert_allclose(np.cov(moved.T), covariance, rtol=0.1)


def test_points_have_the_moments_of_two_modes():
    grid = norm.ppf((np.arange(40) + 0.5) / 40)[:, np.newaxis]
    moved = svgd(mixture_score, 2.0 * grid, bandwidth=0.5)
    assert abs(moved.mean()) < 1e-6
    assert np.mean(moved**2) == pytest.approx(4.25, rel=0.02)
    right = moved[moved > 0.0]
    assert len(right) == 20
    assert right.mean() == pytest.approx(2.0, abs=0.03)
    assert right.std() == pytest.approx(0.5, rel=0.15)


def test_coordinates_have_units_and_an_order_of_points_does_not_matter():
    units = np.array([100.0, 0.01])
    points, order = start(20, 2), np.random.default_rng(1).permutation(20)
    plain = svgd(lambda x: -x, points, n_steps=60)
    wide = svgd(
        lambda x: -x / units**2, units * points, n_steps=60, learning_rate=0.1 * units
    )
    assert_allclose(wide, units * plain, rtol=1e-4, atol=1e-6 * units.max())
    other = svgd(lambda x: -x, points[order], n_steps=60)
    assert_allclose(other, plain[order], rtol=1e-6, atol=1e-8)


def test_no_mirror_images_unless_they_are_asked_for():
    # mirror images would not move with the origin
    plain = svgd(lambda x: -x, start(6, 2), n_steps=50)
    moved = svgd(lambda x: 3.0 - x, 3.0 + start(6, 2), n_steps=50)
    assert_allclose(moved, 3.0 + plain, rtol=1e-8)
    both = svgd(lambda x: -x, start(10, 2), antithetic=True, n_steps=200)
    pool = np.concatenate((both, -both))
    # the same points as with the mirror images written out
    twice = svgd(
        lambda x: -x, np.concatenate((start(10, 2), -start(10, 2))), n_steps=200
    )
    assert_allclose(twice, pool, atol=1e-6)


def test_without_repulsion_points_climb_to_the_mode():
    moved = svgd(lambda x: 1.0 - x, start(8, 1), repulsion=0.0, bandwidth=1.0)
    assert_allclose(moved, 1.0, atol=0.1)


def test_nothing_that_was_passed_is_changed_and_a_callback_may_stop():
    points, seen = start(5, 2), []
    kept = points.copy()

    def callback(step, x):
        seen.append((step, x.copy()))
        x[:] = np.nan
        # a Boolean of NumPy, as comparisons of arrays give it
        return np.all(step == 3)

    moved = svgd(lambda x: -x, points, callback=callback)
    assert_array_equal(points, kept)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert_array_equal(moved, seen[-1][1])
    assert_array_equal(svgd(lambda x: -x, points, n_steps=0), kept)


@pytest.mark.parametrize(
    ("score", "points", "given", "named"),
    [
        (lambda x: -x, [1.0, 2.0], {}, "points must have shape"),
        (lambda x: -x, np.empty((0, 2)), {}, "points must have shape"),
        (lambda x: -x, [[np.nan]], {}, "points must be finite"),
        (lambda x: -x[:, 0], start(3, 1), {}, "got shape \\(3,\\)"),
        (lambda x: x / 0.0, start(3, 1), {}, "at 3 of 3 points"),
        (lambda x: -x, start(3, 2), {"bandwidth": [1.0] * 3}, "bandwidth must be"),
        (lambda x: -x, start(3, 2), {"learning_rate": [1.0, 0.0]}, "learning_rate"),
        (lambda x: -x, start(3, 2), {"n_steps": -1}, "n_steps"),
        (lambda x: -x, start(3, 2), {"repulsion": -1.0}, "repulsion"),
        (3.0, start(3, 2), {}, "score"),
        (lambda x: -x, start(3, 2), {"bandwidth": 1e-200}, "bandwidth must be"),
        (lambda x: -x, start(3, 2), {"bandwidth": [1.0, 1e200]}, "bandwidth must be"),
        (lambda x: -1e200 * x, start(3, 2), {}, "largest value of score"),
        (lambda x: -x, start(3, 2), {"repulsion": 1e250}, "Step 1 left the range"),
    ],
)
def test_what_is_refused(score, points, given, named):
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match=named):
        svgd(score, points, **given)
