"""Displays: what they draw, into which axes, from estimators and from predictions."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skgpx
from skgpx import PLSRegressor, SteinRFFRegressor, metrics
from skgpx.inspection import (
    CoverageDisplay,
    FunctionDrawsDisplay,
    HyperparameterDisplay,
    LearnedKernelDisplay,
    MixtureDensityDisplay,
    PredictiveDisplay,
    TraceDisplay,
)
from skgpx.kernels import CategoricalKernel, Columns
from skgpx.likelihoods import Gaussian, Poisson

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(40, 2))
Y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=40)
FEW = {"kernel": RBF(1.0), "optimizer": None, "n_inducing": 8, "random_state": 0}
PLS = PLSRegressor(**FEW)
EXACT = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04), optimizer=None)
MODELS = {
    "pls": PLS,
    "exact": EXACT,
    "pipeline": make_pipeline(StandardScaler(), PLS),
    "search": GridSearchCV(PLS, {"n_inducing": [4, 8]}, cv=2),
    "target": TransformedTargetRegressor(PLS, transformer=StandardScaler()),
}


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", MODELS)
def test_the_predictive_distribution_along_a_column(name):
    model = MODELS[name].fit(X, Y)
    display = PredictiveDisplay.from_estimator(
        model, X, Y, feature=1, coverages=(0.9, 0.5), resolution=30, margin=0.1
    )
    rows = np.tile(np.median(X, axis=0), (30, 1))
    low, high = X[:, 1].min(), X[:, 1].max()
    more = 0.1 * (high - low)
    rows[:, 1] = np.linspace(low - more, high + more, 30)
    distribution = skgpx.predict_dist(model, rows)
    assert_allclose(display.x, rows[:, 1])
    assert_allclose(display.line_.get_ydata(), distribution.mean())
    assert display.coverages == (0.5, 0.9)
    assert_allclose(display.bounds[:, 0], distribution.interval(0.5))
    assert_allclose(display.bounds[:, 1], distribution.interval(0.9))
    assert len(display.bands_) == 2
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "x1"
    draws = FunctionDrawsDisplay.from_estimator(
        model, X, Y, feature=1, n_draws=4, resolution=30, margin=0.1, random_state=3
    )
    expected = skgpx.sample_functions(model, 4, random_state=3)(rows)
    assert_allclose(draws.draws, expected)
    assert len(draws.lines_) == 4


def test_axes_that_are_given_are_drawn_into():
    model = MODELS["exact"].fit(X, Y)
    figure, axes = pyplot.subplots(1, 2)
    display = PredictiveDisplay.from_estimator(model, X, ax=axes[0])
    assert display.ax_ is axes[0]
    assert display.figure_ is figure
    both = CoverageDisplay.from_estimator(model, X, Y, ax=axes)
    assert_array_equal(both.ax_, axes)
    with pytest.raises(ValueError, match="ax must hold 2 Axes; got 1"):
        CoverageDisplay.from_estimator(model, X, Y, ax=axes[0])
    again = display.plot()
    assert again is display
    assert display.ax_ is not axes[0]


def test_columns_of_a_data_frame():
    frame = pd.DataFrame({"size": X[:, 0], "kind": ["a"] * 25 + ["b"] * 15})
    kinds = (frame["kind"] == "b").to_numpy(float)
    seen = {}

    class Model(BayesianRidge):
        def predict(self, X, return_std=False):
            seen["rows"] = X
            plain = np.column_stack((X["size"], X["kind"] == "b"))
            return super().predict(plain.astype(float), return_std=return_std)

    model = Model().fit(np.column_stack((X[:, 0], kinds)), Y)
    display = PredictiveDisplay.from_estimator(
        model, frame, Y, feature="size", resolution=7
    )
    assert display.ax_.get_xlabel() == "size"
    assert set(seen["rows"]["kind"]) == {"a"}
    assert_allclose(seen["rows"]["size"], display.x)
    for wrong in ("kind", "weight", 2):
        with pytest.raises(ValueError, match=r"Column 'kind'|feature must be"):
            PredictiveDisplay.from_estimator(model, frame, feature=wrong)


TABLE = {"dose": X[:, 0], "age": 40.0 + X[:, 1], "site": list("aab" * 13 + "a")}
SITE = pd.CategoricalDtype(list("ab"))
TABLES = {
    "pandas": pd.DataFrame(TABLE).astype({"site": SITE}),
    "polars": pl.DataFrame(TABLE).cast({"site": pl.Enum(["a", "b"])}),
}
TERMS = (
    1.0
    * Columns(RBF([1.0, 9.0]), ["dose", "age"])
    * Columns(CategoricalKernel(), "site")
)


@pytest.mark.parametrize("kind", TABLES)
def test_the_title_says_where_the_other_columns_stand(kind):
    table = TABLES[kind]
    model = PLSRegressor(TERMS, optimizer=None, random_state=0).fit(table, Y)
    middle = f"age = {np.median(TABLE['age']):.4g}, site = a"
    display = PredictiveDisplay.from_estimator(model, table, Y, feature="dose")
    assert display.ax_.get_title() == f"at {middle}"
    draws = FunctionDrawsDisplay.from_estimator(
        model, table, feature="dose", n_draws=400, random_state=0
    )
    assert draws.ax_.get_title() == f"at {middle}"
    # the functions are those of the curve: their mean, in standard errors
    x, d = display.x, draws.draws
    errors = np.interp(x, draws.x, d.std(axis=1)) / 20.0
    z = (np.interp(x, draws.x, d.mean(axis=1)) - display.mean) / errors
    assert np.abs(z).max() < 4.0
    many = PredictiveDisplay.from_predictions(
        x, x, np.stack((x, x), 1), fixed=dict.fromkeys("abcdefg", 1)
    )
    assert many.ax_.get_title() == "at a = 1, b = 1, c = 1, d = 1, 3 more"
    alone = PredictiveDisplay.from_estimator(clone(EXACT).fit(X[:, :1], Y), X[:, :1])
    assert alone.ax_.get_title() == ""


@pytest.mark.parametrize("display", [PredictiveDisplay, FunctionDrawsDisplay])
def test_lines_without_points_are_refused(display):
    model = clone(EXACT).fit(X, Y)
    for wrong in ({"resolution": 0}, {"margin": -0.1}, {"margin": np.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            display.from_estimator(model, X, **wrong)
    with pytest.raises(ValueError, match="coverages must hold"):
        PredictiveDisplay.from_estimator(model, X, coverages=[])


def test_predictions_in_any_order():
    x = np.array([2.0, 0.0, 1.0])
    bounds = np.stack((x - 1.0, x + 1.0), axis=1)
    display = PredictiveDisplay.from_predictions(x, 2.0 * x, bounds, coverages=[0.8])
    assert_array_equal(display.line_.get_ydata(), [0.0, 2.0, 4.0])
    assert_array_equal(display.bounds[:, 0, 0], [-1.0, 0.0, 1.0])
    draws = FunctionDrawsDisplay.from_predictions(x, np.column_stack((x, -x)))
    assert_array_equal(draws.lines_[1].get_ydata(), [0.0, -1.0, -2.0])
    with pytest.raises(ValueError, match="must have shapes"):
        PredictiveDisplay.from_predictions(x, x, bounds, coverages=[0.8, 0.9])
    with pytest.raises(ValueError, match="of one output"):
        FunctionDrawsDisplay.from_predictions(x, np.zeros((3, 2, 4)))


def test_coverage_of_intervals():
    model = MODELS["pls"].fit(X, Y)
    display = CoverageDisplay.from_estimator(model, X, Y)
    distribution = skgpx.predict_dist(model, X)
    assert_array_equal(display.pit, metrics.pit_values(Y, distribution))
    claimed, observed = display.line_.get_data()
    for level in (0.3, 0.9):
        inside = metrics.interval_coverage(Y, distribution.interval(level))
        assert_allclose(observed[np.argmin(np.abs(claimed - level))], inside)
    heights = [bar.get_height() for bar in display.bars_]
    assert_allclose(np.mean(heights), 1.0)
    alone = CoverageDisplay.from_predictions(display.pit, kind="curve", name="mine")
    assert alone.bars_ is None
    assert "mine" in alone.ax_.get_legend().get_texts()[0].get_text()
    assert CoverageDisplay.from_predictions([0.2, 0.7], kind="pit").line_ is None
    with pytest.raises(ValueError, match="kind must be one of"):
        CoverageDisplay.from_predictions([0.5], kind="histogram")
    with pytest.raises(ValueError, match="lie between 0 and 1"):
        CoverageDisplay.from_predictions([1.5])


def test_traces():
    counts = rng.poisson(np.exp(1.0 + Y))
    model = PLSRegressor(likelihood=Poisson(), n_particles=10, **FEW)
    model = make_pipeline(model).fit(X, counts)
    display = TraceDisplay.from_estimator(model)
    assert_array_equal(display.curve, model[-1].energy_curve_)
    assert_array_equal(display.lines_[1].get_ydata(), np.sort(model[-1].rhat_))
    stuck = TraceDisplay(np.array([1.0, 0.5]), np.array([1.1, np.inf]), tol=1.2).plot()
    assert stuck.ax_[1].get_title() == "1 of 2 infinite"
    waves = SteinRFFRegressor(n_components=1, n_frequencies=6, max_iter=2).fit(X, Y)
    trace = TraceDisplay.from_estimator(waves)
    assert_array_equal(trace.lines_[0].get_ydata(), waves.loss_curve_)
    with pytest.raises(ValueError, match="in closed form"):
        TraceDisplay.from_estimator(MODELS["pls"].fit(X, Y))


def test_missing_values_do_not_empty_the_picture():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X[:, 0].copy()
    X[3, 0] = X[4, 1] = np.nan
    model = make_pipeline(SimpleImputer(), BayesianRidge()).fit(X, y)
    display = PredictiveDisplay.from_estimator(model, X, y, feature=0)
    assert np.all(np.isfinite(display.ax_.lines[0].get_ydata()))


def test_polars_and_arrow_keep_names_and_text():
    columns = {"a": X[:, 0], "b": X[:, 1]}
    for table in (pl.DataFrame(columns), pa.table(columns)):
        fitted = clone(PLS).fit(table, Y)
        shown = PredictiveDisplay.from_estimator(fitted, table, Y, feature="b")
        assert shown.ax_.get_xlabel() == "b"
    table = pl.DataFrame({**columns, "c": list("abcd") * 10})
    encode = make_column_transformer(
        (OneHotEncoder(), ["c"]), remainder=StandardScaler()
    )
    fitted = make_pipeline(encode, clone(PLS)).fit(table, Y)
    shown = PredictiveDisplay.from_estimator(fitted, table, Y, feature="a")
    assert shown.ax_.get_xlabel() == "a"


def test_densities_of_averaged_hyperparameters():
    X = rng.uniform(-3.0, 3.0, (30, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=30)
    kernel = 1.0 * Columns(RBF(1.0), [0]) + 1.0 * Columns(RBF(1.0), [1])
    model = PLSRegressor(kernel=kernel, hyperparameters="average", random_state=0)
    model.fit(X, y)
    assert len(model.posterior_.models) > 1
    weights = model.posterior_.weights
    densities = MixtureDensityDisplay.from_estimator(model, X[:2], y[:2])
    for i, grid in enumerate(densities.grids):
        expected = np.exp(model.log_predictive_density(X[np.full(len(grid), i)], grid))
        assert_allclose(weights @ densities.densities[i], expected, rtol=1e-8)
    lines = densities.axes_[0].lines
    assert_allclose(lines[len(weights)].get_ydata(), weights @ densities.densities[0])
    pyplot.close("all")


def test_averaged_hyperparameters_and_draws_of_them():
    radial = Columns(RBF(1.0), [0]) + Columns(RBF(1.0), [1])
    kernel = ConstantKernel() * Columns(RBF(), [0]) + ConstantKernel() * radial
    averaging = PLSRegressor(kernel, hyperparameters="average", random_state=0)
    model = make_pipeline(StandardScaler(), averaging).fit(X[:20], Y[:20])
    display = HyperparameterDisplay.from_estimator(model)
    assert set(display.values) == {
        "noise_std",
        "amplitude[x0]",
        "amplitude",
        "lengthscale[x0]",
        "lengthscale_2[x0]",
        "lengthscale[x1]",
    }
    assert_allclose(display.weights.sum(), 1.0)
    states = model[-1].hyperparameter_states_
    stds = [np.sqrt(state.likelihood.noise_variance) for state in states]
    assert_allclose(display.values["noise_std"], stds)
    scales = [state.kernel.k2.k2.k2.kernel.length_scale for state in states]
    assert_allclose(display.values["lengthscale[x1]"], scales)
    assert display.families == {"as given": pytest.approx(1.0)}
    # 96 draws of equal weight are the states, as often as their weights say
    draws = display.draws()
    assert list(draws) == list(display.values)
    for name, values in display.values.items():
        assert draws[name].shape == (1, 96)
        assert_allclose(draws[name].mean(), display.weights @ values)
    assert display.draws(7)["noise_std"].shape == (1, 7)
    lengths, standard, families = display.axes_
    assert display.figure_ is lengths.figure
    assert len(lengths.get_yticks()) == 3
    assert len(standard.get_yticks()) == 3
    assert lengths.get_xscale() == "log"
    assert families.get_xlabel() == "posterior probability"
    figure, axes = pyplot.subplots(3)
    assert display.plot(ax=axes).figure_ is figure
    with pytest.raises(ValueError, match="ax must hold 3 Axes; got 1"):
        display.plot(ax=axes[0])
    for chosen in (PLS.fit(X, Y), skgpx.SpectralVGPRegressor(n_basis=9).fit(X, Y)):
        with pytest.raises(ValueError, match='hyperparameters="average"'):
            HyperparameterDisplay.from_estimator(chosen)
    # a trend that only some families have has values, but no draws
    display.values["slope_std[x0]"] = np.append(np.nan, stds[1:])
    assert "slope_std[x0]" not in display.draws()


def test_scale_of_y_that_was_learned():
    y = np.exp(2.0 * Y[:40])
    settings = {"hyperparameters": "average", "random_state": 0}
    model = PLSRegressor(**settings).fit(X[:40], y)
    display = HyperparameterDisplay.from_estimator(model)
    assert display.scale_of_y == model.report()["model"]["scale_of_y"]
    assert display.axes_[-1].get_title() == display.scale_of_y
    assert "power" in display.scale_of_y
    model = PLSRegressor(likelihood=Gaussian(), **settings).fit(X[:40], Y[:40])
    assert not HyperparameterDisplay.from_estimator(model).axes_[-1].get_title()


def test_components_of_learned_waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(4.0 * X[:, 0]) + X[:, 1]
    frame = pd.DataFrame(X, columns=["depth", "age"])
    small = {"n_components": 3, "n_frequencies": 10, "max_iter": 5, "random_state": 0}
    model = SteinRFFRegressor(**small).fit(frame, y)
    kernels = LearnedKernelDisplay.from_estimator(model, frame, resolution=7)
    assert list(kernels.curves) == ["depth", "age"]
    tau, components, start = kernels.curves["age"]
    differences = np.column_stack((np.zeros(7), tau))
    learned = model.learned_kernel(differences)
    assert_allclose(components, learned / learned[:, :1])
    assert start[0] == components[0, 0] == 1.0
    assert kernels.axes_[1].get_xlabel() == "difference in age"
    deep = clone(model).set_params(hidden_layer_sizes=(4,)).fit(frame, y)
    mapped = LearnedKernelDisplay.from_estimator(deep, frame, resolution=7)
    assert mapped.axes_[1].get_xlabel() == "difference in age + l g(x)"
    # squares of the amplitudes are below the range of doubles
    tiny = clone(model).set_params(
        kernel=ConstantKernel(1e-200) * RBF(1.0), optimizer=None, noise_variance=1e-240
    )
    with pytest.raises(ValueError, match="positive variance"):
        LearnedKernelDisplay.from_estimator(tiny.fit(frame, 1e-119 * y), frame)

    densities = MixtureDensityDisplay.from_estimator(model, frame[:2], y[:2])
    for i, grid in enumerate(densities.grids):
        rows = frame.iloc[np.full(len(grid), i)]
        expected = np.exp(model.log_predictive_density(rows, grid))
        assert_allclose(densities.densities[i].mean(axis=0), expected, rtol=1e-8)
    other = PLSRegressor(hyperparameters="maximise").fit(frame, y)
    for display in (LearnedKernelDisplay, MixtureDensityDisplay):
        with pytest.raises(ValueError, match="SteinRFFRegressor"):
            display.from_estimator(other, frame[:2])
    pyplot.close("all")
