"""Reports of fits, and draws for ArviZ."""

import os
import pickle
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skgpx import (
    DecoupledSampler,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
    _stage_clock,
    metrics,
)
from skgpx._left_out import _ROWS, _forecast_points, _some
from skgpx.bases import Nystroem
from skgpx.likelihoods import Poisson

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
    "fourier": (SpectralVGPRegressor(noise_variance=0.04, n_basis=15), Y),
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
    more = section["more_would_leave"]
    assert list(more) == [12, 24]
    if name in ("pls", "inducing"):
        assert share > more[12] > more[24]
        said = model.report(ROWS)["advice"][0]
        assert "unexplained by 6 inducing points; 12 would leave" in said


def test_without_rows_the_share_is_that_of_the_rows_of_the_fit(fitted):
    model = fitted["pls"]
    section = model.report()["basis"]
    expected = model.report(X)["basis"]["unexplained_share"]
    assert_allclose(section["unexplained_share"], expected, rtol=1e-6)
    assert "more_would_leave" not in section
    assert "unexplained_share" not in fitted["poisson"].report()["basis"]


def test_forecasts_are_what_larger_bases_leave():
    """Of points from as many rows, at other rows."""
    kernel, many = RBF(0.1), np.linspace(0.0, 1.0, 400)[:, np.newaxis]
    basis = Nystroem.from_kernel(kernel, many[::100])
    found = _forecast_points(basis, many)
    fitted = PLSRegressor(kernel, optimizer=None, n_inducing=8, random_state=0)
    larger = fitted.fit(many, np.sin(9.0 * many[:, 0]))
    own = larger.report(many)["basis"]["unexplained_share"]
    assert_allclose(found[8], own, rtol=0.1)
    # points of four times the size need twice as many rows
    assert list(_forecast_points(basis, many[:30])) == []
    assert list(_forecast_points(basis, many[:31])) == [8]
    assert list(_forecast_points(basis, many[:63])) == [8, 16]


@pytest.mark.parametrize("n", [_ROWS - 1, _ROWS, _ROWS + 1])
def test_at_most_so_many_rows_are_looked_at(n):
    rows = np.arange(float(n))[:, np.newaxis]
    found = _some(rows)
    assert len(found) == min(n, _ROWS)
    assert (found[0], found[-1]) == (0.0, n - 1.0)
    assert np.all(np.diff(found[:, 0]) > 0.0)


def test_what_functions_leave_out_is_what_others_add(fitted):
    model = fitted["fourier"]
    section = model.report()["basis"]
    shares = {15: section["unexplained_share"], **section["more_would_leave"]}
    assert list(shares) == [15, 30, 60]
    spectrum = model.spectrum_
    for low, high in ((15, 30), (30, 60)):
        total = np.sum(spectrum[low:high]) / (shares[low] - shares[high])
        assert_allclose(total, np.sum(spectrum), rtol=0.05)
    assert fitted["stein"].report()["basis"]["models"] == 2


def test_chains(fitted):
    model = fitted["poisson"]
    section = model.report()["inference"]
    assert section["largest_rhat"] == np.max(model.rhat_)
    assert section["smallest_ess"] == np.min(model.ess_)
    assert fitted["pls"].report()["inference"]["law"] == "closed form"
    model.rhat_ = np.full(6, np.inf)
    advice = " ".join(model.report()["advice"])
    assert "Chains have not met: R-hat is inf" in advice
    assert "Few independent particles" in advice


def test_held_out_rows(fitted):
    model = fitted["fourier"]
    section = model.report(ROWS, TARGETS)["held_out"]
    law = model.predict_dist(ROWS)
    density = -metrics.neg_log_predictive_density(TARGETS, law)
    assert_allclose(section["mean_log_density_nats"], density)
    assert_allclose(section["mean_crps"], metrics.crps(TARGETS, law))
    inside = metrics.interval_coverage(TARGETS, law.interval(0.9))
    assert_allclose(section["inside_90_%_intervals"], inside)
    assert_allclose(section["r2"], model.score(ROWS, TARGETS))
    wrong = model.report(ROWS, TARGETS + rng.choice([-3.0, 3.0], size=200))
    assert "Intervals are too narrow" in wrong["advice"][-1]
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


# ---- Which rows chose the hyperparameters --------------------------------------------

