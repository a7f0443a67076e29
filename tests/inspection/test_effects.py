"""Effects of columns: what they sum to, known functions, and every kind of model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.inspection import EffectsDisplay, sobol_indices
from skgpx.kernels import Additive, CategoricalKernel, Columns, Linear
from skgpx.likelihoods import Gaussian

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

NOISE = Gaussian(noise_variance=0.01)
GIVEN = {"likelihood": NOISE, "optimizer": None, "normalize_y": False}


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def by_effect(indices, column="share"):
    return dict(zip(indices["effect"].tolist(), indices[column], strict=True))


def process(kernel, n=60, d=3, seed=0):
    """Rows and a fitted process with a kernel, as the exact process of its rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + 0.5 * X[:, 2]
    y += 0.1 * rng.standard_normal(n)
    return X, PLSRegressor(kernel=kernel, inducing=X, **GIVEN).fit(X, y)


def test_the_function_of_ishigami():
    rng = np.random.default_rng(0)
    # evenly spaced columns, so that those of the rows are the distribution
    even = np.pi * (2.0 * (np.arange(400) + 0.5) / 400 - 1.0)
    X = np.column_stack([rng.permutation(even) for _ in range(3)])
    y = np.sin(X[:, 0]) * (1.0 + 0.1 * X[:, 2] ** 4) + 7.0 * np.sin(X[:, 1]) ** 2
    model = PLSRegressor(
        200.0 * RBF([2.6, 2.1, 2.7]), likelihood=Gaussian(1e-4), optimizer=None
    )
    centred = make_pipeline(StandardScaler(with_std=False), clone(model))
    for estimator in (model, centred):
        indices = sobol_indices(estimator.fit(X, y), X)
        shares, totals = by_effect(indices), by_effect(indices, "total")
        for name, share, total in (
            ("x0", 0.314, 0.558),
            ("x1", 0.442, 0.442),
            ("x2", 0.0, 0.244),
        ):
            assert shares[name] == pytest.approx(share, abs=0.01)
            assert totals[name] == pytest.approx(total, abs=0.01)
        assert shares["x0, x2"] == pytest.approx(0.244, abs=0.01)


KERNELS = {
    "product": 0.8 * RBF([0.8, 0.7, 0.9]),
    "sum": Additive(RBF([0.7, 0.8, 0.9]), variances=[0.8, 1.2])
    + Linear([0.5, 0.2, 0.3], centre=[0.3, 0.1, 0.0]),
    "both": 0.5 * RBF(0.8) + Additive(Matern([0.9, 1.0, 1.1], nu=2.5)) + Linear(0.5),
    "columns": Columns(RBF([0.7, 0.8]), [0, 2]) * Columns(Matern(0.6), [1])
    + Columns(Matern(0.5), [2]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_effects_of_few_values_are_those_of_all_their_combinations(name):
    # columns of six values: the product distribution has 216 rows
    _, model = process(KERNELS[name], n=40)
    few = np.random.default_rng(3).uniform(-1.0, 1.0, (6, 3))
    few = np.sort(few, axis=0)
    grid = np.stack(np.meshgrid(*few.T, indexing="ij"), axis=-1).reshape(-1, 3)
    mean, covariance = model.predict(grid, return_cov=True, include_noise=False)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(4).standard_normal((216, 4000))
    draws = (mean[:, np.newaxis] + root @ noise).reshape(6, 6, 6, -1)

    def part(functions, effect):
        """Average over the other columns, less its averages over those of the effect"""
        for j in range(3):
            average = functions.mean(axis=j, keepdims=True)
            functions = functions - average if j in effect else average
        return functions

    display = EffectsDisplay.from_estimator(model, few, n_pairs=3)
    variance = draws.var(axis=(0, 1, 2))
    shares = by_effect(display.indices)
    for j in range(3):
        x, curve, std = display.effects[f"x{j}"]
        expected = np.squeeze(part(draws, (j,)))
        assert x[0] == few[0, j]
        assert x[-1] == few[-1, j]
        curve, std = (np.interp(few[:, j], x, values) for values in (curve, std))
        # in standard errors of 256 draws
        z = (curve - expected.mean(axis=1)) / (expected.std(axis=1) / 16.0)
        assert np.abs(z).max() < 5.0
        assert_allclose(std, expected.std(axis=1), rtol=0.2)
    for (first, second), (_, _, table) in display.pairs.items():
        pair = (int(first[1]), int(second[1]))
        expected = np.squeeze(part(draws, pair))
        errors = expected.std(axis=2) / 16.0
        assert np.all(np.abs(table - expected.mean(axis=2)) < 4.5 * errors + 1e-3)
    for effect in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]:
        label = ", ".join(f"x{j}" for j in effect)
        of_draws = np.mean(part(draws, effect) ** 2, axis=(0, 1, 2)) / variance
        tolerance = 0.01 + 0.25 * of_draws.std()
        assert shares[label] == pytest.approx(of_draws.mean(), abs=tolerance)
        error = by_effect(display.indices, "share_std")[label]
        assert error == pytest.approx(of_draws.std(), rel=0.3)
    for j in range(3):
        within = np.mean(draws.var(axis=j), axis=(0, 1)) / variance
        total = by_effect(display.indices, "total")[f"x{j}"]
        tolerance = 0.01 + 0.25 * within.std()
        assert total == pytest.approx(within.mean(), abs=tolerance)


def test_effects_sum_to_the_prediction():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (200, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.05 * rng.standard_normal(200)
    kernel = Additive(RBF([1.0, 1.5, 3.0]), 1)
    model = PLSRegressor(kernel, likelihood=Gaussian(), random_state=0).fit(X, y)
    display = EffectsDisplay.from_estimator(model, X, n_pairs=0)
    total = np.zeros(200)
    for j in range(3):
        x, mean, _ = display.effects[f"x{j}"]
        total += np.interp(X[:, j], x, mean)
    prediction = model.predict(X)
    error = total - total.mean() - prediction + prediction.mean()
    assert np.sqrt(np.mean(error**2)) < 0.015
    assert sum(by_effect(display.indices).values()) == pytest.approx(1.0, abs=0.01)
    assert display.pairs == {}
    x, mean, std = display.effects["x1"]
    truth = 0.5 * x**2 - 0.5 * np.mean(X[:, 1] ** 2)
    assert np.all(np.abs(mean - truth) < 4.0 * std + 0.02)


def table(n=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20.0, 60.0, n),
            "visits": rng.poisson(2.0, n),
            "site": pd.Categorical(rng.choice(["a", "b", "c"], n)),
        }
    )
    effect = frame["site"].map({"a": 0.0, "b": 1.0, "c": -1.0}).astype(float)
    y = 0.1 * frame["age"] + effect + 0.1 * rng.standard_normal(n)
    return frame, effect.to_numpy(), y.to_numpy()


