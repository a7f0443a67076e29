"""Reports of fits."""

import pickle
import warnings
from copy import copy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import LogisticRegression, Ridge

from skgpx import (
    DecoupledSampler,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
    metrics,
)
from skgpx._hyperparameters import State
from skgpx._hyperparameters._candidates import of_kernel
from skgpx._shell.validation import canonical_rows
from skgpx.diagnostics import Finding, conclude
from skgpx.kernels import Linear
from skgpx.likelihoods import Gaussian, Poisson

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(60, 1))
Y = np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=60)
ROWS = rng.uniform(-3.0, 3.0, size=(200, 1))
TARGETS = np.sin(3.0 * ROWS[:, 0]) + 0.2 * rng.normal(size=200)
FEW = {"kernel": RBF(0.4), "optimizer": None, "random_state": 0}
PLS = {**FEW, "n_inducing": 6, "n_particles": 10}
EXACT = GaussianProcessRegressor(RBF(0.4) + WhiteKernel(0.04), optimizer=None)
STEIN = SteinRFFRegressor(
    RBF(0.4),
    n_components=2,
    n_frequencies=8,
    max_iter=2,
    optimizer=None,
    noise_variance=0.04,
    random_state=0,
)
MODELS = {
    "pls": (PLSRegressor(**PLS), Y),
    "poisson": (PLSRegressor(likelihood=Poisson(), **PLS), np.round(np.exp(Y))),
    "classes": (PLSClassifier(**PLS), np.where(Y > 0.0, "up", "down")),
    "fourier": (SpectralVGPRegressor("series", noise_variance=0.04, n_basis=15), Y),
    "inducing": (
        SpectralVGPRegressor(**FEW, basis="inducing", n_basis=6, noise_variance=0.04),
        Y,
    ),
    "stein": (STEIN, Y),
    "decoupled": (DecoupledSampler(EXACT), Y),
    "tempered": (TemperedRegressor(EXACT), Y),
    "features": (SteinFourierFeatures(RBF(0.4), random_state=0), Y),
}


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        # which is true
        warnings.filterwarnings("ignore", "6 inducing points are too few")
        return {name: model.fit(X, y) for name, (model, y) in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_has_a_report_that_prints(name, fitted):
    model = fitted[name]
    report = model.report()
    assert report["model"]["estimator"] == type(model).__name__
    assert report["model"]["columns"] == 1
    if name != "features":
        assert report["model"]["rows"] == 60
    text = repr(report)
    for title, body in report.items():
        assert f"{title.replace('_', ' ')}\n  " in text
        assert body
    html = report._repr_html_()
    assert html.count("<tr>") == html.count("</tr>")
    assert "<th" in html
    again = pickle.loads(pickle.dumps(report))
    assert dict(again) == dict(report)
    if hasattr(model, "stage_seconds_"):
        total = sum(model.stage_seconds_.values())
        assert_allclose(report["seconds"]["total"], total)


def test_html_is_escaped(fitted):
    report = fitted["pls"].report()
    report["model"]["likelihood"] = "<b>"
    assert "&lt;b&gt;" in report._repr_html_()


@pytest.mark.parametrize("name", ["pls", "inducing", "poisson", "classes"])
def test_what_inducing_points_leave_out(name, fitted):
    model = fitted[name]
    basis = model.posterior_.basis
    features = basis(ROWS)
    residual = basis.residual_variance(ROWS, features).mean()
    share = residual / basis.kernel.diag(ROWS).mean()
    section = model.report(ROWS)["basis"]
    assert section["functions"] == 6
    assert_allclose(section["unexplained_share"], share)
    if name in ("pls", "inducing"):
        said = model.report(ROWS)["findings"]["basis"]
        assert "unexplained by 6 inducing points." in said


def test_without_rows_the_share_is_that_of_the_rows_of_the_fit(fitted):
    model = fitted["pls"]
    section = model.report()["basis"]
    expected = model.report(X)["basis"]["unexplained_share"]
    assert_allclose(section["unexplained_share"], expected, rtol=1e-6)
    assert "unexplained_share" not in fitted["poisson"].report()["basis"]


def test_what_functions_leave_out_in_the_middle_of_the_domain(fitted):
    model = fitted["fourier"]
    middle = np.mean(model.domain_, axis=1)[np.newaxis]
    basis = model.posterior_.basis
    features = basis(middle)
    residual, explained = basis.residual_variance(middle, features), np.sum(features**2)
    section = model.report()["basis"]
    assert_allclose(
        section["unexplained_share"], residual[0] / (explained + residual[0])
    )
    assert fitted["stein"].report()["basis"]["models"] == 2


def test_chains(fitted):
    model = fitted["poisson"]
    section = model.report()["inference"]
    assert section["largest_rhat"] == np.max(model.rhat_)
    assert section["smallest_ess"] == np.min(model.ess_)
    closed_form = fitted["pls"].report()["inference"]
    assert closed_form["posterior"] == "closed form"
    # without chains there is nothing to converge
    assert not {"acceptance", "largest_rhat", "smallest_ess"} & set(closed_form)


@pytest.mark.filterwarnings("ignore:There is no noise")
def test_findings_of_the_fit_are_listed(fitted):
    model = copy(fitted["pls"])
    conclude(model, [None, Finding("noise", "There is no noise.")])
    assert model.report()["findings"]["noise"] == "There is no noise."
    assert "There is no noise." in repr(model.report())


def test_held_out_rows(fitted):
    model = fitted["fourier"]
    section = model.report(ROWS, TARGETS)["held_out"]
    distribution = model.predict_dist(ROWS)
    density = -metrics.neg_log_predictive_density(TARGETS, distribution)
    assert_allclose(section["mean_log_density_nats"], density)
    assert_allclose(section["mean_crps"], metrics.crps(TARGETS, distribution))
    inside = metrics.interval_coverage(TARGETS, distribution.interval(0.9))
    assert_allclose(section["coverage_90"], inside)
    assert_allclose(section["r2"], model.score(ROWS, TARGETS))
    wrong = model.report(ROWS, TARGETS + rng.choice([-3.0, 3.0], size=200))
    assert "Intervals are too narrow" in wrong["findings"]["coverage"]
    labels = np.where(TARGETS > 0.0, "up", "down")
    classes = fitted["classes"].report(ROWS, labels)["held_out"]
    assert_allclose(classes["accuracy"], fitted["classes"].score(ROWS, labels))


def test_rows_are_counted(fitted):
    model = SpectralVGPRegressor(domain=(-4, 4), noise_variance=0.04)
    model.partial_fit(X, Y).partial_fit(X[:10], Y[:10])
    assert model.report()["model"]["rows"] == 70
    # the same rows may be in both
    assert "rows" not in (model + model).report()["model"]
    assert model.fit(X, Y).report()["model"]["rows"] == 60


def test_models_that_are_not_fitted_have_no_report():
    for one in (PLSRegressor(), DecoupledSampler(), SteinFourierFeatures()):
        with pytest.raises(NotFittedError):
            one.report()


@pytest.mark.usefixtures("every_state")
def test_averaged_hyperparameters():
    """Quantiles over equal draws: states, as often as their weights say."""
    rows = rng.normal(size=(30, 12))
    rows[:, 11] *= 100.0
    y = np.sin(2.0 * rows[:, 5]) + rows[:, 11] / 100.0 + 0.1 * rng.normal(size=30)
    names = [f"column_{j}" for j in range(12)]
    frame = pd.DataFrame(rows, columns=names)
    kernel = ConstantKernel() * RBF(np.ones(12)) + WhiteKernel()
    model = PLSRegressor(kernel=kernel, hyperparameters="average", random_state=0)
    report = model.fit(frame, y).report()
    states = model.hyperparameter_states_
    weights = np.array([state.weight for state in states])
    counts = np.round(96 * weights).astype(int)
    assert counts.sum() == 96
    levels = [0.05, 0.5, 0.95]
    section = report["hyperparameters"]

    def check(name, values):
        expected = np.quantile(np.repeat(values, counts), levels, method="inverted_cdf")
        entry = section[name]
        assert_allclose([entry["5 %"], entry["median"], entry["95 %"]], expected)

    check("noise_std", [np.sqrt(state.likelihood.noise_variance) for state in states])
    amplitudes = [np.sqrt(state.kernel.k1.constant_value) for state in states]
    check("amplitude", np.std(y) * np.array(amplitudes))
    for j in (5, 11):
        scales = [state.kernel.k2.length_scale[j] for state in states]
        check(f"lengthscale[{names[j]}]", scales)
    # both columns that matter are among the first, whatever their units
    length_scales = [name for name in section if name.startswith("lengthscale")]
    assert len(length_scales) == 10
    assert {names[5], names[11]} == {name[12:-1] for name in length_scales[:2]}
    assert section["columns_of_longer_lengthscales"] == 2
    assert_allclose(report["families"]["as given"], 1.0)
    assert report["prior"]["weight_of_this_state"] == states[0].weight
    assert report["prior"]["averaged_states"] == len(states)
    assert "particles" not in report["inference"]  # of a closed form
    assert "noise std        " in repr(report)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_report_has_the_categories_that_matter():
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=60) for j in range(6)}
    columns |= {
        f"c{j}": pd.Categorical(rng.choice([*"pqrs"], size=60)) for j in range(8)
    }
    frame = pd.DataFrame(columns)
    effect = 2.0 * (frame["c6"] == "p").to_numpy()
    y = effect + np.sin(2.0 * columns["x4"]) + 0.1 * rng.normal(size=60)
    section = PLSRegressor(random_state=0).fit(frame, y).report()["hyperparameters"]
    correlations = [name for name in section if name.startswith("correlation")]
    length_scales = [name for name in section if name.startswith("lengthscale")]
    assert correlations[0] == "correlation[c6]"
    assert length_scales[0] == "lengthscale[x4]"
    assert len(correlations) + len(length_scales) == 10
    assert section["columns_of_longer_lengthscales"] == 4


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (GWIRegressor(Ridge()), Y[:50]),
        (GWIClassifier(LogisticRegression()), Y[:50] > Y[:50].mean()),
    ],
    ids=["regressor", "classifier"],
)
def test_hyperparameters_of_kernel_features_have_their_columns(model, y):
    rows = np.random.default_rng(1).normal(size=(50, 4))
    kernel = ConstantKernel() * RBF(np.ones(2))
    model = clone(model).set_params(
        kernel=kernel,
        kernel_features=PCA(2),
        hyperparameters="average",
        random_state=0,
    )
    section = model.fit(rows, y).report()["hyperparameters"]
    assert {"lengthscale[z0]", "lengthscale[z1]"} <= set(section)
    assert "columns_of_longer_lengthscales" not in section


