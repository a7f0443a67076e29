"""One row says nothing of the scale of y: far away the prior is as it was."""

import numpy as np
import pytest

from skgpx import PLSRegressor, SpectralVGPRegressor

pytestmark = pytest.mark.filterwarnings("ignore:Too few distinct rows")

MODELS = [
    (PLSRegressor(random_state=0), 3),
    (PLSRegressor(random_state=0), 1),
    (SpectralVGPRegressor(basis="inducing"), 3),
]


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(("model", "d"), MODELS, ids=str)
def test_one_row_is_uncertain_far_away(model, d, n):
    # repeated or not
    model.fit(np.full((n, d), 0.3), np.full(n, 5.0))
    mean, std = model.predict(np.full((1, d), 1e3), return_std=True)
    assert mean == pytest.approx([5.0])
    assert 0.9 < std[0] < 1.5
    near, std = model.predict(np.full((1, d), 0.3), return_std=True)
    assert near == pytest.approx([5.0])
    assert std[0] < 0.5


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.filterwarnings("ignore:Nothing but noise")
@pytest.mark.parametrize(("model", "d"), MODELS, ids=str)
def test_two_rows_are_uncertain_far_away(model, d, n, rng):
    X, y = rng.random((n, d)), 5.0 + 2.0 * rng.standard_normal(n)
    std = model.fit(X, y).predict(np.full((1, d), 1e3), return_std=True)[1]
    assert 0.8 * y.std() < std[0] < 2.0 * y.std()


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize("noise_variance", [None, 0.01])
def test_one_row_of_a_series(fit, noise_variance):
    # standard deviations of 0.0001 before: a constant without noise
    model = SpectralVGPRegressor(domain=[[-5.0, 5.0]], noise_variance=noise_variance)
    getattr(model, fit)([[0.3]], [5.0])
    mean, std = model.predict([[0.3], [4.0]], return_std=True)
    assert mean == pytest.approx([5.0, 5.0], abs=0.5)
    assert std[0] < 0.5
    assert 0.9 < std[1] < 1.6


def test_the_first_row_of_a_stream_changes_nothing_later():
    x = np.linspace(-4.0, 4.0, 60)[:, np.newaxis]
    y = np.sin(x[:, 0])
    whole, parts = (SpectralVGPRegressor(domain=[[-5.0, 5.0]]) for _ in range(2))
    whole.fit(x, y)
    parts.partial_fit(x[:1], y[:1]).predict(x)
    parts.partial_fit(x[1:], y[1:])
    np.testing.assert_allclose(parts.predict(x), whole.predict(x), atol=1e-5)
