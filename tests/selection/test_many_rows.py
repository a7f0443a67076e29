"""What is chosen for many rows, through the public door."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSRegressor
from skgpx._selection import _select
from skgpx.likelihoods import Gaussian


def test_a_rough_function_and_a_trend(monkeypatch):
    # a quarter of the neighbourhoods suffices
    monkeypatch.setattr(_select, "COMPARED_NEIGHBORHOODS", 100)
    monkeypatch.setattr(_select, "TRAINED_NEIGHBORHOODS", 200)
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


def test_points_alone_where_they_predict_better():
    """A smooth function of many columns: more points, without nearest rows."""
    rng = np.random.default_rng(0)
    X, new = np.split(rng.uniform(size=(5300, 4)), [5000])
    kernel = ConstantKernel(1.0) * RBF(0.3)
    # a draw of the process, by its frequencies
    frequencies, phases = rng.standard_normal((4, 2000)) / 0.3, rng.uniform(size=2000)
    weights = rng.standard_normal(2000) / np.sqrt(1000.0)
    f, f_new = (
        np.cos(x @ frequencies + 2.0 * np.pi * phases) @ weights for x in (X, new)
    )
    y = f + 0.3 * rng.standard_normal(5000)
    y_new = f_new + 0.3 * rng.standard_normal(300)
    densities = []
    for n_neighbors in ("auto", 40):
        model = PLSRegressor(
            kernel,
            likelihood=Gaussian(0.09),
            n_neighbors=n_neighbors,
            optimizer=None,
            random_state=0,
        )
        model.fit(X, y)
        densities.append(model.log_predictive_density(new, y_new).mean())
        if n_neighbors == "auto":
            assert model.posterior_.n_neighbors == 0
            assert model.findings_ == ()
    assert densities[0] > densities[1] - 0.01
