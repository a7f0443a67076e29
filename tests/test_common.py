"""What scikit-learn and its users expect of every estimator."""

import tracemalloc

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx.likelihoods import Poisson, StudentT

# Few functions, few chains, and rounds that end at a generous agreement.
FAST = {"n_inducing": 10, "n_particles": 8, "tol": 3.0, "random_state": 0}


# One instance of each estimator, with its defaults where these are quick. A given
# kernel leaves out the search over families, which tests/test_doors.py takes through
# rows of every shape; its hyperparameters are averaged all the same.
@parametrize_with_checks(
    [
        PLSRegressor(RBF(), **FAST),
        PLSClassifier(RBF(), **FAST),
        DecoupledSampler(
            GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None),
            n_basis=64,
            random_state=0,
        ),
        SpectralVGPRegressor(n_basis=31),
        SpectralVGPRegressor(RBF(), basis="inducing", n_basis=10, random_state=0),
        SteinFourierFeatures(n_frequencies=10, n_steps=20, random_state=0),
        SteinRFFRegressor(
            n_components=2,
            n_frequencies=10,
            max_iter=5,
            optimizer=None,
            random_state=0,
        ),
        ExactGPRegressor(RBF(), n_draws=4, random_state=0),
        # of columns as the checks have them
        ExactGPRegressor(
            interaction_cst="pairwise", optimizer=None, n_draws=4, random_state=0
        ),
        GWIRegressor(
            "svgp",
            interaction_cst="pairwise",
            optimizer=None,
            n_inducing=10,
            random_state=0,
        ),
        PLSRegressor(
            interaction_cst="no_interactions",
            optimizer=None,
            n_inducing=40,
            random_state=0,
        ),
        PLSClassifier(interaction_cst="no_interactions", optimizer=None, **FAST),
        TemperedRegressor(BayesianRidge()),
        GWIRegressor("net", RBF(), n_estimators=2, max_iter=200, random_state=0),
        GWIRegressor(BayesianRidge(), RBF(), n_inducing=10, cv=2, random_state=0),
        GWIClassifier(LogisticRegression(), RBF(), n_inducing=10, cv=2, random_state=0),
    ]
)
# in many checks y is independent of X, and the warning is right
# data of the checks: noise, or a mean that is linear around a curve
@pytest.mark.filterwarnings("ignore:At held-out rows the squared error")
@pytest.mark.filterwarnings("ignore:Nothing but noise was found")
@pytest.mark.filterwarnings("ignore:The noise varies with")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
    return X, f + 0.2 * rng.normal(size=n)


X, Y = data()
LABELS = np.where(np.sin(3.0 * Y) > 0.0, "yes", "no")
THREE = np.digitize(Y + 0.3 * np.cos(9.0 * Y), [-0.4, 0.4])

# name -> (estimator, targets): one for every path through fit.
CASES = {
    "gaussian": (PLSRegressor(**FAST), Y),
    "poisson": (PLSRegressor(likelihood=Poisson(), **FAST), np.round(np.exp(Y))),
    "binary": (PLSClassifier(**FAST), LABELS),
    "multiclass": (PLSClassifier(**FAST), THREE),
    "smc": (PLSClassifier(method="smc", **FAST), LABELS),
}
NO_PRIOR_SEARCH = {"kernel": RBF(1.0), "optimizer": None}
cases = pytest.mark.parametrize("case", CASES)
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def fitted():
    """One fit of each case, shared by the tests that only read it."""
    models = {}
    for name, (estimator, y) in CASES.items():
        models[name] = clone(estimator).set_params(**NO_PRIOR_SEARCH).fit(X, y)
    return models


def outputs(model, X=X):
    """All deterministic predictions of a model at some rows."""
    if is_classifier(model):
        latent = model.latent_mean_and_variance(X)
        return [model.predict_proba(X), *latent]
    std = model.predict(X, return_std=True)
    latent = model.predict(X, return_std=True, include_noise=False)
    return [*std, *latent, model.predict_quantiles(X, (0.1, 0.5))]


def assert_same_bits(one, other):
    assert_array_equal(one.particles_, other.particles_)
    for a, b in zip(outputs(one), outputs(other), strict=True):
        assert_array_equal(a, b)


