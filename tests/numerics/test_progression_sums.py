import numpy as np
import pytest
from scipy.special import zeta

from skgpx._numerics.special_functions import exponential_sum, power_sum


@pytest.mark.parametrize("s", [1.2, 2.0, 7.0])
@pytest.mark.parametrize(("start", "step"), [(1.0, 1.0), (31.0, 1.0), (12.5, 2.0)])
def test_power_sums_and_their_derivative(s, start, step):
    def total(s):
        return power_sum(s, start, step)[0]

    value, weighted = power_sum(s, start, step)
    assert value == pytest.approx(step**-s * zeta(s, start / step), rel=1e-14)
    h = 1e-4
    slope = (
        8 * (total(s + h) - total(s - h)) - total(s + 2 * h) + total(s - 2 * h)
    ) / (12 * h)
    assert weighted == pytest.approx(-slope, rel=1e-9)


@pytest.mark.parametrize(
    ("d", "rate"), [(1, 0.02), (1, 0.7), (2, 0.07), (2, 0.7), (3, 0.3), (3, 2.0)]
)
def test_exponential_sums(d, rate):
    # far enough that nothing is left
    x = 3.0 + 2.0 * np.arange(int((45 / rate) ** d / 2))
    u = rate * x ** (1 / d)
    value, weighted = exponential_sum(rate, d, 3.0, 2.0)
    assert value == pytest.approx(np.sum(np.exp(-u)), rel=1e-11)
    assert weighted == pytest.approx(np.sum(u * np.exp(-u)), rel=1e-11)


def test_exponential_sum_is_geometric_in_one_dimension():
    value, _ = exponential_sum(0.3, 1, 31.0, 1.0)
    assert value == pytest.approx(np.exp(-9.3) / -np.expm1(-0.3), rel=1e-13)
