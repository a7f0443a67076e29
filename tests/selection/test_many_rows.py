"""What is chosen for many rows, through the public door."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import PLSRegressor
from skgpx.kernels import Linear
from skgpx.likelihoods import Gaussian


def test_a_rough_function_and_a_trend():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 4600, 2))
    f, f_new = (
        np.sign(x[:, 0] - 0.3) + np.sign(x[:, 1]) + 2.0 * x[:, 1] for x in (X, new)
    )
    y = f + 0.3 * rng.standard_normal(len(f))
    model = PLSRegressor(random_state=0).fit(X, y)
    chosen = model.report()["search"]["kernel"]
    assert chosen.startswith("Matern 0.5")
    assert chosen.endswith("a linear trend")
    # nearest rows complete the points beside a trend, too
    assert model.posterior_.n_neighbors > 0
    assert np.sqrt(np.mean((model.predict(new) - f_new) ** 2)) < 0.25


@pytest.mark.parametrize(
    ("kernel", "chosen", "other"),
    [
        (ConstantKernel(1.0) * RBF(0.35), 0, 40),
        (ConstantKernel(1.0) * Matern(0.6, nu=0.5) + Linear(0.5), 40, 0),
    ],
    ids=["smooth", "rough"],
)
def test_points_alone_or_nearest_rows(kernel, chosen, other):
    """The default is the one of the two that predicts better."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3500, 4))
    root = np.linalg.cholesky(kernel(X) + 0.01 * np.eye(3500))
    X, new = X[:3000], X[3000:]
    y, y_new = np.split(root @ rng.standard_normal(3500), [3000])
    densities = []
    for n_neighbors in ("auto", other):
        model = PLSRegressor(
            kernel,
            likelihood=Gaussian(0.01),
            n_neighbors=n_neighbors,
            optimizer=None,
            random_state=0,
        )
        model.fit(X, y)
        densities.append(model.log_predictive_density(new, y_new).mean())
        if n_neighbors == "auto":
            assert model.posterior_.n_neighbors == chosen
    assert densities[0] > densities[1] - 0.01
