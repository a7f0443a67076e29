"""A fit warns once a category, in classes that can be filtered, at the user's line."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx.diagnostics import Finding, conclude
from skgpx.exceptions import (
    ConvergenceWarning,
    DataWarning,
    FitWarning,
    PredictionWarning,
    SkgpxWarning,
)
from skgpx.likelihoods import Poisson, StudentT

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


# One of each estimator with rows, trained on five columns.
MODELS = [
    PLSRegressor(optimizer=None),
    PLSRegressor(optimizer=None, n_inducing=20, n_neighbors=0),
    PLSClassifier(optimizer=None, max_iter=5, tol=9.0),
    SpectralVGPRegressor(RBF(), basis="inducing"),
    SteinRFFRegressor(max_iter=2, random_state=0),
    ExactGPRegressor(optimizer=None, n_draws=2, random_state=0),
    GWIRegressor(random_state=0),
    GWIRegressor(Ridge(), RBF(), random_state=0),
    GWIClassifier(random_state=0),
    DecoupledSampler(PLSRegressor(optimizer=None), random_state=0),
    TemperedRegressor(PLSRegressor(optimizer=None)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::skgpx.exceptions.ConvergenceWarning")
def test_rows_far_outside_in_many_columns_are_named(model):
    """One column, a twentieth of the rows and heavy tails are not many."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_t(3, (60, 5))
    y = inputs[:, 0] + 0.3 * rng.standard_normal(60)
    if is_classifier(model):
        y = y > 0.0
    model = clone(model).fit(inputs, y)
    ordinary = rng.standard_t(3, (40, 5))
    later = ordinary + np.array([100.0, 100.0, 0.0, 0.0, 0.0])
    few = ordinary + np.where(np.arange(40) < 2, 100.0, 0.0)[:, np.newaxis]
    for rows in (inputs, ordinary, later, few):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PredictionWarning)
            model.predict(rows)
    batch = ordinary + np.array([0.0, 0.0, 100.0, -100.0, 100.0])
    with pytest.warns(PredictionWarning, match="40 of 40 rows are far outside") as seen:
        model.predict(batch)
    assert sum("far outside" in str(one.message) for one in seen) == 1


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
def test_rows_that_were_added_are_not_far_outside():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((40, 3))
    far = inputs + 100.0
    first = PLSRegressor(RBF(), optimizer=None, random_state=0).fit(inputs, Y)
    second = clone(first).fit(inputs, Y).partial_fit(far, Y)
    for model in (second, first + second):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PredictionWarning)
            model.predict(far)
    with pytest.warns(PredictionWarning, match="far outside"):
        first.predict(far)


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