SITE = Columns(CategoricalKernel(0.3), "site")
TREND = Columns(Linear(0.1), "age") + Columns(Linear(0.3), "visits") + SITE


def test_categories_and_trends():
    frame, effect, y = table()
    model = PLSRegressor(TREND, random_state=0).fit(frame, y)
    display = EffectsDisplay.from_estimator(model, frame)
    x, mean, std = display.effects["site"]
    assert x.tolist() == ["a", "b", "c"]
    expected = np.array([0.0, 1.0, -1.0]) - effect.mean()
    assert np.all(np.abs(mean - expected) < 4.0 * std)
    age, mean, _ = display.effects["age"]
    slopes = np.diff(mean) / np.diff(age)
    assert_allclose(slopes, slopes[0], rtol=1e-6)
    assert slopes[0] == pytest.approx(0.1, rel=0.1)
    shares = by_effect(display.indices)
    spread = np.var(0.1 * frame["age"])
    assert shares["age"] == pytest.approx(spread / (spread + effect.var()), abs=0.03)
    assert shares["visits"] < 0.01
    assert [panel.get_xlabel() for panel in display.axes_[:3]] == list(display.effects)
    assert "of the variance" in display.axes_[0].get_title()
    # the same of other tables, and of codes
    polar = pl.from_pandas(frame)
    assert sobol_indices(model.fit(polar, y), polar)["effect"][:3].tolist() == list(
        display.effects
    )
    codes = frame.assign(site=frame["site"].cat.codes)
    coded = by_effect(sobol_indices(model.fit(codes, y), codes))
    assert coded["site"] == pytest.approx(shares["site"], abs=1e-3)


