"""What scores refuse, and how they say so."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor, metrics
from skgpx.likelihoods import Poisson

BOUNDS = np.ones((3, 2, 2)) * [-1.0, 1.0]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, -2.0, 1.0], "non-negative.*between -2 and 1"),
        ([0.0, 0.0, 0.0], "at least one positive.*between 0 and 0"),
        ([1.0, np.inf, 1.0], "finite"),
        ([1.0, 1.0], r"3 numbers.*shape \(2,\)"),
    ],
)
def test_weights_of_rows(weights, said):
    with pytest.raises(ValueError, match=rf"sample_weight must.*{said}"):
        metrics.interval_coverage(np.zeros((3, 2)), BOUNDS, sample_weight=weights)


@pytest.mark.parametrize("wrong", [0.5, -100.0])
def test_distributions_of_counts_want_counts(wrong):
    X = np.linspace(0.0, 1.0, 12)[:, np.newaxis]
    y = np.arange(12.0)
    model = PLSRegressor(
        RBF(), likelihood=Poisson(), optimizer=None, n_inducing=4, n_particles=4,
        max_iter=5, tol=100.0, random_state=0,
    )  # fmt: skip
    distribution = model.fit(X, y).predict_dist(X)
    with pytest.raises(ValueError, match=r"0, 1, 2, \.\.\..*12 other values"):
        metrics.pit_values(y + wrong, distribution)
    with pytest.raises(ValueError, match=r"0, 1, 2, \.\.\..*12 other values"):
        metrics.coverage_error(y + wrong, distribution)
    assert np.all(metrics.pit_values(y, distribution, random_state=0) <= 1.0)
