import numpy as np
import pytest

from skgpx import PLSRegressor
from skgpx.likelihoods import Gaussian


@pytest.mark.parametrize(("repeats", "rounded"), [(9, False), (10, True)])
def test_noise_is_no_smaller_than_rounding(repeats, rounded):
    y = np.repeat([1.0, 3.0, 5.0, 11.0], repeats)
    low = np.exp(Gaussian().prepare(y).theta_bounds[0, 0])
    assert low == pytest.approx(4.0 / 12.0 if rounded else 1e-8 * y.var())
    # a weight is a number of repetitions
    weighted = Gaussian().prepare(np.unique(y), np.full(4, float(repeats)))
    assert np.exp(weighted.theta_bounds[0, 0]) == pytest.approx(low)
    # at most a tenth of the variance
    few = np.append(np.zeros(100), 1.0)
    low = np.exp(Gaussian().prepare(few).theta_bounds[0, 0])
    assert low == pytest.approx(0.1 * few.var())


def test_repeated_rows_of_grades_are_not_known_exactly():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    y = np.round(5.0 + 0.5 * X[:, 0] + 0.7 * rng.standard_normal(150))
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    model = PLSRegressor(random_state=0).fit(X, y)
    least = min(1.0 / 12.0, 0.1 * y.var())
    assert model.noise_variance_ > 0.999 * least
    _, std = model.predict(X, return_std=True)
    assert np.all(std**2 > 0.999 * least)