def test_hyperparameters_that_some_families_have(fitted):
    model = copy(fitted["pls"])
    radial = ConstantKernel(4.0) * RBF(0.4)
    season = ConstantKernel(1.0) * RBF(3.0) * ExpSineSquared(0.7, 2.0)
    autoregression = ConstantKernel(0.25) * Matern(0.1, nu=0.5)
    kernels = {
        "trend": radial + Linear(0.5),
        "plain": radial,
        "season": radial + autoregression + season,
    }
    rows = canonical_rows(X, Y, np.ones(60))
    candidates = [of_kernel(kernels[name], rows, 1.0, name) for name in kernels]
    model.hyperparameter_states_ = tuple(
        State(candidate.without_coordinates(np.empty(0)), np.empty(0), noise, weight)
        for candidate, noise, weight in zip(
            candidates,
            [Gaussian(0.25), Gaussian(0.16), Gaussian(0.16)],
            [0.5, 0.25, 0.25],
            strict=True,
        )
    )
    report = model.report()
    assert report["families"] == {"trend": 0.5, "plain": 0.25, "season": 0.25}
    section = report["hyperparameters"]
    std = np.std(Y)
    expected = {
        "noise_std": (0.4, 1.0),
        "amplitude": (2.0 * std, 1.0),
        "lengthscale[x0]": (0.4, 1.0),
        "slope_std[x0]": (0.5 * std, 0.5),
        "autoregression_amplitude": (0.5 * std, 0.25),
        "autoregression_lengthscale[x0]": (0.1, 0.25),
        "season_amplitude": (std, 0.25),
        "season_lengthscale[x0]": (3.0, 0.25),
        "season_cycle_lengthscale[x0]": (0.7, 0.25),
        "season_period[x0]": (2.0, 0.25),
    }
    assert list(section) == list(expected)
    for name, (median, weight) in expected.items():
        assert_allclose(section[name]["median"], median)
        assert section[name].get("weight", 1.0) == weight
    chosen = fitted["pls"].report()
    assert not {"hyperparameters", "families"} & set(chosen)
    assert not {"averaged_states", "weight_of_this_state"} & set(chosen["prior"])
