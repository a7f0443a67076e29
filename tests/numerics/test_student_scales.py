import numpy as np
import pytest

from skgpx._numerics.normal_sums import (
    log_precisions,
    noise_around,
    noise_for_level,
)


@pytest.mark.parametrize("df", [0.3, 1.0, 4.0, 30.0, 1e3, 1e6])
def test_weights_sum_to_one_and_precisions_have_mean_one(df):
    x, log_weights = log_precisions(df, -200.0 if df < 1.0 else -60.0)
    weights = np.exp(log_weights)
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    assert weights @ np.exp(x) == pytest.approx(1.0, abs=1e-8)


def test_a_longer_lattice_holds_the_shorter():
    x, weights = log_precisions(4.0, -10.0)
    longer, more = log_precisions(4.0, -20.0)
    np.testing.assert_array_equal(longer[-len(x) :], x)
    np.testing.assert_array_equal(more[-len(x) :], weights)


def test_the_first_component_of_a_row_does_not_depend_on_the_others():
    near, far = np.array([1.0]), np.array([1e8])
    alone, first = noise_around(4.0, 1.0, near)
    both, firsts = noise_around(4.0, 1.0, np.concatenate([near, far]))
    assert alone.variance[first[0]] == both.variance[firsts[0]]
    assert firsts[1] < firsts[0]


def test_deeper_levels_take_wider_components():
    shallow, deep = (noise_for_level(4.0, 1.0, p) for p in (0.1, 1e-9))
    assert deep.variance.max() > shallow.variance.max()