FREE = {"random_state": 0}
SMOOTH = SpectralVGPRegressor(RBF(0.4), basis="fourier")
FOLDED = TemperedRegressor(PLSRegressor(**PLS), cv=3)
KNOWN = SpectralVGPRegressor(**FEW, basis="inducing", noise_variance=0.04)
NEAR = PLSRegressor(RBF(0.4), optimizer="neighbourhoods", n_inducing=6)
LEARNED_EXACT = GaussianProcessRegressor(RBF(0.4), alpha=0.04)
EVIDENCE, PRICE = "exact evidence", "evidence less a price for parameters"
SEARCHES = {
    "pls": (
        PLSRegressor(**FREE),
        {"criterion": EVIDENCE, "rows_searched": 60, "chosen_by": PRICE},
    ),
    "bound": (
        PLSRegressor(RBF(0.4), n_inducing=20, **FREE),
        {"criterion": "bound of 20 inducing points", "rows_searched": 60},
    ),
    "fixed": (PLSRegressor(**PLS), {"criterion": "nothing was free"}),
    "neighbourhoods": (NEAR, {"criterion": "exact evidence, averaged"}),
    "functions": (SMOOTH, {"rows_searched": "all", "distinct_rows": None}),
    "points": (
        SpectralVGPRegressor(RBF(0.4), basis="inducing", **FREE),
        {"criterion": EVIDENCE, "rows_searched": 60, "noise": "bound of all rows"},
    ),
    "known": (KNOWN, {"criterion": "nothing was free", "noise": None}),
    "stein": (
        SteinRFFRegressor(RBF(0.4), n_components=2, n_frequencies=8, max_iter=2),
        {
            "rows_searched": 51,
            "rows_that_moved_frequencies": 60,
            "errors_that_tempered": 9,
        },
    ),
    "gwi": (
        GWIRegressor(kernel=RBF(0.4), mean="svgp", **FREE),
        {"criterion": EVIDENCE, "rows_searched": 60, "errors_that_tempered": 18},
    ),
    "around": (
        GWIRegressor(DecisionTreeRegressor(), kernel=RBF(0.4), edges=0, **FREE),
        {"rows_kept_out_for_noise": 60, "errors_that_tempered": 60},
    ),
    "decoupled": (DecoupledSampler(), {"criterion": EVIDENCE, "chosen_by": PRICE}),
    "exact": (
        DecoupledSampler(LEARNED_EXACT),
        {"criterion": EVIDENCE, "rows_searched": 60},
    ),
    "piped": (
        TemperedRegressor(make_pipeline(StandardScaler(), LEARNED_EXACT), cv=2),
        {"criterion": EVIDENCE, "errors_that_tempered": 60},
    ),
    "tempered": (
        FOLDED,
        {"criterion": "nothing was free", "errors_that_tempered": 60},
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_which_rows_chose_the_hyperparameters(name):
    model, expected = SEARCHES[name]
    report = clone(model).fit(X, Y).report()
    for key, value in expected.items():
        assert report["search"].get(key) == value, key
    assert "criterion" in repr(report)
    stages = {f"megabytes_added_by_{stage}" for stage in report["seconds"]}
    assert stages - {"megabytes_added_by_total"} <= set(report["memory"])


@pytest.mark.parametrize("n", [4499, 4500])
def test_rows_that_judge_are_reported(n):
    """From 4500 rows on candidates are compared by rows that no search reads."""
    many = rng.uniform(-3.0, 3.0, size=(n, 1))
    y = np.sin(3.0 * many[:, 0]) + 0.2 * rng.normal(size=n)
    search = PLSRegressor(RBF(0.4), **FREE).fit(many, y).report()["search"]
    assert (search["distinct_rows"], search["rows_searched"]) == (n, 1500)
    assert search.get("rows_kept_out_to_choose", 0) == (1500 if n >= 4500 else 0)
    assert search["noise"] == "bound of all rows"


def test_the_pilot_is_reported():
    many = np.linspace(-3.0, 3.0, 20_001)[:, np.newaxis]
    y = np.sin(3.0 * many[:, 0]) + 0.2 * rng.normal(size=len(many))
    section = clone(SMOOTH).fit(many, y).report()["search"]
    assert section["pilot_rows"] == 20_000
    assert "pilot_rows" not in clone(SMOOTH).fit(X, Y).report()["search"]


def test_memory_is_the_growth_of_the_peak(monkeypatch):
    peaks = iter([10.0, 10.0, 12.5, 13.0])
    monkeypatch.setattr(_stage_clock, "_peak_megabytes", lambda: next(peaks))
    clock = _stage_clock.StageClock()
    for stage in ("search", "law", "search"):
        clock.end_of(stage)
    assert clock.megabytes == {"search": 0.5, "law": 2.5}
    monkeypatch.setattr(_stage_clock, "_peak_megabytes", lambda: None)
    elsewhere = _stage_clock.StageClock()
    elsewhere.end_of("search")
    assert (elsewhere.megabytes, list(elsewhere.seconds)) == ({}, ["search"])


@pytest.mark.skipif(sys.platform != "linux", reason="memory in use is read from /proc")
def test_the_peak_is_in_mebibytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    now = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    # some systems add what a parent process had needed
    assert now <= _stage_clock._peak_megabytes() <= 100.0 * now


def test_models_that_cannot_be_pickled_and_those_not_fitted():
    model = PLSRegressor(**{**PLS, "inducing": lambda X, *_: X[:4]}).fit(X, Y)
    assert np.isnan(model.report()["memory"]["model_megabytes"])
    for one in (PLSRegressor(), DecoupledSampler(), SteinFourierFeatures()):
        with pytest.raises(NotFittedError):
            one.report()


# ---- ArviZ ---------------------------------------------------------------------------


class Kept(dict):
    """What a stand-in for ArviZ was given."""


def stand_in(version, nested):
    module = types.ModuleType("arviz")
    module.__version__ = version
    if nested:
        module.from_dict = lambda data, dims: Kept(data, dims=dims)
    else:
        module.from_dict = lambda dims, **data: Kept(data, dims=dims)
    return module


@pytest.mark.parametrize(("version", "nested"), [("0.23.4", False), ("1.1.0", True)])
def test_both_interfaces_of_arviz(version, nested, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", stand_in(version, nested))
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    model = fitted["poisson"]
    found = model.to_arviz()
    assert_array_equal(found["posterior"]["weights"][0, 3], model.particles_[:, :, 3])
    counts = np.round(np.exp(TARGETS))
    drawn = model.to_arviz(ROWS, counts, n_samples=400, random_state=0)
    assert drawn["posterior"]["f"].shape == (1, 400, 200, 1)
    y = drawn["posterior_predictive"]["y"][0]
    law = model.predict_dist(ROWS)
    assert np.all(np.abs(y.mean(axis=0) - law.mean()) < 5.0 * law.std() / 20.0)
    fits = drawn["log_likelihood"]["y"][0]
    density = np.log(np.mean(np.exp(fits), axis=0))
    assert_allclose(density, law.log_density(counts), atol=0.3)
    assert_array_equal(drawn["observed_data"]["y"], counts)
    interface, other = "inference_data", "data_tree"
    interface, other = (other, interface) if nested else (interface, other)
    assert isinstance(model.to_arviz(interface=interface), Kept)
    with pytest.raises(ImportError, match="pip install"):
        model.to_arviz(interface=other)
    labels = np.where(TARGETS > 0.0, "up", "down")
    classes = fitted["classes"].to_arviz(ROWS, labels, n_samples=3)
    assert set(np.unique(classes["observed_data"]["y"])) == {0.0, 1.0}
    for wrong in (counts[:3], counts + 0.5):
        with pytest.raises(ValueError, match=r"shape \(200,\)|Poisson expects"):
            model.to_arviz(ROWS, wrong, n_samples=2)
    with pytest.raises(ValueError, match="has no particles"):
        fitted["fourier"].to_arviz()
    with pytest.raises(ValueError, match="interface must be one of"):
        model.to_arviz(interface="xarray")


def test_without_arviz(fitted, monkeypatch):
    for name in ("arviz", "arviz_base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="to_arviz needs ArviZ"):
        fitted["pls"].to_arviz()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["arviz", "arviz_base"])
def test_what_arviz_makes_of_it(name, fitted, monkeypatch):
    module = pytest.importorskip(name, exc_type=ImportError)
    other = {"arviz": "arviz_base", "arviz_base": "arviz"}[name]
    monkeypatch.setitem(sys.modules, other, None)
    model = fitted["poisson"]
    counts = np.round(np.exp(TARGETS))
    data = model.to_arviz(ROWS, counts, n_samples=50, random_state=0)
    assert data["posterior"]["f"].sizes["row"] == 200
    assert data["posterior"]["f"].dims == ("chain", "draw", "row", "output")
    assert data["log_likelihood"]["y"].shape == (1, 50, 200)
    assert data["observed_data"]["y"].dims == ("row",)
    kind = "DataTree" if name == "arviz_base" else type(data).__name__
    assert type(data).__name__ == kind
    weights = model.to_arviz()["posterior"]["weights"]
    assert weights.dims == ("chain", "draw", "basis", "output")
    if hasattr(module, "loo"):
        assert np.isfinite(module.loo(data).elpd_loo)
