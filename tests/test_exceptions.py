"""A fit warns once a category, in classes that can be filtered, at the user's line."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
)
from skgpx._validation import canonical_rows
from skgpx.diagnostics import (
    Finding,
    conclude,
    residual_autocorrelation,
    varying_noise,
)
from skgpx.exceptions import (
    ConvergenceWarning,
    DataWarning,
    FitWarning,
    PredictionWarning,
    SkgpxWarning,
)
from skgpx.likelihoods import Gaussian, Poisson, StudentT

rng = np.random.default_rng(0)
X = np.linspace(0.0, 1.0, 40)[:, None]
Y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)


def shares():
    PLSRegressor(optimizer=None).fit(X, Y, sample_weight=np.full(40, 1 / 40))


def outside():
    SpectralVGPRegressor("series", n_basis=9).fit(X, Y).predict(X + 5.0)


def no_exposure():
    counts = rng.poisson(3.0, 40)
    model = PLSRegressor(likelihood=Poisson(), optimizer=None, max_iter=5, tol=9.0)
    model.fit(X, counts, exposure=np.full(40, 2.0)).score(X, counts)


def short_chains():
    chains = PLSRegressor(likelihood=StudentT(scale=0.1), max_iter=4, random_state=0)
    DecoupledSampler(chains.set_params(optimizer=None, tol=1.0)).fit(X, Y)


CASES = [
    (shares, DataWarning),
    (outside, PredictionWarning),
    (no_exposure, PredictionWarning),
    (short_chains, ConvergenceWarning),
]


@pytest.mark.parametrize(("call", "category"), CASES, ids=lambda one: one.__name__)
@pytest.mark.filterwarnings("default")
def test_warnings_have_their_class_and_place(call, category):
    with pytest.warns(category) as given:
        call()
    assert all(issubclass(one.category, SkgpxWarning) for one in given)
    assert {one.filename for one in given} == {__file__}


def test_several_findings_make_one_warning_a_category():
    found = (
        Finding("a", "First."),
        Finding("b", "Second."),
        Finding("c", "Third.", ConvergenceWarning),
    )
    model = BaseEstimator()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        conclude(model, [None])
        assert model.findings_ == ()
        assert not caught
        conclude(model, [found[0], None, *found[1:]])
    assert model.findings_ == found
    assert [one.category for one in caught] == [FitWarning, ConvergenceWarning]
    assert "- First.\n- Second." in str(caught[0].message)
    assert str(caught[1].message) == "Third."


@pytest.mark.parametrize("d", [1, 3])
def test_residuals_of_neighbours(d):
    rng = np.random.default_rng(d)
    X = rng.uniform(size=(400, d))
    noise = rng.standard_normal(400)
    missed = np.sin(20.0 * X[:, 0]) + noise
    ones = np.ones(400)
    assert residual_autocorrelation(X, noise, ones, float(np.var(noise))) is None
    found = residual_autocorrelation(X, missed, ones, float(np.var(missed)))
    assert "along column 0" in found.message


# Columns as they come in tables: levels, grids, lags, rounded numbers, and integers
# beside continuous columns.
REPEATED = {
    "two levels": lambda rng, n: rng.integers(0, 2, (n, 1)),
    "101 levels": lambda rng, n: rng.integers(0, 101, (n, 1)),
    "a grid": lambda rng, n: rng.integers(0, 5, (n, 2)),
    "rounded": lambda rng, n: rng.normal(size=(n, 2)).round(1),
    "one of integers": lambda rng, n: np.column_stack(
        (rng.integers(0, 10, n), rng.normal(size=n))
    ),
    "lags": lambda rng, n: np.lib.stride_tricks.sliding_window_view(
        rng.integers(0, 6, n + 2), 3
    ),
}


@pytest.mark.parametrize("design", REPEATED)
def test_residuals_at_inputs_that_repeat(design):
    """Rows come in the order of (X, y): of noise nothing is found, a step is."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = (150, 1000)[seed % 2]
        X = np.asarray(REPEATED[design](rng, n), dtype=np.float64)
        for noise in (rng.normal(size=n), rng.poisson(2.0, n), rng.standard_t(3, n)):
            rows = canonical_rows(X, noise.astype(np.float64), np.ones(n))
            residuals = rows.y - np.average(rows.y, weights=rows.weights)
            variance = float(np.average(residuals**2, weights=rows.weights))
            how = rows.X, residuals, rows.weights, variance
            assert residual_autocorrelation(*how) is None
        missed = 2.0 * np.sign(X[:, 0] - X[:, 0].mean()) + rng.normal(size=n)
        rows = canonical_rows(X, missed - missed.mean(), np.ones(n))
        how = rows.X, rows.y, rows.weights, float(np.var(missed))
        assert residual_autocorrelation(*how) is not None


@pytest.mark.parametrize("estimator", [PLSRegressor, ExactGPRegressor])
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_noise_at_ten_levels(estimator):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, 300)[:, np.newaxis]
    model = estimator(random_state=0).fit(X, rng.normal(size=300))
    assert [finding.check for finding in model.findings_] == ["no signal"]


@pytest.mark.parametrize("make", [Gaussian, StudentT])
def test_sizes_of_residuals_in_thirds(make):
    rng = np.random.default_rng(0)
    X, z = rng.uniform(size=(300, 3)), rng.standard_normal(300)
    mean, tails = X[:, 0], rng.standard_cauchy(300)
    assert varying_noise(X, mean, z, make()) is None
    assert varying_noise(X, mean, tails, make()) is None
    assert varying_noise(X[:80], mean[:80], (z * X[:, 1])[:80], make()) is None
    found = varying_noise(X, mean, z * X[:, 1], make())
    assert "varies with column 1" in found.message
    assert "with its largest values, where intervals are too narrow" in found.message
    assert f"likelihood=Heteroscedastic{make.__name__}()" in found.message
    found = varying_noise(X[:, 1:], mean, z * np.exp(-3.0 * mean), make())
    assert "varies with the predicted mean" in found.message
    assert varying_noise(X, mean, z * X[:, 1], Poisson()) is None


def test_every_finding_and_class_of_warning_is_explained():
    root = Path(__file__).parents[1]
    sources = [one.read_text(encoding="utf-8") for one in root.glob("skgpx/**/*.py")]
    findings = re.findall(r'\bFinding\(\s*"([^"]+)"', "\n".join(sources))
    classes = re.findall(r"class (\w+Warning)\(", "\n".join(sources))
    page = (root / "docs" / "warnings.md").read_text(encoding="utf-8")
    explained = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    assert {one.lower() for one in explained} == {
        one.lower() for one in (*findings, *classes)
    }