def test_wrappers_and_any_model():
    X, model = process(KERNELS["product"], n=80)
    expected = by_effect(sobol_indices(model, X))
    y = model.predict(X)
    wrappers = [
        make_pipeline(StandardScaler(with_std=False), model),
        TransformedTargetRegressor(model, transformer=StandardScaler()),
        GaussianProcessRegressor(
            KERNELS["product"] + WhiteKernel(0.01), optimizer=None, normalize_y=False
        ),
    ]
    for wrapper in wrappers:
        shares = by_effect(sobol_indices(wrapper.fit(X, y), X))
        for name in ("x0", "x1", "x2"):
            assert shares[name] == pytest.approx(expected[name], abs=0.1)
    search = GridSearchCV(model, {"n_inducing": [30]}, cv=2).fit(X, y)
    assert set(sobol_indices(search, X)["effect"][:3]) == {"x0", "x1", "x2"}
    waves = SpectralVGPRegressor(n_basis=40).fit(X[:, :2], X[:, 0])
    assert sobol_indices(waves, X[:, :2])["effect"][0] == "x0"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "model",
    [
        DecoupledSampler(random_state=0),
        ExactGPRegressor(random_state=0),
        GWIRegressor("svgp", hyperparameters="maximise", random_state=0),
        SpectralVGPRegressor(basis="inducing"),
        SteinRFFRegressor(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_regressor_has_indices(model):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.02 * rng.standard_normal(80)
    shares = by_effect(sobol_indices(clone(model).fit(X, y), X))
    wave = np.var(np.sin(6.0 * X[:, 0]))
    assert shares["x0"] == pytest.approx(wave / (wave + np.var(X[:, 1])), abs=0.05)


def test_averaged_hyperparameters():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    kernel = 1.0 * RBF([1.0, 1.0])
    model = PLSRegressor(kernel, hyperparameters="average", random_state=0).fit(X, y)
    states = model.posterior_
    assert len(states.models) > 1
    display = EffectsDisplay.from_estimator(model, X)
    moments = []
    for part in states.models:
        model.posterior_ = part
        alone = EffectsDisplay.from_estimator(model, X)
        moments.append(alone.effects["x0"][1:])
    means, stds = np.transpose(moments, (1, 0, 2))
    _, mean, std = display.effects["x0"]
    expected = states.weights @ means
    variance = states.weights @ (stds**2 + means**2) - expected**2
    assert_allclose(mean, expected, atol=0.3 * std.max())
    assert_allclose(std, np.sqrt(variance), rtol=0.25)


def test_classes_on_both_scales():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (90, 2))
    kernel = 4.0 * RBF([1.0, 1.0])
    for y, output in ((X[:, 0] > 0.0, 0), (np.digitize(X[:, 0], [-0.3, 0.3]), 2)):
        model = PLSClassifier(kernel, optimizer=None, random_state=0).fit(X, y)
        for scale in ("latent", "response"):
            display = EffectsDisplay.from_estimator(
                model, X, scale=scale, output=output
            )
            assert display.indices["effect"][0] == "x0"
            _, mean, _ = display.effects["x0"]
            assert mean[-1] > 0.2 > -0.2 > mean[0]
            if scale == "response":
                assert mean[-1] - mean[0] < 1.0
    with pytest.raises(ValueError, match="output must be from 0 to 2; got 3"):
        sobol_indices(model, X, output=3)


def test_a_learned_scale_of_y():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (80, 2))
    y = np.exp(2.0 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(80))
    kernel = 1.0 * RBF([1.0, 1.0])
    # effects of averages are those at fewer rows
    model = PLSRegressor(kernel, hyperparameters="average", random_state=0).fit(X, y)
    latent = by_effect(sobol_indices(model, X))
    assert latent["x0"] == pytest.approx(0.8, abs=0.05)
    # exp(2 x0) exp(x1) is no sum
    response = by_effect(sobol_indices(model, X, scale="response"))
    assert response["x0, x1"] > 0.02 > latent["x0, x1"]
    # of two targets, the second of which is as it is
    Y = np.column_stack((y, np.log(y) - 1.5))
    several = PLSRegressor(kernel, random_state=0).fit(X, Y)
    assert several.likelihood_.power[1] == 1.0
    response = by_effect(sobol_indices(several, X, scale="response"))
    assert response["x0, x1"] > 0.02
    second = by_effect(sobol_indices(several, X, scale="response", output=1))
    assert second == by_effect(sobol_indices(several, X, output=1))
    with pytest.raises(ValueError, match="output must be from 0 to 1; got 2"):
        sobol_indices(several, X, scale="response", output=2)


def test_the_same_seed_and_any_order_of_columns():
    X, model = process(KERNELS["product"])
    first = sobol_indices(model, X, random_state=3)
    again = sobol_indices(model, X, random_state=3)
    for name, values in first.items():
        assert_array_equal(values, again[name])
    order = [2, 0, 1]
    kernel = 0.8 * RBF(np.array([0.8, 0.7, 0.9])[order])
    y = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + 0.5 * X[:, 2]
    moved = PLSRegressor(kernel, inducing=X[:, order], **GIVEN).fit(X[:, order], y)
    names = {f"x{new}": f"x{old}" for new, old in enumerate(order)}
    plain = by_effect(sobol_indices(model.fit(X, y), X, n_pairs=0))
    for name, share in by_effect(sobol_indices(moved, X[:, order], n_pairs=0)).items():
        assert share == pytest.approx(plain[names[name]], abs=0.01)


def test_what_has_no_effects_is_refused():
    X, model = process(KERNELS["product"])
    for wrong in ({"scale": "log"}, {"n_pairs": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            sobol_indices(model, X, **wrong)
    with pytest.raises(ValueError, match="n_columns"):
        EffectsDisplay.from_estimator(model, X, n_columns=0)
    with pytest.raises(ValueError, match="no column has an effect"):
        sobol_indices(model, X[:1])
    exact = GaussianProcessRegressor(RBF(), alpha=0.01).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="needs an estimator of skgpx"):
        sobol_indices(exact, X, scale="response")
    with pytest.raises(ValueError, match="finite numbers in X"):
        sobol_indices(exact, np.where(X > 0.9, np.nan, X))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2].astype(str)})
    with pytest.raises(ValueError, match="at most 100 of them; got 120"):
        sobol_indices(exact, pd.concat((frame, frame.assign(c=frame["c"] + "-"))))
