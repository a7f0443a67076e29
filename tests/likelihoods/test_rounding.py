import numpy as np

from skgpx import PLSRegressor


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