@cases
def test_unfitted(case):
    estimator = clone(CASES[case][0])
    calls = dict.fromkeys(("predict", "sample_y"), (X,))
    calls |= {"sample_functions": (), "log_predictive_density": (X, Y)}
    classes = ("predict_proba", "latent_mean_and_variance")
    numbers = ("predict_quantiles", "predict_interval")
    calls |= dict.fromkeys(classes if is_classifier(estimator) else numbers, (X,))
    for method, arguments in calls.items():
        with pytest.raises(NotFittedError):
            getattr(estimator, method)(*arguments)


def with_search(case):
    """The case with one lengthscale to search for; scikit-learn's checks have more."""
    estimator, y = CASES[case]
    return clone(estimator).set_params(kernel=RBF(1.0), n_inducing=6), y


@cases
def test_weights_are_repetitions_in_any_order(case):
    estimator, y = with_search(case)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, size=len(y))
    weights[0] = 0
    repeated = rng.permutation(np.repeat(np.arange(len(y)), weights))
    weighted = clone(estimator).fit(X, y, sample_weight=weights)
    written_out = clone(estimator).fit(X[repeated], y[repeated])
    assert_same_bits(weighted, written_out)


@cases
def test_same_seed_same_bits_and_the_global_stream_stays(case):
    estimator, y = with_search(case)
    before = np.random.get_state()  # noqa: NPY002
    one, two = (clone(estimator).fit(X, y) for _ in range(2))
    assert_same_bits(one, two)
    a, b = (model.sample_y(X, 3, random_state=1) for model in (one, two))
    assert_array_equal(a, b)
    draws = [model.sample_functions(2, random_state=1)(X) for model in (one, two)]
    assert_array_equal(*draws)
    for old, new in zip(before, np.random.get_state(), strict=True):  # noqa: NPY002
        assert_array_equal(old, new)


# Several blocks of chains and of rows, so that there is work for several threads.
MANY = {"n_particles": 120, **NO_PRIOR_SEARCH}


@pytest.mark.parametrize(
    ("case", "backend"),
    [(name, "threading") for name in ("gaussian", "multiclass", "smc")]
    + [("binary", "loky")],
)
def test_same_bits_for_every_number_of_workers(case, backend):
    estimator, y = CASES[case]
    estimator = clone(estimator).set_params(**MANY)
    one = clone(estimator).set_params(n_jobs=1).fit(X, y)
    assert_same_bits(one, clone(estimator).set_params(n_jobs=2).fit(X, y))
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert_same_bits(one, clone(estimator).fit(X, y))


@cases
def test_blocks_of_rows_fit_in_the_working_memory(case, fitted):
    model = fitted[case]
    many = np.random.default_rng(3).normal(size=(2000, 2))
    whole = outputs(model, many[:300])
    with sklearn.config_context(working_memory=1):
        assert max(b.stop - b.start for b in model._distribution(many).blocks()) < 300
        for a, b in zip(whole, outputs(model, many[:300]), strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())
        method = model.predict_proba if is_classifier(model) else model.predict
        tracemalloc.start()
        result = method(many)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 5 * 2**20 + 4 * result.nbytes


def test_grid_search_over_a_likelihood_parameter():
    model = PLSRegressor(likelihood=StudentT(), **NO_PRIOR_SEARCH, **FAST)
    grid = {"likelihood__df": [3.0, 30.0], "n_inducing": [5, 10]}
    search = GridSearchCV(model, grid, cv=2).fit(X, Y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert (
        search.best_estimator_.likelihood_.df == search.best_params_["likelihood__df"]
    )
    assert search.predict(X).shape == Y.shape


@pytest.mark.parametrize("routing", [False, True])
def test_return_std_passes_through_a_pipeline(routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(
            StandardScaler(), PLSRegressor(**NO_PRIOR_SEARCH, **FAST)
        ).fit(X, Y)
        mean, std = pipeline.predict(X, return_std=True)
        _, latent = pipeline.predict(X, return_std=True, include_noise=False)
        _, covariance = pipeline.predict(X, return_cov=True)
        assert pipeline.predict(X).shape == Y.shape
    assert mean.shape == std.shape == Y.shape
    assert np.all(latent < std)
    assert_allclose(np.sqrt(np.diag(covariance)), std)
